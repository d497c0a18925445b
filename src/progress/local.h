/* The local store of players' progress: tables wk_session, wk_progress and wk_stolen in the world's
 * schema, and the routines wk_put and wk_close.
 *
 * A blob is unsent while its seq is larger than its sent_seq. A blob read here is marked or moved
 * by (blob_key, seq, changed_at): a save made since then has another seq, and a restored older
 * world another time, so neither is mistaken for the blob that was sent.
 *
 * All functions work on a connection whose default schema is the world's. Errors as in
 * mysql/conn.h. */
#ifndef WK_PROGRESS_LOCAL_H
#define WK_PROGRESS_LOCAL_H

#include "base/text.h"
#include "mysql/conn.h"

#define PROGRESS_KEY_MAX 64
#define PROGRESS_STORE_MAX 32 /* bytes of the name of a central store */
/* Bytes that a row of a MEMORY table can hold beside the other columns, of 65,535 in all. */
#define PROGRESS_MEMORY_BLOB 65000

/* The names of the tables and routines, ended by NULL. */
extern const char *const local_own[];
/* Those tables whose rows are valid only for the locks of their time: rows of another time beside
 * them would be sent under lock numbers that they do not have. */
extern const char *const local_bound[];
/* Creates what is missing. ERR_REFUSED: a table exists with another engine than `innodb` says. */
int local_init(struct db *db, bool innodb, struct err *e);
/* Returns -1 with ERR_REFUSED and a hint if the tables do not exist. *remembers: wk_session has a
 * column for the central store; a table of an earlier version lacks it until local_init(). */
int local_exists(struct db *db, const char *schema, bool *remembers, struct err *e);

/* Allows one write-back at a time, by a server lock that the connection holds. ERR_BUSY after
 * `wait` ms. */
int local_lock(struct db *db, const char *schema, int64_t wait, struct err *e);
void local_unlock(struct db *db, const char *schema);

struct local_key {
    unsigned char len;
    char bytes[PROGRESS_KEY_MAX];
};
bool local_key_is(const struct local_key *k, const char *bytes, size_t len);
/* Reads a field of a row; ERR_REFUSED if it is too long. */
int local_take_key(const struct db_rows *r, unsigned i, struct local_key *out, struct err *e);
/* Appends it as an SQL string. */
void local_key_sql(struct buf *sql, const struct local_key *k);
struct local_blob {
    struct local_key key, lock_key;
    uint64_t lock_seq; /* 0: no session has it */
    uint64_t seq;
    /* the central store that accepted blobs of its session; "": none has yet */
    char store[PROGRESS_STORE_MAX + 1];
    char changed_at[32];
    char *data; /* owned; freed and NULL after it was put into a statement */
    size_t len;
};
struct local_blobs {
    struct local_blob *list;
    size_t count;
};
void local_blobs_free(struct local_blobs *b);

/* Keys of blobs to send. */
struct local_keys {
    struct local_unsent {
        struct local_key key;
        size_t len; /* length of the blob when it was looked at */
    } * list;
    size_t count;
    int64_t oldest_ms; /* ms since the first of them was changed; -1: none */
    size_t largest;
};
/* Finds everything that is unsent, in pieces so short that no save waits for one; with `closing`,
 * only of sessions that are closing. */
int local_unsent(struct db *db, bool closing, struct local_keys *out, struct err *e);
void local_keys_free(struct local_keys *k);

/* Adds the current blobs of `count` keys, if they are unsent. */
int local_read(struct db *db, bool remembers, const struct local_unsent *keys, size_t count,
               struct local_blobs *out, struct err *e);
/* Marks those that are unchanged since they were read as sent. */
int local_mark(struct db *db, const struct local_blob *const *sent, size_t count, struct err *e);
/* Moves a blob that is unchanged since it was read into wk_stolen; `goes_on`: copies it, because
 * its session continues. */
int local_set_aside(struct db *db, const struct local_blob *b, const char *why,
                    uint64_t central_seq, bool goes_on, struct err *e);

struct local_session {
    struct local_key lock_key;
    uint64_t lock_seq;
    char store[PROGRESS_STORE_MAX + 1]; /* as a blob's */
};
struct local_sessions {
    struct local_session *list;
    size_t count;
};
/* Reads rows of lock_key, lock_seq and the holder, and keeps those that `lock_id` holds. With
 * `lock_id` NULL the third column is the session's store, and all rows are kept. Ends the rows. */
int local_take_sessions(struct db_rows *r, const char *lock_id, struct local_sessions *out,
                        struct err *e);
int local_closing(struct db *db, bool remembers, struct local_sessions *out, struct err *e);
/* Reads the name of a central store that has accepted blobs of a session of this world into
 * `out[PROGRESS_STORE_MAX + 1]`; "": none is recorded. */
int local_known_store(struct db *db, char *out, struct err *e);
/* Records `store` as the central store of the sessions of these blobs. */
int local_remember(struct db *db, const char *store, const struct local_blob *const *blobs,
                   size_t count, struct err *e);
/* Marks sessions as closing: one, or all. */
int local_close(struct db *db, const struct local_key *lock_key, struct err *e);
int local_close_all(struct db *db, struct err *e);
/* These work on a table that will become wk_session or wk_progress (renew.h). */
/* Lists all sessions. */
int local_sessions_in(struct db *db, const char *session, struct local_sessions *out,
                      struct err *e);
/* Marks a session as closing. */
int local_close_in(struct db *db, const char *session, const struct local_key *lock_key,
                   struct err *e);
/* Gives each of these sessions the lock number of the same place in `now`. Its unsent blobs are
 * sent under that number. */
int local_renumber_in(struct db *db, const char *session, const char *progress,
                      const struct local_session *const *was, const struct local_session *now,
                      size_t count, struct err *e);
/* Reads the number of a save; *seq 0: there is none. */
int local_seq_in(struct db *db, const char *progress, const struct local_key *blob_key,
                 uint64_t *seq, struct err *e);
/* Finds which of these sessions have unsent blobs. `unsent` has room for all. */
int local_sessions_unsent(struct db *db, const struct local_session *list, size_t count,
                          bool *unsent, struct err *e);
/* Deletes the rows of a session whose lock was released. Unsent blobs stay. */
int local_forget(struct db *db, const struct local_session *s, struct err *e);
/* Reads the session of this key. *lock_seq 0: there is none. */
int local_session(struct db *db, const struct local_key *lock_key, uint64_t *lock_seq,
                  struct err *e);

struct local_counts {
    uint64_t sessions, stolen;
    char first[200]; /* the first keys in wk_stolen */
};
int local_counts(struct db *db, struct local_counts *out, struct err *e);

#endif
