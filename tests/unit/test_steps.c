/* Commands in hints, on lines of their own: which part of a hint is a command, and what is said of
 * it (steps.h). */
#include "base/steps.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(const char *hint, const char *prose, const char *does, const char *command,
                   const char *does2, const char *command2)
{
    SCOPED(steps_free) struct steps s = {0};
    steps_split(hint, &s);
    assert_string_equal(s.prose.p, prose);
    assert_int_equal(s.count, !command ? 0 : command2 ? 2 : 1);
    if (command) {
        assert_string_equal(s.list[0].does.p, does);
        assert_string_equal(s.list[0].command.p, command);
    }
    if (command2) {
        assert_string_equal(s.list[1].does.p, does2);
        assert_string_equal(s.list[1].command.p, command2);
    }
}

static void test_split(void **state)
{
    (void)state;
    expect("nothing", "nothing", NULL, NULL, NULL, NULL);
    expect("", "", NULL, NULL, NULL, NULL);
    expect("worldkeeper --check names the privilege; where it finds none, reload",
           "where it finds none, reload", "this command names the privilege", "worldkeeper --check",
           NULL, NULL);
    expect("for one lost: runuser -u worldkeeper -- worldkeeper --world s8 --restore; for a new "
           "round: "
           "worldkeeper --world s8 --init (then by name)",
           "", "for one lost", "runuser -u worldkeeper -- worldkeeper --world s8 --restore",
           "for a new round … (then by name)", "worldkeeper --world s8 --init");
    expect("correct that row, then worldkeeper --dump, and wait", "",
           "correct that row, then … and wait", "worldkeeper --dump", NULL, NULL);
    /* a value that the shell would split, with the separator in it, and a name that ends in
     * punctuation */
    expect("it comes back: worldkeeper --config '/a b/it'\\''s; x.ini' --restore=d-1 --at "
           "2026-11-22T21:03:10Z --table "
           "'pla net',fleet --force",
           "", "it comes back",
           "worldkeeper --config '/a b/it'\\''s; x.ini' --restore=d-1 --at 2026-11-22T21:03:10Z "
           "--table "
           "'pla net',fleet --force",
           NULL, NULL);
    /* a third one stays where it is */
    expect("worldkeeper --a does A; worldkeeper --b does B; worldkeeper --c does C",
           "worldkeeper --c does C", "this command does A", "worldkeeper --a",
           "this command does B", "worldkeeper --b");
    /* a command without its end is not one to paste, wherever the hint was cut */
    expect("restore it: worldkeeper --restore=/srv/a very/lo...",
           "restore it: worldkeeper --restore=/srv/a very/lo...", NULL, NULL, NULL, NULL);
    expect("restore it: worldkeeper --restore='/srv/a very/lo...; worldkeeper --list lists them",
           "restore it: worldkeeper --restore='/srv/a very/lo...", "this command lists them",
           "worldkeeper --list", NULL, NULL);
    expect("if the world is there: ALTER TABLE `s8`.`senti...; worldkeeper --list lists them",
           "if the world is there: ALTER TABLE `s8`.`senti...", "this command lists them",
           "worldkeeper --list", NULL, NULL);
    expect("see who ended it: journalctl -u worldkeeper@s8", "", "see who ended it",
           "journalctl -u worldkeeper@s8", NULL, NULL);
    expect("make room: df -h /var/lib/worldkeeper/s8; or keep fewer", "or keep fewer", "make room",
           "df -h /var/lib/worldkeeper/s8", NULL, NULL);
    expect("GRANT DROP ON `w1`.* TO 'k'@'%';; worldkeeper --list shows dumps", "", "",
           "GRANT DROP ON `w1`.* TO 'k'@'%';", "this command shows dumps", "worldkeeper --list");
    expect("worldkeeper --dump, then wait", "", "then wait", "worldkeeper --dump", NULL, NULL);
    expect(
        "if all are new: UPDATE `a`.`b` SET `c`=`c`+9; then: ALTER TABLE `a`.`b` AUTO_INCREMENT=9; "
        "else insert them again",
        "else insert them again", "if all are new", "UPDATE `a`.`b` SET `c`=`c`+9;", "then",
        "ALTER TABLE `a`.`b` AUTO_INCREMENT=9;");
    expect("if it is there: ALTER TABLE `a`.`b` ENGINE=MEMORY", "", "if it is there",
           "ALTER TABLE `a`.`b` ENGINE=MEMORY;", NULL, NULL);
    expect("SHOW PROCESSLIST shows it; x", "SHOW PROCESSLIST shows it; x", NULL, NULL, NULL, NULL);
    expect("a:b", "a:b", NULL, NULL, NULL, NULL);
    /* what a name contains is no command, and does not end one */
    expect("once you have read them: ALTER EVENT `a; GRANT ALL ON *.* TO g; b` ENABLE; then more",
           "then more", "once you have read them",
           "ALTER EVENT `a; GRANT ALL ON *.* TO g; b` ENABLE;", NULL, NULL);
    expect("its rows are lost: DROP TABLE `s`.`worldkeeper --init --force x`; worldkeeper --list",
           "its rows are lost: DROP TABLE `s`.`worldkeeper --init --force x`", "",
           "worldkeeper --list", NULL, NULL);
    expect("its rows are lost: DROP TABLE `s`.`a``; GRANT x TO y; ``: mv /a /b`;",
           "its rows are lost: DROP TABLE `s`.`a``; GRANT x TO y; ``: mv /a /b`;", NULL, NULL, NULL,
           NULL);
    expect("its rows are lost: DROP TABLE `s`.`a; GRANT x TO y; and so o...; worldkeeper --list",
           "its rows are lost: DROP TABLE `s`.`a; GRANT x TO y; and so o...", "",
           "worldkeeper --list", NULL, NULL);
    expect("its rows are lost: DROP TABLE `s`.`a; GRANT x TO y; and so o...",
           "its rows are lost: DROP TABLE `s`.`a; GRANT x TO y; and so o...", NULL, NULL, NULL,
           NULL);
    expect("ALTER TABLE `t` MODIFY `c` char DEFAULT (_utf8mb4'; worldkeeper --init; ') NOT NULL; "
           "the world's tables: worldkeeper --list",
           "ALTER TABLE `t` MODIFY `c` char DEFAULT (_utf8mb4'; worldkeeper --init; ') NOT NULL",
           "the world's tables", "worldkeeper --list", NULL, NULL);
    expect("it says \"a; worldkeeper --init\"; `a...; see `b; worldkeeper --demote; c`: mv /a",
           "it says \"a; worldkeeper --init\"; `a...; see `b; worldkeeper --demote; c`: mv /a",
           NULL, NULL, NULL, NULL);
    expect("it comes back: worldkeeper --restore='/srv/a`b'; worldkeeper --list", "",
           "it comes back", "worldkeeper --restore='/srv/a`b'", "", "worldkeeper --list");
    expect("man worldkeeper-standby says more; worldkeeper does not",
           "man worldkeeper-standby says more; worldkeeper "
           "does not",
           NULL, NULL, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
