/* Numbers of groups in the binary log, of both servers. MariaDB counts in domains: "0-1-7,1-1-3" is
 * the last group of each. MySQL counts for each server, and for each tag of one: a set as
 * "3E11FA47-…:1-5:tag:1-9, 9b1c…:1-3". Here each of these is a domain as well, whose number is made
 * of it. Those that are still on their way, "3E11FA47-…:6#44", may stand before the set. Pure. */
#ifndef WK_DB_GTID_H
#define WK_DB_GTID_H

#include <stdint.h>

#include "db/query.h"

/* Of MySQL; `tag` "" where there is none. */
uint32_t db_gtid_domain(const uint8_t uuid[16], const char *tag);
/* Up to which number a domain's groups were written; 0: there is none, or this cannot be said. */
uint64_t db_gtid_seq(const char *gtid, uint32_t domain);
/* The number that the last group before a place has is one of these; `least` 0 as above. */
struct db_gtid_range {
    uint64_t least, most;
};
struct db_gtid_range db_gtid_range(const struct db_point *p, uint32_t domain);

#endif
