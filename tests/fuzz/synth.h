/* Tables that fit a map, for maps that no server wrote: every type in every variety. */
#ifndef SYNTH_H
#define SYNTH_H

#include "binlog/row_image.h"

/* The table that `map` may have been logged of; `seed` chooses signs, ZEROFILL, digits behind the
 * point and generated columns. A column of a type that is unknown here is an INT. */
void synth_table(const struct event_map *map, uint64_t seed, struct db_table *out);
void synth_free(struct db_table *t);
/* Reads all rows of `r`, and aborts where one is no tuple of so many values. */
void synth_rows(const struct event_map *map, const struct event_rows *r, uint64_t seed);

#endif
