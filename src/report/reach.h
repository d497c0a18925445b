/* Would a message get through now? Opens the connection to a channel as a delivery would, up to TLS
 * and (mail) the login, and ends it there: nothing is sent. Blocking, at most REACH_TIMEOUT. */
#ifndef WK_REPORT_REACH_H
#define WK_REPORT_REACH_H

#include "config/config.h"
#include "report/alert.h"

#define REACH_TIMEOUT 10000 /* ms, or the channel's own timeout where that is shorter */

int reach_channel(const struct config *c, enum alert_channel ch, struct err *e);
int reach_heartbeat(const struct config *c, struct err *e);

#endif
