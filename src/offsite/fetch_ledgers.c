/* No byte is unpacked here: a file counts if it is the one that its signed manifest describes, and
 * whoever reads it verifies it again. */
#include "offsite/fetch_ledgers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "offsite/age_write.h"
#include "store/catalog.h"
#include "store/retention.h"

/* Reads one object of a file. Returns 1 if it is what the manifest says, 0 if not, with the reason
 * in `why`, -1 on error. */
static int fetch_ledger_data(struct fetch *f, const struct ledger_file *x, unsigned attempt,
                             bool sealed, int fd, struct err *why, struct err *e)
{
    char object[COPY_NAME_MAX];
    struct transfer_stored is, plain;
    uint64_t most = sealed ? age_size(0, x->size) + AGE_HEADER_MAX : x->size;
    ledger_copy_data(object, f->cfg->name, x->name, attempt, sealed);
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "cannot fetch %s", object);
    err_clear(why);
    if (fetch_need_identity(f, object, why) < 0)
        return 0;
    enum remote_result got = transfer_get(&f->t, object, sealed, most, fd, &is, &plain, why);
    if (got == REMOTE_OK && plain.size == x->size && strcmp(plain.sha256, x->sha256) == 0)
        return 1;
    if (got == REMOTE_OK)
        err_set(why, ERR_DAMAGED, 0, "%s in the store is not what its manifest says", object);
    return got == REMOTE_MISSING || why->cls == ERR_DAMAGED ? 0 : err_pass(e, why);
}

/* Gives the file its name. As with a file that is written here, the manifest comes last. */
static int name_ledger_file(struct fetch *f, const struct ledger_file *x, const char *part, int fd,
                            const struct buf *manifest, struct err *e)
{
    SCOPED(xfree) char *name = xasprintf("%s" LEDGER_FILES_GZIP, x->name);
    SCOPED(xfree) char *last = xasprintf("%s" LEDGER_FILES_MANIFEST, x->name);
    if (fsync(fd) < 0)
        return err_sys(e, errno, "cannot sync %s", part);
    fault_point("offsite.ledger_fetched");
    return file_rename(f->dirfd, part, f->dirfd, name, e) < 0
               ? -1
               : file_commit(f->dirfd, last, manifest->p, manifest->len, 0600, e);
}

/* Fetches one file whose rows are among the first `end` ones in totals. Of several uploads only the
 * last one was completed, so they are read from there. Returns 1, 0 with the reason in `why`, or
 * -1. */
static int fetch_ledger_file(struct fetch *f, const struct ledger_copy *c, uint64_t end,
                             struct err *why, struct err *e)
{
    struct ledger_file x = c->f;
    SCOPED(buf_free) struct buf manifest = {0};
    SCOPED(xfree) char *part = xasprintf("%s" LEDGER_FILES_PART, x.name);
    int valid = ledger_copy_manifest(&f->t, f->cfg->name, &x, &manifest, why, e);
    if (valid != 1)
        return valid;
    if (x.before + x.rows > end) {
        err_set(why, ERR_REFUSED, 0, "later files have some of its rows, too");
        return 0;
    }
    if (fetch_check_room(f->dirfd, f->cfg->dump_dir, x.size, e) < 0)
        return -1;
    SCOPED(file_close) int fd = file_open(f->dirfd, part, O_RDWR | O_CREAT | O_TRUNC, e);
    if (fd < 0)
        return -1;
    int rc = 0;
    err_set(why, ERR_DAMAGED, 0, "its data is not there, only its manifest");
    for (unsigned i = COPY_TRIES; i >= 1 && rc == 0; i--)
        for (unsigned sealed = 0; sealed < 2 && rc == 0; sealed++)
            if ((sealed ? c->sealed : c->plain) & 1U << (i - 1))
                rc = fetch_ledger_data(f, &x, i, sealed, fd, why, e);
    if (rc == 1 && name_ledger_file(f, &x, part, fd, &manifest, e) < 0)
        rc = -1;
    if (rc != 1)
        file_remove(f->dirfd, part, NULL);
    return rc;
}

/* Removes what an interrupted fetch left. */
static int sweep_fetched(struct fetch *f, const char *ledger, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    struct ledger_file x;
    int rc = file_list(f->dirfd, "cannot list the dump directory", &found, e);
    for (size_t i = 0; rc == 0 && i < found.count; i++)
        if (ledger_file_named(found.list[i], LEDGER_FILES_PART, ledger, &x))
            rc = file_remove(f->dirfd, found.list[i], e);
    return rc;
}

/* Lists the files here, and if there are any, those in the store. */
static int load_both(struct fetch *f, struct ledger_copies *there, struct ledger_copies *here,
                     struct err *e)
{
    if (ledger_copies_here(f->cfg, f->dirfd, here, e) < 0)
        return -1;
    return here->count && ledger_copies_load(f->t.store, f->cfg, there, e) != REMOTE_OK ? -1 : 0;
}

static void fetch_failed(struct fetch_ledgers *l, const struct ledger_copy *x, const char *why)
{
    SCOPED(xfree) char *text =
        xasprintf("%s.csv.gz is in the store and was not fetched: %s", x->f.name, why);
    if (!l->failed[0])
        snprintf(l->failed, sizeof l->failed, "%s", x->f.name);
    json_array_append_new(l->unknown, js_clean(text));
}

static bool fetch_may_count(const struct fetch_ledgers *l, const struct ledger_copy *x)
{
    return x->of == l->of && x->manifest && !ledger_copy_expired(x, l->now);
}

/* Returns 1 if the file was fetched, 0 if not, or -1. */
static int fetch_one(struct fetch *f, struct fetch_ledgers *l, const struct ledger_copy *x,
                     uint64_t end, struct err *e)
{
    struct err why = {0};
    int rc = fetch_ledger_file(f, x, end, &why, e);
    if (rc == 0)
        fetch_failed(l, x, why.text);
    l->fetched += rc == 1;
    return rc;
}

/* Fetches the files that the world counts, from the last one on, as far as each names the one
 * before it. A file of another life of the world is not fetched, whatever its number. */
static int fetch_named(struct fetch *f, struct fetch_ledgers *l, const struct ledger_copies *there,
                       struct ledger_ref *at, struct err *e)
{
    int got = 1;
    for (uint64_t last = UINT64_MAX; got == 1; last = at->sequence) {
        if (ledger_files_settle(f->dirfd, l->of->name, last == UINT64_MAX, at, e) < 0)
            return -1;
        if (!at->known || at->sequence < l->from || at->sequence == 0)
            return 0;
        got = 0;
        for (size_t i = 0; i < there->count && got == 0 && at->sequence < last; i++) {
            const struct ledger_copy *x = &there->list[i];
            if (fetch_may_count(l, x) && x->f.sequence == at->sequence &&
                x->f.written.ms == at->written.ms)
                got = fetch_one(f, l, x, at->end, e);
        }
    }
    at->known = false; /* the file is lost, and with it the name of the one before */
    at->sequence--;
    return got;
}

/* Fetches the files up to `upto` of which it is not known which ones count: none of two that have
 * one number. */
static int fetch_unnamed(struct fetch *f, struct fetch_ledgers *l,
                         const struct ledger_copies *there, uint64_t upto, struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies here = {0};
    if (ledger_copies_here(f->cfg, f->dirfd, &here, e) < 0)
        return -1;
    for (size_t i = 0; i < there->count; i++) {
        const struct ledger_copy *x = &there->list[i], *own = ledger_copies_find(&here, x->f.name);
        if (!fetch_may_count(l, x) || x->f.sequence < l->from || x->f.sequence > upto ||
            (own && (own->undone || ledger_copy_valid(own))) || ledger_copies_rival(&here, x))
            continue;
        if (ledger_copies_rival(there, x))
            fetch_failed(l, x, "another file there has its number");
        else if (fetch_one(f, l, x, UINT64_MAX, e) < 0)
            return -1;
    }
    return 0;
}

/* Finds the time by which the files in the store are judged. */
static int fetch_now(const struct fetch *f, const struct ledger_copies *there, wall_t *out,
                     struct err *e)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    if (catalog_load(f->dirfd, f->cfg->name, &dumps, e) < 0)
        return -1;
    SCOPED(xfree) struct retention_item *dates = catalog_dates(&dumps, there->count);
    *out = ledger_copies_now(there, dates, dumps.count, f->cfg->dump_interval, clock_wall());
    return 0;
}

int fetch_ledgers(struct fetch *f, struct fetch_ledgers *l, struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies there = {0};
    SCOPED(file_close) int lock = fetch_lock(f->dirfd, "ledgers.lock", f->progress, e);
    struct ledger_ref at = ledger_filed_last(&l->marks);
    if (lock < 0 || ledger_copies_load(f->t.store, f->cfg, &there, e) != REMOTE_OK ||
        fetch_now(f, &there, &l->now, e) < 0 || sweep_fetched(f, l->of->name, e) < 0 ||
        fetch_named(f, l, &there, &at, e) < 0)
        return -1;
    return at.known ? 0 : fetch_unnamed(f, l, &there, at.sequence, e);
}

int fetch_ledgers_unsent(struct fetch *f, char name[LEDGER_FILE_NAME], struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies there = {0}, here = {0};
    int unsent = 0;
    if (load_both(f, &there, &here, e) < 0)
        return -1;
    for (size_t i = 0; i < here.count; i++) {
        const struct ledger_copy *x = &here.list[i], *is = ledger_copies_find(&there, x->f.name);
        if (!ledger_copy_valid(x) || (is && is->manifest))
            continue;
        if (unsent++ == 0)
            snprintf(name, LEDGER_FILE_NAME, "%s", x->f.name);
    }
    return unsent;
}

int fetch_ledgers_set_aside(struct fetch *f, struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies there = {0}, here = {0};
    if (load_both(f, &there, &here, e) < 0)
        return -1;
    for (size_t i = 0; i < here.count; i++) {
        const struct ledger_copy *x = &here.list[i], *is = ledger_copies_find(&there, x->f.name);
        if (ledger_copy_valid(x) && !(is && is->manifest) &&
            ledger_file_undo(f->dirfd, &x->f, e) < 0)
            return -1;
    }
    return 0;
}
