/* The sentinel (a one-row MEMORY table that vanishes with the world) and the lease (a durable table
 * with the generation, where game servers can read it). The lease table is named <sentinel>_lease.
 */
#ifndef WK_DB_SENTINEL_H
#define WK_DB_SENTINEL_H

#include "db/query.h"

struct db_sentinel {
    unsigned rows;  /* 0, 1, or 2 for more than one */
    char nonce[33]; /* of the first row */
    uint64_t generation;
    char dump[129];
};
/* Is this table the sentinel or its lease? */
bool db_sentinel_own(const char *sentinel, const char *table);
/* db_table_missing() when the table or the schema is not there. */
int db_sentinel_read(struct db *db, const char *schema, const char *table, struct db_sentinel *out,
                     struct err *e);
/* Its engine where that is another than MEMORY, and the row so no sign of the world's; else "". */
int db_sentinel_durable(struct db *db, const char *schema, const char *table, char engine[65],
                        struct err *e);
/* Creates a table (any name: also a shadow) and its row. */
int db_sentinel_create(struct db *db, const char *schema, const char *table, bool if_missing,
                       struct err *e);
int db_sentinel_insert(struct db *db, const char *schema, const char *table, const char *nonce,
                       uint64_t generation, const char *dump, struct err *e);
/* Writes a number into the row, for a journal to see it come by; the last column. A table that an
 * older version made gets that column first. */
int db_sentinel_beat(struct db *db, const char *schema, const char *table, uint64_t beat,
                     struct err *e);
/* 32 hex digits from the system's random source. */
int db_nonce(char out[33], struct err *e);

int db_lease_create(struct db *db, const char *schema, const char *sentinel, struct err *e);
/* *generation 0 when the table or its row is not there. */
int db_lease_read(struct db *db, const char *schema, const char *sentinel, uint64_t *generation,
                  struct err *e);
/* Never lowers it. */
int db_lease_raise(struct db *db, const char *schema, const char *sentinel, uint64_t generation,
                   const char *holder, struct err *e);

#endif
