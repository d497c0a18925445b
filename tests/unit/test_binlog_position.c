/* binlog/position: each event starts where the previous one ended, otherwise it is an error. Files
 * follow each other, and transactions begin and end where the server means them to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "binlog/position.h"

#define BORN 1700000000u
#define GIB4 (UINT64_C(1) << 32)
enum { LOAD_QUERY = 18, HEARTBEAT_V1 = 27, HEARTBEAT_V2 = 41, XA_PREPARE = 38, PAYLOAD = 40 };
enum { ANNOTATE = 160, GTID_LIST = 163, ENCRYPTION = 164, ROWS_COMPRESSED = 169 };

/* ---- events ---- */

static struct event event(enum event_kind kind)
{
    return (struct event){.kind = kind, .name = "X", .at = BORN + 5, .size = 60};
}

static struct event typed(enum event_kind kind, unsigned type)
{
    struct event ev = event(kind);
    ev.type = type;
    return ev;
}

static struct event gtid(bool mariadb, bool standalone)
{
    struct event ev = event(EVENT_GTID);
    ev.gtid.mariadb = mariadb;
    ev.gtid.standalone = standalone;
    return ev;
}

/* What is behind the statement's end is none of it. */
static struct event query_of(const char *sql, size_t len)
{
    struct event ev = event(EVENT_QUERY);
    ev.query.schema = "world";
    ev.query.sql = sql;
    ev.query.len = len;
    return ev;
}

static struct event query(const char *sql)
{
    return query_of(sql, strlen(sql));
}

static struct event rows(bool ends)
{
    struct event ev = event(EVENT_ROWS);
    ev.rows.ends = ends;
    return ev;
}

static struct event format(uint32_t created_at, uint32_t created)
{
    struct event ev = event(EVENT_FORMAT);
    ev.at = created_at;
    ev.format.created = created;
    return ev;
}

/* Not part of a file: `next` stays 0. */
static struct event rotation(const char *file, uint64_t pos)
{
    struct event ev = event(EVENT_ROTATE);
    ev.at = 0;
    ev.size = 43;
    snprintf(ev.rotate.file, sizeof ev.rotate.file, "%s", file);
    ev.rotate.pos = pos;
    return ev;
}

/* ---- steps ---- */

static void takes(struct binlog_position *p, const struct event *ev)
{
    struct err e = {0};
    if (binlog_position_step(p, ev, &e) < 0)
        fail_msg("%s", e.text);
}

static void refuses(struct binlog_position *p, const struct event *ev, enum err_class cls,
                    const char *said)
{
    struct err e = {0};
    struct binlog_position before;
    memcpy(&before, p, sizeof before);
    assert_int_equal(binlog_position_step(p, ev, &e), -1);
    assert_int_equal(e.cls, cls);
    if (!strstr(e.text, said))
        fail_msg("%s: not a word of %s", e.text, said);
    assert_memory_equal(&before, p, sizeof before);
}

/* `ev` as the server would write it at the place `pos`. */
static struct event lies(struct event ev, uint64_t pos)
{
    ev.next = (uint32_t)(pos + ev.size);
    return ev;
}

/* The next event of the file. */
static void next(struct binlog_position *p, struct event ev)
{
    uint64_t pos = p->pos;
    ev = lies(ev, pos);
    takes(p, &ev);
    assert_int_equal(p->pos, pos + ev.size);
}

static struct binlog_position begun(const char *file, uint64_t pos)
{
    struct binlog_position p = {0};
    struct event answer = rotation(file, (uint32_t)pos);
    binlog_position_set(&p, file, (uint32_t)pos, 0);
    takes(&p, &answer);
    p.pos = pos; /* beyond 4 GiB no reader begins, but it may come there */
    return p;
}

static void grown(const struct binlog_position *p, const char *file, uint64_t pos)
{
    assert_string_equal(p->file, file);
    assert_int_equal(p->pos, pos);
}

/* ---- places ---- */

static void test_set(void **state)
{
    (void)state;
    struct binlog_position p;
    memset(&p, 0xff, sizeof p);
    p.group = (struct transaction){0};
    p.broke_off = true;
    binlog_position_set(&p, "log.000007", GIB4 + 9, BORN);
    grown(&p, "log.000007", GIB4 + 9);
    assert_int_equal(p.created_at, BORN);
    assert_false(p.confirmed || p.cut_off);
    assert_true(p.broke_off); /* of the file before it */
    assert_int_equal(p.end, POSITION_UNKNOWN);
    assert_false(p.group.open);
    assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
}

/* None is left out, none comes twice, and none before the server said where it begins. */
static void test_stepping(void **state)
{
    (void)state;
    struct binlog_position p = {0};
    struct event answer = rotation("log.000001", 400), ev = lies(rows(true), 400);
    binlog_position_set(&p, "log.000001", 400, 0);
    refuses(&p, &ev, ERR_DAMAGED, "log.000001");
    takes(&p, &answer);
    assert_true(p.confirmed);
    grown(&p, "log.000001", 400);
    assert_int_equal(p.end, POSITION_UNKNOWN);
    takes(&p, &ev);
    grown(&p, "log.000001", 460);
    assert_int_equal(p.end, POSITION_GOES_ON);
    refuses(&p, &ev, ERR_DAMAGED, "the next event begins at 460");
    ev = lies(rows(true), 520);
    refuses(&p, &ev, ERR_DAMAGED, "ends at 580");
    ev = lies(rows(true), 459);
    refuses(&p, &ev, ERR_DAMAGED, "log.000001");
    ev = lies(rows(true), 461);
    refuses(&p, &ev, ERR_DAMAGED, "log.000001");
    ev = lies(rows(true), 460);
    ev.size--;
    refuses(&p, &ev, ERR_DAMAGED, "log.000001");
    next(&p, rows(true));
    grown(&p, "log.000001", 520);
}

/* A place that a damaged event names is no reason to believe it. */
static void test_lies_elsewhere(void **state)
{
    (void)state;
    static const enum event_kind kinds[] = {
        EVENT_SKIPPED, EVENT_FORMAT, EVENT_ROTATE, EVENT_STOP, EVENT_GTID,      EVENT_QUERY,
        EVENT_XID,     EVENT_MAP,    EVENT_ROWS,   EVENT_LOST, EVENT_UNREADABLE};
    struct binlog_position p = begun("log.000001", 400);
    next(&p, gtid(true, false));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct event ev = lies(event(kinds[i]), 461);
        refuses(&p, &ev, ERR_DAMAGED, "X event of 60 bytes ends at 521");
    }
    assert_int_equal(p.group.part, TRANSACTION_BEGINS);
    assert_int_equal(p.group.begins, 400);
}

/* The headers have 32 bits. */
static void test_beyond_4_gib(void **state)
{
    (void)state;
    struct binlog_position p = begun("log.000001", GIB4 - 60);
    struct event made_up = typed(EVENT_SKIPPED, GTID_LIST);
    struct event ev = lies(gtid(true, false), GIB4 - 60);
    assert_int_equal(ev.next, 0);
    takes(&p, &ev); /* a real one, although it says that the next place is 0 */
    grown(&p, "log.000001", GIB4);
    assert_int_equal(p.group.part, TRANSACTION_BEGINS);
    takes(&p, &made_up);
    grown(&p, "log.000001", GIB4);
    assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
    next(&p, rows(true));
    grown(&p, "log.000001", GIB4 + 60);
    ev = lies(rows(true), GIB4 + 61);
    refuses(&p, &ev, ERR_DAMAGED, "begins at 4294967356");
    assert_int_equal(p.group.begins, GIB4 - 60);
    next(&p, query("COMMIT"));

    p = begun("log.000001", GIB4 - 59); /* across, not up to */
    next(&p, gtid(true, false));
    grown(&p, "log.000001", GIB4 + 1);
    assert_int_equal(p.group.begins, GIB4 - 59);

    p = begun("log.000001", 3 * GIB4 - 60);
    next(&p, gtid(true, true));
    grown(&p, "log.000001", 3 * GIB4);
    next(&p, query("ALTER TABLE t ADD x INT"));
    assert_int_equal(p.group.begins, 3 * GIB4 - 60);
}

/* ---- files ---- */

static void test_another_answer(void **state)
{
    (void)state;
    struct binlog_position p = {0};
    binlog_position_set(&p, "log.000001", 400, 0);
    static const struct {
        const char *file;
        uint64_t pos;
    } wrong[] = {{"log.000001", 401}, {"log.000001", 4}, {"log.000002", 4}, {"log.000002", 400}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct event ev = rotation(wrong[i].file, wrong[i].pos);
        refuses(&p, &ev, ERR_DAMAGED, "not from log.000001:400");
    }
    p = begun("log.000001", 400);
    struct event ev = rotation("log.000001", 400); /* says nothing new */
    takes(&p, &ev);
    grown(&p, "log.000001", 400);
}

static void test_rotation(void **state)
{
    (void)state;
    struct binlog_position p = begun("log.000009", 4);
    struct event into = rotation("log.000010", 4), ev;
    next(&p, format(BORN, BORN));
    next(&p, gtid(true, true));
    next(&p, query("CREATE TABLE t (a INT)"));
    next(&p, rotation("log.000010", 4)); /* the real one: the last event of its file */
    grown(&p, "log.000009", 227);
    assert_int_equal(p.end, POSITION_ENDED);
    assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
    for (unsigned bad = 0; bad < 3; bad++) {
        ev = rotation("log.000010", (uint64_t[]){0, 5, GIB4 + 4}[bad]);
        refuses(&p, &ev, ERR_DAMAGED, "log.000010");
    }
    takes(&p, &into);
    grown(&p, "log.000010", 4);
    assert_true(p.confirmed);
    assert_false(p.cut_off);
    assert_int_equal(p.created_at, 0);
    assert_int_equal(p.end, POSITION_UNKNOWN);
    next(&p, format(BORN + 9, 0));
    assert_int_equal(p.created_at, BORN + 9);
}

/* By how many the second file is behind the first, as far as a rotation tells. */
static void expect_way(const char *from, const char *to, bool follows)
{
    struct binlog_position p = begun(from, 4);
    struct event into = rotation(to, 4);
    next(&p, event(EVENT_STOP));
    if (!follows) {
        refuses(&p, &into, ERR_GAP, to);
        return;
    }
    takes(&p, &into);
    grown(&p, to, 4);
}

static void test_order_of_files(void **state)
{
    (void)state;
    expect_way("log.000001", "log.000002", true);
    expect_way("log.000001", "log.000003", false);
    expect_way("log.000001", "log.000001", false);
    expect_way("log.000003", "log.000002", false);
    expect_way("log.000003", "log.000001", false);
    expect_way("log.999999", "log.1000000", true);
    expect_way("log.1000000", "log.999999", false);
    expect_way("a.b.000001", "a.b.000002", true);
    expect_way("a.b.000001", "a.b.000005", false);
    /* a log of another name follows whatever its number is: the server knows, by its index */
    expect_way("log.000001", "new.000001", true);
    expect_way("log.000005", "longer.000001", true);
    expect_way("log.000005", "logs.000009", true);
    expect_way("log.000005", "lo.000001", true);
    expect_way("log.000005", "log", true);
    expect_way("log", "log.000005", true);
    expect_way("log.000005", "log.", true);
    expect_way("log.000005", "log.00000x", true);
    expect_way("log.000005x", "log.000005", true);
    expect_way("log.000005", "log.-1", true);
    expect_way("log.000005", "log. 1", true);
    expect_way("log.000005", "log.:1", true);
    expect_way("log.9", "log.0", false); /* the first and the last digit are digits */
}

static void expect_reached(const char *file, uint64_t pos, const char *end_file, uint64_t end_pos,
                           bool want)
{
    struct binlog_position p = {0};
    struct db_binlog_pos end = {.pos = end_pos};
    binlog_position_set(&p, file, pos, 0);
    snprintf(end.file, sizeof end.file, "%s", end_file);
    assert_int_equal(binlog_position_reached(&p, &end), want);
}

static void test_reached(void **state)
{
    (void)state;
    expect_reached("log.000002", 400, "log.000002", 400, true);
    expect_reached("log.000002", 401, "log.000002", 400, true);
    expect_reached("log.000002", 399, "log.000002", 400, false);
    expect_reached("log.000002", GIB4, "log.000002", 400, true);
    expect_reached("log.000002", 500, "log.000002", GIB4 + 400, false);
    expect_reached("log.000003", 4, "log.000002", 400, true);
    expect_reached("log.000009", 4, "log.000002", 400, true);
    expect_reached("log.000001", 900, "log.000002", 400, false);
    expect_reached("log.999999", 900, "log.1000000", 400, false);
    expect_reached("log.1000000", 4, "log.999999", 400, true);
    expect_reached("new.000001", 4, "log.000002", 400, true);
}

/* ---- whose log it is ---- */

/* A reset log has files of the same names. */
static void test_born(void **state)
{
    (void)state;
    struct binlog_position p = begun("log.000001", 400);
    struct event ev = format(BORN, 0); /* sent ahead: made up, as a reader begins behind it */
    takes(&p, &ev);
    assert_int_equal(p.created_at, BORN);
    assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
    assert_int_equal(p.end, POSITION_UNKNOWN);
    takes(&p, &ev);
    next(&p, gtid(true, false));
    ev.at = BORN + 1;
    refuses(&p, &ev, ERR_GAP, "reset");

    struct event answer = rotation("log.000001", 4), real;
    binlog_position_set(&p, "log.000001", 4, BORN);
    takes(&p, &answer);
    real = lies(format(BORN - 1, BORN), 4);
    refuses(&p, &real, ERR_GAP, "reset");
    real = lies(format(BORN, BORN), 4);
    takes(&p, &real);
    grown(&p, "log.000001", 64);
    assert_int_equal(p.created_at, BORN);
}

/* What comes behind a file that ended without a word, `created` telling whether a server was
 * started with it. */
static void expect_successor(struct binlog_position *p, bool cut_off)
{
    struct event into = rotation("log.000002", 4), ev;
    takes(p, &into);
    assert_int_equal(p->cut_off, cut_off);
    if (cut_off) {
        ev = format(BORN, 0);
        refuses(p, &ev, ERR_GAP, "does not follow");
        ev = lies(ev, 4);
        refuses(p, &ev, ERR_GAP, "does not follow");
        ev = lies(format(BORN, BORN), 4);
    } else {
        ev = lies(format(BORN, 0), 4);
    }
    takes(p, &ev);
    assert_false(p->cut_off);
    assert_int_equal(p->created_at, BORN);
}

static void test_a_file_without_an_end(void **state)
{
    (void)state;
    struct event heartbeat = typed(EVENT_HEARTBEAT, HEARTBEAT_V1);
    struct binlog_position p = begun("log.000001", 400);
    expect_successor(&p, false); /* nothing is known: it may have ended right there */
    p = begun("log.000001", 400);
    next(&p, rows(true));
    expect_successor(&p, true);
    p = begun("log.000001", 400);
    takes(&p, &heartbeat); /* so it had not ended there */
    expect_successor(&p, true);
    p = begun("log.000001", 400);
    next(&p, rows(true));
    next(&p, event(EVENT_STOP));
    takes(&p, &heartbeat);
    expect_successor(&p, false);
    p = begun("log.000001", 400);
    next(&p, rotation("log.000002", 4));
    expect_successor(&p, false);
}

/* ---- silence ---- */

static void test_heartbeats(void **state)
{
    (void)state;
    static const unsigned types[] = {HEARTBEAT_V1, HEARTBEAT_V2};
    for (size_t i = 0; i < 2; i++) {
        struct binlog_position p = begun("log.000001", 400);
        struct event heartbeat = typed(EVENT_HEARTBEAT, types[i]);
        snprintf(heartbeat.rotate.file, sizeof heartbeat.rotate.file, "log.000001");
        takes(&p, &heartbeat);
        assert_int_equal(p.end, POSITION_GOES_ON);
        grown(&p, "log.000001", 400);
        next(&p, gtid(true, false));
        assert_int_equal(p.group.part, TRANSACTION_BEGINS);
        heartbeat.next = 460; /* the first kind tells its place in the header */
        takes(&p, &heartbeat);
        heartbeat.next = 520; /* be it that of an event behind ours */
        takes(&p, &heartbeat);
        grown(&p, "log.000001", 460);
        assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
        assert_true(p.group.open && !p.group.statement);
        assert_int_equal(p.group.begins, 400);
        next(&p, event(EVENT_XID));
        assert_int_equal(p.group.part, TRANSACTION_ENDS);
        next(&p, event(EVENT_STOP));
        takes(&p, &heartbeat);
        assert_int_equal(p.end, POSITION_ENDED);
    }
}

/* ---- encrypted logs ---- */

/* What tells of the encryption is sent ahead to who begins behind it: then it takes no place. */
static void test_encryption(void **state)
{
    (void)state;
    struct event tells = typed(EVENT_SKIPPED, ENCRYPTION), ev;
    struct binlog_position p = begun("log.000001", 400);
    tells.size = 40;
    takes(&p, &tells);
    grown(&p, "log.000001", 400);
    assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
    ev = lies(gtid(true, false), 440);
    refuses(&p, &ev, ERR_DAMAGED, "begins at 400");
    next(&p, gtid(true, false));
    assert_int_equal(p.group.begins, 400);

    p = begun("log.000001", 4);
    next(&p, format(BORN, BORN));
    next(&p, tells);
    grown(&p, "log.000001", 104);
    next(&p, event(EVENT_SKIPPED));
}

/* ---- groups ---- */

/* The next event is this to its group, which is then open or not. */
static void expect_part(struct binlog_position *p, struct event ev, enum transaction_part part,
                        bool open)
{
    uint64_t pos = p->pos, begins = p->group.begins;
    bool was_open = p->group.open;
    bool first = part == TRANSACTION_BEGINS || part == TRANSACTION_SINGLE;
    bool breaks = part == TRANSACTION_BEGINS || part == TRANSACTION_OUTSIDE;
    ev.size = 50 + (uint32_t)pos % 7; /* no two alike */
    p->group.cut = false;
    next(p, ev);
    if (p->group.part != part || p->group.open != open || p->group.cut != (was_open && breaks))
        fail_msg("%s event (kind %d) at %u: part %d, open %d, cut %d", ev.name, (int)ev.kind,
                 (unsigned)pos, (int)p->group.part, (int)p->group.open, (int)p->group.cut);
    if (part != TRANSACTION_OUTSIDE)
        assert_int_equal(p->group.begins, first ? pos : begins);
}

static void begins(struct binlog_position *p, struct event ev)
{
    expect_part(p, ev, TRANSACTION_BEGINS, true);
}

static void within(struct binlog_position *p, struct event ev)
{
    expect_part(p, ev, TRANSACTION_WITHIN, true);
}

/* A group of a single event begins with it as well. */
static void ends(struct binlog_position *p, struct event ev)
{
    expect_part(p, ev, p->group.open ? TRANSACTION_ENDS : TRANSACTION_SINGLE, false);
}

static void outside(struct binlog_position *p, struct event ev)
{
    expect_part(p, ev, TRANSACTION_OUTSIDE, false);
}

static void test_transactions(void **state)
{
    (void)state;
    struct binlog_position p = begun("log.000001", 4);
    outside(&p, format(BORN, BORN));
    outside(&p, event(EVENT_SKIPPED));
    begins(&p, gtid(true, false)); /* MariaDB: the GTID stands for BEGIN */
    within(&p, typed(EVENT_SKIPPED, ANNOTATE));
    within(&p, event(EVENT_MAP));
    within(&p, rows(false));
    within(&p, rows(true));
    within(&p, query("SAVEPOINT `s`"));
    within(&p, query("INSERT INTO t VALUES (1)"));
    within(&p, typed(EVENT_UNREADABLE, ROWS_COMPRESSED));
    ends(&p, event(EVENT_XID));
    outside(&p, event(EVENT_SKIPPED));
    begins(&p, gtid(true, false));
    within(&p, event(EVENT_MAP));
    within(&p, rows(true));
    ends(&p, query("COMMIT"));
    begins(&p, gtid(false, false)); /* MySQL: it comes behind it */
    within(&p, query("BEGIN"));
    within(&p, event(EVENT_MAP));
    within(&p, rows(true));
    within(&p, query("UPDATE t SET a=1"));
    ends(&p, query("rollback"));
    begins(&p, gtid(false, true)); /* only MariaDB has that flag */
    within(&p, query("begin"));
    ends(&p, query("Commit"));
    begins(&p, query("BEGIN")); /* without any GTID */
    within(&p, event(EVENT_MAP));
    ends(&p, event(EVENT_XID));
}

static void test_what_a_statement_is(void **state)
{
    (void)state;
    static const char text[] = "BEGINNING COMMITTED ROLLBACK TO `s`XA STARTS";
    struct binlog_position p = begun("log.000001", 4);
    ends(&p, query_of(text, 9));
    ends(&p, query("DO 11")); /* as long as BEGIN */
    begins(&p, query_of(text, 5));
    within(&p, query("DO 1+1"));
    within(&p, query("DO 1+1+1"));
    within(&p, query_of(text + 10, 9));
    within(&p, query_of(text + 20, 15));
    within(&p, query_of(text + 10, 5));
    ends(&p, query_of(text + 10, 6));
    begins(&p, gtid(false, false));
    ends(&p, query_of(text, 4));
    begins(&p, query_of(text + 35, 8));
    ends(&p, query_of(text + 20, 8));
    begins(&p, gtid(false, false));
    ends(&p, query_of(text + 35, 7));
}

/* MariaDB 11.8: the events of a group do not say where they lie, those outside of groups do. */
static void test_events_without_a_place(void **state)
{
    (void)state;
    struct binlog_position p = begun("log.000001", 4);
    struct event head = lies(gtid(true, false), 4), map = event(EVENT_MAP), last = event(EVENT_XID);
    struct event turn = rotation("log.000002", 4);
    takes(&p, &head);
    takes(&p, &map);
    assert_int_equal(p.group.part, TRANSACTION_WITHIN);
    assert_int_equal(p.pos, 4 + 2 * 60);
    takes(&p, &last);
    assert_int_equal(p.group.part, TRANSACTION_ENDS);
    assert_int_equal(p.pos, 4 + 3 * 60);
    takes(&p, &map); /* outside of one it is no part of the file */
    assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
    assert_int_equal(p.pos, 4 + 3 * 60);
    head = lies(gtid(true, false), p.pos);
    takes(&p, &head);
    takes(&p, &turn);
    assert_true(p.group.cut);
    assert_string_equal(p.file, "log.000002");
    assert_int_equal(p.pos, 4);
}

static void test_single_statements(void **state)
{
    (void)state;
    static const unsigned single[] = {LOAD_QUERY};
    struct binlog_position p = begun("log.000001", 4);
    begins(&p, gtid(true, true));
    ends(&p, query("ALTER TABLE t ADD x INT"));
    begins(&p, gtid(false, false));
    ends(&p, query("TRUNCATE t"));
    ends(&p, query("TRUNCATE t")); /* without a GTID */
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        begins(&p, gtid(true, true));
        within(&p, event(EVENT_SKIPPED));
        within(&p, typed(EVENT_UNREADABLE, ROWS_COMPRESSED));
        ends(&p, typed(EVENT_UNREADABLE, single[i]));
    }
    for (size_t i = 0; i < sizeof single / sizeof *single;
         i++) { /* these are statements among others, too */
        begins(&p, gtid(true, false));
        within(&p, typed(EVENT_UNREADABLE, single[i]));
        ends(&p, event(EVENT_XID));
        outside(&p, typed(EVENT_UNREADABLE, single[i]));
    }
    ends(&p, typed(EVENT_UNREADABLE, PAYLOAD)); /* a transaction by itself */
    begins(&p, gtid(false, false));
    ends(&p, typed(EVENT_UNREADABLE, PAYLOAD));
    begins(&p, gtid(true, true)); /* rows of a single statement: up to its last ones */
    within(&p, event(EVENT_MAP));
    within(&p, event(EVENT_MAP));
    within(&p, rows(false));
    ends(&p, rows(true));
    begins(&p, event(EVENT_MAP));
    within(&p, event(EVENT_MAP));
    within(&p, rows(false));
    ends(&p, rows(true));
    outside(&p, rows(true));
}

/* Rows of a MEMORY table are changed once an XA transaction is prepared. */
static void test_xa(void **state)
{
    (void)state;
    struct binlog_position p = begun("log.000001", 4);
    for (unsigned mysql = 0; mysql < 2; mysql++) {
        begins(&p, gtid(!mysql, false));
        if (mysql)
            within(&p, query("XA START X'78',X'',1"));
        within(&p, event(EVENT_MAP));
        within(&p, rows(true));
        if (mysql)
            within(&p, query("XA END X'78',X'',1"));
        ends(&p, typed(EVENT_XID, XA_PREPARE));
        begins(&p, gtid(!mysql, true));
        ends(&p, query("XA COMMIT X'78',X'',1"));
    }
    begins(&p, query("XA START X'79',X'',1")); /* without any GTID */
    within(&p, event(EVENT_MAP));
    within(&p, rows(true));
    ends(&p, typed(EVENT_XID, XA_PREPARE));
    ends(&p, query("XA ROLLBACK X'79',X'',1"));
}

/* A server that crashed while it wrote a group: what was written of it did not happen. */
static void test_cut_off_groups(void **state)
{
    (void)state;
    const struct event whole_files[] = {format(BORN, BORN), event(EVENT_STOP),
                                        rotation("log.000002", 4)};
    struct binlog_position p = begun("log.000001", 4);
    struct event ev = format(BORN, BORN);
    takes(&p, &ev);
    begins(&p, gtid(true, false));
    within(&p, event(EVENT_MAP));
    begins(&p, gtid(true, true)); /* the next one begins */
    begins(&p, gtid(false, false));
    within(&p, query("BEGIN"));
    within(&p, query("BEGIN")); /* says nothing new */
    for (size_t i = 0; i < sizeof whole_files / sizeof *whole_files; i++) {
        begins(&p, gtid(true, false));
        within(&p, rows(true));
        outside(&p, whole_files[i]);
        outside(&p, event(EVENT_SKIPPED));
    }
    begins(&p, gtid(true, false));
    ends(&p, event(EVENT_LOST)); /* the server gives up on it */
    outside(&p, event(EVENT_LOST));

    struct event into = rotation("log.000002", 4);
    begins(&p, gtid(true, false));
    within(&p, rows(true));
    takes(&p, &into);
    assert_true(p.group.cut);
    assert_false(p.group.open);
    assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
    outside(&p, format(BORN, BORN));
    ends(&p, query("TRUNCATE t"));
}

/* What was made up changes nothing, be it in the middle of a group. */
static void test_made_up_within_a_group(void **state)
{
    (void)state;
    struct event made_up[] = {format(BORN, 0), typed(EVENT_SKIPPED, GTID_LIST), gtid(true, true),
                              event(EVENT_STOP)};
    struct binlog_position p = begun("log.000001", 400);
    begins(&p, gtid(true, false));
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++) {
        uint64_t pos = p.pos;
        takes(&p, &made_up[i]);
        assert_int_equal(p.group.part, TRANSACTION_OUTSIDE);
        assert_int_equal(p.end, POSITION_GOES_ON);
        grown(&p, "log.000001", pos);
        within(&p, rows(true));
    }
    assert_int_equal(p.group.begins, 400);
    ends(&p, event(EVENT_XID));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_stepping),
        cmocka_unit_test(test_lies_elsewhere),
        cmocka_unit_test(test_beyond_4_gib),
        cmocka_unit_test(test_another_answer),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_order_of_files),
        cmocka_unit_test(test_reached),
        cmocka_unit_test(test_born),
        cmocka_unit_test(test_a_file_without_an_end),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_encryption),
        cmocka_unit_test(test_transactions),
        cmocka_unit_test(test_what_a_statement_is),
        cmocka_unit_test(test_events_without_a_place),
        cmocka_unit_test(test_single_statements),
        cmocka_unit_test(test_xa),
        cmocka_unit_test(test_cut_off_groups),
        cmocka_unit_test(test_made_up_within_a_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
