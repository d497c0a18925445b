/* Runs the failure rules of --check while the world lives: daily, and after a reload. */
#ifndef WK_SUPERVISOR_PERIODIC_CHECK_H
#define WK_SUPERVISOR_PERIODIC_CHECK_H

#include "base/clock.h"

struct world;

struct periodic_check *periodic_check_new(struct world *w);
void periodic_check_timers(struct world *w, mono_t now);
void periodic_check_soon(struct world *w);
void periodic_check_stop(struct world *w);

#endif
