#include "supervisor/restore_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/line.h"
#include "base/log.h"
#include "supervisor/decisions.h"
#include "supervisor/dumps.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/world.h"

void restore_recall(struct world *w)
{
    last_restore_set(&w->last_restore, last_restore_load(w->a->state.last_restore));
}

json_t *restore_outage_json(const struct world *w)
{
    return w->guard.down_since_set
               ? json_real((double)mono_since(clock_mono(), w->guard.down_since) / 1000)
               : json_null();
}

/* A restore whose outcome never reached the supervisor left its result in the state. */
static void adopt_last_restore(struct world *w, const char *text)
{
    struct state *s = &w->a->state;
    if (last_restore_adopt(&w->last_restore, last_restore_load(text)))
        snprintf(s->last_restore, sizeof s->last_restore, "%s", text);
}

void restore_adopt_state(struct world *w, enum action job, mono_t began, const struct state *saved)
{
    struct state *s = &w->a->state;
    /* A tidy job reads the state file, which may be older than another world that we have since
     * seen alive. */
    if (job == ACTION_TIDY && saved->alive_at.ms < s->alive_at.ms &&
        strcmp(saved->nonce, s->nonce) != 0)
        return;
    s->known = saved->known;
    memcpy(s->nonce, saved->nonce, sizeof s->nonce);
    memcpy(s->next, saved->next, sizeof s->next);
    s->generation = saved->generation;
    s->server = saved->server;
    s->alive_at = saved->alive_at;
    memcpy(s->boot, saved->boot, sizeof s->boot);
    s->gone_at = (wall_t){0};
    s->made = saved->made;
    adopt_last_restore(w, saved->last_restore);
    s->role = saved->role;
    if (saved->holder[0])
        memcpy(s->holder, saved->holder, sizeof s->holder);
    if (saved->lease_number > s->lease_number)
        s->lease_number = saved->lease_number;
    w->state_dirty = true;
    /* A connection that is older than the job leads to the server process that the job found. */
    prober_expect(w, s, began);
}

/* Saves the last restore for the status and the decisions of the next supervisor. */
static void keep_last_restore(struct world *w)
{
    struct state *s = &w->a->state;
    last_restore_save(w->last_restore.shown, s->last_restore, sizeof s->last_restore);
    w->state_dirty = true;
}

/* Fills `last_restore` of the status. */
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
    json_object_set_new(o, "outage_seconds", restore_outage_json(w));
    json_array_foreach(json_object_get(result, "skipped"), i, dump)
    {
        buf_printf(&skipped, "%s%s (%s)", i ? "; " : "", js_text(dump, "dump"),
                   js_text(dump, "reason"));
    }
    if (skipped.len)
        js_set_clean(o, "passed_over", skipped.p);
    if (warning[0])
        log_line(LOG_WARN_, "restored, but: %s", warning);
    last_restore_set(&w->last_restore, o);
    keep_last_restore(w);
}

void restore_ended(struct world *w, const struct request *r, bool announced, const json_t *result,
                   const struct err *e)
{
    struct guard_event ev = {.type = e ? GUARD_RESTORE_FAILED : GUARD_RESTORE_OK, .err = e};
    char text[LINE], rows[TEXT_SHORT], t[TEXT_SHORT];
    prober_discard();
    record_restore(w, result, !e);
    /* A dump of the new generation is due. The new generation may exist even if a later step
     * failed. After a restore of single tables, a dump is due because the journal does not lead
     * across it. */
    if (!e || w->a->state.next[0])
        dumps_due(clock_mono());
    if (r->tables)
        return; /* the world stays up */
    if (e)
        world_log_err(w, LOG_ERROR_,
                      r->action == ACTION_PROMOTE ? "promotion failed" : "restore failed", e);
    if (e && !announced)
        return;
    double took = json_number_value(json_object_get(result, "seconds"));
    line_set(text, sizeof text, "dump %s, %s rows in %s", js_text(result, "dump"),
             text_count((uint64_t)js_number(result, "rows", 0), rows),
             text_elapsed((int64_t)(took * 1000), t));
    ev.text = e ? NULL : text;
    world_event(w, &ev);
}
