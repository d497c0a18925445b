#include "mysql/sentinel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "sql/literal.h"

/* The marker's column. It is the last one, because an older version's table gets it by ALTER
 * TABLE. */
#define MARKER "beat BIGINT UNSIGNED NOT NULL DEFAULT 0"
#define UNKNOWN_COLUMN 1054
#define NOTE "worldkeeper swap " /* precedes a note in a table's comment */

bool db_sentinel_lease(const char *sentinel, const char *table)
{
    size_t n = strlen(sentinel);
    return strcmp(table, DB_LEASE_TABLE) == 0 ||
           (strncmp(table, sentinel, n) == 0 && strcmp(table + n, "_lease") == 0);
}

bool db_sentinel_own(const char *sentinel, const char *table)
{
    return strcmp(table, sentinel) == 0 || db_sentinel_lease(sentinel, table);
}

static void explain_missing(const char *schema, const char *table, struct err *e)
{
    SCOPED(buf_free) struct buf name = {0};
    sql_ident2(&name, schema, table);
    if (e->num == DB_IS_VIEW) {
        err_set(e, ERR_REFUSED, DB_IS_VIEW, "%s is a view, not the sentinel table", name.p);
        err_hint(e,
                 "SHOW CREATE VIEW %s says whose; after DROP VIEW %s, worldkeeper --restore, or "
                 "worldkeeper --init --force where the world is as it should be",
                 name.p, name.p);
    } else if (db_table_missing(e)) {
        err_hint(e, "for a new world: worldkeeper --init; for a lost world: worldkeeper --restore");
    }
}

int db_sentinel_read(struct db *db, const char *schema, const char *table, struct db_sentinel *out,
                     struct err *e)
{
    *out = (struct db_sentinel){0};
    struct db_rows *r = db_select_with(
        db, "TUT", "SELECT nonce, generation, dump FROM ??.?? " DB_ONLY_TABLE " LIMIT 2",
        DB_ARGS(schema, table), e);
    if (!r && e)
        explain_missing(schema, table, e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        if (out->rows++ > 0) /* more than one row is invalid, but their number is reported */
            continue;
        db_copy(r, 0, out->nonce, sizeof out->nonce);
        out->generation = db_uint(r, 1);
        db_copy(r, 2, out->dump, sizeof out->dump);
    }
    db_rows_end(r);
    return got;
}

int db_sentinel_durable(struct db *db, const char *schema, const char *table, char engine[65],
                        struct err *e)
{
    SCOPED(xfree) char *found =
        db_one_with(db,
                    "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA=? "
                    "AND TABLE_NAME=? AND ENGINE<>'MEMORY'",
                    DB_ARGS(schema, table), e);
    snprintf(engine, 65, "%s", found ? found : "");
    return found || e->cls == ERR_NONE ? 0 : -1;
}

/* Sets NO_ENGINE_SUBSTITUTION, because a sentinel in a durable engine would hide a loss. */
int db_sentinel_create(struct db *db, const char *schema, const char *table, bool if_missing,
                       const char *note, struct err *e)
{
    SCOPED(xfree) char *comment = note[0] ? xasprintf(" COMMENT='" NOTE "%s'", note) : xstrdup("");
    int rc =
        db_exec(db, "SET SESSION sql_mode=CONCAT(@@SESSION.sql_mode,',NO_ENGINE_SUBSTITUTION')", e);
    if (rc == 0)
        rc = db_exec_with(
            db,
            "CREATE TABLE $??.?? (id TINYINT UNSIGNED NOT NULL PRIMARY KEY, "
            "nonce CHAR(32) CHARACTER SET ascii NOT NULL, generation BIGINT UNSIGNED NOT NULL, "
            "dump VARCHAR(128) CHARACTER SET ascii NOT NULL, " MARKER ") ENGINE=MEMORY$",
            DB_ARGS(if_missing ? "IF NOT EXISTS " : "", schema, table, comment), e);
    /* also after a failure, because the mode must not outlive this statement */
    if (db_reset_session(db, rc < 0 ? NULL : e) < 0)
        rc = -1;
    return rc;
}

int db_sentinel_noted(struct db *db, const char *schema, const char *table, const char *note,
                      struct err *e)
{
    SCOPED(xfree) char *found =
        db_one_with(db,
                    "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA=? AND "
                    "TABLE_NAME=? AND TABLE_COMMENT='" NOTE "$'",
                    DB_ARGS(schema, table, note), e);
    return found ? 1 : e->cls == ERR_NONE ? 0 : -1;
}

int db_sentinel_insert(struct db *db, const char *schema, const char *table, const char *nonce,
                       uint64_t generation, const char *dump, struct err *e)
{
    return db_exec_with(
        db,
        "INSERT INTO ??.?? (id,nonce,generation,dump) VALUES (1+" DB_ONLY_0("??.??") ",'$',$,?)",
        DB_ARGS(schema, table, schema, table, nonce, DB_NUMBER(generation), dump), e);
}

int db_sentinel_renew(struct db *db, const char *schema, const char *table, const char *nonce,
                      uint64_t generation, struct err *e)
{
    return db_exec_with(
        db, "UPDATE ??.?? " DB_ONLY_TABLE " SET nonce='$', generation=$, dump='' WHERE id=1",
        DB_ARGS(schema, table, nonce, DB_NUMBER(generation)), e);
}

int db_sentinel_mark(struct db *db, const char *schema, const char *table, uint64_t marker,
                     struct err *e)
{
    /* LOW_PRIORITY, because if readers queued after the update, a table lock would look like an
     * unresponsive server */
    static const char update[] =
        "UPDATE LOW_PRIORITY ??.?? " DB_ONLY_TABLE " SET beat=$ WHERE id=1";
    const char *number = DB_NUMBER(marker);
    int rc = db_exec_with(db, update, DB_ARGS(schema, table, number), e);
    if (rc == 0 || e->num != UNKNOWN_COLUMN)
        return rc;
    rc = db_exec_with(db, "ALTER TABLE ??.?? ADD COLUMN " MARKER, DB_ARGS(schema, table), e);
    return rc < 0 ? -1 : db_exec_with(db, update, DB_ARGS(schema, table, number), e);
}

int db_nonce(char out[33], struct err *e)
{
    unsigned char raw[16];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return err_sys(e, errno, "cannot get random bytes for the nonce");
    text_hex(raw, sizeof raw, out);
    return 0;
}
