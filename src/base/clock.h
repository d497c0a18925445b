/* The one clock of the program. Two types that do not mix:
 *   mono_t  only grows, and counts suspend (CLOCK_BOOTTIME): all intervals and deadlines;
 *   wall_t  UTC (CLOCK_REALTIME): names, texts and ages shown to people, never decisions.
 * Unit tests replace clock_mono() and clock_wall() by linking tests/unit/fake_clock.c. */
#ifndef WK_BASE_CLOCK_H
#define WK_BASE_CLOCK_H

#include <stdint.h>

typedef struct {
    int64_t ms;
} mono_t;

typedef struct {
    int64_t ms; /* since 1970-01-01 UTC */
} wall_t;

/* The end of the year 9999. Sums of a few such times do not overflow. */
#define CLOCK_WALL_MAX INT64_C(253402300799999)

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
/* Returns the pause after another failure: `first`, then twice the previous `pause`, at most
 * `most`. */
static inline int64_t clock_backoff(int64_t pause, int64_t first, int64_t most)
{
    int64_t next = pause == 0 ? first : pause < most / 2 ? 2 * pause : most;
    return next < most ? next : most;
}

#endif
