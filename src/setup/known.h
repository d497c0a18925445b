/* Prints what an operator should know about a world that was set up. */
#ifndef WK_SETUP_KNOWN_H
#define WK_SETUP_KNOWN_H

#include "setup/world.h"

/* Prints what the world is protected against, what it is not, and useful commands. */
void known_say(struct world *w);

#endif
