/* Fuzzing of what reads dumps. The first byte says how the others are read: as the text of a dump
 * of ours, as a gzip file, as the part of one table, or as somebody else's (mysqldump). What is
 * told of a text does not depend on how it comes: whole, in pieces, packed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/gunzip.h"
#include "base/text.h"
#include "dump/verify.h"
#include "mysql/conn_int.h"
#include "mysql/job.h"
#include "restore/code.h"
#include "restore/import.h"
#include "restore/import_load.h"
#include "restore/plan.h"
#include "scratch.h"
#include "sql/insert.h"
#include "sql/literal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pieces of a file that grows: so many bytes a read. */
struct pieces {
    uint64_t piece, size;
};
static int next_piece(void *arg, uint64_t from, uint64_t *to, struct err *e)
{
    const struct pieces *p = arg;
    (void)e;
    *to = p->size - from < p->piece ? p->size : from + p->piece;
    return 0;
}

enum kind { PLAIN, PACKED, PART };

struct source {
    int fd;
    struct gunzip *in;
    struct pieces pieces;
};

static void source_open(struct source *s, const void *data, size_t size, bool plain, size_t piece)
{
    *s = (struct source){.fd = scratch_file(data, size), .pieces = {piece, size}};
    s->in = plain ? gunzip_open_plain(s->fd, "input", NULL) : gunzip_open(s->fd, "input", NULL);
    if (piece)
        gunzip_on_wait(s->in, next_piece, &s->pieces);
}

static void source_close(struct source *s)
{
    gunzip_close(s->in);
    close(s->fd);
}

/* ---- items ---- */

/* Rows by their parentheses, with no more than quotes understood. */
static uint64_t count_rows(const char *s, size_t len)
{
    uint64_t rows = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        if (quoted && s[i] == '\\')
            i++;
        else if (s[i] == '\'')
            quoted = !quoted;
        else if (!quoted && s[i] == '(')
            rows++;
    }
    return rows;
}

static void judge_item(const struct format_item *item, bool named)
{
    if (item->type == FORMAT_END)
        return;
    demand(item->sql != NULL);
    if (item->type == FORMAT_DEFINITION)
        return;
    demand(item->table && item->table[0] && (item->type == FORMAT_CREATE || named));
    if (item->type == FORMAT_CREATE) {
        demand(strncmp(item->sql, "CREATE TABLE `", 14) == 0);
        return;
    }
    demand(item->columns[0] == '(' && item->sql[0] == '(' && item->sql[item->sql_len - 1] == ')');
    demand(item->rows > 0 && item->rows == count_rows(item->sql, item->sql_len));
}

struct told {
    int rc;
    enum err_class cls;
    uint64_t items, rows, hash, tables, plain;
};

static struct told tell(const void *data, size_t size, enum kind kind, size_t piece)
{
    struct told t = {0};
    struct source s;
    struct err e = {0};
    struct format_item item = {.type = FORMAT_CREATE};
    bool end = false;
    source_open(&s, data, size, kind != PACKED, piece);
    struct format_reader *r =
        kind == PART ? format_open_table(s.in, "input") : format_open(s.in, "input");
    while (!end && (t.rc = format_next(r, &item, &e)) == 0) {
        t.tables += item.type == FORMAT_CREATE;
        judge_item(&item, t.tables > 0);
        t.items++;
        t.rows += item.type == FORMAT_ROWS ? item.rows : 0;
        t.hash += item.type == FORMAT_ROWS ? item.rows_hash : 0;
        end = item.type == FORMAT_END;
    }
    t.plain = gunzip_plain_bytes(s.in);
    t.cls = e.cls;
    demand(t.rc == 0 || e.cls == ERR_DAMAGED);
    format_close(r);
    source_close(&s);
    return t;
}

static void same(const struct told *a, const struct told *b)
{
    demand(a->rc == b->rc && a->items == b->items && a->rows == b->rows && a->hash == b->hash);
    demand(a->tables == b->tables && (a->rc < 0 || a->plain == b->plain));
}

/* ---- one dump ---- */

static void *pack(const void *data, size_t size, size_t *packed)
{
    z_stream z = {0};
    demand(deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    *packed = deflateBound(&z, size);
    unsigned char *out = malloc(*packed);
    demand(out != NULL);
    char *in = scratch_copy(data, size);
    z.next_in = (unsigned char *)in;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)*packed;
    demand(deflate(&z, Z_FINISH) == Z_STREAM_END);
    *packed = z.total_out;
    deflateEnd(&z);
    free(in);
    return out;
}

/* Its end is the trailer, which counts what was read. */
static void judge_end(const struct told *t, const char *data, size_t size)
{
    struct buf b = {0};
    format_trailer(&b, t->tables, t->rows);
    demand(t->plain == size && size > b.len && memcmp(data + size - b.len, b.p, b.len) == 0);
    buf_free(&b);
}

static void judge_seen(const void *data, size_t size, const struct told *t)
{
    struct source s;
    struct manifest seen;
    uint64_t rows = 0, hash = 0;
    source_open(&s, data, size, true, 0);
    int rc = verify_read(s.in, "input", NULL, &seen, NULL, NULL);
    demand(rc == t->rc);
    for (size_t i = 0; i < seen.table_count; i++) {
        rows += seen.tables[i].rows;
        hash += seen.tables[i].rows_hash;
    }
    if (rc == 0)
        demand(seen.table_count == t->tables && seen.rows == t->rows && rows == t->rows &&
               hash == t->hash && seen.bytes == size);
    manifest_free(&seen);
    source_close(&s);
}

static void try_text(const char *data, size_t size, enum kind kind, size_t piece)
{
    struct told whole = tell(data, size, kind, 0), cut = tell(data, size, kind, piece);
    same(&whole, &cut);
    if (kind == PART)
        return;
    if (size) { /* an empty file is none of gzip's */
        size_t packed;
        void *p = pack(data, size, &packed);
        struct told unpacked = tell(p, packed, PACKED, piece);
        same(&whole, &unpacked);
        free(p);
    }
    judge_seen(data, size, &whole);
    if (whole.rc == 0)
        judge_end(&whole, data, size);
}

static void try_packed(const char *data, size_t size, size_t piece)
{
    struct told whole = tell(data, size, PACKED, 0), cut = tell(data, size, PACKED, piece);
    same(&whole, &cut);
}

/* ---- somebody else's ---- */

int __wrap_mysql_real_query(MYSQL *my, const char *sql, unsigned long len);
MYSQL_RES *__wrap_mysql_use_result(MYSQL *my);
unsigned __wrap_mysql_errno(MYSQL *my);
bool __wrap_db_is_mariadb(const struct db *db);
const char *__wrap_db_word(struct db *db, enum server_word w);
unsigned __wrap_db_warnings(const struct db *db);
int __wrap_loader_empty(struct loader *l, bool truncate, struct err *e);
int __wrap_loader_recount(struct loader *l, struct err *e);
int __wrap_shadow_alter(const struct shadow_session *s, struct target *t,
                        const struct sql_table *change, struct buf *scale, struct err *e);
int __wrap_loader_table(struct loader *l, const char *table, const char *create, size_t len,
                        struct err *e);
int __wrap_loader_insert_raw(struct loader *l, const char *verb, const char *after_name, size_t len,
                             struct err *e);

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/* One value of these letters, in quotes. */
static bool sets(const char *sql, const char *set, const char *signs)
{
    if (strncmp(sql, set, strlen(set)) != 0)
        return false;
    sql += strlen(set);
    while (*sql && (strchr(letters, *sql) || strchr(signs, *sql)))
        sql++;
    return strcmp(sql, "'") == 0 || strncmp(sql, "', time_zone='", 14) == 0;
}

/* Nothing but the character set of a file's text, its modes, the zone of its times and whether
 * constraints are checked is taken over into the session. Here, in place of the library, since
 * every statement comes this way, by whichever function of mysql/conn.h it is sent. */
int __wrap_mysql_real_query(MYSQL *my, const char *sql, unsigned long len)
{
    (void)my;
    static const char *const exact[] = {"SET SESSION check_constraint_checks=0",
                                        "SET SESSION check_constraint_checks=1",
                                        "SET SESSION max_error_count=65535", NULL};
    demand(len < 700 && strlen(sql) == len);
    demand((strncmp(sql, "SET NAMES ", 10) == 0 && strspn(sql + 10, letters) == len - 10) ||
           sets(sql, "SET SESSION time_zone='", "/+-:") ||
           sets(sql, "SET SESSION sql_mode='", ",") || text_among(sql, exact));
    return 0;
}

MYSQL_RES *__wrap_mysql_use_result(MYSQL *my)
{
    (void)my;
    return NULL;
}

unsigned __wrap_mysql_errno(MYSQL *my)
{
    (void)my;
    return 0;
}

bool __wrap_db_is_mariadb(const struct db *db)
{
    (void)db;
    return true;
}

const char *__wrap_db_word(struct db *db, enum server_word w)
{
    (void)db;
    return server_word((struct server_version){.mariadb = true, .number = 101119}, w);
}

unsigned __wrap_db_warnings(const struct db *db)
{
    (void)db;
    return 0;
}

int __wrap_loader_table(struct loader *l, const char *table, const char *create, size_t len,
                        struct err *e)
{
    struct target *t = plan_find(l->s.plan, table);
    (void)e;
    demand(t && !t->created && len > 14 && strncmp(create, "CREATE TABLE `", 14) == 0);
    t->created = !t->skip;
    return 0;
}

int __wrap_loader_insert_raw(struct loader *l, const char *verb, const char *after_name, size_t len,
                             struct err *e)
{
    (void)e;
    demand(l->target && l->target->created && strlen(after_name) <= len && strstr(verb, "INTO "));
    return 0;
}

int __wrap_loader_empty(struct loader *l, bool truncate, struct err *e)
{
    (void)truncate, (void)e;
    demand(l->target && l->target->created);
    return 0;
}

int __wrap_loader_recount(struct loader *l, struct err *e)
{
    (void)l, (void)e;
    return 0;
}

/* Checks that a change of a definition, once written, is read as the same change again. */
int __wrap_shadow_alter(const struct shadow_session *s, struct target *t,
                        const struct sql_table *change, struct buf *scale, struct err *e)
{
    struct sql_table_how how = {.name = "t", .mariadb = true};
    struct sql_table again;
    struct buf first = {0}, second = {0};
    (void)s, (void)scale, (void)e;
    demand(t->created && !t->skip);
    buf_adds(&first, "ALTER TABLE `t`");
    size_t head = first.len;
    sql_alter_write(&first, change, &how);
    if (first.len > head) {
        demand(sql_alter_read(first.p, first.len, 0, &again, NULL) == 0);
        buf_adds(&second, "ALTER TABLE `t`");
        sql_alter_write(&second, &again, &how);
        demand(strcmp(first.p, second.p) == 0);
        sql_table_free(&again);
    }
    buf_free(&first);
    buf_free(&second);
    return 0;
}

static void try_foreign(const char *data, size_t size)
{
    static struct config cfg;
    static char sentinel[] = "worldkeeper_sentinel", schema[] = "game";
    struct job job = {.cfg = &cfg};
    struct plan plan = {.job = &job};
    struct import_report report = {0};
    struct code code = {0};
    struct err e = {0};
    _Atomic uint64_t rows = 0;
    struct db db = {0};
    struct loader l = {.s = {.plan = &plan, .db = &db}, .rows = &rows};
    cfg.sentinel = sentinel;
    cfg.schema = schema;
    int fd = scratch_file(data, size);
    struct import in = {.fd = fd,
                        .name = "input",
                        .server = {.version = {.mariadb = true, .number = 101119},
                                   .mode = "STRICT_TRANS_TABLES",
                                   .zone = "SYSTEM"}};
    int rc = import_plan(&in, &plan, NULL, &report, &e);
    demand(rc == 0 || e.cls == ERR_DAMAGED || e.cls == ERR_REFUSED);
    /* The second pass understands what the first one did. */
    if (rc == 0)
        demand(import_load(&in, &report, &l, &code, &e) == 0);
    import_report_free(&report);
    code_free(&code);
    plan_free(&plan);
    close(fd);
}

/* Rows without their second value, of nothing but literals: read again they are the same. */
static void try_values(const char *data, size_t size)
{
    static const bool generated[] = {false, true, false};
    struct sql_insert first, again;
    struct buf text = {0};
    char *s = scratch_copy(data, size);
    if (sql_insert_read(s, size, false, generated, 3, &first) == 0) {
        buf_adds(&text, "VALUES ");
        buf_add(&text, first.rows.p, first.rows.len);
        demand(sql_insert_read(text.p, text.len, false, NULL, 0, &again) == 0);
        demand(again.rows.len == first.rows.len);
        demand(memcmp(again.rows.p, first.rows.p, first.rows.len) == 0);
        sql_insert_free(&again);
        sql_insert_free(&first);
    }
    buf_free(&text);
    free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *rest = (const char *)data + 1;
    size_t piece = 1 + data[0] / 5;
    size--;
    switch (data[0] % 5) {
    case 0:
        try_text(rest, size, PLAIN, piece);
        break;
    case 1:
        try_packed(rest, size, piece);
        break;
    case 2:
        try_text(rest, size, PART, piece);
        break;
    case 3:
        try_foreign(rest, size);
        break;
    default:
        try_values(rest, size);
    }
    return 0;
}
