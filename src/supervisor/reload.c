/* Resources that a supervisor holds exclusively: the world's lock, its claims (actions/claim.h) and
 * the control socket. This file also changes to another config or dump directory at run time. */
#include "supervisor/reload.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/claim.h"
#include "actions/control.h"
#include "actions/hint_command.h"
#include "base/systemd.h"
#include "store/catalog.h"
#include "store/pending.h"
#include "store/signature.h"
#include "supervisor/clients.h"
#include "supervisor/condition_words.h"
#include "supervisor/decisions.h"
#include "supervisor/disk.h"
#include "supervisor/dumps.h"
#include "supervisor/jobs.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/publisher.h"
#include "supervisor/world.h"

/* Both changes have the same order: open and check everything new, then switch, then restart the
 * workers that hold descriptors of the old one. A failure before the switch leaves the old one in
 * force. */

/* 30 tries of 100 ms are three seconds. */
#define LOCK_TRIES 30
#define LOCK_PAUSE_US 100000

static struct holdings {
    int lock;
    struct claims claims;
    bool reload_due; /* SIGHUP arrived while a job ran */
} holdings;

int holdings_take(struct world *w, struct err *e)
{
    /* A worker may hold the lock for a moment after its supervisor was killed. */
    for (int i = 0; i < LOCK_TRIES; i++) {
        holdings.lock = action_lock(w->a, e);
        if (holdings.lock >= 0 || e->cls != ERR_BUSY)
            break;
        usleep(LOCK_PAUSE_US);
    }
    if (holdings.lock < 0)
        return -1;
    if (control_elsewhere(w->a)) {
        err_set(e, ERR_BUSY, 0, "another supervisor of world %s is running and starts to use %s",
                w->cfg->name, w->cfg->dump_dir);
        return err_hint(e, "worldkeeper --status shows its state; stop it before starting another");
    }
    if (claims_take(w->cfg, &holdings.claims, e) < 0 || clients_listen(w, e) < 0)
        return -1;
    action_lock_write(holdings.lock, clients_socket());
    return 0;
}

void holdings_timers(void)
{
    claims_drain(&holdings.claims);
}

void warn_of_insecure(const struct config *c)
{
    char *text;
    for (unsigned i = 0; (text = config_exposed(c, i)); i++) {
        log_line(LOG_WARN_, "INSECURE: %s", text);
        free(text);
    }
}

/* Replaces the context. `keeps_state`: our state stays, because it is newer than the state file in
 * the new directory. */
static void replace_context(struct world *w, struct action_context *next, bool keeps_state)
{
    if (keeps_state)
        next->state = w->a->state;
    else
        next->state.endless_since = w->a->state.endless_since; /* the pause is the guard's */
    action_close(w->a);
    *w->a = *next;
    /* The context contains pointers into itself. */
    w->a->progress.arg = w->a->job.note_arg = w->a;
    w->a->job.progress = &w->a->progress;
}

/* Restarts the parts, the disk writer first. What the other parts then send goes to the next disk
 * writer, which has the new directories and keys. The old one would still write it. */
static void reload_restart(struct world *w, bool only_dirs)
{
    disk_part.restart(w);
    for (size_t i = 0; w->parts[i]; i++)
        if (w->parts[i]->restart && w->parts[i] != &disk_part &&
            (w->parts[i]->opens_dirs || !only_dirs))
            w->parts[i]->restart(w);
}

/* ---- another config ---- */

static bool same_identity(const struct config *a, const struct config *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->schema, b->schema) == 0 &&
           a->retired == b->retired && strcmp(a->dump_dir, b->dump_dir) == 0 &&
           strcmp(a->sentinel, b->sentinel) == 0 && a->standby.given == b->standby.given &&
           a->standby.lease == b->standby.lease;
}

/* Takes the claims of the new config. If another world holds one of them, the old claims are taken
 * again. The old claims are dropped first, since the new ones may overlap with them. */
static int reload_reclaim(const struct config *c, const struct config *fresh, struct err *e)
{
    struct claims *claims = &holdings.claims;
    bool same_dir = c->status_dir && fresh->status_dir
                        ? strcmp(c->status_dir, fresh->status_dir) == 0
                        : !c->status_dir && !fresh->status_dir;
    if (same_dir && claims_same_server(&c->mysql, &fresh->mysql))
        return 0;
    claims_drop(claims);
    if (claims_take(fresh, claims, e) == 0)
        return 0;
    claims_take(c, claims, NULL);
    return -1;
}

/* Returns 1 if stored dumps are not signed with the new key, 0 otherwise, -1 on error. */
static int adopt_config(struct world *w, struct config *fresh, struct err *e)
{
    struct action_context next;
    if (action_open(&next, fresh, true, e) < 0)
        return -1;
    int rc = action_password(&next, e) < 0 || reload_reclaim(w->cfg, fresh, e) < 0 ? -1 : 0;
    if (rc == 0 && (rc = signature_open(fresh, e)) < 0)
        reload_reclaim(fresh, w->cfg, NULL);
    if (rc < 0) {
        action_close(&next);
        return -1;
    }
    replace_context(w, &next, true);
    return rc && fresh->hmac_key_file;
}

/* Switches to the new config. `new_key`: see adopt_config(). The files of the old config get their
 * last content before it is freed. Workers are restarted when the new config is in place. */
static void work_with(struct world *w, struct config *fresh, bool new_key)
{
    publish_leave(w, fresh);
    config_free(w->cfg);
    w->cfg = fresh;
    guard_config_from(fresh, &w->guard_cfg);
    reload_restart(w, false);
    log_line(LOG_NOTE_, "config %s reloaded", fresh->path);
    notify_over(w, CONDITION_REFUSED, "the config is accepted again");
    if (new_key) {
        w->state_dirty = w->state_unsigned = true;
        log_line(LOG_NOTE_, "the key in [dump] hmac_key_file changed: taking a dump that it signs");
        dumps_due(clock_mono());
    }
    warn_of_insecure(fresh);
}

void reload_config(struct world *w)
{
    struct config *fresh = NULL;
    struct err e;
    systemd_notify("RELOADING=1");
    int rc = config_load(w->cfg->path, &fresh, &e);
    if (rc == 0)
        config_keep_slots(w->cfg, fresh);
    if (rc == 0 && !same_identity(w->cfg, fresh)) {
        rc = err_set(&e, ERR_CONFIG, 0, "[world], [dump] dir, [probe] table or [standby] changed");
        err_hint(&e, "these need a restart of the supervisor");
    }
    holdings.reload_due = rc == 0 && jobs_running();
    if (holdings.reload_due)
        log_line(LOG_NOTE_, "config %s is reloaded when the running %s ends", fresh->path,
                 action_name(jobs_running()));
    else if (rc == 0)
        rc = adopt_config(w, fresh, &e);
    if (rc < 0) {
        /* Reported by an alert, since `systemctl reload` only sends the signal and reports
         * success. */
        w->conditions[CONDITION_REFUSED].on = false; /* each refusal is reported */
        notify_open(w, CONDITION_REFUSED, NULL, "keeping the world with the old config",
                    e.hint[0] ? e.hint : "fix the config and reload it again",
                    "reload refused, the old config stays in use: %s", e.text);
        hint_error(w->cfg, HINT_ROOT, &e);
        if (e.hint[0])
            log_line(LOG_NOTE_, "HINT: %s", e.hint);
    }
    if (rc < 0 || holdings.reload_due)
        config_free(fresh);
    else
        work_with(w, fresh, rc > 0);
    systemd_notify("READY=1");
}

void reload_timers(struct world *w)
{
    if (holdings.reload_due && jobs_running() == ACTION_NONE)
        reload_config(w);
}

/* ---- another dump directory ---- */

void reload_expect(struct world *w, const struct pending *p)
{
    struct state expected = w->a->state;
    const struct manifest *newest = dumps_newest();
    if (!expected.known && newest) { /* state.json is lost: the newest manifest has the same data */
        expected.known = true;
        expected.server = newest->server;
        snprintf(expected.nonce, sizeof expected.nonce, "%s", newest->nonce);
    }
    prober_expect(w, &expected, (mono_t){0});
    bool cut = p->there || expected.next[0];
    if (cut)
        prober_expect_next(w, p->there ? p->nonce : expected.next);
    /* The newest dump shows the world from before a restore. A new dump is due, so that the next
     * loss does not bring that world back. */
    if (newest && (cut || expected.generation > newest->generation))
        dumps_due(clock_mono());
    jobs_recall(w);
}

/* Returns whether the state of a new directory replaces ours, because nothing is known of the
 * world: the dump directory was empty so far. With [standby], such a machine is a standby. Its
 * dumps are copies from the store, and a command that was given since decides its role. */
static bool reload_learns(const struct world *w, const struct state *found)
{
    const struct state *s = &w->a->state;
    if (s->known || s->next[0])
        return false;
    if (!w->cfg->standby.given)
        return !dumps_newest();
    return s->role == ROLE_UNSAID && (found->known || found->role != ROLE_UNSAID);
}

/* Reads what a start reads: an interrupted restore, and with [standby] the name for leases. */
static int reload_learn(const struct world *w, struct action_context *next, struct pending *p,
                        struct err *e)
{
    int dirfd = next->job.dirfd;
    if (w->cfg->standby.given && state_keep_holder(&next->state, dirfd, e) < 0)
        return -1;
    return pending_load(dirfd, p, e);
}

/* Switches to a new directory at the path of the dump directory. The new lock is taken before the
 * old one is released, so that no other supervisor can take the world in between. */
int reload_dump_dir(struct world *w, struct err *e)
{
    struct action_context next;
    struct catalog c = {0};
    SCOPED(pending_free) struct pending p = {0};
    size_t n = strlen(w->cfg->dump_dir);
    const char *socket = clients_socket();
    if (action_open(&next, w->cfg, false, e) < 0)
        return -1;
    bool learns = reload_learns(w, &next.state);
    /* All steps that can fail come first. */
    int lock = action_password(&next, e) < 0 ? -1 : action_lock(&next, e);
    bool inside = strncmp(socket, w->cfg->dump_dir, n) == 0 && socket[n] == '/';
    if (lock < 0 || catalog_load(next.job.dirfd, w->cfg->name, &c, e) < 0 ||
        (learns && reload_learn(w, &next, &p, e) < 0) || (inside && clients_listen(w, e) < 0)) {
        if (lock >= 0)
            close(lock);
        catalog_free(&c);
        action_close(&next);
        return -1;
    }
    close(holdings.lock);
    holdings.lock = lock;
    action_lock_write(lock, socket);
    replace_context(w, &next, !learns);
    reload_restart(w, true);
    notify_dir_moved();
    dumps_load(w, &c);
    if (learns) /* as at a start with this directory */
        reload_expect(w, &p);
    catalog_free(&c);
    w->state_dirty = true;
    jobs_tidy_soon();
    log_line(LOG_WARN_, "%s is not the same directory as before: it is now used and locked",
             w->cfg->dump_dir);
    return 0;
}

void reload_check_place(struct world *w, enum file_dir_place place)
{
    struct condition *shown = &w->conditions[CONDITION_DIR_MOVED];
    const char *dir = w->cfg->dump_dir;
    struct err e = {0};
    if (place == FILE_DIR_OTHER && jobs_running())
        return; /* the job reports it when it ends */
    bool taken = place == FILE_DIR_OTHER && reload_dump_dir(w, &e) == 0;
    bool there = taken || place == FILE_DIR_SAME;
    if (taken)
        shown->on = true; /* the end is reported even if the condition was never open */
    if (shown->on && there)
        /* Dumps that an earlier restore did not find may be there now. */
        w->guard.retry_at = (mono_t){0};
    static const char doing[] =
        "the world is watched; no dump is stored, and a restore can use only the remaining dumps";
    const char *todo =
        e.hint[0] ? e.hint : "move it back, or create it again; it is used as soon as it exists";
    if (there)
        notify_over(w, CONDITION_DIR_MOVED, "dumps are stored in %s again", dir);
    else if (place == FILE_DIR_GONE)
        notify_open(w, CONDITION_DIR_MOVED, "gone", doing, todo,
                    "%s is no longer the directory for dumps: it was moved or removed", dir);
    else
        notify_open(w, CONDITION_DIR_MOVED, "other", doing, todo,
                    "%s is not the same directory as before: %s", dir, e.text);
}
