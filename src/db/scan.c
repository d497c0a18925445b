#include "db/scan_int.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "db/binary.h"
#include "db/sql.h"

/* A chunk holds writers up as long as it takes, and costs a round trip however short it is. */
#define CHUNK_US 2000
#define CHUNK_FIRST 100u
#define CHUNK_MIN 10u
#define CHUNK_MAX 50000u /* rows are kept until they are handed on */

static char *copy_of(const struct db_rows *r, unsigned i)
{
    const char *v = db_value(r, i);
    return v ? xstrndup(v, db_length(r, i)) : xstrdup("");
}

int db_scan_facts(struct db *db, const char *schema, struct db_scan_facts *out, struct err *e)
{
    *out = (struct db_scan_facts){.mariadb = db_is_mariadb(db)};
    struct buf name = {0}, sql = {0};
    int got = -1;
    sql_string(&name, schema, strlen(schema));
    buf_printf(&sql,
               "SELECT IF(TABLE_TYPE='SYSTEM VERSIONED',%d,%d), TABLE_NAME, '', '' "
               "FROM information_schema.TABLES WHERE TABLE_SCHEMA=%s AND "
               "(TABLE_TYPE='SYSTEM VERSIONED' OR CREATE_OPTIONS LIKE '%%partitioned%%') UNION ALL "
               "SELECT IF(EXTRA LIKE '%%INVISIBLE%%',%d,%d), TABLE_NAME, COLUMN_NAME, "
               "CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=%s AND "
               "(EXTRA LIKE '%%INVISIBLE%%' OR DATA_TYPE IN ('enum','set'))",
               DB_SCAN_VERSIONED, DB_SCAN_PARTITIONED, name.p, DB_SCAN_INVISIBLE, DB_SCAN_CHOICE,
               name.p);
    struct db_rows *r = db_select(db, sql.p, e);
    while (r && (got = db_next(r, e)) == 1) {
        out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
        struct db_scan_fact *f = &out->list[out->count++];
        f->kind = (unsigned)strtoul(db_value(r, 0), NULL, 10);
        f->table = copy_of(r, 1);
        f->column = copy_of(r, 2);
        f->charset = copy_of(r, 3);
    }
    db_rows_end(r);
    buf_free(&name);
    buf_free(&sql);
    if (got < 0)
        db_scan_facts_free(out);
    return got;
}

void db_scan_facts_free(struct db_scan_facts *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->list[i].table);
        free(f->list[i].column);
        free(f->list[i].charset);
    }
    free(f->list);
    *f = (struct db_scan_facts){0};
}

/* HANDLER delivers ENUM and SET as text in the column's own character set; information_schema tells
 * the members in UTF-8, and what does not exist there as '?'. No text is number 0, or a member. */
static bool ambiguous(const struct db_choices *c, const char *charset)
{
    static const char *const not_ascii[] = {"ucs2", "utf16", "utf16le", "utf32", "swe7", NULL};
    static const char *const utf8[] = {"utf8", "utf8mb3", "utf8mb4", NULL};
    if (text_among(charset, not_ascii))
        return true;
    bool same = text_among(charset, utf8);
    for (size_t i = 0; i < c->count; i++) {
        if (c->lengths[i] == 0)
            return true;
        for (size_t j = 0; j < c->lengths[i]; j++)
            if (c->list[i][j] == '?' || (!same && (unsigned char)c->list[i][j] >= 0x80))
                return true;
    }
    return false;
}

static const char *choice_refusal(const struct db_table *t, const struct db_scan_fact *f)
{
    for (size_t i = 0; i < t->column_count; i++) {
        struct db_choices c;
        if (strcmp(t->columns[i].name, f->column) != 0 || t->columns[i].encoding != DB_INDEX)
            continue;
        bool bad = db_choices_parse(t->columns[i].type, &c) < 0 || ambiguous(&c, f->charset);
        db_choices_free(&c);
        if (bad)
            return "an ENUM or SET column has members that cannot be told apart by their text";
    }
    return NULL;
}

static const char *handler_refusal(const struct db_table *t, const struct db_scan_fact *f)
{
    switch (f->kind) {
    case DB_SCAN_VERSIONED:
        return "it is system versioned, and a scan would bring its history";
    case DB_SCAN_PARTITIONED:
        return "it is partitioned, and rows may move from one partition to another";
    case DB_SCAN_INVISIBLE:
        return "it has an INVISIBLE column, which a scan does not bring";
    case DB_SCAN_CHOICE:
        return choice_refusal(t, f);
    }
    return NULL;
}

enum db_scan_way db_scan_way(const struct db_table *t, const struct db_scan_facts *f,
                             const char **why)
{
    bool versioned = false;
    *why = !t->memory ? "it is no MEMORY table" : f->mariadb ? NULL : "only MariaDB has HANDLER";
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->list[i].table, t->name) != 0)
            continue;
        versioned |= f->list[i].kind == DB_SCAN_VERSIONED;
        if (!*why)
            *why = handler_refusal(t, &f->list[i]);
    }
    /* What the log tells of a versioned table is its history. */
    return !*why ? DB_SCAN_HANDLER : t->memory && !versioned ? DB_SCAN_COPIES : DB_SCAN_NONE;
}

/* ---- HANDLER ---- */

struct scan {
    struct db *db;
    const struct db_table *t;
    struct db_binary_field *fields;
    struct db_choices *choices; /* [i]: of field i */
    db_tuple_fn *fn;
    db_chunk_fn *chunk;
    void *arg;
    uint64_t limit, rows;
};

int64_t scan_clock(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* The server's words for a table that is gone, emptied by TRUNCATE or built anew. */
int scan_failed(const struct db_table *t, struct err *e)
{
    static const int numbers[] = {1020, 1031, 1032, 1054, 1109, 1146, 1412, 1615};
    bool yes = e && e->cls == ERR_CHANGED;
    for (size_t i = 0; e && i < sizeof numbers / sizeof *numbers; i++)
        yes |= e->num == numbers[i];
    if (yes)
        err_set(e, ERR_CHANGED, e->num, "table %s was changed while it was read", t->name);
    else
        err_step(e, "scanning table %s", t->name);
    return -1;
}

static uint64_t next_limit(uint64_t limit, int64_t us)
{
    uint64_t want = us > 0 ? limit * CHUNK_US / (uint64_t)us : 2 * limit;
    want = want > 2 * limit ? 2 * limit : want < limit / 2 ? limit / 2 : want;
    return want < CHUNK_MIN ? CHUNK_MIN : want > CHUNK_MAX ? CHUNK_MAX : want;
}

/* One chunk: 1 when there may be more, 0 at the end, -1. */
static int read_chunk(struct scan *s, struct db_binary *b, struct buf *tuple, struct err *e)
{
    int64_t began = scan_clock();
    if (db_binary_run(b, s->limit, true, e) < 0)
        return scan_failed(s->t, e);
    int64_t took = scan_clock() - began;
    uint64_t n = 0;
    int got;
    while ((got = db_binary_next(b, tuple, e)) == 1) {
        if (s->fn(s->arg, tuple->p, tuple->len, e) < 0)
            return -1;
        n++;
    }
    s->rows += n;
    if (got < 0)
        return scan_failed(s->t, e);
    if (s->chunk && s->chunk(s->arg, n, took, e) < 0)
        return -1;
    bool more = n == s->limit;
    s->limit = next_limit(s->limit, took);
    return more;
}

static struct db_binary *prepare(const struct scan *s, const char *which, struct err *e)
{
    struct buf sql = {0};
    buf_printf(&sql, "HANDLER worldkeeper_scan READ %s LIMIT ?", which);
    struct db_binary *b = db_binary_open(s->db, sql.p, s->fields, s->t->column_count, e);
    buf_free(&sql);
    return b;
}

static int walk(struct scan *s, struct err *e)
{
    struct buf tuple = {0};
    struct db_binary *first = prepare(s, "FIRST", e), *next = first ? prepare(s, "NEXT", e) : NULL;
    int more = next ? read_chunk(s, first, &tuple, e) : scan_failed(s->t, e);
    while (more == 1)
        more = read_chunk(s, next, &tuple, e);
    db_binary_close(first);
    db_binary_close(next);
    buf_free(&tuple);
    return more;
}

static void describe(struct scan *s)
{
    for (size_t i = 0; i < s->t->column_count; i++) {
        const struct db_column *c = &s->t->columns[i];
        s->fields[i] = (struct db_binary_field){
            .name = c->name, .encoding = c->encoding, .skip = c->generated};
        if (c->encoding == DB_INDEX && db_choices_parse(c->type, &s->choices[i]) == 0)
            s->fields[i].choices = &s->choices[i];
    }
}

static int scan_by_handler(struct db *db, const struct db_table *t, db_tuple_fn *fn,
                           db_chunk_fn *chunk, void *arg, uint64_t *rows, struct err *e)
{
    struct scan s = {.db = db, .t = t, .fn = fn, .chunk = chunk, .arg = arg, .limit = CHUNK_FIRST};
    struct buf sql = {0};
    struct err ignored;
    s.fields = xcalloc(t->column_count, sizeof *s.fields);
    s.choices = xcalloc(t->column_count, sizeof *s.choices);
    describe(&s);
    buf_adds(&sql, "HANDLER ");
    sql_ident(&sql, t->name);
    buf_adds(&sql, " OPEN AS worldkeeper_scan");
    int rc = db_exec_len(db, sql.p, sql.len, e);
    if (rc < 0) {
        scan_failed(t, e);
    } else {
        rc = walk(&s, e);
        if (db_exec(db, "HANDLER worldkeeper_scan CLOSE", rc < 0 ? &ignored : e) < 0)
            rc = -1;
    }
    *rows = s.rows;
    buf_free(&sql);
    for (size_t i = 0; i < t->column_count; i++)
        db_choices_free(&s.choices[i]);
    free(s.choices);
    free(s.fields);
    return rc;
}

int db_scan_rows(struct db *db, const struct db_table *t, enum db_scan_way way, db_tuple_fn *fn,
                 db_chunk_fn *chunk, void *arg, uint64_t *rows, struct err *e)
{
    return way == DB_SCAN_HANDLER ? scan_by_handler(db, t, fn, chunk, arg, rows, e)
                                  : scan_by_copies(db, t, fn, chunk, arg, rows, e);
}
