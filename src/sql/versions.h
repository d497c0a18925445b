/* The supported server versions, and how each names the statements and variables that worldkeeper
 * uses. Only this file and sql/privileges.h decide by version. Taken from the vendors' manuals, and
 * tested on the versions that are SERVER_TESTED. Pure. */
#ifndef WK_SQL_VERSIONS_H
#define WK_SQL_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>

struct server_version {
    bool mariadb;
    unsigned number; /* 101119 is 10.11.19; SERVER_UNKNOWN counts as newer than all */
};
#define SERVER_UNKNOWN 9999999u
#define SERVER_VERSION(major, minor, patch) (10000u * (major) + 100u * (minor) + (patch))

/* Parses the version that the server reports: "10.11.19-MariaDB-log", "8.4.6". */
struct server_version server_version_of(const char *reported);

/* ---- which versions are supported ---- */

enum server_support {
    SERVER_TESTED,     /* the tests run on this series */
    SERVER_DOCUMENTED, /* its manual documents everything that is used */
    SERVER_NEWER,      /* newer than the known series */
    SERVER_TOO_OLD,
};
enum server_support server_support(struct server_version v);

/* Returns the rows of the table, oldest first for each vendor, for documents and their tests; NULL
 * after the last. */
struct server_series {
    bool mariadb;
    unsigned first; /* first version; the series ends at the next row's */
    const char *name;
    enum server_support support;
};
const struct server_series *server_series(size_t i);

/* ---- statements and variables ---- */

enum server_word {
    WORD_LOG_STATUS,     /* statement: file, position, filters of the binary log */
    WORD_REPLICA_STATUS, /* statement: has rows on a replica */
    WORD_REPLICAS,      /* statement: MySQL: one row per replica; MariaDB: the number of replicas */
    WORD_LOG_UPDATES,   /* variable: a replica logs what it receives */
    WORD_LOG_HELD,      /* variable: how long the log is kept, in seconds */
    WORD_LOG_HELD_DAYS, /* the same in days */
    WORD_LOG_TOTAL,     /* variable: how much of the log is kept */
    WORD_LOG_GTID,      /* variable: GTIDs in the log */
    WORD_ISOLATION,     /* variable */
    WORD_REQUIRE_KEY,   /* session variable: a table must have a primary key */
    WORD_INVISIBLE_KEY, /* session variable: a table without a key gets one */
    WORD_CHECKS,        /* session variable: CHECK constraints are enforced */
    WORD_STATISTICS_AGE, /* session variable: how old statistics may be */
    WORD_IDENTITY,       /* variable: a number that only this installation has */
    WORD_STATUS_SCHEMA,  /* schema of the table global_status */
    WORD_HANDLER,        /* statement on MEMORY tables */
    WORD_SKIP_LOCKED,    /* clause of SELECT */
    WORD_SHOWN_TRIGGERS, /* table: shows triggers to an account without the privilege TRIGGER */
    /* clause of INSERT: names the row for ON DUPLICATE KEY UPDATE; "": VALUES() does */
    WORD_NEW_ROW,
    WORD_OR_REPLACE, /* clause of CREATE PROCEDURE */
    WORD_ROLES,      /* table: which account has which role */
    WORD_OLD_MODE,   /* sql_mode that newer servers refuse */
    WORD_UPDATE_OF,  /* clause of CREATE TRIGGER: the columns whose updates fire it */
    SERVER_WORDS
};
/* Returns NULL if this version has nothing of the kind. */
const char *server_word(struct server_version v, enum server_word w);

#endif
