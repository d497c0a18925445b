/* Splits a hint or an alert's "to do" into sentences and the commands in them, so that each command
 * can be shown on a line of its own and pasted whole. Pure text. */
#ifndef WK_BASE_STEPS_H
#define WK_BASE_STEPS_H

#include "base/text.h"

#define STEPS_MAX 2u /* maximum number of commands; further ones remain in the prose */

struct steps {
    struct buf prose; /* the clauses without a command, as in the hint; may be empty */
    size_t count;
    struct step {
        struct buf does;    /* the purpose or effect of the command; may be empty */
        struct buf command; /* complete, exactly as in the hint */
    } list[STEPS_MAX];
};

/* Returns a copy of a hint of the same length, with letters in place of what is in quotes (of a
 * shell or of SQL). A hint has names that others chose in quotes (sql_ident(), buf_shell()):
 * nothing in them is a command or ends a clause. malloc. */
char *steps_unquoted(const char *hint);

/* Recognizes, in clauses that "; " separates and outside quotes:
 *   worldkeeper --ACTION …, with its options and quoted values, and runuser before it;
 *   some commands of the system and SQL statements after a colon at the end of a clause, or a
 *   GRANT that is the whole clause.
 * `out` is overwritten; free with steps_free(). */
void steps_split(const char *hint, struct steps *out);
void steps_free(struct steps *s);

/* Appends a clause with the command that shows how full the file system of a directory is. */
void steps_df(struct buf *b, const char *dir);

#endif
