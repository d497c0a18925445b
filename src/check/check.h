/* --check: what is right, what is missing, and how to mend it. One finding for each fact that was
 * checked, by the rules of rules_*.c. A part that cannot be checked (no connection, no directory)
 * is left out and reported as such, so that one failed step does not hide the rest. */
#ifndef WK_CHECK_CHECK_H
#define WK_CHECK_CHECK_H

#include <jansson.h>

#include "config/config.h"
#include "base/err.h"
#include "base/progress.h"

/* *result: {"checks":[{"name","level":"ok|note|warn|fail","text","hint"}]}; -1 with class ERR_SYSTEM
 * when something fails. */
int check_run(const struct config *cfg, struct progress *p, json_t **result, struct err *e);

/* For the supervisor, which checks again while the world lives: what would make a dump or a restore
 * fail, as {"what","hint"}, both "" if nothing would; NULL: the server cannot be queried. Leaves
 * out the journal, which has a condition of its own, and whatever talks to alert channels. */
json_t *check_again(const struct config *cfg, const char *password);

#endif
