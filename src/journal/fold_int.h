/* What the files of fold.h share: the literals of a tuple (fold_split.c), the rows of a table and
 * their bytes (fold_rows.c), what changes do to them (fold.c) at once or in a thread of its own
 * (fold_later.c), and what the base makes of them (fold_base.c). */
#ifndef WK_JOURNAL_FOLD_INT_H
#define WK_JOURNAL_FOLD_INT_H

#include "core/text.h"
#include "journal/fold.h"

/* Reads one whole tuple in the one form that this program writes (db/value.h): values are then
 * equal when their bytes are. Returns how many literals it holds, 0: it is not one. ends[i] is the
 * place behind literal i, for the first `want` of them. */
size_t fold_split(const char *tuple, size_t len, size_t *ends, size_t want);
/* The same for one that more text may follow. */
size_t fold_split_front(const char *text, size_t len, size_t *ends, size_t want, size_t *tuple_len);
/* The same for the first `want` literals alone; fewer: it has not so many. */
size_t fold_split_first(const char *tuple, size_t len, size_t *ends, size_t want);

/* SipHash-1-3: players choose the bytes of keys, and must not be able to choose keys that collide.
 */
struct fold_secret {
    uint64_t k[2];
};
uint64_t fold_hash(const struct fold_secret *secret, const char *s, size_t len);

/* What tells a row from all others, in a tuple as it was given. */
struct fold_key {
    const char *p;
    size_t len;
    uint64_t hash;
};

/* What a table keeps of each row that changed, all in one place of its memory: to find a row costs
 * hardly more than to fetch it. A row that is there has its tuple as bytes, behind the key where
 * that is not the tuple's beginning; one that went has its key. */
struct fold_row {
    uint32_t number; /* in the order of first changes */
    uint32_t len, room, key_len;
    union {
        int64_t count; /* no primary key: how many came, less those that went */
        struct {
            bool live;  /* it is there now */
            bool base;  /* it was there before the first change */
            bool seen;  /* in the base */
            bool given; /* in its place */
        };
    };
    char bytes[];
};

/* Places of rows are multiples of this, and have 32 bits. */
#define FOLD_ALIGN 8u
#define FOLD_BYTES_MAX ((size_t)FOLD_ALIGN << 32)

enum fold_form {
    FOLD_WHOLE, /* no primary key */
    FOLD_FIRST, /* the key's columns are the first ones */
    FOLD_APART,
};

/* A row of the base that waits. */
struct fold_taken {
    struct fold_span row;
    struct fold_key key;
    struct buf joined;
};

struct fold_table {
    const struct fold_secret *secret;
    struct fold_table *next; /* with the same hash of its name, more or less */
    char *name;
    enum fold_form form;
    unsigned *key; /* in the order of the columns */
    size_t keys;
    size_t want, *ends;       /* literals up to the key's last one */
    size_t fields;            /* of each tuple; 0: none was seen */
    struct buf key_of[2];     /* keys whose columns stand apart, put together */
    struct fold_taken *taken; /* FOLD_SPANS of them; NULL: not needed yet */
    size_t taken_count;
    char *bytes; /* all rows; ended by nothing */
    size_t bytes_len, bytes_room;
    uint32_t *places; /* of the rows, by their numbers */
    size_t count, room;
    uint8_t *tags;   /* open addressing: of each slot 8 bits of the hash; 0: free */
    uint32_t *slots; /* of each slot the place of its row */
    size_t mask;     /* slots - 1 */
    size_t used;     /* of bytes_len: the rest belonged to rows that moved or shrank */
    size_t spent;    /* rows that can be forgotten */
    bool truncated;
    uint64_t changes, written, dropped;
};

#define FOLD_BUCKETS 256u
struct fold_pipe;
struct fold {
    struct fold_secret secret;
    struct fold_table **list; /* in the order in which they were begun */
    size_t count;
    struct fold_table *buckets[FOLD_BUCKETS];
    struct fold_pipe *pipe; /* NULL: nothing was done later yet */
};

struct fold_row *fold_rows_at(const struct fold_table *t, size_t number);
/* NULL: no change touched it. A row stays where it is until the next fold_rows_put() or _tidy(). */
struct fold_row *fold_rows_find(const struct fold_table *t, const struct fold_key *k);
/* A find comes soon: fetch where it begins, and then the row itself. */
void fold_rows_ahead(const struct fold_table *t, const struct fold_key *k);
void fold_rows_near(const struct fold_table *t, const struct fold_key *k);
/* Its bytes: the key, where `with_key`, and a tuple behind it. NULL as `r`: a new row, the rest of
 * it zero. Returns the row, which may have moved. */
struct fold_row *fold_rows_put(struct fold_table *t, struct fold_row *r, const struct fold_key *k,
                               bool with_key, const char *tuple, size_t len);
/* The bytes of its key. */
const char *fold_rows_key(const struct fold_table *t, const struct fold_row *r);
/* Can it be forgotten? A row that went is needed as long as the base may hold it. */
bool fold_rows_spent(const struct fold_table *t, const struct fold_row *r);
/* Gives back what is no longer used, when that is the larger part. */
void fold_rows_tidy(struct fold_table *t);
/* All rows. */
void fold_rows_clear(struct fold_table *t);

/* The key of a tuple, or ERR_DAMAGED. `joined`: memory that it may need. */
int fold_read_key(struct fold_table *t, const char *tuple, size_t len, struct buf *joined,
                  struct fold_key *out, struct err *e);
/* The same for a tuple that more text may follow. */
int fold_read_front(struct fold_table *t, const char *text, size_t len, size_t *tuple_len,
                    struct buf *joined, struct fold_key *out, struct err *e);
/* The change of a row whose key was read: all that touches what a table keeps of its rows, and
 * nothing that fold_read_key() touches, so that it may be another thread's. */
int fold_change_row(struct fold_table *t, enum fold_op op, const struct fold_key *k,
                    const char *tuple, size_t len, struct err *e);
void fold_pipe_free(struct fold_pipe *p);
/* ERR_DAMAGED: `what` the row does that it cannot do. */
int fold_contradiction(const struct fold_table *t, const char *p, size_t len, const char *what,
                       struct err *e);

#endif
