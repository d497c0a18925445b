#include "world.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"
#include "core/fault.h"
#include "core/js.h"
#include "core/log.h"
#include "report/notify.h"
#include "scribe.h"
#include "store/catalog.h"
#include "watch/probe.h"
#include "world_int.h"

#define SUSPECT_GRACE_MS 10000
#define RETRY_FIRST_MS 10000
#define RETRY_MAX_MS 300000
#define TICK_MS 1000
#define ONE_BY_ONE_MS 50
/* A tick this much too late, or clocks that moved this much apart, make us doubt ourselves. */
#define DOUBT_LATE_MS 5000
#define DOUBT_DRIFT_MS 2000
#define STATE_SAVE_MS 60000
#define SCRIBE_RETRY_MS 10000
#define SCRIBE_AGAIN_MS 1000   /* between two of them */
#define SCRIBE_SILENT_MS 20000 /* a look that is answered no sooner: its disk hangs */
#define STOP_JOB_MS 5000
#define READY_MS 10000 /* systemd waits no longer for the first answer */
#define STOP_ALL_MS 8000

static void guard_config_from(const struct config *c, struct guard_config *out)
{
    *out = (struct guard_config){.confirm = c->probe_confirm,
                                 .restore_auto = c->restore_auto,
                                 .restore_new_server = c->restore_new_server,
                                 .alert_repeat = c->alert_repeat,
                                 .suspect_grace = SUSPECT_GRACE_MS,
                                 .retry_first = RETRY_FIRST_MS,
                                 .retry_max = RETRY_MAX_MS};
}

int world_scribe(struct world *w, json_t *msg)
{
    int rc = w->scribe.fd >= 0 ? worker_send(w->scribe.fd, msg) : -1;
    json_decref(msg);
    return rc;
}

static void start_restore(struct world *w)
{
    /* A dump of an empty world is worth nothing; a seal is of files alone and may take long. */
    static const char *const give_way[] = {"dump", "seal", NULL};
    if (!w->job.request.action)
        job_restore(w);
    else if (text_among(w->job.request.action, give_way))
        job_stop(w, SIGKILL);
}

/* The only place that changes the state: decide, log, publish, alert, act. */
void world_event(struct world *w, const struct guard_event *ev)
{
    struct guard_answer a;
    char before[640];
    snprintf(before, sizeof before, "%s", w->guard.reason);
    guard_step(&w->guard, &w->guard_cfg, ev, clock_mono(), &a);
    if (a.changed && w->guard.state == GUARD_UP)
        w->lost_reason[0] = '\0';
    if (a.changed && w->guard.state == GUARD_LOST)
        snprintf(w->lost_reason, sizeof w->lost_reason, "%s", w->guard.reason);
    if (a.changed)
        log_line(LOG_NOTE_, "state %s -> %s: %s", guard_state_name(a.from),
                 guard_state_name(w->guard.state), w->guard.reason);
    else if (a.renewed && strcmp(before, w->guard.reason) != 0)
        log_line(LOG_NOTE_, "state %s: %s", guard_state_name(w->guard.state), w->guard.reason);
    if (a.changed && (a.from == GUARD_PAUSED || w->guard.state == GUARD_PAUSED))
        w->state_dirty = true;
    if (a.changed || a.renewed)
        tell_publish(w);
    tell_guard(w, &a);
    if (a.action == GUARD_START_RESTORE)
        start_restore(w);
    else if (a.action == GUARD_END_RESTORE)
        job_stop(w, SIGKILL);
}

static bool known_nonce(const struct world *w, const char *nonce)
{
    for (size_t i = 0; i < w->nonces.count; i++)
        if (strcmp(w->nonces.list[i], nonce) == 0)
            return true;
    return false;
}

/* The world is there: what a later loss is measured against. */
static void seen_alive(struct world *w, const struct observation *o)
{
    struct state *s = &w->a->state;
    bool news = !s->known || strcmp(s->nonce, o->nonce) != 0 || s->server.start != o->server.start;
    s->known = true;
    s->alive_at = clock_wall();
    s->server = o->server;
    s->generation = o->generation > s->generation ? o->generation : s->generation;
    snprintf(s->nonce, sizeof s->nonce, "%s", o->nonce);
    w->expect.known = true;
    w->expect.server = o->server;
    snprintf(w->expect.nonce, sizeof w->expect.nonce, "%s", o->nonce);
    if (news)
        w->state_dirty = true;
}

static void remember_probe(struct world *w, const struct observation *o, const struct judgement *j)
{
    struct probe_state *p = &w->probed;
    size_t n = strlen(p->history);
    p->last = *o;
    p->at = clock_wall();
    snprintf(p->text, sizeof p->text, "%s", j->text);
    if (n == 8)
        memmove(p->history, p->history + 1, 8);
    n = strlen(p->history);
    p->history[n] = verdict_letter(j->verdict);
    p->history[n + 1] = '\0';
}

static void tell_ready(struct world *w)
{
    if (w->ready)
        return;
    w->ready = true;
    notify_send("READY=1");
    w->status_dirty = true;
}

static void probe_result(struct world *w, const struct observation *o)
{
    struct judgement j;
    mono_t now = clock_mono();
    struct expectation expect = w->expect;
    if (o->failed == VERDICT_NONE && o->rows == 1 && expect.known &&
        strcmp(o->nonce, expect.nonce) != 0 && known_nonce(w, o->nonce))
        snprintf(expect.next_nonce, sizeof expect.next_nonce, "%s", o->nonce);
    expect_judge(o, &expect, &j);
    remember_probe(w, o, &j);
    w->probed.asked = false;
    if (j.verdict == VERDICT_ALIVE)
        seen_alive(w, o);
    world_event(w, &(struct guard_event){.type = GUARD_PROBED, .judgement = &j});
    w->probed.next = guard_next_probe(&w->guard, w->cfg->probe_interval, now);
    tell_ready(w);
}

static int start_probe(struct world *w, struct err *e)
{
    static struct probe_args args; /* read by the child after the fork */
    args = (struct probe_args){.cfg = w->cfg, .db = w->a->job.db};
    return worker_start(&w->probe, probe_worker, &args, false, e);
}

static void probe_failed(struct world *w, enum verdict v, const char *text)
{
    struct observation o = {.failed = v,
                            .latency_ms = mono_since(clock_mono(), w->probed.asked_at)};
    snprintf(o.text, sizeof o.text, "%s", text);
    probe_result(w, &o);
}

static void probe_ask(struct world *w, mono_t now)
{
    struct err e;
    if (w->probe.pid == 0 && start_probe(w, &e) < 0) {
        w->probed.asked_at = now;
        probe_failed(w, VERDICT_STALLED, e.text);
        w->probed.next = mono_add(now, TICK_MS);
        return;
    }
    json_t *ask = json_pack("{s:I}", "number", (json_int_t)++w->probed.number);
    int rc = worker_send(w->probe.fd, ask);
    json_decref(ask);
    w->probed.asked = rc == 0;
    w->probed.asked_at = now;
    w->probed.next = mono_add(now, w->cfg->probe_interval);
}

/* Connecting and asking have a time-out of their own inside; this one is for a child that hangs in
 * the client library or in a frozen server's socket. */
static void probe_timers(struct world *w, mono_t now)
{
    if (w->stopping)
        return;
    if (w->probed.asked && mono_since(now, w->probed.asked_at) > w->cfg->probe_timeout) {
        char text[128], t[TEXT_SHORT];
        snprintf(text, sizeof text, "no answer in %s", text_duration(w->cfg->probe_timeout, t));
        worker_stop(&w->probe, SIGKILL);
        worker_end(&w->probe); /* its death is reaped without a name */
        probe_failed(w, VERDICT_STALLED, text);
    } else if (!w->probed.asked && mono_reached(now, w->probed.next)) {
        probe_ask(w, now);
    }
}

static void probe_message(struct world *w)
{
    bool closed;
    json_t *j = worker_receive(w->probe.fd, &closed);
    if (closed) {
        worker_end(&w->probe);
        if (w->probed.asked && !w->stopping)
            probe_failed(w, VERDICT_STALLED, "the probe's process died");
        w->probed.asked = false;
        return;
    }
    if (j && w->probed.asked && (uint64_t)js_number(j, "number", 0) == w->probed.number) {
        struct observation o;
        probe_from_json(j, &o);
        probe_result(w, &o);
    }
    json_decref(j);
}

static int start_scribe(struct world *w, struct err *e)
{
    static struct scribe_args args;
    args = (struct scribe_args){.cfg = w->cfg, .dump_dirfd = w->a->job.dirfd};
    w->next_scribe = mono_add(clock_mono(), SCRIBE_AGAIN_MS);
    w->looked = (mono_t){0};
    return worker_start(&w->scribe, scribe_worker, &args, true, e);
}

static void scribe_away(struct world *w, const char *key, const char *why, const char *todo)
{
    char what[640];
    snprintf(what, sizeof what, "status, state and alerts are not written: %.500s", why);
    tell_trouble(w, &w->scribe_away, EVENT_DISK, true, key, what,
                 "trying on; alerts go out from memory, and the world is watched all the same",
                 todo);
}

/* One that is killed while its disk hangs dies when that goes on; there is no second one before. */
static void scribe_timers(struct world *w, mono_t now)
{
    struct err e;
    if (w->stopping)
        return;
    if (w->scribe.pid && w->looked.ms && mono_since(now, w->looked) > SCRIBE_SILENT_MS) {
        w->hung_scribe = w->scribe.pid;
        worker_stop(&w->scribe, SIGKILL);
        worker_end(&w->scribe);
        tell_given_back(w);
        scribe_away(w, "silent", "their disk does not answer",
                    "see the disks of [dump] dir and [status] dir, and the kernel's log");
    }
    if (w->scribe.pid || w->hung_scribe || !mono_reached(now, w->next_scribe))
        return;
    if (start_scribe(w, &e) < 0)
        scribe_away(w, "start", e.text, "see the limits of processes, descriptors and memory");
}

/* What could not be written is tried again after a while; said once for each kind of failure. */
static void scribe_failed(struct world *w, json_t *j)
{
    const char *failed = js_text(j, "failed");
    json_t *alert = json_object_get(j, "alert");
    mono_t again = mono_add(clock_mono(), SCRIBE_RETRY_MS);
    struct err e;
    char key[64], what[640];
    worker_err_from(json_object_get(j, "error"), &e);
    if (strcmp(failed, "state") == 0) {
        w->state_dirty = true;
        w->state_retry = again;
    } else if (alert) {
        tell_taken(w);
        tell_past_queue(w, alert);
    }
    snprintf(key, sizeof key, "%s %d", failed, e.num);
    snprintf(what, sizeof what, "%s cannot be written: %.500s", failed, e.text);
    /* It goes out all the same; what ails the disk is told of elsewhere. */
    if (strcmp(failed, "alert") == 0) {
        err_step(&e, "an alert cannot be stored and goes out from memory");
        if (strcmp(w->scribe_failed.key, key) != 0)
            tell_err(w, LOG_ERROR_, failed, &e);
        snprintf(w->scribe_failed.key, sizeof w->scribe_failed.key, "%s", key);
        return;
    }
    tell_trouble(w, strcmp(failed, "state") == 0 ? &w->state_failed : &w->publish, EVENT_DISK, true,
                 key, what, "trying again every 10 s; the world is watched all the same",
                 e.hint[0] ? e.hint : "see the directory's disk, owner and mode");
}

static void scribe_message(struct world *w)
{
    bool closed;
    json_t *j = worker_receive(w->scribe.fd, &closed);
    if (closed) { /* the next one is started in its time */
        worker_end(&w->scribe);
        tell_given_back(w);
        if (!w->stopping)
            scribe_away(w, "died", "their process died",
                        "nothing, if it stays at this; the kernel's log may say who killed it");
        return;
    }
    w->looked = (mono_t){0};
    if (js_text(j, "failed")[0])
        scribe_failed(w, j);
    else
        tell_look(w, j);
    json_decref(j);
}

static void reap(struct world *w)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == w->job.worker.pid)
            job_ended(w, status);
        for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
            if (pid == w->channels[ch].worker.pid)
                tell_delivery_ended(w, &w->channels[ch], status);
        if (pid == w->heartbeat.worker.pid)
            tell_delivery_ended(w, &w->heartbeat, status);
        if (pid == w->hung_scribe)
            w->hung_scribe = 0;
        /* probe and scribe are noticed by the end of their sockets */
    }
}

static bool same_identity(const struct config *a, const struct config *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->schema, b->schema) == 0 &&
           strcmp(a->dump_dir, b->dump_dir) == 0 && strcmp(a->sentinel, b->sentinel) == 0;
}

/* 1: stored dumps are not sealed by the key that counts from now on. */
static int reload_act(struct world *w, struct config *fresh, struct err *e)
{
    struct act next;
    if (act_open(&next, fresh, true, e) < 0)
        return -1;
    int rc = act_password(&next, e) < 0 ? -1 : seal_open(fresh, e);
    if (rc < 0) {
        act_close(&next);
        return -1;
    }
    next.state = w->a->state;
    next.emit = w->a->emit;
    act_close(w->a);
    *w->a = next;
    w->a->progress.arg = w->a;
    w->a->job.progress = &w->a->progress;
    w->a->job.note_arg = w->a;
    return rc && fresh->hmac_key_file;
}

static void warn_of_exposed(const struct config *c)
{
    const char *text;
    for (unsigned i = 0; (text = config_exposed(c, i)); i++)
        log_line(LOG_WARN_, "INSECURE: %s", text);
}

/* Whoever asked for it was told that it is done: systemctl only sends the signal. */
static void reload_refused(struct world *w, const struct err *e)
{
    char what[640];
    snprintf(what, sizeof what, "reload refused, the old config stays: %.580s", e->text);
    w->refused.on = false; /* each one is news */
    tell_trouble(w, &w->refused, EVENT_STARTED, true, NULL, what,
                 "keeping the world by the old config",
                 e->hint[0] ? e->hint : "mend the config and reload it again");
    if (e->hint[0])
        log_line(LOG_NOTE_, "HINT: %s", e->hint);
}

/* A broken config changes nothing: the old one stays in force, and that is said. */
static void reload(struct world *w)
{
    struct config *fresh = NULL;
    struct err e;
    notify_send("RELOADING=1");
    int rc = config_load(w->cfg->path, &fresh, &e);
    if (rc == 0 && !same_identity(w->cfg, fresh)) {
        rc = err_set(&e, ERR_CONFIG, 0, "world name, schema, dump dir or sentinel changed");
        err_hint(&e, "these need a restart of the supervisor");
    }
    w->reload_due =
        rc == 0 && w->job.request.action; /* it works with the config that it began with */
    if (w->reload_due) {
        log_line(LOG_NOTE_, "config %s is reloaded when the running %s ends", fresh->path,
                 w->job.request.action);
        config_free(fresh);
        notify_send("READY=1");
        return;
    }
    if (rc == 0)
        rc = reload_act(w, fresh, &e);
    if (rc < 0) {
        reload_refused(w, &e);
        config_free(fresh);
        notify_send("READY=1");
        return;
    }
    config_free(w->cfg);
    w->cfg = fresh;
    guard_config_from(fresh, &w->guard_cfg);
    journal_stop(w);
    worker_stop(&w->probe, SIGKILL);
    worker_end(&w->probe);
    worker_end(&w->scribe); /* it drains, ends, and a new one opens the new directories */
    tell_drained(w);
    w->next_scribe = clock_mono();
    w->probed.asked = false;
    w->probed.next = clock_mono();
    if (w->have_dump)
        w->next_dump = mono_add(w->last_dump_mono, fresh->dump_interval);
    log_line(LOG_NOTE_, "config %s reloaded", fresh->path);
    tell_trouble(w, &w->refused, EVENT_STARTED, false, NULL, "the config is taken again", "",
                 "nothing");
    if (rc) {
        log_line(LOG_NOTE_,
                 "the key of [dump] hmac_key_file is another one: a dump that it seals is taken at "
                 "once");
        w->next_dump = clock_mono();
    }
    warn_of_exposed(fresh);
    notify_send("READY=1");
}

static void begin_stop(struct world *w)
{
    if (w->stopping)
        return;
    w->stopping = true;
    notify_send("STOPPING=1");
    world_event(w, &(struct guard_event){.type = GUARD_STOP});
    if (w->job.request.action) {
        log_line(LOG_NOTE_, "ending the running %s", w->job.request.action);
        job_stop(w, SIGTERM);
    }
    w->stop_deadline = mono_add(clock_mono(), STOP_JOB_MS);
}

static void on_signals(struct world *w)
{
    struct signalfd_siginfo si;
    while (read(w->signal_fd, &si, sizeof si) == (ssize_t)sizeof si) {
        if (si.ssi_signo == SIGCHLD)
            reap(w);
        else if (si.ssi_signo != SIGHUP)
            begin_stop(w);
        else if (!w->stopping)
            reload(w);
    }
}

/* A machine that slept, a clock that jumped: first look again, then act. */
static void watch_ourselves(struct world *w, mono_t now)
{
    int64_t late = mono_since(now, w->last_tick) - TICK_MS, offset = clock_wall().ms - now.ms;
    int64_t drift = offset - w->wall_offset;
    char text[160], t[TEXT_SHORT];
    if (late > DOUBT_LATE_MS)
        snprintf(text, sizeof text, "this process stood still for %s", text_duration(late, t));
    else if (drift > DOUBT_DRIFT_MS || drift < -DOUBT_DRIFT_MS)
        snprintf(text, sizeof text, "the wall clock jumped by %s%s", drift < 0 ? "-" : "",
                 text_duration(drift < 0 ? -drift : drift, t));
    else
        text[0] = '\0';
    w->last_tick = now;
    w->wall_offset = offset;
    if (text[0]) {
        log_line(LOG_WARN_, "doubt: %s; acting again after fresh probes", text);
        world_event(w, &(struct guard_event){.type = GUARD_DOUBT, .text = text});
    }
}

static void save_state(struct world *w, mono_t now)
{
    bool due = mono_reached(now, w->next_state_save) ||
               (w->state_dirty && mono_reached(now, w->state_retry));
    if (w->job.restores || !due) /* the restore's worker writes the new world's state itself */
        return;
    w->next_state_save = mono_add(now, STATE_SAVE_MS);
    struct state *s = &w->a->state;
    bool paused = w->guard.state == GUARD_PAUSED ||
                  (w->guard.state == GUARD_RESTORING && w->guard.after == GUARD_PAUSED);
    if (!w->stopping) { /* a pause outlives this process */
        s->paused = paused;
        s->pause_until.ms = paused && w->guard.pause_until.ms
                                ? clock_wall().ms + mono_since(w->guard.pause_until, now)
                                : 0;
    }
    if (world_scribe(w, json_pack("{s:o}", "state", state_json(s))) == 0)
        w->state_dirty = false;
}

static void timers(struct world *w)
{
    if (w->reload_due && !w->job.request.action)
        reload(w);
    mono_t now = clock_mono();
    if (mono_since(now, w->last_tick) >= TICK_MS) {
        watch_ourselves(w, now);
        world_event(w, &(struct guard_event){.type = GUARD_TICK});
    }
    if (mono_since(now, w->began) > READY_MS)
        tell_ready(w);
    probe_timers(w, now);
    job_timers(w, now);
    journal_timers(w, now);
    scribe_timers(w, now);
    tell_timers(w, now);
    save_state(w, now);
}

static int64_t until(mono_t now, mono_t t)
{
    return t.ms > now.ms ? t.ms - now.ms : 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How long the loop may sleep: to the next tick, question or time-out, whatever comes first. */
static int64_t sleep_ms(struct world *w, mono_t now)
{
    int64_t ms = until(now, mono_add(w->last_tick, TICK_MS));
    if (w->probed.asked)
        ms = smaller(ms, until(now, mono_add(w->probed.asked_at, w->cfg->probe_timeout + 1)));
    else if (!w->stopping)
        ms = smaller(ms, until(now, w->probed.next));
    return w->status_dirty ? 0 : ms;
}

enum {
    POLL_SIGNAL,
    POLL_LISTEN,
    POLL_PROBE,
    POLL_SCRIBE,
    POLL_JOB,
    POLL_BEAT,
    POLL_JOURNAL,
    POLL_CHANNEL,
    POLL_CLIENT = POLL_CHANNEL + ALERT_CHANNELS,
    POLL_COUNT = POLL_CLIENT + WORLD_CLIENTS
};

static void fill_poll(const struct world *w, mono_t now, struct pollfd *p)
{
    int listen_fd = mono_reached(now, w->listen_after) ? w->listen_fd : -1;
    const int fds[] = {w->signal_fd,        listen_fd,        w->probe.fd,
                       w->scribe.fd,        w->job.worker.fd, w->heartbeat.worker.fd,
                       w->journal.worker.fd};
    for (size_t i = 0; i < POLL_COUNT; i++)
        p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        p[i].fd = fds[i];
    for (size_t i = 0; i < ALERT_CHANNELS; i++)
        p[POLL_CHANNEL + i].fd = w->channels[i].worker.fd;
    for (size_t i = 0; i < WORLD_CLIENTS; i++)
        p[POLL_CLIENT + i].fd = w->clients[i].fd;
}

/* More places than the process may have descriptors are refused, whatever is in them: then each is
 * looked at by itself. */
static int wait_poll(struct pollfd *p, int64_t ms)
{
    int n = poll(p, POLL_COUNT, (int)ms);
    if (n >= 0 || errno == EINTR)
        return n;
    usleep((useconds_t)smaller(ms, ONE_BY_ONE_MS) * 1000);
    n = 0;
    for (size_t i = 0; i < POLL_COUNT; i++)
        if (p[i].fd >= 0 && poll(&p[i], 1, 0) > 0)
            n++;
    return n;
}

static void handle_poll(struct world *w, const struct pollfd *p)
{
    if (p[POLL_PROBE].revents)
        probe_message(w);
    if (p[POLL_SCRIBE].revents)
        scribe_message(w);
    if (p[POLL_JOB].revents)
        job_message(w);
    if (p[POLL_JOURNAL].revents)
        journal_message(w);
    if (p[POLL_BEAT].revents)
        tell_delivery_message(w, &w->heartbeat, ALERT_CHANNELS);
    for (enum alert_channel i = 0; i < ALERT_CHANNELS; i++)
        if (p[POLL_CHANNEL + i].revents)
            tell_delivery_message(w, &w->channels[i], i);
    for (size_t i = 0; i < WORLD_CLIENTS; i++)
        if (p[POLL_CLIENT + i].revents && w->clients[i].fd >= 0)
            job_client_input(w, &w->clients[i]);
    if (p[POLL_LISTEN].revents)
        job_accept(w);
    if (p[POLL_SIGNAL].revents) /* last: what a dead worker said before is read first */
        on_signals(w);
}

static bool finished(struct world *w)
{
    mono_t now = clock_mono();
    if (!w->stopping)
        return false;
    if (w->job.request.action == NULL)
        return !journal_busy(w) || mono_reached(now, w->stop_deadline);
    if (mono_reached(now, w->stop_deadline))
        job_stop(w, SIGKILL);
    return mono_reached(now, mono_add(w->stop_deadline, STOP_ALL_MS - STOP_JOB_MS));
}

static void loop(struct world *w)
{
    struct pollfd p[POLL_COUNT];
    while (!finished(w)) {
        mono_t before = clock_mono();
        int64_t ms = sleep_ms(w, before);
        fill_poll(w, before, p);
        int n = wait_poll(p, ms);
        mono_t woke = clock_mono();
        if (n > 0)
            handle_poll(w, p);
        timers(w);
        /* Lateness: over-sleeping plus the time this round took. */
        int64_t late = n == 0 ? mono_since(woke, before) - ms : 0;
        late += mono_since(clock_mono(), woke);
        if (late > w->late_ms)
            w->late_ms = late;
        if (late > w->late_ms_max)
            w->late_ms_max = late;
        if (w->next_watchdog.ms && mono_reached(woke, w->next_watchdog)) {
            notify_send("WATCHDOG=1");
            w->next_watchdog = mono_add(woke, notify_watchdog_ms());
        }
    }
}

static int open_signals(struct world *w, struct err *e)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    w->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return w->signal_fd < 0 ? err_sys(e, errno, "cannot open a signal descriptor") : 0;
}

static void learn_nonces(struct world *w, const struct catalog *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].intact && !known_nonce(w, c->list[i].m.nonce)) {
            w->nonces.list =
                xrealloc(w->nonces.list, (w->nonces.count + 1) * sizeof *w->nonces.list);
            w->nonces.list[w->nonces.count++] = xstrdup(c->list[i].m.nonce);
        }
}

/* What the disk remembers: dumps, the last ALIVE, a pause, a restore that was cut off. */
static int recall(struct world *w, struct err *e)
{
    struct catalog c;
    struct pending p;
    struct state *s = &w->a->state;
    if (catalog_load(w->a->job.dirfd, w->cfg->name, &c, e) < 0)
        return -1;
    if (pending_load(w->a->job.dirfd, &p, e) < 0) {
        catalog_free(&c);
        return -1;
    }
    learn_nonces(w, &c);
    const struct catalog_entry *newest = catalog_newest(&c, 0);
    if (newest)
        job_set_last_dump(w, &newest->m);
    w->last_restore = s->last_restore[0] ? json_loads(s->last_restore, 0, NULL) : NULL;
    w->expect.known = s->known;
    w->expect.server = s->server;
    snprintf(w->expect.nonce, sizeof w->expect.nonce, "%s", s->nonce);
    if (!s->known && newest) { /* state.json lost: the newest dump knows the same */
        w->expect.known = true;
        w->expect.server = newest->m.server;
        snprintf(w->expect.nonce, sizeof w->expect.nonce, "%s", newest->m.nonce);
    }
    if (p.there) {
        snprintf(w->expect.next_nonce, sizeof w->expect.next_nonce, "%s", p.nonce);
    }
    w->tidy_due = true; /* shadows of a restore that was killed may be there without it */
    pending_free(&p);
    catalog_free(&c);
    return 0;
}

static void resume_pause(struct world *w)
{
    const struct state *s = &w->a->state;
    int64_t left = s->pause_until.ms - clock_wall().ms;
    if (s->paused && (s->pause_until.ms == 0 || left > 0))
        world_event(
            w, &(struct guard_event){.type = GUARD_PAUSE,
                                     .pause_ms = s->pause_until.ms ? left : 0,
                                     .text = "paused before the supervisor was started again"});
}

/* A killed predecessor's worker may hold the lock for a moment longer than it. */
static int take_lock(struct world *w, struct err *e)
{
    for (int i = 0; i < 30; i++) {
        w->lock_fd = act_lock(w->a, e);
        if (w->lock_fd >= 0 || e->cls != ERR_BUSY)
            break;
        usleep(100000);
    }
    return w->lock_fd < 0 ? -1 : 0;
}

static int open_all(struct world *w, struct err *e)
{
    char socket[256] = "";
    gethostname(w->host, sizeof w->host - 1);
    if (take_lock(w, e) < 0)
        return -1;
    w->listen_fd = control_listen(w->cfg, socket, e);
    if (w->listen_fd < 0 || open_signals(w, e) < 0)
        return -1;
    act_lock_tell(w->lock_fd, socket);
    worker_close_in_child(w->listen_fd);
    worker_close_in_child(w->signal_fd);
    fault_supervisor(getpid());
    return recall(w, e) < 0 ? -1 : start_scribe(w, e);
}

static void close_all(struct world *w)
{
    job_close_clients(w);
    journal_stop(w);
    worker_stop(&w->probe, SIGKILL);
    for (enum alert_channel i = 0; i < ALERT_CHANNELS; i++)
        worker_stop(&w->channels[i].worker,
                    SIGKILL); /* what they sent is marked; the rest stays queued */
    worker_stop(&w->heartbeat.worker, SIGKILL);
    w->state_dirty = true;
    w->state_retry = (mono_t){0};
    save_state(w, clock_mono());
    pid_t scribe = w->scribe.pid;
    worker_end(&w->scribe); /* it writes what it has and ends */
    for (int i = 0; scribe > 0 && i < 250 && waitpid(scribe, NULL, WNOHANG) == 0; i++)
        usleep(20000);
}

static void free_all(struct world *w)
{
    worker_end(&w->probe);
    worker_end(&w->scribe);
    worker_end(&w->job.worker);
    worker_end(&w->heartbeat.worker);
    for (enum alert_channel i = 0; i < ALERT_CHANNELS; i++) {
        worker_end(&w->channels[i].worker);
        json_decref(w->channels[i].past);
    }
    json_decref(w->unsent);
    json_decref(w->given);
    json_decref(w->last_restore);
    json_decref(w->job.progress);
    db_names_free(&w->nonces);
    manifest_free(&w->last);
    const int fds[] = {w->listen_fd, w->signal_fd, w->lock_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    act_close(w->a);
    config_free(w->cfg);
    free(w);
}

int world_run(struct act *a, struct config *cfg, struct err *e)
{
    struct world *w = xcalloc(1, sizeof *w);
    w->a = a;
    w->cfg = cfg;
    w->lock_fd = w->listen_fd = w->signal_fd = -1;
    worker_init(&w->probe, "probe");
    worker_init(&w->scribe, "scribe");
    w->began = w->last_tick = clock_mono();
    w->wall_offset = clock_wall().ms - w->last_tick.ms;
    guard_init(&w->guard, w->last_tick);
    guard_config_from(cfg, &w->guard_cfg);
    job_init(w);
    journal_init(w);
    tell_init(w);
    int rc = open_all(w, e);
    if (rc == 0) {
        char t[TEXT_SHORT];
        log_line(LOG_NOTE_, "worldkeeper %s keeps world %s (schema %s), a dump every %s into %s",
                 WK_VERSION, cfg->name, cfg->schema, text_duration(cfg->dump_interval, t),
                 cfg->dump_dir);
        warn_of_exposed(cfg);
        tell_alert(w, EVENT_STARTED, "new", "supervisor started", "probing the world", "nothing",
                   NULL);
        if (notify_watchdog_ms())
            w->next_watchdog = clock_mono();
        tell_publish(w);
        resume_pause(w);
        loop(w);
        tell_publish(w);
        close_all(w);
        log_line(LOG_NOTE_, "ended");
    }
    free_all(w);
    return rc;
}
