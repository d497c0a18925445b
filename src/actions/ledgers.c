/* --rollup, and the tables and views that --init creates for ledgers. */
#include "actions/ledgers.h"

#include <string.h>

#include "actions/request.h"
#include "base/fence.h"
#include "base/js.h"
#include "ledger/keep.h"
#include "ledger/verify.h"
#include "offsite/fetch_ledgers.h"
#include "store/signature.h"

#define LOCK_WAIT_MS 60000 /* for manual runs; the supervisor retries later */

/* Creates what ledgers need, and sets rollup positions. From then on the age of rows is known, so
 * the first rollup need not wait for it. */
int action_init_ledgers(struct action_context *a, json_t **made, json_t **skipped, struct err *e)
{
    json_t *list = *made = json_array();
    *skipped = json_array();
    const struct config *c = a->cfg;
    struct db *db = c->ledger_count ? action_connect_world(a, e) : NULL;
    int rc = c->ledger_count && !db ? -1 : 0;
    for (unsigned i = 0; i < c->ledger_count && rc == 0; i++) {
        struct ledger l;
        rc = ledger_open(db, c->schema, &c->ledgers[i], &l, e);
        if (rc < 0 && db_table_missing(e)) { /* a new machine, before its restore */
            SCOPED(xfree) char *text =
                xasprintf("%s; a restore recreates it if it is in the dump; otherwise use CREATE "
                          "TABLE, then worldkeeper --init",
                          e->text);
            action_note(a, text);
            json_array_append_new(*skipped, json_string(c->ledgers[i].name));
            rc = 0;
            continue;
        }
        if (rc == 0)
            rc = ledger_init(db, &l, list, e);
        if (rc == 0)
            rc = ledger_mark(db, &l, e);
        ledger_close(&l);
    }
    db_close(db);
    return rc;
}

/* Reads what this world's marker rows say of files, over a connection of its own: none stays open
 * while files are fetched. */
static int read_filed(struct action_context *a, const struct config_ledger *c,
                      struct ledger_filed *out, struct err *e)
{
    struct ledger l = {0};
    struct db *db = action_connect_world(a, e);
    int rc = db ? ledger_open(db, a->cfg->schema, c, &l, e) : -1;
    *out = (struct ledger_filed){0};
    if (rc == 0 && l.made)
        rc = ledger_filed(db, &l, out, e);
    ledger_close(&l);
    db_close(db);
    return rc;
}

/* An interrupted run has written rows to a file that they are rolled up from. If another machine
 * wrote it, it is fetched: otherwise these rows would be written to a second file. A file that is
 * not in the store either was lost with its machine. A slow store must not block the ledger, so the
 * ledger's lock is not held yet. */
static int fetch_open_files(struct action_context *a, const struct config_ledger *c,
                            struct ledger_filed *seen, struct err *e)
{
    SCOPED(fetch_close) struct fetch f = {0};
    json_auto_t *unknown = json_array();
    struct err why = {0};
    /* A table that cannot be read now is reported by the run itself. */
    if (read_filed(a, c, seen, &why) < 0)
        return 0;
    struct fetch_ledgers l = {.of = c, .marks = *seen, .unknown = unknown};
    int lacks = ledger_lacks_files(seen, c->name, a->job.dirfd, &l.from, e);
    if (lacks <= 0)
        return lacks;
    if (signature_open(a->cfg, &why) < 0 ||
        fetch_open(&f, a->cfg, a->job.dirfd, a->job.progress, &why) < 0 ||
        fetch_ledgers(&f, &l, &why) < 0) {
        if (lacks == LEDGER_LACKS_ASIDE) /* no row depends on it: the next run tries again */
            return 0;
        err_pass(e, &why);
        return err_step(e, "an interrupted run wrote files that may be in the store");
    }
    if (!l.failed[0] || lacks == LEDGER_LACKS_ASIDE)
        return 0;
    err_set(e, ERR_REFUSED, 0, "%s", json_string_value(json_array_get(unknown, 0)));
    return err_hint(e,
                    "some of its rows are in totals already; if the store has no good copy of it, "
                    "delete the files %s/ledgers/%s.* there; then run worldkeeper --rollup=%s, "
                    "which writes its remaining rows to a new file",
                    a->cfg->name, l.failed, c->name);
}

/* Returns 0 if no other run has written files since the store was asked. */
static int same_files(struct action_context *a, struct db *db, const struct ledger *l,
                      const struct ledger_filed *seen, struct err *e)
{
    struct ledger_filed now;
    uint64_t from;
    if (ledger_filed(db, l, &now, e) < 0)
        return -1;
    int lacks = now.file == seen->file && now.filed == seen->filed
                    ? 0
                    : ledger_lacks_files(&now, l->cfg->name, a->job.dirfd, &from, e);
    if (lacks != LEDGER_LACKS_OPEN)
        return lacks < 0 ? -1 : 0;
    return err_set(e, ERR_BUSY, 0,
                   "[ledger %s]: files of another run may be in the store; try again",
                   l->cfg->name);
}

/* Sets the rollup position first: with rollup_after = 0, rows up to this position are old
 * enough. */
static int ledgers_work(struct db *db, struct ledger *l, const struct ledger_options *opt,
                        struct ledger_report *out, struct err *e)
{
    bool changes = !opt || !opt->dry_run;
    if (!l->made && opt)
        return ledger_rollup(db, l, opt, &out->result, e); /* it names what is missing */
    if (l->made && changes && ledger_mark(db, l, e) < 0)
        return -1;
    if (opt && ledger_rollup(db, l, opt, &out->result, e) < 0)
        return -1;
    return l->made ? ledger_figures(db, l, &out->figures, e) : 0;
}

/* Processes one ledger. *out receives any error, and the supervisor's worker sends it. */
int action_ledger(struct action_context *a, const struct config_ledger *c, int64_t wait,
                  const struct ledger_options *opt, struct ledger_report *out)
{
    struct err *e = &out->error;
    struct ledger l = {0};
    mono_t began = clock_mono();
    struct ledger_options in = opt ? *opt : (struct ledger_options){0};
    *out = (struct ledger_report){.ran = opt != NULL};
    in.dirfd = a->job.dirfd;
    in.cfg = a->cfg;
    struct ledger_filed seen = {0};
    bool fetches = c->keep && opt && !opt->dry_run && a->cfg->offsite.url;
    int rc = fetches ? fetch_open_files(a, c, &seen, e) : 0;
    struct db *db = rc == 0 ? action_connect_world(a, e) : NULL;
    rc = db ? ledger_lock(db, a->cfg->schema, c->name, wait, e) : -1;
    if (rc == 0)
        rc = action_check_world(a, db, e);
    out->postponed = (db && rc < 0) || e->cls == ERR_BUSY;
    if (rc == 0)
        rc = ledger_open(db, a->cfg->schema, c, &l, e);
    if (rc == 0 && (c->keep || c->request)) /* what expires is judged by signed manifests */
        rc = signature_open(a->cfg, e) < 0 ? -1 : 0;
    if (rc == 0 && fetches && l.made && (rc = same_files(a, db, &l, &seen, e)) < 0)
        out->postponed = e->cls == ERR_BUSY;
    if (rc == 0)
        rc = ledgers_work(db, &l, opt ? &in : NULL, out, e);
    out->made = l.made;
    ledger_close(&l);
    db_close(db);
    out->postponed |= rc < 0 && !fence_open(); /* the loss of the lease is reported by itself */
    out->ok = rc == 0;
    out->took_ms = mono_since(clock_mono(), began);
    return rc;
}

/* Adds one entry per ledger to the result. It includes the error, because the other ledgers
 * continue. */
static int roll_up(struct action_context *a, const struct config_ledger *c,
                   const struct ledger_options *opt, json_t *list, struct err *e)
{
    struct ledger_report out;
    const struct ledger_result *res = &out.result;
    int rc = action_ledger(a, c, LOCK_WAIT_MS, opt, &out);
    json_t *o = json_pack("{s:s, s:b}", "name", c->name, "ok", rc == 0);
    *e = out.error;
    if (rc == 0)
        json_object_update_new(
            o, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "rows", (json_int_t)out.figures.rows,
                         "rolled_up", (json_int_t)res->rolled_up, "keys",
                         (json_int_t)out.figures.keys, "late", (json_int_t)res->late, "ignored",
                         (json_int_t)res->ignored, "kept", (json_int_t)res->kept));
    else
        js_set_clean(o, "error", e->text);
    json_array_append_new(list, o);
    return rc;
}

/* Fetches files that other machines wrote, before the ledger's lock is taken: a restore waits for
 * that. `unknown` receives what was not seen. A file after the last one that counts was written by
 * a life of the world that ended: if it were here, the next run would have to set it aside. */
static int verify_fetch(struct action_context *a, const struct config_ledger *c, json_t *unknown)
{
    SCOPED(fetch_close) struct fetch f = {0};
    struct err why = {0};
    struct fetch_ledgers l = {.of = c, .unknown = unknown};
    if (!a->cfg->offsite.url)
        return 0;
    if (signature_open(a->cfg, &why) == 0 && read_filed(a, c, &l.marks, &why) == 0 &&
        fetch_open(&f, a->cfg, a->job.dirfd, a->job.progress, &why) == 0 &&
        fetch_ledgers(&f, &l, &why) == 0)
        return l.fetched;
    SCOPED(xfree) char *text =
        xasprintf("files that other machines wrote were not fetched from the store: %s", why.text);
    json_array_append_new(unknown, js_clean(text));
    return l.fetched;
}

/* Compares totals and ledger under the same lock as a rollup, because they disagree between two
 * steps of a rollup. */
static int ledgers_verify(struct action_context *a, const struct config_ledger *c, json_t *list,
                          struct err *e)
{
    struct ledger l = {0};
    struct ledger_verified v = {0};
    json_auto_t *unseen = json_array();
    int fetched = verify_fetch(a, c, unseen);
    struct db *db = action_connect_world(a, e);
    int rc = db ? ledger_lock(db, a->cfg->schema, c->name, LOCK_WAIT_MS, e) : -1;
    if (rc == 0)
        rc = action_check_world(a, db, e);
    if (rc == 0)
        rc = ledger_open(db, a->cfg->schema, c, &l, e);
    if (rc == 0 && !l.made)
        rc = ledger_not_made(&l, e);
    if (rc == 0)
        rc = ledger_verify(db, &l, a->job.dirfd, &v, e);
    if (rc == 0)
        json_array_extend(v.unknown, unseen);
    size_t problems = json_array_size(v.problems);
    json_t *o = json_pack("{s:s, s:b}", "name", c->name, "ok", rc == 0 && problems == 0);
    if (rc == 0)
        json_object_update_new(
            o, json_pack("{s:I, s:I, s:I, s:I, s:I, s:i, s:O, s:O}", "rows", (json_int_t)v.rows,
                         "rolled_up", (json_int_t)v.rolled_up, "keys", (json_int_t)v.keys, "files",
                         (json_int_t)v.files, "file_rows", (json_int_t)v.file_rows, "fetched",
                         fetched, "problems", v.problems, "unknown", v.unknown));
    else
        js_set_clean(o, "error", e->text);
    if (rc == 0 && problems)
        rc = err_set(e, ERR_UNWELL, 0, "[ledger %s]: totals, files and ledger differ: %s", c->name,
                     json_string_value(json_array_get(v.problems, 0)));
    json_array_append_new(list, o);
    ledger_verified_free(&v);
    ledger_close(&l);
    db_close(db);
    return rc;
}

/* Tries all ledgers. The first failure becomes the result's error. */
int action_rollup(struct action_context *a, const struct request *r, json_t **result, struct err *e)
{
    const struct config *c = a->cfg;
    struct ledger_options opt = {.dry_run = r->dry_run, .until = -1};
    wall_t until, now = clock_wall();
    unsigned seen = 0;
    int rc = 0;
    if (r->until) {
        if (text_time_parse(r->until, now, &until) < 0 || until.ms > now.ms)
            return err_set(e, ERR_USAGE, 0, "--until \"%s\" is not a time in the past", r->until);
        opt.until = until.ms / 1000 * 1000 + 999;
    }
    if (r->verify && (r->until || r->dry_run))
        return err_set(e, ERR_USAGE, 0,
                       "--verify cannot be combined with --%s, because it changes nothing",
                       r->until ? "until" : "dry-run");
    json_t *list = json_array();
    for (unsigned i = 0; i < c->ledger_count; i++) {
        if (r->dump && strcmp(r->dump, c->ledgers[i].name) != 0)
            continue;
        struct err why = {0};
        seen++;
        int done = r->verify ? ledgers_verify(a, &c->ledgers[i], list, &why)
                             : roll_up(a, &c->ledgers[i], &opt, list, &why);
        if (done < 0 && rc == 0) {
            *e = why;
            rc = -1;
        }
    }
    *result =
        json_pack("{s:o, s:b, s:b}", "ledgers", list, "dry_run", r->dry_run, "verify", r->verify);
    if (seen)
        return rc;
    if (r->dump)
        err_set(e, ERR_USAGE, 0, "%s has no [ledger %s]", c->path, r->dump);
    else
        err_set(e, ERR_USAGE, 0, "%s has no [ledger NAME]", c->path);
    return -1;
}
