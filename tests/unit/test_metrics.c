/* supervisor/metrics: what of the status becomes which sample, whatever its texts are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/js.h"
#include "supervisor/metrics.h"
#include "supervisor/world.h"

/* The text for `status`, which is taken. */
static struct buf text_of(const char *world, json_t *status)
{
    struct buf b = {0};
    assert_non_null(status);
    metrics_text(world, status, &b);
    json_decref(status);
    return b;
}

static void assert_has(const struct buf *b, const char *line)
{
    if (!strstr(b->p, line))
        fail_msg("no %s in\n%s", line, b->p);
}

static void test_kinds_of_values(void **state)
{
    (void)state;
    SCOPED(buf_free)
    struct buf b =
        text_of("s8", json_pack("{s:b, s:i, s:s, s:{s:f, s:b}, s:{s:I}}", "ready", 1, "generation",
                                3, "since", "2026-11-22T10:00:00.250Z", "last_restore", "seconds",
                                1.5, "ok", 0, "disk", "free_bytes", (json_int_t)9007199254740991));
    assert_has(&b, "# HELP worldkeeper_up 1 while the world is up\n# TYPE worldkeeper_up gauge\n"
                   "worldkeeper_up{world=\"s8\"} 1.000\n");
    assert_has(&b, "worldkeeper_generation{world=\"s8\"} 3.000\n");
    assert_has(&b, "worldkeeper_state_since_timestamp_seconds{world=\"s8\"} 1795341600.250\n");
    assert_has(&b, "worldkeeper_last_restore_seconds{world=\"s8\"} 1.500\n");
    assert_has(&b, "worldkeeper_last_restore_success{world=\"s8\"} 0.000\n");
    assert_has(&b, "worldkeeper_disk_free_bytes{world=\"s8\"} 9007199254740991.000\n");
}

/* Null, missing, of another type than the table expects, a time that is none: no sample, no
 * help. */
static void test_what_is_not_known_is_absent(void **state)
{
    static const char *const wrong[] = {"2026-11-22T10:00:00Z", "yesterday", "",
                                        "2026-02-30T10:00:00.000Z", "-1"};
    (void)state;
    SCOPED(buf_free) struct buf none = text_of("s8", json_object());
    assert_int_equal(none.len, 0);
    SCOPED(buf_free)
    struct buf nothing = text_of(
        "s8", json_pack("{s:n, s:[], s:n, s:{s:n}, s:[{s:s, s:n}], s:{s:{s:[], s:i}}}", "ready",
                        "generation", "last_dump", "journal", "behind_seconds", "ledgers", "name",
                        "xp", "rows", "figures", "lateness", "buckets", "sum", 0));
    assert_int_equal(nothing.len, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        SCOPED(buf_free) struct buf b = text_of("s8", json_pack("{s:s}", "since", wrong[i]));
        assert_int_equal(b.len, 0);
    }
}

/* One help and type for all samples of a metric. */
static void test_lists(void **state)
{
    (void)state;
    SCOPED(buf_free)
    struct buf b = text_of("s8", json_pack("{s:[{s:s, s:i}, {s:s, s:n}, {s:s, s:i}],"
                                           " s:{s:[{s:s, s:s, s:i}]}}",
                                           "ledgers", "name", "xp", "rows", 5, "name", "gold",
                                           "rows", "name", "ore", "rows", 0, "figures", "failures",
                                           "action", "dump", "kind", "no-space", "count", 2));
    assert_string_equal(
        b.p, "# HELP worldkeeper_failures_total those that failed, by the kind of error\n"
             "# TYPE worldkeeper_failures_total counter\n"
             "worldkeeper_failures_total{world=\"s8\",action=\"dump\",kind=\"no-space\"} 2.000\n"
             "# HELP worldkeeper_ledger_rows rows in the ledger, not yet rolled up\n"
             "# TYPE worldkeeper_ledger_rows gauge\n"
             "worldkeeper_ledger_rows{world=\"s8\",ledger=\"xp\"} 5.000\n"
             "worldkeeper_ledger_rows{world=\"s8\",ledger=\"ore\"} 0.000\n");
}

static void test_histogram(void **state)
{
    (void)state;
    SCOPED(buf_free)
    struct buf b = text_of("s8", json_pack("{s:{s:{s:[{s:s, s:i}, {s:s, s:i}], s:f}}}", "figures",
                                           "lateness", "buckets", "le", "0.005", "count", 7, "le",
                                           "+Inf", "count", 9, "sum", 0.25));
    assert_string_equal(b.p,
                        "# HELP worldkeeper_loop_late_seconds how late the supervisor's loop was, "
                        "each round\n"
                        "# TYPE worldkeeper_loop_late_seconds histogram\n"
                        "worldkeeper_loop_late_seconds_bucket{world=\"s8\",le=\"0.005\"} 7.000\n"
                        "worldkeeper_loop_late_seconds_bucket{world=\"s8\",le=\"+Inf\"} 9.000\n"
                        "worldkeeper_loop_late_seconds_sum{world=\"s8\"} 0.250\n"
                        "worldkeeper_loop_late_seconds_count{world=\"s8\"} 9.000\n");
}

/* Nobody's text ends a label, a line or a sample. */
static void test_hostile_texts(void **state)
{
    static const char hostile[] = "a\\b\"} 1\nworldkeeper_up{world=\"x\"} 1\n# TYPE \xc3\xa9 {,}=";
    (void)state;
    SCOPED(buf_free)
    struct buf b = text_of(hostile, json_pack("{s:b, s:[{s:s, s:i}], s:{s:[{s:s, s:b}]}}", "ready",
                                              1, "ledgers", "name", hostile, "rows", 1, "figures",
                                              "conditions", "condition", "disk", "is", 1));
    const char *label =
        "=\"a\\\\b\\\"} 1\\nworldkeeper_up{world=\\\"x\\\"} 1\\n# TYPE \xc3\xa9 {,}=\"";
    unsigned labels = 0, lines = 0;
    for (const char *at = b.p; (at = strstr(at, label)); at++)
        labels++;
    for (const char *at = b.p; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(labels, 4); /* the world in three samples, the ledger in one */
    assert_int_equal(lines, 3 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_values), cmocka_unit_test(test_what_is_not_known_is_absent),
        cmocka_unit_test(test_lists),           cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_hostile_texts),
    };
    js_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
