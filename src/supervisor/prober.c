#include "supervisor/prober.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "supervisor/dumps.h"
#include "supervisor/world.h"
#include "watch/probe.h"

/* A question at each interval of the config, and never two at a time. What an answer proves is judged at once against what is expected
 * (watch/expect.h), and remembered in the state: it is what a later loss is measured against. */

/* As many as fit into a line of the status, at one letter each. */
#define HISTORY 8 /* verdicts that the status shows */

struct prober {
    struct expectation expect; /* what an answer is judged by */
    bool asked;
    uint64_t number; /* of the current question; an answer to an older one is dropped */
    mono_t asked_at, last_asked, next;
    uint64_t connection; /* number of the connection that the last answer came over */
    bool foreign;        /* the last sentinel row that could be judged is not ours */
    bool same_world;
    bool swapping;           /* a restore may swap its world in; it was not seen yet */
    struct observation last; /* as it came */
    char text[640], history[HISTORY + 1];
    wall_t at; /* of the last answer */
};

struct prober *prober_new(void)
{
    return xcalloc(1, sizeof(struct prober));
}

void prober_expect(struct world *w, const struct state *s, mono_t seen)
{
    struct prober *p = w->prober;
    p->expect = (struct expectation){.known = s->known, .server = s->server, .seen = seen};
    snprintf(p->expect.nonce, sizeof p->expect.nonce, "%s", s->nonce);
    if (!seen.ms) /* not the dump's that stands in for a lost state */
        p->connection = w->a->state.server.connection;
}

/* Also in the state: a supervisor that starts after a crash must know the world that may have been swapped in. */
void prober_expect_next(struct world *w, const char *nonce)
{
    struct state *s = &w->a->state;
    snprintf(w->prober->expect.next_nonce, sizeof w->prober->expect.next_nonce, "%s", nonce);
    snprintf(s->next, sizeof s->next, "%s", nonce);
    w->prober->swapping = true;
    s->gone_at = (wall_t){0};
}

/* The world is there: what a later loss is measured against. */
static void seen_alive(struct world *w, const struct observation *o)
{
    struct prober *p = w->prober;
    struct state *s = &w->a->state;
    p->same_world = s->known && strcmp(s->nonce, o->nonce) == 0 &&
                    s->server.start == o->server.start && s->server.pid == o->server.pid;
    /* Numbers of connections grow within one server process, and begin again with the next. */
    uint64_t highest = p->same_world ? s->server.connection : 0;
    p->swapping = false;
    if (!w->swaps && s->next[0]) { /* it is this one, or did not come */
        /* The worker of that restore died before it could report it. */
        if (strcmp(s->next, o->nonce) == 0) {
            struct state_made made = {0};
            snprintf(made.nonce, sizeof made.nonce, "%s", o->nonce);
            state_restored(s, &made);
            json_decref(w->last_restore);
            w->last_restore = json_loads(s->last_restore, 0, NULL);
        }
        s->next[0] = '\0';
    }
    s->known = true;
    s->alive_at = p->at;
    s->gone_at = (wall_t){0};
    s->server = o->server;
    if (s->server.connection < highest) /* a restore's connection is newer than the probe's */
        s->server.connection = highest;
    s->generation = o->generation > s->generation ? o->generation : s->generation;
    snprintf(s->nonce, sizeof s->nonce, "%s", o->nonce);
    p->expect.known = true;
    p->expect.server = s->server;
    p->expect.seen = clock_mono();
    snprintf(p->expect.nonce, sizeof p->expect.nonce, "%s", o->nonce);
    w->state_dirty |= !p->same_world;
}

/* Sets gone_at: since when it is proven that the lost world cannot be written to, as by an empty
 * world after a restart, or a dead server process, unless a restore is just putting it back: players
 * may write to what it swaps in before a probe sees that, and lose it again. A server that merely does not
 * answer changes nothing; any other verdict resets it, since the world may have been there in between. */
static void seen_gone(struct state *s, const struct observation *o, const struct judgement *j)
{
    bool emptied = (j->verdict == VERDICT_EMPTY || j->verdict == VERDICT_MISSING) && j->restarted;
    bool silent = j->verdict == VERDICT_UNREACHABLE || j->verdict == VERDICT_STALLED;
    if (!emptied && !silent)
        s->gone_at = (wall_t){0};
    else if ((emptied || o->dead) && s->gone_at.ms == 0)
        s->gone_at = clock_wall();
}

static void judge(struct world *w, const struct observation *o, struct judgement *j)
{
    struct prober *p = w->prober;
    /* A copy: what holds for this answer must not outlast it. */
    struct expectation expect = p->expect;
    size_t n = strlen(p->history);
    int64_t waited = mono_since(clock_mono(), p->asked_at) - o->latency_ms;
    /* The nonce of a stored dump is ours too: that dump was loaded by hand. */
    if (o->failed == VERDICT_NONE && o->rows == 1 && expect.known &&
        strcmp(o->nonce, expect.nonce) != 0 && dumps_know_nonce(w, o->nonce))
        snprintf(expect.next_nonce, sizeof expect.next_nonce, "%s", o->nonce);
    expect_judge(o, &expect, j);
    p->asked = false;
    p->last = *o;
    p->last_asked = p->asked_at;
    p->foreign = j->verdict == VERDICT_FOREIGN || (p->foreign && j->verdict != VERDICT_ALIVE);
    if (o->server.connection)
        p->connection = o->server.connection;
    /* Not the moment of now: the answer may have waited for us, while the server died. */
    p->at = (wall_t){clock_wall().ms - (waited > 0 ? waited : 0)};
    snprintf(p->text, sizeof p->text, "%s", j->text);
    /* The oldest letter makes room. */
    if (n == HISTORY)
        memmove(p->history, p->history + 1, n--);
    p->history[n] = verdict_letter(j->verdict);
    p->history[n + 1] = '\0';
    if (!p->swapping)
        seen_gone(&w->a->state, o, j);
    /* What is in a standby's server may be a copy of another machine's world. */
    if (j->verdict == VERDICT_ALIVE && !state_standby(&w->a->state, w->cfg))
        seen_alive(w, o);
}

/* The probe itself failed: of the server nothing is known. */
static bool stalled(struct world *w, const char *text, struct judgement *j)
{
    struct observation o = {.failed = VERDICT_STALLED,
                            .latency_ms = mono_since(clock_mono(), w->prober->asked_at)};
    snprintf(o.text, sizeof o.text, "%.500s", text);
    judge(w, &o, j);
    return true;
}

/* true: no process could be started. Questions are numbered: after a restore the answer to an older one would speak of
 * the world before. */
static bool ask(struct world *w, mono_t now, struct judgement *j)
{
    static struct probe_args args; /* read by the child after the fork */
    struct prober *p = w->prober;
    struct err e;
    args = (struct probe_args){.cfg = w->cfg, .db = w->a->job.db};
    p->asked_at = now;
    p->next = mono_add(now, w->cfg->probe_interval);
    if (w->probe_worker.pid == 0 &&
        worker_start(&w->probe_worker, probe_worker, &args, false, &e) < 0)
        return stalled(w, e.text, j);
    /* Without a world or a dump, or with a foreign world, our lock would only keep out the
     * supervisor that has one. */
    struct probe_question q = {.number = ++p->number,
                               .before = p->connection,
                               .may_watch =
                                   w->guard.state == GUARD_UP || (dumps_newest(w) && !p->foreign)};
    p->asked = worker_send_packet(w->probe_worker.fd, 0, &q, sizeof q) == 0;
    return false;
}

/* The child has time-outs of its own for connecting and querying; this one is for a child that
 * hangs in the client library or on the socket of a frozen server. */
bool prober_timers(struct world *w, mono_t now, struct judgement *out)
{
    struct prober *p = w->prober;
    char text[128], t[TEXT_SHORT];
    if (w->stopping)
        return false;
    if (!p->asked)
        return mono_reached(now, p->next) && ask(w, now, out);
    if (mono_since(now, p->asked_at) <= w->cfg->probe_timeout)
        return false;
    snprintf(text, sizeof text, "no answer in %s", text_duration(w->cfg->probe_timeout, t));
    prober_stop(w);
    return stalled(w, text, out);
}

bool prober_message(struct world *w, struct judgement *out)
{
    struct prober *p = w->prober;
    struct packet m;
    bool closed, asked = p->asked;
    if (worker_receive_packet(w->probe_worker.fd, &m, &closed)) {
        const struct probe_answer *a = packet_struct(&m, sizeof *a);
        if (!a || !asked || a->number != p->number)
            return false;
        judge(w, &a->seen, out);
        return true;
    }
    if (!closed)
        return false;
    worker_end(&w->probe_worker);
    p->asked = false;
    return asked && !w->stopping && stalled(w, "the probe's process died", out);
}

/* A millisecond more than the time-out, so that it is over when the loop wakes. */
int64_t prober_sleep(const struct world *w, mono_t now)
{
    const struct prober *p = w->prober;
    if (w->stopping) /* not even a time-out is awaited */
        return INT64_MAX;
    mono_t t = p->asked ? mono_add(p->asked_at, w->cfg->probe_timeout + 1) : p->next;
    return mono_reached(now, t) ? 0 : mono_since(t, now);
}

void prober_next(struct world *w, mono_t at)
{
    w->prober->next = at;
}

void prober_discard(struct world *w)
{
    w->prober->number++;
    w->prober->asked = w->prober->swapping = false;
    w->prober->next = clock_mono();
}

void prober_stop(struct world *w)
{
    worker_kill(&w->probe_worker);
}

void prober_restart(struct world *w)
{
    prober_stop(w);
    prober_discard(w);
}

const struct observation *prober_last(const struct world *w)
{
    return &w->prober->last;
}

mono_t prober_last_asked(const struct world *w)
{
    return w->prober->last_asked;
}

bool prober_same_world(const struct world *w)
{
    return w->prober->same_world;
}

json_t *prober_status_json(const struct world *w)
{
    const struct prober *p = w->prober;
    return json_pack("{s:s, s:o, s:o, s:I, s:s}", "verdict", verdict_name(w->guard.verdict), "text",
                     js_clean(p->text), "at", js_time(p->at), "latency_ms",
                     (json_int_t)p->last.latency_ms, "history", p->history);
}
