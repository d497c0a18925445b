/* The columns of a row image: what a map event says about each is compared with what
 * information_schema says about it now; and how their values are printed. */
#ifndef WK_BINLOG_ROW_IMAGE_FIELD_H
#define WK_BINLOG_ROW_IMAGE_FIELD_H

#include "binlog/row_image_int.h"

/* Prepares for reading values of `c`, the next column of the map: takes its type from *types and
 * its metadata from *meta. ERR_DAMAGED: the metadata is too short; ERR_REFUSED: a type that a
 * MEMORY table cannot have; ERR_CHANGED: it cannot be that column. */
int field_next(struct field *f, const struct db_column *c, const uint8_t **types,
               const uint8_t **meta, const uint8_t *end, struct err *e);

#endif
