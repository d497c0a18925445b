/* The webhook channel (generic JSON, Slack, Discord) and the heartbeat. Blocking, at most for the
 * timeout of the config. The URL is a secret: texts contain only its host. */
#ifndef WK_NOTIFY_WEBHOOK_H
#define WK_NOTIFY_WEBHOOK_H

#include "config/config.h"
#include "base/err.h"
#include "notify/message.h"

/* As alert_request() and alert_beat(). */
int webhook_request(const struct config *c, enum request_depth depth, const struct message *m,
                    struct request_result *r, struct err *e);
/* `end`: what the path of the URL continues with, or NULL. */
int webhook_heartbeat(const struct config *c, enum request_depth depth, const char *end,
                      struct request_result *r, struct err *e);
/* The request body in one format; the caller frees. */
char *webhook_body(enum config_format format, const struct message *m);

#endif
