/* The text of a dump: plain SQL that the stock client runs, and that we read back as data.
 *
 *   header member     -- worldkeeper dump 1, SET …
 *   per table         DROP TABLE IF EXISTS, CREATE TABLE, INSERT INTO `t` (`a`,…)
 *                     VALUES\n(…),\n(…); ALTER TABLE before and after them: mysql/float_scale.h
 *   definitions       DELIMITER, views, routines, triggers, events (may be missing)
 *   trailer member    -- worldkeeper end tables=N rows=M
 *
 * The sentinel table comes last, so that a manual restore that stopped halfway never looks alive.
 * A statement has at most FORMAT_STATEMENT bytes, or a single row. Byte counts are those of the
 * uncompressed SQL. */
#ifndef WK_DUMP_FORMAT_H
#define WK_DUMP_FORMAT_H

#include "base/gzip.h"
#include "base/text.h"
#include "mysql/schema.h"

#define FORMAT_STATEMENT 1000000u
#define FORMAT_MAGIC "-- worldkeeper dump 1\n"
#define FORMAT_TRAILER "-- worldkeeper end tables="

/* Writing: each function appends text to `b`. */
void format_header(struct buf *b, uint64_t heap_limit);
/* Follows the header if a table has no primary key: MySQL may be configured to require one. */
void format_keyless(struct buf *b);
/* Follows the header if a TIMESTAMP column has neither NULL nor a default: depending on its
 * configuration a server adds a default, and updates the column with each change of the row. */
void format_timestamps(struct buf *b);
void format_table(struct buf *b, const char *name, const char *create);
/* Appends a CREATE TABLE without AUTO_INCREMENT=…, which changes with the rows. A number that looks
 * like the option, in a comment, is removed as well. */
void format_uncounted(struct buf *b, const char *create, size_t len);
/* Appends an ALTER TABLE, which our own reader skips; `change` is UTF-8. */
void format_alter(struct buf *b, const char *name, const char *change);
/* Appends "INSERT INTO `t` (`a`,…) VALUES\n". */
void format_insert(struct buf *b, const char *table, const struct db_table *columns);
/* Appends the types and character sets of a table's columns, in the form of a CREATE TABLE, as
 * comment lines. The stock client skips them; format_open_rows() returns them with the rows. */
void format_columns_comment(struct buf *b, const char *table, const struct db_table *columns);
void format_trailer(struct buf *b, size_t tables, uint64_t rows);

/* Reading. */
enum format_type {
    FORMAT_CREATE,     /* a table begins: table, sql = its CREATE TABLE */
    FORMAT_ROWS,       /* table, columns = "(`a`,`b`)", rows in `sql`: "(…),\n(…)" */
    FORMAT_DEFINITION, /* sql = one statement of the definitions section (SET, DROP, CREATE) */
    FORMAT_END,        /* a correct trailer was read, and nothing follows it */
};
struct format_item {
    enum format_type type;
    const char *table;
    const char *columns;
    const char *sql; /* sql_len bytes, not NUL terminated */
    size_t sql_len;
    uint64_t rows;      /* FORMAT_ROWS: number of rows in this statement */
    uint64_t rows_hash; /* sum of the hashes of these rows */
    /* FORMAT_ROWS of format_open_rows(): the text of format_columns_comment() that precedes the
     * table's rows; "": there is none */
    const char *definition;
};
/* Reads more text, in steps of 256 KiB, after the existing text; text before *at is removed first.
 * The text ends with a NUL byte. */
int format_fill(struct gunzip *in, struct buf *text, size_t *at, bool *eof, struct err *e);
struct format_reader;
struct format_reader *format_open(struct gunzip *in, const char *name);
/* Opens one table's region of a dump: its CREATE TABLE and its rows, then FORMAT_END. */
struct format_reader *format_open_table(struct gunzip *in, const char *name);
/* Opens the rest of a dump without the regions of its tables; takes ownership of `text`. The
 * trailer must state these numbers of tables and rows. */
struct format_reader *format_open_rest(struct buf *text, const char *name, size_t tables,
                                       uint64_t rows);
/* Opens text with rows only, such as a conflict file: each INSERT names its table, the rows of a
 * table are adjacent, and there is no FORMAT_MAGIC and no FORMAT_CREATE. `counted`: it must end
 * with a trailer. */
struct format_reader *format_open_rows(struct gunzip *in, const char *name, bool counted);
/* Returns the tuple of FORMAT_ROWS after the one that ends at `tuple_end`; ",\n" is between
 * them. */
static inline const char *format_after_tuple(const char *tuple_end, const char *end)
{
    return tuple_end < end ? tuple_end + 2 : end;
}
/* Reads the next item; its text is valid until the next call. Anything unexpected is
 * ERR_DAMAGED. */
int format_next(struct format_reader *r, struct format_item *item, struct err *e);
void format_close(struct format_reader *r);

#endif
