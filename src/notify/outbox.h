/* The pending alerts, in memory, and the pacing of their delivery. An alert stays here until every
 * enabled channel has delivered it. The files of queue.h are a copy for the next supervisor; a disk
 * that is slow, full or gone does not delay a delivery for long. Pure: no disk, no network, no
 * clock. Not thread-safe.
 *
 * Each alert has two states: which channels have delivered it, and how far its copy on disk is. At
 * most ALERT_QUEUE_MAX are kept; beyond that the oldest is dropped, and counted in the next message
 * of each channel that had not delivered it.
 *
 * Pacing is a token bucket for each channel: the first OUTBOX_BURST messages go at once, then one
 * per minute with all that is pending. After a failure the pause is 5 s, doubled each time up to 5
 * min (or Retry-After). Bad news needs no token, and new bad news gets one attempt without waiting
 * for the end of such a pause. */
#ifndef WK_NOTIFY_OUTBOX_H
#define WK_NOTIFY_OUTBOX_H

#include "base/clock.h"
#include "base/fault.h"
#include "notify/alert.h"
#include "notify/message.h"

#define OUTBOX_BURST 4
#define OUTBOX_REFILL fault_wait(60000)
#define OUTBOX_RETRY_FIRST fault_wait(5000)
#define OUTBOX_RETRY_MAX 300000

enum outbox_copy {
    OUTBOX_NEW,      /* not yet passed to the disk writer */
    OUTBOX_GIVEN,    /* passed to the disk writer, no answer yet */
    OUTBOX_STORED,   /* on disk, under `number` */
    OUTBOX_UNSTORED, /* could not be stored, or waits for an older one that could not */
};
struct outbox_alert {
    json_t *json;
    enum outbox_copy copy;
    uint64_t number;
    bool done[ALERT_CHANNELS];        /* delivered, or not meant for this channel */
    unsigned sending[ALERT_CHANNELS]; /* place in the message in flight, from 1; 0: not in it */
    bool begun[ALERT_CHANNELS];       /* at least one delivery was begun */
    bool changed;                     /* its copy on disk does not yet list who has it */
};
struct outbox_channel {
    unsigned dropped, damaged; /* counts for the next message; `dropped` includes `damaged` */
    unsigned sending_dropped, sending_damaged;
    uint64_t mark;     /* highest number delivered */
    unsigned spent;    /* tokens taken from the bucket and not yet refilled */
    mono_t refilled;   /* the next token comes OUTBOX_REFILL later */
    int64_t pause;     /* ms after the last failure, doubled with each in a row */
    mono_t not_before; /* the pause after a failure ends */
    bool early;        /* the delivery in flight did not wait for not_before */
};
struct outbox {
    struct outbox_alert *list; /* in the order of delivery */
    size_t count;
    struct outbox_channel channel[ALERT_CHANNELS];
};

void outbox_add(struct outbox *o, const struct config *c, json_t *alert /* taken */);
/* Adds an alert that an earlier supervisor stored, before those of this one. `waits`: the channels
 * that have not delivered it. Does nothing if it is already here. */
void outbox_add_stored(struct outbox *o, json_t *alert /* taken */, uint64_t number,
                       const bool waits[ALERT_CHANNELS]);
/* Call this when the config has changed: alerts no longer wait for a channel that is off. */
void outbox_follow(struct outbox *o, const struct config *c);
/* The config has another webhook in this slot, or none; no delivery to the old one is under way. */
void outbox_forget(struct outbox *o, enum alert_channel ch);
size_t outbox_waiting(const struct outbox *o, enum alert_channel ch);

/* Returns ms until the next delivery may start, 0: now, -1: there is nothing to deliver. An alert
 * that is still being written to disk is not ready, unless `disk_away`. So if the supervisor is
 * killed, the alert is in a file, and soon the mark that it was sent. */
int64_t outbox_wait(const struct outbox *o, enum alert_channel ch, bool disk_away, mono_t now);
/* Begins a delivery of all ready alerts, which are a new array in *m. Each begin is followed by
 * sent or failed (`retry_after`: ms that the server requested). */
void outbox_begin(struct outbox *o, enum alert_channel ch, bool disk_away, mono_t now,
                  struct message *m);
void outbox_sent(struct outbox *o, enum alert_channel ch, mono_t now);
/* Call these when the server has accepted a part of the message in flight: the alert at this
 * place, from 1, or all alerts for the addresses in `received`, while those in `left` may lack
 * some. What was accepted is not sent again, whether sent or failed follows. */
void outbox_accepted(struct outbox *o, enum alert_channel ch, unsigned place);
void outbox_partly(struct outbox *o, enum alert_channel ch, const json_t *received,
                   const json_t *left);
void outbox_failed(struct outbox *o, enum alert_channel ch, int64_t retry_after, mono_t now);

/* Returns the next alert for the disk writer, or NULL. given(): it was passed on; stored(): the
 * result for the first one given (number 0: it could not be stored); not_stored(): no results will
 * come for those given, and all that are not stored are given again. Two files of one alert are
 * recognized by its id. */
const json_t *outbox_next(const struct outbox *o);
void outbox_given(struct outbox *o);
void outbox_stored(struct outbox *o, uint64_t number);
void outbox_not_stored(struct outbox *o);
/* Retries the alerts that could not be stored: the oldest now, and each other one when the one
 * before it is stored, so that the numbers keep the order. outbox_add() does this, too. */
void outbox_store_again(struct outbox *o);
/* Returns an alert whose copy on the disk must be replaced, and its number, or NULL. rewritten():
 * it was passed on. */
const json_t *outbox_changed(const struct outbox *o, uint64_t *number);
void outbox_rewritten(struct outbox *o, uint64_t number);
/* The copies' directory has changed. */
void outbox_moved(struct outbox *o);
/* Returns the number up to which everything was delivered; 0: none. */
uint64_t outbox_mark(const struct outbox *o, enum alert_channel ch);

#endif
