/* What became of the changes: the base's rows that stay, and those to be written behind them. */
#include "journal/fold_int.h"

static int drop(struct fold_table *t)
{
    t->dropped++;
    return 0;
}

/* Without a key only numbers of equal rows are known, and how many of them a scan saw that had no
 * single moment says nothing. After a truncate the base does not matter. */
static int refuse_loose(const struct fold_table *t, bool loose, struct err *e)
{
    if (!loose || t->form != FOLD_WHOLE || t->truncated)
        return 0;
    return err_set(e, ERR_REFUSED, 0,
                   "table %s has no primary key: its changes fit only rows read at one moment",
                   t->name);
}

static int base_whole(struct fold_table *t, struct fold_row *r)
{
    if (!r || r->count >= 0)
        return 1;
    if (++r->count == 0)
        t->spent++;
    return drop(t);
}

/* `changed`: the row that it became one of, where there is a key. */
static int base_row(struct fold_table *t, const struct fold_key *k, bool loose,
                    struct fold_row **changed, struct err *e)
{
    *changed = NULL;
    if (t->truncated)
        return drop(t);
    struct fold_row *r = fold_rows_find(t, k);
    if (t->form == FOLD_WHOLE)
        return base_whole(t, r);
    if (!r)
        return 1;
    if (!loose && !r->base)
        return fold_contradiction(t, k->p, k->len, "is in the base, but came later", e);
    if (!loose && r->seen)
        return fold_contradiction(t, k->p, k->len, "is in the base twice", e);
    r->seen = true;
    *changed = r;
    return drop(t);
}

int fold_base(struct fold_table *t, const char *tuple, size_t len, bool loose, struct err *e)
{
    struct fold_key k;
    struct fold_row *changed;
    if (refuse_loose(t, loose, e) < 0 || fold_read_key(t, tuple, len, &t->key_of[0], &k, e) < 0)
        return -1;
    return base_row(t, &k, loose, &changed, e);
}

static struct fold_span tuple_of(const struct fold_table *t, const struct fold_row *r)
{
    size_t key = t->form == FOLD_APART ? r->key_len : 0;
    return (struct fold_span){r->bytes + key, r->len - key};
}

/* A loose base may hold a row twice. */
static struct fold_span give(const struct fold_table *t, struct fold_row *r)
{
    if (!r || !r->live || r->given)
        return (struct fold_span){NULL, 0};
    r->given = true;
    return tuple_of(t, r);
}

int fold_base_take(struct fold_table *t, const char *text, size_t len, size_t *tuple_len,
                   struct err *e)
{
    if (!t->taken)
        t->taken = xcalloc(FOLD_SPANS, sizeof *t->taken);
    struct fold_taken *k = &t->taken[t->taken_count];
    if (fold_read_front(t, text, len, tuple_len, &k->joined, &k->key, e) < 0)
        return -1;
    k->row = (struct fold_span){text, *tuple_len};
    fold_rows_ahead(t, &k->key);
    t->taken_count++;
    return 0;
}

int fold_bases(struct fold_table *t, bool loose, struct fold_span *instead, struct err *e)
{
    size_t n = t->taken_count;
    t->taken_count = 0;
    if (refuse_loose(t, loose, e) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        fold_rows_near(t, &t->taken[i].key);
    for (size_t i = 0; i < n; i++) {
        struct fold_row *changed;
        int rc = base_row(t, &t->taken[i].key, loose, &changed, e);
        if (rc < 0)
            return -1;
        instead[i] = rc == 1 ? t->taken[i].row : give(t, changed);
    }
    return 0;
}

/* Did the base have all that went or changed? */
static int check_base(const struct fold_table *t, bool loose, struct err *e)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct fold_row *r = fold_rows_at(t, i);
        bool missing = t->form == FOLD_WHOLE ? r->count < 0 : !loose && r->base && !r->seen;
        if (missing)
            return fold_contradiction(t, fold_rows_key(t, r), r->key_len,
                                      "went or changed, but is not in the base", e);
    }
    return 0;
}

struct block {
    struct buf text;
    uint64_t rows;
    size_t limit;
    fold_rows_fn *fn;
    void *arg;
};

static int hand_out(struct block *b, struct err *e)
{
    int rc = b->rows ? b->fn(b->arg, b->text.p, b->text.len, b->rows, e) : 0;
    buf_clear(&b->text);
    b->rows = 0;
    return rc;
}

static int write_row(struct block *b, const char *tuple, size_t len, struct err *e)
{
    if (b->rows && b->text.len + 2 + len > b->limit && hand_out(b, e) < 0)
        return -1;
    if (b->rows)
        buf_add(&b->text, ",\n", 2);
    buf_add(&b->text, tuple, len);
    b->rows++;
    return 0;
}

static int write_rows(const struct fold_table *t, struct block *b, struct err *e)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct fold_row *r = fold_rows_at(t, i);
        int64_t copies = t->form == FOLD_WHOLE ? r->count : r->live && !r->given;
        struct fold_span s = tuple_of(t, r);
        for (; copies > 0; copies--)
            if (write_row(b, s.p, s.len, e) < 0)
                return -1;
    }
    return hand_out(b, e);
}

int fold_finish(struct fold_table *t, bool loose, size_t block, fold_rows_fn *fn, void *arg,
                struct err *e)
{
    if (refuse_loose(t, loose, e) < 0 || check_base(t, loose, e) < 0)
        return -1;
    struct block b = {.limit = block, .fn = fn, .arg = arg};
    int rc = write_rows(t, &b, e);
    buf_free(&b.text);
    return rc;
}
