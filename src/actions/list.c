/* --list: the dumps, and the times that --at can restore. */
#include "actions/list.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/from.h"
#include "base/js.h"
#include "journal/recovery_range.h"
#include "mysql/sentinel.h"
#include "store/catalog.h"

/* Time limit for the server in ms: --list must be quick even if the server hangs. */
#define WAIT_MS 2000
#define GAPS_MAX 32

/* Sets to null what only the manifest tells, for a manifest that could not be read: it has no world
 * then. The name contains the two numbers. */
static void forget_unread(json_t *o, const struct manifest *m)
{
    void *it = m->world[0] ? NULL : json_object_iter(o);
    for (; it; it = json_object_iter_next(o, it)) {
        const char *key = json_object_iter_key(it);
        if (strcmp(key, "name") != 0 && strcmp(key, "generation") != 0 &&
            strcmp(key, "sequence") != 0)
            json_object_iter_set_new(o, it, json_null());
    }
}

/* Returns the summary of each manifest with later findings. Verification results and damage are
 * stored beside a dump rather than in it. */
static json_t *catalog_json(const struct catalog *c, const char *sentinel)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const struct catalog_entry *x = &c->list[i];
        json_t *o = manifest_summary(&x->m, sentinel);
        forget_unread(o, &x->m);
        const char *by;
        char at[TEXT_SHORT];
        wall_t proven = catalog_proven(x, &by);
        bool known = proven.ms != 0;
        json_object_update_new(
            o, json_pack("{s:b, s:b, s:b, s:b, s:s?, s:o, s:s?}", "intact", x->intact, "damaged",
                         x->damaged, "earlier_round", x->earlier, "abandoned", x->abandoned,
                         "proven_at", known ? text_utc(proven, at) : NULL, "proven_at_unix",
                         js_known(known, proven.ms / 1000), "proven_by", by[0] ? by : NULL));
        if (!x->intact)
            js_set_clean(o, "reason", x->reason);
        if (x->pin.kind != PIN_NONE)
            js_set_clean(o, "pinned", x->pin.reason);
        json_array_append_new(list, o);
    }
    return list;
}

/* Reads the gaps from the state. They limit the times that can be restored, and are known without
 * the server. */
static size_t known_gaps(const struct action_context *a, struct segment_mark *out, size_t room)
{
    json_t *list = a->state.gaps[0] ? json_loads(a->state.gaps, 0, NULL) : NULL, *o;
    size_t i, n = 0;
    json_array_foreach(list, i, o)
    {
        if (n == room)
            break;
        out[n] = (struct segment_mark){.at = js_moment(o, "at"),
                                       .place.pos = (uint64_t)js_within(o, "pos", 0, INT64_MAX, 0)};
        js_copy(o, "file", out[n].place.file, sizeof out[n].place.file);
        js_copy(o, "why", out[n].text, sizeof out[n].text);
        n++;
    }
    json_decref(list);
    return n;
}

/* Fills a manifest with the current MEMORY tables. */
static int world_now(struct db *db, const struct config *cfg, struct manifest *m, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables now = {0};
    struct db_sentinel s = {0};
    if (db_sentinel_read(db, cfg->schema, cfg->sentinel, &s, e) < 0 ||
        db_tables(db, cfg->schema, false, &now, e) < 0)
        return -1;
    *m = (struct manifest){.generation = s.generation};
    for (size_t i = 0; i < now.count; i++)
        manifest_add(m, &now.list[i]);
    return s.rows == 1 ? 0 : -1;
}

/* Reads the list of binary logs. */
static void list_logs(struct db *db, struct recovery_range_server *out)
{
    struct err ignored;
    struct db_rows *r = db_select(db, "ni*", "SHOW BINARY LOGS", &ignored);
    int got;
    while ((got = db_next(r, &ignored)) == 1) {
        out->files = xgrow(out->files, out->file_count, sizeof *out->files);
        struct recovery_range_file *f = &out->files[out->file_count++];
        db_copy(r, 0, f->name, sizeof f->name);
        f->size = db_uint(r, 1);
    }
    if (got < 0)
        out->file_count = 0;
    db_rows_end(r);
}

/* Queries the server. --list does not wait for a server in trouble, and works without one. */
static bool list_ask_server(struct action_context *a, struct manifest *world,
                            struct recovery_range_server *out)
{
    struct err ignored;
    *out = (struct recovery_range_server){0};
    if (action_password(a, &ignored) < 0)
        return false;
    struct db_params p = a->job.db;
    p.connect_timeout = p.connect_timeout < WAIT_MS ? p.connect_timeout : WAIT_MS;
    p.read_timeout = WAIT_MS;
    struct db *db = db_open(&p, &ignored);
    if (db && db_server_id(db, &out->id, &ignored) == 0)
        list_logs(db, out);
    if (out->file_count && world_now(db, a->cfg, world, &ignored) == 0)
        out->world = world;
    db_close(db);
    return out->file_count && out->world;
}

/* Returns the ranges from our segments if there are any, otherwise from the server's log. */
static json_t *ranges_json(struct action_context *a, const struct catalog *c)
{
    struct recovery_range range;
    struct archive segments;
    struct err e;
    char from[TEXT_SHORT], to[TEXT_SHORT];
    bool asked = true;
    if (a->cfg->journal == JOURNAL_OFF)
        return json_null();
    int fd = a->cfg->journal == JOURNAL_FOLLOW ? archive_dir(a->cfg, false, &e) : -1;
    bool files = fd >= 0 && archive_load(fd, a->cfg->name, &segments, &e) == 0;
    if (fd >= 0)
        close(fd);
    if (files) {
        recovery_range_segments(c, &segments, clock_wall(), &range);
        archive_free(&segments);
    } else {
        struct segment_mark gaps[GAPS_MAX];
        struct recovery_range_server server;
        SCOPED(manifest_free) struct manifest world = {0};
        asked = list_ask_server(a, &world, &server);
        size_t known = known_gaps(a, gaps, GAPS_MAX);
        recovery_range_log(c, gaps, known, &server, &range);
        free(server.files);
    }
    json_t *list = json_array();
    for (size_t i = 0; i < range.count; i++) {
        const struct recovery_range_span *s = &range.list[i];
        json_array_append_new(list, json_pack("{s:s, s:s?, s:o}", "from", text_utc(s->from, from),
                                              "to", s->open ? NULL : text_utc(s->to, to), "gap",
                                              s->open ? json_null() : js_clean(s->why)));
    }
    recovery_range_free(&range);
    return json_pack("{s:s, s:b, s:o}", "source", files ? "segments" : "server", "asked", asked,
                     "ranges", list);
}

int action_list(struct action_context *a, const struct request *r, json_t **result, struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0}, rejected = {0};
    if (r->from) {
        if (action_from_catalog(a, r, &c, e) < 0)
            return -1;
        *result = json_pack("{s:o, s:[], s:n}", "dumps", catalog_json(&c, a->cfg->sentinel),
                            "rejected", "journal");
        return 0;
    }
    if (catalog_load(a->job.dirfd, a->cfg->name, &c, e) < 0 ||
        catalog_load_rejected(a->job.dirfd, a->cfg->name, &rejected, e) < 0)
        return -1;
    *result = json_pack("{s:o, s:o, s:o}", "dumps", catalog_json(&c, a->cfg->sentinel), "rejected",
                        catalog_json(&rejected, a->cfg->sentinel), "journal", ranges_json(a, &c));
    return 0;
}
