/* Parses events of the binary log (version 4): what MariaDB 10 and 11 and MySQL 5.7 to 9 write,
 * each with what a follower of row changes needs of it. Pure: no server, no allocation; a struct
 * event points into the bytes that it was read from.
 *
 * Nothing in the bytes is trusted: lengths and counts are checked, a malformed event is ERR_DAMAGED
 * with its type and position. Data compressed by MariaDB is unpacked only by event_unpack().
 * Sources: MariaDB's "Replication protocol" documentation, MySQL's "Binary log event" internals
 * documentation. Any thread. */
#ifndef WK_BINLOG_EVENT_H
#define WK_BINLOG_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

#define EVENT_HEADER 19u /* bytes of the common header */
#define EVENT_TYPES 256u
/* Flag of a statement that only has a meaning in its own session: it may concern a temporary table,
 * or followed such a statement in a procedure. */
#define EVENT_OF_SESSION 0x04u

enum event_kind {
    EVENT_SKIPPED,    /* irrelevant to row changes: annotations, user variables … */
    EVENT_FORMAT,     /* describes all that follow; the first of each file */
    EVENT_ROTATE,     /* the next event is in another file */
    EVENT_STOP,       /* the server was shut down in order */
    EVENT_GTID,       /* begins a group */
    EVENT_QUERY,      /* a statement: BEGIN, COMMIT, DDL, or a change logged as SQL */
    EVENT_XID,        /* ends a group; so does an XA PREPARE, after which a MEMORY table's rows are
                         changed as after a COMMIT */
    EVENT_MAP,        /* a table that the following row events belong to */
    EVENT_ROWS,       /* changed rows */
    EVENT_HEARTBEAT,  /* nothing happened */
    EVENT_UNREADABLE, /* changes that this program cannot read: loads of files, transactions
                         compressed by MySQL … */
    EVENT_LOST,       /* the server reports that changes are missing (incident) */
};

/* What a format description says about the events after it. */
struct event_format {
    uint8_t post[EVENT_TYPES]; /* bytes of the fixed part after the common header, by type */
    bool checksum;             /* each event ends in a CRC32 of four bytes */
    uint32_t created;          /* not 0: the server was started with this file */
};

/* GTID of either server. MariaDB: domain-server-seq, where server is the event's server id. */
struct event_gtid {
    bool mariadb;
    uint32_t domain;
    uint8_t uuid[16]; /* MySQL: its SID, and `seq` is the GNO; all zero: anonymous */
    char tag[33];     /* MySQL from 8.3 on: UUID:tag:GNO; "" without one */
    uint64_t seq;
    bool standalone; /* MariaDB: the group is one statement, without BEGIN and COMMIT */
};

struct event_map {
    uint64_t table_id;
    const char *schema, *table; /* NUL-terminated */
    size_t columns;
    const uint8_t *types; /* one for each column */
    const uint8_t *meta;  /* as many bytes as the types ask for */
    size_t meta_len;
    const uint8_t *extra; /* what binlog_row_metadata adds: signedness, names … */
    size_t extra_len;
};

struct event_rows {
    enum event_op { EVENT_INSERT, EVENT_UPDATE, EVENT_DELETE } op;
    uint64_t table_id;
    bool ends; /* the statement's last one: maps become invalid */
    size_t columns;
    const uint8_t *present, *present_after; /* bit sets of the columns in the images; _after: of an
                                               update's second image, else NULL */
    bool options;                           /* each second image is preceded by MySQL's options */
    const char *data;                       /* the images, one after the other */
    size_t len;
};

struct event {
    enum event_kind kind;
    unsigned type;    /* as it is in the log */
    const char *name; /* of the type, for messages */
    uint32_t at;      /* seconds since 1970; 0: artificial, sent but not part of the log */
    uint32_t server_id;
    uint32_t next; /* position after it in its file, modulo 2^32; 0: not part of the file */
    uint32_t size; /* bytes in the file, */
    const char *bytes;
    unsigned flags;
    bool packed;       /* query.sql or rows.data is compressed, */
    size_t packed_len; /* to so many bytes, it claims */
    union {
        struct event_format format;
        struct {
            char file[256];
            uint64_t pos;
        } rotate;
        struct event_gtid gtid;
        struct {
            const char *schema; /* default schema, NUL-terminated */
            const char *sql;    /* not terminated */
            size_t len;
        } query;
        struct event_map map;
        struct event_rows rows;
    };
};

/* The format assumed before the first format description. */
struct event_format event_format_first(bool checksum);
/* One complete event, including its checksum, which is verified where `f` says there is one (a
 * format description is verified by what it says itself). The caller keeps `out->format` for the
 * events that follow. A row event without rows, which only ends a statement, is EVENT_SKIPPED. */
int event_read(const struct event_format *f, const char *bytes, size_t len, struct event *out,
               struct err *e);
/* Unpacks compressed data into `plain`, which the event points into from then on; before that
 * compressed rows and statements cannot be used. A claimed length that zlib cannot reach is refused
 * before anything is allocated. */
int event_unpack(struct event *ev, struct buf *plain, struct err *e);

#endif
