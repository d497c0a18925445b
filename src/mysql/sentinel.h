/* The sentinel: a MEMORY table with one row, which is lost together with the world. */
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
    char dump[129]; /* name of the dump that was restored; "": none */
};
/* Suffixes of that dump's name: only tables of it were restored, into a living world; or the
 * restored state, of all or of single tables, is of a time after the dump. */
#define DB_SENTINEL_TABLES ".tables"
#define DB_SENTINEL_MOMENT ".moment"
/* The name of a sentinel that a swap replaces. */
#define DB_OLD_SENTINEL DB_OWN_PREFIX "old_sentinel"
/* Where games read which machine has the world ([standby] lease). */
#define DB_LEASE_TABLE "worldkeeper_lease"
/* Returns true if this table tells which process or machine may change the world: the sentinel's
 * lease table, or the one for games. */
bool db_sentinel_lease(const char *sentinel, const char *table);
/* Like db_sentinel_lease(), but returns true for the sentinel, too. */
bool db_sentinel_own(const char *sentinel, const char *table);
/* Reads it. db_table_missing() is true if the table or the schema does not exist. */
int db_sentinel_read(struct db *db, const char *schema, const char *table, struct db_sentinel *out,
                     struct err *e);
/* Sets `engine` if it is not MEMORY, so that the row proves nothing about the world; else "". */
int db_sentinel_durable(struct db *db, const char *schema, const char *table, char engine[65],
                        struct err *e);
/* Creates a table (under any name, also as a shadow table) and its row. `note`: hex digits in the
 * table's comment, as durable as the table; "": none. */
int db_sentinel_create(struct db *db, const char *schema, const char *table, bool if_missing,
                       const char *note, struct err *e);
/* Returns 1 if the table carries this note, else 0; or -1. */
int db_sentinel_noted(struct db *db, const char *schema, const char *table, const char *note,
                      struct err *e);
int db_sentinel_insert(struct db *db, const char *schema, const char *table, const char *nonce,
                       uint64_t generation, const char *dump, struct err *e);
/* Begins a new round: gives the row another nonce and generation and removes the dump's name, in
 * one statement. */
int db_sentinel_renew(struct db *db, const char *schema, const char *table, const char *nonce,
                      uint64_t generation, struct err *e);
/* Writes a number, the marker, into the row's last column, so that a journal can find it in the
 * log. Adds that column to a table of an older version. */
int db_sentinel_mark(struct db *db, const char *schema, const char *table, uint64_t marker,
                     struct err *e);
/* Sets `out` to 32 hex digits from the system's random source. */
int db_nonce(char out[33], struct err *e);

#endif
