#include "restore/set_aside.h"

#include <stdio.h>
#include <strings.h>

#include "base/fault.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "mysql/sentinel.h"
#include "mysql/world_tables.h"
#include "sql/literal.h"
#include "store/catalog.h"

#define PATIENCE_MS 10000
#define LISTINGS 5 /* of the tables, if they change meanwhile */

#define ASIDE DB_OWN_PREFIX "aside_"

static void aside_name(const struct set_aside *s, char out[64], size_t i)
{
    snprintf(out, 64, ASIDE "%06zu", s->before + i);
}

static bool is_aside(const struct db_table *t)
{
    return t->memory || text_among(t->name, world_progress_tables);
}

/* Adds the table of this name if ALTER TABLE had hidden it when the tables were listed. */
static int set_aside_add_hidden(struct set_aside *s, const char *name, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables now = {0};
    struct db_tables *all = &s->tables;
    int hidden = db_table_hidden(s->db, s->job->cfg->schema, all, name, &now, e);
    if (hidden < 0)
        return err_step(e, "asking for table %s", name);
    if (hidden && is_aside(&now.list[0])) {
        all->list = xgrow(all->list, all->count, sizeof *all->list);
        all->list[all->count] = now.list[0];
        all->list[all->count++].carried = !now.list[0].memory;
        now.count = 0; /* it belongs to the other list now */
        db_tables_sort(all);
    }
    return 0;
}

/* Lists the tables of the world. Those of the newest dump are asked for by name if they are not
 * listed, because the game would go on writing to a table that is not set aside. */
static int set_aside_read(struct set_aside *s, struct err *e)
{
    const struct config *c = s->job->cfg;
    SCOPED(catalog_free) struct catalog dumps = {0};
    struct err ignored;
    (void)catalog_load(s->job->dirfd, c->name, &dumps,
                       &ignored); /* without a dump no name is known */
    const struct catalog_entry *newest = catalog_newest(&dumps, 0);
    int rc = world_tables(s->db, c, c->schema, &s->tables, e);
    fault_point("aside.listed");
    for (size_t i = 0; newest && i < newest->m.table_count && rc == 0; i++) {
        const struct manifest_table *t = &newest->m.tables[i];
        if (strcasecmp(t->engine, "MEMORY") == 0 || text_among(t->name, world_progress_tables))
            rc = set_aside_add_hidden(s, t->name, e);
    }
    return rc;
}

/* Lists the game's MEMORY tables, and counts those that were set aside before. */
static int set_aside_list(struct set_aside *s, struct err *e)
{
    const struct config *c = s->job->cfg;
    SCOPED(db_tables_free) struct db_tables own = {0};
    size_t kept = 0;
    if (db_own_tables(s->db, c->schema, &own, e) < 0 || set_aside_read(s, e) < 0)
        return -1;
    s->before = 0;
    for (size_t i = 0; i < own.count; i++)
        s->before += text_starts(own.list[i].name, ASIDE);
    for (size_t i = 0; i < s->tables.count; i++) {
        struct db_table *t = &s->tables.list[i];
        if (!db_sentinel_own(c->sentinel, t->name))
            s->tables.list[kept++] = *t;
        else
            db_table_free(t);
    }
    s->tables.count = kept;
    return 0;
}

/* Returns the session that renames the table, or NULL if the table stays as it is. Durable tables
 * of ledgers stay: only this program writes to them, and a promotion replaces them. On MySQL a
 * rename opens the tables of each view of the table, so two sessions must not hold tables of one
 * view. */
static struct db *session_of(const struct set_aside *s, const struct db_table *t)
{
    return !is_aside(t) ? NULL : t->carried ? s->carried : s->db;
}

static int restore_set_aside_lock(struct set_aside *s, struct db *db, struct err *e)
{
    struct err ignored;
    SCOPED(buf_free) struct buf sql = {0};
    /* A logged rename ends the journal. It is logged if the account may not disable logging. */
    db_exec(db, "SET SESSION sql_log_bin=0", &ignored);
    if (db_lock_wait(db, s->job->cfg->restore_lock_wait, e) < 0)
        return -1;
    for (size_t i = 0; i < s->tables.count; i++) {
        if (session_of(s, &s->tables.list[i]) != db)
            continue;
        buf_adds(&sql, sql.len ? ", " : "LOCK TABLES ");
        sql_ident(&sql, s->tables.list[i].name);
        buf_adds(&sql, " WRITE");
    }
    return sql.len ? db_exec(db, sql.p, e) : 0;
}

/* Locks the tables of the list. */
static int set_aside_lock_all(struct set_aside *s, struct err *e)
{
    bool any = false;
    for (size_t i = 0; i < s->tables.count; i++)
        any |= s->tables.list[i].carried && is_aside(&s->tables.list[i]);
    if (any && !s->carried && !(s->carried = job_open(s->job, e)))
        return -1;
    return (any && restore_set_aside_lock(s, s->carried, e) < 0) ||
                   restore_set_aside_lock(s, s->db, e) < 0
               ? -1
               : 0;
}

/* Returns 1 if all tables to be set aside are locked. If one is not, returns 0 and names it in `e`.
 */
static int set_aside_has_all(const struct set_aside *s, struct err *e)
{
    const struct config *c = s->job->cfg;
    SCOPED(db_tables_free) struct db_tables now = {0};
    if (world_tables(s->db, c, c->schema, &now, e) < 0)
        return -1;
    for (size_t i = 0; i < now.count; i++)
        if (is_aside(&now.list[i]) && !db_sentinel_own(c->sentinel, now.list[i].name) &&
            !db_table_find(&s->tables, now.list[i].name)) {
            err_set(e, ERR_CHANGED, 0, "table %s was created or altered meanwhile",
                    now.list[i].name);
            err_hint(e, "repeat the command");
            return 0;
        }
    return 1;
}

static int set_aside_unlock(struct set_aside *s, struct err *e)
{
    return db_exec(s->db, "UNLOCK TABLES", e) < 0 ||
                   (s->carried && db_exec(s->carried, "UNLOCK TABLES", e) < 0)
               ? -1
               : 0;
}

int set_aside_lock(struct set_aside *s, const struct job *job, struct err *e)
{
    *s = (struct set_aside){.job = job};
    s->db = job_open(job, e);
    if (!s->db || db_lease_take(s->db, job->cfg->schema, PATIENCE_MS, e) < 0)
        return -1;
    int all = 0;
    for (unsigned listings = LISTINGS; all == 0 && listings > 0; listings--) {
        struct err why;
        db_tables_free(&s->tables);
        if (set_aside_list(s, e) < 0)
            return -1;
        all = set_aside_lock_all(s, e) < 0 ? -1 : set_aside_has_all(s, e);
        if (all == 0 && set_aside_unlock(s, &why) < 0)
            return err_pass(e, &why);
    }
    if (all <= 0)
        return err_step(e, "blocking the game's writes");
    fault_point("aside.locked");
    return 0;
}

int set_aside_save(struct set_aside *s, uint64_t generation, struct err *e)
{
    SCOPED(xfree) struct conflict_source *list = xcalloc(s->tables.count + 1, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < s->tables.count; i++) {
        const struct db_table *t = &s->tables.list[i];
        if (session_of(s, t))
            list[n++] = (struct conflict_source){
                .table = t->name, .from = t->name, .db = session_of(s, t), .columns = t};
    }
    conflict_name(s->job->dirfd, s->file, generation, "-demoted");
    struct conflict_about about = {.file = s->file, .to = clock_wall()};
    int rc = n ? conflict_save(s->db, s->job, list, n, &about, &s->rows, e) : 0;
    if (rc == 0)
        fault_point("aside.saved");
    return rc < 0 ? err_step(e, "saving the rows of the replaced world") : 0;
}

int set_aside_rename(struct set_aside *s, struct err *e)
{
    const struct config *c = s->job->cfg;
    struct db_sentinel now;
    struct err none;
    char to[64];
    for (size_t i = 0; i < s->tables.count; i++) {
        aside_name(s, to, i);
        if (!session_of(s, &s->tables.list[i]))
            continue;
        if (db_exec_with(session_of(s, &s->tables.list[i]), "ALTER TABLE ?? RENAME TO ??",
                         DB_ARGS(s->tables.list[i].name, to), e) < 0)
            return err_step(e, "renaming table %s, so that the game cannot use it",
                            s->tables.list[i].name);
    }
    fault_point("aside.renamed");
    aside_name(s, to, s->tables.count);
    if (set_aside_unlock(s, e) < 0)
        return -1;
    if (db_sentinel_read(s->db, c->schema, c->sentinel, &now, &none) < 0 && db_table_missing(&none))
        return 0;
    return db_exec_with(s->db, "RENAME TABLE ?? TO ??", DB_ARGS(c->sentinel, to), e);
}

void set_aside_end(struct set_aside *s)
{
    db_close(s->db);
    db_close(s->carried);
    db_tables_free(&s->tables);
    s->db = s->carried = NULL;
}
