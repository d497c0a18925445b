#include "restore/restore.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "dump/verify.h"
#include "dump/writer.h"
#include "mysql/account.h"
#include "mysql/galera.h"
#include "mysql/lease.h"
#include "mysql/server.h"
#include "mysql/sentinel.h"
#include "restore/catchup.h"
#include "restore/chosen.h"
#include "restore/code.h"
#include "restore/import.h"
#include "restore/ledgers.h"
#include "restore/load_pool.h"
#include "restore/rehearse.h"
#include "restore/swap.h"
#include "restore/turn.h"
#include "restore/warm.h"
#include "store/catalog.h"
#include "store/proof.h"

/* Milliseconds: the sessions of a killed restore end with their current statement. */
#define LEASE_PATIENCE 2000
#define SKIPPED_MAX 20 /* skipped dumps that are named */

struct run {
    const struct job *job;
    const struct restore_options *opt;
    struct restore_result *out;
    const char *schema; /* the target */
    bool swap;          /* into the world: under the lease, and swapped in at the end */
    struct db *db;      /* holds the lease, and does the swap */
    struct catalog catalog;
    struct plan plan;
    uint64_t generation, lease; /* lease: the generation seen at the start */
    bool binlog;                /* the sessions of this restore write to the binary log */
    struct code code;           /* of the dump */
    struct code_case code_case;
    struct catchup changes;    /* since the dump that is being loaded */
    struct db_sentinel living; /* --table: of the world that the tables are swapped into; or of the
                                * empty one that may be replaced */
    struct manifest before;    /* --force: the dump of the world that is replaced */
    bool skipped_more;         /* more dumps were skipped than are named */
    bool again;                /* loads of a dump tried here failed before because of its content */
    bool unloadable;           /* this dump has failed often enough to be skipped */
    int path_fd;               /* the file that was given by its path; -1: none */
};

/* ---- the session ---- */

/* What a killed drill has left over, or a standby's worker, or a promotion that could not drop it. */
static void drop_left_over(const struct job *job, struct db *db, const char *prefix)
{
    char schema[CONFIG_OWN_SCHEMA_MAX];
    struct err e = {0};
    config_own_schema(prefix, job->cfg, schema);
    SCOPED(xfree) char *there = db_schema_name(db, schema, &e);
    if (!there)
        return;
    db_exec(db, "SET SESSION sql_log_bin=0", &e);
    /* Somebody may look at it, or its session hang behind a network that is gone: the world comes
     * first. */
    db_lock_wait(db, LEASE_PATIENCE, &e);
    if (db_exec_with(db, "DROP DATABASE IF EXISTS ??", DB_ARGS(schema), &e) < 0)
        job_note(job, "schema %s, which is not needed any more, stays: %s", schema, e.text);
}

/* A session whose statements stay on the server that it is connected to. */
static struct db *open_own(const struct db_params *p, struct err *e)
{
    struct db *db = db_open(p, e);
    if (!db || galera_own_node(db, e) == 0)
        return db;
    db_close(db);
    return NULL;
}

/* The connection that takes the lease also does the swap: if it is lost, so is the lease, and
 * nothing is swapped. */
static int take_lease(struct run *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    if (db_lease_take(r->db, c->schema, LEASE_PATIENCE, e) < 0 ||
        db_lock_wait(r->db, c->restore_lock_wait, e) < 0 ||
        db_lease_read(r->db, c->schema, c->sentinel, &r->lease, e) < 0)
        return -1;
    fault_point("restore.leased");
    return 0;
}

/* Without the privilege to switch logging off the rows are logged, which is only slower. */
static void choose_binlog(struct run *r)
{
    struct err e;
    r->binlog = r->job->cfg->restore_binlog && !r->opt->drill && !r->opt->copy;
    if (r->binlog || db_exec(r->db, "SET SESSION sql_log_bin=0", &e) == 0)
        return;
    r->binlog = true;
    if (r->job->cfg->restore_binlog) /* replicas then execute a drill just like a restore */
        return;
    snprintf(r->out->warning, sizeof r->out->warning,
             "[restore] binlog = no is not allowed to this account: %.300s", e.text);
}

/* The effect on replicas is reported before the restore and with the result. */
static void warn_of_replicas(struct run *r)
{
    struct restore_result *out = r->out;
    int n = out->replicas = replicas_connected(r->db);
    const char *verb = n == 1 ? "replica is" : "replicas are";
    if (n <= 0 || r->opt->drill || r->opt->copy)
        return;
    if (r->binlog) {
        job_note(r->job,
                 "%d %s connected: all this is logged, and carried out there too; one whose "
                 "max_heap_table_size is too small for a table stops at it (error 1114)",
                 n, verb);
    } else if (!r->opt->into) {
        snprintf(out->warning, sizeof out->warning,
                 "%d %s connected and will get nothing of this ([restore] binlog = no): one that "
                 "does not hold the same rows stops at the next change of a row that it lacks "
                 "(error 1032) or has (1062)",
                 n, verb);
        job_note(r->job, "%s", out->warning);
    }
}

static int use_schema(struct run *r, struct err *e)
{
    if (db_exec_with(r->db, "USE ??", DB_ARGS(r->schema), e) == 0)
        return 0;
    if (e->num != DB_NO_SCHEMA)
        return -1;
    if (r->opt->dry_run)
        return 0; /* it would be created, and is empty */
    return db_exec_with(r->db, "CREATE DATABASE ??", DB_ARGS(r->schema), e) < 0 ||
                   db_exec_with(r->db, "USE ??", DB_ARGS(r->schema), e) < 0
               ? err_step(e, "making schema %s", r->schema)
               : 0;
}

/* ---- may the world be replaced? ---- */

/* Of MEMORY tables; the sentinel's row is no row of the world. */
static int any_rows(struct run *r, bool *any, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables t = {0};
    *any = false;
    if (db_tables(r->db, r->job->cfg->schema, false, &t, e) < 0)
        return -1;
    for (size_t i = 0; i < t.count; i++)
        if (t.list[i].rows > 0 && strcmp(t.list[i].name, r->job->cfg->sentinel) != 0)
            *any = true;
    return 0;
}

/* Why there is a world that a restore would overwrite; *why NULL: there is none. The sentinel's row
 * decides; without it the server's start time; and if the earlier state is not known, any rows. */
static int world_lives(struct run *r, const char **why, struct err *e)
{
    const struct config *c = r->job->cfg;
    const struct state *st = r->opt->state;
    const struct server_id *server = &r->out->server;
    struct db_sentinel s = {0};
    bool rows;
    *why = NULL;
    if (db_sentinel_read(r->db, c->schema, c->sentinel, &s, e) < 0 && !db_table_missing(e))
        return -1;
    if (db_server_id(r->db, &r->out->server, e) < 0)
        return -1;
    if (any_rows(r, &rows, e) < 0)
        return -1;
    if (r->opt->promotion) {
        r->living = s;
        return 0;
    }
    if (s.rows > 0) {
        bool empty = r->opt->fetched && !rows && s.rows == 1;
        *why = empty ? NULL : "its sentinel row is there";
        r->living = empty ? s : r->living;
        return 0;
    }
    if (st && st->known) {
        /* automatic: the probes also saw the connection break */
        if (!server_restarted(server, &st->server) && rows && !r->opt->automatic)
            *why = "the server was not restarted since the world was last seen alive";
    } else {
        const struct catalog_entry *newest = catalog_newest(&r->catalog, 0);
        if (rows && !(newest && server_restarted(server, &newest->m.server)))
            *why = "its tables hold rows and nothing proves a restart of the server";
    }
    return 0;
}

/* Changes nothing. */
static int guard_world(struct run *r, struct err *e)
{
    const struct restore_options *o = r->opt;
    const char *why;
    if (o->into)
        return 0;
    if (o->tables.count) {
        r->out->over_living = true;
        return db_server_id(r->db, &r->out->server, e) < 0
                   ? -1
                   : chosen_guard(r->db, r->job->cfg, o->state, &o->tables, o->force, &r->living,
                                  e);
    }
    if (world_lives(r, &why, e) < 0)
        return -1;
    r->out->over_living = why != NULL;
    if (!why || o->force)
        return 0;
    err_set(e, ERR_REFUSED, 0, "the world is alive: %s", why);
    return err_hint(e,
                    "--force replaces it (after a dump of what is there); --into SCHEMA restores "
                    "beside it");
}

/* --force over a living world: it is dumped first. Without a sentinel row nothing shows which world
 * that would be: the rows go to the conflict file instead. */
static int keep_living(struct run *r, struct err *e)
{
    struct db_sentinel s = {0};
    struct err why;
    struct dump_options opt = {.accept_shrink = true, .keep_all = true};
    const struct config *c = r->job->cfg;
    bool rows;
    if (!r->out->over_living || !r->opt->force || r->opt->dry_run)
        return 0;
    if (any_rows(r, &rows, e) < 0)
        return -1;
    if (!rows || db_sentinel_read(r->db, c->schema, c->sentinel, &s, &why) < 0 || s.rows != 1)
        return 0;
    job_note(r->job, "--force: taking a dump of the living world first");
    if (dump_run(r->job, &opt, &r->before, e) < 0)
        return err_step(e, "the dump before a forced restore failed, so nothing was replaced");
    job_note(r->job, "the world as it was is in %s", r->before.name);
    return 0;
}

/* What is fetched may take the place of an empty world only. */
static int guard_empty(struct run *r, struct err *e)
{
    bool rows = false;
    if (!r->opt->fetched || r->opt->promotion || r->opt->force || r->opt->tables.count ||
        r->living.rows != 1)
        return 0;
    if (any_rows(r, &rows, e) < 0)
        return -1;
    return rows ? err_set(e, ERR_REFUSED, 0,
                          "the world was empty, and rows were written into it meanwhile")
                : 0;
}

/* Last check before the point of no return: the lease is still ours, and no world came alive that
 * may not be replaced. */
static int guard_swap(struct run *r, struct err *e)
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
    if (r->opt->tables.count) {
        if (s.rows == 1 && strcmp(s.nonce, r->living.nonce) == 0)
            return 0;
        return err_set(e, ERR_REFUSED, 0, "the world was lost or replaced meanwhile");
    }
    /* That may go: a world without rows, or what a standby has in its schema. */
    bool empty = r->opt->fetched && s.rows == 1 && strcmp(s.nonce, r->living.nonce) == 0;
    if (s.rows && !r->opt->force && !empty)
        return err_set(e, ERR_REFUSED, 0, "the world came alive while it was being restored");
    return empty ? guard_empty(r, e) : 0;
}

/* ---- views, routines, triggers and events ---- */

static bool is_new_table(const void *arg, const char *table)
{
    const struct target *t = plan_find(arg, table);
    return t && !t->live && !t->skip;
}

/* The use of the dump's code depends on what exists before anything is loaded. `m`: NULL for a file
 * that is not one of our dumps. */
static int judge_code(struct run *r, const struct manifest *m, struct err *e)
{
    struct code_case *c = &r->code_case;
    *c = (struct code_case){.with_code = r->opt->with_code,
                            .into = r->opt->into != NULL,
                            .trust = m ? code_trust(r->job->cfg, m) : CODE_UNKNOWN};
    for (size_t i = 0; i < r->plan.count; i++)
        c->known |= r->plan.list[i].live != NULL;
    if (code_schema_empty(r->db, r->schema, r->job->cfg->sentinel, &c->empty, e) < 0)
        return err_step(e, "looking for what the schema holds");
    return 0;
}

/* They survive a restart; only a rebuilt server has lost them, and a dropped table its triggers.
 * The rows are already restored, so a refusal (a missing privilege) is only reported. A dry run with
 * --with-code names what would be made. */
static void restore_code(struct run *r)
{
    struct code_report *out = &r->out->code;
    enum code_use use = code_use(&r->code_case);
    struct code_run run = {.db = r->db,
                           .schema = r->schema,
                           .trust = r->code_case.trust,
                           .triggers_only = use == CODE_TRIGGERS || r->opt->tables.count > 0,
                           .made_again = is_new_table,
                           .arg = &r->plan};
    if (r->opt->drill || r->opt->copy || !r->code.count)
        return;
    if (r->opt->dry_run)
        code_list(&r->code, &run, out);
    else if (use == CODE_MAKE)
        code_make(&r->code, &run, out);
    else
        code_leave(&r->code, &run, code_why(&r->code_case), out);
    if (r->opt->dry_run)
        return;
    char warning[sizeof r->out->warning];
    code_warning(out, r->out->dump, r->opt->into != NULL, warning, sizeof warning);
    if (warning[0])
        snprintf(r->out->warning, sizeof r->out->warning, "%s", warning);
}

static int see_definition(void *arg, const struct format_item *item, struct err *e)
{
    struct run *r = arg;
    (void)e;
    if (item->type == FORMAT_DEFINITION)
        code_note(&r->code, item->sql, item->sql_len);
    return 0;
}

/* ---- loading one dump of ours ---- */

static int begin_plan(struct run *r, struct err *e)
{
    plan_free(&r->plan);
    if (plan_begin(r->db, r->schema, r->opt->into != NULL, &r->plan, e) < 0)
        return -1;
    r->plan.only = r->opt->tables.count ? &r->opt->tables : NULL;
    r->plan.copy = r->opt->copy;
    return 0;
}

/* Drops the tables that a failed attempt created, before the next dump is tried. */
static void drop_shadows(struct run *r)
{
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        if (t->created)
            db_exec_with(r->db, "DROP TABLE IF EXISTS ??",
                         DB_ARGS(r->plan.into ? t->name : t->shadow), NULL);
    }
}

static bool is_arriving(const struct run *r, const struct manifest *m)
{
    const struct restore_arriving *a = r->opt->arriving;
    return a && strcmp(a->m->name, m->name) == 0;
}

/* A dry run verifies the whole file and asks the server about definitions; it loads nothing. */
static int load_planned(struct run *r, const struct manifest *m, struct verify_file *file,
                        struct err *e)
{
    struct progress *progress = r->job->progress;
    const struct config *cfg = r->job->cfg;
    struct load_pool_work w = {
        .job = r->job,
        .schema = r->schema,
        .db = r->db,
        .leased = !r->opt->into || r->opt->copy,
        .binlog = r->binlog,
        .plan = &r->plan,
        .m = m,
        .file = file,
        .delta = r->changes.journal.delta,
        .content = r->opt->drill,
        .rest = see_definition,
        .arg = r,
        .connections = load_pool_size(
            r->opt->drill ? cfg->drill_connections : cfg->restore_connections, m->table_count)};
    if (r->opt->dry_run) {
        progress_phase(progress, "verifying", manifest_world_rows(m, cfg->sentinel), m->file_size);
        if (verify_whole(file, progress, e) < 0 || load_pool_check(&w, e) < 0)
            return -1;
        return r->opt->with_code ? verify_rest(file, see_definition, r, e) : 0;
    }
    if (judge_code(r, m, e) < 0)
        return -1;
    progress_phase(progress, "loading", r->plan.rows, 0);
    int rc = load_pool_run(&w, e);
    if (rc == 0 && is_arriving(r, m))
        rc = r->opt->arriving->settle(r->opt->arriving->arg, e);
    r->out->connections = w.connections;
    r->out->way = db_bulk_way_name(w.way);
    if (rc == 0)
        fault_point("restore.loaded");
    return rc;
}

/* The dump is opened once, and everything is read from this open file. */
static int load_own(struct run *r, const struct manifest *m, struct err *e)
{
    code_free(&r->code);
    snprintf(r->out->dump, sizeof r->out->dump, "%s", m->name);
    r->out->dump_at = m->at;
    SCOPED(xfree) char *name = xasprintf("%s.sql.gz", m->name);
    struct verify_file *file = is_arriving(r, m)
                                   ? verify_open_arriving(r->opt->arriving->file, name, m, e)
                                   : verify_open(r->job->dirfd, name, m, r->job->progress, e);
    r->plan.as_dumped = r->opt->at.ms || r->plan.only;
    r->changes.file = file;
    r->changes.db = r->db;
    int rc = !file || plan_from_manifest(&r->plan, r->job, m, e) < 0 ||
                     chosen_planned(&r->plan, m->name, &r->catalog, e) < 0 ||
                     plan_finish(r->db, &r->plan, r->job, r->schema, e) < 0 ||
                     ledgers_plan(&r->plan, r->job->cfg, m, r->opt, r->out, e) < 0
                 ? -1
                 : catchup_read(&r->changes, m, e);
    if (rc == 0 && r->opt->copy && r->out->journal.gap[0])
        rc = err_set(e, ERR_GAP, 0, "%s", r->out->journal.gap);
    if (rc == 0)
        rc = load_planned(r, m, file, e);
    verify_close(file);
    return rc;
}

/* ---- what a failed load means ---- */

/* Did the server refuse the rows because of their content (duplicate keys, NULL, values that do not
 * fit, CHECK)? Then no later attempt will work. */
static bool is_of_the_rows(const struct err *e)
{
    static const int nums[] = {1022, 1048, 1062, 1264, 1265, 1292, 1366, 1406, 1586, 3819, 4025, 0};
    return e->cls == ERR_QUERY && err_among(e, nums);
}

/* Load the dump without the changes since? Those that do not fit the dump are left out, since only
 * the dump is verified; so are changes that the server refuses, if a load has failed in that way
 * before. A drill reports that. */
static bool leads_to_dump_alone(const struct run *r, const struct err *e)
{
    if (r->opt->drill || r->opt->copy)
        return false;
    return e->cls == ERR_GAP || (is_of_the_rows(e) && r->changes.journal.changes && r->again);
}

/* Try an older dump? After a refused definition only automatically: an operator can react. A server
 * error never leads there. */
static bool leads_to_another(const struct run *r, const struct manifest *m, const struct err *e)
{
    if (is_arriving(r, m) && e->cls == ERR_DAMAGED)
        return false; /* the store may have a better one than is here */
    return e->cls == ERR_DAMAGED || r->unloadable || (r->opt->automatic && plan_unfit(&r->plan));
}

/* Does the failure say something about the dump? Rows inserted by column name may be refused
 * because of later changes to the table. */
static bool blames_rows(const struct run *r, const struct err *e)
{
    for (size_t i = 0; i < r->plan.count; i++)
        if (r->plan.list[i].mapped && !r->plan.list[i].skip)
            return false;
    return is_of_the_rows(e);
}

/* Records the outcome for this dump, for later restores. */
static void keep_finding(struct run *r, const struct manifest *m, int rc, const struct err *e)
{
    const char *dump = m->name;
    struct err late;
    struct proof p;
    const char *by = r->opt->drill ? "drill" : "restore";
    int dirfd = r->job->dirfd, kept = 0;
    if (r->opt->dry_run || r->opt->copy || (rc < 0 && is_arriving(r, m)))
        return;
    if (rc == 0) {
        kept = proof_intact(dirfd, dump, by, &late);
    } else if (e->cls == ERR_DAMAGED) {
        kept = proof_damaged(dirfd, dump, by, e->text, &late);
    } else if (blames_rows(r, e)) {
        kept = proof_load_failed(dirfd, dump, by, e->text, &p, &late);
        r->unloadable = kept == 0 && proof_unloadable(&p);
    }
    if (kept < 0)
        job_note(r->job, "%s", late.text);
}

/* ---- which dump ---- */

/* A name without a slash is a file only if it looks like one; dumps are named without an ending. */
static bool is_path(const char *s)
{
    size_t n = strlen(s);
    return strchr(s, '/') || (n > 4 && strcmp(s + n - 4, ".sql") == 0) ||
           (n > 3 && strcmp(s + n - 3, ".gz") == 0 && access(s, F_OK) == 0);
}

/* Lists a skipped dump. After a change of the key hundreds may be skipped: only the first
 * SKIPPED_MAX are named in the log and the result. */
static void skipped(struct run *r, const char *dump, const char *reason)
{
    if (json_array_size(r->out->skipped) == SKIPPED_MAX) {
        if (!r->skipped_more)
            job_note(r->job, "further dumps are skipped without a message; --verify names each");
        r->skipped_more = true;
        return;
    }
    json_array_append_new(r->out->skipped,
                          json_pack("{s:s, s:o}", "dump", dump, "reason", js_clean(reason)));
    job_note(r->job, "dump %s skipped: %.1000s", dump, reason);
}

/* Says what was looked at, and what can be done now. */
static int nothing_intact(const struct run *r, struct err *e)
{
    const json_t *first = json_array_get(r->out->skipped, 0);
    char t[TEXT_SHORT];
    if (r->opt->at.ms && !first && r->catalog.count) {
        err_set(e, ERR_NOTHING, 0, "no dump of world %s is as old as %s", r->job->cfg->name,
                text_utc(r->opt->at, t));
        return err_hint(e, "the oldest one is %s", r->catalog.list[r->catalog.count - 1].m.name);
    }
    err_set(e, ERR_NOTHING, 0, "no intact dump of world %s in %s (%zu examined%s%s%s%.300s)",
            r->job->cfg->name, r->job->cfg->dump_dir, r->catalog.count, first ? "; " : "",
            js_text(first, "dump"), first ? ": " : "", js_text(first, "reason"));
    if (r->catalog.count)
        err_hint(e, "worldkeeper --verify says what is wrong with each; worldkeeper "
                    "--restore=PATH takes any mysqldump file");
    else
        err_hint(e, "worldkeeper --dump takes one of a living world; worldkeeper "
                    "--restore=PATH takes any mysqldump file");
    return -1;
}

/* Tries the newest intact dump, then older ones. If none can be restored, a refusal of the first
 * undamaged one is reported. */
static int load_newest(struct run *r, struct err *e)
{
    struct err refused = {0};
    unsigned skip = r->opt->skip;
    for (size_t i = 0; i < r->catalog.count; i++) {
        const struct catalog_entry *c = &r->catalog.list[i];
        if (!c->intact) {
            skipped(r, c->m.name, c->reason);
            continue;
        }
        if (r->opt->at.ms && c->m.at.ms + c->m.took_ms > r->opt->at.ms)
            continue; /* it was not finished by then */
        if (skip) {
            skip--;
            skipped(r, c->m.name, "two restores of it made no progress");
            continue;
        }
        fault_point("restore.chosen");
        /* Stays set for older dumps: the rows that the server refuses are in the journal then. */
        r->again |= c->proof.failures > 0;
        r->changes.off = r->unloadable = false;
        if (begin_plan(r, e) < 0)
            return -1;
        int rc = load_own(r, &c->m, e);
        if (rc < 0 && leads_to_dump_alone(r, e)) {
            job_note(r->job, "%s", e->text);
            drop_shadows(r);
            r->changes.off = true;
            struct err why = *e;
            if (begin_plan(r, e) == 0) {
                snprintf(r->out->journal.gap, sizeof r->out->journal.gap, "%.600s", why.text);
                rc = load_own(r, &c->m, e);
            }
        }
        keep_finding(r, &c->m, rc, e);
        if (rc == 0)
            return 0;
        if (!leads_to_another(r, &c->m, e))
            return -1;
        if (e->cls != ERR_DAMAGED && refused.cls == ERR_NONE)
            refused = *e;
        drop_shadows(r);
        skipped(r, c->m.name, e->text);
    }
    if (refused.cls == ERR_REFUSED)
        return err_pass(e, &refused);
    return nothing_intact(r, e);
}

/* NULL: it does not exist or is not intact. One that only failed to load can be tried again by
 * name. */
static const struct catalog_entry *find_named(const struct run *r, struct err *e)
{
    const char *name = r->opt->dump;
    char plain[DUMP_NAME_MAX];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, "."), name);
    const struct catalog_entry *c = catalog_find(&r->catalog, plain);
    if (!c) {
        err_set(e, ERR_NOTHING, 0, "no dump %s in %s", name, r->job->cfg->dump_dir);
        err_hint(e, "worldkeeper --list shows them; a path has a / in it");
    } else if (!c->intact && !(c->damaged && proof_unloadable(&c->proof))) {
        err_set(e, ERR_NOTHING, 0, "dump %s is not intact: %s", name, c->reason);
        if (c->damaged)
            err_hint(e, "worldkeeper --verify=%s reads it once more", c->m.name);
        c = NULL;
    }
    return c;
}

/* The dump that was asked for, or none: nobody who names one wants another. */
static int load_named(struct run *r, struct err *e)
{
    const struct catalog_entry *c = find_named(r, e);
    if (!c)
        return -1;
    fault_point("restore.chosen");
    if (begin_plan(r, e) < 0)
        return -1;
    int rc = load_own(r, &c->m, e);
    keep_finding(r, &c->m, rc, e);
    if (rc < 0 && e->cls == ERR_DAMAGED && !is_arriving(r, &c->m))
        e->cls = ERR_NOTHING; /* the one that was named: no other is tried */
    return rc;
}

/* ---- a file of another tool ---- */

/* Loads its statements, in their order, on one connection. */
static int load_statements(struct run *r, const struct import_report *report, struct err *e)
{
    _Atomic uint64_t rows = 0;
    struct loader l = {.s = {.db = r->db, .job = r->job, .schema = r->schema, .plan = &r->plan},
                       .rows = &rows};
    progress_phase(r->job->progress, "loading", 0, 0);
    if (judge_code(r, NULL, e) < 0)
        return -1;
    int rc = loader_begin(&l, e);
    if (rc == 0)
        rc = import_load(r->path_fd, r->opt->dump, report, &l, &r->code, e);
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

/* In a file that was concatenated from several, each part has a closing line. */
static int refuse_cut(struct run *r, const char *path, struct err *e)
{
    if (r->opt->accept_cut) {
        snprintf(
            r->out->warning, sizeof r->out->warning,
            "%.300s lacks a closing \"-- Dump completed\" line: rows after the cut are missing",
            path);
        return 0;
    }
    err_set(e, ERR_REFUSED, 0, "%s lacks a closing \"-- Dump completed\" line: it may be cut short",
            path);
    return err_hint(e, "check its end, and that of each part if it is several files in one; "
                       "--accept-cut restores what there is of it");
}

/* The living world is dumped only once the file has been checked. */
static int load_file(struct run *r, struct err *e)
{
    const char *path = r->opt->dump;
    struct import_report report;
    fault_point("restore.chosen");
    progress_phase(r->job->progress, "reading", 0, 0);
    if (begin_plan(r, e) < 0)
        return -1;
    r->plan.accept_cut = r->opt->accept_cut;
    struct code *listed = r->opt->dry_run && r->opt->with_code ? &r->code : NULL;
    if (import_plan(r->path_fd, path, &r->plan, r->job, listed, &report, e) < 0 ||
        chosen_planned(&r->plan, path, NULL, e) < 0 ||
        plan_finish(r->db, &r->plan, r->job, r->schema, e) < 0 ||
        ledgers_plan(&r->plan, r->job->cfg, NULL, r->opt, r->out, e) < 0 ||
        (!report.ends && refuse_cut(r, path, e) < 0) || keep_living(r, e) < 0)
        return -1;
    snprintf(r->out->dump, sizeof r->out->dump, "%s", path);
    return r->opt->dry_run ? 0 : load_statements(r, &report, e);
}

/* A mistyped name is reported before anything else: --force would first dump the living world, and
 * retention could then delete the very dump that was meant. */
static int find_dump(struct run *r, struct err *e)
{
    const char *d = r->opt->dump;
    bool newest = restore_newest(d), path = !newest && is_path(d);
    if (newest && !r->catalog.count)
        return nothing_intact(r, e);
    if (!path && chosen_known(&r->opt->tables, &r->catalog, e) < 0)
        return -1;
    if (!path)
        return newest || find_named(r, e) ? 0 : -1;
    if (r->opt->at.ms)
        return err_set(e, ERR_USAGE, 0,
                       "--at needs a dump of ours; %s does not know its place in a log", d);
    r->path_fd = file_open_path(d, e);
    return r->path_fd < 0 ? -1 : 0;
}

/* ---- a standby's copy ---- */

static int plan_copy(struct run *r, struct warm *w, const struct manifest *m, struct err *e)
{
    snprintf(r->out->dump, sizeof r->out->dump, "%s", m->name);
    r->out->dump_at = m->at;
    if (begin_plan(r, e) < 0 || plan_from_manifest(&r->plan, r->job, m, e) < 0 ||
        plan_finish(r->db, &r->plan, r->job, r->schema, e) < 0 || judge_code(r, m, e) < 0)
        return -1;
    /* Views and triggers are in the dump alone. */
    SCOPED(xfree) char *name = xasprintf("%s.sql.gz", m->name);
    struct verify_file *file = verify_open(r->job->dirfd, name, m, r->job->progress, e);
    int rc = file ? verify_rest(file, see_definition, r, e) : -1;
    verify_close(file);
    if (rc < 0)
        return -1;
    rc = warm_plan(w, r->db, &r->plan, e);
    return rc == WARM_READY && ledgers_plan(&r->plan, r->job->cfg, m, r->opt, r->out, e) < 0 ? -1
                                                                                             : rc;
}

/* Rows and counters of what was moved. */
static int check_moved(struct run *r, struct err *e)
{
    _Atomic uint64_t rows = 0;
    struct loader l = {.s = {.db = r->db, .job = r->job, .schema = r->schema, .plan = &r->plan},
                       .rows = &rows};
    int rc = 0;
    for (size_t i = 0; i < r->plan.count && rc == 0; i++) {
        const struct target *t = &r->plan.list[i];
        /* a counter that has to be set copies the table, with the limit of the session */
        if (t->created && t->heap)
            rc = db_execf(r->db, e, "SET SESSION max_heap_table_size=%" PRIu64, t->heap);
        if (rc == 0)
            rc = loader_check(&l, t, false, e);
        progress_at(r->job->progress, 0, 0);
    }
    return rc;
}

/* enum warm_found; -1. The rows of the copy are in no log, so the swap is not either. */
static int use_copy(struct run *r, struct warm *w, struct err *e)
{
    const struct catalog_entry *newest = catalog_newest(&r->catalog, 0);
    struct replay *j = &r->changes.journal;
    struct err ignored;
    int rc = warm_open(w, r->job, e);
    w->last = true;
    if (rc == WARM_READY)
        rc = warm_catch_up(w, &r->catalog, j, e);
    if (rc == WARM_READY)
        rc = plan_copy(r, w, &newest->m, e);
    if (rc != WARM_READY)
        return rc;
    if (r->binlog && r->out->replicas != 0) {
        snprintf(w->why, sizeof w->why,
                 "replicas %s: they get the rows of a load, and nothing of the copy",
                 r->out->replicas > 0 ? "are connected" : "may be connected");
        return WARM_BROKEN;
    }
    if (r->binlog && db_exec(r->db, "SET SESSION sql_log_bin=0", &ignored) == 0)
        r->binlog = false;
    rc = warm_move(w, r->db, &r->plan, e);
    if (rc == WARM_READY && check_moved(r, e) < 0)
        return -1;
    if (j->delta)
        catchup_figures(r->out, r->opt, j);
    return rc;
}

/* 1: the world is there, as if it had been loaded; 0: it has to be. */
static int load_copy(struct run *r)
{
    bool binlog = r->binlog;
    struct warm w = {0};
    struct err why = {0};
    progress_phase(r->job->progress, "catching up", 0, 0);
    int rc = use_copy(r, &w, &why);
    warm_close(&w);
    r->out->warm = rc == WARM_READY;
    if (!r->out->warm) {
        snprintf(r->out->cold, sizeof r->out->cold, "%.600s", rc < 0 ? why.text : w.why);
        job_note(r->job, "the copy that is loaded is not used: %s", r->out->cold);
        drop_shadows(r);
        replay_free(&r->changes.journal);
        code_free(&r->code);
        if (binlog && !r->binlog && db_exec(r->db, "SET SESSION sql_log_bin=1", &why) == 0)
            r->binlog = true;
    }
    /* Its memory is needed; where it cannot go now, restore_tidy() drops it. */
    if (warm_drop(r->job, &why) < 0)
        job_note(r->job, "the schema of the copy stays: %s", why.text);
    return r->out->warm;
}

/* A file of another tool is read as it is; of our own dumps the newest intact one, unless one was named. */
static int load(struct run *r, struct err *e)
{
    if (r->path_fd >= 0)
        return load_file(r, e);
    if (keep_living(r, e) < 0)
        return -1;
    if (r->opt->promotion && r->swap && r->job->cfg->standby.warm && load_copy(r))
        return 0;
    return restore_newest(r->opt->dump) ? load_newest(r, e) : load_named(r, e);
}

/* ---- the result ---- */

/* What became, or would become, of each table of the dump, and which others stay. */
static void report_plan(struct run *r)
{
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        uint64_t rows = t->created ? t->rows : t->expected;
        if (strcmp(t->name, r->job->cfg->sentinel) == 0)
            continue; /* the sentinel is not part of the world: the swap creates a new one */
        if (t->skip && r->plan.only)
            continue; /* not requested */
        json_t *o = json_pack("{s:o, s:I, s:b, s:b}", "table", js_clean(t->name), "rows",
                              (json_int_t)rows, "restored", !t->skip, "triggers", t->triggers);
        const char *why = t->why      ? t->why
                          : t->mapped ? "its columns changed; rows go by column name"
                                      : NULL;
        if (why)
            json_object_set_new(o, "why", json_string(why));
        json_array_append_new(r->out->plan, o);
        if (!t->skip) {
            r->out->tables++;
            r->out->rows += rows;
        }
    }
    for (size_t i = 0; i < r->plan.not_in_dump.count; i++)
        json_array_append_new(r->out->plan,
                              json_pack("{s:o, s:i, s:s, s:s}", "table",
                                        js_clean(r->plan.not_in_dump.list[i]), "rows", 0,
                                        "restored", 0, "why", "not in the dump; left as it is"));
}

/* The rows that players wrote into the tables that were replaced: where they are now. */
static void report_conflicts(struct run *r, const struct swap *s)
{
    struct restore_result *out = r->out;
    out->conflict.rows = s->conflict_rows;
    out->conflict.part = s->conflict_part;
    if (s->conflict_rows == 0)
        return;
    out->conflict.file = xasprintf("%s/%s", r->job->cfg->dump_dir, s->conflict_file);
    out->conflict.from = s->conflict_from;
    out->conflict.to = s->conflict_to;
    out->conflict.tables = json_array();
    for (size_t i = 0; i < r->plan.count; i++)
        if (swap_saved(s, &r->plan.list[i]))
            json_array_append_new(out->conflict.tables,
                                  json_pack("{s:o, s:I}", "table", js_clean(r->plan.list[i].name),
                                            "rows", (json_int_t)r->plan.list[i].conflict_rows));
    job_note(r->job, "%" PRIu64 " rows found in the replaced tables are saved in %s",
             s->conflict_rows, out->conflict.file);
}

/* ---- the order of things ---- */

/* From loaded shadow tables to a world. Conflict rows are saved before the guard looks for the last time: saving
 * takes as long as there are rows, and the RENAME has to follow the guard at once. */
static int swap_world(struct run *r, struct err *e)
{
    const char *slash = strrchr(r->out->dump, '/');
    struct swap s = {.db = r->db,
                     .job = r->job,
                     .plan = &r->plan,
                     .generation = r->generation,
                     .unlogged = !r->binlog,
                     .server_start = r->out->server.start,
                     .dumped = &r->before};
    struct err late;
    /* With some tables of an earlier moment the world is not the state of any binlog position. */
    if (r->opt->tables.count == 0)
        s.made.upto = r->changes.journal.upto;
    if (db_nonce(s.made.nonce, e) < 0)
        return -1;
    /* What was promoted came from another server, whose log it was. */
    s.made.followed = r->out->journal.whole && !s.unlogged && !r->opt->promotion;
    snprintf(s.made.dump, sizeof s.made.dump, "%.128s", slash ? slash + 1 : r->out->dump);
    fault_point("restore.checked");
    if (ledgers_loaded(r->db, r->job, &r->plan, r->out, e) < 0)
        return -1;
    progress_phase(r->job->progress, "swapping", 0, 0);
    if (guard_empty(r, e) < 0 || swap_save_conflicts(&s, e) < 0)
        return -1;
    fault_point("restore.conflict_saved");
    if (guard_swap(r, e) < 0 || swap_claim(&s, r->lease, e) < 0)
        return -1;
    int rc = swap_in(&s, e);
    r->db = s.db; /* a new connection, if the answer to the RENAME was lost */
    if (rc < 0)
        return -1;
    restore_code(r);
    if (swap_tidy(&s, &late) < 0)
        snprintf(r->out->warning, sizeof r->out->warning, "%.500s", late.text);
    snprintf(r->out->nonce, sizeof r->out->nonce, "%s", s.made.nonce);
    r->out->made = s.made;
    r->out->generation = s.generation;
    report_conflicts(r, &s);
    fault_point("restore.done");
    /* If the server crashed since, it has emptied the world again: success must not be reported. */
    if (db_server_id(r->db, &r->out->server, e) < 0)
        return err_step(e, "the world was swapped in, but");
    return 0;
}

/* The rows of a drill that was ended for this restore would take the memory that it needs, and so would a copy that is
 * of no use to it. */
static void make_room(const struct run *r)
{
    struct err e;
    struct db *db = open_own(&r->job->db, &e);
    if (db)
        drop_left_over(r->job, db, CONFIG_DRILL_SCHEMA);
    if (db && !(r->opt->promotion && r->job->cfg->standby.warm))
        drop_left_over(r->job, db, CONFIG_WARM_SCHEMA);
    db_close(db);
}

/* Only the newest dump with its journal is the living world, and only while that one lives. */
static int compare_live(struct run *r, struct err *e)
{
    const struct replay *j = &r->changes.journal;
    const struct state *st = r->opt->state;
    fault_point("drill.loaded");
    if (!restore_newest(r->opt->dump) || !st || !st->known || !r->out->journal.used || !j->at_end ||
        j->to_loss || strcmp(j->nonce, st->nonce) != 0)
        return 0;
    return live_compare(r->job, &r->plan, j->gap[0] ? NULL : &j->upto, &r->out->live, e);
}

/* In its place among those that are here, and instead of what is here of it. The lists of its manifest stay its
 * owner's. */
static void list_arriving(struct run *r)
{
    struct catalog *c = &r->catalog;
    const struct manifest *m = r->opt->arriving->m;
    size_t at = 0;
    while (at < c->count && manifest_compare(&c->list[at].m, m) > 0)
        at++;
    if (at < c->count && strcmp(c->list[at].m.name, m->name) == 0) {
        manifest_free(&c->list[at].m);
    } else {
        c->list = xrealloc(c->list, (c->count + 1) * sizeof *c->list);
        memmove(c->list + at + 1, c->list + at, (c->count++ - at) * sizeof *c->list);
    }
    c->list[at] = (struct catalog_entry){.m = *m, .intact = true};
    if (m->generation > c->generation)
        c->generation = m->generation;
}

static void unlist_arriving(struct run *r)
{
    for (size_t i = 0; i < r->catalog.count && r->opt->arriving; i++)
        if (r->catalog.list[i].m.tables == r->opt->arriving->m->tables)
            r->catalog.list[i].m = (struct manifest){.generation = 0};
}

/* What only looks comes first, what changes anything last: whatever is refused leaves the world as it was. */
static int run_steps(struct run *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    const struct state *st = r->opt->state;
    const struct catalog_entry *loaded;
    struct db_params p = r->job->db;
    bool swapped;
    progress_phase(r->job->progress, "choosing", 0, 0);
    p.bulk = true;
    r->db = open_own(&p, e);
    if (!r->db)
        return -1;
    choose_binlog(r);
    warn_of_replicas(r);
    if (catalog_load(r->job->dirfd, c->name, &r->catalog, e) < 0)
        return -1;
    if (r->opt->arriving)
        list_arriving(r);
    /* A copy takes the place of the one before: two would need the memory twice. */
    if (r->opt->copy &&
        (db_lease_take(r->db, r->schema, LEASE_PATIENCE, e) < 0 ||
         db_lock_wait(r->db, c->restore_lock_wait, e) < 0 ||
         db_exec_with(r->db, "DROP DATABASE IF EXISTS ??", DB_ARGS(r->schema), e) < 0))
        return -1;
    if (use_schema(r, e) < 0 ||
        (r->swap && (take_lease(r, e) < 0 || ledgers_lock(r->db, c, e) < 0)))
        return -1;
    /* A refused restore must not change anything, so tidying up after an earlier one waits until
     * neither the name of the dump nor a living world stands against it. */
    if (find_dump(r, e) < 0 || ledgers_guard(r->db, c, r->opt, e) < 0 || guard_world(r, e) < 0)
        return -1;
    if (r->swap && (swap_recover(r->db, r->job, &swapped, e) < 0 ||
                    db_lease_read(r->db, c->schema, c->sentinel, &r->lease, e) < 0))
        return -1;
    if (r->swap)
        make_room(r);
    /* Above every generation that anybody has seen: dumps, the server, our own state. */
    r->generation = r->catalog.generation > r->lease ? r->catalog.generation : r->lease;
    if (st && st->generation > r->generation)
        r->generation = st->generation;
    r->generation++;
    if (r->swap && r->opt->automatic && turn_wait(r->db, r->job, e) < 0)
        return -1;
    if (load(r, e) < 0)
        return -1;
    if (r->swap)
        return swap_world(r, e);
    if (r->opt->drill)
        return compare_live(r, e);
    if (r->opt->copy)
        return (loaded = catalog_find(&r->catalog, r->out->dump))
                   ? warm_note(r->db, &r->plan, &loaded->m, &r->changes.journal, e)
                   : -1;
    restore_code(r);
    return r->opt->dry_run ? rehearse(r->db, c, r->opt, &r->plan, e) : 0;
}

/* Hints at the GRANT itself, not at where to find it: an operator woken by this has no time to
 * look. --check knows the world's schema only. */
static void hint_grant(struct run *r, struct err *e)
{
    /* the "DROP" of "…: DROP command denied to user …" */
    const char *end = strstr(e->text, " command denied to user"), *begin = end;
    while (begin && begin > e->text && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ ,", begin[-1]))
        begin--;
    while (begin && *begin == ' ')
        begin++;
    SCOPED(xfree) char *denied = r->opt->copy   ? xstrdup(DB_COPY_PRIVILEGES)
                                 : r->opt->into ? xstrdup(DB_SCRATCH_PRIVILEGES)
                                 : begin < end  ? xstrndup(begin, (size_t)(end - begin))
                                                : NULL;
    if (denied)
        db_hint_grant(r->db, r->schema, denied, e);
}

/* The frame of every restore: into the world, beside it, and as a drill. */
static int run(const struct job *job, const struct restore_options *opt, struct restore_result *out,
               struct err *e)
{
    struct run r = {.job = job,
                    .opt = opt,
                    .out = out,
                    .schema = opt->into ? opt->into : job->cfg->schema,
                    .swap = !opt->into && !opt->dry_run,
                    .path_fd = -1};
    mono_t began = clock_mono();
    r.changes = (struct catchup){.job = job, .opt = opt, .out = out, .plan = &r.plan};
    int rc = run_steps(&r, e);
    if (rc == 0) {
        report_plan(&r);
    } else if (r.db && !opt->drill) {
        drop_shadows(&r);
        if (e->cls == ERR_DENIED && strstr(e->hint, "GRANT"))
            hint_grant(&r, e);
    }
    out->took_ms = mono_since(clock_mono(), began);
    code_free(&r.code);
    manifest_free(&r.before);
    catchup_free(&r.changes);
    plan_free(&r.plan);
    unlist_arriving(&r);
    catalog_free(&r.catalog);
    db_close(r.db);
    if (r.path_fd >= 0)
        close(r.path_fd);
    return rc;
}

int restore_run(const struct job *job, const struct restore_options *opt,
                struct restore_result *out, struct err *e)
{
    *out = (struct restore_result){.skipped = json_array(), .plan = json_array(), .replicas = -1};
    int rc = run(job, opt, out, e);
    if (rc < 0)
        err_step(e, "restore");
    return rc;
}

int restore_copy(const struct job *job, const struct state *state, struct restore_result *out,
                 struct err *e)
{
    char schema[CONFIG_OWN_SCHEMA_MAX];
    config_own_schema(CONFIG_WARM_SCHEMA, job->cfg, schema);
    struct restore_options opt = {.into = schema,
                                  .copy = true,
                                  .newest = true,
                                  .fetched = true,
                                  .promotion = true,
                                  .state = state};
    return restore_run(job, &opt, out, e);
}

int restore_drill(const struct job *job, const char *dump, const struct state *state,
                  struct restore_result *out, struct err *e)
{
    static const char drop[] = "DROP DATABASE IF EXISTS ??";
    char scratch[CONFIG_OWN_SCHEMA_MAX];
    config_own_schema(CONFIG_DRILL_SCHEMA, job->cfg, scratch);
    struct restore_options opt = {.dump = dump, .into = scratch, .drill = true, .state = state};
    struct err last; /* first in case of a refusal: then the other sessions are logged as well */
    *out = (struct restore_result){.skipped = json_array(), .plan = json_array(), .replicas = -1};
    struct db *db = open_own(&job->db, e);
    if (db)
        db_exec(db, "SET SESSION sql_log_bin=0", &last);
    int rc = db && db_lock_wait(db, job->cfg->restore_lock_wait, e) == 0
                 ? db_exec_with(db, drop, DB_ARGS(scratch), e)
                 : -1;
    if (rc == 0)
        rc = run(job, &opt, out, e);
    if (db && db_exec_with(db, drop, DB_ARGS(scratch), &last) < 0 && rc == 0)
        rc = err_pass(e, &last);
    if (rc < 0)
        err_step(e, "drill");
    db_close(db);
    return rc;
}

int restore_tidy(const struct job *job, struct err *e)
{
    struct db_params p = job->db;
    p.schema = job->cfg->schema;
    bool swapped;
    struct db *db = open_own(&p, e);
    if (!db)
        return -1;
    int rc =
        db_lease_take(db, job->cfg->schema, 0, e) < 0 ? -1 : swap_recover(db, job, &swapped, e);
    if (rc == 0) { /* on a connection that ends now: it logs nothing any more */
        drop_left_over(job, db, CONFIG_DRILL_SCHEMA);
        drop_left_over(job, db, CONFIG_WARM_SCHEMA);
    }
    db_close(db);
    return rc;
}

int restore_tidy_standby(const struct job *job, struct err *e)
{
    struct db_params p = job->db;
    p.schema = job->cfg->schema;
    struct db *db = open_own(&p, e);
    if (!db && e->num == DB_NO_SCHEMA)
        return 0; /* of a standby whose schema is still to be made */
    /* Nobody waits a day for a table that somebody has open, with the lease in hand that a promotion needs. */
    int rc = db && db_lock_wait(db, LEASE_PATIENCE, e) == 0 &&
                     db_lease_take(db, job->cfg->schema, 0, e) == 0
                 ? swap_drop_shadows(db, job, e)
                 : -1;
    db_close(db);
    return rc;
}
