#include "ledger/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/gunzip.h"
#include "base/js.h"
#include "store/catalog.h"
#include "store/kept.h"
#include "store/retention.h"

#define CHUNK 65536     /* of unpacked text */
#define PIECE (1 << 20) /* of a packed file */

/* ---- names ---- */

/* Reads a number that a dash follows. Returns what follows the dash; NULL if the text has
 * another form or the number may not fit in 64 bits. */
static const char *files_number(const char *s, const char *end, uint64_t *out)
{
    const char *p = s;
    for (*out = 0; p < end && *p >= '0' && *p <= '9'; p++) {
        if (p - s >= 19) /* one more digit may not fit */
            return NULL;
        *out = *out * 10 + (uint64_t)(*p - '0');
    }
    return p > s && p < end && *p == '-' ? p + 1 : NULL;
}

bool ledger_file_parse(const char *name, size_t len, const char *ledger, struct ledger_file *out)
{
    const char *end = name + len, *s = name + strlen(ledger) + 1;
    *out = (struct ledger_file){0};
    if (len >= sizeof out->name || s > end || !text_starts(name, ledger) || s[-1] != '-' ||
        !(s = files_number(s, end, &out->sequence)) || !(s = files_number(s, end, &out->first)) ||
        !(s = files_number(s, end, &out->last)) || end - s != 16)
        return false;
    char iso[TEXT_SHORT], again[TEXT_SHORT];
    snprintf(iso, sizeof iso, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", s, s + 4, s + 6, s + 9, s + 11,
             s + 13);
    if (text_time_parse(iso, (wall_t){0}, &out->written) < 0 ||
        strncmp(text_utc_name(out->written, again), s, 15) != 0 || s[15] != 'Z')
        return false;
    memcpy(out->name, name, len);
    return true;
}

bool ledger_file_named(const char *file, const char *ending, const char *ledger,
                       struct ledger_file *out)
{
    size_t len = strlen(file), tail = strlen(ending);
    return len > tail && strcmp(file + len - tail, ending) == 0 &&
           ledger_file_parse(file, len - tail, ledger, out);
}

static int in_order(const void *a, const void *b)
{
    const struct ledger_file *x = a, *y = b;
    int order = (x->sequence > y->sequence) - (x->sequence < y->sequence);
    return order ? order : strcmp(x->name, y->name);
}

/* Lists the files, and if `aside` those that were moved aside, which may be in the list twice. */
static int files_list(int dirfd, const char *ledger, bool aside, struct ledger_files *out,
                      struct err *e)
{
    static const char *const endings[] = {LEDGER_FILES_GZIP, LEDGER_FILES_MANIFEST,
                                          LEDGER_FILES_GZIP LEDGER_FILES_UNDONE,
                                          LEDGER_FILES_MANIFEST LEDGER_FILES_UNDONE};
    struct ledger_file f;
    SCOPED(names_free) struct names found = {0};
    *out = (struct ledger_files){0};
    if (file_list(dirfd, "cannot list the dump directory", &found, e) < 0)
        return -1;
    for (size_t n = 0; n < found.count; n++) {
        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
            if (!ledger_file_named(found.list[n], endings[i], ledger, &f))
                continue;
            /* Also counts manifests without data and undone files, so that no number is used
             * twice. */
            if (f.sequence > out->highest)
                out->highest = f.sequence;
            if (i == 1 || (i > 1 && !aside))
                continue;
            out->list = xgrow(out->list, out->count, sizeof *out->list);
            out->list[out->count++] = f;
        }
    }
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, in_order);
    return 0;
}

int ledger_files_list(int dirfd, const char *ledger, struct ledger_files *out, struct err *e)
{
    return files_list(dirfd, ledger, false, out, e);
}

void ledger_files_free(struct ledger_files *f)
{
    free(f->list);
    *f = (struct ledger_files){0};
}

/* Returns the name of a file that belongs to this one; the caller frees it. */
static char *files_with(const struct ledger_file *f, const char *ending)
{
    return xasprintf("%s%s", f->name, ending);
}

/* Removes a file; a missing file is not an error. */
static int files_remove_one(int dirfd, const struct ledger_file *f, const char *ending,
                            struct err *e)
{
    SCOPED(xfree) char *name = files_with(f, ending);
    return file_remove(dirfd, name, e);
}

/* Removes the manifest first: data without a manifest is ignored, but a manifest without its
 * data is damage. */
static int files_remove(int dirfd, const struct ledger_file *f, struct err *e)
{
    if (files_remove_one(dirfd, f, LEDGER_FILES_MANIFEST, e) < 0)
        return -1;
    fault_point("ledger.expired");
    if (files_remove_one(dirfd, f, LEDGER_FILES_GZIP, e) < 0 ||
        files_remove_one(dirfd, f, LEDGER_FILES_MANIFEST LEDGER_FILES_UNDONE, e) < 0)
        return -1;
    return files_remove_one(dirfd, f, LEDGER_FILES_GZIP LEDGER_FILES_UNDONE, e);
}

/* `all`: the ledger's files, with those that were moved aside. */
static int files_now(int dirfd, const struct config *c, const struct ledger_files *all, wall_t wall,
                     wall_t *out, struct err *e)
{
    SCOPED(catalog_free) struct catalog dumps = {0};
    if (catalog_load(dirfd, c->name, &dumps, e) < 0)
        return -1;
    SCOPED(xfree) struct retention_item *dates = catalog_dates(&dumps, all->count);
    for (size_t i = 0; i < all->count; i++)
        dates[dumps.count + i].at = all->list[i].written;
    *out = retention_now(dates, dumps.count + all->count, c->dump_interval, wall);
    return 0;
}

int ledger_files_now(int dirfd, const struct config *c, const struct config_ledger *l, wall_t wall,
                     wall_t *out, struct err *e)
{
    SCOPED(ledger_files_free) struct ledger_files all = {0};
    return files_list(dirfd, l->name, true, &all, e) < 0 ? -1
                                                         : files_now(dirfd, c, &all, wall, out, e);
}

static bool files_expired(const struct ledger_file *f, const struct ledger_filed *m, wall_t oldest)
{
    bool interrupted = f->sequence > m->filed && f->sequence <= m->file;
    return !interrupted && f->written.ms < oldest.ms;
}

/* Reads the dumps only if the clock says that a file expired. */
int ledger_files_expire(int dirfd, const struct config *c, const struct config_ledger *l,
                        const struct ledger_filed *m, struct err *e)
{
    SCOPED(ledger_files_free) struct ledger_files all = {0};
    wall_t wall = clock_wall(), now = wall, oldest = {wall.ms - l->keep};
    bool due = false;
    int rc = files_list(dirfd, l->name, true, &all, e);
    for (size_t i = 0; i < all.count && !due; i++)
        due = files_expired(&all.list[i], m, oldest);
    if (due)
        rc = files_now(dirfd, c, &all, wall, &now, e);
    oldest.ms = now.ms - l->keep;
    for (size_t i = 0; i < all.count && due && rc == 0; i++)
        if (files_expired(&all.list[i], m, oldest))
            rc = files_remove(dirfd, &all.list[i], e);
    return rc;
}

/* Renames what belongs to a file. A missing file is not an error: after a kill between two of
 * these, or if another process does the same, it has its new name already. */
static int files_rename(int dirfd, const struct ledger_file *f, const char *from, const char *to,
                        struct err *e)
{
    SCOPED(xfree) char *is = files_with(f, from);
    SCOPED(xfree) char *name = files_with(f, to);
    struct err why = {0};
    return file_rename(dirfd, is, dirfd, name, &why) == 0 || why.num == ENOENT ? 0
                                                                               : err_pass(e, &why);
}

/* Sets the file aside. Its rows are in the ledger again and will be written to another file; in
 * two files they would count twice. It is kept under another name, because an operator may
 * already have used it as a valid file, and because another restore may make it count again. */
int ledger_file_undo(int dirfd, const struct ledger_file *f, struct err *e)
{
    return files_rename(dirfd, f, LEDGER_FILES_MANIFEST, LEDGER_FILES_MANIFEST LEDGER_FILES_UNDONE,
                        e) < 0
               ? -1
               : files_rename(dirfd, f, LEDGER_FILES_GZIP, LEDGER_FILES_GZIP LEDGER_FILES_UNDONE,
                              e);
}

/* Removes partial files of killed runs. They have no manifest, so none of their rows has left
 * the ledger. */
int ledger_files_sweep(int dirfd, const char *ledger, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    int rc = file_list(dirfd, "cannot list the dump directory", &found, e);
    size_t n = strlen(ledger);
    for (size_t i = 0; rc == 0 && i < found.count; i++) {
        const char *s = found.list[i];
        if (strncmp(s, ledger, n) == 0 && s[n] == '-' &&
            strcmp(s + n + 1 + strspn(s + n + 1, "0123456789"), LEDGER_FILES_PART) == 0)
            rc = file_remove(dirfd, s, e);
    }
    return rc;
}

/* ---- reading ---- */

/* Takes the values of the file's manifest, whose name is `name`. */
static int files_take(const json_t *o, const char *name, struct ledger_file *f, struct err *e)
{
    static const struct js_field fields[] = {
        JS_FIELD(struct ledger_file, NUMBER, "rows", rows, "rows", 1, INT64_MAX),
        JS_FIELD(struct ledger_file, NUMBER, "file_size", size, "file_size", 1, INT64_MAX),
        JS_FIELD(struct ledger_file, NUMBER, "upto", upto, "upto", 0, INT64_MAX),
        JS_FIELD(struct ledger_file, NUMBER, "rolled_up_before", before, "rolled_up_before", 0,
                 INT64_MAX),
        JS_FIELD(struct ledger_file, HEX, "sha256", sha256, "sha256"),
    };
    struct ledger_file is = *f;
    const char *lack = js_read(o, fields, JS_COUNT(fields), &is);
    if (!lack && strcmp(js_text(o, "name"), f->name) != 0) /* another file's manifest */
        lack = "name";
    if (lack)
        return err_set(e, ERR_DAMAGED, 0, "%s: it has no valid \"%s\"", name, lack);
    int64_t previous = js_number(o, "previous", -1);
    bool named = previous >= 0 && (uint64_t)previous < is.sequence;
    is.previous = (struct ledger_ref){.known = named,
                                      .sequence = named ? (uint64_t)previous : is.sequence - 1,
                                      .written = js_moment(o, "previous_ms"),
                                      .end = is.before};
    *f = is;
    return 0;
}

int ledger_file_load(int dirfd, struct ledger_file *f, struct err *e)
{
    SCOPED(xfree) char *name = files_with(f, LEDGER_FILES_MANIFEST);
    json_auto_t *o = NULL;
    int got = kept_load(dirfd, name, LEDGER_FILES_MANIFEST_MAX, &o, e);
    if (got <= 0)
        return got < 0 ? -1 : err_set(e, ERR_DAMAGED, ENOENT, "%s is missing", name);
    return files_take(o, name, f, e);
}

int ledger_file_take(const struct buf *manifest, struct ledger_file *f, struct err *e)
{
    SCOPED(xfree) char *name = files_with(f, LEDGER_FILES_MANIFEST);
    json_auto_t *o = NULL;
    return kept_parse(name, manifest, &o, e) < 0 ? -1 : files_take(o, name, f, e);
}

/* ---- which files count ---- */

struct ledger_ref ledger_filed_last(const struct ledger_filed *m)
{
    bool named = m->written.ms && m->written.ms % 1000 == 0; /* names have whole seconds */
    return (struct ledger_ref){.known = named || m->file == 0,
                               .sequence = m->file,
                               .written = m->file ? m->written : (wall_t){0},
                               .end = UINT64_MAX};
}

static bool files_same(const struct ledger_ref *r, uint64_t sequence, wall_t written)
{
    return r->known && r->sequence == sequence && r->written.ms == written.ms;
}

/* Reads the manifest of a file that was moved aside. Its signature covers the name that it was
 * written under. */
static int files_load_aside(int dirfd, struct ledger_file *f, struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    SCOPED(xfree) char *name = files_with(f, LEDGER_FILES_MANIFEST LEDGER_FILES_UNDONE);
    return file_read(dirfd, name, LEDGER_FILES_MANIFEST_MAX, &text, e) < 0
               ? -1
               : ledger_file_take(&text, f, e);
}

/* Makes a file count again. The manifest comes last, as for a new file. */
static int files_redo(int dirfd, const struct ledger_file *f, struct err *e)
{
    return files_rename(dirfd, f, LEDGER_FILES_GZIP LEDGER_FILES_UNDONE, LEDGER_FILES_GZIP, e) < 0
               ? -1
               : files_rename(dirfd, f, LEDGER_FILES_MANIFEST LEDGER_FILES_UNDONE,
                              LEDGER_FILES_MANIFEST, e);
}

/* Moves files after *at aside that were begun in another life of the world. A file that an earlier
 * version wrote stays, because it names none before it. Each file gets as `previous` what the first
 * one of its life was begun after. */
static int settle_newer(int dirfd, struct ledger_files *here, const struct ledger_ref *at,
                        struct err *e)
{
    for (size_t i = 0; i < here->count; i++) {
        struct ledger_file *f = &here->list[i];
        struct err ignored = {0};
        if (f->sequence <= at->sequence)
            continue;
        bool valid = ledger_file_load(dirfd, f, &ignored) == 0;
        if (!valid && files_load_aside(dirfd, f, &ignored) < 0)
            continue;
        for (size_t k = i; k-- > 0 && here->list[k].sequence > at->sequence;) {
            const struct ledger_file *x = &here->list[k];
            if (files_same(&f->previous, x->sequence, x->written)) {
                f->previous = x->previous;
                break;
            }
        }
        const struct ledger_ref *from = &f->previous;
        if (valid && from->known && from->sequence <= at->sequence &&
            !files_same(from, at->sequence, at->written) && ledger_file_undo(dirfd, f, e) < 0)
            return -1;
    }
    return 0;
}

/* Settles one file that has the number of *at or a higher one. A file stays aside if some of its
 * rows are in later files, too: the machine that rolled them up did not have this one. */
static int settle_file(int dirfd, struct ledger_file *f, struct ledger_ref *at, struct err *e)
{
    struct err ignored = {0};
    bool valid = ledger_file_load(dirfd, f, &ignored) == 0;
    if (!files_same(at, f->sequence, f->written))
        return valid && f->previous.known ? ledger_file_undo(dirfd, f, e) : 0;
    if (!valid && files_load_aside(dirfd, f, &ignored) < 0)
        return 0;
    if (!valid && f->before + f->rows <= at->end && files_redo(dirfd, f, e) < 0)
        return -1;
    *at = f->previous;
    return 0;
}

int ledger_files_settle(int dirfd, const char *ledger, bool newer, struct ledger_ref *at,
                        struct err *e)
{
    SCOPED(ledger_files_free) struct ledger_files here = {0};
    uint64_t upto = at->sequence;
    if (!at->known)
        return 0;
    if (files_list(dirfd, ledger, true, &here, e) < 0 ||
        (newer && settle_newer(dirfd, &here, at, e) < 0))
        return -1;
    for (size_t i = here.count; i-- > 0 && at->known && here.list[i].sequence >= at->sequence;) {
        bool again = i + 1 < here.count && strcmp(here.list[i].name, here.list[i + 1].name) == 0;
        if (here.list[i].sequence <= upto && !again && settle_file(dirfd, &here.list[i], at, e) < 0)
            return -1;
    }
    return 0;
}

/* ---- reading rows ---- */

struct reading {
    csv_row_fn *fn;
    void *arg;
    uint64_t rows;
    bool header;
};

/* The first row holds the column names, so it is not counted. */
static int files_read_row(void *arg, const struct csv_field *fields, unsigned count, struct err *e)
{
    struct reading *r = arg;
    r->rows += r->header; /* the first row is the header */
    r->header = true;
    return r->fn ? r->fn(r->arg, fields, count, e) : 0;
}

/* The pieces of a file that was verified as a whole. */
struct proven {
    uint64_t size;
    unsigned char (*pieces)[SHA256_BYTES]; /* SHA-256 of each PIECE bytes or less */
};

/* Reads the next piece. Returns its length, or 0 at the end. */
static int64_t read_piece(struct gunzip *g, char *data, struct err *e)
{
    int64_t n = 1, got = 0;
    while (got < PIECE && (n = gunzip_read(g, data + got, (size_t)(PIECE - got), e)) > 0)
        got += n;
    return n < 0 ? -1 : got;
}

/* Checks size and SHA-256 of the packed file without unpacking it. */
static int prove_packed(int fd, const char *file, const struct ledger_file *f, struct proven *out,
                        struct err *e)
{
    SCOPED(xfree) char *data = xcalloc(1, PIECE);
    char sha256[SHA256_HEX];
    struct gunzip *g = gunzip_open_plain(fd, file, e);
    int64_t got = g ? 1 : -1;
    uint64_t size = 0;
    for (size_t i = 0; size <= f->size && got > 0 && (got = read_piece(g, data, e)) > 0; i++) {
        out->pieces = xgrow(out->pieces, i, sizeof *out->pieces);
        size += (uint64_t)got;
        if (EVP_Digest(data, (size_t)got, out->pieces[i], NULL, EVP_sha256(), NULL) != 1)
            got = err_set(e, ERR_SYSTEM, 0, "cannot hash %s", file);
    }
    if (got == 0)
        gunzip_sha256(g, sha256);
    gunzip_close(g);
    if (got < 0)
        return -1;
    out->size = size;
    if (got == 0 && size == f->size && strcmp(sha256, f->sha256) == 0)
        return 0;
    return err_set(e, ERR_DAMAGED, 0,
                   "%s does not match its manifest: %s%" PRIu64 " bytes instead of %" PRIu64
                   ", or its SHA-256 differs",
                   file, got == 0 ? "" : "more than ", got == 0 ? size : f->size, f->size);
}

static void piece_at(void *arg, uint64_t from, struct gunzip_part *part)
{
    const struct proven *p = arg;
    part->length = p->size - from < PIECE ? (uint32_t)(p->size - from) : PIECE;
    if (part->length)
        memcpy(part->sha256, p->pieces[from / PIECE], SHA256_BYTES);
}

/* Unpacks the file and reads its rows. A piece that changed since it was verified is not
 * unpacked. */
static int files_read_rows(int fd, const char *file, struct proven *proven, struct reading *r,
                           struct err *e)
{
    struct gunzip *g = gunzip_open_part(fd, file, 0, proven->size, e);
    SCOPED(csv_free) struct csv_reader csv = {0};
    SCOPED(xfree) char *data = xcalloc(1, CHUNK);
    int64_t got = g ? 1 : -1;
    if (g)
        gunzip_prove(g, piece_at, proven);
    while (got > 0 && (got = gunzip_read(g, data, CHUNK, e)) > 0)
        if (csv_feed(&csv, data, (size_t)got, files_read_row, r, e) < 0)
            got = -1;
    if (got == 0 && !csv_whole(&csv))
        got = err_set(e, ERR_DAMAGED, 0, "%s ends in the middle of a row", file);
    gunzip_close(g);
    return got < 0 ? -1 : 0;
}

/* Reads `file`. Its size and SHA-256 must be those of `f`, which is checked before any byte is
 * unpacked. */
static int files_read_all(int dirfd, const char *file, const struct ledger_file *f,
                          struct reading *r, struct err *e)
{
    struct proven proven = {0};
    SCOPED(file_close) int fd = file_open_own(dirfd, file, O_RDONLY, e);
    int rc = fd < 0 ? -1 : prove_packed(fd, file, f, &proven, e);
    if (rc == 0)
        rc = files_read_rows(fd, file, &proven, r, e);
    free(proven.pieces);
    return rc;
}

int ledger_file_read(int dirfd, const struct ledger_file *f, csv_row_fn *fn, void *arg,
                     struct err *e)
{
    SCOPED(xfree) char *file = files_with(f, LEDGER_FILES_GZIP);
    struct reading r = {.fn = fn, .arg = arg};
    if (files_read_all(dirfd, file, f, &r, e) < 0)
        return -1;
    if (r.rows == f->rows)
        return 0;
    return err_set(e, ERR_DAMAGED, 0,
                   "%s does not match its manifest: %" PRIu64 " rows instead of %" PRIu64, file,
                   r.rows, f->rows);
}

/* ---- writing ---- */

struct ledger_file_writer {
    int dirfd, fd;
    char *ledger, *part;
    struct gzip_writer *gzip;
};

/* Frees the writer. `remove` also deletes the part that was written so far, which is of no use. */
static void ledger_files_end(struct ledger_file_writer *w, bool remove)
{
    struct err ignored;
    gzip_abort(w->gzip);
    if (w->fd >= 0)
        close(w->fd);
    if (remove)
        file_remove(w->dirfd, w->part, &ignored);
    free(w->ledger);
    free(w->part);
    free(w);
}

void ledger_file_abort(struct ledger_file_writer *w)
{
    if (w)
        ledger_files_end(w, true);
}

struct ledger_file_writer *ledger_file_begin(int dirfd, const char *ledger, uint64_t sequence,
                                             int level, const struct buf *header, struct err *e)
{
    struct ledger_file_writer *w = xcalloc(1, sizeof *w);
    w->dirfd = dirfd;
    w->ledger = xstrdup(ledger);
    w->part = xasprintf("%s-%08" PRIu64 LEDGER_FILES_PART, ledger, sequence);
    w->fd = file_open(dirfd, w->part, O_WRONLY | O_CREAT | O_TRUNC, e);
    if (w->fd >= 0)
        w->gzip = gzip_open(w->fd, w->part, level, e);
    if (w->gzip && gzip_write(w->gzip, header->p, header->len, e) == 0)
        return w;
    ledger_files_end(w, w->fd >= 0);
    return NULL;
}

int ledger_file_write(struct ledger_file_writer *w, const struct buf *rows, struct err *e)
{
    return gzip_write(w->gzip, rows->p, rows->len, e);
}

/* Checks that the file on the disk has the content that was written. */
static int files_prove(struct ledger_file_writer *w, struct ledger_file *f, struct err *e)
{
    struct reading r = {0};
    struct err why = {0};
    struct stat st;
    if (fstat(w->fd, &st) < 0)
        return err_sys(e, errno, "cannot examine %s", w->part);
    f->size = (uint64_t)st.st_size;
    if (files_read_all(w->dirfd, w->part, f, &r, &why) < 0 && why.cls != ERR_DAMAGED)
        return err_pass(e, &why);
    if (why.cls == ERR_DAMAGED || r.rows != f->rows)
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: what was read back from the disk differs from what was written",
                       w->part);
    return 0;
}

/* The order matters: the content is on the disk before the file gets its name. The manifest,
 * which makes the file valid, comes last. After an error the file is of no use, because its rows
 * are still in the ledger. */
int ledger_file_commit(struct ledger_file_writer *w, struct ledger_file *f, struct err *e)
{
    struct err ignored;
    char at[TEXT_SHORT], written[TEXT_SHORT];
    struct gzip_writer *g = w->gzip;
    w->gzip = NULL;
    f->written.ms = clock_wall().ms / 1000 * 1000; /* the name has no fraction */
    snprintf(f->name, sizeof f->name, "%s-%08" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%sZ", w->ledger,
             f->sequence, f->first, f->last, text_utc_name(f->written, at));
    SCOPED(xfree) char *name = files_with(f, LEDGER_FILES_GZIP);
    SCOPED(xfree) char *manifest = files_with(f, LEDGER_FILES_MANIFEST);
    int rc = gzip_close(g, f->sha256, e);
    if (rc == 0 && fsync(w->fd) < 0)
        rc = err_sys(e, errno, "cannot sync %s", w->part);
    if (rc == 0)
        rc = files_prove(w, f, e);
    fault_point("ledger.proven");
    if (rc == 0)
        rc = file_rename(w->dirfd, w->part, w->dirfd, name, e);
    fault_point("ledger.named");
    if (rc == 0)
        rc = kept_save(
            w->dirfd, manifest, LEDGER_FILES_MANIFEST_MAX,
            json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:o}", "name",
                      f->name, "ledger", w->ledger, "written", text_utc(f->written, written),
                      "sequence", (json_int_t)f->sequence, "first", (json_int_t)f->first, "last",
                      (json_int_t)f->last, "rows", (json_int_t)f->rows, "upto", (json_int_t)f->upto,
                      "rolled_up_before", (json_int_t)f->before, "file_size", (json_int_t)f->size,
                      "sha256", f->sha256, "previous",
                      js_known(f->previous.known, (int64_t)f->previous.sequence), "previous_ms",
                      js_known(f->previous.known, f->previous.written.ms)),
            e);
    fault_point("ledger.kept");
    if (rc < 0) /* it may have its name already */
        files_remove(w->dirfd, f, &ignored);
    ledger_files_end(w, rc < 0);
    return rc;
}
