/* Where a reader of the binary log is: each event must begin where the one before it ended.
 *
 * Groups of events: which event begins one, which ends it, which shows that it was cut off. A group
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
#ifndef WK_BINLOG_POSITION_H
#define WK_BINLOG_POSITION_H

#include "binlog/event.h"
#include "mysql/server.h"

#define BINLOG_FIRST 4u /* offset of a file's first event, after its magic number */

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

/* Does the file continue after the last event? The position alone does not say. */
enum position_end { POSITION_UNKNOWN, POSITION_GOES_ON, POSITION_ENDED };
struct binlog_position {
    char file[256];
    uint64_t pos;        /* after the last event */
    uint32_t created_at; /* of the file (seconds since 1970); 0: not received yet */
    bool confirmed;      /* the server confirmed that it sends from here */
    enum position_end end;
    bool cut_off; /* the previous file was not finished */
    /* The file before this one, up to this one's head: it ended in the middle of an event in a way in which no
     * killed server leaves it. Servers write whole blocks: more was written after such a partial event, and cannot
     * be read. A statement that did not fit into the server's cache causes that. */
    bool broke_off;
    struct transaction group; /* what the last event was to its group */
};
/* Initialized before, with zeros at first: a group that is open there is cut off. */
void binlog_position_set(struct binlog_position *p, const char *file, uint64_t pos,
                         uint32_t created_at);
/* Advances past this event. ERR_DAMAGED: it does not start here; ERR_GAP: it is in another log.
 * Then `p` is unchanged. */
int binlog_position_step(struct binlog_position *p, const struct event *ev, struct err *e);
/* Is it at or after this position? */
bool binlog_position_reached(const struct binlog_position *p, const struct db_binlog_pos *end);

#endif
