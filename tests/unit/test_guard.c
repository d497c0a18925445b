/* guard_step(): first the whole table, one line per (state, event); then sequences of several
 * events, one line per event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guard_kit.h"
#include "watch/condition.h"
#include "watch/guard.h"

#define STARTING GUARD_STARTING
#define UP GUARD_UP
#define SUSPECT GUARD_SUSPECT
#define LOST GUARD_LOST
#define RESTORING GUARD_RESTORING
#define WAITING GUARD_WAITING
#define PAUSED GUARD_PAUSED
#define STANDBY GUARD_STANDBY
#define STOPPED GUARD_STOPPED

static const struct guard_config usual = {.confirm = 2,
                                          .restore_auto = true,
                                          .alert_repeat = 900000,
                                          .suspect_grace = 10000,
                                          .retry_first = 5000,
                                          .retry_max = 60000};
static const struct guard_config by_hand = {.confirm = 2,
                                            .restore_auto = false,
                                            .restore_new_server = true,
                                            .suspect_grace = 10000,
                                            .retry_first = 5000,
                                            .retry_max = 60000};
static const struct guard_config new_server = {.confirm = 2,
                                               .restore_auto = true,
                                               .restore_new_server = true,
                                               .suspect_grace = 10000,
                                               .retry_first = 5000,
                                               .retry_max = 60000};
static const struct guard_config at_once = {.confirm = 1,
                                            .restore_auto = true,
                                            .suspect_grace = 10000,
                                            .retry_first = 5000,
                                            .retry_max = 60000};

static void step(struct guard *g, const struct guard_config *c, enum kit k, int64_t ms,
                 struct guard_answer *out)
{
    struct guard_event ev = kit_event(k);
    guard_step(g, c, &ev, (mono_t){ms}, out);
}

/* ---- the table ---- */

/* How each state was reached, a second per event. */
static const enum kit path[][6] = {
    [STARTING] = {KITS},
    [UP] = {ALIVE, ALIVE, KITS},
    [SUSPECT] = {ALIVE, ALIVE, STALLED, KITS},
    [LOST] = {ALIVE, ALIVE, EMPTY, EMPTY, KITS},
    [RESTORING] = {ALIVE, ALIVE, EMPTY, EMPTY, STARTED, KITS},
    [WAITING] = {ALIVE, ALIVE, UNREACHABLE, KITS}, /* "down" was told */
    [PAUSED] = {ALIVE, ALIVE, PAUSE, KITS},
    [STANDBY] = {ALIVE, ALIVE, STAND_BY, KITS},
    [STOPPED] = {ALIVE, ALIVE, STOP, KITS},
};

/* clang-format off */
static const struct {
    enum guard_state from;
    enum kit event;
    enum guard_state to;
    const char *answer, *flag;
} table[] = {
    /* from,     event,       to,        action, alert,             flag file */
    {STARTING,  ALIVE,       UP,        "",                        "UP"},
    {STARTING,  EMPTY,       SUSPECT,   "",                        "WAITING"},
    {STARTING,  EMPTY_LATER, SUSPECT,   "",                        "WAITING"},
    {STARTING,  ELSEWHERE,   SUSPECT,   "",                        "WAITING"},
    {STARTING,  DELETED,     SUSPECT,   "",                        "WAITING"},
    {STARTING,  MISSING,     WAITING,   "new sentinel",            "WAITING"},
    {STARTING,  FOREIGN,     SUSPECT,   "new sentinel",            "WAITING"},
    {STARTING,  UNREACHABLE, WAITING,   "new down",                "WAITING"},
    {STARTING,  STALLED,     SUSPECT,   "",                        "WAITING"},
    {STARTING,  DENIED,      SUSPECT,   "new down",                "WAITING"},
    {STARTING,  TICK,        STARTING,  "",                        "WAITING"},
    {STARTING,  STARTED,     RESTORING, "END",                     "RESTORING."},
    {STARTING,  BY_HAND,     RESTORING, "new restoring",           "RESTORING."},
    {STARTING,  DONE,        STARTING,  "",                        "WAITING"},
    {STARTING,  FAILED,      STARTING,  "",                        "WAITING"},
    {STARTING,  NO_PROGRESS, STARTING,  "",                        "WAITING"},
    {STARTING,  PAUSE,       PAUSED,    "",                        "WAITING"},
    {STARTING,  RESUME,      STARTING,  "",                        "WAITING"},
    {STARTING,  DOUBT,       STARTING,  "",                        "WAITING"},
    {STARTING,  STOP,        STOPPED,   "",                        "WAITING"},
    {STARTING,  STAND_BY,    STANDBY,   "",                        "WAITING"},
    {STARTING,  PRIMARY,     STARTING,  "",                        "WAITING"},

    {UP,        ALIVE,       UP,        "",                        "UP"},
    {UP,        EMPTY,       SUSPECT,   "",                        "UP"},
    {UP,        EMPTY_LATER, SUSPECT,   "",                        "UP"},
    {UP,        ELSEWHERE,   SUSPECT,   "",                        "UP"},
    {UP,        DELETED,     SUSPECT,   "",                        "UP"},
    {UP,        MISSING,     WAITING,   "new sentinel",            "WAITING"},
    {UP,        FOREIGN,     SUSPECT,   "new sentinel",            "UP"},
    {UP,        UNREACHABLE, WAITING,   "new down",                "WAITING"},
    {UP,        STALLED,     SUSPECT,   "",                        "UP"},
    {UP,        DENIED,      SUSPECT,   "new down",                "UP"},
    {UP,        TICK,        UP,        "",                        "UP"},
    {UP,        STARTED,     RESTORING, "END",                     "RESTORING."},
    {UP,        BY_HAND,     RESTORING, "new restoring",           "RESTORING."},
    {UP,        DONE,        UP,        "",                        "UP"},
    {UP,        FAILED,      UP,        "",                        "UP"},
    {UP,        NO_PROGRESS, UP,        "",                        "UP"},
    {UP,        PAUSE,       PAUSED,    "",                        "WAITING"},
    {UP,        RESUME,      UP,        "",                        "UP"},
    {UP,        DOUBT,       UP,        "",                        "UP"},
    {UP,        STOP,        STOPPED,   "",                        "WAITING"},
    {UP,        STAND_BY,    STANDBY,   "",                        "WAITING"},
    {UP,        PRIMARY,     UP,        "",                        "UP"},

    {SUSPECT,   ALIVE,       UP,        "",                        "UP"},
    {SUSPECT,   EMPTY,       SUSPECT,   "",                        "UP"},
    {SUSPECT,   EMPTY_LATER, SUSPECT,   "",                        "UP"},
    {SUSPECT,   ELSEWHERE,   SUSPECT,   "",                        "UP"},
    {SUSPECT,   DELETED,     SUSPECT,   "",                        "UP"},
    {SUSPECT,   MISSING,     WAITING,   "new sentinel",            "WAITING"},
    {SUSPECT,   FOREIGN,     SUSPECT,   "new sentinel",            "UP"},
    {SUSPECT,   UNREACHABLE, WAITING,   "new down",                "WAITING"},
    {SUSPECT,   STALLED,     SUSPECT,   "",                        "UP"},
    {SUSPECT,   DENIED,      SUSPECT,   "new down",                "UP"},
    {SUSPECT,   TICK,        SUSPECT,   "",                        "UP"},
    {SUSPECT,   STARTED,     RESTORING, "END",                     "RESTORING."},
    {SUSPECT,   BY_HAND,     RESTORING, "new restoring",           "RESTORING."},
    {SUSPECT,   DONE,        SUSPECT,   "",                        "UP"},
    {SUSPECT,   FAILED,      SUSPECT,   "",                        "UP"},
    {SUSPECT,   NO_PROGRESS, SUSPECT,   "",                        "UP"},
    {SUSPECT,   PAUSE,       PAUSED,    "",                        "WAITING"},
    {SUSPECT,   RESUME,      SUSPECT,   "",                        "UP"},
    {SUSPECT,   DOUBT,       SUSPECT,   "",                        "UP"},
    {SUSPECT,   STOP,        STOPPED,   "",                        "WAITING"},
    {SUSPECT,   STAND_BY,    STANDBY,   "",                        "WAITING"},
    {SUSPECT,   PRIMARY,     SUSPECT,   "",                        "UP"},

    {LOST,      ALIVE,       UP,        "",                        "UP"},
    {LOST,      EMPTY,       LOST,      "",                        "RESTORING"},
    {LOST,      EMPTY_LATER, SUSPECT,   "",                        "WAITING"},
    {LOST,      ELSEWHERE,   SUSPECT,   "",                        "WAITING"},
    {LOST,      DELETED,     SUSPECT,   "",                        "WAITING"},
    {LOST,      MISSING,     WAITING,   "new sentinel",            "WAITING"},
    {LOST,      FOREIGN,     SUSPECT,   "new sentinel",            "WAITING"},
    {LOST,      UNREACHABLE, WAITING,   "new down",                "WAITING"},
    {LOST,      STALLED,     SUSPECT,   "",                        "WAITING"},
    {LOST,      DENIED,      SUSPECT,   "new down",                "WAITING"},
    {LOST,      TICK,        LOST,      "",                        "RESTORING"},
    {LOST,      STARTED,     RESTORING, "new restoring",           "RESTORING."},
    {LOST,      BY_HAND,     RESTORING, "new restoring",           "RESTORING."},
    {LOST,      DONE,        LOST,      "",                        "RESTORING"},
    {LOST,      FAILED,      WAITING,   "new waiting",             "WAITING"},
    {LOST,      NO_PROGRESS, LOST,      "",                        "RESTORING"},
    {LOST,      PAUSE,       LOST,      "",                        "RESTORING"},
    {LOST,      RESUME,      LOST,      "",                        "RESTORING"},
    {LOST,      DOUBT,       SUSPECT,   "",                        "WAITING"},
    {LOST,      STOP,        STOPPED,   "",                        "WAITING"},
    {LOST,      STAND_BY,    STANDBY,   "",                        "WAITING"},
    {LOST,      PRIMARY,     LOST,      "",                        "RESTORING"},

    {RESTORING, ALIVE,       RESTORING, "",                        "RESTORING."},
    {RESTORING, EMPTY,       RESTORING, "",                        "RESTORING."},
    {RESTORING, EMPTY_LATER, RESTORING, "",                        "RESTORING."},
    {RESTORING, ELSEWHERE,   RESTORING, "",                        "RESTORING."},
    {RESTORING, DELETED,     RESTORING, "",                        "RESTORING."},
    {RESTORING, MISSING,     RESTORING, "",                        "RESTORING."},
    {RESTORING, FOREIGN,     RESTORING, "",                        "RESTORING."},
    {RESTORING, UNREACHABLE, RESTORING, "",                        "RESTORING."},
    {RESTORING, STALLED,     RESTORING, "",                        "RESTORING."},
    {RESTORING, DENIED,      RESTORING, "",                        "RESTORING."},
    {RESTORING, TICK,        RESTORING, "",                        "RESTORING."},
    {RESTORING, STARTED,     RESTORING, "",                        "RESTORING."},
    {RESTORING, BY_HAND,     RESTORING, "",                        "RESTORING."},
    {RESTORING, DONE,        UP,        "new restored",            "UP"},
    {RESTORING, FAILED,      WAITING,   "new waiting",             "WAITING"},
    {RESTORING, NO_PROGRESS, RESTORING, "END",                     "RESTORING."},
    {RESTORING, PAUSE,       RESTORING, "",                        "RESTORING."},
    {RESTORING, RESUME,      RESTORING, "",                        "RESTORING."},
    {RESTORING, DOUBT,       RESTORING, "",                        "RESTORING."},
    {RESTORING, STOP,        STOPPED,   "",                        "WAITING"},
    {RESTORING, STAND_BY,    RESTORING, "",                        "RESTORING."},
    {RESTORING, PRIMARY,     RESTORING, "",                        "RESTORING."},

    {WAITING,   ALIVE,       UP,        "recovered down",          "UP"},
    {WAITING,   EMPTY,       WAITING,   "",                        "WAITING"},
    {WAITING,   EMPTY_LATER, WAITING,   "",                        "WAITING"},
    {WAITING,   ELSEWHERE,   WAITING,   "",                        "WAITING"},
    {WAITING,   DELETED,     SUSPECT,   "",                        "WAITING"},
    {WAITING,   MISSING,     WAITING,   "new sentinel",            "WAITING"},
    {WAITING,   FOREIGN,     SUSPECT,   "new sentinel",            "WAITING"},
    {WAITING,   UNREACHABLE, WAITING,   "",                        "WAITING"},
    {WAITING,   STALLED,     SUSPECT,   "",                        "WAITING"},
    {WAITING,   DENIED,      SUSPECT,   "new down",                "WAITING"},
    {WAITING,   TICK,        WAITING,   "",                        "WAITING"},
    {WAITING,   STARTED,     RESTORING, "END",                     "RESTORING."},
    {WAITING,   BY_HAND,     RESTORING, "new restoring",           "RESTORING."},
    {WAITING,   DONE,        WAITING,   "",                        "WAITING"},
    {WAITING,   FAILED,      WAITING,   "",                        "WAITING"},
    {WAITING,   NO_PROGRESS, WAITING,   "",                        "WAITING"},
    {WAITING,   PAUSE,       PAUSED,    "",                        "WAITING"},
    {WAITING,   RESUME,      WAITING,   "",                        "WAITING"},
    {WAITING,   DOUBT,       WAITING,   "",                        "WAITING"},
    {WAITING,   STOP,        STOPPED,   "",                        "WAITING"},
    {WAITING,   STAND_BY,    STANDBY,   "",                        "WAITING"},
    {WAITING,   PRIMARY,     WAITING,   "",                        "WAITING"},

    {PAUSED,    ALIVE,       PAUSED,    "",                        "WAITING"},
    {PAUSED,    EMPTY,       PAUSED,    "",                        "WAITING"},
    {PAUSED,    EMPTY_LATER, PAUSED,    "",                        "WAITING"},
    {PAUSED,    ELSEWHERE,   PAUSED,    "",                        "WAITING"},
    {PAUSED,    DELETED,     PAUSED,    "",                        "WAITING"},
    {PAUSED,    MISSING,     PAUSED,    "",                        "WAITING"},
    {PAUSED,    FOREIGN,     PAUSED,    "",                        "WAITING"},
    {PAUSED,    UNREACHABLE, PAUSED,    "",                        "WAITING"},
    {PAUSED,    STALLED,     PAUSED,    "",                        "WAITING"},
    {PAUSED,    DENIED,      PAUSED,    "",                        "WAITING"},
    {PAUSED,    TICK,        PAUSED,    "",                        "WAITING"},
    {PAUSED,    STARTED,     RESTORING, "END",                     "RESTORING."},
    {PAUSED,    BY_HAND,     RESTORING, "",                        "RESTORING."},
    {PAUSED,    DONE,        PAUSED,    "",                        "WAITING"},
    {PAUSED,    FAILED,      PAUSED,    "",                        "WAITING"},
    {PAUSED,    NO_PROGRESS, PAUSED,    "",                        "WAITING"},
    {PAUSED,    PAUSE,       PAUSED,    "",                        "WAITING"},
    {PAUSED,    RESUME,      STARTING,  "",                        "WAITING"},
    {PAUSED,    DOUBT,       PAUSED,    "",                        "WAITING"},
    {PAUSED,    STOP,        STOPPED,   "",                        "WAITING"},
    {PAUSED,    STAND_BY,    STANDBY,   "",                        "WAITING"},
    {PAUSED,    PRIMARY,     PAUSED,    "",                        "WAITING"},

    {STANDBY,   ALIVE,       STANDBY,   "",                        "WAITING"},
    {STANDBY,   EMPTY,       STANDBY,   "",                        "WAITING"},
    {STANDBY,   EMPTY_LATER, STANDBY,   "",                        "WAITING"},
    {STANDBY,   ELSEWHERE,   STANDBY,   "",                        "WAITING"},
    {STANDBY,   DELETED,     STANDBY,   "",                        "WAITING"},
    {STANDBY,   MISSING,     STANDBY,   "",                        "WAITING"},
    {STANDBY,   FOREIGN,     STANDBY,   "",                        "WAITING"},
    {STANDBY,   UNREACHABLE, STANDBY,   "",                        "WAITING"},
    {STANDBY,   STALLED,     STANDBY,   "",                        "WAITING"},
    {STANDBY,   DENIED,      STANDBY,   "",                        "WAITING"},
    {STANDBY,   TICK,        STANDBY,   "",                        "WAITING"},
    {STANDBY,   STARTED,     RESTORING, "END",                     "RESTORING."},
    {STANDBY,   BY_HAND,     RESTORING, "new restoring",           "RESTORING."},
    {STANDBY,   DONE,        STANDBY,   "",                        "WAITING"},
    {STANDBY,   FAILED,      STANDBY,   "",                        "WAITING"},
    {STANDBY,   NO_PROGRESS, STANDBY,   "",                        "WAITING"},
    {STANDBY,   PAUSE,       STANDBY,   "",                        "WAITING"},
    {STANDBY,   RESUME,      STANDBY,   "",                        "WAITING"},
    {STANDBY,   DOUBT,       STANDBY,   "",                        "WAITING"},
    {STANDBY,   STOP,        STOPPED,   "",                        "WAITING"},
    {STANDBY,   STAND_BY,    STANDBY,   "",                        "WAITING"},
    {STANDBY,   PRIMARY,     STARTING,  "",                        "WAITING"},

    {STOPPED,   ALIVE,       STOPPED,   "",                        "WAITING"},
    {STOPPED,   EMPTY,       STOPPED,   "",                        "WAITING"},
    {STOPPED,   EMPTY_LATER, STOPPED,   "",                        "WAITING"},
    {STOPPED,   ELSEWHERE,   STOPPED,   "",                        "WAITING"},
    {STOPPED,   DELETED,     STOPPED,   "",                        "WAITING"},
    {STOPPED,   MISSING,     STOPPED,   "",                        "WAITING"},
    {STOPPED,   FOREIGN,     STOPPED,   "",                        "WAITING"},
    {STOPPED,   UNREACHABLE, STOPPED,   "",                        "WAITING"},
    {STOPPED,   STALLED,     STOPPED,   "",                        "WAITING"},
    {STOPPED,   DENIED,      STOPPED,   "",                        "WAITING"},
    {STOPPED,   TICK,        STOPPED,   "",                        "WAITING"},
    {STOPPED,   STARTED,     STOPPED,   "END",                     "WAITING"},
    {STOPPED,   BY_HAND,     STOPPED,   "END",                     "WAITING"},
    {STOPPED,   DONE,        STOPPED,   "",                        "WAITING"},
    {STOPPED,   FAILED,      STOPPED,   "",                        "WAITING"},
    {STOPPED,   NO_PROGRESS, STOPPED,   "",                        "WAITING"},
    {STOPPED,   PAUSE,       STOPPED,   "",                        "WAITING"},
    {STOPPED,   RESUME,      STOPPED,   "",                        "WAITING"},
    {STOPPED,   DOUBT,       STOPPED,   "",                        "WAITING"},
    {STOPPED,   STOP,        STOPPED,   "",                        "WAITING"},
    {STOPPED,   STAND_BY,    STOPPED,   "",                        "WAITING"},
    {STOPPED,   PRIMARY,     STOPPED,   "",                        "WAITING"},
};
/* clang-format on */

static void the_table(void **state)
{
    (void)state;
    char answer[64], flag[128];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct guard g;
        struct guard_answer a;
        int64_t now = 1000000;
        guard_init(&g, (mono_t){now});
        for (const enum kit *k = path[table[i].from]; *k != KITS; k++)
            step(&g, &usual, *k, now += 1000, &a);
        assert_int_equal(g.state, table[i].from);
        step(&g, &usual, table[i].event, now += 1000, &a);
        guard_flag(&g, &usual, (mono_t){now}, flag);
        if (g.state != table[i].to || strcmp(kit_answer(&a, answer), table[i].answer) != 0 ||
            strcmp(flag, table[i].flag) != 0 || a.changed != (table[i].from != table[i].to) ||
            a.from != table[i].from)
            fail_msg("%s + %s: %s, '%s', flag %s (%s)", guard_state_name(table[i].from),
                     kit_name(table[i].event), guard_state_name(g.state), answer, flag, g.reason);
    }
}

/* Each pair once: every state, and every event but those that are another in other words. */
static void the_table_is_whole(void **state)
{
    (void)state;
    static const enum kit variants[] = {DROPPED, REBUILT, DYING, FULL, NO_DUMP, PAUSE_5S};
    unsigned seen[STOPPED + 1][KITS] = {0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        seen[table[i].from][table[i].event]++;
    for (int s = 0; s <= (int)STOPPED; s++) {
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
            seen[s][variants[v]]++;
        for (int k = 0; k < (int)KITS; k++)
            if (seen[s][k] != 1)
                fail_msg("%s + %s: %u lines", guard_state_name((enum guard_state)s),
                         kit_name((enum kit)k), seen[s][k]);
    }
}

/* ---- the stories ---- */

struct line {
    int64_t after; /* ms since the line before */
    enum kit event;
    enum guard_state state;
    const char *answer, *flag;
    const char *reason; /* must be in it; NULL: whatever */
};

static struct guard tell_story(const struct guard_config *c, const struct line *lines)
{
    struct guard g;
    struct guard_answer a;
    char answer[64], flag[128];
    mono_t now = {5000000};
    guard_init(&g, now);
    for (const struct line *l = lines; l->flag; l++) {
        now = mono_add(now, l->after);
        step(&g, c, l->event, now.ms, &a);
        guard_flag(&g, c, now, flag);
        if (g.state != l->state || strcmp(kit_answer(&a, answer), l->answer) != 0 ||
            strcmp(flag, l->flag) != 0 || (l->reason && !strstr(g.reason, l->reason)))
            fail_msg("line %d (%s): %s, '%s', flag %s: %s", (int)(l - lines) + 1,
                     kit_name(l->event), guard_state_name(g.state), answer, flag, g.reason);
    }
    return g;
}

#define END                                                                                        \
    {                                                                                              \
        .flag = NULL                                                                               \
    }

/* clang-format off */
static void killed_and_back(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, ALIVE,       UP,        "",              "UP",           "sentinel there"},
        { 1000, ALIVE,       UP,        "",              "UP",           NULL},
        { 1000, DYING,       WAITING,   "new down",      "WAITING",      "lost in the middle"},
        {  250, UNREACHABLE, WAITING,   "",              "WAITING",      "no connection"},
        {  250, STALLED,     SUSPECT,   "",              "WAITING",      NULL},
        {  250, UNREACHABLE, WAITING,   "",              "WAITING",      NULL},
        {  250, EMPTY,       WAITING,   "",              "WAITING",
         "sentinel empty; seen 1 of 2 times"},
        {  250, EMPTY,       LOST,      "START",         "RESTORING",
         "sentinel empty; seen 2 times"},
        {   10, STARTED,     RESTORING, "new restoring", "RESTORING.",   "restore runs"},
        { 1000, EMPTY,       RESTORING, "",              "RESTORING.",   NULL},
        {58999, TICK,        RESTORING, "",              "RESTORING.",   NULL},
        {    1, TICK,        RESTORING, "",              "RESTORING..",  NULL},
        {60000, ALIVE,       RESTORING, "",              "RESTORING...", NULL},
        {    5, DONE,        UP,        "new restored",  "UP",
         "restored: dump 7, 50000 rows"},
        { 1000, ALIVE,       UP,        "",              "UP",
         "restored: dump 7, 50000 rows"},
        END};
    struct guard g = tell_story(&usual, lines);
    assert_int_equal(g.verdict, VERDICT_ALIVE);
}

static void restored_while_nobody_watched(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, EMPTY, SUSPECT,   "",              "WAITING",    NULL},
        { 1000, EMPTY, LOST,      "START",         "RESTORING",  NULL},
        { 1000, EMPTY, LOST,      "",              "RESTORING",  NULL}, /* asked for once */
        END};
    tell_story(&usual, lines);
}

static void another_restart_is_looked_at_anew(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, ALIVE,       UP,        "",         "UP",         NULL},
        { 1000, EMPTY,       SUSPECT,   "",         "UP",         "seen 1 of 2"},
        { 1000, EMPTY_LATER, SUSPECT,   "",         "UP",         "seen 1 of 2"},
        { 1000, EMPTY_LATER, LOST,      "START",    "RESTORING",  NULL},
        { 1000, EMPTY,       SUSPECT,   "",         "WAITING",    "seen 1 of 2"},
        { 1000, UNREACHABLE, WAITING,   "new down", "WAITING",    NULL},
        { 1000, EMPTY,       WAITING,   "",         "WAITING",    "seen 1 of 2"},
        END};
    tell_story(&usual, lines);
}

static void any_other_verdict_counts_anew(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, ALIVE,       UP,        "",             "UP",      NULL},
        { 1000, EMPTY,       SUSPECT,   "",             "UP",      "1 of 2"},
        { 1000, STALLED,     SUSPECT,   "",             "UP",      NULL},
        { 1000, EMPTY,       SUSPECT,   "",             "UP",      "1 of 2"},
        { 1000, DENIED,      SUSPECT,   "new down",     "UP",      NULL},
        { 1000, EMPTY,       SUSPECT,   "",             "UP",      "1 of 2"},
        { 1000, FOREIGN,     SUSPECT,   "new sentinel", "UP",      NULL},
        { 1000, EMPTY,       SUSPECT,   "",             "UP",      "1 of 2"},
        { 1000, DELETED,     SUSPECT,   "",             "UP",      NULL},
        { 1000, EMPTY,       SUSPECT,   "",             "UP",      "1 of 2"},
        { 1000, MISSING,     WAITING,   "new sentinel", "WAITING", NULL},
        { 1000, EMPTY,       WAITING,   "",             "WAITING", "1 of 2"},
        { 1000, UNREACHABLE, WAITING,   "new down",     "WAITING", NULL},
        { 1000, EMPTY,       WAITING,   "",             "WAITING", "1 of 2"},
        { 1000, ALIVE,       UP,        "recovered down", "UP",    NULL},
        { 1000, EMPTY,       SUSPECT,   "",             "UP",      "1 of 2"},
        END};
    tell_story(&usual, lines);
}

static void one_look_may_be_enough(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, EMPTY,   LOST,    "START",        "RESTORING", NULL},
        { 1000, ALIVE,   UP,      "",             "UP",        NULL},
        { 1000, DELETED, SUSPECT, "new sentinel", "UP",        "row deleted"},
        { 1000, DOUBT,   SUSPECT, "",             "UP",        NULL},
        { 1000, EMPTY,   LOST,    "START",        "RESTORING", NULL},
        END};
    tell_story(&at_once, lines);
}

static void doubt_counts_anew(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, ALIVE, UP,      "",      "UP",        NULL},
        { 1000, EMPTY, SUSPECT, "",      "UP",        NULL},
        { 1000, DOUBT, SUSPECT, "",      "UP",        "clock or timing in doubt: tick 9 s late"},
        { 1000, EMPTY, SUSPECT, "",      "UP",        "1 of 2"},
        { 1000, EMPTY, LOST,    "START", "RESTORING", NULL},
        {   10, DOUBT, SUSPECT, "",      "WAITING",   "in doubt"},
        { 1000, EMPTY, SUSPECT, "",      "WAITING",   "1 of 2"},
        { 1000, EMPTY, LOST,    "START", "RESTORING", NULL},
        {   10, DOUBT, SUSPECT, "",      "WAITING",   "in doubt"},
        { 1000, ALIVE, UP,      "",      "UP",        NULL},
        { 1000, DOUBT, UP,      "",      "UP",        "in doubt"},
        { 1000, ALIVE, UP,      "",      "UP",        "in doubt"},
        { 1000, ALIVE, UP,      "",      "UP",        "sentinel there"},
        END};
    tell_story(&usual, lines);
}

static void failures_wait_longer_and_longer(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, EMPTY,   SUSPECT,   "",              "WAITING",    NULL},
        { 1000, EMPTY,   LOST,      "START",         "RESTORING",  NULL},
        {    0, STARTED, RESTORING, "new restoring", "RESTORING.", NULL},
        { 1000, FAILED,  WAITING,   "new waiting",   "WAITING",
         "restore failed: table is full; next try in 5.0 s"},
        { 1000, EMPTY,   WAITING,   "",              "WAITING",    "restore failed: table is full"},
        { 3999, EMPTY,   WAITING,   "",              "WAITING",    "restore failed: table is full"},
        {    1, EMPTY,   LOST,      "START",         "RESTORING",  NULL},
        {    0, STARTED, RESTORING, "",              "RESTORING.", NULL},
        { 1000, FAILED,  WAITING,   "",              "WAITING",    "next try in 10.0 s"},
        { 9000, EMPTY,   WAITING,   "",              "WAITING",    NULL},
        {  999, EMPTY,   WAITING,   "",              "WAITING",    NULL},
        {    1, EMPTY,   LOST,      "START",         "RESTORING",  NULL},
        /* no worker */
        {    0, FAILED,  WAITING,   "",              "WAITING",    "next try in 20.0 s"},
        {20000, EMPTY,   WAITING,   "",              "WAITING",    "1 of 2"},
        {    0, EMPTY,   LOST,      "START",         "RESTORING",  NULL},
        {    0, STARTED, RESTORING, "",              "RESTORING.", NULL},
        { 1000, NO_DUMP, WAITING,   "new waiting",   "WAITING",
         "no intact dump; next try in 40.0 s"},
        {40000, EMPTY,   WAITING,   "",              "WAITING",    NULL},
        {    0, EMPTY,   LOST,      "START",         "RESTORING",  NULL},
        {    0, STARTED, RESTORING, "",              "RESTORING.", NULL},
        { 1000, FAILED,  WAITING,   "",              "WAITING",    "next try in 1m"},
        { 1000, DYING,   WAITING,   "new down",      "WAITING",    NULL},
        { 1000, EMPTY,   WAITING,   "",              "WAITING",    "1 of 2"},
        { 1000, EMPTY,   WAITING,   "",              "WAITING",
         "restores failed: 5, next try in 57.0 s"},
        { 1000, EMPTY,   WAITING,   "",              "WAITING",    "next try in 57.0 s"},
        {56000, EMPTY,   LOST,      "START",         "RESTORING",  NULL},
        {    0, STARTED, RESTORING, "",              "RESTORING.", NULL},
        { 1000, DONE,    UP,        "new restored",  "UP",         NULL},
        END};
    struct guard g = tell_story(&usual, lines);
    assert_int_equal(g.failures, 0);
}

static void somebody_mended_it_by_hand(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, EMPTY,   SUSPECT,   "",                  "WAITING",    NULL},
        { 1000, EMPTY,   LOST,      "START",             "RESTORING",  NULL},
        {    0, STARTED, RESTORING, "new restoring",     "RESTORING.", NULL},
        { 1000, FAILED,  WAITING,   "new waiting",       "WAITING",    NULL},
        { 1000, ALIVE,   UP,        "recovered waiting", "UP",         NULL},
        { 1000, EMPTY,   SUSPECT,   "",                  "UP",         NULL},
        /* no wait left over */
        { 1000, EMPTY,   LOST,      "START",             "RESTORING",  NULL},
        END};
    tell_story(&usual, lines);
}

static void no_progress_same_dump_then_older(void **state)
{
    (void)state;
    static const struct line first[] = {
        {    0, EMPTY,       SUSPECT,   "",              "WAITING",    NULL},
        { 1000, EMPTY,       LOST,      "START",         "RESTORING",  NULL},
        {    0, STARTED,     RESTORING, "new restoring", "RESTORING.", NULL},
        {60000, NO_PROGRESS, RESTORING, "END",           "RESTORING..", "no progress"},
        /* it takes its time to die */
        { 1000, NO_PROGRESS, RESTORING, "END",           "RESTORING..", NULL},
        {  100, FAILED,      WAITING,   "new waiting",   "WAITING",    "retrying at once"},
        END};
    struct line lines[16];
    struct guard g = tell_story(&usual, first);
    assert_int_equal(g.stalls, 1);
    assert_int_equal(guard_skip(&g), 0); /* the same again */

    static const struct line second[] = {
        {  250, EMPTY,       WAITING,   "",              "WAITING",    "1 of 2"},
        {  250, EMPTY,       LOST,      "START",         "RESTORING",  NULL},
        {    0, STARTED,     RESTORING, "",              "RESTORING.", NULL},
        {60000, NO_PROGRESS, RESTORING, "END",           "RESTORING..", NULL},
        {  100, FAILED,      WAITING,   "",              "WAITING",    NULL},
        END};
    memcpy(lines, first, 6 * sizeof *lines);
    memcpy(lines + 6, second, sizeof second);
    g = tell_story(&usual, lines);
    assert_int_equal(guard_skip(&g), 1); /* the next older one */

    static const struct line third[] = {
        {  250, EMPTY,       WAITING,   "",              "WAITING",    NULL},
        {  250, EMPTY,       LOST,      "START",         "RESTORING",  NULL},
        {    0, STARTED,     RESTORING, "",              "RESTORING.", NULL},
        { 1000, NO_DUMP,     WAITING,   "new waiting",   "WAITING",    "no intact dump"},
        END};
    memcpy(lines + 11, third, sizeof third);
    g = tell_story(&usual, lines);
    assert_int_equal(guard_skip(&g), 0); /* no older one: from the newest again */
}

static void by_hand_over_a_living_world(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, ALIVE,       UP,        "",                    "UP",          NULL},
        { 1000, BY_HAND,     RESTORING, "new restoring",       "RESTORING.",
         "restore by hand runs: dump 7"},
        { 1000, ALIVE,       RESTORING, "",                    "RESTORING.",  NULL},
        { 1000, FAILED,      STARTING,  "",                    "WAITING",
         "restore ended: table is full; the next probe decides"},
        { 1000, ALIVE,       UP,        "recovered restoring", "UP",          NULL},
        { 1000, BY_HAND,     RESTORING, "new restoring",       "RESTORING.",  NULL},
        {60000, NO_PROGRESS, RESTORING, "END",                 "RESTORING..", NULL},
        { 1000, FAILED,      STARTING,  "",                    "WAITING",     NULL},
        { 1000, EMPTY,       SUSPECT,   "",                    "WAITING",     NULL},
        { 1000, BY_HAND,     RESTORING, "",                    "RESTORING.",  NULL},
        { 1000, DONE,        UP,        "new restored",        "UP",          NULL},
        END};
    static const struct line no_progress[] = {
        {    0, UNREACHABLE, WAITING,   "new down",      "WAITING",     NULL},
        { 1000, BY_HAND,     RESTORING, "new restoring", "RESTORING.",  NULL},
        {60000, NO_PROGRESS, RESTORING, "END",           "RESTORING..", NULL},
        { 1000, FAILED,      WAITING,   "new waiting",   "WAITING",     "retrying at once"},
        END};
    tell_story(&usual, lines);
    struct guard g = tell_story(&usual, no_progress);
    assert_int_equal(g.stalls, 0); /* what somebody chose says nothing of the newest dump */
}

static void by_hand_out_of_trouble(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, MISSING, WAITING,   "new sentinel",  "WAITING",    "table not there"},
        { 1000, BY_HAND, RESTORING, "new restoring", "RESTORING.", NULL},
        { 1000, FAILED,  WAITING,   "new waiting",   "WAITING",    NULL},
        { 1000, BY_HAND, RESTORING, "",              "RESTORING.", NULL}, /* no wait for people */
        { 1000, DONE,    UP,        "new restored",  "UP",         NULL},
        END};
    tell_story(&usual, lines);
}

static void nobody_wants_it_any_more(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, EMPTY,       SUSPECT,   "",         "WAITING",    NULL},
        { 1000, EMPTY,       LOST,      "START",    "RESTORING",  NULL},
        { 1000, UNREACHABLE, WAITING,   "new down", "WAITING",    NULL},
        {   10, STARTED,     RESTORING, "END",      "RESTORING.", "no longer wanted"},
        {   10, FAILED,      STARTING,  "",         "WAITING",    NULL},
        { 1000, ALIVE,       UP,        "recovered down", "UP",   NULL},
        END};
    tell_story(&usual, lines);
}

static void paused(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {     0, ALIVE,       UP,        "",               "UP",      NULL},
        {  1000, UNREACHABLE, WAITING,   "new down",       "WAITING", NULL},
        {  1000, PAUSE_5S,    PAUSED,    "",               "WAITING",
         "paused on request for 5.0 s"},
        {  4000, EMPTY,       PAUSED,    "",               "WAITING", NULL},
        {   500, EMPTY,       PAUSED,    "",               "WAITING", NULL},
        {   499, TICK,        PAUSED,    "",               "WAITING", NULL},
        {     1, TICK,        STARTING,  "",               "WAITING", "the pause is over"},
        {  1000, EMPTY,       SUSPECT,   "",               "WAITING", "1 of 2"},
        {  1000, PAUSE_5S,    PAUSED,    "",               "WAITING", NULL},
        {  1000, PAUSE,       PAUSED,    "",               "WAITING", "until resumed"},
        {999999, TICK,        PAUSED,    "",               "WAITING", NULL}, /* no reminder */
        {  1000, RESUME,      STARTING,  "",               "WAITING", "resumed"},
        {  1000, UNREACHABLE, WAITING,   "",               "WAITING", NULL}, /* still the same */
        {   100, TICK,        WAITING,   "again down",     "WAITING", NULL},
        {  1000, ALIVE,       UP,        "recovered down", "UP",      NULL},
        END};
    tell_story(&usual, lines);
}

static void a_pause_ends_the_wait(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, EMPTY,  SUSPECT,  "",            "WAITING",   NULL},
        { 1000, EMPTY,  LOST,     "START",       "RESTORING", NULL},
        { 1000, FAILED, WAITING,  "new waiting", "WAITING",   "next try in 5.0 s"},
        { 1000, PAUSE,  PAUSED,   "",            "WAITING",   NULL},
        { 1000, RESUME, STARTING, "",            "WAITING",   NULL},
        { 1000, EMPTY,  SUSPECT,  "",            "WAITING",   NULL},
        { 1000, EMPTY,  LOST,     "START",       "RESTORING", NULL},
        { 1000, FAILED, WAITING,  "",            "WAITING",   "next try in 5.0 s"},
        END};
    tell_story(&usual, lines);
}

static void by_hand_in_a_pause(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {     0, ALIVE,   UP,        "",             "UP",           NULL},
        {  1000, PAUSE,   PAUSED,    "",             "WAITING",      NULL},
        {  1000, BY_HAND, RESTORING, "",             "RESTORING.",   NULL},
        {  1000, FAILED,  PAUSED,    "",             "WAITING",
         "restore failed: table is full; paused as before"},
        {  1000, BY_HAND, RESTORING, "",             "RESTORING.",   NULL},
        {  1000, DONE,    PAUSED,    "",             "WAITING",
         "restored: dump 7, 50000 rows; paused as before"},
        {  1000, ALIVE,   PAUSED,    "",             "WAITING",      NULL},
        {  1000, BY_HAND, RESTORING, "",             "RESTORING.",   NULL},
        /* ends the pause, not the restore */
        {  1000, RESUME,  RESTORING, "",             "RESTORING.",   NULL},
        {  1000, DONE,    UP,        "new restored", "UP",           NULL},
        {  1000, PAUSE_5S, PAUSED,   "",             "WAITING",      NULL},
        {  1000, BY_HAND, RESTORING, "",             "RESTORING.",   NULL},
        {  9000, TICK,    RESTORING, "",             "RESTORING.",   NULL},
        {  1000, DONE,    PAUSED,    "",             "WAITING",      NULL},
        {     0, TICK,    STARTING,  "",             "WAITING",      NULL},
        END};
    tell_story(&usual, lines);
}

/* A pause up to a time ends at that time of the wall clock, wherever that is set to; one of a
 * length does not care. */
static void a_pause_and_the_wall_clock(void **state)
{
    static const struct {
        bool by_wall;
        int64_t set, ends; /* ms after its begin */
    } cases[] = {{true, 3000, 2000},    {true, -3000, 8000}, {true, INT64_C(200000000000), 0},
                 {false, 3000, 5000},   {false, -3000, 5000}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct guard g;
        struct guard_answer out;
        mono_t now = {1000};
        guard_init(&g, now);
        guard_step(&g, &usual,
                   &(struct guard_event){
                       .type = GUARD_PAUSE, .pause_ms = 5000, .pause_by_wall = cases[i].by_wall},
                   now, &out);
        assert_true(guard_paused(&g));
        guard_step(&g, &usual,
                   &(struct guard_event){
                       .type = GUARD_DOUBT, .text = "set", .clock_set = cases[i].set},
                   now, &out);
        now = (mono_t){1000 + cases[i].ends - 1};
        if (cases[i].ends)
            guard_step(&g, &usual, &(struct guard_event){.type = GUARD_TICK}, now, &out);
        assert_int_equal(g.state, GUARD_PAUSED);
        now = (mono_t){1000 + cases[i].ends};
        guard_step(&g, &usual, &(struct guard_event){.type = GUARD_TICK}, now, &out);
        assert_int_equal(g.state, GUARD_STARTING);
    }
}

static void reminders(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {     0, UNREACHABLE, WAITING,   "new down",        "WAITING",    NULL},
        {899999, TICK,        WAITING,   "",                "WAITING",    NULL},
        {     1, TICK,        WAITING,   "again down",      "WAITING",    NULL},
        {     1, TICK,        WAITING,   "",                "WAITING",    NULL},
        /* another trouble */
        {899000, DENIED,      SUSPECT,   "new down",        "WAITING",    NULL},
        {899999, TICK,        SUSPECT,   "",                "WAITING",    NULL},
        {     1, TICK,        SUSPECT,   "again down",      "WAITING",    NULL},
        {  1000, EMPTY,       SUSPECT,   "",                "WAITING",    NULL},
        {  1000, EMPTY,       LOST,      "START",           "RESTORING",  NULL},
        {     0, STARTED,     RESTORING, "new restoring",   "RESTORING.", NULL},
        {900000, TICK,        RESTORING, "again restoring", "RESTORING................", NULL},
        {     1, DONE,        UP,        "new restored",    "UP",         NULL},
        {999999, TICK,        UP,        "",                "UP",         NULL},
        END};
    tell_story(&usual, lines);
}

static void told_once(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, UNREACHABLE, WAITING, "new down",           "WAITING", NULL},
        /* other words, the same */
        { 1000, DYING,       WAITING, "",                   "WAITING", NULL},
        { 1000, DENIED,      SUSPECT, "new down",           "WAITING", NULL},
        /* needs another way out */
        { 1000, FULL,        SUSPECT, "new down",           "WAITING", NULL},
        { 1000, UNREACHABLE, WAITING, "",                   "WAITING", NULL},
        { 1000, FOREIGN,     SUSPECT, "new sentinel",       "WAITING", NULL},
        { 1000, DENIED,      SUSPECT, "",                   "WAITING", NULL},
        { 1000, MISSING,     WAITING, "new sentinel",       "WAITING", NULL},
        { 1000, FOREIGN,     SUSPECT, "",                   "WAITING", NULL},
        { 1000, ALIVE,       UP,      "recovered sentinel", "UP",      NULL},
        { 1000, ALIVE,       UP,      "",                   "UP",      NULL},
        { 1000, UNREACHABLE, WAITING, "new down",           "WAITING", NULL},
        END};
    tell_story(&usual, lines);
}

static void short_stalls_are_nobodys_business(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, ALIVE,   UP,      "",               "UP",      NULL},
        { 1000, STALLED, SUSPECT, "",               "UP",      "no answer in time"},
        { 9999, STALLED, SUSPECT, "",               "UP",      NULL},
        {    0, ALIVE,   UP,      "",               "UP",      NULL},
        { 1000, STALLED, SUSPECT, "",               "UP",      NULL},
        { 9999, TICK,    SUSPECT, "",               "UP",      NULL},
        {    1, TICK,    SUSPECT, "new down",       "WAITING", NULL},
        { 1000, STALLED, SUSPECT, "",               "WAITING", NULL},
        { 1000, ALIVE,   UP,      "recovered down", "UP",      NULL},
        { 1000, STALLED, SUSPECT, "",               "UP",      NULL},
        { 9000, EMPTY,   SUSPECT, "",               "UP",      NULL},
        /* its grace counts anew, the flag's does not */
        { 9000, STALLED, SUSPECT, "",               "WAITING", NULL},
        { 9999, STALLED, SUSPECT, "",               "WAITING", NULL},
        {    1, STALLED, SUSPECT, "new down",       "WAITING", NULL},
        END};
    tell_story(&usual, lines);
}

static void somebody_deleted_the_row(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {     0, ALIVE,   UP,      "",                   "UP",      NULL},
        {  1000, DELETED, SUSPECT, "",                   "UP",      "row deleted"},
        {  1000, DELETED, SUSPECT, "new sentinel",       "UP",      NULL},
        {  1000, DELETED, SUSPECT, "",                   "UP",      NULL},
        { 10000, DELETED, SUSPECT, "",                   "WAITING", NULL},
        {890000, TICK,    SUSPECT, "again sentinel",     "WAITING", NULL},
        {  1000, ALIVE,   UP,      "recovered sentinel", "UP",      NULL},
        END};
    tell_story(&usual, lines);
}

static void another_server(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, ALIVE,     UP,      "",                   "UP",      NULL},
        { 1000, ELSEWHERE, SUSPECT, "",                   "UP",      NULL},
        { 1000, ELSEWHERE, WAITING, "new sentinel",       "WAITING",
         "new_server = yes, or --restore"},
        { 1000, ELSEWHERE, WAITING, "",                   "WAITING", NULL},
        { 1000, EMPTY,     WAITING, "",                   "WAITING", "1 of 2"},
        /* the old one is back */
        { 1000, EMPTY,     LOST,    "START",              "RESTORING", NULL},
        { 1000, ALIVE,     UP,      "recovered sentinel", "UP",      NULL},
        END};
    static const struct line allowed[] = {
        {    0, ALIVE,     UP,      "",      "UP",        NULL},
        { 1000, ELSEWHERE, SUSPECT, "",      "UP",        NULL},
        { 1000, ELSEWHERE, LOST,    "START", "RESTORING", NULL},
        END};
    tell_story(&usual, lines);
    tell_story(&new_server, allowed);
}

static void restore_by_hand_only(void **state)
{
    (void)state;
    static const struct line lines[] = {
        {    0, ALIVE,   UP,      "",                  "UP",      NULL},
        { 1000, EMPTY,   SUSPECT, "",                  "UP",      NULL},
        { 1000, EMPTY,   WAITING, "new waiting",       "WAITING", "auto = no"},
        { 1000, EMPTY,   WAITING, "",                  "WAITING", NULL},
        { 1000, REBUILT, WAITING, "new sentinel",      "WAITING", NULL},
        { 1000, REBUILT, WAITING, "",                  "WAITING", NULL},
        { 1000, ALIVE,   UP,      "recovered sentinel", "UP",     NULL},
        END};
    tell_story(&by_hand, lines);
}

static void schema_gone(void **state)
{
    (void)state;
    static const struct line not_allowed[] = {
        {    0, REBUILT, WAITING, "new sentinel", "WAITING", "schema not there"},
        { 1000, REBUILT, WAITING, "",             "WAITING", NULL},
        { 1000, REBUILT, WAITING, "",             "WAITING", NULL},
        END};
    static const struct line lines[] = {
        {    0, DROPPED, WAITING,   "new sentinel",  "WAITING",    NULL}, /* somebody dropped it */
        { 1000, DROPPED, WAITING,   "",              "WAITING",    NULL},
        { 1000, MISSING, WAITING,   "new sentinel",  "WAITING",    NULL}, /* others hold rows */
        { 1000, MISSING, WAITING,   "",              "WAITING",    NULL},
        { 1000, REBUILT, WAITING,   "",              "WAITING",    NULL},
        { 1000, EMPTY,   WAITING,   "",              "WAITING",    "1 of 2"}, /* not mixed */
        { 1000, REBUILT, WAITING,   "",              "WAITING",    NULL},
        { 1000, REBUILT, LOST,      "START",         "RESTORING",
         "schema not there; seen 2 times"},
        { 1000, STARTED, RESTORING, "new restoring", "RESTORING.", NULL},
        { 1000, FAILED,  WAITING,   "new waiting",   "WAITING",    NULL},
        { 1000, REBUILT, WAITING,   "",              "WAITING",    "restore failed"},
        { 4000, REBUILT, LOST,      "START",         "RESTORING",  NULL},
        END};
    tell_story(&usual, not_allowed);
    tell_story(&new_server, lines);
}

/* Nobody vouches for a world that is not watched, however it was. */
static void stopped_says_waiting(void **state)
{
    (void)state;
    static const struct line alive[] = {
        {    0, ALIVE,   UP,      "",    "UP",      NULL},
        { 1000, STALLED, SUSPECT, "",    "UP",      NULL},
        { 1000, STOP,    STOPPED, "",    "WAITING", "asked to stop"},
        {99999, TICK,    STOPPED, "",    "WAITING", NULL},
        END};
    static const struct line hanging[] = {
        {    0, ALIVE,   UP,      "",    "UP",      NULL},
        { 1000, STALLED, SUSPECT, "",    "UP",      NULL},
        {10000, STOP,    STOPPED, "",    "WAITING", NULL},
        {    0, STARTED, STOPPED, "END", "WAITING", NULL},
        END};
    tell_story(&usual, alive);
    tell_story(&usual, hanging);
}
/* clang-format on */

/* ---- the rest ---- */

static void next_probe(void **state)
{
    (void)state;
    static const struct {
        enum kit event;
        int64_t wait;
    } steps[] = {
        {UNREACHABLE, 250}, {EMPTY, 250},    {DOUBT, 250},        {EMPTY, 250},
        {EMPTY, 1000},      {STARTED, 1000}, {UNREACHABLE, 1000}, {FAILED, 250},
        {DENIED, 1000},     {DELETED, 250},  {DELETED, 1000},     {STALLED, 1000},
        {ALIVE, 1000},      {MISSING, 1000}, {PAUSE, 1000},       {UNREACHABLE, 1000},
    };
    struct guard g;
    struct guard_answer a;
    mono_t now = {1000000};
    guard_init(&g, now);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        step(&g, &usual, steps[i].event, now.ms, &a);
        int64_t wait = mono_since(guard_next_probe(&g, 1000, now), now);
        if (wait != steps[i].wait)
            fail_msg("step %zu (%s): %d ms", i + 1, kit_name(steps[i].event), (int)wait);
        wait = mono_since(guard_next_probe(&g, 100, now), now);
        assert_int_equal(wait, 100); /* never slower than asked for */
    }
}

/* The server answers, and nothing proves that the world is gone: nobody knows whether it is up. */
static void unverified(void **state)
{
    (void)state;
    for (enum kit k = ALIVE; (int)k < KIT_PROBES; k++) {
        struct guard g;
        struct guard_answer a;
        guard_init(&g, (mono_t){0});
        step(&g, &usual, ALIVE, 0, &a);
        step(&g, &usual, k, 1000, &a);
        bool unknown = k == DELETED || k == FOREIGN || k == DENIED || k == FULL;
        if (guard_unverified(&g) != unknown)
            fail_msg("%s: %d", kit_name(k), guard_unverified(&g));
        step(&g, &usual, UNREACHABLE, 2000, &a);
        assert_false(guard_unverified(&g));
    }
    /* The sentinel's table is missing, other tables hold rows, and the server was not restarted. */
    struct judgement j = kit_probes[MISSING].judgement;
    struct guard g;
    struct guard_answer a;
    j.restarted = false;
    guard_init(&g, (mono_t){0});
    guard_step(&g, &usual, &(struct guard_event){.type = GUARD_PROBED, .judgement = &j},
               (mono_t){0}, &a);
    assert_true(guard_unverified(&g));
}

static void outages(void **state)
{
    (void)state;
    static const struct {
        int64_t at;
        enum kit event;
        int64_t outage;
    } steps[] = {
        {0, ALIVE, -1},       {1000, STALLED, -1},  {1500, ALIVE, 500},   {2000, UNREACHABLE, -1},
        {5000, EMPTY, -1},    {5250, EMPTY, -1},    {5300, STARTED, -1},  {9000, DONE, 7000},
        {9500, ALIVE, -1},    {10000, PAUSE, -1},   {11000, RESUME, -1},  {12000, ALIVE, -1},
        {13000, BY_HAND, -1}, {14000, DONE, -1},    {15000, STALLED, -1}, {16000, PAUSE, -1},
        {17000, RESUME, -1},  {18000, ALIVE, 3000}, {19000, DENIED, -1},  {20000, ALIVE, -1},
        {21000, DELETED, -1}, {22000, ALIVE, -1},   {23000, FOREIGN, -1}, {24000, ALIVE, -1},
    };
    struct guard g;
    struct guard_answer a;
    guard_init(&g, (mono_t){0});
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int64_t outage = g.down_since_set ? steps[i].at - g.down_since.ms : -1;
        step(&g, &usual, steps[i].event, steps[i].at, &a);
        if (!a.changed || g.state != GUARD_UP)
            outage = -1;
        if (outage != steps[i].outage)
            fail_msg("step %zu (%s): %d ms", i + 1, kit_name(steps[i].event), (int)outage);
    }
}

/* A line in the log for a new reason, none for the same again. */
static void renewed(void **state)
{
    (void)state;
    struct guard g;
    struct guard_answer a;
    guard_init(&g, (mono_t){0});
    step(&g, &usual, DENIED, 0, &a);
    assert_true(a.changed && !a.renewed);
    step(&g, &usual, DENIED, 1, &a);
    assert_true(!a.changed && !a.renewed);
    step(&g, &usual, FULL, 2, &a);
    assert_true(!a.changed && a.renewed);
    step(&g, &usual, ALIVE, 3, &a);
    assert_true(a.changed && !a.renewed);
    step(&g, &usual, TICK, 4, &a);
    assert_true(!a.changed && !a.renewed);
}

static void texts_of_others(void **state)
{
    (void)state;
    struct guard g;
    struct guard_answer a;
    struct err e = {.cls = ERR_QUERY};
    struct guard_event failed = {.type = GUARD_RESTORE_FAILED, .err = &e};
    guard_init(&g, (mono_t){0});
    step(&g, &at_once, EMPTY, 0, &a);
    memset(e.text, 'x', sizeof e.text - 1);
    memcpy(e.text, "a\nb", 3);
    guard_step(&g, &at_once, &failed, (mono_t){1}, &a);
    assert_int_equal(strncmp(g.reason, "restore failed: a?bx", 20), 0);
    assert_string_equal(g.reason + strlen(g.reason) - 3, "...");
    step(&g, &at_once, EMPTY, 10000, &a);
    failed.err = NULL;
    guard_step(&g, &at_once, &failed, (mono_t){20000}, &a);
    assert_non_null(strstr(g.reason, "no reason given"));
    guard_step(&g, &at_once, &(struct guard_event){.type = GUARD_PROBED}, (mono_t){30000}, &a);
    assert_false(a.changed);
}

static void long_restore(void **state)
{
    (void)state;
    struct guard g;
    struct guard_answer a;
    char flag[128];
    guard_init(&g, (mono_t){0});
    step(&g, &usual, BY_HAND, 0, &a);
    guard_flag(&g, &usual, (mono_t){INT64_MAX}, flag);
    assert_int_equal(strlen(flag), 127);
    assert_string_equal(flag + 120, ".......");
}

static void state_names(void **state)
{
    (void)state;
    assert_string_equal(guard_state_name(UP), "UP");
    assert_string_equal(guard_state_name(STOPPED), "STOPPED");
    assert_string_equal(guard_state_name((enum guard_state)99), "?");
}

static void conditions_are_said_once(void **state)
{
    (void)state;
    enum { S = 1000, REPEAT = 60 * S };
    static const struct {
        bool was, on;
        const char *key;
        bool open;
        int64_t repeat, after;
        enum guard_alert_kind want;
    } lines[] = {
        {false, false, "", false, REPEAT, 0, GUARD_ALERT_NONE},
        {false, true, "disk", false, REPEAT, 0, GUARD_ALERT_NEW},
        {false, true, "disk", true, REPEAT, 0, GUARD_ALERT_NEW}, /* of an earlier supervisor */
        {true, true, "disk", true, REPEAT, REPEAT - 1, GUARD_ALERT_NONE},
        {true, true, "disk", true, REPEAT, REPEAT, GUARD_ALERT_REMINDER},
        {true, true, "disk", true, 0, 1000 * REPEAT, GUARD_ALERT_NONE},
        {true, true, "inodes", true, REPEAT, 0, GUARD_ALERT_NEW},
        {true, false, "", true, REPEAT, 0, GUARD_ALERT_RECOVERED},
        {true, false, "", false, 0, 0, GUARD_ALERT_RECOVERED},      /* its alert was not wanted */
        {false, false, "", true, REPEAT, 0, GUARD_ALERT_RECOVERED}, /* of an earlier supervisor */
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct condition c = {.on = lines[i].was, .key = "disk", .notified = {5 * S}};
        mono_t now = {5 * S + lines[i].after};
        assert_int_equal(
            condition_alert(&c, lines[i].on, lines[i].key, lines[i].open, lines[i].repeat, now),
            lines[i].want);
    }
}

/* An absence counts from its first moment, and each one anew. */
/* A refusal of our own has no number: its words tell it from another one, but not by the numbers
 * in them. */
static void failures_have_keys(void **state)
{
    (void)state;
    static const struct {
        enum err_class cls;
        int num;
        const char *text;
    } lines[] = {
        {ERR_REFUSED, 0, "schema w has no tables"},
        {ERR_REFUSED, 0, "a key of 70 bytes"},
        {ERR_REFUSED, 0, "a key of 71 bytes"},
        {ERR_REFUSED, 13, "a key of 70 bytes"},
        {ERR_UNREACHABLE, 2002, "no server since 2 s"},
        {ERR_UNREACHABLE, 2002, "no server since 1 min"},
    };
    char keys[sizeof lines / sizeof *lines][CONDITION_KEY];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct err e = {.cls = lines[i].cls, .num = lines[i].num};
        snprintf(e.text, sizeof e.text, "%s", lines[i].text);
        condition_key(keys[i], &e);
    }
    assert_string_not_equal(keys[0], keys[1]);
    assert_string_equal(keys[1], keys[2]);
    assert_string_not_equal(keys[2], keys[3]);
    assert_string_equal(keys[4], keys[5]);
}

static void condition_that_lasts(void **state)
{
    (void)state;
    mono_t since = {0};
    assert_false(condition_lasts(&since, false, 10000, (mono_t){5000}));
    assert_false(condition_lasts(&since, true, 10000, (mono_t){6000}));
    assert_false(condition_lasts(&since, true, 10000, (mono_t){15999}));
    assert_true(condition_lasts(&since, true, 10000, (mono_t){16000}));
    assert_true(condition_lasts(&since, true, 10000, (mono_t){90000}));
    assert_false(condition_lasts(&since, false, 10000, (mono_t){91000}));
    assert_int_equal(since.ms, 0);
    assert_false(condition_lasts(&since, true, 10000, (mono_t){92000}));
    assert_true(condition_lasts(&since, true, 0, (mono_t){92000}));
}

/* Without the lease nothing is up and nothing is restored, whatever is seen; with it the next
 * probe decides. */
static void without_the_lease(void **state)
{
    (void)state;
    static const struct guard_event not_yet = {.type = GUARD_FENCED},
                                    gone = {.type = GUARD_FENCED, .text = "it ended"},
                                    held = {.type = GUARD_UNFENCED};
    static const enum kit seen[] = {ALIVE, EMPTY,       EMPTY, EMPTY, DOUBT,
                                    ALIVE, UNREACHABLE, TICK,  ALIVE};
    struct guard g;
    struct guard_answer a;
    mono_t now = {1000};
    char flag[128];
    guard_init(&g, now);
    guard_step(&g, &usual, &not_yet, now, &a);
    assert_int_equal(a.alert, GUARD_ALERT_NONE);
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        step(&g, &usual, seen[i], now.ms += 1000, &a);
        guard_flag(&g, &usual, now, flag);
        assert_string_equal(flag, "WAITING");
        assert_int_equal(a.action, GUARD_NOTHING);
    }
    guard_step(&g, &usual, &held, now, &a);
    assert_int_equal(g.state, STARTING);
    step(&g, &usual, ALIVE, now.ms += 1000, &a);
    assert_int_equal(g.state, UP);

    guard_step(&g, &usual, &gone, now, &a);
    assert_int_equal(g.state, WAITING);
    assert_string_equal(g.reason, "it ended");
    assert_true(a.alert == GUARD_ALERT_NEW && a.alert_event == EVENT_STANDBY);
    step(&g, &usual, BY_HAND, now.ms += 1000, &a);
    assert_int_equal(a.action, GUARD_END_RESTORE);
    step(&g, &usual, FAILED, now.ms += 1000, &a);
    step(&g, &usual, ALIVE, now.ms += 1000, &a);
    assert_int_equal(g.state, WAITING);
    guard_step(&g, &usual, &held, now, &a);
    step(&g, &usual, ALIVE, now.ms += 1000, &a);
    assert_true(g.state == UP && a.alert == GUARD_ALERT_RECOVERED);

    /* A restore that runs is ended. If it had already swapped the tables, no alert says that the
     * world is up on this machine. */
    step(&g, &usual, BY_HAND, now.ms += 1000, &a);
    guard_step(&g, &usual, &gone, now, &a);
    assert_true(g.state == RESTORING && a.action == GUARD_END_RESTORE);
    step(&g, &usual, DONE, now.ms += 1000, &a);
    assert_int_equal(g.state, WAITING);
    assert_string_equal(g.reason, "it ended");
    assert_true(a.alert == GUARD_ALERT_NEW && a.alert_event == EVENT_STANDBY);
    guard_step(&g, &usual, &held, now, &a);
    step(&g, &usual, ALIVE, now.ms += 1000, &a);

    /* In a pause: somebody hears of it when the pause is over. */
    step(&g, &usual, PAUSE, now.ms += 1000, &a);
    guard_step(&g, &usual, &gone, now, &a);
    assert_true(g.state == PAUSED && a.alert == GUARD_ALERT_NONE);
    step(&g, &usual, RESUME, now.ms += 1000, &a);
    step(&g, &usual, ALIVE, now.ms += 1000, &a);
    assert_int_equal(g.state, WAITING);
    assert_string_equal(g.reason, "it ended");
    assert_true(a.alert == GUARD_ALERT_NEW && a.alert_event == EVENT_STANDBY);
    step(&g, &usual, ALIVE, now.ms += 1000, &a);
    assert_true(a.alert == GUARD_ALERT_NONE && !a.renewed);

    /* A promotion that is refused has opened the fence and closes it again: it is not ended, so
     * its own reason is reported. */
    static const struct guard_event standby = {.type = GUARD_ROLE, .standby = true};
    guard_step(&g, &usual, &standby, now, &a);
    assert_int_equal(g.state, GUARD_STANDBY);
    step(&g, &usual, BY_HAND, now.ms += 1000, &a);
    guard_step(&g, &usual, &held, now, &a);
    guard_step(&g, &usual, &gone, now, &a);
    assert_true(g.state == RESTORING && a.action == GUARD_NOTHING);
    step(&g, &usual, FAILED, now.ms += 1000, &a);
    assert_int_equal(g.state, GUARD_STANDBY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table),
        cmocka_unit_test(the_table_is_whole),
        cmocka_unit_test(killed_and_back),
        cmocka_unit_test(restored_while_nobody_watched),
        cmocka_unit_test(another_restart_is_looked_at_anew),
        cmocka_unit_test(any_other_verdict_counts_anew),
        cmocka_unit_test(one_look_may_be_enough),
        cmocka_unit_test(doubt_counts_anew),
        cmocka_unit_test(failures_wait_longer_and_longer),
        cmocka_unit_test(somebody_mended_it_by_hand),
        cmocka_unit_test(no_progress_same_dump_then_older),
        cmocka_unit_test(by_hand_over_a_living_world),
        cmocka_unit_test(by_hand_out_of_trouble),
        cmocka_unit_test(nobody_wants_it_any_more),
        cmocka_unit_test(paused),
        cmocka_unit_test(a_pause_ends_the_wait),
        cmocka_unit_test(by_hand_in_a_pause),
        cmocka_unit_test(a_pause_and_the_wall_clock),
        cmocka_unit_test(reminders),
        cmocka_unit_test(told_once),
        cmocka_unit_test(short_stalls_are_nobodys_business),
        cmocka_unit_test(somebody_deleted_the_row),
        cmocka_unit_test(another_server),
        cmocka_unit_test(restore_by_hand_only),
        cmocka_unit_test(schema_gone),
        cmocka_unit_test(stopped_says_waiting),
        cmocka_unit_test(next_probe),
        cmocka_unit_test(outages),
        cmocka_unit_test(unverified),
        cmocka_unit_test(renewed),
        cmocka_unit_test(texts_of_others),
        cmocka_unit_test(long_restore),
        cmocka_unit_test(state_names),
        cmocka_unit_test(conditions_are_said_once),
        cmocka_unit_test(failures_have_keys),
        cmocka_unit_test(condition_that_lasts),
        cmocka_unit_test(without_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
