/* Scheduled drills and verifies ([drill], [verify]): when one begins, what delays it, and its
 * result. A drill is a job. A verify only reads files and has its own worker, so that dumps need
 * not wait for it. Both are stopped at once if the world has to be restored. */
#include "supervisor/drills.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/history.h"
#include "actions/run.h"
#include "base/fault.h"
#include "base/js.h"
#include "base/line.h"
#include "base/machine.h"
#include "mysql/conn.h"
#include "supervisor/condition_words.h"
#include "supervisor/dumps.h"
#include "supervisor/notifier.h"
#include "supervisor/recorder.h"
#include "supervisor/schedule.h"
#include "supervisor/world.h"

/* Both kinds are scheduled (schedule.h), give way to all other work, and are reported in the same
 * words. The last result is kept in state.json, for the status of the next supervisor. */

#define LOOK_MS fault_wait(10000)
#define AGAIN_MS fault_wait(600000) /* pause after a run that was interrupted or could not begin */
/* After so many failures in a row for a passing reason, the failure is reported. */
#define PASSING_MAX 3

enum { DRILL, VERIFY, KINDS };

/* State of a drill or a verify. Both become due, are delayed and are reported in the same way. They
 * differ in execution: a drill is a job, a verify is a worker beside the jobs. */
struct work {
    /* The state before the current run, because an interrupted run does not count. */
    struct state_work before;
    bool runs; /* true while a scheduled run is in progress */
    mono_t look, not_before;
    char held[160]; /* why it is due but does not begin; "": it is not due, or it begins */
    unsigned passing;
};

static struct drills {
    struct worker verify;
    struct work work[KINDS];
} drills;

static const struct {
    enum condition_id condition;
    const char *name, *plural;
} kinds[KINDS] = {{CONDITION_DRILL, "drill", "drills"}, {CONDITION_VERIFY, "verify", "verifies"}};

static const struct config_work *config_of(const struct world *w, int kind)
{
    return kind == DRILL ? &w->cfg->drill : &w->cfg->verify;
}

static struct state_work *drills_state_of(const struct world *w, int kind)
{
    return kind == DRILL ? &w->a->state.drill : &w->a->state.verify;
}

/* Records the start. The state is written at the next save; a supervisor that dies before that
 * repeats one drill. */
static void began_now(struct world *w, int kind)
{
    struct state_work *s = drills_state_of(w, kind);
    s->ran = true;
    s->at = clock_wall();
    w->state_dirty = true;
}

/* ---- when a run is due ---- */

/* Returns whether a drill lacks memory, or may lack it: a server that runs out of memory is killed,
 * and its world is lost. */
static bool lacks_memory(const struct world *w, int kind, char *out, size_t size)
{
    const struct config_mysql *m = &w->cfg->mysql;
    uint64_t need = dumps_newest()->in_memory;
    char world[TEXT_SHORT], there[TEXT_SHORT];
    if (kind != DRILL || (m->host && !config_is_here(m->host)))
        return false; /* the memory of another machine is not checked */
    int64_t available = memory_available();
    if (schedule_has_room(need, available))
        return false;
    if (available < 0)
        line_set(out, size,
                 "it is unknown how much memory is available: /proc/meminfo cannot be read "
                 "(a unit with ProcSubset=pid hides it)");
    else
        line_set(out, size,
                 "not enough memory for a second world: %s available, but the world needs %s",
                 text_size((uint64_t)available, there), text_size(need, world));
    return true;
}

/* Writes the reason why due work does not begin; "": it may begin. */
static void look_what_holds(const struct world *w, int kind, char *out, size_t size)
{
    /* The machine's load as a share of its processors, in percent; -1: not known. */
    double average;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    double load =
        getloadavg(&average, 1) == 1 && processors > 0 ? average * 100 / (double)processors : -1;
    unsigned most = config_of(w, kind)->max_load;
    out[0] = '\0';
    if (w->guard.state != GUARD_UP && w->guard.state != GUARD_STANDBY)
        snprintf(out, size, "the world is not up");
    else if (!dumps_newest())
        snprintf(out, size, "there is no dump yet");
    else if (lacks_memory(w, kind, out, size))
        return;
    else if (load > (double)most)
        line_set(out, size, "the machine is busy: load %.0f%%, max_load %u%%", load, most);
}

/* Checks the schedule at intervals; returns whether the run is to begin now. */
static bool is_due(struct world *w, int kind, mono_t now)
{
    const struct config_work *c = config_of(w, kind);
    struct work *k = &drills.work[kind];
    wall_t wall = clock_wall();
    if (c->interval == 0 || w->stopping || !mono_reached(now, k->look))
        return false;
    k->look = mono_add(now, LOOK_MS);
    struct state_work *past = drills_state_of(w, kind);
    w->state_dirty |= schedule_settle(past, wall);
    k->held[0] = '\0';
    bool due = schedule_next(c, past, wall).ms <= wall.ms;
    if (due && k->runs)
        snprintf(k->held, sizeof k->held, "the last one has not ended");
    else if (due)
        look_what_holds(w, kind, k->held, sizeof k->held);
    bool begins = due && !k->held[0] && mono_reached(now, k->not_before);
    /* A run that begins now is no longer overdue: after the machine was off for days, the run
     * begins without an alert. */
    if (!begins && schedule_overdue(c, past, wall) &&
        (w->guard.state == GUARD_UP || w->guard.state == GUARD_STANDBY)) {
        char t[TEXT_SHORT], headline[80];
        line_set(headline, sizeof headline, "no %s for %s", kinds[kind].name,
                 text_duration(wall.ms - past->at.ms, t));
        notify_open_as(w, kinds[kind].condition, "overdue", headline,
                       c->at ? "it begins at its time of day if nothing prevents it then"
                             : "it begins as soon as nothing prevents it",
                       dumps_newest()
                           ? "set another time of day (at) or a higher max_load, or add memory"
                       : w->guard.state == GUARD_STANDBY
                           ? "worldkeeper --list --from offsite shows what the store has"
                           : "worldkeeper --check shows what prevents dumps",
                       "no %s has begun for %s%s%s", kinds[kind].name,
                       text_duration(wall.ms - past->at.ms, t), k->held[0] ? ": " : "", k->held);
    }
    return begins;
}

static void supervisor_drills_begun(struct world *w, int kind)
{
    struct work *k = &drills.work[kind];
    k->before = *drills_state_of(w, kind);
    k->runs = true;
    began_now(w, kind); /* recorded so that the next supervisor does not repeat the run */
    w->status_dirty = true;
}

/* Called last by jobs.c: a drill has the lowest priority among the jobs. */
bool drills_due(struct world *w, mono_t now)
{
    return is_due(w, DRILL, now);
}

void drills_begun(struct world *w)
{
    supervisor_drills_begun(w, DRILL);
}

/* ---- the result of a run ---- */

/* Returns whether a run that ends with this error counts as the last one. */
static bool run_counts(const struct work *k, const struct err *e)
{
    /* These errors say nothing about dump and journal: the run was stopped, the server is
     * unreachable or refuses, locks are held, or no connection is free. */
    bool passing = e && (e->cls == ERR_ABORTED || e->cls == ERR_UNREACHABLE || e->cls == ERR_BUSY ||
                         e->cls == ERR_REFUSED || e->cls == ERR_STALLED || db_no_connection(e));
    return !passing || (e->cls != ERR_ABORTED && k->runs && k->passing + 1 >= PASSING_MAX);
}

bool drills_count(const struct world *w, const struct request *r, const struct err *e)
{
    return history_counts(w->cfg, r) && run_counts(&drills.work[DRILL], e);
}

static void supervisor_drills_ended(struct world *w, int kind, json_t *fields /* taken */,
                                    const struct err *e)
{
    struct work *k = &drills.work[kind];
    bool by_clock = k->runs, counts = run_counts(k, e);
    k->runs = false;
    w->status_dirty = true;
    if (!counts) {
        json_decref(fields);
        if (by_clock) {
            k->passing += e->cls != ERR_ABORTED;
            *drills_state_of(w, kind) = k->before;
            w->state_dirty = true;
        }
        k->not_before = mono_add(clock_mono(), AGAIN_MS);
        return;
    }
    k->passing = 0;
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
    /* A long error does not fit into the state. */
    struct state_work *s = drills_state_of(w, kind);
    SCOPED(buf_free) struct buf error = {0};
    const char *text = js_text(fields, "error");
    if (text[0]) {
        text_clean(&error, text, 400);
        js_set_clean(fields, "error", error.p);
    }
    json_object_set_new(fields, "at", js_time(clock_wall()));
    /* Escaped quotes may more than double the length, and a manual request may name a long
     * source. */
    static const char *const texts[] = {"error", "from"};
    size_t size = json_dumpb(fields, s->last, sizeof s->last - 1, flags);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && size >= sizeof s->last; i++) {
        json_object_del(fields, texts[i]);
        size = json_dumpb(fields, s->last, sizeof s->last - 1, flags);
    }
    s->last[size < sizeof s->last ? size : 0] = '\0';
    json_decref(fields);
    w->state_dirty = w->status_dirty = true;
    char key[CONDITION_KEY];
    if (!e) {
        notify_over(w, kinds[kind].condition, "the last %s passed", kinds[kind].name);
        return;
    }
    notify_open(w, kinds[kind].condition, condition_key(key, e),
                "keeping the world; the next attempt shows whether the problem remains",
                e->hint[0] ? e->hint
                : kind == DRILL
                    ? "to repeat it: worldkeeper --drill; to read the dumps: worldkeeper --verify"
                    : "worldkeeper --verify shows what is wrong with each dump",
                "%s failed: %s", kinds[kind].name, e->text);
}

void drills_ended(struct world *w, const struct request *r, const json_t *result,
                  const struct err *e)
{
    if (!history_counts(w->cfg, r))
        return;
    if (!r->automatic && !e) /* it counts like a scheduled drill */
        began_now(w, DRILL);
    supervisor_drills_ended(w, DRILL, history_fields(r, result, e), e);
}

/* ---- the worker of the verify ---- */

static const struct request verify_all = {.action = ACTION_VERIFY, .automatic = true};

/* A verify may read dumps for hours. It is not a job, so that dumps and restores continue beside
 * it. */
static int drills_child_main(int fd, void *arg)
{
    struct action_context *a = ((struct world *)arg)->a;
    struct err e = {0};
    json_t *result = NULL;
    a->emit = NULL;
    bool failed = action_run(a, &verify_all, &result, &e) < 0;
    json_auto_t *o =
        json_pack("{s:o, s:o*}", "fields", history_fields(&verify_all, result, failed ? &e : NULL),
                  "error", failed ? worker_err_json(&e) : NULL);
    json_decref(result);
    worker_send_json(fd, 0, o);
    return 0;
}

static void verify_ended(struct world *w, json_t *fields /* taken */, const struct err *e)
{
    json_t *record = json_deep_copy(fields);
    if (!run_counts(&drills.work[VERIFY], e))
        history_discount(record);
    history_add(w, HISTORY_VERIFY, record);
    w->poll_disk = true; /* the verify may have found a damaged dump */
    if (e)
        world_log_err(w, LOG_ERROR_, "verify", e);
    else
        log_line(LOG_NOTE_, "verify done: all %" JSON_INTEGER_FORMAT " dumps are intact",
                 (json_int_t)js_within(fields, "whole", 0, INT64_MAX, 0));
    supervisor_drills_ended(w, VERIFY, fields, e);
}

/* Handles the result of the verify. A worker that ends without a result was killed. */
static void drills_message(struct world *w, struct worker *v, const struct packet *m)
{
    struct err e = {0};
    bool stopped = v->stop_requested;
    json_auto_t *o = m ? packet_json(m, 0) : NULL;
    const json_t *error = json_object_get(o, "error");
    if (error)
        worker_err_from(error, &e);
    if (!o)
        err_set(&e, stopped ? ERR_ABORTED : ERR_SYSTEM, 0,
                stopped ? "verify was stopped before it finished"
                        : "the worker of the verify died");
    worker_end(v);
    verify_ended(
        w, o ? json_deep_copy(json_object_get(o, "fields")) : history_fields(&verify_all, NULL, &e),
        e.cls == ERR_NONE ? NULL : &e);
}

static void drills_stop(struct world *w)
{
    (void)w;
    worker_stop(&drills.verify, SIGKILL);
}

/* Returns whether an open failure waits for a manual drill, whichever supervisor reported the
 * failure. A manual verify is not reported here. */
static bool waits_for_hand(const struct world *w, int kind)
{
    const struct condition *shown = &w->conditions[kinds[kind].condition];
    if (kind == VERIFY || shown->on)
        return kind == DRILL && strcmp(shown->key, "overdue") != 0;
    json_auto_t *last = json_loads(drills_state_of(w, kind)->last, 0, NULL);
    return last && !js_flag(last, "ok");
}

static void drills_timers(struct world *w, mono_t now)
{
    const struct worker *v = &drills.verify;
    enum guard_state s = w->guard.state;
    bool gives_way = w->stopping || s == GUARD_LOST || s == GUARD_RESTORING || s == GUARD_PAUSED;
    if (v->pid && gives_way && !v->stop_requested)
        drills_stop(w);
    for (int i = 0; i < KINDS; i++)
        if (config_of(w, i)->interval == 0 && !waits_for_hand(w, i))
            notify_over(w, kinds[i].condition, "%s are no longer scheduled", kinds[i].plural);
    if (is_due(w, VERIFY, now) && !v->pid) {
        struct err e;
        supervisor_drills_begun(w, VERIFY);
        log_line(LOG_NOTE_, "a scheduled verify begins");
        if (worker_start(&drills.verify, drills_child_main, w, false, &e) < 0)
            verify_ended(w, history_fields(&verify_all, NULL, &e), &e);
    }
}

/* ---- what is published ---- */

static json_t *next_json(const struct world *w, int kind)
{
    const struct config_work *c = config_of(w, kind);
    const struct work *k = &drills.work[kind];
    struct state_work past = *drills_state_of(w, kind);
    wall_t now = clock_wall();
    if (c->interval == 0)
        return json_null();
    schedule_settle(&past, now);
    /* The next run begins at the later of its scheduled time and the end of the pause after an
     * interrupted run. */
    int64_t in = schedule_next(c, &past, now).ms - now.ms,
            again = mono_since(k->not_before, clock_mono());
    in = in > again ? in : again;
    if (in < 0)
        in = 0;
    json_t *o = json_pack("{s:o, s:I, s:b}", "at", js_time((wall_t){now.ms + in}), "in_seconds",
                          (json_int_t)(in / 1000), "running", (int)k->runs);
    json_object_set_new(o, "held", k->held[0] ? js_clean(k->held) : json_null());
    return o;
}

void drills_status(const struct world *w, json_t *status)
{
    for (int i = 0; i < KINDS; i++) {
        char last[16], next[16];
        snprintf(last, sizeof last, "last_%s", kinds[i].name);
        snprintf(next, sizeof next, "next_%s", kinds[i].name);
        json_t *was = json_loads(drills_state_of(w, i)->last, 0, NULL);
        json_object_set_new(status, last, was ? was : json_null());
        json_object_set_new(status, next, next_json(w, i));
    }
}

static void drills_begin(struct world *w)
{
    world_worker(w, &drills.verify, "verify", drills_message);
}

const struct part drills_part = {
    .begin = drills_begin, .timers = drills_timers, .stop = drills_stop};
