/* sql/table: definitions are parsed into a structure and written by us; what it cannot hold is
 * refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sql/table.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define HEAD "CREATE TABLE `t` (\n  "

/* The text is copied to the heap with nothing behind it: a look too far is seen by the sanitizers.
 */
static int read_exact(const char *text, size_t len, struct sql_table *t, struct err *e)
{
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, text, len);
    int rc = sql_table_read(exact, len, false, t, e);
    free(exact);
    return rc;
}

static void write_as(struct buf *out, const char *text, const struct sql_table_how *how)
{
    struct sql_table t;
    struct err e = {0};
    if (read_exact(text, strlen(text), &t, &e) < 0)
        fail_msg("%s: %s", e.text, text);
    sql_table_write(out, &t, how);
    sql_table_free(&t);
}

static void becomes(const char *text, bool mariadb, const char *want)
{
    struct buf b = {0}, again = {0};
    struct sql_table_how how = {.name = "t", .mariadb = mariadb};
    write_as(&b, text, &how);
    assert_string_equal(b.p, want);
    write_as(&again, b.p, &how);
    assert_string_equal(again.p, want);
    buf_free(&b);
    buf_free(&again);
}

static void test_brands(void **state)
{
    (void)state;
    static const char mysql[] = HEAD
        "`a` int NOT NULL /*!80023 INVISIBLE */,\n  `g` point /*!80003 SRID 0 */,\n"
        "  `m` int /*!50606 STORAGE DISK */ /*!50606 COLUMN_FORMAT FIXED */ DEFAULT NULL "
        "/*!80021 ENGINE_ATTRIBUTE '{}' */ /*!80021 SECONDARY_ENGINE_ATTRIBUTE '{\"a\": 1}' */,\n"
        "  KEY `k` (`a`) /*!80000 INVISIBLE */ /*!80021 SECONDARY_ENGINE_ATTRIBUTE '{}' */,\n"
        "  CONSTRAINT `c` CHECK ((`a` > 0)) /*!80016 NOT ENFORCED */\n) "
        "/*!50100 TABLESPACE `innodb_system` */ ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 "
        "/*!80016 ENCRYPTION='N' */\n/*!50100 PARTITION BY HASH (`a`)\nPARTITIONS 4 */";
    becomes(mysql, false,
            HEAD "`a` int NOT NULL INVISIBLE,\n  `g` point SRID 0,\n"
                 "  `m` int DEFAULT NULL COLUMN_FORMAT FIXED STORAGE DISK ENGINE_ATTRIBUTE='{}' "
                 "SECONDARY_ENGINE_ATTRIBUTE='{\"a\": 1}',\n"
                 "  KEY `k` (`a`) INVISIBLE SECONDARY_ENGINE_ATTRIBUTE='{}',\n"
                 "  CONSTRAINT `c` CHECK ((`a` > 0)) NOT ENFORCED\n) TABLESPACE=`innodb_system` "
                 "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 ENCRYPTION='N'\n"
                 "PARTITION BY HASH (`a`)\nPARTITIONS 4");
    becomes(mysql, true,
            HEAD "`a` int NOT NULL INVISIBLE,\n  `g` point REF_SYSTEM_ID=0,\n"
                 "  `m` int DEFAULT NULL,\n  KEY `k` (`a`) IGNORED,\n"
                 "  CONSTRAINT `c` CHECK ((`a` > 0))\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4\n"
                 "PARTITION BY HASH (`a`)\nPARTITIONS 4");
    static const char mariadb[] =
        HEAD "`a` varchar(9) /*M!100301 COMPRESSED*/ DEFAULT uuid(),\n"
             "  `s` timestamp(6) GENERATED ALWAYS AS ROW START INVISIBLE,\n"
             "  PERIOD FOR SYSTEM_TIME (`s`, `e`),\n  KEY `k` (`a` DESC) IGNORED\n) ENGINE=Aria "
             "PAGE_CHECKSUM=1 TRANSACTIONAL=0 `PAGE_COMPRESSED`='ON' WITH SYSTEM VERSIONING";
    becomes(mariadb, true,
            HEAD "`a` varchar(9) COMPRESSED DEFAULT uuid(),\n"
                 "  `s` timestamp(6) GENERATED ALWAYS AS ROW START INVISIBLE,\n"
                 "  KEY `k` (`a` DESC) IGNORED,\n  PERIOD FOR SYSTEM_TIME (`s`,`e`)\n) ENGINE=Aria "
                 "PAGE_CHECKSUM=1 TRANSACTIONAL=0 PAGE_COMPRESSED='ON' WITH SYSTEM VERSIONING");
}

/* MariaDB quotes names and values of its engines' options, depending on its version and on how
 * they were given. */
static void test_options_of_engines(void **state)
{
    (void)state;
    becomes(HEAD "`v` vector(2) NOT NULL,\n  VECTOR KEY `v` (`v`) `M`='8' `DISTANCE`='cosine'\n) "
                 "ENGINE=InnoDB `page_compressed`='1' `page_compression_level`='5' "
                 "`encryption_key_id`='1' `encrypted`='no'",
            true,
            HEAD "`v` vector(2) NOT NULL,\n  VECTOR KEY `v` (`v`) M='8' DISTANCE='cosine'\n) "
                 "ENGINE=InnoDB PAGE_COMPRESSED='1' PAGE_COMPRESSION_LEVEL='5' "
                 "ENCRYPTION_KEY_ID='1' ENCRYPTED='no'");
    becomes(HEAD "`v` vector(2) NOT NULL,\n  VECTOR KEY `v` (`v`) `M`=8 `DISTANCE`=cosine\n) "
                 "ENGINE=InnoDB `PAGE_COMPRESSED`=1 `PAGE_COMPRESSION_LEVEL`=5",
            true,
            HEAD "`v` vector(2) NOT NULL,\n  VECTOR KEY `v` (`v`) M=8 DISTANCE=cosine\n) "
                 "ENGINE=InnoDB PAGE_COMPRESSED=1 PAGE_COMPRESSION_LEVEL=5");
}

static void test_quotes(void **state)
{
    (void)state;
    becomes(
        "CREATE TABLE x (id int, `a``;b` enum('it''s','a\\\\b',\"q\") DEFAULT 'x\\n\\Z' COMMENT "
        "'*/ -- #', KEY (`id`)) ENGINE = memory /* a comment */ COMMENT 'it\\'s'",
        true,
        HEAD "`id` int,\n  `a``;b` enum('it''s','a\\\\b','q') DEFAULT 'x\\n\x1a' COMMENT "
             "'*/ -- #',\n  KEY  (`id`)\n) ENGINE=MEMORY COMMENT='it''s'");
}

static void test_expressions(void **state)
{
    (void)state;
    becomes(HEAD "`a` int DEFAULT (1 + - -1 /*x*/ * 2),\n  `b` int GENERATED ALWAYS AS "
                 "(cast(json_extract(`j`,_utf8mb4'$.a') as char(20) charset utf8mb4)) STORED,\n"
                 "  `c` text CHECK (`c` regexp '^a' collate utf8mb4_bin or `c` is null),\n"
                 "  `d` date DEFAULT (curdate() + interval 1 day),\n"
                 "  `e` int DEFAULT (_latin1 0x41 / case when `a` in (1,2) then 1 else 2 end),\n"
                 "  KEY `f` ((lower(`c`)) DESC)\n)",
            true,
            HEAD "`a` int DEFAULT (1 + - - 1 * 2),\n  `b` int GENERATED ALWAYS AS "
                 "(cast(json_extract(`j` , _utf8mb4'$.a') as char(20) charset utf8mb4)) STORED,\n"
                 "  `c` text CHECK (`c` regexp '^a' collate utf8mb4_bin or `c` is null),\n"
                 "  `d` date DEFAULT (curdate() + interval 1 day),\n"
                 "  `e` int DEFAULT (_latin1 0x41 / case when `a` in (1 , 2) then 1 else 2 end),\n"
                 "  KEY `f` ((lower(`c`)) DESC)\n)");
}

static void test_sequences(void **state)
{
    (void)state;
    static const char text[] = HEAD "`a` int DEFAULT nextval(`s`.`t``u`),\n  "
                                    "`b` int DEFAULT (1 + nextval(`s`.`v`))\n)";
    struct sql_table t;
    assert_int_equal(read_exact(text, sizeof text - 1, &t, NULL), 0);
    assert_string_equal(t.sequences, "s");
    sql_table_free(&t);
    becomes(text, true, text);
    becomes(HEAD "`a` int DEFAULT NEXTVAL(t)\n)", true, HEAD "`a` int DEFAULT NEXTVAL(`t`)\n)");
}

static void test_unnamed(void **state)
{
    (void)state;
    struct buf b = {0};
    struct sql_table_how how = {.name = "o`d", .temporary = true, .unnamed_checks = true};
    write_as(&b,
             HEAD "`a` int,\n  CONSTRAINT `c` CHECK ((`a` > 0)),\n"
                  "  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE SET NULL\n)",
             &how);
    assert_string_equal(b.p, "CREATE TEMPORARY TABLE `o``d` (\n  `a` int,\n  CHECK ((`a` > 0)),\n"
                             "  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE "
                             "SET NULL\n)");
    buf_free(&b);
}

/* What is refused, and a word of why. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *tail, *why;
    } bad[] = {
        {"", "the text ends here"},
        {" LIKE `mysql`.`user`", "LIKE"},
        {" (LIKE `mysql`.`user`)", "the type `mysql`"},
        {".`other` (`a` int)", "."},
        {" SELECT * FROM mysql.user", "SELECT"},
        {" (SELECT * FROM mysql.user)", "the type *"},
        {" (`a` int) AS SELECT 1", "option AS"},
        {" (`a` int) IGNORE SELECT 1", "option IGNORE"},
        {" /*!99999 ( x */ ENGINE=MEMORY AS SELECT 1 /*!99999 ) */", "version comment"},
        {" ( /*!99999 x */ SELECT 1)", "version comment"},
        {" (`a` int) /*!50100 SELECT */", "version comment"},
        {" (`a` int) /*!50100 PARTITION BY HASH (`a`) */ ENGINE=MEMORY", "option ENGINE"},
        {" (`a` int) ENGINE=FEDERATED", "engine FEDERATED"},
        {" (`a` int) ENGINE=MRG_MyISAM UNION=(`b`)", "engine MRG_MyISAM"},
        {" (`a` int) ENGINE=MEMORY ENGINE=MEMORY", "second engine"},
        {" (`a` int) ENGINE=MEMORY UNION=(`b`)", "option UNION"},
        {" (`a` int) ENGINE=MEMORY DATA DIRECTORY='/x'", "option DATA"},
        {" (`a` int) CONNECTION='x'", "CONNECTION"},
        {" (`a` int) ENGINE=MEMORY SECONDARY_ENGINE=x", "option SECONDARY_ENGINE"},
        {" (`a` int) ENGINE=InnoDB PARTITION BY HASH(`a`) (PARTITION p ENGINE=FEDERATED)",
         "FEDERATED"},
        {" (`a` int) ENGINE=InnoDB PARTITION BY HASH(`a`) (PARTITION p DATA DIRECTORY='x')",
         "DATA"},
        {" (`a` int) MAX_ROWS=(1)", "number ("},
        {" (`a` int) COMMENT=x", "text x"},
        {" (`a` int) CHARSET=(x)", "character set"},
        {" (`a` int);", "option ;"},
        {" (`a` whatever)", "type whatever"},
        {" (`a` int(1,2))", "parameter"},
        {" (`a` int REFERENCES `b` (`c`))", "REFERENCES"},
        {" (`a` int DEFAULT (SELECT 1))", "SELECT"},
        {" (`a` int DEFAULT ((SELECT 1)))", "SELECT"},
        {" (`a` int DEFAULT (f(1)))", "function f"},
        {" (`a` int DEFAULT (`f`(1)))", "function `f`"},
        {" (`a` int DEFAULT `f`(1))", "function `f`"},
        {" (`a` int DEFAULT (`s`.`f`(1)))", "."},
        {" (`a` int DEFAULT load_file('x'))", "load_file"},
        {" (`a` int DEFAULT (sleep(9)))", "sleep"},
        {" (`a` int DEFAULT (@@x))", "@"},
        {" (`a` int DEFAULT (`j`->'$.a'))", "->"},
        {" (`a` int DEFAULT nextval(`s`.`t`), `b` int DEFAULT (nextval(`u`.`t`)))",
         "another schema, u"},
        {" (`a` int DEFAULT nextval(`s`.`t`.`u`))", "."},
        {" (`a` int DEFAULT setval(`s`.`t`, 1))", "setval"},
        {" (`a` int DEFAULT (1)", "the text ends here"},
        {" (`a` int CHECK (1 /*!50000 + 1 */))", "version comment"},
        {" (FOREIGN KEY (`a`) REFERENCES `s`.`b` (`c`), `a` int)", "another schema"},
        {" (KEY (`a`))", "without columns"},
        {" (`a` int, PRIMARY int)", "t: int"}, /* no columns: such a name would be quoted */
        {" (`a` int, UNIQUE date)", "t: date"},
        {" (`a` int, FULLTEXT `b` (`a`))", "t: `b`"},
        {" (SPATIAL int)", "t: int"},
        {" (`a\xf0\x90\x80\x80` int)", "name"},
        {" (`a` int)\xa0", "not UTF-8"},
        {" (`` int)", "name"},
        {" (`a` int) ENGINE=MEMORY #", NULL}, /* a comment to the end is one to everybody */
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct buf b = {0};
        struct sql_table t;
        struct err e = {0};
        buf_adds(&b, "CREATE TABLE `t`");
        buf_adds(&b, bad[i].tail);
        int rc = read_exact(b.p, b.len, &t, &e);
        if ((rc == 0) != !bad[i].why)
            fail_msg("%s: %s", rc ? "refused" : "taken", b.p);
        if (rc == 0)
            sql_table_free(&t);
        else if (!strstr(e.text, bad[i].why) || e.cls != ERR_REFUSED)
            fail_msg("%s: %s", b.p, e.text);
        buf_free(&b);
    }
    struct sql_table t;
    static const char nul[] = "CREATE TABLE `t` (`a\0` int)";
    assert_int_equal(read_exact(nul, sizeof nul - 1, &t, NULL), -1);
}

/* However it is cut. */
static void test_cut(void **state)
{
    (void)state;
    static const char text[] =
        HEAD "`a` int(10) unsigned NOT NULL DEFAULT (1 + 2) COMMENT 'x' CHECK (`a` > 0),\n"
             "  PRIMARY KEY (`a`),\n  UNIQUE KEY `k` (`a`(3) DESC) USING BTREE,\n"
             "  CONSTRAINT `c` CHECK (`a` in (1,2))\n) ENGINE=MEMORY";
    for (size_t n = 0; n < (size_t)(strstr(text, "\n) ENGINE") + 2 - text); n++) {
        struct sql_table t;
        assert_int_equal(read_exact(text, n, &t, NULL), -1);
    }
}

static void test_deep(void **state)
{
    (void)state;
    struct buf b = {0};
    struct sql_table t;
    buf_adds(&b, HEAD "`a` int DEFAULT ");
    for (int i = 0; i < 5000; i++)
        buf_addc(&b, '(');
    assert_int_equal(read_exact(b.p, b.len, &t, NULL), -1);
    buf_free(&b);
}

static void engine_of(const char *text, const char *want)
{
    char *engine = sql_table_engine(text, strlen(text), 0);
    if (want)
        assert_string_equal(engine, want);
    else
        assert_null(engine);
    free(engine);
}

static void test_engines(void **state)
{
    (void)state;
    engine_of("CREATE TABLE t (a int, `ENGINE` int) ENGINE=MRG_MyISAM UNION=(b)", "MRG_MyISAM");
    engine_of("CREATE TABLE t (a int) ENGINE FEDERATED", "FEDERATED");
    engine_of("CREATE TABLE t (a int)", NULL);
    engine_of("CREATE TABLE t (a int) ENGINE=InnoDB ENGINE=MEMORY", NULL);
    engine_of("CREATE TABLE t (a int) /*!99999 x */ ENGINE=InnoDB", NULL);
    engine_of("CREATE TABLE t (a int) ENGINE=InnoDB '", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brands),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_options_of_engines),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_unnamed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
