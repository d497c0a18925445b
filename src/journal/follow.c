#include "journal/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/line.h"
#include "base/text.h"
#include "base/worker.h"
#include "binlog/decode.h"
#include "binlog/gtid.h"
#include "binlog/prerequisites.h"
#include "binlog/statement.h"
#include "binlog/statement_scope.h"
#include "binlog/statement_summary.h"
#include "binlog/stream.h"
#include "journal/overwrite.h"
#include "journal/segment_store.h"
#include "mysql/galera.h"
#include "mysql/sentinel.h"
#include "mysql/world_tables.h"
#include "store/catalog.h"

#define TICK_MS 1000
/* longest interval, provided that the end of the log is reached in time */
#define MARKER_MS fault_wait(60000)
/* Heartbeats of an idle server drive our timers. A heartbeat that arrives slightly early counts. */
#define HEARTBEAT_MS 1000
#define HEARTBEAT_EARLY_MS 100
#define HEARTBEAT_SYNC_MS 500 /* shorter, because segments must be synced */
#define MARKERS 64u           /* maximum number in flight */
#define ELSEWHERE 10u         /* consecutive ticks, because a rotation may take a while to arrive */

/* The last TRUNCATE of a table that had received rows since the previous one, or the largest
 * deletion since the last report. */
struct emptied {
    struct follow_emptied last;
    bool refilled, news;
    uint64_t told_back;
};

struct follower {
    int fd;
    const struct follow_args *a;
    struct db *db; /* connection for queries and for writing the marker */
    struct binlog *log;
    struct decode *decode;
    struct statement_world world;
    char *schema; /* the name as the server spells it */
    struct db_tables tables;
    struct db_binlog_pos listed; /* `tables` was listed at this binlog position or later */
    struct segment_store *keep;  /* NULL if no segments are written */
    struct segment_place from;
    wall_t latest; /* time of the latest complete transaction */
    /* the first transaction was not read yet; it must be the one after `from` */
    bool first_group;
    bool list_again; /* the current transaction changed definitions */
    bool lost;       /* a loss was read, but no restore after it */
    /* the transaction contains rows of unknown tables, or adds such tables to the world */
    bool unknown_tables;
    struct names created;   /* unknown tables that it created empty */
    bool may_exist;         /* by CREATE TABLE IF NOT EXISTS, perhaps with another engine */
    bool unknown_rows;      /* it also changed such tables in other ways */
    struct names fresh;     /* tables followed since their creation */
    struct names unsure;    /* those of them that may have existed, or had another engine */
    struct names arrived;   /* tables that arrived without a logged creation, already reported */
    struct names newcomers; /* listed tables whose creation was not read yet */
    /* position up to which their creation must be read; otherwise they arrived in another way */
    struct db_binlog_pos newcomers_by;
    struct names gone;               /* tables whose DROP or RENAME was read since the last list */
    struct names dropped;            /* dropped tables that the newest dump did not contain */
    struct db_binlog_pos dropped_at; /* position of the last such drop */
    /* nonce of the world, as far as the log was read and verified */
    char nonce[33];
    /* the gap to report unless a restore wrote the last mark; NULL if there is none */
    struct follow_gap *swap;
    char swap_nonce[33]; /* the nonce in that mark */
    struct err *e;       /* set if a change could not be processed */
    bool files;          /* the error is in the segments */

    struct emptied emptied[FOLLOW_EMPTIED]; /* the oldest entry is replaced */
    size_t emptied_count;
    /* Rows deleted so far from one table in the current transaction. */
    struct {
        const struct change_table *table;
        uint64_t rows;
    } deleted;
    uint64_t begins;          /* position at which the current transaction begins */
    struct overwrite updated; /* the same for updated rows */
    /* Progress of markers, by their numbers. */
    uint64_t written;           /* last marker written */
    mono_t written_at[MARKERS]; /* indexed by number modulo MARKERS */
    mono_t answered;            /* when the server had written the last marker */
    /* the last marker's time in the log; the server's clock was later than this at `answered` */
    wall_t clock;
    uint64_t read;     /* last marker read from the log */
    uint64_t complete; /* last marker whose transaction is complete */
    uint64_t stored;   /* last marker stored */
    mono_t proven;     /* time up to which no change is missing */
    bool any_stored;
    /* a report was sent; `any_reported`: also one after a marker was stored */
    bool reported, any_reported;
    uint64_t packets; /* number of packets sent */
    mono_t next_tick, next_marker;
    bool unable; /* the log turned out to be one that cannot be followed; this was reported */
    /* end of the log as the server reported it; `file` is empty if it was reached or is unknown */
    struct db_binlog_pos end;
    mono_t end_at; /* when the server was asked for it */
    uint64_t changes;
    uint64_t last_pos;  /* position at the last tick */
    unsigned elsewhere; /* consecutive ticks at which the server was writing another file */
};

static volatile sig_atomic_t stopping;

static void on_term(int sig)
{
    (void)sig;
    stopping = 1;
}

/* Returns whether the dump was taken before a transaction that begins at the log's position. A dump
 * may be stored after a statement and before the statement is read. */
static bool follow_dump_before(const struct manifest *m, const char *file, uint64_t pos)
{
    struct db_binlog_pos at = {.pos = pos};
    snprintf(at.file, sizeof at.file, "%s", file);
    return !m->end.file[0] || !at.file[0] || db_binlog_pos_compare(&m->end, &at) <= 0;
}

/* Returns the newest dump that contains the table and was taken before the position; NULL: there is
 * none. */
static const struct manifest *dump_with(const struct catalog *dumps, const char *table,
                                        const char *file, uint64_t pos)
{
    for (size_t i = 0; i < dumps->count; i++) {
        const struct catalog_entry *c = &dumps->list[i];
        if (catalog_usable(c) && manifest_table(&c->m, table) &&
            follow_dump_before(&c->m, file, pos))
            return &c->m;
    }
    return NULL;
}

/* Describes a table that a change concerns, as it was in the newest dump before the change. */
static void describe_table(const struct catalog *dumps, const char *name, const struct change *c,
                           struct follow_table *out)
{
    SCOPED(buf_free) struct buf clean = {0};
    const struct manifest *m = dump_with(dumps, name, c->file, c->pos);
    text_clean(&clean, name, sizeof out->name - 1);
    snprintf(out->name, sizeof out->name, "%s", clean.p);
    if (!m)
        return;
    snprintf(out->dump, sizeof out->dump, "%s", m->name);
    out->rows = manifest_table(m, name)->rows;
}

/* Describes a statement. Transactions carry the time at which they began, so the time just
 * before a statement is the latest one before that time. */
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
        describe_table(&dumps, d->tables[i]->name, c, &out->tables[i]);
}

/* Describes a gap. `c` is NULL if nothing in the log caused it. */
static void describe_gap(const struct follower *f, const char *why, const struct change *c,
                         struct follow_gap *out)
{
    SCOPED(buf_free) struct buf clean = {0};
    const struct binlog_position *at = f->log ? binlog_at(f->log) : NULL;
    *out = (struct follow_gap){.pos = at ? at->pos : f->from.point.pos};
    text_clean(&clean, why, 500);
    line_set(out->why, sizeof out->why, "%s", clean.p);
    snprintf(out->file, sizeof out->file, "%s", at ? at->file : f->from.point.file);
    if (c)
        out->at = c->at;
    out->by_statement = c && c->deed;
    if (out->by_statement)
        describe_statement(f, c, &out->statement);
    if (c && !c->deed && c->scope && c->scope->tables[0].deed == SCOPE_ARRIVED)
        snprintf(out->arrived, sizeof out->arrived, "%s", c->scope->tables[0].name);
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

/* Passes on a result of the segments and remembers that an error came from them. */
static int follow_filed(struct follower *f, int rc)
{
    f->files |= rc < 0;
    return rc;
}

static int follow_put(struct follower *f, const struct change *c)
{
    return f->keep ? follow_filed(f, segment_store_put(f->keep, c, f->e)) : 0;
}

/* Stores a gap at this change. The log itself does not show the gap. */
static int follow_put_gap(struct follower *f, const char *why, const struct change *c)
{
    struct change gap = *c;
    gap.kind = CHANGE_GAP;
    gap.why = why;
    say_gap(f, why, &gap);
    return follow_put(f, &gap);
}

/* Moves tables from the previous list to the new one if the server no longer has them, but their
 * DROP was not read yet: it is a change of the world as well. */
static void keep_unread(struct follower *f, struct db_tables *before, struct db_tables *now)
{
    size_t listed = now->count;
    for (size_t i = 0; i < before->count; i++) {
        const struct db_tables then = {.list = now->list, .count = listed};
        struct db_table *t = &before->list[i];
        if (db_table_find(&then, t->name) || names_has(&f->gone, t->name))
            continue;
        now->list = xgrow(now->list, now->count, sizeof *now->list);
        now->list[now->count++] = *t;
        *t = (struct db_table){0};
    }
    names_free(&f->gone);
    db_tables_sort(now);
}

/* Sets f->newcomers_by to a position in the log after the CREATE TABLE of each newcomer. The server
 * may show a new table before it logs its creation, and lets others read it only afterwards. */
static int place_newcomers(struct follower *f, struct err *e)
{
    for (size_t i = 0; i < f->newcomers.count; i++)
        if (db_table_await(f->db, f->schema, f->newcomers.list[i], e) < 0 && !db_lock_busy(e))
            return -1;
    err_clear(e);
    db_binlog_pos(f->db, &f->newcomers_by);
    return 0;
}

/* Lists the tables again. Tables that were not in the previous list become f->newcomers. */
static int follow_list_tables(struct follower *f, struct err *e)
{
    struct db_tables now;
    struct db_binlog_pos at;
    bool more = false;
    db_binlog_pos(f->db, &at); /* all statements before this position are reflected in the list */
    fault_point("journal.listing");
    if (world_tables(f->db, f->a->cfg, f->schema, &now, e) < 0)
        return -1;
    if (db_table_keys(f->db, f->schema, &now, e) < 0) {
        db_tables_free(&now);
        return -1;
    }
    for (size_t i = 0; f->decode && i < now.count; i++) { /* before, all tables are new */
        const char *name = now.list[i].name;
        if (db_table_find(&f->tables, name) || db_sentinel_own(f->a->cfg->sentinel, name) ||
            now.list[i].carried) /* the next dump contains it, and its server does not lose it */
            continue;
        names_add(&f->newcomers, name);
        more = true;
    }
    struct db_tables before = f->tables;
    keep_unread(f, &before, &now);
    f->tables = now;
    f->listed = at;
    f->world = (struct statement_world){f->schema, f->a->cfg->sentinel, &f->tables};
    if (f->decode)
        decode_tables(f->decode);
    db_tables_free(&before);
    return more ? place_newcomers(f, e) : 0;
}

/* Lists the tables for the first time. If the list lacks a table of the newest dump that the server
 * has, an ALTER TABLE had hidden it, and the tables are listed again. */
static int list_first(struct follower *f, const struct manifest *newest, struct err *e)
{
    int rc = follow_list_tables(f, e);
    fault_point("journal.listed");
    for (size_t i = 0; newest && rc == 0 && i < newest->table_count; i++) {
        const struct manifest_table *t = &newest->tables[i];
        SCOPED(db_tables_free) struct db_tables now = {0};
        if (strcasecmp(t->engine, "MEMORY") != 0)
            continue;
        int hidden = db_table_hidden(f->db, f->schema, &f->tables, t->name, &now, e);
        if (hidden < 0 && !db_lock_busy(e))
            return -1;
        err_clear(e);
        if (hidden < 0 || (hidden && now.list[0].memory))
            rc = follow_list_tables(f, e);
    }
    return rc;
}

/* Lists the tables for the first time, and adds those that the newest dump has but the server does
 * not. Such a table was dropped in a part of the log that was not read yet, and its DROP is
 * recognized only if the table is known. Its columns are not known. */
static int list_with_dropped(struct follower *f, struct err *e)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    catalog_load(f->a->dump_dirfd, f->a->cfg->name, &dumps, NULL);
    const struct catalog_entry *newest = catalog_newest(&dumps, 0);
    if (list_first(f, newest ? &newest->m : NULL, e) < 0)
        return -1;
    size_t listed = f->tables.count;
    for (size_t i = 0; newest && i < newest->m.table_count; i++) {
        const struct manifest_table *t = &newest->m.tables[i];
        const struct db_tables then = {.list = f->tables.list, .count = listed};
        if (strcasecmp(t->engine, "MEMORY") != 0 || db_table_find(&then, t->name))
            continue;
        f->tables.list = xgrow(f->tables.list, f->tables.count, sizeof *f->tables.list);
        f->tables.list[f->tables.count++] = (struct db_table){
            .name = xstrdup(t->name), .engine = xstrdup(t->engine), .memory = true};
    }
    db_tables_sort(&f->tables);
    return 0;
}

/* ---- the marker ---- */

/* Chooses a random first number, because the log also contains markers of earlier followers,
 * which must not be mistaken for ours. */
static int first_marker(struct follower *f, struct err *e)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(e, errno, "cannot get random bytes for the marker row");
    f->written = f->read = f->complete = f->stored = random >> 1;
    f->proven = clock_mono();
    return 0;
}

/* Adds the newest dump before each change, and the rows that its table has there. */
static void add_dumped(const struct follower *f, struct follow_report *r)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    catalog_load(f->a->dump_dirfd, f->a->cfg->name, &dumps, NULL);
    for (size_t i = 0; i < r->emptied_count; i++) {
        struct follow_emptied *t = &r->emptied[i];
        const struct manifest *m = dump_with(&dumps, t->name, t->file, t->pos);
        if (!m)
            continue;
        snprintf(t->dump, sizeof t->dump, "%s", m->name);
        t->dumped.ms = m->at.ms + m->took_ms;
        t->before = manifest_table(m, t->name)->rows;
    }
}

/* Reports progress on the progress page, and as a packet if there is news. */
static void journal_follow_report(struct follower *f)
{
    const struct binlog_position *at = binlog_at(f->log);
    struct follow_report r = {.at = {.proven = f->proven,
                                     .pos = at->pos,
                                     .marker_read = f->any_stored,
                                     .changes = f->changes,
                                     .packets = f->packets}};
    snprintf(r.at.file, sizeof r.at.file, "%s", at->file);
    for (size_t i = 0; i < f->emptied_count; i++) {
        struct emptied *t = &f->emptied[i];
        if (t->news)
            r.emptied[r.emptied_count++] = t->last;
        t->news = false;
    }
    if (r.emptied_count) {
        add_dumped(f, &r);
        fault_point("journal.emptied");
    }
    bool news = !f->reported || f->any_reported != f->any_stored || r.emptied_count;
    f->reported = true;
    f->any_reported = f->any_stored;
    if (news)
        send_packet(f, FOLLOW_REPORT, &r, sizeof r);
    /* Comes last: once the page says that all changes up to a moment were read, the supervisor must
     * have those that it waits for. */
    board_write(f->a->board, &r.at);
}

static void marker_stored(struct follower *f, uint64_t n)
{
    f->stored = n;
    f->any_stored = true;
    f->end.file[0] = '\0'; /* this end was requested before the marker was written */
    f->proven = f->written_at[n % MARKERS];
    journal_follow_report(f);
}

/* Syncs the segments. A marker is not a change but must be synced like one. */
static int sync_files(struct follower *f, struct err *e)
{
    bool marker = f->complete != f->stored;
    int done = f->keep ? follow_filed(f, segment_store_sync(f->keep, marker, e)) : 0;
    if (done == 1 && marker)
        marker_stored(f, f->complete);
    return done < 0 ? -1 : 0;
}

/* Checks whether everything that was logged when the server named its log's end was read and
 * stored. If so, no earlier change is missing and another marker would prove no more. The last
 * marker must have arrived, because what this server writes may be excluded from the log. The
 * segments then extend to that moment of the server's clock: at least the last marker's time in
 * the log plus the time since the server had written it. */
static int reach_end(struct follower *f, struct err *e)
{
    const struct binlog_position *p = binlog_at(f->log);
    if (f->stored != f->written || strcmp(f->end.file, p->file) != 0 || p->pos < f->end.pos)
        return 0;
    if (f->keep &&
        /* the sync is not due yet, or a transaction is incomplete */
        !segment_store_synced(f->keep))
        return 0;
    wall_t at = {f->clock.ms + mono_since(f->end_at, f->answered)};
    if (f->keep && follow_filed(f, segment_store_quiet(f->keep, at, e)) < 0)
        return -1;
    f->end.file[0] = '\0';
    f->proven = f->end_at;
    journal_follow_report(f);
    return 0;
}

/* Returns whether a marker must be written. Each marker is sent to the followers of all worlds
 * of its server and stays in its log. While a mark waits to be judged, one marker per second is
 * needed. `late` means that the end that the log had a second ago was not reached yet. */
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

/* Remembers a restore's mark. Any client can write one, so it is judged after everything logged
 * by then was read: the restored world may have been lost and restored again since. */
static void take_mark(struct follower *f, const struct change *c)
{
    char text[300];
    struct db_binlog_pos here = {.pos = c->pos};
    snprintf(here.file, sizeof here.file, "%s", c->file);
    /* If reading began before the newest dump, it may have begun in an older world, because a
     * restore may have happened while no follower ran. From the dump on, the world is the
     * dump's. */
    if (!f->nonce[0] && db_binlog_pos_compare(&here, &f->a->from) >= 0)
        memcpy(f->nonce, f->a->nonce, sizeof f->nonce);
    if (f->swap && strcmp(f->swap_nonce, c->mark->nonce) == 0)
        memcpy(f->nonce, f->swap_nonce, sizeof f->nonce); /* each restore writes its own mark */
    forget_swap(f);
    line_set(text, sizeof text, "%s, with the marker of a restore that did not take place", c->why);
    f->swap = xcalloc(1, sizeof *f->swap);
    describe_gap(f, text, c, f->swap);
    memcpy(f->swap_nonce, c->mark->nonce, sizeof f->swap_nonce);
}

/* Judges the mark. It is a restore's mark if it names the current world and this world differs
 * from the previous one. */
static int judge_mark(struct follower *f, struct err *e)
{
    struct db_sentinel now;
    if (db_sentinel_read(f->db, f->a->cfg->schema, f->a->cfg->sentinel, &now, e) < 0)
        return db_table_missing(e) ? 0 : -1; /* dropped since: the log will show how */
    bool ours = strcmp(now.nonce, f->swap_nonce) == 0 && strcmp(f->nonce, f->swap_nonce) != 0;
    if (!ours)
        send_packet(f, FOLLOW_GAP, f->swap, sizeof *f->swap);
    memcpy(f->nonce, now.nonce, sizeof f->nonce);
    forget_swap(f);
    return 0;
}

/* Takes a marker from the sentinel's row. It is the last column. */
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
        /* with segments, this happens when the marker's transaction is on the disk */
        marker_stored(f, n);
    return 0;
}

/* Checks that the server still writes the log that is being read. A reader of the old files does
 * not notice a reset of the log (RESET MASTER). It also does not notice that the server closed
 * its log because it could not write the next file. */
static int check_position(struct follower *f, struct err *e)
{
    struct db_binlog_pos now = {0};
    const struct binlog_position *p = binlog_at(f->log);
    f->end_at = clock_mono();
    db_binlog_place(f->db, &now);
    f->end = now;
    if (!now.file[0] && db_log_closed(f->db))
        return err_set(e, ERR_GAP, 0, "the server closed its binary log and no longer writes one");
    bool other = now.file[0] && strcmp(now.file, p->file) != 0;
    bool before = now.file[0] && !other && now.pos < p->pos;
    bool still = f->last_pos == p->pos; /* a reader that catches up may be in older files */
    f->elsewhere = other && still ? f->elsewhere + 1 : 0;
    f->last_pos = p->pos;
    if (!before && f->elsewhere < ELSEWHERE)
        return 0;
    return err_set(e, ERR_GAP, 0, "the binary log was reset: the server writes %s instead of %s",
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

static struct db_binlog_pos follow_place_of(const struct change *c)
{
    struct db_binlog_pos p = {.pos = c->pos};
    snprintf(p.file, sizeof p.file, "%s", c->file);
    return p;
}

/* Returns the newest dump, in `dumps`, or NULL if there is none. */
static const struct manifest *newest_dump(const struct follower *f, struct catalog *dumps)
{
    catalog_load(f->a->dump_dirfd, f->a->cfg->name, dumps, NULL);
    const struct catalog_entry *newest = catalog_newest(dumps, 0);
    return newest ? &newest->m : NULL;
}

/* Returns whether the newest dump contains one of these tables. `end` receives the dump's end
 * position; NULL if not needed. */
static bool newest_has(const struct follower *f, const struct names *tables,
                       struct db_binlog_pos *end)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    const struct manifest *newest = newest_dump(f, &dumps);
    bool has = false;
    for (size_t i = 0; newest && i < tables->count && !has; i++)
        has = manifest_table(newest, tables->list[i]) != NULL;
    if (newest && end)
        *end = newest->end;
    return has;
}

/* Reports a gap if the newest dump contains a dropped table: a table dropped while the dump was
 * made may be in it with its old rows. */
static void judge_dropped(struct follower *f)
{
    struct db_binlog_pos end;
    bool has = f->dropped.count && newest_has(f, &f->dropped, &end);
    if (has && end.file[0] && db_binlog_pos_compare(&end, &f->dropped_at) < 0)
        say_gap(f, "a table that is in the newest dump was dropped", NULL);
    names_free(&f->dropped);
}

/* Receives the only message that the supervisor sends. */
static int follow_receive(struct follower *f, struct err *e)
{
    struct pollfd p = {.fd = f->fd, .events = POLLIN};
    bool closed;
    if (poll(&p, 1, 0) <= 0)
        return 0;
    struct packet dumped;
    bool any = worker_receive_packet(f->fd, &dumped, &closed);
    if (any)
        judge_dropped(f);
    return any && f->keep ? follow_filed(f, segment_store_dumped(f->keep, e)) : 0;
}

/* Checks whether the log can be followed, and reports why not. `ask`: binlog_prerequisites(), or
 * binlog_silence() once it is followed, because then the log itself shows the rest. */
static int follow_able(struct follower *f,
                       int (*ask)(struct db *, const char *, struct binlog_prerequisites *,
                                  struct err *),
                       bool *yes, struct err *e)
{
    struct binlog_prerequisites a;
    if (ask(f->db, f->a->cfg->schema, &a, e) < 0)
        return -1;
    *yes = !a.reason;
    if (a.reason) {
        struct follow_unable u = {0};
        line_set(u.why, sizeof u.why, "%s", a.reason);
        line_set(u.hint, sizeof u.hint, "%s", a.hint ? a.hint : "");
        send_packet(f, FOLLOW_UNABLE, &u, sizeof u);
    }
    binlog_prerequisites_free(&a);
    return 0;
}

static int follow_tick(struct follower *f, struct err *e)
{
    const struct config *c = f->a->cfg;
    mono_t now = clock_mono();
    if (sync_files(f, e) < 0 || (f->end.file[0] && reach_end(f, e) < 0))
        return -1;
    if (!mono_reached(now, f->next_tick))
        return 0;
    bool late = f->end.file[0] != '\0';
    f->next_tick = mono_add(now, TICK_MS - HEARTBEAT_EARLY_MS);
    journal_follow_report(f);
    if (follow_receive(f, e) < 0 || check_position(f, e) < 0)
        return -1;
    if (!marker_due(f, late, now))
        return reach_end(f, e);
    f->next_marker = mono_add(now, MARKER_MS);
    fault_point("journal.marker");
    bool able = true;
    if (follow_able(f, binlog_silence, &able, e) < 0)
        return -1;
    f->unable = !able;
    if (f->unable)
        return 0;
    f->written++;
    f->written_at[f->written % MARKERS] = clock_mono();
    int rc = db_sentinel_mark(f->db, c->schema, c->sentinel, f->written, e);
    f->answered = clock_mono();
    if (rc < 0 && db_table_missing(e)) { /* it was dropped: the log, which is read on, shows how */
        f->written--;
        f->end.file[0] = '\0'; /* without a marker, reaching the end proves nothing */
        return 0;
    }
    return rc;
}

/* ---- changes ---- */

/* Finds the entry of a table for deletions, or for updates. */
static struct emptied *find_emptied(struct follower *f, const char *name, bool updates)
{
    for (size_t i = 0; i < f->emptied_count; i++)
        if (strcmp(f->emptied[i].last.name, name) == 0 &&
            !f->emptied[i].last.columns[0] == !updates)
            return &f->emptied[i];
    return NULL;
}

/* Remembers a loss of rows, or with `columns` an update. `rows` is 0 for a TRUNCATE, which
 * removes all. Games truncate tables all the time, so the next dump decides whether it was
 * intended. */
static void remember_loss(struct follower *f, const char *table, uint64_t rows, const char *columns,
                          const struct change *c)
{
    struct emptied *t = find_emptied(f, table, columns[0]);
    if (!t && f->emptied_count == FOLLOW_EMPTIED)
        memmove(f->emptied, f->emptied + 1, --f->emptied_count * sizeof *f->emptied);
    if (!t)
        t = &f->emptied[f->emptied_count++];
    *t = (struct emptied){.last = {.rows = rows, .at = c->at, .pos = f->begins}, .news = true};
    snprintf(t->last.name, sizeof t->last.name, "%s", table);
    snprintf(t->last.file, sizeof t->last.file, "%s", c->file);
    snprintf(t->last.columns, sizeof t->last.columns, "%s", columns);
}

/* Remembers a TRUNCATE. A second TRUNCATE of a table that is still empty must not hide the first
 * one. */
static void follow_take_truncate(struct follower *f, const struct change *c)
{
    const struct emptied *t = find_emptied(f, c->table->name, false);
    if (!t || t->last.rows || t->refilled)
        remember_loss(f, c->table->name, 0, "", c);
}

/* Ends counting the rows that the transaction deleted from one table, because the transaction
 * ends or continues with another table. A TRUNCATE, or a larger deletion since the last report,
 * is more important and is kept. */
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

/* Returns true for columns that store a time. They are ignored, because a game may set the time in
 * all rows regularly. */
static bool follow_is_time(const struct db_column *c)
{
    return text_starts(c->type, "date") || text_starts(c->type, "time") ||
           text_starts(c->type, "year");
}

/* Appends the names of these columns. They are counted as in a tuple, which contains no generated
 * columns. */
static void name_columns(const struct db_table *t, uint64_t columns, struct buf *out)
{
    unsigned place = 0;
    for (size_t i = 0; i < t->column_count && place < OVERWRITE_COLUMNS; i++) {
        if (t->columns[i].generated)
            continue;
        if ((columns & UINT64_C(1) << place) && !follow_is_time(&t->columns[i]))
            buf_printf(out, "%s%s", out->len ? ", " : "", t->columns[i].name);
        place++;
    }
}

/* Ends counting updated rows, as end_deletion() does for deleted ones. */
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

/* ---- created and dropped tables ---- */

static bool follow_dumped(const struct follower *f, const char *table)
{
    SCOPED(names_free) struct names one = {0};
    names_add(&one, table);
    return newest_has(f, &one, NULL);
}

/* Reads the current definition. It is NULL without an error if no segments are kept or the table
 * was dropped meanwhile. */
static int definition_of(struct follower *f, const char *name, char **out)
{
    struct err e;
    *out = f->keep ? db_create_table(f->db, f->schema, name, &e) : NULL;
    return f->keep && !*out && db_unanswered(&e) ? err_pass(f->e, &e) : 0;
}

/* Stores the table's definition and, from here on, its changes, so that the table can be
 * restored before a dump contains it. `may_exist` and `engine` are those of struct
 * statement_scope. Earlier segments may have the creation of a table that may exist. */
static int put_created(struct follower *f, const char *name, bool may_exist, bool engine,
                       const struct change *c)
{
    struct statement_scope scope = {
        .count = 1, .tables = {{.deed = SCOPE_CREATED}}, .may_exist = may_exist, .engine = engine};
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
    names_drop(&f->unsure, name);
    names_add(&f->fresh, name);
    if (may_exist || engine)
        names_add(&f->unsure, name);
    return follow_put(f, &made);
}

/* Returns whether a restore has all rows of a table from before its ALTER TABLE with an ENGINE
 * clause, which may have made it a MEMORY table. False in doubt: what earlier followers read is not
 * known here. */
static bool has_rows(const struct follower *f, const char *name)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    const struct manifest *newest = newest_dump(f, &dumps);
    const struct manifest_table *dumped = newest ? manifest_table(newest, name) : NULL;
    if (dumped) /* segments have no earlier changes of a table of another engine */
        return !f->keep || strcasecmp(dumped->engine, "MEMORY") == 0;
    return names_has(&f->fresh, name) && !names_has(&f->unsure, name);
}

/* Reports a table that is new in the world with rows that the journal does not have. */
static void say_arrived(struct follower *f, const char *name, const struct change *c)
{
    struct statement_scope scope = {.count = 1, .tables = {{.deed = SCOPE_ARRIVED}}};
    struct change gap = *c;
    char text[400];
    snprintf(scope.tables[0].name, sizeof scope.tables[0].name, "%s", name);
    line_set(text, sizeof text, "table %s may have become a MEMORY table with rows", name);
    gap.scope = &scope;
    gap.deed = NULL;
    say_gap(f, text, &gap);
}

/* Stores the new definition of a table that no dump contains, so that its rows can be restored
 * without this server. A replay judges the definition of a table that may have become a MEMORY
 * table. */
static int take_defined(struct follower *f, const struct change *c)
{
    const struct statement_summary *d = c->deed;
    struct change defined = *c;
    SCOPED(xfree) char *create = NULL;
    const char *name = c->scope             ? c->scope->tables[0].name
                       : d && d->count == 1 ? d->tables[0]->name
                                            : "";
    if (c->scope && !has_rows(f, name))
        say_arrived(f, name, c);
    if (names_has(&f->fresh, name) && !follow_dumped(f, name) &&
        definition_of(f, name, &create) < 0)
        return -1;
    defined.create = create;
    return follow_put(f, &defined);
}

/* Takes a creation. If the newest dump contains the table, it was dropped before or is being
 * replaced, which is a gap. The engine of a table that is not listed yet is not known. */
static int follow_take_created(struct follower *f, const struct change *c)
{
    const struct scope_table *t = &c->scope->tables[0];
    f->list_again = true;
    if (follow_dumped(f, t->name))
        say_gap(f, c->why, c);
    return put_created(f, t->name, false, !t->table || c->scope->may_exist, c);
}

/* Returns whether dropped tables are a gap. A dropped table that no dump contains is not. A dump
 * that is being made may contain it; follow_receive() checks that. */
static bool is_missed(struct follower *f, const struct change *c)
{
    bool missed = !c->scope;
    for (size_t i = 0; c->scope && i < c->scope->count; i++) {
        const struct scope_table *t = &c->scope->tables[i];
        names_drop(&f->fresh, t->name);
        names_drop(&f->unsure, t->name);
        if (t->deed == SCOPE_DROPPED)
            names_add(&f->gone, t->name);
        missed |= t->deed != SCOPE_DROPPED || follow_dumped(f, t->name);
        if (t->deed == SCOPE_ARRIVED)
            names_add(&f->arrived, t->name);
    }
    for (size_t i = 0; !missed && i < c->scope->count; i++) {
        names_drop(&f->newcomers, c->scope->tables[i].name);
        names_add(&f->dropped, c->scope->tables[i].name);
        f->dropped_at = follow_place_of(c);
    }
    return missed;
}

/* Returns whether the gap only says that changed rows of a dropped table cannot be decoded, because
 * its columns are not known (list_with_dropped()). Without segments nothing is missing: a restore
 * reads the log itself, with the dump's definition. */
static bool is_only_unread(const struct follower *f, const struct change *c)
{
    const struct statement_scope *s = c->scope;
    return !f->keep && !c->deed && s && s->count == 1 && s->tables[0].deed == SCOPE_ARRIVED &&
           s->tables[0].table && s->tables[0].table->column_count == 0;
}

static int follow_take_gap(struct follower *f, const struct change *c)
{
    struct change gap = *c;
    gap.unmissed = !is_missed(f, c);
    if (!gap.unmissed)
        say_gap(f, c->why, c);
    return follow_put(f, &gap);
}

/* Follows the new tables that the transaction created. The others are reported as a gap once
 * everything logged before they were listed has been read: their rows are in no dump. */
static int take_newcomers(struct follower *f, const struct change *c)
{
    struct db_binlog_pos here = follow_place_of(c);
    struct statement_scope scope = {.count = 1, .tables = {{.deed = SCOPE_ARRIVED}}};
    char text[400];
    int rc = 0;
    for (size_t i = 0; rc == 0 && !f->unknown_rows && i < f->created.count; i++)
        if (names_has(&f->newcomers, f->created.list[i]))
            rc = put_created(f, f->created.list[i], false, f->may_exist, c);
    for (size_t i = 0; i < f->arrived.count; i++)
        names_drop(&f->newcomers, f->arrived.list[i]);
    bool all_read = !f->newcomers_by.file[0] || db_binlog_pos_compare(&here, &f->newcomers_by) >= 0;
    while (rc == 0 && all_read && f->newcomers.count) {
        snprintf(scope.tables[0].name, sizeof scope.tables[0].name, "%s", f->newcomers.list[0]);
        line_set(text, sizeof text, "table %s was created and is in no dump yet",
                 f->newcomers.list[0]);
        struct change gap = *c;
        gap.scope = &scope;
        names_drop(&f->newcomers, scope.tables[0].name);
        rc = follow_put_gap(f, text, &gap);
    }
    return rc;
}

/* Runs before the end of the transaction is stored. */
static int follow_end_group(struct follower *f, const struct change *c)
{
    f->complete = f->read;
    bool again = f->list_again || f->unknown_tables;
    f->list_again = f->unknown_tables = false;
    if (again && follow_list_tables(f, f->e) < 0)
        return -1;
    int rc = f->newcomers.count ? take_newcomers(f, c) : 0;
    names_free(&f->created);
    names_free(&f->arrived);
    f->unknown_rows = f->may_exist = false;
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
    f->may_exist |= created && c->scope->may_exist;
}

/* Takes a CREATE TABLE IF NOT EXISTS. The table existed before the statement if it was listed
 * before, if the newest dump contains it, or if its creation was read. */
static int follow_take_existing(struct follower *f, const struct change *c)
{
    struct db_binlog_pos here = follow_place_of(c);
    const char *name = c->table->name;
    bool listed = f->listed.file[0] && db_binlog_pos_compare(&here, &f->listed) >= 0;
    if (listed || names_has(&f->fresh, name) || follow_dumped(f, name))
        return 0;
    return put_created(f, name, true, false, c);
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
        follow_take_truncate(f, c);
    if (c->kind == CHANGE_DELETE)
        count_deleted(f, c);
    if (c->kind == CHANGE_UPDATE)
        count_updated(f, c);
    f->changes++;
}

static int follow_take(void *arg, const struct change *c)
{
    struct follower *f = arg;
    switch (c->kind) {
    case CHANGE_BEGIN:
        if (f->first_group && log_is_continuous(&f->a->db, &f->from.point, &c->gtid, f->e) < 0)
            return -1;
        f->first_group = false;
        f->begins = c->pos;
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
        /* A crash can leave a restore's table swap incomplete. The next restore undoes it by
         * renaming the tables back, which is not a gap. */
        if ((f->lost && strstr(c->why, DB_OWN_PREFIX)) || is_only_unread(f, c))
            return 0;
        return follow_take_gap(f, c);
    case CHANGE_CREATED:
        return follow_take_created(f, c);
    case CHANGE_SWAP:
        f->lost = false;
        f->list_again = true; /* the supervisor makes a dump after its own restores */
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
        return follow_take_existing(f, c);
    case CHANGE_END:
        if (c->at.ms > f->latest.ms)
            f->latest = c->at;
        end_deletion(f, c);
        end_update(f, c);
        return follow_end_group(f, c) < 0 ? -1 : follow_put(f, c);
    case CHANGE_DEFINED:
        return take_defined(f, c);
    case CHANGE_TABLE:
    case CHANGE_CUT:
    case CHANGE_UNREAD:
        break;
    }
    return follow_put(f, c);
}

/* ---- the worker ---- */

static int open_keep(struct follower *f, struct err *e)
{
    struct server_id server;
    char damage[LINE], what[LINE];
    if (f->a->cfg->journal != JOURNAL_FOLLOW)
        return 0;
    if (db_server_id(f->db, &server, e) < 0)
        return -1;
    f->keep = segment_store_open(f->a->cfg, f->a->dump_dirfd, &server, f->schema, damage, e);
    if (!f->keep)
        return follow_filed(f, -1);
    line_set(what, sizeof what, "a new file: %s", damage);
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

/* Reports a gap that an earlier worker stored. The supervisor that received it may have ended
 * before it made the dump that the gap requires. */
static void say_earlier_gap(struct follower *f, const struct segment_mark *m)
{
    struct follow_gap gap = {.pos = m->place.pos + 1, .at = m->at, .earlier = true};
    line_set(gap.why, sizeof gap.why, "%s", m->text);
    snprintf(gap.file, sizeof gap.file, "%s", m->place.file);
    if (gap.file[0])
        send_packet(f, FOLLOW_GAP, &gap, sizeof gap);
}

/* Chooses where to begin. If the segments serve the newest dump, this is their end, so that they
 * continue without a gap. Otherwise it is the end of the newest dump, so that nothing since then
 * is missing. If that position is unknown, it is the current one. */
static int follow_begin(struct follower *f, struct err *e)
{
    struct segment_place from = {
        .point = f->a->from, .created_at = f->a->created_at, .at = clock_wall()};
    const struct segment_place *end = f->keep ? segment_store_end(f->keep) : NULL;
    struct segment_mark gap;
    struct err why = {0};
    if (f->a->from.file[0] && end && !f->a->log_broken &&
        segment_store_reaches(f->keep, &f->a->from, f->a->created_at, &gap)) {
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
                            : end       ? "the earlier segments do not continue the newest dump"
                                        : "this is the first segment");
    return 0;
}

/* Sets the schema's name as the server spells it. If the schema was dropped, the newest dump knows
 * it. */
static int set_schema(struct follower *f, struct err *e)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    f->schema = db_schema_name(f->db, f->a->cfg->schema, e);
    if (f->schema || e->cls != ERR_REFUSED)
        return f->schema ? 0 : -1;
    catalog_load(f->a->dump_dirfd, f->a->cfg->name, &dumps, NULL);
    const struct catalog_entry *newest = catalog_newest(&dumps, 0);
    f->schema = newest ? xstrdup(newest->m.schema) : NULL;
    return newest ? 0 : -1;
}

/* What was dropped before this worker began is still in the log, and is reported when it is read.
 * Therefore neither the schema nor the sentinel needs to exist. */
static int follow_prepare(struct follower *f, struct err *e)
{
    struct db_sentinel now;
    if (set_schema(f, e) < 0 || first_marker(f, e) < 0)
        return -1;
    /* The world at the position where reading begins: the dump's, or the current one if there is
     * none. */
    memcpy(f->nonce, f->a->nonce, sizeof f->nonce);
    if (!f->nonce[0]) {
        if (db_sentinel_read(f->db, f->schema, f->a->cfg->sentinel, &now, e) < 0 &&
            !db_table_missing(e))
            return -1;
        memcpy(f->nonce, now.nonce, sizeof f->nonce);
    }
    if (list_with_dropped(f, e) < 0 || open_keep(f, e) < 0 || follow_begin(f, e) < 0)
        return -1;
    f->decode = decode_new(&f->world, &f->from.point, true, follow_take, f);
    return 0;
}

static int follow_follow(struct follower *f, struct err *e)
{
    struct event ev;
    bool yes;
    struct err why;
    f->e = e;
    f->db = db_open(&f->a->db, e);
    /* A refusal does not matter, because the marker is a MEMORY row of this node. */
    if (f->db && galera_own_node(f->db, &why) < 0 && db_unanswered(&why))
        return err_pass(e, &why);
    if (!f->db || follow_able(f, binlog_prerequisites, &yes, e) < 0)
        return -1;
    if (!yes)
        return 0;
    fault_point("journal.connected");
    if (follow_prepare(f, e) < 0)
        return -1;
    int got;
    do {
        got = binlog_next(f->log, &ev, e);
        if (got == 1 && (decode_event(f->decode, f->log, &ev) < 0 || follow_tick(f, e) < 0))
            got = -1;
    } while (got == 1 && !stopping && !f->unable);
    return got;
}

int follow_worker(int fd, void *arg)
{
    struct follower f = {.fd = fd, .a = arg};
    struct err e = {0}, why;
    signal(SIGTERM, on_term);
    int rc = follow_follow(&f, &e);
    /* Everything read is kept, however the reading ended, except after an error in the segments. */
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
    names_free(&f.unsure);
    names_free(&f.newcomers);
    names_free(&f.gone);
    names_free(&f.dropped);
    decode_free(f.decode);
    db_tables_free(&f.tables);
    free(f.schema);
    binlog_close(f.log);
    db_close(f.db);
    return 0;
}
