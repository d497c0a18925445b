/* The smtp channel: one message as a mail. Blocking, at most smtp.timeout. */
#ifndef WK_NOTIFY_MAIL_H
#define WK_NOTIFY_MAIL_H

#include "config/config.h"
#include "base/err.h"
#include "notify/message.h"

/* As alert_request(): r->accepted if the server accepted the mail for at least one recipient. With -1
 * it refused the others; the error names them with the server's answers. */
int mail_request(const struct config *c, enum request_depth depth, const struct message *m,
                 struct request_result *r, struct err *e);
/* The whole mail to the config's recipients: header fields and body, with CRLF. */
int mail_compose(const struct config *c, const struct message *m, struct buf *out, struct err *e);

#endif
