/* The machine that may take over the world ([standby], role in state.json). Its supervisor only
 * watches. A worker downloads what the store has, and maintains the copy of the world. Nothing is
 * restored, dumped or uploaded until a promotion. The supervisor judges the worker's reports, like
 * offsite.c in the other direction. When a promotion begins, the worker is released rather than
 * killed (standby_yield()). */
#include "supervisor/standby.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/js.h"
#include "base/line.h"
#include "restore/restore.h"
#include "restore/warm.h"
#include "restore/warm_keep.h"
#include "standby/pull.h"
#include "supervisor/condition_words.h"
#include "supervisor/decisions.h"
#include "supervisor/dumps.h"
#include "supervisor/jobs.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/world.h"

#define TICK_MS fault_wait(2000)
#define LOOK_MS 1000                  /* interval of reports during a long download */
#define AGAIN_MIN_MS fault_wait(1000) /* pause after a failure, doubled up to AGAIN_MAX_MS */
#define AGAIN_MAX_MS fault_wait(60000)
#define START_MS fault_wait(5000) /* pause before a worker that died is restarted */
#define SILENT_MS 900000
/* Without a report for so long, the figures of the worker count as unknown. */
#define QUIET_MS fault_wait(60000)
#define AWAY_MS fault_wait(60000) /* shorter outages of the store are not reported */
/* A running step ends at its next progress report; a statement in the server may take longer. */
#define LEAVE_MS 3000 /* time for a worker to exit by itself */
#define CALM_MS fault_wait(5000)
#define ASK_TTL_MS 8000 /* a lease of this length is read with a timeout of at most 2 s */

/* Sent by the worker after each step, and during a long step. */
struct report {
    bool known;             /* the next three members are known */
    struct manifest newest; /* as in struct pull */
    wall_t moment, pulled_at;
    bool failed;    /* the last step failed */
    struct err why; /* error of the last step, or of a bad item in the store; ERR_NONE: none */
    bool loading;   /* the copy of the world is being loaded */
    struct warm_keeper warm;
    wall_t warm_moment; /* time of the newest change in the copy, like `moment` */
    struct lease_seen lease;
};

static struct standby {
    struct worker worker;
    /* Process id of a worker that is no longer wanted and exits by itself. */
    pid_t leaving;
    mono_t leaves;                    /* time when that worker is killed */
    mono_t next_start, failing_since; /* failing_since ms 0: no failure */
    mono_t cold_since;                /* ms 0: the world is loaded, or is not meant to be */
    mono_t idle_since;                /* only a probe sent after this shows which tables are left */
    mono_t moved;                     /* when `moment` last changed */
    struct report last;
} standby;

/* ---- the child ---- */

struct child {
    int fd;
    struct pull pull;
    struct progress progress;
    struct report report;
    struct job job;   /* job that maintains the copy */
    bool untidy_told; /* the failure to tidy up was logged */
    bool tidied;      /* nothing that a killed worker or promotion left occupies memory */
    const struct state *state;
    mono_t said;         /* time of the last report */
    mono_t news;         /* when the store last had something new */
    mono_t looked;       /* when the lease was last read */
    struct lease *lease; /* only for reading; NULL: not open */
    int64_t pause;       /* last pause after a failure, doubled each time */
};

static void standby_send_report(struct child *c)
{
    worker_send_packet(c->fd, 0, &c->report, sizeof c->report);
    c->said = clock_mono();
}

/* Returns whether the worker must exit. The supervisor never sends anything, so a readable socket
 * means that it was closed. */
static bool is_over(const struct child *c, int64_t wait)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    return poll(&p, 1, (int)wait) > 0;
}

/* Reports progress, so that the supervisor does not take this worker for a hanging one. Exits if
 * the worker is no longer wanted, because a promotion must not wait for a load. Interrupted work
 * does not count: files count when they are complete, the copy when it is recorded. */
static void standby_on_progress(struct progress *p)
{
    struct child *c = p->arg;
    bool loading = p->phase && strcmp(p->phase, "loading") == 0;
    if (c->report.warm.ready && loading) /* the old copy is already gone */
        c->report.warm.ready = false;
    c->report.loading = loading;
    if (is_over(c, 0))
        _exit(0);
    if (mono_since(clock_mono(), c->said) >= LOOK_MS)
        standby_send_report(c);
}

/* Removes leftovers before the copy is loaded, which needs the memory. A failure is retried in the
 * next step: the sessions of a killed process may hold their locks until their statement ends. */
static void standby_tidy(struct child *c)
{
    struct err e = {0};
    if (c->tidied)
        return;
    c->tidied = restore_tidy_standby(&c->job, &e) == 0 &&
                (c->job.cfg->standby.warm || warm_drop(&c->job, &e) == 0);
    if (!c->tidied && !c->untidy_told)
        log_line(LOG_WARN_, "cannot yet drop the remains of a copy or a promotion: %s", e.text);
    c->untidy_told |= !c->tidied;
}

/* Downloads what the store has, then updates the copy, because a load must not delay the newest
 * journal. Returns how long to wait in ms. */
static int64_t standby_step(struct child *c)
{
    struct err e = {0};
    struct report *r = &c->report;
    const struct pull *p = &c->pull;
    r->failed = pull_step(&c->pull, &e) < 0;
    r->why = r->failed ? e : p->skipped;
    if (r->failed) {
        pull_close(&c->pull);
        return c->pause = clock_backoff(c->pause, AGAIN_MIN_MS, AGAIN_MAX_MS);
    }
    c->pause = 0;
    if (strcmp(r->newest.name, p->newest.name) != 0 || r->moment.ms != p->moment.ms)
        c->news = clock_mono();
    r->known = true;
    r->newest = p->newest;
    r->moment = p->moment;
    r->pulled_at = clock_wall();
    standby_send_report(c);
    standby_tidy(c);
    /* A failure is retried in the next step. */
    struct err why = {0};
    struct warm_keeper *k = &c->report.warm;
    if (c->job.cfg->standby.warm) {
        if (warm_keep(k, &c->job, c->state, &why) < 0 && !k->why[0])
            line_set(k->why, sizeof k->why, "%s", why.text);
        c->report.loading = false;
        c->report.warm_moment = k->ready ? c->report.moment : (wall_t){0};
    }
    return TICK_MS;
}

/* Opens the lease with a short timeout, because a failing request would otherwise delay a step by
 * the full time of a long lease. */
static int standby_open_lease(struct child *c, struct err *e)
{
    struct config quick = *c->job.cfg;
    if (quick.standby.ttl > ASK_TTL_MS)
        quick.standby.ttl = ASK_TTL_MS;
    if (lease_open(&quick, c->job.dirfd, c->state->holder, &c->lease, e) != LEASE_OK)
        return -1;
    lease_seen_set(c->lease, &c->report.lease);
    return 0;
}

/* Reads the lease regularly. A promotion must watch the lease for its full time; if it was watched
 * before, most of that time may already be over. It is not read while the primary stores something.
 * An error is not an alert, because a promotion that encounters it reports it. */
static void look_at_lease(struct child *c)
{
    const struct config_standby *s = &c->job.cfg->standby;
    struct lease_record r;
    struct err e = {0};
    mono_t now = clock_mono();
    if (s->lease == LEASE_NONE || mono_since(now, c->news) < CALM_MS ||
        mono_since(now, c->looked) < s->ttl / 4)
        return;
    if (c->lease || standby_open_lease(c, &e) == 0) {
        if (lease_read(c->lease, &r, &e) == LEASE_OK) {
            lease_seen_get(c->lease, &c->report.lease);
        } else {
            lease_close(c->lease);
            c->lease = NULL;
        }
    }
    c->looked = clock_mono();
}

static int standby_run_child(int fd, void *arg)
{
    /* static, because its job and progress contain pointers into it. */
    static struct child c; /* also leaves no byte of the packet uninitialized */
    struct world *w = arg;
    c.fd = fd;
    c.job = w->a->job;
    c.job.progress = &c.progress;
    /* No client watches the notes of this load. */
    c.job.note = NULL;
    c.state = &w->a->state;
    /* What the previous worker knew is kept: a failed promotion has ended that worker. */
    c.report.lease = standby.last.lease;
    c.report.moment = standby.last.moment;
    c.report.newest = standby.last.newest;
    c.progress = (struct progress){.report = standby_on_progress, .arg = &c};
    c.pull = (struct pull){.cfg = w->cfg, .dirfd = w->a->job.dirfd, .progress = &c.progress};
    for (;;) {
        int64_t wait = standby_step(&c);
        look_at_lease(&c);
        standby_send_report(&c);
        if (is_over(&c, wait))
            return 0;
    }
}

/* ---- the supervisor ---- */

static bool is_standby(const struct world *w)
{
    return state_standby(&w->a->state, w->cfg);
}

/* Releases the worker, because a promotion begins: the worker starts nothing new. */
static void standby_yield(void)
{
    standby.leaving = standby.worker.pid ? standby.worker.pid : standby.leaving;
    standby.leaves = mono_add(clock_mono(), LEAVE_MS);
    worker_end(&standby.worker); /* the loop reaps the process later */
}

static void standby_stop(struct world *w)
{
    (void)w;
    worker_stop(&standby.worker, SIGKILL); /* incomplete files do not count */
    standby_yield();
}

static void standby_restart(struct world *w)
{
    standby_stop(w);
    standby.last = (struct report){0};
    w->a->lease_seen = (struct lease_seen){0}; /* the new config may name another lease */
    standby.next_start = clock_mono();
}

/* Returns the seconds since the newest change that is here; -1: not known. It compares the wall
 * clocks of two machines. If our wall clock is behind, the result is at least the time since
 * the change arrived, by our monotonic clock. */
static int64_t supervisor_standby_behind_seconds(void)
{
    const struct report *r = &standby.last;
    int64_t ms = clock_wall().ms - r->moment.ms, here = mono_since(clock_mono(), standby.moved);
    if (!r->known || !r->moment.ms)
        return -1;
    return (ms > here ? ms : here) / 1000;
}

static void standby_judge(struct world *w)
{
    const struct report *r = &standby.last;
    int64_t behind = supervisor_standby_behind_seconds(), limit = w->cfg->max_dump_age / 1000;
    char key[CONDITION_KEY], t[TEXT_SHORT];
    bool failing = r->failed, bad = !failing && r->why.cls != ERR_NONE;
    /* A listed object may be gone when it is fetched, because the primary deletes dumps and joins
     * segments. */
    bool passing = failing || (bad && r->why.cls != ERR_DAMAGED);
    bool lasts = condition_lasts(&standby.failing_since, passing, AWAY_MS, clock_mono());
    bool old = limit && behind > limit;
    if (passing && !old && !lasts)
        return;
    static const char doing[] = "trying again; what is here stays";
    const char *todo =
        r->why.hint[0] ? r->why.hint
        : old && !failing
            ? "find out on the primary, by its status, whether it stores its dumps and journal"
            : "worldkeeper --list --from offsite tests the store";
    if (failing || bad)
        notify_open_as(w, CONDITION_STANDBY, condition_key(key, &r->why),
                       "standby cannot have all that the store has", doing, todo,
                       "the standby cannot have all that the store has: %s", r->why.text);
    else if (old)
        notify_open(w, CONDITION_STANDBY, "old", doing, todo,
                    "the newest that the standby has is of %s ago",
                    text_duration(behind * 1000, t));
    else
        notify_over(w, CONDITION_STANDBY, "the standby has what the store has");
}

/* Reports a copy that is missing for too long. While the copy is being loaded nothing is reported,
 * because the load may end the condition. */
static void judge_copy(struct world *w)
{
    const struct report *r = &standby.last;
    bool wanted = is_standby(w) && w->cfg->standby.warm;
    char t[TEXT_SHORT];
    if (wanted && !r->known)
        return; /* not even the content of the store is known yet */
    int64_t limit = w->cfg->max_dump_age;
    bool cold = condition_lasts(&standby.cold_since, wanted && !r->warm.ready, limit, clock_mono());
    if (cold ? r->loading : standby.cold_since.ms != 0)
        return;
    if (cold)
        notify_open(w, CONDITION_COLD, NULL,
                    "it is loaded as soon as that is possible; a promotion until then loads the "
                    "newest dump, which takes longer",
                    "worldkeeper --check says what is missing for it; man worldkeeper-standby "
                    "says what makes a standby cold",
                    "the standby does not keep the world loaded, and has not for more than %s: %s",
                    text_duration(limit, t),
                    r->warm.why[0] ? r->warm.why : "the reason is unknown");
    else
        notify_over(w, CONDITION_COLD,
                    wanted ? "the world is loaded, and kept up with the journal"
                           : "the world no longer needs to be kept loaded here");
}

/* Reports tables of the world that a killed demotion or switchover may have left. A game may still
 * be using them. */
static void judge_tables(struct world *w, mono_t now)
{
    const struct observation *o = prober_last();
    if (w->guard.state != GUARD_STANDBY || jobs_running() != ACTION_NONE)
        standby.idle_since = now;
    bool known = o->failed == VERDICT_NONE || o->failed == VERDICT_MISSING;
    bool fresh = mono_since(prober_last_asked(), standby.idle_since) > 0;
    bool left = is_standby(w) && o->failed == VERDICT_NONE;
    if (is_standby(w) && (!known || !fresh))
        return;
    if (left)
        notify_open(w, CONDITION_LEFT, NULL, "they are neither changed nor removed automatically",
                    "run worldkeeper --demote once more: it saves their rows, and takes them away "
                    "from the game",
                    "the tables of a world are still in schema %s here, and a game may write "
                    "to them, though this machine is a standby",
                    w->cfg->schema);
    else
        notify_over(w, CONDITION_LEFT,
                    is_standby(w) ? "the standby's server no longer has tables of a world"
                                  : "this machine is no longer a standby");
}

static void standby_take_report(struct world *w, const struct report *r)
{
    struct report *last = &standby.last;
    bool same = r->loading == last->loading && r->warm.ready == last->warm.ready &&
                strcmp(r->warm.why, last->warm.why) == 0;
    w->status_dirty |= !same || r->warm_moment.ms != last->warm_moment.ms;
    bool pulled = strcmp(r->newest.name, last->newest.name) != 0;
    w->status_dirty |= r->failed != last->failed || pulled || r->moment.ms != last->moment.ms;
    if (r->known && pulled && r->newest.name[0])
        dumps_stored(w, &r->newest);
    if (!last->known || r->moment.ms != last->moment.ms)
        standby.moved = clock_mono();
    *last = *r;
    w->a->lease_seen = r->lease; /* a job that is forked from now on inherits it */
    worker_err_clean(&last->why);
    if (!same && w->cfg->standby.warm) { /* without the copy, a promotion loads the newest dump */
        if (r->warm.ready)
            log_line(LOG_NOTE_, "the world is loaded and caught up: dump %s, %" PRIu64 " rows",
                     r->warm.dump, r->warm.rows);
        else if (r->loading)
            log_line(LOG_NOTE_, "the world is being loaded beside");
        else if (r->warm.why[0])
            log_line(LOG_WARN_, "the world is not kept loaded, a promotion would load it: %s",
                     r->warm.why);
    }
    standby_judge(w);
    judge_copy(w);
}

/* Handles a worker that ended. The failure is shown until the next worker reports. */
static void standby_worker_lost(struct world *w, const char *how)
{
    struct report r = standby.last;
    r.failed = true;
    err_set(&r.why, ERR_SYSTEM, 0, "the standby worker %s", how);
    standby_yield();
    standby_take_report(w, &r);
}

static void standby_message(struct world *w, struct worker *v, const struct packet *m)
{
    const struct report *r = m ? packet_struct(m, sizeof *r) : NULL;
    (void)v;
    if (r)
        standby_take_report(w, r);
    else if (!m)
        standby_worker_lost(w, "ended unexpectedly");
}

/* Runs the worker, and keeps the guard's state in step with the role. */
static void standby_timers(struct world *w, mono_t now)
{
    struct err e;
    /* A released worker is killed after a while, because a promotion waits for what it holds, and a
     * statement in the server may take long. */
    siginfo_t info;
    if (standby.leaving && mono_reached(now, standby.leaves)) {
        if (waitid(P_PID, (id_t)standby.leaving, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
            kill(standby.leaving, SIGKILL);
        standby.leaving = 0;
    }
    bool is = is_standby(w), was = w->guard.state == GUARD_STANDBY;
    enum guard_state state = w->guard.state;
    if (is != was && state != GUARD_RESTORING && state != GUARD_STOPPED) {
        world_event(w, &(struct guard_event){.type = GUARD_ROLE,
                                             .standby = is,
                                             .text = is ? "standby: another machine keeps the world"
                                                        : "this machine keeps the world now"});
    }
    judge_tables(w, now);
    bool wanted = is_standby(w) && !w->stopping && w->cfg->offsite.url && !w->swaps;
    if (standby.worker.pid && mono_since(now, standby.worker.heard) > SILENT_MS) {
        log_line(LOG_WARN_, "the standby worker made no progress and was stopped");
        worker_stop(&standby.worker, SIGKILL);
        standby_worker_lost(w, "made no progress and was stopped");
    }
    if (!wanted && standby.worker.pid)
        standby_yield();
    if (!is_standby(w))
        notify_over(w, CONDITION_STANDBY, "this machine is no longer a standby");
    if (!is_standby(w) || !w->cfg->standby.warm)
        judge_copy(w);
    if (standby.worker.pid || !wanted || !mono_reached(now, standby.next_start))
        return;
    standby.next_start = mono_add(now, START_MS);
    if (worker_start(&standby.worker, standby_run_child, w, false, &e) < 0)
        world_log_err(w, LOG_WARN_, "the standby worker", &e);
}

/* ---- what is shown ---- */

/* Describes the copy; null: no copy is kept. */
static json_t *copy_json(const struct world *w, bool heard)
{
    const struct report *r = &standby.last;
    const struct warm_keeper *k = &r->warm;
    bool ready = k->ready && !r->loading;
    int64_t behind = (clock_wall().ms - r->warm_moment.ms) / 1000,
            least = supervisor_standby_behind_seconds();
    if (!w->cfg->standby.warm || !is_standby(w))
        return json_null();
    if (behind < least)
        behind = least;
    const char *state = !heard || !r->known ? NULL
                        : r->loading        ? "loading"
                        : ready             ? "ready"
                                            : "cold";
    return json_pack("{s:s?, s:o, s:o, s:s?, s:o, s:o, s:o, s:o}", "state", state, "ready",
                     state ? json_boolean(ready) : json_null(), "why",
                     !ready && !r->loading && k->why[0] ? js_clean(k->why) : json_null(), "dump",
                     ready ? k->dump : NULL, "moment",
                     js_time(ready ? r->warm_moment : (wall_t){0}), "behind_seconds",
                     js_known(ready && r->warm_moment.ms && behind >= 0, behind), "rows",
                     js_known(ready, (int64_t)k->rows), "compared_at",
                     js_time(ready ? k->compared_at : (wall_t){0}));
}

static json_t *standby_status_json(const struct world *w)
{
    const struct report *r = &standby.last;
    bool is = is_standby(w);
    int64_t behind = is ? supervisor_standby_behind_seconds() : -1;
    bool heard = standby.worker.pid && mono_since(clock_mono(), standby.worker.heard) <= QUIET_MS;
    const char *state = !is || !heard ? NULL : r->failed ? "failing" : r->known ? "pulling" : NULL;
    if (!w->cfg->standby.given)
        return json_null();
    return json_pack(
        "{s:s, s:s?, s:s?, s:o, s:o, s:o, s:o, s:o, s:o}", "role", is ? "standby" : "primary",
        "state", state, "newest", is && r->known && r->newest.name[0] ? r->newest.name : NULL,
        "newest_at", js_time(is && r->known ? r->newest.at : (wall_t){0}), "moment",
        js_time(is && r->known ? r->moment : (wall_t){0}), "behind_seconds",
        js_known(behind >= 0, behind), "last_pull", js_time(is ? r->pulled_at : (wall_t){0}),
        "last_error", is && r->why.text[0] ? js_clean(r->why.text) : json_null(), "warm",
        copy_json(w, heard));
}

static void standby_begin(struct world *w)
{
    world_worker(w, &standby.worker, "standby", standby_message);
}

const struct part standby_part = {.begin = standby_begin,
                                  .timers = standby_timers,
                                  .restart = standby_restart,
                                  .opens_dirs = true,
                                  .stop = standby_stop,
                                  .status = "standby",
                                  .status_json = standby_status_json};
