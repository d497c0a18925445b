/* Copies of tables inside the server, in temporary tables of the session that makes them. One
 * statement makes one copy, and the server blocks the table's writers meanwhile: a copy is
 * consistent without any lock of ours. Temporary tables of ENGINE=MEMORY are limited only by the
 * session's max_heap_table_size. Errors as in conn.h. */
#ifndef WK_MYSQL_TEMP_COPY_H
#define WK_MYSQL_TEMP_COPY_H

#include "mysql/schema.h"

struct db_copier {
    struct db *db;
    uint64_t limit; /* the session's, as last set */
    bool logged;    /* copies are written to the binary log, where a LIMIT would make them unsafe */
    bool keyed;     /* the server refuses tables without a primary key */
};
/* Makes the session ready for copies. `db` is borrowed. */
int db_copier_begin(struct db_copier *out, struct db *db, struct err *e);

struct db_copy {
    const char *name; /* already quoted */
    const struct db_table *t;
    const char *rest; /* after the table's name: " WHERE …", " LIMIT …"; "" for all of it */
    uint64_t bytes;   /* estimated bytes of its rows */
    bool passes_by;   /* does not queue behind writers that wait for another session's lock */
};
/* Errors of a definition: its columns are more, or together longer, than the server accepts. */
#define DB_MANY_COLUMNS 1117
#define DB_ROW_TOO_LONG 1118
int db_copy_make(struct db_copier *c, const struct db_copy *copy, struct err *e);

#endif
