/* A worker: a forked child of the supervisor that does one blocking job with the program's own
 * code (no exec, no shell). Parent and child talk in whole JSON objects over a SOCK_SEQPACKET
 * pair; one object is one packet, so a message is there whole or not at all.
 *
 * The child dies with its parent (PR_SET_PDEATHSIG), has default signal handlers, and inherits the
 * world's flock: a killed supervisor's job keeps a second one out until the job is gone too. */
#ifndef WK_CORE_WORKER_H
#define WK_CORE_WORKER_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core/clock.h"
#include "core/err.h"

#define WORKER_MESSAGE_MAX 262144 /* bytes of one packet */

struct worker {
    pid_t pid; /* 0: none */
    int fd;    /* our end, non-blocking; -1: none */
    const char *name;
    mono_t started;
    mono_t heard; /* last message */
    bool told_to_stop;
};

/* The body runs in the child; its return value is the exit status. `fd` is blocking there. */
typedef int worker_fn(int fd, void *arg);

void worker_init(struct worker *w, const char *name);
/* `orphan_ok`: keep running (to drain its queue) when the parent dies. */
int worker_start(struct worker *w, worker_fn *fn, void *arg, bool orphan_ok, struct err *e);
/* Descriptors that a child closes first (listening socket, other workers' ends). Kept by value. */
void worker_close_in_child(int fd);
void worker_forget_fd(int fd);
/* SIGTERM, or SIGKILL. */
void worker_stop(struct worker *w, int sig);
/* After its death was seen (waitpid by the caller): closes our end. */
void worker_end(struct worker *w);

/* Sends one object (reference not taken). From a child: waits. From the parent: never waits, -1
 * when the socket is full. -1 with EMSGSIZE for one over WORKER_MESSAGE_MAX. */
int worker_send(int fd, const json_t *msg);
/* One object, or NULL: *closed tells the end of the other side from "nothing there now". */
json_t *worker_receive(int fd, bool *closed);

/* err <-> JSON {"class","num","text","hint"} */
json_t *worker_err_json(const struct err *e);
void worker_err_from(const json_t *j, struct err *e);

#endif
