#include "dump/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/gunzip.h"
#include "base/text.h"
#include "dump/parts.h"

/* Upper bound for definitions, which people write and which never reach this size. */
#define REST_MAX (256u << 20)
#define HASH_CHUNK 131072u

struct verify_file {
    int fd;
    char *name;
    const struct manifest *m;
    struct manifest_parts parts; /* the manifest's, or `learned` from the file */
    bool learned;
    size_t *first; /* [region] is the index of its first part */
    struct arrival *arrival;
    _Atomic bool given_up;
};

int verify_size(int fd, const char *name, const struct manifest *m, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "cannot read %s", name);
    if ((uint64_t)st.st_size == m->file_size)
        return 0;
    return err_set(e, ERR_DAMAGED, 0, "%s has %lld bytes, but its manifest says %" PRIu64, name,
                   (long long)st.st_size, m->file_size);
}

/* Opens a dump's file. If it is missing, not a regular file, or unreadable (EIO), the dump is
 * damaged and another one may be intact. Any other error says nothing about the dump. */
static int open_dump(int dirfd, const char *file, const struct manifest *m, struct err *e)
{
    int fd = file_open_own(dirfd, file, O_RDONLY, e);
    if (fd < 0) {
        if (e && e->cls == ERR_SYSTEM &&
            (e->num == 0 || e->num == ENOENT || e->num == ELOOP || e->num == EIO))
            e->cls = ERR_DAMAGED;
        return -1;
    }
    if (verify_size(fd, file, m, e) < 0) {
        close(fd);
        return -1;
    }
    /* The content of the page cache proves nothing about the disk. */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return fd;
}

/* Counts an item. Returns 1 if it was the last one. */
static int see_item(struct manifest *seen, const struct format_item *item)
{
    if (item->type == FORMAT_CREATE) {
        seen->tables = xgrow(seen->tables, seen->table_count, sizeof *seen->tables);
        seen->tables[seen->table_count++] = (struct manifest_table){.name = xstrdup(item->table)};
    } else if (item->type == FORMAT_ROWS && seen->table_count) {
        /* always follows the table's FORMAT_CREATE */
        struct manifest_table *t = &seen->tables[seen->table_count - 1];
        t->rows += item->rows;
        t->rows_hash += item->rows_hash;
        seen->rows += item->rows;
    }
    return item->type == FORMAT_END;
}

static int other_table(const char *file, const char *table, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "%s: table %s is not the one that its manifest names here",
                   file, table);
}

/* Returns whether the manifest lists the table at this place. NULL: there is no manifest yet. */
static bool is_listed(const struct manifest *m, size_t place, const char *table)
{
    return !m || (place < m->table_count && strcmp(m->tables[place].name, table) == 0);
}

int verify_read(struct gunzip *in, const char *name, const struct manifest *m, struct manifest *out,
                struct progress *progress, struct err *e)
{
    struct format_reader *r = format_open(in, name);
    struct format_item item = {.type = FORMAT_CREATE};
    int rc = 0, end = 0;
    *out = (struct manifest){0};
    while (!end && (rc = format_next(r, &item, e)) == 0) {
        if (item.type == FORMAT_CREATE && !is_listed(m, out->table_count, item.table)) {
            rc = other_table(name, item.table, e);
            break;
        }
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

/* Compares a table with the manifest. The hash is a sum over rows, because MEMORY tables do not
 * guarantee an order. */
static int verify_compare_table(const char *file, const struct manifest_table *t, uint64_t rows,
                                uint64_t hash, struct err *e)
{
    if (rows != t->rows)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: %" PRIu64 " rows in table %s, but its manifest says %" PRIu64, file,
                       rows, t->name, t->rows);
    if (hash != t->rows_hash)
        return err_set(e, ERR_DAMAGED, 0, "%s: the rows of table %s do not match the manifest",
                       file, t->name);
    return 0;
}

int verify_compare(const struct manifest *seen, const char *name, const struct manifest *m,
                   struct err *e)
{
    for (size_t i = 0; i < seen->table_count; i++) {
        const struct manifest_table *t = &seen->tables[i];
        if (!is_listed(m, i, t->name))
            return other_table(name, t->name, e);
        if (verify_compare_table(name, &m->tables[i], t->rows, t->rows_hash, e) < 0)
            return -1;
    }
    if (seen->table_count != m->table_count)
        return err_set(e, ERR_DAMAGED, 0, "%s: %zu tables, but its manifest says %zu", name,
                       seen->table_count, m->table_count);
    if (seen->bytes != m->bytes)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: %" PRIu64 " bytes of SQL, but its manifest says %" PRIu64, name,
                       seen->bytes, m->bytes);
    if (strcmp(seen->sha256, m->sha256) != 0)
        return err_set(e, ERR_DAMAGED, 0, "%s: its SHA-256 does not match the manifest", name);
    return 0;
}

/* Checks that tables neither overlap nor lie outside the file. */
static int check_places(const char *file, const struct manifest *m, struct err *e)
{
    uint64_t at = 0;
    for (size_t i = 0; i < m->table_count; i++) {
        const struct manifest_table *t = &m->tables[i];
        if (t->offset < at || t->length == 0 || t->length > m->file_size ||
            t->offset > m->file_size - t->length)
            return err_set(e, ERR_DAMAGED, 0, "%s: in its manifest, table %s has no valid position",
                           file, t->name);
        at = t->offset + t->length;
    }
    return 0;
}

/* Finds the first part of each region. */
static int number_parts(struct verify_file *v, struct err *e)
{
    uint64_t n = 0;
    size_t regions = parts_regions(v->m);
    v->first = xcalloc(regions, sizeof *v->first);
    for (size_t i = 0; i < regions; i++) {
        v->first[i] = (size_t)n;
        n += parts_count(parts_region(v->m, i), v->parts.bytes);
    }
    if (n == v->parts.count)
        return 0;
    return err_set(e, ERR_DAMAGED, 0, "%s: it has %" PRIu64 " parts, but its manifest says %zu",
                   v->name, n, v->parts.count);
}

static void keep_part(void *arg, uint32_t length, const unsigned char sha256[SHA256_BYTES])
{
    (void)length;
    parts_keep(arg, sha256);
}

/* Hashes compressed bytes, so that nothing is decompressed before it is verified. */
static int hash_region(struct verify_file *v, struct gunzip *in, struct parts_hash *h, size_t i,
                       struct progress *progress, struct err *e)
{
    char data[HASH_CHUNK];
    struct parts_region r = parts_region(v->m, i);
    while (r.from < r.to) {
        uint64_t left = r.to - r.from;
        int64_t n = gunzip_read(in, data, left < sizeof data ? (size_t)left : sizeof data, e);
        if (n <= 0)
            return n < 0 ? -1 : err_set(e, ERR_DAMAGED, 0, "%s: cut short", v->name);
        parts_hash_add(h, i, data, (size_t)n);
        r.from += (uint64_t)n;
        progress_at(progress, 0, gunzip_packed_bytes(in));
    }
    return 0;
}

/* Hashes the whole file, for a manifest that lists no parts. */
static int learn_parts(struct verify_file *v, struct progress *progress, struct err *e)
{
    char sha[SHA256_HEX] = "";
    v->parts.bytes = MANIFEST_PART;
    struct gunzip *in = gunzip_open_plain(v->fd, v->name, e);
    struct parts_hash *h = parts_hash_new(v->parts.bytes, keep_part, &v->parts);
    int rc = in && h ? 0 : -1;
    progress_phase(progress, "verifying", 0, v->m->file_size);
    for (size_t i = 0; i < parts_regions(v->m) && rc == 0; i++)
        rc = hash_region(v, in, h, i, progress, e);
    if (in && (!h || (rc == 0 && parts_hash_end(h) < 0)))
        rc = err_set(e, ERR_SYSTEM, 0, "cannot hash %s", v->name);
    if (rc == 0) {
        gunzip_sha256(in, sha);
        if (strcmp(sha, v->m->sha256) != 0)
            rc = err_set(e, ERR_DAMAGED, 0, "%s: its SHA-256 does not match the manifest", v->name);
    }
    parts_hash_free(h);
    gunzip_close(in);
    return rc;
}

/* Opens a file for verification and takes ownership of `fd`. If `fd` is -1, `e` already holds an
 * error. */
static struct verify_file *verify_open_file(int fd, const char *file, const struct manifest *m,
                                            struct progress *progress, struct err *e)
{
    struct verify_file *v = xcalloc(1, sizeof *v);
    *v = (struct verify_file){.fd = fd, .name = xstrdup(file), .m = m, .parts = m->parts};
    v->learned = m->parts.count == 0;
    if (fd >= 0 && check_places(file, m, e) == 0 &&
        (!v->learned || learn_parts(v, progress, e) == 0) && number_parts(v, e) == 0)
        return v;
    verify_close(v);
    return NULL;
}

struct verify_file *verify_open(int dirfd, const char *file, const struct manifest *m,
                                struct progress *progress, struct err *e)
{
    return verify_open_file(open_dump(dirfd, file, m, e), file, m, progress, e);
}

struct verify_file *verify_open_arriving(struct arrival *a, const char *file,
                                         const struct manifest *m, struct err *e)
{
    int fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        err_sys(e, errno, "cannot read %s", file);
    struct verify_file *v = verify_open_file(fd, file, m, NULL, e);
    if (v)
        v->arrival = a;
    return v;
}

struct arrival *verify_arrival(const struct verify_file *v)
{
    return v->arrival;
}

void verify_give_up(struct verify_file *v)
{
    v->given_up = true;
    if (v->arrival)
        arrival_wake(v->arrival);
}

void verify_close(struct verify_file *v)
{
    if (!v)
        return;
    if (v->fd >= 0)
        close(v->fd);
    if (v->learned)
        free(v->parts.sha256);
    free(v->first);
    free(v->name);
    free(v);
}

/* ---- reading verified parts ---- */

/* The position of a reader: offset `at` of the file, in `region`. */
struct stretch {
    const struct verify_file *file;
    size_t region;
    uint64_t begin; /* where the reader started */
    uint64_t end;
};

/* Called by gunzip for the part at byte `from` of what it reads: gives its length and SHA-256. */
static void part_at(void *arg, uint64_t from, struct gunzip_part *part)
{
    struct stretch *s = arg;
    const struct verify_file *v = s->file;
    uint64_t at = s->begin + from;
    if (at >= s->end)
        return;
    struct parts_region r = parts_region(v->m, s->region);
    while (at >= r.to)
        r = parts_region(v->m, ++s->region);
    uint64_t left = r.to - at;
    part->length = left < v->parts.bytes ? (uint32_t)left : v->parts.bytes;
    memcpy(part->sha256, v->parts.sha256[v->first[s->region] + (at - r.from) / v->parts.bytes],
           SHA256_BYTES);
}

static int wait_for_region(void *arg, uint64_t from, uint64_t *to, struct err *e)
{
    struct stretch *s = arg;
    int rc = arrival_wait(s->file->arrival, s->begin + from, to, &s->file->given_up, e);
    *to -= s->begin;
    return rc;
}

/* Opens a reader of one region; `s` must live as long as the reader. */
static struct gunzip *open_region(const struct verify_file *v, size_t region, struct stretch *s,
                                  struct err *e)
{
    struct parts_region r = parts_region(v->m, region);
    *s = (struct stretch){.file = v, .region = region, .begin = r.from, .end = r.to};
    struct gunzip *in = gunzip_open_part(v->fd, v->name, r.from, r.to - r.from, e);
    if (in)
        gunzip_prove(in, part_at, s);
    if (in && v->arrival)
        gunzip_on_wait(in, wait_for_region, s);
    return in;
}

int verify_whole(struct verify_file *v, struct progress *progress, struct err *e)
{
    SCOPED(manifest_free) struct manifest seen = {0};
    struct stretch all = {.file = v, .end = v->m->file_size};
    if (lseek(v->fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "cannot read %s", v->name);
    struct gunzip *in = gunzip_open(v->fd, v->name, e);
    if (in)
        gunzip_prove(in, part_at, &all);
    int rc = in ? verify_read(in, v->name, v->m, &seen, progress, e) : -1;
    if (rc == 0)
        rc = verify_compare(&seen, v->name, v->m, e);
    gunzip_close(in);
    return rc;
}

int verify_dump(int dirfd, const char *file, const struct manifest *m, struct progress *progress,
                struct err *e)
{
    struct verify_file *v = verify_open(dirfd, file, m, progress, e);
    int rc = v ? verify_whole(v, progress, e) : -1;
    verify_close(v);
    return rc;
}

struct verify_part {
    const struct verify_file *file;
    const struct manifest_table *table;
    struct stretch at;
    struct gunzip *in;
    struct format_reader *reader;
    uint64_t rows, hash;
    bool named; /* its CREATE TABLE was read */
};

struct verify_part *verify_part_open(struct verify_file *v, size_t table, struct err *e)
{
    struct verify_part *p = xcalloc(1, sizeof *p);
    p->file = v;
    p->table = &v->m->tables[table];
    p->in = open_region(v, 2 * table + 1, &p->at, e);
    if (!p->in) {
        free(p);
        return NULL;
    }
    p->reader = format_open_table(p->in, v->name);
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

/* Ends a table that was read completely: compares size, row count and content with the manifest. */
static int verify_end_part(const struct verify_part *p, struct err *e)
{
    const struct manifest_table *t = p->table;
    if (!p->named)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: table %s is not at the position that its manifest gives", p->file->name,
                       t->name);
    if (gunzip_plain_bytes(p->in) != t->bytes)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: table %s takes %" PRIu64
                       " bytes of SQL, but its manifest says %" PRIu64,
                       p->file->name, t->name, gunzip_plain_bytes(p->in), t->bytes);
    return verify_compare_table(p->file->name, t, p->rows, p->hash, e);
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
    return item->type == FORMAT_END ? verify_end_part(p, e) : 0;
}

int verify_definition(struct verify_file *v, size_t table, struct buf *create, struct err *e)
{
    struct format_item item;
    struct verify_part *p = verify_part_open(v, table, e);
    int rc = p ? verify_part_next(p, &item, e) : -1;
    if (rc == 0 && item.type == FORMAT_CREATE)
        buf_add(create, item.sql, item.sql_len);
    verify_part_close(p);
    return rc;
}

/* Appends the text of a region to `text`. */
static int verify_add_text(struct verify_file *v, size_t region, struct buf *text, struct err *e)
{
    struct stretch at;
    struct parts_region r = parts_region(v->m, region);
    if (r.from == r.to)
        return 0;
    struct gunzip *in = open_region(v, region, &at, e);
    int64_t n = in ? 1 : -1;
    while (n > 0) {
        buf_reserve(text, 65536);
        n = gunzip_read(in, text->p + text->len, 65536, e);
        if (n > 0)
            text->len += (size_t)n;
        if (text->len > REST_MAX)
            n = err_set(e, ERR_DAMAGED, 0, "%s: its definitions are incomplete", v->name);
    }
    gunzip_close(in);
    return (int)n;
}

int verify_rest(struct verify_file *v, verify_fn *fn, void *arg, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    struct format_item item = {.type = FORMAT_CREATE};
    uint64_t bytes = v->m->bytes;
    int rc = 0;
    /* Even regions are those outside the tables (dump/parts.h). */
    for (size_t i = 0; i < parts_regions(v->m) && rc == 0; i += 2)
        rc = verify_add_text(v, i, &text, e);
    for (size_t i = 0; i < v->m->table_count; i++)
        bytes -= v->m->tables[i].bytes;
    if (rc == 0 && bytes != text.len)
        rc = err_set(e, ERR_DAMAGED, 0, "%s: the lengths of its parts do not match the manifest",
                     v->name);
    if (rc < 0)
        return -1;
    struct format_reader *r = format_open_rest(&text, v->name, v->m->table_count, v->m->rows);
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
