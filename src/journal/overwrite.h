/* Finds the columns that one transaction set to a single value in all rows that it updated,
 * although their values differed before. An UPDATE without WHERE does that; a recalculation does
 * not. Pure: it reads the changes of the journal, and keeps hashes only. */
#ifndef WK_JOURNAL_OVERWRITE_H
#define WK_JOURNAL_OVERWRITE_H

#include "binlog/change.h"

#define OVERWRITE_COLUMNS 64 /* only the first columns of a table are judged */
/* Number of different values that a column must have had. States, flags and counters, which a game
 * resets for all rows, have fewer. */
#define OVERWRITE_VALUES 10

/* What is known of consecutive updates of one table. All zero: no row yet. */
struct overwrite {
    const struct change_table *table;
    uint64_t rows;
    uint64_t same; /* a bit per column: all rows have the value of the first now */
    uint64_t after[OVERWRITE_COLUMNS];
    unsigned char values[OVERWRITE_COLUMNS]; /* number of hashes in `before` */
    uint64_t before[OVERWRITE_COLUMNS][OVERWRITE_VALUES];
};

/* Adds one row. `c` is a CHANGE_UPDATE; after the first one, of o->table. */
void overwrite_row(struct overwrite *o, const struct change *c);
/* Returns the columns that were overwritten, a bit per column: bit 0 is the first. */
uint64_t overwrite_columns(const struct overwrite *o);

#endif
