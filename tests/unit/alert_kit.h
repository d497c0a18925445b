/* A config with alert channels, and alerts by their names alone. */
#ifndef WK_TESTS_ALERT_KIT_H
#define WK_TESTS_ALERT_KIT_H

#include "notify/outbox.h"

/* Of world s8; the same one each time. */
static inline const struct config *kit_config(bool smtp, bool webhook)
{
    static char world[] = "s8", url[] = "x";
    static struct config c;
    c.name = world;
    c.smtp.url = smtp ? url : NULL;
    c.webhooks[0].url = webhook ? url : NULL;
    return &c;
}

/* The supervisor's lives as long as its process. */
static inline void kit_outbox_free(struct outbox *o)
{
    for (size_t i = 0; i < o->count; i++)
        json_decref(o->list[i].json);
    free(o->list);
    *o = (struct outbox){0};
}

/* The names of alerts in order, joined by blanks. */
static inline void kit_names(struct buf *out, const json_t *alerts)
{
    buf_adds(out, "");
    for (size_t i = 0; i < json_array_size(alerts); i++)
        buf_printf(out, "%s%s", out->len ? " " : "",
                   json_string_value(json_object_get(json_array_get(alerts, i), "what")));
}

#endif
