/* The changed rows of a delta (delta.h), found by their keys. */
#ifndef WK_JOURNAL_DELTA_ROWS_H
#define WK_JOURNAL_DELTA_ROWS_H

#include "journal/delta_int.h"

uint64_t delta_hash(const struct delta_secret *secret, const char *s, size_t len);

/* A changed row, in one piece of its table's memory: finding a row costs little more than fetching
 * it. An existing row has its tuple as bytes, after the key if that is not the tuple's beginning; a
 * deleted row has its key. */
struct delta_row {
    uint32_t number; /* in the order of first changes */
    uint32_t len, room, key_len;
    union {
        int64_t count; /* no primary key: number of inserts minus deletes */
        struct {
            bool live;  /* it exists now */
            bool base;  /* it existed before the first change */
            bool seen;  /* found in the base */
            bool given; /* already returned in place of its base row */
        };
    };
    char bytes[];
};

struct delta_row *delta_rows_at(const struct delta_table *t, size_t number);
/* Returns NULL if no change touched the row. A row stays in place until the next delta_rows_put()
 * or _tidy(). */
struct delta_row *delta_rows_find(const struct delta_table *t, const struct delta_key *k);
/* Prefetches for a later find: first the row's offset, then the row itself. */
void delta_rows_ahead(const struct delta_table *t, const struct delta_key *k);
void delta_rows_near(const struct delta_table *t, const struct delta_key *k);
/* Sets the row's bytes: the key if `with_key`, then a tuple. `r` NULL: a new row, otherwise zero.
 * Returns the row, which may have moved. */
struct delta_row *delta_rows_put(struct delta_table *t, struct delta_row *r,
                                 const struct delta_key *k, bool with_key, const char *tuple,
                                 size_t len);
/* Returns the bytes of its key. */
const char *delta_rows_key(const struct delta_table *t, const struct delta_row *r);
/* Returns true if the row can be forgotten. A deleted row is needed as long as the base may contain
 * it. */
bool delta_rows_spent(const struct delta_table *t, const struct delta_row *r);
/* Frees unused memory if it is the larger part. */
void delta_rows_tidy(struct delta_table *t);
/* Forgets all rows. */
void delta_rows_clear(struct delta_table *t);

#endif
