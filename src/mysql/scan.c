#include "mysql/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mysql/binary.h"
#include "mysql/temp_copy.h"
#include "sql/literal.h"

/* A chunk blocks writers while it is read, and even a short one costs a round trip. */
#define CHUNK_US 2000
#define CHUNK_FIRST 100u
#define CHUNK_MIN 10u
#define CHUNK_MAX 50000u /* rows are buffered until they are passed on */

#define COPY_NAME "`" DB_OWN_PREFIX "scan`"
/* The approximate cost of a copy for the server in ns, measured on MySQL 9.7. Skipping a row of
 * another share costs about a tenth, so with more shares than SHARES_MAX the scan would only
 * take longer. */
#define COST_ROW 150u
#define COST_COLUMN 40u
#define SHARES_MAX 7u
#define SHARES_FEW 3u /* coprime to the usual increments of AUTO_INCREMENT */
#define COST_LONG 100000000u
#define COST_SHORT 20000000u

int db_scan_facts(struct db *db, const char *schema, struct db_scan_facts *out, struct err *e)
{
    *out = (struct db_scan_facts){.mariadb = db_word(db, WORD_HANDLER) != NULL};
    struct db_rows *r = db_select_with(
        db, "intT", /* column 0 is a number of the enum */
        "SELECT IF(TABLE_TYPE='SYSTEM VERSIONED',0,1), TABLE_NAME, '', '' "
        "FROM information_schema.TABLES WHERE TABLE_SCHEMA=? AND "
        "(TABLE_TYPE='SYSTEM VERSIONED' OR CREATE_OPTIONS LIKE '%partitioned%') UNION ALL "
        "SELECT IF(EXTRA LIKE '%INVISIBLE%',2,3), TABLE_NAME, COLUMN_NAME, "
        "CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=? AND "
        "(EXTRA LIKE '%INVISIBLE%' OR DATA_TYPE IN ('enum','set'))",
        DB_ARGS(schema, schema), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        uint64_t kind = db_uint(r, 0);
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->list[out->count++] = (struct db_scan_fact){
            .kind = kind <= DB_SCAN_CHOICE ? (unsigned)kind : DB_SCAN_PARTITIONED,
            .table = db_dup(r, 1),
            .column = db_dup(r, 2),
            .charset = db_dup(r, 3),
        };
    }
    db_rows_end(r);
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

/* Returns whether a text does not identify a member uniquely. HANDLER returns ENUM and SET as
 * text in the column's own character set. information_schema lists the members in UTF-8, with
 * '?' for characters that it cannot represent. An empty text is either number 0 or a member. */
static bool scan_ambiguous(const struct enum_members *c, const char *charset)
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
        SCOPED(enum_members_free) struct enum_members c = {0};
        if (strcmp(t->columns[i].name, f->column) != 0 || t->columns[i].encoding != DB_INDEX)
            continue;
        bool bad = enum_members_parse(t->columns[i].type, &c) < 0 || scan_ambiguous(&c, f->charset);
        if (bad)
            return "an ENUM or SET column has members whose texts are equal";
    }
    return NULL;
}

enum db_scan_way db_scan_way(const struct db_table *t, const struct db_scan_facts *f,
                             const char **why)
{
    static const char *const reasons[] = {
        [DB_SCAN_VERSIONED] = "it is system-versioned, and a scan would include its history",
        [DB_SCAN_PARTITIONED] =
            "it is partitioned, and rows may move from one partition to another",
        [DB_SCAN_INVISIBLE] = "it has an INVISIBLE column, which a scan does not return"};
    bool versioned = false;
    *why = !t->memory ? "it is not a MEMORY table" : f->mariadb ? NULL : "only MariaDB has HANDLER";
    for (size_t i = 0; i < f->count; i++) {
        const struct db_scan_fact *x = &f->list[i];
        if (strcmp(x->table, t->name) != 0)
            continue;
        versioned |= x->kind == DB_SCAN_VERSIONED;
        if (!*why)
            *why = x->kind == DB_SCAN_CHOICE ? choice_refusal(t, x) : reasons[x->kind];
    }
    /* System-versioned tables are excluded, because their log contains their history. */
    return !*why ? DB_SCAN_HANDLER : t->memory && !versioned ? DB_SCAN_COPIES : DB_SCAN_NONE;
}

struct scan {
    struct db *db;
    const struct db_table *t;
    db_tuple_fn *fn;
    db_chunk_fn *chunk;
    void *arg;
    uint64_t rows;
    uint64_t limit; /* number of rows of the next chunk */
};

static int64_t scan_clock(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Sets the error of a failed scan. The listed errors mean that the table was dropped, truncated
 * or rebuilt. */
static int scan_failed(const struct db_table *t, struct err *e)
{
    static const int numbers[] = {1020, 1031, 1032, 1054, 1109, 1146, 1412, 1615};
    bool yes = e && e->cls == ERR_CHANGED;
    for (size_t i = 0; e && i < sizeof numbers / sizeof *numbers; i++)
        yes |= e->num == numbers[i];
    if (yes)
        err_set(e, ERR_CHANGED, e->num, "table %s was altered while it was read", t->name);
    else
        err_step(e, "scanning table %s", t->name);
    return -1;
}

/* ---- HANDLER ---- */

/* Returns the number of rows that takes about CHUNK_US. It changes by at most a factor of two. */
static uint64_t next_limit(uint64_t limit, int64_t us)
{
    uint64_t want = us > 0 ? limit * CHUNK_US / (uint64_t)us : 2 * limit;
    want = want > 2 * limit ? 2 * limit : want < limit / 2 ? limit / 2 : want;
    return want < CHUNK_MIN ? CHUNK_MIN : want > CHUNK_MAX ? CHUNK_MAX : want;
}

/* Reads one chunk. Returns 1 if there may be more, 0 at the end, -1 on error. */
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
    /* a short chunk is the last one */
    bool more = n == s->limit;
    s->limit = next_limit(s->limit, took);
    return more;
}

/* Reads all chunks. The table is open as worldkeeper_scan. */
static int scan_walk(struct scan *s, const struct db_binary_field *fields, struct err *e)
{
    size_t n = s->t->column_count;
    SCOPED(buf_free) struct buf tuple = {0};
    struct db_binary *first =
        db_binary_open(s->db, "HANDLER worldkeeper_scan READ FIRST LIMIT ?", true, fields, n, e);
    struct db_binary *next = NULL;
    if (first)
        next =
            db_binary_open(s->db, "HANDLER worldkeeper_scan READ NEXT LIMIT ?", true, fields, n, e);
    int more = next ? read_chunk(s, first, &tuple, e) : scan_failed(s->t, e);
    while (more == 1)
        more = read_chunk(s, next, &tuple, e);
    db_binary_close(first);
    db_binary_close(next);
    return more;
}

static int scan_by_handler(struct scan *s, struct err *e)
{
    size_t n = s->t->column_count;
    SCOPED(xfree) struct db_binary_field *fields = xcalloc(n, sizeof *fields);
    /* [i] belongs to field i */
    SCOPED(xfree) struct enum_members *choices = xcalloc(n, sizeof *choices);
    for (size_t i = 0; i < n; i++) {
        const struct db_column *c = &s->t->columns[i];
        fields[i] = (struct db_binary_field){
            .name = c->name, .encoding = c->encoding, .skip = c->generated};
        if (c->encoding == DB_INDEX && enum_members_parse(c->type, &choices[i]) == 0)
            fields[i].choices = &choices[i];
    }
    int rc = db_exec_with(s->db, "HANDLER ?? OPEN AS worldkeeper_scan", DB_ARGS(s->t->name), e);
    if (rc < 0) {
        scan_failed(s->t, e);
    } else {
        rc = scan_walk(s, fields, e);
        if (db_exec(s->db, "HANDLER worldkeeper_scan CLOSE", rc < 0 ? NULL : e) < 0)
            rc = -1;
    }
    for (size_t i = 0; i < n; i++)
        enum_members_free(&choices[i]);
    return rc;
}

/* ---- copies ---- */

static const struct db_column *column_at(const struct db_table *t, unsigned place)
{
    const struct db_column *c = t->columns;
    for (;; c++)
        if (!c->generated && place-- == 0)
            return c;
}

/* Appends " WHERE …" for a share. It uses a number computed from a row's key. A row stays in its
 * share while its key is the same; all other changes are in the log. */
static void share_sql(struct buf *sql, const struct db_table *t, unsigned share, unsigned shares)
{
    buf_clear(sql);
    buf_adds(sql, shares > 1 ? " WHERE (" : "");
    for (size_t i = 0; shares > 1 && i < t->key_count; i++) {
        const struct db_column *c = column_at(t, t->key[i]);
        bool whole = c->encoding == DB_RAW && strstr(c->type, "int");
        buf_adds(sql, i ? "^" : "");
        buf_adds(sql, whole ? "(" : "CRC32(");
        sql_ident(sql, c->name);
        if (whole) /* so that it is never negative */
            buf_printf(sql, "&%" PRId64, INT64_MAX);
        buf_addc(sql, ')');
    }
    if (shares > 1)
        buf_printf(sql, ")%%%u=%u", shares, share);
}

static int scan_by_copies(struct scan *s, struct err *e)
{
    const struct db_table *t = s->t;
    uint64_t cost = t->rows * (COST_ROW + COST_COLUMN * t->column_count + t->row_length);
    unsigned shares = t->key_count == 0 || cost < COST_SHORT ? 1
                      : cost < COST_LONG                     ? SHARES_FEW
                                                             : SHARES_MAX;
    struct db_copier copier;
    SCOPED(buf_free) struct buf rest = {0};
    int rc = db_copier_begin(&copier, s->db, e);
    for (unsigned i = 0; i < shares && rc == 0; i++) {
        share_sql(&rest, t, i, shares);
        struct db_copy copy = {.name = COPY_NAME,
                               .t = t,
                               .rest = rest.p,
                               .bytes = t->rows / shares * (t->row_length + 32)};
        uint64_t n;
        int64_t began = scan_clock();
        if (db_copy_make(&copier, &copy, e) < 0)
            return scan_failed(t, e);
        int64_t took = scan_clock() - began;
        if (db_read_rows(s->db, t, copy.name, s->fn, s->arg, &n, e) < 0 ||
            db_exec(s->db, "DROP TEMPORARY TABLE " COPY_NAME, e) < 0)
            return -1;
        s->rows += n;
        rc = s->chunk ? s->chunk(s->arg, n, took, e) : 0;
    }
    return rc;
}

int db_scan_rows(struct db *db, const struct db_table *t, enum db_scan_way way, db_tuple_fn *fn,
                 db_chunk_fn *chunk, void *arg, uint64_t *rows, struct err *e)
{
    struct scan s = {.db = db, .t = t, .fn = fn, .chunk = chunk, .arg = arg, .limit = CHUNK_FIRST};
    int rc = way == DB_SCAN_HANDLER ? scan_by_handler(&s, e) : scan_by_copies(&s, e);
    *rows = s.rows;
    return rc;
}
