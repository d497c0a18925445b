/* The supervisor's side of the journal: the worker that follows the binary log while the world is
 * up (journal/follow.h), its lag, and the dumps that close gaps. */
#ifndef WK_SUPERVISOR_FOLLOWER_H
#define WK_SUPERVISOR_FOLLOWER_H

#include "supervisor/world.h"

/* Does the worker still write what it read from a server that is gone? A restore needs that. */
bool follower_busy(const struct world *w);
/* A job takes the world's tables away, and says so: that is no gap to report. */
void follower_leaves(bool leaves);
void follower_dump_begins(void);
void follower_dump_done(struct world *w);
/* A restore replaced the world; the old one was last seen at `alive`. */
void follower_restored(struct world *w, const char *dump, wall_t alive);
/* The tables of `shrunk` (dump/shrink_guard.h) that a TRUNCATE after the newest dump has emptied: adds
 * what happened to `what`, the way back to `todo`. */
void follower_explain_shrunk(const struct world *w, const json_t *shrunk, struct buf *what,
                             struct buf *todo);

double follower_behind_seconds(void); /* -1: not known */

#endif
