#include "progress/central.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "mysql/packet_limit.h"
#include "sql/literal.h"

#define PACKET_USED (16u << 20) /* larger statements gain nothing and lock longer */
#define NO_ROUTINE 1305
#define NO_EXECUTE 1370
#define FORCED_TRIES 5 /* attempts, if others take the lock between our two calls */

/* Allows several statements in one request, because the store may be far away. */
struct db *central_open(const struct config_progress *cfg, const char *password, struct err *e)
{
    struct db_params p = db_params_of(&cfg->server);
    p.password = password;
    p.schema = cfg->schema;
    p.several = true;
    return db_open(&p, e);
}

int central_store(struct db *db, char out[PROGRESS_STORE_MAX + 1], struct err *e)
{
    struct db_rows *r = db_select(db, "t", "CALL wk_store()", e);
    int got;
    out[0] = '\0';
    while ((got = db_next(r, e)) == 1)
        db_copy(r, 0, out, PROGRESS_STORE_MAX + 1);
    db_rows_end(r);
    if (got < 0 && (e->num == NO_ROUTINE || e->num == NO_EXECUTE)) {
        err_clear(e);
        got = 0;
    }
    return got;
}

bool central_lasts(const struct err *e, mono_t *since, mono_t now, int64_t grace)
{
    bool may_pass = db_unanswered(e) || db_lock_busy(e);
    /* A failure of another kind restarts the time: it was reported, and so is the failure that
     * follows it. */
    if (!may_pass || !since->ms)
        *since = may_pass ? now : (mono_t){0};
    return !may_pass || mono_since(now, *since) >= grace;
}

enum central_state central_state_after(const struct err *e)
{
    return db_lock_busy(e) ? CENTRAL_OK : db_unanswered(e) ? CENTRAL_AWAY : CENTRAL_REFUSED;
}

/* ---- sending ---- */

/* Sends a batch in one request: the session's table is created again, filled and judged. A
 * statement that the server does not begin has no effect. If the server executed it but its
 * answer is lost, the next run sends the blobs again and is answered `same`. */
#define SEND_HEAD                                                                                  \
    "CALL wk_send_open();INSERT INTO wk_sent (blob_key,lock_key,lock_seq,seq,`blob`) VALUES "

/* Sizes of an answer: its frame before and after the rows, and of each row everything except the
 * key: two lengths, header, outcome, number. */
#define ANSWER_FRAME 2048u
#define ANSWER_ROW (2 + 4 + 8 + 21)

void central_batch_open(struct central_batch *b, uint64_t limit)
{
    *b = (struct central_batch){.answer = ANSWER_FRAME};
    b->room = (size_t)(limit < PACKET_USED ? limit : PACKET_USED);
    b->most = db_packet_room(limit, 0, DB_PACKET_SPARE);
}

void central_batch_clear(struct central_batch *b)
{
    buf_clear(&b->sql);
    b->count = 0;
    b->answer = ANSWER_FRAME;
}

void central_batch_free(struct central_batch *b)
{
    buf_free(&b->sql);
    *b = (struct central_batch){0};
}

/* Adds a blob if it fits. The first blob of a batch may take all that the server accepts. */
bool central_batch_add(struct central_batch *b, const struct local_blob *blob)
{
    size_t before = b->sql.len, answer = ANSWER_ROW + blob->key.len;
    if (b->answer + answer > DB_AHEAD_ANSWERS)
        return false;
    buf_adds(&b->sql, b->count ? ",(" : SEND_HEAD "(");
    local_key_sql(&b->sql, &blob->key);
    buf_addc(&b->sql, ',');
    local_key_sql(&b->sql, &blob->lock_key);
    buf_printf(&b->sql, ",%" PRIu64 ",%" PRIu64 ",", blob->lock_seq, blob->seq);
    sql_string(&b->sql, blob->data, blob->len);
    buf_addc(&b->sql, ')');
    if (b->sql.len + DB_PACKET_SPARE > b->room && (b->count || b->sql.len > b->most)) {
        b->refused = b->sql.len - before;
        b->sql.len = before;
        return false;
    }
    b->count++;
    b->answer += answer;
    return true;
}

const char *central_outcome_name(enum central_outcome o)
{
    static const char *const names[] = {[CENTRAL_SENT] = "saved",
                                        [CENTRAL_STALE] = "stale",
                                        [CENTRAL_STOLEN] = "stolen",
                                        [CENTRAL_UNKNOWN_LOCK] = "unknown"};
    return names[o];
}

/* Reads one row of the answer: a blob that was refused. The store names these few blobs in its
 * own order. A row that names a blob which was not sent is an invalid answer. */
static int take_refused(struct db *db, const struct db_rows *r, const struct local_blob *blobs,
                        size_t count, struct central_answer *out, struct err *e)
{
    const char *outcome = db_text(r, 0);
    size_t i = 0, len = db_length(r, 1);
    while (i < count && !local_key_is(&blobs[i].key, db_value(r, 1), len))
        i++;
    for (enum central_outcome o = CENTRAL_STALE; i < count && o <= CENTRAL_UNKNOWN_LOCK; o++)
        if (strcmp(outcome, central_outcome_name(o)) == 0) {
            out[i] = (struct central_answer){o, db_uint(r, 2)};
            return 0;
        }
    return db_invalid(db, e, "wk_send refuses a blob that was not sent, or as '%s'", outcome);
}

int central_send(struct db *db, const char *lock_id, struct central_batch *b, struct err *e)
{
    buf_adds(&b->sql, ";CALL wk_send(");
    sql_string(&b->sql, lock_id, strlen(lock_id));
    buf_addc(&b->sql, ')');
    return db_send(db, b->sql.p, b->sql.len, e);
}

int central_answers(struct db *db, const struct local_blob *blobs, size_t count,
                    struct central_answer *out, struct err *e)
{
    /* A blob that no row names was stored. If an error follows the rows, none of these outcomes
     * is valid. */
    for (size_t i = 0; i < count; i++)
        out[i] = (struct central_answer){CENTRAL_SENT, blobs[i].seq};
    struct db_rows *r = db_receive(db, "tbU", e);
    int got;
    while ((got = db_next(r, e)) == 1)
        if (take_refused(db, r, blobs, count, out, e) < 0) {
            got = -1;
            break;
        }
    db_rows_end(r);
    return got;
}

/* ---- locks ---- */

/* Reads the only row of a call: the outcome in the first column and, if `seq` is given, *seq in
 * the second one. */
static int central_call(struct db *db, struct buf *sql, char outcome[16], uint64_t *seq,
                        struct err *e)
{
    struct db_rows *r = db_select_len(db, seq ? "tu*" : "t*", sql->p, sql->len, e);
    unsigned rows = 0;
    int got;
    while ((got = db_next(r, e)) == 1) {
        db_copy(r, 0, outcome, 16);
        if (seq)
            *seq = db_uint(r, 1);
        rows++;
    }
    db_rows_end(r);
    buf_free(sql);
    return got == 0 && rows != 1
               ? db_invalid(db, e, "the server sent %u rows instead of one result", rows)
               : got;
}

static void call_begin(struct buf *sql, const char *routine, const struct local_key *key,
                       const char *lock_id)
{
    buf_printf(sql, "CALL %s(", routine);
    if (key) {
        local_key_sql(sql, key);
        buf_addc(sql, ',');
    }
    sql_string(sql, lock_id, strlen(lock_id));
}

static void call_release(struct buf *sql, const char *lock_id, const struct local_session *s)
{
    call_begin(sql, "wk_release", &s->lock_key, lock_id);
    buf_printf(sql, ",%" PRIu64 ")", s->lock_seq);
}

int central_release_all(struct db *db, const char *lock_id, const struct local_session *list,
                        size_t count, size_t *released, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    size_t answers = 0;
    int got;
    *released = 0;
    for (size_t i = 0; i < count; i++) {
        buf_adds(&sql, i ? ";" : "");
        call_release(&sql, lock_id, &list[i]);
    }
    struct db_rows *r = db_select_answers(db, "t", sql.p, sql.len, e);
    while ((got = db_next(r, e)) == 1) {
        *released += strcmp(db_text(r, 0), "released") == 0;
        answers++;
    }
    db_rows_end(r);
    /* If an outcome is missing, locks could be taken for released. */
    if (got == 0 && answers != count)
        return db_invalid(db, e, "%zu results of %zu calls", answers, count);
    return got;
}

int central_release(struct db *db, const char *lock_id, const struct local_session *s,
                    char outcome[16], struct err *e)
{
    struct buf sql = {0};
    call_release(&sql, lock_id, s);
    return central_call(db, &sql, outcome, NULL, e);
}

int central_beat(struct db *db, const char *lock_id, struct err *e)
{
    struct buf sql = {0};
    char outcome[16];
    call_begin(&sql, "wk_beat", NULL, lock_id);
    buf_addc(&sql, ')');
    return central_call(db, &sql, outcome, NULL, e);
}

int central_bound(struct db *db, const char *lock_id, bool *bound, int64_t *anonymous,
                  struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    int got;
    call_begin(&sql, "wk_bound", NULL, lock_id);
    buf_addc(&sql, ')');
    struct db_rows *r = db_select_len(db, "tI", sql.p, sql.len, e);
    while ((got = db_next(r, e)) == 1) {
        *bound = strcmp(db_text(r, 0), "bound") == 0;
        *anonymous = db_value(r, 1) ? db_int(r, 1) : 0;
    }
    db_rows_end(r);
    return got;
}

int central_accepts(struct db *db, const char *lock_id, struct err *e)
{
    bool bound;
    int64_t anonymous;
    int rc = central_bound(db, lock_id, &bound, &anonymous, e);
    if (rc == 0 || e->num != NO_ROUTINE)
        return rc;
    err_clear(e);
    return 0;
}

static int progress_central_acquire(struct db *db, const char *lock_id,
                                    const struct local_key *lock_key, const char *takeover,
                                    char outcome[16], uint64_t *lock_seq, struct err *e)
{
    struct buf sql = {0};
    call_begin(&sql, "wk_acquire", lock_key, lock_id);
    buf_printf(&sql, ",%s)", takeover);
    return central_call(db, &sql, outcome, lock_seq, e);
}

int central_acquire_all(struct db *db, const char *lock_id, struct local_session *list,
                        size_t count, char (*outcomes)[16], struct progress *p, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    size_t answers = 0;
    int got;
    for (size_t i = 0; i < count; i++) {
        buf_adds(&sql, i ? ";" : "");
        call_begin(&sql, "wk_acquire", &list[i].lock_key, lock_id);
        buf_adds(&sql, ",NULL)");
    }
    struct db_rows *r = db_select_answers(db, "tu*", sql.p, sql.len, e);
    while ((got = db_next(r, e)) == 1 && answers < count) {
        db_copy(r, 0, outcomes[answers], sizeof outcomes[answers]);
        list[answers++].lock_seq = db_uint(r, 1);
        progress_at(p, 0, 0);
    }
    db_rows_end(r);
    return got == 0 && answers == count ? 0
           : got < 0                    ? -1
                     : db_invalid(db, e, "%zu outcomes of %zu calls", answers, count);
}

void central_saves_free(struct central_saves *s)
{
    free(s->list);
    *s = (struct central_saves){0};
}

static int take_save(const struct db_rows *r, struct central_saves *out, struct err *e)
{
    out->stolen |= strcmp(db_text(r, 0), "stolen") == 0;
    if (strcmp(db_text(r, 0), "loaded") != 0)
        return 0;
    out->list = xgrow(out->list, out->count, sizeof *out->list);
    struct central_save *save = &out->list[out->count];
    if (local_take_key(r, 1, &save->key, e) < 0)
        return -1;
    save->seq = db_uint(r, 2);
    out->count++;
    return 0;
}

/* Rows of wk_load do not name their lock, so a row of our own ends each call's rows. */
#define STAMP_END "next"

int central_stamp_all(struct db *db, const char *lock_id, const struct local_session *list,
                      size_t count, struct central_saves *out, struct progress *p, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    size_t at = 0;
    int got;
    for (size_t i = 0; i < count; i++) {
        buf_adds(&sql, i ? ";" : "");
        call_begin(&sql, "wk_load", &list[i].lock_key, lock_id);
        buf_printf(&sql, ",%" PRIu64 ");SELECT '" STAMP_END "',NULL,CAST(NULL AS UNSIGNED),NULL",
                   list[i].lock_seq);
    }
    struct db_rows *r = db_select_answers(db, "tBU*", sql.p, sql.len, e);
    while ((got = db_next(r, e)) == 1 && at < count) {
        progress_at(p, 0, 0);
        if (strcmp(db_text(r, 0), STAMP_END) == 0)
            at++;
        else if ((got = take_save(r, &out[at], e)) < 0)
            break;
    }
    db_rows_end(r);
    return got == 0 && at == count ? 0
           : got < 0               ? -1
                                   : db_invalid(db, e, "%zu answers of %zu calls", at, count);
}

/* The first call may be answered `busy`, if it is the first one that wants the lock. At the next
 * call the lock has been wanted for at least 0 ms. */
int central_release_forced(struct db *db, const char *lock_id, const struct local_key *lock_key,
                           char outcome[16], struct err *e)
{
    struct local_session s = {.lock_key = *lock_key};
    for (unsigned i = 0; i < FORCED_TRIES; i++) {
        if (progress_central_acquire(db, lock_id, lock_key, "0", outcome, &s.lock_seq, e) < 0)
            return -1;
        /* The lock is ours now, under a new number: its former holder is fenced off before the
         * lock is released. */
        if (strcmp(outcome, "busy") != 0)
            return central_release(db, lock_id, &s, outcome, e);
    }
    return 0;
}

static json_t *central_seconds(const struct db_rows *r, unsigned i)
{
    return db_value(r, i) ? json_integer(db_int(r, i) / 1000) : json_null();
}

/* Keys are arbitrary bytes; they are escaped for display. */
static void central_set_key(json_t *o, const char *name, const struct db_rows *r, unsigned i)
{
    SCOPED(buf_free) struct buf shown = {0};
    text_clean_bytes(&shown, db_value(r, i), db_length(r, i), PROGRESS_KEY_MAX);
    json_object_set_new(o, name, json_string(shown.p));
}

static json_t *lock_json(const struct db_rows *r)
{
    json_t *o = json_object();
    central_set_key(o, "lock_key", r, 0);
    json_object_set_new(o, "lock_seq", json_integer((json_int_t)db_uint(r, 1)));
    central_set_key(o, "lock_id", r, 2);
    json_object_set_new(o, "held_seconds", central_seconds(r, 3));
    json_object_set_new(o, "wanted_seconds", central_seconds(r, 4));
    json_object_set_new(o, "unseen_seconds", central_seconds(r, 5));
    return o;
}

int central_locks(struct db *db, json_t *list, struct err *e)
{
    struct db_rows *r = db_select(db, "bubIII", "CALL wk_locks()", e);
    int got;
    while ((got = db_next(r, e)) == 1)
        json_array_append_new(list, lock_json(r));
    db_rows_end(r);
    return got;
}

/* Reads all locks and filters them here, because an account that may only call routines cannot
 * query single ones. */
int central_held(struct db *db, const char *lock_id, struct local_sessions *out, struct err *e)
{
    return local_take_sessions(db_select(db, "bubIII", "CALL wk_locks()", e), lock_id, out, e);
}

int central_holder(struct db *db, const struct local_key *key, uint64_t *lock_seq,
                   char lock_id[PROGRESS_KEY_MAX + 1], struct err *e)
{
    struct db_rows *r = db_select(db, "bubIII", "CALL wk_locks()", e);
    int got;
    *lock_seq = 0;
    lock_id[0] = '\0';
    while ((got = db_next(r, e)) == 1)
        if (local_key_is(key, db_value(r, 0), db_length(r, 0))) {
            *lock_seq = db_uint(r, 1);
            db_copy(r, 2, lock_id, PROGRESS_KEY_MAX + 1);
        }
    db_rows_end(r);
    return got;
}
