#include "watch/probe.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/line.h"
#include "base/text.h"
#include "base/worker.h"
#include "mysql/galera.h"
#include "mysql/lease.h"
#include "mysql/schema.h"
#include "mysql/sentinel.h"

/* One connection lives as long as the server; it is only replaced if it broke. Each probe reads the
 * sentinel's row; each new connection also reads the server's identity and whether the row can
 * survive a restart. */

/* Half a second, because a server needs a moment to end a session whose client died. */
#define WATCH_TRIES 4
#define WATCH_PAUSE_US 100000
#define OWN_END 10 /* probes after which the server must have ended our previous session */
/* The other supervisor probes each second; ten probes are enough time to reconnect. */
#define WATCH_GRACE_MS fault_wait(10000)
#define WATCH_DEAD_S 60 /* or ten probe intervals */

struct prober {
    const struct probe_args *args;
    struct db *db;
    struct server_id server;
    mono_t opened;   /* when the connection was opened */
    unsigned ended;  /* probes that found the lock held by the connection `before` */
    mono_t held_off; /* when another session held the watch lock; ms 0: not recently */
    bool watching;   /* this connection holds the watch lock (db_watch_lock()) */
    uint64_t before; /* number of the previous connection: the server may not have ended it yet */
    bool memory;     /* over this connection the sentinel was seen to be ENGINE=MEMORY */
};

/* Returns the verdict for an error. In doubt it is DENIED, which starts nothing: a wrong EMPTY or
 * MISSING could restore over a living world. */
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
    return VERDICT_DENIED; /* the server answers with another error: never a reason to restore */
}

static void probe_failed(struct prober *p, const struct err *e, struct observation *o)
{
    o->failed = verdict_of_error(e);
    o->dead = o->failed == VERDICT_UNREACHABLE &&
              (p->server.pid > 1 && kill((pid_t)p->server.pid, 0) < 0 && errno == ESRCH);
    o->error = e->num;
    line_set(o->text, sizeof o->text, "%s", e->text);
    if (o->failed == VERDICT_MISSING) {
        struct err why;
        /* The server reports a missing table only to an account that may see it, and error 1142 to
         * any other account. */
        SCOPED(db_tables_free) struct db_tables t = {0};
        const char *schema = p->args->cfg->schema;
        o->schema_there = o->error != DB_NO_SCHEMA;
        o->privileges_proven = !o->schema_there;
        if (o->schema_there && db_tables(p->db, schema, true, &t, NULL) >= 0) {
            o->privileges_proven = true;
            for (size_t i = 0; i < t.count; i++)
                if (t.list[i].rows > 0)
                    o->schema_has_rows = true;
            /* MariaDB reports only the table as missing. */
            SCOPED(xfree) char *name = t.count ? NULL : db_schema_name(p->db, schema, &why);
            if (!name && t.count == 0 && why.cls == ERR_REFUSED) {
                o->schema_there = false;
                o->error = DB_NO_SCHEMA;
            }
        }
    }
    if (o->failed == VERDICT_MISSING || o->failed == VERDICT_DENIED)
        return; /* the connection itself works */
    db_close(p->db);
    p->db = NULL;
}

/* Reads the server's identity. On failure the last one is kept: probe_failed() needs its process
 * ID. */
static int ask_who(struct prober *p, struct err *e)
{
    struct server_id server;
    if (db_server_id(p->db, &server, e) < 0)
        return -1;
    p->server = server;
    return 0;
}

/* Connects. Facts about the old connection do not apply to the new one. */
static int probe_connect_server(struct prober *p, struct err *e)
{
    struct db_params params = p->args->db;
    params.connect_timeout = params.read_timeout = p->args->cfg->probe_timeout;
    p->memory = p->watching = false;
    p->ended = 0;
    if (p->server.connection)
        p->before = p->server.connection;
    p->db = db_open(&params, e);
    if (p->db && galera_clean_reads(p->db, e) == 0 && ask_who(p, e) == 0) {
        p->opened = clock_mono();
        return 0;
    }
    db_close(p->db);
    p->db = NULL;
    return -1;
}

struct answer {
    struct db_sentinel s;
    char engine[65];
};

/* Reads the sentinel. A server that crashed during a swap may have renamed the sentinel without a
 * replacement. It is empty under that other name as well, and the next restore gives the sentinel
 * its own name again. */
static int probe_read_sentinel(struct prober *p, struct answer *a, struct err *e)
{
    const struct config *c = p->args->cfg;
    struct err why;
    if (db_sentinel_read(p->db, c->schema, c->sentinel, &a->s, e) == 0)
        return 0;
    bool empty = db_table_missing(e) &&
                 db_sentinel_read(p->db, c->schema, DB_OLD_SENTINEL, &a->s, &why) == 0 &&
                 a->s.rows == 0;
    a->s = (struct db_sentinel){0};
    return empty ? 0 : -1;
}

static int probe_ask(struct prober *p, struct answer *a, struct err *e)
{
    const struct config *c = p->args->cfg;
    *a = (struct answer){0};
    if (!p->db && probe_connect_server(p, e) < 0)
        return -1;
    if (probe_read_sentinel(p, a, e) < 0)
        return -1;
    /* A row that survives restarts of the server proves nothing: check the engine first. */
    if (a->s.rows && !p->memory &&
        db_sentinel_durable(p->db, c->schema, c->sentinel, a->engine, e) < 0)
        return -1;
    p->memory = a->s.rows && !a->engine[0];
    return p->server.young ? ask_who(p, e) : 0;
}

/* Asks again over a new connection, because the old one may have been ended by wait_timeout or
 * KILL: only a new one shows whether the server is there. */
static int ask_again(struct prober *p, struct answer *a, struct err *e)
{
    bool old = p->db != NULL;
    int rc = probe_ask(p, a, e);
    if (rc == 0 || !old || e->cls != ERR_UNREACHABLE)
        return rc;
    db_close(p->db);
    p->db = NULL;
    return probe_ask(p, a, e);
}

/* Returns 1 if no other session watches, or if that is not known. The server may still be ending
 * our own previous session. */
static int take_watch(struct prober *p, bool may, unsigned long *holder)
{
    struct err e;
    int rc;
    for (int i = 0; (rc = db_watch_lock(p->db, p->args->cfg->schema, may, holder, &e)) == 0; i++) {
        if (*holder == p->before && p->ended++ < OWN_END)
            return 1;
        if (i == WATCH_TRIES || p->held_off.ms)
            return 0;
        usleep(WATCH_PAUSE_US);
    }
    p->watching = rc == 1 && may;
    return 1;
}

/* Waits before taking the lock after another session held it: after a server restart the other
 * supervisor, which may be the one with the dumps, gets time to reconnect. */
static int look_for_watch(struct prober *p, bool may, unsigned long *holder)
{
    if (p->watching && !may) {
        (void)db_watch_unlock(p->db, p->args->cfg->schema, NULL);
        p->watching = false;
    }
    if (p->watching)
        return 1;
    bool patient = p->held_off.ms && mono_since(clock_mono(), p->held_off) < WATCH_GRACE_MS;
    int rc = take_watch(p, may && !patient, holder);
    if (rc == 0)
        p->held_off = clock_mono();
    else if (!patient)
        p->held_off = (mono_t){0};
    return rc == 1 && !patient;
}

static void look_for_another(struct prober *p, bool may, struct observation *o)
{
    unsigned long holder = 0;
    struct db_seen seen;
    if (look_for_watch(p, may, &holder))
        return;
    o->another = true;
    if (!holder) {
        line_set(o->text, sizeof o->text, PROBE_ANOTHER ", or did just now; this one holds off");
        return;
    }
    (void)db_session_seen(p->db, holder, &seen, NULL);
    /* Ends the session of a supervisor whose machine died: the server still has the session, but it
     * is idle. */
    int64_t limit = 10 * p->args->cfg->probe_interval / 1000;
    if (seen.idle >= (limit > WATCH_DEAD_S ? limit : WATCH_DEAD_S))
        (void)db_execf(p->db, NULL, "KILL %lu", holder);
    line_set(o->text, sizeof o->text,
             PROBE_ANOTHER ": connection %lu of the server, from %s; this one holds off", holder,
             seen.origin[0] ? seen.origin : "an account that is not ours");
}

static void probe_once(struct prober *p, bool may, struct observation *o)
{
    struct err e = {0};
    struct answer a;
    /* Measured from the question to the answer, including a new connection if one was needed. */
    mono_t began = clock_mono();
    *o = (struct observation){0};
    int rc = ask_again(p, &a, &e);
    if (p->db) {
        o->server = p->server;
        o->opened = p->opened;
    }
    if (rc < 0) {
        probe_failed(p, &e, o);
    } else {
        o->rows = a.s.rows;
        o->generation = a.s.generation;
        snprintf(o->nonce, sizeof o->nonce, "%s", a.s.nonce);
        snprintf(o->engine, sizeof o->engine, "%s", a.engine);
        look_for_another(p, may, o);
    }
    o->latency_ms = mono_since(clock_mono(), began);
}

/* Cleans text from the server, which is used in the log, the status and JSON. */
static void probe_clean(char *text, size_t size)
{
    SCOPED(buf_free) struct buf b = {0};
    text_clean(&b, text, size - 1);
    snprintf(text, size, "%s", b.p);
}

int probe_worker(int fd, void *arg)
{
    struct prober p = {.args = arg};
    struct packet m;
    bool closed;
    while (worker_receive_packet(fd, &m, &closed) || !closed) {
        const struct probe_question *q = packet_struct(&m, sizeof *q);
        if (!q)
            continue;
        struct probe_answer a = {.number = q->number};
        if (p.before == 0)
            p.before = q->before;
        probe_once(&p, q->may_watch, &a.seen);
        probe_clean(a.seen.text, sizeof a.seen.text);
        probe_clean(a.seen.nonce, sizeof a.seen.nonce);
        probe_clean(a.seen.engine, sizeof a.seen.engine);
        struct server_id *server = &a.seen.server;
        probe_clean(server->uid, sizeof server->uid);
        probe_clean(server->hostname, sizeof server->hostname);
        probe_clean(server->datadir, sizeof server->datadir);
        probe_clean(server->version, sizeof server->version);
        worker_send_packet(fd, 0, &a, sizeof a);
    }
    db_close(p.db);
    return 0;
}
