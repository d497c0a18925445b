/* Statements of a swap wait for locks of other sessions. Each time one has waited in vain, the sessions that block it are
 * looked up, as far as the server tells. Idle sessions of the world's schema are ended where [restore] end_blockers and
 * the privileges of this account allow it; a backup is waited for as long as it lasts. What still blocks is reported at
 * once, by job_note() and job->blocked. */
#ifndef WK_RESTORE_BLOCKED_H
#define WK_RESTORE_BLOCKED_H

#include "base/clock.h"
#include "mysql/blockers.h"

struct restore;

struct blocked {
    struct restore *r;
    enum lock_wait wait; /* what the last attempt was seen to wait for */
    mono_t since;        /* when it began */
    unsigned tries;      /* left */
    char reported[400];  /* the hint that was reported */
};
struct blocked blocked_begin(struct restore *r, unsigned tries);
/* Called before each attempt. */
void blocked_try(struct blocked *b);
/* The attempt failed with `e`: true if it is to be repeated. If not, `e` names the sessions that block, if these were the
 * reason. */
bool blocked_again(struct blocked *b, struct err *e);
/* Waits for a backup that keeps tables from being created, replaced and dropped: before a step that does that. */
int blocked_wait_backup(struct restore *r, struct err *e);

#endif
