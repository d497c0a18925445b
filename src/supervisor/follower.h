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

struct manifest;

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
 * journal shows a TRUNCATE or a deletion since the dump that had the rows, and to `todo` how to
 * recover the rows. Returns whether all of it was reported before. */
bool follower_explain_shrunk(const struct world *w, const json_t *shrunk, struct buf *what,
                             struct buf *todo);
/* Returns whether the journal, which was not yet read up to the time `since`, may still show what
 * took the rows of these tables. */
bool follower_may_explain(const json_t *shrunk, mono_t since);
/* Returns whether a loss of rows was reported that happened after this dump. */
bool follower_loss_after(const struct manifest *dump);
/* Returns the rows, in the newest dump, of tables that were reported as dropped since. */
uint64_t follower_dropped_rows(void);

/* Returns the ms at the end that are not proven to be in the journal, which has everything else
 * since the newest dump; -1: that is not known. */
int64_t follower_unproven(const struct world *w);
double follower_behind_seconds(void); /* -1: not known */

#endif
