/* A promotion takes the copy: its tables become the world's. */
#include "restore/warm_int.h"

#include <string.h>

#include "base/fault.h"
#include "mysql/rows.h"
#include "restore/shadow_table.h"
#include "sql/literal.h"

/* A game that has made its tables here gets them as they are: the copy has to be like them. 1, 0, -1. */
static int same_definition(struct warm *w, struct db *db, const struct target *t, struct err *e)
{
    const char *world = w->job->cfg->schema;
    if (!t->live)
        return 1;
    SCOPED(xfree) char *there = db_create_table(db, world, t->name, e);
    SCOPED(xfree) char *here = there ? db_create_table(db, w->schema, t->name, e) : NULL;
    return !here ? -1
                 : shadow_definition_hash(there, strlen(there)) ==
                       shadow_definition_hash(here, strlen(here));
}

/* All or nothing: tables of the copy beside others that are loaded would be of two moments. */
static int fits(struct warm *w, struct db *db, const struct plan *plan, struct err *e)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct target *t = &plan->list[i];
        if (t->skip)
            continue;
        count++;
        int same = plan_find(&w->plan, t->name) && t->memory ? same_definition(w, db, t, e) : 0;
        if (same < 0)
            return -1;
        if (!same)
            return warm_finding(w, WARM_BROKEN, "table %s is not in the copy as it is needed",
                                t->name);
    }
    return count == w->plan.count
               ? WARM_READY
               : warm_finding(w, WARM_BROKEN, "the copy has tables that are not needed");
}

/* Limits, counters and numbers of rows are the copy's, which has changes that the dump has not. */
int warm_plan(struct warm *w, struct db *db, struct plan *plan, struct err *e)
{
    struct err why = {0};
    int rc = fits(w, db, plan, &why);
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

/* The proof goes first: whoever is killed after that leaves no copy. One RENAME: it is the whole world that moves, and the
 * swap after it goes as it does after a load. */
int warm_move(struct warm *w, struct db *db, struct plan *plan, struct err *e)
{
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
    if (db_exec_len(db, b.p, b.len, &why) < 0)
        return warm_judged(w, WARM_BROKEN, &why, e);
    for (size_t i = 0; i < plan->count; i++)
        plan->list[i].created = !plan->list[i].skip;
    fault_point("promote.moved");
    return WARM_READY;
}
