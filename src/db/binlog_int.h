/* What the files of the binlog reader share. Nobody else includes it. */
#ifndef WK_DB_BINLOG_INT_H
#define WK_DB_BINLOG_INT_H

#include "db/binlog.h"
#include "db/conn_int.h"

#define BINLOG_FIRST 4u /* place of a file's first event, behind its magic number */

/* binlog_wire.c: a session that the server sends its log on, packet by packet. */

struct binlog_ask {
    const char *file;
    uint32_t pos; /* the protocol has no more */
    uint32_t id;  /* server id to go by */
    int64_t heartbeat;
    bool to_end;
};
struct binlog_wire {
    struct db *db;         /* NULL: closed */
    bool checksum;         /* of events that come before the first format description */
    bool same_id;          /* it ended because another reader came with our id */
    bool half;             /* it ended at an event that the file has only a part of */
    struct db_point until; /* to_end: where the log ended before reading began, if we may know */
    uint64_t packets;
    mono_t began; /* waiting for a packet */
    struct client_log log;
};
/* Leaves it closed after an error. */
int binlog_wire_open(struct binlog_wire *w, const struct db_params *p, const struct binlog_ask *ask,
                     struct err *e);
/* 1: an event's bytes, until the next call. 0: the server says that this is all. -1. */
int binlog_wire_next(struct binlog_wire *w, const char **bytes, size_t *len, struct err *e);
void binlog_wire_close(struct binlog_wire *w);
/* What the server's list of its files says, asked on a connection of its own. 1; 0: the file is not
 * in it, or the last one; -1. */
struct binlog_after {
    uint64_t size;  /* of the file */
    char file[256]; /* the one behind it */
};
int binlog_wire_after(const struct db_params *p, const char *file, struct binlog_after *out,
                      struct err *e);

/* binlog_place.c: where in the log the events are, and what they are to their groups. Pure. */

enum place_group { PLACE_BETWEEN, PLACE_STATEMENT, PLACE_TRANSACTION };
/* Does the file go on behind the last event? A place alone does not tell. */
enum place_end { PLACE_UNKNOWN, PLACE_GOES_ON, PLACE_ENDED };
struct binlog_place {
    char file[256];
    uint64_t pos;   /* behind the last event */
    uint32_t born;  /* of the file; 0: not known */
    bool confirmed; /* the server said that it sends from here */
    enum place_end end;
    bool cut_off; /* the file before it had not ended */
    enum place_group group;
    uint64_t group_pos; /* its beginning */
    enum binlog_part part;
};
void binlog_place_set(struct binlog_place *p, const char *file, uint64_t pos, uint32_t born);
/* Takes the place behind this event. ERR_DAMAGED: it does not lie here; ERR_GAP: it is in another
 * log. Then `p` stays as it was. */
int binlog_place_step(struct binlog_place *p, const struct event *ev, struct err *e);
/* Is it at or behind this point? */
bool binlog_place_reached(const struct binlog_place *p, const struct db_point *end);

#endif
