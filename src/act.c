#include "act.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/file.h"
#include "core/js.h"
#include "db/sentinel.h"
#include "dump/verify.h"
#include "dump/writer.h"
#include "journal/cover.h"
#include "report/alert.h"
#include "restore/restore.h"
#include "store/catalog.h"

#define LOCK_MAX 4096

/* -1: JSON has no words for it. */
static int set_string(json_t *o, const char *key, const char *s)
{
    return s ? json_object_set_new(o, key, json_string(s)) : 0;
}

json_t *request_json(const struct request *r)
{
    json_t *o = json_pack("{s:s, s:b, s:b, s:b, s:I, s:I}", "action", r->action, "force", r->force,
                          "dry_run", r->dry_run, "automatic", r->automatic, "skip",
                          (json_int_t)r->skip, "pause_ms", (json_int_t)r->pause_ms);
    if (o && set_string(o, "dump", r->dump) == 0 && set_string(o, "into", r->into) == 0 &&
        set_string(o, "at", r->at) == 0)
        return o;
    json_decref(o);
    return NULL;
}

static char *get_string(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? xstrdup(s) : NULL;
}

/* What is left out of a restore, because it is not known here or no string, turns it into another
 * one: of the latest dump, of the world itself. */
static int check_request(const json_t *o, struct err *e)
{
    static const char *const strings[] = {"action", "dump", "into", "at", NULL};
    static const char *const others[] = {"force", "dry_run", "automatic", "skip", "pause_ms", NULL};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)o, key, value)
    {
        bool good = text_among(key, strings) ? json_is_string(value)
                                             : text_among(key, others) && !json_is_string(value);
        if (good)
            continue;
        struct buf shown = {0};
        text_clean(&shown, key, 40);
        err_set(e, ERR_USAGE, 0, "the running supervisor does not understand '%s' of the request",
                shown.p);
        err_hint(e, "it may be of another version: restart it");
        buf_free(&shown);
        return -1;
    }
    return 0;
}

int request_from_json(const json_t *o, struct request *out, struct err *e)
{
    *out = (struct request){0};
    if (check_request(o, e) < 0)
        return -1;
    *out = (struct request){.force = js_flag(o, "force"),
                            .dry_run = js_flag(o, "dry_run"),
                            .skip = (unsigned)js_number(o, "skip", 0),
                            .pause_ms = js_number(o, "pause_ms", 0)};
    if (out->pause_ms < 0 || out->pause_ms > INT64_MAX / 4) /* as a duration on the command line */
        out->pause_ms = 0;
    out->action = xstrdup(js_text(o, "action"));
    out->dump = get_string(o, "dump");
    out->into = get_string(o, "into");
    out->at = get_string(o, "at");
    return 0;
}

void request_free(struct request *r)
{
    free(r->action);
    free(r->dump);
    free(r->into);
    free(r->at);
    *r = (struct request){0};
}

static void report_progress(struct progress *p)
{
    struct act *a = p->arg;
    if (!a->emit)
        return;
    json_t *o = json_pack("{s:{s:s, s:o, s:I, s:I, s:I, s:I, s:i, s:I}}", "progress", "phase",
                          p->phase ? p->phase : "", "table", js_clean(p->table), "rows",
                          (json_int_t)p->rows, "rows_total", (json_int_t)p->rows_total, "bytes",
                          (json_int_t)p->bytes, "bytes_total", (json_int_t)p->bytes_total,
                          "percent", progress_percent(p), "phase_ms",
                          (json_int_t)mono_since(clock_mono(), p->started));
    a->emit(a->emit_arg, o);
    json_decref(o);
}

static void emit_note(void *arg, const char *text)
{
    struct act *a = arg;
    if (!a->emit)
        return;
    json_t *o = json_pack("{s:o}", "note", js_clean(text));
    a->emit(a->emit_arg, o);
    json_decref(o);
}

static void emit_swapping(void *arg, const char *nonce, uint64_t generation)
{
    struct act *a = arg;
    if (!a->emit)
        return;
    json_t *o = json_pack("{s:{s:s, s:I}}", "swapping", "nonce", nonce, "generation",
                          (json_int_t)generation);
    a->emit(a->emit_arg, o);
    json_decref(o);
}

static void fill_params(struct act *a)
{
    const struct config_mysql *m = &a->cfg->mysql;
    a->job.db = (struct db_params){.socket = m->socket,
                                   .host = m->host,
                                   .port = m->port,
                                   .user = m->user,
                                   .password = a->password.p,
                                   .tls_ca = m->tls_ca,
                                   .tls = (int)m->tls,
                                   .connect_timeout = m->connect_timeout,
                                   .read_timeout = m->read_timeout};
    /* One statement of a job (the copy of a large table, a RENAME behind a lock) may take as long
     * as a job may go without progress. */
    if (a->job.db.read_timeout < a->cfg->dump_stall)
        a->job.db.read_timeout = a->cfg->dump_stall;
    if (a->job.db.read_timeout < a->cfg->restore_stall)
        a->job.db.read_timeout = a->cfg->restore_stall;
}

static int load_state(struct act *a, struct err *e)
{
    if (state_load(a->job.dirfd, &a->state, e) < 0 ||
        state_is_of(&a->state, a->cfg->name, a->cfg->dump_dir, e) < 0)
        return -1;
    snprintf(a->state.world, sizeof a->state.world, "%s", a->cfg->name);
    return 0;
}

int act_open(struct act *a, const struct config *cfg, bool make, struct err *e)
{
    *a = (struct act){.cfg = cfg};
    a->job.dirfd = -1;
    a->job.dirfd = file_dir(cfg->dump_dir, make ? FILE_MAKE : 0, 0700, e);
    /* Dumps hold all that players have; nobody else looks into them. */
    struct stat st;
    if (a->job.dirfd >= 0 && fstat(a->job.dirfd, &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & 077))
        fchmod(a->job.dirfd, 0700);
    if (a->job.dirfd < 0 || load_state(a, e) < 0) {
        if (e->cls == ERR_DAMAGED)
            err_hint(e, "remove %s/state.json; the next contact with the world makes it anew",
                     cfg->dump_dir);
        goto fail;
    }
    a->progress = (struct progress){.report = report_progress, .arg = a};
    a->job.cfg = cfg;
    a->job.progress = &a->progress;
    a->job.note = emit_note;
    a->job.note_arg = a;
    a->job.swapping = emit_swapping;
    fill_params(a);
    return 0;
fail:
    act_close(a);
    return -1;
}

int act_password(struct act *a, struct err *e)
{
    const char *file = a->cfg->mysql.password_file;
    if (!file || a->password.p)
        return 0;
    if (file_read_secret(file, &a->password, e) < 0)
        return -1;
    a->job.db.password = a->password.p;
    return 0;
}

void act_close(struct act *a)
{
    if (a->password.p)
        explicit_bzero(a->password.p, a->password.cap);
    buf_free(&a->password);
    if (a->job.dirfd >= 0)
        close(a->job.dirfd);
    a->job.dirfd = -1;
}

static int held_by(struct act *a, struct err *e)
{
    struct buf b = {0};
    struct err ignored;
    json_t *o = NULL;
    if (file_read(a->job.dirfd, "lock", LOCK_MAX, &b, &ignored) == 0)
        o = json_loadb(b.p, b.len, 0, NULL);
    const char *socket = js_text(o, "socket");
    err_set(e, ERR_BUSY, 0, "world %s is held by %s (pid %" PRId64 " on %s since %s)", a->cfg->name,
            socket[0] ? "a running supervisor" : "another worldkeeper action",
            js_number(o, "pid", 0), js_text(o, "host"), js_text(o, "since"));
    err_hint(e, socket[0] ? "worldkeeper --status asks it; stop it before starting another"
                          : "wait until that action has ended");
    json_decref(o);
    buf_free(&b);
    return -1;
}

int act_lock(struct act *a, struct err *e)
{
    int fd = file_open(a->job.dirfd, "lock", O_RDWR | O_CREAT, e);
    if (fd < 0) {
        err_step(e, "%s", a->cfg->dump_dir);
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int why = errno;
        close(fd);
        return why == EWOULDBLOCK ? held_by(a, e)
                                  : err_sys(e, why, "cannot lock %s/lock", a->cfg->dump_dir);
    }
    act_lock_tell(fd, "");
    return fd;
}

void act_lock_tell(int fd, const char *socket)
{
    char host[256] = "", at[TEXT_SHORT];
    gethostname(host, sizeof host - 1);
    json_t *o = json_pack("{s:i, s:o, s:s, s:s}", "pid", (int)getpid(), "host", js_clean(host),
                          "since", text_utc(clock_wall(), at), "socket", socket);
    char *s = json_dumps(o, 0);
    /* Only a help for others; the lock itself is held whatever becomes of this. */
    if (s && lseek(fd, 0, SEEK_SET) == 0 && ftruncate(fd, 0) == 0)
        (void)!file_write_all(fd, s, strlen(s));
    free(s);
    json_decref(o);
}

static json_t *state_result(const struct act *a)
{
    return state_json(&a->state);
}

/* The world is there under this nonce: remembered, so that a later loss can be proven. */
static int remember(struct act *a, const char *nonce, uint64_t generation,
                    const struct server_id *server, struct err *e)
{
    snprintf(a->state.nonce, sizeof a->state.nonce, "%s", nonce);
    a->state.generation = generation;
    a->state.server = *server;
    a->state.known = true;
    a->state.alive_at = clock_wall();
    return state_save(a->job.dirfd, &a->state, e);
}

struct init {
    struct db *db;
    struct catalog catalog;
    struct db_sentinel sentinel;
    struct server_id server;
    uint64_t lease;
};

/* What --init does with a sentinel table that holds no row. */
static int init_empty(struct act *a, struct init *in, bool force, char nonce[33], struct err *e)
{
    bool dumps = catalog_newest(&in->catalog, 0) != NULL;
    if (a->state.known && a->state.server.start == in->server.start) {
        snprintf(nonce, 33, "%s", a->state.nonce); /* only the row was deleted */
        return 0;
    }
    if ((dumps || a->state.known) && !force) {
        err_set(e, ERR_REFUSED, 0, "this world was kept before and its sentinel row is gone");
        err_hint(e, "worldkeeper --restore brings the world back; --init --force declares what is "
                    "there now "
                    "to be the world");
        return -1;
    }
    return db_nonce(nonce, e);
}

/* A sentinel table that is not there is one without a row: it is not made before that is known to
 * be right, since an empty one tells a running supervisor that the world is lost. */
static int init_look(struct act *a, struct init *in, struct err *e)
{
    const struct config *c = a->cfg;
    in->db = db_open(&a->job.db, e);
    if (!in->db || catalog_load(a->job.dirfd, c->name, &in->catalog, e) < 0 ||
        db_server_id(in->db, &in->server, e) < 0 ||
        db_lease_create(in->db, c->schema, c->sentinel, e) < 0 ||
        db_lease_read(in->db, c->schema, c->sentinel, &in->lease, e) < 0)
        return -1;
    int rc = db_sentinel_read(in->db, c->schema, c->sentinel, &in->sentinel, e);
    return rc < 0 && !db_table_missing(e) ? -1 : 0;
}

static int init_steps(struct act *a, struct init *in, bool force, const char **did, struct err *e)
{
    const struct config *c = a->cfg;
    char nonce[33];
    if (init_look(a, in, e) < 0)
        return -1;
    if (in->sentinel.rows > 1)
        return err_set(e, ERR_REFUSED, 0, "table %s holds %u rows; it is not a sentinel of ours",
                       c->sentinel, in->sentinel.rows);
    uint64_t generation = in->lease > in->catalog.generation ? in->lease : in->catalog.generation;
    if (in->sentinel.rows == 1) {
        bool ours = !a->state.known || strcmp(in->sentinel.nonce, a->state.nonce) == 0 ||
                    catalog_knows_nonce(&in->catalog, in->sentinel.nonce);
        if (!ours && !force) {
            err_set(e, ERR_REFUSED, 0,
                    "the sentinel holds a nonce that is not ours: another world or keeper");
            err_hint(e, "worldkeeper --init --force adopts it");
            return -1;
        }
        *did = "already there";
        return remember(a, in->sentinel.nonce, in->sentinel.generation, &in->server, e);
    }
    if (generation == 0)
        generation = 1;
    if (init_empty(a, in, force, nonce, e) < 0 ||
        db_sentinel_create(in->db, c->schema, c->sentinel, true, e) < 0 ||
        db_sentinel_insert(in->db, c->schema, c->sentinel, nonce, generation, "", e) < 0)
        return -1;
    *did = "created";
    return remember(a, nonce, generation, &in->server, e);
}

static int act_init(struct act *a, const struct request *r, json_t **result, struct err *e)
{
    struct init in = {0};
    const char *did = "";
    int rc = init_steps(a, &in, r->force, &did, e);
    if (rc == 0)
        *result =
            json_pack("{s:s, s:s, s:I, s:o}", "sentinel", a->cfg->sentinel, "did", did,
                      "generation", (json_int_t)a->state.generation, "state", state_result(a));
    else
        err_step(e, "init");
    catalog_free(&in.catalog);
    db_close(in.db);
    return rc;
}

static int act_dump(struct act *a, const struct request *r, json_t **result, struct err *e)
{
    struct manifest m;
    struct dump_options opt = {.accept_shrink = r->force,
                               .nonce = a->state.known ? a->state.nonce : NULL};
    int rc = dump_run(&a->job, &opt, &m, e);
    if (rc == 0 || m.rejected[0]) {
        *result = manifest_summary(&m);
        json_object_set_new(*result, "nonce", json_string(m.nonce));
        json_object_set_new(*result, "end_point", manifest_point_json(&m.end));
    }
    manifest_free(&m);
    return rc;
}

/* Play lost: from the dump, or from where the journal could not be followed, to the last moment the
 * world was seen alive, which may lie before it where nobody watches. */
static json_t *lost_seconds(const struct act *a, const struct restore_result *res)
{
    wall_t from = res->dump_at;
    if (res->dump_at.ms == 0 || res->over_living || !a->state.known)
        return json_null();
    if (res->journal.used && !res->journal.gap[0])
        return json_integer(0);
    if (res->journal.used && res->journal.gap_at.ms > from.ms)
        from = res->journal.gap_at;
    int64_t lost = (a->state.alive_at.ms - from.ms) / 1000;
    return json_integer(lost > 0 ? lost : 0);
}

/* In UTC, as main.c hands it over. */
static int read_at(const char *text, wall_t *at, struct err *e)
{
    wall_t now = clock_wall();
    if (text_time_parse(text, now, at) < 0 || at->ms > now.ms)
        return err_set(e, ERR_USAGE, 0, "--at \"%.100s\" is no moment of the past", text);
    at->ms = at->ms / 1000 * 1000 + 999; /* the log counts whole seconds */
    return 0;
}

static int act_restore(struct act *a, const struct request *r, json_t **result, struct err *e)
{
    struct restore_result res;
    wall_t at = {0};
    if ((r->at && read_at(r->at, &at, e) < 0) || (r->into && config_check_into(r->into, e) < 0))
        return -1;
    struct restore_options opt = {.dump = r->dump,
                                  .into = r->into,
                                  .at = at,
                                  .force = r->force,
                                  .dry_run = r->dry_run,
                                  .automatic = r->automatic,
                                  .skip = r->skip,
                                  .state = &a->state};
    int rc = restore_run(&a->job, &opt, &res, e);
    *result = restore_json(&res);
    json_object_set_new(*result, "dry_run", json_boolean(r->dry_run));
    if (r->into)
        js_set_clean(*result, "into", r->into);
    if (r->at)
        js_set_clean(*result, "moment", r->at);
    if (rc == 0 && res.nonce[0]) {
        json_object_set_new(*result, "lost_seconds", r->at ? json_null() : lost_seconds(a, &res));
        struct err late;
        if (remember(a, res.nonce, res.generation, &res.server, &late) < 0)
            emit_note(a, late.text);
        json_object_set_new(*result, "state", state_result(a));
    }
    restore_result_free(&res);
    return rc;
}

/* It may have found a restore that had taken effect: then state.json is newer than what we know. */
static int act_tidy(struct act *a, json_t **result, struct err *e)
{
    if (restore_tidy(&a->job, e) < 0 || load_state(a, e) < 0)
        return -1;
    *result = json_pack("{s:o}", "state", state_result(a));
    return 0;
}

static int act_drill(struct act *a, const struct request *r, json_t **result, struct err *e)
{
    struct restore_result res;
    int rc = restore_drill(&a->job, r->dump, &res, e);
    *result = restore_json(&res);
    restore_result_free(&res);
    return rc;
}

static json_t *entry_json(const struct catalog_entry *c)
{
    json_t *o = manifest_summary(&c->m);
    json_object_set_new(o, "intact", json_boolean(c->intact));
    if (!c->intact)
        js_set_clean(o, "reason", c->reason);
    return o;
}

static json_t *catalog_json(const struct catalog *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++)
        json_array_append_new(list, entry_json(&c->list[i]));
    return list;
}

/* Which moments can be had of the past, by what is known without asking the server. */
static size_t known_gaps(const struct act *a, struct cover_gap *out, size_t room)
{
    json_t *list = a->state.gaps[0] ? json_loads(a->state.gaps, 0, NULL) : NULL, *o;
    size_t i, n = 0;
    json_array_foreach(list, i, o)
    {
        if (n == room)
            break;
        out[n] = (struct cover_gap){.at.ms = js_number(o, "at", 0),
                                    .place.pos = (uint64_t)js_number(o, "pos", 0)};
        js_copy(o, "file", out[n].place.file, sizeof out[n].place.file);
        js_copy(o, "why", out[n].why, sizeof out[n].why);
        n++;
    }
    json_decref(list);
    return n;
}

static void find_cover(const struct act *a, const struct catalog *c, bool *files, struct cover *out)
{
    struct cover_gap gaps[32];
    struct archive segments;
    struct err e;
    int fd = a->cfg->journal == JOURNAL_FOLLOW ? archive_dir(a->cfg, false, &e) : -1;
    *files = fd >= 0 && archive_load(fd, a->cfg->name, &segments, &e) == 0;
    if (fd >= 0)
        close(fd);
    if (*files) {
        cover_segments(c, &segments, clock_wall(), out);
        archive_free(&segments);
    } else {
        cover_log(c, gaps, known_gaps(a, gaps, sizeof gaps / sizeof *gaps), out);
    }
}

static json_t *cover_json(const struct act *a, const struct catalog *c)
{
    struct cover cover;
    bool files;
    char from[TEXT_SHORT], to[TEXT_SHORT];
    json_t *list = json_array();
    if (a->cfg->journal == JOURNAL_OFF) {
        json_decref(list);
        return json_null();
    }
    find_cover(a, c, &files, &cover);
    for (size_t i = 0; i < cover.count; i++) {
        const struct cover_span *s = &cover.list[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o}", "from", text_utc(s->from, from), "to",
                                        s->open ? json_null() : json_string(text_utc(s->to, to)),
                                        "gap", s->open ? json_null() : js_clean(s->why)));
    }
    cover_free(&cover);
    return json_pack("{s:s, s:o}", "source", files ? "segments" : "server", "ranges", list);
}

static int act_list(struct act *a, json_t **result, struct err *e)
{
    struct catalog c, rejected;
    if (catalog_load(a->job.dirfd, a->cfg->name, &c, e) < 0)
        return -1;
    if (catalog_load_rejected(a->job.dirfd, a->cfg->name, &rejected, e) < 0) {
        catalog_free(&c);
        return -1;
    }
    *result = json_pack("{s:o, s:o, s:o}", "dumps", catalog_json(&c), "rejected",
                        catalog_json(&rejected), "journal", cover_json(a, &c));
    catalog_free(&c);
    catalog_free(&rejected);
    return 0;
}

static bool named(const char *name, const char *asked)
{
    size_t len = strcspn(asked, "."); /* NAME.sql.gz is meant too */
    return strlen(name) == len && strncmp(name, asked, len) == 0;
}

static int read_back(struct act *a, const struct manifest *m, struct err *e)
{
    char *file = xasprintf("%s.sql.gz", m->name);
    progress_phase(&a->progress, "verifying", m->rows, m->file_size);
    int rc = verify_dump(a->job.dirfd, file, m, &a->progress, e);
    free(file);
    return rc;
}

static void add_verdict(json_t *list, const char *name, bool whole, const char *why)
{
    json_array_append_new(list, json_pack("{s:s, s:b, s:o}", "name", name, "whole", whole, "reason",
                                          js_clean(whole ? "" : why)));
}

static bool verify_one(struct act *a, const struct catalog_entry *c, json_t *list)
{
    struct err why = {0};
    bool whole = c->intact && read_back(a, &c->m, &why) == 0;
    add_verdict(list, c->m.name, whole, c->intact ? why.text : c->reason);
    return whole;
}

static int act_verify(struct act *a, const struct request *r, json_t **result, struct err *e)
{
    struct catalog c;
    if (catalog_load(a->job.dirfd, a->cfg->name, &c, e) < 0)
        return -1;
    json_t *list = json_array();
    size_t seen = 0, bad = 0;
    bool latest = r->dump && strcmp(r->dump, "latest") == 0;
    for (size_t i = 0; i < c.count; i++) {
        if (r->dump && !latest && !named(c.list[i].m.name, r->dump))
            continue;
        if (latest && seen)
            break;
        seen++;
        bad += !verify_one(a, &c.list[i], list);
    }
    catalog_free(&c);
    *result = json_pack("{s:o}", "dumps", list);
    if (seen == 0)
        return err_set(e, ERR_UNWELL, 0, "no dump %s in %s", r->dump ? r->dump : "at all",
                       a->cfg->dump_dir);
    return bad ? err_set(e, ERR_UNWELL, 0, "%zu of %zu dumps not whole", bad, seen) : 0;
}

/* What is in the file is what was read back: the manifest of what else may lie there is not sealed.
 */
static bool seal_one(struct act *a, const struct catalog_entry *c, json_t *list)
{
    struct err why = {0};
    fault_point("seal.begun");
    bool done = read_back(a, &c->m, &why) == 0 && manifest_write(a->job.dirfd, &c->m, &why) == 0;
    add_verdict(list, c->m.name, done, why.text);
    return done;
}

/* One with a wrong seal only by its name: somebody has to have looked at it. */
static int act_seal(struct act *a, const struct request *r, json_t **result, struct err *e)
{
    struct catalog c;
    if (!seal_on()) {
        err_set(e, ERR_CONFIG, 0, "%s names no key to seal with", a->cfg->path);
        err_hint(e, "[dump] hmac_key_file; openssl rand -hex 32 makes a key");
        return -1;
    }
    if (catalog_load(a->job.dirfd, a->cfg->name, &c, e) < 0)
        return -1;
    json_t *list = json_array();
    size_t bad = 0;
    for (size_t i = 0; i < c.count; i++) {
        struct catalog_entry *x = &c.list[i];
        bool asked = r->dump ? named(x->m.name, r->dump) : x->m.seal == SEAL_MISSING;
        if (asked && x->unproven)
            bad += !seal_one(a, x, list);
    }
    catalog_free(&c);
    size_t seen = json_array_size(list);
    *result = json_pack("{s:o}", "dumps", list);
    if (r->dump && seen == 0)
        return err_set(e, ERR_NOTHING, 0, "no dump %s in %s lacks a good HMAC", r->dump,
                       a->cfg->dump_dir);
    return bad ? err_set(e, ERR_UNWELL, 0, "%zu of %zu dumps not whole", bad, seen) : 0;
}

static int act_test_alert(struct act *a, json_t **result, struct err *e)
{
    json_t *list = json_array();
    size_t tried = 0, failed = 0;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        if (!alert_channel_on(a->cfg, ch))
            continue;
        struct alert_result reply = {0};
        struct err why = {0};
        bool ok = alert_test(a->cfg, ch, &reply, &why) == 0;
        tried++;
        failed += !ok;
        json_array_append_new(list,
                              json_pack("{s:s, s:b, s:o, s:s}", "channel", alert_channel_name(ch),
                                        "ok", ok, "reply", js_clean(ok ? reply.reply.p : why.text),
                                        "hint", ok ? "" : why.hint));
        alert_result_free(&reply);
    }
    *result = json_pack("{s:o}", "channels", list);
    if (tried == 0) {
        err_set(e, ERR_CONFIG, 0, "%s configures no alert channel", a->cfg->path);
        err_hint(e, "set [alert.smtp] url, from, to or [alert.webhook] url");
        return -1;
    }
    return failed ? err_set(e, ERR_SYSTEM, 0, "%zu of %zu alert channels failed", failed, tried)
                  : 0;
}

static bool needs_server(const char *action)
{
    static const char *const words[] = {"init", "dump", "restore", "drill", "tidy", NULL};
    return text_among(action, words);
}

static bool needs_dumps(const char *action)
{
    static const char *const words[] = {"list", "verify", "seal", NULL};
    return text_among(action, words) || needs_server(action);
}

int act_run(struct act *a, const struct request *r, json_t **result, struct err *e)
{
    *result = NULL;
    if (needs_dumps(r->action) && seal_open(a->cfg, e) < 0)
        return -1;
    if (needs_server(r->action) && act_password(a, e) < 0)
        return -1;
    if (strcmp(r->action, "init") == 0)
        return act_init(a, r, result, e);
    if (strcmp(r->action, "dump") == 0)
        return act_dump(a, r, result, e);
    if (strcmp(r->action, "restore") == 0)
        return act_restore(a, r, result, e);
    if (strcmp(r->action, "drill") == 0)
        return act_drill(a, r, result, e);
    if (strcmp(r->action, "list") == 0)
        return act_list(a, result, e);
    if (strcmp(r->action, "verify") == 0)
        return act_verify(a, r, result, e);
    if (strcmp(r->action, "seal") == 0)
        return act_seal(a, r, result, e);
    if (strcmp(r->action, "test-alert") == 0)
        return act_test_alert(a, result, e);
    if (strcmp(r->action, "check") == 0)
        return check_run(a, result, e);
    if (strcmp(r->action, "tidy") == 0)
        return act_tidy(a, result, e);
    return err_set(e, ERR_USAGE, 0, "no such action: %s", r->action);
}
