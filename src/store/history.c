#include "store/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"

#define LINE_MAX_BYTES 16384
#define CHUNK 65536
/* a writing process that was started manually may be stopped while it holds the lock */
#define LOCK_TRIES 20
#define LOCK_PAUSE_US 10000

static const char *const names[HISTORY_KINDS] = {
    [HISTORY_STATE] = "state",     [HISTORY_LOSS] = "loss",
    [HISTORY_RESTORE] = "restore", [HISTORY_DUMP] = "dump",
    [HISTORY_DRILL] = "drill",     [HISTORY_VERIFY] = "verify",
    [HISTORY_STARTED] = "started", [HISTORY_CONDITION] = "condition",
    [HISTORY_STOPPED] = "stopped", [HISTORY_OFFSITE] = "offsite",
    [HISTORY_ROLLUP] = "rollup",   [HISTORY_WRITE_BACK] = "write-back",
    [HISTORY_DAY] = "day",
};

/* ---- records ---- */

const char *history_kind_name(enum history_kind kind)
{
    return names[kind];
}

enum history_kind history_kind_of(const json_t *record)
{
    const char *kind = js_text(record, "kind");
    for (enum history_kind k = 0; k < HISTORY_KINDS; k++)
        if (strcmp(names[k], kind) == 0)
            return k;
    return HISTORY_KINDS;
}

wall_t history_at(const json_t *record)
{
    wall_t at;
    return text_utc_ms_parse(js_text(record, "at"), &at) == 0 ? at : (wall_t){0};
}

json_t *history_record(enum history_kind kind, json_t *fields)
{
    json_t *o = json_pack("{s:o, s:s}", "at", js_time(clock_wall()), "kind", names[kind]);
    if (fields)
        json_object_update_missing(o, fields);
    json_decref(fields);
    return o;
}

/* ---- writing ---- */

/* Opens and locks the file that currently has the name, because thinning may replace it
 * meanwhile. */
static int open_locked(int dirfd, int flags, struct err *e)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        struct stat open_one, named;
        int fd = file_open(dirfd, HISTORY_FILE, flags, e);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &open_one) == 0 &&
            fstatat(dirfd, HISTORY_FILE, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            open_one.st_ino == named.st_ino)
            return fd;
        close(fd);
        usleep(LOCK_PAUSE_US);
    }
    return err_set(e, ERR_BUSY, EWOULDBLOCK, "%s is locked by another process", HISTORY_FILE);
}

/* Returns true if the last line lacks its newline. A line that a crash truncated must not join the
 * next one. */
static bool is_cut(int fd, off_t size)
{
    char last;
    return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

int history_append(int dirfd, const json_t *record, struct err *e)
{
    SCOPED(buf_free) struct buf line = {0};
    struct stat st;
    SCOPED(xfree) char *text = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(9));
    bool fits = text && strlen(text) <= LINE_MAX_BYTES;
    int fd = fits ? open_locked(dirfd, O_RDWR | O_CREAT | O_APPEND, e) : -1, rc = -1;
    if (!fits)
        err_set(e, ERR_DAMAGED, 0, "a record of the history is too long or is not UTF-8");
    if (fd >= 0 && fstat(fd, &st) < 0) {
        err_sys(e, errno, "cannot examine %s", HISTORY_FILE);
    } else if (fd >= 0) {
        buf_adds(&line, is_cut(fd, st.st_size) ? "\n" : "");
        buf_adds(&line, text);
        buf_addc(&line, '\n');
        fault_point("history.append");
        rc = file_write_all(fd, line.p, line.len) == 0 && fdatasync(fd) == 0 ? 0 : -1;
        if (rc < 0) {
            err_sys(e, errno, "cannot write %s", HISTORY_FILE);
            /* If this fails as well, is_cut() handles the rest of the line later. */
            (void)!ftruncate(fd, st.st_size);
        }
        fault_point("history.appended");
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

int history_replace(int dirfd, const struct history_place *place, const struct buf *lines,
                    struct err *e)
{
    struct stat st;
    SCOPED(file_close) int fd = open_locked(dirfd, O_RDWR, e);
    if (fd < 0)
        return -1;
    bool same = fstat(fd, &st) == 0 && st.st_ino == place->inode && st.st_size == place->offset;
    fault_point("history.thin");
    int rc =
        same ? file_commit(dirfd, HISTORY_FILE, lines->p, lines->len, 0600, e)
             : err_set(e, ERR_CHANGED, 0, "another process wrote to %s meanwhile", HISTORY_FILE);
    fault_point("history.thinned");
    return rc;
}

/* ---- reading ---- */

void history_place_free(struct history_place *place)
{
    free(place->last);
    place->last = NULL;
    place->inode = 0;
    place->offset = 0;
}

/* Ignores a line with a NUL byte, which a power cut leaves, and a line that was written twice. */
static void see_line(struct history_place *place, char *line, size_t len, history_seen *see,
                     void *arg)
{
    bool text = len <= LINE_MAX_BYTES && !memchr(line, '\0', len);
    line[len] = '\0';
    if (!text || (place->last && strcmp(place->last, line) == 0))
        return;
    free(place->last);
    place->last = xstrdup(line);
    json_auto_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    bool whole = json_is_object(o) && history_at(o).ms && js_text(o, "kind")[0];
    see(arg, whole ? o : NULL, line);
}

/* Takes complete lines from the front of `b`. Returns their number of bytes. */
static size_t see_lines(struct history_place *place, struct buf *b, history_seen *see, void *arg)
{
    size_t begin = 0;
    char *end;
    while (b->len > begin && (end = memchr(b->p + begin, '\n', b->len - begin))) {
        see_line(place, b->p + begin, (size_t)(end - b->p) - begin, see, arg);
        begin = (size_t)(end - b->p) + 1;
    }
    memmove(b->p, b->p + begin, b->len - begin);
    b->len -= begin;
    return begin;
}

int history_read(int dirfd, struct history_place *place, bool *from_start, history_seen *see,
                 void *arg, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    struct stat st;
    ssize_t n = 0;
    SCOPED(file_close) int fd = file_open_own(dirfd, HISTORY_FILE, O_RDONLY, e);
    *from_start = false;
    if (fd < 0) {
        *from_start = place->inode != 0;
        history_place_free(place);
        return e->num == ENOENT ? 0 : -1;
    }
    if (fstat(fd, &st) < 0 || st.st_ino != place->inode || st.st_size < place->offset) {
        *from_start = place->inode != 0;
        history_place_free(place);
        place->inode = st.st_ino;
    }
    do {
        char chunk[CHUNK];
        n = pread(fd, chunk, sizeof chunk, place->offset + (off_t)b.len);
        if (n > 0) {
            buf_add(&b, chunk, (size_t)n);
            place->offset += (off_t)see_lines(place, &b, see, arg);
        }
        if (b.len > LINE_MAX_BYTES) { /* no record is that long, so the rest of it is not a line */
            place->offset += (off_t)b.len;
            buf_clear(&b);
        }
    } while (n > 0);
    return n < 0 ? err_sys(e, errno, "cannot read %s", HISTORY_FILE) : 0;
}
