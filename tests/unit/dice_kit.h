/* Numbers for tests that only look random: the same ones from the same seed (xorshift64). */
#ifndef WK_TESTS_DICE_KIT_H
#define WK_TESTS_DICE_KIT_H

#include <stdint.h>

static uint64_t dice_seed = 88172645463325252u; /* never 0 */

/* 0 to below - 1. */
static inline unsigned dice(unsigned below)
{
    dice_seed ^= dice_seed << 13;
    dice_seed ^= dice_seed >> 7;
    dice_seed ^= dice_seed << 17;
    return (unsigned)((dice_seed >> 20) % below);
}

#endif
