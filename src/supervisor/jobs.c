/* What the guard's decisions start and end: jobs, one at a time, each in a worker; and what their
 * ends mean for the guard, the dumps and the journal. */
#include "supervisor/jobs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "actions/history.h"
#include "actions/run.h"
#include "base/fault.h"
#include "base/fence.h"
#include "base/js.h"
#include "store/catalog.h"
#include "supervisor/condition_words.h"
#include "supervisor/drills.h"
#include "supervisor/dumps.h"
#include "supervisor/follower.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/recorder.h"
#include "supervisor/world.h"

/* A job's life:
 *
 *   jobs_start()     the request is taken over, the child forked
 *   child_main()     action_run(), and at its end the outcome, then the text for clients
 *   jobs_message()   progress and notes go to the clients; the outcome is kept, the last packet ends the job
 *   jobs_died()      in place of that, where the child ended without an outcome
 *   ended()          what follows for the state, the dumps, the journal, the guard and the history
 *
 * The child has a copy of everything: what it changes in memory is lost with it, so the state that it saved to the disk
 * comes back in the outcome (adopt_state()). */

/* A tidy asks the server, which may be as ill as what made it necessary. */
#define TIDY_RETRY_MS fault_wait(5000)
#define TIDY_FAILED_MS fault_wait(60000)
/* The dump's own error names the lock that it waited for: ours would not. */
#define DUMP_STALL_EXTRA_MS 15000

#define JOB_DONE_MAX fault_limit("job.answer", WORKER_MESSAGE_MAX - 64u) /* bytes */
#define SHRUNK_SHOWN 3u /* tables named in an alert about a dump that shrank */
#define TEXT_KEPT 1000u /* bytes of a text in an answer that is too long */

/* From the job's worker, in this order at its end. */
enum packet_type {
    JOB_EVENT, /* JSON: {"progress":{…}} or {"note":"…"}, for the status, the log and clients; or {"blocked":{…}} */
    JOB_SWAPPING,      /* the nonce that is about to be swapped in */
    JOB_OUTCOME,       /* struct outcome */
    JOB_STEPPING_BACK, /* nothing */
    JOB_DONE,          /* JSON: {"done":{"result","error"}}, for the clients that wait */
};
/* Plain data: the worker is a fork of this binary. What only clients see is JSON, after it. */
struct outcome {
    bool failed, new_state;
    bool died;            /* without its own account */
    struct err error;     /* if it failed */
    struct state state;   /* new_state: the job has saved it */
    struct manifest dump; /* of a dump that was stored (manifest_figures()); name "": none was */
};

static struct jobs {
    struct request request; /* ACTION_NONE: no job */
    wall_t since;
    wall_t alive_at; /* the state's when it began: of the world that it replaces */
    mono_t began;
    json_t *progress;       /* last {"phase",…}; or NULL */
    bool replaces_world;    /* not --into, not --dry-run, not single tables */
    bool announced;         /* the guard knows of this restore */
    bool stalled;           /* it is ended for lack of progress */
    bool ended;             /* `outcome` is filled */
    bool stepping_back;     /* this machine may be a standby by what the job has saved */
    struct outcome outcome; /* as the worker sent it */
    json_t *other_dir;      /* jobs_await_dir(): what was to go to the clients; or NULL */
    bool tidy_due;
    mono_t tidy_at;
    char lost_reason[640];  /* why the world was found lost, or "" */
    char restore_hint[512]; /* of the error that the last restore failed with */
} jobs;

void jobs_recall(struct world *w)
{
    const char *text = w->a->state.last_restore;
    w->last_restore = text[0] ? json_loads(text, 0, NULL) : NULL;
    jobs.tidy_due = true; /* a killed restore may have left shadow tables even then */
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
    w->swaps = request_swaps(r) || r->action == ACTION_TIDY;
}

bool jobs_await_dir(void)
{
    return jobs.other_dir != NULL;
}

static json_t *status_json(const struct world *w)
{
    (void)w;
    if (jobs.request.action == ACTION_NONE)
        return json_null();
    json_t *o = jobs.progress ? json_copy(jobs.progress) : json_object();
    json_object_set_new(o, "job", json_string(action_name(jobs.request.action)));
    json_object_set_new(o, "since", js_time(jobs.since));
    return o;
}

/* ---- what the history keeps ---- */

/* How long the world has not been up. */
static json_t *outage_json(const struct world *w)
{
    return w->guard.down_since_set
               ? json_real((double)mono_since(clock_mono(), w->guard.down_since) / 1000)
               : json_null();
}

/* ---- decisions ---- */

void world_event(struct world *w, const struct guard_event *ev)
{
    const struct guard *g = &w->guard;
    struct guard_answer a;
    char before[640];
    bool unverified = guard_unverified(g);
    snprintf(before, sizeof before, "%s", g->reason);
    guard_step(&w->guard, &w->guard_cfg, ev, clock_mono(), &a);
    if (a.changed && g->state == GUARD_UP)
        jobs.lost_reason[0] = '\0';
    if (a.changed && g->state == GUARD_LOST)
        snprintf(jobs.lost_reason, sizeof jobs.lost_reason, "%s", g->reason);
    if (ev->type == GUARD_RESTORE_FAILED)
        snprintf(jobs.restore_hint, sizeof jobs.restore_hint, "%.500s",
                 ev->err ? ev->err->hint : "");
    explain(g, w->cfg, prober_last()->error, jobs.restore_hint, &w->why);
    if (a.changed)
        log_line(LOG_NOTE_, "state %s -> %s: %s", guard_state_name(a.from),
                 guard_state_name(g->state), g->reason);
    else if (a.renewed && strcmp(before, g->reason) != 0)
        log_line(LOG_NOTE_, "state %s: %s", guard_state_name(g->state), g->reason);
    if (a.changed && (a.from == GUARD_PAUSED || g->state == GUARD_PAUSED))
        w->state_dirty = true;
    w->status_dirty |= a.changed || a.renewed;
    if (a.changed || guard_unverified(g) != unverified)
        history_state(w);
    if (a.changed && g->state == GUARD_LOST) {
        const struct state *s = &w->a->state;
        history_add(w, HISTORY_LOSS,
                    json_pack("{s:o, s:o}", "reason", js_clean(w->guard.reason), "alive_at",
                              js_time(s->known ? s->alive_at : (wall_t){0})));
    }
    notify_guard(w, &(struct words_facts){.cfg = w->cfg,
                                          .guard = g,
                                          .answer = &a,
                                          .engine = prober_last()->engine,
                                          .error = prober_last()->error,
                                          .lost_reason = jobs.lost_reason,
                                          .hint = jobs.restore_hint,
                                          .restored = w->last_restore,
                                          .same_world = prober_same_world()});
    /* timers() starts the restore, as soon as no job runs. */
    bool yields = a.action == GUARD_START_RESTORE && action_is(jobs.request.action, ACTION_YIELDS);
    if (yields || a.action == GUARD_END_RESTORE)
        worker_stop(&w->job_worker, SIGKILL);
}

/* ---- the child ---- */

static void child_event(void *arg, const json_t *o)
{
    worker_send_json(*(const int *)arg, JOB_EVENT, o);
}

/* From here on a probe may see the restored world's nonce. */
static void child_swapping(void *arg, const char *nonce, uint64_t generation)
{
    const struct action_context *a = arg;
    char next[NONCE_LEN + 1] = "";
    (void)generation;
    snprintf(next, sizeof next, "%s", nonce);
    worker_send_packet(*(const int *)a->emit_arg, JOB_SWAPPING, next, sizeof next);
}

/* Clients have read it as a note. */
static void child_blocked(void *arg, const char *text, const char *hint)
{
    const struct action_context *a = arg;
    json_auto_t *o =
        json_pack("{s:{s:o, s:o}}", "blocked", "what", js_clean(text), "hint", js_clean(hint));
    worker_send_json(*(const int *)a->emit_arg, JOB_EVENT, o);
}

static void child_stepping_back(void *arg)
{
    worker_send_packet(*(const int *)arg, JOB_STEPPING_BACK, "", 0);
}

static const char *longest(json_t *in)
{
    const char *key, *found = "";
    json_t *value;
    size_t most = 0;
    json_object_foreach(in, key, value)
    {
        size_t size = json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
        found = size > most ? key : found;
        most = size > most ? size : most;
    }
    return found;
}

/* One packet has no room for the plan of very many tables, or the list of very many dumps: what is longest goes, of a text
 * its end, and what the supervisor records and reports of the job stays. */
static void shorten(struct action_context *a, json_t *result, const json_t *whole)
{
    while (json_dumpb(whole, NULL, 0, JSON_COMPACT) > JOB_DONE_MAX && json_object_size(result)) {
        json_t *in = result, *value;
        const char *key = longest(in);
        while (json_object_size(value = json_object_get(in, key)) > 0) {
            in = value;
            key = longest(in);
        }
        bool cut = json_string_length(value) > TEXT_KEPT;
        SCOPED(xfree) char *note =
            cut ? xasprintf("the answer is too long: \"%.60s\" in it is cut off", key)
                : xasprintf("the answer is too long: it comes without \"%.60s\"", key);
        action_note(a, note);
        if (cut) {
            SCOPED(buf_free) struct buf kept = {0};
            text_clean(&kept, json_string_value(value), TEXT_KEPT - 3);
            js_set_clean(in, key, kept.p);
        } else {
            json_object_del(in, key);
        }
    }
}

/* Only the child blocks. What the loop must act on goes as structs, in their order; a killed child
 * leaves the job without an outcome: jobs_died(). */
static int child_main(int fd, void *arg)
{
    static struct outcome out; /* without a byte that was never written */
    struct action_context *a = ((struct world *)arg)->a;
    enum state_role role = a->state.role;
    const struct request *r = &jobs.request;
    json_t *result = NULL;
    a->emit = child_event;
    a->emit_arg = &fd;
    a->job.swapping = child_swapping;
    a->job.blocked = child_blocked;
    a->stepping_back = child_stepping_back;
    out.failed = action_run(a, r, &result, &out.error) < 0;
    /* A role, or a round, that was saved counts, whatever failed after it. */
    out.new_state = a->state.role != role || ((!out.failed || r->action == ACTION_NEW_ROUND) &&
                                              json_object_get(result, "state"));
    json_object_del(result, "state");
    out.state = a->state;
    out.dump = a->dumped;
    worker_send_packet(fd, JOB_OUTCOME, &out, sizeof out);
    json_t *done = json_object(), *o = json_pack("{s:o}", "done", done);
    if (result)
        json_object_set_new(done, "result", result);
    if (out.failed)
        json_object_set_new(done, "error", worker_err_json(&out.error));
    shorten(a, result, o);
    worker_send_json(fd, JOB_DONE, o);
    json_decref(o);
    return 0;
}

/* ---- start ---- */

/* For the log, where a dry run or a restore elsewhere must not read like a restore of the world. */
static void job_words(const struct request *r, char *out, size_t size)
{
    if (r->apply)
        snprintf(out, size, "%sputting back of conflict rows", r->dry_run ? "dry run of " : "");
    else if (r->dry_run)
        snprintf(out, size, "dry run of a %s", action_name(r->action));
    else if (r->into)
        snprintf(out, size, "%s into schema %.80s", action_name(r->action), r->into);
    else if (r->tables)
        snprintf(out, size, "%s of table %.80s", action_name(r->action), r->tables);
    else
        snprintf(out, size, "%s", action_name(r->action));
}

/* Notifies the guard, once per restore. */
static void announce(struct world *w)
{
    if (jobs.announced)
        return;
    jobs.announced = true;
    world_event(w, &(struct guard_event){.type = GUARD_RESTORE_STARTED,
                                         .by_hand = !jobs.request.automatic});
}

int jobs_start(struct world *w, struct request *r, struct err *e)
{
    char words[128];
    if (jobs.request.action != ACTION_NONE) {
        err_set(e, ERR_BUSY, 0, "a %s is running in world %s", action_name(jobs.request.action),
                w->cfg->name);
        return err_hint(e, "one job at a time; worldkeeper --status shows how far it is");
    }
    /* Asked before the fork: a job that may not act would only fail later. */
    bool takes = r->action == ACTION_PROMOTE;           /* the lease, first of all */
    bool standby = state_standby(&w->a->state, w->cfg); /* it is refused in better words */
    if (request_swaps(r) && !takes && !standby && fence_check(action_name(r->action), e) < 0)
        return -1;
    set_request(w, r);
    jobs.replaces_world = request_swaps(r) && !r->tables;
    jobs.since = clock_wall();
    jobs.alive_at = w->a->state.alive_at;
    jobs.began = clock_mono();
    jobs.stalled = jobs.announced = jobs.ended = jobs.stepping_back = false;
    /* Before the fork, so that no change falls between the dump's moment and what the follower counts from. */
    if (r->action == ACTION_DUMP)
        follower_dump_begins();
    if (worker_start(&w->job_worker, child_main, w, false, e) < 0) {
        set_request(w, &(struct request){0});
        jobs.replaces_world = false;
        return -1;
    }
    w->status_dirty = true;
    job_words(r, words, sizeof words);
    log_line(r->action == ACTION_DUMP ? LOG_INFO_ : LOG_NOTE_, "%s begins%s", words,
             r->automatic ? " by itself" : "");
    if (jobs.replaces_world && r->automatic)
        announce(w);
    return 0;
}

/* ---- the end of a dump ---- */

/* "table fleet lost 8,000 of 8,000 rows, table chat lost …" */
static void shrunk_words(const json_t *shrunk, struct buf *out)
{
    size_t i;
    json_t *table;
    json_array_foreach(shrunk, i, table)
    {
        char lost[TEXT_SHORT], had[TEXT_SHORT];
        uint64_t rows = (uint64_t)js_number(table, "rows", 0);
        if (i == SHRUNK_SHOWN) {
            buf_printf(out, ", and %zu more tables", json_array_size(shrunk) - i);
            return;
        }
        buf_printf(out, "%s%s%s lost %s of %s rows", i ? ", " : "",
                   js_text(table, "name")[0] ? "table " : "the world", js_text(table, "name"),
                   text_count(rows - (uint64_t)js_number(table, "rows_now", 0), lost),
                   text_count(rows, had));
    }
}

/* The dump counts all the same: it is what the world is now. */
static void report_shrunk(struct world *w, const json_t *shrunk)
{
    SCOPED(buf_free) struct buf what = {0}, headline = {0}, happened = {0}, todo = {0};
    char t[TEXT_SHORT], doing[320];
    const char *before = js_text(json_array_get(shrunk, 0), "dump");
    int64_t kept = w->cfg->retention.keep_before_shrink;
    if (json_array_size(shrunk) == 0) {
        notify_over(w, CONDITION_SHRUNK, "the newest dump has not lost many rows");
        return;
    }
    shrunk_words(shrunk, &what);
    buf_adds(&headline, what.p);
    follower_explain_shrunk(w, shrunk, &happened, &todo);
    if (happened.len)
        buf_printf(&what, "; %s", happened.p);
    snprintf(doing, sizeof doing, "the new dump counts%s%.150s%s%s", kept ? "; dump " : "",
             kept ? before : "", kept ? ", which has the rows, is kept for " : "",
             kept ? text_duration(kept, t) : "");
    if (!todo.len)
        buf_printf(&todo,
                   "; if that was not intended, this brings table NAME back as it was in that "
                   "dump: worldkeeper --restore=%s --table NAME",
                   before);
    notify_open_as(w, CONDITION_SHRUNK, what.p, headline.p, doing, todo.p + strlen("; "), "%s",
                   what.p);
}

/* `e`: what failed after it was stored, or NULL. */
static void dump_done(struct world *w, const struct manifest *m, const json_t *result,
                      const struct err *e)
{
    char rows[TEXT_SHORT], size[TEXT_SHORT];
    report_shrunk(w, json_object_get(result, "shrunk"));
    dumps_stored(w, m);
    follower_dump_done(w);
    notify_heartbeat_now();
    log_line(LOG_NOTE_, "dump %s stored: %s rows, %s, %.1f s", m->name, text_count(m->rows, rows),
             text_size(m->file_size, size), (double)m->took_ms / 1000);
    if (!e) {
        notify_over(w, CONDITION_DUMP, "dumps are stored again");
        return;
    }
    world_log_err(w, LOG_ERROR_, "dump", e);
    notify_open_as(w, CONDITION_DUMP, "retention", "old dumps cannot be deleted",
                   "dumps are stored, and the old ones take room until they are removed",
                   e->hint[0] ? e->hint
                              : "see what keeps it from being removed (lsattr shows if it is "
                                "immutable); keep permanent copies in another directory",
                   "%.600s", e->text);
}

static void dump_failed(struct world *w, const json_t *result, const struct err *e)
{
    const char *rejected = js_text(result, "rejected");
    const char *failed = rejected[0] ? "dump discarded" : "dump failed";
    /* The older dumps are still what a restore would take. One that the shrink guard rejected is not tried before the
     * next is due. */
    int64_t wait = dumps_failed(w, strstr(rejected, "shrink_limit") != NULL);
    world_log_err(w, LOG_ERROR_, failed, e);
    /* The guard reports trouble of the world itself; only what probes do not notice is reported
     * here. */
    bool passing = e->cls == ERR_UNREACHABLE && dumps_failures() == 1;
    if (passing || e->cls == ERR_ABORTED || w->guard.state != GUARD_UP)
        return;
    char t[TEXT_SHORT], doing[200], key[64];
    SCOPED(buf_free) struct buf happened = {0}, todo = {0};
    snprintf(doing, sizeof doing, "the older dumps stay as they are; the next try is in %s",
             text_duration(wait, t));
    snprintf(key, sizeof key, "%s %d %s", err_class_name(e->cls), e->num,
             rejected[0] ? "rejected" : "failed");
    if (e->cls == ERR_NOSPACE)
        buf_printf(&todo,
                   "make room on the file system of %.400s, or keep fewer dumps in [retention]; "
                   "those already stored are untouched",
                   w->cfg->dump_dir);
    else
        buf_adds(&todo,
                 e->hint[0]
                     ? e->hint
                     : "see the log; worldkeeper --check names what keeps a dump from being made");
    follower_explain_shrunk(w, json_object_get(result, "shrunk"), &happened, &todo);
    if (happened.len) { /* perhaps new since the last attempt: the follower reports once a second */
        snprintf(key, sizeof key, "%.63s", happened.p);
        log_line(LOG_WARN_, "%s", happened.p);
    }
    notify_open_as(w, CONDITION_DUMP, key, failed, doing, todo.p, "%s: %s%s%.600s", failed,
                   happened.len ? happened.p : "", happened.len ? "; " : "", e->text);
}

/* ---- the end of --init and --new-round ---- */

/* Dumps of the round before count no longer, and the journal begins anew. A worker that was killed may have begun the round
 * without a word of it. */
static void round_ended(struct world *w, const struct manifest *first, const json_t *result,
                        const struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    struct err why;
    bool begun = json_object_get(result, "round");
    prober_next(clock_mono());
    if (!begun && !e)
        return;
    if (first->name[0]) {
        dump_done(w, first, result, e);
    } else if (catalog_load(w->a->job.dirfd, w->cfg->name, &c, &why) < 0) {
        world_log_err(w, LOG_ERROR_, "the dumps of the new round", &why);
    } else {
        dumps_load(w, &c);
        begun |= !catalog_newest(&c, 0);
    }
    if (begun)
        follower_part.restart(w);
}

/* ---- the end of a restore ---- */

/* A restore that was not heard of again has left a word of itself. */
static void adopt_last_restore(struct world *w, const char *text)
{
    struct state *s = &w->a->state;
    json_t *saved = text[0] ? json_loads(text, 0, NULL) : NULL;
    if (strcmp(js_text(saved, "at"), js_text(w->last_restore, "at")) <= 0) {
        json_decref(saved);
        return;
    }
    json_decref(w->last_restore);
    w->last_restore = saved;
    snprintf(s->last_restore, sizeof s->last_restore, "%s", text);
}

/* Takes over what a job may have changed in the state that it saved, so that ours does not overwrite it. All else is the
 * supervisor's own, and may have changed while the job worked. */
static void adopt_state(struct world *w, enum action job, const struct state *saved)
{
    struct state *s = &w->a->state;
    /* Tidying reads the file, which may be of before we saw another world alive. */
    if (job == ACTION_TIDY && saved->alive_at.ms < s->alive_at.ms &&
        strcmp(saved->nonce, s->nonce) != 0)
        return;
    s->known = saved->known;
    memcpy(s->nonce, saved->nonce, sizeof s->nonce);
    memcpy(s->next, saved->next, sizeof s->next);
    s->generation = saved->generation;
    s->server = saved->server;
    s->alive_at = saved->alive_at;
    s->gone_at = (wall_t){0};
    s->made = saved->made;
    adopt_last_restore(w, saved->last_restore);
    s->role = saved->role;
    if (saved->holder[0])
        memcpy(s->holder, saved->holder, sizeof s->holder);
    if (saved->lease_number > s->lease_number)
        s->lease_number = saved->lease_number;
    w->state_dirty = true;
    /* A connection that is older than the job leads to the server process that it found. */
    prober_expect(w, s, jobs.began);
}

/* For the next supervisor's status and decisions. If it does not fit into the state, its longest
 * texts are left out. */
static void keep_last_restore(struct world *w)
{
    static const char *const texts[] = {"as_dumped",   "conflict_tables", "passed_over",
                                        "definitions", "warning",         NULL};
    struct state *s = &w->a->state;
    json_auto_t *o = json_copy(w->last_restore);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    for (size_t i = 0; texts[i] && text && strlen(text) >= sizeof s->last_restore; i++) {
        json_object_del(o, texts[i]);
        free(text);
        text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    }
    if (text && strlen(text) < sizeof s->last_restore)
        snprintf(s->last_restore, sizeof s->last_restore, "%s", text);
    w->state_dirty = true;
    free(text);
}

/* `last_restore` of the status. */
static void record_restore(struct world *w, const json_t *result, bool ok)
{
    static const char *const always[] = {
        "dump", "rows", "seconds", "lost_seconds", "lost_seconds_max", "restored_to"};
    static const char *const if_there[] = {"only",          "conflict_rows",  "conflict_file",
                                           "conflict_from", "conflict_to",    "conflict_tables",
                                           "definitions",   "lost",           "warning",
                                           "as_dumped",     "as_dumped_file", "journal"};
    const char *warning = js_text(result, "warning");
    SCOPED(buf_free) struct buf skipped = {0};
    size_t i;
    json_t *dump;
    if (!js_text(result, "dump")[0]) /* refused before a dump was chosen: nothing was restored */
        return;
    json_t *o = json_pack("{s:o, s:b}", "at", js_time(clock_wall()), "ok", ok);
    for (i = 0; i < sizeof always / sizeof *always; i++)
        json_object_set_new(o, always[i], js_or_null(json_object_get(result, always[i])));
    for (i = 0; i < sizeof if_there / sizeof *if_there; i++) {
        json_t *value = json_object_get(result, if_there[i]);
        if (value && !(json_is_string(value) && !json_string_length(value)))
            json_object_set(o, if_there[i], value);
    }
    json_object_set_new(o, "outage_seconds", outage_json(w));
    json_array_foreach(json_object_get(result, "skipped"), i, dump)
    {
        buf_printf(&skipped, "%s%s (%s)", i ? "; " : "", js_text(dump, "dump"),
                   js_text(dump, "reason"));
    }
    if (skipped.len)
        js_set_clean(o, "passed_over", skipped.p);
    if (warning[0])
        log_line(LOG_WARN_, "restored, but: %s", warning);
    json_decref(w->last_restore);
    w->last_restore = o;
    keep_last_restore(w);
}

/* `announced`: the guard knows of this restore. */
static void restore_ended(struct world *w, const struct request *r, bool announced,
                          const json_t *result, const struct err *e)
{
    struct guard_event ev = {.type = e ? GUARD_RESTORE_FAILED : GUARD_RESTORE_OK, .err = e};
    char text[600], rows[TEXT_SHORT];
    prober_discard();
    if (e || js_text(result, "warning")[0]) /* else nothing is left over */
        tidy_at(mono_add(clock_mono(), TIDY_RETRY_MS));
    record_restore(w, result, !e);
    /* Of the new generation, which may be there whatever failed; the journal does not lead over a
     * restore of single tables. */
    if (!e || w->a->state.next[0])
        dumps_due(clock_mono());
    if (r->tables)
        return; /* the world stays up */
    if (e)
        world_log_err(w, LOG_ERROR_,
                      r->action == ACTION_PROMOTE ? "promotion failed" : "restore failed", e);
    if (e && !announced)
        return;
    snprintf(text, sizeof text, "dump %.200s, %s rows in %.1f s", js_text(result, "dump"),
             text_count((uint64_t)js_number(result, "rows", 0), rows),
             json_number_value(json_object_get(result, "seconds")));
    ev.text = e ? NULL : text;
    world_event(w, &ev);
}

/* ---- the end of a drill ---- */

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

/* `out` holds the worker's own account, or the error that its silent death amounts to. */
static void ended(struct world *w, struct outcome *out, const json_t *result)
{
    struct request r = jobs.request;
    const struct err *e = out->failed ? &out->error : NULL;
    char words[128], failed[144];
    bool replaces_world = jobs.replaces_world, quiet = replaces_world || r.action == ACTION_DUMP;
    /* An error's text begins with the action's name for the command line; the supervisor's own texts
     * name the action already. */
    const char *action = action_name(r.action);
    size_t n = strlen(action);
    if (text_starts(out->error.text, action) && strncmp(out->error.text + n, ": ", 2) == 0)
        memmove(out->error.text, out->error.text + n + 2, strlen(out->error.text + n + 2) + 1);
    job_words(&r, words, sizeof words);
    snprintf(failed, sizeof failed, "%s failed", words);
    set_request(w, &(struct request){0});
    if (request_swaps(&r))
        notify_over(w, CONDITION_BLOCKED, "no restore waits for other sessions");
    json_decref(jobs.progress);
    jobs.progress = NULL;
    jobs.replaces_world = false;
    follower_leaves(false);
    w->status_dirty = w->poll_disk = true; /* the job may have found a damaged dump */
    if (e && !quiet)
        world_log_err(w, LOG_ERROR_, failed, e);
    if (e && r.action == ACTION_TIDY)
        tidy_at(mono_add(clock_mono(), TIDY_FAILED_MS));
    if (out->new_state) {
        adopt_state(w, r.action, &out->state);
    } else if (out->died && jobs.stepping_back) {
        w->a->state.role =
            ROLE_STANDBY; /* by what it may have saved: the other machine may go on */
        w->state_dirty = true;
    }
    enum history_kind kind = history_of(&r, result, e);
    if (kind != HISTORY_KINDS) {
        json_t *o = history_fields(&r, result, e);
        if (kind == HISTORY_RESTORE) {
            json_object_set_new(o, "outage_seconds", outage_json(w));
            history_conflict(w->cfg, result, o);
        }
        history_add(w, kind, o);
    }
    if (!e && request_swaps(&r)) /* --at restores to the end of a second, which may hold changes
                                  * later than alive_at */
        follower_restored(w, js_text(result, "dump"), (wall_t){jobs.alive_at.ms - 1000});
    if (r.action == ACTION_DUMP)
        out->dump.name[0] ? dump_done(w, &out->dump, result, e) : dump_failed(w, result, e);
    else if (request_swaps(&r))
        restore_ended(w, &r, jobs.announced, result, e);
    else if (r.action == ACTION_INIT || r.action == ACTION_NEW_ROUND)
        round_ended(w, &out->dump, result, e);
    else if (r.action == ACTION_DRILL) {
        drills_ended(w, &r, result, e);
        if (e) /* its scratch schema may be left */
            jobs_tidy_soon();
    }
    if (!e && !quiet)
        log_line(LOG_NOTE_, "%s done", words);
    request_free(&r);
}

/* The clients hear of the end after the supervisor has acted on it. */
static json_t *done(struct world *w, json_t *o, bool *last)
{
    const struct err *e = &jobs.outcome.error;
    worker_end(&w->job_worker); /* it exits now; the loop collects it later */
    if (jobs.outcome.failed && e->cls == ERR_CHANGED && e->num == ACTION_OTHER_DIR &&
        !w->stopping) {
        jobs.other_dir = o;
        return NULL;
    }
    *last = true;
    ended(w, &jobs.outcome, json_object_get(json_object_get(o, "done"), "result"));
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
    ended(w, &jobs.outcome, json_object_get(json_object_get(o, "done"), "result"));
    return o;
}

static void progress(struct world *w, json_t *part)
{
    json_object_set_new(part, "job", json_string(action_name(jobs.request.action)));
    json_decref(jobs.progress);
    jobs.progress = json_incref(part);
    /* A restore by hand may be refused over a living world: it has begun once it loads. */
    if (jobs.replaces_world && strcmp(js_text(part, "phase"), "loading") == 0)
        announce(w);
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
        const struct outcome *out = packet_struct(&m, sizeof *out);
        jobs.ended = out != NULL;
        if (out)
            jobs.outcome = *out;
        if (jobs.outcome.failed)
            worker_err_clean(&jobs.outcome.error);
        return NULL;
    }
    json_t *o = packet_json(&m, 0), *part;
    if (m.type == JOB_DONE && jobs.ended && o)
        return done(w, o, last);
    if ((part = json_object_get(o, "progress")))
        progress(w, part);
    else if ((part = json_object_get(o, "note")))
        log_line(LOG_NOTE_, "%s", json_string_value(part));
    else if ((part = json_object_get(o, "blocked"))) {
        notify_open(
            w, CONDITION_BLOCKED, js_text(part, "hint"), /* the sessions; "what" counts seconds */
            "the restore goes on as soon as it has the locks; players wait", js_text(part, "hint"),
            "a restore waits for other sessions: %s", js_text(part, "what"));
        json_decref(o);
        o = NULL;
    }
    return o;
}

json_t *jobs_died(struct world *w, int wait_status, bool *last)
{
    struct outcome out = {.failed = true, .died = true};
    const char *action = action_name(jobs.request.action);
    bool stopped = w->stopping || w->job_worker.stop_requested;
    worker_end(&w->job_worker);
    *last = true;
    if (jobs.request.action == ACTION_NONE)
        return NULL;
    if (jobs.stalled)
        err_set(&out.error, ERR_STALLED, 0, "%s made no progress and was ended", action);
    else if (stopped)
        err_set(&out.error, ERR_ABORTED, 0, "%s was ended before it was done", action);
    else
        err_set(&out.error, ERR_SYSTEM, 0, "the worker of the %s died (%s %d)", action,
                WIFSIGNALED(wait_status) ? "signal" : "exit",
                WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    json_t *o = json_pack("{s:{s:o}}", "done", "error", worker_err_json(&out.error));
    ended(w, &out, NULL); /* the next job tidies up what it left in the server */
    return o;
}

/* ---- time ---- */

/* A stalled restore that the guard knows of is ended by the guard, which counts stalls; all else is killed here. */
static void watch_stall(struct world *w, mono_t now)
{
    enum action action = jobs.request.action;
    bool loads = action == ACTION_RESTORE || action == ACTION_DRILL || action == ACTION_PROMOTE;
    /* A dump waits for locks as long as its own limit: ours must come after its own error. */
    int64_t dumps = w->cfg->dump_stall + DUMP_STALL_EXTRA_MS,
            limit = loads ? w->cfg->restore_stall : dumps;
    /* Before it loads, a forced restore dumps the world that it replaces. */
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

/* One job at a time, and the most urgent first: restore, tidy, dump, drill. */
static void timers(struct world *w, mono_t now)
{
    struct err e;
    watch_stall(w, now);
    /* Changes after a gap are lost with the server until a dump is stored. */
    if (jobs_is_spare() && w->conditions[CONDITION_JOURNAL_GAP].on &&
        !w->job_worker.stop_requested && mono_reached(now, dumps_next()))
        worker_stop(&w->job_worker, SIGKILL);
    if (w->stopping || jobs.request.action != ACTION_NONE)
        return;
    /* A reload may have forbidden it since the loss was found: then the next probe leaves LOST. */
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

const struct part jobs_part = {.timers = timers, .status = "running", .status_json = status_json};
