/* Alerts: composed, queued on disk until delivered, sent from workers.
 *
 * The queue is a directory: one JSON file per alert, "<12 digits>.json", and per channel a file
 * "<channel>.done" with the last number delivered (queue.h tells the rest). A file goes when every
 * configured channel has it. At most ALERT_QUEUE_MAX are kept; beyond, the oldest is dropped and
 * counted in the next message. A damaged file is set aside as "<12 digits>.json.bad" and counted
 * too. Delivery is at least once: the Message-ID (mail) and "id" (webhook) are the same when it
 * repeats. Messages of one channel go in order; what has piled up goes as one folded message.
 *
 * Everything here but compose, the names and the pacing blocks (disk, network): only the scribe,
 * workers and command line actions call it. No function is for several threads at once; several
 * processes may use one queue. */
#ifndef WK_REPORT_ALERT_H
#define WK_REPORT_ALERT_H

#include <jansson.h>
#include <stdbool.h>

#include "config/config.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/text.h"

#define ALERT_QUEUE_MAX 500

enum alert_channel { ALERT_SMTP, ALERT_WEBHOOK, ALERT_CHANNELS };
const char *alert_channel_name(enum alert_channel ch); /* "smtp", "webhook" */
bool alert_channel_on(const struct config *c, enum alert_channel ch);
/* Is any channel on, and the event (an EVENT_ bit) among [alert] events? */
bool alert_wanted(const struct config *c, unsigned event);

/* Name of an EVENT_ bit ("down"), as in the config; "test" for anything else. */
const char *alert_event_name(unsigned event);

/* One alert. Strings may hold anything (names from the server): composing makes them safe. */
struct alert {
    unsigned event;    /* EVENT_ bit */
    const char *kind;  /* "new" (also NULL), "reminder", "recovered" */
    const char *what;  /* what happened, one line; the subject is made from it */
    const char *doing; /* what is being done, or NULL */
    const char *todo;  /* what a person should do; "nothing" is a good answer */
    json_t *facts;     /* further figures (object, borrowed) or NULL; shown in its order */
};
/* A new JSON object: {"id","event","kind","world","host","at","at_unix","what","doing","todo",
 * "facts"}: valid UTF-8 without control characters, at most about 25 KiB. */
json_t *alert_compose(const struct config *c, const struct alert *a, wall_t now);

/* Stores one alert for every channel that is on (with none on: nothing is stored). A channel that
 * is new in the config begins with this alert, not with the old ones still kept for another
 * channel. */
int alert_queue_add(const struct config *c, int dirfd, const json_t *alert, struct err *e);
/* How many wait for channel `ch`; -1 on error. */
int alert_queue_waiting(int dirfd, enum alert_channel ch, struct err *e);

/* What became of one delivery. Init with {0}, but with the `upto` of the one before: what that says
 * is noted and not sent again. Free with alert_result_free(). */
struct alert_result {
    unsigned sent; /* alerts in the message that was accepted; 0: nothing waited, or it failed */
    int64_t retry_after; /* ms that the server asked us to wait (at most one hour), or 0 */
    uint64_t upto;       /* the queue's last that was accepted and could not be noted, or 0 */
    struct buf reply;    /* the server's answer, one clean line without secrets; empty when none */
};
void alert_result_free(struct alert_result *r);

/* Sends everything that waits for one channel as one message and marks it done.
 * -1 with r->sent > 0: some recipients of the mail were refused, the others have it; the error
 * names them, the message is done and will not be repeated (so pace it as sent, and show the
 * error). -1 with r->sent 0: not delivered (or not noted as delivered): it stays and is to be tried
 * again. */
int alert_deliver(const struct config *c, int dirfd, enum alert_channel ch, struct alert_result *r,
                  struct err *e);
/* Composed alerts (an array) as one message straight through a channel, past the queue: when that
 * cannot be written. */
int alert_send(const struct config *c, enum alert_channel ch, const json_t *alerts,
               struct alert_result *r, struct err *e);
/* The same with a test message (--test-alert). */
int alert_test(const struct config *c, enum alert_channel ch, struct alert_result *r,
               struct err *e);
/* All that can be known without sending (--check): libcurl is there, addresses and URLs are well
 * formed, secrets readable. */
int alert_check(const struct config *c, enum alert_channel ch, struct err *e);
/* Fetches the heartbeat URL. */
int alert_heartbeat(const struct config *c, struct err *e);

/* Pacing of one channel, pure: when may the next delivery start? The first ALERT_BURST messages go
 * at once; then one a minute, folded. After a failure: 5 s, doubled, at most 5 min (or
 * Retry-After). */
#define ALERT_BURST 4
#define ALERT_REFILL 60000
#define ALERT_RETRY_FIRST 5000
#define ALERT_RETRY_MAX 300000
#define ALERT_RETRY_AFTER_MAX 3600000
struct alert_pace {
    unsigned tokens;
    mono_t refilled;
    unsigned failures; /* in a row */
    mono_t not_before;
};
void alert_pace_init(struct alert_pace *p, mono_t now);
/* ms until the next delivery may start, 0: now. */
int64_t alert_pace_wait(const struct alert_pace *p, mono_t now);
bool alert_pace_may(const struct alert_pace *p, mono_t now);
void alert_pace_sent(struct alert_pace *p, mono_t now);
void alert_pace_failed(struct alert_pace *p, int64_t retry_after_ms, mono_t now);

#endif
