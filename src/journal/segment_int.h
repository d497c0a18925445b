/* What the files of segment.h share. Nobody else includes it. */
#ifndef WK_JOURNAL_SEGMENT_INT_H
#define WK_JOURNAL_SEGMENT_INT_H

#include <jansson.h>

#include "journal/segment.h"

#define SEGMENT_MAGIC "WKJF"
#define SEGMENT_FRAME 16u
#define SEGMENT_WITHIN (UINT32_C(1) << 31)
#define SEGMENT_BODY (256u << 10)    /* a frame is ended when it is longer */
#define SEGMENT_BODY_MAX (16u << 20) /* and is never longer than this */
#define SEGMENT_SEAL_BODY 12288u     /* a seal has this length, so that it is found from the end */
#define SEGMENT_MAC_LEN 33u          /* with its operation */

/* Operations. Numbers are base 128, the lowest seven bits first; a text is its length and its
 * bytes; a difference is a number whose lowest bit is its sign. */
enum segment_op {
    SEGMENT_HEAD = 1, /* text: JSON */
    SEGMENT_DEFINE,   /* text: JSON of a table; tables are counted from 0 in this order */
    SEGMENT_FILE,     /* born, text: the log's file that places are in from now on, from 0 */
    SEGMENT_BEGIN,    /* flags, difference of seconds; by how much it is behind the last END or
                         FILE where flag BEHIND; domain, server, seq where flag GTID */
    SEGMENT_END,      /* by how much it is behind the last BEGIN or FILE */
    SEGMENT_INSERT,   /* table, text: the tuple */
    SEGMENT_DELETE,
    SEGMENT_REPLACE,
    SEGMENT_TRUNCATE, /* table */
    SEGMENT_LOST,     /* seconds since 1970 */
    SEGMENT_SWAP,     /* seconds, text: JSON of the mark */
    SEGMENT_GAP,      /* seconds, text: why */
    SEGMENT_SEAL,     /* text: JSON, ended by blanks */
    SEGMENT_MAC,      /* 32 bytes, the end of its frame's body: no reader of operations sees it */
};
#define SEGMENT_GTID 1u /* the number of the group is here, */
#define SEGMENT_NEXT 2u /* or is the one after that of the group before */
#define SEGMENT_BEHIND 4u

/* What one operation means depends on those before it. */
struct segment_state {
    bool open; /* within a group */
    struct change_gtid gtid, last_gtid;
    struct change_gtid to_gtid; /* of sum.to, which does not have it as text yet */
    bool moved;                 /* place.point.file is not that of sum.to */
    struct segment_place place; /* behind the last whole group */
    int64_t second;             /* of the last BEGIN */
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
    bool have_head, sealed;
    struct statement_mark mark;
    char text[640];
};
/* One operation from `*at`. 1: a change, in `c`; 2: nothing to tell; 0: it is none. */
int segment_parse(struct segment_parser *p, const char **at, const char *end, struct change *c);
/* The sum with all its texts. */
const struct segment_sum *segment_told(struct segment_parser *p);
void segment_parser_free(struct segment_parser *p);

json_t *segment_head_json(const struct segment_head *h);
bool segment_head_read(const char *text, size_t len, struct segment_head *h);
json_t *segment_sum_json(const struct segment_sum *s);
bool segment_sum_read(const char *text, size_t len, struct segment_sum *s);
json_t *segment_table_json(const struct change_table *t);
json_t *segment_mark_json(const struct statement_mark *m);
void segment_note(struct segment_sum *s, const struct change *c);

/* What frames of a file have in common. */
struct segment_file {
    int fd; /* to read, and to write where that is asked for */
    const char *name;
    uint64_t number;
    bool mac;
};

/* segment_write.c: cuts the file at `at` and ends it there. */
int segment_append_seal(const struct segment_file *f, uint64_t at, const struct segment_sum *sum,
                        struct err *e);

/* segment_mac.c. The MAC of a frame is an HMAC-SHA256 (store/seal.h) of the segment's number, the
 * frame's place, its length as it is written, the MAC of the frame before it (zeros before the
 * first) and the body in front of the MAC: no frame can be changed, left out, moved, or taken from
 * another segment or from what was taken back. The one before is read from the file. */

/* Puts it behind the body of a frame whose length `word` counts it. */
int segment_mac_add(const struct segment_file *f, uint64_t at, uint32_t word, struct buf *body,
                    struct err *e);
/* Takes it off. Without a key it is not looked at. */
int segment_mac_take(const struct segment_file *f, uint64_t at, uint32_t word, struct buf *body,
                     struct err *e);

/* CRC of a frame's first 12 bytes. */
uint32_t segment_frame_crc(uint64_t number, uint64_t at, const unsigned char head[SEGMENT_FRAME]);

#endif
