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

#include "config/config.h"
#include "base/clock.h"
#include "base/err.h"
#include "notify/message.h"

#define ALERT_QUEUE_MAX 500

/* Key of an alert that some recipients of its mail have: the addresses that still lack it. Without it
 * all lack it. */
#define ALERT_RECIPIENTS "recipients"

/* The heartbeat is a channel that carries no alerts. */
enum alert_channel { ALERT_SMTP, ALERT_WEBHOOK, ALERT_CHANNELS, ALERT_HEARTBEAT = ALERT_CHANNELS };
const char *alert_channel_name(enum alert_channel ch); /* "smtp", "webhook", "heartbeat" */
bool alert_channel_on(const struct config *c, enum alert_channel ch);
int64_t alert_channel_timeout(const struct config *c, enum alert_channel ch); /* ms of a request */
/* Is any channel on, and the event (an EVENT_ bit) listed in [alert] events? */
bool alert_any_channel(const struct config *c);
bool alert_wanted(const struct config *c, unsigned event);

/* One alert. Strings may contain anything (names from the server): alert_compose() cleans them. */
struct alert {
    unsigned event;       /* EVENT_ bit; 0: of a test */
    const char *kind;     /* "new" (also NULL), "reminder", "recovered" */
    const char *headline; /* the subject after the world's name; NULL: the first clause of what */
    const char *what;     /* what happened, one line */
    const char *doing;    /* what is being done, or NULL */
    const char *todo;     /* what a person should do, with whole commands; may be "nothing" */
    const char *exposure; /* what a loss now would cost; NULL: not said */
    const char *incident; /* id of its incident's first alert; NULL: it is the first one */
    bool urgent;          /* bad news: pacing does not delay it */
    json_t *earlier;      /* an alert that was not sent on its own (taken), or NULL */
    json_t *facts;        /* further figures (object, borrowed) or NULL; shown in its order */
};
/* A new JSON object, which is the alert from here on, in memory, on disk and in a webhook:
 * {"id","incident","event","kind","urgent","world","host","at"[,"at_local"],"at_unix","headline","what","doing",
 * "todo","advice","commands":[{"does","command"}],"exposure","facts"[,"earlier"]}: valid UTF-8 without
 * control characters, at most about 30 KiB, plus as much for the earlier one. "advice" and "commands"
 * are "todo" split (base/steps.h): a command is there whole or not at all. Files of older versions lack
 * some keys. */
json_t *alert_compose(const struct config *c, const struct alert *a, wall_t now);

/* A request to a channel, as far as `depth` says: within CURL_REQUEST_CONNECT_MS for REQUEST_CONNECT,
 * else within the channel's timeout. `m` and `r`: for REQUEST_SEND; the heartbeat has no message.
 * -1 with r->accepted: the server refused some of the mail's recipients and accepted the others; the
 * error names the refused ones. Those in r->left are to be tried again (outbox_partly()), the others
 * are refused for good. -1 without it: not delivered, to be retried. */
int alert_request(const struct config *c, enum alert_channel ch, enum request_depth depth,
                  const struct message *m, struct request_result *r, struct err *e);
/* What a heartbeat says: the world is up; the supervisor was started; the world is down. */
enum alert_beat { BEAT_UP, BEAT_START, BEAT_FAILURE };
int alert_beat(const struct config *c, enum alert_beat beat, struct request_result *r,
               struct err *e);
/* Sends a test message (--test-alert). */
int alert_test(const struct config *c, enum alert_channel ch, struct request_result *r,
               struct err *e);

/* ---- mail.c, webhook.c: what alert_request() and alert_beat() call ---- */

/* As alert_request(): r->accepted if the server accepted the mail for at least one recipient, or all
 * that remained of it were refused for good. Each recipient gets the alerts that it lacks
 * (ALERT_RECIPIENTS): one mail for all who lack the same ones. */
int mail_request(const struct config *c, enum request_depth depth, const struct message *m,
                 struct request_result *r, struct err *e);
/* The whole mail to the config's recipients: header fields and body, with CRLF. */
int mail_compose(const struct config *c, const struct message *m, struct buf *out, struct err *e);

/* As alert_request() and alert_beat(). */
int webhook_request(const struct config *c, enum request_depth depth, const struct message *m,
                    struct request_result *r, struct err *e);
/* `end`: what the path of the URL continues with, or NULL. */
int webhook_heartbeat(const struct config *c, enum request_depth depth, const char *end,
                      struct request_result *r, struct err *e);
/* The request body in one format; the caller frees. */
char *webhook_body(enum config_format format, const struct message *m);

#endif
