/* Which tables a statement may have changed, where that is certain. Pure. */
#ifndef WK_BINLOG_STATEMENT_SCOPE_H
#define WK_BINLOG_STATEMENT_SCOPE_H

#include "binlog/statement.h"

/* The tables of the world that a statement may have changed, in the order in which it names them,
 * if that is certain: rows and columns of all other tables are unchanged. */
#define STATEMENT_SCOPE_TABLES 16u
struct statement_scope {
    size_t count;
    struct scope_table {
        char name[256];
        const struct db_table *table; /* NULL: not in the list of the world's tables */
        enum scope_deed {
            SCOPE_ALTERED,
            SCOPE_CREATED, /* exists now and is empty */
            SCOPE_DROPPED, /* or renamed */
            SCOPE_ARRIVED, /* a table of another name now has this name, with its rows */
        } deed;
    } tables[STATEMENT_SCOPE_TABLES];
    bool may_exist; /* CREATED: by CREATE TABLE IF NOT EXISTS; it may have existed, with rows */
    /* ALTERED: with an ENGINE clause; it may have had another engine before, with rows that no
     * change shows. A follower sets it for CREATED as well, if the table was not in the world. */
    bool engine;
};
/* Finds the scope of ALTER, CREATE, DROP and RENAME TABLE. Returns false if it is not certain, or
 * if the sentinel or shadow tables are involved. */
bool statement_scope(const struct statement_world *w, const char *from, const char *sql, size_t len,
                     struct statement_scope *out);

#endif
