/* supervisor/last_restore: which of two restores is the last one, and what decisions read of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "base/text.h"
#include "base/worker.h"
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

#define AT "2026-01-31T12:00:00.250Z"

/* What is too long for state.json is shortened, but stays the last restore. */
static void test_long_records(void **state)
{
    (void)state;
    char out[500], long_text[600];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    json_auto_t *empty = json_object();
    last_restore_save(empty, out, sizeof out);
    assert_string_equal(out, "{}");
    SCOPED(buf_free) struct buf names = {0};
    for (int i = 0; i < 60; i++)
        buf_printf(&names, "%s`%02d,%s`", i ? "," : "", i, "a_rather_long_name_of_a_table");
    json_auto_t *o =
        json_pack("{s:s, s:b, s:s, s:s}", "at", AT, "ok", true, "only", names.p, "journal", "j");
    last_restore_save(o, out, sizeof out);
    json_auto_t *tables = json_loads(out, 0, NULL);
    const char *only = js_text(tables, "only");
    assert_true(text_starts(only, "00,a_rather_long_name_of_a_table, 01,a_rather"));
    assert_string_equal(strstr(only, " and "), " and 52 more");
    assert_string_equal(js_text(tables, "journal"), "j");
    json_object_set_new(o, "journal", json_string(long_text));
    last_restore_save(o, out, sizeof out);
    json_auto_t *without = json_loads(out, 0, NULL);
    assert_string_equal(js_text(without, "only"), only);
    assert_null(json_object_get(without, "journal"));
    json_object_set_new(o, "dump", json_string(long_text)); /* a path */
    last_restore_save(o, out, sizeof out);
    json_auto_t *least = json_loads(out, 0, NULL);
    assert_string_equal(js_text(least, "at"), AT);
    assert_string_equal(js_text(least, "only"), only);
    assert_null(json_object_get(least, "dump"));
}

static json_t *replaced_tables(int count)
{
    json_t *tables = json_object();
    char name[TEXT_SHORT];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "a_rather_long_name_of_a_table_%d", i);
        json_object_set_new(tables, name, json_integer(i));
    }
    return json_pack("{s:s, s:b, s:s, s:i, s:o}", "at", AT, "ok", true, "only", "t",
                     "conflict_rows", 5, "conflict_tables", tables);
}

/* The status with this record must fit a packet to the disk writer, which writes the flag as
 * well. */
static void test_what_is_shown_is_limited(void **state)
{
    (void)state;
    struct last_restore l = {.shown = NULL};
    last_restore_set(&l, replaced_tables(1000));
    assert_int_equal(json_object_size(json_object_get(l.shown, "conflict_tables")), 1000);
    last_restore_set(&l, replaced_tables(4300));
    assert_true(json_dumpb(l.shown, NULL, 0, JSON_INDENT(1)) < WORKER_MESSAGE_MAX / 2);
    assert_int_equal(js_number(l.shown, "conflict_rows", 0), 5);
    assert_string_equal(l.tables, "t");
    assert_true(l.at.ms % 1000 == 250);
    last_restore_set(&l, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_later_one_counts), cmocka_unit_test(test_long_records),
        cmocka_unit_test(test_what_is_shown_is_limited), cmocka_unit_test(test_no_restore)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
