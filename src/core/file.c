#include "core/file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* By descriptor: what stands at a path may be another thing a moment later. */
static int set_mode(const char *path, mode_t mode, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc =
        fd < 0 || fchmod(fd, mode) < 0 ? err_sys(e, errno, "cannot make directory %s", path) : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int make_parents(const char *path, mode_t mode, struct err *e)
{
    char *copy = xstrdup(path);
    int rc = 0;
    for (char *p = copy + 1; rc == 0; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char was = *p;
        *p = '\0';
        /* what the umask takes away is not meant for a directory that others must read */
        if (mkdir(copy, 0700) == 0)
            rc = set_mode(copy, was ? 0755 : mode, e);
        else if (errno != EEXIST)
            rc = err_sys(e, errno, "cannot make directory %s", copy);
        *p = was;
        if (was == '\0')
            break;
    }
    free(copy);
    return rc;
}

/* Who owns a file or a directory can do with it what they want, whatever its mode is. */
static bool trusted(uid_t owner)
{
    return owner == 0 || owner == geteuid() || geteuid() == 0;
}

static int not_opened(int dirfd, const char *name, const char *what, struct err *e)
{
    int why = errno;
    struct stat st;
    if ((why != ELOOP && why != ENOTDIR) || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISLNK(st.st_mode))
        return err_sys(e, why, "cannot open %s%s", what, name);
    err_set(e, ERR_REFUSED, why, "%s%s is a symbolic link", what, name);
    err_hint(e, "links are not followed here: put the thing itself there, or name its own path");
    return -1;
}

void file_hint(struct err *e, const char *command, const char *path)
{
    struct buf word = {0};
    buf_shell(&word, path);
    err_hint(e, "%s %s", command, word.p);
    buf_free(&word);
}

static void hint_owner(struct err *e, const char *path, const char *or_else)
{
    struct buf word = {0};
    buf_shell(&word, path);
    err_hint(e, "chown %u %s%s", (unsigned)geteuid(), word.p, or_else);
    buf_free(&word);
}

static int check_dir(const char *path, const struct stat *st, unsigned flags, struct err *e)
{
    bool public = flags & FILE_PUBLIC;
    if ((st->st_mode & 022) && !(public && (st->st_mode & S_ISVTX))) {
        err_set(e, ERR_REFUSED, 0, "directory %s can be written by others (mode %04o)", path,
                (unsigned)st->st_mode & 07777);
        file_hint(e, "chmod go-w", path);
        return -1;
    }
    if (!public && !trusted(st->st_uid)) {
        err_set(e, ERR_REFUSED, 0, "directory %s belongs to another user (uid %u)", path,
                (unsigned)st->st_uid);
        hint_owner(e, path, ", or run this as the user that it belongs to");
        return -1;
    }
    return 0;
}

int file_dir(const char *path, unsigned flags, mode_t mode, struct err *e)
{
    if ((flags & FILE_MAKE) && access(path, F_OK) < 0 && make_parents(path, mode, e) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return not_opened(AT_FDCWD, path, "directory ", e);
    struct stat st;
    int rc = fstat(fd, &st) < 0 ? err_sys(e, errno, "cannot look at directory %s", path)
                                : check_dir(path, &st, flags, e);
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

bool file_dir_moved(int dirfd, const char *path)
{
    struct stat mine, there;
    if (stat(path, &there) < 0)
        return errno == ENOENT || errno == ENOTDIR;
    return fstat(dirfd, &mine) == 0 && (mine.st_dev != there.st_dev || mine.st_ino != there.st_ino);
}

int file_subdir(int dirfd, const char *name, struct err *e)
{
    struct stat st;
    if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
        return err_sys(e, errno, "cannot make directory %s", name);
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return not_opened(dirfd, name, "directory ", e);
    int rc = fstat(fd, &st) < 0 ? err_sys(e, errno, "cannot look at directory %s", name) : 0;
    if (rc == 0 && (st.st_mode & 077) && (st.st_uid == geteuid() || geteuid() == 0) &&
        fchmod(fd, 0700) == 0)
        st.st_mode &= ~(mode_t)077;
    if (rc == 0)
        rc = check_dir(name, &st, 0, e);
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

static int open_file(int dirfd, const char *name, int flags)
{
    return openat(dirfd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
}

/* A copy of a directory made of hard links shares its locks with it. Whoever holds this one keeps
 * it; else the name gets a file of its own, so that nothing is written through the other one. */
static int open_alone(int dirfd, const char *name, int flags, int fd)
{
    struct stat there, ours;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return fd;
    if (fstat(fd, &ours) == 0 && fstatat(dirfd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        there.st_ino == ours.st_ino && there.st_dev == ours.st_dev)
        unlinkat(dirfd, name, 0);
    int own = open_file(dirfd, name, flags);
    close(fd);
    return own;
}

int file_open(int dirfd, const char *name, int flags, struct err *e)
{
    static const char away[] = "remove it: it is made anew";
    struct stat st;
    int fd = open_file(dirfd, name, flags);
    bool is_file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (is_file && st.st_nlink > 1 && (flags & O_CREAT))
        fd = open_alone(dirfd, name, flags, fd);
    if (fd < 0) {
        not_opened(dirfd, name, "", e);
        if (e && e->num == ELOOP)
            err_hint(e, "%s", away);
        return -1;
    }
    if (is_file && (st.st_nlink <= 1 || (flags & O_CREAT)))
        return fd;
    err_set(e, ERR_REFUSED, 0, "%s is %s", name,
            is_file ? "a file with another name too (a hard link)" : "not a regular file");
    err_hint(e, "%s", away);
    close(fd);
    return -1;
}

int file_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Opens a fresh temporary name beside `name`; a stale one of a killed process is removed first. */
static int open_temp(int dirfd, const char *temp, mode_t mode)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dirfd, temp, flags, mode);
    if (fd < 0 && errno == EEXIST && unlinkat(dirfd, temp, 0) == 0)
        fd = openat(dirfd, temp, flags, mode);
    if (fd >= 0 && fchmod(fd, mode) < 0) {
        int keep = errno;
        close(fd);
        errno = keep;
        return -1;
    }
    return fd;
}

static int replace(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                   int durable, struct err *e)
{
    char *temp =
        xasprintf(".%s.%d.new", name, (int)getpid()); /* two processes may write one name */
    int rc = -1, fd = open_temp(dirfd, temp, mode);
    if (fd < 0) {
        err_sys(e, errno, "cannot create %s", name);
        goto out;
    }
    if (file_write_all(fd, data, len) < 0) {
        err_sys(e, errno, "cannot write %s", name);
        goto out;
    }
    if (durable && fsync(fd) < 0) {
        err_sys(e, errno, "cannot fsync %s", name);
        goto out;
    }
    int closed = close(fd);
    fd = -1;
    if (closed < 0) {
        err_sys(e, errno, "cannot close %s", name);
        goto out;
    }
    if (renameat(dirfd, temp, dirfd, name) < 0) {
        err_sys(e, errno, "cannot replace %s", name);
        goto out;
    }
    rc = durable ? file_sync_dir(dirfd, name, e) : 0;
    free(temp);
    return rc;
out:
    if (fd >= 0)
        close(fd);
    unlinkat(dirfd, temp, 0);
    free(temp);
    return rc;
}

int file_publish(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                 struct err *e)
{
    return replace(dirfd, name, data, len, mode, 0, e);
}

int file_commit(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                struct err *e)
{
    return replace(dirfd, name, data, len, mode, 1, e);
}

/* ".NAME.PID.new" of a process that is gone; one of our own number is not of us, who write nothing
 * now. */
static bool left_over(const char *file, const char *name)
{
    size_t len = strlen(file), digits = 0, end = len < 4 ? 0 : len - 4;
    if (file[0] != '.' || strcmp(file + end, ".new") != 0)
        return false;
    while (digits < end && isdigit((unsigned char)file[end - 1 - digits]))
        digits++;
    if (digits == 0 || digits > 9 || end - digits < 3 || file[end - digits - 1] != '.')
        return false;
    if (name && (end - digits - 2 != strlen(name) || strncmp(file + 1, name, strlen(name)) != 0))
        return false;
    pid_t pid = (pid_t)strtol(file + end - digits, NULL, 10);
    return pid == getpid() || (pid > 0 && kill(pid, 0) < 0 && errno == ESRCH);
}

int file_sweep(int dirfd, const char *name, struct err *e)
{
    int rc = 0, fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *ent;
    while (rc == 0 && d && (ent = readdir(d)))
        if (left_over(ent->d_name, name))
            rc = file_remove(dirfd, ent->d_name, e);
    if (!d) {
        rc = err_sys(e, errno, "cannot list a directory");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    closedir(d);
    return rc;
}

int file_sync_dir(int dirfd, const char *what, struct err *e)
{
    return fsync(dirfd) < 0 ? err_sys(e, errno, "cannot fsync the directory of %s", what) : 0;
}

int file_rename(int fromfd, const char *from, int tofd, const char *to, struct err *e)
{
    if (renameat(fromfd, from, tofd, to) < 0)
        return err_sys(e, errno, "cannot rename %s to %s", from, to);
    if (file_sync_dir(tofd, to, e) < 0)
        return -1;
    return fromfd == tofd ? 0 : file_sync_dir(fromfd, from, e);
}

int file_remove(int dirfd, const char *name, struct err *e)
{
    if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
        return err_sys(e, errno, "cannot remove %s", name);
    return 0;
}

static int open_regular(int dirfd, const char *name, struct stat *st, struct err *e)
{
    int fd = open_file(dirfd, name, O_RDONLY);
    if (fd < 0)
        return err_sys(e, errno, "cannot open %s", name);
    if (fstat(fd, st) < 0)
        err_sys(e, errno, "cannot look at %s", name);
    else if (!S_ISREG(st->st_mode))
        err_set(e, ERR_SYSTEM, 0, "%s is not a regular file", name);
    else
        return fd;
    close(fd);
    return -1;
}

static int read_fd(int fd, const char *name, size_t limit, struct buf *out, struct err *e)
{
    size_t start = out->len;
    for (;;) {
        buf_reserve(out, 65536);
        ssize_t n = read(fd, out->p + out->len, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "cannot read %s", name);
        if (n == 0)
            break;
        out->len += (size_t)n;
        if (out->len - start > limit)
            return err_set(e, ERR_SYSTEM, EFBIG, "%s is larger than the limit of %zu bytes", name,
                           limit);
    }
    out->p[out->len] = '\0';
    return 0;
}

int file_read(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e)
{
    struct stat st;
    int fd = open_regular(dirfd, name, &st, e);
    if (fd < 0)
        return -1;
    int rc = read_fd(fd, name, limit, out, e);
    close(fd);
    return rc;
}

/* What an editor put before the text, or between its letters, is not seen in it. */
static int first_line(const char *name, struct buf *b, struct err *e)
{
    size_t len = 0;
    while (len < b->len && b->p[len] != '\r' && b->p[len] != '\n')
        len++;
    if (memchr(b->p, '\0', len) || text_starts(b->p, "\xef\xbb\xbf")) {
        err_set(e, ERR_CONFIG, 0, "secret file %s is not plain text", name);
        err_hint(e, "save it as UTF-8 without a byte order mark, the secret alone on the first "
                    "line; a key can be made by openssl rand -hex 32");
        return -1;
    }
    b->len = len;
    b->p[len] = '\0';
    return 0;
}

int file_read_secret(const char *path, struct buf *out, struct err *e)
{
    char *full = NULL;
    int fd = -1, rc = -1;
    if (text_starts(path, "credential:")) {
        const char *dir = getenv("CREDENTIALS_DIRECTORY");
        if (!dir) {
            err_set(e, ERR_CONFIG, 0, "%s: no $CREDENTIALS_DIRECTORY", path);
            err_hint(e, "set LoadCredential= in the unit, or name a file");
            return -1;
        }
        full = xasprintf("%s/%s", dir, path + strlen("credential:"));
    } else {
        full = xstrdup(path);
    }
    struct stat st = {0};
    fd = open_regular(AT_FDCWD, full, &st, e);
    if (fd < 0) {
        if (e && e->num == ELOOP)
            err_hint(e, "it is a symbolic link, which is not followed: name the file itself");
        goto out;
    }
    if (st.st_mode & 077 && full[0] && !text_starts(path, "credential:")) {
        err_set(e, ERR_CONFIG, 0, "secret file %s can be read by others (mode %04o)", full,
                (unsigned)st.st_mode & 07777);
        file_hint(e, "chmod 0600", full);
        goto out;
    }
    if (!trusted(st.st_uid)) {
        err_set(e, ERR_CONFIG, 0, "secret file %s belongs to another user (uid %u)", full,
                (unsigned)st.st_uid);
        hint_owner(e, full, "");
        goto out;
    }
    rc = read_fd(fd, full, 4096, out, e) < 0 ? -1 : first_line(full, out, e);
out:
    if (fd >= 0)
        close(fd);
    if (rc < 0 && e && e->cls == ERR_SYSTEM)
        e->cls = ERR_CONFIG;
    free(full);
    return rc;
}
