#include "dump/readback.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/text.h"
#include "core/thread.h"
#include "dump/verify.h"

/* Forced out and read back in steps of this size: small enough to keep up, large enough for a disk.
 */
#define STEP (4u << 20)
#define PAGE 4096u
#define TELL_MS 100

struct readback {
    int fd;
    char *name;
    pthread_t thread;
    bool running;
    struct verify_seen seen;
    struct progress progress; /* of the thread; what it reports is `rows` */
    _Atomic uint64_t rows;
    struct err failed;
    int rc;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    uint64_t size;
    bool whole, aborted, no_sync;
};

/* May the file be read on from `from`, and up to where? Before its end only whole pages, which will
 * be on the disk and nowhere else. */
static bool readable(const struct readback *r, uint64_t from, uint64_t *to)
{
    *to = r->aborted ? from : r->whole ? r->size : r->size & ~(uint64_t)(PAGE - 1);
    return r->aborted || r->whole || (*to >= from + STEP && !r->no_sync);
}

/* 0, or an errno. */
static int force_out(const struct readback *r, uint64_t from, uint64_t to)
{
    uint64_t start = from & ~(uint64_t)(PAGE - 1);
    int how = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (sync_file_range(r->fd, (off_t)start, (off_t)(to - start), (unsigned)how) < 0)
        return errno;
    posix_fadvise(r->fd, (off_t)start, (off_t)(to - start), POSIX_FADV_DONTNEED);
    return 0;
}

static uint64_t wait_for_file(void *arg, uint64_t from)
{
    struct readback *r = arg;
    uint64_t to;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!readable(r, from, &to))
            pthread_cond_wait(&r->changed, &r->lock);
        bool synced = r->whole || r->aborted;
        pthread_mutex_unlock(&r->lock);
        if (to == from)
            return from;
        int failed = synced ? 0 : force_out(r, from, to);
        if (synced)
            posix_fadvise(r->fd, (off_t)from, 0, POSIX_FADV_DONTNEED);
        if (!failed)
            return to;
        /* A file system that knows no ranges, or a write that failed: fsync() tells which. */
        pthread_mutex_lock(&r->lock);
        r->no_sync = true;
    }
}

static void *readback_main(void *arg)
{
    struct readback *r = arg;
    struct gunzip *in = gunzip_open(r->fd, r->name, &r->failed);
    r->rc = -1;
    if (!in)
        return NULL;
    gunzip_on_wait(in, wait_for_file, r);
    r->rc = verify_read(in, r->name, &r->seen, &r->progress, &r->failed);
    gunzip_close(in);
    return NULL;
}

static void note_rows(struct progress *p)
{
    ((struct readback *)p->arg)->rows = p->rows;
}

static void readback_free(struct readback *r)
{
    verify_seen_free(&r->seen);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    if (r->fd >= 0)
        close(r->fd);
    free(r->name);
    free(r);
}

struct readback *readback_start(int dirfd, const char *file, struct err *e)
{
    struct readback *r = xcalloc(1, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->name = xstrdup(file);
    r->progress = (struct progress){.report = note_rows, .arg = r};
    r->fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (r->fd < 0) {
        err_sys(e, errno, "cannot open %s", file);
        readback_free(r);
        return NULL;
    }
    r->running = thread_start(&r->thread, 0, readback_main, r) == 0;
    return r; /* without a thread the caller's own reads it back at the end */
}

void readback_grown(struct readback *r, uint64_t size)
{
    pthread_mutex_lock(&r->lock);
    r->size = size;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Told only when there was some: who watches takes silence for a stall. */
static void join(struct readback *r, struct progress *progress)
{
    struct timespec until;
    uint64_t told = 0;
    do {
        until = thread_deadline(TELL_MS);
        uint64_t rows = r->rows;
        if (rows != told)
            progress_at(progress, rows, 0);
        told = rows;
    } while (pthread_clockjoin_np(r->thread, NULL, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
}

static void end_thread(struct readback *r, bool whole, struct progress *progress)
{
    pthread_mutex_lock(&r->lock);
    r->whole = whole;
    r->aborted = !whole;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (r->running)
        join(r, progress);
    else if (whole)
        readback_main(r);
}

int readback_finish(struct readback *r, const struct manifest *m, struct progress *progress,
                    struct err *e)
{
    end_thread(r, true, progress);
    int rc = r->rc;
    if (rc < 0)
        *e = r->failed;
    else if ((rc = verify_compare(&r->seen, r->name, m, e)) == 0)
        rc = verify_size(r->fd, r->name, m, e); /* what is too much was not read */
    readback_free(r);
    return rc;
}

void readback_abort(struct readback *r)
{
    if (!r)
        return;
    end_thread(r, false, NULL);
    readback_free(r);
}
