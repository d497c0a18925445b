/* Reads expressions in definitions. Words, functions and operators must be in lists, which
 * contain nothing that could name another table, a file, a stored function or a variable. */
#ifndef WK_SQL_EXPRESSION_H
#define WK_SQL_EXPRESSION_H

#include "sql/reader.h"
#include "sql/table.h"

/* Reads a literal with its sign and character set. */
void expression_literal(struct reader *r, struct buf *out);
/* Reads "( … )" of listed words, functions and operators. */
void expression_read(struct reader *r, struct buf *out);
/* Reads the part after DEFAULT. */
void expression_default(struct reader *r, struct buf *out);
/* Reads CURRENT_TIMESTAMP, with or without digits. */
void expression_now(struct reader *r, struct buf *out);

#endif
