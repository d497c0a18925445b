/* --check: alert channels and heartbeat. */
#ifndef WK_CHECK_RULES_ELSEWHERE_H
#define WK_CHECK_RULES_ELSEWHERE_H

#include "check/rule.h"

void check_alerts(struct check *c);

#endif
