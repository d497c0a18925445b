/* What a person sees: progress bars and results of actions, drawn from the JSON that act.c makes,
 * so that an action looks the same whether it ran here or in the supervisor. Results go to standard
 * output, progress and errors to standard error. */
#ifndef WK_SCREEN_H
#define WK_SCREEN_H

#include <jansson.h>

#include "core/err.h"
#include "core/text.h"

/* quiet: no progress, no notes; verbose: more detail. Once at start. */
void screen_open(int quiet, int verbose);
/* Who makes commands that are told to type whole, as typed_hint() does; NULL: they are told as they
 * are. */
void screen_typed(void (*typed)(const char *hint, struct buf *out));
/* {"progress":{"job","phase","table","rows","rows_total","bytes","bytes_total","percent","phase_ms"}}
 * or
 * {"note":"…"}: a bar on a terminal that is redrawn, a plain line per phase and per ten seconds
 * elsewhere. */
void screen_event(const json_t *o);
/* Ends a bar that is open (new line). */
void screen_done(void);
/* A result in words and tables: dump, restore (and --dry-run), list, verify, drill, status, check,
 * init, test-alert, pause, resume. */
void screen_result(const char *action, const json_t *result);
/* "worldkeeper: text" and "HINT: hint". */
void screen_error(const struct err *e);
/* --json: {"action","ok","exit","result"|"error"} on standard output. */
void screen_json(const char *action, const json_t *result, const struct err *e, int exit_status);

#endif
