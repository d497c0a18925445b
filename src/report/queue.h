/* The alert queue on disk, as alert.c uses it.
 *
 *   000000000012.json       one alert (numbers only grow; file_commit, 0600)
 *   000000000007.json.bad   could not be read: set aside for a person, the last few are kept
 *   smtp.done               "000000000011\n": what this channel has
 *   lock                    held (flock) while numbers are given and while a batch is read
 *   reserve                 room kept so that "disk full" can still be queued
 *
 * Numbers have no holes of their own, so a hole between the mark and the newest file is an alert
 * that was dropped: no counter has to be kept. */
#ifndef WK_REPORT_QUEUE_H
#define WK_REPORT_QUEUE_H

#include <jansson.h>

#include "config/config.h"
#include "core/err.h"
#include "report/alert.h"

struct queue_batch {
    json_t *alerts;   /* array, oldest first; may be empty */
    uint64_t upto;    /* number of the last one */
    unsigned dropped; /* alerts missing between the mark and `upto` */
    unsigned damaged; /* of those, set aside as .bad */
};

/* Reads all that waits for `ch`; makes its done mark when it has none. Damaged files are set aside.
 */
int queue_load(const struct config *c, int dirfd, enum alert_channel ch, struct queue_batch *out,
               struct err *e);
void queue_batch_free(struct queue_batch *b);
/* Notes that `ch` has everything up to `upto`, and removes what every channel has. */
int queue_done(const struct config *c, int dirfd, enum alert_channel ch, uint64_t upto,
               struct err *e);

#endif
