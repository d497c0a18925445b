/* Terminal output: progress bars and results of actions, drawn from the JSON that actions/run.c
 * makes, so that an action looks the same whether it ran here or in the supervisor. Results go to
 * standard output, progress and errors to standard error. */
#ifndef WK_CLI_SCREEN_H
#define WK_CLI_SCREEN_H

#include <jansson.h>

#include "actions/action.h"
#include "base/err.h"

struct config;

/* Sets quiet (no progress, no notes) and verbose (more detail). Called once at start. */
void screen_open(int quiet, int verbose);
/* Sets the world that commands in hints name, borrowed; NULL: hints are unchanged. */
void screen_world(const struct config *world);
/* Shows {"progress":{"job","phase","table","rows","rows_total","bytes","bytes_total","percent",
 * "phase_ms"}} or {"note":"…"}. On a terminal it is a bar that is redrawn, elsewhere a plain line
 * per phase and every ten seconds. */
void screen_event(const json_t *o);
/* Ends the line of an open bar. */
void screen_done(void);
/* Prints "worldkeeper: text" and "HINT: hint". */
void screen_error(const struct err *e);
/* Prints for --json: {"action","ok","exit","result"|"error"} on standard output. */
void screen_json(enum action action, const json_t *result, const struct err *e, int exit_status);

#endif
