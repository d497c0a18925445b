/* A primary's record in the store that its life has ended and was handed over: WORLD/handover/GENERATION-MS.json, signed
 * where [dump] hmac_key_file is. It names the life, and the position that the other machine must reach: all of the world is
 * in the store up to there (journal/chain.h). Whoever takes the world over by hand need not ask whether it still runs. */
#ifndef WK_STANDBY_HANDOVER_H
#define WK_STANDBY_HANDOVER_H

#include "offsite/transfer.h"
#include "store/manifest.h"

struct handover {
    uint64_t generation; /* 0: there is none */
    char nonce[NONCE_HEX];
    /* In the binary log of the server that was given up. file "": a version that did not say it. */
    struct db_binlog_pos position;
};

int handover_write(const struct transfer *t, const char *world, const struct handover *h, wall_t at,
                   struct err *e);
/* Has it been reached: by a restore that applied the journal of that server up to `to`? Pure. */
bool handover_reached(const struct handover *h, const struct db_binlog_pos *to);
/* The newest one of a generation from `least` on. `ignored`: one that is not by our
 * key, or says something else than its name; ERR_NONE: none. */
int handover_read(const struct transfer *t, const char *world, uint64_t least, struct handover *out,
                  struct err *ignored, struct err *e);
/* The world is kept again: no word holds any more. */
int handover_clear(struct remote *r, const char *world, struct err *e);

#endif
