/* restore/code: which part of a dump's definitions section is kept, and when it is created. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "restore/code.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void note(struct code *c, const char *sql)
{
    code_note(c, sql, strlen(sql));
}

static void test_use(void **state)
{
    (void)state;
    static const struct {
        struct code_case c;
        enum code_use want;
    } rows[] = {
        {{.empty = true, .trust = CODE_OWN}, CODE_MAKE},
        {{.empty = true, .trust = CODE_SIGNED}, CODE_MAKE},
        {{.empty = true, .trust = CODE_UNKNOWN}, CODE_LEAVE},
        {{.empty = true, .trust = CODE_UNKNOWN, .with_code = true}, CODE_MAKE},
        {{.known = true, .trust = CODE_SIGNED}, CODE_TRIGGERS},
        {{.known = false, .trust = CODE_SIGNED}, CODE_LEAVE}, /* names that are all new */
        {{.known = true, .trust = CODE_UNKNOWN, .with_code = true}, CODE_MAKE},
        {{.elsewhere = true, .known = true, .trust = CODE_OWN},
         CODE_MAKE}, /* whatever else is there */
        {{.elsewhere = true, .trust = CODE_UNKNOWN}, CODE_LEAVE},
        {{.into = true, .empty = true, .trust = CODE_SIGNED}, CODE_LEAVE},
        {{.into = true, .with_code = true}, CODE_MAKE},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(code_use(&rows[i].c), rows[i].want);
}

static void test_settings(void **state)
{
    (void)state;
    struct code c = {0};
    note(&c, "SET NAMES utf8mb4");
    note(&c, "SET character_set_client=latin1, collation_connection=latin1_swedish_ci");
    note(&c, "SET time_zone='+05:45'");
    note(&c, "SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES'");
    note(&c, "DROP VIEW IF EXISTS \"v\"");
    note(&c, "CREATE VIEW \"v\" AS SELECT 'a\\'");
    note(&c, "SET NAMES utf8mb4");
    note(&c, "CREATE VIEW `w` AS SELECT 1");
    assert_int_equal(c.count, 2);
    assert_null(c.list[0].refused);
    assert_string_equal(c.list[0].settings.client, "latin1");
    assert_string_equal(c.list[0].settings.zone, "+05:45");
    assert_string_equal(c.list[0].d.name.p, "v");
    assert_string_equal(c.list[1].settings.mode, "");
    code_free(&c);
}

/* The later one of a name, and each refused one. */
static void test_which(void **state)
{
    (void)state;
    struct code c = {0};
    note(&c, "CREATE VIEW `v` AS SELECT 1 AS `stand in`");
    note(&c, "CREATE VIEW `w` AS SELECT 1");
    note(&c, "CREATE VIEW `v` AS SELECT 2");
    note(&c, "DROP DATABASE x");
    note(&c, "DROP PACKAGE BODY IF EXISTS `p`");
    note(&c, "SET GLOBAL max_connections=1");
    note(&c, "SET sql_mode='', GLOBAL a=1");
    note(&c, "INSERT INTO x VALUES (1)");
    code_note(&c, "CREATE VIEW `z` AS SELECT 1\0x", 29);
    assert_int_equal(c.count, 7);
    assert_string_equal(c.list[1].d.body, "SELECT 2");
    for (size_t i = 2; i < c.count; i++)
        assert_non_null(c.list[i].refused);
    code_free(&c);
}

static bool taken(const char *client, const char *sql)
{
    struct code c = {0};
    char set[100];
    snprintf(set, sizeof set, "SET character_set_client=%s", client);
    note(&c, set);
    note(&c, sql);
    bool taken = c.count == 1 && !c.list[0].refused;
    code_free(&c);
    return taken;
}

static void test_character_sets(void **state)
{
    (void)state;
    static const char plain[] = "CREATE VIEW `v` AS SELECT 1",
                      text[] = "CREATE VIEW `v` AS SELECT "
                               "'\xe9'",
                      name[] = "CREATE VIEW `\xc3\xa9` AS SELECT 1",
                      blank[] = "CREATE VIEW `o`\xa0.`v` AS SELECT 1",
                      trail[] = "CREATE VIEW `v` AS SELECT '\xbf'";
    static const char *const all[] = {"utf8mb4", "latin1", "gbk", "sjis", "big5", "nothing"};
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_true(taken(all[i], plain));
        assert_true(taken(all[i], name)); /* sent as UTF-8 */
        assert_false(taken(all[i], blank));
    }
    assert_true(taken("latin1", text));
    assert_false(taken("utf8mb4", text));
    assert_false(taken("gbk", trail));
    assert_false(taken("sjis", trail));
    assert_false(taken("ucs2", trail));
}

/* As mysqldump writes them, after the first comment was opened. */
static void test_mysqldump(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *name;
    } rows[] = {
        {"CREATE*/ /*!50017 DEFINER=`r`@`l`*/ /*!50003 TRIGGER `t` BEFORE INSERT ON `x` FOR EACH "
         "ROW BEGIN /* x */ END */",
         "t"},
        {"CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`r`@`l` SQL SECURITY DEFINER */\n"
         "/*!50001 VIEW `v` AS select 1",
         "v"},
        {"CREATE VIEW `w` AS SELECT\n 1 AS `a`*/", "w"},
        {"CREATE PROCEDURE `p`() BEGIN /* x */ /*!50003 SELECT */ 1; END", "p"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct code c = {0};
        code_note_foreign(&c, rows[i].sql, strlen(rows[i].sql));
        assert_int_equal(c.count, 1);
        assert_null(c.list[0].refused);
        assert_string_equal(c.list[0].d.name.p, rows[i].name);
        code_free(&c);
    }
    struct code c = {0};
    static const char *const others[] = {"CREATE TABLE `t` (a int)", "CREATE DATABASE `x`",
                                         "SET @a=1", "INSERT INTO x VALUES (1)"};
    for (size_t i = 0; i < COUNT(others); i++)
        code_note_foreign(&c, others[i], strlen(others[i]));
    assert_int_equal(c.count, 0);
    code_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_use),       cmocka_unit_test(test_settings),
        cmocka_unit_test(test_which),     cmocka_unit_test(test_character_sets),
        cmocka_unit_test(test_mysqldump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
