/* Shared by the two workers of the supervisor: the connection, what is known of the store, and the
 * check whose world it has.
 *
 * A machine that was thought dead and comes back must not damage what its successor stores. Most
 * stores have no lock to hold, but a world's generation only grows, and its nonce distinguishes
 * one life from another. So the newest manifests in the store are read before anything is stored
 * or deleted. If one is of this or a later generation and not this world's own, somebody else
 * stores here. Everything then stops until an operator has decided. The check is repeated before
 * each upload. The time between the check and the upload is covered by the fence of the lease
 * (base/fence.h), if one is used. */
#include "offsite/upload_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/fence.h"
#include "base/steps.h"
#include "offsite/manifests.h"
#include "store/state.h"

#define FRESH_MS 10000
#define FAILS_MAX 2      /* a single damaged reading is not damage */
#define LEFT_MS 86400000 /* leftovers of an upload are deleted after a day */

/* After a failure everything is read again, because what was known of the store may be the
 * cause. */
void upload_close(struct upload *u)
{
    remote_close(u->t.store);
    u->t.store = NULL;
    copies_free(&u->there);
    ledger_copies_free(&u->ledgers);
    u->looked = u->listed = u->doubted = false;
    buf_free(&u->doubts);
    u->figures.known = false;
    free(u->segments);
    u->segments = NULL;
    u->segment_count = 0;
}

static enum remote_result connect_store(struct upload *u, struct err *e)
{
    if (u->t.store)
        return REMOTE_OK;
    if (transfer_recipients(&u->cfg->offsite, &u->t.recipients, e) < 0)
        return REMOTE_REFUSED;
    u->t.look = u->look;
    u->t.look_arg = u->look_arg;
    return remote_open(u->cfg, &u->t.store, e);
}

/* ---- owner of the dumps ---- */

bool upload_unread(const struct upload *u, struct copy_dump *d)
{
    if (!d->manifest || d->attempt || d->bad)
        return false;
    d->bad = d->fails == FAILS_MAX && u->skipped.cls != ERR_NONE;
    return !d->bad;
}

enum remote_result upload_read(struct upload *u, struct copy_dump *d, struct err *e)
{
    SCOPED(manifest_free) struct manifest m;
    struct err why;
    enum remote_result got = manifests_read(&u->t, u->cfg->name, d, &m, &why, e);
    if (got != REMOTE_OK)
        return got;
    u->unsaved = true;
    /* Only a list shows that a manifest is gone: a single answer may be wrong, and the files of a
     * dump without a manifest are deleted. */
    bool missing = !d->manifest;
    d->manifest = true;
    d->fails += d->bad && d->fails < FAILS_MAX;
    if (d->bad && !(missing && d->fails < FAILS_MAX)) {
        err_step(&why, "the copy of dump %s in the store is not usable", d->name);
        err_hint(&why,
                 "worldkeeper never deletes it: if it is not needed, delete the files "
                 "%s/dumps/%s.* in the store",
                 u->cfg->name, d->name);
        upload_skip(u, &why);
    }
    return REMOTE_OK;
}

static enum remote_result upload_read_once(struct upload *u, struct copy_dump *d, struct err *e)
{
    return upload_unread(u, d) ? upload_read(u, d, e) : REMOTE_OK;
}

/* Reads what this machine knows of its own world: its state, or else its newest dump. A local
 * dump may have been fetched from the store. */
static int know_self(struct upload *u, const struct catalog *local, struct err *e)
{
    struct state s;
    const struct catalog_entry *newest = catalog_newest(local, 0);
    if (state_load(u->dirfd, &s, e) < 0)
        return -1;
    const char *nonce = s.known ? s.nonce : newest ? newest->m.nonce : "";
    u->owner.generation = s.known ? s.generation : newest ? newest->m.generation : 0;
    snprintf(u->owner.nonce, sizeof u->owner.nonce, "%s", nonce);
    return 0;
}

static void upload_forbid(struct upload *u, struct copy_dump *d, const char *what)
{
    d->attempt = 0; /* not a copy of this world */
    d->bad = true;
    err_set(&u->fenced, ERR_REFUSED, 0,
            "another machine stores this world in %s: its dump %s is %s; this machine stores and "
            "deletes nothing there",
            remote_shown(u->t.store), d->name, what);
    err_hint(&u->fenced,
             "give this machine another [offsite] url, or stop the other one permanently; to "
             "continue with the other one's copies see worldkeeper-offsite(7)");
}

bool upload_abandoned(const struct lives *l, const struct copy_dump *d, const char *world)
{
    struct manifest m = {.generation = d->generation, .sequence = d->sequence};
    snprintf(m.nonce, sizeof m.nonce, "%s", d->nonce);
    snprintf(m.world, sizeof m.world, "%s", world);
    return lives_abandoned(l, &m);
}

/* Returns true if our record names other lives that were abandoned. What a replaced machine
 * stored late is then no reason to stop. Such a dump is ignored, and stays in the store. */
static bool upload_pass_over(const struct upload *u, struct copy_dump *d)
{
    struct lives l;
    lives_load(u->dirfd, &l);
    if (d->generation > l.now.generation || !upload_abandoned(&l, d, u->cfg->name))
        return false;
    d->attempt = 0;
    d->bad = true;
    return true;
}

/* Checks dumps from the newest, and only as far as they matter. */
static enum remote_result judge_owner(struct upload *u, const struct catalog *local, struct err *e)
{
    enum remote_result got = REMOTE_OK;
    for (size_t i = 0; i < local->count && got == REMOTE_OK; i++) {
        const struct catalog_entry *x = &local->list[i];
        struct copy_dump *d = x->intact ? copies_dump(&u->there, x->m.name) : NULL;
        if (!d || (got = upload_read_once(u, d, e)) != REMOTE_OK || !d->attempt)
            continue;
        if (strcmp(d->sha256, x->m.sha256) != 0)
            upload_forbid(u, d, "different from the dump of that name on this machine");
        else /* it may have been fetched, but not by a machine that knows of no later one */
            d->ours |= !u->owner.before && d->generation <= u->owner.generation;
    }
    uint64_t from = owner_from(&u->owner);
    for (size_t i = 0; i < u->there.dump_count && got == REMOTE_OK && !u->fenced.cls; i++) {
        struct copy_dump *d = &u->there.dumps[i];
        if (from == 0 || d->generation < from)
            break;
        got = upload_read_once(u, d, e);
        if (got == REMOTE_OK && owner_forbids(&u->owner, d) && !upload_pass_over(u, d)) {
            SCOPED(xfree) char *what =
                xasprintf("of generation %" PRIu64 ", this world of %" PRIu64, d->generation,
                          u->owner.generation);
            upload_forbid(u, d, what);
        }
    }
    return got;
}

static void skip_here(struct upload *u, struct err *why)
{
    upload_here(u, why);
    upload_skip(u, why);
}

/* Returns true if the newest dump of the former list is gone, or was stored again. No retention
 * deletes the newest one, so the store may have lost more. */
static bool newest_is_lost(const struct copies *was, const struct copies *is)
{
    size_t i = 0;
    while (i < was->dump_count && !was->dumps[i].manifest)
        i++;
    if (i == was->dump_count)
        return false;
    const struct copy_dump *d = copies_dump(is, was->dumps[i].name);
    return !d || !d->manifest || strcmp(d->stamp, was->dumps[i].stamp) != 0;
}

/* Lists the dumps. Damaged manifests that have not changed need not be read again: if there are
 * many, reading them takes so long that the list is too old to send a dump after it. The same
 * applies to pins that were read. */
static enum remote_result list_dumps(struct upload *u, struct err *e)
{
    SCOPED(copies_free) struct copies was = {
        .dumps = u->there.dumps, .dump_count = u->there.dump_count, .world = u->there.world};
    u->there.dumps = NULL;
    enum remote_result got = copies_load_dumps(u->t.store, u->cfg->name, &u->there, e);
    for (size_t i = 0; i < u->there.dump_count && got == REMOTE_OK; i++) {
        struct copy_dump *d = &u->there.dumps[i];
        const struct copy_dump *old = copies_dump(&was, d->name);
        bool same = old && old->size == d->size && old->files == d->files &&
                    strcmp(old->stamp, d->stamp) == 0;
        d->fails = same ? old->fails : 0;
        if (old && old->pin.read && !old->pin.unread && old->pin.size == d->pin.size &&
            d->pin.there && strcmp(old->pin.stamp, d->pin.stamp) == 0)
            d->pin = old->pin;
    }
    u->listed = u->listed && got == REMOTE_OK && !newest_is_lost(&was, &u->there);
    return got;
}

/* Reads the list, then only those manifests that differ from what is remembered. */
static enum remote_result upload_look_again(struct upload *u, struct err *e)
{
    SCOPED(catalog_free) struct catalog local = {0};
    u->looked = false;
    u->read = 0;
    memset(&u->skipped, 0, sizeof u->skipped);
    u->unsent = false;
    memset(&u->fenced, 0, sizeof u->fenced);
    struct err why = {0};
    enum remote_result got = list_dumps(u, e);
    if (got == REMOTE_OK)
        got = ledger_copies_load(u->t.store, u->cfg, &u->ledgers, e);
    if (got != REMOTE_OK)
        return got;
    if (catalog_load(u->dirfd, u->cfg->name, &local, e) < 0 || know_self(u, &local, e) < 0)
        return REMOTE_STOPPED;
    const struct catalog_entry *newest = catalog_newest(&local, 0);
    u->newest_dump = newest ? newest->m.at : (wall_t){0};
    int whose = u->whose ? u->whose(u->look_arg, &u->t, &why) : 0;
    if (whose < 0) {
        err_pass(e, &why);
        return REMOTE_LATER;
    }
    if (whose > 0)
        u->fenced = why;
    err_clear(&why);
    if (manifests_recall(u->dirfd, remote_shown(u->t.store), &u->there, &u->owner.before, &why) < 0)
        skip_here(u, &why);
    if (!u->fenced.cls)
        got = judge_owner(u, &local, e);
    if (got == REMOTE_OK && manifests_recall_damaged(u->dirfd, &u->there, &u->skipped, &why) < 0)
        skip_here(u, &why);
    u->looked = got == REMOTE_OK;
    u->looked_at = clock_mono();
    u->unsaved |= !u->fenced.cls && u->owner.before != u->owner.generation;
    return got;
}

enum remote_result upload_look(struct upload *u, struct err *e)
{
    enum remote_result got = connect_store(u, e);
    return got == REMOTE_OK ? upload_look_again(u, e) : got;
}

enum remote_result upload_ready(struct upload *u, int64_t look_ms, struct err *e)
{
    enum remote_result got = connect_store(u, e);
    u->done.name[0] = '\0';
    u->figured = false;
    if (got == REMOTE_OK && (!u->looked || mono_since(clock_mono(), u->looked_at) >= look_ms))
        got = upload_look_again(u, e);
    return got;
}

bool upload_fresh(struct upload *u)
{
    u->looked = mono_since(clock_mono(), u->looked_at) < FRESH_MS;
    return u->looked;
}

void upload_remember(struct upload *u)
{
    struct err why = {0};
    uint64_t generation = u->fenced.cls ? u->owner.before : u->owner.generation;
    if (!u->unsaved)
        return;
    u->unsaved = manifests_remember(u->dirfd, remote_shown(u->t.store), &u->there, generation,
                                    !u->fenced.cls, &why) < 0;
    if (u->unsaved)
        skip_here(u, &why);
}

/* ---- shared by dumps and segments ---- */

void upload_sweep(struct upload *u, const char *folder)
{
    SCOPED(xfree) char *dir = xasprintf("%s/%s/", u->cfg->name, folder);
    unsigned removed;
    struct err why = {0};
    remote_sweep(u->t.store, dir, clock_wall(), LEFT_MS, &removed, &why);
    u->unswept = why;
}

/* Returns 1 if this machine has begun another life of its world since the last call of u->whose, 0
 * if not, -1 on error. */
static int upload_lives_anew(const struct upload *u, struct state *now, struct err *e)
{
    if (state_load(u->dirfd, now, e) < 0)
        return -1;
    return now->known &&
           (now->generation != u->owner.generation || strcmp(now->nonce, u->owner.nonce) != 0);
}

enum remote_result upload_ours(struct upload *u, struct err *e)
{
    struct err why = {0};
    struct state now;
    int anew = u->whose && !u->whose_each ? upload_lives_anew(u, &now, e) : 0;
    if (anew < 0)
        return REMOTE_STOPPED;
    bool asks = u->whose && (u->whose_each || anew);
    int whose = asks ? u->whose(u->look_arg, &u->t, &why) : 0;
    if (anew && whose == 0) {
        u->owner.generation = now.generation;
        memcpy(u->owner.nonce, now.nonce, sizeof u->owner.nonce);
        u->looked = false; /* the next step judges the store's dumps by the new life */
    }
    if (whose == 0)
        return REMOTE_OK;
    u->looked = false;
    err_pass(e, &why);
    return whose < 0 ? REMOTE_LATER : REMOTE_STOPPED;
}

/* Sends a file, then reads it back. A kill at any of these points leaves a file that no manifest
 * names, which is ignored. */
enum remote_result upload_file(struct upload *u, const char *name, int fd, uint64_t from,
                               uint64_t to, struct transfer_stored *out, struct err *e)
{
    fault_point("offsite.chosen");
    *out = (struct transfer_stored){.size = 0};
    enum remote_result got = upload_ours(u, e);
    if (got != REMOTE_OK)
        return got;
    got = transfer_put(&u->t, name, fd, from, to, out, e);
    fault_point("offsite.sent");
    if (got == REMOTE_OK)
        return transfer_check(&u->t, name, out, e);
    out->size = 0;
    return got;
}

enum remote_result upload_text(struct upload *u, const char *name, const char *text, struct err *e)
{
    struct transfer_stored stored;
    enum remote_result got = upload_ours(u, e);
    if (got == REMOTE_OK)
        got = transfer_put_text(&u->t, name, text, &stored, e);
    return got == REMOTE_OK ? transfer_check(&u->t, name, &stored, e) : got;
}

/* Each deletion checks the lease: of all that a stranger could do here, only a deletion cannot
 * be undone. */
enum remote_result upload_delete(struct upload *u, const char *name, struct err *e)
{
    fault_point("offsite.spare");
    if ((u->look && u->look(u->look_arg, 0, e) < 0) || fence_check("deletion", e) < 0)
        return REMOTE_STOPPED;
    enum remote_result got = upload_ours(u, e);
    return got == REMOTE_OK ? remote_delete(u->t.store, name, e) : got;
}

bool upload_tidy_due(const struct upload *u)
{
    return mono_reached(clock_mono(), u->next_tidy);
}

void upload_here(const struct upload *u, struct err *e)
{
    if (e->cls != ERR_SYSTEM && e->cls != ERR_NOSPACE)
        return;
    SCOPED(buf_free) struct buf todo = {0};
    err_step(e, "on this machine, in %s", u->cfg->dump_dir);
    if (e->cls == ERR_NOSPACE) {
        buf_adds(&todo, "make room on the file system of the dumps; ");
        steps_df(&todo, u->cfg->dump_dir);
    } else {
        buf_adds(&todo, "see the disk, owner and mode of ");
        buf_shell(&todo, u->cfg->dump_dir);
    }
    err_hint(e, "%s", todo.p);
}

void upload_skip(struct upload *u, const struct err *why)
{
    if (u->skipped.cls == ERR_NONE)
        u->skipped = *why;
}
