/* The control socket: how an action by hand reaches the running supervisor. A UNIX SOCK_SEQPACKET
 * socket, mode 0600, one JSON object a packet: the client sends a request (act.h), the supervisor
 * answers with
 * {"progress"|"note"} packets and ends with {"done":{"exit","result"|"error"}}. */
#ifndef WK_CONTROL_H
#define WK_CONTROL_H

#include "act.h"

/* Supervisor: where the socket lives; `path` gets it. Listening fd (non-blocking) or -1. */
int control_listen(const struct config *cfg, char path[256], struct err *e);
/* The next client, whose uid is ours or root's; -1: it is gone, or nobody that we listen to, or it
 * could not be taken and waits on. Only then `e` is filled: the next try would be no better. */
int control_accept(int listener, struct err *e);

/* Client: sends the request to the supervisor named in the lock file, gives every event to `event`,
 * and returns its answer like act_run(). CONTROL_NOBODY, with ERR_UNREACHABLE, when there is no
 * supervisor to talk to: the class alone may be the answer's, of a job that found no server. */
#define CONTROL_NOBODY (-2)
int control_ask(struct act *a, const struct request *r, void (*event)(const json_t *o),
                json_t **result, struct err *e);

#endif
