/* Checks whether the copy is what a load of a dump would give. */
#include "restore/warm_compare.h"

#include "journal/delta_base.h"
#include "mysql/job.h"
#include "restore/plan.h"
#include "restore/warm_int.h"

#include <inttypes.h>

#include "dump/verify.h"
#include "mysql/rows.h"
#include "restore/load.h"
#include "sql/literal.h"

/* Compares the definitions by hash, because this server writes a definition in its own words, and
 * the dump has the words of the primary. A restore refuses what does not fit, so a copy that
 * differs would be found useless only when it is needed. */
int warm_compare_definitions(struct warm *w, const struct manifest *m, struct err *e)
{
    SCOPED(plan_free) struct plan p = {.job = w->job, .into = true, .copy = true};
    SCOPED(xfree) char *name = xasprintf("%s.sql.gz", m->name);
    if (plan_from_manifest(&p, m, e) < 0)
        return -1;
    struct verify_file *file = verify_open(w->job->dirfd, name, m, w->job->progress, e);
    size_t count = 0;
    int rc = file ? WARM_READY : -1;
    for (size_t i = 0; i < p.count && rc == WARM_READY; i++) {
        SCOPED(buf_free) struct buf create = {0};
        const struct target *t = plan_find(&w->plan, p.list[i].name);
        if (p.list[i].skip)
            continue;
        count++;
        if (verify_definition(file, i, &create, e) < 0)
            rc = -1;
        else if (!t || !create.len || shadow_definition_hash(create.p, create.len) != t->definition)
            rc = warm_finding(w, WARM_BROKEN, "table %s differs between the copy and dump %s",
                              p.list[i].name, m->name);
        progress_at(w->job->progress, 0, 0);
    }
    verify_close(file);
    if (rc == WARM_READY && count != w->plan.count)
        rc = warm_finding(w, WARM_BROKEN, "dump %s has fewer tables than the copy", m->name);
    return rc;
}

/* The sum over rows in any order: their hashes are added. */
struct sum {
    uint64_t rows, hash;
};

static int add_tuples(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e)
{
    struct sum *sum = arg;
    sum->rows += rows;
    return loader_hash(tuples, len, &sum->hash, e);
}

/* Adds the rows of the dump that did not change since. */
static int add_base(struct delta_table *d, const struct format_item *item, struct sum *sum,
                    struct err *e)
{
    const char *s = item->sql, *end = s + item->sql_len;
    while (d && s < end) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        int keep = next ? delta_base(d, s, (size_t)(next - s), false, e)
                        : err_set(e, ERR_DAMAGED, 0, "malformed row");
        if (keep < 0)
            return -1;
        sum->rows += keep ? 1 : 0;
        sum->hash += keep ? sql_tuple_hash(s, (size_t)(next - s)) : 0;
        s = format_after_tuple(next, end);
    }
    sum->rows += d ? 0 : item->rows;
    sum->hash += d ? 0 : item->rows_hash;
    return 0;
}

/* Sums up what a load would put into the table: the dump's rows, with the changes since. */
static int sum_of_load(struct warm *w, struct verify_file *file, size_t i, struct delta_table *d,
                       struct sum *sum, struct err *e)
{
    struct format_item item = {0};
    struct verify_part *part = verify_part_open(file, i, e);
    int rc = part ? 0 : -1;
    while (rc == 0 && (rc = verify_part_next(part, &item, e)) == 0 && item.type != FORMAT_END) {
        if (item.type == FORMAT_ROWS)
            rc = add_base(d, &item, sum, e);
        progress_at(w->job->progress, sum->rows, 0);
    }
    verify_part_close(part);
    return rc == 0 && d ? delta_finish(d, false, 1u << 20, add_tuples, sum, e) : rc;
}

/* Compares a table of the copy. Its rows do not change meanwhile, because the lock of the copy is
 * ours, and the game has no privileges in its schema. */
static int warm_compare_compare_table(struct warm *w, struct verify_file *file,
                                      const struct manifest *m, size_t i,
                                      const struct replay *changes, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables now = {0};
    struct sum load = {0}, copy = {0};
    const char *name = m->tables[i].name;
    if (!plan_find(&w->plan, name))
        return WARM_READY;
    progress_table(w->job->progress, name);
    if (sum_of_load(w, file, i, delta_find(changes->delta, name), &load, e) < 0 ||
        db_table_named(w->db, w->schema, name, &now, e) < 0 || !now.count ||
        db_hash_rows(w->db, &now.list[0], name, &copy.rows, &copy.hash, e) < 0)
        return -1;
    return load.rows == copy.rows && load.hash == copy.hash
               ? WARM_READY
               : warm_finding(w, WARM_BROKEN, "table %s differs from a fresh load of dump %s", name,
                              m->name);
}

/* Compares the rows of the copy with a dump. Both must be of one moment: the journal after the dump
 * has to end where the copy is. */
int warm_compare_content(struct warm *w, const struct manifest *m, const struct replay *changes,
                         struct err *e)
{
    SCOPED(xfree) char *file_name = xasprintf("%s.sql.gz", m->name);
    if (changes->gap[0] || db_binlog_pos_compare(&changes->upto, &w->upto) != 0)
        return warm_finding(w, WARM_BROKEN,
                            "the journal after dump %s does not reach the copy's position: %s",
                            m->name, changes->gap);
    struct verify_file *file = verify_open(w->job->dirfd, file_name, m, w->job->progress, e);
    int rc = file ? WARM_READY : -1;
    for (size_t i = 0; i < m->table_count && rc == WARM_READY; i++)
        rc = warm_compare_compare_table(w, file, m, i, changes, e);
    verify_close(file);
    return rc;
}
