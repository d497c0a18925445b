#include "dump/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct check {
    const char *file;
    const struct manifest *m;
    const struct manifest_table *table; /* being read */
    size_t seen;
    uint64_t rows, hash, total;
};

static int open_dump(int dirfd, const char *file, const struct manifest *m, struct err *e)
{
    struct stat st;
    int fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int keep = errno;
        if (fd >= 0)
            close(fd);
        err_sys(e, keep, "cannot open %s", file);
        if (e && (keep == ENOENT || keep == ELOOP || keep == EIO))
            e->cls = ERR_DAMAGED;
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(e, ERR_DAMAGED, 0, "%s is not a regular file", file);
    }
    if ((uint64_t)st.st_size != m->file_size) {
        close(fd);
        return err_set(e, ERR_DAMAGED, 0, "%s has %lld bytes, its manifest says %" PRIu64, file,
                       (long long)st.st_size, m->file_size);
    }
    /* What the page cache remembers proves nothing about the disk. */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return fd;
}

static int end_table(struct check *c, struct err *e)
{
    const struct manifest_table *t = c->table;
    if (!t)
        return 0;
    if (c->rows != t->rows)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: %" PRIu64 " rows in table %s, its manifest says %" PRIu64, c->file,
                       c->rows, t->name, t->rows);
    if (c->hash != t->rows_hash)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: the rows of table %s are not the ones of its manifest", c->file,
                       t->name);
    return 0;
}

static int check_item(struct check *c, const struct format_item *item, struct err *e)
{
    if (item->type == FORMAT_ROWS) {
        c->rows += item->rows;
        c->hash += item->rows_hash;
        c->total += item->rows;
    }
    if (item->type != FORMAT_CREATE && item->type != FORMAT_END)
        return 0;
    if (end_table(c, e) < 0)
        return -1;
    c->table = NULL;
    c->rows = c->hash = 0;
    if (item->type == FORMAT_END)
        return 0;
    c->table = c->seen < c->m->table_count ? &c->m->tables[c->seen++] : NULL;
    if (!c->table || strcmp(c->table->name, item->table) != 0)
        return err_set(e, ERR_DAMAGED, 0, "%s: table %s is not the one its manifest names there",
                       c->file, item->table);
    return 0;
}

static int check_end(const struct check *c, struct gunzip *in, struct err *e)
{
    char sha[SHA256_HEX];
    gunzip_sha256(in, sha);
    if (c->seen != c->m->table_count)
        return err_set(e, ERR_DAMAGED, 0, "%s: %zu tables, its manifest says %zu", c->file, c->seen,
                       c->m->table_count);
    if (gunzip_plain_bytes(in) != c->m->bytes)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: %" PRIu64 " bytes of SQL, its manifest says %" PRIu64, c->file,
                       gunzip_plain_bytes(in), c->m->bytes);
    if (strcmp(sha, c->m->sha256) != 0)
        return err_set(e, ERR_DAMAGED, 0, "%s: its SHA-256 is not the one of its manifest",
                       c->file);
    return 0;
}

int verify_dump(int dirfd, const char *file, const struct manifest *m, verify_fn *fn, void *arg,
                struct progress *progress, struct err *e)
{
    struct check c = {.file = file, .m = m};
    int rc = -1, fd = open_dump(dirfd, file, m, e);
    if (fd < 0)
        return -1;
    struct gunzip *in = gunzip_open(fd, file, e);
    struct format_reader *r = in ? format_open(in, file) : NULL;
    struct format_item item = {.type = FORMAT_CREATE};
    while (r) {
        if (format_next(r, &item, e) < 0 || check_item(&c, &item, e) < 0 ||
            (fn && fn(arg, &item, e) < 0))
            goto out;
        progress_at(progress, c.total, gunzip_packed_bytes(in));
        if (item.type == FORMAT_CREATE)
            progress_table(progress, item.table);
        if (item.type == FORMAT_END)
            break;
    }
    rc = r ? check_end(&c, in, e) : -1;
out:
    format_close(r);
    gunzip_close(in);
    close(fd);
    return rc;
}
