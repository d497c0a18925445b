/* restore/import: what a dump of mysqldump is planned as, and what is refused, with the number of
 * the statement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <zlib.h>

#include "dir_kit.h"
#include "restore/import.h"

static char sentinel[] = "worldkeeper";
static const struct config cfg = {.sentinel = sentinel};
static const struct job job = {.cfg = &cfg};

static int plan(int fd, struct plan *p, struct import_report *r, struct err *e)
{
    *p = (struct plan){.job = &job};
    *e = (struct err){0};
    int rc = import_plan(fd, "x.sql", p, NULL, r, e);
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

static void test_whole(void **state)
{
    (void)state;
    static const char text[] =
        "/*M!999999\\- enable the sandbox mode */ \n"
        "-- MariaDB dump\n# a comment\n/* and one of more\nlines */;\n"
        "/*!40101 SET NAMES utf8mb4 */;\n"
        "DROP TABLE IF EXISTS `bag`;\n"
        "CREATE TABLE IF NOT EXISTS `bag` (\n  `id` int NOT NULL,\n"
        "  `twice` int GENERATED ALWAYS AS (`id` * 2) VIRTUAL,\n  `v;` int,\n"
        "  PRIMARY KEY (`id`)\n) ENGINE=MEMORY AUTO_INCREMENT=17 DEFAULT CHARSET=utf8mb4;\n"
        "CREATE TABLE plain$1 (\n  `a` int\n) ;\n"
        "/*M!100000 LOCK TABLES `bag` WRITE */;\n"
        "INSERT INTO `bag` VALUES (1,2,'a;b'),(2,4,NULL);\nINSERT INTO plain$1 VALUES (1);\n"
        "DELIMITER ;;\nCREATE TRIGGER t BEFORE INSERT ON bag FOR EACH ROW BEGIN SET @a=1; END ;;\n"
        "DELIMITER ;\nUNLOCK TABLES;\n-- Dump completed on 2026-01-01\n";
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
        {"GRANT ALL ON *.* TO x;\n", "statement 1 is not one", ERR_REFUSED},
        {BAG "UPDATE `bag` SET v=1;\n", "statement 2 is not one", ERR_REFUSED},
        {"INSERT INTO `bag` VALUES (1,2);\n", "statement 1 is not one", ERR_REFUSED},
        {BAG "INSERT INTO `bag` VALUES (1,SLEEP(9));\n", "statement 2", ERR_REFUSED},
        {BAG "INSERT INTO `bag` SELECT * FROM mysql.user;\n", "statement 2", ERR_REFUSED},
        {BAG "INSERT INTO other.bag VALUES (1,2);\n", "statement 2", ERR_REFUSED},
        {"CREATE TABLE other.bag (\n  `a` int\n);\n", "statement 1", ERR_REFUSED},
        {"CREATE TABLE \"bag\" (a int);\n", "statement 1", ERR_REFUSED},
        {"CREATE TABLE `bag", "statement 1 is cut off", ERR_DAMAGED},
        {BAG "INSERT INTO `bag` VALUES (1,2)", "statement 2 is cut off", ERR_DAMAGED},
        {BAG "INSERT INTO `bag` VALUES (1,'a;\n", "statement 2 is cut off", ERR_DAMAGED},
        {BAG "DELIMITER \nDROP TABLE `bag`;\n", "without a delimiter before statement 2",
         ERR_DAMAGED},
        {"/*!50001 GRANT ALL ON *.* TO x */;\n", "statement 1 is not one", ERR_REFUSED},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct plan p;
        struct import_report r = {0};
        struct err e;
        assert_int_equal(plan_text(cases[i].text, &p, &r, &e), -1);
        if (!strstr(e.text, cases[i].says))
            fail_msg("%s: %s", cases[i].text, e.text);
        assert_int_equal(e.cls, cases[i].cls);
        assert_false(r.ends);
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
        FOREIGN_TEST(test_whole),   FOREIGN_TEST(test_refused), FOREIGN_TEST(test_empty),
        FOREIGN_TEST(test_long),    FOREIGN_TEST(test_parts),   FOREIGN_TEST(test_packed),
        FOREIGN_TEST(test_no_file),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
