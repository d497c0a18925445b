#include "notify/incident.h"

#include <stdio.h>
#include <string.h>

#include "base/js.h"
#include "notify/queue.h"
#include "store/kept.h"

#define INCIDENTS_BYTES 16384

const struct incident *incident_find(const struct incidents *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].name, name) == 0)
            return &all->list[i];
    return NULL;
}

/* Opens an incident. If the list is full, the alert is sent anyway, but its thread is not
 * remembered. */
void incident_open(struct incidents *all, const char *name, const char *id, unsigned event)
{
    if (all->count == INCIDENTS_MAX || incident_find(all, name))
        return;
    struct incident *new = &all->list[all->count++];
    *new = (struct incident){.event = event};
    snprintf(new->name, sizeof new->name, "%s", name);
    snprintf(new->id, sizeof new->id, "%s", id);
}

void incident_close(struct incidents *all, const char *name)
{
    const struct incident *found = incident_find(all, name);
    if (found)
        all->list[found - all->list] = all->list[--all->count];
}

json_t *incidents_json(const struct incidents *all, const char *world)
{
    json_t *o = json_object();
    for (size_t i = 0; i < all->count; i++) {
        const struct incident *n = &all->list[i];
        json_object_set_new(o, n->name,
                            json_pack("{s:s, s:I, s:s}", "id", n->id, "event", (json_int_t)n->event,
                                      "world", world));
    }
    return o;
}

/* Loads the open incidents. An unreadable file must not prevent a start: its only effect is that
 * recoveries open new threads. */
void incidents_load(int dirfd, const char *world, struct incidents *out)
{
    json_t *o, *part;
    const char *name;
    *out = (struct incidents){0};
    kept_load(dirfd, INCIDENTS_FILE, INCIDENTS_BYTES, &o, NULL);
    json_object_foreach(o, name, part)
    {
        const char *id = js_text(part, "id"), *of = js_text(part, "world");
        /* Checked because the id becomes part of header fields and any process may have written the
         * file. */
        size_t len = strspn(id, "0123456789abcdef");
        if (len > 0 && !id[len] && len < sizeof out->list[0].id &&
            strlen(name) < sizeof out->list[0].name && (!of[0] || strcmp(of, world) == 0))
            incident_open(out, name, id, (unsigned)js_number(part, "event", 0));
    }
    json_decref(o);
}

int incidents_save(int dirfd, const json_t *o, struct err *e)
{
    return queue_save(dirfd, INCIDENTS_FILE, INCIDENTS_BYTES, o, e);
}
