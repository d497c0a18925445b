/* Converts row images, as row events contain them, into the tuples that rows.h reads of the same
 * rows: "(1,'it\'s',NULL)", byte for byte. A struct row_image is made for one table as a map event
 * describes it.
 *
 * A map has neither names nor signedness of the columns, unless the server is configured to write
 * them: those come from the table as the server describes it now, and everything that can be
 * compared must match (number, types, sizes; names and signedness where the map has them). Pure;
 * nothing in the bytes is trusted. Any thread, one at a time. */
#ifndef WK_BINLOG_ROW_IMAGE_H
#define WK_BINLOG_ROW_IMAGE_H

#include "base/text.h"
#include "binlog/event.h"
#include "mysql/schema.h"

struct row_image;
/* Returns NULL on failure: ERR_CHANGED, the table is not the one that the map describes (which
 * column, how it was, how it is), or ERR_REFUSED, a column type that a MEMORY table cannot have.
 * `t` need not outlive the call. */
struct row_image *row_image_open(const struct event_map *map, const struct db_table *t,
                                 struct err *e);
/* Returns true if it is also valid for another map of the same table. */
bool row_image_fits(const struct row_image *m, const struct event_map *map);
/* Checks a whole row event, which may hold no image at all. ERR_DAMAGED: other columns than those
 * of the map; ERR_REFUSED: as row_image_read(). */
int row_image_check(struct row_image *m, const struct event_rows *r, struct err *e);
/* Reads the image at `at` and appends its tuple to `out`: all columns that are not generated, in
 * the table's order. `r` is its event; `after`: it is the second image of an update. Returns the
 * position after it. Returns NULL for ERR_DAMAGED, or for ERR_REFUSED if a column is missing
 * (binlog_row_image is not FULL) or is stored as differences from the first image. */
const char *row_image_read(struct row_image *m, const struct event_rows *r, bool after,
                           const char *at, const char *end, struct buf *out, struct err *e);
/* Returns the position of the second image of the update at `at`, if both images have the same
 * bytes in all columns of the primary key. Otherwise, or if they cannot be read, returns NULL: then
 * row_image_read() reads both. */
const char *row_image_same_key(struct row_image *m, const struct event_rows *r, const char *at,
                               const char *end);
void row_image_close(struct row_image *m);

#endif
