/* The account of a world: which one, how it logs in, and what it is granted. */
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

/* Chooses one for a new world: the service's own user by the server's socket, else one of the world's own, with a
 * password. */
int account_choose(struct setup *s, const char *world, struct account *out, struct err *e);
/* The one that a config names. */
int account_of(struct setup *s, const struct config *cfg, struct account *out, struct err *e);

/* Asks which privileges on the whole server are granted; the others are removed from the list. */
int account_ask(struct setup *s, struct needed_grants *n, struct err *e);
/* Makes the account, if it is not there, and grants. */
int account_make(struct setup *s, const struct account *a, const struct needed_grants *n,
                 struct err *e);

#endif
