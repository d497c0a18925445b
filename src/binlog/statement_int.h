/* How the files of statement.h share the words of a statement. Not for other modules. */
#ifndef WK_BINLOG_STATEMENT_INT_H
#define WK_BINLOG_STATEMENT_INT_H

#include "base/text.h"
#include "binlog/statement.h"

#define WORD_MAX 80u /* a name has 64 characters; longer words are not keywords */

struct words {
    const char *s, *end;
    char word[4 * WORD_MAX]; /* the last one, without its quotes */
    bool quoted;
    bool through; /* the content of a version comment is read like the rest */
};

/* ---- statement_words.c ---- */

/* Skips blanks, comments, and the beginning and end markers of version comments, whose contents
 * servers execute. */
const char *words_skip_edges(const char *s, const char *end);
/* The position after the quoted text that begins at `s`; NULL: it may end somewhere else. */
const char *words_skip_text(const char *s, const char *end);
bool words_char(char c);
/* The next word, name in backticks, or single character; false at the end. */
bool words_next(struct words *w);
bool words_is(const struct words *w, const char *word);
/* Is it one of these words, with a blank between each two? */
bool words_any(const struct words *w, const char *list);
/* Is the next one? */
bool words_next_any(struct words *w, const char *list);
/* The next word that is none of these; false at the end. */
bool words_skip(struct words *w, const char *list);
/* Skips a dot, if the next character is one. */
bool words_dot(struct words *w);
/* Is it a name rather than a single character? */
bool words_name(const struct words *w);
/* The statement without comments and without the content of its literals: names that are left are
 * names. From the first literal whose end depends on the session (a backslash) the text is kept as
 * it is, and all of it if it is not UTF-8. */
void words_mask(const char *sql, size_t len, struct buf *out);

/* ---- statement.c ---- */

/* A table's name at `w`, optionally qualified by its schema; `from` is the default schema. Afterwards w->word is the
 * name alone. *ours: it is in the world's schema; *table is NULL if the list does not have it. False where it is
 * unclear which table that is: quoted in another way, or equal except for case, which may not matter here. */
bool statement_read_name(const struct statement_world *world, struct words *w, const char *from,
                         const struct db_table **table, bool *ours);
bool statement_read_table(const struct statement_world *world, struct words *w, const char *from,
                          const struct db_table **table);

/* ---- statement_definition.c ---- */

/* Does it leave the rows, the columns and the primary key of every table as they are? False in
 * doubt. `sql` is masked. */
bool statement_changes_nothing(const char *sql, size_t len);

#endif
