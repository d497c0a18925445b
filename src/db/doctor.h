/* Questions that only --check asks: about the account, the server's clock and the objects of a
 * schema that need special care. Errors and ownership as in query.h. */
#ifndef WK_DB_DOCTOR_H
#define WK_DB_DOCTOR_H

#include "db/grants.h"
#include "db/query.h"

struct doctor_session {
    char account[400]; /* CURRENT_USER(): user@host as the server matched it */
    char tls[128];     /* "TLSv1.3, AES…", "" when the session is not encrypted */
    char version_comment[128];
    int64_t max_connections; /* of this account at a time, 0: no limit of its own */
};
int doctor_session(struct db *db, struct doctor_session *out, struct err *e);

/* One statement there and back, the quickest of three: milliseconds. */
int doctor_latency(struct db *db, double *ms, struct err *e);
/* The server's clock minus ours in milliseconds, and by how much that may be wrong. */
int doctor_clock(struct db *db, int64_t *ahead, int64_t *error, struct err *e);

/* The account's rights, those of its active roles with them. *strange counts lines not understood.
 */
int doctor_grants(struct db *db, struct grants *out, unsigned *strange, struct err *e);
/* Roles, quoted, that MySQL's account has been granted and has not at its login; MariaDB's grants
 * tell that themselves. */
int doctor_idle_roles(struct db *db, struct db_names *out, struct err *e);
/* user@host in quotes, as GRANT takes it. */
void doctor_account(struct buf *b, const char *account);
/* What a restore takes in a schema beside the world's (--drill, --into), and where a GRANT goes:
 * " ON `pattern`.* TO `user`@`host`". */
#define DOCTOR_SCRATCH_RIGHTS "SELECT, INSERT, CREATE, DROP, ALTER"
void doctor_target(struct buf *b, const struct grants *g, const char *schema, const char *account);

/* Is there such a schema, as far as the account may see? */
int doctor_schema(struct db *db, const char *schema, bool *there, struct err *e);

enum doctor_oddity {
    DOCTOR_PARTITIONED,      /* MEMORY tables with partitions */
    DOCTOR_FOREIGN_KEY,      /* tables with a foreign key of their own */
    DOCTOR_REFERENCED,       /* tables that a foreign key of another one points to */
    DOCTOR_SEQUENCE,         /* sequences: neither dumped nor restored */
    DOCTOR_VERSIONED,        /* system-versioned tables: their history is not dumped */
    DOCTOR_VERSIONED_MEMORY, /* those of engine MEMORY: neither dumped nor followed */
    DOCTOR_FEDERATED, /* tables whose rows live elsewhere (FEDERATED, CONNECT, SPIDER, MERGE) */
    DOCTOR_LONG_ROWS, /* tables with LONGTEXT, LONGBLOB, MEDIUMTEXT or MEDIUMBLOB columns */
};
int doctor_odd_tables(struct db *db, const char *schema, enum doctor_oddity which,
                      struct db_names *out, struct err *e);

#endif
