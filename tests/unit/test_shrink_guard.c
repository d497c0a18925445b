/* dump/shrink_guard: the exact loss of rows from which on a dump is suspicious. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dump/shrink_guard.h"
#include "dump_kit.h"

static const struct shrink_rule half = {50, 0, "sentinel"};

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
    {"users 100", "users 49", 50, "49 rows in total, previously 100 (shrink_limit 50%)"},
    {"users 100", "users 99", 0, "99 rows in total, previously 100 (shrink_limit 0%)"},
    {"users 100", "users 99", 1, ""},
    {"users 3", "users 2", 33, "2 rows in total, previously 3 (shrink_limit 33%)"},
    {"users 3", "users 2", 34, ""},
    {"users 100", "users 0", 100, ""},
    {"users 100", "users 1", 99, ""},
    {"users 100", "users 0", 99, "0 rows in total, previously 100 (shrink_limit 99%)"},
    {"users 1", "users 0", 50, "0 rows in total, previously 1 (shrink_limit 50%)"},
    /* one table, while the world as a whole hardly shrank */
    {"items 1000, users 100", "items 1000, users 49", 50,
     "49 rows in 'users', previously 100 (shrink_limit 50%)"},
    {"items 1000, users 100", "items 2000, users 0", 50,
     "0 rows in 'users', previously 100 (shrink_limit 50%)"},
    {"items 1000, users 100", "items 1000, users 50", 50, ""},
    {"a 1000, b 10, c 10", "a 1000, b 10, c 1", 50,
     "1 rows in 'c', previously 10 (shrink_limit 50%)"},
    {"b 10, a 1000", "a 1000, b 1", 50, "1 rows in 'b', previously 10 (shrink_limit 50%)"},
    /* a table that was dropped or made is not judged; the world is */
    {"items 1000, old 100", "items 1000", 50, ""},
    {"items 1000", "items 1000, new 0", 50, ""},
    {"items 100, old 1000", "items 100", 50,
     "100 rows in total, previously 1100 (shrink_limit 50%)"},
    /* the sentinel is not judged: its row is the business of the probe */
    {"items 1000, sentinel 1", "items 1000, sentinel 0", 50, ""},
    {"items 1000, sentinel2 1", "items 1000, sentinel2 0", 50,
     "0 rows in 'sentinel2', previously 1 (shrink_limit 50%)"},
    /* more than any world holds */
    {"items 100000000000000000", "items 1", 50,
     "1 rows in total, previously 100000000000000000 (shrink_limit 50%)"},
    {"items 9000000000000000000", "items 1", 50,
     "1 rows in total, previously 9000000000000000000 (shrink_limit 50%)"},
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
        const struct shrink_rule rule = {cases[i].limit, 0, "sentinel"};
        bool yes = shrink_guard_suspicious(&before, &now, &rule, reason, sizeof reason);
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
    assert_true(shrink_guard_suspicious(&before, &now, &half, reason, sizeof reason));
    assert_string_equal(reason, "1 rows in 'users...");
    manifest_free(&before);
    manifest_free(&now);
}

/* All that lost too much, not the first one alone, and none that did not. */
static void test_tables(void **state)
{
    (void)state;
    struct manifest before, now;
    json_t *list = json_array();
    make(&before, "items 1000, users 100, chat 10, old 5, sentinel 1");
    make(&now, "items 1000, users 1, chat 0, sentinel 0");
    shrink_guard_tables(&before, &now, &half, list);
    assert_int_equal(json_array_size(list), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *o = json_array_get(list, i);
        assert_string_equal(json_string_value(json_object_get(o, "name")), i ? "chat" : "users");
        assert_int_equal(json_integer_value(json_object_get(o, "rows")), i ? 10 : 100);
    }
    json_decref(list);
    manifest_free(&before);
    manifest_free(&now);
}

/* Tables that had fewer rows than the rule's least are not judged, and no more is a world as
 * small as that. */
static void test_small_tables(void **state)
{
    (void)state;
    static const struct {
        const char *before, *now, *reason;
    } small[] = {
        {"sessions 999, users 5000", "sessions 0, users 5000", ""},
        {"sessions 1000, users 5000", "sessions 499, users 5000",
         "499 rows in 'sessions', previously 1000 (shrink_limit 50%)"},
        {"a 600, b 399", "a 1, b 0", ""},
        {"a 600, b 400", "a 1, b 0", "1 rows in total, previously 1000 (shrink_limit 50%)"},
    };
    const struct shrink_rule rule = {50, SHRINK_LEAST, "sentinel"};
    for (size_t i = 0; i < COUNT(small); i++) {
        struct manifest before, now;
        char reason[400] = "";
        make(&before, small[i].before);
        make(&now, small[i].now);
        assert_int_equal(shrink_guard_suspicious(&before, &now, &rule, reason, sizeof reason),
                         small[i].reason[0] != '\0');
        assert_string_equal(reason, small[i].reason);
        manifest_free(&before);
        manifest_free(&now);
    }
}

/* Where the world shrank and no table of it did, as after DROP TABLE, one entry stands for the
 * world. */
static void test_world_alone(void **state)
{
    (void)state;
    struct manifest before, now;
    json_t *list = json_array();
    make(&before, "items 100, old 1000");
    make(&now, "items 100");
    shrink_guard_tables(&before, &now, &half, list);
    assert_int_equal(json_array_size(list), 1);
    const json_t *o = json_array_get(list, 0);
    assert_null(json_object_get(o, "name"));
    assert_int_equal(json_integer_value(json_object_get(o, "rows")), 1100);
    assert_int_equal(json_integer_value(json_object_get(o, "rows_now")), 100);
    json_decref(list);
    manifest_free(&before);
    manifest_free(&now);
}

/* A ledger may lose what was rolled up since, by the numbers of both dumps, and nothing else. */
static void test_ledgers(void **state)
{
    (void)state;
    static const struct {
        const char *before, *now;
        int64_t was, is, open; /* was -1: the dump before says nothing of ledgers */
        bool suspicious;
    } at[] = {
        {"xp 1000, xp_rollup 10", "xp 10, xp_rollup 10", 500, 1500, 0, false},
        {"xp 1000, xp_rollup 10", "xp 10, xp_rollup 10", 500, 1499, 0, false},
        {"xp 1000, xp_rollup 10", "xp 0, xp_rollup 10", 500, 1500, 0, false},
        {"xp 1000, xp_rollup 10", "xp 10, xp_rollup 10", 500, 500, 0, true},   /* no run since */
        {"xp 1000, xp_rollup 10", "xp 40, xp_rollup 10", 500, 1400, 0, true},  /* 60 of 100 gone */
        {"xp 1000, xp_rollup 10", "xp 60, xp_rollup 10", 500, 1400, 0, false}, /* 40 of 100 */
        {"xp 1000, xp_rollup 10", "xp 0, xp_rollup 10", 500, 500, 1000, false},
        {"xp 1000, xp_rollup 10", "xp 0, xp_rollup 10", 500, 500, 900, true},
        {"xp 1000", "xp 0, xp_rollup 10", -1, 1000, 0, false}, /* the first runs of a new ledger */
        {"xp 1000, xp_rollup 10", "xp 0, xp_rollup 10", -1, 1000, 0, true}, /* of how many? */
        {"xp 1000, xp_rollup 10", "xp 0, xp_rollup 1", 500, 1500, 0, true}, /* totals are gone */
        {"xp 1000, items 1000, xp_rollup 1", "xp 0, items 100, xp_rollup 1", 0, 1000, 0, true},
        {"xp 9000, items 1000, xp_rollup 1", "xp 0, items 900, xp_rollup 1", 0, 9000, 0, false},
    };
    for (size_t i = 0; i < COUNT(at); i++) {
        struct manifest before, now;
        char reason[400] = "";
        make(&before, at[i].before);
        make(&now, at[i].now);
        struct manifest *both[] = {&before, &now};
        for (size_t k = at[i].was < 0; k < 2; k++) {
            both[k]->ledgers = xcalloc(1, sizeof *both[k]->ledgers);
            both[k]->ledgers[0] =
                (struct manifest_ledger){.name = "xp",
                                         .table = xstrdup("xp"),
                                         .rolled_up = (uint64_t)(k ? at[i].is : at[i].was),
                                         .open = k ? 0 : (uint64_t)at[i].open};
            both[k]->ledger_count = 1;
        }
        if (shrink_guard_suspicious(&before, &now, &half, reason, sizeof reason) !=
            at[i].suspicious)
            fail_msg("case %zu: %s", i, reason);
        manifest_free(&before);
        manifest_free(&now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),       cmocka_unit_test(test_long_reason),
        cmocka_unit_test(test_tables),      cmocka_unit_test(test_small_tables),
        cmocka_unit_test(test_world_alone), cmocka_unit_test(test_ledgers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
