/* Rules of --check for servers, accounts and settings: in each case one thing is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "check/rules_server.h"
#include "check_kit.h"

static void connect_only(struct check *c)
{
    check_connect(c, NULL);
}

static void test_sound(void **state)
{
    (void)state;
    static const char *const names[] = {"connection", "account", "rights",      "drill",
                                        "sentinel",   "lease",   "packet size", "journal",
                                        "settings",   "clock",   "loading"};
    for (enum kind k = MARIA; k <= MYSQL_9; k++) {
        kit_config();
        kit_sound_server(k);
        script("SHOW GRANTS",
               "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `keeper`@`localhost`\n"
               "GRANT " KIT_SCHEMA_RIGHTS " ON `game`.* TO `keeper`@`localhost`\n"
               "GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, TRIGGER ON "
               "`worldkeeper\\_drill\\_game1`.* TO "
               "`keeper`@`localhost`");
        struct check c = kit_check();
        kit_ask(&c);
        for (size_t i = 0; i < COUNT(names); i++)
            kit_expect(&c, CHECK_OK, names[i], NULL, NULL);
        assert_int_equal(c.failed, 0);
        kit_check_free(&c);
    }
}

/* ---- connection ---- */

static char far_host[] = "db.example", far_loop[] = "127.evil.example", near_v6[] = "::1",
            sock[] = "/run/mysqld/mysqld.sock", secret[] = "/etc/secret";

static void far_away(void)
{
    kit_cfg.mysql.host = far_host;
}

static void named_so(void)
{
    kit_cfg.mysql.host = far_loop;
}

static void by_name(void)
{
    kit_cfg.mysql.host = NULL;
    kit_cfg.mysql.socket = sock;
}

static void far_and_off(void)
{
    far_away();
    kit_cfg.mysql.tls = TLS_OFF;
}

static void far_and_preferred(void)
{
    far_away();
    kit_cfg.mysql.tls = TLS_PREFERRED;
}

static void far_and_verified(void)
{
    far_away();
    kit_cfg.mysql.tls = TLS_VERIFY;
    scripted_server.cipher = "AES";
}

static void far_and_required(void)
{
    far_away();
    kit_cfg.mysql.tls = TLS_REQUIRED;
    scripted_server.cipher = "AES";
}

static void required_without(void)
{
    far_away();
    kit_cfg.mysql.tls = TLS_REQUIRED;
}

static void by_socket(void)
{
    kit_cfg.mysql.host = NULL;
    kit_cfg.mysql.socket = sock;
    kit_cfg.mysql.password_file = secret;
}

static void by_v6(void)
{
    kit_cfg.mysql.host = near_v6;
}

static void x_port(void)
{
    kit_cfg.mysql.port = 33060;
    scripted_server.refused = 2007;
}

static void refused(void)
{
    scripted_server.refused = 2003;
}

static void wrong_certificate(void)
{
    far_away();
    kit_cfg.mysql.tls = TLS_VERIFY;
    scripted_server.refused = 2026;
}

static void wrong_password(void)
{
    scripted_server.refused = 1045;
}

static void hurried(void)
{
    kit_cfg.probe_timeout = 0;
}

#define TLS_ON "Ssl_cipher\tAES\nSsl_version\tTLSv1.3"

static void test_connection(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {.level = CHECK_OK, .name = "connection", .text = "MariaDB 10.11.19 on db1"},
        {MYSQL_9, .level = CHECK_OK, .name = "connection", .text = "MySQL 9.7.4 on db1"},
        {.level = CHECK_OK, .name = "connection", .text = "socket /run", .change = by_socket},
        {.level = CHECK_WARN, .name = "connection", .text = "near [probe]", .change = hurried},
        {.level = CHECK_FAIL, .name = "connection", .hint = "X protocol", .change = x_port},
        {.level = CHECK_FAIL, .name = "connection", .hint = "running?", .change = refused},
        {.level = CHECK_FAIL, .name = "connection", .hint = "user", .change = wrong_password},
        {.level = CHECK_FAIL,
         .name = "connection",
         .hint = "must name db.example",
         .change = wrong_certificate},
        {.level = CHECK_FAIL, .name = "connection", .text = "no TLS", .change = required_without},
        {MARIA, "VARIABLE_NAME='Uptime'", "", 0, CHECK_FAIL, "connection", "uptime"},
        {MARIA, "VARIABLE_NAME='Uptime'", NULL, SCRIPT_LOST, CHECK_FAIL, "connection", NULL,
         "is it"},
        {MARIA, "SELECT CURRENT_USER()", NULL, 1227, CHECK_FAIL, "connection"},
        {MARIA, "DO 1", NULL, 1053, CHECK_FAIL, "connection"},
        {MYSQL_8, .level = CHECK_NOTE, .name = "version", .text = "by its documentation",
         .hint = "--drill"},
        {MARIA, "SHOW SESSION STATUS", TLS_ON, 0, CHECK_OK, "encryption", "TLSv1.3, AES",
         .change = by_socket},
        {.level = CHECK_OK, .name = "encryption", .text = "none is needed", .change = by_socket},
        {MARIA, "SHOW SESSION STATUS", TLS_ON, 0, CHECK_NOTE, "encryption", "any user of this",
         "[mysql] socket"},
        {MARIA, "SHOW SESSION STATUS", NULL, 1227, CHECK_NOTE, "encryption", "any user of this",
         "[mysql] socket"},
        {.level = CHECK_NOTE, .name = "encryption", .text = "this machine", .change = by_v6},
        {MARIA, "SHOW SESSION STATUS", TLS_ON, 0, CHECK_NOTE, "encryption", "is accepted", "verify",
         .change = far_and_required},
        {MARIA, "SHOW SESSION STATUS", TLS_ON, 0, CHECK_OK, "encryption",
         "certificate verified for db", .change = far_and_verified},
        {.level = CHECK_WARN, .name = "encryption", .text = "tls = off", .change = far_and_off},
        {.level = CHECK_WARN, .name = "encryption", .text = "tls = off", .change = named_so},
        {MARIA, "SELECT @@global.have_ssl", "YES", 0, CHECK_WARN, "encryption", "offers TLS",
         .change = far_and_preferred},
        {MYSQL_9, .level = CHECK_WARN, .name = "encryption", .text = "offers TLS",
         .change = far_and_preferred},
        {MARIA, "SELECT @@global.have_ssl", "DISABLED", 0, CHECK_WARN, "encryption",
         "offers no TLS", "ssl_cert", .change = far_and_preferred},
        {MARIA, "SELECT CURRENT_USER()", "@localhost\t0", 0, CHECK_FAIL, "account",
         "has no account `keeper`@`localhost` and logged worldkeeper in as ``@`localhost`",
         "CREATE USER `keeper`@`localhost` IDENTIFIED BY"},
        {MARIA, "SELECT CURRENT_USER()", "@localhost\t0", 0, CHECK_FAIL, "account", NULL,
         "CREATE USER `keeper`@`localhost` IDENTIFIED BY", .change = by_name},
        {MYSQL_9, "SELECT CURRENT_USER()", "@localhost\t0", 0, CHECK_FAIL, "account", NULL,
         "CREATE USER `keeper`@`localhost` IDENTIFIED WITH auth_socket AS '", .change = by_name},
        {MARIA, "SELECT CURRENT_USER()", "keeper@%\t0", 0, CHECK_NOTE, "account", "every host"},
        {MARIA, "SELECT CURRENT_USER()", "keeper@%\t0", 0, CHECK_OK, "account", "`keeper`@`%`",
         .change = far_away},
        {MARIA, "SELECT CURRENT_USER()", "keeper@localhost\t4", 0, CHECK_WARN, "account",
         "at most 4 connections"},
        {MARIA, "SELECT CURRENT_USER()", "\\N\t\\N", 0, CHECK_OK, "account", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], connect_only);
}

/* An account whose way to log in the client library has no plugin for. MariaDB's library says
 * itself what is missing; with Oracle's, what can be done is said here. */
static void test_missing_plugin(void **state)
{
    (void)state;
    kit_config();
    kit_sound_server(MARIA);
    scripted_server.refused = 2059;
    struct check c = kit_check();
    check_connect(&c, NULL);
    kit_expect(&c, CHECK_FAIL, "connection", NULL, client_hint(2059));
#ifndef LIBMARIADB
    kit_expect(&c, CHECK_FAIL, "connection", NULL, "For mysql_native_password install its plugin");
#endif
    assert_null(c.db);
    kit_check_free(&c);
}

/* ---- settings ---- */

static void journal_off(void)
{
    kit_cfg.journal = JOURNAL_OFF;
}

static void journal_wanted(void)
{
    kit_cfg.journal = JOURNAL_SERVER;
}

static void journal_follow(void)
{
    kit_cfg.journal = JOURNAL_FOLLOW;
}

static void dump_all(void)
{
    kit_cfg.dump_all = true;
}

static void method_lock(void)
{
    kit_cfg.dump_method = METHOD_LOCK;
}

static void in_1970(void)
{
    fake_wall_ms = 1000;
}

#define GLOBAL(rights)                                                                             \
    "GRANT " rights " ON *.* TO `keeper`@`localhost`\n"                                            \
    "GRANT " KIT_SCHEMA_RIGHTS " ON `game`.* TO `keeper`@`localhost`"

static void dumps_three_days_apart(void)
{
    kit_cfg.dump_interval = 3 * 86400 * 1000LL;
}

static void position_refused(void)
{
    script_error("SHOW BINARY LOG STATUS", 1227);
}

#define WRITING                                                                                    \
    "UPDATE `game`.`worldkeeper_lease` USE INDEX FOR GROUP BY () SET generation=generation "       \
    "WHERE FALSE"

static void writes_refused(void)
{
    script_error(WRITING, 1290);
}

static void no_lease(void)
{
    script_error(WRITING, DB_NO_TABLE);
}

static void test_settings(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {MARIA, "SELECT @@global.read_only", "1", 0, CHECK_FAIL, "settings", "read_only is on",
         .change = writes_refused},
        /* The server says that it may, whatever its grants look like. */
        {MARIA, "SELECT @@global.read_only", "1", 0, CHECK_NOTE, "settings",
         "but this account may write"},
        /* SUPER is enough in 10.5, and not in 10.11: where the server cannot be asked so. */
        {MARIA, "SELECT @@global.read_only", "1", 0, CHECK_FAIL, "settings", "read_only is on",
         NULL, "SHOW GRANTS", GLOBAL("SUPER"), no_lease},
        {MYSQL_9, "SELECT @@global.read_only", "1", 0, CHECK_NOTE, "settings",
         "but this account may write", NULL, "SHOW GRANTS", GLOBAL("SUPER"), no_lease},
        {MARIA, "SELECT @@global.read_only", "ON", 0, CHECK_NOTE, "settings",
         "but this account may write", NULL, "SHOW GRANTS", GLOBAL("READ_ONLY ADMIN"), no_lease},
        {MYSQL_9, "SELECT @@global.read_only", "1", 0, CHECK_NOTE, "settings",
         "but this account may write", NULL, "SHOW GRANTS", GLOBAL("CONNECTION_ADMIN"), no_lease},
        {MYSQL_9, "SELECT @@global.super_read_only", "1", 0, CHECK_FAIL, "settings",
         "super_read_only is on", "SET GLOBAL super_read_only=OFF", "SHOW GRANTS",
         GLOBAL("CONNECTION_ADMIN")},
        {MARIA, "SELECT @@session.max_statement_time", "2.5", 0, CHECK_WARN, "settings", "= 2.5"},
        {MARIA, "SELECT @@session.max_statement_time", "0", 0, CHECK_OK, "settings"},
        {MARIA, "SELECT @@global.init_file", "/etc/init.sql", 0, CHECK_NOTE, "settings",
         "/etc/init.sql"},
        {MARIA, "SELECT @@global.init_file", "", 0, CHECK_OK, "settings"},
        {MARIA, "SELECT @@global.enforce_storage_engine", "InnoDB", 0, CHECK_FAIL, "settings",
         "no MEMORY table"},
        {MARIA, "SELECT @@global.enforce_storage_engine", "memory", 0, CHECK_OK, "settings"},
        {MARIA, "SELECT @@global.enforce_storage_engine", "", 0, CHECK_OK, "settings"},
        {MYSQL_9, "SELECT @@global.disabled_storage_engines", "MyISAM,MEMORY", 0, CHECK_FAIL,
         "settings", "no MEMORY table"},
        {MYSQL_9, "SELECT @@global.disabled_storage_engines", "MyISAM", 0, CHECK_OK, "settings"},
        {MYSQL_9, "SELECT @@session.sql_require_primary_key", "1", 0, CHECK_NOTE, "settings",
         "copies that it reads", "SESSION_VARIABLES_ADMIN ON *.* TO `keeper`@`localhost`;"},
        {MYSQL_9, "SELECT @@session.sql_require_primary_key", "0", 0, CHECK_OK, "settings"},
        {MYSQL_9, "SELECT @@global.offline_mode", "1", 0, CHECK_WARN, "settings", "offline_mode"},
        {MARIA, "SELECT @@global.max_allowed_packet", "65536", 0, CHECK_WARN, "packet size",
         "64 KiB", "16777216"},
        {MARIA, "DATA_TYPE IN", "letters\nbooks", 0, CHECK_NOTE, "packet size",
         "`letters`, `books`", .change = dump_all},
        {MARIA, "DATA_TYPE IN", "a\nb\nc\nd\ne\nf\ng", 0, CHECK_NOTE, "packet size", "and 2 more",
         .change = dump_all},
        {MARIA, "DATA_TYPE IN", "", 0, CHECK_OK, "packet size", .change = dump_all},
        {.level = CHECK_WARN, .name = "journal", .text = "mode = off", .change = journal_off},
        {MARIA, "SELECT @@global.log_bin", "0", 0, CHECK_WARN, "journal", "log_bin is off",
         "my.cnf"},
        {MARIA, "SELECT @@global.log_bin", "0", 0, CHECK_FAIL, "journal", "log_bin is off",
         .change = journal_wanted},
        {MARIA, "SELECT @@global.log_bin", NULL, 1227, CHECK_WARN, "journal", "cannot be asked"},
        {MARIA, "SELECT @@global.server_id", "0", 0, CHECK_WARN, "journal", "server_id is 0"},
        {MARIA, "SELECT @@global.binlog_format", "MIXED", 0, CHECK_WARN, "journal",
         "binlog_format is MIXED"},
        {MARIA, "SELECT @@global.binlog_row_image", "MINIMAL", 0, CHECK_WARN, "journal",
         "not all columns"},
        {MYSQL_9, "SELECT @@global.binlog_transaction_compression", "1", 0, CHECK_WARN, "journal",
         "transactions are logged compressed"},
        {MARIA, "SHOW MASTER STATUS", "b\t4\tgame\t", 0, CHECK_WARN, "journal",
         "binlog_do_db is set (game)"},
        {MYSQL_9, "SHOW BINARY LOG STATUS", "b\t4\t\tother", 0, CHECK_WARN, "journal",
         "binlog_ignore_db is set (other)"},
        {MARIA, "SELECT @@global.binlog_expire_logs_seconds", "30", 0, CHECK_WARN, "journal",
         "deletes its log after about 30.0 s (binlog_expire_logs_seconds)",
         "SET GLOBAL binlog_expire_logs_seconds=120;"},
        {MYSQL_9, "SELECT @@global.binlog_expire_logs_seconds", "59", 0, CHECK_WARN, "journal",
         "dumps are 1m apart"},
        {MYSQL_9, "SELECT @@global.binlog_expire_logs_seconds", "59", 0, CHECK_OK, "journal",
         .ask2 = "SELECT @@global.binlog_expire_logs_auto_purge", .rows2 = "0"},
        {MYSQL_9, "SELECT @@global.binlog_expire_logs_seconds", "60", 0, CHECK_OK, "journal"},
        {MARIA, "SELECT @@global.binlog_expire_logs_seconds", "0", 0, CHECK_OK, "journal"},
        {MARIA, "SELECT @@global.binlog_expire_logs_seconds", "30", 0, CHECK_OK, "journal",
         .change = journal_follow},
        {MARIA, "SELECT @@global.max_binlog_stmt_cache_size", "4096", 0, CHECK_WARN, "journal",
         "max_binlog_stmt_cache_size is 4.0 KiB", "18446744073709547520"},
        {MARIA, "SELECT @@global.max_binlog_stmt_cache_size", "18446744073709547520", 0, CHECK_OK,
         "journal"},
        {MARIA_11, "SELECT @@global.max_binlog_total_size", "10485760", 0, CHECK_WARN, "journal",
         "after about 10.0 s (max_binlog_total_size)",
         "SET GLOBAL max_binlog_total_size=126877696;", "BINLOG_BYTES_WRITTEN", "1048576.0000"},
        {MARIA_11, "SELECT @@global.max_binlog_total_size", "104857600", 0, CHECK_OK, "journal",
         .ask2 = "BINLOG_BYTES_WRITTEN", .rows2 = "1048576.0000"},
        {MYSQL_8, "SHOW MASTER STATUS", "b\t4\t\t", 0, CHECK_OK, "journal"},
        {MYSQL_9, "SHOW BINARY LOG STATUS", NULL, 1227, CHECK_WARN, "journal",
         "it lacks REPLICATION CLIENT", "GRANT REPLICATION CLIENT ON *.* TO"},
        /* What SUPER includes differs between versions: the server's answer counts. */
        {MARIA_11, "SHOW MASTER STATUS", NULL, 1227, CHECK_WARN, "journal",
         "it lacks BINLOG MONITOR", "GRANT BINLOG MONITOR ON *.* TO", "SHOW GRANTS",
         GLOBAL("SUPER, REPLICATION SLAVE")},
        {MARIA, "SHOW GRANTS", GLOBAL("SUPER, REPLICATION SLAVE"), 0, CHECK_OK, "journal"},
        /* In days, before there was a setting in seconds. */
        {MARIA_10_5, "SELECT @@global.expire_logs_days", "1", 0, CHECK_WARN, "journal",
         "after about 1d (expire_logs_days)", "SET GLOBAL expire_logs_days=6;",
         .change = dumps_three_days_apart},
        {MARIA_10_5, "SELECT @@global.expire_logs_days", "4", 0, CHECK_OK, "journal",
         .change = dumps_three_days_apart},
        {MYSQL_8, "SELECT @@global.log_slave_updates", "0", 0, CHECK_WARN, "journal",
         "log_slave_updates is OFF on a replica", "log_slave_updates = ON under",
         "SHOW REPLICA STATUS", "Waiting for source"},
        {MYSQL_9, "SELECT @@global.log_replica_updates", "0", 0, CHECK_WARN, "journal",
         "log_replica_updates is OFF on a replica", "log_replica_updates = ON under",
         "SHOW REPLICA STATUS", "Waiting for source"},
        {MARIA, "SHOW GRANTS", "GRANT " KIT_SCHEMA_RIGHTS " ON `game`.* TO `keeper`@`localhost`", 0,
         CHECK_WARN, "journal", "it lacks REPLICATION SLAVE", "GRANT REPLICATION SLAVE ON *.*"},
        {MARIA, "SHOW GRANTS", "GRANT " KIT_SCHEMA_RIGHTS " ON `game`.* TO `keeper`@`localhost`", 0,
         CHECK_WARN, "journal", "binlog_ignore_db is set (game)", "remove binlog_ignore_db",
         "SHOW MASTER STATUS", "b\t4\t\tgame"},
        {MARIA, "SELECT @@global.server_id", "0", 0, CHECK_WARN, "journal",
         "binlog_ignore_db is set (game)", "remove binlog_ignore_db", "SHOW MASTER STATUS",
         "b\t4\t\tgame"},
        {MYSQL_9, "SHOW GRANTS", "GRANT " KIT_SCHEMA_RIGHTS " ON `game`.* TO `keeper`@`localhost`",
         0, CHECK_WARN, "journal", "it lacks REPLICATION SLAVE, REPLICATION CLIENT", NULL,
         .change = position_refused},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
}

static void test_clock(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {MARIA, "SELECT UNIX_TIMESTAMP(NOW(6))", "1770000005.0", 0, CHECK_WARN, "clock",
         "5.0 s ahead of"},
        {MYSQL_9, "SELECT UNIX_TIMESTAMP(NOW(6))", "1769999990.5", 0, CHECK_WARN, "clock",
         "behind"},
        {MARIA, "SELECT UNIX_TIMESTAMP(NOW(6))", "1770000001.9", 0, CHECK_OK, "clock"},
        {MARIA, "SELECT UNIX_TIMESTAMP(NOW(6))", "\\N", 0, CHECK_WARN, "clock", "does not report"},
        {MARIA, "SELECT UNIX_TIMESTAMP(NOW(6))", NULL, 1227, CHECK_WARN, "clock"},
        {.level = CHECK_WARN, .name = "clock", .text = "1970", .change = in_1970},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {MARIA, ALL_TABLES, BAG, 0, CHECK_OK, "table size", "the largest table, `bag`", NULL,
         ALL_COLUMNS, BAG_KEYED},
        {MARIA, ALL_TABLES, "bag\tMEMORY\t\\N\t10\t20000000\t1000000\t80000000\t100", 0, CHECK_WARN,
         "table size", "takes 20.0 MiB", "max_heap_table_size=67108864", ALL_COLUMNS, BAG_KEYED},
        {MYSQL_9, ALL_TABLES,
         "bag\tMEMORY\t\\N\t10\t13000000\t200\t16000000\t100\n"
         "box\tMEMORY\t\\N\t10\t15000000\t200\t16000000\t100",
         0, CHECK_WARN, "table size", "`bag` (and 1 more) is 80 %", NULL, ALL_COLUMNS, BAG_KEYED},
        {MARIA, ALL_TABLES, "bag\tMEMORY\t\\N\t10\t10000000000000000\t200\t\\N\t100", 0, CHECK_WARN,
         "memory", "is available", "method = lock", ALL_COLUMNS, BAG_KEYED},
        {MARIA, ALL_TABLES, BAG, 0, CHECK_OK, "memory", "is available", NULL, ALL_COLUMNS,
         BAG_KEYED},
        {MARIA, ALL_TABLES, BAG, 0, CHECK_NOTE, "memory", "the memory of that machine is unknown",
         NULL, ALL_COLUMNS, BAG_KEYED, far_away},
        {MARIA, ALL_TABLES, BAG, 0, CHECK_OK, "method", "lock: set", "auto", ALL_COLUMNS, BAG_KEYED,
         method_lock},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        kit_case_run(&cases[i], kit_ask);
    kit_config();
    kit_sound_server(MYSQL_9);
    script(ALL_TABLES, BAG);
    script(ALL_COLUMNS, BAG_BARE);
    script("SELECT @@session.sql_require_primary_key", "1");
    struct check c = kit_check();
    kit_ask(&c);
    kit_expect(&c, CHECK_FAIL, "settings", "table bag has no key", "or give that table");
    kit_expect(&c, CHECK_NOTE, "tables", "without a primary key: `bag`", NULL);
    kit_check_free(&c);
}

/* A server may claim sizes whose sum is 2^64. It must not wrap to 0. */
static void test_sizes_without_end(void **state)
{
    (void)state;
    struct buf rows = {0};
    for (unsigned i = 0; i < 1u << 14; i++)
        buf_printf(&rows, "%st%05u\tMEMORY\t\\N\t10\t1125899906842624\t0\t\\N\t100", i ? "\n" : "",
                   i);
    kit_config();
    kit_sound_server(MARIA);
    script(ALL_TABLES, rows.p);
    struct check c = kit_check();
    kit_ask(&c);
    kit_expect(&c, CHECK_WARN, "memory", "is available", "method = lock");
    kit_check_free(&c);
    buf_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),          cmocka_unit_test(test_connection),
        cmocka_unit_test(test_missing_plugin), cmocka_unit_test(test_settings),
        cmocka_unit_test(test_clock),          cmocka_unit_test(test_sizes_without_end),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
