/* Finds the rows that are old enough to be rolled up, and writes the marker rows that show it. */
#ifndef WK_LEDGER_AGE_H
#define WK_LEDGER_AGE_H

#include "ledger/ledger.h"

struct run;

/* Appends a time as SQL, in the terms of the time column: a column without a time zone has that of
 * the server. */
void ledger_sql_moment(struct buf *b, const struct ledger *l, int64_t ms);
/* Finds the last id that is old enough; InnoDB: and the newest time. */
int ledger_find_end(struct run *r, struct err *e);
/* Returns the maximum interval of runs, in ms, so that rows are rolled up at their age. */
int64_t ledger_mark_step(const struct config_ledger *cfg);
/* Records which ids exist now, so that a later run knows which rows are old. */
int ledger_mark(struct db *db, struct ledger *l, struct err *e);

#endif
