/* What is in the dump directory, rebuilt from the manifests at any time; there is no other index.
 */
#ifndef WK_STORE_CATALOG_H
#define WK_STORE_CATALOG_H

#include "config/config.h"
#include "store/manifest.h"

struct catalog_entry {
    struct manifest m; /* m.name is set also when it could not be read */
    bool intact;       /* manifest readable, file there with its size; content is not read */
    bool unread;       /* not intact only because the system would not let us look */
    bool unproven;     /* not intact only for want of a good seal: neither taken nor deleted */
    char reason[512];  /* why not */
};

struct catalog {
    struct catalog_entry *list; /* newest first, by (generation, sequence) */
    size_t count;
    uint64_t generation, sequence; /* highest seen in any name: dumps, .part, rejected */
};

/* `dirfd` is the dump directory. */
int catalog_load(int dirfd, const char *world, struct catalog *out, struct err *e);
/* The same for rejected/. */
int catalog_load_rejected(int dirfd, const char *world, struct catalog *out, struct err *e);
void catalog_free(struct catalog *c);
/* Newest intact entry after skipping `skip` of them; NULL when there is none. */
const struct catalog_entry *catalog_newest(const struct catalog *c, unsigned skip);
const struct catalog_entry *catalog_find(const struct catalog *c, const char *name);
/* Whose nonce is this: true when one of the dumps was made under it. */
bool catalog_knows_nonce(const struct catalog *c, const char *nonce);

/* Left-overs of killed workers, here and in rejected/: temporary files, .part files, dump files
 * that never got a manifest and are older than the newest dump. Only called while no dump runs. */
int catalog_sweep(int dirfd, const char *world, struct err *e);
/* One dump, its manifest first: a dump without one is none, so a crash in between leaves only a
 * left-over. */
int catalog_remove(int dirfd, const char *name, struct err *e);
/* Deletes what retention.h lets go; *removed counts. What could not be read stays.
 */
int catalog_retain(int dirfd, const char *world, const struct config_retention *rule,
                   unsigned *removed, struct err *e);
/* Moves a finished .part into rejected/ with its manifest and reason; keeps the last 3 there. */
int catalog_reject(int dirfd, struct manifest *m, const char *part, const char *reason,
                   struct err *e);

#endif
