#include "progress/renew.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/fence.h"
#include "progress/write_back.h"

#define TRIES 2 /* a lost connection is made once more */
/* Sessions whose locks are taken in two round trips: the world waits for them, and the central
 * store may be far away. */
#define RENEW_AT_ONCE 64
/* The part of [restore] stall for which one answer is awaited: connecting and the first statement
 * together must not count as a stalled restore. */
#define PATIENCE_PART 4

struct renew {
    struct db *db;
    const char *session, *progress, *lock_id;
    struct progress *shown;
    struct local_sessions list;
    size_t next; /* the first session that is not decided yet */
    struct renewed *out;
};

static int close_session(struct renew *r, const struct local_session *s, struct err *e)
{
    r->out->closed++;
    progress_at(r->shown, 0, 0);
    return local_close_in(r->db, r->session, &s->lock_key, e);
}

static void renew_name_first(struct renewed *out, const struct local_session *s)
{
    SCOPED(buf_free) struct buf shown = {0};
    size_t have = strlen(out->first);
    text_clean_bytes(&shown, s->lock_key.bytes, s->lock_key.len, 32);
    if (have + shown.len + 3 < sizeof out->first)
        snprintf(out->first + have, sizeof out->first - have, "%s%s", have ? ", " : "", shown.p);
}

/* Returns 1 if a later session of this lock has saved something that is not here, 0 if not, -1
 * on error. */
static int is_newer(struct renew *r, const struct central_saves *saves, struct err *e)
{
    for (size_t i = 0; i < saves->count; i++) {
        uint64_t seq;
        if (local_seq_in(r->db, r->progress, &saves->list[i].key, &seq, e) < 0)
            return -1;
        if (seq < saves->list[i].seq)
            return 1;
    }
    return 0;
}

/* Returns the number under which this game server holds the lock, or 0 if it does not hold it. */
static uint64_t held_number(const struct local_sessions *held, const struct local_session *s)
{
    for (size_t i = 0; i < held->count; i++)
        if (local_key_is(&held->list[i].lock_key, s->lock_key.bytes, s->lock_key.len))
            return held->list[i].lock_seq;
    return 0;
}

/* Sessions that are renewed together. */
struct renewing {
    size_t count;
    const struct local_session *was[RENEW_AT_ONCE];
    struct local_session now[RENEW_AT_ONCE];
    uint64_t held[RENEW_AT_ONCE]; /* numbers of the locks before */
    struct central_saves saves[RENEW_AT_ONCE];
};

static void renewing_free(struct renewing *n)
{
    for (size_t i = 0; i < n->count; i++)
        central_saves_free(&n->saves[i]);
}

/* Chooses those of the next `span` sessions whose locks this game server holds. */
static void renew_choose(const struct renew *r, size_t span, const struct local_sessions *held,
                         struct renewing *n)
{
    for (size_t i = 0; i < span; i++) {
        const struct local_session *s = &r->list.list[r->next + i];
        uint64_t number = held_number(held, s);
        if (!number)
            continue;
        n->was[n->count] = s;
        n->now[n->count] = *s;
        n->held[n->count++] = number;
    }
}

/* Takes the locks anew. Sessions whose lock another game server has by now are taken from the
 * list. */
static int renew_take(const struct renew *r, struct db *central, struct renewing *n,
                      struct err *away)
{
    char outcomes[RENEW_AT_ONCE][16], released[16];
    size_t kept = 0;
    if (central_acquire_all(central, r->lock_id, n->now, n->count, outcomes, r->shown, away) < 0)
        return -1;
    fault_point("progress.acquired");
    for (size_t i = 0; i < n->count; i++) {
        progress_at(r->shown, 0, 0);
        if (strcmp(outcomes[i], "mine") == 0) {
            n->was[kept] = n->was[i];
            n->now[kept] = n->now[i];
            n->held[kept++] = n->held[i];
        } else if (strcmp(outcomes[i], "locked") == 0 && /* its game server has released it since */
                   central_release(central, r->lock_id, &n->now[i], released, away) < 0) {
            return -1;
        }
    }
    n->count = kept;
    /* Stamped only now: saves count under the new number only once the blobs are loaded under
     * it. */
    return kept ? central_stamp_all(central, r->lock_id, n->now, kept, n->saves, r->shown, away)
                : 0;
}

/* Returns the place in `n` of a session that goes on, n->count if it is over, -1 on error. It is
 * over if its lock is not ours, or if a later session has saved something newer. */
static ssize_t renew_judge(struct renew *r, const struct renewing *n, const struct local_session *s,
                           struct err *e)
{
    size_t i = 0;
    while (i < n->count && n->was[i] != s)
        i++;
    if (i == n->count || n->saves[i].stolen)
        return (ssize_t)n->count;
    int newer = n->held[i] != s->lock_seq ? is_newer(r, &n->saves[i], e) : 0;
    return newer < 0 ? -1 : newer ? (ssize_t)n->count : (ssize_t)i;
}

/* Closes the sessions that are over, and gives the others their new numbers. */
static int renew_settle(struct renew *r, const struct renewing *n, size_t span, struct err *e)
{
    const struct local_session *was[RENEW_AT_ONCE];
    struct local_session now[RENEW_AT_ONCE];
    size_t goes_on = 0;
    for (size_t i = 0; i < span; i++) {
        const struct local_session *s = &r->list.list[r->next + i];
        ssize_t at = renew_judge(r, n, s, e);
        if (at < 0 || ((size_t)at == n->count && close_session(r, s, e) < 0))
            return -1;
        if ((size_t)at == n->count)
            continue;
        was[goes_on] = s;
        now[goes_on++] = n->now[at];
        renew_name_first(r->out, s);
    }
    r->next += span;
    r->out->taken += goes_on;
    return local_renumber_in(r->db, r->session, r->progress, was, now, goes_on, e);
}

static int renew_some(struct renew *r, struct db *central, const struct local_sessions *held,
                      struct err *away, struct err *e)
{
    SCOPED(renewing_free) struct renewing n = {0};
    size_t left = r->list.count - r->next, span = left < RENEW_AT_ONCE ? left : RENEW_AT_ONCE;
    if (fence_check("session", e) < 0)
        return -1;
    renew_choose(r, span, held, &n);
    if (n.count && renew_take(r, central, &n, away) < 0)
        return 0;
    return renew_settle(r, &n, span, e);
}

/* Renews all remaining sessions, as long as the central store answers. */
static int renew_all(struct renew *r, struct db *central, struct err *away, struct err *e)
{
    struct local_sessions held = {0};
    int rc = 0;
    err_clear(away);
    if (central_held(central, r->lock_id, &held, away) < 0)
        return 0;
    while (rc == 0 && away->cls == ERR_NONE && r->next < r->list.count)
        rc = renew_some(r, central, &held, away, e);
    free(held.list);
    return rc;
}

static int64_t renew_patience(const struct config *cfg, int64_t timeout)
{
    int64_t most = cfg->restore_stall / PATIENCE_PART;
    return timeout < most ? timeout : most;
}

int renew_sessions(struct db *db, const struct config *cfg, const char *session,
                   const char *progress, struct progress *p, struct renewed *out, struct err *e)
{
    struct config brief = *cfg;
    struct config_mysql *server = &brief.progress.server;
    server->connect_timeout = renew_patience(cfg, server->connect_timeout);
    server->read_timeout = renew_patience(cfg, server->read_timeout);
    struct renew r = {.db = db,
                      .session = session,
                      .progress = progress,
                      .shown = p,
                      .lock_id = cfg->progress.lock_id,
                      .out = out};
    int rc = local_sessions_in(db, session, &r.list, e);
    *out = (struct renewed){.asked = rc == 0 && r.list.count > 0};
    /* A store that did not answer in time is not tried again, because the world waits. */
    for (unsigned i = 0;
         i < TRIES && rc == 0 && r.next < r.list.count && out->away.cls != ERR_STALLED; i++) {
        struct write_back w;
        write_back_open(&w, &brief, "");
        progress_at(p, 0, 0);
        if (write_back_central(&w, &out->away) == 0)
            rc = renew_all(&r, w.central, &out->away, e);
        write_back_close(&w);
    }
    while (rc == 0 && r.next < r.list.count)
        rc = close_session(&r, &r.list.list[r.next++], e);
    free(r.list.list);
    return rc < 0 ? err_step(e, "taking the locks of open sessions anew") : 0;
}
