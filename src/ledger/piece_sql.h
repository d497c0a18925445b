/* Builds the statements of a piece. */
#ifndef WK_LEDGER_PIECE_SQL_H
#define WK_LEDGER_PIECE_SQL_H

#include "ledger/run_int.h"

void ledger_sql_select(struct buf *b, const struct run *r);
void ledger_sql_limit(struct buf *b, const struct run *r, char **row, const unsigned long *len,
                      uint64_t id, bool after, bool whole_key);
void ledger_sql_add(struct buf *b, const struct run *r, const struct piece *p);
/* Appends the condition for the rows of a piece. */
void ledger_sql_rows_of(struct buf *b, const struct run *r, const struct piece *p);
void ledger_sql_delete(struct buf *b, const struct run *r, const struct piece *p);
void ledger_put_literal(struct buf *b, const struct db_column *c, const char *v, size_t len,
                        bool compared);

#endif
