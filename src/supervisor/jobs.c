#include "supervisor/jobs.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "actions/history.h"
#include "actions/run.h"
#include "base/fault.h"
#include "base/fence.h"
#include "base/js.h"
#include "base/line.h"
#include "supervisor/condition_words.h"
#include "supervisor/decisions.h"
#include "supervisor/drills.h"
#include "supervisor/dump_end.h"
#include "supervisor/dumps.h"
#include "supervisor/follower.h"
#include "supervisor/job_child.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/recorder.h"
#include "supervisor/restore_end.h"
#include "supervisor/world.h"

/* A job's life:
 *
 *   jobs_start()     takes the request and forks the child
 *   job_child()      runs action_run(), then sends the outcome and the text for clients
 *                    (job_child.c)
 *   jobs_message()   passes progress and notes to the clients, keeps the outcome; the last packet
 *                    ends the job
 *   jobs_died()      replaces the last packet if the child died without an outcome
 *   jobs_ended()          does what follows for the state, the dumps (dump_end.c), the world
 *                    (restore_end.c), the journal, the guard and the history
 *
 * The child has a copy of all memory, and its changes there are lost when it exits. So the state
 * that it saved to the disk comes back in the outcome (restore_adopt_state()). */

/* A tidy job queries the server, which may still have the problem that made the tidy necessary. */
#define TIDY_RETRY_MS fault_wait(5000)
#define TIDY_FAILED_MS fault_wait(60000)
/* The dump's own error must come first, because it names the lock that the dump waited for. */
#define DUMP_STALL_EXTRA_MS 15000

static struct jobs {
    struct request request; /* ACTION_NONE: no job */
    wall_t since;
    /* `alive_at` of the state when the job began: it belongs to the world that the job replaces. */
    wall_t alive_at;
    mono_t began;
    json_t *progress;    /* last {"phase",…} of the job; or NULL */
    bool replaces_world; /* false for --into, --dry-run and single tables */
    bool announced;      /* the guard knows of this restore */
    bool stalled;        /* the job is being stopped because it made no progress */
    bool ended;          /* `outcome` is filled */
    /* This machine may be a standby according to the state that the job has saved. */
    bool stepping_back;
    struct job_outcome outcome; /* as received from the worker */
    /* jobs_await_dir(): the answer held back from the clients; or NULL. */
    json_t *other_dir;
    bool tidy_due;
    mono_t tidy_at;
} jobs;

void jobs_recall(struct world *w)
{
    restore_recall(w);
    jobs.tidy_due = true; /* even then, a killed restore may have left shadow tables */
}

static void tidy_at(mono_t at)
{
    jobs.tidy_due = true;
    jobs.tidy_at = at;
}

void jobs_tidy_soon(void)
{
    tidy_at(clock_mono());
}

enum action jobs_running(void)
{
    return jobs.request.action;
}

bool jobs_busy(const struct world *w)
{
    return jobs_running() != ACTION_NONE || w->guard.state == GUARD_LOST;
}

bool jobs_is_spare(void)
{
    return jobs_running() == ACTION_DRILL && jobs.request.automatic;
}

bool jobs_save_state(void)
{
    enum action action = jobs.request.action;
    return jobs.replaces_world || action == ACTION_DEMOTE || action == ACTION_SWITCH_OVER;
}

static void set_request(struct world *w, const struct request *r)
{
    jobs.request = *r;
    w->job = r->action;
    w->swaps = request_swaps(r) || r->action == ACTION_TIDY;
    w->only = request_swaps(r) ? jobs.request.tables : NULL;
}

bool jobs_await_dir(void)
{
    return jobs.other_dir != NULL;
}

static json_t *jobs_status_json(const struct world *w)
{
    (void)w;
    if (jobs.request.action == ACTION_NONE)
        return json_null();
    json_t *o = jobs.progress ? json_copy(jobs.progress) : json_object();
    json_object_set_new(o, "job", json_string(action_name(jobs.request.action)));
    json_object_set_new(o, "since", js_time(jobs.since));
    return o;
}

/* ---- start ---- */

/* Describes the job for the log, where a dry run or a restore into another schema must not read
 * like a restore of the world. */
static void job_words(const struct request *r, char *out, size_t size)
{
    if (r->apply)
        line_set(out, size, "%sputting back of conflict rows", r->dry_run ? "dry run of " : "");
    else if (r->dry_run)
        line_set(out, size, "dry run of a %s", action_name(r->action));
    else if (r->into)
        line_set(out, size, "%s into schema %s", action_name(r->action), r->into);
    else if (r->tables)
        line_set(out, size, "%s of table %s", action_name(r->action), r->tables);
    else
        line_set(out, size, "%s", action_name(r->action));
}

/* Notifies the guard, once per restore. */
static void jobs_announce(struct world *w)
{
    if (jobs.announced)
        return;
    jobs.announced = true;
    world_event(w, &(struct guard_event){.type = GUARD_RESTORE_STARTED,
                                         .by_hand = !jobs.request.automatic});
}

int jobs_start(struct world *w, struct request *r, struct err *e)
{
    struct job_child child = {.a = w->a, .request = &jobs.request};
    char words[128];
    if (jobs.request.action != ACTION_NONE) {
        err_set(e, ERR_BUSY, 0, "a %s is running in world %s", action_name(jobs.request.action),
                w->cfg->name);
        return err_hint(e, "one job at a time; worldkeeper --status shows how far it is");
    }
    /* Checked before the fork, because a job that may not act would only fail later. */
    /* A promotion takes the lease first of all. */
    bool takes = r->action == ACTION_PROMOTE;
    /* A standby is refused later with a better message. */
    bool standby = state_standby(&w->a->state, w->cfg);
    if (request_swaps(r) && !takes && !standby && fence_check(action_name(r->action), e) < 0)
        return -1;
    set_request(w, r);
    jobs.replaces_world = request_swaps(r) && !r->tables;
    jobs.since = clock_wall();
    jobs.alive_at = w->a->state.alive_at;
    jobs.began = clock_mono();
    jobs.stalled = jobs.announced = jobs.ended = jobs.stepping_back = false;
    /* Called before the fork, because a gap that is found after the time of the dump must not count
     * as covered by it. */
    if (r->action == ACTION_DUMP)
        follower_dump_begins();
    if (worker_start(&w->job_worker, job_child, &child, false, e) < 0) {
        set_request(w, &(struct request){0});
        jobs.replaces_world = false;
        return -1;
    }
    w->status_dirty = true;
    job_words(r, words, sizeof words);
    log_line(r->action == ACTION_DUMP ? LOG_INFO_ : LOG_NOTE_, "%s begins%s", words,
             r->automatic ? " automatically" : "");
    if (jobs.replaces_world && r->automatic)
        jobs_announce(w);
    return 0;
}

/* ---- the start of a drill ---- */

static void start_drill(struct world *w)
{
    struct request r = {.action = ACTION_DRILL,
                        .automatic = true,
                        .from = w->cfg->drill.offsite ? xstrdup("offsite") : NULL};
    struct err e;
    drills_begun(w);
    if (jobs_start(w, &r, &e) == 0)
        return;
    drills_ended(w, &r, NULL, &e);
    request_free(&r);
}

/* ---- the end of any job ---- */

/* Removes the action's name from the beginning of an error's text. It is meant for the command
 * line; the supervisor's own texts name the action already. */
static void strip_action(struct err *e, const char *action)
{
    size_t n = strlen(action);
    if (text_starts(e->text, action) && strncmp(e->text + n, ": ", 2) == 0)
        memmove(e->text, e->text + n + 2, strlen(e->text + n + 2) + 1);
}

/* Ends the job: after this, no job runs. */
static void jobs_let_go(struct world *w, const struct request *r)
{
    set_request(w, &(struct request){0});
    if (request_swaps(r))
        notify_over(w, CONDITION_BLOCKED, "no restore waits for other sessions");
    json_decref(jobs.progress);
    jobs.progress = NULL;
    jobs.replaces_world = false;
    follower_leaves(false);
    w->status_dirty = w->poll_disk = true; /* the job may have found a damaged dump */
}

static void jobs_adopt(struct world *w, enum action action, const struct job_outcome *out)
{
    if (out->new_state) {
        restore_adopt_state(w, action, jobs.began, &out->state);
    } else if (out->died && jobs.stepping_back) {
        w->a->state.role =
            ROLE_STANDBY; /* the job may have saved this role; the other machine may take over */
        w->state_dirty = true;
    }
}

static void jobs_record(struct world *w, const struct request *r, const json_t *result,
                        const struct err *e)
{
    enum history_kind kind = history_of(r, result, e);
    if (kind == HISTORY_KINDS)
        return;
    json_t *o = history_fields(r, result, e);
    if (kind == HISTORY_DRILL && !drills_count(w, r, e))
        history_discount(o);
    if (kind == HISTORY_RESTORE) {
        json_object_set_new(o, "outage_seconds", restore_outage_json(w));
        history_conflict(w->cfg, result, o);
    }
    history_add(w, kind, o);
}

/* Does what follows from the end of each kind of action. */
static void follow_up(struct world *w, const struct request *r, const struct manifest *dump,
                      const json_t *result, const struct err *e)
{
    if (r->action == ACTION_DUMP) {
        dump_ended(w, dump, result, e);
    } else if (request_swaps(r)) {
        /* A restore that succeeded without a warning leaves nothing to tidy up. */
        if (e || js_text(result, "warning")[0])
            tidy_at(mono_add(clock_mono(), TIDY_RETRY_MS));
        restore_ended(w, r, jobs.announced, result, e);
    } else if (r->action == ACTION_INIT || r->action == ACTION_NEW_ROUND) {
        round_ended(w, dump, result, e);
    } else if (r->action == ACTION_DRILL) {
        drills_ended(w, r, result, e);
        if (e) /* the drill may have left its scratch schema */
            jobs_tidy_soon();
    }
}

/* Handles the end of a job. `out` holds the worker's own report, or the error for a worker that
 * died without one. The order matters:
 * - No job runs when the other parts learn of the end.
 * - The state describes the current world before the history and the guard read it.
 * - The journal restarts before the guard judges the restored world. */
static void jobs_ended(struct world *w, struct job_outcome *out, const json_t *result)
{
    struct request r = jobs.request;
    const struct err *e = out->failed ? &out->error : NULL;
    char words[128], failed[144];
    bool quiet = jobs.replaces_world || r.action == ACTION_DUMP;
    strip_action(&out->error, action_name(r.action));
    job_words(&r, words, sizeof words);
    line_set(failed, sizeof failed, "%s failed", words);
    jobs_let_go(w, &r);
    if (e && !quiet)
        world_log_err(w, LOG_ERROR_, failed, e);
    if (e && r.action == ACTION_TIDY)
        tidy_at(mono_add(clock_mono(), TIDY_FAILED_MS));
    jobs_adopt(w, r.action, out);
    jobs_record(w, &r, result, e);
    /* --at restores up to the end of a second, which may include changes later than alive_at. */
    if (!e && request_swaps(&r))
        follower_restored(w, js_text(result, "dump"), (wall_t){jobs.alive_at.ms - 1000});
    follow_up(w, &r, &out->dump, result, e);
    if (!e && !quiet)
        log_line(LOG_NOTE_, "%s done", words);
    request_free(&r);
}

/* Handles the worker's final packet. The clients receive the result after the supervisor has acted
 * on it. */
static json_t *jobs_done(struct world *w, json_t *o, bool *last)
{
    const struct err *e = &jobs.outcome.error;
    worker_end(&w->job_worker); /* the worker exits now; the loop reaps it later */
    if (jobs.outcome.failed && e->cls == ERR_CHANGED && e->num == ACTION_OTHER_DIR &&
        !w->stopping) {
        jobs.other_dir = o;
        return NULL;
    }
    *last = true;
    jobs_ended(w, &jobs.outcome, json_object_get(json_object_get(o, "done"), "result"));
    return o;
}

json_t *jobs_dir_changed(struct world *w, const struct err *why, bool *last)
{
    struct request r = jobs.request;
    struct err e = why ? *why : (struct err){0};
    json_t *o = jobs.other_dir;
    bool announced = jobs.announced, replaces_world = jobs.replaces_world;
    jobs.other_dir = NULL;
    *last = false;
    if (!why) {
        set_request(w, &(struct request){0});
        if (jobs_start(w, &r, &e) == 0) {
            jobs.announced |= announced;
            json_decref(o);
            return NULL;
        }
        set_request(w, &r);
        jobs.announced = announced;
        jobs.replaces_world = replaces_world;
    }
    jobs.outcome.error = e;
    json_object_set_new(json_object_get(o, "done"), "error", worker_err_json(&e));
    *last = true;
    jobs_ended(w, &jobs.outcome, json_object_get(json_object_get(o, "done"), "result"));
    return o;
}

static void jobs_progress(struct world *w, json_t *part)
{
    json_object_set_new(part, "job", json_string(action_name(jobs.request.action)));
    json_decref(jobs.progress);
    jobs.progress = json_incref(part);
    /* A manual restore may be refused if the world is alive. It has really begun when it loads
     * rows. */
    if (jobs.replaces_world && strcmp(js_text(part, "phase"), "loading") == 0)
        jobs_announce(w);
}

json_t *jobs_message(struct world *w, bool *last)
{
    struct packet m;
    bool closed;
    *last = false;
    if (!worker_receive_packet(w->job_worker.fd, &m, &closed)) {
        if (closed) /* jobs_died() reports the outcome */
            worker_close(&w->job_worker.fd);
        return NULL;
    }
    w->job_worker.heard = clock_mono();
    if (m.type == JOB_SWAPPING && packet_struct(&m, NONCE_LEN + 1)) {
        prober_expect_next(w, m.data);
        return NULL;
    }
    if (m.type == JOB_STEPPING_BACK) {
        jobs.stepping_back = true;
        follower_leaves(true);
        return NULL;
    }
    if (m.type == JOB_OUTCOME) {
        const struct job_outcome *out = packet_struct(&m, sizeof *out);
        jobs.ended = out != NULL;
        if (out)
            jobs.outcome = *out;
        if (jobs.outcome.failed)
            worker_err_clean(&jobs.outcome.error);
        return NULL;
    }
    json_t *o = packet_json(&m, 0), *part;
    if (m.type == JOB_DONE && jobs.ended && o)
        return jobs_done(w, o, last);
    if ((part = json_object_get(o, "progress")))
        jobs_progress(w, part);
    else if ((part = json_object_get(o, "note")))
        log_line(LOG_NOTE_, "%s", json_string_value(part));
    else if ((part = json_object_get(o, "blocked"))) {
        notify_open(
            w, CONDITION_BLOCKED, js_text(part, "hint"), /* the key; "what" changes each second */
            "the restore continues as soon as it has the locks; players wait",
            js_text(part, "hint"), "a restore waits for other sessions: %s", js_text(part, "what"));
        json_decref(o);
        o = NULL;
    }
    return o;
}

json_t *jobs_died(struct world *w, int wait_status, bool *last)
{
    struct job_outcome out = {.failed = true, .died = true};
    const char *action = action_name(jobs.request.action);
    bool stopped = w->stopping || w->job_worker.stop_requested;
    worker_end(&w->job_worker);
    *last = true;
    if (jobs.request.action == ACTION_NONE)
        return NULL;
    if (jobs.stalled)
        err_set(&out.error, ERR_STALLED, 0, "%s made no progress and was stopped", action);
    else if (stopped)
        err_set(&out.error, ERR_ABORTED, 0, "%s was stopped before it finished", action);
    else
        err_set(&out.error, ERR_SYSTEM, 0, "the worker of the %s died (%s %d)", action,
                WIFSIGNALED(wait_status) ? "signal" : "exit",
                WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    json_t *o = json_pack("{s:{s:o}}", "done", "error", worker_err_json(&out.error));
    jobs_ended(w, &out, NULL); /* the next job tidies up what this one left in the server */
    return o;
}

/* ---- time ---- */

/* Stops a stalled job. If the guard knows of a restore, the guard ends it, because it counts
 * stalls; any other job is killed here. */
static void watch_stall(struct world *w, mono_t now)
{
    enum action action = jobs.request.action;
    bool loads = action == ACTION_RESTORE || action == ACTION_DRILL || action == ACTION_PROMOTE;
    /* A dump waits for locks up to its own limit. Our limit is later, so that the dump reports its
     * own error first. */
    int64_t dumps = w->cfg->dump_stall + DUMP_STALL_EXTRA_MS,
            limit = loads ? w->cfg->restore_stall : dumps;
    /* A forced restore first dumps the world that it replaces, so the dump's limit applies until it
     * loads. */
    if (action == ACTION_RESTORE && jobs.request.force && !jobs.announced && limit < dumps)
        limit = dumps;
    char t[TEXT_SHORT];
    if (action == ACTION_NONE || jobs.stalled || mono_since(now, w->job_worker.heard) < limit)
        return;
    jobs.stalled = true;
    log_line(LOG_ERROR_, "%s: no progress for %s; ending it", action_name(action),
             text_duration(limit, t));
    if (jobs.announced)
        world_event(w, &(struct guard_event){.type = GUARD_RESTORE_STALLED});
    else
        worker_stop(&w->job_worker, SIGKILL);
}

/* Starts the most urgent job that is due. Only one job runs at a time, in this order: restore,
 * tidy, dump, drill. */
static void jobs_timers(struct world *w, mono_t now)
{
    struct err e;
    watch_stall(w, now);
    dump_end_timers(w, now);
    /* A drill is stopped for a dump that is due, because changes after a gap are not protected
     * until a dump is stored. */
    if (jobs_is_spare() && w->conditions[CONDITION_JOURNAL_GAP].on &&
        !w->job_worker.stop_requested && mono_reached(now, dumps_next()))
        worker_stop(&w->job_worker, SIGKILL);
    if (w->stopping || jobs.request.action != ACTION_NONE)
        return;
    /* A reload may have disabled automatic restores since the loss was found. Then the next probe
     * leaves LOST. */
    if (w->guard.state == GUARD_LOST && w->guard_cfg.restore_auto && !follower_busy(w) &&
        !state_standby(&w->a->state, w->cfg)) {
        /* Starts the restore of a lost world. */
        struct request back = {
            .action = ACTION_RESTORE, .automatic = true, .skip = guard_skip(&w->guard)};
        struct err why;
        if (jobs_start(w, &back, &why) < 0)
            world_event(w, &(struct guard_event){.type = GUARD_RESTORE_FAILED, .err = &why});
    }
    bool up = w->guard.state == GUARD_UP;
    if (!up && w->guard.state != GUARD_STANDBY)
        return;
    if (up && jobs.tidy_due && mono_reached(now, jobs.tidy_at)) {
        struct request tidy = {.action = ACTION_TIDY, .automatic = true};
        jobs.tidy_due = false;
        if (jobs_start(w, &tidy, &e) < 0) {
            world_log_err(w, LOG_ERROR_, "tidy", &e);
            tidy_at(mono_add(now, TIDY_FAILED_MS));
        }
    } else if (up && mono_reached(now, dumps_next())) {
        struct request dump = {.action = ACTION_DUMP, .automatic = true};
        if (jobs_start(w, &dump, &e) < 0)
            dump_failed(w, NULL, &e);
    } else if (drills_due(w, now)) {
        start_drill(w);
    }
}

const struct part jobs_part = {
    .timers = jobs_timers, .status = "running", .status_json = jobs_status_json};
