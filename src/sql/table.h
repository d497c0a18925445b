/* A table's definition as a structure. It is parsed from a CREATE TABLE as SHOW CREATE TABLE and
 * mysqldump write it, or from an ALTER TABLE of another tool's file. Only the output of
 * sql_table_write() goes to a server, so no second parser can disagree with this one. Anything that
 * the structure cannot hold is refused by name. Pure.
 *
 * Expressions are kept as text, written token by token from listed functions, operators, literals
 * and quoted names. MySQL and MariaDB differ in some clauses: the writer omits clauses that the
 * target lacks, and those that it would skip in a version comment (NOT ENFORCED, SRID, COMPRESSED
 * …). */
#ifndef WK_SQL_TABLE_H
#define WK_SQL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

/* All texts are owned by the table; NULL: not given. */
struct sql_column {
    char *name, *type; /* "int(10) unsigned", as servers write it */
    char *charset, *collation, *generated, *fallback /* DEFAULT */, *on_update, *comment, *check;
    char *row_end;          /* "START" or "END" of system versioning */
    char *format, *storage; /* MySQL: COLUMN_FORMAT, STORAGE */
    char *attribute, *attribute2 /* ENGINE_ATTRIBUTE, SECONDARY_ENGINE_ATTRIBUTE */;
    char *srid; /* MySQL: SRID; MariaDB: REF_SYSTEM_ID */
    bool stored, not_null, null, counter /* AUTO_INCREMENT */, hidden, compressed;
    bool not_secondary, unversioned;
};

struct sql_key_part {
    char *name, *expression; /* one of the two */
    char *length;            /* of a key prefix */
    bool descending, no_overlaps;
};
struct sql_key {
    const char *kind;                          /* "PRIMARY KEY", "UNIQUE KEY", "KEY" … (static) */
    char *name;                                /* NULL for a primary key */
    char *method, *parser, *comment, *options; /* "USING …"; options of engines */
    char *attribute2;                          /* MySQL: SECONDARY_ENGINE_ATTRIBUTE */
    bool hidden;                               /* MySQL: INVISIBLE; MariaDB: IGNORED */
    struct sql_key_part *parts;
    size_t part_count;
};

/* For a CHECK: its expression. For a FOREIGN KEY or a PERIOD: all text after the name. */
struct sql_constraint {
    char *name, *check, *foreign, *period;
    bool not_enforced;
};

/* Which server knows a clause. The writer omits clauses that the target does not know. */
enum sql_brand { SQL_BOTH, SQL_MYSQL, SQL_MARIADB };
struct sql_option {
    const char *name; /* as it is written; static */
    char *value;      /* SQL; "" for WITH SYSTEM VERSIONING */
    enum sql_brand brand;
};

struct sql_table {
    char *name;
    struct sql_column *columns;
    struct sql_key *keys;
    struct sql_constraint *constraints;
    struct sql_option *options; /* including ENGINE */
    size_t column_count, key_count, constraint_count, option_count;
    char *engine;            /* "" if none is given */
    uint64_t auto_increment; /* 0: none */
    char *partitions;        /* "PARTITION BY …" */
    /* MariaDB: the schema of the sequences in its defaults; NULL: none is named. The caller must
     * check that it is the world's own schema. */
    char *sequences;
    char **texts; /* all owned texts, for freeing */
    size_t text_count;
};

/* How the text of a definition is read; 0: as servers write it. */
enum sql_table_modes {
    SQL_PLAIN_STRINGS = 1, /* as under NO_BACKSLASH_ESCAPES */
    SQL_ANSI_QUOTES = 2,   /* as under ANSI_QUOTES */
    SQL_QUALIFIED = 4,     /* the table's name may be qualified by a schema, which is dropped */
};
/* Parses a CREATE TABLE. ERR_REFUSED names what is not accepted; nothing needs to be freed then. */
int sql_table_read(const char *create, size_t len, unsigned modes, struct sql_table *out,
                   struct err *e);
void sql_table_free(struct sql_table *t);
/* Reads an ALTER TABLE that modifies columns, adds keys and constraints, and sets options, as other
 * tools write it after a table's rows. The columns in `out` are those of MODIFY. ERR_REFUSED for
 * any other clause. */
int sql_alter_read(const char *alter, size_t len, unsigned modes, struct sql_table *out,
                   struct err *e);

/* Returns the engine named in a definition, even in one that sql_table_read() refuses, to show that
 * it is not a MEMORY table. Returns NULL if none or several are named, or if the text contains
 * something that only some servers read. The caller frees it. */
char *sql_table_engine(const char *create, size_t len, unsigned modes);

struct sql_table_how {
    const char *name; /* of the table */
    bool temporary, mariadb;
    bool unnamed_checks; /* let the server name the CHECKs */
};
/* Appends a CREATE TABLE for a session in utf8mb4 without NO_BACKSLASH_ESCAPES and ANSI_QUOTES. */
void sql_table_write(struct buf *out, const struct sql_table *t, const struct sql_table_how *how);
/* Appends the clauses that sql_alter_read() read, with a leading blank, to follow "ALTER TABLE
 * `name`"; nothing if this server knows none of them. */
void sql_alter_write(struct buf *out, const struct sql_table *t, const struct sql_table_how *how);

/* Returns NULL if there is no such column. Case-insensitive. */
const struct sql_column *sql_table_column(const struct sql_table *t, const char *name);
bool sql_table_has_foreign(const struct sql_table *t);

#endif
