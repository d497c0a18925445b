/* Summary of a history's records: how long the world was in each state, in buckets of five minutes,
 * hours and days (UTC), and its incidents. Pure: it reads no clock and no file.
 *
 * Time is known only while a supervisor watched. From a record of a state until the next record the
 * world was in that state, except for the time that the next one reports as unwatched. A record
 * that is dated before the previous one (the clock was set back) starts again there; a bucket never
 * holds more than its length. Records later than `now` are not counted. */
#ifndef WK_STORE_TIMELINE_H
#define WK_STORE_TIMELINE_H

#include "store/history.h"

#define TIMELINE_FIVE_MINUTES 288
#define TIMELINE_HOURS 336
#define TIMELINE_DAYS 400
#define TIMELINE_DAYS_KEPT 731
#define TIMELINE_INCIDENTS 200
#define TIMELINE_JSON_MAX (256u * 1024)

struct timeline;

struct timeline *timeline_new(wall_t now);
void timeline_free(struct timeline *t);
void timeline_add(struct timeline *t, const json_t *record);
/* Sets the time: records up to `now` are no longer in the future; unknown time counts as
 * unknown. */
void timeline_now(struct timeline *t, wall_t now);
/* States that the supervisor lives and the world is as in the last record. */
void timeline_until(struct timeline *t, wall_t alive);
/* Returns true if `now` is so far before the last record that the counts are no longer valid. */
bool timeline_is_behind(const struct timeline *t, wall_t now);
/* Adds "incidents", oldest first, and the last restore, and the last drill and verify that count: a
 * record with "counts": false does not. */
void timeline_events(const struct timeline *t, json_t *o);
/* Adds "five_minutes", "hours", "days", oldest first, and timeline_events(). As compact text `o`
 * then has at most TIMELINE_JSON_MAX bytes; the oldest incidents and buckets are omitted if
 * necessary. */
void timeline_fill(const struct timeline *t, json_t *o);
/* Returns the milliseconds in each state since then, in whole days, and "unknown": for display. */
json_t *timeline_sum(const struct timeline *t, wall_t since);

/* Thinning: details of the last 30 days stay; of the rest one line per day stays, for two years.
 * Age is the sum of the times between the records, where a step back counts as zero and any step as
 * at most 30 days: a clock that was wrong for an hour does not cost the details of a year. */
struct thinning {
    struct thinning_line {
        int64_t lived; /* ms since the first record */
        size_t bytes;
        bool detail;
    } * list; /* owned */
    size_t count, bytes;
    wall_t last;
};
void thinning_see(struct thinning *t, const json_t *record /* NULL: none */, size_t bytes);
/* Returns true if there is enough to thin out. `most`: maximum bytes of the file. */
bool thinning_due(const struct thinning *t, size_t most);
/* Returns the first line that stays unchanged. */
size_t thinning_cut(const struct thinning *t, size_t most);
void thinning_free(struct thinning *t);
/* Appends the lines that replace the added records; the following lines stay. */
void timeline_days(const struct timeline *t, struct buf *out);

#endif
