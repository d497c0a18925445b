#include "ledger/piece_sql.h"

#include <inttypes.h>
#include <string.h>

#include "ledger/sql.h"
#include "ledger/sums.h"
#include "mysql/rows.h"
#include "mysql/value.h"
#include "sql/literal.h"

/* Appends a value as it is inserted or, with `compared`, as it is compared. A compared text has
 * its own character set, so that the column's collation decides, as it does in the index. */
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

/* Joins each row's rollup position. The server evaluates a join once for all consecutive rows of
 * a key, but a subquery for each row. The joined columns have their own names, because the
 * ledger's columns are unqualified. */
static void join_marks(struct buf *sql, const struct run *r)
{
    const struct ledger *l = r->l;
    buf_adds(sql, " LEFT JOIN (SELECT ");
    for (unsigned i = 0; i < l->cfg->key.count; i++)
        sql_fill(sql, "?? AS wk_$,", DB_ARGS(l->key[i]->name, DB_NUMBER(i)));
    buf_printf(sql, "end_id AS wk_mark FROM %s " DB_ONLY_TABLE ") r ON ", r->rollup.p);
    for (unsigned i = 0; i < l->cfg->key.count; i++)
        sql_fill(sql, "$r.wk_$=l.??", DB_ARGS(i ? " AND " : "", DB_NUMBER(i), l->key[i]->name));
}

/* Appends the condition for the rows. In an InnoDB ledger these are the rows that are old
 * enough. In a MEMORY ledger a row that is too young ends its key, but is read as well, so that
 * a piece reads a limited number of rows. */
static void put_condition(struct buf *sql, const struct run *r)
{
    const struct config_ledger *c = r->l->cfg;
    if (r->after.len)
        buf_printf(sql, " WHERE %s", r->after.p);
    if (r->l->memory)
        return;
    sql_fill(sql, "$l.?\?<=$ AND l.?\?>$",
             DB_ARGS(r->after.len ? " AND " : " WHERE ", c->id, DB_NUMBER(r->upto), c->id,
                     DB_NUMBER(r->after_id)));
    if (r->until.len)
        sql_fill(sql, " AND l.?\?<=$", DB_ARGS(c->time, r->until.p));
}

/* A piece's rows have the columns id, rollup position of the key, late, keys, values, time
 * (run_int.h). A MEMORY ledger is read in the order of (key, id), an InnoDB ledger in the order
 * of ids. */
void ledger_sql_select(struct buf *b, const struct run *r)
{
    const struct ledger *l = r->l;
    const struct config_ledger *c = l->cfg;
    struct db_column columns[2 * CONFIG_LEDGER_COLUMNS];
    struct db_table read = {.columns = columns, .column_count = ledger_columns(l)};
    for (unsigned i = 0; i < read.column_count; i++)
        columns[i] = *ledger_column(l, i);
    sql_fill(b, "SELECT /* worldkeeper */ l.??,$,",
             DB_ARGS(c->id, l->memory ? "COALESCE(r.wk_mark,0)" : "0"));
    if (r->newest.len)
        sql_fill(b, "COALESCE(l.?\?<$,0),", DB_ARGS(c->time, r->newest.p));
    else
        buf_adds(b, "0,");
    db_select_list(b, &read);
    sql_fill(b, ",l.??$ FROM $ l", DB_ARGS(c->time, r->whole.len ? r->whole.p : "", r->table.p));
    if (l->memory) {
        /* The index has this order, so that no piece sorts the whole ledger. */
        sql_fill(b, " FORCE INDEX (?\?)", DB_ARGS(l->index));
        join_marks(b, r);
    } else {
        buf_adds(b, " " DB_ONLY_TABLE);
    }
    put_condition(b, r);
    buf_adds(b, " ORDER BY ");
    if (l->memory)
        ledger_sql_each(b, l, LEDGER_KEYS, "", "l.$,");
    sql_fill(b, "l.?? LIMIT $", DB_ARGS(c->id, DB_NUMBER(r->piece)));
    /* Rows that a game has locked are left to the next run. Rows for a file are only read, so
     * they need no lock. */
    if (!l->memory && !r->whole.len)
        buf_adds(b, " FOR UPDATE SKIP LOCKED");
}

/* Appends a condition in the order of (key, id): rows after this row, whose keys are `row`, or
 * rows up to it. `whole_key`: the row stands for all ids of its key. The separate limit on the
 * first column is redundant, but lets the optimizer see a range. */
void ledger_sql_limit(struct buf *b, const struct run *r, char **row, const unsigned long *len,
                      uint64_t id, bool after, bool whole_key)
{
    const struct ledger *l = r->l;
    unsigned n = l->cfg->key.count;
    const char *sign = after ? ">" : "<";
    for (unsigned i = 0; i < n; i++) {
        const char *name = l->key[i]->name;
        bool more = i + 1 < n || !whole_key;
        SCOPED(buf_free) struct buf v = {0};
        ledger_put_literal(&v, l->key[i], row[i], len[i], true);
        if (i == 0)
            sql_fill(b, "??$=$ AND ", DB_ARGS(name, sign, v.p));
        sql_fill(b, "(??$$", DB_ARGS(name, sign, v.p));
        if (more || !after)
            sql_fill(b, " OR ?\?=$$", DB_ARGS(name, v.p, more ? " AND " : ""));
    }
    if (!whole_key)
        sql_fill(b, "??$$", DB_ARGS(l->cfg->id, after ? ">" : "<=", DB_NUMBER(id)));
    for (unsigned i = 0; i < n; i++)
        buf_addc(b, ')');
}

/* Appends the rows of the INSERT: key, sums, end_id, end_time, rows. */
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
        buf_printf(b, ",%" PRIu64, g->last_id);
        if (i == 0)
            buf_printf(b, "+" DB_ONLY_0("%s"), r->rollup.p);
        buf_addc(b, ',');
        if (g->time.p)
            sql_string(b, g->time.p, g->time.len);
        else
            buf_adds(b, "NULL");
        buf_printf(b, ",%" PRIu64 ")", g->rows);
    }
}

/* Changes the total and the rollup position of a key in one write of its row. */
void ledger_sql_add(struct buf *b, const struct run *r, const struct piece *p)
{
    const struct ledger *l = r->l;
    /* MySQL deprecates VALUES(), and MariaDB does not know the alias that replaces it. */
    const char *t = r->rollup.p, *open = l->new_row[0] ? "n." : "VALUES(",
               *close = l->new_row[0] ? "" : ")";
    buf_printf(b, "INSERT INTO %s (", t);
    ledger_sql_each(b, l, LEDGER_ALL, "", "$,");
    buf_adds(b, "end_id,end_time,`rows`) VALUES ");
    put_groups(b, r, p);
    buf_printf(b, "%s ON DUPLICATE KEY UPDATE ", l->new_row);
    for (unsigned i = 0; i < l->cfg->value.count; i++) {
        SCOPED(buf_free) struct buf v = {0};
        sql_ident(&v, l->value[i]->name);
        buf_printf(b, "%s=%s.%s+%s%s%s,", v.p, t, v.p, open, v.p, close);
    }
    buf_printf(b,
               "end_time=IF(%send_time%s>COALESCE(%s.end_time,0),%send_time%s,%s.end_time),"
               "`rows`=%s.`rows`+%s`rows`%s,end_id=GREATEST(%s.end_id,%send_id%s)",
               open, close, t, open, close, t, t, open, close, t, open, close);
}

void ledger_sql_rows_of(struct buf *b, const struct run *r, const struct piece *p)
{
    const char *id = r->l->cfg->id;
    if (!r->l->memory) {
        sql_fill(b, "?? IN ($)", DB_ARGS(id, p->ids.p));
        return;
    }
    if (r->after.len)
        buf_printf(b, "%s AND ", r->after.p);
    if (p->up_to.len)
        buf_printf(b, "%s AND ", p->up_to.p);
    sql_fill(b, "?\?<=$", DB_ARGS(id, DB_NUMBER(r->upto)));
    if (p->ignored.len)
        sql_fill(b, " AND ?? NOT IN ($)", DB_ARGS(id, p->ignored.p));
}

/* Without the hint, MySQL would read all rows of a small table and wait for those that a game
 * has locked. In MariaDB sql_safe_updates prevents that. A hint accepts no schema name, and ends
 * at the first "*" "/". */
void ledger_sql_delete(struct buf *b, const struct run *r, const struct piece *p)
{
    const struct ledger *l = r->l;
    const char *table = l->cfg->table, *index = l->memory ? l->index : l->id_index;
    buf_adds(b, "DELETE ");
    if (!l->mariadb && index && !strstr(index, "*/") && !strstr(table, "*/"))
        sql_fill(b, "/*+ INDEX(?? ?\?) */ ", DB_ARGS(table, index));
    buf_printf(b, "FROM %s WHERE ", r->table.p);
    ledger_sql_rows_of(b, r, p);
    buf_printf(b, " AND " DB_ONLY("%s"), r->table.p);
}
