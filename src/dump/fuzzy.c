#include "dump/fuzzy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "journal/delta_base.h"
#include "journal/replay.h"
#include "mysql/job.h"

#define SPOOL_BYTES (1u << 20)
#define BLOCK_BYTES (1u << 20)

struct part {
    uint64_t from, to; /* offsets in the spool */
    uint64_t counter;  /* AUTO_INCREMENT read at some time during the scan */
};

struct fuzzy {
    const struct job *job;
    const struct db_tables *tables;
    const bool *copied;         /* [i] is true if tables->list[i] is copied instead of scanned */
    char *schema;               /* the name as the server spells it */
    struct db_binlog_pos start; /* position at the start of the scan */
    int fd;
    struct buf out; /* not yet written to the spool */
    uint64_t written, scanned;
    int64_t longest_us; /* longest time that reading one chunk took */
    struct part *parts; /* [i] belongs to tables->list[i] */
    struct replay changes;
};

char *fuzzy_refusal(const struct db_tables *tables, const struct db_scan_facts *facts)
{
    for (size_t i = 0; i < tables->count; i++) {
        const char *why;
        if (db_scan_way(&tables->list[i], facts, &why) == DB_SCAN_NONE)
            return xasprintf("table %s: %s", tables->list[i].name, why);
    }
    return NULL;
}

bool *fuzzy_copied(const struct db_tables *tables, const char *sentinel)
{
    bool *copied = xcalloc(tables->count + 1, sizeof *copied);
    for (size_t i = 0; i < tables->count; i++)
        copied[i] = (tables->list[i].key_count == 0 || tables->list[i].carried) &&
                    strcmp(tables->list[i].name, sentinel) != 0;
    return copied;
}

/* ---- the spool: tuples, each ended by LF; a tuple contains no LF ---- */

/* Creates the spool and removes its name at once, so that a kill leaves no file in the
 * directory. */
static int spool_open(const struct job *job, struct err *e)
{
    static const char name[] = "scan.part";
    unlinkat(job->dirfd, name, 0);
    int fd = openat(job->dirfd, name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "cannot create a file for the scanned rows");
    unlinkat(job->dirfd, name, 0);
    return fd;
}

static int spool_flush(struct fuzzy *f, struct err *e)
{
    if (file_write_all(f->fd, f->out.p, f->out.len) < 0)
        return err_sys(e, errno, "cannot store the scanned rows in %s", f->job->cfg->dump_dir);
    f->written += f->out.len;
    buf_clear(&f->out);
    return 0;
}

static int spool_tuple(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct fuzzy *f = arg;
    if (f->out.len + len + 1 > SPOOL_BYTES && spool_flush(f, e) < 0)
        return -1;
    buf_add(&f->out, tuple, len);
    buf_addc(&f->out, '\n');
    return 0;
}

static int fuzzy_chunk_read(void *arg, uint64_t rows, int64_t us, struct err *e)
{
    struct fuzzy *f = arg;
    (void)e;
    f->scanned += rows;
    f->longest_us = us > f->longest_us ? us : f->longest_us;
    progress_at(f->job->progress, f->scanned, f->written);
    return 0;
}

/* Reads at most one buffer. Reading fewer bytes than requested is not an error. */
static int fuzzy_read_part(struct fuzzy *f, uint64_t at, struct buf *in, uint64_t to, struct err *e)
{
    size_t want = to - at < SPOOL_BYTES ? (size_t)(to - at) : SPOOL_BYTES;
    buf_reserve(in, want);
    ssize_t n;
    do
        n = pread(f->fd, in->p + in->len, want, (off_t)at);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return err_sys(e, n < 0 ? errno : EIO, "cannot read the scanned rows back");
    in->len += (size_t)n;
    return (int)n;
}

/* ---- scanning ---- */

/* Scans one table after the other. Changes to the first table while the last one is scanned are
 * in the binlog. */
static int scan_tables(struct fuzzy *f, struct db *db, const struct db_scan_facts *facts,
                       struct err *e)
{
    progress_phase(f->job->progress, "scanning", 0, 0);
    for (size_t i = 0; i < f->tables->count; i++) {
        const struct db_table *t = &f->tables->list[i];
        const char *why;
        enum db_scan_way way = db_scan_way(t, facts, &why);
        uint64_t rows;
        if (f->copied[i])
            continue;
        progress_table(f->job->progress, t->name);
        f->parts[i].from = f->written;
        if (db_scan_rows(db, t, way, spool_tuple, fuzzy_chunk_read, f, &rows, e) < 0 ||
            spool_flush(f, e) < 0)
            return -1;
        f->parts[i].to = f->written;
        fault_point("dump.scanned");
    }
    return 0;
}

/* Reads the AUTO_INCREMENT counters. This happens after the start position was read, so later
 * increases are among the changes. */
static int read_counters(struct fuzzy *f, struct db *db, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables now = {0};
    if (db_tables(db, f->job->cfg->schema, false, &now, e) < 0)
        return -1;
    for (size_t i = 0; i < f->tables->count; i++) {
        const struct db_table *t = db_table_find(&now, f->tables->list[i].name);
        f->parts[i].counter = t ? t->auto_increment : 0;
    }
    return 0;
}

uint64_t fuzzy_counter(const struct fuzzy *f, size_t table)
{
    return replay_counter_after(&f->changes, f->tables->list[table].name, f->parts[table].counter);
}

int fuzzy_position(struct db *db, struct db_binlog_pos *p, struct err *e)
{
    db_binlog_pos(db, p);
    if (p->file[0])
        return 0;
    return db_exec(db, "DO 1", e) < 0 /* the connection was lost */
               ? -1
               : err_set(e, ERR_CHANGED, 0,
                         "the server does not report its position in the binary log");
}

/* Scans the tables. The start position is read before the scan and the end position after it, so
 * that every change made during the scan lies between them. */
struct fuzzy *fuzzy_scan(const struct job *job, struct db *db, const struct db_tables *tables,
                         const bool *copied, struct db_binlog_pos *start, int64_t *wait_ms,
                         struct err *e)
{
    struct fuzzy *f = xcalloc(1, sizeof *f);
    SCOPED(db_scan_facts_free) struct db_scan_facts facts = {0};
    *f = (struct fuzzy){.job = job, .tables = tables, .copied = copied, .fd = spool_open(job, e)};
    f->parts = xcalloc(tables->count + 1, sizeof *f->parts);
    f->schema = f->fd < 0 ? NULL : db_schema_name(db, job->cfg->schema, e);
    /* An ALTER TABLE that hides facts from this reading is logged later. The position is read
     * first, so the log behind it shows that ALTER TABLE. */
    int rc = f->schema && fuzzy_position(db, &f->start, e) == 0
                 ? db_scan_facts(db, f->schema, &facts, e)
                 : -1;
    /* The tables were listed again after the scan was allowed, and the scan uses this list, so
     * it is checked again. */
    SCOPED(xfree) char *why = rc == 0 ? fuzzy_refusal(tables, &facts) : NULL;
    if (why)
        rc = err_set(e, ERR_CHANGED, 0, "%s", why);
    rc = rc == 0 && read_counters(f, db, e) == 0 ? scan_tables(f, db, &facts, e) : -1;
    *start = f->start;
    *wait_ms = (f->longest_us + 999) / 1000;
    if (rc == 0)
        return f;
    fuzzy_free(f);
    return NULL;
}

/* Adds the changes made during the scan. They must be complete: a gap or a server restart makes
 * the scanned rows useless. */
int fuzzy_merge(struct fuzzy *f, const struct db_binlog_pos *end, struct err *e)
{
    struct replay_source s = {.db = &f->job->db,
                              .schema = f->schema,
                              .sentinel = f->job->cfg->sentinel,
                              .from = &f->start,
                              .upto = end,
                              .tables = f->tables,
                              .unwanted = f->copied,
                              .archive_fd = -1,
                              .progress = f->job->progress};
    progress_phase(f->job->progress, "reading the journal", 0, 0);
    if (replay_read(&s, &f->changes, e) < 0)
        return -1;
    if (f->changes.gap[0])
        return err_set(e, ERR_CHANGED, 0, "cannot make the scan consistent: %s", f->changes.gap);
    if (f->changes.to_loss)
        return err_set(e, ERR_CHANGED, 0, "the server was restarted during the dump");
    return 0;
}

/* ---- reading ---- */

struct giving {
    struct delta_table *changes; /* NULL if there are none */
    db_tuple_fn *fn;
    void *arg;
    uint64_t rows;
};

/* Passes on the complete tuples of `in` and moves an incomplete last one to its beginning. Rows
 * that were changed or deleted since are skipped; delta_finish() adds the changed and new ones. */
static int give_whole(struct giving *g, struct buf *in, struct err *e)
{
    char *s = in->p, *end = in->p + in->len, *lf;
    for (; s < end && (lf = memchr(s, '\n', (size_t)(end - s))); s = lf + 1) {
        size_t len = (size_t)(lf - s);
        int stays = g->changes ? delta_base(g->changes, s, len, true, e) : 1;
        if (stays < 0 || (stays > 0 && g->fn(g->arg, s, len, e) < 0))
            return -1;
        g->rows += stays > 0;
    }
    in->len = (size_t)(end - s);
    memmove(in->p, s, in->len);
    return 0;
}

/* Passes on the tuples of a block "(…),\n(…)". */
static int give_block(void *arg, const char *s, size_t len, uint64_t rows, struct err *e)
{
    struct giving *g = arg;
    const char *end = s + len;
    (void)rows;
    while (s < end) {
        const char *lf = memchr(s, '\n', (size_t)(end - s));
        const char *tuple_end = lf ? lf - 1 : end; /* without the comma */
        if (g->fn(g->arg, s, (size_t)(tuple_end - s), e) < 0)
            return -1;
        g->rows++;
        s = lf ? lf + 1 : end;
    }
    return 0;
}

int fuzzy_read(struct fuzzy *f, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
               struct err *e)
{
    struct giving g = {
        .changes = delta_find(f->changes.delta, f->tables->list[table].name), .fn = fn, .arg = arg};
    SCOPED(buf_free) struct buf in = {0};
    int rc = 0;
    for (uint64_t at = f->parts[table].from; rc == 0 && at < f->parts[table].to;) {
        int n = fuzzy_read_part(f, at, &in, f->parts[table].to, e);
        rc = n < 0 ? -1 : give_whole(&g, &in, e);
        at += n > 0 ? (uint64_t)n : 0;
    }
    if (rc == 0 && g.changes)
        rc = delta_finish(g.changes, true, BLOCK_BYTES, give_block, &g, e);
    *rows = g.rows;
    return rc;
}

void fuzzy_free(struct fuzzy *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    replay_free(&f->changes);
    buf_free(&f->out);
    free(f->schema);
    free(f->parts);
    free(f);
}
