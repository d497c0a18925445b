/* What a session of ours is set to, whatever the server's global values are. */
#ifndef WK_MYSQL_SESSION_H
#define WK_MYSQL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"
#include "sql/versions.h"

/* As SQL. */
#define SESSION_SQL_MODE "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
#define SESSION_TIME_ZONE "'+00:00'"
#define SESSION_LOCK_WAIT "86400" /* seconds */

/* Statements only; conn.c sends them. */
#define SESSION_SETTINGS 64 /* at most */
/* The settings from `*next` on, but those that the server is known not to have: all of them in one statement, since the
 * server may be far away, or with `small` as many as each server takes. */
void session_statement(struct buf *b, size_t *next, bool small, bool mariadb,
                       const bool missing[SESSION_SETTINGS]);
/* Was that the last statement? */
bool session_ends(size_t next);
/* Notes the variable that the server does not have; false: it complains about none of ours. */
bool session_missing(bool missing[SESSION_SETTINGS], const struct err *e);
/* The i-th of those that MySQL lets only some accounts change: an expression that is true where it differs, the statement
 * that sets it, and what sql/versions.h calls it. False: there is none. */
bool session_restricted(size_t i, struct buf *differs, struct buf *set, enum server_word *word);

#endif
