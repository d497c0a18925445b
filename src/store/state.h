/* state.json: what must survive the supervisor, such as the last ALIVE, the generation, a pause. */
#ifndef WK_STORE_STATE_H
#define WK_STORE_STATE_H

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "config/config.h"
#include "mysql/schema.h"
#include "mysql/sentinel.h"

/* Work by the clock. */
struct state_work {
    bool ran;
    wall_t at;       /* when it last began; else since when it waits for the first time */
    char last[1024]; /* JSON text of its last result, or "" */
};

/* Which machine of a world with [standby] this is. */
enum state_role { ROLE_UNSAID, ROLE_PRIMARY, ROLE_STANDBY };

/* Of what a restore made its world. It is noted with the world's nonce, before pending.json is
 * removed. */
struct state_made {
    char nonce[33]; /* says nothing of a world with another nonce */
    char dump[129];
    struct db_binlog_pos upto; /* with the changes up to here; file "": not all of the world is of
                                  that moment; no GTID */
    bool followed;             /* the log leads from the dump over this restore */
};

struct state {
    char world[33]; /* name of the world; "": not known yet */
    bool known;     /* an ALIVE was seen under this nonce */
    char nonce[33];
    char next[33]; /* a restore may have swapped this one in, and was not heard of again; or "" */
    uint64_t generation;
    uint64_t round; /* that was begun last (round.h); 0: none by a version that notes it here */
    struct server_id server; /* at the last ALIVE */
    wall_t alive_at;
    wall_t gone_at;    /* the first proof since then that it was gone; ms 0: none. Not saved: a
                     * supervisor that was not running cannot know what happened in between */
    bool watched;      /* a supervisor runs, or did not shut down cleanly */
    wall_t watched_at; /* its last sign of life in this file; ms 0: not known */
    bool paused;
    wall_t pause_until;      /* ms 0: not limited */
    wall_t endless_since;    /* of a pause that is not; ms 0: there is none */
    char last_restore[2048]; /* JSON text of the last restore's figures, or "" */
    struct state_made made;  /* by the last restore */
    bool followed;           /* the journal was followed, and has not been switched off */
    struct state_work drill, verify;
    enum state_role role;
    char holder[128]; /* as which a lease is taken: host, '/' and random digits; "": never yet */
    uint64_t lease_number; /* of the last lease that was taken here; 0: none was */
    char gaps[4096];       /* JSON text of the journal's last gaps: [{at, file, pos, why}] */
};

/* Notes what made the world, and in place of the last restore's figures that of this one no more is known
 * yet; nothing if it is noted already. */
void state_restored(struct state *s, const struct state_made *made);
/* -1: the directory belongs to another world, with dumps, locks and a supervisor of its own. */
int state_is_of(const struct state *s, const char *world, const char *dir, struct err *e);
/* A missing file gives an empty state; so does a damaged one, with -1 and the reason in `e`, and
 * one that may not be ours: ERR_REFUSED (kept.h). */
int state_load(int dirfd, struct state *out, struct err *e);
/* A world that is watched here, but kept elsewhere: nobody has said --init or --promote, and it was never
 * seen alive here. Always false without [standby]. */
bool state_standby(const struct state *s, const struct config *c);
/* The name under which this machine takes leases, made if there is none or it is another machine's
 * (a copied disk). 1: it was made, and has to be saved before it is used; 0: it is there. -1: no random numbers. */
int state_holder(struct state *s, struct err *e);
/* Saves one that was made: it must be on the disk before it can be in a store. */
int state_keep_holder(struct state *s, int dirfd, struct err *e);
json_t *state_json(const struct state *s);
int state_save(int dirfd, const struct state *s, struct err *e);
/* Signs the file as it is, on the caller's word that it is ours. */
int state_sign(int dirfd, struct err *e);

#endif
