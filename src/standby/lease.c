#include "standby/lease_int.h"

#include <stdio.h>
#include <stdlib.h>

/* Longest time for one request, however long the lease is. A slower request is repeated: its answer
 * is only a few hundred bytes, and the waiting process must report before it is considered hung. */
#define REQUEST_MAX_MS 10000

/* ---- opening ---- */

/* Allocates a lease with its own timeouts: those of [offsite] are for files of any size, and a
 * lease would expire during such a wait. */
static struct lease *lease_make(const struct config *cfg, const char *holder)
{
    struct lease *l = xcalloc(1, sizeof *l);
    l->kind = cfg->standby.lease == LEASE_ETCD ? &lease_etcd : &lease_s3;
    l->cfg = *cfg;
    l->ttl = cfg->standby.ttl;
    /* Two requests in sequence finish well before the lease ends. */
    l->cfg.offsite.timeout = l->ttl / 4 < REQUEST_MAX_MS ? l->ttl / 4 : REQUEST_MAX_MS;
    l->cfg.offsite.max_rate = 0;
    snprintf(l->holder, sizeof l->holder, "%s", holder);
    return l;
}

enum lease_result lease_open(const struct config *cfg, int dirfd, const char *holder,
                             struct lease **out, struct err *e)
{
    struct lease *l = lease_make(cfg, holder);
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

enum lease_result lease_takeable(struct lease *l, struct err *e)
{
    return l->kind->takeable ? l->kind->takeable(l, e) : LEASE_OK;
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
    struct lease *l = lease_make(cfg, "check/0");
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
    /* The lease is renewed every third of its time, each time for four fifths of it. If less than a
     * quarter is left, two renewals in a row have failed. */
    return left < ttl / 4 ? LEASE_DOUBTFUL : LEASE_IS_HELD;
}
