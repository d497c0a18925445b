/* Decides whether the world, or some of its tables, may be replaced. */
#include "restore/permit.h"

#include <inttypes.h>
#include <string.h>

#include "dump/writer.h"
#include "mysql/account.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "progress/local.h"
#include "restore/plan.h"
#include "restore/running.h"
#include "sql/literal.h"

/* The numbers of the errors that the server itself would give. */
#define DENIED 1142
#define READ_ONLY 1290
#define NO_SUPER 1419

/* ---- --table ---- */

/* Parses the name at `s`. Returns NULL if there is none. */
static const char *permit_read_name(const char *s, struct buf *name)
{
    const char *end = s + strlen(s);
    buf_clear(name);
    if (*s == '`')
        return sql_read_ident(s, end, name);
    end = s + strcspn(s, ",");
    buf_add(name, s, (size_t)(end - s));
    return name->len ? end : NULL;
}

int restore_tables(const char *text, struct names *out, struct err *e)
{
    SCOPED(buf_free) struct buf name = {0};
    const char *s = text;
    *out = (struct names){0};
    while ((s = permit_read_name(s, &name))) {
        if (!names_has(out, name.p))
            names_add(out, name.p);
        if (*s != ',')
            break;
        s++;
    }
    if (s && !*s)
        return 0;
    names_free(out);
    err_set(e, ERR_USAGE, 0, "--table %s: not a list of tables", text);
    return err_hint(e, "separate names by commas: --table planet,fleet; quote a name that contains "
                       "a comma: --table '`a,b`'");
}

void restore_tables_option(const struct names *tables, struct buf *out)
{
    SCOPED(buf_free) struct buf list = {0};
    for (size_t i = 0; i < tables->count; i++) {
        const char *name = tables->list[i];
        buf_adds(&list, i ? "," : "");
        if (strpbrk(name, ",`"))
            sql_ident(&list, name);
        else
            buf_adds(&list, name);
    }
    buf_adds(out, " --table ");
    buf_shell(out, list.p);
}

/* Returns the newest dump that has the table, or NULL. */
static const struct manifest *newest_with(const struct catalog *dumps, const char *table)
{
    for (size_t i = 0; i < dumps->count; i++)
        if (dumps->list[i].intact && manifest_table(&dumps->list[i].m, table))
            return &dumps->list[i].m;
    return NULL;
}

int permit_tables_known(const struct restore *r, struct err *e)
{
    const struct names *tables = &r->opt->tables;
    for (size_t i = 0; i < tables->count; i++) {
        if (restore_is(r)->swaps && r->job->cfg->progress.lock_id &&
            text_among(tables->list[i], local_bound)) {
            err_set(e, ERR_REFUSED, 0,
                    "table %s cannot be restored alone: its rows belong to locks that the central "
                    "store had at that time",
                    tables->list[i]);
            return err_hint(e, "to look at it, restore it beside the world with --into=SCHEMA; a "
                               "restore of the whole world includes it");
        }
        if (newest_with(&r->catalog, tables->list[i]))
            continue;
        err_set(e, ERR_NOTHING, 0, "table %s is in no intact dump", tables->list[i]);
        return err_hint(e, "worldkeeper --restore --dry-run lists the tables of the newest dump");
    }
    return 0;
}

int permit_tables_planned(const struct restore *r, const char *dump, struct err *e)
{
    for (size_t i = 0; i < r->opt->tables.count; i++) {
        const char *name = r->opt->tables.list[i];
        const struct target *t = plan_find(&r->plan, name);
        if (t && t->skip)
            return err_set(e, ERR_REFUSED, 0, "table %s is not restored: %s", name, t->why);
        if (t)
            continue;
        const struct manifest *has = r->m ? newest_with(&r->catalog, name) : NULL;
        err_set(e, ERR_NOTHING, 0, "table %s is not in dump %s", name, dump);
        if (has)
            err_hint(e,
                     "the newest dump that has it is %s: use --restore=%s, or --at with a moment "
                     "before it was dropped",
                     has->name, has->name);
        return -1;
    }
    return 0;
}

/* ---- may the world be replaced? ---- */

/* Sets `any` to whether the MEMORY tables have rows. The sentinel's row is not a row of the
 * world. */
static int permit_any_rows(struct restore *r, bool *any, struct err *e)
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

/* Sets `why` to the reason why there is a world that a restore would overwrite, or to NULL if there
 * is none. The sentinel's row decides, and without it the server's start time. If the earlier state
 * is not known, any rows decide. */
static int world_lives(struct restore *r, const char **why, struct err *e)
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
    if (permit_any_rows(r, &rows, e) < 0)
        return -1;
    if (!restore_is(r)->asks) {
        r->living = s;
        return 0;
    }
    if (s.rows > 0) {
        bool empty = r->opt->fetched && !rows && s.rows == 1;
        *why = empty ? NULL : "its sentinel row exists";
        r->living = empty ? s : r->living;
        return 0;
    }
    if (st && st->known) {
        /* unattended: the probes also saw the connection break */
        if (!server_restarted(server, &st->server) && rows && !restore_is(r)->unattended)
            *why = "the server was not restarted since the world was last seen up";
    } else {
        const struct catalog_entry *newest = catalog_newest(&r->catalog, 0);
        if (rows && !(newest && server_restarted(server, &newest->m.server)))
            *why = "its tables hold rows and nothing proves a restart of the server";
    }
    return 0;
}

static int hint_force(struct err *e)
{
    return err_hint(e, "--force replaces it after dumping it; --into SCHEMA restores beside it");
}

/* Finds out whether of a living world just the sentinel is gone, perhaps with some of its tables:
 * the server was not restarted, and rows are there. The swap creates the sentinel again. */
static int judge_sentinel(struct restore *r, struct err *e)
{
    const struct state *st = r->opt->state;
    r->no_sentinel =
        r->living.rows == 0 && st && st->known && !server_restarted(&r->out->server, &st->server);
    return r->no_sentinel ? permit_any_rows(r, &r->no_sentinel, e) : 0;
}

/* Permits --table only if the world is alive and ours, because the other tables stay as they
 * are. */
static int permit_tables(struct restore *r, struct err *e)
{
    const struct config *cfg = r->job->cfg;
    const struct state *state = r->opt->state;
    const struct names *tables = &r->opt->tables;
    struct db_sentinel *s = &r->living;
    r->out->over_living = true;
    if (db_server_id(r->db, &r->out->server, e) < 0 ||
        (db_sentinel_read(r->db, cfg->schema, cfg->sentinel, s, e) < 0 && !db_table_missing(e)) ||
        judge_sentinel(r, e) < 0)
        return -1;
    if (s->rows != 1 && !r->no_sentinel) {
        /* A lost world needs a full restore: a single table does not complete it. */
        err_set(e, ERR_REFUSED, 0,
                "world %s is not up (its sentinel has %u rows): restoring single tables would not "
                "complete it",
                cfg->name, s->rows);
        return err_hint(e,
                        "without --table the whole world is restored; --into SCHEMA restores the "
                        "tables beside it");
    }
    if (!r->no_sentinel && state && state->known && strcmp(state->nonce, s->nonce) != 0) {
        err_set(e, ERR_REFUSED, 0,
                "the sentinel has an unexpected nonce; it belongs to another world or supervisor");
        return err_hint(e, "make sure that no other supervisor keeps the world, then adopt it: "
                           "worldkeeper --init --force");
    }
    for (size_t i = 0; i < tables->count && !r->opt->force; i++) {
        uint64_t rows = 0;
        if (db_count(r->db, cfg->schema, tables->list[i], &rows, e) < 0 && !db_table_missing(e))
            return -1;
        if (rows == 0)
            continue;
        err_set(e, ERR_REFUSED, 0, "table %s holds %" PRIu64 " row%s", tables->list[i], rows,
                rows == 1 ? "" : "s");
        return hint_force(e);
    }
    return 0;
}

int permit_world(struct restore *r, struct err *e)
{
    const struct restore_options *o = r->opt;
    const char *why;
    if (!restore_is(r)->world)
        return 0;
    if (o->tables.count)
        return permit_tables(r, e);
    if (world_lives(r, &why, e) < 0)
        return -1;
    r->out->over_living = why != NULL;
    if (!why || o->force)
        return 0;
    err_set(e, ERR_REFUSED, 0, "the world is up: %s", why);
    return hint_force(e);
}

/* Dumps a living world before --force replaces it. Without a sentinel row nothing shows which world
 * that would be, so its rows go to the conflict file instead. */
int permit_keep(struct restore *r, struct err *e)
{
    struct db_sentinel s = {0};
    struct err why;
    struct dump_options opt = {.accept_shrink = true, .keep_all = true};
    const struct config *c = r->job->cfg;
    bool rows;
    if (!r->out->over_living || !r->opt->force || !restore_is(r)->writes)
        return 0;
    if (permit_any_rows(r, &rows, e) < 0)
        return -1;
    if (!rows || db_sentinel_read(r->db, c->schema, c->sentinel, &s, &why) < 0 || s.rows != 1)
        return 0;
    job_note(r->job, "--force: dumping the existing world first");
    if (dump_run(r->job, &opt, &r->before, e) < 0)
        return err_step(e, "the dump before a forced restore failed, so nothing was replaced");
    job_note(r->job, "the previous world is in dump %s", r->before.name);
    return 0;
}

/* Checks that a fetched dump still replaces only an empty world. */
int permit_empty(struct restore *r, struct err *e)
{
    bool rows = false;
    if (!r->opt->fetched || !restore_is(r)->asks || r->opt->force || r->opt->tables.count ||
        r->living.rows != 1)
        return 0;
    if (permit_any_rows(r, &rows, e) < 0)
        return -1;
    return rows ? err_set(e, ERR_REFUSED, 0,
                          "the world was empty, but rows were written into it meanwhile")
                : 0;
}

/* Last check before the point of no return: the lease is still ours, and no world came alive that
 * may not be replaced. */
int permit_swap(struct restore *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    uint64_t lease;
    struct db_sentinel s = {0};
    if (db_lease_read(r->db, c->schema, c->sentinel, &lease, e) < 0)
        return -1;
    if (lease != r->lease)
        return err_set(e, ERR_REFUSED, 0,
                       "another process raised the generation to %" PRIu64 " meanwhile", lease);
    if (db_sentinel_read(r->db, c->schema, c->sentinel, &s, e) < 0 && e->num != DB_NO_TABLE)
        return -1;
    if (r->opt->tables.count) {
        if (r->no_sentinel ? s.rows == 0 : s.rows == 1 && strcmp(s.nonce, r->living.nonce) == 0)
            return 0;
        return err_set(e, ERR_REFUSED, 0, "the world was lost or replaced meanwhile");
    }
    /* These may be replaced: a world without rows, or what a standby has in its schema. */
    bool empty = r->opt->fetched && s.rows == 1 && strcmp(s.nonce, r->living.nonce) == 0;
    if (s.rows && !r->opt->force && !empty)
        return err_set(e, ERR_REFUSED, 0, "the world came up while it was being restored");
    return empty ? permit_empty(r, e) : 0;
}

/* ---- --dry-run ---- */

/* Fails if privileges are missing. `needed` lists them, separated by commas. */
static int permit_lacks(const struct grants *g, const char *schema, const char *needed,
                        struct err *e)
{
    SCOPED(buf_free) struct buf missing = {0};
    db_missing_privileges(&missing, g, schema, needed);
    if (!missing.len)
        return 0;
    err_set(e, ERR_DENIED, DENIED, "the account lacks %s on schema %s", missing.p, schema);
    return err_hint(e, "worldkeeper --check prints the GRANT to type");
}

/* Checks the account's privileges. --into needs fewer, because nothing is swapped. Temporary tables
 * are for the dump of the living world that --force takes first. */
static int permit_privileges(const struct restore *r, const struct grants *g, bool triggers,
                             struct err *e)
{
    const struct config *c = r->job->cfg;
    if (!restore_is(r)->world)
        return permit_lacks(g, r->schema, "SELECT, INSERT, CREATE", e);
    if (permit_lacks(g, c->schema, "SELECT, INSERT, CREATE, DROP, ALTER, LOCK TABLES", e) < 0 ||
        (triggers && permit_lacks(g, c->schema, "TRIGGER", e) < 0))
        return -1;
    return r->opt->force && c->dump_method != METHOD_LOCK
               ? permit_lacks(g, c->schema, "CREATE TEMPORARY TABLES", e)
               : 0;
}

static bool permit_is_on(struct db *db, const char *name)
{
    SCOPED(xfree) char *v = db_variable(db, name);
    return v && (strcmp(v, "1") == 0 || strcasecmp(v, "ON") == 0);
}

/* Fails if server variables would make the server refuse the restore. */
static int permit_settings(struct db *db, const struct grants *g, bool triggers, struct err *e)
{
    struct server_version v = db_version(db);
    if (permit_is_on(db, "super_read_only") ||
        (permit_is_on(db, "read_only") && !server_may(g, v, MAY_WRITE_READ_ONLY))) {
        err_set(e, ERR_QUERY, READ_ONLY, "the server is read-only: nothing can be restored on it");
        return err_hint(
            e, "name the server that takes writes, or " DB_UNSET_FOR_GOOD("read_only", "OFF"));
    }
    if (!triggers || server_may(g, v, MAY_SKIP_TRUST) || db_variable_number(db, "log_bin") != 1 ||
        db_variable_number(db, "log_bin_trust_function_creators") != 0)
        return 0;
    err_set(e, ERR_QUERY, NO_SUPER,
            "with a binary log, only an account with SUPER can recreate this world's triggers");
    return err_hint(e, DB_SET_FOR_GOOD("log_bin_trust_function_creators", "1"));
}

int permit_rehearse(struct restore *r, struct err *e)
{
    SCOPED(grants_free) struct grants g = {0};
    struct err ignored;
    unsigned strange = 0;
    bool triggers = false;
    for (size_t i = 0; i < r->plan.count && restore_is(r)->world; i++)
        triggers |= r->plan.list[i].triggers;
    if (db_grants(r->db, &g, &strange, &ignored) < 0)
        return 0;
    /* With a grant that was not understood, missing privileges cannot be determined. */
    if (!strange && permit_privileges(r, &g, triggers, e) < 0)
        return -1;
    return permit_settings(r->db, &g, triggers, e);
}