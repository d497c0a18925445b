#include "setup/scripts.h"
#include "setup/admin.h"

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

int scripts_note(struct setup *s, const struct config *cfg, const char *config_path, struct err *e)
{
    SCOPED(xfree) char *secret = setup_config_path(s, cfg->name, ".password");
    if (!s->from_cron)
        return 0;
    if (cfg->mysql.password_file && strcmp(cfg->mysql.password_file, secret) == 0 &&
        effect_adopt(&s->x, secret, e) < 0)
        return -1;
    return effect_adopt(&s->x, config_path, e);
}

int scripts_ended(struct setup *s, struct err *e)
{
    char script[PATH_LONGEST];
    SCOPED(buf_free) struct buf lines = {0}, shown = {0};
    if (!s->from_cron || s->x.dry)
        return 0;
    if (scripts_migrate_path(script, e) < 0)
        return -1;
    const char *const argv[] = {script, "--root", s->root, "--cron-lines", s->from_cron, NULL};
    int rc = effect_read(argv, LINES_LONGEST, &lines, e);
    if (rc != 0)
        return rc < 0 ? -1 : err_set(e, ERR_SYSTEM, 0, "cannot read the lines of cron");
    SCOPED(buf_free) struct buf name = {0};
    buf_shell(&name, s->taken_over);
    if (!lines.len) {
        err_set(e, ERR_REFUSED, 0,
                "no line of cron starts the scripts in %s, as far as setup understands them: what "
                "does would restore the world, too",
                s->from_cron);
        return err_hint(e,
                        "end what starts them (crontab -l of each user, systemctl list-timers); "
                        "if nothing does: worldkeeper-setup --schema %s, which continues",
                        name.p);
    }
    for (char *p = lines.p; (p = strchr(p, '\n'));)
        *p = ' ';
    text_clean(&shown, lines.p, lines.len);
    err_set(e, ERR_REFUSED, 0,
            "cron still starts the scripts in %s, which would restore the world, too: %s",
            s->from_cron, shown.p);
    return err_hint(
        e,
        "remove these lines of the crontabs; then: worldkeeper-setup --schema %s, which "
        "continues",
        name.p);
}
