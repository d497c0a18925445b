/* Ledgers are marked and rolled up while the world is up, in a worker beside the jobs: a dump shows
 * one point in time whatever runs meanwhile, but a restore must not find a running rollup. The
 * worker is forked for each round of due ledgers, and exits after it. Lasting data is in struct
 * line, which belongs to a ledger of the config, by name and table, across reloads. */
#include "supervisor/rollups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actions/ledgers.h"
#include "base/fault.h"
#include "base/js.h"
#include "base/line.h"
#include "supervisor/condition_words.h"
#include "supervisor/notifier.h"
#include "supervisor/recorder.h"
#include "supervisor/world.h"

/* POSTPONED_MS: pause after another session or the state of the world prevented a run. The end of
 * either is not signaled, so it is checked at the price of one connection. FAILED_MS: pause after a
 * failed run, because a problem that needs an operator is not retried each second. Both are limited
 * by the ledger's interval. */
#define POSTPONED_MS fault_wait(2000)
#define FAILED_MS fault_wait(60000)
#define RECORD_MS 60000 /* runs within this time share one record of the history */
/* A run that takes less than this is not slow, however short the interval. */
#define SLOW_LEAST_MS fault_wait(10000)

/* Sent by the worker for each due ledger, one after another. */
struct report {
    unsigned index;
    struct ledger_report is;
};

/* State of one ledger of the config. */
struct line {
    char *name, *table;
    bool seen; /* `figures` describes this world */
    /* `result` and `took_ms` describe a run of this supervisor. */
    bool ran;
    /* They describe a run before the world was lost or replaced. */
    bool ran_before;
    bool waits;                        /* due since `since`, but not yet rolled up */
    mono_t since, next_run, next_mark; /* next_run ms 0: not known before the first look */
    mono_t retry;                      /* no run begins before this time */
    bool is_due, runs;    /* the current worker looks at it; the current worker also rolls it up */
    unsigned unreachable; /* failures in a row because the server was unreachable */
    bool failing;
    struct err error;    /* valid if `failing` */
    struct err prevents; /* why the last attempt was postponed; ERR_NONE: it was not */
    struct ledger_figures figures;
    struct ledger_result result;
    int64_t took_ms;
    wall_t ran_at; /* time of the run that `ran` means, from the tables */
    struct {
        mono_t at; /* time of the last record; ms 0: none */
        uint64_t runs, rolled_up, late, ignored;
        int64_t ms;
    } record; /* runs since the last record */
};

static struct rollups {
    struct worker worker;
    struct line lines[CONFIG_LEDGERS];
    unsigned count;
} rollups;

static void line_free(struct line *l)
{
    free(l->name);
    free(l->table);
    *l = (struct line){0};
}

/* ---- the child ---- */

/* Sends the figures after each ledger, so that a ledger that fails or hangs does not affect the
 * others. */
static int rollups_child_main(int fd, void *arg)
{
    static struct report out; /* static, so that no byte of the packet is uninitialized */
    const struct world *w = arg;
    struct err e;
    if (action_password(w->a, &e) < 0)
        return 1;
    for (unsigned i = 0; i < rollups.count; i++) {
        const struct line *l = &rollups.lines[i];
        const struct ledger_options run = {.until = -1};
        if (!l->is_due)
            continue;
        out.index = i;
        action_ledger(w->a, &w->cfg->ledgers[i], 0, l->runs ? &run : NULL, &out.is);
        worker_send_packet(fd, 0, &out, sizeof out);
    }
    return 0;
}

static void rollups_stop(struct world *w)
{
    (void)w;
    /* Possible at any moment: the next run continues with the remaining rows. */
    worker_kill(&rollups.worker);
    for (unsigned i = 0; i < rollups.count; i++)
        rollups.lines[i].is_due = rollups.lines[i].runs = false;
}

/* ---- conditions ---- */

/* Returns how long the ledger has waited, in ms. */
static int64_t rollups_waited(const struct line *l, mono_t now)
{
    return l->waits ? mono_since(now, l->since) : 0;
}

/* Texts of the ledger conditions, in the order of their ids. */
static const struct {
    const char *is, *doing, *todo, *over; /* is: follows the ledger's name in the subject */
} conditions[] = {
    {"is not rolled up", "trying again each minute; totals stay right, but the ledger grows",
     "worldkeeper --check names what is wrong", "all ledgers are rolled up again"},
    {"grows faster than it is rolled up", "rolling it up without a pause",
     "SHOW FULL PROCESSLIST in the server shows what keeps it busy or the table locked; a longer "
     "interval does not help if rows arrive faster than the server adds them",
     "ledgers are rolled up within their intervals again"},
    {"has late rows", "nothing: totals have these rows",
     "check the clocks of the machines that write the ledger, and whether rows wait long before "
     "they are inserted; or raise late_limit",
     "no ledger has more late rows than late_limit"},
    {"has rows that no total counts", "leaving these rows as they are",
     "worldkeeper --rollup --verify counts them; insert them again without their ids, then delete "
     "the old ones; the game must leave the id to AUTO_INCREMENT",
     "all rows of all ledgers are in totals again"},
};

/* Returns whether the condition holds for this ledger by its last run. If so, appends the
 * description to `what`. */
static bool rollups_holds(const struct world *w, enum condition_id id, unsigned i, struct buf *what)
{
    const struct line *l = &rollups.lines[i];
    const struct config_ledger *c = &w->cfg->ledgers[i];
    int64_t slow = rollups_waited(l, clock_mono());
    bool ran = l->ran || l->ran_before; /* earlier findings stay until the next run */
    char t[TEXT_SHORT], every[TEXT_SHORT];
    if (ran && l->took_ms > slow)
        slow = l->took_ms;
    bool is_slow = !l->failing && slow > c->interval && slow >= SLOW_LEAST_MS;
    if (id == CONDITION_LEDGER && l->failing)
        buf_printf(what, "rolling up ledger %s failed: %s", l->name, l->error.text);
    else if (id == CONDITION_LEDGER_SLOW && is_slow && l->prevents.cls)
        buf_printf(what, "ledger %s has not been rolled up for %s: %s", l->name,
                   text_duration(slow, t), l->prevents.text);
    else if (id == CONDITION_LEDGER_SLOW && is_slow)
        buf_printf(
            what,
            "ledger %s grows faster than it is rolled up: a run takes %s, and one is due every %s",
            l->name, text_duration(slow, t), text_duration(c->interval, every));
    else if (id == CONDITION_LEDGER_LATE && ran && c->late_limit && l->result.late > c->late_limit)
        buf_printf(what,
                   "ledger %s: %" PRIu64 " rows of one run are older than rows that were already "
                   "rolled up (late_limit %u)",
                   l->name, l->result.late, c->late_limit);
    else if (id == CONDITION_LEDGER_IGNORED && ran && l->result.ignored)
        buf_printf(what,
                   "ledger %s: %" PRIu64 " rows of table %s have ids that were already rolled "
                   "up: they are in no total",
                   l->name, l->result.ignored, l->table);
    else
        return false;
    return true;
}

/* Opens or ends a condition. The text is that of the first ledger for which the condition holds,
 * with a count of the others: "[ledger a] …; and 2 more". */
static void rollups_judge(struct world *w, enum condition_id id)
{
    SCOPED(buf_free) struct buf what = {0}, others = {0};
    const struct line *first = NULL;
    const char *is = conditions[id - CONDITION_LEDGER].is,
               *doing = conditions[id - CONDITION_LEDGER].doing,
               *todo = conditions[id - CONDITION_LEDGER].todo;
    char key[CONDITION_KEY], headline[140];
    unsigned n = 0;
    bool known = true;
    for (unsigned i = 0; i < rollups.count; i++) {
        known = known && rollups.lines[i].ran;
        if (rollups_holds(w, id, i, first ? &others : &what) && n++ == 0)
            first = &rollups.lines[i];
    }
    if (!first) {
        /* A condition is not ended before each ledger was rolled up once. */
        if (known || w->conditions[id].on)
            notify_over(w, id, "%s", conditions[id - CONDITION_LEDGER].over);
        return;
    }
    snprintf(key, sizeof key, "%s", first->name);
    if (id == CONDITION_LEDGER) {
        const struct err *e = &first->error;
        snprintf(key, sizeof key, "%.40s %s %d", first->name, err_class_name(e->cls), e->num);
        todo = e->hint[0] ? e->hint : todo;
    } else if (id == CONDITION_LEDGER_SLOW && first->prevents.cls) {
        is = "is not rolled up";
        doing = "trying again every few seconds";
        todo = first->prevents.hint[0] ? first->prevents.hint : todo;
    }
    if (n > 1)
        buf_printf(&what, "; and %u more", n - 1);
    line_set(headline, sizeof headline, "ledger %s %s", first->name, is);
    notify_open_as(w, id, key, headline, doing, todo, "%s", what.p);
}

static void judge_all(struct world *w)
{
    for (enum condition_id id = CONDITION_LEDGER; id <= CONDITION_LEDGER_IGNORED; id++)
        rollups_judge(w, id);
}

/* ---- reports ---- */

/* Adds a run to the history. Runs without rows are not recorded. */
static void record_run(struct world *w, struct line *l, mono_t now)
{
    l->record.runs++;
    l->record.rolled_up += l->result.rolled_up;
    l->record.late += l->result.late;
    l->record.ignored = l->result.ignored;
    l->record.ms += l->took_ms;
    if (l->record.rolled_up == 0 || (l->record.at.ms && mono_since(now, l->record.at) < RECORD_MS))
        return;
    history_add(w, HISTORY_ROLLUP,
                json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f}", "ledger", l->name, "runs",
                          (json_int_t)l->record.runs, "rolled_up", (json_int_t)l->record.rolled_up,
                          "late", (json_int_t)l->record.late, "ignored",
                          (json_int_t)l->record.ignored, "rows", (json_int_t)l->figures.rows,
                          "seconds", (double)l->record.ms / 1000));
    memset(&l->record, 0, sizeof l->record);
    l->record.at = now;
}

/* Returns when the next run is due. It depends on the last run, which the tables know even if an
 * earlier supervisor made it, or else on the time since which rows may exist. */
static mono_t next_run(const struct line *l, int64_t interval, mono_t now)
{
    const struct ledger_figures *f = &l->figures;
    wall_t from = f->last.ms ? f->last : f->since;
    int64_t since = from.ms ? clock_wall().ms - from.ms : l->seen ? 0 : interval;
    if (since < 0 || since > interval)
        since = since < 0 ? 0 : interval;
    return mono_add(now, interval - since);
}

static void rollups_reported(struct world *w, struct line *l, const struct config_ledger *c,
                             const struct ledger_report *is)
{
    mono_t now = clock_mono();
    bool first = !l->seen;
    char rows[TEXT_SHORT], t[TEXT_SHORT];
    l->is_due = l->runs = false;
    l->next_mark = mono_add(now, ledger_mark_step(c));
    if (is->ok) {
        l->seen = is->made;
        l->figures = is->figures;
        if (is->ran) {
            l->ran = true;
            l->ran_before = false;
            l->result = is->result;
            l->took_ms = is->took_ms;
            l->ran_at = is->figures.last;
        }
        l->unreachable = 0;
        err_clear(&l->prevents);
        l->failing = l->failing && !is->ran;
        l->waits = l->waits && !is->ran;
        if (is->ran || first)
            l->next_run = next_run(l, c->interval, now);
        if (is->ran)
            record_run(w, l, now);
        if (is->ran && is->result.rolled_up)
            log_line(LOG_INFO_, "ledger %s: %s rows rolled up in %s, %" PRIu64 " of them late",
                     c->name, text_count(is->result.rolled_up, rows), text_elapsed(is->took_ms, t),
                     is->result.late);
    } else {
        /* A single broken connection is not reported here, because the guard handles it. */
        l->unreachable = is->error.cls == ERR_UNREACHABLE ? l->unreachable + 1 : 0;
        if (!is->postponed && l->unreachable != 1) {
            if (!l->failing || strcmp(l->error.text, is->error.text) != 0) {
                struct err e = is->error;
                world_log_err(w, LOG_WARN_, "rollup", &e);
            }
            l->failing = true;
            l->error = is->error;
        }
        int64_t retry = is->postponed ? POSTPONED_MS : FAILED_MS;
        l->retry = l->next_mark = mono_add(now, retry < c->interval ? retry : c->interval);
        /* A postponed run stays due, so that its wait is measured from the first attempt. */
        if (is->postponed)
            l->prevents = is->error;
        else
            l->next_run = l->retry;
    }
    /* A ledger that was only marked has no new result of a rollup. */
    w->status_dirty = true;
    if (is->ran || !is->ok)
        judge_all(w);
}

static void rollups_message(struct world *w, struct worker *v, const struct packet *m)
{
    const struct report *p = m ? packet_struct(m, sizeof *p) : NULL;
    if (!m) {
        worker_end(v);
        /* The worker died: the ledgers that it had not reported yet have failed. */
        for (unsigned i = 0; i < rollups.count; i++) {
            struct ledger_report none = {.ran = rollups.lines[i].runs};
            if (!rollups.lines[i].is_due)
                continue;
            err_set(&none.error, ERR_SYSTEM, 0, "[ledger %s]: the worker of the rollup died",
                    rollups.lines[i].name);
            rollups_reported(w, &rollups.lines[i], &w->cfg->ledgers[i], &none);
        }
    }
    if (!p || p->index >= rollups.count)
        return;
    struct ledger_report is = p->is;
    worker_err_clean(&is.error);
    rollups_reported(w, &rollups.lines[p->index], &w->cfg->ledgers[p->index], &is);
}

/* ---- another config ---- */

/* Adopts the ledgers of the new config. Ledgers that remain keep their state. */
static void rollups_restart(struct world *w)
{
    struct line fresh[CONFIG_LEDGERS] = {0};
    mono_t now = clock_mono();
    rollups_stop(w);
    for (unsigned i = 0; i < w->cfg->ledger_count; i++) {
        const struct config_ledger *c = &w->cfg->ledgers[i];
        for (unsigned k = 0; k < rollups.count; k++) {
            struct line *was = &rollups.lines[k];
            if (!was->name || strcmp(was->name, c->name) != 0 || strcmp(was->table, c->table) != 0)
                continue;
            fresh[i] = *was;
            was->name = was->table = NULL;
        }
        if (!fresh[i].name) {
            fresh[i].name = xstrdup(c->name);
            fresh[i].table = xstrdup(c->table);
        }
        /* Mark at once, because the new config may have another step. */
        fresh[i].next_mark = (mono_t){0};
        if (fresh[i].seen)
            fresh[i].next_run = next_run(&fresh[i], c->interval, now);
    }
    for (unsigned k = 0; k < rollups.count; k++)
        line_free(&rollups.lines[k]);
    memcpy(rollups.lines, fresh, sizeof fresh);
    rollups.count = w->cfg->ledger_count;
    w->status_dirty = true;
    for (enum condition_id id = CONDITION_LEDGER; id <= CONDITION_LEDGER_IGNORED; id++)
        if (w->conditions[id].on) /* a ledger that was removed must not keep its condition open */
            rollups_judge(w, id);
}

/* ---- time ---- */

/* Chooses the ledgers that are due; returns whether there are any. A ledger without figures is
 * looked at first. */
static bool rollups_choose(mono_t now)
{
    bool any = false;
    for (unsigned i = 0; i < rollups.count; i++) {
        struct line *l = &rollups.lines[i];
        l->runs = l->next_run.ms && mono_reached(now, l->next_run) && mono_reached(now, l->retry);
        l->is_due = l->runs || mono_reached(now, l->next_mark);
        any |= l->is_due;
    }
    return any;
}

/* Measures how long runs wait. The wait begins when a run is allowed, because a pause or a restore
 * is not the ledger's fault. If the first look at a ledger is prevented, the ledger waits, too. */
static void watch_waits(struct world *w, mono_t now, bool may)
{
    bool slow = false;
    for (unsigned i = 0; i < rollups.count; i++) {
        struct line *l = &rollups.lines[i];
        bool known = l->seen || l->prevents.cls;
        bool due = may && known && (l->runs || mono_reached(now, l->next_run));
        if (due && !l->waits)
            l->since = now;
        l->waits = due;
        slow |= rollups_waited(l, now) > w->cfg->ledgers[i].interval;
    }
    if (slow)
        rollups_judge(w, CONDITION_LEDGER_SLOW);
}

/* Starts the worker for due ledgers. No run begins or continues while a job is about to replace
 * tables. */
static void rollups_timers(struct world *w, mono_t now)
{
    bool swapping = w->swaps;
    enum guard_state state = w->guard.state;
    bool up = state == GUARD_UP && !w->stopping && !swapping;
    bool gone = state == GUARD_LOST || state == GUARD_RESTORING || state == GUARD_WAITING;
    bool elsewhere = state == GUARD_STANDBY;
    struct err e;
    if (rollups.worker.pid && !up && (state != GUARD_SUSPECT || swapping || w->stopping))
        rollups_stop(w);
    if (gone || swapping) {
        /* The world is lost or being replaced, so nothing is known of its ledgers. */
        for (unsigned i = 0; i < rollups.count; i++) {
            struct line *l = &rollups.lines[i];
            l->ran_before |= l->ran;
            l->seen = l->ran = l->waits = false;
            l->next_run = l->next_mark = l->retry = (mono_t){0};
            l->unreachable = 0;
            err_clear(&l->prevents);
        }
    }
    for (unsigned i = 0; i < rollups.count && elsewhere; i++)
        rollups.lines[i].ran = rollups.lines[i].ran_before = rollups.lines[i].failing = false;
    watch_waits(w, now, up);
    for (enum condition_id id = CONDITION_LEDGER; id <= CONDITION_LEDGER_IGNORED; id++)
        if (elsewhere)
            notify_over(w, id, "another machine keeps the world, and rolls up its ledgers");
        else if (rollups.count == 0) /* an earlier supervisor may have had ledgers */
            rollups_judge(w, id);
    if (rollups.worker.pid || !up || !rollups_choose(now))
        return;
    if (worker_start(&rollups.worker, rollups_child_main, w, false, &e) == 0)
        return;
    world_log_err(w, LOG_WARN_, "the rollup of ledgers", &e);
    for (unsigned i = 0; i < rollups.count; i++) {
        rollups.lines[i].is_due = rollups.lines[i].runs = false;
        rollups.lines[i].next_run = rollups.lines[i].next_mark = mono_add(now, FAILED_MS);
    }
}

/* ---- what is published ---- */

static json_t *rollups_status_json(const struct world *w)
{
    (void)w;
    json_t *list = json_array();
    for (unsigned i = 0; i < rollups.count; i++) {
        const struct line *l = &rollups.lines[i];
        const struct ledger_figures *f = &l->figures;
        bool ours = l->ran && l->ran_at.ms == f->last.ms; /* no --rollup has run since then */
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", l->name,
                                        "rows", js_known(l->seen, (int64_t)f->rows), "rolled_up",
                                        js_known(l->seen, (int64_t)f->rolled_up), "keys",
                                        js_known(l->seen, (int64_t)f->keys), "late",
                                        js_known(l->seen, (int64_t)f->late), "last",
                                        l->seen ? js_time(f->last) : json_null(), "seconds",
                                        ours ? json_real((double)l->took_ms / 1000) : json_null()));
    }
    return list;
}

static void rollups_begin(struct world *w)
{
    world_worker(w, &rollups.worker, "rollup", rollups_message);
    rollups_restart(w);
}

const struct part rollups_part = {.begin = rollups_begin,
                                  .timers = rollups_timers,
                                  .restart = rollups_restart,
                                  .stop = rollups_stop,
                                  .status = "ledgers",
                                  .status_json = rollups_status_json};
