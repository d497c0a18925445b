#include "ledger/columns.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ledger/sql.h"
#include "sql/literal.h"

/* Sets the error text; the caller adds the hint. */
static int columns_refuse(const struct ledger *l, const char *column, struct err *e,
                          const char *why)
{
    return err_set(e, ERR_REFUSED, 0, "[ledger %s]: column %s of table %s_rollup %s", l->cfg->name,
                   column, l->cfg->name, why);
}

/* Adds the statement that repairs the column as a hint. `ledger_sql_column` appends the column's
 * definition. */
static void hint_alter(const struct ledger *l, const char *verb, const char *column, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    sql_fill(&sql, "ALTER TABLE ??.?? $ ", DB_ARGS(l->schema, LEDGER_OWN(l->cfg, "rollup"), verb));
    ledger_sql_column(&sql, l, column);
    err_hint(e, "%s;", sql.p);
}

/* Checks type and collation of a key: only if both are the same, keys compare as in the ledger. */
static int check_key(const struct ledger *l, const struct db_column *key, const char *collated,
                     struct err *e)
{
    const struct db_column *c = db_column_find(&l->rollup, key->name);
    if (!c) {
        columns_refuse(l, key->name, e, "does not exist, but [ledger] key names it");
        return err_hint(e, "existing totals cannot be split by a new key: restore the old key, or "
                           "begin another [ledger NAME]");
    }
    bool same = strcmp(c->type, key->type) == 0 && !(collated && strcmp(collated, key->name) == 0);
    if (same)
        return 0;
    columns_refuse(l, key->name, e,
                   "does not have the ledger's type and collation, which were changed");
    hint_alter(l, "MODIFY", key->name, e);
    return -1;
}

/* Returns 0 for an integer type. */
static unsigned long digits_after_point(const char *type)
{
    const char *comma = strchr(type, ',');
    return text_starts(type, "decimal") && comma ? strtoul(comma + 1, NULL, 10) : 0;
}

/* A total may have a wider type, but needs the same number of digits after the point. */
static int columns_check_value(const struct ledger *l, unsigned i, struct err *e)
{
    const char *name = l->value[i]->name;
    const struct db_column *c = db_column_find(&l->rollup, name);
    if (!c) {
        columns_refuse(l, name, e,
                       "does not exist: existing totals were rolled up without this value, so it "
                       "is 0 in them");
        hint_alter(l, "ADD", name, e);
        return -1;
    }
    unsigned long has = digits_after_point(c->type);
    if (c->encoding == DB_RAW && has == l->scale[i])
        return 0;
    columns_refuse(l, name, e,
                   "has another number of decimals than the ledger's column, which was changed");
    if (c->encoding == DB_RAW && has > l->scale[i]) { /* existing fractions must be kept */
        SCOPED(buf_free) struct buf column = {0}, table = {0};
        sql_ident(&column, name);
        sql_ident(&table, l->cfg->table);
        return err_hint(e, "change column %s of table %s back to DECIMAL with %lu digits there",
                        column.p, table.p, has);
    }
    hint_alter(l, "MODIFY", name, e);
    return -1;
}

/* Refuses a column that the config does not name, because no run would write to it. */
static int check_others(const struct ledger *l, struct err *e)
{
    static const char *const own[] = {"end_id", "end_time", "rows", NULL};
    for (size_t i = 0; i < l->rollup.column_count; i++) {
        const struct db_column *c = &l->rollup.columns[i];
        bool known = text_among(c->name, own) || c->has_default || c->generated;
        for (unsigned k = 0; k < ledger_columns(l) && !known; k++)
            known = strcasecmp(ledger_column(l, k)->name, c->name) == 0;
        if (known)
            continue;
        columns_refuse(l, c->name, e, "is named neither in key nor in value of the config");
        return err_hint(
            e, "add it again to key or value of [ledger %s], or begin another [ledger NAME]",
            l->cfg->name);
    }
    return 0;
}

int ledger_check_columns(struct db *db, const struct ledger *l, struct err *e)
{
    /* With another collation, keys that are equal in the ledger may differ in the rollup, or
     * vice versa. */
    SCOPED(xfree) char *collated = db_one_with(
        db,
        "SELECT l.COLUMN_NAME FROM information_schema.COLUMNS l JOIN information_schema.COLUMNS r "
        "ON r.COLUMN_NAME=l.COLUMN_NAME WHERE l.TABLE_SCHEMA=? AND l.TABLE_NAME=? AND "
        "r.TABLE_SCHEMA=? AND r.TABLE_NAME=? AND r.COLLATION_NAME<>l.COLLATION_NAME LIMIT 1",
        DB_ARGS(l->schema, l->cfg->table, l->schema, LEDGER_OWN(l->cfg, "rollup")), e);
    int rc = collated || e->cls == ERR_NONE ? 0 : -1;
    for (unsigned i = 0; i < l->cfg->key.count && rc == 0; i++)
        rc = check_key(l, l->key[i], collated, e);
    for (unsigned i = 0; i < l->cfg->value.count && rc == 0; i++)
        rc = columns_check_value(l, i, e);
    return rc == 0 ? check_others(l, e) : -1;
}
