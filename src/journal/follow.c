#include "journal/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/text.h"
#include "base/worker.h"
#include "binlog/gtid.h"
#include "binlog/prerequisites.h"
#include "binlog/statement_scope.h"
#include "binlog/statement_summary.h"
#include "binlog/stream.h"
#include "mysql/galera.h"
#include "mysql/sentinel.h"
#include "mysql/world_tables.h"
#include "binlog/decode.h"
#include "journal/overwrite.h"
#include "journal/segment_store.h"
#include "store/catalog.h"

#define TICK_MS 1000
#define MARKER_MS fault_wait(20000) /* at most, as long as the log's end is reached in time */
/* Heartbeats of an idle server pace our timers; one that comes a little early counts. */
#define HEARTBEAT_MS 1000
#define HEARTBEAT_EARLY_MS 100
#define HEARTBEAT_SYNC_MS 500 /* where segments are synced */
#define MARKERS 64u           /* in flight at most */
#define ELSEWHERE 10u         /* a rotation may take a while to come through */

/* The last TRUNCATE of a table that had received rows since the one before, or the largest deletion since the last
 * report. */
struct emptied {
    struct follow_emptied last;
    bool refilled, news;
    uint64_t told_back;
};

struct follower {
    int fd;
    const struct follow_args *a;
    struct db *db; /* for queries, and to write the marker */
    struct binlog *log;
    struct decode *decode;
    struct statement_world world;
    char *schema; /* as the server writes it */
    struct db_tables tables;
    struct db_binlog_pos listed; /* `tables` are those of this binlog position or of a later one */
    struct segment_store *keep;  /* NULL: no segments are written */
    struct segment_place from;
    wall_t latest;        /* of a complete group */
    bool first_group;     /* the first group is still to come: it must be the one after `from` */
    bool list_again;      /* definitions changed in the group that is being read */
    bool lost;            /* the log was read up to a loss, and to no restore since then */
    bool unknown_tables;  /* it contains rows of unknown tables, or such tables joined the world */
    struct names created; /* such tables that it created, empty */
    bool unknown_rows;    /* and it did more to them */
    struct names fresh;   /* tables that were created, and followed from then on */
    struct names arrived; /* tables that came in another way, and so it was said */
    struct names newcomers; /* tables that were listed, and whose creation is still to be read, … */
    struct db_binlog_pos newcomers_by; /* … up to here, or they came in another way */
    struct names dropped;              /* that the newest dump did not have, … */
    struct db_binlog_pos dropped_at;   /* … the last of them here */
    char nonce[33];                    /* of the world, as far as the log was read and proven */
    struct follow_gap *swap; /* a gap, unless a restore wrote the last mark; NULL: there is none */
    char swap_nonce[33];     /* in that mark */
    struct err *e;           /* why a change could not be processed */
    bool files;              /* segments are at fault */

    struct emptied emptied[FOLLOW_EMPTIED]; /* the oldest is replaced */
    size_t emptied_count;
    /* In the transaction that is being read: rows deleted from one table, so far. */
    struct {
        const struct change_table *table;
        uint64_t rows;
    } deleted;
    struct overwrite updated; /* the same of updates */
    /* Markers, by their numbers. */
    uint64_t written;           /* the last one */
    mono_t written_at[MARKERS]; /* by number modulo MARKERS */
    mono_t answered;   /* when the server had written the last one; its clock was later … */
    wall_t clock;      /* … than this, which is the last one's time in the log */
    uint64_t read;     /* the last one read from the log, */
    uint64_t complete; /* whose group is complete, */
    uint64_t stored;   /* and stored */
    mono_t proven;     /* when it was written: no change from before is missing */
    bool any_stored;
    bool reported, any_reported; /* at all; and that one is stored */
    uint64_t packets;            /* sent */
    mono_t next_tick, next_marker;
    struct db_binlog_pos end; /* of the log, as the server named it; file "": read, or not known */
    mono_t end_at;            /* when it was asked */
    uint64_t changes;
    uint64_t last_pos;  /* at the last tick */
    unsigned elsewhere; /* consecutive ticks at which the server wrote another file */
};

static volatile sig_atomic_t stopping;

static void on_term(int sig)
{
    (void)sig;
    stopping = 1;
}

/* From the newest dump that contains it. */
static void describe_table(const struct catalog *dumps, const char *name, struct follow_table *out)
{
    SCOPED(buf_free) struct buf clean = {0};
    text_clean(&clean, name, sizeof out->name - 1);
    snprintf(out->name, sizeof out->name, "%s", clean.p);
    for (size_t i = 0; i < dumps->count && !out->dump[0]; i++) {
        const struct catalog_entry *c = &dumps->list[i];
        const struct manifest_table *t = catalog_usable(c) ? manifest_table(&c->m, name) : NULL;
        if (!t)
            continue;
        snprintf(out->dump, sizeof out->dump, "%s", c->m.name);
        out->rows = t->rows;
    }
}

/* Groups carry the time at which they began: the moment just before a statement is the latest one
 * before that time. */
static void describe_statement(const struct follower *f, const struct change *c,
                               struct follow_statement *out)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    const struct statement_summary *d = c->deed;
    wall_t now = clock_wall(), before = f->latest.ms < now.ms ? f->latest : now;
    out->count = d->count < STATEMENT_DEED_TABLES ? d->count : STATEMENT_DEED_TABLES;
    out->more = d->count - out->count;
    out->at = c->at;
    out->before = before.ms > c->at.ms ? before : c->at;
    out->schema = d->schema;
    snprintf(out->verb, sizeof out->verb, "%s", d->verb);
    catalog_load(f->a->dump_dirfd, f->a->cfg->name, &dumps, NULL);
    for (size_t i = 0; i < out->count; i++)
        describe_table(&dumps, d->tables[i]->name, &out->tables[i]);
}

/* `c` NULL: nothing in the log caused it. */
static void describe_gap(const struct follower *f, const char *why, const struct change *c,
                         struct follow_gap *out)
{
    SCOPED(buf_free) struct buf clean = {0};
    const struct binlog_position *at = f->log ? binlog_at(f->log) : NULL;
    *out = (struct follow_gap){.pos = at ? at->pos : f->from.point.pos};
    text_clean(&clean, why, 500);
    snprintf(out->why, sizeof out->why, "%s", clean.p);
    snprintf(out->file, sizeof out->file, "%s", at ? at->file : f->from.point.file);
    if (c)
        out->at = c->at;
    out->by_statement = c && c->deed;
    if (out->by_statement)
        describe_statement(f, c, &out->statement);
    out->tables_only = out->by_statement && c->scope && !out->statement.schema;
}

static void send_packet(struct follower *f, enum follow_packet type, const void *data, size_t size)
{
    if (worker_send_packet(f->fd, (int)type, data, size) == 0)
        f->packets++;
}

static void say_gap(struct follower *f, const char *why, const struct change *c)
{
    struct follow_gap gap;
    describe_gap(f, why, c, &gap);
    send_packet(f, FOLLOW_GAP, &gap, sizeof gap);
}

/* What the segments answered. */
static int filed(struct follower *f, int rc)
{
    f->files |= rc < 0;
    return rc;
}

static int put(struct follower *f, const struct change *c)
{
    return f->keep ? filed(f, segment_store_put(f->keep, c, f->e)) : 0;
}

/* A gap that the log does not show, at this change. */
static int put_gap(struct follower *f, const char *why, const struct change *c)
{
    struct change gap = *c;
    gap.kind = CHANGE_GAP;
    gap.why = why;
    say_gap(f, why, &gap);
    return put(f, &gap);
}

/* Tables that were not there the last time become f->newcomers. */
static int list_tables(struct follower *f, struct err *e)
{
    struct db_tables now;
    struct db_binlog_pos at;
    db_binlog_pos(f->db, &at); /* statements before this position are reflected in the list */
    if (world_tables(f->db, f->a->cfg, f->schema, &now, e) < 0)
        return -1;
    if (db_table_keys(f->db, f->schema, &now, e) < 0) {
        db_tables_free(&now);
        return -1;
    }
    for (size_t i = 0; i < now.count; i++) {
        const char *name = now.list[i].name;
        if (db_table_find(&f->tables, name) || db_sentinel_own(f->a->cfg->sentinel, name) ||
            now.list[i].carried) /* the next dump has it, and its server does not lose it */
            continue;
        names_add(&f->newcomers, name);
        f->newcomers_by = at;
    }
    struct db_tables before = f->tables;
    f->tables = now;
    f->listed = at;
    f->world = (struct statement_world){f->schema, f->a->cfg->sentinel, &f->tables};
    if (f->decode)
        decode_tables(f->decode);
    db_tables_free(&before);
    return 0;
}

/* ---- the marker ---- */

/* A random start: markers of an earlier follower are in the log too, and must not be taken for
 * ours. */
static int first_marker(struct follower *f, struct err *e)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(e, errno, "no random bytes for the marker");
    f->written = f->read = f->complete = f->stored = random >> 1;
    f->proven = clock_mono();
    return 0;
}

/* What each table had in the newest dump. */
static void add_dumped(const struct follower *f, struct follow_report *r)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    catalog_load(f->a->dump_dirfd, f->a->cfg->name, &dumps, NULL);
    for (size_t i = 0; i < r->emptied_count; i++) {
        struct follow_table t = {0};
        describe_table(&dumps, r->emptied[i].name, &t);
        snprintf(r->emptied[i].dump, sizeof r->emptied[i].dump, "%s", t.dump);
        r->emptied[i].before = t.rows;
    }
}

/* On the board; and as a packet where it is news. */
static void report(struct follower *f)
{
    const struct binlog_position *at = binlog_at(f->log);
    struct follow_report r = {.at = {.proven = f->proven,
                                     .pos = at->pos,
                                     .marker_read = f->any_stored,
                                     .changes = f->changes,
                                     .packets = f->packets}};
    snprintf(r.at.file, sizeof r.at.file, "%s", at->file);
    board_write(f->a->board, &r.at);
    for (size_t i = 0; i < f->emptied_count; i++) {
        struct emptied *t = &f->emptied[i];
        if (t->news)
            r.emptied[r.emptied_count++] = t->last;
        t->news = false;
    }
    if (r.emptied_count)
        add_dumped(f, &r);
    if (f->reported && f->any_reported == f->any_stored && !r.emptied_count)
        return;
    f->reported = true;
    f->any_reported = f->any_stored;
    send_packet(f, FOLLOW_REPORT, &r, sizeof r);
}

static void marker_stored(struct follower *f, uint64_t n)
{
    f->stored = n;
    f->any_stored = true;
    f->end.file[0] = '\0'; /* asked for before it was written */
    f->proven = f->written_at[n % MARKERS];
    report(f);
}

/* A marker is no change, but counts as one. */
static int sync_files(struct follower *f, struct err *e)
{
    bool marker = f->complete != f->stored;
    int done = f->keep ? filed(f, segment_store_sync(f->keep, marker, e)) : 0;
    if (done == 1 && marker)
        marker_stored(f, f->complete);
    return done < 0 ? -1 : 0;
}

/* Is all read, and stored, that was logged when the server named the end of its log? Then nothing from before that
 * is missing, and a marker would prove no more, unless the last one has not come: what is written
 * here may be kept out of the log. The segments go up to that moment of the server's clock: at least the last
 * marker's time in the log, and what went by since the server had written it. */
static int reach_end(struct follower *f, struct err *e)
{
    const struct binlog_position *p = binlog_at(f->log);
    if (f->stored != f->written || strcmp(f->end.file, p->file) != 0 || p->pos < f->end.pos)
        return 0;
    if (f->keep &&
        !segment_store_synced(f->keep)) /* it is not due yet, or a group is not complete */
        return 0;
    wall_t at = {f->clock.ms + mono_since(f->end_at, f->answered)};
    if (f->keep && filed(f, segment_store_quiet(f->keep, at, e)) < 0)
        return -1;
    f->end.file[0] = '\0';
    f->proven = f->end_at;
    report(f);
    return 0;
}

/* Each marker of a world is sent to the followers of all worlds of its server, and stays in its log. A mark that
 * is to be judged needs one each second. `late`: the end of a second ago is not reached yet. */
static bool marker_due(const struct follower *f, bool late, mono_t now)
{
    bool proves = f->any_stored && f->end.file[0] && !late && !f->swap;
    return !proves || mono_reached(now, f->next_marker);
}

/* ---- the marks of restores ---- */

static void forget_swap(struct follower *f)
{
    free(f->swap);
    f->swap = NULL;
}

/* Anybody can write a mark. It is judged when everything logged by then has been read: the world of
 * a restore may have been lost and restored again since. */
static void take_mark(struct follower *f, const struct change *c)
{
    char text[300];
    struct db_binlog_pos here = {.pos = c->pos};
    snprintf(here.file, sizeof here.file, "%s", c->file);
    /* Where reading began before the newest dump, it may have begun in an older world: a restore made
     * while nobody followed lies between. From the dump on the world is the dump's. */
    if (!f->nonce[0] && db_binlog_pos_compare(&here, &f->a->from) >= 0)
        memcpy(f->nonce, f->a->nonce, sizeof f->nonce);
    if (f->swap && strcmp(f->swap_nonce, c->mark->nonce) == 0)
        memcpy(f->nonce, f->swap_nonce, sizeof f->nonce); /* each restore writes its own mark */
    forget_swap(f);
    snprintf(text, sizeof text, "%s, with the mark of a restore that did not take place", c->why);
    f->swap = xcalloc(1, sizeof *f->swap);
    describe_gap(f, text, c, f->swap);
    memcpy(f->swap_nonce, c->mark->nonce, sizeof f->swap_nonce);
}

/* The mark is a restore's if the world that is there now is the one it names, and another than
 * before. */
static int judge_mark(struct follower *f, struct err *e)
{
    struct db_sentinel now;
    if (db_sentinel_read(f->db, f->a->cfg->schema, f->a->cfg->sentinel, &now, e) < 0)
        return -1;
    bool ours = strcmp(now.nonce, f->swap_nonce) == 0 && strcmp(f->nonce, f->swap_nonce) != 0;
    if (!ours)
        send_packet(f, FOLLOW_GAP, f->swap, sizeof *f->swap);
    memcpy(f->nonce, now.nonce, sizeof f->nonce);
    forget_swap(f);
    return 0;
}

/* The marker is the sentinel's last column. */
static int take_marker(struct follower *f, const struct change *c)
{
    const char *comma = c->len ? memrchr(c->tuple, ',', c->len) : NULL;
    uint64_t n = comma ? strtoull(comma + 1, NULL, 10) : 0;
    if (n <= f->read || n > f->written || n + MARKERS <= f->written)
        return 0;
    f->read = n;
    if (n == f->written)
        f->clock = c->at;
    if (f->swap && judge_mark(f, f->e) < 0)
        return -1;
    if (!f->keep)
        marker_stored(f, n); /* else when its group is on the disk */
    return 0;
}

/* A reader of the old files does not notice when the log is reset (RESET MASTER), nor when the
 * server closes it, which it does when it cannot write the next file. */
static int check_position(struct follower *f, struct err *e)
{
    struct db_binlog_pos now = {0};
    const struct binlog_position *p = binlog_at(f->log);
    f->end_at = clock_mono();
    db_binlog_place(f->db, &now);
    f->end = now;
    if (!now.file[0] && db_log_closed(f->db))
        return err_set(e, ERR_GAP, 0, "the server has closed its binary log and writes none");
    bool other = now.file[0] && strcmp(now.file, p->file) != 0;
    bool before = now.file[0] && !other && now.pos < p->pos;
    bool still = f->last_pos == p->pos; /* a reader that catches up may be in older files */
    f->elsewhere = other && still ? f->elsewhere + 1 : 0;
    f->last_pos = p->pos;
    if (!before && f->elsewhere < ELSEWHERE)
        return 0;
    return err_set(e, ERR_GAP, 0, "the binary log was reset: the server writes %s, not %s",
                   now.file, p->file);
}

/* ---- segments ---- */

static void names_drop(struct names *n, const char *name)
{
    for (size_t i = n->count; i-- > 0;)
        if (strcmp(n->list[i], name) == 0) {
            free(n->list[i]);
            memmove(&n->list[i], &n->list[i + 1], (--n->count - i) * sizeof *n->list);
        }
}

static struct db_binlog_pos place_of(const struct change *c)
{
    struct db_binlog_pos p = {.pos = c->pos};
    snprintf(p.file, sizeof p.file, "%s", c->file);
    return p;
}

/* Does the newest dump have one of these? `end`: where it ends; NULL: not wanted. */
static bool newest_has(const struct follower *f, const struct names *tables,
                       struct db_binlog_pos *end)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    catalog_load(f->a->dump_dirfd, f->a->cfg->name, &dumps, NULL);
    const struct catalog_entry *newest = catalog_newest(&dumps, 0);
    bool has = false;
    for (size_t i = 0; newest && i < tables->count && !has; i++)
        has = manifest_table(&newest->m, tables->list[i]) != NULL;
    if (newest && end)
        *end = newest->m.end;
    return has;
}

/* Tables that were dropped while the dump was made may be in it, as of before. */
static void judge_dropped(struct follower *f)
{
    struct db_binlog_pos end;
    bool has = f->dropped.count && newest_has(f, &f->dropped, &end);
    if (has && end.file[0] && db_binlog_pos_compare(&end, &f->dropped_at) < 0)
        say_gap(f, "a table was dropped that the newest dump has", NULL);
    names_free(&f->dropped);
}

/* The supervisor sends one message only. */
static int receive(struct follower *f, struct err *e)
{
    struct pollfd p = {.fd = f->fd, .events = POLLIN};
    bool closed;
    if (poll(&p, 1, 0) <= 0)
        return 0;
    struct packet dumped;
    bool any = worker_receive_packet(f->fd, &dumped, &closed);
    if (any)
        judge_dropped(f);
    return any && f->keep ? filed(f, segment_store_dumped(f->keep, e)) : 0;
}

static int tick(struct follower *f, struct err *e)
{
    const struct config *c = f->a->cfg;
    mono_t now = clock_mono();
    if (sync_files(f, e) < 0 || (f->end.file[0] && reach_end(f, e) < 0))
        return -1;
    if (!mono_reached(now, f->next_tick))
        return 0;
    bool late = f->end.file[0] != '\0';
    f->next_tick = mono_add(now, TICK_MS - HEARTBEAT_EARLY_MS);
    report(f);
    if (receive(f, e) < 0 || check_position(f, e) < 0)
        return -1;
    if (!marker_due(f, late, now))
        return reach_end(f, e);
    f->next_marker = mono_add(now, MARKER_MS);
    fault_point("journal.marker");
    f->written++;
    f->written_at[f->written % MARKERS] = clock_mono();
    int rc = db_sentinel_mark(f->db, c->schema, c->sentinel, f->written, e);
    f->answered = clock_mono();
    return rc;
}

/* ---- changes ---- */

/* Of deletions, or of updates. */
static struct emptied *find_emptied(struct follower *f, const char *name, bool updates)
{
    for (size_t i = 0; i < f->emptied_count; i++)
        if (strcmp(f->emptied[i].last.name, name) == 0 &&
            !f->emptied[i].last.columns[0] == !updates)
            return &f->emptied[i];
    return NULL;
}

/* `rows` 0: all rows, by a TRUNCATE. Games truncate tables all the time, so the next dump decides
 * whether it was intended. */
static void remember_loss(struct follower *f, const char *table, uint64_t rows, const char *columns,
                          const struct change *c)
{
    struct emptied *t = find_emptied(f, table, columns[0]);
    if (!t && f->emptied_count == FOLLOW_EMPTIED)
        memmove(f->emptied, f->emptied + 1, --f->emptied_count * sizeof *f->emptied);
    if (!t)
        t = &f->emptied[f->emptied_count++];
    *t = (struct emptied){.last = {.rows = rows, .at = c->at, .pos = c->pos}, .news = true};
    snprintf(t->last.name, sizeof t->last.name, "%s", table);
    snprintf(t->last.file, sizeof t->last.file, "%s", c->file);
    snprintf(t->last.columns, sizeof t->last.columns, "%s", columns);
}

/* A second TRUNCATE of a table that is still empty must not hide the first. */
static void take_truncate(struct follower *f, const struct change *c)
{
    const struct emptied *t = find_emptied(f, c->table->name, false);
    if (!t || t->last.rows || t->refilled)
        remember_loss(f, c->table->name, 0, "", c);
}

/* The rows that the transaction has deleted from one table are counted: it goes on with another table, or ends. A
 * TRUNCATE, and a larger deletion since the last report, say more. */
static void end_deletion(struct follower *f, const struct change *c)
{
    uint64_t rows = f->deleted.rows;
    const struct change_table *table = f->deleted.table;
    f->deleted.rows = 0;
    f->deleted.table = NULL;
    if (rows < FOLLOW_DELETED_LEAST)
        return;
    const struct emptied *t = find_emptied(f, table->name, false);
    if (!t || (t->last.rows ? !t->news || t->last.rows <= rows : t->refilled))
        remember_loss(f, table->name, rows, "", c);
}

/* A game stamps all rows with the time at each turn. */
static bool is_time(const struct db_column *c)
{
    return text_starts(c->type, "date") || text_starts(c->type, "time") ||
           text_starts(c->type, "year");
}

/* The names of these columns of a tuple, which has no generated ones. */
static void name_columns(const struct db_table *t, uint64_t columns, struct buf *out)
{
    unsigned place = 0;
    for (size_t i = 0; i < t->column_count && place < OVERWRITE_COLUMNS; i++) {
        if (t->columns[i].generated)
            continue;
        if ((columns & UINT64_C(1) << place) && !is_time(&t->columns[i]))
            buf_printf(out, "%s%s", out->len ? ", " : "", t->columns[i].name);
        place++;
    }
}

/* As with deletions. */
static void end_update(struct follower *f, const struct change *c)
{
    const struct change_table *table = f->updated.table;
    uint64_t rows = f->updated.rows,
             columns = rows < FOLLOW_DELETED_LEAST ? 0 : overwrite_columns(&f->updated);
    const struct db_table *t = columns ? db_table_find(&f->tables, table->name) : NULL;
    SCOPED(buf_free) struct buf names = {0}, clean = {0};
    if (rows)
        f->updated = (struct overwrite){0};
    if (t)
        name_columns(t, columns, &names);
    text_clean(&clean, names.p ? names.p : "", 120);
    if (clean.len)
        remember_loss(f, table->name, rows, clean.p, c);
}

static void count_updated(struct follower *f, const struct change *c)
{
    if (f->updated.table != c->table)
        end_update(f, c);
    overwrite_row(&f->updated, c);
}

static void count_deleted(struct follower *f, const struct change *c)
{
    if (f->deleted.table != c->table)
        end_deletion(f, c);
    f->deleted.table = c->table;
    f->deleted.rows++;
}

/* ---- tables that come and go ---- */

static bool dumped(const struct follower *f, const char *table)
{
    SCOPED(names_free) struct names one = {0};
    names_add(&one, table);
    return newest_has(f, &one, NULL);
}

/* As it is now; NULL without an error: the segments are not kept, or the table was dropped meanwhile. */
static int definition_of(struct follower *f, const char *name, char **out)
{
    struct err e;
    *out = f->keep ? db_create_table(f->db, f->schema, name, &e) : NULL;
    return f->keep && !*out && db_unanswered(&e) ? err_pass(f->e, &e) : 0;
}

/* Its changes are stored from here on, with its definition, so that no dump has to have it first. */
static int put_created(struct follower *f, const char *name, const struct change *c)
{
    struct statement_scope scope = {.count = 1, .tables = {{.deed = SCOPE_CREATED}}};
    SCOPED(xfree) char *create = NULL;
    if (definition_of(f, name, &create) < 0)
        return -1;
    snprintf(scope.tables[0].name, sizeof scope.tables[0].name, "%s", name);
    struct change made = *c;
    made.kind = CHANGE_CREATED;
    made.scope = &scope;
    made.create = create;
    names_drop(&f->newcomers, name);
    names_drop(&f->fresh, name);
    names_add(&f->fresh, name);
    return put(f, &made);
}

/* A table that no dump has gets its new definition in the segments: its rows come back without this server, too. */
static int take_defined(struct follower *f, const struct change *c)
{
    const struct statement_summary *d = c->deed;
    struct change defined = *c;
    SCOPED(xfree) char *create = NULL;
    const char *name = d && d->count == 1 ? d->tables[0]->name : "";
    if (names_has(&f->fresh, name) && !dumped(f, name) && definition_of(f, name, &create) < 0)
        return -1;
    defined.create = create;
    return put(f, &defined);
}

/* A table that the newest dump has was dropped before, or is replaced. */
static int take_created(struct follower *f, const struct change *c)
{
    f->list_again = true;
    if (dumped(f, c->scope->tables[0].name))
        say_gap(f, c->why, c);
    return put_created(f, c->scope->tables[0].name, c);
}

/* Nobody misses a table that was dropped and that no dump has. One that is being made may have it: receive(). */
static bool is_missed(struct follower *f, const struct change *c)
{
    bool missed = !c->scope;
    for (size_t i = 0; c->scope && i < c->scope->count; i++) {
        const struct scope_table *t = &c->scope->tables[i];
        names_drop(&f->fresh, t->name);
        missed |= t->deed != SCOPE_DROPPED || dumped(f, t->name);
        if (t->deed == SCOPE_ARRIVED)
            names_add(&f->arrived, t->name);
    }
    for (size_t i = 0; !missed && i < c->scope->count; i++) {
        names_drop(&f->newcomers, c->scope->tables[i].name);
        names_add(&f->dropped, c->scope->tables[i].name);
        f->dropped_at = place_of(c);
    }
    return missed;
}

static int take_gap(struct follower *f, const struct change *c)
{
    struct change gap = *c;
    gap.unmissed = !is_missed(f, c);
    if (!gap.unmissed)
        say_gap(f, c->why, c);
    return put(f, &gap);
}

/* Those that the group created are followed from there on. Others are new in the world in another way, if all was read
 * that was logged when they were listed: their rows are in no dump. */
static int take_newcomers(struct follower *f, const struct change *c)
{
    struct db_binlog_pos here = place_of(c);
    struct statement_scope scope = {.count = 1, .tables = {{.deed = SCOPE_ARRIVED}}};
    char text[400];
    int rc = 0;
    for (size_t i = 0; rc == 0 && !f->unknown_rows && i < f->created.count; i++)
        if (names_has(&f->newcomers, f->created.list[i]))
            rc = put_created(f, f->created.list[i], c);
    for (size_t i = 0; i < f->arrived.count; i++)
        names_drop(&f->newcomers, f->arrived.list[i]);
    bool all_read = !f->newcomers_by.file[0] || db_binlog_pos_compare(&here, &f->newcomers_by) >= 0;
    while (rc == 0 && all_read && f->newcomers.count) {
        snprintf(scope.tables[0].name, sizeof scope.tables[0].name, "%s", f->newcomers.list[0]);
        snprintf(text, sizeof text, "the creation of table %.255s, which is in no dump yet",
                 f->newcomers.list[0]);
        struct change gap = *c;
        gap.scope = &scope;
        names_drop(&f->newcomers, scope.tables[0].name);
        rc = put_gap(f, text, &gap);
    }
    return rc;
}

/* Runs before the end of the group is stored. */
static int end_group(struct follower *f, const struct change *c)
{
    f->complete = f->read;
    bool again = f->list_again || f->unknown_tables;
    f->list_again = f->unknown_tables = false;
    if (again && list_tables(f, f->e) < 0)
        return -1;
    int rc = f->newcomers.count ? take_newcomers(f, c) : 0;
    names_free(&f->created);
    names_free(&f->arrived);
    f->unknown_rows = false;
    return rc;
}

static void take_unknown(struct follower *f, const struct change *c)
{
    bool created = c->scope && c->scope->count == 1 && c->scope->tables[0].deed == SCOPE_CREATED;
    f->unknown_tables = true;
    if (created)
        names_add(&f->created, c->scope->tables[0].name);
    else
        f->unknown_rows = true;
}

/* A table that was listed before the statement existed before it, and so did one that the newest dump has, or whose
 * creation was read. */
static int take_existing(struct follower *f, const struct change *c)
{
    struct db_binlog_pos here = place_of(c);
    const char *name = c->table->name;
    bool listed = f->listed.file[0] && db_binlog_pos_compare(&here, &f->listed) >= 0;
    if (listed || names_has(&f->fresh, name) || dumped(f, name))
        return 0;
    return put_created(f, name, c);
}

static void count_change(struct follower *f, const struct change *c)
{
    bool came = c->kind == CHANGE_INSERT && f->emptied_count;
    struct emptied *t = came ? find_emptied(f, c->table->name, false) : NULL;
    if (t) {
        t->refilled = true;
        t->last.back++;
        if (t->last.back >= t->told_back + t->told_back / 8 + FOLLOW_DELETED_LEAST) {
            t->told_back = t->last.back;
            t->news = true;
        }
    }
    if (c->kind == CHANGE_TRUNCATE)
        take_truncate(f, c);
    if (c->kind == CHANGE_DELETE)
        count_deleted(f, c);
    if (c->kind == CHANGE_UPDATE)
        count_updated(f, c);
    f->changes++;
}

static int take(void *arg, const struct change *c)
{
    struct follower *f = arg;
    switch (c->kind) {
    case CHANGE_BEGIN:
        if (f->first_group && log_is_continuous(&f->a->db, &f->from.point, &c->gtid, f->e) < 0)
            return -1;
        f->first_group = false;
        f->deleted.rows = 0;
        if (f->updated.rows)
            f->updated = (struct overwrite){0};
        break;
    case CHANGE_INSERT:
    case CHANGE_TRUNCATE:
    case CHANGE_DELETE:
    case CHANGE_UPDATE:
    case CHANGE_REPLACE:
        count_change(f, c);
        break;
    case CHANGE_MARKER:
        return take_marker(f, c);
    case CHANGE_GAP:
        f->list_again |= c->definitions;
        /* A restore undoes half a swap, which a crash left, by giving the tables their names back. */
        if (f->lost && strstr(c->why, DB_OWN_PREFIX))
            return 0;
        return take_gap(f, c);
    case CHANGE_CREATED:
        return take_created(f, c);
    case CHANGE_SWAP:
        f->lost = false;
        f->list_again = true; /* the supervisor dumps after its own restores */
        take_mark(f, c);
        break;
    case CHANGE_LOST:
        f->lost = true;
        forget_swap(f);
        break;
    case CHANGE_UNKNOWN_TABLE:
        take_unknown(f, c);
        return 0;
    case CHANGE_EXISTS:
        return take_existing(f, c);
    case CHANGE_END:
        if (c->at.ms > f->latest.ms)
            f->latest = c->at;
        end_deletion(f, c);
        end_update(f, c);
        return end_group(f, c) < 0 ? -1 : put(f, c);
    case CHANGE_DEFINED:
        return take_defined(f, c);
    case CHANGE_TABLE:
    case CHANGE_CUT:
    case CHANGE_UNREAD:
        break;
    }
    return put(f, c);
}

/* ---- the worker ---- */

static int able(struct follower *f, bool *yes, struct err *e)
{
    struct binlog_prerequisites a;
    if (binlog_prerequisites(f->db, f->a->cfg->schema, &a, e) < 0)
        return -1;
    *yes = a.reason == NULL;
    if (a.reason) {
        struct follow_unable u = {0};
        snprintf(u.why, sizeof u.why, "%s", a.reason);
        snprintf(u.hint, sizeof u.hint, "%s", a.hint ? a.hint : "");
        send_packet(f, FOLLOW_UNABLE, &u, sizeof u);
    }
    binlog_prerequisites_free(&a);
    return 0;
}

static int open_keep(struct follower *f, struct err *e)
{
    struct server_id server;
    char damage[512], what[600];
    if (f->a->cfg->journal != JOURNAL_FOLLOW)
        return 0;
    if (db_server_id(f->db, &server, e) < 0)
        return -1;
    f->keep = segment_store_open(f->a->cfg, f->a->dump_dirfd, &server, f->schema, damage, e);
    if (!f->keep)
        return filed(f, -1);
    snprintf(what, sizeof what, "a file of its own: %s", damage);
    if (damage[0])
        say_gap(f, what, NULL);
    return 0;
}

static int open_log(struct follower *f, const struct segment_place *from, struct err *e)
{
    struct binlog_options o = {.heartbeat = f->keep ? HEARTBEAT_SYNC_MS : HEARTBEAT_MS,
                               .created_at = from->created_at};
    f->from = *from;
    f->first_group = true;
    f->log = binlog_open(&f->a->db, &from->point, &o, e);
    return f->log ? 0 : -1;
}

/* An earlier worker stored it, and the supervisor that heard of it may have ended before the dump that it asks for. */
static void say_earlier_gap(struct follower *f, const struct segment_mark *m)
{
    struct follow_gap gap = {.pos = m->place.pos + 1, .at = m->at, .earlier = true};
    snprintf(gap.why, sizeof gap.why, "%s", m->text);
    snprintf(gap.file, sizeof gap.file, "%s", m->place.file);
    if (gap.file[0])
        send_packet(f, FOLLOW_GAP, &gap, sizeof gap);
}

/* Where segments end, so that they continue without a gap, if they serve the newest dump; else
 * where the newest dump ends, so that nothing since then is missed; and where that position is
 * unknown, here and now. */
static int begin(struct follower *f, struct err *e)
{
    struct segment_place from = {
        .point = f->a->from, .created_at = f->a->created_at, .at = clock_wall()};
    const struct segment_place *end = f->keep ? segment_store_end(f->keep) : NULL;
    struct segment_mark gap;
    struct err why = {0};
    if (f->a->from.file[0] && end && !f->a->log_broken &&
        segment_store_reaches(f->keep, &f->a->from, &gap)) {
        if (open_log(f,
                     &(struct segment_place){
                         .point = end->point, .created_at = end->created_at, .at = end->at},
                     &why) == 0) {
            segment_store_begin(f->keep, &f->from, NULL);
            say_earlier_gap(f, &gap);
            if (db_binlog_pos_compare(&f->a->from, &end->point) > 0) /* see take_mark() */
                f->nonce[0] = '\0';
            return 0;
        }
        if (why.cls != ERR_GAP)
            return err_pass(e, &why);
    }
    if (!from.point.file[0])
        db_binlog_pos(f->db, &from.point);
    if (!from.point.file[0])
        return err_set(e, ERR_DENIED, 0,
                       "the server does not report its position in the binary log");
    if (open_log(f, &from, e) < 0)
        return -1;
    if (f->keep)
        segment_store_begin(f->keep, &from,
                            why.text[0] ? why.text
                            : end       ? "those before it do not lead from the newest dump to here"
                                        : "it is the first one");
    return 0;
}

static int prepare(struct follower *f, struct err *e)
{
    struct db_sentinel now;
    f->schema = db_schema_name(f->db, f->a->cfg->schema, e);
    if (!f->schema || first_marker(f, e) < 0)
        return -1;
    /* The world at the position where reading begins: the dump's, else the one that is there. */
    memcpy(f->nonce, f->a->nonce, sizeof f->nonce);
    if (!f->nonce[0]) {
        if (db_sentinel_read(f->db, f->schema, f->a->cfg->sentinel, &now, e) < 0)
            return -1;
        memcpy(f->nonce, now.nonce, sizeof f->nonce);
    }
    if (list_tables(f, e) < 0 || open_keep(f, e) < 0 || begin(f, e) < 0)
        return -1;
    names_free(&f->newcomers); /* all are, the first time */
    f->decode = decode_new(&f->world, &f->from.point, true, take, f);
    return 0;
}

static int follow(struct follower *f, struct err *e)
{
    struct event ev;
    bool yes;
    struct err why;
    f->e = e;
    f->db = db_open(&f->a->db, e);
    /* A refusal does not matter: the marker is a MEMORY row of this node. */
    if (f->db && galera_own_node(f->db, &why) < 0 && db_unanswered(&why))
        return err_pass(e, &why);
    if (!f->db || able(f, &yes, e) < 0)
        return -1;
    if (!yes)
        return 0;
    if (prepare(f, e) < 0)
        return -1;
    int got;
    do {
        got = binlog_next(f->log, &ev, e);
        if (got == 1 && (decode_event(f->decode, f->log, &ev) < 0 || tick(f, e) < 0))
            got = -1;
    } while (got == 1 && !stopping);
    return got;
}

int follow_worker(int fd, void *arg)
{
    struct follower f = {.fd = fd, .a = arg};
    struct err e = {0}, why;
    signal(SIGTERM, on_term);
    int rc = follow(&f, &e);
    /* What was read is kept, whatever ended the reading, except after an error of the segments. */
    if (segment_store_close(f.keep, &why) < 0 && !f.files) {
        f.files = true;
        if (rc >= 0)
            e = why;
        rc = -1;
    }
    if (rc < 0) {
        struct follow_failure failure = {e, f.files};
        worker_send_packet(fd, FOLLOW_FAILED, &failure, sizeof failure);
    }
    forget_swap(&f);
    names_free(&f.created);
    names_free(&f.arrived);
    names_free(&f.fresh);
    names_free(&f.newcomers);
    names_free(&f.dropped);
    decode_free(f.decode);
    db_tables_free(&f.tables);
    free(f.schema);
    binlog_close(f.log);
    db_close(f.db);
    return 0;
}
