#include "actions/worlds.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/action.h"
#include "actions/context.h"
#include "actions/control.h"
#include "actions/hint_command.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/js.h"

/* Largest status in bytes that is read: far more than any status has, but harmless. */
#define PUBLISHED_MAX (1u << 20)
#define CONFIG_END ".ini"

/* ---- configs ---- */

static int is_config(const struct dirent *d)
{
    size_t len = strlen(d->d_name), end = strlen(CONFIG_END);
    return d->d_name[0] != '.' && len > end && strcmp(d->d_name + len - end, CONFIG_END) == 0;
}

int worlds_each(const char *dir,
                void (*see)(void *arg, const char *path, const struct config *cfg,
                            const struct err *why),
                void *arg, struct err *e)
{
    struct dirent **list;
    int n = scandir(dir, &list, is_config, alphasort);
    if (n < 0)
        return err_sys(e, errno, "cannot list %s", dir);
    for (int i = 0; i < n; i++) {
        struct config *cfg = NULL;
        struct err why = {0};
        SCOPED(xfree) char *path = xasprintf("%s/%s", dir, list[i]->d_name);
        config_load(path, &cfg, &why);
        see(arg, path, cfg, &why);
        config_free(cfg);
        free(list[i]);
    }
    free(list);
    return 0;
}

/* ---- one world ---- */

json_t *worlds_published(const struct config *cfg)
{
    SCOPED(buf_free) struct buf b = {0};
    SCOPED(file_close) int fd =
        cfg->status_dir && cfg->json_file ? file_dir(cfg->status_dir, FILE_PUBLIC, 0, NULL) : -1;
    return fd >= 0 && file_read_public(fd, cfg->json_file, PUBLISHED_MAX, &b, NULL) == 0
               ? json_loadb(b.p, b.len, 0, NULL)
               : NULL;
}

/* Reads the published status. It is used only until its valid_until, because after that no
 * supervisor updates it. */
static int actions_worlds_published(const struct config *cfg, json_t **status)
{
    json_t *o = worlds_published(cfg);
    bool valid = strcmp(js_text(o, "world"), cfg->name) == 0 &&
                 js_number(o, "valid_until_unix", 0) > clock_wall().ms / 1000;
    if (!valid)
        json_decref(o);
    *status = valid ? o : NULL;
    return valid ? 0 : -1;
}

/* Asks for the status. A user without access to the dump directory gets the published status. */
int worlds_ask(const struct config *cfg, int patience, json_t **status, struct err *e)
{
    struct action_context a = {.cfg = cfg, .job.dirfd = -1};
    struct request r = {.action = ACTION_STATUS};
    *status = NULL;
    /* Without a dump directory there is no lock file, but control_ask() can use the config's
     * socket. */
    bool somebody = access(cfg->dump_dir, F_OK) == 0 || errno != ENOENT;
    if (somebody && action_open(&a, cfg, false, e) < 0)
        return e->num == EACCES ? actions_worlds_published(cfg, status) : -1;
    a.patience = patience;
    int rc = control_ask(&a, &r, status, e);
    if (rc < 0 && e->cls == ERR_UNREACHABLE)
        e->cls = ERR_UNWELL;
    action_close(&a);
    return rc;
}

/* Sets the exit status of --status, on which monitoring depends. */
int worlds_judge(const json_t *status, struct err *e)
{
    const char *state = js_text(status, "state");
    size_t open = json_array_size(json_object_get(status, "troubles"));
    if (strcmp(state, "UP") != 0)
        return err_set(e, ERR_UNWELL, 0, "%s",
                       strcmp(state, "PAUSED") == 0 ? "the supervisor is paused"
                                                    : "the world is not up");
    if (js_flag(status, "stale"))
        return err_set(e, ERR_CONDITION, 0, "the world is up; the last verified dump is too old");
    if (open)
        return err_set(e, ERR_CONDITION, 0, "the world is up, with %zu open condition%s", open,
                       open == 1 ? "" : "s");
    return 0;
}

/* ---- all worlds ---- */

#define IMPATIENT 1 /* second per world after CONTROL_PATIENCE is used up */

struct survey {
    json_t *list;
    unsigned down, open;
    int64_t waited_ms; /* for worlds without an answer */
};

/* Asks the next world. The limits ensure that a monitoring tool gets an answer even if many
 * supervisors hang. */
static int ask_next(struct survey *s, const struct config *cfg, json_t **status, struct err *e)
{
    int64_t left = CONTROL_PATIENCE - s->waited_ms / 1000;
    mono_t began = clock_mono();
    int rc = worlds_ask(cfg, left > IMPATIENT ? (int)left : IMPATIENT, status, e);
    if (rc < 0)
        s->waited_ms += mono_since(clock_mono(), began);
    return rc;
}

/* Returns the entry of a world without a status. If the config cannot be read, the world's name is
 * that of the file. */
static json_t *worlds_silent(const char *path, const struct config *cfg, const struct err *why)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    SCOPED(xfree) char *name =
        cfg ? xstrdup(cfg->name)
            : xasprintf("%.*s", (int)(strlen(file) - strlen(CONFIG_END)), file);
    json_t *o = json_pack("{s:o, s:n}", "world", js_clean(name), "state");
    js_set_clean(o, "error", why->text);
    js_set_clean(o, "hint", why->hint);
    return o;
}

static json_t *worlds_retired(const char *path, const struct config *cfg)
{
    json_t *o = json_pack("{s:o, s:n, s:b, s:i}", "world", js_clean(cfg->name), "state", "retired",
                          1, "exit", 0);
    js_set_clean(o, "config", path);
    return o;
}

/* Adds one world. If its config cannot be read, it counts neither as down nor as healthy, because
 * nothing is known about it. */
static void survey_one(void *arg, const char *path, const struct config *cfg,
                       const struct err *unreadable)
{
    struct survey *s = arg;
    struct err e = *unreadable;
    json_t *status = NULL;
    int rc = cfg ? ask_next(s, cfg, &status, &e) : -1;
    if (rc < 0 && cfg && cfg->retired) { /* no supervisor should answer for it */
        json_array_append_new(s->list, worlds_retired(path, cfg));
        return;
    }
    if (rc == 0)
        rc = worlds_judge(status, &e);
    else if (cfg)
        hint_error(cfg, HINT_HERE, &e);
    bool down = rc < 0 && cfg && e.cls != ERR_CONDITION;
    s->down += down;
    s->open += rc < 0 && !down;
    json_t *o = status ? status : worlds_silent(path, cfg, &e);
    js_set_clean(o, "config", path);
    js_set_int(o, "exit", rc == 0 ? 0 : err_exit(down ? ERR_UNWELL : ERR_CONDITION));
    json_array_append_new(s->list, o);
}

/* Asks all worlds, because one world in trouble must not hide others. The worst status decides. */
int worlds_status(const char *dir, json_t **result, struct err *e)
{
    static const char hint[] =
        "for a world whose config is elsewhere: worldkeeper --config FILE --status";
    struct survey s = {.list = json_array()};
    if (worlds_each(dir, survey_one, &s, e) < 0) {
        e->cls = ERR_USAGE;
        json_decref(s.list);
        return err_hint(e, hint);
    }
    size_t n = json_array_size(s.list);
    *result = json_pack("{s:o}", "worlds", s.list);
    if (n == 0) {
        err_set(e, ERR_USAGE, 0, "no world: %s holds no " CONFIG_END " file", dir);
        return err_hint(e, hint);
    }
    if (s.down)
        return err_set(e, ERR_UNWELL, 0, "%u of %zu worlds %s not up", s.down, n,
                       s.down == 1 ? "is" : "are");
    return s.open ? err_set(e, ERR_CONDITION, 0,
                            "%u of %zu worlds have open conditions or could not be read", s.open, n)
                  : 0;
}
