/* The tables that a replay does not follow from the dump to its end. Pure. */
#ifndef WK_JOURNAL_REPLAY_TABLES_H
#define WK_JOURNAL_REPLAY_TABLES_H

#include "binlog/change.h"
#include "journal/replay.h"
#include "store/manifest.h"

/* Gives up following a new table, so that it cannot be restored. Call it before replay_finish(). */
void replay_give_up(struct replay *r, struct replay_table *t, const char *why);
/* With `fresh` or `parts`, call this after replay_read(): reports about single tables become the
 * gap, or are added to it. `now`: the tables of the server. */
void replay_finish(struct replay *r, const struct manifest *m, const struct db_tables *now);

struct replay_table *replay_table(const struct replay *r, const char *name);
/* Returns true if the other tables can continue without the tables of this gap. `parts` as in the
 * source. */
bool replay_scope_fits(const struct replay *r, const struct manifest *m,
                       const struct statement_scope *scope, bool parts);
/* Records a gap for which that is true. */
void replay_scope(struct replay *r, const struct manifest *m, const struct change *gap);
/* Ends the changes of a table. */
void replay_table_close(struct replay *r, const struct manifest *m, const char *name,
                        const char *why, wall_t at);
/* Records that a table that is not in the dump was created, empty; `create` NULL: not known.
 * `unsure` as in struct replay_table. */
void replay_table_open(struct replay *r, const char *name, const char *create, bool unsure,
                       wall_t at);
/* Forgets what is known of a table, with its changes. Does nothing for other tables. */
void replay_table_forget(struct replay *r, const char *name);
/* Records that such a table has this CREATE TABLE from here on, with its rows. Does nothing for
 * other tables. */
void replay_table_define(struct replay *r, const char *name, const char *create);
/* Records that a restore loaded the merged state: tables of the dump have these rows, and are
 * followed further. */
void replay_tables_restored(struct replay *r);
void replay_tables_free(struct replay *r);

#endif
