#include "restore/plan.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/text.h"
#include "binlog/statement.h"
#include "mysql/galera.h"
#include "mysql/job.h"
#include "mysql/sentinel.h"
#include "mysql/world_tables.h"
#include "sql/literal.h"

int plan_begin(struct plan *p, struct db *db, struct err *e)
{
    p->shared = !p->into && galera_node(db)[0];
    p->any_case = db_variable_number(db, "lower_case_table_names") > 0;
    return db_tables(db, p->schema, true, &p->live, e);
}

static bool same_name(const struct plan *p, const char *a, const char *b)
{
    return strcmp(a, b) == 0 || (p->any_case && statement_same_name(a, b));
}

/* Returns the slot of the target with that name, or the free slot for it. Names that are equal to a
 * case-insensitive server get the same hash: folding maps ASCII to ASCII, and other letters to
 * letters of as many bytes. */
static size_t plan_slot_of(const struct plan *p, const char *name)
{
    SCOPED(buf_free) struct buf b = {0};
    for (const char *s = name; *s; s++)
        buf_addc(&b, !p->any_case ? *s : *s & 0x80 ? '\x80' : (char)tolower((unsigned char)*s));
    size_t i = (size_t)sql_tuple_hash(b.p ? b.p : "", b.len) & (p->room - 1);
    while (p->slots[i] && !same_name(p, p->list[p->slots[i] - 1].name, name))
        i = (i + 1) & (p->room - 1);
    return i;
}

/* Adds a target to the hash table, which is kept at most half full. */
static void note_name(struct plan *p, size_t target)
{
    if (2 * (target + 1) > p->room) {
        free(p->slots);
        p->room = p->room ? 2 * p->room : 64;
        p->slots = xcalloc(p->room, sizeof *p->slots);
        for (size_t i = 0; i < target; i++)
            p->slots[plan_slot_of(p, p->list[i].name)] = (uint32_t)i + 1;
    }
    p->slots[plan_slot_of(p, p->list[target].name)] = (uint32_t)target + 1;
}

/* Finds the table of the world. If the server ignores case, the world may spell the name
 * differently than the dump. */
static const struct db_table *find_live(const struct plan *p, const char *name)
{
    const struct db_table *same = db_table_find(&p->live, name);
    if (same || !p->any_case)
        return same;
    for (size_t i = 0; i < p->live.count; i++)
        if (same_name(p, p->live.list[i].name, name))
            return &p->live.list[i];
    return NULL;
}

static const char no_engine[] = "it does not exist, and the dump does not give its ENGINE";

/* Returns why a table of the dump is not restored, or NULL if it is. */
static const char *skip_reason(const struct plan *p, const struct target *t, const char *engine)
{
    const struct config *cfg = p->job->cfg;
    if (strcmp(t->name, cfg->sentinel) == 0)
        return "the sentinel is created again";
    if (db_sentinel_own(cfg->sentinel, t->name))
        return "the lease table is not part of the world";
    if (p->only && !names_has(p->only, t->name))
        return "not asked for (--table)";
    bool world = !p->into || p->copy;
    /* A carried table that survived is newer than any dump. */
    bool lost = t->carried && (!t->live || p->elsewhere);
    if (world && lost && !p->shared)
        return NULL;
    if (world && !t->memory && !cfg->restore_all && !t->live && !engine[0])
        return no_engine;
    if (world && !t->memory && !cfg->restore_all)
        return "of a durable engine, which a restart does not empty ([restore] scope = lost)";
    if (p->shared && !t->memory)
        return "of a durable engine: it belongs to the whole cluster and must not differ on one "
               "node";
    return NULL;
}

struct target *plan_add(struct plan *p, const char *name, const char *engine)
{
    /* `shadow` has the index in its name: pending.json lists the tables in this order. */
    p->list = xgrow(p->list, p->count, sizeof *p->list);
    struct target *t = &p->list[p->count];
    *t = (struct target){.name = xstrdup(name), .live = find_live(p, name)};
    snprintf(t->old, sizeof t->old, PLAN_OLD "%06zu", p->count);
    t->shadow = p->into ? t->name : xasprintf(PLAN_SHADOW "%06zu", p->count);
    bool was_memory = strcasecmp(engine, "MEMORY") == 0;
    t->memory = t->live && !(p->as_dumped && was_memory) ? t->live->memory : was_memory;
    t->carried = !t->memory && strcasecmp(t->live ? t->live->engine : engine, "InnoDB") == 0 &&
                 world_own(p->job->cfg, name);
    t->outlives = was_memory && t->live && !t->live->memory;
    t->why = skip_reason(p, t, engine);
    t->skip = t->why != NULL;
    note_name(p, p->count++);
    return t;
}

void plan_map(const struct plan *p, struct target *t, const char *columns)
{
    char hash[17];
    if (plan_defines(p, t))
        return;
    db_columns_hash(t->live, hash);
    t->mapped = strcmp(hash, columns) != 0;
}

int plan_from_manifest(struct plan *p, const struct manifest *m, struct err *e)
{
    for (size_t i = 0; i < m->table_count; i++) {
        const struct manifest_table *mt = &m->tables[i];
        const struct target *other = plan_find(p, mt->name);
        if (other && strcmp(other->name, mt->name) != 0) {
            p->unfit = true;
            return err_set(e, ERR_REFUSED, 0,
                           "tables %s and %s of dump %s have the same name on this server "
                           "(lower_case_table_names)",
                           other->name, mt->name, m->name);
        }
        if (other)
            return err_set(e, ERR_DAMAGED, 0, "table %s is twice in dump %s", mt->name, m->name);
        struct target *t = plan_add(p, mt->name, mt->engine);
        t->expected = mt->rows;
        t->auto_increment = mt->auto_increment;
        t->heap_need = number_product(2, number_sum(mt->data_length, mt->index_length));
        t->max_data_length = mt->max_data_length;
        plan_map(p, t, mt->columns_hash);
        if (!t->skip)
            p->rows = number_sum(p->rows, mt->rows);
    }
    return 0;
}

bool plan_defines(const struct plan *p, const struct target *t)
{
    return !t->live || !t->live->memory || p->into || t->as_dumped || (p->as_dumped && t->memory);
}

void target_add_column(struct target *t, const char *name)
{
    t->columns = xgrow(t->columns, t->column_count, sizeof *t->columns);
    t->columns[t->column_count++] = xstrdup(name);
}

bool plan_changed(const struct plan *p, const struct target *t)
{
    return !p->into && t->live && t->definition && t->planned && t->definition != t->planned;
}

void plan_leave_out(struct plan *p, struct target *t, const char *why)
{
    t->skip = true;
    t->why = why;
    p->rows -= t->expected < p->rows ? t->expected
                                     : p->rows; /* the sum may be saturated at the largest number */
}

bool plan_wants_any(const struct plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (!p->list[i].skip)
            return true;
    return false;
}

/* Returns whether the dump is of a world that had no tables yet. Such a dump is complete with its
 * sentinel. */
static bool of_no_tables(const struct plan *p)
{
    size_t ours = 0;
    for (size_t i = 0; i < p->count; i++)
        ours += db_sentinel_own(p->job->cfg->sentinel, p->list[i].name);
    return p->count > 0 && ours == p->count;
}

/* Returns whether MEMORY tables of the dump have a durable engine now. They kept their rows. If no
 * table is to be restored, only the sentinel was lost. */
static bool all_outlive(const struct plan *p)
{
    bool any = false;
    for (size_t i = 0; i < p->count && !p->into && !p->only; i++)
        any |= p->list[i].outlives;
    return any;
}

bool plan_unfit(const struct plan *p)
{
    bool unfit = p->unfit;
    for (size_t i = 0; i < p->count && !unfit; i++)
        unfit = p->list[i].unfit;
    return unfit;
}

/* Fails if the server cannot open a table (a broken definition) that is in the way of a restored
 * one. It can no longer be determined which rows that table had. */
static int refuse_closed(struct db *db, const struct plan *p, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables closed = {0};
    if (db_closed_tables(db, p->schema, &closed, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < closed.count && rc == 0; i++) {
        const struct target *t = plan_find(p, closed.list[i].name);
        if (!t || t->skip)
            continue;
        SCOPED(buf_free) struct buf drop = {0};
        buf_adds(&drop, "DROP TABLE ");
        sql_ident2(&drop, p->schema, t->name);
        rc =
            err_set(e, ERR_REFUSED, 0,
                    "the server cannot open table %s of schema %s, which the restore would replace",
                    t->name, p->schema);
        err_hint(e, "if it was a MEMORY table, its rows are lost: %s;", drop.p);
    }
    return rc;
}

/* Refuses a dump without a table to restore. A file without engines would create tables of the
 * server's default engine, not MEMORY tables. */
static int refuse_empty(const struct plan *p, struct err *e)
{
    const struct target *unknown = NULL;
    for (size_t i = 0; i < p->count && !unknown; i++)
        if (p->list[i].why == no_engine)
            unknown = &p->list[i];
    err_set(e, ERR_REFUSED, 0, "the dump has no table that this restore would replace%s%s%s%s",
            unknown ? "; table " : "", unknown ? unknown->name : "", unknown ? ": " : "",
            unknown ? unknown->why : "");
    return err_hint(e, unknown
                           ? "create its MEMORY tables first; the rows are loaded into them"
                           : "set [restore] scope = all to restore tables of durable engines too");
}

int plan_finish(struct plan *p, struct db *db, struct err *e)
{
    if (!plan_wants_any(p) && !of_no_tables(p) && !all_outlive(p)) {
        p->unfit = true;
        return refuse_empty(p, e);
    }
    if (refuse_closed(db, p, e) < 0)
        return -1;
    for (size_t i = 0; i < p->live.count; i++) {
        const struct db_table *t = &p->live.list[i];
        if (!t->memory || p->only || plan_find(p, t->name) ||
            strcmp(t->name, p->job->cfg->sentinel) == 0)
            continue;
        names_add(&p->not_in_dump, t->name);
    }
    if (p->into) {
        assert(p->list); /* one of its tables is wanted */
        for (size_t i = 0; i < p->count; i++)
            if (p->list[i].live) {
                err_set(e, ERR_REFUSED, 0, "schema %s already has a table %s", p->schema,
                        p->list[i].name);
                return err_hint(e, "name an empty or new schema with --into");
            }
        return 0;
    }
    SCOPED(db_triggers_free) struct db_triggers triggers = {0};
    if (db_triggers(db, p->schema, &triggers, e) < 0)
        return -1;
    for (size_t i = 0; i < triggers.count; i++) {
        struct target *t = plan_find(p, triggers.list[i].table);
        if (t && !t->skip)
            t->triggers = true;
    }
    return 0;
}

struct target *plan_find(const struct plan *p, const char *name)
{
    uint32_t i = p->room ? p->slots[plan_slot_of(p, name)] : 0;
    return i ? &p->list[i - 1] : NULL;
}

void plan_drop(struct plan *p, struct db *db)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct target *t = &p->list[i];
        progress_at(p->job->progress, 0, 0);
        if (t->created)
            db_exec_with(db, "DROP TABLE IF EXISTS ??", DB_ARGS(t->shadow), NULL);
    }
}

void plan_forget_columns(struct target *t)
{
    for (size_t i = 0; i < t->column_count; i++)
        free(t->columns[i]);
    free(t->columns);
    t->columns = NULL;
    t->column_count = 0;
}

void plan_clear(struct plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        plan_forget_columns(&p->list[i]);
        free(p->list[i].create);
        free(p->list[i].checks);
        free(p->list[i].generated);
        free(p->list[i].misfit);
        free(p->list[i].now);
        names_free(&p->list[i].enforced);
        names_free(&p->list[i].enforced_named);
        names_free(&p->list[i].unenforced);
        if (!p->into)
            free(p->list[i].shadow);
        free(p->list[i].name);
    }
    free(p->list);
    free(p->slots);
    p->list = NULL;
    p->slots = NULL;
    p->room = 0;
    p->count = 0;
    p->rows = 0;
}

void plan_free(struct plan *p)
{
    plan_clear(p);
    db_tables_free(&p->live);
    db_tables_free(&p->own);
    names_free(&p->not_in_dump);
    *p = (struct plan){0};
}
