/* Statements of a swap that wait for locks of other sessions. Each time one has waited in vain, the
 * sessions that block it are looked up, as far as the server shows them. Idle sessions of the
 * world's schema are ended if [restore] end_blockers and the privileges of this account allow it; a
 * backup is always waited for. Remaining blockers are reported at once, by job_note() and
 * job->blocked. */
#ifndef WK_RESTORE_BLOCKED_H
#define WK_RESTORE_BLOCKED_H

#include "base/clock.h"
#include "mysql/blockers.h"

struct restore;

struct blocked {
    struct restore *r;
    enum lock_wait wait; /* what the last attempt waited for */
    mono_t since;        /* when it began */
    unsigned tries;      /* attempts left */
    char reported[400];  /* the hint that was reported */
};
struct blocked blocked_begin(struct restore *r, unsigned tries);
/* Called before each attempt. */
void blocked_try(struct blocked *b);
/* Decides after an attempt failed with `e`: returns true if it must be repeated. If not, `e` names
 * the blocking sessions, if these were the reason. */
bool blocked_again(struct blocked *b, struct err *e);
/* Waits for a backup that prevents creating, replacing and dropping tables. Call it before a step
 * that does that. */
int blocked_wait_backup(struct restore *r, struct err *e);

#endif
