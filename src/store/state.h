/* What must survive the supervisor: state.json (the last ALIVE, the generation, a pause) and
 * pending.json (a restore that is about to swap or has just swapped, and has not tidied up yet).
 * Both are written by file_commit into the dump directory. */
#ifndef WK_STORE_STATE_H
#define WK_STORE_STATE_H

#include <jansson.h>

#include "core/clock.h"
#include "core/err.h"
#include "db/query.h"

struct state {
    char world[33]; /* whose it is; "": not known yet */
    bool known;     /* an ALIVE was seen under this nonce */
    char nonce[33];
    uint64_t generation;
    struct server_id server; /* at the last ALIVE */
    wall_t alive_at;
    bool paused;
    wall_t pause_until;      /* ms 0: not limited */
    char last_restore[2048]; /* JSON text of the last restore's figures, or "" */
    char gaps[4096];         /* the same of the journal's last gaps: [{at, file, pos, why}] */
};

/* -1: the directory is another world's, whose dumps, locks and supervisor one would meet there. */
int state_is_of(const struct state *s, const char *world, const char *dir, struct err *e);
/* A missing file gives an empty state; a damaged one too, with the reason in `e` and -1. */
int state_load(int dirfd, struct state *out, struct err *e);
json_t *state_json(const struct state *s);
void state_from_json(const json_t *o, struct state *out);
int state_save(int dirfd, const struct state *s, struct err *e);

struct pending {
    bool there;
    char nonce[33];
    uint64_t generation;
    char dump[129];
    struct db_names tables; /* i-th: swapped with shadow i */
    struct db_triggers triggers;
    struct pending_checks {
        char *table, *lines; /* how its constraints were called: constraints.h */
        uint64_t heap;       /* the max_heap_table_size that it was made with; 0: durable */
    } * checks;
    size_t check_count;
};
/* A missing file gives there = false; one that is not whole gives -1, and nothing of it. */
int pending_load(int dirfd, struct pending *out, struct err *e);
int pending_save(int dirfd, const struct pending *p, struct err *e);
int pending_remove(int dirfd, struct err *e);
void pending_free(struct pending *p);

#endif
