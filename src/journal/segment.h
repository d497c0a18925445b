/* Segments: the changes of a world (change.h) in files of our own, written while the world lives,
 * so that it can be rebuilt even where the server's disk is gone.
 *
 * A file <world>-<number>.journal is a sequence of frames. A frame is 16 bytes, all numbers little
 * endian: "WKJF"; the length of its body, and in the highest bit whether it ends within a group;
 * CRC-32 of the body; CRC-32 of the segment's number and the frame's offset (8 bytes each) followed
 * by these 12 bytes, so that no frame is taken for another one. Then the body, a sequence of
 * operations (segment_int.h), the first of them the head, the last one of a finalized segment its
 * summary. Tuples are those of a dump. With [dump] hmac_key_file each frame's body ends in a MAC
 * (segment_int.h), and a segment without them counts as damaged: not ours, or from before the key.
 *
 * Only the last segment of a directory may be unfinalized: it is being written, or its writer was
 * killed; what follows its last complete group did not happen, and may be cut off and rewritten
 * while others read.
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
/* The largest number of a segment: what a directory names beyond it is nobody's. */
#define SEGMENT_NUMBER_MAX UINT64_C(999999999999999999)
#define SEGMENT_SUFFIX ".journal"

/* A binlog position between two groups. `point.gtid` is that of the group before it. */
struct segment_place {
    struct db_binlog_pos point; /* file "": none */
    uint32_t created_at;
    wall_t at; /* of the group before it, or when reading began there */
};

struct segment_head {
    char world[64], schema[256];
    uint64_t number;
    char server[64], hostname[256]; /* of the server whose log it was: struct server_id */
    struct segment_place from;
    wall_t made;   /* by our clock */
    int64_t newer; /* a format beyond those that are known, of which nothing else is read; else 0 */
    bool follows;  /* begins where the segment before it ends */
    char why[512]; /* why it does not */
    bool mac;      /* format 2; for a new segment the writer decides */
};

/* An event in a segment that matters when a moment is looked for. */
struct segment_mark {
    enum change_kind kind; /* CHANGE_GAP, CHANGE_LOST, CHANGE_SWAP */
    wall_t at;
    struct db_binlog_pos place; /* where its group begins; no GTID */
    char text[160];             /* why; the dump that was restored */
};
#define SEGMENT_MARKS 12u
struct segment_sum {
    struct segment_place to; /* after the last complete group */
    uint64_t groups, changes;
    struct segment_mark marks[SEGMENT_MARKS];
    size_t mark_count; /* more than SEGMENT_MARKS: the others are only counted */
};

void segment_name(const char *world, uint64_t number, char out[SEGMENT_NAME_MAX]);
/* The number in a file's name, 0: it is not a segment of this world. */
uint64_t segment_number(const char *file, const char *world);
/* The GTID of the group before a position, as a db_binlog_pos has it. */
void segment_gtid(const struct change_gtid *g, struct db_binlog_pos *p);

/* ---- writing ---- */

struct segment_writer;
/* Creates the file; it and its name are on the disk when this returns. */
struct segment_writer *segment_create(int dirfd, const struct segment_head *h, struct err *e);
/* Any change; one that does not belong in a segment is skipped. Of a group that is cut off or
 * contains a gap none of the changes is kept, and of several gaps in one group only the first. Of
 * consecutive empty groups the last one stands for all, so that the position after them is known.
 * After an error only segment_close() may be called. */
int segment_put(struct segment_writer *w, const struct change *c, struct err *e);
/* Between groups: nothing follows the last one that was put up to this moment, by the server's clock, which becomes
 * the time of the end. Written, but not synced: if a power cut takes that away, what was put is still there. */
int segment_quiet(struct segment_writer *w, wall_t until, struct err *e);
/* Syncs what was put so far, up to the last complete group. */
int segment_sync(struct segment_writer *w, struct err *e);
/* Is there anything that segment_sync() would bring to the disk? Urgent: more than the place and the time of the
 * end. */
bool segment_dirty(const struct segment_writer *w);
bool segment_urgent(const struct segment_writer *w);
uint64_t segment_bytes(const struct segment_writer *w);
/* Between groups: a summary of what was put. The position is that of the last segment_sync(). */
const struct segment_sum *segment_written(struct segment_writer *w);
/* Finalizes the file. Closes it in any case. */
int segment_finalize(struct segment_writer *w, struct err *e);
void segment_close(struct segment_writer *w);

/* ---- reading ---- */

struct segment_reader;
struct segment_reader *segment_open(int dirfd, const char *file, struct err *e);
const struct segment_head *segment_head(const struct segment_reader *r);
/* 1: a change, with a table that lives as long as the reader. 0: the end, after a complete group.
 * -1: the segment is damaged after what was returned so far. */
int segment_next(struct segment_reader *r, struct change *c, struct err *e);
/* Does the last change end its frame? Tuples stay in place until this was true twice, for their own
 * frame too, and the next change is asked for. */
bool segment_frame_ends(const struct segment_reader *r);
const struct segment_sum *segment_sum(struct segment_reader *r); /* so far */
bool segment_finalized(const struct segment_reader *r);          /* its summary was read */
/* The offset in the file at which complete groups end. */
uint64_t segment_whole(const struct segment_reader *r);
void segment_reader_close(struct segment_reader *r);
/* Head and summary of a finalized segment, without reading the rest. 1: both; 0: it is not
 * finalized. */
int segment_peek(int dirfd, const char *file, struct segment_head *h, struct segment_sum *sum,
                 struct err *e);
/* Where complete groups end in a segment that may still be written, finalized or not: nothing before
 * that ever changes, unless a power cut takes an end away that was not synced. Frames before `from`,
 * an earlier result, are not read again;
 * ERR_DAMAGED: the segment ends before. */
int segment_settled(int dirfd, const char *file, uint64_t from, uint64_t *whole, struct err *e);
/* 1: it has no changes: its writer was killed right after creating it; 0; -1. */
int segment_blank(int dirfd, const char *file, struct err *e);
/* Finalizes a segment that its writer left: what follows its last complete group is cut off. Damage
 * before that is described in `damage` ("" for none), and what follows it is cut off too. */
int segment_recover(int dirfd, const char *file, char damage[512], struct err *e);

#endif
