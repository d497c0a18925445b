/* Carries out the guard's decisions (watch/guard.h) and passes them to the other parts. */
#ifndef WK_SUPERVISOR_DECISIONS_H
#define WK_SUPERVISOR_DECISIONS_H

struct config;
struct guard_config;
struct guard_event;
struct world;

/* Sets the guard's rules: those of the config, and the pauses between restores. */
void guard_config_from(const struct config *c, struct guard_config *out);

/* Only this function changes the guard's state. It decides, logs, alerts, requests publishing, and
 * ends the running job if the guard wants that. Jobs are started by jobs.c. */
void world_event(struct world *w, const struct guard_event *ev);

#endif
