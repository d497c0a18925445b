#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[40];
static int dirfd_ = -1;

static void remove_it(void)
{
    DIR *d = fdopendir(dirfd_);
    for (struct dirent *f = d ? readdir(d) : NULL; f; f = readdir(d))
        if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
            unlinkat(dirfd_, f->d_name, 0);
    rmdir(path);
    if (d)
        closedir(d);
}

int scratch_dir(void)
{
    if (dirfd_ >= 0)
        return dirfd_;
    snprintf(path, sizeof path, "%s/wk-fuzz.XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(path))
        abort();
    dirfd_ = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd_ < 0)
        abort();
    atexit(remove_it);
    return dirfd_;
}

static void fill(int fd, const void *data, size_t len)
{
    if (fd < 0 || pwrite(fd, data, len, 0) != (ssize_t)len)
        abort();
}

void scratch_put(const char *name, const void *data, size_t len)
{
    int fd = openat(scratch_dir(), name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fill(fd, data, len);
    close(fd);
}

void scratch_remove(const char *name)
{
    unlinkat(scratch_dir(), name, 0);
}

int scratch_file(const void *data, size_t len)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    fill(fd, data, len);
    if (fchmod(fd, 0600) < 0)
        abort();
    return fd;
}

void *scratch_copy(const void *data, size_t len)
{
    void *p = malloc(len); /* glibc gives memory of no bytes as well */
    if (!p)
        abort();
    memcpy(p, data, len);
    return p;
}

void demand(bool kept)
{
    if (!kept)
        abort();
}
