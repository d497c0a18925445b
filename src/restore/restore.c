#include "restore/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/file.h"
#include "core/js.h"
#include "db/doctor.h"
#include "db/grants.h"
#include "db/sentinel.h"
#include "db/sql.h"
#include "dump/verify.h"
#include "dump/writer.h"
#include "restore/catchup.h"
#include "restore/crew.h"
#include "restore/foreign.h"
#include "restore/load.h"
#include "restore/redefine.h"
#include "restore/swap.h"
#include "store/catalog.h"

/* Milliseconds: the sessions of a restore that was killed end with the statement that they are at.
 */
#define LEASE_PATIENCE 2000
#define SKIPPED_MAX 20 /* dumps that were passed over and are named */

struct run {
    const struct job *job;
    const struct restore_options *opt;
    struct restore_result *out;
    struct db *db;
    const char *schema; /* where to */
    struct catalog catalog;
    struct plan plan;
    uint64_t generation, lease; /* lease: the generation seen at the start */
    bool content;               /* compare all content (drill) */
    bool binlog;                /* the sessions of this restore write the binary log */
    bool rebuilt; /* the server has none of the dump's tables: views and routines are gone too */
    struct redefine definitions; /* of the dump, for a rebuilt server */
    struct catchup changes;      /* since the dump that is being loaded */
    struct manifest before;      /* --force: the dump of the world that is replaced */
    bool skipped_more;           /* dumps were passed over that are not named */
    mono_t began;
};

static void note(const struct run *r, const char *text)
{
    if (r->job->note)
        r->job->note(r->job->note_arg, text);
}

/* The connection that takes the lease is the one that swaps: when it is lost, so is the right to.
 */
static int take_lease(struct run *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    unsigned long holder = 0;
    mono_t deadline = mono_add(clock_mono(), LEASE_PATIENCE);
    int got;
    while ((got = db_lease_lock(r->db, c->schema, &holder, e)) == 0 &&
           !mono_reached(clock_mono(), deadline))
        usleep(100000);
    if (got < 0)
        return -1;
    if (got == 0) {
        err_set(e, ERR_BUSY, 0,
                "another session of the server (connection %lu) is restoring this world", holder);
        err_hint(e, "wait for it, or KILL %lu in the server when it is stuck", holder);
        return -1;
    }
    if (db_execf(r->db, e, "SET SESSION lock_wait_timeout=%d",
                 (int)((c->restore_lock_wait + 999) / 1000)) < 0 ||
        db_lease_read(r->db, c->schema, c->sentinel, &r->lease, e) < 0)
        return -1;
    fault_point("restore.leased");
    return 0;
}

/* Without the right to it the rows are logged: slower, and nothing else is wrong. */
static void choose_binlog(struct run *r)
{
    struct err e;
    r->binlog = r->job->cfg->restore_binlog;
    if (r->binlog || db_exec(r->db, "SET SESSION sql_log_bin=0", &e) == 0)
        return;
    r->binlog = true;
    snprintf(r->out->warning, sizeof r->out->warning,
             "[restore] binlog = no is not allowed to this account: %.300s", e.text);
}

static int ensure_schema(struct run *r, const char *schema, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "USE ");
    sql_ident(&b, schema);
    int rc = db_exec_len(r->db, b.p, b.len, e);
    if (rc < 0 && e->num == DB_NO_SCHEMA && r->opt->dry_run) {
        rc = 0; /* it would be made, and holds nothing */
    } else if (rc < 0 && e->num == DB_NO_SCHEMA) {
        buf_clear(&b);
        buf_adds(&b, "CREATE DATABASE ");
        sql_ident(&b, schema);
        rc = db_exec_len(r->db, b.p, b.len, e);
        buf_clear(&b);
        buf_adds(&b, "USE ");
        sql_ident(&b, schema);
        if (rc == 0)
            rc = db_exec_len(r->db, b.p, b.len, e);
        err_step(e, "making schema %s", schema);
    }
    buf_free(&b);
    return rc;
}

static int any_rows(struct run *r, bool *any, struct err *e)
{
    struct db_tables t;
    *any = false;
    if (db_tables(r->db, r->job->cfg->schema, false, &t, e) < 0)
        return -1;
    for (size_t i = 0; i < t.count; i++)
        if (t.list[i].rows > 0 && strcmp(t.list[i].name, r->job->cfg->sentinel) != 0)
            *any = true;
    db_tables_free(&t);
    return 0;
}

/* Is there a world that a restore would overwrite? The sentinel's row says so; without it the
 * server's start time, and when nothing is known of before, any row. */
static int world_lives(struct run *r, bool *lives, const char **why, struct err *e)
{
    const struct config *c = r->job->cfg;
    const struct state *st = r->opt->state;
    struct db_sentinel s = {0};
    *lives = false;
    if (db_sentinel_read(r->db, c->schema, c->sentinel, &s, e) < 0 && !db_table_missing(e))
        return -1;
    if (db_server_id(r->db, &r->out->server, e) < 0)
        return -1;
    if (s.rows > 0) {
        *lives = true;
        *why = "its sentinel row is there";
        return 0;
    }
    bool rows;
    if (any_rows(r, &rows, e) < 0)
        return -1;
    if (st && st->known && st->server.start == r->out->server.start) {
        *lives = rows;
        *why = "the server was not restarted since the world was last seen alive";
    } else if (!(st && st->known)) {
        const struct catalog_entry *newest = catalog_newest(&r->catalog, 0);
        bool restarted = newest && newest->m.server.start != r->out->server.start;
        *lives = rows && !restarted;
        *why = "its tables hold rows and nothing proves a restart of the server";
    }
    return 0;
}

static int dump_before_force(struct run *r, struct err *e)
{
    struct db_sentinel s = {0};
    struct err why;
    struct dump_options opt = {.accept_shrink = true, .keep_all = true};
    const struct config *c = r->job->cfg;
    bool rows;
    if (any_rows(r, &rows, e) < 0)
        return -1;
    /* Without a sentinel row a dump cannot vouch for anything: the rows go to the conflict file
     * instead. */
    if (!rows || db_sentinel_read(r->db, c->schema, c->sentinel, &s, &why) < 0 || s.rows != 1)
        return 0;
    note(r, "--force: taking a dump of the living world first");
    if (dump_run(r->job, &opt, &r->before, e) < 0) {
        err_step(e, "the dump before a forced restore failed, so nothing was replaced");
        return -1;
    }
    char text[256];
    snprintf(text, sizeof text, "the world as it was is in %s", r->before.name);
    note(r, text);
    return 0;
}

static int guard_world(struct run *r, struct err *e)
{
    bool lives;
    const char *why = "";
    if (world_lives(r, &lives, &why, e) < 0)
        return -1;
    r->out->over_living = lives;
    if (!lives || r->opt->dry_run)
        return 0;
    if (!r->opt->force) {
        err_set(e, ERR_REFUSED, 0, "the world is alive: %s", why);
        err_hint(e, "--force replaces it (after a dump of what is there); --into SCHEMA restores "
                    "beside it");
        return -1;
    }
    return dump_before_force(r, e);
}

/* After a change of the key hundreds may be none: a log and an answer of all of them help nobody.
 */
static void skipped(struct run *r, const char *dump, const char *reason)
{
    char text[1200];
    size_t told = json_array_size(r->out->skipped);
    if (told == SKIPPED_MAX && !r->skipped_more)
        note(r, "further dumps are passed over without a word; --verify names each");
    r->skipped_more = told == SKIPPED_MAX;
    if (r->skipped_more)
        return;
    json_array_append_new(r->out->skipped,
                          json_pack("{s:s, s:o}", "dump", dump, "reason", js_clean(reason)));
    snprintf(text, sizeof text, "dump %s passed over: %.1000s", dump, reason);
    note(r, text);
}

static void drop_places(struct run *r)
{
    struct err ignored;
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        if (!t->created)
            continue;
        struct buf b = {0};
        buf_adds(&b, "DROP TABLE IF EXISTS ");
        sql_ident(&b, r->plan.into ? t->name : t->shadow);
        db_exec_len(r->db, b.p, b.len, &ignored);
        buf_free(&b);
    }
}

static bool comes_anew(const void *arg, const char *table)
{
    const struct target *t = plan_find(arg, table);
    return t && !t->live && t->created;
}

/* Views, routines, triggers and events outlive a restart; only a rebuilt server has lost them as
 * well, and a table that was dropped its triggers. The world is in already, so that a refusal (a
 * definer that is not there any more) is only told. */
static void restore_definitions(struct run *r)
{
    char told[sizeof r->out->warning];
    if (!r->rebuilt)
        redefine_triggers(&r->definitions, comes_anew, &r->plan);
    redefine_run(r->db, &r->definitions, told, sizeof told);
    if (told[0])
        snprintf(r->out->warning, sizeof r->out->warning, "%s", told);
}

static int see_definition(void *arg, const struct format_item *item, struct err *e)
{
    struct run *r = arg;
    (void)e;
    if (item->type == FORMAT_DEFINITION)
        redefine_note(&r->definitions, item->sql, item->sql_len);
    return 0;
}

static bool none_is_there(const struct plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i].live)
            return false;
    return true;
}

static struct crew_work work_of(struct run *r, const struct manifest *m)
{
    return (struct crew_work){.job = r->job,
                              .schema = r->schema,
                              .db = r->db,
                              .leased = !r->opt->into,
                              .binlog = r->binlog,
                              .plan = &r->plan,
                              .m = m,
                              .fold = r->changes.journal.fold,
                              .content = r->content,
                              .rest = see_definition,
                              .arg = r};
}

static int load_planned(struct run *r, const struct manifest *m, const char *file, struct err *e)
{
    struct crew_work w = work_of(r, m);
    w.connections = crew_size(r->job->cfg->restore_connections, m->table_count);
    r->rebuilt = !r->opt->into && none_is_there(&r->plan);
    progress_phase(r->job->progress, "loading", m->rows, 0);
    int rc = crew_load(&w, file, e);
    r->out->connections = w.connections;
    r->out->way = db_bulk_way_name(w.way);
    if (rc == 0)
        fault_point("restore.loaded");
    return rc;
}

static int catch_up(struct run *r, const struct manifest *m, struct err *e)
{
    r->changes.job = r->job;
    r->changes.opt = r->opt;
    r->changes.out = r->out;
    r->changes.db = r->db;
    r->changes.plan = &r->plan;
    return catchup_read(&r->changes, m, e);
}

static int load_own(struct run *r, const struct manifest *m, struct err *e)
{
    redefine_free(&r->definitions);
    char *file = xasprintf("%s.sql.gz", m->name);
    snprintf(r->out->dump, sizeof r->out->dump, "%s", m->name);
    r->out->dump_at = m->at;
    int rc = plan_from_manifest(&r->plan, r->job, m, e);
    if (rc == 0)
        rc = plan_finish(r->db, &r->plan, r->job, r->schema, e);
    if (rc == 0)
        rc = catch_up(r, m, e);
    if (rc == 0 && r->opt->dry_run) {
        progress_phase(r->job->progress, "verifying", m->rows, m->file_size);
        struct crew_work w = work_of(r, m);
        rc = verify_dump(r->job->dirfd, file, m, r->job->progress, e);
        if (rc == 0)
            rc = crew_look(&w, file, e);
    } else if (rc == 0) {
        rc = load_planned(r, m, file, e);
    }
    free(file);
    return rc;
}

static int fresh_plan(struct run *r, struct err *e)
{
    plan_free(&r->plan);
    return plan_begin(r->db, r->schema, r->opt->into != NULL, &r->plan, e);
}

static int nothing_intact(const struct run *r, struct err *e)
{
    const json_t *first = json_array_get(r->out->skipped, 0);
    char t[TEXT_SHORT];
    if (r->opt->at.ms && !first && r->catalog.count) {
        err_set(e, ERR_NOTHING, 0, "no dump of world %s is as old as %s", r->job->cfg->name,
                text_utc(r->opt->at, t));
        err_hint(e, "the oldest one is %s", r->catalog.list[r->catalog.count - 1].m.name);
        return -1;
    }
    err_set(e, ERR_NOTHING, 0, "no intact dump of world %s in %s (%zu looked at%s%s%s%.300s)",
            r->job->cfg->name, r->job->cfg->dump_dir, r->catalog.count, first ? "; " : "",
            js_text(first, "dump"), first ? ": " : "", js_text(first, "reason"));
    if (r->catalog.count)
        err_hint(e, "worldkeeper --verify says what is wrong with each; --restore=PATH takes any "
                    "mysqldump file");
    else
        err_hint(e, "worldkeeper --dump takes one of a living world; --restore=PATH takes any "
                    "mysqldump file");
    return -1;
}

/* Changes that do not fit the dump are left out; the dump is what was proven. */
static int load_with_journal(struct run *r, const struct manifest *m, struct err *e)
{
    int rc = load_own(r, m, e);
    if (rc == 0 || e->cls != ERR_GAP)
        return rc;
    note(r, e->text);
    drop_places(r);
    r->changes.off = true;
    if (fresh_plan(r, e) < 0)
        return -1;
    snprintf(r->out->journal.gap, sizeof r->out->journal.gap, "%.600s", e->text);
    return load_own(r, m, e);
}

/* The newest intact one, then the next older: only damage leads to another, never a server's error.
 */
static int load_newest(struct run *r, struct err *e)
{
    unsigned skip = r->opt->skip;
    for (size_t i = 0; i < r->catalog.count; i++) {
        const struct catalog_entry *c = &r->catalog.list[i];
        if (!c->intact) {
            skipped(r, c->m.name, c->reason);
            continue;
        }
        if (r->opt->at.ms && c->m.at.ms + c->m.took_ms > r->opt->at.ms)
            continue; /* its moment is not yet over by then */
        if (skip) {
            skip--;
            skipped(r, c->m.name, "two restores of it made no progress");
            continue;
        }
        fault_point("restore.chosen");
        if (fresh_plan(r, e) < 0)
            return -1;
        if (load_with_journal(r, &c->m, e) == 0)
            return 0;
        if (e->cls != ERR_DAMAGED)
            return -1;
        drop_places(r);
        skipped(r, c->m.name, e->text);
    }
    return nothing_intact(r, e);
}

/* NULL: not there, or not whole. */
static const struct catalog_entry *find_named(const struct run *r, const char *name, struct err *e)
{
    char plain[DUMP_NAME_MAX];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, "."), name);
    const struct catalog_entry *c = catalog_find(&r->catalog, plain);
    if (!c) {
        err_set(e, ERR_NOTHING, 0, "no dump %s in %s", name, r->job->cfg->dump_dir);
        err_hint(e, "worldkeeper --list shows them; a path has a / in it");
    } else if (!c->intact) {
        err_set(e, ERR_NOTHING, 0, "dump %s is not intact: %s", name, c->reason);
        c = NULL;
    }
    return c;
}

static int load_named(struct run *r, const char *name, struct err *e)
{
    const struct catalog_entry *c = find_named(r, name, e);
    if (!c)
        return -1;
    fault_point("restore.chosen");
    if (fresh_plan(r, e) < 0 || load_own(r, &c->m, e) < 0) {
        if (e->cls == ERR_DAMAGED)
            e->cls = ERR_NOTHING;
        return -1;
    }
    return 0;
}

/* Somebody else's statements: in their order, on one connection. */
static int load_statements(struct run *r, int fd, const char *path,
                           const struct foreign_report *report, struct err *e)
{
    struct loader l;
    _Atomic uint64_t rows = 0;
    progress_phase(r->job->progress, "loading", 0, 0);
    int rc = loader_begin(&l, r->db, r->job, r->schema, &r->plan, &rows, e);
    if (rc == 0)
        rc = foreign_load(fd, path, report, &l, e);
    if (rc == 0) {
        fault_point("restore.loaded");
        progress_phase(r->job->progress, "checking", 0, 0);
    }
    for (size_t i = 0; i < r->plan.count && rc == 0; i++) {
        const struct target *t = &r->plan.list[i];
        progress_table(r->job->progress, t->name);
        rc = loader_check(&l, t, false, e);
        if (t->warnings)
            snprintf(r->out->warning, sizeof r->out->warning,
                     "the server gave %" PRIu64 " warnings while loading table %.200s", t->warnings,
                     t->name);
    }
    loader_end(&l);
    r->out->connections = 1;
    return rc;
}

static int load_file(struct run *r, const char *path, struct err *e)
{
    struct foreign_report report;
    struct stat st;
    int rc = -1, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        err_sys(e, fd < 0 ? errno : EINVAL, "cannot open %s", path);
        goto out;
    }
    fault_point("restore.chosen");
    progress_phase(r->job->progress, "reading", 0, 0);
    if (fresh_plan(r, e) < 0 || foreign_plan(fd, path, &r->plan, r->job, &report, e) < 0 ||
        plan_finish(r->db, &r->plan, r->job, r->schema, e) < 0)
        goto out;
    if (!report.ends && !r->opt->force) {
        err_set(e, ERR_REFUSED, 0,
                "%s has no closing \"-- Dump completed\" line: it may be cut short", path);
        err_hint(e, "look at its end; --force restores it all the same");
        goto out;
    }
    snprintf(r->out->dump, sizeof r->out->dump, "%s", path);
    rc = r->opt->dry_run ? 0 : load_statements(r, fd, path, &report, e);
out:
    if (fd >= 0)
        close(fd);
    return rc;
}

static bool is_path(const char *s)
{
    size_t n = strlen(s);
    return strchr(s, '/') || (n > 4 && strcmp(s + n - 4, ".sql") == 0) ||
           (n > 3 && strcmp(s + n - 3, ".gz") == 0 && access(s, F_OK) == 0);
}

bool restore_newest(const char *dump)
{
    return !dump || strcmp(dump, "latest") == 0;
}

/* A name that was mistyped is told before anything is done for it: --force would dump the living
 * world, and that dump could be the one too many that pushes out what was meant. */
static int look_for_dump(const struct run *r, struct err *e)
{
    const char *d = r->opt->dump;
    if (restore_newest(d))
        return 0;
    if (!is_path(d))
        return find_named(r, d, e) ? 0 : -1;
    return access(d, R_OK) == 0 ? 0 : err_sys(e, errno, "cannot open %s", d);
}

static int load(struct run *r, struct err *e)
{
    const char *d = r->opt->dump;
    if (restore_newest(d))
        return load_newest(r, e);
    if (is_path(d) && r->opt->at.ms)
        return err_set(e, ERR_USAGE, 0,
                       "--at needs a dump of ours; %s does not know its place in a log", d);
    return is_path(d) ? load_file(r, d, e) : load_named(r, d, e);
}

static void tell_plan(struct run *r)
{
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        /* The sentinel is made anew, with as many rows as before. */
        bool anew = !r->opt->into && strcmp(t->name, r->job->cfg->sentinel) == 0;
        json_t *o = json_pack("{s:o, s:I, s:b, s:b}", "table", js_clean(t->name), "rows",
                              (json_int_t)(t->created ? t->rows : t->expected), "restored",
                              !t->skip || anew, "triggers", t->triggers);
        if (t->why)
            json_object_set_new(o, "why", json_string(t->why));
        else if (t->mapped)
            json_object_set_new(o, "why",
                                json_string("its columns changed; rows go by column name"));
        json_array_append_new(r->out->plan, o);
        if (!t->skip || anew) {
            r->out->tables++;
            r->out->rows += t->created ? t->rows : t->expected;
        }
    }
    for (size_t i = 0; i < r->plan.not_in_dump.count; i++)
        json_array_append_new(r->out->plan,
                              json_pack("{s:o, s:i, s:s, s:s}", "table",
                                        js_clean(r->plan.not_in_dump.list[i]), "rows", 0,
                                        "restored", 0, "why", "not in the dump; left as it is"));
}

/* Last look before the point of no return: still our lease, still nothing alive that we did not
 * mean. */
static int last_look(struct run *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    uint64_t lease;
    struct db_sentinel s = {0};
    if (db_lease_read(r->db, c->schema, c->sentinel, &lease, e) < 0)
        return -1;
    if (lease != r->lease)
        return err_set(e, ERR_REFUSED, 0,
                       "somebody else raised the generation to %" PRIu64 " meanwhile", lease);
    if (db_sentinel_read(r->db, c->schema, c->sentinel, &s, e) < 0 && e->num != DB_NO_TABLE)
        return -1;
    if (s.rows && !r->opt->force)
        return err_set(e, ERR_REFUSED, 0, "the world came alive while it was being restored");
    return 0;
}

static int swap_world(struct run *r, struct err *e)
{
    struct swap s = {.db = r->db,
                     .job = r->job,
                     .plan = &r->plan,
                     .generation = r->generation,
                     .upto = r->changes.journal.upto,
                     .unlogged = !r->binlog,
                     .dumped = &r->before};
    struct err late;
    char text[400];
    if (db_nonce(s.nonce, e) < 0)
        return -1;
    snprintf(s.dump, sizeof s.dump, "%.128s",
             strrchr(r->out->dump, '/') ? strrchr(r->out->dump, '/') + 1 : r->out->dump);
    fault_point("restore.checked");
    progress_phase(r->job->progress, "swapping", 0, 0);
    if (swap_save_conflicts(&s, e) < 0)
        return -1;
    fault_point("restore.conflict_saved");
    if (last_look(r, e) < 0 || swap_in(&s, e) < 0)
        return -1;
    restore_definitions(r);
    if (swap_tidy(&s, &late) < 0)
        snprintf(r->out->warning, sizeof r->out->warning, "%.500s", late.text);
    snprintf(r->out->nonce, sizeof r->out->nonce, "%s", s.nonce);
    r->out->generation = s.generation;
    r->out->conflict_rows = s.conflict_rows;
    snprintf(r->out->conflict_file, sizeof r->out->conflict_file, "%s", s.conflict_file);
    if (s.conflict_rows) {
        snprintf(text, sizeof text, "%" PRIu64 " rows found in the replaced tables are saved in %s",
                 s.conflict_rows, s.conflict_file);
        note(r, text);
    }
    fault_point("restore.done");
    /* A server that died since has emptied it again: nobody is told that the world is up. */
    if (db_exec(r->db, "DO 1", e) < 0) {
        err_step(e, "the world was swapped in, but");
        return -1;
    }
    return 0;
}

static int run_steps(struct run *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    struct db_params p = r->job->db;
    bool swapped;
    progress_phase(r->job->progress, "choosing", 0, 0);
    p.bulk = true;
    r->db = db_open(&p, e);
    if (r->db)
        choose_binlog(r);
    if (!r->db || catalog_load(r->job->dirfd, c->name, &r->catalog, e) < 0 ||
        ensure_schema(r, r->schema, e) < 0)
        return -1;
    if (!r->opt->into && !r->opt->dry_run &&
        (take_lease(r, e) < 0 || swap_recover(r->db, r->job, &swapped, e) < 0 ||
         db_lease_read(r->db, c->schema, c->sentinel, &r->lease, e) < 0))
        return -1;
    r->generation = r->catalog.generation > r->lease ? r->catalog.generation : r->lease;
    if (r->opt->state && r->opt->state->generation > r->generation)
        r->generation = r->opt->state->generation;
    r->generation++;
    if (look_for_dump(r, e) < 0 || (!r->opt->into && guard_world(r, e) < 0))
        return -1;
    if (load(r, e) < 0)
        return -1;
    if (r->opt->into || r->opt->dry_run)
        return 0;
    return swap_world(r, e);
}

/* --check knows the world's schema only, so the GRANT for another one is told here. */
static void hint_into(struct run *r, struct err *e)
{
    struct err ignored;
    struct buf b = {0};
    struct doctor_session session;
    struct grants g = {.literal = db_variable_number(r->db, "partial_revokes") == 1};
    if (doctor_session(r->db, &session, &ignored) < 0)
        return;
    buf_adds(&b, "GRANT " DOCTOR_SCRATCH_RIGHTS);
    doctor_target(&b, &g, r->schema, session.account);
    err_hint(e, "%s;", b.p);
    buf_free(&b);
}

int restore_run(const struct job *job, const struct restore_options *opt,
                struct restore_result *out, struct err *e)
{
    struct run r = {.job = job, .opt = opt, .out = out, .began = clock_mono()};
    *out = (struct restore_result){.skipped = json_array(), .plan = json_array()};
    r.schema = opt->into ? opt->into : job->cfg->schema;
    int rc = run_steps(&r, e);
    if (rc < 0 && r.db)
        drop_places(&r);
    if (rc < 0 && r.db && opt->into && e->cls == ERR_DENIED && strstr(e->hint, "GRANT"))
        hint_into(&r, e);
    if (rc == 0)
        tell_plan(&r);
    if (rc < 0)
        err_step(e, "restore");
    out->took_ms = mono_since(clock_mono(), r.began);
    redefine_free(&r.definitions);
    manifest_free(&r.before);
    catchup_free(&r.changes);
    plan_free(&r.plan);
    catalog_free(&r.catalog);
    db_close(r.db);
    return rc;
}

void restore_result_free(struct restore_result *r)
{
    json_decref(r->skipped);
    json_decref(r->plan);
    *r = (struct restore_result){0};
}

json_t *restore_json(const struct restore_result *r)
{
    json_t *o = json_pack(
        "{s:o, s:I, s:I, s:f, s:I, s:i, s:s, s:s, s:I, s:O, s:O}", "dump", js_clean(r->dump),
        "rows", (json_int_t)r->rows, "tables", (json_int_t)r->tables, "seconds",
        (double)r->took_ms / 1000.0, "generation", (json_int_t)r->generation, "connections",
        (int)r->connections, "load", r->way ? r->way : "insert", "conflict_file", r->conflict_file,
        "conflict_rows", (json_int_t)r->conflict_rows, "skipped", r->skipped, "plan", r->plan);
    if (r->warning[0])
        js_set_clean(o, "warning", r->warning);
    if (r->journal.used || r->journal.gap[0])
        json_object_set_new(o, "journal", catchup_json(r));
    return o;
}

int restore_drill(const struct job *job, const char *dump, struct restore_result *out,
                  struct err *e)
{
    char scratch[256];
    /* 64 characters at most; a schema name may have as many of its own */
    snprintf(scratch, sizeof scratch, "worldkeeper_drill_%.40s", job->cfg->name);
    struct restore_options opt = {.dump = dump, .into = scratch};
    struct run r = {.job = job,
                    .opt = &opt,
                    .out = out,
                    .schema = scratch,
                    .content = true,
                    .began = clock_mono()};
    *out = (struct restore_result){.skipped = json_array(), .plan = json_array()};
    struct buf drop = {0};
    buf_adds(&drop, "DROP DATABASE IF EXISTS ");
    sql_ident(&drop, scratch);
    struct db_params p = job->db;
    struct db *db = db_open(&p, e);
    int rc = db ? db_exec_len(db, drop.p, drop.len, e) : -1;
    if (rc == 0)
        rc = run_steps(&r, e);
    if (rc == 0)
        tell_plan(&r);
    struct err last;
    if (db && db_exec_len(db, drop.p, drop.len, &last) < 0 && rc == 0) {
        *e = last;
        rc = -1;
    }
    if (rc < 0)
        err_step(e, "drill");
    out->took_ms = mono_since(clock_mono(), r.began);
    buf_free(&drop);
    plan_free(&r.plan);
    catalog_free(&r.catalog);
    db_close(r.db);
    db_close(db);
    return rc;
}

int restore_tidy(const struct job *job, struct err *e)
{
    struct db_params p = job->db;
    p.schema = job->cfg->schema;
    bool swapped;
    unsigned long holder;
    struct db *db = db_open(&p, e);
    if (!db)
        return -1;
    int rc = db_lease_lock(db, job->cfg->schema, &holder, e);
    if (rc == 0)
        rc = err_set(e, ERR_BUSY, 0, "connection %lu is restoring this world", holder);
    if (rc > 0)
        rc = swap_recover(db, job, &swapped, e);
    db_close(db);
    return rc;
}
