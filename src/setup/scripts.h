/* The cron scripts that --from-cron replaces, as one world's setup sees them, and migrate.sh, which
 * reads them. */
#ifndef WK_SETUP_SCRIPTS_H
#define WK_SETUP_SCRIPTS_H

#include "config/config.h"
#include "setup/setup.h"

#define PATH_LONGEST 4096

/* Finds migrate.sh, which is installed with worldkeeper. */
int scripts_migrate_path(char out[PATH_LONGEST], struct err *e);
/* Records the config that migrate.sh has written, and its password file, for --undo, and the
 * directory of the scripts for scripts_ended(). */
int scripts_note(struct setup *s, const char *config_path, struct err *e);
/* Returns -1 if cron still starts the scripts that the world was taken over from, in this run or in
 * an earlier one. Both would restore the same world. --from-cron also refuses if it is unknown what
 * starts them; a run without it confirms that nothing does. `schema` is the world's. */
int scripts_ended(struct setup *s, const char *schema, struct err *e);

#endif
