/* The newest dump, and when the next one is due. */
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

/* Takes the catalog of the dump directory, at the start or after the directory was replaced. */
void dumps_load(struct world *w, const struct catalog *c);
/* Records that `m` is now here: it was stored, or a standby has fetched it. */
void dumps_stored(struct world *w, const struct manifest *m);
/* Records a failed dump. Returns the ms until the next attempt; `next_interval`: wait for the next
 * interval. */
int64_t dumps_failed(struct world *w, bool next_interval);

/* Returns the newest dump without its tables (manifest_figures()); NULL: there is none. */
const struct manifest *dumps_newest(void);
/* Returns the newest dump's age in ms, whatever the wall clock is set to meanwhile. There must be
 * one. */
int64_t dumps_age(mono_t now);
/* Returns true if a dump has this nonce: a world that was loaded from it by hand, with the stock
 * client, is ours. */
bool dumps_know_nonce(const char *nonce);
unsigned dumps_failures(void); /* number in a row */
mono_t dumps_next(void);
/* Asks for a dump at `when`. A reload of the config does not delay it. */
void dumps_due(mono_t when);

#endif
