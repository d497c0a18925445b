/* Shared by the files of delta.h: the rows of a table and their bytes (delta_rows.c), the effect of
 * changes (delta.c), and merging into the base (delta_base.c). */
#ifndef WK_JOURNAL_DELTA_INT_H
#define WK_JOURNAL_DELTA_INT_H

#include "base/text.h"
#include "journal/delta.h"
#include "journal/delta_base.h"

/* Key of SipHash-1-3: players choose the bytes of keys, and must not be able to choose colliding
 * ones. */
struct delta_secret {
    uint64_t k[2];
};

/* The part of a tuple that identifies a row. */
struct delta_key {
    const char *p;
    size_t len;
    uint64_t hash;
};

/* Offsets of rows have 32 bits and are multiples of this. */
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
    unsigned *key; /* positions in the order of the columns */
    size_t keys;
    size_t want, *ends;        /* number of literals up to the key's last column, and their ends */
    size_t fields;             /* number of fields of each tuple; 0: none seen yet */
    struct buf key_of[2];      /* buffers that join keys whose columns are not adjacent */
    struct delta_taken *taken; /* DELTA_SPANS of them; NULL: not needed yet */
    size_t taken_count;
    char *bytes; /* all rows; no terminator */
    size_t bytes_len, bytes_room;
    uint32_t *places; /* offsets of the rows, by their numbers */
    size_t count, room;
    uint8_t *tags;   /* open addressing: 8 bits of the hash for each slot; 0: free */
    uint32_t *slots; /* for each slot the offset of its row */
    size_t mask;     /* slots - 1 */
    size_t used;     /* of bytes_len; the rest belonged to rows that moved or shrank */
    size_t spent;    /* rows that can be forgotten */
    /* no primary key: numbers of the rows whose count was raised by a base row */
    uint32_t *taken_out;
    size_t taken_out_count;
    bool truncated;
    uint64_t written;
    /* Used by replay.c: */
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

/* Reads the key of a tuple, or sets ERR_DAMAGED. `joined`: a buffer that it may use. */
int delta_read_key(struct delta_table *t, const char *tuple, size_t len, struct buf *joined,
                   struct delta_key *out, struct err *e);
/* Like delta_read_key(), for a tuple that may be followed by more text. */
int delta_read_front(struct delta_table *t, const char *text, size_t len, size_t *tuple_len,
                     struct buf *joined, struct delta_key *out, struct err *e);
/* Sets ERR_DAMAGED: the row does `what`, which contradicts earlier changes. Returns -1. */
int delta_contradiction(const struct delta_table *t, const char *p, size_t len, const char *what,
                        struct err *e);

#endif
