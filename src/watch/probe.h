/* The probe: a worker that lives as long as the supervisor and answers each packet it gets with
 * what it found, as an observation in JSON. It keeps one connection open and asks one small
 * question a second; who the server is is asked once per connection, since a restart ends the
 * connection. It may hang: the supervisor measures the time and kills it. */
#ifndef WK_WATCH_PROBE_H
#define WK_WATCH_PROBE_H

#include <jansson.h>

#include "config/config.h"
#include "db/conn.h"
#include "watch/verdict.h"

struct probe_args {
    const struct config *cfg;
    struct db_params db; /* borrowed; the password in it is wiped by nobody before the fork */
};
/* worker_fn; arg is a struct probe_args. Runs until the other side closes. */
int probe_worker(int fd, void *arg);

json_t *probe_json(const struct observation *o);
void probe_from_json(const json_t *j, struct observation *out);

#endif
