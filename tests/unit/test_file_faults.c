/* base/file on a failing disk: whichever call fails, the file is unchanged, nothing is left beside
 * it, and the error names the operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/syscall.h>

#include "dir_kit.h"
#include "open_kit.h"

/* ---- these stand before the system's calls ---- */

enum call { NONE, SYNC, CLOSE, MODE, WRITE, READ, STAT, RENAME };

static struct {
    enum call which;
    unsigned at; /* the how manieth of them */
    int num;
} fault;

static void break_at(enum call which, unsigned at, int num)
{
    fault.which = which;
    fault.at = at;
    fault.num = num;
}

static bool fails(enum call which)
{
    if (fault.which != which || fault.at == 0 || --fault.at > 0)
        return false;
    errno = fault.num;
    return true;
}

int fsync(int fd)
{
    (void)fd;
    return fails(SYNC) ? -1 : 0;
}

/* It is closed all the same. */
int close(int fd)
{
    int rc = (int)syscall(SYS_close, fd);
    return fails(CLOSE) ? -1 : rc;
}

int fchmod(int fd, mode_t mode)
{
    return fails(MODE) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

ssize_t write(int fd, const void *data, size_t len)
{
    return fails(WRITE) ? -1 : syscall(SYS_write, fd, data, len > 3 ? 3 : len);
}

static ssize_t read_some(int fd, void *out, size_t len)
{
    return fails(READ) ? -1 : syscall(SYS_read, fd, out, len > 3 ? 3 : len);
}

ssize_t read(int fd, void *out, size_t len)
{
    return read_some(fd, out, len);
}

/* What a fortified build calls instead. */
ssize_t __read_chk(int fd, void *out, size_t len, size_t room);
ssize_t __read_chk(int fd, void *out, size_t len, size_t room)
{
    if (len > room)
        abort();
    return read_some(fd, out, len);
}

int fstat(int fd, struct stat *st)
{
    return fails(STAT) ? -1 : fstatat(fd, "", st, AT_EMPTY_PATH);
}

int renameat(int from, const char *a, int to, const char *b)
{
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat2, from, a, to, b, 0);
}

/* ---- */

static void expect_file(const char *name, const char *text)
{
    break_at(NONE, 0, 0);
    char *now = kit_get(name, NULL);
    assert_non_null(now);
    assert_string_equal(now, text);
    free(now);
}

static unsigned files(void)
{
    unsigned n = 0;
    DIR *d = fdopendir(openat(kit_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const struct dirent *ent;
    while (d && (ent = readdir(d)))
        n += ent->d_name[0] != '.' || strlen(ent->d_name) > 2;
    if (d)
        closedir(d);
    return n;
}

static void test_commit(void **state)
{
    (void)state;
    static const struct {
        enum call which;
        unsigned at;
        int num;
        enum err_class cls;
        const char *says;
    } cases[] = {
        {MODE, 1, EPERM, ERR_SYSTEM, "cannot set the mode of name"},
        {WRITE, 1, ENOSPC, ERR_NOSPACE, "cannot write name"},
        {WRITE, 2, EIO, ERR_SYSTEM, "cannot write name"}, /* after the first few bytes */
        {SYNC, 1, EIO, ERR_SYSTEM, "cannot fsync name"},
        {CLOSE, 1, EDQUOT, ERR_NOSPACE, "cannot close name"},
        {RENAME, 1, EROFS, ERR_SYSTEM, "cannot replace name"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        kit_text("name", "as it was");
        break_at(cases[i].which, cases[i].at, cases[i].num);
        assert_int_equal(file_commit(kit_dir, "name", "something new", 13, 0600, &e), -1);
        assert_int_equal(e.cls, cases[i].cls);
        assert_int_equal(e.num, cases[i].num);
        assert_non_null(strstr(e.text, cases[i].says));
        expect_file("name", "as it was");
        assert_int_equal(files(), 1);
    }
}

/* The new file may be there or not after a power cut; that is told, and it is whole either way. */
static void test_commit_of_the_name(void **state)
{
    (void)state;
    struct err e = {0};
    kit_text("name", "as it was");
    break_at(SYNC, 2, EIO);
    assert_int_equal(file_commit(kit_dir, "name", "something new", 13, 0600, &e), -1);
    assert_non_null(strstr(e.text, "the directory of name"));
    expect_file("name", "something new");
    assert_int_equal(files(), 1);
}

static void test_interrupted(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = {0};
    break_at(WRITE, 2, EINTR);
    assert_int_equal(file_commit(kit_dir, "name", "something new", 13, 0600, &e), 0);
    expect_file("name", "something new");
    break_at(READ, 2, EINTR);
    assert_int_equal(file_read(kit_dir, "name", 100, &b, &e), 0);
    assert_string_equal(b.p, "something new");
    buf_free(&b);
}

static void test_read(void **state)
{
    (void)state;
    struct err e = {0};
    struct buf b = {0};
    kit_text("name", "something");
    break_at(READ, 2, EIO);
    assert_int_equal(file_read(kit_dir, "name", 100, &b, &e), -1);
    assert_int_equal(e.num, EIO);
    assert_non_null(strstr(e.text, "cannot read name"));
    break_at(STAT, 1, EIO);
    assert_int_equal(file_read(kit_dir, "name", 100, &b, &e), -1);
    assert_non_null(strstr(e.text, "cannot examine name"));
    buf_free(&b);
    struct err why = {0};
    break_at(STAT, 1, EIO);
    assert_int_equal(file_open(kit_dir, "name", O_RDWR, &why), -1);
    assert_int_equal(why.num, EIO);
    assert_non_null(strstr(why.text, "cannot examine name"));
    assert_string_equal(why.hint, ""); /* no hint to remove what could not be looked at */
}

static void test_directories(void **state)
{
    (void)state;
    struct err e = {0};
    char path[128];
    break_at(STAT, 1, EIO);
    assert_int_equal(file_dir(kit_path, 0, 0, &e), -1);
    assert_non_null(strstr(e.text, "cannot examine directory"));
    break_at(STAT, 1, EIO);
    assert_int_equal(file_subdir(kit_dir, "sub", &e), -1);
    assert_non_null(strstr(e.text, "cannot examine directory sub"));
    snprintf(path, sizeof path, "%s/made/here", kit_path);
    break_at(MODE, 1, EPERM);
    assert_int_equal(file_dir(path, FILE_MAKE, 0700, &e), -1);
    assert_non_null(strstr(e.text, "cannot make directory"));
    break_at(NONE, 0, 0);
    assert_int_equal(rmdir(path), -1); /* not reached */
    kit_text("file", "");
    snprintf(path, sizeof path, "%s/file/below", kit_path);
    assert_int_equal(file_dir(path, FILE_MAKE, 0700, &e), -1);
    assert_int_equal(e.num, ENOTDIR);
    assert_int_equal(file_subdir(kit_dir, "none/below", &e), -1);
    assert_int_equal(e.num, ENOENT);
}

static void test_sweep(void **state)
{
    (void)state;
    struct err e = {0};
    kit_refuse(".", EMFILE, 1);
    assert_int_equal(file_sweep(kit_dir, NULL, &e), -1);
    assert_int_equal(e.num, EMFILE);
    kit_text("file", "");
    int fd = openat(kit_dir, "file", O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_sweep(fd, NULL, &e), -1);
    assert_int_equal(e.num, ENOTDIR);
    close(fd);
}

static void test_rename(void **state)
{
    (void)state;
    struct err e = {0};
    int sub = file_subdir(kit_dir, "sub", &e);
    assert_true(sub >= 0);
    for (unsigned at = 1; at <= 2; at++) {
        kit_text("file", "text");
        break_at(SYNC, at, EIO);
        assert_int_equal(file_rename(kit_dir, "file", sub, "there", &e), -1);
        assert_non_null(strstr(e.text, at == 1 ? "directory of there" : "directory of file"));
        assert_false(kit_there("file"));
        expect_file("sub/there", "text");
    }
    close(sub);
}

#define FAULT_TEST(f) cmocka_unit_test_teardown(f, kit_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_commit), FAULT_TEST(test_commit_of_the_name), FAULT_TEST(test_interrupted),
        FAULT_TEST(test_read),   FAULT_TEST(test_directories),        FAULT_TEST(test_sweep),
        FAULT_TEST(test_rename),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
