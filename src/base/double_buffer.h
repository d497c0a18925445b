/* A double buffer: while its owner fills one half, a thread processes the other. The contents are
 * the owner's; only the hand-over is done here.
 *
 * Halves are processed in the order in which they were submitted. The thread is started with the
 * second one, so that little work needs no thread; if none can be started, the owner's thread does
 * all the work. After an error nothing more is processed, and turn and drain return that error. For
 * one owner's thread. */
#ifndef WK_BASE_DOUBLE_BUFFER_H
#define WK_BASE_DOUBLE_BUFFER_H

#include <stdbool.h>

#include "base/err.h"

struct double_buffer;
/* Half 0 or 1; -1 fails. */
typedef int double_buffer_fn(void *arg, unsigned half, struct err *e);
/* `edge`: called in the thread, when it begins and when it ends; may be NULL. */
struct double_buffer *double_buffer_open(double_buffer_fn *work, void (*edge)(bool begins),
                                         void *arg);
/* The half that the owner fills. */
unsigned double_buffer_half(const struct double_buffer *b);
/* Submits it; returns once the other half, which is the next to fill, has been processed. */
int double_buffer_turn(struct double_buffer *b, struct err *e);
/* Returns once everything submitted has been processed. */
int double_buffer_drain(struct double_buffer *b, struct err *e);
/* Work not begun by then is dropped. NULL is allowed. */
void double_buffer_close(struct double_buffer *b);

#endif
