/* Writes names and values as SQL text, and reads the literals in rows of our own dumps and
 * journals. Every name and value in a statement is written here. Pure, no server.
 *
 * The reader accepts literals only (numbers, 'strings' with one of two character sets, 0xHEX, NULL)
 * and no blanks, so that rows of a dump are data: a function call or a subquery among them is an
 * error. SQL from other sources is read by sql/token.h. */
#ifndef WK_SQL_LITERAL_H
#define WK_SQL_LITERAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Appends `name` with backticks doubled. */
void sql_ident(struct buf *b, const char *name);
/* Appends `schema`.`name`. */
void sql_ident2(struct buf *b, const char *schema, const char *name);
/* Appends a statement or a part of one. `sql` is a constant in which each "?" is replaced by the
 * next of `args` (ended by NULL) as a string, each "??" as a name, and each "$" unchanged: a
 * number, or SQL made here. A "??" that would form a trigraph is written ?\?. */
void sql_fill(struct buf *b, const char *sql, const char *const *args);
/* Appends 'text' as servers write it in definitions and types: quotes doubled; for a session
 * without NO_BACKSLASH_ESCAPES. */
void sql_text_literal(struct buf *b, const char *s, size_t len);

/* Appends 'bytes', escaped for a session without NO_BACKSLASH_ESCAPES. */
void sql_string(struct buf *b, const char *data, size_t len);
/* Appends 0x0102…; an empty value becomes ''. */
void sql_hex(struct buf *b, const char *data, size_t len);

/* Like sql_string() and sql_hex(), to memory that the caller has checked to be large enough: 2 *
 * len + 2 bytes, and one more that may be overwritten. Return the end. */
char *sql_put_string(char *out, const char *data, size_t len);
char *sql_put_hex(char *out, const char *data, size_t len);

/* Reads a backticked name at s into `out`, unquoted; returns its end, or NULL. */
const char *sql_read_ident(const char *s, const char *end, struct buf *out);

struct sql_literal {
    enum sql_literal_kind { SQL_IS_NULL, SQL_IS_STRING, SQL_IS_HEX, SQL_IS_NUMBER } kind;
    /* In the canonical form that this program writes (mysql/value.h): two values are equal exactly
     * if their texts are. */
    bool ours;
    bool escaped;  /* a string with backslashes */
    const char *s; /* the text between a string's quotes; the digits after 0x; or a number */
    size_t len;
};
/* Reads one literal at s. Returns its end, or NULL for anything else. */
const char *sql_read_literal(const char *s, const char *end, struct sql_literal *out);
/* Writes the bytes of a string or of hex digits, at most `len`, and returns their end. Returns NULL
 * for an escape that sql_string() does not write (\t, \%), because servers and LOAD DATA may read
 * it differently, and for digits that sql_hex() does not write. */
char *sql_literal_bytes(const struct sql_literal *l, char *out);

/* Reads one "(literal,literal,…)" at s. Returns its end, or NULL for anything else. *fields is the
 * number of literals. */
const char *sql_read_tuple(const char *s, const char *end, unsigned *fields);
/* Like sql_read_tuple(), but each literal must be `ours`. ends[i] is the offset of the end of
 * literal i, for the first `want` literals. */
const char *sql_split_tuple(const char *s, const char *end, size_t *ends, size_t want,
                            size_t *fields);
/* Returns the text of literal `n` of a tuple, counted from 0; NULL: there is none. */
const char *sql_tuple_field(const char *tuple, size_t len, size_t n, size_t *field_len);

/* Returns the hash of a row. The content check adds these hashes, so the order of rows does not
 * matter. */
uint64_t sql_tuple_hash(const char *s, size_t len);

#endif
