#include "actions/hint_command.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM "worldkeeper"

static char *name_of(uid_t uid)
{
    const struct passwd *p = getpwuid(uid);
    return p ? xstrdup(p->pw_name) : xasprintf("%u", (unsigned)uid);
}

static char *user_if_known(const struct config *cfg)
{
    struct stat st;
    if (geteuid() != 0)
        return name_of(geteuid());
    if (stat(cfg->dump_dir, &st) == 0 && st.st_uid != 0)
        return name_of(st.st_uid);
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

/* The user for runuser; NULL: the reader is the right user already. A supervisor that runs as root
 * does so on purpose (--allow-root), and its dumps are root's. */
static char *user_to_name(const struct config *cfg, enum hint_reader reader)
{
    if (reader == HINT_ROOT)
        return geteuid() == 0 ? NULL : name_of(geteuid());
    return geteuid() == 0 ? user_if_known(cfg) : NULL;
}

/* "worldkeeper --world s8", with runuser before it if needed. */
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

/* Where the service starts it, systemctl is the only right way: a supervisor that was started by hand is none of its. */
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

/* A user who may read the config: an owner other than root, or the user with the name of a group
 * that may; for a config that cannot be seen, the package's user. NULL: root. */
static char *reader_of(const char *path)
{
    struct stat st;
    bool seen = stat(path, &st) == 0;
    const struct group *g = seen && (st.st_mode & S_IRGRP) ? getgrgid(st.st_gid) : NULL;
    if (seen && st.st_uid != 0)
        return name_of(st.st_uid);
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

/* Does the command name the world already, or need none? Or is it no option but the end of
 * runuser's "-u worldkeeper --", where the user has the program's name? */
static bool is_whole(const char *options)
{
    return text_starts(options, "--world") || text_starts(options, "--config") ||
           text_starts(options, "--help") || options[2] < 'a' || options[2] > 'z';
}

/* Hints are written once, without a world, by code that does not know who will read them. */
void hint_command(const struct config *cfg, enum hint_reader reader, const char *hint,
                  struct buf *out)
{
    const char *at;
    while (cfg->path && (at = strstr(hint, PROGRAM " --"))) {
        const char *options = at + strlen(PROGRAM " ");
        buf_add(out, hint, (size_t)(at - hint));
        if (is_whole(options))
            buf_adds(out, PROGRAM);
        else
            whole_command(cfg, reader, out);
        buf_addc(out, ' ');
        buf_adds(out, "--");
        hint = options + 2;
    }
    buf_adds(out, hint);
}

void hint_error(const struct config *cfg, enum hint_reader reader, struct err *e)
{
    SCOPED(buf_free) struct buf hint = {0};
    hint_command(cfg, reader, e->hint, &hint);
    err_hint(e, "%s", hint.p);
}
