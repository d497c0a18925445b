/* The pending alerts on disk: the copy of the outbox (outbox.h) from which the next supervisor
 * continues. Blocks: only the disk writer calls it. Several processes may use one directory.
 *
 *   000000000012.json       one alert (numbers only grow; file_commit, 0600)
 *   000000000007.json.bad   could not be read: set aside for a person; the last few are kept
 *   smtp.done               "000000000011\n": this channel's mark, the last number delivered; one
 *                           for each channel (alert_channel_name())
 *   lock                    held (flock) while numbers are assigned and while all is read
 *   reserve                 space reserved so that "disk full" can still be queued
 *   incidents               the open ones, at the end of this file
 *
 * An alert's file is removed once every enabled channel has delivered it; at most ALERT_QUEUE_MAX
 * are kept. With an HMAC key (store/kept.h) each is signed together with its name; a file that is
 * not, or that is not our own with mode 0600 and a single link, is set aside and never sent.
 *
 * Numbers are assigned without gaps, so a gap between the mark and the newest file is an alert that
 * was dropped: no counter is needed. */
#ifndef WK_NOTIFY_QUEUE_H
#define WK_NOTIFY_QUEUE_H

#include <jansson.h>

#include "base/err.h"
#include "config/config.h"
#include "notify/alert.h"

struct queue_kept {
    json_t *alerts;   /* array, oldest first; may be empty */
    uint64_t *number; /* of each */
    struct {
        uint64_t mark;    /* all up to this number were delivered; UINT64_MAX: the channel is off */
        unsigned dropped; /* alerts missing after that */
        unsigned damaged; /* the number of them that were moved aside as .bad */
    } channel[ALERT_CHANNELS];
    unsigned refused; /* files that are not ours and were moved aside by this call */
    char why[300];    /* the first of them and the reason, or "" */
};

/* Stores one alert for every enabled channel (without any: nothing is stored, number 0). A channel
 * that is new in the config begins with this alert, not with older ones still kept for another
 * channel. */
int queue_add(const struct config *c, int dirfd, const json_t *alert, uint64_t *number,
              struct err *e);
/* Replaces the file of an alert that only some recipients got. The new file names these. Does
 * nothing if the file no longer exists. */
int queue_replace(int dirfd, uint64_t number, const json_t *alert, struct err *e);
/* Reads all pending alerts; creates missing marks. Damaged files are moved aside. */
int queue_load(const struct config *c, int dirfd, struct queue_kept *out, struct err *e);
void queue_kept_free(struct queue_kept *k);
/* Returns the number of alerts pending for channel `ch`; -1 on error. */
int queue_waiting(const struct config *c, int dirfd, enum alert_channel ch, struct err *e);
/* Records that `ch` delivered everything up to `upto`; removes what all channels have delivered. */
int queue_done(const struct config *c, int dirfd, enum alert_channel ch, uint64_t upto,
               struct err *e);

/* Stores `o` in the queue's directory. On a full disk the space reserved for alerts is freed for
 * one retry. */
int queue_save(int dirfd, const char *name, size_t max, const json_t *o, struct err *e);

#endif
