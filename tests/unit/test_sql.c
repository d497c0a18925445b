/* sql: names and values are quoted and read back; the scanner accepts only literals; statements end
 * where they should, wherever their text is cut. Texts are copied to the heap with nothing behind
 * them, so the sanitizers detect a read beyond the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "mysql/value.h"
#include "sql/literal.h"
#include "sql/token.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static char *exact(const char *s, size_t len)
{
    char *p = malloc(len ? len : 1);
    assert_non_null(p);
    memcpy(p, s, len);
    return p;
}

/* ---- names ---- */

static void test_ident(void **state)
{
    (void)state;
    static const struct {
        const char *name, *quoted;
    } cases[] = {
        {"users", "`users`"},
        {"select", "`select`"},
        {"a b", "`a b`"},
        {"`", "````"},
        {"a`; drop table x; --\n\\! id\nb", "`a``; drop table x; --\n\\! id\nb`"},
        {"back\\slash", "`back\\slash`"},
        {"it's \"q\"", "`it's \"q\"`"},
        {"\xc3\xa4\xf0\x9f\x90\x89", "`\xc3\xa4\xf0\x9f\x90\x89`"},
        {"%s%n", "`%s%n`"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = {0}, back = {0};
        sql_ident(&b, cases[i].name);
        assert_string_equal(b.p, cases[i].quoted);
        char *s = exact(b.p, b.len);
        assert_ptr_equal(sql_read_ident(s, s + b.len, &back), s + b.len);
        assert_string_equal(back.p, cases[i].name);
        for (size_t cut = 0; cut < b.len; cut++) {
            char *part = exact(b.p, cut);
            buf_clear(&back);
            const char *end = sql_read_ident(part, part + cut, &back);
            assert_true(!end || (end == part + cut && strcmp(back.p, cases[i].name) != 0));
            free(part);
        }
        free(s);
        buf_free(&b);
        buf_free(&back);
    }
}

static void test_ident2(void **state)
{
    (void)state;
    struct buf b = {0};
    sql_ident2(&b, "my`schema", "t.x");
    assert_string_equal(b.p, "`my``schema`.`t.x`");
    buf_free(&b);
}

static void test_read_ident_refuses(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "`", "``", "a", "a`", "'a'", " `a`", "`a``", "``` "};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct buf out = {0};
        char *s = exact(texts[i], strlen(texts[i]));
        if (sql_read_ident(s, s + strlen(texts[i]), &out))
            fail_msg("%s is no name", texts[i]);
        free(s);
        buf_free(&out);
    }
}

/* ---- values ---- */

/* What a server makes of 'text', without NO_BACKSLASH_ESCAPES. */
static size_t unescape(const char *s, size_t len, char *out)
{
    static const char letters[] = "0nrZ", bytes[] = "\0\n\r\032";
    size_t n = 0;
    assert_int_equal(s[0], '\'');
    for (size_t i = 1; i + 1 < len; i++) {
        if (s[i] == '\\') {
            const char *l = strchr(letters, s[++i]);
            out[n++] = l ? bytes[l - letters] : s[i];
        } else {
            assert_int_not_equal(s[i], '\'');
            out[n++] = s[i];
        }
    }
    assert_int_equal(s[len - 1], '\'');
    return n;
}

static void check_string(const char *data, size_t len)
{
    struct buf b = {0};
    char back[64];
    unsigned fields;
    buf_addc(&b, '(');
    sql_string(&b, data, len);
    assert_int_equal(unescape(b.p + 1, b.len - 1, back), len);
    assert_memory_equal(back, data, len);
    buf_addc(&b, ')');
    assert_int_equal(strlen(b.p), b.len); /* no raw NUL, and ended by one */
    char *s = exact(b.p, b.len);
    assert_ptr_equal(sql_read_tuple(s, s + b.len, &fields), s + b.len);
    assert_int_equal(fields, 1);
    free(s);
    buf_free(&b);
}

/* Each byte, each pair of bytes that mean something to somebody, and their triples. */
static void test_string(void **state)
{
    (void)state;
    static const char odd[] = "\0\n\r\032\\'\"`;,()%_-# x\x80\xbf\x5c\xe3\x95\xff";
    check_string("", 0);
    for (int c = 0; c < 256; c++)
        check_string((char[]){(char)c}, 1);
    for (size_t a = 0; a < sizeof odd; a++)
        for (size_t b = 0; b < sizeof odd; b++)
            for (size_t c = 0; c < sizeof odd; c++)
                check_string((char[]){odd[a], odd[b], odd[c]}, 3);
    struct buf b = {0};
    sql_string(&b, "it's\n\"\\\0\032\r", 10);
    assert_string_equal(b.p, "'it\\'s\\n\\\"\\\\\\0\\Z\\r'");
    buf_free(&b);
}

static void test_hex(void **state)
{
    (void)state;
    struct buf b = {0};
    unsigned fields;
    sql_hex(&b, "", 0);
    buf_addc(&b, ',');
    sql_hex(&b, "\x00\x0f\xf0\xff", 4);
    assert_string_equal(b.p, "'',0x000ff0ff");
    buf_clear(&b);
    buf_addc(&b, '(');
    for (int c = 0; c < 256; c++)
        sql_hex(&b, (char[]){(char)c}, 1), buf_adds(&b, c < 255 ? "," : ")");
    assert_ptr_equal(sql_read_tuple(b.p, b.p + b.len, &fields), b.p + b.len);
    assert_int_equal(fields, 256);
    buf_free(&b);
}

/* ---- tuples ---- */

static const struct {
    const char *text;
    unsigned fields;
} tuples[] = {
    {"(1)", 1},
    {"(-1)", 1},
    {"(0)", 1},
    {"(18446744073709551615,-9223372036854775808)", 2},
    {"(99999999999999999999999999999999999.999999999999999999999999999999)", 1},
    {"(1.5,-0.25,.5,5.)", 4},
    {"(1e300,-1.5E-7,2e+5,-0e0,5e-324)", 5},
    {"(0x00,0xdeadBEEF,0x0)", 3},
    {"(NULL,NULL)", 2},
    {"('')", 1},
    {"('it\\'s','\\\\','\\\"','a\"b`c','),(','\\0\\Z')", 6},
    {"('NULL; -- /* # */')", 1},
    {"(_latin1'10.0.0.1',_utf8mb4'{\\\"a\\\": 1}',_latin1'')", 3},
    {"('2024-02-30 00:00:00','-838:59:59.000000')", 2},
};

static void test_tuples(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tuples); i++) {
        size_t len = strlen(tuples[i].text);
        unsigned fields = 99;
        char *s = exact(tuples[i].text, len);
        if (sql_read_tuple(s, s + len, &fields) != s + len || fields != tuples[i].fields)
            fail_msg("%s: %u fields", tuples[i].text, fields);
        free(s);
        for (size_t cut = 0; cut < len; cut++) {
            s = exact(tuples[i].text, cut);
            if (sql_read_tuple(s, s + cut, &fields))
                fail_msg("%.*s is whole?", (int)cut, tuples[i].text);
            free(s);
        }
    }
}

static void test_tuple_end(void **state)
{
    (void)state;
    static const char two[] = "(1,'a'),\n(2,'b')";
    unsigned fields;
    assert_ptr_equal(sql_read_tuple(two, two + strlen(two), &fields), two + 7);
    assert_int_equal(fields, 2);
}

/* All of these are SQL that a server would compute, or no SQL at all. */
static const char *const no_tuples[] = {
    "()",
    "(,)",
    "(1,)",
    "(,1)",
    "1)",
    "[1]",
    "(1",
    "(1 )",
    "( 1)",
    "(1, 2)",
    "(1;2)",
    "((1))",
    "(a)",
    "(a.b)",
    "(`a`)",
    "(\"a\")",
    "(@a)",
    "(@@version)",
    "(SLEEP(5))",
    "(NOW())",
    "(1+1)",
    "(1-1)",
    "(1*1)",
    "(1 OR 1)",
    "(--1)",
    "(+1)",
    "(-)",
    "(-NULL)",
    "(-'1')",
    "(!1)",
    "(~1)",
    "(1e)",
    "(1e+)",
    "(1e-)",
    "(e5)",
    "(.e5)",
    "(.)",
    "(-.)",
    "(1.2.3)",
    "(..)",
    "(1..)",
    "(1.5e1.5)",
    "(0x)",
    "(0X1f)",
    "(0xgg)",
    "(0x1g)",
    "(-0x1)",
    "(0x1.5)",
    "(x'00')",
    "(b'01')",
    "(0b01)",
    "(N'a')",
    "(null)",
    "(Null)",
    "(NULLIF)",
    "(NULL())",
    "(TRUE)",
    "(DEFAULT)",
    "('a''b')",
    "('a' 'b')",
    "('a'b)",
    "('a)",
    "('a\\')",
    "(_binary'a')",
    "(_latin1 'a')",
    "(_latin1)",
    "(_latin1,1)",
    "(_utf8mb4)",
    "(_utf8mb3'a')",
    "(_LATIN1'a')",
    "(_latin1_latin1'a')",
    "(_latin10x41)",
    "(1,(SELECT 1))",
    "((SELECT 1),1)",
    "(1 -- )\n)",
    "(1/**/)",
    "(/*!1*/)",
    "(1#)\n)",
    "(DATE'2024-01-01')",
    "(CAST(1 AS CHAR))",
    "(INTERVAL 1 DAY)",
    "(?)",
    "(1,2",
    "(INF)",
    "(NaN)",
    "(1\\,2)",
    "(\\N)",
    "('a\nb')",
    "('a\\\nb')",
    "{1}",
    " (1)",
};

static void test_no_tuples(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(no_tuples); i++) {
        size_t len = strlen(no_tuples[i]);
        unsigned fields;
        char *s = exact(no_tuples[i], len);
        if (sql_read_tuple(s, s + len, &fields))
            fail_msg("%s taken for a row of values", no_tuples[i]);
        free(s);
    }
    unsigned fields;
    static const char nul[] = "(1\0,2)";
    assert_null(sql_read_tuple(nul, nul + sizeof nul - 1, &fields));
}

/* The hash tells rows apart by every byte and by their length. */
static void test_hash(void **state)
{
    (void)state;
    char row[] = "(1,'abcdefghijklmnopqrstuvwxyz')";
    size_t len = strlen(row);
    uint64_t was = sql_tuple_hash(row, len);
    assert_true(was == sql_tuple_hash(row, len));
    for (size_t bit = 0; bit < 8 * len; bit++) {
        row[bit / 8] ^= (char)(1 << bit % 8);
        assert_true(sql_tuple_hash(row, len) != was);
        row[bit / 8] ^= (char)(1 << bit % 8);
    }
    static const char zeros[40] = "";
    for (size_t a = 0; a < sizeof zeros; a++)
        for (size_t b = 0; b < a; b++)
            assert_true(sql_tuple_hash(zeros, a) != sql_tuple_hash(zeros, b));
}

/* ---- ends of statements ---- */

static const struct {
    const char *delimiter, *statement;
} statements[] = {
    {";", "SELECT 1"},
    {";", ""},
    {";", "VALUES ('a;b'),('a\\';b'),('a'';b'),('\\\\')"},
    {";", "VALUES (\"a;b\"),(\"a\\\";b\"),(\"a\"\";b\"),(\"'\"),('\"')"},
    {";", "SELECT `a;b`, `a``;b`, `a\\`, `'`"},
    {";", "-- it's; a \"comment\"\nSELECT 1"},
    {";", "--\tc;\nSELECT 1"},
    {";", "--\nSELECT 1"},
    {";", "SELECT 1 -- c;\n, 2 # d;\n, 3"},
    {";", "#;\nSELECT 1"},
    {";", "SELECT 5--3"},
    {";", "SELECT 5--'3;'"},
    {";", "SELECT 5---- ;\n3"},
    {";", "SELECT 5-3/2-1"},
    {";", "SELECT 1 /* ; ' \" ` -- # */ + 1"},
    {";", "SELECT 1 /*/ ; */ + 1"},
    {";", "SELECT 1 /***/ + /**/ 1 /* * / ; **/"},
    {";", "SELECT 3 /* a */* 2 /* b; */"},
    {";", "SELECT 3 /* a *//* ; */"},
    {";", "/*!40101 SET x=';*/' */"},
    {";", "/*!*/"},
    {";", "/*M!100201 SET x='*/ ;' */"},
    {";", "/*M ; */"},
    {";", "CREATE TABLE `t` (\n  `a` int COMMENT 'it''s; -- \\\\'\n)"},
    {";;", "BEGIN a; b; END"},
    {";;", "a;b; "},
    {";;", "';;' \";;\" `;;` /*;;*/ -- ;;\n #;;\n"},
    {";;", "SET NEW.a = NEW.b--1"},
    {"$$", "a $ b '$$' c$1"},
    {"$wk12$", "a $wk1$ $wk12 $wk13$ $w"},
    {"$wk12$", "x$"},
    {"//", "a/b /* // */ 1/2"},
    {"--", "a-b"},
};

/* In pieces that end at each of `cuts`; what is not yet there is other text. */
static const char *find_in_pieces(char *at, const char *text, size_t len, const char *delimiter,
                                  const size_t *cuts, size_t count)
{
    struct sql_scan scan = {0};
    size_t done = 0;
    memset(at, ';', len);
    for (size_t i = 0; i <= count; i++) {
        size_t upto = i < count ? cuts[i] : len;
        memcpy(at + done, text + done, upto - done);
        const char *end = sql_find_end(at + done, at + upto, delimiter, &scan);
        if (end)
            return end;
        done = upto;
    }
    return NULL;
}

static void check_cuts(const char *text, size_t len, const char *delimiter, const char *what,
                       long want)
{
    char *at = exact(text, len);
    size_t every[256];
    assert_true(len < COUNT(every));
    for (size_t a = 0; a <= len; a++) {
        every[a] = a;
        for (size_t b = a; b <= len; b++) {
            const char *end = find_in_pieces(at, text, len, delimiter, (size_t[]){a, b}, 2);
            if ((end ? end - at : -1) != want)
                fail_msg("%s cut at %zu and %zu: %ld", what, a, b, end ? (long)(end - at) : -1);
        }
    }
    const char *end = find_in_pieces(at, text, len, delimiter, every, len + 1);
    if ((end ? end - at : -1) != want)
        fail_msg("%s byte by byte: %ld", what, end ? (long)(end - at) : -1);
    free(at);
}

static void test_find_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(statements); i++) {
        const char *d = statements[i].delimiter, *s = statements[i].statement;
        struct buf b = {0};
        buf_printf(&b, "%s%s", s, d);
        check_cuts(b.p, b.len, d, s, (long)strlen(s));
        buf_printf(&b, "\n'%s", d);
        check_cuts(b.p, b.len, d, s, (long)strlen(s));
        buf_free(&b);
    }
}

static void test_no_end(void **state)
{
    (void)state;
    static const struct {
        const char *delimiter, *text;
    } cases[] = {
        {";", ""},         {";", "SELECT 1"}, {";", "';"},
        {";", "'\\';"},    {";", "\";"},      {";", "`;``;"},
        {";", "-- ;"},     {";", "--\t;"},    {";", "#;"},
        {";", "/* ;"},     {";", "/*/;"},     {";", "/*;* /"},
        {";;", "a;b;"},    {"$$", "a$b$"},    {";", "/*!40101 ';*/"},
        {"$wk1$", "$wk1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_cuts(cases[i].text, strlen(cases[i].text), cases[i].delimiter, cases[i].text, -1);
}

/* ---- values ---- */

static void test_values(void **state)
{
    (void)state;
    static const struct {
        enum db_encoding enc;
        const char *v, *text;
        size_t len;
    } cases[] = {
        {DB_RAW, "-17", "-17", 3},
        {DB_RAW, "12.50", "12.50", 5},
        {DB_INDEX, "0", "0", 1},
        {DB_DOUBLE, "1e23", "1e23", 4},
        {DB_DOUBLE, "-0", "-0e0", 2},
        {DB_DOUBLE, "-0.5", "-0.5", 4},
        {DB_RAW, "-0", "-0", 2},
        {DB_BITS, "\0\xff", "0x00ff", 2},
        {DB_BYTES, "it's", "'it\\'s'", 4},
        {DB_BYTES, "", "''", 0},
        {DB_LATIN1, "10.0.0.1", "_latin1'10.0.0.1'", 8},
        {DB_UTF8, "{\"a\":1}", "_utf8mb4'{\\\"a\\\":1}'", 7},
    };
    static const enum db_encoding all[] = {DB_RAW,   DB_DOUBLE, DB_INDEX, DB_BITS,
                                           DB_BYTES, DB_LATIN1, DB_UTF8};
    char out[64];
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *v = exact(cases[i].v, cases[i].len);
        char *end = db_put_value(out, cases[i].enc, v, cases[i].len);
        assert_true((size_t)(end - out) <= 2 * cases[i].len + DB_VALUE_ROOM - 1);
        *end = '\0';
        assert_string_equal(out, cases[i].text);
        free(v);
    }
    for (size_t i = 0; i < COUNT(all); i++) {
        *db_put_value(out, all[i], NULL, 0) = '\0';
        assert_string_equal(out, "NULL");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ident),
        cmocka_unit_test(test_ident2),
        cmocka_unit_test(test_read_ident_refuses),
        cmocka_unit_test(test_string),
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_tuples),
        cmocka_unit_test(test_tuple_end),
        cmocka_unit_test(test_no_tuples),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_find_end),
        cmocka_unit_test(test_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
