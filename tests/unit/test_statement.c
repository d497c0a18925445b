/* binlog/statement: what a statement in the binary log means to the world. In doubt it cannot be
 * followed; what has nothing to do with the world's rows must not be in doubt, or each view that an
 * admin makes would end the journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binlog/statement.h"
#include "binlog/statement_scope.h"
#include "binlog/statement_summary.h"

static char planets[] = "planets", odd[] = "a`b c", own[] = "worldkeeper_sentinel";
static struct db_table list[] = {{.name = odd, .memory = true}, /* in the order of their names */
                                 {.name = planets, .memory = true},
                                 {.name = own, .memory = true}};
static const struct db_tables tables = {.list = list, .count = 3};

static const struct statement_world world = {"world", "worldkeeper_sentinel", &tables};

static struct statement judged(const char *from, const char *sql)
{
    struct statement st;
    size_t len = strlen(sql);
    char *exact = malloc(len ? len : 1); /* nothing behind the end */
    assert_non_null(exact);
    memcpy(exact, sql, len);
    statement_judge(&world, from, false, exact, len, &st);
    free(exact);
    return st;
}

static void expect(enum statement_kind want, const char *from, const char *sql)
{
    struct statement st = judged(from, sql);
    if (st.kind != want)
        print_error("%s (in %s): %d, not %d\n", sql, from, (int)st.kind, (int)want);
    assert_int_equal(st.kind, want);
}

/* Expects the same of each statement in an array. */
#define EXPECT_EACH(want, from, list)                                                              \
    for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++)                                     \
    expect(want, from, (list)[i])

static void test_groups(void **state)
{
    (void)state;
    expect(STATEMENT_BEGIN, "world", "BEGIN");
    expect(STATEMENT_BEGIN, "world", " /* x */ begin");
    expect(STATEMENT_BEGIN, "", "START TRANSACTION");
    expect(STATEMENT_END, "world", "COMMIT");
    expect(STATEMENT_END, "world", "ROLLBACK");
    expect(STATEMENT_NONE, "world", "ROLLBACK TO `s`");
    expect(STATEMENT_NONE, "world", "SAVEPOINT `planets`");
    expect(STATEMENT_NONE, "world", "");
    expect(STATEMENT_NONE, "world", "XA PREPARE X'',X'',1");
}

/* What a statement of a transaction decides on, and the hash of what it names. */
static void test_edges(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        enum statement_edge edge;
    } cases[] = {
        {"COMMIT", STATEMENT_NO_EDGE},
        {"ROLLBACK", STATEMENT_ROLLBACK},
        {"SAVEPOINT `s`", STATEMENT_SAVEPOINT},
        {"ROLLBACK TO `s`", STATEMENT_ROLLBACK_TO},
        {"RELEASE SAVEPOINT `s`", STATEMENT_NO_EDGE},
        {"XA START X'78',X'',1", STATEMENT_NO_EDGE},
        {"XA END X'78',X'',1", STATEMENT_XA_END},
        {"XA COMMIT X'78',X'',1", STATEMENT_XA_COMMIT},
        {"XA ROLLBACK X'78',X'',1", STATEMENT_XA_ROLLBACK},
        {"XA", STATEMENT_NO_EDGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(judged("world", cases[i].sql).edge, cases[i].edge);
    uint64_t a = judged("world", "SAVEPOINT `s`").name;
    assert_true(a != 0 && a == judged("world", "ROLLBACK TO `S`").name);
    assert_true(a != judged("world", "ROLLBACK TO `t`").name);
    assert_true(judged("world", "SAVEPOINT `\xc3\xa9`").name == 0);
    uint64_t x = judged("world", "XA END X'78',X'',1").name;
    assert_true(x != 0 && x == judged("world", "XA COMMIT X'78',X'',1").name);
    assert_true(x != judged("world", "XA COMMIT X'78',X'',2").name);
}

/* A drill's tables have the names of the world's, and may draw from its sequences. */
static void test_tables_elsewhere(void **state)
{
    (void)state;
    static const char scratch[] = "worldkeeper_drill_w";
    expect(STATEMENT_NONE, scratch,
           "CREATE TABLE `planets` (`id` int DEFAULT nextval(`world`.`sq`), `s` char(9) DEFAULT "
           "'select') ENGINE=MEMORY");
    expect(STATEMENT_NONE, "world",
           "CREATE TABLE IF NOT EXISTS `worldkeeper_drill_w`.`planets` LIKE `world`.`planets`");
    expect(STATEMENT_NONE, scratch,
           "ALTER TABLE `planets` MODIFY `f` float(7,3) DEFAULT nextval(`world`.`sq`)");
    /* Nobody passes for it by the place where he stands. */
    expect(STATEMENT_CHANGE, scratch, "UPDATE world.planets SET a=1");
    expect(STATEMENT_CHANGE, scratch, "ALTER TABLE world.planets ADD b int");
    expect(STATEMENT_CHANGE, scratch, "DROP TABLE world.planets");
    expect(STATEMENT_CHANGE, scratch, "CREATE TABLE t (a int) SELECT world.f() FROM world.planets");
    expect(STATEMENT_CHANGE, scratch, "CREATE TABLE t /*!50000 SELECT */ * FROM world.planets");
    expect(STATEMENT_CHANGE, scratch, "CREATE TABLE t AS VALUES ROW(world.planets())");
    expect(STATEMENT_CHANGE, scratch,
           "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE world.planets");
    expect(STATEMENT_ARRIVAL, scratch, "ALTER TABLE t RENAME TO world.fresh");
    expect(STATEMENT_CHANGE, "WORLD", "CREATE TABLE planets (a int)");
    expect(STATEMENT_CHANGE, "", "CREATE TABLE planets (a int DEFAULT nextval(world.sq))");
}

/* "verb name name …" */
static void expect_deed(const char *want, const char *from, const char *sql)
{
    struct statement_summary d;
    struct buf b = {0};
    buf_adds(&b, "");
    if (statement_summary(&world, from, sql, strlen(sql), &d)) {
        buf_printf(&b, "%s%s", d.verb, d.schema ? " all" : "");
        for (size_t i = 0; i < d.count && i < STATEMENT_DEED_TABLES; i++)
            buf_printf(&b, " %s", d.tables[i]->name);
    }
    assert_string_equal(b.p, want);
    buf_free(&b);
}

static void test_deeds(void **state)
{
    (void)state;
    expect_deed("dropped planets", "world", "DROP TABLE `planets` /* generated by server */");
    expect_deed("dropped planets a`b c", "",
                "drop table if exists world.planets, x.planets, nope, "
                "`world`.`a``b c`");
    expect_deed("renamed planets", "world", "RENAME TABLE planets TO gone");
    expect_deed("renamed planets a`b c", "world", "RENAME TABLE planets TO x, `a``b c` TO planets");
    expect_deed("altered planets", "world", "ALTER ONLINE TABLE planets DROP COLUMN a, ADD b int");
    expect_deed("altered planets", "world", "CREATE UNIQUE INDEX i ON planets (a)");
    expect_deed("altered planets", "x", "DROP INDEX i ON world.planets");
    expect_deed("replaced planets", "world", "CREATE OR REPLACE TABLE planets (a int)");
    expect_deed("", "world", "CREATE TABLE planets (a int)");
    expect_deed("", "world", "DROP TEMPORARY TABLE planets");
    expect_deed("", "world", "DROP TABLE worldkeeper_sentinel");
    expect_deed("", "x", "DROP TABLE planets");
    expect_deed("", "world", "UPDATE planets SET a=1");
    expect_deed("dropped all", "", "DROP DATABASE `world`");
    expect_deed("dropped all", "x", "/* by hand */ drop schema if exists world");
    expect_deed("", "world", "DROP DATABASE x");
    expect_deed("", "world", "DROP DATABASE IF");
    expect_deed("", "world", "DROP");
    expect_deed("", "world", "DROP TABLE ");
}

/* "altered name", … of each table; "?" where it is not certain. */
static void expect_scope(const char *want, const char *from, const char *sql)
{
    static const char *const deeds[] = {[SCOPE_ALTERED] = "altered",
                                        [SCOPE_CREATED] = "created",
                                        [SCOPE_DROPPED] = "dropped",
                                        [SCOPE_ARRIVED] = "arrived"};
    struct statement_scope s;
    struct buf b = {0};
    buf_adds(&b, "");
    if (!statement_scope(&world, from, sql, strlen(sql), &s))
        buf_adds(&b, "?");
    else
        for (size_t i = 0; i < s.count; i++)
            buf_printf(&b, "%s%s %s%s%s%s", i ? ", " : "", deeds[s.tables[i].deed],
                       s.tables[i].name, s.tables[i].table ? "" : "*",
                       s.may_exist ? ", may exist" : "", s.engine ? ", engine" : "");
    assert_string_equal(b.p, want);
    buf_free(&b);
}

/* A star: not in the list. */
static void test_scopes(void **state)
{
    (void)state;
    expect_scope("altered planets", "world", "ALTER TABLE planets ADD x INT COMMENT 'RENAME TO y'");
    expect_scope("altered a`b c", "other", "alter ignore table if exists `world`.`a``b c` drop x");
    expect_scope("dropped planets, arrived y*", "world", "ALTER TABLE planets ADD x INT, RENAME y");
    expect_scope("dropped planets, arrived y*", "world", "ALTER TABLE planets RENAME TO world.y");
    expect_scope("dropped planets", "world", "ALTER TABLE planets RENAME AS other.y");
    expect_scope("arrived planets", "other", "ALTER TABLE y RENAME = world.planets");
    expect_scope("altered planets", "world",
                 "ALTER TABLE planets RENAME COLUMN a TO b, RENAME KEY c TO d");
    expect_scope(
        "dropped planets, dropped fresh*", "world",
        "DROP TABLE IF EXISTS `planets`, other.t, fresh CASCADE /* generated by server */");
    expect_scope("dropped planets, arrived x*, dropped a`b c, arrived planets", "world",
                 "RENAME TABLE planets WAIT 5 TO x, `a``b c` TO planets");
    expect_scope("created fresh*", "world", "CREATE TABLE fresh (a INT, b INT DEFAULT 'x')");
    expect_scope("created fresh*, may exist", "world",
                 "CREATE TABLE IF NOT EXISTS fresh LIKE planets");
    expect_scope("altered planets, engine", "world", "ALTER TABLE planets ADD x INT, engine=HEAP");
    expect_scope("altered planets", "world", "ALTER TABLE planets COMMENT 'ENGINE=MEMORY'");
    expect_scope("created planets", "world", "CREATE OR REPLACE TABLE planets (a INT)");
    expect_scope("created fresh*", "world", "CREATE TABLE fresh (a INT) START TRANSACTION");
    expect_scope("altered /*!a*", "world", "ALTER TABLE `/*!a` AUTO_INCREMENT=7");
    expect_scope("created `/*M!*", "world", "CREATE TABLE ```/*M!` (a INT) COMMENT '/*!50000 x'");
    /* other tables may be changed as well, or it depends on the server what it is */
    static const char *const doubtful[] = {
        "CREATE TABLE fresh SELECT f() FROM planets",
        "CREATE TABLE fresh (a INT) VALUES (f())",
        "CREATE TABLE fresh AS TABLE planets",
        "CREATE TABLE fresh (a INT) WITH x AS (SELECT 1) SELECT * FROM x",
        "ALTER TABLE planets EXCHANGE PARTITION p WITH TABLE other",
        "ALTER TABLE planets CONVERT PARTITION p TO TABLE other",
        "ALTER TABLE /*!50000 planets */ `a``b c` ADD x INT",
        "ALTER TABLE /*M!100000 planets */ `a``b c` ADD x INT",
        "ALTER TABLE `planets` /*! RENAME y */",
        "ALTER TABLE `a``b c` ADD x INT /*!50000 , RENAME ``` */",
        "ALTER TABLE planets COMMENT 'x\\'`' RENAME TO y COMMENT '`'",
        "ALTER TABLE planets COMMENT \"`\" RENAME TO y COMMENT \"`\"",
        "ALTER TABLE planets COMMENT '\xe9'",
        "ALTER TABLE PLANETS ADD x INT",
        "DROP TABLE planets, PLANETS",
        "DROP TABLE planets fresh",
        "DROP TABLE worldkeeper_sentinel, planets",
        "RENAME TABLE planets TO worldkeeper_tmp_old_000001",
        "RENAME TABLE planets",
        "RENAME TABLE planets TO",
        "RENAME TABLE planets TO x y",
        "DROP DATABASE world",
        "DROP VIEW planets",
        "CREATE INDEX i ON planets (a)",
        "CREATE TEMPORARY TABLE planets (a INT)",
        "UPDATE planets SET a=1",
        "TRUNCATE planets",
        "DROP TABLE a1,a2,a3,a4,a5,a6,a7,a8,a9,b1,b2,b3,b4,b5,b6,b7,b8",
        "",
    };
    for (size_t i = 0; i < sizeof doubtful / sizeof *doubtful; i++)
        expect_scope("?", "world", doubtful[i]);
    expect_scope("?", "other", "DROP TABLE planets");
    expect_scope("?", "WORLD", "DROP TABLE planets");
}

/* The table of an ALTER TABLE that changes nothing but may have changed the engine. */
static void test_engines(void **state)
{
    (void)state;
    static const char *const with[] = {
        "ALTER TABLE planets ENGINE=MEMORY",
        "alter table `world`.planets comment '`/*', engine heap",
        "ALTER /*!50000 TABLE */ planets /*!50000 ENGINE=MEMORY */",
    };
    static const char *const without[] = {
        "ALTER TABLE planets COMMENT 'ENGINE=MEMORY'",
        "ALTER TABLE other.planets ENGINE=MEMORY",
        "CREATE INDEX engine ON planets (a)",
    };
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        expect(STATEMENT_NONE, "world", with[i]);
        assert_ptr_equal(judged("world", with[i]).table, &list[1]);
    }
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        expect(STATEMENT_NONE, "world", without[i]);
        assert_null(judged("world", without[i]).table);
    }
    expect(STATEMENT_ARRIVAL, "world", "ALTER TABLE fresh ENGINE=MEMORY");
}

static void test_emptied(void **state)
{
    (void)state;
    struct statement st = judged("world", "TRUNCATE TABLE planets");
    assert_int_equal(st.kind, STATEMENT_TRUNCATE);
    assert_ptr_equal(st.table, &list[1]);
    st = judged("other", "truncate `world` . `a``b c`");
    assert_int_equal(st.kind, STATEMENT_TRUNCATE);
    assert_ptr_equal(st.table, &list[0]);
    expect(STATEMENT_TRUNCATE, "world", "TRUNCATE planets");
    expect(STATEMENT_TRUNCATE, "world", "TRUNCATE /*c*/ TABLE /*d*/ planets NOWAIT");
    expect(STATEMENT_NONE, "other", "TRUNCATE TABLE planets");
    expect(STATEMENT_NONE, "world", "TRUNCATE TABLE other.planets");
    expect(STATEMENT_NONE, "world", "TRUNCATE TABLE log");
    static const char *const by_server[] = {
        "TRUNCATE TABLE `world`.`planets` /* generated by server for memory table after a restart "
        "*/",
        "TRUNCATE TABLE `world`.`planets` /* generated by server, implicitly emptying in-memory "
        "table */",
        "DELETE FROM `world`.`planets` /* generated by server */",
    };
    EXPECT_EACH(STATEMENT_EMPTIED, "", by_server);
    expect(STATEMENT_NONE, "", "TRUNCATE TABLE `x`.`planets` /* generated by server */");
}

static void test_changes(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "ALTER TABLE planets ADD x INT",
        "alter table `planets` engine=innodb",
        "CREATE TABLE planets (a INT)",
        "CREATE OR REPLACE TABLE planets (a INT)",
        "CREATE TABLE x AS SELECT * FROM planets",
        "DROP TABLE IF EXISTS log, planets",
        "RENAME TABLE planets TO old",
        "DROP DATABASE world",
        "drop schema if exists `world`",
        "CREATE OR REPLACE DATABASE world", /* MariaDB logs nothing else of what it dropped */
        "INSERT INTO planets VALUES (1)",
        "UPDATE view_of_it SET a=1",
        "REPLACE INTO x VALUES (1)",
        "DELETE FROM x",
        "LOAD DATA INFILE 'x' INTO TABLE y",
        "LOCK ME UP planets",
        "SET STATEMENT lock_wait_timeout=5 FOR TRUNCATE TABLE planets",
        "SET STATEMENT max_statement_time=1 FOR ALTER TABLE planets ADD x INT",
        "WITH x AS (SELECT 1) UPDATE v SET a=1",
        "/*!50000 INSERT INTO v VALUES (1) */",
        "TRUNCATE TABLE \"planets\"",
        "TRUNCATE TABLE Planets",
        "TRUNCATE TABLE World.planets",
        "/*!50000 TRUNCATE TABLE planets */",
        "ALTER TABLE `a``b c` ADD x INT",
        "ALTER TABLE \"a`b c\" ADD x INT",
        "alter table PLANETS add x int",
        "DROP TABLE `worldkeeper_tmp_new_000001`, planets",
        "RENAME TABLE planets TO x /* worldkeeper restored  */",
        /* texts hide no clause behind them */
        "ALTER TABLE planets ADD KEY k (a) COMMENT \"(\", DROP PRIMARY KEY, ADD KEY l (a) COMMENT "
        "\")\"",
        "ALTER TABLE planets ADD KEY k (a) COMMENT \"\\\", (\", ADD x INT, ADD KEY l (a) COMMENT "
        "\")\"",
        "ALTER TABLE planets ADD KEY k (a) COMMENT '\\', (', ADD x INT, ADD KEY l (a) COMMENT ')'",
        "ALTER TABLE planets COMMENT \"\\\", COMMENT \", ADD x INT, COMMENT \"\"",
        "ANALYZE UPDATE planets SET a=1",
        "analyze format=json DELETE FROM v",
    };
    EXPECT_EACH(STATEMENT_CHANGE, "world", changes);
    expect(STATEMENT_ARRIVAL, "world", "ALTER TABLE `worldkeeper_tmp_x` RENAME TO fresh");
    expect(STATEMENT_CHANGE, "world", "ALTER TABLE `worldkeeper_tmp_x` RENAME TO planets");
    expect(STATEMENT_CHANGE, "other", "ALTER TABLE world.planets ADD x INT");
    expect(STATEMENT_CHANGE, "other", "INSERT INTO `world`.v VALUES (1)");
    expect(STATEMENT_CHANGE, "other", "DROP DATABASE `world`");
    expect(STATEMENT_CHANGE, "", "CREATE OR REPLACE SCHEMA World CHARACTER SET latin1");
    expect(STATEMENT_CHANGE, "World", "ALTER TABLE planets ADD x INT");
    expect(STATEMENT_CHANGE, "World", "TRUNCATE TABLE planets");
}

/* No comment hides what a statement does. A client chooses the comments, and servers log most
 * statements as they were sent. */
static void test_comments_hide_nothing(void **state)
{
    (void)state;
    static const char *const changes[] = {
        /* not a version comment, for any server */
        "ALTER /*M VIEW */ TABLE planets ADD x INT",
        /* executed by MariaDB, a comment for MySQL */
        "/*M!100100 GRANT */ TRUNCATE TABLE planets",
        "ALTER /*M!100100 VIEW */ TABLE planets ADD x INT",
        "CREATE /*M!100100 OR REPLACE */ DATABASE world",
        "SET /*M!100100 STATEMENT lock_wait_timeout=5 FOR */ TRUNCATE TABLE planets",
        "SET /*!100100 STATEMENT lock_wait_timeout=5 FOR */ TRUNCATE TABLE planets",
        "DROP /*!50000 DATABASE */ world",
        "DROP /*!50000DATABASE*/ world",
    };
    EXPECT_EACH(STATEMENT_CHANGE, "world", changes);
    static const char *const from_elsewhere[] = {
        "ALTER TABLE world /*!50000 .planets */ DROP COLUMN x",
        "ALTER TABLE world /*M!100100 .planets */ DROP COLUMN x",
        "CREATE TABLE t (a INT) /*!50000SELECT*/ * FROM world.planets",
        "DROP /*!50000 DATABASE */ world",
    };
    EXPECT_EACH(STATEMENT_CHANGE, "other", from_elsewhere);
    expect(STATEMENT_ARRIVAL, "other", "ALTER TABLE t /*!50000RENAME TO*/ world.fresh");
    expect(STATEMENT_ARRIVAL, "world", "ALTER TABLE `worldkeeper_tmp_x` /*!50000RENAME TO fresh*/");
    expect(STATEMENT_TRUNCATE, "world", "/*M GRANT */ TRUNCATE TABLE planets");
    /* the table is one of schema `planets` */
    expect(STATEMENT_CHANGE, "world", "TRUNCATE TABLE planets /*!50000 .x */");
    expect(STATEMENT_CHANGE, "world", "CREATE TABLE IF NOT EXISTS planets /*!50000SELECT*/ 1");
    /* what tools write in comments is as harmless as before */
    expect(STATEMENT_NONE, "world", "/*M*/ SAVEPOINT a");
    expect(
        STATEMENT_NONE, "other",
        "CREATE TABLE `planets` (a VARCHAR(9) /*M!100301 COMPRESSED*/ DEFAULT world.f()) /*!50100 "
        "PARTITION BY HASH (a) */");
    expect(STATEMENT_EXISTS, "world",
           "CREATE TABLE IF NOT EXISTS `planets` (a INT) /*!50100 PARTITION BY HASH (a) */");
    /* a version comment that the server did not execute, as it logs it */
    expect(STATEMENT_TRUNCATE, "world", "/* 99999 (* x *) GRANT */ TRUNCATE TABLE planets");
}

/* To servers two dashes begin a comment before any control character, and DEL is one. */
static void test_dashes_before_a_control_character(void **state)
{
    (void)state;
    expect(STATEMENT_CHANGE, "other", "ALTER TABLE --\x7f'\nworld.planets ADD x INT --\x7f'");
    expect(STATEMENT_CHANGE, "world", "ALTER --\x7f VIEW\nTABLE planets ADD x INT");
    expect(STATEMENT_CHANGE, "world", "--\x7f\nALTER TABLE planets ADD x INT");
    expect(STATEMENT_TRUNCATE, "world", "TRUNCATE TABLE --\x7f\nplanets");
    expect(STATEMENT_TRUNCATE, "world", "TRUNCATE TABLE --\x1b\nplanets");
    expect(STATEMENT_NONE, "other", "TRUNCATE t --\x7f world");
    expect(STATEMENT_NONE, "other", "ALTER TABLE planets ADD x INT --\x7f world");
}

/* To MySQL a version comment of MariaDB ends at the first end of a comment, whatever is in it. */
static void test_what_is_in_a_comment_for_mariadb(void **state)
{
    (void)state;
    static const char *const from_elsewhere[] = {
        "/*M! ' */ TRUNCATE TABLE world.planets /*M! ' */",
        "ALTER TABLE /*M!100100 ' */ world.planets ADD x INT /*M!100100 ' */",
        "/*M! # */ ALTER TABLE world.planets ADD x INT",
        "/*M! -- */ RENAME TABLE world.planets TO x",
        "/*M! ` */ INSERT INTO world.v VALUES (1) /*M! ` */",
        "/*M! \" */ INSERT INTO world.v VALUES (1) /*M! \" */",
        "/*M! '\\ */ INSERT INTO world.v VALUES (1)",
    };
    EXPECT_EACH(STATEMENT_CHANGE, "other", from_elsewhere);
    static const char *const changes[] = {
        /* in another character set it is not certain where a comment ends */
        "-- /*M!\n/*M! GRANT */ TRUNCATE TABLE planets /* \xe9 */",
        "/* /*M! */ /*M! GRANT */ ALTER TABLE planets ADD x INT COMMENT '\xe9'",
        "/*M! GRANT ' */ TRUNCATE TABLE planets /*M! ' */",
    };
    EXPECT_EACH(STATEMENT_CHANGE, "world", changes);
    expect(STATEMENT_NONE, "other", "ALTER TABLE planets COMMENT '/*M! world' /*M! */, ADD x INT");
    expect(STATEMENT_NONE, "other", "ALTER TABLE planets ADD x INT -- /*M! world");
    expect(STATEMENT_CHANGE, "other", "/*M! GRANT */ UPDATE v SET a=1");
}

/* As servers do: a version has five or six digits, and a word may follow it without a blank. */
static void test_words_behind_a_version(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "TRUNCATE TABLE /*!50000planets*/",
        "TRUNCATE TABLE /*!50000planets/**/ */",
        "ALTER TABLE /*M!100100planets*/ DROP COLUMN x",
        "DROP TABLE /*!050000planets */",
        "CREATE /*!50000OR*/ REPLACE DATABASE /*!50000world*/",
        "ALTER TABLE /*!planets*/ DROP COLUMN x",
    };
    EXPECT_EACH(STATEMENT_CHANGE, "world", changes);
    expect(STATEMENT_CHANGE, "other", "ALTER TABLE /*!50000world*/.`planets` DROP COLUMN x");
    expect(STATEMENT_CHANGE, "other", "DROP TABLE x, /*M!100100world/**/ */ . planets");
    /* other tables than `planets`: the server's names are 7planets, 1planets and 50planets */
    expect(STATEMENT_ARRIVAL, "world", "ALTER TABLE /*!0500007planets */ ENGINE=MEMORY");
    expect(STATEMENT_ARRIVAL, "world", "ALTER TABLE /*!50planets */ ENGINE=MEMORY");
    expect(STATEMENT_NONE, "world", "DROP TABLE 50000planets");
    expect(STATEMENT_NONE, "world", "DROP TABLE /* !50000planets */ log");
}

/* Each word of a statement in a version comment, and a comment of each kind between any two. */
static void test_each_word_in_a_comment(void **state)
{
    (void)state;
    static const char *const statements[] = {
        "TRUNCATE|TABLE|planets",
        "TRUNCATE|TABLE|world|.|`planets`",
        "ALTER|TABLE|planets|DROP|COLUMN|x",
        "ALTER|TABLE|world|.|planets|ADD|KEY|k|(|x|)|,|DROP|x",
        "ALTER|TABLE|planets|COMMENT|=|'x'|,|MODIFY|x|INT",
        "ALTER|TABLE|planets|RENAME|TO|other|.|y",
        "DROP|TABLE|IF|EXISTS|log|,|planets",
        "RENAME|TABLE|planets|TO|x",
        "DROP|DATABASE|IF|EXISTS|world",
        "CREATE|OR|REPLACE|DATABASE|world",
        "CREATE|OR|REPLACE|TABLE|planets|(|a|INT|)",
        "SET|STATEMENT|lock_wait_timeout=5|FOR|TRUNCATE|TABLE|planets",
    };
    static const struct {
        const char *opens, *closes;
    } around[] = {{"/*!", "*/"},        {"/*!50000", "*/"},          {"/*!050000 ", "*/"},
                  {"/*!50000 ", " */"}, {"/*M!100100", "/* x */*/"}, {"/*M! ", "*/"},
                  {"/*M GRANT */", ""}, {"/* VIEW */", ""},          {"-- VIEW\n", ""},
                  {"/*!999999*/", ""},  {"/*M!999999*/", ""},        {"#GRANT\n", ""}};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        for (size_t k = 0; k < sizeof around / sizeof *around; k++)
            for (size_t n = 0;; n++) {
                struct buf sql = {0};
                size_t at = 0;
                for (const char *s = statements[i]; *s; at++) {
                    size_t len = strcspn(s, "|");
                    buf_printf(&sql, " %s%.*s%s", at == n ? around[k].opens : "", (int)len, s,
                               at == n ? around[k].closes : "");
                    s += len + (s[len] == '|');
                }
                enum statement_kind kind = judged("world", sql.p).kind;
                if (kind != STATEMENT_CHANGE && kind != STATEMENT_TRUNCATE)
                    fail_msg("%s: %d", sql.p, (int)kind);
                buf_free(&sql);
                if (n >= at)
                    break;
            }
}

/* In another character set than UTF-8 a byte from 0x80 may be a blank, and a quote may be the
 * second half of a character. */
static void test_other_character_sets(void **state)
{
    (void)state;
    /* latin1: 0xa0 separates words */
    expect(STATEMENT_CHANGE, "world",
           "ALTER TABLE planets\xa0"
           "MODIFY x TINYINT");
    expect(STATEMENT_CHANGE, "world", "ALTER TABLE\xa0planets ADD user INT");
    expect(STATEMENT_CHANGE, "world", "DROP INDEX \xa0`PRIMARY` ON planets");
    expect(STATEMENT_CHANGE, "world", "CREATE OR REPLACE DATABASE\xa0world");
    expect(STATEMENT_CHANGE, "world", "CREATE OR\xa0REPLACE DATABASE IF\xa0 EXISTS world");
    expect(STATEMENT_CHANGE, "", "DROP DATABASE\xa0/*!50000world*/");
    expect(STATEMENT_CHANGE, "other", "DROP SCHEMA\xa0IF EXISTS world ");
    expect(STATEMENT_CHANGE, "world",
           "SET statement\xa0lock_wait_timeout = 5 FOR TRUNCATE\xa0 TABLE planets");
    expect(STATEMENT_NONE, "world", "DROP DATABASE IF EXISTS l\xf6g");
    expect(STATEMENT_CHANGE, "other", "ALTER TABLE world\xa0.planets ADD x INT");
    expect(STATEMENT_ARRIVAL, "other", "ALTER TABLE t\xa0RENAME TO world.fresh");
    expect(STATEMENT_ARRIVAL, "world", "ALTER TABLE `worldkeeper_tmp_x`\xa0RENAME\xa0TO fresh");
    /* Shift JIS: 0x81 0x60 is a character */
    expect(STATEMENT_CHANGE, "world",
           "ALTER TABLE planets ADD INDEX i\x81`(a), DROP COLUMN b, ADD INDEX j\x81`(c)");
    expect(STATEMENT_NONE, "world", "GRANT SELECT ON planets TO j\xf6rg");
    expect(STATEMENT_NONE, "world", "CREATE PROCEDURE p() DELETE FROM l\xf6g");
    expect(STATEMENT_NONE, "other", "ALTER TABLE t COMMENT 'sch\xf6n'");
}

static void test_nothing(void **state)
{
    (void)state;
    static const char *const nothing[] = {
        "ALTER TABLE `world`.`worldkeeper_sentinel` ADD COLUMN beat BIGINT",
        "CREATE TABLE IF NOT EXISTS `world`.`worldkeeper_sentinel_lease` (id INT)",
        "ALTER TABLE planets ADD KEY k (a) COMMENT \"a (b, c\", ADD UNIQUE KEY l (a) COMMENT 'x)'",
        "ALTER TABLE planets COMMENT \"a, (\", MAX_ROWS=9",
        "CREATE VIEW v AS SELECT * FROM planets",
        "CREATE OR REPLACE ALGORITHM=UNDEFINED DEFINER=`a`@`b` SQL SECURITY DEFINER VIEW `v` AS "
        "SELECT * FROM planets",
        "CREATE DEFINER=`root`@`localhost` TRIGGER t BEFORE INSERT ON planets FOR EACH ROW SET "
        "@a=1",
        "DROP TRIGGER t /* on planets */",
        "# Dummy event",
        "SET PASSWORD FOR x = 'y'",
        "DROP DATABASE IF EXISTS `worldkeeper_drill_world`",
        "DROP DATABASE world_then",
        "CREATE OR REPLACE DATABASE world_then",
        "CREATE DATABASE IF NOT EXISTS world",
        "OPTIMIZE TABLE log",
        "# planets\nCREATE VIEW v AS SELECT * FROM planets",
        "CREATE PROCEDURE p() DELETE FROM planets",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM planets",
        "CREATE TEMPORARY TABLE t LIKE planets",
        "DROP TEMPORARY TABLE IF EXISTS `planets`",
        "GRANT SELECT ON world.planets TO x",
        "ANALYZE TABLE planets",
        "FLUSH TABLES planets",
        "CREATE TABLE `worldkeeper_tmp_new_000001` LIKE `planets`",
        "ALTER TABLE `worldkeeper_tmp_new_000001` AUTO_INCREMENT=7",
        "DROP TABLE IF EXISTS `worldkeeper_tmp_old_000001`, `worldkeeper_tmp_old_planets`",
    };
    EXPECT_EACH(STATEMENT_NONE, "world", nothing);
    expect(STATEMENT_NONE, "other", "ALTER TABLE planets ADD x INT");
    expect(STATEMENT_NONE, "world2", "ALTER TABLE world2.planets ADD x INT");
}

/* What both servers log, by their grammars, and what follows. Each verb that can stand in a log is
 * here, and each kind of thing behind CREATE, ALTER and DROP. Only STATEMENT_CHANGE ends a journal;
 * with an ARRIVAL tables are listed anew, and it goes on where none came. */
static const struct logged {
    const char *sql;
    enum statement_kind kind;
} logged[] = {
    /* rows, as statements */
    {"INSERT INTO planets VALUES (1)", STATEMENT_CHANGE},
    {"REPLACE INTO planets VALUES (1)", STATEMENT_CHANGE},
    {"UPDATE planets SET a=1", STATEMENT_CHANGE},
    {"DELETE FROM planets", STATEMENT_CHANGE},
    {"LOAD DATA INFILE 'x' INTO TABLE planets", STATEMENT_CHANGE},
    {"LOAD XML INFILE 'x' INTO TABLE planets", STATEMENT_CHANGE},
    {"WITH x AS (SELECT 1) DELETE FROM planets", STATEMENT_CHANGE},
    {"SELECT `world`.`f`()", STATEMENT_CHANGE},
    {"CALL p()", STATEMENT_CHANGE},
    {"DO f()", STATEMENT_CHANGE},
    {"VALUES ROW(1)", STATEMENT_CHANGE},
    {"SET STATEMENT max_statement_time=1 FOR UPDATE planets SET a=1", STATEMENT_CHANGE},
    {"ANALYZE UPDATE planets SET a=1", STATEMENT_CHANGE},
    {"IMPORT TABLE FROM 'planets.sdi'", STATEMENT_CHANGE},
    {"BINLOG 'x'", STATEMENT_CHANGE},
    /* rows, all of them */
    {"TRUNCATE TABLE planets", STATEMENT_TRUNCATE},
    {"TRUNCATE planets WAIT 5", STATEMENT_TRUNCATE},
    /* edges */
    {"BEGIN", STATEMENT_BEGIN},
    {"START TRANSACTION", STATEMENT_BEGIN},
    {"COMMIT", STATEMENT_END},
    {"ROLLBACK", STATEMENT_END},
    {"SAVEPOINT a", STATEMENT_NONE},
    {"ROLLBACK TO a", STATEMENT_NONE},
    {"RELEASE SAVEPOINT a", STATEMENT_NONE},
    {"XA END X'61',X'',1", STATEMENT_NONE},
    /* tables */
    {"CREATE TABLE planets (a INT)", STATEMENT_CHANGE},
    {"CREATE OR REPLACE TABLE planets (a INT)", STATEMENT_CHANGE},
    {"CREATE TABLE IF NOT EXISTS planets (a INT)", STATEMENT_EXISTS},
    {"create table if not exists `world`.`a``b c` like x", STATEMENT_EXISTS},
    {"CREATE TABLE IF NOT EXISTS planets SELECT 1 a", STATEMENT_CHANGE},
    {"CREATE TABLE IF NOT EXISTS fresh (a INT)", STATEMENT_ARRIVAL},
    {"CREATE TABLE fresh (a INT COMMENT 'planets')", STATEMENT_ARRIVAL},
    {"CREATE TABLE fresh (a INT) -- planets\n", STATEMENT_ARRIVAL},
    {"CREATE TABLE fresh (a INT) /* planets */ # planets", STATEMENT_ARRIVAL},
    {"CREATE TABLE fresh (a INT DEFAULT '\\') COMMENT 'planets'", STATEMENT_CHANGE},
    {"CREATE TEMPORARY TABLE planets (a INT)", STATEMENT_NONE},
    {"DROP TABLE planets", STATEMENT_CHANGE},
    {"DROP TABLE IF EXISTS fresh", STATEMENT_NONE},
    {"DROP TEMPORARY TABLE planets", STATEMENT_NONE},
    {"RENAME TABLE planets TO x", STATEMENT_CHANGE},
    {"RENAME TABLE x TO y", STATEMENT_ARRIVAL},
    {"ALTER TABLE planets ADD x INT", STATEMENT_CHANGE},
    {"ALTER TABLE planets ADD COLUMN (x INT)", STATEMENT_CHANGE},
    {"ALTER TABLE planets DROP x", STATEMENT_CHANGE},
    {"ALTER TABLE planets DROP COLUMN x", STATEMENT_CHANGE},
    {"ALTER TABLE planets MODIFY x INT COMMENT 'x'", STATEMENT_CHANGE},
    {"ALTER TABLE planets CHANGE x y INT", STATEMENT_CHANGE},
    {"ALTER TABLE planets ALTER x SET DEFAULT 3", STATEMENT_CHANGE},
    {"ALTER TABLE planets RENAME COLUMN x TO y", STATEMENT_CHANGE},
    {"ALTER TABLE planets CONVERT TO CHARACTER SET latin1", STATEMENT_CHANGE},
    {"ALTER TABLE planets AUTO_INCREMENT=9", STATEMENT_CHANGE},
    {"ALTER TABLE planets ENGINE=InnoDB", STATEMENT_CHANGE},
    {"ALTER TABLE planets RENAME TO x", STATEMENT_CHANGE},
    {"ALTER TABLE planets ADD PRIMARY KEY (a)", STATEMENT_CHANGE},
    {"ALTER TABLE planets ADD CONSTRAINT x PRIMARY KEY (a)", STATEMENT_CHANGE},
    {"ALTER TABLE planets DROP PRIMARY KEY", STATEMENT_CHANGE},
    {"ALTER TABLE planets DROP INDEX `primary`", STATEMENT_CHANGE},
    {"ALTER IGNORE TABLE planets ADD UNIQUE (a)", STATEMENT_CHANGE},
    {"ALTER TABLE planets COMMENT='x', ADD y INT", STATEMENT_CHANGE},
    {"ALTER TABLE planets COMMENT='x' ENGINE=InnoDB", STATEMENT_CHANGE},
    {"ALTER TABLE planets COMMENT='a\\', ADD y INT COMMENT 'b'", STATEMENT_CHANGE},
    {"ALTER TABLE planets PARTITION BY HASH (a)", STATEMENT_CHANGE},
    {"ALTER TABLE planets", STATEMENT_NONE},
    {"ALTER TABLE planets COMMENT='it''s a, b (c'", STATEMENT_NONE},
    {"ALTER TABLE planets COMMENT \"x\", LOCK=NONE, ALGORITHM INPLACE;", STATEMENT_NONE},
    {"alter table world.planets wait 5 engine = memory", STATEMENT_NONE},
    {"ALTER TABLE IF EXISTS planets NOWAIT FORCE", STATEMENT_NONE},
    {"ALTER TABLE planets MAX_ROWS=100 MIN_ROWS=1, ROW_FORMAT=FIXED", STATEMENT_NONE},
    {"ALTER TABLE planets DEFAULT CHARACTER SET utf8mb4 COLLATE=utf8mb4_bin", STATEMENT_NONE},
    {"ALTER TABLE planets ADD INDEX i (a,b(3)), DROP KEY j, RENAME INDEX k TO l", STATEMENT_NONE},
    {"ALTER TABLE planets ADD UNIQUE KEY IF NOT EXISTS i (a) USING BTREE", STATEMENT_NONE},
    {"ALTER TABLE planets ALTER INDEX i INVISIBLE", STATEMENT_NONE},
    {"ALTER TABLE planets ENABLE KEYS", STATEMENT_NONE},
    {"/*!40000 ALTER TABLE `planets` DISABLE KEYS */", STATEMENT_NONE},
    {"/*!40000 ALTER TABLE `planets` ADD x INT */", STATEMENT_CHANGE},
    {"CREATE INDEX i ON planets (a)", STATEMENT_NONE},
    {"CREATE OR REPLACE UNIQUE INDEX i ON planets (a)", STATEMENT_NONE},
    {"DROP INDEX i ON planets", STATEMENT_NONE},
    {"DROP INDEX IF EXISTS i ON planets", STATEMENT_NONE},
    {"DROP INDEX `PRIMARY` ON planets", STATEMENT_CHANGE},
    {"ALTER TABLE log ENGINE=MEMORY, ADD INDEX planets (a)", STATEMENT_ARRIVAL},
    {"/*!50000 ALTER TABLE log ENGINE=MEMORY */", STATEMENT_ARRIVAL},
    {"OPTIMIZE TABLE planets", STATEMENT_NONE},
    {"OPTIMIZE TABLES planets, log WAIT 3", STATEMENT_NONE},
    {"REPAIR TABLE planets QUICK", STATEMENT_NONE},
    {"ANALYZE LOCAL TABLE planets", STATEMENT_NONE},
    {"ANALYZE TABLE planets UPDATE HISTOGRAM ON a", STATEMENT_NONE},
    {"CHECK TABLE planets", STATEMENT_NONE},
    {"CHECKSUM TABLE planets", STATEMENT_NONE},
    {"CACHE INDEX planets IN c", STATEMENT_NONE},
    {"FLUSH TABLES planets", STATEMENT_NONE},
    {"FLUSH LOCAL PRIVILEGES", STATEMENT_NONE},
    {"RESET QUERY CACHE", STATEMENT_NONE},
    {"PURGE BINARY LOGS TO 'x'", STATEMENT_NONE},
    /* schemas */
    {"CREATE DATABASE planets", STATEMENT_NONE},
    {"ALTER DATABASE world CHARACTER SET latin1", STATEMENT_ARRIVAL},
    {"ALTER SCHEMA planets COMMENT 'x'", STATEMENT_ARRIVAL},
    {"DROP DATABASE world", STATEMENT_CHANGE},
    {"DROP DATABASE other", STATEMENT_NONE},
    /* accounts */
    {"GRANT SELECT ON planets TO x", STATEMENT_NONE},
    {"REVOKE ALL ON planets FROM x", STATEMENT_NONE},
    {"SET PASSWORD FOR x = 'planets'", STATEMENT_NONE},
    {"SET DEFAULT ROLE planets TO x", STATEMENT_NONE},
    {"CREATE USER planets", STATEMENT_NONE},
    {"ALTER USER planets IDENTIFIED BY 'x'", STATEMENT_NONE},
    {"DROP USER planets", STATEMENT_NONE},
    {"RENAME USER planets TO x", STATEMENT_NONE},
    {"CREATE ROLE planets", STATEMENT_NONE},
    {"DROP ROLE planets", STATEMENT_NONE},
    /* everything else that can be defined */
    {"CREATE VIEW v AS SELECT * FROM planets", STATEMENT_NONE},
    {"ALTER VIEW v AS SELECT * FROM planets", STATEMENT_NONE},
    {"DROP VIEW v", STATEMENT_NONE},
    {"CREATE TRIGGER t AFTER INSERT ON planets FOR EACH ROW DELETE FROM log", STATEMENT_NONE},
    {"DROP TRIGGER t", STATEMENT_NONE},
    {"CREATE PROCEDURE p() DELETE FROM planets", STATEMENT_NONE},
    {"ALTER PROCEDURE p COMMENT 'planets'", STATEMENT_NONE},
    {"DROP PROCEDURE p", STATEMENT_NONE},
    {"CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'planets.so'", STATEMENT_NONE},
    {"CREATE FUNCTION f() RETURNS INT RETURN (SELECT COUNT(*) FROM planets)", STATEMENT_NONE},
    {"ALTER FUNCTION f COMMENT 'planets'", STATEMENT_NONE},
    {"DROP FUNCTION f", STATEMENT_NONE},
    {"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM planets", STATEMENT_NONE},
    {"ALTER EVENT e COMMENT 'planets'", STATEMENT_NONE},
    {"DROP EVENT e", STATEMENT_NONE},
    {"CREATE PACKAGE planets AS END", STATEMENT_NONE},
    {"CREATE PACKAGE BODY planets AS END", STATEMENT_NONE},
    {"DROP PACKAGE planets", STATEMENT_NONE},
    {"CREATE SEQUENCE s", STATEMENT_NONE},
    {"ALTER SEQUENCE s RESTART 5", STATEMENT_NONE},
    {"DROP SEQUENCE s", STATEMENT_NONE},
    {"CREATE LIBRARY planets LANGUAGE JAVASCRIPT AS $$ x $$", STATEMENT_NONE},
    {"DROP LIBRARY planets", STATEMENT_NONE},
    {"CREATE SERVER planets FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')", STATEMENT_NONE},
    {"ALTER SERVER planets OPTIONS (HOST 'x')", STATEMENT_NONE},
    {"DROP SERVER planets", STATEMENT_NONE},
    {"CREATE TABLESPACE planets ADD DATAFILE 'x'", STATEMENT_NONE},
    {"ALTER TABLESPACE planets RENAME TO x", STATEMENT_NONE},
    {"DROP UNDO TABLESPACE planets", STATEMENT_NONE},
    {"CREATE LOGFILE GROUP planets ADD UNDOFILE 'x'", STATEMENT_NONE},
    {"CREATE RESOURCE GROUP planets TYPE=USER", STATEMENT_NONE},
    {"ALTER INSTANCE ROTATE INNODB MASTER KEY", STATEMENT_NONE},
    {"CREATE SPATIAL REFERENCE SYSTEM 4711 NAME 'planets' DEFINITION 'x'", STATEMENT_NONE},
    {"DROP SPATIAL REFERENCE SYSTEM 4711", STATEMENT_NONE},
    {"INSTALL PLUGIN planets SONAME 'x'", STATEMENT_NONE},
    {"UNINSTALL COMPONENT 'planets'", STATEMENT_NONE},
};

static void test_all_that_servers_log(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof logged / sizeof *logged; i++)
        expect(logged[i].kind, "world", logged[i].sql);
    for (size_t i = 0; i < sizeof logged / sizeof *logged; i++)
        if (logged[i].kind == STATEMENT_NONE && !strstr(logged[i].sql, "world"))
            expect(STATEMENT_NONE, "other", logged[i].sql);
}

/* What may change rows counts in any schema: it may do so through a view, a trigger or a routine.
 * Servers log it only where a session does not log row changes. Definitions of other schemas, and
 * what servers log by themselves, mean nothing. */
static const struct logged elsewhere[] = {
    {"INSERT INTO t VALUES (1)", STATEMENT_CHANGE},
    {"UPDATE v SET a=1", STATEMENT_CHANGE},
    {"UPDATE v SET a='world' /* world */", STATEMENT_CHANGE},
    {"/*!50000 UPDATE v SET a=1 */", STATEMENT_CHANGE},
    {"/* x */ delete from v where a=1", STATEMENT_CHANGE},
    {"DELETE FROM `other`.`v`", STATEMENT_CHANGE},
    {"DELETE FROM `other`.`v` WHERE a=1 /* generated by server */", STATEMENT_CHANGE},
    {"DELETE FROM `v` /* generated by server */", STATEMENT_CHANGE},
    {"DELETE `other`.`v` FROM `other`.`v` /* generated by server */", STATEMENT_CHANGE},
    {"REPLACE INTO t VALUES (1)", STATEMENT_CHANGE},
    {"LOAD DATA INFILE 'x' INTO TABLE v", STATEMENT_CHANGE},
    {"SELECT `other`.`f`()", STATEMENT_CHANGE},
    {"(SELECT f())", STATEMENT_CHANGE},
    {"WITH x AS (SELECT 1) UPDATE v SET a=1", STATEMENT_CHANGE},
    {"VALUES ROW(f())", STATEMENT_CHANGE},
    {"DO f()", STATEMENT_CHANGE},
    {"CALL p()", STATEMENT_CHANGE},
    {"EXECUTE s", STATEMENT_CHANGE},
    {"EXECUTE IMMEDIATE 'UPDATE v SET a=1'", STATEMENT_CHANGE},
    {"ANALYZE UPDATE v SET a=1", STATEMENT_CHANGE},
    {"SET STATEMENT max_statement_time=1 FOR UPDATE v SET a=1", STATEMENT_CHANGE},
    {"SET /*!100100 STATEMENT max_statement_time=1 FOR */ CALL p()", STATEMENT_CHANGE},
    {"INSERT INTO mysql.t VALUES (1)", STATEMENT_NONE},
    {"INSERT INTO `mysql`.`rds_heartbeat2` (id, value) VALUES (1,2) ON DUPLICATE KEY UPDATE "
     "value=2",
     STATEMENT_NONE},
    {"DELETE FROM mysql.rds_sysinfo WHERE name='innodb_txn_key'", STATEMENT_NONE},
    {"UPDATE LOW_PRIORITY mysql.t SET a=1", STATEMENT_NONE},
    {"INSERT INTO mysql.t SELECT game.f()", STATEMENT_CHANGE},
    {"UPDATE mysql.t, purse SET v=1", STATEMENT_CHANGE},
    {"UPDATE mysql.t JOIN purse SET v=1", STATEMENT_CHANGE},
    {"DELETE purse FROM mysql.t JOIN purse", STATEMENT_CHANGE},
    {"DELETE FROM purse USING mysql.t JOIN purse", STATEMENT_CHANGE},
    {"INSERT INTO mysql (a) VALUES (1)", STATEMENT_CHANGE},
    {"INSERT INTO /*!50000 mysql*/.t VALUES (1)", STATEMENT_CHANGE},
    {"CREATE TABLE t SELECT f() a", STATEMENT_CHANGE},
    {"CREATE OR REPLACE TABLE t (a INT) WITH q AS (SELECT f()) SELECT * FROM q", STATEMENT_CHANGE},
    {"CREATE TABLE IF NOT EXISTS t AS VALUES (f())", STATEMENT_CHANGE},
    {"CREATE TEMPORARY TABLE t /*!50000 SELECT */ f()", STATEMENT_CHANGE},
    /* emptied by a restart of the server */
    {"TRUNCATE TABLE `other`.`t` /* generated by server for memory table after a restart */",
     STATEMENT_NONE},
    {"TRUNCATE TABLE `other`.`t` /* generated by server, implicitly emptying in-memory table */",
     STATEMENT_NONE},
    {"TRUNCATE TABLE `other`.`t`", STATEMENT_NONE},
    {"DELETE FROM `other`.`t` /* generated by server, implicitly emptying in-memory table */",
     STATEMENT_NONE},
    /* definitions, also as programs that dump write them */
    {"CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL\n)", STATEMENT_NONE},
    {"CREATE TABLE `t` (\n  `a` int NOT NULL DEFAULT '0'\n) START TRANSACTION", STATEMENT_NONE},
    {"CREATE OR REPLACE TABLE `t` (\n  `a` int(11) DEFAULT NULL\n)", STATEMENT_NONE},
    {"CREATE TABLE t (`select` INT COMMENT \"select\", \"SELECT\" INT) COMMENT 'values ('",
     STATEMENT_NONE},
    {"CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1), PARTITION q "
     "VALUES IN (2))",
     STATEMENT_NONE},
    {"CREATE TABLE t LIKE u", STATEMENT_NONE},
    {"CREATE TEMPORARY TABLE t (a INT)", STATEMENT_NONE},
    {"DROP TABLE IF EXISTS `t` /* generated by server */", STATEMENT_NONE},
    {"DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", STATEMENT_NONE},
    {"/*!40000 DROP DATABASE IF EXISTS `t`*/", STATEMENT_NONE},
    {"/*!50001 CREATE ALGORITHM=UNDEFINED */ /*!50001 VIEW `v` AS SELECT 1 */", STATEMENT_NONE},
    {"/*!50003 CREATE*/ /*!50003 TRIGGER `t` BEFORE INSERT ON u FOR EACH ROW SELECT f()*/",
     STATEMENT_NONE},
    {"/*!40000 ALTER TABLE `t` ENABLE KEYS */", STATEMENT_NONE},
    {"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `t`", STATEMENT_NONE},
    {"ALTER TABLE t ADD x INT", STATEMENT_NONE},
    {"RENAME TABLE t TO u", STATEMENT_NONE},
    {"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t", STATEMENT_NONE},
    {"CREATE FUNCTION f() RETURNS INT RETURN (SELECT COUNT(*) FROM t)", STATEMENT_NONE},
    /* the rest */
    {"XA END X'61',X'',1", STATEMENT_NONE},
    {"XA PREPARE X'61',X'',1", STATEMENT_NONE},
    {"SAVEPOINT a", STATEMENT_NONE},
    {"ALTER USER 'x'@'%' IDENTIFIED WITH 'y' AS 'z'", STATEMENT_NONE},
    {"SET PASSWORD FOR 'x'@'%' = 'y'", STATEMENT_NONE},
    {"SET DEFAULT ROLE x FOR y", STATEMENT_NONE},
    {"GRANT SELECT ON t TO x", STATEMENT_NONE},
    {"ANALYZE TABLE t", STATEMENT_NONE},
    {"OPTIMIZE NO_WRITE_TO_BINLOG TABLE t", STATEMENT_NONE},
    {"FLUSH TABLES", STATEMENT_NONE},
    {"# Dummy event replacing event type 160 that slave cannot handle.", STATEMENT_NONE},
};

static void test_other_schemas(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        expect(elsewhere[i].kind, "other", elsewhere[i].sql);
        expect(elsewhere[i].kind, "", elsewhere[i].sql);
    }
    expect(STATEMENT_NONE, "mysql", "INSERT INTO rds_heartbeat2 (id, value) VALUES (1,2)");
}

/* Older servers write no comment when a restart has emptied a table. Then the event shows whose
 * statement it is. */
static void test_emptied_without_a_comment(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        enum statement_kind kind;
    } cases[] = {
        {"DELETE FROM `world`.`planets`", STATEMENT_EMPTIED},
        {"TRUNCATE TABLE `world`.`planets`", STATEMENT_EMPTIED},
        {"DELETE FROM `other`.`planets`", STATEMENT_NONE},
        {"TRUNCATE TABLE `other`.`planets`", STATEMENT_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct statement st;
        statement_judge(&world, "other", true, cases[i].sql, strlen(cases[i].sql), &st);
        assert_int_equal(st.kind, cases[i].kind);
    }
}

/* Only what is a name names something. */
static void test_names_in_texts(void **state)
{
    (void)state;
    expect(STATEMENT_NONE, "other", "ALTER TABLE planets ADD a CHAR(9) DEFAULT 'world'");
    expect(STATEMENT_NONE, "other", "ALTER TABLE planets ADD a INT /* for world */");
    expect(STATEMENT_NONE, "other", "-- world\nALTER TABLE planets ADD a INT");
    expect(STATEMENT_CHANGE, "other", "RENAME TABLE t TO `x\\`, world.planets TO `");
    expect(STATEMENT_CHANGE, "other", "ALTER TABLE \"world\".planets ADD a INT");
    expect(STATEMENT_CHANGE, "other", "DROP TABLE t, /*!50000 world.planets */");
    expect(STATEMENT_CHANGE, "world", "--1 UPDATE t SET a=1");
}

/* lower_case_table_names is not 0. */
/* A statement may be as long as a packet: each byte is looked at a few times, or this does not
 * end. */
static void test_long(void **state)
{
    (void)state;
    static const char *const rows[] = {"(1,2),", "('a'),", "(\"b\"),"};
    enum { LENGTH = 1 << 20 };
    char *sql = malloc(LENGTH + 64);
    assert_non_null(sql);
    for (size_t i = 0; i < 3; i++) {
        size_t n = (size_t)snprintf(sql, 64, "DROP TABLE elsewhere,");
        while (n < LENGTH)
            n += (size_t)snprintf(sql + n, 64, "%s", rows[i]);
        expect(STATEMENT_NONE, "other", sql);
        expect(STATEMENT_NONE, "world", sql);
    }
    free(sql);
}

static void test_any_case(void **state)
{
    (void)state;
    static char house[] = "geb\xc3\xa4ude_\xd0\xb6\xcf\x89", plain[] = "planets";
    struct db_table two[] = {{.name = house, .memory = true}, {.name = plain, .memory = true}};
    const struct db_tables folded = {.list = two, .count = 2, .any_case = true};
    const struct statement_world w = {"g\xc3\xb6", "worldkeeper_sentinel", &folded};
    static const struct {
        const char *from, *sql;
        int table; /* -1: another one; -2: in doubt */
    } cases[] = {
        {"g\xc3\xb6", "TRUNCATE PLANETS", 1},
        {"g\xc3\xb6", "TRUNCATE TABLE G\xc3\x96.Planets", 1},
        {"x", "TRUNCATE `G\xc3\x96`.`Geb\xc3\x84ude_\xd0\x96\xce\xa9`", 0},
        {"g\xc3\xb6", "TRUNCATE GEB\xc3\x84UDE_\xd0\xb6\xcf\x89", 0},
        {"g\xc3\xb6", "TRUNCATE GEB\xc4UDE", -2},
        {"g\xc3\xb6", "TRUNCATE other.PLANETS", -1},
        {"x", "TRUNCATE PLANETS", -1},
        {"g\xc3\xb6", "TRUNCATE plane", -1},
        {"x", "RENAME TABLE G\xc3\x96.planets TO x.planets", -2},
        {"x", "ALTER TABLE `G\xc3\x96`.planets ADD x INT", -2},
        {"x", "INSERT INTO G\xc3\x96.v VALUES (1)", -2},
        {"x", "DROP DATABASE G\xc3\x96", -2},
        {"x", "CREATE OR REPLACE DATABASE G\xc3\x96", -2},
        {"x", "ALTER TABLE G\xc3\x84.planets ADD x INT", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct statement st;
        statement_judge(&w, cases[i].from, false, cases[i].sql, strlen(cases[i].sql), &st);
        if (cases[i].table < 0) {
            assert_int_equal(st.kind, cases[i].table == -1 ? STATEMENT_NONE : STATEMENT_CHANGE);
            continue;
        }
        if (st.kind != STATEMENT_TRUNCATE)
            print_error("%s\n", cases[i].sql);
        assert_int_equal(st.kind, STATEMENT_TRUNCATE);
        assert_ptr_equal(st.table, &two[cases[i].table]);
    }
}

static void test_arrivals(void **state)
{
    (void)state;
    expect(STATEMENT_ARRIVAL, "world", "RENAME TABLE other.x TO x");
    expect(STATEMENT_ARRIVAL, "other", "RENAME TABLE x TO world.x");
    expect(STATEMENT_ARRIVAL, "world", "ALTER TABLE log ENGINE=MEMORY");
    expect(STATEMENT_ARRIVAL, "other", "alter table x rename to `world`.x");
    expect(STATEMENT_ARRIVAL, "world", "CREATE TABLE planets2 (a INT)");
    expect(STATEMENT_NONE, "world", "CREATE TEMPORARY TABLE x (a INT)");
    expect(STATEMENT_NONE, "other", "RENAME TABLE x TO y");
    expect(STATEMENT_NONE, "other", "ALTER TABLE x ENGINE=MEMORY");
    expect(STATEMENT_NONE, "world", "ALTER VIEW v AS SELECT 1");
    expect(STATEMENT_NONE, "world", "RENAME USER a TO b");
}

static void expect_mark(const char *verb, const struct statement_mark *m, const char *dump)
{
    char text[STATEMENT_MARK_MAX], sql[1024];
    statement_mark(m, text);
    snprintf(sql, sizeof sql, "%s %s", verb, text);
    struct statement st = judged("world", sql);
    assert_int_equal(st.kind, STATEMENT_SWAP);
    assert_string_equal(st.mark.dump, dump);
    assert_string_equal(st.mark.nonce, m->nonce);
    assert_string_equal(st.mark.upto.file, m->upto.file);
    assert_int_equal(st.mark.upto.pos, m->upto.pos);
    /* cut anywhere nobody vouches for it, and a RENAME is one of somebody */
    bool renames = strncmp(verb, "RENAME", 6) == 0;
    size_t whole = strlen(sql);
    for (size_t n = strlen(verb); n < whole; n++) {
        sql[n] = '\0';
        assert_int_equal(judged("world", sql).kind, renames ? STATEMENT_CHANGE : STATEMENT_NONE);
        sql[n] = ' ';
    }
}

static void test_marks(void **state)
{
    (void)state;
    static const char renames[] = "RENAME TABLE `planets` TO `worldkeeper_tmp_old_000000`";
    static const char name[] = "world-000001-00000002-20261121T120000Z";
    static const char *const files[] = {"mariadb-bin.000003", ""};
    for (size_t i = 0; i < 2; i++) {
        struct statement_mark m = {.nonce = "0123456789abcdef0123456789abcdef",
                                   .upto = {.pos = i ? 0 : UINT64_C(5000000000)}};
        snprintf(m.dump, sizeof m.dump, "%s", name);
        snprintf(m.upto.file, sizeof m.upto.file, "%s", files[i]);
        expect_mark(renames, &m, name);
        expect_mark(STATEMENT_MARK_CARRIER, &m, name);
        snprintf(m.dump, sizeof m.dump, "%s", "my old.sql */ DROP TABLE y /*");
        expect_mark(renames, &m, "(file)");
    }
}

/* The log has bytes of whatever character set the sender had; ours are UTF-8. */
static void test_other_letters(void **state)
{
    (void)state;
    static char house[] = "Geb\xc3\xa4ude";
    struct db_table one = {.name = house, .memory = true};
    const struct db_tables german = {.list = &one, .count = 1};
    const struct statement_world w = {"world", "worldkeeper_sentinel", &german};
    static const char *const changes[] = {
        "TRUNCATE TABLE Geb\xe4ude", "ALTER TABLE `Geb\xe4ude` ADD x INT",
        "RENAME TABLE `Geb\xe4ude` TO x", "TRUNCATE TABLE `Geb\xe4ude`"};
    struct statement st;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        statement_judge(&w, "world", false, changes[i], strlen(changes[i]), &st);
        assert_int_equal(st.kind, STATEMENT_CHANGE);
    }
    static const char exact[] = "TRUNCATE TABLE `Geb\xc3\xa4ude`";
    statement_judge(&w, "world", false, exact, sizeof exact - 1, &st);
    assert_int_equal(st.kind, STATEMENT_TRUNCATE);
    static const char *const ours[] = {
        "CREATE TABLE IF NOT EXISTS `w\xc3\xb6rt`.`worldkeeper_sentinel_lease` (id INT)",
        "ALTER TABLE `worldkeeper_sentinel` COMMENT '\xc3\xb6'",
        "DROP TABLE IF EXISTS `w\xc3\xb6rt`.`worldkeeper_tmp_new_000000`, `worldkeeper_sentinel`"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        statement_judge(&w, "world", false, ours[i], strlen(ours[i]), &st);
        assert_int_equal(st.kind, STATEMENT_NONE);
    }
}

/* Named by somebody who is in another schema. */
static void test_odd_names_of_the_schema(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *sql;
        enum statement_kind kind;
    } cases[] = {
        {"wo`rld", "ALTER TABLE `wo``rld`.planets ADD x INT", STATEMENT_CHANGE},
        {"wo`rld", "INSERT INTO `wo``rld`.v VALUES (1)", STATEMENT_CHANGE},
        {"wo`rld", "TRUNCATE TABLE `wo``rld`.planets", STATEMENT_TRUNCATE},
        {"wo`rld", "ALTER TABLE `world`.planets ADD x INT", STATEMENT_NONE},
        {"w\xc3\xb6rld", "ALTER TABLE `w\xf6rld`.planets ADD x INT", STATEMENT_CHANGE},
        {"w\xc3\xb6rld", "DELETE FROM w\xf6rld.v", STATEMENT_CHANGE},
        {"w\xc3\xb6rld", "TRUNCATE TABLE w\xf6rld.planets", STATEMENT_CHANGE},
        {"w\xc3\xb6rld", "DROP DATABASE `w\xf6rld`", STATEMENT_CHANGE},
        {"w\xc3\xb6rld", "TRUNCATE TABLE `w\xc3\xb6rld`.planets", STATEMENT_TRUNCATE},
        {"w\xc3\xb6rld", "TRUNCATE TABLE other.planets", STATEMENT_NONE},
        {"w\xc3\xb6rld", "TRUNCATE TABLE `w\xc3\xb6rld2`.planets", STATEMENT_NONE},
        {"w\xc3\xb6rld", "ALTER TABLE `w\xc3\xb6rld2`.planets ADD x INT", STATEMENT_NONE},
        {"w\xc3\xb6rld", "TRUNCATE TABLE planets", STATEMENT_NONE},
        {"w\xc3\xb6rld", "ALTER TABLE \"w\xf6rld\".planets ADD x INT", STATEMENT_CHANGE},
        {"w\xc3\xb6rld", "DELETE FROM `w\xf6rld`.`v`", STATEMENT_CHANGE},
        /* letters of others alone are no schema of ours */
        {"w\xc3\xb6rld", "CREATE TABLE planets (a ENUM('\xc5\x90','b.c'))", STATEMENT_NONE},
        {"w\xc3\xb6rld", "ALTER TABLE planets ADD a ENUM('a\xc3\xb6. b','\xc3\xb6.')",
         STATEMENT_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct statement_world w = {cases[i].schema, "worldkeeper_sentinel", &tables};
        struct statement st;
        statement_judge(&w, "\xc3\xb6ther", false, cases[i].sql, strlen(cases[i].sql), &st);
        if (st.kind != cases[i].kind)
            print_error("%s: %d, not %d\n", cases[i].sql, (int)st.kind, (int)cases[i].kind);
        assert_int_equal(st.kind, cases[i].kind);
    }
}

static void test_brief(void **state)
{
    (void)state;
    char out[16];
    statement_brief("ALTER\nTABLE", 11, out, sizeof out);
    assert_string_equal(out, "ALTER TABLE");
    statement_brief("ALTER TABLE planets ADD x", 25, out, sizeof out);
    assert_string_equal(out, "ALTER TABLE ...");
}

/* What somebody wrote into a statement is nobody else's affair. */
static void test_brief_has_no_literals(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"UPDATE player SET pw='secret' WHERE id=4711", "UPDATE player..."},
        {"insert into `pl``ayer` (a) values ('secret')", "insert into `pl``ayer`..."},
        {"INSERT INTO w.player VALUES (4711)", "INSERT INTO w.player..."},
        {"DELETE a, b FROM a JOIN b WHERE 1", "DELETE a, b FROM a JOIN b..."},
        {"/* secret */ UPDATE /* secret */ player -- secret\nSET a=1", "UPDATE player..."},
        {"LOAD DATA INFILE 'secret' INTO TABLE t", "LOAD DATA INFILE..."},
        {"SELECT `w`.`f`('secret')", "SELECT `w`.`f`..."},
        {"CALL p(4711)", "CALL p..."},
        {"SET PASSWORD FOR x = 'secret'", "SET PASSWORD FOR x..."},
        {"ALTER USER x IDENTIFIED BY 'secret'", "ALTER USER x IDENTIFIED BY..."},
        {"CREATE SERVER s OPTIONS (PASSWORD 'secret')", "CREATE SERVER s OPTIONS..."},
        {"ALTER TABLE t ADD a CHAR(9) DEFAULT 'sec''ret' COMMENT \"secret\"",
         "ALTER TABLE t ADD a CHAR(9) DEFAULT ?? COMMENT ?"},
        {"ALTER TABLE t ADD a CHAR(9) DEFAULT 'sec\\'ret'",
         "ALTER TABLE t ADD a CHAR(9) DEFAULT..."},
        {"CREATE TABLE t AS SELECT 'secret'", "CREATE TABLE t..."},
        {"/*!50000 DROP TABLE t */", "DROP TABLE t"},
        {"'secret", "..."},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[120];
        statement_brief(cases[i][0], strlen(cases[i][0]), out, sizeof out);
        assert_string_equal(out, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_tables_elsewhere),
        cmocka_unit_test(test_deeds),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_emptied),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_comments_hide_nothing),
        cmocka_unit_test(test_dashes_before_a_control_character),
        cmocka_unit_test(test_what_is_in_a_comment_for_mariadb),
        cmocka_unit_test(test_words_behind_a_version),
        cmocka_unit_test(test_each_word_in_a_comment),
        cmocka_unit_test(test_other_character_sets),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_all_that_servers_log),
        cmocka_unit_test(test_other_schemas),
        cmocka_unit_test(test_emptied_without_a_comment),
        cmocka_unit_test(test_names_in_texts),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_any_case),
        cmocka_unit_test(test_brief_has_no_literals),
        cmocka_unit_test(test_arrivals),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_other_letters),
        cmocka_unit_test(test_brief),
        cmocka_unit_test(test_odd_names_of_the_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
