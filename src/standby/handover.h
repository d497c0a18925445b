/* A primary's record in the store that its life has ended and was handed over:
 * WORLD/handover/GENERATION-MS.json, signed if there is [dump] hmac_key_file. It names the life,
 * and the position that the other machine must reach: the store has the whole world up to there
 * (journal/chain.h; tests/models/README.md, rule 6). An operator who then promotes the other
 * machine need not check that this one has stopped. */
#ifndef WK_STANDBY_HANDOVER_H
#define WK_STANDBY_HANDOVER_H

#include "offsite/transfer.h"
#include "store/manifest.h"

struct handover {
    uint64_t generation; /* 0: there is none */
    char nonce[NONCE_HEX];
    /* In the binary log of the server that was given up. file "": written by a version that did not
     * record it. */
    struct db_binlog_pos position;
};

int handover_write(const struct transfer *t, const char *world, const struct handover *h, wall_t at,
                   struct err *e);
/* Returns true if this life of the world was handed over. Pure. */
bool handover_is_of(const struct handover *h, uint64_t generation, const char *nonce);
/* Returns true if a restore that applied the journal of that server up to `to` has reached the
 * position. Pure. */
bool handover_reached(const struct handover *h, const struct db_binlog_pos *to);
/* Reads the newest handover of a generation from `least` on. `ignored`: one that is not signed by
 * our key, or differs from its name; ERR_NONE: none. */
int handover_read(const struct transfer *t, const char *world, uint64_t least, struct handover *out,
                  struct err *ignored, struct err *e);
/* Deletes all handovers, because the world is kept again. */
int handover_clear(struct remote *r, const char *world, struct err *e);

#endif
