/* Named questions to the server: everything that the program wants to know or do in SQL, except the
 * rows of tables (rows.h). Names are quoted here; callers pass them raw. All strings returned are
 * owned by the structs they are in; every *_free leaves {0}. Errors as in conn.h. */
#ifndef WK_DB_QUERY_H
#define WK_DB_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text.h"
#include "db/conn.h"
#include "db/server.h"

int db_server_id(struct db *db, struct server_id *out, struct err *e);
/* A place in the binary log, or file[0] == 0 where there is none (or no right to ask). */
struct db_point {
    char file[256];
    uint64_t pos;
    char gtid[512];       /* what was written before it */
    char gtid_after[512]; /* and before a moment behind it; "": the same. The server tells both
                             apart from the place, and others write meanwhile */
};
void db_point(struct db *db, struct db_point *out);
/* What that is read from: file, position, and the filters of what is logged. MySQL has a word of
 * its own for it. */
struct db_rows *db_log_status(struct db *db, struct err *e);
/* Does it write none? Then also where log_bin is ON: an error of the disk made it close its log. */
bool db_log_closed(struct db *db);
/* -1, 0, 1: which of two places of one log comes first. Its files are numbered. */
int db_point_compare(const struct db_point *a, const struct db_point *b);

/* The schema's name as the server writes it (malloc), which may differ from ours in the case of its
 * letters. ERR_REFUSED: there is none. */
char *db_schema_name(struct db *db, const char *schema, struct err *e);

/* A server variable as number / text; -1 / "" when it is not there. */
int64_t db_variable_number(struct db *db, const char *name);
char *db_variable(struct db *db, const char *name);
/* 1: what this session changes goes to the binary log; 0, -1. */
int db_logs(struct db *db, struct err *e);

/* How a column travels through a dump: see rows.h. */
enum db_encoding {
    DB_RAW,    /* numbers and decimals as the server prints them */
    DB_DOUBLE, /* FLOAT, DOUBLE: read as DOUBLE, which prints exactly; -0 keeps its sign */
    DB_INDEX,  /* ENUM, SET: by number, so that index 0 and odd members survive */
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
    char charset[33]; /* of text; "": it has none */
};
struct db_table {
    char *name, *engine;
    bool memory;             /* ENGINE=MEMORY: what a restart empties */
    bool transactional;      /* read in a consistent snapshot instead of a lock */
    bool has_key;            /* a primary key */
    bool counts;             /* a column counts up by itself */
    uint64_t auto_increment; /* 0: none */
    uint64_t rows;           /* exact for MEMORY, an estimate elsewhere */
    uint64_t data_length, index_length, max_data_length;
    uint64_t row_length; /* bytes of a row, on the average */
    struct db_column *columns;
    size_t column_count;
    unsigned *key; /* db_table_keys(): places of the primary key's columns in a tuple */
    size_t key_count;
};
struct db_tables {
    struct db_table *list;
    size_t count;
};
/* Base tables of the schema in name order; with `all` those of every engine, else MEMORY ones only.
 * Tables whose name starts with DB_OWN_PREFIX (our shadows) are left out unless `own` asks for them
 * only. */
#define DB_OWN_PREFIX "worldkeeper_tmp_"
int db_tables(struct db *db, const char *schema, bool all, struct db_tables *out, struct err *e);
/* Those that the server cannot open, so that it does not know their engine: db_tables() has them
 * not. No columns. */
int db_closed_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e);
int db_own_tables(struct db *db, const char *schema, struct db_tables *out, struct err *e);
/* The one of that name, whatever its engine and name; none when it is not there. */
int db_table_named(struct db *db, const char *schema, const char *table, struct db_tables *out,
                   struct err *e);
/* Fills in the keys of tables of this schema; a key with a generated column is none, since no tuple
 * has it. */
int db_table_keys(struct db *db, const char *schema, struct db_tables *tables, struct err *e);
void db_tables_free(struct db_tables *t);
/* Takes `t`, which is in the list, out of it. */
void db_tables_remove(struct db_tables *list, struct db_table *t);
/* NULL when not there. */
struct db_table *db_table_find(const struct db_tables *t, const char *name);
/* Are its rows those of other tables, or of another server (MERGE, FEDERATED, CONNECT, SPIDER)?
 * They are no part of a dump: put back, they would be there twice. */
bool db_rows_elsewhere(const struct db_table *t);
/* Column names, types and encodings in one number: equal when rows fit without mapping. 16 hex
 * digits. */
void db_columns_hash(const struct db_table *t, char out[17]);

/* Names in a schema, by kind. */
struct db_names {
    char **list;
    size_t count;
};
enum db_kind {
    DB_TRIGGER,
    DB_VIEW,
    DB_FUNCTION,
    DB_PROCEDURE,
    DB_EVENT,
    DB_LIBRARY,
    DB_PACKAGE,
    DB_PACKAGE_BODY
};
int db_names(struct db *db, const char *schema, enum db_kind kind, struct db_names *out,
             struct err *e);
void db_names_free(struct db_names *n);
const char *db_kind_name(enum db_kind kind); /* "TRIGGER" … as SQL writes it */

/* SHOW CREATE …: the statement, or NULL with e->cls ERR_NONE when the account may not read it. */
struct db_definition {
    char *sql, *sql_mode, *charset, *collation;
    char *zone; /* an event's, in which its times are; NULL: of something else */
};
int db_definition(struct db *db, const char *schema, enum db_kind kind, const char *name,
                  struct db_definition *out, struct err *e);
void db_definition_free(struct db_definition *d);
char *db_create_table(struct db *db, const char *schema, const char *table, struct err *e);

struct db_trigger {
    char *name, *table, *event, *timing, *body, *definer, *sql_mode, *charset, *collation;
};
struct db_triggers {
    struct db_trigger *list;
    size_t count;
};
/* In the order in which they fire. */
int db_triggers(struct db *db, const char *schema, struct db_triggers *out, struct err *e);
void db_triggers_free(struct db_triggers *t);
/* "CREATE DEFINER=… TRIGGER `name` … ON `table` …", without a schema's name in it. */
void db_trigger_sql(struct buf *b, const struct db_trigger *t, const char *table);
/* Creates it on `table`, whatever table it was read from, with its own sql_mode and charset. */
int db_trigger_create(struct db *db, const struct db_trigger *t, const char *table, struct err *e);

/* One table as the server sees it now; all zero where it is not there. */
struct db_figures {
    uint64_t rows; /* exact for MEMORY */
    uint64_t auto_increment, max_data_length;
    bool memory; /* its engine is that */
};
int db_figures(struct db *db, const char *schema, const char *table, struct db_figures *out,
               struct err *e);
int db_count(struct db *db, const char *schema, const char *table, uint64_t *rows, struct err *e);

/* GET_LOCK of the world on this connection: 1 got, 0 somebody else has it, or still loads under it
 * (holder's connection id), -1. */
int db_lease_lock(struct db *db, const char *schema, unsigned long *holder, struct err *e);
/* A further connection that writes under the lease which `lease` holds, 1 … DB_LEASE_SLOTS.
 * ERR_BUSY when the lease is lost or the slot taken. */
#define DB_LEASE_SLOTS 15u
int db_lease_slot(struct db *db, const char *schema, unsigned slot, const struct db *lease,
                  struct err *e);

#endif
