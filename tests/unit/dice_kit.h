/* Numbers for tests that only look random: the same ones from the same seed (xorshift64). */
#ifndef WK_TESTS_DICE_KIT_H
#define WK_TESTS_DICE_KIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint64_t dice_seed = 88172645463325252u; /* never 0 */

/* 0 to below - 1. */
static inline unsigned dice(unsigned below)
{
    dice_seed ^= dice_seed << 13;
    dice_seed ^= dice_seed >> 7;
    dice_seed ^= dice_seed << 17;
    return (unsigned)((dice_seed >> 20) % below);
}

/* How many of `all` rounds are run, how far apart the places are that are tried: all of them
 * where the whole is wanted (make nightly), else a third. */
static inline bool dice_whole(void)
{
    const char *whole = getenv("WK_WHOLE");
    return whole && strcmp(whole, "yes") == 0;
}

static inline unsigned dice_rounds(unsigned all)
{
    return dice_whole() ? all : all / 3;
}

static inline unsigned dice_stride(void)
{
    return dice_whole() ? 1 : 3;
}

#endif
