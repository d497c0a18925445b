/* guard_step() under random sequences of events: forbidden results never occur. The test keeps its
 * own records, from the events alone, and compares each answer with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guard_kit.h"

#define STEPS 100000

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

struct told {
    unsigned event;
    char text[640];
};

struct books {
    struct guard g;
    struct guard_config c;
    mono_t now;

    /* Probes in a row that prove a loss, of one kind and one process, since the last doubt, the
     * last restore, the last pause. */
    unsigned proofs;
    const struct judgement *proof;
    bool asked;        /* START_RESTORE was said in this stay in LOST */
    unsigned failures; /* in a row, as far as they make us wait */
    mono_t retry_at;
    struct told told[64]; /* since the last recovery */
    unsigned told_count;
    mono_t spoke; /* last new alert or reminder */

    uint64_t starts, reminders, recoveries, restored, ups; /* that the walk went anywhere at all */
};

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s: %s + %s -> %s (%s)", #condition, guard_state_name(a->from), kit_name(k), \
                     guard_state_name(b->g.state), b->g.reason);                                   \
    } while (0)

static bool may_prove(const struct books *b, const struct judgement *j)
{
    if (j->verdict == VERDICT_EMPTY)
        return j->restarted && (j->same_place || b->c.restore_new_server) && b->c.restore_auto;
    return j->verdict == VERDICT_MISSING && j->rebuilt && j->restarted && b->c.restore_auto &&
           b->c.restore_new_server;
}

static bool watching(enum guard_state s)
{
    return s != GUARD_RESTORING && s != GUARD_PAUSED && s != GUARD_STANDBY && s != GUARD_STOPPED;
}

static void book_proof(struct books *b, enum kit k, const struct guard_answer *a)
{
    if ((int)k < KIT_PROBES) {
        const struct judgement *j = &kit_probes[k].judgement;
        bool again = b->proof && b->proof->verdict == j->verdict && b->proof->start == j->start;
        b->proofs = !watching(a->from) || !may_prove(b, j) ? 0 : again ? b->proofs + 1 : 1;
        b->proof = b->proofs ? j : NULL;
    } else if (k == DOUBT || (a->changed && k != TICK) || a->from == GUARD_PAUSED) {
        b->proofs = 0;
        b->proof = NULL;
    }
}

static void check_action(struct books *b, enum kit k, const struct guard_answer *a)
{
    if (a->from != GUARD_LOST || b->g.state != GUARD_LOST)
        b->asked = false;
    if (a->action == GUARD_START_RESTORE) {
        EXPECT(b->g.state == GUARD_LOST && a->changed && !b->asked);
        EXPECT(b->proofs >= (b->c.confirm ? b->c.confirm : 1));
        EXPECT((int)k < KIT_PROBES && mono_reached(b->now, b->retry_at));
        b->asked = true;
        b->starts++;
    } else if (b->g.state == GUARD_LOST) {
        EXPECT(b->asked);
    }
    if (a->action == GUARD_END_RESTORE)
        EXPECT(b->g.state == GUARD_RESTORING || b->g.state == GUARD_STOPPED);
    /* A restore that was not asked for, or no longer, is ended at once. */
    if (k == STARTED && a->from != GUARD_LOST && a->from != GUARD_RESTORING)
        EXPECT(a->action == GUARD_END_RESTORE);
}

static void book_retry(struct books *b, enum kit k, const struct guard_answer *a)
{
    bool role = (k == STAND_BY || k == PRIMARY) && a->changed; /* another story begins */
    if (role)
        b->told_count = 0;
    if (b->g.state == GUARD_UP || k == RESUME || role || (a->from == GUARD_PAUSED && a->changed)) {
        b->failures = 0;
        b->retry_at = (mono_t){0};
    }
    if ((k == FAILED || k == NO_DUMP) && a->changed && b->g.state == GUARD_WAITING) {
        int64_t wait = b->c.retry_first;
        for (unsigned i = 0; i < b->failures && wait < b->c.retry_max; i++)
            wait *= 2;
        b->failures++;
        bool stalled = strstr(b->g.reason, "no progress") != NULL;
        b->retry_at = mono_add(b->now, stalled ? 0 : wait < b->c.retry_max ? wait : b->c.retry_max);
    }
}

static bool was_told(const struct books *b, unsigned event, const char *text)
{
    for (unsigned i = 0; i < b->told_count; i++)
        if (b->told[i].event == event && (!text || strcmp(b->told[i].text, text) == 0))
            return true;
    return false;
}

static void check_alert(struct books *b, enum kit k, const struct guard_answer *a)
{
    if (a->alert == GUARD_ALERT_NONE) {
        /* Going UP never passes in silence where people were told of trouble. */
        EXPECT(!(a->changed && b->g.state == GUARD_UP) || b->told_count == 0);
        return;
    }
    EXPECT(a->from != GUARD_PAUSED && b->g.state != GUARD_PAUSED && b->g.state != GUARD_STOPPED);
    if (a->alert == GUARD_ALERT_REMINDER) {
        EXPECT(k == TICK && b->c.alert_repeat > 0 && was_told(b, a->alert_event, NULL));
        EXPECT(mono_since(b->now, b->spoke) >= b->c.alert_repeat);
        b->reminders++;
    } else if (a->alert == GUARD_ALERT_RECOVERED) {
        EXPECT(k == ALIVE && b->g.state == GUARD_UP && a->changed);
        EXPECT(was_told(b, a->alert_event, NULL));
        b->told_count = 0;
        b->recoveries++;
    } else if (a->alert_event == EVENT_RESTORED) {
        EXPECT(k == DONE && b->g.state == GUARD_UP);
        b->told_count = 0;
        b->restored++;
    } else {
        EXPECT(b->g.state != GUARD_UP && !was_told(b, a->alert_event, b->g.reason));
        EXPECT(b->told_count < sizeof b->told / sizeof *b->told);
        struct told *t = &b->told[b->told_count++];
        t->event = a->alert_event;
        snprintf(t->text, sizeof t->text, "%s", b->g.reason);
    }
    b->spoke = b->now;
}

static void check_state(struct books *b, enum kit k, const struct guard_answer *a)
{
    char flag[128];
    EXPECT(a->changed == (a->from != b->g.state) && !(a->changed && a->renewed));
    EXPECT(!a->changed || b->g.since.ms == b->now.ms);
    if (a->changed && b->g.state == GUARD_UP) {
        EXPECT(k == ALIVE || k == DONE);
        b->ups++;
    }
    EXPECT(a->from != GUARD_RESTORING || b->g.state == GUARD_RESTORING || k == DONE ||
           k == FAILED || k == NO_DUMP || k == STOP);
    EXPECT(a->from != GUARD_STOPPED || b->g.state == GUARD_STOPPED);
    guard_flag(&b->g, &b->c, b->now, flag);
    size_t word = strspn(flag, "RESTOING");
    if (b->g.state == GUARD_RESTORING)
        EXPECT(word == 9 && flag[9] == '.' && strspn(flag + 9, ".") == strlen(flag + 9));
    else if (b->g.state == GUARD_LOST)
        EXPECT(strcmp(flag, "RESTORING") == 0);
    else
        EXPECT(strcmp(flag, "UP") == 0 || strcmp(flag, "WAITING") == 0);
    if (b->g.state == GUARD_WAITING || b->g.state == GUARD_PAUSED)
        EXPECT(strcmp(flag, "WAITING") == 0);
    int64_t wait = mono_since(guard_next_probe(&b->g, 1000, b->now), b->now);
    EXPECT(wait == 250 || wait == 1000);
}

static void walk(struct books *b, enum kit k)
{
    struct guard_answer answer;
    const struct guard_answer *a = &answer;
    struct guard_event ev = kit_event(k);
    guard_step(&b->g, &b->c, &ev, b->now, &answer);
    book_proof(b, k, a);
    check_state(b, k, a);
    check_action(b, k, a);
    book_retry(b, k, a);
    check_alert(b, k, a);
    guard_check(&b->g);
}

static void open_books(struct books *b, uint64_t number)
{
    seed = UINT64_C(0x9e3779b97f4a7c15) * (number + 1);
    *b = (struct books){.now = {1000000}};
    b->c = (struct guard_config){.confirm = (unsigned)(number % 4),
                                 .restore_auto = number % 5 != 4,
                                 .restore_new_server = number % 3 == 2,
                                 .alert_repeat = number % 7 == 6 ? 0 : 60000,
                                 .suspect_grace = 10000,
                                 .retry_first = 5000,
                                 .retry_max = 60000};
    guard_init(&b->g, b->now);
}

static void pass_time(struct books *b)
{
    static const int64_t steps[] = {0, 1, 250, 1000, 1000, 1000, 5000, 61000};
    b->now = mono_add(b->now, steps[rnd(sizeof steps / sizeof *steps)]);
}

/* A stopped guard takes no further part: start again, as the next supervisor would. */
static void rise(struct books *b)
{
    if (b->g.state != GUARD_STOPPED || rnd(20))
        return;
    guard_init(&b->g, b->now);
    b->told_count = 0;
    b->proofs = 0;
    b->proof = NULL;
    b->asked = false;
    b->failures = 0;
    b->retry_at = (mono_t){0};
}

static void anything_at_all(void **state)
{
    (void)state;
    static struct books b;
    for (uint64_t number = 0; number < 12; number++) {
        open_books(&b, number);
        enum kit last = ALIVE;
        for (int i = 0; i < STEPS; i++) {
            /* Half of the time the same again: most of it takes several in a row. */
            enum kit k = rnd(2) ? last : (enum kit)rnd(KITS);
            if (k == STOP && rnd(50))
                continue;
            last = k;
            pass_time(&b);
            walk(&b, k);
            rise(&b);
        }
        assert_true(b.ups > 500 && b.restored > 100 && b.recoveries > 100);
        assert_true((b.starts > 100) == b.c.restore_auto);
        assert_true((b.reminders > 100) == (b.c.alert_repeat > 0));
    }
}

/* A server with a life of its own, and a caller who does what is answered. */
static enum kit live(const struct books *b, enum guard_action action, unsigned *down)
{
    if (action == GUARD_START_RESTORE && rnd(10))
        return STARTED;
    if (action == GUARD_END_RESTORE)
        return FAILED;
    if (b->g.state == GUARD_RESTORING)
        switch (rnd(12)) {
        case 0:
            return FAILED;
        case 1:
            return NO_PROGRESS;
        case 2:
        case 3:
            return DONE;
        default:
            break;
        }
    if (rnd(4) == 0)
        return TICK;
    if (rnd(200) == 0)
        return (enum kit)((int)PAUSE + (int)rnd(4)); /* PAUSE, PAUSE_5S, RESUME, DOUBT */
    if (rnd(300) == 0)
        return BY_HAND;
    if (rnd(50) == 0)
        *down = (unsigned)rnd(6);
    switch (*down) {
    case 1:
        return rnd(5) ? UNREACHABLE : DYING;
    case 2:
        return EMPTY;
    case 3:
        return STALLED;
    case 4:
        return (enum kit)rnd(TICK);
    default:
        return b->g.state == GUARD_PAUSED && rnd(10) == 0 ? RESUME : ALIVE;
    }
}

static void a_life(void **state)
{
    (void)state;
    static struct books b;
    for (uint64_t number = 0; number < 12; number++) {
        open_books(&b, number);
        unsigned down = 0;
        enum guard_action action = GUARD_NOTHING;
        for (int i = 0; i < STEPS; i++) {
            enum kit k = live(&b, action, &down);
            pass_time(&b);
            enum guard_state before = b.g.state;
            uint64_t starts = b.starts;
            walk(&b, k);
            action = b.starts != starts                        ? GUARD_START_RESTORE
                     : k == NO_PROGRESS && before == b.g.state ? GUARD_END_RESTORE
                                                               : GUARD_NOTHING;
            if (k == DONE)
                down = 0;
        }
        assert_true(b.ups > 500 && b.restored > 50);
        assert_true((b.starts > 100) == b.c.restore_auto);
    }
}

/* Everything that is no proven loss, in every order: never a restore. */
static void doubt_never_restores(void **state)
{
    (void)state;
    static struct books b;
    static const enum kit doubtful[] = {ALIVE,  DELETED, MISSING, DROPPED, FOREIGN, UNREACHABLE,
                                        DYING,  STALLED, DENIED,  FULL,    TICK,    PAUSE_5S,
                                        RESUME, DOUBT,   FAILED,  BY_HAND, DONE};
    for (uint64_t number = 0; number < 12; number++) {
        open_books(&b, number);
        b.c.restore_auto = true;
        for (int i = 0; i < STEPS; i++) {
            pass_time(&b);
            walk(&b, doubtful[rnd(sizeof doubtful / sizeof *doubtful)]);
            assert_int_not_equal(b.g.state, GUARD_LOST);
        }
        assert_int_equal(b.starts, 0);
        assert_true(b.ups > 500);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything_at_all),
        cmocka_unit_test(a_life),
        cmocka_unit_test(doubt_never_restores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
