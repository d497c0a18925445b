#include "journal/archive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "db/gtid.h"

#define SEGMENTS_MAX 100000u
#define SLACK_S 1 /* both are whole seconds of one clock */

int archive_dir(const struct config *c, bool create, struct err *e)
{
    return file_dir(c->journal_dir, create ? FILE_MAKE : 0, 0700, e);
}

static int by_number(const void *a, const void *b)
{
    const struct archive_segment *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int list_names(int dirfd, const char *world, struct archive *out, struct err *e)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *ent;
    if (!d) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return err_sys(e, why, "cannot list the journal");
    }
    while (errno = 0, (ent = readdir(d))) {
        uint64_t n = segment_number(ent->d_name, world);
        out->number = n > out->number ? n : out->number; /* no other one gets it */
        if (n == 0 || out->count == SEGMENTS_MAX)
            continue;
        out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
        struct archive_segment *s = &out->list[out->count++];
        *s = (struct archive_segment){.number = n};
        snprintf(s->file, sizeof s->file, "%.63s", ent->d_name);
    }
    int rc = errno ? err_sys(e, errno, "cannot list the journal") : 0;
    closedir(d);
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, by_number);
    return rc;
}

/* One without a seal is read to its end. */
static int read_through(int dirfd, struct archive_segment *s, struct err *e)
{
    struct change c;
    struct err why;
    int got;
    struct segment_reader *r = segment_open(dirfd, s->file, e);
    if (!r)
        return -1;
    while ((got = segment_next(r, &c, &why)) == 1)
        ;
    s->head = *segment_head(r);
    s->sum = *segment_sum(r);
    s->sealed = segment_sealed(r);
    segment_reader_close(r);
    if (got == 0)
        return 0;
    *e = why;
    return -1;
}

/* Damage is a fact about the segment, and so is what the disk does not give back, and that somebody
 * copied another world's to here. */
static int look_at(int dirfd, const char *world, struct archive_segment *s, struct err *e)
{
    struct stat st;
    if (fstatat(dirfd, s->file, &st, AT_SYMLINK_NOFOLLOW) == 0)
        s->size = (uint64_t)st.st_size;
    int got = segment_peek(dirfd, s->file, &s->head, &s->sum, e);
    s->sealed = got == 1;
    if (got == 0)
        got = read_through(dirfd, s, e);
    if (got < 0 && e->num != ENOENT) {
        snprintf(s->damage, sizeof s->damage, "%s", e->text);
        got = 0;
    }
    if (got >= 0 && s->head.number && strcmp(s->head.world, world) != 0) {
        snprintf(s->damage, sizeof s->damage, "journal segment %s is one of world %s", s->file,
                 s->head.world);
        s->head = (struct segment_head){0}; /* nothing is ever found in it */
    }
    return got < 0 ? -1 : 0;
}

int archive_load(int dirfd, const char *world, struct archive *out, struct err *e)
{
    *out = (struct archive){0};
    int rc = list_names(dirfd, world, out, e);
    for (size_t i = 0; rc == 0 && i < out->count; i++) {
        rc = look_at(dirfd, world, &out->list[i], e);
        if (rc < 0 && e->num == ENOENT) { /* deleted meanwhile, being the oldest */
            memmove(&out->list[i], &out->list[i + 1], (out->count - i - 1) * sizeof *out->list);
            out->count--;
            i--;
            rc = 0;
        }
    }
    if (rc < 0)
        archive_free(out);
    return rc;
}

void archive_free(struct archive *a)
{
    free(a->list);
    *a = (struct archive){0};
}

/* The last ones, in which nothing is. */
static int remove_blank(int dirfd, struct archive *a, struct err *e)
{
    int blank = 1;
    while (blank == 1 && a->count && a->list[a->count - 1].head.number == 0) {
        const char *file = a->list[a->count - 1].file;
        blank = segment_blank(dirfd, file, NULL); /* what it is else is told */
        if (blank == 1 && file_remove(dirfd, file, e) < 0)
            return -1;
        a->count -= blank == 1;
    }
    return 0;
}

static int recover_last(int dirfd, const char *world, struct archive_segment *s, struct err *e)
{
    char damage[512];
    if (segment_recover(dirfd, s->file, damage, e) < 0 || look_at(dirfd, world, s, e) < 0)
        return -1;
    snprintf(s->damage, sizeof s->damage, "%s", damage);
    return 0;
}

int archive_recover(int dirfd, const char *world, struct archive *out, struct err *e)
{
    if (archive_load(dirfd, world, out, e) < 0)
        return -1;
    int rc = remove_blank(dirfd, out, e);
    struct archive_segment *last = rc == 0 && out->count ? &out->list[out->count - 1] : NULL;
    if (last && !last->sealed && last->head.number)
        rc = recover_last(dirfd, world, last, e);
    if (rc < 0)
        archive_free(out);
    return rc;
}

/* ---- what covers what ---- */

bool archive_goes_on(const struct archive *a, size_t i)
{
    if (i >= a->count || i + 1 == a->count)
        return false;
    const struct archive_segment *s = &a->list[i], *next = &a->list[i + 1];
    return !s->damage[0] && next->head.follows && strcmp(s->head.server, next->head.server) == 0 &&
           strcmp(s->head.schema, next->head.schema) == 0 &&
           db_point_compare(&s->sum.to.point, &next->head.from.point) == 0;
}

/* The log may have been begun anew, with the same names: the numbers of groups tell. */
static bool numbers_fit(const struct archive_segment *s, const struct db_point *p)
{
    uint32_t domain, server;
    uint64_t seq;
    const char *to = s->sum.to.point.gtid;
    if (sscanf(to, "%" SCNu32 "-%" SCNu32 "-%" SCNu64, &domain, &server, &seq) != 3)
        return true;
    struct db_gtid_range had = db_gtid_range(p, domain);
    uint64_t begins = db_gtid_seq(s->head.from.point.gtid, domain);
    return had.least == 0 || (had.least <= seq && had.most >= begins);
}

/* A new server in the place of an old one has its name, and the names and numbers of its log. But
 * no process writes a file that was begun before it. */
static bool begun_in_time(const struct archive_segment *s, const struct db_point *p, int64_t start)
{
    const struct segment_place *from = &s->head.from, *to = &s->sum.to;
    bool first = strcmp(p->file, from->point.file) == 0 && from->born;
    uint32_t born = first ? from->born : to->born;
    return start == 0 || born == 0 || born + SLACK_S >= start;
}

/* Nor is a file of the same name that was begun at another time the file of that place. */
static bool same_file(const struct segment_place *is, const struct db_point *p, uint32_t born)
{
    return born == 0 || is->born == 0 || is->born == born || strcmp(is->point.file, p->file) != 0;
}

static bool holds(const struct archive_segment *s, const struct db_point *p, uint32_t born,
                  const struct server_id *server)
{
    return s->head.number && strcmp(s->head.server, server->uid) == 0 &&
           db_point_compare(&s->head.from.point, p) <= 0 &&
           db_point_compare(p, &s->sum.to.point) <= 0 && numbers_fit(s, p) &&
           same_file(&s->head.from, p, born) && same_file(&s->sum.to, p, born) &&
           begun_in_time(s, p, server->start);
}

int archive_find(const struct archive *a, const struct db_point *from, uint32_t born,
                 const struct server_id *server)
{
    if (!from->file[0])
        return -1;
    for (size_t i = a->count; i-- > 0;)
        if (holds(&a->list[i], from, born, server))
            return (int)i;
    return -1;
}

/* What is in segment i is older than the beginning of the next one, where that is known. */
static bool is_old(const struct archive *a, size_t i, int64_t keep, wall_t now)
{
    do
        i++;
    while (i < a->count && a->list[i].head.made.ms == 0);
    return i < a->count && now.ms - a->list[i].head.made.ms > keep;
}

size_t archive_spare(const struct archive *a, int oldest_need, int newest_need, int64_t keep,
                     uint64_t max_size, wall_t now)
{
    uint64_t size = 0;
    size_t n = 0, most = newest_need >= 0 ? (size_t)newest_need : a->count;
    for (size_t i = 0; i < a->count; i++)
        size += a->list[i].size;
    while (n < most && n + 1 < a->count) {
        bool needless = oldest_need >= 0 && n < (size_t)oldest_need;
        if (!needless && size <= max_size && !is_old(a, n, keep, now))
            break;
        size -= a->list[n].size;
        n++;
    }
    return n;
}

int archive_drop(int dirfd, const struct archive *a, size_t n, struct err *e)
{
    for (size_t i = 0; i < n && i < a->count; i++)
        if (file_remove(dirfd, a->list[i].file, e) < 0)
            return -1;
    return 0;
}
