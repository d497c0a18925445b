/* The child that reads the binary log while the world lives: what it has, and what it lacks. */
#ifndef WK_SUPERVISOR_FOLLOWER_H
#define WK_SUPERVISOR_FOLLOWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/text.h"

struct part;
struct world;

extern const struct part follower_part;

/* Does the worker still write what it read from a server that is gone? A restore needs that. */
bool follower_busy(const struct world *w);
/* A job takes the world's tables away, and says so: that is no gap to report. */
void follower_leaves(bool leaves);
void follower_dump_begins(void);
void follower_dump_done(struct world *w);
/* A restore replaced the world; the old one was last seen at `alive`. */
void follower_restored(struct world *w, const char *dump, wall_t alive);
/* Of the first tables of `shrunk` (dump/shrink_guard.h): adds what happened to `what`, as far as the journal shows a
 * TRUNCATE or a deletion after the newest dump, and the way back to `todo`. To be called before follower_dump_done(). */
void follower_explain_shrunk(const struct world *w, const json_t *shrunk, struct buf *what,
                             struct buf *todo);

/* ms at the end that are not proven to be in the journal, which covers all before since the newest dump; -1: that is not
 * known. */
int64_t follower_unproven(const struct world *w);
double follower_behind_seconds(void); /* -1: not known */

#endif
