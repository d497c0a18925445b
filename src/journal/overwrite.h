/* Which columns one transaction set to one and the same value in all rows that it updated, although their values
 * differed before: what an UPDATE without WHERE does, and a recalculation does not. Pure: it sees the changes of the
 * journal, and keeps hashes only. */
#ifndef WK_JOURNAL_OVERWRITE_H
#define WK_JOURNAL_OVERWRITE_H

#include "binlog/change.h"

#define OVERWRITE_COLUMNS 64 /* the first ones of a table; others are not judged */
/* Different values that a column must have had: states, flags and counters that a game sets back have fewer. */
#define OVERWRITE_VALUES 10

/* Rows of one table that follow each other. All zero: none. */
struct overwrite {
    const struct change_table *table;
    uint64_t rows;
    uint64_t same; /* a bit per column: all rows have the value of the first now */
    uint64_t after[OVERWRITE_COLUMNS];
    unsigned char
        values[OVERWRITE_COLUMNS]; /* how many were there before, of those kept in `before` */
    uint64_t before[OVERWRITE_COLUMNS][OVERWRITE_VALUES];
};

/* Takes a CHANGE_UPDATE of o->table, or of the first row. */
void overwrite_row(struct overwrite *o, const struct change *c);
/* A bit per column of a tuple. */
uint64_t overwrite_columns(const struct overwrite *o);

#endif
