/* check_rules(): findings that the tables of rules give for facts, without a server or a disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "check_kit.h"

static const struct check_rule rules[] = {
    {"one", "a !b", CHECK_FAIL, "a without b", "type {a}"},
    {"one", "a", CHECK_WARN, "a {a}, b {b}", NULL, true},
    {"one", "c", CHECK_NOTE, "c"},
    {"one", "!found", CHECK_OK, "none of them"},
    {"two", "a c", CHECK_NOTE, "both", NULL, true},
    {"two", "!found", CHECK_OK, "not both"},
    {"three", NULL, CHECK_OK, "{nobody set this}{a}"},
};

static void test_rules(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *c; /* NULL: not set */
        const char *findings;
    } cases[] = {
        {NULL, NULL, NULL, "ok none of them; ok not both; ok ; "},
        {"0", "OFF", "", "ok none of them; ok not both; ok 0; "},
        {"no", "off", "NO", "ok none of them; ok not both; ok no; "},
        {"x", NULL, NULL, "fail a without b (type x); ok not both; ok x; "},
        {"x", "0", "1", "fail a without b (type x); note both; ok x; "},
        {"x", "y", NULL, "warn a x, b y; ok not both; ok x; "},
        {"x", "y", "00", "warn a x, b y; note c; note both; ok x; "},
        {NULL, "y", "z", "note c; ok not both; ok ; "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf got = {0};
        size_t k;
        json_t *o;
        kit_config();
        struct check c = kit_check();
        if (cases[i].a)
            check_word(&c, "a", "%s", cases[i].a);
        if (cases[i].b)
            check_word(&c, "b", "%s", cases[i].b);
        if (cases[i].c)
            check_word(&c, "c", "%s", cases[i].c);
        CHECK_RULES(&c, rules);
        json_array_foreach(c.list, k, o)
        {
            const char *hint = kit_key(o, "hint");
            buf_printf(&got, "%s %s%s%s%s; ", kit_key(o, "level"), kit_key(o, "text"),
                       hint[0] ? " (" : "", hint, hint[0] ? ")" : "");
        }
        assert_string_equal(got.p, cases[i].findings);
        assert_int_equal(c.failed, strstr(got.p, "fail ") ? 1 : 0);
        buf_free(&got);
        kit_check_free(&c);
    }
}

/* A word that is set again is another one; what it held is not read as a text with words. */
static void test_words(void **state)
{
    (void)state;
    kit_config();
    struct check c = kit_check();
    check_word(&c, "a", "%s", "{b}");
    check_word(&c, "b", "%s", "deep");
    check_word(&c, "c", "%s", "1");
    CHECK_RULES(&c, rules);
    kit_expect(&c, CHECK_WARN, "one", "a {b}, b deep", NULL);
    check_word(&c, "b", "%s", "other");
    assert_string_equal(check_text(&c, "b"), "other");
    assert_int_equal(check_value(&c, "c"), 1);
    assert_int_equal(check_value(&c, "d"), -1);
    struct err e = {.cls = ERR_QUERY, .text = "refused", .hint = "worldkeeper --check names it"};
    check_error(&c, "x", &e);
    assert_string_equal(check_text(&c, "x_error"), "refused");
    assert_string_equal(check_text(&c, "x_hint"), "see the finding \"rights\"");
    check_error(&c, "x", &(struct err){0});
    assert_false(check_is(&c, "x_error"));
    kit_check_free(&c);
}

/* Numbers are compared; keys of the config and variables of the server are words of their own. */
static void test_sources(void **state)
{
    (void)state;
    static const struct check_rule rows[] = {
        {"less", "a<b", CHECK_OK, "{a} < {b}", NULL, true},
        {"less", "-5<a a<9 !9<a", CHECK_OK, "-5 < a < 9", NULL, true},
        {"less", "nobody<9", CHECK_OK, "wrong: not set", NULL, true},
        {"less", "text<9", CHECK_OK, "wrong: no number", NULL, true},
        {"config", "dump.interval<60001 dump.method=auto restore.binlog !restore.new_server",
         CHECK_OK, "{dump.interval:time}, {world.name}, {mysql.port}, {mysql.tls}"},
        {"config", "dump.method=autobus", CHECK_OK, "wrong: only the beginning"},
        {"unset", "!mysql.socket !alert.smtp.to !dump.none !@x", CHECK_OK, "[{mysql.socket}]"},
        {"server", "@log_bin @max_heap_table_size<16777217", CHECK_OK,
         "{@max_heap_table_size:size}"},
        {"forms", NULL, CHECK_OK, "{b:count} {text:name} {text:shell} {b:size} {a}"},
        {"names", "a<b", CHECK_OK, "{names}", NULL, true, "SELECT x FROM y WHERE z=?"},
        {"names", NULL, CHECK_OK, "wrong: no such rows", NULL, true, "SELECT y FROM y WHERE z=?"},
    };
    static const char *const said[] = {"7 < 1234", "-5 < a < 9", "1m, game1, 3306, off",
                                       "[]",       "16.0 MiB",   "1,234 `t``1 $` 't`1 $' 1.2 KiB 7",
                                       "`p`, `q`"};
    kit_config();
    kit_sound_server(MARIA);
    script("SELECT x FROM y WHERE z='game'", "p\nq");
    struct check c = kit_check();
    c.db = script_open();
    check_number(&c, "a", 7);
    check_number(&c, "b", 1234);
    check_word(&c, "text", "%s", "t`1 $");
    CHECK_RULES(&c, rows);
    assert_int_equal(json_array_size(c.list), COUNT(said));
    for (size_t i = 0; i < COUNT(said); i++)
        assert_string_equal(kit_key(json_array_get(c.list, i), "text"), said[i]);
    kit_check_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_words),
                                       cmocka_unit_test(test_sources)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
