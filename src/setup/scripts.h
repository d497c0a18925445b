/* The cron scripts that --from-cron replaces, as one world's setup sees them, and migrate.sh, which
 * reads them. */
#ifndef WK_SETUP_SCRIPTS_H
#define WK_SETUP_SCRIPTS_H

#include "config/config.h"
#include "setup/setup.h"

#define PATH_LONGEST 4096

/* Finds migrate.sh, which is installed with worldkeeper. */
int scripts_migrate_path(char out[PATH_LONGEST], struct err *e);
/* Records config and password file, which migrate.sh has written, for --undo. */
int scripts_note(struct setup *s, const struct config *cfg, const char *config_path, struct err *e);
/* Returns -1 if cron still starts the scripts. Both would restore the same world. */
int scripts_ended(struct setup *s, struct err *e);

#endif
