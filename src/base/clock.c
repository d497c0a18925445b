#include "base/clock.h"

#include <time.h>

static int64_t read_ms(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* CLOCK_BOOTTIME, not CLOCK_MONOTONIC, because nothing watched the world while the machine was
 * suspended. */
mono_t clock_mono(void)
{
    return (mono_t){read_ms(CLOCK_BOOTTIME)};
}

wall_t clock_wall(void)
{
    return (wall_t){read_ms(CLOCK_REALTIME)};
}
