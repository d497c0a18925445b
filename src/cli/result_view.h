/* Terminal output of the results of actions, except --status. */
#ifndef WK_CLI_RESULT_VIEW_H
#define WK_CLI_RESULT_VIEW_H

#include <jansson.h>

#include "actions/action.h"

/* Prints a result in words and tables: dump, restore (and --dry-run), list, verify, drill, status,
 * check, init, test-alert, pause, resume. */
void screen_result(enum action action, const json_t *result);

#endif
