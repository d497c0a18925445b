/* The definitions section of a dump: views, routines, triggers and events, as far as the account
 * may read them. What it may not read is left out and counted, so that --check can name it. */
#ifndef WK_DUMP_DEFINITIONS_H
#define WK_DUMP_DEFINITIONS_H

#include "core/text.h"
#include "db/query.h"

/* Adds the section to `b` (nothing when the schema has none). `db` has the schema as its default;
 * `tables` are those of the dump: triggers of others are not in it. */
int definitions_write(struct db *db, const char *schema, const struct db_tables *tables,
                      struct buf *b, struct err *e);

#endif
