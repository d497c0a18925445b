#include "restore/blocked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/line.h"
#include "mysql/blockers.h"
#include "mysql/job.h"
#include "restore/plan.h"
#include "restore/rename.h"
#include "restore/result.h"
#include "restore/running.h"

#define SIDE_TIMEOUT_MS 5000
#define NAMED 4 /* sessions; the others are counted */
/* Changes nothing, but waits like every DDL statement while a backup blocks changes of tables. */
#define HARMLESS "DROP TABLE IF EXISTS `" DB_OWN_PREFIX "none`"

#define HINT_GRANT                                                                                 \
    "to let a restore see and end such sessions: worldkeeper --check prints the GRANT"

struct blocked blocked_begin(struct restore *r, unsigned tries)
{
    return (struct blocked){.r = r, .tries = tries};
}

void blocked_try(struct blocked *b)
{
    b->wait = LOCK_WAIT_UNKNOWN;
    b->since = clock_mono();
}

/* Returns whether the restore replaces the table and so needs its lock. */
static bool is_replaced(void *arg, const char *table)
{
    const struct restore *r = arg;
    const struct target *t = plan_find(&r->plan, table);
    return (t && target_replaces(t)) || strcmp(table, r->job->cfg->sentinel) == 0;
}

/* ---- words ---- */

/* Appends text such as "session 12 (game@10.0.0.7, schema galaxy, idle for 31 s, last: SELECT 1)
 * holds a lock on table fleet". */
static void add_session(struct buf *b, const struct blocker *s)
{
    buf_printf(b, "%ssession %lu (", b->len ? "; " : "", s->id);
    if (s->seconds < 0)
        buf_adds(b, "of another account, which this one may not see");
    else
        buf_printf(b, "%s, %s%s, %s for %" PRId64 " s", s->account,
                   s->schema[0] ? "schema " : "no schema", s->schema, s->idle ? "idle" : "at work",
                   s->seconds);
    if (s->statement[0])
        buf_printf(b, ", %s%s", s->idle ? "last: " : "", s->statement);
    buf_adds(b, ") ");
    if (s->why == BLOCKER_BACKUP)
        buf_adds(b, "holds a backup lock or FLUSH TABLES WITH READ LOCK");
    else if (s->why == BLOCKER_HOLDS)
        buf_printf(b, "holds a lock on table %s", s->table);
    else
        buf_adds(b, s->why == BLOCKER_OPEN ? "has a transaction open" : "uses the schema");
}

/* Writes what is known of the blocking sessions, and a hint with commands that end them. */
static void blocked_compose(const struct blocked *b, const struct blockers *found, char text[LINE],
                            char hint[400])
{
    SCOPED(buf_free) struct buf list = {0}, kill = {0}, clean = {0};
    size_t shown = 0;
    bool backup = b->wait == LOCK_WAIT_BACKUP;
    for (size_t i = 0; i < found->count; i++) {
        const struct blocker *s = &found->list[i];
        backup |= found->told && s->why == BLOCKER_BACKUP;
        if (shown++ < NAMED) {
            add_session(&list, s);
            buf_printf(&kill, "%sKILL %lu", kill.len ? "; " : "", s->id);
        }
    }
    if (shown > NAMED)
        buf_printf(&list, "; and %zu more", shown - NAMED);
    text_clean(&clean, list.len ? list.p : "", 440);
    /* The list that is used otherwise says nothing about a backup. */
    if (!found->told && backup)
        line_set(text, LINE,
                 "a backup or FLUSH TABLES WITH READ LOCK blocks changes of tables; this account "
                 "cannot see which session holds it");
    else if (found->told || !list.len)
        line_set(text, LINE, "%s",
                 list.len      ? clean.p
                 : found->told ? "the server shows no session that holds a lock (a prepared "
                                 "transaction may hold one: XA RECOVER lists these)"
                               : "this account cannot see which session holds the lock");
    else
        line_set(text, LINE, "the server does not show which session holds the lock; it may be %s",
                 clean.p);
    if (backup)
        line_set(hint, 400, "wait until it ends; %s%s",
                 found->told && kill.len ? kill.p
                                         : "SHOW FULL PROCESSLIST shows it to an administrator",
                 found->told && kill.len ? " ends it if it was forgotten" : "");
    else
        line_set(hint, 400, "%s%s" HINT_GRANT, kill.len ? kill.p : "",
                 kill.len ? " in the server ends them; " : "");
}

/* ---- effects ---- */

static struct db *blocked_open_side(const struct blocked *b, struct err *e)
{
    struct db_params p = b->r->job->db;
    p.read_timeout = SIDE_TIMEOUT_MS;
    p.schema = b->r->schema;
    return db_open(&p, e);
}

static bool blocked_end_session(struct blocked *b, struct db *side, const struct blocker *s)
{
    SCOPED(buf_free) struct buf who = {0}, clean = {0};
    struct err why = {0};
    add_session(&who, s);
    text_clean(&clean, who.p, 380);
    /* Error 1094: the session has ended by itself in the meantime. */
    if (db_execf(side, &why, "KILL %lu", s->id) < 0 && why.num != 1094) {
        job_note(b->r->job, "cannot end session %lu: %s", s->id, why.text);
        return false;
    }
    result_warn(b->r->out, "%s; it blocked the swap and was ended ([restore] end_blockers)",
                clean.p);
    job_note(b->r->job, "%s and blocks the swap: ended ([restore] end_blockers = idle)", clean.p);
    return true;
}

static void blocked_report(struct blocked *b, const char *text, const char *hint)
{
    const struct job *job = b->r->job;
    if (restore_is(b->r)->passing ||
        strcmp(b->reported, hint) == 0) /* the same sessions: only seconds in text differ */
        return;
    snprintf(b->reported, sizeof b->reported, "%s", hint);
    job_note(job, "the restore waits: %s; %s", text, hint);
    if (job->blocked)
        job->blocked(job->note_arg, text, hint);
}

bool blocked_again(struct blocked *b, struct err *e)
{
    SCOPED(blockers_free) struct blockers found = {0};
    struct err why = {0};
    char text[LINE], hint[400];
    bool passing = restore_is(b->r)->passing, may = !passing && !b->r->job->cfg->restore_ends_none,
         backup = b->wait == LOCK_WAIT_BACKUP;
    int64_t waited = mono_since(clock_mono(), b->since) / 1000;
    size_t ended = 0;
    if (!db_lock_busy(e))
        return false;
    progress_at(b->r->job->progress, 0, 0);
    struct db *side = e->num == DB_LOCK_TIMEOUT ? blocked_open_side(b, &why) : NULL;
    if (side && db_blockers(side, db_session(b->r->db), is_replaced, b->r, &found, &why) == 0) {
        blocked_compose(b, &found, text, hint);
        for (size_t i = 0; i < found.count && may; i++)
            if (blockers_may_end(&found, i, b->wait, waited))
                ended += blocked_end_session(b, side, &found.list[i]);
        for (size_t i = 0; i < found.count; i++)
            backup |= found.told && found.list[i].why == BLOCKER_BACKUP;
        if (ended == 0 || ended < found.count)
            blocked_report(b, text, hint);
        err_step(e, "%s", text);
        err_hint(e, "%s", hint);
    }
    db_close(side);
    if (backup && !passing) /* waits as long as the backup lasts */
        return true;
    return b->tries > 0 && --b->tries > 0;
}

int blocked_wait_backup(struct restore *r, struct err *e)
{
    struct blocked b = blocked_begin(r, 2);
    int rc;
    do {
        blocked_try(&b);
        rc = rename_exec(r, HARMLESS, strlen(HARMLESS), &b, e);
    } while (rc < 0 && blocked_again(&b, e));
    if (rc < 0)
        return err_step(e, "before any table is changed");
    err_clear(e);
    return 0;
}
