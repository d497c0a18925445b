/* standby/pull: either all segments of another world are moved aside or none, before anything is
 * fetched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>

#include "dir_kit.h"
#include "standby/pull.h"

#define SEGMENTS 3u

/* The real one, until told to fail the n-th time in the journal's directory. */
static int readdir_fails_at;
static ino_t journal;

struct dirent *readdir(DIR *d)
{
    static struct dirent *(*real)(DIR *);
    struct stat st;
    if (!real) {
        void *p = dlsym(RTLD_NEXT, "readdir");
        memcpy(&real, &p, sizeof p);
    }
    bool here = readdir_fails_at && fstat(dirfd(d), &st) == 0 && st.st_ino == journal;
    if (here && --readdir_fails_at == 0) {
        errno = EIO;
        return NULL;
    }
    return real(d);
}

static unsigned segments(int dir)
{
    unsigned n = 0;
    for (unsigned i = 1; i <= SEGMENTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "w-%010u.journal", i);
        n += faccessat(dir, name, F_OK, 0) == 0;
    }
    return n;
}

static void test_half_a_list(void **state)
{
    (void)state;
    struct stat st;
    struct err e = {0};
    SCOPED(xfree) char *dir = xasprintf("%s/journal", kit_path);
    SCOPED(xfree) char *url = xasprintf("file://%s/store/", kit_path);
    const struct config c = {.name = (char[]){"w"},
                             .journal = JOURNAL_FOLLOW,
                             .journal_dir = dir,
                             .offsite = {.url = url}};
    struct pull p = {.cfg = &c, .dirfd = kit_dir};
    assert_int_equal(mkdirat(kit_dir, "store", 0700), 0);
    assert_int_equal(mkdirat(kit_dir, "journal", 0700), 0);
    SCOPED(file_close) int fd = openat(kit_dir, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    journal = st.st_ino;
    for (unsigned i = 1; i <= SEGMENTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "w-%010u.journal", i);
        assert_int_equal(file_commit(fd, name, "x", 1, 0600, &e), 0);
    }
    assert_int_equal(pull_set_aside(&c, &e), 0);
    /* what a list has: ".", "..", the mark, the segments */
    for (int at = 1; at <= 6; at++) {
        readdir_fails_at = at;
        assert_int_equal(pull_step(&p, &e), -1);
        assert_int_equal(readdir_fails_at, 0);
        assert_int_equal(e.num, EIO);
        assert_non_null(strstr(e.text, "cannot list the journal"));
        assert_int_equal(faccessat(fd, "set-aside", F_OK, 0), 0);
        pull_close(&p);
    }
    if (pull_step(&p, &e) < 0)
        fail_msg("%s", e.text);
    pull_close(&p);
    assert_int_equal(segments(fd), 0);
    assert_int_equal(faccessat(fd, "set-aside", F_OK, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_half_a_list, kit_clean),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
