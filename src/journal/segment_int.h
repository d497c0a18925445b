/* Shared by the files of segment.h. Not for other modules. */
#ifndef WK_JOURNAL_SEGMENT_INT_H
#define WK_JOURNAL_SEGMENT_INT_H

#include <jansson.h>

#include "journal/segment.h"

#define SEGMENT_MAGIC "WKJF"
#define SEGMENT_FRAME 16u
#define SEGMENT_WITHIN (UINT32_C(1) << 31)
#define SEGMENT_BODY (256u << 10)    /* a frame is closed when its body is longer */
#define SEGMENT_BODY_MAX (16u << 20) /* a body is never longer than this */
/* fixed length of the last frame, so that it can be found from the end */
#define SEGMENT_SUMMARY_BODY 12288u
#define SEGMENT_MAC_LEN 33u /* with its operation */

/* Operations. Numbers are base 128, the lowest seven bits first; a text is its length and its
 * bytes; a difference is a number whose lowest bit is its sign. */
enum segment_op {
    SEGMENT_HEAD = 1, /* text: JSON */
    SEGMENT_DEFINE,   /* text: JSON of a table; tables are numbered from 0 in this order */
    /* creation time, text: the log file of the following positions, which start at 0 */
    SEGMENT_FILE,
    SEGMENT_BEGIN,  /* flags, difference of seconds; if flag BEHIND: distance from the last END or
                         FILE; if flag GTID: domain, server, seq */
    SEGMENT_END,    /* distance from the last BEGIN or FILE */
    SEGMENT_INSERT, /* table, text: the tuple */
    SEGMENT_DELETE,
    SEGMENT_REPLACE,
    SEGMENT_TRUNCATE, /* table */
    SEGMENT_LOST,     /* seconds since 1970 */
    SEGMENT_SWAP,     /* seconds, text: JSON of the mark */
    SEGMENT_GAP,      /* seconds, text: why; LF, JSON of the tables concerned, unless all are */
    SEGMENT_SUMMARY,  /* text: JSON, padded with blanks: the summary */
    SEGMENT_MAC,      /* 32 bytes at the end of the frame's body; stripped before parsing */
    SEGMENT_TABLES,   /* seconds, text: JSON of tables that were created, redefined or dropped */
};
#define SEGMENT_SQL_MAX 16384u /* longer statements are truncated */
#define SEGMENT_GTID 1u        /* the transaction's GTID is here */
#define SEGMENT_NEXT 2u        /* or it follows that of the previous transaction */
#define SEGMENT_BEHIND 4u

/* State between operations, on which their meaning depends. */
struct segment_state {
    bool open; /* within a transaction */
    struct change_gtid gtid, last_gtid;
    struct change_gtid to_gtid; /* GTID of sum.to, whose text does not contain it yet */
    bool moved;                 /* place.point.file differs from that of sum.to */
    struct segment_place place; /* position after the last complete transaction */
    int64_t second;             /* time of the last BEGIN, in seconds */
    struct segment_sum sum;
};

/* segment_op.c: pure. */

void segment_put_number(struct buf *b, uint64_t n);
void segment_put_difference(struct buf *b, int64_t n);
void segment_put_text(struct buf *b, const char *s, size_t len);

struct segment_table {
    struct change_table pub;
    char *name;
    unsigned *key;
};
struct segment_parser {
    struct segment_state s;
    struct segment_table **tables;
    size_t count;
    struct segment_head head;
    bool have_head, finalized;
    struct statement_mark mark;
    char text[640];
    struct statement_scope scope;
    json_t *scope_texts; /* texts of the last SEGMENT_GAP or _TABLES */
};
/* Parses one operation from `*at`. Returns 1: a change, in `c`; 2: nothing to report; 0:
 * malformed. */
int segment_parse(struct segment_parser *p, const char **at, const char *end, struct change *c);
/* The summary with all its texts. */
const struct segment_sum *segment_parser_sum(struct segment_parser *p);
void segment_parser_free(struct segment_parser *p);

json_t *segment_head_json(const struct segment_head *h);
bool segment_head_read(const char *text, size_t len, struct segment_head *h);
json_t *segment_sum_json(const struct segment_sum *s);
bool segment_sum_read(const char *text, size_t len, struct segment_sum *s);
json_t *segment_table_json(const struct change_table *t);
/* Returns which tables were changed, how, and by which statement; NULL: not UTF-8. */
json_t *segment_tables_json(const struct change *c);
json_t *segment_mark_json(const struct statement_mark *m);
void segment_note(struct segment_sum *s, const struct change *c);

/* Everything that is needed to process any frame of a file. */
struct segment_file {
    int fd; /* for reading, and for writing where needed */
    const char *name;
    uint64_t number;
    bool mac;
};

/* segment_write.c: truncates the file at `at` and finalizes it there. */
int segment_append_summary(const struct segment_file *f, uint64_t at, const struct segment_sum *sum,
                           struct err *e);

/* segment_frame.c. The MAC of a frame is an HMAC-SHA256 (store/signature.h) of the segment's number,
 * the frame's offset, its length as it is written, the MAC of the frame before it (zeros for the
 * first) and the body before the MAC: no frame can be changed, omitted, moved, or replaced by one
 * from another segment or from a part that was cut off. The preceding MAC is read from the file. */

struct segment_frame {
    uint32_t word; /* its length, as it is written */
    uint32_t len;  /* length of its body */
    bool within;   /* it ends within a transaction */
};
/* Returns the length written, or -1. */
int64_t segment_frame_write(const struct segment_file *f, uint64_t at, const char *body, size_t len,
                            bool within, struct err *e);
/* Returns 1 if the frame is complete, with its body in `body`; 0 if it is not; -1 if it could not
 * be read, or is complete but not ours. */
int segment_frame_read(const struct segment_file *f, uint64_t at, struct segment_frame *out,
                       struct buf *body, struct err *e);
/* Returns true if any frame of this segment begins after this offset. Data that did not reach the
 * disk is missing up to the end; after damage there is something intact. */
int segment_frame_follows(const struct segment_file *f, uint64_t at, struct err *e);
/* Verifies the MAC at the end of a body and removes it. Without a key it is not verified. */
int segment_mac_take(const struct segment_file *f, uint64_t at, uint32_t word, struct buf *body,
                     struct err *e);
/* CRC of a frame's first 12 bytes. */
uint32_t segment_frame_crc(uint64_t number, uint64_t at, const unsigned char head[SEGMENT_FRAME]);

#endif
