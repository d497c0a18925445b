/* The dump directory of the world's owner says which files count. Of two files with one number the
 * other one was written by a life of the world that ended before that; it is marked in the store,
 * because another machine may have fetched it. */
#include "offsite/upload_ledgers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/file.h"
#include "offsite/upload_int.h"

#define LEFT_MS 86400000 /* data without a manifest is deleted after a day */

/* Returns true if the file here is the one that its signed manifest describes. */
static bool ledger_file_proven(struct upload *u, const struct ledger_copy *own)
{
    struct ledger_file f = own->f;
    struct err why = {0};
    if (ledger_file_load(u->dirfd, &f, &why) == 0 &&
        ledger_file_read(u->dirfd, &f, NULL, NULL, &why) == 0)
        return true;
    err_step(&why, "%s.csv.gz", f.name);
    upload_skip(u, &why);
    return false;
}

/* Returns true if the file in the store is to be marked. A mark deletes it, so a file here that has
 * its number must be proven. Data without a manifest does not count anyway. */
static bool is_undone(struct upload *u, const struct ledger_copies *here,
                      const struct ledger_copy *x)
{
    const struct ledger_copy *own = ledger_copies_find(here, x->f.name);
    const struct ledger_copy *rival = own ? NULL : ledger_copies_rival(here, x);
    return !x->undone && x->manifest && !names_has(&u->ledgers_doubted, x->f.name) &&
           ((own && own->undone) || (rival && ledger_file_proven(u, rival)));
}

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
        err_set(&why, ERR_REFUSED, 0, "%u uploads of it were cut off and lie in the store",
                COPY_TRIES);
    else if (names_has(&u->ledgers_damaged, f->name))
        err_set(&why, ERR_DAMAGED, 0, "it is not the file that its manifest describes");
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
    for (size_t i = 0; i < u->ledgers.count && !s->undo; i++)
        if (is_undone(u, &here, &u->ledgers.list[i])) {
            s->undo = true;
            s->file = u->ledgers.list[i].f;
        }
    for (size_t i = 0; i < here.count; i++) {
        struct ledger_copy *x = &here.list[i];
        const struct ledger_copy *there = ledger_copies_find(&u->ledgers, x->f.name);
        if (!ledger_copy_valid(x) || (there && (there->manifest || there->undone)))
            continue;
        s->waiting++;
        if (!s->since.ms || x->f.written.ms < s->since.ms)
            s->since = x->f.written;
        if (!s->undo && !s->send && may_send(u, &x->f)) {
            s->send = true;
            s->file = x->f;
        }
    }
    return 0;
}

/* Remembers what was stored until the store is listed again. */
static void upload_ledgers_note(struct upload *u, const struct ledger_file *f, unsigned data,
                                bool undone)
{
    struct ledger_copy x = {.f = *f, .plain = data, .manifest = data != 0, .undone = undone};
    struct ledger_file is;
    x.of = ledger_copy_of(u->cfg, f->name, strlen(f->name), &is);
    if (u->t.recipients.count) {
        x.sealed = x.plain;
        x.plain = 0;
    }
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
static enum remote_result send_ledger_file(struct upload *u, const struct ledger_file *f,
                                           struct err *e)
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
        upload_ledgers_note(u, f, 1U << (attempt - 1), false);
    return got;
}

/* Reports a file in the store that is neither marked nor deleted. */
static void leave_ledger_file(struct upload *u, const struct ledger_file *f, struct err *why)
{
    err_step(why, "%s.csv.gz in the store does not count and is not deleted", f->name);
    err_hint(why, "delete the files %s/ledgers/%s.* in the store", u->cfg->name, f->name);
    upload_skip(u, why);
}

/* Marks a file that our signed manifest describes, or that has none. */
static enum remote_result undo_ledger_file(struct upload *u, const struct ledger_file *f,
                                           struct err *e)
{
    char object[COPY_NAME_MAX];
    const struct ledger_copy *there = ledger_copies_find(&u->ledgers, f->name);
    struct ledger_file is = *f;
    struct err why = {0};
    SCOPED(buf_free) struct buf text = {0};
    int valid = there ? ledger_copy_describe(&u->t, u->cfg->name, there, &is, &why, e) : 1;
    if (valid < 0)
        return REMOTE_LATER;
    if (valid == 0) {
        names_add(&u->ledgers_doubted, f->name);
        leave_ledger_file(u, f, &why);
        return REMOTE_OK;
    }
    ledger_copy_name(object, u->cfg->name, f->name, LEDGER_COPY_UNDONE);
    if (ledger_copy_undone_text(&text, u->cfg->name, &is, e) < 0)
        return REMOTE_STOPPED;
    enum remote_result got = upload_text(u, object, text.p, e);
    if (got == REMOTE_OK)
        upload_ledgers_note(u, f, 0, true);
    u->next_tidy = clock_mono();
    return got;
}

enum remote_result upload_ledgers_do(struct upload *u, const struct upload_ledgers_step *s,
                                     struct err *e)
{
    return s->undo ? undo_ledger_file(u, &s->file, e) : send_ledger_file(u, &s->file, e);
}

/* ---- deleting ---- */

/* Deletes the manifest first: without it, data does not count. */
static enum remote_result delete_ledger_file(struct upload *u, struct ledger_copy *x, bool mark,
                                             struct err *e)
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
    if (x->undone && mark && got == REMOTE_OK) {
        ledger_copy_name(object, u->cfg->name, x->f.name, LEDGER_COPY_UNDONE);
        got = upload_delete(u, object, e);
    }
    if (got == REMOTE_OK) {
        x->manifest = false;
        x->plain = x->sealed = 0;
    }
    return got;
}

/* Returns 1 if the mark in the store is ours and names this file, 0 if not, -1 on error. */
static int may_delete_undone(struct upload *u, const struct ledger_copy *x, struct err *e)
{
    struct ledger_file is;
    struct err why = {0};
    int valid = ledger_copy_describe(&u->t, u->cfg->name, x, &is, &why, e);
    int marked = valid == 1 ? ledger_copy_undone(&u->t, u->cfg->name, &is, e) : valid;
    if (marked != 0)
        return marked;
    if (valid == 1)
        err_set(&why, ERR_DAMAGED, 0, "its mark .csv.undone is of another file, or not ours");
    leave_ledger_file(u, &x->f, &why);
    return 0;
}

/* Deletes a file if it expired, if it was undone (its mark stays until it expires), or if it is
 * data of an interrupted upload. An expired file that is still here is needed by the next run of
 * the rollup. */
static enum remote_result tidy_ledger_file(struct upload *u, const struct ledger_copies *here,
                                           struct ledger_copy *x, struct err *e)
{
    wall_t now = clock_wall();
    const struct ledger_copy *own = ledger_copies_find(here, x->f.name);
    bool data = x->plain || x->sealed, needed = own && ledger_copy_valid(own);
    bool expired = !needed && ledger_copy_expired(x, now);
    bool left = data && !x->manifest && x->f.written.ms < now.ms - LEFT_MS;
    int undone =
        x->undone && (data || x->manifest) && !expired && !left ? may_delete_undone(u, x, e) : 0;
    if (undone < 0)
        return REMOTE_LATER;
    return expired || left || undone ? delete_ledger_file(u, x, expired, e) : REMOTE_OK;
}

enum remote_result upload_ledgers_tidy(struct upload *u, struct err *e)
{
    SCOPED(ledger_copies_free) struct ledger_copies here = {0};
    enum remote_result got = REMOTE_OK;
    if (ledger_copies_here(u->cfg, u->dirfd, &here, e) < 0)
        return REMOTE_STOPPED;
    for (size_t i = 0; i < u->ledgers.count && got == REMOTE_OK; i++)
        got = tidy_ledger_file(u, &here, &u->ledgers.list[i], e);
    if (got == REMOTE_OK && u->cfg->ledger_count)
        upload_sweep(u, "ledgers");
    return got;
}
