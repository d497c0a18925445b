/* Features of each server version, and what is chosen by them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/file.h"
#include "check/rule.h"
#include "check/rules_server.h"
#include "mysql/server.h"
#include "scripted_server.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *reported;
        bool mariadb;
        unsigned number;
    } cases[] = {
        {"10.11.19-MariaDB-0+deb12u1-log", true, 101119},
        {"5.5.5-10.5.29-MariaDB", true, 100529}, /* as some client libraries leave it */
        {"5.5.5-m1", false, 50505},
        {"8.0.43-34", false, 80043},
        {"9.7.4-2", false, 90704},
        {"12.3-MariaDB", true, 120300},
        {"dev", false, SERVER_UNKNOWN},
        {"", false, SERVER_UNKNOWN},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct server_version v = server_version_of(cases[i].reported);
        assert_int_equal(v.mariadb, cases[i].mariadb);
        assert_int_equal(v.number, cases[i].number);
    }
}

static void test_support(void **state)
{
    (void)state;
    static const struct {
        const char *version;
        enum server_support support;
    } cases[] = {
        {"10.1.48-MariaDB", SERVER_TOO_OLD},
        {"10.4.34-MariaDB", SERVER_TOO_OLD},
        {"10.5.29-MariaDB", SERVER_TESTED},
        {"10.6.22-MariaDB", SERVER_DOCUMENTED},
        {"10.9.1-MariaDB", SERVER_DOCUMENTED},
        {"10.11.19-MariaDB-log", SERVER_TESTED},
        {"11.2.4-MariaDB", SERVER_DOCUMENTED},
        {"11.4.9-MariaDB", SERVER_DOCUMENTED},
        {"11.7.2-MariaDB", SERVER_DOCUMENTED},
        {"11.8.9-MariaDB from Debian", SERVER_TESTED},
        {"12.0.1-MariaDB", SERVER_NEWER},
        {"12.3.1-MariaDB", SERVER_NEWER},
        {"MariaDB of today", SERVER_NEWER},
        {"5.7.44-log", SERVER_TOO_OLD},
        {"8.0.11", SERVER_TOO_OLD},
        {"8.0.16", SERVER_DOCUMENTED},
        {"8.0.43", SERVER_DOCUMENTED},
        {"8.3.0", SERVER_DOCUMENTED},
        {"8.4.6", SERVER_DOCUMENTED},
        {"9.0.1-commercial", SERVER_DOCUMENTED},
        {"9.7.4-2", SERVER_TESTED},
        {"9.10.0", SERVER_NEWER},
        {"10.0.0", SERVER_NEWER},
        {"", SERVER_NEWER},
    };
    static const char *const facts[] = {
        [SERVER_TESTED] = "tested", [SERVER_DOCUMENTED] = "documented", [SERVER_TOO_OLD] = "old"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct server_version v = server_version_of(cases[i].version);
        assert_int_equal(server_support(v), cases[i].support);
        /* --check says so. */
        struct check c = {.dirfd = -1, .mariadb = v.mariadb};
        snprintf(c.server.version, sizeof c.server.version, "%s", cases[i].version);
        check_version(&c);
        for (size_t k = 0; k < COUNT(facts); k++)
            if (facts[k])
                assert_int_equal(check_is(&c, facts[k]), k == cases[i].support);
        assert_string_equal(check_text(&c, "tested_with"),
                            v.mariadb ? "MariaDB 10.5, 10.11, 11.8" : "MySQL 9.7");
        assert_string_equal(check_text(&c, "known_from"), v.mariadb ? "10.5" : "8.0");
        check_free(&c);
    }
}

/* ---- words ---- */

enum {
    V10_4,
    V10_5,
    V10_6,
    V10_11,
    V11_4,
    V11_8,
    V12,
    V8_0_21,
    V8_0_25,
    V8_0_43,
    V8_4,
    V9_7,
    VERSIONS
};
static const char *const versions[VERSIONS] = {
    "10.4.34-MariaDB", "10.5.29-MariaDB", "10.6.23-MariaDB", "10.11.19-MariaDB",
    "11.4.9-MariaDB",  "11.8.9-MariaDB",  "12.3.1-MariaDB",  "8.0.21",
    "8.0.25",          "8.0.43",          "8.4.7",           "9.7.4"};

#define M_(w) w, w, w, w, w, w, w /* each MariaDB */
#define O_(w) w, w, w, w, w       /* each MySQL */
#define MASTER "SHOW MASTER STATUS"
#define BINARY "SHOW BINARY LOG STATUS"

/* From the manuals, version by version. */
static const struct {
    enum server_word word;
    const char *text[VERSIONS];
} words[] = {
    {WORD_LOG_STATUS, {M_(MASTER), MASTER, MASTER, MASTER, BINARY, BINARY}},
    {WORD_REPLICA_STATUS,
     {M_("SELECT 1 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME='SLAVES_RUNNING' AND "
         "VARIABLE_VALUE<>'0'"),
      "SHOW SLAVE STATUS", "SHOW REPLICA STATUS", "SHOW REPLICA STATUS", "SHOW REPLICA STATUS",
      "SHOW REPLICA STATUS"}},
    {WORD_REPLICAS,
     {M_("SHOW GLOBAL STATUS LIKE 'Slaves_connected'"), "SHOW SLAVE HOSTS", "SHOW REPLICAS",
      "SHOW REPLICAS", "SHOW REPLICAS", "SHOW REPLICAS"}},
    {WORD_LOG_UPDATES,
     {M_("log_slave_updates"), "log_slave_updates", "log_slave_updates", "log_replica_updates",
      "log_replica_updates", "log_replica_updates"}},
#define SECONDS "binlog_expire_logs_seconds"
    {WORD_LOG_HELD, {NULL, NULL, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, O_(SECONDS)}},
    {WORD_LOG_HELD_DAYS, {"expire_logs_days", "expire_logs_days"}},
    {WORD_LOG_TOTAL,
     {[V11_4] = "max_binlog_total_size", "max_binlog_total_size", "max_binlog_total_size"}},
    {WORD_LOG_GTID, {M_("gtid_binlog_pos"), O_("gtid_executed")}},
#define TX "tx_isolation"
#define LEVEL "transaction_isolation"
    {WORD_ISOLATION, {TX, TX, TX, TX, LEVEL, LEVEL, LEVEL, O_(LEVEL)}},
    {WORD_REQUIRE_KEY, {[V8_0_21] = O_("sql_require_primary_key")}},
#define TRIGGERS "information_schema.TRIGGERS"
#define INVISIBLE "sql_generate_invisible_primary_key"
    {WORD_INVISIBLE_KEY, {[V8_0_43] = INVISIBLE, INVISIBLE, INVISIBLE}},
    {WORD_CHECKS, {M_("check_constraint_checks")}},
    {WORD_STATISTICS_AGE, {[V8_0_21] = O_("information_schema_stats_expiry")}},
    {WORD_IDENTITY, {M_("server_uid"), O_("server_uuid")}},
    {WORD_STATUS_SCHEMA, {M_("information_schema"), O_("performance_schema")}},
    {WORD_HANDLER, {M_("HANDLER")}},
    {WORD_SHOWN_TRIGGERS, {[V10_11] = TRIGGERS, TRIGGERS, TRIGGERS, TRIGGERS}},
    {WORD_SKIP_LOCKED,
     {[V10_6] = "SKIP LOCKED",
      "SKIP LOCKED",
      "SKIP LOCKED",
      "SKIP LOCKED",
      "SKIP LOCKED",
      O_("SKIP LOCKED")}},
    {WORD_NEW_ROW, {M_(""), O_(" AS n")}},
    {WORD_OR_REPLACE, {M_("OR REPLACE ")}},
    {WORD_ROLES,
     {M_("SELECT COUNT(*) FROM mysql.roles_mapping WHERE User=? AND Host=?"),
      O_("SELECT COUNT(*) FROM mysql.role_edges WHERE TO_USER=? AND TO_HOST=?")}},
    {WORD_OLD_MODE, {[V8_0_21] = O_("NO_AUTO_CREATE_USER")}},
    {WORD_UPDATE_OF, {[V11_8] = "OF", "OF"}},
};

static void test_words(void **state)
{
    (void)state;
    assert_int_equal(COUNT(words), SERVER_WORDS);
    for (size_t w = 0; w < COUNT(words); w++)
        for (int v = 0; v < VERSIONS; v++) {
            const char *text = server_word(server_version_of(versions[v]), words[w].word);
            const char *want = words[w].text[v];
            if (!text != !want || (text && strcmp(text, want) != 0))
                fail_msg("word %d of %s: \"%s\", not \"%s\"", words[w].word, versions[v],
                         text ? text : "nothing", want ? want : "nothing");
        }
}

/* ---- what is sent ---- */

static void sent(int v, const char *words_sent, bool yes)
{
    if (script_was_asked(words_sent) != yes)
        fail_msg("%s: %s %s:\n%s", versions[v], words_sent, yes ? "was not sent" : "was sent",
                 scripted_server.log.p ? scripted_server.log.p : "");
}

static void word_sent(int v, enum server_word w)
{
    const char *text = server_word(server_version_of(versions[v]), w);
    if (text)
        sent(v, text, true);
}

/* A session, a position, replicas: with this version's names, and none that it does not know. */
static void test_sent(void **state)
{
    (void)state;
    for (int v = 0; v < VERSIONS; v++) {
        struct err e = {0};
        struct db_binlog_pos pos = {0};
        struct server_id id;
        script_reset();
        scripted_server.version = versions[v];
        struct db_params p = {.socket = "/none", .user = "keeper"};
        struct db *db = db_open(&p, &e);
        assert_non_null(db);
        db_binlog_pos(db, &pos);
        db_server_id(db, &id, &e);
        replicas_connected(db);
        replicas_fed(db, &e);
        static const enum server_word used[] = {
            WORD_LOG_STATUS,  WORD_REPLICA_STATUS, WORD_REPLICAS,      WORD_LOG_GTID,
            WORD_REQUIRE_KEY, WORD_IDENTITY,       WORD_STATUS_SCHEMA, WORD_INVISIBLE_KEY};
        for (size_t i = 0; i < COUNT(used); i++) {
            word_sent(v, used[i]);
            for (size_t w = 0; w < COUNT(words); w++)
                for (int other = 0; other < VERSIONS && words[w].word == used[i]; other++) {
                    const char *here = words[w].text[v], *there = words[w].text[other];
                    if (there && (!here || !strstr(here, there)))
                        sent(v, there, here && strstr(there, here) && script_was_asked(there));
                }
        }
        db_close(db);
    }
}

/* ---- the manual's table ---- */

/* "MariaDB Ta 10.5 Ta tested": each series as it is here. */
static void test_manual(void **state)
{
    (void)state;
    static const char *const said[] = {[SERVER_TESTED] = "tested",
                                       [SERVER_DOCUMENTED] = "by its documentation",
                                       [SERVER_NEWER] = "unknown",
                                       [SERVER_TOO_OLD] = "too old"};
    SCOPED(buf_free) struct buf text = {0};
    struct err e = {0};
    const struct server_series *s;
    assert_int_equal(file_read(AT_FDCWD, "etc/worldkeeper.7", 1 << 20, &text, &e), 0);
    for (size_t i = 0; (s = server_series(i)); i++) {
        SCOPED(xfree) char *row = xasprintf(
            ".It %s Ta %s Ta %s\n", s->mariadb ? "MariaDB" : "MySQL", s->name, said[s->support]);
        if (!strstr(text.p, row))
            fail_msg("worldkeeper.7 has no row \"%s\"", row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_support),
        cmocka_unit_test(test_words),   cmocka_unit_test(test_sent),
        cmocka_unit_test(test_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
