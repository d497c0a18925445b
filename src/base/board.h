/* Shared memory that holds one process's latest figures. A reader looks at its next wake-up;
 * writing wakes nobody, unlike a packet (worker.h). Only the newest values are kept. One process
 * writes; its parent or children read. */
#ifndef WK_BASE_BOARD_H
#define WK_BASE_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct board;

/* Returns empty shared memory for a struct of `size` bytes, a multiple of 8. Call it before the
 * fork. It lives as long as the process. */
struct board *board_new(size_t size, struct err *e);
/* Resets it to "nothing written". Call it between the end of one writer and the start of the
 * next. */
void board_clear(struct board *b);
void board_write(struct board *b, const void *data);
/* Returns true if something newer than version *seen (0 at first) was written: `out` is then the
 * latest complete struct, and *seen its version. Returns false if not, or if a write is in
 * progress; `out` is then undefined. */
bool board_read(const struct board *b, uint64_t *seen, void *out);

#endif
