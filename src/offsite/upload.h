/* Uploads: what the dump directory and the journal have, and the store has not. What is to be done is
 * found out from both each time, so that a kill at any moment costs nothing but the upload that ran.
 *
 * Of a dump: its file, read back; then its manifest, read back: then it counts. A name that an upload
 * left which was cut off is never used again. */
#ifndef WK_OFFSITE_UPLOAD_H
#define WK_OFFSITE_UPLOAD_H

#include "journal/segment.h"
#include "offsite/copies.h"
#include "offsite/owner.h"
#include "offsite/transfer.h"
#include "store/catalog.h"

struct upload_segment;
struct upload {
    const struct config *cfg;
    int dirfd; /* the dump directory */
    /* Called now and then: -1 ends what is under way. May be NULL. */
    int (*look)(void *arg, uint64_t bytes, struct err *e);
    void *look_arg;
    /* Whose the world is by its record (standby/record.h): 0: ours; 1: another machine's, and `e` says so; -1: not known.
     * NULL: the world has no record. `each`: it is asked before each object that is stored or deleted, since there is no
     * lease whose fence would tell. `arg` is look_arg. */
    int (*whose)(void *arg, const struct transfer *t, struct err *e);
    bool whose_each;

    struct transfer t;
    struct copies there;
    bool looked, listed; /* dumps, segments */
    mono_t looked_at, listed_at, next_tidy;
    struct owner owner;
    struct err fenced; /* ERR_NONE: what is in the store is this machine's, and may be changed */
    size_t read;       /* so many dumps there need not be looked at again */
    bool unsaved;      /* what was read is not remembered yet */
    uint64_t round;    /* that the store is known to know of (rounds.h) */
    bool doubted;      /* what is not vouched for was taken out of the list */
    struct buf doubts;
    struct upload_segment *segments; /* as they were seen last, at … */
    wall_t settled_at;
    size_t segment_count;

    struct upload_figures {
        bool known;                 /* what follows; since the store was listed */
        uint64_t waiting, stored;   /* dumps and segments; dumps */
        char newest[DUMP_NAME_MAX]; /* good dump in the store; "": none */
        wall_t newest_at;
        wall_t since; /* when what is not stored yet came; ms 0: all is */
    } figures;
    /* What the last step has stored; name "": nothing. */
    struct {
        char name[COPY_NAME_MAX];
        bool dump;
        uint64_t bytes;
    } done;
    struct err skipped; /* what cannot be stored, or is there and no good; ERR_NONE: nothing */
    bool unsent;        /* and that is what is written now: nothing new of it is stored */
    struct err
        unswept; /* why uploads that were cut off could not be removed; ERR_NONE: they could */
};

/* Each does one thing. *more: there may be more to do at once. They connect and list where need be;
 * after an error upload_close() comes first. */
enum remote_result upload_dumps(struct upload *u, bool *more, struct err *e);
enum remote_result upload_segments(struct upload *u, bool *more, struct err *e);
void upload_close(struct upload *u);
/* The file in the journal's directory that names the parts which were sent and not yet read back: while it is there,
 * not all that lies in the store is proved. */
void upload_doubts_name(const char *world, char out[SEGMENT_NAME_MAX]);
/* Looks at whose the dumps there are, and changes nothing: `fenced`. */
enum remote_result upload_look(struct upload *u, struct err *e);

#endif
