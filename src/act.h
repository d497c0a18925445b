/* The actions of the command line, without a word about terminals or sockets: given a request, they
 * work, tell their progress, and answer with a JSON result. Run directly by main.c, or in a worker
 * of the supervisor that got the same request through its control socket: one code path for both.
 */
#ifndef WK_ACT_H
#define WK_ACT_H

#include <jansson.h>

#include "core/text.h"
#include "dump/job.h"
#include "store/state.h"

/* What somebody wants. Strings are owned; NULL when not given. */
struct request {
    char *action; /* "dump", "restore", "init", "list", "verify", "drill", "seal", "check",
                     "test-alert", "tidy", "status", "pause", "resume" */
    char *dump, *into, *at;
    bool force, dry_run, automatic;
    unsigned skip;
    int64_t pause_ms;
};
/* NULL: a string of it is no UTF-8. */
json_t *request_json(const struct request *r);
/* -1, with `out` empty: it says what is not understood here, which must not be left out. */
int request_from_json(const json_t *o, struct request *out, struct err *e);
void request_free(struct request *r);

/* Everything an action works with. */
struct act {
    const struct config *cfg;
    struct buf password;
    struct job job;
    struct progress progress;
    struct state state;
    /* Where progress and notes go: one JSON object each, {"progress":{…}} or {"note":"…"}. May be
     * NULL. */
    void (*emit)(void *arg, const json_t *o);
    void *emit_arg;
};
/* Opens the dump directory (`make`: made when missing) and reads state.json. */
int act_open(struct act *a, const struct config *cfg, bool make, struct err *e);
/* Reads the database password, once; act_run() does it for the actions that talk to the server. A
 * systemd credential can be read by the service only, so that what needs no password must not ask
 * for it. */
int act_password(struct act *a, struct err *e);
void act_close(struct act *a);
/* The world's flock in the dump directory: fd, or ERR_BUSY with who has it. */
int act_lock(struct act *a, struct err *e);
/* Writes into the lock file who holds it and where a supervisor listens ("" for an action by hand).
 */
void act_lock_tell(int fd, const char *socket);

/* Carries out. *result is a new JSON object (also on failure, where there is something to show) or
 * NULL. */
int act_run(struct act *a, const struct request *r, json_t **result, struct err *e);

/* The doctor (check.c): {"checks":[{"name","level":"ok|note|warn|fail","text","hint"}]}; -1 with
 * class ERR_SYSTEM when something fails. */
int check_run(struct act *a, json_t **result, struct err *e);

#endif
