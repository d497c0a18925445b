/* journal/recovery_range: which past moments can be restored. One log, "log.000001", in which a
 * byte is written each second, so a position is a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "journal/recovery_range.h"

#define FILE_NAME "log.000001"
#define START 1000000 /* ms, of byte 0 */
#define DUMPS 6
#define SEGMENTS 6

static struct catalog_entry dump_list[DUMPS];
static struct archive_segment segment_list[SEGMENTS];
static struct catalog dumps;
static struct archive segments;
static struct recovery_range out;
static struct recovery_range_server server;
static struct recovery_range_file file_list[2];
static struct manifest present; /* the world as it is, with the tables of all dumps */

static wall_t at(uint64_t pos)
{
    return (wall_t){START + (int64_t)pos * 1000};
}

static struct db_binlog_pos point(uint64_t pos)
{
    return (struct db_binlog_pos){.file = FILE_NAME, .pos = pos};
}

static int set_up(void **state)
{
    (void)state;
    dumps = (struct catalog){.list = dump_list};
    segments = (struct archive){.list = segment_list};
    present = (struct manifest){0};
    file_list[0] = (struct recovery_range_file){.name = FILE_NAME, .size = 1000};
    server = (struct recovery_range_server){.id = {.uid = "1", .datadir = "/data"},
                                            .files = file_list,
                                            .file_count = 1,
                                            .world = &present};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    recovery_range_free(&out);
    assert_null(out.list);
    return 0;
}

/* Oldest first, as they were taken; the catalog has the newest in front. */
static struct catalog_entry *dump(uint64_t pos)
{
    for (size_t i = dumps.count++; i > 0; i--)
        dump_list[i] = dump_list[i - 1];
    dump_list[0] = (struct catalog_entry){
        .intact = true, .m = {.at = at(pos), .end = point(pos), .server = server.id}};
    snprintf(dump_list[0].m.name, sizeof dump_list[0].m.name, "dump-%u", (unsigned)pos);
    return &dump_list[0];
}

static struct archive_segment *segment(uint64_t from, uint64_t to)
{
    struct archive_segment *s = &segment_list[segments.count++];
    *s = (struct archive_segment){.number = segments.count, .finalized = true};
    s->head.number = segments.count;
    snprintf(s->head.server, sizeof s->head.server, "%s", server.id.uid);
    s->head.from.point = point(from);
    s->head.follows = segments.count > 1;
    s->sum.to = (struct segment_place){.at = at(to), .point = point(to)};
    return s;
}

static void mark(struct archive_segment *s, enum change_kind kind, uint64_t pos, const char *text)
{
    if (s->sum.mark_count < SEGMENT_MARKS) {
        struct segment_mark *m = &s->sum.marks[s->sum.mark_count];
        *m = (struct segment_mark){.kind = kind, .at = at(pos), .place = point(pos)};
        snprintf(m->text, sizeof m->text, "%s", text);
    }
    s->sum.mark_count++;
}

static void by_segments(uint64_t now)
{
    recovery_range_free(&out);
    recovery_range_segments(&dumps, &segments, at(now), &out);
}

static void span(size_t i, uint64_t from, uint64_t to, const char *why)
{
    assert_true(i < out.count);
    assert_int_equal(out.list[i].from.ms, at(from).ms);
    assert_int_equal(out.list[i].to.ms, at(to).ms);
    assert_string_equal(out.list[i].why, why);
}

/* ---- segments ---- */

static void test_nothing(void **state)
{
    (void)state;
    by_segments(100);
    assert_int_equal(out.count, 0);
    segment(0, 50);
    by_segments(100);
    assert_int_equal(out.count, 0); /* segments are nothing without a dump */
    dump(60);
    by_segments(100);
    assert_int_equal(out.count, 0); /* nor a dump behind them */
}

/* From the oldest dump on, over all segments that follow each other, up to now. */
static void test_one_run(void **state)
{
    (void)state;
    segment(0, 50);
    segment(50, 90);
    dump(10);
    dump(60);
    by_segments(95); /* its writer ended it */
    assert_false(out.list[0].open);
    segment_list[segments.count - 1].finalized = false;
    by_segments(95);
    assert_int_equal(out.count, 1);
    span(0, 10, 90, "the segments end");
    assert_true(out.list[0].open);
    by_segments(100); /* nobody writes it any more */
    assert_int_equal(out.count, 1);
    assert_false(out.list[0].open);
}

static void test_a_dump_takes_time(void **state)
{
    (void)state;
    segment(0, 90);
    dump(10)->m.took_ms = 5000;
    by_segments(200);
    span(0, 15, 90, "the segments end");
}

static void test_damaged_dump(void **state)
{
    (void)state;
    segment(0, 90);
    dump(10)->intact = false;
    dump(30);
    by_segments(200);
    assert_int_equal(out.count, 1);
    span(0, 30, 90, "the segments end");
}

/* Runs with something between them, each told with its reason. */
static void test_two_runs(void **state)
{
    (void)state;
    segment(0, 30);
    struct archive_segment *s = segment(40, 90);
    s->head.follows = false;
    dump(10);
    dump(50);
    by_segments(200);
    assert_int_equal(out.count, 2);
    span(0, 10, 30, "the next segment is missing");
    span(1, 50, 90, "the segments end");
    snprintf(s->head.why, sizeof s->head.why, "the log was purged");
    by_segments(200);
    span(0, 10, 30, "the log was purged");
}

static void test_damaged_segment(void **state)
{
    (void)state;
    snprintf(segment(0, 30)->damage, sizeof segment_list[0].damage, "torn");
    dump(10);
    by_segments(31);
    span(0, 10, 30, "torn");
    assert_false(out.list[0].open);
}

/* A gap and a restore of another dump end it; its own restore and a loss do not. */
static void test_marks(void **state)
{
    (void)state;
    struct archive_segment *s = segment(0, 90);
    dump(10);
    mark(s, CHANGE_GAP, 5, "before the dump");
    mark(s, CHANGE_LOST, 20, "the world was lost");
    mark(s, CHANGE_SWAP, 25, "dump-10");
    by_segments(200);
    assert_int_equal(out.count, 2); /* there was no world in between */
    span(0, 10, 19, "the world was lost");
    span(1, 25, 90, "the segments end");
    mark(s, CHANGE_SWAP, 40, "dump-3");
    mark(s, CHANGE_GAP, 50, "a statement");
    by_segments(200);
    assert_int_equal(out.count, 2);
    span(1, 25, 40, "dump dump-3 was restored");
    dump(45);
    by_segments(200);
    assert_int_equal(out.count, 3);
    span(2, 45, 50, "a statement");
}

/* Rows that came into the emptied tables are no moment, and nor is what another restore put in. */
static void test_a_loss_without_a_way(void **state)
{
    (void)state;
    struct archive_segment *s = segment(0, 90);
    dump(10);
    dump(15);
    mark(s, CHANGE_LOST, 20, "");
    mark(s, CHANGE_GAP, 22, "a statement");
    by_segments(200);
    assert_int_equal(out.count, 1);
    mark(s, CHANGE_SWAP, 25, "dump-15");
    by_segments(200);
    assert_int_equal(out.count, 2);
    span(0, 10, 19, "the world was lost");
    span(1, 25, 90, "the segments end");
}

static void test_more_marks_than_listed(void **state)
{
    (void)state;
    struct archive_segment *s = segment(0, 90);
    dump(10);
    for (unsigned i = 0; i <= SEGMENT_MARKS; i++)
        mark(s, i % 2 ? CHANGE_SWAP : CHANGE_LOST, 20 + i, "dump-10");
    by_segments(200);
    span(out.count - 1, 20 + SEGMENT_MARKS - 1, 20 + SEGMENT_MARKS - 1,
         "more events than can be listed");
}

/* ---- the log ---- */

static void by_log(const struct segment_mark *gaps, size_t count)
{
    recovery_range_free(&out);
    recovery_range_log(&dumps, gaps, count, &server, &out);
}

static void test_log(void **state)
{
    (void)state;
    by_log(NULL, 0);
    assert_int_equal(out.count, 0);
    dump(10);
    dump(20);
    by_log(NULL, 0);
    assert_int_equal(out.count, 1);
    assert_int_equal(out.list[0].from.ms, at(10).ms);
    assert_true(out.list[0].open);
}

/* Without a place in the log, or not whole: nothing begins there. */
static void test_log_without_a_place(void **state)
{
    (void)state;
    dump(10)->m.end.file[0] = '\0';
    dump(20)->intact = false;
    by_log(NULL, 0);
    assert_int_equal(out.count, 0);
}

static void test_what_the_server_says(void **state)
{
    (void)state;
    struct manifest other = {.generation = 5};
    dump(10);
    dump(20)->m.end = (struct db_binlog_pos){.file = "log.000002", .pos = 20};
    snprintf(file_list[0].name, sizeof file_list[0].name, "log.000002");
    by_log(NULL, 0);
    assert_int_equal(out.count, 1);
    assert_int_equal(out.list[0].from.ms, at(20).ms);
    assert_true(out.list[0].open);
    server.world = &other;
    by_log(NULL, 0);
    assert_int_equal(out.count, 1);
    span(0, 20, 20, "the tables are different now, or this is another world");
    server.world = NULL;
    by_log(NULL, 0);
    assert_int_equal(out.count, 1);
    span(0, 20, 20, "the present state of the world is unknown");
}

/* The log was reset, is another server's, or is not known. */
static void test_another_log(void **state)
{
    (void)state;
    dump(10);
    dump(20);
    file_list[0].size = 19; /* it contains the older position, but of another log */
    by_log(NULL, 0);
    assert_int_equal(out.count, 0);
    file_list[0].size = 20;
    by_log(NULL, 0);
    assert_int_equal(out.count, 1);
    assert_true(out.list[0].open);
    snprintf(server.id.datadir, sizeof server.id.datadir, "/other");
    by_log(NULL, 0);
    assert_int_equal(out.count, 0);
    server = (struct recovery_range_server){0};
    by_log(NULL, 0);
    assert_int_equal(out.count, 0);
}

static void test_log_with_gaps(void **state)
{
    (void)state;
    const struct segment_mark gaps[] = {
        {.at = at(5), .text = "before all"}, /* by its time */
        {.at = at(15), .place = point(15), .text = "a statement"},
        {.at = at(40), .text = "the log was off"},
    };
    dump(10);
    dump(12);
    dump(20);
    dump(50);
    by_log(gaps, 3);
    assert_int_equal(out.count, 3);
    span(0, 10, 15, "a statement");
    span(1, 20, 40, "the log was off");
    assert_int_equal(out.list[2].from.ms, at(50).ms);
    assert_true(out.list[2].open);
}

/* A statement that nobody saw is between two dumps of which one has other tables. */
static void test_a_gap_that_nobody_saw(void **state)
{
    (void)state;
    static char name[] = "planets", memory[] = "MEMORY";
    static struct manifest_table was = {.name = name, .engine = memory, .columns_hash = "1"},
                                 is = {.name = name, .engine = memory, .columns_hash = "2"};
    const struct segment_mark known = {.at = at(17), .place = point(17), .text = "a statement"},
                              later = {.at = at(45), .place = point(45), .text = "another"};
    uint64_t places[] = {10, 12, 20, 40};
    for (size_t i = 0; i < 4; i++) {
        struct catalog_entry *d = dump(places[i]);
        d->m.tables = i < 2 ? &was : &is;
        d->m.table_count = 1;
    }
    present = (struct manifest){.tables = &is, .table_count = 1};
    by_log(NULL, 0);
    assert_int_equal(out.count, 2);
    span(0, 10, 12, "the next dump has other tables, or is of another world");
    assert_int_equal(out.list[1].from.ms, at(20).ms);
    assert_true(out.list[1].open);
    by_log(&later, 1);
    span(0, 10, 12, "the next dump has other tables, or is of another world");
    span(1, 20, 45, "another");
    by_log(&known, 1);
    span(0, 10, 17, "a statement");
    dump_list[0].m.generation = present.generation = 2; /* restored, and nobody saw it */
    by_log(&known, 1);
    assert_int_equal(out.count, 3);
    span(1, 20, 20, "the next dump has other tables, or is of another world");
}

/* One that is told late, behind another dump's beginning, joins what it overlaps. */
static void test_spans_that_overlap(void **state)
{
    (void)state;
    struct segment_mark gaps[] = {{.at = at(30), .place = point(11), .text = "told late"},
                                  {.at = at(40), .place = point(35), .text = "another"}};
    dump(10);
    dump(20);
    by_log(gaps, 2);
    assert_int_equal(out.count, 1);
    span(0, 10, 40, "another");
    gaps[1].at = at(25); /* and one that ends earlier changes nothing */
    by_log(gaps, 2);
    assert_int_equal(out.count, 1);
    span(0, 10, 30, "told late");
}

/* A dump that was taken because of an end, within its second, begins where that ended. */
static void test_dump_in_the_second_of_a_gap(void **state)
{
    (void)state;
    const struct segment_mark gap = {
        .at = {at(20).ms + 700}, .place = point(15), .text = "a statement"};
    dump(10);
    dump(20);
    by_log(&gap, 1);
    assert_int_equal(out.count, 2);
    assert_int_equal(out.list[0].to.ms, gap.at.ms);
    assert_int_equal(out.list[1].from.ms, gap.at.ms);
    assert_true(out.list[1].open);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing),
        TEST(test_one_run),
        TEST(test_a_dump_takes_time),
        TEST(test_damaged_dump),
        TEST(test_two_runs),
        TEST(test_damaged_segment),
        TEST(test_marks),
        TEST(test_a_loss_without_a_way),
        TEST(test_a_gap_that_nobody_saw),
        TEST(test_more_marks_than_listed),
        TEST(test_log),
        TEST(test_log_without_a_place),
        TEST(test_what_the_server_says),
        TEST(test_another_log),
        TEST(test_log_with_gaps),
        TEST(test_spans_that_overlap),
        TEST(test_dump_in_the_second_of_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
