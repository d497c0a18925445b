#include "journal/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/line.h"
#include "binlog/gtid.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"

#define SEGMENTS_MAX 100000u
#define SLACK_S 1 /* both times are in whole seconds of one clock */

int archive_dir(const struct config *c, bool create, struct err *e)
{
    return file_dir(c->journal_dir, create ? FILE_MAKE : 0, 0700, e);
}

static int archive_by_number(const void *a, const void *b)
{
    const struct archive_segment *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int list_names(int dirfd, const char *world, struct archive *out, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    if (file_list(dirfd, "cannot list the journal", &found, e) < 0)
        return -1;
    for (size_t i = 0; i < found.count; i++) {
        uint64_t n = segment_number(found.list[i], world);
        out->number = n > out->number ? n : out->number; /* the number must not be used again */
        if (n == 0 || out->count == SEGMENTS_MAX)
            continue;
        out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
        struct archive_segment *s = &out->list[out->count++];
        *s = (struct archive_segment){.number = n};
        snprintf(s->file, sizeof s->file, "%.63s", found.list[i]);
    }
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, archive_by_number);
    return 0;
}

/* Reads a segment that is not finalized to its end. */
static int archive_read_through(int dirfd, struct archive_segment *s, struct err *e)
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
    s->finalized = segment_finalized(r);
    segment_reader_close(r);
    if (got == 0)
        return 0;
    return err_pass(e, &why);
}

/* Reads one segment. Damage is recorded in the segment instead of failing. So are an I/O error
 * and a segment of another world that was copied here. */
static int archive_read_segment(int dirfd, const char *world, struct archive_segment *s,
                                struct err *e)
{
    struct stat st;
    if (fstatat(dirfd, s->file, &st, AT_SYMLINK_NOFOLLOW) == 0)
        s->size = (uint64_t)st.st_size;
    int got = segment_peek(dirfd, s->file, &s->head, &s->sum, e);
    s->finalized = got == 1;
    if (got == 0)
        got = archive_read_through(dirfd, s, e);
    if (got < 0 && e->num != ENOENT) {
        line_set(s->damage, sizeof s->damage, "%s", e->text);
        got = 0;
    }
    if (got >= 0 && s->head.number && strcmp(s->head.world, world) != 0) {
        line_set(s->damage, sizeof s->damage, "journal segment %s belongs to world %s", s->file,
                 s->head.world);
        s->head = (struct segment_head){0}; /* so that no search finds a position in it */
    }
    return got < 0 ? -1 : 0;
}

void archive_free(struct archive *a)
{
    free(a->list);
    *a = (struct archive){0};
}

static int read_all(int dirfd, const char *world, struct archive *out, struct err *e)
{
    *out = (struct archive){0};
    int rc = list_names(dirfd, world, out, e);
    for (size_t i = 0; rc == 0 && i < out->count; i++) {
        rc = archive_read_segment(dirfd, world, &out->list[i], e);
        if (rc < 0 && e->num == ENOENT) { /* deleted meanwhile, because it was the oldest */
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

/* Returns 1 if the last segment is empty, else 0 or less. Other defects are reported elsewhere. */
static int ends_blank(int dirfd, const struct archive *a)
{
    const struct archive_segment *last = a->count ? &a->list[a->count - 1] : NULL;
    return last && last->head.number == 0 ? segment_blank(dirfd, last->file, NULL) : 0;
}

int archive_load(int dirfd, const char *world, struct archive *out, struct err *e)
{
    if (read_all(dirfd, world, out, e) < 0)
        return -1;
    while (ends_blank(dirfd, out) == 1)
        out->count--;
    return 0;
}

/* Removes the last segments if they are empty. */
static int remove_blank(int dirfd, struct archive *a, struct err *e)
{
    for (; ends_blank(dirfd, a) == 1; a->count--)
        if (file_remove(dirfd, a->list[a->count - 1].file, e) < 0)
            return -1;
    return 0;
}

int archive_recover(int dirfd, const char *world, struct archive *out, struct err *e)
{
    if (read_all(dirfd, world, out, e) < 0)
        return -1;
    int rc = remove_blank(dirfd, out, e);
    struct archive_segment *last = rc == 0 && out->count ? &out->list[out->count - 1] : NULL;
    if (last && !last->finalized && last->head.number) {
        char damage[LINE];
        rc = segment_recover(dirfd, last->file, damage, e);
        if (rc == 0)
            rc = archive_read_segment(dirfd, world, last, e);
        /* recovery removed the damage from the file, so keep its description */
        line_set(last->damage, sizeof last->damage, "%s", damage);
    }
    if (rc < 0)
        archive_free(out);
    return rc;
}

/* ---- finding positions ---- */

bool archive_continues(const struct archive *a, size_t i)
{
    if (i >= a->count || i + 1 == a->count)
        return false;
    const struct archive_segment *s = &a->list[i], *next = &a->list[i + 1];
    return !s->damage[0] && next->head.follows && strcmp(s->head.server, next->head.server) == 0 &&
           strcmp(s->head.schema, next->head.schema) == 0 &&
           db_binlog_pos_compare(&s->sum.to.point, &next->head.from.point) == 0;
}

/* What the GTIDs of a position and of a segment say about a log that was reset and reuses the same
 * file names. */
enum numbers {
    NUMBERS_FIT,     /* the position is in the segment, or nothing can be compared */
    NUMBERS_ANOTHER, /* it is a position of another log */
    NUMBERS_APART,   /* MariaDB: transactions of several servers, whose numbers have no order */
};

static enum numbers judge_numbers(const struct archive_segment *s, const struct db_binlog_pos *p,
                                  const char *uid)
{
    struct change_gtid to;
    if (sscanf(s->sum.to.point.gtid, "%" SCNu32 "-%" SCNu32 "-%" SCNu64, &to.domain, &to.server,
               &to.seq) != 3)
        return NUMBERS_FIT;
    struct db_gtid_range before = db_gtid_range(p, to.domain);
    struct change_gtid from = db_gtid_last(s->head.from.point.gtid, to.domain);
    bool ends = db_gtid_ordered(uid, &before.least, &to);
    bool begins = from.seq == 0 || db_gtid_ordered(uid, &from, &before.most);
    if (before.least.seq == 0)
        return NUMBERS_FIT;
    if ((ends && before.least.seq > to.seq) || (begins && from.seq > before.most.seq))
        return NUMBERS_ANOTHER;
    return (ends && begins) || before.least.server == 0 ? NUMBERS_FIT : NUMBERS_APART;
}

/* Returns false if the files have the same name but were created at different times. */
static bool same_file(const struct segment_place *is, const struct db_binlog_pos *p,
                      uint32_t created_at)
{
    return created_at == 0 || is->created_at == 0 || is->created_at == created_at ||
           strcmp(is->point.file, p->file) != 0;
}

/* Returns true if same_file() compared two known times, or a replay will: the time of a file
 * between a segment's first and last one is in the contents of the segment. */
static bool file_is_proven(const struct archive_segment *s, const struct db_binlog_pos *p,
                           uint32_t created_at)
{
    const struct segment_place *from = &s->head.from, *to = &s->sum.to;
    bool first = strcmp(from->point.file, p->file) == 0,
         last = strcmp(to->point.file, p->file) == 0;
    return created_at &&
           ((!first && !last) || (first && from->created_at) || (last && to->created_at));
}

static bool archive_holds(const struct archive_segment *s, const struct db_binlog_pos *p,
                          uint32_t created_at, const struct server_id *server)
{
    const struct segment_place *from = &s->head.from, *to = &s->sum.to;
    if (!s->head.number || strcmp(s->head.server, server->uid) != 0 ||
        db_binlog_pos_compare(&from->point, p) > 0 || db_binlog_pos_compare(p, &to->point) > 0 ||
        !same_file(from, p, created_at) || !same_file(to, p, created_at))
        return false;
    enum numbers numbers = judge_numbers(s, p, server->uid);
    if (numbers == NUMBERS_ANOTHER ||
        (numbers == NUMBERS_APART && !file_is_proven(s, p, created_at)))
        return false;
    /* A new server that replaced an old one may have its name, and the same file names and
     * offsets in its log. But no process writes to a file that was created before the process
     * started. */
    bool first = strcmp(p->file, from->point.file) == 0 && from->created_at;
    uint32_t created = first ? from->created_at : to->created_at;
    return server->start == 0 || created == 0 || (int64_t)created + SLACK_S >= server->start;
}

int archive_find(const struct archive *a, const struct db_binlog_pos *from, uint32_t created_at,
                 const struct server_id *server)
{
    if (!from->file[0])
        return -1;
    for (size_t i = a->count; i-- > 0;)
        if (archive_holds(&a->list[i], from, created_at, server))
            return (int)i;
    return -1;
}

void archive_gap(const struct archive *a, size_t i, const struct db_binlog_pos *from,
                 struct segment_mark *out)
{
    for (; i < a->count; i++) {
        const struct segment_sum *s = &a->list[i].sum;
        size_t n = s->mark_count < SEGMENT_MARKS ? s->mark_count : SEGMENT_MARKS;
        for (size_t k = 0; k < n; k++)
            if (s->marks[k].kind == CHANGE_GAP &&
                db_binlog_pos_compare(&s->marks[k].place, from) >= 0)
                *out = s->marks[k];
        /* The marks that are not listed may include a gap. */
        if (n < s->mark_count && db_binlog_pos_compare(&s->to.point, from) > 0) {
            *out = s->marks[n - 1];
            out->kind = CHANGE_GAP;
            out->place = s->to.point;
            line_set(out->text, sizeof out->text, "more events than were listed in %s",
                     a->list[i].file);
        }
    }
}

/* Returns whether all of segment i is older than `keep`. It is older than the beginning of the
 * next segment whose beginning is known. A beginning in the future counts as unknown: the clock was
 * set back since. */
static bool is_old(const struct archive *a, size_t i, int64_t keep, wall_t now)
{
    do
        i++;
    while (i < a->count && (a->list[i].head.made.ms == 0 || a->list[i].head.made.ms > now.ms));
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
