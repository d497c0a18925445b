/* sql/insert: rows of another tool's INSERT are literals, and are written again in our form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sql/insert.h"

/* The text is copied to the heap with nothing behind it: a look too far is seen by the sanitizers.
 */
static int read_exact(const char *text, size_t len, const char *marks, struct sql_insert *out)
{
    bool generated[8];
    size_t n = strlen(marks);
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, text, len);
    for (size_t i = 0; i < n; i++)
        generated[i] = marks[i] == 'g';
    int rc = sql_insert_read(exact, len, false, n ? generated : NULL, n, out);
    free(exact);
    return rc;
}

static void expect(const char *text, const char *marks, const char *want)
{
    struct sql_insert i;
    if (read_exact(text, strlen(text), marks, &i) < 0) {
        if (want)
            fail_msg("refused: %s", text);
        return;
    }
    if (!want)
        fail_msg("taken: %s", text);
    assert_string_equal(i.rows.p, want);
    sql_insert_free(&i);
}

static void test_rows(void **state)
{
    (void)state;
    expect("VALUES (1,2,3)", "", "(1,2,3)");
    expect(" VALUES\n( 1 , -2.5e3 ),\n(.5,NULL)", "", "(1,-2.5e3),(.5,NULL)");
    expect("values (0xAb,b'01',x'41',_binary 'a',_latin1 0x61,+1)", "",
           "(0xAb,b'01',x'41',_binary'a',_latin1 0x61,+1)");
    expect("VALUES ('a,)(\\'''b',\"c'\\\"\")", "", "('a,)(\\'''b','c''\"')");
    expect("VALUES (),()", "", "(),()");
    expect("VALUES ('\xff\xa0')", "", "('\xff\xa0')");
}

static void test_generated(void **state)
{
    (void)state;
    expect("VALUES (1,2,3)", "-g-", "(1,3)");
    expect(" VALUES\n(1,2),\n(3,4)", "g-", "(2),(4)");
    expect("VALUES (1,2,3)", "ggg", "()");
    expect("VALUES ('a,)(\\'''b',_binary 'c)',NULL)", "-g-", "('a,)(\\'''b',NULL)");
    expect("VALUES (1,3),(4,5)", "-g-", "(1,3),(4,5)");
    expect("VALUES (1,2,3),(4)", "-g-", "(1,3),(4)"); /* which the server refuses */
    expect("(`a`,`b`,`c`) VALUES (1,2,3)", "-g-", "(1,2,3)");
}

static void test_columns(void **state)
{
    (void)state;
    struct sql_insert i;
    static const char text[] = "(`a``b`, c,`d`) VALUES (1,2,3)";
    assert_int_equal(read_exact(text, sizeof text - 1, "", &i), 0);
    assert_true(i.listed);
    assert_int_equal(i.column_count, 3);
    assert_string_equal(i.columns[0], "a`b");
    assert_string_equal(i.columns[1], "c");
    sql_insert_free(&i);
    assert_int_equal(read_exact("() VALUES ()", 12, "", &i), 0);
    assert_true(i.listed && i.empty && i.column_count == 0);
    sql_insert_free(&i);
    assert_int_equal(read_exact("VALUES ()", 9, "", &i), 0);
    assert_true(i.empty && !i.listed);
    sql_insert_free(&i);
    assert_int_equal(read_exact("(`a\0`) VALUES (1)", 17, "", &i), -1);
    assert_int_equal(read_exact("(`a\xff`) VALUES (1)", 17, "", &i), -1);
}

static void test_others(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "VALUES",
        "VALUES (",
        "VALUES (1",
        "VALUES (1,)",
        "VALUES (1,2,'3",
        "VALUES (1,2,'3\\",
        "VALUES (1,(2,3))",
        "VALUES (1),",
        "VALUES (1) ON DUPLICATE KEY UPDATE a=1",
        "VALUES (),(1)",
        "VALUES (f(1))",
        "VALUES (NOW)",
        "VALUES (@a)",
        "VALUES (`a`)",
        "VALUES (1+1)",
        "VALUES (1-1)",
        "VALUES (- 'a')",
        "VALUES (--1)",
        "VALUES ('a' 'b')",
        "VALUES (_gbk 'a')",
        "VALUES (_sjis 0x5c)",
        "VALUES (_utf8mb4 1)",
        "VALUES (n'a')",
        "VALUES (1) /* */",
        "VALUES (/*!99999 1 */ 1)",
        "VALUES (1) -- ",
        "VALUES (1.5a)",
        "VALUES (0xg)",
        "VALUES ROW(1)",
        "SELECT 1",
        "(`a`) SELECT 1",
        "(`a`",
        "(a.b) VALUES (1)",
        "(`a`,) VALUES (1)",
        "(``) VALUES (1)",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(bad[i], "", NULL);
}

static void test_charsets(void **state)
{
    (void)state;
    assert_true(sql_charset_safe("utf8mb4", 7));
    assert_true(sql_charset_safe("latin1", 6));
    assert_false(sql_charset_safe("GBK", 3));
    assert_false(sql_charset_safe("sjis", 4));
    assert_false(sql_charset_safe("", 0));
    assert_false(sql_charset_safe("a b", 3));
    assert_false(sql_charset_safe("a\0", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),     cmocka_unit_test(test_generated),
        cmocka_unit_test(test_columns),  cmocka_unit_test(test_others),
        cmocka_unit_test(test_charsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
