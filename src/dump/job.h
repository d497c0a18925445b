/* What every job (dump, restore, verify, drill) is given by whoever starts it. All borrowed. */
#ifndef WK_DUMP_JOB_H
#define WK_DUMP_JOB_H

#include "config/config.h"
#include "core/progress.h"
#include "db/conn.h"

struct job {
    const struct config *cfg;
    struct db_params db; /* without a default schema */
    int dirfd;           /* the dump directory */
    struct progress *progress;
    /* One line for people while the job goes on ("dump X skipped: …"); may be NULL. */
    void (*note)(void *arg, const char *text);
    void *note_arg;
    /* A restore is about to swap a world with this nonce in: who watches must expect it from now
     * on. */
    void (*swapping)(void *arg, const char *nonce, uint64_t generation);
};

#endif
