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
    bool known; /* its config is there: nothing is asked that it answers */
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

/* Is the world UP, or in another state? By its supervisor's answer, or by what that published last. */
bool world_is(const struct config *cfg, const char *state);

/* restart.c */

/* Do the options that are written begin only with a restart of the server? */
bool restart_needed(const struct world *w);
/* Asks, with the other questions, whether the server is to be restarted at the end. */
int restart_ask(struct world *w, struct err *e);
/* Restarts the server if that was the answer, without losing a row that was acknowledged before, and waits until each world
 * is up and followed. */
int restart_server(struct setup *s, struct err *e);
/* How the server is restarted, as far as systemd started it on this machine; NULL: not known. malloc */
char *restart_service(const struct setup *s);

/* known.c: says what the world is protected against now, what not, and which commands are worth knowing. */
void known_say(struct world *w);

#endif
