/* The channels: smtp, one message as a mail; the webhook (generic JSON, Slack, Discord); the heartbeat. Blocking, at most for
 * the timeout of the config. A URL is a secret: texts contain only its host. */
#ifndef WK_NOTIFY_CHANNEL_H
#define WK_NOTIFY_CHANNEL_H

#include "config/config.h"
#include "base/err.h"
#include "notify/message.h"

/* As alert_request(): r->accepted if the server accepted the mail for at least one recipient. With -1
 * it refused the others; the error names them with the server's answers. */
int mail_request(const struct config *c, enum request_depth depth, const struct message *m,
                 struct request_result *r, struct err *e);
/* The whole mail to the config's recipients: header fields and body, with CRLF. */
int mail_compose(const struct config *c, const struct message *m, struct buf *out, struct err *e);

/* As alert_request() and alert_beat(). */
int webhook_request(const struct config *c, enum request_depth depth, const struct message *m,
                    struct request_result *r, struct err *e);
/* `end`: what the path of the URL continues with, or NULL. */
int webhook_heartbeat(const struct config *c, enum request_depth depth, const char *end,
                      struct request_result *r, struct err *e);
/* The request body in one format; the caller frees. */
char *webhook_body(enum config_format format, const struct message *m);

#endif
