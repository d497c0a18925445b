/* --check: the store of [offsite]. */
#ifndef WK_CHECK_RULES_OFFSITE_H
#define WK_CHECK_RULES_OFFSITE_H

#include "check/rule.h"

void check_offsite(struct check *c);

#endif
