/* Only one process at a time fetches files (standby.lock). A promotion waits until the worker
 * releases the lock, and then reads the store once more itself. */
#include "standby/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "journal/segment_op.h"
#include "journal/segment_store.h"
#include "offsite/fetch_ledgers.h"
#include "store/round.h"

#define ASIDE "set-aside"
#define LOCK "standby.lock"
#define AGAIN_MS fault_wait(300000) /* until a dump that cannot be read is tried again */

void pull_close(struct pull *p)
{
    if (!p->open)
        return;
    fetch_close(&p->fetch);
    file_close(&p->lock);
    p->open = false;
}

/* Opens the journal's directory; returns -1 if there is none. It holds the segments that the store
 * had, whatever the [journal] mode is. */
static int journal_dir(const struct config *c)
{
    struct err none;
    return archive_dir(c, false, &none);
}

/* ---- segments of another world ---- */

/* Writes only a marker file: a demotion must not wait for a slow disk, and the move can be repeated
 * after a kill. */
int pull_set_aside(const struct config *c, struct err *e)
{
    SCOPED(file_close) int dirfd = journal_dir(c);
    return dirfd < 0 ? 0 : file_commit(dirfd, ASIDE, "", 0, 0600, e);
}

static int move_segments(int dirfd, const char *world, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    char name[64], t[TEXT_SHORT];
    snprintf(name, sizeof name, ASIDE "-%s", text_utc_name(clock_wall(), t));
    /* Fails, because a segment missing from the list would stay and be taken for this world's. */
    if (file_list(dirfd, "cannot list the journal", &found, e) < 0)
        return -1;
    SCOPED(file_close) int to = file_subdir(dirfd, name, e);
    int rc = to < 0 ? -1 : 0;
    for (size_t i = 0; rc == 0 && i < found.count; i++)
        if (segment_number(found.list[i], world))
            rc = file_rename(dirfd, found.list[i], to, found.list[i], e);
    return rc;
}

/* Returns true if this machine gave its world up since it last read the store. */
static bool gave_up(const struct config *c)
{
    SCOPED(file_close) int dirfd = journal_dir(c);
    return dirfd >= 0 && faccessat(dirfd, ASIDE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Moves the segments away if the marker exists. The marker is removed last, so that the move is
 * repeated after a kill. */
static int settle_journal(const struct config *c, struct err *e)
{
    SCOPED(file_close) int dirfd = journal_dir(c);
    if (dirfd < 0 || faccessat(dirfd, ASIDE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return move_segments(dirfd, c->name, e) < 0 ? -1 : file_remove(dirfd, ASIDE, e);
}

/* ---- dumps ---- */

/* Returns true if this worker already found the dump to be damaged or abandoned. It would otherwise
 * be downloaded again in each step while the store has it. */
static bool is_bad(const struct pull *p, const char *name)
{
    unsigned n = p->bad_count < PULL_BAD_MAX ? p->bad_count : PULL_BAD_MAX;
    for (unsigned i = 0; i < n; i++)
        if (strcmp(p->bad[i], name) == 0)
            return true;
    return false;
}

static void pull_pass_over(struct pull *p, const char *name)
{
    char *at = p->bad[p->bad_count++ % PULL_BAD_MAX];
    snprintf(at, DUMP_NAME_MAX, "%s", name);
}

static void set_bad(struct pull *p, const char *name, const struct err *why)
{
    pull_pass_over(p, name);
    p->skipped = *why;
    if (why->num != FETCH_UNREADABLE)
        return;
    err_step(&p->skipped, "dump %s in the store cannot be read", name);
    p->unread = p->skipped;
    p->unread_at = clock_mono();
}

static void forget_bad(struct pull *p)
{
    p->bad_count = 0;
    memset(p->bad, 0, sizeof p->bad);
    p->unread = (struct err){0};
}

/* Fetches one dump. Returns 1 if it is here now, 0 if it is damaged, unreadable, abandoned or was
 * deleted, -1 on error. */
static int pull_bring(struct pull *p, const struct copy_dump *d, struct err *e)
{
    SCOPED(catalog_free) struct catalog one = {.list = xcalloc(1, sizeof *one.list), .count = 1};
    struct catalog_entry *x = &one.list[0];
    struct err why = {0};
    int got = fetch_manifest(&p->fetch, d, x, e);
    if (got != 0)
        return got < 0 ? -1 : 0; /* it was deleted since it was listed */
    if (x->intact && lives_abandoned(&p->lives, &x->m)) {
        pull_pass_over(p, d->name);
        return 0;
    }
    if (!x->intact)
        err_set(&why, ERR_DAMAGED, 0, "dump %s in the store: %s", d->name, x->reason);
    else if (fetch_dump(&p->fetch, &x->m, &why) == 0)
        return 1;
    if (why.cls != ERR_DAMAGED && why.num != FETCH_UNREADABLE)
        return err_pass(e, &why);
    set_bad(p, d->name, &why);
    return 0;
}

/* Returns true if the record does not know the life of the dump yet. A machine of this version
 * writes the record before it stores anything of a life, and the record was read after the list. */
static bool pull_unrecorded(struct pull *p, const struct copy_dump *d)
{
    uint64_t generation = p->lives.now.generation;
    if (!p->lives.number || d->generation <= generation)
        return false;
    if (p->skipped.cls != ERR_NONE)
        return true;
    err_set(&p->skipped, ERR_REFUSED, 0,
            "dump %s in the store is not used: the record of the world names generation %" PRIu64
            ", and no later one",
            d->name, generation);
    err_hint(&p->skipped,
             "a machine of version 0.2 writes no record: update the machine that stored this dump, "
             "or make sure that it stays stopped");
    return true;
}

/* Fetches the newest valid dump of the store. Returns 1 if it was fetched just now, 0 if it was
 * already here or there is none, -1 on error. */
static int bring_newest(struct pull *p, const struct catalog *here, struct err *e)
{
    const struct copies *there = &p->fetch.there;
    for (size_t i = 0; i < there->dump_count; i++) {
        const struct copy_dump *d = &there->dumps[i];
        const struct catalog_entry *x = catalog_find(here, d->name);
        int got;
        if (!d->manifest || is_bad(p, d->name) || pull_unrecorded(p, d) || (x && x->abandoned))
            continue;
        if (x && x->intact)
            return 0;
        if ((got = pull_bring(p, d, e)) != 0)
            return got;
    }
    return 0;
}

/* ---- what is here ---- */

/* Applies the retention: after a new dump, which makes older files superfluous, and in the first
 * step, because a new [retention] may keep less, and a full disk has no room for a new dump. A file
 * that cannot be deleted must prevent neither a download nor a promotion: each step tries again. */
static void pull_trim(struct pull *p, int journal)
{
    struct err why = {0}, more = {0};
    unsigned removed;
    if (!p->trim_due)
        return;
    bool kept = catalog_retain(p->dirfd, p->cfg->name, &p->cfg->retention, p->cfg->dump_interval,
                               &removed, &why) < 0;
    p->trim_due = kept;
    if (journal >= 0 && segment_store_trim(p->cfg, journal, p->dirfd, &more) < 0)
        p->trim_due = true;
    if (!p->trim_due || p->skipped.cls != ERR_NONE)
        return;
    p->skipped = kept ? why : more;
    err_step(&p->skipped, "deleting what [retention] and [journal] no longer keep");
}

/* Sets p->newest, and p->moment to the time of the newest dump, or to that of the journal's last
 * segment if it is later. */
static int pull_look(struct pull *p, const struct catalog_entry *newest, int journal, struct err *e)
{
    SCOPED(archive_free) struct archive a = {0};
    if (journal >= 0 && archive_load(journal, p->cfg->name, &a, e) < 0)
        return -1;
    const struct archive_segment *last = a.count ? &a.list[a.count - 1] : NULL;
    p->newest = manifest_figures(&newest->m, p->cfg->sentinel);
    p->moment = newest->m.at;
    if (last && last->sum.to.at.ms > p->moment.ms)
        p->moment = last->sum.to.at;
    return 0;
}

/* Fetches the segments. All segments of a standby came from the store. So if the store has those of
 * a later life of the world, the segments here are useless: they are moved away, and those of the
 * store are fetched. */
static int fetch_journal(struct pull *p, const struct manifest *m, struct err *e)
{
    struct err why = {0};
    if (fetch_segments(&p->fetch, m, &why) == 0)
        return 0;
    if (why.cls != ERR_REFUSED || why.num != FETCH_OTHER_SEGMENT)
        return err_pass(e, &why);
    return pull_set_aside(p->cfg, e) < 0 || settle_journal(p->cfg, e) < 0
               ? -1
               : fetch_segments(&p->fetch, m, e);
}

static int take_journal(struct pull *p, const struct catalog *here, bool fetched, struct err *e)
{
    const struct catalog_entry *newest = catalog_newest(here, 0);
    if (!newest)
        return 0;
    p->fetch.passed = (struct err){0};
    if (fetch_journal(p, &newest->m, e) < 0)
        return -1;
    if (p->fetch.passed.cls != ERR_NONE)
        p->skipped = p->fetch.passed;
    SCOPED(file_close) int journal = journal_dir(p->cfg);
    if (fetched) {
        p->trim_due = true;
        pull_trim(p, journal);
    }
    return pull_look(p, newest, journal, e);
}

/* Reads the record. Only the record's world is fetched, restored and kept loaded, even if another
 * one is newer (rule 3 in tests/models/README.md). A store of version 0.2 has no record: then the
 * newest dump is that of the world. */
static int follow_record(struct pull *p, struct err *e)
{
    struct lives known;
    struct err ignored = {0};
    lives_load(p->dirfd, &known);
    if (record_read(&p->fetch.t, p->cfg->name, &known, &p->lives, &ignored, e) < 0)
        return -1;
    if (ignored.cls != ERR_NONE)
        p->skipped = ignored;
    bool same = known.number == p->lives.number && life_is(&known.now, &p->lives.now) && !known.own;
    if (!p->lives.number || same)
        return 0;
    forget_bad(p); /* the new record abandons other dumps */
    return lives_save(p->dirfd, &p->lives, e);
}

int pull_here(struct pull *p, struct err *e)
{
    SCOPED(catalog_free) struct catalog here = {0};
    pull_close(p);
    p->fetch = (struct fetch){.cfg = p->cfg, .dirfd = p->dirfd, .progress = p->progress};
    p->open = true;
    p->lock = fetch_lock(p->dirfd, LOCK, p->progress, e);
    if (p->lock < 0 || settle_journal(p->cfg, e) < 0 ||
        catalog_load(p->dirfd, p->cfg->name, &here, e) < 0)
        return -1;
    lives_load(p->dirfd, &p->lives);
    const struct catalog_entry *newest = catalog_newest(&here, 0);
    SCOPED(file_close) int journal = journal_dir(p->cfg);
    return newest ? pull_look(p, newest, journal, e) : 0;
}

int pull_step(struct pull *p, struct err *e)
{
    if (p->unread.cls != ERR_NONE && mono_since(clock_mono(), p->unread_at) >= AGAIN_MS)
        forget_bad(p);
    p->skipped = p->unread;
    bool first = !p->open;
    if (first) {
        p->open = true;
        p->lock = fetch_lock(p->dirfd, LOCK, p->progress, e);
        if (p->lock < 0 || fetch_open(&p->fetch, p->cfg, p->dirfd, p->progress, e) < 0)
            return -1;
    } else if (fetch_again(&p->fetch, e) < 0) {
        return -1;
    }
    if ((gave_up(p->cfg) && fetch_ledgers_set_aside(&p->fetch, e) < 0) ||
        settle_journal(p->cfg, e) < 0 || follow_record(p, e) < 0)
        return -1;
    p->fetch.unread = p->unread.cls != ERR_NONE;
    SCOPED(file_close) int journal = journal_dir(p->cfg);
    p->trim_due |= first;
    pull_trim(p, journal);
    SCOPED(catalog_free) struct catalog here = {0};
    if (catalog_load(p->dirfd, p->cfg->name, &here, e) < 0)
        return -1;
    /* Begins the new round here before its first dump is stored, so that no promotion and no warm
     * copy uses a dump of the previous round. */
    if (p->fetch.round > here.round) {
        if (round_begin(p->dirfd, p->fetch.round, "", e) < 0)
            return -1;
        catalog_judge_rounds(&here, p->fetch.round);
    }
    int fetched = bring_newest(p, &here, e);
    /* The store is listed again because the primary may have joined parts during the download. */
    if (fetched == 1) {
        catalog_free(&here);
        bool failed =
            fetch_again(&p->fetch, e) < 0 || catalog_load(p->dirfd, p->cfg->name, &here, e) < 0;
        fetched = failed ? -1 : 1;
    }
    return fetched < 0 ? -1 : take_journal(p, &here, fetched == 1, e);
}
