/* Consequences of a dump's end: for the dumps (dumps.h), the journal and the alerts. Also those of
 * --init and --new-round, which may store a dump. */
#ifndef WK_SUPERVISOR_DUMP_END_H
#define WK_SUPERVISOR_DUMP_END_H

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"

struct manifest;
struct world;

/* `m`: the dump that was stored; its name "": none. `result`: of the action, or NULL; `e`: its
 * error, or NULL. A dump may have been stored although something failed after it. */
void dump_ended(struct world *w, const struct manifest *m, const json_t *result,
                const struct err *e);
/* Handles a dump that failed or was rejected; schedules the next attempt. */
void dump_failed(struct world *w, const json_t *result, const struct err *e);
/* Reports the rows that the last dump lacks, once the journal shows what took them. */
void dump_end_timers(struct world *w, mono_t now);
/* Handles the end of --init or --new-round. If a round has begun, only its dumps count from now on,
 * and the journal begins anew. `first`: the first dump of the round; its name "": none. */
void round_ended(struct world *w, const struct manifest *first, const json_t *result,
                 const struct err *e);

#endif
