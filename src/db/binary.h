/* Rows in the server's binary form, as the same tuples that db_text_rows() makes of its text: the
 * server prints no numbers, which is half of what reading a world costs it, and a FLOAT is exact
 * without a CAST. One statement is prepared and run as often as needed.
 *
 * Errors as in conn.h. A statement belongs to its connection's thread. */
#ifndef WK_DB_BINARY_H
#define WK_DB_BINARY_H

#include "core/text.h"
#include "db/choices.h"
#include "db/query.h"

/* How one field of the result goes into the tuple. */
struct db_binary_field {
    const char *name; /* that the result's field must have; NULL: any */
    enum db_encoding encoding;
    const struct db_choices *choices; /* DB_INDEX that arrives as text; else NULL */
    bool skip;                        /* not part of the tuple */
};

struct db_binary;
/* Prepares `sql`, which may hold one ? for a number. `fields` are borrowed until the close. */
struct db_binary *db_binary_open(struct db *db, const char *sql,
                                 const struct db_binary_field *fields, size_t count, struct err *e);
/* Runs it. With `at_once` all rows are taken over before this returns, and the server's lock on
 * the table is gone; else they come as the server sends them. ERR_CHANGED: other fields. */
int db_binary_run(struct db_binary *b, uint64_t number, bool at_once, struct err *e);
/* 1: a tuple is in `out`, in place of what was there; 0: that was all; -1. */
int db_binary_next(struct db_binary *b, struct buf *out, struct err *e);
void db_binary_close(struct db_binary *b);

#endif
