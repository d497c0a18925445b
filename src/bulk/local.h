/* One of the ways of bulk.h: LOAD DATA LOCAL, fed from memory. */
#ifndef WK_BULK_LOCAL_H
#define WK_BULK_LOCAL_H

#include "bulk/bulk_int.h"

/* Appends the lines for LOAD DATA of "(…),\n(…)" to `out`. Returns -1 if they are not plain
 * values. */
int bulk_lines(struct buf *out, const char *tuples, size_t len);

void bulk_local_open(struct db_bulk *b, const struct bulk_column *columns, size_t count);
int bulk_local_send(struct db_bulk *b, const struct buf *lines, struct err *e);

#endif
