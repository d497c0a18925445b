/* The config file: every kind of error with its exact text, every key and its default, the example
 * file, and random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "config/config.h"
#include "config/keys.h"
#include "dice_kit.h"

/* The least that is a config. What a test adds begins in line 9, in [dump]. */
#define BASE "[world]\nname = w\nschema = s\n[mysql]\nsocket = /run/s\nuser = u\n[dump]\ndir = /d\n"
#define SMTP BASE "[alert.smtp]\nurl = smtp://h\nfrom = a@b\nto = c@d\n"
#define TCP                                                                                        \
    "[world]\nname = w\nschema = s\n[dump]\ndir = /d\n[mysql]\nhost = db.example.net\nuser = u\n"
#define PROGRESS(host) BASE "[progress]\nhost = " host "\nuser = u\nlock_id = gs-a\n"
#define A50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static char dir[] = "/tmp/test_config.XXXXXX";
static char *path;

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    path = xasprintf("%s/world.ini", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    free(path);
    return rmdir(dir);
}

static void write_file(const void *data, size_t len, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, data, len), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static int load_bytes(const void *data, size_t len, struct config **c, struct err *e)
{
    write_file(data, len, 0600);
    return config_load(path, c, e);
}

static struct config *load(const char *text)
{
    struct config *c = NULL;
    struct err e = {0};
    if (load_bytes(text, strlen(text), &c, &e) < 0)
        fail_msg("%s", e.text);
    return c;
}

/* Loading must fail with exactly these words (behind the file's name) and touch nothing. */
static void expect_bytes(const void *data, size_t len, const char *text, const char *hint)
{
    struct config untouched, *c = &untouched;
    struct err e = {0};
    if (load_bytes(data, len, &c, &e) == 0)
        fail_msg("loaded, but expected: %s", text);
    assert_ptr_equal(c, &untouched);
    assert_int_equal(e.cls, ERR_CONFIG);
    assert_true(text_starts(e.text, path));
    assert_string_equal(e.text + strlen(path), text);
    assert_string_equal(e.hint, hint);
}

static void expect(const char *file, const char *text, const char *hint)
{
    expect_bytes(file, strlen(file), text, hint);
}

struct bad_case {
    const char *file, *text, *hint;
};

static void expect_all(const struct bad_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect(cases[i].file, cases[i].text, cases[i].hint);
}
#define EXPECT_ALL(cases) expect_all(cases, sizeof(cases) / sizeof *(cases))

/* ---- what is right ---- */

static void test_defaults(void **state)
{
    (void)state;
    struct config *c = load(BASE);
    assert_string_equal(c->path, path);
    assert_string_equal(c->name, "w");
    assert_string_equal(c->schema, "s");
    assert_string_equal(c->mysql.socket, "/run/s");
    assert_null(c->mysql.host);
    assert_int_equal(c->mysql.port, 3306);
    assert_string_equal(c->mysql.user, "u");
    assert_null(c->mysql.password_file);
    assert_int_equal(c->mysql.tls, TLS_PREFERRED);
    assert_int_equal(c->mysql.connect_timeout, 5000);
    assert_int_equal(c->mysql.read_timeout, 30000);
    assert_int_equal(c->probe_interval, 1000);
    assert_int_equal(c->probe_timeout, 2000);
    assert_int_equal(c->probe_confirm, 2);
    assert_string_equal(c->sentinel, "worldkeeper_sentinel");
    assert_string_equal(c->dump_dir, "/d");
    assert_int_equal(c->dump_interval, 15 * 60000);
    assert_int_equal(c->dump_stall, 60000);
    assert_int_equal(c->dump_method, METHOD_AUTO);
    assert_int_equal(c->dump_level, 1);
    assert_false(c->dump_all);
    assert_int_equal(c->shrink_limit, 50);
    assert_int_equal(c->retention.keep_last, 8);
    assert_int_equal(c->retention.keep_within, 24 * 3600000);
    assert_int_equal(c->retention.keep_hourly, 0);
    assert_int_equal(c->retention.keep_daily, 7);
    assert_int_equal(c->retention.keep_weekly, 4);
    assert_false(c->shrink_reject);
    assert_int_equal(c->retention.keep_before_shrink, 7 * 86400000);
    assert_null(c->progress.lock_id); /* nothing of it runs */
    config_free(c);
}

static void test_more_defaults(void **state)
{
    (void)state;
    struct config *c = load(BASE);
    assert_true(c->restore_auto);
    assert_false(c->restore_all);
    assert_false(c->restore_new_server);
    assert_false(c->restore_ends_none);
    assert_int_equal(c->restore_connections, 0);
    assert_int_equal(c->restore_stall, 60000);
    assert_int_equal(c->restore_lock_wait, 10000);
    assert_int_equal(c->journal, JOURNAL_AUTO);
    assert_int_equal(c->journal_lag_limit, 10000);
    assert_null(c->status_dir);
    assert_string_equal(c->flag_file, "index.html");
    assert_string_equal(c->json_file, "status.json");
    assert_null(c->metrics_file);
    assert_int_equal(c->alert_repeat, 15 * 60000);
    assert_int_equal(c->max_dump_age, 3600000);
    assert_true(c->disk_low == 1073741824);
    assert_int_equal(c->alert_events, EVENT_ALL);
    assert_null(c->smtp.url);
    assert_int_equal(c->smtp.to.count, 0);
    assert_int_equal(c->smtp.starttls, STARTTLS_REQUIRED);
    assert_int_equal(c->smtp.timeout, 30000);
    assert_null(c->webhooks[0].section);
    assert_null(c->heartbeat_url);
    assert_int_equal(c->heartbeat_timeout, 10000);
    assert_null(c->control_dir);
    config_free(c);
}

static void test_every_key(void **state)
{
    (void)state;
    struct config *c = load(
        TCP "port = 3307\npassword_file = credential:mysql\ntls = verify\ntls_ca = /ca.pem\n"
            "connect_timeout = 1s\nread_timeout = 1m\n"
            "[probe]\ninterval = 100ms\ntimeout = 100ms\nconfirm = 1\ntable = my `odd` t\xc3\xa4"
            "ble\n[dump]\ninterval = 1s\nmethod = copy\nlevel = 9\nengines = all\n"
            "shrink_limit = 100%\nshrink_action = reject\nstall = 2m\n"
            "[retention]\nkeep_last = 1\nkeep_within = 0\nkeep_hourly = 2\nkeep_daily = 0\n"
            "keep_weekly = 9\nkeep_before_shrink = 0\n[restore]\nauto = no\nscope = "
            "all\nconnections = 16\nstall = 5m\n"
            "lock_wait = 1s\nend_blockers = never\nnew_server = yes\n[journal]\nmode = off\n"
            "dir = /j\n"
            "[status]\ndir = /www//status/./\nflag = f\njson = j\nmetrics = m.prom\n"
            "[alert]\nrepeat = 1h\nevents = down , restored,disk\nmax_dump_age = 1s\n"
            "disk_low = 512MiB\n[control]\ndir = /run/c\n[progress]\nhost = 127.0.0.1\nuser = p\n"
            "port = 3308\npassword_file = /p\nschema = s2\nlock_id = gs-a\nengine = innodb\n"
            "write_back = 1m\nmax_rate = 500\n");
    assert_int_equal(c->mysql.port, 3307);
    assert_string_equal(c->mysql.password_file, "credential:mysql");
    assert_string_equal(c->mysql.tls_ca, "/ca.pem");
    assert_string_equal(c->sentinel, "my `odd` t\xc3\xa4"
                                     "ble");
    assert_int_equal(c->dump_method, METHOD_COPY);
    assert_int_equal(c->dump_level, 9);
    assert_true(c->dump_all);
    assert_int_equal(c->shrink_limit, 100);
    assert_int_equal(c->retention.keep_within, 0);
    assert_true(c->shrink_reject);
    assert_int_equal(c->retention.keep_before_shrink, 0);
    assert_false(c->restore_auto);
    assert_true(c->restore_all);
    assert_int_equal(c->restore_connections, 16);
    assert_true(c->restore_new_server);
    assert_int_equal(c->journal, JOURNAL_OFF);
    assert_string_equal(c->journal_dir, "/j");
    assert_true(c->restore_ends_none);
    assert_string_equal(c->status_dir, "/www/status");
    assert_string_equal(c->metrics_file, "m.prom");
    assert_int_equal(c->alert_events, EVENT_DOWN | EVENT_RESTORED | EVENT_DISK);
    assert_int_equal(c->max_dump_age, 1000);
    assert_true(c->disk_low == 512 * 1048576);
    assert_string_equal(c->control_dir, "/run/c");
    assert_int_equal(c->progress.server.port, 3308);
    assert_int_equal(c->progress.server.tls, TLS_PREFERRED);
    assert_int_equal(c->progress.server.connect_timeout, 1000);
    assert_string_equal(c->progress.server.password_file, "/p");
    assert_string_equal(c->progress.schema, "s2");
    assert_string_equal(c->progress.lock_id, "gs-a");
    assert_true(c->progress.innodb);
    assert_int_equal(c->progress.write_back, 60000);
    assert_int_equal(c->progress.max_rate, 500);
    config_free(c);
}

static void test_channels(void **state)
{
    (void)state;
    struct config *c =
        load(BASE "[alert.smtp]\nurl = smtps://mail.example.net:465\nfrom = wk@example.net\n"
                  "to = a@b , c@d,e@f\nuser = wk\npassword_file = /etc//p\nstarttls = off\n"
                  "tls_ca = /ca\ntimeout = 5s\n"
                  "[alert.webhook]\nurl = https://[::1]:8080/x?y=1;z#f\ntls_ca = /ca\n"
                  "format = slack\ntimeout = 1s\n[heartbeat]\nurl_file = credential:beat\n"
                  "timeout = 2s\n");
    assert_int_equal(c->smtp.to.count, 3);
    assert_string_equal(c->smtp.to.list[0], "a@b");
    assert_string_equal(c->smtp.to.list[1], "c@d");
    assert_string_equal(c->smtp.to.list[2], "e@f");
    assert_string_equal(c->smtp.password_file, "/etc/p");
    assert_int_equal(c->smtp.starttls, STARTTLS_OFF);
    assert_string_equal(c->webhooks[0].url, "https://[::1]:8080/x?y=1;z#f");
    assert_int_equal(c->webhooks[0].format, WEBHOOK_SLACK);
    assert_string_equal(c->heartbeat_url_file, "credential:beat");
    assert_int_equal(c->heartbeat_timeout, 2000);
    config_free(c);
}

static void test_tls_default(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        enum config_tls tls;
    } hosts[] = {{"db.example.net", TLS_VERIFY}, {"localhost", TLS_PREFERRED},
                 {"127.0.0.1", TLS_PREFERRED},   {"::1", TLS_PREFERRED},
                 {"192.0.2.1", TLS_VERIFY},      {"127.example.net", TLS_VERIFY}};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char *text = xasprintf("[world]\nname = w\nschema = s\n[dump]\ndir = /d\n[mysql]\n"
                               "user = u\nhost = %s\n",
                               hosts[i].host);
        struct config *c = load(text);
        assert_int_equal(c->mysql.tls, hosts[i].tls);
        config_free(c);
        free(text);
    }
    struct config *c = load(TCP "tls = off\ninsecure = yes\n");
    assert_int_equal(c->mysql.tls, TLS_OFF);
    config_free(c);
    c = load(TCP "insecure = yes\n"); /* encrypted at least */
    assert_int_equal(c->mysql.tls, TLS_REQUIRED);
    config_free(c);
}

/* What is not encrypted and proven over a network is named; on this machine it needs nothing. */
static void test_exposed(void **state)
{
    (void)state;
    static const struct {
        const char *file, *told;
    } cases[] = {
        {BASE "", NULL},
        {TCP "", NULL},
        {TCP "tls = off\ninsecure = yes\n", "[mysql] tls = off: "},
        {TCP "tls = required\ninsecure = yes\n", "[mysql] insecure = yes: "},
        {BASE "[alert.smtp]\nurl = smtp://localhost\nfrom = a@b\nto = c@d\nstarttls = off\n", NULL},
        {SMTP "starttls = preferred\ninsecure = yes\n", "[alert.smtp] insecure = yes: "},
        {PROGRESS("h") "tls = off\ninsecure = yes\n", "[progress] tls = off: "},
        {PROGRESS("h") "insecure = yes\n", "[progress] insecure = yes: "},
        {PROGRESS("h") "tls_ca = /ca\n", NULL},
        {PROGRESS("localhost") "tls = off\n", NULL},
        {BASE "[alert.webhook]\nurl = http://127.0.0.1:80/x\n", NULL},
        {BASE "[alert.webhook]\nurl = http://[::1]/x\n", NULL},
        {BASE "[alert.webhook]\nurl = http://h/x\ninsecure = yes\n", "[alert.webhook] insecure"},
        {BASE "[heartbeat]\nurl = HTTP://h/x\ninsecure = yes\n", "[heartbeat] insecure = yes: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config *c = load(cases[i].file);
        char *told = config_exposed(c, 0);
        if (!told != !cases[i].told || (told && !text_starts(told, cases[i].told)))
            fail_msg("%s: %s", cases[i].file, told ? told : "nothing");
        assert_null(config_exposed(c, told ? 1 : 0));
        free(told);
        config_free(c);
    }
}

static void test_host_of_a_url(void **state)
{
    (void)state;
    static const char *const here[] = {"http://localhost",   "http://LOCALHOST:1/x",
                                       "http://127.0.0.1?a", "http://[::1]:8/",
                                       "https://h",          "http://u:p@127.0.0.2/x@y"};
    static const char *const away[] = {"http://h",
                                       "http://localhost.example.net",
                                       "http://127.0.0.1@h/",
                                       "http://127.0.0.1.example.net/",
                                       "http://[::2]/",
                                       "HTTP://10.0.0.1",
                                       "http://"};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        assert_false(config_plain_to_others(here[i], "http"));
    for (size_t i = 0; i < sizeof away / sizeof *away; i++)
        assert_true(config_plain_to_others(away[i], "http"));
}

static void test_max_dump_age_follows_interval(void **state)
{
    (void)state;
    struct config *c = load(BASE "interval = 2h\n");
    assert_int_equal(c->max_dump_age, 8 * 3600000);
    config_free(c);
    c = load(BASE "interval = 2h\n[alert]\nmax_dump_age = 1m\n");
    assert_int_equal(c->max_dump_age, 60000);
    config_free(c);
}

/* Byte order mark, CRLF, no last line end, blanks around, ':' for '=', comments of both kinds. */
static void test_forms(void **state)
{
    (void)state;
    struct config *c =
        load("\xef\xbb\xbf# comment ; # \xff\r\n\r\n; comment\r\n[world]\r\nname:w \t\r\n"
             "schema =   my #1 game\r\n[mysql]\r\n  # indented comment\r\n \t\r\n"
             "socket=/run/s\r\nuser =;u;x\r\n[dump]\r\n[dump]\r\ndir = /a=b:c;d#e");
    assert_string_equal(c->name, "w");
    assert_string_equal(c->schema, "my #1 game");
    assert_string_equal(c->mysql.user, ";u;x");
    assert_string_equal(c->dump_dir, "/a=b:c;d#e");
    config_free(c);
}

/* A line of exactly the limit is read whole, the next one too. */
static void test_longest_line(void **state)
{
    (void)state;
    char *text = xasprintf(BASE "level = 3\n[status]\n#%198d\ndir = /%0192d\nflag = f\n", 0, 0);
    struct config *c = load(text);
    assert_int_equal(strlen(c->status_dir), 193);
    assert_string_equal(c->flag_file, "f");
    config_free(c);
    free(text);
}

/* ---- lines ---- */

static void test_bad_lines(void **state)
{
    (void)state;
    static const char late[] = "move what follows it to a line above, after ';'; a value cannot "
                               "hold ' ;'";
    static const char hash[] = "move what follows it to a line above, after '#'; a value cannot "
                               "hold ' #'";
    static const struct bad_case cases[] = {
        {BASE "  interval = 15m\n", ":9: an indented line; allowed: text from the first column on",
         "remove the leading blanks; a value cannot span several lines"},
        {BASE "\t[probe]\n", ":9: an indented line; allowed: text from the first column on",
         "remove the leading blanks; a value cannot span several lines"},
        {BASE "interval = 15m ; often\n",
         ":9: ' ;' after other text; allowed: a comment on its own line", late},
        {BASE "interval = ;15m\n", ":9: ' ;' after other text; allowed: a comment on its own line",
         late},
        {"[world]\nschema = a\t;b\n",
         ":2: ' ;' after other text; allowed: a comment on its own line", late},
        {BASE "inter ;val = 15m\n", ":9: ' ;' after other text; allowed: a comment on its own line",
         late},
        {"[world]\n[dump]\ndir = /srv/dumps # big disk\n",
         ":3: ' #' after other text; allowed: a comment on its own line", hash},
        {"[world] # mine\n", ":1: ' #' after other text; allowed: a comment on its own line", hash},
        {"[world] ; mine\n", ":1: ' ;' after other text; allowed: a comment on its own line", late},
        {"[world\nname = w\n", ":1: a section without ']'; allowed: [section]", ""},
        {"[world] name = w\n", ":1: text after a section; allowed: [section] alone on its line",
         ""},
        {BASE "secret words\n", ":9: neither [section] nor key = value nor a comment",
         "a comment begins with ; or # in the first column"},
        {BASE "= 15m\n", ":9: neither [section] nor key = value nor a comment",
         "a comment begins with ; or # in the first column"},
        {BASE "interval = 15m\rlevel = 1\n",
         ":9: control character (0x0d) in column 15; allowed: text in UTF-8",
         "save the file with LF or CRLF line ends"},
        {BASE "# \x1b[31m\n", ":9: control character (0x1b) in column 3; allowed: text in UTF-8",
         "is this a text file? Save it as UTF-8"},
        {"[world]\nschema = m\xe4rchen\n", ":2: not UTF-8; allowed: text in UTF-8",
         "save the file as UTF-8"},
        {"[world]\n# " A50 A50 A50 A50 "\n", ":2: a line of 202 bytes; allowed: at most 199",
         "the INI library has this limit: shorten the line"},
    };
    EXPECT_ALL(cases);
}

static void test_not_text(void **state)
{
    (void)state;
    static const char nul[] = BASE "interval\0 = 15m\n";
    expect_bytes(nul, sizeof nul - 1, ":9: NUL byte (0x00) in column 9; allowed: text in UTF-8",
                 "is this a text file? Save it as UTF-8");
    static const char utf16[] = "\xff\xfe[\0w\0";
    expect_bytes(utf16, sizeof utf16 - 1, ":1: NUL byte (0x00) in column 4; allowed: text in UTF-8",
                 "is this a text file? Save it as UTF-8");
    static const char elf[] = "\177ELF\2\1\1";
    expect_bytes(elf, sizeof elf - 1,
                 ":1: control character (0x7f) in column 1; allowed: text in UTF-8",
                 "is this a text file? Save it as UTF-8");
}

static void test_limit(void **state)
{
    (void)state;
    char *text = xasprintf(BASE "[status]\ndir = /%0193d\n", 0);
    expect(text, ":10: a line of 200 bytes; allowed: at most 199",
           "the INI library has this limit: shorten the line");
    free(text);
}

/* ---- sections and keys ---- */

static void test_unknown(void **state)
{
    (void)state;
    static const char sections[] =
        "[world], [mysql], [probe], [dump], [retention], [restore], [journal], [status], [drill], "
        "[verify], [alert], [alert.smtp], [alert.webhook], [alert.webhook.NAME], [heartbeat], "
        "[control], [progress], "
        "[offsite], [standby], [ledger NAME]";
    static const char keys[] =
        "dir, interval, method, level, engines, shrink_limit, shrink_action, stall, "
        "hmac_key_file, hmac_old_key_file";
    static const char mysql[] = "socket, host, port, user, password_file, tls, tls_ca, insecure, "
                                "connect_timeout, read_timeout";
    const struct {
        const char *file, *text, *allowed, *hint;
    } cases[] = {
        {"[dmup]\n", ":1: [dmup]: not a known section; allowed: ", sections,
         "did you mean [dump]?"},
        {"[zzzzzzzzzz]\n", ":1: [zzzzzzzzzz]: not a known section; allowed: ", sections, ""},
        {"[ world ]\n", ":1: [ world ]: not a known section; allowed: ", sections,
         "did you mean [world]?"},
        {"[alert.smpt]\n", ":1: [alert.smpt]: not a known section; allowed: ", sections,
         "did you mean [alert.smtp]?"},
        {"[]\n", ":1: []: not a known section; allowed: ", sections, ""},
        {"[ledger]\n", ":1: [ledger]: not a known section; allowed: ", sections,
         "did you mean [ledger NAME]?"},
        {BASE "intervall = 15m\n", ":9: [dump] intervall: not a known key; allowed: ", keys,
         "did you mean 'interval'?"},
        {BASE "Level = 1\n", ":9: [dump] Level: not a known key; allowed: ", keys,
         "did you mean 'level'?"},
        {BASE "keep_last = 1\n", ":9: [dump] keep_last: not a known key; allowed: ", keys,
         "'keep_last' belongs to [retention]"},
        {BASE "timeout = 1s\n", ":9: [dump] timeout: not a known key; allowed: ", keys,
         "'timeout' belongs to [probe], [alert.smtp], [alert.webhook], [heartbeat], [offsite]"},
        {BASE "xyzzy = 1\n", ":9: [dump] xyzzy: not a known key; allowed: ", keys, ""},
        {BASE "[mysql]\npassword = hunter2\n", ":10: [mysql] password: not a known key; allowed: ",
         mysql, "put the password in its own file (mode 0600) and name that file in password_file"},
        {"schema = s\n", ":1: schema: a key before the first [section]", "",
         "'schema' belongs to [world], [progress]"},
        {BASE "a\xc2\x9b"
              "31m = 1\n",
         ":9: [dump] a?31m: not a known key; allowed: ", keys, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = xasprintf("%s%s", cases[i].text, cases[i].allowed);
        expect(cases[i].file, text, cases[i].hint);
        free(text);
    }
}

#define LEDGER BASE "[ledger xp]\ntable = g\nkey = a\nvalue = v\ntime = t\n"

static void test_ledgers(void **state)
{
    (void)state;
    struct config *c =
        load(LEDGER "[ledger gold_2]\ntable = h\nkey = a, b\nvalue = v , w\ntime = t\n"
                    "id = n\nkeep = 90d\nrequest = r\nrequest_keep = 2h\n"
                    "levels = l\nrollup_after = 0\ninterval = 5m\n");
    const struct config_ledger *x = &c->ledgers[0], *g = &c->ledgers[1];
    assert_int_equal(c->ledger_count, 2);
    assert_string_equal(x->name, "xp");
    assert_string_equal(x->id, "id");
    assert_null(x->levels);
    assert_null(x->request);
    assert_int_equal(x->keep, 0);
    assert_int_equal(x->request_keep, 7 * 86400000);
    assert_int_equal(x->rollup_after, 86400000);
    assert_int_equal(x->interval, 3600000);
    assert_string_equal(g->name, "gold_2");
    assert_int_equal(g->key.count, 2);
    assert_string_equal(g->key.list[1], "b");
    assert_string_equal(g->value.list[0], "v");
    assert_string_equal(g->value.list[1], "w");
    assert_string_equal(g->id, "n");
    assert_string_equal(g->levels, "l");
    assert_string_equal(g->request, "r");
    assert_int_equal(g->keep, INT64_C(90) * 86400000);
    assert_int_equal(g->request_keep, 2 * 3600000);
    assert_int_equal(g->rollup_after, 0);
    assert_int_equal(g->interval, 300000);
    config_free(c);
}

static void test_bad_ledgers(void **state)
{
    (void)state;
    static const char add[] = "add this key; example.ini explains every key";
    static const struct bad_case cases[] = {
        {BASE "[ledger ]\n",
         ":9: [ledger NAME]: not a ledger's name; allowed: 1 to 40 of a-z, 0-9 and _", ""},
        {BASE "[ledger Xp]\n",
         ":9: [ledger NAME]: not a ledger's name; allowed: 1 to 40 of a-z, 0-9 and _", ""},
        {BASE "[ledger xp]\n[ledger xp]\n", ":10: [ledger xp]: given twice; allowed: once", ""},
        {BASE "[ledger xp]\n", ": missing: [ledger xp] table", add},
        {BASE "[ledger xp]\ntable = g\n", ": missing: [ledger xp] key", add},
        {BASE "[ledger xp]\ntable = g\nkey = a\n", ": missing: [ledger xp] value", add},
        {BASE "[ledger xp]\ntable = g\nkey = a\nvalue = v\n", ": missing: [ledger xp] time", add},
        {LEDGER "[ledger b]\ntable = g\nkey = a\nvalue = v\ntime = t\n",
         ": [ledger b] table = g: also the table of [ledger xp]; allowed: one ledger for each "
         "table",
         "[ledger xp] value accepts several columns"},
    };
    expect_all(cases, sizeof cases / sizeof *cases);
    static const char *const bad[] = {"key = a, a",   "key = a,,b",       "key = a,b,c,d,e,f,g,h,i",
                                      "keep = 90",    "keep = -1d",       "request_keep = 0",
                                      "interval = 0", "rollup_after = x", "xyz = 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct config *c = NULL;
        struct err e = {0};
        char *text = xasprintf(BASE "[ledger xp]\n%s\n", bad[i]);
        assert_int_equal(load_bytes(text, strlen(text), &c, &e), -1);
        assert_non_null(strstr(e.text, ":10: [ledger"));
        free(text);
    }
}

static void test_twice_missing_empty(void **state)
{
    (void)state;
    static const struct bad_case cases[] = {
        {BASE "level = 1\n[probe]\n[dump]\nlevel = 1\n",
         ":12: [dump] level: given twice; allowed: once", "the first one is in line 9"},
        {BASE "level =\n", ":9: [dump] level: no value", "to omit the key, put '#' before it"},
        {"",
         ": missing: [world] name, [world] schema, [mysql] socket or host, [mysql] user, "
         "[dump] dir",
         "add these keys; example.ini explains every key"},
        {"[world]\nname = w\nschema = s\n[mysql]\nhost = h\nuser = u\n", ": missing: [dump] dir",
         "add this key; example.ini explains every key"},
    };
    EXPECT_ALL(cases);
}

/* ---- values ---- */

static void test_bad_numbers(void **state)
{
    (void)state;
    static const char units[] = "units: ms, s, m, h, d, w; such as 15m or 1h30m";
    static const struct bad_case cases[] = {
        {BASE "interval = 15\n",
         ":9: [dump] interval: value '15' is not a duration with units; allowed: 1s to 52w",
         "write 15m (units: ms, s, m, h, d, w)"},
        {BASE "interval = 15 m\n",
         ":9: [dump] interval: value '15 m' is not a duration with units; allowed: 1s to 52w",
         "write 15m (units: ms, s, m, h, d, w)"},
        {BASE "interval = soon\n",
         ":9: [dump] interval: value 'soon' is not a duration with units; allowed: 1s to 52w",
         units},
        {BASE "interval = -1m\n",
         ":9: [dump] interval: value '-1m' is not a duration with units; allowed: 1s to 52w",
         units},
        {BASE "interval = 999ms\n",
         ":9: [dump] interval: value '999ms' is not long enough; allowed: 1s to 52w", ""},
        {BASE "interval = 53w\n",
         ":9: [dump] interval: value '53w' is not short enough; allowed: 1s to 52w", ""},
        {BASE "[probe]\ninterval = 99ms\n",
         ":10: [probe] interval: value '99ms' is not long enough; allowed: 100ms to 1h", ""},
        {BASE "[probe]\ntimeout = 0\n",
         ":10: [probe] timeout: value '0' is not long enough; allowed: 100ms to 1h", ""},
        {BASE "level = 0\n", ":9: [dump] level: value '0' is not in range; allowed: 1 to 9", ""},
        {BASE "level = 10\n", ":9: [dump] level: value '10' is not in range; allowed: 1 to 9", ""},
        {BASE "level = +1\n", ":9: [dump] level: value '+1' is not a whole number; allowed: 1 to 9",
         ""},
        {BASE "level = 99999999999999999999\n",
         ":9: [dump] level: value '99999999999999999999' is not a whole number; allowed: 1 to 9",
         ""},
        {BASE "shrink_limit = 50\n",
         ":9: [dump] shrink_limit: value '50' is not a percentage; allowed: 1% to 100%",
         "write 50%"},
        {BASE "shrink_limit = 101%\n",
         ":9: [dump] shrink_limit: value '101%' is not in range; allowed: 1% to 100%", ""},
        {BASE "shrink_limit = %\n",
         ":9: [dump] shrink_limit: value '%' is not a percentage; allowed: 1% to 100%", ""},
        {BASE "[restore]\nconnections = 17\n",
         ":10: [restore] connections: value '17' is not a number of connections; allowed: auto, or "
         "1 to 16",
         ""},
        {BASE "[alert]\ndisk_low = 5\n",
         ":10: [alert] disk_low: value '5' is not a size with a unit; allowed: 0, or a number with "
         "B, KiB, MiB, GiB, TiB, kB, MB, GB or TB",
         "write 5GiB"},
        {BASE "[alert]\ndisk_low = much\n",
         ":10: [alert] disk_low: value 'much' is not a size with a unit; allowed: 0, or a number "
         "with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB",
         "such as 1GiB"},
        {BASE "[journal]\nsegment = 64\n",
         ":10: [journal] segment: value '64' is not a size with a unit; allowed: a number with B, "
         "KiB, MiB, GiB, TiB, kB, MB, GB or TB",
         "write 64MiB"},
        {BASE "[offsite]\nmax_rate = 100000\n",
         ":10: [offsite] max_rate: value '100000' is not a size with a unit; allowed: 0, or a "
         "number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB",
         "such as 1MiB"},
        {BASE "[mysql]\nport = 65536\n",
         ":10: [mysql] port: value '65536' is not in range; allowed: 1 to 65535", ""},
        {BASE "[retention]\nkeep_last = 0\n",
         ":10: [retention] keep_last: value '0' is not in range; allowed: 1 to 100000", ""},
    };
    EXPECT_ALL(cases);
}

/* Fills the stack that the next call uses, so that it finds no other values there. */
static void fill_stack(char with)
{
    volatile char room[4096];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = with;
}

/* No unit is guessed for a value of more than 20 characters, whatever the stack has. */
static void test_no_long_guess(void **state)
{
    static const struct {
        const char *section, *name, *value, *hint;
    } cases[] = {
        {"dump", "interval", "1h 1h 1h 1h 1h 1h 1h 1h 1h 1h",
         "write 1h1h1h1h1h1h1h1h1h1h (units: ms, s, m, h, d, w)"},
        {"dump", "interval", "1h 1h 1h 1h 1h 1h 1h 1h 1h 1h 1h",
         "units: ms, s, m, h, d, w; such as 15m or 1h30m"},
        {"dump", "interval", "15 minutes and thirty seconds",
         "units: ms, s, m, h, d, w; such as 15m or 1h30m"},
        {"dump", "interval", A50 A50, "units: ms, s, m, h, d, w; such as 15m or 1h30m"},
        {"alert", "disk_low", "0000 0000 0000 0000 5GiB", "write 00000000000000005GiB"},
        {"alert", "disk_low", "0000 0000 0000 0000 005G iB", "such as 1GiB"},
    };
    static const char stack[] = {'\0', '1', 'h'};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t w = 0; w < sizeof stack; w++) {
            const struct config_key *k =
                &config_keys[config_key_find(cases[i].section, cases[i].name)];
            struct config object;
            struct err bad = {0};
            fill_stack(stack[w]);
            assert_int_equal(config_set(&object, k, cases[i].value, &bad), -1);
            assert_string_equal(bad.hint, cases[i].hint);
        }
}

/* Each number that the message about a key allows is accepted. */
static void test_limits_of_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        for (int last = 0; k->kind == CONFIG_NUMBER && last < 2; last++) {
            union {
                struct config config;
                struct config_ledger ledger;
                struct config_webhook webhook;
            } object = {0};
            struct err bad = {0};
            SCOPED(xfree) char *value = xasprintf("%lld", (long long)(last ? k->max : k->min));
            if (config_set(&object, k, value, &bad) < 0)
                fail_msg("[%s] %s = %s %s", k->section, k->name, value, bad.text);
        }
    }
    expect(BASE "level = 9999999999\n",
           ":9: [dump] level: value '9999999999' is not in range; allowed: 1 to 9", "");
}

static void test_bad_words(void **state)
{
    (void)state;
    static const struct bad_case cases[] = {
        {BASE "[restore]\nauto = true\n",
         ":10: [restore] auto: value 'true' is not yes or no; allowed: yes, no", "write yes"},
        {BASE "[restore]\nauto = 0\n",
         ":10: [restore] auto: value '0' is not yes or no; allowed: yes, no", "write no"},
        {BASE "[restore]\nauto = maybe\n",
         ":10: [restore] auto: value 'maybe' is not yes or no; allowed: yes, no", ""},
        {BASE "method = COPY\n",
         ":9: [dump] method: value 'COPY' is not known; allowed: auto, copy, lock, fuzzy",
         "write copy"},
        {BASE "[journal]\nmode = files\n",
         ":10: [journal] mode: value 'files' is not known; allowed: auto, off, server, follow", ""},
        {BASE "[journal]\nsegment = 1KiB\n",
         ":10: [journal] segment: value '1KiB' is not large enough; allowed: 64.0 KiB to 1.0 GiB",
         ""},
        {BASE "[journal]\nmax_size = 1B\n",
         ":10: [journal] max_size: value '1B' is not large enough; allowed: 1.0 MiB and more", ""},
        {BASE "[journal]\ndir = /d\n",
         ":10: [journal] dir: value '/d' is also [dump] dir; allowed: a separate directory",
         "such as /d/journal, or one on another disk or machine"},
        {BASE "[restore]\nscope = some\n",
         ":10: [restore] scope: value 'some' is not known; allowed: lost, all", ""},
        {BASE "[alert]\nevents = down, restord\n",
         ":10: [alert] events: value 'down, restord' is not 'all' or a list of events; allowed: "
         "all, or some of down, restoring, restored, waiting, discarded, stale, disk, sentinel, "
         "started, journal, check, progress, ledger, drill, offsite, pause, standby",
         "write restored"},
        {BASE "[alert]\nevents = down,\n",
         ":10: [alert] events: value 'down,' is not 'all' or a list of events; allowed: all, or "
         "some of down, restoring, restored, waiting, discarded, stale, disk, sentinel, started, "
         "journal, check, progress, ledger, drill, offsite, pause, standby",
         ""},
        {BASE "[alert.webhook]\nformat = xml\n",
         ":10: [alert.webhook] format: value 'xml' is not known; allowed: json, slack, discord",
         ""},
    };
    EXPECT_ALL(cases);
}

static void test_bad_names(void **state)
{
    (void)state;
    static const char world[] = "a world's name; allowed: 1 to 32 of a-z, 0-9, '_' and '-', with a "
                                "letter or digit in front";
    static const char table[] =
        "a table name that can be used; allowed: 1 to 58 characters (the lease table's name is 6 "
        "longer), no '%', none beyond U+FFFF";
    static const char host[] = "a host; allowed: a host name or an IPv4 or IPv6 address";
    const struct {
        const char *key, *value, *what, *hint;
    } cases[] = {
        {"[world] name", "Midgard", world, "write midgard"},
        {"[world] name", "-x", world, ""},
        {"[world] name", "a/b", world, ""},
        {"[world] name", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", world, ""},
        {"[world] schema", "MySQL",
         "a world: it belongs to the server; allowed: the schema of a "
         "game",
         ""},
        {"[world] schema", A50 "aaaaaaaaaaaaaaa",
         "a schema name; allowed: 1 to 64 characters, none beyond U+FFFF", ""},
        {"[world] schema", "\xf0\x9f\x8e\xae",
         "a schema name; allowed: 1 to 64 characters, none beyond U+FFFF", ""},
        {"[probe] table", "a%b", table, ""},
        {"[probe] table", A50 "aaaaaaaaa", table, ""},
        {"[mysql] host", "db.example.net:3307", host, "use host = db.example.net and port = 3307"},
        {"[world] schema", "worldkeeper_drill_w1",
         "a world's schema: drills create and drop schemas with such names; allowed: a name that "
         "does not begin with "
         "worldkeeper_drill_",
         ""},
        {"[world] schema", "worldkeeper_warm_w1",
         "a world's schema: standbys create and drop schemas with such names; allowed: a name that "
         "does not begin with "
         "worldkeeper_warm_",
         ""},
        {"[mysql] host", "/run/mysqld.sock", host, "for a socket use socket = /run/mysqld.sock"},
        {"[mysql] host", "a b", host, ""},
        {"[status] flag", "a/b",
         "a plain file name; allowed: a name without '/' that does not "
         "begin with '.'",
         "the directory is named by dir in the same section"},
        {"[status] json", ".x",
         "a plain file name; allowed: a name without '/' that does not begin "
         "with '.'",
         "the directory is named by dir in the same section"},
        {"[dump] dir", "dumps", "an absolute path; allowed: a path from '/' on, without '..'", ""},
        {"[dump] dir", "/a/../b", "an absolute path; allowed: a path from '/' on, without '..'",
         ""},
        {"[dump] dir", "//.", "an absolute path; allowed: a path from '/' on, without '..'", ""},
        {"[mysql] socket", "/" A50 A50 "/aaaaaa",
         "a path that is short enough for a socket; allowed: at most 107 bytes", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *blank = strchr(cases[i].key, ' ');
        char *file = xasprintf("%.*s\n%s = %s\n", (int)(blank - cases[i].key), cases[i].key,
                               blank + 1, cases[i].value);
        struct buf shown = {0};
        text_clean(&shown, cases[i].value, 80);
        char *text =
            xasprintf(":2: %s: value '%s' is not %s", cases[i].key, shown.p, cases[i].what);
        expect(file, text, cases[i].hint);
        free(file);
        free(text);
        buf_free(&shown);
    }
}

/* 64 characters are 64, however many bytes they have. */
static void test_long_names(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_adds(&text, "[world]\nname = w\nschema = ");
    for (int i = 0; i < 60; i++)
        buf_adds(&text, "\xe2\x82\xac");
    buf_adds(&text, "%`'\"\n[mysql]\nsocket = /s\nuser = u\n[dump]\ndir = /d\n");
    struct config *c = load(text.p);
    assert_int_equal(strlen(c->schema), 184);
    config_free(c);
    buf_free(&text);
}

static void test_bad_addresses(void **state)
{
    (void)state;
    static const char web[] = "a URL; allowed: https://HOST[:PORT]... or http://HOST[:PORT]...";
    static const char smtp[] = "a URL; allowed: smtps://HOST[:PORT]... or smtp://HOST[:PORT]...";
    static const char mail[] =
        "a mail address; allowed: NAME@HOST in ASCII, without blanks and any of \"(),:;<>[\\]";
    const struct {
        const char *key, *value, *what, *hint;
    } cases[] = {
        {"[alert.webhook] url", "ftp://h/x", web, ""},
        {"[alert.webhook] url", "https://", web, ""},
        {"[alert.webhook] url", "https:///x", web, ""},
        {"[alert.webhook] url", "https://h:0/", web, ""},
        {"[alert.webhook] url", "https://h:70000/", web, ""},
        {"[alert.webhook] url", "https://[::1/", web, ""},
        {"[alert.webhook] url", "https://[::1]x/", web, ""},
        {"[alert.webhook] url", "https://h/a b", web, ""},
        {"[alert.webhook] url", "https://h/\xc3\xa4", web, ""},
        {"[alert.webhook] url", "https://CANARY:CANARY@h/",
         "a URL without a login; allowed: https://HOST[:PORT]... or http://HOST[:PORT]...",
         "put the URL in its own file (mode 0600) and name that file in url_file"},
        {"[heartbeat] url", "//h/", web, ""},
        {"[alert.smtp] url", "https://h", smtp, ""},
        {"[alert.smtp] url", "smtp://u:CANARY@h",
         "a URL without a login; allowed: smtps://HOST[:PORT]... or smtp://HOST[:PORT]...",
         "set user, and name the password's file in password_file"},
        {"[offsite] url", "SFTP://h/d/",
         "the URL of a store; allowed: sftp://USER@HOST[:PORT]/DIR/, s3://BUCKET[/PREFIX/], "
         "https://HOST[:PORT]/DIR/ or file:///DIR/, without '?', '#' and '..'",
         "add the account: sftp://USER@HOST/DIR/"},
        {"[mysql] password_file", "CANARY",
         "the location of a secret file; allowed: an absolute path without '..', or "
         "credential:NAME",
         "put the secret in that file (mode 0600), on its first line"},
        {"[mysql] password_file", "credential:../x",
         "the location of a secret file; allowed: an absolute path without '..', or "
         "credential:NAME",
         "put the secret in that file (mode 0600), on its first line"},
        {"[alert.smtp] from", "nobody", mail, ""},
        {"[alert.smtp] from", "@h", mail, ""},
        {"[alert.smtp] from", "a@", mail, ""},
        {"[alert.smtp] from", "a@b@c", mail, ""},
        {"[alert.smtp] from", "a b@c", mail, ""},
        {"[alert.smtp] from", "Keeper <a@b>", mail, "use only the part between < and >"},
        {"[alert.smtp] from", "\xc3\xa4@b", mail, ""},
        {"[alert.smtp] to", "a@b, c",
         "a list of mail addresses; allowed: NAME@HOST, NAME@HOST ... in ASCII, without any of "
         "\"():;<>[\\]",
         ""},
        {"[alert.smtp] to", "a@b,,c@d",
         "a list of mail addresses; allowed: NAME@HOST, NAME@HOST ... in ASCII, without any of "
         "\"():;<>[\\]",
         ""},
        {"[alert.smtp] user", "a b", "one word; allowed: 1 to 254 bytes without blanks", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *blank = strchr(cases[i].key, ' ');
        const char *key = blank + 1;
        bool quiet = text_starts(key, "url") || text_starts(key, "password");
        char *file = xasprintf("%.*s\n%s = %s\n", (int)(blank - cases[i].key), cases[i].key, key,
                               cases[i].value);
        char *text =
            quiet ? xasprintf(":2: %s: value (not shown) is not %s", cases[i].key, cases[i].what)
                  : xasprintf(":2: %s: value '%s' is not %s", cases[i].key, cases[i].value,
                              cases[i].what);
        expect(file, text, cases[i].hint);
        free(file);
        free(text);
    }
}

/* ---- keys together ---- */

static void test_cross_checks(void **state)
{
    (void)state;
    static const struct bad_case cases[] = {
        {BASE "[mysql]\nhost = h\n",
         ":10: [mysql] host: not together with socket; allowed: one of the two",
         "socket is in line 5; remove one of the two"},
        {BASE "[mysql]\nport = 3306\n", ":10: [mysql] port: has no effect; allowed: only with host",
         "a socket has no port: remove port"},
        {BASE "[mysql]\ntls_ca = /ca\n",
         ":10: [mysql] tls_ca: has no effect; allowed: only with tls = verify",
         "set tls = verify, or remove tls_ca"},
        {TCP "tls_ca = /ca\ntls = required\n",
         ":9: [mysql] tls_ca: has no effect; allowed: only with tls = verify",
         "set tls = verify, or remove tls_ca"},
        {BASE "[status]\nmetrics = m\n",
         ":10: [status] metrics: has no effect; allowed: only with dir in the same section",
         "name the directory with dir"},
        {BASE "[status]\nflag = m\n",
         ":10: [status] flag: has no effect; allowed: only with dir in the same section",
         "name the directory with dir"},
        {BASE "[status]\ndir = /s\nflag = status.json\n",
         ":11: [status] flag: value 'status.json' is also the name of json; allowed: a different "
         "name",
         "one file would overwrite the other"},
        {BASE "[status]\ndir = /s\nmetrics = index.html\n",
         ":11: [status] metrics: value 'index.html' is also the name of flag; allowed: a different "
         "name",
         "one file would overwrite the other"},
        {BASE "[status]\ndir = /s\npage = yes\nlogo = status.json\n",
         ":12: [status] logo: value 'status.json' is also the name of json; allowed: a different "
         "name",
         "one file would overwrite the other"},
        {BASE "[status]\ndir = /s\npage = yes\nlogo = s8.png\nmetrics = s8.png\n",
         ":13: [status] metrics: value 's8.png' is also the name of logo; allowed: a different "
         "name",
         "one file would overwrite the other"},
        {BASE "[status]\ndir = /d\n",
         ":10: [status] dir: value '/d' is the same as [dump] dir '/d'; allowed: two separate "
         "directories",
         "the status is public, dumps are not: put them side by side"},
        {BASE "[status]\ndir = /d/www\n",
         ":10: [status] dir: value '/d/www' is inside [dump] dir '/d'; allowed: two separate "
         "directories",
         "the status is public, dumps are not: put them side by side"},
        {"[status]\ndir = /www//\n[world]\nname = w\nschema = s\n[mysql]\nsocket = /s\nuser = u\n"
         "[dump]\ndir = //www/./dumps\n",
         ":2: [status] dir: value '/www' is around [dump] dir '/www/dumps'; allowed: two separate "
         "directories",
         "the status is public, dumps are not: put them side by side"},
        {BASE "[progress]\nlock_id = gs-a\n",
         ": missing: [progress] socket or host, [progress] user",
         "add these keys; example.ini explains every key"},
        {BASE "[progress]\nsocket = /s\nuser = u\n", ": missing: [progress] lock_id",
         "add this key; example.ini explains every key"},
        {PROGRESS("h") "socket = /s\n",
         ":13: [progress] socket: not together with host; allowed: one of the two",
         "host is in line 10; remove one of the two"},
        {PROGRESS("h") "tls = required\n",
         ":13: [progress] tls: less than verify, to another host; allowed: verify, or insecure = "
         "yes beside it",
         "set tls = verify, and tls_ca for a private authority; insecure = yes accepts "
         "eavesdropping and impersonation"},
        {PROGRESS("localhost") "tls_ca = /ca\n",
         ":13: [progress] tls_ca: has no effect; allowed: only with tls = verify",
         "set tls = verify, or remove tls_ca"},
        {BASE "[drill]\nfrom = offsite\n",
         ":10: [drill] from: has no effect; allowed: only with [offsite] url",
         "from = disk uses the dumps in [dump] dir"},
        {BASE "[offsite]\nurl = file:///s/\nrecipient = age1x\n[drill]\nfrom = offsite\n",
         ":13: [drill] from: has no effect; allowed: only with [offsite] identity_file",
         "copies are encrypted, and this machine has no key to read them for a drill; from = disk "
         "uses the dumps in [dump] dir"},
        {BASE "[offsite]\nurl = http://h/s/\nplain = yes\n",
         ":10: [offsite] url: http:// to another host; allowed: https://, or insecure = yes beside "
         "it",
         "insecure = yes accepts that others on the network read the login"},
    };
    EXPECT_ALL(cases);
    config_free(load(BASE "[offsite]\nurl = http://127.0.0.1/s/\nplain = yes\n"));
    config_free(load(BASE "[progress]\n"));
    config_free(load(BASE "[status]\ndir = /d-www\n"));
    config_free(load(BASE "[status]\ndir = /s\nflag = status.json\njson = index.html\n"));
}

#define STORE(url) BASE "[offsite]\nurl = " url "\nplain = yes\n"
#define BUCKET STORE("s3://b") "access_key_file = /k\n[standby]\n"

static void test_standby_checks(void **state)
{
    (void)state;
    static const struct bad_case cases[] = {
        {BASE "[standby]\nwarm = no\n",
         ":10: [standby] warm: needs [offsite]; allowed: only with it",
         "[offsite] url names the store that both machines use"},
        {STORE("file:///f/") "[standby]\nwarm = no\nlease = s3\n",
         ":14: [standby] lease: value 's3' needs a store with conditional writes; allowed: only "
         "with an s3:// URL in [offsite]",
         "set lease = etcd; or lease = none and use --promote --by-hand"},
        {BUCKET "ttl = 20s\n",
         ":14: [standby] ttl: has no effect; allowed: only with lease = s3 or etcd",
         "remove this key: without a lease, nothing expires"},
        {BUCKET "lease = etcd\n",
         ":14: [standby] lease: value 'etcd' needs etcd in the same section",
         "such as etcd = https://a.example.net:2379, https://b.example.net:2379"},
        {BUCKET "lease = s3\netcd = https://h\n",
         ":15: [standby] etcd: has no effect; allowed: only with lease = etcd",
         "set lease = etcd, or remove this key"},
        {BUCKET "lease = etcd\netcd = https://h, http://other\n",
         ":15: [standby] etcd: http:// to another host; allowed: https://, or insecure = yes "
         "beside "
         "it",
         "insecure = yes accepts that others on the network take the lease"},
        {BUCKET "lease = etcd\netcd = http://localhost:2379\ninsecure = yes\n",
         ":16: [standby] insecure: has no effect; allowed: only with an http:// URL of another "
         "host",
         "remove this key: the connection is safe without it"},
        {BUCKET "lease = etcd\netcd = https://h\nuser = u\n",
         ":16: [standby] user: has no effect; allowed: only with password_file",
         "a login needs both user and password_file"},
        {BUCKET "lease = s3\n[probe]\ntable = Worldkeeper\n",
         ":16: [probe] table: value 'Worldkeeper' with [standby]: its lease table would be "
         "worldkeeper_lease, which is reserved for the lease between machines; allowed: another "
         "name",
         "table = worldkeeper_sentinel is the default"},
    };
    EXPECT_ALL(cases);
    struct config *c = load(BUCKET "lease = etcd\nttl = 2s\netcd = https://a:1/ ,http://[::1]:2\n");
    assert_true(c->standby.given && !c->standby.warm && c->standby.lease == LEASE_ETCD);
    assert_int_equal(c->standby.ttl, 2000);
    assert_string_equal(c->standby.etcd, "https://a:1,http://[::1]:2");
    config_free(c);
    c = load(STORE("S3://b") "access_key_file = /k\n[standby]\nlease = s3\n");
    assert_int_equal(c->standby.lease, LEASE_S3);
    config_free(c);
    c = load(BASE);
    assert_false(c->standby.given);
    config_free(c);
}

static void test_channel_checks(void **state)
{
    (void)state;
    static const char no_url[] = "no mail is sent without url: add it, or remove the whole section";
    static const struct bad_case cases[] = {
        {BASE "[alert.smtp]\nfrom = a@b\n",
         ":10: [alert.smtp] from: has no effect; allowed: only with url in the same section",
         no_url},
        {BASE "[alert.smtp]\nto = a@b\n",
         ":10: [alert.smtp] to: has no effect; allowed: only with url in the same section", no_url},
        {BASE "[alert.smtp]\nurl = smtp://h\n",
         ":10: [alert.smtp] url: needs from and to in the same section",
         "name sender and recipients, such as from = worldkeeper@HOST"},
        {BASE "[alert.smtp]\nurl = smtp://h\nfrom = a@b\n",
         ":10: [alert.smtp] url: needs to in the same section",
         "name sender and recipients, such as from = worldkeeper@HOST"},
        {BASE "[alert.smtp]\nurl = smtp://h\nto = a@b\n",
         ":10: [alert.smtp] url: needs from in the same section",
         "name sender and recipients, such as from = worldkeeper@HOST"},
        {SMTP "user = u\n",
         ":13: [alert.smtp] user: has no effect; allowed: only with password_file",
         "a login needs both user and password_file"},
        {SMTP "password_file = /p\n",
         ":13: [alert.smtp] password_file: has no effect; allowed: only with user",
         "a login needs both user and password_file"},
        {SMTP "starttls = preferred\n",
         ":13: [alert.smtp] starttls: less than required, to another host; allowed: required, or "
         "insecure = yes beside it",
         "set starttls = required, or use an smtps:// URL; insecure = yes accepts eavesdropping"},
        {SMTP "insecure = yes\n",
         ":13: [alert.smtp] insecure: has no effect; allowed: only with another host and starttls "
         "= "
         "preferred or off",
         "remove this key: the mail is safe without it"},
        {BASE "[alert.webhook]\nurl = http://h/\n",
         ":10: [alert.webhook] url: http:// to another host; allowed: https://, or insecure = yes "
         "beside it",
         "insecure = yes accepts that others on the network read and use the URL"},
        {BASE "[heartbeat]\nurl = https://h/\ninsecure = yes\n",
         ":11: [heartbeat] insecure: has no effect; allowed: only with an http:// URL of another "
         "host",
         "remove this key: the connection is safe without it"},
        {SMTP "tls_ca = /ca\nstarttls = off\n",
         ":13: [alert.smtp] tls_ca: has no effect; allowed: only with TLS",
         "set starttls = required"},
        {BASE "[alert.webhook]\nurl_file = /u\nurl = https://h/\n",
         ":11: [alert.webhook] url: not together with url_file; allowed: one of the two",
         "url_file is in line 10; remove one of the two"},
        {BASE "[heartbeat]\nurl = https://h/\nurl_file = /u\n",
         ":11: [heartbeat] url_file: not together with url; allowed: one of the two",
         "url is in line 10; remove one of the two"},
        {BASE "[alert.webhook]\nurl = http://h/\ntls_ca = /ca\n",
         ":11: [alert.webhook] tls_ca: has no effect; allowed: only with an https:// URL",
         "use url = https://..."},
        {BASE "[alert.webhook]\nurl = https://h/\n[alert.webhook.b]\nurl = http://h/\n",
         ":12: [alert.webhook.b] url: http:// to another host; allowed: https://, or insecure = "
         "yes "
         "beside it",
         "insecure = yes accepts that others on the network read and use the URL"},
        {BASE "[alert.webhook.b]\nurl_file = /u\nurl = https://h/\n",
         ":11: [alert.webhook.b] url: not together with url_file; allowed: one of the two",
         "url_file is in line 10; remove one of the two"},
        {BASE "[alert.webhook.b]\nformat = slack\n", ": missing: [alert.webhook.b] url or url_file",
         "add one of these keys, or remove the section"},
        {BASE "[alert.webhook]\ntls_ca = /ca\n",
         ":10: [alert.webhook] tls_ca: has no effect; allowed: only with url or url_file",
         "nothing is sent without url: add it, or remove tls_ca"},
    };
    EXPECT_ALL(cases);
    config_free(load(BASE "[alert.webhook]\nurl_file = /u\ntls_ca = /ca\n"));
    config_free(load(SMTP "tls_ca = /ca\n"));
}

/* Several webhooks: each with values and defaults of its own; a reload keeps one of a name where
 * it was. */
static void test_webhooks(void **state)
{
    (void)state;
    struct config *c = load(BASE "[alert.webhook]\nurl = https://a/\n"
                                 "[alert.webhook.ops]\nurl_file = /u\nformat = slack\n"
                                 "[alert]\nrepeat = 1h\n"
                                 "[alert.webhook]\ntimeout = 5s\n"
                                 "[alert.webhook.9-x_]\nurl = https://c/\nmethod = PUT\n"),
                  *d = load(BASE "[alert.webhook.new]\nurl = https://d/\n"
                                 "[alert.webhook.ops]\nurl = https://e/\n"
                                 "[alert.webhook]\nurl = https://f/\n");
    const struct config_webhook *w = c->webhooks;
    assert_string_equal(w[0].section, "alert.webhook");
    assert_string_equal(w[0].url, "https://a/");
    assert_int_equal(w[0].timeout, 5000);
    assert_string_equal(w[1].section, "alert.webhook.ops");
    assert_null(w[1].url);
    assert_int_equal(w[1].format, WEBHOOK_SLACK);
    assert_int_equal(w[1].timeout, 10000);
    assert_string_equal(w[2].section, "alert.webhook.9-x_");
    assert_true(w[2].put && !w[0].put && !config_webhook_on(&w[3]));
    config_keep_slots(c, d);
    assert_string_equal(d->webhooks[0].url, "https://f/");
    assert_string_equal(d->webhooks[1].url, "https://e/");
    assert_string_equal(d->webhooks[2].url, "https://d/");
    assert_null(d->webhooks[3].section);
    config_free(c);
    config_free(d);

    static const struct bad_case cases[] = {
        {BASE "[alert.webhook.]\n",
         ":9: [alert.webhook.NAME]: not a webhook's name; allowed: 1 to 30 of a-z, 0-9, _ and -",
         ""},
        {BASE "[alert.webhook.A]\n",
         ":9: [alert.webhook.NAME]: not a webhook's name; allowed: 1 to 30 of a-z, 0-9, _ and -",
         ""},
        {BASE "[alert.webhook.a]\nurl = https://h/\n[alert.webhook.a]\n",
         ":11: [alert.webhook.a]: given twice; allowed: once", ""},
        {BASE "[alert.webhook.a]\nurl = https://h/\nurl = https://h/\n",
         ":11: [alert.webhook.a] url: given twice; allowed: once", "the first one is in line 10"},
        {BASE "[alert.webhook.a]\nformat = xml\n",
         ":10: [alert.webhook.a] format: value 'xml' is not known; allowed: json, slack, discord",
         ""},
        {BASE "[alert.webhook.1]\n[alert.webhook.2]\n[alert.webhook.3]\n[alert.webhook.4]\n"
              "[alert.webhook.5]\n[alert.webhook.6]\n[alert.webhook.7]\n[alert.webhook.8]\n"
              "[alert.webhook.9]\n",
         ":17: [alert.webhook.9]: one webhook too many; allowed: 8", ""},
    };
    EXPECT_ALL(cases);
}

/* ---- the file itself ---- */

static void expect_path(const char *file, const char *text, const char *hint, int num)
{
    struct config untouched, *c = &untouched;
    struct err e = {0};
    assert_int_equal(config_load(file, &c, &e), -1);
    assert_ptr_equal(c, &untouched);
    assert_int_equal(e.cls, ERR_CONFIG);
    assert_int_equal(e.num, num);
    char *want = xasprintf("%s: %s", file, text);
    assert_string_equal(e.text, want);
    assert_string_equal(e.hint, hint);
    free(want);
}

static void test_odd_files(void **state)
{
    (void)state;
    char *odd = xasprintf("%s/odd", dir);
    expect_path(odd, "cannot be opened: No such file or directory",
                "copy example.ini there and edit it: it explains every key", ENOENT);
    expect_path(dir, "a directory; allowed: a regular file", "", 0);
    expect_path("/dev/null", "a device or socket; allowed: a regular file", "", 0);
    assert_int_equal(mkfifo(odd, 0600), 0);
    expect_path(odd, "a FIFO; allowed: a regular file", "", 0);
    unlink(odd);
    assert_int_equal(symlink("nowhere", odd), 0);
    expect_path(odd, "a symbolic link to nothing", "correct the link, or name the file itself",
                ENOENT);
    unlink(odd);
    write_file(BASE, sizeof BASE - 1, 0644);
    assert_int_equal(symlink("world.ini", odd), 0);
    struct config *c = NULL;
    assert_int_equal(config_load(odd, &c, NULL), 0);
    config_free(c);
    unlink(odd);
    free(odd);
}

static void test_mode_and_size(void **state)
{
    (void)state;
    char *hint = xasprintf("chmod go-w %s", path);
    write_file(BASE, sizeof BASE - 1, 0660);
    expect_path(path, "it is writable by other users (mode 0660); allowed: at most 0755", hint, 0);
    write_file(BASE, sizeof BASE - 1, 0602);
    expect_path(path, "it is writable by other users (mode 0602); allowed: at most 0755", hint, 0);
    free(hint);

    char *big = xcalloc(65537, 1);
    memset(big, '\n', 65537);
    memcpy(big, BASE, sizeof BASE - 1);
    expect_bytes(big, 65537, ": too large; allowed: at most 65536 bytes", "");
    struct config *c = NULL;
    assert_int_equal(load_bytes(big, 65536, &c, NULL), 0);
    config_free(c);
    free(big);
}

/* A file of a third user is refused; root, who can be anyone, may use it. */
static void test_owner(void **state)
{
    (void)state;
    struct config *c = NULL;
    struct err e = {0};
    write_file(BASE, sizeof BASE - 1, 0644);
    if (geteuid() == 0) {
        assert_int_equal(chmod(dir, 0711), 0);
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(config_load(path, &c, NULL), 0);
        config_free(c);
        assert_int_equal(seteuid(12346), 0);
        assert_int_equal(config_load(path, &c, &e), -1);
        assert_int_equal(seteuid(0), 0);
        assert_string_equal(e.text + strlen(path),
                            ": belongs to another user (uid 12345); allowed: root or uid 12346");
        assert_int_equal(chown(path, 0, 0), 0);
        assert_int_equal(seteuid(12346), 0);
        assert_int_equal(config_load(path, &c, &e), 0);
        assert_int_equal(seteuid(0), 0);
        unlink(path);
    } else {
        assert_int_equal(config_load(path, &c, NULL), 0);
    }
    config_free(c);
}

static void test_no_err(void **state)
{
    (void)state;
    struct config *c = NULL;
    static const char bad[] = BASE "level = x\n";
    assert_int_equal(load_bytes(bad, sizeof bad - 1, &c, NULL), -1);
    assert_null(c);
    config_free(NULL);
}

/* ---- the example ---- */

static char *example_text(void)
{
    struct buf b = {0};
    struct err e = {0};
    if (file_read(AT_FDCWD, "etc/example.ini", 65536, &b, &e) < 0)
        fail_msg("%s (run this from the top of the source tree)", e.text);
    return b.p;
}

static void test_example_loads(void **state)
{
    (void)state;
    char *text = example_text();
    struct config *c = load(text);
    assert_string_equal(c->name, "demo");
    assert_null(c->smtp.url);
    config_free(c);
    free(text);
}

/* One line of the example, active or behind "# ": is its key known, its value good, its default
 * the real one? */
static void example_line(const char *section, char *line, bool seen[])
{
    bool commented = text_starts(line, "# ");
    char *name = line + (commented ? 2 : 0), *eq = strstr(name, " = ");
    if (!eq || strspn(name, "abcdefghijklmnopqrstuvwxyz_") != (size_t)(eq - name))
        return;
    *eq = '\0';
    const char *value = eq + 3;
    int i = config_key_find(section, name);
    if (i < 0 || seen[i])
        fail_msg("etc/example.ini: [%s] %s is unknown or there twice", section, name);
    seen[i] = true;
    const struct config_key *k = &config_keys[i];
    struct config *scratch = xcalloc(1, sizeof *scratch);
    struct err bad;
    scratch->ledger_count = 1;
    void *object = config_owner(k) == OWNER_LEDGER    ? (void *)&scratch->ledgers[0]
                   : config_owner(k) == OWNER_WEBHOOK ? (void *)&scratch->webhooks[0]
                                                      : scratch;
    if (config_set(object, k, value, &bad) < 0)
        fail_msg("etc/example.ini: [%s] %s %s", section, name, bad.text);
    config_free(scratch);
    if (k->def && strcmp(k->def, value) != 0)
        fail_msg("etc/example.ini: [%s] %s: shown %s, default %s", section, name, value, k->def);
}

static void test_example_is_complete(void **state)
{
    (void)state;
    char *text = example_text(), *rest = text, *line, section[40] = "";
    bool seen[CONFIG_KEYS_MAX] = {false};
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (text_starts(line, "# [ledger "))
            snprintf(section, sizeof section, "ledger");
        else if (line[0] == '[')
            snprintf(section, sizeof section, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
        else
            example_line(section, line, seen);
    }
    for (size_t i = 0; i < config_key_count; i++)
        if (!seen[i])
            fail_msg("etc/example.ini lacks [%s] %s", config_keys[i].section, config_keys[i].name);
    free(text);
}

/* ---- what nobody meant ---- */

static void survive(const void *data, size_t len)
{
    struct config untouched, *c = &untouched;
    struct err e = {0};
    if (load_bytes(data, len, &c, &e) == 0) {
        assert_ptr_not_equal(c, &untouched);
        config_free(c);
        return;
    }
    assert_ptr_equal(c, &untouched);
    assert_int_equal(e.cls, ERR_CONFIG);
    assert_true(text_starts(e.text, path));
    assert_true(text_utf8_valid(e.text, strlen(e.text)));
}

static void test_random_bytes(void **state)
{
    (void)state;
    unsigned char data[1024] = {0};
    for (int i = 0; i < 2000; i++) {
        size_t len = dice(sizeof data);
        for (size_t k = 0; k < len; k++)
            data[k] = (unsigned char)dice(256);
        survive(data, len);
    }
}

static void test_broken_example(void **state)
{
    (void)state;
    char *text = example_text();
    size_t len = strlen(text);
    char *copy = xcalloc(len + 1, 1);
    for (int i = 0; i < 4000; i++) {
        memcpy(copy, text, len);
        for (unsigned k = dice(4) + 1; k > 0; k--)
            copy[dice((unsigned)len)] =
                (char)(dice(2) ? dice(256) : (unsigned)"=;#[]\n \t:"[dice(9)]);
        survive(copy, dice(2) ? len : dice((unsigned)len));
    }
    free(copy);
    free(text);
}

static void test_random_words(void **state)
{
    (void)state;
    static const char *const words[] = {"[", "]", "=", " ", ";", "#",  "\n", "\r\n", "\t",      ",",
                                        "1", "%", "m", "@", "/", "..", ":",  "a",    "\xc3\xa4"};
    for (int i = 0; i < 4000; i++) {
        struct buf b = {0};
        buf_adds(&b, dice(2) ? BASE : "");
        for (unsigned k = dice(30); k > 0; k--) {
            const struct config_key *key = &config_keys[dice((unsigned)config_key_count)];
            if (dice(3) == 0)
                buf_printf(&b, "[%s]\n%s = ", key->section, key->name);
            buf_adds(&b, words[dice(sizeof words / sizeof *words)]);
        }
        survive(b.p, b.len);
        buf_free(&b);
    }
}

/* Whatever is written as a name arrives whole or is refused: nothing is cut. */
static void test_nothing_is_cut(void **state)
{
    (void)state;
    static const char letters[] = "ab ;#=:[]\"'%\t";
    int arrived = 0;
    for (int i = 0; i < 4000; i++) {
        char value[20];
        unsigned len = 1 + dice(sizeof value - 1);
        for (unsigned k = 0; k < len; k++)
            value[k] = letters[dice(sizeof letters - 1)];
        value[len - 1] = '.'; /* blanks at both ends are not meant */
        value[0] = value[0] == ' ' || value[0] == '\t' ? 'x' : value[0];
        char *file = xasprintf("[world]\nname = w\nschema =%s%.*s\n[mysql]\nsocket = /s\nuser = u\n"
                               "[dump]\ndir = /d\n",
                               dice(2) ? " " : "", (int)len, value);
        struct config *c = NULL;
        if (load_bytes(file, strlen(file), &c, NULL) == 0) {
            assert_int_equal(strlen(c->schema), len);
            assert_memory_equal(c->schema, value, len);
            arrived++;
        }
        config_free(c);
        free(file);
    }
    assert_true(arrived > 500);
}

static void test_distance(void **state)
{
    (void)state;
    assert_int_equal(config_distance("", ""), 0);
    assert_int_equal(config_distance("abc", ""), 3);
    assert_int_equal(config_distance("", "abc"), 3);
    assert_int_equal(config_distance("kitten", "sitting"), 3);
    assert_int_equal(config_distance("interval", "intervall"), 1);
    assert_int_equal(config_distance(A50, "a"), CONFIG_NEAR_MAX);
    assert_true(config_near("Level", "level"));
    assert_false(config_near("zzz", "dir"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_more_defaults),
        cmocka_unit_test(test_every_key),      cmocka_unit_test(test_channels),
        cmocka_unit_test(test_tls_default),    cmocka_unit_test(test_exposed),
        cmocka_unit_test(test_host_of_a_url),  cmocka_unit_test(test_max_dump_age_follows_interval),
        cmocka_unit_test(test_forms),          cmocka_unit_test(test_longest_line),
        cmocka_unit_test(test_bad_lines),      cmocka_unit_test(test_not_text),
        cmocka_unit_test(test_limit),          cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_ledgers),        cmocka_unit_test(test_webhooks),
        cmocka_unit_test(test_bad_ledgers),    cmocka_unit_test(test_twice_missing_empty),
        cmocka_unit_test(test_bad_numbers),    cmocka_unit_test(test_bad_words),
        cmocka_unit_test(test_bad_names),      cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_bad_addresses),  cmocka_unit_test(test_cross_checks),
        cmocka_unit_test(test_standby_checks), cmocka_unit_test(test_channel_checks),
        cmocka_unit_test(test_odd_files),      cmocka_unit_test(test_mode_and_size),
        cmocka_unit_test(test_owner),          cmocka_unit_test(test_no_err),
        cmocka_unit_test(test_example_loads),  cmocka_unit_test(test_example_is_complete),
        cmocka_unit_test(test_random_bytes),   cmocka_unit_test(test_broken_example),
        cmocka_unit_test(test_random_words),   cmocka_unit_test(test_nothing_is_cut),
        cmocka_unit_test(test_distance),       cmocka_unit_test(test_limits_of_numbers),
        cmocka_unit_test(test_no_long_guess),
    };
    return cmocka_run_group_tests_name("config", tests, set_up, tear_down);
}
