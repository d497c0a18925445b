/* The schema of the central store: the text of central.sql. Its header comment documents the
 * routines. */
#ifndef WK_PROGRESS_CENTRAL_SQL_H
#define WK_PROGRESS_CENTRAL_SQL_H

extern const char progress_central_sql[];

#endif
