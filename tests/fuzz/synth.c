#include "synth.h"

#include <stdlib.h>
#include <string.h>

#include "sql/literal.h"

static unsigned meta_bytes(unsigned type)
{
    static const unsigned char one[] = {4, 5, 17, 18, 19},
                               two[] = {15, 16, 141, 246, 247, 248, 254};
    return memchr(one, (int)type, sizeof one) ? 1 : memchr(two, (int)type, sizeof two) ? 2 : 0;
}

static void members(struct buf *b, const char *what, unsigned count)
{
    buf_printf(b, "%s(", what);
    for (unsigned i = 0; i < count; i++)
        buf_printf(b, "%s'm%u'", i ? "," : "", i);
    buf_addc(b, ')');
}

static enum db_encoding number(struct buf *b, unsigned type, const uint8_t *meta, unsigned seed)
{
    static const char *const names[] = {
        [1] = "tinyint(4)",   [2] = "smallint(6)", [3] = "int(11)", [8] = "bigint(21)",
        [9] = "mediumint(9)", [4] = "float",       [5] = "double"};
    if (type == 246)
        buf_printf(b, "decimal(%u,%u)", meta[0], meta[1]);
    else
        buf_adds(b, names[type]);
    buf_adds(b, seed % 3 == 0 ? "" : seed % 3 == 1 ? " unsigned" : " unsigned zerofill");
    return type == 4 || type == 5 ? DB_DOUBLE : DB_RAW;
}

static enum db_encoding string(struct buf *b, const uint8_t *meta, unsigned seed)
{
    unsigned type = meta[0] | 0x30u, len = meta[1] | ((meta[0] & 0x30u) ^ 0x30) << 4;
    static const char *const fixed[] = {"uuid", "inet6", "uuid /* old */", "inet4"};
    if (type == 247) {
        members(b, "enum", len > 1 ? 256 : 3);
        return DB_INDEX;
    }
    if (type == 248) {
        members(b, "set", len > 4 ? 64 : 8 * len);
        return DB_INDEX;
    }
    if ((len == 16 || len == 4) && seed % 5 < 3) {
        buf_adds(b, fixed[len == 4 ? 3 : seed % 5]);
        return DB_LATIN1;
    }
    buf_printf(b, "%s(%u)", seed % 2 ? "char" : "binary", len);
    return DB_BYTES;
}

static enum db_encoding column(struct buf *b, unsigned type, const uint8_t *meta, unsigned seed)
{
    unsigned two = meta[0] | (unsigned)meta[1] << 8;
    switch (type) {
    case 7:
    case 11:
    case 12:
        buf_printf(b, "%s(%u)",
                   type == 7    ? "timestamp"
                   : type == 11 ? "time"
                                : "datetime",
                   seed % 7);
        return DB_BYTES;
    case 10:
        buf_adds(b, "date");
        return DB_BYTES;
    case 13:
        buf_printf(b, "year(%u)", seed % 2 ? 4 : 2);
        return DB_BYTES;
    case 15:
        buf_printf(b, "%s(%u)", seed % 2 ? "varchar" : "varbinary", two);
        return DB_BYTES;
    case 141:
        buf_printf(b, "varchar(%u) /*M!100301 COMPRESSED*/", two - 1);
        return DB_BYTES;
    case 16:
        buf_printf(b, "bit(%u)", meta[0] + 8u * meta[1]);
        return DB_BITS;
    case 17:
    case 18:
    case 19:
        buf_printf(b, "%s(%u)",
                   type == 17   ? "timestamp"
                   : type == 18 ? "datetime"
                                : "time",
                   meta[0]);
        return DB_BYTES;
    case 254:
        return string(b, meta, seed);
    default:
        return number(b, type == 246 || (type && type < 10 && type != 6) ? type : 3, meta, seed);
    }
}

void synth_table(const struct event_map *map, uint64_t seed, struct db_table *out)
{
    static const uint8_t none[2];
    const uint8_t *meta = map->meta, *end = map->meta + map->meta_len;
    *out = (struct db_table){.name = xstrdup("t"), .column_count = map->columns};
    out->columns = xcalloc(map->columns, sizeof *out->columns);
    for (size_t i = 0; i < map->columns; i++) {
        unsigned n = meta_bytes(map->types[i]), mix = (unsigned)(seed + 7 * i) % 210;
        bool there = (size_t)(end - meta) >= n;
        uint8_t bytes[2] = {0};
        struct buf b = {0};
        memcpy(bytes, there ? meta : none, n);
        meta = there ? meta + n : end;
        out->columns[i].encoding = column(&b, map->types[i], bytes, mix);
        out->columns[i].type = b.p;
        out->columns[i].name = xasprintf("c%zu", i);
        out->columns[i].generated = mix % 15 == 14;
    }
}

void synth_free(struct db_table *t)
{
    for (size_t i = 0; i < t->column_count; i++) {
        free(t->columns[i].name);
        free(t->columns[i].type);
    }
    free(t->columns);
    free(t->name);
}

static void read_all(struct row_image *m, const struct event_rows *r, unsigned columns)
{
    const char *at = r->data, *end = r->data + r->len;
    struct buf out = {0};
    for (unsigned turn = 0; at && at < end; turn++) {
        const char *was = at;
        bool after = r->present_after && turn % 2;
        buf_clear(&out);
        at = row_image_read(m, r, after, at, end, &out, NULL);
        unsigned fields;
        if (at && (at <= was || at > end ||
                   sql_read_tuple(out.p, out.p + out.len, &fields) != out.p + out.len ||
                   fields != columns))
            abort();
    }
    buf_free(&out);
}

void synth_rows(const struct event_map *map, const struct event_rows *r, uint64_t seed)
{
    struct db_table t;
    unsigned columns = 0;
    synth_table(map, seed, &t);
    for (size_t i = 0; i < t.column_count; i++)
        columns += !t.columns[i].generated;
    struct row_image *m = row_image_open(map, &t, NULL);
    synth_free(&t);
    if (m && !row_image_fits(m, map))
        abort();
    if (m)
        read_all(m, r, columns);
    row_image_close(m);
}
