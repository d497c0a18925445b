/* --check: players' progress: the local store, and the central one that it is written back to. */
#ifndef WK_CHECK_RULES_PROGRESS_H
#define WK_CHECK_RULES_PROGRESS_H

#include "check/rule.h"

/* rules_progress.c: the local store of [progress], and the central one */
void check_progress(struct check *c);
/* Returns true if [progress] names the world's own server and account. That account then also calls
 * the central store's routines. */
bool check_central_here(const struct config *cfg);

#endif
