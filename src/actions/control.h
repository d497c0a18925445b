/* The control socket, by which an action on the command line reaches the running supervisor. A UNIX
 * SOCK_SEQPACKET socket, mode 0600, one JSON object per packet: the client sends a request
 * (request.h), the supervisor answers with {"progress"|"note"} packets and ends with
 * {"done":{"exit","result"|"error"}}. */
#ifndef WK_ACTIONS_CONTROL_H
#define WK_ACTIONS_CONTROL_H

#include <jansson.h>
#include <stdbool.h>

#include "actions/context.h"
#include "actions/request.h"
#include "base/err.h"
#include "config/config.h"

/* Supervisor: creates the socket; `path` gets its path. Listening fd (non-blocking) or -1.
 * ERR_REFUSED: another process listens there; the text names it. */
int control_listen(const struct config *cfg, char path[256], struct err *e);
/* Accepts the next client, whose uid must be ours or root's. Returns -1 with `e` empty: it has
 * closed, or has another uid. Returns -1 with `e` filled: it could not be accepted and still waits;
 * trying again at once would not help. */
int control_accept(int listener, struct err *e);

/* Returns -1 with ERR_REFUSED if a request for world `asked` reached the supervisor of world `own`,
 * because both have the same directory for the socket. */
int control_refuse_other(const char *own, const char *asked, struct err *e);

/* Client: sends the request to the supervisor named in the lock file, passes every event to
 * a->emit, and returns its answer like action_run(). ERR_REFUSED: the supervisor of another world
 * listens there. CONTROL_NOBODY, with ERR_UNREACHABLE: there is no supervisor to talk to. The class
 * alone does not say so: a job that found no server has it too. */
#define CONTROL_NOBODY (-2)
#define CONTROL_PATIENCE 10 /* seconds, for a supervisor that should answer at once */
int control_ask(struct action_context *a, const struct request *r, json_t **result, struct err *e);
/* Returns true if a supervisor of this world runs although its lock was free. It then holds the
 * lock of a directory that was replaced. */
bool control_elsewhere(struct action_context *a);

#endif
