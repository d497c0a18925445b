#include "watch/probe.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/js.h"
#include "core/worker.h"
#include "db/query.h"
#include "db/sentinel.h"

struct prober {
    const struct probe_args *args;
    struct db *db;
    struct server_id server;
    bool memory; /* the sentinel was seen to be of that engine, over this connection */
};

static enum verdict verdict_of_error(const struct err *e)
{
    if (db_table_missing(e))
        return VERDICT_MISSING;
    if (e->cls == ERR_DENIED)
        return VERDICT_DENIED;
    if (e->cls == ERR_STALLED)
        return VERDICT_STALLED;
    if (e->cls == ERR_UNREACHABLE)
        return VERDICT_UNREACHABLE;
    return VERDICT_DENIED; /* it answers, but not what we need: never a reason to restore */
}

/* The server says "no such table" only to an account that may see it; 1142 to any other. */
static void look_at_schema(struct prober *p, struct observation *o)
{
    struct db_tables t;
    const char *schema = p->args->cfg->schema;
    o->schema_there = o->error != DB_NO_SCHEMA;
    o->privileges_proven = !o->schema_there;
    if (!o->schema_there || db_tables(p->db, schema, true, &t, NULL) < 0)
        return;
    o->privileges_proven = true;
    for (size_t i = 0; i < t.count; i++)
        if (t.list[i].rows > 0)
            o->schema_has_rows = true;
    db_tables_free(&t);
}

static void failed(struct prober *p, const struct err *e, struct observation *o)
{
    o->failed = verdict_of_error(e);
    o->error = e->num;
    snprintf(o->text, sizeof o->text, "%.500s", e->text);
    if (o->failed == VERDICT_MISSING)
        look_at_schema(p, o);
    if (o->failed == VERDICT_MISSING || o->failed == VERDICT_DENIED)
        return; /* the connection itself is good */
    db_close(p->db);
    p->db = NULL;
}

static int connect_server(struct prober *p, struct err *e)
{
    struct db_params params = p->args->db;
    params.connect_timeout = params.read_timeout = p->args->cfg->probe_timeout;
    p->memory = false;
    p->db = db_open(&params, e);
    if (p->db && db_server_id(p->db, &p->server, e) == 0)
        return 0;
    db_close(p->db);
    p->db = NULL;
    return -1;
}

struct answer {
    struct db_sentinel s;
    char engine[65];
};

static int ask(struct prober *p, struct answer *a, struct err *e)
{
    const struct config *c = p->args->cfg;
    *a = (struct answer){0};
    if (!p->db && connect_server(p, e) < 0)
        return -1;
    if (db_sentinel_read(p->db, c->schema, c->sentinel, &a->s, e) < 0)
        return -1;
    /* A row that was there before the server's restart says nothing after it. */
    if (a->s.rows && !p->memory &&
        db_sentinel_durable(p->db, c->schema, c->sentinel, a->engine, e) < 0)
        return -1;
    p->memory = a->s.rows && !a->engine[0];
    return 0;
}

/* An old connection may have been ended by wait_timeout or KILL: only a new one tells about the
 * server. */
static int ask_again(struct prober *p, struct answer *a, struct err *e)
{
    bool old = p->db != NULL;
    int rc = ask(p, a, e);
    if (rc == 0 || !old || e->cls != ERR_UNREACHABLE)
        return rc;
    db_close(p->db);
    p->db = NULL;
    return ask(p, a, e);
}

static void probe_once(struct prober *p, struct observation *o)
{
    struct err e = {0};
    struct answer a;
    mono_t began = clock_mono();
    *o = (struct observation){0};
    int rc = ask_again(p, &a, &e);
    if (p->db)
        o->server = p->server;
    if (rc < 0) {
        failed(p, &e, o);
    } else {
        o->rows = a.s.rows;
        o->generation = a.s.generation;
        snprintf(o->nonce, sizeof o->nonce, "%s", a.s.nonce);
        snprintf(o->engine, sizeof o->engine, "%s", a.engine);
    }
    o->latency_ms = mono_since(clock_mono(), began);
}

int probe_worker(int fd, void *arg)
{
    struct prober p = {.args = arg};
    bool closed;
    for (;;) {
        json_t *ask = worker_receive(fd, &closed);
        if (closed)
            break;
        struct observation o;
        probe_once(&p, &o);
        json_t *j = probe_json(&o);
        json_object_set_new(j, "number", json_integer(js_number(ask, "number", 0)));
        worker_send(fd, j);
        json_decref(j);
        json_decref(ask);
    }
    db_close(p.db);
    return 0;
}

json_t *probe_json(const struct observation *o)
{
    return json_pack(
        "{s:s, s:i, s:o, s:b, s:b, s:b, s:i, s:o, s:o, s:I, s:I, s:{s:I, s:o, s:o, s:o, s:o}}",
        "failed", verdict_name(o->failed), "error", o->error, "text", js_clean(o->text),
        "schema_there", o->schema_there, "has_rows", o->schema_has_rows, "proven",
        o->privileges_proven, "rows", (int)o->rows, "nonce", js_clean(o->nonce), "engine",
        js_clean(o->engine), "generation", (json_int_t)o->generation, "latency_ms",
        (json_int_t)o->latency_ms, "server", "start", (json_int_t)o->server.start, "uid",
        js_clean(o->server.uid), "hostname", js_clean(o->server.hostname), "datadir",
        js_clean(o->server.datadir), "version", js_clean(o->server.version));
}

void probe_from_json(const json_t *j, struct observation *o)
{
    const json_t *s = json_object_get(j, "server");
    *o = (struct observation){.failed = verdict_of(js_text(j, "failed")),
                              .error = (int)js_number(j, "error", 0),
                              .schema_there = js_flag(j, "schema_there"),
                              .schema_has_rows = js_flag(j, "has_rows"),
                              .privileges_proven = js_flag(j, "proven"),
                              .rows = (unsigned)js_number(j, "rows", 0),
                              .generation = (uint64_t)js_number(j, "generation", 0),
                              .latency_ms = js_number(j, "latency_ms", 0)};
    js_copy(j, "text", o->text, sizeof o->text);
    js_copy(j, "nonce", o->nonce, sizeof o->nonce);
    js_copy(j, "engine", o->engine, sizeof o->engine);
    o->server.start = js_number(s, "start", 0);
    js_copy(s, "uid", o->server.uid, sizeof o->server.uid);
    js_copy(s, "hostname", o->server.hostname, sizeof o->server.hostname);
    js_copy(s, "datadir", o->server.datadir, sizeof o->server.datadir);
    js_copy(s, "version", o->server.version, sizeof o->server.version);
}
