/* The meaning of a statement in the binary log for a world that is followed by row changes:
 * nothing, the beginning or end of a transaction, an emptied table, the world replaced by a restore
 * of ours, or something that row changes cannot express. In doubt it is the last. Pure text.
 *
 * Statements are judged by their effect on rows, columns and the primary key, by which rows are
 * found. A statement that may change rows counts in any schema except `mysql`, because a view, a
 * trigger or a routine there may lead to the world. An ALTER of a comment, an index or an option,
 * OPTIMIZE and the like mean nothing, and names in comments and literals do not count. */
#ifndef WK_BINLOG_STATEMENT_H
#define WK_BINLOG_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mysql/schema.h"

enum statement_kind {
    STATEMENT_NONE,     /* does not concern the world's rows */
    STATEMENT_BEGIN,    /* opens a transaction */
    STATEMENT_END,      /* closes it: COMMIT or ROLLBACK */
    STATEMENT_TRUNCATE, /* all rows of `table` were deleted by a client's statement */
    /* all rows of `table` were deleted, as by a server whose restart emptied it. Any client can
     * write the comment that most servers add. */
    STATEMENT_EMPTIED,
    STATEMENT_SWAP,    /* a restore of ours replaced the world: `mark` */
    STATEMENT_ARRIVAL, /* a table that is not listed may now be in the world, with rows */
    STATEMENT_EXISTS,  /* CREATE TABLE IF NOT EXISTS of `table`; logged even if it existed */
    STATEMENT_CHANGE,  /* changes definitions, or rows by a statement: cannot be followed */
};

/* What a statement means for changes that can be undone, which those of MEMORY tables cannot. */
enum statement_edge {
    STATEMENT_NO_EDGE,
    STATEMENT_ROLLBACK,
    STATEMENT_SAVEPOINT,
    STATEMENT_ROLLBACK_TO,
    STATEMENT_XA_END, /* the last statement of an XA transaction before its XA PREPARE */
    STATEMENT_XA_COMMIT,
    STATEMENT_XA_ROLLBACK,
};

/* Origin of a restored world. It is written as a comment into the RENAME that swaps the world in,
 * or, if that is not logged, into STATEMENT_MARK_CARRIER before it: servers log a DROP TABLE in
 * their own words, without comments. */
#define STATEMENT_MARK_CARRIER "DROP VIEW IF EXISTS `worldkeeper_tmp_mark`"
#define STATEMENT_MARK_MAX 640u
struct statement_mark {
    char dump[129];            /* or a file's name, if it was not one of our dumps */
    char nonce[33];            /* of the restored world */
    struct db_binlog_pos upto; /* end of the applied journal; file "": the dump alone; no GTID */
};

struct statement {
    enum statement_kind kind;
    /* NONE: the table of an ALTER TABLE with an ENGINE clause, else NULL. It may have had another
     * engine before. */
    const struct db_table *table;
    bool truncates; /* EMPTIED: by TRUNCATE; a DELETE may be of some rows only */
    struct statement_mark mark;
    enum statement_edge edge;
    uint64_t name; /* hash of a savepoint's name or of an XID; 0: it cannot be compared */
};

/* The world whose changes are followed. */
struct statement_world {
    const char *schema,
        *sentinel; /* statements on the sentinel and its lease are our own and are ignored */
    const struct db_tables *tables;
};
/* Judges a statement. `from` is the default schema that it ran with. `by_server`: if it empties a
 * table, it is certainly the one that a server logs after its restart; else only its comment can
 * tell. */
void statement_judge(const struct statement_world *w, const char *from, bool by_server,
                     const char *sql, size_t len, struct statement *out);
/* Writes the comment to insert into the statement. */
void statement_mark(const struct statement_mark *m, char out[STATEMENT_MARK_MAX]);
/* Finds what it did to whole tables of the world (DROP, RENAME, ALTER, an index, CREATE OR REPLACE)
 * or to its schema (DROP), for display. Returns false for nothing, or if it cannot be
 * determined. */
#define STATEMENT_DEED_TABLES 8u

/* Returns true if the names are equal when case does not matter (lower_case_table_names). Pure. */
bool statement_same_name(const char *a, const char *b);

#endif
