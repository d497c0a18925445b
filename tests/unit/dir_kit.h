/* A temporary directory for the tests of a program, and small files in it. Tests leave what they
 * like in it: it is emptied after each one. */
#ifndef WK_TESTS_DIR_KIT_H
#define WK_TESTS_DIR_KIT_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static char kit_path[] = "/tmp/wk-unit.XXXXXX";
static int kit_dir = -1;

static inline int kit_set_up(void **state)
{
    (void)state;
    if (!mkdtemp(kit_path))
        return -1;
    kit_dir = open(kit_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return kit_dir < 0 ? -1 : 0;
}

/* Directories in it hold files only. */
static inline void kit_empty(int fd)
{
    DIR *d = fdopendir(fd);
    const struct dirent *ent;
    while (d && (ent = readdir(d))) {
        if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(d), ent->d_name, 0) == 0)
            continue;
        int sub = openat(dirfd(d), ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub >= 0 && unlinkat(dirfd(d), ent->d_name, AT_REMOVEDIR) < 0) {
            kit_empty(sub);
            unlinkat(dirfd(d), ent->d_name, AT_REMOVEDIR);
        } else if (sub >= 0) {
            close(sub);
        }
    }
    if (d)
        closedir(d);
}

static inline int kit_clean(void **state)
{
    (void)state;
    kit_empty(openat(kit_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return 0;
}

static inline int kit_tear_down(void **state)
{
    kit_clean(state);
    close(kit_dir);
    return rmdir(kit_path);
}

/* Opened for reading and writing, empty. */
static inline int kit_create(const char *name)
{
    int fd = openat(kit_dir, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static inline void kit_put(const char *name, const void *data, size_t len)
{
    int fd = kit_create(name);
    assert_int_equal(file_write_all(fd, data, len), 0);
    close(fd);
}

static inline void kit_text(const char *name, const char *text)
{
    kit_put(name, text, strlen(text));
}

/* NULL where it cannot be read; else the caller frees it. */
static inline char *kit_get(const char *name, size_t *len)
{
    struct buf b = {0};
    if (len)
        *len = 0;
    if (file_read(kit_dir, name, 64u << 20, &b, NULL) < 0) {
        buf_free(&b);
        return NULL;
    }
    if (len)
        *len = b.len;
    return b.p;
}

static inline bool kit_there(const char *name)
{
    return faccessat(kit_dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

#endif
