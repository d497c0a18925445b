#include "restore/live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "mysql/job.h"
#include "mysql/scan.h"
#include "restore/restore.h"
#include "restore/running.h"
#include "sql/literal.h"

/* The longest time that a comparison waits for a table that another session has locked. */
#define LOCK_TRY_SECONDS 5

enum finding { SAME, DIFFERENT, UNREAD };

struct compare {
    const struct job *job;
    struct db *db;
    char *schema; /* as the server writes it */
    struct db_tables tables;
    struct db_scan_facts facts;
    uint64_t rows, hash; /* read so far; of one table's rows */
};

/* ---- the rows ---- */

static int live_add_hash(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct compare *c = arg;
    (void)e;
    c->hash += sql_tuple_hash(tuple, len);
    return 0;
}

static int live_chunk_read(void *arg, uint64_t rows, int64_t us, struct err *e)
{
    struct compare *c = arg;
    (void)us, (void)e;
    c->rows += rows;
    progress_at(c->job->progress, c->rows, 0);
    return 0;
}

/* Compares the rows of the living table with those of the rebuilt one. UNREAD says nothing about
 * them: they cannot be read while the game writes, or another session has locked, altered or
 * flushed the table. */
static int live_compare_rows(struct compare *c, const struct target *t, enum finding *out,
                             uint64_t *rows, struct err *e)
{
    const struct db_table *live = db_table_find(&c->tables, t->name);
    const char *why;
    enum db_scan_way way = live ? db_scan_way(live, &c->facts, &why) : DB_SCAN_NONE;
    *out = live ? UNREAD : DIFFERENT;
    if (way == DB_SCAN_NONE)
        return 0;
    progress_table(c->job->progress, t->name);
    c->hash = 0;
    if (db_scan_rows(c->db, live, way, live_add_hash, live_chunk_read, c, rows, e) < 0)
        return e->cls == ERR_CHANGED || e->num == DB_LOCK_TIMEOUT ? 0 : -1;
    *out = *rows == t->rows && c->hash == t->hash ? SAME : DIFFERENT;
    return 0;
}

/* ---- did the table stand still? ---- */

/* Reads what changed between the moment that was rebuilt and now. */
static int read_since(struct compare *c, const struct db_binlog_pos *moment, struct replay *since,
                      struct err *e)
{
    const struct replay_source s = {.db = &c->job->db,
                                    .schema = c->schema,
                                    .sentinel = c->job->cfg->sentinel,
                                    .from = moment,
                                    .tables = &c->tables,
                                    .archive_fd = -1,
                                    .progress = c->job->progress};
    progress_phase(c->job->progress, "reading the journal", 0, 0);
    return replay_read(&s, since, e);
}

/* Fails for a table that differs although nothing in the log has changed it: a restore now would
 * not bring back what is there. */
static int other_rows(const struct target *t, uint64_t rows, struct err *e)
{
    err_set(e, ERR_QUERY, 0,
            "table %s: rebuilt from dump and journal it has %" PRIu64
            " rows and differs from the live table, which has %" PRIu64
            " rows and was not changed meanwhile",
            t->name, t->rows, rows);
    return err_hint(e, "take a new dump: worldkeeper --dump; changes of this table bypass the "
                       "binary log (SET sql_log_bin=0, or a replica applies them)");
}

/* ---- the order of things ---- */

/* Opens a second connection, because the first one is in the scratch schema and has the settings of
 * a restore. */
static int open_live(struct compare *c, struct err *e)
{
    c->db = job_open(c->job, e);
    c->schema = c->db ? db_schema_name(c->db, c->job->cfg->schema, e) : NULL;
    return c->schema && db_lock_wait(c->db, LOCK_TRY_SECONDS * 1000, e) == 0 &&
                   db_tables(c->db, c->schema, false, &c->tables, e) == 0 &&
                   db_table_keys(c->db, c->schema, &c->tables, e) == 0
               ? db_scan_facts(c->db, c->schema, &c->facts, e)
               : -1;
}

/* Compares the rows first, then reads the log: a table with the same rows needs no proof. */
static int restore_live_compare(struct compare *c, struct restore *r,
                                const struct db_binlog_pos *moment, struct err *e)
{
    SCOPED(replay_free) struct replay since = {0};
    const struct plan *plan = &r->plan;
    SCOPED(xfree) uint64_t *rows = xcalloc(plan->count + 1, sizeof *rows);
    SCOPED(xfree) enum finding *found = xcalloc(plan->count + 1, sizeof *found);
    int rc = 0;
    progress_phase(c->job->progress, "comparing with the live world", plan->rows, 0);
    for (size_t i = 0; i < plan->count && rc >= 0; i++) {
        const struct target *t = &plan->list[i];
        if (t->skip || !t->memory || t->raw || strcmp(t->name, c->job->cfg->sentinel) == 0)
            continue;
        rc = live_compare_rows(c, &plan->list[i], &found[i], &rows[i], e);
        r->out->live.same += found[i] == SAME;
        r->out->live.moved += found[i] == DIFFERENT;
        r->out->live.unread += found[i] == UNREAD;
    }
    if (rc >= 0 && r->out->live.moved && moment)
        rc = read_since(c, moment, &since, e);
    bool proven = rc >= 0 && since.delta && since.at_end && !since.to_loss && !since.gap[0];
    for (size_t i = 0; i < plan->count && rc >= 0 && proven; i++)
        if (found[i] == DIFFERENT && db_table_find(&c->tables, plan->list[i].name) &&
            !delta_find(since.delta, plan->list[i].name))
            rc = other_rows(&plan->list[i], rows[i], e);
    return rc < 0 ? -1 : 0;
}

/* Compares the drill's tables with the living world. Only the newest dump with its journal gives
 * the living world, and only while that world lives. If the journal has a gap, the log proves
 * nothing. */
int live_compare(struct restore *r, struct err *e)
{
    const struct replay *j = &r->journal;
    const struct state *st = r->opt->state;
    fault_point("drill.loaded");
    if (!restore_newest(r->opt->dump) || !st || !st->known || !r->out->journal.used || !j->at_end ||
        j->to_loss || strcmp(j->nonce, st->nonce) != 0)
        return 0;
    struct compare c = {.job = r->job};
    int rc =
        open_live(&c, e) < 0 ? -1 : restore_live_compare(&c, r, j->gap[0] ? NULL : &j->upto, e);
    r->out->live.read = rc == 0;
    db_scan_facts_free(&c.facts);
    db_tables_free(&c.tables);
    free(c.schema);
    db_close(c.db);
    return rc < 0 ? err_step(e, "comparing with the live world") : 0;
}
