#include "dump/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/file.h"
#include "db/binlog.h"
#include "db/digits.h"
#include "db/packet.h"
#include "db/sentinel.h"
#include "db/sql.h"
#include "dump/definitions.h"
#include "dump/format.h"
#include "dump/readback.h"
#include "dump/shrink.h"
#include "dump/snapshot.h"
#include "store/catalog.h"

/* A world that shrank is believed after this many quarantined dumps in a row that agree. */
#define SHRINK_BELIEVED_AFTER 3

/* Where a table's members lie in the file. */
struct place {
    uint64_t offset, length;
};

struct writing {
    const struct job *job;
    struct snapshot *snap;
    struct gzip_writer *gz;
    struct readback *back;
    struct manifest *m;
    struct manifest_table *table; /* being written */
    struct db_sentinel sentinel;  /* as it was when the name was chosen */
    struct place *places; /* [i]: of table i of the manifest; filled by the packing threads */
    struct buf insert;    /* "INSERT INTO … VALUES\n" of it */
    struct buf statement;
    uint64_t statement_max, packet_max;
    uint64_t total;
    char *part, *file;
    int fd;
};

const char *dump_method_name(enum config_method m)
{
    switch (m) {
    case METHOD_LOCK:
        return "lock";
    case METHOD_COPY:
        return "copy";
    case METHOD_FUZZY:
        return "fuzzy";
    case METHOD_AUTO:
        break;
    }
    return "auto";
}

/* Members are tagged with the number of the table, from 1. */
static void member_written(void *arg, uint64_t tag, uint64_t offset, uint64_t packed,
                           uint64_t plain)
{
    struct writing *w = arg;
    (void)plain;
    if (tag) {
        struct place *p = &w->places[tag - 1];
        if (p->length == 0)
            p->offset = offset;
        p->length += packed;
    }
    readback_grown(w->back, offset + packed);
}

static uint64_t tag_of(const struct writing *w)
{
    return w->table ? (uint64_t)(w->table - w->m->tables) + 1 : 0;
}

/* A statement is a member: what it holds is packed elsewhere while the next one is read. */
static int flush_statement(struct writing *w, struct err *e)
{
    if (w->statement.len == 0)
        return 0;
    buf_adds(&w->statement, ";\n");
    return gzip_give(w->gz, tag_of(w), &w->statement, e);
}

static int write_tuple(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct writing *w = arg;
    if (len > db_packet_room(w->packet_max, w->insert.len, DB_PACKET_SPARE_KEPT))
        return db_packet_too_long(e, "a row", w->table->name, w->insert.len + len, w->packet_max);
    if (w->statement.len && w->statement.len + len + 4 > w->statement_max &&
        flush_statement(w, e) < 0)
        return -1;
    if (w->statement.len == 0)
        buf_add(&w->statement, w->insert.p, w->insert.len);
    else
        buf_adds(&w->statement, ",\n");
    buf_add(&w->statement, tuple, len);
    w->table->rows++;
    w->table->rows_hash += sql_tuple_hash(tuple, len);
    w->total++;
    if (w->total % 1024 == 0)
        progress_at(w->job->progress, w->total, gzip_plain_bytes(w->gz));
    return 0;
}

/* A member of its own. */
static int write_text(struct writing *w, struct buf *text, struct err *e)
{
    return text->len ? gzip_give(w->gz, tag_of(w), text, e) : 0;
}

/* What stands before and behind the rows of a table. */
static void put_around(const struct db_table *t, const char *create, struct buf *head,
                       struct buf *tail)
{
    struct buf off = {0}, on = {0};
    format_table(head, t->name, create);
    db_digits(t, create, create, &off, &on);
    if (off.len) {
        format_alter(head, t->name, off.p);
        format_alter(tail, t->name, on.p);
    }
    buf_free(&off);
    buf_free(&on);
}

static int write_table(struct writing *w, size_t i, struct err *e)
{
    const struct db_table *t = &snapshot_tables(w->snap)->list[i];
    progress_table(w->job->progress, t->name);
    w->table = manifest_add(w->m, t);
    uint64_t before = gzip_plain_bytes(w->gz), rows = 0;
    struct buf head = {0}, tail = {0};
    put_around(t, snapshot_create(w->snap, i), &head, &tail);
    buf_clear(&w->insert);
    format_insert(&w->insert, t->name, t);
    int rc = write_text(w, &head, e) < 0 ||
                     (!db_rows_elsewhere(t) &&
                      snapshot_read(w->snap, i, write_tuple, w, &rows, e) < 0) ||
                     flush_statement(w, e) < 0 || write_text(w, &tail, e) < 0
                 ? -1
                 : 0;
    w->table->bytes = gzip_plain_bytes(w->gz) - before;
    /* The server counts the rows of a MEMORY table exactly; what was read under its lock must
     * agree. Without a lock the count is of another moment. */
    bool counted = t->memory && snapshot_method(w->snap) != METHOD_FUZZY;
    if (rc == 0 && counted && rows != t->rows) {
        rc = err_set(e, ERR_CHANGED, 0,
                     "table %s: %" PRIu64 " rows were read, the server counts %" PRIu64, t->name,
                     rows, t->rows);
        err_hint(e, "worldkeeper --check names tables that cannot be dumped, and what to do");
    }
    w->table = NULL;
    buf_free(&head);
    buf_free(&tail);
    fault_point("dump.table_read");
    return rc;
}

/* The stock client needs room for tables that grew beyond the server's default limit. */
static uint64_t heap_limit(const struct db_tables *t, int64_t server_limit)
{
    uint64_t limit = server_limit > 0 ? (uint64_t)server_limit : 0;
    for (size_t i = 0; i < t->count; i++) {
        uint64_t need = 2 * (t->list[i].data_length + t->list[i].index_length);
        if (t->list[i].memory && need > limit)
            limit = need;
    }
    return limit;
}

static bool any_keyless(const struct writing *w)
{
    bool any = false;
    for (size_t i = 0; i < snapshot_tables(w->snap)->count; i++)
        any |= !strstr(snapshot_create(w->snap, i), "\n  PRIMARY KEY (");
    return any;
}

static bool any_bare_timestamp(const struct writing *w)
{
    const struct db_tables *tables = snapshot_tables(w->snap);
    bool any = false;
    for (size_t i = 0; i < tables->count; i++)
        for (size_t k = 0; k < tables->list[i].column_count; k++) {
            const struct db_column *c = &tables->list[i].columns[k];
            any |= text_starts(c->type, "timestamp") && !c->has_default && !c->generated;
        }
    return any;
}

static int write_all(struct writing *w, struct err *e)
{
    const struct db_tables *t = snapshot_tables(w->snap);
    struct db *db = snapshot_db(w->snap);
    uint64_t expected = 0;
    size_t last = t->count;
    int rc = -1;
    struct buf b = {0};
    for (size_t i = 0; i < t->count; i++) {
        expected += t->list[i].rows;
        if (strcmp(t->list[i].name, w->job->cfg->sentinel) == 0)
            last = i;
    }
    int64_t packet = db_variable_number(db, "max_allowed_packet");
    w->packet_max = packet > 0 ? (uint64_t)packet : FORMAT_STATEMENT;
    w->statement_max = w->packet_max < FORMAT_STATEMENT ? w->packet_max : FORMAT_STATEMENT;
    progress_phase(w->job->progress, "reading", expected, 0);
    format_header(&b, heap_limit(t, db_variable_number(db, "max_heap_table_size")));
    if (any_keyless(w))
        format_keyless(&b);
    if (any_bare_timestamp(w))
        format_timestamps(&b);
    if (write_text(w, &b, e) < 0)
        goto out;
    for (size_t i = 0; i < t->count; i++)
        if (i != last && write_table(w, i, e) < 0)
            goto out;
    buf_clear(&b);
    if (definitions_write(db, w->job->cfg->schema, t, &b, e) < 0 || write_text(w, &b, e) < 0)
        goto out;
    if (last < t->count && write_table(w, last, e) < 0)
        goto out;
    buf_clear(&b);
    format_trailer(&b, w->m->table_count, w->total);
    rc = write_text(w, &b, e);
out:
    buf_free(&b);
    return rc;
}

static void fill_manifest(struct writing *w)
{
    struct manifest *m = w->m;
    m->server = *snapshot_server(w->snap);
    m->start = *snapshot_start(w->snap);
    m->end = *snapshot_point(w->snap);
    snprintf(m->nonce, sizeof m->nonce, "%s", snapshot_nonce(w->snap));
    snprintf(m->method, sizeof m->method, "%s", dump_method_name(snapshot_method(w->snap)));
    snprintf(m->schema, sizeof m->schema, "%s", w->job->cfg->schema);
    m->all = w->job->cfg->dump_all;
}

static int finish_stream(struct writing *w, mono_t began, struct err *e)
{
    struct gzip_writer *gz = w->gz;
    struct manifest *m = w->m;
    int rc = gzip_flush(gz, e);
    w->gz = NULL;
    m->rows = w->total;
    m->bytes = gzip_plain_bytes(gz);
    m->file_size = gzip_packed_bytes(gz);
    m->took_ms = mono_since(clock_mono(), began);
    for (size_t i = 0; i < m->table_count; i++) {
        m->tables[i].offset = w->places[i].offset;
        m->tables[i].length = w->places[i].length;
    }
    if (rc < 0) {
        gzip_abort(gz);
        return -1;
    }
    return gzip_close(gz, m->sha256, e);
}

/* The world changed under the dump: it is set aside, where nobody restores from it. */
static int discard(struct writing *w, struct err *e)
{
    struct err why = *e;
    if (catalog_reject(w->job->dirfd, w->m, w->part, why.text, e) < 0)
        return -1;
    *e = why;
    return -1;
}

static int stream(struct writing *w, mono_t began, struct err *e)
{
    w->snap = snapshot_take(w->job, e);
    if (!w->snap)
        return -1;
    w->places = xcalloc(snapshot_tables(w->snap)->count, sizeof *w->places);
    w->back = readback_start(w->job->dirfd, w->part, e);
    w->gz = w->back ? gzip_open(w->fd, w->part, w->job->cfg->dump_level, e) : NULL;
    if (!w->gz)
        return -1;
    gzip_on_member(w->gz, member_written, w);
    if (write_all(w, e) < 0)
        return -1;
    fault_point("dump.streamed");
    fill_manifest(w);
    int checked = snapshot_check(w->snap, e);
    snapshot_end(w->snap);
    w->snap = NULL;
    if (w->m->end.file[0] && w->job->cfg->journal != JOURNAL_OFF)
        w->m->log_born = binlog_birth(&w->job->db, w->m->end.file);
    fault_point("dump.post_checked");
    struct err failed;
    if (finish_stream(w, began, checked < 0 ? &failed : e) < 0)
        return -1;
    return checked < 0 ? discard(w, e) : 0;
}

static int sync_and_verify(struct writing *w, struct err *e)
{
    progress_phase(w->job->progress, "writing to disk", 0, 0);
    if (fsync(w->fd) < 0)
        return err_sys(e, errno, "cannot fsync %s", w->part);
    fault_point("dump.synced");
    progress_phase(w->job->progress, "verifying", w->m->rows, 0);
    struct readback *back = w->back;
    w->back = NULL;
    if (readback_finish(back, w->m, w->job->progress, e) < 0) {
        err_step(e, "reading the dump back");
        return -1;
    }
    fault_point("dump.verified");
    return 0;
}

static int publish(struct writing *w, struct err *e)
{
    if (renameat(w->job->dirfd, w->part, w->job->dirfd, w->file) < 0)
        return err_sys(e, errno, "cannot rename %s", w->part);
    fault_point("dump.renamed");
    if (file_sync_dir(w->job->dirfd, w->file, e) < 0)
        return -1;
    fault_point("dump.dir_synced");
    if (manifest_write(w->job->dirfd, w->m, e) < 0) {
        /* It may stand there all the same, where only its directory could not be synced. */
        catalog_remove(w->job->dirfd, w->m->name, NULL);
        return -1;
    }
    fault_point("dump.manifest_written");
    return 0;
}

/* How many quarantined dumps newer than `good` agree that the world is as small as `now`. */
static unsigned agreeing_rejects(const struct job *job, const struct manifest *good,
                                 const struct manifest *now)
{
    struct catalog c;
    char ignored[256];
    unsigned n = 0;
    if (catalog_load_rejected(job->dirfd, job->cfg->name, &c, NULL) < 0)
        return 0;
    for (size_t i = 0; i < c.count; i++) {
        const struct manifest *m = &c.list[i].m;
        if (c.list[i].intact && manifest_compare(m, good) > 0 &&
            !shrink_suspicious(m, now, job->cfg->shrink_limit, job->cfg->sentinel, ignored,
                               sizeof ignored))
            n++;
    }
    catalog_free(&c);
    return n;
}

/* What a world is measured by: the newest dump, or the one that a restore has made the world of
 * since. What that one had not, newer dumps, and the one before a forced restore, are no measure
 * for. NULL: nothing. */
static const struct catalog_entry *shrink_measure(const struct writing *w, const struct catalog *c)
{
    const struct catalog_entry *newest = catalog_newest(c, 0);
    const struct db_sentinel *s = &w->sentinel;
    return newest && s->generation > newest->m.generation && s->dump[0] ? catalog_find(c, s->dump)
                                                                        : newest;
}

/* 0: fine; 1: quarantined (e says why); -1: error. */
static int shrink_guard(struct writing *w, const struct dump_options *opt, struct err *e)
{
    struct catalog c;
    char reason[400];
    const struct job *job = w->job;
    if (opt->accept_shrink)
        return 0;
    if (catalog_load(job->dirfd, job->cfg->name, &c, e) < 0)
        return -1;
    const struct catalog_entry *newest = catalog_newest(&c, 0), *good = shrink_measure(w, &c);
    int rc = good && shrink_suspicious(&good->m, w->m, job->cfg->shrink_limit, job->cfg->sentinel,
                                       reason, sizeof reason);
    if (rc && agreeing_rejects(job, &newest->m, w->m) >= SHRINK_BELIEVED_AFTER)
        rc = 0;
    catalog_free(&c);
    if (rc == 0)
        return 0;
    if (catalog_reject(job->dirfd, w->m, w->part, reason, e) < 0)
        return -1;
    err_set(e, ERR_CHANGED, 0, "dump %s rejected: %s", w->m->name, reason);
    err_hint(e,
             "it is kept in rejected/; if the world really shrank, worldkeeper --dump --force "
             "accepts it (or it is believed after %d such dumps)",
             SHRINK_BELIEVED_AFTER);
    return 1;
}

/* A dump of a stranger's world would push our own out of the retention. */
static int check_nonce(const struct db_sentinel *s, const struct catalog *c, const char *nonce,
                       struct err *e)
{
    if (!nonce || s->rows != 1 || strcmp(s->nonce, nonce) == 0 || catalog_knows_nonce(c, s->nonce))
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "the sentinel holds a nonce that is not ours: another world or keeper");
    err_hint(e, "find out who changed the sentinel table; --init --force adopts what is there");
    return -1;
}

/* A table that the server cannot open now is in no list of its MEMORY tables. Where the newest dump
 * has it, those without it would take the place of all that do. */
static int none_is_missed(const struct catalog *c, struct db *db, const char *schema, struct err *e)
{
    const struct catalog_entry *newest = catalog_newest(c, 0);
    struct db_tables closed;
    if (!newest)
        return 0;
    if (db_closed_tables(db, schema, &closed, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < closed.count && rc == 0; i++)
        if (manifest_table(&newest->m, closed.list[i].name)) {
            rc = err_set(e, ERR_QUERY, 0, "the server cannot open table %s, which dump %s has",
                         closed.list[i].name, newest->m.name);
            err_hint(e, "CHECK TABLE tells why; repair or drop it, or dump what is left: "
                        "worldkeeper --dump --force");
        }
    db_tables_free(&closed);
    return rc;
}

static int choose_name(struct writing *w, const struct dump_options *opt, struct err *e)
{
    const struct job *job = w->job;
    struct catalog c;
    if (catalog_sweep(job->dirfd, job->cfg->name, e) < 0 ||
        catalog_load(job->dirfd, job->cfg->name, &c, e) < 0)
        return -1;
    struct db_params p = job->db;
    struct db *db = db_open(&p, e);
    struct db_sentinel *s = &w->sentinel;
    int rc = db ? db_sentinel_read(db, job->cfg->schema, job->cfg->sentinel, s, e) : -1;
    uint64_t lease = 0;
    if (rc == 0)
        rc = check_nonce(s, &c, opt->nonce, e);
    if (rc == 0 && !opt->accept_shrink)
        rc = none_is_missed(&c, db, job->cfg->schema, e);
    if (rc == 0)
        rc = db_lease_read(db, job->cfg->schema, job->cfg->sentinel, &lease, e);
    db_close(db);
    w->m->generation = rc == 0 && s->generation > c.generation ? s->generation : c.generation;
    if (lease > w->m->generation)
        w->m->generation = lease;
    if (w->m->generation == 0)
        w->m->generation = 1;
    w->m->sequence = c.sequence + 1;
    w->m->at = clock_wall();
    snprintf(w->m->world, sizeof w->m->world, "%s", job->cfg->name);
    manifest_name(w->m);
    w->file = xasprintf("%s.sql.gz", w->m->name);
    w->part = xasprintf("%s.part", w->file);
    catalog_free(&c);
    return rc;
}

/* A dump needs about as much room as the last one; said before the disk is full, not after. */
static int check_room(const struct writing *w, struct err *e)
{
    struct statvfs v;
    struct catalog c;
    if (fstatvfs(w->job->dirfd, &v) < 0 ||
        catalog_load(w->job->dirfd, w->job->cfg->name, &c, NULL) < 0)
        return 0;
    const struct catalog_entry *last = catalog_newest(&c, 0);
    uint64_t room = (uint64_t)v.f_bavail * v.f_frsize, need = last ? last->m.file_size : 0;
    catalog_free(&c);
    if (room >= need)
        return 0;
    char a[TEXT_SHORT], b[TEXT_SHORT];
    err_set(e, ERR_NOSPACE, ENOSPC, "no room for a dump: %s free, the last one took %s",
            text_size(room, a), text_size(need, b));
    err_hint(e, "make room on the file system of [dump] dir, or keep fewer dumps in [retention]");
    return -1;
}

static int open_part(struct writing *w, struct err *e)
{
    w->fd =
        openat(w->job->dirfd, w->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->fd < 0)
        return err_sys(e, errno, "cannot create %s", w->part);
    fchmod(w->fd, 0600);
    fault_point("dump.part_opened");
    return 0;
}

static void writing_end(struct writing *w, bool keep_part)
{
    gzip_abort(w->gz); /* before the readback, which it tells of members */
    readback_abort(w->back);
    snapshot_end(w->snap);
    free(w->places);
    if (w->fd >= 0) {
        close(w->fd);
        if (!keep_part)
            unlinkat(w->job->dirfd, w->part, 0);
    }
    buf_free(&w->insert);
    buf_free(&w->statement);
    free(w->part);
    free(w->file);
}

static int retain(const struct job *job, struct err *e)
{
    unsigned removed;
    if (catalog_retain(job->dirfd, job->cfg->name, &job->cfg->retention, &removed, e) < 0) {
        err_step(e, "the dump is stored, but old ones could not be removed");
        return -1;
    }
    fault_point("dump.retained");
    return 0;
}

int dump_run(const struct job *job, const struct dump_options *opt, struct manifest *out,
             struct err *e)
{
    struct writing w = {.job = job, .m = out, .fd = -1};
    mono_t began = clock_mono();
    *out = (struct manifest){0};
    int rc = -1, stored = 0;
    if (choose_name(&w, opt, e) < 0)
        goto out;
    fault_point("dump.chosen");
    if (check_room(&w, e) < 0 || open_part(&w, e) < 0 || stream(&w, began, e) < 0)
        goto out;
    rc = sync_and_verify(&w, e);
    if (rc == 0)
        rc = shrink_guard(&w, opt, e);
    if (rc == 0)
        rc = publish(&w, e);
    stored = rc == 0;
    if (rc > 0)
        rc = -1;
out:
    writing_end(&w, stored);
    if (stored && !opt->keep_all)
        rc = retain(job, e);
    if (rc < 0 && !out->rejected[0])
        err_step(e, "dump");
    return rc;
}
