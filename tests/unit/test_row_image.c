/* binlog/row_image: rows of the binary log become tuples, value by value. What servers write is
 * compared with what they read in tests/system/test_binlog_rows.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/text.h"
#include "binlog/row_image.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define BYTES(s) s, sizeof(s) - 1

struct value {
    const char *type; /* COLUMN_TYPE */
    enum db_encoding encoding;
    uint8_t logged; /* type of the map, and its metadata */
    const char *meta;
    size_t meta_len;
    const char *bytes; /* in the image */
    size_t len;
    const char *text; /* in the tuple */
};

/* ---- one column, one row ---- */

static struct row_image *open_one(const struct value *v, const uint8_t *extra, size_t extra_len,
                                  struct err *e)
{
    char name[] = "c", table[] = "t";
    char *type = xstrdup(v->type);
    struct db_column column = {.name = name, .type = type, .encoding = v->encoding};
    struct db_table t = {.name = table, .columns = &column, .column_count = 1};
    struct event_map map = {.schema = "s",
                            .table = "t",
                            .columns = 1,
                            .types = &v->logged,
                            .meta = (const uint8_t *)v->meta,
                            .meta_len = v->meta_len,
                            .extra = extra ? extra : (const uint8_t *)"",
                            .extra_len = extra_len};
    struct row_image *m = row_image_open(&map, &t, e);
    if (m)
        assert_true(row_image_fits(m, &map));
    free(type);
    return m;
}

/* An image of one column in memory of its very size. */
static char *one_image(const char *bytes, size_t len, bool null)
{
    char *p = malloc(len + 1);
    assert_non_null(p);
    p[0] = null ? (char)0xff : (char)0xfe;
    memcpy(p + 1, bytes, len);
    return p;
}

static void check_value(const struct value *v)
{
    static const uint8_t present[] = {0xff};
    const struct event_rows one = {.columns = 1, .present = present};
    struct err e = {0};
    struct buf out = {0};
    struct row_image *m = open_one(v, NULL, 0, &e);
    if (!m)
        fail_msg("%s: %s", v->type, e.text);
    char *whole = one_image(v->bytes, v->len, false);
    buf_adds(&out, "before");
    const char *next = row_image_read(m, &one, false, whole, whole + v->len + 1, &out, &e);
    if (!next)
        fail_msg("%s: %s", v->type, e.text);
    assert_true(next == whole + v->len + 1);
    char *want = xasprintf("before(%s)", v->text);
    assert_string_equal(out.p, want);
    assert_int_equal(out.len, strlen(want));
    free(want);
    free(whole);
    for (size_t len = 0; len < v->len; len++) { /* cut anywhere it is an error */
        char *part = one_image(v->bytes, len, false);
        size_t had = out.len;
        assert_null(row_image_read(m, &one, false, part, part + len + 1, &out, &e));
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_int_equal(out.len, had);
        free(part);
    }
    char *null = one_image("", 0, true);
    buf_clear(&out);
    assert_non_null(row_image_read(m, &one, false, null, null + 1, &out, &e));
    assert_string_equal(out.p, "(NULL)");
    assert_null(row_image_read(m, &one, false, null, null, &out, &e));
    free(null);
    buf_free(&out);
    row_image_close(m);
}

static const struct value numbers[] = {
    {"tinyint(4)", DB_RAW, 1, BYTES(""), BYTES("\x80"), "-128"},
    {"tinyint(3) unsigned", DB_RAW, 1, BYTES(""), BYTES("\xff"), "255"},
    {"tinyint(3) unsigned zerofill", DB_RAW, 1, BYTES(""), BYTES("\x07"), "007"},
    {"tinyint", DB_RAW, 1, BYTES(""), BYTES("\x7f"), "127"},
    {"smallint(6)", DB_RAW, 2, BYTES(""), BYTES("\x00\x80"), "-32768"},
    {"smallint(5) unsigned", DB_RAW, 2, BYTES(""), BYTES("\xff\xff"), "65535"},
    {"mediumint(9)", DB_RAW, 9, BYTES(""), BYTES("\x00\x00\x80"), "-8388608"},
    {"mediumint(8) unsigned", DB_RAW, 9, BYTES(""), BYTES("\xff\xff\xff"), "16777215"},
    {"int(11)", DB_RAW, 3, BYTES(""), BYTES("\xff\xff\xff\xff"), "-1"},
    {"int(11)", DB_RAW, 3, BYTES(""), BYTES("\x00\x00\x00\x80"), "-2147483648"},
    {"int unsigned", DB_RAW, 3, BYTES(""), BYTES("\xff\xff\xff\xff"), "4294967295"},
    {"int(10) unsigned zerofill", DB_RAW, 3, BYTES(""), BYTES("\0\0\0\0"), "0000000000"},
    {"int(255) unsigned zerofill", DB_RAW, 3, BYTES(""), BYTES("\1\0\0\0"),
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "0"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "0"
     "0000000000000000000000000000000000000000000000000000000000000000001"},
    {"bigint(20)", DB_RAW, 8, BYTES(""), BYTES("\0\0\0\0\0\0\0\x80"), "-9223372036854775808"},
    {"bigint(20) unsigned", DB_RAW, 8, BYTES(""), BYTES("\xff\xff\xff\xff\xff\xff\xff\xff"),
     "18446744073709551615"},
    {"float", DB_DOUBLE, 4, BYTES("\x04"), BYTES("\xff\xff\x7f\x4b"), "16777215"},
    {"float(7,3) unsigned", DB_DOUBLE, 4, BYTES("\x04"), BYTES("\x00\x00\x00\x80"), "-0e0"},
    {"double", DB_DOUBLE, 5, BYTES("\x08"), BYTES("\x9a\x99\x99\x99\x99\x99\xb9\x3f"), "0.1"},
    {"decimal(10,3) unsigned zerofill", DB_RAW, 246, BYTES("\x0a\x03"),
     BYTES("\x80\x00\x00\x0c\x01\xf4"), "0000012.500"},
    {"decimal(10,3)", DB_RAW, 246, BYTES("\x0a\x03"), BYTES("\x7f\xff\xff\xf3\xfe\x0b"), "-12.500"},
    {"decimal(2,2)", DB_RAW, 246, BYTES("\x02\x02"), BYTES("\xb2"), "0.50"},
    {"decimal(2,2) unsigned zerofill", DB_RAW, 246, BYTES("\x02\x02"), BYTES("\x80"), "0.00"},
    {"decimal(1,0)", DB_RAW, 246, BYTES("\x01\x00"), BYTES("\x80"), "0"},
    {"decimal(18,9)", DB_RAW, 246, BYTES("\x12\x09"), BYTES("\x80\x00\x00\x01\x00\x00\x00\x02"),
     "1.000000002"},
    {"bit(1)", DB_BITS, 16, BYTES("\x01\x00"), BYTES("\x01"), "0x01"},
    {"bit(9)", DB_BITS, 16, BYTES("\x01\x01"), BYTES("\x01\xff"), "0x01ff"},
    {"bit(64)", DB_BITS, 16, BYTES("\x00\x08"), BYTES("\0\0\0\0\0\0\0\0"), "0x0000000000000000"},
    {"enum('a','b')", DB_INDEX, 254, BYTES("\xf7\x01"), BYTES("\x02"), "2"},
    {"set('a','b','c','d','e','f','g','h','i')", DB_INDEX, 254, BYTES("\xf8\x02"),
     BYTES("\x01\x01"), "257"},
};

static const struct value times[] = {
    {"year(4)", DB_BYTES, 13, BYTES(""), BYTES("\0"), "'0000'"},
    {"year(4)", DB_BYTES, 13, BYTES(""), BYTES("\xff"), "'2155'"},
    {"year(2)", DB_BYTES, 13, BYTES(""), BYTES("\x69"), "'05'"},
    {"date", DB_BYTES, 10, BYTES(""), BYTES("\0\0\0"), "'0000-00-00'"},
    {"date", DB_BYTES, 10, BYTES(""), BYTES("\x9f\x1f\x4e"), "'9999-12-31'"},
    {"time", DB_BYTES, 19, BYTES("\x00"), BYTES("\x80\x00\x00"), "'00:00:00'"},
    {"time", DB_BYTES, 19, BYTES("\x00"), BYTES("\x4b\x91\x05"), "'-838:59:59'"},
    {"time(6)", DB_BYTES, 19, BYTES("\x06"), BYTES("\x7f\xff\xff\xff\xff\xff"),
     "'-00:00:00.000001'"},
    {"time(1)", DB_BYTES, 19, BYTES("\x01"), BYTES("\x7f\xff\xff\xce"), "'-00:00:00.5'"},
    {"time(3)", DB_BYTES, 19, BYTES("\x03"), BYTES("\x80\x00\x01\x00\x0a"), "'00:00:01.001'"},
    {"datetime", DB_BYTES, 18, BYTES("\x00"), BYTES("\x80\x00\x00\x00\x00"),
     "'0000-00-00 00:00:00'"},
    {"datetime(6)", DB_BYTES, 18, BYTES("\x06"), BYTES("\xfe\xf3\xff\x7e\xfb\x0f\x42\x3f"),
     "'9999-12-31 23:59:59.999999'"},
    {"datetime(5)", DB_BYTES, 18, BYTES("\x05"), BYTES("\xfe\xf3\xff\x7e\xfb\x0f\x42\x36"),
     "'9999-12-31 23:59:59.99999'"},
    {"timestamp", DB_BYTES, 17, BYTES("\x00"), BYTES("\0\0\0\0"), "'0000-00-00 00:00:00'"},
    {"timestamp", DB_BYTES, 17, BYTES("\x00"), BYTES("\0\0\0\1"), "'1970-01-01 00:00:01'"},
    {"timestamp", DB_BYTES, 17, BYTES("\x00"), BYTES("\x7f\xff\xff\xff"), "'2038-01-19 03:14:07'"},
    {"timestamp", DB_BYTES, 17, BYTES("\x00"), BYTES("\xff\xff\xff\xff"), "'2106-02-07 06:28:15'"},
    {"timestamp", DB_BYTES, 17, BYTES("\x00"), BYTES("\x65\xe0\x3e\x80"), "'2024-02-29 08:21:20'"},
    {"timestamp(2)", DB_BYTES, 17, BYTES("\x02"), BYTES("\0\0\0\0\0"), "'0000-00-00 00:00:00.00'"},
    {"timestamp(4)", DB_BYTES, 17, BYTES("\x04"), BYTES("\0\0\0\1\x27\x0f"),
     "'1970-01-01 00:00:01.9999'"},
    /* MariaDB's own formats */
    {"time /* mariadb-5.3 */", DB_BYTES, 11, BYTES(""), BYTES("\xc7\xcf\xff"), "'-01:23:45'"},
    {"time", DB_BYTES, 11, BYTES(""), BYTES("\x40\xe2\x01"), "'12:34:56'"},
    {"time(6)", DB_BYTES, 11, BYTES(""), BYTES("\x02\xbf\x3d\xde\x7c\x00"), "'00:00:00.000000'"},
    {"time(6)", DB_BYTES, 11, BYTES(""), BYTES("\x02\xbf\x3d\xde\x7b\xff"), "'-00:00:00.000001'"},
    {"time(1)", DB_BYTES, 11, BYTES(""), BYTES("\x01\xcc\xe0\x5b"), "'-00:00:00.5'"},
    {"datetime(3)", DB_BYTES, 12, BYTES(""), BYTES("\x00\x42\x2b\xb5\x9e\x98\x95"),
     "'2024-02-29 12:34:56.789'"},
    {"datetime", DB_BYTES, 12, BYTES(""), BYTES("\x40\xc3\x07\x84\x68\x12\x00\x00"),
     "'2024-01-01 00:00:00'"},
    {"timestamp", DB_BYTES, 7, BYTES(""), BYTES("\x01\0\0\0"), "'1970-01-01 00:00:01'"},
    {"timestamp(1)", DB_BYTES, 7, BYTES(""), BYTES("\0\0\0\1\x09"), "'1970-01-01 00:00:01.9'"},
};

static const struct value texts[] = {
    {"char(4)", DB_BYTES, 254, BYTES("\xfe\x10"), BYTES("\x03it'"), "'it\\''"},
    {"char(4)", DB_BYTES, 254, BYTES("\xfe\x10"), BYTES("\x00"), "''"},
    {"char(0)", DB_BYTES, 254, BYTES("\xfe\x00"), BYTES("\x00"), "''"},
    {"char(255)", DB_BYTES, 254, BYTES("\xce\xfc"), BYTES("\x01\x00z"), "'z'"}, /* 1020 bytes */
    {"char(128)", DB_BYTES, 254, BYTES("\xee\x00"), BYTES("\x01\x00z"), "'z'"},
    {"binary(4)", DB_BYTES, 254, BYTES("\xfe\x04"), BYTES("\x01q"), "'q\\0\\0\\0'"},
    {"binary(4)", DB_BYTES, 254, BYTES("\xfe\x04"), BYTES("\x00"), "'\\0\\0\\0\\0'"},
    {"varchar(20)", DB_BYTES, 15, BYTES("\x50\x00"), BYTES("\x03 \n "), "' \\n '"},
    {"varchar(64)", DB_BYTES, 15, BYTES("\x00\x01"), BYTES("\x02\x00\xc5\x90"), "'\xc5\x90'"},
    {"varbinary(255)", DB_BYTES, 15, BYTES("\xff\x00"), BYTES("\x01\\"), "'\\\\'"},
    {"varbinary(300)", DB_BYTES, 15, BYTES("\x2c\x01"), BYTES("\x00\x00"), "''"},
    {"inet4", DB_LATIN1, 254, BYTES("\xfe\x04"), BYTES("\x04\x5c\x27\x0d\x0a"),
     "_latin1'92.39.13.10'"},
    {"inet4", DB_LATIN1, 254, BYTES("\xfe\x04"), BYTES("\x00"), "_latin1'0.0.0.0'"},
    {"inet6", DB_LATIN1, 254, BYTES("\xfe\x10"), BYTES("\x00"), "_latin1'::'"},
    {"inet6", DB_LATIN1, 254, BYTES("\xfe\x10"),
     BYTES("\x10\0\0\0\0\0\0\0\0\0\0\xff\xff\x5c\x27\x0d\x0a"), "_latin1'::ffff:92.39.13.10'"},
    {"inet6", DB_LATIN1, 254, BYTES("\xfe\x10"),
     BYTES("\x10\x20\x01\x0d\xb8\0\0\0\0\0\1\0\0\0\0\0\1"), "_latin1'2001:db8::1:0:0:1'"},
};

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++)
        check_value(&numbers[i]);
    for (size_t i = 0; i < COUNT(times); i++)
        check_value(&times[i]);
    for (size_t i = 0; i < COUNT(texts); i++)
        check_value(&texts[i]);
}

/* ---- UUID ---- */

/* Time-based ones are turned around, so that those made near each other lie together. */
static void test_uuid(void **state)
{
    (void)state;
    static const uint8_t turned[] = "\x10\x08\x00\x20\x0c\x9a\x66\xbe\xef\x11\xd0\xfe\x46\x6c\x2c"
                                    "\x93\x79";
    struct value v = {"uuid",
                      DB_LATIN1,
                      254,
                      BYTES("\xfe\x10"),
                      (const char *)turned,
                      17,
                      "_latin1'6c2c9379-fe46-11d0-beef-0800200c9a66'"};
    check_value(&v);
    static const uint8_t straight[] = "\x10\x01\x8f\x2d\x9f\x7a\x11\x7c\xde\x80\x00\x01\x02\x03\x04"
                                      "\x05\x06";
    v.bytes = (const char *)straight;
    v.text = "_latin1'018f2d9f-7a11-7cde-8000-010203040506'";
    check_value(&v);
    v.bytes = "\x00";
    v.len = 1;
    v.text = "_latin1'00000000-0000-0000-0000-000000000000'";
    check_value(&v);
}

/* ---- compressed ---- */

static struct buf packed(const char *text, size_t len, int bits)
{
    struct buf b = {0};
    z_stream z = {0};
    unsigned char out[1000];
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)len;
    z.next_out = out;
    z.avail_out = sizeof out;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = sizeof out - z.avail_out;
    deflateEnd(&z);
    size_t whole = n + 3;
    buf_addc(&b, (char)(whole & 0xff));
    buf_addc(&b, (char)(whole >> 8));
    buf_addc(&b, (char)(0x80 | (bits < 0 ? 8 : 0) | 2));
    buf_addc(&b, (char)(len >> 8));
    buf_addc(&b, (char)len);
    buf_add(&b, out, n);
    return b;
}

static void test_compressed(void **state)
{
    (void)state;
    char text[401], want[420];
    memset(text, 'a', 400);
    text[400] = '\0';
    snprintf(want, sizeof want, "'%s'", text);
    struct value v = {
        "varchar(100) /*M!100301 COMPRESSED*/", DB_BYTES, 141, BYTES("\x91\x01"), "", 0, want};
    for (int i = 0; i < 2; i++) {
        struct buf b = packed(text, 400, i ? -15 : 15);
        v.bytes = b.p;
        v.len = b.len;
        check_value(&v);
        static const uint8_t present[] = {1};
        const struct event_rows one = {.columns = 1, .present = present};
        for (size_t bad = 2; bad < 6; bad++) { /* mark, length, zlib's own header */
            struct err e = {0};
            struct buf out = {0};
            struct row_image *m = open_one(&v, NULL, 0, &e);
            b.p[bad] ^= 0x55;
            char *row = one_image(b.p, b.len, false);
            assert_null(row_image_read(m, &one, false, row, row + b.len + 1, &out, &e));
            assert_int_equal(e.cls, ERR_DAMAGED);
            b.p[bad] ^= 0x55;
            free(row);
            buf_free(&out);
            row_image_close(m);
        }
        buf_free(&b);
    }
    v.bytes = "\x05\x00\x00plai";
    v.len = 7;
    v.text = "'plai'";
    check_value(&v);
    v.bytes = "\x00\x00";
    v.len = 2;
    v.text = "''";
    check_value(&v);
}

/* ---- what does not fit ---- */

static void test_misfits(void **state)
{
    (void)state;
    static const struct {
        struct value v;
        enum err_class cls;
    } cases[] = {
        {{"bigint(20)", DB_RAW, 3, BYTES(""), BYTES(""), ""}, ERR_CHANGED},
        {{"int(11)", DB_RAW, 8, BYTES(""), BYTES(""), ""}, ERR_CHANGED},
        {{"int(11)", DB_RAW, 15, BYTES("\x01\x00"), BYTES(""), ""}, ERR_CHANGED},
        {{"varchar(10)", DB_BYTES, 15, BYTES("\x29\x00"), BYTES(""), ""}, ERR_CHANGED},
        {{"varchar(10)", DB_BYTES, 15, BYTES("\x46\x00"), BYTES(""), ""}, ERR_CHANGED},
        {{"varbinary(10)", DB_BYTES, 15, BYTES("\x28\x00"), BYTES(""), ""}, ERR_CHANGED},
        {{"varchar(10)", DB_BYTES, 254, BYTES("\xfe\x0a"), BYTES(""), ""}, ERR_CHANGED},
        {{"varchar(10)", DB_BYTES, 141, BYTES("\x0b\x00"), BYTES(""), ""}, ERR_CHANGED},
        {{"char(10)", DB_BYTES, 254, BYTES("\xfe\x0b"), BYTES(""), ""}, ERR_CHANGED},
        {{"char(10)", DB_BYTES, 254, BYTES("\xf7\x01"), BYTES(""), ""}, ERR_CHANGED},
        {{"binary(10)", DB_BYTES, 254, BYTES("\xfe\x14"), BYTES(""), ""}, ERR_CHANGED},
        {{"decimal(10,3)", DB_RAW, 246, BYTES("\x0a\x02"), BYTES(""), ""}, ERR_CHANGED},
        {{"decimal(99,3)", DB_RAW, 246, BYTES("\x63\x03"), BYTES(""), ""}, ERR_CHANGED},
        {{"float", DB_DOUBLE, 5, BYTES("\x08"), BYTES(""), ""}, ERR_CHANGED},
        {{"double", DB_DOUBLE, 5, BYTES("\x04"), BYTES(""), ""}, ERR_CHANGED},
        {{"bit(9)", DB_BITS, 16, BYTES("\x00\x01"), BYTES(""), ""}, ERR_CHANGED},
        {{"time(3)", DB_BYTES, 19, BYTES("\x06"), BYTES(""), ""}, ERR_CHANGED},
        {{"datetime", DB_BYTES, 17, BYTES("\x00"), BYTES(""), ""}, ERR_CHANGED},
        {{"timestamp(7)", DB_BYTES, 17, BYTES("\x07"), BYTES(""), ""}, ERR_CHANGED},
        {{"enum('a')", DB_INDEX, 254, BYTES("\xf7\x02"), BYTES(""), ""}, ERR_CHANGED},
        {{"enum('a')", DB_INDEX, 254, BYTES("\xf8\x01"), BYTES(""), ""}, ERR_CHANGED},
        {{"enum('a", DB_INDEX, 254, BYTES("\xf7\x01"), BYTES(""), ""}, ERR_CHANGED},
        {{"set('a')", DB_INDEX, 254, BYTES("\xf8\x08"), BYTES(""), ""}, ERR_CHANGED},
        {{"uuid", DB_LATIN1, 254, BYTES("\xfe\x24"), BYTES(""), ""}, ERR_CHANGED},
        {{"inet6", DB_LATIN1, 254, BYTES("\xfe\x04"), BYTES(""), ""}, ERR_CHANGED},
        /* only UUID has an old format; of an INET4, 12 bytes of it would not be read at all */
        {{"inet4 /* old */", DB_LATIN1, 254, BYTES("\xfe\x04"), BYTES(""), ""}, ERR_CHANGED},
        {{"inet6 /* old */", DB_LATIN1, 254, BYTES("\xfe\x10"), BYTES(""), ""}, ERR_CHANGED},
        {{"text", DB_BYTES, 252, BYTES("\x02"), BYTES(""), ""}, ERR_REFUSED},
        {{"json", DB_UTF8, 245, BYTES("\x04"), BYTES(""), ""}, ERR_REFUSED},
        {{"point", DB_BYTES, 254, BYTES("\xfe\x04"), BYTES(""), ""}, ERR_REFUSED},
        {{"a_type_with_a_very_long_name", DB_BYTES, 3, BYTES(""), BYTES(""), ""}, ERR_REFUSED},
        {{"int(11)", DB_RAW, 3, BYTES("\x01"), BYTES(""), ""}, ERR_DAMAGED},
        {{"varchar(1)", DB_BYTES, 15, BYTES("\x01"), BYTES(""), ""}, ERR_DAMAGED},
        {{"char(1)", DB_BYTES, 254, BYTES("\x33\x01"), BYTES(""), ""}, ERR_DAMAGED},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        struct row_image *m = open_one(&cases[i].v, NULL, 0, &e);
        if (m || e.cls != cases[i].cls)
            fail_msg("case %zu, %s: %s", i, cases[i].v.type, m ? "fits" : e.text);
        assert_true(text_starts(e.text, "table t: "));
    }
}

/* Values that no server writes: more than fits, and digits that are none. */
static void test_wrong_values(void **state)
{
    (void)state;
    static const uint8_t present[] = {1};
    const struct event_rows one = {.columns = 1, .present = present};
    static const struct value cases[] = {
        {"char(4)", DB_BYTES, 254, BYTES("\xfe\x04"), BYTES("\x05zzzzz"), ""},
        {"binary(4)", DB_BYTES, 254, BYTES("\xfe\x04"), BYTES("\x05zzzzz"), ""},
        {"varchar(2)", DB_BYTES, 15, BYTES("\x02\x00"), BYTES("\x03zzz"), ""},
        {"uuid", DB_LATIN1, 254, BYTES("\xfe\x10"), BYTES("\x11zzzzzzzzzzzzzzzzz"), ""},
        {"inet4", DB_LATIN1, 254, BYTES("\xfe\x04"), BYTES("\x05zzzzz"), ""},
        {"decimal(1,0)", DB_RAW, 246, BYTES("\x01\x00"), BYTES("\x8a"), ""},
        {"decimal(2,2)", DB_RAW, 246, BYTES("\x02\x02"), BYTES("\xe4"), ""},
        {"decimal(9,0)", DB_RAW, 246, BYTES("\x09\x00"), BYTES("\xff\xff\xff\xff"), ""},
        {"float", DB_DOUBLE, 4, BYTES("\x04"), BYTES("\x00\x00\xc0\x7f"), ""},
        {"double", DB_DOUBLE, 5, BYTES("\x08"), BYTES("\x00\x00\x00\x00\x00\x00\xf0\xff"), ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        struct buf out = {0};
        struct row_image *m = open_one(&cases[i], NULL, 0, &e);
        assert_non_null(m);
        char *row = one_image(cases[i].bytes, cases[i].len, false);
        assert_null(row_image_read(m, &one, false, row, row + cases[i].len + 1, &out, &e));
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_int_equal(out.len, 0);
        free(row);
        buf_free(&out);
        row_image_close(m);
    }
}

/* Signs and names, where the server is told to write them. */
static void test_extra(void **state)
{
    (void)state;
    static const struct {
        const char *extra;
        size_t len;
        enum err_class cls;
    } cases[] = {
        {BYTES("\x01\x01\x80\x04\x02\x01"
               "c"),
         ERR_NONE},
        {BYTES("\x63\x03zzz\x01\x01\xff"), ERR_NONE},
        {BYTES("\x01\x01\x00"), ERR_CHANGED},
        {BYTES("\x04\x02\x01"
               "d"),
         ERR_CHANGED},
        {BYTES("\x04\x03\x02"
               "cc"),
         ERR_CHANGED},
        {BYTES("\x01\x00"), ERR_DAMAGED},
        {BYTES("\x01\x02\x80"), ERR_DAMAGED},
        {BYTES("\x01"), ERR_DAMAGED},
        {BYTES("\x04\x02\x02"
               "c"),
         ERR_DAMAGED},
        {BYTES("\x04\x00"), ERR_DAMAGED},
    };
    const struct value v = {"int(10) unsigned", DB_RAW, 3, BYTES(""), BYTES(""), ""};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        uint8_t *extra = malloc(cases[i].len);
        assert_non_null(extra);
        memcpy(extra, cases[i].extra, cases[i].len);
        struct row_image *m = open_one(&v, extra, cases[i].len, &e);
        if (e.cls != cases[i].cls)
            fail_msg("case %zu: %s", i, e.text);
        row_image_close(m);
        free(extra);
    }
}

/* MariaDB counts YEAR among what has a sign, MySQL does not. */
static void test_sign_of_year(void **state)
{
    (void)state;
    static char names[2][2] = {"y", "i"}, table[] = "t", year[] = "year(4)", number[] = "int(11)";
    struct db_column columns[] = {{.name = names[0], .type = year, .encoding = DB_BYTES},
                                  {.name = names[1], .type = number}};
    struct db_table t = {.name = table, .columns = columns, .column_count = 2};
    static const struct {
        uint8_t signs;
        bool is_unsigned, fits;
    } cases[] = {{0x80, false, true}, {0x00, false, true}, {0xc0, false, false},
                 {0xc0, true, true},  {0x80, true, true},  {0x00, true, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char whole[] = "int(10) unsigned";
        const uint8_t types[] = {13, 3}, extra[] = {1, 1, cases[i].signs};
        struct event_map map = {
            .columns = 2, .types = types, .meta = types, .extra = extra, .extra_len = 3};
        struct err e = {0};
        columns[1].type = cases[i].is_unsigned ? whole : number;
        struct row_image *m = row_image_open(&map, &t, &e);
        assert_int_equal(m != NULL, cases[i].fits);
        assert_int_equal(e.cls, cases[i].fits ? ERR_NONE : ERR_CHANGED);
        row_image_close(m);
    }
}

/* ---- many columns ---- */

#define WIDE 19

/* INT columns; the second and the last are generated. */
static struct row_image *open_wide(struct event_map *map)
{
    static char names[WIDE][8], type[] = "int(11)", table[] = "wide";
    static uint8_t types[WIDE];
    struct db_column columns[WIDE];
    struct db_table t = {.name = table, .columns = columns, .column_count = WIDE};
    for (int i = 0; i < WIDE; i++) {
        snprintf(names[i], sizeof names[i], "c%d", i);
        columns[i] = (struct db_column){
            .name = names[i], .type = type, .generated = i == 1 || i == WIDE - 1};
        types[i] = 3;
    }
    *map = (struct event_map){
        .columns = WIDE, .types = types, .meta = types, .extra = types, .schema = "", .table = ""};
    struct row_image *m = row_image_open(map, &t, NULL);
    assert_non_null(m);
    map->columns--;
    struct err e = {0};
    assert_null(row_image_open(map, &t, &e));
    assert_int_equal(e.cls, ERR_CHANGED);
    assert_false(row_image_fits(m, map));
    map->columns++;
    assert_true(row_image_fits(m, map));
    return m;
}

static struct buf wide_row(const uint8_t *present, const uint8_t *nulls)
{
    struct buf b = {0};
    uint8_t bits[3] = {0};
    unsigned k = 0;
    for (int i = 0; i < WIDE; i++)
        if (present[i / 8] >> i % 8 & 1) {
            bits[k / 8] |= (uint8_t)((nulls[i / 8] >> i % 8 & 1) << k % 8);
            k++;
        }
    buf_add(&b, bits, (k + 7) / 8);
    for (int i = 0; i < WIDE; i++)
        if ((present[i / 8] >> i % 8 & 1) && !(nulls[i / 8] >> i % 8 & 1))
            buf_add(&b, (char[]){(char)i, 0, 0, 0}, 4);
    return b;
}

static void test_present(void **state)
{
    (void)state;
    static const uint8_t all[] = {0xff, 0xff, 0xff}, none[] = {0, 0, 0},
                         plain[] = {0xfd, 0xff, 0xfb}, some[] = {0x02, 0x81, 0x06},
                         missing[] = {0xfe, 0xff, 0xff};
    struct event_map map;
    struct err e = {0};
    struct row_image *m = open_wide(&map);
    const char *whole = "(0,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)",
               *holes = "(0,2,3,4,5,6,7,NULL,9,10,11,12,13,14,NULL,16,NULL)";
    const struct {
        const uint8_t *present, *nulls;
        const char *want;
    } cases[] = {{all, none, whole},
                 {plain, none, whole},
                 {all, some, holes},
                 {plain, some, holes},
                 {all, none, whole}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = wide_row(cases[i].present, cases[i].nulls), out = {0};
        struct event_rows r = {.columns = WIDE, .present = cases[i].present, .present_after = all};
        const char *from = b.p, *end = from + b.len;
        assert_true(row_image_read(m, &r, false, from, end, &out, &e) == end);
        assert_string_equal(out.p, cases[i].want);
        r.present_after = missing;
        assert_null(row_image_read(m, &r, true, from, end, &out, &e));
        assert_int_equal(e.cls, ERR_REFUSED);
        r.present = missing;
        assert_null(row_image_read(m, &r, false, from, end, &out, &e));
        assert_int_equal(e.cls, ERR_REFUSED);
        r.columns--;
        assert_null(row_image_read(m, &r, false, from, end, &out, &e));
        assert_int_equal(e.cls, ERR_DAMAGED);
        buf_free(&out);
        buf_free(&b);
    }
    row_image_close(m);
}

/* The second image of an update may have options in front of it. */
static void test_options(void **state)
{
    (void)state;
    static const uint8_t all[] = {0xff, 0xff, 0xff}, none[] = {0, 0, 0};
    struct event_map map;
    struct err e = {0};
    struct row_image *m = open_wide(&map);
    const struct {
        const char *options;
        size_t len;
        enum err_class want;
    } cases[] = {{"\x00", 1, ERR_NONE},    {"\x01", 1, ERR_NONE},    {"\xfc\x01\x00", 3, ERR_NONE},
                 {"\x02", 1, ERR_REFUSED}, {"\xfb", 1, ERR_DAMAGED}, {"\xfc\x00", 2, ERR_DAMAGED},
                 {"", 0, ERR_DAMAGED}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf row = wide_row(all, none), b = {0}, out = {0};
        bool whole = cases[i].want == ERR_NONE;
        struct event_rows r = {
            .columns = WIDE, .present = all, .present_after = all, .options = true};
        buf_add(&b, cases[i].options, cases[i].len);
        if (cases[i].want != ERR_DAMAGED)
            buf_add(&b, row.p, row.len);
        const char *end = b.p + b.len, *next = row_image_read(m, &r, true, b.p, end, &out, &e);
        assert_true(next == (whole ? end : NULL));
        if (!whole)
            assert_int_equal(e.cls, cases[i].want);
        r.options = false;
        buf_clear(&out);
        next = row_image_read(m, &r, true, row.p, row.p + row.len, &out, &e);
        assert_true(next == row.p + row.len);
        buf_free(&row);
        buf_free(&b);
        buf_free(&out);
    }
    row_image_close(m);
}

/* Columns a VARBINARY(20), b INT, g INT generated, c INT; the key is (c, b). */
static struct row_image *open_keyed(struct event_map *map, size_t keys)
{
    static char names[4][2] = {"a", "b", "g", "c"}, table[] = "t", binary[] = "varbinary(20)",
                number[] = "int(11)";
    static unsigned key[] = {2, 1};
    static const uint8_t types[] = {15, 3, 3, 3}, meta[] = {20, 0};
    struct db_column columns[4];
    struct err e = {0};
    for (size_t i = 0; i < 4; i++)
        columns[i] = (struct db_column){.name = names[i],
                                        .type = i == 0 ? binary : number,
                                        .encoding = i == 0 ? DB_BYTES : DB_RAW,
                                        .generated = i == 2};
    struct db_table t = {
        .name = table, .columns = columns, .column_count = 4, .key = key, .key_count = keys};
    *map = (struct event_map){.columns = 4,
                              .types = types,
                              .meta = meta,
                              .meta_len = 2,
                              .extra = types,
                              .schema = "",
                              .table = ""};
    struct row_image *m = row_image_open(map, &t, &e);
    if (!m)
        fail_msg("%s", e.text);
    return m;
}

/* An image: a of `a` bytes, then b, g and c; NULL where the number is negative. */
static void add_keyed(struct buf *b, unsigned a, int n, int g, int c)
{
    const int all[] = {n, g, c};
    char nulls = (char)((n < 0) << 1 | (g < 0) << 2 | (c < 0) << 3);
    buf_addc(b, nulls);
    buf_addc(b, (char)a);
    for (unsigned i = 0; i < a; i++)
        buf_addc(b, 'x');
    for (int i = 0; i < 3; i++)
        if (all[i] >= 0)
            buf_add(b, (char[]){(char)all[i], 0, 0, 0}, 4);
}

/* Whether an update keeps its key: whatever else changes, and only if all of it is there. */
static void test_same_key(void **state)
{
    (void)state;
    static const uint8_t all[] = {0xff}, without_c[] = {0xf7};
    const struct {
        unsigned a;
        int b, g, c;
        bool same;
    } cases[] = {{3, 1, 1, 2, true},   {0, 1, 9, 2, true},  {20, 1, -1, 2, true},
                 {3, 9, 1, 2, false},  {3, 1, 1, 9, false}, {3, 2, 1, 1, false},
                 {3, -1, 1, 2, false}, {3, 1, 2, -1, false}};
    struct event_map map;
    struct row_image *m = open_keyed(&map, 2), *keyless = open_keyed(&map, 0);
    struct event_rows r = {.columns = 4, .present = all, .present_after = all};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = {0};
        add_keyed(&b, 3, 1, 1, 2);
        size_t first = b.len;
        add_keyed(&b, cases[i].a, cases[i].b, cases[i].g, cases[i].c);
        const char *end = b.p + b.len, *second = cases[i].same ? b.p + first : NULL;
        assert_ptr_equal(row_image_same_key(m, &r, b.p, end), second);
        assert_null(row_image_same_key(keyless, &r, b.p, end));
        for (size_t len = 0; len < b.len; len++) { /* cut: the end of the key is not there */
            char *part = malloc(len + 1);
            assert_non_null(part);
            memcpy(part, b.p, len);
            assert_null(row_image_same_key(m, &r, part, part + len));
            free(part);
        }
        r.present_after = without_c;
        assert_null(row_image_same_key(m, &r, b.p, end));
        r.present_after = all;
        r.columns--;
        assert_null(row_image_same_key(m, &r, b.p, end));
        r.columns++;
        buf_free(&b);
    }
    row_image_close(m);
    row_image_close(keyless);
}

static void test_only_generated(void **state)
{
    (void)state;
    char name[] = "c", type[] = "int(11)", table[] = "t";
    struct db_column column = {.name = name, .type = type, .generated = true};
    struct db_table t = {.name = table, .columns = &column, .column_count = 1};
    const uint8_t types[] = {3};
    struct event_map map = {.columns = 1, .types = types, .meta = types, .extra = types};
    struct err e = {0};
    assert_null(row_image_open(&map, &t, &e));
    assert_int_equal(e.cls, ERR_REFUSED);
    row_image_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_key), cmocka_unit_test(test_values),
        cmocka_unit_test(test_uuid),     cmocka_unit_test(test_compressed),
        cmocka_unit_test(test_misfits),  cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_extra),    cmocka_unit_test(test_sign_of_year),
        cmocka_unit_test(test_present),  cmocka_unit_test(test_options),
        cmocka_unit_test(test_same_key), cmocka_unit_test(test_only_generated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
