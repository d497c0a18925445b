/* One request with libcurl, as mail, webhook and heartbeat share it: total timeout, TLS verified,
 * no redirects, no proxy, no netrc, only the protocols named. Blocking, bounded by the timeout.
 *
 * A URL may be a secret (a webhook's is its password): no text made here tells more of it than the
 * host and the port, and nothing that repeats a piece of a secret is passed on. */
#ifndef WK_REPORT_WIRE_H
#define WK_REPORT_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/text.h"
#include "report/curl.h"

struct wire_target {
    const char *key;       /* where the URL stands, for texts: "[alert.smtp] url" */
    const char *url;       /* borrowed until wire_open() returns */
    const char *protocols; /* "smtp,smtps" */
    const char *tls_ca;    /* file, or NULL: the system's */
    int64_t timeout;       /* ms, for everything from the name look-up to the last answer */
    bool no_login;         /* a user or password in the URL is refused */
    bool insecure;         /* http:// to another machine will do */
};

struct wire {
    const struct curl_api *api;
    CURL *h;
    CURLcode refused; /* the first option that libcurl did not take */
    char host[300];   /* "host" or "host:port", clean */
    char why[CURL_ERROR_SIZE];
    struct buf secrets; /* pieces that nothing may repeat, each ended by \n */
};

/* Options beyond the common ones; a refusal is remembered and told by wire_run(). */
#define WIRE_SET(w, option, value) wire_note((w), (w)->api->easy_setopt((w)->h, (option), (value)))
void wire_note(struct wire *w, CURLcode rc);

/* `w` is {0}. Call wire_close() also after an error. */
int wire_open(struct wire *w, const struct wire_target *t, struct err *e);
void wire_secret(struct wire *w, const char *s);
/* Does `text` repeat a piece of a secret? */
bool wire_leaks(const struct wire *w, const char *text);
/* Performs. The result is libcurl's; wire_fail() puts it into words. */
CURLcode wire_run(struct wire *w);
int wire_fail(const struct wire *w, CURLcode rc, struct err *e);
/* Never waits, whatever the server does. */
void wire_close(struct wire *w);

#endif
