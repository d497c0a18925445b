/* The position of a reader of the binary log: each event must begin where the previous one ended.
 *
 * Also transactions (in the code: groups): which event begins one, which ends it, and which shows
 * that it was cut off. A statement outside of a transaction counts as one; only a complete
 * transaction has happened. Only this file decides that; all other code gets it as CHANGE_BEGIN,
 * CHANGE_END and CHANGE_CUT (change.h).
 *
 *   MariaDB   GTID                     (TABLE_MAP ROWS…)…  QUERY COMMIT | XID | XA_PREPARE
 *             GTID standalone          QUERY (a DDL statement)
 *   MySQL     GTID QUERY BEGIN|XA START  (TABLE_MAP ROWS…)…  QUERY COMMIT | XID | XA_PREPARE
 *             GTID                     QUERY, or TRANSACTION_PAYLOAD (all of it, compressed)
 *   old ones have no GTIDs: BEGIN, or the first map of a statement, begins the transaction
 *
 * How a transaction ends does not matter to MEMORY tables, whose changes stay after a ROLLBACK. For
 * other tables held.h decides.
 *
 * Transactions are not collected in memory and have no size limit. Consumers get their changes as
 * they are read, and undo them when a transaction turns out not to count (a segment is truncated, a
 * replay reads again without it). A replay must be able to do that anyway, for a change that
 * contradicts the rows. Pure. */
#ifndef WK_BINLOG_POSITION_H
#define WK_BINLOG_POSITION_H

#include "binlog/event.h"
#include "mysql/server.h"

#define BINLOG_FIRST 4u /* offset of a file's first event, after its magic number */

/* How the last event relates to its transaction. */
enum transaction_part {
    TRANSACTION_OUTSIDE, /* outside of any */
    TRANSACTION_BEGINS,
    TRANSACTION_WITHIN,
    TRANSACTION_ENDS,
    TRANSACTION_SINGLE, /* a whole transaction by itself */
};
struct transaction {
    bool open;
    bool statement; /* of an open transaction: it ends with its statement, no COMMIT follows */
    /* the last event shows that the previous transaction was cut off by a crash and did not
     * happen */
    bool cut;
    enum transaction_part part;
    uint64_t begins; /* offset of its first event; transactions do not cross files */
};

/* Whether the file continues after the last event. The position alone does not tell. */
enum position_end { POSITION_UNKNOWN, POSITION_GOES_ON, POSITION_ENDED };
struct binlog_position {
    char file[256];
    uint64_t pos;        /* after the last event */
    uint32_t created_at; /* creation time of the file (seconds since 1970); 0: not received yet */
    bool confirmed;      /* the server confirmed that it sends from here */
    enum position_end end;
    bool cut_off; /* the previous file was not finished */
    /* The previous file ended in the middle of an event in a way that a killed server cannot cause.
     * Servers write whole blocks: more was written after such a partial event, and it cannot be
     * read. The cause is a statement that did not fit into the server's cache. Valid up to this
     * file's head. */
    bool broke_off;
    struct transaction group; /* how the last event relates to its transaction */
};
/* Sets the position. `p` must be initialized, with zeros at first: a transaction that is open there
 * is cut off. */
void binlog_position_set(struct binlog_position *p, const char *file, uint64_t pos,
                         uint32_t created_at);
/* Advances past this event. ERR_DAMAGED: it does not start here; ERR_GAP: it is in another log. `p`
 * is unchanged on error. */
int binlog_position_step(struct binlog_position *p, const struct event *ev, struct err *e);
/* Returns true if the position is at or after `end`. */
bool binlog_position_reached(const struct binlog_position *p, const struct db_binlog_pos *end);

#endif
