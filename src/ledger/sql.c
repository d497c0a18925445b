/* The tables and views beside a ledger. */
#include <stdlib.h>
#include <string.h>

#include "ledger/ledger.h"
#include "sql/literal.h"

/* `NAME_suffix` */
static void own_name(struct buf *b, const struct ledger *l, const char *suffix)
{
    char *name = xasprintf("%s_%s", l->cfg->name, suffix);
    sql_ident(b, name);
    free(name);
}

/* "a.`x`,a.`y`" of the first `n` columns; no `from`: without "a." */
static void columns(struct buf *b, const char *from, const struct db_column *const *list,
                    unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        buf_printf(b, "%s%s%s", i ? "," : "", from, from[0] ? "." : "");
        sql_ident(b, list[i]->name);
    }
}

static void keys(struct buf *b, const char *from, const struct ledger *l)
{
    columns(b, from, l->key, l->cfg->key.count);
}

static const char *option(const struct sql_table *t, const char *name)
{
    for (size_t i = 0; i < t->option_count; i++)
        if (strcmp(t->options[i].name, name) == 0)
            return t->options[i].value;
    return NULL;
}

static const char *engine(const struct ledger *l)
{
    return l->memory ? "MEMORY" : "InnoDB";
}

/* A total must hold far more than a value: 64 bits, or 19 digits more. */
static void total_type(struct buf *b, const struct ledger *l, unsigned i)
{
    const struct db_column *c = l->value[i];
    const char *sign = strstr(c->type, "unsigned") ? " unsigned" : "";
    if (text_starts(c->type, "decimal"))
        buf_printf(b, "decimal(%u,%u)%s", LEDGER_TOTAL_DIGITS, l->scale[i], sign);
    else
        buf_printf(b, "bigint%s", sign);
}

/* "`a` varchar(9) CHARACTER SET x NOT NULL", as in the ledger. What the ledger's default decides is said as
 * well: in an ALTER TABLE of the rollup its own default would decide. */
static void column_type(struct buf *b, const struct ledger *l, const char *name)
{
    const struct sql_column *c = sql_table_column(&l->def, name);
    const char *charset = c->charset, *collation = c->collation;
    for (size_t i = 0; i < l->table.column_count && !charset && !collation; i++) {
        const struct db_column *is = &l->table.columns[i];
        if (!is->charset[0] || strcmp(is->name, name) != 0)
            continue;
        charset = option(&l->def, "CHARSET");
        collation = option(&l->def, "COLLATE");
    }
    sql_ident(b, c->name);
    buf_printf(b, " %s", c->type);
    if (charset)
        buf_printf(b, " CHARACTER SET %s", charset);
    if (collation)
        buf_printf(b, " COLLATE %s", collation);
    buf_adds(b, " NOT NULL");
}

static void default_charset(struct buf *b, const struct ledger *l)
{
    const char *charset = option(&l->def, "CHARSET"), *collation = option(&l->def, "COLLATE");
    if (charset)
        buf_printf(b, " DEFAULT CHARSET=%s", charset);
    if (collation)
        buf_printf(b, " COLLATE=%s", collation);
}

void ledger_sql_column(struct buf *b, const struct ledger *l, const char *name)
{
    for (unsigned i = 0; i < l->cfg->value.count; i++) {
        if (strcmp(l->value[i]->name, name) != 0)
            continue;
        sql_ident(b, name);
        buf_addc(b, ' ');
        total_type(b, l, i);
        buf_adds(b, " NOT NULL");
        return;
    }
    column_type(b, l, name);
}

void ledger_sql_rollup(struct buf *b, const struct ledger *l)
{
    const struct config_ledger *c = l->cfg;
    buf_adds(b, "CREATE TABLE IF NOT EXISTS ");
    own_name(b, l, "rollup");
    buf_adds(b, " (");
    for (unsigned i = 0; i < c->key.count; i++) {
        ledger_sql_column(b, l, l->key[i]->name);
        buf_adds(b, ", ");
    }
    for (unsigned i = 0; i < c->value.count; i++) {
        ledger_sql_column(b, l, l->value[i]->name);
        buf_adds(b, ", ");
    }
    const struct sql_column *at = sql_table_column(&l->def, c->time);
    buf_printf(b,
               "end_id bigint unsigned NOT NULL, end_time %s NULL, `rows` bigint unsigned NOT "
               "NULL, PRIMARY KEY (",
               at->type);
    keys(b, "", l);
    buf_printf(b, ")%s) ENGINE=%s", l->memory ? " USING BTREE" : "", engine(l));
    default_charset(b, l);
}

void ledger_sql_mark(struct buf *b, const struct ledger *l)
{
    buf_adds(b, "CREATE TABLE IF NOT EXISTS ");
    own_name(b, l, "mark");
    buf_printf(b,
               " (what varbinary(16) NOT NULL, at bigint NOT NULL, id bigint unsigned NOT NULL, "
               "PRIMARY KEY (what)) ENGINE=%s",
               engine(l));
}

/* "r.`a`=l.`a` AND …" */
void ledger_sql_join(struct buf *b, const struct ledger *l)
{
    for (unsigned i = 0; i < l->cfg->key.count; i++) {
        buf_adds(b, i ? " AND r." : "r.");
        sql_ident(b, l->key[i]->name);
        buf_adds(b, "=l.");
        sql_ident(b, l->key[i]->name);
    }
}

/* In a MEMORY ledger, rows up to a key's mark are in its total although they may not be deleted yet. */
void ledger_sql_total(struct buf *b, const struct ledger *l)
{
    const struct config_ledger *c = l->cfg;
    buf_adds(b, "CREATE OR REPLACE SQL SECURITY INVOKER VIEW ");
    own_name(b, l, "total");
    buf_adds(b, " AS SELECT ");
    keys(b, "t", l);
    for (unsigned i = 0; i < c->value.count; i++) {
        buf_adds(b, ",SUM(t.");
        sql_ident(b, l->value[i]->name);
        buf_adds(b, ") AS ");
        sql_ident(b, l->value[i]->name);
    }
    buf_adds(b, " FROM (SELECT ");
    keys(b, "r", l);
    buf_addc(b, ',');
    columns(b, "r", l->value, c->value.count);
    buf_adds(b, " FROM ");
    own_name(b, l, "rollup");
    buf_adds(b, " r UNION ALL SELECT ");
    keys(b, "l", l);
    buf_addc(b, ',');
    columns(b, "l", l->value, c->value.count);
    buf_adds(b, " FROM ");
    sql_ident(b, c->table);
    buf_adds(b, " l");
    if (l->memory) {
        buf_adds(b, " LEFT JOIN ");
        own_name(b, l, "rollup");
        buf_adds(b, " r ON ");
        ledger_sql_join(b, l);
        buf_adds(b, " WHERE l.");
        sql_ident(b, c->id);
        buf_adds(b, ">COALESCE(r.end_id,0)");
    }
    buf_adds(b, ") t GROUP BY ");
    keys(b, "t", l);
}

/* A level begins where the amounts of those before it end. The last row's amount leads to one level more,
 * the top; a NULL there makes that row the top. */
void ledger_sql_level(struct buf *b, const struct ledger *l)
{
    if (!l->cfg->levels)
        return;
    struct buf v = {0}, levels = {0};
    sql_ident(&v, l->value[0]->name);
    sql_ident(&levels, l->cfg->levels);
    buf_adds(b, "CREATE OR REPLACE SQL SECURITY INVOKER VIEW ");
    own_name(b, l, "level");
    buf_adds(b, " AS SELECT ");
    keys(b, "t", l);
    buf_printf(b, ",s.level AS level,t.%s-s.begins AS exp,s.begins+s.amount-t.%s AS to_next FROM ",
               v.p, v.p);
    own_name(b, l, "total");
    buf_printf(
        b,
        " t JOIN (SELECT level,amount,COALESCE(SUM(amount) OVER (ORDER BY level ROWS BETWEEN "
        "UNBOUNDED PRECEDING AND 1 PRECEDING),0) AS begins,ROW_NUMBER() OVER (ORDER BY level)=1 AS "
        "is_first FROM %s UNION ALL SELECT MAX(level)+1,NULL,SUM(amount),0 FROM %s HAVING "
        "COUNT(amount)=COUNT(*) AND COUNT(*)>0) s ON (t.%s>=s.begins OR s.is_first=1) AND "
        "(s.amount IS "
        "NULL OR t.%s<s.begins+s.amount)",
        levels.p, levels.p, v.p, v.p);
    buf_free(&v);
    buf_free(&levels);
}

void ledger_sql_request(struct buf *b, const struct ledger *l)
{
    if (!l->request)
        return;
    buf_adds(b, "CREATE TABLE IF NOT EXISTS ");
    own_name(b, l, "request");
    buf_adds(b, " (");
    column_type(b, l, l->request->name);
    buf_printf(b, ", at bigint NOT NULL, PRIMARY KEY (");
    sql_ident(b, l->request->name);
    buf_printf(b, "), KEY at USING BTREE (at)) ENGINE=%s", engine(l));
    default_charset(b, l);
}

/* A locking read sees what was committed last, whatever the transaction saw before. */
void ledger_sql_trigger(struct buf *b, const struct ledger *l)
{
    if (!l->request)
        return;
    struct buf column = {0};
    sql_ident(&column, l->request->name);
    buf_adds(b, "CREATE TRIGGER ");
    own_name(b, l, "request");
    buf_printf(b, " %s INSERT ON ", l->memory ? "BEFORE" : "AFTER");
    sql_ident(b, l->cfg->table);
    buf_printf(b, " FOR EACH ROW IF EXISTS (SELECT 1 FROM ");
    own_name(b, l, "request");
    buf_printf(b,
               " q WHERE q.%s=NEW.%s%s) THEN SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO=1062,"
               "MESSAGE_TEXT='Duplicate request: it is in a total of ledger %s'; END IF",
               column.p, column.p, l->memory ? "" : " LOCK IN SHARE MODE", l->cfg->name);
    buf_free(&column);
}

void ledger_sql_index(struct buf *b, const struct ledger *l)
{
    buf_adds(b, "ALTER TABLE ");
    sql_ident2(b, l->schema, l->cfg->table);
    buf_adds(b, " ADD KEY ");
    own_name(b, l, "key");
    buf_adds(b, " (");
    keys(b, "", l);
    buf_addc(b, ',');
    sql_ident(b, l->cfg->id);
    buf_adds(b, l->memory ? ") USING BTREE" : ")");
}
