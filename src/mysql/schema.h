/* The tables of a schema, their columns and keys, as the server describes them. Names are quoted here;
 * callers pass them raw. Returned strings are owned by the structs they are in; every *_free leaves
 * {0}. Errors as in conn.h. */
#ifndef WK_MYSQL_SCHEMA_H
#define WK_MYSQL_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    bool has_key;            /* a primary key */
    bool counts;             /* it has an AUTO_INCREMENT column */
    uint64_t auto_increment; /* 0: none; UINT64_MAX: no number is left */
    bool described;          /* the server could report its figures */
    uint64_t rows;           /* exact for MEMORY, an estimate elsewhere */
    uint64_t data_length, index_length, max_data_length;
    uint64_t row_length; /* average bytes per row */
    struct db_column *columns;
    size_t column_count;
    unsigned *key; /* db_table_keys(): indexes of the primary key's columns in a tuple */
    size_t key_count;
};
/* In the order of strcmp() by name, which db_table_find() relies on. */
struct db_tables {
    struct db_table *list;
    size_t count;
    bool any_case; /* db_table_keys(): names are case-insensitive */
};
/* Base tables of the schema in name order; with `all` those of every engine, else MEMORY tables
 * only. Tables whose name starts with DB_OWN_PREFIX (our shadow tables) are left out;
 * db_own_tables() lists these. */
#define DB_OWN_PREFIX "worldkeeper_tmp_"
int db_tables(struct db *db, const char *schema, bool all, struct db_tables *out, struct err *e);
/* Tables that the server cannot open, so that it does not know their engine; db_tables() omits
 * them. Without columns. */
int db_closed_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e);
int db_own_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e);
/* The table of that name, whatever its engine and prefix; an empty list if it does not exist. */
int db_table_named(struct db *db, const char *schema, const char *table, struct db_tables *out,
                   struct err *e);
/* Fills in the primary keys of tables of this schema, and whether names are case-insensitive. A key
 * with a generated column does not count, since tuples lack that column. */
int db_table_keys(struct db *db, const char *schema, struct db_tables *tables, struct err *e);
void db_tables_free(struct db_tables *t);
void db_table_free(struct db_table *t);
/* Removes `t`, which must be in the list, and frees it. */
void db_tables_remove(struct db_tables *list, struct db_table *t);
/* Puts a list in order that was not made by the functions above. */
void db_tables_sort(struct db_tables *list);
/* NULL: not in the list. */
struct db_table *db_table_find(const struct db_tables *t, const char *name);
/* By its name, in whatever case, as the server looks for it; NULL: there is none. */
const struct db_column *db_column_find(const struct db_table *t, const char *name);
/* The index of a column in a tuple; -1: tuples lack it. */
int db_tuple_place(const struct db_table *t, const char *column);
/* The encoding for a COLUMN_TYPE of information_schema. */
enum db_encoding db_encoding_of(const char *type, bool mariadb);
/* Does the engine show rows of other tables or another server (MERGE, FEDERATED, CONNECT, SPIDER)?
 * They are not dumped: restored, they would exist twice. */
bool db_rows_elsewhere(const struct db_table *t);
/* A hash of column names, types and encodings, 16 hex digits: equal if rows fit without mapping. */
void db_columns_hash(const struct db_table *t, char out[17]);

/* SHOW CREATE TABLE (malloc). */
char *db_create_table(struct db *db, const char *schema, const char *table, struct err *e);

/* Columns and primary key from the text of a SHOW CREATE TABLE, for a table that the server no
 * longer has, or has in another form: as db_tables() and db_table_keys() would report them, without
 * character sets and figures. -1: sql_table_read() refuses it, and nothing is to be freed. Comparing
 * db_columns_hash() proves that it was read exactly. Pure. */
int db_create_table_read(const char *create, size_t len, bool mariadb, struct db_table *out);

/* One table as the server sees it now; all zero if it does not exist. */
struct db_figures {
    uint64_t rows; /* exact for MEMORY */
    uint64_t auto_increment, max_data_length;
    bool memory; /* ENGINE=MEMORY */
};
/* Before figures are read, unless db_tables() was called: without it MySQL answers from statistics that are up to a day
 * old. */
int db_fresh_statistics(struct db *db, struct err *e);
int db_figures(struct db *db, const char *schema, const char *table, struct db_figures *out,
               struct err *e);
int db_count(struct db *db, const char *schema, const char *table, uint64_t *rows, struct err *e);

#endif
