/* A mounted directory: NFS, SMB, a second disk. Names are opened component by component without
 * following links, so that a process that can write there cannot redirect us. A stored file is
 * on the disk before it gets its name (fsync of the file, rename, fsync of the directory), as
 * far as the file system guarantees this. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "offsite/remote_int.h"

#define FILE_FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Errors that are not listed may be temporary: an NFS server that is restarted answers ESTALE,
 * EIO or ETIMEDOUT for a while. */
static enum remote_result remote_dir_failed(int num, struct err *e, const char *what,
                                            const char *name)
{
    static const struct {
        int num;
        enum remote_result is;
    } known[] = {{ENOENT, REMOTE_MISSING},  {EEXIST, REMOTE_EXISTS},  {EACCES, REMOTE_DENIED},
                 {EPERM, REMOTE_DENIED},    {EROFS, REMOTE_DENIED},   {ENOSPC, REMOTE_FULL},
                 {EDQUOT, REMOTE_FULL},     {EFBIG, REMOTE_REFUSED},  {ELOOP, REMOTE_REFUSED},
                 {ENOTDIR, REMOTE_REFUSED}, {EISDIR, REMOTE_REFUSED}, {EINVAL, REMOTE_REFUSED}};
    err_sys(e, num, "cannot %s %s", what, name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].num == num)
            return known[i].is;
    return REMOTE_LATER;
}

static bool is_below(const char *path, const char *mount)
{
    size_t len = strlen(mount);
    while (len && mount[len - 1] == '/')
        len--;
    return len && strncmp(path, mount, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Returns the innermost mount point above `path` in this table (malloc), or NULL if there is
 * none except "/". */
static char *mount_of(const char *table, const char *path)
{
    char *found = NULL, line[4096];
    struct mntent m;
    FILE *f = setmntent(table, "re");
    while (f && getmntent_r(f, &m, line, sizeof line))
        if (is_below(path, m.mnt_dir) && (!found || strlen(m.mnt_dir) >= strlen(found))) {
            free(found);
            found = xstrdup(m.mnt_dir);
        }
    if (f)
        endmntent(f);
    return found;
}

/* Checks that the directory is mounted. Without its mount it would be a directory on this
 * machine's disk, and nothing else would show that. */
static enum remote_result check_mounted(const char *path, struct err *e)
{
    SCOPED(xfree) char *wanted = mount_of("/etc/fstab", path);
    SCOPED(xfree) char *there = wanted ? mount_of("/proc/self/mounts", path) : NULL;
    if (!wanted || (there && strlen(there) >= strlen(wanted)))
        return REMOTE_OK;
    err_set(e, ERR_UNREACHABLE, 0, "%s is not mounted, but %s is below it", wanted, path);
    file_hint(e, "mount", wanted);
    return REMOTE_LATER;
}

static enum remote_result dir_open(struct remote *r, struct err *e)
{
    SCOPED(xfree) char *path = xstrndup(r->url.path, strlen(r->url.path) - 1);
    struct err why = {0};
    r->dirfd = file_dir(path, 0, 0, &why); /* also triggers an automount */
    if (r->dirfd < 0 && why.num == ENOENT)
        err_hint(&why, "worldkeeper does not create it: mount it, or create it");
    if (r->dirfd < 0) {
        err_pass(e, &why);
        return why.num == EACCES ? REMOTE_DENIED : REMOTE_REFUSED;
    }
    return check_mounted(path, e);
}

/* Opens the directory of a name and sets *base to the last component. With `make`, creates
 * missing directories. Returns the descriptor or -1 with errno. */
static int open_parent(const struct remote *r, const char *name, bool make, const char **base)
{
    int fd = fcntl(r->dirfd, F_DUPFD_CLOEXEC, 3);
    const char *slash;
    while (fd >= 0 && (slash = strchr(name, '/'))) {
        SCOPED(xfree) char *part = xstrndup(name, (size_t)(slash - name));
        if (make && mkdirat(fd, part, 0700) == 0)
            fsync(fd);
        int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int num = errno;
        close(fd);
        errno = num;
        fd = next;
        name = slash + 1;
    }
    *base = name;
    return fd;
}

/* Returns REMOTE_STOPPED with the source's own error, or the result of writing. */
static enum remote_result copy_in(struct remote *r, int fd, const char *name,
                                  const struct remote_source *from, struct err *e)
{
    SCOPED(xfree) char *piece = xcalloc(1, REMOTE_PIECE);
    int64_t bytes = 0;
    ssize_t n;
    while ((n = from->read(from->arg, piece, REMOTE_PIECE, e)) > 0) {
        if (file_write_all(fd, piece, (size_t)n) < 0)
            return remote_dir_failed(errno, e, "write", name);
        bytes += n;
        remote_pace(r, (size_t)n);
    }
    if (n < 0)
        return REMOTE_STOPPED;
    enum remote_result got = remote_came(from, name, bytes, e);
    if (got == REMOTE_OK && fsync(fd) < 0)
        return remote_dir_failed(errno, e, "write to the disk", name);
    return got;
}

/* Gives the file its name, which must be free. */
static int rename_new(int dirfd, const char *part, const char *base)
{
    if (renameat2(dirfd, part, dirfd, base, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* NFS does not support this rename, but links, which never replace a file either. */
    if (linkat(dirfd, part, dirfd, base, 0) == 0) {
        unlinkat(dirfd, part, 0);
        return 0;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    /* Some network file systems support neither. Looking first is enough, because no other
     * process writes here. */
    struct stat st;
    if (fstatat(dirfd, base, &st, AT_SYMLINK_NOFOLLOW) == 0)
        errno = EEXIST;
    else if (errno == ENOENT)
        return renameat(dirfd, part, dirfd, base);
    return -1;
}

static enum remote_result dir_put(struct remote *r, const char *name,
                                  const struct remote_source *from, struct err *e)
{
    const char *base;
    SCOPED(file_close) int dirfd = open_parent(r, name, true, &base);
    if (dirfd < 0)
        return remote_dir_failed(errno, e, "make the directory of", name);
    SCOPED(xfree) char *part = remote_part(base);
    SCOPED(file_close) int fd = openat(dirfd, part, O_WRONLY | O_CREAT | O_EXCL | FILE_FLAGS, 0600);
    if (fd < 0)
        return remote_dir_failed(errno, e, "create", name);
    enum remote_result got = copy_in(r, fd, name, from, e);
    if (got == REMOTE_OK && rename_new(dirfd, part, base) < 0)
        got = remote_dir_failed(errno, e, "store", name);
    if (got != REMOTE_OK)
        unlinkat(dirfd, part, 0);
    else if (fsync(dirfd) < 0)
        got = remote_dir_failed(errno, e, "write the directory of", name);
    return got;
}

/* Opens a file for reading. */
static enum remote_result remote_dir_open_file(const struct remote *r, const char *name, int *fd,
                                               struct stat *st, struct err *e)
{
    const char *base;
    SCOPED(file_close) int dirfd = open_parent(r, name, false, &base);
    *fd = dirfd < 0 ? -1 : openat(dirfd, base, O_RDONLY | FILE_FLAGS);
    if (*fd < 0 || fstat(*fd, st) < 0)
        return remote_dir_failed(errno, e, "open", name);
    if (S_ISREG(st->st_mode))
        return REMOTE_OK;
    err_set(e, ERR_REFUSED, 0, "%s is not a file", name);
    return REMOTE_REFUSED;
}

static enum remote_result dir_get(struct remote *r, const char *name, int64_t offset,
                                  const struct remote_sink *to, struct err *e)
{
    struct stat st;
    SCOPED(file_close) int fd = -1;
    enum remote_result got = remote_dir_open_file(r, name, &fd, &st, e);
    SCOPED(xfree) char *piece = xcalloc(1, REMOTE_PIECE);
    ssize_t n = 1;
    while (got == REMOTE_OK && n > 0) {
        n = pread(fd, piece, REMOTE_PIECE, offset);
        if (n < 0)
            return remote_dir_failed(errno, e, "read", name);
        if (n > 0 && to->write(to->arg, piece, (size_t)n, e) < 0)
            return REMOTE_STOPPED;
        offset += n;
        remote_pace(r, (size_t)n);
    }
    return got;
}

static enum remote_result dir_size(struct remote *r, const char *name, int64_t *size, struct err *e)
{
    struct stat st = {0};
    SCOPED(file_close) int fd = -1;
    enum remote_result got = remote_dir_open_file(r, name, &fd, &st, e);
    *size = got == REMOTE_OK ? st.st_size : -1;
    return got;
}

/* Passes a file on. An entry that is not a regular file, or was deleted meanwhile, is not
 * listed, but counts toward the limit. */
static int remote_dir_list_one(struct remote_listing *l, int dirfd, const char *dir,
                               const char *file, struct err *e)
{
    struct stat st;
    if (remote_listing_grows(l, sizeof(struct dirent), e) < 0)
        return -1;
    if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return 0;
    SCOPED(xfree) char *name = xasprintf("%s%s", dir, file);
    l->x = (struct remote_entry){.size = st.st_size};
    snprintf(l->x.stamp, sizeof l->x.stamp, "%lld.%09ld", (long long)st.st_mtim.tv_sec,
             st.st_mtim.tv_nsec);
    return remote_listing_entry(l, name, e);
}

/* Checks that the path still leads to the directory that was opened. After it was replaced, or
 * another file system was mounted there, the descriptor leads to the old one. */
static enum remote_result check_same_dir(const struct remote *r, struct err *e)
{
    SCOPED(xfree) char *path = xstrndup(r->url.path, strlen(r->url.path) - 1);
    struct stat opened, is;
    if (fstat(r->dirfd, &opened) < 0 || stat(path, &is) < 0) {
        err_sys(e, errno, "cannot look at %s", path);
        return REMOTE_LATER;
    }
    if (opened.st_dev == is.st_dev && opened.st_ino == is.st_ino)
        return check_mounted(path, e);
    err_set(e, ERR_UNREACHABLE, 0, "%s is now another directory", path);
    return REMOTE_LATER;
}

static enum remote_result dir_list(struct remote *r, const char *dir, const struct remote_list *to,
                                   struct err *e)
{
    const char *base;
    struct remote_listing l = {.r = r, .to = to};
    enum remote_result got = check_same_dir(r, e);
    if (got != REMOTE_OK)
        return got;
    const struct dirent *x;
    int dirfd = open_parent(r, dir, false, &base);
    DIR *d = dirfd < 0 ? NULL : fdopendir(dirfd);
    int num = errno;
    if (!d) {
        file_close(&dirfd);
        return num == ENOENT ? REMOTE_OK : remote_dir_failed(num, e, "list", dir);
    }
    rewinddir(d); /* the top's descriptor shares its position with that of an earlier list */
    for (errno = 0; got == REMOTE_OK && (x = readdir(d)); errno = 0)
        if (remote_dir_list_one(&l, dirfd, dir, x->d_name, e) < 0)
            got = REMOTE_STOPPED;
    if (got == REMOTE_OK && errno)
        got = remote_dir_failed(errno, e, "list", dir);
    closedir(d);
    return got;
}

static enum remote_result dir_remove(struct remote *r, const char *name, struct err *e)
{
    const char *base;
    SCOPED(file_close) int dirfd = open_parent(r, name, false, &base);
    if (dirfd < 0 || unlinkat(dirfd, base, 0) < 0)
        return remote_dir_failed(errno, e, "delete", name);
    return fsync(dirfd) == 0 ? REMOTE_OK
                             : remote_dir_failed(errno, e, "write the directory of", name);
}

const struct remote_kind remote_dir = {.open = dir_open,
                                       .put = dir_put,
                                       .get = dir_get,
                                       .size = dir_size,
                                       .list = dir_list,
                                       .remove = dir_remove};
