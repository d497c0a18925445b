/* history.json: the summary of the history (store/history.h) for the pages. Used only by the disk
 * writer. */
#ifndef WK_SUPERVISOR_HISTORY_FILE_H
#define WK_SUPERVISOR_HISTORY_FILE_H

#include <jansson.h>

#include "base/err.h"

#define HISTORY_PUBLISHED "history.json"

/* Reads what was appended, and thins the file out when it is time. If the history has
 * errors, its readable part counts. */
void history_file_follow(int dump_dirfd);
/* Returns the summary without the buckets, borrowed until the next publish. */
const json_t *history_file_events(void);
/* Follows the history, and writes history.json if there is something new, or a minute has
 * passed. */
int history_file_publish(const char *world, int dump_dirfd, int status_dirfd, struct err *e);

#endif
