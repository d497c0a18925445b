/* The context that the caller passes to every job (dump, restore, verify, drill). All borrowed. */
#ifndef WK_MYSQL_JOB_H
#define WK_MYSQL_JOB_H

#include "base/progress.h"
#include "config/config.h"
#include "mysql/conn.h"

struct job {
    const struct config *cfg;
    struct db_params db; /* without a default schema */
    int dirfd;           /* the dump directory */
    struct progress *progress;
    /* Called by job_note(); may be NULL. */
    void (*note)(void *arg, const char *text);
    void *note_arg;
    /* Called when a restore is about to swap in a world with this nonce, which the supervisor must
     * expect from now on. */
    void (*swapping)(void *arg, const char *nonce, uint64_t generation);
    /* Called by a restore that waits for other sessions, with what people can do about it; may be
     * NULL. */
    void (*blocked)(void *arg, const char *text, const char *hint);
};

/* Opens a connection whose default schema is the world's. */
struct db *job_open(const struct job *job, struct err *e);
/* Shows a line of text while the job runs. */
void job_note(const struct job *job, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
