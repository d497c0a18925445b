/* sql/enum_members: members of ENUM and SET, and their numbers. mysql/scan: how tables are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "mysql/scan.h"
#include "sql/enum_members.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void test_members(void **state)
{
    (void)state;
    struct enum_members c;
    assert_int_equal(
        enum_members_parse("enum('a','it''s','back\\\\slash','','x,y','\\0\\n\\r')", &c), 0);
    static const struct {
        const char *text;
        size_t len;
    } members[] = {{"a", 1}, {"it's", 4}, {"back\\slash", 10}, {"", 0}, {"x,y", 3}, {"\0\n\r", 3}};
    assert_false(c.set);
    assert_int_equal(c.count, COUNT(members));
    for (size_t i = 0; i < c.count; i++) {
        assert_int_equal(c.lengths[i], members[i].len);
        assert_memory_equal(c.list[i], members[i].text, members[i].len);
    }
    enum_members_free(&c);
    static const char *const broken[] = {
        "int(11)", "enum(", "enum('a'", "enum('a", "set('a',)", "enum('a') charset x", "enum(a)"};
    for (size_t i = 0; i < COUNT(broken); i++) {
        assert_int_equal(enum_members_parse(broken[i], &c), -1);
        enum_members_free(&c);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    struct enum_members c;
    uint64_t n;
    assert_int_equal(enum_members_parse("enum('a','A','b,c')", &c), 0);
    assert_int_equal(enum_members_find(&c, "A", 1, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(enum_members_find(&c, "b,c", 3, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(enum_members_find(&c, "", 0, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(enum_members_find(&c, "b", 1, &n), -1);
    enum_members_free(&c);

    struct buf type = {0};
    for (int i = 0; i < 64; i++)
        buf_printf(&type, "%s'm%d'", i ? "," : "set(", i);
    buf_addc(&type, ')');
    assert_int_equal(enum_members_parse(type.p, &c), 0);
    assert_int_equal(enum_members_find(&c, "m0,m63", 6, &n), 0);
    assert_true(n == (UINT64_C(1) << 63 | 1));
    assert_int_equal(enum_members_find(&c, "", 0, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(enum_members_find(&c, "m0,", 3, &n), -1);
    assert_int_equal(enum_members_find(&c, "m0,no", 5, &n), -1);
    enum_members_free(&c);
    buf_free(&type);
}

/* One table `t` with one column `e`, and at most one fact. */
static void test_way(void **state)
{
    (void)state;
    static const struct {
        const char *type, *charset;
        int kind; /* of the fact; -1: none */
        bool memory, mariadb;
        enum db_scan_way way;
    } cases[] = {
        {"int(11)", "", -1, true, true, DB_SCAN_HANDLER},
        {"int(11)", "", -1, false, true, DB_SCAN_NONE},
        {"int(11)", "", -1, true, false, DB_SCAN_COPIES},
        {"int(11)", "", DB_SCAN_VERSIONED, true, true, DB_SCAN_NONE},
        {"int(11)", "", DB_SCAN_PARTITIONED, true, true, DB_SCAN_COPIES},
        {"int(11)", "", DB_SCAN_INVISIBLE, true, true, DB_SCAN_COPIES},
        {"enum('a','b')", "latin1", DB_SCAN_CHOICE, true, true, DB_SCAN_HANDLER},
        {"set('a','b')", "sjis", DB_SCAN_CHOICE, true, true, DB_SCAN_HANDLER},
        {"enum('n\xc5\x91')", "utf8mb4", DB_SCAN_CHOICE, true, true, DB_SCAN_HANDLER},
        {"enum('n\xc5\x91')", "latin2", DB_SCAN_CHOICE, true, true, DB_SCAN_COPIES},
        {"enum('?')", "utf8mb4", DB_SCAN_CHOICE, true, true, DB_SCAN_COPIES},
        {"enum('a','')", "utf8mb4", DB_SCAN_CHOICE, true, true, DB_SCAN_COPIES},
        {"enum('a')", "utf16le", DB_SCAN_CHOICE, true, true, DB_SCAN_COPIES},
        {"set('a')", "swe7", DB_SCAN_CHOICE, true, true, DB_SCAN_COPIES},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[] = "e", other[] = "other", table[] = "t";
        bool choice = cases[i].kind == DB_SCAN_CHOICE;
        char *type = xstrdup(cases[i].type), *charset = xstrdup(cases[i].charset);
        struct db_column column = {
            .name = name, .type = type, .encoding = choice ? DB_INDEX : DB_RAW};
        struct db_table t = {
            .name = table, .memory = cases[i].memory, .columns = &column, .column_count = 1};
        struct db_scan_fact list[] = {
            {.kind = DB_SCAN_VERSIONED, .table = other, .column = other, .charset = charset},
            {.kind = (unsigned)cases[i].kind, .table = table, .column = name, .charset = charset}};
        struct db_scan_facts f = {
            .mariadb = cases[i].mariadb, .list = list, .count = cases[i].kind < 0 ? 1 : 2};
        const char *why;
        assert_int_equal(db_scan_way(&t, &f, &why), cases[i].way);
        assert_int_equal(why == NULL, cases[i].way == DB_SCAN_HANDLER);
        free(type);
        free(charset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
