/* The lease of a world ([standby] lease): which of several machines may keep it. The machine that holds it
 * renews it; another may take it once it is free, or was not renewed for its whole time.
 *
 * No two clocks are ever compared. The holder counts from the moment before it asked, and stops a margin
 * earlier; the other counts from the moment after it first saw a renewal, and waits a margin longer, both on
 * their own monotonic clocks (clock.h: suspension counts). So a holder has stopped before another begins,
 * whatever happens to answers on the way.
 *
 *     s3    lease.json in the world's directory of the [offsite] store, written on condition only; the
 *           object stays, so its number goes on growing
 *     etcd  /worldkeeper/WORLD/lease, which etcd deletes after its time; /worldkeeper/WORLD/last stays
 *
 * Calls block, for about half the lease's time or some ten seconds for each of their requests, whichever is less; so they
 * are made in workers and actions only. One struct lease, one thread. */
#ifndef WK_STANDBY_LEASE_H
#define WK_STANDBY_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "config/config.h"

#define LEASE_HOLDER_MAX 128
#define LEASE_VERSION_MAX 130

enum lease_result {
    LEASE_OK,
    LEASE_HELD, /* another machine has it, or was first */
    LEASE_AWAY, /* no answer, or one that says nothing: the same call may succeed later */
    LEASE_REFUSED, /* not without somebody's help: a login, a store whose conditions are not proved … */
};

/* As it is written down. */
struct lease_record {
    uint64_t number;               /* grows with each take; 0: nobody has taken it yet */
    uint64_t generation;           /* of the world, as its holder last said */
    char holder[LEASE_HOLDER_MAX]; /* state_holder(); who had it last, if it is free */
    bool free;
    int64_t ttl; /* ms, by its holder's config; 0: not known */
};

/* A lease that was taken here. */
struct lease_grant {
    uint64_t number;     /* a fencing number: only grows */
    uint64_t generation; /* told to others with the next renewal; the caller may raise it */
    char holder[LEASE_HOLDER_MAX];
    mono_t valid_until; /* of our own monotonic clock: nothing may be done from then on */
};

/* "HOST/0123… has the lease of this world, number 7", or had it. */
#define LEASE_WORDS (LEASE_HOLDER_MAX * 4 + 80)
const char *lease_words(const struct lease_record *r, char out[LEASE_WORDS]);

struct lease;

/* `cfg` is borrowed and has [standby] lease = s3 or etcd; `dirfd` is the dump directory, where the proof of an
 * s3 store is kept; `holder`: state_holder(). LEASE_REFUSED: a secret cannot be read; s3: unproved. */
enum lease_result lease_open(const struct config *cfg, int dirfd, const char *holder,
                             struct lease **out, struct err *e);
void lease_close(struct lease *l); /* NULL: nothing */

enum lease_result lease_read(struct lease *l, struct lease_record *out, struct err *e);

/* What lease_read() and lease_take() have seen, for another struct lease of the same place, in this process or in a
 * fork of it: so a promotion need not wait again for what a standby has watched.
 *
 * It is no word that the lease is over. Whoever renews it in s3, or takes it in etcd, changes the version, and none
 * ever comes back: where the next look finds the one that was seen, nobody did so in between, however long that is, and
 * its holder had asked before `since`. Where it finds another, what was seen is forgotten. `since` is of our own clock,
 * which counts suspension; no clock of another machine has a part in it. That clock starts anew with each boot: so what
 * was seen is never written to a disk. */
struct lease_seen {
    /* s3: of lease.json; etcd: of the key that stays, while the other one was gone; "": nothing is known */
    char version[LEASE_VERSION_MAX];
    mono_t since;
};
void lease_seen_get(const struct lease *l, struct lease_seen *out);
/* Before the first look. */
void lease_seen_set(struct lease *l, const struct lease_seen *seen);

/* Takes it if it is free, if it is ours (after a restart), or if it was seen unchanged through all of its time
 * by calls of lease_read() and lease_take() of this struct, or of one whose lease_seen it was given: so one that is held
 * is taken by calling again until then. The new number is above that of the record, and above `above` (the highest that
 * the caller has ever seen: a store may have been lost). LEASE_HELD: *wait is after how many ms another try makes sense;
 * it is -1 if another was just faster. */
enum lease_result lease_take(struct lease *l, uint64_t above, uint64_t generation,
                             struct lease_grant *out, int64_t *wait, struct err *e);

/* Renews it: g->valid_until moves. After LEASE_AWAY it is unknown whether the renewal counted: the grant stays as
 * it was, call again. LEASE_HELD: it is not ours any more, whatever valid_until says; lease_read() says whose.
 * A grant with number 0 stands for whatever was taken under our name before (a restart): it is looked up. */
enum lease_result lease_renew(struct lease *l, struct lease_grant *g, struct err *e);

/* Could a machine take it now, if it was free? A renewal needs no room in etcd, and taking it does. LEASE_REFUSED: no, and
 * `e` says what to do. s3: a renewal that succeeds shows it. */
enum lease_result lease_takeable(struct lease *l, struct err *e);

/* Gives it back at once, so that another need not wait. Call it after everything has ended. LEASE_HELD: it was not
 * ours any more. */
enum lease_result lease_release(struct lease *l, struct lease_grant *g, struct err *e);

/* ---- decisions: pure ---- */

#define LEASE_MARGIN(ttl) ((ttl) / 5)

/* When a lease ends for its holder that asked for it at `asked`. */
static inline mono_t lease_ends(mono_t asked, int64_t ttl)
{
    return mono_add(asked, ttl - LEASE_MARGIN(ttl));
}

enum lease_hold {
    LEASE_IS_HELD,
    LEASE_DOUBTFUL, /* held, but renewals fail: nothing that takes long may begin */
    LEASE_GONE,
};
/* From `valid_until` (ms 0: never granted) and now. */
enum lease_hold lease_judge(mono_t valid_until, int64_t ttl, mono_t now);

/* ---- --check ---- */

struct lease_proof {
    char members[300]; /* etcd: their names, separated by ", " */
    unsigned count, answered;
    int64_t ttl;     /* etcd: s that it grants for ours; 0: unknown */
    bool conditions; /* s3: the store honours If-None-Match and If-Match */
};
/* Tries what a lease needs, in objects of its own of which nothing stays, and remembers what an s3 store did in
 * `dirfd`: proved by doing, or not. LEASE_REFUSED: it cannot serve as a lease. */
enum lease_result lease_prove(const struct config *cfg, int dirfd, struct lease_proof *out,
                              struct err *e);

#endif
