/* Events for the tests of the guard, each with a short name, and its answers as words. */
#ifndef WK_TESTS_GUARD_KIT_H
#define WK_TESTS_GUARD_KIT_H

#include <stdio.h>

#include "config/config.h"
#include "watch/guard.h"

enum kit {
    ALIVE,
    EMPTY,       /* after a restart */
    EMPTY_LATER, /* after one more restart */
    ELSEWHERE,   /* EMPTY on another server */
    DELETED,     /* EMPTY without a restart */
    MISSING,     /* other tables hold rows */
    DROPPED,     /* MISSING, nothing holds rows, same process */
    REBUILT,     /* MISSING, nothing holds rows, another process */
    FOREIGN,
    UNREACHABLE,
    DYING, /* UNREACHABLE in other words */
    STALLED,
    DENIED,
    FULL, /* DENIED in other words */
    TICK,
    STARTED,
    BY_HAND, /* STARTED on somebody's wish */
    DONE,
    FAILED,
    NO_DUMP, /* FAILED in other words */
    NO_PROGRESS,
    PAUSE,
    PAUSE_5S,
    RESUME,
    DOUBT,
    STOP,
    STAND_BY,
    PRIMARY,
    KITS
};
#define KIT_PROBES ((int)TICK) /* the ones before it are probes */

static const struct {
    const char *name;
    struct judgement judgement;
} kit_probes[] = {
    [ALIVE] = {"ALIVE", {VERDICT_ALIVE, false, true, false, 10, "sentinel there"}},
    [EMPTY] = {"EMPTY", {VERDICT_EMPTY, true, true, false, 20, "sentinel empty"}},
    [EMPTY_LATER] = {"EMPTY_LATER", {VERDICT_EMPTY, true, true, false, 30, "sentinel empty"}},
    [ELSEWHERE] = {"ELSEWHERE", {VERDICT_EMPTY, true, false, false, 40, "another server"}},
    [DELETED] = {"DELETED", {VERDICT_EMPTY, false, true, false, 10, "row deleted"}},
    [MISSING] = {"MISSING", {VERDICT_MISSING, true, true, false, 20, "table not there"}},
    [DROPPED] = {"DROPPED", {VERDICT_MISSING, false, true, true, 10, "schema not there"}},
    [REBUILT] = {"REBUILT", {VERDICT_MISSING, true, true, true, 20, "schema not there"}},
    [FOREIGN] = {"FOREIGN", {VERDICT_FOREIGN, false, true, false, 10, "not ours"}},
    [UNREACHABLE] = {"UNREACHABLE", {VERDICT_UNREACHABLE, false, true, false, 0, "no connection"}},
    [DYING] = {"DYING", {VERDICT_UNREACHABLE, false, true, false, 0, "lost in the middle"}},
    [STALLED] = {"STALLED", {VERDICT_STALLED, false, true, false, 0, "no answer in time"}},
    [DENIED] = {"DENIED", {VERDICT_DENIED, false, true, false, 0, "access denied"}},
    [FULL] = {"FULL", {VERDICT_DENIED, false, true, false, 0, "too many connections"}},
};

static const struct err kit_failed = {.cls = ERR_QUERY, .num = 1114, .text = "table is full"};
static const struct err kit_no_dump = {.cls = ERR_NOTHING, .text = "no intact dump"};

static const struct {
    const char *name;
    struct guard_event event;
} kit_events[] = {
    [TICK] = {"TICK", {.type = GUARD_TICK}},
    [STARTED] = {"STARTED", {.type = GUARD_RESTORE_STARTED}},
    [BY_HAND] = {"BY_HAND", {.type = GUARD_RESTORE_STARTED, .by_hand = true, .text = "dump 7"}},
    [DONE] = {"DONE", {.type = GUARD_RESTORE_OK, .text = "dump 7, 50000 rows"}},
    [FAILED] = {"FAILED", {.type = GUARD_RESTORE_FAILED, .err = &kit_failed}},
    [NO_DUMP] = {"NO_DUMP", {.type = GUARD_RESTORE_FAILED, .err = &kit_no_dump}},
    [NO_PROGRESS] = {"NO_PROGRESS", {.type = GUARD_RESTORE_STALLED}},
    [PAUSE] = {"PAUSE", {.type = GUARD_PAUSE}},
    [PAUSE_5S] = {"PAUSE_5S", {.type = GUARD_PAUSE, .pause_ms = 5000}},
    [RESUME] = {"RESUME", {.type = GUARD_RESUME}},
    [DOUBT] = {"DOUBT", {.type = GUARD_DOUBT, .text = "tick 9 s late"}},
    [STOP] = {"STOP", {.type = GUARD_STOP}},
    [STAND_BY] = {"STAND_BY", {.type = GUARD_ROLE, .standby = true, .text = "another keeps it"}},
    [PRIMARY] = {"PRIMARY", {.type = GUARD_ROLE, .text = "kept here"}},
};

static inline const char *kit_name(enum kit k)
{
    return (int)k < KIT_PROBES ? kit_probes[k].name : kit_events[k].name;
}

static inline struct guard_event kit_event(enum kit k)
{
    if ((int)k < KIT_PROBES)
        return (struct guard_event){.type = GUARD_PROBED, .judgement = &kit_probes[k].judgement};
    return kit_events[k].event;
}

static inline const char *kit_alert_event(unsigned event)
{
    return event == EVENT_DOWN        ? "down"
           : event == EVENT_RESTORING ? "restoring"
           : event == EVENT_RESTORED  ? "restored"
           : event == EVENT_WAITING   ? "waiting"
           : event == EVENT_SENTINEL  ? "sentinel"
                                      : "?";
}

/* "", "START", "END", and "new down", "again down", "recovered down" ... */
static inline const char *kit_answer(const struct guard_answer *a, char out[64])
{
    static const char *const actions[] = {"", "START", "END"};
    static const char *const kinds[] = {"", "new ", "again ", "recovered "};
    snprintf(out, 64, "%s%s%s%s", actions[a->action], a->action && a->alert ? ", " : "",
             kinds[a->alert], a->alert ? kit_alert_event(a->alert_event) : "");
    return out;
}

#endif
