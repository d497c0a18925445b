/* --check: the server after its next restart. A restore meets that one, and settings made at run
 * time are gone. */
#ifndef WK_CHECK_RULES_NEXT_H
#define WK_CHECK_RULES_NEXT_H

#include "check/rule.h"

/* rules_next.c: settings that a server restart loses. Call it after check_server() and
 * check_privileges(), whose facts it uses. */
void check_next_server(struct check *c);

#endif
