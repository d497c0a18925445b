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
    bool write_server_file;
    bool started;     /* its service runs */
    struct made made; /* after its steps: what was made for it */
};

/* Return whether the world is UP, or in another state, by its supervisor's answer, or by the last
 * published status. */
bool world_is(const struct config *cfg, const char *state);

/* restart.c */

/* Returns true if the written options take effect only with a server restart. */
bool restart_needed(const struct world *w);
/* Asks, with the other questions, whether the server is to be restarted at the end. */
int restart_ask(struct world *w, struct err *e);
/* Restarts the server if that was agreed, without losing a row that was acknowledged before, and
 * waits until each world is up and followed. */
int restart_server(struct setup *s, struct err *e);
/* Returns the systemd service of the server, if systemd started it on this machine; NULL: not
 * known. The caller frees it. */
char *restart_service(const struct setup *s);

/* known.c: prints what the world is protected against, what it is not, and useful commands. */
void known_say(struct world *w);

#endif
