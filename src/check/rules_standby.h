/* --check: the lease of [standby]. */
#ifndef WK_CHECK_RULES_STANDBY_H
#define WK_CHECK_RULES_STANDBY_H

#include "check/rule.h"

void check_standby(struct check *c);

#endif
