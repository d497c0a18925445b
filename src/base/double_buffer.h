/* A double buffer: its owner fills one half while a thread processes the other. The owner defines
 * the contents; this file only hands them over.
 *
 * Halves are processed in the order of submission. The thread starts with the second half, so that
 * little work needs no thread. If no thread can be started, the owner's thread does all the work.
 * After an error nothing more is processed, and turn and drain return that error. Only one thread
 * may use it as owner. */
#ifndef WK_BASE_DOUBLE_BUFFER_H
#define WK_BASE_DOUBLE_BUFFER_H

#include <stdbool.h>

#include "base/err.h"

struct double_buffer;
/* Processes half 0 or 1. Returns -1 on failure. */
typedef int double_buffer_fn(void *arg, unsigned half, struct err *e);
/* `edge` is called in the thread when it begins and when it ends; it may be NULL. */
struct double_buffer *double_buffer_open(double_buffer_fn *work, void (*edge)(bool begins),
                                         void *arg);
/* Returns the half that the owner fills next. */
unsigned double_buffer_half(const struct double_buffer *b);
/* Submits the current half. Returns when the other half, which is filled next, has been
 * processed. */
int double_buffer_turn(struct double_buffer *b, struct err *e);
/* Waits until everything submitted has been processed. */
int double_buffer_drain(struct double_buffer *b, struct err *e);
/* Drops work that has not begun. NULL is allowed. */
void double_buffer_close(struct double_buffer *b);

#endif
