#include "mysql/account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "sql/literal.h"

/* Leaves out->tls empty if the session is not encrypted. */
static void read_tls(struct db *db, struct db_account *out)
{
    char cipher[64] = "", version[64] = "";
    struct db_rows *r = db_select(
        db, "nT", "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher','Ssl_version')", NULL);
    while (db_next(r, NULL) == 1)
        if (strcasecmp(db_text(r, 0), "Ssl_cipher") == 0)
            db_copy(r, 1, cipher, sizeof cipher);
        else
            db_copy(r, 1, version, sizeof version);
    db_rows_end(r);
    if (cipher[0])
        snprintf(out->tls, sizeof out->tls, "%s, %s", version, cipher);
}

int db_account(struct db *db, struct db_account *out, struct err *e)
{
    *out = (struct db_account){0};
    struct db_rows *r =
        db_select(db, "TI", "SELECT CURRENT_USER(), @@session.max_user_connections", e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        db_copy(r, 0, out->name, sizeof out->name);
        out->max_connections = db_int(r, 1);
    }
    db_rows_end(r);
    if (got == 0)
        read_tls(db, out);
    return got;
}

static void begin_grants(struct db *db, struct grants *out, unsigned *unknown)
{
    *out = (struct grants){0};
    *unknown = 0;
    out->literal = !db_is_mariadb(db) && db_variable_number(db, "partial_revokes") == 1;
    out->any_case = db_variable_number(db, "lower_case_table_names") > 0;
}

/* Takes the rows of a SHOW GRANTS. On failure there are none, but how the server compares names
 * stays known. */
static int read_grants(struct db_rows *r, struct grants *out, unsigned *unknown, struct err *e)
{
    int got;
    while ((got = db_next(r, e)) == 1)
        if (db_value(r, 0) && grants_add(out, db_value(r, 0)) < 0)
            ++*unknown;
    db_rows_end(r);
    if (got < 0) {
        const struct grants none = {.literal = out->literal, .any_case = out->any_case};
        grants_free(out);
        *out = none;
    }
    return got;
}

int db_grants_using(struct db *db, const char *roles, struct grants *out, unsigned *unknown,
                    struct err *e)
{
    begin_grants(db, out, unknown);
    return read_grants(
        db_select_with(db, "T*", "SHOW GRANTS FOR CURRENT_USER() USING $", DB_ARGS(roles), e), out,
        unknown, e);
}

int db_grants(struct db *db, struct grants *out, unsigned *unknown, struct err *e)
{
    /* MariaDB includes the privileges of active roles; in MySQL the roles must be named. */
    SCOPED(xfree) char *roles =
        db_is_mariadb(db) ? NULL : db_one(db, "SELECT CURRENT_ROLE()", NULL);
    bool none = !roles || !roles[0] || strcmp(roles, "NONE") == 0;
    if (!none)
        return db_grants_using(db, roles, out, unknown, e);
    begin_grants(db, out, unknown);
    return read_grants(db_select(db, "T*", "SHOW GRANTS", e), out, unknown, e);
}

/* SHOW GRANTS of an account that does not exist fails with one of these. */
#define NO_GRANTS 1141
#define NO_ACCOUNT 1449

int db_grants_of(struct db *db, const char *account, struct grants *out, unsigned *unknown,
                 struct err *e)
{
    SCOPED(buf_free) struct buf quoted = {0};
    struct err why = {0};
    begin_grants(db, out, unknown);
    db_account_quote(&quoted, account);
    int rc = read_grants(db_select_with(db, "T*", "SHOW GRANTS FOR $", DB_ARGS(quoted.p), &why),
                         out, unknown, &why);
    if (rc < 0 && (why.num == NO_GRANTS || why.num == NO_ACCOUNT))
        return 0;
    return rc < 0 ? err_pass(e, &why) : rc;
}

/* Each row is one of mysql.db: the schema's pattern, its privileges, and whether they may be
 * granted to others. The named user comes before the anonymous one. */
static const char elsewhere[] =
    "SELECT TABLE_SCHEMA, GROUP_CONCAT(PRIVILEGE_TYPE SEPARATOR ', '), MAX(IS_GRANTABLE='YES') "
    "FROM (SELECT p.*, TRIM(BOTH '''' FROM SUBSTRING_INDEX(GRANTEE,'@',-1)) AS host FROM "
    "information_schema.SCHEMA_PRIVILEGES p) AS p WHERE "
    "GRANTEE IN (CONCAT('''',?,'''@''',host,''''), CONCAT('''''@''',host,'''')) AND "
    "host<>? AND ? LIKE host GROUP BY GRANTEE, TABLE_SCHEMA ORDER BY GRANTEE DESC";

int db_grants_elsewhere(struct db *db, const char *account, struct grants *out, struct err *e)
{
    const char *at = strrchr(account, '@'); /* only the user may contain an @ */
    const char *host = at ? at + 1 : "";
    SCOPED(xfree) char *user = at ? xstrndup(account, (size_t)(at - account)) : xstrdup(account);
    SCOPED(buf_free) struct buf grantee = {0};
    db_account_quote(&grantee, account);
    struct db_rows *r = db_select_with(db, "TTI", elsewhere, DB_ARGS(user, host, host), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        SCOPED(buf_free) struct buf line = {0};
        buf_printf(&line, "GRANT %s ON ", db_text(r, 1));
        sql_ident(&line, db_text(r, 0));
        buf_printf(&line, ".* TO %s%s", grantee.p, db_int(r, 2) ? " WITH GRANT OPTION" : "");
        if (grants_add(out, line.p) == 0)
            out->list[out->count - 1].elsewhere = true;
    }
    db_rows_end(r);
    return got;
}

void db_account_quote(struct buf *b, const char *account)
{
    const char *at = strrchr(account, '@'); /* only the user may contain an @ */
    SCOPED(xfree) char *user = at ? xstrndup(account, (size_t)(at - account)) : xstrdup(account);
    sql_ident(b, user);
    if (at) {
        buf_addc(b, '@');
        sql_ident(b, at + 1);
    }
}

void db_grant_target(struct buf *b, const struct grants *g, const char *schema, const char *account)
{
    SCOPED(buf_free) struct buf pattern = {0};
    buf_adds(&pattern, "");
    grants_pattern(g, &pattern, schema);
    buf_adds(b, " ON ");
    sql_ident(b, pattern.p);
    buf_adds(b, ".* TO ");
    db_account_quote(b, account);
}

bool db_lists_privilege(const char *list, const char *privilege)
{
    char *word;
    bool found = false;
    for (const char *rest = list; (word = config_next_part(&rest)); free(word))
        found = found || strcmp(word, privilege) == 0;
    return found;
}

void db_schema_grant(struct buf *b, const struct grants *g, const char *schema,
                     const char *privileges, const char *account)
{
    SCOPED(buf_free) struct buf grantee = {0};
    db_account_quote(&grantee, account);
    const struct grant *hidden = grants_hidden(g, schema, grantee.p);
    bool all = hidden && hidden->count && strcmp(hidden->privileges[0], "ALL PRIVILEGES") == 0;
    buf_printf(b, "GRANT %s", all ? "ALL PRIVILEGES" : privileges);
    for (size_t i = 0; hidden && !all && i < hidden->count; i++)
        if (!db_lists_privilege(privileges, hidden->privileges[i]))
            buf_printf(b, ", %s", hidden->privileges[i]);
    /* It is one of the list, so that a REVOKE of the list takes it back; ALL allows no list. */
    buf_adds(b, hidden && hidden->option && !all ? ", GRANT OPTION" : "");
    db_grant_target(b, g, schema, account);
    buf_adds(b, hidden && hidden->option && all ? " WITH GRANT OPTION;" : ";");
}

/* Sets the hint for the session's account, whose grants these are. If it has every privilege
 * already, no GRANT helps. */
static void hint_of_grants(struct db *db, const struct grants *g, const char *schema,
                           const char *privileges, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0}, missing = {0};
    struct db_account session;
    struct err ignored;
    db_missing_privileges(&missing, g, schema, privileges);
    if (!missing.len || db_account(db, &session, &ignored) < 0)
        return;
    db_schema_grant(&b, g, schema, privileges, session.name);
    err_hint(e, "%s", b.p);
}

void db_hint_grant(struct db *db, const char *schema, const char *privileges, struct err *e)
{
    SCOPED(grants_free) struct grants g = {0};
    struct err ignored;
    unsigned unknown = 0;
    if (db_grants(db, &g, &unknown, &ignored) == 0)
        hint_of_grants(db, &g, schema, privileges, e);
}

void db_hint_server(struct db *db, const int *privileges, struct err *e)
{
    SCOPED(grants_free) struct grants g = {0};
    SCOPED(buf_free) struct buf list = {0}, account = {0};
    struct server_version v = db_version(db);
    struct db_account session;
    struct err ignored;
    unsigned unknown = 0;
    if (db_account(db, &session, &ignored) < 0)
        return;
    bool known = db_grants(db, &g, &unknown, &ignored) == 0 && !unknown;
    for (; *privileges >= 0; privileges++) {
        const char *name = server_privilege(v, (enum server_privilege) * privileges);
        if (name && !(known && server_may(&g, v, (enum server_privilege) * privileges)))
            buf_printf(&list, "%s%s", list.len ? ", " : "", name);
    }
    db_account_quote(&account, session.name);
    if (list.len)
        err_hint(e, "GRANT %s ON *.* TO %s;", list.p, account.p);
}

void db_missing_privileges(struct buf *missing, const struct grants *g, const char *schema,
                           const char *privileges)
{
    char *word;
    for (const char *rest = privileges; (word = config_next_part(&rest)); free(word))
        if (!grants_have(g, schema, word))
            buf_printf(missing, "%s%s", missing->len ? ", " : "", word);
}

void db_hint_missing(struct db *db, const char *schema, const char *privileges, struct err *e)
{
    SCOPED(grants_free) struct grants g = {0};
    struct err ignored;
    unsigned unknown = 0;
    if (db_grants(db, &g, &unknown, &ignored) == 0 && !unknown)
        hint_of_grants(db, &g, schema, privileges, e);
}
