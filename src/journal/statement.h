/* What a statement in the binary log means to a world whose rows are followed by their changes:
 * nothing, the edge of a group, all rows of a table gone, the world replaced by a restore of ours,
 * or something that row changes cannot follow. Pure text; in doubt it is the last. */
#ifndef WK_JOURNAL_STATEMENT_H
#define WK_JOURNAL_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/query.h"

enum statement_kind {
    STATEMENT_NONE,     /* does not concern the world's rows */
    STATEMENT_BEGIN,    /* opens a group */
    STATEMENT_END,      /* closes it: also ROLLBACK, which takes nothing back in a MEMORY table */
    STATEMENT_TRUNCATE, /* all rows of `table` went, because somebody said so */
    STATEMENT_EMPTIED,  /* the server's own word that a restart emptied `table` */
    STATEMENT_SWAP,     /* a restore of ours put another world in: `mark` */
    STATEMENT_ARRIVAL,  /* a table that is not listed may have become one of the world's, with rows
                         */
    STATEMENT_CHANGE,   /* definitions changed, or rows by a statement: not to be followed */
};

/* Where a restored world came from; written as a comment into the RENAME that swaps it in, or,
 * where that is not logged, into STATEMENT_MARK_CARRIER before it: servers write a DROP TABLE in
 * words of their own, without comments. */
#define STATEMENT_MARK_CARRIER "DROP VIEW IF EXISTS `worldkeeper_tmp_mark`"
#define STATEMENT_MARK_MAX 640u
struct statement_mark {
    char dump[129];       /* a file's name where it was none of ours */
    char nonce[33];       /* of the world that came in */
    struct db_point upto; /* and the journal up to here; file "" for the dump alone; no GTID */
};

struct statement {
    enum statement_kind kind;
    const struct db_table *table;
    struct statement_mark mark;
};

/* Whose changes are followed. */
struct statement_world {
    const char *schema,
        *sentinel; /* what is done to the sentinel and its lease is our own affair */
    const struct db_tables *tables;
};
/* `from` is the default schema that the statement ran with. */
void statement_judge(const struct statement_world *w, const char *from, const char *sql, size_t len,
                     struct statement *out);
/* The comment that stands in the statement. */
void statement_mark(const struct statement_mark *m, char out[STATEMENT_MARK_MAX]);
/* The beginning of the statement for a message: one line, at most `room` bytes with the NUL. */
void statement_brief(const char *sql, size_t len, char *out, size_t room);

#endif
