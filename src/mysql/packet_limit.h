/* Statements that exceed the server's max_allowed_packet: one decision and one error for all code
 * that sends rows or writes statements for later. A server closes the connection on such a
 * statement, so it must not be sent. Pure. */
#ifndef WK_MYSQL_PACKET_LIMIT_H
#define WK_MYSQL_PACKET_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DB_PACKET_LARGEST (1u << 30) /* of any server */
/* Reserved bytes: in a statement that is sent unchanged, in one that is assembled, and in one that
 * a dump keeps for later, when the table may have a longer name. */
#define DB_PACKET_COMMAND 2
#define DB_PACKET_SPARE 1024
#define DB_PACKET_SPARE_KEPT 2048

/* Returns how long the rows of a statement may be after its first `head` bytes. */
size_t db_packet_room(uint64_t max, size_t head, size_t spare);
/* Sets "a row of table t takes … bytes …, max_allowed_packet is …" and a hint; `what` is "a row";
 * `table` is NULL if the caller's step names it. */
int db_packet_too_long(struct err *e, const char *what, const char *table, uint64_t bytes,
                       uint64_t max);
/* Sets a hint with the setting under which statements of that size fit. */
#define DB_PACKET_UNKNOWN (1u << 29)
void db_packet_hint(struct err *e, uint64_t bytes);

#endif
