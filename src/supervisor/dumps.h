/* The dumps as the supervisor knows them: the newest one, when the next is due, and the nonces that
 * they hold. */
#ifndef WK_SUPERVISOR_DUMPS_H
#define WK_SUPERVISOR_DUMPS_H

#include "store/catalog.h"

struct world;

struct dumps *dumps_new(void);
void dumps_free(struct dumps *d);
/* What is in the catalog of the dump directory, at the start or after that was replaced. */
void dumps_load(struct world *w, const struct catalog *c);
/* `m` was stored, now. */
void dumps_stored(struct world *w, const struct manifest *m);
/* A dump failed. Returns the ms until the next attempt; `next_interval`: until the next is due. */
int64_t dumps_failed(struct world *w, bool next_interval);

/* Without its tables (manifest_figures()); NULL: there is none. */
const struct manifest *dumps_newest(const struct world *w);
/* Its file's size; 0: there is none. */
uint64_t dumps_newest_size(const struct world *w);
/* A world that was loaded from a stored dump by hand, with the stock client, is ours. */
bool dumps_know_nonce(const struct world *w, const char *nonce);
unsigned dumps_failures(const struct world *w); /* in a row */
mono_t dumps_next(const struct world *w);
void dumps_due(struct world *w, mono_t when);
/* After a reload of the config. */
void dumps_follow_interval(struct world *w);
/* Is the newest one older than [dump] max_age? */
void dumps_timers(struct world *w, mono_t now);

#endif
