/* Reads a ledger's definition from the server, and creates the objects beside the ledger. */
#include "ledger/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/line.h"
#include "ledger/columns.h"
#include "ledger/run_int.h"
#include "ledger/sql.h"
#include "ledger/sums.h"
#include "mysql/fenced.h"
#include "mysql/lease.h"
#include "sql/literal.h"

int ledger_lock(struct db *db, const char *schema, const char *name, int64_t wait, struct err *e)
{
    SCOPED(xfree) char *what = xasprintf("%s.%s", schema, name);
    SCOPED(xfree) char *lock = db_lock_name("wk.ledger", what, "");
    unsigned long holder = 0;
    int got = db_lock(db, lock, wait, &holder, e);
    if (got != 0)
        return got < 0 ? -1 : 0;
    err_set(e, ERR_BUSY, 0, "[ledger %s]: connection %lu of the server is rolling it up", name,
            holder);
    return err_hint(e, "wait for it to end; if it hangs, in the server: KILL %lu;", holder);
}

int ledger_ask(struct db *db, uint64_t *out, struct err *e, const char *fmt, ...)
{
    SCOPED(buf_free) struct buf sql = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&sql, fmt, ap);
    va_end(ap);
    SCOPED(xfree) char *s = db_one(db, sql.p, e);
    *out = 0;
    if (!s)
        return e->cls == ERR_NONE ? 0 : -1;
    return ledger_parse_id(s, strlen(s), out)
               ? 0
               : db_invalid(db, e, "\"%s\" is not a number from 0 to 2^64 - 1", s);
}

int ledger_server_now(struct db *db, int64_t *ms, struct err *e)
{
    uint64_t n;
    int rc = ledger_ask(db, &n, e, "SELECT CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS UNSIGNED)");
    *ms = (int64_t)n;
    return rc;
}

int ledger_may_change(const struct ledger *l, struct db *db, struct err *e)
{
    char what[100];
    line_set(what, sizeof what, "[ledger %s]", l->cfg->name);
    return db_may_change_rows(db, what, e);
}

int ledger_mark_write(struct run *r, const char *what, wall_t at, uint64_t id, struct err *e)
{
    if (ledger_may_change(r->l, r->db, e) < 0)
        return -1;
    return db_execf(r->db, e,
                    "REPLACE INTO %s VALUES ('%s',%" PRId64 ",%" PRIu64 "+" DB_ONLY_0("%s") ")",
                    r->mark.p, what, at.ms, id, r->mark.p);
}

int ledger_mark_closed(struct run *r, struct err *e)
{
    if (ledger_may_change(r->l, r->db, e) < 0)
        return -1;
    return db_execf(r->db, e, "DELETE FROM %s WHERE what='open' AND " DB_ONLY("%s"), r->mark.p,
                    r->mark.p);
}

/* ---- the columns and indexes of the ledger ---- */

/* Returns true for types without a fraction, which the server does not round. */
static bool is_integer(const struct db_column *c)
{
    return c->encoding == DB_RAW && !text_starts(c->type, "decimal");
}

/* Sets an error that names the column, its type and the type that is required. */
static int ledger_refuse(const struct ledger *l, const struct db_column *c, struct err *e,
                         const char *what)
{
    return err_set(e, ERR_REFUSED, 0, "[ledger %s]: column %s of table %s is %s: %s", l->cfg->name,
                   c->name, l->cfg->table, c->type, what);
}

/* Finds a column that the config names; the table must have it. */
static const struct db_column *ledger_named(const struct ledger *l, const char *role,
                                            const char *name, struct err *e)
{
    const struct db_column *c = db_column_find(&l->table, name);
    if (!c)
        err_set(e, ERR_REFUSED, 0, "[ledger %s] %s = %s: table %s has no such column", l->cfg->name,
                role, name, l->cfg->table);
    return c;
}

/* Finds the scale s of a value column, an integer or DECIMAL(p,s). Refuses p > LEDGER_DIGITS, so
 * that sums fit in 128 bits. */
static int value_scale(const struct ledger *l, const struct db_column *c, unsigned *scale,
                       struct err *e)
{
    *scale = 0;
    if (c->encoding != DB_RAW)
        return ledger_refuse(l, c, e, "allowed for a value: an integer or a DECIMAL");
    if (is_integer(c))
        return 0;
    const char *p = strchr(c->type, '(');
    unsigned long digits = p ? strtoul(p + 1, NULL, 10) : 10;
    const char *comma = p ? strchr(p, ',') : NULL;
    *scale = comma ? (unsigned)strtoul(comma + 1, NULL, 10) : 0;
    return digits > LEDGER_DIGITS
               ? ledger_refuse(l, c, e, "allowed for a DECIMAL value: at most 30 digits")
               : 0;
}

/* Refuses column types whose sums, order or age cannot be computed exactly, before anything is
 * rolled up. */
static int ledger_find_columns(struct ledger *l, struct err *e)
{
    const struct config_ledger *c = l->cfg;
    for (unsigned i = 0; i < c->key.count; i++)
        if (!(l->key[i] = ledger_named(l, "key", c->key.list[i], e)))
            return -1;
    for (unsigned i = 0; i < c->value.count; i++)
        if (!(l->value[i] = ledger_named(l, "value", c->value.list[i], e)) ||
            value_scale(l, l->value[i], &l->scale[i], e) < 0)
            return -1;
    const struct db_column *id = ledger_named(l, "id", c->id, e),
                           *at = id ? ledger_named(l, "time", c->time, e) : NULL;
    if (!at)
        return -1;
    if (!is_integer(id) || !id->counter)
        return ledger_refuse(l, id, e, "allowed for the id: an integer with AUTO_INCREMENT");
    if (c->request && !(l->request = ledger_named(l, "request", c->request, e)))
        return -1;
    l->time_is_number = is_integer(at);
    l->time_is_instant = text_starts(at->type, "timestamp");
    if (!l->time_is_number && !text_starts(at->type, "datetime") &&
        !text_starts(at->type, "timestamp") && strcmp(at->type, "date") != 0)
        return ledger_refuse(
            l, at, e,
            "allowed for a time: DATETIME, TIMESTAMP, DATE or an integer (seconds since 1970)");
    return 0;
}

/* Finds a BTREE index that begins with the key and ends with the id. A MEMORY ledger is read in
 * its order, and it finds the totals of one key. For an InnoDB ledger on MySQL, also finds the
 * index that begins with the id; see ledger_sql_delete(). */
static int find_indexes(struct db *db, struct ledger *l, struct err *e)
{
    const char *table = l->cfg->table;
    SCOPED(buf_free) struct buf want = {0};
    for (unsigned i = 0; i < l->cfg->key.count; i++)
        buf_printf(&want, "%s\n", l->key[i]->name);
    buf_adds(&want, l->cfg->id);
    l->index = db_one_settled(
        db, l->schema, table,
        "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=? AND "
        "TABLE_NAME=? AND INDEX_TYPE='BTREE' GROUP BY INDEX_NAME HAVING COUNT(SUB_PART)=0 AND "
        "GROUP_CONCAT(LOWER(COLUMN_NAME) ORDER BY SEQ_IN_INDEX SEPARATOR '\\n')="
        "LOWER(CONVERT(? USING utf8mb4)) LIMIT 1",
        DB_ARGS(l->schema, table, want.p), e);
    if (!l->index && e->cls != ERR_NONE)
        return -1;
    if (l->memory || l->mariadb)
        return 0;
    l->id_index = db_one_settled(
        db, l->schema, table,
        "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=? AND "
        "TABLE_NAME=? AND SEQ_IN_INDEX=1 AND LOWER(COLUMN_NAME)=LOWER(?) ORDER BY "
        "INDEX_NAME='PRIMARY' DESC LIMIT 1",
        DB_ARGS(l->schema, table, l->cfg->id), e);
    return l->id_index || e->cls == ERR_NONE ? 0 : -1;
}

/* ---- opening a ledger ---- */

/* Moves the only table of the list to *out, if there is one. */
static int one_table(struct db *db, const char *schema, const char *name, struct db_table *out,
                     bool *there, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables list = {0};
    if (db_table_named(db, schema, name, &list, e) < 0)
        return -1;
    *there = list.count == 1;
    if (*there) {
        *out = list.list[0];
        list.count = 0;
    }
    return 0;
}

/* Refuses a table or a view of that name that --init did not make: it belongs to the game. */
static int refuse_foreign(const struct ledger *l, const char *name, struct err *e)
{
    err_set(e, ERR_REFUSED, 0, "[ledger %s]: %s exists, but was not created by --init",
            l->cfg->name, name);
    return err_hint(e,
                    "if it belongs to the game, give the ledger another name, such as [ledger "
                    "%s_2]; the name may differ from the table's",
                    l->cfg->name);
}

/* Checks that the table exists and has all configured columns. Its engine must be MEMORY or
 * InnoDB, because only their visibility of rows is known. */
static int read_ledger(struct db *db, struct ledger *l, struct err *e)
{
    const char *table = l->cfg->table;
    bool there = false;
    if (one_table(db, l->schema, table, &l->table, &there, e) < 0)
        return -1;
    if (!there)
        return err_set(e, ERR_REFUSED, DB_NO_TABLE,
                       "[ledger %s] table = %s: schema %s has no such table", l->cfg->name, table,
                       l->schema);
    l->next_id = l->table.auto_increment;
    l->memory = l->table.memory;
    if (!l->memory && strcasecmp(l->table.engine, "InnoDB") != 0)
        return err_set(e, ERR_REFUSED, 0,
                       "[ledger %s]: table %s is ENGINE=%s; a ledger must be MEMORY or InnoDB",
                       l->cfg->name, table, l->table.engine);
    SCOPED(xfree) char *create = db_create_table(db, l->schema, table, e);
    return create && sql_table_read(create, strlen(create), 0, &l->def, e) == 0 &&
                   ledger_find_columns(l, e) == 0
               ? find_indexes(db, l, e)
               : -1;
}

/* Refuses a former MEMORY table that may still have rows that are in totals. An interrupted run
 * or a restore left them to the next run to delete, but in InnoDB each existing row counts. */
static int refuse_left_over(struct db *db, const struct ledger *l, struct err *e)
{
    SCOPED(buf_free) struct buf mark = {0}, table = {0};
    uint64_t rows = 0;
    sql_ident2(&mark, l->schema, LEDGER_OWN(l->cfg, "mark"));
    sql_ident2(&table, l->schema, l->cfg->table);
    if (ledger_ask(db, &rows, e, "SELECT id FROM %s " DB_ONLY_TABLE " WHERE what='open'", mark.p) <
        0) {
        if (!db_table_missing(e))
            return -1;
        err_clear(e);
    }
    if (rows == 0)
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "[ledger %s]: table %s was ENGINE=MEMORY and may still have rows that are already in "
            "totals: in InnoDB they would be counted twice",
            l->cfg->name, l->cfg->table);
    return err_hint(e,
                    "ALTER TABLE %s ENGINE=MEMORY; then worldkeeper --rollup=%s, which deletes "
                    "them; then ENGINE=InnoDB",
                    table.p, l->cfg->name);
}

/* Reads the rollup if --init has made it. A durable ledger with a rollup in MEMORY is refused: a
 * server restart would lose the totals of rows that are deleted. */
static int read_rollup(struct db *db, struct ledger *l, struct err *e)
{
    const char *rollup = LEDGER_OWN(l->cfg, "rollup");
    if (one_table(db, l->schema, rollup, &l->rollup, &l->made, e) < 0)
        return -1;
    if (!l->made)
        return 0;
    if (!db_column_find(&l->rollup, "end_id") || !db_column_find(&l->rollup, "end_time") ||
        !db_column_find(&l->rollup, "rows"))
        return refuse_foreign(l, rollup, e);
    if (!l->memory && refuse_left_over(db, l, e) < 0)
        return -1;
    if (!l->memory && l->rollup.memory) {
        err_set(e, ERR_REFUSED, 0,
                "[ledger %s]: table %s is ENGINE=MEMORY and %s is InnoDB: after a restart of the "
                "server, the totals of rows that were deleted would be lost",
                l->cfg->name, rollup, l->cfg->table);
        return err_hint(e,
                        "ALTER TABLE %s ENGINE=InnoDB; and the same for %s_mark%s%s; then "
                        "worldkeeper --init",
                        rollup, l->cfg->name, l->request ? " and " : "",
                        l->request ? LEDGER_OWN(l->cfg, "request") : "");
    }
    return ledger_check_columns(db, l, e);
}

int ledger_open(struct db *db, const char *schema, const struct config_ledger *cfg,
                struct ledger *out, struct err *e)
{
    *out = (struct ledger){.cfg = cfg,
                           .schema = schema,
                           .mariadb = db_is_mariadb(db),
                           .new_row = db_word(db, WORD_NEW_ROW)};
    if (read_ledger(db, out, e) == 0 && read_rollup(db, out, e) == 0)
        return 0;
    ledger_close(out);
    return -1;
}

void ledger_close(struct ledger *l)
{
    db_table_free(&l->table);
    db_table_free(&l->rollup);
    sql_table_free(&l->def);
    free(l->index);
    free(l->id_index);
    *l = (struct ledger){0};
}

/* ---- objects beside the ledger ---- */

/* The objects beside a ledger, in the order of their creation: views follow their tables. `of`
 * tells them from objects of the game: columns that the table has, what the view reads, or what the
 * trigger says. */
static const struct {
    const char *suffix;
    enum { TABLE, VIEW, TRIGGER } kind;
    void (*sql)(struct buf *b, const struct ledger *l);
    const char *of;
} beside[] = {
    {"mark", TABLE, ledger_sql_mark, "what,at,id"},
    {"rollup", TABLE, ledger_sql_rollup, "end_id,end_time,rows"},
    {"request", TABLE, ledger_sql_request, "at"},
    {"request", TRIGGER, ledger_sql_trigger, "in a total of ledger "},
    {"total", VIEW, ledger_sql_total, "_rollup`"},
    {"level", VIEW, ledger_sql_level, "_total`"},
};

/* A view whose definition this account may not read is assumed to be ours. */
static const char *const there_sql[] = {
    [TABLE] =
        "SELECT TABLE_TYPE<>'VIEW' AND (SELECT COUNT(*) FROM information_schema.COLUMNS c "
        "WHERE c.TABLE_SCHEMA=t.TABLE_SCHEMA AND c.TABLE_NAME=t.TABLE_NAME AND "
        "FIND_IN_SET(c.COLUMN_NAME,?))=1+CHAR_LENGTH(?)-CHAR_LENGTH(REPLACE(?,',','')) y FROM "
        "information_schema.TABLES t WHERE TABLE_SCHEMA=? AND TABLE_NAME=?",
    [VIEW] = "SELECT TABLE_TYPE='VIEW' AND COALESCE((SELECT MAX(VIEW_DEFINITION='' OR "
             "LOCATE(?,VIEW_DEFINITION)>0) FROM information_schema.VIEWS v WHERE "
             "v.TABLE_SCHEMA=t.TABLE_SCHEMA AND v.TABLE_NAME=t.TABLE_NAME AND ?=?),1) y FROM "
             "information_schema.TABLES t WHERE TABLE_SCHEMA=? AND TABLE_NAME=?",
    [TRIGGER] = "SELECT LOCATE(?,ACTION_STATEMENT)>0 AND ?=? y FROM information_schema.TRIGGERS "
                "WHERE TRIGGER_SCHEMA=? AND TRIGGER_NAME=?",
};

/* Returns 1 if the object exists, 0 if not, -1 on error or if it belongs to the game. */
static int ledger_is_there(struct db *db, const struct ledger *l, size_t i, const char *name,
                           struct err *e)
{
    const char *of = beside[i].of;
    const char *table = beside[i].kind == TRIGGER ? l->cfg->table : name;
    SCOPED(xfree) char *found = db_one_settled(db, l->schema, table, there_sql[beside[i].kind],
                                               DB_ARGS(of, of, of, l->schema, name), e);
    if (found && strcmp(found, "1") != 0)
        return refuse_foreign(l, name, e);
    return found ? 1 : e->cls == ERR_NONE ? 0 : -1;
}

/* Checks that the view suits the ledger's engine and table, which may have changed since --init:
 * - The view of a MEMORY ledger omits rows up to the rollup position. In InnoDB these may not be in
 *   a total yet.
 * - The view of an InnoDB ledger adds all rows. In MEMORY some of them may already be in a total.
 * - A view whose definition this account may not read is assumed to be right. */
int ledger_check_view(struct db *db, const struct ledger *l, struct err *e)
{
    const char *view = LEDGER_OWN(l->cfg, "total");
    SCOPED(buf_free) struct buf table = {0};
    sql_ident2(&table, l->schema, l->cfg->table);
    buf_adds(&table, " "); /* the alias follows: no column looks like that */
    SCOPED(xfree) char *right =
        db_one_with(db,
                    "SELECT (LOCATE('.`end_id`',VIEW_DEFINITION)>0)=$ AND "
                    "LOCATE(LOWER(CONVERT(? USING utf8mb4)),LOWER(CONVERT(VIEW_DEFINITION USING "
                    "utf8mb4)))>0 FROM information_schema.VIEWS WHERE "
                    "TABLE_SCHEMA=? AND TABLE_NAME=? AND VIEW_DEFINITION<>''",
                    DB_ARGS(l->memory ? "1" : "0", table.p, l->schema, view), e);
    if (!right)
        return e->cls == ERR_NONE ? 0 : -1;
    if (strcmp(right, "1") == 0)
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "[ledger %s]: view %s was made for another table, or another engine of table %s: "
            "totals would be wrong",
            l->cfg->name, view, l->cfg->table);
    return err_hint(e, "to create it again: worldkeeper --init");
}

int ledger_missing(struct db *db, const struct ledger *l, json_t *names, struct err *e)
{
    int there = 0;
    for (size_t i = 0; i < sizeof beside / sizeof *beside && there >= 0; i++) {
        SCOPED(buf_free) struct buf sql = {0};
        const char *name = LEDGER_OWN(l->cfg, beside[i].suffix);
        beside[i].sql(&sql, l);
        there = sql.len ? ledger_is_there(db, l, i, name, e) : 1;
        if (there == 0)
            json_array_append_new(names, json_string(name));
    }
    return there < 0 ? -1 : 0;
}

/* Asks whether the ledger's table has the trigger for request ids. Returns NULL without an error if
 * it has not, else two digits (malloc). The first is 1 if the trigger suits the ledger's engine and
 * the column of request ids; the second is 1 if it reads no view in the place of NAME_request. */
static char *trigger_here(struct db *db, const struct ledger *l, struct err *e)
{
    SCOPED(buf_free) struct buf reads = {0};
    sql_fill(&reads, "NEW.??", DB_ARGS(l->request ? l->request->name : ""));
    return db_one_settled(
        db, l->schema, l->cfg->table,
        "SELECT CONCAT(ACTION_TIMING=? AND LOCATE(?,ACTION_STATEMENT)>0,LOCATE('" DB_ONLY_TABLE
        "',ACTION_STATEMENT)>0) y FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA=? AND "
        "EVENT_OBJECT_TABLE=? AND TRIGGER_NAME=?",
        DB_ARGS(ledger_sql_timing(l), reads.p, l->schema, l->cfg->table,
                LEDGER_OWN(l->cfg, "request")),
        e);
}

int ledger_check_trigger(struct db *db, const struct ledger *l, bool *unsafe, struct err *e)
{
    const char *trigger = LEDGER_OWN(l->cfg, "request");
    if (!l->request && !unsafe)
        return 0;
    SCOPED(xfree) char *here = trigger_here(db, l, e);
    if (unsafe)
        *unsafe = here && here[1] != '1';
    if (!here && e->cls != ERR_NONE)
        return -1;
    if (!l->request || (here && here[0] == '1'))
        return 0;
    if (here)
        err_set(e, ERR_REFUSED, 0,
                "[ledger %s]: trigger %s was made for another column, or another engine of table "
                "%s: a repeated request could be counted twice",
                l->cfg->name, trigger, l->cfg->table);
    else
        err_set(e, ERR_REFUSED, 0,
                "[ledger %s]: table %s has no trigger %s: a repeated request whose row is rolled "
                "up could be counted twice",
                l->cfg->name, l->cfg->table, trigger);
    return err_hint(e, "to create it again: worldkeeper --init");
}

/* Replaces the trigger unless it is right. It may be on another table, for example after a RENAME.
 * Both tables are locked, so that no row is inserted in between. */
static int make_trigger_again(struct db *db, const struct ledger *l, const struct buf *sql,
                              struct err *e)
{
    const char *trigger = LEDGER_OWN(l->cfg, "request");
    struct err ignored;
    SCOPED(buf_free) struct buf lock = {0};
    SCOPED(xfree) char *here = trigger_here(db, l, e);
    if (e->cls != ERR_NONE || (here && strcmp(here, "11") == 0))
        return e->cls != ERR_NONE ? -1 : 0;
    sql_fill(&lock, "LOCK TABLES ?? WRITE", DB_ARGS(l->cfg->table));
    if (!here) {
        SCOPED(xfree) char *other =
            db_one_with(db,
                        "SELECT EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE "
                        "TRIGGER_SCHEMA=? AND TRIGGER_NAME=?",
                        DB_ARGS(l->schema, trigger), e);
        if (!other && e->cls != ERR_NONE)
            return -1;
        if (other)
            sql_fill(&lock, ",?? WRITE", DB_ARGS(other));
    }
    int rc = db_exec_len(db, lock.p, lock.len, e);
    if (rc == 0)
        rc = db_exec_with(db, "DROP TRIGGER ??", DB_ARGS(trigger), e);
    if (rc == 0)
        rc = db_exec_len(db, sql->p, sql->len, e);
    return db_exec(db, "UNLOCK TABLES", rc < 0 ? &ignored : e) < 0 ? -1 : rc;
}

/* Refuses a table of request ids that was made for another column: with a trigger that reads a
 * missing column, each INSERT of the game would fail. */
static int request_column(struct db *db, const struct ledger *l, struct err *e)
{
    const char *own = LEDGER_OWN(l->cfg, "request");
    SCOPED(buf_free) struct buf change = {0};
    SCOPED(xfree) char *is = db_one_settled(
        db, l->schema, own,
        "SELECT COLUMN_NAME y FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=? AND "
        "TABLE_NAME=? AND ORDINAL_POSITION=1",
        DB_ARGS(l->schema, own), e);
    if (!is)
        return e->cls == ERR_NONE ? 0 : -1;
    if (strcasecmp(is, l->request->name) == 0)
        return 0;
    sql_fill(&change, "ALTER TABLE ?? CHANGE ?? ", DB_ARGS(own, is));
    ledger_sql_column(&change, l, l->request->name);
    err_set(e, ERR_REFUSED, 0, "table %s was made for column %s, and the config names %s", own, is,
            l->request->name);
    return err_hint(e,
                    "inserts fail between these two commands, so run them together: %s; then: "
                    "worldkeeper --init",
                    change.p);
}

/* Creates an existing view again, because the columns may have changed. */
static int ledger_make(struct db *db, struct ledger *l, size_t i, json_t *made, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    const char *name = LEDGER_OWN(l->cfg, beside[i].suffix);
    beside[i].sql(&sql, l);
    int there = sql.len ? ledger_is_there(db, l, i, name, e) : 1, rc = 0;
    if (there >= 0 && sql.len && beside[i].kind == TRIGGER && request_column(db, l, e) < 0)
        there = -1;
    if (there < 0 || (sql.len && (!there || beside[i].kind == VIEW)))
        rc = there < 0 ? -1 : db_exec_len(db, sql.p, sql.len, e);
    else if (sql.len && beside[i].kind == TRIGGER)
        rc = make_trigger_again(db, l, &sql, e);
    if (rc < 0)
        err_step(e, "[ledger %s]: cannot create %s", l->cfg->name, name);
    else if (!there)
        json_array_append_new(made, json_string(name));
    if (rc < 0 && e->num == DB_LOG_NEEDS_SUPER)
        err_hint(e,
                 DB_SET_FOR_GOOD("log_bin_trust_function_creators",
                                 "1") "; or, as an administrator, in the world's schema: %s",
                 sql.p);
    return rc;
}

int ledger_init(struct db *db, struct ledger *l, json_t *made, struct err *e)
{
    json_auto_t *missing = json_array();
    int rc = ledger_missing(db, l, missing, e); /* refuses a taken name first */
    for (size_t i = 0; i < sizeof beside / sizeof *beside && rc == 0; i++)
        rc = ledger_make(db, l, i, made, e);
    return rc;
}

/* ---- figures for the status ---- */

/* Reads one row of numbers, one for each letter of `form`. *seen is false if there is no row. */
static int ledger_numbers(struct db *db, const char *form, const char *sql, const char *table,
                          uint64_t *out, bool *seen, struct err *e)
{
    struct db_rows *r = db_select_with(db, form, sql, DB_ARGS(table), e);
    int got = db_next(r, e);
    *seen = got == 1;
    for (unsigned i = 0; form[i] && got == 1; i++)
        out[i] = db_uint(r, i);
    db_rows_end(r);
    return got < 0 ? -1 : 0;
}

int ledger_figures(struct db *db, const struct ledger *l, struct ledger_figures *out, struct err *e)
{
    const char *rollup = LEDGER_OWN(l->cfg, "rollup"), *mark = LEDGER_OWN(l->cfg, "mark");
    uint64_t in_rollup[2] = {0}, late[2] = {0}, first = 0;
    bool seen, ran = false;
    *out = (struct ledger_figures){0};
    if (ledger_numbers(db, "U", "SELECT COUNT(*) FROM ?? " DB_ONLY_TABLE, l->cfg->table, &out->rows,
                       &seen, e) < 0 ||
        ledger_numbers(
            db, "UU",
            "SELECT COUNT(*),CAST(COALESCE(SUM(`rows`),0) AS UNSIGNED) FROM ?? " DB_ONLY_TABLE,
            rollup, in_rollup, &seen, e) < 0 ||
        ledger_numbers(db, "UU",
                       "SELECT id,CAST(at AS UNSIGNED) FROM ?? " DB_ONLY_TABLE " WHERE what='late'",
                       mark, late, &ran, e) < 0 ||
        ledger_numbers(db, "U",
                       "SELECT CAST(COALESCE(MIN(at),0) AS UNSIGNED) FROM ?? " DB_ONLY_TABLE
                       " WHERE what LIKE 'm%'",
                       mark, &first, &seen, e) < 0)
        return -1;
    out->since.ms = (int64_t)first;
    out->keys = in_rollup[0];
    out->rolled_up = in_rollup[1];
    out->late = ran ? late[0] : 0;
    out->last.ms = ran ? (int64_t)late[1] : 0;
    return 0;
}
