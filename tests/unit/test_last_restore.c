/* supervisor/last_restore: which of two restores is the last one, and what decisions read of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/last_restore.h"

#define FIRST "{\"at\":\"2026-01-31T12:00:00.250Z\",\"ok\":true,\"only\":\"player\"}"
#define LATER "{\"at\":\"2026-01-31T12:00:00.251Z\",\"ok\":true}"

static void test_the_later_one_counts(void **state)
{
    (void)state;
    struct last_restore l = {.shown = NULL};
    assert_false(last_restore_adopt(&l, NULL));
    assert_true(last_restore_adopt(&l, last_restore_load(FIRST)));
    assert_string_equal(l.tables, "player");
    assert_true(l.at.ms % 1000 == 250);
    assert_false(last_restore_adopt(&l, last_restore_load(FIRST)));
    assert_true(last_restore_adopt(&l, last_restore_load(LATER)));
    assert_string_equal(l.tables, "");
    assert_false(last_restore_adopt(&l, last_restore_load(FIRST)));
    assert_true(json_object_get(l.shown, "ok") == json_true() && l.at.ms % 1000 == 251);
    last_restore_set(&l, NULL);
    assert_true(!l.shown && l.at.ms == 0);
}

/* state.json of another version, or what is left of one. */
static void test_no_restore(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[]", "{}", "{\"at\":5}", "{\"at\":\"today\"}"};
    struct last_restore l = {.shown = NULL};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        last_restore_set(&l, last_restore_load(texts[i]));
        assert_true(l.at.ms == 0 && !l.tables[0]);
        assert_false(last_restore_adopt(&l, last_restore_load(texts[i])));
    }
    last_restore_set(&l, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_later_one_counts),
                                       cmocka_unit_test(test_no_restore)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
