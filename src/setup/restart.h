/* The server restart that enables the binary log.
 *
 * The restart empties all MEMORY tables of the server. So each schema that has some must belong to
 * a world that is up. All writes are blocked from the last dump until the server stops, so that
 * this dump has everything that was acknowledged before. Exception: on MariaDB a statement of a
 * session with the privilege READ ONLY ADMIN that waits for the lock may still be executed. */
#ifndef WK_SETUP_RESTART_H
#define WK_SETUP_RESTART_H

#include "setup/world.h"

/* Returns true if the written options take effect only with a server restart. */
bool restart_needed(const struct world *w);
/* Returns true if an option file of the server has the option with its value; for one that needs a
 * restart, with any value that turns it on. */
bool restart_file_has(const char *path, const struct draft_option *o);
/* Asks, with the other questions, whether the server is to be restarted at the end. */
int restart_ask(struct world *w, struct err *e);
/* Restarts the server if that was agreed, without losing a row that was acknowledged before, and
 * waits until each world is up and followed. */
int restart_server(struct setup *s, struct err *e);
/* Prints how a person restarts the server, with a dump of each of its worlds before; or why that
 * would not begin the journal, or would lose rows. Requires restart_needed(), after all worlds were
 * set up. */
void restart_say(struct world *w);

/* Return whether the world is UP, or in another state, by its supervisor's answer, or by the last
 * published status. */
bool world_is(const struct config *cfg, const char *state);

#endif
