#include "dump/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/line.h"
#include "binlog/prerequisites.h"
#include "dump/copies.h"
#include "dump/format.h"
#include "dump/fuzzy.h"
#include "mysql/job.h"
#include "mysql/session.h"
#include "mysql/world_tables.h"
#include "sql/literal.h"
#include "sql/shown_table.h"

/* A waiting lock request blocks all statements that come after it, so each attempt is short. */
#define LOCK_TRY_SECONDS 5

/* Measures how long writers waited. They wait from the lock request on, because later statements
 * queue behind it. */
static void snapshot_waited(struct snapshot *s)
{
    int64_t ms = s->asked.ms ? mono_since(clock_mono(), s->asked) : 0;
    s->wait_ms = ms > s->wait_ms ? ms : s->wait_ms;
    s->asked = (mono_t){0};
}

/* True if the rows of a table match the binlog position only while the table is locked. */
static bool needs_lock(const struct db_table *t)
{
    return !t->transactional || t->carried;
}

/* Chooses the tables to lock and returns their number. InnoDB tables whose changes are not in
 * the journal need no lock, because a consistent snapshot reads them. */
static size_t choose_locked(struct snapshot *s)
{
    size_t n = 0;
    if (s->method == METHOD_FUZZY)
        s->locked = fuzzy_copied(&s->listed, s->job->cfg->sentinel);
    else
        s->locked = xcalloc(s->listed.count + 1, sizeof *s->locked);
    for (size_t i = 0; i < s->listed.count; i++) {
        s->locked[i] |= s->method != METHOD_FUZZY && needs_lock(&s->listed.list[i]);
        n += s->locked[i];
    }
    return n;
}

/* Locks all tables in one statement, which cannot deadlock with similar statements. */
static int lock_tables(struct snapshot *s, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    const char *comma = "LOCK TABLES ";
    for (size_t i = 0; i < s->listed.count; i++) {
        if (!s->locked[i])
            continue;
        buf_adds(&sql, comma);
        sql_ident(&sql, s->listed.list[i].name);
        buf_adds(&sql, " READ");
        comma = ", ";
    }
    mono_t deadline = mono_add(clock_mono(), s->job->cfg->dump_stall);
    int rc;
    for (;;) {
        s->asked = clock_mono();
        rc = db_exec_len(s->db, sql.p, sql.len, e);
        if (rc < 0)
            snapshot_waited(s);
        if (rc == 0 || !db_lock_busy(e) || mono_reached(clock_mono(), deadline))
            break;
        progress_at(s->job->progress, 0, 0);
        /* The pause lets writers run that wait for our request. After a deadlock a short pause
         * is enough. */
        usleep(e->num == DB_DEADLOCK ? 50000 : 1000000);
    }
    if (rc < 0 && db_lock_busy(e))
        err_hint(e,
                 "a game session holds LOCK TABLES or a long statement; SHOW PROCESSLIST names it");
    if (rc < 0)
        err_step(e, "locking the tables");
    return rc;
}

/* Lists the tables to dump. Excludes the lease tables, which are not part of the world: an old
 * copy would lower the generation and name an earlier holder. */
static int snapshot_list_tables(const struct config *c, struct db *db, struct db_tables *out,
                                struct err *e)
{
    if (c->dump_all) {
        /* a table that cannot be opened must not be missing from the dump without an error */
        SCOPED(db_tables_free) struct db_tables closed = {0};
        if (db_closed_tables(db, c->schema, &closed, e) < 0)
            return -1;
        if (closed.count) {
            err_set(e, ERR_QUERY, 0, "the server cannot open table %s", closed.list[0].name);
            return err_hint(e, "CHECK TABLE shows the reason; repair or drop the table");
        }
    }
    if ((c->dump_all ? db_tables(db, c->schema, true, out, e)
                     : world_tables(db, c, c->schema, out, e)) < 0)
        return -1;
    for (size_t i = out->count; i-- > 0;)
        if (db_sentinel_lease(c->sentinel, out->list[i].name))
            db_tables_remove(out, &out->list[i]);
    for (size_t i = 0; i < out->count; i++)
        out->list[i].carried = out->list[i].transactional && world_own(c, out->list[i].name);
    return 0;
}

/* Checks that no ALTER TABLE has hidden a table of the newest dump from the list. Otherwise dumps
 * without the table would in time replace all dumps that contain it. */
static int none_is_hidden(const struct snapshot *s, struct err *e)
{
    const struct config *c = s->job->cfg;
    for (size_t i = 0; s->newest && i < s->newest->table_count; i++) {
        const char *name = s->newest->tables[i].name;
        bool own = world_own(c, name);
        SCOPED(db_tables_free) struct db_tables now = {0};
        if ((strcasecmp(s->newest->tables[i].engine, "MEMORY") != 0 && !own && !c->dump_all) ||
            db_sentinel_lease(c->sentinel, name))
            continue;
        int hidden = db_table_hidden(s->db, c->schema, &s->listed, name, &now, e);
        if (hidden < 0)
            return err_step(e, "asking for table %s", name);
        if (hidden && (now.list[0].memory || c->dump_all || (own && now.list[0].transactional)))
            return err_set(e, ERR_CHANGED, 0, "table %s was altered while the dump began", name);
    }
    return 0;
}

/* Checks that the tables are the same before and after locking. */
static int same_tables(const struct db_tables *a, const struct db_tables *b, struct err *e)
{
    char x[17], y[17];
    for (size_t i = 0; i < b->count; i++) {
        const struct db_table *t = db_table_find(a, b->list[i].name);
        if (t)
            db_columns_hash(t, x);
        db_columns_hash(&b->list[i], y);
        if (!t || strcmp(x, y) != 0 || t->memory != b->list[i].memory)
            return err_set(e, ERR_CHANGED, 0, "table %s was altered while the dump began",
                           b->list[i].name);
    }
    return a->count == b->count
               ? 0
               : err_set(e, ERR_CHANGED, 0, "a table was dropped while the dump began");
}

/* Reads the sentinel. If its row is missing, the world is lost and must not be dumped. */
static int snapshot_read_sentinel(struct snapshot *s, struct db_sentinel *out, struct err *e)
{
    if (db_sentinel_read(s->db, s->job->cfg->schema, s->job->cfg->sentinel, out, e) < 0)
        return -1;
    if (out->rows != 1) {
        err_set(e, ERR_CHANGED, 0,
                "the sentinel table %s holds %u rows, not 1: its row is missing or duplicated",
                s->job->cfg->sentinel, out->rows);
        return err_hint(e, "worldkeeper --restore restores a lost world; worldkeeper --init adopts "
                           "an existing one");
    }
    return 0;
}

static void free_creates(char **creates, size_t count)
{
    for (size_t i = 0; creates && i < count; i++)
        free(creates[i]);
    free(creates);
}

/* Returns the CREATE TABLE statement of each table, or NULL on error. */
static char **read_creates(struct snapshot *s, const struct db_tables *tables, struct err *e)
{
    char **creates = xcalloc(tables->count + 1, sizeof *creates);
    for (size_t i = 0; i < tables->count; i++) {
        creates[i] = db_create_table(s->meta, s->job->cfg->schema, tables->list[i].name, e);
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

/* Checks that the definitions did not change, so that the rows match the definitions in the
 * dump. */
static int same_creates(const struct snapshot *s, char *const *before, struct err *e)
{
    for (size_t i = 0; i < s->tables.count; i++) {
        SCOPED(buf_free) struct buf was = {0}, is = {0};
        format_uncounted(&was, before[i], strlen(before[i]));
        format_uncounted(&is, s->creates[i], strlen(s->creates[i]));
        if (strcmp(was.p, is.p) != 0)
            return err_set(e, ERR_CHANGED, 0, "table %s was altered while it was read",
                           s->tables.list[i].name);
    }
    return 0;
}

/* Reads exact row counts and definitions while the copies are made. The locks prevent any
 * change, and hundreds of tables take a while. */
static int snapshot_describe(struct snapshot *s, struct err *e)
{
    return snapshot_list_tables(s->job->cfg, s->meta, &s->tables, e) < 0 ||
                   same_tables(&s->listed, &s->tables, e) < 0 ||
                   !(s->creates = read_creates(s, &s->tables, e)) ||
                   db_exec(s->meta, "SET SESSION lock_wait_timeout=" SESSION_LOCK_WAIT, e) < 0
               ? -1
               : 0;
}

static int plan_copies(struct snapshot *s, struct err *e)
{
    s->copies = copies_plan(&s->params, s->db, &s->listed, s->locked, e);
    return s->copies ? 0 : -1;
}

/* Does what is possible before locking: opens connections and plans the copies. */
static int snapshot_prepare(struct snapshot *s, size_t locked, struct err *e)
{
    if (locked < s->listed.count) {
        s->versioned = db_open(&s->params, e);
        if (!s->versioned ||
            db_exec(s->versioned, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", e) < 0)
            return -1;
    }
    /* This timeout is for describing the tables while the world waits. MariaDB opens every table
     * of the schema, even one that another session is creating (CREATE TABLE … SELECT); waiting
     * for it is not worthwhile. Durable tables are not locked by us, and another session may
     * hold them briefly. */
    bool no_wait = db_is_mariadb(s->meta) && !s->job->cfg->dump_all;
    if (db_lock_wait(s->meta, no_wait ? 0 : 1000, e) < 0)
        return -1;
    return s->method == METHOD_COPY && locked ? plan_copies(s, e) : 0;
}

/* Reads the snapshot's time and binlog position on the connection that holds the locks. */
static int see_moment(struct snapshot *s, struct err *e)
{
    struct db_sentinel again;
    if (snapshot_read_sentinel(s, &again, e) < 0)
        return -1;
    if (strcmp(again.nonce, s->sentinel.nonce) != 0)
        return err_set(e, ERR_CHANGED, 0, "the sentinel changed while the dump began");
    db_binlog_pos(s->db, &s->point);
    s->start = s->point;
    return s->versioned ? db_exec(s->versioned, "START TRANSACTION WITH CONSISTENT SNAPSHOT", e)
                        : 0;
}

/* With the locks held, copies the tables while `look` reads what the locks keep unchanged. Then
 * unlocks. */
static int copy_locked(struct snapshot *s, int (*look)(struct snapshot *, struct err *),
                       struct err *e)
{
    copies_start(s->copies);
    int rc = look(s, e);
    /* If a table was changed, that error explains more than the failed copy. */
    struct err ignored;
    if (copies_finish(s->copies, rc < 0, s->job->progress, rc < 0 ? &ignored : e) < 0)
        return -1;
    rc = db_exec(s->db, "UNLOCK TABLES", e);
    snapshot_waited(s);
    return rc;
}

/* Takes a snapshot with the methods copy and lock. */
static int take_locked(struct snapshot *s, struct err *e)
{
    size_t locked = choose_locked(s);
    if (snapshot_prepare(s, locked, e) < 0)
        return -1;
    fault_point("dump.listed");
    if (locked && lock_tables(s, e) < 0)
        return -1;
    fault_point("dump.locked");
    if (see_moment(s, e) < 0)
        return -1;
    return s->copies ? copy_locked(s, snapshot_describe, e) : snapshot_describe(s, e);
}

/* ---- fuzzy ---- */

/* Returns the counter. MySQL reports none if all numbers are used up. */
static uint64_t locked_counter(const struct db_figures *f)
{
    return f->auto_increment ? f->auto_increment : UINT64_MAX;
}

/* Sets the counters, and the row counts where known, to those at the time of the rows. The
 * tables were described later. */
static void set_counters(struct snapshot *s)
{
    for (size_t i = 0; i < s->tables.count; i++) {
        struct db_table *t = &s->tables.list[i];
        char *was = s->creates[i];
        if (s->locked[i])
            t->rows = s->figures[i].rows;
        if (t->auto_increment == 0)
            continue;
        t->auto_increment =
            s->locked[i] ? locked_counter(&s->figures[i]) : fuzzy_counter(s->fuzzy, i);
        s->creates[i] = shown_table_with_counter(was, t->auto_increment);
        free(was);
    }
}

/* Reads the figures of the locked tables one by one. Listing all tables would take time in
 * proportion to their number. */
static int read_figures(struct snapshot *s, struct err *e)
{
    s->figures = xcalloc(s->listed.count + 1, sizeof *s->figures);
    if (db_fresh_statistics(s->meta, e) < 0)
        return -1;
    for (size_t i = 0; i < s->listed.count; i++)
        if (s->locked[i] &&
            db_figures(s->meta, s->job->cfg->schema, s->listed.list[i].name, &s->figures[i], e) < 0)
            return -1;
    return 0;
}

/* Reads the binlog position of the rows. While the tables without a key are locked, no change to
 * them is logged, so the position matches their copies. The scanned tables can be merged up to
 * any position after the scan. */
static int end_scan(struct snapshot *s, size_t locked, struct err *e)
{
    if (locked == 0)
        return fuzzy_position(s->db, &s->point, e);
    progress_phase(s->job->progress, "locking", 0, 0);
    if (db_lock_wait(s->db, LOCK_TRY_SECONDS * 1000, e) < 0 || plan_copies(s, e) < 0)
        return -1;
    if (lock_tables(s, e) < 0) {
        if (e->num == DB_NO_TABLE)
            e->cls = ERR_CHANGED;
        return -1;
    }
    fault_point("dump.locked");
    return fuzzy_position(s->db, &s->point, e) < 0 ? -1 : copy_locked(s, read_figures, e);
}

/* Takes a snapshot with the method fuzzy. No lock keeps the scanned tables from changing until
 * they are described. The binlog shows changes during the scan; comparing definitions shows
 * changes before or after it. */
static int take_fuzzy(struct snapshot *s, struct err *e)
{
    if (db_table_keys(s->db, s->job->cfg->schema, &s->listed, e) < 0)
        return -1;
    char **before = read_creates(s, &s->listed, e);
    if (!before)
        return -1;
    fault_point("dump.listed");
    size_t locked = choose_locked(s);
    s->fuzzy = fuzzy_scan(s->job, s->db, &s->listed, s->locked, &s->start, &s->wait_ms, e);
    int rc = s->fuzzy && end_scan(s, locked, e) == 0 ? fuzzy_merge(s->fuzzy, &s->point, e) : -1;
    if (rc == 0) {
        if (locked == 0)
            fault_point("dump.locked");
        rc = snapshot_describe(s, e) < 0 ? -1 : same_creates(s, before, e);
    }
    if (rc == 0)
        set_counters(s);
    free_creates(before, s->listed.count);
    return rc;
}

/* Does what all methods have in common. snapshot_check() reads the sentinel again at the end: it
 * must be ours both before and after. */
static int dump_snapshot_take(struct snapshot *s, enum config_method method, struct err *e)
{
    s->method = method;
    if (method != METHOD_FUZZY)
        progress_phase(s->job->progress, "locking", 0, 0);
    if (db_server_id(s->db, &s->server, e) < 0 || snapshot_read_sentinel(s, &s->sentinel, e) < 0 ||
        (method != METHOD_FUZZY && db_lock_wait(s->db, LOCK_TRY_SECONDS * 1000, e) < 0) ||
        snapshot_list_tables(s->job->cfg, s->db, &s->listed, e) < 0)
        return -1;
    fault_point("dump.list_read");
    if (none_is_hidden(s, e) < 0)
        return -1;
    return method == METHOD_FUZZY ? take_fuzzy(s, e) : take_locked(s, e);
}

/* Returns the reason not to scan if no table is left to scan, because method copy then does the
 * same without reading the binlog. Otherwise lists the tables without a key in `copied`. */
static char *none_scanned(const struct db_tables *tables, const char *sentinel,
                          struct names *copied)
{
    SCOPED(xfree) bool *keyless = fuzzy_copied(tables, sentinel);
    size_t n = 0, others = 0;
    for (size_t i = 0; i < tables->count; i++) {
        n += keyless[i];
        others += strcmp(tables->list[i].name, sentinel) != 0;
    }
    if (n && n == others)
        return xstrdup(
            "no table has a primary key, which is needed to match rows with later changes");
    for (size_t i = 0; copied && i < tables->count; i++)
        if (keyless[i])
            names_add(copied, tables->list[i].name);
    return NULL;
}

char *snapshot_no_fuzzy(const struct config *c, struct db *db, struct names *copied, struct err *e)
{
    SCOPED(binlog_prerequisites_free) struct binlog_prerequisites able = {0};
    SCOPED(db_tables_free) struct db_tables tables = {0};
    SCOPED(db_scan_facts_free) struct db_scan_facts facts = {0};
    char *why = NULL;
    err_clear(e);
    if (c->dump_all)
        return xstrdup("durable tables are also dumped ([dump] engines = all)");
    if (c->journal == JOURNAL_OFF)
        return xstrdup("[journal] mode = off");
    if (binlog_prerequisites(db, c->schema, &able, e) < 0)
        return NULL;
    if (able.reason)
        why = xstrdup(able.reason);
    else if (world_tables(db, c, c->schema, &tables, e) == 0 &&
             db_table_keys(db, c->schema, &tables, e) == 0 &&
             db_scan_facts(db, c->schema, &facts, e) == 0 &&
             !(why = fuzzy_refusal(&tables, &facts)))
        why = none_scanned(&tables, c->sentinel, copied);
    return why;
}

/* Chooses the method: fuzzy if possible, else copy. A method set in the config is never
 * replaced. */
static int snapshot_choose(const struct job *job, struct db *db, enum config_method *method,
                           struct err *e)
{
    *method = job->cfg->dump_method;
    if (*method != METHOD_AUTO && *method != METHOD_FUZZY)
        return 0;
    SCOPED(xfree) char *why = snapshot_no_fuzzy(job->cfg, db, NULL, e);
    if (!why && e->cls != ERR_NONE)
        return -1;
    if (why && *method == METHOD_FUZZY) {
        err_set(e, ERR_REFUSED, 0, "[dump] method = fuzzy is not possible: %s", why);
        return err_hint(e, "method = auto uses the best that is possible");
    }
    *method = why ? METHOD_COPY : METHOD_FUZZY;
    return 0;
}

/* Opens two connections, because under LOCK TABLES the first one sees only the tables that it
 * locked. */
static struct snapshot *snapshot_begin(const struct job *job, const struct manifest *newest,
                                       struct err *e)
{
    struct snapshot *s = xcalloc(1, sizeof *s);
    *s = (struct snapshot){.job = job, .newest = newest, .params = job->db};
    s->params.schema = job->cfg->schema;
    s->db = db_open(&s->params, e);
    s->meta = s->db ? db_open(&s->params, e) : NULL;
    if (s->meta)
        return s;
    snapshot_end(s);
    return NULL;
}

/* A changed definition makes one scan fail. The next one succeeds unless the game changes
 * definitions all the time. */
#define SCAN_TRIES 2u

/* True if the scan failed for a reason (ALTER, TRUNCATE, a gap in the binlog) that does not
 * affect a copy under locks. */
static bool worth_a_copy(const struct err *e)
{
    return e->cls == ERR_CHANGED || e->cls == ERR_GAP || e->cls == ERR_NOSPACE ||
           e->cls == ERR_DAMAGED;
}

struct snapshot *snapshot_take(const struct job *job, const struct manifest *newest, struct err *e)
{
    enum config_method method;
    struct snapshot *s = snapshot_begin(job, newest, e);
    int64_t wait_ms = 0; /* longest wait of the failed attempts */
    char warning[sizeof s->warning] = "";
    int rc =
        s && snapshot_choose(job, s->db, &method, e) == 0 ? dump_snapshot_take(s, method, e) : -1;
    for (unsigned tries = 1; rc < 0 && s && s->method == METHOD_FUZZY && worth_a_copy(e); tries++) {
        bool again = e->cls == ERR_CHANGED && tries < SCAN_TRIES;
        if (again) {
            job_note(job, "scanning the tables again: %s", e->text);
        } else {
            line_set(warning, sizeof warning, "using dump method copy this time: %s", e->text);
            job_note(job, "%s", warning);
        }
        int64_t ms = snapshot_release(s);
        wait_ms = ms > wait_ms ? ms : wait_ms;
        snapshot_end(s); /* the scan may have left a HANDLER open or lost the connection */
        s = snapshot_begin(job, newest, e);
        rc = s ? dump_snapshot_take(s, again ? METHOD_FUZZY : METHOD_COPY, e) : -1;
    }
    if (rc == 0) {
        s->wait_ms = wait_ms > s->wait_ms ? wait_ms : s->wait_ms;
        memcpy(s->warning, warning, sizeof warning);
        return s;
    }
    snapshot_end(s);
    return NULL;
}

int snapshot_read(struct snapshot *s, size_t i, db_tuple_fn *fn, void *arg, uint64_t *rows,
                  struct err *e)
{
    const struct db_table *t = &s->tables.list[i];
    SCOPED(buf_free) struct buf from = {0};
    int rc;
    sql_ident(&from, t->name);
    if (s->copies && s->locked[i])
        rc = copies_read(s->copies, i, fn, arg, rows, e);
    else if (s->fuzzy)
        rc = fuzzy_read(s->fuzzy, i, fn, arg, rows, e);
    else
        rc = db_read_rows(needs_lock(t) ? s->db : s->versioned, t, from.p, fn, arg, rows, e);
    if (rc < 0)
        err_step(e, "reading table %s", t->name);
    return rc;
}

bool snapshot_counted(const struct snapshot *s, size_t i)
{
    return s->tables.list[i].memory && (!s->fuzzy || s->locked[i]);
}

int snapshot_check(struct snapshot *s, struct err *e)
{
    struct db_sentinel now;
    struct server_id server;
    int rc = db_server_id(s->db, &server, e) < 0 || snapshot_read_sentinel(s, &now, e) < 0 ||
                     (s->versioned && db_exec(s->versioned, "DO 1", e) < 0) ||
                     (s->copies && copies_check(s->copies, e) < 0)
                 ? -1
                 : 0;
    if (rc == 0 && server.start != s->server.start)
        rc = err_set(e, ERR_CHANGED, 0, "the server was restarted during the dump");
    if (rc == 0 && strcmp(now.nonce, s->sentinel.nonce) != 0)
        rc = err_set(e, ERR_CHANGED, 0, "the sentinel changed during the dump");
    if (rc < 0)
        err_step(e, "checking after the dump");
    return rc;
}

int64_t snapshot_release(struct snapshot *s)
{
    if (s->asked.ms)
        db_exec(s->db, "UNLOCK TABLES", NULL);
    snapshot_waited(s);
    return s->wait_ms;
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
    db_close(s->db); /* releases the locks and drops its copies */
    free(s->locked);
    free(s->figures);
    db_tables_free(&s->listed);
    db_tables_free(&s->tables);
    free(s);
}
