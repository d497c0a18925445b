/* history.json: what the history (store/history.h) amounts to, for the pages. Used by the disk writer alone. */
#ifndef WK_SUPERVISOR_HISTORY_FILE_H
#define WK_SUPERVISOR_HISTORY_FILE_H

#include <jansson.h>

#include "base/err.h"

#define HISTORY_PUBLISHED "history.json"

/* Reads what was appended, and thins the file out when it is time for that. A history that cannot be read counts as
 * far as it can. */
void history_file_follow(int dump_dirfd);
/* What it amounts to, without the buckets: borrowed until the next publish. */
const json_t *history_file_events(void);
/* Follows it, and writes history.json if there is something new, or a minute has passed. */
int history_file_publish(const char *world, int dump_dirfd, int status_dirfd, struct err *e);

#endif
