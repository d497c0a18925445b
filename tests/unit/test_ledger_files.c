/* Files of rolled-up rows: their names, RFC 4180 in both directions, and reading back what was
 * written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "dir_kit.h"
#include "fake_clock.h"
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

/* A field without an end is refused at the limit, not when memory ends. Of the row nothing but
 * its end is touched: the memory in front of it is never there. */
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

static int count_row(void *arg, const struct csv_field *fields, unsigned count, struct err *e)
{
    (void)fields;
    (void)count;
    (void)e;
    ++*(unsigned *)arg;
    return 0;
}

/* A file of rows that do not get smaller when they are packed; `f` becomes that of its manifest. */
static void write_file(uint64_t sequence, uint64_t rows, struct ledger_file *f)
{
    struct err e = {0};
    struct buf text = {0};
    uint64_t dice = sequence;
    *f = (struct ledger_file){.sequence = sequence, .first = 1, .last = rows, .rows = rows};
    buf_adds(&text, "id,a,b,c,d\r\n");
    struct ledger_file_writer *w = ledger_file_begin(kit_dir, "xp", sequence, 1, &text, &e);
    assert_non_null(w);
    for (uint64_t id = 1; id <= rows; id++) {
        buf_clear(&text);
        buf_printf(&text, "%llu", (unsigned long long)id);
        for (int i = 0; i < 4; i++) {
            dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            buf_printf(&text, ",0x%016llx", (unsigned long long)dice);
        }
        buf_adds(&text, "\r\n");
        assert_int_equal(ledger_file_write(w, &text, &e), 0);
    }
    buf_free(&text);
    assert_int_equal(ledger_file_commit(w, f, &e), 0);
    assert_int_equal(ledger_file_load(kit_dir, f, &e), 0);
}

static void expect_no_row(const struct ledger_file *f, const char *name, const void *data,
                          size_t len)
{
    struct err e = {0};
    unsigned rows = 0;
    kit_put(name, data, len);
    assert_int_equal(ledger_file_read(kit_dir, f, count_row, &rows, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_non_null(strstr(e.text, "SHA-256"));
    assert_int_equal(rows, 0);
}

/* Whatever is in the place of a file that was written: no row of it is given to anybody. */
static void test_other_bytes(void **state)
{
    (void)state;
    struct ledger_file f, other;
    struct err e = {0};
    char name[LEDGER_FILE_NAME + 16], second[LEDGER_FILE_NAME + 16];
    unsigned rows = 0;
    write_file(1, 60000, &f); /* of several pieces */
    write_file(2, 60000, &other);
    snprintf(name, sizeof name, "%s" LEDGER_FILES_GZIP, f.name);
    snprintf(second, sizeof second, "%s" LEDGER_FILES_GZIP, other.name);
    assert_int_equal(ledger_file_read(kit_dir, &f, count_row, &rows, &e), 0);
    assert_int_equal(rows, 60001);
    size_t len, other_len;
    char *good = kit_get(name, &len), *bad = kit_get(second, &other_len);
    assert_true(len > 2u << 20);
    expect_no_row(&f, name, bad, other_len);
    expect_no_row(&f, name, "", 0);
    expect_no_row(&f, name, good, len - 1);
    for (size_t at = 0; at < len; at += len / 7) {
        good[at] ^= 1;
        expect_no_row(&f, name, good, len);
        good[at] ^= 1;
    }
    char *longer = malloc(len + other_len);
    assert_non_null(longer);
    memcpy(longer, good, len);
    memcpy(longer + len, bad, other_len);
    expect_no_row(&f, name, longer, len + other_len);
    kit_put(name, good, len);
    rows = 0;
    assert_int_equal(ledger_file_read(kit_dir, &f, count_row, &rows, &e), 0);
    free(good);
    free(bad);
    free(longer);
}

struct swap {
    const char *name, *data;
    size_t len;
    unsigned rows;
};

static int swap_at_first(void *arg, const struct csv_field *fields, unsigned count, struct err *e)
{
    struct swap *s = arg;
    (void)fields;
    (void)count;
    (void)e;
    if (s->rows++ == 0) {
        int fd = openat(kit_dir, s->name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(file_write_all(fd, s->data, s->len), 0);
        close(fd);
    }
    return 0;
}

/* The file is overwritten once it was verified: only rows of the verified bytes are given. */
static void test_bytes_that_change_between(void **state)
{
    (void)state;
    struct ledger_file f, other;
    char name[LEDGER_FILE_NAME + 16], second[LEDGER_FILE_NAME + 16];
    write_file(1, 60000, &f);
    write_file(2, 60000, &other);
    snprintf(name, sizeof name, "%s" LEDGER_FILES_GZIP, f.name);
    snprintf(second, sizeof second, "%s" LEDGER_FILES_GZIP, other.name);
    struct swap s = {.name = name};
    struct err e = {0};
    char *data = kit_get(second, &s.len);
    s.data = data;
    assert_int_equal(ledger_file_read(kit_dir, &f, swap_at_first, &s, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_true(s.rows < 40000);
    free(data);
}

static void expire_at(int64_t ms, int64_t keep)
{
    static char world[] = "s8", ledger[] = "xp";
    const struct config c = {.name = world, .dump_interval = 86400000};
    const struct config_ledger l = {.name = ledger, .keep = keep};
    const struct ledger_filed m = {.filed = 3, .file = 5};
    struct err e = {0};
    fake_wall_ms = ms;
    assert_int_equal(ledger_files_expire(kit_dir, &c, &l, &m, &e), 0);
}

/* Of the ledger's files only those expire that are too old, whatever became of them. */
static void test_expiry(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool stays;
    } files[] = {
        {"xp-00000001-1-9-20260131T000000Z.csv.gz", false},
        {"xp-00000001-1-9-20260131T000000Z.csv.json", false},
        {"xp-00000001-1-9-20260131T000001Z.csv.gz.undone", false},
        {"xp-00000002-1-9-20260131T000000Z.csv.gz.undone", false},
        {"xp-00000002-1-9-20260131T000000Z.csv.json.undone", false},
        {"xp-00000003-1-9-20260131T000000Z.csv.json.undone", false},
        {"xp-00000006-1-9-20260131T000000Z.csv.gz.undone", false}, /* after `file` */
        /* too young */
        {"xp-00000001-1-9-20260131T000002Z.csv.gz", true},
        {"xp-00000001-1-9-20260131T000002Z.csv.json", true},
        {"xp-00000002-1-9-20260131T000002Z.csv.gz.undone", true},
        {"xp-00000006-1-9-20260131T000002Z.csv.json.undone", true},
        /* after `filed` up to `file` */
        {"xp-00000004-1-9-20260131T000000Z.csv.gz", true},
        {"xp-00000004-1-9-20260131T000000Z.csv.json", true},
        {"xp-00000005-1-9-20260131T000000Z.csv.gz.undone", true},
        /* other names */
        {"xp-1-00000001-1-9-20260131T000000Z.csv.gz.undone", true},
        {"xp2-00000001-1-9-20260131T000000Z.csv.gz", true},
        {"xp-00000001-1-9-20260131T000000Z.csv", true},
        {"xp-00000001-1-9-20260131T000000Z.csv.gz.damaged", true},
        {"xp-00000001-1-9-20260131T000000Z.csv.gz.undone.1", true},
        {"xp-00000001.csv.gz.undone", true},
    };
    for (size_t i = 0; i < COUNT(files); i++)
        kit_text(files[i].name, "");
    expire_at(INT64_C(1769817603000), 1000);
    for (size_t i = 0; i < COUNT(files); i++)
        if (kit_there(files[i].name) != files[i].stays)
            fail_msg("%s: %s", files[i].stays ? "was removed" : "stays", files[i].name);
}

/* A clock that jumps ahead deletes nothing for a day. */
static void test_expiry_by_a_clock_that_jumps(void **state)
{
    (void)state;
    static const char old[] = "xp-00000001-1-9-20260131T000000Z.csv.gz",
                      aside[] = "xp-00000002-1-9-20260131T010000Z.csv.gz.undone",
                      fresh[] = "xp-00000003-1-9-20280131T010000Z.csv.gz";
    static const int64_t ahead = INT64_C(1832893200000), /* 2028-01-31 01:00 */
        month = 30 * INT64_C(86400000);
    kit_text(old, "");
    kit_text(aside, "");
    expire_at(ahead, month);
    assert_true(kit_there(old) && kit_there(aside));
    kit_text(fresh, "");
    expire_at(ahead + 23 * INT64_C(3600000), month);
    assert_true(kit_there(old) && kit_there(aside));
    expire_at(ahead + 26 * INT64_C(3600000), month);
    assert_false(kit_there(old) || kit_there(aside));
    assert_true(kit_there(fresh));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_row_without_end),
        cmocka_unit_test_teardown(test_other_bytes, kit_clean),
        cmocka_unit_test_teardown(test_expiry, kit_clean),
        cmocka_unit_test_teardown(test_expiry_by_a_clock_that_jumps, kit_clean),
        cmocka_unit_test_teardown(test_bytes_that_change_between, kit_clean),
    };
    return cmocka_run_group_tests_name("ledger_files", tests, kit_set_up, kit_tear_down);
}
