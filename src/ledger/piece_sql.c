/* The statements of a piece. */
#include <inttypes.h>
#include <string.h>

#include "ledger/run_int.h"
#include "mysql/rows.h"
#include "mysql/value.h"
#include "sql/literal.h"

/* A value as it is inserted, and as it is compared: a text in its own character set, so that the
 * column's collation decides, as it does in the index. */
void ledger_put_literal(struct buf *b, const struct db_column *c, const char *v, size_t len,
                        bool compared)
{
    if (compared && c->charset[0] && c->encoding == DB_BYTES) {
        buf_printf(b, "_%s ", c->charset);
        if (len)
            sql_hex(b, v, len);
        else
            buf_adds(b, "''");
        return;
    }
    buf_reserve(b, 2 * len + DB_VALUE_ROOM);
    b->len = (size_t)(db_put_value(b->p + b->len, c->encoding, v, len) - b->p);
    b->p[b->len] = '\0';
}

/* "l.`a`" */
static void column_of(struct buf *b, const char *name)
{
    buf_adds(b, "l.");
    sql_ident(b, name);
}

/* The columns of a piece's rows: id, its key's mark, late, keys, values, time; and the tables. */
static void select_columns(const struct run *r, struct buf *sql)
{
    const struct config_ledger *c = r->l->cfg;
    struct db_column cols[2 * CONFIG_LEDGER_COLUMNS];
    struct db_table read = {.columns = cols};
    for (unsigned i = 0; i < c->key.count; i++)
        cols[read.column_count++] = *r->l->key[i];
    for (unsigned i = 0; i < c->value.count; i++)
        cols[read.column_count++] = *r->l->value[i];
    buf_adds(sql, "SELECT /* worldkeeper */ ");
    column_of(sql, c->id);
    buf_adds(sql, r->l->memory ? ",COALESCE(r.wk_mark,0)" : ",0");
    if (r->newest.len) {
        buf_adds(sql, ",COALESCE(");
        column_of(sql, c->time);
        buf_printf(sql, "<%s,0),", r->newest.p);
    } else {
        buf_adds(sql, ",0,");
    }
    db_select_list(sql, &read);
    buf_addc(sql, ',');
    column_of(sql, c->time);
    buf_adds(sql, r->whole.len ? r->whole.p : "");
    buf_printf(sql, " FROM %s l", r->table.p);
}

/* Each row's mark. A join looks it up once for all rows of a key that follow each other, a subquery for
 * each row. Names of its own: those of the ledger stand without its name. */
static void join_marks(struct buf *sql, const struct run *r)
{
    const struct ledger *l = r->l;
    buf_adds(sql, " LEFT JOIN (SELECT ");
    for (unsigned i = 0; i < l->cfg->key.count; i++) {
        sql_ident(sql, l->key[i]->name);
        buf_printf(sql, " AS wk_%u,", i);
    }
    buf_printf(sql, "end_id AS wk_mark FROM %s) r ON ", r->rollup.p);
    for (unsigned i = 0; i < l->cfg->key.count; i++) {
        buf_printf(sql, "%sr.wk_%u=", i ? " AND " : "", i);
        column_of(sql, l->key[i]->name);
    }
}

/* Which rows: of an InnoDB ledger those that are old enough. In a MEMORY ledger a row that is too young
 * ends its key: it is read as well, so that a piece looks at a limited number of rows. */
static void put_condition(struct buf *sql, const struct run *r)
{
    const struct config_ledger *c = r->l->cfg;
    if (r->after.len)
        buf_printf(sql, " WHERE %s", r->after.p);
    if (r->l->memory)
        return;
    buf_adds(sql, r->after.len ? " AND " : " WHERE ");
    column_of(sql, c->id);
    buf_printf(sql, "<=%" PRIu64, r->upto);
    buf_adds(sql, " AND ");
    column_of(sql, c->id);
    buf_printf(sql, ">%" PRIu64, r->after_id);
    if (r->until.len) {
        buf_adds(sql, " AND ");
        column_of(sql, c->time);
        buf_printf(sql, "<=%s", r->until.p);
    }
}

/* A MEMORY ledger in the order of (key, id), an InnoDB ledger in that of ids. */
void ledger_sql_select(struct buf *b, const struct run *r)
{
    const struct ledger *l = r->l;
    select_columns(r, b);
    if (l->memory) {
        buf_adds(b, " FORCE INDEX (");
        sql_ident(b, l->index);
        buf_addc(b, ')');
    }
    if (l->memory)
        join_marks(b, r);
    put_condition(b, r);
    buf_adds(b, " ORDER BY ");
    for (unsigned i = 0; i < l->cfg->key.count && l->memory; i++) {
        column_of(b, l->key[i]->name);
        buf_addc(b, ',');
    }
    column_of(b, l->cfg->id);
    buf_printf(b, " LIMIT %u", r->piece);
    if (!l->memory && !r->whole.len)
        buf_adds(b, " FOR UPDATE SKIP LOCKED");
}

/* In the order of (key, id): after the tuple of this row, whose keys are `row`, or up to it. `whole_key`: the row stands for
 * all ids of its key. Each column's own limit, which follows from the rest, lets the optimizer see a
 * range. */
void ledger_sql_limit(struct buf *b, const struct run *r, char **row, const unsigned long *len,
                      uint64_t id, bool after, bool whole_key)
{
    const struct ledger *l = r->l;
    unsigned n = l->cfg->key.count;
    for (unsigned i = 0; i < n; i++) {
        const struct db_column *c = l->key[i];
        struct buf name = {0}, v = {0};
        sql_ident(&name, c->name);
        ledger_put_literal(&v, c, row[i], len[i], true);
        if (i == 0)
            buf_printf(b, "%s%s=%s AND ", name.p, after ? ">" : "<", v.p);
        buf_printf(b, "(%s%s%s", name.p, after ? ">" : "<", v.p);
        if (i + 1 < n || !whole_key)
            buf_printf(b, " OR %s=%s AND ", name.p, v.p);
        else if (!after)
            buf_printf(b, " OR %s=%s", name.p, v.p);
        buf_free(&name);
        buf_free(&v);
    }
    if (!whole_key) {
        sql_ident(b, l->cfg->id);
        buf_printf(b, "%s%" PRIu64, after ? ">" : "<=", id);
    }
    for (unsigned i = 0; i < n; i++)
        buf_addc(b, ')');
}

static void put_groups(struct buf *b, const struct run *r, const struct piece *p)
{
    const struct ledger *l = r->l;
    for (size_t i = 0; i < p->count; i++) {
        const struct group *g = &p->groups[i];
        buf_printf(b, "%s(%s", i ? "," : "", g->key.p);
        for (unsigned v = 0; v < l->cfg->value.count; v++) {
            buf_addc(b, ',');
            ledger_value_put(b, g->sum[v], l->scale[v]);
        }
        buf_printf(b, ",%" PRIu64 ",", g->last_id);
        if (g->time.p)
            sql_string(b, g->time.p, g->time.len);
        else
            buf_adds(b, "NULL");
        buf_printf(b, ",%" PRIu64 ")", g->rows);
    }
}

/* "`a`,`b`" of keys and values. */
static void put_names(struct buf *b, const struct ledger *l)
{
    for (unsigned i = 0; i < l->cfg->key.count; i++) {
        sql_ident(b, l->key[i]->name);
        buf_addc(b, ',');
    }
    for (unsigned i = 0; i < l->cfg->value.count; i++) {
        sql_ident(b, l->value[i]->name);
        buf_addc(b, ',');
    }
}

/* Total and mark of a key change in one write of its row. */
void ledger_sql_add(struct buf *b, const struct run *r, const struct piece *p)
{
    const struct ledger *l = r->l;
    const char *t = r->rollup.p, *open = l->mariadb ? "VALUES(" : "n.",
               *close = l->mariadb ? ")" : "";
    buf_printf(b, "INSERT INTO %s (", t);
    put_names(b, l);
    buf_adds(b, "end_id,end_time,`rows`) VALUES ");
    put_groups(b, r, p);
    buf_printf(b, "%s ON DUPLICATE KEY UPDATE ", l->mariadb ? "" : " AS n");
    for (unsigned i = 0; i < l->cfg->value.count; i++) {
        struct buf v = {0};
        sql_ident(&v, l->value[i]->name);
        buf_printf(b, "%s=%s.%s+%s%s%s,", v.p, t, v.p, open, v.p, close);
        buf_free(&v);
    }
    buf_printf(b,
               "end_time=IF(%send_time%s>COALESCE(%s.end_time,0),%send_time%s,%s.end_time),"
               "`rows`=%s.`rows`+%s`rows`%s,end_id=GREATEST(%s.end_id,%send_id%s)",
               open, close, t, open, close, t, t, open, close, t, open, close);
}

/* The condition for the rows of a piece. */
void ledger_sql_rows_of(struct buf *b, const struct run *r, const struct piece *p)
{
    if (!r->l->memory) {
        sql_ident(b, r->l->cfg->id);
        buf_printf(b, " IN (%s)", p->ids.p);
        return;
    }
    if (r->after.len)
        buf_printf(b, "%s AND ", r->after.p);
    if (p->up_to.len)
        buf_printf(b, "%s AND ", p->up_to.p);
    sql_ident(b, r->l->cfg->id);
    buf_printf(b, "<=%" PRIu64, r->upto);
    if (p->ignored.len) {
        buf_adds(b, " AND ");
        sql_ident(b, r->l->cfg->id);
        buf_printf(b, " NOT IN (%s)", p->ignored.p);
    }
}

/* Of a small table MySQL would read all rows, and wait for those that a game has locked; in MariaDB
 * sql_safe_updates prevents that. A hint takes no name of a schema. */
static void put_index_hint(struct buf *b, const struct ledger *l)
{
    const char *index = l->memory ? l->index : l->id_index;
    if (l->mariadb || !index || strstr(index, "*/") || strstr(l->cfg->table, "*/"))
        return;
    buf_adds(b, "/*+ INDEX(");
    sql_ident(b, l->cfg->table);
    buf_addc(b, ' ');
    sql_ident(b, index);
    buf_adds(b, ") */ ");
}

void ledger_sql_delete(struct buf *b, const struct run *r, const struct piece *p)
{
    buf_adds(b, "DELETE ");
    put_index_hint(b, r->l);
    buf_printf(b, "FROM %s WHERE ", r->table.p);
    ledger_sql_rows_of(b, r, p);
}
