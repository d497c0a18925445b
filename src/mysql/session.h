/* What a session of ours is set to, whatever the server's global values are. */
#ifndef WK_MYSQL_SESSION_H
#define WK_MYSQL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "mysql/conn.h"

/* As SQL. */
#define SESSION_SQL_MODE "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
#define SESSION_TIME_ZONE "'+00:00'"
#define SESSION_LOCK_WAIT "86400" /* seconds */

/* Sets up a new session, in one statement: the server may be far away. With `small` in several, for a server whose
 * max_allowed_packet refuses the one (DB_TOO_LONG), which ends the connection. `several`: in one round trip with the question for max_allowed_packet, whose answer goes
 * into *packet. */
int session_setup(struct db *db, bool several, bool small, uint64_t *packet, struct err *e);

#endif
