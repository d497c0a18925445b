/* What --help prints: everything (ACTION_NONE), or what belongs to one action. To standard output. */
#ifndef WK_CLI_HELP_H
#define WK_CLI_HELP_H

#include "actions/action.h"

void help_print(enum action action);

#endif
