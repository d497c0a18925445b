/* Which of several worlds of one server is loaded first. Worlds that are lost together would all load at once and take
 * the server from each other; they agree by named locks of the server, without a master: the locks of a process that
 * dies end with its connection. */
#ifndef WK_RESTORE_TURN_H
#define WK_RESTORE_TURN_H

#include "base/err.h"

struct restore;

/* Waits until no more important world waits, and fewer than two of those at least as important load; never for less
 * important ones, and at most five minutes. The turn lasts until r->db is closed. -1: the connection is lost. */
int turn_wait(struct restore *r, struct err *e);

#endif
