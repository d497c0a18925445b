/* What an action works with: config, dump directory, password, state, lock. */
#ifndef WK_ACTIONS_CONTEXT_H
#define WK_ACTIONS_CONTEXT_H

#include <jansson.h>

#include "base/text.h"
#include "mysql/job.h"
#include "standby/lease.h"
#include "store/manifest.h"
#include "store/state.h"

struct action_context {
    const struct config *cfg;
    struct buf password;
    struct job job;
    struct progress progress;
    struct state state;
    struct manifest dumped; /* manifest_figures() of a dump that was stored; name "": none was */
    struct err ignored; /* why state.json was not used; ERR_NONE: it was, or it does not exist */
    /* Receives progress and notes: one JSON object each, {"progress":{…}} or {"note":"…"}. May be
     * NULL. */
    void (*emit)(void *arg, const json_t *o);
    void *emit_arg;
    /* Called before state.json records that this machine no longer keeps the world: its supervisor
     * must not write otherwise if this process dies. May be NULL. */
    void (*stepping_back)(void *arg);
    struct lease_seen
        /* observed by a running standby, so that a promotion need not repeat the wait */
        lease_seen;
    int patience; /* seconds for answers that a supervisor gives at once; 0: CONTROL_PATIENCE */
};
/* Executes one action: *result is a new JSON object (also on failure, if there is something to
 * show) or NULL. */
struct request;
typedef int action_fn(struct action_context *a, const struct request *r, json_t **result,
                      struct err *e);

/* Opens the dump directory (`make`: created if missing) and reads state.json. A state that may not
 * be ours (a link, or without a valid HMAC if signature_open() has read a key) counts as
 * missing. */
int action_open(struct action_context *a, const struct config *cfg, bool make, struct err *e);
/* Reads the database password, once. action_run() calls it for actions that use the server. The
 * others must not: a systemd credential can be read by the service only. */
int action_password(struct action_context *a, struct err *e);
/* Reads state.json again. */
int action_load_state(struct action_context *a, struct err *e);
/* Shows one line to the user of the action; `arg` is the context. */
void action_note(void *arg, const char *text);
void action_close(struct action_context *a);
/* Takes the world's flock in the dump directory. Returns the descriptor, or ERR_BUSY with the
 * holder in the text. */
int action_lock(struct action_context *a, struct err *e);
/* Returns what the lock file tells about its holder; NULL: nothing. */
json_t *action_lock_read(const struct action_context *a);
/* Writes the holder into the lock file, and the supervisor's socket ("" for an action by hand). */
void action_lock_write(int fd, const char *socket);

/* For work on the world's own tables, besides dumps and restores: opens a connection whose default
 * schema is the world's, and whose changes stay on its node. */
struct db *action_connect_world(const struct action_context *a, struct err *e);
/* ERR_REFUSED: the server was restarted without the world, or holds another one. */
int action_check_world(const struct action_context *a, struct db *db, struct err *e);
/* Saves that the world is up here with this nonce, so that a later loss can be proven. */
int action_remember(struct action_context *a, const char *nonce, uint64_t generation,
                    const struct server_id *server, struct err *e);

#endif
