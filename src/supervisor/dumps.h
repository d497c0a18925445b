/* The dumps as the supervisor knows them: the newest one, when the next is due, and the nonces that
 * they hold. */
#ifndef WK_SUPERVISOR_DUMPS_H
#define WK_SUPERVISOR_DUMPS_H

#include "store/catalog.h"

struct world;

/* What is in the catalog of the dump directory, at the start or after that was replaced. */
void dumps_load(struct world *w, const struct catalog *c);
/* `m` was stored, now. */
void dumps_stored(struct world *w, const struct manifest *m);
/* A dump failed. Returns the ms until the next attempt; `next_interval`: until the next is due. */
int64_t dumps_failed(struct world *w, bool next_interval);

/* Without its tables (manifest_figures()); NULL: there is none. */
const struct manifest *dumps_newest(void);
/* Its file's size; 0: there is none. */
uint64_t dumps_newest_size(void);
/* A world that was loaded from a stored dump by hand, with the stock client, is ours. */
bool dumps_know_nonce(const char *nonce);
unsigned dumps_failures(void); /* in a row */
mono_t dumps_next(void);
void dumps_due(mono_t when);

#endif
