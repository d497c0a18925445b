/* A lease as lease.json in an S3 bucket. Each write is conditional: it succeeds only if the object
 * was not written since it was read. A machine that loses the race sees another version (ETag) and
 * has changed nothing. No two writes have the same content. */
#include <errno.h>
#include <inttypes.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/js.h"
#include "offsite/remote.h"
#include "standby/lease_int.h"
#include "store/kept.h"

#define PROOF_FILE "lease-store.json"
#define PROOF_MAX 4096

_Static_assert(REMOTE_VERSION <= LEASE_VERSION_MAX, "a truncated version is not a version");

struct s3 {
    struct remote *store;
    struct buf name, body;
    /* The version and the record that were last read or written. */
    char version[REMOTE_VERSION]; /* "": it is not known */
    struct lease_record record;
    uint64_t writes;
};

/* Converts a result of the store. REMOTE_EXISTS: the condition did not hold, because another write
 * came first. */
static enum lease_result result_of(enum remote_result got)
{
    return got == REMOTE_OK       ? LEASE_OK
           : got == REMOTE_LATER  ? LEASE_AWAY
           : got == REMOTE_EXISTS ? LEASE_HELD
                                  : LEASE_REFUSED;
}

/* ---- the proof ---- */

/* Returns the proof that this store honors conditional writes. The proof contains the store's
 * address, so another store needs its own. */
static json_t *proof_of(const struct config *c, bool bare)
{
    return json_pack("{s:i, s:s, s:s, s:b}", "format", 1, "endpoint",
                     c->offsite.endpoint ? c->offsite.endpoint : "", "url", c->offsite.url, "bare",
                     bare);
}

static enum lease_result read_proof(struct lease *l, int dirfd, bool *bare, struct err *e)
{
    json_auto_t *o = NULL;
    struct err why = {0};
    if (kept_load(dirfd, PROOF_FILE, PROOF_MAX, &o, &why) == 1) {
        *bare = js_flag(o, "bare");
        json_auto_t *wanted = proof_of(&l->cfg, *bare);
        json_object_del(o, "hmac");
        if (json_equal(o, wanted))
            return LEASE_OK;
    }
    err_set(e, ERR_REFUSED, 0,
            "it is not known whether the store honors conditional writes: without them two "
            "machines could both have the lease%s%s",
            why.text[0] ? "; " : "", why.text);
    err_hint(e, "worldkeeper --check tests them and remembers the result");
    return LEASE_REFUSED;
}

static enum lease_result s3_connect(struct lease *l, struct err *e)
{
    struct s3 *s = l->own = xcalloc(1, sizeof *s);
    buf_printf(&s->name, "%s/lease.json", l->cfg.name);
    return result_of(remote_open(&l->cfg, &s->store, e));
}

static enum lease_result lease_s3_s3_open(struct lease *l, int dirfd, struct err *e)
{
    bool bare = false;
    enum lease_result got = read_proof(l, dirfd, &bare, e);
    if (got == LEASE_OK)
        got = s3_connect(l, e);
    if (got == LEASE_OK)
        remote_bare_versions(((struct s3 *)l->own)->store, bare);
    return got;
}

static void s3_close(struct lease *l)
{
    struct s3 *s = l->own;
    if (!s)
        return;
    remote_close(s->store);
    buf_free(&s->name);
    buf_free(&s->body);
    free(s);
}

/* ---- reading and writing ---- */

/* Reads lease.json into s->record; number 0 if no machine has taken the lease yet. */
static enum lease_result lease_s3_look(struct lease *l, struct err *e)
{
    struct s3 *s = l->own;
    char version[REMOTE_VERSION];
    enum remote_result got = remote_read(s->store, s->name.p, &s->body, version, e);
    if (got == REMOTE_MISSING) {
        s->record = (struct lease_record){.free = true};
        s->version[0] = '\0';
        lease_saw(l, "");
        err_clear(e);
        return LEASE_OK;
    }
    if (got != REMOTE_OK)
        return result_of(got);
    SCOPED(xfree) char *where = xasprintf("%s%s", remote_shown(s->store), s->name.p);
    if (lease_parse(s->body.p, s->body.len, where, &s->record, e) < 0) {
        s->version[0] = '\0';
        lease_saw(l, "");
        return LEASE_REFUSED;
    }
    lease_saw(l, version);
    memcpy(s->version, version, sizeof s->version);
    return LEASE_OK;
}

/* Writes the record if the object was not written since the last lease_s3_look(). */
static enum lease_result lease_s3_put(struct lease *l, const struct lease_record *r, struct err *e)
{
    struct s3 *s = l->own;
    char next[REMOTE_VERSION];
    json_auto_t *o = lease_json(r, l->ttl);
    json_object_set_new(o, "world", json_string(l->cfg.name));
    json_object_set_new(o, "writes", json_integer((json_int_t)++s->writes));
    /* for operators, and so that no two contents are the same */
    js_set_int(o, "at", clock_wall().ms);
    SCOPED(xfree) char *text = json_dumps(o, JSON_INDENT(1) | JSON_SORT_KEYS);
    SCOPED(buf_free) struct buf data = {0};
    buf_adds(&data, text ? text : "");
    enum remote_result got =
        remote_replace(s->store, s->name.p, &data, s->version[0] ? s->version : NULL, next, e);
    if (got == REMOTE_OK && next[0]) {
        memcpy(s->version, next, sizeof s->version);
        s->record = *r;
    } else {
        s->version[0] = '\0'; /* after REMOTE_LATER it may have been written */
    }
    return result_of(got);
}

static enum lease_result lease_s3_s3_read(struct lease *l, struct lease_record *out, struct err *e)
{
    struct s3 *s = l->own;
    enum lease_result got = lease_s3_look(l, e);
    *out = s->record;
    return got;
}

static enum lease_result s3_take(struct lease *l, uint64_t above, uint64_t generation,
                                 struct lease_grant *out, int64_t *wait, struct err *e)
{
    struct s3 *s = l->own;
    enum lease_result got = lease_s3_look(l, e);
    if (got != LEASE_OK)
        return got;
    fault_point("lease.looked");
    if (!s->record.free && !lease_is_ours(l, &s->record)) {
        /* Uses the TTL of the lease's holder, not ours, because the two configs may differ. */
        int64_t all = s->record.ttl + LEASE_MARGIN(s->record.ttl);
        *wait = all - mono_since(clock_mono(), l->seen.since);
        if (*wait > 0)
            return lease_held_by(&s->record, e);
    }
    struct lease_record r = {.number = lease_next(&s->record, above), .generation = generation};
    snprintf(r.holder, sizeof r.holder, "%s", l->holder);
    mono_t asked = clock_mono();
    *wait = -1;
    got = lease_s3_put(l, &r, e);
    if (got == LEASE_OK) {
        *out = (struct lease_grant){
            .number = r.number, .generation = generation, .valid_until = lease_ends(asked, l->ttl)};
        memcpy(out->holder, r.holder, sizeof out->holder);
    } else if (got == LEASE_HELD) {
        err_set(e, ERR_BUSY, 0, "another machine acquired the lease of this world first");
    }
    return got;
}

/* Returns true if the record that was read is this grant or, if g->number is 0, any lease that we
 * took before. */
static bool is_grant(const struct lease *l, struct lease_grant *g)
{
    const struct s3 *s = l->own;
    const struct lease_record *r = &s->record;
    if (r->free || !lease_is_ours(l, r) || (g->number && g->number != r->number))
        return false;
    g->number = r->number;
    memcpy(g->holder, r->holder, sizeof g->holder);
    return true;
}

/* Writes our lease again. Tries twice, because a write may be refused after an earlier write of
 * ours whose answer was lost. */
static enum lease_result lease_s3_rewrite(struct lease *l, struct lease_grant *g, bool free,
                                          struct err *e)
{
    struct s3 *s = l->own;
    enum lease_result got = LEASE_HELD;
    for (int i = 0; i < 2 && got == LEASE_HELD; i++) {
        err_clear(e);
        if ((!s->version[0] || s->record.free) && (got = lease_s3_look(l, e)) != LEASE_OK)
            return got;
        if (!is_grant(l, g))
            return lease_held_by(&s->record, e);
        fault_point("lease.looked");
        struct lease_record r = s->record;
        mono_t asked = clock_mono();
        r.generation = g->generation > r.generation ? g->generation : r.generation;
        r.free = free;
        got = lease_s3_put(l, &r, e);
        if (got == LEASE_OK) {
            g->generation = r.generation;
            g->valid_until = lease_ends(asked, l->ttl);
        }
    }
    return got == LEASE_HELD ? LEASE_AWAY : got;
}

static enum lease_result s3_renew(struct lease *l, struct lease_grant *g, struct err *e)
{
    return lease_s3_rewrite(l, g, false, e);
}

/* Marks the object as free. It is not deleted, so its number continues to grow. */
static enum lease_result s3_release(struct lease *l, struct lease_grant *g, struct err *e)
{
    return lease_s3_rewrite(l, g, true, e);
}

/* ---- --check ---- */

struct proving {
    struct remote *store;
    char *name;
    char first[REMOTE_VERSION], second[REMOTE_VERSION];
    bool bare;
};

static enum remote_result lease_s3_write_text(struct proving *p, const char *text,
                                              const char *version, char next[REMOTE_VERSION],
                                              struct err *e)
{
    SCOPED(buf_free) struct buf data = {0};
    buf_adds(&data, text);
    return remote_replace(p->store, p->name, &data, version, next, e);
}

/* Returns true if the file has this content and, unless `version` is NULL, the version that the
 * store returned when it was written. */
static bool lease_s3_reads(struct proving *p, const char *text, const char *version)
{
    SCOPED(buf_free) struct buf data = {0};
    char is[REMOTE_VERSION];
    return remote_read(p->store, p->name, &data, is, NULL) == REMOTE_OK &&
           data.len == strlen(text) && memcmp(data.p, text, data.len) == 0 &&
           (!version || strcmp(is, version) == 0);
}

static enum lease_result lease_s3_unproved(const struct proving *p, const char *what, struct err *e)
{
    err_set(e, ERR_REFUSED, 0, "%s %s: it cannot decide which machine has the world",
            remote_shown(p->store), what);
    err_hint(e, "set [standby] lease = etcd; or lease = none and use --promote --by-hand");
    return LEASE_REFUSED;
}

/* Tests conditional writes. A write must succeed if its condition holds; otherwise the store must
 * refuse it and leave the file unchanged. That only one of several concurrent writes succeeds is
 * not tested: it is the store's own guarantee. */
static enum lease_result try_conditions(struct proving *p, struct err *e)
{
    char next[REMOTE_VERSION];
    enum remote_result got = lease_s3_write_text(p, "first", NULL, p->first, e);
    if (got != REMOTE_OK)
        return got == REMOTE_LATER ? LEASE_AWAY
                                   : lease_s3_unproved(p, "refuses conditional writes", e);
    if (!p->first[0] || !lease_s3_reads(p, "first", p->first))
        return lease_s3_unproved(p, "does not return the version of a file", e);
    got = lease_s3_write_text(p, "other", NULL, next, e);
    if (got == REMOTE_LATER)
        return LEASE_AWAY;
    if (got != REMOTE_EXISTS || !lease_s3_reads(p, "first", p->first))
        return lease_s3_unproved(p, "ignores If-None-Match", e);
    got = lease_s3_write_text(p, "second", p->first, p->second, e);
    if (got == REMOTE_EXISTS) { /* some stores compare the ETag only without its quotes */
        p->bare = true;
        remote_bare_versions(p->store, true);
        got = lease_s3_write_text(p, "second", p->first, p->second, e);
    }
    if (got == REMOTE_LATER)
        return LEASE_AWAY;
    if (got != REMOTE_OK || !p->second[0] || !lease_s3_reads(p, "second", p->second))
        return lease_s3_unproved(p, "does not honor If-Match", e);
    got = lease_s3_write_text(p, "other", p->first, next, e);
    if (got == REMOTE_LATER)
        return LEASE_AWAY;
    if (got != REMOTE_EXISTS || !lease_s3_reads(p, "second", p->second))
        return lease_s3_unproved(p, "ignores If-Match", e);
    return LEASE_OK;
}

static enum lease_result s3_prove(struct lease *l, int dirfd, struct lease_proof *out,
                                  struct err *e)
{
    unsigned char random[8];
    char hex[2 * sizeof random + 1];
    enum lease_result got = s3_connect(l, e);
    struct s3 *s = l->own;
    struct proving p = {.store = s->store};
    if (got != LEASE_OK)
        return got;
    if (RAND_bytes(random, sizeof random) != 1) {
        err_set(e, ERR_SYSTEM, 0, "cannot get random numbers");
        return LEASE_REFUSED;
    }
    text_hex(random, sizeof random, hex);
    p.name = xasprintf("%s/check-lease-%s", l->cfg.name, hex);
    got = try_conditions(&p, e);
    remote_delete(s->store, p.name, NULL);
    free(p.name);
    out->conditions = got == LEASE_OK;
    if (got == LEASE_OK)
        err_clear(e); /* set by the writes that had to be refused */
    if (got == LEASE_AWAY)
        return got;
    json_t *o = out->conditions ? proof_of(&l->cfg, p.bare) : json_pack("{s:i}", "format", 0);
    /* A store that fails the test also loses an earlier proof. */
    struct err why = {0};
    if ((kept_save(dirfd, PROOF_FILE, PROOF_MAX, o, &why) == 0 &&
         kept_give(dirfd, PROOF_FILE, &why) == 0) ||
        got != LEASE_OK)
        return got;
    err_pass(e, &why);
    return LEASE_REFUSED;
}

const struct lease_kind lease_s3 = {.open = lease_s3_s3_open,
                                    .close = s3_close,
                                    .read = lease_s3_s3_read,
                                    .take = s3_take,
                                    .renew = s3_renew,
                                    .release = s3_release,
                                    .prove = s3_prove};
