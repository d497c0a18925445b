/* Alerts as mails. */
#ifndef WK_NOTIFY_MAIL_H
#define WK_NOTIFY_MAIL_H

#include "base/err.h"
#include "config/config.h"
#include "notify/message.h"

/* Like alert_request(): r->accepted if the server accepted the mail for at least one recipient, or
 * if all remaining ones were refused permanently. Each recipient gets the alerts that it lacks
 * (ALERT_RECEIVED): one mail for all recipients that lack the same ones. */
int mail_request(const struct config *c, enum request_depth depth, const struct message *m,
                 const struct request_progress *p, struct request_result *r, struct err *e);
/* Composes the whole mail to the config's recipients: header fields and body, with CRLF. */
int mail_compose(const struct config *c, const struct message *m, struct buf *out, struct err *e);

#endif
