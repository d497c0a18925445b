#include "db/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "db/sql.h"

static void copy_field(const struct db_rows *r, unsigned i, char *out, size_t size)
{
    const char *v = db_value(r, i);
    snprintf(out, size, "%s", v ? v : "");
}

static void read_tls(struct db *db, struct doctor_session *out)
{
    char cipher[64] = "", version[64] = "", name[64] = "";
    struct db_rows *r = db_select(
        db, "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher','Ssl_version')", NULL);
    if (!r)
        return;
    while (db_next(r, NULL) == 1) {
        copy_field(r, 0, name, sizeof name);
        if (strcasecmp(name, "Ssl_cipher") == 0)
            copy_field(r, 1, cipher, sizeof cipher);
        else
            copy_field(r, 1, version, sizeof version);
    }
    db_rows_end(r);
    if (cipher[0])
        snprintf(out->tls, sizeof out->tls, "%s, %s", version, cipher);
}

int doctor_session(struct db *db, struct doctor_session *out, struct err *e)
{
    *out = (struct doctor_session){0};
    struct db_rows *r = db_select(
        db, "SELECT CURRENT_USER(), @@global.version_comment, @@session.max_user_connections", e);
    if (!r)
        return -1;
    int got;
    while ((got = db_next(r, e)) == 1) {
        copy_field(r, 0, out->account, sizeof out->account);
        copy_field(r, 1, out->version_comment, sizeof out->version_comment);
        out->max_connections = db_value(r, 2) ? strtoll(db_value(r, 2), NULL, 10) : 0;
    }
    db_rows_end(r);
    if (got == 0)
        read_tls(db, out);
    return got;
}

static double precise_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1000.0 + (double)t.tv_nsec / 1e6;
}

int doctor_latency(struct db *db, double *ms, struct err *e)
{
    *ms = -1;
    for (int i = 0; i < 3; i++) {
        double began = precise_ms();
        if (db_exec(db, "DO 1", e) < 0)
            return -1;
        double took = precise_ms() - began;
        if (*ms < 0 || took < *ms)
            *ms = took;
    }
    return 0;
}

int doctor_clock(struct db *db, int64_t *ahead, int64_t *error, struct err *e)
{
    wall_t before = clock_wall();
    char *v = db_one(db, "SELECT UNIX_TIMESTAMP(NOW(6))", e);
    wall_t after = clock_wall();
    if (!v)
        return e && e->cls == ERR_NONE
                   ? err_set(e, ERR_QUERY, 0, "the server does not tell its time")
                   : -1;
    int64_t server = (int64_t)(strtod(v, NULL) * 1000.0);
    free(v);
    *error = (after.ms - before.ms) / 2;
    *ahead = server - (before.ms + *error);
    return 0;
}

/* MariaDB shows the rights of active roles by itself; MySQL must be told which. */
static char *grants_question(struct db *db)
{
    if (db_is_mariadb(db))
        return xstrdup("SHOW GRANTS");
    char *roles = db_one(db, "SELECT CURRENT_ROLE()", NULL), *sql;
    bool none = !roles || !roles[0] || strcmp(roles, "NONE") == 0;
    sql =
        none ? xstrdup("SHOW GRANTS") : xasprintf("SHOW GRANTS FOR CURRENT_USER() USING %s", roles);
    free(roles);
    return sql;
}

int doctor_grants(struct db *db, struct grants *out, unsigned *strange, struct err *e)
{
    *out = (struct grants){0};
    *strange = 0;
    out->literal = !db_is_mariadb(db) && db_variable_number(db, "partial_revokes") == 1;
    char *sql = grants_question(db);
    struct db_rows *r = db_select(db, sql, e);
    free(sql);
    if (!r)
        return -1;
    int got;
    while ((got = db_next(r, e)) == 1)
        if (db_value(r, 0) && grants_add(out, db_value(r, 0)) < 0)
            ++*strange;
    db_rows_end(r);
    if (got < 0)
        grants_free(out);
    return got;
}

void doctor_account(struct buf *b, const char *account)
{
    const char *at = strrchr(account, '@'); /* a host has no @, a user may */
    char *user = at ? xstrndup(account, (size_t)(at - account)) : xstrdup(account);
    sql_ident(b, user);
    if (at) {
        buf_addc(b, '@');
        sql_ident(b, at + 1);
    }
    free(user);
}

void doctor_target(struct buf *b, const struct grants *g, const char *schema, const char *account)
{
    struct buf pattern = {0};
    buf_adds(&pattern, "");
    grants_pattern(g, &pattern, schema);
    buf_adds(b, " ON ");
    sql_ident(b, pattern.p);
    buf_adds(b, ".* TO ");
    doctor_account(b, account);
    buf_free(&pattern);
}

static char *with_schema(const char *sql, const char *schema)
{
    struct buf b = {0};
    buf_adds(&b, sql);
    sql_string(&b, schema, strlen(schema));
    return b.p;
}

int doctor_schema(struct db *db, const char *schema, bool *there, struct err *e)
{
    struct err why = {0};
    char *sql = with_schema("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME=", schema);
    char *v = db_one(db, sql, &why);
    free(sql);
    *there = v != NULL;
    free(v);
    if (why.cls == ERR_NONE)
        return 0;
    if (e)
        *e = why;
    return -1;
}

static const char *const odd[] = {
    [DOCTOR_PARTITIONED] =
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE CREATE_OPTIONS LIKE "
        "'%partitioned%' AND ENGINE='MEMORY' AND TABLE_SCHEMA=",
    [DOCTOR_FOREIGN_KEY] =
        "SELECT DISTINCT TABLE_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE "
        "CONSTRAINT_TYPE='FOREIGN KEY' AND TABLE_SCHEMA=",
    [DOCTOR_REFERENCED] =
        "SELECT DISTINCT REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE "
        "WHERE REFERENCED_TABLE_NAME IS NOT NULL AND REFERENCED_TABLE_SCHEMA=",
    [DOCTOR_SEQUENCE] =
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE='SEQUENCE' AND "
        "TABLE_SCHEMA=",
    [DOCTOR_VERSIONED] =
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE='SYSTEM "
        "VERSIONED' AND TABLE_SCHEMA=",
    [DOCTOR_VERSIONED_MEMORY] =
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE='SYSTEM "
        "VERSIONED' AND ENGINE='MEMORY' AND TABLE_SCHEMA=",
    [DOCTOR_FEDERATED] =
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE ENGINE IN "
        "('FEDERATED','CONNECT','SPIDER','MRG_MyISAM','BLACKHOLE') AND TABLE_SCHEMA=",
    [DOCTOR_LONG_ROWS] =
        "SELECT DISTINCT TABLE_NAME FROM information_schema.COLUMNS WHERE DATA_TYPE IN "
        "('longtext','longblob','mediumtext','mediumblob','json') AND TABLE_SCHEMA=",
};

static int read_names(struct db *db, const char *sql, struct db_names *out, struct err *e)
{
    *out = (struct db_names){0};
    struct db_rows *r = db_select(db, sql, e);
    if (!r)
        return -1;
    int got;
    while ((got = db_next(r, e)) == 1) {
        out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
        out->list[out->count++] = xstrdup(db_value(r, 0) ? db_value(r, 0) : "");
    }
    db_rows_end(r);
    if (got < 0)
        db_names_free(out);
    return got;
}

int doctor_odd_tables(struct db *db, const char *schema, enum doctor_oddity which,
                      struct db_names *out, struct err *e)
{
    char *sql = with_schema(odd[which], schema);
    int rc = read_names(db, sql, out, e);
    free(sql);
    return rc;
}

int doctor_idle_roles(struct db *db, struct db_names *out, struct err *e)
{
    return read_names(db,
                      "SELECT CONCAT('`', REPLACE(ROLE_NAME,'`','``'), '`@`', "
                      "REPLACE(ROLE_HOST,'`','``'), '`') FROM information_schema.APPLICABLE_ROLES "
                      "WHERE (ROLE_NAME, ROLE_HOST) NOT IN "
                      "(SELECT ROLE_NAME, ROLE_HOST FROM information_schema.ENABLED_ROLES)",
                      out, e);
}
