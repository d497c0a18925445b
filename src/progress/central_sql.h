/* The schema of the central store: central.sql, as it stands. Its header comment says what the routines promise. */
#ifndef WK_PROGRESS_CENTRAL_SQL_H
#define WK_PROGRESS_CENTRAL_SQL_H

extern const char progress_central_sql[];

#endif
