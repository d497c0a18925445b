/* Alerts and the heartbeat as requests to webhooks. */
#ifndef WK_NOTIFY_WEBHOOK_H
#define WK_NOTIFY_WEBHOOK_H

#include "base/err.h"
#include "config/config.h"
#include "notify/message.h"

/* Like alert_request() and alert_beat(). A template about one incident (template_each()) makes one
 * request for each alert, oldest first, until one fails. */
int webhook_request(const struct config *c, const struct config_webhook *hook,
                    enum request_depth depth, const struct message *m,
                    const struct request_progress *p, struct request_result *r, struct err *e);
/* `end`: appended to the path of the URL, or NULL. */
int webhook_heartbeat(const struct config *c, enum request_depth depth, const char *end,
                      struct request_result *r, struct err *e);
/* Returns the request body in one format; the caller frees it. */
char *webhook_body(enum config_format format, const struct message *m);

#endif
