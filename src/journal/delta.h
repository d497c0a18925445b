/* The delta of a world: all changes of a journal merged by row. For each changed row of a table
 * either its final form or the fact that it was deleted. Hours of changes cost one write per
 * changed row.
 *
 * A table with a primary key is merged by the bytes of its key: the last writer wins. One without
 * is merged by the whole row: how many copies of exactly this row were added and removed. Both are
 * exact when the rows that the delta is merged into are those of the moment at which the changes
 * begin, and both report when they cannot have been: a deleted row that was not there, an inserted
 * one that was.
 *
 * Keys and rows are equal when their bytes are, whatever their collation says: the image of a
 * deleted row holds the very bytes that were stored. A deleted key 'a' and an inserted 'A' are two
 * rows here; the first is dropped from the base, the second written after it, in the server's
 * order.
 *
 * Rows are tuples as rows.h reads them. The same values in another form would be another row, so no
 * other form is accepted.
 *
 * Memory: the length of the changed rows, the length of their keys where these are not the first
 * columns, and 40 to 48 bytes each; for a moment half as much again, when rows that grew are moved
 * together. After an error from a change or from the base a table can no longer be used. A delta
 * belongs to one caller's thread; while a table's base rows go through delta_base() no other thread
 * may touch that table, but other tables may be loaded at the same time. */
#ifndef WK_JOURNAL_DELTA_H
#define WK_JOURNAL_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct delta;
struct delta_table;

struct delta *delta_new(void);
void delta_free(struct delta *f);

/* The table of that name, created on first use; later calls keep the key of the first. `key` are
 * the positions of the primary key's columns within a tuple, from 0 on, `keys` of them, in any
 * order; 0: no primary key. */
struct delta_table *delta_table(struct delta *f, const char *name, const unsigned *key,
                                size_t keys);
/* It is another, empty table from now on, with this key: nothing of what was known of it counts. Nothing may be waiting
 * (delta_drain()). */
void delta_anew(struct delta_table *t, const unsigned *key, size_t keys);
/* NULL: nothing in it changed. */
struct delta_table *delta_find(const struct delta *f, const char *name);

/* ERR_DAMAGED: not a tuple with these columns (or with another number of them than before), or a
 * change that contradicts earlier ones: an insert of a key that exists, a delete of one that does
 * not. */
enum delta_op {
    DELTA_INSERT,
    DELTA_DELETE,
    DELTA_REPLACE, /* the row with this key became this one; needs a primary key */
};
int delta_change(struct delta_table *t, enum delta_op op, const char *tuple, size_t len,
                 struct err *e);
int delta_update(struct delta_table *t, const char *before, size_t before_len, const char *after,
                 size_t after_len, struct err *e);
/* Like delta_change(), but executed later in a thread of the delta, which is much faster for a
 * delta larger than the processor's caches. A contradiction is reported by a later call. `tuple`
 * must stay in place until delta_drain(), or until the second delta_rotate() from now. In between
 * none of the other functions that take changes or base rows may be called. */
int delta_submit(struct delta *f, struct delta_table *t, enum delta_op op, const char *tuple,
                 size_t len, struct err *e);
/* Waits for everything submitted before the last rotation, and starts on what was submitted
 * since. */
int delta_rotate(struct delta *f, struct err *e);
/* Waits for everything submitted. */
int delta_drain(struct delta *f, struct err *e);
/* All rows were deleted, whatever they were. */
void delta_truncate(struct delta_table *t);

/* One row of the base, each exactly once: 1 keep it as it is, 0 drop it (it was deleted, or is
 * written in its new form at the end), -1. ERR_DAMAGED: the base cannot be from where the changes
 * began. `loose`: the base is inconsistent (a scan without locks, which began after the changes and
 * ended before they did), so contradictions are no errors; ERR_REFUSED without a primary key, where
 * merging into such a base cannot be exact. */
int delta_base(struct delta_table *t, const char *tuple, size_t len, bool loose, struct err *e);
/* The same of a consistent base, for up to DELTA_SPANS rows at a time. delta_base_take() takes one row from text that
 * more may follow (*tuple_len is the row's length in it); delta_bases() then says for each row what
 * to write in its place: the row itself, its new form, or nothing (p NULL). Rows returned here are
 * not returned again at the end, which leaves only new rows for it: most is written while the base
 * is read. Tuples must stay in place; they do as long as no change is made. */
#define DELTA_SPANS 32u
struct delta_span {
    const char *p;
    size_t len;
};
int delta_base_take(struct delta_table *t, const char *text, size_t len, size_t *tuple_len,
                    struct err *e);
int delta_bases(struct delta_table *t, struct delta_span *instead, struct err *e);
/* After all base rows: everything that had to be among them must have been (unless `loose`);
 * ERR_DAMAGED names the first that was not. Then the rows to be written after them, in the order in
 * which they were first changed, in blocks "(…),\n(…)" of at most `block` bytes or one row. An
 * error from `fn` ends it. */
typedef int delta_rows_fn(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e);
int delta_finish(struct delta_table *t, bool loose, size_t block, delta_rows_fn *fn, void *arg,
                 struct err *e);

/* Forgets all base rows: they are read once more, from the first one on. No change may come between the two. */
void delta_base_again(struct delta_table *t);

/* For a table with a primary key that holds its base already, what has to be done to it in this order; delta_finish()
 * with `loose` gives all rows that were put there. Keys are tuples of the key's columns in the table's order. */
enum delta_part {
    DELTA_GONE,    /* keys of rows that it holds, and that are gone */
    DELTA_CHANGED, /* rows that it holds with the same key */
    DELTA_NEW,     /* rows that it does not hold */
    DELTA_KEYS, /* the keys of all rows of any change: an interrupted attempt may have put some in */
};
int delta_part(const struct delta_table *t, enum delta_part what, size_t block, delta_rows_fn *fn,
               void *arg, struct err *e);
/* The number of columns of the primary key, and their positions, lowest first; 0: none. */
size_t delta_key(const struct delta_table *t, const unsigned **columns);

struct delta_figures {
    uint64_t rows;  /* to be written at the end */
    uint64_t bytes; /* of memory */
    bool truncated;
};
void delta_figures(const struct delta_table *t, struct delta_figures *out);

#endif
