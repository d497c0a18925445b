#include "ledger/verify.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/js.h"
#include "ledger/keep.h"
#include "ledger/run_int.h"
#include "ledger/sql.h"
#include "ledger/sums.h"
#include "sql/literal.h"

#define TEMPORARY "`worldkeeper_tmp_verify`"
#define AT_ONCE 500u /* rows of one INSERT */
#define SHOWN 20     /* sentences of a list */

struct verify {
    struct db *db;
    struct ledger *l;
    int dirfd;
    struct ledger_verified *out;
    struct buf table, rollup, mark; /* quoted */
    uint64_t file, filed;           /* see ledger/keep.c */
    struct ledger_files files;
    uint64_t open_rows; /* rows in files that are not in totals yet */
    /* Rows of a file, as they are read: */
    bool open;                                 /* the run that wrote the file was interrupted */
    int places[2 * CONFIG_LEDGER_COLUMNS + 1]; /* of keys, values, id */
    bool header;
    struct verify_row {
        struct buf tuple;
        uint64_t id;
        bool waits;
    } rows[AT_ONCE];
    size_t count;
};

static void verify_say(json_t *list, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends a sentence for people. Their number is limited, because thousands would hide the first
 * ones. */
static void verify_say(json_t *list, const char *fmt, ...)
{
    SCOPED(buf_free) struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    if (json_array_size(list) < SHOWN)
        json_array_append_new(list, js_clean(b.p));
    else if (json_array_size(list) == SHOWN)
        json_array_append_new(list, json_string("and more"));
}

/* ---- ledger and rollup ---- */

/* Reports rows with NULL. The game may have inserted them, but no run can add them to a total. */
static int verify_nulls(struct verify *v, struct err *e)
{
    for (unsigned i = 0; i < ledger_columns(v->l); i++) {
        const char *column = ledger_column(v->l, i)->name;
        SCOPED(buf_free) struct buf name = {0};
        uint64_t n = 0;
        sql_ident(&name, column);
        if (ledger_ask(v->db, &n, e, "SELECT COUNT(*) FROM %s " DB_ONLY_TABLE " WHERE %s IS NULL",
                       v->table.p, name.p) < 0)
            return -1;
        if (n)
            verify_say(v->out->problems,
                       "%" PRIu64
                       " rows of table %s have NULL in column %s and cannot be added to a total",
                       n, v->l->cfg->table, column);
    }
    return 0;
}

/* Reports rows of a MEMORY ledger that are in no total, because their ids had been rolled up
 * before the rows were inserted. */
static int verify_marks(struct verify *v, struct err *e)
{
    const struct ledger *l = v->l;
    uint64_t last = 0, below = 0, interrupted = 0;
    SCOPED(buf_free) struct buf join = {0}, id = {0};
    if (!l->memory)
        return 0;
    ledger_sql_join(&join, l);
    sql_ident(&id, l->cfg->id);
    if (ledger_ask(v->db, &below, e,
                   "SELECT COUNT(*) FROM %s l " DB_ONLY_TABLE " JOIN %s r " DB_ONLY_TABLE
                   " ON %s WHERE l.%s<=r.end_id",
                   v->table.p, v->rollup.p, join.p, id.p) < 0 ||
        ledger_ask(v->db, &interrupted, e, "SELECT id FROM %s " DB_ONLY_TABLE " WHERE what='open'",
                   v->mark.p) < 0 ||
        ledger_ask(v->db, &last, e, "SELECT MAX(end_id) FROM %s " DB_ONLY_TABLE, v->rollup.p) < 0)
        return -1;
    if (below && interrupted >= below)
        verify_say(v->out->unknown,
                   "a run was interrupted: %" PRIu64
                   " rows are in totals and still in table %s; the next run deletes them",
                   below, l->cfg->table);
    else if (below)
        verify_say(v->out->problems,
                   "%" PRIu64 " rows of table %s have ids that were already rolled up for their "
                   "keys: these rows are in no total",
                   below, l->cfg->table);
    if (last && l->next_id <= last)
        verify_say(v->out->problems,
                   "the ids of table %s start again: the next id is %" PRIu64
                   ", but ids up to %" PRIu64 " were already rolled up",
                   l->cfg->table, l->next_id, last);
    return 0;
}

/* ---- rows of files ---- */

/* Marks the rows of an interrupted file that are not in totals yet. */
static int ask_open(struct verify *v, struct err *e)
{
    const struct ledger *l = v->l;
    const char *id = l->cfg->id;
    SCOPED(buf_free) struct buf sql = {0};
    sql_fill(&sql, "SELECT l.?? FROM $ l " DB_ONLY_TABLE, DB_ARGS(id, v->table.p));
    if (l->memory) {
        buf_printf(&sql, " LEFT JOIN %s r " DB_ONLY_TABLE " ON ", v->rollup.p);
        ledger_sql_join(&sql, l);
    }
    sql_fill(&sql, " WHERE l.?\?>$ AND l.?? IN (",
             DB_ARGS(id, l->memory ? "COALESCE(r.end_id,0)" : "0", id));
    for (size_t i = 0; i < v->count; i++)
        buf_printf(&sql, "%s%" PRIu64, i ? "," : "", v->rows[i].id);
    buf_addc(&sql, ')');
    struct db_rows *rows = db_select(v->db, "n", sql.p, e);
    int got;
    while ((got = db_next(rows, e)) == 1)
        for (size_t i = 0; i < v->count; i++)
            if (v->rows[i].id == db_uint(rows, 0) && !v->rows[i].waits) {
                v->rows[i].waits = true;
                v->open_rows++;
            }
    db_rows_end(rows);
    return got;
}

/* Adds the rows that were read to the sums. */
static int add_rows(struct verify *v, struct err *e)
{
    const struct ledger *l = v->l;
    SCOPED(buf_free) struct buf sql = {0};
    bool any = false;
    if (v->count && v->open && ask_open(v, e) < 0)
        return -1;
    buf_adds(&sql, "INSERT INTO " TEMPORARY " (");
    ledger_sql_each(&sql, l, LEDGER_ALL, "", "$,");
    buf_adds(&sql, "end_id,`rows`) VALUES ");
    for (size_t i = 0; i < v->count; i++) {
        if (!v->rows[i].waits) {
            buf_printf(&sql, "%s%s", any ? "," : "", v->rows[i].tuple.p);
            any = true;
        }
        buf_free(&v->rows[i].tuple);
    }
    buf_adds(&sql, " ON DUPLICATE KEY UPDATE ");
    ledger_sql_each(&sql, l, LEDGER_VALUES, "", "$=$+VALUES($),");
    /* In a MEMORY ledger a key's rows come in the order in which they were added. */
    buf_printf(&sql, "end_id=%s,`rows`=`rows`+1",
               l->memory ? "VALUES(end_id)" : "GREATEST(end_id,VALUES(end_id))");
    v->count = 0;
    return any ? db_exec_len(v->db, sql.p, sql.len, e) : 0;
}

/* Appends a field as it is inserted; the server converts it to the column's type. */
static void verify_put_field(struct buf *b, const struct csv_field *f)
{
    static const char hex[] = "0123456789abcdef";
    bool binary = !f->quoted && f->len >= 2 && memcmp(f->s, "0x", 2) == 0;
    for (size_t i = 2; i < f->len && binary; i++)
        binary = memchr(hex, f->s[i], sizeof hex - 1) != NULL;
    if (!f->quoted && f->len == 0) {
        buf_adds(b, "NULL");
    } else if (binary) {
        if (f->len == 2)
            buf_adds(b, "''");
        else
            buf_add(b, f->s, f->len);
    } else {
        buf_adds(b, f->quoted ? "_utf8mb4 " : "");
        sql_string(b, f->s, f->len);
    }
}

/* The first line has the column names, in the order that the table had at that time. Rows
 * follow. */
static int verify_read_row(void *arg, const struct csv_field *fields, unsigned count, struct err *e)
{
    struct verify *v = arg;
    const struct config_ledger *c = v->l->cfg;
    unsigned n = c->key.count + c->value.count;
    for (unsigned i = 0; i <= n && !v->header; i++) {
        const char *name = i < c->key.count ? c->key.list[i]
                           : i < n          ? c->value.list[i - c->key.count]
                                            : c->id;
        v->places[i] = -1;
        for (unsigned k = 0; k < count; k++)
            if (fields[k].len == strlen(name) && strncasecmp(fields[k].s, name, fields[k].len) == 0)
                v->places[i] = (int)k;
        if (v->places[i] < 0)
            return err_set(e, ERR_DAMAGED, 0, "it does not have column %s", name);
    }
    if (!v->header) {
        v->header = true;
        return 0;
    }
    struct verify_row *row = &v->rows[v->count++];
    *row = (struct verify_row){0};
    for (unsigned i = 0; i <= n; i++) {
        if ((unsigned)v->places[i] >= count)
            return err_set(e, ERR_DAMAGED, 0, "a row has fewer fields than the first line");
        buf_adds(&row->tuple, i ? "," : "(");
        verify_put_field(&row->tuple, &fields[v->places[i]]);
    }
    buf_adds(&row->tuple, ",1)");
    const struct csv_field *id = &fields[v->places[n]];
    if (!ledger_parse_id(id->s, id->len, &row->id))
        return err_set(e, ERR_DAMAGED, 0, "a row has no id");
    return v->count == AT_ONCE ? add_rows(v, e) : 0;
}

/* Checks that a manifest continues the count of the file before it. */
static void compare_manifests(struct verify *v, const struct ledger_file *before,
                              const struct ledger_file *f)
{
    uint64_t expected = before ? before->before + before->rows : 0;
    if (f->before == expected)
        return;
    if (!before)
        verify_say(
            v->out->unknown,
            "%" PRIu64
            " rows were rolled up before the oldest file, %s.csv.gz: only their sum is known",
            f->before, f->name);
    else if (f->before < expected)
        verify_say(v->out->problems,
                   "%s.csv.gz: when it was begun, totals had fewer rows than the earlier files",
                   f->name);
    else if (f->sequence > before->sequence + 1)
        verify_say(v->out->problems,
                   "a file between %s.csv.gz and %s.csv.gz with %" PRIu64 " rows is missing",
                   before->name, f->name, f->before - expected);
    else
        verify_say(v->out->unknown,
                   "%" PRIu64 " rows were rolled up between %s.csv.gz and %s.csv.gz without "
                   "being kept: only their sum is known",
                   f->before - expected, before->name, f->name);
}

/* Verifies the oldest file first, because each manifest continues the count of the one before. */
static int verify_files(struct verify *v, struct err *e)
{
    const struct ledger_file *before = NULL;
    uint64_t kept = 0;
    for (size_t i = 0; i < v->files.count; i++) {
        struct ledger_file *f = &v->files.list[i];
        struct err why = {0};
        int loaded = ledger_file_load(v->dirfd, f, &why);
        if (f->sequence > v->file && loaded == 0 && v->out->rolled_up > f->before) {
            verify_say(v->out->problems,
                       "%s.csv.gz: according to row 'file' of table %s_mark (%" PRIu64
                       ") it is not valid, but %" PRIu64
                       " rows were added to totals since it was begun: the row was changed, or "
                       "rows were rolled up without keep after a restore",
                       f->name, v->l->cfg->name, v->file, v->out->rolled_up - f->before);
            continue;
        }
        /* The file was written after the time to which the world was restored, or its run ended
         * before it stored the marker row. The rows of such a file are in no total. */
        if (f->sequence > v->file) {
            verify_say(v->out->unknown,
                       "%s.csv.gz is not valid: the run that wrote it was interrupted, or a "
                       "restore undid it; the next run renames it",
                       f->name);
            continue;
        }
        if (loaded < 0) {
            verify_say(v->out->problems, "%s.csv.gz: %s", f->name, why.text);
            continue;
        }
        compare_manifests(v, before, f);
        before = f;
        v->open = f->sequence > v->filed;
        v->header = false;
        int rc = ledger_file_read(v->dirfd, f, verify_read_row, v, &why);
        if (rc == 0)
            rc = add_rows(v, &why);
        for (; v->count; v->count--)
            buf_free(&v->rows[v->count - 1].tuple);
        /* A failure of the server or the connection says nothing about the file. */
        if (rc < 0 && why.cls != ERR_DAMAGED && why.cls != ERR_REFUSED && why.cls != ERR_SYSTEM)
            return err_pass(e, &why);
        if (rc < 0)
            verify_say(v->out->problems, "%s.csv.gz: %s", f->name, why.text);
        v->out->files++;
        v->out->file_rows += f->rows;
        kept = f->before + f->rows;
    }
    uint64_t known = v->out->rolled_up + v->open_rows;
    uint64_t last = before ? before->sequence : 0;
    if (v->file > last && v->l->cfg->keep)
        verify_say(v->out->unknown,
                   "file %08" PRIu64 " was the last to be written, and %s: the machine that wrote "
                   "it has it, or it was deleted",
                   v->file,
                   before ? "no file after the newest one here was seen" : "no file is here");
    if (!before)
        verify_say(v->out->unknown, "no file exists to compare totals with%s",
                   v->l->cfg->keep ? "" : ": keep is 0");
    else if (known < before->before)
        verify_say(v->out->problems,
                   "totals have %" PRIu64 " rows fewer than when the newest file was begun",
                   before->before - known);
    else if (kept != known)
        verify_say(
            kept < known && !v->l->cfg->keep ? v->out->unknown : v->out->problems,
            "%" PRIu64
            " rows were rolled up since the newest file was begun, but that file has %" PRIu64,
            known - before->before, before->rows);
    return 0;
}

/* ---- sums ---- */

/* An end_id of 0 is not compared in a MEMORY ledger: an operator may have set it because ids began
 * again. */
static int compare_sums(struct verify *v, struct err *e)
{
    const struct ledger *l = v->l;
    SCOPED(buf_free) struct buf sql = {0}, differ = {0}, join = {0};
    ledger_sql_each(&differ, l, LEDGER_VALUES, " OR ", "t.$<>r.$");
    ledger_sql_each(&join, l, LEDGER_KEYS, " AND ", "t.$=r.$");
    buf_adds(&sql, "SELECT CONCAT_WS(', '");
    ledger_sql_each(&sql, l, LEDGER_KEYS, "", ",CONVERT(t.$ USING utf8mb4)");
    buf_printf(&sql,
               "),t.`rows`,COALESCE(r.`rows`,0),t.end_id,COALESCE(r.end_id,0) FROM " TEMPORARY
               " t LEFT JOIN %s r " DB_ONLY_TABLE " ON %s "
               "WHERE r.`rows` IS NULL OR t.`rows`>r.`rows` OR (t.`rows`=r.`rows` AND "
               "((t.end_id<>r.end_id AND %s) OR %s)) LIMIT %d",
               v->rollup.p, join.p, l->memory ? "r.end_id<>0" : "1=1", differ.p, SHOWN + 1);
    struct db_rows *rows = db_select(v->db, "tnnnn", sql.p, e);
    int got;
    while ((got = db_next(rows, e)) == 1) {
        uint64_t files = db_uint(rows, 1), total = db_uint(rows, 2), file_end = db_uint(rows, 3),
                 end = db_uint(rows, 4);
        if (files > total)
            verify_say(v->out->problems,
                       "key %s: %" PRIu64 " rows in files, %" PRIu64 " in its total",
                       db_text(rows, 0), files, total);
        else if (file_end != end && (end || !l->memory))
            verify_say(v->out->problems,
                       "key %s: the last id in files is %" PRIu64 ", but its end_id is %" PRIu64,
                       db_text(rows, 0), file_end, end);
        else
            verify_say(v->out->problems,
                       "key %s: its total differs from the sum of its %" PRIu64 " rows in files",
                       db_text(rows, 0), files);
    }
    db_rows_end(rows);
    return got;
}

/* Only this session sees the temporary table, which is dropped when the session ends. */
static int verify_all(struct verify *v, struct err *e)
{
    struct ledger_verified *out = v->out;
    struct db *db = v->db;
    const char *rollup = v->rollup.p;
    struct ledger_filed m;
    /* Strict mode: a sum that does not fit its column is an error instead of becoming the
     * largest number. */
    if (db_exec(db, "SET SESSION sql_mode=CONCAT(@@sql_mode,',STRICT_ALL_TABLES')", e) < 0 ||
        ledger_ask(db, &out->rows, e, "SELECT COUNT(*) FROM %s " DB_ONLY_TABLE, v->table.p) < 0 ||
        ledger_ask(db, &out->keys, e, "SELECT COUNT(*) FROM %s " DB_ONLY_TABLE, rollup) < 0 ||
        ledger_ask(db, &out->rolled_up, e, "SELECT SUM(`rows`) FROM %s " DB_ONLY_TABLE, rollup) <
            0 ||
        ledger_filed(db, v->l, &m, e) < 0 || verify_nulls(v, e) < 0 || verify_marks(v, e) < 0)
        return -1;
    v->file = m.file;
    v->filed = m.filed;
    struct ledger_ref at = ledger_filed_last(&m);
    if (ledger_files_settle(v->dirfd, v->l->cfg->name, true, &at, e) < 0 ||
        ledger_files_list(v->dirfd, v->l->cfg->name, &v->files, e) < 0 ||
        db_execf(db, e, "CREATE TEMPORARY TABLE " TEMPORARY " LIKE %s", rollup) < 0 ||
        verify_files(v, e) < 0)
        return -1;
    return compare_sums(v, e);
}

int ledger_verify(struct db *db, struct ledger *l, int dirfd, struct ledger_verified *out,
                  struct err *e)
{
    SCOPED(xfree) struct verify *v = xcalloc(1, sizeof *v); /* too large for the stack */
    *v = (struct verify){.db = db, .l = l, .dirfd = dirfd, .out = out};
    *out = (struct ledger_verified){.problems = json_array(), .unknown = json_array()};
    sql_ident2(&v->table, l->schema, l->cfg->table);
    sql_ident2(&v->rollup, l->schema, LEDGER_OWN(l->cfg, "rollup"));
    sql_ident2(&v->mark, l->schema, LEDGER_OWN(l->cfg, "mark"));
    int rc = verify_all(v, e);
    if (rc < 0)
        err_step(e, "[ledger %s] cannot be verified", l->cfg->name);
    ledger_files_free(&v->files);
    buf_free(&v->table);
    buf_free(&v->rollup);
    buf_free(&v->mark);
    return rc;
}

void ledger_verified_free(struct ledger_verified *v)
{
    json_decref(v->problems);
    json_decref(v->unknown);
    *v = (struct ledger_verified){0};
}
