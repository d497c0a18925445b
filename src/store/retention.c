#include "store/retention.h"

#include <stdlib.h>

#include "base/text.h"

#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)
#define LATE_MS HOUR_MS    /* a dump may begin so much later than the interval says */
#define BELIEVED_MS DAY_MS /* the clock must run this long after a jump */

/* The items to which the rules apply, newest first. */
struct intact {
    struct retention_item **list;
    size_t n;
};

/* Compares by numbers that a crash or a clock cannot change: times do not decide which dump is
 * newer. */
static int retention_order(const struct retention_item *a, const struct retention_item *b)
{
    if (a->generation != b->generation)
        return a->generation < b->generation ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    return 0;
}

static int retention_newest_first(const void *left, const void *right)
{
    const struct retention_item *a = *(struct retention_item *const *)left;
    const struct retention_item *b = *(struct retention_item *const *)right;
    int by_order = retention_order(b, a);
    return by_order ? by_order : (b->at.ms > a->at.ms) - (b->at.ms < a->at.ms);
}

/* Returns by how much `ms`, the time between two dumps, exceeds what `count` intervals explain,
 * or 0. */
static int64_t retention_excess(int64_t ms, uint64_t count, int64_t interval)
{
    int64_t gap = ms - LATE_MS, each = interval > 0 ? interval : 1;
    /* The division comes first, because the product of any two of these need not fit. */
    return gap > 0 && (uint64_t)(gap / each) >= count ? gap - (int64_t)count * each : 0;
}

/* Walks from the newest dump back, and then over the other files. A dump with a later time than one
 * that follows it was made before the clock was set back, and proves nothing. */
wall_t retention_now(struct retention_item *items, size_t n, int64_t interval, wall_t wall)
{
    struct intact dated = {.list = xcalloc(n, sizeof(struct retention_item *))};
    int64_t upto = wall.ms, doubt = 0;
    for (size_t i = 0; i < n; i++)
        if (items[i].at.ms > 0)
            dated.list[dated.n++] = &items[i];
    if (dated.n)
        qsort(dated.list, dated.n, sizeof(struct retention_item *), retention_newest_first);
    uint64_t sequence = dated.n ? dated.list[0]->sequence + 1 : 0;
    for (size_t i = 0; i < dated.n && wall.ms - upto < BELIEVED_MS; i++) {
        const struct retention_item *it = dated.list[i];
        if (it->at.ms > upto)
            continue;
        bool counts = it->sequence > 0 && sequence > it->sequence;
        uint64_t count = counts ? sequence - it->sequence : 1;
        int64_t excess = retention_excess(upto - it->at.ms, count, interval);
        doubt = excess > doubt ? excess : doubt;
        upto = it->at.ms;
        sequence = it->sequence;
    }
    free(dated.list);
    return (wall_t){wall.ms - doubt};
}

/* Divides and rounds down, also for times before 1970. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Keeps at least one, even with keep_last = 0: the newest intact dump is never deleted. */
static void keep_last(struct intact *in, unsigned count)
{
    unsigned kept = 0;
    for (size_t i = 0; i < in->n; i++) {
        bool same = i > 0 && retention_order(in->list[i - 1], in->list[i]) == 0;
        if (!same && kept++ >= (count ? count : 1))
            return;
        in->list[i]->keep = true;
    }
}

/* Keeps all dumps of the last `ms`. Also keeps dumps with a time in the future, because it is
 * unknown which clock was wrong. */
static void keep_within(struct intact *in, int64_t ms, wall_t now, wall_t wall)
{
    for (size_t i = 0; i < in->n; i++) {
        struct retention_item *it = in->list[i];
        wall_t end = it->at.ms > now.ms ? wall : now;
        /* Unsigned, so that the difference of any two clock values fits. */
        if (it->at.ms > end.ms || (uint64_t)end.ms - (uint64_t)it->at.ms <= (uint64_t)ms)
            it->keep = true;
    }
}

/* The list is newest first, so the first dump of each bucket is the one that represents it. Buckets
 * are `group` units long; the first one begins `shift` units before 1970. */
static void keep_buckets(struct intact *in, unsigned count, int64_t unit, int group, int shift,
                         wall_t now)
{
    size_t room = count < in->n ? count : in->n, used = 0;
    SCOPED(xfree) int64_t *seen = xcalloc(room, sizeof *seen);
    for (size_t i = 0; i < in->n && used < room; i++) {
        struct retention_item *it = in->list[i];
        if (it->at.ms > now.ms)
            continue;
        int64_t b = floor_div(floor_div(it->at.ms, unit) + shift, group);
        size_t k = 0;
        while (k < used && seen[k] != b)
            k++;
        if (k < used)
            continue;
        seen[used++] = b;
        it->keep = true;
    }
}

static void keep_periods(struct intact *in, const struct config_retention *rule, wall_t now)
{
    keep_buckets(in, rule->keep_hourly, HOUR_MS, 1, 0, now);
    keep_buckets(in, rule->keep_daily, DAY_MS, 1, 0, now);
    keep_buckets(in, rule->keep_weekly, DAY_MS, 7, 3, now); /* day 0 was a Thursday */
}

/* Dumps with the same (generation, sequence) are kept or deleted together. */
static void share_fate(struct intact *in)
{
    for (size_t i = 0, end; i < in->n; i = end) {
        bool keep = false;
        for (end = i; end < in->n && retention_order(in->list[i], in->list[end]) == 0; end++)
            keep |= in->list[end]->keep;
        for (size_t k = i; k < end; k++)
            in->list[k]->keep = keep;
    }
}

/* Collects the intact items, with or without the abandoned ones, and applies the rules to them.
 * `in` has room for all items. */
static void keep_intact(struct intact *in, struct retention_item *items, size_t n, bool abandoned,
                        const struct config_retention *rule, wall_t now, wall_t wall)
{
    in->n = 0;
    for (size_t i = 0; i < n; i++) {
        items[i].keep = false;
        if (items[i].intact && (abandoned || !items[i].abandoned))
            in->list[in->n++] = &items[i];
    }
    if (in->n)
        qsort(in->list, in->n, sizeof(struct retention_item *), retention_newest_first);
    keep_last(in, rule->keep_last);
    keep_within(in, rule->keep_within, now, wall);
    keep_periods(in, rule, now);
    keep_periods(in, rule, wall);
    for (size_t i = 0; i < in->n; i++)
        in->list[i]->keep |= in->list[i]->pinned;
    share_fate(in);
}

/* The rules are applied twice: among all items for the abandoned ones, then without these for the
 * others. */
void retention_choose(struct retention_item *items, size_t n, const struct config_retention *rule,
                      wall_t now, wall_t wall)
{
    struct intact in = {.list = xcalloc(n, sizeof(struct retention_item *))};
    SCOPED(xfree) bool *abandoned = xcalloc(n, sizeof *abandoned);
    keep_intact(&in, items, n, true, rule, now, wall);
    for (size_t i = 0; i < n; i++)
        abandoned[i] = items[i].abandoned && items[i].keep;
    keep_intact(&in, items, n, false, rule, now, wall);
    for (size_t i = 0; i < n; i++) {
        if (!items[i].intact)
            items[i].keep = in.n == 0 || retention_order(&items[i], in.list[0]) >= 0;
        items[i].keep |= abandoned[i];
    }
    free(in.list);
}
