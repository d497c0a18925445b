#include "mysql/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "mysql/conn_int.h"
#include "mysql/galera.h"
#include "mysql/sentinel.h"
#include "sql/literal.h"

/* ---- named locks ---- */

char *db_lock_name(const char *prefix, const char *what, const char *more)
{
    struct buf b = {0};
    buf_printf(&b, "CONCAT('%s.',LEFT(SHA2(", prefix);
    sql_string(&b, what, strlen(what));
    buf_printf(&b, ",256),32)%s)", more);
    return b.p;
}

int db_lock_ask(struct db *db, const char *sql, const char *const *args, unsigned long *holder,
                struct err *e)
{
    SCOPED(xfree) char *v = db_one_with(db, sql, args, e);
    if (!v)
        return e && e->cls == ERR_NONE ? err_set(e, ERR_QUERY, 0, "GET_LOCK returned NULL") : -1;
    *holder = strtoul(v, NULL, 10);
    return *holder == 0;
}

int db_lock(struct db *db, const char *name, int64_t wait, unsigned long *holder, struct err *e)
{
    /* The server must answer before the client hangs up, because only the answer names the
     * holder. */
    int64_t most = db->read_timeout * 7 / 8;
    if (most > 0 && wait > most)
        wait = most;
    /* If the holder's session ended between the two calls, there is no id. Then 1 is returned,
     * which no user's session has. */
    return db_lock_ask(db, "SELECT IF(GET_LOCK($,$)=1,0,IFNULL(IS_USED_LOCK($),1))",
                       DB_ARGS(name, DB_NUMBER((uint64_t)(wait / 1000)), name), holder, e);
}

int db_unlock(struct db *db, const char *name, struct err *e)
{
    return db_exec_with(db, "DO RELEASE_LOCK($)", DB_ARGS(name), e);
}

/* ---- the server lock of a restore ---- */

/* Returns the name of a lock. Slot 0 is the lease itself. */
static char *slot_name(const char *schema, unsigned slot)
{
    char more[16] = "";
    if (slot)
        snprintf(more, sizeof more, ",'.%u'", slot);
    return db_lock_name("worldkeeper", schema, more);
}

int db_lease_lock(struct db *db, const char *schema, unsigned long *holder, struct err *e)
{
    SCOPED(xfree) char *whole = slot_name(schema, 0);
    int rc = db_lock(db, whole, 0, holder, e);
    if (rc != 1)
        return rc;
    SCOPED(buf_free) struct buf slots = {0};
    for (unsigned i = 1; i <= DB_LEASE_SLOTS; i++) {
        SCOPED(xfree) char *name = slot_name(schema, i);
        buf_printf(&slots, "IS_USED_LOCK(%s),", name);
    }
    return db_lock_ask(db, "SELECT COALESCE($0)", DB_ARGS(slots.p), holder, e);
}

int db_lease_take(struct db *db, const char *schema, int64_t patience, struct err *e)
{
    unsigned long holder = 0;
    mono_t deadline = mono_add(clock_mono(), patience);
    int got;
    while ((got = db_lease_lock(db, schema, &holder, e)) == 0 &&
           !mono_reached(clock_mono(), deadline))
        usleep(100000);
    if (got != 0)
        return got < 0 ? -1 : 0;
    err_set(e, ERR_BUSY, 0,
            "another session of the server (connection %lu) is restoring this world", holder);
    return err_hint(e, "wait for it, or in the server, if it is stuck: KILL %lu", holder);
}

int db_lease_slot(struct db *db, const char *schema, unsigned slot, const struct db *lease,
                  struct err *e)
{
    SCOPED(xfree) char *name = slot_name(schema, slot);
    SCOPED(xfree) char *whole = slot_name(schema, 0);
    unsigned long holder = 0;
    int rc = db_lock_ask(db, "SELECT IF(GET_LOCK($,0)=1,IF(IS_USED_LOCK($)=$,0,1),1)",
                         DB_ARGS(name, whole, DB_NUMBER(db_session(lease))), &holder, e);
    if (rc == 0)
        return err_set(e, ERR_BUSY, 0, "another session is restoring this world");
    return rc < 0 ? -1 : 0;
}

static char *watch_name(const char *schema)
{
    return db_lock_name("worldkeeper", schema, ",'.watch'");
}

int db_watch_lock(struct db *db, const char *schema, bool take, unsigned long *holder,
                  struct err *e)
{
    SCOPED(xfree) char *name = watch_name(schema);
    return take ? db_lock(db, name, 0, holder, e)
                : db_lock_ask(db, "SELECT IFNULL(IS_USED_LOCK($),0)", DB_ARGS(name), holder, e);
}

int db_watch_unlock(struct db *db, const char *schema, struct err *e)
{
    SCOPED(xfree) char *name = watch_name(schema);
    return db_unlock(db, name, e);
}

/* ---- the table ---- */

static char *table_name(const char *schema, const char *sentinel)
{
    struct buf b = {0};
    SCOPED(xfree) char *table = xasprintf("%s_lease", sentinel);
    sql_ident2(&b, schema, table);
    return b.p;
}

/* Creates the lease's table. The lease belongs to the whole cluster. */
int db_lease_create(struct db *db, const char *schema, const char *sentinel, struct err *e)
{
    SCOPED(xfree) char *name = table_name(schema, sentinel);
    int rc = galera_share(db, true, e);
    if (rc == 0)
        rc = db_exec_with(
            db,
            "CREATE TABLE IF NOT EXISTS $ (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, "
            "generation BIGINT UNSIGNED NOT NULL, holder VARCHAR(255) CHARACTER SET utf8mb4 NOT "
            "NULL, taken DATETIME NOT NULL) ENGINE=InnoDB",
            DB_ARGS(name), e);
    if (rc == 0)
        rc = db_exec_with(db,
                          "INSERT IGNORE INTO $ (id,generation,holder,taken) VALUES (1+" DB_ONLY_0(
                              "$") ",1,'',UTC_TIMESTAMP())",
                          DB_ARGS(name, name), e);
    if (galera_share(db, false, rc < 0 ? NULL : e) < 0)
        rc = -1;
    return rc;
}

/* Raises the generation by compare and swap: the UPDATE matches only if no other node has raised
 * it. Galera reports a concurrent UPDATE as a deadlock. */
static int lease_claim(struct db *db, const char *name, uint64_t seen, uint64_t generation,
                       const char *holder, struct err *e)
{
    int rc = db_exec_with(db,
                          "UPDATE $ " DB_ONLY_TABLE " SET generation=$,taken=UTC_TIMESTAMP(),"
                          "holder=? WHERE id=1 AND generation=$",
                          DB_ARGS(name, DB_NUMBER(generation), holder, DB_NUMBER(seen)), e);
    bool ours = rc == 0 && db_affected(db) == 1;
    if (ours || (rc < 0 && e->num != DB_DEADLOCK))
        return rc;
    err_set(e, ERR_BUSY, 0,
            "another node of the cluster has raised the generation of this world meanwhile");
    return err_hint(e, "wait until its restore has ended, then try again");
}

int db_lease_claim(struct db *db, const char *schema, const char *sentinel, uint64_t seen,
                   uint64_t generation, const char *holder, struct err *e)
{
    if (!galera_node(db)[0])
        return 0;
    if (seen == 0 && db_lease_create(db, schema, sentinel, e) < 0)
        return -1;
    SCOPED(xfree) char *name = table_name(schema, sentinel);
    int rc = galera_share(db, true, e);
    if (rc == 0)
        rc = lease_claim(db, name, seen ? seen : 1, generation, holder, e);
    if (galera_share(db, false, rc < 0 ? NULL : e) < 0)
        rc = -1;
    return rc;
}

int db_lease_read(struct db *db, const char *schema, const char *sentinel, uint64_t *generation,
                  struct err *e)
{
    SCOPED(xfree) char *name = table_name(schema, sentinel);
    struct err why = {0};
    char *v = db_one_with(db, "SELECT generation FROM $ " DB_ONLY_TABLE " WHERE id=1",
                          DB_ARGS(name), &why);
    *generation = v ? strtoull(v, NULL, 10) : 0;
    free(v);
    if (*generation > DB_GENERATION_MAX) {
        err_set(&why, ERR_REFUSED, 0,
                "the lease table is at generation %" PRIu64 "; allowed: up to %" PRId64,
                *generation, DB_GENERATION_MAX);
        err_hint(&why, "UPDATE %s SET generation=1; the dumps know a later one", name);
    }
    if (why.num == DB_IS_VIEW) {
        err_set(&why, ERR_REFUSED, DB_IS_VIEW, "%s is a view, not the lease table", name);
        err_hint(&why,
                 "SHOW CREATE VIEW %s says whose; after DROP VIEW %s, worldkeeper --init makes the "
                 "table",
                 name, name);
    }
    if (why.cls == ERR_NONE || db_table_missing(&why))
        return 0;
    return err_pass(e, &why);
}

int db_lease_raise(struct db *db, const char *schema, const char *sentinel, uint64_t generation,
                   const char *holder, struct err *e)
{
    SCOPED(xfree) char *name = table_name(schema, sentinel);
    /* assignments are evaluated from left to right, so generation comes last */
    return db_exec_with(db,
                        "INSERT INTO $ (id,generation,holder,taken) VALUES (1+" DB_ONLY_0(
                            "$") ",$,?,UTC_TIMESTAMP()) ON DUPLICATE KEY UPDATE "
                                 "taken=IF(generation<VALUES(generation),VALUES(taken),taken), "
                                 "holder=IF(generation<VALUES(generation),VALUES(holder),holder), "
                                 "generation=GREATEST(generation,VALUES(generation))",
                        DB_ARGS(name, name, DB_NUMBER(generation), holder), e);
}

/* ---- for games ---- */

int db_lease_now(struct db *db, int64_t *us, struct err *e)
{
    SCOPED(xfree) char *now =
        db_one(db, "SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))", e);
    *us = now ? strtoll(now, NULL, 10) : 0;
    return now ? 0 : -1;
}

/* Disables logging, because each machine has its own lease, and replicas of this server must not
 * use this one. */
static void log_nothing(struct db *db)
{
    struct err ignored;
    db_exec(db, "SET SESSION sql_log_bin=0", &ignored);
}

static int write_word(struct db *db, const char *name, const struct db_lease_word *word,
                      struct err *e)
{
    return db_exec_with(db,
                        "INSERT INTO $ (id,generation,number,owner,until) VALUES (1+" DB_ONLY_0(
                            "$") ",$,$,?,'1970-01-01' + INTERVAL $ MICROSECOND) ON DUPLICATE KEY "
                                 "UPDATE generation=VALUES(generation),number=VALUES(number),"
                                 "owner=VALUES(owner),until=VALUES(until)",
                        DB_ARGS(name, name, DB_NUMBER(word->generation), DB_NUMBER(word->number),
                                word->owner,
                                DB_NUMBER((uint64_t)(word->now_us + word->left_ms * 1000))),
                        e);
}

int db_lease_publish(struct db *db, const char *schema, const struct db_lease_word *word,
                     struct err *e)
{
    SCOPED(buf_free) struct buf name = {0};
    struct err why = {0};
    sql_ident2(&name, schema, DB_LEASE_TABLE);
    log_nothing(db);
    if (write_word(db, name.p, word, &why) == 0)
        return 0;
    if (!db_table_missing(&why))
        return err_pass(e, &why);
    if (db_exec_with(db,
                     "CREATE TABLE IF NOT EXISTS $ (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, "
                     "generation BIGINT UNSIGNED NOT NULL, number BIGINT UNSIGNED NOT NULL, owner "
                     "VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, until DATETIME(3) NOT NULL) "
                     "ENGINE=InnoDB",
                     DB_ARGS(name.p), e) < 0)
        return -1;
    return write_word(db, name.p, word, e);
}

int db_lease_end(struct db *db, const char *schema, struct err *e)
{
    struct err why = {0};
    log_nothing(db);
    if (db_exec_with(db, "UPDATE ??.?? " DB_ONLY_TABLE " SET until='1970-01-01'",
                     DB_ARGS(schema, DB_LEASE_TABLE), &why) == 0 ||
        db_table_missing(&why))
        return 0;
    return err_pass(e, &why);
}
