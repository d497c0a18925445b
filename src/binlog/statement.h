/* What a statement in the binary log means to a world whose rows are followed by their changes:
 * nothing, the beginning or end of a group, a table emptied, the world replaced by a restore of
 * ours, or something that row changes cannot express. Pure text; in doubt it is the last.
 *
 * Statements are judged by what they do to rows and to columns (and to the primary key, by which
 * rows are found): an ALTER of a comment, an index or an option, OPTIMIZE and the like are nothing,
 * and names within comments and literals do not count. */
#ifndef WK_BINLOG_STATEMENT_H
#define WK_BINLOG_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "mysql/schema.h"

enum statement_kind {
    STATEMENT_NONE,     /* does not concern the world's rows */
    STATEMENT_BEGIN,    /* opens a group */
    STATEMENT_END,      /* closes it: also ROLLBACK, which undoes nothing in a MEMORY table */
    STATEMENT_TRUNCATE, /* all rows of `table` were deleted by a client's statement */
    STATEMENT_EMPTIED,  /* the server itself logged that a restart emptied `table` */
    STATEMENT_SWAP,     /* a restore of ours replaced the world: `mark` */
    STATEMENT_ARRIVAL,  /* an unknown table may have become one of the world's, with rows */
    STATEMENT_EXISTS,   /* CREATE TABLE IF NOT EXISTS of `table`; logged even if it existed */
    STATEMENT_CHANGE,   /* definitions changed, or rows by a statement: cannot be followed */
};

/* Where a restored world came from; written as a comment into the RENAME that swaps it in, or,
 * where that is not logged, into STATEMENT_MARK_CARRIER before it: servers log a DROP TABLE in
 * words of their own, without comments. */
#define STATEMENT_MARK_CARRIER "DROP VIEW IF EXISTS `worldkeeper_tmp_mark`"
#define STATEMENT_MARK_MAX 640u
struct statement_mark {
    char dump[129];            /* a file's name if it was not one of our dumps */
    char nonce[33];            /* of the restored world */
    struct db_binlog_pos upto; /* and the journal up to here; file "": the dump alone; no GTID */
};

struct statement {
    enum statement_kind kind;
    const struct db_table *table;
    struct statement_mark mark;
};

/* The world whose changes are followed. */
struct statement_world {
    const char *schema,
        *sentinel; /* statements on the sentinel and its lease are our own and are ignored */
    const struct db_tables *tables;
};
/* `from` is the default schema that the statement ran with. */
void statement_judge(const struct statement_world *w, const char *from, const char *sql, size_t len,
                     struct statement *out);
/* The comment to be put into the statement. */
void statement_mark(const struct statement_mark *m, char out[STATEMENT_MARK_MAX]);
/* What kind of statement it is and what it is about, for a message: of a definition the whole text,
 * of other statements what precedes the first value; both without literals and comments. One line,
 * at most `room` bytes with the NUL. */
void statement_brief(const char *sql, size_t len, char *out, size_t room);
/* What it did to whole tables of the world (DROP, RENAME, ALTER, an index, CREATE OR REPLACE) or to its schema (DROP), for
 * display; false: nothing, or it cannot be determined. */
#define STATEMENT_DEED_TABLES 8u
struct statement_summary {
    const char *verb; /* "dropped" … (static text) */
    const struct db_table *tables[STATEMENT_DEED_TABLES];
    size_t count; /* may be more than are listed */
    bool schema;  /* all of the schema, and with it each table; none is listed */
};
bool statement_summary(const struct statement_world *w, const char *from, const char *sql,
                       size_t len, struct statement_summary *out);

/* The tables of the world that a statement may have changed, in the order in which it names them, where that is
 * certain: rows and columns of all others are as they were. */
#define STATEMENT_SCOPE_TABLES 16u
struct statement_scope {
    size_t count;
    struct scope_table {
        char name[256];
        const struct db_table *table; /* NULL: not in the list of the world's tables */
        enum scope_deed {
            SCOPE_ALTERED,
            SCOPE_CREATED, /* is there now, and empty; IF NOT EXISTS: or was there before */
            SCOPE_DROPPED, /* or renamed */
            SCOPE_ARRIVED, /* a table of another name has this one now, with its rows */
        } deed;
    } tables[STATEMENT_SCOPE_TABLES];
};
/* ALTER, CREATE, DROP and RENAME TABLE. False: it is not certain, or the sentinel or shadow tables are among them. */
bool statement_scope(const struct statement_world *w, const char *from, const char *sql, size_t len,
                     struct statement_scope *out);

/* Are these the same name if case does not matter (lower_case_table_names)? Pure. */
bool statement_same_name(const char *a, const char *b);

#endif
