/* Restores tables that were created after the dump, from their creation on. */
#include "restore/fresh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "journal/delta_base.h"
#include "journal/replay_tables.h"
#include "restore/load.h"
#include "restore/plan.h"
#include "restore/redefined.h"
#include "restore/result.h"
#include "restore/running.h"
#include "restore/shadow_table.h"

static void not_loaded(struct restore *r, struct target *t, const struct err *why)
{
    struct restore_result *out = r->out;
    const struct replay_table *made = NULL;
    for (size_t i = 0; i < r->journal.table_count && !made; i++)
        if (strcmp(r->journal.tables[i].name, t->name) == 0)
            made = &r->journal.tables[i];
    db_exec_with(r->db, "DROP TABLE IF EXISTS ??", DB_ARGS(t->shadow), NULL);
    t->created = false;
    plan_leave_out(&r->plan, t, "in no dump yet, and its rows cannot be loaded");
    out->journal.whole = false;
    if (made && (!out->journal.gap[0] || made->at.ms < out->journal.gap_at.ms))
        out->journal.gap_at = made->at;
    out->journal.part |= !out->journal.gap[0];
    if (!out->journal.gap[0])
        line_set(out->journal.gap, sizeof out->journal.gap,
                 "table %s, which is in no dump yet, is restored without its rows: %s", t->name,
                 why->text);
    result_warn(r->out, "table %s, which is in no dump yet, is restored without its rows: %s",
                t->name, why->text);
}

/* ---- its definition ---- */

/* Returns whether the changes have the columns of this definition. */
static bool fresh_defines(const struct restore *r, const struct replay_table *t, const char *create)
{
    struct db_table parsed;
    char hash[17];
    if (!create || db_create_table_read(create, strlen(create), db_is_mariadb(r->db), &parsed) < 0)
        return false;
    db_columns_hash(&parsed, hash);
    db_table_free(&parsed);
    return !t->changes || strcmp(hash, t->columns) == 0;
}

/* Uses the definition in the journal, which the changes follow. If it is not known, uses the one on
 * this server if the changes fit it. The table here may have been created in another way, for
 * example with other character sets. */
static int restore_fresh_define(struct restore *r, const char *schema, bool here,
                                struct replay_table *t, struct err *e)
{
    if (fresh_defines(r, t, t->create))
        return 0;
    SCOPED(xfree) char *now = here ? db_create_table(r->db, schema, t->name, e) : NULL;
    if (here && !now && e->num != DB_NO_TABLE)
        return -1;
    if (fresh_defines(r, t, now)) {
        free(t->create);
        t->create = now;
        now = NULL;
    } else {
        replay_give_up(&r->journal, t, "its definition is unknown or does not match its rows");
    }
    return 0;
}

int fresh_define(struct restore *r, const char *schema, const struct db_tables *now, struct err *e)
{
    SCOPED(names_free) struct names taken = {0};
    if (r->journal.table_count && redefined_names(r->db, r->schema, &taken, e) < 0)
        return -1;
    for (size_t i = 0; i < r->journal.table_count; i++) {
        struct replay_table *t = &r->journal.tables[i];
        const struct db_table *here = db_table_find(now, t->name);
        if (!t->fresh || t->closed)
            continue;
        if (names_has(&taken, t->name))
            replay_give_up(&r->journal, t, "an object that is not a table has its name");
        else if (restore_fresh_define(r, schema, here != NULL, t, e) < 0)
            return err_step(e, "table %s", t->name);
    }
    return 0;
}

/* ---- its place in the plan ---- */

static void names_remove(struct names *n, const char *name)
{
    for (size_t i = n->count; i-- > 0;)
        if (strcmp(n->list[i], name) == 0) {
            free(n->list[i]);
            memmove(&n->list[i], &n->list[i + 1], (--n->count - i) * sizeof *n->list);
        }
}

static int find_triggers(struct restore *r, struct err *e)
{
    SCOPED(db_triggers_free) struct db_triggers triggers = {0};
    if (db_triggers(r->db, r->schema, &triggers, e) < 0)
        return -1;
    for (size_t i = 0; i < triggers.count; i++) {
        struct target *t = plan_find(&r->plan, triggers.list[i].table);
        if (t && t->fresh && !t->skip)
            t->triggers = true;
    }
    return 0;
}

int fresh_plan(struct restore *r, struct err *e)
{
    size_t added = 0;
    for (size_t i = 0; i < r->journal.table_count; i++) {
        const struct replay_table *made = &r->journal.tables[i];
        if (!made->fresh || made->closed || plan_find(&r->plan, made->name))
            continue;
        struct target *t = plan_add(&r->plan, made->name, "MEMORY");
        t->fresh = true;
        t->create = xstrdup(made->create);
        if (made->changes)
            plan_map(&r->plan, t, made->columns);
        if (redefined_note_table(r, t, e) < 0)
            return -1;
        names_remove(&r->plan.not_in_dump, t->name);
        added++;
    }
    return added && restore_is(r)->world ? find_triggers(r, e) : 0;
}

/* ---- its rows ---- */

static int all_rows(void *changes, size_t block, delta_rows_fn *give, void *to, struct err *e)
{
    return delta_finish(changes, false, block, give, to, e);
}

struct fresh_table {
    const struct restore *r;
    struct loader *l;
    struct target *t;
};

static int restore_fresh_load(void *arg, struct err *e)
{
    const struct fresh_table *f = arg;
    struct loader *l = f->l;
    struct target *t = f->t;
    struct delta_table *changes = delta_find(f->r->journal.delta, t->name);
    if (loader_own_table(l, t->name, t->create, strlen(t->create), e) < 0 ||
        (changes && loader_rows(l, t, all_rows, changes, e) < 0) ||
        shadow_scale_on(&l->s, t, &l->scale, e) < 0)
        return -1;
    return loader_check(l, t, restore_is(f->r)->compares, e);
}

int fresh_load(struct restore *r, struct err *e)
{
    _Atomic uint64_t rows = 0;
    struct loader l = {.s = {.db = r->db, .plan = &r->plan}, .rows = &rows};
    bool any = false;
    for (size_t i = 0; i < r->plan.count && !any; i++)
        any = r->plan.list[i].fresh && !r->plan.list[i].skip;
    if (!any)
        return 0;
    int rc = loader_begin(&l, e);
    for (size_t i = 0; i < r->plan.count && rc == 0; i++) {
        struct target *t = &r->plan.list[i];
        if (!t->fresh || t->skip)
            continue;
        struct fresh_table f = {r, &l, t};
        rc = redefined_load(&l, t, "MEMORY", restore_fresh_load, &f, e);
        if (rc == 0 || db_unanswered(e) || e->cls == ERR_ABORTED)
            continue;
        not_loaded(r, t, e);
        err_clear(e);
        rc = 0;
    }
    loader_end(&l);
    return rc;
}
