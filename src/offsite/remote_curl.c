/* Sends requests with libcurl. Its errors become what a caller can act on: try again, ask for
 * help, look elsewhere. Each answer is limited in bytes and in time, whatever server sends it.
 * Its text is shown only after cleaning, and not at all if it repeats a secret. */
#include "offsite/remote_curl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define HEADERS_CAP 65536
#define BUFFER 524288L /* with SFTP, libcurl requests this many bytes before an answer arrives */
#define IDLE_MAX 15L   /* s: a server may close an older connection silently */

/* ---- callbacks ---- */

/* A caller's function failed: its error is kept, and libcurl is told to stop. */
static size_t remote_curl_stop(struct remote_request *t, size_t refusal)
{
    t->stopped = true;
    return refusal;
}

/* Holds the last bytes back until the source has ended. Newer versions of libcurl (8.14) request
 * no more bytes than were announced, so a longer source would leave a file in the store that
 * looks complete. */
static size_t on_read(char *data, size_t size, size_t n, void *arg)
{
    struct remote_request *t = arg;
    const struct remote_source *from = t->from;
    char beyond;
    ssize_t got = from->read(from->arg, data, size * n, &t->stop), more = 0;
    if (got < 0)
        return remote_curl_stop(t, CURL_READFUNC_ABORT);
    t->sent += got;
    if (got && t->sent == from->size)
        more = from->read(from->arg, &beyond, 1, &t->stop);
    if (more < 0)
        return remote_curl_stop(t, CURL_READFUNC_ABORT);
    t->sent += more;
    if (from->size < 0 || t->sent == from->size || (got && t->sent < from->size))
        return (size_t)got;
    t->stop_is = remote_came(from, t->name, t->sent, &t->stop);
    return remote_curl_stop(t, CURL_READFUNC_ABORT);
}

/* Passes only the body of a successful answer to the sink, where any other body would become part
 * of the file. The body of a refusal is text for people, and is kept up to a limit. */
static size_t remote_curl_on_body(char *data, size_t size, size_t n, void *arg)
{
    struct remote_request *t = arg;
    size_t len = size * n;
    long status = 0;
    t->r->request.api->easy_getinfo(t->r->request.h, CURLINFO_RESPONSE_CODE, &status);
    if (t->to && (status == 0 || (status >= 200 && status <= 299)))
        return t->to->write(t->to->arg, data, len, &t->stop) < 0 ? remote_curl_stop(t, 0) : len;
    if (t->answer.len + len > ANSWER_CAP)
        return 0;
    buf_add(&t->answer, data, len);
    return len;
}

/* Copies the value of a header that has this name. */
static void header_value(const char *line, size_t len, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return;
    for (line += n + 1, len -= n + 1; len && *line == ' '; len--)
        line++;
    while (len && strchr("\r\n ", line[len - 1]))
        len--;
    if (len < size) {
        memcpy(out, line, len);
        out[len] = '\0';
    }
}

static wall_t http_date(const char *s)
{
    struct tm tm = {0};
    const char *end = strptime(s, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    return (wall_t){end && !*end ? (int64_t)timegm(&tm) * 1000 : 0};
}

static size_t remote_curl_on_header(char *data, size_t size, size_t n, void *arg)
{
    struct remote_request *t = arg;
    size_t len = size * n;
    char date[40] = "";
    t->header_bytes += len;
    header_value(data, len, "etag", t->etag, sizeof t->etag);
    header_value(data, len, "x-amz-bucket-region", t->location, sizeof t->location);
    header_value(data, len, "date", date, sizeof date);
    if (date[0])
        t->date = http_date(date);
    return t->header_bytes > HEADERS_CAP ? 0 : len;
}

/* Called at least once a second, even if the server is silent. */
static int remote_curl_on_progress(void *arg, curl_off_t to_come, curl_off_t came, curl_off_t to_go,
                                   curl_off_t gone)
{
    const struct remote_request *t = arg;
    (void)to_come;
    (void)came;
    (void)to_go;
    (void)gone;
    return t->r->abandoned;
}

/* ---- one request ---- */

int remote_request_begin(struct remote_request *t, const char *url, const char *protocols,
                         struct err *e)
{
    const struct config_offsite *cfg = t->r->cfg;
    struct curl_request *w = &t->r->request;
    const struct curl_target target = {.key =
                                           cfg->endpoint ? "[offsite] endpoint" : "[offsite] url",
                                       .url = url,
                                       .protocols = protocols,
                                       .tls_ca = cfg->tls_ca,
                                       .timeout = cfg->timeout,
                                       .idle = !t->whole,
                                       .path_shown = true,
                                       .no_login = true,
                                       .insecure = cfg->insecure};
    if (curl_request_open(w, &target, e) < 0)
        return -1;
    CURL_SET(w, CURLOPT_MAXAGE_CONN, IDLE_MAX);
    CURL_SET(w, CURLOPT_WRITEFUNCTION, remote_curl_on_body);
    CURL_SET(w, CURLOPT_WRITEDATA, t);
    CURL_SET(w, CURLOPT_HEADERFUNCTION, remote_curl_on_header);
    CURL_SET(w, CURLOPT_HEADERDATA, t);
    CURL_SET(w, CURLOPT_XFERINFOFUNCTION, remote_curl_on_progress);
    CURL_SET(w, CURLOPT_XFERINFODATA, t);
    CURL_SET(w, CURLOPT_NOPROGRESS, 0L);
    if (cfg->max_rate) {
        CURL_SET(w, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)cfg->max_rate);
        CURL_SET(w, CURLOPT_MAX_RECV_SPEED_LARGE, (curl_off_t)cfg->max_rate);
    } else { /* with a rate limit, a buffer would exceed it */
        CURL_SET(w, CURLOPT_BUFFERSIZE, BUFFER);
        CURL_SET(w, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER);
    }
    if (t->from) {
        CURL_SET(w, CURLOPT_UPLOAD, 1L);
        CURL_SET(w, CURLOPT_READFUNCTION, on_read);
        CURL_SET(w, CURLOPT_READDATA, t);
        CURL_SET(w, CURLOPT_INFILESIZE_LARGE, (curl_off_t)t->from->size);
    }
    return 0;
}

void remote_request_header(struct remote_request *t, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    struct curl_slist *more = t->r->request.api->slist_append(t->headers, b.p);
    if (more)
        t->headers = more;
    else
        curl_request_note(&t->r->request, CURLE_OUT_OF_MEMORY);
    buf_free(&b);
}

CURLcode remote_request_run(struct remote_request *t)
{
    if (t->headers)
        CURL_SET(&t->r->request, CURLOPT_HTTPHEADER, t->headers);
    CURLcode rc = curl_request_run(&t->r->request);
    t->r->request.api->easy_getinfo(t->r->request.h, CURLINFO_RESPONSE_CODE, &t->status);
    if (t->date.ms)
        t->r->skew = t->date.ms - clock_wall().ms;
    t->r->skew_known |= t->date.ms != 0;
    return rc;
}

void remote_request_end(struct remote_request *t)
{
    buf_free(&t->answer);
    if (t->headers)
        t->r->request.api->slist_free_all(t->headers);
    t->headers = NULL;
}

/* Errors that are not listed are network errors, which may be over at the next attempt. */
static const struct {
    CURLcode rc;
    enum remote_result is;
    enum err_class cls;
    const char *hint;
} failures[] = {
    {CURLE_REMOTE_FILE_NOT_FOUND, REMOTE_MISSING, ERR_SYSTEM, NULL},
    {CURLE_REMOTE_ACCESS_DENIED, REMOTE_DENIED, ERR_DENIED, NULL},
    {CURLE_REMOTE_DISK_FULL, REMOTE_FULL, ERR_NOSPACE, NULL},
    {CURLE_LOGIN_DENIED, REMOTE_DENIED, ERR_DENIED,
     "check the user, and that the server has the public key; RSA keys need libssh2 1.11"},
    {CURLE_UNSUPPORTED_PROTOCOL, REMOTE_REFUSED, ERR_SYSTEM, NULL},
    {CURLE_SSL_CACERT_BADFILE, REMOTE_REFUSED, ERR_CONFIG, "check the file named in tls_ca"},
    {CURLE_UNKNOWN_OPTION, REMOTE_REFUSED, ERR_SYSTEM,
     "libcurl is too old: 7.87 or newer is needed"},
    {CURLE_URL_MALFORMAT, REMOTE_REFUSED, ERR_CONFIG, NULL},
};

int remote_hint_host_key(struct err *e, const struct remote *r, const char *then)
{
    SCOPED(buf_free) struct buf b = {0};
    const char *host = r->url.host, *bracket = strchr(host, ']'), /* of an IPv6 address */
                                        *port = strchr(bracket ? bracket : host, ':');
    size_t len = port ? (size_t)(port - host) : strlen(host);
    SCOPED(xfree) char *name = bracket ? xstrndup(host + 1, len - 2) : xstrndup(host, len);
    buf_adds(&b, "ssh-keyscan -t ed25519,ecdsa ");
    if (port)
        buf_printf(&b, "-p %s ", port + 1);
    buf_shell(&b, name);
    return err_hint(e, "%s shows the server's key; %s", b.p, then);
}

static void certificate_hint(const struct remote_request *t, struct err *e)
{
    const char *said = e ? e->text : "";
    if (strstr(said, "expired") || strstr(said, "not yet valid"))
        err_hint(e, "the server needs a new certificate, if this machine's clock is right");
    else if (strstr(said, "subject name"))
        err_hint(e, "in [offsite] %s, name the host as in the server's certificate",
                 t->r->cfg->endpoint ? "endpoint" : "url");
    else
        err_hint(e, "if the server's certificate is signed by a private authority, name the "
                    "authority's file in tls_ca");
}

/* libcurl has one error for a certificate and a host key, and its text about a host key says
 * less than is known here. */
static enum remote_result peer_failed(const struct remote_request *t, struct err *e)
{
    const char *hosts = t->r->cfg->known_hosts;
    if (t->r->url.kind != STORE_SFTP) {
        certificate_hint(t, e);
        return REMOTE_REFUSED;
    }
    err_set(e, ERR_REFUSED, 60, "%s: its host key is not the one in %s, or is missing there",
            t->r->request.host, hosts);
    remote_hint_host_key(e, t->r,
                         "before you add it, ask the server's admin whether it is correct");
    return REMOTE_REFUSED;
}

enum remote_result remote_request_failed(struct remote_request *t, CURLcode rc, struct err *e)
{
    const struct curl_request *w = &t->r->request;
    enum remote_result is = REMOTE_LATER;
    if (t->stopped) {
        err_pass(e, &t->stop);
        return t->stop_is ? t->stop_is : REMOTE_STOPPED;
    }
    curl_request_fail(w, rc, e);
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].rc == rc) {
            is = failures[i].is;
            if (e)
                e->cls = failures[i].cls;
            if (failures[i].hint)
                err_hint(e, "%s", failures[i].hint);
        }
    if (rc == CURLE_PEER_FAILED_VERIFICATION)
        is = peer_failed(t, e);
    if (t->r->url.kind == STORE_SFTP && e && strstr(e->text, "exchange encryption keys"))
        err_hint(
            e, "if this happens again, compare the server's host key with the one in known_hosts");
    err_step(e, "cannot %s %s", t->what, t->name);
    return is;
}

/* ---- HTTP ---- */

void http_encode(struct buf *out, const char *s, bool query)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~", c) || (c == '/' && !query);
        if (plain)
            buf_addc(out, *s);
        else
            buf_printf(out, "%%%02X", c);
    }
}

static const struct {
    long status;
    enum remote_result is;
    enum err_class cls;
    const char *words;
} statuses[] = {
    {401, REMOTE_DENIED, ERR_DENIED, "the login was refused"},
    {403, REMOTE_DENIED, ERR_DENIED, "forbidden"},
    {404, REMOTE_MISSING, ERR_SYSTEM, "not found"},
    {410, REMOTE_MISSING, ERR_SYSTEM, "gone"},
    {408, REMOTE_LATER, ERR_UNREACHABLE, "the request timed out"},
    {409, REMOTE_LATER, ERR_UNREACHABLE, "conflict"},
    {412, REMOTE_EXISTS, ERR_REFUSED, "the name is taken"},
    {413, REMOTE_REFUSED, ERR_REFUSED, "too large for the server"},
    {423, REMOTE_LATER, ERR_UNREACHABLE, "locked"},
    {425, REMOTE_LATER, ERR_UNREACHABLE, "not now"},
    {429, REMOTE_LATER, ERR_UNREACHABLE, "too many requests"},
    {507, REMOTE_FULL, ERR_NOSPACE, "no space left"},
};

/* A status of 500 or more is a temporary problem of the server. Any other status is an answer,
 * which stays the same until the configuration changes. */
static enum remote_result judge_status(struct remote_request *t, http_detail *detail, struct err *e)
{
    enum remote_result is = t->status >= 500 ? REMOTE_LATER : REMOTE_REFUSED;
    enum err_class cls = t->status >= 500 ? ERR_UNREACHABLE : ERR_REFUSED;
    const char *words =
        t->status >= 300 && t->status < 400 ? "a redirect, which is not followed" : NULL;
    SCOPED(buf_free) struct buf text = {0};
    curl_off_t wait = 0;
    const struct curl_request *w = &t->r->request;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == t->status) {
            is = statuses[i].is;
            cls = statuses[i].cls;
            words = statuses[i].words;
        }
    buf_printf(&text, "HTTP %ld%s%s", t->status, words ? ", " : "", words ? words : "");
    err_clear(e);
    enum remote_result was = is;
    is = detail ? detail(t, is, &text) : was;
    if (is != was)
        cls = is == REMOTE_FULL ? ERR_NOSPACE : is == REMOTE_LATER ? ERR_UNREACHABLE : ERR_REFUSED;
    if (!t->explained)
        curl_request_quote(w, &text, ", ", &t->answer);
    if (is == REMOTE_LATER && w->api->easy_getinfo(w->h, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK &&
        wait > 0)
        t->r->pause = wait > REMOTE_PAUSE_MAX / 1000 ? REMOTE_PAUSE_MAX : (int64_t)wait * 1000;
    SCOPED(buf_free) struct buf shown = {0};
    text_clean(&shown, curl_request_leaks(w, text.p) ? "an answer that contains a secret" : text.p,
               300);
    err_set(e, cls, (int)t->status, "cannot %s %s: %s: %s", t->what, t->name, w->host, shown.p);
    if (t->hint[0])
        err_hint(e, "%s", t->hint);
    else if (t->status == 401)
        err_hint(e, "check user and password_file");
    return is;
}

enum remote_result http_run(struct remote_request *t, http_detail *detail, struct err *e)
{
    CURLcode rc = remote_request_run(t);
    bool good = t->status >= 200 && t->status <= 299;
    /* The status counts even if an error's body is too long or cut off. A server may also refuse
     * before it has read everything. */
    if (rc != CURLE_OK && (t->stopped || good || t->status < 300))
        return remote_request_failed(t, rc, e);
    return good ? REMOTE_OK : judge_status(t, detail, e);
}

enum remote_result http_get(struct remote_request *t, int64_t offset, http_detail *detail,
                            struct err *e)
{
    CURL_SET(&t->r->request, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)offset);
    enum remote_result got = http_run(t, detail, e);
    if (offset && t->status == 416) { /* no bytes after the offset */
        err_clear(e);
        got = REMOTE_OK;
    }
    remote_request_end(t);
    return got;
}

/* Repeats a refused HEAD as a GET, because only the body of an answer gives the reason. A GET
 * that succeeds is not believed. A store that asked for a pause is not asked again. */
static enum remote_result ask_why(struct remote_request *t, enum remote_result is,
                                  http_detail *detail, struct err *e)
{
    struct curl_request *w = &t->r->request;
    struct err why = {0};
    t->header_bytes = 0;
    CURL_SET(w, CURLOPT_HTTPGET, 1L);
    CURL_SET(w, CURLOPT_RANGE, "0-0");
    enum remote_result got = http_run(t, detail, &why);
    if (got == REMOTE_OK || t->status < 300)
        return is;
    err_clear(e);
    err_pass(e, &why);
    return got;
}

enum remote_result http_size(struct remote_request *t, int64_t *size, http_detail *detail,
                             struct err *e)
{
    struct curl_request *w = &t->r->request;
    curl_off_t length = -1;
    CURL_SET(w, CURLOPT_NOBODY, 1L);
    enum remote_result got = http_run(t, detail, e);
    w->api->easy_getinfo(w->h, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (got == REMOTE_OK)
        *size = length;
    else if (got != REMOTE_MISSING && t->status >= 300 && !t->r->pause)
        got = ask_why(t, got, detail, e);
    remote_request_end(t);
    return got;
}
