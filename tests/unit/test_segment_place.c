/* journal/segment: the positions of transactions in a file, and what a killed writer leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "binlog/gtid.h"
#include "dir_kit.h"
#include "journal/archive.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "journal/segment_write.h"

static const unsigned key[] = {0};
static struct change_table table = {
    .name = "t", .columns = "abc", .key = key, .key_count = 1, .counter = -1};

struct log {
    struct segment_writer *w;
    uint64_t seq;
};

static void put(struct log *l, struct change c)
{
    struct err e;
    c.created_at = 7;
    c.at.ms = 1000000;
    c.gtid = (struct change_gtid){0, 1, l->seq};
    assert_int_equal(segment_put(l->w, &c, &e), 0);
}

/* A group of one row, or of none. */
static void group(struct log *l, const char *file, uint64_t from, uint64_t to, const char *row)
{
    l->seq++;
    put(l, (struct change){.kind = CHANGE_BEGIN, .file = file, .pos = from});
    if (row)
        put(l, (struct change){
                   .kind = CHANGE_INSERT, .table = &table, .tuple = row, .len = strlen(row)});
    put(l, (struct change){.kind = CHANGE_END, .file = file, .pos = to});
}

static struct log begin(uint64_t number)
{
    struct err e;
    struct segment_head h = {
        .world = "w", .schema = "s", .number = number, .server = "U", .hostname = "h"};
    h.from.point = (struct db_binlog_pos){"log.000001", 100, "0-1-100", "0-1-102"};
    struct log l = {segment_create(kit_dir, &h, &e), 100};
    assert_non_null(l.w);
    return l;
}

static void expect(struct segment_reader *r, enum change_kind kind, const char *file, uint64_t pos)
{
    struct change c;
    struct err e;
    do
        assert_int_equal(segment_next(r, &c, &e), 1);
    while (c.kind == CHANGE_TABLE);
    assert_int_equal(c.kind, kind);
    assert_string_equal(c.file, file);
    assert_int_equal(c.pos, pos);
}

/* Whatever lies between two groups that hold something, and before a loss: groups that hold
 * nothing, another file of the log. */
static void test_places(void **state)
{
    struct err e;
    struct log l = begin(1);
    (void)state;
    group(&l, "log.000001", 100, 200, "(1)");
    group(&l, "log.000001", 200, 300, NULL);
    group(&l, "log.000001", 300, 400, "(2)");
    group(&l, "log.000001", 400, 500, NULL);
    put(&l, (struct change){.kind = CHANGE_LOST, .file = "log.000002", .pos = 256});
    group(&l, "log.000002", 300, 400, "(3)");
    assert_int_equal(segment_finalize(l.w, &e), 0);
    struct segment_reader *r = segment_open(kit_dir, "w-0000000001.journal", &e);
    assert_non_null(r);
    expect(r, CHANGE_BEGIN, "log.000001", 100);
    expect(r, CHANGE_INSERT, "log.000001", 100);
    expect(r, CHANGE_END, "log.000001", 200);
    expect(r, CHANGE_BEGIN, "log.000001", 300);
    expect(r, CHANGE_INSERT, "log.000001", 300);
    expect(r, CHANGE_END, "log.000001", 400);
    expect(r, CHANGE_BEGIN, "log.000001", 400);
    expect(r, CHANGE_END, "log.000001", 500);
    expect(r, CHANGE_LOST, "log.000001", 500);
    expect(r, CHANGE_BEGIN, "log.000002", 300);
    expect(r, CHANGE_INSERT, "log.000002", 300);
    expect(r, CHANGE_END, "log.000002", 400);
    segment_reader_close(r);
}

/* The place where the run began had two numbers; those behind it have one. */
static void test_numbers(void **state)
{
    struct err e;
    struct log l = begin(1);
    struct archive a;
    (void)state;
    group(&l, "log.000001", 100, 200, "(1)");
    group(&l, "log.000001", 200, 300, "(2)");
    group(&l, "log.000001", 300, 400, "(3)");
    assert_int_equal(segment_sync(l.w, &e), 0);
    assert_string_equal(segment_written(l.w)->to.point.gtid, "0-1-103");
    assert_string_equal(segment_written(l.w)->to.point.gtid_after, "");
    assert_int_equal(segment_finalize(l.w, &e), 0);
    assert_int_equal(archive_load(kit_dir, "w", &a, &e), 0);
    assert_string_equal(a.list[0].sum.to.point.gtid, "0-1-103");
    assert_int_equal(log_is_continuous(&(struct db_params){0}, &a.list[0].sum.to.point,
                                       &(struct change_gtid){0, 1, 104}, &e),
                     0);
    archive_free(&a);
}

/* A frame is written in two steps, and of the second one any part may be missing. */
static void test_half_a_frame(void **state)
{
    (void)state;
    for (int missing = 1; missing < 40; missing++) {
        struct err e;
        struct stat st;
        struct archive a;
        struct log l = begin((uint64_t)missing);
        char file[SEGMENT_NAME_MAX];
        segment_name("w", (uint64_t)missing, file);
        group(&l, "log.000001", 100, 200, "(1,'a row of some length, so that it is cut')");
        assert_int_equal(segment_sync(l.w, &e), 0);
        segment_close(l.w);
        int fd = openat(kit_dir, file, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0 && fstat(fd, &st) == 0 && ftruncate(fd, st.st_size - missing) == 0);
        close(fd);
        assert_int_equal(archive_recover(kit_dir, "w", &a, &e), 0);
        assert_string_equal(a.list[a.count - 1].damage, "");
        assert_int_equal(a.list[a.count - 1].sum.groups, 0);
        archive_free(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_places, kit_clean),
        cmocka_unit_test_teardown(test_numbers, kit_clean),
        cmocka_unit_test_teardown(test_half_a_frame, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
