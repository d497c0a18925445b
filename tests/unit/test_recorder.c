/* supervisor/recorder, actions/history: the history and metrics that a run leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "actions/history.h"
#include "base/js.h"
#include "supervisor/recorder.h"
#include "supervisor/world.h"

static struct world w;

static int begin(void **state)
{
    (void)state;
    w = (struct world){.disk_writer.fd = -1};
    recorder_part.begin(&w);
    return 0;
}

/* -1: there is no such series. */
static int64_t failures(const char *action, const char *kind)
{
    json_auto_t *list = recorder_failures();
    json_t *o;
    size_t i;
    json_array_foreach(list, i, o)
    {
        if (strcmp(js_text(o, "action"), action) == 0 && strcmp(js_text(o, "kind"), kind) == 0)
            return js_number(o, "count", -1);
    }
    return -1;
}

static void run_fails(enum action action, const char *result, enum err_class cls)
{
    struct request r = {.action = action, .automatic = true};
    struct err e;
    json_auto_t *o = result ? json_loads(result, 0, NULL) : NULL;
    err_set(&e, cls, 0, "it failed");
    history_add(&w, history_of(&r, o, &e), history_fields(&r, o, &e));
}

/* A rule that looks for a rise sees the first failure, too. */
static void test_failures_count_from_zero(void **state)
{
    (void)state;
    static const char *const actions[] = {"dump", "restore", "drill", "verify"};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        assert_int_equal(failures(actions[i], "no-space"), 0);
        assert_int_equal(failures(actions[i], "gap"), 0);
        assert_int_equal(failures(actions[i], "none"), -1);
    }
    assert_int_equal(failures("dump", "rejected"), 0);
    run_fails(ACTION_DUMP, NULL, ERR_NOSPACE);
    run_fails(ACTION_DUMP, "{\"rejected\": \"0 rows in t\"}", ERR_REFUSED);
    run_fails(ACTION_DRILL, NULL, ERR_CONFIG); /* one that nobody expects */
    run_fails(ACTION_DRILL, NULL, ERR_CONFIG);
    assert_int_equal(failures("dump", "no-space"), 1);
    assert_int_equal(failures("dump", "rejected"), 1);
    assert_int_equal(failures("dump", "refused"), 0);
    assert_int_equal(failures("drill", "no-space"), 0);
    assert_int_equal(failures("drill", "config"), 2);
}

/* What a drill that failed has counted is not known, also where it counted something. */
static void test_rows_of_a_drill_that_failed(void **state)
{
    (void)state;
    struct request r = {.action = ACTION_DRILL};
    struct err e;
    err_set(&e, ERR_DAMAGED, 0, "not equal");
    json_auto_t *result = json_pack("{s:s, s:i}", "dump", "w-1", "rows", 7),
                *failed = history_fields(&r, result, &e),
                *passed = history_fields(&r, result, NULL);
    assert_true(json_is_null(json_object_get(failed, "rows")));
    assert_string_equal(js_text(failed, "error_kind"), "damaged");
    assert_int_equal(js_number(passed, "rows", -1), 7);
    assert_true(js_flag(passed, "ok") && !js_flag(failed, "ok"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_failures_count_from_zero, begin),
        cmocka_unit_test(test_rows_of_a_drill_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
