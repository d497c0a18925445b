#include "mysql/schema.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mysql/only_table.h"
#include "sql/literal.h"
#include "sql/table.h"

#define READINGS 5u /* of one listing, at most, if definitions change meanwhile */

/* Upper bounds of all tables. The product of rows and row length does not overflow. */
#define ROWS_MOST (UINT64_C(1) << 40)
#define ROW_LENGTH_MOST (UINT64_C(1) << 22)
#define SIZE_MOST (UINT64_C(1) << 50)
static uint64_t schema_bounded(const struct db_rows *r, unsigned i, uint64_t most)
{
    uint64_t n = db_uint(r, i);
    return n < most ? n : most;
}

static bool starts_any(const char *type, const char *const *list)
{
    for (; *list; list++)
        if (text_starts(type, *list))
            return true;
    return false;
}

enum db_encoding db_encoding_of(const char *type, bool mariadb)
{
    static const char *const doubles[] = {"float", "double", "real", NULL};
    static const char *const indexes[] = {"enum(", "set(", NULL};
    static const char *const fixed[] = {"uuid", "inet4", "inet6", NULL};
    static const char *const raws[] = {"tinyint", "smallint", "mediumint", "int",
                                       "bigint",  "decimal",  "numeric",   NULL};
    if (starts_any(type, fixed)) /* checked before "int" */
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

static int schema_read_tables(struct db *db, const char *schema, const char *where,
                              struct db_tables *out, struct err *e)
{
    struct db_rows *r = db_select_with(
        db, "nTUUUUUU",
        "SELECT TABLE_NAME, ENGINE, AUTO_INCREMENT, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH, "
        "MAX_DATA_LENGTH, AVG_ROW_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA=? "
        "AND TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED') AND $ "
        "ORDER BY BINARY TABLE_NAME",
        DB_ARGS(schema, where), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->list[out->count++] = (struct db_table){
            .name = db_dup(r, 0),
            .engine = db_dup(r, 1),
            .memory = strcasecmp(db_text(r, 1), "MEMORY") == 0,
            .transactional = strcasecmp(db_text(r, 1), "InnoDB") == 0,
            .auto_increment = db_uint(r, 2),
            .described = db_value(r, 3) != NULL,
            .rows = schema_bounded(r, 3, ROWS_MOST),
            .data_length = schema_bounded(r, 4, SIZE_MOST),
            .index_length = schema_bounded(r, 5, SIZE_MOST),
            .max_data_length = schema_bounded(r, 6, SIZE_MOST),
            .row_length = schema_bounded(r, 7, ROW_LENGTH_MOST),
        };
    }
    db_rows_end(r);
    db_tables_sort(out); /* sorted by bytes, which may differ from the server's order */
    return got;
}

static int schema_read_columns(struct db *db, const char *schema, const char *where,
                               struct db_tables *out, struct err *e)
{
    bool mariadb = db_is_mariadb(db);
    struct db_rows *r = db_select_with(
        db, "nntTuTW",
        "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, EXTRA, "
        "COLUMN_DEFAULT IS NOT NULL OR IS_NULLABLE='YES' OR EXTRA LIKE '%auto_increment%', "
        "COLUMN_KEY, CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=? "
        "AND $ "
        "ORDER BY BINARY TABLE_NAME, ORDINAL_POSITION",
        DB_ARGS(schema, where), e);
    struct db_table *t = NULL;
    int got;
    while ((got = db_next(r, e)) == 1) {
        if (!t || strcmp(t->name, db_text(r, 0)) != 0)
            t = db_table_find(out, db_text(r, 0));
        if (!t) /* a view, or a table of another engine */
            continue;
        const char *extra = db_text(r, 3);
        t->columns = xgrow(t->columns, t->column_count, sizeof *t->columns);
        struct db_column *c = &t->columns[t->column_count++];
        *c = (struct db_column){
            .name = db_dup(r, 1),
            .type = db_dup(r, 2),
            .encoding = db_encoding_of(db_text(r, 2), mariadb),
            .generated = strstr(extra, "VIRTUAL GENERATED") || strstr(extra, "STORED GENERATED") ||
                         strstr(extra, "PERSISTENT"),
            .has_default = db_uint(r, 4) != 0,
            .counter = strstr(extra, "auto_increment") != NULL,
        };
        db_copy(r, 6, c->charset, sizeof c->charset);
        t->counts |= c->counter;
        t->has_key |= strcmp(db_text(r, 5), "PRI") == 0;
    }
    db_rows_end(r);
    return got;
}

int db_fresh_statistics(struct db *db, struct err *e)
{
    const char *age = db_word(db, WORD_STATISTICS_AGE);
    return age ? db_exec_with(db, "SET SESSION $=0", DB_ARGS(age), e) : 0;
}

/* Opens the table without reading a row, which waits for its metadata lock. Returns as
 * db_table_await() does. */
static int schema_touch(struct db *db, const char *schema, const char *table, struct err *e)
{
    struct err why;
    free(db_one_with(db, "SELECT 1 FROM ??.?? " DB_ONLY_TABLE " LIMIT 0", DB_ARGS(schema, table),
                     &why));
    if (db_in_vain(&why))
        return err_pass(e, &why);
    return why.cls == ERR_NONE;
}

int db_table_await(struct db *db, const char *schema, const char *table, struct err *e)
{
    static const char was[] = "wk_wait";
    return db_wait_briefly(db, was, e) < 0
               ? -1
               : db_wait_as_before(db, was, schema_touch(db, schema, table, e), e);
}

/* Returns a listed table without columns, or NULL. ALTER TABLE had removed its old definition when
 * the columns were read. A table without an engine cannot be opened, so it never has columns. */
static const struct db_table *schema_torn(const struct db_tables *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].column_count == 0 && list->list[i].engine[0])
            return &list->list[i];
    return NULL;
}

/* Reads the tables again until all of them have columns, at most READINGS times. The server opens
 * each table whose columns are read, so `columns` is the condition for these tables; NULL: no
 * columns are read. */
static int schema_read_settled(struct db *db, const char *schema, const char *where,
                               const char *columns, struct db_tables *out, struct err *e)
{
    for (unsigned n = 1;; n++) {
        *out = (struct db_tables){0};
        if (schema_read_tables(db, schema, where, out, e) < 0 ||
            (columns && schema_read_columns(db, schema, columns, out, e) < 0)) {
            db_tables_free(out);
            return -1;
        }
        const struct db_table *torn = columns ? schema_torn(out) : NULL;
        int again = torn && n < READINGS ? db_table_await(db, schema, torn->name, e) : 0;
        if (again == 0)
            return 0;
        db_tables_free(out);
        if (again < 0)
            return -1;
    }
}

static int tables_where(struct db *db, const char *schema, const char *where, const char *columns,
                        struct db_tables *out, struct err *e)
{
    bool mariadb = db_is_mariadb(db);
    *out = (struct db_tables){0};
    if (db_fresh_statistics(db, e) < 0 ||
        schema_read_settled(db, schema, where, columns, out, e) < 0)
        return -1;
    /* MySQL reports 1 for every MEMORY table, even without an AUTO_INCREMENT column, and NULL
     * for a counter beyond the last number. */
    for (size_t i = 0; i < out->count; i++) {
        struct db_table *t = &out->list[i];
        if (!t->counts)
            t->auto_increment = 0;
        else if (!mariadb && t->memory && t->auto_increment == 0 && t->described)
            t->auto_increment = UINT64_MAX;
    }
    return 0;
}

#define IS_OWN "LEFT(TABLE_NAME,16) = '" DB_OWN_PREFIX "'"
#define NOT_OWN "LEFT(TABLE_NAME,16) <> '" DB_OWN_PREFIX "' AND "
_Static_assert(sizeof DB_OWN_PREFIX - 1 == 16, "the length in the conditions");

int db_tables(struct db *db, const char *schema, bool all, struct db_tables *out, struct err *e)
{
    return tables_where(db, schema, all ? NOT_OWN "ENGINE IS NOT NULL" : NOT_OWN "ENGINE='MEMORY'",
                        "1", out, e);
}

int db_tables_with(struct db *db, const char *schema, const struct names *also,
                   struct db_tables *out, struct err *e)
{
    SCOPED(buf_free) struct buf where = {0};
    buf_adds(&where, NOT_OWN "(ENGINE='MEMORY'");
    for (size_t i = 0; i < also->count; i++) {
        buf_adds(&where, i ? "," : " OR (ENGINE='InnoDB' AND TABLE_NAME IN (");
        sql_string(&where, also->list[i], strlen(also->list[i]));
    }
    buf_adds(&where, also->count ? ")))" : ")");
    if (tables_where(db, schema, where.p, "1", out, e) < 0)
        return -1;
    for (size_t i = 0; i < out->count; i++)
        out->list[i].carried = !out->list[i].memory;
    return 0;
}

int db_closed_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e)
{
    return tables_where(db, schema, NOT_OWN "ENGINE IS NULL", NULL, out, e);
}

/* Lists our own tables, including those that the server cannot open. If a server is killed while
 * it creates a table, it leaves an incomplete definition, which has no engine and can only be
 * dropped. */
int db_own_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e)
{
    return tables_where(db, schema, IS_OWN, "1", out, e);
}

int db_table_named(struct db *db, const char *schema, const char *table, struct db_tables *out,
                   struct err *e)
{
    SCOPED(buf_free) struct buf w = {0};
    buf_adds(&w, "TABLE_NAME=");
    sql_string(&w, table, strlen(table));
    if (tables_where(db, schema, w.p, w.p, out, e) < 0)
        return -1;
    /* While a session replaces the definition, the list lacks the table, its engine or its columns.
     */
    if (out->count && out->list[0].engine[0] && out->list[0].column_count)
        return 0;
    static const struct db_tables none;
    SCOPED(db_tables_free) struct db_tables now = {0};
    int hidden = db_table_hidden(db, schema, &none, table, &now, e);
    if (hidden != 0)
        db_tables_free(out);
    if (hidden > 0) {
        *out = now;
        now = none;
    }
    return hidden < 0 ? -1 : 0;
}

int db_table_hidden(struct db *db, const char *schema, const struct db_tables *listed,
                    const char *name, struct db_tables *now, struct err *e)
{
    /* Not the variable of db_table_await(), which the reading below may call. */
    static const char was[] = "wk_wait_hidden";
    SCOPED(buf_free) struct buf settled = {0};
    *now = (struct db_tables){0};
    if (db_table_find(listed, name))
        return 0;
    if (db_wait_briefly(db, was, e) < 0)
        return -1;
    /* The server opens all tables of a statement before it reads rows, and keeps their definitions
     * until the end of the statement. */
    sql_fill(&settled, "TABLE_NAME=? AND " DB_ONLY("??.??"), DB_ARGS(name, schema, name));
    int rc = tables_where(db, schema, settled.p, settled.p, now, e);
    if (rc < 0 && !db_in_vain(e)) { /* there is none, or it cannot be opened */
        err_clear(e);
        rc = 0;
    }
    /* A server with case-insensitive names may list the table with other letter cases. */
    bool hidden = now->count > 0 && !db_table_find(listed, now->list[0].name);
    return db_wait_as_before(db, was, rc < 0 ? -1 : hidden, e);
}

char *db_one_settled(struct db *db, const char *schema, const char *table, const char *sql,
                     const char *const *args, struct err *e)
{
    static const char was[] = "wk_wait_one";
    SCOPED(buf_free) struct buf of = {0}, settled = {0};
    char *value = NULL;
    sql_fill(&of, sql, args);
    sql_fill(&settled, "SELECT * FROM ($) x WHERE " DB_ONLY("??.??"), DB_ARGS(of.p, schema, table));
    if (db_wait_briefly(db, was, e) < 0)
        return NULL;
    /* A node of Galera ends this statement (1213, 1317) in favor of an ALTER TABLE. */
    unsigned n = 0;
    do
        value = db_one(db, settled.p, e);
    while (++n < READINGS && (e->num == DB_DEADLOCK || e->num == DB_INTERRUPTED));
    if (e->num == DB_LOCK_TIMEOUT || (e->cls != ERR_NONE && !db_in_vain(e)))
        value = db_one(db, of.p, e);
    if (db_wait_as_before(db, was, e->cls == ERR_NONE ? 0 : -1, e) == 0)
        return value;
    free(value);
    return NULL;
}

int db_tuple_place(const struct db_table *t, const char *column)
{
    int place = 0;
    for (size_t i = 0; i < t->column_count; i++) {
        if (strcasecmp(t->columns[i].name, column) == 0)
            return t->columns[i].generated ? -1 : place;
        place += !t->columns[i].generated;
    }
    return -1;
}

/* Reads the unique keys, and sets the primary keys of the tables. seen[i] is set to true if the
 * server shows a unique key of tables->list[i]. */
static int schema_read_keys(struct db *db, const char *schema, struct db_tables *tables, bool *seen,
                            struct err *e)
{
    for (size_t i = 0; i < tables->count; i++)
        tables->list[i].key_count = 0;
    struct db_rows *r =
        db_select_with(db, "nTiu",
                       "SELECT TABLE_NAME, COLUMN_NAME, SEQ_IN_INDEX, INDEX_NAME='PRIMARY' FROM "
                       "information_schema.STATISTICS WHERE TABLE_SCHEMA=? AND "
                       "NON_UNIQUE=0 ORDER BY BINARY TABLE_NAME, SEQ_IN_INDEX",
                       DB_ARGS(schema), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        struct db_table *t = db_table_find(tables, db_text(r, 0));
        if (t)
            seen[t - tables->list] = true;
        if (!t || db_uint(r, 3) == 0)
            continue;
        int place = db_tuple_place(t, db_text(r, 1));
        bool first = db_uint(r, 2) == 1;
        if (place >= 0 && (first || t->key_count > 0)) {
            t->key = xgrow(t->key, t->key_count, sizeof *t->key);
            t->key[t->key_count++] = (unsigned)place;
        } else {
            t->key_count = 0; /* tuples lack one of its columns, so the key cannot be used */
        }
    }
    db_rows_end(r);
    return got;
}

/* Returns a table whose keys must be read again, or NULL: its columns show a primary key, but no
 * unique key was seen. A table without a primary key may show a unique key as its primary key. */
static const struct db_table *schema_keyless(const struct db_tables *tables, const bool *seen)
{
    for (size_t i = 0; i < tables->count; i++)
        if (tables->list[i].has_key && !seen[i])
            return &tables->list[i];
    return NULL;
}

int db_table_keys(struct db *db, const char *schema, struct db_tables *tables, struct err *e)
{
    SCOPED(xfree) char *cases = db_one(db, "SELECT @@lower_case_table_names", e);
    if (!cases && e->cls != ERR_NONE)
        return -1;
    tables->any_case = cases && strcmp(cases, "0") != 0;
    for (unsigned n = 1;; n++) {
        SCOPED(xfree) bool *seen = xcalloc(tables->count + 1, sizeof *seen);
        if (schema_read_keys(db, schema, tables, seen, e) < 0)
            return -1;
        const struct db_table *torn = schema_keyless(tables, seen);
        int again = torn && n < READINGS ? db_table_await(db, schema, torn->name, e) : 0;
        if (again <= 0)
            return again;
    }
}

void db_table_free(struct db_table *t)
{
    for (size_t c = 0; c < t->column_count; c++) {
        free(t->columns[c].name);
        free(t->columns[c].type);
    }
    free(t->columns);
    free(t->key);
    free(t->name);
    free(t->engine);
    *t = (struct db_table){0};
}

void db_tables_free(struct db_tables *t)
{
    for (size_t i = 0; i < t->count; i++)
        db_table_free(&t->list[i]);
    free(t->list);
    *t = (struct db_tables){0};
}

void db_tables_remove(struct db_tables *list, struct db_table *t)
{
    size_t i = (size_t)(t - list->list);
    db_table_free(t);
    memmove(t, t + 1, (list->count - i - 1) * sizeof *t);
    list->count--;
}

static int schema_by_name(const void *a, const void *b)
{
    const struct db_table *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void db_tables_sort(struct db_tables *list)
{
    if (list->count)
        qsort(list->list, list->count, sizeof *list->list, schema_by_name);
}

const struct db_column *db_column_find(const struct db_table *t, const char *name)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (strcasecmp(t->columns[i].name, name) == 0)
            return &t->columns[i];
    return NULL;
}

struct db_table *db_table_find(const struct db_tables *t, const char *name)
{
    size_t from = 0, to = t->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        assert(middle == 0 || schema_by_name(&t->list[middle - 1], &t->list[middle]) <= 0);
        int order = strcmp(name, t->list[middle].name);
        if (order == 0)
            return &t->list[middle];
        if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
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

char *db_create_table(struct db *db, const char *schema, const char *table, struct err *e)
{
    char *sql = NULL;
    struct db_rows *r =
        db_select_with(db, "nt*", "SHOW CREATE TABLE ??.??", DB_ARGS(schema, table), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        free(sql);
        sql = db_dup(r, 1);
    }
    db_rows_end(r);
    if (got == 0)
        return sql;
    free(sql);
    return NULL;
}

int db_figures(struct db *db, const char *schema, const char *table, struct db_figures *out,
               struct err *e)
{
    *out = (struct db_figures){0};
    struct db_rows *r =
        db_select_with(db, "UUUT",
                       "SELECT TABLE_ROWS, AUTO_INCREMENT, MAX_DATA_LENGTH, ENGINE FROM "
                       "information_schema.TABLES WHERE TABLE_SCHEMA=? AND TABLE_NAME=?",
                       DB_ARGS(schema, table), e);
    int got;
    while ((got = db_next(r, e)) == 1)
        *out = (struct db_figures){
            .rows = db_uint(r, 0),
            .auto_increment = db_uint(r, 1),
            .max_data_length = schema_bounded(r, 2, SIZE_MOST),
            .memory = strcasecmp(db_text(r, 3), "MEMORY") == 0,
        };
    db_rows_end(r);
    return got;
}

int db_count(struct db *db, const char *schema, const char *table, uint64_t *rows, struct err *e)
{
    struct db_rows *r = db_select_with(db, "u", "SELECT COUNT(*) FROM ??.?? " DB_ONLY_TABLE,
                                       DB_ARGS(schema, table), e);
    int got;
    while ((got = db_next(r, e)) == 1)
        *rows = db_uint(r, 0);
    db_rows_end(r);
    return got;
}

/* ---- from a definition ---- */

/* Reads a key. A key with a generated column is ignored, because tuples lack that column. */
static void schema_read_key(struct db_table *t, const struct sql_key *k)
{
    t->key = xcalloc(k->part_count, sizeof *t->key);
    for (size_t i = 0; i < k->part_count; i++) {
        int place = k->parts[i].name ? db_tuple_place(t, k->parts[i].name) : -1;
        if (place < 0) {
            t->key_count = 0;
            return;
        }
        t->key[t->key_count++] = (unsigned)place;
    }
}

int db_create_table_read(const char *create, size_t len, bool mariadb, struct db_table *out)
{
    SCOPED(sql_table_free) struct sql_table t = {0};
    *out = (struct db_table){0};
    if (sql_table_read(create, len, 0, &t, NULL) < 0)
        return -1;
    out->name = xstrdup(t.name);
    out->engine = xstrdup("");
    out->columns = xcalloc(t.column_count, sizeof *out->columns);
    for (size_t i = 0; i < t.column_count; i++) {
        struct db_column *c = &out->columns[out->column_count++];
        /* information_schema shows MariaDB's compression as a part of the type. */
        *c = (struct db_column){
            .name = xstrdup(t.columns[i].name),
            .type = xasprintf("%s%s", t.columns[i].type,
                              t.columns[i].compressed ? " /*M!100301 COMPRESSED*/" : ""),
            .generated = t.columns[i].generated || t.columns[i].row_end,
            .counter = t.columns[i].counter,
        };
        c->encoding = db_encoding_of(c->type, mariadb);
        out->counts |= c->counter;
    }
    for (size_t i = 0; i < t.key_count; i++)
        if (strcmp(t.keys[i].kind, "PRIMARY KEY") == 0)
            schema_read_key(out, &t.keys[i]);
    return 0;
}
