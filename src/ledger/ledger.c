/* What the server says of a ledger, and what is made beside it. */
#include "ledger/ledger.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sql/literal.h"

static const struct db_column *column(const struct db_table *t, const char *name)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (strcasecmp(t->columns[i].name, name) == 0)
            return &t->columns[i];
    return NULL;
}

static bool is_integer(const struct db_column *c)
{
    return c->encoding == DB_RAW && !text_starts(c->type, "decimal");
}

static int refuse(const struct ledger *l, const struct db_column *c, struct err *e,
                  const char *what)
{
    return err_set(e, ERR_REFUSED, 0, "[ledger %s]: column %s of table %s is %s: %s", l->cfg->name,
                   c->name, l->cfg->table, c->type, what);
}

static const struct db_column *named(const struct ledger *l, const char *role, const char *name,
                                     struct err *e)
{
    const struct db_column *c = column(&l->table, name);
    if (!c)
        err_set(e, ERR_REFUSED, 0, "[ledger %s] %s = %s: table %s has no such column", l->cfg->name,
                role, name, l->cfg->table);
    return c;
}

/* DECIMAL(p,s), p up to 36: sums are formed in 128 bits. */
static int value_scale(const struct ledger *l, const struct db_column *c, unsigned *scale,
                       struct err *e)
{
    *scale = 0;
    if (c->encoding != DB_RAW)
        return refuse(l, c, e, "a value is an integer or a DECIMAL");
    if (is_integer(c))
        return 0;
    const char *p = strchr(c->type, '(');
    unsigned long digits = p ? strtoul(p + 1, NULL, 10) : 10;
    const char *comma = p ? strchr(p, ',') : NULL;
    *scale = comma ? (unsigned)strtoul(comma + 1, NULL, 10) : 0;
    return digits > LEDGER_DIGITS ? refuse(l, c, e, "a DECIMAL value has at most 30 digits") : 0;
}

static int find_columns(struct ledger *l, struct err *e)
{
    const struct config_ledger *c = l->cfg;
    for (unsigned i = 0; i < c->key.count; i++)
        if (!(l->key[i] = named(l, "key", c->key.list[i], e)))
            return -1;
    for (unsigned i = 0; i < c->value.count; i++)
        if (!(l->value[i] = named(l, "value", c->value.list[i], e)) ||
            value_scale(l, l->value[i], &l->scale[i], e) < 0)
            return -1;
    const struct db_column *id = named(l, "id", c->id, e),
                           *at = id ? named(l, "time", c->time, e) : NULL;
    if (!at)
        return -1;
    if (!is_integer(id) || !id->counter)
        return refuse(l, id, e, "the id is an integer with AUTO_INCREMENT");
    if (c->request && !(l->request = named(l, "request", c->request, e)))
        return -1;
    l->time_is_number = is_integer(at);
    l->time_is_instant = text_starts(at->type, "timestamp");
    if (!l->time_is_number && !text_starts(at->type, "datetime") &&
        !text_starts(at->type, "timestamp") && strcmp(at->type, "date") != 0)
        return refuse(l, at, e,
                      "a time is DATETIME, TIMESTAMP, DATE or an integer (seconds since 1970)");
    return 0;
}

/* The name of a BTREE index that begins with the key and ends with the id. */
static int find_index(struct db *db, struct ledger *l, struct err *e)
{
    struct buf sql = {0};
    buf_adds(&sql, "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=");
    sql_string(&sql, l->schema, strlen(l->schema));
    buf_adds(&sql, " AND TABLE_NAME=");
    sql_string(&sql, l->cfg->table, strlen(l->cfg->table));
    buf_adds(&sql, " AND INDEX_TYPE='BTREE' GROUP BY INDEX_NAME HAVING COUNT(SUB_PART)=0 AND "
                   "GROUP_CONCAT(LOWER(COLUMN_NAME) ORDER BY SEQ_IN_INDEX SEPARATOR '\\n')=LOWER(");
    struct buf want = {0};
    for (unsigned i = 0; i < l->cfg->key.count; i++)
        buf_printf(&want, "%s\n", l->key[i]->name);
    buf_adds(&want, l->cfg->id);
    buf_adds(&sql, "CONVERT(");
    sql_string(&sql, want.p, want.len);
    buf_adds(&sql, " USING utf8mb4)) LIMIT 1");
    l->index = db_one(db, sql.p, e);
    buf_free(&want);
    buf_free(&sql);
    return l->index || e->cls == ERR_NONE ? 0 : -1;
}

/* Of an InnoDB ledger the index that begins with the id; MySQL only, see ledger_sql_delete(). */
static int find_id_index(struct db *db, struct ledger *l, struct err *e)
{
    if (l->memory || l->mariadb)
        return 0;
    l->id_index =
        db_one_with(db,
                    "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=? AND "
                    "TABLE_NAME=? AND SEQ_IN_INDEX=1 AND LOWER(COLUMN_NAME)=LOWER(?) ORDER BY "
                    "INDEX_NAME='PRIMARY' DESC LIMIT 1",
                    DB_ARGS(l->schema, l->cfg->table, l->cfg->id), e);
    return l->id_index || e->cls == ERR_NONE ? 0 : -1;
}

/* Moves the one table of the list, if there is one. */
static int one_table(struct db *db, const char *schema, const char *name, struct db_table *out,
                     bool *there, struct err *e)
{
    struct db_tables list;
    if (db_table_named(db, schema, name, &list, e) < 0)
        return -1;
    *there = list.count == 1;
    if (*there) {
        *out = list.list[0];
        list.count = 0;
    }
    db_tables_free(&list);
    return 0;
}

static int read_definition(struct db *db, struct ledger *l, struct err *e)
{
    char *create = db_create_table(db, l->schema, l->cfg->table, e);
    int rc = create ? sql_table_read(create, strlen(create), false, &l->def, e) : -1;
    free(create);
    return rc;
}

/* Is the engine one of the two whose ways of showing rows are known? */
static int check_engine(struct ledger *l, struct err *e)
{
    bool inno = strcasecmp(l->table.engine, "InnoDB") == 0;
    if (!l->table.memory && !inno) {
        err_set(e, ERR_REFUSED, 0,
                "[ledger %s]: table %s is ENGINE=%s; a ledger is MEMORY or InnoDB", l->cfg->name,
                l->cfg->table, l->table.engine);
        return -1;
    }
    l->memory = l->table.memory;
    return 0;
}

/* A table or a view of that name which --init did not make: the game's. */
static int refuse_foreign(const struct ledger *l, const char *name, struct err *e)
{
    err_set(e, ERR_REFUSED, 0, "[ledger %s]: %s exists, and is not what --init makes", l->cfg->name,
            name);
    return err_hint(e,
                    "if it is the game's, give the ledger another name, as in [ledger %s_2], "
                    "which need not be that of its table",
                    l->cfg->name);
}

int ledger_open(struct db *db, const char *schema, const struct config_ledger *cfg,
                struct ledger *out, struct err *e)
{
    *out = (struct ledger){.cfg = cfg, .schema = schema, .mariadb = db_is_mariadb(db)};
    char *rollup = xasprintf("%s_rollup", cfg->name);
    bool there = false;
    if (one_table(db, schema, cfg->table, &out->table, &there, e) < 0)
        goto fail;
    if (!there) {
        err_set(e, ERR_REFUSED, 0, "[ledger %s] table = %s: schema %s has no such table", cfg->name,
                cfg->table, schema);
        goto fail;
    }
    out->next_id = out->table.auto_increment;
    if (check_engine(out, e) < 0 || read_definition(db, out, e) < 0 || find_columns(out, e) < 0 ||
        find_index(db, out, e) < 0 || find_id_index(db, out, e) < 0 ||
        one_table(db, schema, rollup, &out->rollup, &out->made, e) < 0)
        goto fail;
    if (out->made && !(column(&out->rollup, "end_id") && column(&out->rollup, "end_time") &&
                       column(&out->rollup, "rows"))) {
        refuse_foreign(out, rollup, e);
        goto fail;
    }
    if (out->made && !out->memory && out->rollup.memory) {
        err_set(e, ERR_REFUSED, 0,
                "[ledger %s]: table %s is ENGINE=MEMORY and %s is InnoDB: a restart "
                "of the server would lose the totals of rows that are deleted",
                cfg->name, rollup, cfg->table);
        goto fail;
    }
    if (out->made && ledger_check_columns(db, out, e) < 0)
        goto fail;
    free(rollup);
    return 0;
fail:
    free(rollup);
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

/* What is made beside a ledger, in this order: views follow their tables. `of` tells it from a game's:
 * columns that the table has, or what the view reads. */
static const struct {
    const char *suffix;
    enum { TABLE, VIEW, TRIGGER } kind;
    void (*sql)(struct buf *b, const struct ledger *l);
    const char *of;
} beside[] = {
    {"mark", TABLE, ledger_sql_mark, "what,at,id"},
    {"rollup", TABLE, ledger_sql_rollup, "end_id,end_time,rows"},
    {"request", TABLE, ledger_sql_request, "at"},
    {"request", TRIGGER, ledger_sql_trigger, ""},
    {"total", VIEW, ledger_sql_total, "_rollup`"},
    {"level", VIEW, ledger_sql_level, "_total`"},
};

/* A view whose definition we may not read is taken for ours. */
static const char *const there_sql[] = {
    [TABLE] = "SELECT TABLE_TYPE<>'VIEW' AND (SELECT COUNT(*) FROM information_schema.COLUMNS c "
              "WHERE c.TABLE_SCHEMA=t.TABLE_SCHEMA AND c.TABLE_NAME=t.TABLE_NAME AND "
              "FIND_IN_SET(c.COLUMN_NAME,?))=1+CHAR_LENGTH(?)-CHAR_LENGTH(REPLACE(?,',','')) FROM "
              "information_schema.TABLES t WHERE TABLE_SCHEMA=? AND TABLE_NAME=?",
    [VIEW] = "SELECT TABLE_TYPE='VIEW' AND COALESCE((SELECT MAX(VIEW_DEFINITION='' OR "
             "LOCATE(?,VIEW_DEFINITION)>0) FROM information_schema.VIEWS v WHERE "
             "v.TABLE_SCHEMA=t.TABLE_SCHEMA AND v.TABLE_NAME=t.TABLE_NAME AND ?=?),1) FROM "
             "information_schema.TABLES t WHERE TABLE_SCHEMA=? AND TABLE_NAME=?",
    [TRIGGER] = "SELECT 1+CHAR_LENGTH(CONCAT(?,?,?)) FROM information_schema.TRIGGERS WHERE "
                "TRIGGER_SCHEMA=? AND TRIGGER_NAME=?",
};

/* 1: it is there. */
static int is_there(struct db *db, const struct ledger *l, size_t i, const char *name,
                    struct err *e)
{
    const char *of = beside[i].of;
    char *found =
        db_one_with(db, there_sql[beside[i].kind], DB_ARGS(of, of, of, l->schema, name), e);
    bool foreign = found && strcmp(found, "1") != 0;
    int there = found ? 1 : e->cls == ERR_NONE ? 0 : -1;
    free(found);
    return foreign ? refuse_foreign(l, name, e) : there;
}

int ledger_missing(struct db *db, const struct ledger *l, json_t *names, struct err *e)
{
    int there = 0;
    for (size_t i = 0; i < sizeof beside / sizeof *beside && there >= 0; i++) {
        struct buf sql = {0};
        char *name = xasprintf("%s_%s", l->cfg->name, beside[i].suffix);
        beside[i].sql(&sql, l);
        there = sql.len ? is_there(db, l, i, name, e) : 1;
        if (there == 0)
            json_array_append_new(names, json_string(name));
        buf_free(&sql);
        free(name);
    }
    return there < 0 ? -1 : 0;
}

/* A view that is there is made once more: the columns may have changed. */
static int make(struct db *db, struct ledger *l, size_t i, json_t *made, struct err *e)
{
    struct buf sql = {0};
    char *name = xasprintf("%s_%s", l->cfg->name, beside[i].suffix);
    beside[i].sql(&sql, l);
    int there = sql.len ? is_there(db, l, i, name, e) : 1, rc = 0;
    if (there < 0 || (sql.len && (!there || beside[i].kind == VIEW)))
        rc = there < 0 ? -1 : db_exec_len(db, sql.p, sql.len, e);
    if (rc < 0)
        err_step(e, "[ledger %s]: %s cannot be made", l->cfg->name, name);
    else if (!there)
        json_array_append_new(made, json_string(name));
    if (rc < 0 && e->num == DB_LOG_NEEDS_SUPER)
        err_hint(e,
                 "SET GLOBAL log_bin_trust_function_creators=1, or, as an administrator, in "
                 "the world's schema: %.300s",
                 sql.p);
    buf_free(&sql);
    free(name);
    return rc;
}

int ledger_init(struct db *db, struct ledger *l, json_t *made, struct err *e)
{
    json_t *missing = json_array();
    int rc = ledger_missing(db, l, missing, e); /* a name that is taken: before anything is made */
    json_decref(missing);
    for (size_t i = 0; i < sizeof beside / sizeof *beside && rc == 0; i++)
        rc = make(db, l, i, made, e);
    return rc;
}
