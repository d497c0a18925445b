/* The statements that give an account everything that its world's config uses, at once: for --check
 * --grants, and for worldkeeper-setup. They follow from the config, the server and
 * sql/privileges.h, not from other findings, so that none has to wait for another one. Privileges
 * that the account already has are omitted. */
#ifndef WK_CHECK_NEEDED_GRANTS_H
#define WK_CHECK_NEEDED_GRANTS_H

#include <jansson.h>

#include "base/err.h"
#include "base/progress.h"
#include "config/config.h"
#include "mysql/conn.h"

struct needed_grant {
    char *sql;        /* ends with ";" */
    char *why;        /* comment lines of our own words, without text from a server or a config */
    const char *lost; /* what does not work without it; NULL: nothing depends on it */
    char *only_if;    /* an SQL condition that only an administrator can evaluate; NULL: none */
};
struct needed_grants {
    struct needed_grant *list;
    size_t count;
};
void needed_grants_free(struct needed_grants *n);

/* Computes them over an administrator's session, which sees everything: conditions are evaluated,
 * and `only_if` is NULL. The account, user@host, need not exist yet. Returns -1 if the server
 * cannot be queried. */
int needed_grants_for(const struct config *cfg, struct db *admin, const char *account,
                      struct needed_grants *out, struct err *e);

/* Computes them for the account of the config, over its own session. *result: {"account",
 * "grants":[{"why","statement"}]}. Each statement is one line for the stock client, and queries by
 * itself what the account may not see. ERR_REFUSED: a name cannot be printed that way, or the
 * account has its privileges by another one's grants, which a GRANT would hide. */
int check_grants(const struct config *cfg, struct progress *p, json_t **result, struct err *e);

#endif
