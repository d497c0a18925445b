/* A lease as a key of etcd, accessed over etcd's JSON gateway (v3 API). The key is created only if
 * it does not exist, and etcd deletes it when its time is over. A second key stays: it stores the
 * number of the last lease, its holder, and whether it was released. Members are tried one after
 * another.
 *
 * A missing key does not prove that the lease's time is over. A leader that was suspended while
 * another was elected may delete the key right after a renewal (etcd issue 15247, partly fixed in
 * 3.4.31 and 3.5.13). So a lease that was not released is left to its holder for its whole time. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "base/line.h"
#include "net/curl_request.h"
#include "standby/lease_int.h"

#define ANSWER_MAX 65536
#define MEMBERS_MAX 9
#define REQUEST_MIN_MS 500
#define NO_ROOM                                                                                    \
    "make room in etcd (etcdctl compact, etcdctl defrag, or a larger --quota-backend-bytes), "     \
    "then "                                                                                        \
    "etcdctl alarm disarm"

struct etcd {
    char *members[MEMBERS_MAX];
    unsigned count, current; /* current: the member that answered last */
    int64_t timeout;         /* of one request to one member */
    struct curl_request request;
    struct buf password, token;
    char *key, *last_key; /* in base64 */
    char id[32];          /* ID of etcd's own lease; "": not known */
    char written[32];     /* revision of our last write of the key */
    char term[32]; /* leader's Raft term at the last lease_etcd_look(), confirmed by a majority */
};

/* ---- requests ---- */

static char *lease_etcd_base64(const void *data, size_t len)
{
    char *out = xcalloc(1, 4 * ((len + 2) / 3) + 1);
    EVP_EncodeBlock((unsigned char *)out, data, (int)len);
    return out;
}

static size_t lease_etcd_on_body(char *data, size_t size, size_t n, void *arg)
{
    struct buf *b = arg;
    if (b->len + size * n > ANSWER_MAX)
        return 0;
    buf_add(b, data, size * n);
    return size * n;
}

static void lease_etcd_set_options(struct etcd *c, const char *body, struct curl_slist **headers,
                                   struct buf *answer)
{
    struct curl_request *w = &c->request;
    SCOPED(buf_free) struct buf line = {.secret = true};
    *headers = w->api->slist_append(NULL, "Content-Type: application/json");
    if (c->token.len) {
        curl_request_secret(w, c->token.p);
        buf_printf(&line, "Authorization: %s", c->token.p);
        *headers = w->api->slist_append(*headers, line.p);
    }
    if (c->password.len)
        curl_request_secret(w, c->password.p);
    CURL_SET(w, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    CURL_SET(w, CURLOPT_USERAGENT, "worldkeeper/" WK_VERSION);
    CURL_SET(w, CURLOPT_HTTPHEADER, *headers);
    CURL_SET(w, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    /* libcurl does not copy it: it may contain the password */
    CURL_SET(w, CURLOPT_POSTFIELDS, body);
    CURL_SET(w, CURLOPT_WRITEFUNCTION, lease_etcd_on_body);
    CURL_SET(w, CURLOPT_WRITEDATA, answer);
}

static const char *words_of(const json_t *answer)
{
    const char *error = js_text(answer, "error");
    return error[0] ? error : js_text(answer, "message");
}

/* Judges etcd's answer. "No leader", "request timed out" and the like are HTTP errors: another
 * member, or the same one later, may succeed. A login error is permanent. */
static enum lease_result lease_etcd_judge(struct etcd *c, long status, const json_t *answer,
                                          struct err *e)
{
    const struct curl_request *w = &c->request;
    SCOPED(buf_free) struct buf shown = {0};
    text_clean(&shown, curl_request_leaks(w, words_of(answer)) ? "" : words_of(answer), 200);
    if (status == 200 && answer)
        return LEASE_OK;
    bool login = status == 401 || status == 403;
    err_set(e, login ? ERR_DENIED : ERR_UNREACHABLE, (int)status, "etcd at %s: HTTP %ld%s%s",
            w->host, status, shown.len ? ": " : "", shown.len ? shown.p : "");
    if (strstr(words_of(answer), "space exceeded"))
        err_hint(e, NO_ROOM);
    else if (login)
        err_hint(e, "check [standby] user and password_file, and the role of that user");
    else if (status == 404)
        err_hint(e, "worldkeeper needs etcd 3.4 or newer");
    return login || status == 404 || status == 200 ? LEASE_REFUSED : LEASE_AWAY;
}

/* Sends one request to one member. */
static enum lease_result ask_member(struct lease *l, unsigned member, const char *path,
                                    const char *body, json_t **answer, struct err *e)
{
    struct etcd *c = l->own;
    struct curl_request *w = &c->request;
    SCOPED(buf_free) struct buf got = {.secret = true}; /* may contain a token */
    SCOPED(xfree) char *url = xasprintf("%s/v3/%s", c->members[member], path);
    const struct curl_target target = {.key = "[standby] etcd",
                                       .url = url,
                                       .protocols = "http,https",
                                       .tls_ca = l->cfg.standby.tls_ca,
                                       .timeout = c->timeout,
                                       .path_shown = true,
                                       .no_login = true,
                                       .insecure = l->cfg.standby.insecure};
    struct curl_slist *headers = NULL;
    long status = 0;
    *answer = NULL;
    if (curl_request_open(w, &target, e) < 0)
        return LEASE_REFUSED;
    lease_etcd_set_options(c, body, &headers, &got);
    CURLcode rc = curl_request_run(w);
    w->api->easy_getinfo(w->h, CURLINFO_RESPONSE_CODE, &status);
    w->api->slist_free_all(headers);
    if (rc != CURLE_OK) {
        curl_request_fail(w, rc, e);
        return LEASE_AWAY;
    }
    *answer = json_loadb(got.p ? got.p : "", got.len, JSON_DISABLE_EOF_CHECK, NULL);
    return lease_etcd_judge(c, status, *answer, e);
}

/* Asks the members in order, beginning with the one that answered last, until one answers. */
static enum lease_result ask_any(struct lease *l, const char *path, const char *body,
                                 json_t **answer, struct err *e)
{
    struct etcd *c = l->own;
    enum lease_result got = LEASE_AWAY;
    for (unsigned i = 0; i < c->count && got == LEASE_AWAY; i++) {
        unsigned member = (c->current + i) % c->count;
        json_decref(i ? *answer : NULL);
        err_clear(e);
        got = ask_member(l, member, path, body, answer, e);
        if (got == LEASE_OK)
            c->current = member;
    }
    if (got != LEASE_OK) {
        json_decref(*answer);
        *answer = NULL;
    }
    return got;
}

/* Logs in. The password goes to the first member that is asked, so it is sent only over the
 * protocol that the config names. */
static enum lease_result lease_etcd_login(struct lease *l, struct err *e)
{
    struct etcd *c = l->own;
    json_auto_t *o =
        json_pack("{s:s, s:s}", "name", l->cfg.standby.user, "password", c->password.p);
    SCOPED(buf_free) struct buf body = {.secret = true};
    json_t *answer = NULL;
    buf_reserve(&body, json_dumpb(o, NULL, 0, 0));
    body.len = json_dumpb(o, body.p, body.cap - 1, 0);
    body.p[body.len] = '\0';
    buf_free(&c->token);
    c->token.secret = true;
    enum lease_result got = ask_any(l, "auth/authenticate", body.p, &answer, e);
    const char *token = js_text(answer, "token");
    if (got == LEASE_OK && strspn(token, " \r\n") == 0 && !strpbrk(token, "\r\n"))
        buf_adds(&c->token, token);
    json_decref(answer);
    return got;
}

/* Takes ownership of `body`. A token expires after some minutes: the request is then repeated with
 * a new one. */
static enum lease_result lease_etcd_ask(struct lease *l, const char *path, json_t *body,
                                        json_t **answer, struct err *e)
{
    struct etcd *c = l->own;
    struct err why = {0};
    SCOPED(xfree) char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    *answer = NULL;
    if (c->password.len && !c->token.len) {
        enum lease_result in = lease_etcd_login(l, e);
        if (in != LEASE_OK)
            return in;
    }
    enum lease_result got = ask_any(l, path, text ? text : "", answer, &why);
    if (got == LEASE_REFUSED && why.num == 401 && c->password.len) {
        err_clear(&why);
        got = lease_etcd_login(l, &why);
        if (got == LEASE_OK)
            got = ask_any(l, path, text ? text : "", answer, &why);
    }
    if (got != LEASE_OK)
        err_pass(e, &why);
    return got;
}

/* ---- keys ---- */

static json_t *lease_etcd_range(const char *key)
{
    return json_pack("{s:{s:s}}", "requestRange", "key", key);
}

/* Returns the request that writes a key. etcd deletes the key together with its lease `id`; "0":
 * the key stays. */
static json_t *lease_etcd_put(const char *key, const struct lease_record *r, int64_t ttl,
                              const char *id)
{
    json_auto_t *o = lease_json(r, ttl);
    SCOPED(xfree) char *text = json_dumps(o, JSON_COMPACT);
    SCOPED(xfree) char *value = lease_etcd_base64(text ? text : "", text ? strlen(text) : 0);
    return json_pack("{s:{s:s, s:s, s:s}}", "requestPut", "key", key, "value", value, "lease", id);
}

/* Returns the condition that the key still has this revision; revision 0: that it does not
 * exist. */
static json_t *lease_etcd_unchanged(const char *key, const char *revision)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "key", key, "target", "MOD", "result", "EQUAL",
                     "modRevision", revision);
}

/* A key as stored in etcd. */
struct found {
    bool there;
    char revision[32], id[32]; /* "0": there is none */
    struct lease_record record;
};

static void number_text(const json_t *o, const char *key, char out[32])
{
    js_copy(o, key, out, 32);
    if (!out[0] || strspn(out, "0123456789") < strlen(out))
        snprintf(out, 32, "0");
}

/* Reads the i-th answer of a transaction, which must be that of a range request. */
static int read_found(const json_t *answer, size_t i, struct found *out, struct err *e)
{
    const json_t *response = json_array_get(json_object_get(answer, "responses"), i),
                 *kv = json_array_get(
                     json_object_get(json_object_get(response, "response_range"), "kvs"), 0);
    const char *value = js_text(kv, "value");
    size_t len = strlen(value);
    *out = (struct found){.revision = "0", .id = "0"};
    if (!kv)
        return 0;
    SCOPED(xfree) unsigned char *text = xcalloc(1, len + 4);
    if (EVP_DecodeBlock(text, (const unsigned char *)value, (int)len) < 0) /* not base64 */
        text[0] = '\0';
    number_text(kv, "mod_revision", out->revision);
    number_text(kv, "lease", out->id);
    out->there = true;
    return lease_parse((char *)text, strlen((char *)text), "the key in etcd", &out->record, e);
}

/* Reads both keys in one transaction. A majority confirms even a transaction that only reads, so
 * the answer is never outdated. */
static enum lease_result lease_etcd_look(struct lease *l, struct found *key, struct found *last,
                                         struct err *e)
{
    struct etcd *c = l->own;
    json_t *answer;
    enum lease_result got = lease_etcd_ask(
        l, "kv/txn",
        json_pack("{s:[o, o]}", "success", lease_etcd_range(c->key), lease_etcd_range(c->last_key)),
        &answer, e);
    if (got == LEASE_OK &&
        (read_found(answer, 0, key, e) < 0 || read_found(answer, 1, last, e) < 0))
        got = LEASE_REFUSED;
    /* Each take rewrites the second key as well. So while the second key is unchanged, the first
     * one was missing all the time. */
    if (got == LEASE_OK)
        lease_saw(l, key->there ? "" : last->revision);
    number_text(json_object_get(answer, "header"), "raft_term", c->term);
    json_decref(answer);
    return got;
}

static enum lease_result etcd_read(struct lease *l, struct lease_record *out, struct err *e)
{
    struct found key, last;
    enum lease_result got = lease_etcd_look(l, &key, &last, e);
    *out = (struct lease_record){.free = true};
    if (got != LEASE_OK)
        return got;
    *out = key.there ? key.record : last.record;
    out->free = !key.there;
    return LEASE_OK;
}

/* Returns the TTL of an answer in ms. A TTL of more than six digits, longer than any that was
 * requested, counts as our own. */
static int64_t read_ttl(const json_t *o, const struct lease *l)
{
    char text[32];
    number_text(o, "TTL", text);
    return strlen(text) > 6 ? l->ttl : strtoll(text, NULL, 10) * 1000;
}

/* Creates a lease in etcd's sense: a time to which keys are bound. *ttl: the ms that etcd
 * granted. */
static enum lease_result lease_etcd_grant(struct lease *l, char id[32], int64_t *ttl, struct err *e)
{
    json_t *answer;
    enum lease_result got =
        lease_etcd_ask(l, "lease/grant",
                       json_pack("{s:I}", "TTL", (json_int_t)((l->ttl + 999) / 1000)), &answer, e);
    number_text(answer, "ID", id);
    *ttl = read_ttl(answer, l);
    json_decref(answer);
    if (got == LEASE_OK && (strcmp(id, "0") == 0 || *ttl == 0)) {
        err_set(e, ERR_REFUSED, 0, "etcd returned no lease");
        got = LEASE_REFUSED;
    }
    return got;
}

static void lease_etcd_revoke(struct lease *l, const char *id)
{
    json_t *answer;
    lease_etcd_ask(l, "lease/revoke", json_pack("{s:s}", "ID", id), &answer, NULL);
    json_decref(answer);
}

/* Writes both keys if neither has changed since they were read. LEASE_HELD: one of them has
 * changed. */
static enum lease_result write_both(struct lease *l, const struct found *key,
                                    const struct found *last, const struct lease_record *r,
                                    const char *id, struct err *e)
{
    struct etcd *c = l->own;
    json_t *answer;
    struct found now;
    json_t *txn = json_pack(
        "{s:[o, o], s:[o, o], s:[o]}", "compare", lease_etcd_unchanged(c->key, key->revision),
        lease_etcd_unchanged(c->last_key, last->revision), "success",
        lease_etcd_put(c->key, r, l->ttl, id), lease_etcd_put(c->last_key, r, l->ttl, "0"),
        "failure", lease_etcd_range(c->key));
    enum lease_result got = lease_etcd_ask(l, "kv/txn", txn, &answer, e);
    if (got == LEASE_OK && js_flag(answer, "succeeded")) {
        number_text(json_object_get(answer, "header"), "revision", c->written);
    } else if (got == LEASE_OK && read_found(answer, 0, &now, e) < 0) {
        got = LEASE_REFUSED;
    } else if (got == LEASE_OK && now.there && strcmp(now.id, id) == 0) {
        /* The key is ours: a member that was asked earlier wrote it, but its answer was lost. */
        memcpy(c->written, now.revision, sizeof c->written);
    } else if (got == LEASE_OK) {
        got = now.there ? lease_held_by(&now.record, e) : LEASE_HELD;
    }
    json_decref(answer);
    return got;
}

/* Returns for how many ms the last holder may still rely on its lease: it requested the lease
 * before the key was deleted. */
static int64_t left_to_holder(const struct lease *l, const struct found *last)
{
    return last->record.ttl - mono_since(clock_mono(), l->seen.since);
}

static enum lease_result etcd_take(struct lease *l, uint64_t above, uint64_t generation,
                                   struct lease_grant *out, int64_t *wait, struct err *e)
{
    struct etcd *c = l->own;
    struct found key, last;
    int64_t ttl;
    char id[32];
    enum lease_result got = lease_etcd_look(l, &key, &last, e);
    if (got != LEASE_OK)
        return got;
    fault_point("lease.looked");
    if (key.there && !lease_is_ours(l, &key.record)) {
        *wait = 1000;
        return lease_held_by(&key.record, e);
    }
    if (!key.there && last.there && !last.record.free && !lease_is_ours(l, &last.record) &&
        (*wait = left_to_holder(l, &last)) > 0)
        return lease_held_by(&last.record, e);
    *wait = -1;
    const struct lease_record *newest =
        key.record.number > last.record.number ? &key.record : &last.record;
    struct lease_record r = {.number = lease_next(newest, above), .generation = generation};
    snprintf(r.holder, sizeof r.holder, "%s", l->holder);
    mono_t asked = clock_mono(); /* etcd counts the TTL from its answer on */
    got = lease_etcd_grant(l, id, &ttl, e);
    if (got != LEASE_OK)
        return got;
    got = write_both(l, &key, &last, &r, id, e);
    if (got != LEASE_OK) {
        if (got == LEASE_HELD)
            lease_etcd_revoke(l, id); /* after LEASE_AWAY the keys may be ours */
        return got;
    }
    memcpy(c->id, id, sizeof c->id);
    *out = (struct lease_grant){.number = r.number,
                                .generation = generation,
                                .valid_until = lease_ends(asked, ttl < l->ttl ? ttl : l->ttl)};
    memcpy(out->holder, r.holder, sizeof out->holder);
    return LEASE_OK;
}

/* Finds our lease in etcd. It must be this grant or, if g->number is 0, any lease that we took
 * before. */
static enum lease_result find_ours(struct lease *l, struct lease_grant *g, struct found *key,
                                   struct found *last, struct err *e)
{
    struct etcd *c = l->own;
    enum lease_result got = lease_etcd_look(l, key, last, e);
    if (got != LEASE_OK)
        return got;
    if (!key->there || !lease_is_ours(l, &key->record) ||
        (g->number && g->number != key->record.number))
        return lease_held_by(key->there ? &key->record : &last->record, e);
    fault_point("lease.looked");
    g->number = key->record.number;
    memcpy(g->holder, key->record.holder, sizeof g->holder);
    memcpy(c->id, key->id, sizeof c->id);
    return LEASE_OK;
}

/* Renews etcd's lease. *ttl: the ms left from now on; 0: the lease has expired. A leader answers
 * this request without asking a majority. A leader that was partitioned or suspended therefore
 * continues to renew for a while after another one was elected, and the new leader does not know of
 * these renewals. So a renewal counts only if a majority still has the leader's term (`term`)
 * afterwards. */
static enum lease_result keep_alive(struct lease *l, int64_t *ttl, char term[32], struct err *e)
{
    struct etcd *c = l->own;
    json_t *answer;
    enum lease_result got =
        lease_etcd_ask(l, "lease/keepalive", json_pack("{s:s}", "ID", c->id), &answer, e);
    const json_t *result = json_object_get(answer, "result");
    *ttl = read_ttl(result, l);
    number_text(json_object_get(result, "header"), "raft_term", term);
    if (*ttl > l->ttl)
        *ttl = l->ttl;
    json_decref(answer);
    return got;
}

static enum lease_result etcd_renew(struct lease *l, struct lease_grant *g, struct err *e)
{
    struct etcd *c = l->own;
    struct found key, last;
    int64_t ttl;
    char term[32];
    enum lease_result got = find_ours(l, g, &key, &last, e);
    if (got != LEASE_OK)
        return got;
    mono_t asked = clock_mono();
    got = keep_alive(l, &ttl, term, e);
    if (got == LEASE_OK && ttl == 0)
        return lease_held_by(&key.record, e);
    /* The key may have been deleted between the two requests and taken by another machine, so it is
     * read again. */
    if (got == LEASE_OK)
        got = find_ours(l, g, &key, &last, e);
    if (got == LEASE_OK && strcmp(term, c->term) != 0) {
        err_set(e, ERR_UNREACHABLE, 0, "etcd elected a leader while it renewed the lease");
        got = LEASE_AWAY;
    }
    if (got == LEASE_OK && g->generation > key.record.generation) {
        key.record.generation = g->generation;
        /* The lease is renewed even if this write fails, for example because etcd has no space. The
         * next renewal then writes the generation. */
        got = write_both(l, &key, &last, &key.record, c->id, e);
        got = got == LEASE_AWAY ? LEASE_OK : got;
    } else if (got == LEASE_OK) {
        g->generation = key.record.generation;
    }
    if (got == LEASE_OK)
        g->valid_until = lease_ends(asked, ttl);
    return got;
}

/* Checks for the NOSPACE alarm. An alarm applies to all members and stays until an operator disarms
 * it. */
static enum lease_result etcd_takeable(struct lease *l, struct err *e)
{
    json_t *answer;
    enum lease_result got =
        lease_etcd_ask(l, "maintenance/alarm", json_pack("{s:s}", "action", "GET"), &answer, e);
    const json_t *alarms = json_object_get(answer, "alarms"), *x;
    size_t i;
    json_array_foreach(alarms, i, x)
    {
        if (got != LEASE_OK || strcmp(js_text(x, "alarm"), "NOSPACE") != 0)
            continue;
        err_set(e, ERR_NOSPACE, 0,
                "etcd has no space (alarm NOSPACE): the lease is still renewed, but no machine "
                "could acquire it");
        err_hint(e, NO_ROOM);
        got = LEASE_REFUSED;
    }
    json_decref(answer);
    return got;
}

/* Deletes the key and marks the second key as released, so that no machine waits. First checks that
 * the key is still this grant's: deleting a key that another take of ours created would stop a live
 * world. */
static enum lease_result etcd_release(struct lease *l, struct lease_grant *g, struct err *e)
{
    struct etcd *c = l->own;
    struct found key, last;
    json_t *answer;
    enum lease_result got = find_ours(l, g, &key, &last, e);
    if (got != LEASE_OK)
        return got;
    key.record.free = true;
    lease_etcd_ask(l, "kv/txn",
                   json_pack("{s:[o, o], s:[{s:{s:s}}, o]}", "compare",
                             lease_etcd_unchanged(c->key, key.revision),
                             lease_etcd_unchanged(c->last_key, last.revision), "success",
                             "requestDeleteRange", "key", c->key,
                             lease_etcd_put(c->last_key, &key.record, l->ttl, "0")),
                   &answer, NULL);
    json_decref(answer);
    got = lease_etcd_look(l, &key, &last, e);
    if (got == LEASE_OK && key.there && lease_is_ours(l, &key.record)) {
        err_set(e, ERR_UNREACHABLE, 0, "etcd did not release the lease");
        return LEASE_AWAY;
    }
    if (got == LEASE_OK)
        lease_etcd_revoke(l, c->id); /* no key is bound to it any longer */
    return got;
}

/* ---- opening ---- */

static enum lease_result etcd_open(struct lease *l, int dirfd, struct err *e)
{
    (void)dirfd;
    const struct config_standby *s = &l->cfg.standby;
    struct etcd *c = l->own = xcalloc(1, sizeof *c);
    SCOPED(xfree) char *key = xasprintf("/worldkeeper/%s/lease", l->cfg.name);
    SCOPED(xfree) char *last = xasprintf("/worldkeeper/%s/last", l->cfg.name);
    c->password.secret = c->token.secret = true;
    c->key = lease_etcd_base64(key, strlen(key));
    c->last_key = lease_etcd_base64(last, strlen(last));
    char *url;
    for (const char *rest = s->etcd; c->count < MEMBERS_MAX && (url = config_next_part(&rest));)
        c->members[c->count++] = url;
    /* A renewal makes three requests, and a member that does not answer must leave time for the
     * next one. */
    c->timeout = l->cfg.offsite.timeout / (c->count ? c->count : 1);
    if (c->timeout < REQUEST_MIN_MS)
        c->timeout = REQUEST_MIN_MS;
    if (!curl_api(e))
        return LEASE_REFUSED;
    if (!s->password_file || file_read_secret(s->password_file, &c->password, e) == 0)
        return LEASE_OK;
    err_step(e, "[standby] password_file");
    return LEASE_REFUSED;
}

static void etcd_close(struct lease *l)
{
    struct etcd *c = l->own;
    if (!c)
        return;
    curl_request_close(&c->request);
    for (unsigned i = 0; i < c->count; i++)
        free(c->members[i]);
    buf_free(&c->password);
    buf_free(&c->token);
    free(c->key);
    free(c->last_key);
    free(c);
}

/* ---- --check ---- */

static void name_members(const json_t *answer, struct lease_proof *out)
{
    SCOPED(buf_free) struct buf list = {0};
    const json_t *members = json_object_get(answer, "members");
    for (size_t i = 0; i < json_array_size(members); i++) {
        SCOPED(buf_free) struct buf name = {0};
        text_clean(&name, js_text(json_array_get(members, i), "name"), 60);
        buf_printf(&list, "%s%s", i ? ", " : "", name.len ? name.p : "?");
    }
    line_set(out->members, sizeof out->members, "%s", list.len ? list.p : "");
}

static enum lease_result etcd_prove(struct lease *l, int dirfd, struct lease_proof *out,
                                    struct err *e)
{
    enum lease_result got = etcd_open(l, dirfd, e);
    const struct etcd *c = l->own;
    char id[32];
    json_t *answer = NULL;
    struct found key, last;
    if (got != LEASE_OK)
        return got;
    out->count = c->count;
    got = lease_etcd_look(l, &key, &last, e); /* also logs in */
    for (unsigned i = 0; i < c->count; i++) {
        out->answered += ask_member(l, i, "maintenance/status", "{}", &answer, NULL) == LEASE_OK;
        json_decref(answer);
    }
    if (got == LEASE_OK)
        got = lease_etcd_grant(l, id, &out->ttl, e);
    if (got != LEASE_OK)
        return got;
    lease_etcd_revoke(l, id);
    if (lease_etcd_ask(l, "cluster/member/list", json_object(), &answer, NULL) == LEASE_OK)
        name_members(answer, out);
    json_decref(answer);
    out->conditions = true;
    return LEASE_OK;
}

const struct lease_kind lease_etcd = {.open = etcd_open,
                                      .close = etcd_close,
                                      .read = etcd_read,
                                      .take = etcd_take,
                                      .renew = etcd_renew,
                                      .takeable = etcd_takeable,
                                      .release = etcd_release,
                                      .prove = etcd_prove};
