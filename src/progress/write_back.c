#include "progress/write_back.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fence.h"
#include "base/file.h"
#include "mysql/answer.h"
#include "mysql/galera.h"
#include "mysql/packet_limit.h"

/* Limits of one read from the local store, so that a MEMORY table is locked only for a moment. */
#define READ_ROWS 64u
#define READ_BYTES (2u << 20)
#define BLOB_MAX ((size_t)ANSWER_BYTES - (1u << 20)) /* with the rest of its row */
#define RELEASES 50u /* locks per round trip, each with its own commit: at most 20 kB of SQL */

void write_back_open(struct write_back *w, const struct config *cfg, const char *known)
{
    *w = (struct write_back){.cfg = cfg};
    snprintf(w->known, sizeof w->known, "%s", known);
}

void write_back_close(struct write_back *w)
{
    db_close(w->world);
    db_close(w->central);
    w->world = w->central = NULL;
    local_keys_free(&w->left);
    buf_free(&w->password);
}

int write_back_central(struct write_back *w, struct err *e)
{
    const char *file = w->cfg->progress.server.password_file;
    if (w->central)
        return 0;
    if (file && !w->password.p && file_read_secret(file, &w->password, e) < 0)
        return -1;
    w->central = central_open(&w->cfg->progress, w->password.p, e);
    if (w->central && central_store(w->central, w->store, e) == 0)
        return 0;
    db_close(w->central);
    w->central = NULL;
    err_step(e, "the central store of [progress]");
    return -1;
}

/* The world's state names the store only once a run has reported it. A run that was ended before,
 * or a state that was lost, leaves it in the sessions. */
static int write_back_know(struct write_back *w, struct err *e)
{
    return w->known[0] || !w->remembers ? 0 : local_known_store(w->world, w->known, e);
}

/* Sets strict mode, so that blobs that are set aside are never cut. On a Galera cluster, rows of
 * MEMORY tables belong to one node. */
int write_back_world(struct write_back *w, const struct db_params *p, struct err *e)
{
    struct db_params params = *p;
    if (w->world)
        return 0;
    params.schema = w->cfg->schema;
    w->world = db_open(&params, e);
    if (w->world && (w->cfg->progress.innodb || galera_own_node(w->world, e) == 0) &&
        db_exec(w->world, "SET SESSION sql_mode='STRICT_ALL_TABLES'", e) == 0 &&
        local_exists(w->world, w->cfg->schema, &w->remembers, e) == 0 && write_back_know(w, e) == 0)
        return 0;
    db_close(w->world);
    w->world = NULL;
    return -1;
}

/* Checks that this machine still has the world. Another machine may have it by now, with the
 * same sessions: then this process must not overwrite the saves of that machine's players, nor
 * release their locks. The check is made right before each write, because this process may have
 * slept. Each process makes it itself, because the supervisor may be the one that is stopped. */
static int write_back_may_write(struct write_back *w, struct err *e)
{
    w->fenced = fence_check("write-back", e) < 0;
    return w->fenced ? -1 : 0;
}

/* Checks between two statements whether the run must end. Returns -1 with the reason if so. */
static int may_go_on(struct write_back *w, struct err *e)
{
    if (write_back_may_write(w, e) < 0)
        return -1;
    return w->stop && w->stop(w->stop_arg)
               ? err_set(e, ERR_ABORTED, 0, "the write-back was stopped")
               : 0;
}

static void write_back_name_first(struct write_back *w, const struct local_blob *b)
{
    struct buf shown = {0};
    size_t have = strlen(w->done.first);
    text_clean_bytes(&shown, b->key.bytes, b->key.len, 32);
    if (have + shown.len + 3 < sizeof w->done.first)
        snprintf(w->done.first + have, sizeof w->done.first - have, "%s%s", have ? ", " : "",
                 shown.p);
    buf_free(&shown);
}

/* ---- sending ---- */

/* The bytes of a blob are freed once they are in the statement, because its answer needs only
 * the names. So memory holds one statement, one piece of the local store, and the names of the
 * blobs that are on their way. */
struct flight {
    struct local_blobs blobs; /* read from the local store */
    struct central_batch batch;
    size_t next;  /* first blob that is not in the batch */
    size_t taken; /* blobs put into batches; only they count for max_rate */
    struct sent {
        struct local_blobs blobs;
        size_t answer;
    } sent[DB_AHEAD]; /* oldest first; db_unread() entries */
    size_t answers;   /* maximum total size in bytes */
};

/* Returns true if another central store has taken blobs of the session or, with `or_world` and
 * if the session has no store, of the world. */
static bool is_of_another(const struct write_back *w, const char *store, bool or_world)
{
    const char *of = store[0] || !or_world ? store : w->known;
    return of[0] && strcmp(of, w->store) != 0;
}

/* Reports that the blobs of this lock wait: only this store refuses them, and they may be sent
 * once the config names the right one. */
static void other_store(struct write_back *w, const struct local_key *lock_key, uint64_t lock_seq,
                        bool unknown)
{
    const struct config_progress *cfg = &w->cfg->progress;
    SCOPED(buf_free) struct buf lock = {0};
    text_clean_bytes(&lock, lock_key->bytes, lock_key->len, 32);
    if (unknown)
        err_set(&w->done.skipped, ERR_QUERY, 0,
                "schema %s has no record of lock %s with number %" PRIu64
                " for %s: it is not the central store in which the lock was taken, or it was "
                "restored to an earlier time",
                cfg->schema, lock.p, lock_seq, cfg->lock_id);
    else
        err_set(&w->done.skipped, ERR_QUERY, 0,
                "schema %s is not the central store that stored this world's blobs before: blobs "
                "of lock %s wait",
                cfg->schema, lock.p);
    err_hint(&w->done.skipped,
             "in %s, set [progress] to the store through which players log in, then systemctl "
             "reload worldkeeper@%s sends all waiting blobs; if the store was restored: "
             "worldkeeper-progress(7), \"The central store was restored to an earlier moment\"",
             w->cfg->path, w->cfg->name);
}

static int write_back_set_aside(struct write_back *w, const struct local_blob *b,
                                const struct central_answer *a, struct err *e)
{
    write_back_name_first(w, b);
    *(a->outcome == CENTRAL_STOLEN ? &w->done.stolen : &w->done.stale) += 1;
    bool goes_on = a->outcome == CENTRAL_STALE && a->seq >= b->seq;
    int rc = local_set_aside(w->world, b, central_outcome_name(a->outcome), a->seq, goes_on, e);
    if (rc == 0 || e->num != DB_TABLE_FULL)
        return rc;
    w->done.skipped = *e; /* the blob stays here; all others continue */
    err_clear(e);
    return 0;
}

/* Processes the answers of the central store, blob by blob. */
static int write_back_settle(struct write_back *w, const struct local_blob *list, size_t count,
                             const struct central_answer *answers, struct err *e)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the array holds pointers */
    const struct local_blob **sent = xcalloc(count, sizeof *sent);
    size_t n = 0, first = 0; /* sent[0] to sent[first - 1]: the first of their session */
    for (size_t i = 0; i < count; i++)
        if (answers[i].outcome == CENTRAL_SENT)
            sent[n++] = &list[i];
    w->done.sent += n;
    if (n)
        memcpy(w->known, w->store, sizeof w->known);
    int rc = local_mark(w->world, sent, n, e);
    for (size_t i = 0; i < n; i++)
        if (!sent[i]->store[0])
            sent[first++] = sent[i];
    if (rc == 0 && w->remembers && w->store[0])
        rc = local_remember(w->world, w->store, sent, first, e);
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct local_blob *b = &list[i];
        enum central_outcome o = answers[i].outcome;
        bool unknown = o == CENTRAL_UNKNOWN_LOCK;
        if (unknown || (o == CENTRAL_STOLEN && is_of_another(w, b->store, true)))
            other_store(w, &b->lock_key, b->lock_seq, unknown);
        else if (o != CENTRAL_SENT)
            rc = write_back_set_aside(w, b, &answers[i], e);
    }
    free(sent);
    return rc;
}

/* Settles batches in the order in which they were sent, which is the order of the answers. */
static int settle_oldest(struct write_back *w, struct flight *f, struct err *e)
{
    struct sent oldest = f->sent[0];
    size_t count = oldest.blobs.count;
    struct central_answer *answers = xcalloc(count, sizeof *answers);
    int rc = central_answers(w->central, oldest.blobs.list, count, answers, e);
    fault_point("progress.sent");
    w->central_failed = rc < 0;
    memmove(f->sent, f->sent + 1, db_unread(w->central) * sizeof *f->sent);
    f->answers -= oldest.answer;
    if (rc == 0)
        rc = write_back_settle(w, oldest.blobs.list, count, answers, e);
    free(answers);
    local_blobs_free(&oldest.blobs);
    return rc;
}

/* Sends the batch while earlier ones are on their way or being judged. The number of unread
 * answers is limited (db_send()). */
static int send_batch(struct write_back *w, struct flight *f, struct err *e)
{
    struct local_blobs *b = &f->blobs;
    if (f->batch.count == 0)
        return 0;
    while (db_unread(w->central) == DB_AHEAD || f->answers > DB_AHEAD_ANSWERS)
        if (settle_oldest(w, f, e) < 0)
            return -1;
    fault_point("progress.read");
    if (write_back_may_write(w, e) < 0)
        return -1;
    if (central_send(w->central, w->cfg->progress.lock_id, &f->batch, e) < 0) {
        w->central_failed = true;
        return -1;
    }
    fault_point("progress.ahead");
    struct sent *s = &f->sent[db_unread(w->central) - 1];
    *s = (struct sent){.answer = f->batch.answer};
    s->blobs.list = xcalloc(f->next, sizeof *b->list);
    s->blobs.count = f->next;
    memcpy(s->blobs.list, b->list, f->next * sizeof *b->list);
    f->answers += s->answer;
    memmove(b->list, b->list + f->next, (b->count - f->next) * sizeof *b->list);
    b->count -= f->next;
    f->next = 0;
    central_batch_clear(&f->batch);
    return 0;
}

/* Drops the blob at `next`, which is not sent in any batch. */
static void write_back_skip(struct flight *f)
{
    free(f->blobs.list[f->next].data);
    memmove(f->blobs.list + f->next, f->blobs.list + f->next + 1,
            (f->blobs.count - f->next - 1) * sizeof *f->blobs.list);
    f->blobs.count--;
}

static void write_back_no_session(const struct local_blob *b, struct err *e)
{
    struct buf shown = {0};
    text_clean_bytes(&shown, b->key.bytes, b->key.len, 32);
    err_set(e, ERR_QUERY, 0,
            "blob %s of wk_progress belongs to no session: its lock number is unknown", shown.p);
    err_hint(
        e,
        "add a row for its lock to wk_session, or DELETE it: SELECT blob_key, lock_key, seq FROM "
        "wk_progress WHERE lock_seq IS NULL AND lock_key NOT IN (SELECT lock_key FROM "
        "wk_session)");
    buf_free(&shown);
}

/* Sends batches as they fill up, and frees their blobs' bytes. With `last`, also sends the rest
 * and settles all batches. */
static int write_back_fill(struct write_back *w, struct flight *f, bool last, struct err *e)
{
    int rc = 0;
    while (f->next < f->blobs.count && rc == 0) {
        struct local_blob *b = &f->blobs.list[f->next];
        if (b->lock_seq == 0) { /* no session has its lock's number */
            write_back_no_session(b, &w->done.skipped);
            write_back_skip(f);
        } else if (is_of_another(w, b->store, false)) {
            other_store(w, &b->lock_key, b->lock_seq, false);
            write_back_skip(f);
        } else if (central_batch_add(&f->batch, b)) {
            free(b->data);
            b->data = NULL;
            f->next++;
            f->taken++;
        } else if (f->batch.count == 0) {
            db_packet_too_long(&w->done.skipped, "a blob", "wk_progress", f->batch.refused,
                               f->batch.most);
            write_back_skip(f);
        } else {
            rc = send_batch(w, f, e);
        }
    }
    if (last && rc == 0)
        rc = send_batch(w, f, e);
    while (last && rc == 0 && db_unread(w->central))
        rc = settle_oldest(w, f, e);
    return rc;
}

/* Ends all transfers. After an error, batches may still be on their way; their outcome does not
 * matter, because any run may send the blobs again and is answered `same`, `stale` or `stolen`.
 * Their answers must be read, because they would be taken for answers to later statements. A
 * failed connection is not waited for; the caller closes it. */
static void write_back_let_go(struct write_back *w, struct flight *f)
{
    for (size_t i = 0; i < db_unread(w->central); i++)
        local_blobs_free(&f->sent[i].blobs);
    if (!w->central_failed)
        db_receive_none(w->central);
    local_blobs_free(&f->blobs);
    central_batch_free(&f->batch);
}

/* Returns the number of keys to read at once. */
static size_t write_back_piece(const struct local_keys *k, size_t at)
{
    size_t n = 0, bytes = 0;
    while (at + n < k->count && n < READ_ROWS &&
           (n == 0 || bytes + k->list[at + n].len <= READ_BYTES))
        bytes += k->list[at + n++].len;
    return n;
}

int64_t write_back_pause(size_t count, unsigned rate, int64_t elapsed_ms)
{
    int64_t due = rate ? (int64_t)(count * 1000 / rate) - elapsed_ms : 0;
    return due < 0 ? 0 : due;
}

/* Keeps to [progress] max_rate. The pauses are short, so that a stop of the supervisor does not
 * wait for them. */
static void write_back_pace(struct write_back *w, mono_t began, size_t count)
{
    int64_t due;
    struct err ended = {0}; /* the caller checks again */
    while ((due = write_back_pause(count, w->cfg->progress.max_rate,
                                   mono_since(clock_mono(), began))) > 0 &&
           may_go_on(w, &ended) == 0)
        usleep((useconds_t)(due < 100 ? due : 100) * 1000);
}

/* With max_rate, a batch has at most as many blobs as may be sent in a second, and is settled
 * before the pause. */
static int write_back_send_all(struct write_back *w, const struct local_keys *keys, size_t *at,
                               struct err *e)
{
    struct flight f = {0};
    unsigned rate = w->cfg->progress.max_rate;
    mono_t began = clock_mono();
    int rc = 0;
    central_batch_open(&f.batch, db_packet(w->central));
    size_t i = *at;
    for (size_t n; i < keys->count && rc == 0; i += n) {
        n = write_back_piece(keys, i);
        if (rate && n > rate)
            n = rate;
        if (may_go_on(w, e) < 0) {
            /* Batches that were sent are answered soon, and only this run would set refused
             * blobs aside. */
            struct err late = {0};
            while (rc == 0 && db_unread(w->central))
                rc = settle_oldest(w, &f, &late);
            if (rc < 0)
                *e = late;
            rc = -1;
            break;
        }
        if (i > *at && w->until.ms && mono_reached(clock_mono(), w->until)) {
            rc = write_back_fill(w, &f, true, e);
            break;
        }
        rc = local_read(w->world, w->remembers, keys->list + i, n, &f.blobs, e);
        if (rc == 0)
            rc = write_back_fill(w, &f, i + n == keys->count || (rate && f.batch.count + n > rate),
                                 e);
        write_back_pace(w, began, f.taken);
    }
    *at = i;
    write_back_let_go(w, &f);
    return rc;
}

/* ---- sessions ---- */

/* Releases sessions whose blobs were all sent. A blob that could not be sent keeps only its own
 * session open. A closing session gets no new blobs. The sessions to release are moved to the
 * front of the list. */
static int end_batch(struct write_back *w, struct local_session *list, size_t count, struct err *e)
{
    bool unsent[RELEASES];
    size_t n = 0, released = 0;
    if (local_sessions_unsent(w->world, list, count, unsent, e) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (!unsent[i])
            list[n++] = list[i];
    fault_point("progress.unsent");
    if (write_back_may_write(w, e) < 0)
        return -1;
    int rc =
        n ? central_release_all(w->central, w->cfg->progress.lock_id, list, n, &released, e) : 0;
    w->done.released += released;
    w->central_failed |= rc < 0;
    fault_point("progress.released");
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = local_forget(w->world, &list[i], e);
    return rc;
}

/* Ends the sessions that were closing before their blobs were searched. Sessions of another
 * store are skipped, because this store does not have their locks. */
static int end_sessions(struct write_back *w, struct local_sessions *closing, struct err *e)
{
    int rc = 0;
    size_t ours = 0;
    for (size_t i = 0; i < closing->count; i++)
        if (is_of_another(w, closing->list[i].store, false))
            other_store(w, &closing->list[i].lock_key, closing->list[i].lock_seq, false);
        else
            closing->list[ours++] = closing->list[i];
    closing->count = ours;
    for (size_t i = 0; i < closing->count && rc == 0; i += RELEASES) {
        size_t left = closing->count - i;
        rc = may_go_on(w, e) < 0
                 ? -1
                 : end_batch(w, closing->list + i, left < RELEASES ? left : RELEASES, e);
    }
    return rc;
}

/* Releases held locks, except those with a session or with a blob that could not be sent. */
static int unlock_batch(struct write_back *w, struct local_session *list, size_t count,
                        struct err *e)
{
    bool keeps[RELEASES];
    size_t n = 0, released = 0;
    if (local_sessions_unsent(w->world, list, count, keeps, e) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        uint64_t session;
        if (local_session(w->world, &list[i].lock_key, &session, e) < 0)
            return -1;
        if (!keeps[i] && !session)
            list[n++] = list[i];
    }
    if (write_back_may_write(w, e) < 0)
        return -1;
    int rc =
        n ? central_release_all(w->central, w->cfg->progress.lock_id, list, n, &released, e) : 0;
    w->done.released += released;
    return rc;
}

int write_back_unlock(struct write_back *w, struct err *e)
{
    struct local_sessions held;
    int rc = central_held(w->central, w->cfg->progress.lock_id, &held, e);
    for (size_t i = 0; i < held.count && rc == 0; i += RELEASES) {
        size_t left = held.count - i;
        rc = unlock_batch(w, held.list + i, left < RELEASES ? left : RELEASES, e);
    }
    free(held.list);
    return rc;
}

/* Leaves out the blobs that no answer of the server may hold: reading one would end the connection,
 * and no blob would be sent. Their sessions stay. */
static void leave_out_large(struct write_back *w, struct local_keys *keys)
{
    size_t n = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const struct local_unsent *u = &keys->list[i];
        SCOPED(buf_free) struct buf shown = {0};
        if (u->len <= BLOB_MAX) {
            keys->list[n++] = *u;
            continue;
        }
        text_clean_bytes(&shown, u->key.bytes, u->key.len, 32);
        err_set(&w->done.skipped, ERR_QUERY, 0,
                "blob %s of wk_progress has %zu bytes; allowed: up to %zu", shown.p, u->len,
                BLOB_MAX);
        err_hint(&w->done.skipped, "save a shorter one, or DELETE it from wk_progress");
    }
    keys->count = n;
}

static int progress_write_back_run(struct write_back *w, enum write_back_scope scope, struct err *e)
{
    struct local_sessions closing;
    struct local_keys of_closing = {0}, *keys = scope == WRITE_BACK_ALL ? &w->left : &of_closing;
    size_t first = 0, *at = scope == WRITE_BACK_ALL ? &w->left_at : &first;
    if (local_closing(w->world, w->remembers, &closing, e) < 0)
        return -1;
    int rc = 0;
    if (!keys->count && (scope == WRITE_BACK_ALL || closing.count)) {
        *at = 0;
        rc = local_unsent(w->world, scope == WRITE_BACK_CLOSING, keys, e);
        if (rc == 0)
            leave_out_large(w, keys);
    }
    if (rc == 0 && keys->count)
        rc = write_back_send_all(w, keys, at, e);
    if (rc == 0)
        rc = end_sessions(w, &closing, e);
    if (rc < 0 || scope != WRITE_BACK_ALL || *at >= keys->count)
        local_keys_free(keys);
    free(closing.list);
    return rc;
}

int write_back_run(struct write_back *w, enum write_back_scope scope, unsigned wait, struct err *e)
{
    w->done = (struct write_back_done){0};
    w->central_failed = w->fenced = false;
    if (local_lock(w->world, w->cfg->schema, (int64_t)wait * 1000, e) < 0)
        return -1;
    int rc = progress_write_back_run(w, scope, e);
    w->fenced |= rc < 0 && !fence_open(); /* a statement of the local store was refused */
    /* After other failures the caller closes the connection, which holds the lock. */
    if (rc == 0 || db_lock_busy(e))
        local_unlock(w->world, w->cfg->schema);
    return rc;
}
