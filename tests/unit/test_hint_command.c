/* Commands in hints: complete, ready to paste, and run as the right user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/hint_command.h"
#include "base/line.h"
#include "base/steps.h"
#include "sql/literal.h"
#include "supervisor/words.h"

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

/* ---- names that look like commands ---- */

/* A hint with a name: prose, the program's command and a statement, in the ways in which hints have
 * names; and its two commands, as they must come out. */
struct with_name {
    struct buf hint, commands[2];
};

static void with_name_free(struct with_name *w)
{
    buf_free(&w->hint);
    buf_free(&w->commands[0]);
    buf_free(&w->commands[1]);
}

static void compose(const char *table, struct with_name *out)
{
    struct follow_statement s = {.verb = "emptied", .count = 1, .tables[0].dump = "s8-1"};
    SCOPED(buf_free) struct buf undo = {0}, hint = {0};
    snprintf(s.tables[0].name, sizeof s.tables[0].name, "%s", table);
    statement_undo(&s, false, &undo);
    buf_adds(&hint, "if not intended, this brings table ");
    sql_ident(&hint, table);
    buf_printf(&hint, " of the world's back: %s; if it was lost: ", undo.p);
    buf_adds(&out->commands[1], "TRUNCATE TABLE ");
    sql_ident2(&out->commands[1], "s", table);
    buf_adds(&hint, out->commands[1].p);
    buf_addc(&out->commands[1], ';');
    hint_command(&cfg, HINT_ROOT, hint.p, &out->hint);
    /* Only the genuine command is completed. */
    char *genuine = strstr(undo.p, "worldkeeper --");
    hint_command(&cfg, HINT_ROOT, "worldkeeper --restore", &out->commands[0]);
    buf_adds(&out->commands[0], genuine + strlen("worldkeeper --restore"));
}

/* Asserts that the hint has no commands other than the two of the name, and that no text that is
 * shown with them has one. Returns their number. */
static size_t assert_genuine(const char *hint, const struct with_name *w)
{
    SCOPED(steps_free) struct steps s = {0}, inner = {0};
    steps_split(hint, &s);
    for (size_t i = 0; i < s.count; i++) {
        const char *command = s.list[i].command.p;
        if (strcmp(command, w->commands[0].p) != 0 && strcmp(command, w->commands[1].p) != 0)
            fail_msg("\"%s\" is offered by: %s", command, hint);
        steps_split(s.list[i].does.p, &inner);
        if (inner.count)
            fail_msg("\"%s\" is a command in: %s", inner.list[0].command.p, s.list[i].does.p);
        steps_free(&inner);
    }
    return s.count;
}

static void check_name(const char *table, bool cuts)
{
    SCOPED(with_name_free) struct with_name w = {0};
    compose(table, &w);
    /* What follows the mark of a cut text is uncertain, and then offered as prose. */
    size_t count = assert_genuine(w.hint.p, &w);
    if (count != 2 && !strstr(table, "..."))
        fail_msg("%zu commands in: %s", count, w.hint.p);
    /* No length at which a text is cut, and no text after that, makes a command of a name. */
    for (size_t room = 5; cuts && room < w.hint.len; room++) {
        SCOPED(xfree) char *cut = xcalloc(1, 2 * w.hint.len + 9), *both = NULL;
        line_set(cut, room, "%s", w.hint.p);
        assert_genuine(cut, &w);
        both = xasprintf("%s; %s", cut, w.hint.p);
        assert_genuine(both, &w);
    }
}

static void test_hostile_names(void **state)
{
    (void)state;
    static const char *const separators[] = {"; ",     ": ",     ", ",      " ",    "\n",
                                             ". ",     ";\n",    "x; ",     "x: ",  "...; ",
                                             "x...; ", "y; z: ", "\\",      "\\; ", "\\\\; ",
                                             "-- ",    "\t; ",   "x\n; y: "};
    static const char *const quotes[] = {"", "`", "'", "\"", "``", "''", "'\\''", "\\'", "`'\""};
    static const char *const commands[] = {"worldkeeper --restore=/tmp/e.sql --force",
                                           "worldkeeper --table 'x' --demote",
                                           "runuser -u root -- worldkeeper --init",
                                           "systemctl stop mariadb",
                                           "journalctl -u x",
                                           "ls -l /",
                                           "df -h /",
                                           "dmesg",
                                           "gunzip -c /x",
                                           "mv /a /b",
                                           "GRANT ALL ON *.* TO x",
                                           "ALTER TABLE x",
                                           "TRUNCATE x",
                                           "SET GLOBAL x=1",
                                           "SHOW TABLES"};
    cfg.path = etc;
    for (size_t i = 0; i < COUNT(separators); i++)
        for (size_t k = 0; k < COUNT(quotes); k++)
            for (size_t n = 0; n < COUNT(commands); n++) {
                SCOPED(xfree)
                char *before = xasprintf("%s%s%s", quotes[k], separators[i], commands[n]),
                     *around = xasprintf("%s%s%s%s", separators[i], commands[n], quotes[k],
                                         separators[i]);
                check_name(before, (i + k + n) % 11 == 0);
                check_name(around, (i + k + n) % 11 == 1);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hint),          cmocka_unit_test(test_twice),
        cmocka_unit_test(test_mail),          cmocka_unit_test(test_start),
        cmocka_unit_test(test_user),          cmocka_unit_test(test_shell),
        cmocka_unit_test(test_hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
