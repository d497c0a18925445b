#include "ledger/limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "ledger/sql.h"
#include "ledger/sums.h"
#include "sql/literal.h"

#define TOTAL_MAX (((total_t)INT64_MAX << 64) + (total_t)UINT64_MAX)

/* Returns a + |b|, the largest possible distance of the sum from 0; TOTAL_MAX on overflow. */
static total_t limits_saturated(total_t a, total_t b)
{
    total_t sum;
    return __builtin_add_overflow(a, b < 0 ? -b : b, &sum) ? TOTAL_MAX : sum;
}

/* The type of the total's column in the rollup, which an administrator may have widened since
 * --init. */
static const char *total_type(const struct ledger *l, unsigned i)
{
    const struct db_column *c = db_column_find(&l->rollup, l->value[i]->name);
    return c ? c->type : "";
}

/* Returns the smallest and the largest total that the column can hold, in units of the last
 * digit of the ledger's values. */
static void limits_of(const char *type, unsigned scale, total_t *least, total_t *most)
{
    bool is_unsigned = strstr(type, "unsigned") != NULL;
    *most = TOTAL_MAX;
    if (text_starts(type, "bigint")) {
        *most = is_unsigned ? (total_t)UINT64_MAX : (total_t)INT64_MAX;
    } else if (text_starts(type, "decimal(")) {
        unsigned long digits = strtoul(type + strlen("decimal("), NULL, 10);
        const char *comma = strchr(type, ',');
        digits += scale - (comma ? strtoul(comma + 1, NULL, 10) : 0);
        total_t v = 1;
        for (unsigned long i = 0; i < digits && digits <= LEDGER_TOTAL_DIGITS; i++)
            v *= 10;
        *most = digits <= LEDGER_TOTAL_DIGITS ? v - 1 : TOTAL_MAX;
    }
    *least = is_unsigned ? 0 : -*most;
}

/* Reads one row of `n` totals. NULL becomes 0; a number of another form becomes TOTAL_MAX. */
static int ask_totals(struct run *r, const char *sql, unsigned n, total_t *out, struct err *e)
{
    struct db_rows *rows = db_select_bytes(r->db, n, sql, e);
    int got = rows ? db_next(rows, e) : -1;
    const unsigned long *len;
    char **row = got == 1 ? db_row(rows, &len) : NULL;
    unsigned values = r->l->cfg->value.count;
    for (unsigned i = 0; i < n; i++) {
        out[i] = 0;
        if (row && row[i] &&
            !ledger_value_parse(row[i], len[i], r->l->scale[i < values ? i : i - values], &out[i]))
            out[i] = TOTAL_MAX;
    }
    db_rows_end(rows);
    return got < 0 ? -1 : 0;
}

int ledger_limits_begin(struct run *r, struct err *e)
{
    const struct ledger *l = r->l;
    unsigned n = l->cfg->value.count;
    total_t found[2 * CONFIG_LEDGER_COLUMNS] = {0};
    SCOPED(buf_free) struct buf most = {0}, least = {0}, sql = {0};
    ledger_sql_each(&most, l, LEDGER_VALUES, ",", "MAX($)");
    ledger_sql_each(&least, l, LEDGER_VALUES, ",", "MIN($)");
    buf_printf(&sql, "SELECT %s,%s FROM %s " DB_ONLY_TABLE, most.p, least.p, r->rollup.p);
    int rc = ask_totals(r, sql.p, 2 * n, found, e);
    for (unsigned i = 0; i < n && rc == 0; i++) {
        total_t above = limits_saturated(0, found[i]), below = limits_saturated(0, found[n + i]);
        r->largest[i] = above > below ? above : below;
    }
    return rc;
}

/* Reads the current totals of one key, and refuses the piece if they would not fit with it. */
static int check_group(struct run *r, const struct group *g, struct err *e)
{
    const struct ledger *l = r->l;
    unsigned n = l->cfg->value.count;
    total_t total[CONFIG_LEDGER_COLUMNS], least, most, sum;
    SCOPED(buf_free) struct buf sql = {0};
    buf_adds(&sql, "SELECT ");
    ledger_sql_each(&sql, l, LEDGER_VALUES, ",", "$");
    buf_printf(&sql, " FROM %s " DB_ONLY_TABLE " WHERE (", r->rollup.p);
    ledger_sql_each(&sql, l, LEDGER_KEYS, ",", "$");
    buf_printf(&sql, ")=(%s)", g->key.p);
    int rc = ask_totals(r, sql.p, n, total, e);
    for (unsigned i = 0; i < n && rc == 0; i++) {
        limits_of(total_type(l, i), l->scale[i], &least, &most);
        if (!__builtin_add_overflow(total[i], g->sum[i], &sum) && sum >= least && sum <= most)
            continue;
        char key[200];
        line_set(key, sizeof key, "%s", g->key.p);
        rc = err_set(e, ERR_REFUSED, 0,
                     "[ledger %s]: the total of column %s for the key (%s) would be out of "
                     "range for %s: nothing was changed",
                     l->cfg->name, l->value[i]->name, key, total_type(l, i));
        SCOPED(buf_free) struct buf name = {0};
        sql_ident(&name, l->value[i]->name);
        err_hint(e, "ALTER TABLE %s MODIFY %s DECIMAL(%u,%u) NOT NULL;", r->rollup.p, name.p,
                 LEDGER_TOTAL_DIGITS, l->scale[i]);
    }
    return rc;
}

int ledger_limits_check(struct run *r, const struct piece *p, struct err *e)
{
    const struct ledger *l = r->l;
    bool fits = true;
    int rc = 0;
    for (unsigned i = 0; i < l->cfg->value.count; i++) {
        total_t least, most;
        limits_of(total_type(l, i), l->scale[i], &least, &most);
        for (size_t k = 0; k < p->count; k++) {
            r->largest[i] = limits_saturated(r->largest[i], p->groups[k].sum[i]);
            fits &= least < 0 || p->groups[k].sum[i] >= 0;
        }
        fits &= r->largest[i] <= most;
    }
    /* A statement for each key is sent only now that a total may be too large; most runs never
     * get here. */
    for (size_t k = 0; k < p->count && rc == 0 && !fits; k++)
        rc = check_group(r, &p->groups[k], e);
    return rc;
}
