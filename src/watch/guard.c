#include "watch/guard.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/line.h"
#include "base/text.h"
#include "config/config.h"

/* An event goes to its handler (guard_step()). Handlers change the state only by guard_become(),
 * and return at most one action and one alert. Their order here: probes, restores, all others. */

/* So that a returning server is noticed within two seconds. */
#define HURRY_MS 250 /* between probes while g->hurry */
#define MINUTE_MS 60000
#define FENCED_TEXT "this machine may not keep the world"

/* Arguments of one guard_step(). */
struct step {
    struct guard *g;
    const struct guard_config *c;
    mono_t now;
    struct guard_answer *out;
};

const char *guard_state_name(enum guard_state s)
{
    static const char *const names[] = {
        [GUARD_STARTING] = "STARTING",   [GUARD_UP] = "UP",
        [GUARD_SUSPECT] = "SUSPECT",     [GUARD_LOST] = "LOST",
        [GUARD_RESTORING] = "RESTORING", [GUARD_WAITING] = "WAITING",
        [GUARD_PAUSED] = "PAUSED",       [GUARD_STANDBY] = "STANDBY",
        [GUARD_STOPPED] = "STOPPED",
    };
    return (size_t)s < sizeof names / sizeof *names ? names[s] : "?";
}

void guard_init(struct guard *g, mono_t now)
{
    *g = (struct guard){.state = GUARD_STARTING, .cause = CAUSE_START, .since = now};
    line_set(g->reason, sizeof g->reason, "no probe yet");
}

/* ---- the state and its reason ---- */

/* Sets the state; no other function writes it. With the same state, only the reason changes. */
static void guard_become(struct step *s, enum guard_state state, enum guard_cause cause,
                         const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void guard_become(struct step *s, enum guard_state state, enum guard_cause cause,
                         const char *fmt, ...)
{
    struct guard *g = s->g;
    SCOPED(buf_free) struct buf raw = {0}, line = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&raw, fmt, ap);
    va_end(ap);
    text_clean(&line, raw.p, sizeof g->reason - sizeof "...");
    g->cause = cause;
    if (state != g->state) {
        assert(!s->out->changed); /* one change per step: the log has one line for it */
        s->out->changed = true;
        /* Measures outages. Pauses, stops and restores of a living world are planned, so they do
         * not count; neither does a time in which nothing proves that the world is gone. */
        bool planned = state == GUARD_PAUSED || state == GUARD_STANDBY || state == GUARD_STOPPED ||
                       state == GUARD_RESTORING;
        bool was_up = g->state == GUARD_UP;
        g->from_up = was_up && state == GUARD_SUSPECT;
        g->state = state;
        g->since = s->now;
        if (was_up && !planned && !guard_unverified(g)) {
            g->down_since_set = true;
            g->down_since = s->now;
        }
        if (state == GUARD_UP)
            g->down_since_set = false;
    }
    s->out->renewed = !s->out->changed && strcmp(g->reason, line.p) != 0;
    line_set(g->reason, sizeof g->reason, "%s", line.p);
}

/* ---- alerts ---- */

/* Returns true in states in which a verdict is only shown, and decides nothing. */
static bool guard_only_shows(const struct guard *g)
{
    return g->state == GUARD_RESTORING || g->state == GUARD_PAUSED || g->state == GUARD_STANDBY ||
           g->state == GUARD_STOPPED;
}

/* Returns true during planned work: a pause, and restores by hand during it. */
static bool guard_quiet(const struct guard *g)
{
    return g->state == GUARD_PAUSED || g->state == GUARD_STANDBY || g->state == GUARD_STOPPED ||
           (g->state == GUARD_RESTORING && g->after == GUARD_PAUSED);
}

/* Alerts the current trouble unless that was done since the last UP: a server that dies, hangs, and
 * dies again is one incident. `words` distinguish troubles with the same cause; "" for an
 * unreachable server. */
static void alert_trouble(struct step *s, unsigned event, const char *words)
{
    struct guard *g = s->g;
    unsigned char cause = (unsigned char)g->cause;
    uint64_t id = text_hash(text_hash(TEXT_HASH, &cause, 1), words, strlen(words));
    if (guard_quiet(g))
        return;
    g->alerted = event;
    for (unsigned i = 0; i < g->known_count && i < GUARD_KNOWN; i++)
        if (g->known[i] == id)
            return;
    g->known[g->known_count % GUARD_KNOWN] = id;
    /* Stays correct modulo the ring's size, without overflow, and never drops below "full". */
    g->known_count = g->known_count + 1 < 2 * GUARD_KNOWN ? g->known_count + 1 : GUARD_KNOWN;
    g->alerted_at = s->now;
    s->out->alert = GUARD_ALERT_NEW;
    s->out->alert_event = event;
}

/* ---- counters ---- */

/* Returns how many consecutive probes prove a loss. One probe may see a server at an odd moment;
 * several of the same process do not. */
static unsigned guard_needed(const struct step *s)
{
    return s->c->confirm ? s->c->confirm : 1;
}

/* Stops at the maximum instead of overflowing, in an outage of years. */
static void count_up(unsigned *n)
{
    if (*n < UINT_MAX)
        (*n)++;
}

static void forget_emptiness(struct guard *g)
{
    g->empties = 0;
    g->deleted = 0;
}

/* Resets the failures, so that the next one has the shortest wait. */
static void forget_restores(struct guard *g)
{
    g->failures = 0;
    g->retry_wait = 0;
    g->stalls = 0;
    g->retry_at = (mono_t){0};
}

static void forget_trouble(struct guard *g)
{
    forget_emptiness(g);
    forget_restores(g);
    g->alerted = 0;
    g->known_count = 0;
}

/* Returns true if this probe is evidence of a loss that may be restored. */
static bool is_loss(const struct step *s, const struct judgement *j)
{
    if (j->verdict == VERDICT_EMPTY)
        return j->restarted;
    return j->verdict == VERDICT_MISSING && j->restarted && j->rebuilt && s->c->restore_auto &&
           s->c->restore_new_server;
}

/* Counts each verdict once, before any decision, whatever follows from it. */
static void guard_count(struct step *s, const struct judgement *j, enum verdict before)
{
    struct guard *g = s->g;
    count_up(&g->fresh);
    bool loss = is_loss(s, j);
    /* Probes confirm each other only for the same process, so another restart resets the count. */
    if (!loss || j->verdict != before || j->start != g->empties_start)
        g->empties = 0;
    if (loss) {
        count_up(&g->empties);
        g->empties_start = j->start;
        g->loss_elsewhere = !j->same_place;
        g->loss_missing = j->verdict == VERDICT_MISSING;
    }
    if (j->verdict == VERDICT_EMPTY && !j->restarted)
        count_up(&g->deleted);
    else
        g->deleted = 0;
}

/* ---- verdicts ---- */

static void on_alive(struct step *s, const struct judgement *j)
{
    struct guard *g = s->g;
    if (g->state == GUARD_UP) {
        if (g->cause == CAUSE_DOUBT && g->fresh >= guard_needed(s)) /* the doubt is over */
            guard_become(s, GUARD_UP, CAUSE_ALIVE, "%s", j->text);
        return;
    }
    guard_become(s, GUARD_UP, CAUSE_ALIVE, "%s", j->text);
    if (g->alerted) {
        s->out->alert = GUARD_ALERT_RECOVERED;
        s->out->alert_event = g->alerted;
    }
    forget_trouble(g);
}

/* Returns true in WAITING after a failed restore, which stays the reason until the next attempt. */
static bool backing_off(const struct step *s)
{
    const struct guard *g = s->g;
    return g->state == GUARD_WAITING && (g->cause == CAUSE_FAILED || g->cause == CAUSE_BACKOFF) &&
           !mono_reached(s->now, g->retry_at);
}

/* Handles a proven loss: restores, unless there is a reason against it. */
static void on_loss(struct step *s, const struct judgement *j)
{
    struct guard *g = s->g;
    char left[TEXT_SHORT];
    if (backing_off(s))
        return;
    if (!j->same_place && !s->c->restore_new_server) {
        guard_become(
            s, GUARD_WAITING, CAUSE_ELSEWHERE,
            "%s; restored there only on request ([restore] new_server = yes, or --restore)",
            j->text);
        alert_trouble(s, EVENT_SENTINEL, "");
    } else if (!s->c->restore_auto) {
        guard_become(s, GUARD_WAITING, CAUSE_MANUAL,
                     "%s; [restore] auto = no, so an admin must run --restore", j->text);
        alert_trouble(s, EVENT_WAITING, "");
    } else if (!mono_reached(s->now, g->retry_at)) {
        guard_become(s, GUARD_WAITING, CAUSE_BACKOFF, "%s; restores failed: %u, next try in %s",
                     j->text, g->failures, text_duration(mono_since(g->retry_at, s->now), left));
    } else if (g->state != GUARD_LOST) { /* request it only once */
        guard_become(s, GUARD_LOST, CAUSE_LOSS, "%s; seen %u times", j->text, g->empties);
        s->out->action = GUARD_START_RESTORE;
    }
}

static void on_empty(struct step *s, const struct judgement *j)
{
    struct guard *g = s->g;
    if (!j->restarted) {
        guard_become(s, GUARD_SUSPECT, CAUSE_DELETED, "%s", j->text);
        if (g->deleted >= guard_needed(s))
            alert_trouble(s, EVENT_SENTINEL, "");
    } else if (g->empties >= guard_needed(s) && g->fresh >= guard_needed(s)) {
        on_loss(s, j);
    } else if (!backing_off(s)) {
        guard_become(s, g->state == GUARD_WAITING ? GUARD_WAITING : GUARD_SUSPECT,
                     CAUSE_UNCONFIRMED, "%s; seen %u of %u times", j->text, g->empties,
                     guard_needed(s));
    }
}

/* Handles MISSING, which counts as a loss only if is_loss() is true; otherwise nothing is done
 * until it ends. */
static void on_missing(struct step *s, const struct judgement *j)
{
    struct guard *g = s->g;
    if (g->empties >= guard_needed(s) && g->fresh >= guard_needed(s)) {
        on_loss(s, j);
    } else if (g->empties == 0 || !backing_off(s)) {
        g->rows_there = !j->restarted && !j->rebuilt;
        guard_become(s, GUARD_WAITING, CAUSE_MISSING, "%s", j->text);
        alert_trouble(s, EVENT_SENTINEL, g->reason);
    }
}

/* Delays the alert by suspect_grace, because a server may hang for a while. */
static void alert_stalled(struct step *s)
{
    const struct guard *g = s->g;
    if (g->state == GUARD_SUSPECT && g->cause == CAUSE_STALLED &&
        mono_since(s->now, g->stalled_since) >= s->c->suspect_grace)
        alert_trouble(s, EVENT_DOWN, "");
}

/* Consequences of a verdict alone, in every state in which verdicts decide. The other verdicts have
 * functions. */
static const struct {
    enum guard_state state;
    enum guard_cause cause;
    unsigned event;
    /* Another reason is another trouble. Errors of an unreachable server differ (2013 while it
     * dies, 2002 when it is dead), but are one trouble. */
    bool by_reason;
} plain[] = {
    [VERDICT_FOREIGN] = {GUARD_SUSPECT, CAUSE_FOREIGN, EVENT_SENTINEL, true},
    [VERDICT_UNREACHABLE] = {GUARD_WAITING, CAUSE_UNREACHABLE, EVENT_DOWN, false},
    [VERDICT_DENIED] = {GUARD_SUSPECT, CAUSE_DENIED, EVENT_DOWN, true},
};

/* Alerts here too, because a pause or a restore may have delayed the alert. */
static void wait_for_lease(struct step *s)
{
    const struct guard *g = s->g;
    guard_become(s, GUARD_WAITING, CAUSE_LEASE, "%s",
                 g->no_lease[0] ? g->no_lease : FENCED_TEXT ": not yet");
    if (g->no_lease[0])
        alert_trouble(s, EVENT_STANDBY, "");
}

static void on_probe(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    const struct judgement *j = ev->judgement;
    if (!j || j->verdict == VERDICT_NONE)
        return;
    enum verdict before = g->verdict;
    g->verdict = j->verdict;
    /* The verdict is always stored for the status; the decision follows. */
    if (guard_only_shows(g))
        return;
    if (g->fenced) {
        wait_for_lease(s);
        return;
    }
    guard_count(s, j, before);
    switch (j->verdict) {
    case VERDICT_ALIVE:
        on_alive(s, j);
        break;
    case VERDICT_EMPTY:
        on_empty(s, j);
        break;
    case VERDICT_MISSING:
        on_missing(s, j);
        break;
    case VERDICT_STALLED:
        if (g->cause != CAUSE_STALLED)
            g->stalled_since = s->now;
        guard_become(s, GUARD_SUSPECT, CAUSE_STALLED, "%s", j->text);
        alert_stalled(s);
        break;
    case VERDICT_FOREIGN:
    case VERDICT_UNREACHABLE:
    case VERDICT_DENIED:
        guard_become(s, plain[j->verdict].state, plain[j->verdict].cause, "%s", j->text);
        alert_trouble(s, plain[j->verdict].event, plain[j->verdict].by_reason ? g->reason : "");
        break;
    case VERDICT_NONE:
        break;
    }
}

/* ---- restores ---- */

/* Writes ": text", or nothing. */
static const char *guard_detail(const char *text, char out[LINE])
{
    line_set(out, LINE, "%s%s", text && text[0] ? ": " : "", text ? text : "");
    return out;
}

static void on_restore_started(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    char which[LINE];
    if (g->state == GUARD_STOPPED)
        s->out->action = GUARD_END_RESTORE;
    if (g->state == GUARD_STOPPED || g->state == GUARD_RESTORING)
        return;
    /* An automatic restore is void if the state LOST ended before it started. */
    bool wanted = ev->by_hand || g->state == GUARD_LOST;
    bool trouble = g->state == GUARD_LOST || g->state == GUARD_WAITING;
    g->after = guard_quiet(g) ? g->state : wanted && trouble ? GUARD_WAITING : GUARD_STARTING;
    g->by_hand = ev->by_hand;
    g->stalling = false;
    forget_emptiness(g);
    if (!wanted || (g->fenced && g->after != GUARD_STANDBY)) { /* a promotion takes the lease */
        guard_become(s, GUARD_RESTORING, CAUSE_WITHDRAWN, "restore no longer wanted, being ended");
        s->out->action = GUARD_END_RESTORE;
        return;
    }
    guard_become(s, GUARD_RESTORING, CAUSE_RESTORE, "restore%s runs%s",
                 ev->by_hand ? " by hand" : "", guard_detail(ev->text, which));
    alert_trouble(s, EVENT_RESTORING, ev->by_hand ? "by hand" : "");
}

static void on_restore_ok(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    char what[LINE];
    if (g->state != GUARD_RESTORING)
        return;
    bool paused = g->after == GUARD_PAUSED;
    guard_detail(ev->text, what);
    g->stalling = false;
    g->fresh = 0;
    forget_restores(g);
    if (paused) {
        guard_become(s, GUARD_PAUSED, CAUSE_PAUSE, "restored%s; paused as before", what);
        return;
    }
    if (g->fenced) { /* swapped in while the lease was held, but no longer ours */
        wait_for_lease(s);
        return;
    }
    guard_become(s, GUARD_UP, CAUSE_RESTORED, "restored%s", what);
    s->out->alert = GUARD_ALERT_NEW;
    s->out->alert_event = EVENT_RESTORED;
    forget_trouble(g);
}

/* Returns to the state in which the restore began: a pause stays a pause, a standby a standby, and
 * trouble stays trouble. */
static void on_restore_failed(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    const char *why = ev->err && ev->err->text[0] ? ev->err->text : "no reason given";
    if (g->state != GUARD_RESTORING && g->state != GUARD_LOST)
        return;
    enum guard_state after = g->state == GUARD_LOST ? GUARD_WAITING : g->after;
    forget_emptiness(g);
    if (after == GUARD_PAUSED)
        guard_become(s, GUARD_PAUSED, CAUSE_PAUSE, "restore failed: %s; paused as before", why);
    else if (after == GUARD_STANDBY)
        guard_become(s, GUARD_STANDBY, CAUSE_STANDBY, "promotion failed: %s; standby as before",
                     why);
    else if (after == GUARD_STARTING)
        guard_become(s, GUARD_STARTING, CAUSE_FAILED, "restore ended: %s; the next probe decides",
                     why);
    else {
        /* An automatic restore, or one by hand begun in trouble, has failed: wait, then try
         * again. */
        char wait[TEXT_SHORT];
        count_up(&g->failures);
        g->retry_wait = clock_backoff(g->retry_wait, s->c->retry_first, s->c->retry_max);
        if (g->stalling) { /* that took long enough: retry at once, with the dump of guard_skip() */
            g->retry_at = s->now;
            guard_become(s, GUARD_WAITING, CAUSE_FAILED,
                         "restore made no progress: %s; retrying at once", why);
        } else {
            g->stalls = 0;
            g->retry_at = mono_add(s->now, g->retry_wait);
            guard_become(s, GUARD_WAITING, CAUSE_FAILED, "restore failed: %s; next try in %s", why,
                         text_duration(g->retry_wait, wait));
        }
        alert_trouble(s, EVENT_WAITING, why);
    }
    g->stalling = false;
}

/* Does not count stalls of restores by hand, whose dump a user chose. */
static void on_restore_stalled(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    char what[LINE];
    if (g->state != GUARD_RESTORING)
        return;
    s->out->action = GUARD_END_RESTORE;
    if (g->stalling) /* counted already */
        return;
    g->stalling = true;
    if (!g->by_hand)
        count_up(&g->stalls);
    guard_become(s, GUARD_RESTORING, g->cause, "restore makes no progress, being ended%s",
                 guard_detail(ev->text, what));
}

/* ---- the rest ---- */

/* Discards earlier observations: the next probes decide. */
static void start_over(struct step *s, enum guard_state state, enum guard_cause cause,
                       const char *why)
{
    struct guard *g = s->g;
    forget_emptiness(g);
    forget_restores(g);
    g->fresh = 0;
    g->pause_until = (mono_t){0};
    guard_become(s, state, cause, "%s", why);
}

static void end_pause(struct step *s, const char *why)
{
    start_over(s, GUARD_STARTING, CAUSE_RESUME, why);
}

static void on_pause(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    char length[TEXT_SHORT];
    if (g->state == GUARD_RESTORING || g->state == GUARD_LOST || g->state == GUARD_STANDBY ||
        g->state == GUARD_STOPPED)
        return;
    forget_emptiness(g);
    g->pause_by_wall = ev->pause_by_wall;
    if (ev->pause_ms > 0) {
        g->pause_until = mono_add(s->now, ev->pause_ms);
        guard_become(s, GUARD_PAUSED, CAUSE_PAUSE, "paused on request for %s",
                     text_duration(ev->pause_ms, length));
    } else {
        g->pause_until = (mono_t){0};
        guard_become(s, GUARD_PAUSED, CAUSE_PAUSE, "paused on request until resumed");
    }
}

static void on_resume(struct step *s, const struct guard_event *ev)
{
    (void)ev;
    struct guard *g = s->g;
    if (g->state == GUARD_PAUSED)
        end_pause(s, "resumed on request");
    else if (g->state == GUARD_RESTORING && g->after == GUARD_PAUSED) {
        g->after = GUARD_STARTING; /* the restore by hand continues, the pause is over */
        g->pause_until = (mono_t){0};
    }
}

/* Stops actions, not observation: probes counted so far no longer count. */
static void on_doubt(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    if (g->pause_until.ms != 0 && g->pause_by_wall) {
        int64_t until = g->pause_until.ms - ev->clock_set;
        g->pause_until.ms = until > 0 ? until : 1;
    }
    forget_emptiness(g);
    g->fresh = 0;
    if (guard_only_shows(g))
        return;
    guard_become(s, g->state == GUARD_LOST ? GUARD_SUSPECT : g->state, CAUSE_DOUBT,
                 "clock or timing in doubt: %s; no action until new probes agree",
                 ev->text && ev->text[0] ? ev->text : "no reason given");
}

static void on_fenced(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    if (g->state == GUARD_STOPPED)
        return;
    g->fenced = true;
    line_set(g->no_lease, sizeof g->no_lease, "%s", ev->text ? ev->text : "");
    forget_emptiness(g);
    g->fresh = 0;
    /* A promotion opens the fence itself, closes it again if it is refused, and asks it before each
     * statement. To end it here would replace the reason of its refusal. */
    if (g->state == GUARD_RESTORING && g->after == GUARD_STANDBY)
        return;
    if (g->state == GUARD_RESTORING) {
        s->out->action = GUARD_END_RESTORE;
        guard_become(s, GUARD_RESTORING, CAUSE_WITHDRAWN, "restore being ended: " FENCED_TEXT);
        return;
    }
    if (g->state != GUARD_PAUSED && g->state != GUARD_STANDBY)
        wait_for_lease(s);
}

/* Discards earlier observations: the next probes decide. */
static void on_unfenced(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    if (!g->fenced || g->state == GUARD_STOPPED)
        return;
    g->fenced = false;
    if (g->state == GUARD_WAITING)
        guard_become(s, GUARD_STARTING, CAUSE_LEASE, "%s",
                     ev->text ? ev->text : "this machine has the lease of the world");
}

static void on_stop(struct step *s, const struct guard_event *ev)
{
    (void)ev;
    struct guard *g = s->g;
    if (g->state == GUARD_STOPPED)
        return;
    g->stalling = false;
    guard_become(s, GUARD_STOPPED, CAUSE_STOP, "asked to stop");
}

/* A running promotion decides itself. */
static void on_role(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    if (g->state == GUARD_STOPPED || g->state == GUARD_RESTORING ||
        ev->standby == (g->state == GUARD_STANDBY))
        return;
    start_over(s, ev->standby ? GUARD_STANDBY : GUARD_STARTING, CAUSE_STANDBY, ev->text);
    forget_trouble(g);
    g->down_since_set = false;
}

bool guard_unverified(const struct guard *g)
{
    return (g->state == GUARD_SUSPECT || g->state == GUARD_WAITING) &&
           (g->cause == CAUSE_DENIED || g->cause == CAUSE_FOREIGN || g->cause == CAUSE_DELETED ||
            (g->cause == CAUSE_MISSING && g->rows_there));
}

bool guard_paused(const struct guard *g)
{
    return g->state == GUARD_PAUSED || (g->state == GUARD_RESTORING && g->after == GUARD_PAUSED);
}

bool guard_reminds(int64_t repeat, mono_t alerted_at, mono_t now)
{
    return repeat > 0 && mono_since(now, alerted_at) >= repeat;
}

/* Handles passing time: pauses end, and reminders become due. */
static void on_tick(struct step *s, const struct guard_event *ev)
{
    (void)ev;
    struct guard *g = s->g;
    if (g->state == GUARD_PAUSED && g->pause_until.ms != 0 && mono_reached(s->now, g->pause_until))
        end_pause(s, "the pause is over");
    alert_stalled(s);
    bool trouble = g->state == GUARD_SUSPECT || g->state == GUARD_WAITING ||
                   g->state == GUARD_LOST || g->state == GUARD_RESTORING;
    if (s->out->alert != GUARD_ALERT_NONE || !trouble || guard_quiet(g) || !g->alerted ||
        !guard_reminds(s->c->alert_repeat, g->alerted_at, s->now))
        return;
    g->alerted_at = s->now;
    s->out->alert = GUARD_ALERT_REMINDER;
    s->out->alert_event = g->alerted;
}

/* Returns true if the server is away and may return empty, or was seen empty but not often enough
 * yet. */
static bool is_near(const struct step *s)
{
    const struct guard *g = s->g;
    bool seen = g->empties >= guard_needed(s) || g->deleted >= guard_needed(s);
    bool empty = g->verdict == VERDICT_EMPTY || (g->verdict == VERDICT_MISSING && g->empties > 0);
    if (g->state == GUARD_WAITING && g->verdict == VERDICT_UNREACHABLE)
        return true;
    bool watching =
        g->state == GUARD_STARTING || g->state == GUARD_SUSPECT || g->state == GUARD_WAITING;
    return watching && !seen && empty;
}

/* Calls exactly one handler per event, and checks the invariants after it. */
void guard_step(struct guard *g, const struct guard_config *c, const struct guard_event *ev,
                mono_t now, struct guard_answer *out)
{
    static void (*const on[])(struct step *, const struct guard_event *) = {
        [GUARD_PROBED] = on_probe,
        [GUARD_TICK] = on_tick,
        [GUARD_RESTORE_STARTED] = on_restore_started,
        [GUARD_RESTORE_OK] = on_restore_ok,
        [GUARD_RESTORE_FAILED] = on_restore_failed,
        [GUARD_RESTORE_STALLED] = on_restore_stalled,
        [GUARD_PAUSE] = on_pause,
        [GUARD_RESUME] = on_resume,
        [GUARD_DOUBT] = on_doubt,
        [GUARD_FENCED] = on_fenced,
        [GUARD_UNFENCED] = on_unfenced,
        [GUARD_STOP] = on_stop,
        [GUARD_ROLE] = on_role,
    };
    *out = (struct guard_answer){.from = g->state};
    struct step s = {.g = g, .c = c, .now = now, .out = out};
    on[ev->type](&s, ev);
    g->hurry = is_near(&s);
    guard_check(g);
}

unsigned guard_skip(const struct guard *g)
{
    return g->stalls > 1 ? g->stalls - 1 : 0;
}

void guard_flag(const struct guard *g, const struct guard_config *c, mono_t now, char out[128])
{
    bool up = false;
    switch (g->state) {
    case GUARD_UP:
        up = true;
        break;
    case GUARD_SUSPECT:
        /* A short doubt is not shown. */
        up = g->from_up && mono_since(now, g->since) < c->suspect_grace;
        break;
    case GUARD_LOST:
    case GUARD_RESTORING: {
        int64_t dots = g->state == GUARD_LOST ? 0 : 1 + mono_since(now, g->since) / MINUTE_MS;
        size_t len = (size_t)snprintf(out, 128, "RESTORING");
        for (; dots > 0 && len < 127; dots--)
            out[len++] = '.';
        out[len] = '\0';
        return;
    }
    case GUARD_STARTING:
    case GUARD_WAITING:
    case GUARD_PAUSED:
    case GUARD_STANDBY:
    case GUARD_STOPPED: /* the world is no longer watched */
        break;
    }
    snprintf(out, 128, "%s", up ? "UP" : "WAITING");
}

mono_t guard_next_probe(const struct guard *g, int64_t interval, mono_t now)
{
    return mono_add(now, g->hurry && interval > HURRY_MS ? HURRY_MS : interval);
}

void guard_check(const struct guard *g)
{
#ifdef NDEBUG
    (void)g;
#else
    bool restoring = g->state == GUARD_RESTORING;
    bool paused = g->state == GUARD_PAUSED || (restoring && g->after == GUARD_PAUSED);
    assert((size_t)g->state <= GUARD_STOPPED);
    assert(g->reason[0] != '\0' && !strchr(g->reason, '\n'));
    assert(g->empties <= g->fresh && g->deleted <= g->fresh);
    assert(g->empties == 0 || g->deleted == 0);
    assert(g->known_count < 2 * GUARD_KNOWN);
    assert((g->alerted & (g->alerted - 1)) == 0); /* at most one bit */
    assert(g->known_count == 0 || g->alerted != 0);
    assert(!g->from_up || g->state == GUARD_SUSPECT);
    assert(!g->stalling || restoring);
    assert(!g->fenced || (g->state != GUARD_UP && g->state != GUARD_LOST));
    assert(g->pause_until.ms == 0 || paused || g->state == GUARD_STOPPED);
    assert(g->empties == 0 || g->state == GUARD_SUSPECT || g->state == GUARD_LOST ||
           g->state == GUARD_WAITING || g->state == GUARD_STOPPED);
    if (g->state == GUARD_UP) {
        assert(g->verdict == VERDICT_ALIVE || g->cause == CAUSE_RESTORED ||
               g->cause == CAUSE_DOUBT);
        assert(g->alerted == 0 && g->failures == 0 && g->stalls == 0 && !g->down_since_set);
    }
    if (g->state == GUARD_LOST) {
        assert(g->cause == CAUSE_LOSS && g->empties > 0);
        assert(g->verdict == VERDICT_EMPTY || g->verdict == VERDICT_MISSING);
    }
    if (restoring)
        assert(g->after == GUARD_WAITING || g->after == GUARD_STARTING ||
               g->after == GUARD_PAUSED || g->after == GUARD_STANDBY);
#endif
}
