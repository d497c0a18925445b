/* Write-back: unsent blobs of the local store are sent to the central one, many in one statement.
 * Locks of closing sessions are released there, and the sessions deleted here.
 *
 * Statements are sent before earlier ones are answered, so that a distant central store is always
 * busy. Blobs that are on their way when a run fails are sent again by the next run.
 *
 * Order of effects of a blob: saved at the central store, marked as sent here. Of a session: its
 * blobs, then its lock is released, then its rows are deleted. After a kill between any two, the
 * next run repeats the effect. A lost connection stays lost: the run fails, and the next one
 * connects again. */
#ifndef WK_PROGRESS_WRITE_BACK_H
#define WK_PROGRESS_WRITE_BACK_H

#include "progress/central.h"

/* The connections to both stores. They belong to one thread. */
struct write_back {
    const struct config *cfg;
    struct db *world, *central; /* NULL: not connected */
    struct buf password;        /* of the central store */
    /* name of the central store; "": its schema is of a version without names */
    char store[PROGRESS_STORE_MAX + 1];
    /* name of the store that last accepted blobs of this world; "": none did */
    char known[PROGRESS_STORE_MAX + 1];
    bool remembers; /* wk_session has a column for the store */
    /* the last run failed at the central store: its connection must be closed */
    bool central_failed;
    bool fenced; /* the last run was ended because the lease of the world ended */
    /* From then on a run sends no more: the rest, counted in `left`, is for the next run. ms 0: it
     * sends everything. */
    mono_t until;
    struct local_keys left;
    size_t left_at;
    /* Called between two statements; true: the run must end. May be NULL. */
    bool (*stop)(void *arg);
    void *stop_arg;
    struct write_back_done {
        uint64_t sent, stolen, stale, released;
        char first[200]; /* keys of the first blobs that were moved to wk_stolen */
        /* why a blob was not sent and stays where it is; ERR_NONE: all were sent */
        struct err skipped;
    } done;
};
void write_back_open(struct write_back *w, const struct config *cfg, const char *known);
void write_back_close(struct write_back *w);
/* These connect, unless already connected. */
int write_back_central(struct write_back *w, struct err *e);
int write_back_world(struct write_back *w, const struct db_params *p, struct err *e);

enum write_back_scope {
    WRITE_BACK_ALL,
    WRITE_BACK_CLOSING, /* sessions that are closing */
};
/* Sends blobs, then ends the closing sessions. Waits `wait` seconds for another run to end. After a
 * failure, the world's connection may still hold the lock of the local store and must be closed,
 * except if db_lock_busy(). */
int write_back_run(struct write_back *w, enum write_back_scope scope, unsigned wait, struct err *e);
/* Releases the locks of this game server whose sessions are not in the world: the game died before
 * it recorded one, or the world was restored to an earlier time. Call it only while no game
 * runs. */
int write_back_unlock(struct write_back *w, struct err *e);
/* Returns the ms to wait until `count` blobs, sent in `elapsed_ms`, are at most `rate` per second;
 * 0: no limit. */
int64_t write_back_pause(size_t count, unsigned rate, int64_t elapsed_ms);

#endif
