/* Reads binary formats. Numbers are little endian, as in the protocol and the binary log of
 * MySQL. */
#ifndef WK_BASE_CURSOR_H
#define WK_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes with bounds. Reading past the end returns zeros and breaks the cursor for good, so that one
 * check after the last read is enough. */
struct cursor {
    const uint8_t *at, *end;
    bool broken;
};

static inline size_t cursor_left(const struct cursor *c)
{
    return (size_t)(c->end - c->at);
}

/* Returns NULL if fewer than `n` bytes are left. */
static inline const uint8_t *cursor_bytes(struct cursor *c, uint64_t n)
{
    const uint8_t *at = c->at;
    if (c->broken || n > cursor_left(c)) {
        c->broken = true;
        return NULL;
    }
    c->at += n;
    return at;
}

/* Reads a little-endian number of `n` bytes. */
static inline uint64_t cursor_number(struct cursor *c, unsigned n)
{
    const uint8_t *p = cursor_bytes(c, n);
    uint64_t v = 0;
    while (p && n--)
        v = v << 8 | p[n];
    return v;
}

/* Reads a length-encoded integer of the protocol: one byte, or a prefix and 2, 3 or 8 bytes. */
static inline uint64_t cursor_packed(struct cursor *c)
{
    unsigned mark = (unsigned)cursor_number(c, 1);
    if (mark < 251)
        return mark;
    if (mark == 251 || mark == 255)
        c->broken = true;
    return cursor_number(c, mark == 252 ? 2 : mark == 253 ? 3 : 8);
}

#endif
