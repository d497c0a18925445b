#include "restore/swap.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/js.h"
#include "binlog/statement.h"
#include "mysql/fenced.h"
#include "mysql/galera.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "mysql/rows.h"
#include "mysql/sentinel.h"
#include "restore/blocked.h"
#include "restore/checks.h"
#include "restore/code_make.h"
#include "restore/conflict.h"
#include "restore/constraints.h"
#include "restore/ledgers.h"
#include "restore/plan.h"
#include "restore/redefined.h"
#include "restore/rename.h"
#include "restore/result.h"
#include "restore/running.h"
#include "restore/shadow_table.h"
#include "restore/triggers.h"
#include "sql/literal.h"
#include "store/pending.h"

#define SHADOW_SENTINEL PLAN_SHADOW "sentinel"
#define SWAP_PROOF DB_OWN_PREFIX "swap" /* its comment has the digest of pending.json */
#define RENAME_TRIES 5
#define LOCK_TRIES 3

/* The steps of a swap, and what a crash after each leaves to swap_recover(), which begins the next
 * restore. Whether the RENAME took effect shows in the sentinel's row: it has the nonce of
 * pending.json only if it did.
 *
 *   conflict file            the world as it was
 *   sentinel, proof, file    the same: pending.json and all our tables are removed
 *   triggers moved           triggers on shadow tables: they are put back first
 *   RENAME                   half of it (MariaDB): undone; all of it: the new world stays, and from
 *                            here on the remaining steps are done
 *   views, routines, …       those that are missing are made
 *   conflict file whole      noted in pending.json, also by a recovery: from here on the old
 *                            tables may be gone
 *   old tables dropped       the new world, under a generation that the lease does not know
 *   lease, state             the new world, known as ours
 *   names of constraints     nothing but the file
 *   file and proof removed   nothing
 *
 * If the server crashed as well, it has emptied the new world. Then its sentinel has no row, and
 * what is left is treated as not swapped in, except for the views, routines, …, because the schema
 * is no longer empty. */

/* Returns whether the table is unchanged since the dump taken before a forced restore. */
static bool swap_in_dump(const struct restore *r, const struct target *t)
{
    const struct manifest_table *m = manifest_table(&r->before, t->name);
    return m && t->conflict_rows == m->rows && t->conflict_hash == m->rows_hash;
}

/* Returns whether the conflict file holds rows of this table. */
static bool is_saved(const struct restore *r, const struct target *t)
{
    return target_replaces(t) && t->conflict_rows > 0 && !swap_in_dump(r, t);
}

/* With GTIDs, MySQL refuses to lock MEMORY and durable tables together for writing in a logged
 * session, even if only triggers would write to them. Then as many are locked for writing as it
 * accepts. */
#define GTID_MIXED 1785

/* Locks the tables by the first combination, from `*way` on, that the server accepts. */
static int lock_plan(struct restore *r, size_t *way, struct blocked *waits, struct err *e)
{
    static const char *const ways[][2] = {
        {" WRITE", " WRITE"}, {" WRITE", " READ"}, {" READ", " READ"}};
    SCOPED(buf_free) struct buf b = {0};
    int rc = -1;
    for (; *way < sizeof ways / sizeof *ways; ++*way) {
        buf_clear(&b);
        for (size_t i = 0; i < r->plan.count; i++) {
            const struct target *t = &r->plan.list[i];
            if (!target_replaces(t))
                continue;
            buf_adds(&b, b.len ? ", " : "LOCK TABLES ");
            sql_ident(&b, t->name);
            buf_adds(&b, ways[*way][!t->memory]);
        }
        rc = b.len ? rename_exec(r, b.p, b.len, waits, e) : 0;
        if (rc == 0 || e->num != GTID_MIXED)
            break;
    }
    return rc;
}

/* A read lock can wait forever for a steady stream of writers. A write lock cannot: once it is
 * requested, no further statement starts on these tables. If it is not possible, a read lock has to
 * do, which needs a pause between the writers. RENAME is refused under LOCK TABLES, so the lock is
 * released before the swap. */
static int lock_replaced(struct restore *r, struct err *e)
{
    int rc;
    size_t way = 0;
    struct blocked waits = blocked_begin(r, LOCK_TRIES);
    do {
        blocked_try(&waits);
        rc = lock_plan(r, &way, &waits, e);
    } while (rc < 0 && blocked_again(&waits, e));
    if (rc < 0)
        err_step(e, "locking the tables to be replaced");
    return rc;
}

/* Returns the next full second. The end of a range is shown in whole seconds, and must not lie
 * before the moment. */
static wall_t next_second(void)
{
    return (wall_t){(clock_wall().ms + 999) / 1000 * 1000};
}

/* Saves the rows of the replaced tables that are not in a dump. `swapped`: the tables have other
 * names now. */
static int write_conflicts(struct restore *r, bool swapped, struct err *e)
{
    size_t n = 0;
    SCOPED(xfree) struct conflict_source *list = xcalloc(r->plan.count, sizeof *list);
    SCOPED(xfree) struct target **of = xcalloc(r->plan.count, sizeof(struct target *));
    bool memory = r->out->server.start > 0;
    for (size_t i = 0; i < r->plan.count; i++) {
        struct target *t = &r->plan.list[i];
        if (!target_replaces(t) || swap_in_dump(r, t))
            continue;
        of[n] = t;
        list[n++] = (struct conflict_source){
            .table = t->name, .from = swapped ? t->old : t->name, .columns = t->live};
        memory = memory && t->live->memory;
    }
    /* No MEMORY row is older than the server; rows of a durable table may be of any age. */
    struct conflict_about about = {.file = r->conflict_file,
                                   .from = {memory ? r->out->server.start * 1000 : 0},
                                   .to = r->conflict.to.ms ? r->conflict.to : next_second(),
                                   .emptied = !r->out->over_living && !restore_is(r)->elsewhere};
    int rc = conflict_save(r->db, r->job, list, n, &about, &r->conflict.rows, e);
    for (size_t k = 0; k < n && rc == 0; k++) {
        of[k]->conflict_rows = list[k].rows;
        of[k]->conflict_hash = list[k].hash;
    }
    r->conflict.from = r->conflict.rows ? about.from : (wall_t){0};
    return rc;
}

/* Counts and hashes the rows of a replaced table, which is called `from` now, into its target.
 * Returns 1 if they differ from those found before, 0 if not, -1 on error. */
static int swap_measure(struct restore *r, struct target *t, const char *from, struct err *e)
{
    uint64_t rows, hash;
    if (db_hash_rows(r->db, t->live, from, &rows, &hash, e) < 0)
        return -1;
    bool other = rows != t->conflict_rows || hash != t->conflict_hash;
    t->conflict_rows = rows;
    t->conflict_hash = hash;
    return other;
}

int swap_save_conflicts(struct restore *r, struct err *e)
{
    int rc = 0;
    if (lock_replaced(r, e) < 0)
        return -1;
    conflict_name(r->job->dirfd, r->conflict_file, r->generation, "");
    /* Tables of the dump just taken are measured first: unless they changed since, they need not be
     * saved again. */
    for (size_t i = 0; i < r->plan.count && rc >= 0; i++) {
        struct target *t = &r->plan.list[i];
        progress_at(r->job->progress, 0, 0);
        if (target_replaces(t) && manifest_table(&r->before, t->name))
            rc = swap_measure(r, t, t->name, e);
    }
    if (rc >= 0)
        rc = write_conflicts(r, false, e);
    if (db_exec(r->db, "UNLOCK TABLES", rc < 0 ? NULL : e) < 0)
        rc = -1;
    return rc;
}

/* Adds a table to the statement. RENAME TABLE renames one after the other, so a name that an
 * earlier part has freed may be taken. */
static void add_rename(struct buf *b, const char *from, const char *to)
{
    buf_adds(b, b->len ? ", " : "RENAME TABLE ");
    sql_ident(b, from);
    buf_adds(b, " TO ");
    sql_ident(b, to);
}

/* Marks in the binary log which world was swapped in here. */
static void add_mark(struct buf *b, const struct restore *r, const struct db_binlog_pos *upto)
{
    struct statement_mark m = {.upto = *upto};
    char text[STATEMENT_MARK_MAX];
    snprintf(m.dump, sizeof m.dump, "%s", r->made.dump);
    snprintf(m.nonce, sizeof m.nonce, "%s", r->made.nonce);
    statement_mark(&m, text);
    buf_printf(b, " %s", text);
}

/* Logs the mark of a swap that is not logged. Such a swap cannot be followed, but the log must show
 * that there was one. The mark comes before the swap, so that the first change of the new world is
 * not taken for one of the old world. */
static int log_mark(const struct restore *r, struct err *e)
{
    static const struct db_binlog_pos nowhere;
    SCOPED(buf_free) struct buf b = {0};
    buf_adds(&b, STATEMENT_MARK_CARRIER);
    add_mark(&b, r, &nowhere);
    int rc = db_exec(r->db, "SET SESSION sql_log_bin=1", e);
    if (rc == 0)
        rc = db_exec_len(r->db, b.p, b.len, e);
    if (db_exec(r->db, "SET SESSION sql_log_bin=0", rc < 0 ? NULL : e) < 0)
        rc = -1;
    return rc;
}

/* Renames all tables and the sentinel in one statement, with the mark as its comment. The replaced
 * tables keep their rows under other names until swap_tidy(). */
static int rename_all(struct restore *r, bool sentinel_there, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        if (t->skip || !t->created)
            continue;
        if (t->live)
            add_rename(&b, t->name, t->old);
        else if (t->in_way)
            add_rename(&b, t->name, t->kept);
        add_rename(&b, t->shadow, t->name);
    }
    if (sentinel_there)
        add_rename(&b, r->job->cfg->sentinel, DB_OLD_SENTINEL);
    add_rename(&b, SHADOW_SENTINEL, r->job->cfg->sentinel);
    add_mark(&b, r, &r->made.upto);
    struct blocked waits = blocked_begin(r, RENAME_TRIES);
    int rc;
    do {
        blocked_try(&waits);
        rc = rename_run(r, b.p, b.len, &waits, e);
    } while (rc < 0 && blocked_again(&waits, e));
    if (rc < 0)
        err_step(e, "swapping the tables");
    return rc;
}

/* Writes pending.json. Its digest goes to the server first, because a file that the server does not
 * know is not ours. The digest is the comment of a separate table, which is dropped once the file
 * is gone, so that a copy of the file proves nothing later. */
static int note_pending(struct restore *r, const struct db_triggers *triggers, struct err *e)
{
    const char *schema = r->schema;
    char digest[PENDING_DIGEST];
    const char *how = r->opt->at.ms          ? DB_SENTINEL_MOMENT
                      : r->opt->tables.count ? DB_SENTINEL_TABLES
                                             : "";
    SCOPED(xfree) char *from = xasprintf("%.120s%s", r->made.dump, how);
    struct pending p = {.generation = r->generation,
                        .triggers = *triggers,
                        .server_start = r->out->server.start,
                        .code = code_due(r)};
    snprintf(p.conflict, sizeof p.conflict, "%s", r->conflict_file);
    snprintf(p.nonce, sizeof p.nonce, "%s", r->made.nonce);
    snprintf(p.dump, sizeof p.dump, "%s", r->made.dump);
    p.tables.list = xcalloc(r->plan.count, sizeof *p.tables.list);
    p.checks = xcalloc(r->plan.count, sizeof *p.checks);
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        p.tables.list[p.tables.count++] = t->name;
        if (t->checks)
            p.checks[p.check_count++] = (struct pending_checks){t->name, t->checks, t->heap};
    }
    int rc = pending_digest(&p, digest, e) < 0 ||
                     db_sentinel_create(r->db, schema, SHADOW_SENTINEL, false, "", e) < 0 ||
                     db_sentinel_insert(r->db, schema, SHADOW_SENTINEL, r->made.nonce,
                                        r->generation, from, e) < 0 ||
                     db_sentinel_create(r->db, schema, SWAP_PROOF, false, digest, e) < 0
                 ? -1
             : restore_is(r)->passing ? 0 /* its whole schema is dropped */
                                      : pending_save(r->job->dirfd, &p, e);
    free(p.tables.list); /* the plan owns what they hold */
    free(p.checks);
    return rc;
}

static int drop_table(struct db *db, const char *name, struct err *e)
{
    return db_exec_with(db, "DROP TABLE IF EXISTS ??", DB_ARGS(name), e);
}

/* Removes pending.json before its proof. A crash or an error in between leaves a table that proves
 * nothing, and the next swap_recover() drops it. */
static int end_pending(struct db *db, int dirfd, struct err *e)
{
    if (pending_remove(dirfd, e) < 0)
        return -1;
    drop_table(db, SWAP_PROOF, NULL);
    return 0;
}

/* Fails if a table was altered since the plan was made, because the swap would undo the ALTER.
 * swap_note_altered() finds an ALTER that comes even later. Notes the names of the constraints of
 * the replaced tables, to be restored after the swap. */
static int note_replaced(struct restore *r, struct err *e)
{
    for (size_t i = 0; i < r->plan.count; i++) {
        struct target *t = &r->plan.list[i];
        struct buf lines = {0};
        progress_at(r->job->progress, 0, 0);
        if (!target_replaces(t))
            continue;
        SCOPED(xfree) char *was = db_create_table(r->db, r->schema, t->name, e);
        if (!was)
            return -1;
        if (t->planned && t->planned != shadow_definition_hash(was, strlen(was))) {
            err_set(e, ERR_CHANGED, 0, "table %s was altered while the world was being restored",
                    t->name);
            return err_hint(
                e, "nothing was replaced; restore again when no session alters its tables");
        }
        if (db_is_mariadb(r->db))
            continue;
        constraints_lines(&lines, t->as_dumped && t->create ? t->create : was);
        free(t->checks);
        t->checks = lines.len ? lines.p : NULL;
        if (!t->checks)
            buf_free(&lines);
    }
    return 0;
}

/* Puts triggers back and removes pending.json after a failed swap, but only if the session still
 * answers, which proves that the swap was refused. If the connection was lost, the swap may have
 * taken place. Then the file stays, and the next restore recognizes the new world by it. */
static void swap_take_back(struct restore *r, const struct db_triggers *triggers)
{
    struct err ignored;
    if (!restore_is(r)->passing && db_exec(r->db, "DO 1", &ignored) == 0 &&
        triggers_put(r->db, r->job->cfg->schema, triggers, &ignored) == 0)
        end_pending(r->db, r->job->dirfd, &ignored);
}

/* Does what only a restore into the world does right before its RENAME. */
static int swap_announce(struct restore *r, struct err *e)
{
    if (restore_is(r)->passing)
        return 0;
    if (r->job->swapping)
        r->job->swapping(r->job->note_arg, r->made.nonce, r->generation);
    fault_point("restore.before_rename");
    return rename_fence(r, r->db, e) < 0 || (!r->binlog && log_mark(r, e) < 0) ? -1 : 0;
}

/* Moves the triggers. A trigger is dropped under the lock of its table. After a failed attempt,
 * those that were moved already are moved again. */
static int move_triggers(struct restore *r, const struct db_triggers *list, struct err *e)
{
    struct blocked waits = blocked_begin(r, LOCK_TRIES);
    int rc;
    do {
        blocked_try(&waits);
        rc = triggers_move(r, list, e);
    } while (rc < 0 && blocked_again(&waits, e));
    return rc;
}

/* Swaps the loaded tables in. Everything that can be refused is tested first. pending.json is
 * written before the first trigger is touched, and the supervisor knows the new nonce before it can
 * appear in the sentinel. */
int swap_in(struct restore *r, struct err *e)
{
    SCOPED(db_triggers_free) struct db_triggers triggers = {0};
    struct db_sentinel now;
    struct err ignored;
    sigset_t stop, old;
    /* A rebuilt server has no sentinel that could be renamed away. */
    bool sentinel_there =
        db_sentinel_read(r->db, r->schema, r->job->cfg->sentinel, &now, &ignored) == 0;
    int rc = -1;
    /* SIGTERM and SIGINT wait until these few statements are done. */
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, &old);
    if (note_replaced(r, e) < 0 || triggers_replaced(r, &triggers, e) < 0 ||
        triggers_prove(r, &triggers, e) < 0 || redefined_keep(r, e) < 0 ||
        note_pending(r, &triggers, e) < 0)
        goto out;
    rc = swap_announce(r, e);
    if (rc == 0)
        rc = move_triggers(r, &triggers, e);
    if (rc == 0)
        rc = rename_all(r, sentinel_there, e);
    r->conflict.to = next_second(); /* no session wrote into the replaced tables after this */
    if (rc < 0)
        swap_take_back(r, &triggers);
    if (rc == 0 && !restore_is(r)->passing)
        fault_point("restore.renamed");
out:
    sigprocmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* Uses the present columns of a replaced table if it was altered between note_replaced() and the
 * swap, so that its rows are saved as they are. Only columns are compared, because the swap has
 * changed names in the definitions. */
static void swap_note_altered(struct restore *r, struct target *t)
{
    SCOPED(buf_free) struct buf name = {0};
    const struct db_table *now = db_table_find(&r->plan.own, t->old);
    char was[17], is[17];
    db_columns_hash(t->live, was);
    db_columns_hash(now ? now : t->live, is);
    if (strcmp(was, is) == 0)
        return;
    t->live = now;
    text_clean(&name, t->name, 64);
    result_warn(r->out,
                "table %s was altered right before it was replaced: the restore has undone that; "
                "rows found in it are saved with the altered columns",
                name.p);
}

/* Saves all replaced rows. Sessions no longer write to the old tables, so these hold everything
 * that was replaced. If that is not what was saved before the swap, the whole file is written
 * again. */
static int save_all_rows(struct restore *r, struct err *e)
{
    bool more = false;
    r->conflict.part = true;
    if (db_own_tables(r->db, r->schema, &r->plan.own, e) < 0)
        return -1;
    for (size_t i = 0; i < r->plan.count; i++) {
        struct target *t = &r->plan.list[i];
        progress_at(r->job->progress, 0, 0);
        if (!target_replaces(t))
            continue;
        swap_note_altered(r, t);
        int rc = swap_measure(r, t, t->old, e);
        if (rc < 0)
            return -1;
        more = more || rc > 0;
    }
    if (more && write_conflicts(r, true, e) < 0)
        return -1;
    r->conflict.part = false;
    if (r->conflict.rows == 0)
        return 0;
    /* The old tables are no longer needed; from here on some of them may be gone. */
    SCOPED(pending_free) struct pending p = {0};
    int rc = pending_load(r->job->dirfd, &p, e);
    p.conflict_whole = true;
    if (rc == 0 && p.there)
        rc = pending_save(r->job->dirfd, &p, e);
    return rc;
}

/* Drops all tables that a restore made. The proof stays as long as pending.json needs it. */
static int drop_own(struct db *db, const char *schema, struct progress *p, bool keep_proof,
                    struct err *e)
{
    SCOPED(db_tables_free) struct db_tables own = {0};
    if (db_own_tables(db, schema, &own, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < own.count && rc == 0; i++) {
        progress_at(p, 0, 0);
        if (!keep_proof || strcmp(own.list[i].name, SWAP_PROOF) != 0)
            rc = drop_table(db, own.list[i].name, e);
        if (rc == 0)
            fault_point("restore.table_dropped");
    }
    return rc;
}

/* Saves the new nonce as that of our world, before pending.json, which also has it, is removed. */
static int remember_world(struct db *db, const struct job *job, uint64_t generation,
                          const struct state_made *made, struct err *e)
{
    struct state st;
    struct err ignored;
    struct server_id server;
    if (db_server_id(db, &server, e) < 0)
        return -1;
    (void)state_load(job->dirfd, &st, &ignored); /* a damaged file is replaced */
    state_alive(&st, clock_wall());
    st.server = server;
    st.generation = generation;
    snprintf(st.nonce, sizeof st.nonce, "%s", made->nonce);
    state_restored(&st, made);
    if (state_save(job->dirfd, &st, e) < 0)
        return -1;
    fault_point("restore.sentinel_known");
    return 0;
}

/* Returns the name of this process, for operators who read the lease table to see which process has
 * the lease. */
static char *holder_name(void)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return xasprintf("%s:%d", host, (int)getpid());
}

/* Raises the generation of the lease. Creates the lease table too, which a rebuilt server does not
 * have. On a Galera node the generation was already claimed for the swap. */
static int raise_lease(struct db *db, const char *schema, const char *sentinel, uint64_t generation,
                       struct err *e)
{
    if (galera_node(db)[0])
        return 0;
    SCOPED(xfree) char *holder = holder_name();
    return db_lease_create(db, schema, sentinel, e) < 0
               ? -1
               : db_lease_raise(db, schema, sentinel, generation, holder, e);
}

/* Claims the generation in a separate session. If a session of MariaDB 11.8 has changed a table
 * with wsrep_on=0, the other nodes cannot read what it replicates afterwards, and they leave the
 * cluster. */
int swap_claim(const struct restore *r, struct err *e)
{
    if (!galera_node(r->db)[0])
        return 0;
    const struct config *c = r->job->cfg;
    SCOPED(xfree) char *holder = holder_name();
    struct db *db = db_open(&r->job->db, e);
    int rc = !db || galera_own_node(db, e) < 0
                 ? -1
                 : db_lease_claim(db, c->schema, c->sentinel, r->lease, r->generation, holder, e);
    db_close(db);
    return rc;
}

/* ALTER copies the table. The copy of a MEMORY table gets the size limit of this session. */
static int keep_limit(struct db *db, const struct pending_checks *c, struct err *e)
{
    return c->heap ? db_execf(db, e, "SET SESSION max_heap_table_size=%" PRIu64, c->heap) : 0;
}

/* Renames the CHECK constraints of a table. If its rows violate one of them here (checks.h), they
 * are renamed without being enforced, and then enforced one by one; those that are not are added to
 * `left`. */
static int rename_checks(struct db *db, const struct pending_checks *c, const char *now,
                         const struct buf *change, struct names *left, struct err *e)
{
    SCOPED(buf_free) struct buf names_only = {0};
    SCOPED(names_free) struct names enforced = {0};
    int rc = keep_limit(db, c, e) < 0 ? -1 : checks_alter(db, c->table, change->p, e);
    if (rc == 0 || !checks_refused(db, e))
        return rc;
    constraints_rename(&names_only, c->lines, now, &enforced);
    if (checks_alter(db, c->table, names_only.p, e) < 0)
        return -1;
    fault_point("restore.unenforced");
    return checks_enforce(db, c->table, &enforced, &enforced, left, e);
}

/* Gives the CHECK constraints of a table the names that they had in the table it replaced. */
static int names_back(struct db *db, const char *schema, const struct pending_checks *c,
                      struct names *left, struct err *e)
{
    SCOPED(buf_free) struct buf change = {0};
    SCOPED(xfree) char *now = db_create_table(db, schema, c->table, e);
    if (!now)
        return -1;
    if (constraints_rename(&change, c->lines, now, NULL) == 0)
        return 0;
    int rc = checks_utf8(db, true, 0, e);
    if (rc == 0)
        rc = rename_checks(db, c, now, &change, left, e);
    rc = checks_utf8(db, false, rc, e);
    if (rc < 0)
        err_step(e, "renaming the constraints of table %s back", c->table);
    return rc;
}

static int all_names_back(struct restore *r, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < r->plan.count && rc == 0; i++) {
        const struct target *t = &r->plan.list[i];
        SCOPED(names_free) struct names left = {0};
        progress_at(r->job->progress, 0, 0);
        if (t->checks)
            rc = names_back(r->db, r->schema, &(struct pending_checks){t->name, t->checks, t->heap},
                            &left, e);
        for (size_t k = 0; k < left.count; k++)
            checks_warn(r, t->name, left.list[k]);
    }
    return rc;
}

/* Runs the statements of swap_save_conflicts(), swap_in() and swap_tidy() in the scratch schema. No
 * file is written. */
int swap_rehearse(struct restore *r, struct err *e)
{
    if (db_nonce(r->made.nonce, e) < 0 || lock_replaced(r, e) < 0 ||
        db_exec(r->db, "UNLOCK TABLES", e) < 0 || swap_in(r, e) < 0)
        return -1;
    for (size_t i = 0; i < r->plan.count; i++)
        if (target_replaces(&r->plan.list[i]) &&
            swap_measure(r, &r->plan.list[i], r->plan.list[i].old, e) < 0)
            return -1;
    return drop_own(r->db, r->schema, r->job->progress, true, e) < 0 ||
                   raise_lease(r->db, r->schema, r->job->cfg->sentinel, r->generation, e) < 0 ||
                   all_names_back(r, e) < 0
               ? -1
               : drop_table(r->db, SWAP_PROOF, e);
}

int swap_tidy(struct restore *r, struct err *e)
{
    const struct config *c = r->job->cfg;
    int rc = save_all_rows(r, e);
    if (rc == 0)
        fault_point("restore.conflict_whole");
    if (rc == 0)
        rc = drop_own(r->db, c->schema, r->job->progress, true, e);
    if (rc == 0)
        fault_point("restore.dropped");
    if (rc == 0)
        rc = raise_lease(r->db, c->schema, c->sentinel, r->generation, e);
    if (rc == 0)
        rc = remember_world(r->db, r->job, r->generation, &r->made, e);
    /* Last, because the game waits while a table is copied. */
    if (rc == 0)
        rc = all_names_back(r, e);
    if (rc == 0)
        fault_point("restore.named");
    if (rc == 0)
        rc = end_pending(r->db, r->job->dirfd, e);
    if (rc < 0)
        err_step(e, "the world is restored, but the cleanup failed");
    return rc;
}

void swap_result(struct restore *r)
{
    struct restore_conflict *out = &r->out->conflict;
    out->part = r->conflict.part;
    if (r->conflict.rows == 0)
        return;
    *out = r->conflict;
    out->file = xasprintf("%s/%s", r->job->cfg->dump_dir, r->conflict_file);
    out->tables = json_array();
    for (size_t i = 0; i < r->plan.count; i++)
        if (is_saved(r, &r->plan.list[i]))
            json_array_append_new(out->tables,
                                  json_pack("{s:o, s:I}", "table", js_clean(r->plan.list[i].name),
                                            "rows", (json_int_t)r->plan.list[i].conflict_rows));
    job_note(r->job, "%" PRIu64 " rows found in the replaced tables are saved in %s", out->rows,
             out->file);
}

/* Returns whether the interrupted restore found the world emptied, by the conflict file that it
 * wrote. */
static bool file_says_emptied(const struct job *job, const struct pending *p)
{
    struct conflict_file f;
    struct err ignored;
    if (!p->conflict[0] || conflict_open(job->dirfd, p->conflict, &f, &ignored) < 0)
        return false;
    bool emptied = f.emptied;
    conflict_close(&f);
    return emptied;
}

/* Saves the replaced rows after an interrupted restore. All of them are still in its old tables,
 * unless the server was restarted since. Then the old tables hold less than was saved before, and
 * the rows of durable tables go to a separate file. */
static int save_left_over(struct db *db, const struct job *job, struct pending *p, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables own = {0};
    struct server_id server;
    if (p->conflict_whole)
        return 0;
    if (db_server_id(db, &server, e) < 0 || db_own_tables(db, job->cfg->schema, &own, e) < 0)
        return -1;
    SCOPED(xfree) struct conflict_source *list = xcalloc(own.count, sizeof *list);
    char file[CONFLICT_NAME_MAX], old[64];
    uint64_t rows;
    size_t n = 0;
    bool memory = true;
    for (size_t i = 0; i < p->tables.count; i++) {
        snprintf(old, sizeof old, PLAN_OLD "%06zu", i);
        const struct db_table *t = db_table_find(&own, old);
        if (!t || n == own.count)
            continue;
        memory = memory && t->memory;
        list[n++] =
            (struct conflict_source){.table = p->tables.list[i], .from = t->name, .columns = t};
    }
    /* Without a restart the old tables hold all that the first file has, and it is replaced. */
    bool same = p->conflict[0] && p->server_start == server.start;
    conflict_name(job->dirfd, file, p->generation, "-left");
    struct conflict_about about = {.file = same ? p->conflict : file,
                                   .from = {memory ? server.start * 1000 : 0},
                                   .to = clock_wall(),
                                   .emptied = file_says_emptied(job, p)};
    int rc = n ? conflict_save(db, job, list, n, &about, &rows, e) : 0;
    if (rc == 0 && n && rows)
        job_note(job,
                 "%" PRIu64
                 " rows found in tables replaced by an interrupted restore are saved in %s/%s",
                 rows, job->cfg->dump_dir, about.file);
    /* From here on some of the old tables may be gone, so the file must not be written again from
     * the others. */
    p->conflict_whole = rc == 0 && n > 0;
    return rc == 0 && n > 0 ? pending_save(job->dirfd, p, e) : rc;
}

static int rename_one(struct db *db, const char *from, const char *to, struct err *e)
{
    return db_exec_with(db, "RENAME TABLE ?? TO ??", DB_ARGS(from, to), e);
}

/* Lists all tables of the schema, and our own ones. */
static int swap_list_tables(struct db *db, const char *schema, struct db_tables *all,
                            struct db_tables *own, struct err *e)
{
    return db_tables(db, schema, true, all, e) < 0 || db_own_tables(db, schema, own, e) < 0 ? -1
                                                                                            : 0;
}

/* If the server crashes during a RENAME of many tables, only some of them are renamed (MariaDB
 * 10.11: each rename is atomic, the list is not). These are renamed back, so that every table has
 * its name again. */
static int undo_half_rename(struct db *db, const struct job *job, const struct pending *p,
                            struct err *e)
{
    const struct config *c = job->cfg;
    SCOPED(db_tables_free) struct db_tables all = {0}, own = {0};
    char old[64], fresh[64];
    int rc = 0;
    SCOPED(names_free) struct names others = {0};
    if (swap_list_tables(db, c->schema, &all, &own, e) < 0 ||
        redefined_names(db, c->schema, &others, e) < 0)
        return -1;
    for (size_t i = 0; i < p->tables.count && rc == 0; i++) {
        const char *name = p->tables.list[i];
        progress_at(job->progress, 0, 0);
        snprintf(old, sizeof old, PLAN_OLD "%06zu", i);
        snprintf(fresh, sizeof fresh, PLAN_SHADOW "%06zu", i);
        bool here = db_table_find(&all, name), has_old = db_table_find(&own, old);
        /* The statement renames the replaced table first, then the new one: both were renamed, only
         * the replaced one, or neither name is there. */
        if (has_old && here)
            rc = rename_one(db, name, fresh, e);
        if (has_old && rc == 0)
            rc = rename_one(db, old, name, e);
        else if (!here && !has_old && !names_has(&others, name) && db_table_find(&own, fresh))
            rc = rename_one(db, fresh, name, e);
    }
    if (rc == 0 && db_table_find(&own, DB_OLD_SENTINEL) && !db_table_find(&all, c->sentinel))
        rc = rename_one(db, DB_OLD_SENTINEL, c->sentinel, e);
    return rc;
}

/* Enforces the constraints that an interrupted restore has left not enforced, and adds to `left`
 * those that rows violate. */
static int enforce_rest(struct db *db, const char *schema, const struct pending_checks *c,
                        struct names *left, struct err *e)
{
    SCOPED(names_free) struct names off = {0};
    SCOPED(xfree) char *now = db_create_table(db, schema, c->table, e);
    if (!now)
        return -1;
    constraints_unenforced(now, c->lines, &off);
    if (off.count == 0)
        return 0;
    int rc = keep_limit(db, c, e);
    if (rc == 0)
        rc = checks_enforce(db, c->table, &off, &off, left, e);
    return rc < 0 ? err_step(e, "enforcing the constraints of table %s", c->table) : 0;
}

/* Restores the names of constraints. A name that cannot be restored must not keep the world
 * down. */
static int recover_names(struct db *db, const struct job *job, const struct pending *p,
                         struct err *e)
{
    for (size_t i = 0; i < p->check_count; i++) {
        struct err why;
        SCOPED(names_free) struct names again = {0}, left = {0};
        progress_at(job->progress, 0, 0);
        int rc = names_back(db, job->cfg->schema, &p->checks[i], &again, &why);
        if (rc == 0)
            rc = enforce_rest(db, job->cfg->schema, &p->checks[i], &left, &why);
        for (size_t k = 0; k < left.count; k++) {
            SCOPED(buf_free) struct buf text = {0};
            checks_describe(&text, p->checks[i].table, left.list[k]);
            job_note(job, "%s", text.p);
        }
        if (rc == 0)
            continue;
        if (db_unanswered(&why))
            return err_pass(e, &why);
        job_note(job, "%s", why.text);
    }
    return 0;
}

/* Finishes an interrupted restore. Whether the RENAME took place decides how. */
static int recover_pending(struct db *db, const struct job *job, struct pending *p, bool *swapped,
                           struct err *e)
{
    const struct config *c = job->cfg;
    struct db_sentinel now = {0};
    if (db_sentinel_read(db, c->schema, c->sentinel, &now, e) < 0 && e->num != DB_NO_TABLE)
        return -1;
    *swapped = now.rows == 1 && strcmp(now.nonce, p->nonce) == 0;
    if (!*swapped && undo_half_rename(db, job, p, e) < 0)
        return -1;
    if (triggers_recover(db, job, &p->triggers, e) < 0)
        return -1;
    return *swapped ? save_left_over(db, job, p, e) : 0;
}

static int pending_hint(const struct config *c, struct err *e)
{
    return err_hint(e,
                    "%s/pending.json lists triggers to recreate after an interrupted restore; "
                    "create those that are missing and that you trust, then remove the file",
                    c->dump_dir);
}

/* Checks that pending.json belongs to this server: only the server on which the swap was running
 * has its digest. Returns 0 with p->there false if there is nothing to put back, because the file
 * is of another server, or another supervisor has restored the world since. The file is then kept
 * under a name that is never acted on. */
static int prove_pending(struct db *db, const struct job *job, struct pending *p, struct err *e)
{
    const struct config *c = job->cfg;
    /* Other versions of this program note the digest with the sentinel. An update may come between
     * an interrupted restore and its recovery, and the world must come back nevertheless. */
    const char *const places[] = {SWAP_PROOF, SHADOW_SENTINEL, c->sentinel};
    SCOPED(db_tables_free) struct db_tables all = {0}, own = {0};
    struct server_id server;
    int known = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places && known == 0; i++)
        known = db_sentinel_noted(db, c->schema, places[i], p->digest, e);
    if (known != 0)
        return known < 0 ? -1 : 0;
    /* Checks whether the server has any of the tables, under either name. A rebuilt server has
     * none. */
    if (db_server_id(db, &server, e) < 0 || swap_list_tables(db, c->schema, &all, &own, e) < 0)
        return -1;
    /* In this case the restore is over. The same server process cannot lose tables by itself, so a
     * later restore has removed all of ours, and without triggers nothing can be missing. */
    bool over = server.start == p->server_start && own.count == 0 && p->triggers.count == 0;
    bool any = own.count > 0 || p->tables.count == 0;
    for (size_t i = 0; i < p->tables.count && !any; i++)
        any = db_table_find(&all, p->tables.list[i]) != NULL;
    if (any && !over) {
        err_set(e, ERR_REFUSED, 0,
                "pending.json is from another server or from a finished restore: its digest is not "
                "in the comment of table " SWAP_PROOF);
        return pending_hint(c, e);
    }
    if (pending_set_aside(job->dirfd, e) < 0)
        return -1;
    p->there = false;
    job_note(job, "pending.json is from a restore %s; kept as %s/" PENDING_ASIDE,
             over ? "that is finished and has no triggers to recreate"
                  : "on another server: none of its tables exist here",
             c->dump_dir);
    return 0;
}

/* Returns 1 if there was a new world that its server has emptied since, 0 if not, -1 on error. The
 * tables of such a world are in place, so that the next restore does not find the schema empty. */
static int was_emptied(struct db *db, const char *schema, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables own = {0};
    return db_own_tables(db, schema, &own, e) < 0 ? -1 : !db_table_find(&own, SHADOW_SENTINEL);
}

/* Cleans up after an interrupted restore. After a swap, pending.json stays until all of this is
 * done, so that a crash in here is recovered from as well. */
int swap_recover(struct db *db, const struct job *job, bool *swapped, struct err *e)
{
    const struct config *c = job->cfg;
    SCOPED(pending_free) struct pending p = {0};
    struct state_made made = {0}; /* its position is unknown, unless the state has it already */
    *swapped = false;
    if (pending_load(job->dirfd, &p, e) < 0)
        return pending_hint(c, e);
    int rc = db_fence(db, p.there ? &job->db : NULL, "cleanup", c->restore_lock_wait, e);
    if (rc == 0 && p.there)
        rc = ledgers_lock(db, c, e) < 0 || prove_pending(db, job, &p, e) < 0 ? -1 : 0;
    if (rc == 0 && p.there)
        rc = recover_pending(db, job, &p, swapped, e);
    int due = rc < 0 || !p.there || !p.code ? 0 : *swapped ? 1 : was_emptied(db, c->schema, e);
    if (due > 0)
        rc = code_recover(db, job, p.dump, e);
    else if (due < 0)
        rc = -1;
    /* The file is removed first, because drop_own() drops what proves it. */
    if (rc == 0 && p.there && !*swapped)
        rc = pending_remove(job->dirfd, e);
    if (rc == 0)
        rc = drop_own(db, c->schema, job->progress, *swapped, e);
    snprintf(made.nonce, sizeof made.nonce, "%s", p.nonce);
    snprintf(made.dump, sizeof made.dump, "%s", p.dump);
    /* The file is removed last, so that the next restore does whatever fails here. */
    if (rc == 0 && *swapped &&
        (raise_lease(db, c->schema, c->sentinel, p.generation, e) < 0 ||
         remember_world(db, job, p.generation, &made, e) < 0 || recover_names(db, job, &p, e) < 0 ||
         end_pending(db, job->dirfd, e) < 0))
        rc = -1;
    db_fence_end(db);
    return rc < 0 ? err_step(e, "cleaning up after an interrupted restore") : 0;
}

int swap_drop_shadows(struct db *db, const struct job *job, struct err *e)
{
    SCOPED(pending_free) struct pending p = {0};
    SCOPED(db_tables_free) struct db_tables own = {0};
    if (pending_load(job->dirfd, &p, e) < 0)
        return -1;
    int rc = p.there ? 0 : db_own_tables(db, job->cfg->schema, &own, e);
    for (size_t i = 0; i < own.count && rc == 0; i++)
        if (text_starts(own.list[i].name, PLAN_SHADOW))
            rc = drop_table(db, own.list[i].name, e);
    return rc;
}
