/* worldkeeper-setup: from answers to names, the config and the server's options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "setup/draft.h"
#include "setup/talk.h"

/* ---- names ---- */

static void test_names(void **state)
{
    static const char *const names[][2] = {
        {"galaxy", "galaxy"},
        {"Galaxy_7", "galaxy_7"},
        {"my game", "my-game"},
        {"a  b", "a-b"},
        {"--x", "x"},
        {"_x", "x"},
        {"x--", "x"},
        {"7", "7"},
        {"", "world"},
        {"###", "world"},
        {"játék", "jtk"},
        {"a.b;c", "a-b-c"},
        {"abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz012345"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *name = draft_name(names[i][0]);
        assert_string_equal(name, names[i][1]);
        char *again = draft_name(name); /* a name of a world stays as it is */
        assert_string_equal(again, name);
        free(name);
        free(again);
    }
}

static void test_service(void **state)
{
    static const char *const of[][2] = {
        {"0::/system.slice/mariadb.service\n", "mariadb"},
        {"0::/system.slice/mysql@two.service/init\n", "mysql@two"},
        {"4:memory:/system.slice/mysql.service\n1:name=systemd:/system.slice/mysql.service\n",
         "mysql"},
        {"0::/system.slice/a;reboot.service\n", NULL},
        {"0::/system.slice/.service\n", NULL},
        {"0::/system.slice/docker-12.scope\n", NULL},
        {"0::/user.slice/user-0.slice/session-2.scope\n", NULL},
        {"0::/user.slice/user-7.slice/user@7.service/system.slice/ssh.service\n", NULL},
        {"0::/system.slice/--force.service\n", NULL},
        {"0::/user.slice/user-7.slice/x:/system.slice/ssh.service\n", NULL},
        {"0::/user.slice/x:/system.slice/a.service\n1:pids:/system.slice/db.service\n", "db"},
        {"0::/\n", NULL},
        {"", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char *service = draft_service(of[i][0]);
        assert_int_equal(service != NULL, of[i][1] != NULL);
        if (service)
            assert_string_equal(service, of[i][1]);
        free(service);
    }
}

static void test_account(void **state)
{
    static const char *const names[][2] = {
        {"galaxy", "worldkeeper_galaxy"},
        {"abcdefghijklmnopqrst", "worldkeeper_abcdefghijklmnopqrst"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *name = draft_account(names[i][0]);
        assert_string_equal(name, names[i][1]);
        free(name);
    }
    char *one = draft_account("the_long_name_of_a_game_world_1"),
         *two = draft_account("the_long_name_of_a_game_world_2");
    assert_int_equal(strlen(one), 32);
    assert_memory_equal(one, "worldkeeper_the_long_na_", 24);
    assert_string_not_equal(one, two);
    free(one);
    free(two);
}

static void test_password(void **state)
{
    (void)state;
    unsigned char raw[DRAFT_PASSWORD_BYTES] = {0x00, 0xff, 0x3f};
    struct buf text = {.secret = true};
    draft_password(raw, &text);
    assert_string_equal(text.p, "AaPp77-AaAa00-AaAa00-AaAa00-AaAa00-AaAa00-AaAa00-AaAa00");
    buf_free(&text);
}

/* ---- the unit ---- */

static void test_unit_paths(void **state)
{
    static const char *const quoted[][2] = {
        {"/srv/a b", "ReadWritePaths=\"/srv/a b\"\n"},
        {"/srv/100%", "ReadWritePaths=\"/srv/100%%\"\n"},
        {"/srv/\"x\\", "ReadWritePaths=\"/srv/\\\"x\\\\\"\n"},
    };
    static const char *const hidden[][2] = {
        {"/tmp/mysql.sock", "PrivateTmp=yes"}, {"/var/tmp", "PrivateTmp=yes"},
        {"/home/www", "ProtectHome=yes"},      {"/root/d", "ProtectHome=yes"},
        {"/run/user/7/s", "ProtectHome=yes"},  {"/tmpfs/d", NULL},
        {"/run/mysqld/mysqld.sock", NULL},     {"/srv/home", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
        struct buf text = {0};
        draft_unit_path(quoted[i][0], &text);
        assert_string_equal(text.p, quoted[i][1]);
        buf_free(&text);
    }
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        const char *by = draft_hidden_by(hidden[i][0]);
        assert_string_equal(by ? by : "", hidden[i][1] ? hidden[i][1] : "");
    }
}

/* ---- the config ---- */

#define HEAD                                                                                       \
    "# World g. All keys, with their defaults: worldkeeper(8), and example.ini beside it.\n\n"

static struct draft smallest(void)
{
    return (struct draft){.name = xstrdup("g"),
                          .schema = xstrdup("game"),
                          .socket = xstrdup("/s"),
                          .port = 3306,
                          .user = xstrdup("keeper"),
                          .dump_dir = xstrdup("/d")};
}

static void expect(struct draft *d, const char *text)
{
    struct buf b = {0};
    draft_config(d, &b);
    assert_string_equal(b.p, text);
    buf_free(&b);
    draft_free(d);
}

static void test_only_what_differs(void **state)
{
    (void)state;
    struct draft d = smallest();
    expect(&d, HEAD "[world]\nname = g\nschema = game\n\n[mysql]\nsocket = /s\nuser = keeper\n\n"
                    "[dump]\ndir = /d\n");
}

static void test_network_and_channels(void **state)
{
    (void)state;
    struct draft d = smallest();
    free(d.socket);
    d.socket = NULL;
    d.host = xstrdup("db");
    d.port = 3307;
    d.password_file = xstrdup("/p");
    d.status_dir = xstrdup("/w");
    d.page = true;
    d.mail_to = xstrdup("a@b");
    d.mail_from = xstrdup("w@b");
    d.mail_url = xstrdup("smtp://localhost");
    d.webhook_file = xstrdup("/h");
    d.webhook_format = xstrdup("slack");
    expect(&d, HEAD
           "[world]\nname = g\nschema = game\n\n[mysql]\nhost = db\nport = 3307\nuser = keeper\n"
           "password_file = /p\n\n[dump]\ndir = /d\n\n[status]\ndir = /w\npage = yes\n\n"
           "[alert.smtp]\nurl = smtp://localhost\nfrom = w@b\nto = a@b\nstarttls = preferred\n\n"
           "[alert.webhook]\nurl_file = /h\nformat = slack\n");
}

static void test_mail_of_this_machine(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool here;
    } cases[] = {{"smtp://127.0.0.1:2525", true},
                 {"smtp://[::1]:25", true},
                 {"smtp://localhost.example.net", false},
                 {"smtps://localhost", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct draft d = smallest();
        struct buf text = {0};
        d.mail_to = xstrdup("a@b, c@d");
        d.mail_from = xstrdup("w@b");
        d.mail_url = xstrdup(cases[i].url);
        draft_config(&d, &text);
        assert_non_null(strstr(text.p, "to = a@b, c@d\n"));
        assert_int_equal(strstr(text.p, "starttls = preferred") != NULL, cases[i].here);
        buf_free(&text);
        draft_free(&d);
    }
}

/* ---- the server's options ---- */

static const struct draft_server good = {.version = {true, 101119},
                                         .logs = true,
                                         .row_format = true,
                                         .full_image = true,
                                         .synced = true,
                                         .held = 86400,
                                         .trusts = true,
                                         .makes_code = true,
                                         .heap = 64u << 20,
                                         .largest = 1u << 20};

static void expect_options(const struct draft_server *s, const char *lines, const char *now,
                           bool restart)
{
    struct draft_options o;
    struct buf said = {0}, typed = {0};
    bool any = false;
    draft_server_options(s, &o);
    buf_adds(&said, "");
    buf_adds(&typed, "");
    for (size_t i = 0; i < o.count; i++) {
        buf_printf(&said, "%s\n", o.list[i].line);
        buf_printf(&typed, "%s", o.list[i].now ? o.list[i].now : "");
        any |= o.list[i].restart;
    }
    assert_string_equal(said.p, lines);
    assert_string_equal(typed.p, now);
    assert_int_equal(any, restart);
    buf_free(&said);
    buf_free(&typed);
    draft_options_free(&o);
}

static void test_options(void **state)
{
    (void)state;
    struct draft_server s = good;
    expect_options(&s, "", "", false);
    s.logs = false;
    expect_options(&s, "log_bin = binlog\n", "", true);
    s.row_format = false; /* of a log that is off nothing is set now */
    s.held = 0;
    expect_options(&s,
                   "log_bin = binlog\nbinlog_format = ROW\nbinlog_expire_logs_seconds = 259200\n",
                   "", true);
    s = good;
    s.row_format = false;
    s.held = 0;
    expect_options(&s, "binlog_format = ROW\nbinlog_expire_logs_seconds = 259200\n",
                   "SET @@GLOBAL.binlog_format=ROW;SET @@GLOBAL.binlog_expire_logs_seconds=259200;",
                   false);
    s.version = (struct server_version){true, 100523};
    s.row_format = true;
    expect_options(&s, "expire_logs_days = 3\n", "SET @@GLOBAL.expire_logs_days=3;", false);
    s = good;
    s.synced = false;
    expect_options(&s, "sync_binlog = 1\n", "SET @@GLOBAL.sync_binlog=1;", false);
    s.logs = false;
    expect_options(&s, "log_bin = binlog\nsync_binlog = 1\n", "", true);
    s = good;
    s.held = -1; /* not known */
    expect_options(&s, "", "", false);
    s.trusts = false;
    expect_options(&s, "log_bin_trust_function_creators = 1\n", "", false);
    s.makes_code = false;
    expect_options(&s, "", "", false);
    s.slow_rows = true; /* a small world is back within a second anyway */
    expect_options(&s, "", "", false);
    s.largest = 32u << 20;
    expect_options(&s, "local_infile = ON\n", "SET @@GLOBAL.local_infile=ON;", false);
}

static void test_room_for_tables(void **state)
{
    (void)state;
    struct draft_server s = good;
    s.heap = 16u << 20;
    s.largest = 12u << 20; /* three quarters */
    expect_options(&s, "", "", false);
    s.largest++;
    expect_options(&s, "max_heap_table_size = 33554432\n",
                   "SET @@GLOBAL.max_heap_table_size=33554432;", false);
    s.largest = 100u << 20;
    expect_options(&s, "max_heap_table_size = 268435456\n",
                   "SET @@GLOBAL.max_heap_table_size=268435456;", false);
    s.largest = UINT64_MAX; /* as a server may claim */
    expect_options(&s, "max_heap_table_size = 4611686018427387904\n",
                   "SET @@GLOBAL.max_heap_table_size=4611686018427387904;", false);
}

/* ---- its sentences ---- */

static void test_wrapped(void **state)
{
    static const struct {
        const char *lead, *line;
        size_t width;
        const char *shown;
    } cases[] = {
        {"", "", 10, ""},
        {"", "one two three", 13, "one two three"},
        {"", "one two three", 12, "one two\nthree"},
        {"  ", "one two three", 9, "  one two\n  three"},
        {"  -- ", "why it is so", 12, "  -- why it\n  -- is so"},
        {"", "/a/path/that/is/wide is", 9, "/a/path/that/is/wide\nis"},
        {"", "to /a/path/that/is/wide", 9, "to\n/a/path/that/is/wide"},
        {"", "áé íó úő", 5, "áé íó\núő"},
        {"", "a  b   c", 80, "a  b   c"},
        {"", "Go on? [Y/n]: ", 13, "Go on? [Y/n]: "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SCOPED(buf_free) struct buf b = {0};
        talk_wrap(&b, cases[i].lead, cases[i].line, cases[i].width);
        assert_string_equal(b.p, cases[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_service),
        cmocka_unit_test(test_account),
        cmocka_unit_test(test_password),
        cmocka_unit_test(test_unit_paths),
        cmocka_unit_test(test_only_what_differs),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_network_and_channels),
        cmocka_unit_test(test_mail_of_this_machine),
        cmocka_unit_test(test_room_for_tables),
        cmocka_unit_test(test_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
