#include "journal/replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "db/binlog.h"
#include "db/gtid.h"
#include "journal/archive.h"
#include "journal/decode.h"
#include "journal/fold_int.h"
#include "journal/history.h"

#define HEARTBEAT_MS 1000
#define TRIES 20 /* each crash of the server may leave one group that is half there */
#define FULL_PAUSE_US 500000
#define TELL_BYTES (1u << 20)
#define TELL_GROUPS 4096u
#define CLOCKS_APART_MS 600000 /* of the server's machine and this one */

/* A table of the world whose rows changed. */
struct folded {
    char *name;
    struct fold_table *fold;
    int counter_at;   /* place of the AUTO_INCREMENT column in a tuple; -1: there is none */
    bool counter_key; /* it is part of the key: rows do not change it */
    uint64_t counter; /* the highest value that was seen in it */
    size_t *ends;     /* room for the ends of the columns up to it */
};

/* What the changes that come now mean. */
enum phase {
    PHASE_WORLD, /* changes of the world */
    PHASE_LOST,  /* a restart emptied it, or it cannot be followed: until somebody restores it */
    PHASE_OVER,  /* enough was read */
};

struct run {
    const struct replay_source *s;
    struct replay *out;
    wall_t now;
    struct db_tables judged; /* the tables of now and those of the dump that are gone; borrowed */
    struct folded **tables;
    size_t count;
    enum phase phase;

    struct binlog *log;         /* the two sources of changes */
    struct decode *decode;      /* of the log */
    bool filed;                 /* the changes that come now are from segments */
    struct segment_place place; /* where the log is to be read from */

    struct {
        bool open; /* we are within one */
        struct db_point begins;
        wall_t at;       /* when it was committed */
        uint64_t before; /* changes that were taken before it */
        bool passed_over;
    } group;
    /* Groups that turned out not to count when a part of them was folded already. All is read again
     * without them. */
    struct db_point half[TRIES];
    size_t half_count;
    struct db_point stop; /* one that cannot be followed; file "": there is none */
    char why[sizeof((struct replay *)0)->gap];
    bool again;
    bool plain; /* changes of segments are folded one at a time */

    bool first_gtid_seen;
    struct change_gtid skipped; /* the last group of a segment that the dump holds already */
    uint64_t begun;             /* number of the segment that reading began in, */
    uint64_t unfit;             /* and of the oldest that was of another log; 0: none was */
};

static bool same_place(const struct db_point *a, const struct db_point *b)
{
    return a->pos == b->pos && strcmp(a->file, b->file) == 0;
}

static bool partly_taken(const struct run *r)
{
    return r->group.open && r->out->changes > r->group.before;
}

/* Rows are looked at only where they count. */
static void set_phase(struct run *r, enum phase phase)
{
    r->phase = phase;
    if (r->decode)
        decode_rows(r->decode, phase == PHASE_WORLD);
}

static void gap(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void tell_gap(struct run *r)
{
    memcpy(r->out->gap, r->why, sizeof r->why);
    r->out->gap_at = r->group.at;
    set_phase(r, PHASE_LOST);
}

/* What comes behind it cannot be trusted, what came before it can: whole groups. */
static void gap(struct run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    if (partly_taken(r)) {
        r->stop = r->group.begins;
        r->again = true;
    }
    tell_gap(r);
    if (r->again)
        set_phase(r, PHASE_OVER);
}

/* ---- tables ---- */

/* A table of the dump that is not there any more cannot be followed, but is no stranger: what
 * happened to it is in the log. */
static void add_gone_tables(struct run *r)
{
    const struct manifest *m = r->s->m;
    for (size_t i = 0; m && i < m->table_count; i++) {
        const struct manifest_table *t = &m->tables[i];
        if (strcasecmp(t->engine, "MEMORY") == 0 && !db_table_find(r->s->tables, t->name))
            r->judged.list[r->judged.count++] = (struct db_table){.name = t->name, .memory = true};
    }
}

static void list_tables(struct run *r)
{
    const struct db_tables *now = r->s->tables;
    size_t most = now->count + (r->s->m ? r->s->m->table_count : 0) + 1;
    r->judged.list = xcalloc(most, sizeof *r->judged.list);
    r->judged.count = now->count;
    if (now->count)
        memcpy(r->judged.list, now->list, now->count * sizeof *now->list);
    add_gone_tables(r);
}

/* The dump must hold the table as it was when it changed; else a definition changed in between. */
static bool in_dump(struct run *r, const struct change_table *t)
{
    if (!r->s->m)
        return true;
    const struct manifest_table *mt = manifest_table(r->s->m, t->name);
    if (t->gone)
        gap(r, "table %s, which changed, is not there any more", t->name);
    else if (!mt)
        gap(r, "table %s is not in the dump", t->name);
    else if (strcmp(mt->columns_hash, t->columns) != 0)
        gap(r, "the columns of table %s are not those of the dump", t->name);
    else
        return true;
    return false;
}

/* NULL: there is a gap. Another segment brings the same table once more. */
static struct folded *find_table(struct run *r, struct change_table *t)
{
    struct folded *f = t->user;
    if (f)
        return f;
    if (!in_dump(r, t))
        return NULL;
    for (size_t i = 0; i < r->count && !f; i++)
        f = strcmp(r->tables[i]->name, t->name) == 0 ? r->tables[i] : NULL;
    if (!f) {
        f = xcalloc(1, sizeof *f);
        r->tables = xrealloc(r->tables, (r->count + 1) * sizeof(struct folded *));
        r->tables[r->count++] = f;
        f->name = xstrdup(t->name);
        f->counter_at = t->counter;
        f->ends = t->counter >= 0 ? xcalloc((size_t)t->counter + 1, sizeof *f->ends) : NULL;
        for (size_t i = 0; i < t->key_count; i++)
            f->counter_key |= t->counter >= 0 && t->key[i] == (unsigned)t->counter;
        f->fold = fold_table(r->out->fold, t->name, t->key, t->key_count);
    }
    t->user = f;
    return f;
}

static void forget_tables(struct run *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->tables[i]->name);
        free(r->tables[i]->ends);
        free(r->tables[i]);
    }
    free(r->tables);
    r->tables = NULL;
    r->count = 0;
}

/* ---- rows ---- */

static bool may_count(const struct folded *f, enum change_kind kind)
{
    return f->counter_at >= 0 && kind != CHANGE_DELETE &&
           !(kind == CHANGE_REPLACE && f->counter_key);
}

static void see_counter(struct folded *f, const char *tuple, size_t len)
{
    size_t want = (size_t)f->counter_at;
    if (fold_split_first(tuple, len, f->ends, want + 1) <= want)
        return;
    const char *at = tuple + (want ? f->ends[want - 1] + 1 : 1);
    uint64_t value = *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : 0;
    /* Behind the highest there is no next number: a restore leaves the counter behind the rows. */
    if (value > f->counter && value < UINT64_MAX)
        f->counter = value;
}

/* Changes of segments stay in memory until the second frame behind theirs is read. */
static int fold_row(struct run *r, struct folded *f, const struct change *c, struct err *e)
{
    enum fold_op op = c->kind == CHANGE_INSERT   ? FOLD_INSERT
                      : c->kind == CHANGE_DELETE ? FOLD_DELETE
                                                 : FOLD_REPLACE;
    if (r->filed && !r->plain && c->kind != CHANGE_UPDATE && c->kind != CHANGE_TRUNCATE)
        return fold_later(r->out->fold, f->fold, op, c->tuple, c->len, e);
    if (r->filed && fold_now(r->out->fold, e) < 0)
        return -1;
    if (c->kind == CHANGE_UPDATE)
        return fold_update(f->fold, c->before, c->before_len, c->tuple, c->len, e);
    if (c->kind != CHANGE_TRUNCATE)
        return fold_change(f->fold, op, c->tuple, c->len, e);
    fold_truncate(f->fold);
    return 0;
}

/* A contradiction that was told late says nothing about where it is: all is read again, one change
 * at a time. */
static void contradiction(struct run *r, const struct err *e)
{
    if (r->filed && !r->plain) {
        r->plain = r->again = true;
        set_phase(r, PHASE_OVER);
    } else {
        gap(r, "%s", e->text);
    }
}

static void take_row(struct run *r, const struct change *c)
{
    struct err e;
    if (r->phase != PHASE_WORLD || r->group.passed_over)
        return;
    struct folded *f = find_table(r, c->table);
    if (!f)
        return;
    int rc = fold_row(r, f, c, &e);
    if (c->kind == CHANGE_TRUNCATE)
        f->counter = 0;
    else if (may_count(f, c->kind))
        see_counter(f, c->tuple, c->len);
    r->out->changes++;
    if (rc < 0)
        contradiction(r, &e);
}

/* ---- the edges of the world ---- */

static bool goes_on(const struct run *r, const struct statement_mark *mark)
{
    return r->s->m && strcmp(mark->dump, r->s->m->name) == 0 &&
           strcmp(mark->upto.file, r->out->upto.file) == 0 && mark->upto.pos == r->out->upto.pos;
}

/* A restore of ours: did it put in what is folded here? */
static void take_swap(struct run *r, const struct statement_mark *mark)
{
    if (r->phase == PHASE_LOST && goes_on(r, mark)) {
        set_phase(r, PHASE_WORLD);
        r->out->to_loss = false;
        r->out->gap[0] = '\0';
        memcpy(r->out->nonce, mark->nonce, sizeof r->out->nonce);
    } else {
        gap(r, "dump %s was restored meanwhile", mark->dump);
    }
}

static void lose(struct run *r, wall_t at)
{
    if (r->phase == PHASE_WORLD)
        set_phase(r, PHASE_LOST);
    r->out->to_loss = true;
    r->out->lost_at = at;
}

/* ---- groups ---- */

static void keep_place(struct db_point *p, const char *file, uint64_t pos)
{
    if (strcmp(p->file, file) != 0) /* three times a group */
        snprintf(p->file, sizeof p->file, "%s", file);
    p->pos = pos;
}

/* A segment was proven to go on when it was written, and may hold a jump: but it may be of a log
 * that was begun anew since the dump, with the same names. The dump then lies between two groups
 * whose numbers do not lie around its own. */
static bool segment_fits(const struct run *r, const struct change_gtid *g)
{
    const struct db_point *p = &r->place.point;
    struct db_gtid_range had = db_gtid_range(p, g->domain);
    bool ahead = r->skipped.seq > had.most && r->skipped.domain == g->domain;
    return had.least == 0 || (g->seq > had.least && !ahead);
}

static void check_first_gtid(struct run *r, const struct change_gtid *g)
{
    struct err e;
    r->first_gtid_seen = true;
    if (r->filed ? segment_fits(r, g) : history_goes_on(r->s->db, &r->place.point, g, &e) == 0)
        return;
    if (r->filed) {
        r->unfit = r->begun;
        r->again = true; /* without it: older ones may be those of the dump */
    } else {
        gap(r, "%s", e.text);
    }
    set_phase(r, PHASE_OVER); /* nothing in it can mend that */
}

/* Than the time that was asked for. The log has the clocks of sessions, which may be set ahead (SET
 * TIMESTAMP): one that is ahead of ours tells nothing. */
static bool later(const struct run *r)
{
    int64_t until = r->s->until.ms, at = r->group.at.ms;
    return until && at > until && at <= r->now.ms + CLOCKS_APART_MS;
}

static void begin_group(struct run *r, const struct change *c)
{
    keep_place(&r->group.begins, c->file, c->pos);
    r->group.open = true;
    r->group.at = c->at;
    r->group.before = r->out->changes;
    r->group.passed_over = false;
    if (c->gtid.seq && !r->first_gtid_seen)
        check_first_gtid(r, &c->gtid);
    for (size_t i = 0; i < r->half_count; i++)
        r->group.passed_over |= same_place(&r->half[i], &r->group.begins);
    if (r->stop.file[0] && same_place(&r->stop, &r->group.begins))
        tell_gap(r);
    if (later(r))
        set_phase(r, PHASE_OVER);
}

static void end_group(struct run *r, const struct change *c)
{
    if (r->phase == PHASE_WORLD && !r->group.passed_over) {
        keep_place(&r->out->upto, c->file, c->pos);
        r->out->last = r->group.at;
    }
    r->group.open = false;
}

/* It goes on without the end of the group: that did not happen. */
static void cut_off(struct run *r)
{
    if (r->phase == PHASE_WORLD && partly_taken(r)) {
        if (r->half_count < TRIES)
            r->half[r->half_count++] = r->group.begins;
        r->again = true;
        set_phase(r, PHASE_OVER);
    }
    r->group.open = false;
}

static int take(void *arg, const struct change *c)
{
    struct run *r = arg;
    if (r->phase == PHASE_OVER)
        return 0;
    switch (c->kind) {
    case CHANGE_BEGIN:
        begin_group(r, c);
        break;
    case CHANGE_TABLE:
        if (r->phase == PHASE_WORLD)
            find_table(r, c->table);
        break;
    case CHANGE_INSERT:
    case CHANGE_DELETE:
    case CHANGE_UPDATE:
    case CHANGE_REPLACE:
    case CHANGE_TRUNCATE:
        take_row(r, c);
        break;
    case CHANGE_END:
        end_group(r, c);
        break;
    case CHANGE_CUT:
        cut_off(r);
        break;
    case CHANGE_LOST:
        lose(r, c->at);
        break;
    case CHANGE_SWAP:
        take_swap(r, c->mark);
        break;
    case CHANGE_GAP:
        if (r->phase == PHASE_WORLD && !r->group.passed_over)
            gap(r, "%s", c->why);
        break;
    case CHANGE_BEAT:
    case CHANGE_STRANGER:
        break;
    }
    return 0;
}

/* ---- the segments ---- */

static int compare(const struct change *c, const struct db_point *from)
{
    struct db_point p = {.pos = c->pos};
    if (strcmp(c->file, from->file) == 0)
        return (c->pos > from->pos) - (c->pos < from->pos);
    snprintf(p.file, sizeof p.file, "%s", c->file);
    return db_point_compare(&p, from);
}

static void fold_waiting(struct run *r, int (*how)(struct fold *, struct err *))
{
    struct err e;
    if (how(r->out->fold, &e) < 0)
        contradiction(r, &e);
}

/* True: it was read to its end, or far enough. What cannot be read is damage, which is told. */
static bool read_segment(struct run *r, const struct archive_segment *s)
{
    struct change c;
    struct err e;
    bool skip = true; /* what the dump holds already */
    uint64_t groups = 0;
    int got = 1;
    struct segment_reader *reader = segment_open(r->s->archive_fd, s->file, &e);
    while (reader && r->phase != PHASE_OVER && (got = segment_next(reader, &c, &e)) == 1) {
        if (skip && c.kind != CHANGE_END && (c.kind == CHANGE_BEGIN || !r->group.open))
            skip = compare(&c, r->s->from) < 0;
        if (!skip)
            take(r, &c);
        else if (c.kind == CHANGE_END && c.gtid.seq && compare(&c, r->s->from) <= 0)
            r->skipped = c.gtid;
        if (segment_frame_ends(reader))
            fold_waiting(r, fold_turn);
        if (c.kind == CHANGE_END && ++groups % TELL_GROUPS == 0)
            progress_at(r->s->progress, r->out->changes, r->out->bytes + segment_whole(reader));
    }
    fold_waiting(r, fold_now);
    if (reader) {
        if (db_point_compare(&segment_sum(reader)->to.point, r->s->from) >= 0)
            r->place = segment_sum(reader)->to; /* else the log must not tell what the dump holds */
        r->out->bytes += segment_whole(reader);
    }
    if (got < 0 && partly_taken(r))
        gap(r, "%.500s", e.text);
    segment_reader_close(reader);
    if (reader && got >= 0)
        return true;
    snprintf(r->out->damage, sizeof r->out->damage, "%.500s", e.text);
    return false;
}

/* As far as they go; what is behind them the log may still have. */
static void read_segments(struct run *r)
{
    struct archive a;
    struct err e;
    if (r->s->archive_fd < 0 || !r->s->m)
        return;
    if (archive_load(r->s->archive_fd, r->s->m->world, &a, &e) < 0) {
        snprintf(r->out->damage, sizeof r->out->damage, "%.500s", e.text);
        return;
    }
    struct archive fit = a;
    while (r->unfit && fit.count && fit.list[fit.count - 1].number >= r->unfit)
        fit.count--;
    int i = archive_find(&fit, r->s->from, r->place.born, &r->s->m->server);
    r->filed = i >= 0;
    r->begun = i >= 0 ? a.list[i].number : 0;
    while (i >= 0 && read_segment(r, &a.list[i]) && r->phase != PHASE_OVER)
        i = archive_goes_on(&a, (size_t)i) ? i + 1 : -1;
    r->out->filed = r->out->changes;
    r->out->files_end = r->filed ? r->place.at : (wall_t){0};
    r->filed = false;
    archive_free(&a);
}

/* ---- the log ---- */

/* Places are those between groups. A file that comes after the one of `upto` is behind it too, but
 * none is read that far. */
static bool there(const struct run *r)
{
    const struct db_point *to = r->s->upto;
    uint64_t pos;
    const char *file = binlog_file(r->log, &pos);
    return to && strcmp(file, to->file) == 0 && pos >= to->pos;
}

static int read_events(struct run *r, struct err *e)
{
    struct event ev;
    uint64_t told = r->out->bytes;
    int got = 1;
    while (r->phase != PHASE_OVER && (got = binlog_next(r->log, &ev, e)) == 1) {
        r->out->bytes += ev.size;
        decode_event(r->decode, r->log, &ev);
        if (there(r))
            break;
        if (r->out->bytes - told < TELL_BYTES)
            continue;
        told = r->out->bytes;
        progress_at(r->s->progress, r->out->changes, told);
    }
    if (got == 0)
        decode_end(r->decode);
    r->out->at_end = got == 0;
    return got < 0 ? -1 : 0;
}

static int read_log(struct run *r, struct err *e)
{
    struct binlog_options o = {.heartbeat = HEARTBEAT_MS, .to_end = true, .born = r->place.born};
    const struct statement_world w = {r->s->schema, r->s->sentinel, &r->judged};
    r->log = binlog_open(r->s->db, &r->place.point, &o, e);
    if (!r->log)
        return -1;
    r->decode = decode_new(&w, &r->place.point, false, take, r);
    set_phase(r, r->phase);
    int rc = read_events(r, e);
    decode_free(r->decode);
    binlog_close(r->log);
    r->decode = NULL;
    r->log = NULL;
    return rc;
}

/* ---- the whole ---- */

static void forget(struct run *r)
{
    fold_free(r->out->fold);
    forget_tables(r);
    *r->out = (struct replay){.fold = fold_new()};
    keep_place(&r->out->upto, r->s->from->file, r->s->from->pos);
    if (r->s->m)
        snprintf(r->out->nonce, sizeof r->out->nonce, "%s", r->s->m->nonce);
    r->place = (struct segment_place){.point = *r->s->from};
    if (r->s->m && strcmp(r->s->m->end.file, r->s->from->file) == 0)
        r->place.born = r->s->m->log_born;
    r->phase = PHASE_WORLD;
    r->again = r->first_gtid_seen = r->group.open = false;
    r->skipped = (struct change_gtid){0};
}

static int read_once(struct run *r, struct err *e)
{
    forget(r);
    if (r->s->upto && same_place(r->s->from, r->s->upto))
        return 0;
    read_segments(r);
    if (r->phase == PHASE_OVER)
        return 0;
    r->first_gtid_seen = false; /* the log must go on where the segments end */
    return read_log(r, e);
}

/* The wire may have been at fault, or a crowd that comes back after the restart took all
 * connections. */
static bool worth_another(const struct err *e)
{
    if (db_no_connection(e))
        usleep(FULL_PAUSE_US);
    return e->cls == ERR_UNREACHABLE || e->cls == ERR_DAMAGED || db_no_connection(e);
}

static void gap_in_log(struct run *r, const struct err *e)
{
    char t[TEXT_SHORT];
    bool ours = e->cls == ERR_DENIED || e->cls == ERR_REFUSED; /* the way out is short */
    const char *sep = ours && e->hint[0] ? "; " : "", *hint = ours ? e->hint : "";
    if (r->out->gap[0])
        return; /* an earlier one, at which the world ends */
    if (r->out->damage[0])
        gap(r, "%.300s; and of the server's log: %.200s%s%s", r->out->damage, e->text, sep, hint);
    else if (r->out->files_end.ms)
        gap(r, "its files end at %s; and of the server's log: %.400s%s%s",
            text_utc(r->out->files_end, t), e->text, sep, hint);
    else
        gap(r, "%s%s%s", e->text, sep, hint);
}

/* A log that cannot be read is no reason not to restore; a server that is gone is. */
static int as_gap(struct run *r, const struct err *e)
{
    if (db_unanswered(e) || e->cls == ERR_ABORTED || e->cls == ERR_SYSTEM || db_no_connection(e))
        return -1;
    gap_in_log(r, e);
    if (!r->again)
        return 0;
    struct err ignored; /* half a group is in: once more, up to it */
    return read_once(r, &ignored) < 0 && !r->out->gap[0] ? -1 : 0;
}

/* Each reading found another group that does not count. */
static void give_up(struct run *r)
{
    forget(r);
    gap(r, "too many groups in it were cut off");
}

/* They outlive the run. */
static void keep_counters(struct run *r)
{
    struct replay *out = r->out;
    out->counters = xcalloc(r->count + 1, sizeof *out->counters);
    for (size_t i = 0; i < r->count; i++)
        if (r->tables[i]->counter)
            out->counters[out->counter_count++] =
                (struct replay_counter){xstrdup(r->tables[i]->name), r->tables[i]->counter + 1};
}

static void run_free(struct run *r)
{
    forget_tables(r);
    free(r->judged.list);
}

int replay_read(const struct replay_source *s, struct replay *out, struct err *e)
{
    struct run r = {.s = s, .out = out, .now = clock_wall()};
    int rc = 0, tries = 0;
    *out = (struct replay){0};
    list_tables(&r);
    if (s->from->file[0]) {
        do
            rc = read_once(&r, e);
        while (++tries < TRIES && (rc < 0 ? worth_another(e) : r.again));
        if (rc < 0)
            rc = as_gap(&r, e);
        else if (r.again)
            give_up(&r);
    } else {
        forget(&r);
        gap(&r, "the dump does not know its place in a binary log");
    }
    keep_counters(&r);
    run_free(&r);
    if (rc < 0)
        replay_free(out);
    return rc;
}

uint64_t replay_counter(const struct replay *r, const char *table)
{
    for (size_t i = 0; i < r->counter_count; i++)
        if (strcmp(r->counters[i].table, table) == 0)
            return r->counters[i].next;
    return 0;
}

void replay_free(struct replay *r)
{
    fold_free(r->fold);
    for (size_t i = 0; i < r->counter_count; i++)
        free(r->counters[i].table);
    free(r->counters);
    *r = (struct replay){0};
}
