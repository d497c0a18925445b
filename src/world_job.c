/* Jobs of the supervisor: one at a time, in a worker, asked for by a timer, by the guard or through
 * the control socket; and the clients of that socket. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"
#include "core/js.h"
#include "core/log.h"
#include "restore/restore.h"
#include "world_int.h"

#define DUMP_RETRY_FIRST_MS 10000
#define DUMP_RETRY_MAX_MS 300000
#define TIDY_RETRY_MS 5000
#define LISTEN_AGAIN_MS 1000

void job_init(struct world *w)
{
    worker_init(&w->job.worker, "job");
    for (size_t i = 0; i < WORLD_CLIENTS; i++)
        w->clients[i].fd = -1;
}

static bool job_is(const struct world *w, const char *action)
{
    return w->job.request.action && strcmp(w->job.request.action, action) == 0;
}

void job_set_last_dump(struct world *w, const struct manifest *m)
{
    struct manifest copy = *m;
    copy.tables = NULL;
    copy.table_count = 0;
    w->last = copy;
    w->have_dump = true;
    int64_t age = clock_wall().ms - m->at.ms;
    if (age < 0)
        age = 0; /* made "in the future": the clock was set back */
    mono_t now = clock_mono();
    w->last_dump_mono = mono_add(now, -age);
    w->next_dump = mono_add(w->last_dump_mono, w->cfg->dump_interval);
    if (mono_reached(now, w->next_dump))
        w->next_dump = now;
    for (size_t i = 0; i < w->nonces.count; i++)
        if (strcmp(w->nonces.list[i], m->nonce) == 0)
            return;
    w->nonces.list = xrealloc(w->nonces.list, (w->nonces.count + 1) * sizeof *w->nonces.list);
    w->nonces.list[w->nonces.count++] = xstrdup(m->nonce);
}

/* ---- the child ---- */

struct job_child {
    int fd;
};

static void child_emit(void *arg, const json_t *o)
{
    worker_send(((struct job_child *)arg)->fd, o);
}

static int job_child_main(int fd, void *arg)
{
    struct world *w = arg;
    struct job_child c = {fd};
    struct err e = {0};
    json_t *result = NULL;
    w->a->emit = child_emit;
    w->a->emit_arg = &c;
    int rc = act_run(w->a, &w->job.request, &result, &e);
    json_t *done = json_object();
    if (result)
        json_object_set_new(done, "result", result);
    if (rc < 0)
        json_object_set_new(done, "error", worker_err_json(&e));
    json_t *o = json_pack("{s:o}", "done", done);
    if (worker_send(fd, o) < 0 &&
        result) { /* too large for one packet: the plan of very many tables */
        json_object_del(result, "plan");
        if (worker_send(fd, o) < 0) { /* or the list of very many dumps: how it ended says enough */
            json_object_del(done, "result");
            worker_send(fd, o);
        }
    }
    json_decref(o);
    return 0;
}

/* ---- start and end ---- */

static bool replaces_world(const struct request *r)
{
    return strcmp(r->action, "restore") == 0 && !r->into && !r->dry_run;
}

/* For the log: what does not touch the world must not read like what does. */
static void job_words(const struct request *r, char *out, size_t size)
{
    if (r->dry_run)
        snprintf(out, size, "dry run of a %s", r->action);
    else if (r->into)
        snprintf(out, size, "%s into schema %.80s", r->action, r->into);
    else
        snprintf(out, size, "%s", r->action);
}

static void restore_started(struct world *w)
{
    if (w->job.told_started)
        return;
    w->job.told_started = true;
    world_event(w, &(struct guard_event){.type = GUARD_RESTORE_STARTED,
                                         .by_hand = !w->job.request.automatic});
}

int job_start(struct world *w, struct request *r, struct err *e)
{
    if (w->job.request.action) {
        err_set(e, ERR_BUSY, 0, "a %s is running in world %s", w->job.request.action, w->cfg->name);
        err_hint(e, "one job at a time; worldkeeper --status shows how far it is");
        return -1;
    }
    w->job.request = *r;
    w->job.restores = replaces_world(r);
    w->job.since = clock_wall();
    w->job.told_stalled = w->job.told_started = false;
    if (strcmp(r->action, "dump") == 0)
        journal_dump_begins(w);
    if (worker_start(&w->job.worker, job_child_main, w, false, e) < 0) {
        w->job.request = (struct request){0};
        return -1;
    }
    w->status_dirty = true;
    char words[128];
    job_words(r, words, sizeof words);
    log_line(strcmp(r->action, "dump") == 0 ? LOG_INFO_ : LOG_NOTE_, "%s begins%s", words,
             r->automatic ? " by itself" : "");
    if (w->job.restores && r->automatic)
        restore_started(w);
    return 0;
}

static void to_clients(struct world *w, json_t *msg, bool last)
{
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        struct client *c = &w->clients[i];
        if (c->fd < 0 || !c->waits)
            continue;
        worker_send(c->fd, msg); /* a client too slow to read misses progress, which does no harm */
        if (last) {
            worker_forget_fd(c->fd);
            close(c->fd);
            c->fd = -1;
        }
    }
}

static void dump_done(struct world *w, const json_t *result)
{
    struct manifest m = {0};
    js_copy(result, "name", m.name, sizeof m.name);
    js_copy(result, "nonce", m.nonce, sizeof m.nonce);
    js_copy(result, "method", m.method, sizeof m.method);
    m.generation = (uint64_t)js_number(result, "generation", 0);
    m.sequence = (uint64_t)js_number(result, "sequence", 0);
    m.rows = (uint64_t)js_number(result, "rows", 0);
    m.bytes = (uint64_t)js_number(result, "bytes", 0);
    m.file_size = (uint64_t)js_number(result, "file_size", 0);
    m.at.ms = js_number(result, "at_unix", 0) * 1000;
    m.took_ms = (int64_t)(json_number_value(json_object_get(result, "seconds")) * 1000);
    manifest_read_point(json_object_get(result, "end_point"), &m.end);
    job_set_last_dump(w, &m);
    /* The interval counts from the end of this one: a dump longer than it must not follow itself.
     */
    w->next_dump = mono_add(clock_mono(), w->cfg->dump_interval);
    w->dump_failures = 0;
    journal_dump_done(w);
    w->next_heartbeat = clock_mono();
    char a[TEXT_SHORT], b[TEXT_SHORT];
    log_line(LOG_NOTE_, "dump %s stored: %s rows, %s, %.1f s", m.name, text_count(m.rows, a),
             text_size(m.file_size, b), (double)m.took_ms / 1000);
    tell_trouble(w, &w->discarded, EVENT_DISCARDED, false, NULL, "dumps are stored again", "",
                 "nothing");
}

static void dump_failed(struct world *w, const json_t *result, const struct err *e)
{
    const char *rejected = js_text(result, "rejected");
    int64_t wait = DUMP_RETRY_FIRST_MS << (w->dump_failures < 5 ? w->dump_failures : 5);
    if (wait > DUMP_RETRY_MAX_MS)
        wait = DUMP_RETRY_MAX_MS;
    if (wait > w->cfg->dump_interval || (rejected[0] && strstr(rejected, "shrink_limit")))
        wait = w->cfg->dump_interval;
    w->dump_failures++;
    w->next_dump = mono_add(clock_mono(), wait);
    tell_err(w, LOG_ERROR_, rejected[0] ? "dump discarded" : "dump failed", e);
    /* The world's own trouble is told by the guard; what probes do not meet stays with the dumps.
     */
    bool passing = e->cls == ERR_UNREACHABLE && w->dump_failures == 1;
    if (passing || e->cls == ERR_ABORTED || w->guard.state != GUARD_UP)
        return;
    char what[700], t[TEXT_SHORT];
    snprintf(what, sizeof what, "%s: %.600s", rejected[0] ? "dump discarded" : "dump failed",
             e->text);
    char doing[200];
    snprintf(doing, sizeof doing, "the older dumps stay as they are; the next try is in %s",
             text_duration(wait, t));
    char key[64];
    snprintf(key, sizeof key, "%s %d %s", err_class_name(e->cls), e->num,
             rejected[0] ? "rejected" : "failed");
    tell_trouble(w, &w->discarded, EVENT_DISCARDED, true, key, what, doing,
                 e->hint[0] ? e->hint : "look at the log");
}

static void adopt_state(struct world *w, const json_t *result)
{
    const json_t *o = json_object_get(result, "state");
    struct state *s = &w->a->state;
    struct state ours = *s; /* a worker may know of older ones only */
    if (!o)
        return;
    state_from_json(o, s);
    memcpy(s->last_restore, ours.last_restore, sizeof s->last_restore);
    memcpy(s->gaps, ours.gaps, sizeof s->gaps);
    w->state_dirty = true;
    w->expect = (struct expectation){.known = s->known, .server = s->server};
    snprintf(w->expect.nonce, sizeof w->expect.nonce, "%s", s->nonce);
    json_object_del(json_object_get(result, "state"), "last_restore");
}

/* Dumps that were passed over, as one line for people. */
static void add_skipped(struct world *w, const json_t *skipped)
{
    struct buf b = {0};
    for (size_t i = 0; i < json_array_size(skipped); i++) {
        const json_t *o = json_array_get(skipped, i);
        buf_printf(&b, "%s%s (%s)", i ? "; " : "", js_text(o, "dump"), js_text(o, "reason"));
    }
    if (b.len)
        js_set_clean(w->last_restore, "passed_over", b.p);
    buf_free(&b);
}

/* For the status of the next supervisor, and for what it decides: without its longest texts rather
 * than not at all. */
static void keep_last_restore(struct world *w)
{
    static const char *const texts[] = {"passed_over", "warning", NULL};
    struct state *s = &w->a->state;
    json_t *o = json_copy(w->last_restore);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    for (size_t i = 0; texts[i] && text && strlen(text) >= sizeof s->last_restore; i++) {
        json_object_del(o, texts[i]);
        free(text);
        text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    }
    if (text && strlen(text) < sizeof s->last_restore)
        snprintf(s->last_restore, sizeof s->last_restore, "%s", text);
    w->state_dirty = true;
    free(text);
    json_decref(o);
}

static void restore_done(struct world *w, json_t *result, bool ok)
{
    char at[TEXT_SHORT];
    if (!js_text(result, "dump")[0]) /* refused before a dump was chosen: nothing was restored */
        return;
    json_decref(w->last_restore);
    w->last_restore =
        json_pack("{s:s, s:b, s:O, s:O, s:O, s:O}", "at", text_utc(clock_wall(), at), "ok", ok,
                  "dump", json_object_get(result, "dump"), "rows", json_object_get(result, "rows"),
                  "seconds", json_object_get(result, "seconds"), "conflict_rows",
                  json_object_get(result, "conflict_rows"));
    if (!w->last_restore)
        return;
    add_skipped(w, json_object_get(result, "skipped"));
    json_t *lost = json_object_get(result, "lost_seconds");
    json_object_set_new(w->last_restore, "lost_seconds", js_or_null(lost));
    json_object_set_new(
        w->last_restore, "outage_seconds",
        w->guard.down_since_set
            ? json_real((double)mono_since(clock_mono(), w->guard.down_since) / 1000)
            : json_null());
    if (js_text(result, "warning")[0]) {
        log_line(LOG_WARN_, "restored, but: %s", js_text(result, "warning"));
        json_object_set(w->last_restore, "warning", json_object_get(result, "warning"));
    }
    if (json_object_get(result, "journal"))
        json_object_set(w->last_restore, "journal", json_object_get(result, "journal"));
    json_object_set(w->last_restore, "conflict_file", json_object_get(result, "conflict_file"));
    keep_last_restore(w);
}

static void restore_ended(struct world *w, json_t *result, const struct err *e, bool automatic,
                          bool started)
{
    struct guard_event ev = {.by_hand = !automatic};
    char text[600], rows[TEXT_SHORT];
    /* A probe that was asked before the end speaks of the world before: its answer is dropped. */
    w->probed.number++;
    w->probed.asked = false;
    w->probed.next = clock_mono();
    if (e || js_text(result, "warning")[0]) { /* something may have been left over */
        w->tidy_due = true;
        w->tidy_at = mono_add(clock_mono(), TIDY_RETRY_MS);
    }
    if (e) {
        restore_done(w, result, false);
        tell_err(w, LOG_ERROR_, "restore failed", e);
        if (!started)
            return;
        ev.type = GUARD_RESTORE_FAILED;
        ev.err = e;
        world_event(w, &ev);
        return;
    }
    restore_done(w, result, true);
    snprintf(text, sizeof text, "dump %.200s, %s rows in %.1f s", js_text(result, "dump"),
             text_count((uint64_t)js_number(result, "rows", 0), rows),
             json_number_value(json_object_get(result, "seconds")));
    ev.type = GUARD_RESTORE_OK;
    ev.text = text;
    w->next_dump = clock_mono(); /* the new generation's first dump */
    world_event(w, &ev);
}

void job_restore(struct world *w)
{
    struct request r = {
        .action = xstrdup("restore"), .automatic = true, .skip = guard_skip(&w->guard)};
    struct err e;
    w->journal.restore_waits = journal_busy(w);
    if (w->journal.restore_waits) {
        request_free(&r);
        return;
    }
    if (job_start(w, &r, &e) == 0)
        return;
    request_free(&r);
    world_event(w, &(struct guard_event){.type = GUARD_RESTORE_FAILED, .err = &e});
}

/* The action stands at the head of what its error says, for who typed it; here it is told before.
 */
static struct err without_action(const struct err *e, const char *action)
{
    struct err plain = *e;
    size_t n = strlen(action);
    if (text_starts(plain.text, action) && strncmp(plain.text + n, ": ", 2) == 0)
        memmove(plain.text, plain.text + n + 2, strlen(plain.text + n + 2) + 1);
    return plain;
}

/* The worker's last word, or what its silent death amounts to. */
static void job_result(struct world *w, json_t *result, const struct err *e)
{
    struct request r = w->job.request;
    struct err plain;
    char words[128], failed[144];
    if (e) {
        plain = without_action(e, r.action);
        e = &plain;
    }
    job_words(&r, words, sizeof words);
    snprintf(failed, sizeof failed, "%s failed", words);
    bool restores = w->job.restores, started = w->job.told_started;
    w->job.request = (struct request){0};
    json_decref(w->job.progress);
    w->job.progress = NULL;
    w->job.restores = false;
    w->status_dirty = true;
    if (e && !restores && strcmp(r.action, "dump") != 0)
        tell_err(w, LOG_ERROR_, failed, e);
    if (e && strcmp(r.action, "tidy") == 0) {
        w->tidy_due = true;
        w->tidy_at = mono_add(clock_mono(), 12 * TIDY_RETRY_MS);
    }
    if (!e)
        adopt_state(w, result);
    if (strcmp(r.action, "dump") == 0)
        e ? dump_failed(w, result, e) : dump_done(w, result);
    else if (restores)
        restore_ended(w, result, e, r.automatic, started);
    else if (strcmp(r.action, "init") == 0)
        w->probed.next = clock_mono();
    if (!e && !restores && strcmp(r.action, "dump") != 0)
        log_line(LOG_NOTE_, "%s done", words);
    request_free(&r);
    if (w->guard.state == GUARD_LOST) /* it had to wait for this job */
        job_restore(w);
}

static void swapping(struct world *w, const json_t *o)
{
    js_copy(o, "nonce", w->expect.next_nonce, sizeof w->expect.next_nonce);
}

void job_message(struct world *w)
{
    bool closed;
    json_t *o = worker_receive(w->job.worker.fd, &closed);
    if (closed) { /* how it ended is told by its death */
        worker_forget_fd(w->job.worker.fd);
        close(w->job.worker.fd);
        w->job.worker.fd = -1;
        return;
    }
    w->job.worker.heard = clock_mono();
    json_t *part;
    if ((part = json_object_get(o, "progress"))) {
        json_object_set_new(part, "job",
                            json_string(w->job.request.action ? w->job.request.action : ""));
        json_decref(w->job.progress);
        w->job.progress = json_incref(part);
        /* One by hand may be refused over a living world; it has begun when it loads. */
        if (w->job.restores && strcmp(js_text(part, "phase"), "loading") == 0)
            restore_started(w);
        to_clients(w, o, false);
    } else if ((part = json_object_get(o, "note"))) {
        log_line(LOG_NOTE_, "%s", json_string_value(part));
        to_clients(w, o, false);
    } else if ((part = json_object_get(o, "swapping"))) {
        swapping(w, part);
    } else if ((part = json_object_get(o, "done")) && w->job.request.action) {
        json_t *error = json_object_get(part, "error"), *result = json_object_get(part, "result");
        struct err e;
        if (error)
            worker_err_from(error, &e);
        worker_end(&w->job.worker); /* it exits now and is reaped without a name */
        job_result(w, result, error ? &e : NULL);
        json_object_del(json_object_get(part, "result"), "state");
        to_clients(w, o, true);
    }
    json_decref(o);
}

void job_ended(struct world *w, int wait_status)
{
    struct err e;
    pid_t pid = w->job.worker.pid;
    /* Its last words may still be there; with them, or their end, it is done with. */
    while (w->job.worker.fd >= 0 && w->job.worker.pid == pid)
        job_message(w);
    if (w->job.worker.pid != pid)
        return;
    if (w->job.request.action) {
        if (w->job.told_stalled)
            err_set(&e, ERR_STALLED, 0, "%s made no progress and was ended", w->job.request.action);
        else if (w->stopping || w->job.worker.told_to_stop)
            err_set(&e, ERR_ABORTED, 0, "%s was ended before it was done", w->job.request.action);
        else
            err_set(&e, ERR_SYSTEM, 0, "the worker of the %s died (%s %d)", w->job.request.action,
                    WIFSIGNALED(wait_status) ? "signal" : "exit",
                    WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
        worker_end(&w->job.worker);
        json_t *done = json_pack("{s:{s:o}}", "done", "error", worker_err_json(&e));
        /* whatever it left in the server is tidied up by the next one */
        job_result(w, NULL, &e);
        to_clients(w, done, true);
        json_decref(done);
        return;
    }
    worker_end(&w->job.worker);
}

void job_stop(struct world *w, int sig)
{
    worker_stop(&w->job.worker, sig);
}

static void watch_stall(struct world *w, mono_t now)
{
    bool restore = job_is(w, "restore") || job_is(w, "drill");
    int64_t limit = restore ? w->cfg->restore_stall : w->cfg->dump_stall;
    /* The dump waits up to its own limit for locks, so that this one comes after its own error. */
    if (!restore)
        limit += 15000;
    if (!w->job.request.action || w->job.told_stalled ||
        mono_since(now, w->job.worker.heard) < limit)
        return;
    w->job.told_stalled = true;
    char t[TEXT_SHORT];
    log_line(LOG_ERROR_, "%s: no progress for %s; ending it", w->job.request.action,
             text_duration(limit, t));
    if (w->job.restores)
        world_event(w, &(struct guard_event){.type = GUARD_RESTORE_STALLED});
    else
        job_stop(w, SIGKILL);
}

static void start_simple(struct world *w, const char *action)
{
    struct request r = {.action = xstrdup(action), .automatic = true};
    struct err e;
    if (job_start(w, &r, &e) == 0)
        return;
    request_free(&r);
    if (strcmp(action, "dump") == 0) {
        dump_failed(w, NULL, &e);
        return;
    }
    tell_err(w, LOG_ERROR_, action, &e);
    w->tidy_due = true;
    w->tidy_at = mono_add(clock_mono(), 12 * TIDY_RETRY_MS);
}

/* ---- clients ---- */

static void client_close(struct client *c)
{
    worker_forget_fd(c->fd);
    close(c->fd);
    c->fd = -1;
    request_free(&c->queued);
}

static void answer(struct client *c, json_t *result, const struct err *e)
{
    json_t *done = json_object();
    if (result)
        json_object_set_new(done, "result", result);
    if (e)
        json_object_set_new(done, "error", worker_err_json(e));
    json_t *o = json_pack("{s:o}", "done", done);
    worker_send(c->fd, o);
    json_decref(o);
    client_close(c);
}

void job_accept(struct world *w)
{
    struct err e;
    int fd = control_accept(w->listen_fd, &e);
    if (fd < 0 && e.cls != ERR_NONE) {
        if (!w->listen_after.ms)
            log_line(LOG_ERROR_, "%s; who calls waits", e.text);
        w->listen_after = mono_add(clock_mono(), LISTEN_AGAIN_MS);
        return;
    }
    w->listen_after = (mono_t){0};
    if (fd < 0)
        return;
    for (size_t i = 0; i < WORLD_CLIENTS; i++)
        if (w->clients[i].fd < 0) {
            w->clients[i] = (struct client){.fd = fd};
            worker_close_in_child(fd);
            return;
        }
    struct client none = {.fd = fd}; /* --status asks nothing that takes a place for long */
    err_set(&e, ERR_BUSY, 0, "%d requests wait already", WORLD_CLIENTS);
    err_hint(&e, "one job at a time; who waits is ended with Ctrl-C");
    answer(&none, NULL, &e);
}

static void client_pause(struct world *w, struct client *c, const struct request *r)
{
    struct err e;
    world_event(w, &(struct guard_event){
                       .type = GUARD_PAUSE, .pause_ms = r->pause_ms, .text = "asked for by hand"});
    if (w->guard.state != GUARD_PAUSED) {
        err_set(&e, ERR_BUSY, 0, "no pause while the state is %s",
                guard_state_name(w->guard.state));
        err_hint(&e, "wait for the restore to end");
        answer(c, NULL, &e);
        return;
    }
    if (job_is(w, "dump"))
        job_stop(w, SIGTERM);
    w->state_dirty = true;
    answer(c, tell_status_json(w), NULL);
}

/* One job at a time: what is asked for meanwhile has its turn afterwards. */
static void client_queue(struct world *w, struct client *c, struct request *r)
{
    char text[128];
    snprintf(text, sizeof text, "waiting for the running %s to end", w->job.request.action);
    json_t *o = json_pack("{s:s}", "note", text);
    worker_send(c->fd, o);
    json_decref(o);
    c->queued = *r;
    *r = (struct request){0};
}

static void client_job(struct world *w, struct client *c, struct request *r)
{
    struct err e;
    if (w->stopping) {
        err_set(&e, ERR_BUSY, 0, "the supervisor is ending");
        answer(c, NULL, &e);
        return;
    }
    if (w->job.request.action) {
        client_queue(w, c, r);
        return;
    }
    c->waits = true;
    if (job_start(w, r, &e) < 0)
        answer(c, NULL, &e);
    else
        *r = (struct request){0};
}

static void start_queued(struct world *w)
{
    for (size_t i = 0; i < WORLD_CLIENTS && !w->job.request.action; i++) {
        struct client *c = &w->clients[i];
        if (c->fd < 0 || !c->queued.action)
            continue;
        struct request r = c->queued;
        c->queued = (struct request){0};
        client_job(w, c, &r);
        request_free(&r);
    }
}

static bool is_job(const char *action)
{
    static const char *const jobs[] = {"dump", "restore", "drill", "init", "seal"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        if (strcmp(action, jobs[i]) == 0)
            return true;
    return false;
}

static void client_request(struct world *w, struct client *c, struct request *r)
{
    struct err e;
    if (strcmp(r->action, "status") == 0) {
        answer(c, tell_status_json(w), NULL);
    } else if (strcmp(r->action, "pause") == 0) {
        client_pause(w, c, r);
    } else if (strcmp(r->action, "resume") == 0) {
        world_event(w, &(struct guard_event){.type = GUARD_RESUME});
        w->state_dirty = true;
        w->probed.next = clock_mono();
        answer(c, tell_status_json(w), NULL);
    } else if (is_job(r->action)) {
        client_job(w, c, r);
    } else {
        err_set(&e, ERR_USAGE, 0, "the supervisor knows no action %s", r->action);
        answer(c, NULL, &e);
    }
}

void job_client_input(struct world *w, struct client *c)
{
    bool closed;
    json_t *o = worker_receive(c->fd, &closed);
    if (closed || c->waits || c->queued.action) {
        if (closed)
            client_close(c); /* the job goes on without a listener */
        json_decref(o);
        return;
    }
    if (!o)
        return;
    struct request r;
    struct err e;
    if (request_from_json(o, &r, &e) < 0)
        answer(c, NULL, &e);
    else
        client_request(w, c, &r);
    request_free(&r);
    json_decref(o);
}

void job_close_clients(struct world *w)
{
    for (size_t i = 0; i < WORLD_CLIENTS; i++)
        if (w->clients[i].fd >= 0)
            client_close(&w->clients[i]);
}

void job_timers(struct world *w, mono_t now)
{
    watch_stall(w, now);
    if (!w->stopping && !w->job.request.action && w->guard.state != GUARD_LOST)
        start_queued(w);
    if (w->stopping || w->job.request.action || w->guard.state != GUARD_UP)
        return;
    if (w->tidy_due && mono_reached(now, w->tidy_at)) {
        w->tidy_due = false;
        start_simple(w, "tidy");
    } else if (mono_reached(now, w->next_dump)) {
        start_simple(w, "dump");
    }
}
