/* The rounds (store/round.h) that the store knows of: WORLD/rounds/NUMBER.json, signed where [dump] hmac_key_file is, and
 * written before the first dump of the round: until that one is stored, only this keeps another machine from taking a
 * dump of the round before. The first round needs none. */
#ifndef WK_OFFSITE_ROUNDS_H
#define WK_OFFSITE_ROUNDS_H

#include "offsite/transfer.h"

/* REMOTE_OK also where it is there already. */
enum remote_result rounds_write(const struct transfer *t, const char *world, uint64_t number,
                                struct err *e);
/* The highest number that is proven to be ours; 0: there is none. */
enum remote_result rounds_read(const struct transfer *t, const char *world, uint64_t *number,
                               struct err *e);

#endif
