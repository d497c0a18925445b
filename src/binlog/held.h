/* Holds back the changes of carried tables (mysql/world_tables.h) within a transaction. A ROLLBACK
 * undoes them, unlike changes of MEMORY tables, so whether they happened is known only when their
 * transaction ends:
 *
 *   COMMIT                    they happened
 *   ROLLBACK                  they did not happen
 *   ROLLBACK TO savepoint     those after the savepoint did not happen. If the log has several
 *                             savepoints of this name or none, it is not certain which these are
 *   XA PREPARE                they did not happen yet. A later XA COMMIT, perhaps of another
 *                             session and in another file, makes them happen without showing
 *                             them. So the XIDs of prepared transactions without such changes are
 *                             remembered, and each other XA COMMIT is a gap
 *
 * Memory is bounded: the changes of a larger transaction are passed on as they are read, and become
 * a gap if they are undone. Pure. One thread. */
#ifndef WK_BINLOG_HELD_H
#define WK_BINLOG_HELD_H

#include "binlog/change.h"

struct held;

struct held *held_new(void);
void held_free(struct held *h);

/* Begins a transaction; the changes of the previous one are dropped. */
void held_begin(struct held *h);
/* Records that the transaction has a change of a carried table. */
void held_note(struct held *h);
/* Holds a change, with copies of its texts. Returns false if its transaction is too large: then the
 * caller reports all held changes and this one. */
bool held_add(struct held *h, const struct change *c);
/* Sets `c` to the change number `i`. Returns false if there are fewer. */
bool held_get(const struct held *h, size_t i, struct change *c);
/* Drops the held changes after they were passed on. */
void held_drop(struct held *h);
/* Takes a statement that decides on changes. Returns true if it is the XA COMMIT of a transaction
 * that may have changed carried tables. */
bool held_edge(struct held *h, const struct statement *st);
/* Records that the transaction ends with XA PREPARE; a later XA statement decides on its changes.
 * `read`: its rows were read. */
void held_prepare(struct held *h, bool read);

/* What becomes of the held changes at the end of the transaction. */
enum held_end {
    HELD_HAPPENED,
    HELD_UNDONE,
    HELD_UNCERTAIN, /* it is not known which of them happened, or undone ones were passed on */
};
enum held_end held_end(const struct held *h);

#endif
