/* offsite/copies, doubts, owner and manifests: names in the store, how far a segment reaches there,
 * which segments no dump needs, whose dumps are there, and what is remembered of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "offsite/doubts.h"
#include "offsite/manifests.h"
#include "offsite/owner.h"

#define HOUR INT64_C(3600000)

static struct copies c;

static int tear_down(void **state)
{
    (void)state;
    copies_free(&c);
    return 0;
}

static void part(uint64_t number, int64_t made, uint64_t from, uint64_t to)
{
    struct copy_part p = {.number = number, .made = made, .from = from, .to = to};
    copies_add_part(&c, &p);
}

static void dump(const char *name)
{
    copies_add_dump(&c, name, "s8")->manifest = true;
}

static void test_names(void **state)
{
    (void)state;
    char name[COPY_NAME_MAX];
    struct copy_part p = {
        .number = 7, .made = 1700000000123, .from = 5, .to = 1000, .sealed = true};
    copy_part_name(name, "s8", &p);
    assert_string_equal(name,
                        "s8/segments/s8-000000000007-1700000000123.000000000005-000000001000.age");
    copy_file_name(name, "s8", "NAME", 1, true);
    assert_string_equal(name, "s8/dumps/NAME.sql.gz.age");
    copy_file_name(name, "s8", "NAME", 2, false);
    assert_string_equal(name, "s8/dumps/NAME.2.sql.gz");
    copy_manifest_name(name, "s8", "NAME");
    assert_string_equal(name, "s8/dumps/NAME.json");
    copy_pin_name(name, "s8", "NAME");
    assert_string_equal(name, "s8/dumps/NAME.pin");
    dump("s8-000001-00000009-20260131T000000Z");
    dump("s8-000002-00000001-20260101T000000Z");
    dump("s8-000001-00000010-20260131T000001Z");
    assert_int_equal(c.dumps[0].generation, 2);
    assert_int_equal(c.dumps[1].sequence, 10);
    assert_int_equal(c.dumps[1].at.ms, INT64_C(1769817601000));
}

/* Nothing behind a hole counts, nor another segment of that number. */
static void test_reach(void **state)
{
    (void)state;
    assert_int_equal(copies_reach(&c, 1, 10), 0);
    part(1, 10, 100, 200);
    assert_int_equal(copies_reach(&c, 1, 10), 0);
    part(1, 10, 0, 100);
    assert_int_equal(copies_reach(&c, 1, 10), 200);
    part(1, 10, 300, 400);
    part(1, 11, 200, 300);
    part(2, 10, 200, 300);
    assert_int_equal(copies_reach(&c, 1, 10), 200);
    part(1, 10, 0, 300);
    assert_int_equal(copies_reach(&c, 1, 10), 400);
}

static void spare_is(int64_t keep, wall_t now, const char *expected)
{
    bool spare[16];
    copies_spare(&c, keep, now, spare);
    for (size_t i = 0; i < c.part_count; i++)
        if (spare[i] != (expected[i] == 'x'))
            fail_msg("%zu of %s", i, expected);
}

static void test_spare(void **state)
{
    (void)state;
    const int64_t day = INT64_C(1769817600000); /* 2026-01-31 */
    for (unsigned i = 0; i < 6; i++)
        part(i + 1, day + (int64_t)i * 2 * HOUR, 0, 10);
    spare_is(HOUR, (wall_t){day + 100 * HOUR}, "......"); /* no dump: nothing goes */
    dump("s8-000001-00000002-20260131T070000Z");
    spare_is(1000 * HOUR, (wall_t){day + 100 * HOUR}, "xx....");
    dump("s8-000001-00000001-20260131T030100Z");
    spare_is(1000 * HOUR, (wall_t){day + 100 * HOUR}, "x.....");
    /* too old, but not for the newest dump */
    spare_is(HOUR, (wall_t){day + 100 * HOUR}, "xx....");
    /* a new machine that counts from 1 again: its newest is the newest */
    part(1, day + 20 * HOUR, 0, 10);
    spare_is(HOUR, (wall_t){day + 100 * HOUR}, "x......");
    /* a clock that is behind all dumps deletes nothing */
    spare_is(1000 * HOUR, (wall_t){day - 100 * HOUR}, ".......");
}

/* What was stored while the clock was ahead says nothing of what was stored after it was corrected,
 * or before. */
static void test_spare_ahead(void **state)
{
    (void)state;
    const int64_t day = INT64_C(1769817600000); /* 2026-01-31 */
    for (unsigned i = 0; i < 6; i++)
        part(i + 1, day + (int64_t)i * 2 * HOUR + (i == 1 ? 8760 * HOUR : 0), 0, 10);
    dump("s8-000001-00000001-20260131T010000Z");
    dump("s8-000001-00000002-20270131T020000Z");
    spare_is(HOUR, (wall_t){day + 100 * HOUR}, "......"); /* the first dump needs them */
    dump("s8-000001-00000003-20260131T090000Z");
    spare_is(HOUR, (wall_t){day + 100 * HOUR}, "x.x...");
    spare_is(1000 * HOUR, (wall_t){day + 100 * HOUR}, "......");
}

/* A dump that shows a jump of the clock does not make all segments old. */
static void test_now(void **state)
{
    (void)state;
    const int64_t day = INT64_C(1769817600000); /* 2026-01-31 */
    assert_int_equal(copies_now(&c, HOUR, (wall_t){day}).ms, day);
    dump("s8-000001-00000001-20260131T000000Z");
    dump("s8-000001-00000003-20260131T020000Z");
    assert_int_equal(copies_now(&c, HOUR, (wall_t){day + 3 * HOUR}).ms, day + 3 * HOUR);
    dump("s8-000001-00000004-20270131T030000Z");
    assert_int_equal(copies_now(&c, HOUR, (wall_t){day + 8764 * HOUR}).ms, day + 5 * HOUR);
    assert_int_equal(copies_now(&c, HOUR, (wall_t){day + 4 * HOUR}).ms, day + 4 * HOUR);
}

/* What no key of ours has signed reaches nowhere, says nothing of when a segment ended, is not
 * read, and goes with the segments of its time. */
static void test_unproven(void **state)
{
    (void)state;
    const int64_t day = INT64_C(1769817600000); /* 2026-01-31 */
    for (unsigned i = 0; i < 3; i++)
        part(i + 1, day + (int64_t)i * 2 * HOUR, 0, 10);
    struct copy_part p = {.number = 1, .made = day, .from = 10, .to = 1000, .unproven = true};
    copies_add_part(&c, &p);
    p = (struct copy_part){.number = 4, .made = day + 1, .from = 0, .to = 5, .unproven = true};
    copies_add_part(&c, &p);
    assert_int_equal(copies_reach(&c, 1, day), 10);
    assert_int_equal(copies_reach(&c, 4, day + 1), 0);
    dump("s8-000001-00000002-20260131T040000Z");
    spare_is(1000 * HOUR, (wall_t){day + 100 * HOUR}, "xx...");
    dump("s8-000001-00000003-20260131T070000Z");
    copies_dump(&c, "s8-000001-00000002-20260131T040000Z")->manifest = false;
    spare_is(1000 * HOUR, (wall_t){day + 100 * HOUR}, "xxx..");
    copies_drop_unproven(&c);
    assert_int_equal(c.part_count, 3);
    assert_int_equal(c.parts[0].to, 10);
}

/* What is written after the clock was set back follows the dump, whatever the times say. */
static void test_spare_with_a_clock_set_back(void **state)
{
    (void)state;
    const int64_t day = INT64_C(1769817600000); /* 2026-01-31 */
    dump("s8-000001-00000001-20260131T003000Z");
    part(5, day, 0, 10);
    part(6, day - 24 * HOUR, 0, 10);
    part(7, day - 22 * HOUR, 0, 10);
    spare_is(1000 * HOUR, (wall_t){day - 20 * HOUR}, "...");
    /* once the time has come again it is as ever */
    part(8, day + 3 * HOUR, 0, 10);
    dump("s8-000001-00000002-20260131T090000Z");
    copies_dump(&c, "s8-000001-00000001-20260131T003000Z")->manifest = false;
    spare_is(1000 * HOUR, (wall_t){day + 10 * HOUR}, "x...");
}

/* ---- a store in a directory ---- */

static char place[] = "/tmp/wk-copies-XXXXXX";
static int dirfd_of_place;

static int make_place(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(place));
    dirfd_of_place = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dirfd_of_place < 0 || mkdirat(dirfd_of_place, "s8", 0700) < 0 ||
           mkdirat(dirfd_of_place, "s8/dumps", 0700) < 0;
}

static int remove_place(void **state)
{
    SCOPED(xfree) char *command = xasprintf("rm -r %s", place);
    (void)state;
    close(dirfd_of_place);
    return system(command);
}

static void store_file(const char *name, size_t size)
{
    SCOPED(xfree) char *path = xasprintf("s8/dumps/%s", name), *data = xcalloc(1, size + 1);
    SCOPED(file_close) int fd = openat(dirfd_of_place, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && file_write_all(fd, data, size) == 0);
}

static void list_store(void)
{
    SCOPED(xfree) char *url = xasprintf("file://%s/", place);
    struct config cfg = {.offsite.url = url};
    struct remote *r;
    struct err e;
    assert_int_equal(remote_open(&cfg, &r, &e), REMOTE_OK);
    assert_int_equal(copies_load_dumps(r, "s8", &c, &e), REMOTE_OK);
    remote_close(r);
}

/* Of many names in no order one dump each, the newest first, each found again. */
static void test_list(void **state)
{
    enum { DUMPS = 500 };
    char name[64];
    (void)state;
    for (unsigned i = 0; i < DUMPS; i++) {
        unsigned n = i * 7 % DUMPS + 1;
        snprintf(name, sizeof name, "s8-000001-%08u-20260131T000000Z.sql.gz.age", n);
        store_file(name, 3);
        snprintf(name, sizeof name, "s8-000001-%08u-20260131T000000Z.2.sql.gz.age", n);
        if (n % 2)
            store_file(name, 3);
        snprintf(name, sizeof name, "s8-000001-%08u-20260131T000000Z.json", n);
        if (n % 5)
            store_file(name, n);
        snprintf(name, sizeof name, "s8-000001-%08u-20260131T000000Z.pin", n);
        if (n % 3 == 0)
            store_file(name, n + 1);
    }
    store_file("s9-000001-00000001-20260131T000000Z.json", 1);
    store_file("s8-000001-00000001-20260131T000000Z.json.x", 1);
    list_store();
    assert_int_equal(c.dump_count, DUMPS);
    for (unsigned i = 0; i < DUMPS; i++) {
        unsigned n = DUMPS - i;
        snprintf(name, sizeof name, "s8-000001-%08u-20260131T000000Z", n);
        struct copy_dump *d = copies_dump(&c, name);
        assert_ptr_equal(d, &c.dumps[i]);
        assert_int_equal(d->files, n % 2 ? 3 : 1);
        assert_int_equal(d->manifest, n % 5 != 0);
        assert_int_equal(d->size, n % 5 ? (int)n : -1);
        assert_int_equal(d->stamp[0] != '\0', n % 5 != 0);
        assert_int_equal(d->pin.there, n % 3 == 0);
        assert_true(n % 3 || (d->pin.size == n + 1 && d->pin.stamp[0]));
    }
    assert_null(copies_dump(&c, "s8-000001-00000501-20260131T000000Z"));
}

static struct copy_dump *read_as(const char *name, const char *sha256)
{
    struct copy_dump *d = copies_dump(&c, name);
    assert_non_null(d);
    d->attempt = 1;
    memset(d->sha256, sha256[0], SHA256_HEX - 1);
    snprintf(d->nonce, sizeof d->nonce, "%s", "aa");
    return d;
}

/* What is listed as it was is not read again; what is another is, and is nobody's. */
static void test_remembered(void **state)
{
    static const char kept[] = "s8-000001-00000501-20260131T000000Z",
                      other[] = "s8-000001-00000502-20260131T000000Z",
                      gone[] = "s8-000001-00000503-20260131T000000Z",
                      theirs[] = "s8-000001-00000504-20260131T000000Z";
    struct err e, reason = {0};
    uint64_t generation;
    (void)state;
    static const char *const names[] = {kept, other, gone, theirs};
    for (size_t i = 0; i < 4; i++) {
        SCOPED(xfree) char *json = xasprintf("%s.json", names[i]),
                           *file = xasprintf("%s.sql.gz", names[i]);
        store_file(json, 5);
        store_file(file, 5);
    }
    store_file("s8-000001-00000501-20260131T000000Z.pin", 5);
    store_file("s8-000001-00000502-20260131T000000Z.pin", 5);
    list_store();
    assert_int_equal(manifests_recall(dirfd_of_place, "here", &c, &generation, &e), 0);
    assert_int_equal(generation, 0);
    read_as(kept, "1")->pin.had = true;
    read_as(kept, "1")->ours = true;
    read_as(other, "2")->ours = true;
    read_as(gone, "3")->known = true;
    read_as(theirs, "4");
    assert_int_equal(manifests_remember(dirfd_of_place, "here", &c, 7, false, &e), 0);
    SCOPED(xfree) char *json = xasprintf("%s.json", other);
    store_file(json, 6);
    SCOPED(xfree) char *file = xasprintf("s8/dumps/%s.sql.gz", gone);
    assert_int_equal(unlinkat(dirfd_of_place, file, 0), 0);
    list_store();
    assert_int_equal(manifests_recall(dirfd_of_place, "here", &c, &generation, &e), 0);
    assert_int_equal(generation, 7);
    assert_true(copies_dump(&c, kept)->ours && copies_dump(&c, kept)->attempt == 1);
    assert_true(copies_dump(&c, kept)->pin.had && !copies_dump(&c, other)->pin.had);
    assert_true(copies_dump(&c, other)->known && !copies_dump(&c, other)->attempt);
    assert_true(copies_dump(&c, gone)->known && !copies_dump(&c, gone)->attempt);
    assert_false(copies_dump(&c, theirs)->known);

    /* A store of its own and back; what is about to be sent. */
    list_store();
    assert_int_equal(manifests_recall(dirfd_of_place, "elsewhere", &c, &generation, &e), 0);
    assert_true(generation == 0 && !copies_dump(&c, kept)->known);
    struct copy_dump *d = read_as(kept, "1");
    d->ours = d->sending = true;
    d->attempt = 0;
    assert_int_equal(manifests_remember(dirfd_of_place, "elsewhere", &c, 9, false, &e), 0);
    list_store();
    assert_int_equal(manifests_recall(dirfd_of_place, "here", &c, &generation, &e), 0);
    assert_true(generation == 7 && copies_dump(&c, kept)->attempt == 1);
    list_store();
    assert_int_equal(manifests_recall(dirfd_of_place, "elsewhere", &c, &generation, &e), 0);
    assert_true(generation == 9 && copies_dump(&c, kept)->ours && !copies_dump(&c, kept)->attempt);
    read_as(kept, "1");

    struct manifest m = {.name = "s8-000001-00000501-20260131T000000Z"};
    memset(m.sha256, '1', SHA256_HEX - 1);
    assert_int_equal(manifests_found(dirfd_of_place, &m, "torn", &e), 0);
    assert_int_equal(manifests_recall_damaged(dirfd_of_place, &c, &reason, &e), 0);
    assert_true(copies_dump(&c, kept)->damaged && strstr(reason.text, "torn"));
    assert_int_equal(manifests_found(dirfd_of_place, &m, NULL, &e), 0);
    list_store();
    read_as(kept, "1");
    assert_int_equal(manifests_recall_damaged(dirfd_of_place, &c, NULL, &e), 0);
    assert_false(copies_dump(&c, kept)->damaged);

    assert_int_equal(manifests_adopt(dirfd_of_place, &e), 0);
    assert_int_equal(manifests_recall(dirfd_of_place, "here", &c, &generation, &e), 0);
    assert_int_equal(generation, 0);
}

static void test_owner(void **state)
{
    static const struct {
        uint64_t mine, before, there;
        const char *nonce;
        bool known, ours, forbids;
    } cases[] = {
        {1, 0, 1, "aa", false, false, false}, /* of this very world */
        {1, 0, 1, "bb", false, false, true},  /* a machine that began anew */
        {1, 1, 1, "bb", true, true, false},   /* stored here, before the world was made anew */
        {1, 0, 2, "bb", true, false, true},   /* the world lives elsewhere */
        {2, 0, 1, "bb", false, false, false}, /* restored from there */
        {2, 2, 1, "bb", false, false, false}, /* the old machine's last one */
        {3, 1, 2, "bb", false, false, true},  /* restored here, while it lives elsewhere */
        {3, 1, 2, "bb", true, false, false},  /* it was there before */
        {3, 1, 2, "bb", false, true, false},
        {0, 0, 2, "bb", false, false, false}, /* no world here */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct owner f = {.generation = cases[i].mine, .nonce = "aa", .before = cases[i].before};
        struct copy_dump d = {.attempt = 1,
                              .generation = cases[i].there,
                              .known = cases[i].known,
                              .ours = cases[i].ours};
        snprintf(d.nonce, sizeof d.nonce, "%s", cases[i].nonce);
        if (owner_forbids(&f, &d) != cases[i].forbids)
            fail_msg("case %zu", i);
        assert_true(!cases[i].forbids || d.generation >= owner_from(&f));
        d.attempt = 0;
        assert_false(owner_forbids(&f, &d));
    }
}

/* After a list, is everything up to byte 500 of segment 7 read back? `before` and `after`: a
 * doubted part, its segment and first byte; 0: none. */
static void test_doubts(void **state)
{
    static const struct {
        uint64_t before[2], after[2];
        bool changed, allow;
    } cases[] = {
        {{0}, {0}, false, true},      {{0}, {0}, true, false},     {{0}, {7, 499}, true, false},
        {{7, 499}, {0}, true, false}, {{0}, {7, 500}, true, true}, {{7, 500}, {0}, true, true},
        {{0}, {6, 900}, true, false}, {{0}, {8, 0}, true, true},   {{7, 0}, {8, 0}, true, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct doubts d[2] = {{.changed = {1, 1}}, {.changed = {1, cases[i].changed ? 2 : 1}}};
        for (int k = 0; k < 2; k++) {
            const uint64_t *of = k ? cases[i].after : cases[i].before;
            struct copy_part p = {.number = of[0], .made = 5, .from = of[1], .to = of[1] + 9};
            char name[COPY_NAME_MAX];
            copy_part_name(name, "w", &p);
            if (of[0])
                buf_printf(&d[k].names, "%s\n", name);
        }
        if (doubts_allow(&d[0], &d[1], "w", 7, 500) != cases[i].allow)
            fail_msg("case %zu", i);
        doubts_free(&d[0]);
        doubts_free(&d[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_names, tear_down),
        cmocka_unit_test_teardown(test_reach, tear_down),
        cmocka_unit_test_teardown(test_spare, tear_down),
        cmocka_unit_test_teardown(test_spare_ahead, tear_down),
        cmocka_unit_test_teardown(test_now, tear_down),
        cmocka_unit_test_teardown(test_unproven, tear_down),
        cmocka_unit_test_teardown(test_spare_with_a_clock_set_back, tear_down),
        cmocka_unit_test_teardown(test_list, tear_down),
        cmocka_unit_test_teardown(test_remembered, tear_down),
        cmocka_unit_test(test_owner),
        cmocka_unit_test(test_doubts),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
