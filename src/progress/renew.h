/* Takes the locks of a world's open sessions anew when the world begins a new life on another
 * machine, before any game is let in. A save that the old machine has not sent yet is then refused
 * as stolen, however late it arrives. tests/models/README.md: rule 8.
 *
 * A session continues under a new number if this game server still holds its lock, and no later
 * session has saved anything newer under that lock. All other sessions become `closing`: their
 * players log in again, and the write-back ends them. If the central store does not answer within a
 * quarter of [restore] stall, all remaining sessions become `closing`, because the world must not
 * wait for that store.
 *
 * It can be repeated after a kill at any point. */
#ifndef WK_PROGRESS_RENEW_H
#define WK_PROGRESS_RENEW_H

#include "progress/central.h"

struct renewed {
    bool asked;      /* there were sessions */
    uint64_t taken;  /* sessions that continue under a new number */
    uint64_t closed; /* sessions that are closing */
    char first[200]; /* keys of the first sessions that continue, for display */
    /* The error of the central store that kept some locks from being taken; ERR_NONE if it was
     * asked for all of them. */
    struct err away;
};
/* Renews all open sessions. `session` and `progress` name the tables that will become wk_session
 * and wk_progress; they are in the default schema of `db`, and no game can reach them yet. `p`: of
 * the restore; it sees progress as long as the central store answers. Returns 0, or -1 after an
 * error of `db`, or if this machine may not act. */
int renew_sessions(struct db *db, const struct config *cfg, const char *session,
                   const char *progress, struct progress *p, struct renewed *out, struct err *e);

#endif
