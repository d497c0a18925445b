/* Ctrl+C, and other requests to end. Setup then stops before its next step, and reports what was
 * done as after a failure. A second request ends it at once, which is safe at any time: the record
 * (made.h) has everything that was made. */
#ifndef WK_SETUP_INTERRUPT_H
#define WK_SETUP_INTERRUPT_H

#include <stdbool.h>

#include "base/err.h"

/* From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT are requests to end. Ignored ones stay so. */
void interrupt_catch(void);
bool interrupt_came(void);
/* Returns 0; ERR_ABORTED if a request came. */
int interrupt_check(struct err *e);
/* Waits until the descriptor can be read, or a request comes. */
void interrupt_wait(int fd);

#endif
