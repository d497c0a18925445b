/* Jobs: dumps, restores and other actions, one at a time, each in a child (job_child.h); and what their ends mean. */
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
/* ACTION_NONE: no job. */
enum action jobs_running(void);
/* Must what a client asks for wait? */
bool jobs_busy(const struct world *w);
/* Does the running one give way to what anybody asks for? (a drill by the clock) */
bool jobs_is_spare(void);
/* Does the running one save the state itself, since it changes which world this is, or whose? */
bool jobs_save_state(void);

/* What the job has sent to the clients that wait for it: a new reference, or NULL; *last: it has
 * ended. */
json_t *jobs_message(struct world *w, bool *last);
/* The same for a job whose process has ended, once its messages have been read. */
json_t *jobs_died(struct world *w, int wait_status, bool *last);
/* Does the job wait for the dump directory to be taken up that it found in the place of ours? Then
 * it is run again there; `e` not NULL: that was not possible. As jobs_message(). */
bool jobs_await_dir(void);
json_t *jobs_dir_changed(struct world *w, const struct err *e, bool *last);

/* As the state has it, at the start of the supervisor. */
void jobs_recall(struct world *w);
/* Something of a killed restore may be left in the server. */
void jobs_tidy_soon(void);

#endif
