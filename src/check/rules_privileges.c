#include "check/rules_privileges.h"

#include <stdlib.h>
#include <string.h>

#include "check/rule.h"
#include "check/rules_progress.h"
#include "check/rules_schema.h"
#include "mysql/prove.h"
#include "sql/literal.h"

/* ---- worlds ---- */

void check_add_world(struct check *c, const char *schema)
{
    SCOPED(db_triggers_free) struct db_triggers t = {0};
    for (size_t i = 0; i < c->world_count; i++)
        if (strcmp(c->worlds[i].schema, schema) == 0)
            return;
    c->worlds = xgrow(c->worlds, c->world_count, sizeof *c->worlds);
    struct check_world *w = &c->worlds[c->world_count++];
    *w = (struct check_world){.schema = xstrdup(schema)};
    if (db_triggers(c->db, schema, &t, NULL) < 0)
        return;
    w->triggers = t.count > 0;
    for (size_t i = 0; i < t.count; i++)
        w->definers |= strcmp(t.list[i].definer, c->account.name) != 0;
}

void check_add_leases(struct check *c)
{
    SCOPED(names_free) struct names found = {0}; /* schema and table alternate */
    struct db_rows *r = db_select(c->db, "nn",
                                  "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES "
                                  "WHERE RIGHT(TABLE_NAME,6)='_lease' ORDER BY TABLE_SCHEMA",
                                  NULL);
    while (db_next(r, NULL) == 1)
        for (unsigned i = 0; i < 2; i++)
            names_add(&found, db_text(r, i));
    db_rows_end(r);
    /* The name is not sufficient: the game may have a table with such a name. Each table has its
     * own query, because a query for the columns of all tables makes the server open a file for
     * each. */
    for (size_t i = 0; i < found.count; i += 2) {
        SCOPED(xfree) char *columns =
            db_one_with(c->db,
                        "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE "
                        "COLUMN_NAME IN ('generation','holder','taken') AND "
                        "TABLE_SCHEMA=? AND TABLE_NAME=?",
                        DB_ARGS(found.list[i], found.list[i + 1]), NULL);
        if (columns && strcmp(columns, "3") == 0)
            check_add_world(c, found.list[i]);
    }
}

/* ---- required privileges ---- */

bool check_may(const struct check *c, const char *privilege)
{
    return grants_have(&c->grants, c->cfg->schema, privilege);
}

/* Returns true if the privilege on the whole server is granted, or implied in this version. */
bool check_may_server(const struct check *c, enum server_privilege p)
{
    return server_may(&c->grants, c->version, p);
}

/* Returns true if the world needs the privilege. TRIGGER is optional, except for ledgers with
 * request ids. */
bool check_needs(const struct check *c, const struct schema_privilege *p)
{
    if (p->part)
        return ((p->part & PART_LEDGER) && c->cfg->ledger_count > 0) ||
               ((p->part & PART_PROGRESS) && c->cfg->progress.lock_id);
    for (unsigned k = 0; k < c->cfg->ledger_count && !p->why; k++)
        if (strcmp(p->name, "TRIGGER") == 0 && c->cfg->ledgers[k].request)
            return true;
    return p->why &&
           (c->cfg->dump_method != METHOD_LOCK || strcmp(p->name, "CREATE TEMPORARY TABLES") != 0);
}

static void rules_privileges_add_word(struct buf *b, const char *word)
{
    buf_printf(b, "%s%s", b->len ? ", " : "", word);
}

static const char *rules_privileges_text_of(const struct buf *b)
{
    return b->len ? b->p : "";
}

/* Appends the list of the privileges that are missing on a schema; with `all`, of all that are
 * useful. */
static void missing_on(const struct check *c, struct buf *b, const char *schema, bool all)
{
    const struct schema_privilege *p;
    for (size_t i = 0; (p = schema_privilege(c->version, i)); i++)
        if ((!p->why || check_needs(c, p)) && (all || !grants_have(&c->grants, schema, p->name)))
            rules_privileges_add_word(b, p->name);
}

/* The privileges of a row that the GRANT hides (`game%`, or `my_world` with its wildcard) are part
 * of it: those that are useful first, in their usual order. */
void check_schema_grant(const struct check *c, struct buf *b, const char *schema)
{
    SCOPED(buf_free) struct buf list = {0}, account = {0};
    db_account_quote(&account, c->account.name);
    missing_on(c, &list, schema, grants_hidden(&c->grants, schema, account.p) != NULL);
    db_schema_grant(b, &c->grants, schema, rules_privileges_text_of(&list), c->account.name);
}

/* Newer MariaDB also has this privilege on a schema. */
bool check_routines_readable(const struct check *c)
{
    return check_may_server(c, MAY_READ_ROUTINES) ||
           (c->mariadb && check_may(c, server_privilege(c->version, MAY_READ_ROUTINES)) &&
            !text_starts(server_privilege_on(c->version, MAY_READ_ROUTINES), "`"));
}

/* Sets {schema_grant}, one GRANT of everything that is missing on the schema, and {routine_grant},
 * the GRANT that check_routines_readable() needs. */
static void rules_privileges_grant_facts(struct check *c)
{
    SCOPED(buf_free) struct buf grant = {0};
    check_schema_grant(c, &grant, c->cfg->schema);
    check_word(c, "schema_grant", "%s", check_is(c, "by_another") ? CHECK_BY_ANOTHER : grant.p);
    check_word(c, "routine_grant", "GRANT %s ON %s TO %s;",
               server_privilege(c->version, MAY_READ_ROUTINES),
               server_privilege_on(c->version, MAY_READ_ROUTINES), check_text(c, "account"));
}

/* ---- triggers ---- */

/* Must a restore create this trigger for an account other than ours? */
static bool is_foreign(const struct check *c, const struct db_trigger *t)
{
    return t->definer[0] && strcmp(t->definer, c->account.name) != 0;
}

static const struct db_trigger *foreign_trigger(const struct check *c)
{
    for (size_t i = 0; i < c->triggers.count; i++)
        if (is_foreign(c, &c->triggers.list[i]))
            return &c->triggers.list[i];
    return NULL;
}

/* With a binary log, TRIGGER is not enough unless the server trusts function creators. */
static bool log_is_strict(struct check *c)
{
    return check_is(c, "@log_bin") && check_value(c, "@log_bin_trust_function_creators") == 0;
}

/* Tests whether a trigger can be created for this definer. It is not tested on a cluster node,
 * because the statement would be replicated to the other nodes. */
static enum db_proof prove_definer(struct check *c, const char *definer, struct err *why)
{
    *why = (struct err){0};
    return check_is(c, "node")
               ? DB_UNPROVEN
               : db_prove_definer(c->db, c->cfg->schema, c->cfg->sentinel, definer, why);
}

/* Adds the missing privileges to create a trigger for this definer. The server's answer decides;
 * without such an answer the grants do. */
static void add_definer(struct check *c, const char *definer, bool missing[SERVER_PRIVILEGES])
{
    int list[DEFINER_PRIVILEGES];
    struct err why;
    enum db_proof proof = prove_definer(c, definer, &why);
    if (proof == DB_PROVEN)
        return;
    bool named = proof == DB_REFUTED && why.num != DB_LOG_NEEDS_SUPER;
    server_definer_privileges(c->version, definer, named ? why.text : NULL, list);
    for (const int *p = list; *p >= 0; p++) {
        const char *name = server_privilege(c->version, (enum server_privilege) * p);
        if (!check_may_server(c, (enum server_privilege) * p) || (named && strstr(why.text, name)))
            missing[*p] = true;
    }
}

/* Would the server refuse to create any trigger because it does not trust function creators? */
static bool log_forbids(struct check *c)
{
    struct err why;
    bool strict = log_is_strict(c);
    if (!strict || c->triggers.count == 0)
        return strict && !check_may_server(c, MAY_SKIP_TRUST);
    enum db_proof proof = prove_definer(c, c->account.name, &why);
    return proof == DB_UNPROVEN ? !check_may_server(c, MAY_SKIP_TRUST)
                                : why.num == DB_LOG_NEEDS_SUPER;
}

/* A restore creates each trigger under the name of its definer, which needs more than TRIGGER. */
static void trigger_facts(struct check *c)
{
    SCOPED(buf_free) struct buf list = {0};
    bool missing[SERVER_PRIVILEGES] = {false};
    const struct db_trigger *t = foreign_trigger(c);
    for (size_t i = 0; i < c->triggers.count; i++) {
        const struct db_trigger *one = &c->triggers.list[i];
        bool again = false;
        for (size_t k = 0; k < i && !again; k++)
            again = strcmp(c->triggers.list[k].definer, one->definer) == 0;
        if (is_foreign(c, one) && !again)
            add_definer(c, one->definer, missing);
    }
    for (int p = 0; p < SERVER_PRIVILEGES; p++)
        if (missing[p])
            rules_privileges_add_word(&list,
                                      server_privilege(c->version, (enum server_privilege)p));
    const char *system = server_privilege(c->version, MAY_NAME_SYSTEM),
               *absent = server_privilege(c->version, MAY_NAME_MISSING);
    check_number(c, "triggers", (int64_t)c->triggers.count);
    check_fact(c, "trigger_privilege", check_may(c, "TRIGGER"));
    check_fact(c, "triggers_shown", server_word(c->version, WORD_SHOWN_TRIGGERS));
    check_fact(c, "log_forbids", log_forbids(c));
    check_word(c, "foreign_trigger", "%s", t ? t->name : "");
    check_word(c, "definer", "%s", t ? t->definer : "");
    check_word(c, "definer_missing", "%s", rules_privileges_text_of(&list));
    bool first = missing[MAY_NAME_DEFINER];
    check_word(
        c, "definer_also", "%s%s%s%s%s%s", first && system && !missing[MAY_NAME_SYSTEM] ? "; " : "",
        first && system && !missing[MAY_NAME_SYSTEM] ? system : "",
        first && system && !missing[MAY_NAME_SYSTEM] ? " also, if that account has it" : "",
        first && absent && !missing[MAY_NAME_MISSING] ? "; " : "",
        first && absent && !missing[MAY_NAME_MISSING] ? absent : "",
        first && absent && !missing[MAY_NAME_MISSING] ? " also, if there is no such account" : "");
}

static const struct check_rule triggers[] = {
    /* The order is from what makes every restore fail to what makes a single one fail. */
    {"triggers", "!trigger_privilege triggers", CHECK_FAIL,
     "{triggers} on tables that a restore replaces, but no privilege to recreate them",
     "{schema_grant}"},
    /* Without the privilege, MySQL and old versions of MariaDB do not even show that triggers
     * exist. */
    {"triggers", "!trigger_privilege !triggers_shown", CHECK_FAIL,
     "without the privilege to see them a restore would lose them", "{schema_grant}"},
    {"triggers", "!trigger_privilege", CHECK_WARN,
     "none now, and no privilege to recreate one: a trigger would make every restore fail",
     "{schema_grant}"},
    {"triggers", "triggers log_forbids", CHECK_FAIL,
     "{triggers} on tables that a restore replaces; with a binary log, only an account with SUPER "
     "can recreate them (1419)",
     DB_SET_FOR_GOOD("log_bin_trust_function_creators", "1"), true},
    {"triggers", "triggers definer_missing", CHECK_FAIL,
     "trigger {foreign_trigger} belongs to {definer}; a restore recreates it under that name, "
     "which needs {definer_missing}{definer_also}",
     "recreate it for a definer that is limited to this schema, such as {account}: SHOW CREATE "
     "TRIGGER {foreign_trigger:name}, DROP TRIGGER, CREATE DEFINER={account} TRIGGER; or, which "
     "amounts to root: GRANT {definer_missing} ON *.* TO {account};",
     true},
    {"triggers", "triggers !found", CHECK_OK,
     "{triggers} on tables that a restore replaces; a restore recreates them at the swap"},
};

/* ---- missing privileges ---- */

/* Sets the words for the name of a schema of our own, for what is missing on it, and for the GRANT
 * of the privileges. */
static void own_schema_facts(struct check *c, const char *prefix, const char *privileges,
                             const char *name, const char *missing, const char *grant)
{
    SCOPED(buf_free) struct buf lacks = {0}, statement = {0};
    char schema[CONFIG_OWN_SCHEMA_MAX];
    config_own_schema(prefix, c->cfg, schema);
    db_missing_privileges(&lacks, &c->grants, schema, privileges);
    db_schema_grant(&statement, &c->grants, schema, privileges, c->account.name);
    check_word(c, name, "%s", schema);
    check_word(c, missing, "%s", rules_privileges_text_of(&lacks));
    check_word(c, grant, "%s", statement.p);
}

/* ---- [restore] end_blockers ---- */

/* Does this server need privilege `p` to show the sessions that block a restore, or to end them? */
static bool for_blockers(struct check *c, enum server_privilege p)
{
    bool schema = !c->mariadb && check_value(c, "@performance_schema") != 0;
    switch ((int)p) {
    case MAY_SEE_SESSIONS:
        return !schema;
    case MAY_LIST_LOCKS:
    case MAY_LIST_THREADS:
    case MAY_READ_STATEMENTS:
        return schema;
    case MAY_END_SESSIONS:
        return true;
    }
    return false;
}

/* Does MariaDB list the sessions that hold locks? */
static bool has_lock_list(const struct check *c)
{
    SCOPED(xfree) char *there = db_one_with(
        c->db, "SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME='METADATA_LOCK_INFO'",
        DB_ARGS(NULL), NULL);
    return !c->mariadb || there;
}

void check_blocker_grants(struct check *c, struct names *out)
{
    SCOPED(buf_free) struct buf server = {0};
    SCOPED(names_free) struct names tables = {0};
    const char *account = check_text(c, "account");
    for (enum server_privilege p = 0; p < SERVER_PRIVILEGES; p++) {
        const char *on = server_privilege_on(c->version, p),
                   *name = server_privilege(c->version, p);
        bool missing = for_blockers(c, p) && !check_may_server(c, p);
        SCOPED(xfree) char *grant = xasprintf("GRANT %s ON %s TO %s;", name, on, account);
        if (missing && strcmp(on, "*.*") == 0)
            rules_privileges_add_word(&server, name);
        else if (missing)
            names_add(&tables, grant);
    }
    if (server.len) {
        SCOPED(xfree) char *grant = xasprintf("GRANT %s ON *.* TO %s;", server.p, account);
        names_add(out, grant);
    }
    for (size_t i = 0; i < tables.count; i++)
        names_add(out, tables.list[i]);
}

static void blocker_facts(struct check *c)
{
    SCOPED(names_free) struct names grants = {0};
    SCOPED(buf_free) struct buf all = {0};
    check_blocker_grants(c, &grants);
    for (size_t i = 0; i < grants.count; i++)
        buf_printf(&all, "%s%s", i ? " " : "", grants.list[i]);
    check_word(c, "blockers_grant", "%s", rules_privileges_text_of(&all));
    check_fact(c, "lock_list", has_lock_list(c));
}

static const struct check_rule blockers[] = {
    {"blockers", "restore.end_blockers=never", CHECK_OK,
     "[restore] end_blockers = never: a session that holds a lock on the lost tables keeps the "
     "world down until an administrator ends it"},
    {"blockers", "blockers_grant", CHECK_NOTE,
     "an idle session of the game that holds a lock on the lost tables would keep the world down "
     "until an administrator ends it: this account may not see or end all such sessions",
     "{blockers_grant}"},
    {"blockers", "!lock_list", CHECK_OK,
     "a restore ends idle sessions of the schema that block it, judged by MariaDB's list of "
     "transactions; INSTALL SONAME 'metadata_lock_info' would show which sessions hold the locks"},
    {"blockers", NULL, CHECK_OK, "a restore ends idle sessions of the schema that hold its locks"},
};

/* Sets the facts about missing privileges. Those on the schema are equal in all versions, so the
 * grants show whether they are missing. */
static void missing_facts(struct check *c)
{
    SCOPED(buf_free) struct buf missing = {0};
    struct err why;
    const struct schema_privilege *p;
    bool kept = c->cfg->standby.warm && state_standby(&c->state, c->cfg);
    for (size_t i = 0; (p = schema_privilege(c->version, i)); i++)
        if (check_needs(c, p) && !check_may(c, p->name))
            buf_printf(&missing, "%s%s (%s)", missing.len ? ", " : "", p->name,
                       p->why ? p->why : "request ids of ledgers");
    check_word(c, "missing_here", "%s", rules_privileges_text_of(&missing));
    own_schema_facts(c, CONFIG_DRILL_SCHEMA, DRILL_PRIVILEGES, "drill_schema", "drill_missing",
                     "drill_grant");
    own_schema_facts(c, CONFIG_WARM_SCHEMA, COPY_PRIVILEGES, "copy_schema", "copy_missing",
                     "copy_grant");
    own_schema_facts(c, CONFIG_WARM_SCHEMA, "DROP", "copy_schema", "drop_missing", "drop_grant");
    /* A copy is a left-over if this machine is not a standby that keeps one. */
    SCOPED(xfree) char *copy =
        kept ? NULL : db_schema_name(c->db, check_text(c, "copy_schema"), &(struct err){0});
    check_fact(c, "copy_left", copy != NULL);
    /* With a journal, the journal's finding reports this. */
    check_fact(c, "position_hidden",
               c->cfg->journal == JOURNAL_OFF && check_is(c, "@log_bin") &&
                   db_prove_log_status(c->db, &why) == DB_REFUTED);
    check_word(c, "position_privilege", "%s", server_privilege(c->version, MAY_ASK_LOG));
    check_fact(c, "logged_anyway",
               !c->cfg->restore_binlog && check_is(c, "@log_bin") &&
                   db_prove_unlogged(c->db, &why) == DB_REFUTED);
    check_word(c, "unlogged_privilege", "%s", server_privilege(c->version, MAY_SKIP_LOG));
}

static const struct check_rule needs[] = {
    /* One GRANT covers everything that is missing on the schema. */
    {"rights", "missing_here", CHECK_FAIL, "missing on the whole schema: {missing_here}",
     "{schema_grant}"},
    {"rights", NULL, CHECK_OK, "the account has all privileges that dumps and restores need"},
};

static const struct check_rule extras[] = {
    /* These are optional: dumps and restores of rows work without them. */
    {"rights", "position_hidden", CHECK_NOTE,
     "dumps do not record their position in the binary log: {position_privilege} is missing",
     "GRANT {position_privilege} ON *.* TO {account};", true},
    {"rights", "logged_anyway", CHECK_WARN,
     "[restore] binlog = no has no effect: restores are logged, {unlogged_privilege} is missing",
     "GRANT {unlogged_privilege} ON *.* TO {account};", true},

    /* A drill uses its own schema, which it must create and drop. */
    {"drill", "drill_missing", CHECK_NOTE,
     "--drill could not use its scratch schema {drill_schema}: {drill_missing} missing",
     "{drill_grant}"},
    {"drill", NULL, CHECK_OK, "--drill may create and drop its scratch schema {drill_schema}"},

    /* As for a drill, but the schema with the copy is kept. */
    {"standby", "standby.warm copy_missing", CHECK_FAIL,
     "[standby] warm = yes: {copy_missing} missing on schema {copy_schema}, in which a standby "
     "keeps the world loaded",
     "{copy_grant}"},
    {"standby", "standby.warm", CHECK_OK,
     "a standby may keep the world loaded in schema {copy_schema}"},
    {"left-overs", "copy_left", CHECK_WARN,
     "schema {copy_schema} has an unused standby copy of the world, which takes memory",
     "the supervisor drops it when it starts, if it may: {drop_grant}"},
};

/* ---- superfluous privileges ---- */

/* Is a privilege on the whole server useful for this world or possibly for another one? Another
 * world's own --check judges that. */
static bool is_used(struct check *c, enum server_privilege p)
{
    bool others = c->world_count > 1;
    switch (p) {
    case MAY_READ_LOG:
    case MAY_ASK_LOG:
    case MAY_READ_ROUTINES:
        return true;
    case MAY_NAME_DEFINER:
    case MAY_NAME_SYSTEM:
    case MAY_NAME_MISSING:
        return others || foreign_trigger(c);
    case MAY_SKIP_TRUST:
        return others || (c->triggers.count && log_is_strict(c));
    case MAY_SKIP_LOG:
        return others || !c->cfg->restore_binlog;
    case MAY_LEAVE_KEYS:
        return others || check_is(c, "@sql_require_primary_key");
    case MAY_WRITE_READ_ONLY:
        return others;
    case MAY_LEAVE_CLUSTER:
        return check_is(c, "node");
    case MAY_SEE_SESSIONS:
    case MAY_LIST_LOCKS:
    case MAY_LIST_THREADS:
    case MAY_READ_STATEMENTS:
    case MAY_END_SESSIONS:
        return for_blockers(c, p) && (others || !c->cfg->restore_ends_none);
    case SERVER_PRIVILEGES:
        break;
    }
    return false;
}

/* Is the privilege, granted on the whole server or on a system table, useful? A privilege that only
 * implies the needed one is not useful, because it allows more. */
static bool useful_on_server(struct check *c, const struct grant *g, const char *word)
{
    for (enum server_privilege p = 0; p < SERVER_PRIVILEGES; p++)
        if (server_privilege_grants(c->version, p, g->schema, g->object, word) && is_used(c, p))
            return true;
    return false;
}

/* Does a world need this privilege where it is granted? What other worlds may need is judged by
 * their own --check. */
static bool is_useful(struct check *c, const struct grant *g, const char *word)
{
    if (g->on == GRANT_GLOBAL)
        return useful_on_server(c, g, word);
    if (g->on == GRANT_TABLE && useful_on_server(c, g, word))
        return true;
    if (g->on == GRANT_TABLE && strcmp(g->schema, "mysql") == 0 && strcmp(g->object, "proc") == 0)
        return strcmp(word, "SELECT") == 0;
    if (g->schema && text_starts(g->schema, "worldkeeper") && strstr(g->schema, "drill"))
        return true;
    if (g->on == GRANT_SCHEMA && !grant_is_wide(&c->grants, g) &&
        grant_matches(&c->grants, g, check_text(c, "copy_schema")))
        return c->cfg->standby.warm || check_is(c, "copy_left");
    if (g->on == GRANT_SCHEMA && strcmp(word, "EXECUTE") == 0 && check_central_here(c->cfg) &&
        grant_matches(&c->grants, g, c->cfg->progress.schema))
        return true;
    if (g->on == GRANT_ROUTINE) /* the server grants these to a routine's creator */
        return g->schema && grants_same_name(&c->grants, g->schema, c->cfg->schema) &&
               (strcmp(word, "ALTER ROUTINE") == 0 || strcmp(word, "EXECUTE") == 0);
    if (grant_is_wide(&c->grants, g))
        return false;
    for (size_t i = 1; i < c->world_count && g->on == GRANT_SCHEMA; i++)
        if (grant_matches(&c->grants, g, c->worlds[i].schema)) /* its own --check judges it */
            return true;
    const struct schema_privilege *p;
    for (size_t i = 0;
         grant_matches(&c->grants, g, c->cfg->schema) && (p = schema_privilege(c->version, i)); i++)
        if (strcmp(p->name, word) == 0)
            return !p->part || check_needs(c, p);
    return false;
}

/* Returns the role that was granted to our account itself and by which it has this one. */
static const char *direct_role(struct check *c, const char *role)
{
    const char *by = role;
    for (size_t steps = 0; by && steps <= c->grants.count; steps++) {
        role = by;
        by = NULL;
        for (size_t i = 0; i < c->grants.count; i++) {
            const struct grant *g = &c->grants.list[i];
            if (g->on != GRANT_ROLE || strcmp(g->schema, role) != 0)
                continue;
            if (strcmp(g->grantee, check_text(c, "account")) == 0)
                return role;
            by = g->grantee; /* a role that has the role */
        }
    }
    return role;
}

/* Returns the role by which our account has the privilege (NULL: GRANT OPTION), or NULL if it is
 * the account's own. */
static const char *role_of(struct check *c, const struct grant *g, const char *word)
{
    if (c->mariadb)
        return strcmp(g->grantee, check_text(c, "account")) == 0 ? NULL
                                                                 : direct_role(c, g->grantee);
    for (size_t i = 0; i < c->role_count; i++)
        if (grants_have_row(&c->roles[i].grants, g, word))
            return c->roles[i].name;
    return NULL;
}

/* Can the privileges of the row be revoked from our account, by themselves or with a role? */
static bool is_weighed(const struct grant *g)
{
    return g->on != GRANT_PROXY && g->on != GRANT_ROLE && !g->revoke &&
           strcmp(g->grantee, "PUBLIC") != 0;
}

/* Superfluous privileges, as text and as REVOKE statements. Those of GRANT OPTION come last:
 * without GRANT OPTION, MySQL silently stops revoking dynamic privileges. */
struct excess {
    struct buf text, sql, last;
};

/* Appends " ON `schema`.*", the object of the grant row. */
static void add_object(struct buf *b, const struct grant *g)
{
    buf_printf(b, " ON %s", g->routine ? g->routine : "");
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? g->schema : g->object;
        buf_adds(b, i == 0 ? "" : ".");
        if (name)
            sql_ident(b, name);
        else
            buf_addc(b, '*');
    }
}

/* Returns true if the row grants ALL PRIVILEGES by that name, rather than by a list of all
 * privileges. */
static bool is_all(const struct grant *g)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->privileges[i], "ALL PRIVILEGES") == 0)
            return true;
    return false;
}

/* Does the row apply to functions of the world's schema? Procedures do not matter, because views
 * cannot call them. */
static bool reaches_functions(const struct check *c, const struct grant *g)
{
    return g->on == GRANT_GLOBAL ||
           (g->on == GRANT_SCHEMA && grant_matches(&c->grants, g, c->cfg->schema)) ||
           (g->on == GRANT_ROUTINE && grants_same_name(&c->grants, g->schema, c->cfg->schema) &&
            !text_starts(g->routine, "PROCEDURE"));
}

/* Would such a function run with our privileges if a view calls it? */
static bool runs_functions(const struct check *c, const struct grant *g, const char *word)
{
    return strcmp(word, "EXECUTE") == 0 && reaches_functions(c, g);
}

/* Adds one privilege of a grant row to the text of a finding. */
static void add_found(struct excess *x, const struct grant *g, const char *word)
{
    buf_printf(&x->text, "%s%s", x->text.len ? "; " : "", word);
    add_object(&x->text, g);
}

/* Returns whether our account has the privilege by this role; NULL: whether it is its own. */
static bool is_by(struct check *c, const struct grant *g, const char *word, const char *role)
{
    const char *by = role_of(c, g, word);
    return by && role ? strcmp(by, role) == 0 : by == role;
}

/* Sorts the privileges of one grant row that our account has by this role; NULL: its own. Of those
 * that let functions run, only a role's are superfluous here: the account's own have a finding of
 * their own. */
static void sort_privileges(struct check *c, const struct grant *g, const char *role,
                            struct buf *useful, struct buf *rest)
{
    for (size_t i = 0; i < g->count; i++) {
        const char *word = g->privileges[i];
        bool runs = runs_functions(c, g, word);
        if (is_by(c, g, word, role) && (role || !runs))
            rules_privileges_add_word(!runs && is_useful(c, g, word) ? useful : rest, word);
    }
}

/* Does the row apply to this world's schema alone? */
static bool is_here(const struct check *c, const struct grant *g)
{
    return g->on == GRANT_SCHEMA && !g->option && !grant_is_wide(&c->grants, g) &&
           grant_matches(&c->grants, g, c->cfg->schema);
}

/* Adds what our account has too much by a role. The role is revoked from this account only, because
 * others may need it. What is useful of it is then granted to the account itself. */
static void weigh_role(struct check *c, const char *role, struct excess *wide, struct excess *here)
{
    SCOPED(buf_free) struct buf text = {0}, again = {0};
    struct excess *x = here;
    for (size_t i = 0; i < c->grants.count; i++) {
        const struct grant *g = &c->grants.list[i];
        SCOPED(buf_free) struct buf list = {0}, kept = {0}, object = {0};
        if (!is_weighed(g))
            continue;
        sort_privileges(c, g, role, &kept, &list);
        if (g->option && is_by(c, g, NULL, role))
            rules_privileges_add_word(&list, "GRANT OPTION");
        add_object(&object, g);
        if (list.len) {
            buf_printf(&text, "%s%s%s (role %s)", text.len ? "; " : "", list.p, object.p, role);
            x = is_here(c, g) ? x : wide;
        }
        if (kept.len)
            buf_printf(&again, "GRANT %s%s TO %s; ", kept.p, object.p, check_text(c, "account"));
    }
    if (!text.len)
        return;
    buf_printf(&x->text, "%s%s", x->text.len ? "; " : "", text.p);
    buf_printf(&x->sql, "REVOKE %s FROM %s; ", role, check_text(c, "account"));
    buf_adds(&x->last, rules_privileges_text_of(&again));
}

static void weigh_roles(struct check *c, struct excess *wide, struct excess *here)
{
    SCOPED(names_free) struct names seen = {0};
    for (size_t i = 0; i < c->grants.count; i++) {
        const struct grant *g = &c->grants.list[i];
        for (size_t k = 0; k < g->count && is_weighed(g); k++) {
            const char *role = role_of(c, g, g->privileges[k]);
            if (!role || names_has(&seen, role))
                continue;
            names_add(&seen, role);
            weigh_role(c, role, wide, here);
        }
    }
}

/* Adds the superfluous privileges of one grant row that are the account's own. */
static void rules_privileges_weigh(struct check *c, const struct grant *g, struct excess *x)
{
    SCOPED(buf_free) struct buf list = {0}, kept = {0}, object = {0};
    bool option = g->option && is_by(c, g, NULL, NULL);
    sort_privileges(c, g, NULL, &kept, &list);
    add_object(&object, g);
    if (list.len) {
        buf_printf(&x->text, "%s%s%s", x->text.len ? "; " : "", list.p, object.p);
        buf_printf(&x->sql, "REVOKE %s%s FROM %s; ", list.p, object.p, g->grantee);
    }
    /* MySQL's dynamic privileges, with a _ in the name, each have a grant option of their own,
     * which can be revoked only with the privilege. */
    bool dynamic = g->on == GRANT_GLOBAL && g->count && strchr(g->privileges[0], '_');
    if (option)
        buf_printf(&x->text, "%sGRANT OPTION%s", x->text.len ? "; " : "", object.p);
    if (option && !dynamic) {
        buf_printf(&x->last, "REVOKE GRANT OPTION%s FROM %s; ", object.p, g->grantee);
    } else if (option && kept.len) {
        buf_printf(&x->sql, "REVOKE %s%s FROM %s; ", kept.p, object.p, g->grantee);
        buf_printf(&x->last, "GRANT %s%s TO %s; ", kept.p, object.p, g->grantee);
    }
}

/* Do these grants cover what a world needs? With `all`, what it needs with any config. */
static bool rules_privileges_suffices(const struct check *c, const struct grants *g,
                                      const char *schema, bool all)
{
    const struct schema_privilege *p;
    for (size_t i = 0; (p = schema_privilege(c->version, i)); i++)
        if ((all ? p->why && !p->part : check_needs(c, p)) && !grants_have(g, schema, p->name))
            return false;
    return true;
}

/* Does our account manage this world, judging by its privileges? */
static bool rules_privileges_is_kept(const struct check *c, size_t i)
{
    return i == 0 || rules_privileges_suffices(c, &c->grants, c->worlds[i].schema, true);
}

/* Is the schema's own row enough once superfluous privileges are revoked? */
static bool row_suffices(const struct check *c, const char *schema)
{
    struct grants rest = {.literal = c->grants.literal, .any_case = c->grants.any_case};
    rest.list = xcalloc(c->grants.count, sizeof *rest.list);
    for (size_t i = 0; i < c->grants.count; i++) {
        const struct grant *g = &c->grants.list[i];
        if (g->on == GRANT_SCHEMA && !is_all(g) && !grant_is_wide(&c->grants, g))
            rest.list[rest.count++] = *g;
    }
    bool enough = rules_privileges_suffices(c, &rest, schema, false);
    free(rest.list); /* c owns the rows */
    return enough;
}

/* Adds the privilege if the list does not have it yet. */
static void add_server(const struct check *c, struct names *list, enum server_privilege p)
{
    const char *name = server_privilege(c->version, p);
    if (name && !names_has(list, name))
        names_add(list, name);
}

/* Appends the global privileges that worlds need: for the journal, on this kind of server, and to
 * restore triggers. The triggers of other worlds may belong to root. */
static void server_needs(struct check *c, struct buf *out)
{
    SCOPED(names_free) struct names list = {0};
    bool system = c->world_count > 1;
    for (size_t i = 0; i < c->triggers.count; i++)
        system |= text_starts(c->triggers.list[i].definer, "root@");
    if (c->cfg->journal != JOURNAL_OFF || c->world_count > 1) {
        add_server(c, &list, MAY_READ_LOG);
        add_server(c, &list, MAY_ASK_LOG);
    }
    if (!c->cfg->restore_binlog || c->world_count > 1)
        add_server(c, &list, MAY_SKIP_LOG);
    if (check_is(c, "@sql_require_primary_key"))
        add_server(c, &list, MAY_LEAVE_KEYS);
    if (check_is(c, "node"))
        add_server(c, &list, MAY_LEAVE_CLUSTER);
    for (size_t i = 0; i < c->world_count; i++) {
        const struct check_world *w = &c->worlds[i];
        if (rules_privileges_is_kept(c, i) && w->triggers && log_is_strict(c))
            add_server(c, &list, MAY_SKIP_TRUST);
        if (rules_privileges_is_kept(c, i) && w->definers)
            add_server(c, &list, MAY_NAME_DEFINER);
        if (rules_privileges_is_kept(c, i) && w->definers && system)
            add_server(c, &list, MAY_NAME_SYSTEM);
    }
    for (size_t i = 0; i < list.count; i++)
        rules_privileges_add_word(out, list.list[i]);
}

/* Appends the GRANT of everything that a world of this schema needs, for after the superfluous
 * privileges were revoked. It repeats what is then left of a row that it hides. */
static void grant_again(struct check *c, struct buf *sql, const char *schema)
{
    SCOPED(buf_free) struct buf list = {0}, account = {0};
    db_account_quote(&account, c->account.name);
    const struct grant *hidden = grants_hidden(&c->grants, schema, account.p);
    missing_on(c, &list, schema, true);
    for (size_t i = 0; hidden && i < hidden->count; i++) {
        const char *word = hidden->privileges[i];
        if (runs_functions(c, hidden, word) || !is_useful(c, hidden, word))
            continue;
        if (is_all(hidden)) /* it stays, and is enough */
            return;
        if (!db_lists_privilege(list.p, word))
            rules_privileges_add_word(&list, word);
    }
    buf_printf(sql, "GRANT %s", list.p);
    db_grant_target(sql, &c->grants, schema, c->account.name);
    buf_adds(sql, "; ");
}

/* Sets {name} to the superfluous privileges and {hint} to the statements that remove them: REVOKEs,
 * then GRANTs that keep what each world needs. With `all`, all global privileges are revoked. */
static void excess_words(struct check *c, const char *name, const char *hint, struct excess *x,
                         bool all)
{
    SCOPED(buf_free) struct buf sql = {0}, server = {0};
    buf_adds(&sql, rules_privileges_text_of(&x->sql));
    buf_adds(&sql, rules_privileges_text_of(&x->last));
    for (size_t i = 0; i < c->world_count && x->text.len; i++)
        if (rules_privileges_is_kept(c, i) && !row_suffices(c, c->worlds[i].schema))
            grant_again(c, &sql, c->worlds[i].schema);
    if (all && x->text.len)
        server_needs(c, &server);
    if (server.len)
        buf_printf(&sql, "GRANT %s ON *.* TO %s; ", server.p, check_text(c, "account"));
    check_word(c, name, "%s", rules_privileges_text_of(&x->text));
    check_word(c, hint, "%.*s", (int)(sql.len ? sql.len - 1 : 0), rules_privileges_text_of(&sql));
    buf_free(&x->text);
    buf_free(&x->sql);
    buf_free(&x->last);
}

/* Finds privileges that amount to root, and privileges that let functions of the game's account run
 * with ours. */
static void find_danger(struct check *c, const struct grant *g, struct excess *root,
                        struct excess *run)
{
    bool in_mysql = g->on == GRANT_SCHEMA && grant_matches(&c->grants, g, "mysql");
    for (size_t i = 0; i < g->count; i++) {
        const char *word = g->privileges[i];
        if ((g->on == GRANT_GLOBAL || in_mysql) &&
            server_privilege_rules(c->version, in_mysql, word))
            add_found(root, g, word);
        if (runs_functions(c, g, word)) {
            add_found(run, g, word);
            if (role_of(c, g, word)) /* the check of superfluous privileges revokes the role */
                continue;
            buf_adds(&run->sql, "REVOKE EXECUTE");
            add_object(&run->sql, g);
            buf_printf(&run->sql, " FROM %s; ", g->grantee);
        } else if (is_all(g) && reaches_functions(c, g)) {
            add_found(run, g, word); /* the check of superfluous privileges revokes it */
        }
    }
}

/* Sets the facts of four findings: superfluous privileges on this world's schema alone, those that
 * reach further, and two kinds of dangerous privileges. */
static void excess_facts(struct check *c)
{
    struct excess wide = {0}, here = {0}, root = {0}, run = {0};
    bool all = false, limited = false;
    for (size_t i = 0; i < c->grants.count; i++) {
        const struct grant *g = &c->grants.list[i];
        all |= g->on == GRANT_GLOBAL && is_all(g);
        limited |= g->limited;
        if (!is_weighed(g))
            continue;
        rules_privileges_weigh(c, g, is_here(c, g) ? &here : &wide);
        find_danger(c, g, &root, &run);
    }
    weigh_roles(c, &wide, &here);
    check_word(c, "like_root", "%s", rules_privileges_text_of(&root.text));
    check_word(c, "may_execute", "%s", rules_privileges_text_of(&run.text));
    check_word(c, "revoke_execute", "%.*s", (int)(run.sql.len ? run.sql.len - 1 : 0),
               rules_privileges_text_of(&run.sql));
    buf_free(&root.text);
    buf_free(&run.text);
    buf_free(&run.sql);
    excess_words(c, "superfluous", "revoke_wide", &wide, all);
    excess_words(c, "too_much", "revoke_here", &here, false);
    check_fact(c, "limited", limited);
    check_word(c, "others_kept", "%s",
               c->world_count <= 1
                   ? ""
                   : ". Privileges for other worlds that this account sees stay: a separate "
                     "account for each world is safer (worldkeeper(8), PRIVILEGES)");
}

static const struct check_rule excesses[] = {
    /* An attacker who takes over a daemon's account must not get more privileges than the daemon
     * needs. */
    {"rights", "superfluous", CHECK_WARN, "superfluous: {superfluous}{others_kept}",
     "{revoke_wide}", true},
    {"rights", "too_much", CHECK_NOTE, "more than needed: {too_much}{others_kept}", "{revoke_here}",
     true},

    /* A daemon's password is stored in a file, and code of the game's account must never run as
     * root. */
    {"rights", "like_root foreign_trigger", CHECK_WARN,
     "amounts to root: {like_root}: anyone with this account can change every other account",
     "triggers do not need it if their definer is limited to this schema: SHOW CREATE TRIGGER "
     "{foreign_trigger:name}, DROP TRIGGER, CREATE DEFINER={account} TRIGGER",
     true},
    {"rights", "like_root !foreign_trigger", CHECK_WARN,
     "amounts to root: {like_root}: anyone with this account can change every other account; for "
     "ways without it see worldkeeper(8), PRIVILEGES",
     NULL, true},
    {"rights", "may_execute", CHECK_WARN,
     "{may_execute}: a function that the game's account calls in a view would run as worldkeeper, "
     "which needs to call none",
     "{revoke_execute}", true},

    /* Reaching such a limit during a restore ends the restore. */
    {"account", "limited", CHECK_WARN,
     "it has limits (SHOW GRANTS: MAX_…); a probe each second and a dump of many tables may exceed "
     "them",
     "ALTER USER {account} WITH MAX_QUERIES_PER_HOUR 0 MAX_UPDATES_PER_HOUR 0 "
     "MAX_CONNECTIONS_PER_HOUR 0;"},
};

/* ---- roles ---- */

/* An inactive role grants nothing. MariaDB's grants name the roles; MySQL needs this query. */
static const char idle_roles[] =
    "SELECT CONCAT('`', REPLACE(ROLE_NAME,'`','``'), '`@`', REPLACE(ROLE_HOST,'`','``'), '`') FROM "
    "information_schema.APPLICABLE_ROLES WHERE (ROLE_NAME, ROLE_HOST) NOT IN (SELECT ROLE_NAME, "
    "ROLE_HOST FROM information_schema.ENABLED_ROLES)";

static const struct check_rule roles[] = {
    {"account", NULL, CHECK_NOTE, "role {role} is granted, but not active at login",
     "SET DEFAULT ROLE {role} {for} {account}, if its privileges are meant"},
};

/* Reports inactive roles. SHOW GRANTS lists all granted roles, but only the grants of active
 * ones. */
static void check_roles(struct check *c)
{
    SCOPED(names_free) struct names idle = {0};
    if (!c->mariadb)
        db_names_select(c->db, idle_roles, DB_ARGS(NULL), &idle, NULL);
    for (size_t i = 0; i < c->grants.count && c->mariadb; i++) {
        const struct grant *g = &c->grants.list[i];
        bool active = false;
        for (size_t k = 0; k < c->grants.count && g->on == GRANT_ROLE; k++)
            active = active || strcmp(c->grants.list[k].grantee, g->schema) == 0;
        if (active || g->on != GRANT_ROLE || strcmp(g->grantee, check_text(c, "account")) != 0)
            continue;
        names_add(&idle, g->schema);
    }
    for (size_t i = 0; i < idle.count; i++) {
        check_word(c, "role", "%s", idle.list[i]);
        check_word(c, "for", c->mariadb ? "FOR" : "TO");
        CHECK_RULES(c, roles);
    }
}

/* ---- all privileges ---- */

static const struct check_rule reading[] = {
    /* Unknown lines are reported rather than guessed. */
    {"rights", "grants_error", CHECK_WARN, "{grants_error}", "{grants_hint}"},
    {"rights", "grants_unknown", CHECK_NOTE,
     "{grants_unknown} lines of SHOW GRANTS are of an unknown kind"},
};

/* The schema is checked before the privileges, because a GRANT on a misspelled schema would be
 * useless. The server hides a schema from an account that has no privileges on it. */
static const struct check_rule schema[] = {
    {"schema", "schema_error", CHECK_FAIL, "{schema_error}", "{schema_hint}"},
    {"schema", "schema_there", CHECK_OK, "{world.schema:name} exists"},
    {"schema", "schema_seen", CHECK_FAIL, "{world.schema:name} does not exist",
     "check [world] schema; on a new server, worldkeeper --restore creates it"},
    {"schema", NULL, CHECK_FAIL,
     "{world.schema:name} does not exist, or this account may not see it",
     "run SHOW DATABASES as an administrator of the server: if the schema is not listed, correct "
     "[world] schema; if it is listed, see the finding \"rights\""},
};

/* The roles that are active and were granted to the account itself. */
static const char active_roles[] =
    "SELECT CONCAT('`', REPLACE(ROLE_NAME,'`','``'), '`@`', REPLACE(ROLE_HOST,'`','``'), '`') FROM "
    "information_schema.APPLICABLE_ROLES WHERE GRANTEE=USER AND GRANTEE_HOST=HOST AND "
    "(ROLE_NAME, ROLE_HOST) IN (SELECT ROLE_NAME, ROLE_HOST FROM "
    "information_schema.ENABLED_ROLES)";

/* Reads which of MySQL's privileges come by which role. */
static void load_roles(struct check *c)
{
    SCOPED(names_free) struct names active = {0};
    struct grants own;
    unsigned unknown;
    if (c->mariadb || db_names_select(c->db, active_roles, DB_ARGS(NULL), &active, NULL) < 0 ||
        !active.count || db_grants_of(c->db, c->account.name, &own, &unknown, NULL) < 0)
        return;
    c->roles = xcalloc(active.count + 1, sizeof *c->roles);
    c->roles[c->role_count++].grants = own;
    for (size_t i = 0; i < active.count; i++) {
        struct check_role *r = &c->roles[c->role_count];
        if (db_grants_using(c->db, active.list[i], &r->grants, &unknown, NULL) < 0)
            continue;
        r->name = xstrdup(active.list[i]);
        c->role_count++;
    }
}

/* The query uses information_schema, which hides a schema from an account without privileges on
 * it. */
char *check_schema_seen(struct check *c, struct err *e)
{
    char *there =
        db_one_with(c->db, "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME=?",
                    DB_ARGS(c->cfg->schema), e);
    check_fact(c, "by_another",
               there && c->grants_known && check_value(c, "grants_unknown") == 0 &&
                   !grants_show(&c->grants, c->cfg->schema));
    return there;
}

/* Checks the privileges. If the grants cannot be read, missing privileges are unknown, so none are
 * reported. */
void check_privileges(struct check *c)
{
    struct err e = {0};
    unsigned unknown = 0;
    c->grants_known = db_grants(c->db, &c->grants, &unknown, &e) == 0;
    if (!c->grants_known)
        err_step(&e, "cannot be read (SHOW GRANTS)");
    check_error(c, "grants", &e);
    check_number(c, "grants_unknown", unknown);
    CHECK_RULES(c, reading);
    SCOPED(xfree) char *there = check_schema_seen(c, &e);
    rules_privileges_grant_facts(c);
    check_error(c, "schema", &e);
    check_fact(c, "schema_there", there != NULL);
    check_fact(c, "schema_seen", c->grants_known && check_may(c, "SELECT"));
    CHECK_RULES(c, schema);
    if (!c->grants_known)
        return;
    missing_facts(c);
    CHECK_RULES(c, needs);
    trigger_facts(c);
    if (!check_is(c, "missing_here"))
        CHECK_RULES(c, triggers);
    CHECK_RULES(c, extras);
    blocker_facts(c);
    CHECK_RULES(c, blockers);
    load_roles(c);
    excess_facts(c);
    CHECK_RULES(c, excesses);
    check_roles(c);
}
