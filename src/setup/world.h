/* One world while it is set up. */
#ifndef WK_SETUP_WORLD_H
#define WK_SETUP_WORLD_H

#include "setup/account.h"
#include "setup/answers.h"
#include "setup/setup.h"

struct world {
    struct setup *s;
    struct effects *x;
    const struct survey_schema *schema;
    char *name, *config_path;
    bool known; /* its config exists: nothing is asked that it answers */
    struct answers answers;
    struct buf text; /* of a new config */
    struct config *cfg;
    struct account account;
    struct needed_grants grants;
    struct draft_options options; /* that the server lacks */
    char *server_file;            /* where these may be written; NULL: nowhere here */
    bool write_server_file;       /* it has options of ours, or gets them */
    bool may_add;                 /* what it lacks is written to it */
    bool started;                 /* its service runs */
    struct made made;             /* after its steps: what was made for it */
};

/* Sets one world up, or continues with one that was. */
int setup_world(struct setup *s, const struct survey_schema *schema, struct err *e);
/* Finishes setup_world(): restarts the server if all worlds are `good` and it was agreed, checks
 * each world, and prints a summary. Called once, after the last world. */
int setup_finish(struct setup *s, bool good, struct err *e);

#endif
