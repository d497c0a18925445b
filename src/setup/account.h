/* The account of a world: its name, how it logs in, and its privileges. */
#ifndef WK_SETUP_ACCOUNT_H
#define WK_SETUP_ACCOUNT_H

#include "check/needed_grants.h"
#include "config/config.h"
#include "setup/setup.h"

struct account {
    char *user, *host;
    char *name;          /* user@host */
    bool there;          /* it exists */
    bool by_socket;      /* logs in as a user of this system, without a password */
    char *password_file; /* NULL: none */
};
void account_free(struct account *a);

/* Chooses an account for a new world: the service's own user over the server's socket, else an
 * account of the world with a password. Neither is a new account beside others of the same user
 * name. */
int account_choose(struct setup *s, const char *world, struct account *out, struct err *e);
/* Returns the account that a config names: the one as which the server accepts the daemon's login.
 * If that login fails, it is a new account, or ERR_REFUSED if the server has others of that user
 * name. */
int account_of(struct setup *s, const struct config *cfg, struct account *out, struct err *e);

/* Asks which server-wide privileges are granted; the others are removed from the list. */
int account_ask(struct setup *s, struct needed_grants *n, struct err *e);
/* Returns true if a GRANT or SET goes beyond the world's own schemas. */
bool account_is_wide(const char *sql);
/* Returns the statement that revokes what `sql` grants; NULL if it is not a GRANT. The caller frees
 * it. */
char *account_reverse(const char *sql);
/* Creates the account if it does not exist, and grants. */
int account_make(struct setup *s, const struct account *a, const struct needed_grants *n,
                 struct err *e);

#endif
