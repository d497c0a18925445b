/* Jobs: dumps, restores and other actions, one at a time, each in a child (job_child.h), and the
 * consequences of their ends. */
#ifndef WK_SUPERVISOR_JOBS_H
#define WK_SUPERVISOR_JOBS_H

#include <jansson.h>
#include <stdbool.h>

#include "actions/request.h"
#include "base/err.h"

struct part;
struct world;

extern const struct part jobs_part;

int jobs_start(struct world *w, struct request *r /* taken on success */, struct err *e);
/* Returns ACTION_NONE if there is no job. */
enum action jobs_running(void);
/* Returns true if a client's request must wait. */
bool jobs_busy(const struct world *w);
/* Returns true if the running job gives way to any request (a scheduled drill). */
bool jobs_is_spare(void);
/* Returns true if the running job saves the state itself, because it changes which world this is,
 * or who owns it. */
bool jobs_save_state(void);

/* Returns what the job has sent to waiting clients, as a new reference, or NULL; *last: it has
 * ended. */
json_t *jobs_message(struct world *w, bool *last);
/* Like jobs_message(), for a job whose process has ended, after its messages were read. */
json_t *jobs_died(struct world *w, int wait_status, bool *last);
/* Returns true if the job waits for the supervisor to open another directory that it found at the
 * path of the dump directory. */
bool jobs_await_dir(void);
/* Runs that job again in the new directory. `e` not NULL: the directory could not be opened, and
 * the job ends with this error. Returns like jobs_message(). */
json_t *jobs_dir_changed(struct world *w, const struct err *e, bool *last);

/* Loads the facts about jobs from the state, at the start of the supervisor. */
void jobs_recall(struct world *w);
/* Schedules a cleanup, because a killed restore may have left something in the server. */
void jobs_tidy_soon(void);

#endif
