/* The text of a mail: header fields (RFC 5322, RFC 2047) and the quoted-printable body (RFC 2045).
 * libcurl's curl_mime encodes no headers, and makes each mail multipart/mixed with a random
 * boundary. Pure. Input is UTF-8 of any origin; output is ASCII with CRLF line ends, and input
 * cannot inject a line. */
#ifndef WK_NOTIFY_MIME_H
#define WK_NOTIFY_MIME_H

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

/* A parsed "Name <user@host>" or "user@host". `name` may be empty. */
struct mailbox {
    struct buf name, addr;
};
int mime_mailbox(const char *text, struct mailbox *out, struct err *e);
void mime_mailbox_free(struct mailbox *m);

/* Appends "Subject: text": encoded-words if it is not plain ASCII, folded at 78 columns. */
void mime_text_header(struct buf *out, const char *name, const char *text);
/* Appends "To: a, b": one address per line. */
void mime_address_header(struct buf *out, const char *name, const struct mailbox *list, size_t n);
void mime_date_header(struct buf *out, wall_t t);
/* Lines of `text` end with \n. */
void mime_quoted_printable(struct buf *out, const char *text, size_t len);

#endif
