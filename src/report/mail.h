/* The smtp channel: one message as a mail. Blocking, at most smtp.timeout. */
#ifndef WK_REPORT_MAIL_H
#define WK_REPORT_MAIL_H

#include <stdbool.h>

#include "config/config.h"
#include "core/err.h"
#include "report/message.h"

/* *accepted: the server has taken the mail for at least one recipient. With -1 the others were
 * refused, and the error names them and the server's answers. */
int mail_send(const struct config *c, const struct message *m, bool *accepted, struct buf *reply,
              struct err *e);
/* Everything of mail_send() but the connection. */
int mail_check(const struct config *c, struct err *e);
/* The whole mail, for the address list in the config: header fields and body, CRLF. */
int mail_compose(const struct config *c, const struct message *m, struct buf *out, struct err *e);

#endif
