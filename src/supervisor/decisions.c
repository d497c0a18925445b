#include "supervisor/decisions.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "actions/action.h"
#include "base/fault.h"
#include "base/js.h"
#include "base/line.h"
#include "base/log.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/recorder.h"
#include "supervisor/world.h"

/* How long a server may hang before an alert is sent. */
#define SUSPECT_GRACE_MS fault_wait(10000)
/* Pauses between attempts to restore: short at first, since the world is down, then longer, so that
 * a broken dump does not fill the log. */
#define RETRY_FIRST_MS fault_wait(10000)
#define RETRY_MAX_MS fault_wait(300000)

static struct {
    char lost_reason[LINE];  /* why the world was found lost, or "" */
    char restore_hint[LINE]; /* hint of the error that the last restore failed with */
} decisions;

void guard_config_from(const struct config *c, struct guard_config *out)
{
    *out = (struct guard_config){.confirm = c->probe_confirm,
                                 .restore_auto = c->restore_auto,
                                 .restore_new_server = c->restore_new_server,
                                 .alert_repeat = c->alert_repeat,
                                 .suspect_grace = SUSPECT_GRACE_MS,
                                 .retry_first = RETRY_FIRST_MS,
                                 .retry_max = RETRY_MAX_MS};
}

void world_event(struct world *w, const struct guard_event *ev)
{
    const struct guard *g = &w->guard;
    struct guard_answer a;
    char before[LINE];
    bool unverified = guard_unverified(g);
    line_set(before, sizeof before, "%s", g->reason);
    guard_step(&w->guard, &w->guard_cfg, ev, clock_mono(), &a);
    if (a.changed && g->state == GUARD_UP)
        decisions.lost_reason[0] = '\0';
    if (a.changed && g->state == GUARD_LOST)
        line_set(decisions.lost_reason, sizeof decisions.lost_reason, "%s", g->reason);
    if (ev->type == GUARD_RESTORE_FAILED)
        line_set(decisions.restore_hint, sizeof decisions.restore_hint, "%s",
                 ev->err ? ev->err->hint : "");
    const struct condition *gap = &w->conditions[CONDITION_JOURNAL_GAP];
    struct explanation why;
    explain(g, w->cfg, prober_last()->error,
            gap->with_world             ? gap->hint
            : g->cause == CAUSE_MISSING ? ""
                                        : decisions.restore_hint,
            &why);
    w->status_dirty |=
        strcmp(why.todo, w->why.todo) != 0 || strcmp(why.command, w->why.command) != 0;
    w->why = why;
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
                                          .lost_reason = decisions.lost_reason,
                                          .hint = decisions.restore_hint,
                                          .restored = w->last_restore.shown,
                                          .same_world = prober_same_world()});
    /* jobs.c starts the restore, as soon as no job runs. */
    bool yields = a.action == GUARD_START_RESTORE && action_is(w->job, ACTION_YIELDS);
    if (yields || a.action == GUARD_END_RESTORE)
        worker_stop(&w->job_worker, SIGKILL);
}
