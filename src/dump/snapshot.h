/* A consistent snapshot of the world: its tables, their counters, and their rows as of one moment.
 *
 *   copy  locks all tables for reading, copies each into a temporary table inside the server over
 *         several connections (copies.h), unlocks; writers wait for the copies only. Rows are read
 *         from the copies.
 *   fuzzy locks nothing for long: scans while the game writes, and merges in what changed
 *         (fuzzy.h). Tables without a primary key are copied after the scan as by `copy`, under a
 *         lock of these tables only; the changes are merged up to the log's position under that
 *         lock.
 *   lock  keeps the locks until the last row has been read, as mysqldump does.
 *
 * Under the locks nothing about these tables is added to the binary log, so its position belongs to
 * the snapshot. The game's InnoDB tables (engines = all) are read over a separate connection in a
 * consistent snapshot that begins while the locks are held: one moment for all, as far as the
 * engines allow. Worldkeeper's own InnoDB tables (mysql/world_tables.h) are locked, because the
 * journal continues from their rows.
 *
 * Connections are never replaced: if one is lost, the snapshot is lost (ERR_UNREACHABLE).
 * All functions are called by one thread. */
#ifndef WK_DUMP_SNAPSHOT_H
#define WK_DUMP_SNAPSHOT_H

#include "base/line.h"
#include "mysql/rows.h"
#include "mysql/sentinel.h"
#include "store/manifest.h"

struct job;

struct snapshot {
    enum config_method method; /* the method used; never auto */
    char warning[LINE];        /* why it is not the configured one; "": it is */
    struct db_tables tables;   /* as they were at the moment of the snapshot */
    char **creates;            /* [i]: CREATE TABLE of tables.list[i] at that moment */
    struct server_id server;
    /* Binlog positions: of the rows, and of the start of reading, which differs only for
     * `fuzzy`. */
    struct db_binlog_pos point, start;
    struct db_sentinel sentinel;
    struct db
        /* for definitions, in the world's schema: under LOCK TABLES a session can read only the
         * locked tables, and this one holds no locks */
        *meta;

    /* for snapshot.c only */
    const struct job *job;
    const struct manifest *newest; /* as given to snapshot_take() */
    struct db_params params;       /* of each of its connections */
    mono_t asked;                  /* when the locks were requested; ms 0: there are none */
    int64_t wait_ms;         /* the longest time from then until they were released or given up */
    struct db *db;           /* holds the locks; reads the locked tables */
    struct db *versioned;    /* consistent snapshot of InnoDB tables; NULL: there are none */
    struct copies *copies;   /* method copy, and fuzzy with tables without a primary key */
    struct fuzzy *fuzzy;     /* method fuzzy */
    struct db_tables listed; /* the tables before the moment of the snapshot */
    bool *locked;            /* [i]: listed.list[i] is locked at that moment */
    /* [i], method fuzzy: figures of a locked table, read under the lock */
    struct db_figures *figures;
};

/* Takes the snapshot by the configured method. `auto`: fuzzy if possible, else copy. If
 * definitions change during a scan, the tables are scanned once more, and then copied; they are
 * copied at once if the log has a gap or the scan does not fit on the disk. Each is reported by a
 * note. `newest` is the newest dump, or NULL if there is none: its tables must be in the snapshot
 * if the server has them. ERR_CHANGED: there is no sentinel row to prove that the world is there,
 * or definitions changed. */
struct snapshot *snapshot_take(const struct job *job, const struct manifest *newest, struct err *e);
/* Returns why the world cannot be dumped by `fuzzy` (malloc), NULL if it can; NULL with e->cls set
 * if the server could not be queried. If it can, `copied` (may be NULL) gets the tables without a
 * primary key, which would be copied under a lock. */
char *snapshot_no_fuzzy(const struct config *c, struct db *db, struct names *copied, struct err *e);
/* Reads the rows of tables.list[table]. */
int snapshot_read(struct snapshot *s, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
                  struct err *e);
/* Returns true if tables.list[table].rows counts the rows of the snapshot exactly. A scanned table
 * is counted after the snapshot. */
bool snapshot_counted(const struct snapshot *s, size_t table);
/* Checks that this is still the same server process and the same world, over the snapshot's
 * connections. */
int snapshot_check(struct snapshot *s, struct err *e);
/* Releases remaining locks. Returns the longest time in ms that a writer can have waited for this
 * snapshot. */
int64_t snapshot_release(struct snapshot *s);
void snapshot_end(struct snapshot *s);

#endif
