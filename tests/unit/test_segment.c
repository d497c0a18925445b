/* journal/segment: a reader returns what was put, as complete transactions, at any time. Damage is
 * tested in test_segment_damage.c. WK_SEED=number adds random walks with another seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dice_kit.h"
#include "io_kit.h"
#include "journal/delta.h"
#include "journal/delta_base.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "journal/segment_write.h"
#include "segment_kit.h"

static struct kit_segment seg;

static int set_up(void **state)
{
    (void)state;
    memset(&kit_io, 0, sizeof kit_io);
    kit_define_tables();
    struct segment_head h = kit_head(1);
    kit_begin_segment(&seg, &h);
    return 0;
}

static int tear_down(void **state)
{
    kit_forget_segment(&seg);
    return kit_clean(state);
}

static const struct change_gtid *gtid(uint32_t domain, uint32_t server, uint64_t seq)
{
    static struct change_gtid g;
    g = (struct change_gtid){domain, server, seq};
    return &g;
}

static void row(enum change_kind kind, unsigned table, const char *before, const char *tuple,
                bool same)
{
    struct buf b = {0}, t = {0};
    if (before)
        buf_adds(&b, before);
    buf_adds(&t, tuple);
    kit_row(&seg, kind, &kit_tables[table], before ? &b : NULL, &t, same);
    buf_free(&b);
    buf_free(&t);
}

/* A tuple of about this length. */
static void big_tuple(struct buf *b, unsigned key, size_t len)
{
    buf_clear(b);
    buf_printf(b, "(%u,'", key);
    while (b->len < len)
        buf_printf(b, "%x, WKJF \\'", (unsigned)b->len * 7 + key);
    buf_adds(b, "',0)");
}

static void insert_big(unsigned key, size_t len)
{
    struct buf b = {0};
    big_tuple(&b, key, len);
    kit_row(&seg, CHANGE_INSERT, &kit_tables[key % 4], NULL, &b, false);
    buf_free(&b);
}

static uint64_t size_of(const char *file)
{
    struct stat st;
    assert_int_equal(fstatat(kit_dir, file, &st, AT_SYMLINK_NOFOLLOW), 0);
    return (uint64_t)st.st_size;
}

/* ---- what comes is what was put ---- */

static void test_all_kinds(void **state)
{
    (void)state;
    kit_begin(&seg, 1700000001, gtid(0, 1, 7));
    kit_insert(&seg, 0, "(1,'a',0)");
    row(CHANGE_UPDATE, 0, "(1,'a',0)", "(1,'b',0)", true);
    row(CHANGE_UPDATE, 0, "(1,'b',0)", "(2,'b',0)", false);
    row(CHANGE_REPLACE, 0, NULL, "(2,'c',0)", false);
    row(CHANGE_UPDATE, 2, "(1,'a',0)", "(1,'a',0)", false);
    row(CHANGE_DELETE, 0, NULL, "(2,'c',0)", false);
    kit_row(&seg, CHANGE_TRUNCATE, &kit_tables[1], NULL, NULL, false);
    kit_end(&seg, 500);
    kit_event(&seg, CHANGE_LOST, 1700000002, "");
    kit_begin(&seg, 1700000003, gtid(0, 1, 8));
    kit_event(&seg, CHANGE_SWAP, 1700000003, "world-20260101T000000-1-1");
    kit_end(&seg, 1);
    kit_begin(&seg, 1700000003, NULL);
    kit_event(&seg, CHANGE_GAP, 1700000003, "an ALTER");
    kit_end(&seg, 1);
    for (enum change_kind k = CHANGE_BEGIN; k <= CHANGE_UNKNOWN_TABLE; k++)
        if (k == CHANGE_TABLE || k == CHANGE_MARKER || k == CHANGE_UNKNOWN_TABLE)
            kit_change(&seg, &(struct change){.kind = k, .table = &kit_tables[0], .why = "x"});
    assert_string_equal(seg.whole.p,
                        "begin log.000001:1000 born 0 0-1-7 at 1700000001\n"
                        "table planets 0123456789abcdef counter 0 key 0\n"
                        "insert planets (1,'a',0)\n"
                        "replace planets (1,'b',0)\n"
                        "delete planets (1,'b',0)\n"
                        "insert planets (2,'b',0)\n"
                        "replace planets (2,'c',0)\n"
                        "table no key  counter -1 key\n"
                        "delete no key (1,'a',0)\n"
                        "insert no key (1,'a',0)\n"
                        "delete planets (2,'c',0)\n"
                        "table fleet's \"best\" `x`\\ f counter 2 key 2 0\n"
                        "truncate fleet's \"best\" `x`\\ \n"
                        "end log.000001:1500 born 0 0-1-7 at 1700000001\n"
                        "lost at 1700000002\n"
                        "begin log.000001:1500 born 0 0-1-8 at 1700000003\n"
                        "swap at 1700000003 world-20260101T000000-1-1 nonce log.000001:4711\n"
                        "end log.000001:1501 born 0 0-1-8 at 1700000003\n"
                        "begin log.000001:1501 born 0 0-0-0 at 1700000003\n"
                        "gap at 1700000003 an ALTER\n"
                        "end log.000001:1502 born 0 0-0-0 at 1700000003\n");
    kit_finalize(&seg);
}

static void test_head(void **state)
{
    (void)state;
    struct segment_head h = kit_head(1), got;
    struct segment_sum sum;
    struct err e;
    struct kit_segment other;
    memset(h.schema, 's', sizeof h.schema - 1);
    memset(h.hostname, 'h', sizeof h.hostname - 1);
    memset(h.why, 'w', sizeof h.why - 1);
    memset(h.server, 'u', sizeof h.server - 1);
    memset(h.from.point.file, 'f', sizeof h.from.point.file - 1);
    memset(h.from.point.gtid, '1', sizeof h.from.point.gtid - 1);
    memset(h.from.point.gtid_after, '2', sizeof h.from.point.gtid_after - 1);
    snprintf(h.world, sizeof h.world, "a-world_with-32-characters-in_it");
    h.number = 99999999999;
    h.from.created_at = UINT32_MAX;
    h.from.point.pos = INT64_MAX;
    h.from.at.ms = INT64_C(4294967295999);
    h.follows = true;
    kit_begin_segment(&other, &h);
    assert_string_equal(other.file, "a-world_with-32-characters-in_it-99999999999.journal");
    assert_int_equal(segment_peek(kit_dir, other.file, &got, &sum, &e), 0);
    assert_memory_equal(&got, &h, sizeof h);
    kit_finalize(&other);
    kit_forget_segment(&other);
}

static void test_names(void **state)
{
    (void)state;
    char name[SEGMENT_NAME_MAX];
    static const struct {
        const char *file, *world;
        uint64_t number;
    } cases[] = {
        {"w-0000000001.journal", "w", 1},
        {"w-12345678901.journal", "w", UINT64_C(12345678901)},
        {"w-999999999999999999.journal", "w", UINT64_C(999999999999999999)},
        {"w-0000000000.journal", "w", 0},
        {"w-1.journal", "w", 0},
        {"w-00000000001.journal", "w", 0},
        {"w-1999999999999999999.journal", "w", 0},
        {"w-0000000001.journal.gz", "w", 0},
        {".w-0000000001.journal.12.new", "w", 0},
        {"w-0000000001", "w", 0},
        {"w-000000000a.journal", "w", 0},
        {"w-+000000001.journal", "w", 0},
        {"w--000000001.journal", "w", 0},
        {"w- 000000001.journal", "w", 0},
        {"w-.journal", "w", 0},
        {"w-", "w", 0},
        {"w", "w", 0},
        {"", "w", 0},
        {"w2-0000000001.journal", "w", 0},
        {"w-2-0000000001.journal", "w", 0},
        {"w-0000000002-0000000001.journal", "w", 0},
        {"w-0000000001.journal", "w-0000000001", 0},
        {"w-0000000001.journal", "w2", 0},
        {"w-0000000001.journal", "", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(segment_number(cases[i].file, cases[i].world), cases[i].number);
        if (cases[i].number) {
            segment_name(cases[i].world, cases[i].number, name);
            assert_string_equal(name, cases[i].file);
        }
    }
}

static void test_gtids(void **state)
{
    (void)state;
    static const struct change_gtid list[] = {
        {0, 1, 5},
        {0, 1, 6},
        {0, 1, 7},
        {0, 1, 9},
        {0, 2, 10},
        {1, 2, 11},
        {0, 0, 0},
        {1, 2, 12},
        {1, 2, 12},
        {1, 2, 3},
        {0, 0, 1},
        {UINT32_MAX, UINT32_MAX, UINT64_MAX},
        {0, 0, 0},
        {0, 0, UINT64_MAX},
        {UINT32_MAX, UINT32_MAX, UINT64_MAX - 1},
        {UINT32_MAX, UINT32_MAX, UINT64_MAX},
    };
    for (size_t i = 0; i < COUNT(list); i++) {
        kit_begin(&seg, 1700000000, &list[i]);
        if (i != 4)
            kit_insert(&seg, 0, "(1,'a',0)");
        kit_end(&seg, 10);
        if (i % 3 == 0)
            kit_sync(&seg);
    }
    kit_check_open(&seg);
    kit_finalize(&seg);
}

/* To the second; a server's clock may be set back. */
static void test_times(void **state)
{
    (void)state;
    static const int64_t seconds[] = {1700000000, 1700000001, 1700000001, 1699999999, 0,
                                      UINT32_MAX, 1,          UINT32_MAX, 1700000000};
    for (size_t i = 0; i < COUNT(seconds); i++) {
        kit_begin(&seg, seconds[i], NULL);
        kit_insert(&seg, 0, "(1,'a',0)");
        kit_event(&seg, CHANGE_LOST, seconds[COUNT(seconds) - 1 - i], "");
        kit_end(&seg, 10);
        kit_event(&seg, CHANGE_LOST, seconds[i], "");
    }
    kit_finalize(&seg);
}

static void test_files(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned n = 0; n < 3; n++) {
            kit_begin(&seg, 1700000000, NULL);
            if (n != i)
                kit_insert(&seg, 0, "(1,'a',0)");
            kit_end(&seg, n == 1 ? UINT64_C(1) << 40 : 10);
        }
        kit_rotate(&seg, i == 2 ? 0 : 1700000000 + i);
    }
    kit_begin(&seg, 1700000000, NULL);
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_end(&seg, 10);
    kit_sync(&seg);
    kit_check_open(&seg);
    seg.now.created_at++; /* the same name again, of another log */
    seg.now.pos = 4;
    kit_begin(&seg, 1700000000, NULL);
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_end(&seg, 10);
    kit_finalize(&seg);
}

/* Reading begins behind the dump's place, and a group is left out by where it begins: that must be
 * no other place than where the log has it. */
static void test_groups_begin_where_they_begin(void **state)
{
    (void)state;
    kit_begin(&seg, 1700000000, gtid(0, 1, 1));
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_end(&seg, 100);
    kit_begin(&seg, 1700000000, gtid(0, 1, 2)); /* another schema's */
    kit_end(&seg, 100);
    kit_begin(&seg, 1700000000, gtid(0, 1, 3));
    kit_insert(&seg, 0, "(2,'a',0)");
    kit_end(&seg, 100);
    kit_rotate(&seg, 0);
    kit_begin(&seg, 1700000000, gtid(0, 1, 4));
    kit_insert(&seg, 0, "(3,'a',0)");
    kit_end(&seg, 100);
    kit_rotate(&seg, 0);
    kit_begin(&seg, 1700000000, gtid(0, 1, 5)); /* what did not happen moves nothing */
    kit_insert(&seg, 0, "(4,'a',0)");
    kit_cut(&seg);
    kit_sync(&seg);
    static const char *const begins[] = {"begin log.000001:1000 born 0 0-1-1 ",
                                         "begin log.000001:1200 born 0 0-1-3 ",
                                         "begin log.000002:256 born 0 0-1-4 "};
    for (size_t i = 0; i < COUNT(begins); i++)
        assert_non_null(strstr(seg.whole.p, begins[i]));
    kit_check_open(&seg);
    kit_finalize(&seg);
}

/* Groups that hold nothing come in their places too, but only the last one of many. */
static void test_empty_groups(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned n = 0; n <= i; n++) {
            kit_begin(&seg, 1700000000 + n, gtid(0, 1, 10 * i + n + 1));
            kit_end(&seg, 100);
        }
        if (i == 2) { /* one that did not happen is none of them */
            kit_begin(&seg, 1700000009, gtid(0, 1, 99));
            kit_insert(&seg, 0, "(1,'a',0)");
            kit_cut(&seg);
        }
        kit_sync(&seg);
        kit_sync(&seg);
        if (i == 1)
            kit_rotate(&seg, 5);
    }
    assert_string_equal(seg.whole.p, "begin log.000001:1000 born 0 0-1-1 at 1700000000\n"
                                     "end log.000001:1100 born 0 0-1-1 at 1700000000\n"
                                     "begin log.000001:1200 born 0 0-1-12 at 1700000001\n"
                                     "end log.000001:1300 born 0 0-1-12 at 1700000001\n"
                                     "begin log.000002:456 born 5 0-1-23 at 1700000002\n"
                                     "end log.000002:556 born 5 0-1-23 at 1700000002\n");
    kit_finalize(&seg);
}

/* A loss stands behind the groups that came before it, also behind those that hold nothing: a
 * restore is told from another one by the place at which the world was lost. */
static void test_loss_behind_empty_groups(void **state)
{
    (void)state;
    kit_begin(&seg, 1700000000, gtid(0, 1, 1));
    kit_end(&seg, 100);
    kit_event(&seg, CHANGE_LOST, 1700000005, "");
    kit_begin(&seg, 1700000006, gtid(0, 1, 2));
    kit_end(&seg, 100);
    kit_event(&seg, CHANGE_GAP, 1700000007, "an incident");
    assert_string_equal(seg.whole.p, "begin log.000001:1000 born 0 0-1-1 at 1700000000\n"
                                     "end log.000001:1100 born 0 0-1-1 at 1700000000\n"
                                     "lost at 1700000005\n"
                                     "begin log.000001:1100 born 0 0-1-2 at 1700000006\n"
                                     "end log.000001:1200 born 0 0-1-2 at 1700000006\n"
                                     "gap at 1700000007 an incident\n");
    kit_finalize(&seg);
}

static void test_gaps(void **state)
{
    (void)state;
    kit_begin(&seg, 1700000000, gtid(0, 1, 1));
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_event(&seg, CHANGE_LOST, 1700000000, "");
    kit_event(&seg, CHANGE_GAP, 1700000001, "the first one tells why");
    kit_insert(&seg, 0, "(2,'a',0)");
    kit_event(&seg, CHANGE_GAP, 1700000001, "the second one follows from it");
    kit_event(&seg, CHANGE_SWAP, 1700000001, "dump");
    kit_insert(&seg, 1, "(3,'a',0)");
    kit_end(&seg, 10);
    kit_begin(&seg, 1700000002, gtid(0, 1, 2));
    kit_event(&seg, CHANGE_GAP, 1700000002, "nothing before it");
    kit_end(&seg, 10);
    kit_begin(&seg, 1700000003, gtid(0, 1, 3)); /* its tables were not defined above */
    kit_insert(&seg, 1, "(3,'a',0)");
    kit_insert(&seg, 0, "(3,'a',0)");
    kit_end(&seg, 10);
    kit_begin(&seg, 1700000003, gtid(0, 1, 4));
    kit_event(&seg, CHANGE_GAP, 1700000002, "it did not happen either");
    kit_cut(&seg);
    kit_check_sum(&seg, segment_written(seg.w));
    kit_finalize(&seg);
}

/* Reads back what is known of a table's creation and of its engine. */
static void test_origins(void **state)
{
    (void)state;
    static const enum change_kind kinds[] = {CHANGE_CREATED, CHANGE_DEFINED, CHANGE_GAP};
    struct err e;
    struct change c;
    for (unsigned i = 0; i < 12; i++) {
        struct statement_scope scope = {.count = 1, .may_exist = i & 1, .engine = i & 2};
        snprintf(scope.tables[0].name, sizeof scope.tables[0].name, "t");
        c = (struct change){.kind = kinds[i / 4], .why = "why", .scope = &scope};
        assert_int_equal(segment_put(seg.w, &c, &e), 0);
    }
    assert_int_equal(segment_finalize(seg.w, &e), 0);
    seg.w = NULL;
    struct segment_reader *r = segment_open(kit_dir, seg.file, &e);
    assert_non_null(r);
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(segment_next(r, &c, &e), 1);
        assert_int_equal(c.kind, kinds[i / 4]);
        assert_int_equal(c.scope->may_exist, i & 1);
        assert_int_equal(c.scope->engine, (i & 2) != 0);
    }
    segment_reader_close(r);
}

static void test_reasons(void **state)
{
    (void)state;
    struct buf why = {0};
    struct change c = {.kind = CHANGE_GAP};
    struct err e;
    for (unsigned i = 0; i < 3000; i++)
        buf_addc(&why, (char)(1 + i % 255));
    for (size_t from = 0; from < 300; from += 7) {
        c.why = why.p + from;
        assert_int_equal(segment_put(seg.w, &c, &e), 0);
    }
    c.why = "";
    assert_int_equal(segment_put(seg.w, &c, &e), 0);
    assert_int_equal(segment_finalize(seg.w, &e), 0);
    seg.w = NULL;
    struct kit_read k = kit_read_segment(seg.file);
    struct segment_head h;
    struct segment_sum sum;
    assert_int_equal(k.got, 0);
    assert_int_equal(k.sum.mark_count, 44);
    assert_true(text_utf8_valid(k.text.p, k.text.len));
    assert_int_equal(segment_peek(kit_dir, seg.file, &h, &sum, &e), 1);
    assert_int_equal(sum.mark_count, 44);
    for (size_t i = 0; i < SEGMENT_MARKS; i++)
        assert_true(text_utf8_valid(sum.marks[i].text, strlen(sum.marks[i].text)));
    buf_free(&k.text);
    buf_free(&why);
}

/* Who restored may have written anything into the log, and a server's names are its own. */
static void test_names_that_are_no_text(void **state)
{
    (void)state;
    struct err e;
    struct statement_mark mark = {.dump = "d\xff", .nonce = "\xc3", .upto = {.file = "\xff\x01"}};
    struct change c = {.kind = CHANGE_SWAP, .mark = &mark};
    struct change_table bad = {.name = "caf\xe9", .columns = "1", .counter = -1};
    assert_int_equal(segment_put(seg.w, &c, &e), 0);
    kit_begin(&seg, 1700000000, NULL);
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_end(&seg, 10);
    assert_int_equal(segment_sync(seg.w, &e), 0);
    struct kit_read k = kit_read_segment(seg.file);
    assert_int_equal(k.got, 0);
    assert_non_null(strstr(k.text.p, "insert"));
    buf_free(&k.text);

    kit_begin(&seg, 1700000000, NULL);
    c = (struct change){.kind = CHANGE_INSERT, .table = &bad, .tuple = "(1)", .len = 3};
    assert_int_equal(segment_put(seg.w, &c, &e), -1);
    assert_string_equal(e.text, "cannot write journal segment world-0000000001.journal: a name is "
                                "not UTF-8");
    c = (struct change){.kind = CHANGE_BEGIN, .file = "l\xf6g.000002"};
    assert_int_equal(segment_put(seg.w, &c, &e), -1);
    struct segment_head h = kit_head(2);
    memcpy(h.from.point.file, "\xff.000001", 9);
    assert_null(segment_create(kit_dir, &h, &e));
    assert_string_equal(e.text, "cannot write journal segment world-0000000002.journal: a name is "
                                "not UTF-8");
    assert_false(kit_there("world-0000000002.journal"));
}

/* ---- groups ---- */

static void test_cut_groups(void **state)
{
    (void)state;
    kit_change(&seg, &(struct change){.kind = CHANGE_CUT}); /* none is open: nothing to cut */
    kit_begin(&seg, 1700000000, gtid(0, 1, 1));
    kit_cut(&seg);
    kit_begin(&seg, 1700000001, gtid(0, 1, 1));
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_cut(&seg);
    kit_begin(&seg, 1700000002, gtid(0, 1, 1));
    kit_insert(&seg, 0, "(2,'a',0)");
    kit_end(&seg, 10);
    kit_change(&seg, &(struct change){.kind = CHANGE_CUT});
    kit_begin(&seg, 1700000003, gtid(0, 1, 2));
    kit_insert(&seg, 0, "(3,'a',0)");
    kit_insert(&seg, 1, "(3,'a',0)");
    kit_cut(&seg);
    kit_begin(&seg, 1700000001, gtid(0, 1, 3));
    kit_insert(&seg, 1, "(4,'a',0)");
    kit_end(&seg, 10);
    kit_check_sum(&seg, segment_written(seg.w));
    kit_finalize(&seg);
}

static void test_large_groups(void **state)
{
    (void)state;
    kit_begin(&seg, 1700000000, gtid(0, 1, 1));
    kit_insert(&seg, 4, "(1,'a',0)");
    kit_end(&seg, 10);
    for (unsigned round = 0; round < 4; round++) {
        if (round == 2)
            kit_sync(&seg);
        uint64_t bytes = segment_bytes(seg.w);
        kit_begin(&seg, 1700000000, gtid(0, 1, 2));
        for (unsigned i = 0; i < 12; i++) {
            insert_big(i, 100000);
            if (i % 5 == 0) {
                kit_sync(&seg);
                kit_check_open(&seg);
            }
        }
        assert_true(segment_bytes(seg.w) > bytes + 4 * SEGMENT_BODY);
        if (round == 1)
            kit_event(&seg, CHANGE_GAP, 1700000000, "all of it was for nothing");
        if (round == 0)
            kit_cut(&seg);
        else
            kit_end(&seg, 1000);
        assert_true(round > 1 || segment_bytes(seg.w) < bytes + 1000);
        kit_check_sum(&seg, segment_written(seg.w));
        kit_sync(&seg);
        assert_int_equal(size_of(seg.file), segment_bytes(seg.w));
        kit_check_open(&seg);
        kit_begin(&seg, 1700000000, gtid(0, 1, 3));
        kit_insert(&seg, 0, "(1,'a',0)");
        kit_insert(&seg, 4, "(1,'a',0)");
        kit_end(&seg, 10);
    }
    kit_begin(&seg, 1700000000, gtid(0, 1, 4)); /* is open when the segment is finalized */
    for (unsigned i = 0; i < 12; i++)
        insert_big(i, 100000);
    kit_finalize(&seg);
}

/* Small groups fill frames, and each frame holds whole ones. */
static void test_many_groups(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 20000; i++) {
        kit_begin(&seg, 1700000000 + i / 100, gtid(0, 1, i));
        kit_insert(&seg, i % 5, "(123456789,'some text',NULL)");
        kit_end(&seg, 300);
    }
    kit_sync(&seg);
    assert_true(size_of(seg.file) < 20000 * 40);
    kit_check_open(&seg);
    kit_finalize(&seg);
}

/* A table that is defined anew is another one; a day of that must not be too much. */
static void test_many_tables(void **state)
{
    (void)state;
    enum { TABLES = 100200 };
    struct change_table *t = xcalloc(TABLES, sizeof *t);
    struct change c = {.kind = CHANGE_BEGIN, .file = "log.000001", .pos = 1000};
    struct err e;
    assert_int_equal(segment_put(seg.w, &c, &e), 0);
    for (unsigned i = 0; i < TABLES; i++) {
        t[i] = (struct change_table){.name = i % 2 ? "a" : "b", .counter = -1};
        c = (struct change){.kind = CHANGE_TRUNCATE, .table = &t[i]};
        assert_int_equal(segment_put(seg.w, &c, &e), 0);
    }
    c = (struct change){.kind = CHANGE_END, .file = "log.000001", .pos = 2000};
    assert_int_equal(segment_put(seg.w, &c, &e), 0);
    assert_int_equal(segment_finalize(seg.w, &e), 0);
    seg.w = NULL;
    free(t);
    struct segment_reader *r = segment_open(kit_dir, seg.file, &e);
    assert_non_null(r);
    unsigned n = 0;
    int got;
    while ((got = segment_next(r, &c, &e)) == 1)
        if (c.kind == CHANGE_TRUNCATE)
            assert_string_equal(c.table->name, n++ % 2 ? "a" : "b");
    if (got < 0)
        fail_msg("%s", e.text);
    assert_int_equal(n, TABLES);
    segment_reader_close(r);
}

/* What no reader would take is not written. */
static void test_too_long(void **state)
{
    (void)state;
    struct err e;
    struct buf b = {0};
    struct change c = {.kind = CHANGE_INSERT, .table = &kit_tables[0]};
    kit_begin(&seg, 1700000000, NULL);
    insert_big(1, SEGMENT_BODY_MAX - 1000);
    kit_end(&seg, 10);
    kit_sync(&seg);
    kit_check_open(&seg);
    kit_begin(&seg, 1700000000, NULL);
    big_tuple(&b, 1, SEGMENT_BODY_MAX);
    c.tuple = b.p;
    c.len = b.len;
    assert_int_equal(kit_put_change(seg.w, &c, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    buf_free(&b);
}

/* ---- how far it is on the disk ---- */

static void test_sync(void **state)
{
    (void)state;
    assert_false(segment_dirty(seg.w));
    unsigned syncs = kit_io.syncs;
    kit_sync(&seg);
    assert_int_equal(kit_io.syncs, syncs);
    kit_begin(&seg, 1700000000, NULL);
    assert_false(segment_dirty(seg.w));
    kit_end(&seg, 10);
    assert_true(segment_dirty(seg.w)); /* the place is news, too */
    kit_sync(&seg);
    assert_false(segment_dirty(seg.w));
    assert_int_equal(kit_io.syncs, syncs + 1);
    kit_check_open(&seg);
    for (unsigned i = 0; i < 20; i++) {
        kit_begin(&seg, 1700000000, NULL);
        if (i % 3) {
            kit_insert(&seg, i % 4, "(1,'a',0)");
            assert_true(segment_dirty(seg.w));
        }
        kit_sync(&seg);
        kit_check_open(&seg);
        kit_insert(&seg, 4, "(1,'a',0)");
        kit_end(&seg, 10);
        syncs = kit_io.syncs;
        kit_sync(&seg);
        assert_int_equal(kit_io.syncs, syncs + 1);
        assert_false(segment_dirty(seg.w));
        kit_check_open(&seg);
        if (i % 4 == 3)
            kit_event(&seg, CHANGE_LOST, 1700000000, "");
    }
    kit_finalize(&seg);
}

static struct segment_place end_of_open_file(void)
{
    struct kit_read k = kit_read_segment(seg.file);
    assert_int_equal(k.got, 0);
    buf_free(&k.text);
    return k.sum.to;
}

/* That nothing came is written, but nobody waits for the disk because of it, and it is no
 * change. */
static void test_quiet(void **state)
{
    (void)state;
    struct err e;
    kit_begin(&seg, 1700000000, gtid(0, 1, 7));
    kit_insert(&seg, 0, "(1,'a',0)");
    assert_int_equal(segment_quiet(seg.w, (wall_t){1700000005000}, &e), 0); /* within a group */
    kit_end(&seg, 10);
    kit_sync(&seg);
    unsigned syncs = kit_io.syncs;
    struct segment_place was = end_of_open_file();
    assert_int_equal(was.at.ms, 1700000000000);
    assert_int_equal(segment_quiet(seg.w, (wall_t){1700000000999}, &e), 0); /* the same second */
    assert_false(segment_dirty(seg.w));
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(segment_quiet(seg.w, (wall_t){1700000000999 + i * 1000}, &e), 0);
        struct segment_place is = end_of_open_file();
        assert_int_equal(is.at.ms, 1700000000000 + i * 1000);
        assert_int_equal(is.point.pos, was.point.pos);
        assert_string_equal(is.point.gtid, was.point.gtid);
        assert_true(segment_dirty(seg.w));
        assert_false(segment_urgent(seg.w));
    }
    assert_int_equal(kit_io.syncs, syncs);
    assert_int_equal(segment_sync(seg.w, &e), 0);
    assert_int_equal(kit_io.syncs, syncs + 1);
    assert_false(segment_dirty(seg.w));
}

/* Changes that wait for the disk go on waiting; a group of another schema is named together with
 * the time. */
static void test_quiet_after_changes(void **state)
{
    (void)state;
    struct err e;
    kit_begin(&seg, 1700000000, NULL);
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_end(&seg, 10);
    assert_int_equal(segment_quiet(seg.w, (wall_t){1700000002000}, &e), 0);
    assert_true(segment_urgent(seg.w));
    assert_int_equal(segment_sync(seg.w, &e), 0);
    assert_false(segment_urgent(seg.w));
    uint64_t pos = end_of_open_file().point.pos;
    kit_begin(&seg, 1700000003, NULL);
    kit_end(&seg, 25);
    assert_false(segment_urgent(seg.w));
    assert_int_equal(segment_quiet(seg.w, (wall_t){1700000009000}, &e), 0);
    assert_int_equal(end_of_open_file().point.pos, pos + 25);
    assert_int_equal(end_of_open_file().at.ms, 1700000009000);
    assert_false(segment_urgent(seg.w));
}

/* Frames that were full are in the file before anybody asks for it, but not on the disk. */
static void test_sync_of_full_frames(void **state)
{
    (void)state;
    unsigned full = 0; /* with the end of a group in it */
    for (unsigned i = 0; size_of(seg.file) < 8 * SEGMENT_BODY; i++) {
        uint64_t was = size_of(seg.file);
        kit_begin(&seg, 1700000000, NULL);
        insert_big(i, 5); /* an end is as likely as a row to fill it */
        kit_end(&seg, UINT64_C(1) << (i % 40));
        assert_true(segment_dirty(seg.w));
        if (size_of(seg.file) == was || size_of(seg.file) != segment_bytes(seg.w))
            continue;
        unsigned syncs = kit_io.syncs;
        kit_sync(&seg);
        assert_int_equal(kit_io.syncs, syncs + 1);
        full++;
    }
    assert_true(full > 0);
    /* What takes the place of a group that was on the disk is not there yet. */
    kit_begin(&seg, 1700000000, NULL);
    for (unsigned i = 0; i < 8; i++)
        insert_big(i, 100000);
    kit_sync(&seg);
    kit_cut(&seg);
    kit_begin(&seg, 1700000000, NULL);
    kit_insert(&seg, 0, "(1,'a',0)");
    kit_end(&seg, 10);
    unsigned syncs = kit_io.syncs;
    kit_sync(&seg);
    assert_int_equal(kit_io.syncs, syncs + 1);
}

/* The next segment begins where this one says that it ends, with the number of the group before. */
static void test_next_one(void **state)
{
    (void)state;
    struct kit_segment next;
    struct segment_head h = seg.head;
    for (unsigned i = 1; i < 4; i++) {
        for (unsigned n = 0; n < i; n++) {
            kit_begin(&seg, 1700000000 + i, gtid(i / 2, 1, 100 * i + n));
            if (i > 1)
                kit_insert(&seg, 0, "(1,'a',0)");
            kit_end(&seg, 10);
        }
        kit_sync(&seg);
        const struct segment_sum *sum = segment_written(seg.w);
        kit_check_sum(&seg, sum);
        h.from = sum->to;
        h.number = i + 1;
        h.follows = true;
        kit_finalize(&seg);
        kit_begin_segment(&next, &h);
        next.now = seg.now;
        kit_forget_segment(&seg);
        seg = next;
    }
    assert_string_equal(h.from.point.gtid, "1-1-302");
    struct kit_read k = kit_read_segment(seg.file);
    kit_same_place(&k.sum.to, &h.from);
    buf_free(&k.text);
}

static void test_marks(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SEGMENT_MARKS + 3; i++) {
        if (i % 2)
            kit_begin(&seg, 1700000000 + i, NULL);
        kit_event(&seg, i % 3 ? CHANGE_SWAP : CHANGE_LOST, 1700000000 + i, "the dump");
        if (i % 2)
            kit_end(&seg, 1);
    }
    kit_begin(&seg, 1700000000, NULL);
    kit_event(&seg, CHANGE_SWAP, 1700000000, "never put in");
    kit_cut(&seg);
    const struct segment_sum *s = segment_written(seg.w);
    kit_check_sum(&seg, s);
    assert_int_equal(s->mark_count, SEGMENT_MARKS + 3);
    assert_int_equal(s->marks[3].kind, CHANGE_LOST);
    assert_int_equal(s->marks[4].at.ms, 1700000004000);
    assert_string_equal(s->marks[4].text, "the dump");
    kit_finalize(&seg);
}

/* The place of a mark is given to another one when its group did not happen. */
static void test_marks_taken_back(void **state)
{
    (void)state;
    kit_begin(&seg, 1700000000, NULL);
    kit_event(&seg, CHANGE_SWAP, 1700000000, "never put in");
    kit_event(&seg, CHANGE_SWAP, 1700000001, "nor this");
    kit_cut(&seg);
    kit_event(&seg, CHANGE_LOST, 1700000002, "");
    kit_begin(&seg, 1700000003, NULL);
    kit_event(&seg, CHANGE_SWAP, 1700000003, "neither");
    kit_event(&seg, CHANGE_GAP, 1700000004, "because of this");
    kit_end(&seg, 1);
    const struct segment_sum *s = segment_written(seg.w);
    assert_int_equal(s->mark_count, 2);
    assert_int_equal(s->marks[0].kind, CHANGE_LOST);
    assert_int_equal(s->marks[1].kind, CHANGE_GAP);
    assert_string_equal(s->marks[1].text, "because of this");
    kit_finalize(&seg);
}

/* ---- walks: any sequence of changes ---- */

static const char *some_text(void)
{
    static const char *const texts[] = {"1",     "22",         "'a'",        "'a,b'", "'),('",
                                        "'\\''", "'\\\\'",     "-1.5e-7",    "0xab",  "'WKJF'",
                                        "'12'",  "_latin1'x'", "'\xff\xfe'", "'\\0'", "'it\\'s'"};
    return texts[dice(COUNT(texts))];
}

struct some_row {
    const char *columns[3];
    struct buf tuple;
};

static void make_row(struct some_row *r, const struct some_row *like, const struct change_table *t)
{
    for (unsigned i = 0; i < 3; i++) {
        bool keep = false;
        for (size_t k = 0; like && k < t->key_count; k++)
            keep |= t->key[k] == i;
        r->columns[i] = like && keep && dice(4) ? like->columns[i] : some_text();
    }
    buf_clear(&r->tuple);
    buf_printf(&r->tuple, "(%s,%s,%s", r->columns[0], r->columns[1], r->columns[2]);
    if (dice(40) == 0) { /* behind the key */
        buf_adds(&r->tuple, ",'");
        for (unsigned n = dice(9000); n; n--)
            buf_adds(&r->tuple, "0123456789 long");
        buf_addc(&r->tuple, '\'');
    }
    buf_addc(&r->tuple, ')');
}

static bool same_key(const struct change_table *t, const struct some_row *a,
                     const struct some_row *b)
{
    bool same = t->key_count > 0;
    for (size_t k = 0; k < t->key_count; k++)
        same = same && strcmp(a->columns[t->key[k]], b->columns[t->key[k]]) == 0;
    return same;
}

static void walk_row(void)
{
    static const enum change_kind kinds[] = {CHANGE_INSERT, CHANGE_DELETE, CHANGE_REPLACE,
                                             CHANGE_UPDATE, CHANGE_UPDATE, CHANGE_TRUNCATE};
    struct some_row before = {0}, after = {0};
    enum change_kind kind = kinds[dice(COUNT(kinds))];
    struct change_table *t = &kit_tables[dice(KIT_TABLES)];
    make_row(&before, NULL, t);
    make_row(&after, &before, t);
    kit_row(&seg, kind, t, kind == CHANGE_UPDATE ? &before.tuple : NULL,
            kind == CHANGE_TRUNCATE ? NULL : &after.tuple, same_key(t, &before, &after));
    buf_free(&before.tuple);
    buf_free(&after.tuple);
}

static void walk_event(void)
{
    static const enum change_kind kinds[] = {CHANGE_LOST, CHANGE_SWAP, CHANGE_GAP};
    char text[60];
    snprintf(text, sizeof text, "text %u", dice(1000));
    kit_event(&seg, kinds[dice(COUNT(kinds))], 1700000000 + dice(100), text);
}

static void walk_begin(void)
{
    struct change_gtid g = seg.seen_gtid;
    unsigned n = dice(10);
    if (n < 6)
        g.seq++;
    else if (n < 8)
        g = (struct change_gtid){dice(3), dice(3), 1 + dice(1000000)};
    else if (n == 9)
        g = (struct change_gtid){0};
    kit_begin(&seg, 1700000000 + dice(50) - dice(2) * dice(50), &g);
}

static void walk_step(void)
{
    unsigned n = dice(100);
    if (n < 12) {
        kit_sync(&seg);
        if (dice(4) == 0)
            kit_check_open(&seg);
    } else if (n < 17) {
        walk_event();
    } else if (!seg.within && n < 25) {
        kit_rotate(&seg, dice(3));
    } else if (!seg.within && n < 35) { /* events that are in no group */
        seg.now.pos += dice(100);
    } else if (!seg.within) {
        walk_begin();
    } else if (n < 72) {
        walk_row();
    } else if (n < 80) {
        kit_cut(&seg);
    } else {
        kit_end(&seg, 1 + dice(1000));
    }
}

static void recover(void)
{
    char damage[LINE];
    struct err e;
    if (segment_recover(kit_dir, seg.file, damage, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(damage, "");
}

/* Its writer is killed behind the last sync, and may have written more. */
static void walk_killed(void)
{
    struct kit_read k;
    kit_sync(&seg);
    struct buf synced = {0};
    buf_add(&synced, seg.whole.p, seg.whole.len);
    for (unsigned n = dice(30); n; n--)
        walk_step();
    segment_close(seg.w);
    seg.w = NULL;
    recover();
    k = kit_read_segment(seg.file);
    assert_int_equal(k.got, 0);
    assert_true(k.finalized);
    assert_true(k.text.len >= synced.len && k.text.len <= seg.whole.len);
    assert_memory_equal(k.text.p, seg.whole.p, k.text.len);
    buf_free(&k.text);
    buf_free(&synced);
}

static void walk_anew(uint64_t from)
{
    struct segment_head h = kit_head(1 + from % 1000);
    dice_seed = from * UINT64_C(0x9e3779b97f4a7c15) + 1;
    kit_forget_segment(&seg);
    kit_clean(NULL);
    kit_define_tables();
    kit_begin_segment(&seg, &h);
}

static void walk_all(uint64_t from, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        walk_anew(from + round);
        for (unsigned n = dice(150); n; n--)
            walk_step();
        if (!seg.within)
            kit_check_sum(&seg, segment_written(seg.w));
        if (dice(2))
            kit_finalize(&seg);
        else
            walk_killed();
    }
}

static void test_walks(void **state)
{
    (void)state;
    walk_all(1, 600);
    const char *other = getenv("WK_SEED");
    if (other) {
        printf("WK_SEED=%s\n", other);
        walk_all(strtoull(other, NULL, 10), 5000);
    }
}

/* ---- what changes come to ---- */

#define ROWS 40u

/* A table's rows, by keys: where one is NULL there is none. Without a primary key all rows are. */
struct world {
    struct change_table *t;
    struct some_row now[ROWS], base[ROWS];
    bool there[ROWS], in_base[ROWS];
    struct delta *direct, *filed;
};

static struct delta_table *delta_of(struct delta *f, const struct change_table *t)
{
    return delta_table(f, t->name, t->key, t->key_count);
}

static void delta_one(struct delta *f, const struct change *c)
{
    struct err e = {0};
    struct delta_table *t = c->table ? delta_of(f, c->table) : NULL;
    int rc = c->kind == CHANGE_INSERT    ? delta_change(t, DELTA_INSERT, c->tuple, c->len, &e)
             : c->kind == CHANGE_DELETE  ? delta_change(t, DELTA_DELETE, c->tuple, c->len, &e)
             : c->kind == CHANGE_REPLACE ? delta_change(t, DELTA_REPLACE, c->tuple, c->len, &e)
             : c->kind == CHANGE_UPDATE
                 ? delta_update(t, c->before, c->before_len, c->tuple, c->len, &e)
                 : 0;
    if (c->kind == CHANGE_TRUNCATE)
        delta_truncate(t);
    if (rc < 0)
        fail_msg("%s: %s", change_names[c->kind], e.text);
}

/* Row `i` with its key, which no other one has, and anything else. */
static void make_keyed(struct world *w, unsigned i, struct some_row *r)
{
    static char keys[ROWS][16];
    snprintf(keys[i], sizeof keys[i], i % 2 ? "%u" : "'%u,\\''", i / 2);
    for (unsigned c = 0; c < 3; c++)
        r->columns[c] = some_text();
    r->columns[w->t->key_count ? w->t->key[0] : 0] = keys[i];
    if (w->t->key_count > 1)
        r->columns[w->t->key[1]] = "'same'";
    buf_clear(&r->tuple);
    buf_printf(&r->tuple, "(%s,%s,%s)", r->columns[0], r->columns[1], r->columns[2]);
}

static void both(struct world *w, enum change_kind kind, const struct buf *before,
                 const struct buf *tuple, bool same)
{
    struct change c = {.kind = kind, .table = w->t};
    c.before = before ? before->p : NULL;
    c.before_len = before ? before->len : 0;
    c.tuple = tuple ? tuple->p : NULL;
    c.len = tuple ? tuple->len : 0;
    delta_one(w->direct, &c);
    kit_row(&seg, kind, w->t, before, tuple, same);
}

static void world_step(struct world *w)
{
    unsigned i = dice(ROWS), to = dice(3) ? i : dice(ROWS);
    struct some_row row = {0};
    if (dice(60) == 0) {
        both(w, CHANGE_TRUNCATE, NULL, NULL, false);
        memset(w->there, 0, sizeof w->there);
    } else if (!w->there[i]) {
        make_keyed(w, i, &w->now[i]);
        both(w, CHANGE_INSERT, NULL, &w->now[i].tuple, false);
        w->there[i] = true;
    } else if (dice(3) == 0) {
        both(w, CHANGE_DELETE, NULL, &w->now[i].tuple, false);
        w->there[i] = false;
    } else if (to == i || !w->there[to]) {
        make_keyed(w, to, &row);
        both(w, CHANGE_UPDATE, &w->now[i].tuple, &row.tuple, to == i && w->t->key_count);
        w->there[i] = false;
        w->there[to] = true;
        buf_clear(&w->now[to].tuple);
        buf_add(&w->now[to].tuple, row.tuple.p, row.tuple.len);
    }
    buf_free(&row.tuple);
}

static int take_rows(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e)
{
    (void)rows;
    (void)e;
    buf_add(arg, tuples, len);
    return 0;
}

/* The rows that stay, those that are dropped, and those that are written. */
static void comes_to(struct world *w, struct delta *f, struct buf *out)
{
    struct err e = {0};
    struct delta_table *t = delta_of(f, w->t);
    for (unsigned i = 0; i < ROWS; i++)
        if (w->in_base[i]) {
            int stays = delta_base(t, w->base[i].tuple.p, w->base[i].tuple.len, false, &e);
            buf_printf(out, "%d %s\n", stays, w->base[i].tuple.p);
        }
    if (delta_finish(t, false, 4000, take_rows, out, &e) < 0)
        fail_msg("%s", e.text);
}

static void world_begin(struct world *w, unsigned table)
{
    *w = (struct world){.t = &kit_tables[table], .direct = delta_new(), .filed = delta_new()};
    for (unsigned i = 0; i < ROWS; i++) {
        w->there[i] = w->in_base[i] = dice(2);
        make_keyed(w, i, &w->now[i]);
        buf_add(&w->base[i].tuple, w->now[i].tuple.p, w->now[i].tuple.len);
    }
}

static void world_end(struct world *w)
{
    struct buf direct = {0}, filed = {0};
    comes_to(w, w->direct, &direct);
    comes_to(w, w->filed, &filed);
    assert_int_equal(direct.len, filed.len);
    assert_memory_equal(direct.p, filed.p, direct.len);
    for (unsigned i = 0; i < ROWS; i++) {
        buf_free(&w->now[i].tuple);
        buf_free(&w->base[i].tuple);
    }
    delta_free(w->direct);
    delta_free(w->filed);
    buf_free(&direct);
    buf_free(&filed);
}

static void read_into(struct delta *f)
{
    struct change c;
    struct err e;
    int got;
    struct segment_reader *r = segment_open(kit_dir, seg.file, &e);
    assert_non_null(r);
    while ((got = segment_next(r, &c, &e)) == 1)
        delta_one(f, &c);
    assert_int_equal(got, 0);
    segment_reader_close(r);
}

/* A segment does not keep what was before a change: what it comes to is the same. */
static void test_folded(void **state)
{
    (void)state;
    for (unsigned round = 1; round <= 200; round++) {
        struct world w;
        walk_anew(round);
        world_begin(&w, round % 4);
        for (unsigned n = dice(20); n; n--) {
            kit_begin(&seg, 1700000000, NULL);
            for (unsigned i = dice(20); i; i--)
                world_step(&w);
            kit_end(&seg, 100);
        }
        kit_finalize(&seg);
        read_into(w.filed);
        world_end(&w);
    }
}

/* ---- a reader beside the writer ---- */

static unsigned written, stride;

static void write_meanwhile(void)
{
    if (kit_io.reads % stride || written++ % 100 > 40)
        return;
    for (unsigned n = 1 + dice(4); n; n--)
        walk_step();
    if (dice(3) == 0 && seg.within)
        for (unsigned i = 0; i < 8; i++)
            insert_big(i, 60000);
    if (dice(3) == 0)
        kit_sync(&seg);
}

/* While the reader reads, anything may come behind, also into the place of what it just read: it
 * stops at one of the ends, and takes none of this for damage. */
static void test_growing(void **state)
{
    (void)state;
    struct buf began = {0}; /* what was whole when the reader began */
    for (unsigned round = 1; round <= dice_rounds(150); round++) {
        struct kit_read k = {0};
        walk_anew(round);
        for (unsigned n = dice(60); n; n--)
            walk_step();
        kit_sync(&seg);
        buf_clear(&began);
        buf_add(&began, seg.whole.p, seg.whole.len);
        stride = 1 + dice(4);
        written = 0;
        kit_io.meanwhile = write_meanwhile;
        struct segment_reader *r = segment_open(kit_dir, seg.file, &k.e);
        assert_non_null(r);
        kit_read_from(r, &k);
        kit_io.meanwhile = NULL;
        if (k.got < 0)
            fail_msg("round %u: %s", round, k.e.text);
        assert_in_range(k.text.len, began.len, seg.whole.len);
        assert_memory_equal(k.text.p, seg.whole.p, k.text.len);
        segment_reader_close(r);
        buf_free(&k.text);
    }
    buf_free(&began);
}

static unsigned wait; /* so many calls more */

/* The group that is open goes, and others come in its place. */
static void take_back(void)
{
    if (wait-- != 1)
        return;
    kit_cut(&seg);
    for (unsigned i = 0; i < 9; i++) {
        kit_begin(&seg, 1700000000, NULL);
        insert_big(i, 40000 + 7000 * i);
        kit_end(&seg, 10);
        kit_sync(&seg);
    }
}

static void test_taken_back_meanwhile(void **state)
{
    (void)state;
    for (unsigned n = 1; n < 60; n++) {
        walk_anew(n);
        kit_begin(&seg, 1700000000, NULL);
        kit_insert(&seg, 0, "(1,'a',0)");
        kit_end(&seg, 10);
        kit_sync(&seg);
        kit_begin(&seg, 1700000000, NULL);
        for (unsigned i = 0; i < 20; i++)
            insert_big(i, 60000);
        wait = n;
        kit_io.meanwhile = take_back;
        struct kit_read k = kit_read_segment(seg.file);
        kit_io.meanwhile = NULL;
        if (k.got < 0)
            fail_msg("call %u: %s", n, k.e.text);
        assert_true(k.text.len <= seg.whole.len);
        assert_memory_equal(k.text.p, seg.whole.p, k.text.len);
        buf_free(&k.text);
    }
}

/* Just when the end was there, more is. */
static void append_two(void)
{
    if (wait-- != 1)
        return;
    for (unsigned i = 0; i < 2; i++) {
        kit_begin(&seg, 1700000000, NULL);
        kit_insert(&seg, 0, "(1,'a',0)");
        kit_end(&seg, 10);
        kit_sync(&seg);
    }
}

static void test_appended_meanwhile(void **state)
{
    (void)state;
    for (unsigned n = 1; n < 12; n++) {
        walk_anew(n);
        wait = n;
        kit_io.meanwhile = append_two;
        struct kit_read k = kit_read_segment(seg.file);
        kit_io.meanwhile = NULL;
        if (k.got < 0)
            fail_msg("call %u: %s", n, k.e.text);
        assert_true(k.text.len == 0 || k.text.len == seg.whole.len);
        buf_free(&k.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_head, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gtids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_groups_begin_where_they_begin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_loss_behind_empty_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_origins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reasons, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_that_are_no_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sync, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_quiet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_quiet_after_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sync_of_full_frames, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_next_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_marks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_marks_taken_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_walks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_growing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_taken_back_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_appended_meanwhile, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
