/* --check: what is reached over the network beside the server: the store of [offsite], the lease
 * of [standby], alert channels and heartbeat. */
#ifndef WK_CHECK_RULES_ELSEWHERE_H
#define WK_CHECK_RULES_ELSEWHERE_H

#include "check/rule.h"

/* rules_elsewhere.c: the store of [offsite], the lease of [standby], alert channels and
 * heartbeat */
void check_offsite(struct check *c);
void check_standby(struct check *c);
void check_alerts(struct check *c);

#endif
