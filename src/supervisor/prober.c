/* The supervisor's side of the probe (watch/probe.h): asks once a second, notices a probe that
 * hangs or dies, keeps the expected state of the world, and turns answers into judgements, which
 * the caller passes to the guard. */
#include "supervisor/prober.h"

#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "base/line.h"
#include "supervisor/dumps.h"
#include "supervisor/world.h"
#include "watch/probe.h"

/* One question is sent at each interval of the config, and never two at a time. An answer is judged
 * at once against the expectation (watch/expect.h), and the result is saved in the state: a later
 * loss is measured against it. */

#define HISTORY 8 /* number of verdicts in the status, one letter each */

static struct prober {
    struct expectation expect; /* the expectation by which answers are judged */
    bool asked;
    uint64_t number; /* number of the current question; an answer to an older question is dropped */
    mono_t asked_at, last_asked, next;
    uint64_t connection; /* connection number of the last answer */
    bool foreign;        /* the last sentinel row that could be judged is not ours */
    bool same_world;
    /* A restore may be swapping in its world, which no probe has seen yet. */
    bool swapping;
    struct observation last; /* the last observation as received */
    char text[LINE], history[HISTORY + 1];
    wall_t at; /* time of the last answer */
} prober;

void prober_expect(struct world *w, const struct state *s, mono_t seen)
{
    prober.expect = (struct expectation){.known = s->known, .server = s->server, .seen = seen};
    snprintf(prober.expect.nonce, sizeof prober.expect.nonce, "%s", s->nonce);
    if (!seen.ms) /* from our own state, not from the dump that replaces a lost state */
        prober.connection = w->a->state.server.connection;
}

/* Sets the nonce of the world that a restore is about to swap in. It is also saved in the state,
 * because a supervisor that starts after a crash must know this world. */
void prober_expect_next(struct world *w, const char *nonce)
{
    struct state *s = &w->a->state;
    snprintf(prober.expect.next_nonce, sizeof prober.expect.next_nonce, "%s", nonce);
    snprintf(s->next, sizeof s->next, "%s", nonce);
    prober.swapping = true;
    s->gone_at = (wall_t){0};
}

/* Records that the world is alive; a later loss is measured against this. */
static void seen_alive(struct world *w, const struct observation *o)
{
    struct state *s = &w->a->state;
    prober.same_world = s->known && strcmp(s->nonce, o->nonce) == 0 &&
                        s->server.start == o->server.start && s->server.pid == o->server.pid;
    /* Connection numbers grow within one server process, and restart with the next. */
    uint64_t highest = prober.same_world ? s->server.connection : 0;
    prober.swapping = false;
    if (!w->swaps && s->next[0]) { /* the expected world is this one, or never appeared */
        /* The worker of that restore died before it could report its success. */
        if (strcmp(s->next, o->nonce) == 0) {
            struct state_made made = {0};
            snprintf(made.nonce, sizeof made.nonce, "%s", o->nonce);
            state_restored(s, &made);
            last_restore_set(&w->last_restore, last_restore_load(s->last_restore));
        }
        s->next[0] = '\0';
    }
    state_alive(s, prober.at);
    s->gone_at = (wall_t){0};
    s->server = o->server;
    if (s->server.connection < highest) /* the connection of a restore is newer than the probe's */
        s->server.connection = highest;
    s->generation = o->generation > s->generation ? o->generation : s->generation;
    snprintf(s->nonce, sizeof s->nonce, "%s", o->nonce);
    prober.expect.known = true;
    prober.expect.server = s->server;
    prober.expect.seen = clock_mono();
    snprintf(prober.expect.nonce, sizeof prober.expect.nonce, "%s", o->nonce);
    w->state_dirty |= !prober.same_world;
}

/* Sets gone_at, the time since which the lost world provably cannot be written to: it is empty
 * after a restart, or the server process is dead. Not called while a restore swaps in a world,
 * because players may write to that world before a probe sees it, and lose it again. A server that
 * only does not answer changes nothing. Any other verdict resets gone_at, since the world may have
 * been there in between. */
static void seen_gone(struct state *s, const struct observation *o, const struct judgement *j)
{
    bool emptied = (j->verdict == VERDICT_EMPTY || j->verdict == VERDICT_MISSING) && j->restarted;
    bool silent = j->verdict == VERDICT_UNREACHABLE || j->verdict == VERDICT_STALLED;
    if (!emptied && !silent)
        s->gone_at = (wall_t){0};
    else if ((emptied || o->dead) && s->gone_at.ms == 0)
        s->gone_at = clock_wall();
}

static void prober_judge(struct world *w, const struct observation *o, struct judgement *j)
{
    /* A copy, because a change for this answer must not affect later ones. */
    struct expectation expect = prober.expect;
    size_t n = strlen(prober.history);
    int64_t waited = mono_since(clock_mono(), prober.asked_at) - o->latency_ms;
    /* The nonce of a stored dump is ours too: that dump was loaded manually. */
    if (o->failed == VERDICT_NONE && o->rows == 1 && expect.known &&
        strcmp(o->nonce, expect.nonce) != 0 && dumps_know_nonce(o->nonce))
        snprintf(expect.next_nonce, sizeof expect.next_nonce, "%s", o->nonce);
    expect_judge(o, &expect, j);
    prober.asked = false;
    prober.last = *o;
    prober.last_asked = prober.asked_at;
    prober.foreign =
        j->verdict == VERDICT_FOREIGN || (prober.foreign && j->verdict != VERDICT_ALIVE);
    if (o->server.connection)
        prober.connection = o->server.connection;
    /* The time of the answer, not the current time: the answer may have waited for us while the
     * server died. */
    prober.at = (wall_t){clock_wall().ms - (waited > 0 ? waited : 0)};
    line_set(prober.text, sizeof prober.text, "%s", j->text);
    /* The oldest letter is removed. */
    if (n == HISTORY)
        memmove(prober.history, prober.history + 1, n--);
    prober.history[n] = verdict_letter(j->verdict);
    prober.history[n + 1] = '\0';
    if (!prober.swapping)
        seen_gone(&w->a->state, o, j);
    /* A standby's server may hold a copy of another machine's world. */
    if (j->verdict == VERDICT_ALIVE && !state_standby(&w->a->state, w->cfg))
        seen_alive(w, o);
}

/* Judges a failure of the probe itself: the state of the server is unknown. */
static bool prober_stalled(struct world *w, const char *text, struct judgement *j)
{
    struct observation o = {.failed = VERDICT_STALLED,
                            .latency_ms = mono_since(clock_mono(), prober.asked_at)};
    line_set(o.text, sizeof o.text, "%s", text);
    prober_judge(w, &o, j);
    return true;
}

/* Sends a question. Returns true if no process could be started, which was then judged. Questions
 * are numbered, because after a restore an answer to an older question would describe the previous
 * world. */
static bool prober_ask(struct world *w, mono_t now, struct judgement *j)
{
    static struct probe_args args; /* read by the child after the fork */
    struct err e;
    args = (struct probe_args){.cfg = w->cfg, .db = w->a->job.db};
    prober.asked_at = now;
    prober.next = mono_add(now, w->cfg->probe_interval);
    if (w->probe_worker.pid == 0 &&
        worker_start(&w->probe_worker, probe_worker, &args, false, &e) < 0)
        return prober_stalled(w, e.text, j);
    /* The probe may take the server lock only if this supervisor has a world, or a dump and no
     * foreign world. Otherwise the lock would only keep out the supervisor that has a world. */
    struct probe_question q = {.number = ++prober.number,
                               .before = prober.connection,
                               .may_watch = w->guard.state == GUARD_UP ||
                                            (dumps_newest() && !prober.foreign)};
    prober.asked = worker_send_packet(w->probe_worker.fd, 0, &q, sizeof q) == 0;
    return false;
}

/* Sends the next question, or judges a timeout. The child has its own timeouts for connecting and
 * querying; this timeout is for a child that hangs in the client library or on the socket of a
 * frozen server. */
bool prober_timers(struct world *w, mono_t now, struct judgement *out)
{
    char text[128], t[TEXT_SHORT];
    if (w->stopping)
        return false;
    if (!prober.asked)
        return mono_reached(now, prober.next) && prober_ask(w, now, out);
    if (mono_since(now, prober.asked_at) <= w->cfg->probe_timeout)
        return false;
    line_set(text, sizeof text, "no answer in %s", text_duration(w->cfg->probe_timeout, t));
    worker_kill(&w->probe_worker);
    return prober_stalled(w, text, out);
}

bool prober_message(struct world *w, struct judgement *out)
{
    struct packet m;
    bool closed, asked = prober.asked;
    if (worker_receive_packet(w->probe_worker.fd, &m, &closed)) {
        const struct probe_answer *a = packet_struct(&m, sizeof *a);
        if (!a || !asked || a->number != prober.number)
            return false;
        prober_judge(w, &a->seen, out);
        return true;
    }
    if (!closed)
        return false;
    worker_end(&w->probe_worker);
    prober.asked = false;
    return asked && !w->stopping && prober_stalled(w, "the probe's process died", out);
}

/* Returns how long the loop may sleep. One millisecond more than the timeout, so that the timeout
 * is over when the loop wakes. */
int64_t prober_sleep(const struct world *w, mono_t now)
{
    if (w->stopping) /* while stopping, not even a timeout is awaited */
        return INT64_MAX;
    mono_t t = prober.asked ? mono_add(prober.asked_at, w->cfg->probe_timeout + 1) : prober.next;
    return mono_reached(now, t) ? 0 : mono_since(t, now);
}

void prober_next(mono_t at)
{
    prober.next = at;
}

void prober_discard(void)
{
    prober.number++;
    prober.asked = prober.swapping = false;
    prober.next = clock_mono();
}

static void prober_stop(struct world *w)
{
    worker_kill(&w->probe_worker);
}

static void prober_restart(struct world *w)
{
    prober_stop(w);
    prober_discard();
}

const struct observation *prober_last(void)
{
    return &prober.last;
}

mono_t prober_last_asked(void)
{
    return prober.last_asked;
}

bool prober_same_world(void)
{
    return prober.same_world;
}

static json_t *prober_status_json(const struct world *w)
{
    return json_pack("{s:s, s:o, s:o, s:I, s:s}", "verdict", verdict_name(w->guard.verdict), "text",
                     js_clean(prober.text), "at", js_time(prober.at), "latency_ms",
                     (json_int_t)prober.last.latency_ms, "history", prober.history);
}

const struct part prober_part = {.restart = prober_restart,
                                 .stop = prober_stop,
                                 .status = "probe",
                                 .status_json = prober_status_json};
