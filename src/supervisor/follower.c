/* The supervisor's side of the journal: the worker that follows the binary log while the world is
 * up (journal/follow.h), its lag, and the dumps that close gaps. */
#include "supervisor/follower.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "actions/hint_command.h"
#include "base/fault.h"
#include "base/js.h"
#include "base/line.h"
#include "journal/follow.h"
#include "mysql/world_tables.h"
#include "restore/permit.h"
#include "sql/literal.h"
#include "supervisor/condition_words.h"
#include "supervisor/dumps.h"
#include "supervisor/notifier.h"
#include "supervisor/words.h"
#include "supervisor/world.h"

#define RETRY_FIRST_MS fault_wait(1000)
#define RETRY_MAX_MS fault_wait(60000)
/* Reached after three failures in a row: then the server is not just restarting. */
#define PASSING_MS fault_wait(8000)
#define LAG_MIN_MS 2000 /* proofs arrive once a second, and are read with some delay */
/* A dump for dropped tables begins after this time. MySQL logs a dropped database table by table,
 * and the probe needs its time to find that all are gone: then there is nothing to dump. */
#define DROPPED_MS fault_wait(2000)
/* First pause between two dumps that are caused by gaps. */
#define GAP_PAUSE_MS fault_wait(10000)
#define UNABLE_RETRY_MS fault_wait(60000) /* delay until a GRANT or a changed setting is noticed */
#define GAPS_KEPT 12u                     /* so many fit into the state */
#define SAME_DROP_MS 2000                 /* tolerance for timestamps: the log has whole seconds */
#define END_MS 3000                       /* time for the worker to write what it has read */
#define EMPTIED_SHOWN 3u                  /* tables shown in one alert: their commands are long */
/* A recovery is reported only after this time: a full disk still takes a little data, and a damaged
 * log can be read up to the damage. */
#define SETTLED_MS fault_wait(10000)

/* Delay before an emptied table is judged: a game that has filled the table again by then has only
 * rebuilt it. */
#define REFILL_MS fault_wait(10000)
/* A mass change that a game repeats within this time is reported only the first time. */
#define HABIT_MS (INT64_C(8) * 24 * 3600000)

/* A gap that a restore leaves, as far as the log does not lead across it. */
#define RESTORED_SINCE "a restore after the newest dump, across which the log cannot be followed"
#define RESTORED_KEY "tables restored"

/* A statement that deleted or changed many rows of a table. */
struct mass_change {
    struct follow_emptied is;
    mono_t due;            /* when it is judged */
    bool judged, reported; /* each is set once */
};

enum follow_state {
    IDLE, /* the world is not up, no worker runs */
    STARTING,
    FOLLOWING,
    UNABLE, /* the server or the account does not allow it */
    FAILED,
};

static struct follower {
    struct worker worker;
    /* Shared progress page: written by the worker without waking the supervisor; NULL before the
     * first worker. */
    struct board *board;
    uint64_t board_seen; /* version of the page that was read last */
    uint64_t packets;    /* packets received from this worker */
    enum follow_state state;
    char reason[LINE]; /* why it is UNABLE or FAILED */
    mono_t next_start;
    mono_t end_by; /* a worker that was asked to end is killed at this time */
    int64_t retry; /* ms to wait after the next failure */

    /* The worker's last report. */
    struct follow_progress at;
    /* All changes up to this time are in the journal, whichever worker wrote them; ms 0: not
     * known. */
    mono_t proven;
    /* Start of the worker's reading; used until it has read back a marker of its own
     * (at.marker_read). */
    mono_t begun;
    /* The change by which each table lost most rows since the newest dump. Those before a dump are
     * kept until the next dump begins, because its report may wait for them. */
    struct mass_change *changes;
    size_t change_count;
    bool crossed; /* there is a gap between the newest dump and the one before it */
    struct names
        dropped; /* tables reported as dropped since the newest dump; dropped_rows: their rows */
    uint64_t dropped_rows;

    /* position_lost and log_broken determine where the next worker begins. */
    bool position_lost; /* the log no longer reaches back to the newest dump */
    bool log_broken;    /* nor does the log continue from the end of the segments */
    /* The running worker did not begin at the newest dump, but where it could. */
    bool from_now;

    /* The tables are being removed, because another machine takes over the world. */
    bool leaving;
    bool files_failing;          /* the segments cannot be written; reported */
    struct db_binlog_pos gap_at; /* position of the last gap; file "": not known */
    /* Number of gaps so far, and of those that the newest dump closes. */
    uint64_t gaps, covered;
    uint64_t closing;  /* number of gaps found before the running dump began */
    mono_t gap_dump;   /* end of the last dump for a gap; ms 0: none since our start */
    int64_t gap_pause; /* ms between dumps that gaps cause */
} follower;

/* Returns the maximum age in ms of a change that is not proven to be in the journal; -1 without a
 * follower or a proof. The proof of an earlier worker still holds when another one begins. */
static int64_t follower_lag(mono_t now)
{
    return follower.state != FOLLOWING || !follower.proven.ms ? -1
                                                              : mono_since(now, follower.proven);
}

/* Like follower_lag(), but if the worker has not proven anything yet, counts from the time it
 * began to read, or from its start: there is no reason to warn before it had the time. */
static int64_t lag_of_worker(mono_t now)
{
    if (follower.state == STARTING && follower.worker.pid)
        return mono_since(now, follower.worker.started);
    return follower.state != FOLLOWING
               ? -1
               : mono_since(now, follower.at.marker_read ? follower.proven : follower.begun);
}

static json_t *follower_status_json(const struct world *w)
{
    static const char *const names[] = {[IDLE] = "idle",
                                        [STARTING] = "starting",
                                        [FOLLOWING] = "following",
                                        [UNABLE] = "off",
                                        [FAILED] = "failed"};
    const struct condition *gap = &w->conditions[CONDITION_JOURNAL_GAP];
    int64_t ms = follower_lag(clock_mono());
    if (w->cfg->journal == JOURNAL_OFF)
        return json_null();
    json_t *o = json_pack("{s:s, s:s, s:o, s:b, s:o}", "mode",
                          w->cfg->journal == JOURNAL_FOLLOW ? "follow" : "server", "state",
                          names[follower.state], "behind_seconds",
                          ms < 0 ? json_null() : json_real((double)ms / 1000), "gap", gap->on,
                          "reason", js_clean(gap->on ? gap->text : follower.reason));
    if (follower.state == UNABLE) {
        int64_t wait = mono_since(follower.next_start, clock_mono());
        json_object_set_new(o, "looks_again",
                            js_time((wall_t){clock_wall().ms + (wait > 0 ? wait : 0)}));
    }
    if (follower.state == FOLLOWING) {
        js_set_clean(o, "file", follower.at.file);
        js_set_int(o, "pos", (int64_t)follower.at.pos);
        js_set_int(o, "changes", (int64_t)follower.at.changes);
    }
    return o;
}

double follower_behind_seconds(void)
{
    int64_t ms = follower_lag(clock_mono());
    return ms < 0 ? -1 : (double)ms / 1000;
}

/* ---- the worker ---- */

static void kill_worker(struct world *w, enum follow_state state)
{
    worker_stop(&follower.worker, SIGKILL);
    worker_end(&follower.worker); /* the loop reaps the process later */
    follower.state = state;
    w->status_dirty = true;
}

/* The worker is not killed at once: after a server is gone, the events that the worker has read may
 * be all that is left. */
static void end_worker(struct world *w, mono_t now)
{
    if (!follower.worker.stop_requested) {
        worker_stop(&follower.worker, SIGTERM);
        follower.end_by = mono_add(now, END_MS);
    } else if (mono_reached(now, follower.end_by)) {
        kill_worker(w, IDLE);
    }
}

bool follower_busy(const struct world *w)
{
    return w->cfg->journal == JOURNAL_FOLLOW && follower.worker.pid;
}

/* The next worker begins only after this one has ended, because two workers must not write the same
 * file. */
static void follower_restart(struct world *w)
{
    if (follower.worker.pid && !follower.worker.stop_requested)
        end_worker(w, clock_mono());
    follower.next_start = clock_mono();
}

static void follower_stop(struct world *w)
{
    if (follower.worker.pid)
        kill_worker(w, IDLE);
}

static void back_off(void)
{
    follower.retry = clock_backoff(follower.retry, RETRY_FIRST_MS, RETRY_MAX_MS);
}

/* Returns why the log does not lead from the newest dump to the current world; NULL if it does. It
 * does not lead across a restore that stopped before the time of the loss: on a new server, the
 * same file names belong to another log. */
static const char *follower_discontinuity(const struct world *w, const struct manifest *newest)
{
    const struct state *s = &w->a->state;
    if (follower.position_lost)
        return "the newest dump: the binary log cannot be read from its position";
    if (!newest->end.file[0])
        return "the newest dump: its binlog position is unknown";
    bool followed = s->made.followed && strcmp(s->made.nonce, s->nonce) == 0;
    if (newest->generation < s->generation && !followed)
        return RESTORED_SINCE;
    return NULL;
}

static void start_worker(struct world *w, mono_t now)
{
    static struct follow_args args; /* read by the child after the fork */
    const struct manifest *newest = dumps_newest();
    struct err e;
    if (!follower.board)
        follower.board = board_new(sizeof(struct follow_progress), &e);
    else
        board_clear(follower.board);
    follower.board_seen = follower.packets = 0;
    args = (struct follow_args){.cfg = w->cfg,
                                .db = w->a->job.db,
                                .board = follower.board,
                                .dump_dirfd = w->a->job.dirfd,
                                .log_broken = follower.log_broken};
    if (newest && !follower_discontinuity(w, newest)) {
        args.from = newest->end;
        args.created_at = newest->log_created_at;
        memcpy(args.nonce, newest->nonce, sizeof args.nonce);
    }
    follower.from_now = !args.from.file[0];
    follower.next_start = mono_add(now, follower.retry);
    if (!follower.board || worker_start(&follower.worker, follow_worker, &args, false, &e) < 0) {
        back_off();
        notify_open(w, CONDITION_JOURNAL, "start", "still trying",
                    "see the limits of processes and memory", "%s", e.text);
        return;
    }
    follower.state = STARTING;
}

int64_t follower_unproven(const struct world *w)
{
    const struct manifest *newest = dumps_newest();
    bool gap = w->conditions[CONDITION_JOURNAL_GAP].on || follower.gaps != follower.covered;
    if (!newest || gap || follower.from_now || follower_discontinuity(w, newest))
        return -1;
    return follower_lag(clock_mono());
}

/* ---- gaps ---- */

/* Schedules a dump for a gap in `wait` ms, but with growing pauses if such dumps follow each other,
 * and not before the retry of a failed dump. */
static void dump_soon(struct world *w, int64_t wait, bool first)
{
    mono_t now = clock_mono(), soon = mono_add(now, wait);
    if (dumps_failures() && !mono_reached(now, dumps_next()))
        return;
    if (follower.gap_dump.ms == 0) {
        dumps_due(soon);
        return;
    }
    bool often = mono_since(now, follower.gap_dump) < 2 * follower.gap_pause;
    if (first)
        follower.gap_pause = !often ? GAP_PAUSE_MS
                             : 2 * follower.gap_pause > w->cfg->dump_interval
                                 ? w->cfg->dump_interval
                                 : 2 * follower.gap_pause;
    mono_t next = mono_add(follower.gap_dump, follower.gap_pause);
    dumps_due(mono_reached(soon, next) ? soon : next);
}

/* Returns the last time before a gap that can be restored: the server's time if a statement caused
 * the gap, else the time up to which the journal was proven to be complete. */
static wall_t gap_moment(const struct follow_gap *gap)
{
    wall_t now = clock_wall(), by_server = gap->by_statement ? gap->statement.before : gap->at;
    int64_t ms = follower_lag(clock_mono());
    if (ms < 0)
        ms = lag_of_worker(clock_mono());
    if (by_server.ms && by_server.ms <= now.ms)
        return by_server;
    return (wall_t){now.ms - (ms > 0 ? ms : 0)};
}

/* Keeps the gap in the state, because the server may purge its log at its next start, and then the
 * gap cannot be found there again. --list, which shows the times that can be restored, and a
 * restore of an older dump need it. `log`: the log itself cannot be read any further. */
static void keep_gap(struct world *w, const struct follow_gap *gap, wall_t at, bool log)
{
    struct state *s = &w->a->state;
    const struct manifest *newest = dumps_newest();
    json_t *list = s->gaps[0] ? json_loads(s->gaps, 0, NULL) : NULL;
    SCOPED(buf_free) struct buf brief = {0};
    if (!json_is_array(list)) {
        json_decref(list);
        list = json_array();
    }
    /* Replaces an entry of the same gap: a new worker starts at the newest dump and finds the gap
     * again. */
    for (size_t i = json_array_size(list); gap->file[0] && i-- > 0;) {
        const json_t *o = json_array_get(list, i);
        if (strcmp(js_text(o, "file"), gap->file) == 0 &&
            (uint64_t)js_number(o, "pos", 0) == gap->pos && js_flag(o, "log") == log)
            json_array_remove(list, i);
    }
    text_clean(&brief, gap->why, 150);
    json_array_append_new(list, json_pack("{s:I, s:s, s:I, s:s, s:s, s:b}", "at", (json_int_t)at.ms,
                                          "file", gap->file, "pos", (json_int_t)gap->pos, "why",
                                          brief.p, "dump", newest ? newest->name : "", "log", log));
    while (json_array_size(list) > GAPS_KEPT ||
           json_dumpb(list, NULL, 0, JSON_COMPACT) >= sizeof s->gaps)
        json_array_remove(list, 0);
    SCOPED(xfree) char *text = json_dumps(list, JSON_COMPACT);
    if (text)
        snprintf(s->gaps, sizeof s->gaps, "%s", text);
    w->state_dirty = true;
    json_decref(list);
}

/* Returns whether the journal leads up to the statement. MySQL logs a DROP DATABASE as one DROP per
 * table, followed by the DROP DATABASE itself: the journal leads up to the first of them. */
static bool leads_up_to(struct follow_statement *s, bool first)
{
    static wall_t at,
        before; /* times of the first statement that dropped something after the newest dump */
    bool dropped = strcmp(s->verb, "dropped") == 0;
    if (first) {
        at = dropped ? s->at : (wall_t){0};
        before = s->before;
    } else if (s->schema && dropped && at.ms && s->at.ms - at.ms <= SAME_DROP_MS) {
        s->before = before;
        return true;
    }
    return first;
}

/* Reports the statement that caused a gap, which may be a mistake. `first`: the journal leads up to
 * it. */
static void report_statement(struct world *w, const struct follow_gap *gap, bool first,
                             const char *doing)
{
    struct follow_statement own = gap->statement, *s = &own;
    first = leads_up_to(s, first);
    const struct condition *open = &w->conditions[CONDITION_JOURNAL_GAP];
    SCOPED(buf_free) struct buf what = {0}, todo = {0}, undo = {0}, whole = {0};
    char key[64], headline[200];
    statement_key(s, key, sizeof key);
    bool news = !open->on || strcmp(open->key, key) != 0;
    for (size_t i = 0; i < s->count; i++)
        if (!names_has(&follower.dropped, s->tables[i].name) &&
            (strcmp(s->verb, "dropped") == 0 || strcmp(s->verb, "renamed") == 0)) {
            names_add(&follower.dropped, s->tables[i].name);
            follower.dropped_rows += s->tables[i].rows;
        }
    statement_headline(s, headline, sizeof headline);
    statement_words(s, &what);
    buf_printf(&what, "; the journal cannot continue after that%s",
               !gap->tables_only         ? ""
               : s->count + s->more == 1 ? " for this table"
                                         : " for these tables");
    statement_undo(s, first, &undo);
    if (undo.len)
        buf_printf(&todo, "if that was not intended, this brings it back as it was %s: %s",
                   first ? "just before" : "in the newest dump", undo.p);
    else
        buf_adds(&todo, "nothing, when the dump is stored");
    if (s->schema || strcmp(s->verb, "dropped") == 0)
        notify_dropped(w, key, s->schema, headline, doing, todo.p, "%s", what.p);
    else
        notify_open_as(w, CONDITION_JOURNAL_GAP, key, headline, doing, todo.p, "%s", what.p);
    hint_command(w->cfg, HINT_ROOT, todo.p, &whole);
    if (news && undo.len)
        log_line(LOG_NOTE_, "%s", whole.p);
}

/* Returns whether the journal was stopped by a reload, a switchover or a demotion. The guard may be
 * told to stop before it learns of the follower's end. */
static bool given_up(const struct world *w)
{
    return follower.leaving || w->cfg->journal == JOURNAL_OFF || w->guard.state == GUARD_STANDBY ||
           state_standby(&w->a->state, w->cfg);
}

/* Returns the tables that a restore of single tables replaces, or has replaced since the newest
 * dump, as given to --table; "": there was none. */
static const char *restored_tables(const struct world *w)
{
    const struct manifest *newest = dumps_newest();
    if (w->only && w->guard.state == GUARD_UP)
        return w->only;
    bool since = newest && w->last_restore.at.ms > newest->at.ms;
    return since && w->last_restore.tables ? w->last_restore.tables : "";
}

/* Returns whether the restore of these tables caused the gap: it renames tables, its new world is
 * not the dump's, and a table that was missing is there. */
static bool is_by_restore(const struct follow_gap *gap, const char *tables)
{
    SCOPED(names_free) struct names names = {0};
    struct err ignored;
    if (!tables[0])
        return false;
    if (strstr(gap->why, DB_OWN_PREFIX))
        return true;
    restore_tables(tables, &names, &ignored);
    return !gap->by_statement &&
           (strcmp(gap->why, RESTORED_SINCE) == 0 || names_has(&names, gap->arrived));
}

static void report_restored(struct world *w, const char *tables, const char *key, const char *doing)
{
    const char *s = strchr(tables, ',') ? "s" : "", *were = s[0] ? "were" : "was";
    char shown[120], headline[200];
    line_set(shown, sizeof shown, "%s", tables);
    line_set(headline, sizeof headline, "table%s %s restored by hand", s, shown);
    notify_open_as(w, CONDITION_JOURNAL_GAP, key, headline, doing,
                   "nothing, when the dump is stored",
                   "table%s %s %s restored on request (--restore --table), and the journal "
                   "cannot follow that; it continues from the next dump",
                   s, tables, were);
}

/* Handles a gap. Changes before the gap can be restored from the last dump, changes after it from
 * the next one. `link` and gap->why end the sentence "the journal cannot continue…". */
static void gap_found(struct world *w, const char *link, const struct follow_gap *gap, bool log)
{
    const struct condition *open = &w->conditions[CONDITION_JOURNAL_GAP];
    bool first = follower.gaps == follower.covered;
    if (given_up(w))
        return;
    follower.gaps++;
    if (gap->file[0])
        snprintf(follower.gap_at.file, sizeof follower.gap_at.file, "%s", gap->file);
    else
        follower.gap_at.file[0] = '\0';
    follower.gap_at.pos = gap->pos;
    SCOPED(buf_free) struct buf doing = {0};
    wall_t moment = gap_moment(gap);
    keep_gap(w, gap, moment, log);
    gap_words(gap, moment, first, &doing);
    /* An open gap keeps its key, because its text may say more than this one. */
    const char *tables = restored_tables(w), *key = open->on ? open->key : NULL;
    if (is_by_restore(gap, tables))
        report_restored(w, tables, key ? key : RESTORED_KEY, doing.p);
    else if (gap->by_statement)
        report_statement(w, gap, first, doing.p);
    else
        notify_open(w, CONDITION_JOURNAL_GAP, key && strcmp(key, RESTORED_KEY) != 0 ? key : NULL,
                    doing.p, "nothing, when the dump is stored", "the journal cannot continue%s %s",
                    link, gap->why);
    bool dropped = gap->by_statement && strcmp(gap->statement.verb, "dropped") == 0;
    dump_soon(w, dropped ? DROPPED_MS : 0, first);
}

/* Ignores a gap that an earlier worker found if it is already reported, or if a dump that was
 * stored since then covers it. */
static void gap_reported(struct world *w, const struct follow_gap *gap)
{
    const struct manifest *newest = dumps_newest();
    struct db_binlog_pos at = {.pos = gap->pos};
    snprintf(at.file, sizeof at.file, "%s", gap->file);
    bool known = w->conditions[CONDITION_JOURNAL_GAP].on ||
                 (newest && db_binlog_pos_compare(&newest->end, &at) >= 0);
    if (!gap->earlier || !known)
        gap_found(w, " after", gap, false);
}

/* Ends the condition. A dump does not end the gap while the changes after the dump cannot be
 * written either. */
static void end_gap(struct world *w, const char *what)
{
    if (follower.covered == follower.gaps && !follower.files_failing)
        notify_over(w, CONDITION_JOURNAL_GAP, "%s", what);
}

/* ---- what the worker sends ---- */

/* Returns whether the change is known to come after the newest dump. */
static bool after_dump(const struct follow_emptied *e, const struct manifest *newest)
{
    struct db_binlog_pos at = {.pos = e->pos};
    snprintf(at.file, sizeof at.file, "%s", e->file);
    return newest && newest->end.file[0] && at.file[0] &&
           db_binlog_pos_compare(&at, &newest->end) >= 0;
}

/* Returns whether the old change explains the loss better. The larger one of two losses since the
 * newest dump does, unless its rows are back; a TRUNCATE removes all rows. */
static bool follower_outweighs(const struct follow_emptied *old, const struct follow_emptied *e)
{
    const uint64_t lost = old->rows ? old->rows : old->before;
    return e->rows && after_dump(old, dumps_newest()) && old->back < lost / 2 &&
           (old->rows == 0 || old->rows > e->rows);
}

static bool follower_same_place(const struct follow_emptied *a, const struct follow_emptied *b)
{
    return a->pos == b->pos && strcmp(a->file, b->file) == 0;
}

static void remember_change(const struct follow_emptied *e)
{
    size_t i = 0;
    while (i < follower.change_count && (strcmp(follower.changes[i].is.name, e->name) != 0 ||
                                         !follower.changes[i].is.columns[0] != !e->columns[0]))
        i++;
    struct mass_change *c = &follower.changes[i];
    if (i < follower.change_count && follower_same_place(&c->is, e)) {
        c->is = *e;
        return;
    }
    if (i < follower.change_count && follower_outweighs(&c->is, e))
        return;
    if (i == follower.change_count)
        follower.changes =
            xrealloc(follower.changes, ++follower.change_count * sizeof *follower.changes);
    follower.changes[i] = (struct mass_change){
        .is = *e, .due = mono_add(clock_mono(), e->columns[0] ? 0 : REFILL_MS)};
}

static void follower_progressed(struct world *w, const struct follow_progress *r)
{
    const struct manifest *newest = dumps_newest();
    mono_t now = clock_mono();
    if (follower.state != FOLLOWING) {
        if (!follower.files_failing && !w->conditions[CONDITION_JOURNAL].on)
            log_line(LOG_NOTE_, "the journal is followed from %s %" PRIu64, r->file, r->pos);
        w->status_dirty = true;
    }
    follower.state = FOLLOWING;
    if (r->marker_read) /* the segments now continue after the break */
        follower.log_broken = false;
    *(r->marker_read ? &follower.proven : &follower.begun) = r->proven;
    follower.at = *r;
    follower.reason[0] = '\0';
    const char *why = newest && !w->conditions[CONDITION_JOURNAL_GAP].on
                          ? follower_discontinuity(w, newest)
                          : NULL;
    if (why) {
        struct follow_gap gap = {.pos = r->pos};
        line_set(gap.why, sizeof gap.why, "%s", why);
        snprintf(gap.file, sizeof gap.file, "%s", r->file);
        gap_found(w, " after", &gap, false);
    }
    bool settled = mono_since(now, follower.worker.started) >= SETTLED_MS;
    /* A worker that has begun can still fail at its first marker, for example on a read-only
     * server. */
    if (!follower.at.marker_read || (follower.files_failing && !settled))
        return;
    follower.retry = RETRY_FIRST_MS;
    if (follower.files_failing) {
        follower.files_failing = false;
        end_gap(w, "the journal is written again");
    }
    /* Stored, so that the end of the journal is reported even after our restart. */
    if (!w->a->state.followed) {
        w->a->state.followed = true;
        w->state_dirty = true;
    }
    if (settled)
        notify_over(w, CONDITION_JOURNAL, "the journal is followed again");
}

static void follower_reported(struct world *w, const struct follow_report *r)
{
    for (size_t i = 0; i < r->emptied_count; i++)
        remember_change(&r->emptied[i]);
    follower_progressed(w, &r->at);
}

/* Reads the worker's progress page. An entry counts only once all packets that the worker sent
 * before it were read, because a gap must be handled before the position that follows it. */
static void look_at_board(struct world *w)
{
    struct follow_progress now;
    uint64_t seen = follower.board_seen;
    if (!follower.worker.pid || !board_read(follower.board, &seen, &now) ||
        now.packets > follower.packets)
        return;
    follower.board_seen = seen;
    follower_progressed(w, &now);
}

static void follower_unable(struct world *w, const struct follow_unable *u)
{
    char todo[sizeof u->hint + 80];
    bool news = strncmp(follower.reason, u->why, sizeof follower.reason - 1) != 0;
    line_set(follower.reason, sizeof follower.reason, "%s", u->why);
    kill_worker(w, UNABLE);
    notify_over(w, CONDITION_JOURNAL_LAG, "the journal is not followed, and so is not behind: %s",
                u->why);
    follower.next_start = mono_add(clock_mono(), UNABLE_RETRY_MS);
    bool ended = w->a->state.followed, must = w->cfg->journal != JOURNAL_AUTO || ended;
    if (follower.at.file[0]) { /* the worker died before it noticed or reported this */
        struct follow_gap gap = {.pos = 0};
        line_set(gap.why, sizeof gap.why, "%s", u->why);
        follower.at.file[0] = '\0';
        gap_found(w, ":", &gap, true);
    }
    if (!must && news && !w->conditions[CONDITION_JOURNAL].on)
        log_line(LOG_NOTE_, "no journal: %s", u->why);
    line_set(todo, sizeof todo, "%s%s", u->hint[0] ? u->hint : "for details: worldkeeper --check",
             w->cfg->journal == JOURNAL_AUTO ? "; if this is intended: [journal] mode = off" : "");
    /* With mode = auto, a journal that was never followed before is not required. Its absence is
     * not a failure, and ends a condition that was reported before this was known. */
    if (must)
        notify_open(w, CONDITION_JOURNAL, "unable",
                    ended ? "dumps continue; it was followed before, but from now on changes "
                            "between two dumps are lost with the server"
                          : "dumps continue; changes between two dumps are lost with the server",
                    todo, "no journal: %s", u->why);
    else
        notify_over(w, CONDITION_JOURNAL, "no journal: %s", u->why);
}

static void follower_failed(struct world *w, const struct follow_failure *failure)
{
    const struct err *e = &failure->error;
    /* The log cannot be followed across a damaged event or a gap; reading it again does not
     * help. */
    bool log_ends = e->cls == ERR_GAP || (e->cls == ERR_DAMAGED && !failure->files);
    struct follow_gap gap = {.pos = 0};
    char key[CONDITION_KEY];
    kill_worker(w, FAILED);
    line_set(follower.reason, sizeof follower.reason, "%s", e->text);
    line_set(gap.why, sizeof gap.why, "%s", e->text);
    follower.next_start = mono_add(clock_mono(), follower.retry);
    back_off();
    if (failure->files) {
        /* The changes that are missing in the files are still in the server's log, as long as the
         * server's disk works. If files fail after the dump, too, that dump's changes may have
         * filled the disk: only another dump makes them unnecessary. */
        if (!follower.files_failing || follower.covered == follower.gaps)
            gap_found(w, ":", &gap, false);
        follower.files_failing = true;
    }
    if (log_ends) {
        gap_found(w, " after", &gap, true);
        follower.position_lost = follower.log_broken = true; /* until the next dump is stored */
        follower.at.file[0] = '\0';
    }
    bool passing = e->cls == ERR_UNREACHABLE && follower.retry < PASSING_MS;
    if (passing || log_ends)
        return; /* the guard reports a server that becomes unreachable */
    notify_open(w, CONDITION_JOURNAL, condition_key(key, e), "still trying",
                e->hint[0] ? e->hint : "for details: worldkeeper --check",
                "the journal is not followed: %s", e->text);
}

static void follower_message(struct world *w, struct worker *v, const struct packet *m)
{
    struct follow_failure failure = {.files = false};
    const void *p;
    look_at_board(w); /* also after the worker has ended: its last progress is still on the page */
    follower.packets += m != NULL;
    bool ends = !m || m->type == FOLLOW_UNABLE || m->type == FOLLOW_FAILED;
    if (ends && (given_up(w) || (!m && v->stop_requested))) {
        kill_worker(w, IDLE);
    } else if (!m) {
        err_set(&failure.error, ERR_SYSTEM, 0, "its process died");
        follower_failed(w, &failure);
    } else if (m->type == FOLLOW_REPORT && (p = packet_struct(m, sizeof(struct follow_report)))) {
        follower_reported(w, p);
    } else if (m->type == FOLLOW_GAP && (p = packet_struct(m, sizeof(struct follow_gap)))) {
        gap_reported(w, p);
    } else if (m->type == FOLLOW_UNABLE && (p = packet_struct(m, sizeof(struct follow_unable)))) {
        follower_unable(w, p);
    } else if (m->type == FOLLOW_FAILED && (p = packet_struct(m, sizeof failure))) {
        memcpy(&failure, p, sizeof failure);
        worker_err_clean(&failure.error);
        follower_failed(w, &failure);
    }
}

void follower_leaves(bool leaves)
{
    follower.leaving = leaves;
}

/* Ends all conditions of the journal, because no journal is kept here any longer. */
static void forget_conditions(struct world *w, const char *why)
{
    static const enum condition_id kinds[] = {CONDITION_JOURNAL, CONDITION_JOURNAL_GAP,
                                              CONDITION_JOURNAL_LAG};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        notify_over(w, kinds[i], "%s", why);
    follower.files_failing = false;
    follower.covered = follower.closing = follower.gaps;
}

void follower_restored(struct world *w, const char *dump, wall_t alive)
{
    struct follow_gap gap = {.pos = 0};
    line_set(gap.why, sizeof gap.why, "dump %s was restored", dump);
    keep_gap(w, &gap, alive, false);
    follower.change_count = 0;
}

/* ---- a table that is much smaller than in the newest dump ---- */

/* Appends, for example, "2,000 rows of table player were deleted by one transaction at …". */
static void change_words(const struct follow_emptied *e, const char *name, struct buf *out)
{
    char t[TEXT_SHORT], n[TEXT_SHORT];
    if (e->columns[0])
        buf_printf(
            out,
            "one statement set %s %s to one value in %s rows of table %s at %s, whatever the "
            "values were",
            strchr(e->columns, ',') ? "columns" : "column", e->columns, text_count(e->rows, n),
            name, text_utc(e->at, t));
    else
        buf_printf(out, "%s rows of table %s were deleted by one transaction at %s",
                   text_count(e->rows, n), name, text_utc(e->at, t));
}

/* Returns whether the journal leads from the dump to the change. */
static bool follower_leads_to(const struct world *w, const char *dump)
{
    const struct manifest *newest = dumps_newest();
    bool since_newest = newest && strcmp(newest->name, dump) == 0;
    return !w->conditions[CONDITION_JOURNAL_GAP].on && (since_newest || !follower.crossed);
}

/* Explains a loss by one change. The log has whole seconds, so only the second before the
 * statement's is certain to be complete. */
static void explain_loss(const struct world *w, const json_t *table, const struct follow_emptied *e,
                         struct buf *what, struct buf *todo)
{
    struct follow_statement s = {
        .verb = "emptied", .by = "TRUNCATE", .count = 1, .at = e->at, .before.ms = e->at.ms - 1000};
    bool leads = follower_leads_to(w, js_text(table, "dump"));
    bool reached = leads && s.before.ms > js_number(table, "covers_ms", 0);
    js_copy(table, "name", s.tables[0].name, sizeof s.tables[0].name);
    js_copy(table, "dump", s.tables[0].dump, sizeof s.tables[0].dump);
    s.tables[0].rows = (uint64_t)js_number(table, "rows", 0);
    buf_adds(what, what->len ? "; " : "");
    if (e->rows)
        change_words(e, s.tables[0].name, what);
    else
        statement_words(&s, what);
    buf_adds(todo, "; if that was not intended, this brings ");
    sql_ident(todo, s.tables[0].name);
    buf_printf(todo, " back as it was %s: ",
               reached ? "a second before"
               : leads ? "in the last dump, which ended less than two seconds before"
                       : "in the last dump, because the journal has a gap since then");
    statement_undo(&s, reached, todo);
}

/* Appends the command that restores the table from the dump, for a loss that the journal does not
 * explain. */
static void undo_from_dump(const json_t *table, struct buf *todo)
{
    struct follow_statement s = {.verb = "emptied"};
    const json_t *tables = json_object_get(table, "tables");
    SCOPED(buf_free) struct buf names = {0};
    size_t all = tables ? json_array_size(tables) : 1;
    for (; s.count < all && s.count < STATEMENT_DEED_TABLES; s.count++) {
        struct follow_table *t = &s.tables[s.count];
        const char *name =
            tables ? json_string_value(json_array_get(tables, s.count)) : js_text(table, "name");
        snprintf(t->name, sizeof t->name, "%s", name ? name : "");
        js_copy(table, "dump", t->dump, sizeof t->dump);
        buf_adds(&names, names.len == 0 ? "" : s.count + 1 == all ? " and " : ", ");
        sql_ident(&names, t->name);
    }
    if (!s.count)
        return;
    buf_printf(todo,
               "; if that was not intended, this brings %s%s back as in the last dump%s: ", names.p,
               tables && all > 1 ? ", which lost most rows," : "",
               follower.state == FOLLOWING && !tables
                   ? " (the journal shows no single statement that took the rows, so the moment "
                     "before the loss must be added by hand, as --at TIME)"
                   : "");
    statement_undo(&s, false, todo);
}

/* Returns the change by which the table lost most of its rows; NULL if the journal does not show
 * it. A deletion counts if it explains half of the loss. */
static struct mass_change *find_loss(const json_t *table)
{
    const char *name = js_text(table, "name");
    uint64_t rows = (uint64_t)js_number(table, "rows", 0);
    uint64_t lost = rows - (uint64_t)js_number(table, "rows_now", 0);
    for (size_t k = 0; k < follower.change_count; k++) {
        const struct follow_emptied *e = &follower.changes[k].is;
        bool since = after_dump(e, dumps_newest()) || strcmp(e->dump, js_text(table, "dump")) == 0;
        if (strcmp(e->name, name) == 0 && !e->columns[0] && since &&
            (e->rows == 0 || e->rows >= lost / 2))
            return &follower.changes[k];
    }
    return NULL;
}

bool follower_explain_shrunk(const struct world *w, const json_t *shrunk, struct buf *what,
                             struct buf *todo)
{
    bool known = true;
    size_t i;
    json_t *table;
    json_array_foreach(shrunk, i, table)
    {
        struct mass_change *c = find_loss(table);
        known &= c && c->reported;
        if (c)
            c->reported = true;
        if (i >= EMPTIED_SHOWN)
            continue;
        if (c)
            explain_loss(w, table, &c->is, what, todo);
        else
            undo_from_dump(table, todo);
    }
    return known;
}

bool follower_may_explain(const json_t *shrunk, mono_t since)
{
    bool reads = follower.state == STARTING || follower.state == FOLLOWING;
    size_t i;
    json_t *table;
    if (!follower.worker.pid || !reads || mono_reached(follower.proven, since))
        return false;
    json_array_foreach(shrunk, i, table)
    {
        if (js_text(table, "name")[0] && !find_loss(table))
            return true;
    }
    return false;
}

uint64_t follower_dropped_rows(void)
{
    return follower.dropped_rows;
}

bool follower_loss_after(const struct manifest *dump)
{
    for (size_t i = 0; i < follower.change_count; i++) {
        const struct mass_change *c = &follower.changes[i];
        if (c->reported && !c->is.columns[0] && after_dump(&c->is, dump))
            return true;
    }
    return false;
}

/* ---- statements about most rows of a table, as the log shows them ---- */

/* Records the change. Returns whether this change, or one of the same kind in the last days, was
 * recorded before: what a game does again and again is not a mistake. */
static bool is_usual(struct world *w, const struct follow_emptied *e)
{
    struct state *s = &w->a->state;
    json_auto_t *list = s->habits[0] ? json_loads(s->habits, 0, NULL) : NULL;
    bool usual = false;
    if (!json_is_array(list)) {
        json_decref(list);
        list = json_array();
    }
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *o = json_array_get(list, i);
        if (strcmp(js_text(o, "table"), e->name) != 0 ||
            strcmp(js_text(o, "columns"), e->columns) != 0)
            continue;
        usual = e->at.ms - js_moment(o, "at").ms < HABIT_MS;
        json_array_remove(list, i);
    }
    json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "table", e->name, "columns",
                                          e->columns, "at", (json_int_t)e->at.ms));
    while (json_dumpb(list, NULL, 0, JSON_COMPACT) >= sizeof s->habits)
        json_array_remove(list, 0);
    SCOPED(xfree) char *text = json_dumps(list, JSON_COMPACT);
    if (text)
        snprintf(s->habits, sizeof s->habits, "%s", text);
    w->state_dirty = true;
    return usual;
}

/* Returns whether the change affects most rows, by the rule for shrunken dumps: more than
 * shrink_limit percent of the rows in the newest dump, without the rows that are back. The rows of
 * a ledger go into its totals. */
static bool is_most(const struct world *w, const struct follow_emptied *e, uint64_t before)
{
    const uint64_t rows = e->rows ? e->rows : before;
    uint64_t lost = e->columns[0] || e->back < rows ? rows - (e->columns[0] ? 0 : e->back) : 0;
    return before >= SHRINK_LEAST && lost * 100 > before * w->cfg->shrink_limit &&
           (e->columns[0] || !world_ledger_of(w->cfg, e->name));
}

/* Returns whether the change is to be judged alone. Rows that were deleted before the newest dump
 * are reported with that dump, which lacks them; no dump shows overwritten values. */
static bool is_alone(const struct follow_emptied *e)
{
    const struct manifest *newest = dumps_newest();
    bool since = newest && strcmp(e->dump, newest->name) == 0 && after_dump(e, newest);
    return since || (e->columns[0] && e->dump[0]);
}

static void report_change(struct world *w, struct mass_change *c)
{
    const struct follow_emptied *e = &c->is;
    SCOPED(buf_free) struct buf what = {0}, todo = {0}, name = {0};
    char headline[200], n[TEXT_SHORT], all[TEXT_SHORT];
    c->judged = true;
    if (!is_alone(e) || !is_most(w, e, e->before) || is_usual(w, e))
        return;
    c->reported = true;
    text_clean(&name, e->name, 64);
    json_auto_t *table =
        json_pack("{s:s, s:I, s:s, s:I}", "name", e->name, "rows", (json_int_t)e->before, "dump",
                  e->dump, "covers_ms", (json_int_t)e->dumped.ms);
    explain_loss(w, table, e, &what, &todo);
    text_count(e->rows ? e->rows : e->before, n);
    text_count(e->before, all);
    if (e->columns[0]) {
        line_set(headline, sizeof headline, "table %s: %s of %s rows overwritten", name.p, n, all);
        notify_event(w, "overwritten", EVENT_DISCARDED, headline, what.p,
                     "nothing: the game plays on", todo.p + strlen("; "));
    } else {
        line_set(headline, sizeof headline, "table %s lost %s of %s rows", name.p, n, all);
        notify_open_as(w, CONDITION_SHRUNK, e->name, headline,
                       "the newest dump has the rows; the next one will lack them",
                       todo.p + strlen("; "), "table %s lost %s of %s rows: %s", name.p, n, all,
                       what.p);
    }
}

static void report_changes(struct world *w, mono_t now)
{
    for (size_t i = 0; i < follower.change_count; i++) {
        struct mass_change *c = &follower.changes[i];
        if (!c->judged && !c->reported && mono_reached(now, c->due))
            report_change(w, c);
    }
}

/* ---- dumps end a gap ---- */

void follower_dump_begins(void)
{
    size_t kept = 0;
    follower.closing = follower.gaps;
    for (size_t i = 0; i < follower.change_count; i++)
        if (after_dump(&follower.changes[i].is, dumps_newest()))
            follower.changes[kept++] = follower.changes[i];
    follower.change_count = kept;
}

void follower_dump_done(struct world *w)
{
    const struct db_binlog_pos *end = &dumps_newest()->end;
    follower.position_lost = false;
    follower.covered = follower.closing;
    follower.crossed = w->conditions[CONDITION_JOURNAL_GAP].on;
    names_free(&follower.dropped);
    follower.dropped_rows = 0;
    if (follower.worker.pid && follower.from_now && end->file[0]) {
        /* The worker did not begin at a dump. The next worker begins at this dump and reports later
         * gaps. */
        follower_restart(w);
        follower.covered = follower.gaps;
    } else if (follower.worker.pid && w->cfg->journal == JOURNAL_FOLLOW) {
        worker_send_packet(follower.worker.fd, 0, "",
                           0); /* if sending fails, the next dump is announced */
    }
    if (w->conditions[CONDITION_JOURNAL_GAP].on)
        follower.gap_dump = clock_mono();
    /* A dump that began before the gap covers it if the dump's binlog position is not before the
     * gap. */
    if (end->file[0] && follower.gap_at.file[0] &&
        db_binlog_pos_compare(end, &follower.gap_at) >= 0)
        follower.covered = follower.gaps;
    end_gap(w, end->file[0] && follower.state != UNABLE
                   ? "a dump was stored; the journal continues from it"
                   : "a dump was stored, but no journal continues from it");
    if (follower.covered != follower.gaps)
        dump_soon(w, 0, true); /* the dump began before the gap */
}

/* ---- time ---- */

static void check_lag(struct world *w, mono_t now)
{
    int64_t ms = lag_of_worker(now), limit = w->cfg->journal_lag_limit;
    char t[TEXT_SHORT], l[TEXT_SHORT], headline[100];
    line_set(headline, sizeof headline, "journal is %s behind", text_duration(ms > 0 ? ms : 0, t));
    if (ms > (limit > LAG_MIN_MS ? limit : LAG_MIN_MS))
        notify_open_as(w, CONDITION_JOURNAL_LAG, NULL, headline,
                       "reading on; nothing is lost while the server keeps its log",
                       "find out what keeps the server or this machine busy",
                       "the journal is %s behind (journal_lag_limit %s)", text_duration(ms, t),
                       text_duration(limit, l));
    /* A worker that has exited or just begun has not caught up. */
    else if (follower.state == FOLLOWING && follower.at.marker_read)
        notify_over(w, CONDITION_JOURNAL_LAG,
                    "the journal is %s behind, within its limit of %s again", text_duration(ms, t),
                    text_duration(limit, l));
}

/* Returns whether the log is worth reading: the world is up, or something removed it from a server
 * that was not restarted. Only the log names the statement that did it. */
static bool is_to_be_read(const struct world *w)
{
    const struct guard *g = &w->guard;
    return g->state == GUARD_UP ||
           (g->state == GUARD_WAITING && g->cause == CAUSE_MISSING && w->a->state.gone_at.ms == 0);
}

static void follower_timers(struct world *w, mono_t now)
{
    bool wants = w->cfg->journal != JOURNAL_OFF && is_to_be_read(w) && !w->stopping;
    if (w->cfg->journal == JOURNAL_OFF) { /* the end of an earlier journal is not a failure */
        w->state_dirty |= w->a->state.followed;
        w->a->state.followed = false;
        forget_conditions(w, "no journal is configured");
    } else if (w->guard.state == GUARD_STANDBY) {
        forget_conditions(w, "another machine keeps the world and its journal");
    }
    look_at_board(w);
    report_changes(w, now);
    if (follower.worker.pid && (!wants || follower.worker.stop_requested))
        end_worker(w, now);
    if (!wants)
        follower.next_start = now;
    else if (!follower.worker.pid && mono_reached(now, follower.next_start))
        start_worker(w, now);
    if (wants && w->guard.state == GUARD_UP) /* without its sentinel no marker can be written */
        check_lag(w, now);
}

static void follower_begin(struct world *w)
{
    world_worker(w, &follower.worker, "journal", follower_message);
    follower.retry = RETRY_FIRST_MS;
}

const struct part follower_part = {.begin = follower_begin,
                                   .timers = follower_timers,
                                   .restart = follower_restart,
                                   .opens_dirs = true,
                                   .stop = follower_stop,
                                   .status = "journal",
                                   .status_json = follower_status_json};
