/* One connection to the server, and the statements that return nothing or a few small rows.
 * Auto-reconnect is off, always: a connection that was lost stays lost, which is what fences a
 * stale writer. A connection belongs to one thread of one process.
 *
 * Sessions are set up for exact bytes: SET NAMES binary, sql_mode without strictness but with
 * NO_AUTO_VALUE_ON_ZERO and ALLOW_INVALID_DATES, time_zone '+00:00'. */
#ifndef WK_DB_CONN_H
#define WK_DB_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct db;

struct db_params {
    const char *socket, *host; /* one of them */
    unsigned port;
    const char *user, *password;           /* password may be NULL */
    const char *tls_ca;                    /* may be NULL */
    int tls;                               /* 0 off, 1 preferred, 2 required, 3 verify */
    int64_t connect_timeout, read_timeout; /* ms, rounded up to whole seconds */
    const char *schema;                    /* default schema, or NULL */
    bool bulk;                             /* rows will be loaded through it (bulk.h) */
};

/* NULL on failure. Error classes: UNREACHABLE, STALLED, DENIED, QUERY; num is the server's number.
 */
struct db *db_open(const struct db_params *p, struct err *e);
/* What keeps a server from making MEMORY tables. */
#define DB_ENGINE_HINT                                                                             \
    "take MEMORY out of disabled_storage_engines (MySQL), or SET GLOBAL "                          \
    "enforce_storage_engine=NULL (MariaDB)"

void db_close(struct db *db);

int db_exec(struct db *db, const char *sql, struct err *e);
int db_exec_len(struct db *db, const char *sql, size_t len, struct err *e);
/* Character set and sql_mode are again what each session begins with. */
int db_as_usual(struct db *db, struct err *e);
int db_execf(struct db *db, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Warnings of the last statement. */
unsigned db_warnings(const struct db *db);
/* Rows that the last statement changed. */
uint64_t db_affected(struct db *db);
bool db_is_mariadb(struct db *db);
/* The server's number of this session. */
unsigned long db_session(const struct db *db);
/* Is it a refusal of db_open() for want of a free connection? */
bool db_no_connection(const struct err *e);
/* Does another session hold what the statement needs, as far as trying again may help? */
bool db_lock_busy(const struct err *e);
/* Did no answer come, or not in time? That says nothing of what was asked for. */
bool db_unanswered(const struct err *e);
/* Is the table, or its schema, not there? */
bool db_table_missing(const struct err *e);
#define DB_NO_SCHEMA 1049
#define DB_NO_TABLE 1146
#define DB_TABLE_FULL 1114
#define DB_LOCK_TIMEOUT 1205
#define DB_LOG_NEEDS_SUPER 1419 /* to make a trigger where changes are logged */
#define DB_DEADLOCK 1213 /* the other session took the same locks in another order, and goes on */

/* Around the use of connections in a thread other than the process's first. */
void db_thread_begin(void);
void db_thread_end(void);

/* A result that is read row by row as the server sends it. Values are bytes, NULL for SQL NULL;
 * they live until the next call. Always end with db_rows_end(), also after an error. */
struct db_rows;
struct db_rows *db_select(struct db *db, const char *sql, struct err *e);
/* 1: a row is there; 0: all rows were read; -1: error, which is never mistaken for the end. */
int db_next(struct db_rows *r, struct err *e);
const char *db_value(const struct db_rows *r, unsigned i);
size_t db_length(const struct db_rows *r, unsigned i);
unsigned db_fields(const struct db_rows *r);
/* All values of the row at once. */
char **db_row(const struct db_rows *r, const unsigned long **lengths);
void db_rows_end(struct db_rows *r);

/* The first field of the first row as text (malloc), NULL with e->cls ERR_NONE when there is none.
 */
char *db_one(struct db *db, const char *sql, struct err *e);

#endif
