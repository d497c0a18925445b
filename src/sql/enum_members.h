/* The members of an ENUM or SET column, to find the number of a value read as text. Pure. */
#ifndef WK_SQL_ENUM_MEMBERS_H
#define WK_SQL_ENUM_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct enum_members {
    char **list;
    size_t *lengths;
    size_t count;
    bool set;
};

/* Parses a column's type as in information_schema: "enum('a','it''s')". Returns 0, or -1 for
 * another type. To be freed with enum_members_free() even after -1. */
int enum_members_parse(const char *type, struct enum_members *out);
/* Finds the number of an ENUM's member or the bits of a SET's; 0 for an empty text. Returns -1 if
 * it is not a member. */
int enum_members_find(const struct enum_members *c, const char *text, size_t len, uint64_t *number);
void enum_members_free(struct enum_members *c);

#endif
