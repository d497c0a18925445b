/* The questions about a new world, and the resulting config. */
#ifndef WK_SETUP_ANSWERS_H
#define WK_SETUP_ANSWERS_H

#include "config/config.h"
#include "setup/account.h"
#include "setup/setup.h"

struct answers {
    struct draft draft;
    struct buf mail_password, webhook; /* secrets, for files of their own */
};
void answers_free(struct answers *a);

/* Asks the questions; options answer first. */
int answers_ask(struct setup *s, const char *world, const struct survey_schema *schema,
                const struct account *account, struct answers *a, struct err *e);
/* Refuses each typed option that answers what the existing config decides, unless the config says
 * the same. `cfg` NULL: --from-cron will write the config, and takes no such option. */
int answers_refuse(const struct setup *s, const struct config *cfg, struct err *e);
/* Reads the text of a config like the daemon. */
int answers_check(const char *text, struct config **cfg, struct err *e);

#endif
