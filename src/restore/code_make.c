#include "restore/code_make.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/line.h"
#include "binlog/statement_summary.h"
#include "mysql/account.h"
#include "mysql/job.h"
#include "mysql/objects.h"
#include "mysql/schema.h"
#include "mysql/sentinel.h"
#include "progress/local.h"
#include "restore/code.h"
#include "restore/plan.h"
#include "restore/result.h"
#include "restore/running.h"
#include "sql/literal.h"

#define NAMED_MAX 100 /* objects per list that a result names */
#define UNKNOWN_COLLATION 1273
#define ROUNDS_MAX 64 /* for views that depend on each other */

/* ---- whether it may run ---- */

/* Returns how far the dump's code is trusted. Manifest and dump were opened by file_open_own(), so
 * only worldkeeper's own user or root can have written them. */
static enum code_trust code_trust(const struct config *c, const struct manifest *m)
{
    if (signature_on())
        return m->signature == SIGNATURE_GOOD ? CODE_SIGNED : CODE_UNKNOWN;
    return strcmp(m->world, c->name) == 0 ? CODE_OWN : CODE_UNKNOWN;
}

/* Sets `empty` to whether the schema is empty, as on a rebuilt server. Objects of --init and tables
 * of the running restore do not count. Everything else does: tables, and views, routines, packages,
 * libraries, triggers and events that are visible to the account. */
static int code_make_is_empty(const struct restore *r, bool *empty, struct err *e)
{
    static const enum definition_kind kinds[] = {
        DEFINITION_FUNCTION, DEFINITION_PROCEDURE, DEFINITION_PACKAGE, DEFINITION_PACKAGE_BODY,
        DEFINITION_LIBRARY,  DEFINITION_TRIGGER,   DEFINITION_EVENT};
    const char *sentinel = r->job->cfg->sentinel;
    int got;
    *empty = true;
    struct db_rows *rows = db_select_with(
        r->db, "n", "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA=?",
        DB_ARGS(r->schema), e);
    while ((got = db_next(rows, e)) == 1)
        if (!db_sentinel_own(sentinel, db_text(rows, 0)) &&
            !text_among(db_text(rows, 0), local_own) &&
            !text_starts(db_text(rows, 0), DB_OWN_PREFIX))
            *empty = false;
    db_rows_end(rows);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && *empty && got == 0; i++) {
        struct names names;
        if (db_names(r->db, r->schema, kinds[i], &names, e) < 0)
            return -1;
        for (size_t k = 0; k < names.count; k++)
            *empty &= text_among(names.list[k], local_own);
        names_free(&names);
    }
    return got;
}

int code_judge(struct restore *r, struct err *e)
{
    struct code_case *c = &r->code_case;
    *c = (struct code_case){.with_code = r->opt->with_code,
                            .into = !restore_is(r)->world,
                            .elsewhere = restore_is(r)->elsewhere,
                            .trust = r->m ? code_trust(r->job->cfg, r->m) : CODE_UNKNOWN};
    for (size_t i = 0; i < r->plan.count; i++)
        c->known |= r->plan.list[i].live != NULL;
    if (code_make_is_empty(r, &c->empty, e) < 0)
        return err_step(e, "reading the contents of the schema");
    return 0;
}

/* ---- making it ---- */

struct making {
    const struct restore *r;
    struct code_report *out;
    bool triggers_only; /* only triggers, of tables that are created again */
    char *self;         /* our account as the server sees it: user@host */
    struct err fenced;  /* this machine may no longer create anything */
};

/* Adds a name to a list of the result. Only the first ones are named, because hundreds of views
 * would fill a mail. */
static void code_make_add_text(struct code_report *out, const char *key, const char *text)
{
    if (!out->lists)
        out->lists = json_object();
    json_t *list = json_object_get(out->lists, key);
    if (!list)
        json_object_set_new(out->lists, key, list = json_array());
    if (json_array_size(list) <= NAMED_MAX)
        json_array_append_new(list,
                              js_clean(json_array_size(list) < NAMED_MAX ? text : "and more"));
}

/* Writes "view name", or the beginning of an unknown statement. */
static void code_make_name_of(const struct code_item *it, char *out, size_t room)
{
    if (it->d.name.len)
        line_set(out, room, "%s %s", definition_kind_name(it->d.kind), it->d.name.p);
    else
        statement_brief(it->sql, strlen(it->sql), out, room);
}

/* Returns 1 if the query about an account counts any rows, 0 if none, -1 if that is not known. */
static int code_make_any_rows(const struct making *m, const char *sql, const char *const *args)
{
    struct err ignored;
    SCOPED(xfree) char *n = db_one_with(m->r->db, sql, args, &ignored);
    return n ? strcmp(n, "0") != 0 : -1;
}

static int any_privilege(const struct making *m, const char *table, const char *account,
                         const char *where)
{
    return code_make_any_rows(m, "SELECT COUNT(*) FROM information_schema.$ WHERE GRANTEE=? AND $",
                              DB_ARGS(table, account, where));
}

/* Returns whether the definer exists and has privileges on this schema. A definer that has, or may
 * have, power over the server or over the tables of accounts counts only if the dump is signed,
 * because a smuggled-in definition must not run as root. */
static bool account_of_world(const struct making *m, const struct definition *d)
{
    static const char usage[] = "PRIVILEGE_TYPE<>'USAGE'", accounts[] = "'mysql' LIKE TABLE_SCHEMA";
    SCOPED(buf_free) struct buf here = {0};
    SCOPED(xfree) char *account = xasprintf("'%s'@'%s'", d->user.p, d->host.p);
    sql_string(&here, m->r->schema, strlen(m->r->schema));
    buf_adds(&here, " LIKE TABLE_SCHEMA");
    bool of_world = any_privilege(m, "SCHEMA_PRIVILEGES", account, here.p) == 1;
    if (m->r->code_case.trust == CODE_SIGNED)
        return of_world || any_privilege(m, "USER_PRIVILEGES", account, usage) == 1;
    /* Privileges granted through a role are in none of the lists of privileges. */
    const char *roles = db_word(m->r->db, WORD_ROLES);
    return of_world && any_privilege(m, "USER_PRIVILEGES", account, usage) == 0 &&
           any_privilege(m, "SCHEMA_PRIVILEGES", account, accounts) == 0 &&
           any_privilege(m, "TABLE_PRIVILEGES", account, accounts) == 0 &&
           any_privilege(m, "COLUMN_PRIVILEGES", account, accounts) == 0 &&
           code_make_any_rows(m, roles, DB_ARGS(d->user.p, d->host.p)) == 0;
}

/* Adds the modes without `old`, a mode that newer servers do not know and that does not affect
 * definitions. `old` may be NULL. */
static void add_mode(struct buf *b, const char *mode, const char *old)
{
    const char *comma = "";
    for (const char *s = mode; *s;) {
        size_t n = strcspn(s, ",");
        if (!old || n != strlen(old) || strncmp(s, old, n) != 0) {
            buf_printf(b, "%s%.*s", comma, (int)n, s);
            comma = ",";
        }
        s += n + (s[n] == ',');
    }
}

/* A collation that this server does not have may be left out: it only affects comparisons of
 * literals in the text, not stored data. */
static int set_session(const struct making *m, const struct code_item *it, struct err *e)
{
    const struct code_settings *s = &it->settings;
    struct db *db = m->r->db;
    SCOPED(buf_free) struct buf b = {0};
    buf_adds(&b, "SET SESSION sql_mode='");
    add_mode(&b, s->mode, db_word(db, WORD_OLD_MODE));
    buf_printf(&b, "', time_zone='%s', character_set_client=%s", s->zone[0] ? s->zone : "+00:00",
               code_client(it));
    size_t front = b.len;
    if (s->collation[0])
        buf_printf(&b, ", collation_connection=%s", s->collation);
    int rc = db_exec(db, "SET NAMES utf8mb4", e);
    rc = rc < 0 ? -1 : db_exec_len(db, b.p, b.len, e);
    if (rc < 0 && e->num == UNKNOWN_COLLATION) {
        line_set(m->out->note, sizeof m->out->note,
                 "definitions compare their own texts by this server's default: %s", e->text);
        rc = db_exec_len(db, b.p, front, e);
    }
    return rc;
}

static int code_make_create(struct making *m, const struct code_item *it, bool definer,
                            struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    definition_write(&it->d, definer, &b);
    return db_exec_len(m->r->db, b.p, b.len, e);
}

/* ALTER EVENT without DEFINER makes the current account the definer: the code of a dump must not
 * become root's because root enables it. */
static void note_event(struct making *m, const struct definition *d, bool keep)
{
    struct buf *b = &m->out->enable;
    code_make_add_text(m->out, "events_disabled", d->name.p);
    SCOPED(xfree) char *account =
        keep ? xasprintf("%s@%s", d->user.p, d->host.p) : xstrdup(m->self);
    buf_adds(b, b->len ? " ALTER DEFINER=" : "ALTER DEFINER=");
    db_account_quote(b, account);
    buf_adds(b, " EVENT ");
    sql_ident2(b, m->r->schema, d->name.p);
    buf_adds(b, " ENABLE;");
}

/* Creates a definition. If the server does not allow it for another account, it is created for our
 * own. */
static int make_one(struct making *m, const struct code_item *it, struct err *e)
{
    static const int definers[] = {1227 /* SET USER */, 1449 /* no such account */, 0};
    const struct definition *d = &it->d;
    char text[400], name[300];
    SCOPED(xfree) char *account = d->has_definer ? xasprintf("%s@%s", d->user.p, d->host.p) : NULL;
    bool other = account && strcmp(account, m->self) != 0;
    /* Our queries quote for our own sql_mode; the one of the last definition may not allow
     * backslash escapes. */
    if (other && db_reset_session(m->r->db, e) < 0)
        return -1;
    bool keep = other && account_of_world(m, d);
    if (set_session(m, it, e) < 0)
        return -1;
    int rc = code_make_create(m, it, keep, e);
    if (rc < 0 && keep && err_among(e, definers)) {
        keep = false;
        rc = code_make_create(m, it, false, e);
    }
    if (rc < 0)
        return -1;
    m->out->made++;
    code_make_name_of(it, name, sizeof name);
    if (other && !keep) {
        line_set(text, sizeof text, "%s (%s@%s)", name, d->user.p, d->host.p);
        code_make_add_text(m->out, "own_definer", text);
    }
    if (d->kind == DEFINITION_EVENT && d->enabled)
        note_event(m, d, keep);
    return 0;
}

/* Revokes the EXECUTE privilege that the server grants to the account that creates a routine
 * (automatic_sp_privileges). Otherwise, if the game's account replaced the function, a view that
 * calls it would run the new function with our privileges. A function whose definer is our account
 * keeps the privilege, because it runs as that account for every caller. Only an account that may
 * grant may also revoke. */
static bool gave_back(struct making *m, const char *name)
{
    struct err e;
    SCOPED(xfree) char *ours = db_one_with(
        m->r->db,
        "SELECT 1 FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=? AND ROUTINE_NAME=? AND "
        "ROUTINE_TYPE='FUNCTION' AND BINARY DEFINER=BINARY CURRENT_USER()",
        DB_ARGS(m->r->schema, name), &e);
    return !ours && e.cls == ERR_NONE &&
           db_exec_with(m->r->db, "REVOKE EXECUTE ON FUNCTION ??.?? FROM CURRENT_USER()",
                        DB_ARGS(m->r->schema, name), &e) == 0;
}

/* Revokes EXECUTE on the functions, and lists those for which that fails. */
static void code_make_give_back(struct making *m)
{
    struct grants g = {0};
    unsigned unknown;
    char text[300];
    struct err e;
    if (db_grants(m->r->db, &g, &unknown, &e) < 0)
        return;
    for (size_t i = 0; i < g.count; i++) {
        const struct grant *row = &g.list[i];
        bool may = false;
        for (size_t k = 0; k < row->count && row->on == GRANT_ROUTINE; k++)
            may |= strcmp(row->privileges[k], "EXECUTE") == 0;
        if (!may || strcmp(row->schema, m->r->schema) != 0 ||
            !text_starts(row->routine, "FUNCTION"))
            continue;
        line_set(text, sizeof text, "function %s", row->object);
        if (!gave_back(m, row->object))
            code_make_add_text(m->out, "may_execute", text);
    }
    grants_free(&g);
}

static void code_make_failed(struct making *m, const struct code_item *it, const char *why)
{
    char name[300], text[600];
    code_make_name_of(it, name, sizeof name);
    line_set(text, sizeof text, "%s: %s", name, why);
    code_make_add_text(m->out, "failed", text);
}

/* Returns whether the item is a trigger of a new table. A table that did not exist has no triggers
 * yet. */
static bool of_new_table(const struct making *m, const struct code_item *it)
{
    const char *table = it->d.kind == DEFINITION_TRIGGER ? it->d.table.p : NULL;
    const struct target *t = table ? plan_find(&m->r->plan, table) : NULL;
    return t && !t->live && !t->skip;
}

static bool code_make_wanted(const struct making *m, const struct code_item *it)
{
    return !m->triggers_only || of_new_table(m, it);
}

/* Returns true if the item is done, false to try it again, because a view may depend on a later
 * one. */
static bool code_make_try_one(struct making *m, const struct code_item *it, bool last)
{
    static const int there[] = {1050, 1304, 1359, 1537, 0},
                     later[] = {1146 /* table */, 1305 /* routine */, 1356 /* view */, 0};
    struct err e;
    if (make_one(m, it, &e) == 0 || (err_among(&e, there) && !of_new_table(m, it)))
        return true;
    if (!last && it->d.kind == DEFINITION_VIEW && err_among(&e, later))
        return false;
    if (e.cls == ERR_REFUSED)
        m->fenced = e;
    code_make_failed(m, it, e.text);
    return true;
}

static void make_all(struct making *m)
{
    const struct code *c = &m->r->code;
    struct err e;
    SCOPED(xfree) char *self = db_one(m->r->db, "SELECT CURRENT_USER()", &e);
    m->self = self;
    if (!self) {
        line_set(m->out->note, sizeof m->out->note, "no definition was restored: %s", e.text);
        return;
    }
    SCOPED(xfree) bool *done = xcalloc(c->count + 1, sizeof *done);
    size_t left = c->count, before;
    unsigned round = 0;
    for (size_t i = 0; i < c->count; i++) {
        done[i] = c->list[i].refused || !code_make_wanted(m, &c->list[i]);
        left -= done[i];
        if (c->list[i].refused)
            code_make_failed(m, &c->list[i], c->list[i].refused);
    }
    bool last = false;
    while (left > 0) {
        before = left;
        for (size_t i = 0; i < c->count; i++)
            if (!done[i] && (done[i] = code_make_try_one(m, &c->list[i], last)))
                left--;
        last = left == before || ++round == ROUNDS_MAX;
    }
    if (c->count && db_reset_session(m->r->db, &e) < 0)
        line_set(m->out->note, sizeof m->out->note, "%s", e.text);
    if (m->out->made)
        code_make_give_back(m);
}

static void leave_all(struct making *m)
{
    const struct code *c = &m->r->code;
    char name[300];
    for (size_t i = 0; i < c->count; i++) {
        if (!code_make_wanted(m, &c->list[i]))
            continue;
        code_make_name_of(&c->list[i], name, sizeof name);
        code_make_add_text(m->out, "left_out", name);
    }
    if (json_object_get(m->out->lists, "left_out"))
        line_set(m->out->why, sizeof m->out->why, "%s", code_why(&m->r->code_case));
}

/* Lists what would be created, as far as that shows without trying it. Packages and their bodies
 * have the same names; every other kind has names of its own. */
static void list_all(struct making *m)
{
    const struct code *c = &m->r->code;
    for (size_t i = 0; i < c->count; i++) {
        const struct code_item *it = &c->list[i];
        struct names there;
        struct err e;
        char name[300];
        if (it->refused) {
            code_make_failed(m, it, it->refused);
        } else if (code_make_wanted(m, it)) {
            if (db_names(m->r->db, m->r->schema, it->d.kind, &there, &e) < 0) {
                code_make_failed(m, it, e.text);
                continue;
            }
            code_make_name_of(it, name, sizeof name);
            if (!names_has(&there, it->d.name.p))
                code_make_add_text(m->out, "would_make", name);
            names_free(&there);
        }
    }
}

/* ---- the report ---- */

/* Appends "a, b and 3 more". */
static void add_list(struct buf *b, const char *front, const struct code_report *r, const char *key)
{
    const json_t *list = json_object_get(r->lists, key);
    size_t n = json_array_size(list), shown = n > 2 ? 2 : n;
    if (n == 0)
        return;
    buf_printf(b, "%s%s: ", b->len ? "; " : "", front);
    for (size_t i = 0; i < shown; i++)
        buf_printf(b, "%s%s", i ? ", " : "", json_string_value(json_array_get(list, i)));
    if (n > shown)
        buf_printf(b, " and %zu more", n - shown);
}

/* Adds one line for the operator to the warnings. */
static void code_make_warn(struct restore *r)
{
    const struct code_report *out = &r->out->code;
    SCOPED(buf_free) struct buf b = {0};
    char front[300];
    line_set(front, sizeof front, "definitions of the dump are skipped (%s)", out->why);
    add_list(&b, front, out, "left_out");
    if (out->why[0] && !restore_is(r)->world)
        buf_adds(&b, "; repeat the command with --with-code to create them");
    else if (out->why[0])
        buf_printf(
            &b,
            "; worldkeeper --restore=%s --into SCHEMA --with-code creates them beside the world",
            r->out->dump);
    add_list(&b, "a definition was not restored", out, "failed");
    add_list(&b, "created with worldkeeper's own account as definer", out, "own_definer");
    add_list(&b, "worldkeeper's account may now execute", out, "may_execute");
    if (out->lists && json_object_get(out->lists, "may_execute"))
        buf_adds(&b, "; worldkeeper --check shows how to revoke that");
    add_list(&b, "events are disabled", out, "events_disabled");
    if (out->note[0])
        buf_printf(&b, "%s%s", b.len ? "; " : "", out->note);
    if (b.len)
        result_warn(r->out, "%s", b.p);
}

/* Creates the dump's definitions. They survive a server restart: only a rebuilt server has lost
 * them, and a dropped table has lost its triggers. The rows are already restored, so a refusal (a
 * missing privilege) is only reported. */
int code_restore(struct restore *r, struct err *e)
{
    enum code_use use = code_use(&r->code_case);
    struct making m = {.r = r,
                       .out = &r->out->code,
                       .triggers_only = use == CODE_TRIGGERS || r->opt->tables.count > 0};
    if (!restore_is(r)->code || !r->code.count)
        return 0;
    if (!restore_is(r)->writes) {
        list_all(&m);
        return 0;
    }
    if (use == CODE_MAKE)
        make_all(&m);
    else
        leave_all(&m);
    code_make_warn(r);
    if (m.fenced.cls == ERR_NONE)
        return 0;
    err_pass(e, &m.fenced);
    return err_step(e, "creating the definitions of the dump");
}

bool code_due(const struct restore *r)
{
    return r->m && r->code.count && r->opt->tables.count == 0 &&
           code_use(&r->code_case) == CODE_MAKE;
}

/* Creates the definitions of a dump. One that cannot be created is only named, because it must not
 * keep the world down. */
int code_recover(struct db *db, const struct job *job, const char *dump, struct err *e)
{
    static const struct restore_options none;
    SCOPED(restore_result_free) struct restore_result out = {.replicas = -1};
    struct err why = {0}, ignored;
    struct restore r = {.job = job,
                        .opt = &none,
                        .out = &out,
                        .schema = job->cfg->schema,
                        .db = db,
                        .code_case = {.empty = true}};
    SCOPED(xfree) char *file = xasprintf("%s.sql.gz", dump);
    snprintf(out.dump, sizeof out.dump, "%s", dump);
    const struct catalog_entry *c = catalog_load(job->dirfd, job->cfg->name, &r.catalog, &why) < 0
                                        ? NULL
                                        : catalog_find(&r.catalog, dump);
    /* Logged only if the tables were, because a replica without the tables would stop at a view of
     * them. */
    if (!job->cfg->restore_binlog)
        db_exec(db, "SET SESSION sql_log_bin=0", &ignored);
    if (c && c->intact) {
        r.code_case.trust = code_trust(job->cfg, &c->m);
        r.file = verify_open(job->dirfd, file, &c->m, job->progress, &why);
    } else if (why.cls == ERR_NONE) {
        err_set(&why, ERR_NOTHING, 0, "the dump is missing or damaged");
    }
    int rc = 0;
    if (r.file && verify_rest(r.file, code_see, &r.code, &why) == 0)
        rc = code_restore(&r, e);
    else
        result_warn(&out, "the definitions of dump %s are not created: %s", dump, why.text);
    if (out.warning[0])
        job_note(job, "%s", out.warning);
    verify_close(r.file);
    code_free(&r.code);
    catalog_free(&r.catalog);
    return rc < 0 ? -1 : db_exec(db, "DO 1", e);
}
