/* The newest dump, and when the next is due. */
#ifndef WK_SUPERVISOR_DUMPS_H
#define WK_SUPERVISOR_DUMPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct catalog;
struct manifest;
struct part;
struct world;

extern const struct part dumps_part;

/* What is in the catalog of the dump directory, at the start or after that was replaced. */
void dumps_load(struct world *w, const struct catalog *c);
/* `m` is here, now: it was stored, or a standby has fetched it. */
void dumps_stored(struct world *w, const struct manifest *m);
/* A dump failed. Returns the ms until the next attempt; `next_interval`: until the next is due. */
int64_t dumps_failed(struct world *w, bool next_interval);

/* Without its tables (manifest_figures()); NULL: there is none. */
const struct manifest *dumps_newest(void);
/* A world that was loaded from a stored dump by hand, with the stock client, is ours. */
bool dumps_know_nonce(const char *nonce);
unsigned dumps_failures(void); /* in a row */
mono_t dumps_next(void);
void dumps_due(mono_t when);

#endif
