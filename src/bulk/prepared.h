/* Two of the ways of bulk.h: a prepared INSERT with whole columns as arrays, or with some
 * hundred rows in a statement. */
#ifndef WK_BULK_PREPARED_H
#define WK_BULK_PREPARED_H

#include "bulk/bulk_int.h"

/* Returns true if library and server support arrays. */
bool bulk_array_there(struct db *db);
/* Prepares the INSERT for the ways `array` and `rows`. Call bulk_prepared_close() even after a
 * failure. */
int bulk_prepared_open(struct db_bulk *b, const struct bulk_column *columns, size_t count,
                       struct err *e);
void bulk_prepared_close(struct bulk_prepared *p);
int bulk_array_send(struct db_bulk *b, const struct bulk_block *k, struct err *e);
int bulk_rows_send(struct db_bulk *b, const struct bulk_block *k, struct err *e);

#endif
