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
        retention_choose(items, n, &cases[i].rule, (wall_t){NOW});
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
    wall_t now;
};

static void random_world(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->n = rnd(MOST + 1);
    w->now.ms = rnd(3) ? NOW : random_time();
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
    retention_choose(w->items, w->n, &w->rule, w->now);
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
        if (it->at.ms > w->now.ms)
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
        retention_choose(items, n, &rule, (wall_t){now});
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case),
        cmocka_unit_test(properties),
        cmocka_unit_test(years),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
