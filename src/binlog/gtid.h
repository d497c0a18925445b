/* GTIDs of both servers. MariaDB counts in domains: "0-1-7,1-1-3" is the last transaction of each.
 * MySQL counts per server, and per tag of a server, in sets such as "3E11FA47-…:1-5:tag:1-9,
 * 9b1c…:1-3". Here each of these is a domain as well, whose number is a hash of it. GTIDs that are
 * not committed yet, "3E11FA47-…:6#44", may precede the set. */
#ifndef WK_BINLOG_GTID_H
#define WK_BINLOG_GTID_H

#include <stdbool.h>
#include <stdint.h>

#include "binlog/change.h"

/* Returns the domain of a MySQL GTID; `tag` is "" if there is none. */
uint32_t db_gtid_domain(const uint8_t uuid[16], const char *tag);
/* Returns the last transaction of a domain. MySQL: the one with the highest number; `server` is 0.
 * seq 0: there is none, or it cannot be determined. */
struct change_gtid db_gtid_last(const char *gtid, uint32_t domain);
/* The range of a domain's last transaction before a position: from `least` to `most` in the order
 * of the log. seq 0: there is none, or it cannot be determined. */
struct db_gtid_range {
    struct change_gtid least, most;
};
struct db_gtid_range db_gtid_range(const struct db_binlog_pos *p, uint32_t domain);

/* Returns true if two transactions are in the order of their numbers in the log of the server with
 * this uid. MariaDB: those of one server and domain. A replica writes its own transactions and
 * those of its source into one domain, and the source's keep their numbers: 0-2-1000, 0-1-51,
 * 0-2-1001. MySQL: the server's own transactions without a tag. On a replica those of its source
 * are in any order: the workers write changes of MEMORY tables as they come, because
 * replica_preserve_commit_order applies to transactions only. */
bool db_gtid_ordered(const char *uid, const struct change_gtid *a, const struct change_gtid *b);

/* Returns true if the GTIDs that MariaDB reports for a position, BINLOG_GTID_POS(), are those that
 * were read with it. More domains may be reported, because the position of a segment has only the
 * last transaction. */
bool db_gtid_confirmed(const char *reported, const struct db_binlog_pos *p);

/* Checks that a log continues from a position, and is not another one with the same file names.
 * `first`: the first transaction after the position. Servers number the transactions of a domain
 * consecutively, and a reset log starts at 1. Any other number is accepted if a MariaDB server,
 * which is queried then, reports the same GTIDs for the position. If the order of transactions is
 * meaningless, any transaction is accepted that is not known to be before the position. Succeeds if
 * there are no GTIDs. ERR_GAP: it is another log; any other error: the server could not be
 * queried. */
int log_is_continuous(const struct db_params *p, const struct db_binlog_pos *point,
                      const struct change_gtid *first, struct err *e);

#endif
