/* mysql/create_table: the columns of a table, from its definition alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "mysql/schema.h"

static const char odd[] =
    "CREATE TABLE `o``dd` (\n"
    "  `id` int(10) unsigned zerofill NOT NULL AUTO_INCREMENT,\n"
    "  `na``m, \n e` varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT "
    "'),''',\n"
    "  `kind` enum('a,b','c)','it''s') DEFAULT NULL COMMENT ' AUTO_INCREMENT, `x` int',\n"
    "  `sum` double(20,5) GENERATED ALWAYS AS (`id` * (2 + 1)) VIRTUAL,\n"
    "  `pressed` varchar(10) /*M!100301 COMPRESSED*/ DEFAULT NULL,\n"
    "  `at` timestamp(6) NULL DEFAULT current_timestamp(6),\n"
    "  PRIMARY KEY (`kind`,`na``m, \n e`(10)) USING HASH,\n"
    "  KEY `k` (`at`) USING BTREE,\n"
    "  CONSTRAINT `c` CHECK (`id` > 0)\n"
    ") ENGINE=MEMORY DEFAULT CHARSET=utf8mb4";

static void test_columns(void **state)
{
    (void)state;
    static const char *const types[] = {"int(10) unsigned zerofill",
                                        "varchar(40)",
                                        "enum('a,b','c)','it''s')",
                                        "double(20,5)",
                                        "varchar(10) /*M!100301 COMPRESSED*/",
                                        "timestamp(6)"};
    struct db_table t;
    assert_int_equal(db_create_table_read(odd, strlen(odd), true, &t), 0);
    assert_string_equal(t.name, "o`dd");
    assert_int_equal(t.column_count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(t.columns[i].type, types[i]);
        assert_int_equal(t.columns[i].counter, i == 0);
        assert_int_equal(t.columns[i].generated, i == 3);
    }
    assert_string_equal(t.columns[1].name, "na`m, \n e");
    assert_int_equal(t.columns[2].encoding, DB_INDEX);
    assert_int_equal(t.key_count, 2);
    assert_int_equal(t.key[0], 2);
    assert_int_equal(t.key[1], 1);
    db_table_free(&t);
}

static void test_a_key_that_no_tuple_has(void **state)
{
    (void)state;
    static const char text[] =
        "CREATE TABLE `t` (\n  `a` int,\n  `b` int GENERATED ALWAYS AS (`a`) "
        "STORED,\n  PRIMARY KEY (`a`,`b`)\n) ENGINE=MEMORY";
    struct db_table t;
    assert_int_equal(db_create_table_read(text, strlen(text), false, &t), 0);
    assert_int_equal(t.key_count, 0);
    db_table_free(&t);
}

/* However it is cut. */
static void test_what_is_none(void **state)
{
    (void)state;
    struct db_table t;
    const char *behind = strstr(odd, "\n) ENGINE");
    for (size_t n = 0; n <= (size_t)(behind - odd); n++) {
        char cut[sizeof odd];
        memcpy(cut, odd, n);
        assert_int_equal(db_create_table_read(cut, n, true, &t), -1);
    }
    assert_int_equal(db_create_table_read("CREATE VIEW `v` (", 17, true, &t), -1);
}

/* Tables are found by their order, which is that of bytes, whatever order they came in. */
static void test_found(void **state)
{
    (void)state;
    char names[][8] = {"b", "\xc3\xa9", "a`x", "B", "aa", "a"};
    struct db_table list[6] = {0};
    struct db_tables tables = {.list = list};
    assert_null(db_table_find(&tables, "a"));
    for (; tables.count < 6; tables.count++)
        list[tables.count].name = names[tables.count];
    db_tables_sort(&tables);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(db_table_find(&tables, names[i])->name, names[i]);
    assert_null(db_table_find(&tables, ""));
    assert_null(db_table_find(&tables, "ab"));
    assert_null(db_table_find(&tables, "\xc3\xaa"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_a_key_that_no_tuple_has),
        cmocka_unit_test(test_what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
