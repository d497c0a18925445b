/* What SHOW GRANTS says, taken apart. Pure text, no server.
 *
 * A right on a schema may come from *.*, or from a row for the schema. Of the rows of one grantee
 * (the account, one of its roles, PUBLIC) only the most specific that matches counts: a row for
 * `game\_1` hides what a row for `game%` gives. Rights of different grantees add up. */
#ifndef WK_DB_GRANTS_H
#define WK_DB_GRANTS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/text.h"

enum grant_on { GRANT_GLOBAL, GRANT_SCHEMA, GRANT_TABLE, GRANT_ROUTINE, GRANT_PROXY, GRANT_ROLE };

struct grant {
    enum grant_on on;
    bool revoke;         /* a REVOKE line (MySQL's partial revokes): takes away instead */
    bool option;         /* WITH GRANT OPTION */
    bool columns;        /* some rights hold for single columns only; those are not in the list */
    bool limited;        /* MAX_QUERIES_PER_HOUR and the like */
    char *schema;        /* pattern as stored, or a role's name; NULL for *.* */
    char *object;        /* table or routine; NULL otherwise */
    const char *routine; /* "FUNCTION ", "PROCEDURE " …; NULL otherwise */
    char *grantee;       /* "`user`@`host`", "`role`", "PUBLIC" */
    char **rights;       /* upper case, one spelling each; "ALL PRIVILEGES" stays as it is */
    size_t count;
};
struct grants {
    struct grant *list;
    size_t count;
    bool literal; /* MySQL with partial_revokes: no wildcards in schema names */
};

/* Adds one line. Lines that grant nothing (SET DEFAULT ROLE) are passed over; -1: not understood.
 */
int grants_add(struct grants *g, const char *line);
void grants_free(struct grants *g);

/* Does the right hold on the whole schema (NULL: on *.*)? */
bool grants_have(const struct grants *g, const char *schema, const char *right);
/* The same for one table; the table's own row counts too. */
bool grants_have_table(const struct grants *g, const char *schema, const char *table,
                       const char *right);
/* Does this row give the right? */
bool grant_has(const struct grant *g, const char *right);
/* The row of `grantee` that counts for the schema, or NULL. */
const struct grant *grants_row(const struct grants *g, const char *schema, const char *grantee);
/* Does the row's schema pattern match? */
bool grant_matches(const struct grants *g, const struct grant *row, const char *schema);
/* Does its pattern reach beyond one name (a % that is no escaped one)? */
bool grant_is_wide(const struct grants *g, const struct grant *row);
/* A schema's name as a pattern that matches this one schema. */
void grants_pattern(const struct grants *g, struct buf *b, const char *schema);

#endif
