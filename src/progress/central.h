/* Calls the central store of players' progress, through the routines of central.sql. Every call can
 * be repeated after a lost answer: what was already done is answered as `same`, `free` or
 * `not-ours`. Errors as in mysql/conn.h. */
#ifndef WK_PROGRESS_CENTRAL_H
#define WK_PROGRESS_CENTRAL_H

#include <jansson.h>

#include "base/progress.h"
#include "config/config.h"
#include "progress/local.h"

/* State of the central store. */
enum central_state { CENTRAL_UNKNOWN, CENTRAL_OK, CENTRAL_AWAY, CENTRAL_REFUSED };
/* Returns the state after a failed call. A conflict with another session is not a refusal: the call
 * is repeated. */
enum central_state central_state_after(const struct err *e);
/* Returns true if the error must be reported now. A possibly temporary error must have lasted for
 * `grace` ms: `since` is when it began, kept by the caller; ms 0: there is none. */
bool central_lasts(const struct err *e, mono_t *since, mono_t now, int64_t grace);

/* Opens a connection whose default schema is the central store's. */
struct db *central_open(const struct config_progress *cfg, const char *password, struct err *e);
/* Reads the name that tells this store from every other one; "": its schema is of a version without
 * names. */
int central_store(struct db *db, char out[PROGRESS_STORE_MAX + 1], struct err *e);

/* Saves that are sent in one statement. */
struct central_batch {
    struct buf sql;
    size_t count, room; /* number of blobs; preferred size in bytes */
    size_t most;        /* maximum size in bytes */
    size_t refused;     /* size of the last blob that did not fit */
    size_t answer; /* maximum bytes of the answer if all are refused; at most DB_AHEAD_ANSWERS */
};
/* `limit`: of the connection, db_packet(). */
void central_batch_open(struct central_batch *b, uint64_t limit);
void central_batch_clear(struct central_batch *b);
void central_batch_free(struct central_batch *b);
/* Adds a blob. Returns false if it does not fit. A blob that does not fit into an empty batch fits
 * into none. */
bool central_batch_add(struct central_batch *b, const struct local_blob *blob);

/* Outcome of a save. Sent: the blob is there, by this call or an earlier one. Unknown: the store
 * has never given out that number of the lock to this game server, so it is another store than
 * the one in which the lock was taken, or an earlier state of it. */
enum central_outcome { CENTRAL_SENT, CENTRAL_STALE, CENTRAL_STOLEN, CENTRAL_UNKNOWN_LOCK };
const char *central_outcome_name(enum central_outcome o);
struct central_answer {
    enum central_outcome outcome;
    uint64_t seq; /* number of the blob that is there now; 0: not known */
};
/* Sends the batch before the earlier ones are answered (db_send()). Each of its blobs is decided as
 * in wk_save. */
int central_send(struct db *db, const char *lock_id, struct central_batch *b, struct err *e);
/* Reads the outcomes for the `blobs` of the oldest batch that was sent; `out` has room for all. */
int central_answers(struct db *db, const struct local_blob *blobs, size_t count,
                    struct central_answer *out, struct err *e);

/* Releases a lock that may no longer be ours. */
int central_release(struct db *db, const char *lock_id, const struct local_session *s,
                    char outcome[16], struct err *e);
/* Releases all of them in one round trip. *released: how many of them were ours, also after an
 * error. */
int central_release_all(struct db *db, const char *lock_id, const struct local_session *list,
                        size_t count, size_t *released, struct err *e);
int central_beat(struct db *db, const char *lock_id, struct err *e);
/* Checks that the store answers and does not refuse this lock_id to this account. A store of a
 * version without wk_bound refuses none. */
int central_accepts(struct db *db, const char *lock_id, struct err *e);
/* Returns whether the lock_id is bound to this account; an error if it is bound to others.
 * *anonymous: number of accounts that accept any user name, 0 also if that is not known. */
int central_bound(struct db *db, const char *lock_id, bool *bound, int64_t *anonymous,
                  struct err *e);
/* Acquires the locks of all these sessions in one round trip, except those that another game server
 * holds. outcomes[i]: "locked", "mine" or "busy"; the session gets the lock's current number. Each
 * answer is progress. */
int central_acquire_all(struct db *db, const char *lock_id, struct local_session *list,
                        size_t count, char (*outcomes)[16], struct progress *p, struct err *e);
/* The blobs of a lock, without their bytes. */
struct central_saves {
    struct central_save {
        struct local_key key;
        uint64_t seq;
    } * list;
    size_t count;
    bool stolen; /* the lock has another number */
};
void central_saves_free(struct central_saves *s);
/* Loads the blobs of the locks of all these sessions in one round trip, into out[i]. After that
 * only saves under these numbers are accepted. Each answer is progress. */
int central_stamp_all(struct db *db, const char *lock_id, const struct local_session *list,
                      size_t count, struct central_saves *out, struct progress *p, struct err *e);
/* Releases a lock whoever holds it: "released" or "busy". */
int central_release_forced(struct db *db, const char *lock_id, const struct local_key *lock_key,
                           char outcome[16], struct err *e);
/* Adds all held locks: lock_key, lock_seq, lock_id, held_seconds, and wanted_seconds and
 * unseen_seconds, which are null if they do not apply. */
int central_locks(struct db *db, json_t *list, struct err *e);
/* Lists all locks that this game server holds. */
int central_held(struct db *db, const char *lock_id, struct local_sessions *out, struct err *e);
/* Returns the holder of this lock; lock_id "": it is free. */
int central_holder(struct db *db, const struct local_key *key, uint64_t *lock_seq,
                   char lock_id[PROGRESS_KEY_MAX + 1], struct err *e);

#endif
