#include "dump/ledger_count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "mysql/only_table.h"
#include "sql/literal.h"

/* The marker that a run leaves while rows of a piece may have been added to the rollup but not
 * yet deleted. */
#define OPEN "'open'"

static struct manifest_ledger *ledger_count_find(const struct manifest *m, const char *name)
{
    for (size_t i = 0; i < m->ledger_count; i++)
        if (strcmp(m->ledgers[i].name, name) == 0)
            return &m->ledgers[i];
    return NULL;
}

/* Returns the entry of a ledger, adding it if needed. Invalidates pointers to ledgers, because
 * the list may move. */
static struct manifest_ledger *ledger_count_find_or_add(struct manifest *m,
                                                        const struct config_ledger *c)
{
    struct manifest_ledger *l = ledger_count_find(m, c->name);
    if (l)
        return l;
    m->ledgers = xgrow(m->ledgers, m->ledger_count, sizeof *m->ledgers);
    l = &m->ledgers[m->ledger_count++];
    *l = (struct manifest_ledger){.table = xstrdup(c->table)};
    snprintf(l->name, sizeof l->name, "%s", c->name);
    return l;
}

/* True if `table` is `name` followed by `suffix`. Case is ignored, because servers may change
 * it. */
static bool is_own(const char *table, const char *name, const char *suffix)
{
    size_t n = strlen(name);
    return strncasecmp(table, name, n) == 0 && strcasecmp(table + n, suffix) == 0;
}

/* Finds the position of a column in the rows of a dump. Returns false if the rows do not contain
 * the column. */
static bool field_of(const struct db_table *t, const char *column, size_t *out)
{
    int place = db_tuple_place(t, column);
    *out = place < 0 ? 0 : (size_t)place;
    return place >= 0;
}

void ledger_count_begin(struct ledger_count *c, const struct config *cfg, struct manifest *m,
                        const struct db_table *t)
{
    *c = (struct ledger_count){0};
    for (unsigned i = 0; i < cfg->ledger_count; i++) {
        const char *name = cfg->ledgers[i].name;
        bool rollup = is_own(t->name, name, "_rollup") && field_of(t, "rows", &c->number) &&
                      field_of(t, "end_id", &c->end);
        c->marks = is_own(t->name, name, "_mark") && field_of(t, "what", &c->what) &&
                   field_of(t, "id", &c->number);
        if (!rollup && !c->marks)
            continue;
        struct manifest_ledger *l = ledger_count_find_or_add(m, &cfg->ledgers[i]);
        l->counted |= rollup;
        c->m = m;
        c->ledger = (size_t)(l - m->ledgers);
        return;
    }
}

void ledger_count_row(const struct ledger_count *c, const char *tuple, size_t len)
{
    size_t n;
    if (!c->m)
        return;
    struct manifest_ledger *l = &c->m->ledgers[c->ledger];
    const char *what = c->marks ? sql_tuple_field(tuple, len, c->what, &n) : NULL;
    if (c->marks && (!what || n != strlen(OPEN) || memcmp(what, OPEN, n) != 0))
        return;
    const char *number = sql_tuple_field(tuple, len, c->number, &n);
    const char *end = c->marks ? NULL : sql_tuple_field(tuple, len, c->end, &n);
    uint64_t *sum = c->marks ? &l->open : &l->rolled_up, count = 0, id = 0;
    if (number)
        number_digits(&number, UINT64_MAX, &count);
    *sum = number_sum(*sum, count);
    if (end && number_digits(&end, UINT64_MAX, &id) && id > l->end_id)
        l->end_id = id;
}

/* Reads the sum at a time shortly after the dump's. If there is no rollup table, the sum is
 * unknown. */
static int count_durable(const struct config *cfg, const struct config_ledger *c,
                         struct manifest *m, struct db *db, struct err *e)
{
    struct err why;
    SCOPED(xfree) char *rollup = xasprintf("%s_rollup", c->name);
    SCOPED(xfree) char *sum =
        db_one_with(db, "SELECT COALESCE(SUM(`rows`),0) FROM ??.?? " DB_ONLY_TABLE,
                    DB_ARGS(cfg->schema, rollup), &why);
    if (!sum)
        return db_unanswered(&why) ? err_pass(e, &why) : 0;
    struct manifest_ledger *l = ledger_count_find_or_add(m, c);
    l->counted = true;
    l->rolled_up = strtoull(sum, NULL, 10);
    return 0;
}

/* Returns the name of a ledger's table as the server lists it, or NULL if it was not dumped. */
static const char *ledger_count_listed(const struct manifest *m, const char *table)
{
    for (size_t i = 0; i < m->table_count; i++)
        if (strcasecmp(m->tables[i].name, table) == 0)
            return m->tables[i].name;
    return NULL;
}

int ledger_count_end(const struct config *cfg, struct manifest *m, struct db *db, struct err *e)
{
    for (unsigned i = 0; i < cfg->ledger_count; i++) {
        const struct config_ledger *c = &cfg->ledgers[i];
        const struct manifest_ledger *l = ledger_count_find(m, c->name);
        if (ledger_count_listed(m, c->table) && !(l && l->counted) &&
            count_durable(cfg, c, m, db, e) < 0)
            return -1;
    }
    for (size_t i = 0; i < m->ledger_count; i++) {
        const char *listed = ledger_count_listed(m, m->ledgers[i].table);
        if (listed) {
            free(m->ledgers[i].table);
            m->ledgers[i].table = xstrdup(listed);
        }
    }
    return 0;
}
