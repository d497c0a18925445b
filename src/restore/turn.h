/* Decides which of several worlds of one server is loaded first (restore order; in the code: turn).
 * Worlds that are lost together would all load at once and slow each other down. They agree by
 * named server locks, without a master: the locks of a process that dies end with its
 * connection. */
#ifndef WK_RESTORE_TURN_H
#define WK_RESTORE_TURN_H

#include "base/err.h"

struct restore;

/* Waits while a more important world waits, or while two worlds that are at least as important
 * load; never for less important ones, and at most five minutes. The turn lasts until r->db is
 * closed. Returns -1 if the connection is lost. */
int turn_wait(struct restore *r, struct err *e);

#endif
