/* binlog/event: events of the binary log, made by hand and as servers wrote them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/text.h"
#include "binlog/event.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define FORMAT 15u

/* ---- making events ---- */

static void put(struct buf *b, uint64_t v, unsigned n)
{
    for (; n--; v >>= 8)
        buf_addc(b, (char)(v & 0xff));
}

static void set32(struct buf *b, size_t at, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        b->p[at + i] = (char)(v >> 8 * i & 0xff);
}

/* The common header; end_event() sets the length. */
static struct buf begin_event(unsigned type, unsigned flags)
{
    struct buf b = {0};
    put(&b, 1700000000, 4);
    put(&b, type, 1);
    put(&b, 7, 4);
    put(&b, 0, 4);
    put(&b, 0xfffffff0, 4);
    put(&b, flags, 2);
    return b;
}

static void end_event(struct buf *b, bool checksum)
{
    set32(b, 9, (uint32_t)(b->len + (checksum ? 4 : 0)));
    if (checksum)
        put(b, crc32(0, (const Bytef *)b->p, (uInt)b->len), 4);
}

/* Reads from memory of the very size, so that the sanitizers see what is read beyond it. */
static int read_copy(const struct event_format *f, const char *p, size_t len, struct event *out,
                     char **copy)
{
    struct err e = {0};
    *copy = malloc(len ? len : 1);
    memcpy(*copy, p, len);
    int rc = event_read(f, *copy, len, out, &e);
    if (rc < 0) {
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_true(text_starts(e.text, "binary log event "));
    }
    return rc;
}

/* Every way of cutting a good event is an error: as it came, and with a length that fits. `loose`:
 * the last bytes that may go so without being missed (text up to the end). */
static void cut(const struct event_format *f, const struct buf *b, size_t loose)
{
    struct event ev;
    char *copy;
    for (size_t len = 0; len < b->len; len++) {
        assert_int_equal(read_copy(f, b->p, len, &ev, &copy), -1);
        free(copy);
        if (len < EVENT_HEADER)
            continue;
        struct buf shorter = {0};
        buf_add(&shorter, b->p, len);
        set32(&shorter, 9, (uint32_t)len);
        int rc = read_copy(f, shorter.p, len, &ev, &copy);
        if (rc == 0 && len + loose < b->len)
            fail_msg("event %u cut to %zu of %zu bytes is read", (unsigned char)b->p[4], len,
                     b->len);
        free(copy);
        buf_free(&shorter);
    }
}

static struct event_format mysql_format(bool checksum)
{
    struct event_format f = event_format_first(checksum);
    f.post[30] = f.post[31] = f.post[32] = 10;
    f.post[33] = f.post[34] = 42;
    return f;
}

static struct buf format_event(const char *version, unsigned types, unsigned kind, unsigned flags)
{
    struct buf b = begin_event(FORMAT, 0);
    char name[50] = {0};
    memcpy(name, version, strlen(version));
    put(&b, 4, 2);
    buf_add(&b, name, sizeof name);
    put(&b, 1699999999, 4);
    put(&b, EVENT_HEADER, 1);
    for (unsigned i = 1; i <= types; i++)
        put(&b, i == 2 ? 13 : i == 4 ? 8 : i == FORMAT ? 57 + types : i == 162 ? 19 : i, 1);
    put(&b, kind, 1);
    end_event(&b, true);
    b.p[17] = (char)flags; /* no checksum counts that the file is in use */
    return b;
}

/* ---- one test for each kind ---- */

static void test_format(void **state)
{
    (void)state;
    struct event_format first = event_format_first(false);
    struct event ev;
    char *copy;
    for (unsigned kind = 0; kind < 2; kind++)
        for (unsigned in_use = 0; in_use < 2; in_use++) {
            struct buf b =
                format_event(kind ? "10.11.6-MariaDB-log" : "8.4.2", kind ? 171 : 42, kind, in_use);
            assert_int_equal(read_copy(&first, b.p, b.len, &ev, &copy), 0);
            assert_int_equal(ev.kind, EVENT_FORMAT);
            assert_string_equal(ev.name, "FORMAT_DESCRIPTION");
            assert_int_equal(ev.at, 1700000000);
            assert_int_equal(ev.server_id, 7);
            assert_int_equal(ev.next, 0xfffffff0);
            assert_int_equal(ev.size, b.len);
            assert_int_equal(ev.flags, in_use);
            assert_int_equal(ev.format.checksum, kind);
            assert_int_equal(ev.format.created, 1699999999);
            assert_int_equal(ev.format.post[2], 13);
            assert_int_equal(ev.format.post[19], 19);
            assert_int_equal(ev.format.post[43], kind ? 43 : 0);
            free(copy);
            buf_free(&b);
        }
}

/* A name of 50 bytes fills its place, without an end; a server may call itself anything. */
static void test_format_names(void **state)
{
    (void)state;
    struct event_format first = event_format_first(false);
    struct event ev;
    char *copy, name[51];
    memset(name, 'x', 50);
    name[50] = '\0';
    struct buf b = format_event(name, 171, 1, 0);
    assert_int_equal(read_copy(&first, b.p, b.len, &ev, &copy), 0);
    free(copy);
    buf_free(&b);
}

static void test_format_broken(void **state)
{
    (void)state;
    struct event_format first = event_format_first(false);
    struct event ev;
    char *copy;
    const struct {
        unsigned types, kind;
        size_t at; /* byte that is changed, and to what */
        char to;
    } cases[] = {{14, 1, 0, 0}, {42, 2, 0, 0}, {42, 255, 0, 0}, {42, 1, 19, 3}, {42, 1, 75, 20}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = format_event("8.4.2", cases[i].types, cases[i].kind, 0);
        if (cases[i].at) {
            b.p[cases[i].at] = cases[i].to;
            b.len -= 4;
            end_event(&b, true);
        }
        assert_int_equal(read_copy(&first, b.p, b.len, &ev, &copy), -1);
        free(copy);
        buf_free(&b);
    }
}

static void test_query(void **state)
{
    (void)state;
    struct event_format f = event_format_first(false);
    struct event ev;
    char *copy;
    struct buf b = begin_event(2, 8);
    put(&b, 99, 4);
    put(&b, 1, 4);
    put(&b, 4, 1);
    put(&b, 1317, 2);
    put(&b, 14, 2);
    buf_add(&b, "\0\x08\0\0\0\x01\x04\0\0\0\0\0\0\x80", 14);
    buf_add(&b, "game\0", 5);
    buf_adds(&b, "DROP TABLE x");
    end_event(&b, false);
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
    assert_int_equal(ev.kind, EVENT_QUERY);
    assert_string_equal(ev.query.schema, "game");
    assert_int_equal(ev.query.len, 12);
    assert_memory_equal(ev.query.sql, "DROP TABLE x", 12);
    free(copy);
    cut(&f, &b, 12);
    b.p[EVENT_HEADER + 8] = 3; /* a name that does not end where it should */
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), -1);
    free(copy);
    buf_free(&b);
}

/* Reads a statement of a session with these variables. */
static struct event session_event(const char *variables, size_t len)
{
    struct event_format f = event_format_first(false);
    struct event ev;
    char *copy;
    struct buf b = begin_event(2, 8);
    put(&b, 0, 8);
    put(&b, 1, 1);
    put(&b, 0, 2);
    put(&b, len, 2);
    buf_add(&b, variables, len);
    buf_add(&b, "w\0DROP VIEW v", 13);
    end_event(&b, false);
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
    assert_int_equal(ev.query.len, 11);
    free(copy);
    buf_free(&b);
    return ev;
}

/* The character set of the session that a statement ran in. */
static void test_letters(void **state)
{
    (void)state;
#define LETTERS(s) session_event(s, sizeof(s) - 1).query.other_letters
#define UNREADABLE(s) session_event(s, sizeof(s) - 1).query.unreadable
#define SESSION                                                                                    \
    "\0abcd"                                                                                       \
    "\1abcdefgh"                                                                                   \
    "\6\3std"                                                                                      \
    "\3ABCD"                                                                                       \
    "\4"
    assert_false(LETTERS("") || LETTERS(SESSION) || LETTERS(SESSION "\x08"));
    assert_true(LETTERS(SESSION "\x08\0\x2d\0\x2d\0")); /* latin1 */
    assert_true(LETTERS(SESSION "\x1c\0\x2d\0\x2d\0")); /* GBK */
    assert_true(LETTERS(SESSION "\xf8\0"));             /* GB18030, between those of UTF-8 */
    assert_true(LETTERS("\2\3std\0\4\x08\0"));          /* as servers before 5.0.4 wrote it */
    assert_false(LETTERS("\4\x2d\0") || LETTERS("\4\x21\0") || LETTERS("\4\x0b\0"));
    assert_false(LETTERS("\4\x3f\0\x3f\0\x08\0")); /* binary, of our own sessions */
    assert_false(LETTERS("\4\xff\0") || LETTERS("\4\xe0\0") || LETTERS("\4\x2d\4"));
    assert_false(LETTERS("\4\0\x09") ||
                 LETTERS("\6\xff"
                         "x") ||
                 LETTERS("\x63\4\x08\0"));
    assert_true(UNREADABLE("\4\x0a\0") && UNREADABLE("\4\x52\0") && UNREADABLE("\4\x0a\4"));
    assert_false(UNREADABLE(SESSION "\x1c\0\x2d\0\x2d\0") || UNREADABLE("\4\x21\0"));
}

static void test_rotate(void **state)
{
    (void)state;
    struct event_format f = event_format_first(false);
    struct event ev;
    char *copy, name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    struct buf b = begin_event(4, 0x20);
    put(&b, UINT64_C(0x123456789), 8);
    buf_adds(&b, "log.000042");
    end_event(&b, false);
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
    assert_int_equal(ev.kind, EVENT_ROTATE);
    assert_string_equal(ev.rotate.file, "log.000042");
    assert_true(ev.rotate.pos == UINT64_C(0x123456789));
    free(copy);
    cut(&f, &b, 9);
    for (int more = 0; more < 2; more++) { /* 255 bytes fit */
        b.len = EVENT_HEADER + 8;
        buf_adds(&b, name);
        if (more)
            buf_addc(&b, 'n');
        end_event(&b, false);
        assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), more ? -1 : 0);
        if (!more)
            assert_string_equal(ev.rotate.file, name);
        free(copy);
    }
    buf_free(&b);
}

static void test_gtid(void **state)
{
    (void)state;
    struct event_format f = mysql_format(false);
    struct event ev;
    char *copy;
    static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    for (unsigned type = 33; type < 35; type++) {
        struct buf b = begin_event(type, 0);
        put(&b, 1, 1);
        buf_add(&b, uuid, 16);
        put(&b, UINT64_C(0x0102030405060708), 8);
        put(&b, 2, 17);
        put(&b, 5, 9);
        end_event(&b, false);
        assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
        assert_int_equal(ev.kind, EVENT_GTID);
        assert_false(ev.gtid.mariadb);
        assert_memory_equal(ev.gtid.uuid, uuid, 16);
        assert_true(ev.gtid.seq == UINT64_C(0x0102030405060708));
        free(copy);
        cut(&f, &b, 9);
        buf_free(&b);
    }
    f.post[162] = 19;
    for (unsigned flags = 0; flags < 2; flags++) {
        struct buf b = begin_event(162, 0);
        put(&b, UINT64_C(1234567890123), 8);
        put(&b, 3, 4);
        put(&b, flags | 0x28, 1);
        put(&b, 0, 6);
        end_event(&b, false);
        assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
        assert_int_equal(ev.kind, EVENT_GTID);
        assert_true(ev.gtid.mariadb);
        assert_int_equal(ev.gtid.domain, 3);
        assert_true(ev.gtid.seq == UINT64_C(1234567890123));
        assert_int_equal(ev.gtid.standalone, flags);
        free(copy);
        cut(&f, &b, 0);
        buf_free(&b);
    }
}

/* Of 77d1902c-01da-11f1-9a41-908d6e5f6e8d:test_tag:1, as MySQL 8.4 serializes it. */
static const unsigned char tagged[] = {
    0x02, 0x7c, 0x00, 0x00, 0x02, 0x02, 0xee, 0x45, 0x03, 0x41, 0x02, 0x58, 0x02, 0x69, 0x03, 0x22,
    0xc5, 0x03, 0x69, 0x02, 0x82, 0x41, 0x02, 0x35, 0x02, 0xdc, 0xbe, 0xdc, 0x35, 0x02, 0x04, 0x04,
    0x06, 0x10, 't',  'e',  's',  't',  '_',  't',  'a',  'g',  0x08, 0x00, 0x0a, 0x04, 0x0c, 0x7f};

static void test_gtid_tagged(void **state)
{
    (void)state;
    struct event_format f = mysql_format(false);
    struct event ev;
    char *copy;
    static const uint8_t uuid[16] = {0x77, 0xd1, 0x90, 0x2c, 0x01, 0xda, 0x11, 0xf1,
                                     0x9a, 0x41, 0x90, 0x8d, 0x6e, 0x5f, 0x6e, 0x8d};
    struct buf b = begin_event(42, 0);
    buf_add(&b, tagged, sizeof tagged);
    end_event(&b, false);
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
    assert_int_equal(ev.kind, EVENT_GTID);
    assert_memory_equal(ev.gtid.uuid, uuid, 16);
    assert_int_equal(ev.gtid.seq, 1);
    assert_string_equal(ev.gtid.tag, "test_tag");
    free(copy);
    cut(&f, &b, 6);
    b.p[EVENT_HEADER] = 4; /* another version */
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), -1);
    free(copy);
    b.p[EVENT_HEADER] = 2;
    b.p[EVENT_HEADER + 33] = (char)0x90; /* a tag of 72 bytes */
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), -1);
    free(copy);
    buf_free(&b);
}

/* Whatever it says of the sender's place: what counts is that it came. */
static void test_heartbeat(void **state)
{
    (void)state;
    struct event_format f = mysql_format(false);
    for (unsigned type = 27; type <= 41; type += 14) {
        struct event ev;
        char *copy;
        struct buf b = begin_event(type, 0);
        buf_adds(&b, "log.000001");
        end_event(&b, false);
        assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
        assert_int_equal(ev.kind, EVENT_HEARTBEAT);
        free(copy);
        buf_free(&b);
    }
}

static struct buf map_event(unsigned extra)
{
    struct buf b = begin_event(19, 0);
    put(&b, UINT64_C(0x060504030201), 6);
    put(&b, 1, 2);
    buf_add(&b, "\x04game\0\x06player\0", 14);
    put(&b, 3, 1);
    buf_add(&b, "\x03\x0f\x04", 3);
    put(&b, 3, 1);
    buf_add(&b, "\x50\x00\x04", 3);
    put(&b, 7, 1);
    for (; extra; extra--)
        put(&b, extra, 1);
    end_event(&b, false);
    return b;
}

static void test_map(void **state)
{
    (void)state;
    struct event_format f = mysql_format(false);
    struct event ev;
    char *copy;
    struct buf b = map_event(5);
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
    assert_int_equal(ev.kind, EVENT_MAP);
    assert_true(ev.map.table_id == UINT64_C(0x060504030201));
    assert_string_equal(ev.map.schema, "game");
    assert_string_equal(ev.map.table, "player");
    assert_int_equal(ev.map.columns, 3);
    assert_memory_equal(ev.map.types, "\x03\x0f\x04", 3);
    assert_int_equal(ev.map.meta_len, 3);
    assert_memory_equal(ev.map.meta, "\x50\x00\x04", 3);
    assert_int_equal(ev.map.extra_len, 5);
    assert_memory_equal(ev.map.extra, "\x05\x04\x03\x02\x01", 5);
    free(copy);
    cut(&f, &b, 5);
    buf_free(&b);
    const struct {
        size_t at;
        char to;
    } broken[] = {{27, 9},   {30, 0}, {32, 'x'},        {33, 0},
                  {40, 'x'}, {41, 0}, {41, (char)0xfb}, {45, (char)0xff}};
    for (size_t i = 0; i < COUNT(broken); i++) {
        b = map_event(0);
        b.p[broken[i].at] = broken[i].to;
        if (read_copy(&f, b.p, b.len, &ev, &copy) == 0)
            fail_msg("case %zu is read", i);
        free(copy);
        buf_free(&b);
    }
}

/* All three kinds, in both versions, and updates with options. */
static struct buf rows_event(unsigned type, uint64_t table, const char *rows)
{
    struct buf b = begin_event(type, 0);
    put(&b, table, 6);
    put(&b, 1, 2);
    if (type >= 30) {
        put(&b, 5, 2);
        buf_add(&b, "xyz", 3);
    }
    put(&b, 9, 1);
    put(&b, 0x1ff, 2);
    if (type == 39 || type % 3 == (type >= 30 ? 1 : 0))
        put(&b, 0x101, 2);
    buf_adds(&b, rows);
    end_event(&b, false);
    return b;
}

static void test_rows(void **state)
{
    (void)state;
    struct event_format f = mysql_format(false);
    static const unsigned types[] = {23, 24, 25, 30, 31, 32, 39};
    struct event ev;
    char *copy;
    for (size_t i = 0; i < COUNT(types); i++) {
        size_t op = types[i] == 39 ? EVENT_UPDATE : i % 3;
        struct buf b = rows_event(types[i], 77, "rows");
        assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
        assert_int_equal(ev.kind, EVENT_ROWS);
        assert_int_equal(ev.rows.op, (enum event_op)op);
        assert_int_equal(ev.rows.options, types[i] == 39);
        assert_int_equal(ev.rows.table_id, 77);
        assert_true(ev.rows.ends);
        assert_int_equal(ev.rows.columns, 9);
        assert_memory_equal(ev.rows.present, "\xff\x01", 2);
        assert_int_equal(ev.rows.present_after != NULL, op == EVENT_UPDATE);
        if (ev.rows.present_after)
            assert_memory_equal(ev.rows.present_after, "\x01\x01", 2);
        assert_int_equal(ev.rows.len, 4);
        assert_memory_equal(ev.rows.data, "rows", 4);
        free(copy);
        cut(&f, &b, 4);
        buf_free(&b);
    }
}

/* An event that only ends a statement; a table may have the same number. */
static void test_dummy(void **state)
{
    (void)state;
    struct event_format f = mysql_format(false);
    static const uint64_t ids[] = {0xffffff, UINT64_C(0xffffffffffff), 77};
    struct event ev;
    char *copy;
    for (size_t i = 0; i < COUNT(ids); i++)
        for (int full = 0; full < 2; full++) {
            struct buf b = rows_event(23, ids[i], full ? "rows" : "");
            assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
            assert_int_equal(ev.kind, ids[i] == 77 || full ? EVENT_ROWS : EVENT_SKIPPED);
            free(copy);
            buf_free(&b);
        }
}

/* ---- compressed ---- */

/* In front of the packed bytes: what they say that they are. `length` in two bytes. */
static void put_packed(struct buf *b, const char *plain, size_t len, unsigned mark, size_t length)
{
    Bytef packed[512];
    uLongf n = sizeof packed;
    assert_int_equal(compress(packed, &n, (const Bytef *)plain, len), Z_OK);
    buf_addc(b, (char)mark);
    for (unsigned i = mark & 7; i--;)
        buf_addc(b, (char)(length >> 8 * i & 0xff));
    buf_add(b, packed, n);
}

static struct buf packed_rows(unsigned type, const char *plain, size_t len, unsigned mark,
                              size_t length)
{
    struct buf b = begin_event(type, 0);
    put(&b, 0x123456, 6);
    put(&b, 1, 2); /* the statement's last */
    if (type >= 169)
        put(&b, 2, 2);
    buf_add(&b, "\x02\x03", 2);
    if (type == 167 || type == 170)
        buf_addc(&b, 3);
    put_packed(&b, plain, len, mark, length);
    end_event(&b, false);
    return b;
}

static struct event_format packed_format(void)
{
    struct event_format f = event_format_first(false);
    f.post[169] = f.post[170] = f.post[171] = 10;
    return f;
}

static void test_packed_rows(void **state)
{
    (void)state;
    const struct event_format f = packed_format();
    char plain[400];
    struct buf room = {0};
    struct err e = {0};
    memset(plain, 'a', sizeof plain);
    for (unsigned type = 166; type <= 171; type++) {
        struct buf b = packed_rows(type, plain, sizeof plain, 0x82, sizeof plain);
        struct event ev;
        char *copy;
        assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
        assert_int_equal(ev.kind, EVENT_ROWS);
        assert_int_equal(event_unpack(&ev, &room, &e), 0);
        assert_int_equal(ev.rows.op, (type - 166) % 3);
        assert_int_equal(ev.rows.table_id, 0x123456);
        assert_int_equal(ev.rows.columns, 2);
        assert_true(ev.rows.ends && !ev.packed);
        assert_int_equal(ev.rows.len, sizeof plain);
        assert_memory_equal(ev.rows.data, plain, sizeof plain);
        free(copy);
        buf_free(&b);
    }
    buf_free(&room);
}

static void test_packed_query(void **state)
{
    (void)state;
    static const char sql[] = "TRUNCATE TABLE planets";
    const struct event_format f = packed_format();
    struct buf b = begin_event(165, 0), room = {0};
    struct event ev;
    struct err e = {0};
    char *copy;
    put(&b, 0, 8);
    put(&b, 5, 1);
    put(&b, 0, 4);
    buf_add(&b, "world", 6);
    put_packed(&b, sql, sizeof sql - 1, 0x81, sizeof sql - 1);
    end_event(&b, false);
    assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
    assert_int_equal(ev.kind, EVENT_QUERY);
    assert_int_equal(event_unpack(&ev, &room, &e), 0);
    assert_string_equal(ev.query.schema, "world");
    assert_int_equal(ev.query.len, sizeof sql - 1);
    assert_memory_equal(ev.query.sql, sql, sizeof sql - 1);
    free(copy);
    buf_free(&b);
    buf_free(&room);
}

/* A length that is not that of the bytes, a stream that is cut or goes on, another way of packing.
 * What says that it is huge takes no memory. */
static void test_packed_badly(void **state)
{
    (void)state;
    static const struct {
        unsigned mark;
        size_t length, cut;
    } cases[] = {{0x82, 399, 0},        {0x82, 401, 0},   {0x82, 0, 0},   {0x84, 0xffffffff, 0},
                 {0x84, 0x3fffffff, 0}, {0x82, 20000, 0}, {0x82, 400, 1}, {0x82, 400, 4},
                 {0x82, 400, 12},       {0x92, 400, 0},   {0x80, 400, 0}, {0x85, 400, 0},
                 {0x02, 400, 0}};
    const struct event_format f = packed_format();
    char plain[400];
    memset(plain, 'a', sizeof plain);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = packed_rows(166, plain, sizeof plain, cases[i].mark, cases[i].length);
        struct buf room = {0};
        struct event ev;
        struct err e = {0};
        char *copy;
        b.len -= cases[i].cut;
        set32(&b, 9, (uint32_t)b.len);
        if (read_copy(&f, b.p, b.len, &ev, &copy) == 0) {
            assert_int_equal(event_unpack(&ev, &room, &e), -1);
            assert_int_equal(e.cls, ERR_DAMAGED);
            assert_true(room.cap < 256u << 10);
        }
        free(copy);
        buf_free(&b);
        buf_free(&room);
    }
}

/* ---- all of them ---- */

/* What a follower must not take for nothing. */
static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        unsigned type, kind;
        const char *name;
    } cases[] = {
        {0, EVENT_UNREADABLE, "of an unknown type"},
        {1, EVENT_UNREADABLE, "START_V3"},
        {3, EVENT_STOP, "STOP"},
        {5, EVENT_SKIPPED, "INTVAR"},
        {6, EVENT_UNREADABLE, "LOAD"},
        {13, EVENT_SKIPPED, "RAND"},
        {14, EVENT_SKIPPED, "USER_VAR"},
        {16, EVENT_XID, "XID"},
        {17, EVENT_UNREADABLE, "BEGIN_LOAD_QUERY"},
        {18, EVENT_UNREADABLE, "EXECUTE_LOAD_QUERY"},
        {20, EVENT_UNREADABLE, "PRE_GA_WRITE_ROWS"},
        {26, EVENT_LOST, "INCIDENT"},
        {28, EVENT_SKIPPED, "IGNORABLE"},
        {29, EVENT_SKIPPED, "ROWS_QUERY"},
        {35, EVENT_SKIPPED, "PREVIOUS_GTIDS"},
        {36, EVENT_SKIPPED, "TRANSACTION_CONTEXT"},
        {37, EVENT_SKIPPED, "VIEW_CHANGE"},
        {38, EVENT_XID, "XA_PREPARE"},
        {40, EVENT_UNREADABLE, "TRANSACTION_PAYLOAD"},
        {43, EVENT_UNREADABLE, "of an unknown type"},
        {160, EVENT_SKIPPED, "ANNOTATE_ROWS"},
        {161, EVENT_SKIPPED, "BINLOG_CHECKPOINT"},
        {163, EVENT_SKIPPED, "GTID_LIST"},
        {164, EVENT_SKIPPED, "START_ENCRYPTION"},
        {172, EVENT_UNREADABLE, "of an unknown type"},
        {255, EVENT_UNREADABLE, "of an unknown type"},
    };
    struct event_format f = event_format_first(false);
    struct event ev;
    char *copy;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (unsigned flags = 0; flags <= 0x80; flags += 0x80) {
            struct buf b = begin_event(cases[i].type, flags);
            buf_adds(&b, "anything");
            end_event(&b, false);
            bool may_pass = flags && strcmp(cases[i].name, "of an unknown type") == 0;
            assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
            assert_int_equal(ev.kind, may_pass ? EVENT_SKIPPED : cases[i].kind);
            assert_int_equal(ev.type, cases[i].type);
            assert_string_equal(ev.name, cases[i].name);
            free(copy);
            buf_free(&b);
        }
}

/* MySQL logs an XA COMMIT … ONE PHASE as an XA PREPARE with a flag. */
static void test_prepared(void **state)
{
    (void)state;
    struct event_format f = event_format_first(false);
    struct event ev;
    char *copy;
    for (char one_phase = 0; one_phase <= 1; one_phase++) {
        struct buf b = begin_event(38, 0);
        buf_addc(&b, one_phase);
        buf_add(&b, "\1\0\0\0\1\0\0\0\0\0\0\0x", 13);
        end_event(&b, false);
        assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), 0);
        assert_int_equal(ev.kind, EVENT_XID);
        assert_int_equal(ev.prepared, !one_phase);
        free(copy);
        buf_free(&b);
    }
}

/* A format description that has shorter fixed parts than are read. */
static void test_short_post(void **state)
{
    (void)state;
    static const unsigned types[] = {2, 4, 19, 23, 30, 33, 162};
    struct event ev;
    char *copy;
    for (size_t i = 0; i < COUNT(types); i++) {
        struct event_format f = mysql_format(false);
        f.post[types[i]] = 5;
        struct buf b = begin_event(types[i], 0);
        for (int n = 0; n < 100; n++)
            buf_addc(&b, 1);
        end_event(&b, false);
        assert_int_equal(read_copy(&f, b.p, b.len, &ev, &copy), -1);
        free(copy);
        buf_free(&b);
    }
}

/* Each bit of a checksummed event counts, but the one that a checksum leaves out. */
static void flip(const struct event_format *f, const struct buf *b, bool format)
{
    struct event ev;
    struct err e;
    for (size_t i = 0; i < 8 * b->len; i++) {
        b->p[i / 8] = (char)(b->p[i / 8] ^ 1 << i % 8);
        int rc = event_read(f, b->p, b->len, &ev, &e);
        if (rc == 0 && !(format && i == 17 * 8))
            fail_msg("bit %zu of event %u", i, (unsigned char)b->p[4]);
        b->p[i / 8] = (char)(b->p[i / 8] ^ 1 << i % 8);
    }
    assert_int_equal(event_read(f, b->p, b->len, &ev, &e), 0);
}

static void test_checksum(void **state)
{
    (void)state;
    struct event_format f = mysql_format(true);
    struct event ev;
    char *copy;
    struct buf made[] = {format_event("8.4.2", 42, 1, 1), map_event(9), rows_event(24, 5, "rows"),
                         begin_event(3, 0)};
    for (size_t i = 0; i < COUNT(made); i++) {
        if (i > 0)
            end_event(&made[i], true);
        assert_int_equal(read_copy(&f, made[i].p, made[i].len, &ev, &copy), 0);
        free(copy);
        flip(&f, &made[i], i == 0);
        cut(&f, &made[i], 0);
        buf_free(&made[i]);
    }
}

/* ---- as servers wrote them ---- */

/* MySQL 9.7: an INSERT of one row under a tagged GTID. */
static const char mysql[] =
    "abce016b0f010000007b0000007f00000000000400392e372e342d32000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000abce016b13000d0008000000000400040000006300"
    "041a08000000000000020000000a0a0a2a2a001234000a28000001634af125abce016b2a01000000530000004822"
    "000000000278000000025e9c9d020c9503350322c503a502d604f1030000000204040610736f6d655f74616708ac"
    "0ab00c7ff993cb53cc60061001051283120bd43d5a1aabce016b020100000048000000902200000800c300000000"
    "0000000100001d0000000000000104001000000000000603737464042d002d00ff0012ff007700424547494e3d4a"
    "3981abce016b130100000034000000c422000000006f030000000001000177000174000103000101010004030269"
    "640c0180ef247d09abce016b1e0100000028000000ec22000000006f03000000001100020001ff0001000000f9a8"
    "e910abce016b020100000049000000352300000800c3000000000000000100001d00000000000001040010000000"
    "00000603737464042d002d00ff0012ff007700434f4d4d4954bed4a4d6";
/* MariaDB 10.11: CREATE TABLE's GTID, and an INSERT, an UPDATE and a DELETE. */
static const char mariadb[] =
    "3acd016b0f01000000fc000000000100000000040031302e31312e31392d4d6172696144422d302b646562313275"
    "312d6c6f6700000000000000000000000000000000000000003acd016b13380d000800120004040404120000e400"
    "041a08000000080808020000000a0a0a0000000000000a0a0a000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000041304000d0808080a0a0a01659baf5a3acd016ba2010000002a0000006c01000008000100000000"
    "00000000000000290000000000002b179c0a3acd016ba2010000002a000000280200000800020000000000000000"
    "0000000800000000000080db8ed83acd016b13010000002e0000009b02000000004a000000000001000173000174"
    "0003030f050309000806fafd8c623acd016b170100000035000000d002000000004a000000000001000307f80100"
    "00000178000000000000e03ffe02000000bce079573acd016b13010000002e0000009803000000004a0000000000"
    "010001730001740003030f0503090008068b6b31c63acd016b18010000004e000000e603000000004a0000000000"
    "0100030707f8010000000178000000000000e03ff801000000027979000000000000e03ffe02000000fc02000000"
    "0279795c52187b3acd016b13010000002e000000b304000000004a0000000000010001730001740003030f050309"
    "0008065d2a0c1f3acd016b190100000031000000e404000000004a000000000001000307f8010000000279790000"
    "00000000e03f3057c16a";

/* Each event of the stream, whole, cut and with each of its bits turned around. */
static void captured(const char *hex, const enum event_kind *kinds, size_t count,
                     struct event *last)
{
    struct event_format f = event_format_first(true);
    struct buf b = {0};
    for (; *hex; hex += 2)
        buf_addc(&b, (char)strtoul((char[]){hex[0], hex[1], '\0'}, NULL, 16));
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        struct buf one = {0};
        struct event ev;
        struct err e;
        uint32_t len;
        memcpy(&len, b.p + at + 9, 4);
        assert_true(len <= b.len - at);
        buf_add(&one, b.p + at, len);
        assert_int_equal(event_read(&f, one.p, len, &ev, &e), 0);
        assert_int_equal(ev.kind, kinds[i]);
        flip(&f, &one, i == 0);
        cut(&f, &one, 0);
        if (ev.kind == EVENT_FORMAT)
            f = ev.format;
        if (ev.kind == EVENT_GTID)
            last->gtid = ev.gtid;
        at += len;
        buf_free(&one);
    }
    assert_int_equal(at, b.len);
    buf_free(&b);
}

static void test_captured(void **state)
{
    (void)state;
    static const enum event_kind by_mysql[] = {EVENT_FORMAT, EVENT_GTID, EVENT_QUERY,
                                               EVENT_MAP,    EVENT_ROWS, EVENT_QUERY};
    static const enum event_kind by_mariadb[] = {EVENT_FORMAT, EVENT_GTID, EVENT_GTID,
                                                 EVENT_MAP,    EVENT_ROWS, EVENT_MAP,
                                                 EVENT_ROWS,   EVENT_MAP,  EVENT_ROWS};
    struct event last;
    captured(mysql, by_mysql, COUNT(by_mysql), &last);
    assert_string_equal(last.gtid.tag, "some_tag");
    assert_int_equal(last.gtid.seq, 1);
    assert_int_equal(last.gtid.uuid[0], 0x2f);
    captured(mariadb, by_mariadb, COUNT(by_mariadb), &last);
    assert_int_equal(last.gtid.seq, 2);
    assert_false(last.gtid.standalone);
}

/* No bytes at all may lead astray. */
static void test_noise(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    struct event ev;
    char *copy;
    for (int i = 0; i < 200000; i++) {
        struct event_format f = mysql_format(false);
        struct buf b = {0};
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        for (uint64_t n = EVENT_HEADER + seed % 60, s = seed; n--; s = s * 6364136223846793005u + 1)
            buf_addc(&b, (char)(s >> 56));
        set32(&b, 9, (uint32_t)b.len);
        b.p[4] = (char)(seed >> 40 & 63);
        read_copy(&f, b.p, b.len, &ev, &copy);
        free(copy);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),        cmocka_unit_test(test_format_names),
        cmocka_unit_test(test_format_broken), cmocka_unit_test(test_query),
        cmocka_unit_test(test_letters),       cmocka_unit_test(test_rotate),
        cmocka_unit_test(test_gtid),          cmocka_unit_test(test_gtid_tagged),
        cmocka_unit_test(test_heartbeat),     cmocka_unit_test(test_map),
        cmocka_unit_test(test_rows),          cmocka_unit_test(test_dummy),
        cmocka_unit_test(test_packed_rows),   cmocka_unit_test(test_packed_query),
        cmocka_unit_test(test_packed_badly),  cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_prepared),      cmocka_unit_test(test_short_post),
        cmocka_unit_test(test_checksum),      cmocka_unit_test(test_captured),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
