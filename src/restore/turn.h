/* Which of several worlds of one server is loaded first. Worlds that are lost together would all load at
 * once and take the server from each other; they agree in its named locks, without a master: a dead one's
 * locks end with its connection. */
#ifndef WK_RESTORE_TURN_H
#define WK_RESTORE_TURN_H

#include "dump/job.h"
#include "mysql/conn.h"

/* Waits until no more important world waits, and fewer than two of those at least as important load;
 * never for less important ones, and at most five minutes. The turn lasts until `db` is closed. Shows
 * progress while it waits. -1: the connection is lost. */
int turn_wait(struct db *db, const struct job *job, struct err *e);

#endif
