#include "progress/local.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fault.h"
#include "mysql/lease.h"
#include "mysql/only_table.h"
#include "sql/literal.h"

/* A MEMORY table has one lock, so the game waits while a statement scans or marks this many
 * rows. */
#define SCAN_PIECE "500"
#define MARK_PIECE 200u
#define DUPLICATE 1062
#define MEMORY_ROOM (2u << 30) /* bytes: a limit; it is not allocated at once */

/* ---- tables and routines of --init ---- */

#define KEY_TYPE "VARBINARY(64) NOT NULL"
#define NUMBER_TYPE "BIGINT UNSIGNED NOT NULL"
#define STORE_COLUMN "store VARBINARY(32) NOT NULL DEFAULT ''"
#define TIME_TYPE "TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)"

/* "$" stands for the type of blobs; the engine is appended to each statement. The keys are
 * BTREEs, because scans read them in pieces, in key order. */
static const struct {
    const char *name, *sql;
} tables[] = {
    {"wk_session",
     "CREATE TABLE IF NOT EXISTS wk_session (lock_key " KEY_TYPE ",lock_seq " NUMBER_TYPE
     ",state ENUM('open','closing') NOT NULL DEFAULT 'open',opened_at " TIME_TYPE "," STORE_COLUMN
     ",PRIMARY KEY (lock_key) USING BTREE) ENGINE="},
    {"wk_progress",
     "CREATE TABLE IF NOT EXISTS wk_progress (blob_key " KEY_TYPE ",lock_key " KEY_TYPE
     ",seq " NUMBER_TYPE ",sent_seq " NUMBER_TYPE " DEFAULT 0,changed_at " TIME_TYPE
     ",`blob` $ NOT NULL,lock_seq BIGINT UNSIGNED NULL,PRIMARY KEY (blob_key) USING BTREE,"
     "KEY lock_key (lock_key) USING BTREE) ENGINE="},
    {"wk_stolen",
     "CREATE TABLE IF NOT EXISTS wk_stolen (blob_key " KEY_TYPE ",lock_key " KEY_TYPE
     ",lock_seq " NUMBER_TYPE ",seq " NUMBER_TYPE ",changed_at " TIME_TYPE
     ",why VARCHAR(16) CHARACTER SET ascii NOT NULL,central_seq " NUMBER_TYPE
     " DEFAULT 0,stolen_at " TIME_TYPE
     ",`blob` $ NOT NULL,PRIMARY KEY (blob_key,lock_seq,seq,changed_at) USING BTREE) ENGINE="},
};
#define TABLES (sizeof tables / sizeof *tables)
const char *const local_own[] = {"wk_session", "wk_progress", "wk_stolen",
                                 "wk_put",     "wk_close",    NULL};

const char *const local_bound[] = {"wk_session", "wk_progress", NULL};

/* The routines run with the privileges of their caller, the game, because it may replace a table
 * that they name by a view. */
#define ROUTINE_BODY "MODIFIES SQL DATA SQL SECURITY INVOKER\n"
/* One statement reads the session and writes the blob, so that a session that begins to close
 * has all of a save or none of it. In InnoDB this takes a lock, which READ COMMITTED would not
 * take by itself. The seq of a blob that was set aside is known to the central store. */
static const char put_routine[] =
    "PROCEDURE wk_put(p_blob_key VARBINARY(64),p_lock_key VARBINARY(64),p_blob "
    "LONGBLOB)\n" ROUTINE_BODY "BEGIN\n"
    "  DECLARE v_text VARCHAR(128) CHARACTER SET utf8mb4;\n"
    "  DECLARE EXIT HANDLER FOR 1406\n"
    "  BEGIN\n"
    "    SELECT CONCAT('wk_put: ',LENGTH(p_blob),' bytes; wk_progress takes ',\n"
    "      CHARACTER_MAXIMUM_LENGTH,'. Way out: [progress] engine = innodb') INTO v_text\n"
    "      FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE()\n"
    "      AND TABLE_NAME='wk_progress' AND COLUMN_NAME='blob';\n"
    "    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO=1406,MESSAGE_TEXT=v_text;\n"
    "  END;\n"
    "  INSERT INTO wk_progress (blob_key,lock_key,seq,sent_seq,changed_at,`blob`,lock_seq)\n"
    "    SELECT p_blob_key,s.lock_key,1+COALESCE((SELECT MAX(GREATEST(x.seq,x.central_seq))\n"
    "      FROM wk_stolen x WHERE x.blob_key=p_blob_key),0),0,CURRENT_TIMESTAMP(3),p_blob,\n"
    "      s.lock_seq FROM wk_session s WHERE s.lock_key=p_lock_key AND s.state='open'\n"
    "    LOCK IN SHARE MODE\n"
    "    ON DUPLICATE KEY UPDATE lock_key=s.lock_key,seq=wk_progress.seq+1,\n"
    "      changed_at=CURRENT_TIMESTAMP(3),`blob`=p_blob,lock_seq=s.lock_seq;\n"
    "  IF ROW_COUNT()=0 THEN\n"
    "    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT='wk_put: no open session in wk_session';\n"
    "  END IF;\n"
    "END";
static const char close_routine[] =
    "PROCEDURE wk_close(p_lock_key VARBINARY(64))\n" ROUTINE_BODY
    "UPDATE wk_session SET state='closing' WHERE lock_key=p_lock_key";

/* Creates the tables. A row of a MEMORY table occupies all that its columns may hold, so some
 * hundred blobs would reach max_heap_table_size, the limit that a table keeps from its creation. */
static int make_tables(struct db *db, bool innodb, struct err *e)
{
    char memory[32];
    struct buf sql = {0};
    int rc = db_execf(
        db, e,
        "SET SESSION max_heap_table_size=CAST(GREATEST(@@max_heap_table_size,%u) AS UNSIGNED)",
        MEMORY_ROOM);
    snprintf(memory, sizeof memory, "VARBINARY(%d)", PROGRESS_MEMORY_BLOB);
    for (size_t i = 0; i < TABLES && rc == 0; i++) {
        const char *blob = strchr(tables[i].sql, '$');
        size_t head = blob ? (size_t)(blob - tables[i].sql) : 0;
        buf_clear(&sql);
        buf_add(&sql, tables[i].sql, head);
        if (blob)
            buf_adds(&sql, innodb ? "LONGBLOB" : memory);
        buf_adds(&sql, blob ? blob + 1 : tables[i].sql);
        buf_adds(&sql, innodb ? "InnoDB" : "MEMORY");
        rc = db_exec(db, sql.p, e);
    }
    buf_free(&sql);
    return rc;
}

/* Refuses tables of an earlier config that have another engine. They are not changed, because
 * their rows are players' progress. */
static int check_engines(struct db *db, bool innodb, struct err *e)
{
    const char *wanted = innodb ? "InnoDB" : "MEMORY";
    struct db_rows *r =
        db_select(db, "nT",
                  "SELECT TABLE_NAME,ENGINE FROM information_schema.TABLES WHERE "
                  "TABLE_SCHEMA=DATABASE() AND TABLE_NAME IN ('wk_session','wk_progress',"
                  "'wk_stolen') ORDER BY TABLE_NAME",
                  e);
    char name[65] = "", engine[65] = "";
    int got;
    while ((got = db_next(r, e)) == 1)
        if (strcasecmp(db_text(r, 1), wanted) != 0 && !name[0]) {
            db_copy(r, 0, name, sizeof name);
            db_copy(r, 1, engine, sizeof engine);
        }
    db_rows_end(r);
    if (got < 0 || !name[0])
        return got;
    err_set(e, ERR_REFUSED, 0, "table %s is ENGINE=%s, [progress] engine = %s", name, engine,
            innodb ? "innodb" : "memory");
    err_hint(
        e,
        "%sstop the game server, worldkeeper --write-back --unlock, copy the rows of wk_stolen, "
        "DROP TABLE wk_session, wk_progress, wk_stolen; then worldkeeper --init",
        innodb ? "" : "set engine = innodb in [progress]; or ");
    return -1;
}

static int has_store(struct db *db, bool *out, struct err *e)
{
    SCOPED(xfree) char *n =
        db_one(db,
               "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE() "
               "AND TABLE_NAME='wk_session' AND COLUMN_NAME='store'",
               e);
    *out = n && strcmp(n, "1") == 0;
    return n ? 0 : -1;
}

/* Adds the column that a table of an earlier version lacks. */
static int add_store(struct db *db, struct err *e)
{
    bool there;
    if (has_store(db, &there, e) < 0)
        return -1;
    return there ? 0 : db_exec(db, "ALTER TABLE wk_session ADD " STORE_COLUMN, e);
}

/* Creates a routine. One that is already right stays, one that an older version made is altered,
 * and in MariaDB it is replaced. A DROP would also remove the privileges on the routine, such as
 * the game's EXECUTE. */
static int make_routine(struct db *db, const char *name, const char *sql, struct err *e)
{
    const char *body = strstr(sql, ROUTINE_BODY) + strlen(ROUTINE_BODY);
    SCOPED(xfree) char *there = db_one_with(
        db,
        "SELECT SECURITY_TYPE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=DATABASE() AND "
        "ROUTINE_NAME=? AND ROUTINE_TYPE='PROCEDURE' AND BINARY ROUTINE_DEFINITION=BINARY ?",
        DB_ARGS(name, body), e);
    if (there)
        return strcmp(there, "INVOKER") == 0
                   ? 0
                   : db_execf(db, e, "ALTER PROCEDURE %s SQL SECURITY INVOKER", name);
    if (e->cls != ERR_NONE)
        return -1;
    const char *replace = db_word(db, WORD_OR_REPLACE);
    if (replace)
        return db_execf(db, e, "CREATE %s%s", replace, sql);
    return db_execf(db, e, "DROP PROCEDURE IF EXISTS %s", name) < 0
               ? -1
               : db_execf(db, e, "CREATE %s", sql);
}

int local_init(struct db *db, bool innodb, struct err *e)
{
    struct err ignored;
    int rc = make_tables(db, innodb, e);
    if (rc == 0)
        rc = check_engines(db, innodb, e);
    if (rc == 0)
        rc = add_store(db, e);
    /* Strict mode: a blob that is too long is refused instead of being cut. */
    if (rc == 0)
        rc = db_exec(db, "SET SESSION sql_mode='STRICT_ALL_TABLES'", e);
    if (rc == 0)
        rc = make_routine(db, "wk_put", put_routine, e);
    if (rc == 0)
        rc = make_routine(db, "wk_close", close_routine, e);
    if (db_reset_session(db, rc == 0 ? e : &ignored) < 0)
        rc = -1;
    if (rc < 0)
        err_step(e, "the local store of [progress]");
    return rc;
}

int local_exists(struct db *db, const char *schema, bool *remembers, struct err *e)
{
    char *n = db_one(db,
                     "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() "
                     "AND TABLE_NAME IN ('wk_session','wk_progress','wk_stolen')",
                     e);
    if (!n)
        return -1;
    bool all = strcmp(n, "3") == 0;
    free(n);
    if (all)
        return has_store(db, remembers, e);
    err_set(e, ERR_REFUSED, 0, "schema %s has no tables wk_session, wk_progress, wk_stolen",
            schema);
    err_hint(e, "worldkeeper --init makes them");
    return -1;
}

/* ---- the lock ---- */

static char *lock_name(const char *schema)
{
    return db_lock_name("wk.progress", schema, "");
}

int local_lock(struct db *db, const char *schema, int64_t wait, struct err *e)
{
    SCOPED(xfree) char *name = lock_name(schema);
    unsigned long holder = 0;
    int got = db_lock(db, name, wait, &holder, e);
    if (got != 0)
        return got < 0 ? -1 : 0;
    err_set(e, ERR_BUSY, 0,
            "progress of schema %s is being written back by connection %lu of the server", schema,
            holder);
    return err_hint(e,
                    "wait for it to end: worldkeeper --status shows how much is not yet sent; if "
                    "it hangs, in the server: KILL %lu;",
                    holder);
}

void local_unlock(struct db *db, const char *schema)
{
    SCOPED(xfree) char *name = lock_name(schema);
    struct err ignored;
    (void)db_unlock(db, name, &ignored);
}

/* ---- reading ---- */

bool local_key_is(const struct local_key *k, const char *bytes, size_t len)
{
    return k->len == len && memcmp(k->bytes, bytes, len) == 0;
}

void local_key_sql(struct buf *sql, const struct local_key *k)
{
    sql_string(sql, k->bytes, k->len);
}

int local_take_key(const struct db_rows *r, unsigned i, struct local_key *out, struct err *e)
{
    size_t len = db_length(r, i);
    if (!db_value(r, i) || len > PROGRESS_KEY_MAX)
        return err_set(e, ERR_REFUSED, 0, "a key of players' progress has %zu bytes; allowed: %d",
                       len, PROGRESS_KEY_MAX);
    out->len = (unsigned char)len;
    memcpy(out->bytes, db_value(r, i), len);
    return 0;
}

void local_keys_free(struct local_keys *k)
{
    free(k->list);
    *k = (struct local_keys){.oldest_ms = -1};
}

/* A changed_at in the future, after the clock was set back, counts as age 0. */
#define UNSENT_COLUMNS                                                                             \
    "SELECT p.blob_key,LENGTH(p.`blob`),"                                                          \
    "GREATEST(TIMESTAMPDIFF(MICROSECOND,p.changed_at,CURRENT_TIMESTAMP(3)) DIV 1000,0) FROM "      \
    "wk_progress p " DB_ONLY_TABLE " "

static int add_unsent(struct db *db, const char *sql, struct local_keys *out, struct err *e)
{
    struct db_rows *r = db_select(db, "bii", sql, e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        struct local_unsent *u = &out->list[out->count];
        if (local_take_key(r, 0, &u->key, e) < 0) {
            got = -1;
            break;
        }
        u->len = (size_t)db_int(r, 1);
        out->count++;
        if (db_int(r, 2) > out->oldest_ms)
            out->oldest_ms = db_int(r, 2);
        if (u->len > out->largest)
            out->largest = u->len;
    }
    db_rows_end(r);
    return got;
}

/* Finds the last key of the piece after `after` (NULL: from the beginning). Returns 1 if there is
 * one, 0 if this is the last piece.
 *
 * Pieces are read in key order, which is why the tables have B-trees. Rows that are added to
 * earlier pieces meanwhile are left to the next run. */
static int piece_end(struct db *db, const struct local_key *after, struct local_key *end,
                     struct err *e)
{
    struct buf sql = {0};
    buf_adds(&sql, "SELECT blob_key FROM wk_progress " DB_ONLY_TABLE " ");
    if (after) {
        buf_adds(&sql, "WHERE blob_key>");
        local_key_sql(&sql, after);
    }
    buf_adds(&sql, " ORDER BY blob_key LIMIT 1 OFFSET " SCAN_PIECE);
    struct db_rows *r = db_select(db, "b", sql.p, e);
    int got = db_next(r, e);
    if (got == 1 && (local_take_key(r, 0, end, e) < 0 || db_next(r, e) < 0))
        got = -1;
    db_rows_end(r);
    buf_free(&sql);
    return got;
}

int local_unsent(struct db *db, bool closing, struct local_keys *out, struct err *e)
{
    *out = (struct local_keys){.oldest_ms = -1};
    struct local_key after = {.len = 0}, end = {.len = 0};
    struct buf sql = {0};
    int more = 1;
    bool first = true;
    /* A closing session has few blobs, which are found by lock_key, because this query runs each
     * second. */
    if (closing)
        more = add_unsent(db,
                          UNSENT_COLUMNS "JOIN wk_session s " DB_ONLY_TABLE
                                         " ON s.lock_key=p.lock_key WHERE "
                                         "s.state='closing' AND p.seq>p.sent_seq",
                          out, e);
    while (more == 1) {
        more = piece_end(db, first ? NULL : &after, &end, e);
        buf_clear(&sql);
        buf_adds(&sql, UNSENT_COLUMNS "WHERE p.seq>p.sent_seq");
        if (!first) {
            buf_adds(&sql, " AND p.blob_key>");
            local_key_sql(&sql, &after);
        }
        if (more == 1) {
            buf_adds(&sql, " AND p.blob_key<=");
            local_key_sql(&sql, &end);
        }
        if (more >= 0 && add_unsent(db, sql.p, out, e) < 0)
            more = -1;
        after = end;
        first = false;
    }
    buf_free(&sql);
    if (more < 0)
        local_keys_free(out);
    return more;
}

void local_blobs_free(struct local_blobs *b)
{
    for (size_t i = 0; i < b->count; i++)
        free(b->list[i].data);
    free(b->list);
    *b = (struct local_blobs){0};
}

static int take_blob(const struct db_rows *r, struct local_blobs *out, struct err *e)
{
    out->list = xgrow(out->list, out->count, sizeof *out->list);
    struct local_blob *b = &out->list[out->count];
    *b = (struct local_blob){.lock_seq = db_uint(r, 2), .seq = db_uint(r, 3)};
    if (local_take_key(r, 0, &b->key, e) < 0 || local_take_key(r, 1, &b->lock_key, e) < 0)
        return -1;
    db_copy(r, 4, b->changed_at, sizeof b->changed_at);
    b->len = db_length(r, 5);
    b->data = xcalloc(1, b->len + 1); /* an empty blob is valid */
    memcpy(b->data, db_value(r, 5), b->len);
    db_copy(r, 6, b->store, sizeof b->store);
    out->count++;
    return 0;
}

int local_read(struct db *db, bool remembers, const struct local_unsent *keys, size_t count,
               struct local_blobs *out, struct err *e)
{
    struct buf sql = {0};
    /* A row that the game wrote itself belongs to the current session. */
    buf_printf(&sql,
               "SELECT p.blob_key,p.lock_key,COALESCE(p.lock_seq,s.lock_seq,0),p.seq,"
               "p.changed_at,p.`blob`,%s FROM wk_progress p " DB_ONLY_TABLE " LEFT JOIN "
               "wk_session s " DB_ONLY_TABLE
               " ON s.lock_key=p.lock_key WHERE p.seq>p.sent_seq AND p.blob_key IN (",
               remembers ? "IF(s.lock_seq=COALESCE(p.lock_seq,s.lock_seq),s.store,'')" : "''");
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_addc(&sql, ',');
        local_key_sql(&sql, &keys[i].key);
    }
    buf_addc(&sql, ')');
    struct db_rows *r = db_select(db, "bbuutbt", sql.p, e);
    int got;
    while ((got = db_next(r, e)) == 1)
        if (take_blob(r, out, e) < 0) {
            got = -1;
            break;
        }
    db_rows_end(r);
    buf_free(&sql);
    return got;
}

/* ---- results of sending ---- */

/* Appends "seq=5 AND changed_at='…'" of the row that was read. */
static void same_save(struct buf *sql, const struct local_blob *b)
{
    buf_adds(sql, "blob_key=");
    local_key_sql(sql, &b->key);
    buf_printf(sql, " AND seq=%" PRIu64 " AND changed_at=", b->seq);
    sql_string(sql, b->changed_at, strlen(b->changed_at));
}

int local_known_store(struct db *db, char *out, struct err *e)
{
    char *store = db_one(db, "SELECT COALESCE(MAX(store),'') FROM wk_session " DB_ONLY_TABLE, e);
    if (!store)
        return -1;
    snprintf(out, PROGRESS_STORE_MAX + 1, "%s", store);
    free(store);
    return 0;
}

/* The first list finds the rows by their key. The second one selects those that have not changed
 * since they were read, so sent_seq=seq sets the seq that was sent. */
static int mark_piece(struct db *db, const struct local_blob *const *sent, size_t count,
                      struct err *e)
{
    struct buf sql = {0};
    buf_adds(&sql, "UPDATE wk_progress " DB_ONLY_TABLE " SET sent_seq=seq WHERE blob_key IN (");
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_addc(&sql, ',');
        local_key_sql(&sql, &sent[i]->key);
    }
    buf_adds(&sql, ") AND (blob_key,seq,changed_at) IN (");
    for (size_t i = 0; i < count; i++) {
        buf_adds(&sql, i ? ",(" : "(");
        local_key_sql(&sql, &sent[i]->key);
        buf_printf(&sql, ",%" PRIu64 ",", sent[i]->seq);
        sql_string(&sql, sent[i]->changed_at, strlen(sent[i]->changed_at));
        buf_addc(&sql, ')');
    }
    buf_addc(&sql, ')');
    int rc = db_exec_len(db, sql.p, sql.len, e);
    buf_free(&sql);
    return rc;
}

int local_mark(struct db *db, const struct local_blob *const *sent, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i += MARK_PIECE) {
        size_t n = count - i < MARK_PIECE ? count - i : MARK_PIECE;
        if (mark_piece(db, sent + i, n, e) < 0)
            return -1;
        fault_point("progress.marked");
    }
    return 0;
}

/* Copies the row to wk_stolen before it is removed: after a kill in between it is in both
 * tables, and is sent and refused once more. With `goes_on` the row stays, marked as sent, with
 * the number above which the next save must be. wk_stolen cannot provide that number, because an
 * operator may delete its rows before that save. */
int local_set_aside(struct db *db, const struct local_blob *b, const char *why,
                    uint64_t central_seq, bool goes_on, struct err *e)
{
    struct buf sql = {0};
    buf_printf(&sql,
               "INSERT INTO wk_stolen (blob_key,lock_key,lock_seq,seq,changed_at,why,"
               "central_seq,stolen_at,`blob`) SELECT blob_key,lock_key,%" PRIu64
               ",seq,changed_at,'%s',%" PRIu64
               ",CURRENT_TIMESTAMP(3),`blob` FROM wk_progress " DB_ONLY_TABLE
               " WHERE " DB_ONLY("wk_stolen") " AND ",
               b->lock_seq, why, central_seq);
    same_save(&sql, b);
    int rc = db_exec_len(db, sql.p, sql.len, e);
    if (rc < 0 && e->num == DUPLICATE) /* an earlier run was killed between both statements */
        rc = 0;
    fault_point("progress.copied");
    buf_clear(&sql);
    if (goes_on)
        buf_printf(&sql,
                   "UPDATE wk_progress " DB_ONLY_TABLE " SET seq=%" PRIu64 ",sent_seq=%" PRIu64
                   " WHERE ",
                   central_seq, central_seq);
    else
        buf_adds(&sql, "DELETE FROM wk_progress WHERE " DB_ONLY("wk_progress") " AND ");
    same_save(&sql, b);
    if (rc == 0)
        rc = db_exec_len(db, sql.p, sql.len, e);
    fault_point("progress.removed");
    buf_free(&sql);
    return rc;
}

/* ---- sessions ---- */

int local_take_sessions(struct db_rows *r, const char *lock_id, struct local_sessions *out,
                        struct err *e)
{
    int got;
    *out = (struct local_sessions){0};
    while ((got = db_next(r, e)) == 1) {
        struct local_session s = {.lock_seq = db_uint(r, 1)};
        struct local_key id;
        if (lock_id && (got = local_take_key(r, 2, &id, e)) < 0)
            break;
        if (lock_id && !local_key_is(&id, lock_id, strlen(lock_id)))
            continue;
        if ((got = local_take_key(r, 0, &s.lock_key, e)) < 0)
            break;
        if (!lock_id)
            db_copy(r, 2, s.store, sizeof s.store);
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->list[out->count++] = s;
    }
    db_rows_end(r);
    if (got < 0) {
        free(out->list);
        *out = (struct local_sessions){0};
    }
    return got;
}

#define CLOSING " FROM wk_session " DB_ONLY_TABLE " WHERE state='closing'"
int local_closing(struct db *db, bool remembers, struct local_sessions *out, struct err *e)
{
    const char *sql = remembers ? "SELECT lock_key,lock_seq,store" CLOSING
                                : "SELECT lock_key,lock_seq,''" CLOSING;
    return local_take_sessions(db_select(db, "but", sql, e), NULL, out, e);
}

/* The first list finds the rows by their key. The second one selects those that are still the
 * same sessions. */
static int remember_piece(struct db *db, const char *store, const struct local_blob *const *blobs,
                          size_t count, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    buf_adds(&sql, "UPDATE wk_session " DB_ONLY_TABLE " SET store=");
    sql_string(&sql, store, strlen(store));
    buf_adds(&sql, " WHERE store='' AND lock_key IN (");
    for (size_t i = 0; i < count; i++) {
        buf_adds(&sql, i ? "," : "");
        local_key_sql(&sql, &blobs[i]->lock_key);
    }
    buf_adds(&sql, ") AND (lock_key,lock_seq) IN (");
    for (size_t i = 0; i < count; i++) {
        buf_adds(&sql, i ? ",(" : "(");
        local_key_sql(&sql, &blobs[i]->lock_key);
        buf_printf(&sql, ",%" PRIu64 ")", blobs[i]->lock_seq);
    }
    buf_addc(&sql, ')');
    return db_exec_len(db, sql.p, sql.len, e);
}

int local_remember(struct db *db, const char *store, const struct local_blob *const *blobs,
                   size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i += MARK_PIECE)
        if (remember_piece(db, store, blobs + i, count - i < MARK_PIECE ? count - i : MARK_PIECE,
                           e) < 0)
            return -1;
    return 0;
}

int local_close_all(struct db *db, struct err *e)
{
    return db_exec(db, "UPDATE wk_session " DB_ONLY_TABLE " SET state='closing' WHERE state='open'",
                   e);
}

int local_close(struct db *db, const struct local_key *lock_key, struct err *e)
{
    return local_close_in(db, "wk_session", lock_key, e);
}

int local_sessions_in(struct db *db, const char *session, struct local_sessions *out, struct err *e)
{
    return local_take_sessions(db_select_with(db, "but",
                                              "SELECT lock_key,lock_seq,'' FROM ?? " DB_ONLY_TABLE,
                                              DB_ARGS(session), e),
                               NULL, out, e);
}

int local_close_in(struct db *db, const char *session, const struct local_key *lock_key,
                   struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    buf_adds(&sql, "UPDATE ");
    sql_ident(&sql, session);
    buf_adds(&sql, " " DB_ONLY_TABLE " SET state='closing' WHERE lock_key=");
    local_key_sql(&sql, lock_key);
    return db_exec_len(db, sql.p, sql.len, e);
}

/* One statement for all of them, because a promoted world waits for it. Saves of an earlier session
 * keep their number. */
static void renumber_sql(struct buf *sql, const char *table, const struct local_session *const *was,
                         const struct local_session *now, size_t count)
{
    buf_adds(sql, "UPDATE ");
    sql_ident(sql, table);
    buf_adds(sql, " " DB_ONLY_TABLE " SET lock_seq=CASE lock_key");
    for (size_t i = 0; i < count; i++) {
        buf_adds(sql, " WHEN ");
        local_key_sql(sql, &now[i].lock_key);
        buf_printf(sql, " THEN %" PRIu64, now[i].lock_seq);
    }
    buf_adds(sql, " END WHERE ");
    for (size_t i = 0; i < count; i++) {
        buf_adds(sql, i ? " OR (lock_key=" : "(lock_key=");
        local_key_sql(sql, &was[i]->lock_key);
        buf_printf(sql, " AND lock_seq=%" PRIu64 ")", was[i]->lock_seq);
    }
}

int local_renumber_in(struct db *db, const char *session, const char *progress,
                      const struct local_session *const *was, const struct local_session *now,
                      size_t count, struct err *e)
{
    const char *const both[] = {progress, session};
    for (size_t i = 0; count && i < sizeof both / sizeof *both; i++) {
        SCOPED(buf_free) struct buf sql = {0};
        renumber_sql(&sql, both[i], was, now, count);
        if (db_exec_len(db, sql.p, sql.len, e) < 0)
            return -1;
    }
    return 0;
}

int local_seq_in(struct db *db, const char *progress, const struct local_key *blob_key,
                 uint64_t *seq, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    buf_adds(&sql, "SELECT seq FROM ");
    sql_ident(&sql, progress);
    buf_adds(&sql, " " DB_ONLY_TABLE " WHERE blob_key=");
    local_key_sql(&sql, blob_key);
    SCOPED(xfree) char *v = db_one(db, sql.p, e);
    *seq = v ? strtoull(v, NULL, 10) : 0;
    return v || e->cls == ERR_NONE ? 0 : -1;
}

int local_sessions_unsent(struct db *db, const struct local_session *list, size_t count,
                          bool *unsent, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    struct local_key key = {.len = 0};
    int got;
    buf_adds(&sql, "SELECT DISTINCT lock_key FROM wk_progress " DB_ONLY_TABLE
                   " WHERE seq>sent_seq AND lock_key IN (");
    for (size_t i = 0; i < count; i++) {
        unsent[i] = false;
        buf_adds(&sql, i ? "," : "");
        local_key_sql(&sql, &list[i].lock_key);
    }
    buf_addc(&sql, ')');
    struct db_rows *r = db_select_len(db, "b", sql.p, sql.len, e);
    while ((got = db_next(r, e)) == 1) {
        if (local_take_key(r, 0, &key, e) < 0) {
            got = -1;
            break;
        }
        for (size_t i = 0; i < count; i++)
            unsent[i] |= local_key_is(&list[i].lock_key, key.bytes, key.len);
    }
    db_rows_end(r);
    return got;
}

/* Deletes the blobs first, because without the session's row no run would return for them. The
 * closed session must still be there: the game may have opened another one since. */
int local_forget(struct db *db, const struct local_session *s, struct err *e)
{
    struct buf sql = {0}, is = {0};
    buf_adds(&is, "s.state='closing' AND s.lock_key=");
    local_key_sql(&is, &s->lock_key);
    buf_printf(&is, " AND s.lock_seq=%" PRIu64, s->lock_seq);
    buf_printf(&sql,
               "DELETE p FROM wk_progress p " DB_ONLY_TABLE " JOIN wk_session s " DB_ONLY_TABLE
               " ON s.lock_key=p.lock_key WHERE %s AND "
               "p.seq<=p.sent_seq",
               is.p);
    int rc = db_exec_len(db, sql.p, sql.len, e);
    fault_point("progress.forgotten");
    buf_clear(&sql);
    buf_printf(&sql, "DELETE s FROM wk_session s " DB_ONLY_TABLE " WHERE %s", is.p);
    if (rc == 0)
        rc = db_exec_len(db, sql.p, sql.len, e);
    fault_point("progress.closed");
    buf_free(&sql);
    buf_free(&is);
    return rc;
}

int local_session(struct db *db, const struct local_key *lock_key, uint64_t *lock_seq,
                  struct err *e)
{
    struct buf sql = {0};
    buf_adds(&sql, "SELECT lock_seq FROM wk_session " DB_ONLY_TABLE " WHERE lock_key=");
    local_key_sql(&sql, lock_key);
    char *v = db_one(db, sql.p, e);
    *lock_seq = v ? strtoull(v, NULL, 10) : 0;
    int rc = v || e->cls == ERR_NONE ? 0 : -1;
    free(v);
    buf_free(&sql);
    return rc;
}

/* ---- figures ---- */

int local_counts(struct db *db, struct local_counts *out, struct err *e)
{
    *out = (struct local_counts){0};
    struct db_rows *r = db_select(db, "uu",
                                  "SELECT (SELECT COUNT(*) FROM wk_session " DB_ONLY_TABLE
                                  "),(SELECT COUNT(*) FROM wk_stolen " DB_ONLY_TABLE ")",
                                  e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        out->sessions = db_uint(r, 0);
        out->stolen = db_uint(r, 1);
    }
    db_rows_end(r);
    if (got < 0 || !out->stolen)
        return got;
    size_t n = 0;
    struct buf shown = {0};
    r = db_select(
        db, "b",
        "SELECT DISTINCT blob_key FROM wk_stolen " DB_ONLY_TABLE " ORDER BY blob_key LIMIT 5", e);
    while ((got = db_next(r, e)) == 1) {
        if (n++)
            buf_adds(&shown, ", ");
        text_clean_bytes(&shown, db_value(r, 0), db_length(r, 0), 32);
    }
    db_rows_end(r);
    snprintf(out->first, sizeof out->first, "%s", shown.p ? shown.p : "");
    buf_free(&shown);
    return got;
}
