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

/* Fetches one file. Of several uploads only the last one was completed, so they are read from
 * there. Returns 1, 0 with the reason in `why`, or -1. */
static int fetch_ledger_file(struct fetch *f, const struct ledger_copy *c, struct err *why,
                             struct err *e)
{
    struct ledger_file x = c->f;
    SCOPED(buf_free) struct buf manifest = {0};
    SCOPED(xfree) char *part = xasprintf("%s" LEDGER_FILES_PART, x.name);
    int valid = ledger_copy_manifest(&f->t, f->cfg->name, &x, &manifest, why, e);
    if (valid != 1)
        return valid;
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

/* Returns 1 if the mark in the store is ours and names the file that is here or, if there is none,
 * the one in the store; 0 if not; -1 on error. */
static int is_marked(struct fetch *f, const struct ledger_copy *x, bool here, struct err *e)
{
    struct ledger_file is = x->f;
    struct err why = {0};
    if (!x->undone)
        return 0;
    if (here)
        ledger_file_load(f->dirfd, &is, &why);
    else if (ledger_copy_describe(&f->t, f->cfg->name, x, &is, &why, e) < 0)
        return -1;
    return ledger_copy_undone(&f->t, f->cfg->name, &is, e);
}

/* Returns 1 if the file was fetched, 0 if not, or -1. */
static int settle_ledger_file(struct fetch *f, const struct ledger_copy *x,
                              const struct ledger_copy *own, struct fetch_ledgers *l, struct err *e)
{
    struct err why = {0};
    bool here = own && ledger_copy_valid(own);
    int undone = is_marked(f, x, here, e);
    if (undone != 0)
        return undone < 0 || (here && ledger_file_undo(f->dirfd, &x->f, e) < 0) ? -1 : 0;
    if (here || (own && own->undone) || ledger_copy_expired(x, clock_wall()) ||
        (!x->manifest && !x->undone))
        return 0;
    int rc = fetch_ledger_file(f, x, &why, e);
    if (rc == 0) {
        SCOPED(xfree) char *text =
            xasprintf("%s.csv.gz is in the store and was not fetched: %s", x->f.name, why.text);
        if (!l->failed[0])
            snprintf(l->failed, sizeof l->failed, "%s", x->f.name);
        json_array_append_new(l->unknown, js_clean(text));
    }
    return rc;
}

enum counted { COUNTED_NO, COUNTED_YES, COUNTED_UNKNOWN };

/* Returns whether the world counts a file that was moved aside: its marker row names the file, or
 * the next file was begun with this file's rows in totals. */
static enum counted is_counted(const struct fetch *f, const struct ledger_filed *m,
                               const struct ledger_copies *here, const struct ledger_copy *x)
{
    struct ledger_file is = x->f;
    struct err ignored = {0};
    if (ledger_file_load_undone(f->dirfd, &is, &ignored) < 0)
        return COUNTED_NO;
    bool named = m->written.ms && m->written.ms % 1000 == 0; /* not by 0.3.0, nor by hand */
    if (is.sequence == m->file && named)
        return is.written.ms == m->written.ms ? COUNTED_YES : COUNTED_NO;
    for (size_t i = 0; i < here->count; i++) {
        struct ledger_file next = here->list[i].f;
        if (here->list[i].of == x->of && next.sequence == is.sequence + 1 &&
            ledger_copy_valid(&here->list[i]) && ledger_file_load(f->dirfd, &next, &ignored) == 0)
            return next.before == is.before + is.rows ? COUNTED_YES : COUNTED_NO;
    }
    return COUNTED_UNKNOWN;
}

/* Lets a file count again that was moved aside because another machine took the world over, if this
 * world counts it: no other machine has it. */
static int bring_one_back(struct fetch *f, const struct ledger_filed *m,
                          const struct ledger_copies *there, const struct ledger_copies *here,
                          struct ledger_copy *x, struct err *e)
{
    const struct ledger_copy *is = ledger_copies_find(there, x->f.name);
    enum counted counted = is_counted(f, m, here, x);
    if ((is && is->undone) || ledger_copy_expired(x, clock_wall()) ||
        ledger_copies_rival(there, x) || ledger_copies_rival(here, x))
        counted = COUNTED_NO;
    if (counted == COUNTED_UNKNOWN || (is && is->manifest))
        return 0;
    if (counted == COUNTED_NO)
        return ledger_file_forget(f->dirfd, &x->f, e);
    if (ledger_file_redo(f->dirfd, &x->f, e) < 0)
        return -1;
    x->undone = false;
    x->manifest = true;
    x->plain = 1;
    return 0;
}

/* The newest comes first, because it proves the one before it. */
static int bring_back(struct fetch *f, const struct fetch_ledgers *l,
                      const struct ledger_copies *there, struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies here = {0};
    if (ledger_copies_here(f->cfg, f->dirfd, &here, e) < 0)
        return -1;
    for (size_t i = here.count; i-- > 0;) {
        struct ledger_copy *x = &here.list[i];
        if (x->of == l->of && x->undone && !x->plain && x->f.sequence <= l->marks.file &&
            bring_one_back(f, &l->marks, there, &here, x, e) < 0)
            return -1;
    }
    return 0;
}

int fetch_ledgers(struct fetch *f, struct fetch_ledgers *l, struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies there = {0}, here = {0};
    SCOPED(file_close) int lock = fetch_lock(f->dirfd, "ledgers.lock", f->progress, e);
    if (lock < 0 || ledger_copies_load(f->t.store, f->cfg, &there, e) != REMOTE_OK ||
        ledger_copies_here(f->cfg, f->dirfd, &here, e) < 0 || sweep_fetched(f, l->of->name, e) < 0)
        return -1;
    for (size_t i = 0; i < there.count; i++) {
        const struct ledger_copy *x = &there.list[i], *own = ledger_copies_find(&here, x->f.name);
        if (x->of != l->of || x->f.sequence < l->from || x->f.sequence > l->marks.file)
            continue;
        if (!own && ledger_copies_rival(&here, x))
            continue; /* the upload has not marked it yet */
        int got = settle_ledger_file(f, x, own, l, e);
        if (got < 0)
            return -1;
        l->fetched += got;
    }
    return bring_back(f, l, &there, e);
}

int fetch_ledgers_unsent(struct fetch *f, char name[LEDGER_FILE_NAME], struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies there = {0}, here = {0};
    int unsent = 0;
    if (load_both(f, &there, &here, e) < 0)
        return -1;
    for (size_t i = 0; i < here.count; i++) {
        const struct ledger_copy *x = &here.list[i], *is = ledger_copies_find(&there, x->f.name);
        if (!ledger_copy_valid(x) || (is && (is->manifest || is->undone)))
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
