/* A worker: a forked child of the supervisor that does one blocking job with the program's own
 * code (no exec, no shell). Parent and child exchange structs, or JSON where that is what goes to
 * the outside, over a SOCK_SEQPACKET pair: a message arrives whole or not at all.
 *
 * The child dies with its parent (PR_SET_PDEATHSIG), has default signal handlers, and inherits the
 * world's flock: while a killed supervisor's job lives, no second supervisor can start. */
#ifndef WK_BASE_WORKER_H
#define WK_BASE_WORKER_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"

/* Bytes of one packet. Its sender's buffer has to hold it whole: of the 425,984 bytes that Linux gives it (twice
 * net.core.wmem_max, where nobody raised that) this is the largest power of two. More is asked for (SO_SNDBUF), for
 * several packets, and granted where the limit is higher. */
#define WORKER_MESSAGE_MAX 262144

struct worker {
    pid_t pid; /* 0: none */
    int fd;    /* our end, non-blocking; -1: none */
    const char *name;
    mono_t started;
    mono_t heard; /* when the last message arrived */
    bool stop_requested;
};

/* The body runs in the child; its return value is the exit status. `fd` is blocking there. */
typedef int worker_fn(int fd, void *arg);

void worker_init(struct worker *w, const char *name);
/* `orphan_ok`: keep running (to drain its queue) when the parent dies. */
int worker_start(struct worker *w, worker_fn *fn, void *arg, bool orphan_ok, struct err *e);
/* Registers a descriptor that children close first (listening socket, other workers' ends). */
void worker_close_in_child(int fd);
/* Closes one that was registered, if it is one; -1 after it: its number may be used again. */
void worker_close(int *fd);
/* Sends `sig`: SIGTERM or SIGKILL. */
void worker_stop(struct worker *w, int sig);
/* Closes our end, after the caller has reaped the child. */
void worker_end(struct worker *w);
/* Both at once: for a child each of whose effects can be repeated, or does not count before it is whole. Whoever waits
 * for children collects the process later. */
void worker_kill(struct worker *w);

/* Sends one object (reference not taken). Blocks in a child; in the parent it never blocks, -1 if
 * the socket is full. -1 with EMSGSIZE for one over WORKER_MESSAGE_MAX. */
int worker_send(int fd, const json_t *msg);
/* One object, or NULL: *closed says whether the other side is gone or nothing has arrived yet. */
json_t *worker_receive(int fd, bool *closed);

/* Between two processes of one binary: a number that says what the packet is, and a plain struct or
 * text. The same rules as for worker_send(). */
struct packet {
    int type;
    size_t len;
    const char *data; /* until the next receive of this process; aligned for any struct */
};
int worker_send_packet(int fd, int type, const void *data, size_t len);
/* false: nothing has arrived, or the other side is gone (*closed). */
bool worker_receive_packet(int fd, struct packet *out, bool *closed);
/* The struct of `size` bytes that came in the packet; NULL: it is not of that size. */
const void *packet_struct(const struct packet *p, size_t size);
/* JSON, and what came as that after a struct of `size` bytes; NULL: none. A new reference. */
int worker_send_json(int fd, int type, const json_t *o);
json_t *packet_json(const struct packet *p, size_t size);

/* err <-> JSON {"class","num","text","hint"} */
json_t *worker_err_json(const struct err *e);
void worker_err_from(const json_t *j, struct err *e);
/* Text from the server, made printable UTF-8 as above. */
void worker_err_clean(struct err *e);

#endif
