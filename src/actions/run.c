#include "actions/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "actions/conflicts.h"
#include "actions/from.h"
#include "actions/history.h"
#include "actions/lease_keep.h"
#include "actions/ledgers.h"
#include "actions/list.h"
#include "actions/progress.h"
#include "actions/standby.h"
#include "actions/whose.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "dump/verify.h"
#include "dump/writer.h"
#include "mysql/account.h"
#include "mysql/galera.h"
#include "mysql/lease.h"
#include "mysql/sentinel.h"
#include "notify/alert.h"
#include "restore/loss.h"
#include "restore/permit.h"
#include "restore/restore.h"
#include "restore/result.h"
#include "store/catalog.h"
#include "store/round.h"

/* Each action is a function of the same type (action_fn) in one table. Options, the lock, the lease
 * and the password are handled once for all actions before that (action_run(), main.c). */

/* What --init reads before it changes anything. */
struct init {
    struct db *db;
    struct catalog catalog;
    struct db_sentinel sentinel;
    struct server_id server;
    uint64_t lease;
    bool no_table;  /* the sentinel's table is missing, not only its row */
    uint64_t begun; /* the round that --init began; 0: none */
};

/* Reads the sentinel, the lease and the list of dumps. A missing sentinel table is treated as an
 * empty one. It is created only after all checks, because a running supervisor takes an empty table
 * for a lost world. */
static int init_read(struct action_context *a, struct init *in, struct err *e)
{
    const struct config *c = a->cfg;
    in->db = db_open(&a->job.db, e);
    if (!in->db || galera_own_node(in->db, e) < 0 ||
        catalog_load(a->job.dirfd, c->name, &in->catalog, e) < 0 ||
        db_server_id(in->db, &in->server, e) < 0 ||
        db_lease_read(in->db, c->schema, c->sentinel, &in->lease, e) < 0 ||
        db_lease_create(in->db, c->schema, c->sentinel, e) < 0)
        return -1;
    int rc = db_sentinel_read(in->db, c->schema, c->sentinel, &in->sentinel, e);
    in->no_table = rc < 0 && db_table_missing(e);
    return rc < 0 && !in->no_table ? -1 : 0;
}

/* Begins a round. Its generation is above all generations of the old round; otherwise a store would
 * treat the dumps of both as those of two machines. The round is saved first: if the process is
 * killed afterwards, no dump of the old round can be restored over the world. */
static int begin_round(struct action_context *a, struct init *in, const char *nonce,
                       uint64_t *generation, struct err *e)
{
    uint64_t last = in->lease > in->catalog.generation ? in->lease : in->catalog.generation;
    if (in->sentinel.rows == 1 && in->sentinel.generation > last)
        last = in->sentinel.generation;
    if (a->state.generation > last)
        last = a->state.generation;
    /* If the world was never kept here, another node of its cluster may already have the
     * generation. */
    bool kept = a->state.known || in->catalog.count > 0 || in->catalog.round > 0;
    *generation = last + (kept || last == 0);
    /* If dumps have no round number, they belong to the first round. */
    bool unnumbered = in->catalog.round == 0 && in->catalog.count > 0;
    uint64_t number = in->catalog.round + 1 + unnumbered;
    if (round_begin(a->job.dirfd, number, nonce, e) < 0)
        return -1;
    in->begun = a->state.round = number;
    fault_point("round.begun");
    return 0;
}

/* Adopts a world other than that of the dumps here, which must not be restored over it. The world
 * keeps its nonce, by which its creator may identify it. */
static int adopt_foreign(struct action_context *a, struct init *in, struct err *e)
{
    const struct config *c = a->cfg;
    const char *nonce = in->sentinel.nonce;
    uint64_t generation = in->sentinel.generation;
    if (in->catalog.count &&
        (begin_round(a, in, nonce, &generation, e) < 0 ||
         db_sentinel_renew(in->db, c->schema, c->sentinel, nonce, generation, e) < 0))
        return -1;
    return action_remember(a, nonce, generation, &in->server, e);
}

/* Handles an existing sentinel row: it is adopted if it is ours or with --force, otherwise
 * refused. */
static int init_adopt(struct action_context *a, struct init *in, bool force, struct err *e)
{
    const char *nonce = in->sentinel.nonce;
    bool ours = (a->state.known && strcmp(nonce, a->state.nonce) == 0) ||
                catalog_knows_nonce(&in->catalog, nonce);
    if (in->sentinel.rows > 1)
        return err_set(e, ERR_REFUSED, 0,
                       "table %s holds %u rows; it is not a sentinel of worldkeeper",
                       a->cfg->sentinel, in->sentinel.rows);
    if (ours)
        return action_remember(a, nonce, in->sentinel.generation, &in->server, e);
    if (force)
        return adopt_foreign(a, in, e);
    err_set(e, ERR_REFUSED, 0, "a sentinel exists already: %s",
            a->state.known
                ? "its nonce is unknown here; it belongs to another world or supervisor"
                : "nothing in [dump] dir mentions it; another supervisor may keep this world");
    return err_hint(e, "make sure that no other supervisor keeps the world, then adopt it: "
                       "worldkeeper --init --force");
}

/* Undoes the new round, of which nothing exists yet because the server rejected its sentinel. */
static int undo_round(struct action_context *a, struct init *in)
{
    struct err ignored;
    if (in->begun)
        round_begin(a->job.dirfd, in->catalog.round, in->catalog.round_nonce, &ignored);
    in->begun = 0;
    return -1;
}

/* Inserts a missing sentinel row, unless its world was lost. The same round continues only if the
 * row was deleted from its table while the server was not restarted. */
static int init_create(struct action_context *a, struct init *in, bool force, struct err *e)
{
    const struct config *c = a->cfg;
    char nonce[33];
    uint64_t generation;
    if (state_standby(&a->state, c) && catalog_newest(&in->catalog, 0) && !force) {
        err_set(e, ERR_REFUSED, 0, "the dumps here belong to a world that another machine keeps");
        return err_hint(
            e, "worldkeeper --promote takes that world over after the other machine has stopped");
    }
    bool restarted = !a->state.known || server_restarted(&in->server, &a->state.server);
    bool only_row = !restarted && !in->no_table;
    if (restarted && (catalog_newest(&in->catalog, 0) || a->state.known) && !force) {
        err_set(e, ERR_REFUSED, 0, "this world was kept before, but its sentinel row is missing");
        return err_hint(e, "worldkeeper --restore brings the world back; worldkeeper --init "
                           "--force accepts the present tables as the world");
    }
    if (only_row) {
        snprintf(nonce, sizeof nonce, "%s", a->state.nonce);
        generation = in->lease > in->catalog.generation ? in->lease : in->catalog.generation;
        generation += generation == 0;
    } else if (db_nonce(nonce, e) < 0 || begin_round(a, in, nonce, &generation, e) < 0) {
        return -1;
    }
    if (db_sentinel_create(in->db, c->schema, c->sentinel, true, "", e) < 0 ||
        db_sentinel_insert(in->db, c->schema, c->sentinel, nonce, generation, "", e) < 0)
        return db_unanswered(e) ? -1 : undo_round(a, in);
    return action_remember(a, nonce, generation, &in->server, e);
}

/* Creates what ledgers and progress need in the schema. */
static int init_parts(struct action_context *a, json_t **made, json_t **skipped, struct err *e)
{
    return action_init_ledgers(a, made, skipped, e) < 0 ? -1 : action_init_progress(a, e);
}

static int action_init(struct action_context *a, const struct request *r, json_t **result,
                       struct err *e)
{
    struct init in = {0};
    json_t *made = NULL, *skipped = NULL;
    int rc = init_read(a, &in, e) < 0 ? -1 : action_may_begin(a, &in.sentinel, e);
    bool there = in.sentinel.rows > 0;
    if (rc == 0)
        rc = there ? init_adopt(a, &in, r->force, e) : init_create(a, &in, r->force, e);
    if (rc == 0)
        rc = init_parts(a, &made, &skipped, e);
    if (rc == 0) {
        /* No other check needs this privilege before this machine is a standby. */
        struct err grant = {0};
        char schema[CONFIG_OWN_SCHEMA_MAX];
        config_own_schema(CONFIG_WARM_SCHEMA, a->cfg, schema);
        if (a->cfg->standby.warm)
            db_hint_missing(in.db, schema, COPY_PRIVILEGES, &grant);
        if (grant.hint[0]) {
            SCOPED(xfree) char *text =
                xasprintf("[standby] warm = yes: as a standby, this machine cannot keep the world "
                          "loaded until an administrator runs: %s",
                          grant.hint);
            action_note(a, text);
        }
    }
    if (rc == 0)
        *result = json_pack("{s:s, s:s, s:I, s:o, s:O, s:O}", "sentinel", a->cfg->sentinel, "did",
                            there      ? "already there"
                            : in.begun ? "created"
                                       : "put back",
                            "generation", (json_int_t)a->state.generation, "state",
                            state_json(&a->state), "ledgers", made, "skipped", skipped);
    if (rc == 0 && in.begun)
        js_set_int(*result, "round", (int64_t)in.begun);
    if (rc < 0)
        err_step(e, "init");
    json_decref(made);
    json_decref(skipped);
    catalog_free(&in.catalog);
    db_close(in.db);
    return rc;
}

/* ---- --new-round ---- */

/* Pins the last dump of the ending round. It is a new dump of the current world, or the newest
 * existing one if the sentinel was lost with the tables. `last` receives its name, or "" if there
 * is none. */
static int keep_last_dump(struct action_context *a, struct init *in, char last[DUMP_NAME_MAX],
                          struct err *e)
{
    SCOPED(manifest_free) struct manifest m = {0};
    const struct catalog_entry *newest = catalog_newest(&in->catalog, 0);
    struct dump_options opt = {.accept_shrink = true,
                               .nonce = a->state.known ? a->state.nonce : NULL};
    snprintf(last, DUMP_NAME_MAX, "%s", newest ? newest->m.name : "");
    if (in->sentinel.rows == 1) {
        if (dump_run(&a->job, &opt, &m, e) < 0)
            return err_step(e, "the last dump of the old round");
        snprintf(last, DUMP_NAME_MAX, "%s", m.name);
    }
    if (!last[0])
        return 0;
    fault_point("round.dumped");
    SCOPED(xfree) char *why = xasprintf("the last dump of round %" PRIu64, in->catalog.round);
    return pin_set(a->job.dirfd, last, PIN_ROUND, why, e);
}

/* Makes the current tables the world of the new round, by another nonce in the sentinel. */
static int adopt_round(struct action_context *a, struct init *in, struct err *e)
{
    const struct config *c = a->cfg;
    char nonce[33];
    uint64_t generation;
    if (in->sentinel.rows == 0)
        return init_create(a, in, false, e);
    if (db_nonce(nonce, e) < 0 || begin_round(a, in, nonce, &generation, e) < 0)
        return -1;
    if (a->job.swapping)
        a->job.swapping(a->job.note_arg, nonce, generation);
    if (db_sentinel_renew(in->db, c->schema, c->sentinel, nonce, generation, e) < 0)
        return db_unanswered(e) ? -1 : undo_round(a, in);
    fault_point("round.adopted");
    return action_remember(a, nonce, generation, &in->server, e);
}

static int new_round(struct action_context *a, struct init *in, json_t **result, struct err *e)
{
    char last[DUMP_NAME_MAX];
    SCOPED(manifest_free) struct manifest first = {0};
    json_auto_t *made = NULL, *skipped = NULL;
    if (init_read(a, in, e) < 0 || action_may_begin(a, &in->sentinel, e) < 0 ||
        (in->sentinel.rows > 0 && init_adopt(a, in, false, e) < 0))
        return -1;
    if (in->sentinel.rows == 0 && !in->no_table) {
        err_set(e, ERR_REFUSED, 0,
                "the sentinel row is missing: either the old round is lost, or only that row");
        return err_hint(e, "worldkeeper --restore restores a lost world; worldkeeper --init only "
                           "recreates the row; then worldkeeper --new-round");
    }
    if (keep_last_dump(a, in, last, e) < 0 || adopt_round(a, in, e) < 0)
        return -1;
    struct dump_options opt = {.accept_shrink = true, .nonce = a->state.nonce};
    if (in->sentinel.rows == 0 && init_parts(a, &made, &skipped, e) < 0)
        return -1;
    *result = json_pack("{s:I, s:s?, s:n, s:I, s:o}", "round", (json_int_t)in->begun, "last",
                        last[0] ? last : NULL, "first", "generation",
                        (json_int_t)a->state.generation, "state", state_json(&a->state));
    if (dump_run(&a->job, &opt, &first, e) < 0)
        return err_step(e, "round %" PRIu64 " has begun, but it has no dump yet", in->begun);
    a->dumped = manifest_figures(&first, a->cfg->sentinel);
    json_object_set_new(*result, "first", json_string(first.name));
    return 0;
}

static int action_new_round(struct action_context *a, const struct request *r, json_t **result,
                            struct err *e)
{
    struct init in = {0};
    (void)r;
    int rc = new_round(a, &in, result, e);
    if (rc < 0)
        err_step(e, "new round");
    catalog_free(&in.catalog);
    db_close(in.db);
    return rc;
}

/* Checks that the opened directory is still the one that the config names. Otherwise new dumps
 * would be stored in it and not be found later, and those in the other directory would not be seen.
 * A restore also uses a directory that was moved or removed, because it may hold the only dumps. */
static int check_place(const struct action_context *a, enum action action, struct err *e)
{
    const char *dir = a->cfg->dump_dir;
    enum file_dir_place place = file_dir_place(a->job.dirfd, dir);
    if (place == FILE_DIR_SAME || (place == FILE_DIR_GONE && action == ACTION_RESTORE))
        return 0;
    if (place == FILE_DIR_OTHER)
        err_set(e, ERR_CHANGED, ACTION_OTHER_DIR, "%s is not the same directory as before", dir);
    else
        err_set(e, ERR_CHANGED, ENOENT, "%s does not exist: it was moved or removed", dir);
    return err_hint(e, "move it back, or create it again; it is used as soon as it exists");
}

/* Takes a dump. The supervisor uses the result in a->dumped; the JSON is for users. */
static int action_dump(struct action_context *a, const struct request *r, json_t **result,
                       struct err *e)
{
    SCOPED(manifest_free) struct manifest m = {0};
    bool stored = false;
    struct dump_options opt = {.accept_shrink = r->force,
                               .nonce = a->state.known ? a->state.nonce : NULL,
                               .shrunk = json_array(),
                               .stored = &stored};
    int rc = dump_run(&a->job, &opt, &m, e);
    if (check_place(a, ACTION_DUMP, e) < 0) { /* the cause of any other error, so it replaces it */
        rc = -1;
        stored = false;
    }
    if (stored || m.rejected[0]) {
        *result = manifest_summary(&m, a->cfg->sentinel);
        json_object_set_new(*result, "nonce", json_string(m.nonce));
        json_object_set_new(*result, "end_point", manifest_point_json(&m.end));
        if (stored)
            a->dumped = manifest_figures(&m, a->cfg->sentinel);
        if (json_array_size(opt.shrunk) > 0)
            json_object_set(*result, "shrunk", opt.shrunk);
    }
    json_decref(opt.shrunk);
    return rc;
}

/* Returns the known extent of the loss. Log times are the server's, in whole seconds. */
static struct loss loss_known(const struct action_context *a, const struct restore_result *res)
{
    const struct state *st = &a->state;
    wall_t now = clock_wall(), covered = res->dump_at;
    wall_t last = res->journal.gap[0] ? res->journal.gap_at : res->journal.last;
    wall_t alive = st->known ? st->alive_at : (wall_t){0};
    /* A server that does not sync its log at each commit may lose the end of its log in a machine
     * crash. Whether another machine crashed is not known. */
    const char *host = a->cfg->mysql.host;
    bool may_be = !state_same_boot(st) || (host && !config_is_here(host));
    bool cut = res->journal.unsynced && may_be;
    bool restarted = st->known && server_same_place(&res->server, &st->server) &&
                     server_restarted(&res->server, &st->server);
    last.ms -= res->server.ahead_ms;
    if (res->journal.used && last.ms > covered.ms && last.ms <= now.ms)
        covered = last;
    if (res->journal.older)
        covered = (wall_t){0};
    return loss_of(
        &(struct loss_facts){.nothing = res->journal.used && !res->journal.gap[0] && !cut,
                             .covered = covered,
                             .alive = alive,
                             .gone = st->gone_at,
                             .server_started = restarted ? res->server.started : (wall_t){0},
                             .now = now});
}

/* Returns the time to which the world was restored, or null for the time of its last change. */
static json_t *restored_to(wall_t at, const struct restore_result *res)
{
    char t[TEXT_SHORT];
    wall_t to = at;
    if (!to.ms && res->journal.used)
        to = res->journal.gap[0] ? res->journal.gap_at : (wall_t){0};
    else if (!to.ms)
        to = res->dump_at;
    return to.ms ? json_string(text_utc(to, t)) : json_null();
}

/* Restores a dump from the store. *beside is set to false if the whole dump was here or was fetched
 * before the restore. */
static int restore_fetched(struct action_context *a, const struct request *r, bool *beside,
                           const struct restore_options *asked, struct restore_result *res,
                           struct err *e)
{
    SCOPED(action_from_end) struct action_from from;
    struct restore_options opt = *asked;
    if (action_from_begin(a, r, opt.at, *beside, &from, e) < 0)
        return -1;
    *beside = from.arriving.m != NULL;
    opt.dump = from.name[0] ? from.name : NULL;
    opt.arriving = *beside ? &from.arriving : NULL;
    /* Later dumps here belong to the newest round, even if a dump of another round was restored by
     * name. */
    opt.round = from.round;
    return restore_run(&a->job, &opt, res, e);
}

/* Restores the dump while it is fetched, unless a dump of the live world is taken first. If the
 * fetched dump is damaged or cannot be read, it is fetched once more. If that fails again, the
 * previous dump is used. The second attempt verifies everything before the restore begins. */
static int restore_from(struct action_context *a, const struct request *r,
                        const struct restore_options *opt, struct restore_result *res,
                        struct err *e)
{
    bool beside = !r->dry_run && !opt->force;
    int rc = restore_fetched(a, r, &beside, opt, res, e);
    bool again = e->cls == ERR_DAMAGED || e->num == FETCH_UNREADABLE;
    if (rc == 0 || !again || !beside)
        return rc;
    action_note(a, e->text);
    restore_result_free(res);
    err_clear(e);
    beside = false;
    return restore_fetched(a, r, &beside, opt, res, e);
}

/* Completes a restore: computes what was lost, and saves the new state. */
static void run_restored(struct action_context *a, const struct request *r, wall_t at,
                         const struct restore_result *res, json_t *result)
{
    /* Changes that a user discards on purpose are not reported as a loss. */
    bool wanted = r->at || res->over_living;
    struct loss loss = {.most_ms = -1};
    if (!wanted)
        loss = loss_known(a, res);
    loss_to_json(&loss, result);
    if (wanted)
        json_object_del(result, "lost");
    json_object_set_new(result, "restored_to", restored_to(at, res));
    state_restored(&a->state, &res->made);
    struct err late; /* the world is restored: failing to save the state is only noted */
    if (action_remember(a, res->made.nonce, res->generation, &res->server, &late) < 0)
        action_note(a, late.text);
    if (r->from)
        action_adopt(a);
    json_object_set_new(result, "state", state_json(&a->state));
}

static enum restore_mode mode_of(const struct request *r)
{
    enum restore_mode into_world = r->automatic ? RESTORE_LOSS : RESTORE_WORLD;
    if (r->dry_run)
        return r->into ? RESTORE_SCRATCH_DRY : RESTORE_WORLD_DRY;
    return r->into ? RESTORE_SCRATCH : into_world;
}

static int action_restore(struct action_context *a, const struct request *r, json_t **result,
                          struct err *e)
{
    SCOPED(restore_result_free) struct restore_result res = {0};
    SCOPED(names_free) struct names tables = {0};
    wall_t at = {0}, now = clock_wall();
    /* The time is in UTC, as main.c writes it. */
    if (r->at && (text_time_parse(r->at, now, &at) < 0 || at.ms > now.ms))
        return err_set(e, ERR_USAGE, 0, "--at \"%s\" is not a time in the past", r->at);
    if (r->at)
        at.ms = at.ms / 1000 * 1000 + 999; /* the log counts whole seconds */
    if ((r->into && config_check_into(r->into, e) < 0) ||
        (r->tables && restore_tables(r->tables, &tables, e) < 0))
        return -1;
    struct restore_options opt = {.mode = mode_of(r),
                                  .dump = r->dump,
                                  .newest = r->from && restore_newest(r->dump),
                                  .fetched = r->from != NULL,
                                  .into = r->into,
                                  .tables = tables,
                                  .at = at,
                                  .force = r->force,
                                  .accept_cut = r->accept_cut,
                                  .charset = r->charset,
                                  .with_code = r->with_code,
                                  .skip = r->skip,
                                  .state = &a->state};
    int rc = r->from ? restore_from(a, r, &opt, &res, e) : restore_run(&a->job, &opt, &res, e);
    if (!res.plan)
        return rc; /* no restore began */
    *result = restore_json(&res);
    json_object_set_new(*result, "dry_run", json_boolean(r->dry_run));
    if (r->into)
        js_set_clean(*result, "into", r->into);
    if (r->at)
        js_set_clean(*result, "moment", r->at);
    if (r->tables)
        js_set_clean(*result, "only", r->tables);
    if (rc == 0 && res.made.nonce[0])
        run_restored(a, r, at, &res, *result);
    return rc;
}

/* Removes left-overs. If it finds a restore that had taken effect, state.json is newer than our
 * copy. */
static int action_tidy(struct action_context *a, const struct request *r, json_t **result,
                       struct err *e)
{
    (void)r;
    struct state before = a->state;
    if (restore_tidy(&a->job, e) < 0 || action_load_state(a, e) < 0)
        return -1;
    fault_point("tidy.loaded");
    if (!a->state.known) /* the dump directory was replaced and the new one has no state.json */
        a->state = before;
    *result = json_pack("{s:o}", "state", state_json(&a->state));
    return 0;
}

/* Runs a drill, which writes to its own schema and does not touch the world. */
static int action_drill(struct action_context *a, const struct request *r, json_t **result,
                        struct err *e)
{
    SCOPED(restore_result_free) struct restore_result res = {0};
    SCOPED(action_from_end) struct action_from from = {.name = ""};
    if (r->from && action_from_begin(a, r, (wall_t){0}, false, &from, e) < 0)
        return -1;
    const char *dump = from.name[0] ? from.name : r->dump;
    int rc = restore_drill(&a->job, dump, r->from != NULL, &a->state, &res, e);
    *result = restore_json(&res);
    return rc;
}

static int run_read_back(struct action_context *a, const struct manifest *m, struct err *e)
{
    SCOPED(xfree) char *file = xasprintf("%s.sql.gz", m->name);
    progress_phase(&a->progress, "verifying", manifest_world_rows(m, a->cfg->sentinel),
                   m->file_size);
    return verify_dump(a->job.dirfd, file, m, &a->progress, e);
}

static void add_verdict(json_t *list, const char *name, bool whole, const char *why)
{
    json_array_append_new(list, json_pack("{s:s, s:b, s:o}", "name", name, "whole", whole, "reason",
                                          js_clean(whole ? "" : why)));
}

/* Returns true if retention or a user removed the dump since the dumps were listed. A dump's
 * manifest is removed first. */
static bool run_is_gone(const struct action_context *a, const struct manifest *m)
{
    SCOPED(xfree) char *file = xasprintf("%s.json", m->name);
    return faccessat(a->job.dirfd, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* Reads one dump back and records the result beside it. A dump is recorded as damaged only if its
 * data is damaged. A read error or a signature that cannot be checked does not count. */
static bool verify_one(struct action_context *a, const struct catalog_entry *c, json_t *list)
{
    struct err why = {0}, late;
    bool readable = c->intact || c->damaged, whole = readable && run_read_back(a, &c->m, &why) == 0;
    bool unloadable = whole && proof_unloadable(&c->proof);
    const char *reason = unloadable || !readable ? c->reason : why.text;
    int rc = 0;
    if (!whole && run_is_gone(a, &c->m))
        return true;
    if (whole && !unloadable)
        rc = proof_intact(a->job.dirfd, c->m.name, "verify", &late);
    else if ((readable && why.cls == ERR_DAMAGED) || (!readable && !c->unread && !c->unproven))
        rc = proof_damaged(a->job.dirfd, c->m.name, "verify", reason, &late);
    if (rc < 0)
        action_note(a, late.text);
    add_verdict(list, c->m.name, whole && !unloadable, reason);
    return whole && !unloadable;
}

static int action_verify(struct action_context *a, const struct request *r, json_t **result,
                         struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    if (r->from)
        return action_from_verify(a, r, result, e);
    if (catalog_load(a->job.dirfd, a->cfg->name, &c, e) < 0)
        return -1;
    json_t *list = json_array();
    size_t seen = 0, bad = 0;
    bool latest = r->dump && strcmp(r->dump, "latest") == 0;
    /* Retention may delete a listed dump, so verify_one() checks again. */
    fault_point("verify.listed");
    for (size_t i = 0; i < c.count; i++) {
        if (r->dump && !latest && !catalog_named(c.list[i].m.name, r->dump))
            continue;
        if (latest && seen)
            break;
        seen++;
        bad += !verify_one(a, &c.list[i], list);
    }
    *result = json_pack("{s:o}", "dumps", list);
    if (seen == 0)
        return err_set(e, ERR_UNWELL, 0, "dump %s is not in %s", r->dump ? r->dump : "at all",
                       a->cfg->dump_dir);
    return bad ? err_set(e, ERR_UNWELL, 0, "%zu of %zu dumps are damaged", bad, seen) : 0;
}

/* Signs the files beside the dumps that have no HMAC. One with a wrong HMAC is not ours; it stays
 * ignored, and that is said. */
static int seal_others(struct action_context *a, struct err *e)
{
    struct err why = {0};
    int (*const sign[])(int dirfd, struct err *e) = {state_sign, round_sign};
    size_t first = a->ignored.cls == ERR_NONE ? 1 : 0; /* a state that is used needs no HMAC */
    for (size_t i = first; i < sizeof sign / sizeof *sign; i++) {
        if (sign[i](a->job.dirfd, &why) == 0)
            continue;
        if (why.cls != ERR_REFUSED || why.num != 0)
            return err_pass(e, &why);
        if (strcmp(why.text, a->ignored.text) != 0) /* else it was said already */
            action_note(a, why.text);
    }
    return 0;
}

/* Signs a dump that was read back and matches its manifest. The manifest is signed last, so that a
 * failure can be repeated. */
static int seal_dump(int dirfd, const struct manifest *m, bool named, struct err *e)
{
    return pin_sign(dirfd, m->name, named, e) < 0 || proof_sign(dirfd, m->name, named, e) < 0
               ? -1
               : manifest_write(dirfd, m, e);
}

/* Signs dumps. Without a name, only unsigned dumps are signed. A dump with a wrong signature must
 * be named, because a user must look at it first. */
static int action_seal(struct action_context *a, const struct request *r, json_t **result,
                       struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    if (!signature_on()) {
        err_set(e, ERR_CONFIG, 0, "cannot sign dumps: %s names no key", a->cfg->path);
        return err_hint(e, "set [dump] hmac_key_file; to create a key: openssl rand -hex 32");
    }
    if ((!r->dump && seal_others(a, e) < 0) || catalog_load(a->job.dirfd, a->cfg->name, &c, e) < 0)
        return -1;
    json_t *list = json_array();
    size_t bad = 0;
    for (size_t i = 0; i < c.count; i++) {
        struct catalog_entry *x = &c.list[i];
        bool asked =
            r->dump ? catalog_named(x->m.name, r->dump) : x->m.signature == SIGNATURE_MISSING;
        if (!asked || !x->unproven)
            continue;
        struct err why = {0};
        fault_point("seal.begun");
        bool done = run_read_back(a, &x->m, &why) == 0 &&
                    seal_dump(a->job.dirfd, &x->m, r->dump != NULL, &why) == 0;
        add_verdict(list, x->m.name, done, why.text);
        bad += !done;
    }
    size_t seen = json_array_size(list);
    *result = json_pack("{s:o}", "dumps", list);
    if (r->dump && seen == 0)
        return err_set(e, ERR_NOTHING, 0, "no dump %s without a valid HMAC in %s", r->dump,
                       a->cfg->dump_dir);
    return bad ? err_set(e, ERR_UNWELL, 0, "%zu of %zu dumps are damaged", bad, seen) : 0;
}

/* Tests all channels, because a failing channel must not hide another one. */
static int action_test_alert(struct action_context *a, const struct request *r, json_t **result,
                             struct err *e)
{
    (void)r;
    json_t *list = json_array();
    size_t tried = 0, failed = 0;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        if (!alert_channel_on(a->cfg, ch))
            continue;
        struct request_result reply = {0};
        struct err why = {0};
        bool ok = alert_test(a->cfg, ch, &reply, &why) == 0;
        tried++;
        failed += !ok;
        json_array_append_new(list, json_pack("{s:s, s:b, s:o, s:s}", "channel",
                                              alert_channel_name(a->cfg, ch), "ok", ok, "reply",
                                              js_clean(ok ? reply.reply.p : why.text), "hint",
                                              ok ? "" : why.hint));
        request_result_free(&reply);
    }
    *result = json_pack("{s:o}", "channels", list);
    if (tried == 0) {
        err_set(e, ERR_CONFIG, 0, "%s configures no alert channel", a->cfg->path);
        return err_hint(e, "set [alert.smtp] url, from, to or [alert.webhook] url");
    }
    return failed ? err_set(e, ERR_SYSTEM, 0, "%zu of %zu alert channels failed", failed, tried)
                  : 0;
}

/* main.c or a running supervisor runs the other actions. */
static action_fn *const functions[ACTIONS] = {
    [ACTION_INIT] = action_init,
    [ACTION_NEW_ROUND] = action_new_round,
    [ACTION_DUMP] = action_dump,
    [ACTION_LIST] = action_list,
    [ACTION_VERIFY] = action_verify,
    [ACTION_DRILL] = action_drill,
    [ACTION_RESTORE] = action_restore,
    [ACTION_CONFLICTS] = action_conflicts,
    [ACTION_ROLLUP] = action_rollup,
    [ACTION_HISTORY] = action_history,
    [ACTION_WRITE_BACK] = action_write_back,
    [ACTION_LOCKS] = action_locks,
    [ACTION_RELEASE] = action_release,
    [ACTION_SEAL] = action_seal,
    [ACTION_TEST_ALERT] = action_test_alert,
    [ACTION_TIDY] = action_tidy,
    [ACTION_PROMOTE] = action_promote,
    [ACTION_DEMOTE] = action_demote,
    [ACTION_SWITCH_OVER] = action_switch_over,
};

/* Runs an action. Cheap checks come first, and all checks come before any change. */
int action_run(struct action_context *a, const struct request *r, json_t **result, struct err *e)
{
    *result = NULL;
    if (!functions[r->action])
        return err_set(e, ERR_USAGE, 0, "--%s cannot run here", action_name(r->action));
    if (action_allowed(a, r, e) < 0 || (a->job.dirfd >= 0 && check_place(a, r->action, e) < 0) ||
        (action_is(r->action, ACTION_READS_DUMPS) && signature_open(a->cfg, e) < 0) ||
        (action_is(r->action, ACTION_LOGS_IN) && action_password(a, e) < 0))
        return -1;
    struct lease_keep lease = {0};
    /* Only a machine that holds the world's lease may do this. A promotion takes the lease
     * itself. */
    bool other = (r->action == ACTION_ROLLUP && !r->verify) || r->action == ACTION_WRITE_BACK ||
                 r->action == ACTION_RELEASE || r->apply;
    bool changes = (request_swaps(r) && r->action != ACTION_PROMOTE) || (other && !r->dry_run);
    if (((r->action == ACTION_DUMP || r->action == ACTION_NEW_ROUND) && lease_keep_ask(a, e) < 0) ||
        (changes && lease_keep_own(&lease, a, action_name(r->action), e) < 0))
        return -1;
    int rc = functions[r->action](a, r, result, e);
    if (changes)
        lease_keep_end(&lease);
    return rc;
}
