#include "db/conn_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/text.h"
#include "db/packet.h"

struct db_rows {
    struct db *db;
    MYSQL_RES *res;
    MYSQL_ROW row;
    unsigned long *lengths;
    uint64_t count;
    mono_t began;
};

static enum err_class class_of(unsigned num)
{
    switch (num) {
    case 2002: /* no socket, refused */
    case 2003:
    case 2005: /* unknown host */
    case 2006: /* gone away */
    case 2007: /* another protocol */
    case 2013: /* lost */
    case 2014: /* out of sync: the stream broke */
    case CLIENT_TLS_FAILED:
    case 2027: /* malformed packet */
    case 2055:
    case 1053: /* shutdown in progress */
    case 1152: /* aborted connection */
    case 1158: /* network read error */
    case 1159: /* network read timeout */
    case 1927: /* connection was killed */
    case 4031: /* disconnected for inactivity */
        return ERR_UNREACHABLE;
    case DB_LOCK_TIMEOUT:
    case 1969: /* max_statement_time */
    case 3024: /* max_execution_time */
        return ERR_STALLED;
    case 1040: /* too many connections */
    case 1044:
    case 1045:
    case 1129: /* host blocked */
    case 1130: /* host not allowed */
    case 1142:
    case 1143:
    case 1203: /* max_user_connections */
    case 1226: /* user limit */
    case 1227: /* needs a privilege */
    case 1251: /* authentication protocol */
    case 1370: /* routine rights */
    case 1524: /* the server has not the plugin that the account logs in by */
    case 1698:
    case 1820: /* password must be changed */
    case 1862: /* password expired */
    case 2054: /* authentication protocol refused */
    case 2059: /* authentication plugin cannot be loaded */
    case 2061:
    case 3032: /* offline_mode, MySQL */
    case 3118: /* account locked, MySQL */
    case 3159: /* only over TLS or a socket */
    case 4151: /* account locked, MariaDB */
        return ERR_DENIED;
    default:
        return ERR_QUERY;
    }
}

static void hint_for(unsigned num, struct err *e)
{
    if (!e)
        return;
    if (db_no_connection(e))
        err_hint(e,
                 "the server has no free connection for this account; raise the limit or end some");
    else if (num == 1142 || num == 1143 || num == 1044 || num == 1227 || num == 1370)
        err_hint(e, "worldkeeper --check prints the GRANT to type");
    else if (num == 1045 || num == 1698)
        err_hint(e,
                 "check [mysql] user and password_file, which a running supervisor reads again at "
                 "SIGHUP only; an account with unix_socket or "
                 "auth_socket lets in only the system's user of its name; worldkeeper(8) shows "
                 "under EXAMPLES how one is made");
    else if (num == 1820 || num == 1862)
        err_hint(e, "ALTER USER … IDENTIFIED BY … PASSWORD EXPIRE NEVER");
    else if (num == 1524)
        err_hint(e, "ALTER USER … IDENTIFIED WITH caching_sha2_password BY …: this server knows no "
                    "other passwords");
    else if (num == 3159)
        err_hint(e, "[mysql] tls = verify, or the server's socket");
    else if (num == 4151 || num == 3118)
        err_hint(e, "ALTER USER … ACCOUNT UNLOCK");
    else if (num == 2002 || num == 2003 || num == 2005)
        err_hint(e, "is the server running? check [mysql] socket, or host and port; with (13) the "
                    "server is there, and this user may not reach its socket");
    else if (num == CLIENT_TLS_FAILED)
        err_hint(e, "the TLS handshake failed; check [mysql] tls and tls_ca");
    else if (num == DB_TABLE_FULL)
        err_hint(e, "the server has no room for so large a table: raise max_heap_table_size, the "
                    "maximum_max_heap_table_size that it may have been started with, or its memory "
                    "or disk");
    else if (num == 1153)
        db_packet_hint(e, DB_PACKET_UNKNOWN);
    else if (num == 1286 || num == 3161 ||
             (num == 1290 && strstr(e->text, "NO_ENGINE_SUBSTITUTION"))) /* it is enforced */
        err_hint(e, DB_ENGINE_HINT);
    else if (num == 1290)
        err_hint(e, "the server is read-only; worldkeeper needs the one that takes writes");
    else if (client_hint(num))
        err_hint(e, "%s", client_hint(num));
    else if (num == 3032)
        err_hint(e,
                 "its administrator keeps everybody out: SET GLOBAL offline_mode=OFF lets them in");
    else if (num == 3750)
        err_hint(e, "give that table a primary key, or GRANT SESSION_VARIABLES_ADMIN ON *.* to the "
                    "account, or SET GLOBAL sql_require_primary_key=OFF");
}

/* An error that the server sends instead of a TLS handshake is wrapped into one of the library's
 * own: "… cannot be verified: 1040 - Too many connections". It is no proof, but what else it is, is
 * a refusal. */
static unsigned error_number(MYSQL *my)
{
    const char *wrapped = strstr(mysql_error(my), "cannot be verified: ");
    unsigned inner =
        wrapped ? (unsigned)strtoul(wrapped + strlen("cannot be verified: "), NULL, 10) : 0;
    return inner ? inner : mysql_errno(my);
}

/* A lost connection that took as long as the read timeout was no loss: the server gave no answer.
 */
static int fail_with(const struct db *db, unsigned num, const char *text, mono_t began,
                     const char *what, struct err *e)
{
    char limit[TEXT_SHORT];
    bool lost = num == 2013 || num == 2006;
    bool late = (lost || num == 2002 || num == 2003) && db->read_timeout > 0 &&
                mono_since(clock_mono(), began) >= db->read_timeout - 100;
    if (late && lost)
        err_set(e, ERR_STALLED, (int)num, "%s: no answer within %s: %s (%u)", what,
                text_duration(db->read_timeout, limit), text, num);
    else
        err_set(e, late ? ERR_STALLED : class_of(num), (int)num, "%s: %s (%u)", what, text, num);
    hint_for(num, e);
    if (late && lost)
        err_hint(e, "SHOW PROCESSLIST in the server tells what it waits for");
    return -1;
}

int db_fail(struct db *db, mono_t began, const char *what, struct err *e)
{
    return fail_with(db, error_number(db->my), mysql_error(db->my), began, what, e);
}

int db_fail_stmt(struct db *db, MYSQL_STMT *stmt, mono_t began, const char *what, struct err *e)
{
    return fail_with(db, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), began, what, e);
}

static void set_seconds(MYSQL *my, enum mysql_option opt, int64_t ms)
{
    unsigned s = (unsigned)((ms + 999) / 1000);
    mysql_options(my, opt, &s);
}

static void set_options(MYSQL *my, const struct db_params *p)
{
    unsigned local = p->bulk;
    set_seconds(my, MYSQL_OPT_CONNECT_TIMEOUT, p->connect_timeout);
    set_seconds(my, MYSQL_OPT_READ_TIMEOUT, p->read_timeout);
    set_seconds(my, MYSQL_OPT_WRITE_TIMEOUT, p->read_timeout);
    client_prepare(my);
    mysql_options(my, MYSQL_OPT_LOCAL_INFILE, &local);
    client_tls(my, p->tls, p->socket != NULL, p->tls_ca);
}

/* MySQL may ask for a key that a table of the game has not, or make one up. Without the right to
 * have it otherwise such a table is refused when it comes to it, and others are not. */
static int tables_as_told(struct db *db, struct err *e)
{
    struct err why = {0};
    char *on = db_one(
        db,
        "SELECT @@SESSION.sql_require_primary_key OR @@SESSION.sql_generate_invisible_primary_key",
        &why);
    if (on && strcmp(on, "0") != 0)
        db_exec(db, "SET SESSION sql_require_primary_key=0, sql_generate_invisible_primary_key=0",
                &why);
    free(on);
    if (!db_unanswered(&why))
        return 0;
    *e = why;
    return -1;
}

#define USUAL_MODE "sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone='+00:00'"

int db_as_usual(struct db *db, struct err *e)
{
    return db_exec(db, "SET NAMES binary", e) < 0 ? -1 : db_exec(db, "SET SESSION " USUAL_MODE, e);
}

/* Nothing that a global setting says may change what we read or write: a sql_select_limit would
 * make half a table look whole. A session idle in wait_timeout loses the lease. */
static int session_setup(struct db *db, struct err *e)
{
    if (db_exec(db, "SET NAMES binary", e) < 0 ||
        db_exec(
            db,
            "SET SESSION " USUAL_MODE ", "
            "foreign_key_checks=0, unique_checks=0, sql_notes=0, autocommit=1, "
            "sql_select_limit=18446744073709551615, sql_big_selects=1, sql_quote_show_create=1, "
            "wait_timeout=86400, net_write_timeout=600",
            e) < 0 ||
        db_exec(db, "SET SESSION TRANSACTION READ WRITE", e) < 0)
        return -1;
    if (db_is_mariadb(db))
        return db_exec(db, "SET SESSION max_statement_time=0", e);
    return db_exec(db, "SET SESSION max_execution_time=0", e) < 0 ? -1 : tables_as_told(db, e);
}

/* A greeting in another protocol is a lost connection to Connector/C, but it words it like none, or
 * one in which the password has the oldest form. */
static void hint_for_greeting(const struct db *db, struct err *e)
{
    unsigned num = mysql_errno(db->my);
    const char *text = mysql_error(db->my);
    if (e && (num == 2007 || (num == 2013 && text_starts(text, "Can't connect")) ||
              strstr(text, "'mysql_old_password'")))
        err_hint(e, "what answers there is no MySQL or MariaDB, or its X protocol (port 33060): "
                    "check [mysql] socket, or host and port");
}

struct db *db_open(const struct db_params *p, struct err *e)
{
    struct db *db = xcalloc(1, sizeof *db);
    mono_t began = clock_mono();
    db->my = mysql_init(NULL);
    if (!db->my) {
        err_set(e, ERR_SYSTEM, ENOMEM, "cannot set up the client library");
        goto fail;
    }
    set_options(db->my, p);
    db_bulk_prepare(db); /* a rogue server must not get at our files */
    db->bulk = p->bulk;
    db->read_timeout = p->connect_timeout;
    if (!mysql_real_connect(db->my, p->socket ? NULL : p->host, p->user, p->password, p->schema,
                            p->port, p->socket, 0)) {
        db_fail(db, began, "cannot connect", e);
        hint_for_greeting(db, e);
        goto fail;
    }
    if (p->tls >= 2 && !mysql_get_ssl_cipher(db->my)) { /* Connector/C takes it without */
        fail_with(db, CLIENT_TLS_FAILED, "the server offers no TLS", began, "cannot connect", e);
        goto fail;
    }
    db->read_timeout = p->read_timeout;
    if (session_setup(db, e) < 0)
        goto fail;
    return db;
fail:
    db_close(db);
    return NULL;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    if (db->my)
        mysql_close(db->my);
    free(db);
}

int db_exec_len(struct db *db, const char *sql, size_t len, struct err *e)
{
    mono_t began = clock_mono();
    if (mysql_real_query(db->my, sql, len) != 0)
        return db_fail(db, began, "statement refused", e);
    MYSQL_RES *res = mysql_store_result(db->my);
    if (res)
        mysql_free_result(res);
    else if (mysql_errno(db->my))
        return db_fail(db, began, "statement failed", e);
    return 0;
}

int db_exec(struct db *db, const char *sql, struct err *e)
{
    return db_exec_len(db, sql, strlen(sql), e);
}

int db_execf(struct db *db, struct err *e, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    int rc = db_exec_len(db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

unsigned db_warnings(const struct db *db)
{
    return mysql_warning_count(db->my);
}

uint64_t db_affected(struct db *db)
{
    my_ulonglong n = mysql_affected_rows(db->my);
    return n == (my_ulonglong)-1 ? 0 : n;
}

bool db_is_mariadb(struct db *db)
{
    return strstr(mysql_get_server_info(db->my), "MariaDB") != NULL;
}

unsigned long db_session(const struct db *db)
{
    return mysql_thread_id(db->my);
}

bool db_no_connection(const struct err *e)
{
    return e->num == 1040 || e->num == 1203 || e->num == 1226;
}

bool db_lock_busy(const struct err *e)
{
    return e->num == DB_LOCK_TIMEOUT || e->num == DB_DEADLOCK;
}

bool db_unanswered(const struct err *e)
{
    return e->cls == ERR_UNREACHABLE || e->cls == ERR_STALLED;
}

bool db_table_missing(const struct err *e)
{
    return e->num == DB_NO_TABLE || e->num == DB_NO_SCHEMA;
}

void db_thread_begin(void)
{
    mysql_thread_init();
}

void db_thread_end(void)
{
    mysql_thread_end();
}

struct db_rows *db_select(struct db *db, const char *sql, struct err *e)
{
    mono_t began = clock_mono();
    if (mysql_real_query(db->my, sql, strlen(sql)) != 0) {
        db_fail(db, began, "query refused", e);
        return NULL;
    }
    MYSQL_RES *res = mysql_use_result(db->my);
    if (!res) {
        if (mysql_errno(db->my))
            db_fail(db, began, "query failed", e);
        else
            err_set(e, ERR_QUERY, 0, "the query returned no rows set");
        return NULL;
    }
    struct db_rows *r = xcalloc(1, sizeof *r);
    r->db = db;
    r->res = res;
    return r;
}

int db_next(struct db_rows *r, struct err *e)
{
    /* When a read began matters only for one that takes seconds, and asking the clock takes as long
     * as a small row. */
    if (r->count++ % 64 == 0)
        r->began = clock_mono();
    r->row = mysql_fetch_row(r->res);
    if (r->row) {
        r->lengths = mysql_fetch_lengths(r->res);
        return 1;
    }
    /* NULL is the end of the rows only when there is no error. */
    return mysql_errno(r->db->my) ? db_fail(r->db, r->began, "reading rows", e) : 0;
}

char **db_row(const struct db_rows *r, const unsigned long **lengths)
{
    *lengths = r->lengths;
    return r->row;
}

const char *db_value(const struct db_rows *r, unsigned i)
{
    return r->row[i];
}

size_t db_length(const struct db_rows *r, unsigned i)
{
    return r->lengths[i];
}

unsigned db_fields(const struct db_rows *r)
{
    return mysql_num_fields(r->res);
}

void db_rows_end(struct db_rows *r)
{
    if (!r)
        return;
    mysql_free_result(r->res);
    free(r);
}

char *db_one(struct db *db, const char *sql, struct err *e)
{
    err_clear(e);
    struct db_rows *r = db_select(db, sql, e);
    if (!r)
        return NULL;
    char *value = NULL;
    int got = db_next(r, e);
    if (got == 1 && db_value(r, 0))
        value = xstrndup(db_value(r, 0), db_length(r, 0));
    while (got == 1)
        got = db_next(r, e);
    db_rows_end(r);
    if (got < 0) {
        free(value);
        value = NULL;
    }
    return value;
}
