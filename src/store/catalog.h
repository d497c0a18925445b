/* The catalog of the dump directory, built from the manifests; there is no other index. */
#ifndef WK_STORE_CATALOG_H
#define WK_STORE_CATALOG_H

#include "base/line.h"
#include "config/config.h"
#include "store/manifest.h"
#include "store/pin.h"
#include "store/proof.h"

struct catalog_entry {
    struct manifest m; /* m.name is set even if the manifest could not be read */
    bool intact;       /* manifest readable, file present with its size; the content is not read */
    /* It is not intact, and the only reason is that it cannot be read or that others can write
     * it. */
    bool unread;
    bool unproven;  /* not intact only for lack of a valid signature: neither used nor deleted */
    bool damaged;   /* not intact only because of its proof (proof.h) */
    bool earlier;   /* of an earlier round (round.h): restored only by name */
    bool abandoned; /* abandoned by the world's record (lives.h): restored only by name */
    struct proof proof;
    struct pin pin;    /* kind PIN_NONE: not pinned */
    char reason[LINE]; /* why it is not intact */
};

struct catalog {
    struct catalog_entry *list; /* newest first, by (generation, sequence) */
    size_t count;
    uint64_t generation, sequence; /* highest number in any file name: dumps, .part, rejected */
    uint64_t round;                /* the current round; 0: none was ever begun */
    char round_nonce[33];          /* from round.json; "": there is none */
};

/* Reads the catalog. `dirfd` is the dump directory. */
int catalog_load(int dirfd, const char *world, struct catalog *out, struct err *e);
/* Like catalog_load(), for rejected/. */
int catalog_load_rejected(int dirfd, const char *world, struct catalog *out, struct err *e);
/* Sets `round` and each `earlier` from the manifests and the number `known` from elsewhere. Pure.
 * catalog_load() calls it. */
void catalog_judge_rounds(struct catalog *c, uint64_t known);
/* Sets each `abandoned` from this machine's copy of the record. catalog_load() calls it. */
void catalog_judge_lives(struct catalog *c, int dirfd);
/* Returns true if a dump may be chosen automatically. */
bool catalog_usable(const struct catalog_entry *c);
void catalog_free(struct catalog *c);
/* Returns the newest usable entry after skipping `skip` of them, or NULL. */
const struct catalog_entry *catalog_newest(const struct catalog *c, unsigned skip);
/* Returns true if `asked`, typed by a user, names this dump, as NAME.sql.gz or NAME. */
bool catalog_named(const char *name, const char *asked);
const struct catalog_entry *catalog_find(const struct catalog *c, const char *name);
/* Returns when it was last verified, and by which action ("dump": when it was stored); "" and ms 0:
 * it is not intact. */
wall_t catalog_proven(const struct catalog_entry *c, const char **by);
/* Returns true if one of the intact dumps is of the world with this nonce, or if the round was
 * begun with it. */
bool catalog_knows_nonce(const struct catalog *c, const char *nonce);

/* Deletes what killed workers left here and in rejected/: temporary files, .part files, and dump
 * files without a manifest that are older than the newest dump. Must not be called during a
 * dump. */
int catalog_sweep(int dirfd, const char *world, struct err *e);
/* Deletes a dump, its manifest first: a file without a manifest is not a dump, so a crash in
 * between leaves only a file for catalog_sweep(). */
int catalog_remove(int dirfd, const char *name, struct err *e);
/* Returns the dumps as retention_now() takes them, and after them `more` empty items, for other
 * files. The caller frees them. */
struct retention_item *catalog_dates(const struct catalog *c, size_t more);
/* Returns the time that retention counts as now (retention_now()). `interval`: the time between two
 * dumps, in ms. */
wall_t catalog_now(const struct catalog *c, int64_t interval, wall_t wall);
/* Deletes the dumps that retention.h does not keep, except those that could not be read. *removed
 * is their number. */
int catalog_retain(int dirfd, const char *world, const struct config_retention *rule,
                   int64_t interval, unsigned *removed, struct err *e);
/* Moves a complete .part with its manifest and `reason` into rejected/, where the last 3 of ours
 * are kept. */
int catalog_reject(int dirfd, struct manifest *m, const char *part, const char *reason,
                   struct err *e);

#endif
