#include "restore/conflict.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/gunzip.h"
#include "mysql/job.h"
#include "mysql/only_table.h"
#include "mysql/rows.h"
#include "sql/literal.h"

#define MAGIC "-- worldkeeper conflict 2\n"
#define OLD_MAGIC "-- worldkeeper: rows found in the tables that a restore replaced\n"
#define WRITTEN "-- written from "
#define EMPTIED "-- into an emptied world\n"
#define HEAD_MAX 512u

struct writing {
    struct gzip_writer *gz;
    struct conflict_source *source;
    struct buf text;
    const struct job *job;
    uint64_t count;
    bool begun; /* a row of `source` was written */
};

void conflict_name(int dirfd, char out[CONFLICT_NAME_MAX], uint64_t generation, const char *suffix)
{
    char t[TEXT_SHORT];
    wall_t at = clock_wall();
    do {
        snprintf(out, CONFLICT_NAME_MAX, "conflict-%06" PRIu64 "-%sZ%s.sql.gz", generation,
                 text_utc_name(at, t), suffix);
        at.ms += 1000;
    } while (faccessat(dirfd, out, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

/* ---- reading ---- */

/* Reads a time of the line "-- written from X to Y". Words in its place give {0}. */
static wall_t read_moment(const char *from, const char *end)
{
    wall_t out;
    SCOPED(xfree) char *text = xstrndup(from, (size_t)(end - from));
    if (text_time_parse(text, clock_wall(), &out) < 0)
        out = (wall_t){0};
    return out;
}

/* Reads the version and the times from the first lines, with a separate reader. The rows are then
 * read from the beginning again. */
static int conflict_read_head(int fd, const char *name, struct conflict_file *out, struct err *e)
{
    char head[HEAD_MAX + 1];
    size_t len = 0;
    int64_t n = 0;
    struct gunzip *in = gunzip_open(fd, name, e);
    if (!in)
        return -1;
    while (len < HEAD_MAX && (n = gunzip_read(in, head + len, HEAD_MAX - len, e)) > 0)
        len += (size_t)n;
    gunzip_close(in);
    if (n < 0)
        return -1;
    head[len] = '\0';
    out->counted = text_starts(head, MAGIC);
    if (!out->counted && !text_starts(head, OLD_MAGIC))
        return err_set(e, ERR_DAMAGED, 0, "%s is not a conflict file", name);
    const char *line = strchr(head, '\n') + 1, *end = strchr(line, '\n');
    const char *from = text_starts(line, WRITTEN) ? line + strlen(WRITTEN) : NULL;
    /* The search starts after the first word, so that the line's own "from " is not part of it. */
    const char *to = from ? strstr(from, " to ") : NULL;
    if (to && end && to < end) {
        out->from = read_moment(from, to);
        out->to = read_moment(to + strlen(" to "), end);
        out->emptied = text_starts(end + 1, EMPTIED);
    }
    return lseek(fd, 0, SEEK_SET) < 0 ? err_sys(e, errno, "cannot read %s", name) : 0;
}

int conflict_open(int dirfd, const char *name, struct conflict_file *out, struct err *e)
{
    *out = (struct conflict_file){.fd = file_open_own(dirfd, name, O_RDONLY, e)};
    if (out->fd < 0)
        return -1;
    /* The content of the page cache proves nothing about the disk. */
    posix_fadvise(out->fd, 0, 0, POSIX_FADV_DONTNEED);
    if (conflict_read_head(out->fd, name, out, e) == 0)
        out->in = gunzip_open(out->fd, name, e);
    if (!out->in) {
        conflict_close(out);
        return -1;
    }
    out->reader = format_open_rows(out->in, name, out->counted);
    return 0;
}

void conflict_close(struct conflict_file *f)
{
    format_close(f->reader);
    gunzip_close(f->in);
    if (f->fd >= 0)
        close(f->fd);
    *f = (struct conflict_file){.fd = -1};
}

static int conflict_by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Fails if a table occurs twice. The rows of a table are adjacent, unless another program put the
 * file together. The names are sorted once, because such a file may name millions of tables. */
static int see_no_table_twice(const struct conflict_seen *seen, const char *name, struct err *e)
{
    SCOPED(xfree) const char **names = xcalloc(seen->count + 1, sizeof *names);
    for (size_t i = 0; i < seen->count; i++)
        names[i] = seen->tables[i].name;
    qsort(names, seen->count, sizeof *names, conflict_by_name);
    for (size_t i = 1; i < seen->count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return err_set(e, ERR_DAMAGED, 0, "%s: table %s is in it twice", name, names[i]);
    return 0;
}

static int see_rows(struct conflict_seen *seen, const struct format_item *item, const char *name,
                    struct err *e)
{
    struct conflict_table *t = seen->count ? &seen->tables[seen->count - 1] : NULL;
    if (!t || strcmp(t->name, item->table) != 0) {
        seen->tables = xgrow(seen->tables, seen->count, sizeof *seen->tables);
        t = &seen->tables[seen->count++];
        *t = (struct conflict_table){.name = xstrdup(item->table),
                                     .columns = xstrdup(item->columns)};
    }
    if (strcmp(t->columns, item->columns) != 0)
        return err_set(e, ERR_DAMAGED, 0, "%s: rows of table %s have different columns", name,
                       item->table);
    t->rows += item->rows;
    t->hash += item->rows_hash;
    seen->rows += item->rows;
    return 0;
}

int conflict_read(int dirfd, const char *name, struct progress *progress, struct conflict_seen *out,
                  struct err *e)
{
    struct conflict_file f;
    struct format_item item = {0};
    *out = (struct conflict_seen){0};
    if (conflict_open(dirfd, name, &f, e) < 0)
        return -1;
    out->from = f.from;
    out->to = f.to;
    out->counted = f.counted;
    int rc;
    while ((rc = format_next(f.reader, &item, e)) == 0 && item.type != FORMAT_END) {
        if ((rc = see_rows(out, &item, name, e)) < 0)
            break;
        progress_at(progress, out->rows, gunzip_packed_bytes(f.in));
    }
    conflict_close(&f);
    if (rc == 0)
        rc = see_no_table_twice(out, name, e);
    if (rc < 0)
        conflict_seen_free(out);
    return rc;
}

void conflict_seen_free(struct conflict_seen *seen)
{
    for (size_t i = 0; i < seen->count; i++) {
        free(seen->tables[i].name);
        free(seen->tables[i].columns);
    }
    free(seen->tables);
    *seen = (struct conflict_seen){0};
}

/* ---- writing ---- */

/* Writes one statement for each row, so that an operator can pick some of them with an editor. */
static int conflict_write_row(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct writing *w = arg;
    buf_clear(&w->text);
    if (!w->begun)
        format_columns_comment(&w->text, w->source->table, w->source->columns);
    w->begun = true;
    format_insert(&w->text, w->source->table, w->source->columns);
    buf_add(&w->text, tuple, len);
    buf_adds(&w->text, ";\n");
    w->source->hash += sql_tuple_hash(tuple, len);
    if (++w->count % 1024 == 0)
        progress_at(w->job->progress, w->count, 0);
    return gzip_write(w->gz, w->text.p, w->text.len, e);
}

/* Sets `any` to whether a source has rows. Most restores find none: then no file is written, and a
 * full disk does not matter. */
static int conflict_any_rows(const struct job *job, struct db *db,
                             const struct conflict_source *list, size_t n, bool *any, struct err *e)
{
    *any = false;
    for (size_t i = 0; i < n && !*any; i++) {
        SCOPED(xfree) char *one =
            db_one_with(list[i].db ? list[i].db : db, "SELECT 1 FROM ?? " DB_ONLY_TABLE " LIMIT 1",
                        DB_ARGS(list[i].from), e);
        if (!one && e->cls != ERR_NONE)
            return -1;
        *any = one != NULL;
        progress_at(job->progress, 0, 0);
    }
    return 0;
}

static const char *conflict_moment(wall_t t, char out[TEXT_SHORT])
{
    return t.ms ? text_utc(t, out) : "an unknown time";
}

/* Writes the header, with settings for an operator who loads the file manually. */
static int write_head(struct writing *w, const struct conflict_about *about, struct err *e)
{
    char from[TEXT_SHORT], to[TEXT_SHORT];
    buf_clear(&w->text);
    buf_printf(&w->text,
               MAGIC WRITTEN "%s to %s\n%s"
                             "SET NAMES binary;\nSET SESSION time_zone='+00:00', "
                             "sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n",
               conflict_moment(about->from, from), conflict_moment(about->to, to),
               about->emptied ? EMPTIED : "");
    return gzip_write(w->gz, w->text.p, w->text.len, e);
}

/* Writes one table after the other, then the trailer with the counts. */
static int write_sources(struct writing *w, struct db *db, struct conflict_source *list, size_t n,
                         uint64_t *rows, struct err *e)
{
    size_t tables = 0;
    for (size_t i = 0; i < n; i++) {
        SCOPED(buf_free) struct buf from = {0};
        sql_ident(&from, list[i].from);
        w->source = &list[i];
        progress_at(w->job->progress, w->count, 0);
        list[i].hash = 0;
        w->begun = false;
        if (db_read_rows(list[i].db ? list[i].db : db, list[i].columns, from.p, conflict_write_row,
                         w, &list[i].rows, e) < 0)
            return -1;
        *rows += list[i].rows;
        tables += list[i].rows > 0;
    }
    buf_clear(&w->text);
    format_trailer(&w->text, tables, *rows);
    return gzip_write(w->gz, w->text.p, w->text.len, e);
}

/* Writes the file and syncs it, because the old tables are dropped once the file counts. */
static int write_part(struct db *db, const struct job *job, struct conflict_source *list, size_t n,
                      const struct conflict_about *about, const char *part, uint64_t *rows,
                      struct err *e)
{
    char sha[SHA256_HEX];
    /* Removes a leftover of an interrupted restore; O_EXCL then never opens a foreign file. */
    unlinkat(job->dirfd, part, 0);
    SCOPED(file_close) int fd =
        openat(job->dirfd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "cannot create %s", part);
    struct writing w = {.gz = gzip_open(fd, part, 1, e), .job = job};
    int rc = w.gz ? write_head(&w, about, e) : -1;
    if (rc == 0)
        rc = write_sources(&w, db, list, n, rows, e);
    if (rc == 0)
        rc = gzip_close(w.gz, sha, e);
    else
        gzip_abort(w.gz);
    buf_free(&w.text);
    if (rc == 0 && fsync(fd) < 0)
        rc = err_sys(e, errno, "cannot fsync %s", part);
    return rc;
}

/* Verifies that the rows read back from the disk are those read from the server. */
static int prove_part(const struct job *job, const struct conflict_source *list, size_t n,
                      const char *part, struct err *e)
{
    SCOPED(conflict_seen_free) struct conflict_seen seen = {0};
    size_t at = 0;
    int rc = 0;
    if (conflict_read(job->dirfd, part, job->progress, &seen, e) < 0)
        return -1;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (list[i].rows == 0) /* not in the file */
            continue;
        const struct conflict_table *t = at < seen.count ? &seen.tables[at++] : NULL;
        if (!t || strcmp(t->name, list[i].table) != 0 || t->rows != list[i].rows ||
            t->hash != list[i].hash)
            rc =
                err_set(e, ERR_SYSTEM, EIO, "%s: the rows of table %s differ from what was written",
                        part, list[i].table);
    }
    return rc;
}

int conflict_save(struct db *db, const struct job *job, struct conflict_source *list, size_t n,
                  const struct conflict_about *about, uint64_t *rows, struct err *e)
{
    char part[CONFLICT_NAME_MAX + 8];
    bool any;
    *rows = 0;
    if (conflict_any_rows(job, db, list, n, &any, e) < 0)
        return -1;
    if (!any)
        return 0;
    snprintf(part, sizeof part, "%s.part", about->file);
    /* Written under another name and read back, so that a file under its final name is complete. */
    int rc = write_part(db, job, list, n, about, part, rows, e);
    if (rc == 0)
        fault_point("restore.conflict_written");
    if (rc == 0 && *rows)
        rc = prove_part(job, list, n, part, e);
    if (rc == 0 && *rows)
        rc = file_rename(job->dirfd, part, job->dirfd, about->file, e);
    if (rc < 0 || *rows == 0)
        unlinkat(job->dirfd, part, 0);
    if (rc < 0)
        err_step(e, "saving rows that were written since the loss");
    return rc;
}
