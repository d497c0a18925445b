/* What the files of the binlog reader share. Not for other modules. */
#ifndef WK_BINLOG_STREAM_INT_H
#define WK_BINLOG_STREAM_INT_H

#include "binlog/stream.h"
#include "mysql/conn_int.h"

#define BINLOG_FIRST 4u /* offset of a file's first event, after its magic number */

/* wire.c: a session over which the server sends its log, packet by packet. */

struct binlog_ask {
    const char *file;
    uint32_t pos; /* the protocol has 32 bits */
    uint32_t id;  /* our server id */
    int64_t heartbeat;
    bool to_end;
};
struct binlog_wire {
    struct db *db;              /* NULL: closed */
    bool checksum;              /* of events before the first format description */
    bool half;                  /* it ended at an event that is only partly in the file */
    struct db_binlog_pos until; /* to_end: the log's end before reading began, if we may know it */
    uint64_t packets;
    mono_t began; /* when waiting for a packet began */
    struct client_log log;
};
/* After an error it is closed. */
int binlog_wire_open(struct binlog_wire *w, const struct db_params *p, const struct binlog_ask *ask,
                     struct err *e);
/* 1: an event's bytes, until the next call. 0: the server says that there are no more. -1. */
int binlog_wire_next(struct binlog_wire *w, const char **bytes, size_t *len, struct err *e);
void binlog_wire_close(struct binlog_wire *w);
/* From the server's list of its files, queried over a connection of its own. 1; 0: the file is not
 * in it, or is the last one; -1. */
struct binlog_after {
    uint64_t size;  /* of the file */
    char file[256]; /* the next one */
};
int binlog_wire_after(const struct db_params *p, const char *file, struct binlog_after *out,
                      struct err *e);

/* position.c: each event must begin where the one before it ended. Pure. */

/* Does the file continue after the last event? The position alone does not say. */
enum position_end { POSITION_UNKNOWN, POSITION_GOES_ON, POSITION_ENDED };
struct binlog_position {
    char file[256];
    uint64_t pos;        /* after the last event */
    uint32_t created_at; /* of the file; 0: not known */
    bool confirmed;      /* the server confirmed that it sends from here */
    enum position_end end;
    bool cut_off; /* the previous file was not finished */
    struct transaction group;
};
/* Initialized before, with zeros at first: a group that is open there is cut off. */
void binlog_position_set(struct binlog_position *p, const char *file, uint64_t pos,
                         uint32_t created_at);
/* Advances past this event. ERR_DAMAGED: it does not start here; ERR_GAP: it is in another log.
 * Then `p` is unchanged. */
int binlog_position_step(struct binlog_position *p, const struct event *ev, struct err *e);
/* Is it at or after this position? */
bool binlog_position_reached(const struct binlog_position *p, const struct db_binlog_pos *end);

#endif
