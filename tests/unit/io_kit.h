/* Stands before the system's calls of a program under test: disks that are full or broken, and
 * somebody else who does something between two of its steps. Nothing is brought to the disk, which
 * no test could see, but when it would have been is counted. */
#ifndef WK_TESTS_IO_KIT_H
#define WK_TESTS_IO_KIT_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    unsigned reads, syncs;
    unsigned read_fails;     /* the how manieth pread() fails; 0: none */
    void (*meanwhile)(void); /* before each pread() and fstat() */
    bool full;
    size_t room; /* where `full`: so many bytes more can be written */
    bool sync_fails, cut_fails;
} kit_io;

static void go_on_meanwhile(void)
{
    void (*fn)(void) = kit_io.meanwhile;
    if (!fn)
        return;
    kit_io.meanwhile = NULL; /* it reads itself, perhaps */
    fn();
    kit_io.meanwhile = fn;
}

ssize_t pread(int fd, void *out, size_t len, off_t at)
{
    kit_io.reads++;
    go_on_meanwhile();
    if (kit_io.read_fails && kit_io.read_fails == kit_io.reads) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, out, len, at);
}

/* What a fortified build calls instead. */
ssize_t __pread_chk(int fd, void *out, size_t len, off_t at, size_t room);
ssize_t __pread_chk(int fd, void *out, size_t len, off_t at, size_t room)
{
    if (len > room)
        abort();
    return pread(fd, out, len, at);
}

ssize_t write(int fd, const void *data, size_t len)
{
    if (kit_io.full && len > kit_io.room) {
        len = kit_io.room;
        if (len == 0) {
            errno = ENOSPC;
            return -1;
        }
    }
    if (kit_io.full)
        kit_io.room -= len;
    return syscall(SYS_write, fd, data, len);
}

int fstat(int fd, struct stat *st)
{
    go_on_meanwhile();
    return fstatat(fd, "", st, AT_EMPTY_PATH);
}

static int sync_it(void)
{
    kit_io.syncs++;
    errno = EIO;
    return kit_io.sync_fails ? -1 : 0;
}

int fsync(int fd)
{
    (void)fd;
    return sync_it();
}

int fdatasync(int fd)
{
    (void)fd;
    return sync_it();
}

int ftruncate(int fd, off_t len)
{
    errno = EIO;
    return kit_io.cut_fails ? -1 : (int)syscall(SYS_ftruncate, fd, len);
}

#endif
