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

/* ---- SET ---- */

/* The session settings that a file's SET statements change, as far as rows and definitions depend
 * on them: the values for the next statement, and those of a new session, for DEFAULT. */
enum foreign_setting {
    FOREIGN_NAMES,  /* the character set of the text */
    FOREIGN_MODE,   /* sql_mode, in upper case */
    FOREIGN_ZONE,   /* time_zone */
    FOREIGN_CHECKS, /* check_constraint_checks: "0" or "1" */
    FOREIGN_SETTINGS
};
struct foreign_session {
    char now[FOREIGN_SETTINGS][512], start[FOREIGN_SETTINGS][512];
    struct foreign_saved {
        char *variable; /* without @ */
        int setting;    /* -1: not one of these settings; its value is not tracked */
        char value[512];
    } * saved;
    size_t saved_count;
    bool any;         /* true after a SET that a file's header usually contains */
    bool definitions; /* true after mysqldump's SET for the character set of definitions */
};
/* Initializes it with the `names`, `mode` and `zone` of a new session. */
void foreign_session_begin(struct foreign_session *s, const char *names, const char *mode,
                           const char *zone);
/* The effects of a SET besides changing `session`. */
struct foreign_set {
    bool saves;    /* saves a session variable in @OLD_… */
    bool restores; /* restores one from @OLD_… */
    char what[80]; /* if refused: the name of the variable */
};
/* Applies a SET to `session`. Returns false if it sets something outside the grammar; `session` may
 * have changed then. */
bool foreign_set(struct foreign_session *session, const char *sql, size_t len,
                 const struct foreign_reading *how, struct foreign_set *out);
void foreign_session_free(struct foreign_session *s);
/* Returns true if the list contains the mode. */
bool foreign_has_mode(const char *modes, const char *mode);
/* Appends those modes of the list that determine the meaning of values and definitions. Modes about
 * quotes and escapes are omitted, because quoting is done here. Returns false for a mode that
 * changes the language of definitions. `out` becomes at least "". */
bool foreign_modes(const char *modes, struct buf *out);

#endif
