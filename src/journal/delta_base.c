#include "journal/delta_base.h"

#include "journal/delta_int.h"
#include "journal/delta_rows.h"

/* Refuses rows of a scan that was not made at one moment, if the table has no key. Without a key
 * only counts of equal rows are known, and such a scan cannot confirm them. After a TRUNCATE the
 * base does not matter. */
static int refuse_loose(const struct delta_table *t, bool loose, struct err *e)
{
    if (!loose || t->form != DELTA_WHOLE || t->truncated)
        return 0;
    return err_set(
        e, ERR_REFUSED, 0,
        "table %s has no primary key: its changes can only be applied to a consistent snapshot",
        t->name);
}

/* Compares a row of the base with the changes. For a table with a key, sets `changed` to the
 * corresponding changed row. */
static int base_row(struct delta_table *t, const struct delta_key *k, bool loose,
                    struct delta_row **changed, struct err *e)
{
    *changed = NULL;
    if (t->truncated)
        return 0;
    struct delta_row *r = delta_rows_find(t, k);
    if (!r || (t->form == DELTA_WHOLE && r->count >= 0))
        return 1;
    if (t->form == DELTA_WHOLE) { /* for each deleted row, one of the equal rows is dropped */
        t->taken_out = xgrow(t->taken_out, t->taken_out_count, sizeof *t->taken_out);
        t->taken_out[t->taken_out_count++] = r->number;
        t->spent += ++r->count == 0;
        return 0;
    }
    if (!loose && !r->base)
        return delta_contradiction(t, k->p, k->len, "is in the base, but was inserted later", e);
    if (!loose && r->seen)
        return delta_contradiction(t, k->p, k->len, "is in the base twice", e);
    r->seen = true;
    *changed = r;
    return 0;
}

int delta_base(struct delta_table *t, const char *tuple, size_t len, bool loose, struct err *e)
{
    struct delta_key k;
    struct delta_row *changed;
    if (refuse_loose(t, loose, e) < 0 || delta_read_key(t, tuple, len, &t->key_of[0], &k, e) < 0)
        return -1;
    return base_row(t, &k, loose, &changed, e);
}

void delta_base_again(struct delta_table *t)
{
    t->taken_count = 0;
    for (size_t i = 0; i < t->taken_out_count; i++) {
        struct delta_row *r = delta_rows_at(t, t->taken_out[i]);
        t->spent -= r->count-- == 0;
    }
    t->taken_out_count = 0;
    for (size_t i = 0; i < t->count && t->form != DELTA_WHOLE; i++) {
        struct delta_row *r = delta_rows_at(t, i);
        r->seen = r->given = false;
    }
}

static struct delta_span tuple_of(const struct delta_table *t, const struct delta_row *r)
{
    size_t key = t->form == DELTA_APART ? r->key_len : 0;
    return (struct delta_span){r->bytes + key, r->len - key};
}

int delta_base_take(struct delta_table *t, const char *text, size_t len, size_t *tuple_len,
                    struct err *e)
{
    if (!t->taken)
        t->taken = xcalloc(DELTA_SPANS, sizeof *t->taken);
    struct delta_taken *k = &t->taken[t->taken_count];
    if (delta_read_front(t, text, len, tuple_len, &k->joined, &k->key, e) < 0)
        return -1;
    k->row = (struct delta_span){text, *tuple_len};
    delta_rows_ahead(t, &k->key);
    t->taken_count++;
    return 0;
}

int delta_bases(struct delta_table *t, struct delta_span *instead, struct err *e)
{
    size_t n = t->taken_count;
    t->taken_count = 0;
    /* prefetches all rows before the first one is needed */
    for (size_t i = 0; i < n; i++)
        delta_rows_near(t, &t->taken[i].key);
    for (size_t i = 0; i < n; i++) {
        struct delta_row *r;
        int rc = base_row(t, &t->taken[i].key, false, &r, e);
        if (rc < 0)
            return -1;
        instead[i] = (struct delta_span){NULL, 0};
        if (rc == 1) {
            instead[i] = t->taken[i].row;
        } else if (r && r->live) {
            r->given = true;
            instead[i] = tuple_of(t, r);
        }
    }
    return 0;
}

/* Checks that all deleted or changed rows were in the base. */
static int check_base(const struct delta_table *t, bool loose, struct err *e)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct delta_row *r = delta_rows_at(t, i);
        bool missing = t->form == DELTA_WHOLE ? r->count < 0 : !loose && r->base && !r->seen;
        if (missing)
            return delta_contradiction(t, delta_rows_key(t, r), r->key_len,
                                       "was deleted or updated but is not in the base", e);
    }
    return 0;
}

/* Rows collected for one call of `fn`. */
struct block {
    struct buf text;
    uint64_t rows;
    size_t limit;
    delta_rows_fn *fn;
    void *arg;
};

static int hand_out(struct block *b, struct err *e)
{
    int rc = b->rows ? b->fn(b->arg, b->text.p, b->text.len, b->rows, e) : 0;
    buf_clear(&b->text);
    b->rows = 0;
    return rc;
}

static int delta_base_write_row(struct block *b, const char *tuple, size_t len, struct err *e)
{
    if (b->rows && b->text.len + 2 + len > b->limit && hand_out(b, e) < 0)
        return -1;
    if (b->rows)
        buf_add(&b->text, ",\n", 2);
    buf_add(&b->text, tuple, len);
    b->rows++;
    return 0;
}

static int delta_base_write_rows(const struct delta_table *t, struct block *b, struct err *e)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct delta_row *r = delta_rows_at(t, i);
        int64_t copies = t->form == DELTA_WHOLE ? r->count : r->live && !r->given;
        struct delta_span s = tuple_of(t, r);
        for (; copies > 0; copies--)
            if (delta_base_write_row(b, s.p, s.len, e) < 0)
                return -1;
    }
    return hand_out(b, e);
}

int delta_part(const struct delta_table *t, enum delta_part what, size_t block, delta_rows_fn *fn,
               void *arg, struct err *e)
{
    struct block b = {.limit = block, .fn = fn, .arg = arg};
    struct buf key = {0};
    int rc = 0;
    for (size_t i = 0; i < t->count && rc == 0 && t->form != DELTA_WHOLE; i++) {
        const struct delta_row *r = delta_rows_at(t, i);
        /* DELTA_GONE: rows that were in the base and no longer exist. DELTA_NEW: rows that were
         * not in the base and exist. Otherwise: rows that were in the base and still exist. */
        if (what != DELTA_KEYS &&
            (r->live != (what != DELTA_GONE) || r->base != (what != DELTA_NEW)))
            continue;
        struct delta_span s = tuple_of(t, r);
        if (what == DELTA_GONE || what == DELTA_KEYS) {
            buf_clear(&key);
            buf_addc(&key, '(');
            buf_add(&key, delta_rows_key(t, r), r->key_len);
            buf_addc(&key, ')');
            s = (struct delta_span){key.p, key.len};
        }
        rc = delta_base_write_row(&b, s.p, s.len, e);
    }
    if (rc == 0)
        rc = hand_out(&b, e);
    buf_free(&key);
    buf_free(&b.text);
    return rc;
}

size_t delta_key(const struct delta_table *t, const unsigned **columns)
{
    *columns = t->key;
    return t->keys;
}

int delta_finish(struct delta_table *t, bool loose, size_t block, delta_rows_fn *fn, void *arg,
                 struct err *e)
{
    if (refuse_loose(t, loose, e) < 0 || check_base(t, loose, e) < 0)
        return -1;
    struct block b = {.limit = block, .fn = fn, .arg = arg};
    int rc = delta_base_write_rows(t, &b, e);
    buf_free(&b.text);
    return rc;
}
