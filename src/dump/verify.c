#include "dump/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"

/* Definitions are written by people; nobody writes this much. */
#define REST_MAX (256u << 20)
#define HASH_CHUNK 131072u

struct verify_file {
    int fd;
    char *name;
    const struct manifest *m;
};

int verify_size(int fd, const char *name, const struct manifest *m, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "cannot read %s", name);
    if ((uint64_t)st.st_size == m->file_size)
        return 0;
    return err_set(e, ERR_DAMAGED, 0, "%s has %lld bytes, its manifest says %" PRIu64, name,
                   (long long)st.st_size, m->file_size);
}

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
    if (verify_size(fd, file, m, e) < 0) {
        close(fd);
        return -1;
    }
    /* What the page cache remembers proves nothing about the disk. */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return fd;
}

static int see_item(struct verify_seen *seen, const struct format_item *item)
{
    if (item->type == FORMAT_CREATE) {
        seen->tables = xrealloc(seen->tables, (seen->count + 1) * sizeof *seen->tables);
        seen->tables[seen->count++] = (struct verify_table){.name = xstrdup(item->table)};
    } else if (item->type == FORMAT_ROWS && seen->count) { /* the reader saw its CREATE */
        struct verify_table *t = &seen->tables[seen->count - 1];
        t->rows += item->rows;
        t->hash += item->rows_hash;
        seen->rows += item->rows;
    }
    return item->type == FORMAT_END;
}

int verify_read(struct gunzip *in, const char *name, struct verify_seen *out,
                struct progress *progress, struct err *e)
{
    struct format_reader *r = format_open(in, name);
    struct format_item item = {.type = FORMAT_CREATE};
    int rc = 0, end = 0;
    *out = (struct verify_seen){0};
    while (!end && (rc = format_next(r, &item, e)) == 0) {
        end = see_item(out, &item);
        progress_at(progress, out->rows, gunzip_packed_bytes(in));
        if (item.type == FORMAT_CREATE)
            progress_table(progress, item.table);
    }
    format_close(r);
    if (rc < 0)
        return -1;
    out->bytes = gunzip_plain_bytes(in);
    gunzip_sha256(in, out->sha256);
    return 0;
}

static int compare_table(const char *file, const struct manifest_table *t, uint64_t rows,
                         uint64_t hash, struct err *e)
{
    if (rows != t->rows)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: %" PRIu64 " rows in table %s, its manifest says %" PRIu64, file, rows,
                       t->name, t->rows);
    if (hash != t->rows_hash)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: the rows of table %s are not the ones of its manifest", file, t->name);
    return 0;
}

static int other_table(const char *file, const char *table, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "%s: table %s is not the one its manifest names there", file,
                   table);
}

int verify_compare(const struct verify_seen *seen, const char *name, const struct manifest *m,
                   struct err *e)
{
    for (size_t i = 0; i < seen->count; i++) {
        const struct verify_table *t = &seen->tables[i];
        if (i >= m->table_count || strcmp(m->tables[i].name, t->name) != 0)
            return other_table(name, t->name, e);
        if (compare_table(name, &m->tables[i], t->rows, t->hash, e) < 0)
            return -1;
    }
    if (seen->count != m->table_count)
        return err_set(e, ERR_DAMAGED, 0, "%s: %zu tables, its manifest says %zu", name,
                       seen->count, m->table_count);
    if (seen->bytes != m->bytes)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: %" PRIu64 " bytes of SQL, its manifest says %" PRIu64, name,
                       seen->bytes, m->bytes);
    if (strcmp(seen->sha256, m->sha256) != 0)
        return err_set(e, ERR_DAMAGED, 0, "%s: its SHA-256 is not the one of its manifest", name);
    return 0;
}

void verify_seen_free(struct verify_seen *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        free(seen->tables[i].name);
    free(seen->tables);
    *seen = (struct verify_seen){0};
}

int verify_dump(int dirfd, const char *file, const struct manifest *m, struct progress *progress,
                struct err *e)
{
    struct verify_seen seen = {0};
    int fd = open_dump(dirfd, file, m, e);
    if (fd < 0)
        return -1;
    struct gunzip *in = gunzip_open(fd, file, e);
    int rc = in ? verify_read(in, file, &seen, progress, e) : -1;
    if (rc == 0)
        rc = verify_compare(&seen, file, m, e);
    verify_seen_free(&seen);
    gunzip_close(in);
    close(fd);
    return rc;
}

/* Parts that overlap, or lie outside the file, are no parts of this file. */
static int check_places(const char *file, const struct manifest *m, struct err *e)
{
    uint64_t at = 0;
    for (size_t i = 0; i < m->table_count; i++) {
        const struct manifest_table *t = &m->tables[i];
        if (t->offset < at || t->length == 0 || t->length > m->file_size ||
            t->offset > m->file_size - t->length)
            return err_set(e, ERR_DAMAGED, 0, "%s: its manifest gives table %s no place of its own",
                           file, t->name);
        at = t->offset + t->length;
    }
    return 0;
}

struct verify_file *verify_open(int dirfd, const char *file, const struct manifest *m,
                                struct err *e)
{
    if (check_places(file, m, e) < 0)
        return NULL;
    int fd = open_dump(dirfd, file, m, e);
    if (fd < 0)
        return NULL;
    struct verify_file *v = xcalloc(1, sizeof *v);
    *v = (struct verify_file){.fd = fd, .name = xstrdup(file), .m = m};
    return v;
}

void verify_close(struct verify_file *v)
{
    if (!v)
        return;
    close(v->fd);
    free(v->name);
    free(v);
}

struct verify_part {
    const struct verify_file *file;
    const struct manifest_table *table;
    struct gunzip *in;
    struct format_reader *reader;
    uint64_t rows, hash;
    bool named; /* its CREATE TABLE was seen */
};

struct verify_part *verify_part_open(struct verify_file *v, size_t table, struct err *e)
{
    const struct manifest_table *t = &v->m->tables[table];
    struct gunzip *in = gunzip_open_part(v->fd, v->name, t->offset, t->length, e);
    if (!in)
        return NULL;
    struct verify_part *p = xcalloc(1, sizeof *p);
    *p = (struct verify_part){
        .file = v, .table = t, .in = in, .reader = format_open_table(in, v->name)};
    return p;
}

void verify_part_close(struct verify_part *p)
{
    if (!p)
        return;
    format_close(p->reader);
    gunzip_close(p->in);
    free(p);
}

static int end_part(const struct verify_part *p, struct err *e)
{
    const struct manifest_table *t = p->table;
    if (!p->named)
        return err_set(e, ERR_DAMAGED, 0, "%s: table %s is not at its place", p->file->name,
                       t->name);
    if (gunzip_plain_bytes(p->in) != t->bytes)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: table %s takes %" PRIu64 " bytes of SQL, its manifest says %" PRIu64,
                       p->file->name, t->name, gunzip_plain_bytes(p->in), t->bytes);
    return compare_table(p->file->name, t, p->rows, p->hash, e);
}

int verify_part_next(struct verify_part *p, struct format_item *item, struct err *e)
{
    if (format_next(p->reader, item, e) < 0)
        return -1;
    if (item->type == FORMAT_CREATE && (p->named || strcmp(item->table, p->table->name) != 0))
        return other_table(p->file->name, item->table, e);
    if (item->type == FORMAT_DEFINITION)
        return err_set(e, ERR_DAMAGED, 0, "%s: definitions among the rows of table %s",
                       p->file->name, p->table->name);
    p->named |= item->type == FORMAT_CREATE;
    p->rows += item->rows;
    p->hash += item->rows_hash;
    return item->type == FORMAT_END ? end_part(p, e) : 0;
}

/* The text between two places of the file, behind what is in `text`. */
static int add_text(struct verify_file *v, uint64_t from, uint64_t to, struct buf *text,
                    struct err *e)
{
    if (from == to)
        return 0;
    struct gunzip *in = gunzip_open_part(v->fd, v->name, from, to - from, e);
    int64_t n = in ? 1 : -1;
    while (n > 0) {
        buf_reserve(text, 65536);
        n = gunzip_read(in, text->p + text->len, 65536, e);
        if (n > 0)
            text->len += (size_t)n;
        if (text->len > REST_MAX)
            n = err_set(e, ERR_DAMAGED, 0, "%s: definitions without an end", v->name);
    }
    gunzip_close(in);
    return (int)n;
}

static int gather_rest(struct verify_file *v, struct buf *text, struct err *e)
{
    uint64_t at = 0;
    for (size_t i = 0; i < v->m->table_count; i++) {
        const struct manifest_table *t = &v->m->tables[i];
        if (add_text(v, at, t->offset, text, e) < 0)
            return -1;
        at = t->offset + t->length;
    }
    return add_text(v, at, v->m->file_size, text, e);
}

int verify_rest(struct verify_file *v, verify_fn *fn, void *arg, struct err *e)
{
    struct buf text = {0};
    struct format_item item = {.type = FORMAT_CREATE};
    uint64_t bytes = v->m->bytes;
    if (gather_rest(v, &text, e) < 0) {
        buf_free(&text);
        return -1;
    }
    for (size_t i = 0; i < v->m->table_count; i++)
        bytes -= v->m->tables[i].bytes;
    if (bytes != text.len) {
        buf_free(&text);
        return err_set(e, ERR_DAMAGED, 0, "%s: its parts are not as long as its manifest says",
                       v->name);
    }
    struct format_reader *r = format_open_rest(&text, v->name, v->m->table_count, v->m->rows);
    int rc = 0;
    while (rc == 0 && item.type != FORMAT_END) {
        rc = format_next(r, &item, e);
        if (rc == 0 && item.type != FORMAT_DEFINITION && item.type != FORMAT_END)
            rc = other_table(v->name, item.table, e);
        if (rc == 0 && fn)
            rc = fn(arg, &item, e);
    }
    format_close(r);
    return rc;
}

/* The only reader of the file's own place: parts are read by theirs. */
int verify_hash(struct verify_file *v, const _Atomic bool *stop, struct err *e)
{
    char sha[SHA256_HEX];
    struct gunzip *in = gunzip_open_plain(v->fd, v->name, e);
    char *data = xcalloc(1, HASH_CHUNK);
    int64_t n = in ? 1 : -1;
    while (n > 0 && !(stop && *stop))
        n = gunzip_read(in, data, HASH_CHUNK, e);
    if (n == 0)
        gunzip_sha256(in, sha);
    gunzip_close(in);
    free(data);
    if (n == 0 && strcmp(sha, v->m->sha256) != 0)
        return err_set(e, ERR_DAMAGED, 0, "%s: its SHA-256 is not the one of its manifest",
                       v->name);
    if (n > 0)
        err_clear(e);
    return n == 0 ? 0 : -1;
}
