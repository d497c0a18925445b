/* Counts how many rows of each ledger had been rolled up at the moment of a dump, for the shrink
 * guard: in the rows of the rollup and of its rollup positions (marks) while they are written. */
#ifndef WK_DUMP_LEDGER_COUNT_H
#define WK_DUMP_LEDGER_COUNT_H

#include "config/config.h"
#include "store/manifest.h"

struct ledger_count {
    struct manifest *m; /* gets the sums; NULL: the table does not belong to a ledger */
    size_t ledger;      /* index in it */
    size_t number;      /* field of a row to add up */
    size_t end;         /* rollups: field of end_id */
    size_t what;        /* marks: field of the name; only one of them is added */
    bool marks;
};
/* Call this before the rows of table `t` are written. */
void ledger_count_begin(struct ledger_count *c, const struct config *cfg, struct manifest *m,
                        const struct db_table *t);
void ledger_count_row(const struct ledger_count *c, const char *tuple, size_t len);
/* Call this after the last table: counts a rollup that is not in the dump, because it is durable,
 * in the server. */
int ledger_count_end(const struct config *cfg, struct manifest *m, struct db *db, struct err *e);

#endif
