#include "restore/conflict.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/gzip.h"
#include "db/rows.h"
#include "db/sql.h"
#include "dump/format.h"

struct writing {
    struct gzip_writer *gz;
    struct conflict_source *source;
    struct buf text;
    const struct job *job;
    uint64_t count;
};

static int hash_row(void *arg, const char *tuple, size_t len, struct err *e)
{
    (void)e;
    ((struct conflict_source *)arg)->hash += sql_tuple_hash(tuple, len);
    return 0;
}

static char *quoted_ident(const char *name)
{
    struct buf b = {0};
    sql_ident(&b, name);
    return b.p;
}

int conflict_measure(struct db *db, struct conflict_source *s, struct err *e)
{
    char *from = quoted_ident(s->from);
    s->hash = 0;
    int rc = db_read_rows(db, s->columns, from, hash_row, s, &s->rows, e);
    free(from);
    return rc;
}

static int write_row(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct writing *w = arg;
    buf_clear(&w->text);
    format_insert(&w->text, w->source->table, w->source->columns);
    buf_add(&w->text, tuple, len);
    buf_adds(&w->text, ";\n");
    w->source->hash += sql_tuple_hash(tuple, len);
    if (++w->count % 1024 == 0)
        progress_at(w->job->progress, w->count, 0);
    return gzip_write(w->gz, w->text.p, w->text.len, e);
}

/* Most restores find no row: then nothing is written, and a full disk does not matter. */
static int any_rows(const struct job *job, struct db *db, const struct conflict_source *list,
                    size_t n, bool *any, struct err *e)
{
    *any = false;
    for (size_t i = 0; i < n && !*any; i++) {
        struct buf sql = {0};
        buf_adds(&sql, "SELECT 1 FROM ");
        sql_ident(&sql, list[i].from);
        buf_adds(&sql, " LIMIT 1");
        char *one = db_one(db, sql.p, e);
        buf_free(&sql);
        if (!one && e->cls != ERR_NONE)
            return -1;
        *any = one != NULL;
        free(one);
        progress_at(job->progress, 0, 0);
    }
    return 0;
}

static int write_sources(struct writing *w, struct db *db, struct conflict_source *list, size_t n,
                         uint64_t *rows, struct err *e)
{
    static const char head[] = "-- worldkeeper: rows found in the tables that a restore replaced\n"
                               "SET NAMES binary;\nSET SESSION time_zone='+00:00', "
                               "sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n";
    if (gzip_write(w->gz, head, sizeof head - 1, e) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        char *from = quoted_ident(list[i].from);
        w->source = &list[i];
        list[i].hash = 0;
        int rc = db_read_rows(db, list[i].columns, from, write_row, w, &list[i].rows, e);
        free(from);
        if (rc < 0)
            return -1;
        *rows += list[i].rows;
    }
    return 0;
}

int conflict_save(struct db *db, const struct job *job, struct conflict_source *list, size_t n,
                  uint64_t generation, const char *suffix, char file[128], uint64_t *rows,
                  struct err *e)
{
    char t[TEXT_SHORT], sha[SHA256_HEX], part[140];
    bool any;
    *rows = 0;
    file[0] = '\0';
    if (any_rows(job, db, list, n, &any, e) < 0)
        return -1;
    if (!any)
        return 0;
    snprintf(file, 128, "conflict-%06" PRIu64 "-%sZ%s.sql.gz", generation,
             text_utc_name(clock_wall(), t), suffix);
    snprintf(part, sizeof part, "%s.part", file);
    unlinkat(job->dirfd, part, 0);
    int fd = openat(job->dirfd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "cannot create %s", part);
    struct writing w = {.gz = gzip_open(fd, part, 1, e), .job = job};
    int rc = w.gz ? write_sources(&w, db, list, n, rows, e) : -1;
    if (rc == 0)
        rc = gzip_close(w.gz, sha, e);
    else
        gzip_abort(w.gz);
    buf_free(&w.text);
    if (rc == 0 && fsync(fd) < 0)
        rc = err_sys(e, errno, "cannot fsync %s", part);
    close(fd);
    if (rc == 0 && *rows)
        rc = file_rename(job->dirfd, part, job->dirfd, file, e);
    if (rc < 0 || *rows == 0) {
        unlinkat(job->dirfd, part, 0);
        file[0] = '\0';
    }
    if (rc < 0)
        err_step(e, "saving rows that were written since the loss");
    return rc;
}
