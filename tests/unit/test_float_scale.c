/* mysql/float_scale: columns that round what is written to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "mysql/float_scale.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char create[] =
    "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `f` float(7,3) NOT NULL DEFAULT '1.500',\n"
    "  `na``m\n  e` double(20,5) unsigned zerofill DEFAULT NULL COMMENT '(1,2), it''s',\n"
    "  `p` float DEFAULT NULL,\n  `last` double(9,0) DEFAULT NULL\n) ENGINE=MEMORY";

#define COLUMN(n, t)                                                                               \
    {                                                                                              \
        .name = (char[]){n}, .type = (char[])                                                      \
        {                                                                                          \
            t                                                                                      \
        }                                                                                          \
    }
static struct db_column columns[] = {
    COLUMN("id", "int"),
    COLUMN("f", "float(7,3)"),
    COLUMN("na`m\n  e", "double(20,5) unsigned zerofill"),
    COLUMN("p", "float"),
    COLUMN("last", "double(9,0)"),
};
static struct db_table table = {.memory = true, .columns = columns, .column_count = COUNT(columns)};

static void expect(const char *then, const char *want_off, const char *want_on)
{
    struct buf off = {0}, on = {0};
    buf_adds(&off, "");
    buf_adds(&on, "");
    db_float_scale(&table, create, then, &off, &on);
    assert_string_equal(off.p, want_off);
    assert_string_equal(on.p, want_on);
    buf_free(&off);
    buf_free(&on);
}

static void test_both_ways(void **state)
{
    (void)state;
    expect(create,
           " MODIFY `f` float NOT NULL DEFAULT '1.500', MODIFY `na``m\n  e` double unsigned "
           "zerofill DEFAULT NULL COMMENT '(1,2), it''s', MODIFY `last` double DEFAULT NULL",
           " MODIFY `f` float(7,3) NOT NULL DEFAULT '1.500', MODIFY `na``m\n  e` double(20,5) "
           "unsigned zerofill DEFAULT NULL COMMENT '(1,2), it''s', MODIFY `last` double(9,0) "
           "DEFAULT NULL");
}

static void test_rows_of_another_definition(void **state)
{
    (void)state;
    expect("CREATE TABLE `t` (\n  `last` float,\n  `f` varchar(9)\n)",
           " MODIFY `last` double DEFAULT NULL", " MODIFY `last` double(9,0) DEFAULT NULL");
    expect("", "", "");
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    assert_true(db_float_scale_any(&table));
    table.column_count = 1;
    assert_false(db_float_scale_any(&table));
    table.column_count = COUNT(columns);
}

/* What is generated is rounded when it is made; the columns beside it are written all the same. */
static void test_generated_columns(void **state)
{
    (void)state;
    columns[0].generated = true;
    assert_true(db_float_scale_any(&table));
    for (size_t i = 1; i + 1 < table.column_count; i++)
        columns[i].generated = true;
    expect(create, " MODIFY `last` double DEFAULT NULL", " MODIFY `last` double(9,0) DEFAULT NULL");
    columns[table.column_count - 1].generated = true;
    assert_false(db_float_scale_any(&table));
    expect(create, "", "");
    for (size_t i = 0; i < table.column_count; i++)
        columns[i].generated = false;
}

static void expect_versioned(const char *show, bool is)
{
    struct buf off = {0}, on = {0};
    db_float_scale(&table, show, show, &off, &on);
    assert_string_equal(off.len ? off.p : "", is ? "" : " MODIFY `f` float COMMENT 'x'");
    buf_free(&off);
    buf_free(&on);
}

/* Such a table refuses to be altered once it has rows; neither a column's name nor a comment makes
 * it one. */
static void test_versioned_tables(void **state)
{
    (void)state;
#define COLUMNS "CREATE TABLE `t` (\n  `f` float(7,3) COMMENT 'x',\n"
#define WORDS "WITH SYSTEM VERSIONING"
    expect_versioned(
        COLUMNS "  `x\n) ENGINE` int\n) ENGINE=InnoDB " WORDS "\n PARTITION BY SYSTEM_TIME", true);
    expect_versioned(COLUMNS "  `x\n) E " WORDS "` int\n) ENGINE=MEMORY", false);
    expect_versioned(COLUMNS "  `y` int\n) ENGINE=MEMORY COMMENT='it''s not " WORDS "'", false);
    expect_versioned(COLUMNS "  `y` int\n) ENGINE=InnoDB COMMENT='it''s " WORDS "' " WORDS, true);
#undef COLUMNS
#undef WORDS
}

static void test_type(void **state)
{
    (void)state;
    assert_true(text_starts(db_float_scale_type(create, "na`m\n  e"), "double(20,5) unsigned"));
    assert_true(text_starts(db_float_scale_type(create, "p"), "float DEFAULT NULL,\n"));
    assert_null(db_float_scale_type(create, "e"));
    assert_null(db_float_scale_type(create, "na"));
}

/* What looks like a line of the definition, in a comment, a default or a column's name; and a line
 * end within a column's own text. */
static void test_odd_texts(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "  `a` int COMMENT 'x\n  `f` double(9,9) NOT NULL,\n',\n",
        "  `a` char(40) DEFAULT 'it''s\n  `f` double(9,9)',\n",
        "  `a` char(40) DEFAULT ('\\'\n  `f` double(9,9),'),\n",
        "  `a` int /* \n  `f` double(9,9), */,\n",
        "  `a` int CHECK (`a` in (1,2) or '\n  `f` double(9,9)' <> ')'),\n",
    };
    for (size_t i = 0; i < COUNT(odd); i++) {
        struct buf show = {0}, off = {0}, on = {0};
        buf_printf(&show,
                   "CREATE TABLE `t(` (\n%s  `f` float(7,3) COMMENT 'a,\nb'\n) ENGINE=MEMORY",
                   odd[i]);
        assert_true(text_starts(db_float_scale_type(show.p, "f"), "float(7,3) COMMENT"));
        db_float_scale(&table, show.p, show.p, &off, &on);
        assert_string_equal(off.p, " MODIFY `f` float COMMENT 'a,\nb'");
        assert_string_equal(on.p, " MODIFY `f` float(7,3) COMMENT 'a,\nb'");
        buf_free(&show);
        buf_free(&off);
        buf_free(&on);
    }
    assert_null(db_float_scale_type("", "f"));
    assert_null(db_float_scale_type("CREATE TABLE `t` (\n  `f` float COMMENT 'open\n", "f"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),        cmocka_unit_test(test_rows_of_another_definition),
        cmocka_unit_test(test_nothing_to_do),    cmocka_unit_test(test_generated_columns),
        cmocka_unit_test(test_versioned_tables), cmocka_unit_test(test_type),
        cmocka_unit_test(test_odd_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
