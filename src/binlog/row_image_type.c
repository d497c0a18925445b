/* Compares what a map says about a column with what information_schema says about it now. */
#include <stdio.h>
#include <string.h>

#include "sql/enum_members.h"
#include "binlog/row_image_int.h"
#include "mysql/value.h"

/* Space for a number, date or time with its quotes, however wrong its bytes are. */
#define ROOM 72u
#define DECIMAL_DIGITS 65u

/* Column types of a map, with the number of metadata bytes they have there. */
static const struct {
    const char *name;
    unsigned meta;
} logged_types[256] = {
    [LOG_TINY] = {"TINYINT", 0},
    [LOG_SHORT] = {"SMALLINT", 0},
    [LOG_LONG] = {"INT", 0},
    [LOG_FLOAT] = {"FLOAT", 1},
    [LOG_DOUBLE] = {"DOUBLE", 1},
    [LOG_TIMESTAMP] = {"TIMESTAMP in MariaDB's own format", 0},
    [LOG_LONGLONG] = {"BIGINT", 0},
    [LOG_INT24] = {"MEDIUMINT", 0},
    [LOG_DATE] = {"DATE", 0},
    [LOG_TIME] = {"TIME in MariaDB's own format", 0},
    [LOG_DATETIME] = {"DATETIME in MariaDB's own format", 0},
    [LOG_YEAR] = {"YEAR", 0},
    [LOG_VARCHAR] = {"VARCHAR", 2},
    [LOG_BIT] = {"BIT", 2},
    [LOG_TIMESTAMP2] = {"TIMESTAMP", 1},
    [LOG_DATETIME2] = {"DATETIME", 1},
    [LOG_TIME2] = {"TIME", 1},
    [LOG_VARCHAR_COMPRESSED] = {"VARCHAR COMPRESSED", 2},
    [LOG_DECIMAL] = {"DECIMAL", 2},
    [LOG_ENUM] = {"ENUM", 2},
    [LOG_SET] = {"SET", 2},
    [LOG_STRING] = {"CHAR", 2},
};

/* CHAR, ENUM and SET: the real type, then the length, whose bits 8 and 9 are stored inverted in the
 * type. */
static void unfold_string(struct logged *l, const uint8_t *meta)
{
    unsigned type = meta[0], len = meta[1];
    if ((type & 0x30) != 0x30) {
        len |= ((type & 0x30) ^ 0x30) << 4;
        type |= 0x30;
    }
    l->type = type;
    l->meta = len;
}

int logged_next(const uint8_t **types, const uint8_t **meta, const uint8_t *end, struct logged *out,
                struct err *e)
{
    out->type = *(*types)++;
    if (!logged_types[out->type].name)
        return err_set(e, ERR_REFUSED, 0, "a column is of type %u, which no MEMORY table holds",
                       out->type);
    unsigned n = logged_types[out->type].meta;
    if ((size_t)(end - *meta) < n)
        return err_set(e, ERR_DAMAGED, 0, "the columns' metadata is cut off");
    out->meta = (unsigned)low_first(*meta, n);
    if (out->type == LOG_STRING)
        unfold_string(out, *meta);
    *meta += n;
    if (!logged_types[out->type].name)
        return err_set(e, ERR_DAMAGED, 0, "a CHAR column is of type %u", out->type);
    return 0;
}

/* A COLUMN_TYPE: "decimal(10,3) unsigned zerofill". */
struct column_type {
    char name[16];
    unsigned args, first, second;
    bool is_unsigned, zerofill, compressed, old;
};

static void parse(const char *text, struct column_type *out)
{
    size_t n = strcspn(text, "( ");
    *out = (struct column_type){0};
    if (n >= sizeof out->name)
        return;
    memcpy(out->name, text, n);
    const char *rest = text + n;
    if (strcmp(out->name, "enum") == 0 || strcmp(out->name, "set") == 0)
        return; /* members are not attributes */
    int got = sscanf(rest, "(%9u,%9u)", &out->first, &out->second);
    out->args = got > 0 ? (unsigned)got : 0;
    out->is_unsigned = strstr(rest, " unsigned");
    out->zerofill = strstr(rest, " zerofill");
    out->compressed = strstr(rest, "COMPRESSED");
    out->old = strstr(rest, "/* old */");
}

/* One type of column, and how its values are logged. */
struct column_kind {
    const char *name;
    bool (*fit)(struct field *f, const struct column_type *t, const struct logged *l,
                const struct column_kind *k); /* false: it cannot be the logged one */
    unsigned type, size;                      /* in the log; bytes */
    field_put *put;
    /* Of types with a fraction, MariaDB's own format: sizes by the number of digits after the point */
    unsigned old_type;
    uint8_t old_size[7];
    field_put *put_old, *put_hires;
};

static bool fixed(struct field *f, field_put *put, size_t size)
{
    f->put = put;
    f->size = (uint32_t)size;
    return true;
}

static bool fit_fixed(struct field *f, const struct column_type *t, const struct logged *l,
                      const struct column_kind *k)
{
    f->is_unsigned = t->is_unsigned;
    f->pad = t->zerofill && t->first < 256 ? t->first : 0;
    if (k->type == LOG_YEAR)
        f->pad = t->first == 2 ? 2 : 4;
    bool real =
        k->type == LOG_FLOAT || k->type == LOG_DOUBLE; /* they have their size as metadata */
    return l->type == k->type && (!real || l->meta == k->size) && fixed(f, k->put, k->size);
}

static bool fit_decimal(struct field *f, const struct column_type *t, const struct logged *l,
                        const struct column_kind *k)
{
    unsigned precision = l->meta & 0xff, scale = l->meta >> 8;
    f->is_unsigned = t->is_unsigned;
    if (l->type != k->type || t->args == 0 || precision != t->first || scale != t->second ||
        precision == 0 || precision > DECIMAL_DIGITS || scale > precision)
        return false;
    f->precision = (uint8_t)precision;
    f->decimals = (uint8_t)scale;
    f->pad = t->zerofill ? precision - scale : 0;
    return fixed(f, k->put, decimal_size(precision, scale));
}

static bool fit_bit(struct field *f, const struct column_type *t, const struct logged *l,
                    const struct column_kind *k)
{
    unsigned bits = (l->meta >> 8) * 8 + (l->meta & 0xff);
    return l->type == k->type && bits == t->first && bits >= 1 && bits <= 64 &&
           fixed(f, k->put, (bits + 7) / 8);
}

static bool fit_clock(struct field *f, const struct column_type *t, const struct logged *l,
                      const struct column_kind *k)
{
    if (t->first > 6)
        return false;
    f->decimals = (uint8_t)t->first;
    if (l->type == k->type)
        return l->meta == t->first && fixed(f, k->put, k->size + (t->first + 1) / 2);
    return l->type == k->old_type &&
           fixed(f, t->first ? k->put_hires : k->put_old, k->old_size[t->first]);
}

static bool prefixed(struct field *f, field_put *put, unsigned size)
{
    f->prefix = size > 255 ? 2 : 1;
    return fixed(f, put, size);
}

/* `length` is in characters, the log's in bytes: up to five per character, the same for all. */
static bool holds(unsigned bytes, unsigned length, bool binary)
{
    if (binary || length == 0)
        return bytes == length;
    return bytes % length == 0 && bytes / length >= 1 && bytes / length <= 5;
}

static bool fit_text(struct field *f, const struct column_type *t, const struct logged *l,
                     const struct column_kind *k)
{
    bool binary = strcmp(t->name, "binary") == 0 || strcmp(t->name, "varbinary") == 0;
    bool compressed = k->type == LOG_VARCHAR && t->compressed;
    unsigned before = compressed && l->meta > 0; /* a compressed value is preceded by one byte */
    f->compressed = compressed;
    return l->type == (compressed ? LOG_VARCHAR_COMPRESSED : k->type) &&
           holds(l->meta - before, t->first, binary) && prefixed(f, k->put, l->meta);
}

/* MariaDB's: four bytes per number, as in memory. */
static bool fit_vector(struct field *f, const struct column_type *t, const struct logged *l,
                       const struct column_kind *k)
{
    return l->type == k->type && l->meta == 4 * t->first && prefixed(f, k->put, l->meta);
}

static bool fit_fixed_binary(struct field *f, const struct column_type *t, const struct logged *l,
                             const struct column_kind *k)
{
    return l->type == k->type && l->meta == k->size &&
           prefixed(f, t->old ? k->put_old : k->put, l->meta);
}

/* Bytes without a fraction in the format of MySQL 5.6; then those of MariaDB's own, by the digits. */
#define CLOCK(name, TYPE, size, ...)                                                               \
    {                                                                                              \
#name, fit_clock, LOG_##TYPE##2, size, field_put_##name, LOG_##TYPE,                       \
            {__VA_ARGS__ }, field_put_##name##_old, field_put_##name##_hires                       \
    }
static const struct column_kind columns[] = {
    {"tinyint", fit_fixed, LOG_TINY, 1, .put = field_put_int},
    {"smallint", fit_fixed, LOG_SHORT, 2, .put = field_put_int},
    {"mediumint", fit_fixed, LOG_INT24, 3, .put = field_put_int},
    {"int", fit_fixed, LOG_LONG, 4, .put = field_put_int},
    {"bigint", fit_fixed, LOG_LONGLONG, 8, .put = field_put_int},
    {"float", fit_fixed, LOG_FLOAT, 4, .put = field_put_real},
    {"double", fit_fixed, LOG_DOUBLE, 8, .put = field_put_real},
    {"decimal", fit_decimal, LOG_DECIMAL, .put = field_put_decimal},
    {"bit", fit_bit, LOG_BIT, .put = field_put_text},
    {"year", fit_fixed, LOG_YEAR, 1, .put = field_put_year},
    {"date", fit_fixed, LOG_DATE, 3, .put = field_put_date},
    CLOCK(time, TIME, 3, 3, 4, 4, 5, 5, 5, 6),
    CLOCK(datetime, DATETIME, 5, 8, 6, 6, 7, 7, 7, 8),
    CLOCK(timestamp, TIMESTAMP, 4, 4, 5, 5, 6, 6, 7, 7),
    {"char", fit_text, LOG_STRING, .put = field_put_text},
    {"binary", fit_text, LOG_STRING, .put = field_put_filled},
    {"varchar", fit_text, LOG_VARCHAR, .put = field_put_text},
    {"varbinary", fit_text, LOG_VARCHAR, .put = field_put_text},
    {"uuid", fit_fixed_binary, LOG_STRING, 16, field_put_uuid, .put_old = field_put_uuid_old},
    {"inet4", fit_fixed_binary, LOG_STRING, 4, field_put_inet4, .put_old = field_put_uuid_old},
    {"inet6", fit_fixed_binary, LOG_STRING, 16, field_put_inet6, .put_old = field_put_uuid_old},
    {"vector", fit_vector, LOG_VARCHAR, .put = field_put_text},
};

/* By the number of members, which may only have grown within the same number of bytes. */
static bool fit_members(struct field *f, const char *type, const struct logged *l)
{
    SCOPED(enum_members_free) struct enum_members c = {0};
    size_t size = 0;
    /* bytes that servers use for so many members */
    if (enum_members_parse(type, &c) == 0)
        size = !c.set ? (c.count < 256 ? 1 : 2) : c.count > 32 ? 8 : (c.count + 7) / 8;
    bool same = l->type == (c.set ? LOG_SET : LOG_ENUM) && l->meta == size && size > 0;
    f->is_unsigned = true;
    return same && fixed(f, field_put_int, size);
}

/* A logged type for a message: "VARCHAR of 40 bytes", "DECIMAL(10,3)" … */
static void describe(const struct logged *l, char *out, size_t size)
{
    const char *name = logged_types[l->type].name;
    if (l->type == LOG_DECIMAL)
        snprintf(out, size, "%s(%u,%u)", name, l->meta & 0xff, l->meta >> 8);
    else if (l->type == LOG_BIT)
        snprintf(out, size, "%s(%u)", name, (l->meta >> 8) * 8 + (l->meta & 0xff));
    else if (l->type >= LOG_TIMESTAMP2 && l->type <= LOG_TIME2)
        snprintf(out, size, "%s(%u)", name, l->meta);
    else if (logged_types[l->type].meta)
        snprintf(out, size, "%s of %u bytes", name, l->meta);
    else
        snprintf(out, size, "%s", name);
}

int field_make(struct field *f, const struct db_column *c, const struct logged *l, struct err *e)
{
    char text[64];
    struct column_type t;
    const struct column_kind *k = NULL;
    *f = (struct field){.encoding = c->encoding, .skip = c->generated};
    parse(c->type, &t);
    for (size_t i = 0; i < sizeof columns / sizeof *columns && !k; i++)
        k = strcmp(columns[i].name, t.name) == 0 ? &columns[i] : NULL;
    bool members = c->encoding == DB_INDEX; /* ENUM and SET */
    if (!members && !k)
        return err_set(e, ERR_REFUSED, 0,
                       "column %s is of the type %s, which no MEMORY table "
                       "holds",
                       c->name, c->type);
    if (members ? !fit_members(f, c->type, l) : !k->fit(f, &t, l, k)) {
        describe(l, text, sizeof text);
        return err_set(e, ERR_CHANGED, 0, "column %s is %s now, but was %s when it was logged",
                       c->name, c->type, text);
    }
    f->name = xstrdup(c->name);
    if (f->prefix) /* texts get theirs when they are read */
        f->room = DB_VALUE_ROOM + 2 * (f->put == field_put_text ? 0 : f->size);
    else
        f->room = ROOM + f->pad;
    if (f->room < ROOM)
        f->room = ROOM;
    return 0;
}
