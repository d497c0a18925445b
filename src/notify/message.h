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
    unsigned dropped;     /* earlier alerts that were lost; `damaged` of them were moved aside */
    unsigned damaged;
};

/* Appends the string under `key`, cleaned, at most `max` bytes; "" if missing. */
void message_field(struct buf *out, const json_t *alert, const char *key, size_t max);
const json_t *message_newest(const struct message *m);
/* Returns the alert for the subject: the newest about the world's own state, else the newest. "A
 * dump is stored again" must not hide that the world is down. */
const json_t *message_lead(const struct message *m);
/* Returns the time of the newest alert; 0 if it has none. */
wall_t message_time(const struct message *m);
/* Appends an id, [0-9a-f], from the newest alert. It is the same for each repetition of a
 * message. */
void message_id(struct buf *out, const struct message *m);

/* Appends the incident of one alert: the id of its first alert, [0-9a-f]; "" if missing. */
void message_incident(struct buf *out, const json_t *alert);

/* Returns the length of the first clause: "dump failed" of "dump failed: cannot connect …". */
size_t message_clause(const char *what);
/* Appends "s8 BACK, nothing lost (+2 earlier)"; "(+2 more)" if one of them is later. */
void message_subject(struct buf *out, const struct message *m);
/* Appends the whole text, lines ended by \n, at most `max` bytes: the lead in full, then the
 * others, oldest first. Alerts that do not fit become one line each; the rest is only counted. */
void message_text(struct buf *out, const struct message *m, size_t max);
/* Appends a short text for a chat, at most `max` UTF-16 units (the unit of the services'
 * limits). */
void message_chat(struct buf *out, const struct message *m, size_t max);

/* How far a request to a server goes. */
enum request_depth {
    REQUEST_CHECK,   /* libcurl is installed, addresses are well-formed, secrets are readable */
    REQUEST_CONNECT, /* the connection can be made, including TLS and (mail) the login */
    REQUEST_SEND,
};

#define REQUEST_RETRY_AFTER_MAX 3600000
/* The result of sending one message. Starts as {0}; request_result_free(). */
struct request_result {
    bool accepted; /* the server accepted it */
    int64_t
        /* ms that the server requested as a wait, at most REQUEST_RETRY_AFTER_MAX, or 0 */
        retry_after;
    json_t *
        /* with `accepted`: who has the mail ("received") and who is to be retried ("left"), because
         * some refused it temporarily (4xx); or NULL */
        left;
    bool unneeded;    /* no recipient of the mail lacked it: no request was made */
    struct buf reply; /* the server's answer, one clean line without secrets; may be empty */
};
void request_result_free(struct request_result *r);

/* Functions that are called for each part of a message that the server has accepted, before the
 * next part is sent. If the rest fails, only the rest is sent again. */
struct request_progress {
    void (*alert)(void *arg, unsigned place); /* a webhook: the alert at this place, from 1 */
    /* a mail: who has it ("received") and who does not yet ("left"), arrays of addresses. NULL:
     * nothing new, but the work goes on. */
    void (*recipients)(void *arg, const json_t *recipients);
    void *arg;
};

/* Returns whether this address (a JSON string) still lacks the alert's mail (ALERT_RECEIVED). */
bool message_lacks(const json_t *alert, const json_t *address);

#endif
