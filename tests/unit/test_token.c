/* sql/token: where names, strings and comments end in a dump's text, and which bytes do not belong
 * to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sql/token.h"

static const char letters[] = ".!wnsdxb_()pcv<>";

/* "w(n)": one letter for each token; '!' ends it. */
static void kinds_of(const char *s, size_t len, struct sql_text options, char out[64])
{
    struct sql_token t;
    size_t n = 0;
    options.s = s;
    options.end = s + len;
    do {
        sql_next(&options, &t);
        out[n++] = letters[t.kind];
    } while (n < 63 && t.kind != SQL_END && t.kind != SQL_BAD);
    out[n] = '\0';
}

static void reads_as(const char *s, const char *want)
{
    char got[64];
    kinds_of(s, strlen(s), (struct sql_text){0}, got);
    if (strcmp(got, want) != 0)
        fail_msg("%s: %s, not %s", s, got, want);
}

static void test_kinds(void **state)
{
    (void)state;
    reads_as("", ".");
    reads_as(" \t\r\n\v\f", ".");
    reads_as("CREATE TABLE `a``b` (\n`c` int(10) DEFAULT 'x''y\\'z')", "wwn(nw(d)ws).");
    reads_as("\"a\"\"b\"", "s.");
    reads_as("1 -1.5 .5 1e5 1.E-3 2abc 1e 0x 0xg 0b2", "dpddddwwwww.");
    reads_as("0xAb 0b01 x'AB' X'' b'01' B''", "xbxxbb.");
    reads_as("_utf8mb4'a' _binary 0x61 _latin1\nx'61' _id _ 'a'", "_s_x_xwws.");
    reads_as("a->>'$.b' <=> 1 << 2 || ! ~", "wpspdpdppp.");
    reads_as("\xc3\xa4\xe4\xb8\x80_1", "w.");
    reads_as("'\xc3\xa4' `\xe4\xb8\x80`", "sn.");
}

static void test_comments(void **state)
{
    (void)state;
    reads_as("a /* b */ c -- d\ne # f\ng --\nh --", "wcwcwcwcwc.");
    reads_as("1--1 /**/", "dppdc.");
    reads_as("/*!99999 ( x */ /*M!999999 x */ /*! x */ /*+ x */ /*T![a] b */", "vvvcc.");
    reads_as("/*!50100 PARTITION BY HASH (a) */", "<www(w)>.");
    reads_as("/*M!100301 COMPRESSED*/", "<w>.");
    reads_as("/*!80016 NOT ENFORCED */ /*!80023 INVISIBLE */", "<ww><w>.");
    /* neither another number nor another clause, and none of it has another blank */
    reads_as("/*!50101 PARTITION BY x */ /*!50100 SELECT */ /*!50100\nPARTITION BY x */", "vvv.");
    reads_as("/*!50100 PARTITION BY /* */ */", "<ww!");
    reads_as("/*!50100 PARTITION BY # */", "<ww!");
    reads_as("/*!50100 PARTITION BY '*/' `*/` */ a", "<wwsn>w.");
    reads_as("/*!50100 PARTITION BY a", "<www!");
    reads_as("*/ a", "!");
    reads_as("/* a", "!");
    reads_as("/*!99999 a", "!");
}

static void test_bad(void **state)
{
    (void)state;
    reads_as("'a", "!");
    reads_as("'a\\'", "!");
    reads_as("`a", "!");
    reads_as("a\xa0", "!");
    reads_as("a \xa0 b", "w!");
    reads_as("'\xa0'", "!");
    reads_as("`\xff`", "!");
    reads_as("1.5a", "!");
    reads_as("x'a' x'ag'", "!");
    reads_as("b'012'", "!");
    reads_as("a \x01", "w!");
    char got[64];
    kinds_of("a\0b", 3, (struct sql_text){0}, got);
    assert_string_equal(got, "w!");
    kinds_of("`a\0`", 4, (struct sql_text){.binary = true}, got);
    assert_string_equal(got, "!");
    kinds_of("'a\0'", 4, (struct sql_text){0}, got);
    assert_string_equal(got, "!");
}

static void test_bad_stays(void **state)
{
    (void)state;
    static const char text[] = "a ' b";
    struct sql_text x = {.s = text, .end = text + 5};
    struct sql_token t;
    sql_next(&x, &t);
    assert_int_equal(sql_peek(&x).kind, SQL_BAD);
    assert_null(x.why);
    assert_int_equal(sql_next(&x, &t), SQL_BAD);
    assert_non_null(x.why);
    assert_ptr_equal(t.s, x.s);
    assert_int_equal(sql_next(&x, &t), SQL_BAD);
}

static void test_modes(void **state)
{
    (void)state;
    char got[64];
    const char *s = "\"a\\\" 'b' \"";
    kinds_of(s, strlen(s), (struct sql_text){.ansi_quotes = true}, got);
    assert_string_equal(got, "ns!");
    s = "'a\\' 'b'";
    kinds_of(s, strlen(s), (struct sql_text){.plain_strings = true}, got);
    assert_string_equal(got, "ss.");
    kinds_of("'\xff\0'", 4, (struct sql_text){.binary = true}, got);
    assert_string_equal(got, "s.");
}

static void gives(const char *s, bool ansi, bool plain, const char *want, size_t len)
{
    struct sql_text x = {.s = s, .end = s + strlen(s), .ansi_quotes = ansi, .plain_strings = plain};
    struct sql_token t;
    struct buf b = {0};
    sql_next(&x, &t);
    bool is = t.kind == SQL_NAME || t.kind == SQL_WORD ? sql_token_name(&t, &b)
                                                       : sql_token_bytes(&t, plain, &b);
    assert_int_equal(is, want != NULL);
    if (want) {
        assert_int_equal(b.len, len);
        assert_memory_equal(b.p, want, len);
    }
    buf_free(&b);
}

static void test_values(void **state)
{
    (void)state;
    gives("`a``b\\c`", false, false, "a`b\\c", 5);
    gives("\"a\"\"b\"", true, false, "a\"b", 3);
    gives("``", false, false, NULL, 0);
    gives("word", false, false, "word", 4);
    gives("'a''b\\n\\0\\Z\\%\\q\\''", false, false, "a'b\n\0\x1a\\%q'", 10);
    gives("'a\\n'", false, true, "a\\n", 3);
    gives("''", false, false, "", 0);
    gives("x'414a'", false, false, "AJ", 2);
    gives("0x14a", false, false, "\x01J", 2);
    gives("b'101000001'", false, false, "\x01\x41", 2);
    gives("x''", false, false, "", 0);
    gives("12", false, false, NULL, 0);
}

static void test_words(void **state)
{
    (void)state;
    const char *s = "Engine `ENGINE` ->> =";
    struct sql_text x = {.s = s, .end = s + strlen(s)};
    struct sql_token t;
    sql_next(&x, &t);
    assert_true(sql_is(&t, "ENGINE"));
    assert_false(sql_is(&t, "ENGIN"));
    sql_next(&x, &t);
    assert_false(sql_is(&t, "ENGINE"));
    sql_next(&x, &t);
    assert_true(sql_is_punct(&t, "->>"));
    assert_false(sql_is_punct(&t, "->"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_comments),
        cmocka_unit_test(test_bad),   cmocka_unit_test(test_bad_stays),
        cmocka_unit_test(test_modes), cmocka_unit_test(test_values),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
