/* One libcurl request, shared by mail, webhook, heartbeat and off-site stores: total timeout,
 * verified TLS, no redirects, no proxy, no netrc, only the protocols given. Blocking, bounded by
 * the timeout.
 *
 * A URL may be a secret (a webhook's is its password): texts made here contain no more of it
 * than host and port, and text that repeats a piece of a secret is not passed on. */
#ifndef WK_NET_CURL_REQUEST_H
#define WK_NET_CURL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"
#include "net/curl.h"

#define CURL_REQUEST_SLOW 1024 /* bytes per second below which there is no progress */

struct curl_target {
    const char *key;       /* the config key of the URL, for messages: "[alert.smtp] url" */
    const char *url;       /* borrowed until curl_request_open() returns */
    const char *protocols; /* "smtp,smtps" */
    const char *tls_ca;    /* file, or NULL: the system's */
    int64_t timeout;       /* ms, from the name lookup to the last answer */
    bool idle;       /* the timeout is for a period without progress, not for the whole request */
    bool path_shown; /* the URL after the host is not secret */
    bool no_login;   /* refuse a user or password in the URL */
    bool insecure;   /* allow http:// to another machine */
};

struct curl_request {
    const struct curl_api *api;
    CURL *h;
    int64_t timeout;
    CURLcode refused; /* error of the first option that libcurl refused */
    char host[300];   /* "host" or "host:port", clean */
    char why[CURL_ERROR_SIZE];
    struct buf secrets; /* texts that messages must not contain, each ended by \n */
};

/* Sets an option beyond the common ones; curl_request_run() returns a refusal. */
#define CURL_SET(w, option, value)                                                                 \
    curl_request_note((w), (w)->api->easy_setopt((w)->h, (option), (value)))
void curl_request_note(struct curl_request *w, CURLcode rc);

/* Opens a request. `w` starts as {0}, or had a request before, whose connection may be reused and
 * whose options and secrets are forgotten. curl_request_close() is needed after an error, too. */
int curl_request_open(struct curl_request *w, const struct curl_target *t, struct err *e);
void curl_request_secret(struct curl_request *w, const char *s);
/* Returns true if `text` contains a piece of a secret. */
bool curl_request_leaks(const struct curl_request *w, const char *text);
/* Appends `lead` and the readable part of an answer's body: its text without tags, on one line, at
 * most CURL_REQUEST_QUOTED bytes. Appends nothing if there is no text or if it contains a piece of
 * a secret. */
void curl_request_quote(const struct curl_request *w, struct buf *out, const char *lead,
                        const struct buf *body);
#define CURL_REQUEST_QUOTED 200
#define CURL_REQUEST_CONNECT_MS 10000 /* or the target's timeout if that is shorter */
/* Checks that all options are valid. With `connect` it also connects, but sends nothing. */
int curl_request_try(struct curl_request *w, bool connect, struct err *e);
/* Performs the request. Returns libcurl's result; curl_request_fail() turns it into an error. */
CURLcode curl_request_run(struct curl_request *w);
int curl_request_fail(const struct curl_request *w, CURLcode rc, struct err *e);
/* Never blocks, whatever the server does. */
void curl_request_close(struct curl_request *w);

#endif
