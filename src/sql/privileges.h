/* The privileges that worldkeeper uses: what each is for, what it is called in which version, and what implies it
 * there. The only place that knows them: checks, hints, the manual and the tests go by it. Pure. */
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
    MAY_NAME_DEFINER, /* CREATE TRIGGER for another account */
    MAY_NAME_SYSTEM,  /* … for one that has SYSTEM_USER */
    MAY_NAME_MISSING, /* … for one that does not exist */
    MAY_SKIP_TRUST, /* CREATE TRIGGER with a binary log and log_bin_trust_function_creators = OFF */
    MAY_SKIP_LOG,   /* SET sql_log_bin=0 */
    MAY_WRITE_READ_ONLY, /* write while read_only is ON */
    MAY_LEAVE_KEYS,      /* SET sql_require_primary_key=0 */
    MAY_READ_ROUTINES,   /* SHOW CREATE of other accounts' routines */
    MAY_LEAVE_CLUSTER,   /* SET wsrep_on=0 */
    MAY_SEE_SESSIONS,    /* other accounts' sessions and transactions */
    MAY_LIST_LOCKS,      /* MySQL with performance_schema: who holds which lock, … */
    MAY_LIST_THREADS,    /* … who that is, … */
    MAY_READ_STATEMENTS, /* … and what it did last */
    MAY_END_SESSIONS,    /* KILL of other accounts' sessions */
    SERVER_PRIVILEGES
};

/* The privilege to grant, as GRANT writes it; NULL: nothing is needed there in this version. */
const char *server_privilege(struct server_version v, enum server_privilege p);
/* What it is granted on: "*.*", or a table of the server's own. */
const char *server_privilege_on(struct server_version v, enum server_privilege p);
/* Do the grants contain it, or another privilege that implies it in this version? True also where nothing is needed. */
bool server_may(const struct grants *g, struct server_version v, enum server_privilege p);
/* Is `name`, as grants.h has it, on this table (NULL, NULL: on *.*) the privilege to grant for `p`? */
bool server_privilege_grants(struct server_version v, enum server_privilege p, const char *schema,
                             const char *table, const char *name);

/* Does `name`, as grants.h has it, amount to root: can who has it on the whole server (`in_mysql`: on the schema mysql)
 * change any account, such as by code that runs as root? */
bool server_privilege_rules(struct server_version v, bool in_mysql, const char *name);

/* Which privileges it takes to make a trigger for this definer, `denied` being what the server said when it refused
 * that, or NULL; ended by -1. Which accounts are system users a server does not show; root is. */
#define DEFINER_PRIVILEGES 4
void server_definer_privileges(struct server_version v, const char *definer, const char *denied,
                               int out[DEFINER_PRIVILEGES]);

/* Appends what `p` is called in which version and what implies it, as the manual has it. */
void server_privilege_words(struct buf *b, enum server_privilege p);
/* What it is for, as the manual has it: "Reading the binary log". */
const char *server_privilege_use(enum server_privilege p);

/* ---- on the schema of a world ---- */

/* Each was proven necessary by revoking it, or is optional. */
struct schema_privilege {
    const char *name, *why; /* `why` NULL: optional */
    enum {
        PART_ALL,
        PART_LEDGER = 1,
        PART_PROGRESS = 2
    } part;               /* only where the config has one of these */
    const char *optional; /* what an optional one is for */
};
/* NULL: no more. Those that this version does not have are left out. */
const struct schema_privilege *schema_privilege(struct server_version v, size_t i);

/* What a restore needs in another schema (--into), and a drill. */
#define DRILL_PRIVILEGES "SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, TRIGGER"
#define SCRATCH_PRIVILEGES "SELECT, INSERT, CREATE, DROP, ALTER"
/* … and the copy of a standby. */
#define COPY_PRIVILEGES "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER"

#endif
