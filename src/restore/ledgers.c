#include "restore/ledgers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/files.h"
#include "ledger/ledger.h"
#include "ledger/sql.h"
#include "mysql/job.h"
#include "restore/permit.h"
#include "restore/plan.h"
#include "restore/restore.h"
#include "restore/result.h"
#include "restore/running.h"
#include "restore/shadow_table.h"

#define TABLES 4 /* ledger, rollup, marks, request ids */

/* The tables of one ledger of the config, as the plan has them; NULL: there is none. */
struct parts {
    const struct config_ledger *cfg;
    char rollup[LEDGER_OWN_MAX], mark[LEDGER_OWN_MAX]; /* names */
    struct target *ledger, *totals, *marks;
    const struct db_table *live_totals;
};

static struct parts find_parts(const struct plan *p, const struct config_ledger *c)
{
    struct parts l = {.cfg = c, .ledger = plan_find(p, c->table)};
    l.totals = plan_find(p, ledger_own(l.rollup, c, "rollup"));
    l.marks = plan_find(p, ledger_own(l.mark, c, "mark"));
    l.live_totals = db_table_find(&p->live, l.rollup);
    return l;
}

static bool ledgers_restored(const struct target *t)
{
    return t && !t->skip;
}

/* Returns whether the ledger is restored while its totals stay as they are. A durable rollup
 * outlives the loss. */
static bool is_mixed(const struct parts *l)
{
    return ledgers_restored(l->ledger) && !ledgers_restored(l->totals) && l->live_totals;
}

int ledgers_lock(struct db *db, const struct config *c, struct err *e)
{
    for (unsigned i = 0; i < c->ledger_count; i++)
        if (ledger_lock(db, c->schema, c->ledgers[i].name, c->restore_lock_wait, e) < 0)
            return -1;
    return 0;
}

/* ---- before anything is changed ---- */

/* Refuses --table with only some tables of a ledger. The totals would then have rows that the
 * ledger does not have, or lack some. */
static int refuse_some(const struct names *only, const struct config_ledger *c,
                       const char *const names[TABLES], const bool there[TABLES], struct err *e)
{
    const char *named = NULL, *other = NULL;
    SCOPED(names_free) struct names all = {0};
    SCOPED(buf_free) struct buf option = {0};
    for (size_t i = 0; i < TABLES; i++) {
        bool asked = names_has(only, names[i]);
        if (asked)
            named = named ? named : names[i];
        else if (there[i])
            other = other ? other : names[i];
        if (asked || there[i])
            names_add(&all, names[i]);
    }
    if (named && other) {
        err_set(e, ERR_REFUSED, 0,
                "[ledger %s]: restoring table %s without %s would leave ledger and totals at "
                "different times",
                c->name, named, other);
        restore_tables_option(&all, &option);
        err_hint(e, "restore them together:%s; or restore one beside the world with --into SCHEMA",
                 option.p);
    }
    return named && other ? -1 : 0;
}

/* Judges a ledger by the tables that are in the server now. A dump does not show which of them are
 * durable there. */
static int guard_one(struct restore *r, const struct config_ledger *l,
                     const char *const names[TABLES], struct err *e)
{
    const struct config *c = r->job->cfg;
    const struct restore_options *opt = r->opt;
    bool there[TABLES], memory[TABLES];
    for (size_t i = 0; i < TABLES; i++) {
        struct db_tables t;
        if (db_table_named(r->db, c->schema, names[i], &t, e) < 0)
            return -1;
        there[i] = t.count > 0;
        memory[i] = there[i] && t.list[0].memory;
        db_tables_free(&t);
    }
    if (opt->tables.count && refuse_some(&opt->tables, l, names, there, e) < 0)
        return -1;
    bool mixed = memory[0] && there[1] && !memory[1] && !c->restore_all;
    bool wanted = !opt->tables.count || names_has(&opt->tables, l->table);
    if (!opt->at.ms || !mixed || !wanted)
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "[ledger %s]: --at cannot restore table %s, which is durable: totals would keep what "
            "was rolled up after that time",
            l->name, names[1]);
    return err_hint(e,
                    "--into SCHEMA restores beside the world; [dump] engines = all with [restore] "
                    "scope = all brings durable tables back too");
}

int ledgers_guard(struct restore *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    const struct restore_options *opt = r->opt;
    int rc = 0;
    for (unsigned i = 0; i < c->ledger_count && rc == 0 && restore_is(r)->world; i++) {
        const struct config_ledger *l = &c->ledgers[i];
        const char *const names[TABLES] = {l->table, LEDGER_OWN(l, "rollup"), LEDGER_OWN(l, "mark"),
                                           LEDGER_OWN(l, "request")};
        if (opt->tables.count || opt->at.ms)
            rc = guard_one(r, l, names, e);
    }
    return rc;
}

/* ---- before the load ---- */

/* Refuses a dump that is older than the rollup over a living world, because its rows would be in
 * totals twice. */
static int refuse_older(const struct parts *l, const char *dump, struct err *e)
{
    bool stays =
        ledgers_restored(l->ledger) && !l->totals && l->live_totals && l->live_totals->memory;
    if (!stays || l->live_totals->rows == 0)
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "[ledger %s]: dump %s has table %s without %s: the totals would stay unchanged",
            l->cfg->name, dump, l->cfg->table, l->rollup);
    return err_hint(e,
                    "--into SCHEMA restores beside the world; or DROP TABLE %s, %s first, and "
                    "worldkeeper --init after the restore",
                    l->rollup, l->mark);
}

/* Raises the counter before the rows are loaded, so that the table need not be copied for it
 * afterwards. */
static void ledgers_raise_counter(struct target *t, uint64_t above)
{
    if (t->auto_increment <= above)
        t->auto_increment = above + 1;
}

/* Plans one ledger. Beside a durable rollup, a MEMORY ledger of an earlier moment is allowed, but
 * with a warning. */
static int plan_one(struct restore *r, const struct parts *l, struct err *e)
{
    const struct manifest *m = r->m;
    struct restore_result *out = r->out;
    if (refuse_older(l, m ? m->name : out->dump, e) < 0)
        return -1;
    if (is_mixed(l) && (out->over_living || !restore_to_now(r->opt)))
        result_warn(r->out,
                    "[ledger %s]: table %s is durable and stays unchanged: its totals are newer "
                    "than the ledger and keep what was rolled up after the dump",
                    l->cfg->name, l->rollup);
    for (size_t i = 0; m && i < m->ledger_count; i++)
        if (ledgers_restored(l->ledger) && strcmp(m->ledgers[i].name, l->cfg->name) == 0)
            ledgers_raise_counter(l->ledger, m->ledgers[i].end_id);
    return 0;
}

int ledgers_plan(struct restore *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    int rc = 0;
    for (unsigned i = 0; i < c->ledger_count && rc == 0 && (!r->plan.into || r->plan.copy); i++) {
        struct parts l = find_parts(&r->plan, &c->ledgers[i]);
        rc = plan_one(r, &l, e);
    }
    return rc;
}

/* ---- after the load ---- */

/* Raises the next id of the ledger above the last one of every total. Otherwise the view would
 * count a new row as one that is in a total already. The journal may have added and deleted rows
 * since, and a durable rollup is newer. */
static int raise_ids(struct shadow_session *s, const struct parts *l, struct err *e)
{
    struct db_figures now;
    const char *totals = ledgers_restored(l->totals) ? l->totals->shadow : l->rollup;
    SCOPED(xfree) char *end = db_one_with(
        s->db, "SELECT COALESCE(MAX(end_id),0) FROM ?? " DB_ONLY_TABLE, DB_ARGS(totals), e);
    if (!end)
        return db_table_missing(e) ? 0 : -1;
    uint64_t last = strtoull(end, NULL, 10);
    if (last == 0)
        return 0;
    if (db_figures(s->db, s->plan->schema, l->ledger->shadow, &now, e) < 0)
        return -1;
    ledgers_raise_counter(l->ledger, last);
    if (now.auto_increment > last)
        return 0;
    /* ALTER copies the table. The copy of a MEMORY table gets the size limit of this session. */
    if (l->ledger->heap &&
        db_execf(s->db, e, "SET SESSION max_heap_table_size=%" PRIu64, l->ledger->heap) < 0)
        return -1;
    return shadow_counter(s, l->ledger, e);
}

static int set_mark(struct db *db, const char *table, const char *what, wall_t at, uint64_t value,
                    struct err *e)
{
    return db_exec_with(db, "REPLACE INTO ?? VALUES (?,$,$+" DB_ONLY_0("??") ")",
                        DB_ARGS(table, what, DB_NUMBER((uint64_t)at.ms), DB_NUMBER(value), table),
                        e);
}

/* Sets the marks of a ledger beside a newer rollup. Rows of the ledger are in totals already: the
 * next run must treat them as left by an interrupted run, not as rows with earlier ids. The number
 * of the last file is set too, because the files of kept rows are as new as the rollup, but no
 * time: which of the files count is not known. */
static int leave_open(struct shadow_session *s, const struct parts *l, struct err *e)
{
    const char *marks = ledgers_restored(l->marks) ? l->marks->shadow : l->mark;
    struct ledger_files files;
    int rc = set_mark(s->db, marks, "open", clock_wall(), l->ledger->rows, e);
    if (rc < 0 || !ledgers_restored(l->marks))
        return rc;
    if (ledger_files_list(s->plan->job->dirfd, l->cfg->name, &files, e) < 0)
        return -1;
    if (files.highest)
        rc = set_mark(s->db, marks, "file", (wall_t){0}, files.highest, e);
    ledger_files_free(&files);
    return rc;
}

int ledgers_loaded(struct restore *r, struct err *e)
{
    const struct job *job = r->job;
    const struct plan *p = &r->plan;
    struct shadow_session s = {.db = r->db, .plan = &r->plan};
    int rc = 0;
    for (unsigned i = 0; i < job->cfg->ledger_count && rc == 0 && !p->into; i++) {
        struct parts l = find_parts(p, &job->cfg->ledgers[i]);
        if (ledgers_restored(l.ledger) && l.ledger->memory &&
            (ledgers_restored(l.totals) || l.live_totals))
            rc = raise_ids(&s, &l, e);
        if (rc == 0 && is_mixed(&l) && !r->out->journal.whole &&
            (ledgers_restored(l.marks) || db_table_find(&p->live, l.mark)))
            rc = leave_open(&s, &l, e);
        if (rc < 0)
            err_step(e, "[ledger %s]", l.cfg->name);
    }
    return rc;
}
