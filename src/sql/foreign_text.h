/* The tokens of a statement as one server executes it: comments are dropped, and a version
 * comment is part of the text if this server reads it. Private to sql/foreign.c and
 * sql/foreign_set.c. */
#ifndef WK_SQL_FOREIGN_TEXT_H
#define WK_SQL_FOREIGN_TEXT_H

#include "sql/foreign.h"

struct foreign_text {
    struct sql_text text;
    struct sql_token t; /* the next token */
    struct server_version server;
};

void foreign_text_begin(struct foreign_text *x, const char *sql, size_t len,
                        const struct foreign_reading *how);
void foreign_text_next(struct foreign_text *x);
/* Each of these consumes the next token if it matches. */
bool foreign_text_word(struct foreign_text *x, const char *word);
bool foreign_text_punct(struct foreign_text *x, const char *sign);
/* Returns true at the end of the statement. */
bool foreign_text_end(const struct foreign_text *x);

#endif
