/* The session's account, its privileges, and statements that name it. Errors and ownership as in
 * conn.h. */
#ifndef WK_MYSQL_ACCOUNT_H
#define WK_MYSQL_ACCOUNT_H

#include "mysql/schema.h"
#include "sql/privileges.h"

struct db_account {
    char name[400];          /* CURRENT_USER(): user@host as the server matched it */
    char tls[128];           /* "TLSv1.3, AES…"; "": the session is not encrypted */
    int64_t max_connections; /* of this account; 0: no limit of its own */
};
int db_account(struct db *db, struct db_account *out, struct err *e);
/* Reads the account's privileges, including those of its active roles. *unknown counts lines that
 * were not understood. */
int db_grants(struct db *db, struct grants *out, unsigned *unknown, struct err *e);
/* Like db_grants(), for MySQL: with the privileges of these roles ("`role`@`host`, …") instead of
 * the active ones. */
int db_grants_using(struct db *db, const char *roles, struct grants *out, unsigned *unknown,
                    struct err *e);
/* Reads the privileges of another account, user@host, without its roles; for administrators. An
 * account that does not exist has none. */
int db_grants_of(struct db *db, const char *account, struct grants *out, unsigned *unknown,
                 struct err *e);

/* Adds, for administrators, the privileges on schemas that the server gives to sessions of the
 * account for lack of its own: those of the same user name, or of the anonymous account, with a
 * wider host. SHOW GRANTS does not list them. */
int db_grants_elsewhere(struct db *db, const char *account, struct grants *out, struct err *e);

/* Appends user@host, quoted for GRANT. */
void db_account_quote(struct buf *b, const char *account);
/* Appends the target of a GRANT: " ON `pattern`.* TO `user`@`host`". */
void db_grant_target(struct buf *b, const struct grants *g, const char *schema,
                     const char *account);
/* Returns true if a list "SELECT, INSERT" has the privilege. */
bool db_lists_privilege(const char *list, const char *privilege);
/* Appends the GRANT of these privileges, such a list. It takes nothing from the account: if it
 * makes a row that hides another one (grants_hidden()), it repeats what that one gives. */
void db_schema_grant(struct buf *b, const struct grants *g, const char *schema,
                     const char *privileges, const char *account);
/* Sets the hint of `e` to the GRANT of these privileges on the schema, if the account's privileges
 * can be read. */
void db_hint_grant(struct db *db, const char *schema, const char *privileges, struct err *e);
/* Sets the hint to the GRANT of those server-wide privileges in the list (ended by -1) that the
 * account is not known to have, in the names of this server's version. */
void db_hint_server(struct db *db, const int *privileges, struct err *e);
/* Appends those of a list "SELECT, INSERT" that the account lacks on the schema, as such a list. */
void db_missing_privileges(struct buf *missing, const struct grants *g, const char *schema,
                           const char *privileges);
/* Sets the hint to that GRANT if at least one of the privileges is known to be missing. */
void db_hint_missing(struct db *db, const char *schema, const char *privileges, struct err *e);

#endif
