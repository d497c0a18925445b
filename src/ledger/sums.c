#include "ledger/sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* Parses a number such as "-12.5" with `scale` digits after the point. Returns false if it has
 * another form. */
bool ledger_value_parse(const char *s, size_t len, unsigned scale, total_t *out)
{
    bool negative = len && s[0] == '-';
    total_t v = 0;
    unsigned after = 0, digits = 0;
    bool point = false;
    for (size_t i = negative; i < len; i++) {
        if (s[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (s[i] < '0' || s[i] > '9' || ++digits > LEDGER_TOTAL_DIGITS)
            return false;
        v = v * 10 + (s[i] - '0');
        after += point;
    }
    *out = negative ? -v : v;
    return digits > 0 && after == scale;
}

/* Writes the number in the form that ledger_value_parse() reads. No C library function prints
 * 128 bits. */
void ledger_value_put(struct buf *b, total_t v, unsigned scale)
{
    char text[64], *p = text + sizeof text;
    bool negative = v < 0;
    unsigned digits = 0;
    if (negative)
        v = -v;
    do {
        *--p = (char)('0' + (int)(v % 10));
        v /= 10;
        if (++digits == scale && scale)
            *--p = '.';
    } while (v || digits <= scale);
    if (negative)
        *--p = '-';
    buf_add(b, p, (size_t)(text + sizeof text - p));
}

/* Accepts only digits, up to 2^64 - 1: an id from the server is checked before it is used in
 * arithmetic. */
bool ledger_parse_id(const char *s, size_t len, uint64_t *out)
{
    *out = 0;
    if (!s || len == 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!number_append(out, s[i]))
            return false;
    return true;
}

/* Times of one column compare as numbers or, because the server pads them, as texts. */
static bool sums_newer(const struct run *r, const char *a, size_t len, const struct buf *b)
{
    if (!b->p)
        return true;
    if (r->l->time_is_number)
        return strtoll(a, NULL, 10) > strtoll(b->p, NULL, 10);
    size_t n = len < b->len ? len : b->len;
    int order = memcmp(a, b->p, n);
    return order > 0 || (order == 0 && len > b->len);
}

/* Returns the group of this row's key: the last group, or a new one, which takes ownership of
 * the key. Rows of a MEMORY piece come in the order of keys, so that the last group is always
 * the right one. Groups of an InnoDB piece are merged at its end. */
struct group *ledger_group_of(struct piece *p, struct buf *key)
{
    struct group *g = p->count ? &p->groups[p->count - 1] : NULL;
    if (g && g->key.len == key->len && memcmp(g->key.p, key->p, key->len) == 0)
        return g;
    p->groups = xgrow(p->groups, p->count, sizeof *p->groups);
    g = &p->groups[p->count++];
    *g = (struct group){.key = *key};
    *key = (struct buf){0};
    return g;
}

void ledger_group_add(const struct run *r, struct group *g, uint64_t id, const total_t *v,
                      const char *time, size_t len)
{
    for (unsigned i = 0; i < r->l->cfg->value.count; i++)
        g->sum[i] += v[i];
    if (time && sums_newer(r, time, len, &g->time)) { /* NULL is not a time */
        buf_clear(&g->time);
        buf_add(&g->time, time, len);
    }
    if (id > g->last_id)
        g->last_id = id;
    g->rows++;
}

/* Compares the bytes of the keys. Any order is correct if it is the same in each session. */
static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    size_t n = x->key.len < y->key.len ? x->key.len : y->key.len;
    int order = memcmp(x->key.p, y->key.p, n);
    return order ? order : (x->key.len > y->key.len) - (x->key.len < y->key.len);
}

/* Rows of an InnoDB piece come in the order of ids. Groups are sorted by key, so that two
 * sessions lock rollup rows in the same order. */
void ledger_merge_groups(const struct run *r, struct piece *p)
{
    size_t n = 0;
    if (p->count)
        qsort(p->groups, p->count, sizeof *p->groups, compare_groups);
    for (size_t i = 0; i < p->count; i++) {
        struct group *g = &p->groups[i], *last = n ? &p->groups[n - 1] : NULL;
        if (!last || compare_groups(last, g) != 0) {
            p->groups[n++] = *g;
            continue;
        }
        for (unsigned v = 0; v < r->l->cfg->value.count; v++)
            last->sum[v] += g->sum[v];
        last->rows += g->rows;
        if (g->last_id > last->last_id)
            last->last_id = g->last_id;
        /* Swapped, not copied: the other one is freed below. */
        if (g->time.p && sums_newer(r, g->time.p, g->time.len, &last->time)) {
            struct buf t = last->time;
            last->time = g->time;
            g->time = t;
        }
        buf_free(&g->key);
        buf_free(&g->time);
    }
    p->count = n;
}

void ledger_free_piece(struct piece *p)
{
    for (size_t i = 0; i < p->count; i++) {
        buf_free(&p->groups[i].key);
        buf_free(&p->groups[i].time);
    }
    free(p->groups);
    buf_free(&p->up_to);
    buf_free(&p->next);
    buf_free(&p->ids);
    buf_free(&p->ignored);
    *p = (struct piece){0};
}
