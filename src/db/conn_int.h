/* What the files of src/db share of a connection. Nobody else includes it. */
#ifndef WK_DB_CONN_INT_H
#define WK_DB_CONN_INT_H

#include "core/clock.h"
#include "db/client.h"
#include "db/conn.h"

struct db_feed;
struct db {
    MYSQL *my;
    int64_t read_timeout; /* ms */
    bool bulk;            /* LOCAL was offered to the server */
    struct db_feed *feed; /* rows being loaded; NULL: the server gets no data that it asks for */
};

/* Fills `e` from the library's last error; a loss that took as long as the read timeout is
 * ERR_STALLED. Returns -1. */
int db_fail(struct db *db, mono_t began, const char *what, struct err *e);
/* The same for a prepared statement's error. */
int db_fail_stmt(struct db *db, MYSQL_STMT *stmt, mono_t began, const char *what, struct err *e);
/* Before the connection is made: whatever file the server asks for, it gets rows of db_feed or an
 * error. */
void db_bulk_prepare(struct db *db);

#endif
