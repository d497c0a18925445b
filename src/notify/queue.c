#include "notify/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "base/line.h"
#include "base/number.h"
#include "store/kept.h"
#include "store/signature.h"

/* File names hold the order of the alerts; mark files hold what was delivered, and only they are
 * rewritten. After a crash an alert may be sent twice, so that none is lost. */

#define DIGITS 12
#define NUMBER_MAX UINT64_C(999999999999)
#define NAME_MAX_ 80
#define MARK ".done"
#define FILE_MAX_ 65536 /* bytes of one queue file */
#define BAD_KEPT 10     /* number of damaged files that are kept */
#define LOCK_TRIES 250  /* one every 20 ms */
#define RESERVE_BYTES                                                                              \
    16384 /* four blocks of 4 KiB: open incidents, a few alerts, a mark of what was sent */

/* Damaged and missing marks differ: a channel without a mark begins at the end of the queue. */
enum mark { MARK_NONE, MARK_OK, MARK_DAMAGED };

/* The contents of the queue directory. */
struct shelf {
    uint64_t *num, *bad; /* sorted numbers of .json and .json.bad files */
    size_t n, nbad;
    struct {
        enum mark what;
        uint64_t at;
    } mark[ALERT_CHANNELS]; /* MARK_NONE if the channel is off */
};

static void shelf_free(struct shelf *s)
{
    free(s->num);
    free(s->bad);
    *s = (struct shelf){0};
}

static int queue_by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Parses "<12 digits><suffix>". */
static bool queue_parse_name(const char *name, const char *suffix, uint64_t *v)
{
    const char *end = name;
    return number_digits(&end, UINT64_MAX, v) && end == name + DIGITS && strcmp(end, suffix) == 0;
}

static void queue_file_name(char out[NAME_MAX_], uint64_t v, const char *suffix)
{
    snprintf(out, NAME_MAX_, "%0*" PRIu64 "%s", DIGITS, v, suffix);
}

static void mark_name(const struct config *c, char out[NAME_MAX_], enum alert_channel ch)
{
    snprintf(out, NAME_MAX_, "%s" MARK, alert_channel_name(c, ch));
}

/* Lists the numbers in the directory; other files are ignored. */
static int read_names(int dirfd, struct shelf *s, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    uint64_t v;
    if (file_list(dirfd, "cannot read the alerts directory", &found, e) < 0)
        return -1;
    for (size_t i = 0; i < found.count; i++) {
        bool good = queue_parse_name(found.list[i], ".json", &v);
        if (!good && !queue_parse_name(found.list[i], ".json.bad", &v))
            continue;
        uint64_t **list = good ? &s->num : &s->bad;
        size_t *n = good ? &s->n : &s->nbad;
        *list = xgrow(*list, *n, sizeof **list);
        (*list)[(*n)++] = v;
    }
    if (s->n)
        qsort(s->num, s->n, sizeof *s->num, queue_by_number);
    if (s->nbad)
        qsort(s->bad, s->nbad, sizeof *s->bad, queue_by_number);
    return 0;
}

static int queue_read_mark(const struct config *c, int dirfd, enum alert_channel ch,
                           struct shelf *s, struct err *e)
{
    char name[NAME_MAX_];
    SCOPED(buf_free) struct buf b = {0};
    struct err why = {0};
    mark_name(c, name, ch);
    s->mark[ch].what = MARK_OK;
    if (file_read(dirfd, name, 64, &b, &why) < 0)
        s->mark[ch].what = why.num == ENOENT ? MARK_NONE : MARK_DAMAGED;
    else if (b.len != DIGITS + 1 || !queue_parse_name(b.p, "\n", &s->mark[ch].at))
        s->mark[ch].what = MARK_DAMAGED;
    /* These errors (too many open files, for example) do not mean that the mark is damaged. */
    if (why.num != EMFILE && why.num != ENFILE && why.num != EACCES)
        return 0;
    return err_pass(e, &why);
}

static int read_shelf(const struct config *c, int dirfd, struct shelf *s, struct err *e)
{
    int rc = read_names(dirfd, s, e);
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS && rc == 0; ch++)
        if (alert_channel_on(c, ch))
            rc = queue_read_mark(c, dirfd, ch, s, e);
    return rc;
}

/* Waits at most a few seconds for the lock, because the process that holds it may be stopped. */
static int lock_queue(int dirfd, struct err *e)
{
    struct err why;
    int fd = file_open(dirfd, "lock", O_RDWR | O_CREAT, &why);
    if (fd < 0 && (why.cls == ERR_NOSPACE || why.num == EROFS)) /* lock the directory instead */
        fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        err_step(&why, "the lock of the alert queue");
        return err_pass(e, &why);
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

/* Overwrites an existing mark in place if the disk is full: it is a dozen bytes in one sector.
 * Without this, the same mail would be repeated as long as the disk is full. */
static int overwrite_mark(int dirfd, const char *name, const char *text, size_t len, struct err *e)
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

static int write_mark(const struct config *c, int dirfd, enum alert_channel ch, uint64_t v,
                      struct err *e)
{
    char name[NAME_MAX_], text[NAME_MAX_];
    struct err why = {0};
    mark_name(c, name, ch);
    queue_file_name(text, v, "\n");
    if (file_commit(dirfd, name, text, strlen(text), 0600, &why) == 0)
        return 0;
    if (why.cls == ERR_NOSPACE && overwrite_mark(dirfd, name, text, strlen(text), &why) == 0)
        return 0;
    return err_pass(e, &why);
}

/* Returns the highest number that was assigned, as far as the directory shows. */
static uint64_t last_number(const struct shelf *s)
{
    uint64_t last = s->n ? s->num[s->n - 1] : 0;
    if (s->nbad && s->bad[s->nbad - 1] > last)
        last = s->bad[s->nbad - 1];
    for (int ch = 0; ch < ALERT_CHANNELS; ch++)
        if (s->mark[ch].at > last)
            last = s->mark[ch].at;
    return last;
}

/* Gives each enabled channel a mark. A missing mark starts at the end of the queue, because the
 * channel is new in the config. A damaged mark counts as "nothing delivered": the remaining alerts
 * are sent again, so that none is lost. */
static int make_marks(const struct config *c, int dirfd, struct shelf *s, struct err *e)
{
    uint64_t last = last_number(s), first = s->n ? s->num[0] : last + 1;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        if (!alert_channel_on(c, ch) || s->mark[ch].what == MARK_OK)
            continue;
        s->mark[ch].at = s->mark[ch].what == MARK_NONE ? last : first ? first - 1 : 0;
        if (write_mark(c, dirfd, ch, s->mark[ch].at, e) < 0)
            return -1;
        s->mark[ch].what = MARK_OK;
    }
    return 0;
}

/* Removes the files of the list up to the number `upto`. The next call retries failures. */
static void remove_files(int dirfd, const uint64_t *list, size_t n, uint64_t upto,
                         const char *suffix)
{
    char name[NAME_MAX_];
    for (size_t i = 0; i < n && list[i] <= upto; i++) {
        queue_file_name(name, list[i], suffix);
        file_remove(dirfd, name, NULL);
    }
}

/* Removes the alerts that every enabled channel has delivered, and the oldest rejected files. */
static void queue_tidy(const struct config *c, int dirfd, const struct shelf *s)
{
    uint64_t all = UINT64_MAX;
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
        if (alert_channel_on(c, ch) && s->mark[ch].at < all)
            all = s->mark[ch].what == MARK_OK ? s->mark[ch].at : 0;
    if (all != UINT64_MAX)
        remove_files(dirfd, s->num, s->n, all, ".json");
    if (s->nbad > BAD_KEPT)
        remove_files(dirfd, s->bad, s->nbad - BAD_KEPT, UINT64_MAX, ".json.bad");
}

/* Adding */

/* Reserves space for the next few alerts, so that an alert about a full disk can still be stored.
 * If there is no space for the reserve, this is not an error. */
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

int queue_save(int dirfd, const char *name, size_t max, const json_t *o, struct err *e)
{
    struct err why = {0};
    if (kept_save(dirfd, name, max, json_copy((json_t *)(uintptr_t)o), &why) == 0)
        return 0;
    if (why.cls == ERR_NOSPACE && unlinkat(dirfd, "reserve", 0) == 0 &&
        kept_save(dirfd, name, max, json_copy((json_t *)(uintptr_t)o), &why) == 0)
        return 0;
    return err_pass(e, &why);
}

/* Removes the marks of channels that are not in the config. A channel that is enabled again later
 * starts at the end of the queue. */
static int forget_marks(const struct config *c, int dirfd, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    char name[NAME_MAX_];
    if (file_list(dirfd, "cannot read the alerts directory", &found, e) < 0)
        return -1;
    for (size_t i = 0; i < found.count; i++) {
        size_t len = strlen(found.list[i]), end = sizeof MARK - 1;
        bool known = len <= end || strcmp(found.list[i] + len - end, MARK) != 0;
        for (enum alert_channel ch = 0; ch < ALERT_CHANNELS && !known; ch++) {
            mark_name(c, name, ch);
            known = alert_channel_on(c, ch) && strcmp(name, found.list[i]) == 0;
        }
        if (!known)
            file_remove(dirfd, found.list[i], NULL);
    }
    return 0;
}

static int add_locked(const struct config *c, int dirfd, const json_t *alert, uint64_t *number,
                      struct err *e)
{
    SCOPED(shelf_free) struct shelf s = {0};
    char name[NAME_MAX_];
    int rc = forget_marks(c, dirfd, e);
    if (rc == 0)
        rc = read_shelf(c, dirfd, &s, e);
    if (rc == 0)
        rc = make_marks(c, dirfd, &s, e);
    uint64_t next = last_number(&s) + 1;
    if (rc == 0 && next > NUMBER_MAX) {
        rc = err_set(e, ERR_DAMAGED, 0, "the alert queue has a number that is too large");
        err_hint(e, "remove the files in the alerts directory");
    }
    if (rc == 0) {
        queue_file_name(name, next, ".json");
        rc = queue_save(dirfd, name, FILE_MAX_, alert, e);
    }
    if (rc == 0) {
        if (s.n >= ALERT_QUEUE_MAX)
            remove_files(dirfd, s.num, s.n - (ALERT_QUEUE_MAX - 1), UINT64_MAX, ".json");
        *number = next;
    }
    return rc;
}

/* Holds the lock from choosing the number until the file exists, so that no two processes use the
 * same number. */
int queue_add(const struct config *c, int dirfd, const json_t *alert, uint64_t *number,
              struct err *e)
{
    *number = 0;
    if (!config_any_channel(c))
        return 0;
    int rc = -1, lock = lock_queue(dirfd, e);
    if (lock >= 0) {
        rc = add_locked(c, dirfd, alert, number, e);
        if (rc == 0)
            reserve_make(dirfd);
        close(lock);
    }
    if (rc < 0)
        err_step(e, "alert not queued");
    else
        fault_point("alert.queued");
    return rc;
}

int queue_replace(int dirfd, uint64_t number, const json_t *alert, struct err *e)
{
    char name[NAME_MAX_];
    struct stat st;
    SCOPED(file_close) int lock = lock_queue(dirfd, e);
    queue_file_name(name, number, ".json");
    if (lock < 0)
        return -1;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0
               ? 0
               : queue_save(dirfd, name, FILE_MAX_, alert, e);
}

/* Does not take the lock: the count is only for --check and may be one too low. */
int queue_waiting(const struct config *c, int dirfd, enum alert_channel ch, struct err *e)
{
    SCOPED(shelf_free) struct shelf s = {0};
    int waiting = 0;
    if (read_names(dirfd, &s, e) < 0 || queue_read_mark(c, dirfd, ch, &s, e) < 0)
        waiting = -1;
    else if (s.mark[ch].what != MARK_NONE)
        for (size_t i = 0; i < s.n; i++)
            waiting += s.num[i] > s.mark[ch].at;
    return waiting;
}

/* Loading */

/* Loads an alert of this world. Write access to the directory must not be enough to send alerts in
 * our name. Nor must files of another world's queue that are signed with the same key, so the
 * signature covers the world. */
static int queue_load_own(const struct config *c, int dirfd, const char *name, json_t **out,
                          struct err *e)
{
    int rc = kept_load_private(dirfd, name, FILE_MAX_, out, e);
    const char *world = js_text(*out, "world");
    if (rc == 1 && strcmp(world, c->name) != 0 && (world[0] || signature_on()))
        return err_set(e, ERR_REFUSED, 0, "%s is an alert of world %s", name, world);
    return rc;
}

/* Loads one alert. Returns NULL if it is gone or cannot be opened now, or if it was rejected
 * (damaged or not ours) and renamed. */
static json_t *queue_load_one(const struct config *c, int dirfd, uint64_t v, struct queue_kept *out)
{
    char name[NAME_MAX_], bad[NAME_MAX_];
    struct err why = {0};
    json_t *j = NULL;
    queue_file_name(name, v, ".json");
    int rc = queue_load_own(c, dirfd, name, &j, &why);
    if (rc == 1 && json_is_string(json_object_get(j, "what"))) {
        json_object_del(j, "hmac");
        json_object_del(j, "format");
        return j;
    }
    json_decref(j);
    if (rc == 0 || why.num == EMFILE || why.num == ENFILE)
        return NULL;
    if (why.cls == ERR_REFUSED && out->refused++ == 0)
        line_set(out->why, sizeof out->why, "%s", why.text);
    queue_file_name(bad, v, ".json.bad");
    file_rename(dirfd, name, dirfd, bad, NULL);
    return NULL;
}

int queue_load(const struct config *c, int dirfd, struct queue_kept *out, struct err *e)
{
    struct shelf s = {0};
    SCOPED(shelf_free) struct shelf after = {0};
    uint64_t lowest = UINT64_MAX;
    *out = (struct queue_kept){.alerts = json_array()};
    /* Without the lock, the list may miss a file that is created meanwhile but contain a later
     * one. */
    SCOPED(file_close) int lock = lock_queue(dirfd, e);
    if (lock < 0)
        return -1;
    int rc = read_shelf(c, dirfd, &s, e);
    if (rc == 0)
        rc = make_marks(c, dirfd, &s, e);
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        out->channel[ch].mark = alert_channel_on(c, ch) ? s.mark[ch].at : UINT64_MAX;
        if (out->channel[ch].mark < lowest)
            lowest = out->channel[ch].mark;
    }
    out->number = xcalloc(s.n + 1, sizeof *out->number);
    for (size_t i = 0; i < s.n && rc == 0; i++) {
        json_t *j = s.num[i] > lowest ? queue_load_one(c, dirfd, s.num[i], out) : NULL;
        if (!j)
            continue;
        out->number[json_array_size(out->alerts)] = s.num[i];
        json_array_append_new(out->alerts, j);
    }
    if (rc == 0) /* read again: a file may just have been set aside */
        rc = read_names(dirfd, &after, e);
    if (rc == 0) {
        /* Numbers are assigned without gaps. A number missing between a channel's mark and the last
         * number was therefore dropped or set aside. */
        size_t n = json_array_size(out->alerts);
        uint64_t last = n ? out->number[n - 1] : 0;
        if (after.nbad && after.bad[after.nbad - 1] > last)
            last = after.bad[after.nbad - 1];
        for (int ch = 0; ch < ALERT_CHANNELS; ch++) {
            uint64_t mark = out->channel[ch].mark, here = 0, bad = 0;
            if (mark >= last)
                continue;
            for (size_t i = 0; i < n; i++)
                here += out->number[i] > mark;
            for (size_t i = 0; i < after.nbad; i++)
                bad += after.bad[i] > mark && after.bad[i] <= last;
            uint64_t dropped = last - mark - here;
            out->channel[ch].dropped = (unsigned)(dropped < UINT32_MAX ? dropped : UINT32_MAX);
            out->channel[ch].damaged = (unsigned)(bad < dropped ? bad : dropped);
        }
        queue_tidy(c, dirfd, &s);
    }
    shelf_free(&s);
    return rc;
}

void queue_kept_free(struct queue_kept *k)
{
    json_decref(k->alerts);
    free(k->number);
    *k = (struct queue_kept){0};
}

/* Writes the mark before it removes files: if the mark were lost, the alerts would be sent
 * again. */
int queue_done(const struct config *c, int dirfd, enum alert_channel ch, uint64_t upto,
               struct err *e)
{
    SCOPED(shelf_free) struct shelf s = {0};
    if (write_mark(c, dirfd, ch, upto, e) < 0)
        return -1;
    if (read_shelf(c, dirfd, &s, NULL) == 0)
        queue_tidy(c, dirfd, &s);
    return 0;
}
