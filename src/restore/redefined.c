#include "restore/redefined.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/js.h"
#include "journal/delta.h"
#include "journal/delta_base.h"
#include "mysql/job.h"
#include "restore/checks.h"
#include "restore/load.h"
#include "restore/plan.h"
#include "restore/restore.h"
#include "restore/result.h"
#include "restore/running.h"
#include "restore/shadow_table.h"

#define KEPT_PREFIX "worldkeeper_kept_" /* not DB_OWN_PREFIX, so that it is never dropped */
#define NAMED 3                         /* tables in the warning */

/* ---- what takes the place of a table ---- */

int redefined_names(struct db *db, const char *schema, struct names *out, struct err *e)
{
    return db_names_select(db,
                           "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA=? "
                           "AND TABLE_TYPE NOT IN ('BASE TABLE','SYSTEM VERSIONED')",
                           DB_ARGS(schema), out, e);
}

static int note_in_way(struct restore *r, struct err *e)
{
    SCOPED(names_free) struct names taken = {0};
    if (redefined_names(r->db, r->schema, &taken, e) < 0)
        return -1;
    for (size_t i = 0; i < taken.count; i++) {
        struct target *t = plan_find(&r->plan, taken.list[i]);
        if (!t || t->skip || t->live)
            continue;
        if (restore_is(r)->world) {
            t->in_way = true;
            continue;
        }
        err_set(e, ERR_REFUSED, 0, "schema %s already has a view or a sequence %s", r->schema,
                taken.list[i]);
        return err_hint(e, "name an empty or new schema with --into");
    }
    return 0;
}

int redefined_note_table(struct restore *r, struct target *t, struct err *e)
{
    if (t->skip || !t->live || !restore_is(r)->swaps)
        return 0;
    t->now = db_create_table(r->db, r->schema, t->name, e);
    if (!t->now)
        return -1;
    t->planned = shadow_definition_hash(t->now, strlen(t->now));
    return 0;
}

int redefined_note(struct restore *r, struct err *e)
{
    for (size_t i = 0; i < r->plan.count; i++) {
        progress_at(r->job->progress, 0, 0);
        if (redefined_note_table(r, &r->plan.list[i], e) < 0)
            return -1;
    }
    return note_in_way(r, e);
}

/* ---- loading a table again ---- */

/* Prepares the table to be loaded again. */
static int load_again(struct loader *l, struct target *t, struct err *e)
{
    struct delta_table *changes = l->delta ? delta_find(l->delta, t->name) : NULL;
    if (db_exec_with(l->s.db, "DROP TABLE IF EXISTS ??", DB_ARGS(t->shadow), e) < 0)
        return err_step(e, "table %s", t->name);
    if (changes)
        delta_base_again(changes);
    *l->rows -= t->rows;
    t->rows = t->hash = t->warnings = 0;
    t->created = t->refused = t->unfit = false;
    plan_forget_columns(t);
    return 0;
}

/* Loads a table by `load`, and again without its CHECKs if one of them may have refused a row. A
 * CHECK that is newer than the dump is not switched off, because the dump's rows were never
 * checked. */
static int load_checked(struct loader *l, struct target *t, redefined_load_fn *load, void *arg,
                        struct err *e)
{
    int rc = load(arg, e);
    if (rc == 0 || !t || t->rechecked || !checks_refused(l->s.db, e))
        return rc;
    if (load_again(l, t, e) < 0)
        return -1;
    t->unchecked = true;
    return load(arg, e) < 0 ? -1 : checks_on(&l->s, t, e);
}

/* ---- does the dump's definition help? ---- */

/* Returns whether a table whose load failed with `e` may be loaded with the dump's definition. */
static bool redefined_helps(const struct plan *p, const struct target *t, const struct err *e)
{
    return !t->skip && plan_changed(p, t) && !plan_defines(p, t) && !db_lock_busy(e) &&
           (e->cls == ERR_REFUSED || e->cls == ERR_QUERY);
}

/* Prepares the table to be loaded again with the dump's definition. `why`: the failure. */
static int redefined_begin(struct loader *l, struct target *t, const char *engine,
                           const struct err *why, struct err *e)
{
    if (load_again(l, t, e) < 0)
        return -1;
    t->mapped = t->unchecked = false;
    t->misfit = xstrdup(why->text);
    t->as_dumped = true;
    t->memory = strcasecmp(engine, "MEMORY") == 0;
    return 0;
}

int redefined_load(struct loader *l, struct target *t, const char *engine, redefined_load_fn *load,
                   void *arg, struct err *e)
{
    int rc = load_checked(l, t, load, arg, e);
    if (rc == 0 || !t || !redefined_helps(l->s.plan, t, e))
        return rc;
    struct err why = *e;
    if (redefined_begin(l, t, engine, &why, e) < 0)
        return -1;
    rc = load_checked(l, t, load, arg, e);
    /* If this server does not accept that definition, the first error and its hint apply. */
    return rc < 0 && t->unfit ? err_pass(e, &why) : rc;
}

bool redefined(const struct plan *p, const struct target *t)
{
    return !t->skip && t->created && plan_changed(p, t) && plan_defines(p, t);
}

/* Returns whether the table is back although it was dropped or renamed since the dump. This is
 * reported only for a lost world: not if an operator asks for the table, and not on another
 * machine, where it may never have existed. */
static bool came_back(const struct restore *r, const struct target *t)
{
    const struct plan *p = &r->plan;
    bool others = false;
    for (size_t i = 0; i < p->count && !others; i++)
        others = !p->list[i].skip && p->list[i].live;
    return !t->skip && t->created && !t->live && !t->in_way && others && !p->into &&
           !r->opt->fetched && !r->out->over_living && restore_to_now(r->opt);
}

static const char *what_was(const struct restore *r, const struct target *t)
{
    return redefined(&r->plan, t)                ? "definition"
           : !t->skip && t->created && t->in_way ? "view"
           : came_back(r, t)                     ? "nothing"
                                                 : NULL;
}

/* ---- what is kept ---- */

void redefined_without(struct restore *r, const struct db_trigger *t, const struct err *why)
{
    struct buf *b = &r->lost_triggers;
    /* a name may contain line ends, which end a comment */
    buf_adds(b, "\n-- trigger ");
    text_clean(b, t->name, 256);
    buf_adds(b, " of table ");
    text_clean(b, t->table, 256);
    buf_adds(b, ", to which it no longer fits: ");
    text_clean(b, why->text, 500);
    buf_addc(b, '\n');
    db_trigger_sql(b, t, t->table);
    buf_adds(b, ";\n");
    names_add(&r->lost_trigger_names, t->name);
}

/* Appends the journal's statements on this table. */
static void add_statements(const struct restore *r, const struct target *t, struct buf *b)
{
    const struct replay *j = &r->journal;
    char at[TEXT_SHORT];
    for (size_t i = 0; i < j->statement_count; i++)
        if (strcmp(j->statements[i].table, t->name) == 0)
            buf_printf(b, "-- %s\n%s;\n", text_utc(j->statements[i].at, at), j->statements[i].sql);
}

static void redefined_describe(const struct restore *r, const struct target *t, const char *was,
                               struct buf *b)
{
    bool view = strcmp(was, "view") == 0;
    SCOPED(buf_free) struct buf name = {0};
    text_clean(&name, t->name, 256);
    buf_printf(b, "\n-- table %s ", name.p);
    if (view)
        buf_printf(b, "replaced a view (or sequence), which is now called %s", t->kept);
    else if (t->now)
        buf_printf(b, "is as the %s defines it", t->fresh ? "journal" : "dump");
    else
        buf_adds(b, "is restored; it had been dropped or renamed since the dump");
    if (t->misfit) {
        buf_adds(b, "; its rows did not fit: ");
        text_clean(b, t->misfit, 800);
    }
    if (t->now)
        buf_printf(b, ".\n-- It was:\n%s;\n", t->now);
    else
        buf_adds(b, ".\n");
    struct db_definition d = {0};
    struct err ignored;
    if (view && db_definition(r->db, r->schema, DEFINITION_VIEW, t->name, &d, &ignored) == 0 &&
        d.sql)
        buf_printf(b, "-- It was:\n%s;\n", d.sql);
    db_definition_free(&d);
    size_t before = b->len;
    add_statements(r, t, b);
    if (b->len == before)
        buf_adds(b, "-- No statement that changed it was read in the binary log.\n");
}

static void redefined_file_name(const struct restore *r, char out[64])
{
    snprintf(out, 64, "replaced-%06" PRIu64 ".sql", r->generation);
}

int redefined_keep(struct restore *r, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    char file[64];
    bool any = false;
    buf_printf(
        &b,
        "-- The previous definitions of tables that a restore of dump %s recreated as the dump, or "
        "the journal after it, defines them,\n-- and the statements of the binary log that had "
        "changed them.\n",
        r->made.dump);
    for (size_t i = 0; i < r->plan.count; i++) {
        struct target *t = &r->plan.list[i];
        const char *was = what_was(r, t);
        if (!was)
            continue;
        if (t->in_way)
            snprintf(t->kept, sizeof t->kept, KEPT_PREFIX "%06" PRIu64 "_%06zu", r->generation, i);
        redefined_describe(r, t, was, &b);
        any = true;
    }
    if (!any)
        return 0;
    buf_add(&b, r->lost_triggers.p ? r->lost_triggers.p : "", r->lost_triggers.len);
    redefined_file_name(r, file);
    if (file_commit(r->job->dirfd, file, b.p, b.len, 0600, e) < 0)
        return err_step(e, "saving the definitions that restored tables replace");
    r->kept_file = true;
    return 0;
}

/* ---- the report ---- */

static json_t *redefined_entry(const struct restore *r, const struct target *t, const char *was)
{
    const struct replay *j = &r->journal;
    json_t *o = json_pack("{s:o, s:s, s:o}", "table", js_clean(t->name), "was", was, "statements",
                          json_array());
    js_set_clean(o, "why",
                 t->misfit           ? t->misfit
                 : t->kept[0]        ? "an object that is not a table has its name"
                 : r->plan.as_dumped ? "requested: the table as it was then"
                 : t->now            ? "of a durable engine: replaced as a whole"
                                     : "dropped or renamed since the dump");
    if (t->kept[0])
        json_object_set_new(o, "kept", json_string(t->kept));
    for (size_t i = 0; i < j->statement_count; i++)
        if (strcmp(j->statements[i].table, t->name) == 0)
            json_array_append_new(json_object_get(o, "statements"), js_clean(j->statements[i].sql));
    return o;
}

void redefined_result(struct restore *r)
{
    SCOPED(buf_free) struct buf b = {0};
    char file[64];
    size_t n = 0;
    if (!r->kept_file)
        return;
    redefined_file_name(r, file);
    r->out->as_dumped = json_array();
    r->out->as_dumped_file = xasprintf("%s/%s", r->job->cfg->dump_dir, file);
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        const char *was = what_was(r, t);
        if (!was)
            continue;
        json_array_append_new(r->out->as_dumped, redefined_entry(r, t, was));
        if (n++ >= NAMED)
            continue;
        buf_adds(&b, n > 1 ? ", table " : "table ");
        text_clean(&b, t->name, 64);
        buf_printf(&b, " (%s%s)",
                   t->kept[0] ? "in place of a view, now "
                   : !t->now  ? "dropped or renamed since"
                   : t->fresh ? "of another definition; in no dump yet, so as the journal has it"
                              : "of another definition",
                   t->kept);
    }
    if (n > NAMED)
        buf_printf(&b, " and %zu more", n - NAMED);
    for (size_t i = 0; i < r->lost_trigger_names.count && i < NAMED; i++) {
        buf_adds(&b, i ? ", trigger " : ", without trigger ");
        text_clean(&b, r->lost_trigger_names.list[i], 64);
    }
    result_warn(
        r->out,
        "as the dump defines it, not as it was before: %s; the previous definition is in %s", b.p,
        r->out->as_dumped_file);
}
