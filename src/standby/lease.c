#include "standby/lease_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"

#define TTL_MIN 1000
#define TTL_MAX 3600000
/* Numbers and generations beyond it are damage: each has a successor that a signed 64-bit number holds. */
#define NUMBER_MAX (INT64_MAX / 2)

/* ---- the record ---- */

json_t *lease_json(const struct lease_record *r, int64_t ttl)
{
    return json_pack("{s:i, s:I, s:I, s:s, s:b, s:I}", "format", 1, "number", (json_int_t)r->number,
                     "generation", (json_int_t)r->generation, "holder", r->holder, "free", r->free,
                     "ttl_ms", (json_int_t)ttl);
}

int lease_parse(const char *text, size_t len, const char *where, struct lease_record *out,
                struct err *e)
{
    json_auto_t *o = json_loadb(text ? text : "", len, JSON_REJECT_DUPLICATES, NULL);
    int64_t number = js_within(o, "number", 1, NUMBER_MAX, 0),
            generation = js_within(o, "generation", 0, NUMBER_MAX, -1);
    *out = (struct lease_record){.number = (uint64_t)number, .free = js_flag(o, "free")};
    js_copy(o, "holder", out->holder, sizeof out->holder);
    out->ttl = js_within(o, "ttl_ms", TTL_MIN, TTL_MAX, 0);
    if (!number || generation < 0 || !out->ttl || !out->holder[0]) {
        err_set(e, ERR_DAMAGED, 0, "%s is no lease of worldkeeper", where);
        return err_hint(e, "make sure that no machine keeps this world; then remove it by hand, "
                           "and run --promote");
    }
    out->generation = (uint64_t)generation;
    return 0;
}

/* By the name alone: a supervisor that was killed finds what it had, and a copied machine needs another name. */
bool lease_is_ours(const struct lease *l, const struct lease_record *r)
{
    return strcmp(r->holder, l->holder) == 0;
}

const char *lease_words(const struct lease_record *r, char out[LEASE_WORDS])
{
    SCOPED(buf_free) struct buf shown = {0};
    text_clean(&shown, r->holder, sizeof r->holder);
    snprintf(out, LEASE_WORDS, "%s %s the lease of this world, number %" PRIu64, shown.p,
             r->free ? "had" : "has", r->number);
    return out;
}

enum lease_result lease_held_by(const struct lease_record *r, struct err *e)
{
    char words[LEASE_WORDS];
    err_set(e, ERR_BUSY, 0, "%s", lease_words(r, words));
    return LEASE_HELD;
}

/* Also above what this machine has seen: a store that was lost begins anew at 1. */
uint64_t lease_next(const struct lease_record *r, uint64_t above)
{
    return (r->number > above ? r->number : above) + 1;
}

/* ---- what was seen ---- */

void lease_saw(struct lease *l, const char *version)
{
    struct lease_seen *s = &l->seen;
    if (strcmp(version, s->version) != 0)
        *s = (struct lease_seen){.since = clock_mono()};
    snprintf(s->version, sizeof s->version, "%s", version);
}

void lease_seen_get(const struct lease *l, struct lease_seen *out)
{
    *out = l->seen;
}

void lease_seen_set(struct lease *l, const struct lease_seen *seen)
{
    l->seen = *seen;
}

/* ---- opening ---- */

/* Its own timeouts: those of [offsite] are for files of any size, and a lease that waits so long has ended. */
static struct lease *make(const struct config *cfg, const char *holder)
{
    struct lease *l = xcalloc(1, sizeof *l);
    l->kind = cfg->standby.lease == LEASE_ETCD ? &lease_etcd : &lease_s3;
    l->cfg = *cfg;
    l->ttl = cfg->standby.ttl;
    /* Two requests, one after the other, are done well before the lease ends. */
    l->cfg.offsite.timeout = l->ttl / 4;
    l->cfg.offsite.max_rate = 0;
    snprintf(l->holder, sizeof l->holder, "%s", holder);
    return l;
}

enum lease_result lease_open(const struct config *cfg, int dirfd, const char *holder,
                             struct lease **out, struct err *e)
{
    struct lease *l = make(cfg, holder);
    enum lease_result got = l->kind->open(l, dirfd, e);
    *out = got == LEASE_OK ? l : NULL;
    if (got != LEASE_OK)
        lease_close(l);
    return got;
}

void lease_close(struct lease *l)
{
    if (!l)
        return;
    l->kind->close(l);
    free(l);
}

enum lease_result lease_read(struct lease *l, struct lease_record *out, struct err *e)
{
    return l->kind->read(l, out, e);
}

enum lease_result lease_take(struct lease *l, uint64_t above, uint64_t generation,
                             struct lease_grant *out, int64_t *wait, struct err *e)
{
    *wait = -1;
    *out = (struct lease_grant){0};
    return l->kind->take(l, above, generation, out, wait, e);
}

enum lease_result lease_renew(struct lease *l, struct lease_grant *g, struct err *e)
{
    return l->kind->renew(l, g, e);
}

enum lease_result lease_release(struct lease *l, struct lease_grant *g, struct err *e)
{
    enum lease_result got = l->kind->release(l, g, e);
    if (got == LEASE_OK)
        g->valid_until = (mono_t){0};
    return got;
}

enum lease_result lease_prove(const struct config *cfg, int dirfd, struct lease_proof *out,
                              struct err *e)
{
    struct lease *l = make(cfg, "check/0");
    *out = (struct lease_proof){0};
    enum lease_result got = l->kind->prove(l, dirfd, out, e);
    lease_close(l);
    return got;
}

/* ---- decisions ---- */

enum lease_hold lease_judge(mono_t valid_until, int64_t ttl, mono_t now)
{
    int64_t left = mono_since(valid_until, now);
    if (!valid_until.ms || left <= 0)
        return LEASE_GONE;
    /* Renewed each third of its time, with four fifths of it to go: two renewals in a row have failed. */
    return left < ttl / 4 ? LEASE_DOUBTFUL : LEASE_IS_HELD;
}
