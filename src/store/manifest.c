#include "store/manifest.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/js.h"
#include "core/text.h"

#define LAST_SECOND 253402300799u /* 9999-12-31T23:59:59Z */

void manifest_name(struct manifest *m)
{
    char t[TEXT_SHORT];
    snprintf(m->name, sizeof m->name, "%s-%06" PRIu64 "-%08" PRIu64 "-%sZ", m->world, m->generation,
             m->sequence, text_utc_name(m->at, t));
}

/* At least `width` digits and a '-' behind them. */
static const char *digits_dash(const char *s, size_t width, uint64_t *out)
{
    size_t n = strspn(s, "0123456789");
    if (n < width || n > 18 || s[n] != '-')
        return NULL;
    *out = strtoull(s, NULL, 10);
    return s + n + 1;
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

json_t *manifest_point_json(const struct db_point *p)
{
    if (!p->file[0])
        return json_null();
    json_t *o =
        json_pack("{s:s, s:I, s:s}", "file", p->file, "pos", (json_int_t)p->pos, "gtid", p->gtid);
    if (p->gtid_after[0])
        json_object_set_new(o, "gtid_after", json_string(p->gtid_after));
    return o;
}

static json_t *table_json(const struct manifest_table *t)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, t->rows_hash);
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name",
                     t->name, "engine", t->engine, "rows", (json_int_t)t->rows, "bytes",
                     (json_int_t)t->bytes, "columns_hash", t->columns_hash, "rows_hash", hash,
                     "offset", (json_int_t)t->offset, "length", (json_int_t)t->length,
                     "auto_increment", (json_int_t)t->auto_increment, "data_length",
                     (json_int_t)t->data_length, "index_length", (json_int_t)t->index_length,
                     "max_data_length", (json_int_t)t->max_data_length);
}

static json_t *server_json(const struct server_id *s)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:s, s:I}", "version", s->version, "vendor",
                     strstr(s->version, "MariaDB") ? "MariaDB" : "MySQL", "hostname",
                     js_clean(s->hostname), "datadir", js_clean(s->datadir), "uid", s->uid, "start",
                     (json_int_t)s->start);
}

json_t *manifest_summary(const struct manifest *m)
{
    char at[TEXT_SHORT];
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:I, s:s, s:I, s:f, s:s, s:I, s:I, s:I, s:I}", "name", m->name,
                  "world", m->world, "generation", (json_int_t)m->generation, "sequence",
                  (json_int_t)m->sequence, "at", text_utc(m->at, at), "at_unix",
                  (json_int_t)(m->at.ms / 1000), "seconds", (double)m->took_ms / 1000.0, "method",
                  m->method, "rows", (json_int_t)m->rows, "bytes", (json_int_t)m->bytes,
                  "file_size", (json_int_t)m->file_size, "tables", (json_int_t)m->table_count);
    if (m->rejected[0])
        js_set_clean(o, "rejected", m->rejected);
    return o;
}

json_t *manifest_json(const struct manifest *m)
{
    json_t *o = manifest_summary(m), *tables = json_array();
    int missing = 0; /* jansson takes no text that is not UTF-8 */
    for (size_t i = 0; i < m->table_count; i++)
        missing |= json_array_append_new(tables, table_json(&m->tables[i]));
    missing |= json_object_set_new(o, "tables", tables);
    missing |= json_object_set_new(o, "format", json_integer(MANIFEST_FORMAT));
    missing |= json_object_set_new(o, "schema", json_string(m->schema));
    missing |= json_object_set_new(o, "server", server_json(&m->server));
    missing |= json_object_set_new(o, "start_point", manifest_point_json(&m->start));
    missing |= json_object_set_new(o, "end_point", manifest_point_json(&m->end));
    if (m->log_born)
        missing |= json_object_set_new(o, "log_born", json_integer(m->log_born));
    missing |= json_object_set_new(o, "nonce", json_string(m->nonce));
    missing |= json_object_set_new(o, "engines", json_string(m->all ? "all" : "memory"));
    missing |= json_object_set_new(o, "sha256", json_string(m->sha256));
    if (!missing)
        return o;
    json_decref(o);
    return NULL;
}

/* Of all that it says, whatever spaces and order it is written with. */
static bool checksum_of(const json_t *o, char out[SHA256_HEX])
{
    static const char *const without[] = {"checksum", "hmac", NULL};
    char *s = js_canonical(o, without);
    unsigned char md[EVP_MAX_MD_SIZE];
    bool ok = s && EVP_Digest(s, strlen(s), md, NULL, EVP_sha256(), NULL) == 1;
    if (ok)
        text_hex(md, SHA256_HEX / 2, out);
    free(s);
    return ok;
}

int manifest_sign(json_t *o)
{
    char sum[SHA256_HEX], hex[SHA256_HEX];
    if (!checksum_of(o, sum) || json_object_set_new(o, "checksum", json_string(sum)) < 0)
        return -1;
    if (!seal_on())
        return 0;
    return seal_make(o, hex) == 0 ? json_object_set_new(o, "hmac", json_string(hex)) : -1;
}

int manifest_write(int dirfd, const struct manifest *m, struct err *e)
{
    json_t *o = manifest_json(m);
    bool is_signed = o && manifest_sign(o) == 0;
    char *s = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    char *file = xasprintf("%s.json", m->name);
    int rc;
    if (s && !is_signed)
        rc = err_set(e, ERR_SYSTEM, 0, "cannot write the manifest: libcrypto hashes nothing");
    else if (!s)
        rc = err_set(e, ERR_SYSTEM, 0, "cannot write the manifest: a name is not UTF-8");
    else if (strlen(s) > MANIFEST_MAX)
        rc = err_set(e, ERR_SYSTEM, 0, "cannot write the manifest: %zu tables are too many for it",
                     m->table_count);
    else
        rc = file_commit(dirfd, file, s, strlen(s), 0600, e);
    free(file);
    free(s);
    json_decref(o);
    return rc;
}

/* Only what restore and verify do not rely on may be missing. */
static bool read_count(const json_t *o, const char *key, uint64_t *out)
{
    const json_t *v = json_object_get(o, key);
    *out = (uint64_t)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool read_text(const json_t *o, const char *key, char *out, size_t size)
{
    js_copy(o, key, out, size);
    return json_is_string(json_object_get(o, key)) && strcmp(out, js_text(o, key)) == 0;
}

static bool read_hex(const json_t *o, const char *key, char *out, size_t size)
{
    return read_text(o, key, out, size) && strlen(out) == size - 1 &&
           strspn(out, "0123456789abcdef") == size - 1;
}

void manifest_read_point(const json_t *o, struct db_point *p)
{
    js_copy(o, "file", p->file, sizeof p->file);
    js_copy(o, "gtid", p->gtid, sizeof p->gtid);
    js_copy(o, "gtid_after", p->gtid_after, sizeof p->gtid_after);
    p->pos = (uint64_t)js_number(o, "pos", 0);
}

static bool read_server(const json_t *o, struct server_id *s)
{
    s->start = js_number(o, "start", 0);
    js_copy(o, "uid", s->uid, sizeof s->uid);
    js_copy(o, "hostname", s->hostname, sizeof s->hostname);
    js_copy(o, "datadir", s->datadir, sizeof s->datadir);
    js_copy(o, "version", s->version, sizeof s->version);
    return s->start > 0; /* a loss is proven with it */
}

static bool read_table(const json_t *o, struct manifest_table *t)
{
    char rows_hash[17];
    *t = (struct manifest_table){.name = xstrdup(js_text(o, "name")),
                                 .engine = xstrdup(js_text(o, "engine"))};
    bool whole = t->name[0] && t->engine[0] && read_count(o, "rows", &t->rows) &&
                 read_count(o, "bytes", &t->bytes) && read_count(o, "offset", &t->offset) &&
                 read_count(o, "length", &t->length) && read_hex(o, "rows_hash", rows_hash, 17) &&
                 read_hex(o, "columns_hash", t->columns_hash, 17) &&
                 json_is_integer(json_object_get(o, "auto_increment"));
    t->rows_hash = whole ? strtoull(rows_hash, NULL, 16) : 0;
    /* The largest counters stand there as negative numbers. */
    t->auto_increment = (uint64_t)js_number(o, "auto_increment", 0);
    t->data_length = (uint64_t)js_number(o, "data_length", 0);
    t->index_length = (uint64_t)js_number(o, "index_length", 0);
    t->max_data_length = (uint64_t)js_number(o, "max_data_length", 0);
    return whole;
}

static bool read_tables(const json_t *list, struct manifest *m)
{
    if (!json_is_array(list))
        return false;
    size_t n = json_array_size(list);
    m->tables = xcalloc(n, sizeof *m->tables);
    uint64_t rows = 0;
    while (m->table_count < n) {
        struct manifest_table *t = &m->tables[m->table_count];
        if (!read_table(json_array_get(list, m->table_count++), t))
            return false;
        rows += t->rows;
    }
    return rows == m->rows;
}

static void read_telling(const json_t *o, struct manifest *m)
{
    double seconds = json_number_value(json_object_get(o, "seconds"));
    m->took_ms = seconds > 0 && seconds < 1e12 ? (int64_t)(seconds * 1000 + 0.5) : 0;
    js_copy(o, "schema", m->schema, sizeof m->schema);
    js_copy(o, "method", m->method, sizeof m->method);
    js_copy(o, "rejected", m->rejected, sizeof m->rejected);
    m->all = strcmp(js_text(o, "engines"), "all") == 0;
    manifest_read_point(json_object_get(o, "start_point"), &m->start);
    manifest_read_point(json_object_get(o, "end_point"), &m->end);
    int64_t born = js_number(o, "log_born", 0);
    m->log_born = born > 0 && born <= UINT32_MAX ? (uint32_t)born : 0;
}

/* The number of the format is in the checksum too, and no single bit makes of it that of the format
 * which had none. */
static int check_format(const json_t *o, struct err *e)
{
    char told[SHA256_HEX], is[SHA256_HEX];
    int64_t format = js_number(o, "format", 0);
    if (format == MANIFEST_UNCHECKED)
        return 0;
    if (format != MANIFEST_FORMAT)
        return err_set(e, ERR_DAMAGED, 0, "format %" PRId64 ", this version reads %d", format,
                       MANIFEST_FORMAT);
    bool told_it = read_hex(o, "checksum", told, sizeof told);
    if (!checksum_of(o, is)) /* not read, rather than damaged: those are removed */
        return err_sys(e, ENOMEM, "cannot check its checksum");
    if (!told_it || strcmp(told, is) != 0)
        return err_set(e, ERR_DAMAGED, 0,
                       "it does not say what was written: its checksum is wrong");
    return 0;
}

static int read_fields(const json_t *o, const char *name, struct manifest *m, struct err *e)
{
    uint64_t generation, sequence, at;
    if (check_format(o, e) < 0)
        return -1;
    bool named = read_text(o, "name", m->name, sizeof m->name) &&
                 read_text(o, "world", m->world, sizeof m->world) &&
                 read_count(o, "generation", &m->generation) &&
                 read_count(o, "sequence", &m->sequence);
    size_t len = manifest_parse_name(m->name, m->world, &generation, &sequence);
    if (!named || strcmp(m->name, name) != 0 || len == 0 || m->name[len] ||
        generation != m->generation || sequence != m->sequence)
        return err_set(e, ERR_DAMAGED, 0, "its name and its content disagree");
    if (!read_count(o, "at_unix", &at) || at > LAST_SECOND)
        return err_set(e, ERR_DAMAGED, 0, "no time in it");
    m->at.ms = (int64_t)at * 1000;
    if (!read_hex(o, "sha256", m->sha256, sizeof m->sha256) ||
        !read_count(o, "file_size", &m->file_size) || m->file_size == 0)
        return err_set(e, ERR_DAMAGED, 0, "no SHA-256 or file size in it");
    if (!read_text(o, "nonce", m->nonce, sizeof m->nonce))
        return err_set(e, ERR_DAMAGED, 0, "no nonce in it");
    if (!read_server(json_object_get(o, "server"), &m->server))
        return err_set(e, ERR_DAMAGED, 0, "no server start time in it");
    if (!read_count(o, "rows", &m->rows) || !read_count(o, "bytes", &m->bytes) ||
        !read_tables(json_object_get(o, "tables"), m))
        return err_set(e, ERR_DAMAGED, 0, "its list of tables is not whole");
    read_telling(o, m);
    return 0;
}

int manifest_read(int dirfd, const char *name, struct manifest *m, struct err *e)
{
    *m = (struct manifest){0};
    struct buf b = {0};
    char *file = xasprintf("%s.json", name);
    int rc = -1;
    json_t *o = NULL;
    if (file_read(dirfd, file, MANIFEST_MAX, &b, e) < 0)
        goto out;
    json_error_t je;
    o = json_loadb(b.p, b.len, JSON_REJECT_DUPLICATES, &je);
    if (!json_is_object(o)) {
        err_set(e, ERR_DAMAGED, 0, "manifest %s: not JSON: %s", file, je.text);
        goto out;
    }
    rc = read_fields(o, name, m, e);
    m->seal = seal_check(o);
    if (rc < 0)
        err_step(e, "manifest %s", file);
out:
    if (rc < 0)
        manifest_free(m);
    json_decref(o);
    free(file);
    buf_free(&b);
    return rc;
}

void manifest_free(struct manifest *m)
{
    for (size_t i = 0; i < m->table_count; i++) {
        free(m->tables[i].name);
        free(m->tables[i].engine);
    }
    free(m->tables);
    *m = (struct manifest){0};
}

const struct manifest_table *manifest_table(const struct manifest *m, const char *name)
{
    for (size_t i = 0; i < m->table_count; i++)
        if (strcmp(m->tables[i].name, name) == 0)
            return &m->tables[i];
    return NULL;
}

struct manifest_table *manifest_add(struct manifest *m, const struct db_table *t)
{
    m->tables = xrealloc(m->tables, (m->table_count + 1) * sizeof *m->tables);
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
