#include "offsite/upload_segments.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "journal/archive.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "offsite/doubts.h"
#include "offsite/upload_int.h"

#define READ_TRIES 8              /* failed reads of a part before it is sent under another name */
#define LOOK_MS fault_wait(60000) /* time between two checks of whose dumps are there */
#define LIST_MS 3600000           /* time between two lists of segments */
#define DELETE_MS 1000            /* longest time in which a step deletes parts */
/* A segment's pieces begin at multiples of this many bytes. A step sends at most one piece, because
 * new changes wait during a step. */
#define PIECE (UINT64_C(4) << 20)
#define DAMAGED_MAX 2 /* a single failed read is not damage */

struct upload_segment {
    char file[SEGMENT_NAME_MAX];
    uint64_t number, settled;
    int64_t made;
    bool known;        /* its head was read */
    bool sealed;       /* `settled` is the whole segment */
    unsigned damaged;  /* failures in a row; DAMAGED_MAX: not read again until … */
    mono_t damaged_at; /* … the store is read again after this time */
    bool listed;       /* still exists */
    wall_t since;      /* all bytes that wait came after this time; ms 0: none waits */
};

static struct upload_segment *segment_of(struct upload *u, const char *file, uint64_t number)
{
    for (size_t i = 0; i < u->segment_count; i++)
        if (u->segments[i].number == number)
            return &u->segments[i];
    u->segments = xgrow(u->segments, u->segment_count, sizeof *u->segments);
    struct upload_segment *s = &u->segments[u->segment_count++];
    *s = (struct upload_segment){.number = number};
    snprintf(s->file, sizeof s->file, "%.63s", file);
    return s;
}

static int upload_segments_by_number(const void *a, const void *b)
{
    const struct upload_segment *x = a, *y = b;
    return (x->number < y->number) - (x->number > y->number);
}

/* Lists the segments, newest first. */
static int list_segments(struct upload *u, int dirfd, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    size_t kept = 0;
    if (file_list(dirfd, "cannot list the journal", &found, e) < 0)
        return -1;
    for (size_t i = 0; i < u->segment_count; i++)
        u->segments[i].listed = false;
    for (size_t i = 0; i < found.count; i++) {
        uint64_t number = segment_number(found.list[i], u->cfg->name);
        if (number)
            segment_of(u, found.list[i], number)->listed = true;
    }
    for (size_t i = 0; i < u->segment_count; i++)
        if (u->segments[i].listed)
            u->segments[kept++] = u->segments[i];
    u->segment_count = kept;
    if (kept)
        qsort(u->segments, kept, sizeof *u->segments, upload_segments_by_number);
    return 0;
}

/* Reads the segment. Returns 1 if it is sealed and complete, 0 if more may follow, -1 on error. */
static int read_segment(int dirfd, struct upload_segment *s, struct err *e)
{
    struct segment_head head;
    struct segment_sum sum;
    struct stat st;
    int sealed = segment_peek(dirfd, s->file, &head, &sum, e);
    if (sealed >= 0) {
        s->known = true;
        s->made = head.made.ms;
    }
    if (sealed < 0 || segment_settled(dirfd, s->file, s->settled, &s->settled, e) < 0)
        return -1;
    /* A sealed segment can be read to its end unless it is damaged. */
    if (sealed == 1 && fstatat(dirfd, s->file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (uint64_t)st.st_size > s->settled)
        return err_set(e, ERR_DAMAGED, 0, "journal segment %s is damaged at byte %" PRIu64, s->file,
                       s->settled);
    return sealed == 1;
}

/* Finds how far the segment may be sent. A damaged segment is sent up to the damage. */
static void look_at(struct upload *u, int dirfd, struct upload_segment *s)
{
    struct err why = {0};
    bool known_damaged = s->damaged == DAMAGED_MAX && s->damaged_at.ms == u->looked_at.ms;
    if (s->sealed || known_damaged)
        return;
    if (!s->known && segment_blank(dirfd, s->file, NULL) == 1)
        return; /* its head is being written */
    int sealed = read_segment(dirfd, s, &why);
    if (sealed < 0) {
        bool damage = why.cls == ERR_DAMAGED;
        s->damaged = damage ? s->damaged + (s->damaged < DAMAGED_MAX) : 0;
        s->damaged_at = u->looked_at;
        fault_point("offsite.damaged");
        if (why.num == ENOENT || (damage && s->damaged < DAMAGED_MAX))
            return;
        upload_here(u, &why);
        if (damage)
            err_hint(&why, "see the disk of the dumps (dmesg, smartctl); worldkeeper --dump stores "
                           "a dump that does not need this segment");
        upload_skip(u, &why);
        if (s == u->segments) { /* the newest matters more than any before it */
            u->skipped = why;
            u->unsent = true;
        }
        return;
    }
    s->damaged = 0;
    s->sealed = sealed == 1;
}

/* ---- parts that were not read back: doubts.h ---- */

/* Writes the file to the disk before the upload begins; the name is removed only after the part
 * was read back. In this order a kill does no harm. */
static int keep_doubts(const struct upload *u, int dirfd, struct err *e)
{
    char file[SEGMENT_NAME_MAX];
    doubts_name(u->cfg->name, file);
    if (u->doubts.len == 0) /* if a power cut restores it, this costs an upload */
        return unlinkat(dirfd, file, 0) == 0 || errno == ENOENT
                   ? 0
                   : err_sys(e, errno, "cannot delete %s", file);
    return file_publish(dirfd, file, u->doubts.p, u->doubts.len, 0600, e);
}

/* Removes the name from the list, and its line from the file. */
static int forget_doubt(struct upload *u, int dirfd, const char *name, struct err *e)
{
    char *at = doubts_find(&u->doubts, name);
    if (!at)
        return 0;
    u->doubts.len -= strlen(name) + 1;
    memmove(at, at + strlen(name) + 1, u->doubts.len - (size_t)(at - u->doubts.p) + 1);
    return keep_doubts(u, dirfd, e);
}

static enum remote_result delete_part(struct upload *u, size_t i, struct err *e)
{
    char name[COPY_NAME_MAX];
    copy_part_name(name, u->cfg->name, &u->there.parts[i]);
    enum remote_result got = upload_delete(u, name, e);
    if (got == REMOTE_OK)
        memmove(&u->there.parts[i], &u->there.parts[i + 1],
                (--u->there.part_count - i) * sizeof *u->there.parts);
    return got;
}

static bool is_listed(const struct upload *u, uint64_t number)
{
    for (size_t i = 0; i < u->segment_count; i++)
        if (u->segments[i].number == number)
            return true;
    return false;
}

/* Deletes the doubted parts. If deletions are not allowed, the parts are treated as missing, and
 * later uploads get other names. A part whose segment no longer exists here cannot be sent
 * again, and stays. Names that the store does not have are free again. */
static enum remote_result settle_doubts(struct upload *u, int dirfd, struct err *e)
{
    enum remote_result got = REMOTE_OK;
    SCOPED(buf_free) struct buf kept = {0};
    SCOPED(doubts_free) struct doubts found = {.names = {0}};
    if (u->doubted)
        return REMOTE_OK;
    buf_clear(&u->doubts);
    if (doubts_read(dirfd, u->cfg->name, &found, e) < 0)
        return REMOTE_STOPPED;
    buf_add(&u->doubts, found.names.p, found.names.len);
    for (size_t i = 0; i < u->there.part_count && got == REMOTE_OK;) {
        char name[COPY_NAME_MAX];
        copy_part_name(name, u->cfg->name, &u->there.parts[i]);
        if (!doubts_find(&u->doubts, name) || !is_listed(u, u->there.parts[i].number)) {
            i++;
        } else if (u->cfg->offsite.delete_never) {
            buf_printf(&kept, "%s\n", name);
            memmove(&u->there.parts[i], &u->there.parts[i + 1],
                    (--u->there.part_count - i) * sizeof *u->there.parts);
        } else {
            got = delete_part(u, i, e);
        }
    }
    if (got == REMOTE_OK && kept.len != u->doubts.len) {
        buf_clear(&u->doubts);
        buf_add(&u->doubts, kept.p, kept.len);
        got = keep_doubts(u, dirfd, e) < 0 ? REMOTE_STOPPED : REMOTE_OK;
        fault_point("offsite.settled");
    }
    u->doubted = got == REMOTE_OK;
    return got;
}

static int name_part(const struct upload *u, struct copy_part *p, char name[COPY_NAME_MAX],
                     struct err *e)
{
    int rc = copy_part_sign(p, u->cfg->name, e);
    copy_part_name(name, u->cfg->name, p);
    return rc;
}

static uint64_t end_of_piece(const struct upload_segment *s, uint64_t at)
{
    uint64_t end = at - at % PIECE + PIECE;
    return end < s->settled ? end : s->settled;
}

/* Shortens the part until its name is not doubted. If it becomes empty, no name is free. */
static int find_free_name(const struct upload *u, struct copy_part *p, char name[COPY_NAME_MAX],
                          struct err *e)
{
    do
        if (name_part(u, p, name, e) < 0)
            return -1;
    while (doubts_find(&u->doubts, name) && --p->to > p->from);
    return 0;
}

static enum remote_result no_free_name(const struct upload *u, const struct upload_segment *s,
                                       uint64_t from, struct err *e)
{
    char file[SEGMENT_NAME_MAX];
    doubts_name(u->cfg->name, file);
    err_set(e, ERR_REFUSED, 0,
            "journal segment %s cannot be stored from byte %" PRIu64
            ": too many parts in the store could not be read back",
            s->file, from);
    err_hint(e, "delete the parts that are listed in %s/%s from the store", u->cfg->journal_dir,
             file);
    return REMOTE_REFUSED;
}

/* Records that the part was read back. */
static enum remote_result part_is_stored(struct upload *u, int dirfd, const struct copy_part *p,
                                         const char *name, uint64_t bytes, struct err *e)
{
    if (forget_doubt(u, dirfd, name, e) < 0)
        return REMOTE_STOPPED;
    copies_add_part(&u->there, p);
    snprintf(u->done.name, sizeof u->done.name, "%s", name);
    u->done.dump = false;
    u->done.bytes = bytes;
    return REMOTE_OK;
}

/* Reads back the part whose last reading failed. If its contents differ, it is given up. */
static enum remote_result read_again(struct upload *u, int dirfd, struct err *e)
{
    struct upload_unread *r = &u->unread;
    enum remote_result got = transfer_check(&u->t, r->name, &r->stored, e);
    r->tries++;
    if (got == REMOTE_OK)
        got = part_is_stored(u, dirfd, &r->part, r->name, r->stored.size, e);
    if (got == REMOTE_OK || got == REMOTE_REFUSED)
        *r = (struct upload_unread){.name = ""};
    return got;
}

/* Stores the part under its name, which is on the list of doubts until it was read back. */
static enum remote_result store_part(struct upload *u, int dirfd, int fd, const struct copy_part *p,
                                     const char *name, struct err *e)
{
    struct transfer_stored stored = {.size = 0};
    buf_printf(&u->doubts, "%s\n", name);
    if (keep_doubts(u, dirfd, e) < 0)
        return REMOTE_STOPPED;
    enum remote_result got = upload_file(u, name, fd, p->from, p->to, &stored, e);
    if (got == REMOTE_OK)
        return part_is_stored(u, dirfd, p, name, stored.size, e);
    if (stored.size && got != REMOTE_REFUSED) {
        u->unread = (struct upload_unread){.part = *p, .stored = stored};
        snprintf(u->unread.name, sizeof u->unread.name, "%s", name);
    }
    return got;
}

/* Sends the rest of a piece. A part that did not come back unchanged cannot be replaced. If it
 * cannot be deleted either, its replacement needs another name, and so another end. While the store
 * cannot be read, each replacement would use up a name, so the same part is read several times
 * before. */
static enum remote_result send_part(struct upload *u, int dirfd, const struct upload_segment *s,
                                    uint64_t from, struct err *e)
{
    struct copy_part p = {.number = s->number,
                          .made = s->made,
                          .from = from,
                          .to = end_of_piece(s, from),
                          .sealed = u->t.recipients.count > 0};
    const struct upload_unread *r = &u->unread;
    char name[COPY_NAME_MAX];
    SCOPED(file_close) int fd = file_open_own(dirfd, s->file, O_RDONLY, e);
    if (fd < 0 && e->num == ENOENT) { /* no dump needs it any longer */
        err_clear(e);
        return REMOTE_OK;
    }
    if (fd < 0 || find_free_name(u, &p, name, e) < 0)
        return REMOTE_STOPPED;
    bool none = p.to == from || u->doubts.len > DOUBTS_MAX;
    bool unread = doubts_find(&u->doubts, r->name) &&
                  copy_part_is_of(&r->part, s->number, s->made) && r->part.from == from;
    if (unread && (none || r->tries < READ_TRIES))
        return read_again(u, dirfd, e);
    if (none)
        return no_free_name(u, s, from, e);
    /* The end may not be on the disk yet: after a power cut the local segment would be shorter
     * than its copy. */
    if (fdatasync(fd) < 0) {
        err_sys(e, errno, "cannot sync journal segment %s", s->file);
        return REMOTE_STOPPED;
    }
    return store_part(u, dirfd, fd, &p, name, e);
}

/* ---- joining and deleting ---- */

static bool is_of(const struct copies *c, size_t i, const struct upload_segment *s)
{
    return i < c->part_count && copy_part_is_of(&c->parts[i], s->number, s->made);
}

/* Returns whether a part is a piece of a sealed segment, or several, as earlier versions sent
 * them. */
static bool is_piece(const struct copy_part *p, const struct upload_segment *s)
{
    return !p->unproven && p->from % PIECE == 0 &&
           (p->to == s->settled || (p->to < s->settled && p->to % PIECE == 0));
}

/* Joins the small parts of a sealed segment, one piece in each step. When all pieces were read
 * back, the small parts are deleted. Returns 1 if something was done, 0 if not, -1 on error, with
 * the cause in `got`. */
static int upload_segments_join(struct upload *u, int dirfd, const struct upload_segment *s,
                                enum remote_result *got, struct err *e)
{
    const struct copies *c = &u->there;
    size_t first = copies_part(c, s->number, s->made), small = 0;
    uint64_t joined = 0;
    for (size_t i = first; is_of(c, i, s); i++) {
        const struct copy_part *p = &c->parts[i];
        small += !is_piece(p, s);
        if (is_piece(p, s) && p->from <= joined && p->to > joined)
            joined = p->to;
    }
    if (!s->sealed || small == 0)
        return 0;
    if (joined < s->settled) {
        *got = send_part(u, dirfd, s, joined - joined % PIECE, e);
        return *got == REMOTE_OK ? 1 : -1;
    }
    mono_t end = mono_add(clock_mono(), DELETE_MS);
    for (size_t i = first; is_of(c, i, s) && *got == REMOTE_OK && !mono_reached(clock_mono(), end);)
        if (is_piece(&c->parts[i], s))
            i++;
        else
            *got = delete_part(u, i, e);
    return *got == REMOTE_OK ? 1 : -1;
}

/* Joins the oldest segment that has small parts. */
static enum remote_result join_next(struct upload *u, int dirfd, bool *more, struct err *e)
{
    enum remote_result got = REMOTE_OK;
    int joined = 0;
    for (size_t i = u->segment_count; i-- > 0 && joined == 0;)
        joined = upload_segments_join(u, dirfd, &u->segments[i], &got, e);
    *more = joined == 1;
    return got;
}

/* Deletes the parts that no dump needs. After DELETE_MS it stops, and is due again at once. */
static enum remote_result upload_segments_tidy(struct upload *u, struct err *e)
{
    SCOPED(xfree) bool *spare = xcalloc(u->there.part_count + 1, sizeof *spare);
    enum remote_result got = REMOTE_OK;
    size_t i = u->there.part_count;
    u->next_tidy = mono_add(clock_mono(), TIDY_MS);
    copies_spare(&u->there, u->cfg->journal_keep,
                 copies_now(&u->there, u->cfg->dump_interval, clock_wall()), spare);
    mono_t end = mono_add(clock_mono(), DELETE_MS);
    while (i > 0 && got == REMOTE_OK && !mono_reached(clock_mono(), end))
        if (spare[--i])
            got = delete_part(u, i, e);
    if (got == REMOTE_OK && i > 0)
        u->next_tidy = clock_mono();
    else if (got == REMOTE_OK)
        upload_sweep(u, "segments");
    return got;
}

/* ---- one step ---- */

/* What is to be sent, and from which byte on. */
struct next {
    struct upload_segment *needed, *before; /* NULL: nothing waits */
    uint64_t needed_from, before_from;
};

/* Sets since when the oldest byte waits. */
static void waits_since(struct upload *u)
{
    u->figures.since = (wall_t){0};
    for (size_t i = 0; i < u->segment_count; i++) {
        wall_t since = u->segments[i].since;
        if (since.ms && (!u->figures.since.ms || since.ms < u->figures.since.ms))
            u->figures.since = since;
    }
}

/* Returns the earliest time at which the bytes of a newly waiting segment may have come: the last
 * look; at the first look, the time at which a sealed segment was begun. */
static wall_t first_since(const struct upload_segment *s, wall_t last, wall_t now)
{
    wall_t begun = {.ms = s->made};
    if (last.ms)
        return last;
    return s->sealed ? begun : now;
}

/* Finds the oldest segment that waits, of those that the newest dump needs and of those before
 * them. */
static void next_segments(struct upload *u, int dirfd, struct next *n)
{
    bool needed = true;
    wall_t now = clock_wall(), came = u->figures.since;
    if (u->figures.known || !came.ms) /* else the store could not be used since then */
        came = u->settled_at;
    u->settled_at = now;
    u->figures.waiting = 0;
    for (size_t i = 0; i < u->segment_count; i++) {
        struct upload_segment *s = &u->segments[i];
        look_at(u, dirfd, s);
        uint64_t reach = s->known ? copies_reach(&u->there, s->number, s->made) : 0;
        bool waits = s->known && s->settled > reach;
        if (!waits)
            s->since = (wall_t){0};
        else if (!s->since.ms)
            s->since = first_since(s, came, now);
        if (waits) {
            u->figures.waiting++;
            *(needed ? &n->needed : &n->before) = s;
            *(needed ? &n->needed_from : &n->before_from) = reach;
        }
        /* The dump began while this segment was written. */
        needed = needed && !(s->known && s->made <= u->newest_dump.ms);
    }
    u->figures.known = u->figured = true;
    waits_since(u);
}

void upload_segments_figures(struct upload *u)
{
    SCOPED(names_free) struct names found = {0};
    struct err ignored;
    wall_t now = clock_wall();
    uint64_t grown = 0;
    SCOPED(file_close) int dirfd = archive_dir(u->cfg, false, &ignored);
    if (u->figures.since.ms || dirfd < 0 ||
        file_list(dirfd, "cannot list the journal", &found, &ignored) < 0)
        return;
    for (size_t i = 0; i < found.count; i++) {
        uint64_t number = segment_number(found.list[i], u->cfg->name), known = 0, settled;
        for (size_t k = 0; k < u->segment_count; k++)
            if (u->segments[k].number == number)
                known = u->segments[k].settled;
        grown += number && segment_settled(dirfd, found.list[i], known, &settled, &ignored) == 0 &&
                 settled > known;
    }
    u->figures.waiting = grown;
    if (grown)
        u->figures.since = u->settled_at;
    else
        u->settled_at = now;
}

/* Bytes that arrive during the transfer wait from its start, not from the last time that nothing
 * waited. */
static enum remote_result send_waiting(struct upload *u, int dirfd, struct upload_segment *s,
                                       uint64_t from, struct err *e)
{
    enum remote_result got = send_part(u, dirfd, s, from, e);
    if (got == REMOTE_OK && copies_reach(&u->there, s->number, s->made) >= s->settled)
        s->since = u->settled_at;
    waits_since(u);
    return got;
}

static enum remote_result list_parts(struct upload *u, struct err *e)
{
    if (u->listed && mono_since(clock_mono(), u->listed_at) < LIST_MS)
        return REMOTE_OK;
    u->doubted = false;
    enum remote_result got = copies_load_parts(u->t.store, u->cfg->name, &u->there, e);
    u->listed = got == REMOTE_OK;
    u->listed_at = clock_mono();
    return got;
}

/* What the newest dump needs takes turns with everything else: while the game writes without a
 * pause, the segment being written has always grown by the time that its last part is stored. It
 * is sent again at once only if a whole piece of it waits. Segments are joined only if no complete
 * one waits. */
static enum remote_result take_turn(struct upload *u, int dirfd, const struct next *n, bool *more,
                                    struct err *e)
{
    bool others = u->others_next || !n->needed, deletes = !u->cfg->offsite.delete_never;
    bool much = n->needed && n->needed->settled - n->needed_from >= PIECE;
    u->others_next = !others;
    *more = true;
    if (others && deletes && upload_tidy_due(u))
        return upload_segments_tidy(u, e);
    if (others && n->before)
        return send_waiting(u, dirfd, n->before, n->before_from, e);
    if (n->needed && (!others || much || n->needed != u->segments))
        return send_waiting(u, dirfd, n->needed, n->needed_from, e);
    *more = false;
    return deletes ? join_next(u, dirfd, more, e) : REMOTE_OK;
}

/* Does one step. Doubted parts are settled first, because nothing may be sent after them. */
enum remote_result upload_segments(struct upload *u, bool *more, struct err *e)
{
    struct next n = {0};
    enum remote_result got = upload_ready(u, LOOK_MS, e);
    *more = false;
    if (got == REMOTE_OK)
        got = list_parts(u, e);
    if (got != REMOTE_OK)
        return got;
    struct err why = {0};
    SCOPED(file_close) int dirfd = archive_dir(u->cfg, false, &why);
    if (dirfd < 0 && why.num == ENOENT) { /* nothing was followed yet, so nothing waits */
        u->figures.known = u->figured = true;
        return REMOTE_OK;
    }
    if (dirfd < 0 || list_segments(u, dirfd, &why) < 0) {
        err_pass(e, &why);
        return REMOTE_STOPPED;
    }
    bool fenced = u->fenced.cls || !u->owner.generation;
    got = fenced ? REMOTE_OK : settle_doubts(u, dirfd, e);
    if (got != REMOTE_OK)
        return got;
    next_segments(u, dirfd, &n);
    return fenced ? REMOTE_OK : take_turn(u, dirfd, &n, more, e);
}
