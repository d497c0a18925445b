#include "db/sentinel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/text.h"
#include "db/sql.h"

#define BEAT "beat BIGINT UNSIGNED NOT NULL DEFAULT 0"
#define UNKNOWN_COLUMN 1054

static char *sentinel_name(const char *schema, const char *table, const char *suffix)
{
    struct buf b = {0};
    char *full = xasprintf("%s%s", table, suffix);
    sql_ident2(&b, schema, full);
    free(full);
    return b.p;
}

bool db_sentinel_own(const char *sentinel, const char *table)
{
    size_t n = strlen(sentinel);
    return strncmp(table, sentinel, n) == 0 &&
           (table[n] == '\0' || strcmp(table + n, "_lease") == 0);
}

int db_sentinel_read(struct db *db, const char *schema, const char *table, struct db_sentinel *out,
                     struct err *e)
{
    *out = (struct db_sentinel){0};
    char *name = sentinel_name(schema, table, ""), *sql = NULL;
    sql = xasprintf("SELECT nonce, generation, dump FROM %s LIMIT 2", name);
    struct db_rows *r = db_select(db, sql, e);
    free(name);
    free(sql);
    if (!r && e && db_table_missing(e))
        err_hint(e, "worldkeeper --init makes the sentinel of a new world; --restore brings back a "
                    "lost one");
    if (!r)
        return -1;
    int got;
    while ((got = db_next(r, e)) == 1) {
        if (out->rows++ > 0)
            continue;
        snprintf(out->nonce, sizeof out->nonce, "%s", db_value(r, 0) ? db_value(r, 0) : "");
        out->generation = db_value(r, 1) ? strtoull(db_value(r, 1), NULL, 10) : 0;
        snprintf(out->dump, sizeof out->dump, "%s", db_value(r, 2) ? db_value(r, 2) : "");
    }
    db_rows_end(r);
    return got;
}

int db_sentinel_durable(struct db *db, const char *schema, const char *table, char engine[65],
                        struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA=");
    sql_string(&b, schema, strlen(schema));
    buf_adds(&b, " AND TABLE_NAME=");
    sql_string(&b, table, strlen(table));
    buf_adds(&b, " AND ENGINE<>'MEMORY'");
    char *found = db_one(db, b.p, e);
    snprintf(engine, 65, "%s", found ? found : "");
    int rc = found || e->cls == ERR_NONE ? 0 : -1;
    free(found);
    buf_free(&b);
    return rc;
}

/* One that lasts would tell of no loss. */
int db_sentinel_create(struct db *db, const char *schema, const char *table, bool if_missing,
                       struct err *e)
{
    struct err ignored;
    char *name = sentinel_name(schema, table, "");
    int rc =
        db_exec(db, "SET SESSION sql_mode=CONCAT(@@SESSION.sql_mode,',NO_ENGINE_SUBSTITUTION')", e);
    if (rc == 0)
        rc = db_execf(
            db, e,
            "CREATE TABLE %s%s (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, "
            "nonce CHAR(32) CHARACTER SET ascii NOT NULL, generation BIGINT UNSIGNED NOT NULL, "
            "dump VARCHAR(128) CHARACTER SET ascii NOT NULL, " BEAT ") ENGINE=MEMORY",
            if_missing ? "IF NOT EXISTS " : "", name);
    if (db_as_usual(db, rc < 0 ? &ignored : e) < 0)
        rc = -1;
    free(name);
    return rc;
}

int db_sentinel_insert(struct db *db, const char *schema, const char *table, const char *nonce,
                       uint64_t generation, const char *dump, struct err *e)
{
    char *name = sentinel_name(schema, table, "");
    struct buf b = {0};
    buf_printf(&b, "INSERT INTO %s (id,nonce,generation,dump) VALUES (1,'%s',%" PRIu64 ",", name,
               nonce, generation);
    sql_string(&b, dump, strlen(dump));
    buf_addc(&b, ')');
    int rc = db_exec_len(db, b.p, b.len, e);
    buf_free(&b);
    free(name);
    return rc;
}

int db_sentinel_beat(struct db *db, const char *schema, const char *table, uint64_t beat,
                     struct err *e)
{
    char *name = sentinel_name(schema, table, "");
    /* not in front of those who only look: a lock on the table must not look like a dead server */
    char *sql = xasprintf("UPDATE LOW_PRIORITY %s SET beat=%" PRIu64 " WHERE id=1", name, beat);
    int rc = db_exec(db, sql, e);
    if (rc < 0 && e->num == UNKNOWN_COLUMN) {
        rc = db_execf(db, e, "ALTER TABLE %s ADD COLUMN " BEAT, name);
        if (rc == 0)
            rc = db_exec(db, sql, e);
    }
    free(sql);
    free(name);
    return rc;
}

int db_nonce(char out[33], struct err *e)
{
    unsigned char raw[16];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return err_sys(e, errno, "no random bytes for the nonce");
    text_hex(raw, sizeof raw, out);
    return 0;
}

int db_lease_create(struct db *db, const char *schema, const char *sentinel, struct err *e)
{
    char *name = sentinel_name(schema, sentinel, "_lease");
    int rc = db_execf(
        db, e,
        "CREATE TABLE IF NOT EXISTS %s (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, "
        "generation BIGINT UNSIGNED NOT NULL, holder VARCHAR(255) CHARACTER SET utf8mb4 NOT "
        "NULL, taken DATETIME NOT NULL) ENGINE=InnoDB",
        name);
    if (rc == 0)
        rc = db_execf(
            db, e,
            "INSERT IGNORE INTO %s (id,generation,holder,taken) VALUES (1,1,'',UTC_TIMESTAMP())",
            name);
    free(name);
    return rc;
}

int db_lease_read(struct db *db, const char *schema, const char *sentinel, uint64_t *generation,
                  struct err *e)
{
    char *name = sentinel_name(schema, sentinel, "_lease");
    char *sql = xasprintf("SELECT generation FROM %s WHERE id=1", name);
    struct err why = {0};
    char *v = db_one(db, sql, &why);
    *generation = v ? strtoull(v, NULL, 10) : 0;
    free(v);
    free(sql);
    free(name);
    if (why.cls == ERR_NONE || db_table_missing(&why))
        return 0;
    if (e)
        *e = why;
    return -1;
}

int db_lease_raise(struct db *db, const char *schema, const char *sentinel, uint64_t generation,
                   const char *holder, struct err *e)
{
    char *name = sentinel_name(schema, sentinel, "_lease");
    struct buf b = {0};
    buf_printf(&b, "INSERT INTO %s (id,generation,holder,taken) VALUES (1,%" PRIu64 ",", name,
               generation);
    sql_string(&b, holder, strlen(holder));
    buf_adds(
        &b, ",UTC_TIMESTAMP()) ON DUPLICATE KEY UPDATE taken=IF(generation<VALUES(generation),"
            "VALUES(taken),taken), holder=IF(generation<VALUES(generation),VALUES(holder),holder), "
            "generation=GREATEST(generation,VALUES(generation))");
    int rc = db_exec_len(db, b.p, b.len, e);
    buf_free(&b);
    free(name);
    return rc;
}
