/* --check: connection, version, TLS, account, sizes, binary log, settings, clock, replication. */
#ifndef WK_CHECK_RULES_SERVER_H
#define WK_CHECK_RULES_SERVER_H

#include "check/rule.h"

void check_version(struct check *c);
void check_connect(struct check *c, const char *password); /* c->db: NULL if it fails */
/* Requests the binary log as a journal does, over a separate connection, for the finding about the
 * journal. */
void check_prove_log(struct check *c, const char *password);
void check_replication(struct check *c);
void check_server(struct check *c); /* clock, settings, size limits, memory, journal */

#endif
