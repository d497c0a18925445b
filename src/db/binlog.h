/* The server's binary log over the replication protocol, as raw events with their places. The
 * client library connects, encrypts and authenticates; events are read by event.h alone.
 *
 * Each event is proven to lie where the one before it ended, so none is left out and none comes
 * twice. Events come in groups, one for each transaction (or statement, where there are none);
 * only a whole group is a change that happened. Row events mean nothing without the map events of
 * their group, so a reader begins at the beginning of a group, never within one.
 *
 * Errors as in conn.h; and ERR_GAP: the log cannot be read on from this place (purged, reset,
 * another server's), which no retry mends; `e->num` is the server's number, 0 where we found out.
 * ERR_DAMAGED: what came is no log (checksum, length, place); the wire may have been at fault, so
 * one binlog_again() is worth a try. ERR_REFUSED: the server does not write a log. ERR_DENIED:
 * `hint` is the GRANT. A binlog belongs to one thread of one process.
 *
 * A killed server leaves half an event at the end of its file, and begins another one when it comes
 * back: reading goes on there, behind the last whole event.
 *
 * A log that is reset while its first file is read: the server says that it has nothing more until
 * the new file is as long as the old one, or is ended; only then comes ERR_GAP. Who wants to know
 * sooner compares binlog_file() with db_point(). */
#ifndef WK_DB_BINLOG_H
#define WK_DB_BINLOG_H

#include "db/conn.h"
#include "db/event.h"
#include "db/query.h"

struct binlog;

struct binlog_options {
    int64_t heartbeat; /* ms of silence after which the server says that it has nothing; three times
                          that, but at least 3 s, without a word is ERR_STALLED */
    bool to_end;       /* ends where the log ends now, instead of waiting for more */
    uint32_t born;     /* binlog_born() of the file when it was read before, 0: not known. A reset
                          log has files of the same names: those are told apart by it */
};

/* From `from` (file and pos, the beginning of an event; 4 is a file's first) on. Takes a server id
 * that no other reader of this server has. */
struct binlog *binlog_open(const struct db_params *p, const struct db_point *from,
                           const struct binlog_options *o, struct err *e);
/* 1: an event, in `out` until the next call; made-up rotations, formats and heartbeats are among
 * them. 0: the end (to_end). -1: the connection is closed. */
int binlog_next(struct binlog *b, struct event *out, struct err *e);
/* Connects again after -1, also when this failed before. 0: goes on behind the event given out
 * last. 1: that one was within a group, which comes again from its beginning: what is known of it
 * must be forgotten. -1. */
int binlog_again(struct binlog *b, struct err *e);
/* The bytes of the event given out last; NULL after an error. */
const char *binlog_bytes(const struct binlog *b, size_t *len);
/* The file that the last event is in and the place behind it; its text lives until the next call.
 */
const char *binlog_file(const struct binlog *b, uint64_t *pos);
/* The same, but within a group the place where that group begins: where a reader has to begin to
 * miss nothing that was not given out as a whole. */
const char *binlog_group(const struct binlog *b, uint64_t *pos);
/* What the event given out last is to its group. BEGINS while another group has not ended, or a
 * format description within a group: that group was cut off by a crash and did not happen. */
enum binlog_part {
    BINLOG_OUTSIDE, /* no part of one; what was made up is always outside and changes nothing */
    BINLOG_BEGINS,
    BINLOG_WITHIN,
    BINLOG_ENDS, /* a group of a single event too */
};
enum binlog_part binlog_part(const struct binlog *b);
/* When the file was begun, by its format description (seconds since 1970); 0: that did not come
 * yet. */
uint32_t binlog_born(const struct binlog *b);
/* The same of a file that nobody reads; 0: not to be had. */
uint32_t binlog_birth(const struct db_params *p, const char *file);
const struct event_format *binlog_format(const struct binlog *b);
void binlog_close(struct binlog *b);

/* Can the changes of this schema be read? What a journal needs of the server and of the account, in
 * the order in which an admin would look: `reason` is NULL, or the first reason why not as a
 * sentence (malloc), with the way out in `hint` (malloc). Returns -1 when it could not be asked.
 *
 * What no question finds out: sessions that are open keep the binlog_format and binlog_row_image
 * that they began with, and may turn the log off for themselves. */
struct binlog_ability {
    char *reason, *hint;
};
int binlog_ability(struct db *db, const char *schema, struct binlog_ability *out, struct err *e);
void binlog_ability_free(struct binlog_ability *a);

#endif
