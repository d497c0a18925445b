/* A manifest of 16 MiB, the largest that is read: reading it, planning a restore of it and
 * comparing it with another one take little more than their share of what a quarter of it takes.
 * What is compared are ratios of processor time, never a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "dump/shrink_guard.h"
#include "dump_kit.h"
#include "mysql/job.h"
#include "restore/plan.h"

/* So many tables, each a member of one byte. */
static void many_tables(struct manifest *m, size_t count)
{
    kit_manifest(m, "w", 1, count);
    static char engine[] = "M";
    for (size_t i = m->table_count; i < count; i++) {
        char name[100];
        snprintf(name, sizeof name, "t%zu", i * 7919 % 1000003);
        struct db_table t = *kit_columns();
        t.name = name;
        t.engine = engine;
        manifest_add(m, &t);
    }
    for (size_t i = 0; i < count; i++) {
        m->tables[i].offset = i;
        m->tables[i].length = 1;
    }
    m->file_size = count;
}

/* As a file, as small as such a manifest can be; how many bytes. */
static size_t store(const struct manifest *m)
{
    json_t *o = manifest_json(m);
    assert_int_equal(manifest_sign(o), 0);
    char *s = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    char *file = xasprintf("%s.json", m->name);
    size_t len = strlen(s);
    kit_put(file, s, len);
    free(file);
    free(s);
    json_decref(o);
    return len;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

enum work { READ, PLAN, PLAN_ANY_CASE, COMPARE, WORKS };

static void plan(const struct manifest *m, bool any_case)
{
    char sentinel[] = "worldkeeper";
    struct config cfg = {.sentinel = sentinel};
    struct job job = {.cfg = &cfg};
    struct plan p = {.job = &job, .any_case = any_case};
    struct err e = {0};
    if (plan_from_manifest(&p, m, &e) < 0)
        fail_msg("%s", e.text);
    for (size_t i = 0; i < m->table_count; i++)
        assert_string_equal(plan_find(&p, m->tables[i].name)->name, m->tables[i].name);
    assert_null(plan_find(&p, "none"));
    plan_free(&p);
}

static double once(enum work work, const struct manifest *m)
{
    struct manifest back = {0};
    struct err e = {0};
    char reason[400];
    double began = seconds();
    if (work == READ && manifest_read(kit_dir, m->name, &back, &e) < 0)
        fail_msg("%s", e.text);
    if (work == PLAN || work == PLAN_ANY_CASE)
        plan(m, work == PLAN_ANY_CASE);
    if (work == COMPARE)
        assert_false(shrink_guard_suspicious(m, m, &(struct shrink_rule){20, 0, "worldkeeper"},
                                             reason, sizeof reason));
    double took = seconds() - began;
    manifest_free(&back);
    return took;
}

#define LARGE 76000u /* tables: 16 MiB of JSON, nearly */
static void make(struct manifest *m, unsigned count)
{
    struct manifest made;
    struct err e = {0};
    many_tables(&made, count);
    assert_in_range(store(&made), count == LARGE ? MANIFEST_MAX / 10 * 8 : 0, MANIFEST_MAX);
    if (manifest_read(kit_dir, made.name, m, &e) < 0)
        fail_msg("%s", e.text);
    manifest_free(&made);
}

/* Sixteen times as many tables: 256 times the work if it were quadratic, while caches that are
 * too small for them, or another program that uses these, make it a few times more than sixteen.
 * What something disturbed is repeated, the least time counts. */
static void test_growth(void **state)
{
    (void)state;
    struct manifest small, large;
    make(&small, LARGE / 16);
    make(&large, LARGE);
    for (enum work w = 0; w < WORKS; w++) {
        double few = once(w, &small), many = once(w, &large);
        for (int i = 0; i < 4 && many > 100 * few + 0.002; i++) {
            double again = once(w, &large);
            many = again < many ? again : many;
        }
        if (many > 100 * few + 0.002)
            fail_msg("work %d: %.1f times as long for 16 times as many tables", (int)w, many / few);
    }
    manifest_free(&large);
    manifest_free(&small);
}

/* One name twice is found wherever both are, and named. */
static void test_twice(void **state)
{
    (void)state;
    char sentinel[] = "worldkeeper";
    struct config cfg = {.sentinel = sentinel};
    struct job job = {.cfg = &cfg};
    for (size_t at = 0; at < 99; at += 7) {
        struct manifest m, back;
        struct plan p = {.job = &job};
        struct err e = {0};
        many_tables(&m, 100);
        free(m.tables[at].name);
        m.tables[at].name = xstrdup(m.tables[99].name);
        store(&m);
        assert_int_equal(manifest_read(kit_dir, m.name, &back, &e), 0);
        assert_string_equal(manifest_table(&back, m.tables[99].name)->name, m.tables[99].name);
        assert_int_equal(plan_from_manifest(&p, &back, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
        assert_non_null(strstr(e.text, " is twice in dump"));
        assert_non_null(strstr(e.text, m.tables[99].name));
        plan_free(&p);
        manifest_free(&back);
        manifest_free(&m);
    }
}

/* Names that are one to a server where the case of letters does not matter. */
static void test_one_name_in_two_cases(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"Fleet", "fLEET"}, {"\xc3\x89toile", "\xc3\xa9TOILE"}, {"a_B", "A_b"}};
    char sentinel[] = "worldkeeper";
    struct config cfg = {.sentinel = sentinel};
    struct job job = {.cfg = &cfg};
    for (size_t i = 0; i < COUNT(pairs); i++)
        for (int any_case = 0; any_case < 2; any_case++) {
            struct plan p = {.job = &job, .any_case = any_case};
            plan_add(&p, "b", "MEMORY");
            plan_add(&p, pairs[i][0], "MEMORY");
            plan_add(&p, "zz", "MEMORY");
            assert_non_null(plan_find(&p, pairs[i][0]));
            assert_int_equal(plan_find(&p, pairs[i][1]) != NULL, any_case);
            plan_free(&p);
        }
}

/* A list of parts comes back; half of one is a damaged manifest, and one of another file is
 * none. */
static void test_parts(void **state)
{
    (void)state;
    struct manifest m, back;
    struct err e = {0};
    kit_dump(&m);
    kit_list_parts(&m, "dump", 4096);
    store(&m);
    assert_int_equal(manifest_read(kit_dir, m.name, &back, &e), 0);
    assert_int_equal(back.parts.count, m.parts.count);
    assert_int_equal(back.parts.bytes, 4096);
    assert_memory_equal(back.parts.sha256, m.parts.sha256, m.parts.count * SHA256_BYTES);
    manifest_free(&back);
    m.parts.bytes = 4095;
    store(&m);
    assert_int_equal(manifest_read(kit_dir, m.name, &back, &e), -1);
    assert_non_null(strstr(e.text, "its list of the file's parts is incomplete"));
    m.parts.bytes = GUNZIP_PART_MAX + 1;
    store(&m);
    assert_int_equal(manifest_read(kit_dir, m.name, &back, &e), -1);
    m.parts.bytes = 4096;
    json_t *o = manifest_json(&m);
    json_object_set_new(json_object_get(o, "parts"), "file_sha256", json_string("another"));
    assert_int_equal(manifest_sign(o), 0);
    char *s = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    char *file = xasprintf("%s.json", m.name);
    kit_text(file, s);
    assert_int_equal(manifest_read(kit_dir, m.name, &back, &e), 0);
    assert_int_equal(back.parts.count, 0);
    manifest_free(&back);
    free(file);
    free(s);
    json_decref(o);
    manifest_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_growth, kit_clean),
        cmocka_unit_test_teardown(test_twice, kit_clean),
        cmocka_unit_test_teardown(test_one_name_in_two_cases, kit_clean),
        cmocka_unit_test_teardown(test_parts, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
