/* Another config or dump directory while the supervisor runs, and the locks that keep other supervisors away. */
#ifndef WK_SUPERVISOR_RELOAD_H
#define WK_SUPERVISOR_RELOAD_H

#include "base/err.h"
#include "base/file.h"

struct config;
struct guard_config;
struct world;

/* At the start: -1 where another supervisor or world holds something. */
int holdings_take(struct world *w, struct err *e);
/* Each second (claims_drain()). */
void holdings_timers(void);

void guard_config_from(const struct config *c, struct guard_config *out);
void warn_of_insecure(const struct config *c);

/* SIGHUP. A broken config changes nothing: the old one stays in force, and that is reported. While
 * a job runs, which works with the config that it began with, the reload waits. */
void reload_config(struct world *w);
void reload_timers(struct world *w);
/* [dump] dir names another directory than the one that was opened: opens and locks that one. Only
 * while no job works. On failure the old one stays in use. */
int reload_dump_dir(struct world *w, struct err *e);
/* What is in the place of the dump directory now. Actions by hand and the next supervisor use what
 * the config names, so that we have to follow it. */
void reload_check_place(struct world *w, enum file_dir_place place);

#endif
