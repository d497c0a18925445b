/* restore/conflict_files, restore/conflict_merge: reading a file of rows that was cut or changed;
 * sets of rows, and the numbers that they were given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "base/gzip.h"
#include "dir_kit.h"
#include "restore/conflict_files.h"
#include "restore/conflict_merge.h"
#include "restore/conflict_table.h"
#include "sql/literal.h"

#define NEW                                                                                        \
    "-- worldkeeper conflict 2\n-- written from 2026-01-01T00:00:00Z to 2026-01-01T00:01:14Z\n"
#define OLD "-- worldkeeper: rows found in the tables that a restore replaced\n"
#define SET "SET NAMES binary;\n"
#define A "INSERT INTO `a` (`x`,`y`) VALUES\n(1,'it\\'s');\n"
#define A2 "INSERT INTO `a` (`x`,`y`) VALUES\n(2,NULL);\n"
#define B "INSERT INTO `b``;` (`x`) VALUES\n(0x00),\n(-1);\n"

static int read_text(const char *text, size_t len, struct conflict_seen *seen, struct err *e)
{
    char sha[SHA256_HEX];
    *e = (struct err){0};
    unlinkat(kit_dir, "f", 0);
    int fd = openat(kit_dir, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct gzip_writer *gz = gzip_open(fd, "f", 1, e);
    assert_int_equal(gzip_write(gz, text, len, e), 0);
    assert_int_equal(gzip_close(gz, sha, e), 0);
    close(fd);
    return conflict_read(kit_dir, "f", NULL, seen, e);
}

static void test_whole(void **state)
{
    (void)state;
    struct conflict_seen seen;
    struct err e;
    static const char text[] = NEW SET A A2 B "-- worldkeeper end tables=2 rows=4\n";
    assert_int_equal(read_text(text, sizeof text - 1, &seen, &e), 0);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.rows, 4);
    assert_true(seen.counted);
    assert_int_equal(seen.to.ms - seen.from.ms, 74000);
    assert_string_equal(seen.tables[0].name, "a");
    assert_string_equal(seen.tables[0].columns, "(`x`,`y`)");
    assert_int_equal(seen.tables[0].rows, 2);
    assert_string_equal(seen.tables[1].name, "b`;");
    assert_int_equal(seen.tables[1].rows, 2);
    conflict_seen_free(&seen);
}

/* One of an earlier version tells neither times nor how much it holds. */
static void test_old(void **state)
{
    (void)state;
    struct conflict_seen seen;
    struct err e;
    static const char text[] = OLD SET A B;
    assert_int_equal(read_text(text, sizeof text - 1, &seen, &e), 0);
    assert_int_equal(seen.rows, 3);
    assert_false(seen.counted);
    assert_int_equal(seen.from.ms, 0);
    conflict_seen_free(&seen);
}

/* Cut anywhere, one of now is damaged. */
static void test_cut(void **state)
{
    (void)state;
    struct conflict_seen seen;
    struct err e;
    static const char text[] = NEW SET A A2 B "-- worldkeeper end tables=2 rows=4\n";
    for (size_t len = 1; len + 1 < sizeof text; len++) {
        assert_int_equal(read_text(text, len, &seen, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
    }
}

/* Times that are missing, or in another order: none is known, and nothing else is wrong. */
static void test_odd_times(void **state)
{
    (void)state;
#define MAGIC "-- worldkeeper conflict 2\n"
#define REST A "-- worldkeeper end tables=1 rows=1\n"
    static const char *const texts[] = {
        MAGIC "-- written from to 2026-01-01T00:00:00Z\n" REST,
        MAGIC "-- written from to\n" REST,
        MAGIC "-- written from  to \n" REST,
        MAGIC "-- written from 2026-01-01T00:00:00Z\n-- 1 to 2\n" REST,
        MAGIC "-- 1 to 2 -- written from 3\n" REST,
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct conflict_seen seen;
        struct err e;
        if (read_text(texts[i], strlen(texts[i]), &seen, &e) < 0)
            fail_msg("%s: %s", texts[i], e.text);
        assert_int_equal(seen.from.ms, 0);
        assert_int_equal(seen.to.ms, 0);
        conflict_seen_free(&seen);
    }
#undef MAGIC
#undef REST
}

/* 40,000 tables: each is looked for once, not in all before it. Only the last one is there
 * twice. */
static void test_many_tables(void **state)
{
    (void)state;
    struct conflict_seen seen;
    struct err e;
    struct buf b = {0};
    buf_adds(&b, OLD);
    for (int i = 0; i < 40000; i++)
        buf_printf(&b, "INSERT INTO `t%d` (`x`) VALUES\n(1);\n", i);
    assert_int_equal(read_text(b.p, b.len, &seen, &e), 0);
    assert_int_equal(seen.count, 40000);
    assert_string_equal(seen.tables[39999].name, "t39999");
    conflict_seen_free(&seen);
    buf_adds(&b, "INSERT INTO `t7` (`x`) VALUES\n(1);\n");
    assert_int_equal(read_text(b.p, b.len, &seen, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_non_null(strstr(e.text, "t7 is in it twice"));
    buf_free(&b);
}

/* Processor time of reading `n` statements, of one table or of as many. The least of three, because
 * other programs disturb. */
static double time_of_reading(unsigned n, bool one_table)
{
    double least = 0;
    struct buf b = {0};
    buf_adds(&b, OLD);
    for (unsigned i = 0; i < n; i++)
        buf_printf(&b, "INSERT INTO `t%u` (`x`) VALUES\n(%u);\n", one_table ? 0 : i, i);
    for (int i = 0; i < 3; i++) {
        struct conflict_seen seen;
        struct err e;
        clock_t from = clock();
        assert_int_equal(read_text(b.p, b.len, &seen, &e), 0);
        double took = (double)(clock() - from) / CLOCKS_PER_SEC;
        assert_int_equal(seen.rows, n);
        conflict_seen_free(&seen);
        least = i == 0 || took < least ? took : least;
    }
    buf_free(&b);
    return least;
}

/* Eight times the rows take about eight times as long. If each were looked for in all before it,
 * it would be 64 times. */
static void test_linear(void **state)
{
    (void)state;
    for (int one_table = 0; one_table < 2; one_table++) {
        double once = time_of_reading(10000, one_table), eight = time_of_reading(80000, one_table);
        if (eight > 24 * once)
            fail_msg("%s: %.4f s, and %.4f s for eight times as many",
                     one_table ? "one table" : "many tables", once, eight);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        SET A,
        "-- worldkeeper dump 1\n" A,
        OLD "DELETE FROM `a`;\n",
        OLD "CREATE TABLE `a` (x INT);\n",
        OLD "INSERT INTO `a` (`x`) VALUES\n(NOW());\n",
        OLD "INSERT INTO `a` (`x`) VALUES\n(1,2);\n",
        OLD "INSERT INTO `a` VALUES\n(1);\n",
        OLD "INSERT INTO `s`.`a` (`x`) VALUES\n(1);\n",
        OLD "INSERT INTO a (`x`) VALUES\n(1);\n",
        OLD "INSERT INTO `a` (`x`) VALUES\n(1) ON DUPLICATE KEY UPDATE x=1;\n",
        OLD A B A,
        OLD A "INSERT INTO `a` (`x`) VALUES\n(1);\n",
        OLD "DELIMITER ;;\nDROP TABLE a;;\n",
        NEW A "-- worldkeeper end tables=1 rows=2\n",
        NEW A "-- worldkeeper end tables=2 rows=1\n"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct conflict_seen seen;
        struct err e;
        if (read_text(texts[i], strlen(texts[i]), &seen, &e) == 0)
            fail_msg("%s", texts[i]);
        assert_int_equal(e.cls, ERR_DAMAGED);
    }
}

static void test_sets(void **state)
{
    (void)state;
    struct merge_set s = {0};
    assert_false(merge_set_take(&s, 1));
    for (uint64_t i = 0; i < 5000; i++)
        for (uint64_t n = 0; n <= i % 3; n++)
            merge_set_add(&s, i * 1024);
    for (uint64_t i = 0; i < 5000; i++) {
        for (uint64_t n = 0; n <= i % 3; n++)
            assert_true(merge_set_take(&s, i * 1024));
        assert_false(merge_set_take(&s, i * 1024));
        assert_false(merge_set_has(&s, i * 1024 + 1));
    }
    merge_set_free(&s);
}

static void value_is(const char *tuple, size_t n, const char *want)
{
    size_t len = 0;
    const char *s = sql_tuple_field(tuple, strlen(tuple), n, &len);
    if (!want) {
        assert_null(s);
        return;
    }
    assert_non_null(s);
    assert_int_equal(len, strlen(want));
    assert_memory_equal(s, want, len);
}

static void test_values(void **state)
{
    (void)state;
    value_is("(1)", 0, "1");
    value_is("(1)", 1, NULL);
    value_is("('a,(\\'b',-12,NULL)", 0, "'a,(\\'b'");
    value_is("('a,(\\'b',-12,NULL)", 1, "-12");
    value_is("('a,(\\'b',-12,NULL)", 2, "NULL");
    value_is("('a,(\\'b',-12,NULL)", 3, NULL);
}

static void test_numbers(void **state)
{
    (void)state;
    static const char file[] = "conflict-000001-20260101T000000Z.sql.gz";
    struct merge_numbers n, again;
    struct err e = {0};
    assert_int_equal(merge_numbers_read(kit_dir, file, &n, &e), 0);
    assert_int_equal(n.count, 0);
    merge_numbers_add(&n, "a\tb\n\\c", "i\td", "1", "18446744073709551615", "abc");
    merge_numbers_add(&n, "t", "id", "-5", "7", "def");
    assert_int_equal(merge_numbers_write(kit_dir, file, &n, &e), 0);
    assert_int_equal(merge_numbers_read(kit_dir, file, &again, &e), 0);
    assert_int_equal(again.count, 2);
    assert_string_equal(again.list[0].table, "a\tb\n\\c");
    assert_string_equal(again.list[0].now, "18446744073709551615");
    assert_string_equal(again.list[1].old, "-5");
    assert_string_equal(again.list[1].world, "def");
    assert_string_equal(again.text.p, "table\tcolumn\told\tnew\tworld\na\\tb\\n\\\\c\ti\\td\t1\t"
                                      "18446744073709551615\tabc\nt\tid\t-5\t7\tdef\n");
    merge_numbers_free(&n);
    merge_numbers_free(&again);
    kit_put("conflict-000001-20260101T000000Z.numbers.tsv", "x\na\nb\tc\nd\te\t1\n\n\t\t\t\n", 20);
    assert_int_equal(merge_numbers_read(kit_dir, file, &n, &e), 0);
    assert_int_equal(n.count, 0);
    merge_numbers_free(&n);
    static const char earlier[] = "table\tcolumn\told\tnew\nt\tid\t5\t7\n";
    kit_put("conflict-000001-20260101T000000Z.numbers.tsv", earlier, sizeof earlier - 1);
    assert_int_equal(merge_numbers_read(kit_dir, file, &n, &e), 0);
    assert_int_equal(n.count, 1);
    assert_string_equal(n.list[0].now, "7");
    assert_string_equal(n.list[0].world, "");
    merge_numbers_add(&n, "t", "id", "8", "9", "abc");
    assert_string_equal(n.text.p,
                        "table\tcolumn\told\tnew\tworld\nt\tid\t5\t7\t\nt\tid\t8\t9\tabc\n");
    merge_numbers_free(&n);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(merge_is_name("conflict-000001-20260101T000000Z.sql.gz"));
    assert_true(merge_is_name("conflict-000001-20260101T000000Z-late.sql.gz"));
    assert_false(merge_is_name("conflict-x/../y.sql.gz"));
    assert_false(merge_is_name("conflict-x.sql.gz.part"));
    assert_false(merge_is_name("s8-000001-00000001-20260101T000000Z.sql.gz"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_whole, kit_clean),
        cmocka_unit_test_teardown(test_old, kit_clean),
        cmocka_unit_test_teardown(test_cut, kit_clean),
        cmocka_unit_test_teardown(test_refused, kit_clean),
        cmocka_unit_test_teardown(test_odd_times, kit_clean),
        cmocka_unit_test_teardown(test_many_tables, kit_clean),
        cmocka_unit_test_teardown(test_linear, kit_clean),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_values),
        cmocka_unit_test_teardown(test_numbers, kit_clean),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
