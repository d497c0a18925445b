#include "setup/scripts.h"
#include "setup/admin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINES_LONGEST 4096 /* of the places in crontabs, as they are shown */

/* Finds migrate.sh: beside the directory of an installed program, in the source tree of a program
 * that was not installed. */
int scripts_migrate_path(char out[PATH_LONGEST], struct err *e)
{
    static const char *const places[] = {"../share/worldkeeper/migrate.sh",
                                         "../../scripts/migrate.sh"};
    char self[PATH_LONGEST];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        int len = snprintf(out, PATH_LONGEST, "%.*s%s", (int)(slash + 1 - self), self, places[i]);
        if (len < PATH_LONGEST && access(out, X_OK) == 0)
            return 0;
    }
    return err_set(e, ERR_SYSTEM, 0, "cannot find migrate.sh, which is installed with worldkeeper");
}

int scripts_note(struct setup *s, const char *config_path, struct err *e)
{
    struct config *cfg = NULL;
    struct err why = {0};
    struct made *m = &s->x.made;
    SCOPED(xfree) char *base = xstrndup(config_path, strlen(config_path) - strlen(".ini"));
    SCOPED(xfree) char *record = xasprintf("%s.setup", base);
    SCOPED(xfree) char *secret = xasprintf("%s.password", base);
    int rc = made_open(m, record, false, e);
    made_set_scripts(m, s->from_cron);
    if (rc == 0 && config_load(config_path, &cfg, &why) == 0 && cfg->mysql.password_file &&
        strcmp(cfg->mysql.password_file, secret) == 0)
        rc = effect_adopt(&s->x, secret, e);
    if (rc == 0)
        rc = effect_adopt(&s->x, config_path, e);
    made_free(m);
    config_free(cfg);
    return rc;
}

/* Reads the lines of cron that start the scripts, each as FILE:NUMBER. */
static int scripts_lines(const struct setup *s, const char *dir, struct buf *out, struct err *e)
{
    char script[PATH_LONGEST];
    if (scripts_migrate_path(script, e) < 0)
        return -1;
    const char *const argv[] = {script, "--root", s->root, "--cron-lines", dir, NULL};
    int rc = effect_read(argv, LINES_LONGEST, out, e);
    return rc <= 0 ? rc : err_set(e, ERR_SYSTEM, 0, "cannot read the lines of cron");
}

int scripts_ended(struct setup *s, const char *schema, struct err *e)
{
    SCOPED(buf_free) struct buf lines = {0}, shown = {0}, options = {0};
    const char *dir = made_scripts(&s->x.made);
    /* Scripts that were deleted or moved cannot be started. */
    bool gone = !s->from_cron && dir && access(dir, F_OK) < 0 && errno == ENOENT;
    if (!dir || gone || s->x.dry)
        return 0;
    if (scripts_lines(s, dir, &lines, e) < 0)
        return -1;
    if (!lines.len && !s->from_cron)
        return 0;
    for (size_t i = 0; i < (s->from_cron ? s->taken_over->count : 1); i++) {
        buf_adds(&options, " --schema ");
        buf_shell(&options, s->from_cron ? s->taken_over->list[i] : schema);
    }
    if (!lines.len) {
        err_set(e, ERR_REFUSED, 0,
                "cannot find a line of cron that starts the scripts in %s; whatever starts them "
                "would restore the world, too",
                dir);
        return err_hint(e,
                        "find and stop what starts them (crontab -l of each user, systemctl "
                        "list-timers). If nothing starts them, continue with: worldkeeper-setup%s",
                        options.p);
    }
    for (char *p = lines.p; (p = strchr(p, '\n'));)
        *p = ' ';
    text_clean(&shown, lines.p, lines.len);
    err_set(e, ERR_REFUSED, 0,
            "cron still starts the scripts in %s, which would restore the world, too: %s", dir,
            shown.p);
    return err_hint(e,
                    "remove these lines of the crontabs, then continue with: worldkeeper-setup%s",
                    options.p);
}
