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

/* Maximum bytes of one packet, which must fit the sender's socket buffer. Linux grants 425,984
 * bytes by default (twice net.core.wmem_max); this is the largest power of two below that. The
 * program requests more (SO_SNDBUF), for several packets, and gets it if the limit is higher. */
#define WORKER_MESSAGE_MAX 262144

struct worker {
    pid_t pid; /* 0: none */
    int fd;    /* our end, non-blocking; -1: none */
    const char *name;
    mono_t started;
    mono_t heard; /* when the last message arrived, or a later time from which silence counts */
    bool stop_requested;
};

/* Runs in the child; its return value is the exit status. `fd` is blocking there. */
typedef int worker_fn(int fd, void *arg);

void worker_init(struct worker *w, const char *name);
/* Starts a worker. `orphan_ok`: it continues when the parent dies, to drain its queue. */
int worker_start(struct worker *w, worker_fn *fn, void *arg, bool orphan_ok, struct err *e);
/* Registers a descriptor that children close first (listening socket, other workers' ends). */
void worker_close_in_child(int fd);
/* Closes a registered descriptor unless it is negative, and sets it to -1, because its number may
 * be reused. */
void worker_close(int *fd);
/* Sends `sig`, SIGTERM or SIGKILL, to the worker. */
void worker_stop(struct worker *w, int sig);
/* Closes our end, after the caller has reaped the child. */
void worker_end(struct worker *w);
/* Kills the worker and closes our end. Only for a child whose effects can be repeated or do not
 * count until they are complete. The process is reaped later. */
void worker_kill(struct worker *w);

/* Sends one object (reference not taken). Blocks in a child. Never blocks in the parent: returns -1
 * if the socket is full. Returns -1 with EMSGSIZE for an object over WORKER_MESSAGE_MAX. */
int worker_send(int fd, const json_t *msg);
/* Returns one object, or NULL; *closed tells whether the other side has closed or nothing has
 * arrived yet. */
json_t *worker_receive(int fd, bool *closed);

/* A packet between two processes of the same binary: a number for its type, and a plain struct or
 * text. The rules of worker_send() apply. */
struct packet {
    int type;
    size_t len;
    const char *data; /* valid until the next receive of this process; aligned for any struct */
};
int worker_send_packet(int fd, int type, const void *data, size_t len);
/* Returns false if nothing has arrived, or the other side has closed (*closed). */
bool worker_receive_packet(int fd, struct packet *out, bool *closed);
/* Returns the packet's struct of `size` bytes, or NULL if the packet has another size. */
const void *packet_struct(const struct packet *p, size_t size);
/* Sends JSON; the other function returns the JSON after a struct of `size` bytes, as a new
 * reference, or NULL. */
int worker_send_json(int fd, int type, const json_t *o);
json_t *packet_json(const struct packet *p, size_t size);

/* converts err to JSON {"class","num","text","hint"} and back */
json_t *worker_err_json(const struct err *e);
void worker_err_from(const json_t *j, struct err *e);
/* Makes text from the server printable UTF-8, as above. */
void worker_err_clean(struct err *e);

#endif
