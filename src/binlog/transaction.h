/* Groups of events: which event begins one, which ends it, which shows that it was cut off. A group
 * is a transaction, or a statement outside of one; only a complete group is a change that happened.
 * Decided here and nowhere else; everything that follows gets it as CHANGE_BEGIN, CHANGE_END and
 * CHANGE_CUT (change.h).
 *
 *   MariaDB   GTID                     (TABLE_MAP ROWS…)…  QUERY COMMIT | XID | XA_PREPARE
 *             GTID standalone          QUERY (a DDL statement)
 *   MySQL     GTID QUERY BEGIN|XA START  (TABLE_MAP ROWS…)…  QUERY COMMIT | XID | XA_PREPARE
 *             GTID                     QUERY, or TRANSACTION_PAYLOAD (all of it, compressed)
 *   old ones have no GTIDs: BEGIN, or the first map of a statement, begins the group
 *
 * Groups are not collected in memory, and have no limit: consumers get their changes as they are
 * read, and take back what they did when a group turns out not to count (a segment is truncated, a
 * replay reads again without the group). A replay has to be able to do that in any case, for a
 * change that contradicts the rows. Pure. */
#ifndef WK_BINLOG_TRANSACTION_H
#define WK_BINLOG_TRANSACTION_H

#include "binlog/event.h"

/* What the last event was to its group. */
enum transaction_part {
    TRANSACTION_OUTSIDE, /* no part of one */
    TRANSACTION_BEGINS,
    TRANSACTION_WITHIN,
    TRANSACTION_ENDS,
    TRANSACTION_SINGLE, /* all of it */
};
struct transaction {
    bool open;
    bool statement; /* of an open one: it ends with its statement, no COMMIT follows */
    bool cut;       /* the last event shows that the group before it was cut off by a crash, and did
                       not happen */
    enum transaction_part part;
    uint64_t begins; /* offset of its first event; groups do not cross files */
};
/* `at`: the event's offset. Artificial events are not part of the log and change nothing. */
void transaction_step(struct transaction *t, const struct event *ev, uint64_t at);
/* The log continues elsewhere: an open group is cut off. */
void transaction_break(struct transaction *t);
/* Is it an event that is written within a group? */
bool transaction_holds(const struct event *ev);

#endif
