#include "mysql/blockers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "base/text.h"
#include "mysql/server.h"

enum lock_wait lock_wait_of(const char *state)
{
    if (strstr(state, "backup lock") || strstr(state, "global read lock") ||
        strstr(state, "commit lock"))
        return LOCK_WAIT_BACKUP;
    return strstr(state, "table metadata lock") ? LOCK_WAIT_TABLE : LOCK_WAIT_UNKNOWN;
}

void blockers_free(struct blockers *b)
{
    free(b->list);
    *b = (struct blockers){0};
}

/* ---- the servers' lists of locks ---- */

/* Columns of each list: id, user, host, default schema, command, seconds, statement, here, own,
 * table, backup. A table's no-write lock is that of FLUSH TABLES … WITH READ LOCK. MariaDB's
 * list contains only granted locks. A session's high-priority lock on a table outlives its
 * statement only with BACKUP LOCK. */
#define OWN "=SUBSTRING_INDEX(USER(),'@',1)"
static const char mysql_locks[] =
    "SELECT t.PROCESSLIST_ID, t.PROCESSLIST_USER, t.PROCESSLIST_HOST, t.PROCESSLIST_DB, "
    "t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME, LEFT(t.PROCESSLIST_INFO,100), "
    "IFNULL(t.PROCESSLIST_DB=DATABASE(),0), IFNULL(t.PROCESSLIST_USER" OWN ",0), "
    "IF(m.OBJECT_TYPE='TABLE',m.OBJECT_NAME,NULL), "
    "m.OBJECT_TYPE<>'TABLE' OR m.LOCK_TYPE='SHARED_NO_WRITE' "
    "FROM performance_schema.metadata_locks m "
    "JOIN performance_schema.threads t ON t.THREAD_ID=m.OWNER_THREAD_ID "
    "WHERE m.LOCK_STATUS='GRANTED' AND t.PROCESSLIST_ID NOT IN (CONNECTION_ID(),$) AND "
    "((m.OBJECT_TYPE='TABLE' AND m.OBJECT_SCHEMA=DATABASE()) OR "
    "(m.OBJECT_TYPE IN ('GLOBAL','BACKUP LOCK') AND m.LOCK_TYPE IN ('SHARED','EXCLUSIVE'))) "
    "ORDER BY t.PROCESSLIST_TIME DESC";
static const char mariadb_locks[] =
    "SELECT m.THREAD_ID, p.USER, p.HOST, p.DB, p.COMMAND, p.TIME, LEFT(p.INFO,100), "
    "IFNULL(p.DB=DATABASE(),0), IFNULL(p.USER" OWN ",0), "
    "IF(m.LOCK_TYPE='Table metadata lock',m.TABLE_NAME,NULL), "
    "m.LOCK_TYPE='Backup lock' OR m.LOCK_MODE IN ('MDL_SHARED_NO_WRITE','MDL_SHARED_HIGH_PRIO') "
    "FROM information_schema.METADATA_LOCK_INFO m "
    "LEFT JOIN information_schema.PROCESSLIST p ON p.ID=m.THREAD_ID "
    "WHERE m.THREAD_ID NOT IN (CONNECTION_ID(),$) AND "
    "((m.LOCK_TYPE='Table metadata lock' AND m.TABLE_SCHEMA=DATABASE()) OR "
    "(m.LOCK_TYPE='Backup lock' AND m.LOCK_MODE RLIKE '_(START|FLUSH|WAIT|FTWRL)')) "
    "ORDER BY p.TIME DESC";

static struct blocker *blockers_add(struct blockers *b, unsigned long id)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->list[i].id == id)
            return &b->list[i];
    b->list = xgrow(b->list, b->count, sizeof *b->list);
    b->list[b->count] = (struct blocker){.id = id, .why = BLOCKER_MAY};
    return &b->list[b->count++];
}

/* Describes a blocker from columns 1 to 6: "user@host", the schema, the statement. */
static void blockers_describe(struct blocker *b, const struct db_rows *r)
{
    char user[80], host[80], command[32];
    db_copy(r, 1, user, sizeof user);
    db_copy(r, 2, host, sizeof host);
    db_copy(r, 3, b->schema, sizeof b->schema);
    db_copy(r, 4, command, sizeof command);
    line_set(b->statement, sizeof b->statement, "%s", db_text(r, 6));
    snprintf(b->account, sizeof b->account, "%s%s%s", user, user[0] ? "@" : "", host);
    b->idle = strcmp(command, "Sleep") == 0;
    b->seconds = command[0] ? db_int(r, 5) : -1;
}

static int read_locks(struct db *db, const char *waiting, bool (*table)(void *, const char *),
                      void *arg, struct blockers *out, struct err *e)
{
    struct db_rows *r = db_select_with(
        db, "uTTTTITuuTu", db_is_mariadb(db) ? mariadb_locks : mysql_locks, DB_ARGS(waiting), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        char name[sizeof out->list->table];
        bool backup = db_uint(r, 10);
        db_copy(r, 9, name, sizeof name);
        /* A lock on a table that is not waited for blocks nothing, and neither does a backup of
         * other tables. */
        if (name[0] && !(table && table(arg, name)))
            continue;
        struct blocker *b = blockers_add(out, db_uint(r, 0));
        blockers_describe(b, r);
        b->here = db_uint(r, 7);
        b->own = db_uint(r, 8);
        if (backup || b->why != BLOCKER_BACKUP)
            b->why = backup ? BLOCKER_BACKUP : BLOCKER_HOLDS;
        if (name[0])
            snprintf(b->table, sizeof b->table, "%s", name);
    }
    db_rows_end(r);
    return got;
}

/* Reads the last statement of idle sessions, which MySQL keeps. Not every account may read it. */
static void read_statements(struct db *db, struct blockers *b)
{
    for (size_t i = 0; i < b->count && i < 8; i++) {
        if (b->list[i].statement[0])
            continue;
        SCOPED(xfree) char *text = db_one_with(
            db,
            "SELECT LEFT(s.SQL_TEXT,100) FROM performance_schema.events_statements_current s JOIN "
            "performance_schema.threads t USING (THREAD_ID) WHERE t.PROCESSLIST_ID=$ LIMIT 1",
            DB_ARGS(DB_NUMBER(b->list[i].id)), NULL);
        if (!text)
            return;
        line_set(b->list[i].statement, sizeof b->list[i].statement, "%s", text);
    }
}

/* ---- without lists of locks ---- */

/* Marks sessions with an open transaction. Returns 0 also if this account lacks the privilege to
 * list them. */
static int mark_transactions(struct db *db, struct blockers *b, struct err *e)
{
    struct db_rows *r =
        db_select(db, "u", "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX", e);
    int got;
    while ((got = db_next(r, e)) == 1)
        for (size_t i = 0; i < b->count; i++)
            if (b->list[i].id == db_uint(r, 0))
                b->list[i].why = BLOCKER_OPEN;
    db_rows_end(r);
    return got < 0 && db_unanswered(e) ? -1 : 0;
}

/* Reads the sessions. Those of other schemas are listed only if they have an open transaction. A
 * session that waits itself blocks nothing. */
static int read_sessions(struct db *db, const char *waiting, struct blockers *out, struct err *e)
{
    SCOPED(xfree) char *schema = db_one_with(db, "SELECT DATABASE()", DB_ARGS(NULL), e);
    SCOPED(xfree) char *user =
        db_one_with(db, "SELECT SUBSTRING_INDEX(USER(),'@',1)", DB_ARGS(NULL), e);
    unsigned long ours = strtoul(waiting, NULL, 10);
    struct db_rows *r =
        schema && user ? db_select(db, "uTTTTITB*", "SHOW FULL PROCESSLIST", e) : NULL;
    int got;
    if (!r)
        return -1;
    while ((got = db_next(r, e)) == 1) {
        char state[64];
        unsigned long id = db_uint(r, 0);
        const char *command = db_text(r, 4);
        db_copy(r, 6, state, sizeof state);
        bool works = command && (strcmp(command, "Sleep") == 0 || strcmp(command, "Query") == 0);
        if (id == ours || id == db_session(db) || !works || text_starts(state, "Waiting for"))
            continue;
        struct blocker *b = blockers_add(out, id);
        blockers_describe(b, r);
        if (!b->idle)
            db_copy(r, 7, b->statement, sizeof b->statement);
        else
            b->statement[0] = '\0';
        b->here = strcmp(b->schema, schema) == 0;
        b->own = text_starts(b->account, user) && b->account[strlen(user)] == '@';
    }
    db_rows_end(r);
    if (got < 0 || mark_transactions(db, out, e) < 0)
        return -1;
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++)
        if (out->list[i].here || out->list[i].why == BLOCKER_OPEN)
            out->list[kept++] = out->list[i];
    out->count = kept;
    return 0;
}

int db_blockers(struct db *db, unsigned long waiting, bool (*table)(void *arg, const char *name),
                void *arg, struct blockers *out, struct err *e)
{
    const char *id = DB_NUMBER(waiting);
    *out = (struct blockers){0};
    /* If performance_schema is off, it exists but is empty. */
    bool listed = db_is_mariadb(db) || db_variable_number(db, "performance_schema") == 1;
    if (listed && read_locks(db, id, table, arg, out, e) == 0) {
        out->told = true;
        if (!db_is_mariadb(db))
            read_statements(db, out);
        return 0;
    }
    blockers_free(out);
    if (listed && db_unanswered(e))
        return -1;
    /* MariaDB lacks the plugin with the list, or this account may not read the list. */
    err_clear(e);
    return read_sessions(db, id, out, e);
}

bool blockers_may_end(const struct blockers *b, size_t i, enum lock_wait wait, int64_t waited_s)
{
    const struct blocker *s = &b->list[i];
    if (!s->idle || !s->here || s->why == BLOCKER_BACKUP)
        return false;
    if (b->told)
        return true;
    if (wait != LOCK_WAIT_TABLE || s->seconds < waited_s)
        return false;
    if (s->why == BLOCKER_OPEN)
        return true;
    for (size_t k = 0; k < b->count; k++) {
        const struct blocker *o = &b->list[k];
        if (o->why == BLOCKER_OPEN && o->here && o->idle && o->seconds >= waited_s)
            return false;
    }
    return !s->own;
}
