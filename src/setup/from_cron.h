/* --from-cron DIR: takes over from the scripts in DIR that cron starts. migrate.sh, which is installed with worldkeeper, reads
 * them and writes a config for each world that they keep; each is then set up as one whose config is there. */
#ifndef WK_SETUP_FROM_CRON_H
#define WK_SETUP_FROM_CRON_H

#include "setup/setup.h"

/* Writes the configs and sets their worlds up; a dry run shows the configs. -1: what was done before it is left as it is. */
int from_cron_take_over(struct setup *s, struct err *e);

#endif
