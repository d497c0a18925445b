#include "restore/swap.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/file.h"
#include "db/sentinel.h"
#include "db/sql.h"
#include "journal/statement.h"
#include "restore/conflict.h"
#include "restore/constraints.h"

#define SHADOW_SENTINEL DB_OWN_PREFIX "new_sentinel"
#define OLD_SENTINEL DB_OWN_PREFIX "old_sentinel"
#define RENAME_TRIES 5
#define LOCK_TRIES 3

static void old_name(char out[64], size_t i)
{
    snprintf(out, 64, DB_OWN_PREFIX "old_%06zu", i);
}

static bool replaces(const struct target *t)
{
    return !t->skip && t->created && t->live;
}

/* 1: the table is as the dump taken before a forced restore has it; 0: not; -1. */
static int in_dump(struct swap *s, struct target *t, struct err *e)
{
    const struct manifest_table *m = manifest_table(s->dumped, t->name);
    struct conflict_source now = {.table = t->name, .from = t->name, .columns = t->live};
    if (!m)
        return 0;
    if (conflict_measure(s->db, &now, e) < 0)
        return -1;
    t->conflict_rows = now.rows;
    t->conflict_hash = now.hash;
    return now.rows == m->rows && now.hash == m->rows_hash;
}

/* A MySQL with GTIDs takes no lock for writing of both kinds of tables in a session that is logged,
 * be it for what triggers would write: then as many as it takes. */
#define GTID_MIXED 1785

static void locks_of_plan(const struct plan *plan, const char *memory, const char *durable,
                          struct buf *b)
{
    buf_clear(b);
    for (size_t i = 0; i < plan->count; i++) {
        const struct target *t = &plan->list[i];
        if (!replaces(t))
            continue;
        buf_adds(b, b->len ? ", " : "LOCK TABLES ");
        sql_ident(b, t->name);
        buf_adds(b, t->memory ? memory : durable);
    }
}

/* By the first way, from `*way` on, that the server takes. */
static int lock_plan(struct swap *s, size_t *way, struct err *e)
{
    static const char *const ways[][2] = {
        {" WRITE", " WRITE"}, {" WRITE", " READ"}, {" READ", " READ"}};
    struct buf b = {0};
    int rc = -1;
    for (; *way < sizeof ways / sizeof *ways; ++*way) {
        locks_of_plan(s->plan, ways[*way][0], ways[*way][1], &b);
        rc = b.len ? db_exec_len(s->db, b.p, b.len, e) : 0;
        if (rc == 0 || e->num != GTID_MIXED)
            break;
    }
    buf_free(&b);
    return rc;
}

/* Readers wait behind writers that come without a pause, for ever; the lock for writing does not:
 * no statement begins on these tables any more once it is asked for. Where it cannot be had,
 * readers it is, and a pause must come. RENAME is refused under it, so that it goes before the
 * swap. */
static int lock_replaced(struct swap *s, struct err *e)
{
    int rc = 0;
    size_t way = 0;
    for (int i = 0; i < LOCK_TRIES; i++) {
        rc = lock_plan(s, &way, e);
        if (rc == 0 || !db_lock_busy(e)) /* a lock of the game's; its turn ends */
            break;
        progress_at(s->job->progress, 0, 0);
    }
    if (rc < 0)
        err_step(e, "locking the tables that are replaced");
    return rc;
}

static int save_conflicts(struct swap *s, struct err *e)
{
    size_t n = 0;
    int rc = 0;
    struct conflict_source *list = xcalloc(s->plan->count, sizeof *list);
    struct target **from = xcalloc(s->plan->count, sizeof(struct target *));
    for (size_t i = 0; i < s->plan->count && rc >= 0; i++) {
        struct target *t = &s->plan->list[i];
        rc = replaces(t) ? in_dump(s, t, e) : 1;
        if (rc != 0)
            continue;
        list[n] = (struct conflict_source){.table = t->name, .from = t->name, .columns = t->live};
        from[n++] = t;
    }
    if (rc >= 0)
        rc = conflict_save(s->db, s->job, list, n, s->generation, "", s->conflict_file,
                           &s->conflict_rows, e);
    for (size_t k = 0; k < n && rc == 0; k++) {
        from[k]->conflict_rows = list[k].rows;
        from[k]->conflict_hash = list[k].hash;
    }
    free(from);
    free(list);
    return rc;
}

int swap_save_conflicts(struct swap *s, struct err *e)
{
    struct err ignored;
    if (lock_replaced(s, e) < 0)
        return -1;
    int rc = save_conflicts(s, e);
    if (db_exec(s->db, "UNLOCK TABLES", rc < 0 ? &ignored : e) < 0)
        rc = -1;
    return rc;
}

static int trigger_drop(struct db *db, const char *name, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "DROP TRIGGER IF EXISTS ");
    sql_ident(&b, name);
    int rc = db_exec_len(db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

static bool same_moment(const struct db_trigger *a, const struct db_trigger *b)
{
    return strcmp(a->table, b->table) == 0 && strcmp(a->timing, b->timing) == 0 &&
           strcmp(a->event, b->event) == 0;
}

/* Each trigger of `list` ends on the table it names, made anew where it is not. Those behind it, of
 * the same moment, are made anew as well: one that is made comes last. */
static int triggers_put(struct db *db, const char *schema, const struct db_triggers *list,
                        struct err *e)
{
    struct db_triggers now;
    if (list->count == 0)
        return 0;
    if (db_triggers(db, schema, &now, e) < 0)
        return -1;
    int rc = 0;
    bool made = false; /* the one before */
    for (size_t i = 0; i < list->count && rc == 0; i++) {
        const struct db_trigger *want = &list->list[i], *have = NULL;
        for (size_t k = 0; k < now.count && !have; k++)
            if (strcmp(now.list[k].name, want->name) == 0)
                have = &now.list[k];
        bool moved = i > 0 && made && same_moment(&list->list[i - 1], want);
        made = moved || !have || strcmp(have->table, want->table) != 0;
        if (!made)
            continue;
        if (have)
            rc = trigger_drop(db, have->name, e);
        if (rc == 0)
            rc = db_trigger_create(db, want, want->table, e);
        if (rc < 0)
            err_step(e, "putting trigger %s back on table %s", want->name, want->table);
    }
    db_triggers_free(&now);
    return rc;
}

/* What lets this account make somebody's trigger anew. */
static void trigger_hint(struct db *db, struct err *e)
{
    if (e->num == DB_LOG_NEEDS_SUPER)
        err_hint(e,
                 "SET GLOBAL log_bin_trust_function_creators=ON; worldkeeper --check tells more");
    else if (e->cls == ERR_DENIED && db_is_mariadb(db))
        err_hint(e, "GRANT SET USER ON *.* TO it, or drop the trigger; worldkeeper --check "
                    "names each");
    else if (e->cls == ERR_DENIED)
        err_hint(e,
                 "GRANT SET_ANY_DEFINER ON *.* TO it, with SYSTEM_USER when the definer has that "
                 "and ALLOW_NONEXISTENT_DEFINER when there is none, or drop the trigger; "
                 "worldkeeper --check names each");
}

/* Every trigger is made once, under a name of ours, before the first real one is touched: a definer
 * that we may not use, or a body that no longer compiles, must not cost the game its trigger. */
static int triggers_prove(struct swap *s, const struct db_triggers *list, struct err *e)
{
    char proof[64] = DB_OWN_PREFIX "trigger";
    for (size_t i = 0; i < list->count; i++) {
        struct db_trigger t = list->list[i];
        const char *name = t.name;
        const struct target *to = plan_find(s->plan, t.table);
        t.name = proof;
        if (trigger_drop(s->db, proof, e) < 0 || db_trigger_create(s->db, &t, to->shadow, e) < 0 ||
            trigger_drop(s->db, proof, e) < 0) {
            err_step(e, "trigger %s of table %s cannot be made by this account", name, t.table);
            trigger_hint(s->db, e);
            return -1;
        }
    }
    return 0;
}

static int triggers_move(struct swap *s, const struct db_triggers *list, struct err *e)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct db_trigger *t = &list->list[i];
        const struct target *to = plan_find(s->plan, t->table);
        if (trigger_drop(s->db, t->name, e) < 0 || db_trigger_create(s->db, t, to->shadow, e) < 0) {
            err_step(e, "moving trigger %s", t->name);
            return -1;
        }
    }
    return 0;
}

/* Triggers of the tables that will be replaced; those of others are dropped from the list. */
static int triggers_of_plan(struct swap *s, struct db_triggers *out, struct err *e)
{
    if (db_triggers(s->db, s->job->cfg->schema, out, e) < 0)
        return -1;
    size_t n = 0;
    for (size_t i = 0; i < out->count; i++) {
        const struct target *t = plan_find(s->plan, out->list[i].table);
        struct db_trigger x = out->list[i];
        if (t && replaces(t)) {
            out->list[i] = out->list[n];
            out->list[n++] = x;
        }
    }
    /* Those not moved stay owned: they are freed with a list of their own. */
    struct db_triggers rest = {xcalloc(out->count - n, sizeof *rest.list), out->count - n};
    for (size_t i = 0; i < rest.count; i++)
        rest.list[i] = out->list[n + i];
    db_triggers_free(&rest);
    out->count = n;
    return 0;
}

static int make_sentinel(struct swap *s, struct err *e)
{
    const char *schema = s->job->cfg->schema;
    return db_sentinel_create(s->db, schema, SHADOW_SENTINEL, false, e) < 0
               ? -1
               : db_sentinel_insert(s->db, schema, SHADOW_SENTINEL, s->nonce, s->generation,
                                    s->dump, e);
}

static void add_rename(struct buf *b, const char *from, const char *to)
{
    buf_adds(b, b->len ? ", " : "RENAME TABLE ");
    sql_ident(b, from);
    buf_adds(b, " TO ");
    sql_ident(b, to);
}

/* Whoever reads the binary log later learns which world came in here. */
static void add_mark(struct buf *b, const struct swap *s)
{
    struct statement_mark m = {.upto = s->upto};
    char text[STATEMENT_MARK_MAX];
    snprintf(m.dump, sizeof m.dump, "%s", s->dump);
    snprintf(m.nonce, sizeof m.nonce, "%s", s->nonce);
    statement_mark(&m, text);
    buf_printf(b, " %s", text);
}

/* A swap that is not logged can be followed by nobody; that there was one is. It stands before it:
 * the first change of the new world must not be taken for one of the old. */
static int log_mark(const struct swap *s, struct err *e)
{
    struct swap alone = *s;
    struct buf b = {0};
    alone.upto.file[0] = '\0';
    buf_adds(&b, STATEMENT_MARK_CARRIER);
    add_mark(&b, &alone);
    int rc = db_exec(s->db, "SET SESSION sql_log_bin=1", e);
    if (rc == 0)
        rc = db_exec_len(s->db, b.p, b.len, e);
    struct err ignored;
    if (db_exec(s->db, "SET SESSION sql_log_bin=0", rc < 0 ? &ignored : e) < 0)
        rc = -1;
    buf_free(&b);
    return rc;
}

static int rename_all(struct swap *s, bool sentinel_there, struct err *e)
{
    struct buf b = {0};
    char old[64];
    for (size_t i = 0; i < s->plan->count; i++) {
        const struct target *t = &s->plan->list[i];
        if (t->skip || !t->created)
            continue;
        old_name(old, i);
        if (t->live)
            add_rename(&b, t->name, old);
        add_rename(&b, t->shadow, t->name);
    }
    if (sentinel_there)
        add_rename(&b, s->job->cfg->sentinel, OLD_SENTINEL);
    add_rename(&b, SHADOW_SENTINEL, s->job->cfg->sentinel);
    add_mark(&b, s);
    int rc = -1;
    for (int i = 0; i < RENAME_TRIES; i++) {
        rc = db_exec_len(s->db, b.p, b.len, e);
        if (rc == 0 || e->num != DB_LOCK_TIMEOUT) /* a lock held by the game; its turn ends */
            break;
        progress_at(s->job->progress, 0, 0);
    }
    if (rc < 0)
        err_step(e, "swapping the tables in");
    buf_free(&b);
    return rc;
}

/* The names and lines in it are the plan's. */
static struct pending pending_of(const struct swap *s, const struct db_triggers *triggers)
{
    struct pending p = {.generation = s->generation, .triggers = *triggers};
    snprintf(p.nonce, sizeof p.nonce, "%s", s->nonce);
    snprintf(p.dump, sizeof p.dump, "%s", s->dump);
    p.tables.list = xcalloc(s->plan->count, sizeof *p.tables.list);
    p.checks = xcalloc(s->plan->count, sizeof *p.checks);
    for (size_t i = 0; i < s->plan->count; i++) {
        const struct target *t = &s->plan->list[i];
        p.tables.list[p.tables.count++] = t->name;
        if (t->checks)
            p.checks[p.check_count++] = (struct pending_checks){t->name, t->checks, t->heap};
    }
    return p;
}

static int save_pending(struct swap *s, struct db_triggers *triggers, struct err *e)
{
    struct pending p = pending_of(s, triggers);
    int rc = pending_save(s->job->dirfd, &p, e);
    free(p.tables.list);
    free(p.checks);
    return rc;
}

/* How the constraints of the tables that go are called: their names are to come back. */
static int note_names(struct swap *s, struct err *e)
{
    for (size_t i = 0; i < s->plan->count && !db_is_mariadb(s->db); i++) {
        struct target *t = &s->plan->list[i];
        struct buf lines = {0};
        if (!replaces(t))
            continue;
        char *was = db_create_table(s->db, s->job->cfg->schema, t->name, e);
        if (!was)
            return -1;
        constraints_lines(&lines, was);
        free(was);
        free(t->checks);
        t->checks = lines.len ? lines.p : NULL;
        if (!t->checks)
            buf_free(&lines);
    }
    return 0;
}

/* Everything is as before, and proven to be: the session that answers is the one that was refused.
 * A lost one may have been lost behind the swap, with or without triggers to put back; then what is
 * noted stays, by which the next restore knows the world that came in. */
static void take_back(struct swap *s, const struct db_triggers *triggers)
{
    struct err ignored;
    if (db_exec(s->db, "DO 1", &ignored) == 0 &&
        triggers_put(s->db, s->job->cfg->schema, triggers, &ignored) == 0)
        pending_remove(s->job->dirfd, &ignored);
}

/* A told end waits until the few statements of the swap are through. */
static void hold_signals(sigset_t *old)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, old);
}

int swap_in(struct swap *s, struct err *e)
{
    const struct config *c = s->job->cfg;
    struct db_triggers triggers = {0};
    struct db_sentinel now;
    struct err ignored;
    sigset_t old;
    bool sentinel_there = db_sentinel_read(s->db, c->schema, c->sentinel, &now, &ignored) == 0;
    int rc = -1;
    hold_signals(&old);
    if (note_names(s, e) < 0 || triggers_of_plan(s, &triggers, e) < 0 ||
        triggers_prove(s, &triggers, e) < 0 || make_sentinel(s, e) < 0 ||
        save_pending(s, &triggers, e) < 0)
        goto out;
    if (s->job->swapping)
        s->job->swapping(s->job->note_arg, s->nonce, s->generation);
    fault_point("restore.before_rename");
    rc = s->unlogged ? log_mark(s, e) : 0;
    if (rc == 0)
        rc = triggers_move(s, &triggers, e);
    if (rc == 0)
        rc = rename_all(s, sentinel_there, e);
    if (rc < 0)
        take_back(s, &triggers);
    if (rc == 0)
        fault_point("restore.renamed");
out:
    db_triggers_free(&triggers);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return rc;
}

static int drop_table(struct db *db, const char *name, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "DROP TABLE IF EXISTS ");
    sql_ident(&b, name);
    int rc = db_exec_len(db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

/* What the game wrote between saving and swapping. */
static int save_late_rows(struct swap *s, struct err *e)
{
    size_t n = 0;
    uint64_t before = 0;
    int rc = 0;
    struct conflict_source *list = xcalloc(s->plan->count, sizeof *list);
    char(*names)[64] = xcalloc(s->plan->count, sizeof *names);
    for (size_t i = 0; i < s->plan->count && rc == 0; i++) {
        const struct target *t = &s->plan->list[i];
        if (!replaces(t))
            continue;
        old_name(names[i], i);
        list[n] = (struct conflict_source){.table = t->name, .from = names[i], .columns = t->live};
        rc = conflict_measure(s->db, &list[n], e);
        if (rc == 0 && (list[n].rows != t->conflict_rows || list[n].hash != t->conflict_hash)) {
            before += t->conflict_rows;
            n++;
        }
    }
    char file[128];
    uint64_t rows = 0;
    if (rc == 0 && n) {
        rc = conflict_save(s->db, s->job, list, n, s->generation, "-late", file, &rows, e);
        s->conflict_rows += rows > before ? rows - before : 0; /* whole tables are written again */
        if (rc == 0 && !s->conflict_file[0])
            snprintf(s->conflict_file, sizeof s->conflict_file, "%s", file);
    }
    free(names);
    free(list);
    return rc;
}

static int drop_own(struct db *db, const char *schema, struct err *e)
{
    struct db_tables own;
    if (db_own_tables(db, schema, &own, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < own.count && rc == 0; i++)
        rc = drop_table(db, own.list[i].name, e);
    db_tables_free(&own);
    return rc;
}

/* The new nonce is ours from now on. Known on the disk before pending.json, which names it too,
 * goes. */
static int remember_world(struct db *db, const struct job *job, const char *nonce,
                          uint64_t generation, struct err *e)
{
    struct state st;
    struct err ignored;
    struct server_id server;
    if (db_server_id(db, &server, e) < 0)
        return -1;
    (void)state_load(job->dirfd, &st, &ignored); /* a damaged one is written anew */
    st.known = true;
    st.server = server;
    st.generation = generation;
    st.alive_at = clock_wall();
    snprintf(st.nonce, sizeof st.nonce, "%s", nonce);
    if (state_save(job->dirfd, &st, e) < 0)
        return -1;
    fault_point("restore.sentinel_known");
    return 0;
}

/* A rebuilt server has no lease table yet. */
static int raise_lease(struct db *db, const struct config *c, uint64_t generation, struct err *e)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    char *holder = xasprintf("%s:%d", host, (int)getpid());
    int rc = db_lease_create(db, c->schema, c->sentinel, e);
    if (rc == 0)
        rc = db_lease_raise(db, c->schema, c->sentinel, generation, holder, e);
    free(holder);
    return rc;
}

/* ALTER copies the table, and a MEMORY table gets the size limit of the session that does. */
static int rename_constraints(struct db *db, const struct pending_checks *c, const char *change,
                              struct err *e)
{
    struct buf b = {0};
    struct err ignored;
    buf_adds(&b, "ALTER TABLE ");
    sql_ident(&b, c->table);
    buf_printf(&b, " %s", change);
    int rc = db_exec(db, "SET NAMES utf8mb4", e);
    if (rc == 0 && c->heap)
        rc = db_execf(db, e, "SET SESSION max_heap_table_size=%" PRIu64, c->heap);
    if (rc == 0)
        rc = db_exec_len(db, b.p, b.len, e);
    if (db_exec(db, "SET NAMES binary", rc < 0 ? &ignored : e) < 0)
        rc = -1;
    buf_free(&b);
    if (rc < 0)
        err_step(e, "giving the constraints of table %s their names back", c->table);
    return rc;
}

static int names_back(struct db *db, const char *schema, const struct pending_checks *c,
                      struct err *e)
{
    struct buf change = {0};
    char *now = db_create_table(db, schema, c->table, e);
    int rc = now ? 0 : -1;
    if (now && constraints_rename(&change, c->lines, now))
        rc = rename_constraints(db, c, change.p, e);
    buf_free(&change);
    free(now);
    return rc;
}

static int all_names_back(struct swap *s, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < s->plan->count && rc == 0; i++) {
        const struct target *t = &s->plan->list[i];
        struct pending_checks c = {t->name, t->checks, t->heap};
        rc = c.lines ? names_back(s->db, s->job->cfg->schema, &c, e) : 0;
    }
    return rc;
}

int swap_tidy(struct swap *s, struct err *e)
{
    const struct config *c = s->job->cfg;
    int rc = save_late_rows(s, e);
    if (rc == 0)
        rc = drop_own(s->db, c->schema, e);
    if (rc == 0)
        fault_point("restore.dropped");
    if (rc == 0)
        rc = raise_lease(s->db, c, s->generation, e);
    if (rc == 0)
        rc = remember_world(s->db, s->job, s->nonce, s->generation, e);
    if (rc == 0) /* late, for the game waits for the copy of a table */
        rc = all_names_back(s, e);
    if (rc == 0)
        fault_point("restore.named");
    if (rc == 0)
        rc = pending_remove(s->job->dirfd, e);
    if (rc < 0)
        err_step(e, "the world is restored, but tidying up failed");
    return rc;
}

/* Rows in old tables of a restore that was cut off: nobody can tell any more whether they were
 * saved. */
static int save_left_over(struct db *db, const struct job *job, const struct pending *p,
                          struct err *e)
{
    struct db_tables own;
    if (db_own_tables(db, job->cfg->schema, &own, e) < 0)
        return -1;
    struct conflict_source *list = xcalloc(own.count, sizeof *list);
    char file[128], old[64];
    uint64_t rows;
    size_t n = 0;
    for (size_t i = 0; i < p->tables.count; i++) {
        old_name(old, i);
        const struct db_table *t = db_table_find(&own, old);
        if (t && n < own.count)
            list[n++] =
                (struct conflict_source){.table = p->tables.list[i], .from = t->name, .columns = t};
    }
    int rc = n ? conflict_save(db, job, list, n, p->generation, "-left", file, &rows, e) : 0;
    free(list);
    db_tables_free(&own);
    return rc;
}

static bool exists(const struct db_tables *all, const struct db_tables *own, const char *name)
{
    return db_table_find(all, name) || db_table_find(own, name);
}

static int rename_one(struct db *db, const char *from, const char *to, struct err *e)
{
    struct buf b = {0};
    add_rename(&b, from, to);
    int rc = db_exec_len(db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

/* A server that dies inside a RENAME of many tables does only some of them (MariaDB 10.11: each
 * rename is atomic, the list is not). What was moved is moved back, and no table stays without its
 * name. */
static int undo_half_rename(struct db *db, const struct job *job, const struct pending *p,
                            struct err *e)
{
    struct db_tables all, own;
    char old[64], fresh[64];
    if (db_tables(db, job->cfg->schema, true, &all, e) < 0)
        return -1;
    if (db_own_tables(db, job->cfg->schema, &own, e) < 0) {
        db_tables_free(&all);
        return -1;
    }
    int rc = 0;
    for (size_t i = 0; i < p->tables.count && rc == 0; i++) {
        const char *name = p->tables.list[i];
        old_name(old, i);
        snprintf(fresh, sizeof fresh, DB_OWN_PREFIX "new_%06zu", i);
        bool here = exists(&all, &own, name), has_old = exists(&all, &own, old);
        if (has_old && here)
            rc = rename_one(db, name, fresh, e);
        if (has_old && rc == 0)
            rc = rename_one(db, old, name, e);
        else if (!here && !has_old && exists(&all, &own, fresh))
            rc = rename_one(db, fresh, name, e);
    }
    if (rc == 0 && exists(&all, &own, OLD_SENTINEL) && !db_table_find(&all, job->cfg->sentinel))
        rc = rename_one(db, OLD_SENTINEL, job->cfg->sentinel, e);
    db_tables_free(&all);
    db_tables_free(&own);
    return rc;
}

/* A trigger that cannot be put back must not keep the world down; its text stays in a file. */
static int keep_trigger(const struct job *job, const struct db_trigger *t, const struct err *why,
                        struct err *e)
{
    struct buf b = {0}, text = {0};
    char *file = xasprintf("trigger-%016llx.sql",
                           (unsigned long long)sql_tuple_hash(t->name, strlen(t->name)));
    db_trigger_sql(&b, t, t->table);
    buf_addc(&b, '\n');
    int rc = file_commit(job->dirfd, file, b.p, b.len, 0600, e);
    buf_printf(&text, "trigger %s could not be put back (%s); its text is in %s", t->name,
               why->text, file);
    if (job->note)
        job->note(job->note_arg, text.p);
    buf_free(&b);
    buf_free(&text);
    free(file);
    return rc;
}

static int recover_trigger(struct db *db, const struct job *job, struct db_trigger *t,
                           struct err *e)
{
    struct db_triggers one = {t, 1};
    struct err why;
    if (triggers_put(db, job->cfg->schema, &one, &why) == 0)
        return 0;
    if (!db_unanswered(&why))
        return keep_trigger(job, t, &why, e);
    *e = why;
    return -1;
}

/* Those of one moment together, for their order; one by one where that cannot be. */
static int recover_triggers(struct db *db, const struct job *job, const struct db_triggers *list,
                            struct err *e)
{
    int rc = 0;
    size_t end;
    for (size_t i = 0; i < list->count && rc == 0; i = end) {
        struct err ignored;
        for (end = i + 1; end < list->count && same_moment(&list->list[i], &list->list[end]);)
            end++;
        struct db_triggers group = {&list->list[i], end - i};
        if (triggers_put(db, job->cfg->schema, &group, &ignored) == 0)
            continue;
        for (size_t k = i; k < end && rc == 0; k++)
            rc = recover_trigger(db, job, &list->list[k], e);
    }
    return rc;
}

/* A name that cannot be had must not keep the world down. */
static int recover_names(struct db *db, const struct job *job, const struct pending *p,
                         struct err *e)
{
    for (size_t i = 0; i < p->check_count; i++) {
        struct err why;
        if (names_back(db, job->cfg->schema, &p->checks[i], &why) == 0)
            continue;
        if (db_unanswered(&why)) {
            *e = why;
            return -1;
        }
        if (job->note)
            job->note(job->note_arg, why.text);
    }
    return 0;
}

static int recover_pending(struct db *db, const struct job *job, const struct pending *p,
                           bool *swapped, struct err *e)
{
    const struct config *c = job->cfg;
    struct db_sentinel now = {0};
    if (db_sentinel_read(db, c->schema, c->sentinel, &now, e) < 0 && e->num != DB_NO_TABLE)
        return -1;
    *swapped = now.rows == 1 && strcmp(now.nonce, p->nonce) == 0;
    if (!*swapped && undo_half_rename(db, job, p, e) < 0)
        return -1;
    if (recover_triggers(db, job, &p->triggers, e) < 0)
        return -1;
    return *swapped ? save_left_over(db, job, p, e) : 0;
}

int swap_recover(struct db *db, const struct job *job, bool *swapped, struct err *e)
{
    const struct config *c = job->cfg;
    struct pending p;
    *swapped = false;
    if (pending_load(job->dirfd, &p, e) < 0) {
        err_hint(e, "pending.json in the dump directory names triggers to put back; read it, then "
                    "remove it");
        return -1;
    }
    int rc = p.there ? recover_pending(db, job, &p, swapped, e) : 0;
    if (rc == 0)
        rc = drop_own(db, c->schema, e);
    if (rc == 0 && *swapped)
        rc = raise_lease(db, c, p.generation, e);
    if (rc == 0 && *swapped)
        rc = remember_world(db, job, p.nonce, p.generation, e);
    if (rc == 0 && *swapped)
        rc = recover_names(db, job, &p, e);
    if (rc == 0 && p.there)
        rc = pending_remove(job->dirfd, e);
    if (rc < 0)
        err_step(e, "tidying up after a restore that was cut off");
    pending_free(&p);
    return rc;
}
