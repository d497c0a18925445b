/* GTIDs of both servers. MariaDB counts in domains: "0-1-7,1-1-3" is the last group of each. MySQL
 * counts for each server, and for each tag of one: a set as "3E11FA47-…:1-5:tag:1-9, 9b1c…:1-3".
 * Here each of these is a domain as well, whose number is a hash of it. GTIDs that are not
 * committed yet, "3E11FA47-…:6#44", may precede the set. */
#ifndef WK_BINLOG_GTID_H
#define WK_BINLOG_GTID_H

#include <stdbool.h>
#include <stdint.h>

#include "binlog/change.h"

/* The domain of MySQL's; `tag` "" where there is none. */
uint32_t db_gtid_domain(const uint8_t uuid[16], const char *tag);
/* The highest number of a domain's groups; 0: there is none, or it cannot be determined. */
uint64_t db_gtid_seq(const char *gtid, uint32_t domain);
/* The last group before a position has one of these numbers; `least` 0 as above. */
struct db_gtid_range {
    uint64_t least, most;
};
struct db_gtid_range db_gtid_range(const struct db_binlog_pos *p, uint32_t domain);

/* Are a domain's groups in the order of their numbers, in the log of the server with this uid? On a
 * MySQL those of its source are not: a replica's workers write changes of MEMORY tables as they come
 * to them, since replica_preserve_commit_order holds for transactions only. */
bool db_gtid_ordered(const char *uid, uint32_t domain);

/* Does a log continue from a position, or is it another one with the same file names? `first`: the
 * first group after it. Servers number the groups of a domain consecutively, and a log that was
 * reset starts at 1. A jump is accepted when a MariaDB itself, which is asked then, reports the
 * same GTIDs for the position; of groups whose order says nothing, any that is not known to be
 * before the position. True also where there are no GTIDs. ERR_GAP: it is another one; any other
 * error: the server could not be asked. */
int log_is_continuous(const struct db_params *p, const struct db_binlog_pos *point,
                      const struct change_gtid *first, struct err *e);

#endif
