/* One line per event on standard error, for journald (priority prefix) or a terminal (time
 * prefix). Only main, the supervisor and the entry functions of workers log; everything else
 * returns a struct err. */
#ifndef WK_BASE_LOG_H
#define WK_BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_ERROR_ = 3, LOG_WARN_ = 4, LOG_NOTE_ = 5, LOG_INFO_ = 6, LOG_DEBUG_ = 7 };

/* Lines above `max` are dropped. Called once at start. */
void log_open(enum log_level max);
/* Returns whether systemd's journal takes the log, as that of its services. */
bool log_in_journal(void);
/* Writes a line. Never blocks on a slow reader of the log: lines that do not fit are dropped, and
 * the next line that is written contains their number. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Logs "what: text", and a second line "HINT: ..." if there is a hint. */
void log_err(enum log_level level, const char *what, const struct err *e);

#endif
