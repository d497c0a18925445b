/* How many rows of each ledger were rolled up by the moment of a dump: counted in the rows of the
 * rollup and of its marks while they are written, for the shrink guard. */
#ifndef WK_DUMP_LEDGER_COUNT_H
#define WK_DUMP_LEDGER_COUNT_H

#include "config/config.h"
#include "store/manifest.h"

struct ledger_count {
    struct manifest *m; /* gets the sums; NULL: the table is none of a ledger's */
    size_t ledger;      /* index in it */
    size_t number;      /* field of a row that is added up */
    size_t end;         /* rollups: field of end_id */
    size_t what;        /* marks: field of the name; only one of them is added */
    bool marks;
};
/* Before the rows of table `t` are written. */
void ledger_count_begin(struct ledger_count *c, const struct config *cfg, struct manifest *m,
                        const struct db_table *t);
void ledger_count_row(const struct ledger_count *c, const char *tuple, size_t len);
/* After the last table: a rollup that is not in the dump, being durable, is counted in the server. */
int ledger_count_end(const struct config *cfg, struct manifest *m, struct db *db, struct err *e);

#endif
