/* Classifies one statement of another tool's file: mysqldump, mariadb-dump, mydumper, phpMyAdmin,
 * HeidiSQL, Adminer and SQLyog. The grammar is in worldkeeper(8), FILES OF OTHER TOOLS; every other
 * statement is FOREIGN_REFUSED. Version comments are read as this server reads them. Pure.
 *
 * Only the head of a statement is read here. Definitions are read by sql/table.h, rows by
 * sql/insert.h, code by sql/definition.h. */
#ifndef WK_SQL_FOREIGN_H
#define WK_SQL_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "sql/token.h"
#include "sql/versions.h"

enum foreign_kind {
    FOREIGN_REFUSED,  /* not in the grammar */
    FOREIGN_NEUTRAL,  /* changes no table: an empty statement, LOCK, COMMIT, DISABLE KEYS … */
    FOREIGN_USE,      /* name: the schema */
    FOREIGN_SET,      /* to be read by foreign_set() */
    FOREIGN_TABLE,    /* CREATE TABLE name */
    FOREIGN_SEQUENCE, /* CREATE SEQUENCE name */
    FOREIGN_CODE,     /* CREATE VIEW name; CREATE TRIGGER … ON name; other code without a name */
    FOREIGN_ROWS,     /* INSERT or REPLACE INTO name; `rest` follows the name */
    FOREIGN_EMPTY,    /* TRUNCATE name, DELETE FROM name */
    FOREIGN_ALTER,    /* ALTER TABLE name */
    FOREIGN_DROP,     /* DROP TABLE names */
    FOREIGN_MAKE_SCHEMA, /* CREATE DATABASE name */
    FOREIGN_DROP_SCHEMA, /* DROP DATABASE name */
};

struct foreign {
    enum foreign_kind kind;
    struct buf schema, name; /* schema: "" if the name is not qualified */
    struct names names;      /* FOREIGN_DROP */
    const char *rest;        /* FOREIGN_ROWS: what follows the name, up to `end` */
    const char *end;
    bool ignore, replace; /* INSERT IGNORE; REPLACE */
    bool truncate;        /* TRUNCATE, not DELETE */
    bool view, trigger;   /* FOREIGN_CODE: what it creates */
};

/* How this server reads the text: sql_mode ANSI_QUOTES, and its version, for version comments. */
struct foreign_reading {
    bool ansi_quotes, plain_strings;
    struct server_version server;
};

void foreign_read(const char *sql, size_t len, const struct foreign_reading *how,
                  struct foreign *out);
void foreign_free(struct foreign *f);

#endif
