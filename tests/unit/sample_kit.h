/* Bytes to pack, the same at each run. */
#ifndef WK_TESTS_SAMPLE_KIT_H
#define WK_TESTS_SAMPLE_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Bytes that do not pack, or text that does, in lines of 11. Owned by the caller. */
static inline char *sample(size_t len, bool noise)
{
    char *p = xcalloc(len + 1, 1);
    uint64_t x = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        char text = "(1,'orc'),\n"[i % 11];
        if (x % 5 == 0 && text != '\n')
            text = (char)('0' + x % 7);
        p[i] = noise ? (char)x : text;
    }
    return p;
}

#endif
