/* What the files of replay.h share. */
#ifndef WK_JOURNAL_REPLAY_INT_H
#define WK_JOURNAL_REPLAY_INT_H

#include "binlog/change.h"
#include "journal/replay.h"

/* replay_tables.c: pure. */

struct replay_table *replay_table(const struct replay *r, const char *name);
/* Can the others go on without the tables of this gap? `parts` as in the source. */
bool replay_scope_fits(const struct replay *r, const struct manifest *m,
                       const struct statement_scope *scope, bool parts);
/* Takes a gap that fits. */
void replay_scope(struct replay *r, const struct manifest *m, const struct change *gap);
/* Its changes are followed no further. */
void replay_table_close(struct replay *r, const struct manifest *m, const char *name,
                        const char *why, wall_t at);
/* A table that is not in the dump was created, and is empty; `create` NULL: not known. */
void replay_table_open(struct replay *r, const char *name, const char *create, wall_t at);
/* Such a table has this CREATE TABLE from here on, with the rows that it had. Nothing of other tables. */
void replay_table_define(struct replay *r, const char *name, const char *create);
/* A restore put in what was merged: tables of the dump have these rows, and are followed on. */
void replay_tables_restored(struct replay *r);
void replay_tables_free(struct replay *r);

#endif
