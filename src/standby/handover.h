/* A primary's word in the store that it has ended and that all of its world is there: WORLD/handover/
 * GENERATION-MS.json, signed where [dump] hmac_key_file is. Whoever takes the world over by hand need not ask
 * whether it still runs. */
#ifndef WK_STANDBY_HANDOVER_H
#define WK_STANDBY_HANDOVER_H

#include "offsite/transfer.h"

int handover_write(const struct transfer *t, const char *world, uint64_t generation, wall_t at,
                   struct err *e);
/* The newest word of a generation from `least` on; *generation 0: there is none. `ignored`: one that is not by our
 * key, or says something else than its name; ERR_NONE: none. */
int handover_read(const struct transfer *t, const char *world, uint64_t least, uint64_t *generation,
                  struct err *ignored, struct err *e);
/* The world is kept again: no word holds any more. */
int handover_clear(struct remote *r, const char *world, struct err *e);

#endif
