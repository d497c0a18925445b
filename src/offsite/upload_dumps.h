/* Dumps, one step at a time: reads a manifest, sends a dump, or deletes what is not needed, and
 * reports it to the supervisor. Of the waiting dumps the newest is sent first: after a long
 * outage it is worth more than all earlier ones. Deletions, files of rolled-up rows and pinned
 * dumps take turns with it. [retention] is applied to local dumps and copies together to choose
 * what is sent, so that no dump is sent only to be deleted at once. It is applied to the copies
 * alone to choose what is deleted, so that no copy is deleted for a newer dump that is not stored
 * yet. */
#ifndef WK_OFFSITE_UPLOAD_DUMPS_H
#define WK_OFFSITE_UPLOAD_DUMPS_H

#include "offsite/upload.h"

/* Does one thing. *more: there may be more to do at once. Connects and lists if necessary;
 * after an error call upload_close() first. */
enum remote_result upload_dumps(struct upload *u, bool *more, struct err *e);

/* Updates the figures during a long upload: dumps may have appeared since it began. Changes nothing
 * else. */
void upload_dumps_figures(struct upload *u);

#endif
