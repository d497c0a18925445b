/* The text of --help. */
#ifndef WK_CLI_HELP_H
#define WK_CLI_HELP_H

#include "actions/action.h"

/* help.c: prints --help, everything (ACTION_NONE) or the part for one action. */
void help_print(enum action action);

#endif
