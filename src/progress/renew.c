#include "progress/renew.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/fence.h"
#include "progress/write_back.h"

#define TRIES 2 /* a lost connection is made once more */

struct renew {
    struct db *db;
    const char *session, *progress, *lock_id;
    struct local_sessions list;
    size_t next; /* the first session that is not decided yet */
    struct renewed *out;
};

static int close_session(struct renew *r, const struct local_session *s, struct err *e)
{
    r->out->closed++;
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

/* Returns 1 if the lock was taken under the number in `now`, 0 if the session is over, -1 with
 * `away` if the central store did not answer. */
static int renew_take(struct renew *r, struct db *central, const struct local_session *s,
                      struct local_session *now, struct central_saves *saves, struct err *away)
{
    char outcome[16];
    *now = *s;
    if (central_acquire(central, r->lock_id, &s->lock_key, outcome, &now->lock_seq, away) < 0)
        return -1;
    fault_point("progress.acquired");
    if (strcmp(outcome, "locked") == 0) /* released meanwhile: the session has ended */
        return central_release(central, r->lock_id, now, outcome, away);
    if (strcmp(outcome, "mine") != 0)
        return 0;
    /* Stamped only now: saves count under the new number only once the blobs are loaded under
     * it. */
    return central_stamp(central, r->lock_id, now, saves, away);
}

static int renew_one(struct renew *r, struct db *central, const struct local_sessions *held,
                     struct err *away, struct err *e)
{
    const struct local_session *s = &r->list.list[r->next];
    SCOPED(central_saves_free) struct central_saves saves = {0};
    struct local_session now;
    uint64_t number = held_number(held, s);
    if (fence_check("session", e) < 0)
        return -1;
    int got = number ? renew_take(r, central, s, &now, &saves, away) : 0;
    if (got < 0)
        return 0;
    int newer = got && number != s->lock_seq ? is_newer(r, &saves, e) : 0;
    if (newer < 0)
        return -1;
    r->next++;
    if (!got || newer)
        return close_session(r, s, e);
    r->out->taken++;
    renew_name_first(r->out, s);
    return local_renumber_in(r->db, r->session, r->progress, s, now.lock_seq, e);
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
        rc = renew_one(r, central, &held, away, e);
    free(held.list);
    return rc;
}

int renew_sessions(struct db *db, const struct config *cfg, const char *session,
                   const char *progress, struct renewed *out, struct err *e)
{
    struct renew r = {.db = db,
                      .session = session,
                      .progress = progress,
                      .lock_id = cfg->progress.lock_id,
                      .out = out};
    int rc = local_sessions_in(db, session, &r.list, e);
    *out = (struct renewed){.asked = rc == 0 && r.list.count > 0};
    for (unsigned i = 0; i < TRIES && rc == 0 && r.next < r.list.count; i++) {
        struct write_back w;
        write_back_open(&w, cfg, "");
        if (write_back_central(&w, &out->away) == 0)
            rc = renew_all(&r, w.central, &out->away, e);
        write_back_close(&w);
    }
    while (rc == 0 && r.next < r.list.count)
        rc = close_session(&r, &r.list.list[r.next++], e);
    free(r.list.list);
    return rc < 0 ? err_step(e, "taking the locks of open sessions anew") : 0;
}
