/* store/timeline: how long the world was in each state, whatever happened to the clock and the
 * file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "store/timeline.h"

#define S INT64_C(1000)
#define M (60 * S)
#define H (60 * M)
#define D (24 * H)
#define T0 INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

static json_t *record(int64_t at, const char *kind, json_t *fields)
{
    json_t *o = fields ? fields : json_object();
    json_object_set_new(o, "at", js_time((wall_t){at}));
    json_object_set_new(o, "kind", json_string(kind));
    return o;
}

static void add(struct timeline *t, int64_t at, const char *kind, json_t *fields)
{
    json_t *o = record(at, kind, fields);
    timeline_add(t, o);
    json_decref(o);
}

static void state(struct timeline *t, int64_t at, const char *name)
{
    add(t, at, "state", json_pack("{s:s, s:b, s:s}", "state", name, "changed", 1, "reason", name));
}

static int64_t sum(const struct timeline *t, int64_t since, const char *key)
{
    json_t *o = timeline_sum(t, (wall_t){since});
    int64_t ms = js_number(o, key, -1);
    json_decref(o);
    return ms;
}

static json_t *shown(const struct timeline *t)
{
    json_t *o = json_object();
    timeline_fill(t, o);
    return o;
}

static struct timeline *up_from(int64_t at, int64_t now)
{
    struct timeline *t = timeline_new((wall_t){now});
    add(t, at, "started", NULL);
    state(t, at, "UP");
    return t;
}

static void test_each_bucket_tells_how_long(void **arg)
{
    (void)arg;
    struct timeline *t = up_from(T0, T0 + 2 * H);
    state(t, T0 + 7 * M, "WAITING");
    state(t, T0 + 8 * M, "UP");
    timeline_until(t, (wall_t){T0 + 12 * M});
    json_t *o = shown(t), *five = json_object_get(o, "five_minutes");
    assert_int_equal(json_array_size(five), 25);
    assert_int_equal(js_number(json_array_get(five, 0), "up", -1), 5 * M);
    assert_int_equal(js_number(json_array_get(five, 1), "up", -1), 4 * M);
    assert_int_equal(js_number(json_array_get(five, 1), "waiting", -1), M);
    assert_int_equal(js_number(json_array_get(five, 2), "up", -1), 2 * M);
    assert_int_equal(js_number(json_array_get(five, 2), "unknown", -1), 3 * M);
    assert_string_equal(js_text(json_array_get(five, 1), "at"), "2026-01-01T00:05:00Z");
    assert_int_equal(js_number(json_array_get(json_object_get(o, "days"), 0), "up", -1), 11 * M);
    json_decref(o);
    timeline_free(t);
}

/* A supervisor that was killed: up to its last sign of life the world was up, then nobody knows. */
static void test_time_without_a_supervisor_is_unknown(void **arg)
{
    (void)arg;
    static const int64_t signs[] = {T0 + 10 * M, 0, T0 - H, T0 + 5 * H};
    static const int64_t up[] = {10 * M, 0, 0, 2 * H};
    for (size_t i = 0; i < 4; i++) {
        struct timeline *t = up_from(T0, T0 + 3 * H);
        add(t, T0 + 2 * H, "started",
            json_pack("{s:o}", "watched_until", js_time((wall_t){signs[i]})));
        state(t, T0 + 2 * H + M, "UP");
        timeline_until(t, (wall_t){T0 + 2 * H + 3 * M});
        assert_int_equal(sum(t, T0, "up"), up[i] + 2 * M);
        timeline_free(t);
    }
    struct timeline *t = up_from(T0, T0 + 3 * H);
    add(t, T0 + H, "stopped", NULL);
    add(t, T0 + 90 * M, "verify", json_pack("{s:b}", "by_hand", 1));
    assert_int_equal(sum(t, T0, "up"), H);
    assert_int_equal(sum(t, T0, "unknown"), 2 * H);
    timeline_free(t);
}

/* An action by hand is no sign of life of the supervisor that was killed before it. */
static void test_actions_by_hand_prove_nothing(void **arg)
{
    (void)arg;
    struct timeline *t = up_from(T0, T0 + 3 * H);
    add(t, T0 + 2 * H, "dump", json_pack("{s:b, s:b, s:i}", "by_hand", 1, "ok", 1, "rows", 7));
    assert_int_equal(sum(t, T0, "up"), 0);
    json_t *o = shown(t), *hours = json_object_get(o, "hours");
    assert_int_equal(js_number(json_array_get(hours, 2), "rows", -1), 7);
    json_decref(o);
    timeline_free(t);
}

static void test_clock_that_is_set(void **arg)
{
    (void)arg;
    /* An hour forward: nobody lived through it. */
    struct timeline *t = up_from(T0, T0 + 9 * H);
    add(t, T0 + 2 * H, "state",
        json_pack("{s:s, s:b, s:I}", "state", "UP", "changed", 0, "unwatched_ms", (json_int_t)H));
    state(t, T0 + 3 * H, "UP");
    assert_int_equal(sum(t, T0, "up"), 2 * H);
    timeline_free(t);
    /* An hour back: no bucket holds more than its length. */
    t = up_from(T0, T0 + 9 * H);
    state(t, T0 + 2 * H, "UP");
    state(t, T0 + H, "UP");
    state(t, T0 + 3 * H, "UP");
    assert_int_equal(sum(t, T0, "up"), 3 * H);
    assert_true(timeline_is_behind(t, (wall_t){T0 + H}));
    assert_false(timeline_is_behind(t, (wall_t){T0 + 3 * H}));
    timeline_free(t);
    /* Records of a clock that was a year ahead: not counted, and neither is the time until the next
     * that is right. */
    t = up_from(T0, T0 + 9 * H);
    state(t, T0 + H, "UP");
    state(t, T0 + 365 * D, "UP");
    state(t, T0 + 2 * H, "UP");
    state(t, T0 + 3 * H, "UP");
    assert_int_equal(sum(t, T0, "up"), 2 * H);
    timeline_free(t);
    /* A leap of decades with no word about it ends, and does not overflow. */
    t = up_from(1, CLOCK_WALL_MAX);
    state(t, CLOCK_WALL_MAX - M, "WAITING");
    timeline_until(t, (wall_t){CLOCK_WALL_MAX});
    json_t *o = shown(t);
    assert_int_equal(json_array_size(json_object_get(o, "days")), TIMELINE_DAYS);
    assert_int_equal(json_array_size(json_object_get(o, "hours")), TIMELINE_HOURS);
    assert_int_equal(json_array_size(json_object_get(o, "five_minutes")), TIMELINE_FIVE_MINUTES);
    json_decref(o);
    timeline_free(t);
}

/* Without its samples a supervisor is not known to live. */
static void test_until_only_while_samples_come(void **arg)
{
    (void)arg;
    struct timeline *t = up_from(T0, T0);
    timeline_until(t, (wall_t){T0 + 6 * M});
    timeline_now(t, (wall_t){T0 + H});
    timeline_until(t, (wall_t){T0 + H});
    assert_int_equal(sum(t, T0, "up"), 6 * M);
    timeline_free(t);
}

static const json_t *incident(const json_t *o, size_t i)
{
    return json_array_get(json_object_get(o, "incidents"), i);
}

static void test_incidents(void **arg)
{
    (void)arg;
    struct timeline *t = up_from(T0, T0 + D);
    state(t, T0 + H, "SUSPECT"); /* a moment of doubt is none */
    state(t, T0 + H + 5 * S, "UP");
    state(t, T0 + 2 * H, "SUSPECT");
    state(t, T0 + 2 * H + 2 * S, "WAITING");
    state(t, T0 + 2 * H + 3 * S, "LOST");
    state(t, T0 + 2 * H + 4 * S, "RESTORING");
    add(t, T0 + 2 * H + 9 * S, "restore",
        json_pack("{s:b, s:i, s:n, s:f, s:f, s:s}", "ok", 1, "rows", 30, "lost_seconds",
                  "lost_seconds_max", 2.5, "outage_seconds", 9.25, "dump", "d1"));
    state(t, T0 + 2 * H + 9 * S, "UP");
    state(t, T0 + 3 * H, "SUSPECT"); /* denied for long */
    state(t, T0 + 4 * H, "UP");
    state(t, T0 + 5 * H, "PAUSED");
    state(t, T0 + 6 * H, "UP");
    state(t, T0 + 7 * H, "WAITING");
    add(t, T0 + 8 * H, "started",
        json_pack("{s:o}", "watched_until", js_time((wall_t){T0 + 7 * H + M})));
    state(t, T0 + 8 * H, "STARTING");
    state(t, T0 + 8 * H + S, "UP");
    state(t, T0 + 9 * H, "WAITING");
    json_t *o = shown(t);
    assert_int_equal(json_array_size(json_object_get(o, "incidents")), 4);
    assert_string_equal(js_text(incident(o, 0), "begin"), "2026-01-01T02:00:00.000Z");
    assert_string_equal(js_text(incident(o, 0), "state"), "RESTORING");
    assert_string_equal(js_text(incident(o, 0), "cause"), "SUSPECT");
    assert_string_equal(js_text(incident(o, 0), "dump"), "d1");
    assert_true(json_real_value(json_object_get(incident(o, 0), "outage_seconds")) == 9.25);
    assert_true(json_is_null(json_object_get(incident(o, 0), "lost_seconds")));
    assert_string_equal(js_text(incident(o, 1), "state"), "SUSPECT");
    assert_true(json_real_value(json_object_get(incident(o, 1), "outage_seconds")) == 3600);
    /* Nobody saw all of it, and this one lasts. */
    assert_true(json_is_null(json_object_get(incident(o, 2), "outage_seconds")));
    assert_string_equal(js_text(incident(o, 2), "end"), "2026-01-01T08:00:01.000Z");
    assert_true(json_is_null(json_object_get(incident(o, 3), "end")));
    assert_int_equal(js_flag(incident(o, 3), "restored"), 0);
    json_decref(o);
    timeline_free(t);
}

static void told(struct timeline *t, int64_t at, const char *name, const char *cause,
                 bool unverified)
{
    json_t *o = json_pack("{s:s, s:b, s:s, s:s}", "state", name, "changed", 1, "reason",
                          "sentinel empty; seen 1 of 2 times", "cause", cause);
    if (unverified)
        json_object_set_new(o, "unverified", json_true());
    add(t, at, "state", o);
}

/* A revoked privilege: the game plays on as far as anybody knows, which is no downtime. */
static void test_unverified_is_no_downtime(void **arg)
{
    (void)arg;
    struct timeline *t = up_from(T0, T0 + D);
    told(t, T0 + H, "SUSPECT", "refused", true);
    add(t, T0 + 90 * M, "state",
        json_pack("{s:s, s:b, s:b}", "state", "SUSPECT", "changed", 0, "unverified", 1));
    state(t, T0 + 2 * H, "UP");
    /* And one that the server's end follows. */
    told(t, T0 + 3 * H, "WAITING", "table missing", true);
    told(t, T0 + 4 * H, "WAITING", "not running", false);
    told(t, T0 + 4 * H + M, "LOST", "restarted", false);
    state(t, T0 + 4 * H + 2 * M, "UP");
    timeline_until(t, (wall_t){T0 + 4 * H + 5 * M});
    assert_int_equal(sum(t, T0, "up"), 2 * H + 3 * M);
    assert_int_equal(sum(t, T0, "suspect"), 0);
    assert_int_equal(sum(t, T0, "waiting"), M);
    assert_int_equal(sum(t, T0, "lost"), M);
    json_t *o = shown(t);
    assert_int_equal(json_array_size(json_object_get(o, "incidents")), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(js_flag(incident(o, i), "unverified"), i < 2);
        assert_true(json_is_null(json_object_get(incident(o, i), "outage_seconds")));
    }
    assert_string_equal(js_text(incident(o, 1), "cause"), "table missing");
    assert_string_equal(js_text(incident(o, 1), "end"), "2026-01-01T04:00:00.000Z");
    assert_string_equal(js_text(incident(o, 2), "cause"), "restarted");
    json_decref(o);
    timeline_free(t);
}

/* What is published stays within its limit whatever happened. */
static void test_limit(void **arg)
{
    (void)arg;
    static const char *const names[] = {"WAITING", "LOST", "RESTORING", "SUSPECT", "PAUSED", "UP"};
    char reason[600];
    struct timeline *t = timeline_new((wall_t){T0 + 401 * D});
    memset(reason, '"', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    for (int64_t at = T0, i = 0; at < T0 + 401 * D; at += 4 * M + 1, i++) {
        if (i % 3 == 0)
            add(t, at, "dump",
                json_pack("{s:b, s:I, s:I, s:f}", "ok", (int)(i % 2), "rows", (json_int_t)1 << 52,
                          "bytes", (json_int_t)1 << 52, "seconds", 9e8));
        add(t, at, "state",
            json_pack("{s:s, s:s, s:I, s:I}", "state", names[i % 6], "reason", reason, "probe_ms",
                      (json_int_t)1 << 52, "journal_lag_ms", (json_int_t)1 << 52));
    }
    json_t *o = shown(t);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    assert_true(strlen(text) <= TIMELINE_JSON_MAX);
    assert_int_equal(json_array_size(json_object_get(o, "days")), TIMELINE_DAYS);
    free(text);
    json_decref(o);
    timeline_free(t);
}

/* ---- thinning ---- */

/* What the lines of thinned days amount to. */
static struct timeline *read_lines(const struct buf *b, wall_t now)
{
    struct timeline *t = timeline_new(now);
    for (char *line = b->p, *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        json_t *o = json_loadb(line, (size_t)(end - line), 0, NULL);
        assert_true(history_at(o).ms != 0);
        timeline_add(t, o);
        json_decref(o);
    }
    return t;
}

static void test_days_say_the_same(void **arg)
{
    (void)arg;
    struct buf lines = {0};
    struct timeline *t = up_from(T0, T0 + 100 * D);
    for (int64_t d = 0; d < 60; d++) {
        state(t, T0 + d * D + 5 * H, "WAITING");
        state(t, T0 + d * D + 6 * H, "UP");
        add(t, T0 + d * D + 7 * H, "dump",
            json_pack("{s:b, s:i, s:i, s:f}", "ok", 1, "rows", (int)d, "bytes", 100, "seconds",
                      1.5));
    }
    state(t, T0 + 60 * D + H, "WAITING"); /* lasts beyond the cut */
    timeline_days(t, &lines);
    struct timeline *back = read_lines(&lines, (wall_t){T0 + 100 * D});
    state(t, T0 + 60 * D + 2 * H, "UP");
    state(back, T0 + 60 * D + 2 * H, "UP");
    json_t *a = shown(t), *b = shown(back);
    assert_true(json_equal(json_object_get(a, "days"), json_object_get(b, "days")));
    assert_true(json_equal(json_object_get(a, "incidents"), json_object_get(b, "incidents")));
    assert_int_equal(json_array_size(json_object_get(a, "incidents")), 61);
    json_decref(a);
    json_decref(b);
    timeline_free(t);
    timeline_free(back);
    buf_free(&lines);
}

static void see_at(struct thinning *t, int64_t at, const char *kind)
{
    json_t *o = record(at, kind, NULL);
    thinning_see(t, o, 100);
    json_decref(o);
}

static void test_what_is_thinned(void **arg)
{
    (void)arg;
    struct thinning t = {0};
    see_at(&t, T0 - 90 * D, "day"); /* days are not thinned again and again */
    for (int64_t d = 0; d <= 31; d++)
        see_at(&t, T0 + d * D, "state");
    assert_false(thinning_due(&t, 1 << 20));
    see_at(&t, T0 + 32 * D, "state");
    assert_true(thinning_due(&t, 1 << 20));
    assert_int_equal(thinning_cut(&t, 1 << 20), 3);
    /* By size, whatever the age. */
    assert_true(thinning_due(&t, 2000));
    assert_int_equal(thinning_cut(&t, 2000), 34 - 10);
    /* A line that is none counts as bytes. */
    thinning_see(&t, NULL, 1 << 20);
    assert_int_equal(thinning_cut(&t, 1 << 20), 35);
    thinning_free(&t);
}

static void test_wrong_clock_thins_nothing(void **arg)
{
    (void)arg;
    struct thinning t = {0};
    for (int64_t d = 0; d <= 20; d++)
        see_at(&t, T0 + d * D, "state");
    see_at(&t, T0 + 4000 * D, "started"); /* counts as 30 days */
    assert_int_equal(thinning_cut(&t, 1 << 20), 20);
    see_at(&t, T0 + 21 * D, "started");
    see_at(&t, T0 - 4000 * D, "started");
    see_at(&t, T0 - 3999 * D, "started");
    assert_false(thinning_cut(&t, 1 << 20) > 21);
    thinning_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_bucket_tells_how_long),
        cmocka_unit_test(test_time_without_a_supervisor_is_unknown),
        cmocka_unit_test(test_actions_by_hand_prove_nothing),
        cmocka_unit_test(test_clock_that_is_set),
        cmocka_unit_test(test_until_only_while_samples_come),
        cmocka_unit_test(test_incidents),
        cmocka_unit_test(test_unverified_is_no_downtime),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_days_say_the_same),
        cmocka_unit_test(test_what_is_thinned),
        cmocka_unit_test(test_wrong_clock_thins_nothing),
    };
    js_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
