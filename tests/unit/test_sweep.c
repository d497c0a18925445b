/* store/catalog with leftovers of crashes and failures: sweep, retention, rejected dumps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "catalog_kit.h"

/* ---- sweep ---- */

static void test_sweep(void **state)
{
    (void)state;
    static const char *const stays[] = {".hidden.new",
                                        "state.json",
                                        "lock",
                                        "w-000001-00000001.sql.gz.part",
                                        "v-000001-00000001-20231114T221320Z.sql.gz.part",
                                        "v-000001-00000001-20231114T221320Z.sql.gz",
                                        "conflict-000001-20231114T221320Z.sql.gz"};
    add(1, 2);
    add(1, 4);
    for (size_t i = 0; i < COUNT(stays); i++)
        kit_text(stays[i], "x");
    put(1, 1, ".sql.gz", "orphan, older");
    put(1, 3, ".sql.gz", "orphan, older than the newest");
    put(1, 5, ".sql.gz", "orphan, but newer: somebody may still mend it");
    put(0, 9, ".sql.gz", "orphan of an older generation");
    put(2, 1, ".sql.gz", "orphan of a newer one");
    put(1, 6, ".sql.gz.part", "x");
    put(1, 2, ".sql.gz.part", "x");
    put(1, 7, ".sql.gz.old", "nobody's");
    put(0, 1, ".json", "{}");
    kit_text("conflict-000001-20231114T221320Z.sql.gz.part", "x");
    assert_int_equal(catalog_sweep(kit_dir, "w", NULL), 0);
    assert_false(kit_there("conflict-000001-20231114T221320Z.sql.gz.part"));
    for (size_t i = 0; i < COUNT(stays); i++)
        if (!kit_there(stays[i]))
            fail_msg("%s was swept", stays[i]);
    assert_true(dump_there(1, 2) && dump_there(1, 4));
    assert_false(there(1, 1, ".sql.gz") || there(1, 3, ".sql.gz") || there(0, 9, ".sql.gz"));
    assert_true(there(1, 5, ".sql.gz") && there(2, 1, ".sql.gz") && there(1, 7, ".sql.gz.old"));
    assert_true(there(0, 1, ".json"));
    assert_false(there(1, 6, ".sql.gz.part") || there(1, 2, ".sql.gz.part"));
}

/* One that cannot be removed is in the way of none. */
static void test_sweep_one_that_stays(void **state)
{
    (void)state;
    add(1, 9);
    char *own = xasprintf(".w.json.%d.new", (int)getpid());
    kit_text(own, "x");
    for (uint64_t i = 1; i <= 4; i++)
        put(1, i, ".sql.gz.part", "x");
    char *part = name_of(1, 2, ".sql.gz.part");
    assert_int_equal(unlinkat(kit_dir, part, 0), 0);
    assert_int_equal(mkdirat(kit_dir, part, 0700), 0);
    struct err e = {0};
    assert_int_equal(catalog_sweep(kit_dir, "w", &e), -1);
    assert_non_null(strstr(e.text, part));
    assert_false(there(1, 1, ".sql.gz.part") || there(1, 3, ".sql.gz.part") ||
                 there(1, 4, ".sql.gz.part") || kit_there(own));
    assert_int_equal(unlinkat(kit_dir, part, AT_REMOVEDIR), 0);
    free(part);
    free(own);
}

/* state.json may be being written just now, by another worker. */
static void test_sweep_temporary(void **state)
{
    (void)state;
    char *own = xasprintf(".w.json.%d.new", (int)getpid()), *in = xasprintf("rejected/%s", own);
    char *other = xasprintf(".state.json.%d.new", (int)getppid());
    reject(1); /* makes the directory */
    kit_text(own, "x");
    kit_text(in, "x");
    kit_text(other, "x");
    assert_int_equal(catalog_sweep(kit_dir, "w", NULL), 0);
    assert_true(!kit_there(own) && !kit_there(in) && kit_there(other));
    free(own);
    free(in);
    free(other);
}

/* Without an intact dump every orphan may be the last copy. */
static void test_sweep_keeps_orphans(void **state)
{
    (void)state;
    put(1, 1, ".sql.gz", "x");
    add(1, 2);
    put(1, 2, ".sql.gz", "cut");
    assert_int_equal(catalog_sweep(kit_dir, "w", NULL), 0);
    assert_true(there(1, 1, ".sql.gz"));
    assert_true(dump_there(1, 2));
}

/* A manifest that cannot be opened is there all the same. */
static void test_sweep_and_links(void **state)
{
    (void)state;
    add(1, 1);
    add(1, 2);
    char *json = name_of(1, 1, ".json");
    assert_int_equal(renameat(kit_dir, json, kit_dir, "elsewhere"), 0);
    assert_int_equal(symlinkat("nowhere", kit_dir, json), 0);
    assert_int_equal(catalog_sweep(kit_dir, "w", NULL), 0);
    assert_true(dump_there(1, 1));
    free(json);
}

/* ---- retention ---- */

static unsigned retain(unsigned keep_last, int64_t keep_within)
{
    const struct config_retention rule = {.keep_last = keep_last, .keep_within = keep_within};
    struct err e = {0};
    unsigned removed;
    if (catalog_retain(kit_dir, "w", &rule, 0, &removed, &e) < 0)
        fail_msg("%s", e.text);
    return removed;
}

static void test_retain(void **state)
{
    (void)state;
    int64_t now = fake_wall_ms;
    for (uint64_t i = 1; i <= 6; i++) {
        fake_wall_ms = now - (int64_t)(6 - i) * 60000;
        add(i / 4 + 1, 7 - i); /* 1.6 1.5 1.4 2.3 2.2 2.1 */
    }
    assert_int_equal(retain(2, 3 * 60000 - 1), 3);
    expect("2.3 2.2 2.1 ");
    assert_true(dump_there(2, 1));
    now = fake_wall_ms++;
    assert_int_equal(retain(2, 0), 1);
    assert_int_equal(retain(2, 0), 0);
    expect("2.3 2.2 ");
    fake_wall_ms = now;
    assert_false(dump_there(2, 1));        /* neither of its files */
    fake_wall_ms += INT64_C(7) * 86400000; /* however old it gets */
    assert_int_equal(retain(1, 0), 1);
    assert_int_equal(retain(0, 0), 0);
    expect("2.3 ");
}

/* Damaged ones take no place, and go when there is a newer intact one; what could not be read
 * stays. */
static void test_retain_damaged(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 6; i++)
        add(1, i);
    put(1, 6, ".sql.gz", "cut");
    put(1, 4, ".sql.gz", "cut");
    put(1, 3, ".json", "{");
    char *json = name_of(1, 1, ".json");
    assert_int_equal(renameat(kit_dir, json, kit_dir, "elsewhere"), 0);
    assert_int_equal(symlinkat("elsewhere", kit_dir, json), 0);
    expect("1.6! 1.5 1.4! 1.3! 1.2 1.1? ");
    fake_wall_ms++;
    assert_int_equal(retain(1, 0), 3);
    fake_wall_ms--;
    expect("1.6! 1.5 1.1? ");
    assert_true(dump_there(1, 1) && kit_there("elsewhere"));
    take_away(1, 5, ".sql.gz");
    assert_int_equal(retain(1, 0), 0); /* nothing intact: nothing goes */
    expect("1.6! 1.5! 1.1? ");
    free(json);
}

/* One that cannot be removed is in the way of none. */
static void test_retain_one_that_stays(void **state)
{
    (void)state;
    const struct config_retention rule = {.keep_last = 1};
    unsigned removed;
    for (uint64_t i = 1; i <= 4; i++)
        add(1, i);
    char *gz = name_of(1, 3, ".sql.gz");
    take_away(1, 3, ".sql.gz");
    assert_int_equal(mkdirat(kit_dir, gz, 0700), 0);
    struct err e = {0};
    fake_wall_ms++;
    assert_int_equal(catalog_retain(kit_dir, "w", &rule, 0, &removed, &e), -1);
    fake_wall_ms--;
    assert_non_null(strstr(e.text, gz));
    expect("1.4 ");
    assert_int_equal(unlinkat(kit_dir, gz, AT_REMOVEDIR), 0);
    free(gz);
}

/* ---- rejected ---- */

static void test_reject(void **state)
{
    (void)state;
    struct catalog c;
    add(1, 3);
    for (uint64_t i = 4; i <= 9; i++)
        reject(i);
    reject(1); /* below the others by number: it is the one that goes */
    assert_int_equal(catalog_load_rejected(kit_dir, "w", &c, NULL), 0);
    assert_int_equal(c.count, 3);
    for (uint64_t i = 0; i < 3; i++) {
        char *why = xasprintf("reason %" PRIu64, 9 - i);
        assert_int_equal(c.list[i].m.sequence, 9 - i);
        assert_true(c.list[i].intact);
        assert_string_equal(c.list[i].m.rejected, why);
        free(why);
    }
    catalog_free(&c);
    expect("1.3 "); /* never among the dumps */
    c = load();
    assert_int_equal(c.sequence, 9);
    catalog_free(&c);
}

/* Only what we can judge is trimmed; what is left alone takes no place of ours. */
static void test_reject_beside_others(void **state)
{
    (void)state;
    reject(8);
    char *name = name_of(1, 8, ".json"), *json = xasprintf("rejected/%s", name);
    assert_int_equal(renameat(kit_dir, json, kit_dir, "elsewhere"), 0);
    assert_int_equal(symlinkat("../elsewhere", kit_dir, json), 0);
    for (uint64_t i = 1; i <= 5; i++)
        reject(i);
    expect_rejected("1.8? 1.5 1.4 1.3 ");
    free(name);
    free(json);
}

/* Killed between the move and the manifest: that file would stay for ever. */
static void test_reject_cut_off(void **state)
{
    (void)state;
    reject(2);
    char *old = name_of(1, 1, ".sql.gz"), *newer = name_of(1, 9, ".sql.gz");
    char *a = xasprintf("rejected/%s", old), *b = xasprintf("rejected/%s", newer);
    kit_text(a, "x");
    kit_text(b, "x");
    assert_int_equal(catalog_sweep(kit_dir, "w", NULL), 0);
    assert_true(kit_there(a) && kit_there(b));
    add(1, 3);
    assert_int_equal(catalog_sweep(kit_dir, "w", NULL), 0);
    assert_false(kit_there(a));
    assert_true(kit_there(b));
    struct catalog c;
    assert_int_equal(catalog_load_rejected(kit_dir, "w", &c, NULL), 0);
    assert_int_equal(c.count, 1);
    catalog_free(&c);
    free(old);
    free(newer);
    free(a);
    free(b);
}

static void test_reject_fails(void **state)
{
    (void)state;
    struct manifest m;
    struct err e = {0};
    kit_manifest(&m, "w", 1, 1);
    assert_int_equal(catalog_reject(kit_dir, &m, "none", "why", &e), -1);
    assert_int_equal(e.num, ENOENT);
    kit_empty(openat(kit_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    kit_text("rejected", "no directory");
    assert_int_equal(catalog_reject(kit_dir, &m, "none", "why", &e), -1);
    assert_int_equal(e.num, ENOTDIR);
    manifest_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_sweep, kit_clean),
        cmocka_unit_test_teardown(test_sweep_temporary, kit_clean),
        cmocka_unit_test_teardown(test_sweep_keeps_orphans, kit_clean),
        cmocka_unit_test_teardown(test_sweep_and_links, kit_clean),
        cmocka_unit_test_teardown(test_sweep_one_that_stays, kit_clean),
        cmocka_unit_test_teardown(test_retain, kit_clean),
        cmocka_unit_test_teardown(test_retain_damaged, kit_clean),
        cmocka_unit_test_teardown(test_retain_one_that_stays, kit_clean),
        cmocka_unit_test_teardown(test_reject, kit_clean),
        cmocka_unit_test_teardown(test_reject_beside_others, kit_clean),
        cmocka_unit_test_teardown(test_reject_cut_off, kit_clean),
        cmocka_unit_test_teardown(test_reject_fails, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
