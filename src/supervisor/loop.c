/* The supervisor of one world and its event loop. Timers, workers, the control socket and signals
 * become events; guard.h decides; workers act. The loop itself never waits for a server, a disk or
 * the network: all calls that can block are made in forked children (base/worker.h), which
 * src/README.md lists. */
#include "supervisor/loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actions/worlds.h"
#include "base/fault.h"
#include "base/js.h"
#include "base/line.h"
#include "base/systemd.h"
#include "store/catalog.h"
#include "store/pending.h"
#include "supervisor/clients.h"
#include "supervisor/decisions.h"
#include "supervisor/disk.h"
#include "supervisor/drills.h"
#include "supervisor/dumps.h"
#include "supervisor/follower.h"
#include "supervisor/jobs.h"
#include "supervisor/lease.h"
#include "supervisor/notifier.h"
#include "supervisor/offsite.h"
#include "supervisor/periodic_check.h"
#include "supervisor/prober.h"
#include "supervisor/publisher.h"
#include "supervisor/recorder.h"
#include "supervisor/reload.h"
#include "supervisor/rollups.h"
#include "supervisor/standby.h"
#include "supervisor/world.h"
#include "supervisor/write_back.h"

/* One iteration: poll, handle what arrived (handle_poll()), then the timers of all parts in a
 * fixed order (loop_timers()). Work that must happen in this iteration, but not at once, is a
 * flag in struct world. No part calls back into the loop. */

/* The guard expects a tick at least once a second (GUARD_TICK). */
#define TICK_MS 1000
/* A tick may be this much early or late, so that it coincides with another wake-up, mostly a
 * probe. */
#define TICK_SLACK_MS 250
/* Delay with which a descriptor may be noticed if poll() only works for single ones. */
#define ONE_BY_ONE_MS 50
/* A tick this late, or clocks that differ by this much, count as doubt about ourselves
 * (GUARD_DOUBT), because an earlier answer may describe another time. DOUBT_LATE_MS is more than
 * twice the default of [probe] timeout, so that a busy machine or a disk that delays the process
 * for a moment does not count. It is well below the WatchdogSec of the service. DOUBT_DRIFT_MS: NTP
 * slews a clock by at most half a millisecond per second, so a larger difference means that the
 * clock was set; a smaller step does not move any schedule noticeably. */
#define DOUBT_LATE_MS 5000
#define DOUBT_DRIFT_MS 2000
#define READY_MS 10000 /* READY=1 is sent after this time even without a first answer */
/* A job stops at the next step of its work, which takes less time than this unless a statement or
 * the disk hangs. A killed job leaves nothing that the next start cannot finish or undo. Together
 * with the five seconds of disk_finish() this stays below TimeoutStopSec of the service, whose
 * SIGKILL would lose the last alerts. */
#define STOP_JOB_MS 5000 /* after this, a running job is killed */
#define STOP_ALL_MS 8000 /* after this, the loop no longer waits for it */

static struct {
    int signal_fd; /* SIGTERM, SIGINT, SIGHUP, SIGCHLD as packets */
    bool ready;    /* reported to systemd */
    mono_t began, last_tick, next_watchdog, stop_deadline;
    int64_t wall_offset; /* wall clock minus monotonic clock, at the last tick */
} loop;

/* systemd considers the service started after the first probe, whatever its result. */
static void report_ready(struct world *w)
{
    if (!loop.ready)
        systemd_notify("READY=1");
    w->status_dirty |= !loop.ready;
    loop.ready = true;
}

/* ---- from one part to another ---- */

/* The guard judges first, because the time of the next probe depends on its decision. */
static void loop_judged(struct world *w, const struct judgement *j)
{
    mono_t now = clock_mono();
    world_event(w, &(struct guard_event){.type = GUARD_PROBED, .judgement = j});
    prober_next(guard_next_probe(&w->guard, w->cfg->probe_interval, now));
    report_ready(w);
}

/* A job that finds another dump directory ends without an effect, and starts again in that
 * directory. */
static void job_message(struct world *w)
{
    struct err e;
    bool last;
    json_t *o = jobs_message(w, &last);
    clients_send(o, last);
    if (jobs_await_dir()) {
        o = jobs_dir_changed(w, reload_dump_dir(w, &e) < 0 ? &e : NULL, &last);
        clients_send(o, last);
    }
}

/* Reaps workers. Only the job and the disk writer are handled here: the end of other workers is
 * noticed by their sockets. */
static void loop_reap(struct world *w)
{
    int status;
    pid_t pid;
    bool last;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        disk_reaped(pid);
        /* Its last messages may be unread. The final message, or the end of the socket, ends the
         * job. */
        while (w->job_worker.pid == pid && w->job_worker.fd >= 0)
            job_message(w);
        if (w->job_worker.pid == pid) {
            json_t *o = jobs_died(w, status, &last);
            clients_send(o, last);
        }
    }
}

/* ---- signals and time ---- */

/* Begins to stop. The loop continues until the job has ended or is killed at the deadline; see
 * loop_finished(). */
static void begin_stop(struct world *w)
{
    if (w->stopping)
        return;
    w->stopping = true;
    systemd_notify("STOPPING=1");
    disk_note_pause(w); /* includes a pause that was requested in this iteration */
    world_event(w, &(struct guard_event){.type = GUARD_STOP});
    if (jobs_running()) {
        log_line(LOG_NOTE_, "ending the running %s", action_name(jobs_running()));
        worker_stop(&w->job_worker, SIGTERM);
    }
    loop.stop_deadline = mono_add(clock_mono(), STOP_JOB_MS);
}

/* The workers have probably stood still as long as this process. Their silence is measured anew, so
 * that no worker is ended as hanging because the machine was suspended. */
static void forgive_silence(struct world *w, mono_t now)
{
    w->job_worker.heard = w->disk_writer.heard = now;
    for (size_t i = 0; i < w->heard_count; i++)
        w->heard[i].worker->heard = now;
}

/* Detects a suspended machine or a clock jump; after that, the guard acts only on fresh probes. */
static void watch_ourselves(struct world *w, mono_t now)
{
    int64_t late = mono_since(now, loop.last_tick) - TICK_MS, offset = clock_wall().ms - now.ms;
    int64_t drift = offset - loop.wall_offset;
    bool set = drift > DOUBT_DRIFT_MS || drift < -DOUBT_DRIFT_MS;
    char text[160] = "", t[TEXT_SHORT];
    if (late > DOUBT_LATE_MS) {
        line_set(text, sizeof text, "this process stood still for %s", text_duration(late, t));
        forgive_silence(w, now);
    } else if (set) {
        line_set(text, sizeof text, "the wall clock jumped by %s%s", drift < 0 ? "-" : "",
                 text_duration(drift < 0 ? -drift : drift, t));
    }
    loop.last_tick = now;
    loop.wall_offset = offset;
    if (text[0]) {
        log_line(LOG_WARN_, "doubt: %s; acting again after fresh probes", text);
        history_doubt(w, text, late > DOUBT_LATE_MS ? late : 0, set ? drift : 0);
        world_event(w, &(struct guard_event){
                           .type = GUARD_DOUBT, .text = text, .clock_set = set ? drift : 0});
    }
}

/* Returns what a loss now would cost. Whether the journal covers the time since the newest dump is
 * known only while it is followed. For a world that is down, only a restore can tell. */
static struct exposure exposure_now(const struct world *w)
{
    const struct manifest *newest = dumps_newest();
    const json_t *damaged = disk_damaged_dumps(), *d;
    bool up = w->guard.state == GUARD_UP;
    struct exposure e = {
        .dump = newest != NULL,
        .dump_age = newest ? clock_wall().ms - newest->at.ms : -1,
        .unproven = up ? follower_unproven(w) : -1,
        .journal = w->cfg->journal != JOURNAL_OFF,
        .up = up || guard_unverified(&w->guard)}; /* an unobserved world may still be played */
    size_t i;
    json_array_foreach(damaged, i, d)
    {
        e.damaged |= newest && strcmp(js_text(d, "dump"), newest->name) == 0;
    }
    if (e.damaged) {
        wall_t intact = disk_intact_at();
        e.dump_age = intact.ms ? clock_wall().ms - intact.ms : -1;
    }
    return e;
}

/* The parts that publish, save and alert come last. */
static const struct part *const parts[] = {
    &prober_part,  &clients_part,        &jobs_part,        &follower_part,
    &rollups_part, &periodic_check_part, &write_backs_part, &drills_part,
    &standby_part, &leases_part,         &offsite_part,     &dumps_part,
    &disk_part,    &notifier_part,       &recorder_part,    &publisher_part,
    NULL};

static void loop_timers(struct world *w)
{
    struct judgement j;
    reload_timers(w);
    mono_t now = clock_mono();
    if (mono_since(now, loop.last_tick) >= TICK_MS - TICK_SLACK_MS) {
        watch_ourselves(w, now);
        holdings_timers();
        world_event(w, &(struct guard_event){.type = GUARD_TICK});
        double lag = follower_behind_seconds();
        bool answered = prober_last()->failed == VERDICT_NONE;
        recorder_sample(w, now, answered ? prober_last()->latency_ms : -1,
                        lag < 0 ? -1 : (int64_t)(lag * 1000));
    }
    if (mono_since(now, loop.began) > READY_MS)
        report_ready(w);
    if (prober_timers(w, now, &j))
        loop_judged(w, &j);
    for (size_t i = 0; parts[i]; i++)
        if (parts[i]->timers)
            parts[i]->timers(w, now);
}

/* ---- the loop ---- */

enum {
    POLL_SIGNAL,
    POLL_PROBE,
    POLL_DISK,
    POLL_JOB,
    POLL_HEARD, /* workers of the parts (world_worker()) */
    POLL_CLIENTS = POLL_HEARD + WORKERS_MAX,
    POLL_COUNT = POLL_CLIENTS + CLIENTS_FDS
};

/* poll() refuses an array that is longer than the limit of open descriptors, even if most entries
 * are unused. Then each descriptor is polled separately. */
static int wait_poll(struct pollfd *p, int64_t ms)
{
    int n = poll(p, POLL_COUNT, (int)ms);
    if (n >= 0 || errno == EINTR)
        return n;
    usleep((useconds_t)(ms < ONE_BY_ONE_MS ? ms : ONE_BY_ONE_MS) * 1000);
    n = 0;
    for (size_t i = 0; i < POLL_COUNT; i++)
        if (p[i].fd >= 0 && poll(&p[i], 1, 0) > 0)
            n++;
    return n;
}

static void handle_poll(struct world *w, const struct pollfd *p)
{
    struct judgement j;
    enum file_dir_place place;
    if (p[POLL_PROBE].revents && prober_message(w, &j))
        loop_judged(w, &j);
    if (p[POLL_DISK].revents && disk_message(w, &place))
        reload_check_place(w, place);
    if (p[POLL_JOB].revents)
        job_message(w);
    for (size_t i = 0; i < w->heard_count; i++)
        if (p[POLL_HEARD + i].revents)
            world_hear(w, w->heard[i].worker, w->heard[i].message);
    for (size_t i = CLIENTS_FDS; i-- > 0;) /* clients before the listener */
        if (p[POLL_CLIENTS + i].revents)
            clients_message(w, i);
    if (p[POLL_SIGNAL].revents) {
        /* handled last, so that the final messages of dead workers are read first */
        struct signalfd_siginfo si;
        while (read(loop.signal_fd, &si, sizeof si) == (ssize_t)sizeof si) {
            if (si.ssi_signo == SIGCHLD)
                loop_reap(w);
            else if (si.ssi_signo != SIGHUP)
                begin_stop(w);
            else if (!w->stopping)
                reload_config(w);
        }
    }
}

/* Returns whether the loop may end. The follower still writes what it has read; what it has not
 * written by the deadline is lost. */
static bool loop_finished(struct world *w)
{
    mono_t now = clock_mono();
    if (!w->stopping)
        return false;
    if (!jobs_running())
        return !follower_busy(w) || mono_reached(now, loop.stop_deadline);
    if (mono_reached(now, loop.stop_deadline))
        worker_stop(&w->job_worker, SIGKILL);
    return mono_reached(now, mono_add(loop.stop_deadline, STOP_ALL_MS - STOP_JOB_MS));
}

static void loop_run(struct world *w)
{
    struct pollfd p[POLL_COUNT];
    while (!loop_finished(w)) {
        mono_t before = clock_mono();
        /* Sleep until the next tick, probe or timeout, whichever comes first. */
        int64_t tick = TICK_MS + TICK_SLACK_MS - mono_since(before, loop.last_tick),
                probe = prober_sleep(w, before);
        int64_t left = leases_sleep(before, tick < probe ? tick : probe);
        int64_t ms = w->status_dirty || left < 0 ? 0 : left;
        /* Filled in each iteration, since any message may have ended a worker or a client. */
        for (size_t i = 0; i < POLL_COUNT; i++)
            p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
        p[POLL_SIGNAL].fd = loop.signal_fd;
        p[POLL_PROBE].fd = w->probe_worker.fd;
        p[POLL_DISK].fd = w->disk_writer.fd;
        p[POLL_JOB].fd = w->job_worker.fd;
        for (size_t i = 0; i < w->heard_count; i++)
            p[POLL_HEARD + i].fd = w->heard[i].worker->fd;
        clients_fds(before, p + POLL_CLIENTS);
        int n = wait_poll(p, ms);
        mono_t woke = clock_mono();
        /* Checked before anything else: this process may have been suspended, and another machine
         * may keep the world now. */
        if (leases_decide(w)) {
            offsite_part.stop(w);
            publish_status(w);
        }
        if (n > 0)
            handle_poll(w, p);
        loop_timers(w);
        int64_t overslept = n == 0 ? mono_since(woke, before) - ms : 0;
        publish_late(overslept + mono_since(clock_mono(), woke));
        if (loop.next_watchdog.ms && mono_reached(woke, loop.next_watchdog)) {
            systemd_notify("WATCHDOG=1");
            loop.next_watchdog = mono_add(woke, systemd_watchdog_ms());
        }
    }
}

/* ---- start and end ---- */

/* Signals become packets of the loop, so that no handler interrupts a decision. */
static int open_signals(struct err *e)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    loop.signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (loop.signal_fd < 0)
        return err_sys(e, errno, "cannot open a signal descriptor");
    worker_close_in_child(loop.signal_fd);
    return 0;
}

/* Loads the state of the disk: dumps, the last ALIVE, an interrupted restore. */
static int loop_recall(struct world *w, struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    SCOPED(pending_free) struct pending p = {0};
    if (catalog_load(w->a->job.dirfd, w->cfg->name, &c, e) < 0 ||
        pending_load(w->a->job.dirfd, &p, e) < 0)
        return -1;
    dumps_load(w, &c);
    reload_expect(w, &p);
    return 0;
}

/* Returns when an earlier supervisor that did not exit cleanly was last known to run. The published
 * status is newer than the state, but is lost with the machine if it is stored in memory. */
static wall_t last_sign(const struct world *w)
{
    const struct state *s = &w->a->state;
    wall_t last = s->watched_at;
    wall_t at;
    if (!s->watched)
        return (wall_t){0};
    json_auto_t *o = worlds_published(w->cfg);
    if (strcmp(js_text(o, "world"), w->cfg->name) == 0 &&
        text_utc_ms_parse(js_text(o, "updated"), &at) == 0 && at.ms > last.ms &&
        at.ms <= clock_wall().ms)
        last = at;
    return last;
}

/* Initializes memory and registers the parts. It cannot fail, because nothing is locked, started or
 * read yet. */
static struct world *begin_world(struct action_context *a, struct config *cfg)
{
    static struct world world; /* lives until the process ends */
    struct world *w = &world;
    w->a = a;
    w->cfg = cfg;
    w->parts = parts;
    w->exposure = exposure_now;
    w->started = clock_wall();
    gethostname(w->host, sizeof w->host - 1);
    guard_init(&w->guard, clock_mono());
    guard_config_from(cfg, &w->guard_cfg);
    worker_init(&w->probe_worker, "probe");
    worker_init(&w->job_worker, "job");
    worker_init(&w->disk_writer, "scribe");
    for (size_t i = 0; parts[i]; i++)
        if (parts[i]->begin)
            parts[i]->begin(w);
    return w;
}

static void keep_world(struct world *w)
{
    char t[TEXT_SHORT];
    const wall_t before = last_sign(w);
    log_line(LOG_NOTE_, "worldkeeper %s keeps world %s (schema %s), a dump every %s into %s",
             WK_VERSION, w->cfg->name, w->cfg->schema, text_duration(w->cfg->dump_interval, t),
             w->cfg->dump_dir);
    warn_of_insecure(w->cfg);
    notify_started(w, before);
    history_add(w, HISTORY_STARTED,
                json_pack("{s:s, s:o, s:i, s:o}", "version", WK_VERSION, "host", js_clean(w->host),
                          "pid", (int)getpid(), "watched_until", js_time(before)));
    w->state_dirty = true;
    if (systemd_watchdog_ms())
        loop.next_watchdog = clock_mono();
    publish_status(w);
    /* A pause survives a restart of the supervisor. */
    const struct state *s = &w->a->state;
    int64_t left = s->pause_until.ms - clock_wall().ms;
    if (s->paused && (s->pause_until.ms == 0 || left > 0))
        world_event(
            w, &(struct guard_event){.type = GUARD_PAUSE,
                                     .pause_ms = s->pause_until.ms ? left : 0,
                                     .pause_by_wall = true,
                                     .text = "paused before the supervisor was started again"});
    loop_run(w);
    publish_status(w);
    for (size_t i = 0; parts[i]; i++)
        if (parts[i]->stop)
            parts[i]->stop(w);
    history_add(w, HISTORY_STOPPED, NULL);
    disk_finish(w); /* last, so that everything that the other parts queued is written */
    log_line(LOG_NOTE_, "ended");
}

/* The lock and the claims are taken first: without them, nothing may be changed. */
int world_run(struct action_context *a, struct config *cfg, struct err *e)
{
    struct world *w = begin_world(a, cfg);
    loop.began = loop.last_tick = clock_mono();
    loop.wall_offset = clock_wall().ms - loop.last_tick.ms;
    int rc = holdings_take(w, e) < 0 || open_signals(e) < 0 ? -1 : 0;
    if (rc == 0) {
        fault_supervisor(getpid());
        rc = loop_recall(w, e) < 0 || leases_begin(w, e) < 0 || disk_start(w, e) < 0 ? -1 : 0;
    }
    if (rc == 0)
        keep_world(w);
    action_close(a); /* wipes the password; all else ends with the process */
    return rc;
}
