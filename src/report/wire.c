#include "report/wire.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"

#define PIECE 8 /* so many characters of a secret in a row are a leak */

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

/* Calls `take` with one part of the URL, if it is there. */
static void url_part(struct wire *w, CURLU *u, CURLUPart part,
                     void (*take)(struct wire *, const char *))
{
    char *s = NULL;
    if (w->api->url_get(u, part, &s, 0) == CURLUE_OK && s)
        take(w, s);
    w->api->free(s);
}

static void take_host(struct wire *w, const char *s)
{
    struct buf b = {0};
    text_clean(&b, s, 255);
    snprintf(w->host, sizeof w->host, "%s", b.p);
    buf_free(&b);
}

static void take_port(struct wire *w, const char *s)
{
    size_t n = strlen(w->host);
    snprintf(w->host + n, sizeof w->host - n, ":%s", s);
}

static bool has_login(struct wire *w, CURLU *u)
{
    char *user = NULL, *password = NULL;
    w->api->url_get(u, CURLUPART_USER, &user, 0);
    w->api->url_get(u, CURLUPART_PASSWORD, &password, 0);
    bool has = user || password;
    w->api->free(user);
    w->api->free(password);
    return has;
}

/* The parts are looked at one by one so that no text can hold more of the URL than meant. */
static int url_parts(struct wire *w, const struct wire_target *t, struct err *e)
{
    static const CURLUPart secret[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS,
                                       CURLUPART_PATH, CURLUPART_QUERY,    CURLUPART_FRAGMENT};
    char *scheme = NULL;
    int rc = -1;
    CURLU *u = w->api->url();
    if (!u)
        return err_set(e, ERR_SYSTEM, 0, "libcurl cannot make a URL");
    if (w->api->url_set(u, CURLUPART_URL, t->url, 0) != CURLUE_OK ||
        w->api->url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK) {
        err_set(e, ERR_CONFIG, 0, "%s: this is not a URL", t->key);
        err_hint(e, "it begins with one of: %s, then ://host", t->protocols);
        goto out;
    }
    url_part(w, u, CURLUPART_HOST, take_host);
    if (!protocol_allowed(t->protocols, scheme) || !w->host[0]) {
        err_set(e, ERR_CONFIG, 0, "%s: the protocol must be one of: %s", t->key, t->protocols);
        goto out;
    }
    if (!t->insecure && config_plain_to_others(t->url, "http")) {
        err_set(e, ERR_CONFIG, 0, "%s: http:// to another host, for everybody on the way to read",
                t->key);
        err_hint(e, "write https://, or insecure = yes into the section");
        goto out;
    }
    url_part(w, u, CURLUPART_PORT, take_port);
    if (t->no_login && has_login(w, u)) {
        err_set(e, ERR_CONFIG, 0, "%s: a login has no place in it", t->key);
        err_hint(e, "write user and password_file");
        goto out;
    }
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        url_part(w, u, secret[i], wire_secret);
    rc = 0;
out:
    w->api->free(scheme);
    w->api->url_cleanup(u);
    return rc;
}

void wire_note(struct wire *w, CURLcode rc)
{
    if (rc != CURLE_OK && w->refused == CURLE_OK)
        w->refused = rc;
}

static void common_options(struct wire *w, const struct wire_target *t)
{
    WIRE_SET(w, CURLOPT_URL, t->url);
    WIRE_SET(w, CURLOPT_PROTOCOLS_STR, t->protocols);
    WIRE_SET(w, CURLOPT_ERRORBUFFER, w->why);
    WIRE_SET(w, CURLOPT_NOSIGNAL, 1L);
    WIRE_SET(w, CURLOPT_PROXY, "");
    WIRE_SET(w, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    WIRE_SET(w, CURLOPT_FOLLOWLOCATION, 0L);
    WIRE_SET(w, CURLOPT_TIMEOUT_MS, (long)t->timeout);
    WIRE_SET(w, CURLOPT_CONNECTTIMEOUT_MS, (long)t->timeout);
    WIRE_SET(w, CURLOPT_SERVER_RESPONSE_TIMEOUT, (long)((t->timeout + 999) / 1000));
    WIRE_SET(w, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    WIRE_SET(w, CURLOPT_SSL_VERIFYPEER, 1L);
    WIRE_SET(w, CURLOPT_SSL_VERIFYHOST, 2L);
    if (t->tls_ca) { /* this authority only, not the system's beside it */
        WIRE_SET(w, CURLOPT_CAINFO, t->tls_ca);
        WIRE_SET(w, CURLOPT_CAPATH, NULL);
    }
    /* Without it the end of the request waits for a name server that does not answer, whatever the
     * timeout is. Unknown before 7.87, which is no reason to send nothing. */
    w->api->easy_setopt(w->h, CURLOPT_QUICK_EXIT, 1L);
}

int wire_open(struct wire *w, const struct wire_target *t, struct err *e)
{
    w->api = curl_api(e);
    if (!w->api || url_parts(w, t, e) < 0)
        return -1;
    if (t->tls_ca && access(t->tls_ca, R_OK) < 0) {
        err_sys(e, errno, "tls_ca beside %s: cannot read %s", t->key, t->tls_ca);
        if (e)
            e->cls = ERR_CONFIG;
        return -1;
    }
    w->h = w->api->easy_init();
    if (!w->h)
        return err_set(e, ERR_SYSTEM, 0, "libcurl cannot make a handle");
    common_options(w, t);
    return 0;
}

void wire_secret(struct wire *w, const char *s)
{
    buf_adds(&w->secrets, s);
    buf_addc(&w->secrets, '\n');
}

bool wire_leaks(const struct wire *w, const char *text)
{
    const char *s = w->secrets.p ? w->secrets.p : "";
    while (*s) {
        size_t len = strcspn(s, "\n");
        size_t piece = len < PIECE ? len : PIECE;
        /* Pieces of one to three characters ("/") are in every text. */
        for (size_t i = 0; piece > 3 && i + piece <= len; i++)
            if (memmem(text, strlen(text), s + i, piece))
                return true;
        s += len + 1;
    }
    return false;
}

CURLcode wire_run(struct wire *w)
{
    if (w->refused != CURLE_OK)
        return w->refused;
    /* libcurl leaves SIGPIPE to us where TLS writes to a connection that is gone. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    sigaction(SIGPIPE, &ignore, &old);
    CURLcode rc = w->api->easy_perform(w->h);
    sigaction(SIGPIPE, &old, NULL);
    return rc;
}

static const struct {
    CURLcode rc;
    enum err_class cls;
    const char *hint;
} meanings[] = {
    {CURLE_OPERATION_TIMEDOUT, ERR_STALLED, NULL},
    {CURLE_LOGIN_DENIED, ERR_DENIED, "check the user and the password file"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_REFUSED,
     "if the server has a certificate of your own authority, name its file in tls_ca"},
    {CURLE_SSL_CACERT_BADFILE, ERR_CONFIG, "check the file named in tls_ca"},
    {CURLE_USE_SSL_FAILED, ERR_REFUSED,
     "the server does not offer STARTTLS (or somebody between hides it)"},
    {CURLE_UNKNOWN_OPTION, ERR_SYSTEM, "libcurl is too old: 7.85 or newer is needed"},
};

int wire_fail(const struct wire *w, CURLcode rc, struct err *e)
{
    enum err_class cls = ERR_UNREACHABLE;
    const char *hint = NULL;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].rc == rc) {
            cls = meanings[i].cls;
            hint = meanings[i].hint;
        }
    const char *why = w->why[0] && !wire_leaks(w, w->why) ? w->why : w->api->easy_strerror(rc);
    struct buf b = {0};
    text_clean(&b, why, 300);
    err_set(e, cls, (int)rc, "%s: %s", w->host, b.p);
    if (hint)
        err_hint(e, "%s", hint);
    buf_free(&b);
    return -1;
}

void wire_close(struct wire *w)
{
    curl_socket_t s = CURL_SOCKET_BAD;
    /* Closing says QUIT and would wait for the answer, up to two minutes. What is gone for reading
     * cannot be waited for. */
    if (w->h && w->api->easy_getinfo(w->h, CURLINFO_ACTIVESOCKET, &s) == CURLE_OK &&
        s != CURL_SOCKET_BAD)
        shutdown(s, SHUT_RD);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    sigaction(SIGPIPE, &ignore, &old);
    if (w->h)
        w->api->easy_cleanup(w->h);
    sigaction(SIGPIPE, &old, NULL);
    if (w->secrets.p)
        explicit_bzero(w->secrets.p, w->secrets.cap);
    buf_free(&w->secrets);
    w->h = NULL;
}
