/* Keeps the copy in a standby's worker. */
#include "restore/warm_keep.h"

#include "base/line.h"
#include "mysql/job.h"
#include "restore/result.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "restore/restore.h"
#include "restore/warm_catch_up.h"
#include "restore/warm_int.h"

#define COMPARE_MS fault_wait(3600000) /* interval of comparisons with a dump */
#define BEHIND_MS fault_wait(20000)    /* the journal reaches a new dump in this time */

/* Records what the supervisor reports until the next update. A promotion does not rely on it, and
 * opens the copy itself. */
static void keep_ready(struct warm_keeper *k, const struct warm *w)
{
    k->ready = true;
    k->why[0] = '\0';
    k->rows = 0;
    k->behind_since = (mono_t){0};
    snprintf(k->dump, sizeof k->dump, "%s", w->dump);
    for (size_t i = 0; i < w->plan.count; i++)
        k->rows += w->plan.list[i].rows;
}

/* Brings the copy up to date. Returns WARM_READY, WARM_GONE if it is to be loaded, or another value
 * if it cannot be used now. A broken copy is not loaded again from the same dump, which would break
 * it in the same way. One that is behind waits for the journal, which is stored after the dump. */
static int warm_keep_look(struct warm_keeper *k, const struct job *job, const struct catalog *dumps,
                          struct err *e)
{
    struct warm w;
    SCOPED(replay_free) struct replay changes = {0};
    const char *newest = catalog_newest(dumps, 0)->m.name;
    int rc = warm_open(&w, job, e);
    w.compare = !k->compared.ms || mono_since(clock_mono(), k->compared) >= COMPARE_MS;
    if (rc == WARM_READY)
        rc = warm_catch_up(&w, dumps, &changes, e);
    if (w.compared) {
        k->compared = clock_mono();
        k->compared_at = clock_wall();
    }
    if (rc == WARM_READY)
        keep_ready(k, &w);
    else if (rc != WARM_GONE || strcmp(k->refused, newest) != 0) /* keeps why it was refused */
        line_set(k->why, sizeof k->why, "%s", rc < 0 ? "" : w.why);
    k->ready = rc == WARM_READY;
    if (rc == WARM_BROKEN && strcmp(newest, w.dump) == 0)
        snprintf(k->refused, sizeof k->refused, "%s", newest);
    if (rc == WARM_BEHIND && !k->behind_since.ms)
        k->behind_since = clock_mono();
    bool wait = rc == WARM_BEHIND && mono_since(clock_mono(), k->behind_since) < BEHIND_MS;
    warm_close(&w);
    return rc <= WARM_READY || wait || strcmp(k->refused, newest) == 0 ? rc : WARM_GONE;
}

/* Loads the copy with the normal restore code, so that a warm and a cold promotion produce the same
 * world. */
static int warm_keep_load(struct warm_keeper *k, const struct job *job, const struct state *state,
                          const char *newest, struct err *e)
{
    SCOPED(restore_result_free) struct restore_result res = {0};
    struct err why = {0};
    struct warm w = {0};
    config_own_schema(CONFIG_WARM_SCHEMA, job->cfg, w.schema);
    struct restore_options opt = {
        .mode = RESTORE_COPY, .into = w.schema, .newest = true, .fetched = true, .state = state};
    k->behind_since = (mono_t){0};
    if (restore_run(job, &opt, &res, &why) == 0)
        return WARM_READY;
    int rc = warm_judged(&w, WARM_BROKEN, &why, e);
    line_set(k->why, sizeof k->why, "%s", w.why);
    if (rc == WARM_BROKEN)
        snprintf(k->refused, sizeof k->refused, "%s", newest);
    return rc;
}

int warm_keep(struct warm_keeper *k, const struct job *job, const struct state *state,
              struct err *e)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    if (catalog_load(job->dirfd, job->cfg->name, &dumps, e) < 0)
        return -1;
    const struct catalog_entry *newest = catalog_newest(&dumps, 0);
    if (!newest) {
        k->ready = false;
        line_set(k->why, sizeof k->why, "this machine has no dump of the world yet");
        return 0;
    }
    int rc = warm_keep_look(k, job, &dumps, e);
    if (rc == WARM_GONE && strcmp(k->refused, newest->m.name) != 0 &&
        (rc = warm_keep_load(k, job, state, newest->m.name, e)) == WARM_READY)
        rc = warm_keep_look(k, job, &dumps, e);
    if (rc != WARM_READY)
        k->ready = false;
    if (rc < 0) {
        err_hint_in_text(e);
        line_set(k->why, sizeof k->why, "%s", e->text);
    }
    return rc < 0 ? -1 : 0;
}
