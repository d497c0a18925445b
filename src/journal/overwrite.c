#include "journal/overwrite.h"

#include "sql/literal.h"

static uint64_t overwrite_hash(const char *s, size_t len)
{
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * UINT64_C(1099511628211);
    return h;
}

/* Returns the hash of literal i of a tuple. ends[i] is the offset of its end. */
static uint64_t overwrite_literal(const char *tuple, const size_t *ends, size_t i)
{
    size_t from = i ? ends[i - 1] + 1 : 1;
    return overwrite_hash(tuple + from, ends[i] - from);
}

static void remember_before(struct overwrite *o, size_t i, uint64_t value)
{
    unsigned char n = 0;
    while (n < o->values[i] && o->before[i][n] != value)
        n++;
    if (n == o->values[i])
        o->before[i][o->values[i]++] = value;
}

void overwrite_row(struct overwrite *o, const struct change *c)
{
    size_t now[OVERWRITE_COLUMNS], was[OVERWRITE_COLUMNS], n, m;
    bool first = o->rows++ == 0;
    o->table = c->table;
    if (!first && !o->same)
        return;
    if (!sql_split_tuple(c->tuple, c->tuple + c->len, now, OVERWRITE_COLUMNS, &n) ||
        !sql_split_tuple(c->before, c->before + c->before_len, was, OVERWRITE_COLUMNS, &m) ||
        n != m) {
        o->same = 0;
        return;
    }
    for (size_t i = 0; i < n && i < OVERWRITE_COLUMNS; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if (!first && !(o->same & bit))
            continue;
        uint64_t value = overwrite_literal(c->tuple, now, i);
        if (first) {
            o->same |= bit;
            o->after[i] = value;
        }
        if (o->after[i] != value)
            o->same &= ~bit;
        else if (o->values[i] < OVERWRITE_VALUES)
            remember_before(o, i, overwrite_literal(c->before, was, i));
    }
}

uint64_t overwrite_columns(const struct overwrite *o)
{
    uint64_t out = 0;
    for (size_t i = 0; i < OVERWRITE_COLUMNS; i++)
        if (o->values[i] == OVERWRITE_VALUES)
            out |= o->same & UINT64_C(1) << i;
    return out;
}
