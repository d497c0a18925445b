/* Reading a MEMORY table without a lasting lock: writers get in between. A row that exists all
 * the while is read once, as it is when its chunk is read; what is inserted, deleted or changed
 * meanwhile may be read or not: only a journal of the changes makes such a scan consistent.
 *
 *   HANDLER  of MariaDB walks through the rows in chunks of about 2 ms. ALTER, TRUNCATE and LOCK
 *            TABLES … WRITE wait for the end of the scan of that table.
 *   copies   of the table inside the server (temp_copy.h), each read when it is complete: of all of
 *            it, or, where it is big, of one share of its keys after another. Writers wait for one.
 *
 * The tuples are those of rows.h. Errors as in conn.h; ERR_CHANGED when the table is no longer what
 * it was. */
#ifndef WK_MYSQL_SCAN_H
#define WK_MYSQL_SCAN_H

#include "mysql/rows.h"

/* Facts, besides struct db_table, that decide how a table can be scanned. */
struct db_scan_fact {
    enum { DB_SCAN_VERSIONED, DB_SCAN_PARTITIONED, DB_SCAN_INVISIBLE, DB_SCAN_CHOICE } kind;
    char *table, *column, *charset; /* "" if there is none */
};
struct db_scan_facts {
    bool mariadb;
    struct db_scan_fact *list;
    size_t count;
};
int db_scan_facts(struct db *db, const char *schema, struct db_scan_facts *out, struct err *e);
void db_scan_facts_free(struct db_scan_facts *f);

enum db_scan_way { DB_SCAN_NONE, DB_SCAN_HANDLER, DB_SCAN_COPIES };
/* Decides how this table is scanned. *why: the reason if it is not HANDLER, as the end of a
 * sentence. Pure. */
enum db_scan_way db_scan_way(const struct db_table *t, const struct db_scan_facts *f,
                             const char **why);

/* Called after each chunk, while no lock is held, with its number of rows and the microseconds that
 * the server needed for it. */
typedef int db_chunk_fn(void *arg, uint64_t rows, int64_t us, struct err *e);
/* Reads the whole table, which must be in the default schema. Copies use key ranges only if the
 * table's keys were read (db_table_keys()). `chunk` may be NULL. *rows counts the rows. */
int db_scan_rows(struct db *db, const struct db_table *t, enum db_scan_way way, db_tuple_fn *fn,
                 db_chunk_fn *chunk, void *arg, uint64_t *rows, struct err *e);

#endif
