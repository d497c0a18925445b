/* standby/lease: when a lease is held, by the holder's clock and by the other machine's;
 * base/fence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fence.h"
#include "base/file.h"
#include "fake_clock.h"
#include "standby/handover.h"
#include "standby/lease.h"

#define TTL 15000

static void held_doubtful_gone(void **state)
{
    (void)state;
    static const struct {
        int64_t after; /* ms since it was asked for */
        enum lease_hold is;
    } cases[] = {{0, LEASE_IS_HELD},     {5000, LEASE_IS_HELD},   {8250, LEASE_IS_HELD},
                 {8251, LEASE_DOUBTFUL}, {11999, LEASE_DOUBTFUL}, {12000, LEASE_GONE},
                 {86400000, LEASE_GONE}};
    mono_t asked = {1000000};
    mono_t ends = lease_ends(asked, TTL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(lease_judge(ends, TTL, mono_add(asked, cases[i].after)), cases[i].is);
    assert_int_equal(lease_judge((mono_t){0}, TTL, asked), LEASE_GONE);
    assert_int_equal(lease_judge((mono_t){0}, TTL, (mono_t){-1}), LEASE_GONE);
}

/* Whenever the renewal reached the store between question and answer: who saw it only after that
 * waits for longer than its holder acts. */
static void nobody_else_before(void **state)
{
    (void)state;
    for (int64_t ttl = 2000; ttl <= 3600000; ttl *= 3) {
        mono_t asked = {77}, written = {77}; /* at the earliest, seen at once */
        mono_t other = mono_add(written, ttl + LEASE_MARGIN(ttl));
        assert_true(mono_since(other, lease_ends(asked, ttl)) >= 2 * LEASE_MARGIN(ttl));
    }
}

/* Only the number and the holder that this machine knows count. */
static void unchanged(void **state)
{
    (void)state;
    const struct lease_record r = {.number = 7, .holder = "here/1"}, empty = {.free = true};
    assert_true(lease_unchanged(&r, "here/1", 7));
    assert_false(lease_unchanged(&r, "here/1", 6));
    assert_false(lease_unchanged(&r, "here/1", 0));
    assert_false(lease_unchanged(&r, "here/2", 7));
    assert_false(lease_unchanged(&empty, "here/1", 0));
    assert_false(lease_unchanged(&empty, "", 0));
}

static void a_fence(void **state)
{
    (void)state;
    struct err e = {0};
    assert_true(fence_open());
    assert_int_equal(fence_until().ms, 0);
    assert_false(fence_is_shut());
    assert_int_equal(fence_make(&e), 0);
    assert_false(fence_open());
    assert_int_equal(fence_check("swap", &e), -1);
    assert_string_equal(e.text, "swap: this machine does not hold the lease of this world");
    fence_set(mono_add(clock_mono(), 10));
    assert_true(fence_open());
    fake_mono_ms += 9;
    assert_int_equal(fence_check("swap", NULL), 0);
    fake_mono_ms += 1;
    assert_false(fence_open());
    assert_int_equal(fence_make(NULL), 0); /* the same one */
    fence_set((mono_t){0});
    assert_false(fence_open());

    /* Given away: whoever was about to extend it does not open it. */
    fence_shut(true);
    fence_set(mono_add(clock_mono(), 10));
    assert_false(fence_open());
    assert_int_equal(fence_until().ms, 0);
    fence_shut(false);
    assert_true(fence_open());

    /* The process that gives the world away may still record that. */
    fence_shut_others();
    assert_true(fence_is_shut());
    assert_true(fence_open());
    fake_mono_ms += 10;
    assert_false(fence_open());
    fence_set(mono_add(clock_mono(), 10));
    fence_shut(true);
    assert_false(fence_open());
    fence_shut(false);
}

/* A promotion that outlived its lease leaves the handovers to whoever holds it now. */
static void handovers_stay(void **state)
{
    (void)state;
    static const char file[] = "s8/handover/7-1.json";
    char place[] = "/tmp/wk-unit.XXXXXX";
    assert_non_null(mkdtemp(place));
    SCOPED(xfree) char *url = xasprintf("file://%s/", place);
    struct config cfg = {.offsite.url = url};
    struct remote *r;
    struct err e = {0};
    SCOPED(file_close) int dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0 && mkdirat(dir, "s8", 0700) == 0 &&
                mkdirat(dir, "s8/handover", 0700) == 0);
    close(openat(dir, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(remote_open(&cfg, &r, &e), REMOTE_OK);
    assert_int_equal(fence_make(&e), 0);
    fence_set((mono_t){0});
    assert_int_equal(handover_clear(r, "s8", &e), -1);
    assert_string_equal(e.text, "deletion of a handover: this machine does not hold the lease of "
                                "this world");
    assert_int_equal(faccessat(dir, file, F_OK, 0), 0);
    fence_set(mono_add(clock_mono(), 10));
    assert_int_equal(handover_clear(r, "s8", &e), 0);
    assert_int_equal(faccessat(dir, file, F_OK, 0), -1);
    remote_close(r);
    assert_int_equal(unlinkat(dir, "s8/handover", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(dir, "s8", AT_REMOVEDIR), 0);
    assert_int_equal(rmdir(place), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_doubtful_gone), cmocka_unit_test(unchanged),
        cmocka_unit_test(nobody_else_before), cmocka_unit_test(a_fence),
        cmocka_unit_test(handovers_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
