/* Uploads: copies what is in the dump directory and the journal but not in the store: dumps, files
 * of rolled-up rows (upload_ledgers.h), segments. The work is
 * determined from both each time, so a kill at any moment costs only the current upload.
 *
 * Of a dump: its file is sent and read back; then its manifest is sent and read back; then it
 * counts. A name left by an interrupted upload is never used again. */
#ifndef WK_OFFSITE_UPLOAD_H
#define WK_OFFSITE_UPLOAD_H

#include "journal/segment.h"
#include "offsite/copies.h"
#include "offsite/ledger_copies.h"
#include "offsite/owner.h"
#include "offsite/transfer.h"
#include "store/catalog.h"

struct upload_segment;
struct upload {
    const struct config *cfg;
    int dirfd; /* the dump directory */
    /* Called now and then; -1 ends the current operation. May be NULL. */
    int (*look)(void *arg, uint64_t bytes, struct err *e);
    void *look_arg;
    /* Returns who owns the world by its record (offsite/record.h): 0: this machine; 1: another
     * machine, or possibly another one, as `e` says; -1: not known. NULL: the world has no record.
     * `each`: it is called before each object that is stored or deleted, because there is no lease
     * and so no fence; otherwise in each look, and before an object once this machine has begun
     * another life of the world: the record must name a life before any data of it is stored. `arg`
     * is look_arg. */
    int (*whose)(void *arg, const struct transfer *t, struct err *e);
    bool whose_each;

    struct transfer t;
    struct copies there;
    struct ledger_copies ledgers;
    struct names ledgers_damaged; /* files here that do not match their manifests */
    bool looked, listed;          /* dumps and files of ledgers; segments */
    mono_t looked_at, listed_at, next_tidy;
    struct owner owner;
    struct err fenced; /* ERR_NONE: the store's contents are this machine's and may be changed */
    size_t read;       /* number of dumps there that need not be looked at again */
    bool unsaved;      /* some results are not remembered yet */
    uint64_t round;    /* the round that the store is known to know (rounds.h) */
    bool doubted;      /* unproven parts were removed from the list */
    struct buf doubts;
    /* The part that was stored last but could not be read back. It outlives the connection. */
    struct upload_unread {
        char name[COPY_NAME_MAX]; /* "": none */
        struct copy_part part;
        struct transfer_stored stored; /* as it was sent */
        unsigned tries;                /* failed reads since then */
    } unread;
    struct upload_segment *segments; /* as last seen */
    wall_t settled_at;
    size_t segment_count;
    wall_t newest_dump; /* when the newest local dump began; ms 0: there is none */
    bool others_next;   /* the last step did what is most urgent; anything else is next */

    struct upload_figures {
        bool known;                 /* the following is known, since the store was listed */
        uint64_t waiting, stored;   /* dumps, files of ledgers and segments; dumps */
        char newest[DUMP_NAME_MAX]; /* newest intact dump in the store; "": none */
        wall_t newest_at;
        wall_t since; /* when the oldest unstored item came; ms 0: all is stored */
    } figures;
    bool figured; /* this step has updated the figures */
    /* What the last step stored; name "": nothing. */
    struct {
        char name[COPY_NAME_MAX];
        bool dump;
        uint64_t bytes;
    } done;
    struct err skipped; /* an item that cannot be stored, or is damaged there; ERR_NONE: none */
    bool unsent;        /* `skipped` is the segment being written, so nothing new of it is stored */
    struct err
        unswept; /* why remains of interrupted uploads could not be removed; ERR_NONE: they could */
};

void upload_close(struct upload *u);
/* Finds out who owns the dumps there, and changes nothing: sets `fenced`. */
enum remote_result upload_look(struct upload *u, struct err *e);
/* Adds to a failure of a local file that it happened on this machine, not in the store, and what to
 * do there. Other errors are not changed. */
void upload_here(const struct upload *u, struct err *e);

#endif
