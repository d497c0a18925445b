/* --write-back, --locks, --release, and what --init creates for [progress]. */
#include "actions/progress.h"

#include <string.h>

#include "actions/request.h"
#include "base/fence.h"
#include "base/js.h"
#include "mysql/fenced.h"
#include "progress/write_back.h"

#define LOCK_WAIT 60u /* seconds; the supervisor's write-back ends by then */

/* Creates the local store. InnoDB tables must exist on all nodes of a Galera cluster; MEMORY tables
 * belong to this node only. */
int action_init_progress(struct action_context *a, struct err *e)
{
    const struct config_progress *p = &a->cfg->progress;
    if (!p->lock_id)
        return 0;
    struct db_params params = a->job.db;
    params.schema = a->cfg->schema;
    struct db *db = p->innodb ? db_open(&params, e) : action_connect_world(a, e);
    int rc = db ? local_init(db, p->innodb, e) : -1;
    db_close(db);
    return rc;
}

static int progress_configured(const struct action_context *a, struct err *e)
{
    if (a->cfg->progress.lock_id)
        return 0;
    err_set(e, ERR_USAGE, 0, "%s has no [progress] section", a->cfg->path);
    err_hint(e, "add the section: its keys are in worldkeeper(8) and worldkeeper-progress(7)");
    return -1;
}

/* Connects to both stores. The world must be up: after a server restart no unsent save and no open
 * session would be left. */
static int connect_both(struct action_context *a, struct write_back *w, struct err *e)
{
    write_back_open(w, a->cfg, a->state.central);
    return progress_configured(a, e) < 0 || write_back_central(w, e) < 0 ||
                   write_back_world(w, &a->job.db, e) < 0 ||
                   action_check_world(a, w->world, e) < 0 ||
                   db_fence(w->world, NULL, "write-back", 0, e) < 0
               ? -1
               : 0;
}

static json_t *done_json(const struct write_back *w, const struct write_back_done *before)
{
    const struct write_back_done *d = &w->done;
    json_t *o =
        json_pack("{s:I, s:I, s:I, s:I}", "sent", (json_int_t)d->sent + (json_int_t)before->sent,
                  "stolen", (json_int_t)d->stolen + (json_int_t)before->stolen, "stale",
                  (json_int_t)d->stale + (json_int_t)before->stale, "released",
                  (json_int_t)d->released + (json_int_t)before->released);
    js_set_clean(o, "first", before->first[0] ? before->first : d->first);
    return o;
}

int action_write_back(struct action_context *a, const struct request *r, json_t **result,
                      struct err *e)
{
    struct write_back w;
    struct write_back_done before = {0};
    int rc = connect_both(a, &w, e);
    if (rc == 0)
        rc = write_back_run(&w, WRITE_BACK_ALL, LOCK_WAIT, e);
    if (rc == 0 && r->unlock) {
        before = w.done;
        rc = local_close_all(w.world, e) < 0 || write_back_run(&w, WRITE_BACK_ALL, LOCK_WAIT, e) < 0
                 ? -1
                 : write_back_unlock(&w, e);
    }
    if (rc == 0 && w.done.skipped.cls != ERR_NONE) {
        *e = w.done.skipped;
        rc = -1;
    }
    if (w.central && w.world)
        *result = done_json(&w, &before);
    write_back_close(&w);
    return rc;
}

/* Lists the locks. The world is not queried, because locks exist only in the central store. */
int action_locks(struct action_context *a, const struct request *r, json_t **result, struct err *e)
{
    (void)r;
    struct write_back w;
    json_t *list = json_array();
    write_back_open(&w, a->cfg, a->state.central);
    int rc = progress_configured(a, e) < 0 || write_back_central(&w, e) < 0
                 ? -1
                 : central_locks(w.central, list, e);
    write_back_close(&w);
    if (rc == 0)
        *result = json_pack("{s:o, s:s}", "locks", list, "lock_id", a->cfg->progress.lock_id);
    else
        json_decref(list);
    return rc;
}

/* Releases the lock, depending on its current holder. `ended`: sessions were ended, and the row of
 * this one is gone. */
static int release_held(const struct action_context *a, struct write_back *w,
                        const struct local_key *key, bool ended, bool force, char outcome[16],
                        struct err *e)
{
    const char *own = a->cfg->progress.lock_id;
    char holder[PROGRESS_KEY_MAX + 1];
    struct local_session s = {.lock_key = *key};
    if (central_holder(w->central, key, &s.lock_seq, holder, e) < 0)
        return -1;
    snprintf(outcome, 16, ended ? "released" : "free");
    if (!holder[0] || (ended && strcmp(holder, own) == 0)) /* the game has opened another one */
        return 0;
    /* If another machine now has the world, it may hold the lock for the same player. */
    if (fence_check("release", e) < 0)
        return -1;
    if (strcmp(holder, own) == 0)
        return central_release(w->central, own, &s, outcome, e);
    if (force)
        return central_release_forced(w->central, own, key, outcome, e);
    struct buf shown = {0};
    text_clean(&shown, holder, 100);
    err_set(e, ERR_REFUSED, 0, "the lock belongs to game server %s, not to %s", shown.p, own);
    err_hint(e, "repeat the command with --force to take the lock; that server then moves what it "
                "has not sent to its table wk_stolen");
    buf_free(&shown);
    return -1;
}

/* Ends the session. *ended is set if its lock was released together with those of all closing
 * sessions. If a save cannot be sent, session and lock are kept unless `force` is set. Otherwise
 * the next holder would never get that save, which could no longer be sent. */
static int progress_end_session(struct write_back *w, const struct local_key *key, bool force,
                                bool *ended, struct err *e)
{
    uint64_t session = 0;
    if (local_session(w->world, key, &session, e) < 0)
        return -1;
    if (!session)
        return 0;
    if (local_close(w->world, key, e) < 0 ||
        write_back_run(w, WRITE_BACK_CLOSING, LOCK_WAIT, e) < 0 ||
        local_session(w->world, key, &session, e) < 0)
        return -1;
    *ended = !session && w->done.released;
    if (!session || force)
        return 0;
    if (w->done.skipped.cls != ERR_NONE) {
        *e = w->done.skipped;
    } else {
        err_set(e, ERR_CHANGED, 0, "the game has opened another session for this key");
        err_hint(e, "repeat the command to end that session, too");
    }
    err_step(e, "the lock was not released");
    return -1;
}

/* Sends what this world has not sent yet, then releases the lock: the next holder must find the
 * last save. */
int action_release(struct action_context *a, const struct request *r, json_t **result,
                   struct err *e)
{
    struct write_back w;
    struct local_key key = {0};
    char outcome[16] = "";
    bool ended = false;
    size_t len = strlen(r->dump ? r->dump : "");
    if (len == 0 || len > PROGRESS_KEY_MAX) {
        err_set(e, ERR_USAGE, 0, "--release=KEY: a key has 1 to %d bytes", PROGRESS_KEY_MAX);
        err_hint(e, "worldkeeper --locks lists the keys");
        return -1;
    }
    key.len = (unsigned char)len;
    memcpy(key.bytes, r->dump, len);
    int rc = connect_both(a, &w, e);
    if (rc == 0)
        rc = progress_end_session(&w, &key, r->force, &ended, e);
    if (rc == 0)
        rc = release_held(a, &w, &key, ended, r->force, outcome, e);
    write_back_close(&w);
    if (rc == 0)
        *result = json_pack("{s:o, s:s}", "lock_key", js_clean(r->dump), "outcome", outcome);
    return rc;
}
