/* store/signature: the data that is signed, which keys are valid, and how a catalog uses the
 * result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/js.h"
#include "catalog_kit.h"
#include "store/retention.h"

#define FRONT "worldkeeper manifest 1\n"
#define KEY_A "0123456789abcdef0123456789abcdef"
#define KEY_B "fedcba9876543210fedcba9876543210"

static struct config cfgs[32];
static unsigned turn;

/* Each time another config, as after a reload; NULL: no such key. */
static int use(const char *key, const char *old, struct err *e)
{
    struct config *c = &cfgs[turn++ % COUNT(cfgs)];
    static char files[4][200];
    char **at[] = {&c->hmac_key_file, &c->hmac_old_key_file};
    const char *text[] = {key, old};
    for (size_t i = 0; i < 2; i++) {
        char *file = files[2 * (turn % 2) + i], name[20];
        snprintf(name, sizeof name, "key%zu", i);
        snprintf(file, sizeof files[0], "%s/%s", kit_path, name);
        *at[i] = text[i] ? file : NULL;
        if (text[i])
            kit_text(name, text[i]);
        if (text[i])
            assert_int_equal(chmod(file, 0600), 0);
    }
    return signature_open(c, e) < 0 ? -1 : 0;
}

static void test_over_what(void **state)
{
    (void)state;
    struct err e = {0};
    char hex[SHA256_HEX];
    json_t *o = json_loads("{\"b\": [1, \"x\"], \"a\": 0.5}", 0, NULL);
    assert_int_equal(use(NULL, NULL, &e), 0);
    assert_false(signature_on());
    assert_int_equal(signature_add(o, FRONT), 0);
    assert_null(json_object_get(o, "hmac"));
    assert_int_equal(signature_check(o, FRONT), SIGNATURE_UNASKED);
    assert_int_equal(use(KEY_A "\n", NULL, &e), 0);
    assert_int_equal(signature_check(o, FRONT), SIGNATURE_MISSING);
    assert_int_equal(signature_add(o, FRONT), 0);
    snprintf(hex, sizeof hex, "%s", js_text(o, "hmac"));
    /* printf 'worldkeeper manifest 1\n{"a":0.5,"b":[1,"x"]}' | openssl dgst -sha256 -hmac KEY */
    assert_string_equal(hex, "14996e7a004f184a2e6cf704300dfcd30cd47e5b37ff7574ba535f03d8491282");
    assert_int_equal(signature_check(o, FRONT), SIGNATURE_GOOD);
    assert_int_equal(signature_check(o, "worldkeeper state.json 1\n"), SIGNATURE_WRONG);
    assert_int_equal(signature_add(o, FRONT), 0); /* of what is beside it */
    assert_string_equal(hex, js_text(o, "hmac"));
    static const char *const wrong[] = {
        "", "x", "14996e7a004f184a2e6cf704300dfcd30cd47e5b37ff7574ba535f03d84912820"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        json_object_set_new(o, "hmac", json_string(wrong[i]));
        assert_int_equal(signature_check(o, FRONT), SIGNATURE_WRONG);
    }
    json_object_set_new(o, "hmac", json_integer(1));
    assert_int_equal(signature_check(o, FRONT), SIGNATURE_WRONG);
    for (size_t i = 0; i < SHA256_HEX - 1; i++) {
        char bad[SHA256_HEX];
        memcpy(bad, hex, sizeof bad);
        bad[i] = bad[i] == '0' ? '1' : '0';
        json_object_set_new(o, "hmac", json_string(bad));
        assert_int_equal(signature_check(o, FRONT), SIGNATURE_WRONG);
    }
    json_object_set_new(o, "hmac", json_string(hex));
    json_object_set_new(o, "c", json_null());
    assert_int_equal(signature_check(o, FRONT), SIGNATURE_WRONG);
    json_decref(o);
}

static void test_keys(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *o = json_loads("{\"a\": 1}", 0, NULL);
    assert_int_equal(use(KEY_A, NULL, &e), 0);
    assert_int_equal(signature_add(o, FRONT), 0);
    assert_int_equal(use(KEY_B, NULL, &e), 0);
    assert_int_equal(signature_check(o, FRONT), SIGNATURE_WRONG);
    assert_int_equal(use(KEY_B, KEY_A, &e), 0); /* a change of keys */
    assert_int_equal(signature_check(o, FRONT), SIGNATURE_GOOD);
    assert_int_equal(use("too short", NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFIG);
    assert_string_equal(e.text,
                        "[dump] hmac_key_file: the key has 9 characters; allowed: at least 32");
    assert_int_equal(signature_check(o, FRONT), SIGNATURE_GOOD); /* those from before stay */
    assert_int_equal(use(KEY_B, "short", &e), -1);
    assert_true(text_starts(e.text, "[dump] hmac_old_key_file: "));
    assert_int_equal(use(NULL, NULL, &e), 0);
    json_decref(o);
}

/* Neither taken nor deleted: somebody may know it for ours. */
static void test_catalog(void **state)
{
    (void)state;
    struct err e = {0};
    struct config_retention rule = {.keep_last = 1};
    unsigned removed;
    assert_int_equal(use(NULL, NULL, &e), 0);
    add(1, 1);
    assert_int_equal(use(KEY_B, NULL, &e), 0);
    add(1, 2);
    assert_int_equal(use(KEY_A, NULL, &e), 0);
    add(1, 3);
    add(1, 4);
    struct catalog c = load();
    assert_int_equal(c.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(c.list[i].intact, i < 2);
        assert_int_equal(c.list[i].unproven, i >= 2);
    }
    assert_non_null(strstr(c.list[2].reason, "does not match any configured key"));
    assert_non_null(strstr(c.list[3].reason, "has no HMAC"));
    assert_non_null(strstr(c.list[3].reason, "--seal=w-000001-00000001"));
    assert_ptr_equal(catalog_newest(&c, 2), NULL);
    catalog_free(&c);
    fake_wall_ms += 1000LL * 86400 * 400;
    assert_int_equal(catalog_retain(kit_dir, "w", &rule, 0, &removed, &e), 0);
    assert_int_equal(removed, 1);
    c = load();
    assert_int_equal(c.count, 3);
    catalog_free(&c);
    assert_int_equal(use(NULL, NULL, &e), 0);
}

/* The same for dumps set aside: those without a good signature stay, and take no place of ours. */
static void test_rejected(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(use(NULL, NULL, &e), 0);
    reject(8);
    assert_int_equal(use(KEY_B, NULL, &e), 0);
    reject(9);
    put(1, 7, ".json", "{");
    char *name = name_of(1, 7, ".json"), *json = xasprintf("rejected/%s", name);
    assert_int_equal(renameat(kit_dir, name, kit_dir, json), 0);
    assert_int_equal(use(KEY_A, NULL, &e), 0);
    for (uint64_t i = 1; i <= 5; i++)
        reject(i);
    expect_rejected("1.9! 1.8! 1.7! 1.5 1.4 1.3 ");
    assert_int_equal(use(NULL, NULL, &e), 0);
    reject(6); /* without a key nothing tells them apart from ours */
    expect_rejected("1.9 1.8 1.7! ");
    free(name);
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_over_what, kit_clean),
        cmocka_unit_test_teardown(test_keys, kit_clean),
        cmocka_unit_test_teardown(test_catalog, kit_clean),
        cmocka_unit_test_teardown(test_rejected, kit_clean),
    };
    return cmocka_run_group_tests_name("seal", tests, kit_set_up, kit_tear_down);
}
