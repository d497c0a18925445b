/* Loaded before the C library (LD_PRELOAD) of a server. For each process the clock starts at the
 * same second, one hour after WK_CLOCK_FROM (seconds since 1970), and never reaches the next
 * second: half of the second takes two minutes, three quarters take six. So a server that is killed
 * and started again has the same start time as before and is as young, however long that takes. A
 * clock that hardly moved from the start would make MySQL take a minute to start. The clock is
 * ahead, so that nothing that a server waits for by the time of day comes too early. */
#define _GNU_SOURCE

#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define HALF_TAKES (120 * SECOND)

static int64_t from, began;

static int64_t real(clockid_t id)
{
    struct timespec ts;
    syscall(SYS_clock_gettime, id, &ts);
    return ts.tv_sec * SECOND + ts.tv_nsec;
}

static int64_t of_day(void)
{
    if (!from) {
        const char *s = getenv("WK_CLOCK_FROM");
        from = ((s ? strtoll(s, NULL, 10) : 0) + 3600) * SECOND;
        began = real(CLOCK_MONOTONIC);
    }
    double lived = (double)(real(CLOCK_MONOTONIC) - began);
    return from + (int64_t)((double)SECOND * lived / (lived + (double)HALF_TAKES));
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, id, ts);
    int64_t ns = of_day();
    *ts = (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    (void)zone;
    int64_t ns = of_day();
    *tv = (struct timeval){.tv_sec = ns / SECOND, .tv_usec = ns % SECOND / 1000};
    return 0;
}

time_t time(time_t *out)
{
    time_t now = of_day() / SECOND;
    if (out)
        *out = now;
    return now;
}
