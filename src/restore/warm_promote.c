/* Promotes the copy: its tables become the world's tables. */
#include "restore/warm_promote.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/line.h"
#include "mysql/job.h"
#include "restore/catchup.h"
#include "restore/code.h"
#include "restore/code_make.h"
#include "restore/constraints.h"
#include "restore/ledgers.h"
#include "restore/load.h"
#include "restore/plan.h"
#include "restore/running.h"
#include "restore/warm_catch_up.h"
#include "restore/warm_int.h"
#include "sql/literal.h"

/* Returns 1 if the copy's table has the definition of the table here, 0 if not, -1 on error. A game
 * that has made its tables here gets them as they are. */
static int same_definition(struct warm *w, struct restore *r, const struct target *t, struct err *e)
{
    if (!t->live)
        return 1;
    SCOPED(xfree) char *there = db_create_table(r->db, r->schema, t->name, e);
    SCOPED(xfree) char *here = there ? db_create_table(r->db, w->schema, t->name, e) : NULL;
    return !here ? -1
                 : shadow_definition_hash(there, strlen(there)) ==
                       shadow_definition_hash(here, strlen(here));
}

/* Checks that the copy has all tables that are needed, and no others. Tables of the copy beside
 * loaded ones would be of two moments. */
static int warm_promote_fits(struct warm *w, struct restore *r, struct err *e)
{
    const struct plan *plan = &r->plan;
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct target *t = &plan->list[i];
        if (t->skip)
            continue;
        count++;
        int same = plan_find(&w->plan, t->name) && (t->memory || t->carried)
                       ? same_definition(w, r, t, e)
                       : 0;
        if (same < 0)
            return -1;
        if (!same)
            return warm_finding(w, WARM_BROKEN, "table %s in the copy has the wrong definition",
                                t->name);
    }
    return count == w->plan.count
               ? WARM_READY
               : warm_finding(w, WARM_BROKEN, "the copy has tables that are not needed");
}

/* Takes limits, counters and numbers of rows from the copy, which has changes that the dump does
 * not have. */
static int take_figures(struct warm *w, struct restore *r, struct err *e)
{
    struct plan *plan = &r->plan;
    struct err why = {0};
    int rc = warm_promote_fits(w, r, &why);
    if (rc < 0)
        return warm_judged(w, WARM_BROKEN, &why, e);
    for (size_t i = 0; i < plan->count && rc == WARM_READY; i++) {
        struct target *t = &plan->list[i];
        const struct target *own = t->skip ? NULL : plan_find(&w->plan, t->name);
        if (!own)
            continue;
        t->rows = own->rows;
        t->heap = own->heap;
        t->auto_increment = own->auto_increment;
    }
    return rc;
}

/* Moves the copy's tables into the world's schema, as shadow tables. The mark is dropped first: a
 * process that is killed after that leaves no copy. One RENAME moves the whole world, and the swap
 * after it is the same as after a load. */
static int warm_promote_move(struct warm *w, struct restore *r, struct err *e)
{
    struct plan *plan = &r->plan;
    SCOPED(buf_free) struct buf b = {0};
    struct err why = {0};
    for (size_t i = 0; i < plan->count; i++) {
        const struct target *t = &plan->list[i];
        if (t->skip)
            continue;
        buf_adds(&b, b.len ? ", " : "RENAME TABLE ");
        sql_ident2(&b, w->schema, t->name);
        buf_adds(&b, " TO ");
        sql_ident(&b, t->shadow);
    }
    if (db_exec(w->db, "DROP TABLE " WARM_MARK, &why) < 0)
        return warm_judged(w, WARM_BROKEN, &why, e);
    fault_point("promote.caught_up");
    if (db_exec_len(r->db, b.p, b.len, &why) < 0)
        return warm_judged(w, WARM_BROKEN, &why, e);
    for (size_t i = 0; i < plan->count; i++)
        plan->list[i].created = !plan->list[i].skip;
    fault_point("promote.moved");
    return WARM_READY;
}

/* Notes the CHECKs that the dump has enforced and the copy has not. */
static int note_unenforced(struct warm *w, struct restore *r, struct verify_file *file,
                           struct err *e)
{
    for (size_t i = 0; i < r->m->table_count && !db_is_mariadb(r->db); i++) {
        struct target *t = plan_find(&r->plan, r->m->tables[i].name);
        SCOPED(buf_free) struct buf was = {0};
        SCOPED(xfree) char *now = NULL;
        if (!t || t->skip || !plan_find(&w->plan, t->name))
            continue;
        if (verify_definition(file, i, &was, e) < 0 ||
            !(now = db_create_table(r->db, w->schema, t->name, e)))
            return -1;
        if (was.len)
            constraints_unenforced(now, was.p, &t->unenforced);
    }
    return 0;
}

/* Plans the restore of the newest dump, whose tables the copy has. */
static int plan_copy(struct warm *w, struct restore *r, struct err *e)
{
    r->m = &catalog_newest(&r->catalog, 0)->m;
    snprintf(r->out->dump, sizeof r->out->dump, "%s", r->m->name);
    r->out->dump_at = r->m->at;
    if (restore_plan(r, e) < 0 || plan_from_manifest(&r->plan, r->m, e) < 0 ||
        plan_finish(&r->plan, r->db, e) < 0 || code_judge(r, e) < 0)
        return -1;
    /* Views and triggers are only in the dump. */
    SCOPED(xfree) char *name = xasprintf("%s.sql.gz", r->m->name);
    struct verify_file *file = verify_open(r->job->dirfd, name, r->m, r->job->progress, e);
    int rc = file ? verify_rest(file, code_see, &r->code, e) : -1;
    if (rc == 0)
        rc = note_unenforced(w, r, file, e);
    verify_close(file);
    if (rc < 0)
        return -1;
    rc = take_figures(w, r, e);
    return rc == WARM_READY && ledgers_plan(r, e) < 0 ? -1 : rc;
}

/* Checks rows and counters of the moved tables. */
static int check_moved(struct restore *r, struct err *e)
{
    _Atomic uint64_t rows = 0;
    struct loader l = {.s = {.db = r->db, .plan = &r->plan}, .rows = &rows};
    int rc = 0;
    for (size_t i = 0; i < r->plan.count && rc == 0; i++) {
        const struct target *t = &r->plan.list[i];
        /* Setting a counter copies the table, with the size limit of this session. */
        if (t->created && t->heap)
            rc = db_execf(r->db, e, "SET SESSION max_heap_table_size=%" PRIu64, t->heap);
        if (rc == 0)
            rc = loader_check(&l, t, false, e);
        progress_at(r->job->progress, 0, 0);
    }
    return rc;
}

/* Uses the copy. Returns enum warm_found, or -1 on error. The rows of the copy are in no log, so
 * the swap is not logged either. */
static int warm_promote_use(struct warm *w, struct restore *r, struct err *e)
{
    struct err ignored;
    int rc = warm_open(w, r->job, e);
    w->last = true;
    if (rc == WARM_READY)
        rc = warm_catch_up(w, &r->catalog, &r->journal, e);
    if (rc == WARM_READY)
        rc = plan_copy(w, r, e);
    if (rc != WARM_READY)
        return rc;
    if (r->binlog && r->out->replicas != 0)
        return warm_finding(
            w, WARM_BROKEN,
            "replicas %s: they would get the rows of a normal load, but not those of the copy",
            r->out->replicas > 0 ? "are connected" : "may be connected");
    if (r->binlog && db_exec(r->db, "SET SESSION sql_log_bin=0", &ignored) == 0)
        r->binlog = false;
    rc = warm_promote_move(w, r, e);
    if (rc == WARM_READY && check_moved(r, e) < 0)
        return -1;
    if (r->journal.delta)
        catchup_figures(r);
    return rc;
}

bool warm_take(struct restore *r)
{
    bool binlog = r->binlog;
    struct warm w = {0};
    struct err why = {0};
    progress_phase(r->job->progress, "catching up", 0, 0);
    int rc = warm_promote_use(&w, r, &why);
    warm_close(&w);
    r->out->warm = rc == WARM_READY;
    if (!r->out->warm) {
        line_set(r->out->cold, sizeof r->out->cold, "%s", rc < 0 ? why.text : w.why);
        job_note(r->job, "the loaded copy is not used: %s", r->out->cold);
        plan_drop(&r->plan, r->db);
        replay_free(&r->journal);
        code_free(&r->code);
        if (binlog && !r->binlog && db_exec(r->db, "SET SESSION sql_log_bin=1", &why) == 0)
            r->binlog = true;
    }
    /* The copy's memory is needed. If it cannot be dropped now, restore_tidy() drops it. */
    if (warm_drop(r->job, &why) < 0)
        job_note(r->job, "%s", why.text);
    return r->out->warm;
}
