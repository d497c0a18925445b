/* Shared by the files of statement.h: the words of a statement. Not for other modules. */
#ifndef WK_BINLOG_STATEMENT_INT_H
#define WK_BINLOG_STATEMENT_INT_H

#include "base/text.h"
#include "binlog/statement.h"

#define WORD_MAX 80u /* a name has up to 64 characters; longer words are not keywords */

struct words {
    const char *s, *end;
    char word[4 * WORD_MAX]; /* the last word, without its quotes */
    bool quoted;
    bool through; /* the content of a version comment is read like the rest */
};

/* ---- statement.c ---- */

/* Reads a table's name at `w`, optionally qualified by its schema; `from` is the default schema.
 * Afterwards w->word is the name alone. *ours: it is in the world's schema; *table is NULL if the
 * list does not have it. Returns false if the table is not certain: the name is quoted in another
 * way, or differs only in case, which may not matter here. */
bool statement_read_name(const struct statement_world *world, struct words *w, const char *from,
                         const struct db_table **table, bool *ours);
bool statement_read_table(const struct statement_world *world, struct words *w, const char *from,
                          const struct db_table **table);

#endif
