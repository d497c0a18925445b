/* Files are only deleted when they are older than [ledger] keep. Whether the world counts a file is
 * not known here, and a later restore or promotion may make it count that does not count now. Who
 * fetches files tells them apart (ledger/files.h). */
#include "offsite/upload_ledgers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/file.h"
#include "offsite/upload_int.h"
#include "store/retention.h"

#define LEFT_MS 86400000 /* data without a manifest is deleted after a day */

/* Returns the number of the next upload of a file. As with dumps, a name that an interrupted upload
 * has taken is not used again. */
static unsigned next_attempt(const struct upload *u, const struct ledger_file *f)
{
    const struct ledger_copy *there = ledger_copies_find(&u->ledgers, f->name);
    unsigned taken = there ? there->plain | there->sealed : 0, attempt = 1;
    while (attempt <= COPY_TRIES && taken & 1U << (attempt - 1))
        attempt++;
    return attempt;
}

/* Reads the manifest of a file that is to be sent. A file that cannot be sent is reported, and the
 * others are sent nevertheless. */
static bool may_send(struct upload *u, struct ledger_file *f)
{
    char name[COPY_NAME_MAX];
    struct err why = {0};
    ledger_copy_name(name, u->cfg->name, f->name, LEDGER_FILES_MANIFEST);
    if (next_attempt(u, f) > COPY_TRIES)
        err_set(&why, ERR_REFUSED, 0, "%u interrupted uploads of it are in the store", COPY_TRIES);
    else if (names_has(&u->ledgers_damaged, f->name))
        err_set(&why, ERR_DAMAGED, 0, "it does not match its manifest");
    else if (!remote_name_valid(name))
        err_set(&why, ERR_REFUSED, 0, "a name in a store begins with a letter or a digit");
    else if (ledger_file_load(u->dirfd, f, &why) == 0)
        return true;
    err_step(&why, "%s.csv.gz is not sent", f->name);
    upload_skip(u, &why);
    return false;
}

int upload_ledgers_choose(struct upload *u, struct upload_ledgers_step *s, struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies here = {0};
    *s = (struct upload_ledgers_step){.send = false};
    if (ledger_copies_here(u->cfg, u->dirfd, &here, e) < 0)
        return -1;
    for (size_t i = 0; i < here.count; i++) {
        struct ledger_copy *x = &here.list[i];
        const struct ledger_copy *there = ledger_copies_find(&u->ledgers, x->f.name);
        if (!ledger_copy_valid(x) || (there && there->manifest))
            continue;
        s->waiting++;
        if (!s->since.ms || x->f.written.ms < s->since.ms)
            s->since = x->f.written;
        if (!s->send && may_send(u, &x->f)) {
            s->send = true;
            s->file = x->f;
        }
    }
    return 0;
}

/* Remembers what was stored until the store is listed again. */
static void upload_ledgers_note(struct upload *u, const struct ledger_file *f, unsigned data)
{
    struct ledger_copy x = {.f = *f, .manifest = true};
    struct ledger_file is;
    x.of = ledger_copy_of(u->cfg, f->name, strlen(f->name), &is);
    *(u->t.recipients.count ? &x.sealed : &x.plain) = data;
    ledger_copies_put(&u->ledgers, &x);
}

/* Sends the manifest as it is here: its signature covers it as a whole. */
static enum remote_result upload_ledgers_manifest(struct upload *u, const struct ledger_file *f,
                                                  struct err *e)
{
    char object[COPY_NAME_MAX];
    SCOPED(buf_free) struct buf text = {0};
    SCOPED(xfree) char *name = xasprintf("%s" LEDGER_FILES_MANIFEST, f->name);
    ledger_copy_name(object, u->cfg->name, f->name, LEDGER_FILES_MANIFEST);
    return file_read(u->dirfd, name, LEDGER_FILES_MANIFEST_MAX, &text, e) < 0
               ? REMOTE_STOPPED
               : upload_text(u, object, text.p, e);
}

/* Sends a file, then its manifest. */
enum remote_result upload_ledgers_send(struct upload *u, const struct ledger_file *f, struct err *e)
{
    unsigned attempt = next_attempt(u, f);
    struct transfer_stored stored = {0};
    struct err why = {0};
    struct stat st;
    char object[COPY_NAME_MAX];
    SCOPED(xfree) char *name = xasprintf("%s" LEDGER_FILES_GZIP, f->name);
    SCOPED(file_close) int fd = file_open_own(u->dirfd, name, O_RDONLY, &why);
    if (fd < 0 && why.num == ENOENT)
        return REMOTE_OK; /* it expired since it was listed */
    if (fd < 0) {
        err_pass(e, &why);
        return REMOTE_STOPPED;
    }
    if (fstat(fd, &st) < 0) {
        err_sys(e, errno, "cannot examine %s", name);
        return REMOTE_STOPPED;
    }
    ledger_copy_data(object, u->cfg->name, f->name, attempt, u->t.recipients.count > 0);
    enum remote_result got = REMOTE_OK;
    if ((uint64_t)st.st_size == f->size)
        got = upload_file(u, object, fd, 0, f->size, &stored, e);
    if (got == REMOTE_OK && strcmp(stored.plain_sha256, f->sha256) != 0) {
        names_add(&u->ledgers_damaged, f->name);
        return REMOTE_OK; /* the next step reports it */
    }
    fault_point("offsite.ledger_stored");
    if (got == REMOTE_OK)
        got = upload_ledgers_manifest(u, f, e);
    if (got == REMOTE_OK)
        upload_ledgers_note(u, f, 1U << (attempt - 1));
    return got;
}

/* ---- deleting ---- */

/* Deletes the manifest first: without it, data does not count. */
static enum remote_result delete_ledger_file(struct upload *u, struct ledger_copy *x, struct err *e)
{
    char object[COPY_NAME_MAX];
    enum remote_result got = REMOTE_OK;
    if (x->manifest) {
        ledger_copy_name(object, u->cfg->name, x->f.name, LEDGER_FILES_MANIFEST);
        got = upload_delete(u, object, e);
    }
    for (unsigned i = 1; i <= COPY_TRIES && got == REMOTE_OK; i++)
        for (unsigned sealed = 0; sealed < 2 && got == REMOTE_OK; sealed++) {
            if (!((sealed ? x->sealed : x->plain) & 1U << (i - 1)))
                continue;
            ledger_copy_data(object, u->cfg->name, x->f.name, i, sealed);
            got = upload_delete(u, object, e);
        }
    if (got == REMOTE_OK) {
        x->manifest = false;
        x->plain = x->sealed = 0;
    }
    return got;
}

/* Deletes a file if it expired, or if it is data of an interrupted upload. An expired file that is
 * still here is needed by the next run of the rollup. */
static enum remote_result tidy_ledger_file(struct upload *u, const struct ledger_copies *here,
                                           struct ledger_copy *x, wall_t now, struct err *e)
{
    const struct ledger_copy *own = ledger_copies_find(here, x->f.name);
    bool expired = !(own && ledger_copy_valid(own)) && ledger_copy_expired(x, now);
    bool left = (x->plain || x->sealed) && !x->manifest && x->f.written.ms < now.ms - LEFT_MS;
    return expired || left ? delete_ledger_file(u, x, e) : REMOTE_OK;
}

enum remote_result upload_ledgers_tidy(struct upload *u, struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies here = {0};
    enum remote_result got = REMOTE_OK;
    if (ledger_copies_here(u->cfg, u->dirfd, &here, e) < 0)
        return REMOTE_STOPPED;
    SCOPED(xfree) struct retention_item *dates = copies_dates(&u->there, u->ledgers.count);
    wall_t now = ledger_copies_now(&u->ledgers, dates, u->there.dump_count, u->cfg->dump_interval,
                                   clock_wall());
    for (size_t i = 0; i < u->ledgers.count && got == REMOTE_OK; i++)
        got = tidy_ledger_file(u, &here, &u->ledgers.list[i], now, e);
    if (got == REMOTE_OK && u->cfg->ledger_count)
        upload_sweep(u, "ledgers");
    return got;
}
