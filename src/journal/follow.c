#include "journal/follow.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/clock.h"
#include "core/worker.h"
#include "db/binlog.h"
#include "db/query.h"
#include "db/sentinel.h"
#include "journal/decode.h"
#include "journal/history.h"
#include "journal/keep.h"

#define BEAT_MS 1000
#define HEARTBEAT_MS 500 /* the server's word when nothing happens: our clock ticks by it */
#define BEATS 64u        /* on their way at most */
#define ELSEWHERE 10u    /* a rotation may take a while to come through */

struct follower {
    int fd;
    const struct follow_args *a;
    struct db *db; /* asks, and writes the beat */
    struct binlog *log;
    struct decode *decode;
    struct statement_world world;
    char *schema; /* as the server writes it */
    struct db_tables tables;
    struct keep *keep; /* NULL: no segments are written */
    struct segment_place from;
    bool first_group; /* is still to come: it must be the one behind `from` */
    bool list_again;  /* definitions changed in the group that is being read */
    bool strangers;   /* rows of unknown tables are in it, or such tables came with it */
    struct err *e;    /* why a change could not be taken */
    bool files;       /* segments are the trouble */

    uint64_t beat;       /* written last */
    mono_t beats[BEATS]; /* when; by number modulo BEATS */
    uint64_t came;       /* the last one that came back, */
    uint64_t whole;      /* whose group is whole, */
    uint64_t through;    /* and that is safe */
    mono_t proven;       /* when it was written: no change from before is missing */
    bool told, beaten;   /* beaten: one came through */
    mono_t next_beat;
    uint64_t changes;
    uint64_t last_pos;  /* at the last beat */
    unsigned elsewhere; /* beats in a row at which the server wrote another file */
};

static volatile sig_atomic_t told_to_end;

static void on_term(int sig)
{
    (void)sig;
    told_to_end = 1;
}

static void say(struct follower *f, json_t *o)
{
    worker_send(f->fd, o);
    json_decref(o);
}

static void say_gap(struct follower *f, const char *why)
{
    struct buf clean = {0};
    uint64_t pos = f->from.point.pos;
    const char *file = f->log ? binlog_file(f->log, &pos) : f->from.point.file;
    text_clean(&clean, why, 500);
    say(f, json_pack("{s:s, s:s, s:I}", "gap", clean.p, "file", file, "pos", (json_int_t)pos));
    buf_free(&clean);
}

/* One that is in `now` alone; "": there is none. */
static void find_newcomer(const struct follower *f, const struct db_tables *now, char out[256])
{
    out[0] = '\0';
    for (size_t i = 0; i < now->count && !out[0]; i++) {
        const char *name = now->list[i].name;
        if (!db_table_find(&f->tables, name) && !db_sentinel_own(f->a->cfg->sentinel, name))
            snprintf(out, 256, "%s", name);
    }
}

/* `newcomer`: one that was not there the last time. */
static int list_tables(struct follower *f, char newcomer[256], struct err *e)
{
    struct db_tables now;
    if (db_tables(f->db, f->schema, false, &now, e) < 0)
        return -1;
    if (db_table_keys(f->db, f->schema, &now, e) < 0) {
        db_tables_free(&now);
        return -1;
    }
    find_newcomer(f, &now, newcomer);
    struct db_tables before = f->tables;
    f->tables = now;
    f->world = (struct statement_world){f->schema, f->a->cfg->sentinel, &f->tables};
    if (f->decode)
        decode_tables(f->decode, &f->tables);
    db_tables_free(&before);
    return 0;
}

/* ---- the beat ---- */

/* Those of an earlier follower stand in the log too, and must not be taken for ours. */
static int first_beat(struct follower *f, struct err *e)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(e, errno, "no random bytes for the beat");
    f->beat = f->came = f->whole = f->through = random >> 1;
    f->proven = clock_mono();
    return 0;
}

static int beat(struct follower *f, struct err *e)
{
    const struct config *c = f->a->cfg;
    f->beat++;
    f->beats[f->beat % BEATS] = clock_mono();
    return db_sentinel_beat(f->db, c->schema, c->sentinel, f->beat, e);
}

static void tell(struct follower *f)
{
    uint64_t pos;
    const char *file = binlog_file(f->log, &pos);
    say(f, json_pack("{s:s, s:b, s:I, s:I, s:s, s:I}", "state", "following", "beaten", f->beaten,
                     "proven_ms", (json_int_t)f->proven.ms, "changes", (json_int_t)f->changes,
                     "file", file, "pos", (json_int_t)pos));
}

static void beat_through(struct follower *f, uint64_t n)
{
    f->through = n;
    f->beaten = true;
    f->proven = f->beats[n % BEATS];
    tell(f);
}

/* The beat is the sentinel's last column. */
static void beat_came(struct follower *f, const struct change *c)
{
    const char *comma = c->len ? memrchr(c->tuple, ',', c->len) : NULL;
    uint64_t n = comma ? strtoull(comma + 1, NULL, 10) : 0;
    if (n <= f->came || n > f->beat || n + BEATS <= f->beat)
        return;
    f->came = n;
    if (!f->keep)
        beat_through(f, n); /* else when its group is on the disk */
}

/* A log that was begun anew (RESET MASTER) says nothing to who reads the old one, and nor does one
 * that the server closed, which it does when it cannot write the next file. */
static int check_place(struct follower *f, struct err *e)
{
    struct db_point now;
    uint64_t pos;
    const char *file = binlog_file(f->log, &pos);
    db_point(f->db, &now);
    if (!now.file[0] && db_log_closed(f->db))
        return err_set(e, ERR_GAP, 0, "the server has closed its binary log and writes none");
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

/* ---- segments ---- */

static int sync_files(struct follower *f, struct err *e)
{
    int done = f->keep ? keep_sync(f->keep, e) : 0;
    f->files |= done < 0;
    if (done == 1 && f->whole != f->through)
        beat_through(f, f->whole);
    return done < 0 ? -1 : 0;
}

static int put(struct follower *f, const struct change *c)
{
    if (!f->keep || keep_put(f->keep, c, f->e) == 0)
        return 0;
    f->files = true;
    return -1;
}

/* The supervisor has only one thing to say. */
static int listen_to_it(struct follower *f, struct err *e)
{
    struct pollfd p = {.fd = f->fd, .events = POLLIN};
    bool closed;
    if (poll(&p, 1, 0) <= 0)
        return 0;
    json_t *o = worker_receive(f->fd, &closed);
    bool dumped = o && f->keep;
    json_decref(o);
    if (!dumped || keep_dumped(f->keep, e) == 0)
        return 0;
    f->files = true;
    return -1;
}

static int tick(struct follower *f, struct err *e)
{
    mono_t now = clock_mono();
    if (sync_files(f, e) < 0)
        return -1;
    if (!mono_reached(now, f->next_beat))
        return 0;
    f->next_beat = mono_add(now, BEAT_MS);
    if (f->through < f->beat || !f->told)
        tell(f); /* one that comes through tells by itself */
    f->told = true;
    return listen_to_it(f, e) < 0 || check_place(f, e) < 0 || beat(f, e) < 0 ? -1 : 0;
}

/* ---- changes ---- */

/* Before the end of the group is put: a table that was not there when the tables were listed, new
 * in the world or of another engine then, takes the whole group back. */
static int end_group(struct follower *f, const struct change *c)
{
    char newcomer[256], text[400];
    bool strangers = f->strangers;
    f->whole = f->came;
    if (!f->list_again && !strangers)
        return 0;
    f->list_again = f->strangers = false;
    if (list_tables(f, newcomer, f->e) < 0)
        return -1;
    if (!strangers || !newcomer[0])
        return 0;
    struct change gap = *c;
    gap.kind = CHANGE_GAP;
    gap.why = text;
    snprintf(text, sizeof text, "the coming of table %.255s, which is in no dump yet", newcomer);
    say_gap(f, text);
    return put(f, &gap);
}

static int take(void *arg, const struct change *c)
{
    struct follower *f = arg;
    switch (c->kind) {
    case CHANGE_BEGIN:
        if (f->first_group && history_goes_on(&f->a->db, &f->from.point, &c->gtid, f->e) < 0)
            return -1;
        f->first_group = false;
        break;
    case CHANGE_INSERT:
    case CHANGE_DELETE:
    case CHANGE_UPDATE:
    case CHANGE_REPLACE:
    case CHANGE_TRUNCATE:
        f->changes++;
        break;
    case CHANGE_BEAT:
        beat_came(f, c);
        return 0;
    case CHANGE_GAP:
        say_gap(f, c->why);
        f->list_again |= c->definitions;
        break;
    case CHANGE_SWAP:
        f->list_again = true; /* the supervisor knows, and dumps by itself */
        break;
    case CHANGE_STRANGER:
        f->strangers = true;
        return 0;
    case CHANGE_END:
        return end_group(f, c) < 0 ? -1 : put(f, c);
    case CHANGE_TABLE:
    case CHANGE_CUT:
    case CHANGE_LOST:
        break;
    }
    return put(f, c);
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

static int open_keep(struct follower *f, struct err *e)
{
    struct server_id server;
    char damage[512], what[600];
    if (f->a->cfg->journal != JOURNAL_FOLLOW)
        return 0;
    if (db_server_id(f->db, &server, e) < 0)
        return -1;
    f->keep = keep_open(f->a->cfg, f->a->dump_dirfd, &server, f->schema, damage, e);
    if (!f->keep) {
        f->files = true;
        return -1;
    }
    snprintf(what, sizeof what, "a file of its own: %s", damage);
    if (damage[0])
        say_gap(f, what);
    return 0;
}

static int open_log(struct follower *f, const struct segment_place *from, struct err *e)
{
    struct binlog_options o = {.heartbeat = HEARTBEAT_MS, .born = from->born};
    f->from = *from;
    f->first_group = true;
    f->log = binlog_open(&f->a->db, &from->point, &o, e);
    return f->log ? 0 : -1;
}

/* Where segments end, so that they go on without a gap, when they serve the newest dump; else where
 * the newest dump ends, so that nothing since then is missed; and when that was lost too, here and
 * now. */
static int begin(struct follower *f, struct err *e)
{
    struct segment_place from = {.point = f->a->from, .at = clock_wall()};
    const struct segment_place *end = f->keep ? keep_end(f->keep) : NULL;
    struct err why = {0};
    if (f->a->from.file[0] && end && !f->a->anew && keep_reaches(f->keep, &f->a->from)) {
        if (open_log(f,
                     &(struct segment_place){.point = end->point, .born = end->born, .at = end->at},
                     &why) == 0) {
            keep_begin(f->keep, &f->from, NULL);
            return 0;
        }
        if (why.cls != ERR_GAP) {
            *e = why;
            return -1;
        }
    }
    if (!from.point.file[0])
        db_point(f->db, &from.point);
    if (!from.point.file[0])
        return err_set(e, ERR_DENIED, 0, "the server does not tell its place in the binary log");
    if (open_log(f, &from, e) < 0)
        return -1;
    if (f->keep)
        keep_begin(f->keep, &from,
                   why.text[0] ? why.text
                   : end       ? "those before it do not lead from the newest dump to here"
                               : "it is the first one");
    return 0;
}

static int prepare(struct follower *f, struct err *e)
{
    char ignored[256];
    f->schema = db_schema_name(f->db, f->a->cfg->schema, e);
    if (!f->schema || first_beat(f, e) < 0 || list_tables(f, ignored, e) < 0 ||
        open_keep(f, e) < 0 || begin(f, e) < 0)
        return -1;
    f->decode = decode_new(&f->world, &f->from.point, true, take, f);
    return 0;
}

static int follow(struct follower *f, struct err *e)
{
    struct event ev;
    bool yes;
    f->e = e;
    f->db = db_open(&f->a->db, e);
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
    } while (got == 1 && !told_to_end);
    return got;
}

/* What was read is kept, whatever ended the reading. */
static int end_keep(struct follower *f, struct err *e)
{
    int rc = keep_close(f->keep, e);
    f->keep = NULL;
    f->files |= rc < 0;
    return rc;
}

int follow_worker(int fd, void *arg)
{
    struct follower f = {.fd = fd, .a = arg};
    struct err e = {0};
    signal(SIGTERM, on_term);
    int rc = follow(&f, &e);
    struct err last;
    if (!f.files && end_keep(&f, &last) < 0 && rc >= 0) {
        e = last;
        rc = -1;
    }
    if (rc < 0)
        say(&f, json_pack("{s:o, s:b}", "error", worker_err_json(&e), "files", f.files));
    keep_close(f.keep, &last);
    decode_free(f.decode);
    db_tables_free(&f.tables);
    free(f.schema);
    binlog_close(f.log);
    db_close(f.db);
    return 0;
}
