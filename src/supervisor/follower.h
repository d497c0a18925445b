/* The child that reads the binary log while the world is up: what it has read, and what is
 * missing. */
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

/* Returns true while the worker still writes what it read from a server that is gone. A restore
 * needs that. */
bool follower_busy(const struct world *w);
/* Tells that a job takes the world's tables away, which is not a gap to report. */
void follower_leaves(bool leaves);
void follower_dump_begins(void);
void follower_dump_done(struct world *w);
/* Tells that a restore replaced the world; the old one was last seen at `alive`. */
void follower_restored(struct world *w, const char *dump, wall_t alive);
/* For the first tables of `shrunk` (dump/shrink_guard.h): appends to `what` what happened, if the
 * journal shows a TRUNCATE or a deletion after the newest dump, and to `todo` how to recover the
 * rows. Call it before follower_dump_done(). */
void follower_explain_shrunk(const struct world *w, const json_t *shrunk, struct buf *what,
                             struct buf *todo);

/* Returns the ms at the end that are not proven to be in the journal, which has everything else
 * since the newest dump; -1: that is not known. */
int64_t follower_unproven(const struct world *w);
double follower_behind_seconds(void); /* -1: not known */

#endif
