/* The statements that give an account all that its world's config uses, at once: for --check --grants, and for
 * worldkeeper-setup. They follow from the config, the server and sql/privileges.h, and not from what other findings
 * say, so that none waits for another one. What the account has is left out. */
#ifndef WK_CHECK_NEEDED_GRANTS_H
#define WK_CHECK_NEEDED_GRANTS_H

#include <jansson.h>

#include "base/err.h"
#include "base/progress.h"
#include "config/config.h"
#include "mysql/conn.h"

struct needed_grant {
    char *sql; /* ends with ";" */
    char *why; /* lines of our own words, with nothing in them that a server or a config names */
    const char *lost; /* what does not work without it; NULL: nothing does */
    char *only_if;    /* a condition in SQL which only an administrator can evaluate; NULL: none */
};
struct needed_grants {
    struct needed_grant *list;
    size_t count;
};
void needed_grants_free(struct needed_grants *n);

/* Asked of an administrator's session, who sees everything: conditions are evaluated, `only_if` is NULL. The account,
 * user@host, need not exist yet. -1: the server cannot be asked. */
int needed_grants_for(const struct config *cfg, struct db *admin, const char *account,
                      struct needed_grants *out, struct err *e);

/* For the account of the config, over its own session.
 * *result: {"account", "grants":[{"why","statement"}]}; each statement is one line, for the stock client, and asks by itself
 * what the account may not see. ERR_REFUSED: a name cannot be printed so. */
int check_grants(const struct config *cfg, struct progress *p, json_t **result, struct err *e);

#endif
