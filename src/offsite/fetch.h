/* The way back: dumps and segments of the store come into the dump directory and the journal's, where
 * everything else finds them. Of a dump nothing is used before the signature of its manifest was checked;
 * its file is written, compared with the manifest, and only then the manifest, which makes it a dump. */
#ifndef WK_OFFSITE_FETCH_H
#define WK_OFFSITE_FETCH_H

#include <errno.h>

#include "base/progress.h"
#include "base/thread_group.h"
#include "offsite/copies.h"
#include "offsite/transfer.h"
#include "store/catalog.h"

struct fetch {
    const struct config *cfg;
    int dirfd;                 /* the dump directory */
    struct progress *progress; /* NULL is allowed */
    struct transfer t;
    struct copies there;
    uint64_t round; /* the highest that the store knew of when it was opened (rounds.h) */
    /* The journal is damaged, in the store or here, and was fetched as far as it is good. */
    struct err passed;
};
/* Connects and lists. */
int fetch_open(struct fetch *f, const struct config *cfg, int dirfd, struct progress *progress,
               struct err *e);
void fetch_close(struct fetch *f);
/* Lists once more. */
int fetch_again(struct fetch *f, struct err *e);
/* The manifest of one of there.dumps; `intact` as below. 1: it is not there any more, and not intact. */
int fetch_manifest(struct fetch *f, const struct copy_dump *d, struct catalog_entry *out,
                   struct err *e);
/* Raises it to that of the newest dump there with a good manifest. A world that is restored from there is of a
 * later one than all that is there: else it could not be stored there again. */
int fetch_above(struct fetch *f, uint64_t *generation, struct err *e);
/* The dumps there, by their manifests; `intact`: a good manifest, whose file is there. */
int fetch_catalog(struct fetch *f, struct catalog *out, struct err *e);
/* Reads the file of one to its end: it lies there as its manifest says, and is the dump, as far as that
 * can be read here. */
int fetch_verify(struct fetch *f, const struct manifest *m, struct err *e);
/* The same, or ERR_CONFIG where it cannot be read here. */
int fetch_prove(struct fetch *f, const struct manifest *m, struct err *e);
/* A dump on its way into the dump directory, which can be read meanwhile. It uses the store's connection: nothing
 * else does until it is closed. */
struct fetch_beside {
    struct fetch *f;
    const struct manifest *m; /* borrowed */
    char *part;
    struct arrival file; /* fd -1: it is not open */
    struct thread_group thread;
    bool settled;
};
/* Looks for room and makes the file. */
int fetch_beside_open(struct fetch *f, const struct manifest *m, struct fetch_beside *b,
                      struct err *e);
int fetch_beside_start(struct fetch_beside *b, struct err *e);
/* Waits for its end, and makes it a dump of the directory. `b` is a struct fetch_beside. */
int fetch_beside_settle(void *b, struct err *e);
/* What has not become a dump is removed. */
void fetch_beside_close(struct fetch_beside *b);
/* All of it, into the dump directory. ERR_DAMAGED: the store has no good file of it. */
int fetch_dump(struct fetch *f, const struct manifest *m, struct err *e);
/* Number of an error of class REFUSED: a segment that is here is of another life of the world than the one in the store. */
#define FETCH_OTHER_SEGMENT EEXIST
/* Of the journal all that comes after this dump, whatever [journal] says; what is here already stays, and gets what it
 * lacks. */
int fetch_segments(struct fetch *f, const struct manifest *m, struct err *e);

#endif
