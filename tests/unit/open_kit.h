/* Stands before openat(): files that cannot be opened or made, for reasons that a test cannot bring
 * about everywhere (a full disk, no descriptors, rights that root has not to ask for). */
#ifndef WK_TESTS_OPEN_KIT_H
#define WK_TESTS_OPEN_KIT_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static struct {
    const char *name; /* what names begin with; NULL: all is well */
    int num;          /* errno */
    unsigned times;   /* the next so many of them */
} kit_closed;

/* Where this is set, it happens once, just before a file of that name is opened. */
static struct {
    const char *name;
    void (*happens)(void);
} kit_meanwhile;

static inline void kit_refuse(const char *name, int num, unsigned times)
{
    kit_closed.name = name;
    kit_closed.num = num;
    kit_closed.times = times;
}

static int kit_openat(int dirfd, const char *path, int flags, mode_t mode)
{
    const char *name = kit_closed.name;
    if (kit_meanwhile.name && strcmp(path, kit_meanwhile.name) == 0) {
        kit_meanwhile.name = NULL;
        kit_meanwhile.happens();
    }
    if (name && kit_closed.times && strncmp(path, name, strlen(name)) == 0) {
        kit_closed.times--;
        errno = kit_closed.num;
        return -1;
    }
    return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

int openat(int dirfd, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;
    va_start(ap, flags);
    if (flags & O_CREAT)
        mode = va_arg(ap, mode_t);
    va_end(ap);
    return kit_openat(dirfd, path, flags, mode);
}

/* What a fortified build calls instead. */
int __openat_2(int dirfd, const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags)
{
    return kit_openat(dirfd, path, flags, 0);
}

#endif
