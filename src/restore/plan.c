#include "restore/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"
#include "db/sql.h"

int plan_begin(struct db *db, const char *schema, bool into, struct plan *out, struct err *e)
{
    *out = (struct plan){.into = into};
    return db_tables(db, schema, true, &out->live, e);
}

static const char no_engine[] = "it is not there, and the dump does not say of which ENGINE it was";

static const char *skip_reason(const struct plan *p, const struct job *job, const struct target *t,
                               const char *engine)
{
    size_t len = strlen(job->cfg->sentinel);
    if (strcmp(t->name, job->cfg->sentinel) == 0)
        return "the sentinel is made anew";
    if (strncmp(t->name, job->cfg->sentinel, len) == 0 && strcmp(t->name + len, "_lease") == 0)
        return "the lease is not part of the world";
    if (!p->into && !t->memory && !job->cfg->restore_all && !t->live && !engine[0])
        return no_engine;
    if (!p->into && !t->memory && !job->cfg->restore_all)
        return "of a durable engine, which a restart does not empty ([restore] scope = lost)";
    return NULL;
}

struct target *plan_add(struct plan *p, const struct job *job, const char *name, const char *engine)
{
    p->list = xrealloc(p->list, (p->count + 1) * sizeof *p->list);
    struct target *t = &p->list[p->count];
    *t = (struct target){.name = xstrdup(name), .live = db_table_find(&p->live, name)};
    if (!p->into)
        snprintf(t->shadow, sizeof t->shadow, DB_OWN_PREFIX "new_%06zu", p->count);
    t->memory = t->live ? t->live->memory : strcasecmp(engine, "MEMORY") == 0;
    t->why = skip_reason(p, job, t, engine);
    t->skip = t->why != NULL;
    p->count++;
    return t;
}

int plan_from_manifest(struct plan *p, const struct job *job, const struct manifest *m,
                       struct err *e)
{
    for (size_t i = 0; i < m->table_count; i++) {
        const struct manifest_table *mt = &m->tables[i];
        if (plan_find(p, mt->name))
            return err_set(e, ERR_DAMAGED, 0, "table %s is twice in dump %s", mt->name, m->name);
        struct target *t = plan_add(p, job, mt->name, mt->engine);
        char hash[17];
        t->expected = mt->rows;
        t->auto_increment = mt->auto_increment;
        t->heap_need = 2 * (mt->data_length + mt->index_length);
        t->max_data_length = mt->max_data_length;
        if (t->live) {
            db_columns_hash(t->live, hash);
            t->mapped = strcmp(hash, mt->columns_hash) != 0;
        }
        if (!t->skip)
            p->rows += mt->rows;
    }
    return 0;
}

static int mark_triggers(struct db *db, struct plan *p, const char *schema, struct err *e)
{
    struct db_triggers triggers;
    if (db_triggers(db, schema, &triggers, e) < 0)
        return -1;
    for (size_t i = 0; i < triggers.count; i++) {
        struct target *t = plan_find(p, triggers.list[i].table);
        if (t && !t->skip)
            t->triggers = true;
    }
    db_triggers_free(&triggers);
    return 0;
}

bool plan_defines(const struct plan *p, const struct target *t)
{
    return !t->live || !t->live->memory || p->into;
}

void plan_leave_out(struct plan *p, struct target *t, const char *why)
{
    t->skip = true;
    t->why = why;
    p->rows -= t->expected;
}

bool plan_wants_any(const struct plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (!p->list[i].skip)
            return true;
    return false;
}

/* Half a definition stands where a table is to come; what rows it had, nobody can tell any more. */
static int refuse_closed(struct db *db, const struct plan *p, const char *schema, struct err *e)
{
    struct db_tables closed;
    if (db_closed_tables(db, schema, &closed, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < closed.count && rc == 0; i++) {
        const struct target *t = plan_find(p, closed.list[i].name);
        if (!t || t->skip)
            continue;
        struct buf drop = {0};
        buf_adds(&drop, "DROP TABLE ");
        sql_ident2(&drop, schema, t->name);
        rc = err_set(e, ERR_REFUSED, 0,
                     "the server cannot open table %s of schema %s, in whose place the restore "
                     "would put its own",
                     t->name, schema);
        err_hint(e, "if it was a MEMORY table its rows are gone with it: %s;", drop.p);
        buf_free(&drop);
    }
    db_tables_free(&closed);
    return rc;
}

/* A file without engines makes tables of the server's default one: not what was lost. */
static int refuse_empty(const struct plan *p, struct err *e)
{
    const struct target *unknown = NULL;
    for (size_t i = 0; i < p->count && !unknown; i++)
        if (p->list[i].why == no_engine)
            unknown = &p->list[i];
    err_set(e, ERR_REFUSED, 0, "the dump holds no table that this restore would replace%s%s%s%s",
            unknown ? "; table " : "", unknown ? unknown->name : "", unknown ? ": " : "",
            unknown ? unknown->why : "");
    err_hint(e, unknown ? "make its MEMORY tables first: its rows go into those"
                        : "[restore] scope = all restores tables of durable engines too");
    return -1;
}

int plan_finish(struct db *db, struct plan *p, const struct job *job, const char *schema,
                struct err *e)
{
    if (!plan_wants_any(p)) {
        return refuse_empty(p, e);
    }
    if (refuse_closed(db, p, schema, e) < 0)
        return -1;
    for (size_t i = 0; i < p->live.count; i++) {
        const struct db_table *t = &p->live.list[i];
        if (!t->memory || plan_find(p, t->name) || strcmp(t->name, job->cfg->sentinel) == 0)
            continue;
        struct db_names *n = &p->not_in_dump;
        n->list = xrealloc(n->list, (n->count + 1) * sizeof *n->list);
        n->list[n->count++] = xstrdup(t->name);
    }
    if (p->into) {
        for (size_t i = 0; i < p->count; i++)
            if (p->list[i].live) {
                err_set(e, ERR_REFUSED, 0, "schema %s has a table %s already", schema,
                        p->list[i].name);
                err_hint(e, "name an empty or new schema with --into");
                return -1;
            }
        return 0;
    }
    return mark_triggers(db, p, schema, e);
}

struct target *plan_find(const struct plan *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->list[i].name, name) == 0)
            return &p->list[i];
    return NULL;
}

void plan_clear(struct plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        for (size_t c = 0; c < p->list[i].column_count; c++)
            free(p->list[i].columns[c]);
        free(p->list[i].columns);
        free(p->list[i].create);
        free(p->list[i].checks);
        free(p->list[i].generated);
        free(p->list[i].name);
    }
    free(p->list);
    p->list = NULL;
    p->count = 0;
    p->rows = 0;
}

void plan_free(struct plan *p)
{
    plan_clear(p);
    db_tables_free(&p->live);
    db_names_free(&p->not_in_dump);
    *p = (struct plan){0};
}
