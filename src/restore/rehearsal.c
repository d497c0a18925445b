#include "restore/rehearsal.h"

#include <stdio.h>

#include "mysql/account.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "mysql/sentinel.h"
#include "restore/ledgers.h"
#include "restore/plan.h"
#include "restore/result.h"
#include "restore/running.h"
#include "restore/swap.h"
#include "sql/literal.h"

/* Returns whether the account may try more than the load. An account that was made for an older
 * version may only load a dump in the scratch schema. That says nothing about a restore, so the
 * drill passes with a warning that names what was not tried. */
static bool may_rehearse(struct restore *r)
{
    SCOPED(grants_free) struct grants g = {0};
    SCOPED(buf_free) struct buf missing = {0};
    unsigned unknown = 0;
    struct err e = {0};
    if (db_grants(r->db, &g, &unknown, &e) < 0 || unknown)
        return true;
    db_missing_privileges(&missing, &g, r->schema, DRILL_PRIVILEGES);
    if (!missing.len)
        return true;
    err_clear(&e);
    db_hint_grant(r->db, r->schema, missing.p, &e);
    result_warn(r->out,
                "the steps after the load were not tested: in schema %s the account lacks %s; %s",
                r->schema, missing.p, e.hint);
    return false;
}

/* Returns whether a restore would replace or create the table, as plan.c decides for the world's
 * own schema. */
static bool is_meant(const struct restore *r, const struct target *t)
{
    return !t->skip && t->created && (t->memory || r->job->cfg->restore_all);
}

static void shadow_name(char out[64], size_t n)
{
    snprintf(out, 64, PLAN_SHADOW "%06zu", n);
}

/* Gives the loaded tables the names of shadow tables, in the order of the rehearsal's plan. */
static int name_shadows(struct restore *r, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    size_t n = 0;
    for (size_t i = 0; i < r->plan.count; i++) {
        char shadow[64];
        if (!is_meant(r, &r->plan.list[i]))
            continue;
        shadow_name(shadow, n++);
        buf_adds(&b, b.len ? ", " : "RENAME TABLE ");
        sql_ident(&b, r->plan.list[i].name);
        buf_adds(&b, " TO ");
        sql_ident(&b, shadow);
    }
    return b.len ? db_exec_len(r->db, b.p, b.len, e) : 0;
}

/* A drill does not wait longer for a table that another session has locked. It then copies the
 * loaded table, which has the definition of the dump. */
#define LOCK_TRY_MS 5000

static int copy_one(struct restore *r, const char *name, const char *shadow, bool *busy,
                    struct err *e)
{
    int rc = *busy ? 0
                   : db_exec_with(r->db, "CREATE TABLE ?? LIKE ??.??",
                                  DB_ARGS(name, r->job->cfg->schema, name), e);
    *busy = *busy || (rc < 0 && db_lock_busy(e));
    if (*busy)
        rc = db_exec_with(r->db, "CREATE TABLE ?? LIKE ??", DB_ARGS(name, shadow), e);
    return rc < 0 ? err_step(e, "creating a table like %s", name) : 0;
}

/* Makes an empty copy of each living table, as a server restart leaves it, and of the sentinel. */
static int copy_living(struct restore *r, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables living = {0};
    const struct config *c = r->job->cfg;
    size_t n = 0;
    bool busy = false;
    if (db_lock_wait(r->db, LOCK_TRY_MS, e) < 0 ||
        db_tables(r->db, c->schema, true, &living, e) < 0)
        return -1;
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        char shadow[64];
        if (!is_meant(r, t))
            continue;
        shadow_name(shadow, n++);
        if (db_table_find(&living, t->name) && copy_one(r, t->name, shadow, &busy, e) < 0)
            return -1;
    }
    return db_lock_wait(r->db, c->restore_lock_wait, e) < 0
               ? -1
               : db_sentinel_create(r->db, r->schema, c->sentinel, false, "", e);
}

/* Makes the plan of a restore into this schema, as it would be after the load. */
static int plan_swap(struct restore *h, const struct plan *loaded, struct err *e)
{
    h->plan = (struct plan){0};
    if (restore_plan(h, e) < 0)
        return -1;
    for (size_t i = 0; i < loaded->count; i++) {
        const struct target *from = &loaded->list[i];
        if (!is_meant(h, from))
            continue;
        struct target *t = plan_add(&h->plan, from->name, from->memory ? "MEMORY" : "");
        t->created = true;
        t->auto_increment = from->auto_increment;
        t->heap = from->heap;
        t->rows = from->rows;
    }
    return plan_finish(&h->plan, h->db, e);
}

int rehearse(struct restore *r, struct err *e)
{
    struct restore_options own = *r->opt;
    struct restore h = *r;
    own.mode = RESTORE_REHEARSAL;
    h.opt = &own;
    if (!may_rehearse(r))
        return 0;
    progress_phase(r->job->progress, "rehearsing the swap", 0, 0);
    if (db_lease_take(r->db, r->schema, 0, e) < 0)
        return -1;
    int rc = name_shadows(r, e) < 0 || copy_living(r, e) < 0 ? -1 : 0;
    if (rc == 0) {
        rc = plan_swap(&h, &r->plan, e) < 0 || ledgers_loaded(&h, e) < 0 || swap_rehearse(&h, e) < 0
                 ? -1
                 : 0;
        plan_free(&h.plan);
        r->db = h.db; /* the connection is another one if an answer was lost */
    }
    return rc;
}
