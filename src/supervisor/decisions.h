/* The guard's decisions (watch/guard.h), and who hears of them. */
#ifndef WK_SUPERVISOR_DECISIONS_H
#define WK_SUPERVISOR_DECISIONS_H

struct guard_event;
struct world;

/* The only place that changes the guard's state: decides, logs, alerts, has the change published, ends the running job
 * where the guard wants that. Jobs are started by jobs.c. */
void world_event(struct world *w, const struct guard_event *ev);

#endif
