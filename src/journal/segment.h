/* Segments: the changes of a world (change.h) in files of our own, written while the world is up,
 * so that it can be restored even if the server's disk is lost.
 *
 * A file <world>-<number>.journal is a sequence of frames. A frame is 16 bytes, all numbers little
 * endian: "WKJF"; the length of its body, and in the highest bit whether it ends within a
 * transaction (in the code: group); CRC-32 of the body; CRC-32 of the segment's number and the
 * frame's offset (8 bytes each) followed by these 12 bytes, so that no frame is mistaken for
 * another one. Then the body, a sequence of operations (segment_int.h). The first is the head; the
 * last one of a finalized segment is its summary. Tuples are those of a dump. With [dump]
 * hmac_key_file each frame's body ends in a MAC (segment_int.h), and a segment without MACs counts
 * as damaged: not ours, or from before the key.
 *
 * Only the last segment of a directory may be unfinalized: it is being written, or its writer was
 * killed. Everything after its last complete transaction did not happen, and may be truncated and
 * rewritten while others read.
 *
 * Mode 0600. A writer or reader belongs to one thread; one process writes a directory (it holds the
 * world's lock), any number read. ERR_DAMAGED names file and offset. */
#ifndef WK_JOURNAL_SEGMENT_H
#define WK_JOURNAL_SEGMENT_H

#include "base/line.h"
#include "base/text.h"
#include "binlog/change.h"

#define SEGMENT_FORMAT 1
#define SEGMENT_FORMAT_MAC 2 /* frames end in MACs */
#define SEGMENT_NAME_MAX 64
/* The largest number of a segment; files with larger numbers are ignored. */
#define SEGMENT_NUMBER_MAX UINT64_C(999999999999999999)
#define SEGMENT_SUFFIX ".journal"

/* A binlog position between two transactions. `point.gtid` is that of the previous one. */
struct segment_place {
    struct db_binlog_pos point; /* file "": none */
    uint32_t created_at;
    wall_t at; /* time of the previous transaction, or when reading began there */
};

struct segment_head {
    char world[64], schema[256];
    uint64_t number;
    char server[64], hostname[256]; /* the server that wrote the log: struct server_id */
    struct segment_place from;
    wall_t made;    /* by our clock */
    int64_t newer;  /* a format newer than the known ones, of which nothing else is read; else 0 */
    bool follows;   /* begins where the previous segment ends */
    char why[LINE]; /* the reason if it does not */
    bool mac;       /* format 2; for a new segment the writer decides */
};

/* An event in a segment that matters for finding a point in time. */
struct segment_mark {
    enum change_kind kind; /* CHANGE_GAP, CHANGE_LOST, CHANGE_SWAP */
    wall_t at;
    struct db_binlog_pos place; /* where its transaction begins; no GTID */
    char text[160];             /* the reason, or the dump that was restored */
};
#define SEGMENT_MARKS 12u
struct segment_sum {
    struct segment_place to; /* after the last complete transaction */
    uint64_t groups, changes;
    struct segment_mark marks[SEGMENT_MARKS];
    size_t mark_count; /* may exceed SEGMENT_MARKS: further ones are only counted */
};

/* ---- writing ---- */

struct segment_writer;

/* ---- reading ---- */

struct segment_reader;

#endif
