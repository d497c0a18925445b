#include "db/binlog.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "db/doctor.h"

struct ask {
    struct db *db;
    const char *schema;
    struct binlog_ability *out;
};

/* A question gives 1 when it found a reason, 0 when all is well, -1. */
static int because(const struct ask *a, const char *reason, ...)
    __attribute__((format(printf, 2, 3)));
static int because(const struct ask *a, const char *reason, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, reason);
    buf_vprintf(&b, reason, ap);
    va_end(ap);
    a->out->reason = b.p;
    return 1;
}

static void way_out(const struct ask *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void way_out(const struct ask *a, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    a->out->hint = b.p;
}

/* ---- settings ---- */

static int ask_log_bin(const struct ask *a, struct err *e)
{
    char *v = db_one(a->db, "SELECT @@global.log_bin", e);
    if (!v)
        return -1;
    bool on = strcmp(v, "1") == 0;
    free(v);
    if (!on) {
        way_out(a, "log_bin = binlog under [mysqld] in the server's my.cnf, and a restart of it, "
                   "which empties MEMORY tables: dump first");
        return because(a, "log_bin is off: the server writes no binary log.");
    }
    if (db_variable_number(a->db, "server_id") == 0) {
        way_out(a,
                "server_id = 1 under [mysqld] in the server's my.cnf, and SET GLOBAL server_id=1");
        return because(a, "server_id is 0: the server lets nobody read its binary log.");
    }
    if (!db_log_closed(a->db))
        return 0;
    way_out(a, "see the server's error log, make room where its binary log lies, and restart the "
               "server, which empties MEMORY tables: dump first");
    return because(a, "the server has closed its binary log after an error and writes none.");
}

/* Variables that may be missing: then the server cannot do it any other way. */
static const struct {
    const char *name, *good, *line, *because;
} settings[] = {
    {"binlog_format", "ROW", "binlog_format = ROW",
     "changes are logged as statements, not as rows"},
    {"binlog_row_image", "FULL", "binlog_row_image = FULL",
     "not all columns of a changed row are logged"},
    {"log_bin_compress", "0", "log_bin_compress = OFF", "row changes are logged compressed"},
    {"binlog_transaction_compression", "0", "binlog_transaction_compression = OFF",
     "transactions are logged compressed"},
};

static int ask_setting(const struct ask *a, size_t i)
{
    char *v = db_variable(a->db, settings[i].name);
    bool good = !v || !v[0] || strcasecmp(v, settings[i].good) == 0;
    if (!good) {
        const char *shown = strcmp(v, "1") == 0 ? "ON" : v;
        way_out(a,
                "%s under [mysqld] in the server's my.cnf, and SET GLOBAL %s now; the game has to "
                "connect anew, since open sessions keep what they have",
                settings[i].line, settings[i].line);
        because(a, "%s is %s: %s.", settings[i].name, shown, settings[i].because);
    }
    free(v);
    return good ? 0 : 1;
}

/* ---- rights ---- */

static int ask_rights(const struct ask *a, struct err *e)
{
    static const char *const rights[] = {"REPLICATION SLAVE", "BINLOG MONITOR"};
    static const char *const in_mysql[] = {"REPLICATION SLAVE", "REPLICATION CLIENT"};
    const char *const *words = db_is_mariadb(a->db) ? rights : in_mysql;
    struct grants grants = {0};
    struct doctor_session session;
    struct buf missing = {0}, account = {0};
    unsigned strange;
    if (doctor_session(a->db, &session, e) < 0 || doctor_grants(a->db, &grants, &strange, e) < 0)
        return -1;
    for (size_t i = 0; i < 2; i++)
        if (!grants_have(&grants, NULL, rights[i]) &&
            (i == 0 || !grants_have(&grants, NULL, "SUPER")))
            buf_printf(&missing, "%s%s", missing.len ? ", " : "", words[i]);
    bool good = missing.len == 0;
    if (!good) {
        doctor_account(&account, session.account);
        way_out(a, "GRANT %s ON *.* TO %s;", missing.p, account.p);
        because(a, "the account may not read the binary log: it lacks %s.", missing.p);
    }
    grants_free(&grants);
    buf_free(&missing);
    buf_free(&account);
    return good ? 0 : 1;
}

/* ---- filters ---- */

/* A filter looks at the table's schema for rows and at the default one for statements: a TRUNCATE
 * of the world from elsewhere would be in no log, whatever schema is let through. */
static int judge_filters(const struct ask *a, const char *only, const char *without)
{
    bool kept = only && *only, dropped = without && *without;
    if (!kept && !dropped)
        return 0;
    const char *which = kept ? "binlog_do_db" : "binlog_ignore_db";
    way_out(a,
            "%s taken out of [mysqld] in the server's my.cnf, and a restart of it, which empties "
            "MEMORY tables: dump first; replicas have filters of their own (replicate_do_db)",
            which);
    return because(a, "%s is set (%s): statements on %s may be missing from the log.", which,
                   kept ? only : without, a->schema);
}

static int ask_filters(const struct ask *a, struct err *e)
{
    struct db_rows *r = db_log_status(a->db, e);
    if (!r)
        return -1;
    int got, found = 0;
    while ((got = db_next(r, e)) == 1)
        if (!found && db_fields(r) >= 4)
            found = judge_filters(a, db_value(r, 2), db_value(r, 3));
    db_rows_end(r);
    return got < 0 ? -1 : found;
}

/* ---- replicas ---- */

/* 1: it is fed by another server, as far as this account is told; 0, -1. */
static int is_replica(struct db *db, struct err *e)
{
    struct db_rows *r =
        db_select(db,
                  db_is_mariadb(db) ? "SELECT 1 FROM information_schema.GLOBAL_STATUS WHERE "
                                      "VARIABLE_NAME='SLAVES_RUNNING' AND VARIABLE_VALUE<>'0'"
                                    : "SHOW REPLICA STATUS",
                  e);
    int got = -1, found = 0;
    while (r && (got = db_next(r, e)) == 1)
        found = 1;
    db_rows_end(r);
    return got < 0 ? -1 : found;
}

/* What a replica is told by its source is in its own log only when it is asked for. */
static int ask_replica(const struct ask *a, struct err *e)
{
    const char *name = db_is_mariadb(a->db) ? "log_slave_updates" : "log_replica_updates";
    int replica = db_variable_number(a->db, name) == 0 ? is_replica(a->db, e) : 0;
    if (replica <= 0)
        return replica;
    way_out(a,
            "%s = ON under [mysqld] in the server's my.cnf, and a restart of it, which empties "
            "MEMORY tables: dump first",
            name);
    return because(a, "%s is OFF on a replica: what its source sends it is not in its binary log.",
                   name);
}

int binlog_ability(struct db *db, const char *schema, struct binlog_ability *out, struct err *e)
{
    *out = (struct binlog_ability){0};
    struct ask a = {.db = db, .schema = schema, .out = out};
    int got = ask_log_bin(&a, e);
    for (size_t i = 0; got == 0 && i < sizeof settings / sizeof *settings; i++)
        got = ask_setting(&a, i);
    if (got == 0)
        got = ask_rights(&a, e);
    if (got == 0)
        got = ask_filters(&a, e);
    if (got == 0)
        got = ask_replica(&a, e);
    if (got < 0)
        binlog_ability_free(out);
    return got < 0 ? -1 : 0;
}

void binlog_ability_free(struct binlog_ability *a)
{
    free(a->reason);
    free(a->hint);
    *a = (struct binlog_ability){0};
}
