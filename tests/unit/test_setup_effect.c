/* worldkeeper-setup as root where others can write: links, FIFOs, and the terminal. */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "setup/effect.h"
#include "setup/talk.h"

static char top[] = "/tmp/wk-effect-XXXXXX";
static struct effects x;

static char *at(const char *name)
{
    return xasprintf("%s/%s", top, name);
}

/* TOP/theirs, in which others can write, has the link www to TOP/victim. */
static int begin(void **state)
{
    (void)state;
    strcpy(top + strlen(top) - 6, "XXXXXX");
    assert_non_null(mkdtemp(top));
    SCOPED(xfree) char *theirs = at("theirs"), *victim = at("victim"), *link = at("theirs/www"),
                       *record = at("g.setup");
    assert_int_equal(mkdir(theirs, 0777) | chmod(theirs, 0777) | mkdir(victim, 0755), 0);
    assert_int_equal(symlink("../victim", link), 0);
    x = (struct effects){.uid = geteuid(), .gid = getegid(), .user = "root", .program = -1};
    talk_open(true);
    assert_int_equal(made_open(&x.made, record, false, NULL), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    SCOPED(xfree) char *command = xasprintf("rm -r '%s'", top);
    made_free(&x.made);
    return system(command);
}

static void test_a_link_that_others_planted(void **state)
{
    struct err e = {0};
    (void)state;
    SCOPED(xfree) char *dir = at("theirs/www/status"), *file = at("theirs/www/file"),
                       *victim_dir = at("victim/status"), *victim_file = at("victim/file");
    assert_int_equal(effect_dir(&x, dir, 0755, true, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_int_equal(access(victim_dir, F_OK), -1);
    err_clear(&e);
    assert_int_equal(effect_file(&x, file, "text\n", 0644, true, false, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_int_equal(access(victim_file, F_OK), -1);
    err_clear(&e);
    assert_int_equal(effect_adopt(&x, file, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
}

/* Neither owner nor mode of what a link leads to are changed, wherever it leads. */
static void test_a_link_in_the_place_of_a_directory(void **state)
{
    struct err e = {0};
    struct stat st;
    (void)state;
    SCOPED(xfree) char *dir = at("theirs/d"), *nowhere = at("victim/nowhere");
    assert_int_equal(symlink("../victim/nowhere", dir), 0);
    assert_int_equal(effect_dir(&x, dir, 0755, true, &e), -1);
    assert_int_equal(lstat(dir, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(access(nowhere, F_OK), -1);
}

static void test_what_is_made(void **state)
{
    struct stat st;
    struct err e = {0};
    (void)state;
    SCOPED(xfree) char *dir = at("theirs/a/b"), *file = at("theirs/a/b/f");
    assert_int_equal(effect_dir(&x, dir, 0750, true, &e), 0);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(effect_file(&x, file, "text\n", 0640, true, false, &e), 1);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

/* Removed only as it was written: what somebody changed, or put in its place, stays. */
static void test_what_is_removed(void **state)
{
    struct err e = {0};
    (void)state;
    SCOPED(xfree) char *file = at("f"), *link = at("l"), *theirs = at("theirs/www/f");
    assert_int_equal(effect_file(&x, file, "text\n", 0644, false, false, &e), 1);
    assert_int_equal(strlen(made_sum(&x.made, MADE_FILE, file)), 64);
    assert_string_equal(made_sum(&x.made, MADE_FILE, link), "");
    FILE *f = fopen(file, "a");
    assert_non_null(f);
    assert_true(fputs("more\n", f) >= 0);
    int closed = fclose(f);
    assert_int_equal(closed, 0);
    const struct made none = {0};
    assert_int_equal(effect_remove(&x, &x.made, file, &e), 0);
    assert_int_equal(effect_remove(&x, &none, file, &e), 0);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(truncate(file, 5), 0);
    assert_int_equal(symlink(file, link), 0);
    assert_int_equal(effect_remove(&x, &x.made, link, &e), -1);
    assert_int_equal(access(link, F_OK), 0);
    err_clear(&e);
    assert_int_equal(effect_remove(&x, &x.made, theirs, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    err_clear(&e);
    assert_int_equal(effect_remove(&x, &x.made, file, &e), 1);
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(effect_remove(&x, &x.made, file, &e), 1);
}

static void write_text(const char *file, const char *text)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    int closed = fclose(f);
    assert_int_equal(closed, 0);
}

static void expect_text(const char *file, const char *text)
{
    SCOPED(buf_free) struct buf now = {0};
    assert_true(effect_is_own(&x, file, &now));
    assert_string_equal(now.p, text);
}

/* A file is replaced only as it was written, also if setup was killed before it replaced it; what
 * somebody changed stays. */
static void test_what_is_replaced(void **state)
{
    struct err e = {0};
    struct buf text = {0};
    (void)state;
    SCOPED(xfree) char *file = at("r");
    assert_int_equal(effect_file(&x, file, "one\n", 0644, false, false, &e), 1);
    assert_int_equal(effect_file(&x, file, "one\n", 0644, false, false, &e), 0);
    assert_int_equal(effect_file(&x, file, "two\n", 0644, false, false, &e), 1);
    expect_text(file, "two\n");
    write_text(file, "one\n"); /* as after a kill */
    assert_int_equal(effect_file(&x, file, "two\n", 0644, false, false, &e), 1);
    write_text(file, "one\n");
    assert_int_equal(effect_file(&x, file, "three\n", 0644, false, false, &e), 1);
    expect_text(file, "three\n");
    write_text(file, "theirs\n");
    assert_int_equal(effect_file(&x, file, "four\n", 0644, false, false, &e), 0);
    assert_false(effect_is_own(&x, file, &text));
    assert_int_equal(effect_remove(&x, &x.made, file, &e), 0);
    write_text(file, "three\n");
    assert_int_equal(effect_remove(&x, &x.made, file, &e), 1);
    assert_false(effect_is_own(&x, file, &text));
}

/* Nobody writes into it: to open it would take for ever. */
static void test_a_fifo(void **state)
{
    struct err e = {0};
    (void)state;
    SCOPED(xfree) char *fifo = at("theirs/fifo");
    assert_int_equal(mkfifo(fifo, 0666), 0);
    alarm(30);
    assert_int_equal(effect_file(&x, fifo, "text\n", 0644, true, false, &e), 0);
    assert_int_equal(effect_adopt(&x, fifo, &e), -1);
    alarm(0);
}

/* This program in the place of the daemon: 7 if it has a terminal into which it could type. */
static int as_keeper(void)
{
    return open("/dev/tty", O_RDWR) >= 0 || isatty(STDIN_FILENO) ? 7 : 5;
}

static void test_the_service_has_no_terminal_of_root(void **state)
{
    static const char *const options[] = {NULL};
    int master, status = 0;
    struct err e = {0};
    (void)state;
    pid_t pid = forkpty(&master, NULL, NULL, NULL);
    assert_true(pid >= 0);
    if (pid == 0) {
        x.program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
        _exit(effect_keeper(&x, "/c", options, &e));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(master);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--config") == 0)
        return as_keeper();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_link_that_others_planted, begin, end),
        cmocka_unit_test_setup_teardown(test_a_link_in_the_place_of_a_directory, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_made, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_removed, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_replaced, begin, end),
        cmocka_unit_test_setup_teardown(test_a_fifo, begin, end),
        cmocka_unit_test_setup_teardown(test_the_service_has_no_terminal_of_root, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
