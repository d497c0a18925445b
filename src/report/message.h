/* One message to people: one alert, or several that piled up, folded. Pure text, no network.
 *
 * The alerts may come from a file that somebody edited: nothing is trusted, every string is cleaned
 * again (one line, valid UTF-8, limited) where it is shown. */
#ifndef WK_REPORT_MESSAGE_H
#define WK_REPORT_MESSAGE_H

#include <jansson.h>

#include "core/clock.h"
#include "core/text.h"

#define MESSAGE_SUBJECT_MAX 120 /* characters */

struct message {
    const json_t *alerts; /* array, oldest first, at least one; borrowed */
    unsigned dropped;     /* earlier alerts that were lost, `damaged` of them set aside */
    unsigned damaged;
};

/* String under `key`, cleaned, at most `max` bytes; "" when it is not there. */
void message_field(struct buf *out, const json_t *alert, const char *key, size_t max);
const json_t *message_newest(const struct message *m);
/* When the newest happened; 0 when it does not say. */
wall_t message_time(const struct message *m);
/* The same for each repetition of the same message: [0-9a-f], from the newest alert. */
void message_id(struct buf *out, const struct message *m);

/* "[worldkeeper] s8: RESTORED from … (+2 earlier)" */
void message_subject(struct buf *out, const struct message *m);
/* The whole text, lines ended by \n, at most `max` bytes: the newest in full, what does not fit
 * before them as one line each, what does not fit even so as a number. */
void message_text(struct buf *out, const struct message *m, size_t max);
/* A short text for a chat, at most `max` UTF-16 units (that is how the services count). */
void message_chat(struct buf *out, const struct message *m, size_t max);

#endif
