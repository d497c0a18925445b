/* The members of an ENUM or SET column, to find the number of what is read as text. Pure. */
#ifndef WK_DB_CHOICES_H
#define WK_DB_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db_choices {
    char **list;
    size_t *lengths;
    size_t count;
    bool set;
};

/* From a column's type as information_schema tells it: "enum('a','it''s')". Returns 0, or -1 when
 * it is neither. Ends with db_choices_free(), also after -1. */
int db_choices_parse(const char *type, struct db_choices *out);
/* The number of an ENUM's member, or the bits of a SET's; no text is 0. -1: not one of them. */
int db_choices_find(const struct db_choices *c, const char *text, size_t len, uint64_t *number);
void db_choices_free(struct db_choices *c);

#endif
