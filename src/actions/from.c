/* --from offsite: dumps that are stored in the store on another machine. */
#include "actions/from.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/js.h"
#include "offsite/fetch.h"
#include "offsite/manifests.h"
#include "restore/restore.h"
#include "store/lives.h"

static int open_store(struct action_context *a, const struct request *r, struct fetch *f,
                      struct err *e)
{
    *f = (struct fetch){.cfg = NULL};
    if (strcmp(r->from, "offsite") != 0)
        return err_set(e, ERR_USAGE, 0, "--from %s: allowed: offsite", r->from);
    return fetch_open(f, a->cfg, a->job.dirfd, a->job.progress, e);
}

int action_from_catalog(struct action_context *a, const struct request *r, struct catalog *out,
                        struct err *e)
{
    SCOPED(fetch_close) struct fetch f;
    return open_store(a, r, &f, e) < 0 ? -1 : fetch_catalog(&f, out, e);
}

/* Records the result, so that the off-site worker does not rely on a copy that was found damaged.
 * Files that root writes are useless to the service, so root records nothing. */
static void note_finding(struct action_context *a, const struct manifest *m, const struct err *why)
{
    struct stat dir;
    struct err late;
    bool good = why->cls == ERR_NONE;
    if ((good || why->cls == ERR_DAMAGED) && fstat(a->job.dirfd, &dir) == 0 &&
        dir.st_uid == geteuid() &&
        manifests_found(a->job.dirfd, m, good ? NULL : why->text, &late) < 0)
        action_note(a, late.text);
}

static void entry_free(struct catalog_entry *x)
{
    manifest_free(&x->m);
}

int action_from_verify(struct action_context *a, const struct request *r, json_t **result,
                       struct err *e)
{
    SCOPED(fetch_close) struct fetch f;
    size_t seen = 0, bad = 0;
    if (open_store(a, r, &f, e) < 0)
        return -1;
    json_t *list = json_array();
    *result = json_pack("{s:o}", "dumps", list);
    for (size_t i = 0; i < f.there.dump_count && !(r->dump && seen); i++) {
        SCOPED(entry_free) struct catalog_entry x = {.intact = false};
        struct err why = {0};
        const struct copy_dump *d = &f.there.dumps[i];
        if (!d->manifest || !(restore_newest(r->dump) || catalog_named(d->name, r->dump)))
            continue;
        if (fetch_manifest(&f, d, &x, e) < 0)
            return -1;
        bool whole = x.intact && fetch_verify(&f, &x.m, &why) == 0;
        if (x.intact)
            note_finding(a, &x.m, &why);
        json_array_append_new(list, json_pack("{s:s, s:b, s:o}", "name", x.m.name, "whole", whole,
                                              "reason", js_clean(x.intact ? why.text : x.reason)));
        seen++;
        bad += !whole;
    }
    if (seen == 0)
        return err_set(e, ERR_UNWELL, 0, "dump %s is not in the store",
                       r->dump ? r->dump : "at all");
    return bad ? err_set(e, ERR_UNWELL, 0, "%zu of %zu dumps are damaged", bad, seen) : 0;
}

/* Fetches the dump. A drill must test the copy in the store even if the dump is here. With
 * `beside`, the dump may arrive while it is restored. */
static int from_bring(const struct request *r, struct fetch *f, const struct catalog *here,
                      const struct manifest *m, struct fetch_beside *beside, struct err *e)
{
    const struct catalog_entry *x = catalog_find(here, m->name);
    if (!x || !x->intact)
        return beside && m->parts.count ? fetch_beside_open(f, m, beside, e) : fetch_dump(f, m, e);
    if (strcmp(x->m.sha256, m->sha256) != 0)
        return err_set(e, ERR_DAMAGED, 0,
                       "this machine has an intact dump of the same name with other contents");
    return r->action == ACTION_DRILL ? fetch_prove(f, m, e) : 0;
}

static bool is_asked(const struct copy_dump *d, const struct request *r, wall_t until)
{
    return restore_newest(r->dump) ? !until.ms || d->at.ms <= until.ms
                                   : catalog_named(d->name, r->dump);
}

/* Returns 1 if the dump is available, 0 if it is skipped, -1 on error. The store is another
 * machine's disk, so its data is verified by the manifest before it is used. */
static int from_try_one(struct action_context *a, const struct request *r, wall_t until,
                        struct action_from *from, const struct catalog *here, bool beside,
                        struct err *e)
{
    struct fetch *f = &from->fetch;
    const struct catalog_entry *x = &from->dump;
    struct err why = {0};
    if (x->intact && until.ms && restore_newest(r->dump) && x->m.at.ms + x->m.took_ms > until.ms)
        return 0;
    if (x->intact && from_bring(r, f, here, &x->m, beside ? &from->beside : NULL, &why) == 0)
        return 1;
    if (x->intact && why.cls != ERR_DAMAGED && why.num != FETCH_UNREADABLE)
        return err_pass(e, &why);
    if (x->intact)
        note_finding(a, &x->m, &why);
    if (why.num == FETCH_UNREADABLE)
        err_step(&why, "it cannot be read, although the store answers");
    SCOPED(xfree) char *note =
        xasprintf("dump %s is skipped: %s", x->m.name, x->intact ? why.text : x->reason);
    action_note(a, note);
    return 0;
}

/* Chooses the newest requested dump that is verified; each damaged or unreadable one is noted. A
 * dump of an earlier round than the newest one known here or in the store is used only by name. */
static int from_choose(struct action_context *a, const struct request *r, wall_t until,
                       struct action_from *from, const struct catalog *here, bool beside,
                       struct err *e)
{
    struct fetch *f = &from->fetch;
    const struct manifest *m = &from->dump.m;
    uint64_t round = here->round > f->round ? here->round : f->round;
    struct lives lives;
    size_t earlier = 0;
    int is = 0;
    lives_load(a->job.dirfd, &lives);
    for (size_t i = 0; is == 0 && i < f->there.dump_count; i++) {
        const struct copy_dump *d = &f->there.dumps[i];
        manifest_free(&from->dump.m);
        if (!d->manifest || !is_asked(d, r, until))
            continue;
        if (fetch_manifest(f, d, &from->dump, e) < 0)
            return -1;
        if (from->dump.intact && m->round > round)
            round = m->round;
        if (from->dump.intact && m->round < round && restore_newest(r->dump)) {
            if (earlier++ == 0)
                snprintf(from->name, sizeof from->name, "%s", m->name);
            continue;
        }
        if (from->dump.intact && restore_newest(r->dump) && !until.ms &&
            lives_abandoned(&lives, m)) {
            SCOPED(xfree) char *note = xasprintf("dump %s is skipped: it is abandoned (the record "
                                                 "of the world does not name its life)",
                                                 m->name);
            action_note(a, note);
            continue;
        }
        is = from_try_one(a, r, until, from, here, beside, e);
    }
    if (is == 0 && earlier) {
        err_set(e, ERR_NOTHING, 0,
                "no dump of the current round (%" PRIu64
                ") in %s; dumps of earlier rounds are used only if named",
                round, remote_shown(f->t.store));
        err_hint(e,
                 "to use the newest one of the previous round: worldkeeper --%s=%s --from offsite",
                 action_name(r->action), from->name);
    } else if (is == 0)
        err_set(e, ERR_NOTHING, 0, "no usable dump%s%s in %s", r->dump ? " " : "",
                r->dump ? r->dump : "", remote_shown(f->t.store));
    return is == 1 ? 0 : -1;
}

int action_from_begin(struct action_context *a, const struct request *r, wall_t until, bool beside,
                      struct action_from *from, struct err *e)
{
    SCOPED(catalog_free) struct catalog here = {0};
    struct fetch *f = &from->fetch;
    *from = (struct action_from){.name = ""};
    if (open_store(a, r, f, e) < 0 || catalog_load(a->job.dirfd, a->cfg->name, &here, e) < 0 ||
        from_choose(a, r, until, from, &here, beside, e) < 0 ||
        fetch_segments(f, &from->dump.m, e) < 0 ||
        (r->action == ACTION_RESTORE && !r->into && fetch_above(f, &a->state.generation, e) < 0))
        return -1;
    from->round = f->round > here.round ? f->round : 0;
    if (f->passed.cls != ERR_NONE)
        action_note(a, f->passed.text);
    /* If the chosen dump is the newest one here, it is restored with its journal. */
    const struct manifest *m = &from->dump.m;
    const struct catalog_entry *newest = catalog_newest(&here, 0);
    bool is = !r->dump && (!newest || manifest_compare(&newest->m, m) <= 0);
    snprintf(from->name, sizeof from->name, "%s", is ? "" : m->name);
    if (!from->beside.f)
        return 0;
    from->arriving = (struct restore_arriving){.m = &from->dump.m,
                                               .file = &from->beside.file,
                                               .settle = fetch_beside_settle,
                                               .arg = &from->beside};
    return fetch_beside_start(&from->beside, e);
}

/* Closes these in this order, because a running fetch uses the connection, and both use the
 * manifest. */
void action_from_end(struct action_from *from)
{
    fetch_beside_close(&from->beside);
    fetch_close(&from->fetch);
    manifest_free(&from->dump.m);
    *from = (struct action_from){.name = ""};
}

/* Adopts the store's manifests. A failure is only noted, because the world is restored anyway. */
void action_adopt(struct action_context *a)
{
    struct err why;
    if (manifests_adopt(a->job.dirfd, &why) < 0)
        action_note(a, why.text);
}
