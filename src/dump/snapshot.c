#include "dump/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fault.h"
#include "db/sentinel.h"
#include "db/sql.h"
#include "db/binlog.h"
#include "dump/copies.h"
#include "dump/fuzzy.h"

/* Waiting for a lock holds up everybody who comes behind us, so each try is short. */
#define LOCK_TRY_SECONDS 5

struct snapshot {
    struct db *db;        /* the locks; reads MEMORY and other unversioned tables */
    struct db *versioned; /* consistent snapshot of InnoDB tables; NULL when there are none */
    struct db
        *meta; /* definitions: under LOCK TABLES a session sees nothing but the locked tables */
    enum config_method method;
    struct copies *copies;   /* method copy */
    struct fuzzy *fuzzy;     /* method fuzzy */
    struct db_tables listed; /* before the lock; what is locked and copied */
    struct db_tables tables; /* the same tables as of the lock */
    char **creates;          /* CREATE TABLE of each table, as of the locks */
    char *schema, *sentinel_name;
    struct server_id server;
    struct db_point point;
    struct db_sentinel sentinel;
};

static int count_unversioned(const struct snapshot *s)
{
    int n = 0;
    for (size_t i = 0; i < s->listed.count; i++)
        n += !s->listed.list[i].transactional;
    return n;
}

static int lock_tables(struct snapshot *s, const struct job *job, struct err *e)
{
    struct buf sql = {0};
    const char *comma = "LOCK TABLES ";
    for (size_t i = 0; i < s->listed.count; i++) {
        if (s->listed.list[i].transactional)
            continue;
        buf_adds(&sql, comma);
        sql_ident(&sql, s->listed.list[i].name);
        buf_adds(&sql, " READ");
        comma = ", ";
    }
    mono_t deadline = mono_add(clock_mono(), job->cfg->dump_stall);
    int rc;
    while ((rc = db_exec_len(s->db, sql.p, sql.len, e)) < 0 && db_lock_busy(e) &&
           !mono_reached(clock_mono(), deadline)) {
        progress_at(job->progress, 0, 0);
        usleep(e->num == DB_DEADLOCK ? 50000 : 1000000);
    }
    if (rc < 0 && db_lock_busy(e))
        err_hint(e,
                 "a game session holds LOCK TABLES or a long statement; SHOW PROCESSLIST names it");
    if (rc < 0)
        err_step(e, "locking the tables");
    buf_free(&sql);
    return rc;
}

/* A dump of all tables without one that only cannot be opened now would not be one of all. */
static int all_can_be_opened(const struct config *c, struct db *db, struct err *e)
{
    struct db_tables closed;
    if (db_closed_tables(db, c->schema, &closed, e) < 0)
        return -1;
    int rc = 0;
    if (closed.count) {
        rc = err_set(e, ERR_QUERY, 0, "the server cannot open table %s", closed.list[0].name);
        err_hint(e, "CHECK TABLE tells why; repair or drop it");
    }
    db_tables_free(&closed);
    return rc;
}

/* The lease is not part of the world: an old copy of it would set the generation back. */
static int list_tables(const struct job *job, struct db *db, struct db_tables *out, struct err *e)
{
    const struct config *c = job->cfg;
    if ((c->dump_all && all_can_be_opened(c, db, e) < 0) ||
        db_tables(db, c->schema, c->dump_all, out, e) < 0)
        return -1;
    char *lease = xasprintf("%s_lease", c->sentinel);
    struct db_table *t = db_table_find(out, lease);
    if (t)
        db_tables_remove(out, t);
    free(lease);
    return 0;
}

/* What the tables were before the lock and what they are under it must agree. */
static int same_tables(const struct db_tables *a, const struct db_tables *b, struct err *e)
{
    char x[17], y[17];
    for (size_t i = 0; i < b->count; i++) {
        const struct db_table *t = db_table_find(a, b->list[i].name);
        if (t)
            db_columns_hash(t, x);
        db_columns_hash(&b->list[i], y);
        if (!t || strcmp(x, y) != 0 || t->memory != b->list[i].memory)
            return err_set(e, ERR_CHANGED, 0, "table %s was changed while the dump began",
                           b->list[i].name);
    }
    return a->count == b->count
               ? 0
               : err_set(e, ERR_CHANGED, 0, "a table was dropped while the dump began");
}

static int read_sentinel(struct snapshot *s, struct db_sentinel *out, struct err *e)
{
    if (db_sentinel_read(s->db, s->schema, s->sentinel_name, out, e) < 0)
        return -1;
    if (out->rows != 1) {
        err_set(e, ERR_CHANGED, 0,
                "the sentinel table %s holds %u rows, not 1: nobody vouches for this world",
                s->sentinel_name, out->rows);
        err_hint(
            e,
            "a world that was lost is restored with --restore; a new one is adopted with --init");
        return -1;
    }
    return 0;
}

static void free_creates(char **creates, size_t count)
{
    for (size_t i = 0; creates && i < count; i++)
        free(creates[i]);
    free(creates);
}

/* [i]: of table i; NULL on error. */
static char **read_creates(struct snapshot *s, const struct db_tables *tables, struct err *e)
{
    char **creates = xcalloc(tables->count + 1, sizeof *creates);
    for (size_t i = 0; i < tables->count; i++) {
        creates[i] = db_create_table(s->meta, s->schema, tables->list[i].name, e);
        if (!creates[i]) {
            if (e->num == DB_NO_TABLE)
                e->cls = ERR_CHANGED;
            err_step(e, "reading the definition of table %s", tables->list[i].name);
            free_creates(creates, i);
            return NULL;
        }
    }
    return creates;
}

/* Counters grow with the rows. */
static char *without_counters(const char *create)
{
    static const char counter[] = " AUTO_INCREMENT=";
    struct buf b = {0};
    const char *at;
    for (; (at = strstr(create, counter)); create = at) {
        buf_add(&b, create, (size_t)(at - create));
        at += sizeof counter - 1;
        at += strspn(at, "0123456789");
    }
    buf_adds(&b, create);
    return b.p;
}

/* What was read of the tables, and what will be made of them, must be of one definition. */
static int same_creates(const struct snapshot *s, char *const *before, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < s->tables.count && rc == 0; i++) {
        char *was = without_counters(before[i]), *is = without_counters(s->creates[i]);
        if (strcmp(was, is) != 0)
            rc = err_set(e, ERR_CHANGED, 0, "table %s was changed while it was read",
                         s->tables.list[i].name);
        free(was);
        free(is);
    }
    return rc;
}

/* While we describe our tables the world waits, and MariaDB opens each table of the schema for it:
 * one that another session is making (CREATE TABLE … SELECT) is none of ours. Durable tables are
 * not locked, and may be another's for a moment. */
static int describe_seconds(const struct snapshot *s, const struct job *job)
{
    return db_is_mariadb(s->meta) && !job->cfg->dump_all ? 0 : 1;
}

/* What need not be under the lock: connections, and the plan of the copies. */
static int prepare(struct snapshot *s, const struct job *job, const struct db_params *p,
                   enum config_method method, struct err *e)
{
    int locked = count_unversioned(s);
    if ((size_t)locked < s->listed.count) {
        s->versioned = db_open(p, e);
        if (!s->versioned ||
            db_exec(s->versioned, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", e) < 0)
            return -1;
    }
    if (db_execf(s->meta, e, "SET SESSION lock_wait_timeout=%d", describe_seconds(s, job)) < 0)
        return -1;
    if (method == METHOD_COPY && locked) {
        s->copies = copies_plan(p, s->db, &s->listed, e);
        if (!s->copies)
            return -1;
    }
    fault_point("dump.listed");
    return locked ? lock_tables(s, job, e) : 0;
}

/* The moment of the picture, told by the connection that holds the locks. */
static int see_moment(struct snapshot *s, struct err *e)
{
    struct db_sentinel again;
    if (read_sentinel(s, &again, e) < 0)
        return -1;
    if (strcmp(again.nonce, s->sentinel.nonce) != 0)
        return err_set(e, ERR_CHANGED, 0, "the sentinel changed while the dump began");
    db_point(s->db, &s->point);
    return s->versioned ? db_exec(s->versioned, "START TRANSACTION WITH CONSISTENT SNAPSHOT", e)
                        : 0;
}

/* Exact row counts and definitions. They are read beside the copying: the locks keep all of it as
 * it is, and hundreds of tables take a while. */
static int describe(struct snapshot *s, const struct job *job, struct err *e)
{
    return list_tables(job, s->meta, &s->tables, e) < 0 ||
                   same_tables(&s->listed, &s->tables, e) < 0 ||
                   !(s->creates = read_creates(s, &s->tables, e)) ||
                   db_exec(s->meta, "SET SESSION lock_wait_timeout=DEFAULT", e) < 0
               ? -1
               : 0;
}

static int take(struct snapshot *s, const struct job *job, const struct db_params *p,
                enum config_method method, struct err *e)
{
    progress_phase(job->progress, "locking", 0, 0);
    if (db_server_id(s->db, &s->server, e) < 0 || read_sentinel(s, &s->sentinel, e) < 0 ||
        db_execf(s->db, e, "SET SESSION lock_wait_timeout=%d", LOCK_TRY_SECONDS) < 0 ||
        list_tables(job, s->db, &s->listed, e) < 0 || prepare(s, job, p, method, e) < 0)
        return -1;
    fault_point("dump.locked");
    if (see_moment(s, e) < 0)
        return -1;
    if (!s->copies)
        return describe(s, job, e);
    copies_start(s->copies);
    int rc = describe(s, job, e);
    /* A table that was changed is the better explanation of a copy that failed. */
    struct err ignored;
    if (copies_finish(s->copies, rc < 0, job->progress, rc < 0 ? &ignored : e) < 0)
        return -1;
    return db_exec(s->db, "UNLOCK TABLES", e);
}

/* No lock keeps the tables as they are until they are described: the log tells what became of them
 * during the scan, and their definitions whether anything did before or behind it. */
static int scan_and_describe(struct snapshot *s, const struct job *job, struct err *e)
{
    char **before = read_creates(s, &s->listed, e);
    if (!before)
        return -1;
    fault_point("dump.listed");
    s->fuzzy = fuzzy_take(job, s->db, &s->listed, e);
    int rc = s->fuzzy ? 0 : -1;
    if (rc == 0) {
        s->point = *fuzzy_end_point(s->fuzzy);
        fault_point("dump.locked");
        rc = describe(s, job, e) < 0 ? -1 : same_creates(s, before, e);
    }
    free_creates(before, s->listed.count);
    return rc;
}

/* The same moment twice: before the scan and behind it the sentinel must be ours. */
static int take_fuzzy(struct snapshot *s, const struct job *job, struct err *e)
{
    return db_server_id(s->db, &s->server, e) < 0 || read_sentinel(s, &s->sentinel, e) < 0 ||
                   list_tables(job, s->db, &s->listed, e) < 0 ||
                   db_table_keys(s->db, s->schema, &s->listed, e) < 0
               ? -1
               : scan_and_describe(s, job, e);
}

char *snapshot_no_fuzzy(const struct config *c, struct db *db, struct err *e)
{
    struct binlog_ability able;
    struct db_tables tables = {0};
    struct db_scan_facts facts = {0};
    char *why = NULL;
    err_clear(e);
    if (c->dump_all)
        return xstrdup("durable tables are dumped too ([dump] engines = all)");
    if (c->journal == JOURNAL_OFF)
        return xstrdup("[journal] mode = off");
    if (binlog_ability(db, c->schema, &able, e) < 0)
        return NULL;
    if (able.reason)
        why = xstrdup(able.reason);
    else if (db_tables(db, c->schema, false, &tables, e) == 0 &&
             db_table_keys(db, c->schema, &tables, e) == 0 &&
             db_scan_facts(db, c->schema, &facts, e) == 0)
        why = fuzzy_refusal(&tables, &facts, c->sentinel);
    binlog_ability_free(&able);
    db_tables_free(&tables);
    db_scan_facts_free(&facts);
    return why;
}

static int choose(const struct job *job, struct db *db, enum config_method *method, struct err *e)
{
    *method = job->cfg->dump_method;
    if (*method != METHOD_AUTO && *method != METHOD_FUZZY)
        return 0;
    char *why = snapshot_no_fuzzy(job->cfg, db, e);
    if (!why && e->cls != ERR_NONE)
        return -1;
    int rc = 0;
    if (why && *method == METHOD_FUZZY) {
        rc = err_set(e, ERR_REFUSED, 0, "[dump] method = fuzzy cannot be had: %s", why);
        err_hint(e, "method = auto takes the best that there is");
    }
    *method = why ? METHOD_COPY : METHOD_FUZZY;
    free(why);
    return rc;
}

static struct snapshot *begin(const struct job *job, struct db_params *p, struct err *e)
{
    struct snapshot *s = xcalloc(1, sizeof *s);
    *p = job->db;
    p->schema = job->cfg->schema;
    s->schema = xstrdup(job->cfg->schema);
    s->sentinel_name = xstrdup(job->cfg->sentinel);
    s->db = db_open(p, e);
    s->meta = s->db ? db_open(p, e) : NULL;
    if (s->meta)
        return s;
    snapshot_end(s);
    return NULL;
}

static int take_by(struct snapshot *s, const struct job *job, const struct db_params *p,
                   enum config_method method, struct err *e)
{
    s->method = method;
    return method == METHOD_FUZZY ? take_fuzzy(s, job, e) : take(s, job, p, method, e);
}

/* What a scan stumbles over (ALTER, TRUNCATE, a gap in the log) holds no lock up. */
static bool worth_a_copy(const struct err *e)
{
    return e->cls == ERR_CHANGED || e->cls == ERR_GAP || e->cls == ERR_NOSPACE ||
           e->cls == ERR_DAMAGED;
}

static void note_copy(const struct job *job, const struct err *e)
{
    char text[700];
    snprintf(text, sizeof text, "dumped by method copy this time: %.600s", e->text);
    if (job->note)
        job->note(job->note_arg, text);
}

struct snapshot *snapshot_take(const struct job *job, struct err *e)
{
    enum config_method method;
    struct db_params p;
    struct snapshot *s = begin(job, &p, e);
    int rc = s ? choose(job, s->db, &method, e) : -1;
    if (rc == 0) {
        rc = take_by(s, job, &p, method, e);
        if (rc < 0 && method == METHOD_FUZZY && worth_a_copy(e)) {
            note_copy(job, e);
            snapshot_end(s); /* a scan leaves a HANDLER open, or a connection that was lost */
            s = begin(job, &p, e);
            rc = s ? take_by(s, job, &p, METHOD_COPY, e) : -1;
        }
    }
    if (rc == 0)
        return s;
    snapshot_end(s);
    return NULL;
}

enum config_method snapshot_method(const struct snapshot *s)
{
    return s->method;
}

const struct db_tables *snapshot_tables(const struct snapshot *s)
{
    return &s->tables;
}

const struct server_id *snapshot_server(const struct snapshot *s)
{
    return &s->server;
}

const struct db_point *snapshot_point(const struct snapshot *s)
{
    return &s->point;
}

const struct db_point *snapshot_start(const struct snapshot *s)
{
    return s->fuzzy ? fuzzy_start(s->fuzzy) : &s->point;
}

const char *snapshot_nonce(const struct snapshot *s)
{
    return s->sentinel.nonce;
}

struct db *snapshot_db(struct snapshot *s)
{
    return s->meta;
}

const char *snapshot_create(const struct snapshot *s, size_t i)
{
    return s->creates[i];
}

int snapshot_read(struct snapshot *s, size_t i, db_tuple_fn *fn, void *arg, uint64_t *rows,
                  struct err *e)
{
    const struct db_table *t = &s->tables.list[i];
    struct buf from = {0};
    int rc;
    sql_ident(&from, t->name);
    if (s->fuzzy)
        rc = fuzzy_read(s->fuzzy, i, fn, arg, rows, e);
    else if (s->copies && !t->transactional)
        rc = copies_read(s->copies, i, fn, arg, rows, e);
    else
        rc = db_read_rows(t->transactional ? s->versioned : s->db, t, from.p, fn, arg, rows, e);
    if (rc < 0)
        err_step(e, "reading table %s", t->name);
    buf_free(&from);
    return rc;
}

int snapshot_check(struct snapshot *s, struct err *e)
{
    struct db_sentinel now;
    struct server_id server;
    int rc = db_server_id(s->db, &server, e) < 0 || read_sentinel(s, &now, e) < 0 ||
                     (s->versioned && db_exec(s->versioned, "DO 1", e) < 0) ||
                     (s->copies && copies_check(s->copies, e) < 0)
                 ? -1
                 : 0;
    if (rc == 0 && server.start != s->server.start)
        rc = err_set(e, ERR_CHANGED, 0, "the server was restarted during the dump");
    if (rc == 0 && strcmp(now.nonce, s->sentinel.nonce) != 0)
        rc = err_set(e, ERR_CHANGED, 0, "the sentinel changed during the dump");
    if (rc < 0)
        err_step(e, "check after the dump");
    return rc;
}

void snapshot_end(struct snapshot *s)
{
    if (!s)
        return;
    free_creates(s->creates, s->tables.count);
    copies_end(s->copies);
    fuzzy_free(s->fuzzy);
    db_close(s->meta);
    db_close(s->versioned);
    db_close(s->db); /* ends the locks and drops its copies */
    db_tables_free(&s->listed);
    db_tables_free(&s->tables);
    free(s->schema);
    free(s->sentinel_name);
    free(s);
}
