/* The one clock of the program. Two types that do not mix:
 *   mono_t  time that only grows, counts suspend (CLOCK_BOOTTIME): all intervals and deadlines;
 *   wall_t  UTC of day (CLOCK_REALTIME): names, texts and ages told to people, never decisions.
 * Unit tests replace clock_mono() and clock_wall() by linking tests/unit/fake_clock.c. */
#ifndef WK_CORE_CLOCK_H
#define WK_CORE_CLOCK_H

#include <stdint.h>

typedef struct {
    int64_t ms;
} mono_t;

typedef struct {
    int64_t ms; /* since 1970-01-01 UTC */
} wall_t;

mono_t clock_mono(void);
wall_t clock_wall(void);

static inline mono_t mono_add(mono_t t, int64_t ms)
{
    return (mono_t){t.ms + ms};
}
static inline int64_t mono_since(mono_t now, mono_t then)
{
    return now.ms - then.ms;
}
static inline int mono_reached(mono_t now, mono_t deadline)
{
    return now.ms >= deadline.ms;
}

#endif
