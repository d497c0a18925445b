/* Decides whether a restore may replace the existing tables. Every function returns -1 with
 * ERR_REFUSED if it may not. */
#ifndef WK_RESTORE_PERMIT_H
#define WK_RESTORE_PERMIT_H

#include "base/err.h"
#include "base/text.h"

struct restore;

/* Reads --table: "planet,`a, b`" are names separated by commas; a name with a comma is quoted by
 * backticks. ERR_USAGE. */
int restore_tables(const char *text, struct names *out, struct err *e);
/* Appends " --table planet,…" for a command to paste: the list as restore_tables() reads it, quoted
 * for the shell. */
void restore_tables_option(const struct names *tables, struct buf *out);
/* Judges the living world, before anything is changed. */
int permit_world(struct restore *r, struct err *e);
/* Takes a dump of a living world that --force replaces. */
int permit_keep(struct restore *r, struct err *e);
/* Refuses a fetched dump if rows were written into the empty world that it may replace. */
int permit_empty(struct restore *r, struct err *e);
/* Checks again right before the swap. */
int permit_swap(struct restore *r, struct err *e);
/* --table: refuses a table that is in no intact dump. */
int permit_tables_known(const struct restore *r, struct err *e);
/* --table: refuses a table that the plan made from `dump` skips or lacks. */
int permit_tables_planned(const struct restore *r, const char *dump, struct err *e);
/* --dry-run: looks for missing privileges and for settings with which the server would refuse the
 * restore. Returns -1 with the error with which the restore would fail; facts that cannot be
 * checked are not errors. */
int permit_rehearse(struct restore *r, struct err *e);

#endif
