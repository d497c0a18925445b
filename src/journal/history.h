/* Does a log go on where a point was, or is it another one with the same names? */
#ifndef WK_JOURNAL_HISTORY_H
#define WK_JOURNAL_HISTORY_H

#include "journal/change.h"

/* `first`: the first group behind the point. MariaDB numbers the groups of a domain one by one, and
 * a log that was begun anew starts at 1. A jump is believed when the server itself tells the same
 * numbers for the point. True also where there are no numbers. ERR_GAP. */
int history_goes_on(const struct db_params *p, const struct db_point *point,
                    const struct change_gtid *first, struct err *e);

#endif
