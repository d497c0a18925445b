/* The child that queries the server each second, and the judgment of its answers. */
#ifndef WK_SUPERVISOR_PROBER_H
#define WK_SUPERVISOR_PROBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct judgement;
struct observation;
struct part;
struct state;
struct world;

extern const struct part prober_part;

/* Both return true if there is a judgment. */
bool prober_message(struct world *w, struct judgement *out);
bool prober_timers(struct world *w, mono_t now, struct judgement *out);
/* Returns ms until prober_timers() has something to do. */
int64_t prober_sleep(const struct world *w, mono_t now);
void prober_next(mono_t at);
/* Probes at once, and drops the answer to a pending probe, because it describes the world before a
 * restore. */
void prober_discard(void);

/* Expects the world of the state. `seen`: when this supervisor saw it; ms 0: an earlier supervisor
 * did. */
void prober_expect(struct world *w, const struct state *s, mono_t seen);
/* Records that a restore may swap in a world with this nonce from now on. */
void prober_expect_next(struct world *w, const char *nonce);

const struct observation *prober_last(void);
/* Returns when its probe was sent; ms 0: there was none. */
mono_t prober_last_asked(void);
/* Returns true if the last ALIVE saw the same nonce and server process as the previous one. */
bool prober_same_world(void);

#endif
