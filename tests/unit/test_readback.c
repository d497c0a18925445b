/* dump/readback: a dump is read back while it grows. A defect is detected whenever it was written,
 * and the thread ends with the dump, also if it is told to give up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <inttypes.h>
#include <sys/wait.h>
#include <time.h>

#include "dump/readback.h"
#include "dump_kit.h"

/* A dump: its bytes and its manifest. */
struct dump {
    char *data;
    size_t len;
    struct manifest m;
};

static struct dump small, big;

static uint64_t state = 1;
static uint64_t some(uint64_t limit)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (state >> 33) % limit;
}

static void keep(struct dump *d)
{
    d->data = kit_get("dump", &d->len);
    kit_list_parts(&d->m, "dump", MANIFEST_PART);
    assert_non_null(d->data);
    assert_int_equal(d->len, d->m.file_size);
}

/* Larger than three of the steps that the reading goes in, for its bytes cannot be packed. */
static void make_big(struct dump *d)
{
    struct buf parts[KIT_PARTS];
    kit_manifest(&d->m, "w", 1, 1);
    kit_parts(parts);
    struct manifest_table *t = &d->m.tables[2];
    for (unsigned statement = 0; statement < 14; statement++) {
        format_insert(&parts[4], t->name, kit_columns());
        for (unsigned row = 0; row < 64; row++) {
            char bytes[8192];
            for (size_t i = 0; i < sizeof bytes; i += 8)
                memcpy(bytes + i, (uint64_t[]){some(UINT64_MAX) << 31 ^ some(UINT64_MAX)}, 8);
            size_t from = parts[4].len + (row ? 2 : 0);
            buf_printf(&parts[4], "%s(%u,", row ? ",\n" : "", 64 * statement + row);
            sql_hex(&parts[4], bytes, sizeof bytes);
            buf_adds(&parts[4], ")");
            t->rows_hash += sql_tuple_hash(parts[4].p + from, parts[4].len - from);
            t->rows++;
            d->m.rows++;
        }
        for (unsigned row = 0; row < 64; row++) {
            char text[16384];
            size_t from = parts[4].len + 2;
            for (size_t i = 0; i < sizeof text; i++)
                text[i] = (char)(' ' + some(95));
            buf_printf(&parts[4], ",\n(%u,", 64 * statement + row);
            sql_string(&parts[4], text, sizeof text);
            buf_adds(&parts[4], ")");
            t->rows_hash += sql_tuple_hash(parts[4].p + from, parts[4].len - from);
            t->rows++;
            d->m.rows++;
        }
        buf_adds(&parts[4], ";\n");
    }
    buf_clear(&parts[5]);
    format_trailer(&parts[5], KIT_TABLES, d->m.rows);
    kit_store(&d->m, "dump", parts, KIT_PARTS);
    kit_parts_free(parts);
    keep(d);
    assert_true(d->len > 13u << 20);
}

static int set_up(void **s)
{
    if (kit_set_up(s) < 0)
        return -1;
    kit_dump(&small.m);
    keep(&small);
    make_big(&big);
    return kit_clean(s);
}

static int tear_down(void **s)
{
    free(small.data);
    free(big.data);
    manifest_free(&small.m);
    manifest_free(&big.m);
    return kit_tear_down(s);
}

/* Threads of this process: a sanitizer may have one of its own. */
static unsigned count_threads(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    for (const struct dirent *ent; (ent = readdir(d));)
        n += ent->d_name[0] != '.';
    closedir(d);
    return n;
}

/* One that was joined may be seen for a moment longer. */
static void no_more_threads_than(unsigned n)
{
    for (int i = 0; i < 5000 && count_threads() > n; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(count_threads(), n);
}

struct writing {
    struct readback *back;
    const struct dump *d;
    int fd;
    size_t region; /* of the file, the next one to be told of */
    uint64_t in_region;
    size_t part, done;
    size_t wrong; /* place of a byte that gets there with another bit; 0: none */
};

static void begin(struct writing *w, const struct dump *d)
{
    struct err e = {0};
    *w = (struct writing){.d = d, .fd = kit_create("part")};
    w->back = readback_start(kit_dir, "part", &e);
    if (!w->back)
        fail_msg("%s", e.text);
}

/* The parts that end at `to` or before: they are known once they are written. */
static void tell_parts(struct writing *w, size_t to)
{
    const struct manifest *m = &w->d->m;
    while (w->part < m->parts.count) {
        struct parts_region r = parts_region(m, w->region);
        uint64_t left = r.to - r.from - w->in_region;
        uint32_t length = left < m->parts.bytes ? (uint32_t)left : m->parts.bytes;
        if (r.from + w->in_region + length > to)
            return;
        if (length)
            readback_part(w->back, length, m->parts.sha256[w->part++]);
        w->in_region += length;
        if (w->in_region == r.to - r.from) {
            w->region++;
            w->in_region = 0;
        }
    }
}

static void grow(struct writing *w, size_t to)
{
    if (to > w->d->len)
        to = w->d->len;
    assert_int_equal(file_write_all(w->fd, w->d->data + w->done, to - w->done), 0);
    if (w->wrong && w->wrong >= w->done && w->wrong < to) {
        char byte = (char)(w->d->data[w->wrong] ^ 4);
        assert_int_equal(pwrite(w->fd, &byte, 1, (off_t)w->wrong), 1);
    }
    w->done = to;
    tell_parts(w, to);
    readback_grown(w->back, to);
}

static int finish(struct writing *w, const struct manifest *m, struct err *e)
{
    *e = (struct err){0};
    assert_int_equal(fsync(w->fd), 0);
    int rc = readback_finish(w->back, m, NULL, e);
    close(w->fd);
    return rc;
}

static void abandon(struct writing *w)
{
    readback_abort(w->back);
    close(w->fd);
}

static void finds_nothing(struct writing *w)
{
    struct err e;
    if (finish(w, &w->d->m, &e) < 0)
        fail_msg("%s", e.text);
}

static void finds(struct writing *w, const struct manifest *m, const char *text)
{
    struct err e;
    if (finish(w, m, &e) == 0)
        fail_msg("nothing was found, not %s", text);
    if (e.cls != ERR_DAMAGED || !strstr(e.text, text))
        fail_msg("%s %s, not %s", err_class_name(e.cls), e.text, text);
}

static void wait_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* ---- whole ---- */

static void test_at_once(void **s)
{
    (void)s;
    struct writing w;
    const struct dump *all[] = {&small, &big};
    for (size_t i = 0; i < COUNT(all); i++) {
        begin(&w, all[i]);
        grow(&w, all[i]->len);
        finds_nothing(&w);
    }
}

/* In steps that have nothing to do with pages, members or the reading's own steps. */
static void test_while_it_grows(void **s)
{
    (void)s;
    static const size_t steps[] = {999983, 4u << 20, (4u << 20) + 1, 5000011, 65536};
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct writing w;
        begin(&w, &big);
        while (w.done < big.len)
            grow(&w, w.done + steps[i]);
        finds_nothing(&w);
    }
}

/* How much of the file was read so far: where the other descriptor of it is. */
static size_t read_so_far(const struct writing *w)
{
    struct stat mine, st;
    assert_int_equal(fstat(w->fd, &mine), 0);
    for (int fd = 3; fd < 100; fd++)
        if (fd != w->fd && fstat(fd, &st) == 0 && st.st_ino == mine.st_ino &&
            st.st_dev == mine.st_dev)
            return (size_t)lseek(fd, 0, SEEK_CUR);
    fail_msg("nobody reads the file");
    return 0;
}

/* With time to read what is there: that is done long before the end, and no further than told. */
static void test_slow_writer(void **s)
{
    (void)s;
    struct writing w;
    begin(&w, &big);
    wait_a_moment();
    for (size_t to = 1; w.done < big.len - 4096; to += (1u << 20) + 4097) {
        grow(&w, to < big.len ? to : big.len - 1);
        for (int i = 0; i < 1000 && read_so_far(&w) + (5u << 20) < w.done; i++)
            wait_a_moment();
        assert_in_range(read_so_far(&w), w.done < (5u << 20) ? 0 : w.done - (5u << 20), w.done);
    }
    grow(&w, big.len);
    finds_nothing(&w);
}

static unsigned reports;
static void count_report(struct progress *p)
{
    (void)p;
    reports++;
}

/* Nobody is told of progress that there was not. */
static void test_progress(void **s)
{
    (void)s;
    struct writing w;
    struct err e = {0};
    struct progress p = {.report = count_report};
    reports = 0;
    begin(&w, &small);
    grow(&w, small.len);
    assert_int_equal(readback_finish(w.back, &small.m, &p, &e), 0);
    close(w.fd);
    assert_true(reports <= 1);
    assert_true(p.rows <= small.m.rows);
}

/* ---- given up ---- */

static void test_abort_at_once(void **s)
{
    (void)s;
    struct writing w;
    readback_abort(NULL);
    begin(&w, &small);
    abandon(&w);
    begin(&w, &small);
    wait_a_moment();
    abandon(&w);
}

static void test_abort_in_the_middle(void **s)
{
    (void)s;
    for (size_t to = 0; to <= big.len; to += 3333333) {
        struct writing w;
        begin(&w, &big);
        grow(&w, to / 2);
        grow(&w, to);
        if (to % 2)
            wait_a_moment();
        abandon(&w);
    }
}

/* A thousand dumps in a row, grown, finished, damaged and given up at random. */
static void test_many_rounds(void **s)
{
    (void)s;
    unsigned before = count_threads();
    for (unsigned round = 0; round < 1000; round++) {
        struct writing w;
        struct err e;
        begin(&w, &small);
        for (uint64_t n = some(4); n > 0; n--)
            grow(&w, w.done + some(small.len - w.done + 1));
        switch (some(4)) {
        case 0:
            abandon(&w);
            break;
        case 1: /* the end never comes */
            if (w.done == small.len)
                finds_nothing(&w);
            else if (finish(&w, &small.m, &e) == 0 || e.cls != ERR_DAMAGED)
                fail_msg("%zu bytes of %zu: %s", w.done, small.len, e.text);
            break;
        default:
            grow(&w, small.len);
            finds_nothing(&w);
        }
        no_more_threads_than(before);
    }
}

/* ---- found ---- */

/* A byte that the disk gives back wrong, in what is read long before the end and in the last of it.
 */
static void test_damage(void **s)
{
    (void)s;
    for (size_t at = 5000; at < big.len; at += big.len / 6) {
        struct writing w;
        begin(&w, &big);
        w.wrong = at;
        for (size_t to = 3u << 20; w.done < big.len; to += 3u << 20)
            grow(&w, to);
        finds(&w, &big.m, "part");
    }
}

/* The file holds less than was told. */
static void test_cut(void **s)
{
    (void)s;
    static const size_t lost[] = {1, 8, 100};
    for (size_t i = 0; i < COUNT(lost); i++) {
        struct writing w;
        begin(&w, &small);
        grow(&w, small.len);
        assert_int_equal(ftruncate(w.fd, (off_t)(small.len - lost[i])), 0);
        finds(&w, &small.m, "cut short");
        begin(&w, &big);
        grow(&w, big.len - 1000);
        assert_int_equal(ftruncate(w.fd, (off_t)(5u << 20)), 0);
        grow(&w, big.len);
        assert_int_equal(ftruncate(w.fd, (off_t)(big.len - lost[i])), 0);
        finds(&w, &big.m, "");
    }
}

/* It holds more: nobody wrote that for us. */
static void test_longer(void **s)
{
    (void)s;
    struct writing w;
    begin(&w, &small);
    grow(&w, small.len);
    assert_int_equal(file_write_all(w.fd, "x", 1), 0);
    finds(&w, &small.m, "bytes, but its manifest says");
}

static void test_nothing_written(void **s)
{
    (void)s;
    struct writing w;
    begin(&w, &small);
    finds(&w, &small.m, "is empty");
}

static void test_not_a_dump(void **s)
{
    (void)s;
    static char text[] = "this is no dump";
    struct dump d = {.data = text, .len = sizeof text - 1, .m = small.m};
    struct writing w;
    begin(&w, &d);
    grow(&w, d.len);
    finds(&w, &small.m, "part");
}

/* The dump is whole, and still not the one of its manifest. */
static void test_other_manifest(void **s)
{
    (void)s;
    static const struct {
        const char *text;
        size_t offset;
    } numbers[] = {{"bytes of SQL, but its manifest says", offsetof(struct manifest, bytes)},
                   {"bytes, but its manifest says", offsetof(struct manifest, file_size)}};
    struct writing w;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        struct manifest m = small.m;
        uint64_t n;
        memcpy(&n, (char *)&m + numbers[i].offset, sizeof n);
        n++;
        memcpy((char *)&m + numbers[i].offset, &n, sizeof n);
        begin(&w, &small);
        grow(&w, small.len);
        finds(&w, &m, numbers[i].text);
    }
    struct manifest m = small.m;
    m.sha256[0] = m.sha256[0] == 'a' ? 'b' : 'a';
    begin(&w, &small);
    grow(&w, small.len);
    finds(&w, &m, "SHA-256");
    m = small.m;
    m.table_count--;
    begin(&w, &small);
    grow(&w, small.len);
    finds(&w, &m, "table wk`s is not the one that its manifest names here");
    small.m.tables[0].rows_hash ^= 1;
    begin(&w, &small);
    grow(&w, small.len);
    finds(&w, &small.m, "the rows of table users do not match the manifest");
    small.m.tables[0].rows_hash ^= 1;
    begin(&w, &small);
    grow(&w, small.len);
    finds(&w, &big.m, "part");
}

static void test_no_file(void **s)
{
    (void)s;
    struct err e = {0};
    unsigned before = count_threads();
    assert_null(readback_start(kit_dir, "none", &e));
    assert_int_equal(e.cls, ERR_SYSTEM);
    kit_text("real", "x");
    assert_int_equal(symlinkat("real", kit_dir, "link"), 0);
    e = (struct err){0};
    assert_null(readback_start(kit_dir, "link", &e));
    assert_int_equal(e.cls, ERR_SYSTEM);
    no_more_threads_than(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_at_once, kit_clean),
        cmocka_unit_test_teardown(test_while_it_grows, kit_clean),
        cmocka_unit_test_teardown(test_slow_writer, kit_clean),
        cmocka_unit_test_teardown(test_progress, kit_clean),
        cmocka_unit_test_teardown(test_abort_at_once, kit_clean),
        cmocka_unit_test_teardown(test_abort_in_the_middle, kit_clean),
        cmocka_unit_test_teardown(test_many_rounds, kit_clean),
        cmocka_unit_test_teardown(test_damage, kit_clean),
        cmocka_unit_test_teardown(test_cut, kit_clean),
        cmocka_unit_test_teardown(test_longer, kit_clean),
        cmocka_unit_test_teardown(test_nothing_written, kit_clean),
        cmocka_unit_test_teardown(test_not_a_dump, kit_clean),
        cmocka_unit_test_teardown(test_other_manifest, kit_clean),
        cmocka_unit_test_teardown(test_no_file, kit_clean),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
