#include "setup/from_cron.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "actions/worlds.h"
#include "setup/admin.h"
#include "setup/scripts.h"
#include "setup/talk.h"
#include "setup/world.h"

/* ---- the configs ---- */

struct seen {
    struct names paths;
    struct names *before; /* paths to ignore; NULL: none */
    struct names worlds, schemas;
};

static bool from_cron_has(const struct names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->list[i], name) == 0)
            return true;
    return false;
}

static void from_cron_see(void *arg, const char *path, const struct config *cfg,
                          const struct err *why)
{
    struct seen *x = arg;
    (void)why;
    names_add(&x->paths, path);
    if (cfg && x->before && !from_cron_has(x->before, path)) {
        names_add(&x->worlds, cfg->name);
        names_add(&x->schemas, cfg->schema);
    }
}

static void seen_free(struct seen *x)
{
    names_free(&x->paths);
    names_free(&x->worlds);
    names_free(&x->schemas);
}

static void from_cron_look(struct setup *s, struct seen *x)
{
    struct err none; /* there may be no directory yet */
    SCOPED(xfree) char *dir = setup_path(s, "/etc/worldkeeper");
    worlds_each(dir, from_cron_see, x, &none);
}

/* Runs migrate.sh. A dry run shows what the script would write. */
static int from_cron_migrate(struct setup *s, struct err *e)
{
    char script[PATH_LONGEST];
    const char *argv[16];
    size_t n = 0;
    if (scripts_migrate_path(script, e) < 0)
        return -1;
    argv[n++] = script;
    argv[n++] = "--for-setup";
    argv[n++] = "--root";
    argv[n++] = s->root;
    argv[n++] = "--owner";
    argv[n++] = s->service_user;
    if (s->name) {
        argv[n++] = "--name";
        argv[n++] = s->name;
    }
    if (s->socket) {
        argv[n++] = "--socket";
        argv[n++] = s->socket;
    }
    if (s->x.dry)
        argv[n++] = "--dry-run";
    argv[n++] = s->from_cron;
    argv[n] = NULL;
    bool dry = s->x.dry;
    s->x.dry = false; /* the script also runs in a dry run */
    int rc = effect_run(&s->x, argv, e);
    s->x.dry = dry;
    if (rc <= 0)
        return rc;
    err_set(e, ERR_SYSTEM, 0, "not every script in %s became a config, as said above",
            s->from_cron);
    return err_hint(e, "where a config is there already: remove the lines of cron that start the "
                       "scripts; then worldkeeper-setup, without --from-cron, continues with it");
}

static struct survey_schema *from_cron_find(const struct setup *s, const char *schema)
{
    for (size_t i = 0; i < s->survey.count; i++)
        if (setup_same_schema(s, s->survey.list[i].name, schema))
            return &s->survey.list[i];
    return NULL;
}

/* Sets up all these worlds. A failure of one does not stop the others; the first failure is the
 * result. */
static int set_up_all(struct setup *s, const struct seen *x, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < x->schemas.count; i++) {
        struct survey_schema *schema = from_cron_find(s, x->schemas.list[i]);
        if (schema)
            schema->chosen = true;
    }
    for (size_t i = 0; i < x->worlds.count; i++) {
        struct err why = {0};
        const struct survey_schema *schema = from_cron_find(s, x->schemas.list[i]);
        s->name = x->worlds.list[i];
        int done = schema ? setup_world(s, schema, &why)
                          : err_set(&why, ERR_REFUSED, 0,
                                    "schema %s of world %s has no MEMORY tables, or is not on this "
                                    "server",
                                    x->schemas.list[i], x->worlds.list[i]);
        if (done < 0 && rc == 0)
            rc = err_pass(e, &why);
    }
    return rc;
}

/* Records each new config, also one that cannot be loaded. */
static int note_new(struct setup *s, const struct seen *after, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < after->paths.count; i++) {
        struct err why = {0};
        if (!from_cron_has(after->before, after->paths.list[i]) &&
            scripts_note(s, after->paths.list[i], &why) < 0 && rc == 0)
            rc = err_pass(e, &why);
    }
    return rc;
}

static int take_over_all(struct setup *s, struct err *e)
{
    SCOPED(seen_free) struct seen before = {0}, after = {.before = &before.paths};
    from_cron_look(s, &before);
    int migrated = from_cron_migrate(s, e);
    if (s->dry) {
        if (migrated == 0)
            talk_say("Each of these worlds would then be set up with the config that was written "
                     "for it.\n");
        return migrated;
    }
    from_cron_look(s, &after);
    struct err why = {0};
    if (note_new(s, &after, &why) < 0 && migrated == 0)
        migrated = err_pass(e, &why);
    if (migrated < 0)
        return -1;
    s->taken_over = &after.schemas;
    int rc = set_up_all(s, &after, e);
    s->name = NULL; /* they point to local data */
    s->taken_over = NULL;
    return rc;
}

int from_cron_take_over(struct setup *s, struct err *e)
{
    const char *typed = s->from_cron;
    SCOPED(xfree) char *dir = realpath(typed, NULL); /* the record keeps it for later runs */
    if (!dir)
        return err_sys(e, errno, "cannot find directory %s", typed);
    if (!text_utf8_valid(dir, strlen(dir)))
        return err_set(e, ERR_REFUSED, 0, "the path of directory %s is not UTF-8", dir);
    s->from_cron = dir;
    int rc = take_over_all(s, e);
    s->from_cron = typed;
    return rc;
}
