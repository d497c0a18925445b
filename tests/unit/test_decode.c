/* Unit tests of binlog/decode.h: what a server that names tables without end costs, or one
 * twice. The events need no log: what decode.c asks of one is answered here. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "binlog/decode.h"
#include "binlog/statement_scope.h"

static struct binlog_position within = {.file = "log.000001", .pos = 4, .group = {.open = true}};

const struct binlog_position *binlog_at(const struct binlog *b)
{
    (void)b;
    return &within;
}

static int count_gaps(void *arg, const struct change *c)
{
    *(unsigned *)arg += c->kind == CHANGE_GAP;
    return 0;
}

static int map_table(struct decode *d, uint64_t id)
{
    struct event ev = {.kind = EVENT_MAP, .next = 100};
    ev.map = (struct event_map){.table_id = id, .schema = "other", .table = "t"};
    return decode_event(d, NULL, &ev);
}

static int change_row(struct decode *d, uint64_t id)
{
    struct event ev = {.kind = EVENT_ROWS, .next = 100};
    ev.rows = (struct event_rows){.table_id = id, .op = EVENT_INSERT, .data = "x", .len = 1};
    return decode_event(d, NULL, &ev);
}

/* A world without a table. */
static struct decode *decode_none(unsigned *gaps)
{
    static const struct db_tables none = {0};
    static const struct statement_world world = {"w", "s", &none};
    static const struct db_binlog_pos from = {.file = "log.000001", .pos = 4};
    return decode_new(&world, &from, false, count_gaps, gaps);
}

/* More tables than a server can have open, then a row of the last. */
static void test_tables_without_end(void **state)
{
    (void)state;
    unsigned gaps = 0;
    struct decode *d = decode_none(&gaps);
    const uint64_t many = 2000000;
    for (uint64_t id = 1; id <= 100000; id++)
        assert_int_equal(map_table(d, id), 0);
    assert_int_equal(change_row(d, 100000), 0);
    assert_int_equal(gaps, 0); /* of another schema: nothing to us */
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (uint64_t id = 100001; id <= many; id++)
        assert_int_equal(map_table(d, id), 0);
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_true(after < before + ((size_t)32 << 20));
    assert_int_equal(change_row(d, many), 0);
    assert_int_equal(gaps, 1);
    decode_free(d);
}

/* A session that has locked many tables maps each of them in each of its statements, and a trigger
 * can change rows of two of them in turn. No row event searches all of them. */
static void test_rows_of_many_tables(void **state)
{
    (void)state;
    unsigned gaps = 0;
    struct decode *d = decode_none(&gaps);
    const uint64_t many = 200000;
    for (uint64_t id = 1; id <= many; id++)
        assert_int_equal(map_table(d, id), 0);
    clock_t before = clock();
    for (uint64_t i = 0; i < many; i++)
        assert_int_equal(change_row(d, i % 2 ? 1 : many / 2), 0);
    assert_true(clock() - before < 5 * CLOCKS_PER_SEC);
    assert_int_equal(change_row(d, many + 1), 0);
    assert_int_equal(gaps, 1);
    decode_free(d);
}

/* A world of one table with one column. */
static struct decode *decode_one_to(change_fn *fn, void *arg)
{
    static char column_name[] = "a", type[] = "int(11)", name[] = "t";
    static struct db_column column = {.name = column_name, .type = type};
    static struct db_table t = {
        .name = name, .memory = true, .columns = &column, .column_count = 1};
    static const struct db_tables tables = {.list = &t, .count = 1};
    static const struct statement_world world = {"w", "s", &tables};
    static const struct db_binlog_pos from = {.file = "log.000001", .pos = 4};
    return decode_new(&world, &from, false, fn, arg);
}

static struct decode *decode_one(unsigned *gaps)
{
    return decode_one_to(count_gaps, gaps);
}

static void map_column(struct decode *d, uint64_t id, uint8_t type)
{
    struct event ev = {.kind = EVENT_MAP, .next = 100};
    ev.map = (struct event_map){
        .table_id = id, .schema = "w", .table = "t", .columns = 1, .types = &type};
    ev.map.meta = ev.map.extra = &type; /* none, but somewhere */
    assert_int_equal(decode_event(d, NULL, &ev), 0);
}

/* Two maps of one table in a statement, of which the second does not fit it: a gap, and no row
 * of it is read, by whichever id. */
static void test_another_map(void **state)
{
    (void)state;
    unsigned gaps = 0;
    struct decode *d = decode_one(&gaps);
    map_column(d, 1, 3);
    assert_int_equal(gaps, 0);
    map_column(d, 2, 1);
    assert_int_equal(gaps, 1);
    assert_int_equal(change_row(d, 1), 0);
    assert_int_equal(change_row(d, 2), 0);
    assert_int_equal(gaps, 1);
    decode_free(d);
}

/* Sets of more columns than the table has may be all that an event holds. */
static void test_columns_without_rows(void **state)
{
    (void)state;
    static const uint8_t all[25] = {0xff};
    unsigned gaps = 0;
    struct decode *d = decode_one(&gaps);
    struct event ev = {.kind = EVENT_ROWS, .next = 100};
    map_column(d, 1, 3);
    for (size_t columns = 1; columns <= 200; columns += 199) {
        ev.rows = (struct event_rows){
            .table_id = 1, .op = EVENT_INSERT, .columns = columns, .present = all, .data = "x"};
        assert_int_equal(decode_event(d, NULL, &ev), 0);
        assert_int_equal(gaps, columns == 200);
    }
    decode_free(d);
}

static int note_kind(void *arg, const struct change *c)
{
    *(enum change_kind *)arg = c->kind;
    return 0;
}

/* What a statement by a server gives: the last change. */
static enum change_kind kind_of(struct decode *d, enum change_kind *last, uint32_t server,
                                const char *sql)
{
    struct event ev = {.kind = EVENT_QUERY, .next = 100, .server_id = server};
    ev.query.sql = sql;
    ev.query.len = strlen(sql);
    ev.query.schema = "w";
    *last = CHANGE_MARKER;
    assert_int_equal(decode_event(d, NULL, &ev), 0);
    return *last;
}

/* The comment of a restart counts only behind a restart: without one it is a client's, or that of
 * a server whose statements are executed here. */
static void test_comment_of_a_restart(void **state)
{
    (void)state;
    static const char truncate[] = "TRUNCATE TABLE `w`.`t` /* generated by server */",
                      some[] = "DELETE FROM t WHERE a=1 /* generated by server */";
    enum change_kind last = CHANGE_MARKER;
    struct decode *d = decode_one_to(note_kind, &last);
    struct event format = {.kind = EVENT_FORMAT, .server_id = 7};
    assert_int_equal(decode_event(d, NULL, &format), 0);
    assert_int_equal(kind_of(d, &last, 7, truncate), CHANGE_TRUNCATE);
    assert_int_equal(kind_of(d, &last, 7, some), CHANGE_GAP);
    assert_int_equal(kind_of(d, &last, 8, truncate), CHANGE_GAP);
    snprintf(within.file, sizeof within.file, "log.000002");
    format.next = 100;
    format.format.created = 1;
    assert_int_equal(decode_event(d, NULL, &format), 0);
    assert_int_equal(last, CHANGE_LOST);
    assert_int_equal(kind_of(d, &last, 7, truncate), CHANGE_LOST);
    assert_int_equal(kind_of(d, &last, 8, some), CHANGE_LOST);
    assert_int_equal(
        kind_of(d, &last, 7, "DROP VIEW IF EXISTS v /* worldkeeper restored d as n */"),
        CHANGE_SWAP);
    assert_int_equal(kind_of(d, &last, 7, truncate), CHANGE_TRUNCATE);
    snprintf(within.file, sizeof within.file, "log.000001");
    decode_free(d);
}

/* In GBK the second half of a character may be a quote, also in bytes that look like UTF-8: here
 * the column is dropped. */
static void test_other_letters(void **state)
{
    (void)state;
    static const char sql[] = "ALTER TABLE t ADD INDEX i\xe4\xb8\xad`(a), DROP COLUMN b, ADD INDEX "
                              "j\xe4\xb8\xad`(a)";
    enum change_kind last = CHANGE_MARKER;
    struct decode *d = decode_one_to(note_kind, &last);
    struct event ev = {.kind = EVENT_QUERY, .next = 100};
    ev.query.sql = sql;
    ev.query.len = sizeof sql - 1;
    ev.query.schema = "w";
    assert_int_equal(decode_event(d, NULL, &ev), 0);
    assert_int_equal(last, CHANGE_DEFINED);
    ev.query.other_letters = true;
    assert_int_equal(decode_event(d, NULL, &ev), 0);
    assert_int_equal(last, CHANGE_GAP);
    decode_free(d);
}

/* In swe7 quotes and brackets are letters, so any statement may be about the world; only the edges
 * of a transaction have no names. */
static void test_unreadable(void **state)
{
    (void)state;
    enum change_kind last = CHANGE_MARKER;
    struct decode *d = decode_one_to(note_kind, &last);
    struct event ev = {.kind = EVENT_QUERY, .next = 100};
    ev.query.schema = "w";
    ev.query.sql = "TRUNCATE TABLE other.sp{ce";
    ev.query.len = strlen(ev.query.sql);
    assert_int_equal(decode_event(d, NULL, &ev), 0);
    assert_int_equal(last, CHANGE_MARKER);
    ev.query.unreadable = ev.query.other_letters = true;
    assert_int_equal(decode_event(d, NULL, &ev), 0);
    assert_int_equal(last, CHANGE_GAP);
    last = CHANGE_MARKER;
    ev.query.sql = "BEGIN";
    ev.query.len = strlen(ev.query.sql);
    assert_int_equal(decode_event(d, NULL, &ev), 0);
    assert_int_equal(last, CHANGE_MARKER);
    decode_free(d);
}

/* An update of a table whose key is its first column, b; the last kind of change. */
static enum change_kind update_of(struct decode *d, enum change_kind *last, char was, char is)
{
    static const uint8_t all[] = {0xff}, types[] = {3, 3};
    const char images[] = {0, was, 0, 0, 0, 7, 0, 0, 0, 0, is, 0, 0, 0, 8, 0, 0, 0};
    struct event map = {.kind = EVENT_MAP, .next = 100}, ev = {.kind = EVENT_ROWS, .next = 100};
    map.map = (struct event_map){.table_id = 1,
                                 .schema = "w",
                                 .table = "t",
                                 .columns = 2,
                                 .types = types,
                                 .meta = types,
                                 .extra = types};
    ev.rows = (struct event_rows){.table_id = 1,
                                  .op = EVENT_UPDATE,
                                  .columns = 2,
                                  .present = all,
                                  .present_after = all,
                                  .data = images,
                                  .len = sizeof images};
    assert_int_equal(decode_event(d, NULL, &map), 0);
    assert_int_equal(decode_event(d, NULL, &ev), 0);
    return *last;
}

/* Only on request, and only if the key stays, is an update a replacement. */
static void test_replaces(void **state)
{
    (void)state;
    static char b[] = "b", v[] = "v", type[] = "int(11)", name[] = "t";
    static unsigned key[] = {0};
    struct db_column columns[] = {{.name = b, .type = type}, {.name = v, .type = type}};
    struct db_table t = {.name = name,
                         .memory = true,
                         .columns = columns,
                         .column_count = 2,
                         .key = key,
                         .key_count = 1};
    struct db_tables tables = {.list = &t, .count = 1};
    struct statement_world world = {"w", "s", &tables};
    struct db_binlog_pos from = {.file = "log.000001", .pos = 4};
    enum change_kind last = CHANGE_MARKER;
    struct decode *d = decode_new(&world, &from, false, note_kind, &last);
    assert_int_equal(update_of(d, &last, 1, 1), CHANGE_UPDATE);
    decode_replaces(d);
    assert_int_equal(update_of(d, &last, 1, 1), CHANGE_REPLACE);
    assert_int_equal(update_of(d, &last, 1, 2), CHANGE_UPDATE);
    decode_free(d);
}

/* A world of a MEMORY table m and a carried table c, each with one column. */
static struct db_column one_column = {.name = (char[]){"a"}, .type = (char[]){"int(11)"}};
static struct db_table mixed[] = {
    {.name = (char[]){"c"}, .carried = true, .columns = &one_column, .column_count = 1},
    {.name = (char[]){"m"}, .memory = true, .columns = &one_column, .column_count = 1}};

/* The changes, one letter each: M and C for a row, t for a TRUNCATE of c, g for a gap of c alone,
 * G for another gap, | for an end, x for a cut. */
struct story {
    struct decode *d;
    char text[32];
    size_t len, rows;
};

static int tell(void *arg, const struct change *c)
{
    struct story *s = arg;
    bool only = c->scope && c->scope->count == 1 && strcmp(c->scope->tables[0].name, "c") == 0;
    char letter = c->kind == CHANGE_INSERT     ? (c->table->name[0] == 'c' ? 'C' : 'M')
                  : c->kind == CHANGE_TRUNCATE ? 't'
                  : c->kind == CHANGE_GAP      ? (only ? 'g' : 'G')
                  : c->kind == CHANGE_END      ? '|'
                  : c->kind == CHANGE_CUT      ? 'x'
                                               : 0;
    s->rows += c->kind == CHANGE_INSERT;
    if (letter && s->len < sizeof s->text - 1)
        s->text[s->len++] = letter;
    return 0;
}

static void story_event(struct story *s, enum transaction_part part, const struct event *ev)
{
    within.group.part = part;
    assert_int_equal(decode_event(s->d, NULL, ev), 0);
    within.group.part = TRANSACTION_OUTSIDE;
}

static void story_say(struct story *s, enum transaction_part part, const char *sql)
{
    struct event ev = {.kind = EVENT_QUERY, .next = 100};
    ev.query.schema = "w";
    ev.query.sql = sql;
    ev.query.len = strlen(sql);
    story_event(s, part, &ev);
}

static void story_row(struct story *s, const char *table)
{
    static const uint8_t type = 3, all = 1;
    struct event map = {.kind = EVENT_MAP, .next = 100}, ev = {.kind = EVENT_ROWS, .next = 100};
    map.map = (struct event_map){
        .table_id = 1, .schema = "w", .table = table, .columns = 1, .types = &type};
    map.map.meta = map.map.extra = &type;
    ev.rows = (struct event_rows){.table_id = 1,
                                  .op = EVENT_INSERT,
                                  .columns = 1,
                                  .present = &all,
                                  .data = "\0\1\0\0\0",
                                  .len = 5,
                                  .ends = true};
    story_event(s, TRANSACTION_WITHIN, &map);
    story_event(s, TRANSACTION_WITHIN, &ev);
}

static void story_end(struct story *s, bool prepared)
{
    struct event ev = {.kind = EVENT_XID, .next = 100, .prepared = prepared};
    story_event(s, TRANSACTION_ENDS, &ev);
}

static void story_expect(struct story *s, const char *text)
{
    assert_string_equal(s->text, text);
    memset(s->text, 0, sizeof s->text);
    s->len = s->rows = 0;
}

static struct story story_begin(struct story *s)
{
    static const struct db_tables tables = {.list = mixed, .count = 2};
    static const struct statement_world world = {"w", "s", &tables};
    static const struct db_binlog_pos from = {.file = "log.000001", .pos = 4};
    return (struct story){.d = decode_new(&world, &from, false, tell, s)};
}

/* A ROLLBACK undoes the changes of a carried table, and none of a MEMORY table. */
static void test_rolled_back(void **state)
{
    (void)state;
    struct story s = story_begin(&s);
    static const char *const ends[] = {"COMMIT", "ROLLBACK"}, *const told[] = {"MMC|", "MM|"};
    for (size_t i = 0; i < 2; i++) {
        story_say(&s, TRANSACTION_BEGINS, "BEGIN");
        story_row(&s, "m");
        story_row(&s, "c");
        story_row(&s, "m");
        story_say(&s, TRANSACTION_ENDS, ends[i]);
        story_expect(&s, told[i]);
    }
    story_say(&s, TRANSACTION_SINGLE, "TRUNCATE c");
    story_expect(&s, "t|");
    story_say(&s, TRANSACTION_BEGINS, "BEGIN");
    story_row(&s, "c");
    within.group.cut = true;
    story_say(&s, TRANSACTION_BEGINS, "BEGIN");
    within.group.cut = false;
    story_end(&s, false);
    story_expect(&s, "x|");
    decode_free(s.d);
}

/* A ROLLBACK TO undoes the changes after its savepoint. If that is not certain, there is a gap of
 * the carried tables that the transaction changed. */
static void test_savepoints(void **state)
{
    (void)state;
    struct story s = story_begin(&s);
    static const struct {
        const char *points[3], *back, *end, *told;
    } cases[] = {
        {{"SAVEPOINT `s`"}, "ROLLBACK TO `s`", "COMMIT", "MMC|"},
        {{"SAVEPOINT `s`", "SAVEPOINT `t`"}, "ROLLBACK TO `S`", "COMMIT", "MMC|"},
        {{"SAVEPOINT `s`"}, "ROLLBACK TO `s`", "ROLLBACK", "MM|"},
        {{"SAVEPOINT `s`"}, "RELEASE SAVEPOINT `s`", "COMMIT", "MMCC|"},
        {{NULL}, "ROLLBACK TO `s`", "COMMIT", "MMg|"},
        {{NULL}, "ROLLBACK TO `s`", "ROLLBACK", "MM|"},
        {{"SAVEPOINT `s`", "SAVEPOINT `s`"}, "ROLLBACK TO `s`", "COMMIT", "MMg|"},
        {{"SAVEPOINT `\xc3\xa9`"}, "ROLLBACK TO `\xc3\xa9`", "COMMIT", "MMg|"},
        {{"SAVEPOINT `s`", "SAVEPOINT `\xc3\xa9`"}, "ROLLBACK TO `s`", "COMMIT", "MMg|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        story_say(&s, TRANSACTION_BEGINS, "BEGIN");
        story_row(&s, "m");
        story_row(&s, "c");
        for (size_t k = 0; cases[i].points[k]; k++)
            story_say(&s, TRANSACTION_WITHIN, cases[i].points[k]);
        story_row(&s, "c");
        story_say(&s, TRANSACTION_WITHIN, cases[i].back);
        story_row(&s, "m");
        story_say(&s, TRANSACTION_ENDS, cases[i].end);
        story_expect(&s, cases[i].told);
    }
    story_say(&s, TRANSACTION_BEGINS, "BEGIN"); /* nothing of c is in doubt */
    story_row(&s, "m");
    story_say(&s, TRANSACTION_WITHIN, "ROLLBACK TO `s`");
    story_row(&s, "c");
    story_say(&s, TRANSACTION_ENDS, "COMMIT");
    story_expect(&s, "MC|");
    decode_free(s.d);
}

static void story_prepare(struct story *s, const char *xid, const char *table)
{
    char sql[64];
    snprintf(sql, sizeof sql, "XA START %s", xid);
    story_say(s, TRANSACTION_BEGINS, sql);
    if (table)
        story_row(s, table);
    snprintf(sql, sizeof sql, "XA END %s", xid);
    story_say(s, TRANSACTION_WITHIN, sql);
    story_end(s, true);
}

/* Changes of a carried table happen at the XA COMMIT, which does not show them: a gap of the
 * carried tables. An XA transaction without such changes is no gap. */
static void test_xa(void **state)
{
    (void)state;
    struct story s = story_begin(&s);
    static const char x[] = "X'78',X'',1", y[] = "X'79',X'',1";
    story_prepare(&s, x, "c");
    story_expect(&s, "|");
    story_say(&s, TRANSACTION_SINGLE, "XA ROLLBACK X'78',X'',1");
    story_expect(&s, "|");
    story_prepare(&s, x, "c");
    story_prepare(&s, y, "m");
    story_expect(&s, "|M|");
    story_say(&s, TRANSACTION_SINGLE, "XA COMMIT X'79',X'',1");
    story_expect(&s, "|");
    story_say(&s, TRANSACTION_SINGLE, "XA COMMIT X'78',X'',1");
    story_expect(&s, "g|");
    story_prepare(&s, x, NULL); /* MariaDB logs the rows of a MEMORY table before it */
    story_prepare(&s, x, "c");  /* after the end of the other one was not read */
    story_say(&s, TRANSACTION_SINGLE, "XA COMMIT X'78',X'',1");
    story_expect(&s, "||g|");
    story_say(&s, TRANSACTION_SINGLE, "XA COMMIT X'7a',X'',1"); /* prepared before reading began */
    story_expect(&s, "g|");
    decode_rows(s.d, false);
    story_prepare(&s, y, "c"); /* its rows were not read */
    decode_rows(s.d, true);
    story_say(&s, TRANSACTION_SINGLE, "XA COMMIT X'79',X'',1");
    story_expect(&s, "|g|");
    story_say(&s, TRANSACTION_BEGINS, "XA START X'78',X'',1"); /* MySQL's XA COMMIT … ONE PHASE */
    story_row(&s, "c");
    story_end(&s, false);
    story_expect(&s, "C|");
    decode_free(s.d);
}

/* Too many changes to hold back are passed on. If they are undone, there is a gap. */
static void test_too_many_to_hold(void **state)
{
    (void)state;
    struct story s = story_begin(&s);
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};
    const size_t many = 1500000;
    for (size_t i = 0; i < 2; i++) {
        story_say(&s, TRANSACTION_BEGINS, "BEGIN");
        for (size_t k = 0; k < many; k++)
            story_row(&s, "c");
        assert_int_equal(s.rows, many); /* none is held */
        s.len = 0;
        memset(s.text, 0, sizeof s.text);
        story_say(&s, TRANSACTION_ENDS, ends[i]);
        story_expect(&s, i ? "g|" : "|");
    }
    story_say(&s, TRANSACTION_BEGINS, "BEGIN"); /* the next transaction is held again */
    story_row(&s, "c");
    story_say(&s, TRANSACTION_ENDS, "ROLLBACK");
    story_expect(&s, "|");
    decode_free(s.d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaces),
        cmocka_unit_test(test_tables_without_end),
        cmocka_unit_test(test_rows_of_many_tables),
        cmocka_unit_test(test_another_map),
        cmocka_unit_test(test_columns_without_rows),
        cmocka_unit_test(test_comment_of_a_restart),
        cmocka_unit_test(test_other_letters),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_rolled_back),
        cmocka_unit_test(test_savepoints),
        cmocka_unit_test(test_xa),
        cmocka_unit_test(test_too_many_to_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
