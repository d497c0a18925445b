/* The changes of a journal, folded into what they come to: for each changed row of a table either
 * its final form or that it is gone. Hours of changes cost one write for each changed row.
 *
 * A table with a primary key is folded by the bytes of its key: the last writer wins. One without
 * is folded by the whole row: how many of exactly this row came and went. Both are exact when the
 * rows that the changes are folded into are those of the moment at which the changes begin, and
 * both tell when they cannot have been: a row that went but was not there, one that came but was
 * there.
 *
 * Keys and rows are the same when their bytes are, whatever their collation says: an image of what
 * went holds the very bytes that were stored. A key 'a' that went and an 'A' that came are two rows
 * here; the first one is dropped from the base, the second one written behind it, as the server had
 * them one after the other.
 *
 * Rows are tuples as rows.h reads them; the same values in another form would be another row, so
 * that no other form is taken.
 *
 * Memory: the length of the changed rows, once more that of their keys where these are not the
 * first columns, and 40 to 48 bytes each; for a moment half as much again, when rows that grew are
 * moved together. After an error from a change or from the base a table is of no use any more.
 * Folding is for one caller's thread; while a table's base rows go through fold_base() nobody else
 * may touch that table, but other tables may be loaded at the same time. */
#ifndef WK_JOURNAL_FOLD_H
#define WK_JOURNAL_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct fold;
struct fold_table;

struct fold *fold_new(void);
void fold_free(struct fold *f);

/* The table of that name, begun when it is not known yet; a known one keeps the key it was begun
 * with. `key` are the places of the primary key's columns within a tuple, from 0 on, `keys` of
 * them, in any order; 0: no primary key. */
struct fold_table *fold_table(struct fold *f, const char *name, const unsigned *key, size_t keys);
/* NULL: nothing of it changed. */
struct fold_table *fold_find(const struct fold *f, const char *name);
const char *fold_name(const struct fold_table *t);

/* ERR_DAMAGED: no tuple with these columns (or not as many as those before), or a change that
 * contradicts those before it: an insert of a key that is there, a delete of one that is gone. */
enum fold_op {
    FOLD_INSERT,
    FOLD_DELETE,
    FOLD_REPLACE, /* the row with this key became this one; needs a primary key */
};
int fold_change(struct fold_table *t, enum fold_op op, const char *tuple, size_t len,
                struct err *e);
int fold_update(struct fold_table *t, const char *before, size_t before_len, const char *after,
                size_t after_len, struct err *e);
/* The same as fold_change(), but done later, in a thread of the fold, which is faster by far for a
 * fold that is larger than the processor's caches. A contradiction is told by a
 * later call. `tuple`
 * must stay where it is until fold_now(), or until the second fold_turn() from now. In between none
 * of the other functions that take changes or base rows. */
int fold_later(struct fold *f, struct fold_table *t, enum fold_op op, const char *tuple, size_t len,
               struct err *e);
/* What came before the last turn is done, and what came since is begun. */
int fold_turn(struct fold *f, struct err *e);
/* All of it is done. */
int fold_now(struct fold *f, struct err *e);
/* All rows went, whatever they were. */
void fold_truncate(struct fold_table *t);

/* One row of the base, each once: 1 it stays as it is, 0 it is dropped (it went, or comes back
 * changed at the end), -1. ERR_DAMAGED: the base cannot be where the changes began. `loose`: the
 * base is not of one moment (a scan without locks, which began after the changes and ended before
 * they did), contradictions are none; ERR_REFUSED without a primary key, where that cannot be
 * exact.
 */
int fold_base(struct fold_table *t, const char *tuple, size_t len, bool loose, struct err *e);
/* The same for some rows at a time: FOLD_SPANS of them at most are taken, from text that more may
 * follow (*tuple_len is the row's length in it); then each is told what is to be written in its
 * place: itself, what became of it, or nothing (p NULL). What was given out here does not come at
 * the end, where only rows that are new are left: so the writing goes on while the base goes
 * through. Tuples stay where they are as long as no change comes. */
#define FOLD_SPANS 32u
struct fold_span {
    const char *p;
    size_t len;
};
int fold_base_take(struct fold_table *t, const char *text, size_t len, size_t *tuple_len,
                   struct err *e);
int fold_bases(struct fold_table *t, bool loose, struct fold_span *instead, struct err *e);
/* When all base rows went through: everything that had to be among them must have been (unless
 * `loose`), ERR_DAMAGED names the first that was not. Then the rows to be written behind them, in
 * the order in which they were first changed, in blocks "(…),\n(…)" of at most `block` bytes or one
 * row. An error from `fn` ends it. */
typedef int fold_rows_fn(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e);
int fold_finish(struct fold_table *t, bool loose, size_t block, fold_rows_fn *fn, void *arg,
                struct err *e);

struct fold_figures {
    uint64_t changes; /* folded in; a truncate is one */
    uint64_t rows;    /* that are written at the end */
    uint64_t dropped; /* of the base, once it went through */
    uint64_t bytes;   /* of memory */
    bool truncated;
};
void fold_figures(const struct fold_table *t, struct fold_figures *out);
/* Tables in the order in which they were begun; NULL behind the last one. */
struct fold_table *fold_at(const struct fold *f, size_t i);

#endif
