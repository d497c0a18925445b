#include "ledger/sql.h"

#include <stdio.h>
#include <string.h>

#include "sql/literal.h"

const char *ledger_own(char out[LEDGER_OWN_MAX], const struct config_ledger *c, const char *suffix)
{
    snprintf(out, LEDGER_OWN_MAX, "%s_%s", c->name, suffix);
    return out;
}

void ledger_sql_each(struct buf *b, const struct ledger *l, enum ledger_part part,
                     const char *between, const char *form)
{
    unsigned from = part == LEDGER_VALUES ? l->cfg->key.count : 0;
    unsigned to = part == LEDGER_KEYS ? l->cfg->key.count : ledger_columns(l);
    for (unsigned i = from; i < to; i++) {
        buf_adds(b, i > from ? between : "");
        for (const char *s = form; *s; s++)
            if (*s == '$')
                sql_ident(b, ledger_column(l, i)->name);
            else
                buf_addc(b, *s);
    }
}

/* Returns NULL if the definition does not have the option. */
static const char *ledger_sql_option(const struct sql_table *t, const char *name)
{
    for (size_t i = 0; i < t->option_count; i++)
        if (strcmp(t->options[i].name, name) == 0)
            return t->options[i].value;
    return NULL;
}

/* Returns the engine of what --init makes: that of the ledger. */
static const char *sql_engine(const struct ledger *l)
{
    return l->memory ? "MEMORY" : "InnoDB";
}

/* Appends the column as in the ledger, for example "`a` varchar(9) CHARACTER SET x NOT NULL".
 * Character set and collation are also named if they are the ledger's default, because in an
 * ALTER TABLE of the rollup its own default would apply. */
static void column_type(struct buf *b, const struct ledger *l, const char *name)
{
    const struct sql_column *c = sql_table_column(&l->def, name);
    const char *charset = c->charset, *collation = c->collation;
    for (size_t i = 0; i < l->table.column_count && !charset && !collation; i++) {
        const struct db_column *is = &l->table.columns[i];
        if (!is->charset[0] || strcmp(is->name, name) != 0)
            continue;
        charset = ledger_sql_option(&l->def, "CHARSET");
        collation = ledger_sql_option(&l->def, "COLLATE");
    }
    sql_fill(b, "?? $", DB_ARGS(c->name, c->type));
    if (charset)
        buf_printf(b, " CHARACTER SET %s", charset);
    if (collation)
        buf_printf(b, " COLLATE %s", collation);
    buf_adds(b, " NOT NULL");
}

/* Names the ledger's defaults, because the server's may differ. */
static void default_charset(struct buf *b, const struct ledger *l)
{
    const char *charset = ledger_sql_option(&l->def, "CHARSET"),
               *collation = ledger_sql_option(&l->def, "COLLATE");
    if (charset)
        buf_printf(b, " DEFAULT CHARSET=%s", charset);
    if (collation)
        buf_printf(b, " COLLATE=%s", collation);
}

void ledger_sql_column(struct buf *b, const struct ledger *l, const char *name)
{
    for (unsigned i = 0; i < l->cfg->value.count; i++) {
        const struct db_column *c = l->value[i];
        if (strcmp(c->name, name) != 0)
            continue;
        /* A total must hold far more than a value: 64 bits, or 19 digits more. */
        sql_ident(b, name);
        if (text_starts(c->type, "decimal"))
            buf_printf(b, " decimal(%u,%u)", LEDGER_TOTAL_DIGITS, l->scale[i]);
        else
            buf_adds(b, " bigint");
        buf_adds(b, strstr(c->type, "unsigned") ? " unsigned NOT NULL" : " NOT NULL");
        return;
    }
    column_type(b, l, name);
}

void ledger_sql_rollup(struct buf *b, const struct ledger *l)
{
    SCOPED(buf_free) struct buf columns = {0}, keys = {0};
    const struct sql_column *at = sql_table_column(&l->def, l->cfg->time);
    for (unsigned i = 0; i < ledger_columns(l); i++) {
        ledger_sql_column(&columns, l, ledger_column(l, i)->name);
        buf_adds(&columns, ", ");
    }
    ledger_sql_each(&keys, l, LEDGER_KEYS, ",", "$");
    sql_fill(b,
             "CREATE TABLE IF NOT EXISTS ?? ($end_id bigint unsigned NOT NULL, end_time $ NULL, "
             "`rows` bigint unsigned NOT NULL, PRIMARY KEY ($)$) ENGINE=$",
             DB_ARGS(LEDGER_OWN(l->cfg, "rollup"), columns.p, at->type, keys.p,
                     l->memory ? " USING BTREE" : "", sql_engine(l)));
    default_charset(b, l);
}

void ledger_sql_mark(struct buf *b, const struct ledger *l)
{
    sql_fill(b,
             "CREATE TABLE IF NOT EXISTS ?? (what varbinary(16) NOT NULL, at bigint NOT NULL, id "
             "bigint unsigned NOT NULL, PRIMARY KEY (what)) ENGINE=$",
             DB_ARGS(LEDGER_OWN(l->cfg, "mark"), sql_engine(l)));
}

void ledger_sql_join(struct buf *b, const struct ledger *l)
{
    ledger_sql_each(b, l, LEDGER_KEYS, " AND ", "r.$=l.$");
}

/* In a MEMORY ledger, rows up to a key's rollup position are in its total even if they are not
 * deleted yet, so the view omits them. */
void ledger_sql_total(struct buf *b, const struct ledger *l)
{
    const struct config_ledger *c = l->cfg;
    SCOPED(buf_free) struct buf keys = {0}, sums = {0}, totals = {0}, rows = {0};
    ledger_sql_each(&keys, l, LEDGER_KEYS, ",", "t.$");
    ledger_sql_each(&sums, l, LEDGER_VALUES, ",", "SUM(t.$) AS $");
    ledger_sql_each(&totals, l, LEDGER_ALL, ",", "r.$");
    ledger_sql_each(&rows, l, LEDGER_ALL, ",", "l.$");
    sql_fill(b,
             "CREATE OR REPLACE SQL SECURITY INVOKER VIEW ?? AS SELECT $,$ FROM (SELECT $ FROM ?? "
             "r UNION ALL SELECT $ FROM ?? l",
             DB_ARGS(LEDGER_OWN(c, "total"), keys.p, sums.p, totals.p, LEDGER_OWN(c, "rollup"),
                     rows.p, c->table));
    if (l->memory) {
        sql_fill(b, " LEFT JOIN ?? r ON ", DB_ARGS(LEDGER_OWN(c, "rollup")));
        ledger_sql_join(b, l);
        sql_fill(b, " WHERE l.?\?>COALESCE(r.end_id,0)", DB_ARGS(c->id));
    }
    sql_fill(b, ") t GROUP BY $", DB_ARGS(keys.p));
}

/* A level begins at the sum of the amounts of all levels before it. The last row's amount leads
 * to one more level, the top. If it is NULL, the last row is the top. */
void ledger_sql_level(struct buf *b, const struct ledger *l)
{
    const char *levels = l->cfg->levels, *v = l->value[0]->name;
    SCOPED(buf_free) struct buf keys = {0};
    if (!levels)
        return;
    ledger_sql_each(&keys, l, LEDGER_KEYS, ",", "t.$");
    sql_fill(b,
             "CREATE OR REPLACE SQL SECURITY INVOKER VIEW ?? AS SELECT $,s.level AS "
             "level,t.?\?-s.begins AS exp,s.begins+s.amount-t.?? AS to_next FROM ?? t JOIN (SELECT "
             "level,amount,COALESCE(SUM(amount) OVER (ORDER BY level ROWS BETWEEN UNBOUNDED "
             "PRECEDING AND 1 PRECEDING),0) AS begins,ROW_NUMBER() OVER (ORDER BY level)=1 AS "
             "is_first FROM ?? UNION ALL SELECT MAX(level)+1,NULL,SUM(amount),0 FROM ?? HAVING "
             "COUNT(amount)=COUNT(*) AND COUNT(*)>0) s ON (t.?\?>=s.begins OR s.is_first=1) AND "
             "(s.amount IS NULL OR t.?\?<s.begins+s.amount)",
             DB_ARGS(LEDGER_OWN(l->cfg, "level"), keys.p, v, v, LEDGER_OWN(l->cfg, "total"), levels,
                     levels, v, v));
}

void ledger_sql_request(struct buf *b, const struct ledger *l)
{
    SCOPED(buf_free) struct buf column = {0};
    if (!l->request)
        return;
    column_type(&column, l, l->request->name);
    sql_fill(
        b,
        "CREATE TABLE IF NOT EXISTS ?? ($, at bigint NOT NULL, PRIMARY KEY (?\?), KEY at USING "
        "BTREE (at)) ENGINE=$",
        DB_ARGS(LEDGER_OWN(l->cfg, "request"), column.p, l->request->name, sql_engine(l)));
    default_charset(b, l);
}

const char *ledger_sql_timing(const struct ledger *l)
{
    return l->memory ? "BEFORE" : "AFTER";
}

/* A locking read sees the latest committed rows, whatever the transaction saw before. */
void ledger_sql_trigger(struct buf *b, const struct ledger *l)
{
    const char *own, *column = l->request ? l->request->name : NULL;
    if (!column)
        return;
    own = LEDGER_OWN(l->cfg, "request");
    sql_fill(
        b,
        "CREATE TRIGGER ?? $ INSERT ON ?? FOR EACH ROW IF EXISTS (SELECT 1 FROM ?? q " DB_ONLY_TABLE
        " WHERE "
        "q.?\?=NEW.??$) THEN SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO=1062,"
        "MESSAGE_TEXT='Duplicate request: it is in a total of ledger $'; END IF",
        DB_ARGS(own, ledger_sql_timing(l), l->cfg->table, own, column, column,
                l->memory ? "" : " LOCK IN SHARE MODE", l->cfg->name));
}

void ledger_sql_index(struct buf *b, const struct ledger *l)
{
    SCOPED(buf_free) struct buf keys = {0};
    ledger_sql_each(&keys, l, LEDGER_KEYS, ",", "$");
    sql_fill(b, "ALTER TABLE ??.?? ADD KEY ?? ($,?\?)$",
             DB_ARGS(l->schema, l->cfg->table, LEDGER_OWN(l->cfg, "key"), keys.p, l->cfg->id,
                     l->memory ? " USING BTREE" : ""));
}
