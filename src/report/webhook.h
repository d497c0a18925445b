/* The webhook channel (generic JSON, Slack, Discord) and the heartbeat. Blocking, at most the
 * timeout of the config. The URL is a secret: texts name its host only. */
#ifndef WK_REPORT_WEBHOOK_H
#define WK_REPORT_WEBHOOK_H

#include <stdint.h>

#include "config/config.h"
#include "core/err.h"
#include "report/message.h"

/* *retry_after: ms that the server asked for, else 0. */
int webhook_send(const struct config *c, const struct message *m, int64_t *retry_after,
                 struct buf *reply, struct err *e);
int webhook_check(const struct config *c, struct err *e);
/* The request body in one format; the caller frees. */
char *webhook_body(enum config_format format, const struct message *m);
int webhook_heartbeat(const struct config *c, struct err *e);

#endif
