/* Applies the journal to the copy, and checks the copy against each newer dump. */
#include "restore/warm_catch_up.h"

#include "mysql/job.h"
#include "restore/warm_apply.h"
#include "restore/warm_compare.h"
#include "restore/warm_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/number.h"
#include "journal/archive.h"
#include "mysql/rows.h"

/* Limits of what a promotion applies to the copy instead of loading the newest dump. Measured with
 * 300,000 rows: to change 30,000 of them by their keys takes 0.6 s, 150,000 take 6 s, and 300,000
 * take 14 s; to load all takes 1.4 to 2.2 s. */
#define ROWS_LOADED 8u        /* rows that are loaded in the time in which one is changed */
#define FEW_ROWS 5000u        /* changed rows that are always applied */
#define FEW_BYTES (16u << 20) /* bytes of the journal that are always read */

/* Applies changes to the copy. `redo` is set first and cleared last: MEMORY tables have no
 * transactions, so what was interrupted is done again, by keys. It stays set after an error that
 * proves nothing about the copy; after any other error the caller drops the mark. */
static int warm_catch_up_apply(struct warm *w, const struct replay *changes, struct err *e)
{
    if (w->redo && !changes->changes)
        return err_set(e, ERR_GAP, 0, "changes that were being applied no longer exist here");
    if (changes->upto.pos == w->upto.pos && strcmp(changes->upto.file, w->upto.file) == 0 &&
        !changes->changes)
        return 0;
    progress_phase(w->job->progress, "applying", 0, 0);
    if (changes->changes && (db_exec(w->db, "UPDATE " WARM_MARK " SET redo=1", e) < 0 ||
                             (fault_point("warm.begun"), warm_apply_tables(w, changes, e)) < 0))
        return -1;
    fault_point("warm.applied");
    w->upto = changes->upto;
    w->place = changes->place;
    w->redo = false;
    return db_exec_with(w->db, "UPDATE " WARM_MARK " SET redo=0,file=?,pos=$,segment=$,made=$",
                        DB_ARGS(w->upto.file, DB_NUMBER(w->upto.pos), DB_NUMBER(w->place.number),
                                DB_NUMBER((uint64_t)w->place.made)),
                        e);
}

/* Reads the changes since the copy. `m` is a dump of the log in which the copy is, with the copy's
 * tables. */
static int read_changes(struct warm *w, const struct manifest *m, int journal, struct replay *out,
                        struct err *e)
{
    static const struct db_tables none;
    const struct config *c = w->job->cfg;
    const struct replay_source s = {.db = &w->job->db,
                                    .schema = c->schema,
                                    .sentinel = c->sentinel,
                                    .from = w->place.number ? &w->upto : &m->end,
                                    .m = m,
                                    .tables = &none,
                                    .archive_fd = journal,
                                    .after = w->place.number ? &w->place : NULL,
                                    .elsewhere = true,
                                    .progress = w->job->progress};
    return replay_read(&s, out, e);
}

/* Returns whether the journal leads from the end of this dump to the position of the copy. */
static bool leads_over(const struct warm *w, const struct archive *a, const struct manifest *m)
{
    int i = archive_find(a, &m->end, m->log_created_at, &m->server);
    size_t k = i < 0 ? 0 : (size_t)i;
    while (i >= 0 && k + 1 < a->count && a->list[k].number < w->place.number &&
           archive_continues(a, k))
        k++;
    return i >= 0 && k < a->count && a->list[k].number == w->place.number &&
           a->list[k].head.made.ms == w->place.made &&
           db_binlog_pos_compare(&w->upto, &m->end) >= 0;
}

/* Compares the copy with what a load of this dump and the journal after it would give. That is
 * computed without a load. */
static int warm_catch_up_compare_content(struct warm *w, const struct manifest *m, int journal,
                                         struct err *e)
{
    SCOPED(replay_free) struct replay changes = {0};
    struct warm since = {.job = w->job}; /* empty: all changes since the dump's end are read */
    progress_phase(w->job->progress, "comparing", 0, 0);
    return read_changes(&since, m, journal, &changes, e) < 0
               ? -1
               : warm_compare_content(w, m, &changes, e);
}

/* Notes the counters of a dump. AUTO_INCREMENT may be ahead of all rows, which a dump shows and the
 * journal does not. The promotion sets it. */
static int note_counters(struct warm *w, const struct manifest *m, struct err *e)
{
    for (size_t i = 0; i < w->plan.count; i++) {
        struct target *t = &w->plan.list[i];
        const struct manifest_table *mt = manifest_table(m, t->name);
        if (!mt || mt->auto_increment <= t->auto_increment)
            continue;
        t->auto_increment = mt->auto_increment;
        if (db_exec_with(w->db, "UPDATE " WARM_TABLES " SET counter=$ WHERE name=?",
                         DB_ARGS(DB_NUMBER(t->auto_increment), t->name), e) < 0)
            return -1;
    }
    return 0;
}

/* Checks whether the copy has all that a restore of the newest dump would give. Only a dump has
 * what was changed without the log, such as an index, so a copy that follows the journal may still
 * differ from the world. */
static int meet_newest(struct warm *w, const struct manifest *newest, const struct archive *a,
                       int journal, struct err *e)
{
    if (strcmp(newest->name, w->dump) == 0)
        return WARM_READY;
    if (!leads_over(w, a, newest))
        return warm_finding(w, WARM_BEHIND, "the journal does not reach dump %s", newest->name);
    int rc = warm_compare_definitions(w, newest, e);
    if (rc == WARM_READY && w->compare)
        rc = warm_catch_up_compare_content(w, newest, journal, e);
    if (rc != WARM_READY)
        return warm_disprove(w, rc, e);
    w->compared = w->compare;
    if (note_counters(w, newest, e) < 0 ||
        db_exec_with(w->db, "UPDATE " WARM_MARK " SET dump=?", DB_ARGS(newest->name), e) < 0)
        return -1;
    snprintf(w->dump, sizeof w->dump, "%s", newest->name);
    return WARM_READY;
}

/* Returns the segment that the copy has reached, or -1. */
static int segment_reached(const struct warm *w, const struct archive *a, const struct manifest *m)
{
    if (!w->place.number)
        return archive_find(a, &m->end, m->log_created_at, &m->server);
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].number == w->place.number && a->list[i].head.made.ms == w->place.made)
            return (int)i;
    return -1;
}

/* Other segments here may belong to another log. */
uint64_t warm_bytes_ahead(const struct warm *w, const struct archive *a, const struct manifest *m)
{
    int i = segment_reached(w, a, m);
    uint64_t bytes = 0;
    for (size_t k = (size_t)i; i >= 0 && k + 1 < a->count && archive_continues(a, k); k++)
        bytes = number_sum(bytes, a->list[k + 1].size);
    return bytes;
}

/* Checked before anything is read: a promotion reads at most as many bytes of further segments as
 * the newest dump has. Loading it costs less than reading and applying more than that. What is left
 * of the segment that was reached is not counted. */
static int warm_catch_up_near(struct warm *w, const struct archive *a, const struct manifest *m,
                              const struct manifest *newest)
{
    const uint64_t few = fault_limit("warm.bytes", FEW_BYTES);
    uint64_t bytes = warm_bytes_ahead(w, a, m), most = newest->bytes > few ? newest->bytes : few;
    char is[TEXT_SHORT], limit[TEXT_SHORT];
    return !w->last || bytes <= most
               ? WARM_READY
               : warm_finding(w, WARM_BEHIND,
                              "it is behind by at least %s of the journal; loading dump %s (%s) "
                              "is faster",
                              text_size(bytes, is), newest->name, text_size(newest->bytes, limit));
}

/* Checked before changes are applied: to change a row by its key takes as long as to load some
 * rows. The server takes even longer if most rows of a table change. */
static int warm_catch_up_few(struct warm *w, const struct replay *changes,
                             const struct manifest *newest)
{
    uint64_t rows = 0, most = newest->rows / ROWS_LOADED, few = fault_limit("warm.few", FEW_ROWS);
    for (size_t i = 0; i < w->plan.count; i++) {
        struct delta_figures f = {0};
        struct delta_table *d = delta_find(changes->delta, w->plan.list[i].name);
        if (d)
            delta_figures(d, &f);
        rows += f.truncated ? 0 : f.rows;
    }
    return !w->last || rows <= few || rows <= most
               ? WARM_READY
               : warm_finding(w, WARM_BEHIND,
                              "it is behind by at least %" PRIu64
                              " changed rows; loading dump %s of %" PRIu64 " rows is faster",
                              rows, newest->name, newest->rows);
}

/* Reads and applies changes. A gap ends the copy, while a load would only stop there: rows after it
 * belong to another state than those before. */
static int take_changes(struct warm *w, const struct manifest *m, const struct manifest *newest,
                        const struct archive *a, int journal, struct replay *out, struct err *e)
{
    struct err why = {0};
    int rc = warm_catch_up_near(w, a, m, newest);
    if (rc != WARM_READY)
        return rc;
    if (read_changes(w, m, journal, out, e) < 0)
        return -1;
    /* A promotion goes as far as a load would, up to the gap. Later promotions cannot continue from
     * there. */
    if (out->gap[0] && !(w->last && out->gap_is_group))
        return warm_finding(w, WARM_BROKEN, "%s", out->gap);
    if (w->place.number && !out->all_files)
        return warm_finding(w, WARM_BROKEN, "the journal has a gap after segment %" PRIu64,
                            w->place.number);
    if ((rc = warm_catch_up_few(w, out, newest)) != WARM_READY)
        return rc;
    if (warm_catch_up_apply(w, out, &why) < 0)
        return warm_disprove(w, warm_judged(w, WARM_BROKEN, &why, e), e);
    return WARM_READY;
}

int warm_catch_up(struct warm *w, const struct catalog *dumps, struct replay *out, struct err *e)
{
    const struct config *c = w->job->cfg;
    const struct catalog_entry *base = catalog_find(dumps, w->dump),
                               *newest = catalog_newest(dumps, 0);
    SCOPED(archive_free) struct archive a = {0};
    struct err why = {0};
    *out = (struct replay){0};
    if (!newest)
        return warm_finding(w, WARM_BROKEN, "this machine has no intact dump");
    /* Only the manifest of the dump is needed. */
    const struct manifest *m = base && base->m.table_count ? &base->m : &newest->m;
    if (!w->place.number && m != &base->m)
        return warm_finding(w, WARM_BROKEN, "its dump %s no longer exists here", w->dump);
    SCOPED(file_close) int journal = archive_dir(c, false, &why);
    int rc = WARM_READY;
    if (journal >= 0) {
        rc = archive_load(journal, c->name, &a, e) < 0
                 ? -1
                 : take_changes(w, m, &newest->m, &a, journal, out, e);
    } else if (w->place.number) {
        rc = warm_finding(w, WARM_BROKEN, "the journal no longer exists here");
    } else if (w->redo) {
        rc = warm_finding(w, WARM_GONE, "the journal is incomplete");
    }
    if (rc == WARM_READY && (rc = meet_newest(w, &newest->m, &a, journal, &why)) < 0)
        rc = warm_judged(w, WARM_BROKEN, &why, e);
    return rc;
}
