/* --check: the tables of ledgers, what is made beside them, and whether the game keeps the rules
 * of a ledger. */
#ifndef WK_CHECK_RULES_LEDGERS_H
#define WK_CHECK_RULES_LEDGERS_H

#include "check/rule.h"

/* rules_ledgers.c: tables, views and rules of each [ledger NAME] */
void check_ledgers(struct check *c);

#endif
