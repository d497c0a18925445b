/* Extreme numbers from files that anybody may have written are checked before they are used. Built
 * with UndefinedBehaviorSanitizer, so an overflow ends the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/number.h"
#include "base/text.h"
#include "dir_kit.h"
#include "journal/archive.h"
#include "journal/recovery_range.h"
#include "journal/segment_op.h"
#include "mysql/job.h"
#include "restore/plan.h"
#include "store/pending.h"
#include "store/proof.h"
#include "store/state.h"

static const char *const extremes[] = {"-9223372036854775808",
                                       "-9223372036854775807",
                                       "-1",
                                       "0",
                                       "4294967295",
                                       "4294967296",
                                       "9223372036854775807",
                                       "253402300799999",
                                       "253402300800000",
                                       "1e300",
                                       "-1e300",
                                       "\"7\"",
                                       "null"};

/* `text` with each @ as the number. */
static char *with(const char *text, const char *number)
{
    struct buf b = {0};
    for (; *text; text++)
        if (*text == '@')
            buf_adds(&b, number);
        else
            buf_addc(&b, *text);
    return b.p;
}

static void test_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(extremes); i++) {
        char *text = with("{\"n\": @}", extremes[i]);
        json_t *o = json_loads(text, 0, NULL);
        if (o) { /* 1e300 is a number, more digits are none */
            assert_in_range(js_within(o, "n", 3, 9, 5), 3, 9);
            assert_in_range(js_moment(o, "n").ms, 0, CLOCK_WALL_MAX);
        }
        json_decref(o);
        free(text);
    }
}

static void test_segments(void **state)
{
    (void)state;
    static const char head[] = "{\"worldkeeper journal\": 1, \"world\": \"w\", \"schema\": \"g\", "
                               "\"number\": @, \"server\": \"u\", \"from\": {\"file\": \"log.1\", "
                               "\"pos\": @, \"gtid\": \"\", \"born\": @, \"at\": @}, \"made\": @, "
                               "\"follows\": true, \"why\": \"\"}";
    static const char sum[] = "{\"to\": {\"file\": \"log.1\", \"pos\": @, \"gtid\": \"\", "
                              "\"born\": @, \"at\": @}, \"groups\": @, \"changes\": @, \"marks\": "
                              "[{\"kind\": 8, \"at\": @, \"file\": \"log.1\", \"pos\": @, "
                              "\"text\": \"t\"}], \"mark_count\": 1}";
    for (size_t i = 0; i < COUNT(extremes); i++) {
        struct archive_segment list[2] = {{.number = 1, .finalized = true}, {.number = 2}};
        struct archive a = {.list = list, .count = 2};
        struct catalog_entry dump = {.intact = true};
        struct catalog dumps = {.list = &dump, .count = 1};
        struct recovery_range recovery_range;
        char *h = with(head, extremes[i]), *s = with(sum, extremes[i]);
        for (size_t k = 0; k < 2; k++) {
            (void)segment_head_read(h, strlen(h), &list[k].head);
            (void)segment_sum_read(s, strlen(s), &list[k].sum);
            list[k].head.number = k + 1;
        }
        snprintf(dump.m.end.file, sizeof dump.m.end.file, "log.1");
        snprintf(dump.m.server.uid, sizeof dump.m.server.uid, "u");
        dump.m.end.pos = list[0].head.from.point.pos;
        (void)archive_spare(&a, -1, -1, INT64_C(86400000), UINT64_MAX, (wall_t){1700000000000});
        (void)archive_find(&a, &dump.m.end, UINT32_MAX, &dump.m.server);
        recovery_range_segments(&dumps, &a, (wall_t){1700000000000}, &recovery_range);
        recovery_range_free(&recovery_range);
        free(h);
        free(s);
    }
}

static void test_kept_files(void **state)
{
    (void)state;
    static const char text[] =
        "{\"world\": \"w\", \"known\": true, \"nonce\": \"\", \"generation\": @, \"server\": "
        "{\"start\": @, \"pid\": @, \"connection\": @}, \"alive_at\": @, \"pause_until\": @, "
        "\"watched_at\": @, \"damaged\": false, \"failures\": @, \"at_unix\": @, "
        "\"server_start\": @, \"tables\": [], \"triggers\": [], \"checks\": [{\"table\": \"t\", "
        "\"lines\": \"l\", \"heap\": @}]}";
    for (size_t i = 0; i < COUNT(extremes); i++) {
        struct state st;
        struct proof p;
        struct pending pending;
        char *s = with(text, extremes[i]);
        kit_text("state.json", s);
        kit_text("pending.json", s);
        kit_text("d" PROOF_ENDING, s);
        if (state_load(kit_dir, &st, NULL) == 0) {
            assert_in_range(st.generation, 0, DB_GENERATION_MAX);
            assert_in_range(st.server.start, 0, CLOCK_WALL_MAX / 1000);
            assert_in_range(st.alive_at.ms, 0, CLOCK_WALL_MAX);
        }
        (void)pending_load(kit_dir, &pending, NULL);
        pending_free(&pending);
        proof_read(kit_dir, "d", &p, NULL);
        assert_in_range(p.at.ms, 0, CLOCK_WALL_MAX);
        assert_in_range(p.failures, 0, PROOF_LOADS);
        free(s);
    }
    kit_clean(NULL);
}

static void test_numbers(void **state)
{
    static const struct {
        const char *text;
        uint64_t most, is;
        bool good, all;
    } cases[] = {
        {"0", 0, 0, true, true},
        {"1", 0, 0, false, false},
        {"007", 7, 7, true, true},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX, true, true},
        {"18446744073709551616", UINT64_MAX, 0, false, false},
        {"18446744073709551615", UINT64_MAX - 1, 0, false, false},
        {"99999999999999999999999999999999999999999", UINT64_MAX, 0, false, false},
        {"12-3", UINT64_MAX, 12, true, false},
        {"", UINT64_MAX, 0, false, false},
        {"-1", UINT64_MAX, 0, false, false},
        {"+1", UINT64_MAX, 0, false, false},
        {" 1", UINT64_MAX, 0, false, false},
        {"0x1", UINT64_MAX, 0, true, false},
    };
    (void)state;
    for (size_t i = 0; i < JS_COUNT(cases); i++) {
        const char *s = cases[i].text;
        uint64_t n = 1;
        assert_int_equal(number_digits(&s, cases[i].most, &n), cases[i].good);
        assert_true(n == (cases[i].good ? cases[i].is : 0));
        assert_false(*s >= '0' && *s <= '9');
        assert_int_equal(number_read(cases[i].text, cases[i].most, &n), cases[i].all);
        assert_true(n == (cases[i].all ? cases[i].is : 0));
    }
    assert_true(number_sum(1, 2) == 3 && number_sum(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(number_product(3, 2) == 6 && number_product(UINT64_MAX / 2, 3) == UINT64_MAX);
    assert_true(number_doubled(1, 0, 8) == 1 && number_doubled(1, 5, 8) == 8);
    assert_true(number_doubled(1, 9, 8) == 8 && number_doubled(3, 99, 20) == 12);
    assert_true(number_doubled(1, UINT64_MAX, UINT64_MAX) == UINT64_C(1) << 63);
    assert_true(number_signed(7) == 7 && number_signed(UINT64_MAX) == INT64_MAX);
}

/* A manifest whose figures are as large as they can be: a table's room and the rows of all tables
 * stay the largest numbers. */
static void test_plan(void **state)
{
    (void)state;
    static const uint64_t figures[] = {0, 1, INT64_MAX, UINT64_MAX};
    static char names[2][2] = {"a", "b"}, memory[] = "MEMORY", sentinel[] = "s";
    struct config cfg = {.sentinel = sentinel};
    struct job job = {.cfg = &cfg};
    for (size_t i = 0; i < COUNT(figures); i++) {
        const uint64_t n = figures[i];
        struct plan p = {.job = &job, .schema = "x", .into = true};
        struct manifest_table tables[2];
        struct manifest m = {.tables = tables, .table_count = 2};
        for (size_t k = 0; k < 2; k++)
            tables[k] = (struct manifest_table){
                .name = names[k], .engine = memory, .rows = n, .data_length = n, .index_length = n};
        assert_int_equal(plan_from_manifest(&p, &m, NULL), 0);
        assert_int_equal(p.count, 2);
        const uint64_t heap = n > UINT64_MAX / 4 ? UINT64_MAX : 4 * n,
                       rows = n > UINT64_MAX / 2 ? UINT64_MAX : 2 * n;
        assert_true(p.list[0].heap_need == heap && p.rows == rows);
        plan_leave_out(&p, &p.list[0], "");
        assert_true(p.rows == rows - n);
        plan_leave_out(&p, &p.list[1], "");
        assert_true(p.rows == 0);
        plan_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_plan),
        cmocka_unit_test_teardown(test_kept_files, kit_clean),
    };
    js_begin();
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
