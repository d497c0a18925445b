/* When drills and verifies are due: intervals, times of day, clocks that are set, summer time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "supervisor/schedule.h"

#define MIN INT64_C(60000)
#define HOUR (60 * MIN)
#define DAY (24 * HOUR)
#define AT(h, m) (1 + 60 * (h) + (m))

/* "2026-03-29 04:30", in the zone of TZ */
static wall_t local(const char *text)
{
    struct tm tm = {.tm_isdst = -1};
    assert_non_null(strptime(text, "%Y-%m-%d %H:%M", &tm));
    return (wall_t){(int64_t)mktime(&tm) * 1000};
}

static void zone(const char *name)
{
    setenv("TZ", name, 1);
    tzset();
}

static wall_t next(int64_t interval, int at, bool ran, wall_t last, wall_t now)
{
    struct config_work c = {.interval = interval, .at = at};
    struct state_work past = {.ran = ran, .at = last};
    return schedule_next(&c, &past, now);
}

static void test_interval(void **state)
{
    wall_t t = {1700000000000};
    (void)state;
    assert_int_equal(next(DAY, 0, false, t, t).ms, t.ms); /* the first one at once */
    assert_int_equal(next(DAY, 0, true, t, t).ms, t.ms + DAY);
    assert_int_equal(next(1000, 0, true, t, (wall_t){t.ms + DAY}).ms, t.ms + 1000); /* overdue */
}

static void test_time_of_day(void **state)
{
    const struct {
        const char *last, *now, *next;
        int64_t interval;
        bool ran;
    } cases[] = {
        {"2026-05-01 10:00", "2026-05-01 10:00", "2026-05-02 04:30", DAY, false},
        {"2026-05-01 04:29", "2026-05-01 04:29", "2026-05-01 04:30", DAY, false},
        {"2026-05-01 04:30", "2026-05-01 04:31", "2026-05-02 04:30", DAY, true},
        {"2026-05-01 04:50", "2026-05-01 05:00", "2026-05-02 04:30", DAY, true}, /* began late */
        {"2026-05-01 15:00", "2026-05-01 15:10", "2026-05-02 04:30", DAY, true}, /* by hand */
        {"2026-05-01 20:00", "2026-05-01 20:10", "2026-05-03 04:30", DAY,
         true}, /* shortly before */
        {"2026-05-01 04:30", "2026-05-02 07:00", "2026-05-02 04:30", DAY, true}, /* made up for */
        {"2026-05-01 04:30", "2026-05-02 09:00", "2026-05-03 04:30", DAY, true}, /* too late */
        {"2026-05-01 04:30", "2026-06-02 09:00", "2026-06-03 04:30", DAY, true}, /* weeks off */
        {"2026-05-01 04:30", "2026-05-02 04:30", "2026-05-08 04:30", 7 * DAY, true},
        {"2026-05-31 23:59", "2026-05-31 23:59", "2026-06-01 04:30", DAY, false}, /* month's end */
    };
    (void)state;
    zone("CET-1CEST,M3.5.0,M10.5.0/3");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wall_t want = local(cases[i].next);
        wall_t got = next(cases[i].interval, AT(4, 30), cases[i].ran, local(cases[i].last),
                          local(cases[i].now));
        if (got.ms != want.ms)
            fail_msg("case %zu: %lld seconds too late", i, (long long)(got.ms - want.ms) / 1000);
    }
}

/* Each day once, at that time as the clock on the wall shows it; also on the days on which there
 * is no 02:30, or two of them. */
static void test_summer_time(void **state)
{
    static const char *const zones[] = {"CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0",
                                        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "UTC0"};
    static const int times[] = {AT(0, 0), AT(2, 30), AT(4, 30), AT(23, 59)};
    (void)state;
    for (size_t z = 0; z < sizeof zones / sizeof *zones; z++)
        for (size_t k = 0; k < sizeof times / sizeof *times; k++) {
            zone(zones[z]);
            wall_t first = local("2026-01-01 12:00"), last = first;
            unsigned runs = 0;
            for (wall_t now = first; now.ms < first.ms + 365 * DAY; now.ms += 10 * MIN) {
                if (next(DAY, times[k], runs > 0, last, now).ms > now.ms)
                    continue;
                assert_true(runs == 0 ||
                            (now.ms - last.ms >= 22 * HOUR && now.ms - last.ms <= 26 * HOUR));
                last = now;
                runs++;
            }
            assert_in_range(runs, 364, 366);
        }
}

static void test_clock_is_set(void **state)
{
    wall_t now = {1700000000000};
    struct state_work past = {.ran = true,
                              .at = {now.ms + 365 * DAY}}; /* began while the clock was ahead */
    struct config_work c = {.interval = DAY};
    (void)state;
    assert_true(schedule_settle(&past, now));
    assert_int_equal(schedule_next(&c, &past, now).ms, now.ms + DAY);
    assert_false(schedule_settle(&past, (wall_t){now.ms + HOUR}));
    assert_int_equal(past.at.ms, now.ms);
    /* set ahead: once at once, then after the interval */
    wall_t ahead = {now.ms + 400 * DAY};
    assert_true(schedule_next(&c, &past, ahead).ms <= ahead.ms);
    past.at = ahead;
    assert_int_equal(schedule_next(&c, &past, ahead).ms, ahead.ms + DAY);
    struct state_work none = {0};
    assert_true(schedule_settle(&none, now));
    assert_false(none.ran);
    assert_int_equal(none.at.ms, now.ms);
}

static void test_overdue(void **state)
{
    struct config_work c = {.interval = DAY, .at = AT(4, 30)};
    struct state_work past = {.ran = true, .at = {1700000000000}};
    (void)state;
    assert_false(schedule_overdue(&c, &past, (wall_t){past.at.ms + 2 * DAY}));
    assert_true(schedule_overdue(&c, &past, (wall_t){past.at.ms + 3 * DAY}));
}

/* A second world beside the first, and half of it again for what the comparison reads. */
static void test_room(void **state)
{
    (void)state;
    assert_true(schedule_has_room(0, 0));
    assert_true(schedule_has_room(1000, 1500));
    assert_false(schedule_has_room(1000, 1499));
    assert_false(schedule_has_room(1000, -1));
}

/* Grow to their limit and stay there, however often it fails. */
static void test_pauses(void **state)
{
    static const int64_t want[] = {1000, 2000, 4000, 7000, 7000};
    int64_t pause = 0;
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        pause = clock_backoff(pause, 1000, 7000);
        assert_int_equal(pause, want[i]);
    }
    for (int i = 0; i < 200; i++)
        pause = clock_backoff(pause, 1000, 7000);
    assert_int_equal(pause, 7000);
    assert_int_equal(clock_backoff(0, 9000, 7000), 7000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval),    cmocka_unit_test(test_time_of_day),
        cmocka_unit_test(test_summer_time), cmocka_unit_test(test_clock_is_set),
        cmocka_unit_test(test_overdue),     cmocka_unit_test(test_room),
        cmocka_unit_test(test_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
