/* Internals of the reader of tables' definitions. */
#ifndef WK_SQL_TABLE_INT_H
#define WK_SQL_TABLE_INT_H

#include "sql/reader.h"
#include "sql/table.h"

/* A literal, with its sign and character set. */
void expression_literal(struct reader *r, struct buf *out);
/* "( … )" of listed words, functions and operators. */
void expression_read(struct reader *r, struct buf *out);
/* What follows DEFAULT. */
void expression_default(struct reader *r, struct buf *out);
/* CURRENT_TIMESTAMP, with digits or without. */
void expression_now(struct reader *r, struct buf *out);

/* DISK, MEMORY or DEFAULT. */
void options_storage(struct reader *r, struct buf *out);
/* The value of an option of MariaDB's engines: a number or one of `words`. Each version quotes others of them. */
void options_engine_value(struct reader *r, const char *words, struct buf *out);
/* One option: "NAME = value". */
void options_one(struct reader *r, struct sql_table *t);
/* All that follows the columns. */
void options_read(struct reader *r, struct sql_table *t);

#endif
