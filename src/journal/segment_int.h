/* Shared by the files of segment.h. Not for other modules. */
#ifndef WK_JOURNAL_SEGMENT_INT_H
#define WK_JOURNAL_SEGMENT_INT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SEGMENT_MAGIC "WKJF"
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

/* Everything that is needed to process any frame of a file. */
struct segment_file {
    int fd; /* for reading, and for writing where needed */
    const char *name;
    uint64_t number;
    bool mac;
};

#endif
