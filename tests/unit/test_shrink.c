/* dump/shrink: which loss of rows is suspicious, to the row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dump_kit.h"
#include "dump/shrink.h"

/* "users 100, items 5"; the manifest's own count of rows is their sum. */
static void make(struct manifest *m, const char *tables)
{
    *m = (struct manifest){0};
    while (*tables) {
        struct kit_table t = {0};
        size_t len = strcspn(tables, " ");
        char *name = xstrndup(tables, len), *end;
        t.name = name;
        kit_add_table(m, &t);
        m->tables[m->table_count - 1].rows = strtoull(tables + len, &end, 10);
        m->rows += m->tables[m->table_count - 1].rows;
        tables = end + strspn(end, ", ");
        free(name);
    }
}

static const struct {
    const char *before, *now;
    unsigned limit;
    const char *reason; /* "": nothing suspicious */
} cases[] = {
    {"", "", 50, ""},
    {"users 100", "users 100", 50, ""},
    {"users 100", "users 200", 50, ""},
    {"users 0", "users 0", 50, ""},
    {"users 0", "users 5", 0, ""},
    {"users 100", "users 50", 50, ""},
    {"users 100", "users 49", 50, "49 rows in all, before 100 (shrink_limit 50%)"},
    {"users 100", "users 99", 0, "99 rows in all, before 100 (shrink_limit 0%)"},
    {"users 100", "users 99", 1, ""},
    {"users 3", "users 2", 33, "2 rows in all, before 3 (shrink_limit 33%)"},
    {"users 3", "users 2", 34, ""},
    {"users 100", "users 0", 100, ""},
    {"users 100", "users 1", 99, ""},
    {"users 100", "users 0", 99, "0 rows in all, before 100 (shrink_limit 99%)"},
    {"users 1", "users 0", 50, "0 rows in all, before 1 (shrink_limit 50%)"},
    /* one table, while the world as a whole hardly shrank */
    {"items 1000, users 100", "items 1000, users 49", 50,
     "49 rows in 'users', before 100 (shrink_limit 50%)"},
    {"items 1000, users 100", "items 2000, users 0", 50,
     "0 rows in 'users', before 100 (shrink_limit 50%)"},
    {"items 1000, users 100", "items 1000, users 50", 50, ""},
    {"a 1000, b 10, c 10", "a 1000, b 10, c 1", 50, "1 rows in 'c', before 10 (shrink_limit 50%)"},
    {"b 10, a 1000", "a 1000, b 1", 50, "1 rows in 'b', before 10 (shrink_limit 50%)"},
    /* a table that was dropped or made is not judged; the world is */
    {"items 1000, old 100", "items 1000", 50, ""},
    {"items 1000", "items 1000, new 0", 50, ""},
    {"items 100, old 1000", "items 100", 50, "100 rows in all, before 1100 (shrink_limit 50%)"},
    /* the sentinel is not judged: its row is the business of the probe */
    {"items 1000, sentinel 1", "items 1000, sentinel 0", 50, ""},
    {"items 1000, sentinel2 1", "items 1000, sentinel2 0", 50,
     "0 rows in 'sentinel2', before 1 (shrink_limit 50%)"},
    /* more than any world holds */
    {"items 100000000000000000", "items 1", 50,
     "1 rows in all, before 100000000000000000 (shrink_limit 50%)"},
    {"items 9000000000000000000", "items 1", 50,
     "1 rows in all, before 9000000000000000000 (shrink_limit 50%)"},
    {"items 9000000000000000000", "items 8000000000000000000", 50, ""},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct manifest before, now;
        char reason[400] = "";
        make(&before, cases[i].before);
        make(&now, cases[i].now);
        bool yes =
            shrink_suspicious(&before, &now, cases[i].limit, "sentinel", reason, sizeof reason);
        if (yes != (cases[i].reason[0] != '\0') || strcmp(reason, cases[i].reason) != 0)
            fail_msg("%s -> %s, %u%%: %s", cases[i].before, cases[i].now, cases[i].limit, reason);
        manifest_free(&before);
        manifest_free(&now);
    }
}

static void test_long_reason(void **state)
{
    (void)state;
    struct manifest before, now;
    char reason[20];
    make(&before, "items 1000, users 100");
    make(&now, "items 1000, users 1");
    assert_true(shrink_suspicious(&before, &now, 50, "sentinel", reason, sizeof reason));
    assert_string_equal(reason, "1 rows in 'users', ");
    manifest_free(&before);
    manifest_free(&now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_long_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
