/* What a ledger holds, for the status. */
#include <inttypes.h>
#include <stdlib.h>

#include "ledger/ledger.h"
#include "mysql/rows.h"

/* One row of numbers; false in `seen`: there is no row. */
static int numbers(struct db *db, const char *types, const char *sql, const char *const *args,
                   uint64_t *out, unsigned n, bool *seen, struct err *e)
{
    struct db_rows *r = db_select_with(db, types, sql, args, e);
    int got = r ? db_next(r, e) : -1;
    *seen = got == 1;
    for (unsigned i = 0; i < n && got == 1; i++)
        out[i] = db_uint(r, i);
    db_rows_end(r);
    return got < 0 ? -1 : 0;
}

int ledger_figures(struct db *db, const struct ledger *l, struct ledger_figures *out, struct err *e)
{
    char *rollup = xasprintf("%s_rollup", l->cfg->name), *mark = xasprintf("%s_mark", l->cfg->name);
    uint64_t in_rollup[2] = {0}, late[2] = {0}, first[1] = {0};
    bool seen, ran;
    *out = (struct ledger_figures){0};
    int rc = numbers(db, "U", "SELECT COUNT(*) FROM ??", DB_ARGS(l->cfg->table), &out->rows, 1,
                     &seen, e);
    if (rc == 0)
        rc = numbers(db, "UU", "SELECT COUNT(*),CAST(COALESCE(SUM(`rows`),0) AS UNSIGNED) FROM ??",
                     DB_ARGS(rollup), in_rollup, 2, &seen, e);
    if (rc == 0)
        rc = numbers(db, "UU", "SELECT id,CAST(at AS UNSIGNED) FROM ?? WHERE what='late'",
                     DB_ARGS(mark), late, 2, &ran, e);
    if (rc == 0)
        rc = numbers(db, "U",
                     "SELECT CAST(COALESCE(MIN(at),0) AS UNSIGNED) FROM ?? WHERE what LIKE 'm%'",
                     DB_ARGS(mark), first, 1, &seen, e);
    if (rc == 0) {
        out->since.ms = (int64_t)first[0];
        out->keys = in_rollup[0];
        out->rolled_up = in_rollup[1];
        out->late = ran ? late[0] : 0;
        out->last.ms = ran ? (int64_t)late[1] : 0;
    }
    free(rollup);
    free(mark);
    return rc;
}
