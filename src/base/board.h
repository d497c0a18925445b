/* Memory in which one process leaves what it knows for another one that looks when it is awake anyway: a packet
 * (worker.h) would wake it each time. Only the newest is kept. One process writes, those that were forked from it,
 * or that it was forked from, read. */
#ifndef WK_BASE_BOARD_H
#define WK_BASE_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct board;

/* For a struct of `size` bytes, a multiple of 8; nothing is written yet. Made before the fork, for as long as the process lives. */
struct board *board_new(size_t size, struct err *e);
/* As if nothing had been written: between the end of one writer, whatever ended it, and the start of the next. */
void board_clear(struct board *b);
void board_write(struct board *b, const void *data);
/* false: nothing was written since the version `*seen` (0 at first), or it is being written just now, and `out`
 * means nothing. true: `out` is what was written last, whole, and `*seen` its version. */
bool board_read(const struct board *b, uint64_t *seen, void *out);

#endif
