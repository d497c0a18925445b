#include "binlog/row_image.h"

#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST /* makes zlib's input pointers const */
#include <zlib.h>

#include "base/cursor.h"
#include "binlog/row_image_field.h"
#include "binlog/row_image_int.h"
#include "mysql/value.h"

/* Fields of a map's optional metadata. */
#define EXTRA_SIGNS 1u
#define EXTRA_NAMES 4u

struct row_image {
    char *table;
    struct field *fields;
    size_t count;
    size_t keys; /* number of columns of the primary key; 0: not known, or too many to compare */
    size_t room; /* space for a tuple, without the contents of fields that have a length prefix */
    /* A copy of the map, which later maps are compared with. */
    uint8_t *map;
    size_t meta_len, extra_len;
    /* The columns present in the last image. */
    uint8_t *present;
    size_t present_count;
    bool present_known;
    /* For compressed columns. */
    z_stream zlib;
    bool zlib_open;
    struct buf plain;
};

/* A primary key never has more columns. */
#define KEY_MAX 32u

static size_t bit_bytes(size_t bits)
{
    return (bits + 7) / 8;
}

static bool row_image_bit(const uint8_t *set, size_t i)
{
    return set[i / 8] >> (i % 8) & 1;
}

/* ---- the map and the table ---- */

static int make_fields(struct row_image *m, const struct event_map *map, const struct db_table *t,
                       struct err *e)
{
    const uint8_t *types = map->types, *meta = map->meta, *end = map->meta + map->meta_len;
    size_t read = 0;
    m->room = 2;
    for (size_t i = 0; i < t->column_count; i++) {
        if (field_next(&m->fields[i], &t->columns[i], &types, &meta, end, e) < 0)
            return -1;
        m->room += m->fields[i].room;
        read += !m->fields[i].skip;
    }
    if (meta != end)
        return err_set(e, ERR_DAMAGED, 0, "it has more metadata than columns");
    return read ? 0 : err_set(e, ERR_REFUSED, 0, "all its columns are generated");
}

/* Marks the columns of the primary key. Their positions count the columns of a tuple. */
static void row_image_mark_key(struct row_image *m, const struct db_table *t)
{
    size_t place = 0;
    for (size_t i = 0; i < m->count; i++) {
        for (size_t k = 0; k < t->key_count && !m->fields[i].skip; k++)
            m->fields[i].key |= t->key[k] == place;
        m->keys += m->fields[i].key;
        place += !m->fields[i].skip;
    }
    if (m->keys != t->key_count || m->keys > KEY_MAX)
        m->keys = 0;
}

/* Checks the signedness: one bit for each number, most significant bit first. MariaDB counts
 * YEAR as a number, MySQL does not. */
static int check_signs(const struct row_image *m, const struct event_map *map, struct cursor c,
                       bool year, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        unsigned type = map->types[i];
        if (type != LOG_TINY && type != LOG_SHORT && type != LOG_INT24 && type != LOG_LONG &&
            type != LOG_LONGLONG && type != LOG_FLOAT && type != LOG_DOUBLE &&
            type != LOG_DECIMAL && !(year && type == LOG_YEAR))
            continue;
        if (n / 8 >= cursor_left(&c))
            return err_set(e, ERR_DAMAGED, 0, "the signedness of its columns is truncated");
        bool is_unsigned = c.at[n / 8] >> (7 - n % 8) & 1;
        n++;
        if (m->fields[i].has_sign && is_unsigned != m->fields[i].is_unsigned)
            return err_set(e, ERR_CHANGED, 0, "column %s was %s when it was logged",
                           m->fields[i].name, is_unsigned ? "unsigned" : "signed");
    }
    return 0;
}

static int row_image_check_names(const struct row_image *m, struct cursor c, struct err *e)
{
    for (size_t i = 0; i < m->count; i++) {
        uint64_t len = cursor_packed(&c);
        const char *name = (const char *)cursor_bytes(&c, len);
        if (!name)
            return err_set(e, ERR_DAMAGED, 0, "the names of its columns are truncated");
        if (strlen(m->fields[i].name) != len || memcmp(m->fields[i].name, name, len) != 0)
            return err_set(e, ERR_CHANGED, 0, "column %s was called %.*s when it was logged",
                           m->fields[i].name, (int)len, name);
    }
    return 0;
}

/* Checks the optional metadata. Each field has a type, a length and that many bytes; other types
 * are skipped. */
static int check_extra(const struct row_image *m, const struct event_map *map, struct err *e)
{
    struct cursor c = {map->extra, map->extra + map->extra_len, false};
    while (cursor_left(&c)) {
        unsigned what = (unsigned)cursor_number(&c, 1);
        uint64_t len = cursor_packed(&c);
        struct cursor value = {c.at, c.at, false};
        if (!cursor_bytes(&c, len))
            return err_set(e, ERR_DAMAGED, 0, "its description of the columns is truncated");
        value.end = c.at;
        struct err why;
        if ((what == EXTRA_SIGNS && check_signs(m, map, value, true, &why) < 0 &&
             check_signs(m, map, value, false, e) < 0) ||
            (what == EXTRA_NAMES && row_image_check_names(m, value, e) < 0))
            return -1;
    }
    return 0;
}

struct row_image *row_image_open(const struct event_map *map, const struct db_table *t,
                                 struct err *e)
{
    if (map->columns != t->column_count) {
        err_set(e, ERR_CHANGED, 0, "table %s has %zu columns now, but had %zu when it was logged",
                t->name, t->column_count, map->columns);
        return NULL;
    }
    struct row_image *m = xcalloc(1, sizeof *m);
    m->table = xstrdup(t->name);
    m->count = t->column_count;
    m->fields = xcalloc(m->count, sizeof *m->fields);
    m->present = xcalloc(bit_bytes(m->count), 1);
    if (make_fields(m, map, t, e) < 0 || check_extra(m, map, e) < 0) {
        err_step(e, "table %s", t->name);
        row_image_close(m);
        return NULL;
    }
    row_image_mark_key(m, t);
    m->meta_len = map->meta_len;
    m->extra_len = map->extra_len;
    m->map = xcalloc(m->count + m->meta_len + m->extra_len, 1);
    memcpy(m->map, map->types, m->count);
    memcpy(m->map + m->count, map->meta, m->meta_len);
    memcpy(m->map + m->count + m->meta_len, map->extra, m->extra_len);
    return m;
}

bool row_image_fits(const struct row_image *m, const struct event_map *map)
{
    return map->columns == m->count && map->meta_len == m->meta_len &&
           map->extra_len == m->extra_len && memcmp(m->map, map->types, m->count) == 0 &&
           memcmp(m->map + m->count, map->meta, m->meta_len) == 0 &&
           memcmp(m->map + m->count + m->meta_len, map->extra, m->extra_len) == 0;
}

void row_image_close(struct row_image *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        free(m->fields[i].name);
    if (m->zlib_open)
        inflateEnd(&m->zlib);
    buf_free(&m->plain);
    free(m->fields);
    free(m->present);
    free(m->map);
    free(m->table);
    free(m);
}

/* ---- rows ---- */

/* Takes the set of present columns, which rarely changes from one image to the next. */
static int take_present(struct row_image *m, const uint8_t *present, struct err *e)
{
    if (m->present_known && memcmp(m->present, present, bit_bytes(m->count)) == 0)
        return 0;
    m->present_known = false;
    m->present_count = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (!row_image_bit(present, i) && !m->fields[i].skip) {
            err_set(e, ERR_REFUSED, 0, "table %s: column %s is missing in a changed row", m->table,
                    m->fields[i].name);
            return err_hint(
                e, "every session that writes to the table must use binlog_row_image=FULL");
        }
        m->present_count += row_image_bit(present, i);
    }
    memcpy(m->present, present, bit_bytes(m->count));
    m->present_known = true;
    return 0;
}

/* Checks the number of columns, because it determines the length of the column sets. */
static int row_image_check_columns(const struct row_image *m, const struct event_rows *r,
                                   struct err *e)
{
    return r->columns == m->count
               ? 0
               : err_set(e, ERR_DAMAGED, 0, "table %s has %zu columns, but a row event has %zu",
                         m->table, m->count, r->columns);
}

int row_image_check(struct row_image *m, const struct event_rows *r, struct err *e)
{
    if (row_image_check_columns(m, r, e) < 0 || take_present(m, r->present, e) < 0)
        return -1;
    return r->present_after ? take_present(m, r->present_after, e) : 0;
}

/* Decompresses a MariaDB value. Its first byte is 0 if the text follows uncompressed. Otherwise
 * it is 0x80, plus 8 if there is no zlib header, plus (in the low bits) the number of following
 * bytes with the length of the text. Returns NULL if it is malformed. */
static const uint8_t *row_image_unpacked(struct row_image *m, const struct field *f,
                                         const uint8_t *v, size_t *len)
{
    if (*len == 0)
        return v;
    unsigned mark = v[0], digits = mark & 7;
    if (mark == 0) {
        --*len;
        return v + 1;
    }
    if ((mark & 0xf0) != 0x80 || *len < 1 + digits || digits > 4)
        return NULL;
    uint64_t size = high_first(v + 1, digits);
    if (size >= f->size)
        return NULL;
    if (!m->zlib_open && inflateInit(&m->zlib) != Z_OK)
        return NULL;
    m->zlib_open = true;
    buf_clear(&m->plain);
    buf_reserve(&m->plain, size);
    z_stream *z = &m->zlib;
    inflateReset2(z, mark & 8 ? -MAX_WBITS : MAX_WBITS);
    z->next_in = v + 1 + digits;
    z->avail_in = (uInt)(*len - 1 - digits);
    z->next_out = (Bytef *)m->plain.p;
    z->avail_out = (uInt)size;
    if (inflate(z, Z_FINISH) != Z_STREAM_END || z->avail_out || z->avail_in)
        return NULL;
    *len = size;
    return (const uint8_t *)m->plain.p;
}

/* Appends one value of `len` bytes at `o`. `out` may have to grow for it. */
static char *row_image_put_field(struct row_image *m, const struct field *f, struct buf *out,
                                 char *o, const uint8_t *v, size_t len)
{
    if (f->compressed) {
        v = row_image_unpacked(m, f, v, &len);
        if (!v)
            return NULL;
    }
    if (f->prefix) {
        out->len = (size_t)(o - out->p);
        buf_reserve(out, 2 * len + m->room);
        o = out->p + out->len;
    }
    return f->put(f, o, v, len);
}

/* Returns where the value at `at` begins and sets its length. Returns NULL if it would exceed
 * `end`. */
static const uint8_t *find_value(const struct field *f, const uint8_t *at, const uint8_t *end,
                                 size_t *len)
{
    *len = f->size;
    if (f->prefix) {
        if ((size_t)(end - at) < f->prefix)
            return NULL;
        *len = f->prefix == 1 ? *at : low_first(at, f->prefix);
        at += f->prefix;
    }
    return *len <= f->size && *len <= (size_t)(end - at) ? at : NULL;
}

/* Appends the tuple of one row to `out` and sets its length at the end. On failure returns NULL
 * and sets *bad to the column. */
static const uint8_t *row_image_put_row(struct row_image *m, const uint8_t *at, const uint8_t *end,
                                        struct buf *out, const struct field **bad)
{
    const uint8_t *nulls = at;
    size_t k = 0;
    at += bit_bytes(m->present_count);
    char *o = out->p + out->len, before = '(';
    for (size_t i = 0; i < m->count; i++) {
        const struct field *f = *bad = &m->fields[i];
        if (!row_image_bit(m->present, i))
            continue;
        bool null = row_image_bit(nulls, k++);
        size_t len = 0;
        if (!null && !(at = find_value(f, at, end, &len)))
            return NULL;
        if (!f->skip) {
            *o++ = before;
            before = ',';
            o = null ? db_put_value(o, f->encoding, NULL, 0)
                     : row_image_put_field(m, f, out, o, at, len);
            if (!o)
                return NULL;
        }
        at += len;
    }
    *o++ = ')';
    *o = '\0';
    out->len = (size_t)(o - out->p);
    return at;
}

/* Checks the beginning of the image at c->at, and moves c->at to its set of NULLs. */
static int row_image_begin(struct row_image *m, const struct event_rows *r, bool after,
                           struct cursor *c, struct err *e)
{
    /* The only option says that JSON values may be given as differences. A bit for each JSON
     * column follows; no MEMORY table has such a column. */
    uint64_t options = after && r->options ? cursor_packed(c) : 0;
    if (row_image_check_columns(m, r, e) < 0)
        return -1;
    if (options > 1)
        return err_set(e, ERR_REFUSED, 0, "table %s: a changed row has an unknown format",
                       m->table);
    if (take_present(m, after ? r->present_after : r->present, e) < 0)
        return -1;
    if (c->broken || cursor_left(c) < bit_bytes(m->present_count))
        return err_set(e, ERR_DAMAGED, 0, "table %s: a changed row is truncated", m->table);
    return 0;
}

/* Finds the values of the key's columns in the image at c->at, and moves c->at to its end, or with
 * `only_key` to the end of the last of these values. Returns their number, or 0 if the image does
 * not have all of them. */
static size_t row_image_find_key(const struct row_image *m, struct cursor *c, bool only_key,
                                 struct cursor key[KEY_MAX])
{
    const uint8_t *nulls = c->at, *at = c->at + bit_bytes(m->present_count);
    size_t k = 0, found = 0;
    for (size_t i = 0; i < m->count && !(only_key && found == m->keys); i++) {
        const struct field *f = &m->fields[i];
        size_t len = 0;
        if (!row_image_bit(m->present, i) || row_image_bit(nulls, k++))
            continue; /* a NULL in the key is noticed because its value is not found */
        if (!(at = find_value(f, at, c->end, &len)))
            return 0;
        if (f->key)
            key[found++] = (struct cursor){at, at + len, false};
        at += len;
    }
    c->at = at;
    return found == m->keys ? found : 0;
}

const char *row_image_same_key(struct row_image *m, const struct event_rows *r, const char *at,
                               const char *end)
{
    struct err ignored;
    struct cursor c = {(const uint8_t *)at, (const uint8_t *)end, false}, was[KEY_MAX], is[KEY_MAX];
    if (!m->keys || row_image_begin(m, r, false, &c, &ignored) < 0 ||
        row_image_find_key(m, &c, false, was) == 0)
        return NULL;
    const char *second = (const char *)c.at;
    size_t n =
        row_image_begin(m, r, true, &c, &ignored) < 0 ? 0 : row_image_find_key(m, &c, true, is);
    for (size_t i = 0; i < n; i++)
        if (cursor_left(&was[i]) != cursor_left(&is[i]) ||
            memcmp(was[i].at, is[i].at, cursor_left(&is[i])) != 0)
            return NULL;
    return n ? second : NULL;
}

const char *row_image_read(struct row_image *m, const struct event_rows *r, bool after,
                           const char *at, const char *end, struct buf *out, struct err *e)
{
    const struct field *bad = m->fields;
    const size_t had = out->len;
    struct cursor c = {(const uint8_t *)at, (const uint8_t *)end, false};
    if (row_image_begin(m, r, after, &c, e) < 0)
        return NULL;
    buf_reserve(out, m->room);
    const uint8_t *next = row_image_put_row(m, c.at, c.end, out, &bad);
    if (next)
        return (const char *)next;
    out->len = had;
    out->p[had] = '\0';
    err_set(e, ERR_DAMAGED, 0,
            "table %s, column %s: a changed row is truncated or has an invalid value", m->table,
            bad->name);
    return NULL;
}
