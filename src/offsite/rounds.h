/* The rounds (store/round.h) that the store knows: WORLD/rounds/NUMBER.json, signed if there is
 * [dump] hmac_key_file, and written before the first dump of the round. Until that dump is stored,
 * only this file keeps another machine from using a dump of the previous round. The first round
 * needs none. */
#ifndef WK_OFFSITE_ROUNDS_H
#define WK_OFFSITE_ROUNDS_H

#include "offsite/transfer.h"

/* Returns REMOTE_OK also if it exists. */
enum remote_result rounds_write(const struct transfer *t, const char *world, uint64_t number,
                                struct err *e);
/* Reads the highest number that is proven to be ours; 0: there is none. */
enum remote_result rounds_read(const struct transfer *t, const char *world, uint64_t *number,
                               struct err *e);

#endif
