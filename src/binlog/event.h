/* Parses events of the binary log (version 4) as MariaDB 10 and 11 and MySQL 5.7 to 9 write them,
 * with the data that a follower of row changes needs. Pure: no server, no allocation; a struct
 * event points into the bytes that it was read from.
 *
 * Nothing in the bytes is trusted: lengths and counts are checked, and a malformed event is
 * ERR_DAMAGED with its type and position. Data compressed by MariaDB is unpacked only by
 * event_unpack(). Sources: MariaDB's "Replication protocol" documentation, MySQL's "Binary log
 * event" internals documentation. Any thread. */
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
/* Flag of a statement that needs no default schema, such as CREATE DATABASE and COMMIT. Among
 * statements that delete rows, it marks the one by which MariaDB empties a MEMORY table after a
 * restart. */
#define EVENT_NO_SCHEMA 0x08u

enum event_kind {
    EVENT_SKIPPED, /* irrelevant to row changes: annotations, user variables … */
    EVENT_FORMAT,  /* describes all following events; the first event of each file */
    EVENT_ROTATE,  /* the next event is in another file */
    EVENT_STOP,    /* the server was shut down cleanly */
    EVENT_GTID,    /* begins a transaction */
    EVENT_QUERY,   /* a statement: BEGIN, COMMIT, DDL, or a change logged as SQL */
    /* ends a transaction; so does an XA PREPARE (`prepared`), after which the rows of a MEMORY
     * table are changed as after a COMMIT */
    EVENT_XID,
    EVENT_MAP,       /* a table that the following row events belong to */
    EVENT_ROWS,      /* changed rows */
    EVENT_HEARTBEAT, /* no data */
    /* changes that this program cannot read: loads of files, transactions compressed by MySQL, … */
    EVENT_UNREADABLE,
    EVENT_LOST, /* the server reports that changes are missing (incident) */
};

/* What a format description says about the following events. */
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
    char tag[33];     /* MySQL 8.3 and later: UUID:tag:GNO; "" without one */
    uint64_t seq;
    bool standalone; /* MariaDB: the transaction is one statement, without BEGIN and COMMIT */
};

struct event_map {
    uint64_t table_id;
    const char *schema, *table; /* NUL-terminated */
    size_t columns;
    const uint8_t *types; /* one per column */
    const uint8_t *meta;  /* as many bytes as the types require */
    size_t meta_len;
    const uint8_t *extra; /* data added by binlog_row_metadata: signedness, names … */
    size_t extra_len;
};

struct event_rows {
    enum event_op { EVENT_INSERT, EVENT_UPDATE, EVENT_DELETE } op;
    uint64_t table_id;
    bool ends; /* the statement's last row event: maps become invalid */
    size_t columns;
    /* bit sets of the columns in the images; _after: in an update's second image, else NULL */
    const uint8_t *present, *present_after;
    bool options;     /* each second image is preceded by MySQL's options */
    const char *data; /* the images, one after another */
    size_t len;
};

struct event {
    enum event_kind kind;
    unsigned type;    /* number in the log */
    const char *name; /* name of the type, for messages */
    uint32_t at;      /* seconds since 1970; 0: artificial, sent but not part of the log */
    uint32_t server_id;
    uint32_t next; /* position after the event in its file, modulo 2^32; 0: not part of the file */
    uint32_t size; /* its bytes in the file */
    const char *bytes;
    unsigned flags;
    bool packed;       /* query.sql or rows.data is compressed */
    size_t packed_len; /* claimed length after unpacking */
    bool prepared;     /* XID: an XA PREPARE, which an XA COMMIT or XA ROLLBACK follows later */
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
            bool other_letters; /* the session's character set is not UTF-8, ASCII or binary */
            bool unreadable;    /* it is swe7, where quotes and brackets are letters */
        } query;
        struct event_map map;
        struct event_rows rows;
    };
};

/* Returns the format that is assumed before the first format description. */
struct event_format event_format_first(bool checksum);
/* Reads one complete event. Its checksum is verified if `f` says that there is one (a format
 * description is verified by its own statement). The caller keeps `out->format` for the following
 * events. A row event without rows, which only ends a statement, is EVENT_SKIPPED. */
int event_read(const struct event_format *f, const char *bytes, size_t len, struct event *out,
               struct err *e);
/* Unpacks compressed data into `plain`, which the event then points into; before that, compressed
 * rows and statements cannot be used. A claimed length that zlib cannot reach is refused before
 * anything is allocated. */
int event_unpack(struct event *ev, struct buf *plain, struct err *e);

#endif
