/* restore/values: values of generated columns out of the rows of somebody else's INSERT. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "restore/values.h"

/* The text is copied to the heap with nothing behind it: a look too far is seen by the sanitizers.
 */
static void expect(const char *text, const char *marks, int rc, const char *want)
{
    struct buf b = {0};
    bool generated[8];
    size_t n = strlen(marks), len = strlen(text);
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, text, len);
    for (size_t i = 0; i < n; i++)
        generated[i] = marks[i] == 'g';
    buf_adds(&b, "x");
    assert_int_equal(values_pick(&b, exact, len, generated, n), rc);
    assert_string_equal(b.p, want);
    buf_free(&b);
    free(exact);
}

static void test_rows(void **state)
{
    (void)state;
    expect("VALUES (1,2,3)", "-g-", 1, "xVALUES (1,3)");
    expect(" VALUES\n(1,2),\n(3,4)", "g-", 1, "x VALUES\n(2),\n(4)");
    expect("VALUES (1,2,3)", "ggg", 1, "xVALUES ()");
    expect("VALUES ('a,)(\\'''b',_binary 'c)',NULL)", "-g-", 1, "xVALUES ('a,)(\\'''b',NULL)");
    expect("VALUES (f(1,(2)),\"),\",3)", "g--", 1, "xVALUES (\"),\",3)");
}

static void test_without(void **state)
{
    (void)state;
    expect("VALUES (1,3),(4,5)", "-g-", 0, "x");
    expect("VALUES (1,2)", "--", 0, "x");
}

static void test_others(void **state)
{
    (void)state;
    expect("VALUES (1,2,3),(4)", "-g-", -1, "x");
    expect("VALUES (1)", "-g-", -1, "x");
    expect("VALUES (1,2,'3", "-g-", -1, "x");
    expect("VALUES (1,2,'3\\", "-g-", -1, "x");
    expect("VALUES (1,(2,3", "-g-", -1, "x");
    expect("VALUES (", "-g", -1, "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_without),
                                       cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
