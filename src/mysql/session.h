/* The settings of our sessions, which override the server's global values. */
#ifndef WK_MYSQL_SESSION_H
#define WK_MYSQL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"
#include "sql/versions.h"

/* As SQL text. */
#define SESSION_SQL_MODE "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
#define SESSION_TIME_ZONE "'+00:00'"
#define SESSION_LOCK_WAIT_MS INT64_C(86400000)
#define SESSION_LOCK_WAIT "86400" /* seconds */
#define SESSION_ROW_WAIT_MS INT64_C(50000)
#define SESSION_ROW_WAIT "50" /* seconds */

/* Builds statements only; conn.c sends them. */
#define SESSION_SETTINGS 64 /* at most */
/* Appends the settings from `*next` on, except those that the server is known not to have. All of
 * them are in one statement, because the server may be far away; with `small`, as many as every
 * server accepts. */
void session_statement(struct buf *b, size_t *next, bool small, bool mariadb,
                       const bool missing[SESSION_SETTINGS]);
/* Returns true after the last statement. */
bool session_ends(size_t next);
/* Records the variable that the server does not have. Returns false if the error names none of our
 * settings. */
bool session_missing(bool missing[SESSION_SETTINGS], const struct err *e);
/* Returns the i-th setting that MySQL lets only some accounts change: an expression that is true if
 * it differs, the statement that sets it, and its name in sql/versions.h. Returns false after the
 * last. */
bool session_restricted(size_t i, struct buf *differs, struct buf *set, enum server_word *word);

#endif
