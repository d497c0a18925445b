/* One connection to the server, and statements that return nothing or a few small rows.
 * Auto-reconnect is always off: a lost connection stays lost, which stops a stale writer. A
 * connection belongs to one thread of one process.
 *
 * Sessions are set up for exact bytes: SET NAMES binary, sql_mode without strictness but with
 * NO_AUTO_VALUE_ON_ZERO and ALLOW_INVALID_DATES, time_zone '+00:00'. */
#ifndef WK_MYSQL_CONN_H
#define WK_MYSQL_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sql/versions.h"

struct db;

struct config_mysql;
struct db_params {
    const char *socket, *host; /* exactly one is set */
    unsigned port;
    const char *user, *password;           /* password may be NULL */
    const char *tls_ca;                    /* may be NULL */
    int tls;                               /* 0 off, 1 preferred, 2 required, 3 verify */
    int64_t connect_timeout, read_timeout; /* ms, rounded up to whole seconds */
    const char *schema;                    /* default schema, or NULL */
    bool bulk;                             /* rows will be loaded on it (bulk.h) */
    /* A text may consist of several statements, separated by ";", and may call routines.
     * db_select() returns the first answer that has rows; an error after it is an error of its last
     * db_next(). Such a server may be far away: db_packet() costs no round trip. */
    bool several;
};

/* Returns the parameters without password, schema, bulk and several. Borrowed from the config. */
struct db_params db_params_of(const struct config_mysql *m);

/* Returns NULL on failure. Error classes: UNREACHABLE, STALLED, DENIED, QUERY; num is the
 * server's. */
struct db *db_open(const struct db_params *p, struct err *e);
/* A hint that sets a server variable now and after the next server restart. A restore meets the
 * restarted server. */
#define DB_SET_FOR_GOOD(name, value)                                                               \
    "SET GLOBAL " name "=" value ", and " name " = " value                                         \
    " under [mysqld] in the server's my.cnf, or the next restart of the server undoes it"
/* A hint that unsets such a variable. */
#define DB_UNSET_FOR_GOOD(name, value)                                                             \
    "SET GLOBAL " name "=" value ", and take " name                                                \
    " out of the server's my.cnf, or the next restart of the server brings it back"
/* The hint when a server's settings prevent MEMORY tables. */
#define DB_ENGINE_HINT                                                                             \
    "MySQL: take MEMORY out of disabled_storage_engines; MariaDB: " DB_UNSET_FOR_GOOD(             \
        "enforce_storage_engine", "NULL")

void db_close(struct db *db);

int db_exec(struct db *db, const char *sql, struct err *e);
int db_exec_len(struct db *db, const char *sql, size_t len, struct err *e);
/* Resets character set and sql_mode to those of a new session. */
int db_reset_session(struct db *db, struct err *e);
/* Sets how long statements wait for table locks: whole seconds, rounded up. A wait that could
 * outlast the client's wait for the answer is divided into equal parts, and one of these is set. */
int db_lock_wait(struct db *db, int64_t ms, struct err *e);
/* Limits these waits to a second until db_wait_as_before() is called. The server keeps the limit
 * that the session had in the user variable named `was`. db_wait_as_before() returns `rc`, or -1 on
 * error. */
int db_wait_briefly(struct db *db, const char *was, struct err *e);
int db_wait_as_before(struct db *db, const char *was, int rc, struct err *e);
int db_execf(struct db *db, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* With `several`: returns the longest statement that the server accepts. It does not change for the
 * connection. */
uint64_t db_packet(const struct db *db);
/* Returns the number of warnings of the last statement. */
unsigned db_warnings(const struct db *db);
/* Returns the number of rows that the last statement changed. */
uint64_t db_affected(struct db *db);
bool db_is_mariadb(struct db *db);
/* Returns true if the server's certificate was verified before anything was sent, against
 * db_authorities(p), for the configured host. */
bool db_verified(const struct db *db);
/* Describes the certificate authorities that `p` trusts. The caller frees the text. */
char *db_authorities(const struct db_params *p);
struct server_version db_version(struct db *db);
/* Returns how this server names a statement or a variable; NULL: it has nothing of the kind. */
const char *db_word(struct db *db, enum server_word w);
/* Returns the PID of the process that listens on this connection's UNIX socket; 0: unknown, or
 * TCP. */
int64_t db_server_pid(const struct db *db);
/* Returns the server's own CONNECTION_ID() of this session. A proxy may have shown another one when
 * the connection was made. */
unsigned long db_session(const struct db *db);
/* Returns true if db_open() failed because no connection was free. */
bool db_no_connection(const struct err *e);
/* Returns true if another session holds a lock that the statement needs, so that a retry may
 * help. */
bool db_lock_busy(const struct err *e);
/* Returns true if no answer came, or not in time. The statement's outcome is then unknown. */
bool db_unanswered(const struct err *e);
/* Returns true if a lock of another session, a KILL, a lack of memory or a lost connection ended
 * the statement. Such a failure says nothing about the object that the statement names. */
bool db_in_vain(const struct err *e);
/* Returns true if the table or its schema does not exist. */
bool db_table_missing(const struct err *e);
#define DB_NO_SCHEMA 1049
#define DB_NO_TABLE 1146
#define DB_NO_VARIABLE 1193
#define DB_TABLE_FULL 1114
#define DB_TOO_LONG 1153 /* for max_allowed_packet */
#define DB_LOCK_TIMEOUT 1205
#define DB_LOG_NEEDS_SUPER 1419 /* creating a trigger with the binary log on */
#define DB_INTERRUPTED 1317     /* by KILL QUERY */
#define DB_DEADLOCK 1213 /* the other session took the same locks in another order and continues */

/* Call these before and after a thread other than the main one uses connections. */
void db_thread_begin(void);
void db_thread_end(void);

/* A result that is read row by row as the server sends it. Values are bytes, NULL for SQL NULL,
 * valid until the next call. Always end with db_rows_end(), even after an error.
 *
 * `form` is the expected form of the answer, one letter per column (answer.h); "*" at its end: more
 * columns may follow and are ignored. Values of another form, and more than ANSWER_ROWS rows, are
 * never returned: such an answer is ERR_UNREACHABLE, and the connection can no longer be used. */
struct db_rows;
struct db_rows *db_select(struct db *db, const char *form, const char *sql, struct err *e);
/* Values for a statement's placeholders, as in sql_fill() (sql/literal.h). */
#define DB_ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* A number among them. It lives as long as the enclosing block. */
#define DB_NUMBER(n) db_number((char[24]){0}, n)
const char *db_number(char out[24], uint64_t n);
struct db_rows *db_select_len(struct db *db, const char *form, const char *sql, size_t len,
                              struct err *e);
/* For several statements: reads the rows of all answers, one answer after the other. */
struct db_rows *db_select_answers(struct db *db, const char *form, const char *sql, size_t len,
                                  struct err *e);
struct db_rows *db_select_with(struct db *db, const char *form, const char *sql,
                               const char *const *args, struct err *e);
int db_exec_with(struct db *db, const char *sql, const char *const *args, struct err *e);
char *db_one_with(struct db *db, const char *sql, const char *const *args, struct err *e);
/* Reads rows of a table of the game: `columns` columns of any bytes, any number of rows. */
struct db_rows *db_select_bytes(struct db *db, size_t columns, const char *sql, struct err *e);
/* Statements sent ahead: up to DB_AHEAD may be sent before the first answer is read. The server
 * executes them in order, each even if the previous one failed. Nothing else may be asked until all
 * answers are read. A server whose answers are not read stops reading. Therefore a caller that
 * sends another statement must know that all earlier answers together are at most DB_AHEAD_ANSWERS
 * bytes, which the buffers of any connection hold; otherwise both sides would write and neither
 * would read. After an error of db_send(), or if an answer does not come, the connection can no
 * longer be used. */
#define DB_AHEAD 4u
#define DB_AHEAD_ANSWERS (64u << 10)
int db_send(struct db *db, const char *sql, size_t len, struct err *e);
unsigned db_unread(const struct db *db);
/* Returns the answer of the oldest of them, like db_select_len(). */
struct db_rows *db_receive(struct db *db, const char *form, struct err *e);
/* Reads and drops all outstanding answers. */
void db_receive_none(struct db *db);
/* Returns 1 for a row, 0 after the last row, or -1 on error, which is never mistaken for the end.
 * `r` may be NULL after a failed query: -1. */
int db_next(struct db_rows *r, struct err *e);
/* `i` is one of the columns in `form`. */
const char *db_value(const struct db_rows *r, unsigned i);
size_t db_length(const struct db_rows *r, unsigned i);
/* Return the value with "" or 0 for SQL NULL: borrowed, copied (malloc), truncated into `out`, or
 * as a number. */
const char *db_text(const struct db_rows *r, unsigned i);
char *db_dup(const struct db_rows *r, unsigned i);
void db_copy(const struct db_rows *r, unsigned i, char *out, size_t size);
uint64_t db_uint(const struct db_rows *r, unsigned i);
int64_t db_int(const struct db_rows *r, unsigned i);
/* Returns all values of the row at once. */
char **db_row(const struct db_rows *r, const unsigned long **lengths);
void db_rows_end(struct db_rows *r);
/* Reports that the last answer is invalid; `what` completes the sentence. The connection can no
 * longer be used. Returns -1 with ERR_UNREACHABLE. */
int db_invalid(struct db *db, struct err *e, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the first field of the first row as text (malloc); NULL with e->cls ERR_NONE if there is
 * none. */
char *db_one(struct db *db, const char *sql, struct err *e);

#endif
