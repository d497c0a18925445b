/* Requests over the control socket (actions/control.h). */
#ifndef WK_SUPERVISOR_CLIENTS_H
#define WK_SUPERVISOR_CLIENTS_H

#include <jansson.h>
#include <poll.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

struct part;
struct world;

extern const struct part clients_part;

/* Call it at the start, and after the dump directory was replaced, because the socket may be in
 * it. */
int clients_listen(struct world *w, struct err *e);
const char *clients_socket(void);

/* The socket and the clients: CLIENTS_FDS descriptors to poll, and the work for one of them. */
#define CLIENTS_MAX 16
#define CLIENTS_FDS (1 + CLIENTS_MAX)
void clients_fds(mono_t now, struct pollfd *p);
void clients_message(struct world *w, size_t i);
/* Sends to all clients that wait for the running job; `last`: it has ended. NULL: nothing is
 * sent. */
void clients_send(json_t *message /* taken */, bool last);

#endif
