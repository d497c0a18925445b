/* SQL text: quoting of names and values, and reading it back. Pure text, no server.
 * Every name and value that goes into a statement passes through here.
 *
 * The value scanner accepts literals only (numbers, 'strings' with an optional _charset, 0xHEX,
 * NULL), so that rows of a dump are data: a function call or a sub-select among them is an error.
 */
#ifndef WK_DB_SQL_H
#define WK_DB_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text.h"

/* `name`, backticks doubled. */
void sql_ident(struct buf *b, const char *name);
/* `schema`.`name` */
void sql_ident2(struct buf *b, const char *schema, const char *name);
/* 'bytes', escaped for a session without NO_BACKSLASH_ESCAPES. */
void sql_string(struct buf *b, const char *data, size_t len);
/* 0x0102…; an empty value becomes ''. */
void sql_hex(struct buf *b, const char *data, size_t len);

/* The same into memory that the caller found large enough: 2 * len + 2 bytes, and one more that may
 * be overwritten. Return the place behind. */
char *sql_put_string(char *out, const char *data, size_t len);
char *sql_put_hex(char *out, const char *data, size_t len);

/* Reads a backticked name at s; returns the place behind it or NULL. `out` gets the name itself. */
const char *sql_read_ident(const char *s, const char *end, struct buf *out);

/* Reads one "(literal,literal,…)" at s. Returns the place behind it, or NULL where it is not one.
 * *fields is how many literals it holds. */
const char *sql_read_tuple(const char *s, const char *end, unsigned *fields);

/* Order of rows does not matter to a sum of these: the content check adds them up. */
uint64_t sql_tuple_hash(const char *s, size_t len);

/* Finds the end of the statement that starts at s: the place of its delimiter, with quotes,
 * backticks and comments respected. `*state` (begun as {0}) carries over what is open when `end`
 * comes first: then NULL is returned, and scanning may go on with the text behind `end`. That text
 * must stand directly behind the earlier one in memory, for a mark may have been cut there; the
 * place returned is then in front of `s`. */
struct sql_scan {
    char quote;     /* ' " ` or 0 */
    char comment;   /* '-' to the end of the line, '*' to its end, or 0 */
    bool escaped;   /* the next byte belongs to a backslash */
    bool plain;     /* to be set before: a backslash is a character like others */
    size_t waiting; /* bytes in front of `end` that could not be judged without those behind it */
};
const char *sql_find_end(const char *s, const char *end, const char *delimiter,
                         struct sql_scan *state);

#endif
