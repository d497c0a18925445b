/* The lease of a world ([standby] lease): which of several machines may keep it. The machine that
 * holds it renews it. Another machine may take it when it is free, or was not renewed for its whole
 * time.
 *
 * No two clocks are ever compared. The holder counts from before its request, and stops a margin
 * earlier. The other machine counts from after it first saw a renewal, and waits a margin longer.
 * Both use their own monotonic clocks (clock.h: suspension counts). So a holder has stopped before
 * another begins, whatever happens to answers on the way.
 *
 *     s3    lease.json in the world's directory of the [offsite] store, written conditionally only;
 *           the object stays, so its number continues to grow
 *     etcd  /worldkeeper/WORLD/lease, which etcd deletes after its time;
 *           /worldkeeper/WORLD/last stays
 *
 * Calls block, for at most half the lease's time or ten seconds per request, whichever is less; so
 * they are made in workers and actions only. One struct lease, one thread. */
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
    LEASE_HELD,    /* another machine has it, or was first */
    LEASE_AWAY,    /* no answer, or one that proves nothing: the same call may succeed later */
    LEASE_REFUSED, /* needs an operator: a login, a store whose conditions are not proven, … */
};

/* The stored form. */
struct lease_record {
    uint64_t number;               /* grows with each take; 0: never taken */
    uint64_t generation;           /* of the world, as last written by its holder */
    char holder[LEASE_HOLDER_MAX]; /* state_holder(); the last holder, if it is free */
    bool free;
    int64_t ttl; /* ms, from its holder's config; 0: not known */
};

/* A lease that was taken here. */
struct lease_grant {
    uint64_t number;     /* a fencing number: only grows */
    uint64_t generation; /* written with the next renewal; the caller may raise it */
    char holder[LEASE_HOLDER_MAX];
    mono_t valid_until; /* by our own monotonic clock: nothing may be done from then on */
};

/* Writes "HOST/0123… has the lease of this world, number 7", or "had". */
#define LEASE_WORDS (LEASE_HOLDER_MAX * 4 + 80)
const char *lease_words(const struct lease_record *r, char out[LEASE_WORDS]);

struct lease;

/* Opens the lease. `cfg` is borrowed and has [standby] lease = s3 or etcd; `dirfd` is the dump
 * directory, which holds the proof of an s3 store; `holder`: state_holder(). LEASE_REFUSED: a
 * secret cannot be read; s3: not proven. */
enum lease_result lease_open(const struct config *cfg, int dirfd, const char *holder,
                             struct lease **out, struct err *e);
void lease_close(struct lease *l); /* NULL is allowed */

enum lease_result lease_read(struct lease *l, struct lease_record *out, struct err *e);

/* What lease_read() and lease_take() have seen, for another struct lease of the same place, in this
 * process or in a fork of it, so that a promotion need not repeat the wait of a standby that
 * watched.
 *
 * It does not prove that the lease has ended. Each renewal in s3, and each take in etcd, changes
 * the version, and no version ever returns. So if the next look finds the same version, there was
 * no renewal in between, however long that is, and its holder had asked before `since`. If it finds
 * another version, the earlier observation is dropped. `since` is by our own clock, which counts
 * suspension; no other machine's clock is involved. That clock restarts with each boot, so the
 * observation is never written to disk. */
struct lease_seen {
    /* s3: the version of lease.json; etcd: that of the key "last", seen while the key "lease" did
     * not exist; "": unknown */
    char version[LEASE_VERSION_MAX];
    mono_t since;
};
void lease_seen_get(const struct lease *l, struct lease_seen *out);
/* Call this before the first look. */
void lease_seen_set(struct lease *l, const struct lease_seen *seen);

/* Takes the lease if it is free, if it is ours (after a restart), or if calls of lease_read() and
 * lease_take() saw it unchanged through all of its time, with this struct or with the one whose
 * lease_seen it got. So a held lease is taken by calling again until then. The new number is above
 * that of the record, and above `above`, the highest that the caller has ever seen, because a store
 * may have been lost. LEASE_HELD: *wait is the ms until another attempt makes sense; -1 if another
 * machine was just faster. */
enum lease_result lease_take(struct lease *l, uint64_t above, uint64_t generation,
                             struct lease_grant *out, int64_t *wait, struct err *e);

/* Renews it: g->valid_until moves. After LEASE_AWAY it is unknown whether the renewal counted: the
 * grant is unchanged, call again. LEASE_HELD: it is no longer ours, whatever valid_until says;
 * lease_read() tells whose it is. A grant with number 0 stands for any lease taken under our name
 * before (a restart): it is looked up. */
enum lease_result lease_renew(struct lease *l, struct lease_grant *g, struct err *e);

/* Checks that a machine could take it now if it was free. In etcd a renewal needs no space, but
 * taking it does. LEASE_REFUSED: no, and `e` says what to do. s3: a successful renewal proves
 * it. */
enum lease_result lease_takeable(struct lease *l, struct err *e);

/* Gives it back at once, so that another machine need not wait. Call it after everything has ended.
 * LEASE_HELD: it was no longer ours. */
enum lease_result lease_release(struct lease *l, struct lease_grant *g, struct err *e);

/* ---- decisions: pure ---- */

/* Returns true if the place of the lease names this machine (`holder`) with the number that it
 * held last (0: none). Then no other machine has taken the lease since, unless the place was
 * restored from an older backup. */
bool lease_unchanged(const struct lease_record *r, const char *holder, uint64_t number);

#define LEASE_MARGIN(ttl) ((ttl) / 5)

/* Returns when a lease ends for its holder, which asked for it at `asked`. */
static inline mono_t lease_ends(mono_t asked, int64_t ttl)
{
    return mono_add(asked, ttl - LEASE_MARGIN(ttl));
}

enum lease_hold {
    LEASE_IS_HELD,
    LEASE_DOUBTFUL, /* held, but renewals fail: nothing that takes long may begin */
    LEASE_GONE,
};
/* Judges `valid_until` (ms 0: never granted). */
enum lease_hold lease_judge(mono_t valid_until, int64_t ttl, mono_t now);

/* ---- --check ---- */

struct lease_proof {
    char members[300]; /* etcd: names of the members, separated by ", " */
    unsigned count, answered;
    int64_t ttl;     /* etcd: seconds that it grants for our ttl; 0: unknown */
    bool conditions; /* s3: the store honors If-None-Match and If-Match */
};
/* Tests what a lease needs, in temporary objects, and stores in `dirfd` what an s3 store did:
 * proven or not. LEASE_REFUSED: it cannot serve as a lease. */
enum lease_result lease_prove(const struct config *cfg, int dirfd, struct lease_proof *out,
                              struct err *e);

#endif
