/* One libcurl request, for alerts and for copies. These rules apply to each request:
 *   - TLS has version 1.2 or later and a valid certificate;
 *   - no proxy, .netrc or redirect that others have set up is used;
 *   - it ends in time, whatever the server does;
 *   - no text contains a piece of a secret. */
#include "net/curl_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"

#define PIECE 8 /* this many consecutive characters of a secret count as a leak */

static bool protocol_allowed(const char *list, const char *scheme)
{
    size_t n = strlen(scheme);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        if (len == n && strncmp(p, scheme, n) == 0)
            return true;
        p += len + (p[len] == ',');
    }
    return false;
}

/* Returns one part of the URL, to be freed with api->free(); NULL if the URL lacks this part. */
static char *url_part(struct curl_request *w, CURLU *u, CURLUPart part)
{
    char *s = NULL;
    return w->api->url_get(u, part, &s, 0) == CURLUE_OK ? s : NULL;
}

/* Parses the URL part by part, so that no text contains more of it than intended. */
static int url_parts(struct curl_request *w, const struct curl_target *t, struct err *e)
{
    static const CURLUPart secret[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS,
                                       CURLUPART_PATH, CURLUPART_QUERY,    CURLUPART_FRAGMENT};
    SCOPED(buf_free) struct buf shown = {0};
    bool login = false;
    CURLU *u = w->api->url();
    if (!u)
        return err_set(e, ERR_SYSTEM, 0, "libcurl cannot create a URL");
    bool parsed = w->api->url_set(u, CURLUPART_URL, t->url, 0) == CURLUE_OK;
    char *scheme = parsed ? url_part(w, u, CURLUPART_SCHEME) : NULL,
         *host = url_part(w, u, CURLUPART_HOST), *port = url_part(w, u, CURLUPART_PORT);
    text_clean(&shown, host ? host : "", 255);
    snprintf(w->host, sizeof w->host, "%s%s%s", shown.p, port ? ":" : "", port ? port : "");
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++) {
        char *s = url_part(w, u, secret[i]);
        bool path = secret[i] == CURLUPART_PATH || secret[i] == CURLUPART_QUERY;
        if (s && !(path && t->path_shown))
            curl_request_secret(w, s);
        login = login || (s && (secret[i] == CURLUPART_USER || secret[i] == CURLUPART_PASSWORD));
        w->api->free(s);
    }
    int rc = -1;
    if (!scheme) {
        err_set(e, ERR_CONFIG, 0, "%s: this is not a URL", t->key);
        err_hint(e, "it begins with one of: %s, then ://host", t->protocols);
    } else if (!protocol_allowed(t->protocols, scheme) || !shown.len) {
        err_set(e, ERR_CONFIG, 0, "%s: the protocol must be one of: %s", t->key, t->protocols);
    } else if (!t->insecure && config_plain_to_others(t->url, "http")) {
        err_set(e, ERR_CONFIG, 0,
                "%s: http:// to another host, which anybody on the network path can read", t->key);
        err_hint(e, "use https://, or set insecure = yes in the section");
    } else if (t->no_login && login) {
        err_set(e, ERR_CONFIG, 0, "%s: it must not contain a login", t->key);
        err_hint(e, "use user and password_file");
    } else {
        rc = 0;
    }
    w->api->free(scheme);
    w->api->free(host);
    w->api->free(port);
    w->api->url_cleanup(u);
    return rc;
}

/* Records the first option that libcurl refused. Options are set without a check after each; the
 * request then fails with this error. */
void curl_request_note(struct curl_request *w, CURLcode rc)
{
    if (rc != CURLE_OK && w->refused == CURLE_OK)
        w->refused = rc;
}

int curl_request_open(struct curl_request *w, const struct curl_target *t, struct err *e)
{
    w->timeout = t->timeout;
    w->refused = CURLE_OK;
    w->why[0] = '\0';
    buf_free(&w->secrets);
    w->api = curl_api(e);
    if (!w->api || url_parts(w, t, e) < 0)
        return -1;
    if (t->tls_ca && access(t->tls_ca, R_OK) < 0) {
        err_sys(e, errno, "tls_ca beside %s: cannot read %s", t->key, t->tls_ca);
        if (e)
            e->cls = ERR_CONFIG;
        return -1;
    }
    if (w->h)
        w->api->easy_reset(w->h);
    else
        w->h = w->api->easy_init();
    if (!w->h)
        return err_set(e, ERR_SYSTEM, 0, "libcurl cannot create a handle");
    CURL_SET(w, CURLOPT_URL, t->url);
    CURL_SET(w, CURLOPT_PROTOCOLS_STR, t->protocols);
    CURL_SET(w, CURLOPT_ERRORBUFFER, w->why);
    CURL_SET(w, CURLOPT_NOSIGNAL, 1L);
    CURL_SET(w, CURLOPT_PROXY, "");
    CURL_SET(w, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    CURL_SET(w, CURLOPT_FOLLOWLOCATION, 0L);
    if (t->idle) {
        CURL_SET(w, CURLOPT_LOW_SPEED_LIMIT, (long)CURL_REQUEST_SLOW);
        CURL_SET(w, CURLOPT_LOW_SPEED_TIME, (long)((t->timeout + 999) / 1000));
    } else {
        CURL_SET(w, CURLOPT_TIMEOUT_MS, (long)t->timeout);
    }
    CURL_SET(w, CURLOPT_CONNECTTIMEOUT_MS, (long)t->timeout);
    CURL_SET(w, CURLOPT_SERVER_RESPONSE_TIMEOUT, (long)((t->timeout + 999) / 1000));
    CURL_SET(w, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    CURL_SET(w, CURLOPT_SSL_VERIFYPEER, 1L);
    CURL_SET(w, CURLOPT_SSL_VERIFYHOST, 2L);
    if (t->tls_ca) { /* trusts this authority only, not the system's */
        CURL_SET(w, CURLOPT_CAINFO, t->tls_ca);
        CURL_SET(w, CURLOPT_CAPATH, NULL);
    }
    /* Without this option the request ends only when the name server answers, whatever the timeout
     * is. A failure is ignored, because versions before 7.87 lack the option but can send without
     * it. */
    w->api->easy_setopt(w->h, CURLOPT_QUICK_EXIT, 1L);
    return 0;
}

void curl_request_secret(struct curl_request *w, const char *s)
{
    w->secrets.secret = true;
    buf_adds(&w->secrets, s);
    buf_addc(&w->secrets, '\n');
}

/* Returns true if the text contains a piece of a secret. Compares pieces, because servers shorten
 * and wrap what they repeat. A false positive is harmless: the text is only replaced by a shorter
 * one. */
bool curl_request_leaks(const struct curl_request *w, const char *text)
{
    const char *s = w->secrets.p ? w->secrets.p : "";
    while (*s) {
        size_t len = strcspn(s, "\n");
        size_t piece = len < PIECE ? len : PIECE;
        /* Pieces of up to three characters ("/") occur in any text. */
        for (size_t i = 0; piece > 3 && i + piece <= len; i++)
            if (memmem(text, strlen(text), s + i, piece))
                return true;
        s += len + 1;
    }
    return false;
}

/* Returns the length of the tag, comment, style sheet or script that begins at `s`; 0 if none
 * begins there. */
static size_t curl_request_markup(const char *s)
{
    static const char *const whole[][2] = {
        {"<!--", "-->"}, {"<style", "</style"}, {"<script", "</script"}};
    const char *end = NULL;
    if (*s != '<' || !s[1] ||
        !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/!?", s[1]))
        return 0;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strncasecmp(s, whole[i][0], strlen(whole[i][0])) == 0)
            end = strcasestr(s, whole[i][1]);
    end = strchr(end ? end : s, '>');
    return end ? (size_t)(end + 1 - s) : strlen(s);
}

void curl_request_quote(const struct curl_request *w, struct buf *out, const char *lead,
                        const struct buf *body)
{
    SCOPED(buf_free) struct buf text = {0};
    bool blank = false;
    for (const char *s = body->p ? body->p : ""; *s;) {
        size_t tag = curl_request_markup(s);
        if (tag || strchr(" \t\r\n\f", *s)) {
            blank = text.len > 0;
            s += tag ? tag : 1;
            continue;
        }
        if (blank)
            buf_addc(&text, ' ');
        blank = false;
        buf_addc(&text, *s++);
    }
    if (!text.len || curl_request_leaks(w, text.p))
        return;
    buf_adds(out, lead);
    text_clean(out, text.p, CURL_REQUEST_QUOTED);
}

CURLcode curl_request_run(struct curl_request *w)
{
    return w->refused != CURLE_OK ? w->refused : w->api->easy_perform(w->h);
}

static const struct {
    CURLcode rc;
    enum err_class cls;
    const char *hint;
} meanings[] = {
    {CURLE_OPERATION_TIMEDOUT, ERR_STALLED, NULL},
    {CURLE_LOGIN_DENIED, ERR_DENIED, "check the user and the password file"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_REFUSED,
     "if the server's certificate is signed by a private authority, name the authority's file in "
     "tls_ca"},
    {CURLE_SSL_CACERT_BADFILE, ERR_CONFIG, "check the file named in tls_ca"},
    {CURLE_USE_SSL_FAILED, ERR_REFUSED,
     "the server does not offer STARTTLS (or an attacker on the network hides it)"},
    {CURLE_UNKNOWN_OPTION, ERR_SYSTEM, "libcurl is too old: 7.85 or newer is needed"},
};

int curl_request_fail(const struct curl_request *w, CURLcode rc, struct err *e)
{
    enum err_class cls = ERR_UNREACHABLE;
    const char *hint = NULL;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].rc == rc) {
            cls = meanings[i].cls;
            hint = meanings[i].hint;
        }
    const char *why =
        w->why[0] && !curl_request_leaks(w, w->why) ? w->why : w->api->easy_strerror(rc);
    SCOPED(buf_free) struct buf b = {0};
    text_clean(&b, why, 300);
    err_set(e, cls, (int)rc, "%s: %s", w->host, b.p);
    if (hint)
        err_hint(e, "%s", hint);
    return -1;
}

int curl_request_try(struct curl_request *w, bool connect, struct err *e)
{
    CURLcode rc = w->refused;
    if (connect) {
        if (w->timeout > CURL_REQUEST_CONNECT_MS)
            CURL_SET(w, CURLOPT_TIMEOUT_MS, (long)CURL_REQUEST_CONNECT_MS);
        CURL_SET(w, CURLOPT_CONNECT_ONLY, 1L);
        rc = curl_request_run(w);
    }
    return rc == CURLE_OK ? 0 : curl_request_fail(w, rc, e);
}

void curl_request_close(struct curl_request *w)
{
    curl_socket_t s = CURL_SOCKET_BAD;
    buf_free(&w->secrets);
    if (!w->h)
        return;
    /* Closing sends QUIT and would wait up to two minutes for the answer. After a shutdown for
     * reading there is nothing to wait for. */
    if (w->api->easy_getinfo(w->h, CURLINFO_ACTIVESOCKET, &s) == CURLE_OK && s != CURL_SOCKET_BAD)
        shutdown(s, SHUT_RD);
    w->api->easy_cleanup(w->h);
    w->h = NULL;
}
