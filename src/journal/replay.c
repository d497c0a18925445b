#include "journal/replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "db/binlog.h"
#include "db/image.h"
#include "db/sentinel.h"
#include "db/sql.h"
#include "journal/fold_int.h"
#include "journal/statement.h"

#define HEARTBEAT_MS 1000
#define TRIES 20 /* each crash of the server may leave one group that is half there */
#define KNOWN_IDS 64u
#define FULL_PAUSE_US 500000
#define TELL_BYTES (1u << 20)

/* A table of the world. */
struct follow {
    const struct db_table *t;
    struct image *image;     /* NULL: no row of it came yet */
    struct fold_table *fold; /* the same */
    bool counts;             /* has an AUTO_INCREMENT column */
    unsigned counter_at;     /* its place in a tuple */
    uint64_t counter;        /* the highest value that was seen in it */
};

/* What the events that come now mean. */
enum phase {
    PHASE_WORLD, /* changes of the world */
    PHASE_LOST,  /* a restart emptied it, or it cannot be followed: until somebody restores it */
    PHASE_OVER,  /* enough was read */
};

struct run {
    const struct replay_source *s;
    struct replay *out;
    struct binlog *log;
    struct db_tables judged; /* the tables of now and those of the dump that are gone; borrowed */
    struct follow *follows;
    size_t count;
    struct {
        uint64_t id;
        struct follow *follow; /* NULL: another table */
    } maps[KNOWN_IDS];         /* of the statement that is being read */
    size_t map_count;
    enum phase phase;

    struct {
        bool open; /* we are within one */
        struct db_point begins;
        wall_t at;       /* when it was committed */
        uint64_t before; /* changes that were taken before it */
        bool passed_over;
    } group;
    /* Groups that turned out not to count when a part of them was folded already. The log is read
     * again without them. */
    struct db_point half[TRIES];
    size_t half_count;
    struct db_point stop; /* one that cannot be followed; file "": there is none */
    char why[sizeof((struct replay *)0)->gap];
    bool again;

    bool first_gtid_seen;
    struct buf before, after;
};

static bool same_place(const struct db_point *a, const struct db_point *b)
{
    return a->pos == b->pos && strcmp(a->file, b->file) == 0;
}

static bool partly_taken(const struct run *r)
{
    return r->group.open && r->out->changes > r->group.before;
}

static void gap(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void tell_gap(struct run *r)
{
    memcpy(r->out->gap, r->why, sizeof r->why);
    r->out->gap_at = r->group.at;
    r->phase = PHASE_LOST;
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
        r->phase = PHASE_OVER;
}

/* ---- tables ---- */

static bool followed(const struct replay_source *s, const struct db_table *t)
{
    return t->memory && !db_sentinel_own(s->sentinel, t->name);
}

static void find_counter(struct follow *f)
{
    unsigned place = 0;
    for (size_t i = 0; i < f->t->column_count; i++) {
        const struct db_column *c = &f->t->columns[i];
        if (c->counter && !c->generated) {
            f->counts = true;
            f->counter_at = place;
        }
        place += !c->generated;
    }
}

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
    r->follows = xcalloc(most, sizeof *r->follows);
    for (size_t i = 0; i < r->judged.count; i++) {
        if (!followed(r->s, &r->judged.list[i]))
            continue;
        struct follow *f = &r->follows[r->count++];
        f->t = &r->judged.list[i];
        find_counter(f);
    }
}

static struct follow *find_table(const struct run *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->follows[i].t->name, name) == 0)
            return &r->follows[i];
    return NULL;
}

/* The dump must hold the table as it is now; else a definition changed in between. */
static bool in_dump(struct run *r, const struct follow *f)
{
    char now[17];
    if (!r->s->m)
        return true;
    const struct manifest_table *mt = manifest_table(r->s->m, f->t->name);
    db_columns_hash(f->t, now);
    if (f->t->column_count == 0)
        gap(r, "table %s, which changed, is not there any more", f->t->name);
    else if (!mt)
        gap(r, "table %s is not in the dump", f->t->name);
    else if (strcmp(mt->columns_hash, now) != 0)
        gap(r, "the columns of table %s are not those of the dump", f->t->name);
    else
        return true;
    return false;
}

static int begin_table(struct run *r, struct follow *f, const struct event_map *map, struct err *e)
{
    if (!in_dump(r, f))
        return -1;
    image_close(f->image);
    f->image = image_open(map, f->t, e);
    if (!f->image) {
        gap(r, "%s", e->text);
        return -1;
    }
    if (!f->fold)
        f->fold = fold_table(r->out->fold, f->t->name, f->t->key, f->t->key_count);
    return 0;
}

static void take_map(struct run *r, const struct event_map *map, struct err *e)
{
    struct follow *f = strcmp(map->schema, r->s->schema) == 0 ? find_table(r, map->table) : NULL;
    if (r->map_count == KNOWN_IDS) {
        gap(r, "a statement changes more than %u tables", KNOWN_IDS);
        return;
    }
    if (f && !(f->image && image_fits(f->image, map)) && begin_table(r, f, map, e) < 0)
        return;
    r->maps[r->map_count].id = map->table_id;
    r->maps[r->map_count++].follow = f;
}

/* ---- rows ---- */

static void see_counter(struct follow *f, const struct buf *tuple)
{
    size_t ends[256];
    size_t want = f->counter_at;
    if (want > sizeof ends / sizeof *ends || fold_split(tuple->p, tuple->len, ends, want) == 0)
        return;
    const char *at = tuple->p + (want ? ends[want - 1] + 1 : 1);
    uint64_t value = *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : 0;
    if (value > f->counter)
        f->counter = value;
}

static const char *one_image(struct follow *f, const uint8_t *present, const char *at,
                             const char *end, struct buf *out, struct err *e)
{
    buf_clear(out);
    return image_read(f->image, present, at, end, out, e);
}

static const char *one_change(struct run *r, struct follow *f, const struct event_rows *rows,
                              const char *at, const char *end, struct err *e)
{
    struct buf *b = &r->before, *a = &r->after;
    int rc;
    at = one_image(f, rows->present, at, end, b, e);
    if (!at)
        return NULL;
    if (rows->op == EVENT_UPDATE) {
        at = one_image(f, rows->present_after, at, end, a, e);
        if (!at)
            return NULL;
        rc = fold_update(f->fold, b->p, b->len, a->p, a->len, e);
    } else {
        rc = rows->op == EVENT_INSERT ? fold_insert(f->fold, b->p, b->len, e)
                                      : fold_delete(f->fold, b->p, b->len, e);
    }
    if (f->counts && rows->op != EVENT_DELETE)
        see_counter(f, rows->op == EVENT_UPDATE ? a : b);
    r->out->changes++;
    return rc < 0 ? NULL : at;
}

static void take_rows(struct run *r, const struct event_rows *rows, struct err *e)
{
    struct follow *f = NULL;
    size_t i = 0;
    while (i < r->map_count && r->maps[i].id != rows->table_id)
        i++;
    if (i < r->map_count)
        f = r->maps[i].follow;
    else if (rows->len)
        gap(r, "changed rows of an unknown table");
    const char *at = rows->data, *end = at + rows->len;
    if (f && image_check(f->image, rows, e) < 0)
        at = NULL;
    while (f && at && at < end)
        at = one_change(r, f, rows, at, end, e);
    if (!at && f)
        gap(r, "table %s: %s", f->t->name, e->text);
    if (rows->ends)
        r->map_count = 0;
}

/* ---- statements ---- */

static bool goes_on(const struct run *r, const struct statement_mark *mark)
{
    return r->s->m && strcmp(mark->dump, r->s->m->name) == 0 &&
           strcmp(mark->upto.file, r->out->upto.file) == 0 && mark->upto.pos == r->out->upto.pos;
}

/* A restore of ours: did it put in what is folded here? */
static void take_swap(struct run *r, const struct statement_mark *mark)
{
    if (r->phase == PHASE_LOST && goes_on(r, mark)) {
        r->phase = PHASE_WORLD;
        r->out->to_loss = false;
        r->out->gap[0] = '\0';
        memcpy(r->out->nonce, mark->nonce, sizeof r->out->nonce);
    } else {
        gap(r, "dump %s was restored meanwhile", mark->dump);
    }
}

static void lose(struct run *r, uint32_t at)
{
    if (r->phase == PHASE_WORLD)
        r->phase = PHASE_LOST;
    r->out->to_loss = true;
    r->out->lost_at = (wall_t){(int64_t)at * 1000};
}

/* What ends nearly all groups. */
static bool is_commit(const struct event *ev)
{
    return ev->query.len == 6 && memcmp(ev->query.sql, "COMMIT", 6) == 0;
}

static void take_query(struct run *r, const struct event *ev)
{
    struct statement st;
    const struct statement_world w = {r->s->schema, r->s->sentinel, &r->judged};
    char text[120];
    if (is_commit(ev))
        return;
    statement_judge(&w, ev->query.schema, ev->query.sql, ev->query.len, &st);
    if (st.kind == STATEMENT_SWAP) {
        take_swap(r, &st.mark);
    } else if (r->phase != PHASE_WORLD) {
        return; /* nobody's world */
    } else if (st.kind == STATEMENT_EMPTIED) {
        if (followed(r->s, st.table))
            lose(r, ev->at);
    } else if (st.kind == STATEMENT_TRUNCATE) {
        struct follow *f = find_table(r, st.table->name);
        if (!f || !in_dump(r, f))
            return;
        if (!f->fold)
            f->fold = fold_table(r->out->fold, f->t->name, f->t->key, f->t->key_count);
        fold_truncate(f->fold);
        f->counter = 0;
    } else if (st.kind == STATEMENT_CHANGE) {
        statement_brief(ev->query.sql, ev->query.len, text, sizeof text);
        gap(r, "a statement that row changes do not follow: %s", text);
    }
}

/* ---- groups ---- */

static void keep_place(struct db_point *p, const char *file, uint64_t pos)
{
    if (strcmp(p->file, file) != 0) /* three times a group */
        snprintf(p->file, sizeof p->file, "%s", file);
    p->pos = pos;
}

/* The sequence number of a domain in "0-1-7,1-1-3"; 0: there is none. */
static uint64_t seq_of(const char *gtid, uint32_t want)
{
    uint32_t domain, server;
    uint64_t seq;
    int n;
    for (; sscanf(gtid, "%" SCNu32 "-%" SCNu32 "-%" SCNu64 "%n", &domain, &server, &seq, &n) == 3;
         gtid += n + (gtid[n] == ','))
        if (domain == want)
            return seq;
    return 0;
}

/* A session may jump (gtid_seq_no), and so does a replica that leaves groups out. The server then
 * reads its file up to the place, which takes its time, and tells what was written before it. */
static bool same_history(const struct run *r)
{
    struct err ignored;
    struct buf sql = {0};
    struct db *db = db_open(r->s->db, &ignored);
    buf_adds(&sql, "SELECT BINLOG_GTID_POS(");
    sql_string(&sql, r->s->from->file, strlen(r->s->from->file));
    buf_printf(&sql, ",%" PRIu64 ")", r->s->from->pos);
    char *told = db ? db_one(db, sql.p, &ignored) : NULL;
    bool same = told && !r->s->from->gtid_after[0] && strcmp(told, r->s->from->gtid) == 0;
    free(told);
    buf_free(&sql);
    db_close(db);
    return same;
}

/* MariaDB numbers the groups of a domain one by one; a log that was begun anew starts at 1. */
static void check_first_gtid(struct run *r, const struct event_gtid *g)
{
    const struct db_point *p = r->s->from;
    uint64_t least = seq_of(p->gtid, g->domain);
    uint64_t most = p->gtid_after[0] ? seq_of(p->gtid_after, g->domain) : least;
    r->first_gtid_seen = true;
    if (most == 0 || (g->seq > least && g->seq <= most + 1) || (g->seq > most && same_history(r)))
        return;
    gap(r,
        "the binary log is not the one of the dump: it goes on with number %" PRIu64
        " behind %" PRIu64,
        g->seq, most);
    r->phase = PHASE_OVER; /* nothing in it can mend that */
}

static void begin_group(struct run *r, const struct event *ev)
{
    uint64_t pos;
    const char *file = binlog_group(r->log, &pos);
    keep_place(&r->group.begins, file, pos);
    r->group.open = true;
    r->group.at = (wall_t){(int64_t)ev->at * 1000};
    r->group.before = r->out->changes;
    r->group.passed_over = false;
    r->map_count = 0;
    if (ev->kind == EVENT_GTID && ev->gtid.mariadb && !r->first_gtid_seen)
        check_first_gtid(r, &ev->gtid);
    for (size_t i = 0; i < r->half_count; i++)
        r->group.passed_over |= same_place(&r->half[i], &r->group.begins);
    if (r->stop.file[0] && same_place(&r->stop, &r->group.begins))
        tell_gap(r);
    if (r->s->until.ms && r->group.at.ms > r->s->until.ms)
        r->phase = PHASE_OVER;
}

static void end_group(struct run *r)
{
    uint64_t pos;
    const char *file = binlog_file(r->log, &pos);
    if (r->phase == PHASE_WORLD && !r->group.passed_over) {
        keep_place(&r->out->upto, file, pos);
        r->out->last = r->group.at;
    }
    r->group.open = false;
}

/* The log goes on without the end of the group: it did not happen. */
static void cut_off(struct run *r)
{
    if (r->phase == PHASE_WORLD && partly_taken(r)) {
        if (r->half_count < TRIES)
            r->half[r->half_count++] = r->group.begins;
        r->again = true;
        r->phase = PHASE_OVER;
    }
    r->group.open = false;
}

static void take_event(struct run *r, const struct event *ev, struct err *e)
{
    switch (ev->kind) {
    case EVENT_FORMAT:
        if (ev->next && ev->format.created &&
            strcmp(binlog_file(r->log, &(uint64_t){0}), r->s->from->file) != 0)
            lose(r, ev->at);
        break;
    case EVENT_MAP:
        if (r->phase == PHASE_WORLD)
            take_map(r, &ev->map, e);
        break;
    case EVENT_ROWS:
        if (r->phase == PHASE_WORLD && !r->group.passed_over)
            take_rows(r, &ev->rows, e);
        break;
    case EVENT_QUERY:
        take_query(r, ev);
        break;
    case EVENT_UNREADABLE:
        if (r->phase == PHASE_WORLD)
            gap(r, "an event of type %s, which cannot be read", ev->name);
        break;
    case EVENT_LOST:
        if (r->phase == PHASE_WORLD)
            gap(r, "the server says that changes are missing from its log");
        break;
    case EVENT_SKIPPED:
    case EVENT_ROTATE:
    case EVENT_STOP:
    case EVENT_GTID:
    case EVENT_XID:
    case EVENT_HEARTBEAT:
        break;
    }
}

static void take(struct run *r, const struct event *ev, struct err *e)
{
    enum binlog_part part = binlog_part(r->log);
    bool within = r->group.open;
    bool restarts = ev->kind == EVENT_FORMAT && ev->next != 0;
    if (within && (part == BINLOG_BEGINS || restarts))
        cut_off(r);
    if (r->phase != PHASE_OVER && (part == BINLOG_BEGINS || (part == BINLOG_ENDS && !within)))
        begin_group(r, ev);
    if (r->phase != PHASE_OVER)
        take_event(r, ev, e);
    if (r->phase != PHASE_OVER && part == BINLOG_ENDS)
        end_group(r);
}

/* ---- the whole ---- */

/* Places are those between groups. A file that comes after the one of `upto` is behind it too, but
 * none is read that far. */
static bool there(const struct run *r)
{
    const struct db_point *to = r->s->upto;
    uint64_t pos;
    const char *file = binlog_file(r->log, &pos);
    return to && strcmp(file, to->file) == 0 && pos >= to->pos;
}

static int read_log(struct run *r, struct err *e)
{
    struct event ev;
    uint64_t told = 0;
    int got = 1;
    while (r->phase != PHASE_OVER && (got = binlog_next(r->log, &ev, e)) == 1) {
        r->out->bytes += ev.size;
        take(r, &ev, e);
        if (there(r))
            break;
        if (r->out->bytes - told < TELL_BYTES)
            continue;
        told = r->out->bytes;
        progress_at(r->s->progress, r->out->changes, told);
    }
    if (got == 0)
        cut_off(r);
    r->out->at_end = got == 0;
    return got < 0 ? -1 : 0;
}

static void forget(struct run *r)
{
    fold_free(r->out->fold);
    for (size_t i = 0; i < r->count; i++) {
        struct follow *f = &r->follows[i];
        image_close(f->image);
        f->image = NULL;
        f->fold = NULL;
        f->counter = 0;
    }
    *r->out = (struct replay){.fold = fold_new()};
    keep_place(&r->out->upto, r->s->from->file, r->s->from->pos);
    if (r->s->m)
        snprintf(r->out->nonce, sizeof r->out->nonce, "%s", r->s->m->nonce);
    r->phase = PHASE_WORLD;
    r->again = r->first_gtid_seen = false;
    r->group.open = false;
    r->map_count = 0;
}

static int read_once(struct run *r, struct err *e)
{
    struct binlog_options o = {.heartbeat = HEARTBEAT_MS, .to_end = true};
    forget(r);
    if (r->s->upto && same_place(r->s->from, r->s->upto))
        return 0;
    r->log = binlog_open(r->s->db, r->s->from, &o, e);
    int rc = r->log ? read_log(r, e) : -1;
    binlog_close(r->log);
    r->log = NULL;
    return rc;
}

/* The wire may have been at fault, or a crowd that comes back after the restart took all
 * connections. */
static bool worth_another(const struct err *e)
{
    if (db_no_connection(e))
        usleep(FULL_PAUSE_US);
    return e->cls == ERR_UNREACHABLE || e->cls == ERR_DAMAGED || db_no_connection(e);
}

/* A log that cannot be read is no reason not to restore; a server that is gone is. */
static int as_gap(struct run *r, const struct err *e)
{
    if (e->cls == ERR_UNREACHABLE || e->cls == ERR_STALLED || e->cls == ERR_ABORTED ||
        e->cls == ERR_SYSTEM || db_no_connection(e))
        return -1;
    bool ours = e->cls == ERR_DENIED || e->cls == ERR_REFUSED; /* the way out is short */
    gap(r, "%s%s%s", e->text, ours && e->hint[0] ? "; " : "", ours ? e->hint : "");
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
        if (r->follows[i].counter)
            out->counters[out->counter_count++] =
                (struct replay_counter){xstrdup(r->follows[i].t->name), r->follows[i].counter + 1};
}

static void run_free(struct run *r)
{
    for (size_t i = 0; i < r->count; i++)
        image_close(r->follows[i].image);
    free(r->follows);
    free(r->judged.list);
    buf_free(&r->before);
    buf_free(&r->after);
}

int replay_read(const struct replay_source *s, struct replay *out, struct err *e)
{
    struct run r = {.s = s, .out = out};
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
