/* The supervisor's side of the disk writer (disk_writer.h): starts and watches it, polls the disk's
 * state once a second, saves our own, and keeps the conditions that follow. */
#ifndef WK_SUPERVISOR_DISK_H
#define WK_SUPERVISOR_DISK_H

#include <sys/types.h>

#include "base/file.h"
#include "supervisor/world.h"

/* For the start of the supervisor, which fails where this does. */
int disk_start(struct world *w, struct err *e);
/* true: what is in the place of the dump directory now is in *place. */
bool disk_message(struct world *w, enum file_dir_place *place);
/* The last writes of a supervisor that ends; waits until they are done, for seconds at most. */
void disk_finish(struct world *w);
void disk_reaped(pid_t pid);

/* Borrowed: a list of the dumps that were found damaged; NULL: not known yet. */
json_t *disk_damaged_dumps(void);

#endif
