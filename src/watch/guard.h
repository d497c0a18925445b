/* The decision: one pure function of (state, event, monotonic time). It reads no clock, file or
 * database; world.c carries out what it answers.
 *
 *   STARTING --ALIVE--> UP <==> SUSPECT        (doubt: stalled, denied, foreign, sentinel row
 * deleted) |         |
 *                        +---+-----+--> WAITING (server not there; missing; nothing to restore;
 * failed) EMPTY `confirm` times|               | and server restarted v               v retried,
 * with growing waits after a failure LOST --> RESTORING --> UP | WAITING PAUSED on request, from
 * any state but LOST and RESTORING; its end goes to STARTING. A restore by hand may start in any
 * state; where it fails it gives the state back to the next probe (STARTING), or to PAUSED, and
 * only out of trouble goes to WAITING.
 *
 * What is true in each state (asserted by guard_check):
 *   UP         the last verdict was ALIVE, or a restore just swapped the world in; no restore runs,
 *              no trouble is open
 *   LOST       loss is proven: `confirm` probes in a row, none older than the last doubt, saw the
 * same restarted process without our row; lasts only until the restore worker runs RESTORING  a
 * restore worker runs (automatic or by hand) PAUSED     nothing is started by ourselves, no alert
 * is made
 *
 * What the caller owes: GUARD_START_RESTORE is asked for once per stay in LOST, and is void when
 * the state leaves LOST before the worker runs (a worker that starts all the same is ended again).
 * A probe that began before a restore ended must not be fed after it. Time never goes back. */
#ifndef WK_WATCH_GUARD_H
#define WK_WATCH_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "watch/expect.h"

enum guard_state {
    GUARD_STARTING,
    GUARD_UP,
    GUARD_SUSPECT,
    GUARD_LOST,
    GUARD_RESTORING,
    GUARD_WAITING,
    GUARD_PAUSED,
    GUARD_STOPPED,
};
const char *guard_state_name(enum guard_state s); /* "UP" … */

/* Why the guard is in its state: one state may have several reasons, and each is a trouble of its
 * own to people. */
enum guard_cause {
    CAUSE_START,
    CAUSE_ALIVE,
    CAUSE_RESTORED,
    CAUSE_UNREACHABLE,
    CAUSE_STALLED,
    CAUSE_DENIED,
    CAUSE_FOREIGN,
    CAUSE_MISSING,
    CAUSE_DELETED,     /* EMPTY, no restart: somebody deleted the row */
    CAUSE_UNCONFIRMED, /* EMPTY after a restart, not seen often enough */
    CAUSE_ELSEWHERE,   /* loss proven, but on another server than before */
    CAUSE_MANUAL,      /* loss proven, but [restore] auto = no */
    CAUSE_BACKOFF,     /* loss proven, but too soon after a failed restore */
    CAUSE_LOSS,        /* loss proven, restore asked for */
    CAUSE_RESTORE,     /* a restore runs */
    CAUSE_WITHDRAWN,   /* a restore runs that nobody wants any more: it is being ended */
    CAUSE_FAILED,      /* a restore failed */
    CAUSE_DOUBT,       /* about ourselves */
    CAUSE_PAUSE,
    CAUSE_RESUME,
    CAUSE_STOP,
};

enum guard_event_type {
    GUARD_PROBED,          /* judgement */
    GUARD_TICK,            /* time passed; at least once a second */
    GUARD_RESTORE_STARTED, /* the worker runs (by_hand tells whose wish it was); text: which dump,
                              or NULL */
    GUARD_RESTORE_OK,      /* text: what was restored, or NULL */
    GUARD_RESTORE_FAILED,  /* err; the worker is gone, or could not be started (in LOST) */
    GUARD_RESTORE_STALLED, /* no progress for restore_stall; the worker is being killed */
    GUARD_PAUSE, /* pause_ms, 0: until resumed. Granted when the state is PAUSED afterwards */
    GUARD_RESUME,
    GUARD_DOUBT, /* a tick much too late, or wall and monotonic clock disagree: text */
    GUARD_STOP,  /* SIGTERM */
};

struct guard_event {
    enum guard_event_type type;
    const struct judgement *judgement;
    const struct err *err;
    const char *text;
    int64_t pause_ms;
    bool by_hand;
};

struct guard_config {
    unsigned confirm; /* 0 counts as 1 */
    bool restore_auto, restore_new_server;
    int64_t alert_repeat;  /* ms; 0: no reminders */
    int64_t suspect_grace; /* ms a STALLED may last before the alert and before the flag shows
                              WAITING */
    int64_t retry_first, retry_max; /* waits after a failed restore: first, doubled, at most max */
};

enum guard_action {
    GUARD_NOTHING,
    GUARD_START_RESTORE,
    GUARD_END_RESTORE, /* kill the worker (stall, or no longer wanted) */
};

enum guard_alert_kind {
    GUARD_ALERT_NONE,
    GUARD_ALERT_NEW,
    GUARD_ALERT_REMINDER,
    GUARD_ALERT_RECOVERED,
};

struct guard_answer {
    bool changed; /* the state changed; from, reason tell the log line */
    bool renewed; /* the state stays, but for another reason now: worth a log line too */
    enum guard_state from;
    enum guard_action action;
    enum guard_alert_kind alert;
    unsigned alert_event; /* one EVENT_ bit of config.h */
    int64_t outage_ms;    /* when UP was just reached: since it was left in trouble; else, and where
                           * this supervisor has not seen it leave, -1 */
};

/* Troubles remembered as told; with more of them open the oldest may be told again. */
#define GUARD_TOLD 16

struct guard {
    enum guard_state state;
    enum guard_cause cause;
    mono_t since;
    char reason[640];     /* why this state, one line */
    enum verdict verdict; /* last */
    unsigned empties; /* EMPTY (proven by a restart) in a row, of one process; MISSING that counts
                       * as loss counts here too, but not mixed */
    int64_t empties_start; /* start time of that process */
    unsigned deleted;      /* EMPTY without a restart, in a row */
    unsigned fresh;        /* probes since the last doubt: action needs at least `confirm` */
    unsigned failures;     /* restores failed in a row */
    unsigned stalls;    /* automatic restores stalled in a row: 1 = same dump again, then one older
                           each time */
    mono_t retry_at;    /* no automatic restore before */
    mono_t pause_until; /* ms 0: not limited */
    mono_t stalled_since;   /* first of the STALLED verdicts in a row (CAUSE_STALLED) */
    bool from_up;           /* SUSPECT: came from UP */
    bool hurry;             /* a loss or a return may be near: probe faster */
    bool by_hand;           /* RESTORING: somebody asked for it */
    bool stalling;          /* RESTORING: the worker is being killed for lack of progress */
    bool stopped_up;        /* STOPPED: the flag said UP before */
    enum guard_state after; /* RESTORING: where a failure leads: WAITING, STARTING or PAUSED */
    mono_t alerted_at;      /* last alert or reminder of the present trouble */
    unsigned alerted;       /* EVENT_ bit of the present trouble that was told to people, 0: none */
    char alerted_text[640]; /* its reason; stays after the recovery, for the words of that */
    uint64_t told[GUARD_TOLD]; /* what was told since the last UP, a ring of hashes */
    unsigned told_count;
    bool down_since_set;
    mono_t down_since; /* when the world left UP in trouble; for the outage figure */
};

void guard_init(struct guard *g, mono_t now);
void guard_step(struct guard *g, const struct guard_config *c, const struct guard_event *ev,
                mono_t now, struct guard_answer *out);
/* How many of the newest intact dumps the next automatic restore skips (because of stalls). A
 * restore that failed in another way, for lack of so many dumps too, starts again at the newest. */
unsigned guard_skip(const struct guard *g);
/* The word for the flag file: "UP", "WAITING", or "RESTORING" with a dot per started minute. */
void guard_flag(const struct guard *g, const struct guard_config *c, mono_t now, char out[128]);
/* When the next probe is due after the one that ended at `now`: the configured interval while all
 * is well, at most a quarter of a second while a loss may be near (UNREACHABLE, EMPTY not yet
 * confirmed), so that a server that is back is noticed within two seconds. */
mono_t guard_next_probe(const struct guard *g, int64_t interval, mono_t now);
/* Asserts what is said above; each guard_step() ends with it. Nothing with NDEBUG. */
void guard_check(const struct guard *g);

#endif
