/* Reads rows of a ledger in pieces, adds them to the totals of their keys, and deletes them.
 *
 * A piece of a MEMORY ledger is the next rows in the order of (key, id). All rows of a key up to
 * its rollup position are in its total, whatever happens between two statements. Before a piece,
 * the marker row 'open' stores how many rows the piece adds. After a crash, it tells the next run
 * that rows up to the rollup positions may be left over from that piece.
 *
 * A piece of an InnoDB ledger is a list of committed rows that no other session has locked, in one
 * transaction.
 *
 * Why a reader of the view never sees half a piece:
 *
 * - MEMORY: a statement locks all its tables before it reads the first one, until it ends. It sees
 *   totals before or after a piece was added. Rows that were added are not counted in the ledger,
 *   whether they are deleted or not.
 * - InnoDB: all consistent reads of a statement (READ COMMITTED) or of a transaction (REPEATABLE
 *   READ) have one read view. It has the piece's transaction in both rollup and ledger, or in
 *   neither. The order in which rows are rolled up, and the index over which they are read, do not
 *   matter. A view that does not have the transaction of a row's INSERT cannot count the row
 *   either: its deletion and its sum become visible together.
 * - A ledger in MEMORY with a durable rollup: the statement has locked the ledger before its first
 *   read of InnoDB makes the read view. A piece whose total the view does not have is committed
 *   later. Its rows are deleted after that, and the deletion waits for the lock. A view that is
 *   older than the lock, of a transaction under REPEATABLE READ, may miss rows: --check and the
 *   manual say so.
 * - Locking reads have no read view: INSERT … SELECT under REPEATABLE READ (not FOR UPDATE,
 *   which does not reach the tables below the view). They lock the total's row, or the gap where
 *   it would be, so that no piece adds to it until they have read the ledger. */
#ifndef WK_LEDGER_PIECE_H
#define WK_LEDGER_PIECE_H

#include "ledger/run_int.h"

/* Called for each row: `row` holds these fields, then the columns of `whole`. */
enum { FIELD_ID, FIELD_MARK, FIELD_FLAG, FIELD_KEY };
typedef int row_fn(struct run *r, struct piece *p, uint64_t id, uint64_t mark, char **row,
                   const unsigned long *len, struct err *e);
/* Reads the next rows after the previous piece. */
int ledger_read_piece(struct run *r, struct piece *p, row_fn *fn, struct err *e);
/* Adds and deletes all pieces, from the current one on. */
int ledger_all_pieces(struct run *r, struct err *e);
/* Continues after this piece; NULL: from the beginning. */
void ledger_next_piece(struct run *r, struct piece *p);
/* Refuses a row whose key no total can have: NULL, or none of an ENUM's values. */
int ledger_check_key(const struct run *r, uint64_t id, char **key, struct err *e);
int ledger_refuse_row(const struct run *r, uint64_t id, const char *column, const char *why,
                      struct err *e);

#endif
