/* Images of rows, as row events hold them, into the tuples that rows.h reads of the same rows:
 * "(1,'it\'s',NULL)", byte for byte. One image stands for one table as a map event describes it.
 *
 * A map has neither names nor signs of the columns, unless the server is told to write them: those
 * come from the table as the server describes it now, and everything that can be compared must fit
 * (number, types, sizes; names and signs where the map has them). Pure; nothing in the bytes is
 * trusted. Any thread, one at a time. */
#ifndef WK_DB_IMAGE_H
#define WK_DB_IMAGE_H

#include "core/text.h"
#include "db/event.h"
#include "db/query.h"

struct image;
/* NULL: ERR_CHANGED, the table is not the one that the map describes (which column, what it was,
 * what it is), or ERR_REFUSED, a column of a type that a MEMORY table cannot hold. `t` may go
 * afterwards. */
struct image *image_open(const struct event_map *map, const struct db_table *t, struct err *e);
/* Does this image fit another map of the same table? */
bool image_fits(const struct image *m, const struct event_map *map);
/* Once for each row event, before its images are read: ERR_DAMAGED, other columns than those of the
 * map; ERR_REFUSED as below. */
int image_check(struct image *m, const struct event_rows *r, struct err *e);
/* Reads the image at `at` and adds its tuple to `out`: all columns that are not generated, in the
 * table's order. `present` has a bit for each column of the map. Returns the place behind it; NULL:
 * ERR_DAMAGED, or ERR_REFUSED when a column is not in `present` (binlog_row_image is not FULL). */
const char *image_read(struct image *m, const uint8_t *present, const char *at, const char *end,
                       struct buf *out, struct err *e);
/* The second image of an update: the same, by what `r` says of it. ERR_REFUSED too where it is told
 * by its differences from the first. */
const char *image_read_after(struct image *m, const struct event_rows *r, const char *at,
                             const char *end, struct buf *out, struct err *e);
void image_close(struct image *m);

#endif
