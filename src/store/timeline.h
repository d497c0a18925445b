/* What the records of a history amount to: how long the world was in each state, in buckets of five
 * minutes, hours and days (UTC), and its incidents. Pure: it reads no clock and no file.
 *
 * Time is known only where a supervisor watched. From a record of a state until the next record the
 * world was in that state, except for what the next one says nobody watched. A record whose `at` is
 * before the one before it (the clock was set back) starts again there; a bucket never holds more than
 * its length. What lies in the future of `now` is not counted. */
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
/* Records up to then are no more of the future; time that nothing is known of counts as unknown. */
void timeline_now(struct timeline *t, wall_t now);
/* The supervisor lives, and the world is as the last record says. */
void timeline_until(struct timeline *t, wall_t alive);
/* Is `now` so far before the last record that what was counted is of another time? */
bool timeline_is_behind(const struct timeline *t, wall_t now);
/* Adds "incidents", oldest first, and the last restore, drill and verify. */
void timeline_events(const struct timeline *t, json_t *o);
/* Adds "five_minutes", "hours", "days", oldest first, and timeline_events(). As compact text `o` has at most TIMELINE_JSON_MAX bytes then: the oldest incidents
 * and buckets are left out if need be. */
void timeline_fill(const struct timeline *t, json_t *o);
/* Milliseconds in each state since then, by whole days, and "unknown": for people. */
json_t *timeline_sum(const struct timeline *t, wall_t since);

/* Thinning: details of the last 30 days stay, of the rest a line for each day of two years. What is
 * that old goes by the time between the records, of which no step back counts, and none of more than
 * 30 days as more: a clock that was wrong for an hour does not cost the details of a year. */
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
/* Is there enough to thin out? `most`: bytes that the file may have. */
bool thinning_due(const struct thinning *t, size_t most);
/* The first line that stays as it is. */
size_t thinning_cut(const struct thinning *t, size_t most);
void thinning_free(struct thinning *t);
/* The lines in place of the records that were added; what follows them stays. */
void timeline_days(const struct timeline *t, struct buf *out);

#endif
