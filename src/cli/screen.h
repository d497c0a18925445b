/* Terminal output: progress bars and results of actions, drawn from the JSON that actions/run.c makes, so
 * that an action looks the same whether it ran here or in the supervisor. Results go to standard
 * output, progress and errors to standard error. */
#ifndef WK_CLI_SCREEN_H
#define WK_CLI_SCREEN_H

#include <jansson.h>

#include "actions/action.h"
#include "base/err.h"

struct config;

/* quiet: no progress, no notes; verbose: more detail. Once at start. */
void screen_open(int quiet, int verbose);
/* The world that commands in hints name, borrowed; NULL: hints are shown as they are. */
void screen_world(const struct config *world);
/* {"progress":{"job","phase","table","rows","rows_total","bytes","bytes_total","percent",
 * "phase_ms"}} or {"note":"…"}. On a terminal a bar that is redrawn, elsewhere a plain line per
 * phase and every ten seconds. */
void screen_event(const json_t *o);
/* Ends the line of an open bar. */
void screen_done(void);
/* A result in words and tables: dump, restore (and --dry-run), list, verify, drill, status, check,
 * init, test-alert, pause, resume. */
void screen_result(enum action action, const json_t *result);
/* "worldkeeper: text" and "HINT: hint". */
void screen_error(const struct err *e);
/* --json: {"action","ok","exit","result"|"error"} on standard output. */
void screen_json(enum action action, const json_t *result, const struct err *e, int exit_status);
/* help.c: what --help prints, everything (ACTION_NONE), or what belongs to one action. */
void help_print(enum action action);

#endif
