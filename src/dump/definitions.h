/* The definitions section of a dump: views, routines, packages, triggers and events, as far as the
 * account may read them. The others are omitted. */
#ifndef WK_DUMP_DEFINITIONS_H
#define WK_DUMP_DEFINITIONS_H

#include "base/text.h"
#include "mysql/schema.h"

/* Appends the section to `b` (nothing if the schema has no such objects). `schema` is the default
 * schema of `db`; `tables` are those of the dump: triggers of other tables are omitted. */
int definitions_write(struct db *db, const char *schema, const struct db_tables *tables,
                      struct buf *b, struct err *e);

#endif
