/* The disk writer's side of the history: follows the file, publishes what it amounts to, and thins
 * it out. */
#ifndef WK_SUPERVISOR_HISTORY_FILE_H
#define WK_SUPERVISOR_HISTORY_FILE_H

#include <jansson.h>

#include "base/err.h"

#define HISTORY_PUBLISHED "history.json"

/* What it amounts to, without the buckets: borrowed until the next publish. */
const json_t *history_file_events(void);
/* Writes history.json if there is something new, or a minute has passed. A history that cannot be
 * read is published as far as it can. */
int history_file_publish(const char *world, int dump_dirfd, int status_dirfd, struct err *e);

#endif
