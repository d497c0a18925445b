/* Rounds of a game. A sentinel that --init or --new-round creates begins a new round: the earlier
 * world is over. Dumps of earlier rounds stay in the directory, are listed as such, and are
 * restored only by name, never automatically.
 *
 * The number of the current round is in round.json in the dump directory (written before the
 * sentinel is created), in state.json, in each manifest, and in the store (offsite/rounds.h). The
 * highest one counts. The first round is 1; dumps from before rounds existed have round 0. */
#ifndef WK_STORE_ROUND_H
#define WK_STORE_ROUND_H

#include <stdint.h>

#include "base/err.h"

#define ROUND_MAX INT64_C(999999999)

struct round {
    uint64_t number; /* 0: none was begun here */
    char nonce
        /* nonce of the sentinel that began the round; it proves that the sentinel is ours even if
         * the process was killed before it recorded that */
        [33];
};
void round_read(int dirfd, struct round *out);
/* Durable when it returns 0. */
int round_begin(int dirfd, uint64_t number, const char *nonce, struct err *e);
/* Signs the existing file, because the caller states that it is ours. */
int round_sign(int dirfd, struct err *e);

#endif
