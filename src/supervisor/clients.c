/* The clients of the control socket (actions/control.h): one request each, answered at once or by
 * the end of a job. */
#include "supervisor/clients.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "actions/control.h"
#include "base/line.h"
#include "supervisor/condition_words.h"
#include "supervisor/decisions.h"
#include "supervisor/jobs.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/publisher.h"
#include "supervisor/world.h"

/* Each client sends one request. A request without a job is answered at once. Otherwise the job is
 * started, or waits until the running job ends, and the client receives its progress until it ends.
 * A client that disconnects changes nothing. */

/* After accept() failed for lack of descriptors. An immediate retry would keep the loop busy. */
#define LISTEN_AGAIN_MS 1000

struct client {
    int fd;                /* -1: free slot */
    bool waits;            /* waits for the end of the running job */
    struct request queued; /* request to start after the running job; ACTION_NONE: none */
};

static struct clients {
    int listener;        /* -1: not open yet */
    char socket[256];    /* path of the socket, for the lock file */
    mono_t listen_after; /* no client is accepted before this time; ms 0: no limit */
    struct client list[CLIENTS_MAX];
} clients;

static void clients_begin(struct world *w)
{
    (void)w;
    clients.listener = -1;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        clients.list[i].fd = -1;
}

static void close_client(struct client *c)
{
    worker_close(&c->fd);
    request_free(&c->queued);
}

/* The old socket is closed only after the new one is open, so that no connection attempt fails in
 * between. */
int clients_listen(struct world *w, struct err *e)
{
    char path[sizeof clients.socket];
    int fd = control_listen(w->cfg, path, e);
    if (fd < 0)
        return -1;
    memcpy(clients.socket, path, sizeof path);
    worker_close(&clients.listener);
    clients.listener = fd;
    worker_close_in_child(fd);
    return 0;
}

const char *clients_socket(void)
{
    return clients.socket;
}

/* Unused slots have the descriptor -1, which poll() ignores. */
void clients_fds(mono_t now, struct pollfd *p)
{
    p[0].fd = mono_reached(now, clients.listen_after) ? clients.listener : -1;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        p[1 + i].fd = clients.list[i].fd;
}

void clients_send(json_t *taken, bool last)
{
    json_auto_t *message = taken;
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        struct client *c = &clients.list[i];
        if (c->fd < 0 || !c->waits)
            continue;
        /* A client that reads too slowly misses progress messages, which does no harm. */
        if (message)
            worker_send(c->fd, message);
        if (last)
            close_client(c);
    }
}

/* Sends the final packet and closes the client. Takes `result`. */
static void clients_answer(struct client *c, json_t *result, const struct err *e)
{
    json_auto_t *o = json_pack("{s:{s:o*, s:o*}}", "done", "result", result, "error",
                               e ? worker_err_json(e) : NULL);
    worker_send(c->fd, o);
    close_client(c);
}

static void accept_client(void)
{
    struct err e;
    int fd = control_accept(clients.listener, &e);
    if (fd < 0 && e.cls != ERR_NONE) {
        if (!clients.listen_after.ms)
            log_line(LOG_ERROR_, "%s; clients must wait", e.text);
        clients.listen_after = mono_add(clock_mono(), LISTEN_AGAIN_MS);
        return;
    }
    clients.listen_after = (mono_t){0};
    if (fd < 0)
        return;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (clients.list[i].fd < 0) {
            clients.list[i] = (struct client){.fd = fd};
            worker_close_in_child(fd);
            return;
        }
    /* CLIENTS_MAX exceeds the number of people and monitors of one world. The limit keeps a script
     * that calls in a loop from growing the supervisor. */
    struct client none = {.fd = fd}; /* no free slot: this client only gets the error */
    err_set(&e, ERR_BUSY, 0, "%d requests wait already", CLIENTS_MAX);
    err_hint(&e, "one job at a time; end a waiting command with Ctrl-C");
    clients_answer(&none, NULL, &e);
}

static void pause_world(struct world *w, struct client *c, const struct request *r)
{
    struct err e;
    world_event(w, &(struct guard_event){.type = GUARD_PAUSE,
                                         .pause_ms = r->pause_ms,
                                         .pause_by_wall = r->until != NULL,
                                         .text = "requested manually"});
    if (w->guard.state != GUARD_PAUSED) { /* the guard does not pause while restoring */
        err_set(&e, ERR_BUSY, 0, "no pause while the state is %s",
                guard_state_name(w->guard.state));
        err_hint(&e, w->guard.state == GUARD_STANDBY
                         ? "there is nothing to pause on a standby: worldkeeper --pause on the "
                           "machine that keeps the world"
                         : "wait for the restore to end");
        clients_answer(c, NULL, &e);
        return;
    }
    /* The dump is stopped because it would hold locks in a server that an operator is about to
     * stop. */
    if (jobs_running() == ACTION_DUMP || jobs_is_spare())
        worker_stop(&w->job_worker, SIGTERM);
    w->state_dirty = true;
    clients_answer(c, publish_status_json(w), NULL);
}

/* Starts a job. Only one job runs at a time: a request that arrives meanwhile is queued. Takes the
 * request. */
static void clients_job(struct world *w, struct client *c, struct request *r)
{
    struct err e;
    if (jobs_busy(w)) {
        /* ACTION_NONE if the restore of a world that was just lost has not started yet. */
        enum action running = jobs_running();
        if (jobs_is_spare())
            worker_stop(&w->job_worker, SIGKILL);
        char text[128];
        line_set(text, sizeof text, "waiting for the running %s to end",
                 action_name(running ? running : ACTION_RESTORE));
        json_auto_t *o = json_pack("{s:s}", "note", text);
        worker_send(c->fd, o);
        c->queued = *r;
        return;
    } else {
        c->waits = true;
        if (jobs_start(w, r, &e) == 0)
            return;
        clients_answer(c, NULL, &e);
    }
    request_free(r);
}

static void clients_timers(struct world *w, mono_t mono)
{
    (void)mono;
    if (!w->stopping) {
        /* A forgotten pause without an end leaves the world unwatched, so it is reported after
         * max_pause. */
        wall_t now = clock_wall(), *since = &w->a->state.endless_since;
        int64_t limit = w->cfg->max_pause;
        char t[TEXT_SHORT];
        bool paused = guard_paused(&w->guard), endless = paused && w->guard.pause_until.ms == 0;
        if (endless != (since->ms != 0) || since->ms > now.ms) {
            since->ms = endless ? now.ms : 0;
            w->state_dirty = true;
        }
        if (endless && limit && now.ms - since->ms > limit)
            notify_open(
                w, CONDITION_PAUSE, NULL, "nothing: no dumps, and no restore after a loss",
                "to end the pause: worldkeeper --resume; to give it an end: worldkeeper --pause=2h",
                "paused for more than %s, and without an end", text_duration(limit, t));
        else
            notify_over(w, CONDITION_PAUSE,
                        paused ? "the pause has an end, or is allowed to last"
                               : "the pause is over");
    }
    /* Starts the first queued request. After that, jobs_busy() keeps the others waiting. */
    for (size_t i = 0; i < CLIENTS_MAX && !w->stopping && !jobs_busy(w); i++) {
        struct client *c = &clients.list[i];
        struct request r = c->queued;
        c->queued = (struct request){0};
        if (c->fd >= 0 && r.action != ACTION_NONE)
            clients_job(w, c, &r);
    }
}

/* Answers a client's request or starts its job. Takes the request. */
static void clients_request(struct world *w, struct client *c, struct request *r)
{
    /* Rows are put back only into a world that is up, or that an operator paused deliberately. */
    struct err e;
    /* A job started now would not reach the next supervisor. */
    if (w->stopping && r->action != ACTION_STATUS) {
        err_set(&e, ERR_BUSY, 0, "the supervisor is ending");
        err_hint(&e, "repeat the command in a few seconds; worldkeeper --status shows whether the "
                     "next supervisor runs");
        clients_answer(c, NULL, &e);
        request_free(r);
        return;
    }
    if (action_is(r->action, ACTION_JOB) &&
        !(r->apply && w->guard.state != GUARD_UP && w->guard.state != GUARD_PAUSED)) {
        clients_job(w, c, r);
        return;
    }
    if (r->action == ACTION_STATUS) {
        clients_answer(c, publish_status_json(w), NULL);
    } else if (r->action == ACTION_PAUSE) {
        pause_world(w, c, r);
    } else if (r->action == ACTION_RESUME) {
        world_event(w, &(struct guard_event){.type = GUARD_RESUME});
        w->state_dirty = true;
        prober_next(clock_mono());
        clients_answer(c, publish_status_json(w), NULL);
    } else if (r->apply) {
        err_set(&e, ERR_REFUSED, 0, "the world is not up: %s", w->guard.reason);
        err_hint(&e, "rows can be put back when the world is up; see worldkeeper --status");
        clients_answer(c, NULL, &e);
    } else {
        err_set(&e, ERR_USAGE, 0, "the supervisor knows no action '%s'", action_name(r->action));
        clients_answer(c, NULL, &e);
    }
    request_free(r);
}

void clients_message(struct world *w, size_t i)
{
    if (i == 0) {
        accept_client();
        return;
    }
    struct client *c = &clients.list[i - 1];
    struct request r;
    struct err e;
    bool closed;
    if (c->fd < 0) /* closed since it was polled */
        return;
    json_auto_t *o = worker_receive(c->fd, &closed);
    if (closed) {
        close_client(c); /* the job continues without this client */
    } else if (o && !c->waits && c->queued.action == ACTION_NONE) { /* one request per client */
        int rc = request_from_json(o, &r, &e);
        if (rc == 0 && r.world && (rc = control_refuse_other(w->cfg->name, r.world, &e)) < 0)
            request_free(&r);
        if (rc < 0)
            clients_answer(c, NULL, &e);
        else
            clients_request(w, c, &r);
    }
}

/* Answers the requests that arrived after the last poll. SIGTERM may be read in an iteration whose
 * poll only announced another signal, and then nothing else is polled. */
static void clients_stop(struct world *w)
{
    for (size_t i = 1; i < CLIENTS_FDS; i++)
        clients_message(w, i);
}

const struct part clients_part = {
    .begin = clients_begin, .timers = clients_timers, .stop = clients_stop};
