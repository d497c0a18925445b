/* The contents of a world's store, by the names there:
 *
 *   WORLD/dumps/NAME.sql.gz[.age]       a dump's file; NAME.2.sql.gz[.age] … if the name was taken
 *                                       by an upload that was not completed
 *   WORLD/dumps/NAME.json               its manifest, which names the file, its size and its
 *                                       SHA-256: written last, it makes it a dump
 *   WORLD/dumps/NAME.pin                its pin (store/pin.h), if there is one
 *   WORLD/segments/WORLD-NUMBER-MADE.FROM-TO[.HMAC][.age]   an object part: bytes of a journal
 *                                       segment that was begun at MADE (ms since 1970); complete
 *                                       transactions, which never change. With [dump] hmac_key_file
 *                                       the name is signed
 *
 * Each object is written once. */
#ifndef WK_OFFSITE_COPIES_H
#define WK_OFFSITE_COPIES_H

#include "offsite/remote.h"
#include "store/manifest.h"
#include "store/pin.h"

#define COPY_NAME_MAX 400
#define COPY_TRIES 9u
/* The largest number of a segment that is accepted from a store: far above any that a world
 * reaches, and far enough below SEGMENT_NUMBER_MAX for all future ones. */
#define COPY_NUMBER_MAX UINT64_C(999999999999)
#define COPY_PLACE_MAX UINT64_C(999999999999) /* bytes: a part that ends after it is ignored */

struct copy_dump {
    char name[DUMP_NAME_MAX];
    uint64_t generation, sequence;
    wall_t at;      /* time in its name */
    unsigned files; /* bit N - 1: the file of the Nth attempt is there */
    bool manifest;  /* the manifest is there, with these listed values: */
    int64_t size;
    char stamp[REMOTE_STAMP];
    /* Contents of the manifest, after it was read (manifests.h): */
    unsigned attempt; /* its file; 0: the manifest was not read, or is damaged */
    char sha256[SHA256_HEX], nonce[NONCE_HEX];
    bool bad;       /* the manifest is damaged */
    unsigned fails; /* times that it was read and damaged, while its listed values were the same */
    bool damaged;   /* its file was read back and does not match the manifest */
    struct copy_pin {
        bool there; /* NAME.pin is there, with these listed values: */
        int64_t size;
        char stamp[REMOTE_STAMP];
        /* The dump here had a valid pin while the store had one. If it has none now, an operator
         * removed it. */
        bool had;
        /* Contents of the pin, after it was read (manifests.h). unread: it keeps the dump. */
        bool read, unread;
        enum pin_kind kind;
        wall_t since;
    } pin;
    /* owner.h */
    bool known;   /* it was there when this machine last looked */
    bool ours;    /* this machine stored it, or it is of this very world */
    bool sending; /* its manifest may appear there, whatever the store answers */
};
struct copy_part {
    uint64_t number;
    int64_t made;
    uint64_t from, to;
    bool sealed;           /* encrypted */
    char hmac[SHA256_HEX]; /* "": none */
    bool unproven;         /* not signed by our key: never read, only deleted */
};
struct copies {
    struct copy_dump *dumps; /* newest first */
    size_t dump_count;
    struct copy_part *parts; /* sorted by number, made, from; the longest first */
    size_t part_count;
    const char *world; /* borrowed */
};

/* Lists the dumps or segments in the store, replacing those in `out`. */
enum remote_result copies_load_dumps(struct remote *r, const char *world, struct copies *out,
                                     struct err *e);
enum remote_result copies_load_parts(struct remote *r, const char *world, struct copies *out,
                                     struct err *e);
/* Removes the unproven parts from the list, for readers. */
void copies_drop_unproven(struct copies *c);
void copies_free(struct copies *c);
/* returns NULL if there is none */
struct copy_dump *copies_dump(const struct copies *c, const char *name);
struct copy_dump *copies_add_dump(struct copies *c, const char *name, const char *world);
void copies_add_part(struct copies *c, const struct copy_part *p);
/* Returns the first part of a segment; part_count, or one of another segment, if it has none. */
size_t copies_part(const struct copies *c, uint64_t number, int64_t made);
bool copy_part_is_of(const struct copy_part *p, uint64_t number, int64_t made);
/* Returns the offset up to which all bytes of a segment are there, in proven parts. */
uint64_t copies_reach(const struct copies *c, uint64_t number, int64_t made);

/* These write names. */
void copy_file_name(char out[COPY_NAME_MAX], const char *world, const char *dump, unsigned attempt,
                    bool sealed);
void copy_manifest_name(char out[COPY_NAME_MAX], const char *world, const char *dump);
void copy_pin_name(char out[COPY_NAME_MAX], const char *world, const char *dump);
void copy_part_name(char out[COPY_NAME_MAX], const char *world, const struct copy_part *p);
/* Reads such a name. Returns false if it is spelled differently from ours: it belongs to somebody
 * else. `unproven` is not set. */
bool copy_part_read(const char *name, const char *world, struct copy_part *out);
/* Signs the name with our key, if there is one. */
int copy_part_sign(struct copy_part *p, const char *world, struct err *e);

/* Returns the dumps in the store as retention_now() takes them, and after them `more` empty items,
 * for other files. The caller frees them. */
struct retention_item *copies_dates(const struct copies *c, size_t more);
/* Returns the time that retention counts as now (store/retention.h: retention_now()), by the dumps
 * in the store. Pure. */
wall_t copies_now(const struct copies *c, int64_t interval, wall_t wall);
/* Sets `spare` of each part whose segment no dump needs: it ended an hour before the oldest dump;
 * or it is older than `keep` and ended an hour before the newest dump. Nothing is spare without a
 * dump. A dump or a segment from after `now` counts for nothing. Pure. */
void copies_spare(const struct copies *c, int64_t keep, wall_t now, bool *spare);

#endif
