/* The text of a dump: plain SQL that the stock client runs, and that we read back as data.
 *
 *   header member     -- worldkeeper dump 1, SET …
 *   members a table   DROP TABLE IF EXISTS, CREATE TABLE, INSERT INTO `t` (`a`,…)
 *                     VALUES\n(…),\n(…); ALTER TABLE before and behind them: db/digits.h
 *   definitions       DELIMITER, views, routines, triggers, events (may be missing)
 *   trailer member    -- worldkeeper end tables=N rows=M
 *
 * The sentinel's table is the last one, so that a half-run restore by hand never looks alive.
 * Statements hold at most FORMAT_STATEMENT bytes, or one row. Numbers of bytes are of plain SQL. */
#ifndef WK_DUMP_FORMAT_H
#define WK_DUMP_FORMAT_H

#include "core/gzip.h"
#include "core/text.h"
#include "db/query.h"

#define FORMAT_STATEMENT 1000000u
#define FORMAT_MAGIC "-- worldkeeper dump 1\n"
#define FORMAT_TRAILER "-- worldkeeper end tables="

/* Writing: each adds text to `b`. */
void format_header(struct buf *b, uint64_t heap_limit);
/* Behind the header, for tables without a primary key: MySQL may have been told to want one. */
void format_keyless(struct buf *b);
/* Behind the header, for a TIMESTAMP that has neither NULL nor a default: a server may have been
 * told to give it one, and to change it with each row. */
void format_timestamps(struct buf *b);
void format_table(struct buf *b, const char *name, const char *create);
/* ALTER TABLE, which we pass over; `change` is UTF-8. */
void format_alter(struct buf *b, const char *name, const char *change);
/* "INSERT INTO `t` (`a`,…) VALUES\n" */
void format_insert(struct buf *b, const char *table, const struct db_table *columns);
void format_trailer(struct buf *b, size_t tables, uint64_t rows);

/* Reading. */
enum format_type {
    FORMAT_CREATE,     /* a table begins: table, sql = its CREATE TABLE */
    FORMAT_ROWS,       /* table, columns = "(`a`,`b`)", rows in `sql`: "(…),\n(…)" */
    FORMAT_DEFINITION, /* sql = one statement of the definitions section (SET, DROP, CREATE) */
    FORMAT_END,        /* trailer seen and right, nothing behind it */
};
struct format_item {
    enum format_type type;
    const char *table;
    const char *columns;
    const char *sql; /* sql_len bytes, not NUL terminated */
    size_t sql_len;
    uint64_t rows;      /* FORMAT_ROWS: of this statement */
    uint64_t rows_hash; /* of this statement */
};
struct format_reader;
struct format_reader *format_open(struct gunzip *in, const char *name);
/* The part of one table: its CREATE TABLE and its rows, and FORMAT_END where the part ends. */
struct format_reader *format_open_table(struct gunzip *in, const char *name);
/* What is left of a dump without the parts of its tables; `text` is taken over. The trailer must
 * count so many tables and rows. */
struct format_reader *format_open_rest(struct buf *text, const char *name, size_t tables,
                                       uint64_t rows);
/* The next item; its text lives until the next call. Anything unexpected is ERR_DAMAGED. */
int format_next(struct format_reader *r, struct format_item *item, struct err *e);
void format_close(struct format_reader *r);

#endif
