/* Carries out the guard's decisions (watch/guard.h) and passes them to the other parts. */
#ifndef WK_SUPERVISOR_DECISIONS_H
#define WK_SUPERVISOR_DECISIONS_H

struct guard_event;
struct world;

/* Only this function changes the guard's state. It decides, logs, alerts, requests publishing, and
 * ends the running job if the guard wants that. Jobs are started by jobs.c. */
void world_event(struct world *w, const struct guard_event *ev);

#endif
