/* retention_choose(): examples to read, then properties over random dumps and random clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/retention.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define NOW (INT64_C(19675) * DAY + 12 * HOUR) /* Tuesday, 2023-11-14, noon */

/* ---- examples: newest first, 'o' intact, 'x' not; 'p' intact and pinned, 'a' intact and
 * abandoned; expected 'k' kept, '-' may go ---- */

static const struct {
    const char *what;
    struct config_retention rule;
    int64_t age[10]; /* of each, relative to NOW */
    const char *items, *expected;
} cases[] = {
    {"nothing", {.keep_last = 1}, {0}, "", ""},
    {"the newest, however old, and whatever the rule says", {0}, {99 * DAY}, "o", "k"},
    {"the last three", {.keep_last = 3}, {1, 2, 3, 4, 5}, "ooooo", "kkk--"},
    {"damaged ones do not count as last", {.keep_last = 2}, {1, 2, 3, 4, 5}, "xoxoo", "kk-k-"},
    {"nothing intact: nothing goes", {.keep_last = 1}, {1, 2, 3}, "xxx", "kkk"},
    {"within an hour, to the millisecond",
     {.keep_last = 1, .keep_within = HOUR},
     {1, HOUR, HOUR + 1},
     "ooo",
     "kk-"},
    {"from the future: kept, and no place taken from a day",
     {.keep_last = 1, .keep_daily = 1},
     {-9 * DAY, -DAY, 1, 2 * DAY, 2 * DAY + 1},
     "ooooo",
     "kkk--"},
    {"the newest of each hour",
     {.keep_last = 1, .keep_hourly = 2},
     {0, 1, HOUR, HOUR + 1, 2 * HOUR + 1},
     "ooooo",
     "kk---"},
    {"the newest of each UTC day",
     {.keep_last = 1, .keep_daily = 3},
     {HOUR, 2 * HOUR, 12 * HOUR + 1, 13 * HOUR, 36 * HOUR, 36 * HOUR + 1, 9 * DAY},
     "ooooooo",
     "k-k--k-"},
    {"days without dumps are not counted",
     {.keep_last = 1, .keep_daily = 3},
     {0, 30 * DAY, 60 * DAY, 90 * DAY},
     "oooo",
     "kkk-"},
    {"days before 1970 are days too",
     {.keep_last = 1, .keep_daily = 3},
     {1, NOW, NOW + 1},
     "ooo",
     "kkk"},
    {"weeks from Monday",
     {.keep_last = 1, .keep_weekly = 2},
     {HOUR, 36 * HOUR, 36 * HOUR + 1, 8 * DAY, 8 * DAY + 12 * HOUR + 1},
     "ooooo",
     "k-k--"},
    {"a pinned one, and no place taken from the last two",
     {.keep_last = 2},
     {1, 2, 3, 4, 5},
     "ooopo",
     "kk-k-"},
    {"abandoned ones: kept like others, and no place taken",
     {.keep_last = 2},
     {1, 2, 3, 4, 5, 6},
     "aaaoao",
     "kk-k-k"},
    {"nothing but abandoned ones", {.keep_last = 1}, {1, 2}, "aa", "k-"},
    {"an abandoned one does not represent a day",
     {.keep_last = 1, .keep_daily = 2},
     {HOUR, 24 * HOUR, 25 * HOUR, 26 * HOUR},
     "oaoo",
     "kkk-"},
    {"the order is the number, not the time",
     {.keep_last = 2},
     {9 * DAY, 8 * DAY, 2, 1},
     "oooo",
     "kk--"},
};

static void each_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct retention_item items[10];
        size_t n = strlen(cases[i].items);
        char got[11] = "";
        for (size_t k = 0; k < n; k++)
            items[k] = (struct retention_item){.generation = 1,
                                               .sequence = 100 - k,
                                               .at = {NOW - cases[i].age[k]},
                                               .intact = cases[i].items[k] != 'x',
                                               .abandoned = cases[i].items[k] == 'a',
                                               .pinned = cases[i].items[k] == 'p'};
        retention_choose(items, n, &cases[i].rule, (wall_t){NOW}, (wall_t){NOW});
        for (size_t k = 0; k < n; k++)
            got[k] = items[k].keep ? 'k' : '-';
        if (strcmp(got, cases[i].expected) != 0)
            fail_msg("%s: %s, expected %s", cases[i].what, got, cases[i].expected);
    }
}

/* ---- properties ---- */

static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t rnd(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

/* Clocks that drift, jump, and lie altogether. */
static int64_t random_time(void)
{
    switch (rnd(8)) {
    case 0:
        return (int64_t)rnd(UINT64_MAX);
    case 1:
        return rnd(2) ? INT64_MIN : INT64_MAX;
    case 2:
        return NOW + (int64_t)rnd(400 * (uint64_t)DAY);
    case 3:
        return -(int64_t)rnd(400 * (uint64_t)DAY);
    default:
        return NOW - (int64_t)rnd(60 * (uint64_t)DAY);
    }
}

#define MOST 40

struct world {
    struct retention_item items[MOST];
    size_t n;
    struct config_retention rule;
    wall_t now, wall;
};

static void random_world(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->n = rnd(MOST + 1);
    w->wall.ms = rnd(3) ? NOW : random_time();
    w->now.ms = w->wall.ms;
    if (rnd(2) && w->wall.ms > 0)
        w->now.ms = (int64_t)rnd((uint64_t)w->wall.ms);
    w->rule = (struct config_retention){.keep_last = (unsigned)rnd(6),
                                        .keep_within = (int64_t)rnd(3 * (uint64_t)DAY),
                                        .keep_hourly = (unsigned)rnd(4),
                                        .keep_daily = (unsigned)rnd(8),
                                        .keep_weekly = (unsigned)rnd(5)};
    uint64_t broken = 1 + rnd(10);
    for (size_t i = 0; i < w->n; i++)
        w->items[i] = (struct retention_item){.generation = rnd(4),
                                              .sequence = rnd(60),
                                              .at = {random_time()},
                                              .intact = rnd(broken + 1) != 0,
                                              .abandoned = rnd(4) == 0,
                                              .pinned = rnd(8) == 0};
}

static void choose(struct world *w)
{
    retention_choose(w->items, w->n, &w->rule, w->now, w->wall);
}

static int compare(const struct retention_item *a, const struct retention_item *b)
{
    uint64_t x = a->generation * 1000 + a->sequence, y = b->generation * 1000 + b->sequence;
    return (x > y) - (x < y);
}

/* How many different intact numbers are above this item. Abandoned items count for such items
 * alone. */
static size_t intact_above(const struct world *w, const struct retention_item *it)
{
    bool seen[4000] = {0};
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct retention_item *o = &w->items[i];
        size_t number = o->generation * 1000 + o->sequence;
        bool counts = o->intact && (!o->abandoned || (it->intact && it->abandoned));
        if (counts && compare(o, it) > 0 && !seen[number]) {
            seen[number] = true;
            n++;
        }
    }
    return n;
}

static void check_kept(const struct world *w)
{
    unsigned last = w->rule.keep_last ? w->rule.keep_last : 1;
    for (size_t i = 0; i < w->n; i++) {
        const struct retention_item *it = &w->items[i];
        size_t above = intact_above(w, it);
        if (!it->intact) {
            assert_int_equal(it->keep, above == 0); /* newer than the newest intact one */
            continue;
        }
        if (above < last)
            assert_true(it->keep); /* the newest, and the last ones */
        if (it->at.ms > w->wall.ms)
            assert_true(it->keep); /* from the future */
    }
}

/* Without the "may go" ones, the rest must all be kept: nothing ebbs away by being asked again. */
static void check_idempotent(const struct world *w)
{
    struct world left = *w;
    left.n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].keep)
            left.items[left.n++] = w->items[i];
    choose(&left);
    for (size_t i = 0; i < left.n; i++)
        assert_true(left.items[i].keep);
}

static void check_pinned(const struct world *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].pinned && w->items[i].intact)
            assert_true(w->items[i].keep);
}

/* Without the abandoned items the same others are kept. */
static void check_abandoned(const struct world *w)
{
    struct world own = *w;
    own.n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (!w->items[i].abandoned)
            own.items[own.n++] = w->items[i];
    choose(&own);
    for (size_t i = 0, k = 0; i < w->n; i++)
        if (!w->items[i].abandoned)
            assert_int_equal(own.items[k++].keep, w->items[i].keep);
}

/* In another order, from dirty `keep` fields: the same choice. */
static void check_order_free(const struct world *w)
{
    struct world mixed = *w;
    size_t at[MOST];
    for (size_t i = 0; i < w->n; i++)
        at[i] = i;
    for (size_t i = w->n; i > 1; i--) {
        size_t k = rnd(i), t = at[i - 1];
        at[i - 1] = at[k];
        at[k] = t;
    }
    for (size_t i = 0; i < w->n; i++) {
        mixed.items[i] = w->items[at[i]];
        mixed.items[i].keep = rnd(2);
    }
    choose(&mixed);
    for (size_t i = 0; i < w->n; i++)
        assert_int_equal(mixed.items[i].keep, w->items[at[i]].keep);
}

/* A rule that keeps more never loses what another kept. */
static void check_monotonic(const struct world *w)
{
    struct world more = *w;
    more.rule.keep_last += (unsigned)rnd(3);
    more.rule.keep_within += (int64_t)rnd((uint64_t)DAY);
    more.rule.keep_hourly += (unsigned)rnd(3);
    more.rule.keep_daily += (unsigned)rnd(3);
    more.rule.keep_weekly += (unsigned)rnd(3);
    choose(&more);
    for (size_t i = 0; i < w->n; i++)
        assert_true(more.items[i].keep || !w->items[i].keep);
}

static bool is_single(const struct world *w, const struct retention_item *it)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += compare(&w->items[i], it) == 0;
    return n == 1;
}

/* A clock in doubt keeps what it keeps without the doubt, and what the earlier time keeps of the
 * dumps from before it. */
static void check_doubt(const struct world *w)
{
    struct world sure = *w, early = *w;
    sure.now = w->wall;
    early.wall = w->now;
    choose(&sure);
    choose(&early);
    for (size_t i = 0; i < w->n; i++) {
        assert_true(w->items[i].keep || !sure.items[i].keep);
        if (w->items[i].at.ms <= w->now.ms && is_single(w, &w->items[i]))
            assert_true(w->items[i].keep || !early.items[i].keep);
    }
}

static void properties(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct world w;
        random_world(&w);
        choose(&w);
        check_kept(&w);
        check_idempotent(&w);
        check_pinned(&w);
        check_abandoned(&w);
        check_order_free(&w);
        check_monotonic(&w);
        check_doubt(&w);
    }
}

/* A world over years: a dump each quarter of an hour, retention after each, a clock that jumps.
 * What is left stays bounded, and the newest is always there. */
static void years(void **state)
{
    (void)state;
    static struct retention_item items[4096];
    const struct config_retention rule = {
        .keep_last = 8, .keep_within = DAY, .keep_daily = 7, .keep_weekly = 4};
    size_t n = 0, most = 0;
    int64_t now = NOW;
    for (uint64_t sequence = 1; sequence <= 20000; sequence++) {
        now += 15 * MINUTE;
        if (rnd(2000) == 0)
            now -= (int64_t)rnd(3 * (uint64_t)DAY);
        items[n++] = (struct retention_item){
            .generation = sequence / 1000, .sequence = sequence, .at = {now}, .intact = true};
        retention_choose(items, n, &rule, retention_now(items, n, 15 * MINUTE, (wall_t){now}),
                         (wall_t){now});
        size_t left = 0;
        for (size_t i = 0; i < n; i++)
            if (items[i].keep)
                items[left++] = items[i];
        n = left;
        most = n > most ? n : most;
        assert_int_equal(items[n - 1].sequence, sequence);
    }
    assert_true(n >= 8);
    assert_true(most < 96 * 5); /* a day's, and what a jump of three days left in the future */
}

/* ---- which time counts as now ---- */

/* Ages of dumps of following sequence numbers, newest first, one each quarter of an hour; `want`:
 * by how much retention_now() is before the wall clock. */
static const struct {
    const char *what;
    int64_t ages[4];
    size_t n;
    int64_t want;
} jumps[] = {
    {"no dump", {0}, 0, 0},
    {"the first dump", {0}, 1, 0},
    {"dumps as usual", {0, 15 * MINUTE, 30 * MINUTE}, 3, 0},
    {"an hour late", {0, 75 * MINUTE, 150 * MINUTE}, 3, 0},
    {"a jump before the newest dump", {0, 10 * DAY}, 2, 10 * DAY - 75 * MINUTE},
    {"a jump since the newest dump", {10 * DAY}, 1, 10 * DAY - 75 * MINUTE},
    {"a jump two dumps ago", {0, HOUR, 2 * HOUR, 400 * DAY}, 4, 400 * DAY - 195 * MINUTE},
    {"not yet a day ago", {HOUR, DAY - 1, 9 * DAY}, 3, 8 * DAY + 1 - 75 * MINUTE},
    {"a day ago", {HOUR, DAY, 9 * DAY}, 3, 23 * HOUR - 75 * MINUTE},
    {"the larger one of two", {0, DAY / 2, 3 * DAY}, 3, 60 * HOUR - 75 * MINUTE},
    {"a dump from the future", {-300 * DAY, MINUTE, 2 * MINUTE}, 3, 0},
    {"the clock was set back", {0, -DAY, -2 * DAY, MINUTE}, 4, 0},
    {"it was, and caught up", {0, 15 * MINUTE, MINUTE, 45 * MINUTE}, 4, 0},
    {"times that are no times", {INT64_MAX, NOW, NOW + 1}, 3, 0},
};

static void each_jump(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        struct retention_item items[4];
        for (size_t k = 0; k < jumps[i].n; k++)
            items[k] = (struct retention_item){.sequence = 100 - k, .at = {NOW - jumps[i].ages[k]}};
        wall_t now = retention_now(items, jumps[i].n, 15 * MINUTE, (wall_t){NOW});
        if (NOW - now.ms != jumps[i].want)
            fail_msg("%s: %lld", jumps[i].what, (long long)(NOW - now.ms));
    }
}

/* Files that are older than all dumps show a jump that no dump shows; others show nothing. */
static void other_files(void **state)
{
    (void)state;
    static const struct {
        int64_t dumps[2], files[3];
        int64_t want;
    } others[] = {
        {{MINUTE, 16 * MINUTE}, {17 * MINUTE, 18 * MINUTE, 19 * MINUTE}, 0},
        {{MINUTE, 16 * MINUTE}, {0, 2 * MINUTE, 400 * DAY}, 400 * DAY - 91 * MINUTE},
        {{MINUTE, 16 * MINUTE}, {30 * MINUTE, 400 * DAY, 800 * DAY}, 400 * DAY - 105 * MINUTE},
        {{MINUTE, 2 * DAY}, {400 * DAY, 401 * DAY, 402 * DAY}, 2 * DAY - 76 * MINUTE},
        {{DAY, DAY + 15 * MINUTE}, {400 * DAY, 401 * DAY, 402 * DAY}, 23 * HOUR - 15 * MINUTE},
        {{0, 0}, {-DAY, -2 * DAY, 15 * MINUTE}, 0},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct retention_item items[5] = {{.generation = 3, .sequence = 90001},
                                          {.generation = 3, .sequence = 90000}};
        for (size_t k = 0; k < 5; k++)
            items[k].at.ms = NOW - (k < 2 ? others[i].dumps[k] : others[i].files[k - 2]);
        wall_t now = retention_now(items, 5, 15 * MINUTE, (wall_t){NOW});
        if (NOW - now.ms != others[i].want)
            fail_msg("%zu: %lld", i, (long long)(NOW - now.ms));
    }
}

/* Dumps that retention has thinned out are no jump, whatever their interval is. */
static void thinned(void **state)
{
    (void)state;
    for (int64_t interval = 1; interval <= 400 * DAY; interval *= 7) {
        struct retention_item items[8];
        uint64_t sequence = 1000;
        for (size_t i = 0; i < 8; i++, sequence -= 1 + rnd(50))
            items[i] =
                (struct retention_item){.sequence = sequence, .at = {NOW + 1000 * 400 * DAY}};
        for (size_t i = 0; i < 8; i++)
            items[i].at.ms -= (int64_t)(1000 - items[i].sequence) * interval;
        wall_t wall = {items[0].at.ms + interval / 2};
        assert_int_equal(retention_now(items, 8, interval, wall).ms, wall.ms);
    }
}

/* Makes a dump each quarter of an hour, with retention after each. The clock is `ahead` for the
 * dumps from `begin` to `end`. */
struct lie {
    struct retention_item items[4096];
    size_t n;
    struct config_retention rule;
    int64_t ahead;
    uint64_t begin, end;
};

static void next_lie(struct lie *l, uint64_t sequence)
{
    bool lies = sequence >= l->begin && sequence < l->end;
    wall_t wall = {NOW + (int64_t)sequence * 15 * MINUTE + (lies ? l->ahead : 0)};
    size_t left = 0;
    l->items[l->n++] = (struct retention_item){.sequence = sequence, .at = wall, .intact = true};
    retention_choose(l->items, l->n, &l->rule, retention_now(l->items, l->n, 15 * MINUTE, wall),
                     wall);
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].keep)
            l->items[left++] = l->items[i];
    l->n = left;
}

/* A clock that is ahead for less than a day costs no dump that was made before, except those of the
 * hour by which a dump may be late. Nor does it let dumps pile up. */
static void ahead(void **state)
{
    (void)state;
    static struct lie lie, honest;
    for (int round = 0; round < 60; round++) {
        memset(&lie, 0, sizeof lie);
        lie.rule = (struct config_retention){.keep_last = 8,
                                             .keep_within = (int64_t)(1 + rnd(48)) * HOUR,
                                             .keep_hourly = (unsigned)rnd(30),
                                             .keep_daily = 7,
                                             .keep_weekly = 4};
        lie.ahead = 2 * HOUR + (int64_t)rnd(400 * (uint64_t)DAY);
        lie.begin = 500 + rnd(500);
        lie.end = lie.begin + 1 + rnd(90);
        honest = lie;
        honest.ahead = 0;
        honest.rule.keep_within -= HOUR;
        for (uint64_t sequence = 1; sequence < lie.end + 4; sequence++) {
            next_lie(&lie, sequence);
            next_lie(&honest, sequence);
            assert_true(lie.n <= honest.n + 8 + 96);
            for (size_t i = 0, k = 0; i < honest.n; i++) {
                uint64_t wanted = honest.items[i].sequence;
                while (k < lie.n && lie.items[k].sequence < wanted)
                    k++;
                if (wanted < lie.begin && (k == lie.n || lie.items[k].sequence != wanted))
                    fail_msg("round %d: %llu is missing after %llu", round,
                             (unsigned long long)wanted, (unsigned long long)sequence);
            }
        }
    }
}

/* A clock that stays ahead is believed after a day: the machine was off. */
static void off(void **state)
{
    (void)state;
    static struct lie lie;
    memset(&lie, 0, sizeof lie);
    lie.rule = (struct config_retention){.keep_last = 2, .keep_within = 6 * HOUR};
    lie.ahead = 10 * DAY;
    lie.begin = 200;
    lie.end = UINT64_MAX;
    for (uint64_t sequence = 1; sequence <= 200 + 96; sequence++) {
        next_lie(&lie, sequence);
        if (sequence == 200)
            assert_int_equal(lie.items[0].sequence, 199 - 20 + 1);
        assert_true(lie.n <= 2 * 25);
    }
    assert_true(lie.items[0].sequence >= 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case), cmocka_unit_test(properties),  cmocka_unit_test(years),
        cmocka_unit_test(each_jump), cmocka_unit_test(other_files), cmocka_unit_test(thinned),
        cmocka_unit_test(ahead),     cmocka_unit_test(off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
