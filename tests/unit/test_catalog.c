/* store/catalog on a real directory: its contents, their order, and which dumps are complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>

#include "catalog_kit.h"

/* The real one, until told to fail the n-th time. */
static int readdir_fails_at;

struct dirent *readdir(DIR *d)
{
    static struct dirent *(*real)(DIR *);
    if (!real) {
        void *p = dlsym(RTLD_NEXT, "readdir");
        memcpy(&real, &p, sizeof p);
    }
    if (readdir_fails_at && --readdir_fails_at == 0) {
        errno = EIO;
        return NULL;
    }
    return real(d);
}

/* ---- order ---- */

static void test_empty(void **state)
{
    (void)state;
    struct catalog c = load();
    assert_int_equal(c.count, 0);
    assert_int_equal(c.generation + c.sequence, 0);
    assert_null(catalog_newest(&c, 0));
    assert_null(catalog_find(&c, "w-000001-00000001-20231114T221320Z"));
    assert_false(catalog_knows_nonce(&c, ""));
    catalog_free(&c);
}

/* Neither the time in the name nor that of the file says which is newer. */
static void test_order(void **state)
{
    (void)state;
    static const uint64_t made[][2] = {{2, 7}, {1, 9}, {2, 8}, {1, 10}, {10, 1}, {9, 99999999}};
    for (size_t i = 0; i < COUNT(made); i++) {
        fake_wall_ms -= 86400000;
        add(made[i][0], made[i][1]);
        char *gz = name_of(made[i][0], made[i][1], ".sql.gz");
        struct timespec t[2] = {{(time_t)(1000 * (7 * i % 6)), 0},
                                {(time_t)(1000 * (7 * i % 6)), 0}};
        assert_int_equal(utimensat(kit_dir, gz, t, 0), 0);
        free(gz);
    }
    expect("10.1 9.99999999 2.8 2.7 1.10 1.9 ");
    struct catalog c = load();
    assert_int_equal(c.generation, 10);
    assert_int_equal(c.sequence, 99999999);
    for (unsigned i = 0; i < 6; i++)
        assert_ptr_equal(catalog_newest(&c, i), &c.list[i]);
    assert_null(catalog_newest(&c, 6));
    assert_ptr_equal(catalog_find(&c, c.list[3].m.name), &c.list[3]);
    assert_true(catalog_knows_nonce(&c, "0123456789abcdef0123456789abcdef"));
    assert_false(catalog_knows_nonce(&c, "0123456789abcdef0123456789abcdee"));
    catalog_free(&c);
}

/* The next number is above every one that was ever given, whatever became of it. */
static void test_highest_numbers(void **state)
{
    (void)state;
    struct catalog c;
    add(1, 5);
    put(1, 6, ".sql.gz.part", "x");
    put(3, 1, ".sql.gz", "x");
    c = load();
    assert_int_equal(c.generation, 3);
    assert_int_equal(c.sequence, 6);
    catalog_free(&c);
    assert_int_equal(mkdirat(kit_dir, "rejected", 0700), 0); /* looking does not make it */
    char *name = name_of(2, 77, ".sql.gz"), *to = xasprintf("rejected/%s", name);
    kit_text(to, "x");
    c = load();
    assert_int_equal(c.generation, 3);
    assert_int_equal(c.sequence, 77);
    assert_int_equal(c.count, 1);
    catalog_free(&c);
    free(name);
    free(to);
}

/* Another world's dumps, and what looks like one. */
static void test_strangers(void **state)
{
    (void)state;
    static const char *const files[] = {"w2-000009-00000001-20231114T221320Z.json",
                                        "w-000001-000009-00000001-20231114T221320Z.json",
                                        "x.json",
                                        "state.json",
                                        "conflict-000009-20231114T221320Z.sql.gz",
                                        "w-000009-00000001.json"};
    add(1, 1);
    for (size_t i = 0; i < COUNT(files); i++)
        kit_text(files[i], "{}");
    put(1, 2, ".json~", "{}");
    expect("1.1 ");
    struct catalog c = load();
    assert_int_equal(c.generation, 1);
    catalog_free(&c);
}

/* ---- damage ---- */

static void reason(uint64_t sequence, const char *front, const char *back)
{
    struct catalog c = load();
    char *name = name_of(1, sequence, "");
    const struct catalog_entry *x = catalog_find(&c, name);
    assert_non_null(x);
    assert_false(x->intact);
    assert_string_not_equal(catalog_newest(&c, 0)->m.name, name);
    char *full = xasprintf("%s%s%s", front, name, back);
    assert_string_equal(x->reason, full);
    free(full);
    free(name);
    catalog_free(&c);
}

static void test_damaged(void **state)
{
    (void)state;
    add(1, 1);
    add(1, 2);
    take_away(1, 2, ".sql.gz");
    reason(2, "", ".sql.gz: No such file or directory");
    put(1, 2, ".sql.gz", "nine byt");
    reason(2, "", ".sql.gz has 8 bytes, but its manifest says 9");
    put(1, 2, ".sql.gz", "");
    reason(2, "", ".sql.gz has 0 bytes, but its manifest says 9");
    put(1, 2, ".sql.gz", "nine bytes");
    reason(2, "", ".sql.gz has 10 bytes, but its manifest says 9");
    take_away(1, 2, ".sql.gz");
    char *from = name_of(1, 1, ".sql.gz"), *to = name_of(1, 2, ".sql.gz");
    assert_int_equal(symlinkat(from, kit_dir, to), 0);
    reason(2, "", ".sql.gz is not a regular file");
    take_away(1, 2, ".sql.gz");
    assert_int_equal(mkdirat(kit_dir, to, 0700), 0);
    reason(2, "", ".sql.gz is not a regular file");
    take_away(1, 2, ".sql.gz");
    put(1, 2, ".sql.gz", "nine byte");
    expect("1.2 1.1 ");
    put(1, 2, ".json", "");
    reason(2, "manifest ", ".json: not JSON: '[' or '{' expected near end of file");
    put(1, 2, ".json", "{}");
    reason(2, "manifest ", ".json: its format is 0, but this version reads 2");
    expect("1.2! 1.1 ");
    free(from);
    free(to);
}

/* The manifest of another dump under this one's name. */
static void test_copied_manifest(void **state)
{
    (void)state;
    add(1, 1);
    add(1, 2);
    char *from = name_of(1, 1, ".json"), *to = name_of(1, 2, ".json");
    assert_int_equal(unlinkat(kit_dir, to, 0), 0);
    assert_int_equal(linkat(kit_dir, from, kit_dir, to, 0), 0);
    reason(2, "manifest ", ".json: its name does not match its contents");
    assert_int_equal(unlinkat(kit_dir, to, 0), 0);
    assert_int_equal(symlinkat(from, kit_dir, to), 0);
    reason(2, "cannot open ", ".json: Too many levels of symbolic links");
    expect("1.2? 1.1 ");
    assert_int_equal(unlinkat(kit_dir, to, 0), 0);
    assert_int_equal(mkdirat(kit_dir, to, 0700), 0);
    reason(2, "", ".json is not a regular file");
    free(from);
    free(to);
}

/* A directory of which only a part could be listed is not one with fewer dumps. */
static void test_half_a_list(void **state)
{
    (void)state;
    struct catalog c;
    for (uint64_t i = 1; i <= 3; i++)
        add(1, i);
    assert_int_equal(mkdirat(kit_dir, "rejected", 0700), 0);
    for (int at = 1; at <= 12; at++) {
        struct err e = {0};
        readdir_fails_at = at;
        int rc = catalog_load(kit_dir, "w", &c, &e);
        readdir_fails_at = 0;
        assert_int_equal(rc, -1);
        assert_int_equal(e.num, EIO);
        assert_int_equal(c.count, 0);
        unsigned removed;
        const struct config_retention rule = {.keep_last = 1};
        readdir_fails_at = at;
        assert_int_equal(catalog_retain(kit_dir, "w", &rule, 0, &removed, &e), -1);
        readdir_fails_at = 0;
    }
    expect("1.3 1.2 1.1 ");
}

/* ---- pins ---- */

static struct pin pin_of(uint64_t sequence)
{
    struct pin p;
    char *name = name_of(1, sequence, "");
    pin_read(kit_dir, name, &p);
    free(name);
    return p;
}

/* A pin that cannot be read, or does not say what it is, holds its dump until somebody looks. */
static void test_pins(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } bad[] = {{"{", "invalid contents"},
               {"[]", "invalid contents"},
               {"{\"format\":1}", "unknown kind"},
               {"{\"format\":1,\"kind\":\"other\",\"reason\":\"x\"}", "unknown kind"},
               {"{\"format\":2,\"kind\":\"shrink\"}", "newer version"}};
    char *name = name_of(1, 1, ""), *file = name_of(1, 1, PIN_ENDING);
    assert_int_equal(pin_of(1).kind, PIN_NONE);
    assert_int_equal(pin_set(kit_dir, name, PIN_SHRINK, "less", NULL), 0);
    assert_int_equal(pin_of(1).kind, PIN_SHRINK);
    assert_int_equal(fchmodat(kit_dir, file, 0664, 0), 0);
    assert_int_equal(pin_of(1).kind, PIN_ROUND);
    assert_non_null(strstr(pin_of(1).reason, "chmod go-w"));
    for (size_t i = 0; i < COUNT(bad); i++) {
        put(1, 1, PIN_ENDING, bad[i].text);
        assert_int_equal(fchmodat(kit_dir, file, 0600, 0), 0);
        assert_int_equal(pin_of(1).kind, PIN_ROUND);
        assert_non_null(strstr(pin_of(1).reason, bad[i].reason));
    }
    take_away(1, 1, PIN_ENDING);
    assert_int_equal(mkdirat(kit_dir, file, 0700), 0);
    assert_int_equal(pin_of(1).kind, PIN_ROUND);
    free(name);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_empty, kit_clean),
        cmocka_unit_test_teardown(test_order, kit_clean),
        cmocka_unit_test_teardown(test_highest_numbers, kit_clean),
        cmocka_unit_test_teardown(test_strangers, kit_clean),
        cmocka_unit_test_teardown(test_damaged, kit_clean),
        cmocka_unit_test_teardown(test_copied_manifest, kit_clean),
        cmocka_unit_test_teardown(test_half_a_list, kit_clean),
        cmocka_unit_test_teardown(test_pins, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
