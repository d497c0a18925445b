#include "journal/fold.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/clock.h"
#include "journal/fold_int.h"

/* No server sends a longer one. */
#define TUPLE_MAX ((size_t)1 << 30)
/* Bytes of a key or a tuple that a message shows. */
#define SHOWN 120u

/* ---- tables ---- */

struct fold *fold_new(void)
{
    struct fold *f = xcalloc(1, sizeof *f);
    if (getrandom(f->secret.k, sizeof f->secret.k, 0) != (ssize_t)sizeof f->secret.k) {
        /* Cannot happen for so few bytes; what nobody knows beforehand still serves. */
        f->secret.k[0] = (uint64_t)clock_wall().ms;
        f->secret.k[1] = (uint64_t)getpid();
    }
    return f;
}

static void free_table(struct fold_table *t)
{
    fold_rows_clear(t);
    free(t->name);
    free(t->key);
    free(t->ends);
    buf_free(&t->key_of[0]);
    buf_free(&t->key_of[1]);
    for (size_t i = 0; t->taken && i < FOLD_SPANS; i++)
        buf_free(&t->taken[i].joined);
    free(t->taken);
    free(t);
}

void fold_free(struct fold *f)
{
    if (!f)
        return;
    fold_pipe_free(f->pipe); /* first: its thread may be at work */
    for (size_t i = 0; i < f->count; i++)
        free_table(f->list[i]);
    free(f->list);
    free(f);
}

static size_t bucket_of(const struct fold *f, const char *name)
{
    return fold_hash(&f->secret, name, strlen(name)) % FOLD_BUCKETS;
}

struct fold_table *fold_find(const struct fold *f, const char *name)
{
    struct fold_table *t = f->buckets[bucket_of(f, name)];
    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

static int by_place(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* The order of the columns within the key says nothing about which row it is. */
static void set_key(struct fold_table *t, const unsigned *key, size_t keys)
{
    if (keys == 0)
        return;
    t->keys = keys;
    t->key = xcalloc(keys, sizeof *t->key);
    memcpy(t->key, key, keys * sizeof *key);
    qsort(t->key, keys, sizeof *t->key, by_place);
    t->want = t->key[keys - 1] + 1;
    t->ends = xcalloc(t->want, sizeof *t->ends);
    t->form = t->want == keys ? FOLD_FIRST : FOLD_APART;
}

struct fold_table *fold_table(struct fold *f, const char *name, const unsigned *key, size_t keys)
{
    struct fold_table *t = fold_find(f, name);
    if (t)
        return t;
    t = xcalloc(1, sizeof *t);
    t->secret = &f->secret;
    t->name = xstrdup(name);
    set_key(t, key, keys);
    struct fold_table **bucket = &f->buckets[bucket_of(f, name)];
    t->next = *bucket;
    *bucket = t;
    f->list = xrealloc(f->list, (f->count + 1) * sizeof(struct fold_table *));
    f->list[f->count++] = t;
    return t;
}

struct fold_table *fold_at(const struct fold *f, size_t i)
{
    return i < f->count ? f->list[i] : NULL;
}

const char *fold_name(const struct fold_table *t)
{
    return t->name;
}

void fold_figures(const struct fold_table *t, struct fold_figures *out)
{
    *out = (struct fold_figures){
        .changes = t->changes,
        .rows = t->written,
        .dropped = t->dropped,
        .bytes = t->bytes_len + t->count * sizeof *t->places,
        .truncated = t->truncated,
    };
    if (t->tags)
        out->bytes += (t->mask + 1) * (sizeof *t->tags + sizeof *t->slots);
}

/* ---- tuples ---- */

int fold_contradiction(const struct fold_table *t, const char *p, size_t len, const char *what,
                       struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "table %s: row %.*s%s %s", t->name,
                   (int)(len < SHOWN ? len : SHOWN), p, len < SHOWN ? "" : "...", what);
}

static size_t start_of(const struct fold_table *t, unsigned literal)
{
    return literal ? t->ends[literal - 1] + 1 : 1;
}

static void join_key(const struct fold_table *t, const char *tuple, struct buf *out)
{
    buf_clear(out);
    for (size_t i = 0; i < t->keys; i++) {
        size_t from = start_of(t, t->key[i]);
        if (i)
            buf_addc(out, ',');
        buf_add(out, tuple + from, t->ends[t->key[i]] - from);
    }
}

/* No column of a primary key is ever NULL. */
static bool null_in_key(const struct fold_table *t, const char *tuple)
{
    for (size_t i = 0; i < t->keys; i++)
        if (tuple[start_of(t, t->key[i])] == 'N')
            return true;
    return false;
}

static int no_row(const struct fold_table *t, const char *tuple, size_t len, struct err *e)
{
    err_set(e, ERR_DAMAGED, 0, "table %s: %.*s%s is not a row of it", t->name,
            (int)(len < SHOWN ? len : SHOWN), tuple, len < SHOWN ? "" : "...");
    return -1;
}

/* How many literals a row of the table has is learned from the first one. */
static bool right_fields(struct fold_table *t, size_t fields)
{
    if (fields == 0 || fields < t->want || (t->fields && fields != t->fields))
        return false;
    t->fields = fields;
    return true;
}

static void take_key(const struct fold_table *t, const char *tuple, size_t len, struct buf *joined,
                     struct fold_key *out)
{
    switch (t->form) {
    case FOLD_WHOLE:
        *out = (struct fold_key){.p = tuple, .len = len};
        break;
    case FOLD_FIRST:
        *out = (struct fold_key){.p = tuple + 1, .len = t->ends[t->want - 1] - 1};
        break;
    case FOLD_APART:
        join_key(t, tuple, joined);
        *out = (struct fold_key){.p = joined->p, .len = joined->len};
        break;
    }
    out->hash = fold_hash(t->secret, out->p, out->len);
}

int fold_read_front(struct fold_table *t, const char *text, size_t len, size_t *tuple_len,
                    struct buf *joined, struct fold_key *out, struct err *e)
{
    size_t fields = fold_split_front(text, len, t->ends, t->want, tuple_len);
    if (!right_fields(t, fields) || *tuple_len > TUPLE_MAX || null_in_key(t, text))
        return no_row(t, text, len, e);
    take_key(t, text, *tuple_len, joined, out);
    return 0;
}

int fold_read_key(struct fold_table *t, const char *tuple, size_t len, struct buf *joined,
                  struct fold_key *out, struct err *e)
{
    size_t tuple_len;
    if (fold_read_front(t, tuple, len, &tuple_len, joined, out, e) < 0)
        return -1;
    return tuple_len == len ? 0 : no_row(t, tuple, len, e);
}

/* ---- changes of a table with a primary key ---- */

/* `base`: it was there all along, if this is the first change that it sees. */
static void come(struct fold_table *t, struct fold_row *r, const struct fold_key *k, bool base,
                 const char *tuple, size_t len)
{
    if (r && fold_rows_spent(t, r))
        t->spent--;
    if (!r || !r->live)
        t->written++;
    base = r ? r->base : base;
    r = fold_rows_put(t, r, k, t->form == FOLD_APART, tuple, len);
    r->live = true;
    r->base = base;
}

static void go(struct fold_table *t, struct fold_row *r, const struct fold_key *k)
{
    bool base = r ? r->base : true;
    if (r)
        t->written--;
    r = fold_rows_put(t, r, k, true, NULL, 0);
    r->live = false;
    r->base = base;
    if (fold_rows_spent(t, r))
        t->spent++;
}

/* A row that no change touched yet is there as long as the base may hold it. */
static bool is_there(const struct fold_table *t, const struct fold_row *r)
{
    return r ? r->live : !t->truncated;
}

/* ---- changes of a table without one ---- */

static void add_copies(struct fold_table *t, const struct fold_key *k, int64_t n)
{
    struct fold_row *r = fold_rows_find(t, k);
    if (!r)
        r = fold_rows_put(t, NULL, k, true, NULL, 0);
    else if (r->count == 0)
        t->spent--;
    t->written -= r->count > 0 ? (uint64_t)r->count : 0;
    r->count += n;
    t->written += r->count > 0 ? (uint64_t)r->count : 0;
    if (r->count == 0)
        t->spent++;
}

/* Is one more of them known not to be there? */
static bool none_left(const struct fold_table *t, const struct fold_key *k)
{
    const struct fold_row *r = t->truncated ? fold_rows_find(t, k) : NULL;
    return t->truncated && (!r || r->count == 0);
}

/* ---- changes ---- */

static int came_twice(const struct fold_table *t, const struct fold_key *k, struct err *e)
{
    return fold_contradiction(t, k->p, k->len, "came although it was there", e);
}

static int went_twice(const struct fold_table *t, const struct fold_key *k, struct err *e)
{
    return fold_contradiction(t, k->p, k->len, "went or changed although it was not there", e);
}

static int changed(struct fold_table *t)
{
    t->changes++;
    fold_rows_tidy(t);
    return 0;
}

static int insert_row(struct fold_table *t, const struct fold_key *k, const char *tuple, size_t len,
                      struct err *e)
{
    if (t->form == FOLD_WHOLE) {
        add_copies(t, k, 1);
        return changed(t);
    }
    struct fold_row *r = fold_rows_find(t, k);
    if (r && r->live)
        return came_twice(t, k, e);
    come(t, r, k, false, tuple, len);
    return changed(t);
}

static int delete_row(struct fold_table *t, const struct fold_key *k, struct err *e)
{
    if (t->form == FOLD_WHOLE) {
        if (none_left(t, k))
            return went_twice(t, k, e);
        add_copies(t, k, -1);
        return changed(t);
    }
    struct fold_row *r = fold_rows_find(t, k);
    if (!is_there(t, r))
        return went_twice(t, k, e);
    go(t, r, k);
    return changed(t);
}

static int replace_row(struct fold_table *t, const struct fold_key *k, const char *tuple,
                       size_t len, struct err *e)
{
    if (t->form == FOLD_WHOLE)
        return err_set(e, ERR_DAMAGED, 0, "table %s: a row without key was replaced", t->name);
    struct fold_row *r = fold_rows_find(t, k);
    if (!is_there(t, r))
        return went_twice(t, k, e);
    come(t, r, k, true, tuple, len);
    return changed(t);
}

/* For what any change makes of a row. */
static int need_room(const struct fold_table *t, struct err *e)
{
    if (t->bytes_len <= FOLD_BYTES_MAX - 4 * TUPLE_MAX)
        return 0;
    return err_set(e, ERR_REFUSED, 0, "table %s: too many rows changed", t->name);
}

int fold_change_row(struct fold_table *t, enum fold_op op, const struct fold_key *k,
                    const char *tuple, size_t len, struct err *e)
{
    if (need_room(t, e) < 0)
        return -1;
    return op == FOLD_INSERT   ? insert_row(t, k, tuple, len, e)
           : op == FOLD_DELETE ? delete_row(t, k, e)
                               : replace_row(t, k, tuple, len, e);
}

int fold_change(struct fold_table *t, enum fold_op op, const char *tuple, size_t len, struct err *e)
{
    struct fold_key k;
    if (fold_read_key(t, tuple, len, &t->key_of[0], &k, e) < 0)
        return -1;
    return fold_change_row(t, op, &k, tuple, len, e);
}

/* ---- changes of the key ---- */

/* The keys differ: one row goes, another one comes. */
static int update_key(struct fold_table *t, struct fold_row *r, const struct fold_key *before,
                      const struct fold_key *after, const char *tuple, size_t len, struct err *e)
{
    const struct fold_row *taken = fold_rows_find(t, after);
    if (taken && taken->live)
        return came_twice(t, after, e);
    go(t, r, before);
    come(t, fold_rows_find(t, after), after, false, tuple, len);
    return changed(t);
}

static int update_whole(struct fold_table *t, const struct fold_key *before,
                        const struct fold_key *after, struct err *e)
{
    if (none_left(t, before))
        return went_twice(t, before, e);
    add_copies(t, before, -1);
    add_copies(t, after, 1);
    return changed(t);
}

static bool same_key(const struct fold_key *a, const struct fold_key *b)
{
    return a->hash == b->hash && a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

int fold_update(struct fold_table *t, const char *before, size_t before_len, const char *after,
                size_t after_len, struct err *e)
{
    struct fold_key old, new;
    if (fold_read_key(t, before, before_len, &t->key_of[0], &old, e) < 0)
        return -1;
    fold_rows_ahead(t, &old);
    if (fold_read_key(t, after, after_len, &t->key_of[1], &new, e) < 0 || need_room(t, e) < 0)
        return -1;
    if (t->form == FOLD_WHOLE)
        return update_whole(t, &old, &new, e);
    struct fold_row *r = fold_rows_find(t, &old);
    if (!is_there(t, r))
        return went_twice(t, &old, e);
    if (!same_key(&old, &new))
        return update_key(t, r, &old, &new, after, after_len, e);
    come(t, r, &new, true, after, after_len);
    return changed(t);
}

void fold_truncate(struct fold_table *t)
{
    fold_rows_clear(t);
    t->written = 0;
    t->truncated = true;
    t->changes++;
}
