#include "supervisor/periodic_check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "check/check.h"
#include "supervisor/jobs.h"

#define FIRST_MS 60000 /* after the start, when dumps and probes have settled */
#define EVERY_MS 86400000
#define AGAIN_MS 600000 /* while something fails, so that the fix is noticed soon */
#define LIMIT_MS 120000 /* for a check that hangs: killed then */

struct periodic_check {
    struct worker worker;
    mono_t next;
};

static void message(struct world *w, struct worker *v, const struct packet *m);

struct periodic_check *periodic_check_new(struct world *w)
{
    struct periodic_check *c = xcalloc(1, sizeof *c);
    world_worker(w, &c->worker, "check", message);
    c->next = mono_add(clock_mono(), FIRST_MS);
    return c;
}

/* In a fork, since the rules log in, resolve names and look at disks: all of it may block. */
static int child_main(int fd, void *arg)
{
    const struct world *w = arg;
    json_auto_t *o = check_again(w->cfg, w->a->password.p);
    if (o)
        worker_send_json(fd, 0, o);
    return 0;
}

void periodic_check_stop(struct world *w)
{
    worker_kill(&w->periodic_check->worker);
}

/* Ignored if the world went down meanwhile. */
static void judge(struct world *w, const json_t *o)
{
    const char *what = js_text(o, "what");
    char key[64];
    if (w->guard.state != GUARD_UP)
        return;
    /* The beginning and the length: other rules that fail are other news, though a key holds only 63 bytes. */
    snprintf(key, sizeof key, "%zu %.50s", strlen(what), what);
    if (what[0])
        notify_open(w, CONDITION_CHECK, key, "keeping the world; what needs this will fail",
                    js_text(o, "hint"), "%s", what);
    else
        notify_over(w, CONDITION_CHECK, "all that --check examines is in order again");
    w->periodic_check->next = mono_add(clock_mono(), what[0] ? AGAIN_MS : EVERY_MS);
}

static void message(struct world *w, struct worker *v, const struct packet *m)
{
    json_auto_t *o = m ? packet_json(m, 0) : NULL;
    if (!m)
        worker_end(v);
    else if (o)
        judge(w, o);
}

void periodic_check_timers(struct world *w, mono_t now)
{
    struct periodic_check *c = w->periodic_check;
    struct err e;
    if (c->worker.pid && (w->stopping || mono_since(now, c->worker.started) > LIMIT_MS))
        periodic_check_stop(w);
    /* Not beside a job: it would find the locks and the connections of that. */
    if (c->worker.pid || w->stopping || w->guard.state != GUARD_UP || jobs_running(w) ||
        !mono_reached(now, c->next))
        return;
    c->next = mono_add(now, AGAIN_MS);
    if (worker_start(&c->worker, child_main, w, false, &e) < 0)
        world_log_err(w, LOG_WARN_, "the daily check", &e);
}

void periodic_check_soon(struct world *w)
{
    if (w->periodic_check->worker.pid)
        periodic_check_stop(w);
    w->periodic_check->next = clock_mono();
}
