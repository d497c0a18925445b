/* dump/shrink_guard with players' progress. Sessions end, and their rows go; other tables are
 * judged as if these rows had not been there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dump/shrink_guard.h"
#include "dump_kit.h"
#include "progress/local.h"

/* A world with two tables of the game; `own`: rows in each table of players' progress. */
static void make(struct manifest *m, uint64_t users, uint64_t items, uint64_t own)
{
    *m = (struct manifest){0};
    kit_add_table(m, &(struct kit_table){.name = "users"});
    kit_add_table(m, &(struct kit_table){.name = "items"});
    for (size_t i = 0; local_own[i]; i++)
        kit_add_table(m, &(struct kit_table){.name = local_own[i]});
    for (size_t i = 0; i < m->table_count; i++) {
        m->tables[i].rows = i == 0 ? users : i == 1 ? items : own;
        m->rows += m->tables[i].rows;
    }
}

static void test_ended_sessions(void **state)
{
    (void)state;
    static const struct {
        uint64_t users, items;
        unsigned limit;
        bool suspicious;
    } cases[] = {{100, 0, 50, false}, {49, 0, 50, true}, {100, 1, 40, true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct manifest before, now;
        char reason[400] = "";
        const struct shrink_rule rule = {cases[i].limit, 0, "sentinel"};
        make(&before, 100, cases[i].items ? 100 : 0, 1000);
        make(&now, cases[i].users, cases[i].items, 0);
        assert_int_equal(shrink_guard_suspicious(&before, &now, &rule, reason, sizeof reason),
                         cases[i].suspicious);
        manifest_free(&before);
        manifest_free(&now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ended_sessions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
