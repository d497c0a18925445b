#include "actions/hint_command.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/steps.h"

#define PROGRAM "worldkeeper"

static char *hint_command_name_of(uid_t uid)
{
    const struct passwd *p = getpwuid(uid);
    return p ? xstrdup(p->pw_name) : xasprintf("%u", (unsigned)uid);
}

static char *user_if_known(const struct config *cfg)
{
    struct stat st;
    if (geteuid() != 0)
        return hint_command_name_of(geteuid());
    if (stat(cfg->dump_dir, &st) == 0 && st.st_uid != 0)
        return hint_command_name_of(st.st_uid);
    return getpwnam(PROGRAM) ? xstrdup(PROGRAM) : NULL;
}

char *hint_user(const struct config *cfg)
{
    char *user = user_if_known(cfg);
    return user ? user : xstrdup("USER");
}

/* Is the config where --world and the service look for it? */
static bool in_usual_place(const struct config *cfg)
{
    SCOPED(xfree) char *usual = xasprintf("/etc/worldkeeper/%s.ini", cfg->name);
    return strcmp(cfg->path, usual) == 0;
}

/* Returns the user for runuser, or NULL if the reader is already the right user. A supervisor that
 * runs as root does so on purpose (--allow-root), and root owns its dumps. */
static char *user_to_name(const struct config *cfg, enum hint_reader reader)
{
    if (reader == HINT_ROOT)
        return geteuid() == 0 ? NULL : hint_command_name_of(geteuid());
    return geteuid() == 0 ? user_if_known(cfg) : NULL;
}

/* Appends "worldkeeper --world s8", preceded by runuser if needed. */
static void whole_command(const struct config *cfg, enum hint_reader reader, struct buf *b)
{
    SCOPED(xfree) char *user = user_to_name(cfg, reader);
    if (user)
        buf_printf(b, "runuser -u %s -- ", user);
    if (in_usual_place(cfg)) {
        buf_printf(b, PROGRAM " --world %s", cfg->name);
    } else {
        char *path = realpath(cfg->path, NULL);
        buf_adds(b, PROGRAM " --config ");
        buf_shell(b, path ? path : cfg->path);
        free(path);
    }
}

/* Returns the command to start the supervisor. If the service starts it, systemctl is the only
 * right way, because systemd does not manage a supervisor that was started manually. */
char *hint_start(const struct config *cfg)
{
    struct buf b = {0};
    if (!cfg->path || in_usual_place(cfg)) {
        buf_printf(&b, "systemctl start " PROGRAM "@%s", cfg->name);
    } else {
        whole_command(cfg, HINT_HERE, &b);
        buf_adds(&b, " --run");
    }
    return b.p;
}

/* Returns a user who may read the config: an owner other than root, or the user named like a group
 * that may read it. If the config cannot be seen, it is the package's user. NULL means root. */
static char *reader_of(const char *path)
{
    struct stat st;
    bool seen = stat(path, &st) == 0;
    const struct group *g = seen && (st.st_mode & S_IRGRP) ? getgrgid(st.st_gid) : NULL;
    if (seen && st.st_uid != 0)
        return hint_command_name_of(st.st_uid);
    if (g && st.st_gid != 0 && getpwnam(g->gr_name))
        return xstrdup(g->gr_name);
    return seen || !getpwnam(PROGRAM) ? NULL : xstrdup(PROGRAM);
}

char *hint_retype(const char *path, char *const *argv)
{
    struct buf b = {0};
    SCOPED(xfree) char *user = reader_of(path);
    buf_adds(&b, "as root: ");
    if (user)
        buf_printf(&b, "runuser -u %s -- ", user);
    buf_adds(&b, PROGRAM);
    for (size_t i = 1; argv[0] && argv[i]; i++) {
        buf_addc(&b, ' ');
        buf_shell(&b, argv[i]);
    }
    return b.p;
}

/* Does the command already name the world, or need none? Also true for the end of runuser's "-u
 * worldkeeper --", which is not an option: the user has the program's name. */
static bool hint_command_is_whole(const char *options)
{
    return text_starts(options, "--world") || text_starts(options, "--config") ||
           text_starts(options, "--help") || options[2] < 'a' || options[2] > 'z';
}

/* Completes the commands in a hint. The code that writes hints knows neither the world nor the
 * reader. */
void hint_command(const struct config *cfg, enum hint_reader reader, const char *hint,
                  struct buf *out)
{
    /* Places are found in the copy, and texts are taken from the hint. */
    SCOPED(xfree) char *plain = steps_unquoted(hint);
    const char *at, *s = plain;
    while (cfg->path && (at = strstr(s, PROGRAM " --"))) {
        const char *options = at + strlen(PROGRAM " ");
        buf_add(out, hint + (s - plain), (size_t)(at - s));
        if (hint_command_is_whole(options))
            buf_adds(out, PROGRAM);
        else
            whole_command(cfg, reader, out);
        buf_adds(out, " --");
        s = options + 2;
    }
    buf_adds(out, hint + (s - plain));
}

void hint_error(const struct config *cfg, enum hint_reader reader, struct err *e)
{
    SCOPED(buf_free) struct buf hint = {0};
    hint_command(cfg, reader, e->hint, &hint);
    err_hint(e, "%s", hint.p);
}
