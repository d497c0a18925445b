#include "report/queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/file.h"

#define DIGITS 12
#define NUMBER_MAX UINT64_C(999999999999)
#define NAME_MAX_ 40
#define FILE_MAX_ 65536 /* bytes of one queue file */
#define BAD_KEPT 10     /* files set aside */
#define LOCK_TRIES 250  /* of 20 ms */
#define RESERVE_BYTES 16384

/* What the directory holds. */
struct scan {
    uint64_t *num, *bad; /* sorted; .json and .json.bad */
    size_t n, nbad;
};

static void scan_free(struct scan *s)
{
    free(s->num);
    free(s->bad);
    *s = (struct scan){0};
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void append(uint64_t **list, size_t *n, uint64_t v)
{
    if ((*n & (*n - 1)) == 0) /* a power of two (or none): full */
        *list = xrealloc(*list, (*n ? 2 * *n : 1) * sizeof **list);
    (*list)[(*n)++] = v;
}

/* "<12 digits><suffix>" */
static bool parse_name(const char *name, const char *suffix, uint64_t *v)
{
    if (strspn(name, "0123456789") != DIGITS || strcmp(name + DIGITS, suffix) != 0)
        return false;
    *v = strtoull(name, NULL, 10);
    return true;
}

static int scan_dir(int dirfd, struct scan *s, struct err *e)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int keep = errno;
        if (fd >= 0)
            close(fd);
        return err_sys(e, keep, "cannot read the alerts directory");
    }
    struct dirent *ent;
    errno = 0;
    while ((ent = readdir(d))) {
        uint64_t v;
        if (parse_name(ent->d_name, ".json", &v))
            append(&s->num, &s->n, v);
        else if (parse_name(ent->d_name, ".json.bad", &v))
            append(&s->bad, &s->nbad, v);
        errno = 0;
    }
    int keep = errno;
    closedir(d);
    if (s->n)
        qsort(s->num, s->n, sizeof *s->num, by_number);
    if (s->nbad)
        qsort(s->bad, s->nbad, sizeof *s->bad, by_number);
    return keep ? err_sys(e, keep, "cannot read the alerts directory") : 0;
}

static void file_name(char out[NAME_MAX_], uint64_t v, const char *suffix)
{
    snprintf(out, NAME_MAX_, "%0*" PRIu64 "%s", DIGITS, v, suffix);
}

/* Waits for the lock a few seconds at most: its holder may have been stopped. */
static int lock_queue(int dirfd, struct err *e)
{
    struct err why;
    int fd = file_open(dirfd, "lock", O_RDWR | O_CREAT, &why);
    if (fd < 0 && (why.cls == ERR_NOSPACE || why.num == EROFS)) /* the next best thing */
        fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        err_step(&why, "the lock of the alert queue");
        if (e)
            *e = why;
        return -1;
    }
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    int keep = errno;
    close(fd);
    if (keep == EWOULDBLOCK)
        return err_set(e, ERR_BUSY, keep, "the alert queue is locked by another process");
    return err_sys(e, keep, "cannot lock the alert queue");
}

/* Done marks */

static void mark_name(char out[NAME_MAX_], enum alert_channel ch)
{
    snprintf(out, NAME_MAX_, "%s.done", alert_channel_name(ch));
}

enum mark { MARK_NONE, MARK_OK, MARK_DAMAGED };

static int mark_read(int dirfd, enum alert_channel ch, enum mark *what, uint64_t *v, struct err *e)
{
    char name[NAME_MAX_];
    struct buf b = {0};
    struct err why = {0};
    mark_name(name, ch);
    *v = 0;
    *what = MARK_OK;
    if (file_read(dirfd, name, 64, &b, &why) < 0) {
        *what = why.num == ENOENT ? MARK_NONE : MARK_DAMAGED;
    } else if (b.len != DIGITS + 1 || !parse_name(b.p, "\n", v)) {
        *what = MARK_DAMAGED;
    }
    buf_free(&b);
    /* Out of descriptors and the like: says nothing about the mark. */
    if (*what == MARK_DAMAGED && (why.num == EMFILE || why.num == ENFILE || why.num == EACCES)) {
        if (e)
            *e = why;
        return -1;
    }
    return 0;
}

/* On a full disk a mark that exists is written in place: it is a dozen bytes in one sector. Without
 * that the same mail would go out again and again for as long as the disk is full. */
static int mark_overwrite(int dirfd, const char *name, const char *text, size_t len, struct err *e)
{
    struct err why;
    int fd = file_open(dirfd, name, O_WRONLY, &why);
    if (fd < 0)
        return -1;
    int rc = pwrite(fd, text, len, 0) == (ssize_t)len && fsync(fd) == 0 ? 0 : -1;
    close(fd);
    if (rc == 0)
        err_clear(e);
    return rc;
}

static int mark_write(int dirfd, enum alert_channel ch, uint64_t v, struct err *e)
{
    char name[NAME_MAX_], text[NAME_MAX_];
    struct err why = {0};
    mark_name(name, ch);
    file_name(text, v, "\n");
    if (file_commit(dirfd, name, text, strlen(text), 0600, &why) == 0)
        return 0;
    if (why.cls == ERR_NOSPACE && mark_overwrite(dirfd, name, text, strlen(text), &why) == 0)
        return 0;
    if (e)
        *e = why;
    return -1;
}

/* The last number ever given, as far as the directory knows. */
static int last_number(int dirfd, const struct scan *s, uint64_t *last, struct err *e)
{
    *last = s->n ? s->num[s->n - 1] : 0;
    if (s->nbad && s->bad[s->nbad - 1] > *last)
        *last = s->bad[s->nbad - 1];
    for (int ch = 0; ch < ALERT_CHANNELS; ch++) {
        enum mark what;
        uint64_t v;
        if (mark_read(dirfd, (enum alert_channel)ch, &what, &v, e) < 0)
            return -1;
        if (v > *last)
            *last = v;
    }
    return 0;
}

/* A channel's mark; made at the end of the queue when there is none. A damaged one counts as
 * "nothing delivered": what is still kept goes out once more, rather than never. */
static int mark_get(int dirfd, enum alert_channel ch, const struct scan *s, uint64_t *v,
                    struct err *e)
{
    enum mark what;
    uint64_t last;
    if (mark_read(dirfd, ch, &what, v, e) < 0)
        return -1;
    if (what == MARK_OK)
        return 0;
    if (last_number(dirfd, s, &last, e) < 0)
        return -1;
    *v = last;
    if (what == MARK_DAMAGED) {
        uint64_t first = s->n ? s->num[0] : last + 1;
        *v = first ? first - 1 : 0;
    }
    return mark_write(dirfd, ch, *v, e);
}

/* A channel that is on has a mark, one that is off has none: when it comes back, it begins anew. */
static int marks_follow_config(const struct config *c, int dirfd, const struct scan *s,
                               struct err *e)
{
    for (int i = 0; i < ALERT_CHANNELS; i++) {
        enum alert_channel ch = (enum alert_channel)i;
        char name[NAME_MAX_];
        uint64_t v;
        mark_name(name, ch);
        if (!alert_channel_on(c, ch))
            file_remove(dirfd, name, NULL);
        else if (mark_get(dirfd, ch, s, &v, e) < 0)
            return -1;
    }
    return 0;
}

/* Tidying */

/* Removes what every channel that is on has delivered, and the oldest of what was set aside.
 * Failures wait for the next time. */
static void tidy(const struct config *c, int dirfd, const struct scan *s)
{
    uint64_t all = UINT64_MAX;
    char name[NAME_MAX_];
    for (int i = 0; i < ALERT_CHANNELS; i++) {
        enum mark what;
        uint64_t v;
        if (!alert_channel_on(c, (enum alert_channel)i))
            continue;
        if (mark_read(dirfd, (enum alert_channel)i, &what, &v, NULL) < 0 || what != MARK_OK)
            v = 0;
        if (v < all)
            all = v;
    }
    for (size_t i = 0; i < s->n && s->num[i] <= all && all != UINT64_MAX; i++) {
        file_name(name, s->num[i], ".json");
        file_remove(dirfd, name, NULL);
    }
    for (size_t i = 0; i + BAD_KEPT < s->nbad; i++) {
        file_name(name, s->bad[i], ".json.bad");
        file_remove(dirfd, name, NULL);
    }
}

/* Drops the oldest beyond `max`. */
static void drop_oldest(int dirfd, const struct scan *s, size_t max)
{
    for (size_t i = 0; i + max < s->n; i++) {
        char name[NAME_MAX_];
        file_name(name, s->num[i], ".json");
        file_remove(dirfd, name, NULL);
    }
}

/* Adding */

/* Room for the next few alerts: the first thing that a full disk has to be able to store is the
 * alert that the disk is full. No room for it either is no error. */
static void reserve_make(int dirfd)
{
    int fd = openat(dirfd, "reserve", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    int rc = posix_fallocate(fd, 0, RESERVE_BYTES);
    close(fd);
    if (rc != 0)
        unlinkat(dirfd, "reserve", 0);
}

static int commit_alert(int dirfd, const char *name, const char *text, struct err *e)
{
    struct err why = {0};
    if (file_commit(dirfd, name, text, strlen(text), 0600, &why) == 0)
        return 0;
    if (why.cls == ERR_NOSPACE && unlinkat(dirfd, "reserve", 0) == 0 &&
        file_commit(dirfd, name, text, strlen(text), 0600, &why) == 0)
        return 0;
    if (e)
        *e = why;
    return -1;
}

static int add_locked(const struct config *c, int dirfd, const char *text, struct err *e)
{
    struct scan s = {0};
    uint64_t last;
    char name[NAME_MAX_];
    int rc = scan_dir(dirfd, &s, e);
    if (rc == 0)
        rc = marks_follow_config(c, dirfd, &s, e);
    if (rc == 0)
        rc = last_number(dirfd, &s, &last, e);
    if (rc == 0 && last >= NUMBER_MAX) {
        rc = err_set(e, ERR_DAMAGED, 0, "the alert queue has a number that is too large");
        err_hint(e, "remove the files in the alerts directory");
    }
    if (rc == 0) {
        file_name(name, last + 1, ".json");
        rc = commit_alert(dirfd, name, text, e);
    }
    if (rc == 0)
        drop_oldest(dirfd, &s, ALERT_QUEUE_MAX - 1);
    scan_free(&s);
    return rc;
}

int alert_queue_add(const struct config *c, int dirfd, const json_t *alert, struct err *e)
{
    if (!alert_channel_on(c, ALERT_SMTP) && !alert_channel_on(c, ALERT_WEBHOOK))
        return 0;
    struct buf text = {0};
    char *s = json_dumps(alert, JSON_INDENT(2));
    buf_printf(&text, "%s\n", s ? s : "{}");
    free(s);
    int rc = -1, lock = lock_queue(dirfd, e);
    if (lock >= 0) {
        rc = add_locked(c, dirfd, text.p, e);
        if (rc == 0)
            reserve_make(dirfd);
        close(lock);
    }
    buf_free(&text);
    if (rc < 0)
        err_step(e, "alert not queued");
    else
        fault_point("alert.queued");
    return rc;
}

int alert_queue_waiting(int dirfd, enum alert_channel ch, struct err *e)
{
    struct scan s = {0};
    enum mark what;
    uint64_t mark;
    int waiting = 0;
    if (scan_dir(dirfd, &s, e) < 0 || mark_read(dirfd, ch, &what, &mark, e) < 0)
        waiting = -1;
    else if (what != MARK_NONE)
        for (size_t i = 0; i < s.n; i++)
            waiting += s.num[i] > mark;
    scan_free(&s);
    return waiting;
}

/* Loading */

/* One alert, or NULL: it is gone, or was no alert and has been set aside. */
static json_t *load_one(int dirfd, uint64_t v, bool *damaged)
{
    char name[NAME_MAX_], bad[NAME_MAX_];
    struct buf b = {0};
    struct err why = {0};
    json_t *j = NULL;
    file_name(name, v, ".json");
    *damaged = false;
    if (file_read(dirfd, name, FILE_MAX_, &b, &why) == 0)
        j = json_loadb(b.p, b.len, 0, NULL);
    buf_free(&b);
    if (json_is_object(j) && json_is_string(json_object_get(j, "what")))
        return j;
    json_decref(j);
    if (why.num == ENOENT || why.num == EMFILE || why.num == ENFILE)
        return NULL;
    *damaged = true;
    file_name(bad, v, ".json.bad");
    file_rename(dirfd, name, dirfd, bad, NULL);
    return NULL;
}

static void load_waiting(int dirfd, const struct scan *s, uint64_t mark, struct queue_batch *out)
{
    for (size_t i = 0; i < s->n; i++) {
        bool damaged;
        if (s->num[i] <= mark)
            continue;
        json_t *j = load_one(dirfd, s->num[i], &damaged);
        if (j) {
            json_array_append_new(out->alerts, j);
            out->upto = s->num[i];
        }
        out->damaged += damaged;
    }
    size_t loaded = json_array_size(out->alerts);
    if (loaded == 0) {
        out->damaged = 0; /* told with the next one */
        return;
    }
    for (size_t i = 0; i < s->nbad; i++)
        out->damaged += s->bad[i] > mark && s->bad[i] < out->upto;
    uint64_t missing = out->upto - mark - loaded;
    out->dropped = missing < UINT32_MAX ? (unsigned)missing : UINT32_MAX;
    if (out->damaged > out->dropped)
        out->damaged = out->dropped;
}

int queue_load(const struct config *c, int dirfd, enum alert_channel ch, struct queue_batch *out,
               struct err *e)
{
    struct scan s = {0};
    uint64_t mark;
    *out = (struct queue_batch){.alerts = json_array()};
    /* Locked: a name given while the directory is being read may be missed and a later one seen. */
    int lock = lock_queue(dirfd, e);
    if (lock < 0)
        return -1;
    int rc = scan_dir(dirfd, &s, e);
    if (rc == 0)
        rc = mark_get(dirfd, ch, &s, &mark, e);
    if (rc == 0) {
        load_waiting(dirfd, &s, mark, out);
        tidy(c, dirfd, &s);
    }
    scan_free(&s);
    close(lock);
    return rc;
}

void queue_batch_free(struct queue_batch *b)
{
    json_decref(b->alerts);
    b->alerts = NULL;
}

int queue_done(const struct config *c, int dirfd, enum alert_channel ch, uint64_t upto,
               struct err *e)
{
    struct scan s = {0};
    if (mark_write(dirfd, ch, upto, e) < 0)
        return -1;
    if (scan_dir(dirfd, &s, NULL) == 0)
        tidy(c, dirfd, &s);
    scan_free(&s);
    return 0;
}
