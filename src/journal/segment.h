/* Segments: the changes of a world (change.h) in files of our own, written while the world lives,
 * so that it can be rebuilt also where the server's disk is gone.
 *
 * A file <world>-<number>.journal is a row of frames. A frame is 16 bytes, all numbers little
 * endian: "WKJF"; the length of its body, and in the highest bit whether it ends within a group;
 * CRC-32 of the body; CRC-32 of these 12 bytes behind the segment's number and the frame's place (8
 * bytes each), so that no frame is taken for another one. The body is a row of operations
 * (segment_int.h), the first of them the head, the last one of a sealed segment the seal. Tuples
 * are those of a dump. With [dump] hmac_key_file each frame's body ends in a MAC (segment_int.h),
 * and a segment without these is damaged: not ours, or from before the key.
 *
 * Only the last segment of a directory may be without a seal: it is being written, or its writer
 * was killed; what is behind its last whole group did not happen, and may be cut off and written
 * anew while others read.
 *
 * Mode 0600. A writer or reader belongs to one thread; one process writes a directory (it holds the
 * world's lock), any number read. ERR_DAMAGED names file and place. */
#ifndef WK_JOURNAL_SEGMENT_H
#define WK_JOURNAL_SEGMENT_H

#include "core/text.h"
#include "journal/change.h"

#define SEGMENT_FORMAT 1
#define SEGMENT_FORMAT_MAC 2 /* frames end in MACs */
#define SEGMENT_NAME_MAX 64
#define SEGMENT_SUFFIX ".journal"

/* A place between two groups. `point.gtid` is that of the group before it. */
struct segment_place {
    struct db_point point; /* file "": none */
    uint32_t born;
    wall_t at; /* of the group before it, or when reading began there */
};

struct segment_head {
    char world[64], schema[256];
    uint64_t number;
    char server[64], hostname[256]; /* whose log it was: struct server_id */
    struct segment_place from;
    wall_t made;   /* by our clock */
    bool follows;  /* begins where the segment before it ends */
    char why[512]; /* it does not, because */
    bool mac;      /* format 2; of a new one the writer decides */
};

/* What happened in a segment that matters to who looks for a moment. */
struct segment_mark {
    enum change_kind kind; /* CHANGE_GAP, CHANGE_LOST, CHANGE_SWAP */
    wall_t at;
    struct db_point place; /* where its group begins; no GTID */
    char text[160];        /* why; the dump that was put in */
};
#define SEGMENT_MARKS 12u
struct segment_sum {
    struct segment_place to; /* behind the last whole group */
    uint64_t groups, changes;
    struct segment_mark marks[SEGMENT_MARKS];
    size_t mark_count; /* more than SEGMENT_MARKS: the others are only counted */
};

void segment_name(const char *world, uint64_t number, char out[SEGMENT_NAME_MAX]);
/* The number in a file's name, 0: it is no segment of this world. */
uint64_t segment_number(const char *file, const char *world);
/* The GTID of the group before a place, as a db_point has it. */
void segment_gtid(const struct change_gtid *g, struct db_point *p);

/* ---- writing ---- */

struct segment_writer;
/* Makes the file, which is on the disk with its name when this returns. */
struct segment_writer *segment_create(int dirfd, const struct segment_head *h, struct err *e);
/* Any change as it came; what does not belong into a segment is passed over. A group that is cut,
 * or in which there is a gap, leaves none of its changes, and of gaps in one group the first. Of
 * groups in a row that hold nothing the last one stands for all, so that the place behind them is
 * known. After an error the writer is good for segment_close() only. */
int segment_put(struct segment_writer *w, const struct change *c, struct err *e);
/* What was put so far is on the disk, up to the last whole group. */
int segment_sync(struct segment_writer *w, struct err *e);
/* Is there anything that segment_sync() would write? */
bool segment_dirty(const struct segment_writer *w);
uint64_t segment_bytes(const struct segment_writer *w);
/* Between groups: what was put. The place is that of the last segment_sync(). */
const struct segment_sum *segment_written(struct segment_writer *w);
/* Ends the file for good. Closes in any case. */
int segment_seal(struct segment_writer *w, struct err *e);
void segment_close(struct segment_writer *w);

/* ---- reading ---- */

struct segment_reader;
struct segment_reader *segment_open(int dirfd, const char *file, struct err *e);
const struct segment_head *segment_head(const struct segment_reader *r);
/* 1: a change, with a table that lives as long as the reader. 0: the end, of whole groups all. -1:
 * the segment is damaged behind what was given out so far. */
int segment_next(struct segment_reader *r, struct change *c, struct err *e);
/* Tuples stay where they are until this was true twice, that of their own frame included, and the
 * next change is asked for. */
bool segment_frame_ends(const struct segment_reader *r);
const struct segment_sum *segment_sum(struct segment_reader *r); /* so far */
bool segment_sealed(const struct segment_reader *r);             /* its seal was read */
/* Where whole groups end, in the file. */
uint64_t segment_whole(const struct segment_reader *r);
void segment_reader_close(struct segment_reader *r);
/* What a sealed segment says of itself, without reading it. 1: it does; 0: it has no seal. */
int segment_peek(int dirfd, const char *file, struct segment_head *h, struct segment_sum *sum,
                 struct err *e);
/* 1: its writer was killed when it had just made the file, and nothing is in it; 0; -1. */
int segment_blank(int dirfd, const char *file, struct err *e);
/* Seals a segment that its writer left: what is behind its last whole group is cut off. Damage
 * before that is told in `damage` (a text, "" for none), and what is behind it is cut off too. */
int segment_recover(int dirfd, const char *file, char damage[512], struct err *e);

#endif
