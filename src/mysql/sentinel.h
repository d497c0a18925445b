/* The sentinel: a table of ENGINE=MEMORY with one row, which vanishes with the world. */
#ifndef WK_MYSQL_SENTINEL_H
#define WK_MYSQL_SENTINEL_H

#include "mysql/only_table.h"
#include "mysql/schema.h"

/* As many digits as a dump's name allows; the next number still fits everywhere. */
#define DB_GENERATION_MAX INT64_C(999999999999999999)

struct db_sentinel {
    unsigned rows;  /* 0, 1, or 2 for more than one */
    char nonce[33]; /* of the first row */
    uint64_t generation;
    char dump[129]; /* that was restored; "": none */
};
/* Behind the name of that dump: only tables of it were restored, into a world that lives on; what was restored, all or
 * single tables, is of a moment after it. */
#define DB_SENTINEL_TABLES ".tables"
#define DB_SENTINEL_MOMENT ".moment"
/* The name of a sentinel that a swap replaces. */
#define DB_OLD_SENTINEL DB_OWN_PREFIX "old_sentinel"
/* Where games read which machine has the world ([standby] lease). */
#define DB_LEASE_TABLE "worldkeeper_lease"
/* Does this table say who may change the world? The sentinel's lease does, and the one for games. */
bool db_sentinel_lease(const char *sentinel, const char *table);
/* … or is it the sentinel? */
bool db_sentinel_own(const char *sentinel, const char *table);
/* db_table_missing() when the table or the schema is not there. */
int db_sentinel_read(struct db *db, const char *schema, const char *table, struct db_sentinel *out,
                     struct err *e);
/* Its engine if that is not MEMORY, so that the row proves nothing about the world; else "". */
int db_sentinel_durable(struct db *db, const char *schema, const char *table, char engine[65],
                        struct err *e);
/* Creates a table (any name: also a shadow table) and its row. `note`: hex digits that the table's
 * definition carries, as durable as the table; "": none. */
int db_sentinel_create(struct db *db, const char *schema, const char *table, bool if_missing,
                       const char *note, struct err *e);
/* Does the table carry this note? 1, 0, -1. */
int db_sentinel_noted(struct db *db, const char *schema, const char *table, const char *note,
                      struct err *e);
int db_sentinel_insert(struct db *db, const char *schema, const char *table, const char *nonce,
                       uint64_t generation, const char *dump, struct err *e);
/* The row gets another nonce and generation, and comes from no dump, in one statement: a new round begins. */
int db_sentinel_renew(struct db *db, const char *schema, const char *table, const char *nonce,
                      uint64_t generation, struct err *e);
/* Writes a number, the marker, into the row's last column, for a journal to find it in the log. A
 * table made by an older version gets that column first. */
int db_sentinel_mark(struct db *db, const char *schema, const char *table, uint64_t marker,
                     struct err *e);
/* 32 hex digits from the system's random source. */
int db_nonce(char out[33], struct err *e);

#endif
