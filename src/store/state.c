#include "store/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "core/file.h"
#include "core/js.h"
#include "core/text.h"

#define STATE_MAX (64u << 10)
#define PENDING_MAX (16u << 20)

/* 1: read; 0: not there; -1: there but not usable. */
static int load(int dirfd, const char *name, size_t limit, json_t **out, struct err *e)
{
    struct buf b = {0};
    struct err why = {0};
    *out = NULL;
    int rc = file_read(dirfd, name, limit, &b, &why);
    if (rc == 0) {
        *out = json_loadb(b.p, b.len, 0, NULL);
        rc = json_is_object(*out)
                 ? 1
                 : err_set(&why, ERR_DAMAGED, 0, "%s is not what it should be", name);
    } else if (why.num == ENOENT) {
        rc = 0;
    }
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
        if (e)
            *e = why;
    }
    buf_free(&b);
    return rc;
}

/* What could not be read again is not written. */
static int save(int dirfd, const char *name, size_t limit, json_t *o, struct err *e)
{
    char *s = json_dumps(o, JSON_INDENT(1));
    int rc;
    if (!s)
        rc = err_set(e, ERR_SYSTEM, 0, "cannot write %s: a name is not UTF-8", name);
    else if (strlen(s) > limit)
        rc = err_set(e, ERR_SYSTEM, EFBIG, "cannot write %s: it would take %zu bytes", name,
                     strlen(s));
    else
        rc = file_commit(dirfd, name, s, strlen(s), 0600, e);
    free(s);
    json_decref(o);
    return rc;
}

json_t *state_json(const struct state *s)
{
    return json_pack("{s:s, s:b, s:o, s:I, s:{s:I, s:o, s:o, s:o, s:o}, s:I, s:b, s:I, s:o, s:o}",
                     "world", s->world, "known", s->known, "nonce", js_clean(s->nonce),
                     "generation", (json_int_t)s->generation, "server", "start",
                     (json_int_t)s->server.start, "uid", js_clean(s->server.uid), "hostname",
                     js_clean(s->server.hostname), "datadir", js_clean(s->server.datadir),
                     "version", js_clean(s->server.version), "alive_at", (json_int_t)s->alive_at.ms,
                     "paused", s->paused, "pause_until", (json_int_t)s->pause_until.ms,
                     "last_restore", js_clean(s->last_restore), "gaps", js_clean(s->gaps));
}

static uint64_t read_generation(const json_t *o)
{
    int64_t n = js_number(o, "generation", 0);
    return n > 0 ? (uint64_t)n : 0;
}

void state_from_json(const json_t *o, struct state *out)
{
    const json_t *server = json_object_get(o, "server");
    *out = (struct state){.known = js_flag(o, "known"), .paused = js_flag(o, "paused")};
    js_copy(o, "world", out->world, sizeof out->world);
    js_copy(o, "nonce", out->nonce, sizeof out->nonce);
    js_copy(o, "last_restore", out->last_restore, sizeof out->last_restore);
    js_copy(o, "gaps", out->gaps, sizeof out->gaps);
    out->generation = read_generation(o);
    out->alive_at.ms = js_number(o, "alive_at", 0);
    out->pause_until.ms = js_number(o, "pause_until", 0);
    out->server.start = js_number(server, "start", 0);
    js_copy(server, "uid", out->server.uid, sizeof out->server.uid);
    js_copy(server, "hostname", out->server.hostname, sizeof out->server.hostname);
    js_copy(server, "datadir", out->server.datadir, sizeof out->server.datadir);
    js_copy(server, "version", out->server.version, sizeof out->server.version);
}

int state_is_of(const struct state *s, const char *world, const char *dir, struct err *e)
{
    if (!s->world[0] || strcmp(s->world, world) == 0)
        return 0;
    err_set(e, ERR_REFUSED, 0, "%s is the directory of world %s, not of %s", dir, s->world, world);
    err_hint(e,
             "[dump] dir: a directory of its own for each world; where world %s was renamed: "
             "remove %s/state.json",
             s->world, dir);
    return -1;
}

int state_load(int dirfd, struct state *out, struct err *e)
{
    json_t *o;
    *out = (struct state){0};
    int rc = load(dirfd, "state.json", STATE_MAX, &o, e);
    if (rc == 1)
        state_from_json(o, out);
    json_decref(o);
    return rc < 0 ? -1 : 0;
}

int state_save(int dirfd, const struct state *s, struct err *e)
{
    int rc = save(dirfd, "state.json", STATE_MAX, state_json(s), e);
    if (rc == 0)
        fault_point("state.saved");
    return rc;
}

static json_t *trigger_json(const struct db_trigger *t)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", t->name, "table",
                     t->table, "event", t->event, "timing", t->timing, "body", t->body, "definer",
                     t->definer, "sql_mode", t->sql_mode, "charset", t->charset, "collation",
                     t->collation);
}

/* The i-th name belongs to the i-th shadow: none may be left out. */
static json_t *names_json(const struct db_names *names, struct err *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < names->count; i++)
        if (json_array_append_new(list, json_string(names->list[i])) < 0) {
            json_decref(list);
            err_set(e, ERR_REFUSED, 0, "the name of table %s is not UTF-8 text", names->list[i]);
            return NULL;
        }
    return list;
}

static json_t *triggers_json(const struct db_triggers *triggers, struct err *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < triggers->count; i++)
        if (json_array_append_new(list, trigger_json(&triggers->list[i])) < 0) {
            json_decref(list);
            err_set(e, ERR_REFUSED, 0, "trigger %s is not UTF-8 text and could not be put back",
                    triggers->list[i].name);
            return NULL;
        }
    return list;
}

/* What is not UTF-8 text stays under the names that the server made up. */
static json_t *checks_json(const struct pending *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->check_count; i++)
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "table", p->checks[i].table,
                                                    "lines", p->checks[i].lines, "heap",
                                                    (json_int_t)p->checks[i].heap));
    return list;
}

int pending_save(int dirfd, const struct pending *p, struct err *e)
{
    json_t *tables = names_json(&p->tables, e);
    json_t *triggers = tables ? triggers_json(&p->triggers, e) : NULL;
    if (!triggers) {
        json_decref(tables);
        return -1;
    }
    return save(dirfd, "pending.json", PENDING_MAX,
                json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "nonce", p->nonce, "generation",
                          (json_int_t)p->generation, "dump", js_clean(p->dump), "tables", tables,
                          "triggers", triggers, "checks", checks_json(p)),
                e);
}

static bool read_names(const json_t *list, struct db_names *out)
{
    bool whole = json_is_array(list);
    out->list = xcalloc(json_array_size(list), sizeof *out->list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));
        out->list[out->count++] = xstrdup(s ? s : "");
        whole = whole && s && s[0];
    }
    return whole;
}

static bool read_triggers(const json_t *list, struct db_triggers *out)
{
    bool whole = json_is_array(list);
    out->list = xcalloc(json_array_size(list), sizeof *out->list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        struct db_trigger *t = &out->list[out->count++];
        t->name = xstrdup(js_text(o, "name"));
        t->table = xstrdup(js_text(o, "table"));
        t->event = xstrdup(js_text(o, "event"));
        t->timing = xstrdup(js_text(o, "timing"));
        t->body = xstrdup(js_text(o, "body"));
        t->definer = xstrdup(js_text(o, "definer"));
        t->sql_mode = xstrdup(js_text(o, "sql_mode"));
        t->charset = xstrdup(js_text(o, "charset"));
        t->collation = xstrdup(js_text(o, "collation"));
        whole = whole && t->name[0] && t->table[0] && t->event[0] && t->timing[0] && t->body[0];
    }
    return whole;
}

static bool read_checks(const json_t *list, struct pending *out)
{
    bool whole = true;
    out->checks = xcalloc(json_array_size(list), sizeof *out->checks);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        json_int_t heap = json_integer_value(json_object_get(o, "heap"));
        struct pending_checks *c = &out->checks[out->check_count++];
        *c = (struct pending_checks){.table = xstrdup(js_text(o, "table")),
                                     .lines = xstrdup(js_text(o, "lines")),
                                     .heap = heap > 0 ? (uint64_t)heap : 0};
        whole = whole && c->table[0] && c->lines[0];
    }
    return whole;
}

/* A half-read one would drop tables and triggers that wait to be put back. */
static bool read_pending(const json_t *o, struct pending *out)
{
    out->there = true;
    js_copy(o, "nonce", out->nonce, sizeof out->nonce);
    js_copy(o, "dump", out->dump, sizeof out->dump);
    out->generation = read_generation(o);
    bool names = read_names(json_object_get(o, "tables"), &out->tables);
    bool triggers = read_triggers(json_object_get(o, "triggers"), &out->triggers);
    bool checks = read_checks(json_object_get(o, "checks"), out);
    return names && triggers && checks && out->generation > 0 &&
           strlen(out->nonce) == sizeof out->nonce - 1;
}

int pending_load(int dirfd, struct pending *out, struct err *e)
{
    json_t *o;
    *out = (struct pending){0};
    int rc = load(dirfd, "pending.json", PENDING_MAX, &o, e);
    if (rc == 1 && !read_pending(o, out)) {
        pending_free(out);
        rc = err_set(e, ERR_DAMAGED, 0, "pending.json is not what it should be");
    }
    json_decref(o);
    return rc < 0 ? -1 : 0;
}

int pending_remove(int dirfd, struct err *e)
{
    return file_remove(dirfd, "pending.json", e) < 0 ? -1 : file_sync_dir(dirfd, "pending.json", e);
}

void pending_free(struct pending *p)
{
    db_names_free(&p->tables);
    db_triggers_free(&p->triggers);
    for (size_t i = 0; i < p->check_count; i++) {
        free(p->checks[i].table);
        free(p->checks[i].lines);
    }
    free(p->checks);
    *p = (struct pending){0};
}
