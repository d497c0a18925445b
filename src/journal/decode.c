#include "journal/decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/gtid.h"
#include "db/image.h"
#include "db/sentinel.h"

#define MAPS 64u
#define OTHERS 1024u
#define STRANGERS 4096u

struct seen {
    const struct db_table *t;
    struct change_table pub;
    struct image *image; /* NULL: no row of it came yet */
    bool told;           /* CHANGE_TABLE was */
    bool misfit;         /* its rows are of another definition; told */
    bool beats;          /* it is the sentinel */
};

struct decode {
    const struct statement_world *world;
    const struct db_tables *tables;
    struct seen *seen; /* i-th: of tables->list[i] */
    size_t count;
    uint64_t others[OTHERS]; /* ids of tables that are none of the world's, by id modulo OTHERS */
    /* and hashes of their names, by hash modulo STRANGERS: the server gives a table another id each
     * time it opens it */
    uint64_t strangers[STRANGERS];
    struct map {
        uint64_t id;
        struct seen *seen; /* NULL: rows that do not matter */
    } maps[MAPS];          /* of the statement that is being read */
    size_t map_count;
    change_fn *fn;
    void *arg;
    bool rows, beats;
    char from[256]; /* the file in which reading began */
    bool rotated;   /* the last event of the file before was that it goes on in another one */

    bool open;        /* within a group */
    struct change at; /* what all changes of the group have in common */
    struct buf before, tuple;
};

static int give(struct decode *d, enum change_kind kind, struct change *c)
{
    c->kind = kind;
    c->file = d->at.file;
    c->pos = d->at.pos;
    c->born = d->at.born;
    c->at = d->at.at;
    c->gtid = d->at.gtid;
    return d->fn(d->arg, c);
}

static int gap(struct decode *d, bool definitions, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int gap(struct decode *d, bool definitions, const char *fmt, ...)
{
    char why[640];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return give(d, CHANGE_GAP, &(struct change){.why = why, .definitions = definitions});
}

/* ---- tables ---- */

static int counter_of(const struct db_table *t)
{
    int place = 0;
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->columns[i];
        if (c->counter && !c->generated)
            return place;
        place += !c->generated;
    }
    return -1;
}

static void forget_tables(struct decode *d)
{
    for (size_t i = 0; i < d->count; i++)
        image_close(d->seen[i].image);
    free(d->seen);
    d->seen = NULL;
    d->count = 0;
    d->map_count = 0;
}

void decode_tables(struct decode *d, const struct db_tables *tables)
{
    forget_tables(d);
    d->tables = tables;
    d->count = tables->count;
    d->seen = xcalloc(d->count + 1, sizeof *d->seen);
    for (size_t i = 0; i < d->count; i++) {
        const struct db_table *t = &tables->list[i];
        struct seen *s = &d->seen[i];
        *s = (struct seen){.t = t};
        s->pub = (struct change_table){.name = t->name,
                                       .key = t->key,
                                       .key_count = t->key_count,
                                       .counter = counter_of(t),
                                       .gone = t->column_count == 0};
        db_columns_hash(t, s->pub.columns);
        s->beats = strcmp(t->name, d->world->sentinel) == 0;
    }
}

/* Rows of MEMORY tables; those of the sentinel are beats, and its lease is our own affair. */
static bool followed(const struct decode *d, const struct seen *s)
{
    return s->t->memory && (s->beats ? d->beats : !db_sentinel_own(d->world->sentinel, s->t->name));
}

static struct seen *find_table(const struct decode *d, const char *name)
{
    struct db_table *t = db_table_find(d->tables, name);
    return t ? &d->seen[t - d->tables->list] : NULL;
}

static uint64_t hash_of(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a; 0 is nobody's */
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h ? h : 1;
}

/* A table that is not in the list: of another engine, or new in the world. Told once, until a
 * statement may have made it another one. */
static int meet_stranger(struct decode *d, const struct event_map *map)
{
    uint64_t *other = &d->others[map->table_id % OTHERS];
    if (*other == map->table_id)
        return 0;
    *other = map->table_id;
    uint64_t hash = hash_of(map->table), *known = &d->strangers[hash % STRANGERS];
    if (*known == hash)
        return 0;
    *known = hash;
    return give(d, CHANGE_STRANGER, &(struct change){0});
}

static int introduce(struct decode *d, struct seen *s)
{
    if (s->told || s->beats)
        return 0;
    s->told = true;
    return give(d, CHANGE_TABLE, &(struct change){.table = &s->pub});
}

/* What its rows look like; without an image where that is not known. */
static int begin_table(struct decode *d, struct seen *s, const struct event_map *map)
{
    struct err e;
    if (s->misfit || (s->image && image_fits(s->image, map)))
        return 0;
    if (introduce(d, s) < 0)
        return -1;
    if (!d->rows)
        return 0;
    image_close(s->image);
    s->image = image_open(map, s->t, &e);
    s->misfit = !s->image;
    /* As the table was listed it is not any more, and the log may not have told: until it is listed
     * again nothing of it can be read. */
    return s->misfit ? gap(d, true, "%s", e.text) : 0;
}

static int take_map(struct decode *d, const struct event_map *map)
{
    struct seen *s = NULL;
    if (!d->rows)
        return 0;
    if (d->map_count == MAPS)
        return gap(d, false, "a statement changes more than %u tables", MAPS);
    if (strcmp(map->schema, d->world->schema) == 0 &&
        strncmp(map->table, DB_OWN_PREFIX, strlen(DB_OWN_PREFIX)) != 0) {
        s = find_table(d, map->table);
        if (!s && meet_stranger(d, map) < 0)
            return -1;
    }
    if (s && !followed(d, s))
        s = NULL;
    if (s && begin_table(d, s, map) < 0)
        return -1;
    d->maps[d->map_count++] = (struct map){map->table_id, s && s->image ? s : NULL};
    return 0;
}

/* ---- rows ---- */

/* Returns the place behind it; NULL: it cannot be read. */
static const char *take_change(struct decode *d, struct seen *s, const struct event_rows *rows,
                               const char *at, const char *end, int *rc, struct err *e)
{
    static const enum change_kind kinds[] = {[EVENT_INSERT] = CHANGE_INSERT,
                                             [EVENT_UPDATE] = CHANGE_UPDATE,
                                             [EVENT_DELETE] = CHANGE_DELETE};
    struct change c = {.table = &s->pub};
    bool update = rows->op == EVENT_UPDATE;
    buf_clear(&d->before);
    buf_clear(&d->tuple);
    at = image_read(s->image, rows->present, at, end, update ? &d->before : &d->tuple, e);
    if (at && update)
        at = image_read_after(s->image, rows, at, end, &d->tuple, e);
    if (!at)
        return NULL;
    c.before = d->before.p;
    c.before_len = update ? d->before.len : 0;
    c.tuple = d->tuple.p;
    c.len = d->tuple.len;
    if (!s->beats)
        *rc = give(d, kinds[rows->op], &c);
    else if (update)
        *rc = give(d, CHANGE_BEAT, &c);
    return at;
}

static int take_images(struct decode *d, struct seen *s, const struct event_rows *rows)
{
    struct err e;
    int rc = 0;
    const char *at = rows->data, *end = at + rows->len;
    if (image_check(s->image, rows, &e) < 0)
        at = NULL;
    while (rc == 0 && d->rows && at && at < end)
        at = take_change(d, s, rows, at, end, &rc, &e);
    if (rc == 0 && !at)
        rc = gap(d, false, "table %s: %s", s->t->name, e.text);
    return rc;
}

static int take_rows(struct decode *d, const struct event_rows *rows)
{
    size_t i = 0;
    int rc = 0;
    if (!d->rows)
        return 0;
    while (i < d->map_count && d->maps[i].id != rows->table_id)
        i++;
    if (i == d->map_count && rows->len)
        rc = gap(d, false, "changed rows of an unknown table");
    else if (i < d->map_count && d->maps[i].seen)
        rc = take_images(d, d->maps[i].seen, rows);
    if (rows->ends)
        d->map_count = 0;
    return rc;
}

/* ---- statements ---- */

/* What ends nearly all groups. */
static bool is_commit(const struct event *ev)
{
    return ev->query.len == 6 && memcmp(ev->query.sql, "COMMIT", 6) == 0;
}

static int take_truncate(struct decode *d, const struct db_table *t)
{
    struct seen *s = &d->seen[t - d->tables->list];
    if (!d->rows || s->beats || !followed(d, s))
        return 0;
    if (introduce(d, s) < 0)
        return -1;
    return d->rows ? give(d, CHANGE_TRUNCATE, &(struct change){.table = &s->pub}) : 0;
}

static int take_query(struct decode *d, const struct event *ev)
{
    struct statement st;
    struct statement_world w = *d->world;
    char text[120];
    if (is_commit(ev))
        return 0;
    w.tables = d->tables;
    statement_judge(&w, ev->query.schema, ev->query.sql, ev->query.len, &st);
    if (st.kind == STATEMENT_TRUNCATE && ev->flags & EVENT_OF_SESSION)
        st.kind = STATEMENT_CHANGE; /* a temporary table may have the name of the world's */
    if (st.kind != STATEMENT_BEGIN && st.kind != STATEMENT_END)
        memset(d->strangers, 0, sizeof d->strangers);
    switch (st.kind) {
    case STATEMENT_SWAP:
        return give(d, CHANGE_SWAP, &(struct change){.mark = &st.mark});
    case STATEMENT_EMPTIED:
        return st.table->memory && !db_sentinel_own(d->world->sentinel, st.table->name)
                   ? give(d, CHANGE_LOST, &(struct change){0})
                   : 0;
    case STATEMENT_TRUNCATE:
        return take_truncate(d, st.table);
    case STATEMENT_CHANGE:
        statement_brief(ev->query.sql, ev->query.len, text, sizeof text);
        return gap(d, true, "a statement that row changes do not follow: %s", text);
    case STATEMENT_ARRIVAL:
        return give(d, CHANGE_STRANGER, &(struct change){0});
    case STATEMENT_NONE:
    case STATEMENT_BEGIN:
    case STATEMENT_END:
        break;
    }
    return 0;
}

/* ---- groups ---- */

static void set_place(struct decode *d, const char *file, uint64_t pos, const struct binlog *log)
{
    d->at.file = file;
    d->at.pos = pos;
    d->at.born = binlog_born(log);
}

static int begin_group(struct decode *d, const struct binlog *log, const struct event *ev)
{
    uint64_t pos;
    const char *file = binlog_group(log, &pos);
    set_place(d, file, pos, log);
    d->at.at = (wall_t){(int64_t)ev->at * 1000};
    d->at.gtid = (struct change_gtid){0};
    if (ev->kind == EVENT_GTID)
        d->at.gtid = (struct change_gtid){
            ev->gtid.mariadb ? ev->gtid.domain : db_gtid_domain(ev->gtid.uuid, ev->gtid.tag),
            ev->server_id, ev->gtid.seq};
    d->open = true;
    d->map_count = 0;
    return give(d, CHANGE_BEGIN, &(struct change){0});
}

static int end_group(struct decode *d, const struct binlog *log)
{
    uint64_t pos;
    const char *file = binlog_file(log, &pos);
    d->open = false;
    set_place(d, file, pos, log);
    return give(d, CHANGE_END, &(struct change){0});
}

static int cut_off(struct decode *d)
{
    d->open = false;
    d->map_count = 0;
    return give(d, CHANGE_CUT, &(struct change){0});
}

/* The server was started with this file. One that was killed or stopped before has not gone on to
 * it: then it could not write it, and went on without a log. */
static int take_format(struct decode *d, const struct binlog *log, const struct event *ev)
{
    uint64_t pos;
    const char *file = binlog_file(log, &pos);
    if (!ev->next || !ev->format.created || strcmp(file, d->from) == 0)
        return 0;
    set_place(d, file, pos, log);
    d->at.at = (wall_t){(int64_t)ev->at * 1000};
    if (d->rotated &&
        gap(d, false, "the server had closed its binary log and wrote none until its restart") < 0)
        return -1;
    return give(d, CHANGE_LOST, &(struct change){0});
}

static int take_event(struct decode *d, const struct binlog *log, const struct event *ev)
{
    switch (ev->kind) {
    case EVENT_FORMAT:
        return take_format(d, log, ev);
    case EVENT_MAP:
        return take_map(d, &ev->map);
    case EVENT_ROWS:
        return take_rows(d, &ev->rows);
    case EVENT_QUERY:
        return take_query(d, ev);
    case EVENT_UNREADABLE:
        return gap(d, false, "an event of type %.100s, which cannot be read", ev->name);
    case EVENT_LOST:
        return gap(d, false, "the server says that changes are missing from its log");
    case EVENT_SKIPPED:
    case EVENT_ROTATE:
    case EVENT_STOP:
    case EVENT_GTID:
    case EVENT_XID:
    case EVENT_HEARTBEAT:
        break;
    }
    return 0;
}

int decode_event(struct decode *d, const struct binlog *log, const struct event *ev)
{
    enum binlog_part part = binlog_part(log);
    bool within = d->open;
    bool restarts = ev->kind == EVENT_FORMAT && ev->next != 0;
    if (within && (part == BINLOG_BEGINS || restarts) && cut_off(d) < 0)
        return -1;
    if ((part == BINLOG_BEGINS || (part == BINLOG_ENDS && !within)) && begin_group(d, log, ev) < 0)
        return -1;
    if (take_event(d, log, ev) < 0)
        return -1;
    if (ev->next && ev->kind != EVENT_HEARTBEAT)
        d->rotated = ev->kind == EVENT_ROTATE;
    return part == BINLOG_ENDS ? end_group(d, log) : 0;
}

int decode_end(struct decode *d)
{
    return d->open ? cut_off(d) : 0;
}

/* ---- the whole ---- */

struct decode *decode_new(const struct statement_world *world, const struct db_point *from,
                          bool beats, change_fn *fn, void *arg)
{
    struct decode *d = xcalloc(1, sizeof *d);
    d->world = world;
    d->fn = fn;
    d->arg = arg;
    d->rows = true;
    d->beats = beats;
    d->at.file = d->from;
    d->at.pos = from->pos;
    snprintf(d->from, sizeof d->from, "%s", from->file);
    decode_tables(d, world->tables);
    return d;
}

void decode_rows(struct decode *d, bool wanted)
{
    d->rows = wanted;
}

void decode_free(struct decode *d)
{
    if (!d)
        return;
    forget_tables(d);
    buf_free(&d->before);
    buf_free(&d->tuple);
    free(d);
}
