/* Inserts rows of a dump ("(1,'a'),\n(2,NULL)") into a table, faster than SQL that the server has
 * to parse. There are three ways, the best one first:
 *
 *   array  a prepared INSERT with whole columns of binary values (COM_STMT_BULK_EXECUTE):
 *          MariaDB, with its own client library
 *   local  LOAD DATA LOCAL fed from memory: MySQL too, if local_infile allows it
 *   rows   a prepared INSERT with some hundred rows of binary values: everywhere, unless
 *          max_prepared_stmt_count is 0 or the binary log may hold statements
 *
 * Values are literals only, as sql/literal.h reads them; each is stored as an INSERT of the same
 * literal would store it. A file that a server requests is never opened: outside db_bulk_rows() the
 * server gets nothing. */
#ifndef WK_BULK_BULK_H
#define WK_BULK_BULK_H

#include "mysql/schema.h"

enum db_bulk_way { DB_BULK_NONE, DB_BULK_ARRAY, DB_BULK_LOCAL, DB_BULK_ROWS };
/* Returns the best way that server, library and connection (db_params.bulk) allow. */
enum db_bulk_way db_bulk_way(struct db *db);
const char *db_bulk_way_name(enum db_bulk_way way); /* "array", "local", "rows"; "insert" */

struct db_bulk;
/* The server's error (e->num) when max_prepared_stmt_count is reached: plain INSERTs need no
 * prepared statement. */
#define DB_BULK_NONE_LEFT 1461
/* Prepares for rows with the columns `names`, in their order, into `place`, which is read for name
 * and types and need not outlive the call. A statement takes about half of `packet` bytes (the
 * server's max_allowed_packet). Returns NULL on failure; ERR_CHANGED if a column is missing. It
 * owns the connection until db_bulk_finish() or db_bulk_close(): while a thread sends, the next
 * rows are prepared. */
struct db_bulk *db_bulk_open(struct db *db, enum db_bulk_way way, uint64_t packet,
                             const struct db_table *place, char *const *names, size_t count,
                             struct err *e);
/* Queues rows for sending; an error may be that of earlier rows. ERR_DAMAGED: not plain values for
 * such columns. */
int db_bulk_rows(struct db_bulk *b, const char *tuples, size_t len, struct err *e);
/* Waits for the server's answer to the last rows. Returns how many rows it stored, and its
 * warnings. No rows may follow. */
int db_bulk_finish(struct db_bulk *b, uint64_t *taken, uint64_t *warnings, struct err *e);
/* Closes it without db_bulk_finish(); rows that are not sent yet are dropped. */
void db_bulk_close(struct db_bulk *b);

#endif
