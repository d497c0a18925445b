/* Copies of tables inside the server, in temporary tables of the session that makes them. One
 * statement makes one copy, and the server keeps the table's writers waiting that long: a copy is
 * one moment of its table, and nobody has to lock anything for it. Temporary tables of
 * ENGINE=MEMORY have the session's max_heap_table_size and nothing else for a limit. Errors as in
 * conn.h. */
#ifndef WK_DB_COPY_H
#define WK_DB_COPY_H

#include "db/query.h"

struct db_copier {
    struct db *db;
    uint64_t limit; /* the session's, as far as set */
    bool logged;    /* copies are written to the binary log; a LIMIT would make that unsafe */
    bool keyed;     /* the server refuses tables without a primary key */
};
/* Makes the session ready for copies. `db` is borrowed. */
int db_copier_begin(struct db_copier *out, struct db *db, struct err *e);

struct db_copy {
    const char *name; /* quoted already */
    const struct db_table *t;
    const char *rest; /* behind the table's name: " WHERE …", " LIMIT …"; "" for all of it */
    uint64_t bytes;   /* that its rows will take, about */
    bool passes_by;   /* the writers that wait for somebody else's lock */
};
int db_copy_make(struct db_copier *c, const struct db_copy *copy, struct err *e);

#endif
