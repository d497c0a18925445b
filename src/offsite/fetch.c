/* A restore begins with the first bytes that arrive. One thread fetches: it receives, hashes the
 * stored bytes, decrypts, hashes the dump, and writes it to a .part file in the dump directory. The
 * loaders read the bytes that are already there (base/arrival.h), and check each part of them with
 * its own hash from the manifest. So the load ends shortly after the last byte arrives, and memory
 * holds only the pieces in progress. The swap waits for fetch_beside_settle(), after which the dump
 * is complete as its manifest says, on the disk, and under its name.
 *
 * The journal's segments are fetched before that, over the same connection, because the catch-up
 * begins with the load. */
#include "offsite/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/line.h"
#include "base/number.h"
#include "journal/archive.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "offsite/age_keys.h"
#include "offsite/age_write.h"
#include "offsite/manifests.h"
#include "offsite/rounds.h"
#include "store/proof.h"

#define SPARE_BYTES (16u << 20) /* bytes that must stay free */
#define ROOM_TEXT TEXT_SHORT
#define LOCK_MS fault_wait(30000)
#define UNREAD_MS fault_wait(10000) /* all pauses before objects count as unreadable */
#define AGAIN_MS fault_wait(1000)

static int fetch_look(void *arg, uint64_t bytes, struct err *e)
{
    (void)e;
    struct fetch *f = arg;
    progress_at(f->progress, 0, bytes);
    return 0;
}

int fetch_lock(int dirfd, const char *name, struct progress *progress, struct err *e)
{
    int fd = file_open(dirfd, name, O_RDWR | O_CREAT, e);
    mono_t until = mono_add(clock_mono(), LOCK_MS);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (mono_reached(clock_mono(), until)) {
            file_close(&fd);
            return err_set(e, ERR_BUSY, 0, "another process is fetching from the store");
        }
        progress_at(progress, 0, 0);
        poll(NULL, 0, 50);
    }
    return fd;
}

int fetch_open(struct fetch *f, const struct config *cfg, int dirfd, struct progress *progress,
               struct err *e)
{
    *f = (struct fetch){.cfg = cfg, .dirfd = dirfd, .progress = progress};
    f->t.look = fetch_look;
    f->t.look_arg = f;
    if (!cfg->offsite.url) {
        err_set(e, ERR_CONFIG, 0, "%s has no [offsite] section", cfg->path);
        return err_hint(e, "set [offsite] url to the URL of the store");
    }
    if (cfg->offsite.identity_file &&
        age_identities_file(cfg->offsite.identity_file, &f->t.identities, e) < 0)
        return err_step(e, "[offsite] identity_file");
    return remote_open(cfg, &f->t.store, e) == REMOTE_OK ? fetch_again(f, e) : -1;
}

void fetch_close(struct fetch *f)
{
    remote_close(f->t.store);
    age_keys_wipe(&f->t.identities);
    copies_free(&f->there);
    f->t.store = NULL;
}

int fetch_again(struct fetch *f, struct err *e)
{
    if (copies_load_dumps(f->t.store, f->cfg->name, &f->there, e) != REMOTE_OK ||
        copies_load_parts(f->t.store, f->cfg->name, &f->there, e) != REMOTE_OK ||
        rounds_read(&f->t, f->cfg->name, &f->round, e) != REMOTE_OK)
        return -1;
    copies_drop_unproven(&f->there);
    return 0;
}

/* ---- objects ---- */

/* Like transfer_get(). An error that is the store's answer for this object, or the lack of one, is
 * marked with FETCH_UNREADABLE. */
static enum remote_result fetch_object(struct fetch *f, const char *name, bool sealed,
                                       uint64_t most, int fd, struct transfer_stored *is,
                                       struct transfer_stored *plain, struct err *e)
{
    enum remote_result got = transfer_get(&f->t, name, sealed, most, fd, is, plain, e);
    if (got != REMOTE_OK && got != REMOTE_MISSING && got != REMOTE_STOPPED)
        e->num = FETCH_UNREADABLE;
    return got;
}

static bool store_lists(const struct fetch *f)
{
    SCOPED(copies_free) struct copies there = {0};
    struct err none;
    return copies_load_dumps(f->t.store, f->cfg->name, &there, &none) == REMOTE_OK;
}

/* Returns 1 if the object is to be read once more, 0 if the failure counts, -1 if the store is not
 * available, which says nothing about one object. Damage counts only if it is found twice: a proxy
 * or memory may have caused it once, and the dump before this one lacks the changes since. */
static int is_read_again(struct fetch *f, unsigned failures, struct err *why)
{
    if (why->num != FETCH_UNREADABLE)
        return failures == 1;
    if (!store_lists(f)) {
        why->num = 0;
        return -1;
    }
    if (failures > 1 && f->waited >= UNREAD_MS) {
        f->unread = true;
        return 0;
    }
    progress_at(f->progress, 0, 0);
    poll(NULL, 0, (int)AGAIN_MS);
    f->waited += AGAIN_MS;
    return 1;
}

/* ---- manifests ---- */

static bool is_sealed(const char *file)
{
    size_t len = strlen(file);
    return len > 4 && strcmp(file + len - 4, ".age") == 0;
}

/* Name, generation and sequence come from the file's name, even if the manifest cannot be read,
 * so that a list can show that the dump exists and is damaged. */
int fetch_manifest(struct fetch *f, const struct copy_dump *d, struct catalog_entry *out,
                   struct err *e)
{
    struct copy_dump is = *d;
    struct err why;
    *out = (struct catalog_entry){.intact = false};
    if (manifests_read(&f->t, f->cfg->name, &is, &out->m, &why, e) != REMOTE_OK) {
        manifest_free(&out->m);
        return -1;
    }
    out->intact = !is.bad;
    snprintf(out->m.name, sizeof out->m.name, "%s", d->name);
    out->m.generation = d->generation;
    out->m.sequence = d->sequence;
    line_set(out->reason, sizeof out->reason, "%s", why.text);
    return is.manifest ? 0 : 1;
}

int fetch_above(struct fetch *f, uint64_t *generation, struct err *e)
{
    bool found = false;
    for (size_t i = 0; i < f->there.dump_count && !found; i++) {
        const struct copy_dump *d = &f->there.dumps[i];
        struct catalog_entry x;
        if (!d->manifest || d->generation <= *generation)
            continue;
        if (fetch_manifest(f, d, &x, e) < 0)
            return -1;
        found = x.intact;
        manifest_free(&x.m);
        *generation = found ? d->generation : *generation;
    }
    return 0;
}

int fetch_catalog(struct fetch *f, struct catalog *out, struct err *e)
{
    *out = (struct catalog){.list = xcalloc(f->there.dump_count + 1, sizeof *out->list)};
    for (size_t i = 0; i < f->there.dump_count; i++) {
        const struct copy_dump *d = &f->there.dumps[i];
        struct catalog_entry *x = &out->list[out->count];
        if (!d->manifest)
            continue;
        out->count++;
        if (fetch_manifest(f, d, x, e) < 0 ||
            (d->pin.there &&
             manifests_read_pin(&f->t, f->cfg->name, d->name, &x->pin, e) != REMOTE_OK)) {
            catalog_free(out);
            return -1;
        }
    }
    catalog_judge_rounds(out, f->round);
    catalog_judge_lives(out, f->dirfd);
    return 0;
}

/* ---- dumps ---- */

static int not_as_told(const struct manifest *m, const char *what, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "%s in the store does not match its manifest: %s",
                   m->copy.file, what);
}

/* Encryption adds a header and a few bytes to each chunk. An impossible size is refused, because
 * the store could then send more bytes than the free space was checked for. */
static bool sizes_fit(const struct manifest *m)
{
    if (!is_sealed(m->copy.file))
        return m->copy.size == m->file_size;
    return m->file_size <= AGE_PLAIN_MAX && m->copy.size > m->file_size &&
           m->copy.size <= age_size(0, m->file_size) + AGE_HEADER_MAX;
}

/* Reads the dump to `fd`, or only checks it. Two hashes are compared: of the stored bytes, which
 * needs no key, and of the dump, which is what counts. The size limits the transfer from the
 * start, so that a store that sends endlessly cannot fill the disk. */
static int fetch_read_through(struct fetch *f, const struct manifest *m, int fd, bool decrypt,
                              struct err *e)
{
    char name[COPY_NAME_MAX];
    struct transfer_stored is, plain;
    if (!sizes_fit(m))
        return not_as_told(m, "its size does not fit the dump's", e);
    snprintf(name, sizeof name, "%s/dumps/%s", f->cfg->name, m->copy.file);
    progress_phase(f->progress, "fetching", 0, m->copy.size);
    enum remote_result got =
        fetch_object(f, name, decrypt && is_sealed(m->copy.file), m->copy.size, fd, &is, &plain, e);
    if (got == REMOTE_MISSING)
        return not_as_told(m, "it does not exist", e);
    if (got != REMOTE_OK)
        return -1;
    if (is.size != m->copy.size || strcmp(is.sha256, m->copy.sha256) != 0)
        return not_as_told(m, "its contents differ", e);
    bool same = plain.size == m->file_size && strcmp(plain.sha256, m->sha256) == 0;
    return !decrypt || same ? 0 : not_as_told(m, "it is another file", e);
}

static int fetch_read_file(struct fetch *f, const struct manifest *m, int fd, bool decrypt,
                           struct err *e)
{
    struct err why = {0};
    for (unsigned failures = 1; fetch_read_through(f, m, fd, decrypt, &why) < 0; failures++) {
        bool counts = why.cls == ERR_DAMAGED || why.num == FETCH_UNREADABLE;
        if (!counts || is_read_again(f, failures, &why) != 1)
            return err_pass(e, &why);
        if (fd >= 0 && (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0))
            return err_sys(e, errno, "cannot fetch %s once more", m->copy.file);
        err_clear(&why);
    }
    return 0;
}

int fetch_need_identity(const struct fetch *f, const char *file, struct err *e)
{
    if (!is_sealed(file) || f->t.identities.count)
        return 0;
    err_set(e, ERR_CONFIG, 0,
            "%s is encrypted, and [offsite] identity_file names no key to read it", file);
    return err_hint(e, "put the identity file of one of its recipients where only worldkeeper can "
                       "read it, and name the file there");
}

int fetch_verify(struct fetch *f, const struct manifest *m, struct err *e)
{
    return fetch_read_file(f, m, -1, f->t.identities.count || !is_sealed(m->copy.file), e);
}

int fetch_prove(struct fetch *f, const struct manifest *m, struct err *e)
{
    return fetch_need_identity(f, m->copy.file, e) < 0 ? -1 : fetch_verify(f, m, e);
}

/* Checked before anything is fetched, because a restore that fails in the middle
 * for lack of space has already cost an hour of the outage. */
int fetch_check_room(int dirfd, const char *dir, uint64_t bytes, struct err *e)
{
    struct statvfs s;
    char need[TEXT_SHORT], spare[TEXT_SHORT], is[TEXT_SHORT];
    if (fstatvfs(dirfd, &s) < 0)
        return err_sys(e, errno, "cannot ask for free space");
    uint64_t room = number_product(s.f_bavail, s.f_frsize);
    if (bytes == 0 || room >= number_sum(bytes, SPARE_BYTES))
        return 0;
    err_set(e, ERR_NOSPACE, ENOSPC,
            "cannot fetch %s into %s: %s must stay free there for what the restore writes, and "
            "only %s are left for the download",
            text_size(bytes, need), dir, text_size(SPARE_BYTES, spare), text_size(room, is));
    return err_hint(e, "make room on that file system, or configure a directory on a larger disk");
}

/* ---- segments ---- */

/* Returns 1 if the part's bytes were appended. Returns 0 if the part has no good copy or cannot be
 * read, which `why` explains; none of its bytes remain in the file. */
static int fetch_read_part(struct fetch *f, const struct copy_part *p, int fd, struct err *why,
                           struct err *e)
{
    char name[COPY_NAME_MAX];
    struct transfer_stored is, plain;
    uint64_t bytes = p->to - p->from,
             most = p->sealed ? age_size(0, bytes) + AGE_HEADER_MAX : bytes;
    copy_part_name(name, f->cfg->name, p);
    err_clear(why);
    if (fetch_need_identity(f, name, e) < 0)
        return -1;
    enum remote_result got = fetch_object(f, name, p->sealed, most, fd, &is, &plain, why);
    if (got == REMOTE_OK && plain.size == bytes)
        return 1;
    if (got == REMOTE_OK)
        err_set(why, ERR_DAMAGED, 0, "%s has %" PRIu64 " bytes", name, plain.size);
    if (got != REMOTE_MISSING && why->cls != ERR_DAMAGED && why->num != FETCH_UNREADABLE)
        return err_pass(e, why);
    if (ftruncate(fd, (off_t)p->from) < 0 || lseek(fd, (off_t)p->from, SEEK_SET) < 0)
        return err_sys(e, errno, "cannot truncate a journal segment");
    return 0;
}

static void fetch_pass(struct fetch *f, struct err *why, const char *what)
{
    if (f->passed.cls != ERR_NONE)
        return;
    err_step(why, "%s", what);
    f->passed = *why;
}

static int fetch_part(struct fetch *f, const struct copy_part *p, int fd, struct err *e)
{
    struct err why;
    unsigned failures = 0;
    int is, again = 0;
    do
        is = fetch_read_part(f, p, fd, &why, e);
    while (is == 0 && (again = is_read_again(f, ++failures, &why)) == 1);
    if (is == 0 && again < 0)
        return err_pass(e, &why);
    if (is == 0)
        fetch_pass(f, &why,
                   why.num == FETCH_UNREADABLE
                       ? "a part of the journal in the store cannot be read; only the journal "
                         "before it is used"
                       : "a part of the journal in the store is damaged; only the journal before "
                         "it is used");
    return is;
}

/* Fetches all parts of the segment that begins at `first` in the list, up to the first hole. Of
 * the parts that begin at one position, the longest good one is used. *got is the number of
 * bytes. */
static int fetch_parts(struct fetch *f, size_t first, int fd, uint64_t *got, struct err *e)
{
    const struct copies *c = &f->there;
    const struct copy_part *of = &c->parts[first];
    *got = 0;
    for (size_t i = first; i < c->part_count; i++) {
        const struct copy_part *p = &c->parts[i];
        if (!copy_part_is_of(p, of->number, of->made))
            break;
        int is = p->from == *got ? fetch_part(f, p, fd, e) : 0;
        if (is < 0)
            return -1;
        *got = is ? p->to : *got;
    }
    return fsync(fd) < 0 ? err_sys(e, errno, "cannot sync a journal segment") : 0;
}

/* Treats a read error of the disk as damage, as the readers of the journal do. */
static int fetch_unread(struct err *e)
{
    if (e->cls == ERR_SYSTEM && e->num == EIO)
        e->cls = ERR_DAMAGED;
    return -1;
}

/* Returns 1 if the segment exists here. A segment of the same number that was begun at another
 * time belongs to another life of the world, whose changes must not be mixed with these. */
static int fetch_is_here(int dirfd, const char *file, const struct copy_part *of, struct err *e)
{
    struct segment_head head;
    struct segment_sum sum;
    struct stat st;
    if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "cannot examine %s", file);
    if (segment_peek(dirfd, file, &head, &sum, e) < 0)
        return fetch_unread(e);
    if (head.made.ms == of->made)
        return 1;
    err_set(e, ERR_REFUSED, FETCH_OTHER_SEGMENT,
            "this machine's journal segment %s differs from the one in the store", file);
    return err_hint(e, "it belongs to a world that was initialized again on this machine: move the "
                       "journal's directory away");
}

/* Returns in *size where the segment's complete transactions end. If a part ends exactly at the
 * file's end, the file is used as it is. Otherwise a write was interrupted or is still in
 * progress. */
static int fetch_settle(const struct copies *c, size_t first, int dirfd, const char *file, int fd,
                        uint64_t *size, struct err *e)
{
    const struct copy_part *of = &c->parts[first];
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "cannot examine %s", file);
    *size = (uint64_t)st.st_size;
    for (size_t i = first; i < c->part_count && copy_part_is_of(&c->parts[i], of->number, of->made);
         i++)
        if (c->parts[i].to == *size)
            return 0;
    return segment_settled(dirfd, file, 0, size, e) < 0 ? fetch_unread(e) : 0;
}

/* Returns the part that contains the bytes after `size`, or NULL if there is none. */
static const struct copy_part *part_after(const struct copies *c, size_t first, uint64_t size)
{
    const struct copy_part *of = &c->parts[first];
    for (size_t i = first; i < c->part_count && copy_part_is_of(&c->parts[i], of->number, of->made);
         i++)
        if (c->parts[i].from <= size && c->parts[i].to > size)
            return &c->parts[i];
    return NULL;
}

/* Appends the bytes to the segment and never overwrites any, so that a reader that has the
 * segment open sees it grow. */
static int fetch_append(int from, int to, uint64_t at, uint64_t end, struct err *e)
{
    static char piece[65536];
    while (at < end) {
        size_t want = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        ssize_t n = pread(from, piece, want, (off_t)at);
        if (n <= 0)
            return err_sys(e, n < 0 ? errno : EIO, "cannot read a fetched part of the journal");
        if (pwrite(to, piece, (size_t)n, (off_t)at) != n)
            return err_sys(e, errno, "cannot write a journal segment");
        at += (uint64_t)n;
    }
    return fsync(to) < 0 ? err_sys(e, errno, "cannot sync a journal segment") : 0;
}

/* Fetches what a local segment lacks. Readers see complete transactions at any time. Bytes after
 * the last complete transaction are cut off only if the store has more, because otherwise a
 * follower may be writing them right now. */
static int fetch_grow(struct fetch *f, int dirfd, size_t first, const char *file, struct err *e)
{
    const struct copy_part *p;
    SCOPED(xfree) char *part = xasprintf("%s.part", file);
    SCOPED(file_close) int fd = file_open(dirfd, file, O_RDWR, e);
    uint64_t size = 0;
    if (fd < 0 || fetch_settle(&f->there, first, dirfd, file, fd, &size, e) < 0)
        return -1;
    int rc = 1;
    if (part_after(&f->there, first, size) && ftruncate(fd, (off_t)size) < 0)
        return err_sys(e, errno, "cannot cut %s", file);
    while (rc == 1 && (p = part_after(&f->there, first, size))) {
        SCOPED(file_close) int got = file_open(dirfd, part, O_RDWR | O_CREAT | O_TRUNC, e);
        if (got < 0)
            return -1;
        rc = lseek(got, (off_t)p->from, SEEK_SET) < 0 ? -1 : fetch_part(f, p, got, e);
        if (rc == 1 && fetch_append(got, fd, size, p->to, e) < 0)
            rc = -1;
        size = p->to;
        file_remove(dirfd, part, NULL);
    }
    return rc < 0 ? -1 : 0;
}

/* Gives the segment its name without replacing a file that was written here meanwhile. */
static int give_name(int dirfd, const char *part, const char *file, struct err *e)
{
    if (renameat2(dirfd, part, dirfd, file, RENAME_NOREPLACE) == 0)
        return file_sync_dir(dirfd, file, e);
    if (errno != EINVAL && errno != ENOSYS) /* not supported by some file systems; checked before */
        return err_sys(e, errno, "cannot put journal segment %s in place", file);
    return file_rename(dirfd, part, dirfd, file, e);
}

static int bring_segment(struct fetch *f, int dirfd, size_t first, struct err *e)
{
    const struct copy_part *of = &f->there.parts[first];
    char file[SEGMENT_NAME_MAX];
    uint64_t got;
    segment_name(f->cfg->name, of->number, file);
    int here = fetch_is_here(dirfd, file, of, e);
    if (here)
        return here < 0 ? -1 : fetch_grow(f, dirfd, first, file, e);
    SCOPED(xfree) char *part = xasprintf("%s.part", file);
    SCOPED(file_close) int fd = file_open(dirfd, part, O_RDWR | O_CREAT | O_TRUNC, e);
    if (fd < 0)
        return -1;
    int rc = fetch_parts(f, first, fd, &got, e);
    if (rc == 0 && got > 0)
        rc = give_name(dirfd, part, file, e);
    if (rc < 0 || got == 0)
        file_remove(dirfd, part, NULL);
    /* Parts overlap while they are being joined, or if an earlier version joined them. */
    bool overlaps = rc == 0 && got > 0 && part_after(&f->there, first, got);
    return overlaps ? fetch_grow(f, dirfd, first, file, e) : rc;
}

/* Fetches a segment. Damage in the local segment costs only what follows it, which the reader of
 * the journal detects. It does not stop the rest of the journal or the restore. */
static int fetch_segment(struct fetch *f, int dirfd, size_t first, struct err *e)
{
    struct err why = {0};
    if (bring_segment(f, dirfd, first, &why) == 0)
        return 0;
    if (why.cls != ERR_DAMAGED)
        return err_pass(e, &why);
    fetch_pass(f, &why,
               "the intact part of this machine's journal is used; to fetch the store's journal "
               "instead, move the journal's directory away");
    return 0;
}

/* Returns true for the first part of the segment that was begun last under its number, unless it
 * ended before the dump. A world that was started from scratch counts from 1 again, and its
 * earlier segments are of no use to the restored world. */
static bool fetch_is_wanted(const struct copies *c, size_t i, const bool *spare)
{
    const struct copy_part *p = &c->parts[i];
    bool first = i == 0 || !copy_part_is_of(&c->parts[i - 1], p->number, p->made);
    for (size_t k = i + 1; k < c->part_count && c->parts[k].number == p->number; k++)
        if (c->parts[k].made != p->made)
            return false;
    return first && !spare[i];
}

/* Sets `spare` for each part that is not needed after this dump. Returns how many bytes of the
 * other parts are missing here. */
static uint64_t segments_after(const struct fetch *f, const struct manifest *m, int dirfd,
                               bool *spare)
{
    struct copy_dump only = {.at = m->at, .manifest = true};
    struct copies c = {&only, 1, f->there.parts, f->there.part_count, f->cfg->name};
    uint64_t bytes = 0;
    copies_spare(&c, INT64_MAX / 2, clock_wall(), spare);
    for (size_t i = 0; i < c.part_count; i++) {
        char file[SEGMENT_NAME_MAX];
        struct stat st;
        segment_name(f->cfg->name, c.parts[i].number, file);
        uint64_t there = fetch_is_wanted(&c, i, spare)
                             ? copies_reach(&c, c.parts[i].number, c.parts[i].made)
                             : 0,
                 here =
                     fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
        bytes = number_sum(bytes, there > here ? there - here : 0);
    }
    return bytes;
}

/* Checks the free space for the dump and the journal after it, before the first byte is fetched. */
static int check_all_room(struct fetch *f, const struct manifest *m, struct err *e)
{
    SCOPED(xfree) bool *spare = xcalloc(f->there.part_count + 1, sizeof *spare);
    struct stat dump, there;
    if (f->there.part_count == 0)
        return fetch_check_room(f->dirfd, f->cfg->dump_dir, m->file_size, e);
    SCOPED(file_close) int dirfd = archive_dir(f->cfg, true, e);
    if (dirfd < 0)
        return -1;
    if (fstat(f->dirfd, &dump) < 0 || fstat(dirfd, &there) < 0)
        return err_sys(e, errno, "cannot examine the dump directory");
    uint64_t after = segments_after(f, m, dirfd, spare);
    if (dump.st_dev == there.st_dev)
        return fetch_check_room(f->dirfd, f->cfg->dump_dir, number_sum(m->file_size, after), e);
    return fetch_check_room(dirfd, f->cfg->journal_dir, after, e) < 0
               ? -1
               : fetch_check_room(f->dirfd, f->cfg->dump_dir, m->file_size, e);
}

int fetch_beside_open(struct fetch *f, const struct manifest *m, struct fetch_beside *b,
                      struct err *e)
{
    *b = (struct fetch_beside){.f = f, .m = m};
    b->file.fd = -1;
    if (fetch_need_identity(f, m->copy.file, e) < 0 || check_all_room(f, m, e) < 0)
        return -1;
    b->part = xasprintf("%s.sql.gz.part", m->name);
    int fd = file_open(f->dirfd, b->part, O_RDWR | O_CREAT | O_TRUNC, e);
    if (fd < 0) {
        free(b->part);
        return -1;
    }
    arrival_init(&b->file, fd);
    thread_group_init(&b->thread);
    return 0;
}

/* Fetches the dump. Damage is reported at once, and the caller starts again if it wants to. A
 * second attempt as in fetch_read_file() is not possible, because the loaders have already seen the
 * first bytes and cannot be given others. */
static void fetch_bring(void *arg)
{
    struct fetch_beside *b = arg;
    struct err why = {0};
    if (fetch_read_through(b->f, b->m, b->file.fd, true, &why) == 0 && fsync(b->file.fd) < 0)
        err_sys(&why, errno, "cannot sync %s", b->part);
    arrival_end(&b->file, &why);
}

int fetch_beside_start(struct fetch_beside *b, struct err *e)
{
    b->f->t.arrival = &b->file;
    b->f->progress = NULL; /* the caller's thread reports */
    int failed = thread_group_start(&b->thread, fetch_bring, b);
    return failed ? err_sys(e, failed, "cannot start a thread") : 0;
}

/* Clears the damage that was found in an earlier file of this name, because it does not apply to
 * this one. */
static int forget_damage(int dirfd, const char *name, struct err *e)
{
    struct proof p;
    if (proof_read(dirfd, name, &p, e) < 0)
        return -1;
    return p.damaged ? proof_intact(dirfd, name, "store download", e) : 0;
}

/* Gives the complete file, which is on the disk, its name. As with a dump that is made here, the
 * file comes first and then the manifest, which makes it a dump. The manifest's data about the
 * copy in the store is omitted, because the local dump is not a copy. */
static int make_dump(struct fetch_beside *b, struct err *e)
{
    struct manifest local = *b->m; /* borrows its lists */
    int dirfd = b->f->dirfd;
    SCOPED(xfree) char *file = xasprintf("%s.sql.gz", b->m->name);
    fault_point("offsite.fetched");
    if (file_rename(dirfd, b->part, dirfd, file, e) < 0)
        return -1;
    b->settled = true;
    local.copy = (struct manifest_copy){.size = 0};
    return manifest_write(dirfd, &local, e) < 0 ? -1 : forget_damage(dirfd, b->m->name, e);
}

int fetch_beside_settle(void *arg, struct err *e)
{
    struct fetch_beside *b = arg;
    if (b->settled)
        return 0;
    return arrival_whole(&b->file, e) < 0 ? -1 : make_dump(b, e);
}

/* May be called during the transfer: a loader that waits for bytes learns that none will come,
 * and the transfer ends within a second. */
void fetch_beside_close(struct fetch_beside *b)
{
    if (!b->f || b->file.fd < 0)
        return;
    arrival_give_up(&b->file);
    /* Without a thread no transfer is running, and the connection is needed for the journal. */
    if (b->f->t.arrival)
        remote_abandon(b->f->t.store);
    thread_group_wait(&b->thread, 1000, NULL, NULL);
    thread_group_end(&b->thread);
    b->f->t.arrival = NULL;
    if (!b->settled)
        file_remove(b->f->dirfd, b->part, NULL);
    arrival_free(&b->file);
    file_close(&b->file.fd);
    free(b->part);
}

int fetch_dump(struct fetch *f, const struct manifest *m, struct err *e)
{
    SCOPED(fetch_beside_close) struct fetch_beside b;
    if (fetch_beside_open(f, m, &b, e) < 0 || fetch_read_file(f, m, b.file.fd, true, e) < 0)
        return -1;
    return fsync(b.file.fd) < 0 ? err_sys(e, errno, "cannot sync %s", b.part) : make_dump(&b, e);
}

int fetch_segments(struct fetch *f, const struct manifest *m, struct err *e)
{
    const struct copies *c = &f->there;
    SCOPED(xfree) bool *spare = xcalloc(c->part_count + 1, sizeof *spare);
    if (c->part_count == 0)
        return 0;
    SCOPED(file_close) int dirfd = archive_dir(f->cfg, true, e);
    if (dirfd < 0 ||
        fetch_check_room(dirfd, f->cfg->journal_dir, segments_after(f, m, dirfd, spare), e) < 0)
        return -1;
    progress_phase(f->progress, "fetching", 0, 0);
    for (size_t i = 0; i < c->part_count; i++)
        if (fetch_is_wanted(c, i, spare) && fetch_segment(f, dirfd, i, e) < 0)
            return -1;
    return 0;
}
