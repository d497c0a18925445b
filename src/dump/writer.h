/* Takes one dump, in the order of effects of the contract:
 *   1 choose (generation, sequence), open NAME.sql.gz.part   2 snapshot, stream through gzip
 *   3 post-check, shrink guard                              4 fsync, read back from the disk,
 * verify 5 rename, fsync directory, manifest                     6 retention Between any two of
 * them the process may be killed: before the manifest nothing is a dump. */
#ifndef WK_DUMP_WRITER_H
#define WK_DUMP_WRITER_H

#include "dump/job.h"
#include "store/manifest.h"

struct dump_options {
    bool accept_shrink; /* an operator vouches for what is there */
    bool keep_all;      /* no retention after it: a restore is about to read an old one */
    const char *nonce;  /* of the world as we know it; NULL: not known. Another one is refused */
};

/* On success `*out` is the manifest of the stored dump (manifest_free). ERR_CHANGED with
 * out->rejected set: the dump was quarantined (out is filled then too). */
int dump_run(const struct job *job, const struct dump_options *opt, struct manifest *out,
             struct err *e);

const char *dump_method_name(enum config_method m);

#endif
