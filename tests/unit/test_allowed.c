/* restore/allowed: what of a dump's text may go to the server, and what somebody put there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "restore/allowed.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef bool judge_fn(const char *s, size_t len);

static void each(const char *const *list, size_t n, judge_fn *judge, bool want)
{
    for (size_t i = 0; i < n; i++)
        if (judge(list[i], strlen(list[i])) != want)
            fail_msg("%s: %s", want ? "refused" : "allowed", list[i]);
}

static void test_tables(void **state)
{
    (void)state;
    static const char *const good[] = {
        " (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `a` varchar(9) DEFAULT 'a;b -- ''x\\'',\n"
        "  PRIMARY KEY (`id`) USING BTREE\n) ENGINE=MEMORY DEFAULT CHARSET=utf8mb4 "
        "COMMENT='SELECT * FROM t; DATA DIRECTORY=''x'' #'",
        " (`a` int DEFAULT (1 + (2)) CHECK (`a` in (1,2)), `select` int) ENGINE=InnoDB",
        " (`a` int) /*!50100 TABLESPACE `x` */ ENGINE=InnoDB\n/*!50100 PARTITION BY LIST (`a`)\n"
        "(PARTITION s3 VALUES IN (1) ENGINE = InnoDB,\n PARTITION connection VALUES IN (2),\n"
        " PARTITION `table` VALUES IN (3)) */",
        " (`a` int) ENGINE=MEMORY WITH SYSTEM VERSIONING",
        " (`a` int /*!80023 INVISIBLE */, `b` int /* here 'is no quote */)",
        " (`a` int) ENGINE=Aria /* `FOO`=BAR 'x */ ROW_FORMAT=PAGE",
        " (id int, name text)", /* --skip-quote-names */
        " (`a` double DEFAULT 5--1)",
        " (`a` int) UNION=(`b`)",
        " (`a` int) ENGINE=MEMORY DEFAULT CHARSET=utf8mb4 CONNECTION='x'",
        " (`a` int) CONNECTION='x' ENGINE = InnoDB",
        " (`a` int) ENGINE=Aria CONNECTION 'x' COMMENT='y'",
        " (`a` int) ENGINE=InnoDB\n/*!50500 PARTITION BY LIST  COLUMNS(`a`)\n"
        "(PARTITION p VALUES IN ('*/') COMMENT = 'nightly */5 * * * *' ENGINE = InnoDB,\n"
        " PARTITION `q*/` VALUES IN ('/*','it''s \\'*/') ENGINE = InnoDB) */",
    };
    static const char *const bad[] = {
        "",
        " LIKE `mysql`.`user`",
        " (LIKE `mysql`.`user`)",
        ".`other` (`a` int)",
        " SELECT * FROM mysql.user",
        " (SELECT * FROM mysql.user)",
        " ( /*!50000 SELECT */ * FROM mysql.user)",
        " ((SELECT 1))",
        " AS SELECT 1",
        " (`a` int) SELECT * FROM mysql.user",
        " (`a` int) ENGINE=MEMORY AS (select 1)",
        " (`a` int) /*!SELECT * FROM mysql.user */",
        " (`a` int) /*M!100100 SELECT 1 */",
        " (`a` int) /*!99999 ' */ SELECT 1 /*!99999 ' */",
        " (`a` int) /*!99999 /* */ ' */ SELECT 1 -- ' */",
        " (`a` int) -- '\n SELECT 1 -- '",
        " (`a` int) # '\n SELECT 1 # '",
        " (`a` int) TABLE mysql.user",
        " (`a` int) AS TABLE mysql.user",
        " (`a` int) ENGINE=MyISAM DATA DIRECTORY='/etc'",
        " (`a` int) ENGINE=MyISAM /*!50100 INDEX DIRECTORY '/etc' */",
        " (`a` int) ENGINE=FEDERATED",
        " (`a` int) ENGINE `CONNECT` TABLE_TYPE=DOS FILE_NAME='/etc/passwd'",
        " (`a` int) ENGINE='Spider'",
        " (`a` int) CONNECTION='mysql://elsewhere/x'",
        " (`a` int) ENGINE=MRG_MyISAM CONNECTION='x'",
        " (`a` int) ENGINE=MEMORY CONNECTION='x' ENGINE=OQGRAPH",
        " (`a` int) CONNECTION /*!999999 COMMENT */ = 'x' ENGINE=OQGRAPH",
        " (`a` int) ENGINE=InnoDB DATA DIRECTORY /*!999999 COMMENT */ = '/tmp'",
        " (`a` int) ENGINE /*!999999 MEMORY */ CONNECT",
        " (`a` int) ENGINE= /*!999999 MEMORY ENGINE= */ CONNECT",
        " (`a` int) /*!50500 COMMENT='*/ SELECT 1 */",
        " (`a` int) /*!50700 COMMENT='*/ SELECT 1 /*!50700 ' */",
        " (`a` int) /*!80000 COMMENT='*/ SELECT 1 /*!80000 ' */",
        " (`a` int) /*!505000 COMMENT='*/ SELECT 1 /*!505000 ' */",
        " (`a` int) /*M!50500 COMMENT='*/ SELECT 1 /*M!50500 ' */",
        " (`a` int) /*!50500 COMMENT='*/' DATA DIRECTORY='/x' */",
        " (`a` int) /*!50500 COMMENT='*/' SELECT 1 */",
        " (`a` int) /*!50500 /* */ */",
        " (`a` int) /*!50500",
        " (`a` int",
        " (`a` int))",
        " (`a` int) COMMENT='",
        " (`a` int) /* no end",
        " (`a` int) /*!",
    };
    each(good, COUNT(good), allowed_table, true);
    each(bad, COUNT(bad), allowed_table, false);
}

static void test_rows(void **state)
{
    (void)state;
    static const char *const good[] = {
        " VALUES (1,'a',NULL)",
        " VALUES\n(1,-2.5e-10,+3),\n(0x00FF,'it''s','\\'; DROP TABLE t; --')\n",
        " (`id`, name) VALUES (1,_binary 'a\\0\nb'),(.5,_latin1'x')",
        " VALUES (x'00',b'01',X'ff',N'x',0b01,1E+308)",
        "(`a``b`) VALUES(1) ",
        " VALUES ('/*! in a text */','SELECT')",
        " () VALUES ()",
        " VALUES (),( )",
    };
    static const char *const bad[] = {
        "",
        " VALUES",
        " VALUES ",
        " VALUES (1",
        " VALUES (1,)",
        " VALUES (,)",
        " VALUES (",
        " () SELECT 1",
        " VALUES (1)(2)",
        " VALUES (1),",
        " VALUES (a)",
        " VALUES (now())",
        " VALUES (1+1)",
        " VALUES (--1)",
        " VALUES ((SELECT 1))",
        " VALUES (load_file('/etc/passwd'))",
        " VALUES ('a' 'b')",
        " VALUES ('a)",
        " VALUES (\"a\")",
        " VALUES (1) ON DUPLICATE KEY UPDATE a=1",
        " VALUES (1) RETURNING (SELECT 1)",
        " VALUES (1) /*! + sleep(9) */",
        " VALUES (1 /*!,2 */)",
        " VALUES (@a)",
        " VALUES (0xZZ)",
        " VALUES (_gbk '\xbf\\',1)",
        " VALUES (NULLIF)",
        " SELECT * FROM mysql.user",
        " (`a`) SELECT 1",
        " (`a`) TABLE t",
        " SET a=1",
        ".`other` VALUES (1)",
        " VALUES (1); DROP TABLE x",
        " VALUESX (1)",
    };
    each(good, COUNT(good), allowed_rows, true);
    each(bad, COUNT(bad), allowed_rows, false);
    assert_false(allowed_rows(" VALUES (\0'x')", 14));
}

static bool definition(const char *s, size_t len)
{
    (void)len;
    return allowed_definition(s);
}

static void test_definitions(void **state)
{
    (void)state;
    static const char *const good[] = {
        "SET NAMES utf8mb4",
        "SET character_set_client=utf8mb3, collation_connection=utf8mb3_general_ci",
        "SET sql_mode=''",
        "SET time_zone='+05:45'",
        "SET time_zone='America/Port-au-Prince'",
        "SET sql_mode='STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
        "DROP VIEW IF EXISTS `a``b`",
        "DROP PROCEDURE IF EXISTS `p`",
        "CREATE VIEW `v` AS SELECT 1 AS `a`, 1 AS `b`",
        "CREATE ALGORITHM=UNDEFINED DEFINER=`ro``ot`@`%` SQL SECURITY DEFINER VIEW `v` AS select 1",
        "CREATE ALGORITHM=MERGE DEFINER='a'@'b' SQL SECURITY INVOKER VIEW `v` (`a`) AS select 1",
        "CREATE DEFINER=`r`@`l` TRIGGER `t` BEFORE INSERT ON `x` FOR EACH ROW SET NEW.a=1",
        "CREATE DEFINER=`r`@`l` FUNCTION `f`(a int) RETURNS int\nBEGIN DROP TABLE x; RETURN 1; END",
        "CREATE DEFINER=admin@localhost PROCEDURE `p`() SELECT 1",
        "CREATE AGGREGATE FUNCTION `f`(a int) RETURNS int RETURN 1",
        "CREATE DEFINER=`r`@`l` EVENT `e` ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "CREATE LIBRARY `l` LANGUAGE JAVASCRIPT AS $$export function f() { return 1; }$$",
        "DROP LIBRARY IF EXISTS `l`",
        "DROP PACKAGE IF EXISTS `p`",
        "DROP PACKAGE BODY IF EXISTS `p`",
        "CREATE DEFINER=\"root\"@\"localhost\" PACKAGE \"p\" AS FUNCTION f RETURN INT; END",
        "CREATE DEFINER=`a`@`b` PACKAGE BODY `p` AS FUNCTION f RETURN INT AS BEGIN RETURN 7; END; "
        "END",
        "DROP PROCEDURE IF EXISTS \"p\"",
        "CREATE DEFINER=\"root\"@\"localhost\" PROCEDURE \"p\"()\nSELECT 1",
        "CREATE DEFINER=\"root\"@\"localhost\" FUNCTION \"f\"\"x\"(a int) RETURNS int\nRETURN 1",
        "CREATE DEFINER=`r`@`l` JSON RELATIONAL DUALITY VIEW `v` AS SELECT 1",
    };
    static const char *const bad[] = {
        "",
        "DROP DATABASE mysql",
        "DROP TABLE IF EXISTS `t`",
        "DROP VIEW IF EXISTS `v`, `w`",
        "DROP VIEW IF EXISTS `mysql`.`user`",
        "DROP USER IF EXISTS `root`",
        "DROP VIEW `v`",
        "GRANT ALL ON *.* TO me",
        "INSERT INTO `t` VALUES (1)",
        "DELETE FROM `t`",
        "LOAD DATA INFILE '/etc/passwd' INTO TABLE `t`",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "CREATE USER me",
        "CREATE TABLE `t` (`a` int)",
        "CREATE DATABASE `x`",
        "CREATE SERVER `x` FOREIGN DATA WRAPPER mysql",
        "CREATE DEFINER=`a` USER x",
        "CREATE DEFINER=VIEW TABLE `x`",
        "CREATE FUNCTION `evil` RETURNS STRING SONAME 'evil.so'",
        "CREATE /*! USER me */ VIEW `v` AS SELECT 1",
        "CREATE OR REPLACE VIEW `v` AS SELECT 1",
        "CREATE VIEW `other`.`v` AS SELECT 1",
        "CREATE PROCEDURE `other`.`p`() SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "CREATE PROCEDURE 'p'() SELECT 1",
        "CREATE PROCEDURE \"other\".\"p\"() SELECT 1",
        "CREATE FUNCTION \"evil\" RETURNS STRING SONAME 'evil.so'",
        "CREATE FUNCTION \"f\\\" RETURNS STRING SONAME 'x' -- \"(",
        "CREATE DEFINER='a\\' USER x '@`h` VIEW `v` AS SELECT 1",
        "DROP VIEW IF EXISTS \"v\", \"w\"",
        "DROP VIEW IF EXISTS \"v\\\", \"",
        "CREATE VIEW `v`",
        "DROP PACKAGE BODY BODY IF EXISTS `p`",
        "DROP PACKAGE IF EXISTS `other`.`p`",
        "CREATE PACKAGE BODY `other`.`p` AS FUNCTION f RETURN INT; END",
        "CREATE PACKAGE BODY AS FUNCTION f RETURN INT; END",
        "SET GLOBAL read_only=1",
        "SET PASSWORD='x'",
        "SET NAMES utf8mb4, GLOBAL general_log=1",
        "SET character_set_client=(SELECT 1)",
        "SET character_set_client=utf8mb4, collation_connection=x, GLOBAL a=1",
        "SET sql_mode=''; DROP TABLE x; SET a=''",
        "SET sql_mode='A',GLOBAL x='B'",
        "SET sql_mode='",
        "SET time_zone='', GLOBAL a=1'",
        "SET time_zone='x\\'",
        "SET sql_mode='ansi'",
        "/*! DROP DATABASE x */",
        "\\! sh",
        "DELIMITER ;",
    };
    each(good, COUNT(good), definition, true);
    each(bad, COUNT(bad), definition, false);
}

static void test_charsets(void **state)
{
    (void)state;
    static const char *const good[] = {"utf8mb4", "binary", "latin1", "UTF8", "cp1251", "ujis"};
    static const char *const bad[] = {"", "gbk", "GBK", "sjis", "big5", "utf 8", "a;b"};
    each(good, COUNT(good), allowed_charset, true);
    each(bad, COUNT(bad), allowed_charset, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_charsets),
    };
    return cmocka_run_group_tests_name("allowed", tests, NULL, NULL);
}
