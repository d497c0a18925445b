/* Open incidents, in memory and on the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "dir_kit.h"
#include "notify/incident.h"
#include "notify/queue.h"

static void test_open_and_close(void **state)
{
    (void)state;
    struct incidents all = {0};
    incident_open(&all, "world", "a1", 1);
    incident_open(&all, "disk", "b1", 64);
    incident_open(&all, "world", "c1", 2); /* goes on */
    assert_int_equal(all.count, 2);
    assert_string_equal(incident_find(&all, "world")->id, "a1");
    incident_close(&all, "world");
    incident_close(&all, "world");
    assert_null(incident_find(&all, "world"));
    assert_string_equal(incident_find(&all, "disk")->id, "b1");
    for (int i = 0; i < 2 * INCIDENTS_MAX; i++) {
        char name[24];
        snprintf(name, sizeof name, "other %d", i);
        incident_open(&all, name, "d1", 1);
    }
    assert_int_equal(all.count, INCIDENTS_MAX);
}

static void test_on_the_disk(void **state)
{
    (void)state;
    struct incidents all = {0}, read;
    struct err e = {0};
    incidents_load(kit_dir, "s8", &read);
    assert_int_equal(read.count, 0);
    incident_open(&all, "world", "a1", 4);
    json_t *o = incidents_json(&all, "s8");
    assert_int_equal(incidents_save(kit_dir, o, &e), 0);
    json_decref(o);
    incidents_load(kit_dir, "s8", &read);
    assert_int_equal(read.count, 1);
    const struct incident *n = incident_find(&read, "world");
    assert_string_equal(n->id, "a1");
    assert_int_equal(n->event, 4);
    incidents_load(kit_dir, "s9", &read); /* the file of another world */
    assert_int_equal(read.count, 0);
    static const char old[] = "{\"world\":{\"id\":\"a1\",\"event\":4,\"since\":5000}}";
    kit_text(INCIDENTS_FILE, old);
    incidents_load(kit_dir, "s9", &read); /* of an older version, which did not write it */
    assert_int_equal(read.count, 1);
}

/* Damaged, or edited by somebody: what cannot stand in a header is not read. */
static void test_strange(void **state)
{
    (void)state;
    static const char *const strange[] = {
        "",
        "[1]",
        "{",
        "{\"world\":1}",
        "{\"world\":{\"id\":\"x>\\r\\nBcc: y\"}}",
        "{\"world\":{\"id\":\"\"}}",
        "{\"a name that is far too long for it\":{\"id\":\"a1\"}}"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        struct incidents read;
        kit_text(INCIDENTS_FILE, strange[i]);
        incidents_load(kit_dir, "s8", &read);
        assert_int_equal(read.count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_and_close),
        cmocka_unit_test_teardown(test_on_the_disk, kit_clean),
        cmocka_unit_test_teardown(test_strange, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
