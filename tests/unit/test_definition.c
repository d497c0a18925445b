/* sql/definition: headers of views, routines, triggers and events, parsed and written again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sql/definition.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct definition_modes usual = {0}, ansi = {.ansi_quotes = true},
                                     oracle = {.ansi_quotes = true, .oracle = true},
                                     bytes = {.bytes = true};

/* NULL: refused. */
static void expect(const char *sql, const struct definition_modes *modes, const char *want)
{
    struct definition d;
    struct buf out = {0};
    const char *why = NULL;
    bool good = definition_read(sql, strlen(sql), modes, &d, &why);
    if (good != (want != NULL))
        fail_msg("%s: %s", sql, good ? "read" : why ? why : "refused without a reason");
    if (good) {
        definition_write(&d, true, &out);
        assert_string_equal(out.p, want);
    } else {
        assert_non_null(why);
    }
    buf_free(&out);
    definition_free(&d);
}

static void test_same(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "CREATE VIEW `v` AS SELECT 1 AS `a`, 1 AS `b`",
        "CREATE ALGORITHM=UNDEFINED DEFINER=`ro``ot`@`%` SQL SECURITY DEFINER VIEW `v` AS select 1",
        "CREATE SQL SECURITY INVOKER JSON RELATIONAL DUALITY VIEW `v` AS SELECT 1",
        "CREATE DEFINER=`r`@`l` TRIGGER `t` BEFORE INSERT ON `x` FOR EACH ROW SET NEW.a=1",
        "CREATE TRIGGER `t` AFTER DELETE ON `x` FOR EACH ROW FOLLOWS `u` SET @a=1",
        "CREATE TRIGGER `t` AFTER DELETE OR UPDATE OF `a```, `b` OR INSERT ON `x` FOR EACH ROW x",
        "CREATE DEFINER=`r`@`l` EVENT `e` ON SCHEDULE EVERY '1:30' HOUR_MINUTE STARTS '2037-01-01' "
        "ENDS '2038-01-01' ON COMPLETION NOT PRESERVE DISABLE COMMENT 'it''s' DO SELECT 1",
        "CREATE EVENT `e` ON SCHEDULE AT '2037-01-01 00:00:00' DISABLE DO begin end",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        expect(texts[i], &usual, texts[i]);
}

static void test_written(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *want;
    } texts[] = {
        {"CREATE OR REPLACE VIEW v (`a`,b) AS /* x */ (SELECT 1) -- end",
         "CREATE VIEW `v` (`a`,b) AS (SELECT 1) -- end"},
        {"create definer=CURRENT_USER() /* x */ procedure IF NOT EXISTS p(a /* y */ INT,\n b "
         "VARCHAR(20)) select 1",
         "CREATE PROCEDURE `p` (a INT,\n b VARCHAR(20)) select 1"},
        {"CREATE DEFINER='a'@'b' FUNCTION `f`(a int) RETURNS varchar(9) CHARSET utf8mb4 COLLATE "
         "utf8mb4_bin\n    READS SQL DATA\n    SQL SECURITY INVOKER\n    COMMENT 'c'\nBEGIN RETURN "
         "1; END",
         "CREATE DEFINER=`a`@`b` FUNCTION `f` (a int) RETURNS varchar(9) CHARSET utf8mb4 COLLATE "
         "utf8mb4_bin\n    READS SQL DATA\n    SQL SECURITY INVOKER\n    COMMENT 'c' BEGIN RETURN "
         "1; "
         "END"},
        {"CREATE AGGREGATE FUNCTION `f`(a int) RETURNS int(11) unsigned RETURN 1",
         "CREATE AGGREGATE FUNCTION `f` (a int) RETURNS int(11) unsigned RETURN 1"},
        {"CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY ON COMPLETION PRESERVE DISABLE ON SLAVE DO x",
         "CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY ON COMPLETION PRESERVE DISABLE DO x"},
        {"CREATE TRIGGER `t` AFTER INSERT,UPDATE ON `x` FOR EACH ROW x",
         "CREATE TRIGGER `t` AFTER INSERT OR UPDATE ON `x` FOR EACH ROW x"},
        {"CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY ENABLE DO SELECT 1",
         "CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1"},
        {"CREATE LIBRARY `l` LANGUAGE JAVASCRIPT AS $$ it's; `/* $$ ",
         "CREATE LIBRARY `l` LANGUAGE JAVASCRIPT AS $$ it's; `/* $$ "},
        {"CREATE FUNCTION `f`() RETURNS int LANGUAGE JAVASCRIPT USING (`l` AS m) AS $x$ '$$ $x$",
         "CREATE FUNCTION `f` () RETURNS int LANGUAGE JAVASCRIPT USING (`l` AS m) AS $x$ '$$ $x$"},
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        expect(texts[i].sql, &usual, texts[i].want);
    expect("CREATE DEFINER=\"root\"@\"localhost\" FUNCTION \"f\"\"x\"(a int) RETURNS int\nRETURN 1",
           &ansi, "CREATE DEFINER=`root`@`localhost` FUNCTION `f\"x` (a int) RETURNS int RETURN 1");
    expect("CREATE FUNCTION \"f\" RETURN int AS BEGIN RETURN 1; END", &oracle,
           "CREATE FUNCTION `f` RETURN int AS BEGIN RETURN 1; END");
    expect("CREATE PACKAGE BODY \"p\" AS FUNCTION f RETURN INT; END", &oracle,
           "CREATE PACKAGE BODY `p` AS FUNCTION f RETURN INT; END");
}

/* Events as information_schema, pending.json and statements have them. */
static void test_events(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
        unsigned bits;
    } lists[] = {
        {"INSERT", "INSERT", 1},
        {"UPDATE", "UPDATE", 2},
        {"INSERT,UPDATE,DELETE", "INSERT OR UPDATE OR DELETE", 7},
        {"update of a,`b, DELETE` or Delete", "UPDATE OF `a`, `b, DELETE` OR DELETE", 6},
        {"", NULL, 0},
        {"INSERT,", NULL, 0},
        {"UPDATE OF `a`; DROP", NULL, 0},
        {"UPDATE OF `a` ON", NULL, 0},
        {"UPDATE OF `a", NULL, 0},
        {"TRUNCATE", NULL, 0},
    };
    for (size_t i = 0; i < COUNT(lists); i++) {
        struct buf out = {0};
        assert_int_equal(definition_events(lists[i].text, &out), lists[i].bits);
        if (lists[i].bits)
            assert_string_equal(out.p, lists[i].want);
        buf_free(&out);
    }
}

/* Statements as MariaDB 11.8 shows them, and with several events as the manual of MariaDB 12 has
 * them. */
static void test_events_of_a_trigger(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *want;
        bool ansi;
        unsigned bits;
    } texts[] = {
        {"CREATE DEFINER=`root`@`localhost` TRIGGER /* hm */ g.t2 /* x */ AFTER\n UPDATE OF "
         "`\xc3\xa9` -- c\n ON g.p FOR EACH ROW INSERT INTO n VALUES (2)",
         "UPDATE OF `\xc3\xa9`", false, 2},
        {"CREATE DEFINER=\"BEFORE INSERT\"@\"%\" TRIGGER t4 BEFORE UPDATE OF c, \"C\"\"\" ON "
         "\"p\" FOR EACH ROW SET NEW.c=1",
         "UPDATE OF `c`, `C\"`", true, 2},
        {"CREATE DEFINER=`r`@`l` TRIGGER after AFTER UPDATE ON p FOR EACH ROW SET @a='\xff'",
         "UPDATE", false, 2},
        {"CREATE DEFINER=`r`@`l` TRIGGER t1_b_any BEFORE INSERT OR UPDATE OF a, b OR DELETE ON t1 "
         "FOR EACH ROW BEGIN IF INSERTING THEN SET @a=1; END IF; END",
         "INSERT OR UPDATE OF `a`, `b` OR DELETE", false, 7},
        {"CREATE DEFINER=`r`@`l` TRIGGER t BEFORE UPDATE OF a WHEN b ON p FOR EACH ROW x", NULL,
         false, 0},
        {"CREATE DEFINER=`r`@`l` TRIGGER t INSTEAD OF UPDATE ON p FOR EACH ROW x", NULL, false, 0},
        {"", NULL, false, 0},
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct buf out = {0};
        assert_int_equal(definition_trigger_events(texts[i].sql, texts[i].ansi, &out),
                         texts[i].bits);
        if (texts[i].bits)
            assert_string_equal(out.p, texts[i].want);
        buf_free(&out);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "CREATE",
        "CREATE USER me",
        "CREATE TABLE `t` (`a` int)",
        "CREATE DATABASE `x`",
        "CREATE SERVER `x` FOREIGN DATA WRAPPER mysql",
        "CREATE DEFINER=`a` USER x",
        "CREATE DEFINER=VIEW TABLE `x`",
        "CREATE /*!99999 VIEW `a` x */ USER me",
        "CREATE /*! USER me */ VIEW `v` AS SELECT 1",
        "CREATE FUNCTION `f` /*!99999 ( */ RETURNS STRING SONAME 'x.so'",
        "CREATE FUNCTION `evil` RETURNS STRING SONAME 'evil.so'",
        "CREATE FUNCTION `evil`() RETURNS STRING SONAME 'evil.so'",
        "CREATE FUNCTION `f`() RETURNS INT /*!50000 SQL SECURITY DEFINER */ RETURN 1",
        "CREATE FUNCTION `f`() RETURNS CHAR(9) CHARACTER /*!99999 SET utf8mb4 */ RETURN 1",
        "CREATE FUNCTION `f`() RETURNS STRING CHARACTER SONAME 'x.so'",
        "CREATE FUNCTION `f`() RETURNS INT NOT /*!99999 DETERMINISTIC */ RETURN 1",
        "CREATE FUNCTION `f`(a /*!99999 ) */ INT) RETURNS INT RETURN 1",
        "CREATE FUNCTION `f`(a INT; b INT) RETURNS INT RETURN 1",
        "CREATE FUNCTION `f`(a INT RETURNS INT RETURN 1",
        "CREATE VIEW `other`.`v` AS SELECT 1",
        "CREATE VIEW `other` /* x */ . `v` AS SELECT 1",
        "CREATE VIEW `other` /*!99999 AS */ .`v` AS SELECT 1",
        "CREATE PROCEDURE `other`.`p`() SELECT 1",
        "CREATE PROCEDURE \"p\"() SELECT 1",
        "CREATE PROCEDURE 'p'() SELECT 1",
        /* without their comments these are other texts */
        "CREATE PROCEDURE `p`(a int --/**/) SELECT 1\n) DROP USER x",
        "CREATE VIEW `v` (a --/**/) AS SELECT 1\n) AS SELECT 2",
        "CREATE FUNCTION `f`(a int) RETURNS enum('a' --/**/) RETURN 1\n) RETURN 2",
        "CREATE PROCEDURE `p`(a int _latin1/**/'x') SELECT 1",
        "CREATE PROCEDURE ``() SELECT 1",
        "CREATE PROCEDURE `p` SELECT 1",
        "CREATE TRIGGER `t` BEFORE INSERT ON `o`.`x` FOR EACH ROW SET @a=1",
        "CREATE TRIGGER `t` BEFORE INSERT ON `x` FOR EACH ROW FOLLOWS `o`.`u` SET @a=1",
        "CREATE TRIGGER `t` BEFORE TRUNCATE ON `x` FOR EACH ROW SET @a=1",
        "CREATE TRIGGER `t` BEFORE INSERT OR ON `x` FOR EACH ROW SET @a=1",
        "CREATE TRIGGER `t` BEFORE INSERT OF a ON `x` FOR EACH ROW SET @a=1",
        "CREATE TRIGGER `t` BEFORE UPDATE OF x.a ON `x` FOR EACH ROW SET @a=1",
        "CREATE TRIGGER `t` BEFORE UPDATE OF (a) ON `x` FOR EACH ROW SET @a=1",
        "CREATE EVENT `o`.`e` ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "CREATE EVENT `e` ON SCHEDULE EVERY (SELECT 1) DAY DO SELECT 1",
        "CREATE EVENT `e` ON SCHEDULE AT NOW() DO SELECT 1",
        "CREATE EVENT `e` ON SCHEDULE EVERY 1 DISABLE DO SELECT 1",
        "CREATE DEFINER=''@'b' VIEW `v` AS SELECT 1",
        "CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY RENAME TO x DO SELECT 1",
        "CREATE ALGORITHM=MERGE FUNCTION `f`() RETURNS INT RETURN 1",
        "CREATE AGGREGATE PROCEDURE `f`() RETURN 1",
        "CREATE VIEW `v`",
        "CREATE VIEW `v` AS",
        "CREATE VIEW `v` AS DELETE FROM x",
        "CREATE VIEW `v` AS SELECT 'x",
        "CREATE VIEW `v` AS SELECT 1 /* x",
        "CREATE VIEW `v",
        "CREATE VIEW `v` (a AS SELECT 1",
        "CREATE PROCEDURE `p`()",
        "CREATE DEFINER=`a`@ VIEW `v` AS SELECT 1",
        "CREATE DEFINER=`a`@`b`@`c` VIEW `v` AS SELECT 1",
        "CREATE DEFINER=CURRENT_USER(1) VIEW `v` AS SELECT 1",
        "CREATE LIBRARY `l` LANGUAGE JAVASCRIPT AS $$ a $$ b $$",
        "CREATE LIBRARY `l` LANGUAGE JAVASCRIPT AS $$ a $",
        "CREATE LIBRARY `l` LANGUAGE JAVASCRIPT AS 'a' 'b'",
        "CREATE LIBRARY `l` LANGUAGE JAVASCRIPT AS 'a'; DROP USER x",
        "CREATE LIBRARY `l` AS $$a$$",
        "CREATE VIEW `v` AS SELECT 1 AS `\x81`",
        "CREATE VIEW `o`\xa0.`v` AS SELECT 1",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        expect(texts[i], &usual, NULL);
    expect("CREATE FUNCTION \"f\" RETURNS INT RETURN 1", &ansi, NULL);
    expect("CREATE PROCEDURE \"other\".\"p\"() SELECT 1", &ansi, NULL);
    expect("CREATE DEFINER='\x95'@'b' VIEW `v` AS SELECT 1", &bytes, NULL);
    expect("CREATE DEFINER='a'@'b\\0' VIEW `v` AS SELECT 1", &usual, NULL);
    expect("CREATE DEFINER=x'00'@'b' VIEW `v` AS SELECT 1", &usual, NULL);
    struct definition d;
    const char *why;
    assert_false(definition_read("CREATE VIEW `v` AS SELECT 1 \0 x", 31, &usual, &d, &why));
    definition_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same), cmocka_unit_test(test_written), cmocka_unit_test(test_events),
        cmocka_unit_test(test_events_of_a_trigger), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
