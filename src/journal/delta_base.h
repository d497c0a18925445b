/* Merging a delta (delta.h) into the rows of the dump: which rows stay, and which are written
 * after them. */
#ifndef WK_JOURNAL_DELTA_BASE_H
#define WK_JOURNAL_DELTA_BASE_H

#include "journal/delta.h"

/* Takes one row of the base, each exactly once. Returns 1: keep it unchanged; 0: drop it (it was
 * deleted, or is written in its new form at the end); or -1. ERR_DAMAGED: the base cannot be from
 * where the changes began. `loose`: the base is inconsistent (a scan without locks that began after
 * the changes and ended before they did), so contradictions are not errors; ERR_REFUSED without a
 * primary key, because merging into such a base cannot be exact. */
int delta_base(struct delta_table *t, const char *tuple, size_t len, bool loose, struct err *e);
struct delta_span {
    const char *p;
    size_t len;
};
int delta_base_take(struct delta_table *t, const char *text, size_t len, size_t *tuple_len,
                    struct err *e);
int delta_bases(struct delta_table *t, struct delta_span *instead, struct err *e);
int delta_finish(struct delta_table *t, bool loose, size_t block, delta_rows_fn *fn, void *arg,
                 struct err *e);

/* Forgets all base rows, so that the base can be read again from its first row. No change may come
 * in between. */
void delta_base_again(struct delta_table *t);

/* For a table with a primary key that already contains its base: the changes to apply to it, in
 * this order. delta_finish() with `loose` returns all rows that were put there. Keys are tuples of
 * the key's columns in the table's order. */
enum delta_part {
    DELTA_GONE,    /* keys of rows that it contains and that were deleted */
    DELTA_CHANGED, /* rows that it contains with the same key */
    DELTA_NEW,     /* rows that it does not contain */
    DELTA_KEYS,    /* the keys of all changed rows: an interrupted attempt may have inserted some */
};
int delta_part(const struct delta_table *t, enum delta_part what, size_t block, delta_rows_fn *fn,
               void *arg, struct err *e);
/* Returns the number of columns of the primary key, and their positions, lowest first; 0: none. */
size_t delta_key(const struct delta_table *t, const unsigned **columns);

#endif
