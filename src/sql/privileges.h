/* The privileges that worldkeeper uses: the purpose of each, its name in each version, and the
 * privileges that imply it there. Checks, hints, the manual and the tests all use this file.
 * Pure. */
#ifndef WK_SQL_PRIVILEGES_H
#define WK_SQL_PRIVILEGES_H

#include <stdbool.h>

#include "base/text.h"
#include "sql/grants.h"
#include "sql/versions.h"

/* ---- on the whole server ---- */

enum server_privilege {
    MAY_READ_LOG,     /* the binary log over the replication protocol */
    MAY_ASK_LOG,      /* WORD_LOG_STATUS, SHOW BINARY LOGS */
    MAY_NAME_DEFINER, /* CREATE TRIGGER with another account as definer */
    MAY_NAME_SYSTEM,  /* … with a definer that has SYSTEM_USER */
    MAY_NAME_MISSING, /* … with a definer that does not exist */
    MAY_SKIP_TRUST, /* CREATE TRIGGER with a binary log and log_bin_trust_function_creators = OFF */
    MAY_SKIP_LOG,   /* SET sql_log_bin=0 */
    MAY_WRITE_READ_ONLY, /* write while read_only is ON */
    MAY_LEAVE_KEYS,      /* SET sql_require_primary_key=0 */
    MAY_READ_ROUTINES,   /* SHOW CREATE of other accounts' routines */
    MAY_LEAVE_CLUSTER,   /* SET wsrep_on=0 */
    MAY_SEE_SESSIONS,    /* see other accounts' sessions and transactions */
    MAY_LIST_LOCKS,      /* MySQL with performance_schema: see who holds which lock, … */
    MAY_LIST_THREADS,    /* … which session that is, … */
    MAY_READ_STATEMENTS, /* … and what it did last */
    MAY_END_SESSIONS,    /* KILL of other accounts' sessions */
    SERVER_PRIVILEGES
};

/* Returns the privilege to grant, in GRANT's spelling; NULL: this version needs none. */
const char *server_privilege(struct server_version v, enum server_privilege p);
/* Returns the object to grant it on: "*.*", or one of the server's own tables. */
const char *server_privilege_on(struct server_version v, enum server_privilege p);
/* Returns true if the grants contain it, or another privilege that implies it in this version, or
 * if none is needed. */
bool server_may(const struct grants *g, struct server_version v, enum server_privilege p);
/* Returns true if `name` (in the spelling of grants.h) on this table (NULL, NULL: on *.*) is the
 * privilege to grant for `p`. */
bool server_privilege_grants(struct server_version v, enum server_privilege p, const char *schema,
                             const char *table, const char *name);

/* Returns true if `name` (in the spelling of grants.h) amounts to root: an account that has it on
 * the whole server (`in_mysql`: on the schema mysql) can change any account, for instance by code
 * that runs as root. */
bool server_privilege_rules(struct server_version v, bool in_mysql, const char *name);

/* Lists the privileges that are needed to create a trigger for this definer, ended by -1. `denied`
 * is the server's error when it refused that, or NULL. Servers do not show which accounts are
 * system users; root is assumed to be one. */
#define DEFINER_PRIVILEGES 4
void server_definer_privileges(struct server_version v, const char *definer, const char *denied,
                               int out[DEFINER_PRIVILEGES]);

/* Appends the names of `p` in each version and the privileges that imply it, for the manual. */
void server_privilege_words(struct buf *b, enum server_privilege p);
/* Returns its purpose, for the manual: "Reading the binary log". */
const char *server_privilege_use(enum server_privilege p);

/* ---- on the schema of a world ---- */

/* A privilege on the world's schema. Each was proven necessary by revoking it, or is optional. */
struct schema_privilege {
    const char *name, *why; /* `why` NULL: optional */
    enum {
        PART_ALL,
        PART_LEDGER = 1,
        PART_PROGRESS = 2
    } part;               /* needed only if the config has one of these */
    const char *optional; /* the purpose of an optional one */
};
/* Returns the i-th, without those that this version does not have; NULL after the last. */
const struct schema_privilege *schema_privilege(struct server_version v, size_t i);

/* Privileges that a restore needs in another schema (--into), and those that a drill needs. */
#define DRILL_PRIVILEGES "SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, TRIGGER"
#define SCRATCH_PRIVILEGES "SELECT, INSERT, CREATE, DROP, ALTER"
/* Privileges for a standby's copy. */
#define COPY_PRIVILEGES "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER"

#endif
