/* The cron scripts that --from-cron takes over from, as one world's setup sees them, and migrate.sh, which reads them. */
#ifndef WK_SETUP_SCRIPTS_H
#define WK_SETUP_SCRIPTS_H

#include "config/config.h"
#include "setup/setup.h"

#define PATH_LONGEST 4096

/* Where migrate.sh is, which is installed with worldkeeper. */
int scripts_migrate_path(char out[PATH_LONGEST], struct err *e);
/* Notes config and password file, which migrate.sh has written, for --undo. */
int scripts_note(struct setup *s, const struct config *cfg, const char *config_path, struct err *e);
/* -1: cron still starts the scripts. Both would restore the same world. */
int scripts_ended(struct setup *s, struct err *e);

#endif
