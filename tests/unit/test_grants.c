/* sql/grants: the lines of SHOW GRANTS, and which of them count for a schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sql/grants.h"

#define ME " TO `k`@`localhost`"

static struct grants read_lines(const char *const *lines)
{
    struct grants g = {0};
    for (; *lines; lines++)
        assert_int_equal(grants_add(&g, *lines), 0);
    return g;
}

#define READ(...) read_lines((const char *const[]){__VA_ARGS__, NULL})

static void test_schema_and_global(void **state)
{
    (void)state;
    struct grants g =
        READ("GRANT USAGE ON *.*" ME " IDENTIFIED BY PASSWORD '*AB GRANT OPTION MAX_'",
             "GRANT SELECT, LOCK TABLES, CREATE TEMPORARY TABLES ON `game\\_1`.*" ME,
             "GRANT REPLICATION CLIENT ON *.*" ME " WITH GRANT OPTION");
    assert_int_equal(g.count, 3);
    assert_int_equal(g.list[0].count, 0); /* USAGE is no right */
    assert_false(g.list[0].option);       /* what stands in quotes does not count */
    assert_false(g.list[0].limited);
    assert_true(grants_have(&g, "game_1", "SELECT"));
    assert_true(grants_have(&g, "game_1", "CREATE TEMPORARY TABLES"));
    assert_false(grants_have(&g, "gameX1", "SELECT"));
    assert_false(grants_have(&g, "game_1", "INSERT"));
    assert_false(grants_have(&g, NULL, "SELECT"));
    assert_true(grants_have(&g, NULL, "BINLOG MONITOR")); /* one spelling */
    assert_true(g.list[2].option);
    assert_string_equal(g.list[1].grantee, "`k`@`localhost`");
    grants_free(&g);
}

/* The server looks at one row of an account only: the most specific one. */
static void test_most_specific(void **state)
{
    (void)state;
    struct grants g = READ("GRANT ALL PRIVILEGES ON `gam%`.*" ME, "GRANT INSERT ON `game_1`.*" ME,
                           "GRANT SELECT ON `game\\_1`.*" ME, "GRANT DROP ON `game%`.*" ME);
    assert_true(grants_have(&g, "game_1", "SELECT"));
    assert_false(grants_have(&g, "game_1", "INSERT"));
    assert_true(grants_have(&g, "gameX1", "INSERT"));
    assert_false(grants_have(&g, "gameX1", "SELECT"));
    assert_false(grants_have(&g, "gameX1", "DROP")); /* as far behind: the first one listed */
    assert_true(grants_have(&g, "games", "DROP"));
    assert_false(grants_have(&g, "games", "ALTER"));
    assert_true(grants_have(&g, "gam", "ALTER"));
    assert_false(grants_have(&g, "ga", "ALTER"));
    assert_ptr_equal(grants_row(&g, "game_1", "`k`@`localhost`"), &g.list[2]);
    assert_null(grants_row(&g, "game_1", "`other`"));
    assert_true(grant_is_wide(&g, &g.list[0]));
    assert_false(grant_is_wide(&g, &g.list[1]));
    grants_free(&g);
}

/* Rights of roles and of PUBLIC come on top. */
static void test_roles(void **state)
{
    (void)state;
    struct grants g =
        READ("GRANT `r 1`" ME, "GRANT SELECT ON `w`.*" ME, "GRANT DROP ON `w`.* TO `r 1`",
             "GRANT DELETE ON `w`.* TO PUBLIC", "SET DEFAULT ROLE `r 1` FOR `k`@`localhost`",
             "GRANT `a`@`%`,`b`@`%` TO `k`@`localhost` WITH ADMIN OPTION",
             "GRANT bare TO 'k'@'localhost'");
    assert_int_equal(g.count, 6);
    assert_string_equal(g.list[5].schema, "bare");
    assert_int_equal(g.list[0].on, GRANT_ROLE);
    assert_string_equal(g.list[0].schema, "`r 1`");
    assert_true(grants_have(&g, "w", "SELECT"));
    assert_true(grants_have(&g, "w", "DROP"));
    assert_true(grants_have(&g, "w", "DELETE"));
    assert_true(g.list[4].option);
    grants_free(&g);
}

static void test_tables_columns_routines(void **state)
{
    (void)state;
    struct grants g =
        READ("GRANT SELECT (`user`, `a``,b)`), INSERT ON `mysql`.`user`" ME,
             "GRANT SELECT ON `mysql`.`proc`" ME, "GRANT EXECUTE ON PROCEDURE `w`.`p``q`" ME,
             "GRANT PROXY ON ''@'%'" ME " WITH GRANT OPTION", "GRANT INSERT ON `a``b`.`t.u`" ME,
             "GRANT EXECUTE ON LIBRARY `w`.`l`" ME, "GRANT EXECUTE ON PACKAGE BODY `w`.`b`" ME);
    assert_int_equal(g.list[0].count, 1);
    assert_string_equal(g.list[0].privileges[0], "INSERT");
    assert_int_equal(g.list[0].partials, 1);
    assert_string_equal(g.list[0].partial[0], "SELECT (`user`, `a``,b)`)");
    assert_false(grants_have_table(&g, "mysql", "user", "SELECT"));
    assert_true(grants_have_table(&g, "mysql", "proc", "SELECT"));
    assert_false(grants_have(&g, "mysql", "SELECT"));
    assert_int_equal(g.list[2].on, GRANT_ROUTINE);
    assert_string_equal(g.list[2].routine, "PROCEDURE ");
    assert_string_equal(g.list[2].object, "p`q");
    assert_int_equal(g.list[3].on, GRANT_PROXY);
    assert_string_equal(g.list[4].schema, "a`b");
    assert_string_equal(g.list[4].object, "t.u");
    assert_string_equal(g.list[5].routine, "LIBRARY ");
    assert_string_equal(g.list[6].routine, "PACKAGE BODY ");
    assert_string_equal(g.list[6].object, "b");
    grants_free(&g);
}

/* MySQL: rights taken away again for one schema, and names without wildcards. */
static void test_partial_revokes(void **state)
{
    (void)state;
    struct grants g =
        READ("GRANT SELECT, INSERT ON *.* TO `k`@`%`", "REVOKE INSERT ON `game_1`.* FROM `k`@`%`");
    g.literal = true;
    assert_true(grants_have(&g, "game_1", "SELECT"));
    assert_false(grants_have(&g, "game_1", "INSERT"));
    assert_true(grants_have(&g, "gameX1", "INSERT"));
    assert_true(grants_have(&g, NULL, "INSERT"));
    grants_free(&g);
}

/* A server with lower_case_table_names compares names without case. */
static void test_any_case(void **state)
{
    (void)state;
    struct grants g = READ("GRANT SELECT ON `my\\_w%`.*" ME, "GRANT INSERT ON `game`.`t`" ME);
    assert_false(grants_have(&g, "MY_WORLD", "SELECT"));
    assert_false(grants_have_table(&g, "GAME", "T", "INSERT"));
    g.any_case = true;
    assert_true(grants_have(&g, "MY_WORLD", "SELECT"));
    assert_false(grants_have(&g, "MYXWORLD", "SELECT"));
    assert_true(grants_have_table(&g, "GAME", "T", "INSERT"));
    grants_free(&g);
}

static void test_limits(void **state)
{
    (void)state;
    struct grants g = READ("GRANT USAGE ON *.*" ME " REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 10");
    assert_true(g.list[0].limited);
    grants_free(&g);
}

static void test_pattern(void **state)
{
    (void)state;
    struct grants g = {0};
    struct buf b = {0};
    grants_pattern(&g, &b, "a_b%c\\d`");
    assert_string_equal(b.p, "a\\_b\\%c\\\\d`");
    buf_clear(&b);
    g.literal = true;
    grants_pattern(&g, &b, "a_b%c");
    assert_string_equal(b.p, "a_b%c");
    buf_free(&b);
}

/* Nothing that a server or somebody else may write brings the reader down. */
static void test_rubbish(void **state)
{
    (void)state;
    static const char *const bad[] = {"GRANT ",
                                      "GRANT SELECT",
                                      "GRANT SELECT ON",
                                      "GRANT SELECT ON `w",
                                      "GRANT SELECT ON `w`",
                                      "GRANT SELECT ON `w`.",
                                      "GRANT SELECT ON `w`.* FROM x",
                                      "GRANT SELECT (`a ON `w`.* TO `k`",
                                      "GRANT SELECT ( ON `w`.* TO `k`",
                                      "GRANT `r",
                                      "GRANT `r` TO `k",
                                      "GRANT PROXY ON 'a TO b"};
    struct grants g = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(grants_add(&g, bad[i]), -1);
    assert_int_equal(grants_add(&g, ""), 0);
    assert_int_equal(grants_add(&g, "nothing of the kind"), 0);
    assert_int_equal(g.count, 0);
    assert_false(grants_have(&g, "w", "SELECT"));
    grants_free(&g);
}

/* Every beginning of a good line is read or refused, never overrun. */
static void test_cut_lines(void **state)
{
    (void)state;
    static const char line[] =
        "GRANT SELECT (`a``b`, c), LOCK TABLES ON `g\\_1`.* TO 'k'@'%' WITH GRANT OPTION MAX_X 1";
    char part[sizeof line];
    struct grants g = {0};
    for (size_t n = 0; n < sizeof line; n++) {
        memcpy(part, line, n);
        part[n] = '\0';
        grants_add(&g, part);
    }
    assert_true(grants_have(&g, "g_1", "LOCK TABLES"));
    grants_free(&g);
}

/* A name for "*" in front of the dot is no grant of any server. */
static void test_every_schema(void **state)
{
    (void)state;
    static const char *const lines[] = {"GRANT SELECT ON *.`z`" ME,
                                        "GRANT EXECUTE ON FUNCTION *.`z`" ME,
                                        "REVOKE SELECT ON *.`z` FROM `k`@`localhost`"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct grants g = {0};
        assert_int_equal(grants_add(&g, lines[i]), -1);
        assert_false(grants_have_table(&g, "w", "z", "SELECT"));
        for (size_t k = 0; k < g.count; k++)
            assert_false(grant_matches(&g, &g.list[k], "w"));
        grants_free(&g);
    }
}

/* Patterns as LIKE reads them; the last ones would take years if each % were tried with each
 * other. */
static void test_like(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool is;
    } cases[] = {
        {"%", "w", true},
        {"%", "", true},
        {"w%", "w", true},
        {"%w", "w", true},
        {"%w", "wx", false},
        {"a%b%c", "a1b2c", true},
        {"a%b%c", "abcbc", true},
        {"a%b%c", "ab", false},
        {"a%bc", "abbbc", true},
        {"%ab_", "ababx", true},
        {"%_", "", false},
        {"__", "w", false},
        {"a\\_b", "a_b", true},
        {"a\\_b", "axb", false},
        {"%\\%%", "a%b", true},
        {"%\\%%", "ab", false},
        {"%\\_1", "w_1_1", true},
        {"a\\", "a\\", true},
        {"a%\\", "abc\\", true},
        {"w", "w1", false},
        {"w1", "w", false},
        {"w_%", "w1", true},
        {"a%%b", "ab", true},
        {"a%_%b", "ab", false},
        {"%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%ab",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
        {"%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *schema = xstrdup(cases[i].pattern);
        struct grant row = {.on = GRANT_SCHEMA, .schema = schema};
        struct grants g = {.list = &row, .count = 1};
        if (grant_matches(&g, &row, cases[i].name) != cases[i].is)
            fail_msg("%s and %s", cases[i].pattern, cases[i].name);
        free(schema);
    }
}

static void test_show(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool shows;
    } cases[] = {
        {"GRANT USAGE ON *.*" ME, false},
        {"GRANT REPLICATION SLAVE, PROCESS ON *.*" ME, false},
        {"GRANT SHOW DATABASES ON *.*" ME, true},
        {"GRANT ALL PRIVILEGES ON *.*" ME, true},
        {"GRANT USAGE ON *.*" ME " WITH GRANT OPTION", true},
        {"GRANT SELECT ON `g_me`.*" ME, true},
        {"GRANT SELECT ON `other`.*" ME, false},
        {"GRANT SELECT (`a`) ON `game`.`t`" ME, true},
        {"GRANT SELECT ON `g_me`.`t`" ME, false},
        {"GRANT EXECUTE ON FUNCTION `game`.`f`" ME, true},
        {"GRANT EXECUTE ON FUNCTION `other`.`f`" ME, false},
        {"GRANT `game`" ME, false},
        {"GRANT PROXY ON 'game'@'%'" ME, false},
        {"REVOKE SELECT ON `game`.* FROM `k`@`localhost`", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grants g = READ(cases[i].line);
        if (grants_show(&g, "game") != cases[i].shows)
            fail_msg("%s", cases[i].line);
        grants_free(&g);
    }
}

/* A GRANT on exactly the schema hides the row that counted before, if that is another one. */
static void test_hidden(void **state)
{
    (void)state;
    struct grants g = READ("GRANT SELECT ON `game_1`.*" ME, "GRANT DROP ON `gam%`.*" ME,
                           "GRANT DELETE ON `exact`.*" ME, "GRANT INSERT ON `game\\_1`.* TO `r`");
    assert_ptr_equal(grants_hidden(&g, "game_1", "`k`@`localhost`"), &g.list[0]);
    assert_ptr_equal(grants_hidden(&g, "game", "`k`@`localhost`"), &g.list[1]);
    assert_null(grants_hidden(&g, "exact", "`k`@`localhost`"));
    assert_null(grants_hidden(&g, "game_1", "`r`"));
    assert_null(grants_hidden(&g, "another", "`k`@`localhost`"));
    g.literal = true; /* _ is no wildcard: the row is the one of this name */
    assert_null(grants_hidden(&g, "game_1", "`k`@`localhost`"));
    g.literal = false;
    /* A row of an account with a wider host counts after each own one, also where it is exact. */
    g.list[2].elsewhere = true;
    assert_ptr_equal(grants_hidden(&g, "exact", "`k`@`localhost`"), &g.list[2]);
    assert_false(grants_have(&g, "exact", "DELETE"));
    assert_int_equal(grants_add(&g, "GRANT ALTER ON `exa%`.*" ME), 0);
    assert_ptr_equal(grants_hidden(&g, "exact", "`k`@`localhost`"), &g.list[4]);
    assert_true(grants_have(&g, "exact", "ALTER"));
    g.any_case = true;
    g.list[2].elsewhere = false;
    assert_null(grants_hidden(&g, "EXACT", "`k`@`localhost`"));
    grants_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_and_global),
        cmocka_unit_test(test_most_specific),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_tables_columns_routines),
        cmocka_unit_test(test_partial_revokes),
        cmocka_unit_test(test_any_case),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_pattern),
        cmocka_unit_test(test_rubbish),
        cmocka_unit_test(test_cut_lines),
        cmocka_unit_test(test_every_schema),
        cmocka_unit_test(test_like),
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
