/* Loaded before the C library (LD_PRELOAD), for the fault campaign: allocations that fail, short
 * reads and writes, a clock that jumps. Environment variables choose the fault:
 *
 *     WK_SHIM_MALLOC=N       the N-th allocation of the process fails, only this one
 *     WK_SHIM_COUNT=FILE     receives the number of allocations at exit
 *     WK_SHIM_SHORT=N        read() and write() transfer at most N bytes
 *     WK_SHIM_CLOCK=FILE     offset of the wall clock in seconds, read at each call */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The C library's own functions under internal names that the program does not use. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static atomic_long asked;
static long fails, piece;
static const char *count_file, *clock_file;

__attribute__((constructor)) static void begin(void)
{
    const char *s;
    piece = (s = getenv("WK_SHIM_SHORT")) ? strtol(s, NULL, 10) : 0;
    count_file = getenv("WK_SHIM_COUNT");
    clock_file = getenv("WK_SHIM_CLOCK");
    s = getenv("WK_SHIM_MALLOC");
    atomic_store(&asked, 0);
    fails = s ? strtol(s, NULL, 10) : 0;
}

__attribute__((destructor)) static void end(void)
{
    char text[32];
    int fd = count_file ? open(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (fd < 0)
        return;
    int len = snprintf(text, sizeof text, "%ld\n", atomic_load(&asked));
    if (len > 0)
        syscall(SYS_write, fd, text, (size_t)len);
    close(fd);
}

static int denied(void)
{
    if (atomic_fetch_add(&asked, 1) + 1 != fails)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return denied() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return denied() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return denied() ? NULL : __libc_realloc(old, size);
}

static size_t shortened(size_t len)
{
    return piece > 0 && len > (size_t)piece ? (size_t)piece : len;
}

ssize_t read(int fd, void *to, size_t len)
{
    return syscall(SYS_read, fd, to, shortened(len));
}

ssize_t write(int fd, const void *from, size_t len)
{
    return syscall(SYS_write, fd, from, shortened(len));
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    char text[32] = "";
    int rc = (int)syscall(SYS_clock_gettime, id, ts);
    if (rc < 0 || id != CLOCK_REALTIME || !clock_file)
        return rc;
    int fd = open(clock_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rc;
    if (syscall(SYS_read, fd, text, sizeof text - 1) > 0)
        ts->tv_sec += strtol(text, NULL, 10);
    close(fd);
    return rc;
}
