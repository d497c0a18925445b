/* The words of a statement of the binary log, and its masking. Pure. */
#ifndef WK_BINLOG_STATEMENT_WORDS_H
#define WK_BINLOG_STATEMENT_WORDS_H

#include "binlog/statement_int.h"

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
/* Returns true if the opening of a version comment ends at s[at]. */
bool words_after_version(const char *s, size_t at);
/* Returns true if a version comment follows. */
bool words_at_version(const struct words *w);
/* Returns true if the text contains the opening of a version comment of MariaDB's own, which MySQL
 * reads as a plain comment. */
bool words_for_mariadb(const char *sql, size_t len);
/* Replaces each byte from 0x80 by a blank, as which a character set may read it. */
void words_blank_letters(struct buf *text);
/* Sets `out` to the statement without comments and without the content of its literals, so that all
 * remaining names are names. With `mysql`, MariaDB's own version comments are comments. From the
 * first literal whose end depends on the session (a backslash) the text is kept unchanged; all of
 * it if it is not UTF-8. Then the result is false: where comments and literals end is not
 * certain. */
bool words_mask(const char *sql, size_t len, bool mysql, struct buf *out);

#endif
