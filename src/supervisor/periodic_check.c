/* Runs the failure rules of --check while the world lives: daily, and after a reload. */
#include "supervisor/periodic_check.h"

#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "check/check.h"
#include "supervisor/condition_words.h"
#include "supervisor/jobs.h"
#include "supervisor/notifier.h"
#include "supervisor/world.h"

#define FIRST_MS 60000 /* after the start, so that dumps and probes have settled */
#define EVERY_MS 86400000
#define AGAIN_MS 600000 /* while a rule fails, so that the fix is noticed soon */
#define LIMIT_MS 120000 /* a check that takes longer hangs, and is killed */

static struct periodic_check {
    struct worker worker;
    mono_t next;
} periodic_check;

/* Runs in a fork, since the rules log in, resolve names and access disks, and each of these may
 * block. */
static int periodic_check_child_main(int fd, void *arg)
{
    const struct world *w = arg;
    json_auto_t *o = check_again(w->cfg, w->a->password.p);
    if (o)
        worker_send_json(fd, 0, o);
    return 0;
}

static void periodic_check_stop(struct world *w)
{
    (void)w;
    worker_kill(&periodic_check.worker);
}

/* Judges the result of a check, unless the world is down meanwhile. */
static void periodic_check_judge(struct world *w, const json_t *o)
{
    const char *what = js_text(o, "what");
    char key[64];
    if (w->guard.state != GUARD_UP)
        return;
    /* The key is the length and the beginning of the text, because it holds only 63 bytes. If other
     * rules fail, the key differs and the failure is reported again. */
    snprintf(key, sizeof key, "%zu %.50s", strlen(what), what);
    if (what[0])
        notify_open(w, CONDITION_CHECK, key, "keeping the world; what needs this will fail",
                    js_text(o, "hint"), "%s", what);
    else
        notify_over(w, CONDITION_CHECK, "all --check rules pass again");
    periodic_check.next = mono_add(clock_mono(), what[0] ? AGAIN_MS : EVERY_MS);
}

static void periodic_check_message(struct world *w, struct worker *v, const struct packet *m)
{
    json_auto_t *o = m ? packet_json(m, 0) : NULL;
    if (!m)
        worker_end(v);
    else if (o)
        periodic_check_judge(w, o);
}

static void periodic_check_timers(struct world *w, mono_t now)
{
    struct err e;
    if (periodic_check.worker.pid &&
        (w->stopping || mono_since(now, periodic_check.worker.started) > LIMIT_MS))
        periodic_check_stop(w);
    if (w->guard.state == GUARD_STANDBY)
        notify_over(w, CONDITION_CHECK, "another machine keeps the world");
    /* A check does not run beside a job, because it would find the locks and the connections of the
     * job. */
    if (periodic_check.worker.pid || w->stopping || w->guard.state != GUARD_UP || jobs_running() ||
        !mono_reached(now, periodic_check.next))
        return;
    periodic_check.next = mono_add(now, AGAIN_MS);
    if (worker_start(&periodic_check.worker, periodic_check_child_main, w, false, &e) < 0)
        world_log_err(w, LOG_WARN_, "the daily check", &e);
}

static void periodic_check_restart(struct world *w)
{
    if (periodic_check.worker.pid)
        periodic_check_stop(w);
    periodic_check.next = clock_mono();
}

static void periodic_check_begin(struct world *w)
{
    world_worker(w, &periodic_check.worker, "check", periodic_check_message);
    periodic_check.next = mono_add(clock_mono(), FIRST_MS);
}

const struct part periodic_check_part = {.begin = periodic_check_begin,
                                         .timers = periodic_check_timers,
                                         .restart = periodic_check_restart,
                                         .stop = periodic_check_stop};
