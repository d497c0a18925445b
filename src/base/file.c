#include "base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_parents(const char *path, mode_t mode, struct err *e)
{
    SCOPED(xfree) char *copy = xstrdup(path);
    int rc = 0;
    for (char *p = copy + 1; rc == 0; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char was = *p;
        *p = '\0';
        if (mkdir(copy, 0700) == 0) {
            /* The umask must not reduce the mode of a directory that other users must read. Set
             * through the descriptor, because the path may lead to something else a moment
             * later. */
            SCOPED(file_close) int fd = open(copy, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (fd < 0 || fchmod(fd, was ? 0755 : mode) < 0)
                rc = err_sys(e, errno, "cannot make directory %s", copy);
        } else if (errno != EEXIST) {
            rc = err_sys(e, errno, "cannot make directory %s", copy);
        }
        *p = was;
        if (was == '\0')
            break;
    }
    return rc;
}

/* The owner of a file or directory can do anything with it, regardless of its mode. */
static bool file_trusted(uid_t owner)
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
    return err_hint(
        e, "links are not followed here: use the file or directory itself, or name its real path");
}

/* A path may contain blanks and quotes, and users paste the hint. */
void file_hint(struct err *e, const char *command, const char *path)
{
    SCOPED(buf_free) struct buf word = {0};
    buf_shell(&word, path);
    err_hint(e, "%s %s", command, word.p);
}

static void hint_owner(struct err *e, const char *path, const char *or_else)
{
    SCOPED(buf_free) struct buf word = {0};
    buf_shell(&word, path);
    err_hint(e, "chown %u %s%s", (unsigned)geteuid(), word.p, or_else);
}

/* Checks that other users cannot replace files in the directory. A sticky directory is enough for
 * published files, because only owners can replace their files there. */
static int check_dir(const char *path, const struct stat *st, unsigned flags, struct err *e)
{
    bool public = flags & FILE_PUBLIC;
    if ((st->st_mode & 022) && !(public && (st->st_mode & S_ISVTX))) {
        err_set(e, ERR_REFUSED, 0, "directory %s is writable by other users (mode %04o)", path,
                (unsigned)st->st_mode & 07777);
        file_hint(e, "chmod go-w", path);
        return -1;
    }
    if (!public && !file_trusted(st->st_uid)) {
        err_set(e, ERR_REFUSED, 0, "directory %s belongs to another user (uid %u)", path,
                (unsigned)st->st_uid);
        hint_owner(e, path, ", or run this as the owner");
        return -1;
    }
    return 0;
}

int file_dir(const char *path, unsigned flags, mode_t mode, struct err *e)
{
    int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, fd = open(path, how);
    if (fd < 0 && errno == ENOENT && (flags & FILE_MAKE)) {
        if (make_parents(path, mode, e) < 0)
            return -1;
        fd = open(path, how);
    }
    if (fd < 0)
        return not_opened(AT_FDCWD, path, "directory ", e);
    struct stat st;
    int rc = fstat(fd, &st) < 0 ? err_sys(e, errno, "cannot examine directory %s", path)
                                : check_dir(path, &st, flags, e);
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

enum file_dir_place file_dir_place(int dirfd, const char *path)
{
    struct stat mine, there;
    if (stat(path, &there) < 0)
        return errno == ENOENT || errno == ENOTDIR ? FILE_DIR_GONE : FILE_DIR_SAME;
    bool other =
        fstat(dirfd, &mine) == 0 && (mine.st_dev != there.st_dev || mine.st_ino != there.st_ino);
    return other ? FILE_DIR_OTHER : FILE_DIR_SAME;
}

int file_subdir(int dirfd, const char *name, struct err *e)
{
    struct stat st;
    if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
        return err_sys(e, errno, "cannot make directory %s", name);
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return not_opened(dirfd, name, "directory ", e);
    int rc = fstat(fd, &st) < 0 ? err_sys(e, errno, "cannot examine directory %s", name) : 0;
    /* an older version, or a copy made by hand, may have left it open to others */
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

/* "chmod go-w /the/directory/name", quoted for a shell. */
static void hint_at(int dirfd, const char *name, const char *command, struct err *e)
{
    char link[40], dir[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
    ssize_t n = dirfd == AT_FDCWD ? -1 : readlink(link, dir, sizeof dir - 1);
    SCOPED(xfree) char *path = n > 0 ? xasprintf("%.*s/%s", (int)n, dir, name) : xstrdup(name);
    file_hint(e, command, path);
}

/* Refuses a file in a directory of ours that other users created or could write. */
static int check_own(int dirfd, const char *name, const struct stat *st, struct err *e)
{
    struct stat dir;
    char command[60];
    bool root = geteuid() == 0;
    uid_t owner = root && dirfd != AT_FDCWD && fstat(dirfd, &dir) == 0 ? dir.st_uid : geteuid();
    if (st->st_uid != 0 && st->st_uid != owner) {
        err_set(e, ERR_REFUSED, EPERM, "%s belongs to another user (uid %u)", name,
                (unsigned)st->st_uid);
        snprintf(command, sizeof command, "chown %u", (unsigned)owner);
        hint_at(dirfd, name, command, e);
        return -1;
    }
    if (st->st_mode & 022) {
        err_set(e, ERR_REFUSED, EPERM, "%s is writable by other users (mode %04o)", name,
                (unsigned)st->st_mode & 07777);
        hint_at(dirfd, name, "chmod go-w", e);
        return -1;
    }
    return 0;
}

/* Without O_NONBLOCK opening a FIFO would wait for its other end; O_NOCTTY: a terminal would
 * become ours, and its hang-up would end us. */
static int file_open_file(int dirfd, const char *name, int flags)
{
    return openat(dirfd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
}

#define REMOVE_IT "remove it: it will be created again"

/* A copy of a directory made of hard links shares its lock files with the original. A lock that is
 * held stays as it is; otherwise the name gets a new file, so that nothing is written through the
 * other link. */
static int open_alone(int dirfd, const char *name, int flags, int fd)
{
    struct stat there, ours;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return fd;
    if (fstat(fd, &ours) == 0 && fstatat(dirfd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        there.st_ino == ours.st_ino && there.st_dev == ours.st_dev)
        unlinkat(dirfd, name, 0);
    int own = file_open_file(dirfd, name, flags);
    close(fd);
    return own;
}

/* Says why the opened file is refused: it was not examined, or is none that we write in place. */
static int file_refuse(const char *name, bool seen, bool is_file, struct err *e)
{
    if (!seen)
        return err_sys(e, errno, "cannot examine %s", name);
    err_set(e, ERR_REFUSED, 0, "%s is %s", name,
            is_file ? "a file with another name too (a hard link)" : "not a regular file");
    return err_hint(e, "%s", REMOVE_IT);
}

/* Empties the file only after the checks, because a refused file is not ours to change. */
static int file_empty(int fd, const char *name, int flags, struct err *e)
{
    if (!(flags & O_TRUNC) || ftruncate(fd, 0) == 0)
        return 0;
    return err_sys(e, errno, "cannot truncate %s", name);
}

int file_open(int dirfd, const char *name, int flags, struct err *e)
{
    int how = flags & ~O_TRUNC;
    struct stat st = {0};
    int fd = file_open_file(dirfd, name, how);
    bool seen = fd >= 0 && fstat(fd, &st) == 0;
    if (seen && S_ISREG(st.st_mode) && st.st_nlink > 1 && (flags & O_CREAT)) {
        fd = open_alone(dirfd, name, how, fd);
        seen = fd >= 0 && fstat(fd, &st) == 0;
    }
    if (fd < 0) {
        not_opened(dirfd, name, "", e);
        if (e && e->num == ELOOP)
            err_hint(e, "%s", REMOVE_IT);
        return -1;
    }
    bool is_file = seen && S_ISREG(st.st_mode);
    bool alone = st.st_nlink <= 1 || (flags & (O_CREAT | O_TRUNC)) == O_CREAT;
    int rc =
        is_file && alone ? check_own(dirfd, name, &st, e) : file_refuse(name, seen, is_file, e);
    if (rc == 0 && file_empty(fd, name, flags, e) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Signals, pipes and an almost full disk cause short writes. */
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

/* Mode of a temporary file until it gets its final name, because a web server might serve it. */
#define TEMP_MODE 0600

/* Opens a fresh temporary name beside `name`; a stale one of a killed process is removed first. */
static int open_temp(int dirfd, const char *temp)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dirfd, temp, flags, TEMP_MODE);
    if (fd < 0 && errno == EEXIST && unlinkat(dirfd, temp, 0) == 0)
        fd = openat(dirfd, temp, flags, TEMP_MODE);
    return fd;
}

/* Opens the file that was replaced last time, if only we use it: the kernel grants a write lease
 * only if no other process has it open. */
static int open_replaced(int dirfd, const char *temp)
{
    struct stat st;
    int fd = openat(dirfd, temp, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    bool fit = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
               st.st_uid == geteuid() && (st.st_mode & 07777) == TEMP_MODE &&
               fcntl(fd, F_SETLEASE, F_WRLCK) == 0 && fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
    if (fd >= 0 && !fit)
        close(fd);
    return fit ? fd : -1;
}

/* Exchanges the new file and the old one, and removes other users' access to the old one. Returns
 * false, without doing anything, if the old one is not exclusively ours. */
static bool file_exchange(int dirfd, const char *temp, const char *name)
{
    struct stat st;
    SCOPED(file_close) int old =
        openat(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (old < 0 || fstat(old, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
        st.st_uid != geteuid() || renameat2(dirfd, temp, dirfd, name, RENAME_EXCHANGE) < 0)
        return false;
    if (fchmod(old, TEMP_MODE) < 0)
        unlinkat(dirfd, temp, 0);
    return true;
}

/* Gives `temp` the name `name`: exchanges the two with `again` if possible, else renames it. */
static int put_in_place(int dirfd, const char *temp, const char *name, bool again)
{
    return again && file_exchange(dirfd, temp, name) ? 0 : renameat(dirfd, temp, dirfd, name);
}

/* `AGAIN`: see file_republish(). */
enum replace_how { ONCE, AGAIN, DURABLE };

/* Writes a temporary file and renames it over `name`. Unless `DURABLE` nothing is synced. */
static int file_replace(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                        enum replace_how how, struct err *e)
{
    SCOPED(xfree) char *temp =
        xasprintf(".%s.%d.new", name, (int)getpid()); /* two processes may write the same name */
    const char *failed = NULL;
    int fd = how == AGAIN ? open_replaced(dirfd, temp) : -1, why;
    if (fd < 0)
        fd = open_temp(dirfd, temp);
    if (fd < 0)
        failed = "create";
    else if (file_write_all(fd, data, len) < 0 || (how == AGAIN && ftruncate(fd, (off_t)len) < 0))
        failed = "write";
    else if (fchmod(fd, mode) < 0)
        failed = "set the mode of";
    else if (how == DURABLE && fsync(fd) < 0)
        failed = "fsync";
    why = errno;
    /* some file systems report only at close() that data was not written */
    if (fd >= 0 && close(fd) < 0 && !failed) {
        failed = "close";
        why = errno;
    }
    if (!failed && put_in_place(dirfd, temp, name, how == AGAIN) < 0) {
        failed = "replace";
        why = errno;
    }
    if (failed)
        unlinkat(dirfd, temp, 0);
    if (failed)
        return err_sys(e, why, "cannot %s %s", failed, name);
    return how == DURABLE ? file_sync_dir(dirfd, name, e) : 0;
}

int file_publish(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                 struct err *e)
{
    return file_replace(dirfd, name, data, len, mode, ONCE, e);
}

int file_republish(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                   struct err *e)
{
    return file_replace(dirfd, name, data, len, mode, AGAIN, e);
}

int file_commit(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                struct err *e)
{
    return file_replace(dirfd, name, data, len, mode, DURABLE, e);
}

/* Returns true for ".NAME.PID.new" of a process that has exited. Our own PID counts too: this
 * process is writing nothing now, so an earlier one with the same PID left the file. */
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

void file_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

int file_list(int dirfd, const char *failed, struct names *out, struct err *e)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *ent;
    while (d && (errno = 0, ent = readdir(d)))
        if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0)
            names_add(out, ent->d_name);
    int rc = errno ? err_sys(e, errno, "%s", failed) : 0;
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return rc;
}

/* A file of a running process is still being written. */
int file_sweep(int dirfd, const char *name, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    int rc = file_list(dirfd, "cannot list a directory", &found, e);
    /* A file that cannot be removed must not prevent the removal of the others. */
    for (size_t i = 0; i < found.count; i++)
        if (left_over(found.list[i], name) &&
            file_remove(dirfd, found.list[i], rc < 0 ? NULL : e) < 0)
            rc = -1;
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

/* Another process may have removed it meanwhile. */
int file_remove(int dirfd, const char *name, struct err *e)
{
    if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
        return err_sys(e, errno, "cannot remove %s", name);
    return 0;
}

static int open_regular(int dirfd, const char *name, int flags, struct stat *st, struct err *e)
{
    int fd = file_open_file(dirfd, name, flags);
    if (fd < 0)
        return err_sys(e, errno, "cannot open %s", name);
    if (fstat(fd, st) < 0)
        err_sys(e, errno, "cannot examine %s", name);
    else if (!S_ISREG(st->st_mode))
        err_set(e, ERR_SYSTEM, 0, "%s is not a regular file", name);
    else
        return fd;
    close(fd);
    return -1;
}

/* Reads to the end, not to a size that was queried before: the file may grow meanwhile, and files
 * in /proc have no size. */
int file_read_fd(int fd, const char *name, size_t limit, struct buf *out, struct err *e)
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

int file_open_own(int dirfd, const char *name, int flags, struct err *e)
{
    struct stat st = {0};
    int fd = open_regular(dirfd, name, flags, &st, e);
    if (fd < 0 || check_own(dirfd, name, &st, e) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Opens one component of a path; `flags` as in open(2). */
static int file_step(int dirfd, const char *name, int flags, const char *path, struct err *e)
{
    struct stat st;
    /* a link is followed only if no other user can create one */
    bool follow =
        fstat(dirfd, &st) == 0 && (st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & 022);
    int fd = openat(dirfd, name, flags | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
    if (fd >= 0)
        return fd;
    if (follow)
        return err_sys(e, errno, "cannot open %s", path);
    not_opened(dirfd, name, "", e);
    err_step(e, "%s", path);
    if (e && e->cls == ERR_REFUSED)
        err_hint(e, "that directory is writable by other users, so links in it are not followed: "
                    "name the file itself");
    return -1;
}

/* Opens component by component, because O_NOFOLLOW checks only the last component of a path.
 * `flags` are for the last one. */
static int open_steps(const char *path, int flags, struct err *e)
{
    char *copy = xstrdup(path), *rest = copy;
    int dir = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
    if (dir < 0)
        err_sys(e, errno, "cannot open %s", path);
    while (dir >= 0 && fd < 0) {
        while (*rest == '/')
            rest++;
        const char *name = strsep(&rest, "/");
        bool last = !rest || rest[strspn(rest, "/")] == '\0';
        int next = file_step(dir, *name ? name : ".", last ? flags : O_PATH | O_DIRECTORY, path, e);
        close(dir);
        dir = last ? -1 : next;
        fd = last ? next : -1;
        if (next < 0)
            break;
    }
    free(copy);
    return fd;
}

int file_open_path(const char *path, struct err *e)
{
    struct stat st;
    int fd = open_steps(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, e);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    return err_set(e, ERR_SYSTEM, 0, "cannot open %s: it is not a regular file", path);
}

int file_open_place(const char *path, const char **name, struct err *e)
{
    const char *slash = strrchr(path, '/');
    SCOPED(xfree) char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
    *name = slash ? slash + 1 : path;
    return open_steps(*dir ? dir : "/", O_RDONLY | O_DIRECTORY, e);
}

/* Checks that only root and we can have put something into this directory. In a sticky directory
 * other users cannot replace our files. */
static int check_way(const char *dir, const char *path, struct err *e)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return err_sys(e, errno, "cannot examine directory %s", dir);
    if (file_trusted(st.st_uid) && (!(st.st_mode & 022) || st.st_mode & S_ISVTX))
        return 0;
    if (!file_trusted(st.st_uid)) {
        err_set(e, ERR_REFUSED, 0,
                "directory %s, on the way to %s, belongs to another user (uid %u)", dir, path,
                (unsigned)st.st_uid);
        return err_hint(e, "put the file into a directory owned by root or by this user");
    }
    err_set(e, ERR_REFUSED, 0,
            "directory %s, on the way to %s, is writable by other users (mode %04o)", dir, path,
            (unsigned)st.st_mode & 07777);
    file_hint(e, "chmod go-w", dir);
    return -1;
}

static int file_check_file(int fd, const char *path, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "cannot examine %s", path);
    if (file_trusted(st.st_uid) && !(st.st_mode & 022))
        return 0;
    if (!file_trusted(st.st_uid)) {
        err_set(e, ERR_REFUSED, 0, "%s belongs to another user (uid %u)", path,
                (unsigned)st.st_uid);
        hint_owner(e, path, "");
    } else {
        err_set(e, ERR_REFUSED, 0, "%s is writable by other users", path);
        file_hint(e, "chmod go-w", path);
    }
    return -1;
}

/* Checks the directories of the file's real path, because a link may lead through other
 * directories, but its target counts. Starts at the top: below a safe directory no other user can
 * rename what is checked next. */
int file_open_trusted(const char *path, struct err *e)
{
    char name[32], real[PATH_MAX];
    int fd = file_open_path(path, e);
    if (fd < 0)
        return -1;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, real, sizeof real - 1);
    int rc = n <= 0 || real[0] != '/' ? err_sys(e, n < 0 ? errno : EIO, "cannot examine %s", path)
                                      : check_way("/", path, e);
    real[n > 0 ? n : 0] = '\0';
    for (char *slash = real; rc == 0 && (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        rc = check_way(real, path, e);
        *slash = '/';
    }
    if (rc == 0 && file_check_file(fd, path, e) == 0)
        return fd;
    close(fd);
    return -1;
}

static int read_and_close(int fd, const char *name, size_t limit, struct buf *out, struct err *e)
{
    if (fd < 0)
        return -1;
    int rc = file_read_fd(fd, name, limit, out, e);
    close(fd);
    return rc;
}

int file_read(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e)
{
    return read_and_close(file_open_own(dirfd, name, O_RDONLY, e), name, limit, out, e);
}

int file_read_private(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e)
{
    struct stat st = {0};
    int fd = open_regular(dirfd, name, O_RDONLY, &st, e);
    /* checks the opened file, because its name may lead to another file a moment later */
    if (fd < 0 || (st.st_uid == geteuid() && (st.st_mode & 07777) == 0600 && st.st_nlink == 1))
        return read_and_close(fd, name, limit, out, e);
    close(fd);
    return err_set(e, ERR_REFUSED, 0,
                   "%s is not a regular file of this user with mode 0600 and one name", name);
}

int file_read_public(int dirfd, const char *name, size_t limit, struct buf *out, struct err *e)
{
    struct stat st;
    return read_and_close(open_regular(dirfd, name, O_RDONLY, &st, e), name, limit, out, e);
}

#define SECRET_MAX 4096u

/* `credential`: systemd protects it, regardless of its mode. */
static int open_secret(const char *path, bool credential, struct err *e)
{
    struct stat st = {0};
    int fd = open_regular(AT_FDCWD, path, O_RDONLY, &st, e);
    if (fd < 0 && e && e->num == ELOOP)
        err_hint(e, "symbolic links are not followed: name the file itself");
    if (fd < 0)
        return -1;
    bool seen = st.st_mode & 077 && path[0] && !credential;
    if (!seen && file_trusted(st.st_uid))
        return fd;
    close(fd);
    if (seen) {
        err_set(e, ERR_CONFIG, 0, "secret file %s is readable by other users (mode %04o)", path,
                (unsigned)st.st_mode & 07777);
        file_hint(e, "chmod 0600", path);
    } else {
        err_set(e, ERR_CONFIG, 0, "secret file %s belongs to another user (uid %u)", path,
                (unsigned)st.st_uid);
        hint_owner(e, path, "");
    }
    return -1;
}

/* `full` receives the path (malloc). */
static int open_named_secret(const char *path, char **full, struct err *e)
{
    static const char credential[] = "credential:";
    const char *dir = text_starts(path, credential) ? getenv("CREDENTIALS_DIRECTORY") : NULL;
    if (!dir && text_starts(path, credential)) {
        err_set(e, ERR_CONFIG, 0, "%s: $CREDENTIALS_DIRECTORY is not set", path);
        return err_hint(e, "set LoadCredential= in the unit, or name a file instead");
    }
    *full = dir ? xasprintf("%s/%s", dir, path + strlen(credential)) : xstrdup(path);
    return open_secret(*full, dir != NULL, e);
}

/* The user who names a secret's file can fix it. */
static int secret_failed(struct err *e)
{
    if (e && e->cls == ERR_SYSTEM)
        e->cls = ERR_CONFIG;
    return -1;
}

int file_open_secret(const char *path, struct err *e)
{
    SCOPED(xfree) char *full = NULL;
    int fd = open_named_secret(path, &full, e);
    return fd < 0 ? secret_failed(e) : fd;
}

int file_read_secret_lines(const char *path, size_t limit, struct buf *out, struct err *e)
{
    SCOPED(xfree) char *full = NULL;
    out->secret = true;
    SCOPED(file_close) int fd = open_named_secret(path, &full, e);
    return fd < 0 || file_read_fd(fd, full, limit, out, e) < 0 ? secret_failed(e) : 0;
}

int file_read_secret(const char *path, struct buf *out, struct err *e)
{
    if (file_read_secret_lines(path, SECRET_MAX, out, e) == 0 &&
        file_take_secret(path, out, e) == 0)
        return 0;
    buf_free(out);
    return -1;
}

int file_take_secret(const char *path, struct buf *out, struct err *e)
{
    size_t len = 0;
    while (len < out->len && out->p[len] != '\r' && out->p[len] != '\n')
        len++;
    /* A byte order mark, or UTF-16 from an editor, would be an invisible part of the secret. */
    if (memchr(out->p, '\0', len) || text_starts(out->p, "\xef\xbb\xbf")) {
        err_set(e, ERR_CONFIG, 0, "secret file %s is not plain text", path);
        return err_hint(e, "save it as UTF-8 without a byte order mark, the secret alone on the "
                           "first line; to create a key: openssl rand -hex 32");
    }
    /* Used as a password, it would open the account, or make one that is open to everyone. */
    if (len == 0) {
        err_set(e, ERR_CONFIG, 0, "the first line of secret file %s is empty", path);
        return err_hint(e, "put the secret alone on the first line of %s", path);
    }
    out->len = len;
    out->p[len] = '\0';
    return 0;
}
