/* The scribe: a worker that does all writing of the supervisor, so that a slow or dead disk never
 * holds up the loop. It is given JSON packets and answers some:
 *
 *   {"publish":[{"name","data"},…]}   status files, by file_publish, mode 0644
 *   {"state":{…}}                     state.json, by file_commit
 *   {"alert":{…}}                     into the alert queue        -> {"queued":1}
 *   {"look":1}                                                    -> {"disk_free","waiting":[n,n]}
 * A failure is answered with {"failed":what, "error":{…}}, an alert that could not be queued comes
 * back. When the supervisor dies, the scribe writes what was sent before and ends. */
#ifndef WK_SCRIBE_H
#define WK_SCRIBE_H

#include "config/config.h"

struct scribe_args {
    const struct config *cfg;
    int dump_dirfd; /* borrowed */
};
/* worker_fn; arg is a struct scribe_args. */
int scribe_worker(int fd, void *arg);

#endif
