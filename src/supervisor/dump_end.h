/* What the end of a dump means: for the dumps (dumps.h), the journal and the alerts; and that of --init and --new-round,
 * which may store one. */
#ifndef WK_SUPERVISOR_DUMP_END_H
#define WK_SUPERVISOR_DUMP_END_H

#include <jansson.h>

#include "base/err.h"

struct manifest;
struct world;

/* `m`: the dump that was stored; its name "": none was. `result`: of the action, or NULL; `e`: its error, or NULL. A dump
 * may have been stored although something failed after it. */
void dump_ended(struct world *w, const struct manifest *m, const json_t *result,
                const struct err *e);
/* No dump was made, or the one made was rejected; the next attempt is scheduled. */
void dump_failed(struct world *w, const json_t *result, const struct err *e);
/* A round began, or did not. Its dumps alone count from now on, and the journal begins anew. `first`: as `m`. */
void round_ended(struct world *w, const struct manifest *first, const json_t *result,
                 const struct err *e);

#endif
