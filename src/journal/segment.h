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
    wall_t made;   /* by our clock */
    int64_t newer; /* a format newer than the known ones, of which nothing else is read; else 0 */
    bool follows;  /* begins where the previous segment ends */
    char why[512]; /* the reason if it does not */
    bool mac;      /* format 2; for a new segment the writer decides */
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

void segment_name(const char *world, uint64_t number, char out[SEGMENT_NAME_MAX]);
/* Returns the number in a file's name; 0: it is not a segment of this world. */
uint64_t segment_number(const char *file, const char *world);
/* Writes the GTID of the transaction before a position, in the form of struct db_binlog_pos. */
void segment_gtid(const struct change_gtid *g, struct db_binlog_pos *p);

/* ---- writing ---- */

struct segment_writer;
/* Creates the file. The file and its name are on the disk when this returns. */
struct segment_writer *segment_create(int dirfd, const struct segment_head *h, struct err *e);
/* Writes a change; one that does not belong in a segment is skipped. If a transaction is cut off or
 * contains a gap, none of its changes is kept, and of several gaps in it only the first. Of
 * consecutive empty transactions only the last one is written, so that the position after them is
 * known. After an error only segment_close() may be called. */
int segment_put(struct segment_writer *w, const struct change *c, struct err *e);
/* Call this between transactions: no change follows up to `until`, by the server's clock, which
 * becomes the time of the end. Written but not synced: if a power cut removes it, the changes are
 * still there. */
int segment_quiet(struct segment_writer *w, wall_t until, struct err *e);
/* Syncs what was written so far, up to the last complete transaction. */
int segment_sync(struct segment_writer *w, struct err *e);
/* Returns true if segment_sync() would write anything to the disk. Urgent: more than the position
 * and time of the end. */
bool segment_dirty(const struct segment_writer *w);
bool segment_urgent(const struct segment_writer *w);
uint64_t segment_bytes(const struct segment_writer *w);
/* Call this between transactions: returns a summary of what was written. The position is that of
 * the last segment_sync(). */
const struct segment_sum *segment_written(struct segment_writer *w);
/* Finalizes the file. Always closes it. */
int segment_finalize(struct segment_writer *w, struct err *e);
void segment_close(struct segment_writer *w);

/* ---- reading ---- */

struct segment_reader;
struct segment_reader *segment_open(int dirfd, const char *file, struct err *e);
const struct segment_head *segment_head(const struct segment_reader *r);
/* Returns 1 with a change, whose table lives as long as the reader; 0 at the end, after a complete
 * transaction; or -1: the segment is damaged after what was returned so far. */
int segment_next(struct segment_reader *r, struct change *c, struct err *e);
/* Returns true if the last change ends its frame. Tuples stay in place until this was true twice,
 * including their own frame, and the next change is read. */
bool segment_frame_ends(const struct segment_reader *r);
const struct segment_sum *segment_sum(struct segment_reader *r); /* so far */
bool segment_finalized(const struct segment_reader *r);          /* its summary was read */
/* Returns the offset in the file at which complete transactions end. */
uint64_t segment_whole(const struct segment_reader *r);
void segment_reader_close(struct segment_reader *r);
/* Reads head and summary of a finalized segment, without the rest. Returns 1: both; 0: it is not
 * finalized; or -1. */
int segment_peek(int dirfd, const char *file, struct segment_head *h, struct segment_sum *sum,
                 struct err *e);
/* Finds where complete transactions end in a segment that may still be written, finalized or not.
 * Nothing before that changes, unless a power cut removes an end that was not synced. Frames before
 * `from`, an earlier result, are not read again; ERR_DAMAGED: the segment ends before it. */
int segment_settled(int dirfd, const char *file, uint64_t from, uint64_t *whole, struct err *e);
/* Returns 1 if it has no changes because its writer was killed right after creating it; else 0, or
 * -1. */
int segment_blank(int dirfd, const char *file, struct err *e);
/* Finalizes a segment that its writer left: everything after its last complete transaction is
 * truncated. Damage before that is described in `damage` ("" for none), and everything after the
 * damage is truncated too. */
int segment_recover(int dirfd, const char *file, char damage[512], struct err *e);

#endif
