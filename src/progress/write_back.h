/* Write-back: what is unsent in the local store goes to the central one, many blobs in one statement;
 * sessions that close are released there and forgotten here.
 *
 * Statements are sent before the ones before them are answered, so that a central store far away has always
 * something to do; what is on its way when a run fails is sent again by the next one.
 *
 * Order of effects of a blob: saved at the central store, marked as sent here. Of a session: its blobs,
 * then its lock is released, then its rows go. Killed between any two, the next run does the same again.
 * A connection that is lost stays lost: the run fails, and the next one connects again. */
#ifndef WK_PROGRESS_WRITE_BACK_H
#define WK_PROGRESS_WRITE_BACK_H

#include "progress/central.h"

/* Both ends. Its connections belong to one thread. */
struct write_back {
    const struct config *cfg;
    struct db *world, *central; /* NULL: not connected */
    struct buf password;        /* of the central store */
    bool central_failed; /* the last run, at the central store: its connection is to be closed */
    bool fenced;         /* the last run: it was ended, as the lease of the world has */
    /* From then on a run sends no more: `left`, of all that is unsent, is the next one's. ms 0: it sends all. */
    mono_t until;
    struct local_keys left;
    size_t left_at;
    /* Between two statements: does the run have to end? May be NULL. */
    bool (*stop)(void *arg);
    void *stop_arg;
    struct write_back_done {
        uint64_t sent, stolen, stale, released;
        char first[200];    /* keys of the first that were set aside */
        struct err skipped; /* why one was not sent, and waits where it is; ERR_NONE: all were */
    } done;
};
void write_back_open(struct write_back *w, const struct config *cfg);
void write_back_close(struct write_back *w);
/* They do nothing if connected already. */
int write_back_central(struct write_back *w, struct err *e);
int write_back_world(struct write_back *w, const struct db_params *p, struct err *e);

enum write_back_scope {
    WRITE_BACK_ALL,
    WRITE_BACK_CLOSING, /* sessions that are closing */
};
/* Sends, then ends the sessions that are closing. `wait` seconds for another run to end. */
int write_back_run(struct write_back *w, enum write_back_scope scope, unsigned wait, struct err *e);
/* Releases the locks of this game server whose sessions are not in the world: the game died before it noted one, or the
 * world was restored to before that. For when no game runs. */
int write_back_unlock(struct write_back *w, struct err *e);
/* Milliseconds until `count` blobs, sent since `elapsed_ms` ago, are no more than `rate` a second; 0: no limit. */
int64_t write_back_pause(size_t count, unsigned rate, int64_t elapsed_ms);

#endif
