/* The state machine that decides what to do: a pure function of (state, event, monotonic time). It
 * reads no clock, file or database; world_event() of the supervisor carries out its answer.
 *
 *     STARTING ---ALIVE---> UP <=======> SUSPECT      no answer, access denied, another nonce,
 *         |                 |               |         the sentinel row deleted
 *         +--------+--------+-------+-------+
 *                  |                |
 *                  |                +---> WAITING     no server; no sentinel table; nothing to
 *                  |                       |    ^     restore; a restore failed
 *   EMPTY, seen    |       again, after    |    |
 *   `confirm` times|       growing waits   |    | failed
 *   on a restarted v                       v    |
 *   server        LOST ---------------> RESTORING ---done---> UP
 *
 * Without the lease of a world that has one (GUARD_FENCED) the state is WAITING, whatever is seen,
 * or PAUSED, or a RESTORING that is being ended; it is left for STARTING (GUARD_UNFENCED).
 *
 * STANDBY is the state of a machine that another one keeps the world for (GUARD_ROLE); it is left
 * for RESTORING, by a promotion, or for STARTING. PAUSED is entered on request, from any state but
 * LOST, RESTORING and STANDBY, and is left for STARTING. A restore by hand may start in any state;
 * if it fails, STARTING follows (the next probe decides), PAUSED if it began there, or WAITING if
 * it began in trouble.
 *
 * What is true in each state (asserted by guard_check):
 *   UP         the last verdict was ALIVE, or a restore just swapped the world in; no restore runs,
 *              no trouble is open
 *   LOST       loss is proven: `confirm` probes in a row, all after the last doubt, saw the same
 *              restarted process without our row; lasts only until the restore worker runs
 *   RESTORING  a restore worker runs (automatic or by hand)
 *   PAUSED     nothing starts automatically, no alert is made
 *   STANDBY    the same; the world is another machine's
 *
 * The caller's obligations: GUARD_START_RESTORE is returned once per stay in LOST, and is void if
 * the state leaves LOST before the worker runs (a worker that starts all the same is ended again).
 * The result of a probe that began before a restore ended must not be fed after that end. Time
 * never goes back. */
#ifndef WK_WATCH_GUARD_H
#define WK_WATCH_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/line.h"
#include "watch/expect.h"

enum guard_state {
    GUARD_STARTING, /* nothing is known yet */
    GUARD_UP,       /* the world is there */
    GUARD_SUSPECT,  /* the world may be gone, or cannot be judged */
    GUARD_LOST,     /* loss is proven; the restore is about to begin */
    GUARD_RESTORING,
    GUARD_WAITING, /* waits for the server, an operator or the next retry */
    GUARD_PAUSED,  /* paused on request */
    GUARD_STANDBY, /* another machine keeps the world */
    GUARD_STOPPED, /* this supervisor is exiting */
};
const char *guard_state_name(enum guard_state s); /* "UP" … */

/* Why the guard is in its state. One state may have several causes; each is alerted on its own. */
enum guard_cause {
    CAUSE_START,       /* no probe yet */
    CAUSE_ALIVE,       /* a probe saw our row */
    CAUSE_RESTORED,    /* a restore was just swapped in */
    CAUSE_UNREACHABLE, /* no server */
    CAUSE_STALLED,     /* it does not answer in time */
    CAUSE_DENIED,      /* it refuses us */
    CAUSE_FOREIGN,     /* another row than ours */
    CAUSE_MISSING,     /* no sentinel table */
    CAUSE_DELETED,     /* EMPTY without a restart: the row was deleted */
    CAUSE_UNCONFIRMED, /* EMPTY after a restart, not seen often enough */
    CAUSE_ELSEWHERE,   /* loss proven, but on another server than before */
    CAUSE_MANUAL,      /* loss proven, but [restore] auto = no */
    CAUSE_BACKOFF,     /* loss proven, but too soon after a failed restore */
    CAUSE_LOSS,        /* loss proven, restore requested */
    CAUSE_RESTORE,     /* a restore runs */
    CAUSE_WITHDRAWN,   /* a restore that is no longer wanted is being ended */
    CAUSE_FAILED,      /* a restore failed */
    CAUSE_DOUBT,       /* about our own clock: see GUARD_DOUBT */
    CAUSE_PAUSE,       /* requested */
    CAUSE_RESUME,      /* the pause is over */
    CAUSE_STANDBY,     /* the role of this machine */
    CAUSE_LEASE,       /* another machine may have the world: see GUARD_FENCED */
    CAUSE_STOP,        /* SIGTERM */
};

enum guard_event_type {
    GUARD_PROBED,          /* judgement */
    GUARD_TICK,            /* time passed; at least once a second */
    GUARD_RESTORE_STARTED, /* the worker runs (by_hand: a user asked for it); text: which dump, or
                              NULL */
    GUARD_RESTORE_OK,      /* text: what was restored, or NULL */
    GUARD_RESTORE_FAILED,  /* err; the worker is gone, or could not be started (in LOST) */
    GUARD_RESTORE_STALLED, /* no progress for restore_stall; the worker is being killed */
    GUARD_PAUSE,  /* pause_ms, 0: until resumed. Granted if the state is PAUSED afterwards */
    GUARD_RESUME, /* ends the pause, or the one that follows a restore by hand */
    GUARD_DOUBT,  /* a tick came much too late, or wall and monotonic clock disagree: text */
    GUARD_STOP,   /* SIGTERM */
    GUARD_ROLE,   /* standby: another machine keeps the world, or no longer does; text */
    /* this machine may not act: text gives the reason; NULL: not yet, without an alert */
    GUARD_FENCED,
    GUARD_UNFENCED, /* this machine may act: text */
};

struct guard_event {
    enum guard_event_type type;
    const struct judgement *judgement;
    const struct err *err;
    const char *text;
    int64_t pause_ms;
    /* the pause ends at a wall-clock time, also if the clock is set meanwhile */
    bool pause_by_wall;
    int64_t clock_set; /* GUARD_DOUBT: ms by which the wall clock was set forward */
    bool by_hand;
    bool standby;
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
    bool changed; /* the state changed: log `from` and the guard's reason */
    bool renewed; /* the same state for another reason: logged as well */
    enum guard_state from;
    enum guard_action action;
    enum guard_alert_kind alert;
    unsigned alert_event; /* one EVENT_ bit of config.h */
};

/* Number of alerted troubles that are remembered; with more, the oldest may be alerted again. */
#define GUARD_KNOWN 16

struct guard {
    enum guard_state state;
    enum guard_cause cause;
    mono_t since;
    char reason[LINE];    /* why this state, one line */
    enum verdict verdict; /* of the last probe */
    /* consecutive EMPTY (proven by a restart), or MISSING that counts as loss, of one process; the
     * two are never added up */
    unsigned empties;
    int64_t empties_start; /* start time of that process */
    /* Of these: on another server than before; the world's tables do not even exist. */
    bool loss_elsewhere, loss_missing;
    unsigned deleted;   /* consecutive EMPTY without a restart */
    unsigned fresh;     /* probes since the last doubt: action needs at least `confirm` */
    unsigned failures;  /* consecutive failed restores */
    int64_t retry_wait; /* ms after the last failed restore, unless it stalled */
    /* consecutive stalled automatic restores: after 1 the same dump again, then an older one each
     * time */
    unsigned stalls;
    mono_t retry_at;      /* no automatic restore before this time */
    mono_t pause_until;   /* ms 0: not limited */
    bool pause_by_wall;   /* pause_until moves with the wall clock */
    mono_t stalled_since; /* time of the first of consecutive STALLED verdicts (CAUSE_STALLED) */
    bool from_up;         /* SUSPECT was entered from UP */
    bool hurry;           /* a loss or the server's return may be near: probe faster */
    bool by_hand;         /* RESTORING: a user asked for it */
    bool stalling;        /* RESTORING: the worker is being killed for lack of progress */
    enum guard_state
        after; /* RESTORING: the state after a failure: WAITING, STARTING, PAUSED or STANDBY */
    mono_t alerted_at;           /* last alert or reminder of the current trouble */
    unsigned alerted;            /* EVENT_ bit of the current trouble's alert, 0: none */
    uint64_t known[GUARD_KNOWN]; /* ring of the hashes of troubles alerted since the last UP */
    unsigned known_count;
    bool rows_there;     /* CAUSE_MISSING: the server was not restarted, and tables hold rows */
    bool fenced;         /* see GUARD_FENCED */
    char no_lease[LINE]; /* its text; "": not asked yet */
    bool down_since_set;
    mono_t down_since; /* when the world left UP in trouble, since this supervisor started */
};

void guard_init(struct guard *g, mono_t now);
void guard_step(struct guard *g, const struct guard_config *c, const struct guard_event *ev,
                mono_t now, struct guard_answer *out);
/* Returns true if the server answers, and nothing proves that the world is gone: the account is
 * refused, or the sentinel was deleted or changed. It is then unknown whether the world is up; the
 * game may continue normally. */
bool guard_unverified(const struct guard *g);
/* Returns true during a requested pause, which a restore by hand only interrupts. */
bool guard_paused(const struct guard *g);
/* Returns true if a reminder is due, `repeat` ms after the last alert; 0: no reminders. */
bool guard_reminds(int64_t repeat, mono_t alerted_at, mono_t now);
/* Returns how many of the newest intact dumps the next automatic restore skips because of stalls.
 * After any other failure, for instance if there are not that many dumps, it starts again at the
 * newest. */
unsigned guard_skip(const struct guard *g);
/* Writes the word for the flag file: "UP", "WAITING", or "RESTORING" with a dot per started
 * minute. */
void guard_flag(const struct guard *g, const struct guard_config *c, mono_t now, char out[128]);
/* Returns when the next probe is due after the one that ended at `now`: after the configured
 * interval normally, after at most 250 ms while a loss may be near (UNREACHABLE, EMPTY not yet
 * confirmed), so that a returning server is noticed within two seconds. */
mono_t guard_next_probe(const struct guard *g, int64_t interval, mono_t now);
/* Asserts the invariants above at the end of each guard_step(). Does nothing with NDEBUG. */
void guard_check(const struct guard *g);

#endif
