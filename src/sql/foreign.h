/* What one statement of another tool's file is: the files of mysqldump, mariadb-dump, mydumper, phpMyAdmin, HeidiSQL,
 * Adminer and SQLyog. The grammar is written down in worldkeeper(8), FILES OF OTHER TOOLS; every other statement is
 * FOREIGN_REFUSED. Version comments are read as this server reads them. Pure.
 *
 * Only the head of a statement is read here: definitions are read by sql/table.h, rows by sql/insert.h, code by
 * sql/definition.h. */
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

/* How this server reads the text: sql_mode ANSI_QUOTES, and its version for version comments. */
struct foreign_reading {
    bool ansi_quotes, plain_strings;
    struct server_version server;
};

void foreign_read(const char *sql, size_t len, const struct foreign_reading *how,
                  struct foreign *out);
void foreign_free(struct foreign *f);

/* ---- SET ---- */

/* What a file's SET statements make of its session, as far as rows and definitions depend on it: the values that apply
 * to the next statement, and those of a new session, for DEFAULT. */
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
        int setting;    /* -1: none of these; its value is not known */
        char value[512];
    } * saved;
    size_t saved_count;
    bool any;         /* a setting was made that a file's header makes */
    bool definitions; /* mysqldump's way to set the character set of definitions was seen */
};
/* `names`, `mode`, `zone`: those of a new session. */
void foreign_session_begin(struct foreign_session *s, const char *names, const char *mode,
                           const char *zone);
/* What a SET does beside changing `session`. */
struct foreign_set {
    bool saves;    /* a variable of the session into @OLD_… */
    bool restores; /* one from there */
    char what[80]; /* refused: the name of what is set */
};
/* False: it sets something that is not in the grammar; `session` may have changed then. */
bool foreign_set(struct foreign_session *session, const char *sql, size_t len,
                 const struct foreign_reading *how, struct foreign_set *out);
void foreign_session_free(struct foreign_session *s);
/* Is the mode in the list? */
bool foreign_has_mode(const char *modes, const char *mode);
/* The modes of the list that decide what values and definitions mean; quotes and escapes are read and written here,
 * so those modes are left out. False: there is one under which definitions are written in another language. Appended to
 * `out`, which is then at least "". */
bool foreign_modes(const char *modes, struct buf *out);

#endif
