#include "restore/catchup.h"

#include "base/line.h"
#include "mysql/job.h"
#include "restore/fresh.h"
#include "restore/restore.h"
#include "restore/running.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/arrival.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "base/number.h"
#include "binlog/prerequisites.h"
#include "journal/archive.h"
#include "journal/replay_tables.h"
#include "mysql/schema.h"
#include "mysql/world_tables.h"
#include "store/lives.h"

/* A sign of life this long after a loss cannot be explained by a clock that is slightly off. */
#define LATER_MS fault_wait(60000)
/* Statements are in the log in the order in which they ended, with the second in which they began.
 * So two neighboring seconds may be out of order on a busy server; that is not reported. */
#define TIMES_APART_MS 1000
#define LOOK_US 100000 /* interval of checks for a dump that is arriving */

/* Returns whether the journal came with the fetched dump. With mode = off the server's log is not
 * read, but the store's part of the journal is used. This is checked before the dump's definitions
 * are waited for, because they need not have arrived yet. */
static bool came_with_dump(const struct restore *r)
{
    SCOPED(archive_free) struct archive a = {0};
    const struct manifest *m = r->m;
    struct err none;
    if (!r->opt->fetched || !m->end.file[0])
        return false;
    SCOPED(file_close) int dirfd = archive_dir(r->job->cfg, false, &none);
    return dirfd >= 0 && archive_load(dirfd, m->world, &a, &none) == 0 &&
           archive_find(&a, &m->end, m->log_created_at, &m->server) >= 0;
}

/* Returns whether the journal is used. A dump chosen by name is restored as it is, and so is one
 * that replaces a living world. A drill does what a restore of a lost world would do now. */
static bool wants_journal(const struct restore *r)
{
    enum config_journal mode = r->job->cfg->journal;
    if (r->opt->at.ms)
        return true;
    bool logged = r->m->end.file[0] || r->m->unlogged[0]; /* the reason is worth reporting */
    bool any = mode == JOURNAL_AUTO ? logged : mode == JOURNAL_OFF ? came_with_dump(r) : true;
    return any && restore_is(r)->journal && !r->out->over_living && !r->dump_alone &&
           restore_to_now(r->opt);
}

void catchup_figures(struct restore *r)
{
    const struct replay *j = &r->journal;
    struct restore_result *out = r->out;
    out->journal.used = true;
    out->journal.whole = !j->gap[0] && (j->to_loss || (restore_is(r)->to_end && j->at_end));
    out->journal.changes = j->changes;
    out->journal.filed = j->filed;
    out->journal.last = j->last;
    out->journal.gap_at = j->gap_at;
    out->journal.older = j->older;
    out->journal.upto = j->upto;
    out->journal.part = j->part;
    memcpy(out->journal.gap, j->gap, sizeof j->gap);
}

/* Adds to the plan what the changes need: higher counters and more room in their tables. */
static void keep_figures(struct restore *r)
{
    const struct replay *j = &r->journal;
    catchup_figures(r);
    r->out->journal.rows = 0;
    r->out->journal.unsynced = db_variable_number(r->db, "sync_binlog") != 1;
    for (size_t i = 0; i < r->plan.count; i++) {
        struct target *t = &r->plan.list[i];
        struct delta_figures f = {0};
        const struct delta_table *changes = delta_find(j->delta, t->name);
        if (!changes)
            continue;
        delta_figures(changes, &f);
        t->auto_increment = replay_counter_after(j, t->name, t->auto_increment);
        /* MEMORY rows have their full length, however short the values are. */
        t->heap_need = number_sum(t->heap_need, number_product(4, f.bytes));
        r->out->journal.rows += f.rows;
    }
}

static void forget_journal(struct restore *r)
{
    replay_free(&r->journal);
    r->out->journal.used = r->out->journal.whole = r->out->journal.part = false;
}

static void leave_journal_out(struct restore *r, const char *why)
{
    line_set(r->out->journal.gap, sizeof r->out->journal.gap, "%s", why);
    forget_journal(r);
}

/* Waits until the table's definition has arrived. Reports progress meanwhile, because silence
 * counts as a stall. If the arrival has ended early, the next read returns the reason. */
static void await_definition(const struct restore *r, size_t i)
{
    struct arrival *a = verify_arrival(r->file);
    const struct manifest_table *t = &r->m->tables[i];
    uint64_t part = r->m->parts.bytes, seen = 0;
    uint64_t end = t->offset + (part && part < t->length ? part : t->length);
    while (a && arrival_here(a) < end && !arrival_ended(a)) {
        uint64_t here = arrival_here(a);
        if (here != seen)
            progress_at(r->job->progress, 0, here);
        seen = here;
        usleep(LOOK_US);
    }
}

static bool catchup_same_key(const struct db_table *a, const struct db_table *b)
{
    return a->key_count == b->key_count &&
           (a->key_count == 0 || memcmp(a->key, b->key, a->key_count * sizeof *a->key) == 0);
}

/* Reads table `i`'s definition from the dump and adds it to `then`, unless `now` has the
 * same columns and key. `now` is the existing table if it has the dump's columns, else NULL.
 * A definition that cannot be parsed completely is skipped: changes of its table count as a
 * gap then. */
static int catchup_read_definition(const struct restore *r, size_t i, const struct db_table *now,
                                   struct db_tables *then, struct err *e)
{
    SCOPED(buf_free) struct buf create = {0};
    struct db_table t;
    char hash[17];
    bool mariadb = strstr(r->m->server.version, "MariaDB") != NULL;
    await_definition(r, i);
    if (verify_definition(r->file, i, &create, e) < 0)
        return -1;
    if (!create.len || db_create_table_read(create.p, create.len, mariadb, &t) < 0)
        return 0;
    db_columns_hash(&t, hash);
    t.memory = true;
    if (strcmp(hash, r->m->tables[i].columns_hash) == 0 && !(now && catchup_same_key(now, &t)))
        then->list[then->count++] = t;
    else
        db_table_free(&t);
    return 0;
}

/* Changes of a table that was dropped or altered since the dump were logged in its old form, so
 * the definition comes from the dump. A key may differ too, which only the definition shows. */
static int read_definitions(const struct restore *r, const struct db_tables *now,
                            struct db_tables *then, struct err *e)
{
    const struct manifest *m = r->m;
    int rc = 0;
    *then = (struct db_tables){.list = xcalloc(m->table_count + 1, sizeof *then->list)};
    for (size_t i = 0; i < m->table_count && rc == 0; i++) {
        const struct db_table *t = db_table_find(now, m->tables[i].name);
        char hash[17] = "";
        if (strcasecmp(m->tables[i].engine, "MEMORY") != 0)
            continue;
        if (t)
            db_columns_hash(t, hash);
        bool alike = t && strcmp(hash, m->tables[i].columns_hash) == 0;
        rc = catchup_read_definition(r, i, alike ? t : NULL, then, e);
    }
    db_tables_sort(then);
    return rc;
}

/* Returns whether the dump is of a life that another machine took over, and nothing of the next
 * life was stored. `to` gets the end of the journal that was taken over: what the life had after
 * that is abandoned. */
static bool another_took(const struct restore *r, struct db_binlog_pos *to)
{
    struct lives l;
    struct life is = {.generation = r->m->generation};
    snprintf(is.nonce, sizeof is.nonce, "%s", r->m->nonce);
    lives_load(r->job->dirfd, &l);
    const struct ancestor *a = lives_ancestor(&l, &is);
    if (!a || !a->file[0] || !restore_is(r)->elsewhere || strcmp(a->ended, "restored") == 0)
        return false;
    *to = (struct db_binlog_pos){.pos = a->pos};
    snprintf(to->file, sizeof to->file, "%s", a->file);
    return true;
}

/* Forgets the tables that an ALTER TABLE made durable: they kept their rows. */
static void leave_durable(struct restore *r)
{
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        const struct replay_table *own = replay_table(&r->journal, t->name);
        if (own && own->closed && own->engine && t->outlives && t->skip)
            replay_table_forget(&r->journal, t->name);
    }
}

/* Reads the journal from both sources. Both name the world's own schema, even if another schema is
 * restored into. */
static int replay_world(struct restore *r, struct err *e)
{
    const struct config *cfg = r->job->cfg;
    SCOPED(binlog_prerequisites_free) struct binlog_prerequisites able = {0};
    SCOPED(db_tables_free) struct db_tables tables = {0}, then = {0};
    struct err why = {0};
    struct server_id here;
    SCOPED(xfree) char *schema = db_schema_name(r->db, cfg->schema, e);
    if ((!schema && e->cls != ERR_REFUSED) || db_server_id(r->db, &here, e) < 0)
        return -1;
    if (!schema) /* a new server without the schema: reading segments does not need it */
        schema = xstrdup(cfg->schema);
    struct replay_source s = {.db = &r->job->db,
                              .schema = schema,
                              .sentinel = cfg->sentinel,
                              .from = &r->m->end,
                              .m = r->m,
                              .tables = &tables,
                              .then = &then,
                              .known = r->opt->state ? r->opt->state->nonce : NULL,
                              .until = r->opt->at,
                              .fresh = restore_is(r)->partial,
                              .parts = restore_is(r)->partial && !r->opt->at.ms,
                              .archive_fd = archive_dir(cfg, false, &why),
                              .elsewhere = restore_is(r)->elsewhere,
                              .another = !server_same_place(&here, &r->m->server),
                              .progress = r->job->progress};
    struct db_binlog_pos taken_over;
    if (another_took(r, &taken_over))
        s.upto = &taken_over;
    if (s.archive_fd < 0 && why.num != ENOENT)
        job_note(r->job, "%s", why.text);
    /* --check and the follower judge the prerequisites by the same function. */
    int rc = world_tables(r->db, cfg, schema, &tables, e) < 0
                 ? -1
                 : binlog_judge(r->db, cfg->schema, &able, e);
    if (rc == 0 && able.silent)
        s.unlogged = able.reason;
    if (rc == 0 && able.silent == BINLOG_FED)
        s.all_unlogged = able.reason;
    if (cfg->journal == JOURNAL_OFF && !r->opt->at.ms)
        s.all_unlogged = "[journal] mode = off: the journal is not read";
    if (rc == 0 && (db_table_keys(r->db, schema, &tables, e) < 0 ||
                    read_definitions(r, &tables, &then, e) < 0))
        rc = -1;
    SCOPED(xfree) bool *stays = xcalloc(tables.count + 1, sizeof *stays);
    for (size_t i = 0; i < tables.count; i++) {
        const struct target *t = plan_find(&r->plan, tables.list[i].name);
        stays[i] = tables.list[i].carried && (!t || t->skip);
    }
    s.unwanted = stays;
    if (rc == 0)
        rc = replay_read(&s, &r->journal, e);
    if (rc == 0)
        rc = fresh_define(r, schema, &tables, e);
    if (rc == 0 && !s.another && !s.elsewhere)
        leave_durable(r);
    if (rc == 0)
        replay_finish(&r->journal, r->m, &tables);
    if (s.archive_fd >= 0)
        close(s.archive_fd);
    return rc;
}

/* Returns whether durable tables of the game are restored. They come from the dump alone: if
 * changes were applied to the other tables only, the world would be a mix of two moments. */
static bool restores_durable(const struct restore *r)
{
    for (size_t i = 0; i < r->plan.count; i++)
        if (!r->plan.list[i].skip && !r->plan.list[i].memory && !r->plan.list[i].carried)
            return true;
    return false;
}

/* Returns whether the lost world was made of this dump with these changes, or with more of them.
 * The state shows that. It is needed if the journal does not reach the restore that created the
 * lost world, or cannot continue after it, for example because that restore was not logged. */
static bool was_made_of_this(const struct restore *r, const struct state *st)
{
    const struct state_made *made = &st->made;
    return r->journal.gap[0] && made->upto.file[0] && strcmp(made->nonce, st->nonce) == 0 &&
           strcmp(made->dump, r->out->dump) == 0 &&
           db_binlog_pos_compare(&r->journal.upto, &made->upto) <= 0;
}

/* Returns why the journal cannot be used, or NULL. If the server was not restarted, the statements
 * that emptied the tables are in the log too, and cannot be distinguished from wanted changes. If
 * the lost world was created in a way that the log does not show, it is not the world of the dump.
 * The log may know a newer world than the state does, because the server can die right after a
 * swap, before the state is written. */
static const char *no_use(const struct restore *r)
{
    const struct state *st = r->opt->state;
    /* A fetched dump replaces a world that --init made, so no world of this state was lost. A state
     * that is older than the dump, and older than the restore that made the dump's world, does not
     * know that world. */
    bool any_moment = r->opt->at.ms == 0;
    bool old = st && st->generation < r->m->generation && st->alive_at.ms < r->m->at.ms;
    bool ours = st && st->known && !r->opt->fetched && !old;
    if (restore_is(r)->to_end) /* the journal's end is the moment */
        return NULL;
    if (any_moment && r->journal.at_end && !r->journal.to_loss)
        return "the server did not restart after the dump, so its log may contain the statement "
               "that emptied the world; to restore the changes before that statement too, add --at "
               "TIME";
    if (any_moment && ours && !r->journal.known_met && !was_made_of_this(r, st))
        return r->journal.gap[0] && !r->journal.at_end
                   ? r->journal.gap
                   : "the lost world is not the world of the dump: another one replaced it, and "
                     "the log does not show how";
    return NULL;
}

/* Fails if the journal has a gap before a requested moment, which is restored exactly or not at
 * all. */
static int refuse_gap(const struct restore *r, struct err *e)
{
    const struct replay *j = &r->journal;
    int64_t second = r->opt->at.ms / 1000;
    char t[TEXT_SHORT];
    if (!r->opt->at.ms)
        return 0;
    if (j->to_loss && j->lost_at.ms < r->opt->at.ms) {
        err_set(e, ERR_REFUSED, 0, "at that moment there was no world: it was lost at %s",
                text_utc(j->lost_at, t));
        return err_hint(e, "choose a moment before that, or after the next dump");
    }
    /* The log has whole seconds: if it ends at a statement of exactly the requested second, the
     * moment before that statement is within this second too. */
    bool in_time =
        j->gap_is_group && (j->gap_at.ms / 1000 == second || j->latest.ms / 1000 == second);
    /* The dump was chosen by name and was not finished at the requested moment, so it may contain
     * later changes. If a change after the dump is not later than that moment, the dump is not
     * later either. */
    if (r->m->at.ms + r->m->took_ms > r->opt->at.ms && !in_time && !j->last.ms) {
        err_set(e, ERR_REFUSED, 0, "dump %s may contain changes made after that moment",
                r->out->dump);
        return err_hint(e, CATCHUP_BY_MOMENT);
    }
    if (!j->gap[0] || in_time)
        return 0;
    err_set(e, ERR_REFUSED, 0, "the journal from dump %s does not reach that moment: %s",
            r->out->dump, j->gap);
    /* More changes may be missing in the second in which the journal breaks off. */
    wall_t whole = {j->last.ms - (j->gap_is_group ? 0 : 1000)};
    if (j->gap_at.ms && j->gap_at.ms < whole.ms) /* the log was read beyond a gap seen before */
        whole = j->gap_at;
    if (j->last.ms && whole.ms >= r->out->dump_at.ms)
        err_hint(e,
                 "the last moment before the gap is --at %s; for a later moment, use a dump taken "
                 "after the gap",
                 text_utc(whole, t));
    else
        err_hint(e, "to restore the moment of a dump: worldkeeper --restore=DUMP --into SCHEMA; "
                    "worldkeeper --list shows the dumps");
    return -1;
}

/* Reports transactions that carry times up to the requested one but follow a later one. The order
 * of the log decides: the later one may be the mistake that the restore is to undo. */
static void warn_of_late(struct restore *r)
{
    const struct replay *j = &r->journal;
    bool one = j->late.count == 1, ahead = j->late.to.ms > clock_wall().ms;
    char at[TEXT_SHORT], first[TEXT_SHORT], to[TEXT_SHORT];
    if (!j->late.count || j->late.apart_ms <= TIMES_APART_MS)
        return;
    result_warn(r->out,
                "the times in the log are not in order: %" PRIu64
                " transaction%s that carr%s times up to %s follow%s one of %s in the log and %s "
                "not in the restored world; %s--at %s or later includes %s",
                j->late.count, one ? "" : "s", one ? "ies" : "y", text_utc(r->opt->at, at),
                one ? "s" : "", text_utc(j->late.first, first), one ? "is" : "are",
                ahead ? "once that time has passed, " : "", text_utc(j->late.to, to),
                one ? "it" : "them");
}

/* Reports a gap of the whole journal. What is known of single tables stays true, and is
 * appended. */
static void catchup_doubt(struct restore *r, wall_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void catchup_doubt(struct restore *r, wall_t at, const char *fmt, ...)
{
    struct replay *j = &r->journal;
    char text[sizeof j->gap];
    va_list ap;
    va_start(ap, fmt);
    line_vset(text, sizeof text, fmt, ap);
    va_end(ap);
    SCOPED(xfree) char *both = xasprintf("%s%s%s", text, j->part ? "; " : "", j->gap);
    line_set(j->gap, sizeof j->gap, "%s", both);
    if (!j->part || at.ms < j->gap_at.ms)
        j->gap_at = at;
    j->part = j->gap_is_group = false;
}

static bool catchup_doubtless(const struct restore *r)
{
    return !r->journal.gap[0] || r->journal.part;
}

/* Doubts the journal because of gaps that were seen in the log while the server was up. They may no
 * longer be visible in it. Each gap comes after the dump that was the newest then, and so after
 * every older dump. Dump names sort by time. The time of a gap can still be restored, so a
 * requested moment is concerned only if it is in a later second. */
static void recall_gap(struct restore *r)
{
    const struct state *st = r->opt->state;
    int64_t second = r->opt->at.ms ? r->opt->at.ms / 1000 : INT64_MAX;
    json_t *list = st && st->gaps[0] ? json_loads(st->gaps, 0, NULL) : NULL, *gap;
    size_t i;
    json_array_foreach(list, i, gap)
    {
        wall_t at = js_moment(gap, "at");
        if (json_is_true(json_object_get(gap, "log")) && catchup_doubtless(r) &&
            at.ms / 1000 < second && strcmp(js_text(gap, "dump"), r->m->name) >= 0)
            catchup_doubt(r, at, "the log may be incomplete: reading stopped (%s)",
                          js_text(gap, "why"));
    }
    json_decref(list);
}

/* At startup, MySQL removes an incomplete transaction from its log, with everything written after
 * it. */
static void doubt_small_cache(struct restore *r)
{
    static const char name[] = "max_binlog_stmt_cache_size";
    int64_t most = db_is_mariadb(r->db) ? -1 : db_variable_number(r->db, name);
    if (catchup_doubtless(r) && most >= 0 && most != INT64_MAX)
        catchup_doubt(r, r->journal.last,
                      "the log may be incomplete: %s is %" PRId64
                      ", and MySQL may not log what follows a statement that exceeds it",
                      name, most);
}

/* Doubts the journal if a known world was alive after the loss. If an operator loaded a dump of a
 * known world manually, the log does not show it. */
static void doubt_later_life(struct restore *r)
{
    const struct state *st = r->opt->state;
    const struct replay *j = &r->journal;
    int64_t lost = j->lost_at.ms - r->out->server.ahead_ms + LATER_MS;
    char t[TEXT_SHORT];
    bool known = st && st->known && j->to_loss && j->lost_at.ms;
    if (catchup_doubtless(r) && !restore_is(r)->to_end && known && st->alive_at.ms > lost)
        catchup_doubt(
            r, j->last,
            "a world existed after that loss, at %s, and the log does not show its origin",
            text_utc(st->alive_at, t));
}

/* Reads the journal before doubting it, because most doubts depend on where it ends. */
static int use_journal(struct restore *r, struct err *e)
{
    progress_phase(r->job->progress, "reading the journal", 0, 0);
    mono_t began = clock_mono();
    if (replay_world(r, e) < 0)
        return err_step(e, "reading the journal");
    if (r->journal.damage[0] && !r->journal.gap[0]) /* else the gap mentions it */
        job_note(r->job, "%s", r->journal.damage);
    r->out->journal.took_ms = mono_since(clock_mono(), began);
    const char *why = no_use(r);
    bool here = !why && !restore_is(r)->elsewhere;
    if (here)
        recall_gap(r);
    if (here && r->opt->at.ms == 0) {
        doubt_small_cache(r);
        doubt_later_life(r);
    }
    if (why)
        leave_journal_out(r, why);
    else if (fresh_plan(r, e) < 0)
        return -1;
    else
        keep_figures(r);
    if (refuse_gap(r, e) < 0)
        return -1;
    warn_of_late(r);
    return 0;
}

int catchup_read(struct restore *r, struct err *e)
{
    static const char durable[] =
        "durable tables are also restored, but their changes are not in the journal";
    forget_journal(r);
    if (!wants_journal(r))
        return 0;
    if (restores_durable(r) && r->opt->at.ms)
        return err_set(e, ERR_REFUSED, 0, "--at is not possible: %s", durable);
    if (restores_durable(r))
        leave_journal_out(r, durable);
    else if (use_journal(r, e) < 0)
        return -1;
    fault_point("restore.journal_read");
    if (r->out->journal.gap[0])
        job_note(r->job, "%s: %s",
                 r->opt->at.ms ? "up to the last change before the journal ends in that second"
                 : r->opt->mode == RESTORE_DRILL ? "the journal is incomplete"
                 : r->out->journal.part          ? "only a part of the journal is restored"
                 : r->out->journal.used          ? "the journal ends before the loss"
                                                 : "the journal is skipped",
                 r->out->journal.gap);
    return 0;
}
