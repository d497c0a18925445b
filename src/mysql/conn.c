#include "base/line.h"
#include "mysql/conn_int.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/text.h"
#include "config/config.h"
#include "mysql/answer.h"
#include "mysql/galera.h"
#include "mysql/only_table.h"
#include "mysql/packet_limit.h"
#include "mysql/session.h"
#include "sql/literal.h"

struct db_rows {
    struct db *db;
    MYSQL_RES *res;
    MYSQL_ROW row;
    unsigned long *lengths;
    char *form;     /* NULL if the columns may contain any bytes */
    size_t columns; /* number of expected columns; more are accepted only with `open` */
    bool open;
    bool checked;     /* the columns of this answer were checked */
    bool all_answers; /* rows of all answers are returned, if there are several statements */
    uint64_t count, bytes;
    mono_t began;
};

/* The library's errors for malformed packets. */
#define BRIEF_WAIT "1" /* seconds */
#define MALFORMED_ROW 2000
#define MALFORMED 2027
/* Proxies may answer the plain form themselves, as ProxySQL does, with an id of their own. */
#define ASK_SESSION "SELECT 0+CONNECTION_ID()"

#define HINT_GRANT "worldkeeper --check prints the GRANT to type"
#define HINT_FULL "the server has no free connection for this account; raise the limit or end some"
#define HINT_LOGIN                                                                                 \
    "check [mysql] user and password_file, which a running supervisor reads again at SIGHUP "      \
    "only; "                                                                                       \
    "an account with unix_socket or auth_socket lets in only the system's user of its name; "      \
    "worldkeeper(8) shows under EXAMPLES how one is made"
#define HINT_RUNNING                                                                               \
    "is the server running? check [mysql] socket, or host and port; with (13) the server is "      \
    "there, and this user may not reach its socket"
#define HINT_EXPIRED "ALTER USER … IDENTIFIED BY … PASSWORD EXPIRE NEVER"
#define HINT_UNLOCK "ALTER USER … ACCOUNT UNLOCK"

#define HINT_TEMPORARY                                                                             \
    "a temporary table of the server itself is full: make room on the file system of its tmpdir "  \
    "(SELECT @@tmpdir), or raise tmp_disk_table_size (MariaDB), temptable_max_mmap (MySQL)"
#define HINT_COLLATION                                                                             \
    "the definition is from a newer server, or from the other vendor: SHOW COLLATION and SHOW "    \
    "CHARACTER "                                                                                   \
    "SET say what this one knows; give it the server that the dump is of, or a newer one"
#define HINT_ALGORITHM                                                                             \
    "the server may not change the table as it has to: SET GLOBAL alter_algorithm='DEFAULT' "      \
    "(MariaDB), and take alter_algorithm out of its config file"

/* Errors of the library (from 2000 on) and of the servers that mean more than a rejected
 * statement, with their class and a hint. */
static const struct known_error {
    unsigned num;
    enum err_class cls;
    const char *hint;
} known_errors[] = {
    {2002, ERR_UNREACHABLE, HINT_RUNNING}, /* no socket, or refused */
    {2003, ERR_UNREACHABLE, HINT_RUNNING},
    {2005, ERR_UNREACHABLE, HINT_RUNNING}, /* unknown host */
    {2006, ERR_UNREACHABLE, NULL},         /* gone away */
    {2007, ERR_UNREACHABLE, NULL},         /* another protocol version */
    {2013, ERR_UNREACHABLE, NULL},         /* lost */
    {2014, ERR_UNREACHABLE, NULL},         /* out of sync: the stream is broken */
    {CLIENT_TLS_FAILED, ERR_UNREACHABLE, "the TLS handshake failed; check [mysql] tls and tls_ca"},
    {MALFORMED_ROW, ERR_UNREACHABLE, NULL},
    {MALFORMED, ERR_UNREACHABLE, NULL},
    {2055, ERR_UNREACHABLE, NULL},
    {1053, ERR_UNREACHABLE, NULL}, /* shutdown in progress */
    {1152, ERR_UNREACHABLE, NULL}, /* aborted connection */
    {1158, ERR_UNREACHABLE, NULL}, /* network read error */
    {1159, ERR_UNREACHABLE, NULL}, /* network read timeout */
    {1927, ERR_UNREACHABLE, NULL}, /* connection was killed */
    {4031, ERR_UNREACHABLE, NULL}, /* disconnected for inactivity */
    {DB_LOCK_TIMEOUT, ERR_STALLED, NULL},
    /* the node answers no queries about its data */
    {GALERA_NOT_PRIMARY, ERR_STALLED, GALERA_PRIMARY_HINT},
    {1969, ERR_STALLED, NULL},     /* max_statement_time */
    {3024, ERR_STALLED, NULL},     /* max_execution_time */
    {1040, ERR_DENIED, HINT_FULL}, /* too many connections */
    {1203, ERR_DENIED, HINT_FULL}, /* max_user_connections */
    {1226, ERR_DENIED, HINT_FULL}, /* user limit */
    {1044, ERR_DENIED, HINT_GRANT},
    {1142, ERR_DENIED, HINT_GRANT},
    {1143, ERR_DENIED, HINT_GRANT},
    {1227, ERR_DENIED, HINT_GRANT}, /* needs a privilege */
    {1370, ERR_DENIED, HINT_GRANT}, /* routine privileges */
    {1045, ERR_DENIED, HINT_LOGIN},
    {1698, ERR_DENIED, HINT_LOGIN},
    {1129, ERR_DENIED, NULL}, /* host blocked */
    {1130, ERR_DENIED, NULL}, /* host not allowed */
    {1251, ERR_DENIED, NULL}, /* authentication protocol */
    {1524, ERR_DENIED,        /* the server lacks the account's authentication plugin */
     "ALTER USER … IDENTIFIED WITH caching_sha2_password BY …: this server knows no other "
     "passwords"},
    {1820, ERR_DENIED, HINT_EXPIRED}, /* password must be changed */
    {1862, ERR_DENIED, HINT_EXPIRED}, /* password expired */
    {2054, ERR_DENIED, NULL},         /* authentication protocol refused */
    {2059, ERR_DENIED, NULL},         /* authentication plugin cannot be loaded */
    {2061, ERR_DENIED, NULL},
    {CLIENT_NOT_ALLOWED, ERR_DENIED,
     "this plugin sends the password in clear text: it is allowed only over the server's socket or "
     "with tls = verify"},
    {3032, ERR_DENIED, /* offline_mode, MySQL */
     "its administrator locked out all other accounts: " DB_UNSET_FOR_GOOD("offline_mode", "OFF")},
    {3118, ERR_DENIED, HINT_UNLOCK}, /* account locked, MySQL */
    {4151, ERR_DENIED, HINT_UNLOCK}, /* account locked, MariaDB */
    /* the server accepts the account only over these */
    {3159, ERR_DENIED, "use [mysql] tls = verify, or the server's socket"},
    {DB_TABLE_FULL, ERR_QUERY,
     "the table is too large for the server: raise max_heap_table_size (and "
     "maximum_max_heap_table_size, if set), or the server's memory or disk"},
    {1286, ERR_QUERY, DB_ENGINE_HINT},
    {3161, ERR_QUERY, DB_ENGINE_HINT},
    {1290, ERR_QUERY, "the server is read-only; worldkeeper needs the server that takes writes"},
    {1050, ERR_QUERY,
     "an object of that name already exists: SHOW FULL TABLES shows whether it is a table or a "
     "view; rename it, or drop it if it is not needed"},
    {1054, ERR_QUERY,
     "the table or view was altered and has no such column: SHOW CREATE TABLE shows its "
     "definition; for worldkeeper's own tables, worldkeeper --check shows the correct one"},
    {1273, ERR_QUERY, HINT_COLLATION},
    {1115, ERR_QUERY, HINT_COLLATION},
    {1845, ERR_QUERY, HINT_ALGORITHM},
    {1846, ERR_QUERY, HINT_ALGORITHM},
    {3098, ERR_QUERY,
     "MySQL Group Replication refuses rows in MEMORY tables: keep the world on a server that is "
     "not a member"},
    {3750, ERR_QUERY,
     "give that table a primary key, or GRANT SESSION_VARIABLES_ADMIN ON *.* to the account, "
     "or " DB_UNSET_FOR_GOOD("sql_require_primary_key", "OFF")},
};

/* Errors with several meanings, which their texts distinguish. The first match has precedence
 * over the hint above. */
static const struct {
    unsigned num;
    const char *text, *hint;
} variants[] = {
    {1290, "NO_ENGINE_SUBSTITUTION", DB_ENGINE_HINT}, /* an engine is enforced */
    {1290, "read-only", NULL},
    {1290, "read_only", NULL},
    {1290, "option",
     "the server was started with the option that the error names: remove it from its config file "
     "or command line, and restart the server, which empties MEMORY tables: dump first"},
    {DB_TABLE_FULL, "(temporary)", HINT_TEMPORARY},
    {DB_TABLE_FULL, "#sql", HINT_TEMPORARY},
    {DB_IS_VIEW, "(null)", DB_VIEW_HINT},
    {1184, "init_connect",
     "the server's init_connect statement fails for this account: SHOW GLOBAL VARIABLES LIKE "
     "'init_connect'"},
};

static const char *hint_of(unsigned num, const char *text, const char *usual)
{
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (variants[i].num == num && strstr(text, variants[i].text))
            return variants[i].hint ? variants[i].hint : usual;
    return usual;
}

static const struct known_error *conn_known(unsigned num)
{
    static const struct known_error refused = {0, ERR_QUERY, NULL};
    for (size_t i = 0; i < sizeof known_errors / sizeof *known_errors; i++)
        if (known_errors[i].num == num)
            return &known_errors[i];
    return &refused;
}

/* Returns the error number. If the server sends an error instead of a TLS handshake, the library
 * wraps it into one of its own: "… cannot be verified: 1040 - Too many connections". The server
 * is not verified then, but the refusal is used. */
static unsigned error_number(MYSQL *my)
{
    const char *wrapped = strstr(mysql_error(my), "cannot be verified: ");
    unsigned inner =
        wrapped ? (unsigned)strtoul(wrapped + strlen("cannot be verified: "), NULL, 10) : 0;
    return inner ? inner : mysql_errno(my);
}

#define INVALID "the server's answer is invalid: "

/* Shuts the connection down, so that nothing more is read from the server or sent to it. */
static void hang_up(const struct db *db)
{
    int fd = client_socket(db->my);
    if (fd >= 0)
        shutdown(fd, SHUT_RDWR);
}

static void hint_invalid(struct err *e)
{
    err_hint(e, "this is not how MySQL or MariaDB answers, so the answer was discarded: check what "
                "listens at [mysql] socket, or host and port");
}

int db_invalid(struct db *db, struct err *e, const char *what, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, what);
    line_vset(text, sizeof text, what, ap);
    va_end(ap);
    hang_up(db);
    err_set(e, ERR_UNREACHABLE, 0, INVALID "%s", text);
    hint_invalid(e);
    return -1;
}

/* A connection lost after the read timeout means that the server did not answer in time. */
static int fail_with(const struct db *db, unsigned num, const char *text, mono_t began,
                     const char *what, struct err *e)
{
    char limit[TEXT_SHORT];
    bool outside = num == GALERA_NOT_PRIMARY && strstr(text, "WSREP");
    bool lost = num == 2013 || num == 2006;
    bool invalid = num == MALFORMED || num == MALFORMED_ROW;
    bool late = (lost || num == 2002 || num == 2003) && db->read_timeout > 0 &&
                mono_since(clock_mono(), began) >= db->read_timeout - 100;
    if (late && lost)
        err_set(e, ERR_STALLED, (int)num, "%s: no answer within %s: %s (%u)", what,
                text_duration(db->read_timeout, limit), text, num);
    else
        err_set(e, late ? ERR_STALLED : conn_known(num)->cls, (int)num, "%s: %s%s (%u)", what,
                invalid   ? INVALID
                : outside ? "this node is not in the primary component of its Galera cluster: "
                          : "",
                text, num);
    const char *hint =
        client_hint(num) ? client_hint(num) : hint_of(num, text, conn_known(num)->hint);
    if (late && lost)
        hint = "SHOW PROCESSLIST in the server shows what it waits for";
    if (hint)
        err_hint(e, "%s", hint);
    if (num == DB_TOO_LONG)
        db_packet_hint(e, DB_PACKET_UNKNOWN);
    if (invalid) {
        hang_up(db);
        hint_invalid(e);
    }
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

static void conn_set_options(MYSQL *my, const struct db_params *p)
{
    const struct {
        enum mysql_option option;
        int64_t ms;
    } timeouts[] = {{MYSQL_OPT_CONNECT_TIMEOUT, p->connect_timeout},
                    {MYSQL_OPT_READ_TIMEOUT, p->read_timeout},
                    {MYSQL_OPT_WRITE_TIMEOUT, p->read_timeout}};
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        unsigned seconds = (unsigned)((timeouts[i].ms + 999) / 1000);
        mysql_options(my, timeouts[i].option, &seconds);
    }
    unsigned local = p->bulk;
    client_prepare(my);
    mysql_options(my, MYSQL_OPT_LOCAL_INFILE, &local);
}

int db_reset_session(struct db *db, struct err *e)
{
    return db_exec(db, "SET NAMES binary", e) < 0
               ? -1
               : db_exec(db,
                         "SET SESSION sql_mode=" SESSION_SQL_MODE ", time_zone=" SESSION_TIME_ZONE,
                         e);
}

int db_lock_wait(struct db *db, int64_t ms, struct err *e)
{
    /* A client that gives up first leaves a statement that still waits, and a session that keeps
     * its locks. Half, because a statement may wait for several locks in turn. */
    int64_t most = db->read_timeout / 2;
    if (most > 0 && ms > most)
        ms /= (ms + most - 1) / most;
    return db_execf(db, e, "SET SESSION lock_wait_timeout=%d", (int)((ms + 999) / 1000));
}

int db_wait_briefly(struct db *db, const char *was, struct err *e)
{
    return db_exec_with(db,
                        "SET @$=@@SESSION.lock_wait_timeout, SESSION lock_wait_timeout=" BRIEF_WAIT,
                        DB_ARGS(was), e);
}

int db_wait_as_before(struct db *db, const char *was, int rc, struct err *e)
{
    struct err why;
    bool back = db_exec_with(db, "SET SESSION lock_wait_timeout=@$", DB_ARGS(was), &why) == 0;
    return rc < 0 || back ? rc : err_pass(e, &why);
}

/* Sends `sql`, and reads the session's id from the answer; with `several` also the length of the
 * longest statement that the server accepts. */
static int read_facts(struct db *db, bool several, const char *sql, size_t len, struct err *e)
{
    struct db_rows *r = db_select_len(db, several ? "uu" : "u", sql, len, e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        db->session = db_uint(r, 0);
        db->packet = several ? db_uint(r, 1) : 0;
    }
    db_rows_end(r);
    return got;
}

/* Sets variables. If several statements may be sent at once, the facts about the session come with
 * the same request. */
static int set_and_ask(struct db *db, struct buf *sql, bool several, struct err *e)
{
    if (!several)
        return db_exec_len(db, sql->p, sql->len, e);
    buf_adds(sql, ";" ASK_SESSION ",@@max_allowed_packet");
    return read_facts(db, true, sql->p, sql->len, e);
}

static int set_restricted(struct db *db, struct err *e)
{
    struct err why = {0};
    SCOPED(buf_free) struct buf ask = {0}, differs = {0}, set = {0};
    enum server_word word;
    for (size_t i = 0; session_restricted(i, &differs, &set, &word); i++)
        buf_printf(&ask, "%s%s", i ? "," : "SELECT CONCAT(",
                   word == SERVER_WORDS || db_word(db, word) ? differs.p : "0");
    buf_addc(&ask, ')');
    SCOPED(xfree) char *found = db_one(db, ask.p, &why);
    for (size_t i = 0;
         found && session_restricted(i, &differs, &set, &word) && found[i] && !db_unanswered(&why);
         i++)
        if (found[i] == '1')
            db_exec_len(db, set.p, set.len, &why);
    return db_unanswered(&why) ? err_pass(e, &why) : 0;
}

static int session_setup(struct db *db, bool several, bool small, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    bool mariadb = db_is_mariadb(db), missing[SESSION_SETTINGS] = {false};
    size_t from = 0, next = 0;
    int rc = 0;
    while (rc == 0 && !session_ends(next)) {
        from = next;
        session_statement(&sql, &next, small, mariadb, missing);
        rc = set_and_ask(db, &sql, several, e);
        if (rc == 0 || !session_missing(missing, e))
            continue;
        err_clear(e);
        next = from;
        rc = 0;
    }
    if (rc == 0 && !several)
        rc = read_facts(db, false, ASK_SESSION, sizeof ASK_SESSION - 1, e);
    return rc < 0 || mariadb ? rc : set_restricted(db, e);
}

static int no_tls(const struct db *db, struct err *e)
{
    return fail_with(db, CLIENT_TLS_FAILED, "the server offers no TLS", clock_mono(),
                     "cannot connect", e);
}

struct db_params db_params_of(const struct config_mysql *m)
{
    return (struct db_params){.socket = m->socket,
                              .host = m->host,
                              .port = m->port,
                              .user = m->user,
                              .tls_ca = m->tls_ca,
                              .tls = (int)m->tls,
                              .connect_timeout = m->connect_timeout,
                              .read_timeout = m->read_timeout};
}

/* ---- requests of a server for a local file (LOAD DATA LOCAL) ---- */

/* Opens the "file" that the server requests from the library. If nothing is being loaded, such a
 * request is an attack and is refused. No file is ever opened. */
static int feed_open(void **feed, const char *file, void *arg)
{
    (void)file;
    struct db *db = arg;
    *feed = db->feed;
    return db->feed ? 0 : 1;
}

static int feed_read(void *arg, char *out, unsigned room)
{
    struct db_feed *f = arg;
    size_t n = f->left < room ? f->left : room;
    memcpy(out, f->data, n);
    f->data += n;
    f->left -= n;
    return (int)n;
}

static void feed_close(void *arg)
{
    (void)arg;
}

static int feed_error(void *arg, char *text, unsigned size)
{
    (void)arg;
    snprintf(text, size, "the server asked for a file");
    return 2000; /* CR_UNKNOWN_ERROR */
}

/* ---- connecting ---- */

static int no_certificate(const struct peer *peer, const struct db_params *p, struct err *e)
{
    SCOPED(xfree) char *authorities = db_authorities(p);
    err_set(e, ERR_UNREACHABLE, CLIENT_TLS_FAILED,
            "cannot connect: cannot verify the server's certificate for %s against %s: %s (%u)",
            peer->name, authorities, peer->why[0] ? peer->why : "it was not shown",
            CLIENT_TLS_FAILED);
    err_hint(e, "the certificate must name %s and be signed by an authority in tls_ca", peer->name);
    return -1;
}

/* One attempt with one TLS level. */
static int conn_attempt(struct db *db, const struct db_params *p, int tls, struct err *e)
{
    mono_t began = clock_mono();
    struct peer peer;
    if (db->my)
        mysql_close(db->my);
    db->my = mysql_init(NULL);
    if (!db->my)
        return err_set(e, ERR_SYSTEM, ENOMEM, "cannot set up the client library");
    conn_set_options(db->my, p);
    SCOPED(xfree) char *why = client_tls(db->my, p, tls, &peer);
    if (why) {
        err_set(e, ERR_SYSTEM, 0, "cannot connect: %s", why);
        err_hint(e, "or use the server's socket, which needs no TLS: [mysql] socket");
        return -1;
    }
    mysql_set_local_infile_handler(db->my, feed_open, feed_read, feed_close, feed_error, db);
    if (client_connect(db->my, p, &peer)) {
        db->verified = tls == 3 && client_proven(&peer);
        if (tls == 3 && !db->verified)
            return no_certificate(&peer, p, e);
        if (tls < 2 || mysql_get_ssl_cipher(db->my))
            return 0;
        return no_tls(db, e);
    }
    if (peer.asked && !peer.accepted)
        return no_certificate(&peer, p, e);
    db_fail(db, began, "cannot connect", e);
    /* Connector/C reports a greeting in another protocol as a lost connection with a distinct
     * text, or as one that needs the oldest password format. */
    unsigned num = mysql_errno(db->my);
    const char *text = mysql_error(db->my);
    if (num == 2007 || (num == 2013 && text_starts(text, "Can't connect")) ||
        strstr(text, "'mysql_old_password'"))
        err_hint(e, "the answer is not from MySQL or MariaDB, or it is from its X protocol (port "
                    "33060): check [mysql] socket, or host and port");
    return -1;
}

struct db *db_open(const struct db_params *p, struct err *e)
{
    struct db *db = xcalloc(1, sizeof *db);
    int tls = client_tls_first(p->tls, p->socket != NULL);
    db->bulk = p->bulk;
    db->read_timeout = p->connect_timeout;
    int rc = conn_attempt(db, p, tls, e), next;
    while (rc < 0 && (next = client_tls_next(db->my, p->tls, tls)) >= 0) {
        err_clear(e);
        tls = next;
        rc = conn_attempt(db, p, tls, e);
    }
    if (rc < 0 && p->tls >= 2 && error_number(db->my) == CLIENT_TLS_FAILED &&
        !client_offers_tls(db->my))
        rc = no_tls(db, e);
    if (rc == 0) {
        db->read_timeout = p->read_timeout;
        rc = session_setup(db, p->several, false, e);
        if (rc < 0 && e->num == DB_TOO_LONG) {
            err_clear(e);
            rc = conn_attempt(db, p, tls, e) < 0 ? -1 : session_setup(db, p->several, true, e);
        }
        if (rc == 0)
            return db;
    }
    db_close(db);
    return NULL;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    if (db->gate)
        db->gate->end(db);
    if (db->my)
        mysql_close(db->my);
    free(db);
}

int db_check_places(struct db *db, MYSQL_STMT *stmt, size_t places, struct err *e)
{
    unsigned long n = mysql_stmt_param_count(stmt);
    return n == places
               ? 0
               : db_invalid(db, e, "a statement with %lu parameters instead of %zu", n, places);
}

/* Discards the rows of a statement. Some statements, such as OPTIMIZE, return a few. */
static int drop_answer(struct db *db, mono_t began, struct err *e)
{
    MYSQL_RES *res = mysql_use_result(db->my);
    uint64_t n = 0;
    int rc = 0;
    while (res && rc == 0 && mysql_fetch_row(res))
        if (++n > ANSWER_ROWS)
            rc = db_invalid(db, e, "more than %u rows", ANSWER_ROWS);
    if (rc == 0 && mysql_errno(db->my))
        rc = db_fail(db, began, "statement failed", e);
    if (res)
        mysql_free_result(res);
    return rc;
}

int db_exec_now(struct db *db, const char *sql, size_t len, struct err *e)
{
    mono_t began = clock_mono();
    if (mysql_real_query(db->my, sql, len) != 0)
        return db_fail(db, began, "statement refused", e);
    return drop_answer(db, began, e);
}

/* Returns false for statements that only affect the session. */
static bool conn_changes(const char *sql)
{
    static const char *const session[] = {"SET ", "DO ", "USE ", "UNLOCK ", "ROLLBACK"};
    for (size_t i = 0; i < sizeof session / sizeof *session; i++)
        if (text_starts(sql, session[i]))
            return false;
    return true;
}

int db_exec_len(struct db *db, const char *sql, size_t len, struct err *e)
{
    return db->gate && conn_changes(sql) ? db->gate->exec(db, sql, len, e)
                                         : db_exec_now(db, sql, len, e);
}

int db_exec(struct db *db, const char *sql, struct err *e)
{
    return db_exec_len(db, sql, strlen(sql), e);
}

const char *db_number(char out[24], uint64_t n)
{
    snprintf(out, 24, "%" PRIu64, n);
    return out;
}

/* Returns `sql` with its values inserted (conn.h). */
static char *conn_filled(const char *sql, const char *const *args)
{
    struct buf b = {0};
    sql_fill(&b, sql, args);
    return b.p;
}

int db_exec_with(struct db *db, const char *sql, const char *const *args, struct err *e)
{
    SCOPED(xfree) char *full = conn_filled(sql, args);
    return db_exec(db, full, e);
}

int db_execf(struct db *db, struct err *e, const char *fmt, ...)
{
    SCOPED(buf_free) struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    return db_exec_len(db, b.p, b.len, e);
}

uint64_t db_packet(const struct db *db)
{
    return db->packet;
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

bool db_verified(const struct db *db)
{
    return db->verified;
}

char *db_authorities(const struct db_params *p)
{
    struct peer peer = {0};
    SCOPED(xfree) char *none = p->tls_ca ? NULL : peer_authorities(&peer, NULL);
    if (p->tls_ca)
        return xasprintf("tls_ca %s", p->tls_ca);
    return xasprintf("the system's authorities (%s%s%s)", peer.file ? peer.file : "",
                     peer.file && peer.dir ? ", " : "", peer.dir ? peer.dir : "");
}

struct server_version db_version(struct db *db)
{
    return server_version_of(mysql_get_server_info(db->my));
}

bool db_is_mariadb(struct db *db)
{
    return db_version(db).mariadb;
}

const char *db_word(struct db *db, enum server_word w)
{
    return server_word(db_version(db), w);
}

unsigned long db_session(const struct db *db)
{
    return db->session;
}

int64_t db_server_pid(const struct db *db)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    int fd = client_socket(db->my);
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid > 0
               ? peer.pid
               : 0;
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

bool db_in_vain(const struct err *e)
{
    static const int nums[] = {1037 /* out of memory */, 1038, 1041, DB_INTERRUPTED, 0};
    return err_among(e, nums) || db_unanswered(e) || db_lock_busy(e);
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

/* Returns the first answer with rows of a query that the server has begun to answer. The rows
 * are read as the server sends them. */
static struct db_rows *first_rows(struct db *db, mono_t began, struct err *e)
{
    MYSQL_RES *res = mysql_use_result(db->my);
    while (!res && !mysql_errno(db->my) && mysql_next_result(db->my) == 0)
        res = mysql_use_result(db->my);
    if (!res) {
        if (mysql_errno(db->my))
            db_fail(db, began, "query failed", e);
        else
            err_set(e, ERR_QUERY, 0, "the query returned no rows");
        return NULL;
    }
    struct db_rows *r = xcalloc(1, sizeof *r);
    r->db = db;
    r->res = res;
    return r;
}

static struct db_rows *conn_ask(struct db *db, const char *sql, size_t len, struct err *e)
{
    mono_t began = clock_mono();
    assert(db->unread == 0);
    if (mysql_real_query(db->my, sql, len) == 0)
        return first_rows(db, began, e);
    db_fail(db, began, "query refused", e);
    return NULL;
}

static struct db_rows *in_form(struct db_rows *r, const char *form)
{
    if (!r)
        return NULL;
    r->columns = strcspn(form, "*");
    r->open = form[r->columns] == '*';
    r->form = xstrdup(form);
    return r;
}

struct db_rows *db_select_len(struct db *db, const char *form, const char *sql, size_t len,
                              struct err *e)
{
    return in_form(conn_ask(db, sql, len, e), form);
}

int db_send(struct db *db, const char *sql, size_t len, struct err *e)
{
    mono_t began = clock_mono();
    assert(db->unread < DB_AHEAD);
    if (mysql_send_query(db->my, sql, len) != 0)
        return db_fail(db, began, "query refused", e);
    db->counts[db->unread++] = client_count(db->my);
    return 0;
}

unsigned db_unread(const struct db *db)
{
    return db->unread;
}

struct db_rows *db_receive(struct db *db, const char *form, struct err *e)
{
    mono_t began = clock_mono();
    assert(db->unread > 0);
    client_count_from(db->my, db->counts[0]);
    memmove(db->counts, db->counts + 1, --db->unread * sizeof *db->counts);
    if (mysql_read_query_result(db->my) == 0)
        return in_form(first_rows(db, began, e), form);
    db_fail(db, began, "query refused", e);
    return NULL;
}

void db_receive_none(struct db *db)
{
    struct err ignored;
    while (db->unread)
        db_rows_end(db_receive(db, "*", &ignored));
}

struct db_rows *db_select_answers(struct db *db, const char *form, const char *sql, size_t len,
                                  struct err *e)
{
    struct db_rows *r = db_select_len(db, form, sql, len, e);
    if (r)
        r->all_answers = true;
    return r;
}

struct db_rows *db_select(struct db *db, const char *form, const char *sql, struct err *e)
{
    return db_select_len(db, form, sql, strlen(sql), e);
}

struct db_rows *db_select_with(struct db *db, const char *form, const char *sql,
                               const char *const *args, struct err *e)
{
    SCOPED(xfree) char *full = conn_filled(sql, args);
    struct db_rows *r = db_select(db, form, full, e);
    return r;
}

struct db_rows *db_select_bytes(struct db *db, size_t columns, const char *sql, struct err *e)
{
    struct db_rows *r = conn_ask(db, sql, strlen(sql), e);
    if (r)
        r->columns = columns;
    return r;
}

static int check_row(struct db_rows *r, struct err *e)
{
    /* The columns are checked with the first row, because without rows nothing reads them. */
    size_t n = r->checked ? r->columns : mysql_num_fields(r->res);
    r->checked = true;
    if (n < r->columns || (n > r->columns && !r->open))
        return db_invalid(r->db, e, "%zu columns instead of %zu", n, r->columns);
    if (!r->form)
        return 0;
    for (size_t i = 0; i < r->columns; i++) {
        const char *wrong = answer_wrong(r->form[i], r->row[i], r->lengths[i]);
        if (wrong)
            return db_invalid(r->db, e, "column %zu of row %" PRIu64 " is %s", i + 1, r->count,
                              wrong);
        r->bytes += r->lengths[i];
    }
    if (r->count > ANSWER_ROWS)
        return db_invalid(r->db, e, "more than %u rows", ANSWER_ROWS);
    if (r->bytes > ANSWER_BYTES)
        return db_invalid(r->db, e, "more than %" PRIu64 " MiB", ANSWER_BYTES >> 20);
    return 0;
}

/* Reads the remaining answers of a call and discards their rows. */
static int drop_answers(struct db *db, struct err *e)
{
    int rc = 0;
    while (rc == 0 && mysql_more_results(db->my)) {
        mono_t began = clock_mono();
        rc = mysql_next_result(db->my) > 0 ? db_fail(db, began, "statement failed", e)
                                           : drop_answer(db, began, e);
    }
    return rc;
}

/* Advances to the next answer. Returns 1 if `r` is at one that has rows, 0 if none is left. */
static int next_answer(struct db_rows *r, struct err *e)
{
    int left = 0;
    mysql_free_result(r->res);
    r->res = NULL;
    r->checked = false;
    r->began = clock_mono();
    while (!r->res && left == 0 && (left = mysql_next_result(r->db->my)) == 0) {
        r->res = mysql_use_result(r->db->my);
        left = mysql_errno(r->db->my) ? 1 : 0;
    }
    return left > 0 ? db_fail(r->db, r->began, "statement failed", e) : r->res != NULL;
}

int db_next(struct db_rows *r, struct err *e)
{
    if (!r)
        return -1;
    /* The start time of a read matters only if the read takes seconds. Reading the clock for
     * each row would cost as much as a small row. */
    if (r->count++ % 64 == 0)
        r->began = clock_mono();
    while (r->res) {
        r->row = mysql_fetch_row(r->res);
        if (r->row) {
            r->lengths = mysql_fetch_lengths(r->res);
            return check_row(r, e) < 0 ? -1 : 1;
        }
        /* NULL is the end of the rows only if there is no error. A call of a routine has another
         * answer after its rows. */
        if (mysql_errno(r->db->my))
            return db_fail(r->db, r->began, "reading rows", e);
        if (!r->all_answers)
            return drop_answers(r->db, e);
        if (next_answer(r, e) < 0)
            return -1;
    }
    return 0;
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

const char *db_text(const struct db_rows *r, unsigned i)
{
    return r->row[i] ? r->row[i] : "";
}

char *db_dup(const struct db_rows *r, unsigned i)
{
    return r->row[i] ? xstrndup(r->row[i], r->lengths[i]) : xstrdup("");
}

void db_copy(const struct db_rows *r, unsigned i, char *out, size_t size)
{
    snprintf(out, size, "%s", db_text(r, i));
}

uint64_t db_uint(const struct db_rows *r, unsigned i)
{
    return strtoull(db_text(r, i), NULL, 10);
}

int64_t db_int(const struct db_rows *r, unsigned i)
{
    return strtoll(db_text(r, i), NULL, 10);
}

void db_rows_end(struct db_rows *r)
{
    if (!r)
        return;
    mysql_free_result(r->res);
    drop_answers(r->db, NULL);
    free(r->form);
    free(r);
}

char *db_one(struct db *db, const char *sql, struct err *e)
{
    err_clear(e);
    struct db_rows *r = db_select(db, "T*", sql, e);
    char *value = NULL;
    int got;
    while ((got = db_next(r, e)) == 1)
        if (r->count == 1 && r->row[0])
            value = db_dup(r, 0);
    db_rows_end(r);
    if (got == 0)
        return value;
    free(value);
    return NULL;
}

char *db_one_with(struct db *db, const char *sql, const char *const *args, struct err *e)
{
    SCOPED(xfree) char *full = conn_filled(sql, args);
    char *value = db_one(db, full, e);
    return value;
}
