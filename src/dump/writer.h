/* Takes one dump. The order of its effects:
 *   1 choose (generation, sequence), open NAME.sql.gz.part
 *   2 snapshot, stream through gzip
 *   3 post-check: still the same server, world and definitions
 *   4 fsync, read back from the disk, verify; shrink guard
 *   5 rename, fsync the directory, write the manifest
 *   6 retention
 * The process may be killed between any two of them: a file without a manifest is not a dump. */
#ifndef WK_DUMP_WRITER_H
#define WK_DUMP_WRITER_H

#include "store/manifest.h"

struct job;

struct dump_options {
    bool
        /* no shrink guard: an operator accepts the rows as they are, without an alert */
        accept_shrink;
    bool keep_all; /* skip retention: a restore is about to read an old dump */
    /* nonce of our world; another world is refused unless a dump has it. NULL: not known */
    const char *nonce;
    json_t *shrunk; /* receives shrink_guard_tables() of a dump that shrank; NULL: not wanted */
    bool *stored; /* set to true when the dump counts, even if retention fails; NULL: not wanted */
};

/* Takes a dump. On success `*out` is the manifest of the stored dump (manifest_free). ERR_CHANGED
 * with out->rejected set: the dump was rejected; out is filled in this case too. */
int dump_run(const struct job *job, const struct dump_options *opt, struct manifest *out,
             struct err *e);

#endif
