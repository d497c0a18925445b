/* --promote, --demote, --switch-over: which of two machines keeps a world ([standby]). The role in
 * state.json decides. It is written before any action that depends on it, so each command can be
 * repeated after a kill at any point. */
#include "actions/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "actions/from.h"
#include "actions/lease_keep.h"
#include "actions/whose.h"
#include "base/fault.h"
#include "base/fence.h"
#include "base/file.h"
#include "base/js.h"
#include "dump/definitions.h"
#include "journal/archive.h"
#include "journal/chain.h"
#include "journal/segment_read.h"
#include "mysql/sentinel.h"
#include "offsite/doubts.h"
#include "offsite/fetch_ledgers.h"
#include "offsite/upload.h"
#include "restore/restore.h"
#include "restore/result.h"
#include "restore/set_aside.h"
#include "standby/handover.h"
#include "standby/pull.h"
#include "store/lives.h"

/* To step back, the role is saved first and the tables are moved away after it. To take over, the
 * world is loaded first and the role is saved last. After a crash in between, this machine is a
 * standby, possibly with tables. Then --demote removes them, or --promote makes them the world. */

#define STORED_MS                                                                                  \
    60000 /* time limit until the end of the journal is stored, while the game's writes wait */
#define LOOK_MS 200

int action_allowed(const struct action_context *a, const struct request *r, struct err *e)
{
    const struct state *s = &a->state;
    bool writes = r->action == ACTION_DUMP || (r->action == ACTION_RESTORE && request_swaps(r)) ||
                  r->action == ACTION_ROLLUP || r->action == ACTION_WRITE_BACK ||
                  r->action == ACTION_RELEASE || r->apply || r->action == ACTION_NEW_ROUND ||
                  (r->action == ACTION_INIT && s->role == ROLE_STANDBY);
    if (!writes || !state_standby(s, a->cfg))
        return 0;
    err_set(e, ERR_REFUSED, 0, "this machine is a standby of world %s, which another machine keeps",
            a->cfg->name);
    return err_hint(e,
                    "worldkeeper --promote%s takes the world over; run --status on the other "
                    "machine to see whether it is up",
                    a->cfg->standby.lease == LEASE_NONE ? " --by-hand" : "");
}

static int need_standby(const struct action_context *a, const struct request *r, struct err *e)
{
    const struct config *c = a->cfg;
    if (!c->standby.given) {
        err_set(e, ERR_CONFIG, 0, "%s has no [standby] section: there is no other machine",
                c->path);
        return err_hint(e, "to set one up, see worldkeeper-standby(7)");
    }
    if (r->action == ACTION_DEMOTE || state_standby(&a->state, c) == (r->action == ACTION_PROMOTE))
        return 0;
    return r->action == ACTION_PROMOTE
               ? err_set(e, ERR_REFUSED, 0, "this machine already keeps world %s", c->name)
               : err_set(e, ERR_REFUSED, 0, "this machine is already a standby of world %s",
                         c->name);
}

/* ---- --promote ---- */

/* Requires a confirmation that the other machine has stopped. This machine cannot see it; only the
 * other machine or an operator can confirm it. */
static int need_word(struct action_context *a, const struct request *r, const struct pull *p,
                     const struct handover *h, const struct err *ignored, struct err *e)
{
    char t[TEXT_SHORT];
    if (a->cfg->standby.lease != LEASE_NONE || r->force || h->generation)
        return 0;
    bool odd = ignored->cls != ERR_NONE;
    err_set(e, ERR_REFUSED, 0,
            "nothing proves that the other machine has stopped%s%s; its newest copy in the store "
            "is of %s. If two machines keep one world, players write into both, and the rows of "
            "one machine are lost",
            odd ? ": " : "", odd ? ignored->text : "",
            p->moment.ms ? text_utc(p->moment, t) : "an unknown time");
    return err_hint(
        e, "first make sure that its supervisor is stopped, or that the machine is off, and that "
           "no game server can reach its database; then: worldkeeper --promote --by-hand --force");
}

#define UNSEEN_LIVES 100 /* begun by the lost machine since the store was last read */

/* Returns true if the error that a read of the store ended with shows that the store is not
 * available. An error of this machine, such as a full disk, does not show that: the store may have
 * newer data, which a promotion without the store would lose. The store is listed again, because a
 * single request may fail, and a mounted store has errors of the same class as the local disk. */
static bool store_lost(const struct pull *p, const struct err *e)
{
    SCOPED(copies_free) struct copies there = {0};
    struct remote *store = NULL;
    struct err none;
    if (e->cls == ERR_BUSY || e->cls == ERR_DAMAGED || e->cls == ERR_NOSPACE ||
        e->cls == ERR_CONFIG)
        return false;
    bool answers = remote_open(p->cfg, &store, &none) == REMOTE_OK &&
                   copies_load_dumps(store, p->cfg->name, &there, &none) == REMOTE_OK;
    remote_close(store);
    return !answers;
}

/* With --force, promotes the data that is here (rule 5). Newer data in the store is not used. */
static int do_without(struct action_context *a, const struct request *r, struct pull *p,
                      struct err *e)
{
    bool lease = a->cfg->standby.lease != LEASE_NONE;
    struct err why = *e;
    char t[TEXT_SHORT];
    if (!store_lost(p, e))
        return e->cls == ERR_UNREACHABLE || e->cls == ERR_STALLED
                   ? err_hint(e, "the store answers now, and may have newer data: repeat the "
                                 "command; if one object stays unreadable, move it away from "
                                 "there")
                   : -1;
    if (pull_here(p, e) < 0)
        return err_step(e, "reading what is here");
    if (!p->newest.name[0])
        return err_pass(e, &why);
    text_utc(p->moment, t);
    if (!r->force) {
        err_clear(e);
        err_pass(e, &why);
        return err_hint(e,
                        "worldkeeper --list --from offsite tests the store. If the store is "
                        "lost%s: worldkeeper --promote%s --force promotes the local data, of %s",
                        lease ? "" : ", and you have made sure that the other machine is down",
                        lease ? "" : " --by-hand", t);
    }
    err_clear(e);
    SCOPED(xfree) char *note =
        xasprintf("%s; the local data, of %s, is promoted. The record of the world is written when "
                  "the store answers; nothing is stored before that",
                  why.text, t);
    action_note(a, note);
    uint64_t newest = p->newest.generation > p->lives.now.generation ? p->newest.generation
                                                                     : p->lives.now.generation;
    if (newest > a->state.generation)
        a->state.generation = newest;
    a->state.generation += UNSEEN_LIVES;
    return 0;
}

/* Requires --force if the store has data that it does not return: it is newer than what is here,
 * and may be readable later. */
static int need_readable(struct action_context *a, const struct request *r, const struct pull *p,
                         struct err *e)
{
    char t[TEXT_SHORT];
    if (!p->fetch.unread || !p->newest.name[0])
        return 0;
    if (r->force) {
        action_note(a, p->skipped.text);
        return 0;
    }
    err_pass(e, &p->skipped);
    return err_hint(e,
                    "the store answers, and has newer data: repeat the command; if the data stays "
                    "unreadable, worldkeeper --promote%s --force promotes the local data, of %s",
                    a->cfg->standby.lease != LEASE_NONE ? "" : " --by-hand",
                    text_utc(p->moment, t));
}

/* Requires the world that was handed over, complete or not at all. The store may not list all of it
 * yet. With --force the handover of another life is forgotten: it proves nothing about the dump
 * that is promoted. */
static int need_life(const struct request *r, const struct pull *p, struct handover *h,
                     struct err *e)
{
    const struct manifest *m = &p->newest;
    if (!h->generation || handover_is_of(h, m->generation, m->nonce))
        return 0;
    if (r->force) {
        *h = (struct handover){0};
        return 0;
    }
    err_set(e, ERR_REFUSED, 0,
            "the other machine handed over generation %" PRIu64
            " of this world, but the newest dump here is %s, of another life of the world",
            h->generation, m->name);
    return err_hint(e, "worldkeeper --list --from offsite shows what the store has; try again when "
                       "it has a dump of that generation");
}

/* Requires that the record, which was read after the handover, still names the life that was handed
 * over. Without a lease both machines may be promoted at the same time, and the first one takes up
 * the handover: then it no longer proves that the other machine has stopped. */
static int need_unclaimed(const struct request *r, const struct succession *s,
                          const struct handover *h, struct err *e)
{
    const struct life *now = &s->before.now;
    return !s->t || r->force || !h->generation || handover_is_of(h, now->generation, now->nonce)
               ? 0
               : succession_changed(&s->before, e);
}

static int nothing_to_take(const struct action_context *a, struct err *e)
{
    SCOPED(catalog_free) struct catalog c = {0};
    if (catalog_load(a->job.dirfd, a->cfg->name, &c, e) < 0)
        return -1;
    size_t i = 0;
    while (i < c.count && !(c.list[i].intact && c.list[i].earlier))
        i++;
    if (i == c.count)
        return err_set(e, ERR_NOTHING, 0, "the store has no dump of world %s", a->cfg->name);
    err_set(e, ERR_NOTHING, 0,
            "the store has no dump of the current round (%" PRIu64
            ") of world %s: the other machine began that round and stored no dump of it",
            c.round, a->cfg->name);
    return err_hint(e,
                    "to load the newest dump of the previous round into another schema: "
                    "worldkeeper --restore=%s --into SCHEMA",
                    c.list[i].m.name);
}

/* Takes over the world. Dumps and uploads begin when the supervisor sees the end of the
 * promotion. */
static int standby_take_over(struct action_context *a, const struct request *r, struct pull *p,
                             const struct lease_keep *lease, json_t **result, struct err *e)
{
    SCOPED(restore_result_free) struct restore_result res = {0};
    struct restore_options opt = {.mode = RESTORE_PROMOTION,
                                  .newest = true,
                                  .fetched = true,
                                  .with_code = r->with_code,
                                  .state = &a->state};
    struct handover handed_over = {0};
    struct succession next = {.a = a, .lease = lease};
    struct err late, ignored = {0};
    if (pull_step(p, e) < 0 || handover_read(&p->fetch.t, a->cfg->name, p->newest.generation,
                                             &handed_over, &ignored, e) < 0) {
        err_step(e, "reading the store");
        if (do_without(a, r, p, e) < 0)
            return -1;
    } else {
        next.t = &p->fetch.t;
        if (p->skipped.cls != ERR_NONE)
            action_note(a, p->skipped.text);
    }
    if (!p->newest.name[0])
        return nothing_to_take(a, e);
    if (need_readable(a, r, p, e) < 0 || need_word(a, r, p, &handed_over, &ignored, e) < 0 ||
        need_life(r, p, &handed_over, e) < 0)
        return -1;
    if (handed_over.position.file[0] && !r->force)
        opt.reach = &handed_over.position;
    fault_point("promote.fetched");
    if ((next.t && fetch_above(&p->fetch, &a->state.generation, e) < 0) ||
        succession_read(&next, &p->newest, e) < 0 || need_unclaimed(r, &next, &handed_over, e) < 0)
        return -1;
    next.handed_over = handed_over.generation > 0;
    if (next.before.now.generation > a->state.generation) /* of a life without stored data */
        a->state.generation = next.before.now.generation;
    opt.begins = succession_begin;
    opt.begins_arg = &next;
    int rc = restore_run(&a->job, &opt, &res, e);
    *result = restore_json(&res);
    if (rc < 0)
        return -1;
    char t[TEXT_SHORT];
    wall_t to = res.journal.used && !res.journal.gap[0] && p->moment.ms > res.dump_at.ms ? p->moment
                : res.journal.used && res.journal.gap_at.ms ? res.journal.gap_at
                                                            : res.dump_at;
    /* The reached position is compared, because the absence of errors is no proof. */
    bool complete = res.journal.whole || (res.journal.used && !res.journal.part);
    /* A gap after that position is not a loss. Where MySQL logs them, the renames of the tables
     * that were handed over are such a gap: the position does not pass a gap. */
    bool all = handover_reached(&handed_over, &res.made.upto) && complete;
    SCOPED(xfree) char *lost =
        xasprintf("lost: changes after %s that the other machine had not stored; views, triggers, "
                  "routines and events are those of dump %s",
                  text_utc(to, t), res.dump);
    json_object_set_new(*result, "restored_to", json_string(t));
    json_object_set_new(*result, "lost_seconds", js_known(all, 0));
    json_object_set_new(*result, "lost_seconds_max", js_known(all, 0));
    json_object_set_new(*result, "lost", json_string(all ? "nothing lost" : lost));
    json_object_set_new(*result, "recorded", json_boolean(next.t != NULL));
    fault_point("promote.swapped");
    a->state.role = ROLE_PRIMARY;
    state_restored(&a->state, &res.made);
    if (action_remember(a, res.made.nonce, res.generation, &res.server, e) < 0) {
        a->state.role = ROLE_STANDBY; /* as on disk, so that it can be repeated */
        return err_step(e, "the world is on this machine, but");
    }
    action_adopt(a);
    if (next.t && handover_clear(next.t->store, a->cfg->name, &late) < 0)
        action_note(a, late.text);
    json_object_set_new(*result, "state", state_json(&a->state));
    return 0;
}

int action_promote(struct action_context *a, const struct request *r, json_t **result,
                   struct err *e)
{
    struct pull p = {.cfg = a->cfg, .dirfd = a->job.dirfd, .progress = a->job.progress};
    if (need_standby(a, r, e) < 0)
        return -1;
    if (a->cfg->standby.lease == LEASE_NONE && !r->by_hand) {
        err_set(e, ERR_REFUSED, 0, "[standby] lease = none: an operator must decide this");
        return err_hint(e, "worldkeeper --promote --by-hand");
    }
    if (a->cfg->standby.lease != LEASE_NONE && r->by_hand)
        return err_set(e, ERR_USAGE, 0, "--by-hand is only for [standby] lease = none");
    struct lease_keep lease;
    int rc = lease_keep_take(&lease, a, e);
    bool taken = lease.grant.number > 0; /* even if it could not be recorded */
    if (rc == 0)
        rc = standby_take_over(a, r, &p, &lease, result, e);
    else if (a->cfg->standby.lease == LEASE_S3 && e->cls != ERR_REFUSED && !e->hint[0])
        err_hint(
            e,
            "the lease is in the store; without the store nothing shows whether the other machine "
            "keeps the world. If the store and the other machine are lost: [standby] lease = none "
            "in this machine's config, then worldkeeper --promote --by-hand --force");
    pull_close(&p);
    if (rc == 0)
        lease_keep_publish(&lease);
    lease_keep_end(&lease);
    if (rc < 0 && taken && state_standby(&a->state, a->cfg))
        lease_keep_release(a, false);
    else if (rc < 0 && fence_made() && state_standby(&a->state, a->cfg))
        fence_set((mono_t){0});
    return rc;
}

/* ---- --demote and --switch-over ---- */

/* Steps back: from here on this machine does not keep the world. Its segments belong to a world
 * that may continue elsewhere. */
static int step_back(struct action_context *a, struct err *e)
{
    enum state_role was = a->state.role;
    if (pull_set_aside(a->cfg, e) < 0)
        return -1;
    if (a->stepping_back)
        a->stepping_back(a->emit_arg);
    a->state.role = ROLE_STANDBY;
    if (state_save(a->job.dirfd, &a->state, e) < 0) {
        a->state.role = was;
        return -1;
    }
    fault_point("demote.stepped_back");
    return 0;
}

/* Returns the result of --demote and --switch-over. The state is for the supervisor, which removes
 * it from what clients see. */
static json_t *aside_json(const struct action_context *a, const struct set_aside *s)
{
    json_t *o = json_pack("{s:s, s:I}", "role", "standby", "conflict_rows", (json_int_t)s->rows);
    SCOPED(xfree) char *path = xasprintf("%s/%s", a->cfg->dump_dir, s->file);
    json_object_set_new(o, "conflict_file", s->rows ? json_string(path) : json_null());
    json_object_set_new(o, "state", state_json(&a->state));
    return o;
}

/* Does the store have a later world than ours? Returns 1, 0, or -1 on error. */
static int is_elsewhere(struct action_context *a, struct err *e)
{
    SCOPED(fetch_close) struct fetch f = {0};
    if (fetch_open(&f, a->cfg, a->job.dirfd, a->job.progress, e) < 0)
        return -1;
    for (size_t i = 0; i < f.there.dump_count; i++)
        if (f.there.dumps[i].manifest && f.there.dumps[i].generation > a->state.generation)
            return 1;
    return 0;
}

static int may_demote(struct action_context *a, const struct request *r, struct err *e)
{
    struct db_sentinel now = {0};
    struct lives newest;
    struct err why = {0};
    if (r->force || state_standby(&a->state, a->cfg) || lease_keep_ask(a, &why) < 0)
        return 0;
    struct db *db = db_open(&a->job.db, &why);
    bool lives = db && db_sentinel_read(db, a->cfg->schema, a->cfg->sentinel, &now, &why) == 0 &&
                 now.rows > 0;
    db_close(db);
    enum record_says says = lives ? action_whose(a, &newest, &why) : RECORD_NONE;
    if (!lives || says == RECORD_ANOTHERS || says == RECORD_DAMAGED)
        return 0;
    /* Version 0.2 writes no record, so the store's dumps are examined. */
    int elsewhere = is_elsewhere(a, &why);
    if (elsewhere == 1)
        return 0;
    err_set(e, ERR_REFUSED, 0, "the world is up here, and %s%s",
            elsewhere < 0 ? "the store does not show whether another machine has it: "
                          : "the store has no later record of another machine",
            elsewhere < 0 ? why.text : "");
    /* What is safe depends on which of the two cases this is. Without a lease this machine cannot
     * know. */
    if (elsewhere < 0)
        return err_hint(
            e, "worldkeeper --list --from offsite tests the store; then repeat the command");
    if (a->cfg->standby.lease == LEASE_NONE)
        return err_hint(
            e, "if the other machine also keeps the world: --demote --force saves this machine's "
               "rows to a conflict file; otherwise: --switch-over hands the world over");
    return err_hint(e, "worldkeeper --switch-over hands the world over without loss");
}

/* Demotes this machine. It steps back before the rows are saved. From then on no process here
 * treats the world as its own, even after a failure. */
int action_demote(struct action_context *a, const struct request *r, json_t **result, struct err *e)
{
    SCOPED(set_aside_end) struct set_aside s = {0};
    if (need_standby(a, r, e) < 0 || may_demote(a, r, e) < 0 || step_back(a, e) < 0)
        return -1;
    lease_keep_release(a, true);
    int rc = set_aside_lock(&s, &a->job, e);
    if (rc == 0)
        rc = set_aside_save(&s, a->state.generation, e);
    if (rc == 0)
        rc = set_aside_rename(&s, e);
    *result = aside_json(a, &s);
    if (rc < 0)
        err_hint(e, "when the server answers, repeat worldkeeper --demote: it saves the rows and "
                    "renames the tables, so that the game cannot use them");
    return rc < 0 ? err_step(e, "this machine is now a standby, but") : 0;
}

/* How far the store must have the journal: all segments before this one, and its first bytes. More
 * is appended each second, which a slow store would never have. */
struct journal_end {
    uint64_t number, size;
};

/* Finds that end when the journal here has reached the position; number 0: not yet. */
static int find_end(const struct archive *here, int dirfd, const struct db_binlog_pos *to,
                    struct journal_end *end, struct err *e)
{
    const struct archive_segment *last = here->count ? &here->list[here->count - 1] : NULL;
    if (end->number || !last || db_binlog_pos_compare(&last->sum.to.point, to) < 0)
        return 0;
    if (segment_settled(dirfd, last->file, 0, &end->size, e) < 0)
        return -1;
    end->number = last->number;
    return 0;
}

/* Does the store have what is needed of the segment? Returns 1, 0, or -1 on error. A segment that
 * is gone was deleted after it was listed, because no dump needs it any longer: another look
 * tells. */
static int is_sent(const struct copies *there, int dirfd, const struct archive_segment *x,
                   const struct journal_end *end, struct err *e)
{
    uint64_t needed = end->size;
    if (x->number != end->number && segment_settled(dirfd, x->file, 0, &needed, e) < 0)
        return e->num == ENOENT ? 0 : -1;
    return copies_reach(there, x->number, x->head.made.ms) >= needed;
}

/* Lists what the store has. Returns 1; 0 if the list proves nothing; -1 on error. */
static int list_proven(const struct action_context *a, struct fetch *f, int dirfd,
                       const struct journal_end *end, struct err *e)
{
    SCOPED(doubts_free) struct doubts before = {.names = {0}}, after = {.names = {0}};
    if (doubts_read(dirfd, a->cfg->name, &before, e) < 0 || fetch_again(f, e) < 0)
        return -1;
    fault_point("switch.parts_listed");
    if (doubts_read(dirfd, a->cfg->name, &after, e) < 0)
        return -1;
    doubts_drop(&before, &f->there);
    doubts_drop(&after, &f->there);
    return doubts_allow(&before, &after, a->cfg->name, end->number, end->size);
}

/* Is the whole journal up to this position in the store and verified? Returns 1, 0, or -1 on
 * error. */
static int is_stored(const struct action_context *a, struct fetch *f,
                     const struct db_binlog_pos *to, struct journal_end *end, struct err *e)
{
    SCOPED(archive_free) struct archive here = {0};
    SCOPED(file_close) int dirfd = archive_dir(a->cfg, false, e);
    if (dirfd < 0 || archive_load(dirfd, a->cfg->name, &here, e) < 0 ||
        find_end(&here, dirfd, to, end, e) < 0)
        return -1;
    int proven = end->number ? list_proven(a, f, dirfd, end, e) : 0;
    if (proven != 1)
        return proven;
    const struct copy_dump *d = f->there.dump_count ? &f->there.dumps[0] : NULL;
    fault_point("switch.listed");
    for (size_t i = 0; i < here.count && here.list[i].number <= end->number; i++) {
        const struct archive_segment *x = &here.list[i];
        if (d && x->number < end->number && x->sum.to.at.ms < d->at.ms)
            continue; /* no dump in the store needs it */
        int sent = is_sent(&f->there, dirfd, x, end, e);
        if (sent != 1)
            return sent;
    }
    return d && d->manifest;
}

/* Waits until the store has the journal. The game's writes wait meanwhile. */
static int wait_stored(struct action_context *a, struct fetch *f, const struct db_binlog_pos *to,
                       struct err *e)
{
    mono_t until = mono_add(clock_mono(), STORED_MS);
    struct journal_end end = {0};
    int rc;
    progress_phase(a->job.progress, "waiting for the store", 0, 0);
    while ((rc = is_stored(a, f, to, &end, e)) == 0 && !mono_reached(clock_mono(), until)) {
        progress_at(a->job.progress, 0, 0);
        poll(NULL, 0, LOOK_MS);
    }
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    err_set(e, ERR_STALLED, 0, "the last part of the journal did not reach the store in time");
    return err_hint(
        e, "this machine still keeps the world; worldkeeper --status shows what delays the copies");
}

/* Waits until the store has the newest dump of this machine. It is uploaded first, while the game
 * can still write. */
static int wait_dump(struct action_context *a, struct fetch *f, struct err *e)
{
    SCOPED(catalog_free) struct catalog here = {0};
    mono_t until = mono_add(clock_mono(), STORED_MS);
    if (catalog_load(a->job.dirfd, a->cfg->name, &here, e) < 0)
        return -1;
    const struct catalog_entry *newest = catalog_newest(&here, 0);
    progress_phase(a->job.progress, "waiting for the store", 0, 0);
    while (newest && newest->m.generation == a->state.generation &&
           !mono_reached(clock_mono(), until)) {
        const struct copy_dump *d = copies_dump(&f->there, newest->m.name);
        if (d && d->manifest)
            break;
        progress_at(a->job.progress, 0, 0);
        poll(NULL, 0, LOOK_MS);
        if (fetch_again(f, e) < 0)
            return -1;
    }
    return 0;
}

/* Waits until the store has the files of rolled-up rows, which no journal has. */
static int wait_ledgers(struct action_context *a, struct fetch *f, struct err *e)
{
    mono_t until = mono_add(clock_mono(), STORED_MS);
    char name[LEDGER_FILE_NAME];
    int unsent;
    progress_phase(a->job.progress, "waiting for the store", 0, 0);
    while ((unsent = fetch_ledgers_unsent(f, name, e)) > 0 && !mono_reached(clock_mono(), until)) {
        progress_at(a->job.progress, 0, 0);
        poll(NULL, 0, LOOK_MS);
    }
    if (unsent <= 0)
        return unsent;
    err_set(e, ERR_STALLED, 0,
            "files of rolled-up rows did not reach the store in time: %s.csv.gz%s", name,
            unsent > 1 ? " and others" : "");
    return err_hint(e, "worldkeeper --status shows what holds up the copies; move a file that "
                       "cannot be sent to another directory");
}

static int need_journal(const struct action_context *a, struct err *e)
{
    const struct config *c = a->cfg;
    if (c->journal == JOURNAL_FOLLOW && c->offsite.segments)
        return 0;
    err_set(e, ERR_CONFIG, 0,
            "the journal is not in the store: changes since the last dump would be lost");
    return err_hint(e, "set [journal] mode = follow and [offsite] segments = yes");
}

/* Finds the newest usable dump in the store that the record does not abandon. Returns 1, 0 if there
 * is none, or -1 on error. */
static int newest_stored(const struct action_context *a, struct fetch *f, struct catalog_entry *out,
                         struct err *e)
{
    struct lives l;
    lives_load(a->job.dirfd, &l);
    for (size_t i = 0; i < f->there.dump_count; i++) {
        if (!f->there.dumps[i].manifest)
            continue;
        int got = fetch_manifest(f, &f->there.dumps[i], out, e);
        if (got < 0 || (got == 0 && out->intact && !lives_abandoned(&l, &out->m)))
            return got < 0 ? -1 : 1;
        manifest_free(&out->m);
    }
    return 0;
}

/* Hashes the schema's code as a dump with the tables of `m` does. It uses a separate connection,
 * because s->db holds table locks, under which it can read nothing else. Triggers of the locked
 * tables are listed at once, because nobody can alter these tables. */
static int hash_code(const struct action_context *a, const struct manifest *m, char hash[17],
                     struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    SCOPED(db_triggers_free) struct db_triggers triggers = {0};
    SCOPED(xfree) struct db_table *list = xcalloc(m->table_count + 1, sizeof *list);
    struct db_tables tables = {.list = list, .count = m->table_count};
    struct db *db = job_open(&a->job, e);
    for (size_t i = 0; i < m->table_count; i++)
        list[i].name = m->tables[m->by_name[i]].name;
    int rc = !db || db_lock_wait(db, a->cfg->restore_lock_wait, e) < 0 ||
                     db_triggers(db, a->cfg->schema, &triggers, e) < 0 ||
                     db_triggers_read(db, a->cfg->schema, &triggers, e) < 0
                 ? -1
                 : definitions_write(db, a->cfg->schema, &tables, &triggers, &text, hash, e);
    db_close(db);
    return rc < 0 ? err_step(e, "reading views, triggers, routines and events") : 0;
}

/* Checks that the store's newest dump and the journal lead to the current world. The game's writes
 * wait meanwhile, so none of this changes. */
static int need_chain(const struct action_context *a, const struct set_aside *s, struct fetch *f,
                      struct err *e)
{
    SCOPED(archive_free) struct archive here = {0};
    SCOPED(file_close) int dirfd = archive_dir(a->cfg, false, e);
    struct catalog_entry newest = {0};
    if (dirfd < 0 || archive_load(dirfd, a->cfg->name, &here, e) < 0)
        return -1;
    int got = newest_stored(a, f, &newest, e);
    char code[17] = "";
    if (got > 0 && hash_code(a, &newest.m, code, e) < 0)
        got = -1;
    struct chain c = {.m = got > 0 ? &newest.m : NULL,
                      .generation = a->state.generation,
                      .nonce = a->state.nonce,
                      .tables = &s->tables,
                      .code_hash = code,
                      .restores_all = a->cfg->restore_all,
                      .journal = &here};
    int rc = got < 0 ? -1 : chain_judge(&c, e);
    manifest_free(&newest.m);
    return rc;
}

/* Checks that the record names the life that is handed over. A standby ignores the dumps of a life
 * that the record does not name. */
static int need_recorded(struct action_context *a, struct err *e)
{
    struct life own = {.generation = a->state.generation};
    struct lives newest;
    snprintf(own.nonce, sizeof own.nonce, "%s", a->state.nonce);
    enum record_says says = action_whose(a, &newest, e);
    if (says == RECORD_UNKNOWN || says == RECORD_DAMAGED)
        return -1;
    if (says == RECORD_ANOTHERS)
        return action_taken_over(&newest, e);
    if (life_is(&newest.now, &own))
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "the record of the world in the store names another generation than %" PRIu64
            ", the one here",
            own.generation);
    return err_hint(e, "this machine still keeps the world; repeat the command: the supervisor "
                       "writes the record before it stores anything of a new generation");
}

static int bring_all(struct action_context *a, struct set_aside *s, struct fetch *f,
                     struct db_binlog_pos *end, struct err *e)
{
    db_binlog_pos(s->db, end);
    if (!end->file[0])
        return err_set(e, ERR_DENIED, 0, "the server does not report the end of its binary log");
    /* The chain is checked again after the wait, because only then the journal is known up to its
     * end. */
    if (need_chain(a, s, f, e) < 0 || wait_ledgers(a, f, e) < 0 || wait_stored(a, f, end, e) < 0 ||
        need_chain(a, s, f, e) < 0 || need_recorded(a, e) < 0)
        return -1;
    fault_point("switch.stored");
    return 0;
}

/* Hands over the world. The handover is recorded when no session can write to the world any longer
 * and no status says that it is up here; the lease is released after that. */
static int standby_hand_over(struct action_context *a, struct set_aside *s, struct fetch *f,
                             const struct db_binlog_pos *end, struct err *e)
{
    struct handover h = {.generation = a->state.generation, .position = *end};
    snprintf(h.nonce, sizeof h.nonce, "%s", a->state.nonce);
    int rc = set_aside_rename(s, e);
    lease_keep_withdraw(a);
    if (rc < 0) {
        err_step(e, "this machine is now a standby, but");
        err_hint(e, "when the server answers, repeat worldkeeper --demote: it saves what was "
                    "written since and renames the tables, so that the game cannot use them");
    } else if (handover_write(&f->t, a->cfg->name, &h, clock_wall(), e) < 0) {
        err_hint(e, "the whole world is in the store: run worldkeeper --promote on the other "
                    "machine (without a lease: worldkeeper --promote --by-hand --force)");
        rc = err_step(e, "this machine no longer keeps the world, but the handover was not "
                         "recorded in the store");
    }
    lease_keep_release(a, true);
    return rc;
}

/* Adds to the result what was handed over, and what follows. */
static void say_handed_over(const struct action_context *a, const struct db_binlog_pos *end,
                            json_t *o)
{
    json_object_set_new(o, "handed_over",
                        json_pack("{s:I, s:s, s:I}", "generation", (json_int_t)a->state.generation,
                                  "file", end->file, "pos", (json_int_t)end->pos));
    SCOPED(xfree) char *hint = xasprintf(
        "on the other machine, which refuses a world that ends elsewhere: worldkeeper --promote%s",
        a->cfg->standby.lease == LEASE_NONE ? " --by-hand" : "");
    json_object_set_new(o, "hint", json_string(hint));
}

/* Switches over. The game's writes wait from set_aside_lock() on. The switch happens only after the
 * store has the whole journal. */
int action_switch_over(struct action_context *a, const struct request *r, json_t **result,
                       struct err *e)
{
    SCOPED(set_aside_end) struct set_aside s = {0};
    SCOPED(fetch_close) struct fetch f = {0};
    struct db_binlog_pos end;
    if (need_standby(a, r, e) < 0 || need_journal(a, e) < 0 ||
        fetch_open(&f, a->cfg, a->job.dirfd, a->job.progress, e) < 0 || wait_dump(a, &f, e) < 0 ||
        wait_ledgers(a, &f, e) < 0 || set_aside_lock(&s, &a->job, e) < 0 ||
        bring_all(a, &s, &f, &end, e) < 0 || step_back(a, e) < 0)
        return err_step(e, "switch-over");
    int rc = standby_hand_over(a, &s, &f, &end, e);
    *result = aside_json(a, &s);
    if (rc == 0)
        say_handed_over(a, &end, *result);
    return rc;
}
