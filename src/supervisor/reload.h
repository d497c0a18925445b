/* Another config or dump directory while the supervisor runs, and the locks that keep other
 * supervisors away. */
#ifndef WK_SUPERVISOR_RELOAD_H
#define WK_SUPERVISOR_RELOAD_H

#include "base/err.h"
#include "base/file.h"

struct config;
struct pending;
struct world;

/* Takes the locks at the start. Returns -1 if another supervisor or world holds one. */
int holdings_take(struct world *w, struct err *e);
/* Call it each second (claims_drain()). */
void holdings_timers(void);

void warn_of_insecure(const struct config *c);

/* Reloads the config (SIGHUP). A broken config changes nothing: the old one stays in force, and
 * that is reported. A running job works with the config that it began with, so the reload waits for
 * its end. */
void reload_config(struct world *w);
void reload_timers(struct world *w);
/* Sets which world the probes expect: that of the state, else that of the newest dump, and the one
 * of a restore in `p` that was interrupted. Call it after dumps_load(). */
void reload_expect(struct world *w, const struct pending *p);
/* Call it if [dump] dir names another directory than the open one: opens and locks that directory.
 * If nothing is known of the world so far, its state is taken from there, as at a start. Call it
 * only while no job works. On failure the old directory stays in use. */
int reload_dump_dir(struct world *w, struct err *e);
/* Compares the open dump directory with its path. Actions by hand and the next supervisor use the
 * directory that the config names, so we must follow it. */
void reload_check_place(struct world *w, enum file_dir_place place);

#endif
