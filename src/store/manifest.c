#include "store/manifest.h"

#include "store/kept.h"
#include "store/round.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/js.h"
#include "base/number.h"
#include "base/text.h"

#define PART_MIN 4096
#define SIGNED_FRONT "worldkeeper manifest 1\n"
#define LAST_SECOND 253402300799u /* 9999-12-31T23:59:59Z */

void manifest_name(struct manifest *m)
{
    char t[TEXT_SHORT];
    snprintf(m->name, sizeof m->name, "%s-%06" PRIu64 "-%08" PRIu64 "-%sZ", m->world, m->generation,
             m->sequence, text_utc_name(m->at, t));
}

/* Parses at least `width` digits followed by '-'. */
static const char *digits_dash(const char *s, size_t width, uint64_t *out)
{
    const char *end = s;
    bool good = number_digits(&end, UINT64_MAX, out);
    size_t n = (size_t)(end - s);
    return good && n >= width && n <= 18 && *end == '-' ? end + 1 : NULL;
}

size_t manifest_parse_name(const char *file, const char *world, uint64_t *generation,
                           uint64_t *sequence)
{
    size_t w = strlen(world);
    if (strncmp(file, world, w) != 0 || file[w] != '-')
        return 0;
    const char *s = digits_dash(file + w + 1, 6, generation);
    s = s ? digits_dash(s, 8, sequence) : NULL;
    if (!s || strspn(s, "0123456789") != 8 || s[8] != 'T' || strspn(s + 9, "0123456789") != 6 ||
        s[15] != 'Z')
        return 0;
    return (size_t)(s + 16 - file);
}

/* ---- members: the text after them says why a manifest without them is damaged ---- */

#define OF_NAME "its name does not match its contents"
#define OF_FILE "no SHA-256 or file size in it"
#define OF_TABLES "its list of tables is incomplete"
#define MANIFEST(kind, key, member, ...) JS_FIELD(struct manifest, kind, key, member, __VA_ARGS__)
#define TABLE(kind, key, member, ...)                                                              \
    JS_FIELD(struct manifest_table, kind, key, member, __VA_ARGS__)
#define POINT(kind, key, member, ...) JS_FIELD(struct db_binlog_pos, kind, key, member, __VA_ARGS__)

#define LEDGER(kind, key, member, ...)                                                             \
    JS_FIELD(struct manifest_ledger, kind, key, member, __VA_ARGS__)

/* Also in the summary; the moment and the duration are between these members and the next ones. */
static const struct js_field head_front[] = {
    MANIFEST(TEXT, "name", name, OF_NAME),
    MANIFEST(TEXT, "world", world, OF_NAME),
    MANIFEST(NUMBER, "generation", generation, OF_NAME, 0, INT64_MAX),
    MANIFEST(NUMBER, "sequence", sequence, OF_NAME, 0, INT64_MAX),
    MANIFEST(NUMBER, "round", round, NULL, 0, ROUND_MAX),
};
static const struct js_field head_rest[] = {
    MANIFEST(TEXT, "method", method, NULL),
    MANIFEST(SHOWN, "warning", warning, NULL, 0, 0, true),
    MANIFEST(NUMBER, "rows", rows, OF_TABLES, 0, INT64_MAX),
    MANIFEST(NUMBER, "bytes", bytes, OF_TABLES, 0, INT64_MAX),
    MANIFEST(NUMBER, "file_size", file_size, OF_FILE, 1, INT64_MAX),
    MANIFEST(SHOWN, "rejected", rejected, NULL, 0, 0, true),
};
static const struct js_field moment[] = {
    MANIFEST(SECONDS, "at_unix", at, "it has no time", 0, LAST_SECOND)};
static const struct js_field body[] = {
    MANIFEST(HEX, "sha256", sha256, OF_FILE),
    MANIFEST(TEXT, "nonce", nonce, "it has no nonce"),
    MANIFEST(TEXT, "schema", schema, NULL),
    MANIFEST(SHOWN, "unlogged", unlogged, NULL, 0, 0, true),
    MANIFEST(TEXT, "code_hash", code_hash, NULL, 0, 0, true),
};
#define COPY(kind, key, member, most_)                                                             \
    JS_FIELD(struct manifest_copy, kind, key, member, .lack = "malformed 'offsite'", .most = most_)
static const struct js_field copy[] = {
    COPY(TEXT, "file", file, 0),
    COPY(NUMBER, "size", size, INT64_MAX),
    COPY(HEX, "sha256", sha256, 0),
};
static const struct js_field ledger[] = {
    LEDGER(TEXT, "name", name, NULL),
    LEDGER(STRING, "table", table, NULL),
    LEDGER(NUMBER, "rolled_up", rolled_up, NULL, 0, INT64_MAX),
    LEDGER(NUMBER, "end_id", end_id, NULL, 0, INT64_MAX),
    LEDGER(NUMBER, "open", open, NULL, 0, INT64_MAX),
};
static const struct js_field table[] = {
    TABLE(STRING, "name", name, OF_TABLES),
    TABLE(STRING, "engine", engine, OF_TABLES),
    TABLE(NUMBER, "rows", rows, OF_TABLES, 0, INT64_MAX),
    TABLE(NUMBER, "bytes", bytes, OF_TABLES, 0, INT64_MAX),
    TABLE(HEX, "columns_hash", columns_hash, OF_TABLES),
    TABLE(HASH, "rows_hash", rows_hash, OF_TABLES),
    TABLE(NUMBER, "offset", offset, OF_TABLES, 0, INT64_MAX),
    TABLE(NUMBER, "length", length, OF_TABLES, 0, INT64_MAX),
    /* The largest counters are stored as negative numbers. */
    TABLE(NUMBER, "auto_increment", auto_increment, OF_TABLES, INT64_MIN, INT64_MAX),
    TABLE(NUMBER, "data_length", data_length, NULL, 0, INT64_MAX),
    TABLE(NUMBER, "index_length", index_length, NULL, 0, INT64_MAX),
    TABLE(NUMBER, "max_data_length", max_data_length, NULL, INT64_MIN, INT64_MAX),
};
static const struct js_field point[] = {
    POINT(TEXT, "file", file, NULL),
    POINT(NUMBER, "pos", pos, NULL, 0, INT64_MAX),
    POINT(TEXT, "gtid", gtid, NULL),
    POINT(TEXT, "gtid_after", gtid_after, NULL, 0, 0, true),
};

json_t *manifest_point_json(const struct db_binlog_pos *p)
{
    return p->file[0] ? js_object(point, JS_COUNT(point), p) : json_null();
}

void manifest_read_point(const json_t *o, struct db_binlog_pos *p)
{
    js_read(o, point, JS_COUNT(point), p);
}

/* Returns the members common to the file and its summary; NULL: a text is not UTF-8. */
static json_t *head_json(const struct manifest *m)
{
    char at[TEXT_SHORT];
    json_t *o = js_object(head_front, JS_COUNT(head_front), m);
    if (!o)
        return NULL;
    json_object_set_new(o, "at", json_string(text_utc(m->at, at)));
    js_write(o, moment, JS_COUNT(moment), m);
    json_object_set_new(o, "seconds", json_real((double)m->took_ms / 1000.0));
    if (m->wait_known)
        js_set_int(o, "wait_ms", m->wait_ms);
    if (js_write(o, head_rest, JS_COUNT(head_rest), m) == 0)
        return o;
    json_decref(o);
    return NULL;
}

uint64_t manifest_world_rows(const struct manifest *m, const char *sentinel)
{
    const struct manifest_table *t = manifest_table(m, sentinel);
    return m->rows - (t ? t->rows : 0);
}

struct manifest manifest_figures(const struct manifest *m, const char *sentinel)
{
    struct manifest out = *m;
    out.rows = manifest_world_rows(m, sentinel);
    for (size_t i = 0; i < m->table_count; i++)
        if (strcasecmp(m->tables[i].engine, "MEMORY") == 0)
            out.in_memory = number_sum(
                out.in_memory, number_sum(m->tables[i].data_length, m->tables[i].index_length));
    out.tables = NULL;
    out.table_count = 0;
    out.ledgers = NULL;
    out.ledger_count = 0;
    out.by_name = NULL;
    out.parts = (struct manifest_parts){0};
    return out;
}

json_t *manifest_summary(const struct manifest *m, const char *sentinel)
{
    uint64_t tables = m->table_count - (manifest_table(m, sentinel) != NULL);
    json_t *o = head_json(m);
    js_set_int(o, "rows", (int64_t)manifest_world_rows(m, sentinel));
    js_set_int(o, "tables", (int64_t)tables);
    return o;
}

json_t *manifest_json(const struct manifest *m)
{
    json_t *o = head_json(m), *tables = json_array();
    int missing = 0;
    for (size_t i = 0; i < m->table_count; i++)
        missing |= json_array_append_new(tables, js_object(table, JS_COUNT(table), &m->tables[i]));
    missing |= json_object_set_new(o, "tables", tables);
    json_auto_t *ledgers = json_array();
    for (size_t i = 0; i < m->ledger_count; i++)
        if (m->ledgers[i].counted)
            json_array_append_new(ledgers, js_object(ledger, JS_COUNT(ledger), &m->ledgers[i]));
    if (json_array_size(ledgers))
        json_object_set(o, "ledgers", ledgers);
    missing |= json_object_set_new(o, "format", json_integer(MANIFEST_FORMAT));
    missing |= js_write(o, body, JS_COUNT(body), m);
    missing |= json_object_set_new(
        o, "server",
        json_pack("{s:s, s:s, s:o, s:o, s:s, s:I}", "version", m->server.version, "vendor",
                  strstr(m->server.version, "MariaDB") ? "MariaDB" : "MySQL", "hostname",
                  js_clean(m->server.hostname), "datadir", js_clean(m->server.datadir), "uid",
                  m->server.uid, "start", (json_int_t)m->server.start));
    missing |= json_object_set_new(o, "start_point", manifest_point_json(&m->start));
    missing |= json_object_set_new(o, "end_point", manifest_point_json(&m->end));
    if (m->log_created_at)
        js_set_int(o, "log_born", m->log_created_at);
    missing |= json_object_set_new(o, "engines", json_string(m->all ? "all" : "memory"));
    if (m->copy.file[0])
        missing |= json_object_set_new(o, "offsite", js_object(copy, JS_COUNT(copy), &m->copy));
    if (m->parts.count) {
        json_t *list = json_array();
        for (size_t i = 0; i < m->parts.count; i++) {
            char hex[SHA256_HEX];
            text_hex(m->parts.sha256[i], SHA256_BYTES, hex);
            json_array_append_new(list, json_string(hex));
        }
        /* file_sha256 ties the list to this file: see read_parts(). */
        missing |=
            json_object_set_new(o, "parts",
                                json_pack("{s:s, s:I, s:o}", "file_sha256", m->sha256, "bytes",
                                          (json_int_t)m->parts.bytes, "sha256", list));
    }
    if (!missing)
        return o;
    json_decref(o);
    return NULL;
}

static const char *const unsummed[] = {"checksum", "hmac", NULL};

int manifest_sign(json_t *o)
{
    char sum[SHA256_HEX];
    bool summed = signature_sum(o, unsummed, sum) &&
                  json_object_set_new(o, "checksum", json_string(sum)) == 0;
    return summed ? signature_add(o, SIGNED_FRONT) : -1;
}

char *manifest_text(const struct manifest *m, struct err *e)
{
    json_auto_t *o = manifest_json(m);
    bool is_signed = o && manifest_sign(o) == 0;
    char *s = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (s && is_signed && strlen(s) <= MANIFEST_MAX)
        return s;
    if (s && !is_signed)
        err_set(e, ERR_SYSTEM, 0, "cannot write the manifest: libcrypto cannot compute SHA-256");
    else if (!s)
        err_set(e, ERR_SYSTEM, 0, "cannot write the manifest: a name is not UTF-8");
    else
        err_set(e, ERR_SYSTEM, 0, "cannot write the manifest: %zu tables are too many for it",
                m->table_count);
    free(s);
    return NULL;
}

int manifest_write(int dirfd, const struct manifest *m, struct err *e)
{
    SCOPED(xfree) char *s = manifest_text(m, e);
    SCOPED(xfree) char *file = xasprintf("%s.json", m->name);
    return s ? file_commit(dirfd, file, s, strlen(s), 0600, e) : -1;
}

static int manifest_by_name(const void *a, const void *b, void *tables)
{
    const struct manifest_table *t = tables;
    return strcmp(t[*(const uint32_t *)a].name, t[*(const uint32_t *)b].name);
}

/* Reads the tables. The sum of their rows is compared with the dump's, so a truncated list is
 * detected. */
static bool manifest_read_tables(const json_t *list, struct manifest *m)
{
    size_t n = json_array_size(list);
    uint64_t rows = 0;
    if (!json_is_array(list))
        return false;
    m->tables = xcalloc(n, sizeof *m->tables);
    for (; m->table_count < n; m->table_count++) {
        struct manifest_table *t = &m->tables[m->table_count];
        if (js_read(json_array_get(list, m->table_count), table, JS_COUNT(table), t)) {
            m->table_count++; /* must be freed */
            return false;
        }
        rows = number_sum(rows, t->rows);
    }
    m->by_name = xcalloc(n, sizeof *m->by_name);
    for (size_t i = 0; i < n; i++)
        m->by_name[i] = (uint32_t)i;
    qsort_r(m->by_name, n, sizeof *m->by_name, manifest_by_name, m->tables);
    return rows == m->rows;
}

/* Reads the parts. Manifests of older versions have none. Parts of another file are ignored: a tool
 * that rewrites a dump and does not know parts leaves the old ones in its manifest. An incomplete
 * list means that the manifest is damaged. */
static bool read_parts(const json_t *o, const char *file_sha256, struct manifest_parts *p)
{
    const json_t *list = json_object_get(o, "sha256");
    int64_t bytes = js_number(o, "bytes", 0);
    if (!o || strcmp(js_text(o, "file_sha256"), file_sha256) != 0)
        return true;
    if (bytes < PART_MIN || bytes > GUNZIP_PART_MAX || !json_array_size(list))
        return false;
    p->bytes = (uint32_t)bytes;
    p->sha256 = xcalloc(json_array_size(list), SHA256_BYTES);
    for (; p->count < json_array_size(list); p->count++) {
        const char *hex = json_string_value(json_array_get(list, p->count));
        if (!text_unhex(hex ? hex : "", p->sha256[p->count], SHA256_BYTES))
            return false;
    }
    return true;
}

/* Checks the format. The checksum covers the format number too, and no single flipped bit turns it
 * into that of the format without a checksum. */
static int check_format(const json_t *o, struct err *e)
{
    char is[SHA256_HEX];
    int64_t format = js_number(o, "format", 0);
    if (format == MANIFEST_UNCHECKED)
        return 0;
    if (format < MANIFEST_FORMAT)
        return err_set(e, ERR_DAMAGED, 0, "its format is %" PRId64 ", but this version reads %d",
                       format, MANIFEST_FORMAT);
    if (!signature_sum(o, unsummed, is)) /* not ERR_DAMAGED, because damaged dumps are deleted */
        return err_sys(e, ENOMEM, "cannot check its checksum");
    if (strcmp(js_text(o, "checksum"), is) != 0)
        return err_set(e, ERR_DAMAGED, 0, "its checksum is wrong");
    return format == MANIFEST_FORMAT ? 0 : kept_newer(e, "it", format, MANIFEST_FORMAT);
}

/* Reads the fields. Every number is limited where it is read, so that no computation overflows. */
static int read_fields(const json_t *o, const char *name, struct manifest *m, struct err *e)
{
    uint64_t generation, sequence;
    if (check_format(o, e) < 0)
        return -1;
    const char *lack = js_read(o, head_front, JS_COUNT(head_front), m);
    size_t len = manifest_parse_name(m->name, m->world, &generation, &sequence);
    if (!lack && (strcmp(m->name, name) != 0 || len == 0 || m->name[len] ||
                  generation != m->generation || sequence != m->sequence))
        lack = OF_NAME;
    lack = lack ? lack : js_read(o, moment, JS_COUNT(moment), m);
    lack = lack ? lack : js_read(o, body, JS_COUNT(body), m);
    server_from_json(json_object_get(o, "server"), &m->server);
    if (!lack && m->server.start <= 0) /* the proof of a loss uses it */
        lack = "it has no server start time";
    lack = lack ? lack : js_read(o, head_rest, JS_COUNT(head_rest), m);
    if (!lack && !manifest_read_tables(json_object_get(o, "tables"), m))
        lack = OF_TABLES;
    if (!lack && !read_parts(json_object_get(o, "parts"), m->sha256, &m->parts))
        lack = "its list of the file's parts is incomplete";
    if (lack)
        return err_set(e, ERR_DAMAGED, 0, "%s", lack);
    const json_t *ledgers = json_object_get(o, "ledgers"); /* older versions do not write it */
    m->ledgers = xcalloc(json_array_size(ledgers), sizeof *m->ledgers);
    for (; m->ledger_count < json_array_size(ledgers); m->ledger_count++) {
        struct manifest_ledger *l = &m->ledgers[m->ledger_count];
        js_read(json_array_get(ledgers, m->ledger_count), ledger, JS_COUNT(ledger), l);
        l->counted = true;
    }
    lack = json_object_get(o, "offsite")
               ? js_read(json_object_get(o, "offsite"), copy, JS_COUNT(copy), &m->copy)
               : NULL;
    if (lack)
        return err_set(e, ERR_DAMAGED, 0, "%s", lack);
    double seconds = json_number_value(json_object_get(o, "seconds"));
    m->took_ms = seconds > 0 && seconds < 1e12 ? (int64_t)(seconds * 1000 + 0.5) : 0;
    m->wait_ms = js_within(o, "wait_ms", 0, INT64_MAX, -1);
    m->wait_known = m->wait_ms >= 0;
    m->all = strcmp(js_text(o, "engines"), "all") == 0;
    manifest_read_point(json_object_get(o, "start_point"), &m->start);
    manifest_read_point(json_object_get(o, "end_point"), &m->end);
    m->log_created_at = (uint32_t)js_within(o, "log_born", 0, UINT32_MAX, 0);
    return 0;
}

int manifest_parse(const char *text, size_t len, const char *name, struct manifest *m,
                   struct err *e)
{
    json_error_t je;
    *m = (struct manifest){0};
    json_auto_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
    if (!json_is_object(o))
        return err_set(e, ERR_DAMAGED, 0, "manifest %s.json: not JSON: %s", name, je.text);
    int rc = read_fields(o, name, m, e);
    m->signature = signature_check(o, SIGNED_FRONT);
    if (rc == 0)
        return 0;
    manifest_free(m);
    return err_step(e, "manifest %s.json", name);
}

int manifest_read(int dirfd, const char *name, struct manifest *m, struct err *e)
{
    *m = (struct manifest){0};
    SCOPED(buf_free) struct buf b = {0};
    SCOPED(xfree) char *file = xasprintf("%s.json", name);
    return file_read(dirfd, file, MANIFEST_MAX, &b, e) < 0 ? -1
                                                           : manifest_parse(b.p, b.len, name, m, e);
}

void manifest_free(struct manifest *m)
{
    for (size_t i = 0; i < m->table_count; i++) {
        free(m->tables[i].name);
        free(m->tables[i].engine);
    }
    free(m->tables);
    for (size_t i = 0; i < m->ledger_count; i++)
        free(m->ledgers[i].table);
    free(m->ledgers);
    free(m->by_name);
    free(m->parts.sha256);
    *m = (struct manifest){0};
}

const struct manifest_table *manifest_table(const struct manifest *m, const char *name)
{
    size_t from = 0, to = m->table_count;
    for (size_t i = 0; i < to && !m->by_name; i++)
        if (strcmp(m->tables[i].name, name) == 0)
            return &m->tables[i];
    while (m->by_name && from < to) {
        size_t middle = from + (to - from) / 2;
        const struct manifest_table *t = &m->tables[m->by_name[middle]];
        int order = strcmp(name, t->name);
        if (order == 0)
            return t;
        if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return NULL;
}

struct manifest_table *manifest_add(struct manifest *m, const struct db_table *t)
{
    m->tables = xgrow(m->tables, m->table_count, sizeof *m->tables);
    free(m->by_name);
    m->by_name = NULL;
    struct manifest_table *x = &m->tables[m->table_count++];
    *x = (struct manifest_table){.name = xstrdup(t->name),
                                 .engine = xstrdup(t->engine),
                                 .auto_increment = t->auto_increment,
                                 .data_length = t->data_length,
                                 .index_length = t->index_length,
                                 .max_data_length = t->max_data_length};
    db_columns_hash(t, x->columns_hash);
    return x;
}

int manifest_compare(const struct manifest *a, const struct manifest *b)
{
    if (a->generation != b->generation)
        return a->generation < b->generation ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}
