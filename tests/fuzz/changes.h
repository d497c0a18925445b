/* What any reader of segments promises of the changes that it gives out, whatever the bytes are. */
#ifndef CHANGES_H
#define CHANGES_H

#include "binlog/change.h"
#include "journal/segment.h"

struct changes {
    bool within;
    char file[256]; /* the last place */
    uint32_t created_at;
    uint64_t pos;
    uint64_t groups, rows, marks;
    uint64_t hash; /* of all that came */
};
/* Looks at all that the change is made of; tuples lie within `from` and `end` (NULL: somewhere).
 * Aborts where a promise is broken. */
void changes_take(struct changes *m, const struct change *c, const char *from, const char *end);
void changes_sum(const struct changes *m, const struct segment_sum *s);

#endif
