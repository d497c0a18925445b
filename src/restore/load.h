/* Loads rows into shadow tables (or, for --into, into the tables of another schema) and proves that
 * what arrived is what was sent. One loader a connection, used by one thread at a time; several
 * loaders share a plan, each with other targets of it. The caller owns the connection and its
 * default schema. */
#ifndef WK_RESTORE_LOAD_H
#define WK_RESTORE_LOAD_H

#include "core/text.h"
#include "db/bulk.h"
#include "dump/verify.h"
#include "journal/fold.h"
#include "restore/plan.h"

struct loader {
    struct db *db;
    const struct job *job;
    const char *schema;
    struct plan *plan;
    struct fold *fold;          /* what changed since the dump; NULL: nothing, or nobody knows */
    struct target *target;      /* being loaded; NULL: rows are passed over */
    struct fold_table *changes; /* of that table; NULL: none */
    struct db_bulk *bulk;       /* its rows go this way; NULL: as statements */
    bool open;                  /* it takes rows */
    enum db_bulk_way way;       /* how rows of our own dumps go into MEMORY tables */
    struct buf head;            /* "INSERT INTO `shadow` (…) VALUES\n" */
    struct buf text;            /* the statement */
    struct buf kept;            /* rows of the dump that did not change */
    struct buf digits;          /* " MODIFY …": gives columns their digits back */
    size_t piece; /* bytes that a statement of rows takes best; 0: as many as it may */
    uint64_t packet_max;
    int64_t heap_default;
    _Atomic uint64_t *rows;   /* loaded so far, of all loaders together */
    const _Atomic bool *stop; /* another loader failed; NULL: there is no other */
};

int loader_begin(struct loader *l, struct db *db, const struct job *job, const char *schema,
                 struct plan *plan, _Atomic uint64_t *rows, struct err *e);
void loader_end(struct loader *l);
/* The table's place; `create` (create_len bytes) is the dump's CREATE TABLE for it, used where the
 * server has no such table. */
int loader_table(struct loader *l, const char *table, const char *create, size_t create_len,
                 struct err *e);
/* Can a table of this definition be restored at all? ERR_REFUSED with its name. */
int loader_takes(const struct plan *plan, const char *table, const char *create, size_t len,
                 struct err *e);
/* Does this CREATE TABLE of the dump hold a table and nothing else? ERR_DAMAGED, ERR_REFUSED. */
int loader_reads(const struct target *t, const char *create, size_t len, const char **behind_name,
                 struct err *e);
/* Does the server take this definition of a MEMORY table? Leaves nothing behind. */
int loader_prove(struct loader *l, const struct target *t, const char *create, size_t len,
                 struct err *e);
/* A table of our own dump, from its CREATE TABLE to its last row, with what changed since. ERR_GAP:
 * the changes are not those of this dump. */
int loader_part(struct loader *l, struct verify_part *part, struct err *e);
/* One INSERT whose values were not looked at: everything behind the table's name. */
int loader_insert_raw(struct loader *l, const char *behind_name, size_t len, struct err *e);
/* Row count of the shadow; content too where a warning came, or `content` asks for it. */
int loader_check(struct loader *l, const struct target *t, bool content, struct err *e);
const char *loader_place(const struct loader *l, const struct target *t);

#endif
