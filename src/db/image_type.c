/* What a map says about a column, held against what information_schema says about it now. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/choices.h"
#include "db/image_int.h"
#include "db/value.h"

/* Room of a number, a date or a time with its quotes, however wrong its bytes are. */
#define ROOM 72u
#define DECIMAL_DIGITS 65u

/* Types of a map, with the bytes of metadata that they have there. */
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

/* CHAR, ENUM and SET: the real type, then its length, whose bits above eight are two of the type's,
 * turned around. */
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
        return; /* members are no attributes */
    int got = sscanf(rest, "(%9u,%9u)", &out->first, &out->second);
    out->args = got > 0 ? (unsigned)got : 0;
    out->is_unsigned = strstr(rest, " unsigned");
    out->zerofill = strstr(rest, " zerofill");
    out->compressed = strstr(rest, "COMPRESSED");
    out->old = strstr(rest, "/* old */");
}

/* Each of these looks at one kind of column: false, it cannot be the logged one. */
typedef bool fit_fn(struct field *f, const struct column_type *t, const struct logged *l);

static bool fixed(struct field *f, field_put *put, size_t size)
{
    f->put = put;
    f->size = (uint32_t)size;
    return true;
}

static bool fit_int(struct field *f, const struct column_type *t, const struct logged *l)
{
    static const struct {
        const char *name;
        unsigned type, size;
    } ints[] = {{"tinyint", LOG_TINY, 1},
                {"smallint", LOG_SHORT, 2},
                {"mediumint", LOG_INT24, 3},
                {"int", LOG_LONG, 4},
                {"bigint", LOG_LONGLONG, 8}};
    f->is_unsigned = t->is_unsigned;
    f->pad = t->zerofill && t->first < 256 ? t->first : 0;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (strcmp(ints[i].name, t->name) == 0)
            return l->type == ints[i].type && fixed(f, field_put_int, ints[i].size);
    return false;
}

static bool fit_real(struct field *f, const struct column_type *t, const struct logged *l)
{
    if (strcmp(t->name, "float") == 0)
        return l->type == LOG_FLOAT && l->meta == 4 && fixed(f, field_put_float, 4);
    return l->type == LOG_DOUBLE && l->meta == 8 && fixed(f, field_put_double, 8);
}

static bool fit_decimal(struct field *f, const struct column_type *t, const struct logged *l)
{
    unsigned precision = l->meta & 0xff, scale = l->meta >> 8;
    f->is_unsigned = t->is_unsigned;
    if (l->type != LOG_DECIMAL || t->args == 0 || precision != t->first || scale != t->second ||
        precision == 0 || precision > DECIMAL_DIGITS || scale > precision)
        return false;
    f->precision = (uint8_t)precision;
    f->decimals = (uint8_t)scale;
    f->pad = t->zerofill ? precision - scale : 0;
    return fixed(f, field_put_decimal, decimal_size(precision, scale));
}

static bool fit_bit(struct field *f, const struct column_type *t, const struct logged *l)
{
    unsigned bits = (l->meta >> 8) * 8 + (l->meta & 0xff);
    return l->type == LOG_BIT && bits == t->first && bits >= 1 && bits <= 64 &&
           fixed(f, field_put_bits, (bits + 7) / 8);
}

static bool fit_year(struct field *f, const struct column_type *t, const struct logged *l)
{
    f->pad = t->first == 2 ? 2 : 4;
    return l->type == LOG_YEAR && fixed(f, field_put_year, 1);
}

static bool fit_date(struct field *f, const struct column_type *t, const struct logged *l)
{
    (void)t;
    return l->type == LOG_DATE && fixed(f, field_put_date, 3);
}

/* Types with a fraction, in three forms; `old` and `new` tell the log's types. */
struct clock {
    unsigned new, old;
    unsigned new_size, old_size;
    uint8_t hires_size[7]; /* with so many digits behind the point */
    field_put *put_new, *put_old, *put_hires;
};

static bool fit_clock(struct field *f, const struct column_type *t, const struct logged *l,
                      const struct clock *c)
{
    if (t->first > 6)
        return false;
    f->decimals = (uint8_t)t->first;
    if (l->type == c->new)
        return l->meta == t->first && fixed(f, c->put_new, c->new_size + (t->first + 1) / 2);
    if (l->type != c->old)
        return false;
    return t->first ? fixed(f, c->put_hires, c->hires_size[t->first])
                    : fixed(f, c->put_old, c->old_size);
}

static bool fit_time(struct field *f, const struct column_type *t, const struct logged *l)
{
    static const struct clock c = {.new = LOG_TIME2,
                                   .old = LOG_TIME,
                                   .new_size = 3,
                                   .old_size = 3,
                                   .hires_size = {3, 4, 4, 5, 5, 5, 6},
                                   .put_new = field_put_time,
                                   .put_old = field_put_time_old,
                                   .put_hires = field_put_time_hires};
    return fit_clock(f, t, l, &c);
}

static bool fit_datetime(struct field *f, const struct column_type *t, const struct logged *l)
{
    static const struct clock c = {.new = LOG_DATETIME2,
                                   .old = LOG_DATETIME,
                                   .new_size = 5,
                                   .old_size = 8,
                                   .hires_size = {5, 6, 6, 7, 7, 7, 8},
                                   .put_new = field_put_datetime,
                                   .put_old = field_put_datetime_old,
                                   .put_hires = field_put_datetime_hires};
    return fit_clock(f, t, l, &c);
}

static bool fit_timestamp(struct field *f, const struct column_type *t, const struct logged *l)
{
    static const struct clock c = {.new = LOG_TIMESTAMP2,
                                   .old = LOG_TIMESTAMP,
                                   .new_size = 4,
                                   .old_size = 4,
                                   .hires_size = {4, 5, 5, 6, 6, 7, 7},
                                   .put_new = field_put_timestamp,
                                   .put_old = field_put_timestamp_old,
                                   .put_hires = field_put_timestamp_hires};
    return fit_clock(f, t, l, &c);
}

static bool prefixed(struct field *f, field_put *put, unsigned size)
{
    f->prefix = size > 255 ? 2 : 1;
    return fixed(f, put, size);
}

/* `length` counts characters, the log bytes: up to five for each, and the same for all. */
static bool holds(unsigned bytes, unsigned length, bool binary)
{
    if (binary || length == 0)
        return bytes == length;
    return bytes % length == 0 && bytes / length >= 1 && bytes / length <= 5;
}

static bool fit_char(struct field *f, const struct column_type *t, const struct logged *l)
{
    bool binary = strcmp(t->name, "binary") == 0;
    return l->type == LOG_STRING && holds(l->meta, t->first, binary) &&
           prefixed(f, binary ? field_put_filled : field_put_text, l->meta);
}

/* A compressed value has a byte in front of it. */
static bool fit_varchar(struct field *f, const struct column_type *t, const struct logged *l)
{
    unsigned bytes = l->meta;
    f->compressed = t->compressed;
    if (l->type != (t->compressed ? LOG_VARCHAR_COMPRESSED : LOG_VARCHAR))
        return false;
    if (t->compressed && bytes > 0)
        bytes--;
    return holds(bytes, t->first, strcmp(t->name, "varbinary") == 0) &&
           prefixed(f, field_put_text, l->meta);
}

/* MariaDB's: four bytes a number, as they are in memory. */
static bool fit_vector(struct field *f, const struct column_type *t, const struct logged *l)
{
    return l->type == LOG_VARCHAR && l->meta == 4 * t->first &&
           prefixed(f, field_put_text, l->meta);
}

static bool fit_fixed_binary(struct field *f, const struct column_type *t, const struct logged *l)
{
    static const struct {
        const char *name;
        unsigned size;
        field_put *put;
    } types[] = {{"uuid", 16, field_put_uuid},
                 {"inet4", 4, field_put_inet4},
                 {"inet6", 16, field_put_inet6}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, t->name) == 0)
            return l->type == LOG_STRING && l->meta == types[i].size &&
                   prefixed(f, t->old ? field_put_uuid_old : types[i].put, l->meta);
    return false;
}

static const struct {
    const char *name;
    fit_fn *fit;
} columns[] = {
    {"tinyint", fit_int},       {"smallint", fit_int},        {"mediumint", fit_int},
    {"int", fit_int},           {"bigint", fit_int},          {"float", fit_real},
    {"double", fit_real},       {"decimal", fit_decimal},     {"bit", fit_bit},
    {"year", fit_year},         {"date", fit_date},           {"time", fit_time},
    {"datetime", fit_datetime}, {"timestamp", fit_timestamp}, {"char", fit_char},
    {"binary", fit_char},       {"varchar", fit_varchar},     {"varbinary", fit_varchar},
    {"uuid", fit_fixed_binary}, {"inet4", fit_fixed_binary},  {"inet6", fit_fixed_binary},
    {"vector", fit_vector},
};

/* By the number of members, which may only have grown within the same number of bytes. */
static bool fit_choices(struct field *f, const char *type, const struct logged *l)
{
    struct db_choices c;
    size_t size = 0;
    if (db_choices_parse(type, &c) == 0)
        size = !c.set ? (c.count < 256 ? 1 : 2) : c.count > 32 ? 8 : (c.count + 7) / 8;
    bool same = l->type == (c.set ? LOG_SET : LOG_ENUM) && l->meta == size && size > 0;
    db_choices_free(&c);
    return same && fixed(f, field_put_number, size);
}

static bool fit(struct field *f, const struct db_column *c, const struct logged *l, bool *known)
{
    struct column_type t;
    *known = true;
    if (c->encoding == DB_INDEX)
        return fit_choices(f, c->type, l);
    parse(c->type, &t);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (strcmp(columns[i].name, t.name) == 0)
            return columns[i].fit(f, &t, l);
    return *known = false;
}

/* "VARCHAR of 40 bytes", "DECIMAL(10,3)" … of what is in the log. */
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
    bool known;
    *f = (struct field){.encoding = c->encoding, .skip = c->generated};
    if (!fit(f, c, l, &known)) {
        if (!known)
            return err_set(e, ERR_REFUSED, 0,
                           "column %s is of the type %s, which no MEMORY table "
                           "holds",
                           c->name, c->type);
        describe(l, text, sizeof text);
        return err_set(e, ERR_CHANGED, 0, "column %s is %s now, but was %s when it was logged",
                       c->name, c->type, text);
    }
    f->name = xstrdup(c->name);
    f->room =
        f->prefix ? DB_VALUE_ROOM + 2 * (f->put == field_put_text ? 0 : f->size) : ROOM + f->pad;
    if (f->room < ROOM)
        f->room = ROOM;
    return 0;
}
