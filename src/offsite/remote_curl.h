/* Private to src/offsite: requests of the stores that use libcurl. */
#ifndef WK_OFFSITE_REMOTE_CURL_H
#define WK_OFFSITE_REMOTE_CURL_H

#include "net/curl_request.h"
#include "offsite/remote_int.h"

#define ANSWER_CAP 65536 /* bytes kept of an answer that has no sink */

/* One request. Starts as {.r = …, .what = …, .name = …}; remote_request_end() frees it. */
struct remote_request {
    struct remote *r;
    const char *what, *name; /* for messages: cannot <what> <name> */
    const struct remote_source *from;
    const struct remote_sink *to; /* receives the body of a 2xx answer; NULL: `answer` does */
    struct curl_slist *headers;
    bool whole; /* a short request: the timeout applies to all of it */

    struct err stop; /* the caller's own error */
    bool stopped;
    enum remote_result stop_is; /* REMOTE_OK: REMOTE_STOPPED */
    int64_t sent;
    struct buf answer;
    size_t header_bytes;
    long status;       /* of HTTP */
    char etag[130];    /* in the server's spelling */
    char location[80]; /* x-amz-bucket-region */
    wall_t date;       /* the server's clock; 0: not sent */
    bool explained;    /* http_detail found the store's own text in the answer */
    char hint[160];    /* set by http_detail; "": none */
};

/* Prepares a request for `url`. Returns -1 with the error of the config or the library. */
int remote_request_begin(struct remote_request *t, const char *url, const char *protocols,
                         struct err *e);
void remote_request_header(struct remote_request *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
CURLcode remote_request_run(struct remote_request *t);
/* Returns the meaning of a failed libcurl call, with its text. */
enum remote_result remote_request_failed(struct remote_request *t, CURLcode rc, struct err *e);
void remote_request_end(struct remote_request *t);

/* Sets a hint with the command that shows an SFTP server's key; `then`: what to do with it. Returns
 * -1. */
int remote_hint_host_key(struct err *e, const struct remote *r, const char *then);

/* ---- HTTP ---- */

/* Runs it and judges the status: REMOTE_OK for 2xx. `detail` (or NULL) adds the text of the
 * answer's body and may refine the result; without it the body's text is quoted. */
typedef enum remote_result http_detail(struct remote_request *t, enum remote_result is,
                                       struct buf *text);
enum remote_result http_run(struct remote_request *t, http_detail *detail, struct err *e);
/* Do remote_get() and remote_size() for a prepared request, and end it. */
enum remote_result http_get(struct remote_request *t, int64_t offset, http_detail *detail,
                            struct err *e);
enum remote_result http_size(struct remote_request *t, int64_t *size, http_detail *detail,
                             struct err *e);
/* Appends text percent-encoded, except letters, digits, "-._~" and, unless in a query, '/'. */
void http_encode(struct buf *out, const char *s, bool query);

#endif
