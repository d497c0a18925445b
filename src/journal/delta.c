#include "journal/delta.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/double_buffer.h"
#include "journal/delta_base.h"
#include "journal/delta_int.h"
#include "journal/delta_rows.h"
#include "sql/literal.h"

/* Upper bound: no server sends a longer tuple. */
#define TUPLE_MAX ((size_t)1 << 30)
/* Number of bytes of a key or tuple shown in a message. */
#define SHOWN 120u
#define BATCH 4096u
#define COPIES ((512u << 10) - 1) /* bytes of copied tuples of a batch, or one longer tuple */
/* How many rows ahead a row's offset is prefetched, and how many rows ahead the row. */
#define FAR 32u
#define NEAR 16u

/* ---- tables ---- */

struct delta *delta_new(void)
{
    struct delta *f = xcalloc(1, sizeof *f);
    if (getrandom(f->secret.k, sizeof f->secret.k, 0) != (ssize_t)sizeof f->secret.k) {
        /* Should not happen for so few bytes. Values that are hard to predict are sufficient. */
        f->secret.k[0] = (uint64_t)clock_wall().ms;
        f->secret.k[1] = (uint64_t)getpid();
    }
    return f;
}

static void delta_free_table(struct delta_table *t)
{
    delta_rows_clear(t);
    free(t->name);
    free(t->key);
    free(t->ends);
    buf_free(&t->key_of[0]);
    buf_free(&t->key_of[1]);
    for (size_t i = 0; t->taken && i < DELTA_SPANS; i++)
        buf_free(&t->taken[i].joined);
    free(t->taken);
    free(t->taken_out);
    free(t);
}

/* Returns a table by linear search. It is called once per table of a restore and of each segment
 * read, which takes much longer (4,000 tables: 40 ms). */
struct delta_table *delta_find(const struct delta *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->list[i]->name, name) == 0)
            return f->list[i];
    return NULL;
}

static int delta_by_place(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* Sets the key columns, sorted. The order of columns within the key does not matter for
 * identifying a row. */
static void delta_set_key(struct delta_table *t, const unsigned *key, size_t keys)
{
    free(t->key);
    free(t->ends);
    t->keys = keys;
    t->key = xcalloc(keys + 1, sizeof *t->key);
    if (keys > 0) {
        memcpy(t->key, key, keys * sizeof *key);
        qsort(t->key, keys, sizeof *t->key, delta_by_place);
    }
    t->want = keys > 0 ? t->key[keys - 1] + 1 : 0;
    t->ends = xcalloc(t->want + 1, sizeof *t->ends);
    t->form = keys == 0 ? DELTA_WHOLE : t->want == keys ? DELTA_FIRST : DELTA_APART;
}

struct delta_table *delta_table(struct delta *f, const char *name, const unsigned *key, size_t keys)
{
    struct delta_table *t = delta_find(f, name);
    if (t)
        return t;
    t = xcalloc(1, sizeof *t);
    t->secret = &f->secret;
    t->name = xstrdup(name);
    delta_set_key(t, key, keys);
    f->list = xrealloc(f->list, (f->count + 1) * sizeof(struct delta_table *));
    f->list[f->count++] = t;
    return t;
}

void delta_figures(const struct delta_table *t, struct delta_figures *out)
{
    *out = (struct delta_figures){
        .rows = t->written,
        .bytes = t->bytes_len + t->count * sizeof *t->places,
        .truncated = t->truncated,
    };
    if (t->tags)
        out->bytes += (t->mask + 1) * (sizeof *t->tags + sizeof *t->slots);
}

/* ---- tuples ---- */

int delta_contradiction(const struct delta_table *t, const char *p, size_t len, const char *what,
                        struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "table %s: row %.*s%s %s", t->name,
                   (int)(len < SHOWN ? len : SHOWN), p, len < SHOWN ? "" : "...", what);
}

static int no_row(const struct delta_table *t, const char *tuple, size_t len, struct err *e)
{
    err_set(e, ERR_DAMAGED, 0, "table %s: %.*s%s does not fit the table's columns", t->name,
            (int)(len < SHOWN ? len : SHOWN), tuple, len < SHOWN ? "" : "...");
    return -1; /* returned here so that the static analyzer sees it */
}

/* Returns the offset of a literal in its tuple. The first literal follows the "(". */
static size_t start_of(const struct delta_table *t, unsigned literal)
{
    return literal ? t->ends[literal - 1] + 1 : 1;
}

int delta_read_front(struct delta_table *t, const char *text, size_t len, size_t *tuple_len,
                     struct buf *joined, struct delta_key *out, struct err *e)
{
    size_t fields;
    const char *end = sql_split_tuple(text, text + len, t->ends, t->want, &fields);
    *tuple_len = end ? (size_t)(end - text) : 0;
    if (!end || *tuple_len > TUPLE_MAX || fields < t->want || (t->fields && fields != t->fields))
        return no_row(t, text, len, e);
    for (size_t i = 0; i < t->keys; i++) /* a column of a primary key is never NULL */
        if (text[start_of(t, t->key[i])] == 'N')
            return no_row(t, text, len, e);
    t->fields = fields; /* set from the first tuple */
    switch (t->form) {
    case DELTA_WHOLE:
        *out = (struct delta_key){.p = text, .len = *tuple_len};
        break;
    case DELTA_FIRST:
        *out = (struct delta_key){.p = text + 1, .len = t->ends[t->want - 1] - 1};
        break;
    case DELTA_APART:
        buf_clear(joined);
        for (size_t i = 0; i < t->keys; i++) {
            size_t from = start_of(t, t->key[i]);
            if (i)
                buf_addc(joined, ',');
            buf_add(joined, text + from, t->ends[t->key[i]] - from);
        }
        *out = (struct delta_key){.p = joined->p, .len = joined->len};
        break;
    }
    out->hash = delta_hash(t->secret, out->p, out->len);
    return 0;
}

int delta_read_key(struct delta_table *t, const char *tuple, size_t len, struct buf *joined,
                   struct delta_key *out, struct err *e)
{
    size_t tuple_len;
    if (delta_read_front(t, tuple, len, &tuple_len, joined, out, e) < 0)
        return -1;
    return tuple_len == len ? 0 : no_row(t, tuple, len, e);
}

/* ---- how changes affect rows ---- */

/* Records that a row exists. `base` says whether it existed before, if this is its first change. */
static void delta_put_row(struct delta_table *t, struct delta_row *r, const struct delta_key *k,
                          bool base, const char *tuple, size_t len)
{
    if (r && delta_rows_spent(t, r))
        t->spent--;
    if (!r || !r->live)
        t->written++;
    base = r ? r->base : base;
    r = delta_rows_put(t, r, k, t->form == DELTA_APART, tuple, len);
    r->live = true;
    r->base = base;
}

/* Records that a row was deleted; only its key is kept. If it had no earlier changes, it was in
 * the base. */
static void drop_row(struct delta_table *t, struct delta_row *r, const struct delta_key *k)
{
    bool base = r ? r->base : true;
    if (r)
        t->written--;
    r = delta_rows_put(t, r, k, true, NULL, 0);
    r->live = false;
    r->base = base;
    if (delta_rows_spent(t, r))
        t->spent++;
}

/* Returns whether a row exists. A row without changes may be in the base unless the table was
 * truncated. */
static bool delta_is_there(const struct delta_table *t, const struct delta_row *r)
{
    return r ? r->live : !t->truncated;
}

/* Changes the count of equal rows by `n`, for a table without a primary key. */
static void add_copies(struct delta_table *t, const struct delta_key *k, int64_t n)
{
    struct delta_row *r = delta_rows_find(t, k);
    if (!r)
        r = delta_rows_put(t, NULL, k, true, NULL, 0);
    else if (r->count == 0)
        t->spent--;
    t->written -= r->count > 0 ? (uint64_t)r->count : 0;
    r->count += n;
    t->written += r->count > 0 ? (uint64_t)r->count : 0;
    if (r->count == 0)
        t->spent++;
}

/* Returns true if it is certain that no further copy of this row exists. */
static bool none_left(const struct delta_table *t, const struct delta_key *k)
{
    const struct delta_row *r = t->truncated ? delta_rows_find(t, k) : NULL;
    return t->truncated && (!r || r->count == 0);
}

static int came_twice(const struct delta_table *t, const struct delta_key *k, struct err *e)
{
    return delta_contradiction(t, k->p, k->len, "was inserted but exists already", e);
}

static int went_twice(const struct delta_table *t, const struct delta_key *k, struct err *e)
{
    return delta_contradiction(t, k->p, k->len, "was deleted or updated but does not exist", e);
}

static int delta_changed(struct delta_table *t)
{
    delta_rows_tidy(t);
    return 0;
}

/* ---- changes ---- */

/* Checks that the upper bound for one change of a row still fits. */
static int need_room(const struct delta_table *t, struct err *e)
{
    if (t->bytes_len <= DELTA_BYTES_MAX - 4 * TUPLE_MAX)
        return 0;
    return err_set(e, ERR_REFUSED, 0, "table %s: too many changed rows", t->name);
}

/* Applies the change of a row whose key was read. It uses what the table stores about its rows
 * but nothing that delta_read_key() uses, so both may run in different threads. */
static int change_row(struct delta_table *t, enum delta_op op, const struct delta_key *k,
                      const char *tuple, size_t len, struct err *e)
{
    if (need_room(t, e) < 0)
        return -1;
    if (t->form == DELTA_WHOLE) {
        if (op == DELTA_REPLACE)
            return err_set(e, ERR_DAMAGED, 0, "table %s: a row without key was replaced", t->name);
        if (op == DELTA_DELETE && none_left(t, k))
            return went_twice(t, k, e);
        add_copies(t, k, op == DELTA_INSERT ? 1 : -1);
        return delta_changed(t);
    }
    struct delta_row *r = delta_rows_find(t, k);
    if (op == DELTA_INSERT) {
        if (r && r->live)
            return came_twice(t, k, e);
        delta_put_row(t, r, k, false, tuple, len);
    } else if (!delta_is_there(t, r)) {
        return went_twice(t, k, e);
    } else if (op == DELTA_REPLACE) {
        delta_put_row(t, r, k, true, tuple, len);
    } else {
        drop_row(t, r, k);
    }
    return delta_changed(t);
}

int delta_change(struct delta_table *t, enum delta_op op, const char *tuple, size_t len,
                 struct err *e)
{
    struct delta_key k;
    if (delta_read_key(t, tuple, len, &t->key_of[0], &k, e) < 0)
        return -1;
    return change_row(t, op, &k, tuple, len, e);
}

static bool delta_same_key(const struct delta_key *a, const struct delta_key *b)
{
    return a->hash == b->hash && a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

int delta_update(struct delta_table *t, const char *before, size_t before_len, const char *after,
                 size_t after_len, struct err *e)
{
    struct delta_key old, new;
    if (delta_read_key(t, before, before_len, &t->key_of[0], &old, e) < 0)
        return -1;
    /* prefetched while the other key is read */
    delta_rows_ahead(t, &old);
    if (delta_read_key(t, after, after_len, &t->key_of[1], &new, e) < 0 || need_room(t, e) < 0)
        return -1;
    if (t->form == DELTA_WHOLE) {
        if (none_left(t, &old))
            return went_twice(t, &old, e);
        add_copies(t, &old, -1);
        add_copies(t, &new, 1);
        return delta_changed(t);
    }
    struct delta_row *r = delta_rows_find(t, &old);
    if (!delta_is_there(t, r))
        return went_twice(t, &old, e);
    if (delta_same_key(&old, &new)) {
        delta_put_row(t, r, &new, true, after, after_len);
        return delta_changed(t);
    }
    const struct delta_row *taken = delta_rows_find(t, &new);
    if (taken && taken->live)
        return came_twice(t, &new, e);
    drop_row(t, r, &old);
    delta_put_row(t, delta_rows_find(t, &new), &new, false, after, after_len);
    return delta_changed(t);
}

void delta_truncate(struct delta_table *t)
{
    delta_rows_clear(t);
    t->written = 0;
    t->truncated = true;
}

void delta_anew(struct delta_table *t, const unsigned *key, size_t keys)
{
    delta_set_key(t, key, keys);
    t->fields = 0;
    t->counter = 0;
    delta_truncate(t);
}

/* ---- changes merged in a separate thread ---- */

/* The cost of a change has two halves of about equal size: reading the key, and fetching the row
 * from memory that exceeds the CPU caches. The caller's thread does the first half, this thread
 * the second, for many rows at a time. */

struct submitted {
    struct delta_table *t;
    enum delta_op op;
    const char *tuple;
    size_t len;
    struct delta_key key;
    struct buf joined;
};

struct delta_pipe {
    struct double_buffer *turns;
    struct submitted *list[2];
    size_t count[2];
    struct buf copies[2]; /* never moved while they are in use */
};

/* Two prefetches run ahead of each change: first the row's slot, then the row. */
static int merge_batch(void *arg, unsigned half, struct err *e)
{
    struct delta_pipe *p = arg;
    const struct submitted *list = p->list[half];
    size_t count = p->count[half];
    int rc = 0;
    for (size_t i = 0; i < count + FAR && rc == 0; i++) {
        if (i < count)
            delta_rows_ahead(list[i].t, &list[i].key);
        if (i >= FAR - NEAR && i - (FAR - NEAR) < count)
            delta_rows_near(list[i - (FAR - NEAR)].t, &list[i - (FAR - NEAR)].key);
        if (i < FAR)
            continue;
        const struct submitted *s = &list[i - FAR];
        rc = change_row(s->t, s->op, &s->key, s->tuple, s->len, e);
    }
    p->count[half] = 0;
    return rc;
}

static void free_pipe(struct delta_pipe *p)
{
    if (!p)
        return;
    double_buffer_close(p->turns);
    for (unsigned half = 0; half < 2; half++) {
        for (size_t n = 0; n < BATCH; n++)
            buf_free(&p->list[half][n].joined);
        free(p->list[half]);
        buf_free(&p->copies[half]);
    }
    free(p);
}

/* Passes on a result. After an error the submitted changes are discarded, so the error is
 * reported only once. */
static int delta_reported(struct delta *d, int rc)
{
    if (rc < 0) {
        free_pipe(d->pipe);
        d->pipe = NULL;
    }
    return rc;
}

int delta_rotate(struct delta *d, struct err *e)
{
    struct delta_pipe *p = d->pipe;
    if (!p)
        return 0;
    bool some = p->count[double_buffer_half(p->turns)] > 0;
    return delta_reported(d, some ? double_buffer_turn(p->turns, e)
                                  : double_buffer_drain(p->turns, e));
}

int delta_drain(struct delta *d, struct err *e)
{
    if (!d->pipe)
        return 0;
    int rc = delta_rotate(d, e);
    return rc < 0 ? rc : delta_reported(d, double_buffer_drain(d->pipe->turns, e));
}

static void delta_open_pipe(struct delta *d)
{
    if (d->pipe)
        return;
    d->pipe = xcalloc(1, sizeof *d->pipe);
    d->pipe->turns = double_buffer_open(merge_batch, NULL, d->pipe);
    for (unsigned half = 0; half < 2; half++)
        d->pipe->list[half] = xcalloc(BATCH, sizeof *d->pipe->list[half]);
}

/* Returns the copies of the batch that is being filled. */
static struct buf *delta_copies(struct delta_pipe *p)
{
    unsigned half = double_buffer_half(p->turns);
    if (p->count[half] == 0)
        buf_clear(&p->copies[half]);
    return &p->copies[half];
}

int delta_submit_copy(struct delta *d, struct delta_table *t, enum delta_op op, const char *tuple,
                      size_t len, struct err *e)
{
    delta_open_pipe(d);
    struct buf *b = delta_copies(d->pipe);
    if (b->len && b->len + len > COPIES) {
        if (delta_rotate(d, e) < 0)
            return -1;
        b = delta_copies(d->pipe);
    }
    buf_reserve(b, b->len + len < COPIES ? COPIES - b->len : len);
    const char *copy = b->p + b->len;
    buf_add(b, tuple, len);
    return delta_submit(d, t, op, copy, len, e);
}

int delta_submit(struct delta *d, struct delta_table *t, enum delta_op op, const char *tuple,
                 size_t len, struct err *e)
{
    delta_open_pipe(d);
    unsigned half = double_buffer_half(d->pipe->turns);
    struct submitted *s = &d->pipe->list[half][d->pipe->count[half]];
    if (delta_read_key(t, tuple, len, &s->joined, &s->key, e) < 0)
        return -1;
    s->t = t;
    s->op = op;
    s->tuple = tuple;
    s->len = len;
    return ++d->pipe->count[half] < BATCH ? 0 : delta_rotate(d, e);
}

void delta_free(struct delta *f)
{
    if (!f)
        return;
    free_pipe(f->pipe); /* first, because its thread may be running */
    for (size_t i = 0; i < f->count; i++)
        delta_free_table(f->list[i]);
    free(f->list);
    free(f);
}
