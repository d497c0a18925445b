/* S3, signed by libcurl. Some of its versions sign requests wrongly that others sign well, so
 * requests use only what all versions support: the hash of the body is our own header, names and
 * queries are encoded here, queries are sorted, and each header and parameter has a value or '='.
 *
 * A small object is hashed first and sent from memory. A larger object is also sent in one
 * request, without a hash in advance: it is read back in any case, and this is done only over
 * TLS or within this machine. Everything else, and what is refused in this way, is sent in
 * parts. It becomes visible once the parts are put together. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/line.h"
#include "offsite/remote_curl.h"
#include "offsite/xml.h"

#define PART ((size_t)8 << 20) /* all except the last have this size: some stores require it */
#define LARGE_PART ((size_t)16 << 20)
#define LARGE ((int64_t)64 << 30)
#define PARTS_MAX 10000
#define ONE_REQUEST ((int64_t)4 << 30) /* stores accept at most 5 GiB at once */
#define EMPTY_PAGES 100                /* plus one for each ten objects: more is an endless list */
#define VERSION_MIN 0x075700           /* 7.87 accepts a given hash */
#define COMPLETE_WAITS 10              /* timeouts: assembling parts takes that long */

static enum remote_result remote_s3_s3_open(struct remote *r, struct err *e)
{
    const struct curl_api *api = curl_api(e);
    if (!api)
        return REMOTE_REFUSED;
    const curl_version_info_data *v = api->version_info(CURLVERSION_NOW);
    if (v->version_num < VERSION_MIN) {
        err_set(e, ERR_SYSTEM, 0, "this libcurl (%s) cannot sign requests for S3", v->version);
        err_hint(e, "install 7.87 or newer");
        return REMOTE_REFUSED;
    }
    if (file_read_secret(r->cfg->access_key_file, &r->login, e) < 0) {
        err_step(e, "[offsite] access_key_file");
        return REMOTE_REFUSED;
    }
    char *colon = strchr(r->login.p, ':');
    if (!colon || colon == r->login.p || !colon[1]) {
        err_set(e, ERR_CONFIG, 0,
                "[offsite] access_key_file: %s does not have ID:SECRET on its "
                "first line",
                r->cfg->access_key_file);
        return REMOTE_REFUSED;
    }
    *colon = '\0';
    buf_adds(&r->password, colon + 1);
    return REMOTE_OK;
}

/* ---- requests ---- */

static void remote_s3_hash(const EVP_MD *type, const void *data, size_t len, unsigned char *out)
{
    if (EVP_Digest(data, len, out, NULL, type, NULL) != 1)
        abort(); /* libcrypto has no SHA-256 or MD5: no result would be valid */
}

static void hash_header(struct remote_request *t, const void *body, size_t len)
{
    unsigned char sha[32];
    char hex[65] = "UNSIGNED-PAYLOAD";
    if (body) {
        remote_s3_hash(EVP_sha256(), body, len, sha);
        text_hex(sha, sizeof sha, hex);
    }
    remote_request_header(t, "x-amz-content-sha256: %s", hex);
}

/* Begins a request. `key`: NULL for the bucket itself. `query`: sorted and encoded, or NULL.
 * `body`: NULL if it is not known yet. */
static int remote_s3_begin(struct remote_request *t, const char *key, const char *query,
                           const void *body, size_t len, struct err *e)
{
    struct remote *r = t->r;
    struct curl_request *w = &r->request;
    SCOPED(buf_free) struct buf url = {0};
    const char *endpoint = r->cfg->endpoint;
    size_t end = endpoint ? strlen(endpoint) : 0;
    while (end && endpoint[end - 1] == '/')
        end--;
    if (endpoint)
        buf_add(&url, endpoint, end);
    else
        buf_printf(&url, "https://s3.%s.amazonaws.com", r->cfg->region);
    buf_printf(&url, "/%s", r->url.bucket);
    if (key) {
        buf_addc(&url, '/');
        http_encode(&url, r->url.path, false);
        http_encode(&url, key, false);
    }
    if (query)
        buf_printf(&url, "?%s", query);
    if (remote_request_begin(t, url.p, "http,https", e) < 0)
        return -1;
    CURL_SET(w, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    CURL_SET(w, CURLOPT_USERAGENT, "worldkeeper/" WK_VERSION);
    if (r->anonymous)
        return 0;
    SCOPED(xfree) char *how = xasprintf("aws:amz:%s:s3", r->cfg->region);
    curl_request_secret(w, r->password.p);
    CURL_SET(w, CURLOPT_AWS_SIGV4, how);
    CURL_SET(w, CURLOPT_USERNAME, r->login.p);
    CURL_SET(w, CURLOPT_PASSWORD, r->password.p);
    hash_header(t, body, len);
    return 0;
}

struct said {
    char code[80], message[200], region[80], upload[1200];
};

static int on_said(void *arg, const char *name, const char *text)
{
    struct said *s = arg;
    if (text && strcmp(name, "Code") == 0)
        line_set(s->code, sizeof s->code, "%s", text);
    else if (text && strcmp(name, "Message") == 0)
        line_set(s->message, sizeof s->message, "%s", text);
    else if (text && strcmp(name, "Region") == 0)
        snprintf(s->region, sizeof s->region, "%s", text);
    else if (text && strcmp(name, "UploadId") == 0 && strlen(text) < sizeof s->upload)
        snprintf(s->upload, sizeof s->upload, "%s", text);
    return 0;
}

static struct said read_answer(const struct remote_request *t)
{
    struct said s = {0};
    struct xml x = {.element = on_said, .arg = &s};
    xml_read(&x, t->answer.p ? t->answer.p : "", t->answer.len);
    return s;
}

/* Names the bucket's region if a request was signed for another one. Stores send it in a header
 * or in the body. */
static void explain_region(struct remote_request *t, const struct said *s, struct buf *text)
{
    const char *ours = t->r->cfg->region, *is = t->location[0] ? t->location : s->region;
    if (is[0] && strcmp(is, ours) != 0 &&
        strspn(is, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") ==
            strlen(is)) {
        buf_printf(text, "; the bucket is in region %s, [offsite] region is %s", is, ours);
        line_set(t->hint, sizeof t->hint, "set region = %s in [offsite]", is);
    } else if (strcmp(s->code, "AuthorizationHeaderMalformed") == 0) {
        line_set(t->hint, sizeof t->hint, "is %s the region of this store? ([offsite] region)",
                 ours);
    }
}

/* Interprets the code where the status is ambiguous: a 403 may be a wrong key, a wrong clock or
 * a quota; a 400 may be temporary. */
static enum remote_result judge_code(const struct remote_request *t, const char *code,
                                     enum remote_result is)
{
    static const struct {
        const char *code;
        enum remote_result is;
    } known[] = {{"NoSuchBucket", REMOTE_REFUSED},
                 {"QuotaExceeded", REMOTE_FULL},
                 {"StorageFull", REMOTE_FULL},
                 {"XMinioStorageFull", REMOTE_FULL},
                 {"SlowDown", REMOTE_LATER},
                 {"InternalError", REMOTE_LATER},
                 {"RequestTimeout", REMOTE_LATER},
                 {"BadDigest", REMOTE_LATER},
                 {"XAmzContentSHA256Mismatch", REMOTE_LATER}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(code, known[i].code) == 0)
            return known[i].is;
    /* An upload or a version is missing, not the requested name. */
    return t->status == 501 || strcmp(code, "NoSuchUpload") == 0 ? REMOTE_REFUSED : is;
}

static enum remote_result remote_s3_detail(struct remote_request *t, enum remote_result is,
                                           struct buf *text)
{
    struct said s = read_answer(t);
    t->explained = s.code[0] != '\0';
    t->hint[0] = '\0';
    if (s.code[0])
        buf_printf(text, ", %s%s%s", s.code, s.message[0] ? ": " : "", s.message);
    is = judge_code(t, s.code, is);
    if (is == REMOTE_DENIED)
        line_set(t->hint, sizeof t->hint,
                 "check access_key_file, and the permissions of this key for the bucket");
    explain_region(t, &s, text);
    if (strcmp(s.code, "RequestTimeTooSkewed") != 0)
        return is;
    if (t->date.ms)
        buf_printf(text, "; its clock is %+" PRId64 " s from ours",
                   (t->date.ms - clock_wall().ms) / 1000);
    line_set(t->hint, sizeof t->hint,
             "set the clock that is wrong: this machine's, or the store's");
    return is;
}

static enum remote_result s3_size(struct remote *r, const char *name, int64_t *size, struct err *e)
{
    struct remote_request t = {.r = r, .what = "look for", .name = name, .whole = true};
    *size = -1;
    if (remote_s3_begin(&t, name, NULL, "", 0, e) < 0)
        return REMOTE_REFUSED;
    return http_size(&t, size, remote_s3_detail, e);
}

static enum remote_result s3_get(struct remote *r, const char *name, int64_t offset,
                                 const struct remote_sink *to, struct err *e)
{
    struct remote_request t = {.r = r, .what = "read", .name = name, .to = to};
    if (remote_s3_begin(&t, name, NULL, "", 0, e) < 0)
        return REMOTE_REFUSED;
    return http_get(&t, offset, remote_s3_detail, e);
}

static enum remote_result remote_s3_remove_at(struct remote *r, const char *name, const char *query,
                                              struct err *e)
{
    struct remote_request t = {.r = r, .what = "delete", .name = name, .whole = true};
    if (remote_s3_begin(&t, name, query, "", 0, e) < 0)
        return REMOTE_REFUSED;
    CURL_SET(&r->request, CURLOPT_CUSTOMREQUEST, "DELETE");
    enum remote_result got = http_run(&t, remote_s3_detail, e);
    remote_request_end(&t);
    return got;
}

static enum remote_result s3_remove(struct remote *r, const char *name, struct err *e)
{
    return remote_s3_remove_at(r, name, NULL, e);
}

/* ---- storing ---- */

/* Bytes in memory, which libcurl may request again. */
struct body {
    const char *p;
    size_t len, at;
    struct remote_request *t;
};

static ssize_t body_read(void *arg, void *data, size_t room, struct err *e)
{
    struct body *b = arg;
    size_t n = b->len - b->at < room ? b->len - b->at : room;
    (void)e;
    memcpy(data, b->p + b->at, n);
    b->at += n;
    return (ssize_t)n;
}

/* Rewinds the body: libcurl sends it again if the connection that it had kept was closed by the
 * server. */
static int body_seek(void *arg, curl_off_t offset, int origin)
{
    struct body *b = arg;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > b->len)
        return CURL_SEEKFUNC_CANTSEEK;
    b->at = (size_t)offset;
    b->t->sent = offset;
    return CURL_SEEKFUNC_OK;
}

/* Adds the headers of an object lock ([offsite] object_lock): its mode and end where an object
 * `begins`, and the MD5 of the body, which S3 then requires, where there is one (`data`). */
static void lock_headers(struct remote_request *t, bool begins, const void *data, size_t len)
{
    unsigned char md5[16], base64[32];
    char until[TEXT_SHORT];
    int64_t lock = t->r->unlocked ? 0 : t->r->cfg->object_lock;
    if (!lock)
        return;
    if (data) {
        remote_s3_hash(EVP_md5(), data, len, md5);
        EVP_EncodeBlock(base64, md5, sizeof md5);
        remote_request_header(t, "Content-MD5: %s", (char *)base64);
    }
    if (begins) {
        remote_request_header(t, "x-amz-object-lock-mode: GOVERNANCE");
        remote_request_header(t, "x-amz-object-lock-retain-until-date: %s",
                              text_utc((wall_t){clock_wall().ms + lock}, until));
    }
}

/* Sends bytes in memory with PUT: a whole object (`object`), or a part of an upload. */
static enum remote_result remote_s3_put_bytes(struct remote *r, const char *name, const char *query,
                                              bool object, const char *data, size_t len,
                                              char etag[130], struct err *e)
{
    struct remote_request t = {.r = r, .what = "store", .name = name};
    struct body body = {.p = data, .len = len, .t = &t};
    const struct remote_source from = {.read = body_read, .arg = &body, .size = (int64_t)len};
    t.from = &from;
    if (remote_s3_begin(&t, name, query, data, len, e) < 0)
        return REMOTE_REFUSED;
    CURL_SET(&r->request, CURLOPT_SEEKFUNCTION, body_seek);
    CURL_SET(&r->request, CURLOPT_SEEKDATA, &body);
    lock_headers(&t, object, data, len);
    if (object && !r->unconditional)
        remote_request_header(&t, "If-None-Match: *");
    enum remote_result got = http_run(&t, remote_s3_detail, e);
    memcpy(etag, t.etag, sizeof t.etag);
    bool unknown = t.status == 501 && object && !r->unconditional;
    remote_request_end(&t);
    if (!unknown)
        return got;
    r->unconditional = true; /* conditions are not supported; the name was looked up */
    err_clear(e);
    return remote_s3_put_bytes(r, name, query, object, data, len, etag, e);
}

static enum remote_result remote_s3_s3_read(struct remote *r, const char *name,
                                            const struct remote_sink *to,
                                            char version[REMOTE_VERSION], struct err *e)
{
    struct remote_request t = {.r = r, .what = "read", .name = name, .to = to, .whole = true};
    if (remote_s3_begin(&t, name, NULL, "", 0, e) < 0)
        return REMOTE_REFUSED;
    enum remote_result got = http_run(&t, remote_s3_detail, e);
    remote_request_end(&t);
    memcpy(version, t.etag, sizeof t.etag);
    if (got != REMOTE_OK || version[0])
        return got;
    err_set(e, ERR_REFUSED, 0, "cannot read %s: %s: no ETag in the answer", name, r->request.host);
    return REMOTE_REFUSED;
}

static enum remote_result s3_replace(struct remote *r, const char *name, const struct buf *data,
                                     const char *version, char next[REMOTE_VERSION], struct err *e)
{
    struct remote_request t = {.r = r, .what = "replace", .name = name, .whole = true};
    struct body body = {.p = data->p, .len = data->len, .t = &t};
    const struct remote_source from = {.read = body_read, .arg = &body, .size = (int64_t)data->len};
    size_t len = version ? strlen(version) : 0;
    bool quoted = len > 2 && version[0] == '"' && version[len - 1] == '"';
    t.from = &from;
    if (remote_s3_begin(&t, name, NULL, data->p, data->len, e) < 0)
        return REMOTE_REFUSED;
    CURL_SET(&r->request, CURLOPT_SEEKFUNCTION, body_seek);
    CURL_SET(&r->request, CURLOPT_SEEKDATA, &body);
    if (!version)
        remote_request_header(&t, "If-None-Match: *");
    else if (quoted && r->bare)
        remote_request_header(&t, "If-Match: %.*s", (int)(len - 2), version + 1);
    else
        remote_request_header(&t, "If-Match: %s", version);
    enum remote_result got = http_run(&t, remote_s3_detail, e);
    memcpy(next, t.etag, sizeof t.etag);
    remote_request_end(&t);
    /* If the file was deleted, its version has changed as well. */
    return got == REMOTE_MISSING && version ? REMOTE_EXISTS : got;
}

/* Sets the error of an answer that began as a success and ended as an error. */
static void late_error(struct remote_request *t, enum remote_result is, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0}, shown = {0};
    const struct curl_request *w = &t->r->request;
    remote_s3_detail(t, is, &text);
    text_clean(&shown, curl_request_leaks(w, text.p) ? "" : text.p, 300);
    err_set(e, ERR_UNREACHABLE, 200, "cannot store %s: %s: HTTP 200%s", t->name, w->host, shown.p);
}

/* Sends a POST and returns its answer in *said. */
static enum remote_result remote_s3_post(struct remote *r, const char *name, const char *query,
                                         const struct buf *body, bool ends, struct said *said,
                                         struct err *e)
{
    struct remote_request t = {.r = r, .what = "store", .name = name, .whole = true};
    if (remote_s3_begin(&t, name, query, body->p ? body->p : "", body->len, e) < 0)
        return REMOTE_REFUSED;
    CURL_SET(&r->request, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
    CURL_SET(&r->request, CURLOPT_POSTFIELDS, body->p ? body->p : "");
    /* libcurl adds its own header but does not sign it, and Ceph 20 refuses unsigned headers. */
    remote_request_header(&t, ends ? "Content-Type: application/xml"
                                   : "Content-Type: application/octet-stream");
    if (ends)
        CURL_SET(&r->request, CURLOPT_TIMEOUT_MS, (long)(COMPLETE_WAITS * r->cfg->timeout));
    else
        lock_headers(&t, true, NULL, 0);
    if (ends && !r->unconditional)
        remote_request_header(&t, "If-None-Match: *");
    enum remote_result got = http_run(&t, remote_s3_detail, e);
    *said = read_answer(&t);
    bool unknown = t.status == 501 && ends && !r->unconditional;
    /* A long operation begins its answer with 200, and may still end with an error. */
    if (got == REMOTE_OK && said->code[0]) {
        got = strcmp(said->code, "PreconditionFailed") == 0 ? REMOTE_EXISTS : REMOTE_LATER;
        late_error(&t, got, e);
    }
    remote_request_end(&t);
    if (!unknown)
        return got;
    r->unconditional = true;
    err_clear(e);
    return remote_s3_post(r, name, query, body, ends, said, e);
}

struct pieces {
    const struct remote_source *from;
    char *data;
    size_t room, len;
    int64_t bytes;
    bool end;
};

/* Fills the buffer from the source, until one of them ends. */
static enum remote_result remote_s3_fill(struct pieces *p, const char *name, struct err *e)
{
    p->len = 0;
    while (!p->end && p->len < p->room) {
        ssize_t n = p->from->read(p->from->arg, p->data + p->len, p->room - p->len, e);
        if (n < 0)
            return REMOTE_STOPPED;
        p->end = n == 0;
        p->len += (size_t)n;
    }
    p->bytes += (int64_t)p->len;
    return p->end ? remote_came(p->from, name, p->bytes, e) : REMOTE_OK;
}

/* Sends the first part, which is in the buffer, and then all others. */
static enum remote_result put_parts(struct remote *r, const char *name, const char *id,
                                    struct pieces *p, struct err *e)
{
    SCOPED(buf_free) struct buf list = {0}, query = {0};
    struct said said;
    enum remote_result got = REMOTE_OK;
    buf_adds(&list, "<CompleteMultipartUpload>");
    for (unsigned n = 1; got == REMOTE_OK && p->len; n++) {
        char etag[130];
        buf_clear(&query);
        buf_printf(&query, "partNumber=%u&uploadId=%s", n, id);
        if (n > PARTS_MAX) {
            err_set(e, ERR_REFUSED, 0, "cannot store %s: it is too large: more than %d parts", name,
                    PARTS_MAX);
            return REMOTE_REFUSED;
        }
        got = remote_s3_put_bytes(r, name, query.p, false, p->data, p->len, etag, e);
        if (got == REMOTE_MISSING || got == REMOTE_EXISTS)
            got = REMOTE_LATER;
        buf_printf(&list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", n, etag);
        if (got == REMOTE_OK)
            got = remote_s3_fill(p, name, e);
    }
    buf_adds(&list, "</CompleteMultipartUpload>");
    buf_clear(&query);
    buf_printf(&query, "uploadId=%s", id);
    return got == REMOTE_OK ? remote_s3_post(r, name, query.p, &list, true, &said, e) : got;
}

/* Sets the lock of the object again, because some stores forget the lock that was set when the
 * upload in parts began. */
static enum remote_result lock_object(struct remote *r, const char *name, struct err *e)
{
    SCOPED(buf_free) struct buf body = {0};
    char until[TEXT_SHORT], etag[130];
    if (r->unlocked || !r->cfg->object_lock)
        return REMOTE_OK;
    buf_printf(
        &body,
        "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>%s</RetainUntilDate></Retention>",
        text_utc((wall_t){clock_wall().ms + r->cfg->object_lock}, until));
    enum remote_result got =
        remote_s3_put_bytes(r, name, "retention=", false, body.p, body.len, etag, e);
    if (got != REMOTE_OK)
        err_step(e, "stored, but not locked");
    return got == REMOTE_OK ? got : REMOTE_REFUSED;
}

/* The name appears only with the last request, which puts the parts together. The parts of a
 * failed upload are deleted at once if possible, because they take space that no list shows.
 * Otherwise remote_sweep() finds them by age. */
static enum remote_result put_large(struct remote *r, const char *name, struct pieces *p,
                                    struct err *e)
{
    struct said said;
    SCOPED(buf_free) struct buf id = {0}, query = {0};
    enum remote_result got = remote_s3_post(r, name, "uploads=", &(struct buf){0}, false, &said, e);
    if (got != REMOTE_OK)
        return got;
    if (!said.upload[0]) {
        err_set(e, ERR_REFUSED, 0, "cannot store %s: %s: no UploadId in the answer", name,
                r->request.host);
        return REMOTE_REFUSED;
    }
    http_encode(&id, said.upload, true);
    got = put_parts(r, name, id.p, p, e);
    if (got != REMOTE_OK) {
        int64_t pause = r->pause;
        buf_printf(&query, "uploadId=%s", id.p);
        remote_s3_remove_at(r, name, query.p, NULL);
        r->pause = pause;
        return got;
    }
    return lock_object(r, name, e);
}

/* Returns true if one request without a hash is allowed: an object lock requires a hash, and no
 * other machine between here and the store may be able to change the bytes. */
static bool fits_one_request(const struct remote *r, const struct remote_source *from)
{
    bool safe = !r->cfg->endpoint || !config_plain_to_others(r->cfg->endpoint, "http");
    return safe && !r->in_parts && from->size > (int64_t)PART && from->size <= ONE_REQUEST &&
           (r->unlocked || !r->cfg->object_lock);
}

/* Sends the source's bytes as they arrive. */
static enum remote_result put_stream(struct remote *r, const char *name,
                                     const struct remote_source *from, struct err *e)
{
    struct remote_request t = {.r = r, .what = "store", .name = name, .from = from};
    if (remote_s3_begin(&t, name, NULL, NULL, 0, e) < 0)
        return REMOTE_REFUSED;
    if (!r->unconditional)
        remote_request_header(&t, "If-None-Match: *");
    enum remote_result got = http_run(&t, remote_s3_detail, e);
    bool unknown = t.status == 501 && !r->unconditional;
    remote_request_end(&t);
    if (!unknown)
        return got;
    r->unconditional =
        true; /* as in remote_s3_put_bytes(); bytes that it accepted are sent again */
    if (t.sent && (!from->again || from->again(from->arg, e) < 0))
        return REMOTE_LATER;
    err_clear(e);
    return put_stream(r, name, from, e);
}

/* The buffer is one byte larger than the announced size, so that the end of a short source is
 * seen before anything is sent. */
static enum remote_result put_buffered(struct remote *r, const char *name,
                                       const struct remote_source *from, struct err *e)
{
    char etag[130];
    struct pieces p = {.from = from, .room = from->size > LARGE ? LARGE_PART : PART};
    if (from->size >= 0 && from->size < (int64_t)p.room)
        p.room = (size_t)from->size + 1;
    p.data = xcalloc(1, p.room);
    enum remote_result got = remote_s3_fill(&p, name, e);
    if (got == REMOTE_OK)
        got = p.end ? remote_s3_put_bytes(r, name, NULL, true, p.data, p.len, etag, e)
                    : put_large(r, name, &p, e);
    free(p.data);
    return got;
}

static enum remote_result s3_put(struct remote *r, const char *name,
                                 const struct remote_source *from, struct err *e)
{
    bool one = fits_one_request(r, from);
    enum remote_result got = one ? put_stream(r, name, from, e) : put_buffered(r, name, from, e);
    /* A proxy may limit the size of a request, and a bucket may require a hash of each request. */
    if (one && from->again && (got == REMOTE_REFUSED || got == REMOTE_DENIED)) {
        r->in_parts = true;
        err_clear(e);
        got = from->again(from->arg, e) < 0 ? REMOTE_STOPPED : put_buffered(r, name, from, e);
    }
    return got == REMOTE_MISSING ? REMOTE_REFUSED : got;
}

/* ---- lists ---- */

struct page {
    struct remote_listing l; /* l.to NULL: lists uploads instead of objects */
    struct xml xml;
    char key[1100], token[2200], upload[1200];
    wall_t begun;
    bool more, whole; /* whole: its last element arrived */
    struct err *e;
    /* for uploads */
    const char *dir;
    wall_t before;
    char **old; /* key, id, key, id … */
    size_t old_count;
};

static void remote_s3_keep_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", strlen(text) < size ? text : "");
}

/* Passes an object's name on, if it is below the prefix. */
static int object_ended(struct page *p)
{
    const char *prefix = p->l.r->url.path;
    return p->l.to && text_starts(p->key, prefix)
               ? remote_listing_entry(&p->l, p->key + strlen(prefix), p->e)
               : 0;
}

static void upload_ended(struct page *p)
{
    const char *prefix = p->l.r->url.path;
    bool ours = !p->l.to && text_starts(p->key, prefix) && p->upload[0];
    const char *name = ours ? p->key + strlen(prefix) : "";
    if (!ours || !text_starts(name, p->dir) || !remote_name_valid(name) || !p->begun.ms ||
        p->begun.ms >= p->before.ms || p->old_count >= 2000)
        return;
    p->old = xrealloc(p->old, (p->old_count + 2) * sizeof *p->old);
    p->old[p->old_count++] = xstrdup(name);
    p->old[p->old_count++] = xstrdup(p->upload);
}

static wall_t remote_s3_utc(const char *text)
{
    wall_t t = {0};
    SCOPED(xfree) char *copy = xstrndup(text, strcspn(text, ".Z"));
    SCOPED(xfree) char *zulu = xasprintf("%sZ", copy);
    return text_time_parse(zulu, clock_wall(), &t) == 0 ? t : (wall_t){0};
}

static int remote_s3_on_element(void *arg, const char *name, const char *text)
{
    struct page *p = arg;
    bool object = strcmp(name, "Contents") == 0, upload = strcmp(name, "Upload") == 0;
    if (!text) {
        if (object || upload) {
            p->key[0] = p->upload[0] = '\0';
            p->l.x = (struct remote_entry){.size = -1};
            p->begun.ms = 0;
        }
    } else if (strcmp(name, "Key") == 0) {
        remote_s3_keep_text(p->key, sizeof p->key, text);
    } else if (strcmp(name, "Size") == 0) {
        p->l.x.size = remote_size_read(text);
    } else if (strcmp(name, "ETag") == 0) {
        remote_stamp(p->l.x.stamp, text);
    } else if (strcmp(name, "UploadId") == 0) {
        remote_s3_keep_text(p->upload, sizeof p->upload, text);
    } else if (strcmp(name, "Initiated") == 0) {
        p->begun = remote_s3_utc(text);
    } else if (strcmp(name, "NextContinuationToken") == 0) {
        remote_s3_keep_text(p->token, sizeof p->token, text);
    } else if (strcmp(name, "ListBucketResult") == 0 ||
               strcmp(name, "ListMultipartUploadsResult") == 0) {
        p->whole = true;
    } else if (strcmp(name, "IsTruncated") == 0) {
        p->more = strcmp(text, "true") == 0;
    } else if (object) {
        return object_ended(p);
    } else if (upload) {
        upload_ended(p);
    }
    return 0;
}

static int on_page(void *arg, const void *data, size_t len, struct err *e)
{
    struct page *p = arg;
    p->e = e;
    return remote_listing_grows(&p->l, len, e) < 0 ? -1 : xml_read(&p->xml, data, len);
}

/* Reads one page. A page whose last element did not arrive is refused, because objects that it
 * lacks would be taken for deleted. */
static enum remote_result read_page(struct remote *r, struct page *p, const char *query,
                                    struct err *e)
{
    const struct remote_sink sink = {on_page, p};
    struct remote_request t = {.r = r, .what = "list", .name = r->shown.p, .to = &sink};
    p->xml = (struct xml){.element = remote_s3_on_element, .arg = p};
    p->more = p->whole = false;
    p->token[0] = '\0';
    if (remote_s3_begin(&t, NULL, query, "", 0, e) < 0)
        return REMOTE_REFUSED;
    enum remote_result got = http_run(&t, remote_s3_detail, e);
    remote_request_end(&t);
    if (got == REMOTE_MISSING)
        got = REMOTE_REFUSED; /* the bucket does not exist */
    if (got == REMOTE_OK && !p->whole) {
        err_set(e, ERR_UNREACHABLE, 0, "cannot list %s: the listing is truncated", r->shown.p);
        got = REMOTE_LATER;
    }
    return got;
}

/* Reads page by page as long as there is a token. Because a server may send the same token
 * forever, the number of pages is limited: no store needs that many pages without an object, or
 * for each ten objects. */
static enum remote_result s3_list(struct remote *r, const char *dir, const struct remote_list *to,
                                  struct err *e)
{
    struct page p = {.l = {.r = r, .to = to}};
    SCOPED(buf_free) struct buf query = {0};
    enum remote_result got;
    size_t pages = 0;
    do {
        buf_clear(&query);
        if (p.token[0]) {
            buf_adds(&query, "continuation-token=");
            http_encode(&query, p.token, true);
            buf_addc(&query, '&');
        }
        buf_adds(&query, "delimiter=%2F&list-type=2&max-keys=1000&prefix=");
        http_encode(&query, r->url.path, true);
        http_encode(&query, dir, true);
        got = read_page(r, &p, query.p, e);
    } while (got == REMOTE_OK && p.more && p.token[0] && ++pages < EMPTY_PAGES + p.l.count / 10);
    if (got == REMOTE_OK && p.more) {
        err_set(e, ERR_REFUSED, 0, "cannot list %s: its listing does not end", r->shown.p);
        return REMOTE_REFUSED;
    }
    return got;
}

/* Reads only the first page of 1,000 uploads, which has the oldest; the rest is left for the
 * next time. */
static enum remote_result s3_sweep(struct remote *r, const char *dir, wall_t before,
                                   unsigned *removed, struct err *e)
{
    struct page p = {.l = {.r = r}, .dir = dir, .before = before};
    SCOPED(buf_free) struct buf query = {0};
    buf_adds(&query, "max-uploads=1000&prefix=");
    http_encode(&query, r->url.path, true);
    http_encode(&query, dir, true);
    buf_adds(&query, "&uploads=");
    enum remote_result got = read_page(r, &p, query.p, e);
    for (size_t i = 0; i < p.old_count; i += 2) {
        buf_clear(&query);
        buf_adds(&query, "uploadId=");
        http_encode(&query, p.old[i + 1], true);
        if (got == REMOTE_OK) {
            got = remote_s3_remove_at(r, p.old[i], query.p, e);
            *removed += got == REMOTE_OK;
        }
        free(p.old[i]);
        free(p.old[i + 1]);
    }
    free(p.old);
    return got;
}

const struct remote_kind remote_s3 = {.open = remote_s3_s3_open,
                                      .put = s3_put,
                                      .get = s3_get,
                                      .size = s3_size,
                                      .list = s3_list,
                                      .remove = s3_remove,
                                      .sweep = s3_sweep,
                                      .read = remote_s3_s3_read,
                                      .replace = s3_replace};
