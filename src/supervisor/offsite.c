/* Copies on another machine ([offsite]). One worker sends dumps and another sends the journal's
 * segments, so that a long dump does not delay the newest changes. Nothing else waits for these
 * workers.
 *
 * The child (struct child) works independently and reports. The supervisor keeps the last report of
 * each child (struct sender) and judges by it. Nothing is sent to the child: it uses the config
 * that it had at the fork, and exits when the socket closes. */
#include "supervisor/offsite.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/board.h"
#include "base/fault.h"
#include "base/fence.h"
#include "base/js.h"
#include "offsite/record.h"
#include "offsite/upload.h"
#include "offsite/upload_dumps.h"
#include "offsite/upload_segments.h"
#include "supervisor/condition_words.h"
#include "supervisor/jobs.h"
#include "supervisor/notifier.h"
#include "supervisor/recorder.h"
#include "supervisor/world.h"

#define TICK_MS fault_wait(1000)       /* interval of the worker that sends segments */
#define DUMPS_TICK_MS fault_wait(5000) /* interval of the worker that sends dumps */
#define TRIM_MS fault_wait(3600000)    /* between two searches for old records */
#define LOOK_MS 1000                   /* interval of reports during a long upload */
#define FIGURES_MS fault_wait(10000)   /* between two updates of the figures during a long upload */
/* Upload rate in bytes per second during a dump or a restore; stores do not time out at this
 * rate. */
#define BESIDE_RATE (1 << 20)
#define BESIDE_MS 1000                /* longest single pause */
#define AGAIN_MIN_MS fault_wait(1000) /* pause after a failure, doubled up to AGAIN_MAX_MS */
#define AGAIN_MAX_MS fault_wait(300000)
#define START_MS fault_wait(5000) /* pause before a worker that died is restarted */
#define SILENT_MS 900000
#define SILENT_TIMEOUTS 12 /* or so many timeouts of the store, which one step may take */
/* Without a report for so long, the figures of a worker count as unknown. */
#define QUIET_MS fault_wait(60000)
#define AWAY_MS fault_wait(60000) /* shorter outages of the store are not reported */

/* Two workers, since a dump that takes hours must not keep the last seconds of the journal from the
 * store. */
enum { DUMPS, SEGMENTS, SENDERS };

/* Sent by a worker after each step, and during a long step. */
struct report {
    struct upload_figures is;
    bool sending;             /* a step is running */
    bool failed;              /* a step has failed since the last report */
    bool trouble;             /* a step failed and nothing was stored since, or cannot be stored */
    bool away;                /* cause of the trouble: the store does not answer */
    bool fenced;              /* cause: another machine stores the world there, or may do so */
    bool made;                /* copies are made nevertheless; only one item cannot be stored */
    struct err why;           /* error of the trouble */
    char done[DUMP_NAME_MAX]; /* dump that was stored since the last report; "": none */
    uint64_t bytes;
    int64_t took_ms;
};

struct sender {
    struct worker worker;
    mono_t next_start;
    struct report last;
};

static struct offsite {
    /* Shared uint64_t: not 0 while a dump or a restore runs, which needs disk and processors. NULL
     * before the first worker. */
    struct board *hurried;
    struct sender senders[SENDERS];
    uint64_t failed;       /* failed steps since the start, for the status */
    struct err last_error; /* ERR_NONE: none since the start */
    bool noted;            /* the failure was written to the history */
    mono_t away_since;     /* ms 0: the store answers */
} offsite;

/* ---- the child ---- */

struct child {
    int fd;
    unsigned role;
    struct upload u;
    struct report report;
    mono_t looked;
    mono_t figured; /* when the figures were updated */
    /* after a failed step; 0: no step has failed since the last one that ends_failure() */
    int64_t pause;
    uint64_t hurried, seen; /* value and version of the shared memory when it was read last */
    uint64_t moved;         /* bytes of this transfer so far */
    struct lives record;    /* the record as it was read last */
    bool unswept;           /* the failure to sweep was logged */
    mono_t next_trim;       /* when old records are deleted next */
};

/* Sends the report. One-time events are then cleared, so that they are reported once. */
static void offsite_send_report(struct child *c)
{
    worker_send_packet(c->fd, 0, &c->report, sizeof c->report);
    c->report.failed = false;
    c->report.done[0] = '\0';
    c->looked = clock_mono();
}

/* Updates the figures during a long upload: what has appeared since it began is waiting, too. */
static void offsite_update_figures(struct child *c)
{
    if (!c->u.figures.known || mono_since(clock_mono(), c->figured) < FIGURES_MS)
        return;
    if (c->role == DUMPS)
        upload_dumps_figures(&c->u);
    else
        upload_segments_figures(&c->u);
    c->figured = clock_mono();
}

/* Called during an upload. Reports regularly, so that the supervisor does not take this worker for
 * a hanging one. */
static int offsite_look(void *arg, uint64_t bytes, struct err *e)
{
    (void)e;
    struct child *c = arg;
    /* An upload of a dump is slowed down during a dump or a restore: its data is already stored on
     * this disk, and the job needs the processor. Journal segments are small and are not slowed
     * down. */
    int64_t ms = bytes > c->moved ? (int64_t)((bytes - c->moved) * 1000 / BESIDE_RATE) : 0;
    c->moved = bytes;
    uint64_t hurried;
    if (board_read(offsite.hurried, &c->seen, &hurried))
        c->hurried = hurried;
    if (c->role == DUMPS && c->hurried) {
        ms = ms < BESIDE_MS ? ms : BESIDE_MS;
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    }
    if (mono_since(clock_mono(), c->looked) >= LOOK_MS) {
        c->report.sending = true;
        offsite_update_figures(c);
        if (c->u.figures.known)
            c->report.is = c->u.figures;
        offsite_send_report(c);
    }
    return 0;
}

/* Writes a record that a promotion could not write without the store, or that is lost or damaged in
 * the store. */
static int record_late(struct child *c, const struct transfer *t, const struct lives *last,
                       uint64_t lease, struct err *e)
{
    struct lives next = lives_late(last, &c->record, record_number(&c->record, lease));
    if (fence_check("record", e) < 0 || record_write(t, c->u.cfg->name, &next, e) < 0)
        return -1;
    if (last->unwritten)
        log_line(LOG_NOTE_,
                 "the promotion to generation %" PRIu64 " is in the record, number %" PRIu64,
                 next.now.generation, next.number);
    c->record = next;
    return lives_save(c->u.dirfd, &next, e);
}

/* Records a life that this machine began itself, by --init or a restore, before any data of it is
 * stored. The machine already keeps the world, so only the uploads wait for this. */
static int record_life(struct child *c, const struct transfer *t, const struct state *s,
                       const struct life *own, const struct lives *last, struct err *e)
{
    const struct config *cfg = c->u.cfg;
    uint64_t lease = cfg->standby.lease != LEASE_NONE ? s->lease_number : 0;
    struct lives *r = &c->record;
    struct ancestor took = {.ended = "restored"};
    bool late = r->damaged || (last->unwritten ? strcmp(r->machine, s->holder) != 0 : !r->number);
    if (last->own && late && record_late(c, t, last, lease, e) < 0)
        return -1;
    if (life_is(&r->now, own)) {
        r->own = true;
        return last->own && last->number == r->number && !last->unwritten
                   ? 0
                   : lives_save(c->u.dirfd, r, e);
    }
    if (strcmp(s->made.nonce, own->nonce) == 0) {
        snprintf(took.dump, sizeof took.dump, "%s", s->made.dump);
        snprintf(took.file, sizeof took.file, "%s", s->made.upto.file);
        took.pos = s->made.upto.pos;
    }
    struct lives next = lives_next(r, record_number(r, lease), s->holder, own, &took);
    if (fence_check("record", e) < 0 || record_write(t, cfg->name, &next, e) < 0)
        return -1;
    *r = next;
    log_line(LOG_NOTE_, "generation %" PRIu64 " of the world is in the record, number %" PRIu64,
             own->generation, next.number);
    return lives_save(c->u.dirfd, &next, e);
}

/* Reports an invalid record, unless this machine has written a newer one since. */
static void offsite_ignored(struct child *c, struct err *ignored)
{
    const struct lives *r = &c->record;
    bool passed = ignored->cls != ERR_NONE && (r->damaged || r->highest > r->number);
    if (!passed || c->u.skipped.cls != ERR_NONE)
        return;
    err_step(ignored, r->damaged ? "the record of the world is replaced by this machine's copy"
                                 : "a file newer than the record of the world is ignored");
    err_hint(ignored, "find out what wrote it: two machines of one world need the same [dump] "
                      "hmac_key_file. If no machine of this world wrote it, remove the file");
    c->u.skipped = *ignored;
}

/* Returns true if the world has no record yet and the dumps in the store were not judged: version
 * 0.2 writes no record, so only its dumps show that another machine has taken the world over
 * (offsite/owner.h). */
static bool record_is_early(const struct child *c, const struct lives *last)
{
    return c->u.whose_each && !c->u.looked && !c->record.number && !last->number;
}

static int offsite_whose(void *arg, const struct transfer *t, struct err *e)
{
    struct child *c = arg;
    struct state s;
    struct lives last;
    struct err ignored;
    /* Loaded before the record is read, because the other worker may be writing a record that this
     * machine has not saved yet. */
    lives_load(c->u.dirfd, &last);
    if (state_load(c->u.dirfd, &s, e) < 0)
        return -1;
    if (record_read(t, c->u.cfg->name, &last, &c->record, &ignored, e) < 0)
        return e->cls == ERR_DAMAGED ? 1 : -1;
    struct life own = {.generation = s.known ? s.generation : 0};
    snprintf(own.nonce, sizeof own.nonce, "%s", s.nonce);
    if (record_judge(&c->record, s.holder, &own, &last) != RECORD_ANOTHERS) {
        bool writes = own.generation && s.holder[0] && !record_is_early(c, &last);
        int rc = writes ? record_life(c, t, &s, &own, &last, e) : 0;
        offsite_ignored(c, &ignored);
        return rc;
    }
    SCOPED(buf_free) struct buf who = {0};
    text_clean(&who, c->record.machine, sizeof c->record.machine);
    err_set(e, ERR_REFUSED, 0,
            "another machine keeps this world, according to the record in %s: %s; this machine "
            "stores and deletes nothing there",
            remote_shown(t->store), who.p);
    err_hint(e, "worldkeeper --demote makes this machine the standby of the other one");
    return 1;
}

/* Deletes the records of lives that have no dumps any longer, as [retention] has deleted them. A
 * failure is retried with the next dump. */
static void trim_record(struct child *c)
{
    const struct upload *u = &c->u;
    struct err e;
    uint64_t oldest = 0;
    if (c->role != DUMPS || !u->whose || u->cfg->offsite.delete_never || u->fenced.cls ||
        !c->record.number || !mono_reached(clock_mono(), c->next_trim))
        return;
    for (size_t i = 0; i < u->there.dump_count; i++) {
        const struct copy_dump *d = &u->there.dumps[i];
        if ((d->manifest || d->files) && (!oldest || d->generation < oldest))
            oldest = d->generation;
    }
    c->next_trim = mono_add(clock_mono(), TRIM_MS);
    if (oldest && record_trim(&u->t, u->cfg->name, &c->record, oldest, &e) < 0)
        log_line(LOG_WARN_, "cannot delete old records of the world in the store: %s", e.text);
}

/* Writes the first record of the world, also if nothing has to be stored. */
static enum remote_result record_first(struct child *c, struct err *e)
{
    struct upload *u = &c->u;
    bool missing = c->role == DUMPS && u->whose && !c->record.number && !u->fenced.cls;
    return missing && u->whose(c, &u->t, e) < 0 ? REMOTE_LATER : REMOTE_OK;
}

/* Handles a failed step; returns how long to wait in ms. */
static int64_t offsite_failed(struct child *c, enum remote_result got, const struct err *e)
{
    int64_t asked = c->u.t.store ? remote_pause(c->u.t.store) : 0;
    c->report.failed = c->report.trouble = true;
    c->report.away = got == REMOTE_LATER;
    c->report.made = false;
    c->report.why = *e;
    c->report.is = c->u.figures;
    c->report.is.known &= c->u.figured; /* else more may be waiting since the last step */
    if (got == REMOTE_STOPPED)
        upload_here(&c->u, &c->report.why);
    upload_close(&c->u);
    c->pause = clock_backoff(c->pause, AGAIN_MIN_MS, AGAIN_MAX_MS);
    return c->pause > asked ? c->pause : asked;
}

/* Returns whether a successful step ends the failure of an earlier one: something was stored,
 * or nothing waits. Between two attempts, a store that takes nothing can still be listed and
 * read. */
static bool ends_failure(const struct upload *u, bool more)
{
    bool all = !more && u->figures.known && u->figures.waiting == 0;
    return all || u->done.name[0] || u->fenced.cls != ERR_NONE;
}

static void offsite_succeeded(struct child *c)
{
    const struct upload *u = &c->u;
    c->pause = 0;
    c->report.fenced = u->fenced.cls != ERR_NONE;
    c->report.why = c->report.fenced ? u->fenced : u->skipped;
    c->report.trouble = c->report.why.cls != ERR_NONE;
    c->report.made = !c->report.fenced && !u->unsent;
    c->report.away = false;
}

/* Runs one step; returns how long to wait in ms. */
static int64_t offsite_step(struct child *c)
{
    struct err e = {0};
    bool more = false;
    mono_t began = c->figured = clock_mono();
    enum remote_result got =
        c->role == DUMPS ? upload_dumps(&c->u, &more, &e) : upload_segments(&c->u, &more, &e);
    if (got == REMOTE_OK)
        got = record_first(c, &e);
    if (got != REMOTE_OK)
        return offsite_failed(c, got, &e);
    const struct upload *u = &c->u;
    c->report.is = u->figures;
    if (c->pause == 0 || ends_failure(u, more))
        offsite_succeeded(c);
    if (u->unswept.cls != ERR_NONE && !c->unswept)
        log_line(LOG_WARN_, "cannot delete interrupted uploads in the store: %s", u->unswept.text);
    c->unswept = u->unswept.cls != ERR_NONE;
    if (c->u.done.name[0] && c->u.done.dump) {
        snprintf(c->report.done, sizeof c->report.done, "%.*s", DUMP_NAME_MAX - 1, c->u.done.name);
        c->report.bytes = c->u.done.bytes;
        c->report.took_ms = mono_since(clock_mono(), began);
        c->next_trim = clock_mono(); /* another dump may be deleted in exchange */
    }
    if (!more)
        trim_record(c);
    c->report.sending = more;
    return more ? 0 : c->role == DUMPS ? DUMPS_TICK_MS : TICK_MS;
}

static int offsite_run_child(int fd, struct world *w, unsigned role)
{
    static struct child c; /* static, so that no byte of the packet is uninitialized */
    c.fd = fd;
    c.role = role;
    /* Both workers together keep to the rate. Most of it is for dumps, which are large. */
    uint64_t *rate = &w->cfg->offsite.max_rate;
    if (*rate && w->cfg->journal == JOURNAL_FOLLOW && w->cfg->offsite.segments)
        *rate = role == DUMPS ? *rate - *rate / 4 : *rate / 4;
    c.u = (struct upload){
        .cfg = w->cfg, .dirfd = w->a->job.dirfd, .look = offsite_look, .look_arg = &c};
    if (w->cfg->standby.given) {
        c.u.whose = offsite_whose;
        c.u.whose_each = w->cfg->standby.lease == LEASE_NONE;
    }
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t wait = offsite_step(&c);
        if (wait > 0)
            c.report.sending = false;
        offsite_send_report(&c);
        if (poll(&p, 1, (int)wait) > 0)
            /* Nothing is ever sent to this worker, so the supervisor has closed the socket. */
            return 0;
    }
}

static int send_dumps(int fd, void *arg)
{
    return offsite_run_child(fd, arg, DUMPS);
}

static int send_segments(int fd, void *arg)
{
    return offsite_run_child(fd, arg, SEGMENTS);
}

/* ---- the supervisor ---- */

static void end_sender(struct sender *s)
{
    worker_kill(&s->worker); /* an incomplete upload does not count as stored */
    s->last = (struct report){0};
}

static void offsite_stop(struct world *w)
{
    (void)w;
    for (unsigned i = 0; i < SENDERS; i++)
        end_sender(&offsite.senders[i]);
}

static void end_conditions(struct world *w, const char *why)
{
    static const enum condition_id of[] = {CONDITION_OFFSITE, CONDITION_OFFSITE_LATE};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        notify_over(w, of[i], "%s", why);
}

static void offsite_restart(struct world *w)
{
    offsite_stop(w);
    for (unsigned i = 0; i < SENDERS; i++)
        offsite.senders[i].next_start = clock_mono();
}

/* Returns whether worker `i` may run. A machine whose fence is closed, or that is a standby, must
 * not write where another machine stores its world. */
static bool offsite_wanted(const struct world *w, unsigned i)
{
    const struct config *c = w->cfg;
    return c->offsite.url && fence_open() && !state_standby(&w->a->state, c) &&
           (i == DUMPS || (c->journal == JOURNAL_FOLLOW && c->offsite.segments));
}

/* Returns whether the worker's last report is still current. */
static bool is_known(unsigned i)
{
    const struct sender *s = &offsite.senders[i];
    return s->last.is.known && s->worker.pid &&
           mono_since(clock_mono(), s->worker.heard) <= QUIET_MS;
}

/* Returns the report of the worker that is in trouble; NULL: none. A worker that makes no copies
 * comes first, because a bad item in the store may stay there for good. Then dumps come first:
 * without them the journal is useless. */
static const struct report *offsite_trouble(void)
{
    const struct report *found = NULL;
    for (unsigned i = 0; i < SENDERS; i++) {
        const struct report *r = &offsite.senders[i].last;
        if (r->trouble && (!found || (found->made && !r->made)))
            found = r;
    }
    return found;
}

static void offsite_judge(struct world *w)
{
    const struct report *r = offsite_trouble();
    char key[CONDITION_KEY];
    bool away = condition_lasts(&offsite.away_since, r && r->away, AWAY_MS, clock_mono());
    if (r && r->away && !away)
        return;
    if (r && !offsite.noted)
        history_add(w, HISTORY_OFFSITE,
                    json_pack("{s:b, s:o}", "ok", false, "error", js_clean(r->why.text)));
    offsite.noted = r != NULL;
    if (r) /* the key does not depend on the wording of an outage, or on the dump that fences */
        notify_open(w, CONDITION_OFFSITE,
                    r->away     ? "away"
                    : r->fenced ? "fenced"
                                : condition_key(key, &r->why),
                    r->made ? "new files are still stored"
                            : "dumps stay in the dump directory; trying again",
                    r->why.hint[0] ? r->why.hint : "worldkeeper --check tests the store",
                    "%s on the other machine: %s",
                    r->made ? "not all is well with the copies" : "no new copies are stored",
                    r->why.text);
    else
        notify_over(w, CONDITION_OFFSITE,
                    "new copies are stored on the other machine again, and no copy there is known "
                    "to be damaged");
}

/* Returns the age in seconds of the oldest item that is newer than everything stored; -1: not
 * known, also while this machine must not store anything. */
static int64_t supervisor_offsite_behind_seconds(const struct world *w)
{
    int64_t most = 0, now = clock_wall().ms;
    if (!offsite_wanted(w, DUMPS))
        return -1;
    for (unsigned i = 0; i < SENDERS; i++) {
        const struct report *r = &offsite.senders[i].last;
        int64_t is = r->is.since.ms && now > r->is.since.ms ? (now - r->is.since.ms) / 1000 : 0;
        if (offsite_wanted(w, i) && !is_known(i))
            return -1;
        most = is > most ? is : most;
    }
    return most;
}

/* Reports uploads that succeed but are too slow. If uploads fail, CONDITION_OFFSITE says more. */
static void judge_late(struct world *w)
{
    int64_t behind = supervisor_offsite_behind_seconds(w), limit = w->cfg->max_dump_age / 1000;
    char t[TEXT_SHORT];
    const struct report *r = offsite_trouble();
    if (behind > limit && (!r || r->made))
        notify_open(w, CONDITION_OFFSITE_LATE, NULL,
                    "the newest dump is sent first; dumps stay in the dump directory",
                    "find out whether the connection to the store is too slow, or [offsite] "
                    "max_rate too low, for what is dumped each [dump] interval",
                    "copies on the other machine are late: the oldest of what is not stored there "
                    "yet has been waiting for more than %s",
                    text_duration(w->cfg->max_dump_age, t));
    else if (behind >= 0 && behind <= limit)
        notify_over(w, CONDITION_OFFSITE_LATE, "the copies on the other machine are up to date");
}

static void offsite_take_report(struct world *w, struct sender *s, const struct report *r)
{
    struct report *last = &s->last;
    bool news = r->is.known != last->is.known || r->is.waiting != last->is.waiting ||
                r->is.stored != last->is.stored || r->trouble != last->trouble ||
                r->sending != last->sending || r->failed;
    w->status_dirty |= news;
    *last = *r;
    worker_err_clean(&last->why);
    if (r->failed)
        offsite.failed++;
    if (r->trouble)
        offsite.last_error = last->why;
    if (r->done[0])
        history_add(w, HISTORY_OFFSITE,
                    json_pack("{s:b, s:o, s:I, s:f}", "ok", true, "dump", js_clean(r->done),
                              "bytes", (json_int_t)r->bytes, "seconds", (double)r->took_ms / 1000));
    if (r->is.known || r->trouble)
        offsite_judge(w);
    judge_late(w);
}

/* Handles a worker that ended. The failure is shown until the next worker reports. */
static void offsite_worker_lost(struct world *w, struct sender *s, const char *how)
{
    struct report r = {.failed = true, .trouble = true, .away = true};
    memcpy(r.is.newest, s->last.is.newest, sizeof r.is.newest);
    r.is.newest_at = s->last.is.newest_at;
    err_set(&r.why, ERR_SYSTEM, 0, "the %s worker %s", s->worker.name, how);
    worker_end(&s->worker);
    offsite_take_report(w, s, &r);
}

static void offsite_message(struct world *w, struct worker *v, const struct packet *m)
{
    struct sender *s = offsite.senders;
    const struct report *r = m ? packet_struct(m, sizeof *r) : NULL;
    while (&s->worker != v)
        s++;
    if (r)
        offsite_take_report(w, s, r);
    else if (!m)
        offsite_worker_lost(w, s, "ended unexpectedly");
}

static void offsite_timers(struct world *w, mono_t now)
{
    static worker_fn *const run[SENDERS] = {send_dumps, send_segments};
    struct err e;
    int64_t timeouts = w->cfg->offsite.timeout * SILENT_TIMEOUTS,
            silent = timeouts > SILENT_MS ? timeouts : SILENT_MS;
    enum action runs = jobs_running();
    uint64_t hurried = runs == ACTION_DUMP || runs == ACTION_RESTORE;
    if (offsite.hurried)
        board_write(offsite.hurried, &hurried);
    if (!w->cfg->offsite.url)
        end_conditions(w, "copies are no longer configured");
    else if (state_standby(&w->a->state, w->cfg))
        end_conditions(w, "another machine keeps the world, and makes its copies");
    for (unsigned i = 0; i < SENDERS; i++) {
        struct sender *s = &offsite.senders[i];
        if (s->worker.pid && mono_since(now, s->worker.heard) > silent) {
            log_line(LOG_WARN_, "the %s worker made no progress and was stopped", s->worker.name);
            worker_stop(&s->worker, SIGKILL);
            offsite_worker_lost(w, s, "made no progress and was stopped");
        }
        if (s->worker.pid && !offsite_wanted(w, i))
            end_sender(s);
        if (s->worker.pid || !offsite_wanted(w, i) || w->stopping || w->state_unsigned ||
            !mono_reached(now, s->next_start))
            continue;
        s->next_start = mono_add(now, START_MS);
        if (!offsite.hurried)
            offsite.hurried = board_new(sizeof(uint64_t), &e);
        if (!offsite.hurried || worker_start(&s->worker, run[i], w, false, &e) < 0)
            world_log_err(w, LOG_WARN_, "the off-site worker", &e);
    }
}

/* ---- what is shown ---- */

static json_t *offsite_status_json(const struct world *w)
{
    const struct report *last[] = {&offsite.senders[DUMPS].last, &offsite.senders[SEGMENTS].last};
    const struct upload_figures *dumps = &last[0]->is, *segments = &last[1]->is;
    int64_t behind = supervisor_offsite_behind_seconds(w);
    bool waits = dumps->waiting || segments->waiting || last[0]->sending || last[1]->sending;
    const struct report *r = offsite_trouble();
    const char *state = r && r->fenced ? "fenced"
                        : r            ? "failing"
                        : behind < 0   ? NULL
                        : waits        ? "sending"
                                       : "stored";
    if (!w->cfg->offsite.url)
        return json_null();
    json_t *j = json_pack(
        "{s:s?, s:o, s:s?, s:o, s:o, s:o, s:o, s:I, s:o}", "state", state, "fenced",
        r && r->fenced    ? json_true()
        : is_known(DUMPS) ? json_false()
                          : json_null(),
        "newest", dumps->newest[0] ? dumps->newest : NULL, "newest_at",
        dumps->newest[0] ? js_time(dumps->newest_at) : json_null(), "behind_seconds",
        js_known(behind >= 0, behind), "waiting",
        js_known(behind >= 0, (int64_t)(dumps->waiting + segments->waiting)), "stored",
        js_known(is_known(DUMPS), (int64_t)dumps->stored), "failed", (json_int_t)offsite.failed,
        "last_error", offsite.last_error.text[0] ? js_clean(offsite.last_error.text) : json_null());
    return j;
}

static void offsite_begin(struct world *w)
{
    world_worker(w, &offsite.senders[DUMPS].worker, "off-site", offsite_message);
    world_worker(w, &offsite.senders[SEGMENTS].worker, "off-site journal", offsite_message);
}

const struct part offsite_part = {.begin = offsite_begin,
                                  .timers = offsite_timers,
                                  .restart = offsite_restart,
                                  .opens_dirs = true,
                                  .stop = offsite_stop,
                                  .status = "offsite",
                                  .status_json = offsite_status_json};
