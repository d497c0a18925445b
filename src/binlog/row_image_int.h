/* What the files of row_image.h share about the columns of an image. */
#ifndef WK_BINLOG_ROW_IMAGE_INT_H
#define WK_BINLOG_ROW_IMAGE_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "binlog/row_image.h"

/* Column types in a map event. */
enum log_type {
    LOG_TINY = 1,
    LOG_SHORT = 2,
    LOG_LONG = 3,
    LOG_FLOAT = 4,
    LOG_DOUBLE = 5,
    LOG_TIMESTAMP = 7,
    LOG_LONGLONG = 8,
    LOG_INT24 = 9,
    LOG_DATE = 10,
    LOG_TIME = 11,
    LOG_DATETIME = 12,
    LOG_YEAR = 13,
    LOG_VARCHAR = 15,
    LOG_BIT = 16,
    LOG_TIMESTAMP2 = 17,
    LOG_DATETIME2 = 18,
    LOG_TIME2 = 19,
    LOG_VARCHAR_COMPRESSED = 141,
    LOG_DECIMAL = 246,
    LOG_ENUM = 247,
    LOG_SET = 248,
    LOG_STRING = 254,
};

/* Prints a column's value, `len` bytes at `v`, to `o`, where field.room bytes are free, and twice
 * `len` more for a field with a prefix. Returns the position after it; NULL: not a value of this
 * column. */
struct field;
typedef char *field_put(const struct field *f, char *o, const uint8_t *v, size_t len);

struct field {
    field_put *put;
    enum db_encoding encoding;
    bool skip; /* generated: not part of the tuple */
    bool is_unsigned;
    bool compressed;   /* VARCHAR … COMPRESSED of MariaDB */
    uint8_t prefix;    /* bytes of the length before a value; 0: a value always has `size` bytes */
    uint8_t decimals;  /* digits after the point */
    uint8_t precision; /* all digits of a DECIMAL */
    uint32_t pad;      /* ZEROFILL: minimum number of digits */
    uint32_t size;     /* bytes at most */
    uint32_t room;
    char *name;
};

/* A column of a map: its actual type, with its two bytes of metadata as a number. */
struct logged {
    unsigned type;
    unsigned meta; /* VARCHAR, STRING: bytes; DECIMAL: precision and, above it, scale … */
};

/* ---- row_image_type.c ---- */

/* Takes the next column of the map: its type from *types, its metadata from *meta. ERR_DAMAGED: the
 * metadata is too short; ERR_REFUSED: a type that a MEMORY table cannot have. */
int logged_next(const uint8_t **types, const uint8_t **meta, const uint8_t *end, struct logged *out,
                struct err *e);
/* How to read values of `c` whose type in the log is `l`. ERR_CHANGED: it cannot be that column. */
int field_make(struct field *f, const struct db_column *c, const struct logged *l, struct err *e);

/* ---- row_image_value.c ---- */

field_put field_put_int, field_put_real, field_put_decimal, field_put_text, field_put_filled,
    field_put_uuid, field_put_uuid_old, field_put_inet4, field_put_inet6;
field_put field_put_year, field_put_date, field_put_time, field_put_time_old, field_put_time_hires,
    field_put_datetime, field_put_datetime_old, field_put_datetime_hires, field_put_timestamp,
    field_put_timestamp_old, field_put_timestamp_hires;
/* Bytes of a DECIMAL. */
unsigned decimal_size(unsigned precision, unsigned scale);

/* Numbers of `n` bytes, little endian or big endian. */
static inline uint64_t low_first(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | p[n];
    return v;
}

static inline uint64_t high_first(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | *p++;
    return v;
}

#endif
