/* The tables of a schema, their columns and keys, as the server describes them. Names are quoted
 * here; callers pass them raw. Returned strings are owned by the structs they are in; every
 * *_free leaves {0}. Errors as in conn.h. */
#ifndef WK_MYSQL_SCHEMA_H
#define WK_MYSQL_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/number.h"
#include "base/text.h"
#include "mysql/conn.h"
#include "mysql/server.h"

/* How a column is read and written in a dump: see rows.h. */
enum db_encoding {
    DB_RAW,    /* numbers and decimals as the server prints them */
    DB_DOUBLE, /* FLOAT, DOUBLE: read as DOUBLE, which prints exactly; -0 keeps its sign */
    DB_INDEX,  /* ENUM, SET: by number, so that index 0 and unusual members survive */
    DB_BITS,   /* BIT: 0x… */
    DB_BYTES,  /* strings, binary, dates: escaped bytes */
    DB_LATIN1, /* types that refuse a binary literal (UUID, INET4, INET6) */
    DB_UTF8,   /* JSON of MySQL: refuses a binary literal too */
};
struct db_column {
    char *name, *type;
    enum db_encoding encoding;
    bool generated, has_default;
    bool counter;     /* AUTO_INCREMENT */
    char charset[33]; /* "": not a text column */
};
struct db_table {
    char *name, *engine;
    bool memory;             /* ENGINE=MEMORY: emptied by a restart */
    bool transactional;      /* read in a consistent snapshot instead of a lock */
    bool carried;            /* InnoDB, but belongs to the world (world_tables.h) */
    bool has_key;            /* a primary key */
    bool counts;             /* it has an AUTO_INCREMENT column */
    uint64_t auto_increment; /* 0: none; UINT64_MAX: no number is left */
    bool described;          /* the server could report its figures */
    uint64_t rows;           /* exact for MEMORY, an estimate elsewhere */
    uint64_t data_length, index_length, max_data_length;
    uint64_t row_length; /* average bytes per row */
    struct db_column *columns;
    size_t column_count;
    unsigned *key; /* set by db_table_keys(): indexes of the primary key's columns in a tuple */
    size_t key_count;
};
/* Returns the bytes that count for max_heap_table_size. */
static inline uint64_t db_table_bytes(const struct db_table *t)
{
    return number_sum(t->data_length, t->index_length);
}
/* Returns the max_heap_table_size to recommend if the largest table has so many bytes: a power of
 * two at which that table can double, and at least 16 MiB, the servers' default. */
static inline uint64_t db_heap_wanted(uint64_t largest)
{
    return number_doubled(16u << 20, number_product(2, largest), INT64_MAX);
}
/* Sorted by name as strcmp() does, which db_table_find() relies on. */
struct db_tables {
    struct db_table *list;
    size_t count;
    bool any_case; /* set by db_table_keys(): names are case-insensitive */
};
/* Lists the base tables of the schema in name order: those of every engine with `all`, else only
 * MEMORY tables. Tables whose name starts with DB_OWN_PREFIX (our shadow tables) are omitted;
 * db_own_tables() lists these. */
#define DB_OWN_PREFIX "worldkeeper_tmp_"
int db_tables(struct db *db, const char *schema, bool all, struct db_tables *out, struct err *e);
/* Lists the MEMORY tables and the InnoDB tables named in `also`, which get `carried`. */
int db_tables_with(struct db *db, const char *schema, const struct names *also,
                   struct db_tables *out, struct err *e);
/* Lists tables that the server cannot open, so that it does not know their engine; db_tables()
 * omits them. Without columns. */
int db_closed_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e);
int db_own_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e);
/* Reads the table of that name, whatever its engine and prefix; an empty list if it does not
 * exist. Errors as in db_table_await(). */
int db_table_named(struct db *db, const char *schema, const char *table, struct db_tables *out,
                   struct err *e);
/* Waits up to a second until no session changes the definition of the table. Returns 1 if the table
 * can be read then, 0 if it cannot, and -1 if this cannot be found out, for example because another
 * session has locked the table (db_lock_busy()). Not under LOCK TABLES.
 * information_schema does not wait: while ALTER TABLE replaces the old definition of a table by the
 * new one, it shows for a moment no table, no columns and no keys of that name. db_tables() and
 * db_table_keys() repeat a reading that lacks the columns or the keys of a listed table. They
 * cannot notice that a table is missing from the list: a caller that knows its name asks
 * db_table_hidden(). */
int db_table_await(struct db *db, const char *schema, const char *table, struct err *e);
/* Returns 1 and sets `now` if the server has a table of this name that is not in the list, else 0.
 * Errors as in db_table_await(). Free `now` with db_tables_free(). */
int db_table_hidden(struct db *db, const char *schema, const struct db_tables *listed,
                    const char *name, struct db_tables *now, struct err *e);
/* Returns one value of information_schema about this table or its triggers, like db_one_with(). The
 * statement also opens the table, so no ALTER TABLE hides anything of it. If the table cannot be
 * opened, or if another session locks it for more than a second, `sql` is sent without that: a lock
 * hides nothing. `sql` is a SELECT that names its column. */
char *db_one_settled(struct db *db, const char *schema, const char *table, const char *sql,
                     const char *const *args, struct err *e);
/* Sets the primary keys of these tables, and whether names are case-insensitive. A key with a
 * generated column does not count, because tuples lack that column. */
int db_table_keys(struct db *db, const char *schema, struct db_tables *tables, struct err *e);
void db_tables_free(struct db_tables *t);
void db_table_free(struct db_table *t);
/* Removes `t`, which must be in the list, and frees it. */
void db_tables_remove(struct db_tables *list, struct db_table *t);
/* Sorts a list that was not made by the functions above. */
void db_tables_sort(struct db_tables *list);
/* Returns NULL if it is not in the list. */
struct db_table *db_table_find(const struct db_tables *t, const char *name);
/* Finds a column by its name, case-insensitively like the server; NULL: there is none. */
const struct db_column *db_column_find(const struct db_table *t, const char *name);
/* Returns the index of a column in a tuple; -1: tuples lack it. */
int db_tuple_place(const struct db_table *t, const char *column);
/* Returns the encoding for a COLUMN_TYPE of information_schema. */
enum db_encoding db_encoding_of(const char *type, bool mariadb);
/* Returns true if the engine shows rows of other tables or of another server (MERGE, FEDERATED,
 * CONNECT, SPIDER). They are not dumped, because a restore would duplicate them. */
bool db_rows_elsewhere(const struct db_table *t);
/* Sets `out` to a hash of column names, types and encodings, 16 hex digits: equal if rows fit
 * without mapping. */
void db_columns_hash(const struct db_table *t, char out[17]);

/* A SELECT, with ? for the schema, of the tables with stored or indexed generated columns, and with
 * a generated column over a TIMESTAMP, or over FROM_UNIXTIME(): its values depend on the time zone
 * of the session that wrote the row. Only MySQL allows this. */
#define DB_ZONED_TABLES                                                                            \
    "SELECT DISTINCT g.TABLE_NAME FROM information_schema.COLUMNS g JOIN "                         \
    "information_schema.COLUMNS k ON k.TABLE_SCHEMA=g.TABLE_SCHEMA AND k.TABLE_NAME=g.TABLE_NAME " \
    "WHERE g.TABLE_SCHEMA=? AND k.EXTRA LIKE '%GENERATED%' AND k.GENERATION_EXPRESSION<>'' AND "   \
    "(k.EXTRA LIKE '%STORED%' OR EXISTS (SELECT 1 FROM information_schema.STATISTICS i WHERE "     \
    "i.TABLE_SCHEMA=k.TABLE_SCHEMA AND i.TABLE_NAME=k.TABLE_NAME AND "                             \
    "i.COLUMN_NAME=k.COLUMN_NAME)) AND g.GENERATION_EXPRESSION<>'' AND "                           \
    "(g.DATA_TYPE='timestamp' OR g.GENERATION_EXPRESSION LIKE '%from_unixtime(%' OR EXISTS "       \
    "(SELECT 1 FROM information_schema.COLUMNS t WHERE t.TABLE_SCHEMA=g.TABLE_SCHEMA AND "         \
    "t.TABLE_NAME=g.TABLE_NAME AND t.DATA_TYPE='timestamp' AND "                                   \
    "INSTR(g.GENERATION_EXPRESSION,CONCAT('`',REPLACE(t.COLUMN_NAME,'`','``'),'`'))>0))"

/* Returns the SHOW CREATE TABLE text (malloc). */
char *db_create_table(struct db *db, const char *schema, const char *table, struct err *e);

/* Reads columns and primary key from the text of a SHOW CREATE TABLE, for a table that the server
 * no longer has, or has in another form. The result is that of db_tables() and db_table_keys(),
 * without character sets and figures. Returns -1 if sql_table_read() refuses the text; nothing
 * needs to be freed then. Comparing db_columns_hash() proves that it was read exactly. Pure. */
int db_create_table_read(const char *create, size_t len, bool mariadb, struct db_table *out);

/* One table as the server has it now; all zero if it does not exist. */
struct db_figures {
    uint64_t rows; /* exact for MEMORY */
    uint64_t auto_increment, max_data_length;
    bool memory; /* ENGINE=MEMORY */
};
/* Call this before reading figures, unless db_tables() was called. Without it MySQL answers from
 * statistics that may be a day old. */
int db_fresh_statistics(struct db *db, struct err *e);
int db_figures(struct db *db, const char *schema, const char *table, struct db_figures *out,
               struct err *e);
int db_count(struct db *db, const char *schema, const char *table, uint64_t *rows, struct err *e);

#endif
