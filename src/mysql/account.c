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

void db_hint_grant(struct db *db, const char *schema, const char *privileges, struct err *e)
{
    struct err ignored;
    SCOPED(buf_free) struct buf b = {0};
    struct db_account session;
    struct grants g = {.literal = db_variable_number(db, "partial_revokes") == 1};
    if (db_account(db, &session, &ignored) < 0)
        return;
    buf_printf(&b, "GRANT %s", privileges);
    db_grant_target(&b, &g, schema, session.name);
    err_hint(e, "%s;", b.p);
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
    SCOPED(buf_free) struct buf missing = {0};
    struct err ignored;
    unsigned unknown = 0;
    if (db_grants(db, &g, &unknown, &ignored) < 0 || unknown)
        return;
    db_missing_privileges(&missing, &g, schema, privileges);
    if (missing.len)
        db_hint_grant(db, schema, privileges, e);
}
