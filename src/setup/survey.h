/* Finds the schemas with MEMORY tables, and what a new user should know about each. */
#ifndef WK_SETUP_SURVEY_H
#define WK_SETUP_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"
#include "mysql/conn.h"

struct survey_schema {
    char *name;
    unsigned tables, durable, views, triggers, functions;
    unsigned keyless; /* MEMORY tables without a primary key */
    uint64_t rows, bytes;
    char *largest; /* MEMORY table; its data and what it may take, 0: unknown */
    uint64_t largest_bytes, largest_room;
    uint64_t most_bytes; /* of one MEMORY table with its indexes, which the server's limit counts */
    bool chosen;         /* becomes a world in this run, or is one that is continued */
};
struct survey {
    struct survey_schema *list;
    size_t count;
    /* Number of skipped schemas: a name with a control character cannot be written to a config. */
    unsigned unfit;
};

/* Lists them in the order of their names, without those of the server itself. `db` is an
 * administrator's session. */
int survey_read(struct db *db, struct survey *out, struct err *e);
/* Append one line of text each. */
void survey_show(const struct survey_schema *s, struct buf *out);
void survey_free(struct survey *s);

#endif
