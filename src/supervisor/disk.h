/* The disk writer (disk_writer.h) as the supervisor's worker, and what it finds. */
#ifndef WK_SUPERVISOR_DISK_H
#define WK_SUPERVISOR_DISK_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/file.h"

struct part;
struct world;

extern const struct part disk_part;

/* For the start of the supervisor, which fails where this does. */
int disk_start(struct world *w, struct err *e);
/* true: what is in the place of the dump directory now is in *place. */
bool disk_message(struct world *w, enum file_dir_place *place);
/* The last writes of a supervisor that ends; waits until they are done, for seconds at most. */
void disk_finish(struct world *w);
void disk_reaped(pid_t pid);
/* Into the state, for the next supervisor: a pause outlives this process, and the guard forgets it when it is told to
 * stop. */
void disk_note_pause(struct world *w);

/* Borrowed: a list of the dumps that were found damaged; NULL: not known yet. */
json_t *disk_damaged_dumps(void);

#endif
