#include "journal/replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/line.h"
#include "binlog/decode.h"
#include "binlog/gtid.h"
#include "binlog/statement_scope.h"
#include "binlog/statement_summary.h"
#include "binlog/stream.h"
#include "journal/archive.h"
#include "journal/delta_int.h"
#include "journal/replay_tables.h"
#include "journal/segment_read.h"
#include "sql/literal.h"

#define HEARTBEAT_MS 1000
#define TRIES 20 /* each crash of the server may leave one incomplete transaction */
#define FULL_PAUSE_US 500000
#define PROGRESS_BYTES (1u << 20)
#define PROGRESS_GROUPS 4096u
/* maximum difference between the clocks of the server's machine and this one */
#define CLOCKS_APART_MS 600000
/* The search for late transactions ends after more than so many later ones in a row, so that a
 * moment long ago does not cost the reading of the whole log. */
#define LATER_MAX fault_limit("journal.later", 100000)
#define SKIPPED_MAX 8u

/* How changes are handled at this point. */
enum phase {
    PHASE_WORLD, /* changes belong to the world */
    PHASE_LOST,  /* a restart emptied the world, or a gap ended it; lasts until the next restore */
    /* the requested time is over: only definitions count, and which transactions are late */
    PHASE_LATER,
    PHASE_OVER, /* nothing more needs to be read */
};

struct run {
    const struct replay_source *s;
    struct replay *out;
    wall_t now;
    /* the present tables and those of the dump that no longer exist; borrowed */
    struct db_tables judged;
    enum phase phase;

    struct binlog *log;         /* the second source of changes, after the segments */
    struct decode *decode;      /* decodes the log */
    bool filed;                 /* the current changes come from segments */
    struct replay_place file;   /* the segment that is being read */
    struct segment_place place; /* position where reading of the log begins */

    struct {
        bool open; /* within a transaction */
        struct db_binlog_pos begins;
        wall_t at;       /* time of its commit */
        uint64_t before; /* number of changes merged before it */
        bool rejected;   /* it is skipped */
    } group;
    struct {
        bool counting;
        unsigned later; /* number of transactions in a row that are later */
        wall_t most;    /* latest time of a transaction since the requested time was over */
        bool in_time;   /* the current transaction has a time up to the requested one */
        bool of_world;  /* and it changes the world */
    } late;             /* while PHASE_LATER */
    /* Transactions that were rejected after part of them was merged: incomplete ones, or ones
     * with a change that cannot be followed. Merging cannot be undone, so everything is read
     * again without them. Collecting each transaction before merging it would not suffice,
     * because a change that contradicts the rows is detected only when it is merged. */
    struct rejected {
        struct db_binlog_pos begins;
        wall_t at; /* empty transactions of segments have the same position but an earlier time */
        /* why it cannot be followed; "" if it is incomplete */
        char gap[sizeof((struct replay *)0)->gap];
        /* rejected only for this table; "" for all tables */
        char only[256];
    } rejected[TRIES];
    size_t rejected_count;
    bool again;
    bool plain;        /* changes are merged one at a time */
    bool parts, fresh; /* as in the source, unless a restore by an older version was read */

    bool first_gtid_seen;
    struct err unasked; /* why the server could not say whether its log continues */
    /* the last transaction of each server and domain that the dump already contains; of more than
     * SKIPPED_MAX some are not known */
    struct change_gtid skipped[SKIPPED_MAX];
    size_t skipped_count;
    struct db_gtid_range dumped; /* cache of dumped_range() */
    uint64_t begun;              /* number of the segment in which reading began */
    /* number of the oldest segment of another log; 0 if there is none */
    uint64_t unfit;
    bool apart; /* segments end after the dump, but none is known to continue it */
};

static bool replay_same_place(const struct db_binlog_pos *a, const struct db_binlog_pos *b)
{
    return a->pos == b->pos && strcmp(a->file, b->file) == 0;
}

static bool partly_merged(const struct run *r)
{
    return r->group.open && r->out->changes > r->group.before;
}

/* Sets the phase. Rows are decoded only in phases that use them. */
static void set_phase(struct run *r, enum phase phase)
{
    r->phase = phase;
    if (r->decode)
        decode_rows(r->decode, phase == PHASE_WORLD);
}

/* Ends at a gap. Changes after it cannot be trusted; complete transactions before it can. */
static void end_at_gap(struct run *r, const char *why)
{
    line_set(r->out->gap, sizeof r->out->gap, "%s", why);
    r->out->gap_at = r->group.at;
    r->out->gap_is_group = r->group.open;
    set_phase(r, PHASE_LOST);
}

/* Rejects the current transaction. `gap` and `only` have the same meaning as in struct rejected. */
static void replay_reject(struct run *r, const char *gap, const char *only)
{
    if (r->rejected_count < TRIES) {
        struct rejected *g = &r->rejected[r->rejected_count++];
        g->begins = r->group.begins;
        g->at = r->group.at;
        line_set(g->gap, sizeof g->gap, "%s", gap);
        snprintf(g->only, sizeof g->only, "%s", only);
    }
    r->again = true;
    set_phase(r, PHASE_OVER);
}

static void replay_gap(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void replay_gap(struct run *r, const char *fmt, ...)
{
    char why[sizeof r->out->gap];
    va_list ap;
    va_start(ap, fmt);
    line_vset(why, sizeof why, fmt, ap);
    va_end(ap);
    if (partly_merged(r))
        replay_reject(r, why, "");
    else
        end_at_gap(r, why);
}

static void delta_waiting(struct run *r, int (*how)(struct delta *, struct err *));

/* Records a gap that concerns one table only. */
static void table_gap(struct run *r, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void table_gap(struct run *r, const char *name, const char *fmt, ...)
{
    char why[sizeof r->out->gap];
    va_list ap;
    va_start(ap, fmt);
    line_vset(why, sizeof why, fmt, ap);
    va_end(ap);
    const struct replay_table *own = replay_table(r->out, name);
    if (own && own->closed) /* for example when the transaction that closed it is read again */
        return;
    delta_waiting(r, delta_drain);
    if (!r->parts)
        replay_gap(r, "%s", why);
    else if (partly_merged(r))
        replay_reject(r, why, name);
    else
        replay_table_close(r->out, r->s->m, name, why, r->group.at);
}

static bool replay_unwanted(const struct run *r, const char *name)
{
    const struct db_table *t = r->s->unwanted ? db_table_find(r->s->tables, name) : NULL;
    return t && r->s->unwanted[t - r->s->tables->list];
}

/* Returns whether the gap concerns only a table whose rows do not come from the journal. */
static bool gap_unwanted(const struct run *r, const struct change *c)
{
    return c->scope && c->scope->count == 1 && replay_unwanted(r, c->scope->tables[0].name);
}

/* Returns whether the other tables can continue after the gap. */
static bool gap_fits(const struct run *r, const struct change *c)
{
    return r->fresh && c->scope && !partly_merged(r) &&
           replay_scope_fits(r->out, r->s->m, c->scope, r->parts);
}

/* Takes a gap. If a statement that changed tables is the first change of its transaction, it is
 * not a gap for other tables. */
static void replay_take_gap(struct run *r, const struct change *c)
{
    if (gap_unwanted(r, c))
        return;
    bool fits = gap_fits(r, c);
    delta_waiting(r, delta_drain);
    if (fits)
        replay_scope(r->out, r->s->m, c);
    else if (c->scope && c->scope->count == 1 && c->scope->tables[0].deed != SCOPE_DROPPED)
        table_gap(r, c->scope->tables[0].name, "%s", c->why);
    else
        replay_gap(r, "%s", c->why);
}

/* ---- tables ---- */

static const struct db_table *as_it_was(const struct run *r, const char *name)
{
    return r->s->then ? db_table_find(r->s->then, name) : NULL;
}

/* Lists the tables to judge. Until a statement changes a table, its definition is the dump's;
 * nothing after that statement is read. A table of the dump that no longer exists is still
 * known, because the log contains what happened to it. If only its name is known, it cannot be
 * followed. */
static void replay_list_tables(struct run *r)
{
    const struct db_tables *now = r->s->tables;
    const struct manifest *m = r->s->m;
    struct db_tables *list = &r->judged;
    list->list = xcalloc(now->count + (m ? m->table_count : 0) + 1, sizeof *list->list);
    list->any_case = now->any_case;
    for (size_t i = 0; i < now->count; i++) {
        const struct db_table *was = as_it_was(r, now->list[i].name);
        list->list[list->count++] = was ? *was : now->list[i];
    }
    for (size_t i = 0; m && i < m->table_count; i++) {
        const struct manifest_table *t = &m->tables[i];
        if (strcasecmp(t->engine, "MEMORY") != 0 || db_table_find(now, t->name))
            continue;
        const struct db_table *was = as_it_was(r, t->name);
        list->list[list->count++] = was ? *was : (struct db_table){.name = t->name, .memory = true};
    }
    db_tables_sort(list); /* sorts the dropped tables among the others */
}

/* Returns whether the dump contains the table with the change's definition. If not, the
 * definition changed in between. */
static bool replay_in_dump(struct run *r, const struct change_table *t)
{
    if (!r->s->m)
        return true;
    const struct manifest_table *mt = manifest_table(r->s->m, t->name);
    if (t->gone)
        table_gap(r, t->name, "table %s, which has changes, no longer exists", t->name);
    else if (!mt)
        table_gap(r, t->name, "table %s is not in the dump", t->name);
    else if (strcmp(mt->columns_hash, t->columns) != 0)
        table_gap(r, t->name, "the columns of table %s differ from the dump", t->name);
    else
        return true;
    return false;
}

static void replay_set_counter(struct delta_table *f, const struct change_table *t)
{
    f->counter_at = t->counter;
    f->counter_key = false;
    for (size_t i = 0; i < t->key_count; i++)
        f->counter_key |= t->counter >= 0 && t->key[i] == (unsigned)t->counter;
}

/* Begins to follow a table at its first change since it was created. */
static void begin_fresh(struct run *r, struct replay_table *made, struct change_table *t)
{
    struct delta_table *f = delta_table(r->out->delta, t->name, t->key, t->key_count);
    delta_waiting(r, delta_drain);
    delta_anew(f, t->key, t->key_count);
    replay_set_counter(f, t);
    made->changes = f;
    made->by_present = !r->filed;
    snprintf(made->columns, sizeof made->columns, "%s", t->columns);
}

static struct delta_table *replay_add_table(struct delta *d, const struct change_table *t)
{
    struct delta_table *f = delta_find(d, t->name);
    if (!f) {
        f = delta_table(d, t->name, t->key, t->key_count);
        replay_set_counter(f, t);
    }
    return f;
}

/* Returns the table's changes, or NULL if it is not followed or there is a gap. Each segment
 * lists the table again, so it may already be known. */
static struct delta_table *find_table(struct run *r, struct change_table *t)
{
    struct replay_table *own = r->out->table_count ? replay_table(r->out, t->name) : NULL;
    if ((own && own->closed) || replay_unwanted(r, t->name))
        return NULL;
    if (own && !own->changes)
        begin_fresh(r, own, t);
    if (own && strcmp(own->columns, t->columns) == 0)
        return own->changes;
    if (own)
        table_gap(r, t->name, "the columns of table %s changed", t->name);
    else if (!t->user && replay_in_dump(r, t))
        t->user = replay_add_table(r->out->delta, t);
    return own ? NULL : t->user;
}

/* ---- rows ---- */

/* Notes the AUTO_INCREMENT value of a change. Only changes that may raise the counter are
 * examined. */
static void note_counter(struct delta_table *f, const struct change *c)
{
    if (c->kind == CHANGE_TRUNCATE)
        f->counter = 0;
    if (f->counter_at < 0 || c->kind == CHANGE_TRUNCATE || c->kind == CHANGE_DELETE ||
        (c->kind == CHANGE_REPLACE && f->counter_key))
        return;
    size_t field_len;
    const char *at = sql_tuple_field(c->tuple, c->len, (size_t)f->counter_at, &field_len);
    uint64_t value = at && *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : 0;
    if (value > f->counter)
        f->counter = value;
}

/* Merges a change, if possible in the delta's thread. Tuples of segments stay in memory until the
 * second frame after their own is read; those of the log do not. */
static int delta_row(struct run *r, struct delta_table *f, const struct change *c, struct err *e)
{
    enum delta_op op = c->kind == CHANGE_INSERT   ? DELTA_INSERT
                       : c->kind == CHANGE_DELETE ? DELTA_DELETE
                                                  : DELTA_REPLACE;
    if (!r->plain && c->kind != CHANGE_UPDATE && c->kind != CHANGE_TRUNCATE)
        return r->filed ? delta_submit(r->out->delta, f, op, c->tuple, c->len, e)
                        : delta_submit_copy(r->out->delta, f, op, c->tuple, c->len, e);
    if (delta_drain(r->out->delta, e) < 0)
        return -1;
    if (c->kind == CHANGE_UPDATE)
        return delta_update(f, c->before, c->before_len, c->tuple, c->len, e);
    if (c->kind != CHANGE_TRUNCATE)
        return delta_change(f, op, c->tuple, c->len, e);
    delta_truncate(f);
    return 0;
}

/* Handles a change that contradicts the rows. If it is reported late, the responsible change is
 * unknown, so everything is read again, one change at a time. */
static void replay_contradiction(struct run *r, const char *name, const struct err *e)
{
    const struct replay_table *own = name ? replay_table(r->out, name) : NULL;
    if (!r->plain) {
        r->plain = r->again = true;
        set_phase(r, PHASE_OVER);
    } else if (own && !own->closed && r->parts) {
        /* Closes only this table, whose rows arrived without being logged. It is in no dump, and
         * no other table depends on it. */
        replay_table_close(r->out, r->s->m, name, e->text, r->group.at);
    } else {
        replay_gap(r, "%s", e->text);
    }
}

/* Counts a change of a table that is no longer followed. */
static void count_left(struct run *r, const struct change *c)
{
    struct replay_table *t = replay_table(r->out, c->table->name);
    if (t && t->closed && r->phase == PHASE_WORLD && !r->group.rejected)
        t->left++;
}

static void replay_take_row(struct run *r, const struct change *c)
{
    struct err e;
    if (r->phase != PHASE_WORLD || r->group.rejected)
        return;
    struct delta_table *f = find_table(r, c->table);
    if (!f) {
        count_left(r, c);
        return;
    }
    int rc = delta_row(r, f, c, &e);
    note_counter(f, c);
    r->out->changes++;
    if (rc < 0)
        replay_contradiction(r, c->table->name, &e);
}

/* ---- loss and restore ---- */

static void set_nonce(struct run *r, const char *nonce)
{
    snprintf(r->out->nonce, sizeof r->out->nonce, "%s", nonce);
    r->out->known_met |= r->s->known && strcmp(nonce, r->s->known) == 0;
}

/* Checks whether our restore restored the state that is merged here. It does not matter from
 * which dump, because the changes up to here lead to the same world. */
static void take_swap(struct run *r, const struct statement_mark *mark)
{
    bool same = r->phase == PHASE_LOST && r->s->m && replay_same_place(&mark->upto, &r->out->upto);
    if (!same && r->fresh && r->out->table_count) {
        /* the restore may have ended at the first created table */
        r->parts = r->fresh = false;
        r->again = true;
        set_phase(r, PHASE_OVER);
    } else if (!same) {
        replay_gap(r, "dump %s was restored meanwhile", mark->dump);
    } else if (r->s->unlogged && !r->filed) {
        replay_gap(r, "%s", r->s->unlogged);
    } else {
        set_phase(r, PHASE_WORLD);
        delta_waiting(r, delta_drain);
        r->out->to_loss = false;
        r->out->gap[0] = '\0';
        replay_tables_restored(r->out);
        set_nonce(r, mark->nonce);
    }
}

/* ---- transactions ---- */

static void replay_keep_place(struct db_binlog_pos *p, const char *file, uint64_t pos)
{
    /* compared first, because this is called three times per transaction */
    if (strcmp(p->file, file) != 0)
        snprintf(p->file, sizeof p->file, "%s", file);
    p->pos = pos;
}

/* Notes a transaction that the dump already contains. */
static void note_skipped(struct run *r, const struct change_gtid *g)
{
    size_t i = 0;
    while (i < r->skipped_count &&
           (r->skipped[i].domain != g->domain || r->skipped[i].server != g->server))
        i++;
    if (i == SKIPPED_MAX)
        return;
    r->skipped[i] = *g;
    r->skipped_count += i == r->skipped_count;
}

/* Returns the dump's last transaction of a domain. Cached, because each transaction may need it. */
static const struct db_gtid_range *dumped_range(struct run *r, uint32_t domain)
{
    if (r->dumped.least.domain != domain)
        r->dumped = db_gtid_range(r->s->from, domain);
    return &r->dumped;
}

/* Returns whether a transaction before the dump's position has a number after the dump's. If it is
 * not known when the dump's file was created, a number of another server may be one. */
static bool is_any_ahead(const struct run *r, const struct change_gtid *most)
{
    const struct manifest *m = r->s->m;
    bool unknown = m->log_created_at == 0 && most->server;
    for (size_t i = 0; i < r->skipped_count; i++) {
        const struct change_gtid *g = &r->skipped[i];
        bool ordered = db_gtid_ordered(m->server.uid, g, most);
        if (ordered ? g->seq > most->seq : unknown && g->domain == most->domain)
            return true;
    }
    return false;
}

/* Returns whether a segment fits the dump. A segment was verified to continue its log when it
 * was written, and may contain a jump. But it may belong to a log with the same file names that
 * was reset since the dump. Then the dump's GTID is not between those of the transactions before
 * and after it. In MariaDB, only transactions of the same server show that, so the next
 * transaction is examined too if this one is of another server. */
static bool segment_fits(struct run *r, const struct change_gtid *g)
{
    const struct db_gtid_range *is = dumped_range(r, g->domain);
    r->first_gtid_seen = is->least.server == 0 || is->least.server == g->server;
    if (is->least.seq == 0)
        return true;
    bool ordered = db_gtid_ordered(r->s->m->server.uid, &is->least, g);
    return (!ordered || g->seq > is->least.seq) && !is_any_ahead(r, &is->most);
}

/* Returns whether the first transaction that has a GTID continues what was read before. */
static bool first_gtid_fits(struct run *r, const struct change_gtid *g, struct err *e)
{
    if (r->filed)
        return segment_fits(r, g);
    r->first_gtid_seen = true;
    return log_is_continuous(r->s->db, &r->place.point, g, e) == 0;
}

/* Reads again without this segment. Older ones may belong to the dump's log. */
static void leave_segment(struct run *r)
{
    r->unfit = r->begun;
    r->again = true;
    set_phase(r, PHASE_OVER);
}

static void check_first_gtid(struct run *r, const struct change_gtid *g)
{
    struct err e = {0};
    if (first_gtid_fits(r, g, &e))
        return;
    if (r->filed) {
        leave_segment(r);
    } else if (e.cls == ERR_GAP) {
        replay_gap(r, "%s", e.text);
    } else {
        r->unasked = e;
    }
    set_phase(r, PHASE_OVER); /* the rest of it cannot change this result */
}

static bool any_by_present(const struct replay *r)
{
    for (size_t i = 0; i < r->table_count; i++)
        if (r->tables[i].by_present)
            return true;
    return false;
}

/* Returns whether the transaction is later than the requested time. The log has the clocks of
 * sessions, which may be set ahead (SET TIMESTAMP), so a time too far ahead of ours is ignored. */
static bool is_later_group(const struct run *r, const struct change *c)
{
    int64_t until = r->s->until.ms;
    return until && c->at.ms > until && c->at.ms <= r->now.ms + CLOCKS_APART_MS;
}

/* Ends the changes that count at a transaction that is later than the requested time. */
static void pass_time(struct run *r, wall_t at)
{
    bool world = r->phase == PHASE_WORLD;
    r->late.counting = world;
    r->late.most = r->out->late.first = at;
    r->late.in_time = r->late.of_world = false;
    r->late.later = 0;
    set_phase(r, world || any_by_present(r->out) ? PHASE_LATER : PHASE_OVER);
}

static void replay_begin_group(struct run *r, const struct change *c)
{
    replay_keep_place(&r->group.begins, c->file, c->pos);
    r->group.open = true;
    r->group.at = c->at;
    r->group.before = r->out->changes;
    r->group.rejected = false;
    for (size_t i = 0; i < r->rejected_count; i++) {
        const struct rejected *g = &r->rejected[i];
        if (!replay_same_place(&g->begins, &r->group.begins) || g->at.ms != r->group.at.ms)
            continue;
        delta_waiting(r, delta_drain);
        if (g->only[0] && r->parts)
            replay_table_close(r->out, r->s->m, g->only, g->gap, r->group.at);
        else if (g->gap[0])
            end_at_gap(r, g->gap);
        else
            r->group.rejected = true;
    }
    if (c->gtid.seq && !r->first_gtid_seen)
        check_first_gtid(r, &c->gtid);
    if (r->phase != PHASE_OVER && is_later_group(r, c))
        pass_time(r, c->at);
}

static void replay_end_group(struct run *r, const struct change *c)
{
    if (r->phase == PHASE_WORLD && !r->group.rejected) {
        replay_keep_place(&r->out->upto, c->file, c->pos);
        r->out->place = r->file;
        r->out->last = r->group.at;
        if (r->group.at.ms > r->out->latest.ms)
            r->out->latest = r->group.at;
    }
    r->group.open = false;
}

static void note_table(struct replay *out, const char *table, const struct change *c)
{
    size_t len = c->sql_len < REPLAY_STATEMENT_MAX ? c->sql_len : REPLAY_STATEMENT_MAX;
    if (out->to_loss || out->statement_count == REPLAY_STATEMENTS)
        return;
    out->statements = xgrow(out->statements, out->statement_count, sizeof *out->statements);
    out->statements[out->statement_count++] =
        (struct replay_statement){xstrdup(table), xstrndup(c->sql, len), c->at};
}

/* Notes a statement, even after a gap, because it changed the current definitions. */
static void note_statement(struct run *r, const struct change *c)
{
    const struct statement_summary *d = c->deed;
    const struct statement_scope *s = c->scope;
    for (size_t i = 0; s && c->sql && i < s->count; i++)
        note_table(r->out, s->tables[i].name, c);
    for (size_t i = 0; !s && d && i < d->count && i < STATEMENT_DEED_TABLES; i++)
        note_table(r->out, d->tables[i]->name, c);
}

static void forget_statements(struct replay *r)
{
    for (size_t i = 0; i < r->statement_count; i++) {
        free(r->statements[i].table);
        free(r->statements[i].sql);
    }
    free(r->statements);
}

/* Takes a row that could not be decoded. The gap that explains it may have been before a
 * restore. */
static void take_unread(struct run *r, const struct change *c)
{
    if (r->phase == PHASE_WORLD && !r->group.rejected)
        table_gap(r, c->table->name, "the rows of table %s have another format now",
                  c->table->name);
    count_left(r, c);
}

static bool is_fresh(const struct run *r, const char *name)
{
    return r->fresh && r->s->m && !manifest_table(r->s->m, name);
}

/* Returns whether the table is in the dump, or a change of it was read. */
static bool is_known(const struct run *r, const char *name)
{
    return (r->s->m && manifest_table(r->s->m, name)) || replay_table(r->out, name);
}

static uint64_t hash_of_statement(const struct change *c)
{
    return c->sql ? text_hash(TEXT_HASH, c->sql, c->sql_len) : 0;
}

/* Follows a new table from the statement that created it. */
static void open_created(struct run *r, const char *name, bool unsure, const struct change *c)
{
    replay_table_open(r->out, name, c->create, unsure, c->at);
    replay_table(r->out, name)->made_by = hash_of_statement(c);
}

/* Takes a creation. A follower also stores the CREATE TABLE IF NOT EXISTS of a table whose creation
 * an earlier follower stored. */
static void replay_take_created(struct run *r, const struct change *c)
{
    const char *name = c->scope->tables[0].name;
    if (c->scope->may_exist && is_known(r, name))
        return;
    if (!is_fresh(r, name)) {
        replay_take_gap(r, c);
        return;
    }
    delta_waiting(r, delta_drain);
    open_created(r, name, c->scope->may_exist || c->scope->engine, c);
}

/* Meets a table in the log. A new table may have no rows yet. */
static void meet_table(struct run *r, struct change_table *t)
{
    const struct replay_table *own = replay_table(r->out, t->name);
    if (!own)
        find_table(r, t);
}

/* Takes a CREATE TABLE IF NOT EXISTS. The table existed if the dump contains it or if its
 * creation was read before. */
static void replay_take_existing(struct run *r, const struct change *c)
{
    const char *name = c->table->name;
    const struct replay_table *own = replay_table(r->out, name);
    if (!is_fresh(r, name))
        meet_table(r, c->table);
    else if (!own)
        open_created(r, name, true, c);
}

/* Returns whether dump and journal have all rows of a table from before its ALTER TABLE with an
 * ENGINE clause, which may have made it a MEMORY table. Segments have no changes of a table of
 * another engine. */
static bool has_rows_before(const struct run *r, const char *name)
{
    const struct manifest_table *dumped = manifest_table(r->s->m, name);
    const struct replay_table *own = replay_table(r->out, name);
    if (dumped)
        return strcasecmp(dumped->engine, "MEMORY") == 0 || !r->begun;
    return own && !own->unsure;
}

static void replay_take_defined(struct run *r, const struct change *c)
{
    const char *name = c->scope ? c->scope->tables[0].name : "";
    if (c->create)
        replay_table_define(r->out, name, c->create);
    if (!c->scope || !c->scope->engine || !r->s->m || replay_unwanted(r, name) ||
        has_rows_before(r, name))
        return;
    char why[sizeof r->out->gap];
    struct change gap = *c;
    line_set(why, sizeof why,
             "table %s may have had another engine, with rows that are not in the journal", name);
    gap.why = why;
    replay_take_gap(r, &gap);
}

/* Takes what a statement did to a new table after the changes that count. `by`: the hash of its
 * text; the statement that created the table creates it again with the same columns. */
static void define_later(struct run *r, const char *name, enum scope_deed deed, uint64_t by)
{
    struct replay_table *t = replay_table(r->out, name);
    if (!t || !t->by_present)
        return;
    if (deed == SCOPE_DROPPED) {
        t->dropped = true;
    } else if (deed == SCOPE_CREATED && by && by == t->made_by) {
        t->dropped = false;
    } else {
        delta_waiting(r, delta_drain);
        replay_table_close(r->out, r->s->m, name,
                           "its definition changed later, and the log does not have the names of "
                           "its columns",
                           t->at);
    }
}

/* Takes a definition after the changes that count. A statement of which neither tables nor effect
 * are known may concern any table. Our own statements move tables and leave their columns; the
 * text in `why` has no comments. */
static void replay_take_later(struct run *r, const struct change *c)
{
    const struct statement_summary *d = c->deed;
    const struct statement_scope *s = c->scope;
    bool defines = c->kind == CHANGE_GAP || c->kind == CHANGE_CREATED;
    if (c->kind == CHANGE_EXISTS) {
        const struct replay_table *t = replay_table(r->out, c->table->name);
        if (t && t->dropped)
            define_later(r, t->name, SCOPE_CREATED, hash_of_statement(c));
    }
    if (!defines || (c->why && strstr(c->why, DB_OWN_PREFIX)))
        return;
    for (size_t i = 0; !s && !d && c->sql && i < r->out->table_count; i++)
        define_later(r, r->out->tables[i].name, SCOPE_ALTERED, 0);
    for (size_t i = 0; s && i < s->count; i++)
        define_later(r, s->tables[i].name, s->tables[i].deed, hash_of_statement(c));
    for (size_t i = 0; !s && d && i < d->count && i < STATEMENT_DEED_TABLES; i++)
        define_later(r, d->tables[i]->name, SCOPE_ALTERED, 0);
}

/* ---- late transactions ---- */

/* Returns whether reading continues only to count late transactions. */
static bool only_counts(const struct run *r)
{
    return r->phase == PHASE_LATER && !any_by_present(r->out);
}

static void stop_counting(struct run *r)
{
    r->late.counting = false;
    if (r->decode)
        decode_rows(r->decode, false);
    if (only_counts(r))
        set_phase(r, PHASE_OVER);
}

/* Begins a transaction after the requested time was over. Its rows are decoded up to the first one
 * that shows that it is of the world. */
static void late_begin(struct run *r, const struct change *c)
{
    struct err ignored;
    bool fits = !c->gtid.seq || r->first_gtid_seen || first_gtid_fits(r, &c->gtid, &ignored);
    r->late.in_time = c->at.ms <= r->s->until.ms;
    r->late.later = r->late.in_time ? 0 : r->late.later + 1;
    if (is_later_group(r, c) && c->at.ms > r->late.most.ms)
        r->late.most = c->at;
    if (r->decode)
        decode_rows(r->decode, r->late.in_time);
    if (!fits || r->late.later > LATER_MAX)
        stop_counting(r);
}

static void late_world(struct run *r)
{
    r->late.of_world = r->late.in_time;
    if (r->decode)
        decode_rows(r->decode, false);
}

static void late_end(struct run *r)
{
    struct replay *out = r->out;
    if (r->late.of_world) {
        out->late.count++;
        out->late.to = r->late.most;
        int64_t apart = r->late.most.ms - r->group.at.ms;
        if (apart > out->late.apart_ms)
            out->late.apart_ms = apart;
    }
    r->late.in_time = r->late.of_world = false;
}

/* Counts the world's late transactions: they have times up to the requested one, but follow a later
 * transaction. Counting ends where the changes of the world would end without a requested time. */
static void replay_count_late(struct run *r, const struct change *c)
{
    switch (c->kind) {
    case CHANGE_BEGIN:
        r->group.at = c->at;
        late_begin(r, c);
        break;
    case CHANGE_INSERT:
    case CHANGE_DELETE:
    case CHANGE_UPDATE:
    case CHANGE_REPLACE:
    case CHANGE_TRUNCATE:
    case CHANGE_UNREAD:
        if (!replay_unwanted(r, c->table->name))
            late_world(r);
        break;
    case CHANGE_CREATED:
        late_world(r);
        break;
    case CHANGE_END:
        late_end(r);
        break;
    case CHANGE_CUT:
        r->late.in_time = r->late.of_world = false;
        break;
    case CHANGE_GAP:
        if (gap_unwanted(r, c))
            break;
        late_world(r);
        if (gap_fits(r, c))
            break;
        late_end(r);
        stop_counting(r);
        break;
    case CHANGE_LOST:
    case CHANGE_SWAP:
        stop_counting(r);
        break;
    case CHANGE_TABLE:
    case CHANGE_EXISTS:
    case CHANGE_DEFINED:
    case CHANGE_MARKER:
    case CHANGE_UNKNOWN_TABLE:
        break;
    }
}

static int replay_take(void *arg, const struct change *c)
{
    struct run *r = arg;
    if (r->phase == PHASE_OVER)
        return 0;
    if (r->phase != PHASE_WORLD)
        replay_take_later(r, c);
    if (r->phase == PHASE_LATER && r->late.counting)
        replay_count_late(r, c);
    if (r->phase == PHASE_LATER) {
        r->group.open &= c->kind != CHANGE_END && c->kind != CHANGE_CUT;
        return 0;
    }
    bool in_world = r->phase == PHASE_WORLD;
    switch (c->kind) {
    case CHANGE_BEGIN:
        replay_begin_group(r, c);
        break;
    case CHANGE_TABLE:
        if (r->phase == PHASE_WORLD)
            meet_table(r, c->table);
        break;
    case CHANGE_EXISTS:
        if (r->phase == PHASE_WORLD)
            replay_take_existing(r, c);
        break;
    case CHANGE_CREATED:
        if (r->phase == PHASE_WORLD && !r->group.rejected)
            replay_take_created(r, c);
        break;
    case CHANGE_UNREAD:
        take_unread(r, c);
        break;
    case CHANGE_INSERT:
    case CHANGE_DELETE:
    case CHANGE_UPDATE:
    case CHANGE_REPLACE:
    case CHANGE_TRUNCATE:
        replay_take_row(r, c);
        break;
    case CHANGE_END:
        replay_end_group(r, c);
        break;
    /* the log continues without the end of the transaction, so it was never committed */
    case CHANGE_CUT:
        if (r->phase == PHASE_WORLD && partly_merged(r))
            replay_reject(r, "", "");
        r->group.open = false;
        break;
    case CHANGE_LOST:
        if (r->phase == PHASE_WORLD)
            set_phase(r, PHASE_LOST);
        if (!r->out->to_loss)
            r->out->lost_at = c->at;
        r->out->to_loss = true;
        break;
    case CHANGE_SWAP:
        take_swap(r, c->mark);
        break;
    case CHANGE_DEFINED:
        note_statement(r, c);
        if (r->phase == PHASE_WORLD && !r->group.rejected)
            replay_take_defined(r, c);
        break;
    case CHANGE_GAP:
        note_statement(r, c);
        if (r->phase == PHASE_WORLD && !r->group.rejected)
            replay_take_gap(r, c);
        break;
    case CHANGE_MARKER:
    case CHANGE_UNKNOWN_TABLE:
        break;
    }
    if (in_world && r->phase == PHASE_LOST) /* the statement that ends the journal defines, too */
        replay_take_later(r, c);
    return 0;
}

/* ---- the segments ---- */

static int replay_compare(const struct change *c, const struct db_binlog_pos *from)
{
    struct db_binlog_pos p = {.pos = c->pos};
    if (strcmp(c->file, from->file) == 0)
        return (c->pos > from->pos) - (c->pos < from->pos);
    snprintf(p.file, sizeof p.file, "%s", c->file);
    return db_binlog_pos_compare(&p, from);
}

static void delta_waiting(struct run *r, int (*how)(struct delta *, struct err *))
{
    struct err e;
    if (how(r->out->delta, &e) < 0)
        replay_contradiction(r, NULL, &e);
}

/* Returns whether a transaction is in another file with the name of the dump's: the log was
 * reset. */
static bool is_another_file(const struct run *r, const struct change *c)
{
    uint32_t was = r->s->after ? 0 : r->s->m->log_created_at;
    return was && c->created_at && c->created_at != was && strcmp(c->file, r->s->from->file) == 0;
}

/* Returns true if the replay ends before this change. Only positions between transactions count. */
static bool replay_is_past(const struct run *r, const struct change *c)
{
    bool between = c->kind != CHANGE_END && (c->kind == CHANGE_BEGIN || !r->group.open);
    return r->s->upto && between && replay_compare(c, r->s->upto) >= 0;
}

/* Reads a segment. Returns true if it was read to its end or far enough. An unreadable segment
 * is reported as damage. */
static bool replay_read_segment(struct run *r, const struct archive_segment *s)
{
    struct change c;
    struct err e;
    bool skip = true; /* skips what the dump already contains */
    uint64_t groups = 0;
    int got = 1;
    struct segment_reader *reader = segment_open(r->s->archive_fd, s->file, &e);
    while (reader && r->phase != PHASE_OVER && (got = segment_next(reader, &c, &e)) == 1 &&
           !replay_is_past(r, &c)) {
        if (skip && c.kind != CHANGE_END && (c.kind == CHANGE_BEGIN || !r->group.open))
            skip = replay_compare(&c, r->s->from) < 0;
        if (c.kind == CHANGE_BEGIN && is_another_file(r, &c)) {
            leave_segment(r);
            break;
        }
        if (!skip)
            replay_take(r, &c);
        else if (c.kind == CHANGE_END && c.gtid.seq && replay_compare(&c, r->s->from) <= 0)
            note_skipped(r, &c.gtid);
        if (segment_frame_ends(reader))
            delta_waiting(r, delta_rotate);
        if (c.kind == CHANGE_END && ++groups % PROGRESS_GROUPS == 0)
            progress_at(r->s->progress, r->out->changes, r->out->bytes + segment_whole(reader));
    }
    delta_waiting(r, delta_drain);
    if (reader) {
        if (db_binlog_pos_compare(&segment_sum(reader)->to.point, r->s->from) >= 0)
            /* otherwise the log would repeat the dump's changes */
            r->place = segment_sum(reader)->to;
        r->out->bytes += segment_whole(reader);
    }
    if (got < 0 && partly_merged(r))
        replay_gap(r, "%s", e.text);
    segment_reader_close(reader);
    if (reader && got >= 0)
        return true;
    if (!only_counts(r)) /* else everything that counts was read */
        line_set(r->out->damage, sizeof r->out->damage, "%s", e.text);
    return false;
}

/* Returns the segment in which an earlier replay ended, or -1 if there is a gap. */
static int find_place(struct run *r, const struct archive *a)
{
    const struct replay_place *p = r->s->after;
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].number == p->number && a->list[i].head.made.ms == p->made)
            return (int)i;
    replay_gap(r, "segment %" PRIu64 " of the journal, which was read before, no longer exists",
               p->number);
    return -1;
}

/* Returns whether the segments end after the dump. A file that was created before the dump's is of
 * an earlier log, which was reset. */
static bool is_segment_later(const struct run *r, const struct archive *a)
{
    const struct manifest *m = r->s->m;
    const struct archive_segment *last = a->count ? &a->list[a->count - 1] : NULL;
    return last && strcmp(last->head.server, m->server.uid) == 0 &&
           db_binlog_pos_compare(&last->sum.to.point, r->s->from) > 0 &&
           (last->sum.to.created_at == 0 || last->sum.to.created_at >= m->log_created_at);
}

/* Reads segments as far as possible. The log may still contain what follows. */
static void read_segments(struct run *r)
{
    struct archive a;
    struct err e;
    if (r->s->archive_fd < 0 || !r->s->m)
        return;
    if (archive_load(r->s->archive_fd, r->s->m->world, &a, &e) < 0) {
        line_set(r->out->damage, sizeof r->out->damage, "%s", e.text);
        return;
    }
    struct archive fit = a;
    while (r->unfit && fit.count && fit.list[fit.count - 1].number >= r->unfit)
        fit.count--;
    int i = r->s->after ? find_place(r, &a)
                        : archive_find(&fit, r->s->from, r->place.created_at, &r->s->m->server);
    size_t next = i >= 0 ? (size_t)i : 0;
    r->filed = i >= 0;
    r->apart = i < 0 && is_segment_later(r, &a);
    r->begun = i >= 0 ? a.list[i].number : 0;
    while (i >= 0) {
        r->file = (struct replay_place){a.list[i].number, a.list[i].head.made.ms};
        if (!replay_read_segment(r, &a.list[i]) || r->phase == PHASE_OVER)
            break;
        next = (size_t)i + 1;
        i = archive_continues(&a, (size_t)i) ? i + 1 : -1;
    }
    r->out->all_files = next == a.count;
    r->out->filed = r->out->changes;
    r->out->files_end = r->filed ? r->place.at : (wall_t){0};
    r->filed = false;
    r->file = (struct replay_place){0};
    archive_free(&a);
}

/* ---- the binlog ---- */

static int replay_read_events(struct run *r, struct err *e)
{
    const struct db_binlog_pos *to = r->s->upto;
    struct event ev;
    uint64_t shown = r->out->bytes;
    int got = 1;
    r->unasked.cls = ERR_NONE;
    while (r->phase != PHASE_OVER && (got = binlog_next(r->log, &ev, e)) == 1) {
        r->out->bytes += ev.size;
        decode_event(r->decode, r->log, &ev);
        /* Only positions between transactions count. A file after that of `upto` is also past
         * it, but reading never gets that far. */
        const struct binlog_position *at = binlog_at(r->log);
        if (to && strcmp(at->file, to->file) == 0 && at->pos >= to->pos)
            break;
        if (r->out->bytes - shown < PROGRESS_BYTES)
            continue;
        shown = r->out->bytes;
        progress_at(r->s->progress, r->out->changes, shown);
    }
    if (got == 0)
        decode_end(r->decode, r->log);
    r->out->at_end = got == 0 && r->phase != PHASE_LATER;
    delta_waiting(r, delta_drain);
    if (r->again) /* the next pass meets an error again */
        return 0;
    if (r->unasked.cls)
        return err_pass(e, &r->unasked);
    return got < 0 ? -1 : 0;
}

static int read_log(struct run *r, struct err *e)
{
    struct binlog_options o = {
        .heartbeat = HEARTBEAT_MS, .to_end = true, .created_at = r->place.created_at};
    const struct statement_world w = {r->s->schema, r->s->sentinel, &r->judged};
    if (r->s->all_unlogged)
        return err_set(e, ERR_REFUSED, 0, "%s", r->s->all_unlogged);
    r->log = binlog_open(r->s->db, &r->place.point, &o, e);
    if (!r->log)
        return -1;
    r->decode = decode_new(&w, &r->place.point, false, replay_take, r);
    decode_replaces(r->decode);
    set_phase(r, r->phase);
    int rc = replay_read_events(r, e);
    decode_free(r->decode);
    binlog_close(r->log);
    r->decode = NULL;
    r->log = NULL;
    return rc;
}

/* ---- the whole replay ---- */

static void replay_forget(struct run *r)
{
    delta_free(r->out->delta);
    forget_statements(r->out);
    replay_tables_free(r->out);
    *r->out = (struct replay){.delta = delta_new()};
    replay_keep_place(&r->out->upto, r->s->from->file, r->s->from->pos);
    if (r->s->after)
        r->out->place = *r->s->after;
    if (r->s->m)
        set_nonce(r, r->s->m->nonce);
    r->place = (struct segment_place){.point = *r->s->from};
    if (r->s->m && strcmp(r->s->m->end.file, r->s->from->file) == 0)
        r->place.created_at = r->s->m->log_created_at;
    r->phase = PHASE_WORLD;
    r->again = r->first_gtid_seen = r->group.open = false;
    r->skipped_count = 0;
    r->dumped = db_gtid_range(r->s->from, 0);
}

static int replay_read_once(struct run *r, struct err *e)
{
    replay_forget(r);
    if (r->s->upto && replay_same_place(r->s->from, r->s->upto))
        return 0;
    read_segments(r);
    if (r->phase == PHASE_OVER)
        return 0;
    if (r->s->elsewhere) {
        r->out->at_end = r->phase != PHASE_LATER;
        if (r->apart && !r->out->gap[0])
            replay_gap(r, "no segment of the journal is known to continue it");
        else if (r->out->damage[0] && !r->out->gap[0] && !only_counts(r))
            replay_gap(r, "%s", r->out->damage);
        return 0;
    }
    r->first_gtid_seen = false; /* the log must continue where the segments end */
    int rc = read_log(r, e);
    /* Everything that counts was read, and how many transactions are late need not be known. */
    return rc < 0 && only_counts(r) && e->cls != ERR_ABORTED ? 0 : rc;
}

/* Returns whether another attempt may succeed. The network may have failed, or clients that
 * reconnect after the restart may have taken all connections. If the same damage was found
 * `before`, it is in the log, and reading hours of it again would only extend the downtime. */
static bool worth_another(const struct err *e, const struct err *before)
{
    if (db_no_connection(e))
        usleep(FULL_PAUSE_US);
    bool again = before->cls == ERR_DAMAGED && strcmp(before->text, e->text) == 0;
    return e->cls == ERR_UNREACHABLE || (e->cls == ERR_DAMAGED && !again) || db_no_connection(e);
}

/* Converts an error of the log into a gap, because an unreadable log must not prevent a restore.
 * A lost server connection remains an error. */
static int as_gap(struct run *r, const struct err *e)
{
    char t[TEXT_SHORT];
    /* our own hints are short enough to append */
    bool ours = e->cls == ERR_DENIED || e->cls == ERR_REFUSED;
    bool absent = e->cls == ERR_GAP || (e->cls == ERR_REFUSED && !r->s->all_unlogged);
    bool foreign = r->s->another && absent; /* the server's own error message would mislead */
    const char *of = foreign ? "" : "and the server's log: ",
               *why = foreign ? "the host name or identity shows a different server, and its log "
                                "does not continue the dump"
                              : e->text,
               *hint = ours && !foreign ? e->hint : "", *sep = hint[0] ? "; " : "";
    if (db_unanswered(e) || e->cls == ERR_ABORTED || e->cls == ERR_SYSTEM || db_no_connection(e))
        return -1;
    bool ended = r->out->gap[0];  /* reading ended at an earlier gap */
    char damage[240], shown[240]; /* shortened, so that both reasons and the hint are shown */
    line_set(damage, sizeof damage, "%s", r->out->damage);
    line_set(shown, sizeof shown, "%s", why);
    if (!ended && damage[0])
        replay_gap(r, "%s; %s%s%s%s", damage, of, shown, sep, hint);
    else if (!ended && r->out->files_end.ms)
        replay_gap(r, "its files end at %s; %s%s%s%s", text_utc(r->out->files_end, t), of, shown,
                   sep, hint);
    else if (!ended)
        replay_gap(r, "%s%s%s", why, sep, hint);
    if (!r->again)
        return 0;
    struct err ignored; /* part of a transaction is merged: read again up to that transaction */
    return replay_read_once(r, &ignored) < 0 && !r->out->gap[0] ? -1 : 0;
}

int replay_read(const struct replay_source *s, struct replay *out, struct err *e)
{
    struct run r = {.s = s, .out = out, .now = clock_wall(), .parts = s->parts, .fresh = s->fresh};
    struct err before;
    int rc = 0, tries = 0;
    *out = (struct replay){0};
    replay_list_tables(&r);
    if (s->from->file[0]) {
        do {
            before = rc < 0 ? *e : (struct err){0};
            rc = replay_read_once(&r, e);
        } while (++tries < TRIES && (rc < 0 ? worth_another(e, &before) : r.again));
        if (rc < 0)
            rc = as_gap(&r, e);
        else if (r.again) { /* each pass rejected another transaction */
            replay_forget(&r);
            replay_gap(&r, "too many of its transactions are incomplete");
        }
    } else {
        replay_forget(&r);
        replay_gap(&r, "%s",
                   s->m && s->m->unlogged[0] ? s->m->unlogged
                                             : "the dump does not contain its binlog position");
    }
    free(r.judged.list);
    if (rc < 0)
        replay_free(out);
    return rc;
}

uint64_t replay_counter(const struct replay *r, const char *table)
{
    const struct delta_table *t = delta_find(r->delta, table);
    /* The highest value has no successor. There the server's counter stays and supplies no
     * further numbers. */
    return !t || !t->counter ? 0 : t->counter < UINT64_MAX ? t->counter + 1 : UINT64_MAX;
}

uint64_t replay_counter_after(const struct replay *r, const char *table, uint64_t was)
{
    const struct delta_table *t = delta_find(r->delta, table);
    uint64_t next = replay_counter(r, table);
    if (t && was && t->truncated)
        return next ? next : 1;
    return next > was ? next : was;
}

void replay_free(struct replay *r)
{
    delta_free(r->delta);
    forget_statements(r);
    replay_tables_free(r);
    *r = (struct replay){0};
}
