#include "watch/guard.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "core/text.h"

#define HURRY_MS 250
#define MINUTE_MS 60000

/* What one step works on. */
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
        [GUARD_PAUSED] = "PAUSED",       [GUARD_STOPPED] = "STOPPED",
    };
    return (size_t)s < sizeof names / sizeof *names ? names[s] : "?";
}

void guard_init(struct guard *g, mono_t now)
{
    *g = (struct guard){.state = GUARD_STARTING, .cause = CAUSE_START, .since = now};
    snprintf(g->reason, sizeof g->reason, "no probe yet");
}

/* ---- the state and its reason ---- */

static void leave_and_reach(struct step *s, enum guard_state to)
{
    struct guard *g = s->g;
    bool planned = to == GUARD_PAUSED || to == GUARD_STOPPED || to == GUARD_RESTORING;
    if (g->state == GUARD_UP && !planned) {
        g->down_since_set = true;
        g->down_since = s->now;
    }
    if (to == GUARD_UP) {
        if (g->down_since_set)
            s->out->outage_ms = mono_since(s->now, g->down_since);
        g->down_since_set = false;
    }
    g->from_up = g->state == GUARD_UP && to == GUARD_SUSPECT;
}

/* The only place that writes the state. To the same state: only the reason is another. */
static void become(struct step *s, enum guard_state state, enum guard_cause cause, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));
static void become(struct step *s, enum guard_state state, enum guard_cause cause, const char *fmt,
                   ...)
{
    struct guard *g = s->g;
    struct buf raw = {0}, line = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&raw, fmt, ap);
    va_end(ap);
    text_clean(&line, raw.p, sizeof g->reason - sizeof "...");
    if (state != g->state) {
        assert(!s->out->changed); /* one step, one change: the log line tells all of it */
        s->out->changed = true;
        leave_and_reach(s, state);
        g->state = state;
        g->since = s->now;
    }
    g->cause = cause;
    s->out->renewed = !s->out->changed && strcmp(g->reason, line.p) != 0;
    snprintf(g->reason, sizeof g->reason, "%s", line.p);
    buf_free(&raw);
    buf_free(&line);
}

/* ---- what people are told ---- */

/* Planned work: a pause, with what is restored by hand in it. */
static bool quiet(const struct guard *g)
{
    return g->state == GUARD_PAUSED || g->state == GUARD_STOPPED ||
           (g->state == GUARD_RESTORING && g->after == GUARD_PAUSED);
}

/* FNV-1a, 64 bits. */
static uint64_t trouble_id(enum guard_cause cause, const char *words)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)cause;
    h *= UINT64_C(0x100000001b3);
    for (; *words; words++)
        h = (h ^ (unsigned char)*words) * UINT64_C(0x100000001b3);
    return h;
}

static bool was_told(const struct guard *g, uint64_t id)
{
    for (unsigned i = 0; i < g->told_count && i < GUARD_TOLD; i++)
        if (g->told[i] == id)
            return true;
    return false;
}

/* The present trouble, told unless it already was since the last UP: a server that dies, hangs, and
 * dies again is one story. `words` are what makes two troubles of one cause different; the ones of
 * an unreachable server do not (2013 while it dies, 2002 when it is dead). */
static void tell(struct step *s, unsigned event, const char *words)
{
    struct guard *g = s->g;
    uint64_t id = trouble_id(g->cause, words);
    if (quiet(g))
        return;
    g->alerted = event;
    snprintf(g->alerted_text, sizeof g->alerted_text, "%s", g->reason);
    if (was_told(g, id))
        return;
    g->told[g->told_count % GUARD_TOLD] = id;
    /* Stays a count modulo the ring, but never falls below "full" again. */
    g->told_count = g->told_count + 1 < 2 * GUARD_TOLD ? g->told_count + 1 : GUARD_TOLD;
    g->alerted_at = s->now;
    s->out->alert = GUARD_ALERT_NEW;
    s->out->alert_event = event;
}

static void remind(struct step *s)
{
    struct guard *g = s->g;
    bool trouble = g->state == GUARD_SUSPECT || g->state == GUARD_WAITING ||
                   g->state == GUARD_LOST || g->state == GUARD_RESTORING;
    if (!trouble || quiet(g) || !g->alerted || s->c->alert_repeat <= 0 ||
        mono_since(s->now, g->alerted_at) < s->c->alert_repeat)
        return;
    g->alerted_at = s->now;
    s->out->alert = GUARD_ALERT_REMINDER;
    s->out->alert_event = g->alerted;
}

/* ---- counters ---- */

static unsigned needed(const struct step *s)
{
    return s->c->confirm ? s->c->confirm : 1;
}

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

static void forget_restores(struct guard *g)
{
    g->failures = 0;
    g->stalls = 0;
    g->retry_at = (mono_t){0};
}

static void forget_trouble(struct guard *g)
{
    forget_emptiness(g);
    forget_restores(g);
    g->alerted = 0; /* its text stays, for the words of the recovery */
    g->told_count = 0;
}

/* Does this probe speak for a loss that we may mend? */
static bool is_loss(const struct step *s, const struct judgement *j)
{
    if (j->verdict == VERDICT_EMPTY)
        return j->restarted;
    return j->verdict == VERDICT_MISSING && j->restarted && j->rebuilt && s->c->restore_auto &&
           s->c->restore_new_server;
}

static void count(struct step *s, const struct judgement *j, enum verdict before)
{
    struct guard *g = s->g;
    count_up(&g->fresh);
    bool loss = is_loss(s, j);
    /* Two probes agree only about one process: a server that restarts again is looked at anew. */
    if (!loss || j->verdict != before || j->start != g->empties_start)
        g->empties = 0;
    if (loss) {
        count_up(&g->empties);
        g->empties_start = j->start;
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
        if (g->cause == CAUSE_DOUBT && g->fresh >= needed(s))
            become(s, GUARD_UP, CAUSE_ALIVE, "%s", j->text);
        return;
    }
    become(s, GUARD_UP, CAUSE_ALIVE, "%s", j->text);
    if (g->alerted) {
        s->out->alert = GUARD_ALERT_RECOVERED;
        s->out->alert_event = g->alerted;
    }
    forget_trouble(g);
}

/* In WAITING with the reason of a failed restore: it stays the reason until the next try. */
static bool backing_off(const struct step *s)
{
    const struct guard *g = s->g;
    return g->state == GUARD_WAITING && (g->cause == CAUSE_FAILED || g->cause == CAUSE_BACKOFF) &&
           !mono_reached(s->now, g->retry_at);
}

/* The loss is proven: restore, unless something speaks against it. */
static void on_loss(struct step *s, const struct judgement *j)
{
    struct guard *g = s->g;
    char left[TEXT_SHORT];
    if (backing_off(s))
        return;
    if (!j->same_place && !s->c->restore_new_server) {
        become(s, GUARD_WAITING, CAUSE_ELSEWHERE,
               "%s; not restored there unless told so ([restore] new_server = yes, or --restore)",
               j->text);
        tell(s, EVENT_SENTINEL, "");
    } else if (!s->c->restore_auto) {
        become(s, GUARD_WAITING, CAUSE_MANUAL,
               "%s; [restore] auto = no, so --restore is somebody's decision", j->text);
        tell(s, EVENT_WAITING, "");
    } else if (!mono_reached(s->now, g->retry_at)) {
        become(s, GUARD_WAITING, CAUSE_BACKOFF, "%s; restores failed: %u, next try in %s", j->text,
               g->failures, text_duration(mono_since(g->retry_at, s->now), left));
    } else if (g->state != GUARD_LOST) { /* asked for once */
        become(s, GUARD_LOST, CAUSE_LOSS, "%s; seen %u times", j->text, g->empties);
        s->out->action = GUARD_START_RESTORE;
    }
}

static void on_empty(struct step *s, const struct judgement *j)
{
    struct guard *g = s->g;
    if (!j->restarted) {
        become(s, GUARD_SUSPECT, CAUSE_DELETED, "%s", j->text);
        if (g->deleted >= needed(s))
            tell(s, EVENT_SENTINEL, "");
    } else if (g->empties >= needed(s) && g->fresh >= needed(s)) {
        on_loss(s, j);
    } else if (!backing_off(s)) {
        become(s, g->state == GUARD_WAITING ? GUARD_WAITING : GUARD_SUSPECT, CAUSE_UNCONFIRMED,
               "%s; seen %u of %u times", j->text, g->empties, needed(s));
    }
}

static void on_missing(struct step *s, const struct judgement *j)
{
    struct guard *g = s->g;
    if (g->empties >= needed(s) && g->fresh >= needed(s)) {
        on_loss(s, j);
    } else if (g->empties == 0 || !backing_off(s)) {
        become(s, GUARD_WAITING, CAUSE_MISSING, "%s", j->text);
        tell(s, EVENT_SENTINEL, g->reason);
    }
}

static void tell_stalled(struct step *s)
{
    const struct guard *g = s->g;
    if (g->state == GUARD_SUSPECT && g->cause == CAUSE_STALLED &&
        mono_since(s->now, g->stalled_since) >= s->c->suspect_grace)
        tell(s, EVENT_DOWN, "");
}

static void on_stalled(struct step *s, const struct judgement *j)
{
    if (s->g->cause != CAUSE_STALLED)
        s->g->stalled_since = s->now;
    become(s, GUARD_SUSPECT, CAUSE_STALLED, "%s", j->text);
    tell_stalled(s);
}

static void on_probe(struct step *s, const struct judgement *j)
{
    struct guard *g = s->g;
    if (!j || j->verdict == VERDICT_NONE)
        return;
    enum verdict before = g->verdict;
    g->verdict = j->verdict;
    if (g->state == GUARD_RESTORING || g->state == GUARD_PAUSED || g->state == GUARD_STOPPED)
        return;
    count(s, j, before);
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
    case VERDICT_FOREIGN:
        become(s, GUARD_SUSPECT, CAUSE_FOREIGN, "%s", j->text);
        tell(s, EVENT_SENTINEL, g->reason);
        break;
    case VERDICT_UNREACHABLE:
        become(s, GUARD_WAITING, CAUSE_UNREACHABLE, "%s", j->text);
        tell(s, EVENT_DOWN, "");
        break;
    case VERDICT_STALLED:
        on_stalled(s, j);
        break;
    case VERDICT_DENIED:
        become(s, GUARD_SUSPECT, CAUSE_DENIED, "%s", j->text);
        tell(s, EVENT_DOWN, g->reason);
        break;
    case VERDICT_NONE:
        break;
    }
}

/* ---- restores ---- */

/* ": text", or nothing. */
static const char *detail(const char *text, char out[640])
{
    snprintf(out, 640, "%s%s", text && text[0] ? ": " : "", text ? text : "");
    return out;
}

static void on_restore_started(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    char which[640];
    if (g->state == GUARD_STOPPED)
        s->out->action = GUARD_END_RESTORE;
    if (g->state == GUARD_STOPPED || g->state == GUARD_RESTORING)
        return;
    bool wanted = ev->by_hand || g->state == GUARD_LOST;
    bool trouble = g->state == GUARD_LOST || g->state == GUARD_WAITING;
    g->after = g->state == GUARD_PAUSED ? GUARD_PAUSED
               : wanted && trouble      ? GUARD_WAITING
                                        : GUARD_STARTING;
    g->by_hand = ev->by_hand;
    g->stalling = false;
    forget_emptiness(g);
    if (!wanted) {
        become(s, GUARD_RESTORING, CAUSE_WITHDRAWN, "restore no longer wanted, being ended");
        s->out->action = GUARD_END_RESTORE;
        return;
    }
    become(s, GUARD_RESTORING, CAUSE_RESTORE, "restore%s runs%s", ev->by_hand ? " by hand" : "",
           detail(ev->text, which));
    tell(s, EVENT_RESTORING, ev->by_hand ? "by hand" : "");
}

static void on_restore_ok(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    char what[640];
    if (g->state != GUARD_RESTORING)
        return;
    bool paused = g->after == GUARD_PAUSED;
    detail(ev->text, what);
    g->stalling = false;
    g->fresh = 0;
    forget_restores(g);
    if (paused) {
        become(s, GUARD_PAUSED, CAUSE_PAUSE, "restored%s; paused as before", what);
        return;
    }
    become(s, GUARD_UP, CAUSE_RESTORED, "restored%s", what);
    s->out->alert = GUARD_ALERT_NEW;
    s->out->alert_event = EVENT_RESTORED;
    forget_trouble(g);
}

static int64_t retry_wait(const struct guard_config *c, unsigned failures)
{
    int64_t wait = c->retry_first > 0 ? c->retry_first : 0;
    for (unsigned i = 1; i < failures && wait < c->retry_max && wait > 0; i++)
        wait = wait > INT64_MAX / 2 ? INT64_MAX / 2 : wait * 2;
    return wait < c->retry_max ? wait : c->retry_max;
}

/* An automatic restore, or one by hand out of trouble, has failed: wait, then try again. */
static void wait_for_retry(struct step *s, const char *why)
{
    struct guard *g = s->g;
    char wait[TEXT_SHORT];
    count_up(&g->failures);
    if (g->stalling) { /* tried long enough: at once, with the dump that guard_skip() leads to */
        g->retry_at = s->now;
        become(s, GUARD_WAITING, CAUSE_FAILED, "restore made no progress: %s; again at once", why);
    } else {
        g->stalls = 0;
        int64_t ms = retry_wait(s->c, g->failures);
        g->retry_at = mono_add(s->now, ms);
        become(s, GUARD_WAITING, CAUSE_FAILED, "restore failed: %s; next try in %s", why,
               text_duration(ms, wait));
    }
    tell(s, EVENT_WAITING, why);
}

static void on_restore_failed(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    const char *why = ev->err && ev->err->text[0] ? ev->err->text : "no reason given";
    if (g->state != GUARD_RESTORING && g->state != GUARD_LOST)
        return;
    enum guard_state after = g->state == GUARD_LOST ? GUARD_WAITING : g->after;
    forget_emptiness(g);
    if (after == GUARD_PAUSED)
        become(s, GUARD_PAUSED, CAUSE_PAUSE, "restore failed: %s; paused as before", why);
    else if (after == GUARD_STARTING)
        become(s, GUARD_STARTING, CAUSE_FAILED, "restore ended: %s; the next probe decides", why);
    else
        wait_for_retry(s, why);
    g->stalling = false;
}

static void on_restore_stalled(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    char what[640];
    if (g->state != GUARD_RESTORING)
        return;
    s->out->action = GUARD_END_RESTORE;
    if (g->stalling)
        return;
    g->stalling = true;
    if (!g->by_hand)
        count_up(&g->stalls);
    become(s, GUARD_RESTORING, g->cause, "restore makes no progress, being ended%s",
           detail(ev->text, what));
}

/* ---- the rest ---- */

static void end_pause(struct step *s, const char *why)
{
    struct guard *g = s->g;
    forget_emptiness(g);
    forget_restores(g);
    g->fresh = 0;
    g->pause_until = (mono_t){0};
    become(s, GUARD_STARTING, CAUSE_RESUME, "%s", why);
}

static void on_pause(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    char length[TEXT_SHORT];
    if (g->state == GUARD_RESTORING || g->state == GUARD_LOST || g->state == GUARD_STOPPED)
        return;
    forget_emptiness(g);
    if (ev->pause_ms > 0) {
        g->pause_until = mono_add(s->now, ev->pause_ms);
        become(s, GUARD_PAUSED, CAUSE_PAUSE, "paused on request for %s",
               text_duration(ev->pause_ms, length));
    } else {
        g->pause_until = (mono_t){0};
        become(s, GUARD_PAUSED, CAUSE_PAUSE, "paused on request until resumed");
    }
}

static void on_resume(struct step *s)
{
    struct guard *g = s->g;
    if (g->state == GUARD_PAUSED)
        end_pause(s, "resumed on request");
    else if (g->state == GUARD_RESTORING && g->after == GUARD_PAUSED) {
        g->after = GUARD_STARTING; /* the restore by hand goes on, the pause is over */
        g->pause_until = (mono_t){0};
    }
}

/* Stops action, not observation: what was counted before does not count any more. */
static void on_doubt(struct step *s, const struct guard_event *ev)
{
    struct guard *g = s->g;
    forget_emptiness(g);
    g->fresh = 0;
    if (g->state == GUARD_RESTORING || g->state == GUARD_PAUSED || g->state == GUARD_STOPPED)
        return;
    become(s, g->state == GUARD_LOST ? GUARD_SUSPECT : g->state, CAUSE_DOUBT,
           "in doubt about ourselves: %s; nothing is done until fresh probes agree",
           ev->text && ev->text[0] ? ev->text : "no reason given");
}

static void on_stop(struct step *s)
{
    struct guard *g = s->g;
    char flag[128];
    if (g->state == GUARD_STOPPED)
        return;
    guard_flag(g, s->c, s->now, flag);
    g->stopped_up = strcmp(flag, "UP") == 0;
    g->stalling = false;
    become(s, GUARD_STOPPED, CAUSE_STOP, "told to stop");
}

static void on_tick(struct step *s)
{
    struct guard *g = s->g;
    if (g->state == GUARD_PAUSED && g->pause_until.ms != 0 && mono_reached(s->now, g->pause_until))
        end_pause(s, "the pause is over");
    tell_stalled(s);
    if (s->out->alert == GUARD_ALERT_NONE)
        remind(s);
}

/* The server is away and may come back empty, or was just seen empty and waits to be seen so again.
 */
static bool is_near(const struct step *s)
{
    const struct guard *g = s->g;
    bool seen = g->empties >= needed(s) || g->deleted >= needed(s);
    switch (g->state) {
    case GUARD_WAITING:
        if (g->verdict == VERDICT_UNREACHABLE)
            return true;
        break;
    case GUARD_STARTING:
    case GUARD_SUSPECT:
        break;
    case GUARD_UP:
    case GUARD_LOST:
    case GUARD_RESTORING:
    case GUARD_PAUSED:
    case GUARD_STOPPED:
        return false;
    }
    return !seen &&
           (g->verdict == VERDICT_EMPTY || (g->verdict == VERDICT_MISSING && g->empties > 0));
}

void guard_step(struct guard *g, const struct guard_config *c, const struct guard_event *ev,
                mono_t now, struct guard_answer *out)
{
    *out = (struct guard_answer){.from = g->state, .outage_ms = -1};
    struct step s = {.g = g, .c = c, .now = now, .out = out};
    switch (ev->type) {
    case GUARD_PROBED:
        on_probe(&s, ev->judgement);
        break;
    case GUARD_TICK:
        on_tick(&s);
        break;
    case GUARD_RESTORE_STARTED:
        on_restore_started(&s, ev);
        break;
    case GUARD_RESTORE_OK:
        on_restore_ok(&s, ev);
        break;
    case GUARD_RESTORE_FAILED:
        on_restore_failed(&s, ev);
        break;
    case GUARD_RESTORE_STALLED:
        on_restore_stalled(&s, ev);
        break;
    case GUARD_PAUSE:
        on_pause(&s, ev);
        break;
    case GUARD_RESUME:
        on_resume(&s);
        break;
    case GUARD_DOUBT:
        on_doubt(&s, ev);
        break;
    case GUARD_STOP:
        on_stop(&s);
        break;
    }
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
        up = g->from_up && mono_since(now, g->since) < c->suspect_grace;
        break;
    case GUARD_STOPPED:
        up = g->stopped_up;
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
        break;
    }
    snprintf(out, 128, "%s", up ? "UP" : "WAITING");
}

mono_t guard_next_probe(const struct guard *g, int64_t interval, mono_t now)
{
    return mono_add(now, g->hurry && interval > HURRY_MS ? HURRY_MS : interval);
}

#ifndef NDEBUG
static void check_counters(const struct guard *g)
{
    assert(g->empties <= g->fresh && g->deleted <= g->fresh);
    assert(g->empties == 0 || g->deleted == 0);
    assert(g->told_count < 2 * GUARD_TOLD);
    assert((g->alerted & (g->alerted - 1)) == 0); /* one bit, or none */
    assert(g->alerted == 0 || g->alerted_text[0] != '\0');
    assert(g->told_count == 0 || g->alerted != 0);
}

static void check_state(const struct guard *g)
{
    bool restoring = g->state == GUARD_RESTORING;
    bool paused = g->state == GUARD_PAUSED || (restoring && g->after == GUARD_PAUSED);
    assert(!g->from_up || g->state == GUARD_SUSPECT);
    assert(!g->stalling || restoring);
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
        assert(g->after == GUARD_WAITING || g->after == GUARD_STARTING || g->after == GUARD_PAUSED);
}

void guard_check(const struct guard *g)
{
    assert((size_t)g->state <= GUARD_STOPPED);
    assert(g->reason[0] != '\0' && !strchr(g->reason, '\n'));
    check_counters(g);
    check_state(g);
}
#else
void guard_check(const struct guard *g)
{
    (void)g;
}
#endif
