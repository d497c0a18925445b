/* The delta of a world: all changes of a journal merged by row. For each changed row of a table it
 * holds either its final form or the fact that it was deleted. Hours of changes cost one write per
 * changed row.
 *
 * A table with a primary key is merged by the bytes of its key: the last write wins. A table
 * without one is merged by the whole row: how many copies of exactly this row were added and
 * removed. Both are exact if the base (the rows that the delta is merged into) is of the moment at
 * which the changes begin. Both report a base that cannot be: a deleted row that was not there, an
 * inserted one that was.
 *
 * Keys and rows are equal if their bytes are, regardless of their collation: the image of a deleted
 * row holds the very bytes that were stored. A deleted key 'a' and an inserted 'A' are two rows
 * here; the first is dropped from the base, the second written after it, in the server's order.
 *
 * Rows are tuples as rows.h reads them. The same values in another form would be another row, so no
 * other form is accepted.
 *
 * Memory: the length of the changed rows, the length of their keys if these are not the first
 * columns, and 40 to 48 bytes each; temporarily half as much again, when rows that grew are moved
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

/* Returns the table of that name, created on first use; later calls keep the first key. `key` has
 * the positions of the `keys` columns of the primary key in a tuple, from 0 on, in any order; 0: no
 * primary key. */
struct delta_table *delta_table(struct delta *f, const char *name, const unsigned *key,
                                size_t keys);
/* Turns it into another, empty table with this key; everything known about it is dropped. No
 * submitted change may be pending (delta_drain()). */
void delta_anew(struct delta_table *t, const unsigned *key, size_t keys);
/* Returns NULL if nothing in the table changed. */
struct delta_table *delta_find(const struct delta *f, const char *name);

/* Applies a change. ERR_DAMAGED: not a tuple with these columns (or another number of them than
 * before), or a change that contradicts earlier ones: an insert of a key that exists, a delete of
 * one that does not. */
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
 * no other function that takes changes or base rows may be called. */
int delta_submit(struct delta *f, struct delta_table *t, enum delta_op op, const char *tuple,
                 size_t len, struct err *e);
/* Like delta_submit(), but copies the tuple. */
int delta_submit_copy(struct delta *f, struct delta_table *t, enum delta_op op, const char *tuple,
                      size_t len, struct err *e);
/* Waits for everything submitted before the last rotation, and starts on what was submitted
 * since. */
int delta_rotate(struct delta *f, struct err *e);
/* Waits for everything submitted. */
int delta_drain(struct delta *f, struct err *e);
/* Records that all rows were deleted. */
void delta_truncate(struct delta_table *t);
/* Like delta_base() for a consistent base, for up to DELTA_SPANS rows at a time. delta_base_take()
 * takes one row from text that may continue after it (*tuple_len is the row's length).
 * delta_bases() then tells for each row what to write in its place: the row itself, its new form,
 * or nothing (p NULL). Rows returned here are not returned again at the end, where only new rows
 * remain: most rows are written while the base is read. Tuples must stay in place until the next
 * change. */
#define DELTA_SPANS 32u
/* Ends the base. All rows that had to be in the base must have been there (unless `loose`);
 * ERR_DAMAGED names the first that was not. Then `fn` gets the rows to be written after them, in
 * the order of their first changes, in blocks "(…),\n(…)" of at most `block` bytes or one row. An
 * error from `fn` ends it. */
typedef int delta_rows_fn(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e);

struct delta_figures {
    uint64_t rows;  /* to be written at the end */
    uint64_t bytes; /* of memory in use */
    bool truncated;
};
void delta_figures(const struct delta_table *t, struct delta_figures *out);

#endif
