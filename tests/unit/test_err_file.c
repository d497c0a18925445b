/* base/err: texts, hints, steps and exit codes; core/file: what is written is there whole or not at
 * all, nobody's planted link is followed, and secrets that others can read are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/text.h"

/* ---- err ---- */

static void test_set_and_hint(void **state)
{
    (void)state;
    struct err e = {.hint = "old"};
    assert_int_equal(err_set(&e, ERR_DAMAGED, 7, "%d rows in '%s'", 0, "users"), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_int_equal(e.num, 7);
    assert_string_equal(e.text, "0 rows in 'users'");
    assert_string_equal(e.hint, ""); /* a new error has no old hint */
    err_hint(&e, "look at %s", "it");
    assert_string_equal(e.hint, "look at it");
    err_clear(&e);
    assert_int_equal(e.cls, ERR_NONE);
    assert_string_equal(e.text, "");
}

static void test_sys(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(err_sys(&e, ENOENT, "cannot open %s", "x"), -1);
    assert_int_equal(e.cls, ERR_SYSTEM);
    assert_int_equal(e.num, ENOENT);
    assert_string_equal(e.text, "cannot open x: No such file or directory");
    assert_string_equal(e.hint, "");
    err_sys(&e, ENOSPC, "cannot write y");
    assert_int_equal(e.cls, ERR_NOSPACE);
    assert_true(e.hint[0]);
    err_sys(&e, EDQUOT, "cannot write y");
    assert_int_equal(e.cls, ERR_NOSPACE);
}

static void test_step(void **state)
{
    (void)state;
    struct err e = {0};
    err_set(&e, ERR_QUERY, 1064, "syntax");
    err_hint(&e, "way out");
    err_step(&e, "table %s", "t");
    err_step(&e, "dump");
    assert_string_equal(e.text, "dump: table t: syntax");
    assert_string_equal(e.hint, "way out");
    assert_int_equal(e.num, 1064);
}

/* Too much text is cut, never overrun. */
static void test_long_text(void **state)
{
    (void)state;
    struct err e = {0};
    char *big = xcalloc(3001, 1);
    memset(big, 'x', 3000);
    err_set(&e, ERR_SYSTEM, 0, "%s", big);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    err_step(&e, "step");
    assert_true(text_starts(e.text, "step: xxx"));
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    err_step(&e, "%s", big);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    err_sys(&e, EIO, "%s", big);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    err_hint(&e, "%s", big);
    assert_int_equal(strlen(e.hint), sizeof e.hint - 1);
    free(big);
}

static void test_null_err(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_SYSTEM, 0, "x"), -1);
    assert_int_equal(err_sys(NULL, EIO, "x"), -1);
    err_hint(NULL, "x");
    err_step(NULL, "x");
    err_clear(NULL);
}

static void test_classes(void **state)
{
    (void)state;
    static const struct {
        enum err_class cls;
        const char *name;
        int exit;
    } table[] = {
        {ERR_NONE, "none", 1},        {ERR_USAGE, "usage", 2},
        {ERR_CONFIG, "config", 2},    {ERR_SYSTEM, "system", 1},
        {ERR_NOSPACE, "no-space", 1}, {ERR_UNREACHABLE, "unreachable", 1},
        {ERR_STALLED, "stalled", 1},  {ERR_DENIED, "denied", 1},
        {ERR_QUERY, "query", 1},      {ERR_CHANGED, "changed", 1},
        {ERR_DAMAGED, "damaged", 1},  {ERR_REFUSED, "refused", 4},
        {ERR_BUSY, "busy", 3},        {ERR_NOTHING, "nothing", 5},
        {ERR_UNWELL, "not-well", 6},  {ERR_ABORTED, "aborted", 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_string_equal(err_class_name(table[i].cls), table[i].name);
        assert_int_equal(err_class_of(table[i].name), table[i].cls);
        assert_int_equal(err_exit(table[i].cls), table[i].exit);
    }
    assert_int_equal(err_class_of("never heard of"), ERR_SYSTEM);
    assert_int_equal(err_class_of(NULL), ERR_SYSTEM);
}

/* ---- file ---- */

static char top[] = "/tmp/test_file.XXXXXX";
static int topfd = -1;

static int set_up(void **state)
{
    (void)state;
    struct err e = {0};
    if (!mkdtemp(top))
        return -1;
    topfd = file_dir(top, 0, 0, &e);
    return topfd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(topfd);
    return rmdir(top); /* fails if a test left anything behind */
}

static char *in_top(const char *name)
{
    return xasprintf("%s/%s", top, name);
}

static void put(const char *name, const void *data, size_t len, mode_t mode)
{
    int fd = openat(topfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, data, len), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void expect_content(const char *name, const char *want)
{
    struct buf b = {0};
    struct err e = {0};
    if (file_read(topfd, name, 100000, &b, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(b.p, want);
    buf_free(&b);
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(topfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode;
}

static bool there(const char *name)
{
    return faccessat(topfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void drop(const char *name)
{
    assert_int_equal(file_remove(topfd, name, NULL), 0);
}

static char *temp_name(const char *name, pid_t pid)
{
    return xasprintf(".%s.%d.new", name, (int)pid);
}

static bool temp_there(const char *name)
{
    char *temp = temp_name(name, getpid());
    bool yes = there(temp);
    free(temp);
    return yes;
}

static void test_publish_and_commit(void **state)
{
    (void)state;
    mode_t old = umask(0077);
    assert_int_equal(file_publish(topfd, "status", "one", 3, 0644, NULL), 0);
    assert_int_equal(mode_of("status") & 07777, 0644);
    umask(0);
    assert_int_equal(file_commit(topfd, "data", "two", 3, 0600, NULL), 0);
    assert_int_equal(mode_of("data") & 07777, 0600);
    umask(old);
    expect_content("status", "one");
    assert_int_equal(file_publish(topfd, "status", "", 0, 0644, NULL), 0);
    expect_content("status", "");
    assert_false(temp_there("status"));
    assert_false(temp_there("data"));
    drop("status");
    drop("data");
}

static ino_t number_of(const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(topfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_ino;
}

static void republish(const char *text)
{
    struct err e = {0};
    assert_int_equal(file_republish(topfd, "status", text, strlen(text), 0644, &e), 0);
    assert_int_equal(mode_of("status"), S_IFREG | 0644);
    expect_content("status", text);
}

/* Two files take turns; one that somebody reads is left alone, until he has done. */
static void test_republish(void **state)
{
    (void)state;
    char seen[16] = "";
    republish("first, the longest of all");
    ino_t first = number_of("status");
    republish("second");
    char *temp = temp_name("status", getpid());
    assert_int_equal(mode_of(temp), S_IFREG | 0600); /* a web server does not know what it is */
    free(temp);
    ino_t second = number_of("status");
    assert_true(second != first);
    republish("third");
    assert_int_equal(number_of("status"), first);
    republish("fourth");
    assert_int_equal(number_of("status"), second);
    int reader = openat(topfd, "status", O_RDONLY);
    republish("fifth");
    assert_int_equal(number_of("status"), first);
    republish("sixth"); /* into neither of the two */
    assert_true(number_of("status") != first && number_of("status") != second);
    assert_int_equal(read(reader, seen, sizeof seen), 6);
    assert_memory_equal(seen, "fourth", 6);
    close(reader);
    assert_int_equal(file_sweep(topfd, "status", NULL), 0);
    assert_false(temp_there("status"));
    drop("status");
}

/* Whatever was put at either name is neither written to nor kept. */
static void test_plants_are_not_republished(void **state)
{
    (void)state;
    char *temp = temp_name("status", getpid());
    put("victim", "precious", 8, 0644);
    for (int i = 0; i < 4; i++) {
        const char *at = i % 2 ? temp : "status";
        republish("one");
        republish("two");
        assert_int_equal(unlinkat(topfd, at, 0), 0);
        assert_int_equal(
            i < 2 ? symlinkat("victim", topfd, at) : linkat(topfd, "victim", topfd, at, 0), 0);
        republish("three");
        republish("four");
        expect_content("victim", "precious");
    }
    assert_int_equal(unlinkat(topfd, temp, 0), 0);
    assert_int_equal(mkfifoat(topfd, temp, 0644), 0);
    republish("five");
    drop("status");
    drop("victim");
    file_sweep(topfd, "status", NULL);
    free(temp);
}

/* The same for what else may stand at either name: another file's second name, or a FIFO, which
 * would keep who opens it waiting. */
static void test_plants_are_replaced(void **state)
{
    (void)state;
    put("victim", "precious", 8, 0600);
    char *temp = temp_name("data", getpid());
    assert_int_equal(linkat(topfd, "victim", topfd, "data", 0), 0);
    assert_int_equal(linkat(topfd, "victim", topfd, temp, 0), 0);
    assert_int_equal(file_commit(topfd, "data", "one", 3, 0600, NULL), 0);
    drop("data");
    assert_int_equal(mkfifoat(topfd, "data", 0666), 0);
    assert_int_equal(mkfifoat(topfd, temp, 0666), 0);
    assert_int_equal(file_commit(topfd, "data", "two", 3, 0600, NULL), 0);
    assert_int_equal(mode_of("data"), S_IFREG | 0600);
    expect_content("data", "two");
    expect_content("victim", "precious");
    drop("data");
    drop("victim");
    free(temp);
}

/* A planted link is replaced; what it points to stays. The same for the temporary name. */
static void test_links_are_replaced(void **state)
{
    (void)state;
    put("victim", "precious", 8, 0600);
    assert_int_equal(symlinkat("victim", topfd, "status"), 0);
    char *temp = temp_name("status", getpid());
    assert_int_equal(symlinkat("victim", topfd, temp), 0);
    free(temp);
    assert_int_equal(file_publish(topfd, "status", "UP\n", 3, 0644, NULL), 0);
    assert_true(S_ISREG(mode_of("status")));
    expect_content("status", "UP\n");
    expect_content("victim", "precious");
    drop("status");
    drop("victim");
}

/* Of a killed process that had our number. */
static void test_stale_temporary(void **state)
{
    (void)state;
    char *temp = temp_name("data", getpid());
    put(temp, "half of somethi", 15, 0400);
    assert_int_equal(file_commit(topfd, "data", "whole", 5, 0600, NULL), 0);
    assert_false(there(temp));
    expect_content("data", "whole");
    drop("data");
    free(temp);
}

/* Only what file_publish and file_commit left, and only when nobody is writing it. */
static void test_sweep(void **state)
{
    (void)state;
    static const char *const foreign_files[] = {
        ".new",       "..new",     ".1.new",   ".a.new",  "a.1.new",   ".a1.new",
        ".a.1.newer", ".a.x1.new", ".a.0.new", ".a..new", ".a.-1.new", ".a.9999999999.new"};
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    char *dead = temp_name("data", gone), *other = temp_name("data.json", gone);
    char *own = temp_name("data", getpid()), *alive = temp_name("data", getppid());
    char *const temps[] = {dead, other, own, alive};
    for (size_t i = 0; i < 4; i++)
        put(temps[i], "x", 1, 0600);
    for (size_t i = 0; i < sizeof foreign_files / sizeof *foreign_files; i++)
        put(foreign_files[i], "x", 1, 0600);
    assert_int_equal(file_sweep(topfd, "data", NULL), 0);
    assert_true(!there(dead) && !there(own) && there(other) && there(alive));
    assert_int_equal(file_sweep(topfd, NULL, NULL), 0);
    assert_true(!there(other) && there(alive));
    for (size_t i = 0; i < sizeof foreign_files / sizeof *foreign_files; i++) {
        if (!there(foreign_files[i]))
            fail_msg("%s was swept", foreign_files[i]);
        drop(foreign_files[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        drop(temps[i]);
        free(temps[i]);
    }
}

/* A write that fails leaves the old content and no temporary file. */
static void test_failed_write(void **state)
{
    (void)state;
    char *big = xcalloc(100000, 1);
    struct rlimit was, small;
    struct err e = {0};
    assert_int_equal(file_commit(topfd, "data", "old", 3, 0600, NULL), 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    small = (struct rlimit){4096, was.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    int commit = file_commit(topfd, "data", big, 100000, 0600, &e);
    int publish = file_publish(topfd, "data", big, 100000, 0600, NULL);
    setrlimit(RLIMIT_FSIZE, &was);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(commit, -1);
    assert_int_equal(publish, -1);
    assert_string_equal(e.text, "cannot write data: File too large");
    expect_content("data", "old");
    assert_false(temp_there("data"));
    drop("data");
    free(big);
}

static void test_name_is_a_directory(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(mkdirat(topfd, "data", 0700), 0);
    assert_int_equal(file_commit(topfd, "data", "x", 1, 0600, &e), -1);
    assert_string_equal(e.text, "cannot replace data: Is a directory");
    assert_false(temp_there("data"));
    assert_int_equal(unlinkat(topfd, "data", AT_REMOVEDIR), 0);
}

static void test_disk_full(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, "x", 1), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(file_write_all(fd, "", 0), 0);
    close(fd);
}

static void test_rename_and_remove(void **state)
{
    (void)state;
    struct err e = {0};
    int sub = file_subdir(topfd, "rejected", &e);
    assert_true(sub >= 0);
    assert_int_equal(mode_of("rejected") & 07777, 0700);
    int again = file_subdir(topfd, "rejected", &e);
    assert_true(again >= 0);
    close(again);
    put("a", "1", 1, 0600);
    put("b", "2", 1, 0600);
    assert_int_equal(file_rename(topfd, "a", topfd, "b", &e), 0);
    expect_content("b", "1");
    assert_int_equal(file_rename(topfd, "b", sub, "c", &e), 0);
    assert_false(there("b"));
    assert_int_equal(file_remove(sub, "c", &e), 0);
    assert_int_equal(file_remove(sub, "c", &e), 0);
    assert_int_equal(file_rename(topfd, "none", sub, "c", &e), -1);
    assert_string_equal(e.text, "cannot rename none to c: No such file or directory");
    assert_int_equal(file_remove(topfd, "rejected", &e), -1);
    close(sub);
    assert_int_equal(unlinkat(topfd, "rejected", AT_REMOVEDIR), 0);
}

static void test_dir(void **state)
{
    (void)state;
    struct err e = {0};
    char *deep = in_top("a/b"), *a = in_top("a"), *link = in_top("l"), *none = in_top("none");
    int fd = file_dir(deep, 1, 0700, &e);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(mode_of("a/b") & 07777, 0700);
    assert_int_equal(symlink("a", link), 0);
    assert_int_equal(file_dir(link, 0, 0, &e), -1);
    char *is_link = xasprintf("directory %s is a symbolic link", link);
    assert_string_equal(e.text, is_link);
    assert_true(e.hint[0]);
    free(is_link);
    assert_int_equal(file_dir(none, 0, 0, &e), -1);
    assert_int_equal(e.num, ENOENT);
    assert_int_equal(chmod(a, 0775), 0);
    assert_int_equal(file_dir(a, 0, 0, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    char *text = xasprintf("directory %s is writable by other users (mode 0775)", a);
    assert_string_equal(e.text, text);
    free(text);
    assert_int_equal(chmod(a, 01777), 0);
    assert_int_equal(file_dir(a, 0, 0, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    fd = file_dir(a, FILE_PUBLIC, 0, &e);
    assert_true(fd >= 0);
    close(fd);
    unlink(link);
    rmdir(deep);
    rmdir(a);
    free(deep);
    free(a);
    free(link);
    free(none);
}

/* Runs as nobody what only root can set up; as anybody else there is nothing to try. */
static int as_nobody(int (*what)(void))
{
    if (geteuid() != 0)
        return 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(seteuid(65534) == 0 ? what() : 99);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static int try_foreign(void)
{
    struct err e = {0};
    char *mine = in_top("mine"), *foreign = in_top("foreign");
    int wrong = file_dir(mine, 0, 0, &e) < 0;
    wrong |= (file_dir(foreign, 0, 0, &e) != -1 || e.cls != ERR_REFUSED ||
              !strstr(e.text, "belongs to another user (uid 12345)") || !strstr(e.hint, "chown"))
             << 1;
    wrong |= (file_dir(foreign, FILE_PUBLIC, 0, &e) < 0) << 2;
    wrong |= (file_subdir(topfd, "foreign", &e) != -1 || e.cls != ERR_REFUSED) << 3;
    free(mine);
    free(foreign);
    return wrong;
}

/* "way/file", of which one belongs to somebody else. */
static int try_untrusted(void)
{
    struct err e = {0};
    char *path = in_top("way/file"), *far = in_top("far/file"), *good = in_top("good");
    int wrong = file_open_trusted(path, &e) != -1 || e.cls != ERR_REFUSED ||
                !strstr(e.text, "way, on the way to ") || !strstr(e.text, "(uid 12345)");
    wrong |= (file_open_trusted(far, &e) != -1 || e.cls != ERR_REFUSED ||
              !strstr(e.text, "far/file belongs to another user (uid 12345)") ||
              !strstr(e.hint, "chown"))
             << 1;
    int fd = file_open_trusted(good, &e);
    wrong |= (fd < 0) << 2;
    free(path);
    free(far);
    free(good);
    return wrong;
}

/* What decides whom we trust is nobody else's, nor in a directory where somebody else could
 * replace it. */
static void test_trusted(void **state)
{
    (void)state;
    static const char *const names[] = {"way/file", "far/file", "good"};
    assert_int_equal(mkdirat(topfd, "way", 0755), 0);
    assert_int_equal(mkdirat(topfd, "far", 0755), 0);
    for (size_t i = 0; i < 3; i++) {
        int fd = openat(topfd, names[i], O_WRONLY | O_CREAT, 0644);
        assert_true(fd >= 0);
        close(fd);
    }
    if (geteuid() == 0) {
        assert_int_equal(fchownat(topfd, "way", 12345, 12345, 0), 0);
        assert_int_equal(fchownat(topfd, "far/file", 12345, 12345, 0), 0);
        assert_int_equal(fchmod(topfd, 0755), 0);
    }
    assert_int_equal(as_nobody(try_untrusted), 0);
    struct err e = {0};
    char *path = in_top("way/file");
    assert_int_equal(fchmodat(topfd, "way", 0777, 0), 0);
    assert_int_equal(file_open_trusted(path, &e), -1);
    assert_non_null(strstr(e.text, "is writable by other users (mode 0777)"));
    assert_int_equal(fchmodat(topfd, "way", 01777, 0), 0);
    int fd = file_open_trusted(path, &e);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(fchmodat(topfd, "way/file", 0666, 0), 0);
    assert_int_equal(file_open_trusted(path, &e), -1);
    assert_non_null(strstr(e.text, "writable by other users"));
    free(path);
    assert_int_equal(fchmod(topfd, 0700), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(unlinkat(topfd, names[i], 0), 0);
    assert_int_equal(unlinkat(topfd, "way", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(topfd, "far", AT_REMOVEDIR), 0);
}

/* A directory of somebody else's is no place for our files, whatever its mode is. */
static void test_of_another_owner(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(topfd, "mine", 0700), 0);
    assert_int_equal(mkdirat(topfd, "foreign", 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(fchownat(topfd, "mine", 65534, 65534, 0), 0);
        assert_int_equal(fchownat(topfd, "foreign", 12345, 12345, 0), 0);
        assert_int_equal(fchmod(topfd, 0755), 0);
    }
    assert_int_equal(as_nobody(try_foreign), 0);
    assert_int_equal(fchmod(topfd, 0700), 0);
    assert_int_equal(unlinkat(topfd, "mine", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(topfd, "foreign", AT_REMOVEDIR), 0);
}

static void test_subdir_is_closed_to_others(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(mkdirat(topfd, "alerts", 0700), 0);
    assert_int_equal(fchmodat(topfd, "alerts", 0777, 0), 0);
    int fd = file_subdir(topfd, "alerts", &e);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(mode_of("alerts") & 07777, 0700);
    assert_int_equal(unlinkat(topfd, "alerts", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat(".", topfd, "alerts"), 0);
    assert_int_equal(file_subdir(topfd, "alerts", &e), -1);
    assert_string_equal(e.text, "directory alerts is a symbolic link");
    drop("alerts");
}

/* Returns the size of a file of 3 bytes after file_open() with O_TRUNC has refused it. */
static off_t size_after_refusal(const char *name, struct err *e)
{
    struct stat st;
    assert_int_equal(file_open(topfd, name, O_RDWR | O_CREAT | O_TRUNC, e), -1);
    assert_int_equal(e->cls, ERR_REFUSED);
    assert_int_equal(fstatat(topfd, name, &st, 0), 0);
    return st.st_size;
}

/* A file that is refused keeps its content, and so does the other name of one that is replaced. */
static void test_a_refused_file_is_not_emptied(void **state)
{
    (void)state;
    struct err e = {0};
    struct stat st;
    int fd = openat(topfd, "part", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(file_write_all(fd, "abc", 3), 0);
    assert_int_equal(fchmod(fd, 0666), 0);
    assert_int_equal(size_after_refusal("part", &e), 3); /* others could have written it */
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(linkat(topfd, "part", topfd, "other", 0), 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(size_after_refusal("part", &e), 3); /* held by another process */
    assert_string_equal(e.text, "part is a file with another name too (a hard link)");
    close(fd);
    assert_true((fd = file_open(topfd, "part", O_RDWR | O_CREAT | O_TRUNC, &e)) >= 0);
    close(fd);
    assert_true(fstatat(topfd, "other", &st, 0) == 0 && st.st_size == 3 && st.st_nlink == 1);
    assert_true(fstatat(topfd, "part", &st, 0) == 0 && st.st_size == 0);
    assert_int_equal(linkat(topfd, "other", topfd, "link", 0), 0);
    assert_int_equal(file_open(topfd, "other", O_RDWR | O_TRUNC, &e), -1); /* not ours to create */
    assert_true(fstatat(topfd, "link", &st, 0) == 0 && st.st_size == 3);
    assert_int_equal(unlinkat(topfd, "link", 0), 0);
    assert_true((fd = file_open(topfd, "other", O_RDWR | O_TRUNC, &e)) >= 0);
    assert_true(fstat(fd, &st) == 0 && st.st_size == 0); /* ours alone: emptied */
    close(fd);
    drop("other");
    drop("part");
}

/* What is written in place (a lock) is a file of our own, and has one name. */
static void test_open_in_place(void **state)
{
    (void)state;
    struct err e = {0};
    mode_t old = umask(0);
    int fd = file_open(topfd, "lock", O_RDWR | O_CREAT, &e);
    umask(old);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(mode_of("lock") & 07777, 0600);
    assert_int_equal(linkat(topfd, "lock", topfd, "other", 0), 0);
    assert_int_equal(file_open(topfd, "lock", O_WRONLY, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_string_equal(e.text, "lock is a file with another name too (a hard link)");
    int held = openat(topfd, "other", O_RDONLY | O_CLOEXEC), theirs;
    assert_int_equal(flock(held, LOCK_EX), 0);
    assert_true((theirs = file_open(topfd, "lock", O_RDWR | O_CREAT, &e)) >= 0);
    assert_int_equal(flock(theirs, LOCK_EX | LOCK_NB), -1); /* it is the one that somebody holds */
    close(theirs);
    close(held);
    assert_true((fd = file_open(topfd, "lock", O_RDWR | O_CREAT, &e)) >= 0);
    struct stat st;
    assert_true(fstat(fd, &st) == 0 && st.st_nlink == 1);
    close(fd);
    drop("lock");
    assert_int_equal(symlinkat("other", topfd, "lock"), 0);
    assert_int_equal(file_open(topfd, "lock", O_RDWR | O_CREAT, &e), -1);
    assert_string_equal(e.text, "lock is a symbolic link");
    assert_string_equal(e.hint, "remove it: it will be created again");
    drop("lock");
    assert_int_equal(mkfifoat(topfd, "lock", 0600), 0);
    assert_int_equal(file_open(topfd, "lock", O_RDWR | O_CREAT, &e), -1);
    assert_string_equal(e.text, "lock is not a regular file");
    drop("lock");
    assert_int_equal(file_open(topfd, "lock", O_WRONLY, &e), -1);
    assert_int_equal(e.num, ENOENT);
    drop("other");
}

static void test_read(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err e = {0};
    assert_int_equal(file_read(topfd, "none", 10, &b, &e), -1);
    assert_int_equal(e.num, ENOENT);
    put("f", "0123456789", 10, 0600);
    buf_adds(&b, "before ");
    assert_int_equal(file_read(topfd, "f", 10, &b, &e), 0);
    assert_string_equal(b.p, "before 0123456789");
    assert_int_equal(file_read(topfd, "f", 9, &b, &e), -1);
    assert_int_equal(e.num, EFBIG);
    assert_string_equal(e.text, "f is larger than the limit of 9 bytes");
    assert_int_equal(symlinkat("f", topfd, "l"), 0);
    assert_int_equal(file_read(topfd, "l", 10, &b, &e), -1);
    assert_int_equal(e.num, ELOOP);
    assert_int_equal(mkfifoat(topfd, "p", 0600), 0);
    assert_int_equal(file_read(topfd, "p", 10, &b, &e), -1); /* and does not wait for a writer */
    assert_string_equal(e.text, "p is not a regular file");
    drop("f");
    drop("l");
    drop("p");
    buf_free(&b);
}

static int secret(const char *path, struct buf *b, struct err *e)
{
    buf_clear(b);
    return file_read_secret(path, b, e);
}

static void test_secret(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err e = {0};
    char *s = in_top("s"), *big = xcalloc(5000, 1);
    static const char *const forms[] = {"pass word", "pass word\n", "pass word\r\nsecond\n"};
    for (size_t i = 0; i < 3; i++) {
        put("s", forms[i], strlen(forms[i]), 0600);
        assert_int_equal(secret(s, &b, &e), 0);
        assert_string_equal(b.p, "pass word");
        assert_int_equal(b.len, 9);
    }
    static const mode_t open_modes[] = {0640, 0604, 0610, 0602};
    for (size_t i = 0; i < 4; i++) {
        put("s", "x", 1, open_modes[i]);
        assert_int_equal(secret(s, &b, &e), -1);
        assert_int_equal(e.cls, ERR_CONFIG);
        assert_true(text_starts(e.hint, "chmod 0600 "));
    }
    /* else half of it counted, or what an editor put before it */
    static const char *const no_text[] = {"\xef\xbb\xbfpass", "\xff\xfep\0a\0", "p\0ass", "\0\0\0"};
    static const size_t sizes[] = {7, 6, 5, 3};
    for (size_t i = 0; i < 4; i++) {
        put("s", no_text[i], sizes[i], 0600);
        assert_int_equal(secret(s, &b, &e), -1);
        assert_int_equal(e.cls, ERR_CONFIG);
        assert_non_null(strstr(e.text, " is not plain text"));
        assert_null(strstr(e.text, "ass"));
    }
    /* An empty password would be one that everybody knows, and nothing of it is left to be used. */
    static const char *const none[] = {"", "\n", "\r\n", "\npass\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        put("s", none[i], strlen(none[i]), 0600);
        assert_int_equal(secret(s, &b, &e), -1);
        assert_int_equal(e.cls, ERR_CONFIG);
        assert_non_null(strstr(e.text, "the first line of secret file "));
        assert_non_null(strstr(e.hint, "put the secret alone on the first line"));
        assert_null(b.p);
    }
    put("s", "pass\n\0", 6, 0600); /* behind its line anything may stand */
    assert_int_equal(secret(s, &b, &e), 0);
    assert_string_equal(b.p, "pass");
    memset(big, 'x', 5000);
    put("s", big, 5000, 0600);
    assert_int_equal(secret(s, &b, &e), -1);
    assert_int_equal(e.cls, ERR_CONFIG);
    drop("s");
    assert_int_equal(secret(s, &b, &e), -1);
    assert_int_equal(e.num, ENOENT);
    assert_int_equal(e.cls, ERR_CONFIG);
    buf_free(&b);
    free(s);
    free(big);
}

/* As a shell reads it: a blank in a path ends no word, and nothing in it is a command. */
static void test_hints_for_a_shell(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err e = {0};
    char *dir = in_top("my dir"), *file = in_top("my $(key)");
    char *dir_hint = xasprintf("chmod go-w '%s'", dir), *hint = xasprintf("chmod 0600 '%s'", file);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(file_dir(dir, 0, 0, &e), -1);
    assert_string_equal(e.hint, dir_hint);
    put("my $(key)", "x", 1, 0644);
    assert_int_equal(secret(file, &b, &e), -1);
    assert_string_equal(e.hint, hint);
    drop("my $(key)");
    assert_int_equal(rmdir(dir), 0);
    free(dir);
    free(file);
    free(dir_hint);
    free(hint);
    buf_free(&b);
}

static void test_credential(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err e = {0};
    unsetenv("CREDENTIALS_DIRECTORY");
    assert_int_equal(secret("credential:mysql", &b, &e), -1);
    assert_string_equal(e.text, "credential:mysql: $CREDENTIALS_DIRECTORY is not set");
    assert_int_equal(e.cls, ERR_CONFIG);
    setenv("CREDENTIALS_DIRECTORY", top, 1);
    put("mysql", "hush\n", 5, 0440); /* as systemd makes them */
    assert_int_equal(secret("credential:mysql", &b, &e), 0);
    assert_string_equal(b.p, "hush");
    assert_int_equal(secret("credential:other", &b, &e), -1);
    assert_int_equal(e.num, ENOENT);
    unsetenv("CREDENTIALS_DIRECTORY");
    drop("mysql");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest err_tests[] = {
        cmocka_unit_test(test_set_and_hint), cmocka_unit_test(test_sys),
        cmocka_unit_test(test_step),         cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_null_err),     cmocka_unit_test(test_classes),
    };
    const struct CMUnitTest file_tests[] = {
        cmocka_unit_test(test_publish_and_commit),
        cmocka_unit_test(test_republish),
        cmocka_unit_test(test_plants_are_not_republished),
        cmocka_unit_test(test_links_are_replaced),
        cmocka_unit_test(test_plants_are_replaced),
        cmocka_unit_test(test_stale_temporary),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_failed_write),
        cmocka_unit_test(test_name_is_a_directory),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_rename_and_remove),
        cmocka_unit_test(test_dir),
        cmocka_unit_test(test_trusted),
        cmocka_unit_test(test_of_another_owner),
        cmocka_unit_test(test_subdir_is_closed_to_others),
        cmocka_unit_test(test_open_in_place),
        cmocka_unit_test(test_a_refused_file_is_not_emptied),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_hints_for_a_shell),
        cmocka_unit_test(test_credential),
    };
    return cmocka_run_group_tests_name("err", err_tests, NULL, NULL) +
           cmocka_run_group_tests_name("file", file_tests, set_up, tear_down);
}
