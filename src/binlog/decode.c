#include "binlog/decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "binlog/gtid.h"
#include "binlog/held.h"
#include "binlog/row_image.h"
#include "binlog/statement_scope.h"
#include "binlog/statement_summary.h"
#include "mysql/sentinel.h"

#define OTHERS 1024u
#define UNKNOWN_NAMES 4096u

struct seen {
    const struct db_table *t;
    struct change_table pub;
    struct row_image *image; /* NULL until a row of the table is read */
    bool reported;           /* CHANGE_TABLE was reported */
    bool misfit;             /* its rows have another definition than the list; this was reported */
    bool sentinel;           /* its rows are markers */
    uint64_t changed_in;     /* number of the last transaction with changes of it, if carried */
};

/* A table of the current statement. There are few, unless a session has locked many tables: the
 * server then maps each of them in each of its statements. MAPS_MAX limits the memory for a
 * server that names tables without end. */
#define MAPS_MAX ((size_t)1 << 18)
#define MAP_SLOTS 4096u
struct map {
    uint64_t id;
    struct seen *seen; /* NULL if its rows are not needed */
    uint32_t next;     /* 1 + the index of the previous map in the same slot; 0: none */
};

struct decode {
    const struct statement_world *world;
    struct seen *seen; /* [i] belongs to world->tables->list[i] */
    size_t count;
    uint64_t others[OTHERS]; /* ids of tables outside the world, indexed by id modulo OTHERS */
    /* Hashes of the names of unknown tables, indexed by hash modulo UNKNOWN_NAMES. Ids alone do
     * not suffice, because the server gives a table a new id each time it opens it. */
    uint64_t unknown_names[UNKNOWN_NAMES];
    struct map *maps; /* in the order of their arrival */
    size_t map_count, map_room;
    /* 1 + the index of the last map whose id has this value modulo MAP_SLOTS; 0: none. A statement
     * can change rows of many tables in turn, with an event for each row. */
    uint32_t map_slots[MAP_SLOTS];
    change_fn *fn;
    void *arg;
    bool rows, markers, replaces;
    char from[256]; /* the file in which reading began */
    bool rotated;   /* the last event of the previous file was a rotation */
    bool lost; /* a restart of the server was read, and since then nothing that shows a world */
    uint32_t server_id;   /* of the server that wrote the file; 0: not known yet */
    struct held *held;    /* the transaction's changes of carried tables */
    uint64_t transaction; /* its number, from 1 on */

    struct change at; /* the fields that all changes of a transaction have in common */
    struct buf before, tuple, letters;
};

static int decode_give(struct decode *d, enum change_kind kind, struct change *c)
{
    c->kind = kind;
    c->file = d->at.file;
    c->pos = d->at.pos;
    c->created_at = d->at.created_at;
    c->at = d->at.at;
    c->gtid = d->at.gtid;
    return d->fn(d->arg, c);
}

static int decode_gap(struct decode *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int decode_gap(struct decode *d, const char *fmt, ...)
{
    char why[LINE];
    va_list ap;
    va_start(ap, fmt);
    line_vset(why, sizeof why, fmt, ap);
    va_end(ap);
    return decode_give(d, CHANGE_GAP, &(struct change){.why = why});
}

/* ---- maps ---- */

static const struct map *find_map(const struct decode *d, uint64_t id)
{
    for (uint32_t at = d->map_slots[id % MAP_SLOTS]; at; at = d->maps[at - 1].next)
        if (d->maps[at - 1].id == id)
            return &d->maps[at - 1];
    return NULL;
}

/* Remembers a map. If there are too many, the map is dropped, and rows of its table become a
 * gap. */
static void put_map(struct decode *d, uint64_t id, struct seen *seen)
{
    uint32_t *slot = &d->map_slots[id % MAP_SLOTS];
    if (d->map_count == MAPS_MAX)
        return;
    if (d->map_count == d->map_room) {
        d->map_room = d->map_room ? 2 * d->map_room : 64;
        d->maps = xrealloc(d->maps, d->map_room * sizeof *d->maps);
    }
    d->maps[d->map_count++] = (struct map){id, seen, *slot};
    *slot = (uint32_t)d->map_count;
}

static void forget_maps(struct decode *d)
{
    for (size_t i = 0; i < d->map_count; i++)
        d->map_slots[d->maps[i].id % MAP_SLOTS] = 0;
    d->map_count = 0;
}

/* ---- tables ---- */

static struct seen *seen_of(const struct decode *d, const struct db_table *t)
{
    return &d->seen[t - d->world->tables->list];
}

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
        row_image_close(d->seen[i].image);
    free(d->seen);
    d->seen = NULL;
    d->count = 0;
    forget_maps(d);
}

void decode_tables(struct decode *d)
{
    const struct db_tables *tables = d->world->tables;
    forget_tables(d);
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
        s->sentinel = strcmp(t->name, d->world->sentinel) == 0;
    }
}

/* Returns whether rows of this table are read. Rows of the sentinel are markers; rows of its
 * lease are ours and are skipped. */
static bool decode_followed(const struct decode *d, const struct seen *s)
{
    return (s->t->memory || s->t->carried) &&
           (s->sentinel ? d->markers : !db_sentinel_own(d->world->sentinel, s->t->name));
}

/* Meets a table that is not in the list, because it has another engine or is new in the world.
 * It is reported once, until a statement may have replaced it. */
static int meet_unknown(struct decode *d, const struct event_map *map)
{
    uint64_t *other = &d->others[map->table_id % OTHERS];
    if (*other == map->table_id)
        return 0;
    *other = map->table_id;
    /* 0 marks a free slot */
    uint64_t hash = text_hash(TEXT_HASH, map->table, strlen(map->table)) | 1;
    uint64_t *known = &d->unknown_names[hash / 2 % UNKNOWN_NAMES];
    if (*known == hash)
        return 0;
    *known = hash;
    return decode_give(d, CHANGE_UNKNOWN_TABLE, &(struct change){0});
}

static int decode_introduce(struct decode *d, struct seen *s)
{
    if (s->reported || s->sentinel)
        return 0;
    s->reported = true;
    return decode_give(d, CHANGE_TABLE, &(struct change){.table = &s->pub});
}

/* Reports a gap that concerns only this table. */
static int decode_table_gap(struct decode *d, const struct seen *s, enum scope_deed deed,
                            const char *why)
{
    struct statement_scope scope = {.count = 1, .tables = {{.table = s->t, .deed = deed}}};
    snprintf(scope.tables[0].name, sizeof scope.tables[0].name, "%s", s->t->name);
    return decode_give(
        d, CHANGE_GAP,
        &(struct change){.why = why, .definitions = deed == SCOPE_ARRIVED, .scope = &scope});
}

/* Learns the format of a table's rows. If it is unknown, there is no image. */
static int begin_table(struct decode *d, struct seen *s, const struct event_map *map)
{
    struct err e;
    if (s->misfit || (s->image && row_image_fits(s->image, map)))
        return 0;
    if (decode_introduce(d, s) < 0)
        return -1;
    if (!d->rows)
        return 0;
    row_image_close(s->image);
    s->image = row_image_open(map, s->t, &e);
    s->misfit = !s->image;
    /* Its definition is no longer the listed one, which the log may not have shown. Its rows cannot
     * be read until it is listed again. */
    return s->misfit ? decode_table_gap(d, s, SCOPE_ARRIVED, e.text) : 0;
}

static int take_map(struct decode *d, const struct event_map *map)
{
    struct seen *s = NULL;
    if (!d->rows)
        return 0;
    if (strcmp(map->schema, d->world->schema) == 0 &&
        strncmp(map->table, DB_OWN_PREFIX, strlen(DB_OWN_PREFIX)) != 0) {
        const struct db_table *t = db_table_find(d->world->tables, map->table);
        s = t ? seen_of(d, t) : NULL;
        if (!s && meet_unknown(d, map) < 0)
            return -1;
    }
    if (s && !decode_followed(d, s))
        s = NULL;
    if (s && begin_table(d, s, map) < 0)
        return -1;
    put_map(d, map->table_id, s && (s->image || s->misfit) ? s : NULL);
    return 0;
}

/* ---- changes that can be undone ---- */

/* Reports the changes of carried tables that were held back. */
static int give_held(struct decode *d)
{
    struct change c;
    int rc = 0;
    for (size_t i = 0; rc == 0 && d->rows && held_get(d->held, i, &c); i++)
        rc = decode_give(d, c.kind, &c);
    return rc;
}

static void note_carried(struct decode *d, struct seen *s)
{
    s->changed_in = d->transaction;
    held_note(d->held);
}

/* Reports a change of rows. A change of a carried table is reported when its transaction ends. */
static int decode_give_rows(struct decode *d, struct seen *s, enum change_kind kind,
                            struct change *c)
{
    c->kind = kind;
    c->table = &s->pub;
    if (s->t->carried) {
        note_carried(d, s);
        if (held_add(d->held, c))
            return 0;
        if (give_held(d) < 0)
            return -1;
        held_drop(d->held);
    }
    return d->rows ? decode_give(d, kind, c) : 0;
}

/* Reports a gap for the carried tables that this transaction changed, or for all of them. */
static int doubt_carried(struct decode *d, bool all, const char *how)
{
    int rc = 0;
    char why[LINE];
    for (size_t i = 0; rc == 0 && i < d->count; i++) {
        const struct seen *s = &d->seen[i];
        if (!s->t->carried || !(all || s->changed_in == d->transaction))
            continue;
        line_set(why, sizeof why, "table %s: %s", s->t->name, how);
        rc = decode_table_gap(d, s, SCOPE_ALTERED, why);
    }
    return rc;
}

/* Decides on the changes of carried tables at the end of the transaction. */
static int end_carried(struct decode *d)
{
    switch (held_end(d->held)) {
    case HELD_HAPPENED:
        return give_held(d);
    case HELD_UNCERTAIN:
        return doubt_carried(d, false, "it is not certain which changes of a transaction happened");
    case HELD_UNDONE:
        break;
    }
    return 0;
}

/* ---- rows ---- */

/* Takes one change and returns the position after it, or NULL if it cannot be read. */
static const char *take_change(struct decode *d, struct seen *s, const struct event_rows *rows,
                               const char *at, const char *end, int *rc, struct err *e)
{
    static const enum change_kind kinds[] = {[EVENT_INSERT] = CHANGE_INSERT,
                                             [EVENT_UPDATE] = CHANGE_UPDATE,
                                             [EVENT_DELETE] = CHANGE_DELETE};
    struct change c = {0};
    bool update = rows->op == EVENT_UPDATE;
    const char *second = NULL;
    buf_clear(&d->before);
    buf_clear(&d->tuple);
    if (update && d->replaces && !s->sentinel)
        second = row_image_same_key(s->image, rows, at, end);
    at = second
             ? second
             : row_image_read(s->image, rows, false, at, end, update ? &d->before : &d->tuple, e);
    if (at && update)
        at = row_image_read(s->image, rows, true, at, end, &d->tuple, e);
    if (!at)
        return NULL;
    c.before = d->before.p;
    c.before_len = d->before.len;
    c.tuple = d->tuple.p;
    c.len = d->tuple.len;
    if (!s->sentinel) {
        *rc = decode_give_rows(d, s, second ? CHANGE_REPLACE : kinds[rows->op], &c);
    } else if (update) {
        d->lost = false; /* markers are written only while the world is up */
        *rc = decode_give(d, CHANGE_MARKER, &c);
    }
    return at;
}

static int take_images(struct decode *d, struct seen *s, const struct event_rows *rows)
{
    struct err e;
    int rc = 0;
    const char *at = rows->data, *end = at + rows->len;
    if (row_image_check(s->image, rows, &e) < 0)
        at = NULL;
    while (rc == 0 && d->rows && at && at < end)
        at = take_change(d, s, rows, at, end, &rc, &e);
    if (rc == 0 && !at)
        rc = decode_gap(d, "table %s: %s", s->t->name, e.text);
    return rc;
}

static int take_unreadable(struct decode *d, struct seen *s)
{
    if (s->t->carried)
        note_carried(d, s);
    return decode_give(d, CHANGE_UNREAD, &(struct change){.table = &s->pub});
}

static int take_rows(struct decode *d, const struct event_rows *rows)
{
    int rc = 0;
    if (!d->rows)
        return 0;
    const struct map *map = find_map(d, rows->table_id);
    if (!map && rows->len)
        rc = decode_gap(d, "a row event for an unknown table");
    else if (map && map->seen && map->seen->image)
        /* the image is NULL if a later map of the table did not fit */
        rc = take_images(d, map->seen, rows);
    else if (map && map->seen && rows->len)
        rc = take_unreadable(d, map->seen);
    if (rows->ends)
        forget_maps(d);
    return rc;
}

/* ---- statements ---- */

static int decode_take_truncate(struct decode *d, const struct db_table *t)
{
    struct seen *s = seen_of(d, t);
    if (!d->rows || s->sentinel || !decode_followed(d, s))
        return 0;
    if (decode_introduce(d, s) < 0)
        return -1;
    return decode_give_rows(d, s, CHANGE_TRUNCATE, &(struct change){0});
}

static void decode_renew(struct decode *d, const struct db_table *t)
{
    struct seen *s = t ? seen_of(d, t) : NULL;
    if (!s)
        return;
    row_image_close(s->image);
    s->image = NULL;
    s->misfit = false;
}

/* Returns the text of a statement in which its words are read. Only in UTF-8, ASCII and binary is
 * it certain which bytes are quotes and blanks. A text in another character set may be valid UTF-8
 * by chance: its bytes from 0x80 on become 0xff, so that no function takes it for UTF-8. */
static const char *decode_words(struct decode *d, const struct event *ev)
{
    if (!ev->query.other_letters)
        return ev->query.sql;
    buf_clear(&d->letters);
    buf_add(&d->letters, ev->query.sql, ev->query.len);
    for (size_t i = 0; i < d->letters.len; i++)
        if (d->letters.p[i] & 0x80)
            d->letters.p[i] = (char)0xff;
    return d->letters.p;
}

/* Reports a statement. `mark` is the mark of a restore if the statement contains one, else NULL.
 * A game can write such a mark as well. */
static int give_statement(struct decode *d, const struct event *ev,
                          const struct statement_mark *mark)
{
    struct statement_summary deed;
    struct statement_scope scope;
    char brief[120], why[200];
    bool known = statement_summary(d->world, ev->query.schema, ev->query.sql, ev->query.len, &deed);
    statement_brief(ev->query.sql, ev->query.len, brief, sizeof brief);
    line_set(why, sizeof why, "a statement that was not logged as row changes: %s", brief);
    bool certain =
        !mark && !ev->query.unreadable &&
        statement_scope(d->world, ev->query.schema, decode_words(d, ev), ev->query.len, &scope);
    bool created = certain && scope.count == 1 && scope.tables[0].deed == SCOPE_CREATED;
    /* its rows have the definition listed now, or their map will show that they do not */
    if (created)
        decode_renew(d, scope.tables[0].table);
    return decode_give(d,
                       mark      ? CHANGE_SWAP
                       : created ? CHANGE_CREATED
                                 : CHANGE_GAP,
                       &(struct change){.why = why,
                                        .scope = certain ? &scope : NULL,
                                        .definitions = true,
                                        .deed = known ? &deed : NULL,
                                        .sql = ev->query.sql,
                                        .sql_len = ev->query.len,
                                        .mark = mark});
}

static int give_arrival(struct decode *d, const struct event *ev)
{
    struct statement_scope scope;
    bool certain =
        statement_scope(d->world, ev->query.schema, decode_words(d, ev), ev->query.len, &scope);
    return decode_give(d, CHANGE_UNKNOWN_TABLE, &(struct change){.scope = certain ? &scope : NULL});
}

/* Reports a definition. A new key or another option changes no row, but earlier rows may not fit
 * it. `engine`: the table, if the statement has an ENGINE clause. */
static int give_definition(struct decode *d, const struct event *ev, const struct db_table *engine)
{
    struct statement_scope scope = {
        .count = 1, .tables = {{.table = engine, .deed = SCOPE_ALTERED}}, .engine = true};
    struct statement_summary deed;
    bool known = statement_summary(d->world, ev->query.schema, ev->query.sql, ev->query.len, &deed);
    if (!known && !engine)
        return 0;
    if (engine)
        snprintf(scope.tables[0].name, sizeof scope.tables[0].name, "%s", engine->name);
    return decode_give(d, CHANGE_DEFINED,
                       &(struct change){.deed = known ? &deed : NULL,
                                        .scope = engine ? &scope : NULL,
                                        .sql = ev->query.sql,
                                        .sql_len = ev->query.len});
}

/* Judges a statement with the comment of a restart where no restart was read. Then it is a
 * client's, and the world goes on. A DELETE may have a WHERE; and where another server's statement
 * was executed here, that server may have lost the world. */
static enum statement_kind decode_judge_emptied(const struct decode *d, const struct event *ev,
                                                const struct statement *st)
{
    if (d->lost || db_sentinel_own(d->world->sentinel, st->table->name))
        return STATEMENT_EMPTIED;
    bool own = !d->server_id || ev->server_id == d->server_id;
    return own && st->truncates ? STATEMENT_TRUNCATE : STATEMENT_CHANGE;
}

static int take_query(struct decode *d, const struct event *ev)
{
    struct statement st;
    if (ev->query.len == 6 && memcmp(ev->query.sql, "COMMIT", 6) == 0)
        return 0; /* nearly all transactions end this way */
    statement_judge(d->world, ev->query.schema, ev->flags & EVENT_NO_SCHEMA, decode_words(d, ev),
                    ev->query.len, &st);
    if (held_edge(d->held, &st) &&
        doubt_carried(d, true, "an XA transaction that may have changed it was committed") < 0)
        return -1;
    if (st.kind == STATEMENT_EMPTIED)
        st.kind = decode_judge_emptied(d, ev, &st);
    if (st.kind == STATEMENT_TRUNCATE && ev->flags & EVENT_OF_SESSION)
        /* a temporary table may have the same name as a table of the world */
        st.kind = STATEMENT_CHANGE;
    bool edge = st.kind == STATEMENT_BEGIN || st.kind == STATEMENT_END;
    if (ev->query.unreadable && !edge)
        st.kind = STATEMENT_CHANGE;
    if (!edge)
        memset(d->unknown_names, 0, sizeof d->unknown_names);
    switch (st.kind) {
    case STATEMENT_SWAP:
        d->lost = false;
        return give_statement(d, ev, &st.mark);
    case STATEMENT_EMPTIED:
        return st.table->memory && !db_sentinel_own(d->world->sentinel, st.table->name)
                   ? decode_give(d, CHANGE_LOST, &(struct change){0})
                   : 0;
    case STATEMENT_TRUNCATE:
        return decode_take_truncate(d, st.table);
    case STATEMENT_CHANGE:
        return give_statement(d, ev, NULL);
    case STATEMENT_EXISTS:
        return decode_give(d, CHANGE_EXISTS,
                           &(struct change){.table = &seen_of(d, st.table)->pub,
                                            .sql = ev->query.sql,
                                            .sql_len = ev->query.len});
    case STATEMENT_ARRIVAL:
        return give_arrival(d, ev);
    case STATEMENT_NONE:
        return give_definition(
            d, ev,
            st.table && !db_sentinel_own(d->world->sentinel, st.table->name) ? st.table : NULL);
    case STATEMENT_BEGIN:
    case STATEMENT_END:
        break;
    }
    return 0;
}

/* ---- transactions ---- */

static void set_place(struct decode *d, const struct binlog_position *p, const struct event *ev)
{
    d->at.file = p->file;
    d->at.pos = p->pos;
    d->at.created_at = p->created_at;
    if (ev)
        d->at.at = (wall_t){(int64_t)ev->at * 1000};
}

static int decode_begin_group(struct decode *d, const struct binlog_position *p,
                              const struct event *ev)
{
    set_place(d, p, ev);
    d->at.pos = p->group.begins;
    d->at.gtid = (struct change_gtid){0};
    if (ev->kind == EVENT_GTID)
        d->at.gtid = (struct change_gtid){
            ev->gtid.mariadb ? ev->gtid.domain : db_gtid_domain(ev->gtid.uuid, ev->gtid.tag),
            ev->server_id, ev->gtid.seq};
    forget_maps(d);
    held_begin(d->held);
    d->transaction++;
    return decode_give(d, CHANGE_BEGIN, &(struct change){0});
}

static int cut_off(struct decode *d)
{
    forget_maps(d);
    return decode_give(d, CHANGE_CUT, &(struct change){0});
}

/* The server was started with this file. A server that is killed or stopped logs no rotation to
 * the next file. If there was a rotation, the server could not write the next file and continued
 * without a log. */
static int take_format(struct decode *d, const struct binlog_position *p, const struct event *ev)
{
    d->server_id = ev->server_id;
    if (!ev->next || !ev->format.created || strcmp(p->file, d->from) == 0)
        return 0;
    d->lost = true;
    set_place(d, p, ev);
    if (d->rotated &&
        decode_gap(d, "the server closed its binary log and wrote none until its restart") < 0)
        return -1;
    if (p->broke_off &&
        decode_gap(d,
                   "an event in the log is incomplete, and more events follow it: a statement "
                   "exceeded max_binlog_stmt_cache_size or the space in the server's tmpdir") < 0)
        return -1;
    return decode_give(d, CHANGE_LOST, &(struct change){0});
}

static int take_event(struct decode *d, const struct binlog_position *p, const struct event *ev)
{
    switch (ev->kind) {
    case EVENT_FORMAT:
        return take_format(d, p, ev);
    case EVENT_MAP:
        return take_map(d, &ev->map);
    case EVENT_ROWS:
        return take_rows(d, &ev->rows);
    case EVENT_QUERY:
        return take_query(d, ev);
    case EVENT_UNREADABLE:
        return decode_gap(d, "an event of the unsupported type %s", ev->name);
    case EVENT_LOST:
        return decode_gap(d, "the server reports that changes are missing from its log");
    case EVENT_XID:
        if (ev->prepared)
            held_prepare(d->held, d->rows);
        break;
    case EVENT_SKIPPED:
    case EVENT_ROTATE:
    case EVENT_STOP:
    case EVENT_GTID:
    case EVENT_HEARTBEAT:
        break;
    }
    return 0;
}

int decode_event(struct decode *d, const struct binlog *log, const struct event *ev)
{
    const struct binlog_position *p = binlog_at(log);
    const struct transaction *t = &p->group;
    if (t->cut && cut_off(d) < 0)
        return -1;
    if ((t->part == TRANSACTION_BEGINS || t->part == TRANSACTION_SINGLE) &&
        decode_begin_group(d, p, ev) < 0)
        return -1;
    if (take_event(d, p, ev) < 0)
        return -1;
    if (ev->next && ev->kind != EVENT_HEARTBEAT)
        d->rotated = ev->kind == EVENT_ROTATE;
    if (t->part != TRANSACTION_ENDS && t->part != TRANSACTION_SINGLE)
        return 0;
    if (end_carried(d) < 0)
        return -1;
    set_place(d, p, NULL);
    return decode_give(d, CHANGE_END, &(struct change){0});
}

int decode_end(struct decode *d, const struct binlog *log)
{
    return binlog_at(log)->group.open ? cut_off(d) : 0;
}

/* ---- events ---- */

struct decode *decode_new(const struct statement_world *world, const struct db_binlog_pos *from,
                          bool markers, change_fn *fn, void *arg)
{
    struct decode *d = xcalloc(1, sizeof *d);
    d->world = world;
    d->fn = fn;
    d->arg = arg;
    d->rows = true;
    d->markers = markers;
    d->held = held_new();
    d->transaction = 1;
    d->at.file = d->from;
    d->at.pos = from->pos;
    snprintf(d->from, sizeof d->from, "%s", from->file);
    decode_tables(d);
    return d;
}

void decode_rows(struct decode *d, bool wanted)
{
    d->rows = wanted;
}

void decode_replaces(struct decode *d)
{
    d->replaces = true;
}

void decode_free(struct decode *d)
{
    if (!d)
        return;
    forget_tables(d);
    held_free(d->held);
    free(d->maps);
    buf_free(&d->before);
    buf_free(&d->tuple);
    buf_free(&d->letters);
    free(d);
}
