/* Loads rows into shadow tables (for --into, into the tables of another schema) and verifies that
 * what arrived is what was sent. One loader per connection, used by one thread at a time. */
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
    /* Facts about the session. */
    enum db_bulk_way way; /* how rows of our own dumps are inserted into MEMORY tables */
    size_t piece;         /* best size of a statement in bytes; 0: as large as allowed */
    uint64_t packet_max;
    /* The table that is being loaded. */
    struct target *target;       /* NULL: its rows are skipped */
    struct delta_table *changes; /* NULL: none */
    struct db_bulk *bulk;        /* bulk loader for its rows; NULL: they are sent as statements */
    bool open;                   /* rows can be added */
    bool locked;      /* locked in the world's schema, so that no other session replaces it */
    bool checks;      /* MariaDB: constraints are checked */
    struct buf head;  /* "INSERT INTO `shadow` (…) VALUES\n" */
    struct buf text;  /* the statement */
    struct buf kept;  /* unchanged rows of the dump */
    struct buf scale; /* scale to restore by shadow_scale_on() */
};

int loader_begin(struct loader *l, struct err *e);
void loader_end(struct loader *l);
/* Prepares the table that receives the rows. `create` (create_len bytes) is the dump's CREATE
 * TABLE, used if the server has no such table. */
int loader_table(struct loader *l, const char *table, const char *create, size_t create_len,
                 struct err *e);
/* The same for a table of our own dumps or of the journal, whose rows follow. ERR_REFUSED: they do
 * not fit the present definition. */
int loader_own_table(struct loader *l, const char *table, const char *create, size_t create_len,
                     struct err *e);
/* Loads a table of our own dump, from its CREATE TABLE to its last row, with the changes since.
 * ERR_GAP: the changes do not fit this dump. */
int loader_part(struct loader *l, struct verify_part *part, struct err *e);
/* Executes an INSERT whose values were not parsed; `verb` such as "INSERT INTO ", `after_name` is
 * the text after the table's name. The shadow table stays locked for the next one. Call
 * loader_unlock() before any statement other than such INSERTs and SHOW WARNINGS, also after a
 * failure. */
int loader_insert_raw(struct loader *l, const char *verb, const char *after_name, size_t len,
                      struct err *e);
/* Unlocks the shadow table of the last rows, if it is locked. `rc`: the result so far, which is
 * returned unless this fails. */
int loader_unlock(struct loader *l, int rc, struct err *e);
/* Counts rows that were inserted by REPLACE or INSERT IGNORE on the server. */
int loader_recount(struct loader *l, struct err *e);
/* Empties the shadow table, as the file does. */
int loader_empty(struct loader *l, bool truncate, struct err *e);
/* Adds the hashes of changed rows to *hash, in the way that a dump adds up those of its rows. */
int loader_hash(const char *tuples, size_t len, uint64_t *hash, struct err *e);
/* Adds rows to an existing table, in blocks that `from` passes to `give`. They have all of its
 * columns, or if it is `mapped`, those of t->create. Afterwards t->rows is their number. */
typedef int loader_source(void *arg, size_t block, delta_rows_fn *give, void *to, struct err *e);
int loader_rows(struct loader *l, struct target *t, loader_source *from, void *arg, struct err *e);
/* Compares the row count of the shadow table; also the content if the server gave a warning, or if
 * `content` is set. */
int loader_check(struct loader *l, const struct target *t, bool content, struct err *e);

#endif
