/* restore/import: how a mysqldump file is planned, and what is refused, with the number of the
 * statement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <zlib.h>

#include "dir_kit.h"
#include "mysql/job.h"
#include "restore/import.h"
#include "restore/plan.h"

static char sentinel[] = "worldkeeper";
static const struct config cfg = {.sentinel = sentinel};
static const struct job job = {.cfg = &cfg};

static int plan(int fd, struct plan *p, struct import_report *r, struct err *e)
{
    *p = (struct plan){.job = &job};
    *e = (struct err){0};
    struct import in = {.fd = fd,
                        .name = "x.sql",
                        .server = {.version = {.mariadb = true, .number = 101119},
                                   .mode = "STRICT_TRANS_TABLES",
                                   .zone = "SYSTEM"}};
    int rc = import_plan(&in, p, NULL, r, e);
    close(fd);
    return rc;
}

static int plan_text(const char *text, struct plan *p, struct import_report *r, struct err *e)
{
    int fd = kit_create("x.sql");
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
    return plan(fd, p, r, e);
}

#define BAG "CREATE TABLE `bag` (\n  `id` int NOT NULL,\n  `v` int DEFAULT NULL\n) ENGINE=MEMORY;\n"
/* How MariaDB 11.8's tool frames the rows of each table. */
#define AUTOCOMMIT                                                                                 \
    "SET @OLD_AUTOCOMMIT=@@AUTOCOMMIT, @@AUTOCOMMIT=0;\nINSERT INTO `bag` VALUES\n(1,2);\n"        \
    "COMMIT;\nSET AUTOCOMMIT=@OLD_AUTOCOMMIT;\n"

/* A comment goes on to the end of its line, however much of the line was read at once. */
static void test_a_long_comment(void **state)
{
    static const char *const opens[] = {"-- ", "#"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct plan p;
        struct import_report r = {0};
        struct err e;
        struct buf text = {0};
        buf_adds(&text, BAG);
        buf_adds(&text, opens[i]);
        while (text.len < 3u << 20)
            buf_adds(&text, "x; DROP TABLE bag; ");
        buf_adds(&text, "\nINSERT INTO `bag` VALUES (1,2);\n");
        if (plan_text(text.p, &p, &r, &e) < 0)
            fail_msg("%s", e.text);
        assert_int_equal(p.count, 1);
        assert_false(plan_find(&p, "bag")->skip);
        assert_int_equal(r.last_line, 6);
        import_report_free(&r);
        plan_free(&p);
        buf_free(&text);
    }
}

static void test_whole(void **state)
{
    (void)state;
    static const char text[] =
        "/*M!999999\\- enable the sandbox mode */ \n"
        "-- MariaDB dump\n# a comment\n/* and one of more\nlines */;\n"
        "/*M!100101 SET LOCAL SQL_LOG_OFF=0, LOCAL LOG_SLOW_QUERY=0 */;\n"
        "/*!40101 SET NAMES utf8mb4 */;\n"
        "/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */;\n"
        "DROP TABLE IF EXISTS `bag`;\n"
        "CREATE TABLE IF NOT EXISTS `bag` (\n  `id` int NOT NULL,\n"
        "  `twice` int GENERATED ALWAYS AS (`id` * 2) VIRTUAL,\n  `v;` int,\n"
        "  PRIMARY KEY (`id`)\n) ENGINE=MEMORY AUTO_INCREMENT=17 DEFAULT CHARSET=utf8mb4;\n"
        "CREATE TABLE plain$1 (\n  `a` int\n) ;\n"
        "SET @OLD_AUTOCOMMIT=@@AUTOCOMMIT, @@AUTOCOMMIT=0;\n"
        "/*M!100000 LOCK TABLES `bag` WRITE */;\n"
        "INSERT INTO `bag` VALUES (1,2,'a;b'),(2,4,NULL);\nINSERT INTO plain$1 VALUES (1);\n"
        "DELIMITER ;;\nCREATE TRIGGER t BEFORE INSERT ON bag FOR EACH ROW BEGIN SET @a=1; END ;;\n"
        "DELIMITER ;\nUNLOCK TABLES;\nCOMMIT;\nSET AUTOCOMMIT=@OLD_AUTOCOMMIT;\n/*M!100616 SET "
        "NOTE_VERBOSITY=@OLD_NOTE_VERBOSITY */;\n"
        "-- Dump completed on 2026-01-01\n";
    struct plan p;
    struct import_report r = {0};
    struct err e;
    assert_int_equal(plan_text(text, &p, &r, &e), 0);
    assert_true(r.ends);
    assert_int_equal(p.count, 2);
    const struct target *t = plan_find(&p, "bag");
    assert_non_null(t);
    assert_true(t->memory);
    assert_int_equal(t->auto_increment, 17);
    assert_int_equal(t->defined, 3);
    assert_int_equal(t->column_count, 2);
    assert_true(t->generated[1] && !t->generated[0] && !t->generated[2]);
    assert_string_equal(t->columns[1], "v;");
    t = plan_find(&p, "plain$1");
    assert_true(t && !t->memory && t->skip);
    plan_free(&p);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
        enum err_class cls;
    } cases[] = {
        {"GRANT ALL ON *.* TO x;\n", "line 1: --restore does not accept", ERR_REFUSED},
        {BAG "UPDATE `bag` SET v=1;\n", "line 5: --restore does not accept", ERR_REFUSED},
        {"\n\nINSERT INTO `bag` VALUES (1,2);\n",
         "line 3: --restore does not accept this statement, "
         "for a table that the file does not create",
         ERR_REFUSED},
        {BAG "INSERT INTO `bag` VALUES (1,SLEEP(9));\n", "whose values are not all", ERR_REFUSED},
        {BAG "INSERT INTO `bag` SELECT * FROM mysql.user;\n", "line 5", ERR_REFUSED},
        {BAG "INSERT INTO other.bag VALUES (1,2);\n", "names another schema", ERR_REFUSED},
        {"CREATE TABLE other.bag (\n  `a` int\n);\n", "names another schema", ERR_REFUSED},
        {"CREATE TABLE \"bag\" (a int);\n", "line 1", ERR_REFUSED},
        {"CREATE TABLE `bag", "line 1: it is truncated", ERR_DAMAGED},
        {BAG "INSERT INTO `bag` VALUES (1,2)", "line 5: it is truncated", ERR_DAMAGED},
        {BAG "INSERT INTO `bag` VALUES (1,'a;\n", "line 5: it is truncated", ERR_DAMAGED},
        {BAG "DELIMITER \nDROP TABLE `bag`;\n", "line 5: DELIMITER without a delimiter",
         ERR_DAMAGED},
        {"/*!50001 GRANT ALL ON *.* TO x */;\n", "line 1", ERR_REFUSED},
        /* what was passed over in silence */
        {BAG "ALTER TABLE `bag` DROP COLUMN v;\n", "statement, table bag: option DROP",
         ERR_REFUSED},
        {BAG "ALTER TABLE `bag` CHANGE v w int;\n", "statement, table bag: option CHANGE",
         ERR_REFUSED},
        {BAG "ALTER TABLE `bag` RENAME TO b;\n", "statement, table bag: option RENAME",
         ERR_REFUSED},
        {BAG "ALTER TABLE `bag` ADD w int;\n", "statement, table bag: ADD w", ERR_REFUSED},
        {BAG "ALTER TABLE `bag` ENGINE=InnoDB;\n", "which changes the engine", ERR_REFUSED},
        {BAG "ALTER TABLE other.`bag` ADD KEY (v);\n", "names another schema", ERR_REFUSED},
        {BAG "ALTER TABLE `bog` ADD KEY (v);\n", "does not create", ERR_REFUSED},
        {BAG "ALTER TABLE `bag` ADD CONSTRAINT f FOREIGN KEY (v) REFERENCES a (b);\n",
         "a foreign key", ERR_REFUSED},
        {BAG "RENAME TABLE `bag` TO b;\n", "line 5", ERR_REFUSED},
        {BAG "DELETE FROM `bag` WHERE id=1;\n", "line 5", ERR_REFUSED},
        {BAG "DROP TABLE bag;\nINSERT INTO `bag` VALUES (1,2);\n", "the file has dropped",
         ERR_REFUSED},
        {BAG "CREATE VIEW bag AS SELECT 1;\n", "a table of that name", ERR_REFUSED},
        {BAG "CREATE TRIGGER t BEFORE INSERT ON bag FOR EACH ROW SET @a=1;\n"
             "INSERT INTO `bag` VALUES (1,2);\n",
         "line 6: --restore does not accept this statement, for which an earlier trigger",
         ERR_REFUSED},
        {"DROP DATABASE x;\n" BAG, "line 1: drops database x", ERR_REFUSED},
        {BAG "SET GLOBAL max_connections=1;\n", "which sets max_connections", ERR_REFUSED},
        {BAG "SET sql_mode=CONCAT('a','b');\n", "which sets sql_mode", ERR_REFUSED},
        {BAG "SET insert_id=7;\n", "which sets insert_id", ERR_REFUSED},
        {BAG "CREATE USER a@b;\n", "line 5", ERR_REFUSED},
        {BAG "CREATE TEMPORARY TABLE b (a int);\n", "line 5", ERR_REFUSED},
        {"SET NAMES gbk;\n" BAG "INSERT INTO bag VALUES (1,2);\n",
         "line 6: its character set gbk cannot be read safely", ERR_REFUSED},
        {"SET NAMES latin1;\nCREATE TABLE t (a int COMMENT '\xe9') ENGINE=MEMORY;\n",
         "line 2: table t: the text bytes in quotes that are not UTF-8", ERR_REFUSED},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct plan p;
        struct import_report r = {0};
        struct err e;
        assert_int_equal(plan_text(cases[i].text, &p, &r, &e), -1);
        if (!strstr(e.text, cases[i].says))
            fail_msg("%s: %s", cases[i].text, e.text);
        assert_int_equal(e.cls, cases[i].cls);
        plan_free(&p);
    }
}

/* What changes no table, and what other tools write: accepted, with the tables that are left in
 * the end. */
static void test_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *tables; /* those that are not dropped again */
        uint64_t counter;   /* of the first */
        bool ends;
    } cases[] = {
        {BAG "/*!40000 ALTER TABLE `bag` DISABLE KEYS */;\n/* c */ ALTER TABLE bag ENABLE KEYS;\n",
         "bag", 0, false},
        {"STOP ALL SLAVES;\nCHANGE MASTER TO MASTER_LOG_POS=4;\nSTART SLAVE;\n" BAG, "bag", 0,
         false},
        {BAG
         "ALTER TABLE `bag`\n  /* c */ ADD PRIMARY KEY (`id`),\n  ADD KEY `v` (`v`) USING HASH;\n"
         "ALTER TABLE `bag`\n  MODIFY `id` int NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=501;\n",
         "bag", 501, false},
        {BAG "ALTER TABLE bag ENGINE=MEMORY, ADD PRIMARY KEY (id);\n", "bag", 0, false},
        {BAG "insert  into `bag`(`id`,`v`) values (1,2),(3,4);\nREPLACE INTO bag VALUES (1,3);\n"
             "INSERT IGNORE INTO bag VALUES (1,3);\nTRUNCATE bag;\nDELETE FROM `bag`;\n"
             "/*!50000 INSERT INTO bag VALUES (7,NULL)*/;\n",
         "bag", 0, false},
        {BAG "/*!99999 DROP TABLE bag */;\n/*!80000 UPDATE bag SET v=1 */;\n", "bag", 0, false},
        {"CREATE TABLE `v` (`a` int) ENGINE=MEMORY;\n" BAG
         "DROP TABLE IF EXISTS `v`;\nCREATE VIEW `v` AS SELECT 1;\n",
         "bag", 0, false},
        {"DROP DATABASE IF EXISTS `x`;\nCREATE DATABASE /*!32312 IF NOT EXISTS*/ `x`;\nUSE `x`;\n"
         "CREATE TABLE `x`.`bag` (a int) ENGINE=MEMORY;\nALTER TABLE x.bag ADD KEY (a);\n",
         "bag", 0, false},
        {"SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO';\n" BAG
         "SET SQL_MODE=IFNULL(@OLD_SQL_MODE, '');\n",
         "bag", 0, true},
        {"SET @OLD_SQL_MODE=@@SQL_MODE;\n" BAG "SET SQL_MODE=@OLD_SQL_MODE;\nSET "
         "@OLD_SQL_MODE=@@SQL_MODE;\nCREATE TABLE b (a int) ENGINE=MEMORY;\n",
         "bag b", 0, false},
        {"SET @OLD_SQL_MODE=@@SQL_MODE;\n" BAG
         "SET @OLD_SQL_MODE=@@SQL_MODE;\nSET SQL_MODE=@OLD_SQL_MODE;\n",
         "bag", 0, false},
        {"SET @OLD_TIME_ZONE=@@TIME_ZONE;\n" BAG AUTOCOMMIT, "bag", 0, false},
        {"SET @OLD_TIME_ZONE=@@TIME_ZONE;\n" BAG AUTOCOMMIT "SET TIME_ZONE=@OLD_TIME_ZONE;\n",
         "bag", 0, true},
        {"-- Adminer 4.8.1 dump\n" BAG "INSERT INTO `bag` (id,v) VALUES (1,\tUNHEX('07')),(2,"
         "\tCONVERT(b'101', UNSIGNED));\n\n-- 2026-01-31 23:59:59\n",
         "bag", 0, true},
        {"SET SQL_MODE='ANSI';\nCREATE TABLE \"bag\" (\"a\" int) ENGINE=MEMORY;\n"
         "INSERT INTO \"bag\" (\"a\") VALUES (1);\n",
         "bag", 0, false},
        {"CREATE TABLE `old` (a int) TYPE=MyISAM;\nINSERT INTO old VALUES (1);\n" BAG, "bag", 0,
         false},
        {"\xef\xbb\xbf" BAG, "bag", 0, false},
        {BAG "CREATE SEQUENCE s;\nDO SETVAL(`s`, 1, 0);\n", "bag", 0, false},
        {BAG "ALTER DATABASE `x` CHARACTER SET latin1 COLLATE latin1_swedish_ci ;\n", "bag", 0,
         false},
        {"SET TIME_ZONE='+00:00';\nSET @@SESSION.SQL_LOG_BIN= 0;\n"
         "SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5,\nb:1-7';\nSET SESSION TRANSACTION "
         "ISOLATION LEVEL READ COMMITTED;\nSET AUTOCOMMIT=0;\n" BAG "COMMIT;\n",
         "bag", 0, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct plan p;
        struct import_report r = {0};
        struct err e;
        struct buf left = {0};
        if (plan_text(cases[i].text, &p, &r, &e) < 0)
            fail_msg("%s: %s", cases[i].text, e.text);
        buf_adds(&left, "");
        for (size_t k = 0; k < p.count; k++)
            if (!p.list[k].skip)
                buf_printf(&left, "%s%s", left.len ? " " : "", p.list[k].name);
        if (strcmp(left.p, cases[i].tables) != 0 || r.ends != cases[i].ends)
            fail_msg("%s: %s, ends: %d", cases[i].text, left.p, r.ends);
        assert_int_equal(plan_find(&p, "bag")->counter, cases[i].counter);
        buf_free(&left);
        import_report_free(&r);
        plan_free(&p);
    }
}

/* Files that are no text say what they are, and what makes text of them. */
static void test_magic(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *what, *pipe;
    } cases[] = {
        {"\xfd"
         "7zXZ\0",
         6, "compressed with xz", "xz -dc x.sql > x.sql.sql"},
        {"\x28\xb5\x2f\xfd", 4, "compressed with zstd", "zstd -dc"},
        {"BZh91AY", 7, "compressed with bzip2", "bzip2 -dc"},
        {"PK\3\4", 4, "a ZIP archive", "unzip -p"},
        {"\xff\xfe-\0", 4, "text in UTF-16", "iconv -f UTF-16 "},
        {"C\0R\0", 4, "text in UTF-16", "iconv -f UTF-16LE "},
        {"\0C\0R", 4, "text in UTF-16", "iconv -f UTF-16BE "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct plan p;
        struct import_report r = {0};
        struct err e;
        int fd = kit_create("x.sql");
        assert_int_equal(file_write_all(fd, cases[i].bytes, cases[i].len), 0);
        assert_int_equal(plan(fd, &p, &r, &e), -1);
        assert_int_equal(e.cls, ERR_REFUSED);
        if (!strstr(e.text, cases[i].what) || !strstr(e.hint, cases[i].pipe))
            fail_msg("%zu: %s; %s", i, e.text, e.hint);
        plan_free(&p);
    }
}

/* Nothing in it, or nothing but what is passed over. */
static void test_empty(void **state)
{
    (void)state;
    static const char *const texts[] = {"",   " \n\r\n", "-- no line's end",
                                        ";;", "/* open", "USE x;COMMIT;"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct plan p;
        struct import_report r = {0};
        struct err e;
        int rc = plan_text(texts[i], &p, &r, &e);
        assert_int_equal(rc, i == 4 ? -1 : 0);
        assert_int_equal(p.count, 0);
        assert_false(r.ends);
        plan_free(&p);
    }
}

/* Comments and rows far longer than what is read at a time. */
static void test_long(void **state)
{
    (void)state;
    struct buf b = {0};
    struct plan p;
    struct import_report r = {0};
    struct err e;
    for (int i = 0; i < 20000; i++)
        buf_adds(&b, "-- the same line again and again\n");
    buf_adds(&b, BAG "INSERT INTO `bag` VALUES (0,0)");
    for (int i = 1; i < 60000; i++)
        buf_printf(&b, ",(%d,%d)", i, i);
    buf_adds(&b, ";\n-- Dump completed\n");
    assert_int_equal(plan_text(b.p, &p, &r, &e), 0);
    assert_true(r.ends);
    plan_free(&p);
    b.p[b.len / 2] = ';';
    assert_int_equal(plan_text(b.p, &p, &r, &e), -1);
    plan_free(&p);
    buf_free(&b);
}

/* Each user variable of a file is kept, and looked for among the others: not without end. */
static void test_many_variables(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        SCOPED(buf_free) struct buf b = {0};
        struct plan p;
        struct import_report r = {0};
        struct err e;
        for (int i = 0; i < 1000 + more; i++)
            buf_printf(&b, "SET @v%d=1;\n", i);
        buf_adds(&b, "SET @v0=2, @v999=3;\n" BAG);
        assert_int_equal(plan_text(b.p, &p, &r, &e), more ? -1 : 0);
        if (more) {
            assert_non_null(strstr(e.text, "line 1001: "));
            assert_non_null(strstr(e.text, "which sets v1000"));
        }
        plan_free(&p);
    }
}

/* Parts that were put one after the other. */
static void test_parts(void **state)
{
    (void)state;
    static const char head[] = "-- MariaDB dump 10.19\n", done[] = "-- Dump completed\n",
                      a[] = BAG "INSERT INTO `bag` VALUES (1,2);\n",
                      b[] = "CREATE TABLE `c` (\n  `id` int\n) ENGINE=MEMORY;\n";
    static const struct {
        const char *parts[7];
        bool ends;
    } cases[] = {
        {{head, a, done, head, b, done, ""}, true},
        {{head, a, done, head, b, "", ""}, false},
        {{head, a, "", head, b, done, ""}, false},
        {{head, a, done, "", b, done, ""}, true},
        {{head, a, done, "", b, "", ""}, false},
        {{head, a, done, "-- a word behind it\n", "", "", ""}, true},
        {{head, done, "COMMIT;\n", "", "", "", ""}, false},
        {{head, "", "", "", "", "", ""}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf text = {0};
        struct plan p;
        struct import_report r = {0};
        struct err e;
        for (size_t k = 0; k < 7; k++)
            buf_adds(&text, cases[i].parts[k]);
        assert_int_equal(plan_text(text.p, &p, &r, &e), 0);
        assert_int_equal(r.ends, cases[i].ends);
        plan_free(&p);
        buf_free(&text);
    }
}

static void test_packed(void **state)
{
    (void)state;
    static const char text[] = BAG "INSERT INTO `bag` VALUES (1,2);\n-- Dump completed\n";
    char name[64];
    struct plan p;
    struct import_report r = {0};
    struct err e;
    snprintf(name, sizeof name, "%s/x.gz", kit_path);
    gzFile gz = gzopen(name, "wb");
    assert_int_equal(gzwrite(gz, text, sizeof text - 1), sizeof text - 1);
    gzclose(gz);
    assert_int_equal(plan(openat(kit_dir, "x.gz", O_RDONLY | O_CLOEXEC), &p, &r, &e), 0);
    assert_true(r.ends && p.count == 1);
    plan_free(&p);
    int fd = openat(kit_dir, "x.gz", O_RDWR | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);
    assert_int_equal(ftruncate(fd, size - 9), 0);
    assert_int_equal(plan(fd, &p, &r, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    plan_free(&p);
}

static void test_no_file(void **state)
{
    (void)state;
    struct plan p;
    struct import_report r = {0};
    struct err e;
    int pipes[2];
    assert_int_equal(plan(openat(kit_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &p, &r, &e),
                     -1);
    assert_int_equal(e.num, EISDIR);
    plan_free(&p);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(plan(pipes[0], &p, &r, &e), -1);
    assert_int_equal(e.num, ESPIPE);
    close(pipes[1]);
    plan_free(&p);
}

#define FOREIGN_TEST(f) cmocka_unit_test_teardown(f, kit_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOREIGN_TEST(test_a_long_comment), FOREIGN_TEST(test_whole),
        FOREIGN_TEST(test_refused),        FOREIGN_TEST(test_accepted),
        FOREIGN_TEST(test_magic),          FOREIGN_TEST(test_empty),
        FOREIGN_TEST(test_long),           FOREIGN_TEST(test_parts),
        FOREIGN_TEST(test_packed),         FOREIGN_TEST(test_no_file),
        FOREIGN_TEST(test_many_variables),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
