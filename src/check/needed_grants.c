#include "check/needed_grants.h"

#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "check/rule.h"
#include "check/rules_disk.h"
#include "check/rules_privileges.h"
#include "check/rules_progress.h"
#include "check/rules_schema.h"
#include "check/rules_server.h"
#include "mysql/galera.h"
#include "sql/literal.h"

#define TRUST "log_bin_trust_function_creators"
#define MY_CNF /* MariaDB has no SET PERSIST */                                                    \
    "with a binary log, a restore can create triggers and functions only with this setting;\n"     \
    "also put " TRUST " = 1 under [mysqld] in the server's my.cnf,\n"                              \
    "or the next restart of the server undoes it"

/* ---- conditions that only an administrator can evaluate ---- */

/* Triggers on the tables that a restore replaces; ? is the schema. */
#define REPLACED                                                                                   \
    "EXISTS(SELECT 1 FROM information_schema.TRIGGERS t JOIN information_schema.TABLES x ON "      \
    "x.TABLE_SCHEMA=t.EVENT_OBJECT_SCHEMA AND x.TABLE_NAME=t.EVENT_OBJECT_TABLE WHERE "            \
    "t.TRIGGER_SCHEMA=? AND x.ENGINE$"
#define FOREIGN " AND t.DEFINER<>?"

static const char any_trigger[] = REPLACED ")";
static const char foreign[] = REPLACED FOREIGN ")";
static const char foreign_system[] = REPLACED FOREIGN
    " AND EXISTS(SELECT 1 FROM mysql.global_grants g WHERE g.PRIV='SYSTEM_USER' AND "
    "CAST(CONCAT(g.USER,'@',g.HOST) AS BINARY)=CAST(t.DEFINER AS BINARY)))";
static const char foreign_missing[] =
    REPLACED FOREIGN " AND NOT EXISTS(SELECT 1 FROM mysql.user u WHERE "
                     "CAST(CONCAT(u.User,'@',u.Host) AS BINARY)=CAST(t.DEFINER AS BINARY)))";
static const char any_function[] =
    "EXISTS(SELECT 1 FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=? AND "
    "ROUTINE_TYPE='FUNCTION')";

/* Fills in the schema. The engine and the account are filled in only if the condition has
 * placeholders for them. */
static char *needed_grants_condition(const struct check *c, const char *sql)
{
    struct buf b = {0};
    bool replaced = strchr(sql, '$') != NULL, others = strstr(sql, FOREIGN) != NULL;
    const char *engine = c->cfg->restore_all ? " IS NOT NULL" : "='MEMORY'";
    sql_fill(&b, sql,
             DB_ARGS(c->cfg->schema, replaced ? engine : NULL, others ? c->account.name : NULL));
    return b.p;
}

/* ---- on the whole server ---- */

/* A privilege is needed if `when` holds, as in rule.h, and if its condition, if any, is true. */
static const struct server_need {
    enum server_privilege privilege;
    const char *when, *only_if;
    const char *why, *lost;
} server_needs[] = {
    {MAY_READ_LOG, "!journal.mode=off", NULL, "the journal reads the binary log",
     "no journal: changes after the last dump are lost with the server"},
    {MAY_ASK_LOG, "!journal.mode=off", NULL, "the journal reads the end position of the binary log",
     "no journal: changes after the last dump are lost with the server"},
    {MAY_ASK_LOG, "journal.mode=off @log_bin", NULL,
     "dumps record their position in the binary log", "dumps do not record that position"},
    {MAY_SKIP_LOG, "!restore.binlog", NULL,
     "[restore] binlog = no keeps the rows of a restore out of the binary log",
     "restores are logged as with binlog = yes"},
    {MAY_LEAVE_KEYS, "@sql_require_primary_key", NULL,
     "a restore recreates the world's tables with or without a primary key",
     "with sql_require_primary_key no table without a key can be restored"},
    {MAY_LEAVE_CLUSTER, "node", NULL,
     "restores, drills and --init affect only this node of the cluster",
     "restores, drills and --init are refused on a node of a cluster"},
    {MAY_READ_ROUTINES, NULL, NULL, "functions and procedures in dumps",
     "functions and procedures of other accounts are not in dumps"},
    {MAY_NAME_DEFINER, NULL, foreign,
     "a restore recreates triggers under their definers' names; this privilege amounts to root, "
     "and triggers with this account as DEFINER do not need it",
     "every restore fails as long as there are triggers of other definers"},
    {MAY_NAME_SYSTEM, NULL, foreign_system,
     "some definers of triggers have SYSTEM_USER, as root has",
     "every restore fails as long as there are triggers of such definers"},
    {MAY_NAME_MISSING, NULL, foreign_missing, "some definers of triggers do not exist",
     "every restore fails as long as there are triggers of such definers"},
};

static void needed_grants_add(struct needed_grants *n, const char *sql, const char *why,
                              const char *lost, char *only_if)
{
    n->list = xgrow(n->list, n->count, sizeof *n->list);
    n->list[n->count++] = (struct needed_grant){
        .sql = xstrdup(sql), .why = xstrdup(why), .lost = lost, .only_if = only_if};
}

static void server_grants(struct check *c, struct needed_grants *out)
{
    for (size_t i = 0; i < sizeof server_needs / sizeof *server_needs; i++) {
        const struct server_need *n = &server_needs[i];
        const char *name = server_privilege(c->version, n->privilege);
        bool routines = n->privilege == MAY_READ_ROUTINES;
        if (!name || (n->when && !check_holds(c, n->when)) ||
            (routines ? check_routines_readable(c) : check_may_server(c, n->privilege)))
            continue;
        /* Newer MariaDB has this privilege on the schema, where schema_grants() adds it. */
        if (routines && c->mariadb &&
            strcmp(server_privilege_on(c->version, n->privilege), "*.*") == 0)
            continue;
        SCOPED(xfree) char *sql =
            xasprintf("GRANT %s ON %s TO %s;", name, server_privilege_on(c->version, n->privilege),
                      check_text(c, "account"));
        needed_grants_add(out, sql, n->why, n->lost,
                          n->only_if ? needed_grants_condition(c, n->only_if) : NULL);
    }
}

/* Adds the setting log_bin_trust_function_creators. Its alternative, the privilege SUPER, is not
 * advised because it allows everything. On MariaDB, a setting made by the session that reads the
 * script cannot survive a server restart. */
static void needed_grants_trust(struct check *c, struct needed_grants *out)
{
    bool requests = false;
    if (!check_is(c, "@log_bin") || check_value(c, "@" TRUST) != 0 ||
        check_may_server(c, MAY_SKIP_TRUST))
        return;
    for (unsigned k = 0; k < c->cfg->ledger_count; k++)
        requests |= c->cfg->ledgers[k].request != NULL;
    SCOPED(xfree) char *triggers = needed_grants_condition(c, any_trigger),
                       *functions = needed_grants_condition(c, any_function);
    needed_grants_add(out, c->mariadb ? "SET @@GLOBAL." TRUST "=1;" : "SET PERSIST " TRUST "=1;",
                      c->mariadb ? MY_CNF
                                 : "with a binary log, a restore can create triggers and functions "
                                   "only with this setting",
                      "every restore fails as long as there are triggers or functions (1419)",
                      requests ? NULL : xasprintf("%s OR %s", triggers, functions));
}

/* ---- on schemas ---- */

/* Returns "on the world's schema: SELECT: reading; …", with one line per privilege. */
static char *schema_reasons(const struct check *c)
{
    struct buf b = {0};
    const struct schema_privilege *p;
    buf_adds(&b, "on the world's schema:");
    for (size_t i = 0; (p = schema_privilege(c->version, i)); i++)
        if ((!p->why || check_needs(c, p)) && !check_may(c, p->name))
            buf_printf(&b, "\n  %s: %s", p->name, p->why ? p->why : p->optional);
    return b.p;
}

/* Adds a GRANT on a schema, and says why it repeats privileges. */
static void add_on_schema(struct check *c, const char *schema, const char *sql, const char *why,
                          const char *lost, struct needed_grants *out)
{
    bool repeats = grants_hidden(&c->grants, schema, check_text(c, "account")) != NULL;
    SCOPED(xfree) char *reasons = xasprintf(
        "%s%s", why,
        repeats ? "\nand what the account has there by a wider grant, which this one hides" : "");
    needed_grants_add(out, sql, reasons, lost, NULL);
}

static void schema_grants(struct check *c, struct needed_grants *out)
{
    bool missing = false;
    const struct schema_privilege *p;
    for (size_t i = 0; (p = schema_privilege(c->version, i)); i++)
        missing |= (!p->why || check_needs(c, p)) && !check_may(c, p->name);
    if (!missing)
        return;
    SCOPED(buf_free) struct buf grant = {0};
    SCOPED(xfree) char *why = schema_reasons(c);
    check_schema_grant(c, &grant, c->cfg->schema);
    add_on_schema(c, c->cfg->schema, grant.p, why, NULL, out);
}

/* Adds the privileges that are missing on a schema other than the world's, if any. */
static void other_schema(struct check *c, const char *schema, const char *privileges,
                         const char *why, const char *lost, struct needed_grants *out)
{
    SCOPED(buf_free) struct buf missing = {0}, grant = {0};
    db_missing_privileges(&missing, &c->grants, schema, privileges);
    if (!missing.len)
        return;
    db_schema_grant(&grant, &c->grants, schema, missing.p, c->account.name);
    add_on_schema(c, schema, grant.p, why, lost, out);
}

static void other_schemas(struct check *c, struct needed_grants *out)
{
    char schema[CONFIG_OWN_SCHEMA_MAX];
    config_own_schema(CONFIG_DRILL_SCHEMA, c->cfg, schema);
    other_schema(c, schema, DRILL_PRIVILEGES, "drills restore into their own scratch schema",
                 "no drills: nothing tests whether dumps can be restored", out);
    config_own_schema(CONFIG_WARM_SCHEMA, c->cfg, schema);
    if (c->cfg->standby.warm)
        other_schema(c, schema, COPY_PRIVILEGES,
                     "a standby keeps the world loaded in its own schema",
                     "a takeover must first load the world", out);
    if (check_central_here(c->cfg))
        other_schema(c, c->cfg->progress.schema, "EXECUTE",
                     "the routines of the central store of players' progress",
                     "progress is not written back", out);
}

static void blocker_grants(struct check *c, struct needed_grants *out)
{
    SCOPED(names_free) struct names grants = {0};
    if (!c->cfg->restore_ends_none)
        check_blocker_grants(c, &grants);
    for (size_t i = 0; i < grants.count; i++)
        needed_grants_add(
            out, grants.list[i],
            "a restore sees and ends idle sessions that hold a lock on the lost tables",
            "such a session keeps the world down until an administrator ends it", NULL);
}

/* Statements with a condition come last: if the server does not let even its administrator evaluate
 * a condition, the script ends there. */
static void needed_grants_needed(struct check *c, struct needed_grants *out)
{
    schema_grants(c, out);
    other_schemas(c, out);
    blocker_grants(c, out);
    server_grants(c, out);
    needed_grants_trust(c, out);
}

void needed_grants_free(struct needed_grants *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->list[i].sql);
        free(n->list[i].why);
        free(n->list[i].only_if);
    }
    free(n->list);
    *n = (struct needed_grants){0};
}

/* ---- with an administrator's session ---- */

/* Removes the grants whose condition does not hold. */
static int needed_grants_evaluate(struct db *admin, struct needed_grants *n, struct err *e)
{
    size_t kept = 0;
    int rc = 0;
    for (size_t i = 0; i < n->count; i++) {
        struct needed_grant *g = &n->list[i];
        bool holds = true;
        if (g->only_if && rc == 0) {
            SCOPED(xfree) char *question = xasprintf("SELECT %s", g->only_if);
            SCOPED(xfree) char *answer = db_one(admin, question, e);
            rc = answer ? 0 : -1;
            holds = answer && strcmp(answer, "0") != 0;
            xfree(&g->only_if);
            g->only_if = NULL;
        }
        if (holds) {
            struct needed_grant keep = *g;
            *g = n->list[kept];
            n->list[kept++] = keep;
        }
    }
    for (size_t i = kept; i < n->count; i++) {
        free(n->list[i].sql);
        free(n->list[i].why);
        free(n->list[i].only_if);
    }
    n->count = kept;
    return rc;
}

int needed_grants_for(const struct config *cfg, struct db *admin, const char *account,
                      struct needed_grants *out, struct err *e)
{
    struct check c = check_begin(cfg, HINT_HERE);
    SCOPED(buf_free) struct buf quoted = {0};
    struct galera g = {0};
    struct err why = {0};
    unsigned unknown = 0;
    *out = (struct needed_grants){0};
    c.db = admin;
    c.mariadb = db_is_mariadb(admin);
    snprintf(c.account.name, sizeof c.account.name, "%s", account);
    db_account_quote(&quoted, account);
    check_word(&c, "account", "%s", quoted.p);
    check_fact(&c, "node", galera_look(admin, &g, &why) > 0);
    int rc = db_server_id(admin, &c.server, e);
    if (rc == 0)
        check_version(&c);
    if (rc == 0)
        rc = db_grants_of(admin, account, &c.grants, &unknown, e);
    if (rc == 0 && c.grants.count) /* a new account has nothing that a GRANT could hide */
        rc = db_grants_elsewhere(admin, account, &c.grants, e);
    if (rc == 0) {
        needed_grants_needed(&c, out);
        rc = needed_grants_evaluate(admin, out, e);
    }
    c.db = NULL; /* the caller closes it */
    check_free(&c);
    if (rc < 0)
        needed_grants_free(out);
    return rc;
}

/* ---- with the account's own session ---- */

static bool any_functions(const struct check *c)
{
    SCOPED(names_free) struct names functions = {0};
    return db_names(c->db, c->cfg->schema, DEFINITION_FUNCTION, &functions, NULL) < 0 ||
           functions.count > 0;
}

/* Returns true if the account can tell that the condition is false, so that the statement is not
 * printed. An account that sees all triggers can evaluate most conditions about triggers. */
static bool known_false(const struct check *c, const struct needed_grant *g)
{
    if (!g->only_if || !check_may(c, "TRIGGER") || !check_may(c, "SELECT") || !c->tables_known)
        return false;
    bool any = c->triggers.count > 0, others = false;
    for (size_t i = 0; i < c->triggers.count; i++)
        others |= strcmp(c->triggers.list[i].definer, c->account.name) != 0;
    return text_starts(g->sql, "SET") ? !any && check_routines_readable(c) && !any_functions(c)
                                      : !others;
}

/* Appends the statement in one line, because the stock client sends everything up to a ";". The
 * server evaluates the condition when the script is applied. */
static void needed_grants_statement(struct buf *b, const struct needed_grant *g)
{
    size_t len = strlen(g->sql) - 1; /* without ";" */
    if (!g->only_if) {
        buf_adds(b, g->sql);
        return;
    }
    buf_printf(b, "SET @worldkeeper=IF(%s, ", g->only_if);
    sql_string(b, g->sql, len);
    buf_adds(b, ", 'DO 0'); PREPARE worldkeeper FROM @worldkeeper; EXECUTE worldkeeper; "
                "DEALLOCATE PREPARE worldkeeper;");
}

/* Rejects a name with bytes that cannot be displayed: it would be printed as another name, which
 * would then get the privileges. */
static int add_statement(json_t *list, const char *why, const char *sql, struct err *e)
{
    json_t *shown = js_clean(sql);
    if (strcmp(json_string_value(shown), sql) != 0) {
        json_decref(shown);
        err_set(e, ERR_REFUSED, 0,
                "cannot print the statements: the name of the schema or of the account contains "
                "unprintable characters");
        return err_hint(e, "worldkeeper --check lists what is missing");
    }
    return json_array_append_new(list, json_pack("{s:s, s:o}", "why", why, "statement", shown));
}

/* Reports the first failed check, which is the reason why there is no session. */
static int needed_grants_no_session(const struct check *c, struct err *e)
{
    for (size_t i = 0; i < json_array_size(c->list); i++) {
        const json_t *o = json_array_get(c->list, i);
        if (strcmp(js_text(o, "level"), "fail") != 0)
            continue;
        err_set(e, ERR_UNREACHABLE, 0, "%s: %s", js_text(o, "name"), js_text(o, "text"));
        return err_hint(e, "%s", js_text(o, "hint"));
    }
    return err_set(e, ERR_UNREACHABLE, 0, "no connection as [mysql] user");
}

/* Returns the session settings with which the server parses the script, whatever its global
 * settings are. Without them, MariaDB would create an account without a password if the account was
 * dropped in the meantime. */
static const char *needed_grants_mode(const struct check *c)
{
    return c->mariadb ? "SET NAMES utf8mb4, SESSION sql_mode='NO_AUTO_CREATE_USER';"
                      : "SET NAMES utf8mb4, SESSION sql_mode='';";
}

static int needed_grants_statements(struct check *c, json_t *list, struct err *e)
{
    struct needed_grants n = {0};
    int rc = 0;
    needed_grants_needed(c, &n);
    for (size_t i = 0; i < n.count && rc == 0; i++) {
        SCOPED(buf_free) struct buf b = {0};
        if (known_false(c, &n.list[i]))
            continue;
        if (json_array_size(list) == 0)
            rc = add_statement(list, "how this session reads the following statements",
                               needed_grants_mode(c), e);
        needed_grants_statement(&b, &n.list[i]);
        if (rc == 0)
            rc = add_statement(list, n.list[i].why, b.p, e);
    }
    needed_grants_free(&n);
    return rc;
}

/* Refuses to print GRANTs that would hide what the account has by a grant to another account. */
static int refuse_hiding(struct check *c, unsigned unknown, struct err *e)
{
    c->grants_known = true;
    check_number(c, "grants_unknown", unknown);
    SCOPED(xfree) char *there = check_schema_seen(c, e);
    if (!there && e->cls != ERR_NONE)
        return -1;
    if (!check_is(c, "by_another"))
        return 0;
    err_set(e, ERR_REFUSED, 0, "the account has privileges on schema %s only by another account",
            c->cfg->schema);
    return err_hint(e, "%s", CHECK_BY_ANOTHER);
}

int check_grants(const struct config *cfg, struct progress *p, json_t **result, struct err *e)
{
    struct check c = check_begin(cfg, HINT_HERE);
    struct buf password = {0};
    unsigned unknown = 0;
    json_auto_t *list = json_array();
    progress_phase(p, "connecting", 0, 0);
    if (check_secrets(&c, &password) == 0)
        check_connect(&c, password.p);
    buf_free(&password);
    int rc = c.db ? db_grants(c.db, &c.grants, &unknown, e) : needed_grants_no_session(&c, e);
    if (rc == 0)
        rc = refuse_hiding(&c, unknown, e);
    if (rc == 0) {
        check_load_world(&c);
        rc = needed_grants_statements(&c, list, e);
    }
    if (rc == 0)
        *result = json_pack("{s:O}", "grants", list);
    check_free(&c);
    return rc;
}
