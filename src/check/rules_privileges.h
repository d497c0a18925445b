/* --check: which privileges the account lacks, and which it does not need. */
#ifndef WK_CHECK_RULES_PRIVILEGES_H
#define WK_CHECK_RULES_PRIVILEGES_H

#include "check/rule.h"

/* rules_privileges.c: missing and superfluous privileges of the account */
void check_privileges(struct check *c);
/* Return true if the account has the privilege on the world's schema, or on the whole server. */
bool check_may(const struct check *c, const char *privilege);
bool check_may_server(const struct check *c, enum server_privilege p);
/* Returns false if routines may exist that the account cannot see. */
bool check_routines_readable(const struct check *c);
/* Returns true if this config needs the privilege on the world's schema. */
bool check_needs(const struct check *c, const struct schema_privilege *p);
/* Returns the name of the world's schema if the account can see it (the caller frees it); NULL: it
 * cannot, or `e` says why that is unknown. Sets {by_another} if none of the account's grants, which
 * are known, shows the schema: then those of another account count, which a GRANT would hide and
 * only an administrator can see. */
char *check_schema_seen(struct check *c, struct err *e);
#define CHECK_BY_ANOTHER                                                                           \
    "SELECT * FROM mysql.db shows what the account has on the schema by a grant to another "       \
    "account "                                                                                     \
    "(of the same user name, or without a name): repeat it in the GRANT to this account, which "   \
    "hides it; worldkeeper-setup does that"
/* Appends one GRANT of the privileges that are missing on a schema, as db_schema_grant() does. */
void check_schema_grant(const struct check *c, struct buf *b, const char *schema);
/* Adds the missing GRANTs for seeing and ending the sessions that block a restore. */
void check_blocker_grants(struct check *c, struct names *out);
/* These add a world, or all worlds that have a lease table, to c->worlds. */
void check_add_world(struct check *c, const char *schema);
void check_add_leases(struct check *c);

#endif
