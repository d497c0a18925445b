/* WebDAV. A PUT replaces an existing file, so each upload goes to its own temporary name. A MOVE
 * that must not overwrite then gives it the right name. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "offsite/remote_curl.h"
#include "offsite/xml.h"

static enum remote_result http_open(struct remote *r, struct err *e)
{
    const struct config_offsite *cfg = r->cfg;
    if (!curl_api(e))
        return REMOTE_REFUSED;
    if (cfg->user)
        buf_adds(&r->login, cfg->user);
    if (!cfg->password_file || file_read_secret(cfg->password_file, &r->password, e) == 0)
        return REMOTE_OK;
    err_step(e, "[offsite] password_file");
    return REMOTE_REFUSED;
}

static void url_of(struct buf *out, const struct remote *r, const char *name)
{
    buf_printf(out, "http%s://%s", r->url.plain ? "" : "s", r->url.host);
    http_encode(out, r->url.path, false);
    http_encode(out, name, false);
}

static int remote_http_begin(struct remote_request *t, const char *path, const char *verb,
                             struct err *e)
{
    SCOPED(buf_free) struct buf url = {0};
    struct curl_request *w = &t->r->request;
    url_of(&url, t->r, path);
    if (remote_request_begin(t, url.p, "http,https", e) < 0)
        return -1;
    CURL_SET(w, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    CURL_SET(w, CURLOPT_USERAGENT, "worldkeeper/" WK_VERSION);
    if (verb)
        CURL_SET(w, CURLOPT_CUSTOMREQUEST, verb);
    if (t->r->login.len && !t->r->anonymous) {
        curl_request_secret(w, t->r->password.p);
        CURL_SET(w, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        CURL_SET(w, CURLOPT_USERNAME, t->r->login.p);
        CURL_SET(w, CURLOPT_PASSWORD, t->r->password.p);
    }
    return 0;
}

/* Sends one short request without a body. */
static enum remote_result remote_http_ask(struct remote *r, const char *what, const char *name,
                                          const char *verb, struct err *e)
{
    struct remote_request t = {.r = r, .what = what, .name = name, .whole = true};
    if (remote_http_begin(&t, name, verb, e) < 0)
        return REMOTE_REFUSED;
    enum remote_result got = http_run(&t, NULL, e);
    if (got != REMOTE_OK && t.status == 405)
        got = REMOTE_EXISTS; /* MKCOL: the directory exists */
    remote_request_end(&t);
    return got;
}

static enum remote_result http_remove(struct remote *r, const char *name, struct err *e)
{
    return remote_http_ask(r, "delete", name, "DELETE", e);
}

static enum remote_result dav_size(struct remote *r, const char *name, int64_t *size, struct err *e)
{
    struct remote_request t = {.r = r, .what = "look for", .name = name, .whole = true};
    *size = -1;
    return remote_http_begin(&t, name, NULL, e) < 0 ? REMOTE_REFUSED : http_size(&t, size, NULL, e);
}

/* Makes the directories of a name, once per connection. The server answers 405 for one that
 * exists (RFC 4918). Looking for it first would cost as much, and the result could be wrong a
 * moment later. */
static enum remote_result remote_http_make_dirs(struct remote *r, const char *name, struct err *e)
{
    const char *slash = strrchr(name, '/');
    size_t len = slash ? (size_t)(slash + 1 - name) : 0;
    if (len == r->made.len && memcmp(name, len ? r->made.p : "", len) == 0)
        return REMOTE_OK;
    for (size_t i = 0; i < len; i++) {
        if (name[i] != '/')
            continue;
        SCOPED(xfree) char *dir = xstrndup(name, i + 1);
        enum remote_result got = remote_http_ask(r, "make the directory", dir, "MKCOL", e);
        if (got != REMOTE_OK && got != REMOTE_EXISTS)
            return got;
        err_clear(e);
    }
    buf_clear(&r->made);
    buf_add(&r->made, name, len);
    return REMOTE_OK;
}

static enum remote_result remote_http_upload(struct remote *r, const char *name, const char *part,
                                             const struct remote_source *from, struct err *e)
{
    struct remote_request t = {.r = r, .what = "store", .name = name, .from = from};
    if (remote_http_begin(&t, part, NULL, e) < 0)
        return REMOTE_REFUSED;
    enum remote_result got = http_run(&t, NULL, e);
    if (got == REMOTE_OK)
        got = remote_came(from, name, t.sent, e);
    else if (got == REMOTE_MISSING || got == REMOTE_EXISTS)
        got = REMOTE_LATER; /* the directory was removed, or a random name was taken */
    remote_request_end(&t);
    return got;
}

/* "Overwrite: F" is the only condition of WebDAV that servers keep: of eight simultaneous
 * uploads with If-None-Match, mod_dav let several succeed. */
static enum remote_result remote_http_move(struct remote *r, const char *part, const char *name,
                                           struct err *e)
{
    struct remote_request t = {.r = r, .what = "store", .name = name, .whole = true};
    SCOPED(buf_free) struct buf url = {0};
    if (remote_http_begin(&t, part, "MOVE", e) < 0)
        return REMOTE_REFUSED;
    url_of(&url, r, name);
    remote_request_header(&t, "Destination: %s", url.p);
    remote_request_header(&t, "Overwrite: F");
    enum remote_result got = http_run(&t, NULL, e);
    remote_request_end(&t);
    return got == REMOTE_MISSING ? REMOTE_LATER : got;
}

static enum remote_result http_put(struct remote *r, const char *name,
                                   const struct remote_source *from, struct err *e)
{
    SCOPED(xfree) char *part = remote_part(name);
    enum remote_result got = remote_http_make_dirs(r, name, e);
    if (got != REMOTE_OK)
        return got;
    got = remote_http_upload(r, name, part, from, e);
    if (got == REMOTE_OK)
        got = remote_http_move(r, part, name, e);
    if (got != REMOTE_OK) {
        int64_t pause = r->pause;
        buf_clear(&r->made);
        http_remove(r, part, NULL);
        r->pause = pause;
    }
    return got;
}

static enum remote_result dav_get(struct remote *r, const char *name, int64_t offset,
                                  const struct remote_sink *to, struct err *e)
{
    struct remote_request t = {.r = r, .what = "read", .name = name, .to = to};
    if (remote_http_begin(&t, name, NULL, e) < 0)
        return REMOTE_REFUSED;
    return http_get(&t, offset, NULL, e);
}

/* ---- directories ---- */

struct listing {
    struct remote_listing l;
    const char *dir;
    struct xml xml;
    char name[700]; /* last component of the described file; "" for a directory */
    bool whole;     /* the list's last element arrived */
    struct err *e;
};

/* Compares element names without the namespace, because servers abbreviate it differently. Of an
 * href only the last component is used, because some servers write it with the host and some
 * without. A directory's href ends with '/', or the entry has <collection/>. */
static int remote_http_on_element(void *arg, const char *element, const char *text)
{
    struct listing *l = arg;
    if (!text) {
        if (strcmp(element, "response") == 0) {
            l->name[0] = '\0';
            l->l.x = (struct remote_entry){.size = -1};
        }
        return 0;
    }
    if (strcmp(element, "href") == 0) {
        const char *slash = strrchr(text, '/');
        snprintf(l->name, sizeof l->name, "%s", slash ? slash + 1 : text);
    } else if (strcmp(element, "getcontentlength") == 0) {
        l->l.x.size = remote_size_read(text);
    } else if (strcmp(element, "getetag") == 0 ||
               (strcmp(element, "getlastmodified") == 0 && !l->l.x.stamp[0])) {
        remote_stamp(l->l.x.stamp, text);
    } else if (strcmp(element, "collection") == 0) {
        l->name[0] = '\0';
    } else if (strcmp(element, "response") == 0 && l->name[0]) {
        SCOPED(xfree) char *name = xasprintf("%s%s", l->dir, l->name);
        return remote_listing_entry(&l->l, name, l->e);
    }
    l->whole |= strcmp(element, "multistatus") == 0;
    return 0;
}

static int remote_http_on_listing(void *arg, const void *data, size_t len, struct err *e)
{
    struct listing *l = arg;
    l->e = e;
    return remote_listing_grows(&l->l, len, e) < 0 ? -1 : xml_read(&l->xml, data, len);
}

static enum remote_result http_list(struct remote *r, const char *dir, const struct remote_list *to,
                                    struct err *e)
{
    static const char body[] = "<?xml version=\"1.0\"?><propfind xmlns=\"DAV:\"><prop>"
                               "<getcontentlength/><getetag/><getlastmodified/><resourcetype/>"
                               "</prop></propfind>";
    struct listing l = {
        .l = {.r = r, .to = to}, .dir = dir, .xml = {.element = remote_http_on_element}};
    l.xml.arg = &l;
    const struct remote_sink sink = {remote_http_on_listing, &l};
    struct remote_request t = {.r = r, .what = "list", .name = r->shown.p, .to = &sink};
    if (remote_http_begin(&t, dir, "PROPFIND", e) < 0)
        return REMOTE_REFUSED;
    remote_request_header(&t, "Depth: 1");
    remote_request_header(&t, "Content-Type: application/xml");
    CURL_SET(&r->request, CURLOPT_POSTFIELDS, body);
    enum remote_result got = http_run(&t, NULL, e);
    if (got == REMOTE_MISSING) {
        err_clear(e);
        got = REMOTE_OK;
    } else if (got == REMOTE_OK && t.status != 207) {
        err_set(e, ERR_REFUSED, (int)t.status, "cannot list %s: it is not WebDAV (HTTP %ld)",
                r->shown.p, t.status);
        got = REMOTE_REFUSED;
    } else if (got == REMOTE_OK && !l.whole) {
        err_set(e, ERR_UNREACHABLE, 0, "cannot list %s: the listing is truncated", r->shown.p);
        got = REMOTE_LATER;
    }
    remote_request_end(&t);
    return got;
}

const struct remote_kind remote_http = {.open = http_open,
                                        .put = http_put,
                                        .get = dav_get,
                                        .size = dav_size,
                                        .list = http_list,
                                        .remove = http_remove};
