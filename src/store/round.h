/* Rounds of a game. A sentinel that --init or --new-round makes begins a new round: the world before it is over. Dumps of
 * earlier rounds stay in the directory, are listed as such, and are restored only by name: nothing that chooses a dump by
 * itself takes one.
 *
 * The number of the current round is in round.json in the dump directory, written before the sentinel is made, in
 * state.json, in each manifest, and in the store (offsite/rounds.h); the highest one counts. The first round is 1, and that
 * of dumps from before there were rounds is 0. */
#ifndef WK_STORE_ROUND_H
#define WK_STORE_ROUND_H

#include <stdint.h>

#include "base/err.h"

#define ROUND_MAX INT64_C(999999999)

struct round {
    uint64_t number; /* 0: none was begun here */
    char nonce
        [33]; /* of the sentinel that it was begun with: that one is ours, whoever was killed before he noted it */
};
void round_read(int dirfd, struct round *out);
/* Durable when it returns 0. */
int round_begin(int dirfd, uint64_t number, const char *nonce, struct err *e);
/* Signs the file as it is, on the caller's word that it is ours. */
int round_sign(int dirfd, struct err *e);

#endif
