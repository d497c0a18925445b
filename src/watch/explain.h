/* The guard's state in words for people who do not know worldkeeper: what happened, what to do, and the command for it.
 * One table of causes, for the pages, the terminal, the feed and the incidents of the history. Pure. */
#ifndef WK_WATCH_EXPLAIN_H
#define WK_WATCH_EXPLAIN_H

#include "config/config.h"
#include "watch/guard.h"

struct explanation {
    char cause[160];  /* a sentence without its period; details are in the guard's reason */
    char todo[400];   /* sentences in the imperative; "": nothing to do */
    char command[80]; /* to paste, after hint_command() has completed it; "": none */
};

/* `error`: the server's or system's number in the last probe, or 0. `hint`: of the error that the last restore failed
 * with, or "". */
void explain(const struct guard *g, const struct config *c, int error, const char *hint,
             struct explanation *out);

#endif
