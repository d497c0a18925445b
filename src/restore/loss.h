/* How much playing time a restore did not recover. Pure: no clock, no file, no database.
 *
 *        covered                        last write          ended
 *   --------|--------------------------------|----------------|-------> time
 *           |<------------ lost ------------>|
 *           |<------------------ at most ------------------->|
 *
 * The time of the last write is not known. It is proven that nothing was written into the lost
 * world after it ended, so the distance to that moment is the upper limit of the loss. */
#ifndef WK_RESTORE_LOSS_H
#define WK_RESTORE_LOSS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/text.h"

/* All times by this machine's clock; ms 0: not known. */
struct loss_facts {
    bool nothing;   /* proven: everything that was acknowledged is restored */
    wall_t covered; /* everything acknowledged up to then is restored */
    wall_t alive;   /* the world was last seen alive */
    /* when it was first seen gone after that: its sentinel row or its server was missing */
    wall_t gone;
    wall_t server_started; /* start of the server that lost it; 0 also if that process still runs */
    wall_t now;
};

struct loss {
    bool nothing;
    int64_t most_ms; /* -1: not known */
};

struct loss loss_of(const struct loss_facts *f);
/* Writes "nothing lost", "at most 21 s lost" (rounded up), or "loss unknown". */
const char *loss_words(const struct loss *l, char out[TEXT_SHORT]);
/* Sets lost_seconds (0; null: not known exactly), lost_seconds_max (null: not known) and `lost`,
 * the text of loss_words(). */
void loss_to_json(const struct loss *l, json_t *o);
/* Reads them; without these keys the loss is unknown. */
struct loss loss_from_json(const json_t *o);

#endif
