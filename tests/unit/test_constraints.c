/* restore/constraints: names of CHECK constraints, taken out of a definition and put back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "restore/constraints.h"

#define HEAD "CREATE TABLE `a` (\n  `v` int COMMENT '  CONSTRAINT `x` CHECK (1)',\n"
#define TAIL "\n) ENGINE=MEMORY"
#define POSITIVE " CHECK ((`v` > 0))"
#define SMALL " CHECK ((`v` < 9)) /*!80016 NOT ENFORCED */"

static void test_lines(void **state)
{
    (void)state;
    struct buf b = {0};
    constraints_lines(&b, HEAD TAIL);
    assert_string_equal(b.p, "");
    constraints_lines(&b, HEAD "  CONSTRAINT `o``k`" POSITIVE ",\n  KEY `k` (`v`),\n"
                               "  CONSTRAINT `b`" SMALL TAIL);
    assert_string_equal(b.p, "  CONSTRAINT `o``k`" POSITIVE ",\n  CONSTRAINT `b`" SMALL "\n");
    buf_free(&b);
}

static void expect_rename(const char *was, const char *now, size_t count, const char *want)
{
    struct buf b = {0};
    buf_adds(&b, "");
    assert_int_equal(constraints_rename(&b, was, now, NULL), count);
    assert_string_equal(b.p, want);
    buf_free(&b);
}

static void test_rename(void **state)
{
    (void)state;
    const char *was = HEAD "  CONSTRAINT `a_chk_1`" POSITIVE ",\n  CONSTRAINT `it's``` " TAIL;
    expect_rename(was, was, 0, "");
    expect_rename(HEAD TAIL, HEAD TAIL, 0, "");
    expect_rename("", HEAD "  CONSTRAINT `x`" SMALL TAIL, 0, "");
    expect_rename("  CONSTRAINT `x`" SMALL "\n", HEAD "  CONSTRAINT `c1`" SMALL TAIL, 1,
                  "DROP CHECK `c1`, ADD CONSTRAINT `x`" SMALL);
    /* only what has another name now */
    expect_rename(HEAD "  CONSTRAINT `a_chk_1`" POSITIVE ",\n  CONSTRAINT `b``b`" SMALL TAIL,
                  HEAD "  CONSTRAINT `a_chk_1`" POSITIVE ",\n  CONSTRAINT `a_chk_2`" SMALL TAIL, 1,
                  "DROP CHECK `a_chk_2`, ADD CONSTRAINT `b``b`" SMALL);
    /* two that say the same, and two that changed their names with each other */
    expect_rename(HEAD "  CONSTRAINT `x`" SMALL ",\n  CONSTRAINT `y`" SMALL TAIL,
                  HEAD "  CONSTRAINT `c1`" SMALL ",\n  CONSTRAINT `c2`" SMALL TAIL, 2,
                  "DROP CHECK `c1`, DROP CHECK `c2`, ADD CONSTRAINT `x`" SMALL
                  ", ADD CONSTRAINT `y`" SMALL);
    expect_rename(HEAD "  CONSTRAINT `x`" SMALL ",\n  CONSTRAINT `y`" POSITIVE TAIL,
                  HEAD "  CONSTRAINT `x`" POSITIVE ",\n  CONSTRAINT `y`" SMALL TAIL, 2,
                  "DROP CHECK `y`, DROP CHECK `x`, ADD CONSTRAINT `x`" SMALL
                  ", ADD CONSTRAINT `y`" POSITIVE);
    /* what is not there any more is not made anew */
    expect_rename(HEAD "  CONSTRAINT `x`" SMALL TAIL, HEAD "  CONSTRAINT `c1`" POSITIVE TAIL, 0,
                  "");
}

/* Conditions with line ends, commas and parentheses in their texts, and texts that look like a
 * constraint. */
static void test_odd_texts(void **state)
{
    (void)state;
#define ODD " CHECK ((`v` <> 'a),\nb') and (`v\n`` ` <> '\n  CONSTRAINT `n` CHECK (1)'))"
    const char *was = HEAD "  CONSTRAINT `x`" ODD ",\n  KEY `k` (`v`)" TAIL;
    struct buf b = {0};
    constraints_lines(&b, was);
    assert_string_equal(b.p, "  CONSTRAINT `x`" ODD "\n");
    expect_rename(b.p, HEAD "  CONSTRAINT `c1`" ODD TAIL, 1,
                  "DROP CHECK `c1`, ADD CONSTRAINT `x`" ODD);
    expect_rename(was, HEAD "  `z` int DEFAULT (')\n  CONSTRAINT `c1`" SMALL "')" TAIL, 0, "");
    /* as earlier versions extracted it: with the comma before another item */
    expect_rename("  CONSTRAINT `x`" SMALL ",\n", HEAD "  CONSTRAINT `c1`" SMALL TAIL, 1,
                  "DROP CHECK `c1`, ADD CONSTRAINT `x`" SMALL);
    buf_free(&b);
#undef ODD
}

/* A restore may leave a constraint not enforced, which does not change its name. */
static void test_enforcement(void **state)
{
    (void)state;
#define LOOSE POSITIVE " /*!80016 NOT ENFORCED */"
    struct buf b = {0};
    struct names enforced = {0}, named = {0};
    const char *was = HEAD "  CONSTRAINT `x`" POSITIVE ",\n  CONSTRAINT `y`" SMALL TAIL;
    expect_rename(was, HEAD "  CONSTRAINT `x`" LOOSE ",\n  CONSTRAINT `y`" SMALL TAIL, 0, "");
    expect_rename(was, HEAD "  CONSTRAINT `c1`" LOOSE TAIL, 1,
                  "DROP CHECK `c1`, ADD CONSTRAINT `x`" LOOSE);
    /* of two with the same condition, the one that is enforced as before is the counterpart */
    expect_rename(HEAD "  CONSTRAINT `x`" LOOSE ",\n  CONSTRAINT `y`" POSITIVE TAIL,
                  HEAD "  CONSTRAINT `c1`" POSITIVE ",\n  CONSTRAINT `c2`" LOOSE TAIL, 2,
                  "DROP CHECK `c2`, DROP CHECK `c1`, ADD CONSTRAINT `x`" LOOSE
                  ", ADD CONSTRAINT `y`" POSITIVE);
    const char *now = HEAD "  CONSTRAINT `c1`" POSITIVE ",\n  CONSTRAINT `c2`" SMALL TAIL;
    assert_int_equal(constraints_rename(&b, was, now, &enforced), 2);
    assert_string_equal(b.p, "DROP CHECK `c1`, DROP CHECK `c2`, ADD CONSTRAINT `x`" POSITIVE
                             " NOT ENFORCED, ADD CONSTRAINT `y`" SMALL);
    assert_int_equal(enforced.count, 1);
    assert_string_equal(enforced.list[0], "x");
    names_free(&enforced);
    constraints_enforced(now, was, &enforced, &named);
    assert_int_equal(enforced.count, 1);
    assert_string_equal(enforced.list[0], "c1");
    assert_string_equal(named.list[0], "x");
    names_free(&enforced);
    names_free(&named);
    constraints_unenforced(now, was, &named);
    constraints_unenforced(HEAD "  CONSTRAINT `x`" LOOSE ",\n  CONSTRAINT `y`" SMALL TAIL, was,
                           &enforced);
    assert_int_equal(named.count, 0);
    assert_int_equal(enforced.count, 1);
    assert_string_equal(enforced.list[0], "x");
    names_free(&enforced);
    buf_clear(&b);
    assert_int_equal(
        constraints_rename(
            &b, was, HEAD "  CONSTRAINT `c2`" SMALL ",\n  CONSTRAINT `x`" POSITIVE TAIL, &enforced),
        1);
    assert_string_equal(b.p, "DROP CHECK `c2`, ADD CONSTRAINT `y`" SMALL
                             ", ALTER CHECK `x` NOT ENFORCED");
    assert_int_equal(enforced.count, 1);
    names_free(&enforced);
    buf_free(&b);
#undef LOOSE
}

static void test_added(void **state)
{
    (void)state;
    const char *column = "CREATE TABLE `a` (\n  `v` int(11) DEFAULT NULL CHECK (`v` > 0)" TAIL;
    const char *plain = "CREATE TABLE `a` (\n  `v` int(11) DEFAULT NULL" TAIL;
    const char *one = "CREATE TABLE `a` (\n  `v` int(11),\n  CONSTRAINT `x`" POSITIVE TAIL;
    const char *two =
        "CREATE TABLE `a` (\n  `v` int(11),\n  `w` int(11),\n  CONSTRAINT `n`" POSITIVE
        ",\n  CONSTRAINT `z`" SMALL TAIL;
    assert_false(constraints_added(plain, plain));
    assert_false(constraints_added(column, column));
    assert_true(constraints_added(column, plain));
    assert_false(constraints_added(plain, column));
    assert_true(constraints_added(one, plain));
    assert_false(constraints_added(two, one)); /* another name, and one that is not enforced */
    assert_true(constraints_added(one, "CREATE TABLE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_rename),
                                       cmocka_unit_test(test_odd_texts),
                                       cmocka_unit_test(test_enforcement),
                                       cmocka_unit_test(test_added)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
