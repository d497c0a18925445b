/* The guard's state, explained without words that only worldkeeper uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "watch/explain.h"

static const char no_socket[] =
    "cannot connect: Can't connect to local server through socket '/run/x.sock' (2)",
                  lost[] = "Lost connection to server during query",
                  far[] = "cannot connect: Can't connect to server on 'db.example' (110)";

static void test_words(void **state)
{
    static const struct {
        enum guard_state state;
        enum guard_cause cause;
        int error;
        const char *reason, *said, *todo, *command;
    } cases[] = {
        {GUARD_WAITING, CAUSE_UNREACHABLE, 2002, no_socket, "The database server is not running",
         "start it", "systemctl status mariadb mysql"},
        {GUARD_WAITING, CAUSE_UNREACHABLE, 2013, lost, "The database server ended the connection",
         "Find out why", "systemctl status mariadb mysql"},
        {GUARD_WAITING, CAUSE_UNREACHABLE, 2003, far, "The database server cannot be reached",
         "Find out why", "systemctl status mariadb mysql"},
        {GUARD_SUSPECT, CAUSE_UNCONFIRMED, 0, "sentinel empty; seen 1 of 2 times",
         "The database server was restarted and the world is empty", "", ""},
        {GUARD_SUSPECT, CAUSE_DENIED, 1142, "SELECT command denied",
         "The database server refuses worldkeeper's account", "privilege", "worldkeeper --check"},
        {GUARD_SUSPECT, CAUSE_DENIED, 1040, "Too many connections",
         "The database server has no free connection", "max_connections",
         "mysql -e 'SHOW FULL PROCESSLIST'"},
        {GUARD_SUSPECT, CAUSE_DENIED, 0, "another supervisor watches this world: connection 7",
         "Another supervisor watches this world", "Stop one", ""},
        {GUARD_WAITING, CAUSE_MISSING, 1049, "schema not there (error 1049)",
         "The database of the world and its tables do not exist", "restore the world",
         "worldkeeper --restore"},
        {GUARD_WAITING, CAUSE_MISSING, 1146, "sentinel table not there (error 1146), no table …",
         "The tables of the world are missing or empty", "restore the world",
         "worldkeeper --restore"},
        {GUARD_WAITING, CAUSE_FAILED, 1114, "restore failed: table is full", "The restore failed",
         "raise max_heap_table_size. The restore is retried", "worldkeeper --list"},
        {GUARD_UP, CAUSE_ALIVE, 0, "sentinel there", "The world is up", "", ""},
    };
    struct config c = {.restore_auto = true};
    struct explanation e;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct guard g = {.state = cases[i].state, .cause = cases[i].cause};
        snprintf(g.reason, sizeof g.reason, "%s", cases[i].reason);
        explain(&g, &c, cases[i].error, "raise max_heap_table_size", &e);
        assert_string_equal(e.cause, cases[i].said);
        assert_true(cases[i].todo[0] ? strstr(e.todo, cases[i].todo) != NULL : !e.todo[0]);
        assert_string_equal(e.command, cases[i].command);
    }
}

/* Only what is known of a loss is said: another server was not restarted. */
static void test_loss(void **state)
{
    static const char *const said[2][2] = {
        {"The database server was restarted and the world is empty",
         "The database server was restarted and the tables of the world do not exist"},
        {"The world is empty, on another database server than before",
         "This is another database server than before, without the tables of the world"}};
    struct config c = {.restore_auto = true};
    struct explanation e;
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct guard g = {.state = GUARD_LOST,
                          .cause = CAUSE_LOSS,
                          .loss_elsewhere = i / 2,
                          .loss_missing = i % 2};
        explain(&g, &c, 0, "", &e);
        assert_string_equal(e.cause, said[i / 2][i % 2]);
        g.cause = CAUSE_BACKOFF;
        explain(&g, &c, 0, "", &e);
        assert_true(text_starts(e.cause, said[i / 2][i % 2]));
        assert_non_null(strstr(e.cause, ", and the restore failed"));
    }
}

/* The journal's command for missing tables loses less than the general one. */
static void test_dropped(void **state)
{
    struct config c = {.restore_auto = true};
    struct guard g = {.state = GUARD_WAITING, .cause = CAUSE_MISSING, .reason = "detail"};
    struct explanation e;
    (void)state;
    explain(&g, &c, 1049,
            "if that was not intended, this brings it back as it was just before: worldkeeper "
            "--restore --at 2026-11-22T21:03:10Z",
            &e);
    assert_string_equal(e.command, "worldkeeper --restore --at 2026-11-22T21:03:10Z");
    assert_null(strstr(e.todo, "open condition"));
    /* one for single tables is refused while the world is missing, and a long one is not cut: the
     * general command is shown, and where the other one is */
    static const char *const others[] = {
        "this brings it back: worldkeeper --restore=s8-1 --at 2026-11-22T21:03:10Z --table a",
        "this brings it back: worldkeeper "
        "--restore=a-dump-whose-name-is-so-long-that-the-command-does-not-fit-into-its-array "
        "--force"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        explain(&g, &c, 1049, others[i], &e);
        assert_string_equal(e.command, "worldkeeper --restore");
        assert_non_null(strstr(e.todo, "open condition"));
    }
    /* only the command, and only one outside a name */
    g.rows_there = true;
    explain(&g, &c, 1049,
            "this brings `x; worldkeeper --restore=/e` back: worldkeeper --restore=s8-1 --table a; "
            "that is only 1 of 9 tables; this loads all: worldkeeper --restore=s8-1 --into SCHEMA",
            &e);
    assert_string_equal(e.command, "worldkeeper --restore=s8-1 --table a");
}

/* No state names, verdicts or counts; each cause has a sentence, and what to do ends with a
 * period. */
static void test_each_cause(void **state)
{
    static const char *const inner[] = {"sentinel", "SUSPECT", "WAITING",
                                        "LOST",     "probe",   "verdict"};
    (void)state;
    for (enum guard_cause cause = CAUSE_START; cause <= CAUSE_STOP; cause++) {
        struct guard g = {.state = GUARD_WAITING, .cause = cause, .reason = "detail"};
        struct config c = {.restore_auto = false};
        struct explanation e;
        explain(&g, &c, 0, "", &e);
        size_t n = strlen(e.cause), m = strlen(e.todo);
        assert_true(n > 10 && e.cause[n - 1] != '.');
        assert_true(m == 0 || e.todo[m - 1] == '.');
        assert_null(strstr(e.todo, "restored automatically if"));
        assert_true(!e.command[0] || m > 0);
        for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
            assert_true(!strstr(e.cause, inner[i]) && !strstr(e.todo, inner[i]));
    }
}

/* What is to be done on the server's machine says so. */
static void test_another_machine(void **state)
{
    struct config c = {.restore_auto = true, .mysql = {.host = (char *)(uintptr_t) "db.example"}};
    struct guard g = {.state = GUARD_WAITING, .cause = CAUSE_UNREACHABLE, .reason = "detail"};
    struct explanation e;
    (void)state;
    explain(&g, &c, 2003, "", &e);
    assert_ptr_equal(strstr(e.todo, "On db.example: Find out"), e.todo);
    assert_string_equal(e.command, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),           cmocka_unit_test(test_loss),
        cmocka_unit_test(test_dropped),         cmocka_unit_test(test_each_cause),
        cmocka_unit_test(test_another_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
