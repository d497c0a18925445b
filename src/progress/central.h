/* The central store of players' progress, through the routines of central.sql. Every call can be repeated
 * after a lost answer: what was done already is answered as `same`, `free` or `not-ours`. Errors as in
 * mysql/conn.h. */
#ifndef WK_PROGRESS_CENTRAL_H
#define WK_PROGRESS_CENTRAL_H

#include <jansson.h>

#include "config/config.h"
#include "progress/local.h"

/* What is known of the central store. */
enum central_state { CENTRAL_UNKNOWN, CENTRAL_OK, CENTRAL_AWAY, CENTRAL_REFUSED };
/* After a call that failed. A conflict with another session is no refusal: the call is repeated. */
enum central_state central_state_after(const struct err *e);
/* Is it to be told now? One that may pass by itself not before it has lasted for `grace` ms: `since` is when it
 * began, kept by the caller; ms 0: there is none. */
bool central_lasts(const struct err *e, mono_t *since, mono_t now, int64_t grace);

/* A connection whose default schema is the central store's. */
struct db *central_open(const struct config_progress *cfg, const char *password, struct err *e);

/* Saves that go there in one statement. */
struct central_batch {
    struct buf sql;
    size_t count, room; /* bytes that it should have */
    size_t most;        /* … and may have */
    size_t refused;     /* of the last one that did not fit */
    size_t answer;      /* bytes at most, if all are refused; never more than DB_AHEAD_ANSWERS */
};
/* `limit`: of the connection, db_packet(). */
void central_batch_open(struct central_batch *b, uint64_t limit);
void central_batch_clear(struct central_batch *b);
void central_batch_free(struct central_batch *b);
/* False: it does not fit any more. One that does not fit into an empty batch fits into none. */
bool central_batch_add(struct central_batch *b, const struct local_blob *blob);

/* Sent: it is there, by this call or an earlier one. Unknown: the store has never given out that number of the lock, so
 * that it is another store than the one in which the lock was taken, or an earlier state of it. */
enum central_outcome { CENTRAL_SENT, CENTRAL_STALE, CENTRAL_STOLEN, CENTRAL_UNKNOWN_LOCK };
const char *central_outcome_name(enum central_outcome o);
struct central_answer {
    enum central_outcome outcome;
    uint64_t seq; /* that is there now; 0: not known */
};
/* Sends the batch, ahead of the answers to those before it (db_send()). Each of its blobs is decided as wk_save
 * does it. */
int central_send(struct db *db, const char *lock_id, struct central_batch *b, struct err *e);
/* What was decided about the `blobs` of the oldest batch that was sent; `out` has room for all. */
int central_answers(struct db *db, const struct local_blob *blobs, size_t count,
                    struct central_answer *out, struct err *e);

/* Releases a lock that may not be ours any more. */
int central_release(struct db *db, const char *lock_id, const struct local_session *s,
                    char outcome[16], struct err *e);
/* All of them in one round trip; *released: how many of them were ours, also after an error. */
int central_release_all(struct db *db, const char *lock_id, const struct local_session *list,
                        size_t count, size_t *released, struct err *e);
int central_beat(struct db *db, const char *lock_id, struct err *e);
/* Is the lock_id bound to this account? An error if it is bound to others. *anonymous: how many accounts log in there under
 * any name, 0 also if that is not known. */
int central_bound(struct db *db, const char *lock_id, bool *bound, int64_t *anonymous,
                  struct err *e);
/* Takes a lock that anybody may hold, and releases it: "released" or "busy". */
int central_release_forced(struct db *db, const char *lock_id, const struct local_key *lock_key,
                           char outcome[16], struct err *e);
/* Adds all locks that are held: lock_key, lock_seq, lock_id, held_seconds, and null where it is not so:
 * wanted_seconds, unseen_seconds. */
int central_locks(struct db *db, json_t *list, struct err *e);
/* All that this game server holds. */
int central_held(struct db *db, const char *lock_id, struct local_sessions *out, struct err *e);
/* Who holds this one; lock_id "": nobody. */
int central_holder(struct db *db, const struct local_key *key, uint64_t *lock_seq,
                   char lock_id[PROGRESS_KEY_MAX + 1], struct err *e);

#endif
