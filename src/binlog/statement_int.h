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

/* ---- statement_words.c ---- */

/* Skips blanks, comments, and the beginning and end markers of version comments, whose contents
 * servers execute. */
const char *words_skip_edges(const char *s, const char *end);
/* Returns the position after the quoted text that begins at `s`; NULL: its end is not certain. */
const char *words_skip_text(const char *s, const char *end);
bool words_char(char c);
/* Reads the next word, name in backticks, or single character. Returns false at the end. */
bool words_next(struct words *w);
bool words_is(const struct words *w, const char *word);
/* Returns true if the word is in `list`, which is separated by blanks. */
bool words_any(const struct words *w, const char *list);
/* Reads the next word and returns true if it is in `list`. */
bool words_next_any(struct words *w, const char *list);
/* Reads on to the next word that is not in `list`. Returns false at the end. */
bool words_skip(struct words *w, const char *list);
/* Skips a dot if it is the next character. */
bool words_dot(struct words *w);
/* Returns true if the word is a name and not a single character. */
bool words_name(const struct words *w);
/* Appends the statement without comments and without the content of its literals, so that all
 * remaining names are names. From the first literal whose end depends on the session (a backslash)
 * the text is kept unchanged; all of it if it is not UTF-8. */
void words_mask(const char *sql, size_t len, struct buf *out);

/* ---- statement.c ---- */

/* Reads a table's name at `w`, optionally qualified by its schema; `from` is the default schema.
 * Afterwards w->word is the name alone. *ours: it is in the world's schema; *table is NULL if the
 * list does not have it. Returns false if the table is not certain: the name is quoted in another
 * way, or differs only in case, which may not matter here. */
bool statement_read_name(const struct statement_world *world, struct words *w, const char *from,
                         const struct db_table **table, bool *ours);
bool statement_read_table(const struct statement_world *world, struct words *w, const char *from,
                          const struct db_table **table);

/* ---- statement_definition.c ---- */

/* Returns true if it leaves the rows, the columns and the primary key of every table unchanged;
 * false in doubt. `sql` is masked. */
bool statement_changes_nothing(const char *sql, size_t len);

#endif
