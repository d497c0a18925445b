#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/sql.h"

/* What is really executed, and where (each was proven by taking it away):
 *   SELECT                   all reading; CREATE TABLE … LIKE
 *   INSERT                   rows into shadows, sentinel, lease; RENAME TABLE
 *   UPDATE                   the lease's generation
 *   CREATE                   sentinel, lease, shadows; RENAME TABLE; the schema itself on a new
 * server DROP                     old tables and shadows; RENAME TABLE ALTER AUTO_INCREMENT
 * counters; RENAME TABLE LOCK TABLES              the still picture of a dump CREATE TEMPORARY
 * TABLES  the copies of [dump] method = copy TRIGGER                  moving triggers over at the
 * swap; seeing them at all on MySQL */
static const struct {
    const char *right, *why;
} needed[] = {
    {"SELECT", "reading"},
    {"INSERT", "loading rows"},
    {"UPDATE", "raising the generation in the lease table"},
    {"CREATE", "making shadow tables"},
    {"DROP", "swapping tables"},
    {"ALTER", "swapping tables, AUTO_INCREMENT"},
    {"LOCK TABLES", "a dump of one moment"},
    {"CREATE TEMPORARY TABLES", "the copies that a dump reads from"},
};
/* Useful on the schema, so not superfluous. */
static const char *const welcome[] = {"TRIGGER", "SHOW VIEW", "EVENT", "SHOW CREATE ROUTINE", NULL};
static const char *const drill[] = {"SELECT", "INSERT", "CREATE", "DROP", "ALTER", NULL};

static bool is_needed(const struct check *c, size_t i)
{
    return strcmp(needed[i].right, "CREATE TEMPORARY TABLES") != 0 ||
           c->cfg->dump_method != METHOD_LOCK;
}

static bool has(const struct check *c, const char *right)
{
    return grants_have(&c->grants, c->cfg->schema, right);
}

static bool has_globally(const struct check *c, const char *right)
{
    return grants_have(&c->grants, NULL, right);
}

static void add_target(const struct check *c, struct buf *b, const char *schema)
{
    doctor_target(b, &c->grants, schema, c->session.account);
}

/* A new row for this very schema hides what a wider one (`game%`, `my_world` with its wildcard)
 * gives, so it must then hold everything. */
static bool row_is_exact(const struct check *c)
{
    struct buf pattern = {0}, account = {0};
    buf_adds(&pattern, "");
    grants_pattern(&c->grants, &pattern, c->cfg->schema);
    doctor_account(&account, c->session.account);
    const struct grant *row = grants_row(&c->grants, c->cfg->schema, account.p);
    bool exact = !row || strcmp(row->schema, pattern.p) == 0;
    buf_free(&pattern);
    buf_free(&account);
    return exact;
}

/* SHOW CREATE ROUTINE came with MariaDB 11.3 and is refused as a word before. */
static bool known_here(const struct check *c, const char *right)
{
    return strcmp(right, "SHOW CREATE ROUTINE") != 0 ||
           (db_is_mariadb(c->db) && strtod(c->server.version, NULL) >= 11.3);
}

static void add_word(struct buf *b, const char *word)
{
    buf_printf(b, "%s%s", b->len ? ", " : "", word);
}

static void schema_grant(const struct check *c, struct buf *b, bool all)
{
    struct buf list = {0};
    all = all || !row_is_exact(c);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (is_needed(c, i) && (all || !has(c, needed[i].right)))
            add_word(&list, needed[i].right);
    for (const char *const *w = welcome; *w; w++)
        if (known_here(c, *w) && (all || !has(c, *w)))
            add_word(&list, *w);
    buf_printf(b, "GRANT %s", list.p);
    add_target(c, b, c->cfg->schema);
    buf_addc(b, ';');
    buf_free(&list);
}

void check_schema_grant(const struct check *c, struct buf *b)
{
    schema_grant(c, b, false);
}

static bool check_needed(struct check *c)
{
    struct buf missing = {0}, sql = {0};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (is_needed(c, i) && !has(c, needed[i].right))
            buf_printf(&missing, "%s%s (%s)", missing.len ? ", " : "", needed[i].right,
                       needed[i].why);
    bool good = missing.len == 0;
    if (good) {
        check_add(c, CHECK_OK, "rights", "all that dumps and restores need");
    } else {
        check_add(c, CHECK_FAIL, "rights", "missing on the whole schema: %s", missing.p);
        schema_grant(c, &sql, false);
        check_hint(c, "%s", sql.p);
    }
    buf_free(&missing);
    buf_free(&sql);
    return good;
}

/* Triggers */

static bool foreign_definer(const struct check *c, const struct db_trigger **which)
{
    for (size_t i = 0; i < c->triggers.count; i++)
        if (c->triggers.list[i].definer[0] &&
            strcmp(c->triggers.list[i].definer, c->session.account) != 0) {
            *which = &c->triggers.list[i];
            return true;
        }
    return false;
}

/* MySQL lets none but system users make what belongs to one. Who else is one it does not tell. */
static bool roots_definer(const struct check *c)
{
    bool found = false;
    for (size_t i = 0; i < c->triggers.count; i++)
        found |= text_starts(c->triggers.list[i].definer, "root@");
    return found;
}

/* What it takes to make a trigger that belongs to somebody else; ended by NULL. */
static const char *const *definer_rights(const struct check *c)
{
    static const char *const maria[] = {"SET USER", NULL}, *const old[] = {"SET_USER_ID", NULL},
                             *const mysql[] = {"SET_ANY_DEFINER", NULL},
                             *const system[] = {"SET_ANY_DEFINER", "SYSTEM_USER", NULL};
    if (db_is_mariadb(c->db))
        return maria;
    if (strtod(c->server.version, NULL) < 8.2)
        return old;
    return roots_definer(c) ? system : mysql;
}

static void check_trigger_right(struct check *c)
{
    struct buf sql = {0};
    bool hidden = !db_is_mariadb(c->db); /* MySQL does not even show that there is one */
    if (has(c, "TRIGGER"))
        return;
    schema_grant(c, &sql, false);
    if (c->triggers.count)
        check_add(c, CHECK_FAIL, "triggers",
                  "%zu on tables that a restore replaces, and no right to move them over",
                  c->triggers.count);
    else
        check_add(
            c, hidden ? CHECK_FAIL : CHECK_WARN, "triggers",
            hidden ? "without the right to see them a restore would lose them"
                   : "none now, and no right to move one over: it would make every restore fail");
    check_hint(c, "%s", sql.p);
    buf_free(&sql);
}

/* With a binary log the server wants more than TRIGGER. */
static bool log_forbids(const struct check *c)
{
    return db_variable_number(c->db, "log_bin") == 1 &&
           db_variable_number(c->db, "log_bin_trust_function_creators") == 0 &&
           !has_globally(c, "SUPER");
}

/* Returns whether all is well. */
static bool check_definers(struct check *c)
{
    struct buf missing = {0}, account = {0};
    const struct db_trigger *t = NULL;
    if (!foreign_definer(c, &t))
        return true;
    for (const char *const *r = definer_rights(c); *r; r++)
        if (!has_globally(c, *r) && (strcmp(*r, "SYSTEM_USER") == 0 || !has_globally(c, "SUPER")))
            add_word(&missing, *r);
    bool good = missing.len == 0;
    if (!good) {
        doctor_account(&account, c->session.account);
        check_add(c, CHECK_FAIL, "triggers",
                  "trigger %s belongs to %s; a restore makes it anew under that name, which "
                  "takes %s%s%s",
                  t->name, t->definer, missing.p,
                  db_is_mariadb(c->db) || strstr(missing.p, "SYSTEM_USER")
                      ? ""
                      : "; SYSTEM_USER too where that account has it",
                  strstr(missing.p, "SET_ANY_DEFINER")
                      ? "; ALLOW_NONEXISTENT_DEFINER too where there is no such account"
                      : "");
        check_hint(c, "GRANT %s ON *.* TO %s;", missing.p, account.p);
    }
    buf_free(&missing);
    buf_free(&account);
    return good;
}

static void check_triggers(struct check *c)
{
    check_trigger_right(c);
    if (!has(c, "TRIGGER") || c->triggers.count == 0)
        return;
    bool good = true;
    if (log_forbids(c)) {
        good = false;
        check_add(c, CHECK_FAIL, "triggers",
                  "%zu on tables that a restore replaces; with a binary log the server lets "
                  "only SUPER move them over (1419)",
                  c->triggers.count);
        check_hint(c, "SET GLOBAL log_bin_trust_function_creators=1, and the same in the server's "
                      "config file");
    }
    good = check_definers(c) && good;
    if (good)
        check_add(c, CHECK_OK, "triggers",
                  "%zu on tables that a restore replaces; they move over at the swap",
                  c->triggers.count);
}

/* What is nice to have */

static void check_position(struct check *c)
{
    struct buf sql = {0};
    const char *right = db_is_mariadb(c->db) ? "BINLOG MONITOR" : "REPLICATION CLIENT";
    if (c->cfg->journal != JOURNAL_OFF) /* the journal needs the same, and says so */
        return;
    if (db_variable_number(c->db, "log_bin") != 1 || has_globally(c, "BINLOG MONITOR") ||
        has_globally(c, "SUPER"))
        return;
    buf_printf(&sql, "GRANT %s ON *.* TO ", right);
    doctor_account(&sql, c->session.account);
    check_add(c, CHECK_NOTE, "rights",
              "dumps do not tell their place in the binary log: %s is missing", right);
    check_hint(c, "%s;", sql.p);
    buf_free(&sql);
}

/* What lets a session leave the binary log out. */
static const char *log_right(const struct check *c)
{
    return db_is_mariadb(c->db) ? "BINLOG ADMIN" : "SESSION_VARIABLES_ADMIN";
}

static bool may_leave_log(const struct check *c)
{
    return has_globally(c, log_right(c)) || has_globally(c, "SUPER") ||
           has_globally(c, "SYSTEM_VARIABLES_ADMIN");
}

static void check_unlogged(struct check *c)
{
    struct buf sql = {0};
    if (c->cfg->restore_binlog || db_variable_number(c->db, "log_bin") != 1 || may_leave_log(c))
        return;
    buf_printf(&sql, "GRANT %s ON *.* TO ", log_right(c));
    doctor_account(&sql, c->session.account);
    check_add(c, CHECK_WARN, "rights",
              "[restore] binlog = no has no effect: restores are logged, %s is missing",
              log_right(c));
    check_hint(c, "%s;", sql.p);
    buf_free(&sql);
}

static void check_drill(struct check *c)
{
    struct buf list = {0}, sql = {0};
    char *schema = xasprintf("worldkeeper_drill_%.40s", c->cfg->name);
    for (const char *const *d = drill; *d; d++)
        if (!grants_have(&c->grants, schema, *d))
            add_word(&list, *d);
    if (list.len) {
        check_add(c, CHECK_NOTE, "drill", "--drill could not use its scratch schema %s: %s missing",
                  schema, list.p);
        buf_adds(&sql, "GRANT " DOCTOR_SCRATCH_RIGHTS);
        add_target(c, &sql, schema);
        check_hint(c, "%s;", sql.p);
    } else {
        check_add(c, CHECK_OK, "drill", "--drill may make and drop its scratch schema %s", schema);
    }
    free(schema);
    buf_free(&list);
    buf_free(&sql);
}

/* What is too much */

static bool welcome_globally(const struct check *c, const char *right)
{
    const struct db_trigger *t;
    if (strcmp(right, "BINLOG MONITOR") == 0 || strcmp(right, "REPLICATION SLAVE") == 0)
        return true;
    if (strcmp(right, "SUPER") == 0)
        return c->triggers.count && db_variable_number(c->db, "log_bin") == 1 &&
               db_variable_number(c->db, "log_bin_trust_function_creators") == 0;
    if (strcmp(right, log_right(c)) == 0)
        return !c->cfg->restore_binlog || db_variable_number(c->db, "sql_require_primary_key") == 1;
    if (strcmp(right, "SHOW_ROUTINE") == 0 || strcmp(right, "SHOW CREATE ROUTINE") == 0)
        return true;
    return (text_among(right, definer_rights(c)) || strcmp(right, "SYSTEM_USER") == 0 ||
            strcmp(right, "ALLOW_NONEXISTENT_DEFINER") == 0) &&
           foreign_definer(c, &t);
}

static bool useful_here(const struct check *c, const struct grant *g, const char *right)
{
    if (g->on == GRANT_GLOBAL)
        return welcome_globally(c, right);
    if (g->on == GRANT_TABLE && strcmp(g->schema, "mysql") == 0 && strcmp(g->object, "proc") == 0)
        return strcmp(right, "SELECT") == 0;
    if (g->schema && text_starts(g->schema, "worldkeeper") && strstr(g->schema, "drill"))
        return true;
    if (g->on == GRANT_ROUTINE || grant_is_wide(&c->grants, g) ||
        !grant_matches(&c->grants, g, c->cfg->schema))
        return false;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (strcmp(needed[i].right, right) == 0)
            return true;
    return text_among(right, welcome);
}

/* The word itself, not what it stands for. */
static bool in_row(const struct grant *g, const char *word)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->rights[i], word) == 0)
            return true;
    return false;
}

static void add_object(struct buf *b, const struct grant *g)
{
    buf_printf(b, " ON %s", g->routine ? g->routine : "");
    if (g->schema)
        sql_ident(b, g->schema);
    else
        buf_addc(b, '*');
    buf_addc(b, '.');
    if (g->object)
        sql_ident(b, g->object);
    else
        buf_addc(b, '*');
}

struct excess {
    struct buf text, sql;
    struct buf last; /* SQL too: without the option MySQL takes no more dynamic rights away, and it
                        says nothing of it */
};

/* MySQL's rights with a _ have each an option of its own, which goes with the right only. */
static bool is_dynamic(const struct grant *g)
{
    return g->on == GRANT_GLOBAL && g->count && strchr(g->rights[0], '_');
}

/* Rights of one row that nothing needs, as text for people and as REVOKEs. */
static void weigh(const struct check *c, const struct grant *g, struct excess *x)
{
    struct buf list = {0}, kept = {0}, object = {0};
    for (size_t i = 0; i < g->count; i++)
        add_word(useful_here(c, g, g->rights[i]) ? &kept : &list, g->rights[i]);
    add_object(&object, g);
    if (list.len)
        buf_printf(&x->text, "%s%s%s", x->text.len ? "; " : "", list.p, object.p);
    if (list.len)
        buf_printf(&x->sql, "REVOKE %s%s FROM %s; ", list.p, object.p, g->grantee);
    if (g->option)
        buf_printf(&x->text, "%sGRANT OPTION%s", x->text.len ? "; " : "", object.p);
    if (g->option && !is_dynamic(g)) {
        buf_printf(&x->last, "REVOKE GRANT OPTION%s FROM %s; ", object.p, g->grantee);
    } else if (g->option && kept.len) {
        buf_printf(&x->sql, "REVOKE %s%s FROM %s; ", kept.p, object.p, g->grantee);
        buf_printf(&x->last, "GRANT %s%s TO %s; ", kept.p, object.p, g->grantee);
    }
    buf_free(&list);
    buf_free(&kept);
    buf_free(&object);
}

/* Would the schema's own row do without what is superfluous? */
static bool row_suffices(const struct check *c)
{
    struct grants rest = {.literal = c->grants.literal};
    bool enough = true;
    rest.list = xcalloc(c->grants.count, sizeof *rest.list);
    for (size_t i = 0; i < c->grants.count; i++) {
        const struct grant *g = &c->grants.list[i];
        if (g->on == GRANT_SCHEMA && !in_row(g, "ALL PRIVILEGES") && !grant_is_wide(&c->grants, g))
            rest.list[rest.count++] = *g;
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        enough =
            enough && (!is_needed(c, i) || grants_have(&rest, c->cfg->schema, needed[i].right));
    free(rest.list); /* the rows are c's */
    return enough;
}

static void tell_excess(struct check *c, enum check_level level, const char *what,
                        const struct excess *x)
{
    struct buf sql = {0};
    if (!x->text.len)
        return;
    buf_adds(&sql, x->sql.len ? x->sql.p : "");
    buf_adds(&sql, x->last.len ? x->last.p : "");
    if (!row_suffices(c)) /* after taking away comes giving back */
        schema_grant(c, &sql, true);
    check_add(c, level, "rights", "%s: %s", what, x->text.p);
    check_hint(c, "%.*s", (int)(sql.len - (sql.len && sql.p[sql.len - 1] == ' ')), sql.p);
    buf_free(&sql);
}

static void excess_free(struct excess *x)
{
    buf_free(&x->text);
    buf_free(&x->sql);
    buf_free(&x->last);
}

static void check_superfluous(struct check *c)
{
    struct excess wide = {0}, here = {0};
    for (size_t i = 0; i < c->grants.count; i++) {
        const struct grant *g = &c->grants.list[i];
        if (g->on == GRANT_PROXY || g->on == GRANT_ROLE || g->revoke ||
            strcmp(g->grantee, "PUBLIC") == 0)
            continue;
        bool ours = g->on == GRANT_SCHEMA && !g->option && !grant_is_wide(&c->grants, g) &&
                    grant_matches(&c->grants, g, c->cfg->schema);
        weigh(c, g, ours ? &here : &wide);
    }
    tell_excess(c, CHECK_WARN, "superfluous", &wide);
    tell_excess(c, CHECK_NOTE, "more than needed", &here);
    excess_free(&wide);
    excess_free(&here);
}

static void check_limits(struct check *c)
{
    for (size_t i = 0; i < c->grants.count; i++)
        if (c->grants.list[i].limited) {
            check_add(c, CHECK_WARN, "account",
                      "it has limits (SHOW GRANTS: MAX_…); a probe each second and a dump of many "
                      "tables may run into them");
            check_hint(c, "ALTER USER … WITH MAX_QUERIES_PER_HOUR 0 MAX_UPDATES_PER_HOUR 0 "
                          "MAX_CONNECTIONS_PER_HOUR 0");
            return;
        }
}

static void idle_role(struct check *c, const char *role, const char *account)
{
    check_add(c, CHECK_NOTE, "account", "role %s is granted, but not active at login", role);
    check_hint(c, "SET DEFAULT ROLE %s %s %s, if its rights are meant", role,
               db_is_mariadb(c->db) ? "FOR" : "TO", account);
}

static void idle_roles_of_mysql(struct check *c, const char *account)
{
    struct db_names idle;
    if (doctor_idle_roles(c->db, &idle, NULL) < 0)
        return;
    for (size_t i = 0; i < idle.count; i++)
        idle_role(c, idle.list[i], account);
    db_names_free(&idle);
}

/* A role that is not active gives nothing. */
static void check_roles(struct check *c)
{
    struct buf account = {0};
    bool mariadb = db_is_mariadb(c->db);
    doctor_account(&account, c->session.account);
    if (!mariadb)
        idle_roles_of_mysql(c, account.p);
    for (size_t i = 0; i < c->grants.count && mariadb; i++) {
        const struct grant *g = &c->grants.list[i];
        bool active = false;
        if (g->on != GRANT_ROLE || strcmp(g->grantee, account.p) != 0)
            continue;
        for (size_t k = 0; k < c->grants.count; k++)
            active = active || strcmp(c->grants.list[k].grantee, g->schema) == 0;
        if (!active)
            idle_role(c, g->schema, account.p);
    }
    buf_free(&account);
}

void check_rights(struct check *c)
{
    struct err e = {0};
    unsigned strange = 0;
    if (doctor_grants(c->db, &c->grants, &strange, &e) < 0) {
        err_step(&e, "cannot be read (SHOW GRANTS)");
        check_error(c, CHECK_WARN, "rights", &e);
        return;
    }
    c->grants_known = true;
    if (strange)
        check_add(c, CHECK_NOTE, "rights", "%u lines of SHOW GRANTS are of a kind not known here",
                  strange);
    if (check_needed(c))
        check_triggers(c);
    check_position(c);
    check_unlogged(c);
    check_drill(c);
    check_superfluous(c);
    check_limits(c);
    check_roles(c);
}
