/* supervisor/dumps: when the next dump is due, across reloads of the config. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actions/context.h"
#include "config/config.h"
#include "fake_clock.h"
#include "store/manifest.h"
#include "supervisor/dumps.h"
#include "supervisor/world.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)

static char name[] = "w", sentinel[] = "wk_session";
static struct config cfg = {.name = name, .sentinel = sentinel};
static struct world w = {.cfg = &cfg};

/* Stores a dump now, with this interval. */
static void store(int64_t interval)
{
    cfg.dump_interval = interval;
    dumps_stored(&w, &(struct manifest){.at = clock_wall()});
}

static int64_t due_in(void)
{
    return mono_since(dumps_next(), clock_mono());
}

static void reload(int64_t interval)
{
    cfg.dump_interval = interval;
    dumps_part.restart(&w);
}

static void pass(int64_t ms)
{
    fake_mono_ms += ms;
    fake_wall_ms += ms;
}

/* Reasons for which a dump is asked for, and in how many ms it is due. */
static const struct {
    const char *why;
    int64_t in; /* -1: a failed dump, whose retry is in dumps_failed()'s ms */
} demands[] = {{"a failed dump", -1}, {"now", 0}, {"a gap", 1000}, {"another gap", 30 * MINUTE}};
static const int64_t intervals[] = {2 * MINUTE, HOUR, 24 * HOUR};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static int64_t demand(size_t i)
{
    if (demands[i].in < 0)
        return dumps_failed(&w, false);
    dumps_due(mono_add(clock_mono(), demands[i].in));
    return demands[i].in;
}

/* A reload makes a dump that is asked for earlier, if its interval is shorter, but never later. */
static void a_reload_never_delays_a_dump_that_is_asked_for(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(demands); d++)
        for (size_t before = 0; before < COUNT(intervals); before++)
            for (size_t after = 0; after < COUNT(intervals); after++) {
                store(intervals[before]);
                pass(MINUTE);
                int64_t asked = demand(d), by_interval = intervals[after] - MINUTE;
                for (int reloads = 0; reloads < 3; reloads++) {
                    reload(intervals[after]);
                    assert_int_equal(due_in(), asked < by_interval ? asked : by_interval);
                }
            }
}

static void without_a_demand_the_new_interval_counts(void **state)
{
    (void)state;
    for (size_t before = 0; before < COUNT(intervals); before++)
        for (size_t after = 0; after < COUNT(intervals); after++) {
            store(intervals[before]);
            pass(MINUTE);
            reload(intervals[after]);
            assert_int_equal(due_in(), intervals[after] - MINUTE);
        }
}

static void a_stored_dump_answers_what_was_asked_for(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(demands); d++) {
        store(HOUR);
        demand(d);
        store(HOUR);
        reload(24 * HOUR);
        assert_int_equal(due_in(), 24 * HOUR);
    }
}

/* After the shrink guard rejected a dump, the next attempt is the next scheduled one. */
static void a_rejected_dump_waits_for_the_interval(void **state)
{
    (void)state;
    store(HOUR);
    pass(HOUR);
    assert_int_equal(dumps_failed(&w, true), HOUR);
    assert_int_equal(due_in(), HOUR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reload_never_delays_a_dump_that_is_asked_for),
        cmocka_unit_test(without_a_demand_the_new_interval_counts),
        cmocka_unit_test(a_stored_dump_answers_what_was_asked_for),
        cmocka_unit_test(a_rejected_dump_waits_for_the_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
