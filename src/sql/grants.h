/* Parses SHOW GRANTS. Pure text, no server.
 *
 * A privilege on a schema may come from *.* or from a row for the schema. Of the rows of one
 * grantee (the account, one of its roles, PUBLIC) only the most specific match counts: a row for
 * `game\_1` hides what a row for `game%` grants. Privileges of different grantees add up. */
#ifndef WK_SQL_GRANTS_H
#define WK_SQL_GRANTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum grant_on { GRANT_GLOBAL, GRANT_SCHEMA, GRANT_TABLE, GRANT_ROUTINE, GRANT_PROXY, GRANT_ROLE };

struct grant {
    enum grant_on on;
    bool revoke;  /* a REVOKE line (MySQL's partial revokes) */
    bool option;  /* WITH GRANT OPTION */
    bool limited; /* MAX_QUERIES_PER_HOUR and the like */
    /* of an account with a wider host, whose row counts if no own one matches; not a privilege of
     * the grantee's own */
    bool elsewhere;
    char *schema;        /* pattern as stored, or a role's name; NULL for *.* */
    char *object;        /* table or routine; NULL otherwise */
    const char *routine; /* "FUNCTION ", "PROCEDURE " …; NULL otherwise */
    char *grantee;       /* "`user`@`host`", "`role`", "PUBLIC" */
    char **privileges;   /* upper case, one spelling each; "ALL PRIVILEGES" is not expanded */
    size_t count;
    char **partial; /* for some columns only, in the server's text: "UPDATE (`a`, `b`)" */
    size_t partials;
};
struct grants {
    struct grant *list;
    size_t count;
    bool literal;  /* MySQL with partial_revokes: no wildcards in schema names */
    bool any_case; /* lower_case_table_names: A to Z and a to z are equal in names */
};

/* Adds one line of SHOW GRANTS. Lines that grant nothing (SET DEFAULT ROLE) are skipped. Returns -1
 * for an unknown line. */
int grants_add(struct grants *g, const char *line);
void grants_free(struct grants *g);

/* Returns true if the privilege is granted on the whole schema (NULL: on *.*). A row with
 * `elsewhere` does not count. */
bool grants_have(const struct grants *g, const char *schema, const char *privilege);
/* Like grants_have(), for one table; rows for the table count as well. */
bool grants_have_table(const struct grants *g, const char *schema, const char *table,
                       const char *privilege);
/* Returns true if one of the grants shows the schema to the account. */
bool grants_show(const struct grants *g, const char *schema);
/* Returns the row of `grantee` that counts for the schema, or NULL. */
const struct grant *grants_row(const struct grants *g, const char *schema, const char *grantee);
/* Returns the row that counts for the schema until a GRANT makes a row of the grantee for exactly
 * this schema, which hides it; NULL: a GRANT hides nothing. */
const struct grant *grants_hidden(const struct grants *g, const char *schema, const char *grantee);
/* Returns true if the names of two schemas or tables are equal, as the server compares them. */
bool grants_same_name(const struct grants *g, const char *a, const char *b);
/* Returns true if the row's schema pattern matches. */
bool grant_matches(const struct grants *g, const struct grant *row, const char *schema);
/* Returns true if a row for the same object as this one grants the privilege; NULL: GRANT
 * OPTION. */
bool grants_have_row(const struct grants *g, const struct grant *row, const char *privilege);
/* Returns true if its pattern matches more than one name (an unescaped %). */
bool grant_is_wide(const struct grants *g, const struct grant *row);
/* Appends a pattern that matches only this schema. */
void grants_pattern(const struct grants *g, struct buf *b, const char *schema);

#endif
