/* --check: what is right, what is missing, and how to fix it. There is one finding for each fact
 * that was checked, by the rules of rules_*.c. A part that cannot be checked (no connection, no
 * directory) is omitted and reported as such, so that one failed step does not hide the rest. */
#ifndef WK_CHECK_CHECK_H
#define WK_CHECK_CHECK_H

#include <jansson.h>

#include "base/err.h"
#include "base/progress.h"
#include "config/config.h"

/* *result: {"checks":[{"name","level":"ok|note|warn|fail","text","hint"}]}. Returns -1 with class
 * ERR_SYSTEM if something fails. */
int check_run(const struct config *cfg, struct progress *p, json_t **result, struct err *e);

/* For the supervisor, which checks again while the world is up. Returns what would make a dump or a
 * restore fail, as {"what","hint"}, both "" if nothing would; NULL: the server cannot be queried.
 * Omits the journal, which has its own condition, and everything that contacts alert channels. */
json_t *check_again(const struct config *cfg, const char *password);

#endif
