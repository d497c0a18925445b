/* The supervisor's side of the journal: the worker that follows the binary log while the world is
 * up (journal/follow.h), its lag, and the dumps that close gaps. */
#ifndef WK_SUPERVISOR_FOLLOWER_H
#define WK_SUPERVISOR_FOLLOWER_H

#include "supervisor/world.h"

struct follower *follower_new(struct world *w);
void follower_free(struct follower *f);
void follower_timers(struct world *w, mono_t now);
/* The next worker, which begins when this one has ended, works with the config and the directories
 * of now: two must not write the same file. */
void follower_restart(struct world *w);
void follower_kill(struct world *w);

/* Does the worker still write what it read from a server that is gone? A restore needs that. */
bool follower_busy(const struct world *w);
/* A job takes the world's tables away, and says so: that is no gap to report. */
void follower_leaves(struct world *w, bool leaves);
void follower_dump_begins(struct world *w);
void follower_dump_done(struct world *w);
/* A restore replaced the world; the old one was last seen at `alive`. */
void follower_restored(struct world *w, const char *dump, wall_t alive);
/* The tables of `shrunk` (dump/shrink_guard.h) that a TRUNCATE after the newest dump has emptied: adds
 * what happened to `what`, the way back to `todo`. */
void follower_explain_shrunk(const struct world *w, const json_t *shrunk, struct buf *what,
                             struct buf *todo);

json_t *follower_status_json(const struct world *w);
double follower_behind_seconds(const struct world *w); /* -1: not known */

#endif
