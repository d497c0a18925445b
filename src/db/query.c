#include "db/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "db/sql.h"

#define EVENT_ZONE 2      /* of what SHOW CREATE EVENT answers */
#define NO_SUCH_LIST 1109 /* a table that information_schema has not */

static char *dup_value(const struct db_rows *r, unsigned i)
{
    const char *v = db_value(r, i);
    return v ? xstrndup(v, db_length(r, i)) : xstrdup("");
}

static uint64_t number_value(const struct db_rows *r, unsigned i)
{
    const char *v = db_value(r, i);
    return v ? strtoull(v, NULL, 10) : 0;
}

static void copy_value(char *out, size_t size, const struct db_rows *r, unsigned i)
{
    const char *v = db_value(r, i);
    snprintf(out, size, "%s", v ? v : "");
}

/* Runs a query and gives each row to `row`; the whole result is read even when only one is wanted.
 */
typedef void row_fn(const struct db_rows *r, void *arg);
static int each_row(struct db *db, const char *sql, row_fn *row, void *arg, struct err *e)
{
    struct db_rows *r = db_select(db, sql, e);
    if (!r)
        return -1;
    int got;
    while ((got = db_next(r, e)) == 1)
        row(r, arg);
    db_rows_end(r);
    return got;
}

static int each_rowf(struct db *db, row_fn *row, void *arg, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static int each_rowf(struct db *db, row_fn *row, void *arg, struct err *e, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    int rc = each_row(db, b.p, row, arg, e);
    buf_free(&b);
    return rc;
}

static char *quoted(const char *s)
{
    struct buf b = {0};
    sql_string(&b, s, strlen(s));
    return b.p;
}

static void server_row(const struct db_rows *r, void *arg)
{
    struct server_id *id = arg;
    const char *start = db_value(r, 0);
    id->start = start ? strtoll(start, NULL, 10) : 0;
    copy_value(id->hostname, sizeof id->hostname, r, 1);
    copy_value(id->datadir, sizeof id->datadir, r, 2);
    copy_value(id->version, sizeof id->version, r, 3);
}

int db_server_id(struct db *db, struct server_id *out, struct err *e)
{
    *out = (struct server_id){0};
    bool maria = db_is_mariadb(db);
    if (each_rowf(
            db, server_row, out, e,
            "SELECT UNIX_TIMESTAMP() - CAST(VARIABLE_VALUE AS SIGNED), @@hostname, @@datadir, "
            "@@version FROM %s.global_status WHERE VARIABLE_NAME='Uptime'",
            maria ? "information_schema" : "performance_schema") < 0)
        return -1;
    char *uid = db_variable(db, maria ? "server_uid" : "server_uuid");
    snprintf(out->uid, sizeof out->uid, "%s", uid ? uid : "");
    free(uid);
    if (out->start == 0)
        return err_set(e, ERR_QUERY, 0, "the server does not tell its uptime");
    return 0;
}

static void point_row(const struct db_rows *r, void *arg)
{
    struct db_point *p = arg;
    copy_value(p->file, sizeof p->file, r, 0);
    p->pos = number_value(r, 1);
}

/* MySQL counts a group as done a little after its log holds it; until then a session owns it. What
 * is asked first moves on into the other. */
static void read_gtid(struct db *db, bool after, char *out, size_t size)
{
    struct err ignored;
    char *gtid = NULL;
    if (db_is_mariadb(db))
        gtid = db_variable(db, "gtid_binlog_pos");
    else if (after)
        gtid = db_one(db,
                      "SELECT CONCAT_WS(',',NULLIF(@@global.gtid_owned,''),"
                      "@@global.gtid_executed)",
                      &ignored);
    else
        gtid = db_variable(db, "gtid_executed");
    size_t n = (size_t)snprintf(out, size, "%s", gtid ? gtid : "");
    char *last = n >= size ? strrchr(out, ',') : NULL;
    if (last) /* half a number is another one */
        *last = '\0';
    free(gtid);
}

#define PARSE_ERROR 1064

struct db_rows *db_log_status(struct db *db, struct err *e)
{
    struct err why = {0};
    struct db_rows *r = NULL;
    if (!db_is_mariadb(db))
        r = db_select(db, "SHOW BINARY LOG STATUS", &why);
    if (!r && (db_is_mariadb(db) || why.num == PARSE_ERROR))
        r = db_select(db, "SHOW MASTER STATUS", &why);
    if (!r && e)
        *e = why;
    return r;
}

bool db_log_closed(struct db *db)
{
    struct db_rows *r = db_log_status(db, NULL);
    bool closed = r && db_next(r, NULL) == 0;
    db_rows_end(r);
    return closed;
}

void db_point(struct db *db, struct db_point *out)
{
    struct db_point p = {0};
    read_gtid(db, false, p.gtid, sizeof p.gtid);
    struct db_rows *r = db_log_status(db, NULL);
    while (r && db_next(r, NULL) == 1)
        point_row(r, &p);
    db_rows_end(r);
    read_gtid(db, true, p.gtid_after, sizeof p.gtid_after);
    if (strcmp(p.gtid, p.gtid_after) == 0)
        p.gtid_after[0] = '\0';
    *out = p.file[0] ? p : (struct db_point){0};
}

char *db_schema_name(struct db *db, const char *schema, struct err *e)
{
    struct buf b = {0};
    err_clear(e);
    buf_adds(&b, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME=");
    sql_string(&b, schema, strlen(schema));
    char *name = db_one(db, b.p, e);
    if (!name && e->cls == ERR_NONE)
        err_set(e, ERR_REFUSED, 0, "schema %s is not there", schema);
    buf_free(&b);
    return name;
}

char *db_variable(struct db *db, const char *name)
{
    struct buf b = {0};
    buf_printf(&b, "SELECT @@global.%s", name);
    char *v = db_one(db, b.p, NULL);
    buf_free(&b);
    return v;
}

int64_t db_variable_number(struct db *db, const char *name)
{
    char *v = db_variable(db, name);
    int64_t n = v && v[0] ? strtoll(v, NULL, 10) : -1;
    if (v && strlen(v) >= 19) /* unsigned values near 2^64 */
        n = INT64_MAX;
    free(v);
    return n;
}

int db_logs(struct db *db, struct err *e)
{
    char *logged = db_one(db, "SELECT @@GLOBAL.log_bin AND @@SESSION.sql_log_bin", e);
    int rc = logged ? strcmp(logged, "0") != 0 : -1;
    free(logged);
    return rc;
}

static bool starts_any(const char *type, const char *const *list)
{
    for (; *list; list++)
        if (text_starts(type, *list))
            return true;
    return false;
}

static enum db_encoding encoding_of(const char *type, bool mariadb)
{
    static const char *const doubles[] = {"float", "double", "real", NULL};
    static const char *const indexes[] = {"enum(", "set(", NULL};
    static const char *const fixed[] = {"uuid", "inet4", "inet6", NULL};
    static const char *const raws[] = {"tinyint", "smallint", "mediumint", "int",
                                       "bigint",  "decimal",  "numeric",   NULL};
    if (starts_any(type, fixed)) /* before "int" */
        return DB_LATIN1;
    if (starts_any(type, doubles))
        return DB_DOUBLE;
    if (starts_any(type, indexes))
        return DB_INDEX;
    if (text_starts(type, "bit("))
        return DB_BITS;
    if (starts_any(type, raws))
        return DB_RAW;
    return strcmp(type, "json") == 0 && !mariadb ? DB_UTF8 : DB_BYTES;
}

struct tables_arg {
    struct db_tables *out;
    bool mariadb;
};

static void table_row(const struct db_rows *r, void *arg)
{
    struct db_tables *out = ((struct tables_arg *)arg)->out;
    out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
    struct db_table *t = &out->list[out->count++];
    *t = (struct db_table){0};
    t->name = dup_value(r, 0);
    t->engine = dup_value(r, 1);
    t->memory = strcasecmp(t->engine, "MEMORY") == 0;
    t->transactional = strcasecmp(t->engine, "InnoDB") == 0;
    t->auto_increment = number_value(r, 2);
    t->rows = number_value(r, 3);
    t->data_length = number_value(r, 4);
    t->index_length = number_value(r, 5);
    t->max_data_length = number_value(r, 6);
    t->row_length = number_value(r, 7);
}

static void column_row(const struct db_rows *r, void *arg)
{
    struct tables_arg *a = arg;
    struct db_table *t = db_table_find(a->out, db_value(r, 0));
    if (!t)
        return;
    t->columns = xrealloc(t->columns, (t->column_count + 1) * sizeof *t->columns);
    struct db_column *c = &t->columns[t->column_count++];
    *c = (struct db_column){0};
    c->name = dup_value(r, 1);
    c->type = dup_value(r, 2);
    c->encoding = encoding_of(c->type, a->mariadb);
    const char *extra = db_value(r, 3);
    c->generated = extra && (strstr(extra, "VIRTUAL GENERATED") ||
                             strstr(extra, "STORED GENERATED") || strstr(extra, "PERSISTENT"));
    c->has_default = number_value(r, 4) != 0;
    c->counter = extra && strstr(extra, "auto_increment");
    t->counts |= c->counter;
    const char *key = db_value(r, 5);
    if (key && strcmp(key, "PRI") == 0)
        t->has_key = true;
    copy_value(c->charset, sizeof c->charset, r, 6);
}

/* `columns` narrows the tables whose columns are read: the server opens each of them. */
static int tables_where(struct db *db, const char *schema, const char *where, const char *columns,
                        struct db_tables *out, struct err *e)
{
    *out = (struct db_tables){0};
    struct tables_arg arg = {out, db_is_mariadb(db)};
    char *s = quoted(schema);
    /* Without this MySQL answers from day-old cached statistics. */
    if (!arg.mariadb && db_exec(db, "SET SESSION information_schema_stats_expiry=0", e) < 0)
        goto fail;
    if (each_rowf(
            db, table_row, &arg, e,
            "SELECT TABLE_NAME, ENGINE, AUTO_INCREMENT, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH, "
            "MAX_DATA_LENGTH, AVG_ROW_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA=%s "
            "AND TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED') AND %s "
            "ORDER BY BINARY TABLE_NAME",
            s, where) < 0)
        goto fail;
    if (each_rowf(
            db, column_row, &arg, e,
            "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, EXTRA, "
            "COLUMN_DEFAULT IS NOT NULL OR IS_NULLABLE='YES' OR EXTRA LIKE '%%auto_increment%%', "
            "COLUMN_KEY, CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=%s "
            "AND %s "
            "ORDER BY BINARY TABLE_NAME, ORDINAL_POSITION",
            s, columns) < 0)
        goto fail;
    /* MySQL tells 1 for each MEMORY table. */
    for (size_t i = 0; i < out->count; i++)
        if (!out->list[i].counts)
            out->list[i].auto_increment = 0;
    free(s);
    return 0;
fail:
    free(s);
    db_tables_free(out);
    return -1;
}

int db_tables(struct db *db, const char *schema, bool all, struct db_tables *out, struct err *e)
{
    struct buf w = {0};
    buf_printf(&w, "LEFT(TABLE_NAME,%zu) <> '%s' AND %s", strlen(DB_OWN_PREFIX), DB_OWN_PREFIX,
               all ? "ENGINE IS NOT NULL" : "ENGINE='MEMORY'");
    int rc = tables_where(db, schema, w.p, "1", out, e);
    buf_free(&w);
    return rc;
}

int db_closed_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e)
{
    struct buf w = {0};
    buf_printf(&w, "LEFT(TABLE_NAME,%zu) <> '%s' AND ENGINE IS NULL", strlen(DB_OWN_PREFIX),
               DB_OWN_PREFIX);
    int rc = tables_where(db, schema, w.p, "0", out, e);
    buf_free(&w);
    return rc;
}

/* Also those that the server cannot open: one that was killed while it made a table leaves half a
 * definition behind, which has no engine, and can only be dropped. */
int db_own_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e)
{
    struct buf w = {0};
    buf_printf(&w, "LEFT(TABLE_NAME,%zu) = '%s'", strlen(DB_OWN_PREFIX), DB_OWN_PREFIX);
    int rc = tables_where(db, schema, w.p, "1", out, e);
    buf_free(&w);
    return rc;
}

int db_table_named(struct db *db, const char *schema, const char *table, struct db_tables *out,
                   struct err *e)
{
    struct buf w = {0};
    buf_adds(&w, "TABLE_NAME=");
    sql_string(&w, table, strlen(table));
    int rc = tables_where(db, schema, w.p, w.p, out, e);
    buf_free(&w);
    return rc;
}

/* The place of a column in a tuple; -1: it is not in one. */
static int place_of(const struct db_table *t, const char *column)
{
    int place = 0;
    for (size_t i = 0; i < t->column_count; i++) {
        if (strcmp(t->columns[i].name, column) == 0)
            return t->columns[i].generated ? -1 : place;
        place += !t->columns[i].generated;
    }
    return -1;
}

static void key_row(const struct db_rows *r, void *arg)
{
    struct db_table *t = db_table_find(arg, db_value(r, 0));
    if (!t)
        return;
    int place = place_of(t, db_value(r, 1));
    bool first = number_value(r, 2) == 1;
    if (place < 0 || (!first && t->key_count == 0)) {
        t->key_count = 0;
        return;
    }
    t->key = xrealloc(t->key, (t->key_count + 1) * sizeof *t->key);
    t->key[t->key_count++] = (unsigned)place;
}

int db_table_keys(struct db *db, const char *schema, struct db_tables *tables, struct err *e)
{
    char *s = quoted(schema);
    for (size_t i = 0; i < tables->count; i++)
        tables->list[i].key_count = 0;
    int rc = each_rowf(db, key_row, tables, e,
                       "SELECT TABLE_NAME, COLUMN_NAME, SEQ_IN_INDEX FROM "
                       "information_schema.STATISTICS WHERE TABLE_SCHEMA=%s AND "
                       "INDEX_NAME='PRIMARY' ORDER BY BINARY TABLE_NAME, SEQ_IN_INDEX",
                       s);
    free(s);
    return rc;
}

static void table_free(struct db_table *t)
{
    for (size_t c = 0; c < t->column_count; c++) {
        free(t->columns[c].name);
        free(t->columns[c].type);
    }
    free(t->columns);
    free(t->key);
    free(t->name);
    free(t->engine);
}

void db_tables_free(struct db_tables *t)
{
    for (size_t i = 0; i < t->count; i++)
        table_free(&t->list[i]);
    free(t->list);
    *t = (struct db_tables){0};
}

void db_tables_remove(struct db_tables *list, struct db_table *t)
{
    size_t i = (size_t)(t - list->list);
    table_free(t);
    memmove(t, t + 1, (list->count - i - 1) * sizeof *t);
    list->count--;
}

int db_point_compare(const struct db_point *a, const struct db_point *b)
{
    size_t x = strlen(a->file), y = strlen(b->file);
    int order = strcmp(a->file, b->file);
    if (order != 0)
        return x != y ? (x > y) - (x < y) : order > 0 ? 1 : -1;
    return (a->pos > b->pos) - (a->pos < b->pos);
}

struct db_table *db_table_find(const struct db_tables *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->list[i].name, name) == 0)
            return &t->list[i];
    return NULL;
}

bool db_rows_elsewhere(const struct db_table *t)
{
    static const char *const engines[] = {"MRG_MYISAM", "FEDERATED", "CONNECT", "SPIDER", NULL};
    bool found = false;
    for (const char *const *s = engines; *s; s++)
        found |= strcasecmp(t->engine, *s) == 0;
    return found;
}

void db_columns_hash(const struct db_table *t, char out[17])
{
    uint64_t h = 0;
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->columns[i];
        if (c->generated)
            continue;
        h = h * 31 + sql_tuple_hash(c->name, strlen(c->name));
        h = h * 31 + sql_tuple_hash(c->type, strlen(c->type));
    }
    snprintf(out, 17, "%016" PRIx64, h);
}

static const struct {
    const char *name, *list;
    unsigned sql_column, mode_column, charset_column;
} kinds[] = {
    [DB_TRIGGER] = {"TRIGGER",
                    "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA=%s "
                    "ORDER BY EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER",
                    2, 1, 3},
    [DB_VIEW] = {"VIEW",
                 "SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA=%s ORDER BY 1",
                 1, 0, 2},
    [DB_FUNCTION] =
        {"FUNCTION",
         "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=%s AND "
         "ROUTINE_TYPE='FUNCTION' ORDER BY 1",
         2, 1, 3},
    [DB_PROCEDURE] =
        {"PROCEDURE",
         "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=%s AND "
         "ROUTINE_TYPE='PROCEDURE' ORDER BY 1",
         2, 1, 3},
    [DB_EVENT] =
        {"EVENT",
         "SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA=%s ORDER BY 1", 3, 1,
         4},
    [DB_LIBRARY] = {"LIBRARY",
                    "SELECT LIBRARY_NAME FROM information_schema.LIBRARIES WHERE LIBRARY_SCHEMA=%s "
                    "ORDER BY 1",
                    2, 1, 0}, /* of code that MySQL 9 runs; its text has no charset of its own */
    [DB_PACKAGE] =
        {"PACKAGE",
         "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=%s AND "
         "ROUTINE_TYPE='PACKAGE' ORDER BY 1",
         2, 1, 3}, /* of MariaDB's SQL mode ORACLE */
    [DB_PACKAGE_BODY] =
        {"PACKAGE BODY",
         "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=%s AND "
         "ROUTINE_TYPE='PACKAGE BODY' ORDER BY 1",
         2, 1, 3},
};

const char *db_kind_name(enum db_kind kind)
{
    return kinds[kind].name;
}

static void name_row(const struct db_rows *r, void *arg)
{
    struct db_names *n = arg;
    n->list = xrealloc(n->list, (n->count + 1) * sizeof *n->list);
    n->list[n->count++] = dup_value(r, 0);
}

int db_names(struct db *db, const char *schema, enum db_kind kind, struct db_names *out,
             struct err *e)
{
    *out = (struct db_names){0};
    char *s = quoted(schema);
    struct buf sql = {0};
    const char *hole = strstr(kinds[kind].list, "%s");
    buf_add(&sql, kinds[kind].list, (size_t)(hole - kinds[kind].list));
    buf_adds(&sql, s);
    buf_adds(&sql, hole + 2);
    struct err why = {0};
    int rc = each_row(db, sql.p, name_row, out, &why);
    free(s);
    buf_free(&sql);
    if (rc == 0)
        return 0;
    db_names_free(out);
    if (kind == DB_LIBRARY && why.num == NO_SUCH_LIST)
        return 0; /* a server that knows no such thing */
    if (e)
        *e = why;
    return -1;
}

void db_names_free(struct db_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    free(n->list);
    *n = (struct db_names){0};
}

struct definition_arg {
    struct db_definition *out;
    enum db_kind kind;
};

static void definition_row(const struct db_rows *r, void *arg)
{
    struct definition_arg *a = arg;
    unsigned sql = kinds[a->kind].sql_column, cs = kinds[a->kind].charset_column;
    if (!db_value(r, sql)) /* no right to see the body */
        return;
    a->out->sql = dup_value(r, sql);
    a->out->sql_mode =
        kinds[a->kind].mode_column ? dup_value(r, kinds[a->kind].mode_column) : xstrdup("");
    a->out->charset = cs ? dup_value(r, cs) : xstrdup("utf8mb4");
    a->out->collation = cs ? dup_value(r, cs + 1) : xstrdup("utf8mb4_bin");
    a->out->zone = a->kind == DB_EVENT ? dup_value(r, EVENT_ZONE) : NULL;
}

int db_definition(struct db *db, const char *schema, enum db_kind kind, const char *name,
                  struct db_definition *out, struct err *e)
{
    *out = (struct db_definition){0};
    struct definition_arg arg = {out, kind};
    struct buf b = {0};
    buf_printf(&b, "SHOW CREATE %s ", kinds[kind].name);
    sql_ident2(&b, schema, name);
    int rc = each_row(db, b.p, definition_row, &arg, e);
    buf_free(&b);
    return rc;
}

void db_definition_free(struct db_definition *d)
{
    free(d->sql);
    free(d->sql_mode);
    free(d->charset);
    free(d->collation);
    free(d->zone);
    *d = (struct db_definition){0};
}

static void create_row(const struct db_rows *r, void *arg)
{
    *(char **)arg = dup_value(r, 1);
}

char *db_create_table(struct db *db, const char *schema, const char *table, struct err *e)
{
    char *sql = NULL;
    struct buf b = {0};
    buf_adds(&b, "SHOW CREATE TABLE ");
    sql_ident2(&b, schema, table);
    if (each_row(db, b.p, create_row, &sql, e) < 0) {
        free(sql);
        sql = NULL;
    }
    buf_free(&b);
    return sql;
}

static void trigger_row(const struct db_rows *r, void *arg)
{
    struct db_triggers *out = arg;
    out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
    struct db_trigger *t = &out->list[out->count++];
    char **fields[] = {&t->name,    &t->table,    &t->event,   &t->timing,   &t->body,
                       &t->definer, &t->sql_mode, &t->charset, &t->collation};
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        *fields[i] = dup_value(r, i);
}

static void original_row(const struct db_rows *r, void *arg)
{
    char **out = arg;
    free(*out);
    *out = dup_value(r, 2);
}

/* What stands behind the head that every trigger's statement has; else the body stays as it is. */
static void take_body(struct db_trigger *t, const char *original)
{
    char nothing[] = "";
    struct db_trigger empty = *t;
    struct buf head = {0};
    empty.body = nothing;
    db_trigger_sql(&head, &empty, t->table);
    if (original && strncmp(original, head.p, head.len) == 0) {
        free(t->body);
        t->body = xstrdup(original + head.len);
    }
    buf_free(&head);
}

static int original_body(struct db *db, const char *schema, struct db_trigger *t, struct err *e)
{
    char *original = NULL;
    struct buf sql = {0};
    buf_adds(&sql, "SHOW CREATE TRIGGER ");
    sql_ident2(&sql, schema, t->name);
    int rc = each_row(db, sql.p, original_row, &original, e);
    if (rc == 0)
        take_body(t, original);
    free(original);
    buf_free(&sql);
    return rc;
}

/* MySQL's information_schema spoils names with a backtick in them: `a``b` is `aa`bb` there. */
static int original_bodies(struct db *db, const char *schema, struct db_triggers *out,
                           struct err *e)
{
    struct err ignored;
    if (db_is_mariadb(db) || out->count == 0)
        return 0;
    int rc = db_exec(db, "SET SESSION character_set_results=utf8mb4", e);
    for (size_t i = 0; i < out->count && rc == 0; i++)
        rc = original_body(db, schema, &out->list[i], e);
    if (db_exec(db, "SET SESSION character_set_results=binary", rc < 0 ? &ignored : e) < 0)
        rc = -1;
    return rc;
}

int db_triggers(struct db *db, const char *schema, struct db_triggers *out, struct err *e)
{
    *out = (struct db_triggers){0};
    char *s = quoted(schema);
    int rc =
        each_rowf(db, trigger_row, out, e,
                  "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, EVENT_MANIPULATION, ACTION_TIMING, "
                  "ACTION_STATEMENT, DEFINER, SQL_MODE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION "
                  "FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA=%s ORDER BY "
                  "EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER",
                  s);
    free(s);
    rc = rc < 0 ? rc : original_bodies(db, schema, out, e);
    if (rc < 0)
        db_triggers_free(out);
    return rc;
}

void db_triggers_free(struct db_triggers *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct db_trigger *x = &t->list[i];
        free(x->name);
        free(x->table);
        free(x->event);
        free(x->timing);
        free(x->body);
        free(x->definer);
        free(x->sql_mode);
        free(x->charset);
        free(x->collation);
    }
    free(t->list);
    *t = (struct db_triggers){0};
}

/* user@host as the server stores it -> `user`@`host`; the host has no @, the user may. */
static void definer_sql(struct buf *b, const char *definer)
{
    const char *at = strrchr(definer, '@');
    char *user = at ? xstrndup(definer, (size_t)(at - definer)) : xstrdup(definer);
    sql_ident(b, user);
    if (at) {
        buf_addc(b, '@');
        sql_ident(b, at + 1);
    }
    free(user);
}

void db_trigger_sql(struct buf *b, const struct db_trigger *t, const char *table)
{
    buf_adds(b, "CREATE DEFINER=");
    definer_sql(b, t->definer);
    buf_adds(b, " TRIGGER ");
    sql_ident(b, t->name);
    buf_printf(b, " %s %s ON ", t->timing, t->event);
    sql_ident(b, table);
    buf_printf(b, " FOR EACH ROW %s", t->body);
}

int db_trigger_create(struct db *db, const struct db_trigger *t, const char *table, struct err *e)
{
    char *mode = quoted(t->sql_mode);
    struct buf b = {0};
    int rc = -1;
    struct err ignored;
    /* information_schema tells the body in UTF-8, whatever its maker's character set was. */
    if (db_execf(db, e,
                 "SET SESSION sql_mode=%s, character_set_client=utf8mb4, collation_connection='%s'",
                 mode, t->collation) < 0)
        goto out;
    db_trigger_sql(&b, t, table);
    rc = db_exec_len(db, b.p, b.len, e);
    if (db_as_usual(db, rc < 0 ? &ignored : e) < 0)
        rc = -1;
out:
    free(mode);
    buf_free(&b);
    return rc;
}

static void figures_row(const struct db_rows *r, void *arg)
{
    struct db_figures *f = arg;
    f->rows = number_value(r, 0);
    f->auto_increment = number_value(r, 1);
    f->max_data_length = number_value(r, 2);
    f->memory = db_value(r, 3) && strcasecmp(db_value(r, 3), "MEMORY") == 0;
}

int db_figures(struct db *db, const char *schema, const char *table, struct db_figures *out,
               struct err *e)
{
    char *s = quoted(schema), *t = quoted(table);
    *out = (struct db_figures){0};
    int rc = each_rowf(db, figures_row, out, e,
                       "SELECT TABLE_ROWS, AUTO_INCREMENT, MAX_DATA_LENGTH, ENGINE FROM "
                       "information_schema.TABLES WHERE TABLE_SCHEMA=%s AND TABLE_NAME=%s",
                       s, t);
    free(s);
    free(t);
    return rc;
}

static void count_row(const struct db_rows *r, void *arg)
{
    *(uint64_t *)arg = number_value(r, 0);
}

int db_count(struct db *db, const char *schema, const char *table, uint64_t *rows, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "SELECT COUNT(*) FROM ");
    sql_ident2(&b, schema, table);
    int rc = each_row(db, b.p, count_row, rows, e);
    buf_free(&b);
    return rc;
}

/* Lock names are 64 characters at most, schema names too: a digest keeps it short. */
static void lease_name(struct buf *b, const char *schema, unsigned slot)
{
    char *s = quoted(schema);
    buf_printf(b, "CONCAT('worldkeeper.',LEFT(SHA2(%s,256),32)", s);
    if (slot)
        buf_printf(b, ",'.%u'", slot);
    buf_addc(b, ')');
    free(s);
}

/* A statement that answers 0 or the number of a session: 1 for 0, 0 for a session, -1. */
static int ask_holder(struct db *db, const char *sql, unsigned long *holder, struct err *e)
{
    char *v = db_one(db, sql, e);
    if (!v)
        return e && e->cls == ERR_NONE ? err_set(e, ERR_QUERY, 0, "GET_LOCK gave no answer") : -1;
    *holder = strtoul(v, NULL, 10);
    free(v);
    return *holder == 0;
}

int db_lease_lock(struct db *db, const char *schema, unsigned long *holder, struct err *e)
{
    struct buf name = {0}, sql = {0};
    lease_name(&name, schema, 0);
    buf_printf(&sql, "SELECT IF(GET_LOCK(%s,0)=1,0,IFNULL(IS_USED_LOCK(%s),1))", name.p, name.p);
    int rc = ask_holder(db, sql.p, holder, e);
    buf_clear(&sql);
    buf_adds(&sql, "SELECT COALESCE(");
    for (unsigned i = 1; i <= DB_LEASE_SLOTS; i++) {
        buf_adds(&sql, "IS_USED_LOCK(");
        lease_name(&sql, schema, i);
        buf_adds(&sql, "),");
    }
    buf_adds(&sql, "0)");
    if (rc == 1)
        rc = ask_holder(db, sql.p, holder, e);
    buf_free(&name);
    buf_free(&sql);
    return rc;
}

int db_lease_slot(struct db *db, const char *schema, unsigned slot, const struct db *lease,
                  struct err *e)
{
    struct buf sql = {0};
    unsigned long holder = 0;
    buf_adds(&sql, "SELECT IF(GET_LOCK(");
    lease_name(&sql, schema, slot);
    buf_adds(&sql, ",0)=1,IF(IS_USED_LOCK(");
    lease_name(&sql, schema, 0);
    buf_printf(&sql, ")=%lu,0,1),1)", db_session(lease));
    int rc = ask_holder(db, sql.p, &holder, e);
    buf_free(&sql);
    if (rc == 0)
        return err_set(e, ERR_BUSY, 0, "another session is restoring this world");
    return rc < 0 ? -1 : 0;
}
