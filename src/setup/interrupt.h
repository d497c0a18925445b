/* Ctrl+C, and other requests to end. Setup then stops before its next step, and reports what was
 * done as after a failure. A second request ends it at once, which is safe for the record (made.h):
 * it has everything that was made. Effects check for a request in one place, effect_begin(); waits
 * check for it in interrupt_pause(). */
#ifndef WK_SETUP_INTERRUPT_H
#define WK_SETUP_INTERRUPT_H

#include <stdbool.h>

#include "base/err.h"

/* From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT are requests to end. Ignored ones stay so.
 * Further SIGHUPs have no effect, because a shell that ends sends one after the terminal's. */
void interrupt_catch(void);
bool interrupt_came(void);
/* Returns 0; ERR_ABORTED if a request came. */
int interrupt_check(struct err *e);
/* Waits until the descriptor can be read, or a request comes. */
void interrupt_wait(int fd);
/* Waits some milliseconds. Returns 0; ERR_ABORTED if a request came. */
int interrupt_pause(int ms, struct err *e);

#endif
