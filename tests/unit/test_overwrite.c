/* What an UPDATE without WHERE looks like in the journal, and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "journal/overwrite.h"

static struct change_table table;

/* Writes `pattern` with the row's number in the place of each %d. */
static void fill(char *to, size_t size, const char *pattern, unsigned row)
{
    size_t n = 0;
    for (const char *p = pattern; *p && n + 12 < size; p++)
        if (strncmp(p, "%d", 2) == 0) {
            n += (size_t)snprintf(to + n, size - n, "%u", row);
            p++;
        } else {
            to[n++] = *p;
        }
    to[n] = 0;
}

/* Updates rows 1 to n from the pattern `before` to the pattern `after`. */
static uint64_t updated(unsigned n, const char *before, const char *after)
{
    struct overwrite o = {0};
    for (unsigned i = 1; i <= n; i++) {
        char text[2][200];
        fill(text[0], sizeof text[0], before, i);
        fill(text[1], sizeof text[1], after, i);
        struct change c = {.kind = CHANGE_UPDATE,
                           .table = &table,
                           .before = text[0],
                           .before_len = strlen(text[0]),
                           .tuple = text[1],
                           .len = strlen(text[1])};
        overwrite_row(&o, &c);
    }
    assert_int_equal(o.rows, n);
    return overwrite_columns(&o);
}

static void test_columns(void **state)
{
    (void)state;
    assert_int_equal(updated(1000, "(%d,%d,7)", "(%d,0,7)"), 2);
    assert_int_equal(updated(1000, "(%d,7,'a,(%d')", "(%d,7,'')"), 4);
    assert_int_equal(updated(10, "(%d,%d)", "(%d,0)"), 2);
    assert_int_equal(updated(9, "(%d,%d)", "(%d,0)"), 0);          /* too few values */
    assert_int_equal(updated(1000, "(%d,5,7)", "(%d,6,7)"), 0);    /* one value before too */
    assert_int_equal(updated(1000, "(%d,%d,7)", "(%d,1%d,7)"), 0); /* computed for each row */
    assert_int_equal(updated(1000, "(%d,%d,7)", "(%d,1%d,8)"), 0);
    assert_int_equal(updated(1000, "(%d,NULL,%d)", "(%d,NULL,NULL)"), 4);
    assert_int_equal(updated(1000, "no tuple %d %d", "(%d,0)"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
