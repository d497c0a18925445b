/* Explains the guard's state to people who do not know worldkeeper: what happened, what to do, and
 * the command for it. One table of causes, for the pages, the terminal, the feed and the incidents
 * of the history. Pure. */
#ifndef WK_WATCH_EXPLAIN_H
#define WK_WATCH_EXPLAIN_H

#include "config/config.h"
#include "watch/guard.h"

struct explanation {
    char cause[160];  /* a sentence without its period; details are in the guard's reason */
    char todo[400];   /* sentences in the imperative; "": nothing needs to be done */
    char command[80]; /* for pasting, after hint_command() has completed it; "": none */
};

/* Returns what is known of the loss that the guard's probes count: an empty world on a server that
 * was restarted, or what is there instead. */
const char *explain_lost(const struct guard *g);

/* Fills `out`. `error`: the server's or system's number in the last probe, or 0. `hint`: that of
 * the last failed restore's error; of missing tables, the journal's about their DROP; or "". */
void explain(const struct guard *g, const struct config *c, int error, const char *hint,
             struct explanation *out);

#endif
