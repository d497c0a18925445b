/* Which server process is behind a connection. Plain data. */
#ifndef WK_DB_SERVER_H
#define WK_DB_SERVER_H

#include <stdint.h>

/* Start: the server's own start time, seconds since 1970 by its clock. Constant for one process,
 * whatever the clocks do later: UNIX_TIMESTAMP() minus Uptime of one statement, both counted from
 * the statement's own time. */
struct server_id {
    int64_t start;
    char uid[64]; /* @@server_uid / @@server_uuid, "" where the server has none */
    char hostname[256];
    char datadir[512];
    char version[128];
};

#endif
