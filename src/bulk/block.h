/* Parses rows of literals into whole columns, for binding as arrays. Pure. */
#ifndef WK_BULK_BLOCK_H
#define WK_BULK_BLOCK_H

#include "bulk/bulk_int.h"

void bulk_block_init(struct bulk_block *k, const struct bulk_column *columns, size_t count);
/* Refills the block with rows of "(…),\n(…)", as many as `packet` bytes take, but at least one.
 * Returns the position of the next row, or `end` after the last; NULL: not plain values for such
 * columns. */
const char *bulk_block_read(struct bulk_block *k, const char *s, const char *end, size_t packet);
void bulk_block_free(struct bulk_block *k);

/* Appends the value, `?` or a variable, wrapped in an expression if the bytes alone would not reach
 * the column unchanged. */
void bulk_expression(struct buf *b, enum db_encoding enc, const char *value);

#endif
