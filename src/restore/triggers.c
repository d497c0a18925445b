#include "restore/triggers.h"

#include <string.h>

#include "base/file.h"
#include "mysql/account.h"
#include "mysql/job.h"
#include "restore/plan.h"
#include "restore/redefined.h"
#include "restore/running.h"
#include "sql/literal.h"

static int triggers_drop(struct db *db, const char *name, struct err *e)
{
    return db_exec_with(db, "DROP TRIGGER IF EXISTS ??", DB_ARGS(name), e);
}

int triggers_replaced(struct restore *r, struct db_triggers *out, struct err *e)
{
    SCOPED(names_free) struct names names = {0};
    for (size_t i = 0; i < r->plan.count; i++)
        if (target_replaces(&r->plan.list[i]))
            names_add(&names, r->plan.list[i].name);
    /* Reads the triggers of the world, because the copies that a drill makes have none. */
    return db_triggers_of(r->db, r->job->cfg->schema, &names, r->job->progress, out, e);
}

/* Sets a hint for a missing privilege. The server names only the first one that it missed. */
static void hint_definer(struct db *db, const char *definer, struct err *e)
{
    int privileges[DEFINER_PRIVILEGES];
    server_definer_privileges(db_version(db), definer, e->text, privileges);
    db_hint_server(db, privileges, e);
    SCOPED(xfree) char *grant = xstrdup(e->hint);
    err_hint(
        e,
        "DROP TRIGGER and make it again with worldkeeper's account as DEFINER; or, which amounts "
        "to root, %s",
        grant);
}

/* Removes one trigger from the list. The others keep their order. */
static void triggers_leave_out(struct restore *r, struct db_triggers *list, size_t i,
                               const struct err *why)
{
    SCOPED(db_triggers_free) struct db_triggers out = {xcalloc(1, sizeof *out.list), 1};
    out.list[0] = list->list[i];
    redefined_without(r, out.list, why);
    list->count--;
    memmove(list->list + i, list->list + i + 1, (list->count - i) * sizeof *list->list);
}

/* Returns true if the server refused a trigger because of our privileges or its definer. */
static bool triggers_forbidden(const struct err *e)
{
    return e->cls == ERR_DENIED || e->num == DB_LOG_NEEDS_SUPER;
}

int triggers_prove(struct restore *r, struct db_triggers *list, struct err *e)
{
    struct db *db = r->db;
    char proof[] = DB_OWN_PREFIX "trigger";
    for (size_t i = 0; i < list->count; i++) {
        struct db_trigger t = list->list[i];
        const struct target *of = plan_find(&r->plan, t.table);
        const char *name = t.name;
        progress_at(r->job->progress, 0, 0);
        t.name = proof;
        if (triggers_drop(db, proof, e) == 0 && db_trigger_create(db, &t, of->shadow, e) == 0 &&
            triggers_drop(db, proof, e) == 0)
            continue;
        if (e->cls == ERR_QUERY && e->num != DB_LOG_NEEDS_SUPER && redefined(&r->plan, of)) {
            triggers_leave_out(r, list, i--, e);
            continue;
        }
        err_step(e, "%s create trigger %s of table %s",
                 triggers_forbidden(e) ? "this account cannot" : "cannot", name, t.table);
        if (e->num == DB_LOG_NEEDS_SUPER)
            err_hint(e, DB_SET_FOR_GOOD("log_bin_trust_function_creators", "1"));
        else if (e->cls == ERR_DENIED)
            hint_definer(db, t.definer, e);
        return -1;
    }
    return 0;
}

int triggers_move(struct restore *r, const struct db_triggers *list, struct err *e)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct db_trigger *t = &list->list[i];
        progress_at(r->job->progress, 0, 0);
        if (triggers_drop(r->db, t->name, e) == 0 &&
            db_trigger_create(r->db, t, plan_find(&r->plan, t->table)->shadow, e) == 0)
            continue;
        return err_step(e, "moving trigger %s", t->name);
    }
    return 0;
}

/* Returns true if one of the triggers fires after the other one at some event. */
static bool same_moment(const struct db_trigger *a, const struct db_trigger *b)
{
    SCOPED(buf_free) struct buf ignored = {0};
    return strcmp(a->table, b->table) == 0 && strcmp(a->timing, b->timing) == 0 &&
           (definition_events(a->event, &ignored) & definition_events(b->event, &ignored)) != 0;
}

int triggers_put(struct db *db, const char *schema, const struct db_triggers *list, struct err *e)
{
    SCOPED(db_triggers_free) struct db_triggers now = {0};
    if (list->count == 0)
        return 0;
    if (db_triggers(db, schema, &now, e) < 0)
        return -1;
    int rc = 0;
    SCOPED(xfree) bool *made = xcalloc(list->count, sizeof *made);
    for (size_t i = 0; i < list->count && rc == 0; i++) {
        const struct db_trigger *want = &list->list[i], *have = NULL;
        for (size_t k = 0; k < now.count && !have; k++)
            if (strcmp(now.list[k].name, want->name) == 0)
                have = &now.list[k];
        made[i] = !have || strcmp(have->table, want->table) != 0;
        /* A new trigger fires last, so those after it with the same timing and event are created
         * again as well. */
        for (size_t k = 0; k < i && !made[i]; k++)
            made[i] = made[k] && same_moment(&list->list[k], want);
        if (!made[i])
            continue;
        if (have)
            rc = triggers_drop(db, have->name, e);
        if (rc == 0)
            rc = db_trigger_create(db, want, want->table, e);
        if (rc < 0)
            err_step(e, "recreating trigger %s on table %s", want->name, want->table);
    }
    return rc;
}

/* Saves the text of a trigger. The file is named by a hash, because a trigger's name may contain
 * what a file name cannot. */
static int triggers_keep_text(const struct job *job, const struct db_trigger *t,
                              const struct err *why, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    SCOPED(xfree) char *file = xasprintf(
        "trigger-%016llx.sql", (unsigned long long)sql_tuple_hash(t->name, strlen(t->name)));
    db_trigger_sql(&b, t, t->table);
    buf_addc(&b, '\n');
    int rc = file_commit(job->dirfd, file, b.p, b.len, 0600, e);
    job_note(job, "cannot recreate trigger %s (%s); its text is in %s", t->name, why->text, file);
    return rc;
}

/* Returns true if trigger `i` fires together with one of those from `first` on. */
static bool of_group(const struct db_triggers *list, size_t first, size_t i)
{
    size_t k = first;
    while (k < i && !same_moment(&list->list[k], &list->list[i]))
        k++;
    return k < i;
}

/* Puts the triggers back. Those with the same timing and event go together, to keep their order, or
 * one by one if that fails. */
int triggers_recover(struct db *db, const struct job *job, const struct db_triggers *list,
                     struct err *e)
{
    const char *schema = job->cfg->schema;
    size_t end;
    for (size_t i = 0; i < list->count; i = end) {
        struct err why;
        for (end = i + 1; end < list->count && of_group(list, i, end);)
            end++;
        struct db_triggers group = {&list->list[i], end - i};
        if (triggers_put(db, schema, &group, &why) == 0)
            continue;
        for (size_t k = i; k < end; k++) {
            struct db_triggers one = {&list->list[k], 1};
            if (triggers_put(db, schema, &one, &why) == 0)
                continue;
            if (db_unanswered(&why))
                return err_pass(e, &why);
            if (triggers_keep_text(job, &list->list[k], &why, e) < 0)
                return -1;
        }
    }
    return 0;
}
