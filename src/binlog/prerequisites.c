#include "binlog/prerequisites.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "mysql/account.h"
#include "mysql/prove.h"
#include "mysql/server.h"

struct ask {
    struct db *db;
    const char *schema;
    struct binlog_prerequisites *out;
};

/* ---- settings: each check returns 1 if it found a reason, 0 if not, -1 on error ---- */

/* Sets the reason and the hint. Takes ownership of both texts. */
static int prerequisites_lacks(const struct ask *a, char *hint, char *reason)
{
    a->out->hint = hint;
    a->out->reason = reason;
    return 1;
}

static int ask_log_bin(const struct ask *a, struct err *e)
{
    SCOPED(xfree) char *v = db_one(a->db, "SELECT @@global.log_bin", e);
    if (!v)
        return -1;
    if (strcmp(v, "1") != 0)
        return prerequisites_lacks(
            a,
            xstrdup("set log_bin = binlog under [mysqld] in the server's my.cnf and restart the "
                    "server, which empties MEMORY tables: dump first"),
            xstrdup("log_bin is off: the server writes no binary log."));
    return 0;
}

static int ask_log_open(const struct ask *a)
{
    if (db_variable_number(a->db, "server_id") == 0)
        return prerequisites_lacks(
            a,
            xstrdup("set server_id = 1 under [mysqld] in the server's my.cnf, and now: SET GLOBAL "
                    "server_id=1"),
            xstrdup("server_id is 0: no client can read the server's binary log."));
    if (!db_log_closed(a->db))
        return 0;
    return prerequisites_lacks(
        a,
        xstrdup("see the server's error log, make room on the file system of its binary log, and "
                "restart the server, which empties MEMORY tables: dump first"),
        xstrdup("the server closed its binary log after an error and no longer writes one."));
}

/* Required settings. A variable may be missing; the server then behaves as required. */
static const struct {
    const char *name, *good, *line, *because;
} settings[] = {
    {"binlog_format", "ROW", "binlog_format = ROW",
     "changes are logged as statements, not as rows"},
    {"binlog_row_image", "FULL", "binlog_row_image = FULL",
     "not all columns of a changed row are logged"},
    {"binlog_transaction_compression", "0", "binlog_transaction_compression = OFF",
     "transactions are logged compressed"},
};

static int ask_setting(const struct ask *a, size_t i)
{
    SCOPED(xfree) char *v = db_variable(a->db, settings[i].name);
    if (!v || !v[0] || strcasecmp(v, settings[i].good) == 0)
        return 0;
    return prerequisites_lacks(
        a,
        xasprintf("set %s under [mysqld] in the server's my.cnf, and now: SET GLOBAL %s; then the "
                  "game must reconnect, because open sessions keep the old value",
                  settings[i].line, settings[i].line),
        xasprintf("%s is %s: %s.", settings[i].name, strcmp(v, "1") == 0 ? "ON" : v,
                  settings[i].because));
}

/* ---- privileges ---- */

/* Checks the privileges. Whether the server sends the log can be tested only on a separate
 * connection, which the caller opens next. */
static int ask_privileges(const struct ask *a, struct err *e)
{
    struct server_version v = db_version(a->db);
    SCOPED(grants_free) struct grants grants = {0};
    struct db_account session;
    SCOPED(buf_free) struct buf missing = {0}, account = {0};
    unsigned unknown;
    struct err why;
    if (db_account(a->db, &session, e) < 0 || db_grants(a->db, &grants, &unknown, e) < 0)
        return -1;
    if (!server_may(&grants, v, MAY_READ_LOG))
        buf_adds(&missing, server_privilege(v, MAY_READ_LOG));
    if (db_prove_log_status(a->db, &why) == DB_REFUTED)
        buf_printf(&missing, "%s%s", missing.len ? ", " : "", server_privilege(v, MAY_ASK_LOG));
    if (missing.len == 0)
        return 0;
    db_account_quote(&account, session.name);
    return prerequisites_lacks(
        a, xasprintf("GRANT %s ON *.* TO %s;", missing.p, account.p),
        xasprintf("the account cannot read the binary log: it lacks %s.", missing.p));
}

/* ---- filters ---- */

/* Checks the filters. A filter applies to the table's schema for rows and to the default schema
 * for statements. A TRUNCATE of the world from another schema might therefore not be logged,
 * whatever schemas the filter includes. */
static int judge_filters(const struct ask *a, const char *only, const char *without)
{
    bool kept = only && *only, dropped = without && *without;
    if (!kept && !dropped)
        return 0;
    const char *which = kept ? "binlog_do_db" : "binlog_ignore_db";
    a->out->silent = BINLOG_FILTERED;
    return prerequisites_lacks(
        a,
        xasprintf("remove %s from [mysqld] in the server's my.cnf and restart the server, which "
                  "empties MEMORY tables: dump first; to filter on replicas, use replicate_do_db",
                  which),
        xasprintf("%s is set (%s): statements on %s may be missing from the log.", which,
                  kept ? only : without, a->schema));
}

static int ask_filters(const struct ask *a, struct err *e)
{
    struct db_rows *r = db_log_status(a->db, e);
    if (!r)
        return -1;
    int got, found = 0;
    while ((got = db_next(r, e)) == 1)
        if (!found)
            found = judge_filters(a, db_value(r, 2), db_value(r, 3));
    db_rows_end(r);
    return got < 0 ? -1 : found;
}

/* ---- replicas ---- */

/* Returns true if the server was a replica once. MariaDB needs a further privilege to show
 * replication that is stopped, but it keeps this position: with or without GTIDs, and over a
 * restart. */
static bool was_fed(struct db *db)
{
    SCOPED(xfree) char *pos = db_variable(db, "gtid_slave_pos");
    return pos && pos[0];
}

/* Checks a replica. It writes its source's changes to its own log only if it is configured to. A
 * stopped replica is judged alike, because it may be started at any time. */
static int ask_replica(const struct ask *a, struct err *e)
{
    const char *name = db_word(a->db, WORD_LOG_UPDATES);
    if (db_variable_number(a->db, name) != 0)
        return 0;
    int replica = replicas_fed(a->db, e);
    bool was = replica == 0 && was_fed(a->db);
    if (replica <= 0 && !was)
        return replica;
    a->out->silent = BINLOG_FED;
    return prerequisites_lacks(
        a,
        xasprintf("%sset %s = ON under [mysqld] in the server's my.cnf and restart the server, "
                  "which empties MEMORY tables: dump first",
                  was ? "if it no longer has a source (my.cnf needs no line for this): SET GLOBAL "
                        "gtid_slave_pos=''; otherwise "
                      : "",
                  name),
        xasprintf("%s is OFF on a replica: changes from its source are not in its binary log.",
                  name));
}

/* Checks what the log itself does not show. Whatever else prevents a journal, a dump that has a
 * position must know this. */
static int ask_silent(const struct ask *a, struct err *e)
{
    struct err why;
    /* Without this privilege no dump has a position. ask_privileges() reports it. */
    if (db_prove_log_status(a->db, &why) == DB_REFUTED)
        return 0;
    int got = ask_filters(a, e);
    return got == 0 ? ask_replica(a, e) : got;
}

int binlog_prerequisites(struct db *db, const char *schema, struct binlog_prerequisites *out,
                         struct err *e)
{
    *out = (struct binlog_prerequisites){0};
    struct ask a = {.db = db, .schema = schema, .out = out};
    int got = ask_log_bin(&a, e);
    if (got == 0)
        got = ask_silent(&a, e);
    if (got == 0)
        got = ask_log_open(&a);
    if (got == 0)
        got = ask_privileges(&a, e);
    for (size_t i = 0; got == 0 && i < sizeof settings / sizeof *settings; i++)
        got = ask_setting(&a, i);
    if (got < 0)
        binlog_prerequisites_free(out);
    return got < 0 ? -1 : 0;
}

int binlog_silence(struct db *db, const char *schema, struct binlog_prerequisites *out,
                   struct err *e)
{
    *out = (struct binlog_prerequisites){0};
    return ask_silent(&(struct ask){.db = db, .schema = schema, .out = out}, e) < 0 ? -1 : 0;
}

int binlog_judge(struct db *db, const char *schema, struct binlog_prerequisites *out, struct err *e)
{
    if (binlog_prerequisites(db, schema, out, e) == 0)
        return 0;
    if (db_unanswered(e))
        return -1;
    out->silent = BINLOG_FED;
    out->reason = xasprintf("cannot find out whether the log has all changes: %s", e->text);
    err_clear(e);
    return 0;
}

void binlog_prerequisites_free(struct binlog_prerequisites *a)
{
    free(a->reason);
    free(a->hint);
    *a = (struct binlog_prerequisites){0};
}
