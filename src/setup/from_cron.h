/* --from-cron DIR: replaces the scripts in DIR that cron starts. migrate.sh, which is installed
 * with worldkeeper, reads them and writes a config for each world that they keep. Each world is
 * then set up like one with an existing config. */
#ifndef WK_SETUP_FROM_CRON_H
#define WK_SETUP_FROM_CRON_H

#include "setup/setup.h"

/* Writes the configs and sets their worlds up; a dry run shows the configs. On -1 everything done
 * so far is left in place. */
int from_cron_take_over(struct setup *s, struct err *e);

#endif
