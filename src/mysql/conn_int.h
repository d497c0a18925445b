/* Internals of a connection, for src/mysql, src/binlog and src/bulk only. */
#ifndef WK_MYSQL_CONN_INT_H
#define WK_MYSQL_CONN_INT_H

#include "base/clock.h"
#include "mysql/client.h"
#include "mysql/conn.h"

/* The remaining rows of a bulk load. */
struct db_feed {
    const char *data;
    size_t left;
};

/* What the statements of db_exec() pass that change something (fenced.h). */
struct db_gate {
    /* Sends the statement by db_exec_now(), or refuses it. */
    int (*exec)(struct db *db, const char *sql, size_t len, struct err *e);
    void (*end)(struct db *db); /* called before the connection is closed */
};

struct db {
    MYSQL *my;
    struct db_gate *gate;  /* NULL: statements are sent at once */
    int64_t read_timeout;  /* ms */
    bool verified;         /* the server's certificate (db_verified()) */
    bool bulk;             /* LOAD DATA LOCAL was offered to the server */
    struct db_feed *feed;  /* the rows of a bulk load; NULL: requests for local data get an error */
    unsigned long session; /* the server's own CONNECTION_ID() (db_session()) */
    char node[256];        /* the Galera node that this session must stay on (galera.h) */
    uint64_t packet;       /* the longest statement that the server accepts; 0: not asked */
    unsigned unread;       /* statements sent ahead */
    unsigned counts[DB_AHEAD]; /* packet counter for the answer of each, oldest first (client.h) */
};

/* Sends the statement of db_exec_len() and reads its answer. */
int db_exec_now(struct db *db, const char *sql, size_t len, struct err *e);
/* Fills `e` from the library's last error; a connection lost after the read timeout is ERR_STALLED.
 * Returns -1. */
int db_fail(struct db *db, mono_t began, const char *what, struct err *e);
/* Like db_fail(), for a prepared statement's error. */
int db_fail_stmt(struct db *db, MYSQL_STMT *stmt, mono_t began, const char *what, struct err *e);
/* Checks that the prepared statement has as many parameters as are bound. The library reads as many
 * of our parameters as the server states. */
int db_check_places(struct db *db, MYSQL_STMT *stmt, size_t places, struct err *e);

#endif
