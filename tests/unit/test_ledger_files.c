/* Files of rolled-up rows: their names, RFC 4180 both ways, and what is written is what is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "ledger/files.h"

static void test_names(void **state)
{
    (void)state;
    struct ledger_file f;
    static const char good[] = "xp_2-00000012-7-18446744073-20260131T235959Z";
    assert_true(ledger_file_parse(good, strlen(good), "xp_2", &f));
    assert_int_equal(f.sequence, 12);
    assert_int_equal(f.first, 7);
    assert_int_equal(f.last, UINT64_C(18446744073));
    assert_int_equal(f.written.ms, INT64_C(1769903999000));
    assert_string_equal(f.name, good);
    static const char *const bad[] = {"",
                                      "xp",
                                      "xp-",
                                      "xp-1",
                                      "xp-1-2",
                                      "xp-1-2-3",
                                      "xp-1-2-3-",
                                      "xp-1-2-3-20260131T235959",
                                      "xp-1-2-3-20260131T235959X",
                                      "xp-1-2-3-20260131 235959Z",
                                      "xp-1-2-3-20261331T235959Z",
                                      "xp-a-2-3-20260131T235959Z",
                                      "xp-1-2-99999999999999999999-20260131T235959Z",
                                      "xp--2-3-20260131T235959Z",
                                      "yp-1-2-3-20260131T235959Z",
                                      "xp_2-1-2-3-20260131T235959Z",
                                      "xp-1-2-3-20260131T235959Zz",
                                      "xp-1-2-3-4-20260131T235959Z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ledger_file_parse(bad[i], strlen(bad[i]), "xp", &f))
            fail_msg("taken for a name: %s", bad[i]);
}

/* Fields between bars, rows between semicolons; a quoted one in brackets. */
static int show(void *arg, const struct csv_field *fields, unsigned count, struct err *e)
{
    struct buf *b = arg;
    (void)e;
    for (unsigned i = 0; i < count; i++) {
        buf_adds(b, fields[i].quoted ? "[" : "");
        buf_add(b, fields[i].s, fields[i].len);
        buf_adds(b, fields[i].quoted ? "]" : "");
        buf_adds(b, i + 1 < count ? "|" : ";");
    }
    return 0;
}

/* Read whole, and byte by byte. */
static void expect(const char *csv, const char *rows)
{
    for (size_t step = strlen(csv) + 1; step; step = step > 1 ? 1 : 0) {
        struct csv_reader r = {0};
        struct buf b = {0};
        struct err e = {0};
        int rc = 0;
        buf_adds(&b, "");
        for (size_t at = 0; at < strlen(csv) && rc == 0; at += step)
            rc = csv_feed(&r, csv + at, step < strlen(csv) - at ? step : strlen(csv) - at, show, &b,
                          &e);
        if (!rows) {
            assert_true(rc < 0 || !csv_whole(&r));
            assert_true(rc == 0 || e.cls == ERR_DAMAGED);
        } else {
            assert_int_equal(rc, 0);
            assert_true(csv_whole(&r));
            assert_string_equal(b.p, rows);
        }
        buf_free(&b);
        csv_free(&r);
    }
}

static void test_csv(void **state)
{
    (void)state;
    expect("", "");
    expect("\r\n", ";");
    expect("a,b\r\n1,\r\n", "a|b;1|;");
    expect("\"a\"\"b\",\"\",\r\n", "[a\"b]|[]|;");
    expect("\"x\r\ny,z\",0x00\r\n", "[x\r\ny,z]|0x00;");
    expect("a", NULL);
    expect("a\r", NULL);
    expect("\"a\r\n", NULL);
    expect("a\n", NULL);
    expect("a\rb\r\n", NULL);
    expect("a\"b\r\n", NULL);
    expect("\"a\"b\r\n", NULL);
    expect("\"a\" \r\n", NULL);
}

/* A field without an end is refused at the limit, not when memory ends. Of the row nothing but its end is
 * touched: the memory in front of it is never there. */
static void test_row_without_end(void **state)
{
    (void)state;
    size_t size = CSV_ROW + 4096u;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    for (int quoted = 0; quoted < 2; quoted++) {
        struct csv_reader r = {.row = {.p = p, .len = CSV_ROW - 1, .cap = size},
                               .state = quoted ? CSV_QUOTED : CSV_PLAIN,
                               .quoted = quoted};
        struct err e = {0};
        assert_int_equal(csv_feed(&r, "x", 1, show, NULL, &e), 0);
        assert_int_equal(csv_feed(&r, "x", 1, show, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
    }
    munmap(p, size);
}

static void test_text(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "\"", "\"\"", "a\"b", ",\r\n\"x", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct buf csv = {0}, want = {0};
        csv_text(&csv, texts[i], strlen(texts[i]));
        buf_adds(&csv, "\r\n");
        buf_printf(&want, "[%s];", texts[i]);
        expect(csv.p, want.p);
        buf_free(&csv);
        buf_free(&want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_row_without_end),
    };
    return cmocka_run_group_tests_name("ledger_files", tests, NULL, NULL);
}
