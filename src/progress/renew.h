/* A world begins a new life on another machine: the locks of its open sessions are taken anew, before any game is let in, so
 * that a save which its old machine has not sent yet is refused as stolen, however late it arrives. tests/models/README.md:
 * rule 8.
 *
 * A session goes on under a new number if this game server still has its lock, and nothing newer was saved under that lock
 * by a later session. All others are closing from now on: their players log in again, and the write-back ends them. So are
 * all of them if the central store does not answer: the world need not wait for it.
 *
 * It can be repeated after a kill at any point. */
#ifndef WK_PROGRESS_RENEW_H
#define WK_PROGRESS_RENEW_H

#include "progress/central.h"

struct renewed {
    bool asked;      /* there were sessions */
    uint64_t taken;  /* sessions that go on under a new number */
    uint64_t closed; /* sessions that are closing */
    char first[200]; /* the first of those that go on */
    struct err
        away; /* of the central store: why not all could be taken; ERR_NONE: all were asked for */
};
/* `session` and `progress`: the tables that will be wk_session and wk_progress, in the default schema of `db`, and not yet in
 * a game's reach. -1: an error of `db`, or this machine may not act. */
int renew_sessions(struct db *db, const struct config *cfg, const char *session,
                   const char *progress, struct renewed *out, struct err *e);

#endif
