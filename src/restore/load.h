/* Loads rows into shadow tables (or, for --into, into the tables of another schema) and verifies
 * that what arrived is what was sent. One loader per connection, used by one thread at a time. */
#ifndef WK_RESTORE_LOAD_H
#define WK_RESTORE_LOAD_H

#include "bulk/bulk.h"
#include "dump/verify.h"
#include "journal/delta.h"
#include "restore/shadow_table.h"

struct loader {
    /* Set by the caller. */
    struct shadow_session s;
    struct delta *delta;      /* changes since the dump; NULL: none, or not known */
    _Atomic uint64_t *rows;   /* loaded so far by all loaders together */
    const _Atomic bool *stop; /* another loader failed; NULL: it is the only one */
    /* Of the session. */
    enum db_bulk_way way; /* how rows of our own dumps are inserted into MEMORY tables */
    size_t piece;         /* best size of a statement in bytes; 0: as large as allowed */
    uint64_t packet_max;
    /* Of the table that is being loaded. */
    struct target *target;       /* NULL: its rows are skipped */
    struct delta_table *changes; /* NULL: none */
    struct db_bulk *bulk;        /* takes its rows; NULL: they go as statements */
    bool open;                   /* rows can be added */
    bool locked;                 /* in the world's schema, so that nobody replaces it */
    bool checks;                 /* MariaDB: constraints are checked */
    struct buf head;             /* "INSERT INTO `shadow` (…) VALUES\n" */
    struct buf text;             /* the statement */
    struct buf kept;             /* rows of the dump that did not change */
    struct buf scale;            /* shadow_scale_on() */
};

int loader_begin(struct loader *l, struct err *e);
void loader_end(struct loader *l);
/* Prepares the table that receives the rows; `create` (create_len bytes) is the dump's CREATE
 * TABLE, used if the server has no such table. */
int loader_table(struct loader *l, const char *table, const char *create, size_t create_len,
                 struct err *e);
/* Loads a table of our own dump, from its CREATE TABLE to its last row, with the changes since.
 * ERR_GAP: the changes do not fit this dump. */
int loader_part(struct loader *l, struct verify_part *part, struct err *e);
/* Executes an INSERT whose values were not parsed; `verb` such as "INSERT INTO ", `after_name` all that follows the
 * table's name. The shadow table stays locked for the next one: loader_unlock() has to be called before any other
 * statement than such INSERTs and SHOW WARNINGS, also after a failure. */
int loader_insert_raw(struct loader *l, const char *verb, const char *after_name, size_t len,
                      struct err *e);
/* Lets go of the shadow table that rows went into, if it is locked. `rc`: the result so far, which is returned unless this
 * fails. */
int loader_unlock(struct loader *l, int rc, struct err *e);
/* Rows that were inserted by REPLACE or INSERT IGNORE are counted on the server. */
int loader_recount(struct loader *l, struct err *e);
/* Empties the shadow table, as the file does. */
int loader_empty(struct loader *l, bool truncate, struct err *e);
/* Adds the hashes of changed rows to *hash, as a dump sums those of its rows. */
int loader_hash(const char *tuples, size_t len, uint64_t *hash, struct err *e);
/* Adds rows of all columns to a table that is there, in blocks that `from` gives to `give`. t->rows is their
 * number afterwards. */
typedef int loader_source(void *arg, size_t block, delta_rows_fn *give, void *to, struct err *e);
int loader_rows(struct loader *l, struct target *t, loader_source *from, void *arg, struct err *e);
/* Compares the row count of the shadow table; the content too if the server gave a warning, or if
 * `content` is set. */
int loader_check(struct loader *l, const struct target *t, bool content, struct err *e);

#endif
