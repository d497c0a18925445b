/* Fetches dumps and segments from the store into the dump directory and the journal's, where all
 * other code finds them. No dump is used before the signature of its manifest was checked. Its file
 * is written and compared with the manifest; the manifest, which makes it a dump, is written
 * last. */
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
    uint64_t round; /* the highest round that the store knew when it was listed (rounds.h) */
    /* The journal is damaged, in the store or here, or a part of it cannot be read; what is intact
     * before that was fetched. */
    struct err passed;
    bool unread;    /* an object was given up with FETCH_UNREADABLE, and the store may have more */
    int64_t waited; /* ms between attempts to read such objects */
};
/* Error number: one object cannot be read, although the store answers. The error has the class of
 * the store's answer. */
#define FETCH_UNREADABLE ENODATA
/* Connects and lists the store. */
int fetch_open(struct fetch *f, const struct config *cfg, int dirfd, struct progress *progress,
               struct err *e);
void fetch_close(struct fetch *f);
/* Takes a lock file of the dump directory. Waits up to 30 s, because its holder may be fetching a
 * large file. Returns the descriptor, or -1 with ERR_BUSY. */
int fetch_lock(int dirfd, const char *name, struct progress *progress, struct err *e);
/* Checks the free space before anything is fetched into this directory. */
int fetch_check_room(int dirfd, const char *dir, uint64_t bytes, struct err *e);
/* ERR_CONFIG: the object is encrypted, and there is no key to read it. */
int fetch_need_identity(const struct fetch *f, const char *file, struct err *e);
/* Lists the store again. */
int fetch_again(struct fetch *f, struct err *e);
/* Reads the manifest of one of there.dumps; out->intact is set as by fetch_catalog(). Returns 1,
 * with out->intact false, if the dump is no longer in the store. */
int fetch_manifest(struct fetch *f, const struct copy_dump *d, struct catalog_entry *out,
                   struct err *e);
/* Raises the generation to that of the newest dump there with a valid manifest. A world restored
 * from there gets a later generation than everything there; otherwise it could not be stored there
 * again. */
int fetch_above(struct fetch *f, uint64_t *generation, struct err *e);
/* Reads the manifests in the store. A dump is `intact` if its manifest is valid and its file is in
 * the store. */
int fetch_catalog(struct fetch *f, struct catalog *out, struct err *e);
/* Reads a dump's file to its end: checks that it matches its manifest and is the dump, as far as it
 * can be read here. Errors as those of fetch_dump(). */
int fetch_verify(struct fetch *f, const struct manifest *m, struct err *e);
/* Like fetch_verify(), but ERR_CONFIG if it cannot be read here. */
int fetch_prove(struct fetch *f, const struct manifest *m, struct err *e);
/* A dump that is being fetched into the dump directory, and can be read meanwhile. It uses the
 * store's connection exclusively until it is closed. */
struct fetch_beside {
    struct fetch *f;
    const struct manifest *m; /* borrowed */
    char *part;
    struct arrival file; /* fd -1: it is not open */
    struct thread_group thread;
    bool settled;
};
/* Checks for enough space and creates the file. */
int fetch_beside_open(struct fetch *f, const struct manifest *m, struct fetch_beside *b,
                      struct err *e);
int fetch_beside_start(struct fetch_beside *b, struct err *e);
/* Waits for its end, and makes it a dump of the directory. `b` is a struct fetch_beside. */
int fetch_beside_settle(void *b, struct err *e);
/* Closes it; removes a file that has not become a dump. */
void fetch_beside_close(struct fetch_beside *b);
/* Fetches a whole dump into the dump directory. ERR_DAMAGED: the store has no intact file of it.
 * FETCH_UNREADABLE: its file cannot be read. */
int fetch_dump(struct fetch *f, const struct manifest *m, struct err *e);
/* Error number (class REFUSED): a segment here is of another life of the world than the one in the
 * store. */
#define FETCH_OTHER_SEGMENT EEXIST
/* Fetches the whole journal after this dump, whatever [journal] says. Existing files stay, and are
 * completed. */
int fetch_segments(struct fetch *f, const struct manifest *m, struct err *e);

#endif
