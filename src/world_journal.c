/* The journal as the supervisor sees it: a worker that follows the binary log while the world is up
 * (journal/follow.h), how far behind it is, and what to do about changes that it cannot follow. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/js.h"
#include "core/log.h"
#include "journal/follow.h"
#include "world_int.h"

#define RETRY_FIRST_MS 1000
#define RETRY_MAX_MS 60000
#define PASSING_MS 8000        /* three failures in a row are no server that is just going away */
#define LAG_MIN_MS 2000        /* a beat a second, and its way */
#define GAP_PAUSE_MS 10000     /* between two dumps that gaps asked for, at first */
#define UNABLE_RETRY_MS 300000 /* a server's settings change seldom */
#define GAPS_KEPT 12u          /* their texts must fit into the state */
#define END_MS 3000            /* for what was read to be written */
#define SETTLED_MS 10000       /* a full disk takes a little, a log is read to the bad place */

void journal_init(struct world *w)
{
    worker_init(&w->journal.worker, "journal");
    w->journal.state = JOURNAL_IDLE;
    w->journal.retry = RETRY_FIRST_MS;
}

static const char *state_name(enum journal_state s)
{
    switch (s) {
    case JOURNAL_IDLE:
        return "idle";
    case JOURNAL_STARTING:
        return "starting";
    case JOURNAL_FOLLOWING:
        return "following";
    case JOURNAL_UNABLE:
        return "off";
    case JOURNAL_FAILED:
        break;
    }
    return "failed";
}

static bool wanted(const struct world *w)
{
    return w->cfg->journal != JOURNAL_OFF && w->guard.state == GUARD_UP && !w->stopping;
}

/* How old a change may be that is not proven to be in the journal; -1: nobody follows. */
static int64_t behind(const struct world *w, mono_t now)
{
    const struct journal_now *j = &w->journal;
    return j->state != JOURNAL_FOLLOWING ? -1 : mono_since(now, j->proven);
}

json_t *journal_status_json(const struct world *w)
{
    const struct journal_now *j = &w->journal;
    int64_t ms = behind(w, clock_mono());
    if (w->cfg->journal == JOURNAL_OFF)
        return json_null();
    json_t *o = json_pack("{s:s, s:s, s:o, s:b, s:o}", "mode",
                          w->cfg->journal == JOURNAL_FOLLOW ? "follow" : "server", "state",
                          state_name(j->state), "behind_seconds",
                          ms < 0 ? json_null() : json_real((double)ms / 1000), "gap", j->gap.on,
                          "reason", js_clean(j->gap.on ? j->gap.text : j->reason));
    if (j->state == JOURNAL_FOLLOWING) {
        js_set_clean(o, "file", j->file);
        js_set_int(o, "pos", j->pos);
        js_set_int(o, "changes", j->changes);
    }
    return o;
}

double journal_behind_seconds(const struct world *w)
{
    int64_t ms = behind(w, clock_mono());
    return ms < 0 ? -1 : (double)ms / 1000;
}

/* ---- the worker ---- */

static void stop_worker(struct world *w, enum journal_state state)
{
    worker_stop(&w->journal.worker, SIGKILL);
    worker_end(&w->journal.worker); /* its death is reaped without a name */
    w->journal.state = state;
    w->status_dirty = true;
}

/* In order: what it has read may be all that there is of a server that is gone. */
static void end_worker(struct world *w, mono_t now)
{
    struct journal_now *j = &w->journal;
    if (!j->worker.told_to_stop) {
        worker_stop(&j->worker, SIGTERM);
        j->end_by = mono_add(now, END_MS);
    } else if (mono_reached(now, j->end_by)) {
        stop_worker(w, JOURNAL_IDLE);
    }
}

bool journal_busy(const struct world *w)
{
    return w->cfg->journal == JOURNAL_FOLLOW && w->journal.worker.pid;
}

static void back_off(struct journal_now *j)
{
    j->retry = j->retry * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : j->retry * 2;
}

/* Does the log lead from the newest dump to the world of now? Not over a restore that did not come
 * up to the loss: on a new server the same names stand for another log. */
static const char *no_way(const struct world *w)
{
    const json_t *restored = json_object_get(w->last_restore, "journal");
    if (!w->last.end.file[0])
        return "the newest dump, which does not know its place in the log";
    if (w->last.generation < w->a->state.generation && !js_flag(restored, "whole"))
        return "a restore since the newest dump, over which the log does not lead";
    return NULL;
}

static void start_worker(struct world *w, mono_t now)
{
    static struct follow_args args; /* read by the child after the fork */
    struct err e;
    struct journal_now *j = &w->journal;
    args = (struct follow_args){.cfg = w->cfg, .db = w->a->job.db, .dump_dirfd = w->a->job.dirfd};
    if (w->have_dump && !j->lost_place && !no_way(w))
        args.from = w->last.end;
    args.anew = j->anew;
    j->blind = !args.from.file[0];
    j->next_start = mono_add(now, j->retry);
    if (worker_start(&j->worker, follow_worker, &args, false, &e) < 0) {
        back_off(j);
        tell_trouble(w, &j->failed, EVENT_JOURNAL, true, "start", e.text, "trying on",
                     "see the limits of processes and memory");
        return;
    }
    j->state = JOURNAL_STARTING;
    j->heard = now;
}

static void gap(struct world *w, const char *link, const char *why, const json_t *at);
static void end_gap(struct world *w, const char *what);

static void heard(struct world *w, const json_t *o)
{
    struct journal_now *j = &w->journal;
    if (j->state != JOURNAL_FOLLOWING) {
        if (!j->unwritten && !j->failed.on)
            log_line(LOG_NOTE_, "the journal is followed from %s %" PRId64, js_text(o, "file"),
                     js_number(o, "pos", 0));
        w->status_dirty = true;
    }
    j->state = JOURNAL_FOLLOWING;
    j->anew = false;
    j->heard = clock_mono();
    j->proven.ms = js_number(o, "proven_ms", j->heard.ms);
    j->changes = js_number(o, "changes", 0);
    j->pos = js_number(o, "pos", 0);
    j->beaten = js_flag(o, "beaten");
    js_copy(o, "file", j->file, sizeof j->file);
    j->reason[0] = '\0';
    const char *why = w->have_dump && !j->gap.on ? no_way(w) : NULL;
    if (why)
        gap(w, " behind", why, o);
    bool settled = mono_since(j->heard, j->worker.started) >= SETTLED_MS;
    /* Who has begun can still fail at the first beat, as on a server that takes no writes. */
    if (!j->beaten || (j->unwritten && !settled))
        return;
    j->retry = RETRY_FIRST_MS;
    if (j->unwritten) {
        j->unwritten = false;
        end_gap(w, "the journal is written again");
    }
    if (settled)
        tell_trouble(w, &j->failed, EVENT_JOURNAL, false, NULL, "the journal is followed again", "",
                     "nothing");
}

/* At once, unless dumps for gaps follow each other: then with growing pauses, and not in front of
 * the next try of one that failed. */
static mono_t soon(struct world *w, bool first)
{
    struct journal_now *j = &w->journal;
    mono_t now = clock_mono();
    if (w->dump_failures && !mono_reached(now, w->next_dump))
        return w->next_dump;
    if (j->dumped.ms == 0)
        return now;
    bool often = mono_since(now, j->dumped) < 2 * j->pause;
    if (first)
        j->pause = !often                                 ? GAP_PAUSE_MS
                   : 2 * j->pause > w->cfg->dump_interval ? w->cfg->dump_interval
                                                          : 2 * j->pause;
    mono_t next = mono_add(j->dumped, j->pause);
    return mono_reached(now, next) ? now : next;
}

/* For who asks later which moments can be had (--list). */
static void keep_gap(struct world *w, const char *why, const struct db_point *place)
{
    struct state *s = &w->a->state;
    json_t *list = s->gaps[0] ? json_loads(s->gaps, 0, NULL) : NULL;
    struct buf brief = {0};
    char *text;
    if (!json_is_array(list)) {
        json_decref(list);
        list = json_array();
    }
    text_clean(&brief, why, 150);
    json_array_append_new(list, json_pack("{s:I, s:s, s:I, s:s}", "at", (json_int_t)clock_wall().ms,
                                          "file", place->file, "pos", (json_int_t)place->pos, "why",
                                          brief.p));
    while (json_array_size(list) > GAPS_KEPT)
        json_array_remove(list, 0);
    text = json_dumps(list, JSON_COMPACT);
    if (text && strlen(text) < sizeof s->gaps)
        snprintf(s->gaps, sizeof s->gaps, "%s", text);
    w->state_dirty = true;
    free(text);
    buf_free(&brief);
    json_decref(list);
}

/* What came before a gap is safe with the last dump; what comes after it with the next one. `why`
 * is what it cannot go on behind, or, with ':' for a link, what is in its way. `at` has its place
 * in the log, NULL: it is not known. */
static void gap(struct world *w, const char *link, const char *why, const json_t *at)
{
    struct journal_now *j = &w->journal;
    char what[640];
    bool first = j->gaps == j->covered;
    j->gaps++;
    js_copy(at, "file", j->gap_at.file, sizeof j->gap_at.file);
    j->gap_at.pos = (uint64_t)js_number(at, "pos", 0);
    keep_gap(w, why, &j->gap_at);
    snprintf(what, sizeof what, "the journal cannot go on%s %.550s", link, why);
    tell_trouble(w, &j->gap, EVENT_JOURNAL, true, NULL, what,
                 "a dump is taken at once; until it is stored, a loss takes the world back to the "
                 "moment before",
                 "nothing, when the dump is stored");
    w->next_dump = soon(w, first);
}

/* A dump is not enough where what comes after it is not written either. */
static void end_gap(struct world *w, const char *what)
{
    struct journal_now *j = &w->journal;
    if (j->covered == j->gaps && !j->unwritten)
        tell_trouble(w, &j->gap, EVENT_JOURNAL, false, NULL, what, "", "nothing");
}

static void unable(struct world *w, const json_t *o)
{
    struct journal_now *j = &w->journal;
    const char *why = js_text(o, "unable"), *hint = js_text(o, "hint");
    char what[640];
    bool news = strncmp(j->reason, why, sizeof j->reason - 1) != 0;
    snprintf(j->reason, sizeof j->reason, "%s", why);
    stop_worker(w, JOURNAL_UNABLE);
    j->lag.on = false; /* nobody is behind any more */
    j->next_start = mono_add(clock_mono(), UNABLE_RETRY_MS);
    snprintf(what, sizeof what, "no journal: %.600s", why);
    bool must = w->cfg->journal != JOURNAL_AUTO;
    if (!must && news && !j->failed.on)
        log_line(LOG_NOTE_, "%s", what);
    /* Who does without one is not failing any more, whatever failed before that was known. */
    tell_trouble(w, &j->failed, EVENT_JOURNAL, must, must ? "unable" : NULL, what,
                 "dumping on; what is played between two dumps is lost with the server",
                 hint[0] ? hint : "worldkeeper --check says more");
}

/* Of the follower's own files: the server still has all that is missing in them, as long as its
 * own disk lives. */
static void files_failed(struct world *w, const struct err *e)
{
    struct journal_now *j = &w->journal;
    if (!j->unwritten)
        gap(w, ":", e->text, NULL);
    j->unwritten = true;
}

/* Behind a damaged event nothing of the log can be had from before it, and no reading again mends
 * that. */
static bool ends_here(const struct err *e, bool files)
{
    return e->cls == ERR_GAP || (e->cls == ERR_DAMAGED && !files);
}

static void failed(struct world *w, const struct err *e, bool files)
{
    struct journal_now *j = &w->journal;
    bool ends = ends_here(e, files);
    char what[640], key[64];
    stop_worker(w, JOURNAL_FAILED);
    snprintf(j->reason, sizeof j->reason, "%.500s", e->text);
    j->next_start = mono_add(clock_mono(), j->retry);
    back_off(j);
    if (files)
        files_failed(w, e);
    if (ends) {
        gap(w, " behind", e->text, NULL);
        j->lost_place = true; /* until there is another dump */
        j->anew = true;
    }
    bool passing = e->cls == ERR_UNREACHABLE && j->retry < PASSING_MS;
    if (passing || ends)
        return; /* a server that goes away is told by the guard */
    snprintf(what, sizeof what, "the journal is not followed: %.560s", e->text);
    snprintf(key, sizeof key, "%s %d", err_class_name(e->cls), e->num);
    tell_trouble(w, &j->failed, EVENT_JOURNAL, true, key, what, "trying on",
                 e->hint[0] ? e->hint : "worldkeeper --check says more");
}

void journal_message(struct world *w)
{
    bool closed;
    struct err e;
    json_t *o = worker_receive(w->journal.worker.fd, &closed);
    if (closed && w->journal.worker.told_to_stop) {
        stop_worker(w, JOURNAL_IDLE);
        return;
    }
    if (closed) {
        err_set(&e, ERR_SYSTEM, 0, "its process died");
        failed(w, &e, false);
        return;
    }
    if (js_text(o, "state")[0]) {
        heard(w, o);
    } else if (js_text(o, "gap")[0]) {
        gap(w, " behind", js_text(o, "gap"), o);
    } else if (js_text(o, "unable")[0]) {
        unable(w, o);
    } else if (json_object_get(o, "error")) {
        worker_err_from(json_object_get(o, "error"), &e);
        failed(w, &e, js_flag(o, "files"));
    }
    json_decref(o);
}

/* ---- dumps end a gap ---- */

void journal_dump_begins(struct world *w)
{
    w->journal.covered = w->journal.gaps;
}

/* One that began before the gap may have come to its moment behind it. */
static bool covers(const struct db_point *end, const struct db_point *gap_at)
{
    return end->file[0] && gap_at->file[0] && db_point_compare(end, gap_at) >= 0;
}

static void tell_dump(struct journal_now *j)
{
    json_t *o = json_pack("{s:b}", "dump", 1);
    worker_send(j->worker.fd, o); /* one that cannot take it now is told of the next one */
    json_decref(o);
}

/* Who began to follow at any place begins again at this one, and tells what is behind it. */
static void begin_again(struct world *w)
{
    struct journal_now *j = &w->journal;
    if (!j->worker.told_to_stop)
        end_worker(w, clock_mono());
    j->next_start = clock_mono();
    j->covered = j->gaps;
}

void journal_dump_done(struct world *w)
{
    struct journal_now *j = &w->journal;
    j->lost_place = false;
    if (j->worker.pid && j->blind && w->last.end.file[0])
        begin_again(w);
    else if (j->worker.pid && w->cfg->journal == JOURNAL_FOLLOW)
        tell_dump(j);
    if (j->gap.on)
        j->dumped = clock_mono();
    if (covers(&w->last.end, &j->gap_at))
        j->covered = j->gaps;
    end_gap(w, w->last.end.file[0] ? "a dump was stored; the journal goes on from it"
                                   : "a dump was stored, but no journal goes on from it");
    if (j->covered != j->gaps)
        w->next_dump = soon(w, true); /* it began before the gap */
}

/* ---- time ---- */

static void check_lag(struct world *w, mono_t now)
{
    struct journal_now *j = &w->journal;
    int64_t ms = behind(w, now);
    char what[200], t[TEXT_SHORT], limit[TEXT_SHORT];
    int64_t limit_ms = w->cfg->journal_lag_limit;
    bool late = ms > (limit_ms > LAG_MIN_MS ? limit_ms : LAG_MIN_MS);
    /* A follower that has gone, or has just begun, has not caught up. */
    if (!late && (!j->lag.on || ms < 0 || !j->beaten))
        return;
    snprintf(what, sizeof what,
             late ? "the journal is %s behind (journal_lag_limit %s)"
                  : "the journal is %s behind, within its limit of %s again",
             text_duration(ms, t), text_duration(limit_ms, limit));
    tell_trouble(w, &j->lag, EVENT_JOURNAL, late, NULL, what,
                 "reading on; nothing is lost while the server keeps its log",
                 late ? "see what keeps the server or this machine busy" : "nothing");
}

void journal_timers(struct world *w, mono_t now)
{
    struct journal_now *j = &w->journal;
    if (j->worker.pid && (!wanted(w) || j->worker.told_to_stop))
        end_worker(w, now);
    if (!wanted(w)) {
        if (j->restore_waits && !journal_busy(w) && !w->job.request.action &&
            w->guard.state == GUARD_LOST)
            job_restore(w);
        j->next_start = now;
        return;
    }
    if (!j->worker.pid && mono_reached(now, j->next_start))
        start_worker(w, now);
    check_lag(w, now);
}

/* Two must not write the same file: the next one begins when this one has ended. */
void journal_stop(struct world *w)
{
    if (w->journal.worker.pid && w->stopping)
        stop_worker(w, JOURNAL_IDLE);
    else if (w->journal.worker.pid && !w->journal.worker.told_to_stop)
        end_worker(w, clock_mono());
    w->journal.next_start = clock_mono();
}
