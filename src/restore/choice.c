/* Chooses which dump is loaded, and decides what a failure of that load means. */
#include "restore/choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/js.h"
#include "base/line.h"
#include "mysql/job.h"
#include "restore/catchup.h"
#include "restore/code.h"
#include "restore/code_make.h"
#include "restore/fresh.h"
#include "restore/import.h"
#include "restore/import_load.h"
#include "restore/ledgers.h"
#include "restore/load.h"
#include "restore/load_pool.h"
#include "restore/permit.h"
#include "restore/plan.h"
#include "restore/redefined.h"
#include "restore/restore.h"
#include "restore/result.h"
#include "restore/running.h"
#include "restore/warm_promote.h"
#include "sql/insert.h"
#include "store/proof.h"

#define SKIPPED_MAX 20 /* skipped dumps that are named */
#define NAMED 5        /* tables and sequences that a warning names */

/* ---- loading one dump of ours ---- */

static bool is_arriving(const struct restore *r)
{
    const struct restore_arriving *a = r->opt->arriving;
    return a && strcmp(a->m->name, r->m->name) == 0;
}

/* A dry run verifies the whole file and asks the server about definitions; it loads nothing. */
static int load_planned(struct restore *r, struct err *e)
{
    struct progress *progress = r->job->progress;
    const struct manifest *m = r->m;
    if (!restore_is(r)->writes) {
        progress_phase(progress, "verifying", manifest_world_rows(m, r->job->cfg->sentinel),
                       m->file_size);
        if (verify_whole(r->file, progress, e) < 0 || load_pool_check(r, e) < 0)
            return -1;
        return r->opt->with_code ? verify_rest(r->file, code_see, &r->code, e) : 0;
    }
    if (code_judge(r, e) < 0)
        return -1;
    progress_phase(progress, "loading", r->plan.rows, 0);
    int rc = load_pool_run(r, e);
    if (rc == 0)
        rc = fresh_load(r, e);
    if (rc == 0 && is_arriving(r))
        rc = r->opt->arriving->settle(r->opt->arriving->arg, e);
    if (rc == 0)
        fault_point("restore.loaded");
    return rc;
}

/* Loads r->m. The dump is opened once, and everything is read from this open file. */
static int choice_load_own(struct restore *r, struct err *e)
{
    const struct manifest *m = r->m;
    if (restore_plan(r, e) < 0)
        return -1;
    code_free(&r->code);
    snprintf(r->out->dump, sizeof r->out->dump, "%s", m->name);
    r->out->dump_at = m->at;
    SCOPED(xfree) char *name = xasprintf("%s.sql.gz", m->name);
    r->file = is_arriving(r) ? verify_open_arriving(r->opt->arriving->file, name, m, e)
                             : verify_open(r->job->dirfd, name, m, r->job->progress, e);
    r->plan.as_dumped = r->opt->at.ms || r->plan.only;
    int rc = !r->file || plan_from_manifest(&r->plan, m, e) < 0 ||
                     permit_tables_planned(r, m->name, e) < 0 ||
                     plan_finish(&r->plan, r->db, e) < 0 || ledgers_plan(r, e) < 0 ||
                     redefined_note(r, e) < 0
                 ? -1
                 : catchup_read(r, e);
    if (rc == 0 && !restore_is(r)->partial && r->out->journal.gap[0])
        rc = err_set(e, ERR_GAP, 0, "%s", r->out->journal.gap);
    if (rc == 0)
        rc = load_planned(r, e);
    verify_close(r->file);
    r->file = NULL;
    return rc;
}

/* ---- what a failed load means ---- */

/* Returns whether the server refused the rows because of their content (duplicate keys, NULL,
 * values that do not fit, MariaDB's CHECK). Then no later attempt will work. */
static bool is_of_the_rows(const struct err *e)
{
    static const int nums[] = {1022, 1048, 1062, 1264, 1265, 1292, 1366, 1406, 1586, 4025, 0};
    return e->cls == ERR_QUERY && err_among(e, nums);
}

/* Returns whether to load the dump without the changes since. Changes that do not fit the dump are
 * left out, because only the dump is verified. Changes that the server refuses are left out if an
 * earlier load failed in that way. A drill reports the failure instead. */
static bool leads_to_dump_alone(const struct restore *r, const struct err *e)
{
    if (!restore_is(r)->dump_alone)
        return false;
    return e->cls == ERR_GAP || (is_of_the_rows(e) && r->journal.changes && r->again);
}

/* Returns whether to try an older dump. After a refused definition, only an unattended restore does
 * so, because an operator can react. A server error never leads to an older dump. */
static bool leads_to_another(const struct restore *r, const struct err *e)
{
    if (is_arriving(r) && e->cls == ERR_DAMAGED)
        return false; /* the store may have a better dump than this machine */
    return e->cls == ERR_DAMAGED || r->unloadable ||
           (restore_is(r)->unattended && plan_unfit(&r->plan));
}

/* Returns whether the failure says something about the dump. Rows inserted by column name may be
 * refused because of later changes to the table. A drill and a restore to a moment never load the
 * dump alone, so they cannot tell the dump's rows from those of the journal. */
static bool blames_rows(const struct restore *r, const struct err *e)
{
    bool never_alone = !restore_is(r)->dump_alone || r->opt->at.ms;
    for (size_t i = 0; i < r->plan.count; i++) {
        const struct target *t = &r->plan.list[i];
        if ((t->mapped && !t->skip) || (t->refused && never_alone))
            return false;
    }
    return is_of_the_rows(e);
}

/* Records the outcome for this dump, for later restores. */
static void keep_finding(struct restore *r, int rc, const struct err *e)
{
    const char *dump = r->m->name;
    struct err late;
    struct proof p;
    const char *by = r->opt->mode == RESTORE_DRILL ? "drill" : "restore";
    int dirfd = r->job->dirfd, kept = 0;
    if (!restore_is(r)->proof || (rc < 0 && is_arriving(r)))
        return;
    if (rc == 0) {
        kept = proof_intact(dirfd, dump, by, &late);
    } else if (e->cls == ERR_DAMAGED) {
        kept = proof_damaged(dirfd, dump, by, e->text, &late);
    } else if (blames_rows(r, e)) {
        kept = proof_load_failed(dirfd, dump, by, e->text, &p, &late);
        r->unloadable = kept == 0 && proof_unloadable(&p);
    }
    if (kept < 0)
        job_note(r->job, "%s", late.text);
}

/* ---- which dump ---- */

/* Returns whether the text is a path. A name without a slash is a file only if it looks like one,
 * because dumps are named without an ending. */
static bool is_path(const char *s)
{
    static const char *const endings[] = {".gz",  ".xz",  ".zst", ".bz2",
                                          ".lz4", ".zip", ".7z",  NULL};
    const char *ending = strrchr(s, '.');
    return strchr(s, '/') || (ending && ending > s && strcmp(ending, ".sql") == 0) ||
           (ending && text_among(ending, endings) && access(s, F_OK) == 0);
}

/* Returns whether the dump was not finished at the requested moment. It may then contain later
 * changes. */
static bool is_later(const struct restore *r, const struct manifest *m)
{
    return r->opt->at.ms && m->at.ms + m->took_ms > r->opt->at.ms;
}

/* Lists a skipped dump. After a change of the key hundreds may be skipped: only the first
 * SKIPPED_MAX are named in the log and the result. */
static void choice_skipped(struct restore *r, const char *dump, const char *reason)
{
    if (json_array_size(r->out->skipped) == SKIPPED_MAX) {
        if (!r->skipped_more)
            job_note(r->job,
                     "more dumps are skipped and not listed; worldkeeper --verify lists all");
        r->skipped_more = true;
        return;
    }
    json_array_append_new(r->out->skipped,
                          json_pack("{s:s, s:o}", "dump", dump, "reason", js_clean(reason)));
    job_note(r->job, "dump %s skipped: %s", dump, reason);
}

/* Reports what was examined, and what the operator can do now. */
static int nothing_intact(const struct restore *r, struct err *e)
{
    const json_t *first = json_array_get(r->out->skipped, 0);
    char t[TEXT_SHORT];
    size_t oldest = r->catalog.count;
    while (oldest > 1 && r->catalog.list[oldest - 1].earlier)
        oldest--;
    if (r->opt->at.ms && !first && r->catalog.count) {
        err_set(e, ERR_NOTHING, 0, "world %s has no dump%s from before %s", r->job->cfg->name,
                oldest < r->catalog.count ? "'s current round" : "", text_utc(r->opt->at, t));
        return err_hint(e, "the oldest one%s is %s",
                        oldest < r->catalog.count ? " of this round" : "",
                        r->catalog.list[oldest - 1].m.name);
    }
    err_set(e, ERR_NOTHING, 0, "no dump of world %s in %s can be restored (%zu examined%s%s%s%s)",
            r->job->cfg->name, r->job->cfg->dump_dir, r->catalog.count, first ? "; " : "",
            js_text(first, "dump"), first ? ": " : "", js_text(first, "reason"));
    return err_hint(e, "worldkeeper %s; to restore a file of mysqldump: worldkeeper --restore=PATH",
                    r->catalog.count ? "--verify shows what is wrong with each"
                                     : "--dump takes one of a living world");
}

/* Fails because the current round has no usable dump. `damaged` counts its dumps that cannot be
 * used. */
static int only_earlier(const struct restore *r, size_t damaged, struct err *e)
{
    const struct catalog_entry *newest = NULL;
    for (size_t i = 0; i < r->catalog.count && !newest; i++)
        if (r->catalog.list[i].earlier && r->catalog.list[i].intact)
            newest = &r->catalog.list[i];
    if (!newest)
        return nothing_intact(r, e);
    err_set(e, ERR_NOTHING, 0,
            "no %sdump of the current round (%" PRIu64 ") of world %s in %s; dumps of earlier "
            "rounds are restored only by name",
            damaged ? "intact " : "", r->catalog.round, r->job->cfg->name, r->job->cfg->dump_dir);
    return err_hint(e,
                    "to use the newest one of the previous round: worldkeeper --restore=%s; "
                    "worldkeeper --list shows all",
                    newest->m.name);
}

/* Returns whether the lost world was made of this dump, which an operator had named. The dump is
 * then the world's own past, whatever its round. */
static bool is_origin(const struct restore *r, const struct catalog_entry *c)
{
    const struct state *s = r->opt->state;
    return s && s->known && c->intact && strcmp(s->made.nonce, s->nonce) == 0 &&
           strcmp(s->made.dump, c->m.name) == 0;
}

/* Loads the dump with the changes since, or alone if they do not fit it. */
static int load_with_changes(struct restore *r, struct err *e)
{
    r->dump_alone = false;
    memset(&r->out->journal, 0, sizeof r->out->journal); /* of a dump that was tried before */
    int rc = choice_load_own(r, e);
    if (rc == 0 || !leads_to_dump_alone(r, e))
        return rc;
    struct err why = *e;
    job_note(r->job, "%s", why.text);
    plan_drop(&r->plan, r->db);
    r->dump_alone = true;
    line_set(r->out->journal.gap, sizeof r->out->journal.gap, "%s", why.text);
    return choice_load_own(r, e);
}

/* Tries the newest intact dump, then older ones. If none can be restored, a refusal of the first
 * undamaged one is reported. */
static int load_newest(struct restore *r, struct err *e)
{
    struct err refused = {0};
    unsigned skip = r->opt->skip;
    size_t earlier = 0, later = 0;
    for (size_t i = 0; i < r->catalog.count; i++) {
        const struct catalog_entry *c = &r->catalog.list[i];
        if (c->earlier && !is_origin(r, c)) {
            earlier++;
            continue;
        }
        if (!c->intact) {
            choice_skipped(r, c->m.name, c->reason);
            continue;
        }
        /* --at may mean a moment that a restore has discarded, so abandoned dumps count for it. */
        if (c->abandoned && !r->opt->at.ms) {
            choice_skipped(r, c->m.name,
                           "it is abandoned (the record of the world does not name its life)");
            continue;
        }
        if (is_later(r, &c->m)) {
            later++;
            continue;
        }
        if (skip) {
            skip--;
            choice_skipped(r, c->m.name, "two restores of it made no progress");
            continue;
        }
        fault_point("restore.chosen");
        r->m = &c->m;
        /* Stays set for older dumps, because the rows that the server refuses are then in the
         * journal. */
        r->again |= c->proof.failures > 0;
        r->unloadable = false;
        int rc = load_with_changes(r, e);
        keep_finding(r, rc, e);
        if (rc == 0)
            return 0;
        if (!leads_to_another(r, e))
            return -1;
        if (e->cls != ERR_DAMAGED && refused.cls == ERR_NONE)
            refused = *e;
        plan_drop(&r->plan, r->db);
        choice_skipped(r, c->m.name, e->text);
    }
    if (refused.cls != ERR_NONE)
        return err_pass(e, &refused);
    return earlier && !later ? only_earlier(r, r->catalog.count - earlier, e)
                             : nothing_intact(r, e);
}

/* Finds the dump that was named. Fails with ERR_NOTHING if it does not exist or is not intact. A
 * dump that only failed to load can be tried again by name. */
static int find_named(struct restore *r, struct err *e)
{
    const char *name = r->opt->dump;
    const struct catalog_entry *c = catalog_find(&r->catalog, name);
    char t[TEXT_SHORT];
    if (!c) {
        err_set(e, ERR_NOTHING, 0, "dump %s is not in %s", name, r->job->cfg->dump_dir);
        return err_hint(e, "worldkeeper --list shows all dumps; a path must contain a /");
    }
    r->m = &c->m;
    if (r->opt->at.ms && r->m->at.ms > r->opt->at.ms) {
        err_set(e, ERR_REFUSED, 0, "dump %s is newer than --at: %s", c->m.name,
                text_utc(c->m.at, t));
        return err_hint(e, CATCHUP_BY_MOMENT);
    }
    if (c->intact || (c->damaged && proof_unloadable(&c->proof)))
        return 0;
    err_set(e, ERR_NOTHING, 0, "dump %s is not intact: %s", name, c->reason);
    if (c->damaged)
        err_hint(e, "to read it again: worldkeeper --verify=%s", c->m.name);
    return -1;
}

/* Loads the dump that was named (choice_find()). No other dump is tried, because the operator chose
 * this one. */
static int load_named(struct restore *r, struct err *e)
{
    fault_point("restore.chosen");
    int rc = choice_load_own(r, e);
    keep_finding(r, rc, e);
    if (rc < 0 && e->cls == ERR_DAMAGED && !is_arriving(r))
        e->cls = ERR_NOTHING; /* the dump was named: no other is tried */
    return rc;
}

/* ---- a file of another tool ---- */

/* Loads the file's statements in their order on one connection. */
static int load_statements(struct restore *r, const struct import *in,
                           const struct import_report *report, struct err *e)
{
    _Atomic uint64_t rows = 0;
    struct loader l = {.s = {.db = r->db, .plan = &r->plan}, .rows = &rows};
    progress_phase(r->job->progress, "loading", 0, 0);
    if (code_judge(r, e) < 0)
        return -1;
    int rc = loader_begin(&l, e);
    if (rc == 0)
        rc = import_load(in, report, &l, &r->code, e);
    if (rc == 0) {
        fault_point("restore.loaded");
        progress_phase(r->job->progress, "checking", 0, 0);
    }
    const struct target *doubtful = NULL;
    for (size_t i = 0; i < r->plan.count && rc == 0; i++) {
        const struct target *t = &r->plan.list[i];
        progress_table(r->job->progress, t->name);
        rc = loader_check(&l, t, false, e);
        doubtful = t->warnings ? t : doubtful;
    }
    if (rc == 0 && doubtful)
        result_warn(r->out, "the server gave %" PRIu64 " warnings while loading table %s",
                    doubtful->warnings, doubtful->name);
    loader_end(&l);
    r->out->connections = 1;
    return rc;
}

/* Checks that the file is complete. If it was concatenated from several files, each part has a
 * closing line. */
static int judge_end(struct restore *r, const struct import_report *report, struct err *e)
{
    const char *path = r->opt->dump;
    if (report->ends)
        return 0;
    if (!r->opt->accept_cut) {
        err_set(e, ERR_REFUSED, 0,
                "%s lacks a closing \"-- Dump completed\" line: it may be cut short", path);
        return err_hint(e,
                        "check its end (its last statement begins in line %" PRIu64
                        "), and that of each part if it is several files in one; --accept-cut "
                        "restores what the file has",
                        report->last_line);
    }
    char shown[300];
    line_set(shown, sizeof shown, "%s", path);
    if (report->cut_line)
        result_warn(r->out,
                    "%s ends within the statement of line %" PRIu64
                    ": this statement and all later ones are missing",
                    shown, report->cut_line);
    else
        result_warn(r->out,
                    "%s has no closing line: all its statements up to line %" PRIu64
                    " were executed; it is unknown whether more followed",
                    shown, report->last_line);
    return 0;
}

/* Warns of tables that the file lacks, because after a loss the world lacks their rows too, and of
 * sequences that are not restored. */
static void warn_of_others(struct restore *r, const struct import_report *report)
{
    SCOPED(buf_free) struct buf tables = {0}, sequences = {0};
    const struct names *lacks = &r->plan.not_in_dump, *made = &report->sequences;
    for (size_t i = 0; i < lacks->count && i < NAMED; i++) {
        buf_adds(&tables, i ? ", " : "");
        text_clean(&tables, lacks->list[i], 64);
    }
    for (size_t i = 0; i < made->count && i < NAMED; i++) {
        buf_adds(&sequences, i ? ", " : "");
        text_clean(&sequences, made->list[i], 64);
    }
    if (lacks->count && restore_is(r)->world)
        result_warn(r->out,
                    "%zu of the world's MEMORY tables are not in the file and stay unchanged: %s%s",
                    lacks->count, tables.p, lacks->count > NAMED ? ", …" : "");
    if (made->count)
        result_warn(r->out, "sequences in the file are not restored: %s%s", sequences.p,
                    made->count > NAMED ? ", …" : "");
}

/* Loads a file of another tool. A living world is dumped only after the file has been checked. */
static int load_file(struct restore *r, struct err *e)
{
    const char *path = r->opt->dump;
    SCOPED(import_report_free) struct import_report report = {0};
    struct import in = {.fd = r->path_fd,
                        .name = path,
                        .charset = r->opt->charset,
                        .accept_cut = r->opt->accept_cut};
    fault_point("restore.chosen");
    progress_phase(r->job->progress, "reading", 0, 0);
    if (import_server(r->db, &in.server, e) < 0 || restore_plan(r, e) < 0)
        return -1;
    struct code *listed = !restore_is(r)->writes && r->opt->with_code ? &r->code : NULL;
    if (import_plan(&in, &r->plan, listed, &report, e) < 0 ||
        permit_tables_planned(r, path, e) < 0 || plan_finish(&r->plan, r->db, e) < 0 ||
        ledgers_plan(r, e) < 0 || judge_end(r, &report, e) < 0 || permit_keep(r, e) < 0 ||
        redefined_note(r, e) < 0)
        return -1;
    warn_of_others(r, &report);
    snprintf(r->out->dump, sizeof r->out->dump, "%s", path);
    return restore_is(r)->writes ? load_statements(r, &in, &report, e) : 0;
}

/* Finds the dump before --force dumps the living world. Otherwise retention could then delete the
 * dump that was named. */
int choice_find(struct restore *r, struct err *e)
{
    const char *d = r->opt->dump;
    const char *charset = r->opt->charset;
    bool newest = restore_newest(d), path = !newest && is_path(d);
    if (charset && !path)
        return err_set(e, ERR_USAGE, 0,
                       "--charset is only for files of other tools: --restore=PATH");
    if (newest && !r->catalog.count)
        return nothing_intact(r, e);
    if (!path && permit_tables_known(r, e) < 0)
        return -1;
    if (!path)
        return newest ? 0 : find_named(r, e);
    if (r->opt->at.ms)
        return err_set(e, ERR_USAGE, 0,
                       "--at needs a dump of worldkeeper; %s has no binlog position", d);
    if (charset && !sql_charset_safe(charset, strlen(charset)))
        return err_set(e, ERR_USAGE, 0,
                       "--charset \"%s\" is not a character set that can be read safely", charset);
    r->path_fd = file_open_path(d, e);
    return r->path_fd < 0 ? -1 : 0;
}

/* Loads a file of another tool as it is, or one of our own dumps: the named one, else the newest
 * intact one. */
int choice_load(struct restore *r, struct err *e)
{
    if (r->path_fd >= 0)
        return load_file(r, e);
    if (permit_keep(r, e) < 0)
        return -1;
    if (r->opt->mode == RESTORE_PROMOTION && r->job->cfg->standby.warm && warm_take(r))
        return 0;
    return restore_newest(r->opt->dump) ? load_newest(r, e) : load_named(r, e);
}
