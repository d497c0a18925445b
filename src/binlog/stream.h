/* Reads the server's binary log over the replication protocol, as raw events with their positions.
 * The client library connects, encrypts and authenticates; only event.h parses events.
 *
 * Each event is checked to start where the previous one ended, so none is missed and none comes
 * twice. Row events need the map events of their transaction (position.h), so a reader starts at
 * the beginning of a transaction.
 *
 * Errors as in conn.h, and:
 * - ERR_GAP: the log cannot be read on from this position (purged, reset, another server's), and a
 *   retry cannot help; `e->num` is the server's error number, or 0 if we detected it.
 * - ERR_DAMAGED: the received data is not a valid log (checksum, length, position). The network may
 *   have caused it, so a retry may help.
 * - ERR_REFUSED: the server writes no log.
 * - ERR_DENIED: `hint` is the GRANT.
 *
 * A binlog belongs to one thread of one process.
 *
 * A killed server leaves a partial event at the end of its file and starts another file when it
 * returns: reading continues there, after the last complete event.
 *
 * If the log is reset while its first file is read, the server reports no more events until the new
 * file is as long as the old one, or is finished; only then is ERR_GAP returned. To find out
 * sooner, compare binlog_at() with db_binlog_pos(). */
#ifndef WK_BINLOG_STREAM_H
#define WK_BINLOG_STREAM_H

#include "binlog/position.h"
#include "mysql/conn.h"

struct binlog;

struct binlog_options {
    /* ms of silence after which the server sends a heartbeat. Silence for three times that, but at
     * least 3 s, is ERR_STALLED */
    int64_t heartbeat;
    bool to_end; /* stop at the current end of the log instead of waiting for more */
    /* creation time of the file when it was read before, 0: unknown. It tells the files of a reset
     * log apart, which have the same names */
    uint32_t created_at;
};

/* Reads from `from` on (file and pos of the beginning of an event; a file's first is 4). Uses a
 * server id that no other reader of this server has. The data that `p` points to must outlive
 * it. */
struct binlog *binlog_open(const struct db_params *p, const struct db_binlog_pos *from,
                           const struct binlog_options *o, struct err *e);
/* Returns 1 with an event in `out`, valid until the next call, including artificial rotations,
 * format descriptions and heartbeats; 0 at the end (to_end); or -1: the connection is closed. */
int binlog_next(struct binlog *b, struct event *out, struct err *e);
/* Returns the file of the last event, the position after it, and its transaction. */
const struct binlog_position *binlog_at(const struct binlog *b);
/* Returns when a file was created that is not being read; 0: unknown. */
uint32_t binlog_file_created_at(const struct db_params *p, const char *file);
void binlog_close(struct binlog *b);

#endif
