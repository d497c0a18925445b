/* Proves privileges for --check: SHOW GRANTS shows what was granted, not what this version makes of
 * it. Each proof executes the statement that needs the privilege, in a form that changes nothing:
 * the server refuses it for lack of the privilege, or later for another reason, or there is nothing
 * to change. None waits for a lock, except for a second in MySQL, the minimum there. */
#ifndef WK_MYSQL_PROVE_H
#define WK_MYSQL_PROVE_H

#include "mysql/conn.h"

enum db_proof {
    DB_PROVEN,
    DB_REFUTED, /* *why: the server's text about what is missing */
    DB_UNPROVEN /* another answer, for instance because our tables do not exist yet */
};

/* Proves that the account may create triggers with this definer, on tables such as the world's
 * lease table. With DB_LOG_NEEDS_SUPER in why->num the server forbids all triggers. */
enum db_proof db_prove_definer(struct db *db, const char *schema, const char *sentinel,
                               const char *definer, struct err *why);
/* Proves that the account may write to a server that is read-only. */
enum db_proof db_prove_write(struct db *db, const char *schema, const char *sentinel,
                             struct err *why);
/* Proves that the account may read the binary log's position. */
enum db_proof db_prove_log_status(struct db *db, struct err *why);
/* Proves that the account may keep its changes out of the binary log. */
enum db_proof db_prove_unlogged(struct db *db, struct err *why);

#endif
