/* Composes alerts and sends them through a channel. Pending alerts are in the outbox (outbox.h),
 * which decides when a delivery may start, and in files for the next supervisor (queue.h).
 * Delivery is at least once: a repetition has the same Message-ID (mail) and "id" (webhook).
 * Messages of one channel are sent in order; alerts that piled up are combined into one message.
 *
 * Requests block: only workers and command-line actions make them. Not thread-safe. */
#ifndef WK_NOTIFY_ALERT_H
#define WK_NOTIFY_ALERT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"
#include "config/config.h"
#include "notify/message.h"

#define ALERT_QUEUE_MAX 500

/* Key of an alert whose mail some recipients have received: these addresses, and those that refused
 * it permanently. All others lack it, including one that has since been added to the config. */
#define ALERT_RECEIVED "received"

/* The numbers from ALERT_WEBHOOK on are the config's webhooks, by slot. The heartbeat is a channel
 * that carries no alerts. */
enum alert_channel {
    ALERT_SMTP,
    ALERT_WEBHOOK,
    ALERT_CHANNELS = ALERT_WEBHOOK + CONFIG_WEBHOOKS,
    ALERT_HEARTBEAT = ALERT_CHANNELS
};
/* "smtp", "webhook", "webhook.NAME", "heartbeat"; valid as long as the config. */
const char *alert_channel_name(const struct config *c, enum alert_channel ch);
bool alert_channel_on(const struct config *c, enum alert_channel ch);
/* Returns true for an end that the mail before it announced. Only webhooks get it, to close what
 * they opened. */
bool alert_is_expected(const json_t *alert);
int64_t alert_channel_timeout(const struct config *c, enum alert_channel ch); /* ms of a request */
/* Returns whether any channel is on and the event (an EVENT_ bit) is listed in [alert] events. */
bool alert_wanted(const struct config *c, unsigned event);

/* One alert. Strings may contain anything (names from the server): alert_compose() cleans them. */
struct alert {
    unsigned event;       /* EVENT_ bit; 0: a test */
    const char *kind;     /* "new" (also NULL), "reminder", "recovered" */
    const char *headline; /* the subject after the world's name; NULL: the first clause of `what` */
    const char *what;     /* what happened, one line */
    const char *doing;    /* what is being done, or NULL */
    const char *todo;     /* what an operator should do, with whole commands; may be "nothing" */
    const char *exposure; /* what a loss now would cost; NULL: not included */
    const char *incident; /* id of its incident's first alert; NULL: this is the first one */
    bool urgent;          /* not delayed by pacing */
    bool expected;        /* an end that the alert before it announced: no mail */
    json_t *earlier;      /* an alert that was not sent separately (taken), or NULL */
    json_t *facts; /* further figures (object, borrowed) or NULL; shown in the object's order */
};
/* Returns a new JSON object, which is the alert from here on, in memory, on disk and in a webhook:
 * {"id","incident","event","kind","urgent","world","host","at"[,"at_local"],"at_unix","headline",
 * "what","doing","todo","advice","commands":[{"does","command"}],"exposure","facts"[,"earlier"]}.
 * It is valid UTF-8 without control characters, at most about 30 KiB, plus as much for the earlier
 * one.
 * "advice" and "commands" are "todo" split (base/steps.h): a command is complete or missing. Files
 * of older versions lack some keys. */
json_t *alert_compose(const struct config *c, const struct alert *a, wall_t now);

/* Sends a message to a channel, up to `depth`: within CURL_REQUEST_CONNECT_MS for REQUEST_CONNECT,
 * else within the channel's timeout for each request; a mail server has ten minutes more to answer
 * the whole text. A message needs several requests if a webhook takes one for each alert, or if a
 * mail's recipients lack different alerts; `p` (may be NULL) is told of the accepted ones. `m`,
 * `p` and `r`: for REQUEST_SEND; the heartbeat has no message. Returns 0, or -1. With r->accepted,
 * the server refused some of the mail's recipients and accepted the others; the error names the
 * refused ones. r->left has who received each alert and who must be tried again (outbox_partly());
 * all others are refused permanently. With r->unneeded, no recipient lacked any of the alerts, and
 * no request was made. Without r->accepted, all of the message that `p` was not told of was not
 * delivered and must be retried. */
int alert_request(const struct config *c, enum alert_channel ch, enum request_depth depth,
                  const struct message *m, const struct request_progress *p,
                  struct request_result *r, struct err *e);
/* Meaning of a heartbeat: the world is up; the supervisor was started; the world is down. */
enum alert_beat { BEAT_UP, BEAT_START, BEAT_FAILURE };
int alert_beat(const struct config *c, enum alert_beat beat, struct request_result *r,
               struct err *e);
/* Sends a test message (--test-alert). */
int alert_test(const struct config *c, enum alert_channel ch, struct request_result *r,
               struct err *e);

#endif
