/* Commands in hints: complete, ready to paste, and run as the right user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/hint_command.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static char name[] = "s8", etc[] = "/etc/worldkeeper/s8.ini", odd[] = "/no/where/my world's.ini",
            root_dir[] = "/";
static struct config cfg = {.name = name, .path = etc, .dump_dir = root_dir};

/* Root is told to type for the package's user, where that is there. */
static const char *prefix(void)
{
    return geteuid() == 0 && getpwnam("worldkeeper") ? "runuser -u worldkeeper -- " : "";
}

static void expect(char *path, const char *hint, const char *before, const char *command,
                   const char *after)
{
    struct buf b = {0};
    cfg.path = path;
    char *wanted = xasprintf("%s%s%s%s", before, command[0] ? prefix() : "", command, after);
    hint_command(&cfg, HINT_HERE, hint, &b);
    assert_string_equal(b.p, wanted);
    free(wanted);
    buf_free(&b);
}

static void test_hint(void **state)
{
    (void)state;
    expect(etc, "worldkeeper --init creates it", "", "worldkeeper --world s8",
           " --init creates it");
    expect(etc, "find it; or worldkeeper --init --force", "find it; or ", "worldkeeper --world s8",
           " --init --force");
    expect(odd, "worldkeeper --list", "", "worldkeeper --config '/no/where/my world'\\''s.ini'",
           " --list");
    expect(NULL, "worldkeeper --list", "worldkeeper --list", "", "");
    expect(etc, "worldkeeper --help lists them", "worldkeeper --help lists them", "", "");
    expect(etc, "worldkeeper --world s8 --list", "worldkeeper --world s8 --list", "", "");
    expect(etc, "runuser -u worldkeeper -- worldkeeper --world s8 --list",
           "runuser -u worldkeeper -- worldkeeper --world s8 --list", "", "");
    expect(etc, "see worldkeeper(8)", "see worldkeeper(8)", "", "");
    expect(etc, "", "", "", "");
}

/* What was made whole is not made so again: a user of the program's name stands before "--", too.
 */
static void test_twice(void **state)
{
    (void)state;
    struct buf once = {0}, twice = {0};
    cfg.path = etc;
    hint_command(&cfg, HINT_HERE, "worldkeeper --init creates it", &once);
    hint_command(&cfg, HINT_HERE, once.p, &twice);
    assert_string_equal(twice.p, once.p);
    buf_free(&once);
    buf_free(&twice);
}

/* Who reads a mail is no user of the service; a supervisor of root's needs nobody else. */
static void test_mail(void **state)
{
    (void)state;
    struct buf b = {0};
    const struct passwd *me = getpwuid(geteuid());
    cfg.path = etc;
    hint_command(&cfg, HINT_ROOT, "worldkeeper --check says more", &b);
    char *wanted =
        geteuid() == 0 || !me
            ? xstrdup("worldkeeper --world s8 --check says more")
            : xasprintf("runuser -u %s -- worldkeeper --world s8 --check says more", me->pw_name);
    assert_string_equal(b.p, wanted);
    free(wanted);
    buf_free(&b);
}

/* The service reads one place; a config elsewhere is none of its. */
static void test_start(void **state)
{
    (void)state;
    cfg.path = etc;
    char *start = hint_start(&cfg);
    assert_string_equal(start, "systemctl start worldkeeper@s8");
    free(start);
    cfg.path = odd;
    start = hint_start(&cfg);
    char *wanted =
        xasprintf("%sworldkeeper --config '/no/where/my world'\\''s.ini' --run", prefix());
    assert_string_equal(start, wanted);
    free(wanted);
    free(start);
}

static void test_user(void **state)
{
    (void)state;
    char *user = hint_user(&cfg);
    const struct passwd *me = getpwuid(geteuid());
    if (geteuid() != 0 && me)
        assert_string_equal(user, me->pw_name);
    else if (geteuid() == 0)
        assert_string_equal(user, getpwnam("worldkeeper") ? "worldkeeper" : "USER");
    free(user);
}

static void test_shell(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"/var/lib/world-8_a.b", "/var/lib/world-8_a.b"},
                                           {"", "''"},
                                           {"two words", "'two words'"},
                                           {"$HOME", "'$HOME'"},
                                           {"~root", "'~root'"},
                                           {"a'b", "'a'\\''b'"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = {0};
        buf_shell(&b, cases[i][0]);
        assert_string_equal(b.p, cases[i][1]);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hint),  cmocka_unit_test(test_twice), cmocka_unit_test(test_mail),
        cmocka_unit_test(test_start), cmocka_unit_test(test_user),  cmocka_unit_test(test_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
