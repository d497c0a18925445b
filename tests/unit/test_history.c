/* store/history: a line counts completely or not at all, whatever the file contains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/file.h>
#include <time.h>

#include "base/js.h"
#include "dir_kit.h"
#include "fake_clock.h"
#include "store/history.h"

/* Fails the n-th time. */
static int fstat_fails_at;

int fstat(int fd, struct stat *st)
{
    if (fstat_fails_at && --fstat_fails_at == 0) {
        errno = EIO;
        return -1;
    }
    return fstatat(fd, "", st, AT_EMPTY_PATH);
}

static void put(const char *data, size_t len)
{
    struct err e;
    assert_int_equal(file_commit(kit_dir, HISTORY_FILE, data, len, 0600, &e), 0);
}

static void append(int rows)
{
    struct err e;
    json_t *o = history_record(HISTORY_DUMP, json_pack("{s:i}", "rows", rows));
    assert_int_equal(history_append(kit_dir, o, &e), 0);
    json_decref(o);
}

struct seen {
    size_t lines, records;
    int64_t rows; /* of the last record */
};

static void see(void *arg, const json_t *record, const char *line)
{
    struct seen *s = arg;
    (void)line;
    s->lines++;
    s->records += record != NULL;
    if (record)
        s->rows = js_number(record, "rows", -1);
}

static struct seen read_all(struct history_place *place, bool *from_start)
{
    struct history_place own = {0};
    struct seen s = {.rows = -1};
    struct err e;
    bool ignored;
    assert_int_equal(history_read(kit_dir, place ? place : &own, from_start ? from_start : &ignored,
                                  see, &s, &e),
                     0);
    history_place_free(&own);
    return s;
}

static void test_what_was_appended_is_read(void **arg)
{
    (void)arg;
    struct history_place place = {0};
    bool from_start;
    assert_int_equal(read_all(&place, &from_start).lines, 0); /* no file */
    append(1);
    append(2);
    struct seen s = read_all(&place, &from_start);
    assert_int_equal(s.records, 2);
    assert_int_equal(s.rows, 2);
    append(3);
    s = read_all(&place, &from_start);
    assert_int_equal(s.records, 1);
    assert_false(from_start);
    /* Another file in its place is read from its beginning, and the end of one is noticed. */
    put("", 0);
    append(4);
    s = read_all(&place, &from_start);
    assert_true(from_start);
    assert_int_equal(s.rows, 4);
    assert_int_equal(unlinkat(kit_dir, HISTORY_FILE, 0), 0);
    read_all(&place, &from_start);
    assert_true(from_start);
    history_place_free(&place);
}

/* A kill or a full disk cut the last line off at any byte. */
static void test_cut_line(void **arg)
{
    static const char line[] =
        "{\"at\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"dump\",\"rows\":7}\n";
    (void)arg;
    for (size_t len = 0; len < sizeof line; len++) {
        put(line, len);
        bool whole = len == sizeof line - 1;
        assert_int_equal(read_all(NULL, NULL).records, whole);
        append(9);
        struct seen s = read_all(NULL, NULL);
        assert_int_equal(s.rows, 9);
        /* Without its newline alone it is whole as soon as that is added. */
        assert_int_equal(s.records, len >= sizeof line - 2 ? 2 : 1);
    }
}

static void test_twice_is_once(void **arg)
{
    (void)arg;
    append(1);
    append(1);
    assert_int_equal(read_all(NULL, NULL).records, 1);
    fake_wall_ms++;
    append(1);
    assert_int_equal(read_all(NULL, NULL).records, 2);
}

static void test_what_is_no_record(void **arg)
{
    static const char *const lines[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"at\":\"2026-01-01T00:00:00.000Z\"}",
        "{\"kind\":\"dump\"}",
        "{\"at\":1,\"kind\":\"dump\"}",
        "{\"at\":\"2026-01-01T00:00:00Z\",\"kind\":\"dump\"}",
        "{\"at\":\"2026-02-30T00:00:00.000Z\",\"kind\":\"dump\"}",
        "{\"at\":\"1969-12-31T23:59:59.999Z\",\"kind\":\"dump\"}",
        "{\"at\":\"2026-01-01T00:00:00.-00Z\",\"kind\":\"dump\"}",
        "{\"at\":\"2026-01-01T00:00:00.0000Z\",\"kind\":\"dump\"}",
        "{\"at\":\"2026-01-01T00:00:00.000\",\"kind\":\"dump\"}",
        "{\"at\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"\xff\"}",
        "{\"at\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"dump\",\"kind\":\"loss\"}",
        "\x01\x02",
    };
    (void)arg;
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct buf b = {0};
        buf_printf(&b, "%s\n", lines[i]);
        put(b.p, b.len);
        buf_free(&b);
        append(5);
        struct seen s = read_all(NULL, NULL);
        assert_int_equal(s.records, 1);
        assert_int_equal(s.rows, 5);
    }
    /* A byte 0, and lines longer than any record; what follows them is read. */
    for (size_t len = 10000; len < 300000; len += 37777) {
        struct buf b = {0};
        buf_adds(&b, "{\"at\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"dump\",\"x\":\"");
        for (size_t i = 0; i < len; i++)
            buf_addc(&b, len == 10000 ? '\0' : 'x');
        buf_adds(&b, "\"}\n");
        put(b.p, b.len);
        buf_free(&b);
        append(6);
        struct seen s = read_all(NULL, NULL);
        assert_int_equal(s.records, 1);
        assert_int_equal(s.rows, 6);
    }
}

static void test_records(void **arg)
{
    (void)arg;
    struct err e;
    json_t *o = history_record(HISTORY_WRITE_BACK, json_pack("{s:i, s:s}", "sent", 3, "at", "x"));
    assert_int_equal(history_at(o).ms, fake_wall_ms);
    assert_int_equal(history_kind_of(o), HISTORY_WRITE_BACK);
    assert_string_equal(js_text(o, "kind"), "write-back");
    json_decref(o);
    /* One that could not be read again is not written. */
    char *large = xcalloc(20000, 1);
    memset(large, 'x', 19999);
    o = history_record(HISTORY_STATE, json_pack("{s:s}", "reason", large));
    assert_int_equal(history_append(kit_dir, o, &e), -1);
    assert_int_equal(read_all(NULL, NULL).lines, 0);
    json_decref(o);
    free(large);
}

static void test_replaced_only_as_read(void **arg)
{
    (void)arg;
    struct history_place place = {0};
    struct buf lines = {0};
    struct err e;
    append(1);
    read_all(&place, NULL);
    fake_wall_ms++;
    append(2);
    buf_adds(&lines, "{\"at\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"dump\",\"rows\":8}\n");
    assert_int_equal(history_replace(kit_dir, &place, &lines, &e), -1);
    assert_int_equal(e.cls, ERR_CHANGED);
    read_all(&place, NULL);
    assert_int_equal(history_replace(kit_dir, &place, &lines, &e), 0);
    struct seen s = read_all(NULL, NULL);
    assert_int_equal(s.rows, 8);
    assert_int_equal(s.records, 1);
    history_place_free(&place);
    buf_free(&lines);
}

/* A process that stopped with the lock holds nobody up for good. */
static void test_locked(void **arg)
{
    (void)arg;
    struct err e;
    append(1);
    int fd = openat(kit_dir, HISTORY_FILE, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    json_t *o = history_record(HISTORY_LOSS, NULL);
    assert_int_equal(history_append(kit_dir, o, &e), -1);
    assert_int_equal(e.cls, ERR_BUSY);
    close(fd);
    assert_int_equal(history_append(kit_dir, o, &e), 0);
    json_decref(o);
}

/* A file that cannot be looked at: whichever look it is, a failure has its reason. */
static void test_no_look(void **arg)
{
    (void)arg;
    append(1);
    json_t *o = history_record(HISTORY_DUMP, NULL);
    unsigned failed = 0;
    for (int at = 1; at <= 6; at++) {
        struct err e = {0};
        fstat_fails_at = at;
        int rc = history_append(kit_dir, o, &e);
        fstat_fails_at = 0;
        failed += rc < 0;
        if (rc < 0 && !strstr(e.text, HISTORY_FILE ": Input/output error"))
            fail_msg("%d: \"%s\"", at, e.text);
    }
    assert_int_equal(failed, 2); /* as it is opened, and before it is written */
    json_decref(o);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, kit_clean)
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_appended_is_read),
        TEST(test_cut_line),
        TEST(test_twice_is_once),
        TEST(test_what_is_no_record),
        TEST(test_records),
        TEST(test_replaced_only_as_read),
        TEST(test_locked),
        TEST(test_no_look),
    };
    js_begin();
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
