/* Reads rows in the binary protocol, into the same tuples that db_text_rows() makes from text. This
 * saves the server from printing numbers, which is half its cost of reading a world, and a FLOAT is
 * exact without a CAST. One statement is prepared and executed as often as needed.
 *
 * Errors as in conn.h. A statement belongs to its connection's thread. */
#ifndef WK_MYSQL_BINARY_H
#define WK_MYSQL_BINARY_H

#include "base/text.h"
#include "mysql/schema.h"
#include "sql/enum_members.h"

/* How one field of the result goes into the tuple. */
struct db_binary_field {
    const char *name; /* expected name of the result's field; NULL: any */
    enum db_encoding encoding;
    const struct enum_members *choices; /* DB_INDEX that arrives as text; else NULL */
    bool skip;                          /* not part of the tuple */
};

struct db_binary;
/* Prepares `sql`, which with `limited` contains one ? for a number. `fields` are borrowed until
 * db_binary_close(). */
struct db_binary *db_binary_open(struct db *db, const char *sql, bool limited,
                                 const struct db_binary_field *fields, size_t count, struct err *e);
/* Executes it. With `at_once` all rows are fetched before this returns, which releases the server's
 * lock on the table; otherwise they are read as the server sends them. ERR_CHANGED: the fields
 * differ. */
int db_binary_run(struct db_binary *b, uint64_t number, bool at_once, struct err *e);
/* Returns 1 with a tuple in `out`, replacing its contents; 0 after the last row; or -1. */
int db_binary_next(struct db_binary *b, struct buf *out, struct err *e);
void db_binary_close(struct db_binary *b);

#endif
