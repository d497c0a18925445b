/* Loaded before the C library (LD_PRELOAD): the listing of the directory that WK_ENDLESS names
 * never ends. Its additional names are those of no file. */
#define _GNU_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dirent *readdir(DIR *d)
{
    static struct dirent made;
    static unsigned long count;
    struct dirent *(*real)(DIR *);
    void *p = dlsym(RTLD_NEXT, "readdir");
    memcpy(&real, &p, sizeof p);
    struct dirent *x = real(d);
    struct stat is, wanted;
    const char *path = getenv("WK_ENDLESS");
    if (x || !path || stat(path, &wanted) < 0 || fstat(dirfd(d), &is) < 0 ||
        is.st_ino != wanted.st_ino)
        return x;
    snprintf(made.d_name, sizeof made.d_name, "f%lu", ++count);
    return &made;
}

struct dirent64 *readdir64(DIR *d)
{
    return (struct dirent64 *)readdir(d);
}
