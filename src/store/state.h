/* state.json: data that must survive the supervisor, such as the last ALIVE, the generation, a
 * pause. */
#ifndef WK_STORE_STATE_H
#define WK_STORE_STATE_H

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/machine.h"
#include "config/config.h"
#include "mysql/schema.h"
#include "mysql/sentinel.h"

/* Scheduled work. */
struct state_work {
    bool ran;
    wall_t at;       /* when it last began, or since when it has been waiting for the first time */
    char last[1024]; /* JSON text of its last result, or "" */
};

/* The role of this machine for a world with [standby]. */
enum state_role { ROLE_UNSAID, ROLE_PRIMARY, ROLE_STANDBY };

/* What a restore made its world from. It is recorded with the world's nonce, before pending.json is
 * removed. */
struct state_made {
    char nonce[33]; /* nonce of that world; irrelevant for a world with another one */
    char dump[129];
    /* end of the applied changes; file "": not all of the world is of that moment; no GTID */
    struct db_binlog_pos upto;
    bool followed; /* the log continues from the dump across this restore */
};

struct state {
    char world[33]; /* name of the world; "": not known yet */
    bool known;     /* an ALIVE was seen with this nonce */
    char nonce[33];
    /* nonce of a restore that may have swapped but whose outcome is unknown; or "" */
    char next[33];
    uint64_t generation;
    uint64_t round; /* the last round begun (round.h); 0: none by a version that records it here */
    struct server_id server; /* at the last ALIVE */
    wall_t alive_at;
    char boot[MACHINE_BOOT]; /* the boot of this machine at alive_at; "": not known */
    /* the first proof since then that it was gone; ms 0: none. Not saved: a supervisor that was not
     * running cannot know what happened in between */
    wall_t gone_at;
    bool watched;      /* a supervisor runs, or did not shut down cleanly */
    wall_t watched_at; /* last sign of life of the supervisor in this file; ms 0: not known */
    bool paused;
    wall_t pause_until;      /* ms 0: not limited */
    wall_t endless_since;    /* start of a pause without a limit; ms 0: there is none */
    char last_restore[2048]; /* JSON text of the last restore's figures, perhaps shortened, or "" */
    struct state_made made;  /* made by the last restore */
    bool followed;           /* the journal was followed, and has not been switched off since */
    struct state_work drill, verify;
    enum state_role role;
    char holder[128];      /* name for taking leases: host, '/' and random digits; "": never used */
    uint64_t lease_number; /* number of the last lease that was taken here; 0: none */
    char central[33];      /* name of the central store that last accepted blobs; "": none did */
    char habits[4096];     /* JSON text: mass changes that were seen, [{table, columns, at}] */
    char gaps[4096];       /* JSON text of the journal's last gaps: [{at, file, pos, why}] */
};

/* Records that the world was alive at this time, during the present boot of this machine. */
void state_alive(struct state *s, wall_t at);
/* Returns true if it is proven that this machine was not booted since the world was last alive. The
 * wall clock proves nothing: it may be behind after a boot. */
bool state_same_boot(const struct state *s);
/* Records what made the world. Replaces the last restore's figures, because nothing more is known
 * of this one yet. Does nothing if it is already recorded. */
void state_restored(struct state *s, const struct state_made *made);
/* Takes over from `saved`, the state on the disk, what a job has recorded there: a world of a later
 * generation than in `s`, or that this machine stepped back. `wrote` is the state that the caller
 * wrote last; where `saved` equals it, no job has written since, and `s` is newer. */
void state_keep_later(struct state *s, const struct state *saved, const struct state *wrote);
/* Returns -1 if the directory belongs to another world, with its own dumps, locks and
 * supervisor. */
int state_is_of(const struct state *s, const char *world, const char *dir, struct err *e);
/* Loads the state. A missing file gives an empty state; so does a damaged one, with -1 and the
 * reason in `e`, and one that may not be ours: ERR_REFUSED (kept.h). */
int state_load(int dirfd, struct state *out, struct err *e);
/* Returns true if the world is watched here but kept elsewhere: neither --init nor --promote was
 * given here, and it was never seen alive here. Always false without [standby]. */
bool state_standby(const struct state *s, const struct config *c);
/* Sets the name under which this machine takes leases, if there is none or it is another machine's
 * (a copied disk). Returns 1 if it is new and must be saved before use; 0 if it exists; -1 without
 * random numbers. */
int state_holder(struct state *s, struct err *e);
/* Saves a new name: it must be on the disk before it can be in a store. */
int state_keep_holder(struct state *s, int dirfd, struct err *e);
json_t *state_json(const struct state *s);
int state_save(int dirfd, const struct state *s, struct err *e);
/* Signs the existing file, because the caller states that it is ours. */
int state_sign(int dirfd, struct err *e);

#endif
