#include "mysql/server.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/text.h"

bool server_restarted(const struct server_id *now, const struct server_id *then)
{
    if (now->start == 0 || then->start == 0)
        return false;
    if (now->start != then->start)
        return true;
    /* with equal start times it can be another process only within its first second */
    bool other = now->pid && then->pid && now->pid != then->pid;
    bool counts_anew = now->connection && now->connection <= then->connection;
    return then->young && (other || counts_anew);
}

/* Returns whether this is a UUID (8-4-4-4-12 hexadecimal digits). MySQL stores one in its data
 * directory; MariaDB's uid has another form. */
static bool is_uuid(const char *s)
{
    size_t i = 0;
    for (; s[i]; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
            return false;
    }
    return i == 36;
}

/* Returns whether both are known and equal. */
static bool server_match(const char *a, const char *b)
{
    return a[0] && strcmp(a, b) == 0;
}

bool server_same_place(const struct server_id *a, const struct server_id *b)
{
    if (is_uuid(a->uid) && is_uuid(b->uid))
        return strcmp(a->uid, b->uid) == 0;
    /* The uid of MariaDB is "unknown" if the machine has no network card. */
    bool uid = server_match(a->uid, b->uid) && strcmp(a->uid, "unknown") != 0;
    return server_match(a->datadir, b->datadir) && (server_match(a->hostname, b->hostname) || uid);
}

#define ID(kind, key, member, ...) JS_FIELD(struct server_id, kind, key, member, __VA_ARGS__)
static const struct js_field id_fields[] = {
    ID(NUMBER, "start", start, NULL, 0, CLOCK_WALL_MAX / 1000),
    ID(FLAG, "young", young, NULL),
    ID(NUMBER, "pid", pid, NULL, 0, INT32_MAX),
    ID(NUMBER, "connection", connection, NULL, 0, INT64_MAX),
    ID(SHOWN, "uid", uid, NULL),
    ID(SHOWN, "hostname", hostname, NULL),
    ID(SHOWN, "datadir", datadir, NULL),
    ID(SHOWN, "version", version, NULL)};

json_t *server_json(const struct server_id *s)
{
    json_t *o = json_object();
    /* cannot fail, because its texts are converted to UTF-8 */
    js_write(o, id_fields, JS_COUNT(id_fields), s);
    return o;
}

void server_from_json(const json_t *o, struct server_id *out)
{
    *out = (struct server_id){0};
    js_read(o, id_fields, JS_COUNT(id_fields), out);
}

int db_server_id(struct db *db, struct server_id *out, struct err *e)
{
    *out = (struct server_id){0};
    struct db_rows *r = db_select_with(
        db, "itttis",
        "SELECT UNIX_TIMESTAMP() - CAST(VARIABLE_VALUE AS SIGNED), @@hostname, @@datadir, "
        "@@version, CAST(VARIABLE_VALUE AS SIGNED), UNIX_TIMESTAMP(NOW(6)) FROM $.global_status "
        "WHERE VARIABLE_NAME='Uptime'",
        DB_ARGS(db_word(db, WORD_STATUS_SCHEMA)), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        int64_t uptime = db_int(r, 4), here = clock_wall().ms;
        out->start = db_int(r, 0);
        db_copy(r, 1, out->hostname, sizeof out->hostname);
        db_copy(r, 2, out->datadir, sizeof out->datadir);
        db_copy(r, 3, out->version, sizeof out->version);
        out->young = uptime == 0;
        /* Start and end of the uptime are rounded to whole seconds. It is negative if the server's
         * clock was set back to before the start; then only that the server runs is known. */
        out->started.ms = uptime < 0 ? here : here - (uptime - 1) * 1000;
        out->ahead_ms = (int64_t)(strtod(db_text(r, 5), NULL) * 1000) - here;
    }
    db_rows_end(r);
    if (got < 0)
        return -1;
    out->connection = db_session(db);
    out->pid = db_server_pid(db);
    char *uid = db_variable(db, db_word(db, WORD_IDENTITY));
    snprintf(out->uid, sizeof out->uid, "%s", uid ? uid : "");
    free(uid);
    if (out->start == 0)
        return err_set(e, ERR_QUERY, 0, "the server does not report its uptime");
    return 0;
}

/* Reads the GTIDs. MySQL counts a transaction as executed shortly after it is in the log; until
 * then a session owns it. A transaction may move from the set that is read first to the other
 * one meanwhile. */
static void read_gtid(struct db *db, bool after, char *out, size_t size)
{
    struct err ignored;
    SCOPED(xfree) char *gtid = after && !db_is_mariadb(db)
                                   ? db_one(db,
                                            "SELECT CONCAT_WS(',',NULLIF(@@global.gtid_owned,''),"
                                            "@@global.gtid_executed)",
                                            &ignored)
                                   : db_variable(db, db_word(db, WORD_LOG_GTID));
    size_t n = (size_t)snprintf(out, size, "%s", gtid ? gtid : "");
    char *last = strrchr(out, ',');
    if (n >= size) /* a truncated number would be another number */
        *(last ? last : out) = '\0';
}

struct db_rows *db_log_status(struct db *db, struct err *e)
{
    return db_select(db, "niTT*", db_word(db, WORD_LOG_STATUS), e);
}

bool db_log_closed(struct db *db)
{
    struct db_rows *r = db_log_status(db, NULL);
    bool closed = r && db_next(r, NULL) == 0;
    db_rows_end(r);
    return closed;
}

void db_binlog_place(struct db *db, struct db_binlog_pos *out)
{
    struct db_rows *r = db_log_status(db, NULL);
    while (db_next(r, NULL) == 1) {
        db_copy(r, 0, out->file, sizeof out->file);
        out->pos = db_uint(r, 1);
    }
    db_rows_end(r);
}

void db_binlog_pos(struct db *db, struct db_binlog_pos *out)
{
    struct db_binlog_pos p = {0};
    read_gtid(db, false, p.gtid, sizeof p.gtid);
    db_binlog_place(db, &p);
    read_gtid(db, true, p.gtid_after, sizeof p.gtid_after);
    if (strcmp(p.gtid, p.gtid_after) == 0)
        p.gtid_after[0] = '\0';
    *out = p.file[0] ? p : (struct db_binlog_pos){0};
}

int db_binlog_pos_compare(const struct db_binlog_pos *a, const struct db_binlog_pos *b)
{
    size_t x = strlen(a->file), y = strlen(b->file);
    int order = strcmp(a->file, b->file);
    if (order != 0)
        return x != y ? (x > y) - (x < y) : order > 0 ? 1 : -1;
    return (a->pos > b->pos) - (a->pos < b->pos);
}

char *db_schema_name(struct db *db, const char *schema, struct err *e)
{
    char *name =
        db_one_with(db, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME=?",
                    DB_ARGS(schema), e);
    if (!name && e->cls == ERR_NONE)
        err_set(e, ERR_REFUSED, 0, "schema %s does not exist", schema);
    return name;
}

char *db_variable(struct db *db, const char *name)
{
    return db_one_with(db, "SELECT @@global.$", DB_ARGS(name), NULL);
}

int64_t db_variable_value(const char *v)
{
    if (v && strlen(v) >= 19) /* an unsigned value may be near 2^64 */
        return INT64_MAX;
    return v && v[0] ? strtoll(v, NULL, 10) : -1;
}

int64_t db_variable_number(struct db *db, const char *name)
{
    SCOPED(xfree) char *v = db_variable(db, name);
    return db_variable_value(v);
}

int db_logs(struct db *db, struct err *e)
{
    SCOPED(xfree) char *logged = db_one(db, "SELECT @@GLOBAL.log_bin AND @@SESSION.sql_log_bin", e);
    return logged ? strcmp(logged, "0") != 0 : -1;
}

int db_session_seen(struct db *db, unsigned long session, struct db_seen *out, struct err *e)
{
    /* On MySQL information_schema.PROCESSLIST fails while the statement of any session contains
     * binary text. */
    struct db_rows *r = db_select(db, "uTTTTITB*", "SHOW PROCESSLIST", e);
    int rc, found = 0;
    *out = (struct db_seen){0};
    while ((rc = db_next(r, e)) == 1) {
        if (db_int(r, 0) != (int64_t)session)
            continue;
        found = 1;
        db_copy(r, 2, out->origin, sizeof out->origin);
        db_copy(r, 4, out->command, sizeof out->command);
        db_copy(r, 6, out->state, sizeof out->state);
        out->idle = strcmp(out->command, "Sleep") == 0 ? db_int(r, 5) : 0;
    }
    db_rows_end(r);
    return rc < 0 ? -1 : found;
}

/* ---- replication ---- */

/* Returns the number of rows of an answer, or -1. */
static int rows_of(struct db *db, const char *sql, struct err *e)
{
    struct db_rows *r = db_select(db, "B*", sql, e);
    int got, found = 0;
    while ((got = db_next(r, e)) == 1)
        found++;
    db_rows_end(r);
    return got < 0 ? -1 : found;
}

int replicas_fed(struct db *db, struct err *e)
{
    int rows = rows_of(db, db_word(db, WORD_REPLICA_STATUS), e);
    return rows > 0 ? 1 : rows;
}

/* Returns the number of replicas. Readers of the log that do not register as replicas, such as
 * our journal, are not counted. */
int replicas_connected(struct db *db)
{
    if (!db_is_mariadb(db))
        return rows_of(db, db_word(db, WORD_REPLICAS), NULL);
    struct db_rows *r = db_select(db, "ni", db_word(db, WORD_REPLICAS), NULL);
    int64_t count = -1;
    int got;
    while ((got = db_next(r, NULL)) == 1)
        count = db_int(r, 1);
    db_rows_end(r);
    return got < 0 || count < 0 || count > INT_MAX ? -1 : (int)count;
}
