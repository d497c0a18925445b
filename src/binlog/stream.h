/* The server's binary log over the replication protocol, as raw events with their positions. The
 * client library connects, encrypts and authenticates; only event.h parses events.
 *
 * Each event is proven to start where the one before it ended, so none is missed and none comes
 * twice. Events come in groups (position.h). Row events mean nothing without the map events
 * of their group, so a reader starts at the beginning of a group, never within one.
 *
 * Errors as in conn.h; and ERR_GAP: the log cannot be read on from this position (purged, reset,
 * another server's), which no retry cures; `e->num` is the server's error number, 0 where we found
 * out. ERR_DAMAGED: what was received is not a valid log (checksum, length, position); the network
 * may have been at fault, so another try may be worth it. ERR_REFUSED: the server writes no
 * log. ERR_DENIED: `hint` is the GRANT. A binlog belongs to one thread of one process.
 *
 * A killed server leaves a partial event at the end of its file, and starts another file when it
 * comes back: reading continues there, after the last complete event.
 *
 * If the log is reset while its first file is read, the server says that it has nothing more until
 * the new file is as long as the old one, or is finished; only then ERR_GAP is returned. To find
 * out sooner compare binlog_at() with db_binlog_pos(). */
#ifndef WK_BINLOG_STREAM_H
#define WK_BINLOG_STREAM_H

#include "mysql/conn.h"
#include "binlog/position.h"

struct binlog;

struct binlog_options {
    int64_t heartbeat; /* ms of silence after which the server sends a heartbeat; after three times
                          that, but at least 3 s, without a packet ERR_STALLED */
    bool to_end;       /* ends where the log ends now instead of waiting for more */
    uint32_t created_at; /* of the file when it was read before, 0: unknown. It distinguishes the
                            files of a reset log, which have the same names */
};

/* Reads from `from` on (file and pos, the beginning of an event; 4 is a file's first). Uses a
 * server id that no other reader of this server has. What `p` points to must outlive it. */
struct binlog *binlog_open(const struct db_params *p, const struct db_binlog_pos *from,
                           const struct binlog_options *o, struct err *e);
/* 1: an event, in `out` until the next call; artificial rotations, format descriptions and
 * heartbeats are among them. 0: the end (to_end). -1: the connection is closed. */
int binlog_next(struct binlog *b, struct event *out, struct err *e);
/* The file of the last event, the position after it, and its group. */
const struct binlog_position *binlog_at(const struct binlog *b);
/* When a file was created that is not being read; 0: unknown. */
uint32_t binlog_file_created_at(const struct db_params *p, const char *file);
void binlog_close(struct binlog *b);

/* Can the changes of this schema be read? What a journal needs of the server and of the account, in
 * the order in which an admin would look: `reason` is NULL, or the first reason why not as a
 * sentence (malloc), with the way out in `hint` (malloc). Returns -1 when it could not be asked.
 *
 * Most reasons show in the log itself, at the first change that cannot be read. Those that do not
 * are `silent`: a log written that way may lack changes, and nothing in it says which. They are
 * checked before the others.
 *
 * What no query finds out: open sessions keep the binlog_format and binlog_row_image that they
 * began with, and may switch the log off for themselves. */
enum binlog_silence {
    BINLOG_SPEAKS,
    BINLOG_FILTERED, /* while the server runs: what it wrote before its start may be complete */
    BINLOG_FED,      /* a replica that does not log what its source sends, since an unknown time */
};
struct binlog_prerequisites {
    char *reason, *hint;
    enum binlog_silence silent;
};
int binlog_prerequisites(struct db *db, const char *schema, struct binlog_prerequisites *out,
                         struct err *e);
/* The same for a reader of what was logged already: if it cannot be asked, the log counts as one
 * that may lack anything. -1 only where the server does not answer. */
int binlog_judge(struct db *db, const char *schema, struct binlog_prerequisites *out,
                 struct err *e);
void binlog_prerequisites_free(struct binlog_prerequisites *a);

#endif
