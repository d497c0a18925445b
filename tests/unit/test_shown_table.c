/* sql/shown_table: clauses are found by tokens, never inside of a comment or a default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sql/shown_table.h"

static void test_primary_key(void **state)
{
    (void)state;
    static const struct {
        const char *create;
        bool has;
    } rows[] = {
        {"CREATE TABLE `t` (\n  `a` int(11) NOT NULL,\n  PRIMARY KEY (`a`)\n) ENGINE=MEMORY", true},
        {"CREATE TABLE `t` (\n  `a` int NOT NULL,\n  PRIMARY KEY (`a`) USING HASH\n)", true},
        {"CREATE TABLE `t` (\n  `a` int NOT NULL,\n  UNIQUE KEY `PRIMARY KEY (` (`a`)\n)", false},
        {"CREATE TABLE `t` (\n  `a` int COMMENT '\n  PRIMARY KEY ('\n) ENGINE=MEMORY", false},
        {"CREATE TABLE `t` (\n  `a` int\n) ENGINE=MEMORY COMMENT='\n  PRIMARY KEY ('", false},
        {"CREATE TABLE `\n  PRIMARY KEY (` (\n  `a` int\n) ENGINE=MEMORY", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (shown_table_has_primary_key(rows[i].create) != rows[i].has)
            fail_msg("%s", rows[i].create);
}

static void test_options(void **state)
{
    (void)state;
    static const char odd[] =
        "CREATE TABLE `t` (\n  `\n) x` int CHECK (`\n) x` > (1))\n) ENGINE=CSV";
    assert_string_equal(shown_table_options(odd), ") ENGINE=CSV");
    assert_null(shown_table_options("CREATE TABLE `t` (\n  `a` int"));
}

static void test_counter(void **state)
{
    (void)state;
#define FRONT "CREATE TABLE `t` (\n  `a` varchar(9) DEFAULT '\n) ENGINE=MEMORY'\n) ENGINE="
    static const struct {
        const char *create;
        uint64_t counter;
        const char *want;
    } rows[] = {
        {FRONT "MEMORY DEFAULT CHARSET=utf8mb4", 7,
         FRONT "MEMORY AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4"},
        {FRONT "MEMORY AUTO_INCREMENT=5 COMMENT='x'", 7,
         FRONT "MEMORY AUTO_INCREMENT=7 COMMENT='x'"},
        {FRONT "MEMORY AUTO_INCREMENT=5 COMMENT='x'", 1, FRONT "MEMORY COMMENT='x'"},
        {FRONT "MEMORY AUTO_INCREMENT=5", UINT64_MAX, FRONT "MEMORY"},
        {FRONT "MEMORY", 18446744073709551614u, FRONT "MEMORY AUTO_INCREMENT=18446744073709551614"},
        {FRONT "MEMORY COMMENT=' AUTO_INCREMENT=5'", 7,
         FRONT "MEMORY AUTO_INCREMENT=7 COMMENT=' AUTO_INCREMENT=5'"},
        {FRONT "InnoDB AUTO_INCREMENT=5", 7, FRONT "InnoDB AUTO_INCREMENT=5"},
        {"CREATE TABLE `t` (", 7, "CREATE TABLE `t` ("},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *got = shown_table_with_counter(rows[i].create, rows[i].counter);
        assert_string_equal(got, rows[i].want);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_primary_key),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
