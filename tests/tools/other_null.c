/* Loaded before the C library (LD_PRELOAD): a program that reads /dev/null gets the file that
 * WK_NULL names. So the empty known_hosts file that --check tries knows the server. */
#define _GNU_SOURCE

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int open(const char *path, int flags, ...)
{
    const char *other = getenv("WK_NULL");
    va_list ap;
    va_start(ap, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    bool null = other && (flags & O_ACCMODE) == O_RDONLY && strcmp(path, "/dev/null") == 0;
    return (int)syscall(SYS_openat, AT_FDCWD, null ? other : path, flags, mode);
}
