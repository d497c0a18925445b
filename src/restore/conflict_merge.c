#include "restore/conflict_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/gunzip.h"
#include "base/js.h"
#include "base/line.h"
#include "mysql/account.h"
#include "mysql/fenced.h"
#include "mysql/galera.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "mysql/objects.h"
#include "mysql/sentinel.h"
#include "restore/conflict_files.h"
#include "restore/conflict_table.h"

bool merge_is_name(const char *name)
{
    size_t len = strlen(name), tail = strlen(".sql.gz");
    return text_starts(name, "conflict-") && len > tail && len < CONFLICT_NAME_MAX &&
           strcmp(name + len - tail, ".sql.gz") == 0 && !strchr(name, '/');
}

/* ---- the world ---- */

/* Fails unless the world is up and is the one that we know. */
static int conflict_merge_check_world(struct merge *m, const struct state *known, struct err *e)
{
    const struct config *c = m->job->cfg;
    struct db_sentinel s = {0};
    if (db_sentinel_read(m->db, c->schema, c->sentinel, &s, e) < 0 && !db_table_missing(e))
        return -1;
    memcpy(m->nonce, s.nonce, sizeof m->nonce);
    if (s.rows == 1 && (!known->known || strcmp(s.nonce, known->nonce) == 0))
        return 0;
    err_set(e, ERR_REFUSED, 0, "the world is not up: %s",
            s.rows ? "its sentinel row has an unexpected nonce" : "its sentinel row is missing");
    return err_hint(
        e, "worldkeeper --status shows the reason; rows can be put back when the world is up");
}

/* Opens the session for all that follows. Its temporary tables and its locks end with it. */
static int conflict_merge_open_world(struct merge *m, const struct state *known, struct err *e)
{
    m->db = job_open(m->job, e);
    if (!m->db || (m->deed != MERGE_COMPARE && galera_own_node(m->db, e) < 0))
        return -1;
    int64_t packet = db_variable_number(m->db, "max_allowed_packet");
    m->packet = packet > 0 ? (uint64_t)packet : 1u << 20;
    const char *checks = db_word(m->db, WORD_CHECKS);
    if (db_lock_wait(m->db, m->job->cfg->restore_lock_wait, e) < 0 ||
        /* MariaDB only: MySQL always checks. These rows were accepted once. */
        (checks && db_exec_with(m->db, "SET SESSION $=0", DB_ARGS(checks), e) < 0) ||
        conflict_merge_check_world(m, known, e) < 0 || db_copier_begin(&m->copier, m->db, e) < 0)
        return -1;
    if (merge_begin(m, e) < 0) {
        if (e->cls == ERR_DENIED)
            db_hint_grant(m->db, m->job->cfg->schema, "CREATE TEMPORARY TABLES", e);
        return -1;
    }
    return m->deed == MERGE_APPLY &&
                   db_fence(m->db, &m->job->db, "conflicts", m->job->cfg->restore_lock_wait, e) < 0
               ? -1
               : db_tables(m->db, m->job->cfg->schema, true, &m->live, e);
}

static void close_world(struct merge *m)
{
    db_tables_free(&m->live);
    db_close(m->db);
    m->db = NULL;
}

/* ---- one file ---- */

static json_t *file_json(const struct merge *m, const struct conflict_seen *seen)
{
    SCOPED(xfree) char *path = xasprintf("%s/%s", m->job->cfg->dump_dir, m->file);
    return json_pack("{s:o, s:o, s:I, s:b, s:o, s:o}", "name", js_clean(m->file), "file",
                     js_clean(path), "rows", (json_int_t)seen->rows, "proven", seen->counted,
                     "from", js_utc(seen->from), "to", js_utc(seen->to));
}

static void conflict_merge_set_known(json_t *o, const char *key, int64_t n, bool known)
{
    json_object_set_new(o, key, known ? json_integer((json_int_t)n) : json_null());
}

/* Figures of a comparison are null without one, because they are not known. */
static json_t *table_json(const struct merge *m, const struct merge_table *t, uint64_t rows)
{
    json_t *o = json_pack("{s:o, s:I}", "table", js_clean(t->name), "rows", (json_int_t)rows);
    uint64_t others = t->stage_rows - t->taken;
    bool known = m->db && !t->refused;
    conflict_merge_set_known(o, "new", (int64_t)others, known);
    conflict_merge_set_known(o, "equal", (int64_t)t->equal, known);
    conflict_merge_set_known(o, "taken", (int64_t)(t->taken + t->unproven_rows), known);
    if (m->deed != MERGE_COMPARE) {
        int64_t left =
            (int64_t)(t->refused ? rows : t->stage_rows + t->unproven_rows - t->inserted);
        conflict_merge_set_known(o, "inserted", (int64_t)t->inserted, !t->unsure);
        js_set_int(o, "renumbered", (int64_t)t->renumbered);
        conflict_merge_set_known(o, "left", left, !t->unsure);
    }
    if (t->pairs && json_array_size(t->pairs))
        json_object_set(o, "numbers", t->pairs);
    if (t->why[0])
        js_set_clean(o, "why", t->why);
    return o;
}

static int end_table(struct merge *m, struct merge_table *t, json_t *tables, struct err *e)
{
    int rc = merge_table_end(m, t, e);
    if (rc < 0)
        line_set(t->why, sizeof t->why, "%s", e->text);
    if (rc == 0 || m->deed == MERGE_APPLY) /* rows may be inserted although it failed */
        json_array_append_new(tables, table_json(m, t, t->rows));
    merge_table_free(m, t);
    return rc;
}

/* Processes its tables one after the other; the file was already read completely and is valid. */
static int each_table(struct merge *m, const struct conflict_seen *seen, json_t *tables,
                      struct err *e)
{
    struct conflict_file f;
    struct merge_table t = {0};
    struct format_item item = {0};
    size_t next = 0;
    int rc;
    if (conflict_open(m->job->dirfd, m->file, &f, e) < 0)
        return -1;
    m->emptied = f.emptied;
    while ((rc = format_next(f.reader, &item, e)) == 0 && item.type != FORMAT_END) {
        if (!t.name || strcmp(t.name, item.table) != 0) {
            rc = t.name ? end_table(m, &t, tables, e) : 0;
            if (rc == 0 &&
                (next == seen->count || strcmp(seen->tables[next].name, item.table) != 0))
                rc = err_set(e, ERR_CHANGED, 0, "%s was altered while it was read", m->file);
            if (rc == 0)
                rc = merge_table_begin(m, seen->tables[next].name, &item, &t, e);
            t.rows = rc == 0 ? seen->tables[next++].rows : 0;
        }
        if (rc == 0)
            rc = merge_table_rows(m, &t, &item, e);
        if (rc < 0)
            break;
        progress_at(m->job->progress, 0, gunzip_packed_bytes(f.in));
    }
    if (rc == 0 && t.name)
        rc = end_table(m, &t, tables, e);
    merge_table_free(m, &t);
    conflict_close(&f);
    return rc;
}

/* ---- all of them ---- */

static int newer_first(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a);
}

/* Finds the conflict files of the dump directory, newest first, or only the one named by `only`. */
static int find_files(const struct job *job, const char *only, struct names *out, struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    SCOPED(xfree) char *failed = xasprintf("cannot read %s", job->cfg->dump_dir);
    *out = (struct names){0};
    if (file_list(job->dirfd, failed, &found, e) < 0)
        return -1;
    for (size_t i = 0; i < found.count; i++)
        if (merge_is_name(found.list[i]) && (!only || strcmp(only, found.list[i]) == 0))
            names_add(out, found.list[i]);
    if (out->count)
        qsort(out->list, out->count, sizeof *out->list, newer_first);
    if (out->count || !only)
        return 0;
    err_set(e, ERR_NOTHING, 0, "no file %s in %s", only, job->cfg->dump_dir);
    return err_hint(e, "worldkeeper --conflicts lists them");
}

/* Lists a file. If it cannot be read, the reason is listed with it. */
static int conflict_merge_list_one(struct merge *m, json_t *files, struct err *e)
{
    SCOPED(conflict_seen_free) struct conflict_seen seen = {0};
    struct err why = {0};
    json_t *tables = json_array();
    int rc = 0;
    bool read = conflict_read(m->job->dirfd, m->file, m->job->progress, &seen, &why) == 0;
    json_t *o = file_json(m, &seen);
    if (!read) {
        err_hint_in_text(&why);
        js_set_clean(o, "why", why.text);
        json_object_set_new(o, "rows", json_null());
    } else if (m->db) {
        rc = merge_numbers_read(m->job->dirfd, m->file, &m->numbers, e);
        if (rc == 0)
            rc = each_table(m, &seen, tables, e);
        merge_numbers_free(&m->numbers);
    } else {
        for (size_t i = 0; i < seen.count; i++) {
            struct merge_table t = {.name = seen.tables[i].name};
            json_array_append_new(tables, table_json(m, &t, seen.tables[i].rows));
        }
    }
    json_object_set_new(o, "tables", tables);
    json_array_append_new(files, o);
    return rc;
}

int merge_list(const struct job *job, const char *only, const struct state *known, json_t **out,
               struct err *e)
{
    struct merge m = {.job = job, .deed = MERGE_COMPARE};
    SCOPED(names_free) struct names names = {0};
    struct err why = {0};
    if (find_files(job, only, &names, e) < 0)
        return -1;
    json_t *files = json_array();
    int rc = 0;
    bool compared = names.count == 0 || conflict_merge_open_world(&m, known, &why) == 0;
    if (!compared)
        close_world(&m);
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        m.file = names.list[i];
        rc = conflict_merge_list_one(&m, files, e);
    }
    *out = json_pack("{s:o, s:b}", "files", files, "compared", compared);
    if (!compared) {
        js_set_clean(*out, "why", why.text);
        js_set_clean(*out, "hint", why.hint);
    }
    close_world(&m);
    return rc;
}

/* ---- back into the world ---- */

/* Fails if tables were left out. The error names the first one with its reason. */
static int conflict_merge_judge(const json_t *tables, struct err *e)
{
    const json_t *t;
    size_t i, left = 0;
    const json_t *first = NULL;
    json_array_foreach(tables, i, t) if (js_text(t, "why")[0])
    {
        first = first ? first : t;
        left++;
    }
    if (!first)
        return 0;
    err_set(e, ERR_REFUSED, 0, "rows of %zu table%s skipped, such as %s: %s", left,
            left == 1 ? " are" : "s are", js_text(first, "table"), js_text(first, "why"));
    return err_hint(e,
                    "all other rows were inserted; for the rest see CONFLICTS in worldkeeper(8)");
}

/* Reads the whole file and checks it before its first row goes into the world. */
static int apply_file(struct merge *m, json_t **out, struct err *e)
{
    SCOPED(conflict_seen_free) struct conflict_seen seen = {0};
    if (conflict_read(m->job->dirfd, m->file, m->job->progress, &seen, e) < 0)
        return -1;
    static const char *const sums[] = {"inserted", "renumbered", "left", NULL};
    json_t *tables = json_array();
    size_t before = m->numbers.count;
    int rc = each_table(m, &seen, tables, e);
    *out = file_json(m, &seen);
    json_object_set_new(*out, "dry_run", json_boolean(m->deed == MERGE_DRY));
    json_object_set_new(*out, "renumber", json_boolean(m->renumber));
    for (const char *const *key = sums; *key; key++) {
        int64_t sum = 0;
        bool known = true;
        for (size_t i = 0; i < json_array_size(tables); i++) {
            const json_t *t = json_array_get(tables, i);
            known &= !json_is_null(json_object_get(t, *key));
            sum += js_number(t, *key, 0);
        }
        conflict_merge_set_known(*out, *key, sum, known);
    }
    json_object_set_new(*out, "tables", tables);
    if (m->numbers.count > before) {
        char name[CONFLICT_NAME_MAX + 16];
        merge_numbers_name(m->file, name);
        SCOPED(xfree) char *path = xasprintf("%s/%s", m->job->cfg->dump_dir, name);
        js_set_clean(*out, "numbers_file", path);
    }
    return rc == 0 ? conflict_merge_judge(tables, e) : -1;
}

int merge_apply(const struct job *job, const char *name, const struct state *known,
                const struct merge_options *opt, json_t **out, struct err *e)
{
    struct merge m = {.job = job,
                      .deed = opt->dry_run ? MERGE_DRY : MERGE_APPLY,
                      .renumber = opt->renumber,
                      .file = name};
    SCOPED(names_free) struct names names = {0};
    progress_phase(job->progress, "comparing", 0, 0);
    /* The lease excludes a restore, which would replace the tables at the same time. */
    int rc = find_files(job, name, &names, e) < 0 || conflict_merge_open_world(&m, known, e) < 0 ||
                     db_lease_take(m.db, job->cfg->schema, 0, e) < 0 ||
                     merge_numbers_read(job->dirfd, name, &m.numbers, e) < 0
                 ? -1
                 : apply_file(&m, out, e);
    if (rc < 0)
        err_step(e, "conflicts");
    merge_numbers_free(&m.numbers);
    close_world(&m);
    return rc;
}
