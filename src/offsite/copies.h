/* What a world has in the store, by the names there:
 *
 *   WORLD/dumps/NAME.sql.gz[.age]       a dump's file; NAME.2.sql.gz[.age] … where the name was taken by an
 *                                       upload that nobody vouches for
 *   WORLD/dumps/NAME.json               its manifest, which names the file, its size and its SHA-256: written
 *                                       last, it makes it a dump
 *   WORLD/segments/WORLD-NUMBER-MADE.FROM-TO[.HMAC][.age]   bytes of a journal segment that was begun at MADE
 *                                       (ms since 1970); whole groups, which never change. With
 *                                       [dump] hmac_key_file the name is signed
 *
 * Each is written once. */
#ifndef WK_OFFSITE_COPIES_H
#define WK_OFFSITE_COPIES_H

#include "offsite/remote.h"
#include "store/manifest.h"

#define COPY_NAME_MAX 400
#define COPY_TRIES 9u
/* The largest number of a segment that is believed of a store: far above any that a world reaches, and far enough below
 * SEGMENT_NUMBER_MAX for all that are to come. */
#define COPY_NUMBER_MAX UINT64_C(999999999999)
#define COPY_PLACE_MAX UINT64_C(999999999999) /* bytes: a part that ends behind it is nobody's */

struct copy_dump {
    char name[DUMP_NAME_MAX];
    uint64_t generation, sequence;
    wall_t at;      /* by its name */
    unsigned files; /* bit N - 1: the Nth try is there */
    bool manifest;  /* is there, and listed so: */
    int64_t size;
    char stamp[REMOTE_STAMP];
    /* What it says, once it was read (manifests.h): */
    unsigned attempt; /* its file; 0: it was not read, or is no good */
    char sha256[SHA256_HEX], nonce[NONCE_HEX];
    bool bad;     /* it is no good */
    bool damaged; /* its file was read back, and is not as the manifest says */
    /* owner.h */
    bool known;   /* it was there when this machine looked before */
    bool ours;    /* this machine stored it, or it is of this very world */
    bool sending; /* its manifest may come to be there, whatever is answered */
};
struct copy_part {
    uint64_t number;
    int64_t made;
    uint64_t from, to;
    bool sealed;           /* encrypted */
    char hmac[SHA256_HEX]; /* "": none */
    bool unproven;         /* not as our key signs it: never read, only deleted */
};
struct copies {
    struct copy_dump *dumps; /* newest first */
    size_t dump_count;
    struct copy_part *parts; /* by number, made, from, the longest first */
    size_t part_count;
    const char *world; /* borrowed */
};

/* Lists what is there, dumps or segments, in place of what `out` has of them. */
enum remote_result copies_load_dumps(struct remote *r, const char *world, struct copies *out,
                                     struct err *e);
enum remote_result copies_load_parts(struct remote *r, const char *world, struct copies *out,
                                     struct err *e);
/* Takes the parts out that are unproven: for whoever reads. */
void copies_drop_unproven(struct copies *c);
void copies_free(struct copies *c);
struct copy_dump *copies_dump(const struct copies *c, const char *name); /* NULL: none */
struct copy_dump *copies_add_dump(struct copies *c, const char *name, const char *world);
void copies_add_part(struct copies *c, const struct copy_part *p);
/* The first part of a segment; part_count or one of another segment: it has none. */
size_t copies_part(const struct copies *c, uint64_t number, int64_t made);
bool copy_part_is_of(const struct copy_part *p, uint64_t number, int64_t made);
/* Up to where all bytes of a segment are there, in parts that are proven. */
uint64_t copies_reach(const struct copies *c, uint64_t number, int64_t made);

/* Names. */
void copy_file_name(char out[COPY_NAME_MAX], const char *world, const char *dump, unsigned attempt,
                    bool sealed);
void copy_manifest_name(char out[COPY_NAME_MAX], const char *world, const char *dump);
void copy_part_name(char out[COPY_NAME_MAX], const char *world, const struct copy_part *p);
/* Signs the name by our key, if there is one. */
int copy_part_sign(struct copy_part *p, const char *world, struct err *e);

/* Sets `spare` of each part whose segment no dump needs: one that ended an hour before the oldest dump,
 * or longer ago than `keep`, but then an hour before the newest dump too. Nothing without a dump. Pure. */
void copies_spare(const struct copies *c, int64_t keep, wall_t now, bool *spare);

#endif
