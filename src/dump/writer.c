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

#include "base/fault.h"
#include "base/file.h"
#include "base/line.h"
#include "base/number.h"
#include "binlog/prerequisites.h"
#include "binlog/stream.h"
#include "dump/definitions.h"
#include "dump/format.h"
#include "dump/ledger_count.h"
#include "dump/parts.h"
#include "dump/readback.h"
#include "dump/shrink_guard.h"
#include "dump/snapshot.h"
#include "journal/archive.h"
#include "journal/segment_store.h"
#include "mysql/float_scale.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "mysql/packet_limit.h"
#include "mysql/sentinel.h"
#include "sql/literal.h"
#include "sql/shown_table.h"
#include "store/catalog.h"
#include "store/pending.h"

/* A smaller world is accepted after this many consecutive rejected dumps that agree with each
 * other. */
#define SHRINK_BELIEVED_AFTER 3

struct writing {
    const struct job *job;
    struct snapshot *snap;
    struct gzip_writer *gz;
    struct readback *back;
    struct parts_hash *parts;     /* used by the compressing threads, one at a time */
    struct manifest *m;           /* the compressing threads set offset and length of its tables */
    struct manifest_table *table; /* the table being written */
    struct db_sentinel sentinel;  /* the sentinel when the dump's name was chosen */
    struct catalog catalog;       /* the dumps that existed at that time */
    struct ledger_count ledger;   /* of `table` */
    struct buf insert;            /* "INSERT INTO … VALUES\n" of `table` */
    struct buf statement;
    uint64_t statement_max, packet_max;
    uint64_t total;
    char *part, *file;
    int fd;
};

/* Names in the manifest. */
static const char *const method_names[] = {[METHOD_AUTO] = "auto",
                                           [METHOD_COPY] = "copy",
                                           [METHOD_LOCK] = "lock",
                                           [METHOD_FUZZY] = "fuzzy"};

/* Called when a part is complete. Its hash goes into the manifest and to the readback, which
 * verifies it. */
static void part_written(void *arg, uint32_t length, const unsigned char sha256[SHA256_BYTES])
{
    struct writing *w = arg;
    parts_keep(&w->m->parts, sha256);
    readback_part(w->back, length, sha256);
}

/* Called when a gzip member is written. Its tag is the number of its table, starting with 1, or
 * 0 between tables. */
static void member_written(void *arg, const struct gzip_member *member)
{
    struct writing *w = arg;
    if (member->tag) {
        struct manifest_table *t = &w->m->tables[member->tag - 1];
        if (t->length == 0)
            t->offset = member->offset;
        t->length += member->packed_len;
    }
    parts_hash_add(w->parts, member->tag, member->packed, member->packed_len);
    readback_grown(w->back, member->offset + member->packed_len);
}

static uint64_t writer_tag_of(const struct writing *w)
{
    return w->table ? (uint64_t)(w->table - w->m->tables) + 1 : 0;
}

/* Each statement is a gzip member: a thread compresses it while the next one is read. */
static int flush_statement(struct writing *w, struct err *e)
{
    if (w->statement.len == 0)
        return 0;
    buf_adds(&w->statement, ";\n");
    return gzip_give(w->gz, writer_tag_of(w), &w->statement, e);
}

/* Appends a row. Rejects a row that no server with this max_allowed_packet could load again. */
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
    ledger_count_row(&w->ledger, tuple, len);
    w->table->rows++;
    w->table->rows_hash += sql_tuple_hash(tuple, len);
    w->total++;
    if (w->total % 1024 == 0)
        progress_at(w->job->progress, w->total, gzip_plain_bytes(w->gz));
    return 0;
}

/* Writes `text` as a separate member. */
static int writer_write_text(struct writing *w, struct buf *text, struct err *e)
{
    return text->len ? gzip_give(w->gz, writer_tag_of(w), text, e) : 0;
}

/* Writes DROP, CREATE and rows. The (M,D) of FLOAT columns is removed before the rows and restored
 * after them (float_scale.h). */
static int write_table(struct writing *w, size_t i, size_t in_manifest, struct err *e)
{
    const struct db_table *t = &w->snap->tables.list[i];
    progress_table(w->job->progress, t->name);
    w->table = &w->m->tables[in_manifest];
    ledger_count_begin(&w->ledger, w->job->cfg, w->m, t);
    uint64_t before = gzip_plain_bytes(w->gz), rows = 0;
    SCOPED(buf_free) struct buf head = {0}, tail = {0}, off = {0}, on = {0};
    format_table(&head, t->name, w->snap->creates[i]);
    db_float_scale(t, w->snap->creates[i], w->snap->creates[i], &off, &on);
    if (off.len) {
        format_alter(&head, t->name, off.p);
        format_alter(&tail, t->name, on.p);
    }
    buf_clear(&w->insert);
    format_insert(&w->insert, t->name, t);
    int rc = writer_write_text(w, &head, e) < 0 ||
                     (!db_rows_elsewhere(t) &&
                      snapshot_read(w->snap, i, write_tuple, w, &rows, e) < 0) ||
                     flush_statement(w, e) < 0 || writer_write_text(w, &tail, e) < 0
                 ? -1
                 : 0;
    w->table->bytes = gzip_plain_bytes(w->gz) - before;
    /* The server counts the rows of a MEMORY table exactly. If they were read under a lock, both
     * counts must be equal. */
    if (rc == 0 && snapshot_counted(w->snap, i) && rows != t->rows) {
        rc = err_set(e, ERR_CHANGED, 0,
                     "table %s: %" PRIu64 " rows were read, but the server counts %" PRIu64,
                     t->name, rows, t->rows);
        err_hint(e, "worldkeeper --check lists the tables that cannot be dumped, and what to do");
    }
    w->table = NULL;
    fault_point("dump.table_read");
    return rc;
}

/* Writes the settings at the beginning of the file that these tables need. */
static void put_header(const struct writing *w, struct buf *b)
{
    const struct db_tables *tables = &w->snap->tables;
    int64_t server = db_variable_number(w->snap->meta, "max_heap_table_size");
    uint64_t heap =
        /* the limit must suffice for tables larger than the default allows */
        server > 0 ? (uint64_t)server : 0;
    bool keyless = false, bare_timestamp = false;
    for (size_t i = 0; i < tables->count; i++) {
        const struct db_table *t = &tables->list[i];
        uint64_t need = number_product(2, db_table_bytes(t));
        if (t->memory && need > heap)
            heap = need;
        keyless |= !shown_table_has_primary_key(w->snap->creates[i]);
        for (size_t k = 0; k < t->column_count; k++)
            bare_timestamp |= text_starts(t->columns[k].type, "timestamp") &&
                              !t->columns[k].has_default && !t->columns[k].generated;
    }
    format_header(b, heap);
    if (keyless)
        format_keyless(b);
    if (bare_timestamp)
        format_timestamps(b);
}

static int write_definitions(struct writing *w, struct buf *b, struct err *e)
{
    const char *schema = w->job->cfg->schema;
    const struct db_tables *t = &w->snap->tables;
    SCOPED(names_free) struct names names = {0};
    SCOPED(db_triggers_free) struct db_triggers triggers = {0};
    for (size_t i = 0; i < t->count; i++)
        names_add(&names, t->list[i].name);
    return db_triggers_of(w->snap->meta, schema, &names, w->job->progress, &triggers, e) < 0
               ? -1
               : definitions_write(w->snap->meta, schema, t, &triggers, b, w->m->code_hash, e);
}

/* Writes all tables. The sentinel's table comes last (format.h), after the definitions. */
static int write_all(struct writing *w, struct err *e)
{
    const struct db_tables *t = &w->snap->tables;
    struct db *db = w->snap->meta;
    uint64_t expected = 0;
    size_t last = t->count, written = 0;
    SCOPED(buf_free) struct buf b = {0};
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->list[i].name, w->job->cfg->sentinel) == 0) {
            last = i;
            continue;
        }
        expected += t->list[i].rows;
        manifest_add(w->m, &t->list[i]);
    }
    /* All tables are added before the first one is written, because adding may move the list. */
    if (last < t->count)
        manifest_add(w->m, &t->list[last]);
    int64_t packet = db_variable_number(db, "max_allowed_packet");
    w->packet_max = packet > 0 ? (uint64_t)packet : FORMAT_STATEMENT;
    w->statement_max = w->packet_max < FORMAT_STATEMENT ? w->packet_max : FORMAT_STATEMENT;
    progress_phase(w->job->progress, "reading", expected, 0);
    put_header(w, &b);
    int rc = writer_write_text(w, &b, e);
    for (size_t i = 0; i < t->count && rc == 0; i++)
        if (i != last)
            rc = write_table(w, i, written++, e);
    buf_clear(&b);
    if (rc == 0)
        rc = write_definitions(w, &b, e);
    if (rc < 0 || writer_write_text(w, &b, e) < 0 ||
        (last < t->count && write_table(w, last, written, e) < 0))
        return -1;
    buf_clear(&b);
    format_trailer(&b, w->m->table_count, w->total);
    return writer_write_text(w, &b, e);
}

/* Checks whether changes may be missing from this server's binlog, which the binlog itself does
 * not show. If so, the dump is stored without a binlog position, or fails if its method needs the
 * binlog. */
static int judge_log(struct writing *w, struct err *e)
{
    SCOPED(binlog_prerequisites_free) struct binlog_prerequisites able = {0};
    if (!w->m->end.file[0])
        return 0;
    if (binlog_judge(w->snap->meta, w->job->cfg->schema, &able, e) < 0)
        return -1;
    /* Tables that were scanned beside unlogged changes may be of different moments. */
    if (able.silent && w->snap->method == METHOD_FUZZY)
        return err_set(e, ERR_CHANGED, 0, "while tables were scanned this began: %s", able.reason);
    if (able.silent) {
        snprintf(w->m->unlogged, sizeof w->m->unlogged, "%s", able.reason);
        w->m->start = w->m->end = (struct db_binlog_pos){0};
    }
    return 0;
}

/* Writes the last bytes and the figures. The data may not be on the disk yet. */
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
    if (rc == 0 && parts_hash_end(w->parts) < 0)
        rc = err_set(e, ERR_SYSTEM, 0, "cannot hash %s", w->part);
    if (rc < 0) {
        gzip_abort(gz);
        return -1;
    }
    return gzip_close(gz, m->sha256, e);
}

/* Streams the world into the file. Ends the snapshot first, so that the server holds no locks or
 * copies while a slow disk is written. */
static int writer_stream(struct writing *w, mono_t began, struct err *e)
{
    const struct catalog_entry *newest = catalog_newest(&w->catalog, 0);
    w->snap = snapshot_take(w->job, newest ? &newest->m : NULL, e);
    if (!w->snap)
        return -1;
    w->back = readback_start(w->job->dirfd, w->part, e);
    w->gz = w->back ? gzip_open(w->fd, w->part, w->job->cfg->dump_level, e) : NULL;
    w->m->parts.bytes = MANIFEST_PART;
    w->parts = parts_hash_new(MANIFEST_PART, part_written, w);
    if (w->gz && !w->parts)
        return err_set(e, ERR_SYSTEM, 0, "cannot hash %s", w->part);
    if (!w->gz)
        return -1;
    gzip_on_member(w->gz, member_written, w);
    if (write_all(w, e) < 0)
        return -1;
    fault_point("dump.streamed");
    struct manifest *m = w->m;
    m->server = w->snap->server;
    m->start = w->snap->start;
    m->end = w->snap->point;
    snprintf(m->nonce, sizeof m->nonce, "%s", w->snap->sentinel.nonce);
    snprintf(m->method, sizeof m->method, "%s", method_names[w->snap->method]);
    line_set(m->warning, sizeof m->warning, "%s", w->snap->warning);
    snprintf(m->schema, sizeof m->schema, "%s", w->job->cfg->schema);
    m->all = w->job->cfg->dump_all;
    int checked = judge_log(w, e) < 0 || ledger_count_end(w->job->cfg, m, w->snap->meta, e) < 0
                      ? -1
                      : snapshot_check(w->snap, e);
    m->wait_ms = snapshot_release(w->snap);
    m->wait_known = true;
    snapshot_end(w->snap);
    w->snap = NULL;
    if (m->end.file[0] && w->job->cfg->journal != JOURNAL_OFF)
        m->log_created_at = binlog_file_created_at(&w->job->db, m->end.file);
    fault_point("dump.post_checked");
    struct err why;
    if (finish_stream(w, began, checked < 0 ? &why : e) < 0)
        return -1;
    if (checked == 0)
        return 0;
    /* The world changed during the dump, so the dump is moved to rejected/, from which nothing
     * is restored. */
    why = *e;
    if (catalog_reject(w->job->dirfd, m, w->part, why.text, e) == 0)
        *e = why;
    return -1;
}

/* Syncs and verifies the rest of the file. Most of it was synced and read back while it was
 * written. */
static int sync_and_verify(struct writing *w, struct err *e)
{
    progress_phase(w->job->progress, "writing to disk", 0, 0);
    if (fsync(w->fd) < 0)
        return err_sys(e, errno, "cannot fsync %s", w->part);
    fault_point("dump.synced");
    progress_phase(w->job->progress, "verifying", manifest_world_rows(w->m, w->job->cfg->sentinel),
                   0);
    struct readback *back = w->back;
    w->back = NULL;
    if (readback_finish(back, w->m, w->job->progress, e) < 0)
        return err_step(e, "reading the dump back");
    fault_point("dump.verified");
    return 0;
}

/* Renames the file, then writes the manifest. The manifest comes last because it makes the file
 * a dump. The file and its name must be durable before. */
static int writer_publish(struct writing *w, struct err *e)
{
    if (renameat(w->job->dirfd, w->part, w->job->dirfd, w->file) < 0)
        return err_sys(e, errno, "cannot rename %s", w->part);
    fault_point("dump.renamed");
    if (file_sync_dir(w->job->dirfd, w->file, e) < 0)
        return -1;
    fault_point("dump.dir_synced");
    if (manifest_write(w->job->dirfd, w->m, e) < 0) {
        /* The manifest may exist even so, if only syncing its directory failed. */
        catalog_remove(w->job->dirfd, w->m->name, NULL);
        return -1;
    }
    fault_point("dump.manifest_written");
    return 0;
}

/* Counts the rejected dumps newer than `good` that agree that the world is as small as `now`. */
static unsigned agreeing_rejects(const struct job *job, const struct manifest *good,
                                 const struct manifest *now)
{
    const struct shrink_rule rule = shrink_rule(job->cfg);
    SCOPED(catalog_free) struct catalog c = {0};
    char ignored[256];
    unsigned n = 0;
    if (catalog_load_rejected(job->dirfd, job->cfg->name, &c, NULL) < 0)
        return 0;
    for (size_t i = 0; i < c.count; i++) {
        const struct manifest *m = &c.list[i].m;
        if (c.list[i].intact && manifest_compare(m, good) > 0 &&
            !shrink_guard_suspicious(m, now, &rule, ignored, sizeof ignored))
            n++;
    }
    return n;
}

/* Adjusts the figures after tables of `back` were restored into the running world: each table
 * may have as few rows as in `back`. */
static void measure_both(struct manifest *newest, const struct manifest *back)
{
    for (size_t i = 0; i < newest->table_count; i++) {
        struct manifest_table *t = &newest->tables[i];
        const struct manifest_table *b = manifest_table(back, t->name);
        uint64_t less = b && b->rows < t->rows ? t->rows - b->rows : 0;
        t->rows -= less;
        newest->rows -= less;
    }
}

/* Returns the dump with which the shrink guard compares: the newest one, or the one restored
 * since. A world restored from an older dump must not be compared with newer dumps or with the
 * dump taken before a forced restore. Returns NULL if there is none, for instance after --at,
 * because the rows of that time were not counted. */
static const struct catalog_entry *shrink_measure(struct writing *w)
{
    const struct catalog_entry *newest = catalog_newest(&w->catalog, 0), *from;
    const struct db_sentinel *s = &w->sentinel;
    if (!newest || s->generation <= newest->m.generation || !s->dump[0])
        return newest;
    const char *how = strrchr(s->dump, '.'); /* a restored file may have any name */
    if (how && strcmp(how, DB_SENTINEL_MOMENT) == 0)
        return NULL;
    from = catalog_find(&w->catalog, s->dump);
    if (!how || strcmp(how, DB_SENTINEL_TABLES) != 0)
        return from;
    if (from)
        measure_both(&w->catalog.list[newest - w->catalog.list].m, &from->m);
    return newest;
}

/* Moves the dump to rejected/. Always returns -1. */
static int reject_shrunk(struct writing *w, const char *reason, struct err *e)
{
    if (catalog_reject(w->job->dirfd, w->m, w->part, reason, e) < 0)
        return -1;
    err_set(e, ERR_CHANGED, 0, "dump %s rejected: %s", w->m->name, reason);
    return err_hint(e,
                    "the dump is in rejected/; if the world really shrank, accept it: worldkeeper "
                    "--dump --force (the size is also accepted after %d such dumps)",
                    SHRINK_BELIEVED_AFTER);
}

/* Compares the dump with the previous ones. A dump that passed its post-check is stored, however
 * small. Otherwise a later loss would bring back deleted rows and lose newer ones. The last
 * larger dump is pinned first, so that its rows are kept even after a kill in between. With
 * [dump] shrink_action = reject the dump is rejected, unless enough others agree with it. */
static int shrink_guard(struct writing *w, const struct dump_options *opt, struct err *e)
{
    char reason[400];
    const struct job *job = w->job;
    const struct shrink_rule rule = shrink_rule(job->cfg);
    if (opt->accept_shrink)
        return 0;
    const struct catalog_entry *newest = catalog_newest(&w->catalog, 0), *good = shrink_measure(w);
    bool shrunk = good && shrink_guard_suspicious(&good->m, w->m, &rule, reason, sizeof reason);
    if (!shrunk || (job->cfg->shrink_reject &&
                    agreeing_rejects(job, &newest->m, w->m) >= SHRINK_BELIEVED_AFTER))
        return 0;
    if (opt->shrunk)
        shrink_guard_tables(&good->m, w->m, &rule, opt->shrunk);
    if (job->cfg->shrink_reject)
        return reject_shrunk(w, reason, e);
    if (job->cfg->retention.keep_before_shrink == 0)
        return 0;
    SCOPED(xfree) char *why = xasprintf("the next dump, %s, has %s", w->m->name, reason);
    return pin_set(job->dirfd, good->m.name, PIN_SHRINK, why, e);
}

/* Rejects the dump if the world is not ours. Retention would delete our own dumps in favor of
 * dumps of another world. */
static int check_nonce(const struct db_sentinel *s, const struct catalog *c, const char *nonce,
                       struct err *e)
{
    if (!nonce || s->rows != 1 || strcmp(s->nonce, nonce) == 0 || catalog_knows_nonce(c, s->nonce))
        return 0;
    err_set(e, ERR_REFUSED, 0,
            "the sentinel has an unexpected nonce; it belongs to another world or supervisor");
    return err_hint(e, "find out what changed the sentinel table; to adopt the present tables: "
                       "worldkeeper --init --force");
}

/* Checks that no table is missing. A table that the server cannot open is missing from its list
 * of MEMORY tables. Dumps without it would in time replace all dumps that contain it. */
static int none_is_missed(const struct catalog *c, struct db *db, const char *schema, struct err *e)
{
    const struct catalog_entry *newest = catalog_newest(c, 0);
    SCOPED(db_tables_free) struct db_tables closed = {0};
    if (!newest)
        return 0;
    if (db_closed_tables(db, schema, &closed, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < closed.count && rc == 0; i++)
        if (manifest_table(&newest->m, closed.list[i].name)) {
            rc = err_set(e, ERR_QUERY, 0, "the server cannot open table %s, which is in dump %s",
                         closed.list[i].name, newest->m.name);
            err_hint(e, "CHECK TABLE shows the reason; repair or drop the table, or dump the rest: "
                        "worldkeeper --dump --force");
        }
    return rc;
}

/* Chooses the name. The generation is the highest of the sentinel, the lease and the catalog;
 * the sequence number follows the highest one used. A new dump therefore sorts after all others. */
static int choose_name(struct writing *w, const struct dump_options *opt, struct err *e)
{
    const struct job *job = w->job;
    struct catalog *c = &w->catalog;
    struct err late;
    /* Files that cannot be removed do not prevent the dump. */
    if (catalog_sweep(job->dirfd, job->cfg->name, &late) < 0)
        job_note(job, "%s", late.text);
    if (catalog_load(job->dirfd, job->cfg->name, c, e) < 0)
        return -1;
    struct db *db = db_open(&job->db, e);
    struct db_sentinel *s = &w->sentinel;
    int rc = db ? db_sentinel_read(db, job->cfg->schema, job->cfg->sentinel, s, e) : -1;
    uint64_t lease = 0;
    if (rc == 0 && (check_nonce(s, c, opt->nonce, e) < 0 ||
                    (!opt->accept_shrink && none_is_missed(c, db, job->cfg->schema, e) < 0) ||
                    db_lease_read(db, job->cfg->schema, job->cfg->sentinel, &lease, e) < 0))
        rc = -1;
    db_close(db);
    w->m->generation = rc == 0 && s->generation > c->generation ? s->generation : c->generation;
    if (lease > w->m->generation)
        w->m->generation = lease;
    if (w->m->generation == 0)
        w->m->generation = 1;
    w->m->sequence = c->sequence + 1;
    w->m->round = c->round;
    w->m->at = clock_wall();
    snprintf(w->m->world, sizeof w->m->world, "%s", job->cfg->name);
    manifest_name(w->m);
    w->file = xasprintf("%s.sql.gz", w->m->name);
    w->part = xasprintf("%s.part", w->file);
    return rc;
}

/* Checks for free space. A dump needs about as much as the last one, so it is refused before the
 * disk is full. */
static int writer_check_room(const struct writing *w, struct err *e)
{
    struct statvfs v;
    if (fstatvfs(w->job->dirfd, &v) < 0)
        return 0;
    const struct catalog_entry *last = catalog_newest(&w->catalog, 0);
    uint64_t room = number_product(v.f_bavail, v.f_frsize), need = last ? last->m.file_size : 0;
    if (room >= need)
        return 0;
    char a[TEXT_SHORT], b[TEXT_SHORT];
    err_set(e, ERR_NOSPACE, ENOSPC, "not enough space for a dump: %s free, the last one took %s",
            text_size(room, a), text_size(need, b));
    return err_hint(e, "make room on the file system of %s, or keep fewer dumps in [retention]",
                    w->job->cfg->dump_dir);
}

/* Writes the dump in the steps of writer.h. The process may be killed between any two of them. */
static int write_dump(struct writing *w, const struct dump_options *opt, struct err *e)
{
    mono_t began = clock_mono();
    if (choose_name(w, opt, e) < 0)
        return -1;
    fault_point("dump.chosen");
    if (writer_check_room(w, e) < 0)
        return -1;
    w->fd =
        openat(w->job->dirfd, w->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->fd < 0)
        return err_sys(e, errno, "cannot create %s", w->part);
    fchmod(w->fd, 0600);
    fault_point("dump.part_opened");
    if (writer_stream(w, began, e) < 0 || sync_and_verify(w, e) < 0 || shrink_guard(w, opt, e) < 0)
        return -1;
    return writer_publish(w, e);
}

/* Deletes old journal segments. With mode = follow the follower deletes them. Without it,
 * segments may have been fetched from the store, and no other process deletes them. */
static void trim_segments(const struct job *job)
{
    struct err why;
    if (job->cfg->journal == JOURNAL_FOLLOW)
        return;
    SCOPED(file_close) int dirfd = archive_dir(job->cfg, false, &why);
    if (dirfd >= 0 && segment_store_trim(job->cfg, dirfd, job->dirfd, &why) < 0)
        job_note(job, "cannot remove old journal segments: %s", why.text);
}

int dump_run(const struct job *job, const struct dump_options *opt, struct manifest *out,
             struct err *e)
{
    struct writing w = {.job = job, .m = out, .fd = -1};
    *out = (struct manifest){0};
    int rc = write_dump(&w, opt, e);
    bool stored = rc == 0;
    /* must precede the readback's end, because its threads report members to the readback */
    gzip_abort(w.gz);
    parts_hash_free(w.parts);
    readback_abort(w.back);
    snapshot_end(w.snap);
    if (w.fd >= 0)
        close(w.fd);
    if (w.fd >= 0 && !stored)
        unlinkat(job->dirfd, w.part, 0);
    buf_free(&w.insert);
    buf_free(&w.statement);
    catalog_free(&w.catalog);
    free(w.part);
    free(w.file);
    if (opt->stored)
        *opt->stored = stored;
    if (stored)
        pending_reserve(job->dirfd);
    if (stored && !opt->keep_all) {
        unsigned removed;
        rc = catalog_retain(job->dirfd, job->cfg->name, &job->cfg->retention,
                            job->cfg->dump_interval, &removed, e);
        trim_segments(job);
        if (rc < 0)
            err_step(e, "the dump is stored, but old dumps could not be removed");
        else
            fault_point("dump.retained");
    }
    if (rc < 0 && !out->rejected[0])
        err_step(e, "dump");
    return rc;
}
