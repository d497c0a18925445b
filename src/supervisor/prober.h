/* The child that asks the server each second, and the judgement of its answers. */
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

/* Both: true if there is a judgement. */
bool prober_message(struct world *w, struct judgement *out);
bool prober_timers(struct world *w, mono_t now, struct judgement *out);
/* Ms until prober_timers() has something to do. */
int64_t prober_sleep(const struct world *w, mono_t now);
void prober_next(mono_t at);
/* Asks at once, and drops the answer to a question that is under way: it describes the world
 * before a restore. */
void prober_discard(void);

/* The world is the one of the state. `seen`: when we found that ourselves; ms 0: an earlier
 * supervisor did. */
void prober_expect(struct world *w, const struct state *s, mono_t seen);
/* A restore may swap in a world with this nonce from now on. */
void prober_expect_next(struct world *w, const char *nonce);

const struct observation *prober_last(void);
/* When its question was asked; ms 0: there was none. */
mono_t prober_last_asked(void);
/* Did the last ALIVE see the same nonce and server process as the one before it? */
bool prober_same_world(void);

#endif
