#include "supervisor/dump_end.h"

#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "base/line.h"
#include "base/steps.h"
#include "store/catalog.h"
#include "supervisor/dumps.h"
#include "supervisor/follower.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/world.h"

#define SHRUNK_SHOWN 3u /* tables named in an alert about a dump that shrank */
/* The longest time that a report waits for the journal to show the statement that took the rows.
 * The statement is usually read within a second. */
#define HELD_MS fault_wait(10000)

/* The report about a dump with far fewer rows, while it waits for the follower. */
static struct {
    json_t *result; /* of the dump; NULL: no report waits */
    struct err why; /* why the dump was rejected; ERR_NONE: it was stored */
    int64_t retry;  /* ms until the next attempt after a rejected dump */
    mono_t ended;   /* when the dump ended */
} held;

/* Appends, for example, "table fleet lost 8,000 of 8,000 rows, table chat lost …". */
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

/* Returns whether the world is smaller only by tables that were dropped, and that was reported. */
static bool only_dropped(const struct world *w, const json_t *entry)
{
    uint64_t rows = (uint64_t)js_number(entry, "rows", 0), dropped = follower_dropped_rows(),
             lost = rows - (uint64_t)js_number(entry, "rows_now", 0);
    if (js_text(entry, "name")[0] || !dropped)
        return false;
    return lost <= dropped || (lost - dropped) * 100 <= (rows - dropped) * w->cfg->shrink_limit;
}

/* Reports a dump that has far fewer rows. The dump is still valid: it shows the world as it is
 * now. */
static void report_shrunk(struct world *w, const json_t *shrunk)
{
    SCOPED(buf_free) struct buf what = {0}, headline = {0}, happened = {0}, todo = {0};
    char t[TEXT_SHORT], doing[320];
    const char *before = js_text(json_array_get(shrunk, 0), "dump");
    int64_t kept = w->cfg->retention.keep_before_shrink;
    shrunk_words(shrunk, &what);
    buf_adds(&headline, what.p);
    if (follower_explain_shrunk(w, shrunk, &happened, &todo) && w->conditions[CONDITION_SHRUNK].on)
        return;
    if (happened.len)
        buf_printf(&what, "; %s", happened.p);
    line_set(doing, sizeof doing,
             "a restore now would use the new dump, without these rows%s%s%s%s",
             kept ? "; dump " : "", kept ? before : "",
             kept ? ", which has them, is kept for " : "", kept ? text_duration(kept, t) : "");
    notify_open_as(w, CONDITION_SHRUNK, what.p, headline.p, doing,
                   todo.len ? todo.p + strlen("; ") : "nothing, if that was intended", "%s",
                   what.p);
}

/* Reports a dump that failed or was rejected. The next attempt is in `retry` ms. */
static void report_failed(struct world *w, const json_t *result, const struct err *e, int64_t retry)
{
    const char *rejected = js_text(result, "rejected");
    const char *failed = rejected[0] ? "dump discarded" : "dump failed";
    char t[TEXT_SHORT], doing[200], key[64];
    SCOPED(buf_free) struct buf happened = {0}, todo = {0};
    line_set(doing, sizeof doing, "the older dumps stay as they are; the next try is in %s",
             text_duration(retry, t));
    snprintf(key, sizeof key, "%s %d %s", err_class_name(e->cls), e->num,
             rejected[0] ? "rejected" : "failed");
    if (e->cls == ERR_NOSPACE) {
        buf_adds(&todo, "make room on the file system of the dumps, or keep fewer dumps in "
                        "[retention]; ");
        steps_df(&todo, w->cfg->dump_dir);
        buf_adds(&todo, "; then store a new dump: worldkeeper --dump");
    } else
        buf_adds(&todo,
                 e->hint[0]
                     ? e->hint
                     : "see the log; worldkeeper --check names what keeps a dump from being made");
    follower_explain_shrunk(w, json_object_get(result, "shrunk"), &happened, &todo);
    /* The cause may be new since the last attempt: the follower reports once a second. */
    if (happened.len) {
        snprintf(key, sizeof key, "%.63s", happened.p);
        log_line(LOG_WARN_, "%s", happened.p);
    }
    notify_open_as(w, CONDITION_DUMP, key, failed, doing, todo.p, "%s: %s%s%s", failed,
                   happened.len ? happened.p : "", happened.len ? "; " : "", e->text);
}

/* ---- a report that waits for the follower ---- */

/* Reports the lost rows, with what the journal shows by now. */
static void held_report(struct world *w)
{
    json_auto_t *result = held.result;
    held.result = NULL;
    if (!result)
        return;
    if (held.why.cls == ERR_NONE)
        report_shrunk(w, json_object_get(result, "shrunk"));
    else
        report_failed(w, result, &held.why, held.retry);
}

void dump_end_timers(struct world *w, mono_t now)
{
    const json_t *shrunk = json_object_get(held.result, "shrunk");
    if (!held.result)
        return;
    if (w->stopping || mono_since(now, held.ended) >= HELD_MS ||
        !follower_may_explain(shrunk, held.ended))
        held_report(w);
}

/* Reports lost rows as soon as the follower has read what took them, because the command that
 * brings them back names the moment before. */
static void held_begin(struct world *w, const json_t *result, const struct err *e, int64_t retry)
{
    held.result = json_incref((json_t *)(uintptr_t)result);
    held.why = e ? *e : (struct err){0};
    held.retry = retry;
    held.ended = clock_mono();
    dump_end_timers(w, held.ended);
}

/* Handles the rows that a stored dump lacks. */
static void judge_rows(struct world *w, const struct manifest *m, const json_t *result)
{
    const json_t *shrunk = json_object_get(result, "shrunk");
    if (json_array_size(shrunk) > 0 && !only_dropped(w, json_array_get(shrunk, 0)))
        held_begin(w, result, NULL, 0);
    else if (json_array_size(shrunk) == 0 && !follower_loss_after(m))
        notify_over(w, CONDITION_SHRUNK,
                    "the newest dump has about as many rows as the one before it; "
                    "lost rows are back only if somebody restored them");
}

/* ---- the end of a dump ---- */

/* Handles a stored dump. `e` is an error that occurred after the dump was stored, or NULL. */
static void dump_end_stored(struct world *w, const struct manifest *m, const json_t *result,
                            const struct err *e)
{
    char rows[TEXT_SHORT], size[TEXT_SHORT], took[TEXT_SHORT];
    judge_rows(w, m, result);
    dumps_stored(w, m);
    follower_dump_done(w);
    notify_heartbeat_now();
    log_line(LOG_NOTE_, "dump %s stored: %s rows, %s, %s", m->name, text_count(m->rows, rows),
             text_size(m->file_size, size), text_elapsed(m->took_ms, took));
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
                   "%s", e->text);
}

void dump_failed(struct world *w, const json_t *result, const struct err *e)
{
    const char *rejected = js_text(result, "rejected");
    /* The older dumps are still available to a restore. After the shrink guard rejected a dump, the
     * next attempt is the next scheduled one. */
    int64_t wait = dumps_failed(w, strstr(rejected, "shrink_limit") != NULL);
    world_log_err(w, LOG_ERROR_, rejected[0] ? "dump discarded" : "dump failed", e);
    /* The guard reports problems of the world itself. Only failures that probes do not notice are
     * reported here. */
    bool passing = e->cls == ERR_UNREACHABLE && dumps_failures() == 1;
    if (passing || e->cls == ERR_ABORTED || w->guard.state != GUARD_UP)
        return;
    if (json_array_size(json_object_get(result, "shrunk")) > 0)
        held_begin(w, result, e, wait);
    else
        report_failed(w, result, e, wait);
}

void dump_ended(struct world *w, const struct manifest *m, const json_t *result,
                const struct err *e)
{
    held_report(w);
    if (m->name[0])
        dump_end_stored(w, m, result, e);
    else
        dump_failed(w, result, e);
}

/* ---- the end of --init and --new-round ---- */

/* Handles the end of --init and --new-round. A worker that was killed may have begun the round
 * without reporting it. */
void round_ended(struct world *w, const struct manifest *first, const json_t *result,
                 const struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    struct err why;
    bool begun = json_object_get(result, "round");
    held_report(w);
    prober_next(clock_mono());
    if (!begun && !e)
        return;
    if (first->name[0]) {
        dump_end_stored(w, first, result, e);
    } else if (catalog_load(w->a->job.dirfd, w->cfg->name, &c, &why) < 0) {
        world_log_err(w, LOG_ERROR_, "the dumps of the new round", &why);
    } else {
        dumps_load(w, &c);
        begun |= !catalog_newest(&c, 0);
    }
    if (begun)
        follower_part.restart(w);
}
