#include "journal/segment_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/line.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "journal/segment_write.h"
#include "store/catalog.h"

/* short enough that a change is on the disk within a second, even if the disk is slow */
#define SYNC_MS 400

struct segment_store {
    const struct config *c;
    int dirfd, dump_dirfd;
    struct segment_head head;   /* head of the current segment or of the next one */
    struct segment_writer *out; /* NULL if none was created yet */
    /* end of the segments so far; `file` is empty if none is of this server */
    struct segment_place end;
    uint64_t number; /* the highest number so far */
    bool within;     /* within a transaction */
    bool due;        /* the segment ends after the current transaction */
    mono_t next_sync;
};

/* Returns the first segment that the dump needs. For a dump after all segments this is the last
 * one. Returns -1 if it is unknown. */
static int need_of(const struct archive *a, const struct catalog_entry *c)
{
    int i = c ? archive_find(a, &c->m.end, c->m.log_created_at, &c->m.server) : -1;
    if (!c || i >= 0 || a->count == 0)
        return i;
    const struct archive_segment *last = &a->list[a->count - 1];
    bool after = last->sum.to.point.file[0] && strcmp(last->head.server, c->m.server.uid) == 0 &&
                 db_binlog_pos_compare(&c->m.end, &last->sum.to.point) > 0;
    return after ? (int)a->count - 1 : -1;
}

int segment_store_trim(const struct config *cfg, int dirfd, int dump_dirfd, struct err *e)
{
    SCOPED(archive_free) struct archive a = {0};
    SCOPED(catalog_free) struct catalog c = {0};
    if (archive_load(dirfd, cfg->name, &a, e) < 0)
        return -1;
    int rc = catalog_load(dump_dirfd, cfg->name, &c, e);
    if (rc == 0) {
        const struct catalog_entry *oldest = NULL;
        for (size_t i = c.count; i-- > 0 && !oldest;)
            oldest = c.list[i].intact ? &c.list[i] : NULL;
        size_t n = archive_spare(&a, need_of(&a, oldest), need_of(&a, catalog_newest(&c, 0)),
                                 cfg->journal_keep, cfg->journal_max_size,
                                 catalog_now(&c, cfg->dump_interval, clock_wall()));
        rc = archive_drop(dirfd, &a, n, e);
    }
    return rc;
}

struct segment_store *segment_store_open(const struct config *c, int dump_dirfd,
                                         const struct server_id *server, const char *schema,
                                         char damage[LINE], struct err *e)
{
    struct segment_store *k = xcalloc(1, sizeof *k);
    struct archive a = {0};
    k->c = c;
    k->dump_dirfd = dump_dirfd;
    snprintf(k->head.world, sizeof k->head.world, "%s", c->name);
    snprintf(k->head.schema, sizeof k->head.schema, "%s", schema);
    snprintf(k->head.server, sizeof k->head.server, "%s", server->uid);
    snprintf(k->head.hostname, sizeof k->head.hostname, "%s", server->hostname);
    damage[0] = '\0';
    k->dirfd = archive_dir(c, true, e);
    /* Dumps may have made segments unnecessary while no follower ran. They are deleted before the
     * recovery, which writes a few KiB and would fail on a full disk. */
    struct err ignored; /* the deletion is retried after the next dump */
    if (k->dirfd >= 0)
        segment_store_trim(k->c, k->dirfd, k->dump_dirfd, &ignored);
    if (k->dirfd >= 0 && archive_recover(k->dirfd, c->name, &a, e) == 0) {
        const struct archive_segment *last = a.count ? &a.list[a.count - 1] : NULL;
        k->number = a.number;
        if (last)
            line_set(damage, LINE, "%s", last->damage);
        if (last && strcmp(last->head.server, k->head.server) == 0 &&
            strcmp(last->head.schema, k->head.schema) == 0)
            k->end = last->sum.to;
        archive_free(&a);
        return k;
    }
    if (k->dirfd >= 0)
        close(k->dirfd);
    free(k);
    return NULL;
}

const struct segment_place *segment_store_end(const struct segment_store *k)
{
    return k->end.point.file[0] ? &k->end : NULL;
}

bool segment_store_reaches(const struct segment_store *k, const struct db_binlog_pos *from,
                           uint32_t created_at, struct segment_mark *gap)
{
    SCOPED(archive_free) struct archive a = {0};
    struct err ignored; /* on failure the segments are not used */
    *gap = (struct segment_mark){.kind = CHANGE_GAP};
    if (db_binlog_pos_compare(from, &k->end.point) > 0)
        return true;
    if (archive_load(k->dirfd, k->c->name, &a, &ignored) < 0)
        return false;
    struct server_id server = {.start = 0}; /* the server process of the dump is unknown here */
    snprintf(server.uid, sizeof server.uid, "%s", k->head.server);
    int i = archive_find(&a, from, created_at, &server);
    if (i >= 0)
        archive_gap(&a, (size_t)i, from, gap);
    while (i >= 0 && (size_t)i + 1 < a.count)
        i = archive_continues(&a, (size_t)i) ? i + 1 : -1;
    return i >= 0;
}

void segment_store_begin(struct segment_store *k, const struct segment_place *from, const char *why)
{
    k->end = *from;
    k->head.follows = why == NULL;
    line_set(k->head.why, sizeof k->head.why, "%s", why ? why : "");
}

/* ---- one segment ---- */

/* Closes the segment after a failed write, because readers would take further data for damage. */
static int segment_store_broken(struct segment_store *k)
{
    segment_close(k->out);
    k->out = NULL;
    return -1;
}

/* Ends the current segment. Must be called between transactions. */
static int end_segment(struct segment_store *k, struct err *e)
{
    k->due = false;
    if (!k->out)
        return 0;
    if (segment_sync(k->out, e) < 0)
        return segment_store_broken(k);
    struct segment_writer *w = k->out;
    k->out = NULL;
    k->end = segment_written(w)->to;
    k->head.follows = true;
    k->head.why[0] = '\0';
    return segment_finalize(w, e);
}

/* Checks that the file still exists under its name. Writes to an unlinked file succeed but can
 * never be read. */
static int segment_store_named(const struct segment_store *k, struct err *e)
{
    char name[SEGMENT_NAME_MAX];
    struct stat here, there = {0};
    segment_name(k->c->name, k->number, name);
    SCOPED(xfree) char *path = xasprintf("%s/%s", k->c->journal_dir, name);
    int rc = fstatat(k->dirfd, name, &here, AT_SYMLINK_NOFOLLOW);
    if (rc == 0)
        rc = lstat(path, &there);
    if (rc < 0)
        err_sys(e, errno, "journal segment %s was removed", path);
    else if (here.st_dev != there.st_dev || here.st_ino != there.st_ino)
        rc = err_set(e, ERR_SYSTEM, 0, "%s is not the journal segment that is being written", path);
    return rc;
}

static int begin_segment(struct segment_store *k, struct err *e)
{
    if (k->out)
        return 0;
    if (k->number >= SEGMENT_NUMBER_MAX) {
        err_set(e, ERR_REFUSED, 0,
                "cannot create a journal segment: %" PRIu64 " was the last possible number",
                k->number);
        return err_hint(e, "move the journal's directory away, then: worldkeeper --dump");
    }
    k->head.number = k->number + 1;
    k->head.from = k->end;
    k->head.made = clock_wall();
    k->out = segment_create(k->dirfd, &k->head, e);
    if (!k->out)
        return -1;
    k->number++;
    return 0;
}

int segment_store_put(struct segment_store *k, const struct change *c, struct err *e)
{
    if (begin_segment(k, e) < 0)
        return -1;
    if (c->kind == CHANGE_BEGIN)
        k->within = true;
    else if (c->kind == CHANGE_END || c->kind == CHANGE_CUT)
        k->within = false;
    if (segment_put(k->out, c, e) < 0)
        return segment_store_broken(k);
    bool full = segment_bytes(k->out) >= k->c->journal_segment;
    return !k->within && (full || k->due) ? end_segment(k, e) : 0;
}

int segment_store_quiet(struct segment_store *k, wall_t until, struct err *e)
{
    if (begin_segment(k, e) < 0)
        return -1;
    return segment_quiet(k->out, until, e) < 0 || segment_store_named(k, e) < 0
               ? segment_store_broken(k)
               : 0;
}

bool segment_store_synced(const struct segment_store *k)
{
    return !k->out || !segment_urgent(k->out);
}

int segment_store_sync(struct segment_store *k, bool wanted, struct err *e)
{
    bool due = k->out && (wanted ? segment_dirty(k->out) : segment_urgent(k->out));
    if (!due || !mono_reached(clock_mono(), k->next_sync))
        return 0;
    if (segment_sync(k->out, e) < 0 || segment_store_named(k, e) < 0)
        return segment_store_broken(k);
    k->next_sync = mono_add(clock_mono(), SYNC_MS);
    return 1;
}

int segment_store_dumped(struct segment_store *k, struct err *e)
{
    k->due = k->within;
    return (k->within ? 0 : end_segment(k, e)) < 0 ||
                   segment_store_trim(k->c, k->dirfd, k->dump_dirfd, e) < 0
               ? -1
               : 0;
}

int segment_store_close(struct segment_store *k, struct err *e)
{
    int rc = 0;
    if (!k)
        return 0;
    if (k->out)
        rc = segment_finalize(k->out, e);
    close(k->dirfd);
    free(k);
    return rc;
}
