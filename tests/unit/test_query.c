/* mysql/conn and its callers: how errors are classified. An answer that did not arrive, or was cut
 * off, is never used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "mysql/lease.h"
#include "mysql/objects.h"
#include "mysql/scan.h"
#include "mysql/schema.h"
#include "mysql/sentinel.h"
#include "scripted_server.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define REFUSED 1064

static void server(bool mariadb)
{
    script_reset();
    scripted_server.version = mariadb ? "10.11.19-MariaDB" : "9.7.4";
}

/* ---- errors ---- */

static void test_errors_of_a_login(void **state)
{
    (void)state;
    static const struct {
        unsigned num;
        enum err_class cls;
        const char *hint;
    } cases[] = {
        {1040, ERR_DENIED, "no free connection"},
        {1203, ERR_DENIED, "no free connection"},
        {1226, ERR_DENIED, "no free connection"},
        {1044, ERR_DENIED, "--check prints the GRANT"},
        {1227, ERR_DENIED, "--check prints the GRANT"},
        {1045, ERR_DENIED, "password_file"},
        {1698, ERR_DENIED, "only the system's user of its name"},
        {1820, ERR_DENIED, "PASSWORD EXPIRE NEVER"},
        {1862, ERR_DENIED, "PASSWORD EXPIRE NEVER"},
        {1524, ERR_DENIED, "caching_sha2_password"},
        {3159, ERR_DENIED, "tls = verify"},
        {4151, ERR_DENIED, "ACCOUNT UNLOCK"},
        {3118, ERR_DENIED, "ACCOUNT UNLOCK"},
        {3032, ERR_DENIED, "offline_mode=OFF"},
        {2002, ERR_UNREACHABLE, "with (13) the server is there"},
        {2003, ERR_UNREACHABLE, "is the server running?"},
        {2005, ERR_UNREACHABLE, "is the server running?"},
        {2007, ERR_UNREACHABLE, "X protocol"},
        {2026, ERR_UNREACHABLE, "TLS handshake"},
        {1053, ERR_UNREACHABLE, ""},
        {1205, ERR_STALLED, ""},
        {1969, ERR_STALLED, ""},
        {3024, ERR_STALLED, ""},
        {1290, ERR_QUERY, "read-only"},
        {3750, ERR_QUERY, "primary key"},
        {1064, ERR_QUERY, ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        struct db_params p = {.host = "x", .tls = 1};
        server(true);
        scripted_server.refused = cases[i].num;
        assert_null(db_open(&p, &e));
        assert_int_equal(e.cls, cases[i].cls);
        assert_int_equal(e.num, cases[i].num);
        assert_non_null(strstr(e.text, "cannot connect: as scripted"));
        assert_non_null(strstr(e.hint, cases[i].hint));
        assert_null(db_open(&p, NULL));
    }
}

/* A loss that took as long as the time to read was no loss. */
static void slowly(const char *sql)
{
    (void)sql;
    fake_mono_ms += 5000;
}

static void test_stalled(void **state)
{
    (void)state;
    struct err e = {0};
    struct db_params p = {.host = "x", .read_timeout = 5000};
    for (int slow = 0; slow < 2; slow++) {
        server(true);
        struct db *db = db_open(&p, &e);
        assert_non_null(db);
        script("SELECT 1", "1\n2");
        script_fail(1, SCRIPT_LOST, true);
        struct db_rows *r = db_select(db, "u", "SELECT 1", &e);
        assert_int_equal(db_next(r, &e), 1);
        if (slow)
            slowly(NULL);
        assert_int_equal(db_next(r, &e), -1);
        assert_int_equal(e.cls, slow ? ERR_STALLED : ERR_UNREACHABLE);
        db_rows_end(r);
        db_close(db);
    }
}

/* MySQL may not let us have tables without keys; that is no reason not to begin. */
static void test_session(void **state)
{
    (void)state;
    struct db_params p = {.host = "x"};
    for (int kind = 0; kind < 2; kind++)
        for (unsigned n = 1; n <= (kind ? 4 : 2); n++)
            for (int lost = 0; lost < 2; lost++) {
                struct err e = {0};
                server(!kind);
                script("SELECT CONCAT(@@SESSION.sql_require_primary_key<>0", "1000");
                script_fail(n, lost ? SCRIPT_LOST : REFUSED, false);
                struct db *db = db_open(&p, &e);
                bool wanted = n > 2 && !lost; /* settings, the session's id, then what may fail */
                assert_int_equal(db != NULL, wanted);
                assert_int_equal(e.cls == ERR_NONE, wanted);
                db_close(db);
            }
}

static void test_one(void **state)
{
    (void)state;
    struct err e = {0};
    server(true);
    struct db *db = script_open();
    script("SELECT a", "x\ny");
    script("SELECT b", "\\N");
    char *v = db_one(db, "SELECT a", &e);
    assert_string_equal(v, "x");
    free(v);
    assert_null(db_one(db, "SELECT b", &e));
    assert_int_equal(e.cls, ERR_NONE);
    assert_null(db_one(db, "SELECT none", &e));
    assert_int_equal(e.cls, ERR_NONE);
    script_fail(1, SCRIPT_LOST, true);
    assert_null(db_one(db, "SELECT a", &e)); /* the rest may have been anything */
    assert_int_equal(e.cls, ERR_UNREACHABLE);
    script_fail(0, 0, false);
    assert_null(db_select(db, "u", "DO 1", &e));
    assert_non_null(strstr(e.text, "no rows"));
    db_close(db);
}

/* ---- each question, and each statement of it ---- */

static unsigned asked(const char *words)
{
    unsigned n = 0;
    for (const char *at = scripted_server.log.p; (at = strstr(at, words)); at++)
        n++;
    return n;
}

static int tables(struct db *db, struct err *e)
{
    struct db_tables t;
    int rc = db_tables(db, "game", true, &t, e);
    rc = rc < 0 ? rc : db_table_keys(db, "game", &t, e);
    db_tables_free(&t);
    return rc;
}

static int own_tables(struct db *db, struct err *e)
{
    struct db_tables t;
    int rc = db_own_tables(db, "game", &t, e);
    db_tables_free(&t);
    rc = rc < 0 ? rc : db_closed_tables(db, "game", &t, e);
    db_tables_free(&t);
    rc = rc < 0 ? rc : db_table_named(db, "game", "bag", &t, e);
    db_tables_free(&t);
    return rc;
}

static int names(struct db *db, struct err *e)
{
    int rc = 0;
    for (int k = DEFINITION_VIEW; k <= DEFINITION_EVENT && rc == 0; k++) {
        struct names n;
        struct db_definition d = {0};
        rc = db_names(db, "game", (enum definition_kind)k, &n, e);
        rc = rc < 0 ? rc : db_definition(db, "game", (enum definition_kind)k, "x", &d, e);
        names_free(&n);
        db_definition_free(&d);
    }
    return rc;
}

static int triggers(struct db *db, struct err *e)
{
    struct db_triggers t;
    int rc = db_triggers(db, "game", &t, e);
    if (rc == 0)
        rc = db_triggers_read(db, "game", &t, e);
    if (rc == 0 && t.count)
        rc = db_trigger_create(db, t.list, "bag", e);
    db_triggers_free(&t);
    return rc;
}

static int figures(struct db *db, struct err *e)
{
    struct db_figures f;
    uint64_t rows;
    char *create = NULL, *schema = NULL;
    int rc = db_figures(db, "game", "bag", &f, e);
    rc = rc < 0 ? rc : db_count(db, "game", "bag", &rows, e);
    if (rc == 0) {
        create = db_create_table(db, "game", "bag", e);
        rc = create ? 0 : -1;
    }
    if (rc == 0) {
        schema = db_schema_name(db, "GAME", e);
        rc = schema ? 0 : -1;
    }
    free(create);
    free(schema);
    return rc;
}

static int lease(struct db *db, struct err *e)
{
    unsigned long holder;
    uint64_t generation;
    int rc = db_lease_create(db, "game", "wk", e);
    rc = rc < 0 ? rc : db_lease_read(db, "game", "wk", &generation, e);
    rc = rc < 0 ? rc : db_lease_raise(db, "game", "wk", 3, "us", e);
    rc = rc < 0 ? rc : db_lease_lock(db, "game", &holder, e);
    return rc < 0 ? rc : db_lease_slot(db, "game", 1, db, e);
}

static int sentinel(struct db *db, struct err *e)
{
    struct db_sentinel s;
    int rc = db_sentinel_create(db, "game", "wk", true, "", e);
    rc = rc < 0 ? rc : db_sentinel_insert(db, "game", "wk", "n", 3, "d", e);
    rc = rc < 0 ? rc : db_sentinel_mark(db, "game", "wk", 3, e);
    return rc < 0 ? rc : db_sentinel_read(db, "game", "wk", &s, e);
}

static int selected_names(struct db *db, struct err *e)
{
    struct names n;
    int rc = db_names_select(db, "SELECT TABLE_NAME FROM x WHERE TABLE_SCHEMA=?", DB_ARGS("game"),
                             &n, e);
    names_free(&n);
    return rc;
}

static int scan_facts(struct db *db, struct err *e)
{
    struct db_scan_facts f;
    int rc = db_scan_facts(db, "game", &f, e);
    if (rc == 0)
        db_scan_facts_free(&f);
    return rc;
}

static void tell_all(bool mariadb)
{
    server(mariadb);
    script("FROM information_schema.TABLES WHERE", "bag\tMEMORY\t7\t1\t2\t3\t4\t5");
    script(
        "TABLE_ROWS, AUTO_INCREMENT, MAX_DATA_LENGTH, ENGINE FROM information_schema.TABLES WHERE",
        "1\t7\t1000\tMEMORY");
    script("FROM information_schema.COLUMNS WHERE",
           "bag\tid\tint(11)\tauto_increment\t1\tPRI\t\\N\nbag\tg\tint(11)\tVIRTUAL "
           "GENERATED\t0\t\t\\N\n"
           "gone\tid\tint(11)\t\t1\tPRI\t\\N");
    script("FROM information_schema.STATISTICS WHERE", "bag\tid\t1\t1\ngone\tid\t1\t1");
    script("SHOW CREATE TABLE", "bag\tCREATE TABLE bag");
    script("SELECT SCHEMA_NAME", "game");
    script("FROM information_schema.TRIGGERS WHERE",
           "t1\tbag\tINSERT\tAFTER\tSET @a=1\tann@%\t\tutf8mb4\tutf8mb4_bin");
    script("SELECT TRIGGER_NAME FROM", "x");
    script("FROM information_schema.VIEWS WHERE", "x\ny");
    script("SHOW CREATE VIEW", "x\tCREATE VIEW x\tutf8mb4\tutf8mb4_bin");
    script("SHOW CREATE TRIGGER",
           "t1\t\tCREATE DEFINER=`ann`@`%` TRIGGER `t1` AFTER INSERT ON `bag` "
           "FOR EACH ROW SET @a=2\tutf8mb4\tutf8mb4_bin");
    script("SELECT IF(GET_LOCK", "0");
    script("SELECT COALESCE", "0");
    script("SELECT COUNT(*)", "1");
    script("SELECT generation FROM", "3");
    script("SELECT nonce, generation, dump", "n\t3\td");
    script("@@lower_case_table_names", "0");
    script("SELECT TABLE_NAME FROM x WHERE TABLE_SCHEMA='game'", "bag");
    script("SELECT IF(TABLE_TYPE='SYSTEM VERSIONED'", "1\tbag\t\t\\N");
}

static void test_each_statement(void **state)
{
    (void)state;
    static int (*const calls[])(struct db *, struct err *) = {
        tables, own_tables, names, triggers, figures, lease, sentinel, selected_names, scan_facts};
    for (size_t i = 0; i < COUNT(calls); i++)
        for (unsigned k = 0; k < 8; k++) {
            struct err e = {0};
            tell_all(k & 1);
            struct db *db = script_open();
            assert_int_equal(calls[i](db, &e), 0);
            unsigned all = scripted_server.asked;
            assert_true(all > 0);
            for (unsigned n = 1; n <= all; n++) {
                e = (struct err){0};
                script_fail(n, k & 2 ? REFUSED : SCRIPT_LOST, k & 4);
                int rc = calls[i](db, &e);
                /* what has no rows cannot break off in them */
                if (rc == 0 && !(k & 4))
                    fail_msg("call %zu: statement %u of %u failed unseen", i, n, all);
                assert_int_equal(rc < 0, e.cls != ERR_NONE);
            }
            db_close(db);
        }
}

/* The tables are read again if a listed one has no columns, or no keys though its columns show one:
 * at most five times, and only while that table can be read. */
static void test_looks_beside_an_alter(void **state)
{
    (void)state;
    static const struct {
        const char *columns, *keys;
        unsigned why; /* what the server says to a SELECT from the table */
        unsigned looks, looks_at_keys;
        int rc;
    } cases[] = {
        {"bag\tid\tint\t\t1\tPRI\t\\N", "bag\tid\t1\t1", 0, 1, 1, 0},
        {"bag\tid\tint\t\t1\t\t\\N", "", 0, 1, 1, 0},
        {"bag\tid\tint\t\t1\tPRI\t\\N", "bag\tid\t1\t0", 0, 1, 1, 0}, /* a unique key */
        {"bag\tid\tint\t\t1\tPRI\t\\N", "", 0, 1, 5, 0},
        {"bag\tid\tint\t\t1\tPRI\t\\N", "", 1142, 1, 1, 0},
        {"bag\tid\tint\t\t1\tPRI\t\\N", "", 1205, 1, 1, -1},
        {"", "", 0, 5, 1, 0},
        {"", "", 1146, 1, 1, 0},
        {"", "", 1205, 1, 0, -1},
        {"", "", 1317, 1, 0, -1}, /* a KILL says nothing about the table */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        script_reset();
        tell_all(true);
        script("FROM information_schema.COLUMNS WHERE", cases[i].columns);
        script("FROM information_schema.STATISTICS WHERE", cases[i].keys);
        script_error("SELECT 1 FROM `game`.`bag` USE INDEX", cases[i].why);
        if (!cases[i].why)
            script("SELECT 1 FROM `game`.`bag` USE INDEX", "");
        struct db *db = script_open();
        assert_int_equal(tables(db, &e), cases[i].rc);
        assert_int_equal(asked("FROM information_schema.TABLES WHERE"), cases[i].looks);
        assert_int_equal(asked("FROM information_schema.STATISTICS WHERE"), cases[i].looks_at_keys);
        db_close(db);
    }
}

/* A value is read by a statement that also opens the table, again if Galera ended that statement,
 * and without opening the table if it is locked or cannot be opened. */
static void test_one_value_beside_an_alter(void **state)
{
    (void)state;
    static const struct {
        unsigned why; /* what the server says to the statement that opens the table */
        unsigned opens, asks;
        const char *value;
    } cases[] = {
        {0, 1, 0, "opened"},       {1146, 1, 1, "plain"}, {1176, 1, 1, "plain"},
        {1205, 1, 1, "plain"},     {1213, 5, 0, NULL},    {1317, 5, 0, NULL},
        {SCRIPT_LOST, 1, 0, NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        script_reset();
        tell_all(true);
        script("SELECT 'k' y FROM information_schema", "plain");
        script("SELECT * FROM (SELECT 'k' y FROM information_schema", "opened");
        if (cases[i].why)
            script_error("SELECT * FROM (SELECT 'k' y FROM information_schema", cases[i].why);
        struct db *db = script_open();
        char *value = db_one_settled(
            db, "game", "bag", "SELECT ? y FROM information_schema.TRIGGERS", DB_ARGS("k"), &e);
        assert_int_equal(asked("SELECT * FROM (SELECT 'k'"), cases[i].opens);
        assert_int_equal(asked("SELECT 'k' y FROM") - asked("SELECT * FROM (SELECT 'k'"),
                         cases[i].asks);
        assert_int_equal(value == NULL, cases[i].value == NULL);
        assert_int_equal(e.cls != ERR_NONE, cases[i].value == NULL);
        if (value)
            assert_string_equal(value, cases[i].value);
        free(value);
        db_close(db);
    }
}

/* One statement opens the table and reads its triggers. If the table is locked, the triggers are
 * listed twice, each time after SHOW CREATE TABLE, and both lists must be equal. If the table
 * cannot be opened, they are listed once without opening it. */
static void test_triggers_of_a_table(void **state)
{
    (void)state;
    static char bag[] = "bag";
    static char *list[] = {bag};
    static const struct names names = {list, 1};
    static const struct {
        unsigned why;      /* what the server says to a SELECT from the table */
        unsigned why_show; /* and to SHOW CREATE TABLE */
        int rc;
        unsigned looks, shows;
    } cases[] = {
        {0, 0, 0, 1, 0},     {1146, 0, 0, 2, 0},         {1176, 0, 0, 2, 0},
        {1205, 0, 0, 3, 2},  {1213, 0, 0, 3, 2},         {1205, 1205, -1, 1, 1},
        {1317, 0, -1, 1, 0}, {SCRIPT_LOST, 0, -1, 1, 0}, {1205, 1142, 0, 3, 2},
    };
    static const char row[] = "t1\tbag\tINSERT\tAFTER\tSET @a=1\tann@%\t\tutf8mb4\tutf8mb4_bin";
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        struct db_triggers t;
        script_reset();
        server(true);
        script("AND EVENT_OBJECT_TABLE='bag' ORDER", row);
        script("AND EVENT_OBJECT_TABLE='bag' AND 0=(SELECT", row);
        script("SHOW CREATE TABLE", "bag\tCREATE TABLE bag");
        if (cases[i].why)
            script_error("AND EVENT_OBJECT_TABLE='bag' AND 0=(SELECT", cases[i].why);
        if (cases[i].why_show)
            script_error("SHOW CREATE TABLE", cases[i].why_show);
        struct db *db = script_open();
        assert_int_equal(db_triggers_of(db, "game", &names, NULL, &t, &e), cases[i].rc);
        assert_int_equal(asked("FROM information_schema.TRIGGERS"), cases[i].looks);
        assert_int_equal(asked("SHOW CREATE TABLE"), cases[i].shows);
        assert_int_equal(t.count, cases[i].rc == 0);
        assert_int_equal(e.cls == ERR_NONE, cases[i].rc == 0);
        db_triggers_free(&t);
        db_close(db);
    }
}

/* MariaDB shows the columns of UPDATE OF only in the statement. A statement that cannot be read is
 * an error, because a trigger without its columns would fire at every UPDATE. */
static void test_triggers_of_columns(void **state)
{
    (void)state;
    static char bag[] = "bag";
    static char *list[] = {bag};
    static const struct names names = {list, 1};
    static const struct {
        const char *version, *row, *shown, *want;
        unsigned asked;
    } cases[] = {
        {"10.11.19-MariaDB", "UPDATE\tAFTER\tx", "", "AFTER UPDATE ON `chest`", 0},
        {"11.8.9-MariaDB", "UPDATE\tAFTER\t\\N", "", "AFTER UPDATE ON `chest`", 0},
        {"11.8.9-MariaDB", "INSERT\tAFTER\tx", "", "AFTER INSERT ON `chest`", 0},
        {"11.8.9-MariaDB", "UPDATE\tAFTER\tx", "AFTER UPDATE OF v ON bag",
         "AFTER UPDATE OF `v` ON `chest`", 1},
        {"12.1.2-MariaDB", "INSERT,UPDATE\tAFTER\tx", "AFTER INSERT OR UPDATE OF v ON bag",
         "AFTER INSERT OR UPDATE OF `v` ON `chest`", 1},
        {"11.8.9-MariaDB", "UPDATE\tAFTER\tx", "AFTER UPDATE OF v WHEN 1 ON bag", NULL, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err e = {0};
        struct db_triggers t;
        struct buf sql = {0};
        script_reset();
        server(true);
        scripted_server.version = cases[i].version;
        SCOPED(xfree) char *row =
            xasprintf("t1\tbag\t%s\tann@%%\t\tutf8mb4\tutf8mb4_bin", cases[i].row);
        SCOPED(xfree) char *shown = xasprintf(
            "t1\t\tCREATE DEFINER=`ann`@`%%` TRIGGER t1 %s FOR EACH ROW x", cases[i].shown);
        script("AND EVENT_OBJECT_TABLE='bag' AND 0=(SELECT", row);
        script("SHOW CREATE TRIGGER `game`.`t1`", shown);
        struct db *db = script_open();
        int rc = db_triggers_of(db, "game", &names, NULL, &t, &e);
        assert_int_equal(rc, cases[i].want ? 0 : -1);
        assert_int_equal(asked("SHOW CREATE TRIGGER"), cases[i].asked);
        if (cases[i].want) {
            db_trigger_sql(&sql, t.list, "chest");
            assert_non_null(strstr(sql.p, cases[i].want));
        } else {
            assert_non_null(strstr(e.text, "the events of trigger t1 cannot be read"));
        }
        buf_free(&sql);
        db_triggers_free(&t);
        db_close(db);
    }
}

/* ---- what answers mean ---- */

static void test_place_in_the_log(void **state)
{
    (void)state;
    struct db_binlog_pos p;
    for (int mariadb = 0; mariadb < 2; mariadb++) {
        server(mariadb);
        script(mariadb ? "SHOW MASTER STATUS" : "SHOW BINARY LOG STATUS", "bin.000007\t4711\t\t");
        script(mariadb ? "SELECT @@global.gtid_binlog_pos" : "SELECT @@global.gtid_executed",
               "0-1-9");
        script("SELECT CONCAT_WS", "0-1-9");
        struct db *db = script_open();
        db_binlog_pos(db, &p);
        assert_string_equal(p.file, "bin.000007");
        assert_int_equal(p.pos, 4711);
        assert_string_equal(p.gtid, "0-1-9");
        assert_string_equal(p.gtid_after, "");
        script("SELECT CONCAT_WS", "0-1-10");
        db_binlog_pos(db, &p);
        assert_string_equal(p.gtid_after, mariadb ? "" : "0-1-10");
        script_error(mariadb ? "SHOW MASTER STATUS" : "SHOW BINARY LOG STATUS", 1227);
        db_binlog_pos(db, &p);
        assert_string_equal(p.file, "");
        assert_string_equal(p.gtid, "");
        db_close(db);
    }
}

/* Cut where it is too long, but never inside of a number. */
static void test_long_gtid(void **state)
{
    (void)state;
    struct db_binlog_pos p;
    struct buf b = {0};
    for (int i = 0; i < 100; i++)
        buf_printf(&b, "%s0-1-1%03d", i ? "," : "", i);
    server(true);
    script("SHOW MASTER STATUS", "bin.000007\t4\t\t");
    script("SELECT @@global.gtid_binlog_pos", b.p);
    struct db *db = script_open();
    db_binlog_pos(db, &p);
    assert_int_equal(strncmp(b.p, p.gtid, strlen(p.gtid)), 0);
    assert_int_equal(b.p[strlen(p.gtid)], ',');
    db_close(db);
    buf_free(&b);
}

static void test_numbers(void **state)
{
    (void)state;
    server(true);
    script("SELECT @@global.small", "17");
    script("SELECT @@global.huge", "18446744073709551615");
    script("SELECT @@global.empty", "");
    script("SELECT @@global.nothing", "\\N");
    struct db *db = script_open();
    assert_int_equal(db_variable_number(db, "small"), 17);
    assert_true(db_variable_number(db, "huge") == INT64_MAX);
    assert_int_equal(db_variable_number(db, "empty"), -1);
    assert_int_equal(db_variable_number(db, "nothing"), -1);
    assert_int_equal(db_variable_number(db, "missing"), -1);
    db_close(db);
}

static void test_locks(void **state)
{
    (void)state;
    struct err e = {0};
    unsigned long holder = 0;
    server(true);
    script("SELECT IF(GET_LOCK", "0");
    script("SELECT COALESCE", "42"); /* it still loads under the lease that it lost */
    struct db *db = script_open();
    assert_int_equal(db_lease_lock(db, "game", &holder, &e), 0);
    assert_int_equal(holder, 42);
    script("SELECT IF(GET_LOCK", "17");
    assert_int_equal(db_lease_lock(db, "game", &holder, &e), 0);
    assert_int_equal(holder, 17);
    assert_int_equal(db_lease_slot(db, "game", 1, db, &e), -1);
    assert_int_equal(e.cls, ERR_BUSY);
    script("SELECT IF(GET_LOCK", "\\N");
    assert_int_equal(db_lease_lock(db, "game", &holder, &e), -1);
    assert_int_equal(e.cls, ERR_QUERY);
    assert_int_equal(db_lease_slot(db, "game", 1, db, &e), -1);
    assert_int_equal(e.cls, ERR_QUERY);
    db_close(db);
}

/* A sentinel of an older version gets the column for the marker. */
static void test_marker_in_an_old_sentinel(void **state)
{
    (void)state;
    struct err e = {0};
    server(true);
    script_error("UPDATE LOW_PRIORITY `game`.`wk` " DB_ONLY_TABLE " SET beat=3", 1054);
    struct db *db = script_open();
    assert_int_equal(db_sentinel_mark(db, "game", "wk", 3, &e), -1);
    assert_true(script_was_asked("ALTER TABLE `game`.`wk` ADD COLUMN beat"));
    script_error("ALTER TABLE `game`.`wk` ADD COLUMN beat", 1142);
    assert_int_equal(db_sentinel_mark(db, "game", "wk", 3, &e), -1);
    assert_int_equal(e.num, 1142);
    db_close(db);
}

static void test_missing_lease(void **state)
{
    (void)state;
    struct err e = {0};
    uint64_t generation = 7;
    struct db_sentinel s;
    server(true);
    script_error("SELECT generation FROM", 1146);
    script_error("SELECT nonce, generation, dump FROM", 1146);
    struct db *db = script_open();
    assert_int_equal(db_lease_read(db, "game", "wk", &generation, &e), 0);
    assert_int_equal(generation, 0);
    assert_int_equal(db_sentinel_read(db, "game", "wk", &s, &e), -1);
    assert_non_null(strstr(e.hint, "--init"));
    assert_int_equal(db_sentinel_read(db, "game", "wk", &s, NULL), -1);
    script_error("SELECT generation FROM", 1142);
    assert_int_equal(db_lease_read(db, "game", "wk", &generation, NULL), -1);
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_of_a_login),
        cmocka_unit_test(test_stalled),
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_each_statement),
        cmocka_unit_test(test_looks_beside_an_alter),
        cmocka_unit_test(test_one_value_beside_an_alter),
        cmocka_unit_test(test_triggers_of_a_table),
        cmocka_unit_test(test_triggers_of_columns),
        cmocka_unit_test(test_place_in_the_log),
        cmocka_unit_test(test_long_gtid),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_marker_in_an_old_sentinel),
        cmocka_unit_test(test_missing_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
