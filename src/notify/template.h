/* Templates of webhook requests: text with placeholders such as {subject}. Pure. */
#ifndef WK_NOTIFY_TEMPLATE_H
#define WK_NOTIFY_TEMPLATE_H

#include <jansson.h>

#include "base/err.h"
#include "notify/message.h"

/* How a value is escaped when it is inserted. */
enum template_escape {
    TEMPLATE_JSON, /* for the inside of a JSON string */
    TEMPLATE_FORM, /* percent encoding, for URLs and forms */
    TEMPLATE_TEXT, /* unchanged */
};

#define TEMPLATE_TEXT_MAX 3500 /* maximum bytes of {text}, before escaping */
#define TEMPLATE_NAMES                                                                             \
    "{subject}, {text}, {state}, {severity}, {world}, {host}, {event}, {url}, {dedup_key}, {id}"

/* Returns the values of a message by name, as a new object. `url`: the page to link to, or NULL. */
json_t *template_values(const struct message *m, const char *url);
/* Appends the template with its placeholders filled in. Returns -1 with ERR_CONFIG for an unknown
 * placeholder. Braces that do not enclose a lower-case word are text. */
int template_fill(struct buf *out, const char *text, enum template_escape escape,
                  const json_t *values, struct err *e);
/* Appends what the template itself says in its values, one a line: a service's key may be there. */
void template_constants(struct buf *out, const char *text);
/* Returns true if it is about one incident, so that each alert needs its own request. */
bool template_each(const char *text);

#endif
