#include "journal/follow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/clock.h"
#include "core/worker.h"
#include "db/binlog.h"
#include "db/image.h"
#include "db/query.h"
#include "db/sentinel.h"
#include "journal/statement.h"

#define BEAT_MS 1000
#define HEARTBEAT_MS 500 /* the server's word when nothing happens: our clock ticks by it */
#define BEATS 64u        /* on their way at most */
#define OTHERS 1024u
#define MAPS 64u
#define ELSEWHERE 10u /* a rotation may take a while to come through */

struct seen {
    const struct db_table *t;
    struct image *image; /* NULL: no row of it came yet */
    bool misfit;         /* its rows are of another definition; told */
};

struct follower {
    int fd;
    const struct follow_args *a;
    struct db *db; /* asks, and writes the beat */
    struct binlog *log;
    char *schema; /* as the server writes it */
    struct db_tables tables;
    struct seen *seen;       /* i-th: of tables.list[i] */
    uint64_t others[OTHERS]; /* ids of tables that are none of the world's, by id modulo OTHERS */
    struct map {
        uint64_t id;
        const struct seen *seen;
    } maps[MAPS]; /* of the world's tables, in the statement that is being read */
    size_t map_count;
    uint64_t beat;       /* written last */
    mono_t beats[BEATS]; /* when; by number modulo BEATS */
    uint64_t through;    /* the last one that came back */
    int64_t latency;     /* ms that it took */
    bool told;
    mono_t next_beat;
    uint64_t changes;
    uint64_t last_pos;  /* at the last beat */
    unsigned elsewhere; /* beats in a row at which the server wrote another file */
    struct buf tuple;
};

static void say(struct follower *f, json_t *o)
{
    worker_send(f->fd, o);
    json_decref(o);
}

static void say_gap(struct follower *f, const char *why)
{
    struct buf clean = {0};
    uint64_t pos;
    const char *file = binlog_file(f->log, &pos);
    text_clean(&clean, why, 500);
    say(f, json_pack("{s:s, s:s, s:I}", "gap", clean.p, "file", file, "pos", (json_int_t)pos));
    buf_free(&clean);
}

static void forget_tables(struct follower *f)
{
    for (size_t i = 0; f->seen && i < f->tables.count; i++)
        image_close(f->seen[i].image);
    free(f->seen);
    f->seen = NULL;
    f->map_count = 0;
    db_tables_free(&f->tables);
}

static int list_tables(struct follower *f, struct err *e)
{
    forget_tables(f);
    free(f->schema);
    f->schema = db_schema_name(f->db, f->a->cfg->schema, e);
    if (!f->schema || db_tables(f->db, f->schema, false, &f->tables, e) < 0)
        return -1;
    f->seen = xcalloc(f->tables.count + 1, sizeof *f->seen);
    for (size_t i = 0; i < f->tables.count; i++)
        f->seen[i].t = &f->tables.list[i];
    return 0;
}

/* ---- the beat ---- */

/* Those of an earlier follower stand in the log too, and must not be taken for ours. */
static int first_beat(struct follower *f, struct err *e)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(e, errno, "no random bytes for the beat");
    f->beat = f->through = random >> 1;
    return 0;
}

static int beat(struct follower *f, struct err *e)
{
    const struct config *c = f->a->cfg;
    f->beat++;
    f->beats[f->beat % BEATS] = clock_mono();
    return db_sentinel_beat(f->db, c->schema, c->sentinel, f->beat, e);
}

/* How old a change may be that is not proven to be in the journal. */
static int64_t behind(const struct follower *f)
{
    if (f->through == f->beat)
        return f->latency;
    uint64_t oldest = f->beat < f->through + BEATS ? f->through + 1 : f->beat - BEATS + 1;
    return mono_since(clock_mono(), f->beats[oldest % BEATS]);
}

static void tell(struct follower *f)
{
    uint64_t pos;
    const char *file = binlog_file(f->log, &pos);
    say(f, json_pack("{s:s, s:I, s:I, s:s, s:I}", "state", "following", "behind_ms",
                     (json_int_t)behind(f), "changes", (json_int_t)f->changes, "file", file, "pos",
                     (json_int_t)pos));
}

/* The beat is the sentinel's last column. */
static void beat_came(struct follower *f, struct image *sentinel, const struct event_rows *rows)
{
    struct err *e = NULL; /* beats that do not come are told by their age */
    const char *at = rows->data, *end = at + rows->len;
    while (rows->op == EVENT_UPDATE && at && at < end) {
        buf_clear(&f->tuple);
        at = image_read(sentinel, rows->present, at, end, &f->tuple, e);
        buf_clear(&f->tuple);
        if (at)
            at = image_read(sentinel, rows->present_after, at, end, &f->tuple, e);
    }
    const char *comma = at && f->tuple.len ? strrchr(f->tuple.p, ',') : NULL;
    uint64_t n = comma ? strtoull(comma + 1, NULL, 10) : 0;
    if (n <= f->through || n > f->beat || n + BEATS <= f->beat)
        return;
    f->through = n;
    f->latency = mono_since(clock_mono(), f->beats[n % BEATS]);
    tell(f);
}

/* A log that was begun anew (RESET MASTER) says nothing to who reads the old one. */
static int check_place(struct follower *f, struct err *e)
{
    struct db_point now;
    uint64_t pos;
    const char *file = binlog_file(f->log, &pos);
    db_point(f->db, &now);
    bool other = now.file[0] && strcmp(now.file, file) != 0;
    bool before = now.file[0] && !other && now.pos < pos;
    bool still = f->last_pos == pos; /* who still catches up is in older files rightly */
    f->elsewhere = other && still ? f->elsewhere + 1 : 0;
    f->last_pos = pos;
    if (!before && f->elsewhere < ELSEWHERE)
        return 0;
    return err_set(e, ERR_GAP, 0, "the binary log was begun anew: the server writes %s, not %s",
                   now.file, file);
}

static int tick(struct follower *f, struct err *e)
{
    mono_t now = clock_mono();
    if (!mono_reached(now, f->next_beat))
        return 0;
    f->next_beat = mono_add(now, BEAT_MS);
    if (f->through < f->beat || !f->told)
        tell(f); /* one that comes through tells by itself */
    f->told = true;
    return check_place(f, e) < 0 || beat(f, e) < 0 ? -1 : 0;
}

/* ---- events ---- */

static int definitions_changed(struct follower *f, const char *why, struct err *e)
{
    say_gap(f, why);
    return list_tables(f, e);
}

static struct seen *find_seen(struct follower *f, const char *name)
{
    struct db_table *t = db_table_find(&f->tables, name);
    return t ? &f->seen[t - f->tables.list] : NULL;
}

/* A table that was not there when the tables were listed: new in the world, or of another engine.
 */
static int unknown_table(struct follower *f, const struct event_map *map, struct err *e)
{
    uint64_t *other = &f->others[map->table_id % OTHERS];
    char text[200];
    if (*other == map->table_id)
        return 0;
    *other = map->table_id;
    if (list_tables(f, e) < 0)
        return -1;
    if (!find_seen(f, map->table))
        return 0;
    snprintf(text, sizeof text, "rows of table %.100s, which is in no dump yet", map->table);
    say_gap(f, text);
    return 0;
}

static int take_map(struct follower *f, const struct event_map *map, struct err *e)
{
    struct err why = {0};
    if (strcmp(map->schema, f->schema) != 0 ||
        strncmp(map->table, DB_OWN_PREFIX, strlen(DB_OWN_PREFIX)) == 0)
        return 0;
    struct seen *s = find_seen(f, map->table);
    if (!s)
        return unknown_table(f, map, e);
    if (!s->image || !image_fits(s->image, map)) {
        image_close(s->image);
        s->image = s->misfit ? NULL : image_open(map, s->t, &why);
        if (!s->image && !s->misfit)
            say_gap(f, why.text);
        s->misfit = !s->image; /* until the statement that changed it comes by */
        if (!s->image)
            return 0;
    }
    if (f->map_count < MAPS)
        f->maps[f->map_count++] = (struct map){map->table_id, s};
    return 0;
}

static void take_rows(struct follower *f, const struct event_rows *rows)
{
    struct err why = {0};
    size_t i = 0;
    while (i < f->map_count && f->maps[i].id != rows->table_id)
        i++;
    if (i < f->map_count) {
        const struct seen *s = f->maps[i].seen;
        if (image_check(s->image, rows, &why) < 0)
            say_gap(f, why.text);
        else if (strcmp(s->t->name, f->a->cfg->sentinel) == 0)
            beat_came(f, s->image, rows);
        f->changes++;
    }
    if (rows->ends)
        f->map_count = 0;
}

static int take_query(struct follower *f, const struct event *ev, struct err *e)
{
    struct statement st;
    char text[200], brief[120];
    const struct statement_world w = {f->schema, f->a->cfg->sentinel, &f->tables};
    statement_judge(&w, ev->query.schema, ev->query.sql, ev->query.len, &st);
    if (st.kind == STATEMENT_SWAP)
        return list_tables(f, e); /* the supervisor knows, and dumps by itself */
    if (st.kind != STATEMENT_CHANGE)
        return 0;
    statement_brief(ev->query.sql, ev->query.len, brief, sizeof brief);
    snprintf(text, sizeof text, "a statement that row changes do not follow: %s", brief);
    return definitions_changed(f, text, e);
}

static int take(struct follower *f, const struct event *ev, struct err *e)
{
    char text[200];
    switch (ev->kind) {
    case EVENT_MAP:
        return take_map(f, &ev->map, e);
    case EVENT_ROWS:
        take_rows(f, &ev->rows);
        return 0;
    case EVENT_QUERY:
        return take_query(f, ev, e);
    case EVENT_UNREADABLE:
        snprintf(text, sizeof text, "an event of type %.100s, which cannot be read", ev->name);
        say_gap(f, text);
        return 0;
    case EVENT_LOST:
        say_gap(f, "the server says that changes are missing from its log");
        return 0;
    case EVENT_SKIPPED:
    case EVENT_FORMAT:
    case EVENT_ROTATE:
    case EVENT_STOP:
    case EVENT_GTID:
    case EVENT_XID:
    case EVENT_HEARTBEAT:
        return 0;
    }
    return 0;
}

/* ---- the whole ---- */

static int able(struct follower *f, bool *yes, struct err *e)
{
    struct binlog_ability a;
    if (binlog_ability(f->db, f->a->cfg->schema, &a, e) < 0)
        return -1;
    *yes = a.reason == NULL;
    if (a.reason)
        say(f, json_pack("{s:s, s:s}", "unable", a.reason, "hint", a.hint ? a.hint : ""));
    binlog_ability_free(&a);
    return 0;
}

static int open_log(struct follower *f, struct err *e)
{
    struct binlog_options o = {.heartbeat = HEARTBEAT_MS};
    struct db_point from = f->a->from;
    if (!from.file[0])
        db_point(f->db, &from);
    if (!from.file[0])
        return err_set(e, ERR_DENIED, 0, "the server does not tell its place in the binary log");
    f->log = binlog_open(&f->a->db, &from, &o, e);
    return f->log ? 0 : -1;
}

static int follow(struct follower *f, struct err *e)
{
    struct event ev;
    bool yes;
    f->db = db_open(&f->a->db, e);
    if (!f->db || able(f, &yes, e) < 0)
        return -1;
    if (!yes)
        return 0;
    if (first_beat(f, e) < 0 || list_tables(f, e) < 0 || open_log(f, e) < 0)
        return -1;
    int got;
    do {
        got = binlog_next(f->log, &ev, e);
        if (got == 1 && (take(f, &ev, e) < 0 || tick(f, e) < 0))
            got = -1;
    } while (got == 1);
    return got;
}

int follow_worker(int fd, void *arg)
{
    struct follower f = {.fd = fd, .a = arg};
    struct err e = {0};
    if (follow(&f, &e) < 0)
        say(&f, json_pack("{s:o}", "error", worker_err_json(&e)));
    forget_tables(&f);
    free(f.schema);
    buf_free(&f.tuple);
    binlog_close(f.log);
    db_close(f.db);
    return 0;
}
