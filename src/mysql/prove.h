/* Proofs of privileges, for --check: SHOW GRANTS says what was granted, not what a server of this version makes of it.
 * Each statement is the one for which the privilege is needed, in a form that changes nothing: the server refuses it
 * for want of the privilege, or afterwards for another reason, or there is nothing that it would change. None waits
 * for a lock, except for a second in MySQL, which is the shortest there. */
#ifndef WK_MYSQL_PROVE_H
#define WK_MYSQL_PROVE_H

#include "mysql/conn.h"

enum db_proof {
    DB_PROVEN,
    DB_REFUTED, /* *why: what the server says is missing */
    DB_UNPROVEN /* it said something else, such as that our tables are not there yet */
};

/* May the account make triggers for this definer, on tables such as the world's lease table? With
 * DB_LOG_NEEDS_SUPER in why->num the server forbids any trigger. */
enum db_proof db_prove_definer(struct db *db, const char *schema, const char *sentinel,
                               const char *definer, struct err *why);
/* May it write? Asked of a server that is read-only. */
enum db_proof db_prove_write(struct db *db, const char *schema, const char *sentinel,
                             struct err *why);
/* May it ask for positions in the binary log? */
enum db_proof db_prove_log_status(struct db *db, struct err *why);
/* May it keep its changes out of the binary log? */
enum db_proof db_prove_unlogged(struct db *db, struct err *why);

#endif
