/* One consistent picture of the world: which tables, their counters, and their rows as of one
 * moment.
 *
 *   copy  locks all tables for reading, copies each inside the server into a temporary table by
 *         several connections (copies.h), unlocks; writers wait for the copies only. Rows are read
 *         from the copies.
 *   fuzzy locks nothing for long: scans while the game writes, and folds in what changed
 *         (fuzzy.h).
 *   lock  keeps the locks until the last row was read, as mysqldump does.
 *
 * Under the locks the binary log stands still for these tables, so its position belongs to the
 * picture. InnoDB tables (engines = all) are read from a connection of their own in a consistent
 * snapshot that begins while the locks are held: one moment for all, as far as the engines allow.
 *
 * The connections are never replaced: when one is lost, the snapshot is lost (ERR_UNREACHABLE).
 * All functions are called by one thread. */
#ifndef WK_DUMP_SNAPSHOT_H
#define WK_DUMP_SNAPSHOT_H

#include "db/rows.h"
#include "dump/job.h"
#include "store/manifest.h"

struct snapshot;

/* Takes the picture by the configured method. `auto`: fuzzy where it can be had, else copy; copy
 * too where the tables changed under a scan, which is noted. ERR_CHANGED: no sentinel row to vouch
 * for it.
 */
struct snapshot *snapshot_take(const struct job *job, struct err *e);
/* Never auto. */
enum config_method snapshot_method(const struct snapshot *s);
/* Can the world be dumped by `fuzzy`? The reason why not (malloc), NULL when it can; or NULL with
 * e->cls set when it cannot be asked. */
char *snapshot_no_fuzzy(const struct config *c, struct db *db, struct err *e);
const struct db_tables *snapshot_tables(const struct snapshot *s);
const struct server_id *snapshot_server(const struct snapshot *s);
/* The moment of the rows, in the binary log; and where reading began, which is another place for
 * `fuzzy` only. */
const struct db_point *snapshot_point(const struct snapshot *s);
const struct db_point *snapshot_start(const struct snapshot *s);
const char *snapshot_nonce(const struct snapshot *s);
/* For reading definitions, beside the locks; its default schema is the world's. */
struct db *snapshot_db(struct snapshot *s);
/* CREATE TABLE of a table as it was under the locks. */
const char *snapshot_create(const struct snapshot *s, size_t table);
int snapshot_read(struct snapshot *s, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
                  struct err *e);
/* Is this still the same server process and the same world? On the same connections. */
int snapshot_check(struct snapshot *s, struct err *e);
void snapshot_end(struct snapshot *s);

#endif
