/* The open incidents. An incident is what a person sees as one thread, from the first alert to the
 * recovery. Stored with the alert queue, so that the next supervisor continues the same threads and
 * reports the end of what the previous one reported.
 *
 *   incidents   {"NAME":{"id","event","world"},…}: NAME is "world" or another condition */
#ifndef WK_NOTIFY_INCIDENT_H
#define WK_NOTIFY_INCIDENT_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

#define INCIDENTS_FILE "incidents"
#define INCIDENTS_MAX 32 /* with more incidents, each alert begins a thread of its own */

struct incident {
    char name[24], id[65];
    unsigned event; /* of its first alert */
};
struct incidents {
    struct incident list[INCIDENTS_MAX];
    size_t count;
};

/* Returns NULL if none of that name is open. Valid until the next one is opened or closed. */
const struct incident *incident_find(const struct incidents *all, const char *name);
/* Opens an incident; does nothing if it is already open. */
void incident_open(struct incidents *all, const char *name, const char *id, unsigned event);
void incident_close(struct incidents *all, const char *name);

/* Returns the contents of the file, for incidents_save(). The world is in it, so that the file of
 * another world is not accepted if both worlds are signed with one key; files of older versions do
 * not name it. */
json_t *incidents_json(const struct incidents *all, const char *world);

/* Loads the file in the directory of the alert queue. A missing or damaged file means that none is
 * open; malformed entries and those of another world are dropped. */
void incidents_load(int dirfd, const char *world, struct incidents *out);
int incidents_save(int dirfd, const json_t *o, struct err *e);

#endif
