/* The disk writer (disk_writer.h) as the supervisor's worker, and what it finds. */
#ifndef WK_SUPERVISOR_DISK_H
#define WK_SUPERVISOR_DISK_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"

struct part;
struct world;

extern const struct part disk_part;

/* Starts the disk writer. The supervisor's start fails if this fails. */
int disk_start(struct world *w, struct err *e);
/* Returns true if *place was set to what is now at the path of the dump directory. */
bool disk_message(struct world *w, enum file_dir_place *place);
/* Does the last writes of a supervisor that exits; waits until they are done, at most for
 * seconds. */
void disk_finish(struct world *w);
void disk_reaped(pid_t pid);
/* Records the pause in the state for the next supervisor: a pause outlives this process, and the
 * guard forgets it when it is stopped. */
void disk_note_pause(struct world *w);

/* Returns a borrowed list of the dumps that were found damaged; NULL: not known yet. */
json_t *disk_damaged_dumps(void);
/* Returns the time of the newest intact dump when the damaged dumps were found. ms 0: not known. */
wall_t disk_intact_at(void);

#endif
