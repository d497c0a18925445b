/* The text of one message to people: one alert, or several that piled up. Pure, no network.
 *
 * The alerts may come from a file that somebody edited, so every string is cleaned again (one line,
 * valid UTF-8, limited length) where it is shown. */
#ifndef WK_NOTIFY_MESSAGE_H
#define WK_NOTIFY_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/text.h"

#define MESSAGE_SUBJECT_MAX 160 /* characters */

struct message {
    const json_t *alerts; /* array, oldest first, at least one; borrowed */
    unsigned dropped;     /* earlier alerts that were lost; `damaged` of them were set aside */
    unsigned damaged;
};

/* The string under `key`, cleaned, at most `max` bytes; "" if missing. */
void message_field(struct buf *out, const json_t *alert, const char *key, size_t max);
const json_t *message_newest(const struct message *m);
/* The alert that the subject is about: the newest about the world's own state, else the newest. "A
 * dump is stored again" must not hide that the world is down. */
const json_t *message_lead(const struct message *m);
/* The time of the newest; 0 if it has none. */
wall_t message_time(const struct message *m);
/* The same for each repetition of a message: [0-9a-f], from the newest alert. */
void message_id(struct buf *out, const struct message *m);

/* The incident of one alert: the id of its first alert, [0-9a-f]; "" if missing. */
void message_incident(struct buf *out, const json_t *alert);

/* Bytes of the first clause of what happened: "dump failed" of "dump failed: cannot connect …". */
size_t message_clause(const char *what);
/* "s8 BACK, nothing lost (+2 earlier)"; "(+2 more)" if one of them is later. */
void message_subject(struct buf *out, const struct message *m);
/* The whole text, lines ended by \n, at most `max` bytes: the lead in full, then the others, oldest
 * first. Those that do not fit become one line each; the rest is only counted. */
void message_text(struct buf *out, const struct message *m, size_t max);
/* A short text for a chat, at most `max` UTF-16 units (the unit of the services' limits). */
void message_chat(struct buf *out, const struct message *m, size_t max);

/* How far a request goes that takes a message to a server. */
enum request_depth {
    REQUEST_CHECK,   /* libcurl is installed, addresses are well-formed, secrets are readable */
    REQUEST_CONNECT, /* the connection can be made, up to TLS and (mail) the login */
    REQUEST_SEND,
};

#define REQUEST_RETRY_AFTER_MAX 3600000
/* The result of sending one message. Starts as {0}; request_result_free(). */
struct request_result {
    bool accepted; /* the server accepted it */
    int64_t
        retry_after; /* ms that the server asked us to wait, at most REQUEST_RETRY_AFTER_MAX, or 0 */
    json_t *
        left; /* with `accepted`: addresses that refused the mail for now (4xx), to be retried; or NULL */
    struct buf reply; /* the server's answer, one clean line without secrets; may be empty */
};
void request_result_free(struct request_result *r);

#endif
