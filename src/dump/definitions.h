/* The definitions section of a dump: views, routines, packages, triggers and events, as far as the
 * account may read them. The others are omitted. */
#ifndef WK_DUMP_DEFINITIONS_H
#define WK_DUMP_DEFINITIONS_H

#include "base/text.h"
#include "mysql/objects.h"
#include "mysql/schema.h"

/* Appends the section to `b` (nothing if the schema has no such objects). `schema` is the default
 * schema of `db`. `tables` are those of the dump; triggers of other tables are omitted.
 * `hash`: of the objects and of the settings they are made with; equal if and only if these are. */
int definitions_write(struct db *db, const char *schema, const struct db_tables *tables,
                      const struct db_triggers *triggers, struct buf *b, char hash[17],
                      struct err *e);

#endif
