/* Shared by the files of row_image.h: the columns of an image (row_image_field.c). */
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
    LOG_BLOB = 252,
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
    bool skip; /* generated: not in the tuple */
    bool key;  /* part of the primary key */
    bool is_unsigned;
    bool has_sign;     /* a number whose range depends on its sign */
    bool compressed;   /* VARCHAR … COMPRESSED of MariaDB */
    uint8_t prefix;    /* bytes of the length before a value; 0: each value has `size` bytes */
    uint8_t decimals;  /* digits after the point */
    uint8_t precision; /* all digits of a DECIMAL */
    uint32_t pad;      /* ZEROFILL: minimum number of digits */
    uint32_t size;     /* maximum bytes */
    uint32_t room;
    char *name;
};

/* Read a number of `n` bytes, little endian or big endian. */
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
