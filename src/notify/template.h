/* Templates of webhook requests: text with placeholders such as {subject}. Pure. */
#ifndef WK_NOTIFY_TEMPLATE_H
#define WK_NOTIFY_TEMPLATE_H

#include <jansson.h>

#include "base/err.h"
#include "notify/message.h"

/* How a value is escaped where it is put in. */
enum template_escape {
    TEMPLATE_JSON, /* inside of a JSON string */
    TEMPLATE_FORM, /* percent encoding, for URLs and forms */
    TEMPLATE_TEXT, /* as it is */
};

#define TEMPLATE_TEXT_MAX 3500 /* bytes of {text}, before they are escaped */
#define TEMPLATE_NAMES                                                                             \
    "{subject}, {text}, {state}, {severity}, {world}, {host}, {event}, {url}, {dedup_key}, {id}"

/* The values of a message, by name. `url`: the page to link to, or NULL. A new object. */
json_t *template_values(const struct message *m, const char *url);
/* Appends the template with its placeholders filled in. -1 with ERR_CONFIG: a placeholder is not
 * known. Braces that do not enclose a lower-case word are text. */
int template_fill(struct buf *out, const char *text, enum template_escape escape,
                  const json_t *values, struct err *e);
/* Is it about one incident, so that each alert needs a request of its own? */
bool template_each(const char *text);

#endif
