/* What the files of delta.h share: the rows of a table and their bytes (delta_rows.c), what changes
 * do to them (delta.c), and how they are merged into the base (delta_base.c). */
#ifndef WK_JOURNAL_DELTA_INT_H
#define WK_JOURNAL_DELTA_INT_H

#include "base/text.h"
#include "journal/delta.h"

/* SipHash-1-3: players choose the bytes of keys, and must not be able to choose colliding ones. */
struct delta_secret {
    uint64_t k[2];
};
uint64_t delta_hash(const struct delta_secret *secret, const char *s, size_t len);

/* What identifies a row, in a tuple as it was given. */
struct delta_key {
    const char *p;
    size_t len;
    uint64_t hash;
};

/* What a table keeps of each changed row, in one piece of its memory: finding a row costs little
 * more than fetching it. A row that exists has its tuple as bytes, after the key where that is not
 * the tuple's beginning; a deleted one has its key. */
struct delta_row {
    uint32_t number; /* in order of first changes */
    uint32_t len, room, key_len;
    union {
        int64_t count; /* no primary key: how many were inserted, less those deleted */
        struct {
            bool live;  /* it exists now */
            bool base;  /* it existed before the first change */
            bool seen;  /* found in the base */
            bool given; /* returned in place of its base row */
        };
    };
    char bytes[];
};

/* Offsets of rows are multiples of this and have 32 bits. */
#define DELTA_ALIGN 8u
#define DELTA_BYTES_MAX ((size_t)DELTA_ALIGN << 32)

enum delta_form {
    DELTA_WHOLE, /* no primary key */
    DELTA_FIRST, /* the key's columns are the first ones */
    DELTA_APART,
};

/* A row of the base that waits for delta_bases(). */
struct delta_taken {
    struct delta_span row;
    struct delta_key key;
    struct buf joined;
};

struct delta_table {
    const struct delta_secret *secret;
    char *name;
    enum delta_form form;
    unsigned *key; /* in the order of the columns */
    size_t keys;
    size_t want, *ends;        /* literals up to the key's last one */
    size_t fields;             /* of each tuple; 0: none seen yet */
    struct buf key_of[2];      /* keys whose columns are not adjacent, joined */
    struct delta_taken *taken; /* DELTA_SPANS of them; NULL: not needed yet */
    size_t taken_count;
    char *bytes; /* all rows; no terminator */
    size_t bytes_len, bytes_room;
    uint32_t *places; /* offsets of the rows, by their numbers */
    size_t count, room;
    uint8_t *tags;       /* open addressing: of each slot 8 bits of the hash; 0: free */
    uint32_t *slots;     /* for each slot the offset of its row */
    size_t mask;         /* slots - 1 */
    size_t used;         /* of bytes_len; the rest belonged to rows that moved or shrank */
    size_t spent;        /* rows that can be forgotten */
    uint32_t *taken_out; /* no primary key: numbers of the rows whose count a base row raised */
    size_t taken_out_count;
    bool truncated;
    uint64_t written;
    /* Of replay.c: */
    int counter_at;   /* position of the AUTO_INCREMENT column in a tuple; -1: there is none */
    bool counter_key; /* it is part of the key: updates do not change it */
    uint64_t counter; /* the highest value seen in it */
};

struct delta_pipe;
struct delta {
    struct delta_secret secret;
    struct delta_table **list; /* in order of creation */
    size_t count;
    struct delta_pipe *pipe; /* NULL: nothing was submitted yet */
};

struct delta_row *delta_rows_at(const struct delta_table *t, size_t number);
/* NULL: no change touched it. A row stays in place until the next delta_rows_put() or _tidy(). */
struct delta_row *delta_rows_find(const struct delta_table *t, const struct delta_key *k);
/* Prefetch for a find to come: first the row's offset, then the row itself. */
void delta_rows_ahead(const struct delta_table *t, const struct delta_key *k);
void delta_rows_near(const struct delta_table *t, const struct delta_key *k);
/* Sets the row's bytes: the key, where `with_key`, and a tuple after it. `r` NULL: a new row, the
 * rest of it zero. Returns the row, which may have moved. */
struct delta_row *delta_rows_put(struct delta_table *t, struct delta_row *r,
                                 const struct delta_key *k, bool with_key, const char *tuple,
                                 size_t len);
/* The bytes of its key. */
const char *delta_rows_key(const struct delta_table *t, const struct delta_row *r);
/* Can it be forgotten? A deleted row is needed as long as the base may hold it. */
bool delta_rows_spent(const struct delta_table *t, const struct delta_row *r);
/* Returns unused memory when it is the larger part. */
void delta_rows_tidy(struct delta_table *t);
/* All rows. */
void delta_rows_clear(struct delta_table *t);

/* The key of a tuple, or ERR_DAMAGED. `joined`: memory that it may use. */
int delta_read_key(struct delta_table *t, const char *tuple, size_t len, struct buf *joined,
                   struct delta_key *out, struct err *e);
/* The same for a tuple that more text may follow. */
int delta_read_front(struct delta_table *t, const char *text, size_t len, size_t *tuple_len,
                     struct buf *joined, struct delta_key *out, struct err *e);
/* ERR_DAMAGED: the row does `what`, which contradicts earlier changes. */
int delta_contradiction(const struct delta_table *t, const char *p, size_t len, const char *what,
                        struct err *e);

#endif
