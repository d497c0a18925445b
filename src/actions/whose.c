/* Finds the machine that keeps the world, by the world's record in the store (offsite/record.h). It
 * is used for actions that no supervisor's fence covers, and for a promotion, which writes the
 * record. */
#include "actions/whose.h"

#include <stdio.h>
#include <string.h>

#include "actions/lease_keep.h"
#include "base/fault.h"
#include "base/fence.h"
#include "offsite/remote.h"

#define RECORD_TIMEOUT 5000 /* for one request, before a promotion takes the lease */

static void close_store(struct transfer *t)
{
    remote_close(t->store);
}

static struct life whose_life(uint64_t generation, const char *nonce)
{
    struct life own = {.generation = generation};
    snprintf(own.nonce, sizeof own.nonce, "%s", nonce);
    return own;
}

/* `own`: the life of the world here. */
static enum record_says whose_judge(struct action_context *a, const struct life *own,
                                    struct lives *newest, struct err *e)
{
    SCOPED(close_store) struct transfer t = {0};
    struct lives last;
    struct err ignored = {0};
    lives_load(a->job.dirfd, &last);
    *newest = (struct lives){0};
    bool read = remote_open(a->cfg, &t.store, e) == REMOTE_OK &&
                record_read(&t, a->cfg->name, &last, newest, &ignored, e) == 0;
    if (ignored.cls != ERR_NONE)
        action_note(a, ignored.text);
    if (!read && e->cls == ERR_DAMAGED)
        return RECORD_DAMAGED;
    return record_judge(read ? newest : NULL, a->state.holder, own, &last);
}

enum record_says action_whose(struct action_context *a, struct lives *newest, struct err *e)
{
    struct life own = whose_life(a->state.generation, a->state.nonce);
    return whose_judge(a, &own, newest, e);
}

int action_taken_over(const struct lives *newest, struct err *e)
{
    SCOPED(buf_free) struct buf who = {0};
    text_clean(&who, newest->machine, sizeof newest->machine);
    err_set(e, ERR_REFUSED, 0, "according to the record in the store, %s has taken this world over",
            who.p);
    return err_hint(e, "worldkeeper --demote makes this machine the standby of the other one");
}

static void whose_unknown(struct action_context *a, struct err *why)
{
    err_step(why, "it is unknown whether another machine has taken this world over");
    action_note(a, why->text);
}

int action_need_record(struct action_context *a, struct err *e)
{
    struct lives newest;
    struct err unknown = {0};
    if (!a->cfg->standby.given || state_standby(&a->state, a->cfg))
        return 0;
    enum record_says says = action_whose(a, &newest, &unknown);
    if (says == RECORD_UNKNOWN)
        whose_unknown(a, &unknown);
    if (says == RECORD_DAMAGED)
        return err_pass(e, &unknown);
    return says == RECORD_ANOTHERS ? action_taken_over(&newest, e) : 0;
}

int action_may_take(struct action_context *a, const struct lease_record *r, uint64_t *above,
                    struct err *e)
{
    struct lives newest, last;
    struct err why = {0};
    enum record_says says = action_whose(a, &newest, &why);
    lives_load(a->job.dirfd, &last);
    *above = a->state.lease_number > newest.number ? a->state.lease_number : newest.number;
    if (says == RECORD_ANOTHERS)
        return action_taken_over(&newest, e);
    bool unchanged = lease_unchanged(r, a->state.holder, a->state.lease_number);
    if (record_permits(says, unchanged, &last)) {
        if (says == RECORD_UNKNOWN || says == RECORD_DAMAGED)
            whose_unknown(a, &why);
        return 0;
    }
    err_pass(e, &why);
    if (says == RECORD_UNKNOWN)
        err_hint(e, "worldkeeper --list --from offsite tests the store; then repeat the command");
    return err_step(e, "cannot read the record of the world, and the lease does not prove that no "
                       "other machine has taken the world over");
}

int action_may_begin(struct action_context *a, const struct db_sentinel *here, struct err *e)
{
    struct life own = here->rows == 1 ? whose_life(here->generation, here->nonce)
                                      : whose_life(a->state.generation, a->state.nonce);
    struct lives newest;
    struct err unknown = {0};
    if (!a->cfg->standby.given || (fence_made() && fence_open()))
        return 0;
    enum record_says says = whose_judge(a, &own, &newest, &unknown);
    if (says == RECORD_UNKNOWN)
        whose_unknown(a, &unknown);
    if (says == RECORD_DAMAGED)
        return err_pass(e, &unknown);
    if (says != RECORD_ANOTHERS)
        return 0;
    SCOPED(buf_free) struct buf who = {0};
    text_clean(&who, newest.machine, sizeof newest.machine);
    err_set(e, ERR_REFUSED, 0, "according to the record in the store, %s keeps world %s", who.p,
            a->cfg->name);
    return err_hint(e,
                    "worldkeeper --promote%s takes that world over after the other machine has "
                    "stopped; for another world, set another [world] name or [offsite] url",
                    a->cfg->standby.lease == LEASE_NONE ? " --by-hand" : "");
}

uint64_t action_recorded(const struct action_context *a)
{
    SCOPED(close_store) struct transfer t = {0};
    struct config quick = *a->cfg;
    struct lives last, newest = {0};
    struct err ignored, failed;
    if (quick.offsite.timeout > RECORD_TIMEOUT)
        quick.offsite.timeout = RECORD_TIMEOUT;
    lives_load(a->job.dirfd, &last);
    bool read = remote_open(&quick, &t.store, &failed) == REMOTE_OK &&
                record_read(&t, quick.name, &last, &newest, &ignored, &failed) == 0;
    return read ? newest.number : last.number;
}

/* ---- a promotion ---- */

/* Reads the record from this machine if the store is unavailable. A lease shows that no other
 * machine has begun a life since, because that machine would have taken the lease first. */
static int whose_recall(struct succession *s, struct err *e)
{
    struct lives *l = &s->before;
    const struct lease_record *had = &s->lease->had;
    struct action_context *a = s->a;
    lives_load(a->job.dirfd, l);
    snprintf(s->replaced, sizeof s->replaced, "%s", l->unwritten ? l->replaced : l->machine);
    bool known = strcmp(had->holder, a->state.holder) == 0 ||
                 strcmp(had->holder, l->machine) == 0 || strcmp(had->holder, s->replaced) == 0;
    if (a->cfg->standby.lease == LEASE_NONE || !l->number || (had->number && known))
        return 0;
    char words[LEASE_WORDS];
    SCOPED(buf_free) struct buf who = {0};
    text_clean(&who, l->machine, sizeof l->machine);
    err_set(e, ERR_REFUSED, 0,
            "%s, and the last known record names %s: the local data may not belong to that world",
            had->number ? lease_words(had, words) : "cannot read who held the lease", who.p);
    return err_hint(e,
                    "worldkeeper --list --from offsite tests the store; then repeat the command");
}

int succession_read(struct succession *s, const struct manifest *newest, struct err *e)
{
    struct err ignored = {0};
    struct action_context *a = s->a;
    struct lives last;
    lives_load(a->job.dirfd, &last);
    if (state_keep_holder(&a->state, a->job.dirfd, e) < 0 ||
        (s->t ? record_read(s->t, a->cfg->name, &last, &s->before, &ignored, e)
              : whose_recall(s, e)) < 0)
        return -1;
    if (ignored.cls != ERR_NONE)
        action_note(a, ignored.text);
    /* In a store of version 0.2, the life of the dump is the one that ends. */
    if (!s->before.number) {
        s->before.now.generation = newest->generation;
        snprintf(s->before.now.nonce, sizeof s->before.now.nonce, "%s", newest->nonce);
    }
    return 0;
}

/* Writes the record to the store. Without the store it is saved here, and the uploads write it
 * before anything else (supervisor/offsite.c). */
static int write_down(const struct succession *s, struct lives *next, struct err *e)
{
    next->unwritten = !s->t;
    if (next->unwritten)
        memcpy(next->replaced, s->replaced, sizeof next->replaced);
    else if (record_write(s->t, s->a->cfg->name, next, e) < 0)
        return -1;
    return lives_save(s->a->job.dirfd, next, e);
}

int succession_changed(const struct lives *now, struct err *e)
{
    SCOPED(buf_free) struct buf who = {0};
    text_clean(&who, now->machine, sizeof now->machine);
    err_set(e, ERR_REFUSED, 0, "the record of this world changed meanwhile: %s now owns the world",
            now->machine[0] ? who.p : "nobody");
    return err_hint(e, "run worldkeeper --status on that machine to see whether it keeps the "
                       "world; if it does not, repeat worldkeeper --promote");
}

int succession_begin(void *arg, const struct state_made *made, uint64_t generation, struct err *e)
{
    const struct succession *s = arg;
    struct action_context *a = s->a;
    struct lives newest = s->before, last;
    struct err ignored;
    struct life now = {.generation = generation};
    struct ancestor took = {.pos = made->upto.pos};
    snprintf(now.nonce, sizeof now.nonce, "%s", made->nonce);
    snprintf(took.dump, sizeof took.dump, "%s", made->dump);
    snprintf(took.file, sizeof took.file, "%s", made->upto.file);
    snprintf(took.ended, sizeof took.ended, "%s", s->handed_over ? "handed over" : "lost");
    fault_point("promote.asks");
    lives_load(a->job.dirfd, &last);
    if (fence_check("promotion", e) < 0 ||
        (s->t && record_read(s->t, a->cfg->name, &last, &newest, &ignored, e) < 0))
        return -1;
    if (newest.number != s->before.number ||
        (newest.number && !life_is(&newest.now, &s->before.now)))
        return succession_changed(&newest, e);
    uint64_t number = record_number(&s->before, s->lease->grant.number);
    struct lives next = lives_next(&s->before, number, a->state.holder, &now, &took);
    if (write_down(s, &next, e) < 0)
        return err_step(e, "the new life of the world");
    fault_point("promote.recorded");
    return 0;
}
