/* Reads and writes what proves the copy: its mark and the figures of its tables. */
#include "restore/warm.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/fault.h"
#include "base/line.h"
#include "mysql/galera.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "mysql/rows.h"
#include "restore/plan.h"
#include "restore/warm_int.h"

#define PATIENCE_MS 2000
#define LOCK_WAIT_MS 10000

int warm_finding(struct warm *w, enum warm_found what, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_vset(w->why, sizeof w->why, fmt, ap);
    va_end(ap);
    return (int)what;
}

/* Judges an error of the copy. The copy is given up only if the error would occur again, because
 * loading it again costs as much as all that it saves. */
int warm_judged(struct warm *w, enum warm_found what, const struct err *why, struct err *e)
{
    bool again = db_unanswered(why) || db_no_connection(why) || db_lock_busy(why) ||
                 why->cls == ERR_BUSY || why->cls == ERR_SYSTEM || why->cls == ERR_ABORTED ||
                 why->cls == ERR_UNREACHABLE || why->cls == ERR_DENIED;
    if (why->cls == ERR_CHANGED) /* another session changed it, or a kill did */
        what = WARM_GONE;
    return again ? err_pass(e, why) : warm_finding(w, what, "%s", why->text);
}

int warm_disprove(struct warm *w, int found, struct err *e)
{
    return found < 0 || db_exec(w->db, "DROP TABLE IF EXISTS " WARM_MARK, e) < 0 ? -1 : found;
}

/* Notes what proves the copy. The mark is written last and in MEMORY: after a kill before that, or
 * after a server restart at any time, there is no mark and so no copy. The number of rows of each
 * table is noted too, because another session may change them. */
int warm_note(struct db *db, const struct plan *p, const struct manifest *m,
              const struct replay *changes, struct err *e)
{
    static const char text[] = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL";
    bool journal = changes->delta != NULL;
    const struct db_binlog_pos *upto = journal ? &changes->upto : &m->end;
    fault_point("warm.loaded");
    if (db_exec_with(db,
                     "CREATE TABLE " WARM_TABLES
                     " (name VARCHAR(64) $ PRIMARY KEY, held BIGINT UNSIGNED "
                     "NOT NULL, heap BIGINT UNSIGNED NOT NULL, counter BIGINT UNSIGNED NOT NULL, "
                     "definition BIGINT UNSIGNED NOT NULL) ENGINE=MEMORY",
                     DB_ARGS(text), e) < 0 ||
        db_exec_with(db,
                     "CREATE TABLE " WARM_MARK
                     " (id TINYINT PRIMARY KEY, redo TINYINT NOT NULL, dump "
                     "VARCHAR(128) $, file VARCHAR(255) $, pos BIGINT UNSIGNED NOT NULL, segment "
                     "BIGINT UNSIGNED NOT NULL, made BIGINT UNSIGNED NOT NULL) ENGINE=MEMORY",
                     DB_ARGS(text, text), e) < 0)
        return -1;
    for (size_t i = 0; i < p->count; i++) {
        const struct target *t = &p->list[i];
        if (!t->skip &&
            db_exec_with(db, "INSERT INTO " WARM_TABLES " VALUES (?,$,$,$,$)",
                         DB_ARGS(t->name, DB_NUMBER(t->rows), DB_NUMBER(t->heap),
                                 DB_NUMBER(t->auto_increment), DB_NUMBER(t->definition)),
                         e) < 0)
            return -1;
    }
    return db_exec_with(db, "INSERT INTO " WARM_MARK " VALUES (1,0,?,?,$,$,$)",
                        DB_ARGS(m->name, upto->file, DB_NUMBER(upto->pos),
                                DB_NUMBER(journal ? changes->place.number : 0),
                                DB_NUMBER(journal ? (uint64_t)changes->place.made : 0)),
                        e);
}

/* Reads the tables of the copy. DB_ONLY_TABLE excludes a view that another account put in the place
 * of the list. */
static int warm_read_tables(struct warm *w, struct err *e)
{
    struct db_rows *r = db_select(w->db, "nuuuu",
                                  "SELECT name,held,heap,counter,definition FROM " WARM_TABLES
                                  " " DB_ONLY_TABLE " ORDER BY name",
                                  e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        struct target *t = plan_add(&w->plan, db_text(r, 0), "MEMORY");
        t->rows = db_uint(r, 1);
        t->heap = db_uint(r, 2);
        t->auto_increment = db_uint(r, 3);
        t->definition = db_uint(r, 4);
        t->created = true;
    }
    db_rows_end(r);
    return got;
}

/* Reads the mark. Returns 1, 0 if there is no row, -1 on error. */
static int warm_read_mark(struct warm *w, struct err *e)
{
    struct db_rows *r =
        db_select(w->db, "uttuuu",
                  "SELECT redo,dump,file,pos,segment,made FROM " WARM_MARK " " DB_ONLY_TABLE, e);
    int got, rows = 0;
    while ((got = db_next(r, e)) == 1) {
        rows++;
        w->redo = db_uint(r, 0) != 0;
        db_copy(r, 1, w->dump, sizeof w->dump);
        db_copy(r, 2, w->upto.file, sizeof w->upto.file);
        w->upto.pos = db_uint(r, 3);
        w->place.number = db_uint(r, 4);
        w->place.made = (int64_t)db_uint(r, 5);
    }
    db_rows_end(r);
    return got < 0 ? -1 : rows == 1;
}

int warm_session(struct db *db, const char *schema, int64_t lock_wait, struct err *e)
{
    struct err ignored;
    if (galera_own_node(db, e) < 0 || db_lease_take(db, schema, PATIENCE_MS, e) < 0)
        return -1;
    db_exec(db, "SET SESSION sql_log_bin=0", &ignored);
    return db_lock_wait(db, lock_wait, e);
}

/* Opens the copy. It is not checked here whether its rows are right. The order in which the
 * mark is written ensures that they are those of the mark, and warm_compare.c compares them
 * now and then. */
int warm_open(struct warm *w, const struct job *job, struct err *e)
{
    struct db_params p = job->db;
    struct err why = {0};
    *w = (struct warm){.job = job,
                       .plan = {.job = job, .schema = w->schema, .into = true, .copy = true}};
    config_own_schema(CONFIG_WARM_SCHEMA, job->cfg, w->schema);
    p.schema = w->schema;
    p.bulk = true;
    w->db = db_open(&p, &why);
    if (!w->db && why.num == DB_NO_SCHEMA)
        return warm_finding(w, WARM_GONE, "it is not loaded yet");
    if (!w->db || warm_session(w->db, w->schema, LOCK_WAIT_MS, &why) < 0)
        return warm_judged(w, WARM_GONE, &why, e);
    int rc = warm_read_mark(w, &why);
    if (rc == 1 && (rc = warm_read_tables(w, &why)) == 0)
        return WARM_READY;
    if (rc < 0 && !db_table_missing(&why))
        return warm_judged(w, WARM_GONE, &why, e);
    return warm_finding(w, WARM_GONE,
                        rc == 0 ? "the server was restarted, which emptied it"
                                : "it is not loaded, or was found to be wrong");
}

void warm_close(struct warm *w)
{
    db_close(w->db);
    w->db = NULL;
    plan_free(&w->plan);
}

/* Drops the copy. Its schema is looked up first: an account without any privilege on it does not
 * see it, and then needs none to drop it. The wait for sessions that read its tables is short,
 * because the world comes first. */
int warm_drop(const struct job *job, struct err *e)
{
    char schema[CONFIG_OWN_SCHEMA_MAX];
    struct err why = {0};
    config_own_schema(CONFIG_WARM_SCHEMA, job->cfg, schema);
    struct db *db = db_open(&job->db, e);
    SCOPED(xfree) char *there = db ? db_schema_name(db, schema, &why) : NULL;
    int rc = db ? 0 : -1;
    if (db && !there && why.cls != ERR_REFUSED)
        rc = err_pass(e, &why);
    if (there && (warm_session(db, schema, PATIENCE_MS, e) < 0 ||
                  db_exec_with(db, "DROP DATABASE IF EXISTS ??", DB_ARGS(schema), e) < 0))
        rc = -1;
    if (rc < 0)
        err_step(e, "cannot drop unused schema %s", schema);
    db_close(db);
    return rc;
}
