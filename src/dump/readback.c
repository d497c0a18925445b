#include "dump/readback.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gunzip.h"
#include "base/text.h"
#include "base/thread_group.h"
#include "dump/verify.h"

/* Data is synced and read back in steps of this size: small enough to keep up with the writer,
 * large enough to be efficient on a disk. */
#define STEP (4u << 20)
#define PAGE 4096u
#define REPORT_MS 100

struct readback {
    int fd;
    char *name;
    struct manifest seen;
    struct progress progress; /* the thread's own; it only updates `rows` */
    _Atomic uint64_t rows;
    struct err failed;
    int rc;
    struct progress *reader; /* belongs to the caller that waits for the end */
    uint64_t reported;
    struct thread_group threads; /* holds one thread; its lock guards the fields below */
    struct gunzip_part *parts;
    size_t part_count, part_next;
    uint64_t size;
    bool whole, aborted, no_sync;
};

/* Returns whether the file can be read from `from` on, and up to which byte. A growing file is
 * read only in whole pages, because the cache drops only whole pages. */
static bool readback_readable(const struct readback *r, uint64_t from, uint64_t *to)
{
    *to = r->aborted ? from : r->whole ? r->size : r->size & ~(uint64_t)(PAGE - 1);
    return r->aborted || r->whole || (*to >= from + STEP && !r->no_sync);
}

/* Writes a range to the disk and drops it from the page cache. Returns 0 or an errno. */
static int force_out(const struct readback *r, uint64_t from, uint64_t to)
{
    uint64_t start = from & ~(uint64_t)(PAGE - 1);
    int how = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (sync_file_range(r->fd, (off_t)start, (off_t)(to - start), (unsigned)how) < 0)
        return errno;
    posix_fadvise(r->fd, (off_t)start, (off_t)(to - start), POSIX_FADV_DONTNEED);
    return 0;
}

/* Waits until the range is on the disk. Reading from the page cache would prove nothing about
 * the disk. */
static int wait_for_file(void *arg, uint64_t from, uint64_t *to, struct err *e)
{
    struct readback *r = arg;
    (void)e;
    pthread_mutex_lock(&r->threads.lock);
    for (;;) {
        while (!readback_readable(r, from, to))
            pthread_cond_wait(&r->threads.changed, &r->threads.lock);
        bool synced = r->whole || r->aborted;
        pthread_mutex_unlock(&r->threads.lock);
        if (*to == from)
            return 0;
        int failed = synced ? 0 : force_out(r, from, *to);
        if (synced)
            posix_fadvise(r->fd, (off_t)from, 0, POSIX_FADV_DONTNEED);
        if (!failed)
            return 0;
        /* Either the file system cannot sync ranges or a write failed. The later fsync() shows
         * which. */
        pthread_mutex_lock(&r->threads.lock);
        r->no_sync = true;
    }
}

/* Waits for the next part from the writer. Leaves `part` empty if there are no more parts. */
static void wait_for_part(void *arg, uint64_t from, struct gunzip_part *part)
{
    struct readback *r = arg;
    (void)from;
    pthread_mutex_lock(&r->threads.lock);
    while (r->part_next == r->part_count && !r->whole && !r->aborted)
        pthread_cond_wait(&r->threads.changed, &r->threads.lock);
    if (r->part_next < r->part_count)
        *part = r->parts[r->part_next++];
    pthread_mutex_unlock(&r->threads.lock);
}

/* Reads the file with the same reader and the same checks as a restore. */
static void read_it(void *arg)
{
    struct readback *r = arg;
    struct gunzip *in = gunzip_open(r->fd, r->name, &r->failed);
    r->rc = -1;
    if (!in)
        return;
    gunzip_on_wait(in, wait_for_file, r);
    gunzip_prove(in, wait_for_part, r);
    r->rc = verify_read(in, r->name, NULL, &r->seen, &r->progress, &r->failed);
    gunzip_close(in);
}

static void note_rows(struct progress *p)
{
    ((struct readback *)p->arg)->rows = p->rows;
}

/* Frees everything. The thread must have ended. */
static void readback_free(struct readback *r)
{
    manifest_free(&r->seen);
    free(r->parts);
    thread_group_end(&r->threads);
    if (r->fd >= 0)
        close(r->fd);
    free(r->name);
    free(r);
}

struct readback *readback_start(int dirfd, const char *file, struct err *e)
{
    struct readback *r = xcalloc(1, sizeof *r);
    thread_group_init(&r->threads);
    r->name = xstrdup(file);
    r->progress = (struct progress){.report = note_rows, .arg = r};
    r->fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (r->fd < 0) {
        err_sys(e, errno, "cannot open %s", file);
        readback_free(r);
        return NULL;
    }
    thread_group_start(&r->threads, read_it, r); /* without one, readback_finish() reads the file */
    return r;
}

void readback_part(struct readback *r, uint32_t length, const unsigned char sha256[SHA256_BYTES])
{
    struct gunzip_part part = {.length = length};
    memcpy(part.sha256, sha256, SHA256_BYTES);
    pthread_mutex_lock(&r->threads.lock);
    r->parts = xgrow(r->parts, r->part_count, sizeof *r->parts);
    r->parts[r->part_count++] = part;
    pthread_cond_broadcast(&r->threads.changed);
    pthread_mutex_unlock(&r->threads.lock);
}

void readback_grown(struct readback *r, uint64_t size)
{
    pthread_mutex_lock(&r->threads.lock);
    r->size = size;
    pthread_cond_broadcast(&r->threads.changed);
    pthread_mutex_unlock(&r->threads.lock);
}

/* Reports progress only if there was some, because the supervisor treats silence as a stall. */
static void readback_report(void *arg)
{
    struct readback *r = arg;
    uint64_t rows = r->rows;
    if (rows != r->reported)
        progress_at(r->reader, rows, 0);
    r->reported = rows;
}

/* Ends the thread. If none was started, the complete file is read here. */
static void end_thread(struct readback *r, bool whole, struct progress *progress)
{
    pthread_mutex_lock(&r->threads.lock);
    r->whole = whole;
    r->aborted = !whole;
    pthread_cond_broadcast(&r->threads.changed);
    pthread_mutex_unlock(&r->threads.lock);
    r->reader = progress;
    bool started = r->threads.count > 0;
    thread_group_wait(&r->threads, REPORT_MS, readback_report, r);
    if (!started && whole)
        read_it(r);
}

int readback_finish(struct readback *r, const struct manifest *m, struct progress *progress,
                    struct err *e)
{
    end_thread(r, true, progress);
    int rc = r->rc;
    if (rc < 0)
        *e = r->failed;
    else if ((rc = verify_compare(&r->seen, r->name, m, e)) == 0)
        rc = verify_size(r->fd, r->name, m, e); /* bytes after the end of the dump were not read */
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
