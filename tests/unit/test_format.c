/* dump/format: written text is read back item by item, wherever it is cut into pieces, at once or
 * one table at a time; text that this program would not write is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/gunzip.h"
#include "dump_kit.h"

typedef struct format_reader *opener(struct gunzip *in, const char *name);

/* Each item as a line. */
static int log_reader(struct format_reader *r, struct buf *log, struct err *e)
{
    struct format_item item;
    int rc;
    while ((rc = format_next(r, &item, e)) == 0) {
        static const char types[] = "CRDE";
        buf_printf(log, "%c ", types[item.type]);
        if (item.type == FORMAT_END)
            break;
        if (item.type == FORMAT_ROWS)
            buf_printf(log, "%" PRIu64 " %" PRIx64 " %s ", item.rows, item.rows_hash, item.columns);
        if (item.type != FORMAT_DEFINITION)
            buf_printf(log, "<%s> ", item.table);
        buf_add(log, item.sql, item.sql_len);
        buf_addc(log, '\n');
    }
    format_close(r);
    return rc;
}

static int log_file(opener *open_as, int fd, struct buf *log, struct err *e)
{
    struct gunzip *in = gunzip_open_plain(fd, "d", e);
    int rc = log_reader(open_as(in, "d"), log, e);
    gunzip_close(in);
    return rc;
}

static int log_as(opener *open_as, const char *text, size_t len, struct buf *log, struct err *e)
{
    kit_put("t", text, len);
    int fd = openat(kit_dir, "t", O_RDONLY | O_CLOEXEC);
    int rc = log_file(open_as, fd, log, e);
    close(fd);
    return rc;
}

static struct format_reader *open_rows(struct gunzip *in, const char *name)
{
    return format_open_rows(in, name, false);
}

static int log_text(const char *text, size_t len, struct buf *log, struct err *e)
{
    return log_as(format_open, text, len, log, e);
}

/* ---- round trip ---- */

static void test_round_trip(void **state)
{
    (void)state;
    struct buf text = {0}, log = {0}, want = {0};
    struct err e = {0};
    static const char columns[] = "(`id`,`na``me`)";
    static const char create[] =
        " (\n  `id` int COMMENT 'a;b -- ''',\n  `na``me` text\n) ENGINE=MEMORY\n";
    const char *const *u = kit_tables[0].rows, *s = kit_tables[2].rows[0];
    uint64_t first = sql_tuple_hash(u[0], strlen(u[0])) + sql_tuple_hash(u[1], strlen(u[1]));
    buf_printf(&want, "C <users> CREATE TABLE `users`%s", create);
    buf_printf(&want, "R 2 %" PRIx64 " %s <users> %s,\n%s\n", first, columns, u[0], u[1]);
    buf_printf(&want, "R 1 %" PRIx64 " %s <users> %s\n", sql_tuple_hash(u[2], strlen(u[2])),
               columns, u[2]);
    buf_printf(&want, "C <empty> CREATE TABLE `empty`%s", create);
    buf_adds(&want, "D SET sql_mode='NO_BACKSLASH_ESCAPES'\n"
                    "D CREATE TRIGGER `t` BEGIN -- don't;\nSET @a='\\'; SET @b=5--1\n");
    buf_printf(&want, "C <wk`s> CREATE TABLE `wk``s`%s", create);
    buf_printf(&want, "R 1 %" PRIx64 " %s <wk`s> %s\nE ", sql_tuple_hash(s, strlen(s)), columns, s);
    kit_dump_text(&text);
    if (log_text(text.p, text.len, &log, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(log.p, want.p);
    buf_free(&text);
    buf_free(&log);
    buf_free(&want);
}

static void test_texts(void **state)
{
    (void)state;
    struct buf b = {0};
    format_header(&b, 12345);
    assert_true(text_starts(b.p, FORMAT_MAGIC));
    assert_non_null(
        strstr(b.p, "max_heap_table_size=CAST(GREATEST(@@SESSION.max_heap_table_size,12345) AS "
                    "UNSIGNED);\n"));
    buf_clear(&b);
    format_keyless(&b);
    assert_true(
        text_starts(b.p, "/*!80013 SET @worldkeeper=IF(@@SESSION.sql_require_primary_key=0,'DO 0',"
                         "'SET SESSION sql_require_primary_key=0') */;\n/*!80013 PREPARE "));
    buf_clear(&b);
    format_timestamps(&b);
    assert_true(text_starts(b.p, "/*M!101002 SET SESSION explicit_defaults_for_timestamp=1 */;\n"));
    assert_non_null(strstr(b.p, "explicit_defaults_for_timestamp=1,'DO 0',"));
    buf_clear(&b);
    format_table(&b, "a`b", "CREATE TABLE `a``b` (x)");
    assert_string_equal(b.p, "DROP TABLE IF EXISTS `a``b`;\nSET NAMES utf8mb4;\n"
                             "CREATE TABLE `a``b` (x);\nSET NAMES binary;\n");
    buf_clear(&b);
    format_alter(&b, "a`b", " MODIFY `x` float");
    assert_string_equal(b.p, "SET NAMES utf8mb4;\nALTER TABLE `a``b` MODIFY `x` float;\n"
                             "SET NAMES binary;\n");
    buf_clear(&b);
    format_insert(&b, "a`b", kit_columns());
    assert_string_equal(b.p, "INSERT INTO `a``b` (`id`,`na``me`) VALUES\n");
    buf_clear(&b);
    format_trailer(&b, 3, UINT64_MAX);
    assert_string_equal(b.p, "-- worldkeeper end tables=3 rows=18446744073709551615\n");
    buf_free(&b);
}

/* ---- pieces ---- */

/* A pipe in packet mode gives one piece a read. */
static int read_pieces(opener *open_as, const char *text, const size_t *cuts, size_t count,
                       struct buf *log, struct err *e)
{
    int ends[2];
    size_t done = 0;
    assert_int_equal(pipe2(ends, O_DIRECT | O_CLOEXEC), 0);
    for (size_t i = 0; i < count; i++) {
        if (cuts[i] > done)
            assert_int_equal(write(ends[1], text + done, cuts[i] - done), cuts[i] - done);
        done = cuts[i];
    }
    close(ends[1]);
    int rc = log_file(open_as, ends[0], log, e);
    close(ends[0]);
    return rc;
}

static void test_two_pieces(void **state)
{
    (void)state;
    struct buf text = {0}, whole = {0}, log = {0};
    struct err e = {0};
    kit_dump_text(&text);
    assert_int_equal(log_text(text.p, text.len, &whole, &e), 0);
    for (size_t cut = 1; cut < text.len; cut++) {
        buf_clear(&log);
        if (read_pieces(format_open, text.p, (size_t[]){cut, text.len}, 2, &log, &e) < 0)
            fail_msg("cut at %zu: %s", cut, e.text);
        assert_string_equal(log.p, whole.p);
    }
    buf_free(&text);
    buf_free(&whole);
    buf_free(&log);
}

static void test_bytes(void **state)
{
    (void)state;
    struct buf text = {0}, whole = {0}, log = {0};
    struct err e = {0};
    int ends[2];
    kit_dump_text(&text);
    assert_int_equal(log_text(text.p, text.len, &whole, &e), 0);
    assert_int_equal(pipe2(ends, O_DIRECT | O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < text.len; i++)
            if (write(ends[1], text.p + i, 1) != 1)
                _exit(1);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(log_file(format_open, ends[0], &log, &e), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_string_equal(log.p, whole.p);
    close(ends[0]);
    buf_free(&text);
    buf_free(&whole);
    buf_free(&log);
}

/* Statements longer than what is read at once, so that text moves under the reader. */
static void test_long_statements(void **state)
{
    (void)state;
    struct buf text = {0}, want = {0}, log = {0};
    struct err e = {0};
    format_header(&text, 1);
    format_table(&text, "t", "CREATE TABLE `t` (`id` int)");
    buf_adds(&want, "C <t> CREATE TABLE `t` (`id` int)\n");
    size_t rows = 0;
    for (size_t len = 262002; len < 262300; len += 12, rows++) {
        struct buf row = {0};
        buf_printf(&row, "(%zu,'", len);
        for (size_t i = 0; i < len; i++)
            buf_addc(&row, "\\;a,)("[i % 6]);
        buf_adds(&row, "\\'')");
        format_insert(&text, "t", kit_columns());
        buf_printf(&text, "%s;\n", row.p);
        buf_printf(&want, "R 1 %" PRIx64 " (`id`,`na``me`) <t> %s\n",
                   sql_tuple_hash(row.p, row.len), row.p);
        buf_free(&row);
    }
    format_trailer(&text, 1, rows);
    buf_adds(&want, "E ");
    if (log_text(text.p, text.len, &log, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(log.len, want.len);
    assert_memory_equal(log.p, want.p, want.len);
    buf_free(&text);
    buf_free(&want);
    buf_free(&log);
}

/* ---- the part of one table, and what is left of a dump without them ---- */

/* Names and values in which a statement, a row or a head of an INSERT seems to begin or to end. */
static const char *const odd_names[] = {
    "t",
    "`",
    "``",
    ";",
    ";\n",
    "a;\nb",
    "`;\n",
    "` (`id`) VALUES\n(1);\n",
    " VALUES\n(1)",
    ") VALUES\n",
    "a`` VALUES\n(",
    "x` (`id`,`na``me`) VALUES\n",
    "INSERT INTO `t` (`a`) VALUES\n(1);\nCREATE TABLE `t` (x);\n",
    "\n-- worldkeeper end tables=1 rows=0\n",
    "DELIMITER ;;\n",
    "back\\slash\\",
    "it's \"q\"",
    "/* # -- ",
};
static const char *const odd_rows[] = {
    "(1,'')",       "(2,';\\n')",
    "(3,'),\\n(')", "(4,';\\nINSERT INTO `t` (`a`) VALUES\\n(1);\\n')",
    "(5,'\\';')",   "(6,'\\\\')",
    "(7,');')",     "(8,'\\\\\\';\\n')",
    "(9,'\\n')",    "(10,'`;-- /* # */ \\\"')",
    "(11,NULL)",    "(12,_latin1';\\n')",
    "(13,0x3b0a)",  "(-0.5e-300,'x')",
};

static const struct db_table *odd_columns(const char *name)
{
    static char id[] = "id", type[] = "int", second[200];
    static struct db_column columns[] = {{.name = id, .type = type},
                                         {.name = second, .type = type}};
    static const struct db_table t = {.columns = columns, .column_count = 2};
    snprintf(second, sizeof second, "%s", name);
    return &t;
}

/* Three statements, of which the second and third begin as the one before did. */
static void odd_part(struct buf *text, struct buf *want, const char *table, const char *column)
{
    struct buf create = {0}, list = {0};
    buf_adds(&create, "CREATE TABLE ");
    sql_ident(&create, table);
    buf_adds(&create, " (`id` int)");
    format_table(text, table, create.p);
    buf_printf(want, "C <%s> %s\n", table, create.p);
    buf_adds(&list, "(`id`,");
    sql_ident(&list, column);
    buf_addc(&list, ')');
    for (size_t i = 0, n; i < COUNT(odd_rows); i += n) {
        struct buf rows = {0};
        uint64_t hash = 0;
        n = i == 0 ? 1 : (COUNT(odd_rows) - 1) / 2 + (i > 1);
        n = i + n > COUNT(odd_rows) ? COUNT(odd_rows) - i : n;
        for (size_t k = i; k < i + n; k++) {
            buf_printf(&rows, "%s%s", k > i ? ",\n" : "", odd_rows[k]);
            hash += sql_tuple_hash(odd_rows[k], strlen(odd_rows[k]));
        }
        format_insert(text, table, odd_columns(column));
        buf_printf(text, "%s;\n", rows.p);
        buf_printf(want, "R %zu %" PRIx64 " %s <%s> %s\n", n, hash, list.p, table, rows.p);
        buf_free(&rows);
    }
    buf_adds(want, "E ");
    buf_free(&create);
    buf_free(&list);
}

static void test_odd_names(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(odd_names); t++)
        for (size_t c = 0; c < COUNT(odd_names); c++) {
            struct buf text = {0}, want = {0}, log = {0};
            struct err e = {0};
            odd_part(&text, &want, odd_names[t], odd_names[c]);
            if (log_as(format_open_table, text.p, text.len, &log, &e) < 0)
                fail_msg("table %s, column %s: %s", odd_names[t], odd_names[c], e.text);
            assert_string_equal(log.p, want.p);
            buf_free(&text);
            buf_free(&want);
            buf_free(&log);
        }
}

/* Wherever two reads meet. */
static void test_odd_names_in_pieces(void **state)
{
    (void)state;
    static const size_t picked[] = {0, 4, 7, 11};
    for (size_t i = 0; i < COUNT(picked); i++) {
        struct buf text = {0}, want = {0}, log = {0};
        const char *name = odd_names[picked[i]];
        odd_part(&text, &want, name, name);
        for (size_t cut = 1; cut < text.len; cut++) {
            struct err e = {0};
            size_t cuts[] = {cut, cut + 1 < text.len ? cut + 1 : text.len, text.len};
            buf_clear(&log);
            if (read_pieces(format_open_table, text.p, cuts, 3, &log, &e) < 0)
                fail_msg("table %s cut at %zu: %s", name, cut, e.text);
            assert_string_equal(log.p, want.p);
        }
        buf_free(&text);
        buf_free(&want);
        buf_free(&log);
    }
}

/* What is read of a part that was cut is what the whole one begins with; whether it is all is known
 * by the manifest. */
static void test_cut_part(void **state)
{
    (void)state;
    struct buf text = {0}, want = {0}, log = {0};
    size_t ends = 0;
    odd_part(&text, &want, "t;\n", "`;\n");
    for (size_t len = 0; len < text.len; len++) {
        struct err e = {0};
        buf_clear(&log);
        buf_adds(&log, "");
        if (log_as(format_open_table, text.p, len, &log, &e) == 0) {
            ends++;
            log.len -= 2; /* "E " */
        } else {
            assert_int_equal(e.cls, ERR_DAMAGED);
        }
        if (log.len > want.len || memcmp(log.p, want.p, log.len) != 0)
            fail_msg("%zu bytes: %s", len, log.p);
    }
    /* At most where a statement ends, with and without its line end, and in front of all. */
    assert_in_range(ends, 1, 2 * 7 + 1);
    buf_free(&text);
    buf_free(&want);
    buf_free(&log);
}

/* A raw line end was never written by us. It may be read as what it is, but not as the end. */
static void test_raw_line_ends(void **state)
{
    (void)state;
    static const char *const values[] = {"a\nb", ";\n", ",\n", "),\n(5,", ");\n", "\r\n", "\n"};
    for (size_t i = 0; i < COUNT(values); i++)
        for (size_t first = 0; first < 2; first++) {
            struct buf text = {0}, log = {0};
            struct err e = {0};
            format_table(&text, "t", "CREATE TABLE `t` (x)");
            if (!first) {
                format_insert(&text, "t", kit_columns());
                buf_adds(&text, "(0,'');\n");
            }
            format_insert(&text, "t", kit_columns());
            buf_printf(&text, "(1,'%s');\n", values[i]);
            if (log_as(format_open_table, text.p, text.len, &log, &e) == 0) {
                struct buf row = {0};
                buf_printf(&row, "<t> (1,'%s')\nE ", values[i]);
                assert_true(log.len > row.len);
                assert_string_equal(log.p + log.len - row.len, row.p);
                buf_free(&row);
            } else {
                assert_int_equal(e.cls, ERR_DAMAGED);
            }
            buf_free(&text);
            buf_free(&log);
        }
}

static void test_parts_make_the_whole(void **state)
{
    (void)state;
    struct buf parts[KIT_PARTS], text = {0}, rest = {0}, whole = {0}, log = {0};
    struct err e = {0};
    kit_parts(parts);
    kit_dump_text(&text);
    assert_int_equal(log_text(text.p, text.len, &whole, &e), 0);
    for (size_t i = 0; i < KIT_PARTS; i++) {
        if (kit_part_table(i) < 0) {
            buf_add(&rest, parts[i].p, parts[i].len);
            continue;
        }
        buf_clear(&log);
        assert_int_equal(log_as(format_open_table, parts[i].p, parts[i].len, &log, &e), 0);
        log.p[log.len - 2] = '\0'; /* "E " */
        assert_non_null(strstr(whole.p, log.p));
    }
    buf_clear(&log);
    assert_int_equal(log_reader(format_open_rest(&rest, "d", KIT_TABLES, KIT_ROWS), &log, &e), 0);
    assert_null(rest.p);
    assert_string_equal(log.p, "D SET sql_mode='NO_BACKSLASH_ESCAPES'\n"
                               "D CREATE TRIGGER `t` BEGIN -- don't;\nSET @a='\\'; SET @b=5--1\n"
                               "E ");
    kit_parts_free(parts);
    buf_free(&text);
    buf_free(&whole);
    buf_free(&log);
}

/* A cut rest never passes, and so does none with other counts. */
static void test_cut_rest(void **state)
{
    (void)state;
    struct buf parts[KIT_PARTS], text = {0};
    kit_parts(parts);
    for (size_t i = 0; i < KIT_PARTS; i++)
        if (kit_part_table(i) < 0)
            buf_add(&text, parts[i].p, parts[i].len);
    for (size_t len = 0; len <= text.len + 3; len++) {
        struct buf rest = {0}, log = {0};
        struct err e = {0};
        size_t over = len > text.len ? len - text.len : 0;
        buf_add(&rest, text.p, len - over);
        int rc = log_reader(format_open_rest(&rest, "d", over == 1 ? KIT_TABLES + 1 : KIT_TABLES,
                                             over == 2   ? KIT_ROWS - 1
                                             : over == 3 ? UINT64_MAX
                                                         : KIT_ROWS),
                            &log, &e);
        assert_int_equal(rc, len == text.len ? 0 : -1);
        assert_int_equal(e.cls, len == text.len ? ERR_NONE : ERR_DAMAGED);
        buf_free(&log);
    }
    kit_parts_free(parts);
    buf_free(&text);
}

static void test_empty_part(void **state)
{
    (void)state;
    struct buf log = {0};
    struct err e = {0};
    assert_int_equal(log_as(format_open_table, "", 0, &log, &e), 0);
    assert_string_equal(log.p, "E ");
    buf_free(&log);
}

/* CPU time of reading one row with a value of so many bytes. */
static double seconds_for(size_t len)
{
    struct buf text = {0}, log = {0};
    struct err e = {0};
    struct timespec t[2];
    format_table(&text, "t", "CREATE TABLE `t` (x)");
    format_insert(&text, "t", kit_columns());
    buf_adds(&text, "(1,'");
    buf_reserve(&text, len);
    memset(text.p + text.len, 'x', len);
    text.len += len;
    buf_adds(&text, "');\n");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[0]);
    if (log_as(format_open_table, text.p, text.len, &log, &e) < 0)
        fail_msg("%s", e.text);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[1]);
    assert_true(log.len > len);
    buf_free(&text);
    buf_free(&log);
    return (double)(t[1].tv_sec - t[0].tv_sec) + (double)(t[1].tv_nsec - t[0].tv_nsec) / 1e9;
}

/* A value that comes in many reads is not reset with each: four times as long a one takes
 * about four times as long, not sixteen times. */
static void test_huge_value(void **state)
{
    (void)state;
    double small = seconds_for(16u << 20), large = seconds_for(64u << 20);
    if (large > 8 * small)
        fail_msg("16 MiB took %.2f s, 64 MiB %.2f s", small, large);
}

/* ---- refused ---- */

/* `from` in the small dump becomes `to`. */
static const struct {
    const char *from, *to, *error;
} edits[] = {
    {"-- worldkeeper dump 1\n", "-- worldkeeper dump 2\n", "not a dump of this program"},
    {"-- worldkeeper dump 1\n", "-- MySQL dump 10.13\n", "not a dump of this program"},
    {"-- worldkeeper dump 1\n", "", "not a dump of this program"},
    {"(1,'orc')", "(SLEEP(5),'orc')", "rows with values that are not literals"},
    {"(1,'orc')", "((SELECT 1),'orc')", "rows with values that are not literals"},
    {"(1,'orc')", "(@a,'orc')", "rows with values that are not literals"},
    {"(1,'orc')", "(1+1,'orc')", "rows with values that are not literals"},
    {"(1,'orc')", "(1,`id`)", "rows with values that are not literals"},
    {"(1,'orc')", "(1)", "rows with values that are not literals"},
    {"(1,'orc')", "(1,'orc',1)", "rows with values that are not literals"},
    {"(1,'orc'),\n", "(1,'orc'), ", "rows with values that are not literals"},
    {"(1,'orc'),\n", "(1,'orc')\n", "rows with values that are not literals"},
    {"(1,'orc'),\n", "(1,'orc'),\n\n", "rows with values that are not literals"},
    {"(1,'orc'),\n", "(1,'orc');;\n", "rows with values that are not literals"},
    {"(1,'orc'),\n", "(1,'orc'); \n", "rows with values that are not literals"},
    {"(1,'orc'),\n", "(1,'orc');", "rows with values that are not literals"},
    {"(1,'orc'),\n", "(1,'orc') ,\n", "rows with values that are not literals"},
    {"(-3,NULL);\n", "(-3,NULL); INSERT INTO `users` (`id`,`na``me`) VALUES\n(4,'');\n",
     "rows with values that are not literals"},
    {"(-3,NULL)", "(-3,NULL),\n", "rows with values that are not literals"},
    {"(-3,NULL)", "(-3,NULL) ON DUPLICATE KEY UPDATE id=1",
     "rows with values that are not literals"},
    {"(-3,NULL)", "", "rows with values that are not literals"},
    {"INSERT INTO `users` (", "INSERT INTO `user` (", "INSERT that this program did not write"},
    {"INSERT INTO `users` (", "INSERT INTO users (", "INSERT that this program did not write"},
    {"INSERT INTO `users` (", "INSERT INTO `x`.`users` (",
     "INSERT that this program did not write"},
    {"INSERT INTO `users` (`id`,`na``me`) VALUES\n", "INSERT INTO `users` VALUES\n",
     "INSERT that this program did not write"},
    {"(`id`,`na``me`) VALUES\n", "(`id`,na) VALUES\n", "INSERT that this program did not write"},
    {"(`id`,`na``me`) VALUES\n", "(`id`,`na``me`,) VALUES\n",
     "INSERT that this program did not write"},
    {"(`id`,`na``me`) VALUES\n", "() VALUES\n", "INSERT that this program did not write"},
    {"(`id`,`na``me`) VALUES\n", "(`id`,`na``me`) VALUES ",
     "INSERT that this program did not write"},
    {"(`id`,`na``me`) VALUES\n", "(`id`,`na``me`) SELECT\n",
     "INSERT that this program did not write"},
    {"(`id`,`na``me`) VALUES\n", "(`id`) VALUES\n", "rows with values that are not literals"},
    {"INSERT INTO `users`", "INSERT IGNORE INTO `users`",
     "a statement that this program did not write"},
    {"INSERT INTO `users`", "REPLACE INTO `users`", "a statement that this program did not write"},
    {"CREATE TABLE `users`", "CREATE TABLE users", "CREATE TABLE without a quoted name"},
    {"CREATE TABLE `users`", "CREATE DATABASE `users`",
     "a statement that this program did not write"},
    {"CREATE TABLE `users`", "create table `users`", "a statement that this program did not write"},
    {"DROP TABLE IF EXISTS `empty`", "DROP DATABASE `empty`",
     "a statement that this program did not write"},
    {"DROP TABLE IF EXISTS `empty`", "\\! id", "a statement that this program did not write"},
    {"DROP TABLE IF EXISTS `empty`", ";", "a statement that this program did not write"},
    {"DELIMITER ;;\n", "DELIMITER \n", "DELIMITER without a delimiter"},
    {"rows=4\n", "rows=5\n", "the trailer's counts of tables and rows differ from what was read"},
    {"rows=4\n", "rows=4 \n", "the trailer's counts of tables and rows differ from what was read"},
    {"rows=4\n", "rows=+4\n", "the trailer's counts of tables and rows differ from what was read"},
    {"rows=4\n", "rows=04\n", "the trailer's counts of tables and rows differ from what was read"},
    {"rows=4\n", "rows=18446744073709551620\n",
     "the trailer's counts of tables and rows differ from what was read"},
    {"rows=4\n", "rows=4", "an incomplete line"},
    {"rows=4\n", "rows=4\n\n", "text after the trailer"},
    {"rows=4\n", "rows=4\n-- ", "text after the trailer"},
    {"tables=3 ", "tables=2 ", "the trailer's counts of tables and rows differ from what was read"},
    {"tables=3 ", "tables= 3 ",
     "the trailer's counts of tables and rows differ from what was read"},
    {"tables=3 rows=4\n", "tables=3\nrows=4\n",
     "the trailer's counts of tables and rows differ from what was read"},
    {"-- worldkeeper end", "-- worldkeeper End", "its trailer is missing"},
    {"DELIMITER ;\n", "", NULL},
};

static void check_edit(const struct buf *text, size_t i)
{
    struct buf log = {0}, b = {0};
    struct err e = {0};
    const char *at = strstr(text->p, edits[i].from);
    assert_non_null(at);
    buf_add(&b, text->p, (size_t)(at - text->p));
    buf_adds(&b, edits[i].to);
    buf_adds(&b, at + strlen(edits[i].from));
    if (log_text(b.p, b.len, &log, &e) == 0)
        fail_msg("%s instead of %s was read", edits[i].to, edits[i].from);
    assert_int_equal(e.cls, ERR_DAMAGED);
    if (edits[i].error && !strstr(e.text, edits[i].error))
        fail_msg("%s instead of %s: %s", edits[i].to, edits[i].from, e.text);
    buf_free(&b);
    buf_free(&log);
}

static void test_edits(void **state)
{
    (void)state;
    struct buf text = {0};
    kit_dump_text(&text);
    for (size_t i = 0; i < COUNT(edits); i++)
        check_edit(&text, i);
    buf_free(&text);
}

/* No beginning of it is a dump. */
static void test_cut(void **state)
{
    (void)state;
    struct buf text = {0}, log = {0};
    kit_dump_text(&text);
    for (size_t len = 0; len < text.len; len++) {
        struct err e = {0};
        buf_clear(&log);
        if (log_text(text.p, len, &log, &e) == 0)
            fail_msg("%zu bytes of %zu are whole?", len, text.len);
        assert_int_equal(e.cls, ERR_DAMAGED);
    }
    buf_free(&text);
    buf_free(&log);
}

/* Bytes of no meaning, where a careless reader would count wrong. */
static void test_nul_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
        {FORMAT_MAGIC "DELIMITER ;\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\nSET x;", 22 + 34},
        {FORMAT_MAGIC "DELIMITER \0\nSET x\0", 22 + 18},
        {FORMAT_MAGIC "DROP TABLE IF EXISTS `a`;\nCREATE TABLE `a\0` (x);\n", 22 + 50},
        {FORMAT_MAGIC "\0\0\0\0\0\0\0\0", 22 + 8},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf log = {0};
        struct err e = {0};
        assert_int_equal(log_text(cases[i].text, cases[i].len, &log, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
        buf_free(&log);
    }
}

/* What is read at once ends anywhere in the head of a statement, which is the one of before. */
static void test_head_cut_where_reading_ends(void **state)
{
    (void)state;
    static const char head[] =
        "INSERT INTO `a table of the game` (`the first column of it`,`the second one`,"
        "`the third column`) VALUES\n";
    enum { AT_ONCE = 262144 }; /* READ_CHUNK of format.c */
    for (size_t cut = 0; cut <= sizeof head; cut++) {
        struct buf text = {0}, log = {0};
        struct err e = {0};
        buf_adds(&text, "-- rows\n");
        buf_adds(&text, head);
        buf_adds(&text, "(1,2,'");
        while (text.len < AT_ONCE - cut - strlen("');\n"))
            buf_addc(&text, 'x');
        buf_adds(&text, "');\n");
        buf_adds(&text, head);
        buf_adds(&text, "(3,4,'y'),\n(5,6,'z');\n");
        if (log_as(open_rows, text.p, text.len, &log, &e) < 0)
            fail_msg("%zu bytes of the head: %s", cut, e.text);
        assert_non_null(strstr(log.p, "R 2 "));
        buf_free(&text);
        buf_free(&log);
    }
}

/* ---- definitions in comments ---- */

/* The columns' types precede the rows of their table, whatever names and lengths they have, and are
 * those of no other table. */
static void test_columns_comment(void **state)
{
    (void)state;
    struct buf text = {0}, members = {0}, want = {0};
    struct err e = {0};
    buf_adds(&members, "enum('");
    for (size_t i = 0; i < 70000; i++)
        buf_addc(&members, (char)('a' + i % 26));
    buf_adds(&members, "')");
    char odd[] = "k\nCREATE TABLE `u` (", made[] = "made", n[] = "n", number[] = "int(10) unsigned";
    struct db_column list[] = {{.name = odd, .type = members.p, .charset = "latin1"},
                               {.name = made, .type = number, .generated = true},
                               {.name = n, .type = number}};
    struct db_table t = {.columns = list, .column_count = 3};
    format_columns_comment(&text, "t\n`", &t);
    buf_adds(&text, "INSERT INTO `u` (`n`) VALUES\n(1);\n"
                    "INSERT INTO `t\n``` (`n`) VALUES\n(1);\n-- worldkeeper end tables=2 rows=2\n");
    for (const char *s = text.p; *s; s += strcspn(s, "\n") + 1)
        assert_in_range(strcspn(s, "\n"), 0, 8192);
    buf_printf(&want,
               "CREATE TABLE `t\n``` (\n  `k\nCREATE TABLE ``u`` (` %s CHARACTER SET latin1,\n"
               "  `n` int(10) unsigned\n)",
               members.p);
    kit_put("t", text.p, text.len);
    int fd = openat(kit_dir, "t", O_RDONLY | O_CLOEXEC);
    struct gunzip *in = gunzip_open_plain(fd, "t", &e);
    struct format_reader *r = format_open_rows(in, "f", true);
    struct format_item item = {0};
    assert_int_equal(format_next(r, &item, &e), 0);
    assert_string_equal(item.definition, "");
    assert_int_equal(format_next(r, &item, &e), 0);
    assert_string_equal(item.definition, want.p);
    assert_int_equal(format_next(r, &item, &e), 0);
    assert_int_equal(item.type, FORMAT_END);
    format_close(r);
    gunzip_close(in);
    close(fd);
    buf_free(&text);
    buf_free(&members);
    buf_free(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_columns_comment, kit_clean),
        cmocka_unit_test(test_head_cut_where_reading_ends),
        cmocka_unit_test_teardown(test_round_trip, kit_clean),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_two_pieces),
        cmocka_unit_test_teardown(test_bytes, kit_clean),
        cmocka_unit_test_teardown(test_long_statements, kit_clean),
        cmocka_unit_test_teardown(test_odd_names, kit_clean),
        cmocka_unit_test(test_odd_names_in_pieces),
        cmocka_unit_test_teardown(test_cut_part, kit_clean),
        cmocka_unit_test_teardown(test_raw_line_ends, kit_clean),
        cmocka_unit_test_teardown(test_parts_make_the_whole, kit_clean),
        cmocka_unit_test(test_cut_rest),
        cmocka_unit_test_teardown(test_empty_part, kit_clean),
        cmocka_unit_test_teardown(test_huge_value, kit_clean),
        cmocka_unit_test_teardown(test_edits, kit_clean),
        cmocka_unit_test_teardown(test_cut, kit_clean),
        cmocka_unit_test_teardown(test_nul_bytes, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
