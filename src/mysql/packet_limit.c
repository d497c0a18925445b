#include "mysql/packet_limit.h"

#include <inttypes.h>

#include "base/number.h"

#define USUAL (16u << 20) /* MariaDB's default; a smaller value saves nothing */

size_t db_packet_room(uint64_t max, size_t head, size_t spare)
{
    return max > head + spare ? (size_t)max - head - spare : 0;
}

void db_packet_hint(struct err *e, uint64_t bytes)
{
    /* Rows grow, so a value that just fits would soon be too small. */
    uint64_t value =
        number_doubled(USUAL, number_sum(bytes, 2 * DB_PACKET_SPARE_KEPT), DB_PACKET_LARGEST);
    if (number_sum(bytes, DB_PACKET_SPARE) < value)
        err_hint(e,
                 "SET GLOBAL max_allowed_packet=%" PRIu64 " on the server, and "
                 "max_allowed_packet=%" PRIu64 "M below [mysqld] in its config file, or it is "
                 "gone with the next restart",
                 value, value >> 20);
    else
        err_hint(e, "servers accept statements up to 1 GiB: shorten that row, or do not dump the "
                    "table ([dump] engines = memory)");
}

int db_packet_too_long(struct err *e, const char *what, const char *table, uint64_t bytes,
                       uint64_t max)
{
    err_set(e, ERR_QUERY, 0,
            "%s%s%s takes %" PRIu64 " bytes in a packet, but max_allowed_packet is %" PRIu64, what,
            table ? " of table " : "", table ? table : "", bytes, max);
    db_packet_hint(e, bytes);
    return -1;
}
