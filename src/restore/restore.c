#include "restore/restore.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "mysql/account.h"
#include "mysql/fenced.h"
#include "mysql/galera.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "mysql/server.h"
#include "restore/blocked.h"
#include "restore/checks.h"
#include "restore/choice.h"
#include "restore/code.h"
#include "restore/code_make.h"
#include "restore/ledgers.h"
#include "restore/live.h"
#include "restore/permit.h"
#include "restore/plan.h"
#include "restore/redefined.h"
#include "restore/rehearsal.h"
#include "restore/result.h"
#include "restore/running.h"
#include "restore/swap.h"
#include "restore/turn.h"
#include "restore/warm_int.h"
#include "sql/literal.h"
#include "store/round.h"

/* Milliseconds. The sessions of a killed restore end with their current statement. */
#define LEASE_PATIENCE 2000

/* ---- the session ---- */

/* Drops what was left by a killed drill, by a standby's worker, or by a promotion that could not
 * drop it. Does not take the lock of a restore into that schema, because the session of that
 * restore may hang on a broken network. */
static void drop_left_over(const struct job *job, struct db *db, const char *prefix)
{
    char schema[CONFIG_OWN_SCHEMA_MAX];
    struct err e = {0};
    config_own_schema(prefix, job->cfg, schema);
    SCOPED(xfree) char *there = db_schema_name(db, schema, &e);
    if (!there)
        return;
    db_exec(db, "SET SESSION sql_log_bin=0", &e);
    /* A session may be reading it, but the world has priority. */
    db_lock_wait(db, LEASE_PATIENCE, &e);
    if (db_exec_with(db, "DROP DATABASE IF EXISTS ??", DB_ARGS(schema), &e) < 0)
        job_note(job, "cannot drop unused schema %s: %s", schema, e.text);
}

/* Opens a session whose statements stay on the server that it is connected to. */
static struct db *open_own(const struct db_params *p, struct err *e)
{
    struct db *db = db_open(p, e);
    if (!db || galera_own_node(db, e) == 0)
        return db;
    db_close(db);
    return NULL;
}

/* Takes the lease on the connection that also does the swap: if it is lost, so is the lease, and
 * nothing is swapped. */
static int take_lease(struct restore *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    if (db_lease_take(r->db, c->schema, LEASE_PATIENCE, e) < 0 ||
        db_lock_wait(r->db, c->restore_lock_wait, e) < 0 ||
        db_lease_read(r->db, c->schema, c->sentinel, &r->lease, e) < 0)
        return -1;
    fault_point("restore.leased");
    return 0;
}

/* Decides whether rows are logged. Without the privilege to disable logging they are, which is only
 * slower. */
static void choose_binlog(struct restore *r)
{
    struct err e;
    r->binlog = r->job->cfg->restore_binlog && restore_is(r)->logs;
    if (r->binlog || db_exec(r->db, "SET SESSION sql_log_bin=0", &e) == 0)
        return;
    r->binlog = true;
    if (r->job->cfg->restore_binlog) /* replicas then execute a drill just like a restore */
        return;
    result_warn(r->out, "this account may not use [restore] binlog = no: %s", e.text);
}

/* Reports the effect on replicas before the restore and with the result. */
static void warn_of_replicas(struct restore *r)
{
    struct restore_result *out = r->out;
    int n = out->replicas = replicas_connected(r->db);
    const char *verb = n == 1 ? "replica is" : "replicas are";
    if (n <= 0 || !restore_is(r)->logs)
        return;
    if (r->binlog) {
        job_note(r->job,
                 "%d %s connected: the restore is logged and replicated; a replica whose "
                 "max_heap_table_size is too small for a table stops (error 1114)",
                 n, verb);
    } else if (restore_is(r)->world) {
        result_warn(r->out,
                    "%d %s connected and will not get this restore ([restore] binlog = no): a "
                    "replica with different rows stops at the next change of a row that it lacks "
                    "(error 1032) or already has (1062)",
                    n, verb);
        job_note(r->job, "%s", out->warning);
    }
}

/* Reports durable tables whose stored columns the server has computed in our time zone. */
static void warn_of_generated(struct restore *r)
{
    SCOPED(names_free) struct names zoned = {0};
    bool durable = false;
    for (size_t i = 0; i < r->plan.count; i++)
        durable |= r->plan.list[i].created && !r->plan.list[i].memory;
    if (!durable || db_is_mariadb(r->db) ||
        db_names_select(r->db, DB_ZONED_TABLES, DB_ARGS(r->schema), &zoned, NULL) < 0)
        return;
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        SCOPED(buf_free) struct buf name = {0}, alter = {0}, shown = {0};
        if (t->skip || !t->created || !names_has(&zoned, t->shadow) ||
            !checks_table(r, t->name, &name))
            continue;
        sql_fill(&alter, "ALTER TABLE $ FORCE, ALGORITHM=COPY", DB_ARGS(name.p));
        text_clean(&shown, alter.p, 300);
        result_warn(r->out,
                    "generated columns over a TIMESTAMP were computed in the time zone UTC; in a "
                    "session with that of the game: %s",
                    shown.p);
    }
}

static int use_schema(struct restore *r, struct err *e)
{
    if (db_exec_with(r->db, "USE ??", DB_ARGS(r->schema), e) == 0)
        return 0;
    if (e->num != DB_NO_SCHEMA)
        return -1;
    if (!restore_is(r)->writes)
        return 0; /* it would be created, and is empty */
    /* Without this clause MySQL's default_table_encryption = ON would encrypt the schema's tables,
     * which MEMORY tables do not support. */
    return db_exec_with(r->db, "CREATE DATABASE ?? /*!80016 DEFAULT ENCRYPTION='N' */",
                        DB_ARGS(r->schema), e) < 0 ||
                   db_exec_with(r->db, "USE ??", DB_ARGS(r->schema), e) < 0
               ? err_step(e, "making schema %s", r->schema)
               : 0;
}

/* ---- the order of the steps ---- */

/* Sessions that have ended since the restored moment are open again, and no process closes them.
 * The central store refuses their saves, but the game sees them as active logins. */
static void warn_of_sessions(struct restore *r)
{
    const struct target *t = plan_find(&r->plan, "wk_session");
    bool to_loss = r->out->journal.used && r->out->journal.whole;
    if (!r->job->cfg->progress.lock_id || to_loss || restore_is(r)->elsewhere || !t ||
        !target_replaces(t))
        return;
    SCOPED(xfree) char *open = db_one_with(
        r->db, "SELECT NULLIF(COUNT(*),0) FROM ??.wk_session " DB_ONLY_TABLE " WHERE state='open'",
        DB_ARGS(r->schema), NULL);
    if (open)
        result_warn(r->out,
                    "%s session%s of players in wk_session are restored from an earlier time and "
                    "may have ended since: worldkeeper --release=KEY ends one; worldkeeper "
                    "--write-back --unlock ends all before the game starts",
                    open, strcmp(open, "1") == 0 ? "" : "s");
}

/* Takes new locks for restored sessions, before the tables get their names, so that no game finds a
 * session under its old number. */
static int renew_locks(struct restore *r, struct err *e)
{
    const struct target *session = plan_find(&r->plan, "wk_session");
    const struct target *progress = plan_find(&r->plan, "wk_progress");
    struct renewed *done = &r->out->sessions;
    if (!restore_is(r)->elsewhere || !r->job->cfg->progress.lock_id || !session ||
        !session->created || !progress || !progress->created)
        return 0;
    progress_phase(r->job->progress, "taking locks of sessions", 0, 0);
    if (renew_sessions(r->db, r->job->cfg, session->shadow, progress->shadow, r->job->progress,
                       done, e) < 0)
        return -1;
    if (done->closed)
        result_warn(r->out,
                    "%" PRIu64
                    " session%s of players %s closing; these players must log in again: %s",
                    done->closed, done->closed == 1 ? "" : "s", done->closed == 1 ? "is" : "are",
                    done->away.cls != ERR_NONE ? done->away.text
                                               : "another game server has the lock, or it was "
                                                 "released, or a later session has saved since");
    if (done->taken)
        result_warn(r->out,
                    "%" PRIu64 " session%s of players %s open under a new number (%s): if the game "
                    "does not close them, worldkeeper --release=KEY closes one; worldkeeper "
                    "--write-back --unlock closes all before the game starts",
                    done->taken, done->taken == 1 ? "" : "s", done->taken == 1 ? "is" : "are",
                    done->first);
    return 0;
}

/* Checks that nothing of a handed-over world is missing. */
static int need_reach(const struct restore *r, struct err *e)
{
    const struct db_binlog_pos *to = r->opt->reach, *is = &r->made.upto;
    if (!to || (is->file[0] && db_binlog_pos_compare(is, to) >= 0))
        return 0;
    char reached[sizeof is->file + 24] = "no position of that log";
    if (is->file[0])
        snprintf(reached, sizeof reached, "%s:%" PRIu64, is->file, is->pos);
    err_set(e, ERR_REFUSED, 0,
            "the other machine handed the world over at %s:%" PRIu64
            ", but dump and journal here reach %s%s%s",
            to->file, to->pos, reached, r->journal.gap[0] ? ": " : "", r->journal.gap);
    return err_hint(e, "try again when the store has all of it: worldkeeper --list --from offsite; "
                       "for other ways see A PLANNED CHANGE in worldkeeper-standby(7)");
}

/* Begins the round of the store. Its nonce is unknown here; the restore makes its own. */
static int swap_round(const struct restore *r, struct err *e)
{
    return r->opt->round ? round_begin(r->job->dirfd, r->opt->round, "", e) : 0;
}

/* Turns loaded shadow tables into the world. Conflict rows are saved before the last check of the
 * tables to be replaced, because saving takes time, and the RENAME must follow that check at
 * once. */
static int swap_world(struct restore *r, struct err *e)
{
    struct restore_result *out = r->out;
    const char *slash = strrchr(out->dump, '/');
    struct err late;
    /* If some tables are of an earlier moment, the world is not the state of any binlog
     * position. */
    if (r->opt->tables.count == 0)
        r->made.upto = r->journal.upto;
    if (need_reach(r, e) < 0 || db_nonce(r->made.nonce, e) < 0)
        return -1;
    /* A promoted world came from another server, with another log. */
    r->made.followed = out->journal.whole && r->binlog && !restore_is(r)->elsewhere;
    snprintf(r->made.dump, sizeof r->made.dump, "%.128s", slash ? slash + 1 : out->dump);
    if (r->opt->begins && r->opt->begins(r->opt->begins_arg, &r->made, r->generation, e) < 0)
        return -1;
    fault_point("restore.checked");
    if (ledgers_loaded(r, e) < 0 || renew_locks(r, e) < 0)
        return -1;
    progress_phase(r->job->progress, "swapping", 0, 0);
    if (permit_empty(r, e) < 0 || swap_save_conflicts(r, e) < 0)
        return -1;
    fault_point("restore.conflict_saved");
    if (blocked_wait_backup(r, e) < 0 || permit_swap(r, e) < 0 || swap_round(r, e) < 0 ||
        swap_claim(r, e) < 0 || swap_in(r, e) < 0)
        return -1;
    if (code_restore(r, &late) < 0 || swap_tidy(r, &late) < 0)
        result_warn(r->out, "%s", late.text);
    out->made = r->made;
    out->generation = r->generation;
    swap_result(r);
    redefined_result(r);
    warn_of_sessions(r);
    fault_point("restore.done");
    /* If the server crashed since, it has emptied the world again: success must not be reported. */
    if (db_server_id(r->db, &out->server, e) < 0)
        return err_step(e, "the world was swapped in, but");
    return 0;
}

/* Frees memory that the restore needs: the rows of a drill that was ended for it, and a copy that
 * is of no use to it. */
static void make_room(const struct restore *r)
{
    struct err e;
    struct db *db = open_own(&r->job->db, &e);
    if (db)
        drop_left_over(r->job, db, CONFIG_DRILL_SCHEMA);
    if (db && !(r->opt->mode == RESTORE_PROMOTION && r->job->cfg->standby.warm))
        drop_left_over(r->job, db, CONFIG_WARM_SCHEMA);
    db_close(db);
}

/* Puts the arriving dump in its place in the list, replacing an entry for the same dump here. The
 * lists of its manifest stay with their owner. */
static void list_arriving(struct restore *r)
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
    catalog_judge_rounds(c, 0);
}

static void unlist_arriving(struct restore *r)
{
    for (size_t i = 0; i < r->catalog.count && r->opt->arriving; i++)
        if (r->catalog.list[i].m.tables == r->opt->arriving->m->tables)
            r->catalog.list[i].m = (struct manifest){.generation = 0};
}

/* Rewords the error of a failed drill ("a restore would fail"), unless the failure says nothing
 * about a restore: there was no answer, or another session was in the way. Returns -1. */
static int say_of_a_restore(const struct restore *r, struct err *e)
{
    bool proves = !db_unanswered(e) && e->cls != ERR_BUSY;
    return restore_is(r)->compares && proves ? err_step(e, "a restore would fail") : -1;
}

/* Runs the steps in this order: checks first, changes last, so that a refusal leaves the world
 * unchanged. */
static int run_steps(struct restore *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    const struct state *st = r->opt->state;
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
    /* A new copy replaces the old one first, because two would need twice the memory. */
    if (r->opt->mode == RESTORE_COPY &&
        (db_lease_take(r->db, r->schema, LEASE_PATIENCE, e) < 0 ||
         db_lock_wait(r->db, c->restore_lock_wait, e) < 0 ||
         db_exec_with(r->db, "DROP DATABASE IF EXISTS ??", DB_ARGS(r->schema), e) < 0))
        return -1;
    if (use_schema(r, e) < 0 ||
        (restore_is(r)->swaps && (take_lease(r, e) < 0 || ledgers_lock(r->db, c, e) < 0)))
        return -1;
    /* A refused restore must not change anything. So the cleanup after an earlier one comes after
     * the checks of the dump's name and of a living world. */
    if (choice_find(r, e) < 0 || ledgers_guard(r, e) < 0 || permit_world(r, e) < 0)
        return -1;
    if (restore_is(r)->swaps &&
        (blocked_wait_backup(r, e) < 0 || swap_recover(r->db, r->job, &swapped, e) < 0 ||
         db_lease_read(r->db, c->schema, c->sentinel, &r->lease, e) < 0))
        return -1;
    if (restore_is(r)->swaps)
        make_room(r);
    /* Higher than every known generation: of the dumps, of the server, and of our own state. */
    r->generation = r->catalog.generation > r->lease ? r->catalog.generation : r->lease;
    if (st && st->generation > r->generation)
        r->generation = st->generation;
    r->generation++;
    if (restore_is(r)->unattended && turn_wait(r, e) < 0)
        return -1;
    if (choice_load(r, e) < 0)
        return e->cls == ERR_DENIED ? -1 : say_of_a_restore(r, e);
    checks_warn_all(r);
    warn_of_generated(r);
    if (restore_is(r)->swaps)
        return swap_world(r, e);
    if (restore_is(r)->compares)
        return live_compare(r, e) < 0 ? -1 : rehearse(r, e) < 0 ? say_of_a_restore(r, e) : 0;
    if (r->opt->mode == RESTORE_COPY)
        return warm_note(r->db, &r->plan, r->m, &r->journal, e);
    if (code_restore(r, e) < 0)
        return -1;
    return restore_is(r)->writes ? 0 : permit_rehearse(r, e);
}

/* Sets a hint with the GRANT itself, because an operator who is woken by this has no time to look
 * it up. --check knows only the world's schema. */
static void hint_grant(struct restore *r, struct err *e)
{
    /* the "DROP" of "…: DROP command denied to user …" */
    const char *end = strstr(e->text, " command denied to user"), *begin = end;
    while (begin && begin > e->text && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ ,", begin[-1]))
        begin--;
    while (begin && *begin == ' ')
        begin++;
    /* REPLACE and DELETE in a file of another tool need it; no other restore outside the world
     * does. */
    bool deletes = r->path_fd >= 0 && begin && text_starts(begin, "DELETE command");
    const char *needed = restore_is(r)->privileges;
    SCOPED(xfree) char *denied = needed ? xasprintf("%s%s", needed, deletes ? ", DELETE" : "")
                                 : begin < end ? xstrndup(begin, (size_t)(end - begin))
                                               : NULL;
    if (denied)
        db_hint_grant(r->db, r->schema, denied, e);
}

/* Runs any restore: into the world, beside it, or as a drill. */
static int restore_restore_run(const struct job *job, const struct restore_options *opt,
                               struct restore_result *out, struct err *e)
{
    struct restore r = {.job = job,
                        .opt = opt,
                        .out = out,
                        .schema = opt->into ? opt->into : job->cfg->schema,
                        .path_fd = -1};
    mono_t began = clock_mono();
    int rc = run_steps(&r, e);
    if (rc == 0) {
        result_plan(out, &r.plan, job->cfg->sentinel);
    } else if (r.db && !restore_is(&r)->passing) {
        db_fence_end(r.db); /* no player sees shadow tables */
        plan_drop(&r.plan, r.db);
        /* Except for a server-wide privilege, which its own hint names. */
        if (e->cls == ERR_DENIED && strstr(e->hint, "GRANT") && !strstr(e->hint, "ON *.*"))
            hint_grant(&r, e);
    }
    out->took_ms = mono_since(clock_mono(), began);
    code_free(&r.code);
    buf_free(&r.lost_triggers);
    names_free(&r.lost_trigger_names);
    manifest_free(&r.before);
    replay_free(&r.journal);
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
    int rc = restore_restore_run(job, opt, out, e);
    if (rc < 0)
        err_step(e, "restore");
    return rc;
}

int restore_drill(const struct job *job, const char *dump, bool fetched, const struct state *state,
                  struct restore_result *out, struct err *e)
{
    static const char drop[] = "DROP DATABASE IF EXISTS ??";
    char scratch[CONFIG_OWN_SCHEMA_MAX];
    config_own_schema(CONFIG_DRILL_SCHEMA, job->cfg, scratch);
    struct restore_options opt = {
        .mode = RESTORE_DRILL, .dump = dump, .into = scratch, .fetched = fetched, .state = state};
    struct err last; /* first in case of a refusal: then the other sessions are logged as well */
    *out = (struct restore_result){.skipped = json_array(), .plan = json_array(), .replicas = -1};
    struct db *db = open_own(&job->db, e);
    if (db)
        db_exec(db, "SET SESSION sql_log_bin=0", &last);
    int rc = db && db_lock_wait(db, job->cfg->restore_lock_wait, e) == 0
                 ? db_exec_with(db, drop, DB_ARGS(scratch), e)
                 : -1;
    if (rc == 0)
        rc = restore_restore_run(job, &opt, out, e);
    if (db && db_exec_with(db, drop, DB_ARGS(scratch), &last) < 0 && rc == 0)
        rc = err_pass(e, &last);
    if (rc < 0)
        err_step(e, "drill");
    db_close(db);
    return rc;
}

static struct db *restore_open_world(const struct job *job, struct err *e)
{
    struct db_params p = job->db;
    p.schema = job->cfg->schema;
    return open_own(&p, e);
}

int restore_tidy(const struct job *job, struct err *e)
{
    bool swapped;
    struct db *db = restore_open_world(job, e);
    /* Limits the wait for table locks, because the game's statements queue behind it. */
    int rc = db && db_lock_wait(db, job->cfg->restore_lock_wait, e) == 0 &&
                     db_lease_take(db, job->cfg->schema, 0, e) == 0
                 ? swap_recover(db, job, &swapped, e)
                 : -1;
    if (rc == 0) { /* this connection ends now and writes no more to the log */
        drop_left_over(job, db, CONFIG_DRILL_SCHEMA);
        drop_left_over(job, db, CONFIG_WARM_SCHEMA);
    }
    db_close(db);
    return rc;
}

int restore_tidy_standby(const struct job *job, struct err *e)
{
    struct db *db = restore_open_world(job, e);
    if (!db && e->num == DB_NO_SCHEMA)
        return 0; /* a standby whose schema does not exist yet */
    /* Limits the wait for table locks. Otherwise it could be a day while a session has the table
     * open, and the lease, which a promotion needs, would be held meanwhile. */
    int rc = db && db_lock_wait(db, LEASE_PATIENCE, e) == 0 &&
                     db_lease_take(db, job->cfg->schema, 0, e) == 0
                 ? swap_drop_shadows(db, job, e)
                 : -1;
    db_close(db);
    return rc;
}