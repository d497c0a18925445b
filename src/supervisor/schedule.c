#include "supervisor/schedule.h"

#include <time.h>

#define HALF_DAY_MS (12 * INT64_C(3600000))

bool schedule_settle(struct state_work *past, wall_t now)
{
    if (past->at.ms > 0 && past->at.ms <= now.ms)
        return false;
    past->at = now;
    return true;
}

/* Returns the time of day on the `day`-th day after the day of `t`, in local time. */
static wall_t time_of_day(wall_t t, int day, int at)
{
    time_t seconds = (time_t)(t.ms / 1000);
    struct tm tm = {0};
    localtime_r(&seconds, &tm);
    tm.tm_mday += day;
    tm.tm_hour = (at - 1) / 60;
    tm.tm_min = (at - 1) % 60;
    tm.tm_sec = 0;
    /* mktime() determines DST itself, and moves a time that does not exist on a day. */
    tm.tm_isdst = -1;
    return (wall_t){(int64_t)mktime(&tm) * 1000};
}

/* Returns the first time at or after `from` whose time of day is `at`. It looks at most two days
 * ahead, because a DST change may have removed the time from one day. */
static wall_t first_time_of_day(wall_t from, int at)
{
    wall_t t = time_of_day(from, 0, at);
    for (int day = 1; t.ms < from.ms && day <= 2; day++)
        t = time_of_day(from, day, at);
    return t;
}

wall_t schedule_next(const struct config_work *c, const struct state_work *past, wall_t now)
{
    int64_t slack = c->at ? HALF_DAY_MS : 0;
    wall_t from = {past->at.ms + (past->ran ? c->interval - slack : 0)};
    if (!c->at)
        return from;
    wall_t next = first_time_of_day(from, c->at);
    if (now.ms - next.ms > SCHEDULE_LATE_MS)
        next = first_time_of_day((wall_t){now.ms - SCHEDULE_LATE_MS}, c->at);
    return next;
}

bool schedule_has_room(uint64_t in_memory, int64_t available)
{
    /* A drill needs 1.5 times the memory of the world: for the copy, and for the data that the
     * comparison reads. */
    return available >= 0 && in_memory + in_memory / 2 <= (uint64_t)available;
}

bool schedule_overdue(const struct config_work *c, const struct state_work *past, wall_t now)
{
    return now.ms - past->at.ms > 2 * c->interval + HALF_DAY_MS;
}
