/* The probe: a worker that lives as long as the supervisor and answers each question, a packet,
 * with an observation. It keeps one connection open and sends one small query per packet. The
 * server's identity is queried once per connection, because a restart ends the connection, and
 * again while the server is `young`. It may hang: the supervisor measures the time and kills it. */
#ifndef WK_WATCH_PROBE_H
#define WK_WATCH_PROBE_H

#include "config/config.h"
#include "mysql/conn.h"
#include "watch/expect.h"

/* Start of the text of a DENIED observation when a supervisor on another machine, or with another
 * [dump] dir, watches the world. */
#define PROBE_ANOTHER "another supervisor watches this world"

struct probe_args {
    const struct config *cfg;
    struct db_params db; /* borrowed; its password must not be wiped before the fork */
};
struct probe_question {
    uint64_t number; /* returned with the answer */
    uint64_t before; /* number of the connection that an earlier probe had; 0: not known */
    bool may_watch;  /* the watch lock may be taken (db_watch_lock()) */
};
struct probe_answer {
    uint64_t number;
    struct observation seen; /* its texts are UTF-8, printable */
};
/* worker_fn; arg is a struct probe_args. Runs until the other side closes. */
int probe_worker(int fd, void *arg);

#endif
