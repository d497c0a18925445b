/* Conflict files: rows that a restore or a demotion replaces, mostly those that were written into
 * the emptied tables. A plain SQL file in the dump directory, conflict-GENERATION-UTCZ.sql.gz. Like
 * a dump it counts only once it was read back from the disk with the rows that were written to
 * it.
 *
 *   -- worldkeeper conflict 2
 *   -- written from UTC to UTC      or "from an unknown time"
 *   -- into an emptied world        only if the server had emptied it before
 *   SET …
 *   -- CREATE TABLE `t` (           types and character sets of the columns: format.h
 *   INSERT INTO `t` (`a`,…) VALUES  one row each; the rows of a table are adjacent
 *   -- worldkeeper end tables=N rows=M
 *
 * Files of earlier versions lack the types, and even earlier ones have another header and no
 * trailer. */
#ifndef WK_RESTORE_CONFLICT_H
#define WK_RESTORE_CONFLICT_H

#include "base/gzip.h"
#include "dump/format.h"
#include "mysql/schema.h"

struct job;
struct progress;

#define CONFLICT_NAME_MAX 128

struct conflict_source {
    const char *table; /* its name in the world */
    const char *from;  /* the table that holds the rows now */
    const struct db_table *columns;
    struct db *db;       /* the session that has it locked; NULL: that of the call */
    uint64_t rows, hash; /* out */
};
struct conflict_about {
    const char *file; /* its name; an existing file is replaced as a whole */
    wall_t from, to;  /* the rows were written between these times; ms 0: not known */
    /* The server had emptied the world before the rows were written: none of them can be in what is
     * restored, or in a total of a ledger there. */
    bool emptied;
};

/* Chooses a name of no existing file. `suffix`: "", or what distinguishes it from another file of
 * the same restore. */
void conflict_name(int dirfd, char out[CONFLICT_NAME_MAX], uint64_t generation, const char *suffix);
/* Writes the rows of all sources. Without rows no file is written, and an existing one stays. */
int conflict_save(struct db *db, const struct job *job, struct conflict_source *list, size_t n,
                  const struct conflict_about *about, uint64_t *rows, struct err *e);

/* ---- reading ---- */

struct conflict_file {
    int fd;
    struct gunzip *in;
    struct format_reader *reader;
    wall_t from, to; /* ms 0: not given */
    bool emptied;    /* as in conflict_about; false in files of earlier versions */
    bool counted;    /* it has a trailer, which proves it complete */
};
/* Opens a conflict file. `name` is a name in the directory; symbolic links are not followed.
 * format_next() with the reader returns the rows. */
int conflict_open(int dirfd, const char *name, struct conflict_file *out, struct err *e);
void conflict_close(struct conflict_file *f);

struct conflict_table {
    char *name, *columns; /* columns as in an INSERT: "(`a`,`b`)" */
    uint64_t rows, hash;
};
struct conflict_seen {
    struct conflict_table *tables;
    size_t count;
    uint64_t rows;
    wall_t from, to;
    bool counted;
};
/* Reads the whole file. ERR_DAMAGED: it is malformed. */
int conflict_read(int dirfd, const char *name, struct progress *progress, struct conflict_seen *out,
                  struct err *e);
void conflict_seen_free(struct conflict_seen *seen);

#endif
