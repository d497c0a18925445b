/* The text of a mail: header fields (RFC 5322, RFC 2047) and the quoted-printable body (RFC 2045).
 * Pure; input is UTF-8 of any origin, output is ASCII with CRLF line ends and no way to add a line.
 */
#ifndef WK_REPORT_MIME_H
#define WK_REPORT_MIME_H

#include "core/clock.h"
#include "core/err.h"
#include "core/text.h"

/* "Name <user@host>" or "user@host", taken apart. `name` may be empty. */
struct mailbox {
    struct buf name, addr;
};
int mime_mailbox(const char *text, struct mailbox *out, struct err *e);
void mime_mailbox_free(struct mailbox *m);

/* "Subject: text": encoded-words when it is not plain ASCII, folded at 78 columns. */
void mime_text_header(struct buf *out, const char *name, const char *text);
/* "To: a, b": one address per line. */
void mime_address_header(struct buf *out, const char *name, const struct mailbox *list, size_t n);
void mime_date_header(struct buf *out, wall_t t);
/* Lines of `text` end with \n. */
void mime_quoted_printable(struct buf *out, const char *text, size_t len);

#endif
