#include "offsite/upload_dumps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "offsite/manifests.h"
#include "offsite/rounds.h"
#include "offsite/upload_int.h"
#include "offsite/upload_ledgers.h"
#include "store/catalog.h"
#include "store/retention.h"

#define LEFT_MS 86400000           /* a file without a manifest is deleted after a day */
#define LOOK_MS fault_wait(600000) /* also before each upload */
#define SAVE_EACH 256              /* manifests read between two saves */

/* Returns the newest dump whose manifest or pin was not read yet, or NULL if all were read. */
static struct copy_dump *upload_dumps_unread(struct upload *u)
{
    for (; u->read < u->there.dump_count; u->read++) {
        struct copy_dump *d = &u->there.dumps[u->read];
        if (upload_unread(u, d) || (d->attempt && d->pin.there && !d->pin.read))
            return d;
    }
    return NULL;
}

static void know_pin(struct copy_dump *d, const struct pin *p)
{
    d->pin.there = p->kind != PIN_NONE;
    d->pin.read = true;
    d->pin.unread = p->unread;
    d->pin.kind = p->kind;
    d->pin.since = p->since;
}

static enum remote_result read_next(struct upload *u, struct copy_dump *d, struct err *e)
{
    struct pin p;
    if (upload_unread(u, d))
        return upload_read(u, d, e);
    enum remote_result got = manifests_read_pin(&u->t, u->cfg->name, d->name, &p, e);
    if (got == REMOTE_OK)
        know_pin(d, &p);
    return got;
}

static struct pin pin_there(const struct copy_dump *d)
{
    return (struct pin){.kind = d->pin.there ? d->pin.kind : PIN_NONE, .since = d->pin.since};
}

/* ---- choosing the next step ---- */

/* All dumps, local and in the store. */
struct choice {
    struct retention_item *items;
    struct choice_of {
        const struct catalog_entry *here; /* NULL: only in the store */
        struct copy_dump *there;          /* NULL: only local */
    } * of;
    size_t count;
};

static void choice_free(struct choice *c)
{
    free(c->items);
    free(c->of);
}

/* Applies [retention] to the dumps in the store, and with `unsent` to those that are only local,
 * too. Without it, these only show which time has passed (retention_now()). A copy that was found
 * damaged takes part, but does not take the place of a good one. An abandoned dump is not sent: no
 * restore chooses it, and it would delay the world's own. */
static void upload_dumps_choose(const struct upload *u, const struct catalog *local, bool unsent,
                                struct choice *c)
{
    const struct config_retention *rule = &u->cfg->retention;
    wall_t wall = clock_wall();
    size_t most = local->count + u->there.dump_count;
    struct lives l;
    lives_load(u->dirfd, &l);
    c->items = xcalloc(most + 1, sizeof *c->items);
    c->of = xcalloc(most + 1, sizeof *c->of);
    for (size_t i = 0; i < local->count; i++) {
        const struct catalog_entry *x = &local->list[i];
        struct copy_dump *d = copies_dump(&u->there, x->m.name);
        if (!x->intact || x->abandoned || (d && (d->bad || d->attempt)))
            continue;
        c->of[c->count] = (struct choice_of){x, NULL};
        c->items[c->count++] = (struct retention_item){.generation = x->m.generation,
                                                       .sequence = x->m.sequence,
                                                       .at = x->m.at,
                                                       .intact = unsent};
    }
    for (size_t i = 0; i < u->there.dump_count; i++) {
        struct copy_dump *d = &u->there.dumps[i];
        if (!d->attempt)
            continue;
        const struct catalog_entry *here = catalog_find(local, d->name);
        c->of[c->count] = (struct choice_of){NULL, d};
        c->items[c->count++] = (struct retention_item){
            .generation = d->generation,
            .sequence = d->sequence,
            .at = d->at,
            .intact = !d->damaged,
            .abandoned = here ? here->abandoned : upload_abandoned(&l, d, u->cfg->name)};
    }
    wall_t now = retention_now(c->items, c->count, u->cfg->dump_interval, wall);
    for (size_t i = 0; i < c->count; i++) {
        const struct copy_dump *d = c->of[i].there;
        const struct catalog_entry *x = d ? catalog_find(local, d->name) : c->of[i].here;
        struct pin there = d ? pin_there(d) : (struct pin){0};
        c->items[i].pinned = pin_holds(&there, rule, now) || (x && pin_holds(&x->pin, rule, now));
    }
    retention_choose(c->items, c->count, rule, now, wall);
}

static bool upload_dumps_newer(const struct retention_item *a, const struct retention_item *b)
{
    return a->generation != b->generation ? a->generation > b->generation
                                          : a->sequence > b->sequence;
}

/* Finds the newest dump that must be sent, and the oldest of those that are pinned; NULL: none. */
static void next_dump(struct upload *u, const struct choice *c, const struct catalog_entry **dump,
                      const struct catalog_entry **pinned)
{
    const struct retention_item *stored = NULL, *next = NULL, *oldest = NULL;
    u->figures.known = u->figured = true;
    u->figures.waiting = u->figures.stored = 0;
    u->figures.since = (wall_t){0};
    u->figures.newest[0] = '\0';
    for (size_t i = 0; i < c->count; i++) {
        const struct retention_item *x = &c->items[i];
        u->figures.stored += c->of[i].there && x->intact;
        if (c->of[i].there && x->intact && (!stored || upload_dumps_newer(x, stored))) {
            stored = x;
            snprintf(u->figures.newest, sizeof u->figures.newest, "%s", c->of[i].there->name);
            u->figures.newest_at = c->of[i].there->at;
        }
        if (!c->of[i].here || (!x->keep && !u->cfg->offsite.delete_never))
            continue;
        u->figures.waiting++;
        if (!next || upload_dumps_newer(x, next)) {
            next = x;
            *dump = c->of[i].here;
        }
        if (x->pinned && (!oldest || upload_dumps_newer(oldest, x))) {
            oldest = x;
            *pinned = c->of[i].here;
        }
    }
    for (size_t i = 0; i < c->count; i++) {
        const struct catalog_entry *x = c->of[i].here;
        if (!x || (stored && !upload_dumps_newer(&c->items[i], stored)))
            continue;
        wall_t came = {x->m.at.ms + x->m.took_ms};
        if (!u->figures.since.ms || came.ms < u->figures.since.ms)
            u->figures.since = came;
    }
}

/* ---- sending ---- */

/* Sends the manifest last, with size and SHA-256 of the copy. The manifest makes the dump count
 * as stored. */
static enum remote_result send_manifest(struct upload *u, const struct catalog_entry *x,
                                        const struct manifest_copy *copy, struct err *e)
{
    char name[COPY_NAME_MAX];
    struct transfer_stored stored;
    struct manifest m = x->m; /* borrows its lists */
    m.copy = *copy;
    copy_manifest_name(name, u->cfg->name, m.name);
    SCOPED(xfree) char *text = manifest_text(&m, e);
    if (!text)
        return REMOTE_STOPPED;
    enum remote_result got = upload_ours(u, e);
    if (got == REMOTE_OK)
        got = transfer_put_text(&u->t, name, text, &stored, e);
    fault_point("offsite.manifest_sent");
    return got == REMOTE_OK ? transfer_check(&u->t, name, &stored, e) : got;
}

/* Remembers that the dump is ours before its manifest is sent: this world may be of a later
 * generation by the time that the manifest is seen in the store. */
static void upload_dumps_vouch(struct upload *u, struct copy_dump *d, const struct manifest *m)
{
    d->ours = d->sending = u->unsaved = true;
    memcpy(d->sha256, m->sha256, sizeof d->sha256);
    memcpy(d->nonce, m->nonce, sizeof d->nonce);
    upload_remember(u);
}

/* Records that the local file does not match its manifest. No manifest is sent, so the copy does
 * not count, and a recorded dump is not chosen again. The supervisor reports the damaged dump; it
 * is no failure of the copies. */
static enum remote_result damaged_here(struct upload *u, const struct catalog_entry *x,
                                       struct err *e)
{
    static const char why[] = "its SHA-256 does not match the manifest";
    if (proof_damaged(u->dirfd, x->m.name, "store upload", why, e) == 0) {
        log_line(LOG_WARN_, "dump %s is not copied to the store: %s", x->m.name, why);
        return REMOTE_OK;
    }
    err_step(e, "dump %s is damaged, which cannot be recorded", x->m.name);
    return REMOTE_STOPPED;
}

/* Sends a dump. Each name is used only once. What an earlier attempt left under the first name
 * may be incomplete or complete, which only reading it would show. Sending it again under the
 * next name costs less than a wrong guess. */
static enum remote_result send_dump(struct upload *u, const struct catalog_entry *x, struct err *e)
{
    const bool sealed = u->t.recipients.count > 0;
    struct copy_dump *d = copies_add_dump(&u->there, x->m.name, u->cfg->name);
    struct transfer_stored stored;
    char name[COPY_NAME_MAX];
    unsigned attempt = 1;
    while (attempt <= COPY_TRIES && d->files & 1U << (attempt - 1))
        attempt++;
    if (attempt > COPY_TRIES) {
        err_set(e, ERR_REFUSED, 0, "%s: %u interrupted uploads of it are in the store", x->m.name,
                COPY_TRIES);
        err_hint(
            e,
            "the next dump is sent; this one too, as soon as you have deleted %s/dumps/%s*.gz* "
            "in the store",
            u->cfg->name, x->m.name);
        return REMOTE_REFUSED;
    }
    SCOPED(xfree) char *file = xasprintf("%s.sql.gz", x->m.name);
    SCOPED(file_close) int fd = file_open_own(u->dirfd, file, O_RDONLY, e);
    if (fd < 0)
        return REMOTE_STOPPED;
    copy_file_name(name, u->cfg->name, x->m.name, attempt, sealed);
    d->files |= 1U << (attempt - 1); /* it may be stored, whatever the answer is */
    enum remote_result got = upload_file(u, name, fd, 0, x->m.file_size, &stored, e);
    if (got == REMOTE_OK && strcmp(stored.plain_sha256, x->m.sha256) != 0)
        return damaged_here(u, x, e);
    if (got != REMOTE_OK)
        return got;
    struct manifest_copy copy = {.size = stored.size};
    snprintf(copy.file, sizeof copy.file, "%s", strrchr(name, '/') + 1);
    memcpy(copy.sha256, stored.sha256, sizeof copy.sha256);
    fault_point("offsite.file_stored");
    upload_dumps_vouch(u, d, &x->m);
    got = send_manifest(u, x, &copy, e);
    if (got != REMOTE_OK)
        return got;
    d->manifest = true;
    d->sending = d->bad = false;
    d->attempt = attempt;
    snprintf(u->done.name, sizeof u->done.name, "%s", x->m.name);
    u->done.dump = true;
    u->done.bytes = stored.size;
    u->next_tidy = clock_mono();
    u->unsaved = true;
    return REMOTE_OK;
}

/* ---- deleting ---- */

static enum remote_result delete_files(struct upload *u, const struct copy_dump *d, unsigned files,
                                       struct err *e)
{
    char name[COPY_NAME_MAX];
    enum remote_result got = REMOTE_OK;
    for (unsigned i = 1; i <= COPY_TRIES && got == REMOTE_OK; i++)
        for (unsigned sealed = 0; sealed < 2 && files & 1U << (i - 1) && got == REMOTE_OK;
             sealed++) {
            copy_file_name(name, u->cfg->name, d->name, i, sealed);
            got = upload_delete(u, name, e);
        }
    return got;
}

static enum remote_result delete_pin(struct upload *u, struct copy_dump *d, struct err *e)
{
    char name[COPY_NAME_MAX];
    copy_pin_name(name, u->cfg->name, d->name);
    enum remote_result got = d->pin.there ? upload_delete(u, name, e) : REMOTE_OK;
    if (got == REMOTE_OK)
        d->pin = (struct copy_pin){.there = false};
    return got;
}

/* Deletes the manifest first: without it, the other files are not a dump, and a kill in between
 * leaves nothing that looks like one. */
static enum remote_result delete_dump(struct upload *u, struct copy_dump *d, struct err *e)
{
    char name[COPY_NAME_MAX];
    copy_manifest_name(name, u->cfg->name, d->name);
    enum remote_result got = upload_delete(u, name, e);
    d->manifest = false;
    d->attempt = 0;
    u->unsaved = true;
    if (got == REMOTE_OK)
        got = delete_pin(u, d, e);
    if (got == REMOTE_OK)
        got = delete_files(u, d, d->files, e);
    d->files = got == REMOTE_OK ? 0 : d->files;
    return got;
}

/* Deletes files of interrupted uploads: no manifest says that they are complete. */
static enum remote_result delete_left(struct upload *u, struct err *e)
{
    enum remote_result got = REMOTE_OK;
    wall_t now = clock_wall();
    for (size_t i = 0; i < u->there.dump_count && got == REMOTE_OK; i++) {
        struct copy_dump *d = &u->there.dumps[i];
        unsigned left = d->files & ~(d->attempt ? 1U << (d->attempt - 1) : 0);
        bool may_come = d->sending || d->at.ms > now.ms - LEFT_MS; /* the manifest may come */
        bool pin = d->pin.there && !d->manifest;
        if (!(left || pin) || d->bad || (!d->attempt && may_come))
            continue;
        got = pin ? delete_pin(u, d, e) : REMOTE_OK;
        if (got == REMOTE_OK)
            got = delete_files(u, d, left, e);
        d->files &= got == REMOTE_OK ? ~left : ~0U;
    }
    return got;
}

/* Deletes what is not kept of the dumps in the store. A local dump does not count as one of those
 * that are kept, because it may never arrive there. */
static enum remote_result upload_dumps_tidy(struct upload *u, const struct catalog *local,
                                            struct err *e)
{
    SCOPED(choice_free) struct choice c = {0};
    enum remote_result got = REMOTE_OK;
    u->next_tidy = mono_add(clock_mono(), TIDY_MS);
    if (u->cfg->offsite.delete_never)
        return REMOTE_OK;
    upload_dumps_choose(u, local, false, &c);
    for (size_t i = 0; i < c.count && got == REMOTE_OK; i++)
        if (c.of[i].there && !c.items[i].keep)
            got = delete_dump(u, c.of[i].there, e);
    if (got == REMOTE_OK)
        got = delete_left(u, e);
    if (got == REMOTE_OK)
        upload_sweep(u, "dumps");
    return got == REMOTE_OK ? upload_ledgers_tidy(u, e) : got;
}

/* ---- pins ---- */

enum pin_step { PIN_STAYS, PIN_SEND, PIN_DELETE };

/* Decides what becomes of a dump's pin in the store. A dump that is here has there the pin that it
 * has here; a weaker one is deleted first, because no name is used twice. A pin that this machine
 * never had stays: the dump may have been fetched from there without it. Pure. */
static enum pin_step pin_next(const struct catalog_entry *here, const struct copy_dump *d)
{
    struct pin there = pin_there(d);
    if (!here || !d->attempt || here->pin.unread)
        return PIN_STAYS;
    if (here->pin.kind == PIN_NONE)
        return d->pin.there && d->pin.had ? PIN_DELETE : PIN_STAYS;
    if (!d->pin.there)
        return PIN_SEND;
    return d->pin.unread || pin_outlasts(&here->pin, &there) ? PIN_DELETE : PIN_STAYS;
}

static enum remote_result send_pin(struct upload *u, struct copy_dump *d,
                                   const struct catalog_entry *here, struct err *e)
{
    char name[COPY_NAME_MAX];
    SCOPED(buf_free) struct buf text = {0};
    SCOPED(xfree) char *file = xasprintf("%s" PIN_ENDING, d->name);
    copy_pin_name(name, u->cfg->name, d->name);
    if (file_read(u->dirfd, file, PIN_MAX, &text, e) < 0)
        return REMOTE_STOPPED;
    enum remote_result got = upload_text(u, name, text.p, e);
    if (got == REMOTE_OK)
        know_pin(d, &here->pin);
    return got;
}

static enum remote_result send_round(struct upload *u, uint64_t number, struct err *e)
{
    enum remote_result got = upload_ours(u, e);
    if (got == REMOTE_OK)
        got = rounds_write(&u->t, u->cfg->name, number, e);
    u->round = got == REMOTE_OK ? number : u->round;
    return got;
}

/* What is to be done next. */
struct plan {
    struct catalog local;
    const struct catalog_entry *dump, *pinned; /* to be sent; in `local`; NULL: none */
    struct upload_ledgers_step ledgers;
    struct copy_dump *pin; /* its pin must be sent or deleted; NULL: none */
    enum pin_step pin_step;
};

static void plan_free(struct plan *p)
{
    catalog_free(&p->local);
}

/* Compares what is here with what is in the store, and sets the figures. */
static int upload_dumps_plan(struct upload *u, struct plan *p, struct err *e)
{
    SCOPED(choice_free) struct choice c = {0};
    if (catalog_load(u->dirfd, u->cfg->name, &p->local, e) < 0)
        return -1;
    upload_dumps_choose(u, &p->local, true, &c);
    next_dump(u, &c, &p->dump, &p->pinned);
    if (upload_ledgers_choose(u, &p->ledgers, e) < 0)
        return -1;
    u->figures.waiting += p->ledgers.waiting;
    wall_t since = p->ledgers.since;
    if (since.ms && (!u->figures.since.ms || since.ms < u->figures.since.ms))
        u->figures.since = since;
    return 0;
}

/* Compares the pins that are here with those in the store. */
static void plan_pins(struct upload *u, struct plan *p)
{
    for (size_t i = 0; i < u->there.dump_count; i++) {
        struct copy_dump *d = &u->there.dumps[i];
        const struct catalog_entry *here = catalog_find(&p->local, d->name);
        bool pinned = here && here->pin.kind != PIN_NONE && !here->pin.unread;
        bool had = here && d->pin.there && (d->pin.had || pinned);
        u->unsaved |= had != d->pin.had;
        d->pin.had = had;
        enum pin_step step = pin_next(here, d);
        if (step == PIN_DELETE && u->cfg->offsite.delete_never)
            step = PIN_STAYS;
        if (step != PIN_STAYS && !p->pin) {
            p->pin = d;
            p->pin_step = step;
        } else if (step == PIN_STAYS && d->pin.there && d->pin.unread) {
            struct err why = {0};
            err_set(&why, ERR_REFUSED, 0,
                    "the pin of dump %s in the store cannot be read or verified: it keeps the dump",
                    d->name);
            err_hint(&why,
                     "if the dump need not be kept, delete %s/dumps/%s" PIN_ENDING " in the store",
                     u->cfg->name, d->name);
            upload_skip(u, &why);
        }
    }
}

static enum remote_result follow_pin(struct upload *u, const struct plan *p, struct err *e)
{
    u->unsaved = true;
    if (p->pin_step == PIN_SEND)
        return send_pin(u, p->pin, catalog_find(&p->local, p->pin->name), e);
    u->next_tidy = clock_mono();
    return delete_pin(u, p->pin, e);
}

void upload_dumps_figures(struct upload *u)
{
    SCOPED(plan_free) struct plan p = {0};
    struct err ignored;
    if (upload_dumps_plan(u, &p, &ignored) < 0)
        u->figures.known = false; /* the next step reports why */
}

enum remote_result upload_dumps(struct upload *u, bool *more, struct err *e)
{
    SCOPED(plan_free) struct plan p = {0};
    enum remote_result got = upload_ready(u, LOOK_MS, e);
    *more = false;
    if (got != REMOTE_OK)
        return got;
    struct copy_dump *d = u->fenced.cls ? NULL : upload_dumps_unread(u);
    if (d) {
        *more = true;
        if (u->read % SAVE_EACH == SAVE_EACH - 1)
            upload_remember(u);
        return read_next(u, d, e);
    }
    if (upload_dumps_plan(u, &p, e) < 0)
        return REMOTE_STOPPED;
    plan_pins(u, &p);
    upload_remember(u);
    /* Dumps may be made faster than they are sent, so everything else takes turns with them. */
    bool others = u->others_next || !p.dump, tidies = others && upload_tidy_due(u);
    bool begun = p.local.round > 1 && p.local.round > u->round;
    bool sends = p.dump || begun || p.ledgers.send || p.pin;
    if (u->fenced.cls || !u->owner.generation || !(sends || tidies))
        return REMOTE_OK;
    *more = sends || !upload_fresh(u);
    if (!upload_fresh(u))
        return REMOTE_OK;
    if (begun)
        return send_round(u, p.local.round, e);
    if (tidies) /* leaves others_next, because it is due after each dump and always comes first */
        return upload_dumps_tidy(u, &p.local, e);
    u->others_next = !others;
    if (others && p.pin)
        return follow_pin(u, &p, e);
    if (others && p.ledgers.send)
        return upload_ledgers_send(u, &p.ledgers.file, e);
    return send_dump(u, others && p.pinned ? p.pinned : p.dump, e);
}
