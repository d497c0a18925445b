/* journal/archive: what the segments of a directory cover, where a replay begins in them, and which
 * of them may be deleted. In doubt a run ends and nothing is found: changes of another log are
 * never returned. */
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "binlog/gtid.h"
#include "io_kit.h"
#include "journal/archive.h"
#include "journal/segment_frame.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "journal/segment_store.h"
#include "journal/segment_write.h"
#include "segment_kit.h"

static struct archive a;
static struct err e;

static int set_up(void **state)
{
    (void)state;
    memset(&kit_io, 0, sizeof kit_io);
    kit_define_tables();
    return 0;
}

static int tear_down(void **state)
{
    memset(&kit_io, 0, sizeof kit_io);
    archive_free(&a);
    return kit_clean(state);
}

/* ---- a directory ---- */

/* Three groups of 100 bytes and GTIDs from `seq` on, behind `from`; not finalized. Says where it
 * ends. */
static struct segment_place make(uint64_t number, const struct segment_place *from, uint64_t seq,
                                 bool follows, bool signature)
{
    struct kit_segment s;
    struct segment_head h = kit_head(number);
    h.from = *from;
    h.follows = follows;
    h.made.ms += (int64_t)number * 1000;
    kit_begin_segment(&s, &h);
    for (unsigned i = 0; i < 3; i++) {
        kit_begin(&s, 1700000000, &(struct change_gtid){0, 1, seq + i});
        kit_insert(&s, i % 2, "(1,'a',0)");
        kit_end(&s, 100);
    }
    kit_sync(&s);
    struct segment_place to = segment_written(s.w)->to;
    if (signature)
        kit_finalize(&s);
    kit_forget_segment(&s);
    return to;
}

static struct segment_place place(const char *file, uint64_t pos, const char *gtid)
{
    struct segment_place p = {.at = {1700000000000}};
    snprintf(p.point.file, sizeof p.point.file, "%s", file);
    snprintf(p.point.gtid, sizeof p.point.gtid, "%s", gtid);
    p.point.pos = pos;
    return p;
}

/* 1, 2, 3 are a run, the last one unfinalized. */
static void make_run(void)
{
    struct segment_place to = place("log.000001", 1000, "0-1-10");
    for (uint64_t n = 1; n <= 3; n++)
        to = make(n, &to, 8 + 3 * n, n > 1, n < 3);
}

static void load(size_t count)
{
    archive_free(&a);
    if (archive_load(kit_dir, KIT_WORLD, &a, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(a.count, count);
}

static void recover(size_t count)
{
    archive_free(&a);
    if (archive_recover(kit_dir, KIT_WORLD, &a, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(a.count, count);
}

static char *name(uint64_t number)
{
    static char file[SEGMENT_NAME_MAX];
    segment_name(KIT_WORLD, number, file);
    return file;
}

static void flip(uint64_t number, off_t at)
{
    char c;
    int fd = openat(kit_dir, name(number), O_RDWR | O_CLOEXEC);
    assert_int_equal(syscall(SYS_pread64, fd, &c, 1, at), 1);
    c ^= 4;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

static void cut(uint64_t number, off_t behind)
{
    int fd = openat(kit_dir, name(number), O_RDWR | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);
    assert_true(size > behind);
    assert_int_equal(ftruncate(fd, size - behind), 0);
    close(fd);
}

static int find(const char *file, uint64_t pos, const char *gtid, const char *after)
{
    struct db_binlog_pos p = place(file, pos, gtid).point;
    snprintf(p.gtid_after, sizeof p.gtid_after, "%s", after);
    return archive_find(&a, &p, 0, &(struct server_id){.uid = "uid"});
}

static void test_run(void **state)
{
    (void)state;
    load(0);
    assert_int_equal(a.number, 0);
    assert_int_equal(find("log.000001", 1000, "", ""), -1);
    make_run();
    load(3);
    assert_int_equal(a.number, 3);
    for (size_t i = 0; i < 3; i++) {
        struct stat st;
        const struct archive_segment *s = &a.list[i];
        assert_int_equal(s->number, i + 1);
        assert_int_equal(s->head.number, i + 1);
        assert_string_equal(s->file, name(i + 1));
        assert_int_equal(s->finalized, i < 2);
        assert_string_equal(s->damage, "");
        assert_int_equal(s->sum.groups, 3);
        assert_int_equal(s->sum.changes, 3);
        assert_int_equal(fstatat(kit_dir, s->file, &st, 0), 0);
        assert_int_equal(s->size, st.st_size);
        assert_int_equal(archive_continues(&a, i), i < 2);
    }
    assert_false(archive_continues(&a, 3));
    assert_false(archive_continues(&a, SIZE_MAX));
    recover(3);
    assert_true(a.list[2].finalized);
    assert_string_equal(a.list[2].damage, "");
    assert_int_equal(a.list[2].sum.groups, 3);
    struct stat st;
    assert_int_equal(fstatat(kit_dir, name(3), &st, 0), 0);
    assert_int_equal(a.list[2].size, st.st_size);
    recover(3); /* there is nothing more to do */
    assert_true(archive_continues(&a, 1));
}

static void test_other_files(void **state)
{
    (void)state;
    static const char *const names[] = {"world2-0000000001.journal",
                                        "world-2-0000000007.journal",
                                        "worl-0000000001.journal",
                                        "world-0000000009.journal~",
                                        "world-9.journal",
                                        "world-0000000000.journal",
                                        "world-20260101T000000-1-1",
                                        "other-0000000099.journal",
                                        ".world-0000000009.journal.1.new",
                                        "world-00000000010.journal",
                                        "notes.txt",
                                        "world-0000000009.sql.gz",
                                        "worldkeeper-0000000050.journal"};
    make_run();
    for (size_t i = 0; i < COUNT(names); i++)
        kit_text(names[i], "anything");
    recover(3);
    assert_int_equal(a.number, 3);
    for (size_t i = 0; i < COUNT(names); i++)
        assert_true(kit_there(names[i]));
}

static void test_missing_one(void **state)
{
    (void)state;
    make_run();
    unlinkat(kit_dir, name(2), 0);
    load(2);
    assert_int_equal(a.list[1].number, 3);
    assert_false(archive_continues(&a, 0));
    assert_int_equal(find("log.000001", 1200, "0-1-12", ""), 0);
    assert_int_equal(find("log.000001", 1400, "0-1-14", ""), -1);
    assert_int_equal(find("log.000001", 1700, "0-1-17", ""), 1);
}

/* The numbers of the names are no more than an order. */
static void test_numbers_left_out(void **state)
{
    (void)state;
    struct segment_place to = place("log.000001", 1000, "");
    to = make(5, &to, 1, false, true);
    make(12345678901, &to, 4, true, true);
    load(2);
    assert_int_equal(a.number, UINT64_C(12345678901));
    assert_true(archive_continues(&a, 0));
}

/* One that has lost its summary goes on where its last group ended. */
static void test_unfinalized_in_the_middle(void **state)
{
    (void)state;
    make_run();
    cut(2, 1);
    load(3);
    assert_false(a.list[1].finalized);
    assert_true(archive_continues(&a, 1));
    recover(3);
    assert_false(a.list[1].finalized); /* only its last one is anybody's to end */
    cut(2, SEGMENT_FRAME + SEGMENT_SUMMARY_BODY);
    load(3);
    assert_string_equal(a.list[1].damage, "");
    assert_int_equal(a.list[1].sum.to.point.pos, 1300);
    assert_true(archive_continues(&a, 0));
    assert_false(archive_continues(&a, 1));
    assert_int_equal(find("log.000001", 1300, "0-1-13", ""), 1);
    assert_int_equal(find("log.000001", 1301, "0-1-13", ""), -1);
}

static void test_damage(void **state)
{
    (void)state;
    make_run();
    cut(2, 10); /* without its summary it is read */
    load(3);
    off_t in_data = (off_t)a.list[1].size - SEGMENT_SUMMARY_BODY - 20;
    flip(2, in_data);
    load(3);
    assert_non_null(strstr(a.list[1].damage, "world-0000000002.journal is damaged at byte"));
    assert_int_equal(a.list[1].sum.to.point.pos, 1300);
    assert_true(archive_continues(&a, 0));
    assert_false(archive_continues(&a, 1));
    flip(2, in_data);
    flip(2, 5);
    load(3);
    assert_non_null(strstr(a.list[1].damage, "header is missing"));
    assert_int_equal(a.list[1].head.number, 0);
    assert_false(archive_continues(&a, 0));
    assert_false(archive_continues(&a, 1));
    assert_int_equal(find("log.000001", 1400, "0-1-14", ""), -1);
    recover(3); /* the last one is well */
    assert_true(kit_there(name(2)));
}

static void test_damaged_end(void **state)
{
    (void)state;
    make_run();
    load(3);
    off_t size = (off_t)a.list[2].size;
    flip(3, size - 1);
    recover(3);
    assert_string_equal(a.list[2].damage, ""); /* as if it had been torn off */
    assert_int_equal(a.list[2].sum.groups, 0);
    assert_int_equal(a.list[2].sum.to.point.pos, 1600);
    assert_true(archive_continues(&a, 1));
}

static void test_damage_is_told_once(void **state)
{
    (void)state;
    struct kit_segment s;
    struct segment_head h = kit_head(1);
    kit_begin_segment(&s, &h);
    for (unsigned i = 0; i < 3; i++) {
        kit_begin(&s, 1700000000, NULL);
        kit_insert(&s, 0, "(1,'a',0)");
        kit_end(&s, 100);
        kit_sync(&s);
        if (i == 1)
            flip(1, (off_t)segment_bytes(s.w) - 1);
    }
    kit_forget_segment(&s);
    recover(1);
    assert_non_null(strstr(a.list[0].damage, "is damaged at byte"));
    assert_true(a.list[0].finalized);
    assert_int_equal(a.list[0].sum.groups, 1);
    assert_int_equal(a.list[0].sum.to.point.pos, 1100);
    recover(1);
    assert_string_equal(a.list[0].damage, "");
}

/* Its writer was killed right behind its birth. */
static void test_blank_ends(void **state)
{
    (void)state;
    for (unsigned len = 0; len < 200; len += 13) {
        size_t got;
        make_run();
        char *bytes = kit_get(name(3), &got);
        assert_true(got > 200);
        kit_put(name(3), bytes, len);
        kit_put(name(4), "", 0);
        free(bytes);
        recover(2);
        assert_int_equal(a.number, 4); /* these numbers are not given again */
        assert_true(a.list[1].finalized);
        assert_false(kit_there(name(3)) || kit_there(name(4)));
        kit_clean(state);
    }
}

/* The next segment, whose head is not written yet, is not part of the journal, and stays. */
static void test_blank_that_begins(void **state)
{
    (void)state;
    make_run();
    kit_put(name(4), "", 0);
    load(3);
    assert_int_equal(a.number, 4);
    assert_string_equal(a.list[2].damage, "");
    assert_true(kit_there(name(4)));
}

/* The one before it was not ended either. */
static void test_blank_behind_an_unfinalized_one(void **state)
{
    (void)state;
    make_run();
    kit_put(name(4), "WKJF", 4);
    recover(3);
    assert_true(a.list[2].finalized);
}

/* A damaged head is no reason to throw away what stands behind it, nor is a disk that fails; and
 * what is no segment is nobody's to remove. */
static void test_ends_that_stay(void **state)
{
    (void)state;
    size_t len;
    make_run();
    char *bytes = kit_get(name(3), &len);
    flip(3, 8);
    recover(3);
    assert_non_null(strstr(a.list[2].damage, "header is missing"));
    assert_false(a.list[2].finalized);
    flip(3, 8);
    kit_io.read_fails = 1 + 2 * 4; /* the first one of it: the others take four */
    for (unsigned n = 1; n < 40; n++) {
        kit_io.reads = 0;
        kit_io.read_fails = n;
        archive_free(&a);
        if (archive_recover(kit_dir, KIT_WORLD, &a, &e) == 0)
            assert_int_equal(a.count, 3);
        kit_io.read_fails = 0;
        assert_true(kit_there(name(3)));
    }
    recover(3);
    assert_int_equal(a.list[2].sum.groups, 3);
    unlinkat(kit_dir, name(3), 0);
    assert_int_equal(symlinkat(name(1), kit_dir, "world-0000000003.journal"), 0);
    recover(3);
    unlinkat(kit_dir, name(3), 0);
    assert_int_equal(mkdirat(kit_dir, name(3), 0700), 0);
    recover(3);
    unlinkat(kit_dir, name(3), AT_REMOVEDIR);
    assert_int_equal(mkfifoat(kit_dir, name(3), 0600), 0);
    recover(3);
    assert_non_null(strstr(a.list[2].damage, "not a regular file"));
    assert_true(archive_continues(&a, 0));
    free(bytes);
}

/* Somebody copied them, to try something. */
static void test_another_worlds(void **state)
{
    (void)state;
    struct segment_head h = kit_head(2);
    struct kit_segment s;
    struct segment_place to = place("log.000001", 1000, "");
    h.from = make(1, &to, 1, false, true);
    h.follows = true;
    snprintf(h.world, sizeof h.world, "other");
    for (unsigned signature = 0; signature < 2; signature++) {
        size_t len;
        h.number++;
        kit_begin_segment(&s, &h);
        if (signature)
            kit_finalize(&s);
        char *bytes = kit_get(s.file, &len);
        kit_put(name(h.number), bytes, len);
        kit_forget_segment(&s);
        recover(2 + signature);
        assert_non_null(strstr(a.list[1 + signature].damage, "belongs to world other"));
        assert_false(archive_continues(&a, signature));
        assert_int_equal(find("log.000001", 1300, "", ""), 0);
        char *is = kit_get(name(h.number), NULL);
        assert_memory_equal(is, bytes, len); /* it is as it was */
        free(is);
        free(bytes);
    }
}

static void remove_second(void)
{
    unlinkat(kit_dir, name(2), 0);
}

/* While they are looked at some go. */
static void test_deleted_meanwhile(void **state)
{
    (void)state;
    make_run();
    kit_io.meanwhile = remove_second;
    load(2);
    kit_io.meanwhile = NULL;
    assert_int_equal(a.list[1].number, 3);
    assert_int_equal(a.list[1].head.number, 3);
    assert_int_equal(archive_drop(kit_dir, &a, 0, &e), 0);
    load(2);
    unlinkat(kit_dir, name(3), 0);
    assert_int_equal(archive_drop(kit_dir, &a, 5, &e), 0);
    load(0);
}

static void test_drop(void **state)
{
    (void)state;
    make_run();
    load(3);
    assert_int_equal(archive_drop(kit_dir, &a, 2, &e), 0);
    load(1);
    assert_int_equal(a.list[0].number, 3);
    assert_int_equal(mkdirat(kit_dir, name(1), 0700), 0);
    load(2);
    assert_int_equal(archive_drop(kit_dir, &a, 2, &e), -1);
    assert_true(kit_there(name(3)));
}

/* ---- places ---- */

static struct archive_segment list[16];

static void pure(size_t count)
{
    a = (struct archive){.list = xcalloc(count + 1, sizeof *a.list), .count = count};
    memcpy(a.list, list, count * sizeof *list);
}

static struct archive_segment segment(const char *file, uint64_t from, uint64_t to,
                                      const char *from_gtid, const char *to_gtid)
{
    struct archive_segment s = {.number = 1, .size = 100, .finalized = true};
    s.head.number = 1;
    s.head.follows = true;
    s.head.made.ms = 1;
    snprintf(s.head.server, sizeof s.head.server, "uid");
    s.head.from = place(file, from, from_gtid);
    s.sum.to = place(file, to, to_gtid);
    return s;
}

static int find_by(const char *file, int64_t start)
{
    struct db_binlog_pos p = place(file, 150, "").point;
    return archive_find(&a, &p, 0, &(struct server_id){.uid = "uid", .start = start});
}

/* On a MySQL the groups of its source are in any order: the last one is not the one with the
 * highest number. Its own are in order. */
static void test_a_replicas_numbers(void **state)
{
    static const char own[] = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    static const struct {
        const char *gtid;
        int found;
    } cases[] = {{"12345678-1234-1234-1234-123456789012:1-7", 0},
                 {"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7", -1}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        uint8_t uuid[16];
        char to[64];
        struct db_binlog_pos p = place("log.000001", 200, cases[i].gtid).point;
        for (size_t n = 0, at = 0; n < 16; n++, at += 2) {
            unsigned byte;
            at += cases[i].gtid[at] == '-';
            assert_int_equal(sscanf(cases[i].gtid + at, "%2x", &byte), 1);
            uuid[n] = (uint8_t)byte;
        }
        snprintf(to, sizeof to, "%" PRIu32 "-2-6", db_gtid_domain(uuid, ""));
        list[0] = segment("log.000001", 100, 200, "", to);
        snprintf(list[0].head.server, sizeof list[0].head.server, "%s", own);
        pure(1);
        struct server_id server = {0};
        snprintf(server.uid, sizeof server.uid, "%s", own);
        assert_int_equal(archive_find(&a, &p, 0, &server), cases[i].found);
        archive_free(&a);
    }
}

/* On a MariaDB the transactions of its source have numbers of their own in the same domain. Where
 * numbers of two servers would have to be compared, the time at which the file was created shows
 * which log it is. */
static void test_numbers_of_two_servers(void **state)
{
    static const struct {
        const char *from, *to, *gtid, *after;
        uint32_t created_at;
        int found;
    } cases[] = {
        {"0-2-1000", "0-1-51", "0-2-1000", "", 1000, 0},
        {"0-2-1000", "0-1-51", "0-2-1000", "", 0, -1},
        {"0-2-1000", "0-1-51", "0-2-1000", "", 999, -1},
        {"0-2-999", "0-1-51", "0-2-1000", "", 1000, 0},
        {"0-2-1001", "0-1-51", "0-2-1000", "", 1000, -1},
        {"0-1-50", "0-2-1000", "0-1-51", "", 1000, 0},
        {"0-1-50", "0-2-1000", "0-1-51", "", 0, -1},
        {"0-1-52", "0-2-1000", "0-1-51", "", 1000, -1},
        {"0-2-1000", "0-1-51", "0-1-52", "", 1000, -1},
        {"0-2-1000", "0-1-51", "0-1-51", "", 1000, 0},
        {"0-1-50", "0-1-55", "0-1-51", "", 0, 0},
        {"0-1-50", "0-1-55", "0-2-1000", "", 1000, 0},
        {"0-1-50", "0-1-55", "0-2-1000", "", 0, -1},
        {"0-2-1000", "0-1-51", "0-2-1000", "0-1-50", 1000, 0},
        {"0-2-1000", "0-1-51", "0-1-50", "0-2-1001", 0, 0},
        {"", "0-1-51", "0-1-50", "", 0, 0},
        {"", "0-1-51", "0-2-1000", "", 0, -1},
        {"0-2-1000", "0-1-51", "1-1-7", "", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct db_binlog_pos p = place("log.000001", 150, cases[i].gtid).point;
        snprintf(p.gtid_after, sizeof p.gtid_after, "%s", cases[i].after);
        list[0] = segment("log.000001", 100, 200, cases[i].from, cases[i].to);
        list[0].sum.to = place("log.000002", 200, cases[i].to);
        list[0].head.from.created_at = 1000;
        list[0].sum.to.created_at = 2000;
        pure(1);
        const struct server_id server = {.uid = "uid"};
        if (archive_find(&a, &p, cases[i].created_at, &server) != cases[i].found)
            fail_msg("%zu: %s in %s to %s", i, cases[i].gtid, cases[i].from, cases[i].to);
        snprintf(p.file, sizeof p.file, "log.000002");
        int last = cases[i].created_at == 1000 ? 2000 : (int)cases[i].created_at;
        assert_int_equal(archive_find(&a, &p, (uint32_t)last, &server), cases[i].found);
        archive_free(&a);
    }
}

/* When a file in the middle was created is in the contents of the segment. */
static void test_two_servers_and_a_file_in_the_middle(void **state)
{
    (void)state;
    struct db_binlog_pos p = place("log.000002", 150, "0-2-1000").point;
    list[0] = segment("log.000001", 100, 200, "0-2-999", "0-1-51");
    list[0].sum.to = place("log.000003", 200, "0-1-51");
    list[0].head.from.created_at = 1000;
    list[0].sum.to.created_at = 3000;
    pure(1);
    assert_int_equal(archive_find(&a, &p, 2000, &(struct server_id){.uid = "uid"}), 0);
    assert_int_equal(archive_find(&a, &p, 0, &(struct server_id){.uid = "uid"}), -1);
    snprintf(a.list[0].sum.to.point.gtid, sizeof p.gtid, "0-2-1001");
    assert_int_equal(archive_find(&a, &p, 0, &(struct server_id){.uid = "uid"}), 0);
}

/* A server that was set up anew has the old one's name: its dumps are not followed by the old one's
 * files, which were begun before it was started. */
static void test_a_new_server(void **state)
{
    (void)state;
    list[0] = segment("log.000001", 100, 200, "", "");
    list[0].head.from.created_at = 1000;
    list[0].sum.to = place("log.000003", 200, "");
    list[0].sum.to.created_at = 3000;
    pure(1);
    assert_int_equal(find_by("log.000001", 0), 0); /* not known */
    assert_int_equal(find_by("log.000001", 900), 0);
    assert_int_equal(find_by("log.000001", 1001), 0);
    assert_int_equal(find_by("log.000001", 1002), -1);
    assert_int_equal(find_by("log.000002", 2000), 0); /* begun some time before the last one */
    assert_int_equal(find_by("log.000002", 3002), -1);
    assert_int_equal(find_by("log.000003", 2999), 0);
    assert_int_equal(find_by("log.000003", 3002), -1);
    a.list[0].head.from.created_at = 0;
    assert_int_equal(find_by("log.000001", 2000), 0);
    assert_int_equal(find_by("log.000001", 3002), -1);
    a.list[0].sum.to.created_at = 0;
    assert_int_equal(find_by("log.000001", 3002), 0);
}

/* A dump of the old server is not followed by the new one's files, though these reach over its
 * place: they were begun later. */
static void test_an_old_server(void **state)
{
    (void)state;
    struct server_id server = {.uid = "uid", .start = 900};
    struct db_binlog_pos first = place("log.000001", 150, "").point, second = first;
    snprintf(second.file, sizeof second.file, "log.000002");
    list[0] = segment("log.000001", 100, 160, "", "");
    list[0].head.from.created_at = list[0].sum.to.created_at = 1000;
    list[1] = segment("log.000001", 120, 200, "", "");
    list[1].sum.to = place("log.000002", 200, "");
    list[1].head.from.created_at = 5000;
    list[1].sum.to.created_at = 6000;
    pure(2);
    assert_int_equal(archive_find(&a, &first, 0, &server), 1); /* not known */
    assert_int_equal(archive_find(&a, &first, 1000, &server), 0);
    assert_int_equal(archive_find(&a, &first, 5000, &server), 1);
    assert_int_equal(archive_find(&a, &second, 6000, &server), 1);
    assert_int_equal(archive_find(&a, &second, 2000, &server), -1);
}

static void test_edges(void **state)
{
    (void)state;
    list[0] = segment("log.000009", 100, 200, "", "");
    list[1] = segment("log.000009", 200, 300, "", "");
    list[2] = segment("log.000010", 4, 50, "", "");
    snprintf(list[1].sum.to.point.file, 256, "log.000010");
    list[1].sum.to.point.pos = 4;
    pure(3);
    assert_int_equal(find("log.000009", 99, "", ""), -1);
    assert_int_equal(find("log.000009", 100, "", ""), 0);
    assert_int_equal(find("log.000009", 199, "", ""), 0);
    assert_int_equal(find("log.000009", 200, "", ""), 1); /* nothing of 0 is needed */
    assert_int_equal(find("log.000009", 999999, "", ""), 1);
    assert_int_equal(find("log.000010", 3, "", ""), 1);
    assert_int_equal(find("log.000010", 4, "", ""), 2);
    assert_int_equal(find("log.000010", 50, "", ""), 2);
    assert_int_equal(find("log.000010", 51, "", ""), -1);
    assert_int_equal(find("log.000008", 150, "", ""), -1);
    assert_int_equal(find("log.000100", 150, "", ""), -1);
    assert_int_equal(find("", 0, "", ""), -1);
    struct db_binlog_pos p = place("log.000009", 150, "").point;
    assert_int_equal(archive_find(&a, &p, 0, &(struct server_id){.uid = "other"}), -1);
    assert_int_equal(archive_find(&a, &p, 0, &(struct server_id){.uid = ""}), -1);
    a.list[1].head.number = 0; /* nobody knows what it is */
    assert_int_equal(find("log.000009", 200, "", ""), 0);
    assert_int_equal(find("log.000009", 201, "", ""), -1);
}

/* A log that was reset has the same names, and places that the old one had too. */
static void test_two_logs(void **state)
{
    (void)state;
    list[0] = segment("log.000001", 100, 500, "0-1-4000", "0-1-5000");
    list[1] = segment("log.000001", 500, 900, "0-1-5000", "0-1-6000");
    list[2] = segment("log.000001", 4, 400, "", "0-1-30");
    list[3] = segment("log.000001", 400, 800, "0-1-30", "0-1-70");
    list[2].head.follows = false;
    pure(4);
    assert_true(archive_continues(&a, 0));
    assert_false(archive_continues(&a, 1));
    assert_int_equal(find("log.000001", 300, "0-1-4500", ""), 0);
    assert_int_equal(find("log.000001", 300, "0-1-20", ""), 2);
    assert_int_equal(find("log.000001", 600, "0-1-5500", ""), 1);
    assert_int_equal(find("log.000001", 600, "0-1-40", ""), 3);
    assert_int_equal(find("log.000001", 500, "0-1-5000", ""), 1);
    assert_int_equal(find("log.000001", 400, "0-1-30", ""), 3);
    assert_int_equal(find("log.000001", 850, "0-1-69", ""), -1);
    assert_int_equal(find("log.000001", 850, "0-1-5900", ""), 1);
    assert_int_equal(find("log.000001", 300, "0-1-3000", ""), -1); /* a third one */
    assert_int_equal(find("log.000001", 300, "0-1-100", ""), -1);
    /* The server tells the number a little before and behind the place. */
    assert_int_equal(find("log.000001", 600, "0-1-4990", "0-1-5010"), 1);
    assert_int_equal(find("log.000001", 600, "0-1-69", "0-1-80"), 3);
    assert_int_equal(find("log.000001", 600, "0-1-71", "0-1-80"), -1);
    /* Other domains say nothing; where nothing is said the place alone has to do. */
    assert_int_equal(find("log.000001", 300, "1-1-7,0-1-4500,2-2-2", ""), 0);
    assert_int_equal(find("log.000001", 300, "1-1-7", ""), 2);
    assert_int_equal(find("log.000001", 300, "", ""), 2);
    assert_int_equal(find("log.000001", 300, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77", ""), 2);
}

/* Segments as they are written: each begins with the number at which the one before it ends. */
static void test_two_logs_in_files(void **state)
{
    (void)state;
    struct segment_place old = place("log.000001", 1000, "0-1-4000");
    struct segment_place new = place("log.000001", 4, "");
    old = make(1, &old, 4001, false, true);
    assert_string_equal(old.point.gtid, "0-1-4003");
    old = make(2, &old, 4004, true, true);
    new = make(3, &new, 1, false, true);
    for (uint64_t i = 0; i < 6; i++)
        new = make(4 + i, &new, 4 + 3 * i, true, true);
    load(9);
    assert_int_equal(find("log.000001", 1200, "0-1-4002", ""), 0);
    assert_int_equal(find("log.000001", 1400, "0-1-4004", ""), 1);
    assert_int_equal(find("log.000001", 1404, "0-1-14", ""), 6);
    assert_int_equal(find("log.000001", 1104, "0-1-2", ""), -1);
    assert_int_equal(find("log.000001", 1404, "0-1-40", ""), -1);
}

/* One group, and in it `marks` gaps that were seen at its end. Each is where the group begins. */
static void make_gap(uint64_t number, struct segment_place *from, unsigned marks)
{
    struct kit_segment s;
    struct segment_head h = kit_head(number);
    h.from = *from;
    h.follows = number > 1;
    kit_begin_segment(&s, &h);
    for (unsigned i = 0; i < marks; i++) {
        kit_begin(&s, 1700000000, &(struct change_gtid){0, 1, 100 * number + i});
        s.now.pos += 100;
        kit_event(&s, CHANGE_GAP, 1700000000, i ? "another" : "an ALTER");
        s.now.pos -= 100;
        kit_end(&s, 100);
    }
    kit_begin(&s, 1700000000, &(struct change_gtid){0, 1, 100 * number + 99});
    kit_insert(&s, 0, "(1,'a',0)");
    kit_end(&s, 100);
    kit_sync(&s);
    *from = segment_written(s.w)->to;
    kit_finalize(&s);
    kit_forget_segment(&s);
}

static bool gap_after(size_t i, uint64_t pos, struct segment_mark *out)
{
    struct db_binlog_pos p = place("log.000001", pos, "").point;
    *out = (struct segment_mark){0};
    archive_gap(&a, i, &p, out);
    return out->kind == CHANGE_GAP;
}

/* A dump behind it has it. */
static void test_gap(void **state)
{
    (void)state;
    struct segment_mark m = {.text = ""};
    struct segment_place to = place("log.000001", 1000, "");
    make_gap(1, &to, 1);
    make_gap(2, &to, 0);
    load(2);
    assert_true(gap_after(0, 1000, &m));
    assert_string_equal(m.text, "an ALTER");
    assert_int_equal(m.place.pos, 1000);
    assert_false(gap_after(0, 1001, &m));
    assert_false(gap_after(0, 1100, &m));
    assert_false(gap_after(1, 0, &m));
    make_gap(3, &to, SEGMENT_MARKS + 1);
    load(3);
    assert_true(gap_after(1, 1100, &m)); /* more than are listed */
    assert_int_equal(m.place.pos, to.point.pos);
    assert_non_null(strstr(m.text, a.list[2].file));
    assert_true(gap_after(1, to.point.pos - 1, &m));
    assert_false(gap_after(1, to.point.pos, &m));
}

static void test_goes_on(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 9; i++) {
        list[0] = segment("log.000001", 100, 200, "", "");
        list[1] = segment("log.000001", 200, 300, "", "");
        if (i == 1)
            list[1].head.follows = false;
        if (i == 2)
            snprintf(list[0].damage, sizeof list[0].damage, "it is damaged");
        if (i == 3)
            snprintf(list[1].head.server, sizeof list[1].head.server, "other");
        if (i == 4)
            list[1].head.from.point.pos--;
        if (i == 5)
            list[1].head.from.point.pos++;
        if (i == 6)
            snprintf(list[1].head.from.point.file, 256, "log.000002");
        if (i == 7) /* as far as it goes */
            snprintf(list[1].damage, sizeof list[1].damage, "it is damaged");
        if (i == 8)
            snprintf(list[1].head.schema, sizeof list[1].head.schema, "another one");
        pure(2);
        assert_int_equal(archive_continues(&a, 0), i == 0 || i == 7);
        assert_false(archive_continues(&a, 1));
        archive_free(&a);
    }
}

/* ---- what may go ---- */

#define KEEP 1000
#define AHEAD INT_MAX /* instead of an age: a beginning in the future */
#define NOW 10000

/* Ages of the beginnings of segments in `ages`, oldest first; 100 bytes each. */
static size_t spare(const int *ages, size_t count, int oldest, int newest, uint64_t max_size)
{
    for (size_t i = 0; i < count; i++) {
        list[i] = segment("log.000001", 100 * i, 100 * i + 100, "", "");
        list[i].head.made.ms = ages[i] == AHEAD ? NOW + 1 : ages[i] < 0 ? 0 : NOW - ages[i];
    }
    pure(count);
    size_t n = archive_spare(&a, oldest, newest, KEEP, max_size, (wall_t){NOW});
    archive_free(&a);
    return n;
}

static void test_spare(void **state)
{
    (void)state;
    static const struct {
        int ages[5];
        int oldest, newest;
        uint64_t max_size;
        size_t want;
        const char *what;
    } cases[] = {
        {{50, 40, 30, 20, 10}, 0, 4, 1000, 0, "all are needed by the oldest dump"},
        {{50, 40, 30, 20, 10}, 2, 4, 1000, 2, "nobody needs the first two"},
        {{50, 40, 30, 20, 10}, 4, 4, 1000, 4, "nobody needs any but the last one"},
        {{50, 40, 30, 20, 10}, -1, -1, 1000, 0, "no dump says anything"},
        {{50, 40, 30, 20, 10}, -1, 3, 1000, 0, "the oldest dump is older than all"},
        {{50, 40, 30, 20, 10}, 3, -1, 1000, 3, "the newest dump is behind all"},
        {{50, 40, 30, 20, 10}, 0, 4, 500, 0, "exactly as large as they may be"},
        {{50, 40, 30, 20, 10}, 0, 4, 499, 1, "one byte too large"},
        {{50, 40, 30, 20, 10}, 0, 4, 299, 3, "too large by two and a byte"},
        {{50, 40, 30, 20, 10}, 0, 4, 0, 4, "the last one is being written"},
        {{50, 40, 30, 20, 10}, 0, 2, 0, 2, "the newest dump needs it, whatever the rule says"},
        {{50, 40, 30, 20, 10}, 0, 0, 0, 0, "the newest dump needs all"},
        {{50, 40, 30, 20, 10}, -1, -1, 0, 4, "too large without any dump"},
        {{9000, 1001, 1000, 20, 10}, 0, 4, 1000, 1, "it ended before the rule begins"},
        {{9000, 8000, 7000, 6000, 5000}, 0, 4, 1000, 4, "all are too old but the last one"},
        {{9000, 8000, 7000, 6000, 5000}, 0, 1, 1000, 1, "old, but needed"},
        {{9000, 8000, 7000, 6000, 5000}, -1, -1, 1000, 4, "old, and needed by nobody"},
        {{9000, 8000, 7000, 20, 10}, 1, 3, 1000, 2, "old rather than needed by the oldest dump"},
        {{50, -1, 30, 20, 10}, 0, 4, 1000, 0, "nobody knows how old the second one is"},
        {{9000, -1, 30, 20, 10}, 0, 4, 1000, 0, "it may have ended a moment ago"},
        {{9000, -1, 2000, 20, 10}, 0, 4, 1000, 2, "but not after the third one began"},
        {{9000, -1, -1, -1, -1}, 0, 4, 1000, 0, "nothing is known"},
        {{-1, 9000, 8000, 20, 10}, 0, 4, 1000, 2, "one without a head goes as others do"},
        {{-500, 40, 30, 20, 10}, 0, 4, 1000, 0, "a clock that was set"},
        {{9000, AHEAD, 8000, 20, 10}, 0, 4, 1000, 2, "begun while the clock was ahead"},
        {{9000, 8000, AHEAD, AHEAD, AHEAD}, 0, 4, 1000, 1, "the clock is still set back"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t n = spare(cases[i].ages, 5, cases[i].oldest, cases[i].newest, cases[i].max_size);
        if (n != cases[i].want)
            fail_msg("%s: %zu, not %zu", cases[i].what, n, cases[i].want);
    }
    assert_int_equal(spare((const int[]){9000}, 1, -1, -1, 0), 0);
    assert_int_equal(spare((const int[]){9000}, 0, -1, -1, 0), 0);
    assert_int_equal(spare((const int[]){9000, 9000}, 2, 1, 1, 0), 1);
}

static void test_directory(void **state)
{
    (void)state;
    char path[300];
    struct stat st;
    snprintf(path, sizeof path, "%s/journal", kit_path);
    struct config c = {.journal_dir = path};
    assert_int_equal(archive_dir(&c, false, &e), -1);
    assert_int_equal(e.num, ENOENT);
    int fd = archive_dir(&c, true, &e);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(archive_load(fd, KIT_WORLD, &a, &e), 0);
    close(fd);
    fd = archive_dir(&c, false, &e);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(archive_load(-1, KIT_WORLD, &a, &e), -1);
}

static void put(struct segment_store *k, enum change_kind kind, uint64_t pos)
{
    char file[] = "log.000001";
    struct change c = {.kind = kind, .file = file, .pos = pos, .at = {1700000000000}};
    if (segment_store_put(k, &c, &e) < 0)
        fail_msg("%s", e.text);
}

/* A dump is stored while a transaction is written: the next one stands in a segment of its own. */
static void test_a_dump_within_a_group(void **state)
{
    (void)state;
    struct config c = {.journal_segment = 1 << 20};
    struct segment_place from = place("log.000001", 1000, "");
    char damage[LINE], world[] = KIT_WORLD;
    c.name = world;
    c.journal_dir = kit_path;
    struct segment_store *k =
        segment_store_open(&c, kit_dir, &(struct server_id){.uid = "uid"}, "s", damage, &e);
    if (!k)
        fail_msg("%s", e.text);
    segment_store_begin(k, &from, NULL);
    put(k, CHANGE_BEGIN, 1000);
    assert_int_equal(segment_store_dumped(k, &e), 0);
    put(k, CHANGE_END, 1100);
    load(1);
    put(k, CHANGE_BEGIN, 1100);
    put(k, CHANGE_END, 1200);
    load(2);
    put(k, CHANGE_BEGIN, 1200);
    put(k, CHANGE_END, 1300);
    load(2);
    assert_int_equal(segment_store_close(k, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_dump_within_a_group, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unfinalized_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_is_told_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blank_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blank_that_begins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blank_behind_an_unfinalized_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_that_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_worlds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deleted_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_edges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_new_server, set_up, tear_down),
        cmocka_unit_test(test_a_replicas_numbers),
        cmocka_unit_test(test_numbers_of_two_servers),
        cmocka_unit_test_setup_teardown(test_two_servers_and_a_file_in_the_middle, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_old_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_logs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_logs_in_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_spare, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_directory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
