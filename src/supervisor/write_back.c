/* Players' progress. A worker sends unsent blobs to the central store at intervals, after a restore
 * and at the start. It also ends closing sessions, and records that this game server is alive.
 * Nothing else waits for it. The worker runs as long as the config is in force. It is informed when
 * the world comes and goes (struct order), since the central store may be written to only for a
 * world that is up. */
#include "supervisor/write_back.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fence.h"
#include "base/js.h"
#include "mysql/fenced.h"
#include "progress/write_back.h"
#include "supervisor/condition_words.h"
#include "supervisor/notifier.h"
#include "supervisor/recorder.h"
#include "supervisor/world.h"

#define TICK_MS fault_wait(1000)
#define FIGURES_MS fault_wait(5000)
/* Pause while the central store is unreachable, doubled up to AGAIN_MAX_MS. */
#define AGAIN_MIN_MS fault_wait(1000)
#define AGAIN_MAX_MS fault_wait(60000)
#define START_MS fault_wait(5000) /* pause before a worker that died is restarted */
#define SILENT_MS 600000
#define LOCK_MS 1000
/* Failures that may pass by themselves are reported after this time. */
#define GRACE_MS fault_wait(10000)
/* A write-back by hand holds the lock of the local store for as long as it sends. A game may hold
 * locks on its tables. */
#define BUSY_MS fault_wait(60000)

/* Sent to the worker, which has no other way to know the guard's state. It does not act before it
 * has received an order. */
struct order {
    bool up;         /* the world is up */
    bool everything; /* send all blobs at once */
    bool ours;       /* this machine keeps the world; it is not a standby */
};
#define ORDER 1

/* Sent by the worker at each tick. */
struct report {
    bool known; /* the figures of the local store are known */
    uint64_t sessions, unsent, stolen;
    int64_t oldest_ms; /* -1: all is sent */
    char first[200];
    bool
        none_held; /* when blobs were last refused, this server held no lock in the central store */
    /* Since the previous report. `ran`: all unsent blobs were handled. */
    bool ran;
    uint64_t sent, set_aside, released;
    enum central_state central;
    char store[PROGRESS_STORE_MAX + 1]; /* identifies the store that last accepted blobs */
    /* Why `central` is not CENTRAL_OK, or what could not be sent. */
    struct err error;
};

static struct write_backs {
    struct worker worker;
    mono_t next_start;
    struct order order; /* the order that the worker received last */
    bool lost;          /* the world was lost since it was last up */
    struct report last;
    uint64_t sent;        /* blobs since the supervisor started */
    mono_t failing_since; /* start of failures that may pass; ms 0: none */
    uint64_t run_sent, run_set_aside, run_released; /* since the last record of the history */
} write_backs;

/* ---- the child ---- */

struct child {
    int fd;
    struct world *w;
    struct write_back run;
    struct order order;
    struct report report;
    mono_t next_run, next_figures, next_try;
    /* another write-back runs, or the world's own tables are locked, since then; ms 0: neither */
    mono_t busy_since;
    struct err skipped; /* what the last complete run skipped */
    struct err found;   /* what the current run skips, over several ticks */
    int64_t pause;
    bool
        anew; /* the world was replaced: everything is sent, with what an earlier run left undone */
};

/* Receives the supervisor's orders; returns true if the world is no longer up. */
static bool take_orders(void *arg)
{
    struct child *c = arg;
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    struct packet m;
    bool closed;
    while (poll(&p, 1, 0) > 0) {
        if (!worker_receive_packet(c->fd, &m, &closed)) {
            if (closed)
                _exit(0);
            break;
        }
        const struct order *o = m.type == ORDER ? packet_struct(&m, sizeof *o) : NULL;
        if (!o)
            continue;
        c->order = *o;
        c->anew |= o->everything;
    }
    return !c->order.up;
}

/* Handles a failure of the central store: after a growing pause, the password is read and the
 * connection is opened again. */
static void central_failed(struct child *c, const struct err *e)
{
    /* The password is read again because it may have changed. A retry over the old connection would
     * not do that. */
    c->report.central = central_state_after(e);
    c->report.error = *e;
    db_close(c->run.central);
    c->run.central = NULL;
    buf_free(&c->run.password);
    c->pause = clock_backoff(c->pause, AGAIN_MIN_MS, AGAIN_MAX_MS);
    c->next_try = mono_add(clock_mono(), c->pause);
}

/* Signals that the game server is alive. A standby only asks: it has the same lock_id, and must not
 * make a dead primary look alive. */
static int call_central(struct child *c, struct err *e)
{
    const char *lock_id = c->w->cfg->progress.lock_id;
    return c->order.ours ? central_beat(c->run.central, lock_id, e)
                         : central_accepts(c->run.central, lock_id, e);
}

static bool central_ready(struct child *c)
{
    struct err e = {0};
    if (!mono_reached(clock_mono(), c->next_try))
        return false;
    if (write_back_central(&c->run, &e) < 0 || call_central(c, &e) < 0) {
        central_failed(c, &e);
        return false;
    }
    c->pause = 0;
    c->report.central = CENTRAL_OK;
    c->report.error = c->skipped;
    return true;
}

/* Returns whether the server still has the world. A restarted server has lost the local stores
 * together with the world, perhaps before the supervisor noticed. Then nothing is known of them,
 * and an empty wk_stolen proves nothing. */
static bool write_back_remembered(struct child *c, struct err *e)
{
    const struct config *cfg = c->w->cfg;
    struct db_sentinel s;
    if (db_sentinel_read(c->run.world, cfg->schema, cfg->sentinel, &s, e) == 0 && s.rows == 1)
        return true;
    if (db_table_missing(e)) /* the probe reports a missing table */
        err_clear(e);
    db_close(c->run.world);
    c->run.world = NULL;
    return false;
}

/* Limits lock waits. A locked table or row is tried again at the next tick, because this game
 * server must be seen alive meanwhile. */
static int wait_briefly(struct db *db, struct err *e)
{
    return db_lock_wait(db, LOCK_MS, e) < 0 ? -1
           : db_exec(db, "SET SESSION innodb_lock_wait_timeout=1", e) < 0
               ? -1
               : db_fence(db, NULL, "write-back", LOCK_MS, e);
}

static bool world_ready(struct child *c)
{
    struct err e = {0};
    bool fresh = !c->run.world,
         /* The fence is checked because the supervisor, which sends the orders, may hang. */
        up = c->order.up && fence_open();
    if (up && write_back_world(&c->run, &c->w->a->job.db, &e) == 0 &&
        (!fresh || (wait_briefly(c->run.world, &e) == 0 && write_back_remembered(c, &e))))
        return true;
    if (!up || !db_unanswered(&e)) { /* the probe reports an unreachable server */
        db_close(c->run.world);
        c->run.world = NULL;
    }
    if (e.cls != ERR_NONE && !db_unanswered(&e))
        c->report.error = e;
    c->report.known = false;
    return false;
}

/* Checks whether this game server holds any lock. If it holds none, the central store refuses all
 * blobs: it is another game server's, or empty, or other game servers hold all locks. */
static void look_for_locks(struct child *c)
{
    struct local_sessions held;
    struct err ignored;
    if (central_held(c->run.central, c->w->cfg->progress.lock_id, &held, &ignored) < 0)
        return;
    c->report.none_held = held.count == 0;
    free(held.list);
}

/* Sends blobs for at most one tick. However many blobs are unsent, and however slow the store is,
 * sessions must end and this game server must be seen alive. */
static int send_some(struct child *c, enum write_back_scope scope, struct err *e)
{
    c->run.until = mono_add(clock_mono(), TICK_MS);
    int rc = write_back_run(&c->run, scope, 0, e);
    c->report.sent += c->run.done.sent;
    c->report.set_aside += c->run.done.stolen + c->run.done.stale;
    c->report.released += c->run.done.released;
    if (c->run.done.stolen || c->run.done.stale)
        c->next_figures = clock_mono();
    if (c->run.done.stolen && rc == 0)
        look_for_locks(c);
    return rc;
}

/* Returns whether the run failed because other sessions hold locks on the world's own tables. */
static bool locked_out(const struct write_back *run, struct err *e)
{
    if (run->central_failed || !db_lock_busy(e))
        return false;
    err_hint(e,
             "a session of the world's server holds a lock on wk_session, wk_progress or "
             "wk_stolen: end that session in the game, or by KILL with its number; "
             "information_schema.INNODB_TRX lists the sessions with open transactions; this lists "
             "all sessions: SHOW FULL PROCESSLIST");
    return true;
}

static void send_unsent(struct child *c)
{
    struct err e = {0};
    if (c->anew) {
        local_keys_free(&c->run.left);
        err_clear(&c->found);
        c->next_run = clock_mono();
        c->anew = false;
    }
    bool all = mono_reached(clock_mono(), c->next_run);
    int rc = send_some(c, WRITE_BACK_CLOSING, &e);
    if (rc == 0 && all) {
        rc = send_some(c, WRITE_BACK_ALL, &e);
        if (!c->run.left.count) /* not after each tick of a run */
            c->next_figures = clock_mono();
        if (c->run.done.skipped.cls != ERR_NONE)
            c->found = c->run.done.skipped;
        if (rc == 0 && !c->run.left.count) {
            c->report.ran = true;
            c->skipped = c->found;
            err_clear(&c->found);
            c->next_run = mono_add(clock_mono(), c->w->cfg->progress.write_back);
        }
    }
    bool locked = rc < 0 && locked_out(&c->run, &e);
    if (condition_lasts(&c->busy_since, locked || (rc < 0 && e.cls == ERR_BUSY), BUSY_MS,
                        clock_mono()))
        c->report.error = e;
    if (rc == 0 || e.cls == ERR_BUSY)
        return;
    local_keys_free(&c->run.left); /* the next run starts from the beginning */
    err_clear(&c->found);
    if (c->run.central_failed)
        central_failed(c, &e);
    else if (e.cls != ERR_ABORTED && !c->run.fenced && /* the lease reports that */
             !db_unanswered(&e))                       /* the probe reports an unreachable server */
        c->report.error = e;
    if (locked) /* the server answers, and its figures do not need the lock */
        return;
    db_close(c->run.world);
    c->run.world = NULL;
}

/* Counts the blobs. Counting takes the server longer than sending, so it is not done at each
 * tick. */
static void ask_figures(struct child *c)
{
    struct local_keys keys;
    struct local_counts counts;
    struct err e;
    if (!mono_reached(clock_mono(), c->next_figures))
        return;
    c->next_figures = mono_add(clock_mono(), FIGURES_MS);
    c->report.known = local_unsent(c->run.world, false, &keys, &e) == 0 &&
                      local_counts(c->run.world, &counts, &e) == 0;
    if (c->report.known) {
        c->report.sessions = counts.sessions;
        c->report.stolen = counts.stolen;
        c->report.unsent = keys.count;
        c->report.oldest_ms = keys.oldest_ms;
        snprintf(c->report.first, sizeof c->report.first, "%s", counts.first);
    } else {
        db_close(c->run.world);
        c->run.world = NULL;
    }
    local_keys_free(&keys);
}

static int write_back_child_main(int fd, void *arg)
{
    /* The central store is also tried while the world is down, because its state is always
     * shown. */
    static struct child c; /* static, so that no byte of the packet is uninitialized */
    c.fd = fd;
    c.w = arg;
    write_back_open(&c.run, c.w->cfg, c.w->a->state.central);
    c.run.stop = take_orders;
    c.run.stop_arg = &c;
    c.next_run = clock_mono();
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        mono_t next = mono_add(clock_mono(), TICK_MS);
        take_orders(&c);
        bool central = central_ready(&c);
        if (world_ready(&c) && central)
            send_unsent(&c);
        if (c.run.world)
            ask_figures(&c);
        memcpy(c.report.store, c.run.known, sizeof c.report.store);
        worker_send_packet(c.fd, 0, &c.report, sizeof c.report);
        c.report.ran = false;
        c.report.sent = c.report.set_aside = c.report.released = 0;
        int64_t left = mono_since(next, clock_mono());
        poll(&p, 1, left > 0 ? (int)left : 0);
    }
    return 0;
}

/* ---- the supervisor ---- */

static void write_back_stop(struct world *w)
{
    (void)w;
    worker_kill(&write_backs.worker); /* each of its effects can be repeated safely */
    write_backs.last = (struct report){0};
    write_backs.order = (struct order){0};
}

static void write_back_restart(struct world *w)
{
    write_back_stop(w);
    write_backs.next_start = clock_mono();
}

static void judge_stolen(struct world *w, const struct report *r)
{
    static const char each[] = "SELECT blob_key, lock_key, seq, why, stolen_at FROM wk_stolen; "
                               "then DELETE the rows that are dealt with: worldkeeper-progress(7)",
                      all[] =
                          "this game server has no lock there: if [progress] names another store "
                          "than players log in by, correct it; then "
                          "INSERT IGNORE INTO wk_progress (blob_key,lock_key,lock_seq,seq,sent_seq,"
                          "changed_at,`blob`) SELECT blob_key,lock_key,lock_seq,seq,0,changed_at,"
                          "`blob` FROM wk_stolen WHERE why='stolen' ORDER BY seq DESC; "
                          "DELETE FROM wk_stolen WHERE why='stolen' AND EXISTS (SELECT * FROM "
                          "wk_progress p WHERE p.blob_key=wk_stolen.blob_key AND p.lock_key="
                          "wk_stolen.lock_key AND p.lock_seq=wk_stolen.lock_seq AND "
                          "p.seq>=wk_stolen.seq); "
                          "sends them again; what stays in wk_stolen was not inserted "
                          "(worldkeeper-progress(7))";
    char key[CONDITION_KEY];
    snprintf(key, sizeof key, "%" PRIu64, r->stolen);
    if (r->stolen)
        notify_open(w, CONDITION_STOLEN, key,
                    "they are set aside in table wk_stolen, with the reason; all others are sent",
                    r->none_held ? all : each,
                    "%" PRIu64 " blob%s of players' progress may no longer be sent to the central "
                    "store, first %s",
                    r->stolen, r->stolen == 1 ? "" : "s", r->first);
    else
        notify_over(w, CONDITION_STOLEN, "wk_stolen is empty again");
}

/* The key of all failures to reach the central store, whatever their wording. */
#define AWAY "away"

/* An answer ends only the failure to reach the store. What else failed is over when a run has sent
 * all blobs: while the world is paused or lost, nothing is sent that could fail. */
static void judge_central(struct world *w, const struct report *r)
{
    char key[CONDITION_KEY];
    if (!central_lasts(&r->error, &write_backs.failing_since, clock_mono(), GRACE_MS))
        return;
    if (r->central != CENTRAL_OK || r->error.cls != ERR_NONE)
        notify_open(w, CONDITION_CENTRAL,
                    r->central == CENTRAL_AWAY ? AWAY : condition_key(key, &r->error),
                    "saves stay in the world's own tables; trying again",
                    r->error.hint[0] ? r->error.hint : "worldkeeper --check names what is missing",
                    "players' progress is not written back: %s", r->error.text);
    else if (r->ran || strcmp(w->conditions[CONDITION_CENTRAL].key, AWAY) == 0)
        notify_over(w, CONDITION_CENTRAL, "players' progress is written back again");
}

static void write_back_message(struct world *w, struct worker *v, const struct packet *m)
{
    const struct report *r = m ? packet_struct(m, sizeof *r) : NULL;
    if (!m)
        worker_end(v);
    if (!r)
        return;
    if (r->known != write_backs.last.known || r->unsent != write_backs.last.unsent ||
        r->central != write_backs.last.central || r->sessions != write_backs.last.sessions ||
        r->stolen != write_backs.last.stolen || r->sent)
        w->status_dirty = true;
    if (strcmp(w->a->state.central, r->store) != 0) {
        snprintf(w->a->state.central, sizeof w->a->state.central, "%s", r->store);
        w->state_dirty = true;
    }
    write_backs.last = *r;
    write_backs.sent += r->sent;
    /* The history gets one record for each run that changed something. */
    write_backs.run_sent += r->sent;
    write_backs.run_set_aside += r->set_aside;
    write_backs.run_released += r->released;
    if (r->ran) {
        if (write_backs.run_sent || write_backs.run_set_aside || write_backs.run_released)
            history_add(w, HISTORY_WRITE_BACK,
                        json_pack("{s:b, s:b, s:I, s:I, s:I}", "ok", true, "automatic", true,
                                  "sent", (json_int_t)write_backs.run_sent, "set_aside",
                                  (json_int_t)write_backs.run_set_aside, "released",
                                  (json_int_t)write_backs.run_released));
        write_backs.run_sent = write_backs.run_set_aside = write_backs.run_released = 0;
    }
    worker_err_clean(&write_backs.last.error);
    if (r->known && w->guard.state != GUARD_STANDBY)
        judge_stolen(w, &write_backs.last);
    if (r->central != CENTRAL_UNKNOWN)
        judge_central(w, &write_backs.last);
}

/* Sends an order if the state of the world or the machine's role has changed. A server that only
 * does not answer changes nothing: the worker waits for its answer. */
static void give_orders(struct world *w)
{
    enum guard_state s = w->guard.state;
    struct order o = {.up = s == GUARD_UP || (s == GUARD_SUSPECT && write_backs.order.up),
                      .ours = !state_standby(&w->a->state, w->cfg)};
    write_backs.lost |= s == GUARD_LOST || s == GUARD_RESTORING;
    o.everything = o.up && write_backs.lost;
    bool same = o.up == write_backs.order.up && o.ours == write_backs.order.ours;
    if ((same && !o.everything) || write_backs.worker.fd < 0)
        return;
    if (worker_send_packet(write_backs.worker.fd, ORDER, &o, sizeof o) < 0)
        return;
    write_backs.order = o;
    write_backs.lost = write_backs.lost && !o.up;
}

static void write_back_timers(struct world *w, mono_t now)
{
    struct err e;
    if (!w->cfg->progress.lock_id) {
        notify_over(w, CONDITION_CENTRAL, "write-back of progress is no longer configured");
        notify_over(w, CONDITION_STOLEN, "write-back of progress is no longer configured");
    } else if (w->guard.state == GUARD_STANDBY) {
        notify_over(w, CONDITION_STOLEN, "another machine keeps the world, and its wk_stolen");
    }
    if (write_backs.worker.pid && mono_since(now, write_backs.worker.heard) > SILENT_MS) {
        log_line(LOG_WARN_, "the write-back made no progress and was stopped");
        write_back_stop(w);
    }
    if (!write_backs.worker.pid && w->cfg->progress.lock_id && !w->stopping &&
        mono_reached(now, write_backs.next_start)) {
        write_backs.next_start = mono_add(now, START_MS);
        write_backs.order = (struct order){0};
        if (worker_start(&write_backs.worker, write_back_child_main, w, false, &e) < 0)
            world_log_err(w, LOG_WARN_, "the write-back", &e);
    }
    if (write_backs.worker.pid)
        give_orders(w);
}

/* ---- what is shown ---- */

static json_t *write_back_status_json(const struct world *w)
{
    const struct report *r = &write_backs.last;
    static const char *const states[] = {NULL, "ok", "away", "refused"};
    if (!w->cfg->progress.lock_id)
        return json_null();
    json_t *o = json_object();
    json_object_set_new(o, "sessions", js_known(r->known, (int64_t)r->sessions));
    json_object_set_new(o, "unsent", js_known(r->known, (int64_t)r->unsent));
    json_object_set_new(o, "oldest_unsent_seconds",
                        js_known(r->known, r->oldest_ms > 0 ? r->oldest_ms / 1000 : 0));
    json_object_set_new(o, "sent", json_integer((json_int_t)write_backs.sent));
    json_object_set_new(o, "stolen", js_known(r->known, (int64_t)r->stolen));
    json_object_set_new(o, "central",
                        states[r->central] ? json_string(states[r->central]) : json_null());
    return o;
}

static void write_back_begin(struct world *w)
{
    world_worker(w, &write_backs.worker, "write-back", write_back_message);
}

const struct part write_backs_part = {.begin = write_back_begin,
                                      .timers = write_back_timers,
                                      .restart = write_back_restart,
                                      .stop = write_back_stop,
                                      .status = "progress",
                                      .status_json = write_back_status_json};
